//! Routes of the self-learning strategy.

use super::*;
use nw_api::management::RibEntry;

/// Expiration period of one hour.
const HOUR: [u8; 6] = [0x6d, 4, 0, 0x36, 0xee, 0x80];

fn announcement(name: &str, content: &[u8]) -> Vec<u8> {
    let name = constant_name(name);
    let Ok(wire) = DataBuilder::new(&name, content).content_type(5).encode(&DigestSha256);
    wire
}

fn learn(router: &mut TestRouter, wire: &[u8]) -> bool {
    let ingress = router.ingress(NEIGHBOUR);
    router.control.learn(router.now, ingress, wire, &mut router.authority, &mut router.env)
}

fn unlearn(router: &mut TestRouter, name: &str) -> bool {
    let ingress = router.ingress(NEIGHBOUR);
    router.control.unlearn(router.now, ingress, constant_name(name).as_ref(), &mut router.env)
}

#[test]
fn learn_announcement_creates_route_for_ten_minutes() {
    let mut router = TestRouter::new();
    let wire = announcement("/net/32=PA/v=1/seg=0", &HOUR);
    assert!(learn(&mut router, &wire));
    assert_eq!(router.hops("/net"), Some(vec![(NEIGHBOUR, 2048)]));
    let end = router.now.plus_millis(600_000);
    assert_eq!(router.env.announcements[&constant_name("/net")], (wire.clone(), end));
    let entries: Vec<RibEntry> = router.items(Dataset::RibList);
    let entry = entries.iter().find(|entry| entry.name == constant_name("/net")).unwrap();
    assert_eq!((entry.routes[0].origin, entry.routes[0].expiration_period), (129, Some(600_000)));
    router.now = router.now.plus_millis(300_000);
    assert!(learn(&mut router, &wire), "learned again: expires later");
    router.now = router.now.plus_millis(599_999);
    router.control.on_timeout(router.now, &mut router.env);
    assert!(router.hops("/net").is_some());
    router.now = router.now.plus_millis(1);
    router.control.on_timeout(router.now, &mut router.env);
    assert_eq!(router.hops("/net"), None);
    let short = announcement("/short/32=PA/v=1/seg=0", &[0x6d, 1, 50]);
    assert!(learn(&mut router, &short));
    assert_eq!(router.env.announcements[&constant_name("/short")].1, router.now.plus_millis(50));
}

#[test]
fn learn_invalid_announcement_is_refused() {
    let mut router = TestRouter::new();
    for name in ["/localhost/nfd/32=PA/v=1/seg=0", "/localhost/32=PA/v=1/seg=0", "/a/PA/v=1/seg=0"]
    {
        assert!(!learn(&mut router, &announcement(name, &HOUR)), "{name}");
    }
    assert!(!learn(&mut router, b"noise"));
    assert!(!learn(&mut router, &announcement("/a/32=PA/v=1/seg=0", &[])));
    router.authority.announcements = Verdict::Deny("an unknown key".into());
    assert!(!learn(&mut router, &announcement("/a/32=PA/v=1/seg=0", &HOUR)));
    router.authority.announcements = Verdict::Accept;
    router.env.faces.remove(&FaceId::from_number(NEIGHBOUR).unwrap());
    assert!(!learn(&mut router, &announcement("/a/32=PA/v=1/seg=0", &HOUR)), "its face is closed");
    assert!(router.env.announcements.is_empty());
}

#[test]
fn unlearn_removes_learned_routes_only() {
    let mut router = TestRouter::new();
    assert!(learn(&mut router, &announcement("/net/32=PA/v=1/seg=0", &HOUR)));
    let direct = ControlParameters { face_id: Some(NEIGHBOUR), ..parameters_for("/net/a") };
    assert_eq!(router.command(Verb::RibRegister, direct).code, 200);
    assert!(!unlearn(&mut router, "/other/x"));
    assert!(unlearn(&mut router, "/net/a/b"));
    assert_eq!(router.hops("/net"), None);
    assert_eq!(router.hops("/net/a"), Some(vec![(NEIGHBOUR, 0)]));
    assert!(!unlearn(&mut router, "/net/a/b"), "no learned route is left");
    assert!(
        router.env.announcements[&constant_name("/net")].1 <= router.now,
        "the announcement is no longer attached"
    );
}
