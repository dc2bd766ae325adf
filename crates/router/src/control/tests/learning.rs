//! Routes that self-learning finds.

use super::*;
use nw_api::management::RibEntry;

/// An hour.
const HOUR: [u8; 6] = [0x6d, 4, 0, 0x36, 0xee, 0x80];

fn announcement(name: &str, content: &[u8]) -> Vec<u8> {
    let name = named(name);
    let Ok(wire) = DataBuilder::new(&name, content).content_type(5).encode(&DigestSha256);
    wire
}

fn learn(bench: &mut Bench, wire: &[u8]) -> bool {
    let ingress = bench.ingress(NEIGHBOUR);
    bench.control.learn(bench.now, ingress, wire, &mut bench.gate, &mut bench.env)
}

fn unlearn(bench: &mut Bench, name: &str) -> bool {
    let ingress = bench.ingress(NEIGHBOUR);
    bench.control.unlearn(bench.now, ingress, named(name).as_ref(), &mut bench.env)
}

#[test]
fn an_announcement_becomes_a_route_for_ten_minutes() {
    let mut bench = Bench::new();
    let wire = announcement("/net/32=PA/v=1/seg=0", &HOUR);
    assert!(learn(&mut bench, &wire));
    assert_eq!(bench.hops("/net"), Some(vec![(NEIGHBOUR, 2048)]));
    let end = bench.now.plus_millis(600_000);
    assert_eq!(bench.env.announced[&named("/net")], (wire.clone(), end));
    let entries: Vec<RibEntry> = bench.items(Dataset::RibList);
    let entry = entries.iter().find(|entry| entry.name == named("/net")).unwrap();
    assert_eq!((entry.routes[0].origin, entry.routes[0].expiration_period), (129, Some(600_000)));
    bench.now = bench.now.plus_millis(300_000);
    assert!(learn(&mut bench, &wire), "once more: longer");
    bench.now = bench.now.plus_millis(599_999);
    bench.control.on_timeout(bench.now, &mut bench.env);
    assert!(bench.hops("/net").is_some());
    bench.now = bench.now.plus_millis(1);
    bench.control.on_timeout(bench.now, &mut bench.env);
    assert_eq!(bench.hops("/net"), None);
    let short = announcement("/short/32=PA/v=1/seg=0", &[0x6d, 1, 50]);
    assert!(learn(&mut bench, &short));
    assert_eq!(bench.env.announced[&named("/short")].1, bench.now.plus_millis(50));
}

#[test]
fn what_may_not_be_learnt() {
    let mut bench = Bench::new();
    for name in ["/localhost/nfd/32=PA/v=1/seg=0", "/localhost/32=PA/v=1/seg=0", "/a/PA/v=1/seg=0"] {
        assert!(!learn(&mut bench, &announcement(name, &HOUR)), "{name}");
    }
    assert!(!learn(&mut bench, b"noise"));
    assert!(!learn(&mut bench, &announcement("/a/32=PA/v=1/seg=0", &[])));
    bench.gate.announcements = Verdict::Deny("an unknown key".into());
    assert!(!learn(&mut bench, &announcement("/a/32=PA/v=1/seg=0", &HOUR)));
    bench.gate.announcements = Verdict::Accept;
    bench.env.faces.remove(&FaceId::from_number(NEIGHBOUR).unwrap());
    assert!(!learn(&mut bench, &announcement("/a/32=PA/v=1/seg=0", &HOUR)), "its face is gone");
    assert!(bench.env.announced.is_empty());
}

#[test]
fn a_nack_ends_learnt_routes_only() {
    let mut bench = Bench::new();
    assert!(learn(&mut bench, &announcement("/net/32=PA/v=1/seg=0", &HOUR)));
    let by_hand = ControlParameters { face_id: Some(NEIGHBOUR), ..named_parameters("/net/a") };
    assert_eq!(bench.command(Verb::RibRegister, by_hand).code, 200);
    assert!(!unlearn(&mut bench, "/other/x"));
    assert!(unlearn(&mut bench, "/net/a/b"));
    assert_eq!(bench.hops("/net"), None);
    assert_eq!(bench.hops("/net/a"), Some(vec![(NEIGHBOUR, 0)]));
    assert!(!unlearn(&mut bench, "/net/a/b"), "there is none left");
    assert!(bench.env.announced[&named("/net")].1 <= bench.now, "nor is it sent along any more");
}
