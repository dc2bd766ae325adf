//! The store beside a naive one.

use super::tests::{KEY, data, find, full_name, insert, store};
use super::*;
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

/// Few components, so that names share prefixes; now and then long ones that straddle blocks, and names deeper than prefixes are kept.
fn names() -> impl Strategy<Value = Name> {
    let parts = proptest::collection::vec(0..5u8, 0..7);
    (prop_oneof![8 => Just(0usize), 1 => Just(29), 1 => Just(36)], parts).prop_map(|(lead, parts)| {
        let lead = (0..lead).fold(Name::new(), |n, _| n.with_generic("x"));
        parts.iter().fold(lead, |n, part| match part {
            4 => n.with_generic([b'l'; 130]),
            part => n.with_generic([b'a' + part]),
        })
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let size = prop_oneof![4 => 0..100usize, 1 => 0..3000usize];
    prop_oneof![
        8 => (names(), 0..6u8, size, prop_oneof![Just(0), 1..5000u32])
            .prop_map(|(name, version, size, freshness_ms)| Step::Insert { name, version, size, freshness_ms }),
        8 => (names(), proptest::option::weighted(0.2, 0..6u8), any::<bool>(), any::<bool>()).prop_map(
            |(name, digest_of, can_be_prefix, must_be_fresh)| Step::Find { name, digest_of, can_be_prefix, must_be_fresh }
        ),
        1 => (1..3000u64).prop_map(|ms| Step::Wait { ms }),
        1 => (names(), 0..10usize).prop_map(|(name, limit)| Step::Erase { name, limit }),
        1 => (0..70usize, 0..200usize).prop_map(|(packets, blocks)| Step::Limit { packets, blocks }),
        2 => (any::<bool>(), prop_oneof![0..20usize, Just(1000)]).prop_map(|(on, entries)| Step::Turn { on, entries }),
    ]
}

struct Packet {
    name: Name,
    wire: Vec<u8>,
    fresh_until_ms: u64,
    stored: usize,
}

/// The naive store: packets in the order of use, the least recently used first.
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

    fn make_room(&mut self, packets: usize, blocks: usize) {
        while self.packets.len() > packets || self.blocks() > blocks {
            self.packets.remove(0);
        }
    }

    fn insert(&mut self, name: &Name, wire: Vec<u8>, fresh_until_ms: u64) -> Insertion {
        if self.limits.0 == 0 || blocks(&wire) > self.limits.1 {
            return Insertion::NotKept;
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
        self.make_room(self.limits.0 - 1, self.limits.1 - blocks(&wire));
        self.stored += 1;
        self.packets.push(Packet { name: name.clone(), wire, fresh_until_ms, stored: self.stored });
        Insertion::New
    }

    fn answers(packet: &Packet, asked: &Name, can_be_prefix: bool, fresh_at: Option<u64>) -> bool {
        let full = full_name(&packet.name, &packet.wire);
        let named = packet.name == *asked
            || full == *asked
            || can_be_prefix && asked.as_ref().is_prefix_of(full.as_ref());
        named && fresh_at.is_none_or(|now| now < packet.fresh_until_ms)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(512)))]

    /// A hit is a valid answer, a miss means that there is none (the store is small enough for that without a tree), what goes is what the
    /// model says, and the tree stays whole, wherever it is in being made or taken down.
    #[test]
    fn store_is_its_model(all in proptest::collection::vec(steps(), 1..250)) {
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
                    let known = digest_of.and_then(|nth| model.packets.iter().filter(|p| p.name == name).nth(usize::from(nth)));
                    let asked = known.map_or(name.clone(), |p| full_name(&p.name, &p.wire));
                    let fresh_at = must_be_fresh.then_some(now);
                    match find(&mut cs, now, &asked, can_be_prefix, must_be_fresh) {
                        Some(wire) => {
                            let at = model.packets.iter().position(|p| p.wire == wire);
                            prop_assert!(at.is_some(), "a packet that is not in the store");
                            let packet = model.packets.remove(at.unwrap());
                            prop_assert!(Model::answers(&packet, &asked, can_be_prefix, fresh_at));
                            model.packets.push(packet);
                        }
                        None => {
                            let missed = model.packets.iter().find(|p| Model::answers(p, &asked, can_be_prefix, fresh_at));
                            prop_assert!(missed.is_none(), "{:?} not found by {:?}", missed.map(|p| &p.name), asked);
                        }
                    }
                }
                Step::Wait { ms } => now += ms,
                Step::Erase { name, limit } => {
                    let covered = model.packets.iter().filter(|p| name.as_ref().is_prefix_of(p.name.as_ref())).count();
                    let erased = cs.erase(name.as_ref(), limit);
                    prop_assert_eq!(erased, covered.min(limit));
                    // Which of them went is the store's choice; without a limit it is all.
                    if erased == covered {
                        model.packets.retain(|p| !name.as_ref().is_prefix_of(p.name.as_ref()));
                    } else {
                        model.packets.retain(|p| holds(&cs, p));
                    }
                }
                Step::Turn { on, entries } => cs.turn(on, entries),
                Step::Limit { packets, blocks } => {
                    cs.set_limits(packets, blocks * BLOCK_LEN);
                    cs.shrink(Instant::from_millis(now), usize::MAX);
                    model.limits = (packets.min(60), blocks.min(150));
                    let (packets, blocks) = model.limits;
                    model.make_room(packets, blocks);
                }
            }
            prop_assert_eq!(cs.len(), model.packets.len());
            prop_assert_eq!(cs.bytes(), model.blocks() * BLOCK_LEN);
            let linked = cs.tree.assert_whole(cs.len());
            prop_assert!(!cs.upkeep.is_on() || linked == cs.len());
            prop_assert!(!cs.upkeep.is_off() || linked == 0);
        }
        prop_assert_eq!(cs.counters().searches_given_up, 0);
        for packet in &model.packets {
            prop_assert!(holds(&cs, packet));
        }
    }
}

/// Looks without counting as use.
fn holds(cs: &ContentStore, packet: &Packet) -> bool {
    let key = Prefixes::of(&KEY, packet.name.as_ref()).key();
    let same = |id: u32| {
        cs.is_named(id, key, packet.name.as_ref().as_bytes()) && {
            let entry = &cs.tree.entries[id as usize];
            usize::from(entry.wire_len) == packet.wire.len() && cs.tree.arena.holds(id, 0, &packet.wire)
        }
    };
    cs.tree.keys.find(key, same).is_some()
}
