//! Tests of the XDP program with given frames, and on real interfaces of a network namespace.

use crate::common::net::{alone, ip};
use crate::common::{hash_key, may_run, vectors};
use aya::programs::{TestRun, TestRunOptions};
use nw_kernel::{KernelError, ShardCounters, XdpMode, XdpOptions, XdpProgram};
use nw_name::HashKey;
use rustix::net::{AddressFamily, SocketType, socket};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

const PASS: u32 = 2;
const REDIRECT: u32 = 4;
const KEY: HashKey = HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 5, 7]);
/// An Interest: `/a`, a nonce.
const INTEREST: &[u8] = &[5, 11, 7, 3, 8, 1, b'a', 10, 4, 1, 2, 3, 4];

fn ethernet(tags: &[u16], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in tags {
        frame.extend_from_slice(&tag.to_be_bytes());
        frame.extend_from_slice(&[0, 7]);
    }
    frame.extend_from_slice(&ethertype.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u16 + 8;
    [&50_000u16.to_be_bytes()[..], &port.to_be_bytes(), &len.to_be_bytes(), &[0, 0], payload]
        .concat()
}

/// Returns an IPv4 packet with this many words of options.
fn ipv4(options: u8, protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u16 + 20 + 4 * u16::from(options);
    let mut packet = vec![0x45 + options, 0];
    packet.extend_from_slice(&len.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    packet.extend_from_slice(&fragment.to_be_bytes());
    packet.extend_from_slice(&[64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    packet.extend(std::iter::repeat_n(1, 4 * usize::from(options)));
    packet.extend_from_slice(payload);
    packet
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[next, 64]);
    packet.extend_from_slice(&[0x20; 32]);
    packet.extend_from_slice(payload);
    packet
}

/// Returns a packet with each combination of headers that is taken.
fn heads(packet: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let datagram = udp(6363, packet);
    let padded = [&ipv4(0, 17, 0, &datagram)[..], &[0; 9]].concat();
    vec![
        ("Ethernet", ethernet(&[], 0x8624, packet)),
        ("VLAN", ethernet(&[0x8100], 0x8624, packet)),
        ("QinQ", ethernet(&[0x88a8, 0x8100], 0x8624, packet)),
        ("IPv4", ethernet(&[], 0x0800, &ipv4(0, 17, 0, &datagram))),
        ("IPv4, do not fragment", ethernet(&[], 0x0800, &ipv4(0, 17, 0x4000, &datagram))),
        ("IPv4, padded", ethernet(&[], 0x0800, &padded)),
        ("IPv4 with options", ethernet(&[], 0x0800, &ipv4(3, 17, 0, &datagram))),
        (
            "QinQ, IPv4 with all options",
            ethernet(&[0x88a8, 0x88a8], 0x0800, &ipv4(10, 17, 0, &datagram)),
        ),
        ("IPv6", ethernet(&[], 0x86dd, &ipv6(17, &datagram))),
        ("VLAN, IPv6", ethernet(&[0x8100], 0x86dd, &ipv6(17, &datagram))),
    ]
}

fn run(program: &mut XdpProgram, frame: &[u8], context: Option<&[u8]>) -> u32 {
    let options =
        TestRunOptions { data_in: Some(frame), ctx_in: context, ..TestRunOptions::default() };
    program.program().expect("loaded").test_run(options).expect("a test run").return_value
}

fn xsk() -> OwnedFd {
    socket(AddressFamily::XDP, SocketType::RAW, None).expect("an AF_XDP socket")
}

fn reasons(counters: &ShardCounters) -> BTreeMap<&'static str, u64> {
    counters.iter().filter(|(_, count)| *count > 0).collect()
}

#[test]
fn golden_vectors_with_all_headers_reach_their_shard() {
    if !may_run("xdp, vectors") {
        return;
    }
    let socket = xsk();
    let mut by_configuration = BTreeMap::<_, Vec<_>>::new();
    for vector in vectors() {
        by_configuration.entry((vector.key, vector.shards)).or_default().push(vector);
    }
    for ((key, shards), vectors) in by_configuration {
        let mut program =
            XdpProgram::load(&hash_key(key), 1, shards, &XdpOptions::default()).expect("loaded");
        (0..shards).for_each(|shard| program.set_socket(0, shard, socket.as_fd()).expect("set"));
        let mut before = program.counters().expect("counters");
        for vector in vectors {
            for (head, frame) in heads(&vector.packet) {
                let context = format!("line {} behind {head}", vector.line);
                let action = run(&mut program, &frame, None);
                let after = program.counters().expect("counters");
                let counted: Vec<_> = after
                    .iter()
                    .zip(before.iter())
                    .filter(|(after, before)| after.1 != before.1)
                    .map(|(after, before)| (after.0, after.1 - before.1))
                    .collect();
                let came: Vec<_> = (0u8..)
                    .zip(after.shards().iter().zip(before.shards()))
                    .filter(|(_, (a, b))| a != b)
                    .collect();
                // A frame without a packet is passed; so is a packet that is not NDN's.
                if vector.packet.is_empty() {
                    assert_eq!((action, &counted[..]), (PASS, &[("passed", 1)][..]), "{context}");
                } else if vector.reason == "not_ndn" {
                    assert_eq!((action, &counted[..]), (PASS, &[("not_ndn", 1)][..]), "{context}");
                    assert!(came.is_empty(), "{context}");
                } else {
                    let reason = if shards == 1 { "only" } else { &*vector.reason };
                    assert_eq!((action, &counted[..]), (REDIRECT, &[(reason, 1)][..]), "{context}");
                    assert_eq!(
                        came.iter().map(|(shard, _)| *shard).collect::<Vec<_>>(),
                        [vector.shard],
                        "{context}"
                    );
                }
                before = after;
            }
        }
    }
}

#[test]
fn other_frames_pass_unchanged() {
    if !may_run("xdp, other frames") {
        return;
    }
    let options = XdpOptions { ports: vec![6363, 56_363], ethernet: None, only: None };
    let mut program = XdpProgram::load(&KEY, 1, 2, &options).expect("loaded");
    let socket = xsk();
    (0..2).for_each(|shard| program.set_socket(0, shard, socket.as_fd()).expect("set"));
    let datagram = udp(6363, INTEREST);
    let with = |at: usize, value: u8, mut frame: Vec<u8>| {
        frame[at] = value;
        frame
    };
    let v4 = ethernet(&[], 0x0800, &ipv4(0, 17, 0, &datagram));
    let v6 = ethernet(&[], 0x86dd, &ipv6(17, &datagram));
    let others = [
        ("NDN's EtherType when it is off", ethernet(&[], 0x8624, INTEREST)),
        ("another EtherType", ethernet(&[], 0x0806, &datagram)),
        ("three tags", ethernet(&[0x8100, 0x8100, 0x8100], 0x0800, &ipv4(0, 17, 0, &datagram))),
        ("TCP", ethernet(&[], 0x0800, &ipv4(0, 6, 0, &datagram))),
        ("another port", ethernet(&[], 0x0800, &ipv4(0, 17, 0, &udp(6364, INTEREST)))),
        ("port 0", ethernet(&[], 0x0800, &ipv4(0, 17, 0, &udp(0, INTEREST)))),
        (
            "the port the other way round",
            ethernet(&[], 0x0800, &ipv4(0, 17, 0, &udp(6363u16.swap_bytes(), INTEREST))),
        ),
        ("a first fragment", ethernet(&[], 0x0800, &ipv4(0, 17, 0x2000, &datagram))),
        ("a later fragment", ethernet(&[], 0x0800, &ipv4(0, 17, 0x0005, &datagram))),
        ("IPv6 with an extension header", ethernet(&[], 0x86dd, &ipv6(0, &datagram))),
        ("IPv6, TCP", ethernet(&[], 0x86dd, &ipv6(6, &datagram))),
        ("version 5 in IPv4", with(14, 0x55, v4.clone())),
        ("a header of four words", with(14, 0x44, v4.clone())),
        ("longer than its frame", with(17, 0xff, v4.clone())),
        ("shorter than UDP", with(17, 25, v4.clone())),
        ("UDP longer than IP", with(39, 0xff, v4.clone())),
        ("UDP shorter than its header", with(39, 7, v4.clone())),
        ("IPv6 longer than its frame", with(19, 0xff, v6.clone())),
        ("version 4 in IPv6", with(14, 0x40, v6.clone())),
        ("an empty datagram", ethernet(&[], 0x0800, &ipv4(0, 17, 0, &udp(6363, &[])))),
        ("no byte after Ethernet", ethernet(&[], 0x0800, &[])),
    ];
    for (number, (what, frame)) in (1..).zip(&others) {
        assert_eq!(run(&mut program, frame, None), PASS, "{what}");
        assert_eq!(
            reasons(&program.counters().expect("counters")),
            [("passed", number)].into(),
            "{what}"
        );
    }
    // Truncated anywhere, with the previous frame still in memory.
    for frame in [&v4, &v6] {
        assert_eq!(run(&mut program, frame, None), REDIRECT);
        for len in 14..frame.len() {
            assert_eq!(run(&mut program, &frame[..len], None), PASS, "{len} bytes");
        }
    }
    let second = ethernet(&[], 0x0800, &ipv4(0, 17, 0, &udp(56_363, INTEREST)));
    assert_eq!(run(&mut program, &second, None), REDIRECT);
}

#[test]
fn frames_for_other_machines_pass() {
    if !may_run("xdp, destinations") {
        return;
    }
    // The addresses that `ethernet` and `ipv4` write.
    let (own, group) = ([2, 0, 0, 0, 0, 1], [1, 0, 0x5e, 0, 0x17, 0xaa]);
    let options = XdpOptions { only: Some([own, group]), ..XdpOptions::default() };
    let mut program = XdpProgram::load(&KEY, 1, 1, &options).expect("loaded");
    let socket = xsk();
    program.set_socket(0, 0, socket.as_fd()).expect("set");
    let to = |mac: [u8; 6], mut frame: Vec<u8>| {
        frame[..6].copy_from_slice(&mac);
        frame
    };
    let datagram = udp(6363, INTEREST);
    let v4 = ethernet(&[], 0x0800, &ipv4(3, 17, 0, &datagram));
    let v6 = ethernet(&[], 0x86dd, &ipv6(17, &datagram));
    let bare = ethernet(&[], 0x8624, INTEREST);
    for frame in [&v4, &v6] {
        assert_eq!(run(&mut program, frame, None), PASS, "no address is this machine's yet");
    }
    let (v4_address, v6_address) =
        ("192.0.2.2".parse().unwrap(), "2020:2020:2020:2020:2020:2020:2020:2020".parse().unwrap());
    for (addresses, takes_v4, takes_v6) in [
        (vec![v4_address], REDIRECT, PASS),
        (vec![v6_address, "198.51.100.1".parse().unwrap()], PASS, REDIRECT),
        (vec![v4_address, v6_address], REDIRECT, REDIRECT),
    ] {
        program.set_destinations(&addresses).expect("set");
        assert_eq!(
            (run(&mut program, &v4, None), run(&mut program, &v6, None)),
            (takes_v4, takes_v6)
        );
    }
    let other = [2, 0, 0, 0, 0, 9];
    for (what, frame, action) in [
        ("ours", bare.clone(), REDIRECT),
        ("the group's", to(group, bare.clone()), REDIRECT),
        ("another group's", to([0x33, 0x33, 0, 0, 0, 1], bare.clone()), PASS),
        ("another machine's", to(other, bare), PASS),
        ("another machine's, by UDP", to(other, v4.clone()), PASS),
        // A multicast group of IP: the destination address is configured.
        ("a group of IP's", to([1, 0, 0x5e, 0, 0, 1], v4), REDIRECT),
    ] {
        assert_eq!(run(&mut program, &frame, None), action, "{what}");
    }
}

#[test]
fn invalid_arguments_are_errors() {
    let load = |queues, shards, ports: Vec<u16>| {
        XdpProgram::load(&KEY, queues, shards, &XdpOptions { ports, ethernet: Some(0), only: None })
            .map(|_| ())
    };
    assert!(matches!(load(1, 0, vec![]), Err(KernelError::Shards(0))));
    assert!(matches!(load(1, 65, vec![]), Err(KernelError::Shards(65))));
    assert!(matches!(load(0, 1, vec![]), Err(KernelError::Slot { queues: 0, .. })));
    assert!(matches!(load(1, 1, vec![1; 9]), Err(KernelError::Ports(9))));
    if !may_run("xdp, checks") {
        return;
    }
    let mut program = XdpProgram::load(&KEY, 2, 3, &XdpOptions::default()).expect("loaded");
    let socket = xsk();
    assert!(matches!(
        program.set_socket(2, 0, socket.as_fd()),
        Err(KernelError::Slot { queue: 2, .. })
    ));
    assert!(matches!(
        program.set_socket(1, 3, socket.as_fd()),
        Err(KernelError::Slot { shard: 3, .. })
    ));
    let other = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    assert!(matches!(
        program.set_socket(1, 2, other.as_fd()),
        Err(KernelError::Socket { shard: 2, .. })
    ));
    program.set_socket(1, 2, socket.as_fd()).expect("set");
    program.clear_socket(1, 2).expect("cleared");
    for name in ["nw-is-none", "", "a\0b"] {
        let error = program.attach(name, None).expect_err("no such interface");
        assert!(matches!(error, KernelError::NoInterface(_)), "{error}");
    }
}

fn program_on(interface: &str) -> bool {
    let output =
        Command::new("ip").args(["link", "show", interface]).output().expect("ip of iproute2");
    String::from_utf8_lossy(&output.stdout).contains("xdp")
}

#[test]
fn each_queue_has_its_own_sockets() {
    if !may_run("xdp, queues") {
        return;
    }
    alone(|| {
        ip(
            "link add nw0 numrxqueues 3 numtxqueues 3 type veth peer name nw1 numrxqueues 3 numtxqueues 3",
        );
        let any_socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let index = rustix::net::netdevice::name_to_index(any_socket, "nw0").expect("nw0");
        let mut program = XdpProgram::load(&KEY, 3, 2, &XdpOptions::default()).expect("loaded");
        let frame = ethernet(&[], 0x8624, INTEREST);
        let shard = nw_wire::shard::shard_of_packet(INTEREST, &KEY, 2).0;
        let socket = xsk();
        for (with, other) in [(0, 1), (1, 2), (2, 0)] {
            program.set_socket(with, shard, socket.as_fd()).expect("set");
            program.set_socket(other, 1 - shard, socket.as_fd()).expect("set");
            for queue in 0..3u32 {
                let end = frame.len() as u32;
                let context: Vec<_> = [0, end, 0, index, queue, 0]
                    .iter()
                    .flat_map(|n: &u32| n.to_ne_bytes())
                    .collect();
                let expected = if queue == with { REDIRECT } else { PASS };
                assert_eq!(
                    run(&mut program, &frame, Some(&context)),
                    expected,
                    "queue {queue} of {with}"
                );
            }
            program.clear_socket(with, shard).expect("cleared");
            program.clear_socket(other, 1 - shard).expect("cleared");
        }
        assert_eq!(program.counters().expect("counters").no_socket(), 6);
    });
}

#[test]
fn attach_chooses_the_mode_and_drop_detaches() {
    if !may_run("xdp, interfaces") {
        return;
    }
    alone(|| {
        ip("link add nw0 type veth peer name nw1");
        ip("link set nw0 up");
        ip("link set nw1 up");
        ip("link set lo up");
        let load = || XdpProgram::load(&KEY, 1, 2, &XdpOptions::default()).expect("loaded");
        let mut program = load();
        assert_eq!(program.attach("nw0", None).expect("attached"), XdpMode::Native);
        assert!(program_on("nw0"));
        let error = load().attach("nw0", None).expect_err("there is one");
        assert!(matches!(error, KernelError::Busy { .. }), "{error}");
        // Attaching to another interface detaches from the first. Loopback's driver has no XDP.
        let error = program.attach("lo", Some(XdpMode::Native)).expect_err("not natively");
        assert!(matches!(error, KernelError::Refused { .. }), "{error}");
        assert_eq!(program.attach("lo", None).expect("attached"), XdpMode::Generic);
        assert!(program_on("lo") && !program_on("nw0"));
        // Without AF_XDP sockets the system receives everything.
        let receiver = UdpSocket::bind("127.0.0.1:6363").expect("a receiver");
        receiver.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a sender");
        let mut bytes = [0; 100];
        for payload in [INTEREST, b"no packet"] {
            sender.send_to(payload, "127.0.0.1:6363").expect("sent");
            assert_eq!(receiver.recv(&mut bytes).expect("received"), payload.len());
        }
        let counters = program.counters().expect("counters");
        let seen = ["interest", "no_socket", "not_ndn"].map(|name| reasons(&counters)[name]);
        assert_eq!(seen, [1, 1, 1]);
        drop(program);
        assert!(!program_on("lo"), "dropped");
        assert_eq!(
            load().attach("nw0", Some(XdpMode::Generic)).expect("attached"),
            XdpMode::Generic
        );
    });
}

#[test]
fn frames_in_other_vlans_pass() {
    if !may_run("xdp, VLANs") {
        return;
    }
    let datagram = udp(6363, INTEREST);
    let tagged = |tci: [u8; 2], mut frame: Vec<u8>| {
        frame.splice(12..12, [0x81, 0x00, tci[0], tci[1]]);
        frame
    };
    let v4 = ethernet(&[], 0x0800, &ipv4(0, 17, 0, &datagram));
    let bare = ethernet(&[], 0x8624, INTEREST);
    for (vlan, untagged, in_7) in [(0, REDIRECT, PASS), (7, PASS, REDIRECT)] {
        let options = XdpOptions {
            ethernet: Some(vlan),
            only: Some([[2, 0, 0, 0, 0, 1], [1, 0, 0x5e, 0, 0x17, 0xaa]]),
            ..XdpOptions::default()
        };
        let mut program = XdpProgram::load(&KEY, 1, 1, &options).expect("loaded");
        let socket = xsk();
        program.set_socket(0, 0, socket.as_fd()).expect("set");
        program.set_destinations(&["192.0.2.2".parse().unwrap()]).expect("set");
        for (what, frame, action) in [
            ("UDP", v4.clone(), REDIRECT),
            ("UDP with a priority", tagged([0xa0, 0], v4.clone()), REDIRECT),
            ("UDP in a VLAN", tagged([0, 7], v4.clone()), PASS),
            ("Ethernet", bare.clone(), untagged),
            ("Ethernet with a priority", tagged([0xa0, 0], bare.clone()), untagged),
            ("Ethernet in VLAN 7", tagged([0xa0, 7], bare.clone()), in_7),
            ("Ethernet in VLAN 8", tagged([0, 8], bare.clone()), PASS),
            ("a tag in a tag", tagged([0, 7], tagged([0, 7], bare.clone())), PASS),
            ("a tag in a priority tag", tagged([0xa0, 0], tagged([0, 7], bare.clone())), PASS),
            ("a priority tag in a tag", tagged([0, 7], tagged([0xa0, 0], bare.clone())), PASS),
        ] {
            assert_eq!(run(&mut program, &frame, None), action, "{what}, of VLAN {vlan}");
        }
    }
}
