//! Tests of the balancer's program with UDP: packet in, verdict, packet out, byte by byte.

use crate::common::cluster::{
    Cluster, DROP, KEY, PASS, REDIRECT, TX, VIP, VIP6, entry, member_mac, member_port,
};
use crate::common::frames::{OWN_MAC, Udp};
use crate::common::packets::{data, fragment, interest, link};
use crate::common::{self, may_run};
use nw_kernel::balancer::{AttachMode, Hop, Link, MemberEntry, Verdict};
use nw_wire::lp::LpHeader;

/// Returns the frame as it leaves to a member.
fn to_member(frame: &Udp, number: u8) -> Vec<u8> {
    let ip =
        if frame.to.is_ipv4() { format!("10.0.0.{number}") } else { format!("fd00::{number}") };
    let mut out = frame.clone();
    out.to.set_ip(ip.parse().expect("an address"));
    out.to.set_port(member_port(number));
    out.ttl -= 1;
    (out.to_mac, out.from_mac) = (member_mac(number), OWN_MAC);
    out.tags.clear();
    out.frame()
}

#[test]
fn packets_to_the_cluster_go_by_name() {
    if !may_run("balancer, by name") {
        return;
    }
    let mut cluster = Cluster::new();
    let mut served = [0u32; 4];
    for (from, to) in [("198.51.100.7:50000", VIP), ("[2001:db8:1::7]:50000", VIP6)] {
        for number in 0..40 {
            let uri = format!("/video/lecture/v=1/seg={number}");
            let member = cluster.member_of(&uri);
            served[usize::from(member)] += 1;
            let nack = link(
                &LpHeader { nack: Some(nw_wire::NackReason::NoRoute), ..LpHeader::default() },
                &interest(&uri),
            );
            for (what, packet, verdict) in [
                ("an Interest", interest(&uri), Verdict::Interest),
                ("a Data", data(&uri), Verdict::Data),
                ("a Nack", nack, Verdict::Nack),
            ] {
                for checksum in [true, false] {
                    if !checksum && from.starts_with('[') {
                        continue;
                    }
                    let frame = Udp { checksum, ..Udp::new(from, to, &packet) };
                    let out = to_member(&frame, member);
                    cluster.expect(
                        &format!("{what} {uri}"),
                        &frame.frame(),
                        verdict,
                        REDIRECT,
                        &out,
                    );
                }
            }
        }
    }
    assert!(served[1..].iter().all(|count| *count > 10), "{served:?}");
    let counters = cluster.counters();
    let all: u64 = (1..=3).map(|number| counters.member(number).to.interests).sum();
    // Each went through both programs.
    assert_eq!((all, counters.verdict(Verdict::Interest)), (240, 240));
}

#[test]
fn malformed_packets_are_dropped_and_others_passed() {
    if !may_run("balancer, others") {
        return;
    }
    let mut cluster = Cluster::new();
    let peer = "198.51.100.7:50000";
    for (what, payload, verdict) in [
        ("no NDN", b"hello".to_vec(), Verdict::NotNdn),
        ("cut", interest("/a/b")[..7].to_vec(), Verdict::Malformed),
        ("nothing", vec![], Verdict::NotNdn),
    ] {
        let frame = Udp::new(peer, VIP, &payload).frame();
        cluster.expect(what, &frame, verdict, DROP, &frame);
    }
    for to in ["192.0.2.1:6399", "192.0.2.9:6363"] {
        let frame = Udp::new(peer, to, &interest("/a")).frame();
        cluster.expect(to, &frame, Verdict::Passed, PASS, &frame);
    }
}

#[test]
fn packet_to_a_member_s_port_reaches_that_member() {
    if !may_run("balancer, by port") {
        return;
    }
    let mut cluster = Cluster::new();
    for (from, to) in
        [("198.51.100.7:6363", "192.0.2.1"), ("[2001:db8:1::7]:6363", "[2001:db8::1]")]
    {
        for number in 1..=3u8 {
            for payload in [
                data("/a"),
                interest("/a"),
                b"anything".to_vec(),
                vec![100, 0],
                fragment(7, 1, 3, &[1; 50]),
            ] {
                let frame = Udp::new(from, &format!("{to}:{}", member_port(number)), &payload);
                let out = to_member(&frame, number);
                cluster.expect("by port", &frame.frame(), Verdict::ToMember, REDIRECT, &out);
            }
        }
    }
    let counted = cluster.counters().member(2).to;
    let kinds = (counted.data, counted.interests, counted.others, counted.fragments, counted.nacks);
    // Each went through both programs.
    assert_eq!(kinds, (4, 4, 8, 4, 0));
    // A draining member has no slot, and still gets packets to its port.
    let others = nw_slot_table::Table::compute(&common::cluster::members(1), 7);
    cluster.balancer.set_slots(others.slots()).expect("slots");
    let frame = Udp::new("198.51.100.7:6363", "192.0.2.1:6373", &data("/a"));
    cluster.expect("draining", &frame.frame(), Verdict::ToMember, REDIRECT, &to_member(&frame, 3));
    let frame = Udp::new("198.51.100.7:6363", VIP, &interest("/x/y"));
    cluster.expect("by name", &frame.frame(), Verdict::Interest, REDIRECT, &to_member(&frame, 1));
}

#[test]
fn packet_to_an_unreachable_member_is_counted() {
    if !may_run("balancer, no member") {
        return;
    }
    let mut cluster = Cluster::new();
    let frame = Udp::new("198.51.100.7:50000", VIP, &interest("/x/y"));
    let number = cluster.member_of("/x/y");
    let bytes = frame.frame();
    let set = |cluster: &mut Cluster, entry: MemberEntry| {
        cluster.balancer.set_member(number, &entry).expect("set")
    };
    set(&mut cluster, MemberEntry { hop: None, ..entry(number) });
    cluster.expect("no hop", &bytes, Verdict::NoHop, DROP, &bytes);
    set(&mut cluster, MemberEntry { address_v4: None, ..entry(number) });
    cluster.expect("no address of IPv4", &bytes, Verdict::NoHop, DROP, &bytes);
    let hop = entry(number).hop.expect("a hop");
    let len = frame.packet().len() as u32;
    set(
        &mut cluster,
        MemberEntry { hop: Some(Hop { mtu_bytes: len - 1, ..hop }), ..entry(number) },
    );
    cluster.expect("too long", &bytes, Verdict::TooLong, DROP, &bytes);
    set(&mut cluster, MemberEntry { hop: Some(Hop { mtu_bytes: len, ..hop }), ..entry(number) });
    cluster.expect("fits", &bytes, Verdict::Interest, REDIRECT, &to_member(&frame, number));
    let old = Udp { ttl: 1, ..frame.clone() }.frame();
    cluster.expect("the last hop", &old, Verdict::TimeToLive, DROP, &old);
    cluster.balancer.clear_member(number).expect("cleared");
    cluster.expect("gone", &bytes, Verdict::NoMember, DROP, &bytes);
    let to_port =
        Udp::new("198.51.100.7:50000", &format!("192.0.2.1:{}", member_port(number)), &data("/a"))
            .frame();
    cluster.expect("its port", &to_port, Verdict::Passed, PASS, &to_port);
    cluster.balancer.set_slots(&vec![0; nw_slot_table::SLOTS]).expect("slots");
    cluster.expect("no slots", &bytes, Verdict::NoMember, DROP, &bytes);
    // To the ingress interface: sent back there.
    set(
        &mut cluster,
        MemberEntry { hop: Some(Hop { interface_index: 1, ..hop }), ..entry(number) },
    );
    let to_port =
        Udp::new("198.51.100.7:50000", &format!("192.0.2.1:{}", member_port(number)), &data("/a"));
    let out = to_member(&to_port, number);
    cluster.expect_on("one-armed", &to_port.frame(), Some(1), Verdict::ToMember, TX, &out);
}

#[test]
fn fragments_of_one_packet_go_to_one_member() {
    if !may_run("balancer, fragments") {
        return;
    }
    let mut cluster = Cluster::new();
    let mut served = [0; 4];
    for sequence in (0..60u64).map(|n| n * 0x1234_5678_9abc) {
        let hash = nw_wire::shard::fragments_hash(&KEY, sequence);
        let number = cluster.table.member_of(hash);
        served[usize::from(number)] += 1;
        for index in 0..3 {
            let frame =
                Udp::new("198.51.100.7:50000", VIP, &fragment(sequence, index, 3, &[6; 70]));
            cluster.expect(
                "a fragment",
                &frame.frame(),
                Verdict::Fragment,
                REDIRECT,
                &to_member(&frame, number),
            );
        }
    }
    assert!(served[1..].iter().all(|count| *count > 5), "{served:?}");
    // A packet in three fragments is one Data and two later fragments; each frame went through both
    // programs.
    let counted = (1..=3).map(|number| cluster.counters().member(number).to);
    let sums = counted.fold((0, 0, 0), |sums, to| {
        (sums.0 + to.data, sums.1 + to.fragments, sums.2 + to.interests + to.nacks + to.others)
    });
    assert_eq!(sums, (2 * 60, 2 * 120, 0));
}

#[test]
fn ip_fragments_follow_the_first_one() {
    if !may_run("balancer, IP fragments") {
        return;
    }
    let mut cluster = Cluster::new();
    let number = cluster.member_of("/a/b");
    let by_name = Udp { fragment: 0, ..Udp::new("198.51.100.7:50000", VIP, &data("/a/b")) };
    let by_port = Udp { id: 77, ..Udp::new("198.51.100.7:50000", "192.0.2.1:6372", &data("/a/b")) };
    for (frame, number, verdict) in
        [(by_name, number, Verdict::Data), (by_port, 2, Verdict::ToMember)]
    {
        let head = to_member(&frame, number);
        let out = Udp { fragment: 0, ..frame.clone() };
        let moved = Udp {
            to: format!("10.0.0.{number}:{}", member_port(number)).parse().expect("an address"),
            ttl: 63,
            to_mac: member_mac(number),
            from_mac: OWN_MAC,
            ..out
        };
        assert_eq!(head.len(), moved.frame().len());
        let ([first, later], [first_out, later_out]) = (frame.fragments(104), moved.fragments(104));
        cluster.expect("before it", &later, Verdict::IpFragmentHeld, DROP, &later);
        cluster.expect("first", &first, verdict, REDIRECT, &first_out);
        cluster.expect("later", &later, Verdict::IpFragment, REDIRECT, &later_out);
        // The first fragment must have the name; otherwise it is dropped, and the others wait in
        // vain.
        let [short, later] = Udp { id: 9, ..frame.clone() }.fragments(16);
        if verdict == Verdict::Data {
            cluster.expect("too short", &short, Verdict::Malformed, DROP, &short);
            cluster.expect("of it", &later, Verdict::IpFragmentHeld, DROP, &later);
        }
    }
    // Without a process the ring fills up: then they are dropped.
    let lone = Udp { id: 10, fragment: 0, ..Udp::new("198.51.100.7:50000", VIP, &data("/a/b")) };
    let [_, lone] = lone.fragments(104);
    let held = (0..2000).filter(|_| {
        let before = cluster.counters().verdict(Verdict::IpFragmentHeld);
        assert_eq!(cluster.run(&lone).0, DROP);
        cluster.counters().verdict(Verdict::IpFragmentHeld) > before
    });
    assert!((900..1024).contains(&held.count()));
    cluster.expect("no space", &lone, Verdict::IpFragmentLost, DROP, &lone);
    // Fragments of datagrams to the machine's own sockets pass.
    let own = Udp::new("198.51.100.7:53", "192.0.2.1:40000", &[7; 300]);
    for part in own.fragments(104) {
        cluster.expect("own", &part, Verdict::Passed, PASS, &part);
    }
}

#[test]
fn vlan_tags_are_read_and_written() {
    if !may_run("balancer, tags") {
        return;
    }
    let mut cluster = Cluster::new();
    // VLAN 5 of an interface that always exists, and VLAN 6 in that.
    let loopback = 1;
    let link =
        |interface_index, underlying_index, vlan| Link { interface_index, underlying_index, vlan };
    cluster.balancer.set_links(&[link(50, loopback, 5), link(51, 50, 6)]).expect("links");
    for (from, to) in [("198.51.100.7:50000", VIP), ("[2001:db8:1::7]:50000", VIP6)] {
        for vlan in [None, Some(42)] {
            for number in 1..=3 {
                let hop = entry(number).hop.map(|hop| Hop { vlan, ..hop });
                cluster
                    .balancer
                    .set_member(number, &MemberEntry { hop, ..entry(number) })
                    .expect("set");
            }
            // A tag with VLAN 0 has a priority only.
            for tags in [
                vec![],
                vec![(0x8100, 5)],
                vec![(0x88a8, 5), (0x8100, 6)],
                vec![(0x8100, 0xa000)],
                vec![(0x8100, 0xa005)],
                vec![(0x8100, 0xa005), (0x8100, 0)],
            ] {
                let frame = Udp::new(from, to, &interest("/a")).tagged(&tags);
                let number = cluster.member_of("/a");
                let mut out = to_member(&frame, number);
                if let Some(vlan) = vlan {
                    out.splice(12..12, [0x81, 0, 0, vlan as u8]);
                }
                let on = Some(loopback);
                cluster.expect_on("tags", &frame.frame(), on, Verdict::Interest, REDIRECT, &out);
            }
        }
        // VLANs without an interface on this machine.
        for tags in [
            vec![(0x8100, 4)],
            vec![(0x8100, 6)],
            vec![(0x8100, 5), (0x8100, 5)],
            vec![(0x8100, 6), (0x8100, 5)],
            vec![(0x8100, 0), (0x8100, 6)],
        ] {
            let other = Udp::new(from, to, &interest("/a")).tagged(&tags).frame();
            cluster.expect_on(
                "another VLAN",
                &other,
                Some(loopback),
                Verdict::Passed,
                PASS,
                &other,
            );
        }
    }
    cluster.balancer.set_links(&[]).expect("links");
    let gone = Udp::new("198.51.100.7:50000", VIP, &interest("/a")).tagged(&[(0x8100, 5)]).frame();
    cluster.expect_on("gone", &gone, Some(loopback), Verdict::Passed, PASS, &gone);
    let three =
        Udp::new("198.51.100.7:50000", VIP, &interest("/a")).tagged(&[(0x8100, 5); 3]).frame();
    cluster.expect("three tags", &three, Verdict::Passed, PASS, &three);
}

#[test]
fn frames_for_others_pass_unchanged() {
    if !may_run("balancer, passed") {
        return;
    }
    let mut cluster = Cluster::new();
    let base = Udp::new("198.51.100.7:50000", VIP, &interest("/a"));
    let v6 = Udp::new("[2001:db8:1::7]:50000", VIP6, &interest("/a"));
    let with = |at: usize, value: u8, mut frame: Vec<u8>| {
        frame[at] = value;
        frame
    };
    let mut options = base.frame();
    options[14] = 0x46;
    options.splice(34..34, [1, 1, 1, 1]);
    let len = (base.packet().len() + 4) as u16;
    options[16..18].copy_from_slice(&len.to_be_bytes());
    let extension = v6.in_ethernet(&common::frames::ip(
        &v6,
        0,
        &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &v6.datagram()].concat(),
    ));
    let ndn = common::frames::ethernet(OWN_MAC, member_mac(1), &[], 0x8624, &interest("/a"));
    for (what, frame, verdict) in [
        ("ARP", with(13, 6, base.frame()), Verdict::Passed),
        ("TCP", base.in_ethernet(&common::frames::ip(&base, 6, &base.datagram())), Verdict::Passed),
        ("ICMPv6", v6.in_ethernet(&common::frames::ip(&v6, 58, &v6.datagram())), Verdict::Passed),
        ("options", options, Verdict::IpOptions),
        ("an extension header", extension, Verdict::Ipv6Extensions),
        ("version 5", with(14, 0x55, base.frame()), Verdict::Passed),
        ("a header of four words", with(14, 0x44, base.frame()), Verdict::Passed),
        ("longer than its frame", with(17, 0xff, base.frame()), Verdict::Passed),
        ("shorter than its header", with(17, 19, base.frame()), Verdict::Passed),
        ("version 4 in IPv6", with(14, 0x40, v6.frame()), Verdict::Passed),
        ("IPv6 longer than its frame", with(18, 0xff, v6.frame()), Verdict::Passed),
        ("NDN over Ethernet, when it is off", ndn, Verdict::Passed),
        ("no byte after Ethernet", base.frame()[..14].to_vec(), Verdict::Passed),
    ] {
        cluster.expect(what, &frame, verdict, PASS, &frame);
    }
    for (what, frame) in [
        ("UDP longer than IP", with(39, 0xff, base.frame())),
        ("UDP shorter than its header", with(39, 7, base.frame())),
        ("no UDP header", with(17, 24, base.frame())),
        ("IPv6: UDP longer than IP", with(59, 0xff, v6.frame())),
        ("IPv6: no UDP header", with(19, 4, v6.frame())),
    ] {
        cluster.expect(what, &frame, Verdict::Malformed, DROP, &frame);
    }
    // The kernel makes no traffic-control test with less than an IP header.
    cluster.mode = AttachMode::Native;
    // Truncated anywhere, after a whole one: what is left of the previous frame must not matter.
    for whole in [base.frame(), v6.frame()] {
        assert_eq!(cluster.run(&whole).0, REDIRECT);
        for len in 14..whole.len() {
            cluster.expect("cut", &whole[..len], Verdict::Passed, PASS, &whole[..len]);
        }
    }
}
