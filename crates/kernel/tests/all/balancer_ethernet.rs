//! Tests of the balancer's program with NDN over Ethernet.

use crate::common::cluster::{Cluster, DROP, PASS, REDIRECT, TX, entry, member_mac, options};
use crate::common::frames::ethernet;
use crate::common::may_run;
use crate::common::net::{alone, index_of, ip};
use crate::common::packets::{data, fragment, interest};
use nw_kernel::balancer::{AttachMode, BalancerOptions, EthernetOptions, MemberEntry, Verdict};

const CLUSTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xee];
const CONSUMER: [u8; 6] = [2, 0, 0, 0, 9, 9];
const GROUP: [u8; 6] = EthernetOptions::GROUP;

fn cluster(outside_index: u32, inside_index: u32) -> Cluster {
    let faces =
        EthernetOptions { outside_index, outside_mac: CLUSTER_MAC, inside_index, group: GROUP };
    let mut cluster = Cluster::with(&BalancerOptions { ethernet: Some(faces), ..options() });
    for number in 1..=3 {
        let member = MemberEntry { mac: Some(member_mac(number)), hop: None, ..entry(number) };
        cluster.balancer.set_member(number, &member).expect("a member");
    }
    cluster
}

fn frame(to: [u8; 6], from: [u8; 6], packet: &[u8]) -> Vec<u8> {
    ethernet(to, from, &[], 0x8624, packet)
}

/// Packets to the cluster or its group go to the member of their name, packets to a member to it.
fn expect_members_of_names(cluster: &mut Cluster, outside: u32) {
    for segment in 0..20 {
        let uri = format!("/a/seg={segment}");
        let number = cluster.member_of(&uri);
        for to in [CLUSTER_MAC, GROUP] {
            for (packet, verdict) in
                [(interest(&uri), Verdict::Interest), (data(&uri), Verdict::Data)]
            {
                let out = frame(member_mac(number), CONSUMER, &packet);
                cluster.expect_on(
                    "in",
                    &frame(to, CONSUMER, &packet),
                    Some(outside),
                    verdict,
                    REDIRECT,
                    &out,
                );
            }
        }
        // To the member's own address.
        let packet = data(&uri);
        let whole = frame(member_mac(2), CONSUMER, &packet);
        cluster.expect_on("its own", &whole, Some(outside), Verdict::ToMember, REDIRECT, &whole);
    }
}

#[test]
fn names_choose_the_member_s_address_and_members_are_known_by_theirs() {
    if !may_run("balancer, Ethernet") {
        return;
    }
    alone(|| {
        ip("link add out0 type veth peer name out1");
        ip("link add in0 type veth peer name in1");
        ["out0", "out1", "in0", "in1"].iter().for_each(|end| ip(&format!("link set {end} up")));
        let (outside, inside) = (index_of("out0"), index_of("in0"));
        let mut cluster = cluster(outside, inside);
        expect_members_of_names(&mut cluster, outside);
        let whole = frame(CONSUMER, member_mac(1), &interest("/a"));
        cluster.expect_on(
            "an Interest",
            &whole,
            Some(inside),
            Verdict::InterestOut,
            REDIRECT,
            &whole,
        );
        let whole = frame(CONSUMER, member_mac(1), &data("/a"));
        let out = frame(CONSUMER, CLUSTER_MAC, &data("/a"));
        cluster.expect_on("a Data", &whole, Some(inside), Verdict::AnswerOut, REDIRECT, &out);
        let part = fragment(0, 1, 3, &[7; 40]);
        let mut tagged = part.clone();
        tagged[4] ^= 3;
        let whole = frame(CONSUMER, member_mac(3), &part);
        let out = frame(CONSUMER, CLUSTER_MAC, &tagged);
        cluster.expect_on("a fragment", &whole, Some(inside), Verdict::AnswerOut, REDIRECT, &out);
        let whole = frame(CLUSTER_MAC, CONSUMER, b"hello");
        cluster.expect_on("no NDN", &whole, Some(outside), Verdict::NotNdn, DROP, &whole);
        for (what, whole, index) in [
            ("another machine's", frame([2, 9, 9, 9, 9, 9], CONSUMER, &interest("/a")), outside),
            ("no member's", frame(CONSUMER, [2, 9, 9, 9, 9, 9], &interest("/a")), inside),
            ("another interface", frame(CLUSTER_MAC, CONSUMER, &interest("/a")), 1),
        ] {
            cluster.expect_on(what, &whole, Some(index), Verdict::Passed, PASS, &whole);
        }
        // A member without such a face.
        let number = cluster.member_of("/a");
        cluster
            .balancer
            .set_member(number, &MemberEntry { mac: None, ..entry(number) })
            .expect("a member");
        let whole = frame(CLUSTER_MAC, CONSUMER, &interest("/a"));
        cluster.expect_on("no address", &whole, Some(outside), Verdict::NoHop, DROP, &whole);
    });
}

#[test]
fn one_interface_may_be_inside_and_outside() {
    if !may_run("balancer, Ethernet, one-armed") {
        return;
    }
    let mut cluster = cluster(1, 1);
    let number = cluster.member_of("/a");
    let whole = frame(CLUSTER_MAC, CONSUMER, &interest("/a"));
    let out = frame(member_mac(number), CONSUMER, &interest("/a"));
    cluster.expect_on("in", &whole, Some(1), Verdict::Interest, TX, &out);
    let whole = frame(CONSUMER, member_mac(1), &data("/a"));
    let out = frame(CONSUMER, CLUSTER_MAC, &data("/a"));
    cluster.expect_on("out", &whole, Some(1), Verdict::AnswerOut, TX, &out);
}

#[test]
fn frames_in_vlans_are_left_to_the_system() {
    if !may_run("balancer, Ethernet in VLANs") {
        return;
    }
    alone(|| {
        ip("link add out0 type veth peer name out1");
        let outside = index_of("out0");
        let mut cluster = cluster(outside, outside);
        // A priority tag (VLAN 0) counts as untagged. Checked in native mode only: traffic
        // control's tags are not in the frame.
        cluster.mode = AttachMode::Native;
        let number = cluster.member_of("/a");
        let tag = |tag| [(0x8100, tag)];
        let whole = ethernet(CLUSTER_MAC, CONSUMER, &tag(0xa000), 0x8624, &interest("/a"));
        let out = ethernet(member_mac(number), CONSUMER, &tag(0xa000), 0x8624, &interest("/a"));
        cluster.expect_on("priority", &whole, Some(outside), Verdict::Interest, TX, &out);
        cluster.mode = AttachMode::TrafficControl;
        for (to, from) in [(CLUSTER_MAC, CONSUMER), (GROUP, CONSUMER), (CONSUMER, member_mac(1))] {
            let other = ethernet(to, from, &tag(7), 0x8624, &interest("/a"));
            cluster.expect_on("VLAN 7", &other, Some(outside), Verdict::Passed, PASS, &other);
        }
    });
}
