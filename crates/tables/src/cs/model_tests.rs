//! The content store against a naive model.

use super::tests::{data, find, full_name, insert, store};
use super::*;
use crate::test_util::KEY;
use nw_name::Name;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Insert { name: Name, version: u8, size: usize, freshness_ms: u32 },
    Find { name: Name, digest_of: Option<u8>, can_be_prefix: bool, must_be_fresh: bool },
    Wait { ms: u64 },
    Erase { name: Name, limit: usize },
    Limit { packets: usize, blocks: usize },
    Turn { on: bool, entries: usize },
}

/// Few components, so that names share prefixes; sometimes long ones that straddle blocks, and
/// names with more components than hashes are stored.
fn names() -> impl Strategy<Value = Name> {
    let parts = proptest::collection::vec(0..5u8, 0..7);
    (prop_oneof![8 => Just(0usize), 1 => Just(29), 1 => Just(36)], parts).prop_map(
        |(lead, parts)| {
            let lead = (0..lead).fold(Name::new(), |n, _| n.with_generic("x"));
            parts.iter().fold(lead, |n, part| match part {
                4 => n.with_generic([b'l'; 130]),
                part => n.with_generic([b'a' + part]),
            })
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    let size = prop_oneof![4 => 0..100usize, 1 => 0..3000usize];
    prop_oneof![
        8 => (names(), 0..6u8, size, prop_oneof![Just(0), 1..5000u32])
            .prop_map(|(name, version, size, freshness_ms)| {
                Step::Insert { name, version, size, freshness_ms }
            }),
        8 => (names(), proptest::option::weighted(0.2, 0..6u8), any::<bool>(), any::<bool>())
            .prop_map(|(name, digest_of, can_be_prefix, must_be_fresh)| {
                Step::Find { name, digest_of, can_be_prefix, must_be_fresh }
            }),
        1 => (1..3000u64).prop_map(|ms| Step::Wait { ms }),
        1 => (names(), 0..10usize).prop_map(|(name, limit)| Step::Erase { name, limit }),
        1 => (0..70usize, 0..200usize)
            .prop_map(|(packets, blocks)| Step::Limit { packets, blocks }),
        2 => (any::<bool>(), prop_oneof![0..20usize, Just(1000)])
            .prop_map(|(on, entries)| Step::Turn { on, entries }),
    ]
}

struct Packet {
    name: Name,
    wire: Vec<u8>,
    fresh_until_ms: u64,
    stored: usize,
}

/// The naive store: packets in the order of use, least recently used first.
struct Model {
    packets: Vec<Packet>,
    limits: (usize, usize),
    stored: usize,
}

fn blocks(wire: &[u8]) -> usize {
    wire.len().div_ceil(BLOCK_LEN)
}

impl Model {
    fn blocks(&self) -> usize {
        self.packets.iter().map(|p| blocks(&p.wire)).sum()
    }

    fn evict_to(&mut self, packets: usize, blocks: usize) {
        while self.packets.len() > packets || self.blocks() > blocks {
            self.packets.remove(0);
        }
    }

    fn insert(&mut self, name: &Name, wire: Vec<u8>, fresh_until_ms: u64) -> Insertion {
        if self.limits.0 == 0 || blocks(&wire) > self.limits.1 {
            return Insertion::Rejected;
        }
        if let Some(at) = self.packets.iter().position(|p| p.wire == wire) {
            let mut packet = self.packets.remove(at);
            packet.fresh_until_ms = fresh_until_ms;
            self.packets.push(packet);
            return Insertion::Refreshed;
        }
        let versions = self.packets.iter().filter(|p| p.name == *name);
        if versions.clone().count() == VERSIONS_MAX {
            let first = versions.map(|p| p.stored).min();
            self.packets.retain(|p| Some(p.stored) != first);
        }
        self.evict_to(self.limits.0 - 1, self.limits.1 - blocks(&wire));
        self.stored += 1;
        self.packets.push(Packet { name: name.clone(), wire, fresh_until_ms, stored: self.stored });
        Insertion::New
    }

    /// Looks up a name in the store and checks the result; a packet that was found becomes the most
    /// recently used.
    fn check_find(
        &mut self,
        cs: &mut ContentStore,
        now: u64,
        wanted: &Name,
        can_be_prefix: bool,
        must_be_fresh: bool,
    ) {
        let fresh_at = must_be_fresh.then_some(now);
        let is_match = |packet: &Packet| Model::satisfies(packet, wanted, can_be_prefix, fresh_at);
        match find(cs, now, wanted, can_be_prefix, must_be_fresh) {
            Some(wire) => {
                let position = self.packets.iter().position(|p| p.wire == wire);
                let packet = self.packets.remove(position.expect("the packet is in the store"));
                assert!(is_match(&packet));
                self.packets.push(packet);
            }
            None => {
                let missed = self.packets.iter().find(|p| is_match(p)).map(|p| &p.name);
                assert!(missed.is_none(), "{missed:?} not found by {wanted:?}");
            }
        }
    }

    fn satisfies(
        packet: &Packet,
        wanted: &Name,
        can_be_prefix: bool,
        fresh_at: Option<u64>,
    ) -> bool {
        let full = full_name(&packet.name, &packet.wire);
        let named = packet.name == *wanted
            || full == *wanted
            || can_be_prefix && wanted.as_ref().is_prefix_of(full.as_ref());
        named && fresh_at.is_none_or(|now| now < packet.fresh_until_ms)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(512)))]

    /// A hit is a valid packet; a miss means that there is none (the store is small enough for that
    /// without a tree); evictions equal the model's; and the tree is valid at any point of its
    /// construction or removal.
    #[test]
    fn store_any_operations_equals_model(all in proptest::collection::vec(steps(), 1..250)) {
        let mut cs = store(60, 150 * BLOCK_LEN);
        let mut model = Model { packets: Vec::new(), limits: (60, 150), stored: 0 };
        let mut now = 5u64;
        for step in all {
            match step {
                Step::Insert { name, version, size, freshness_ms } => {
                    let mut content = vec![0; size];
                    content.push(version);
                    let wire = data(&name, &content);
                    let got = insert(&mut cs, now, &name, &wire, freshness_ms);
                    let until = if freshness_ms == 0 { 0 } else { now + u64::from(freshness_ms) };
                    prop_assert_eq!(got, model.insert(&name, wire, until));
                }
                Step::Find { name, digest_of, can_be_prefix, must_be_fresh } => {
                    let digest_packet = digest_of.and_then(|nth| {
                        model.packets.iter().filter(|p| p.name == name).nth(usize::from(nth))
                    });
                    let wanted = digest_packet.map_or(name, |p| full_name(&p.name, &p.wire));
                    model.check_find(&mut cs, now, &wanted, can_be_prefix, must_be_fresh);
                }
                Step::Wait { ms } => now += ms,
                Step::Erase { name, limit } => {
                    let covered = model
                        .packets
                        .iter()
                        .filter(|p| name.as_ref().is_prefix_of(p.name.as_ref()))
                        .count();
                    let erased = cs.erase(name.as_ref(), limit);
                    prop_assert_eq!(erased, covered.min(limit));
                    // Which of them were removed is not specified; without a limit it is all.
                    if erased == covered {
                        model.packets.retain(|p| !name.as_ref().is_prefix_of(p.name.as_ref()));
                    } else {
                        model.packets.retain(|p| holds(&cs, p));
                    }
                }
                Step::Turn { on, entries } => cs.switch_tree(on, entries),
                Step::Limit { packets, blocks } => {
                    cs.set_limits(packets, blocks * BLOCK_LEN);
                    cs.evict_excess(Timestamp::from_millis(now), usize::MAX);
                    model.limits = (packets.min(60), blocks.min(150));
                    let (packets, blocks) = model.limits;
                    model.evict_to(packets, blocks);
                }
            }
            prop_assert_eq!(cs.len(), model.packets.len());
            prop_assert_eq!(cs.bytes(), model.blocks() * BLOCK_LEN);
            let linked = cs.tree.assert_invariants(cs.len());
            prop_assert!(!cs.lifecycle.is_on() || linked == cs.len());
            prop_assert!(!cs.lifecycle.is_off() || linked == 0);
        }
        prop_assert_eq!(cs.counters().searches_aborted, 0);
        for packet in &model.packets {
            prop_assert!(holds(&cs, packet));
        }
    }
}

/// Looks up a packet without counting it as used.
fn holds(cs: &ContentStore, packet: &Packet) -> bool {
    let key = PrefixHashes::of(&KEY, packet.name.as_ref()).lookup_hash();
    let same = |id: u32| {
        cs.is_named(id, key, packet.name.as_ref().as_bytes()) && {
            let entry = &cs.tree.entries[id as usize];
            usize::from(entry.wire_len) == packet.wire.len()
                && cs.tree.arena.eq_at(id, 0, &packet.wire)
        }
    };
    cs.tree.keys.find(key, same).is_some()
}
