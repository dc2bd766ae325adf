//! The balancer's program on UDP: packet in, verdict, packet out, each octet of it.

mod common;

use common::cluster::{Cluster, DROP, PASS, REDIRECT, VIP, VIP6, member_mac, member_port};
use common::frames::{OWN_MAC, Udp};
use common::may_run;
use nw_kernel::balancer::Verdict;
use nw_name::Name;
use nw_wire::lp::LpHeader;
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder};

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

fn interest(uri: &str) -> Vec<u8> {
    InterestBuilder::new(name(uri)).nonce(7).encode()
}

fn data(uri: &str) -> Vec<u8> {
    DataBuilder::new(name(uri).as_ref(), &[7; 100]).encode(&DigestSha256).expect("signed")
}

fn link(header: &LpHeader, packet: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    header.encode(packet.len(), &mut wire);
    wire.extend_from_slice(packet);
    wire
}

/// As it leaves to a member.
fn to_member(frame: &Udp, number: u8) -> Vec<u8> {
    let ip = if frame.to.is_ipv4() { format!("10.0.0.{number}") } else { format!("fd00::{number}") };
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
            let nack = link(&LpHeader { nack: Some(nw_wire::NackReason::NoRoute), ..LpHeader::default() }, &interest(&uri));
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
                    cluster.expect(&format!("{what} {uri}"), &frame.frame(), verdict, REDIRECT, &out);
                }
            }
        }
    }
    assert!(served[1..].iter().all(|count| *count > 10), "{served:?}");
    let counters = cluster.counters();
    let all: u64 = (1..=3).map(|number| counters.member(number).to.interests).sum();
    assert_eq!((all, counters.verdict(Verdict::Interest)), (120, 120));
}

#[test]
fn malformed_ones_are_dropped_and_others_pass() {
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
    for to in ["192.0.2.1:6364", "192.0.2.9:6363"] {
        let frame = Udp::new(peer, to, &interest("/a")).frame();
        cluster.expect(to, &frame, Verdict::Passed, PASS, &frame);
    }
}
