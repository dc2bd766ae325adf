//! Faces of network interfaces, over a virtual cable between two network namespaces. Needs root and
//! `ip`; without them the tests report it and pass.

use crate::common::{Host, data, interest};
use nw_element_api::{DropCause, Kind};
use nw_faces::config::ReassemblyLimits;
use nw_faces::interfaces::filter::{Filter, Pattern};
use nw_faces::interfaces::policy::{EtherPolicy, GroupPolicy, InterfacePolicy};
use nw_faces::{
    FaceError, FaceEvent, FaceId, FaceOptions, FaceStatus, FaceUri, FacesConfig, LinkType,
    Persistency, Scope,
};
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const GROUP: &str = "ether://[01:00:5e:00:17:aa]";

fn ip(words: &str) -> bool {
    succeeds("ip", words)
}

fn succeeds(program: &str, words: &str) -> bool {
    let run = Command::new(program)
        .args(words.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    run.is_ok_and(|status| status.success())
}

/// Reports a skipped test and the reason on the process's own standard error, which the test runner
/// does not hide.
fn skip(why: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = std::io::stderr().write_all(format!("SKIPPED: {test}: {why}\n").as_bytes());
}

/// Namespaces made so far, with one command at a time: the first ones prepare the directory of
/// namespaces.
static MADE: Mutex<u32> = Mutex::new(0);

/// Makes a network namespace and returns its name, or why there is none.
fn make_namespace() -> Result<String, String> {
    let mut made = MADE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    *made += 1;
    let name = format!("nwf{}-{made}", std::process::id());
    match Command::new("ip").args(["netns", "add", &name]).output() {
        Ok(output) if output.status.success() => Ok(name),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Moves this thread into a network namespace.
fn enter(netns: &File) {
    // SAFETY: setns takes two numbers; it moves the calling thread only, and no thread of the test
    // shares its sockets.
    assert_eq!(unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
}

/// A namespace with one end of the cable, and what is tested in it.
struct Side {
    netns: String,
    handle: File,
    home: File,
    card: &'static str,
    host: Host,
}

impl Side {
    fn new(card: &'static str, config: FacesConfig) -> Option<Side> {
        let explain = |why| {
            skip(&format!("root and the command ip are needed, to make network namespaces: {why}"));
        };
        let netns = make_namespace().map_err(explain).ok()?;
        let handle = File::open(format!("/run/netns/{netns}")).unwrap();
        let home = File::open("/proc/thread-self/ns/net").unwrap();
        Some(Side { netns, handle, home, card, host: Host::new(config) })
    }

    /// Runs `act` in the namespace.
    fn inside<T>(&mut self, act: impl FnOnce(&mut Host) -> T) -> T {
        enter(&self.handle);
        let done = act(&mut self.host);
        enter(&self.home);
        done
    }

    fn apply(&mut self, policy: InterfacePolicy) {
        self.inside(|host| {
            let now = host.now();
            host.faces.set_interface_policy(now, policy, &mut host.pool).unwrap();
        });
    }

    fn connect(&mut self, uri: &str, local: &str) -> Result<FaceId, FaceError> {
        let (uri, local) = (uri.parse().unwrap(), local.parse().unwrap());
        self.inside(|host| {
            host.faces.connect(host.now(), &uri, Some(&local), &FaceOptions::default())
        })
    }

    /// Returns the face with this remote URI.
    fn face(&self, uri: &str) -> Option<FaceStatus> {
        let faces = self.host.faces.ids().filter_map(|id| self.host.faces.status(id));
        faces.into_iter().find(|face| face.uri.to_string().starts_with(uri))
    }

    /// Returns what `ip` shows of the card.
    fn link(&self) -> String {
        let run = Command::new("ip")
            .args(["-n", &self.netns, "-o", "link", "show", self.card])
            .output()
            .unwrap();
        String::from_utf8(run.stdout).unwrap()
    }

    fn mac(&self) -> String {
        self.link().split("link/ether ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.host.faces.close_all(&mut self.host.pool);
        ip(&format!("netns delete {}", self.netns));
    }
}

struct Cable {
    a: Side,
    b: Side,
}

impl Cable {
    fn new() -> Option<Cable> {
        // On a busy machine one loop iteration may take longer than the reassembly timeout.
        let reassembly =
            ReassemblyLimits { timeout: Duration::from_secs(60), ..ReassemblyLimits::default() };
        let config = FacesConfig { reassembly, ..FacesConfig::default() };
        let a = Side::new("va", config.clone())?;
        let b = Side::new("vb", config)?;
        let cable = Cable { a, b };
        cable.plug();
        Some(cable)
    }

    fn plug(&self) {
        let (a, b) = (&self.a.netns, &self.b.netns);
        assert!(ip(&format!("-n {a} link add va type veth peer name vb netns {b}")));
        for (side, number) in [(&self.a, 1), (&self.b, 2)] {
            assert!(ip(&format!(
                "-n {} address add 192.0.2.{number}/24 dev {}",
                side.netns, side.card
            )));
            assert!(ip(&format!("-n {} link set {} up", side.netns, side.card)));
        }
        self.await_carrier();
    }

    fn await_carrier(&self) {
        // Until then the kernel discards sent packets, up to a second after the other end is up.
        let end = Instant::now() + Duration::from_secs(30);
        while [&self.a, &self.b].iter().any(|side| !side.link().contains("state UP")) {
            assert!(Instant::now() < end, "no carrier within 30 s");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Cable) -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !holds(self) {
            assert!(Instant::now() < end, "{what}: not within 30 s");
            self.a.inside(|host| host.turn(5));
            self.b.inside(|host| host.turn(5));
        }
    }

    /// A sends an Interest on a face, and B answers with more than a frame holds on the face that
    /// it arrived on.
    fn exchange(&mut self, face: FaceId) -> FaceId {
        let (asked, answered) = (self.b.host.received.len(), self.a.host.received.len());
        for _ in 0..20 {
            self.a.host.send(face, Kind::Interest, &interest("x"));
        }
        let what =
            format!("the Interests by {:?}", self.a.host.faces.status(face).map(|face| face.uri));
        self.until(&what, |cable| cable.b.host.received.len() == asked + 20);
        let (back, _, bytes) = self.b.host.received[asked].clone();
        assert_eq!(bytes, interest("x"));
        for _ in 0..20 {
            self.b.host.send(back, Kind::Data, &data("x", 8000));
        }
        self.until("the Data", |cable| cable.a.host.received.len() == answered + 20);
        assert!(
            self.a.host.received[answered..]
                .iter()
                .all(|(id, _, got)| *id == face && *got == data("x", 8000))
        );
        back
    }
}

fn ether(multicast: bool, listen: bool) -> InterfacePolicy {
    let ethernet = EtherPolicy { multicast, listen, ..EtherPolicy::default() };
    InterfacePolicy { ethernet: Some(ethernet), udp: None }
}

fn udp() -> GroupPolicy {
    let groups = ["224.0.23.170:56363", "[ff02::1234]:56363"].map(|group| group.parse().unwrap());
    GroupPolicy { groups: groups.into(), ad_hoc: true, filter: Filter::default() }
}

#[test]
fn ethernet_group_exchanges_packets() {
    let Some(mut cable) = Cable::new() else { return };
    cable.a.apply(ether(true, false));
    cable.b.apply(ether(true, false));
    let face = cable.a.face(GROUP).unwrap();
    assert_eq!((face.local_uri.to_string().as_str(), face.mtu), ("dev://va", Some(1500)));
    assert_eq!(
        (face.link_type, face.persistency, face.scope),
        (LinkType::MultiAccess, Persistency::Permanent, Scope::NonLocal)
    );
    cable.exchange(face.id);
    let after = cable.a.face(GROUP).unwrap().counters;
    assert_eq!((after.in_interests, after.in_data), (0, 20), "what was sent did not come back");
    assert_eq!(cable.a.host.created().len(), 1, "no faces but the group's");
    assert!(
        matches!(cable.a.connect(GROUP, "dev://va"), Err(FaceError::Exists(id)) if id == face.id)
    );
}

#[test]
fn ethernet_peers_get_faces() {
    let Some(mut cable) = Cable::new() else { return };
    cable.b.apply(ether(false, true));
    assert_eq!(cable.b.host.faces.listeners()[0].uri.to_string(), "dev://vb");
    let (own, peer) =
        (format!("ether://[{}]", cable.a.mac()), format!("ether://[{}]", cable.b.mac()));
    let face = cable.a.connect(&peer, "dev://va").unwrap();
    let back = cable.exchange(face);
    let back = cable.b.host.faces.status(back).unwrap();
    assert_eq!((back.uri.to_string(), back.persistency), (own.clone(), Persistency::OnDemand));
    for (uri, local) in [
        (&own, "dev://va"),
        (&peer, "dev://lo"),
        (&peer, "dev://none"),
        (&peer, "udp4://192.0.2.1"),
    ] {
        assert!(cable.a.connect(uri, local).is_err(), "{uri} {local}");
    }
    // Idle for ten minutes.
    cable.b.host.skipped_ms += 600_001;
    cable.until("its end", |cable| cable.b.host.destroyed() == [back.id]);
}

#[test]
fn vlan_frames_are_exchanged() {
    let Some(mut cable) = Cable::new() else { return };
    if !ip(&format!("-n {} link add link vb name vb.7 type vlan id 7", cable.b.netns)) {
        return skip("this kernel has no VLANs (802.1Q): run by tests/vm/vlan");
    }
    assert!(ip(&format!("-n {} link set vb.7 up", cable.b.netns)));
    let tagged = EtherPolicy { multicast: true, vlan: 7, ..EtherPolicy::default() };
    cable.a.apply(InterfacePolicy { ethernet: Some(tagged), udp: None });
    // Both work: the cable itself and the kernel's VLAN interface, which removes and adds the tag.
    cable.b.apply(ether(true, false));
    let face = cable.a.face(GROUP).unwrap().id;
    let back = cable.exchange(face);
    assert_eq!(cable.b.host.faces.status(back).unwrap().local_uri.to_string(), "dev://vb.7");
}

/// Sends raw frames from one end of the cable.
struct RawFrames {
    socket: OwnedFd,
}

impl RawFrames {
    fn open(side: &mut Side) -> RawFrames {
        let socket = side.inside(|_| {
            // SAFETY: the call takes three numbers.
            let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
            assert!(socket >= 0, "a packet socket");
            // SAFETY: a descriptor that was made just now and that nothing else owns.
            unsafe { OwnedFd::from_raw_fd(socket) }
        });
        let name = std::ffi::CString::new(side.card).unwrap();
        // SAFETY: sockaddr_ll is plain C data; the name ends with a zero; the address lives until
        // bind returns.
        let bound = side.inside(|_| unsafe {
            let mut address: libc::sockaddr_ll = core::mem::zeroed();
            address.sll_family = libc::AF_PACKET as _;
            address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as _;
            libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as _)
        });
        assert_eq!(bound, 0);
        RawFrames { socket }
    }

    /// Sends an Interest in a frame with tags, to the NDN group.
    fn send(&self, tags: &[[u8; 4]], name: &str) {
        let mut frame = vec![0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa, 2, 0, 0, 0, 0, 99];
        tags.iter().for_each(|tag| frame.extend_from_slice(tag));
        frame.extend_from_slice(&[0x86, 0x24]);
        frame.extend_from_slice(&interest(name));
        frame.resize(frame.len().max(60), 0);
        // SAFETY: the buffer is as long as said, and lives until the call returns.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
    }
}

#[test]
fn vlan_receives_its_own_frames_and_no_others() {
    for vlan in [0, 7] {
        let Some(mut cable) = Cable::new() else { return };
        let policy = EtherPolicy { multicast: true, vlan, ..EtherPolicy::default() };
        cable.b.apply(InterfacePolicy { ethernet: Some(policy), udp: None });
        let raw = RawFrames::open(&mut cable.a);
        let tag = |id: u8| [0x81, 0x00, 0x00, id];
        for (tags, name) in [
            (&[][..], "untagged"),
            // Priority 5, no VLAN.
            (&[[0x81, 0x00, 0xa0, 0x00]], "priority"),
            (&[tag(7)], "vlan-7"),
            (&[[0x81, 0x00, 0xa0, 0x07]], "vlan-7-priority"),
            (&[tag(8)], "vlan-8"),
            (&[[0x88, 0xa8, 0x00, 7], tag(9)], "tag-in-tag"),
            (&[[0x88, 0xa8, 0x00, 9], tag(7)], "tag-in-tag"),
            (&[tag(9), tag(7)], "tag-in-tag"),
        ] {
            raw.send(tags, name);
        }
        // Frames arrive in order: after this one, none of the others is in flight.
        let last = if vlan == 0 { &[][..] } else { &[[0x81, 0x00, 0x00, 7]][..] };
        raw.send(last, "last");
        cable.until("the last frame", |cable| {
            cable.b.host.received.last().is_some_and(|(.., bytes)| *bytes == interest("last"))
        });
        let expected = if vlan == 0 {
            ["untagged", "priority", "last"].map(interest)
        } else {
            ["vlan-7", "vlan-7-priority", "last"].map(interest)
        };
        let received: Vec<_> =
            cable.b.host.received.iter().map(|(.., bytes)| bytes.clone()).collect();
        assert_eq!(received, expected, "VLAN {vlan}");
    }
}

#[test]
fn vlan_on_both_ends_works_and_other_vlan_does_not() {
    let Some(mut cable) = Cable::new() else { return };
    let tagged = |vlan| InterfacePolicy {
        ethernet: Some(EtherPolicy {
            multicast: true,
            listen: true,
            vlan,
            ..EtherPolicy::default()
        }),
        udp: None,
    };
    cable.a.apply(tagged(100));
    cable.b.apply(tagged(100));
    let face = cable.a.face(GROUP).unwrap().id;
    cable.exchange(face);
    assert_eq!(
        cable.a.face(GROUP).unwrap().counters.in_interests,
        0,
        "what was sent did not come back"
    );
    let peer = format!("ether://[{}]", cable.b.mac());
    let single = cable.a.connect(&peer, "dev://va").unwrap();
    cable.exchange(single);
    for vlan in [0, 101] {
        cable.b.apply(tagged(vlan));
        cable.b.host.received.clear();
        let face = cable.a.face(GROUP).unwrap().id;
        for _ in 0..20 {
            cable.a.host.send(face, Kind::Interest, &interest("x"));
            cable.a.inside(|host| host.turn(1));
            cable.b.inside(|host| host.turn(1));
        }
        assert!(cable.b.host.received.is_empty(), "VLAN 100 leaks to {vlan}");
    }
}

#[test]
fn udp_groups_exchange_packets() {
    let Some(mut cable) = Cable::new() else { return };
    for side in [&mut cable.a, &mut cable.b] {
        side.apply(InterfacePolicy { udp: Some(udp()), ethernet: None });
    }
    for (uri, local) in [
        ("udp4://224.0.23.170:56363", "udp4://192.0.2.1:56363"),
        ("udp6://[ff02::1234%", "udp6://[fe80::"),
    ] {
        // IPv6 addresses can be used after duplicate address detection.
        cable.until("both faces", |cable| {
            cable.a.face(uri).is_some() && cable.b.face(uri).is_some()
        });
        let face = cable.a.face(uri).unwrap();
        assert!(face.local_uri.to_string().starts_with(local), "{}", face.local_uri);
        assert_eq!((face.link_type, face.persistency), (LinkType::AdHoc, Persistency::Permanent));
        cable.exchange(face.id);
        assert_eq!(
            cable.a.face(uri).unwrap().counters.in_interests,
            0,
            "what was sent did not come back"
        );
    }
}

/// Returns the faces, and whether each is up.
fn faces_of(side: &Side) -> Vec<(FaceId, bool)> {
    let faces = &side.host.faces;
    faces.ids().map(|id| (id, faces.status(id).unwrap().up)).collect()
}

fn all(side: &Side, up: bool) -> bool {
    faces_of(side).iter().all(|(_, is_up)| *is_up == up)
}

/// Returns a cable with faces of every kind on both ends, and the ids of A's faces: to the Ethernet
/// group, the IPv4 group, B's card.
fn full_cable() -> Option<(Cable, [FaceId; 3])> {
    let mut cable = Cable::new()?;
    let policy = InterfacePolicy { udp: Some(udp()), ..ether(true, true) };
    for side in [&mut cable.a, &mut cable.b] {
        side.apply(policy.clone());
    }
    let peer = format!("ether://[{}]", cable.b.mac());
    let single = cable.a.connect(&peer, "dev://va").unwrap();
    // The IPv6 groups follow when duplicate address detection has ended.
    cable.until("all groups", |cable| {
        [&cable.a, &cable.b].iter().all(|side| side.face("udp6://").is_some())
    });
    let ids = [cable.a.face(GROUP).unwrap().id, cable.a.face("udp4://224").unwrap().id, single];
    for id in ids {
        cable.exchange(id);
    }
    Some((cable, ids))
}

/// Checks that the faces are the same as before, up and working.
fn check_same(cable: &mut Cable, ids: [FaceId; 3], before: &[FaceId]) {
    cable.await_carrier();
    cable.until("all faces are up", |cable| all(&cable.a, true) && all(&cable.b, true));
    assert_eq!(cable.a.host.faces.ids().collect::<Vec<_>>(), before);
    assert!(cable.a.host.destroyed().is_empty() && cable.b.host.destroyed().is_empty());
    for id in ids {
        cable.exchange(id);
    }
}

#[test]
fn faces_survive_many_interface_changes() {
    let Some((mut cable, ids)) = full_cable() else { return };
    let before: Vec<FaceId> = cable.a.host.faces.ids().collect();
    let counted = cable.a.face(GROUP).unwrap().counters.out_interests;
    let storm: String = (0..200).map(|_| "link set va down\nlink set va up\n").collect();
    for at_once in [true, false] {
        let mut run = Command::new("ip")
            .args(["-n", &cable.a.netns, "-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        run.stdin.take().unwrap().write_all(storm.as_bytes()).unwrap();
        // All changes in one iteration, or in several.
        while !at_once && run.try_wait().unwrap().is_none() {
            cable.a.inside(|host| host.turn(1));
            cable.b.inside(|host| host.turn(1));
        }
        assert!(run.wait().unwrap().success());
        check_same(&mut cable, ids, &before);
    }
    assert!(cable.a.face(GROUP).unwrap().counters.out_interests > counted, "counters go on");
    cable.a.host.check_pool();
}

#[test]
fn faces_are_down_while_interface_is_down() {
    let Some((mut cable, ids)) = full_cable() else { return };
    let before: Vec<FaceId> = cable.a.host.faces.ids().collect();
    assert!(ip(&format!("-n {} link set va down", cable.a.netns)));
    cable.until("all are down", |cable| all(&cable.a, false));
    let down = |event: &&FaceEvent| matches!(event, FaceEvent::Down(id) if ids.contains(id));
    assert_eq!(cable.a.host.events.iter().filter(down).count(), 3);
    cable.a.host.send(ids[0], Kind::Interest, &interest("x"));
    assert_eq!(cable.a.host.faces.drops().total(DropCause::FaceDown), 1);
    assert!(ip(&format!("-n {} link set va up", cable.a.netns)));
    check_same(&mut cable, ids, &before);
}

#[test]
fn group_face_is_down_without_address() {
    let Some((mut cable, ids)) = full_cable() else { return };
    let before: Vec<FaceId> = cable.a.host.faces.ids().collect();
    let up = |cable: &Cable, id| cable.a.host.faces.status(id).unwrap().up;
    assert!(ip(&format!("-n {} address delete 192.0.2.1/24 dev va", cable.a.netns)));
    cable.until("the IPv4 group is down", |cable| !up(cable, ids[1]));
    assert!(up(&cable, ids[0]) && up(&cable, ids[2]), "Ethernet needs no address");
    // Another address, then the first one too.
    assert!(ip(&format!("-n {} address add 192.0.2.7/24 dev va", cable.a.netns)));
    cable.until("the IPv4 group is up", |cable| up(cable, ids[1]));
    let local = cable.a.host.faces.status(ids[1]).unwrap().local_uri.to_string();
    assert_eq!(local, "udp4://192.0.2.7:56363");
    assert!(ip(&format!("-n {} address add 192.0.2.1/24 dev va", cable.a.netns)));
    check_same(&mut cable, ids, &before);
}

#[test]
fn faces_follow_renamed_interface() {
    let Some((mut cable, ids)) = full_cable() else { return };
    let before: Vec<FaceId> = cable.a.host.faces.ids().collect();
    for words in ["set va down", "set va name vz", "set vz mtu 1400", "set vz up"] {
        assert!(ip(&format!("-n {} link {words}", cable.a.netns)), "{words}");
    }
    assert!(ip(&format!("-n {} link set vb mtu 1400", cable.b.netns)));
    cable.a.card = "vz";
    cable.until("the new name", |cable| {
        cable.a.face(GROUP).is_some_and(|face| face.local_uri.to_string() == "dev://vz" && face.up)
    });
    assert_eq!(cable.a.face(GROUP).unwrap().mtu, Some(1400));
    check_same(&mut cable, ids, &before);
    // A policy that does not match that name closes the faces it created, and no others.
    let nothing = Filter { deny: vec![Pattern::Name("vz".into())], ..Filter::default() };
    let ethernet =
        EtherPolicy { multicast: true, filter: nothing.clone(), ..EtherPolicy::default() };
    let udp = GroupPolicy { filter: nothing, ..udp() };
    cable.a.apply(InterfacePolicy { ethernet: Some(ethernet), udp: Some(udp) });
    assert_eq!(faces_of(&cable.a), [(ids[2], true)]);
}

#[test]
fn faces_wait_for_deleted_interface() {
    let Some((mut cable, ids)) = full_cable() else { return };
    let before: Vec<FaceId> = cable.a.host.faces.ids().collect();
    let mac = cable.b.mac();
    assert!(ip(&format!("-n {} link delete va", cable.a.netns)));
    cable.until("all are down", |cable| all(&cable.a, false) && all(&cable.b, false));
    cable.plug();
    // B's card is another one, so the face to the old one has no peer.
    for words in ["set vb down", &format!("set vb address {mac}"), "set vb up"] {
        assert!(ip(&format!("-n {} link {words}", cable.b.netns)), "{words}");
    }
    check_same(&mut cable, ids, &before);
    // An interface that does not return is not waited for forever.
    assert!(ip(&format!("-n {} link delete va", cable.a.netns)));
    cable.until("all are down again", |cable| all(&cable.a, false));
    cable.a.host.skipped_ms += 299_000;
    cable.a.inside(|host| host.turn(1));
    assert!(cable.a.host.destroyed().is_empty());
    cable.a.host.skipped_ms += 2_000;
    cable.until("all have ended", |cable| cable.a.host.faces.is_empty());
    assert!(cable.a.host.faces.listeners().is_empty());
}

#[test]
fn faces_follow_added_and_removed_interfaces() {
    let Some(mut cable) = Cable::new() else { return };
    let policy = InterfacePolicy { udp: Some(udp()), ..ether(true, true) };
    for side in [&mut cable.a, &mut cable.b] {
        side.apply(policy.clone());
    }
    let there = |cable: &mut Cable| {
        [&cable.a, &cable.b]
            .iter()
            .all(|side| side.face(GROUP).is_some() && side.face("udp4://224").is_some())
    };
    let gone = |cable: &mut Cable| {
        [&mut cable.a, &mut cable.b].into_iter().for_each(|side| side.host.skipped_ms += 1_000);
        cable.a.host.faces.is_empty() && cable.b.host.faces.is_empty()
    };
    assert!(there(&mut cable));
    let peer = format!("ether://[{}]", cable.b.mac());
    cable.a.connect(&peer, "dev://va").unwrap();
    assert!(ip(&format!("-n {} link delete va", cable.a.netns)));
    cable.until("all faces go after some minutes, those made by command, too", gone);
    assert!(cable.a.host.faces.listeners().is_empty());
    cable.plug();
    cable.until("they come again", there);
    let face = cable.a.face(GROUP).unwrap().id;
    cable.exchange(face);
    assert!(ip(&format!("-n {} link set va down", cable.a.netns)));
    cable.until("nothing is up on what is switched off", |cable| all(&cable.a, false));
    assert!(ip(&format!("-n {} link set va up", cable.a.netns)));
    cable.until("switched on", |cable| there(cable) && all(&cable.a, true));
    // Another policy at run time.
    let nothing = Filter { deny: vec![Pattern::Name("v*".into())], ..Filter::default() };
    let ethernet = EtherPolicy { multicast: true, filter: nothing, ..EtherPolicy::default() };
    cable.a.apply(InterfacePolicy { ethernet: Some(ethernet), udp: None });
    assert!(cable.a.host.faces.is_empty());
    cable.a.host.check_pool();
}

/// A token bucket holds what TCP has sent. It is as much of a queue as what the socket holds.
#[test]
fn queue_of_the_interface_counts_for_congestion_of_tcp() {
    let Some(mut cable) = Cable::new() else { return };
    let peer: SocketAddr = "192.0.2.2:6363".parse().unwrap();
    cable.b.inside(|host| host.faces.listen_tcp(peer).unwrap());
    let options = FaceOptions { marking_threshold: Some(2000), ..FaceOptions::default() };
    let face = cable.a.inside(|host| {
        host.faces.connect(host.now(), &FaceUri::Tcp(peer), None, &options).unwrap()
    });
    cable.until("up", |cable| cable.a.host.faces.status(face).unwrap().up);
    // 8000 bytes take three seconds; they fit the first window of TCP, so that it keeps none.
    let bucket = "qdisc add dev va root tbf rate 20kbit burst 2000 limit 1000000";
    assert!(succeeds("tc", &format!("-n {} {bucket}", cable.a.netns)));
    for (marks, len) in [(0, 8000), (0, 10), (1, 10)] {
        cable.a.inside(|host| {
            host.send(face, Kind::Data, &data("a", len));
            host.turn(2);
        });
        assert_eq!(cable.a.host.faces.status(face).unwrap().counters.out_marks, marks);
        cable.a.host.skipped_ms += 101;
    }
}
