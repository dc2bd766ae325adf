//! Compares `nw_slot_table` with the program: thousands of names, with rules.

use crate::common::cluster::{Cluster, KEY, VIP};
use crate::common::frames::Udp;
use crate::common::{self, may_run, packets, vectors};
use nw_kernel::balancer::{BalancerOptions, Verdict};
use nw_name::{Component, ComponentType, Name};
use nw_slot_table::{Effect, Rule, Rules};
use nw_wire::InterestBuilder;
use nw_wire::shard::{Reason, prefix_hashes};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;

/// Returns names from few components, so that rules match many; with digests in odd places, long
/// components, and more components than are hashed.
fn names() -> impl Strategy<Value = Name> {
    let component = prop_oneof![
        8 => (0..4u8).prop_map(|n| (8, vec![b'a' + n])),
        1 => Just((1, vec![9; 32])),
        1 => Just((2, vec![8; 32])),
        1 => (0..300usize).prop_map(|len| (8, vec![7; len])),
        1 => (253..400u16).prop_map(|typ| (typ, vec![1])),
    ];
    proptest::collection::vec(component, 0..24).prop_map(|parts| {
        parts.iter().fold(Name::new(), |name, (typ, value)| {
            name.with(
                Component::new(ComponentType::new(*typ).expect("a type"), value)
                    .expect("a component"),
            )
        })
    })
}

fn rules() -> impl Strategy<Value = Rules> {
    let rule = (names(), 0..=16u8, 0..3u8).prop_map(|(prefix, depth, control)| {
        let effect = if control == 0 { Effect::Control } else { Effect::Depth(depth) };
        Rule { prefix, effect }
    });
    proptest::collection::vec(rule, 0..40).prop_map(|all| {
        let mut rules = Rules::default();
        for mut rule in all {
            // Short prefixes, so that they match; invalid rules are left out.
            rule.prefix.truncate(4);
            let _ = rules.add(rule);
        }
        rules
    })
}

fn verdict_of(cluster: &mut Cluster, packet: &[u8]) -> (Option<u8>, bool) {
    let frame = Udp::new("198.51.100.7:50000", VIP, packet).frame();
    let before = cluster.counters();
    let (_, out) = cluster.run(&frame);
    let after = cluster.counters();
    let counted = |verdict| after.verdict(verdict) - before.verdict(verdict);
    let sent = counted(Verdict::Interest) + counted(Verdict::Control);
    ((sent == 1).then(|| out[33]), counted(Verdict::Control) == 1)
}

#[test]
fn program_chooses_the_member_of_nw_slot_table() {
    if !may_run("balancer, names") {
        return;
    }
    let mut cluster = Cluster::new();
    cluster.balancer.set_control(3).expect("control");
    let mut runner =
        TestRunner::new(Config { cases: 150, failure_persistence: None, ..Config::default() });
    let (mut controls, mut limited, mut shared) = (0, 0, 0);
    let strategy = (rules(), proptest::collection::vec(names(), 30));
    for _ in 0..runner.config().cases {
        let (rules, names) = strategy.new_tree(&mut runner).expect("a case").current();
        cluster.balancer.set_rules(&rules).expect("rules");
        for name in names {
            if name.as_ref().is_empty() {
                continue;
            }
            let packet = InterestBuilder::new(name.clone()).nonce(7).encode();
            let served = nw_slot_table::locate_name(name.as_ref(), &KEY, &rules, &cluster.table, 3);
            let (member, control) = verdict_of(&mut cluster, &packet);
            assert_eq!(member, Some(served.member), "{name} with {rules:?}");
            assert_eq!(control, served.decision.hash.is_none(), "{name} with {rules:?}");
            controls += u32::from(control);
            let plain = Rules::default().decide(name.as_ref(), &KEY);
            limited += u32::from(plain.hash != served.decision.hash && !control);
            shared += u32::from(plain.hash == served.decision.hash);
        }
    }
    assert!(controls > 100 && limited > 100 && shared > 100, "{controls} {limited} {shared}");
}

/// Packets are copied in words: names that end with their packet at any offset in a word, over IPv4
/// and IPv6, after a longer packet.
#[test]
fn name_at_the_end_of_its_packet_is_hashed_right() {
    if !may_run("balancer, ends") {
        return;
    }
    let mut cluster = Cluster::new();
    let longer = packets::interest(&format!("/{}", "x".repeat(150)));
    for len in 0..200 {
        let name =
            Name::new().with_generic(b"end").with_generic(vec![b'a' + (len % 26) as u8; len]);
        let mut packet = vec![7, name.as_ref().as_bytes().len() as u8];
        packet.extend_from_slice(name.as_ref().as_bytes());
        packet.splice(0..0, [5, packet.len() as u8]);
        let member = cluster.member_by(name.as_ref(), &Rules::default());
        assert!(verdict_of(&mut cluster, &longer).0.is_some());
        assert_eq!(verdict_of(&mut cluster, &packet).0, Some(member), "{len} bytes");
        let frame = Udp::new("[2001:db8:1::7]:50000", common::cluster::VIP6, &packet).frame();
        assert_eq!(cluster.run(&frame).1[53], member, "{len} bytes, IPv6");
    }
}

#[test]
fn depth_rule_joins_discovery_and_content() {
    if !may_run("balancer, depths") {
        return;
    }
    let mut cluster = Cluster::new();
    let prefix: Name = "/video".parse().expect("a name");
    let rules = Rules::new([Rule { prefix, effect: Effect::Depth(2) }]).expect("rules");
    let spread = |cluster: &mut Cluster, lecture: &str| -> Vec<u8> {
        let uris = (0..20)
            .map(|segment| format!("/video/{lecture}/v=9/seg={segment}"))
            .chain([format!("/video/{lecture}")]);
        let mut members: Vec<_> = uris
            .map(|uri| verdict_of(cluster, &packets::interest(&uri)).0.expect("a member"))
            .collect();
        members.sort_unstable();
        members.dedup();
        members
    };
    assert_eq!(spread(&mut cluster, "one").len(), 3);
    cluster.balancer.set_rules(&rules).expect("rules");
    let joined: Vec<_> = ["one", "two", "three", "four", "five"]
        .map(|lecture| spread(&mut cluster, lecture))
        .to_vec();
    assert!(joined.iter().all(|members| members.len() == 1), "{joined:?}");
    assert!(joined.iter().any(|members| members != &joined[0]), "{joined:?}");
    cluster.balancer.set_rules(&Rules::default()).expect("rules");
    assert_eq!(spread(&mut cluster, "one").len(), 3);
}

/// The golden vectors for shards: a name's hash chooses the member here.
#[test]
fn golden_vectors_have_the_same_hash() {
    if !may_run("balancer, vectors") {
        return;
    }
    let mut checked = 0;
    let mut by_key = BTreeMap::<_, Vec<_>>::new();
    vectors().into_iter().for_each(|vector| by_key.entry(vector.key).or_default().push(vector));
    for (key, vectors) in by_key {
        let key = common::hash_key(key);
        let mut cluster = Cluster::with(&BalancerOptions { key, ..common::cluster::options() });
        for vector in vectors.iter().filter(|vector| vector.reason == Reason::Interest.as_str()) {
            let Ok(interest) = nw_wire::Interest::check(&vector.packet) else { continue };
            let (hash, _) =
                prefix_hashes(interest.name().as_bytes(), &key, |_, _, _| ()).expect("a name");
            let (member, _) = verdict_of(&mut cluster, &vector.packet);
            assert_eq!(member, Some(cluster.table.member_of(hash)), "line {}", vector.line);
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked} vectors");
}
