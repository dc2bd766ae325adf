//! Tests of packets from members to the outside, in a network namespace with routes.

use crate::common::cluster::{Cluster, DROP, PASS, REDIRECT, VIP, VIP6, member_mac, member_port};
use crate::common::frames::Udp;
use crate::common::may_run;
use crate::common::net::{alone, give_mac, index_of, ip, set};
use crate::common::packets::{data, fragment, interest, link, prefix_interest};
use nw_kernel::balancer::{Link, Verdict};
use nw_wire::lp::LpHeader;

const PEER: &str = "198.51.100.7:6363";
const PEER6: &str = "[2001:db8:1::7]:6363";
const NEXT_HOP: [u8; 6] = [2, 0, 0, 0, 2, 7];
const OUTSIDE_MAC: [u8; 6] = [2, 0, 0, 0, 2, 1];

/// `in0` towards members, `out0` towards the outside; test frames arrive on `in0`. `vlan0` stands
/// for a VLAN interface on `out0`, which not every kernel has; the program only knows the map of
/// links.
struct Net {
    cluster: Cluster,
    inside: u32,
}

impl Net {
    fn new() -> Self {
        for (end, other) in [("in0", "in1"), ("out0", "out1"), ("vlan0", "vlan1")] {
            ip(&format!("link add {end} type veth peer name {other}"));
            ip(&format!("link set {other} up"));
        }
        give_mac("out0", OUTSIDE_MAC);
        give_mac("vlan0", OUTSIDE_MAC);
        for up in ["lo", "in0", "out0", "vlan0"] {
            ip(&format!("link set {up} up"));
        }
        set("ipv4/ip_forward", "1");
        set("ipv6/conf/all/forwarding", "1");
        ip("addr add 10.0.0.254/24 dev in0");
        ip("addr add fd00::254/64 dev in0 nodad");
        ip("addr add 192.0.2.1/32 dev lo");
        ip("addr add 198.51.100.1/24 dev out0");
        ip("addr add 2001:db8:1::1/64 dev out0 nodad");
        ip("addr add 198.18.0.1/24 dev vlan0");
        for (address, link) in
            [("198.51.100.7", "out0"), ("2001:db8:1::7", "out0"), ("198.18.0.7", "vlan0")]
        {
            ip(&format!("neigh add {address} lladdr 02:00:00:00:02:07 dev {link} nud permanent"));
        }
        ip("route add unreachable 203.0.113.0/24");
        Net { cluster: Cluster::new(), inside: index_of("in0") }
    }

    /// Both peers accept packets from the cluster's port only.
    fn with_one_port_peers() -> Self {
        let mut net = Net::new();
        let peers = [PEER, PEER6].map(|peer| peer.parse().expect("an address"));
        net.cluster.balancer.set_one_port_peers(&peers).expect("peers");
        net
    }

    #[track_caller]
    fn expect(&mut self, what: &str, frame: &[u8], verdict: Verdict, action: u32, out: &[u8]) {
        self.cluster.expect_on(what, frame, Some(self.inside), verdict, action, out);
    }
}

/// Returns a member's datagram to a peer.
fn from_member(number: u8, to: &str, payload: &[u8]) -> Udp {
    let from =
        if to.starts_with('[') { format!("[fd00::{number}]") } else { format!("10.0.0.{number}") };
    let frame = Udp::new(&format!("{from}:{}", member_port(number)), to, payload);
    Udp { from_mac: member_mac(number), fragment: 0x4000, ..frame }
}

/// Returns the datagram as it leaves: from the cluster, with its port or a member's.
fn outside(frame: &Udp, port: u16) -> Udp {
    let mut out = frame.clone();
    out.from = if frame.to.is_ipv4() { VIP } else { VIP6 }.parse().expect("an address");
    out.from.set_port(port);
    out.ttl -= 1;
    (out.to_mac, out.from_mac) = (NEXT_HOP, OUTSIDE_MAC);
    out
}

fn in_namespace(test: &str, run: fn()) {
    if may_run(test) {
        alone(run);
    }
}

#[test]
fn interests_keep_the_member_s_port_and_answers_get_the_cluster_s() {
    in_namespace("balancer, out", || {
        let mut net = Net::new();
        let nack = LpHeader { nack: Some(nw_wire::NackReason::NoRoute), ..LpHeader::default() };
        let mark = LpHeader { congestion_mark: 1, ..LpHeader::default() };
        for peer in [PEER, PEER6] {
            for number in 1..=3 {
                for (what, payload, port, verdict) in [
                    ("an Interest", interest("/a/b"), member_port(number), Verdict::InterestOut),
                    (
                        "an Interest with a link header",
                        link(&mark, &interest("/a/b")),
                        member_port(number),
                        Verdict::InterestOut,
                    ),
                    ("a Data", data("/a/b"), 6363, Verdict::AnswerOut),
                    (
                        "a Data with a link header",
                        link(&mark, &data("/a/b")),
                        6363,
                        Verdict::AnswerOut,
                    ),
                    ("a Nack", link(&nack, &interest("/a/b")), 6363, Verdict::AnswerOut),
                ] {
                    let frame = from_member(number, peer, &payload);
                    let out = outside(&frame, port).frame();
                    net.expect(what, &frame.frame(), verdict, REDIRECT, &out);
                }
            }
        }
        let unsummed = Udp { checksum: false, ..from_member(1, PEER, &data("/a/b")) };
        let out = outside(&unsummed, 6363).frame();
        net.expect("no checksum", &unsummed.frame(), Verdict::AnswerOut, REDIRECT, &out);
        let counted = net.cluster.counters().member(1).from;
        // Each went through both programs.
        assert_eq!((counted.interests, counted.data, counted.nacks), (8, 10, 4));
    });
}

#[test]
fn sequences_and_fragments_are_distinct_per_member() {
    in_namespace("balancer, sequences", || {
        let mut net = Net::new();
        // Headers of two bytes, and of four.
        for part in [40, 130] {
            for number in 1..=3u8 {
                let payload =
                    fragment(0x0102_0304_0506_0708, 0, 2, &DataOf(300).packet()[..2 * part]);
                let frame = from_member(number, PEER, &payload);
                let mut tagged = payload.clone();
                let at = tagged
                    .windows(8)
                    .position(|bytes| bytes == [1, 2, 3, 4, 5, 6, 7, 8])
                    .expect("Sequence");
                tagged[at] ^= number;
                let out = Udp { payload: tagged, ..outside(&frame, 6363) }.frame();
                net.expect("a fragment", &frame.frame(), Verdict::AnswerOut, REDIRECT, &out);
            }
        }
        // Fragments of an Interest follow its first one; those of another member do not.
        let packet = interest("/a/b/c/d/e/f");
        let (first, later) = packet.split_at(10);
        for (number, index, bytes, port, verdict) in [
            (1, 1, later, 6363, Verdict::AnswerOut),
            (1, 0, first, member_port(1), Verdict::InterestOut),
            (1, 1, later, member_port(1), Verdict::InterestOut),
            (2, 1, later, 6363, Verdict::AnswerOut),
        ] {
            let payload = fragment(1000, index, 2, bytes);
            let frame = from_member(number, PEER, &payload);
            let at = payload
                .windows(8)
                .position(|bytes| bytes == (1000 + index).to_be_bytes())
                .expect("Sequence");
            let mut tagged = payload.clone();
            tagged[at] ^= number;
            let out = Udp { payload: tagged, ..outside(&frame, port) }.frame();
            net.expect("of an Interest", &frame.frame(), verdict, REDIRECT, &out);
        }
        let from = |number| net.cluster.counters().member(number).from;
        // Member 1: first fragments of two Data and one Interest, two later ones; each through both
        // programs.
        assert_eq!((from(1).data, from(1).interests, from(1).fragments), (4, 2, 4));
        assert_eq!((from(2).data, from(2).interests, from(2).fragments), (4, 0, 2));
    });
}

#[test]
fn one_port_peers_get_interests_from_the_cluster_s_port() {
    in_namespace("balancer, one port", || {
        let mut net = Net::with_one_port_peers();
        for peer in [PEER, PEER6] {
            let frame = from_member(2, peer, &interest("/a"));
            let out = outside(&frame, 6363).frame();
            net.expect(peer, &frame.frame(), Verdict::InterestOutOnePort, REDIRECT, &out);
        }
        net.cluster
            .balancer
            .set_one_port_peers(&[PEER6.parse().expect("an address")])
            .expect("peers");
        let frame = from_member(2, PEER, &interest("/a"));
        let out = outside(&frame, member_port(2)).frame();
        net.expect("no more", &frame.frame(), Verdict::InterestOut, REDIRECT, &out);
    });
}

/// Version discovery: the Data's name is longer, comes to the cluster's port, and hashes to another
/// member.
#[test]
fn data_for_a_prefix_reaches_the_member_that_sent_the_interest() {
    in_namespace("balancer, prefixes", || {
        let mut net = Net::with_one_port_peers();
        let token =
            LpHeader { pit_token: nw_wire::Token::new(&[7; 4]).unwrap(), ..LpHeader::default() };
        let (prefix, answer) = ("/video/lecture", "/video/lecture/v=1/seg=0");
        let by_name = net.cluster.member_of(answer);
        let asks = (1..=3).find(|number| *number != by_name).expect("three members");
        let run = |net: &mut Net, frame: &Udp, tc: bool| match tc {
            true => net.cluster.run_tc(&frame.frame(), Some(net.inside)).1,
            false => net.cluster.run_on(&frame.frame(), Some(net.inside)).1,
        };
        for tc in [false, true] {
            for peer in [PEER, PEER6] {
                let served = |net: &mut Net, name: &str| {
                    let to = if peer == PEER { VIP } else { VIP6 };
                    let out = run(net, &Udp::new(peer, to, &data(name)), tc);
                    if peer == PEER { out[33] } else { out[53] }
                };
                for asked in [prefix_interest(prefix), link(&token, &prefix_interest(prefix))] {
                    run(&mut net, &from_member(asks, peer, &asked), tc);
                    assert_eq!(
                        served(&mut net, "/video/other/v=1/seg=0"),
                        net.cluster.member_of("/video/other/v=1/seg=0")
                    );
                    assert_eq!(served(&mut net, answer), asks);
                    // An Interest is satisfied once.
                    assert_eq!(served(&mut net, answer), by_name);
                }
                // An Interest without CanBePrefix is not recorded.
                run(&mut net, &from_member(asks, peer, &interest(prefix)), tc);
                assert_eq!(served(&mut net, answer), by_name);
                // The longest recorded name wins; and a name that is the Data's own.
                run(&mut net, &from_member(asks, peer, &prefix_interest(prefix)), tc);
                run(
                    &mut net,
                    &from_member(by_name, peer, &prefix_interest("/video/lecture/v=1")),
                    tc,
                );
                assert_eq!(served(&mut net, answer), by_name);
                assert_eq!(served(&mut net, answer), asks);
                run(&mut net, &from_member(asks, peer, &prefix_interest(answer)), tc);
                assert_eq!(served(&mut net, answer), asks);
            }
        }
        // A record without an answer expires.
        run(&mut net, &from_member(asks, PEER, &prefix_interest(prefix)), false);
        std::thread::sleep(std::time::Duration::from_millis(4100));
        assert_eq!(run(&mut net, &Udp::new(PEER, VIP, &data(answer)), false)[33], by_name);
        // For a peer that answers to the Interest's source port, nothing is recorded.
        net.cluster.balancer.set_one_port_peers(&[]).expect("peers");
        run(&mut net, &from_member(asks, PEER, &prefix_interest(prefix)), false);
        assert_eq!(run(&mut net, &Udp::new(PEER, VIP, &data(answer)), false)[33], by_name);
    });
}

#[test]
fn packet_without_a_usable_route_is_passed_or_dropped() {
    in_namespace("balancer, no way", || {
        let mut net = Net::new();
        let still = |frame: &Udp| {
            let out = outside(frame, 6363);
            Udp { ttl: frame.ttl, to_mac: frame.to_mac, from_mac: frame.from_mac, ..out }.frame()
        };
        let unresolved = from_member(1, "198.51.100.99:50000", &data("/a"));
        net.expect(
            "unresolved",
            &unresolved.frame(),
            Verdict::Unresolved,
            PASS,
            &still(&unresolved),
        );
        let own = from_member(1, "10.0.0.254:50000", &data("/a")).frame();
        net.expect("to the balancer itself", &own, Verdict::Passed, PASS, &own);
        let refused = from_member(1, "203.0.113.1:50000", &data("/a")).frame();
        net.expect("no route", &refused, Verdict::NoRoute, DROP, &refused);
        let old = Udp { ttl: 1, ..from_member(1, PEER, &data("/a")) }.frame();
        net.expect("the last hop", &old, Verdict::TimeToLive, DROP, &old);
        for other in ["10.0.0.9:6371", "10.0.0.1:6379", "10.0.0.2:6371"] {
            let frame =
                Udp { from: other.parse().unwrap(), ..from_member(1, PEER, &data("/a")) }.frame();
            net.expect("no member's", &frame, Verdict::Passed, PASS, &frame);
        }
        ip("link set out0 mtu 1280");
        let long = DataOf(1400).packet();
        let kept = from_member(1, PEER, &long).frame();
        net.expect("too long", &kept, Verdict::TooLongOut, PASS, &kept);
        let parted = Udp { fragment: 0, ..from_member(1, PEER, &long) };
        let out = Udp { id: parted.id ^ 1 << 10, ..outside(&parted, 6363) };
        let out = Udp { ttl: parted.ttl, to_mac: parted.to_mac, from_mac: parted.from_mac, ..out }
            .frame();
        net.expect("too long, may be fragmented", &parted.frame(), Verdict::TooLongOut, PASS, &out);
    });
}

/// A Data with this many bytes of content.
struct DataOf(usize);

impl DataOf {
    fn packet(&self) -> Vec<u8> {
        let name: nw_name::Name = "/long".parse().expect("a name");
        nw_wire::DataBuilder::new(name.as_ref(), &vec![7; self.0])
            .encode(&nw_wire::DigestSha256)
            .expect("signed")
    }
}

#[test]
fn invalid_packet_of_a_member_is_dropped() {
    in_namespace("balancer, no packet", || {
        let mut net = Net::new();
        let acks = LpHeader { acks: &[5], ..LpHeader::default() };
        let reliable = LpHeader { sequence: Some(1), tx_sequence: Some(2), ..LpHeader::default() };
        for (what, payload, verdict) in [
            ("no NDN", b"hello".to_vec(), Verdict::NotNdn),
            ("idle", vec![100, 0], Verdict::Idle),
            ("an acknowledgement", link(&acks, &data("/a")), Verdict::Reliability),
            ("reliability", link(&reliable, &data("/a")), Verdict::Reliability),
            ("malformed", vec![100, 3, 80, 9, 1], Verdict::Malformed),
        ] {
            let frame = from_member(1, PEER, &payload).frame();
            net.expect(what, &frame, verdict, DROP, &frame);
        }
    });
}

#[test]
fn vlan_tags_are_removed_and_added() {
    in_namespace("balancer, tags out", || {
        let mut net = Net::new();
        let (vlan, below) = (index_of("vlan0"), index_of("out0"));
        let link = |interface_index, underlying_index, vlan| Link {
            interface_index,
            underlying_index,
            vlan,
        };
        // in1 and out1 stand for VLAN 7 of in0, and VLAN 8 in that.
        let (seven, eight) = (index_of("in1"), index_of("out1"));
        let links = [link(vlan, below, 300), link(seven, net.inside, 7), link(eight, seven, 8)];
        net.cluster.balancer.set_links(&links).expect("links");
        for tags in [vec![], vec![(0x8100, 7)], vec![(0x88a8, 7), (0x8100, 8)]] {
            let frame = from_member(3, "198.18.0.7:6363", &data("/a")).tagged(&tags);
            let out = outside(&frame, 6363).tagged(&[(0x8100, 300)]).frame();
            net.expect("to a VLAN", &frame.frame(), Verdict::AnswerOut, REDIRECT, &out);
            let frame = from_member(3, PEER, &data("/a")).tagged(&tags);
            let out = outside(&frame, 6363).tagged(&[]).frame();
            net.expect("to none", &frame.frame(), Verdict::AnswerOut, REDIRECT, &out);
        }
        for tags in [vec![(0x8100, 8)], vec![(0x8100, 300)], vec![(0x8100, 7), (0x8100, 9)]] {
            let other = from_member(3, PEER, &data("/a")).tagged(&tags).frame();
            net.expect("of another VLAN", &other, Verdict::Passed, PASS, &other);
        }
    });
}

#[test]
fn ip_fragments_of_members_follow_the_first_one() {
    in_namespace("balancer, fragments out", || {
        let mut net = Net::new();
        let frame = Udp { fragment: 0, ..from_member(2, PEER, &DataOf(1000).packet()) };
        let out = Udp { id: frame.id ^ 2 << 10, ..outside(&frame, 6363) };
        let ([first, later], [first_out, later_out]) = (frame.fragments(504), out.fragments(504));
        net.expect("before it", &later, Verdict::IpFragmentHeld, DROP, &later);
        net.expect("the first", &first, Verdict::AnswerOut, REDIRECT, &first_out);
        net.expect("a later one", &later, Verdict::IpFragmentOut, REDIRECT, &later_out);
        let other = Udp { id: 99, ..frame }.fragments(504)[1].clone();
        net.expect("of another packet", &other, Verdict::IpFragmentHeld, DROP, &other);
        // Other packets of a member's machine pass, fragmented or not; and all packets of other
        // machines.
        for (from, port) in [("10.0.0.2", 53), ("10.0.0.2", member_port(1)), ("10.0.0.9", 53)] {
            let from = format!("{from}:{port}").parse().expect("an address");
            let parts =
                Udp { from, id: 100 + port, fragment: 0, ..from_member(2, PEER, &[7; 300]) };
            for part in parts.fragments(104) {
                net.expect("another program's", &part, Verdict::Passed, PASS, &part);
            }
        }
    });
}
