//! Tests of the balancer between VLANs, with real sockets at both sides. Tags are in the frames
//! sent, so a kernel without VLANs is sufficient: other interfaces stand for VLAN interfaces in the
//! map of links.

use crate::common::cluster::{VIP, member_port};
use crate::common::frames::Udp;
use crate::common::machines::{MEMBERS_MAC, Machine, Network, OUTSIDE_MAC, PEER_MAC};
use crate::common::net::{alone, give_mac, index_of, ip};
use crate::common::packets::{data, interest};
use crate::common::{self, may_run};
use nw_kernel::balancer::{AttachMode, Link, Verdict};
use std::time::Duration;

const ARRIVES: Duration = Duration::from_secs(5);
/// VLANs of the members, of the outside, and one without an interface.
const INSIDE: u16 = 42;
const OUTSIDE: u16 = 300;
const OTHER: u16 = 7;
/// The peer in the VLAN.
const PEER_IN_VLAN: &str = "198.18.0.7:6363";

fn network(mode: AttachMode) -> Network {
    let mut network = Network::new(mode, Some(INSIDE));
    let mut links = Vec::new();
    for (interface, below, vlan) in [("in0.42", "in0", INSIDE), ("out0.300", "out0", OUTSIDE)] {
        ip(&format!("link add {interface} type veth peer name {interface}-end"));
        ip(&format!("link set {interface}-end up"));
        links.push(Link {
            interface_index: index_of(interface),
            underlying_index: index_of(below),
            vlan,
        });
    }
    give_mac("out0.300", OUTSIDE_MAC);
    ["in0.42", "out0.300"].iter().for_each(|interface| ip(&format!("link set {interface} up")));
    ip("addr add 198.18.0.1/24 dev out0.300");
    ip("neigh add 198.18.0.7 lladdr 02:00:00:00:03:04 dev out0.300 nud permanent");
    network.cluster.balancer.set_links(&links).expect("links");
    network
}

/// Returns the next IPv4 datagram, with the VLAN of its frame (0: none).
fn next(end: &Machine, wait: Duration) -> Option<(u16, Vec<u8>)> {
    loop {
        let (tag, mut frame) = end.raw.receive(wait)?;
        let mut vlan = tag.map(|tag| tag & 0xfff);
        if vlan.is_none() && frame[12..14] == [0x81, 0] {
            vlan = Some(u16::from_be_bytes([frame[14], frame[15]]) & 0xfff);
            frame.drain(12..16);
        }
        // Skips neighbour discovery.
        if frame[12..14] == [8, 0] {
            return Some((vlan.unwrap_or(0), frame));
        }
    }
}

/// Returns the tags as a frame has them.
fn tags(vlans: &[u16]) -> Vec<(u16, u16)> {
    vlans.iter().map(|vlan| (0x8100, *vlan)).collect()
}

fn both_directions(mode: AttachMode) {
    let network = network(mode);
    let number = network.cluster.member_of("/a");
    let to_member = |frame: &Udp| Udp {
        to: format!("10.0.0.{number}:{}", member_port(number)).parse().expect("an address"),
        ttl: 63,
        to_mac: MEMBERS_MAC,
        from_mac: common::machines::INSIDE_MAC,
        tags: Vec::new(),
        ..frame.clone()
    };
    // In the member's VLAN, independent of the VLAN it arrived in.
    for vlans in [&[][..], &[0], &[OUTSIDE], &[0, OUTSIDE]] {
        let frame = network.peer_datagram(VIP, &interest("/a")).tagged(&tags(vlans));
        network.peer.raw.send(&frame.frame());
        let got = next(&network.members, ARRIVES);
        assert_eq!(got, Some((INSIDE, to_member(&frame).frame())), "{mode:?}, {vlans:?}");
    }
    // From a member: in the VLAN of the route.
    for (to, vlan) in [("198.51.100.7:6363", 0), (PEER_IN_VLAN, OUTSIDE)] {
        for vlans in [&[INSIDE][..], &[0, INSIDE]] {
            let to = to.parse().expect("an address");
            let frame = Udp { to, ..network.member_datagram(3, &data("/a")) }.tagged(&tags(vlans));
            network.members.raw.send(&frame.frame());
            let left = Udp {
                from: VIP.parse().expect("an address"),
                ttl: 63,
                to_mac: PEER_MAC,
                from_mac: OUTSIDE_MAC,
                tags: Vec::new(),
                ..frame
            };
            assert_eq!(
                next(&network.peer, ARRIVES),
                Some((vlan, left.frame())),
                "{mode:?}, {vlans:?} to {to}"
            );
        }
    }
}

fn leaks_nothing(mode: AttachMode) {
    let network = network(mode);
    let other: [&[u16]; 5] =
        [&[OTHER], &[0, OTHER], &[INSIDE], &[OUTSIDE, OTHER], &[OTHER, OUTSIDE]];
    for vlans in other {
        for payload in [interest("/a"), data("/a")] {
            for to in [VIP.to_owned(), format!("192.0.2.1:{}", member_port(2))] {
                let frame = network.peer_datagram(&to, &payload).tagged(&tags(vlans));
                network.peer.raw.send(&frame.frame());
                // A later fragment whose first one is unknown.
                let cut = Udp { fragment: 0, ..network.peer_datagram(&to, &[7; 600]) }
                    .tagged(&tags(vlans));
                network.peer.raw.send(&cut.fragments(304)[1]);
            }
        }
    }
    let other: [&[u16]; 4] = [&[OTHER], &[OUTSIDE], &[INSIDE, OTHER], &[OTHER, INSIDE]];
    for vlans in other {
        for to in ["198.51.100.7:6363", PEER_IN_VLAN] {
            let to = to.parse().expect("an address");
            let frame = Udp { to, ..network.member_datagram(3, &data("/a")) }.tagged(&tags(vlans));
            network.members.raw.send(&frame.frame());
        }
    }
    // Frames are in order: after these, no other frame is on its way.
    network.peer.raw.send(&network.peer_datagram(VIP, &interest("/last")).frame());
    let (vlan, last) = next(&network.members, ARRIVES).expect("the last frame to members");
    assert!(
        vlan == INSIDE && last.ends_with(&interest("/last")),
        "{mode:?}: another came to members: {last:?}"
    );
    let last = network.member_datagram(3, &data("/last")).tagged(&tags(&[INSIDE]));
    network.members.raw.send(&last.frame());
    let (vlan, last) = next(&network.peer, ARRIVES).expect("the last frame to the peer");
    assert!(
        vlan == 0 && last.ends_with(&data("/last")),
        "{mode:?}: another came to the peer: {last:?}"
    );
    let counters = network.cluster.counters();
    let sent = [
        Verdict::Interest,
        Verdict::Data,
        Verdict::ToMember,
        Verdict::AnswerOut,
        Verdict::IpFragmentHeld,
    ];
    assert_eq!(sent.map(|verdict| counters.verdict(verdict)), [1, 0, 0, 1, 0], "{mode:?}");
}

/// Fragments before their first one are held with their tags.
fn fragments_in_reverse(mode: AttachMode) {
    let mut network = network(mode);
    let mut held = network.cluster.balancer.held_fragments().expect("held fragments");
    for (vlans, inwards) in [(&[OUTSIDE][..], true), (&[INSIDE], false)] {
        let (from, to) = if inwards {
            (&network.peer, &network.members)
        } else {
            (&network.members, &network.peer)
        };
        let cut = if inwards {
            network.peer_datagram(&format!("192.0.2.1:{}", member_port(2)), &data("/a"))
        } else {
            network.member_datagram(3, &data("/a"))
        };
        let [first, later] = Udp { fragment: 0, ..cut }.tagged(&tags(vlans)).fragments(104);
        from.raw.send(&later);
        from.raw.send(&first);
        let vlan = if inwards { INSIDE } else { 0 };
        let received = || next(to, ARRIVES).map(|(vlan, frame)| (vlan, frame.len()));
        assert_eq!(
            received(),
            Some((vlan, first.len() - 4)),
            "{mode:?}: the first is sent at once"
        );
        let report = held.tick().expect("a tick");
        assert_eq!((report.taken, report.released, report.lost), (1, 1, 0), "{mode:?}: {report:?}");
        assert_eq!(received(), Some((vlan, later.len() - 4)), "{mode:?}: the later one follows");
    }
}

fn in_each_mode(test: &str, run: [fn(); 3]) {
    if may_run(test) {
        run.into_iter().for_each(alone);
    }
}

#[test]
fn tagged_frames_leave_in_the_right_vlan() {
    in_each_mode(
        "balancer, VLANs",
        [
            || both_directions(AttachMode::Native),
            || both_directions(AttachMode::Generic),
            || both_directions(AttachMode::TrafficControl),
        ],
    );
}

#[test]
fn frames_in_unknown_vlans_are_not_forwarded() {
    in_each_mode(
        "balancer, other VLANs",
        [
            || leaks_nothing(AttachMode::Native),
            || leaks_nothing(AttachMode::Generic),
            || leaks_nothing(AttachMode::TrafficControl),
        ],
    );
}

#[test]
fn fragments_in_reverse_order_keep_their_vlan() {
    in_each_mode(
        "balancer, fragments in VLANs",
        [
            || fragments_in_reverse(AttachMode::Native),
            || fragments_in_reverse(AttachMode::Generic),
            || fragments_in_reverse(AttachMode::TrafficControl),
        ],
    );
}
