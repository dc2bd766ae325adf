//! Each policy against a naive model, and the purpose of each.

use super::tests::{data, find, store};
use super::*;
use crate::test_util::KEY;
use nw_name::Name;
use proptest::prelude::*;

const PACKETS: usize = 20;

#[derive(Clone, Debug)]
enum Step {
    Insert { name: u8, freshness_ms: u32, unsolicited: bool },
    Find { name: u8 },
    Wait { ms: u64 },
    Erase { name: u8 },
    Limit { packets: usize },
    Policy(PolicyKind),
}

fn kinds() -> impl Strategy<Value = PolicyKind> {
    prop_oneof![Just(PolicyKind::Lru), Just(PolicyKind::PriorityFifo), Just(PolicyKind::S3Fifo)]
}

fn steps() -> impl Strategy<Value = Step> {
    let name = 0..60u8;
    prop_oneof![
        20 => (name.clone(), prop_oneof![Just(0), 1..500u32], proptest::bool::weighted(0.1))
            .prop_map(|(name, freshness_ms, unsolicited)| {
                Step::Insert { name, freshness_ms, unsolicited }
            }),
        20 => name.clone().prop_map(|name| Step::Find { name }),
        2 => (1..200u64).prop_map(|ms| Step::Wait { ms }),
        1 => name.prop_map(|name| Step::Erase { name }),
        1 => (1..=PACKETS).prop_map(|packets| Step::Limit { packets }),
        1 => kinds().prop_map(Step::Policy),
    ]
}

struct Packet {
    name: u8,
    stale_at: u64,
    /// Whether it is in the heap of priority FIFO.
    timed: bool,
    arrival: usize,
    uses: u8,
}

/// Queues with the oldest packet first, written from the descriptions of the policies.
struct Model {
    kind: PolicyKind,
    first: Vec<Packet>,
    second: Vec<Packet>,
    ghosts: Vec<Option<u8>>,
    ghost_next: usize,
    limit: usize,
    arrival: usize,
}

impl Model {
    fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Packet> {
        self.first.iter_mut().chain(&mut self.second)
    }

    fn has(&mut self, name: u8) -> bool {
        self.all().any(|p| p.name == name)
    }

    fn take(&mut self, name: u8) -> (Packet, bool) {
        if let Some(at) = self.first.iter().position(|p| p.name == name) {
            return (self.first.remove(at), false);
        }
        let at = self.second.iter().position(|p| p.name == name).expect("it is there");
        (self.second.remove(at), true)
    }

    fn used(&mut self, name: u8) {
        match self.kind {
            PolicyKind::Lru => {
                let (packet, _) = self.take(name);
                self.first.push(packet);
            }
            PolicyKind::PriorityFifo => {}
            PolicyKind::S3Fifo => {
                let packet = self.all().find(|p| p.name == name).expect("it is there");
                packet.uses = (packet.uses + 1).min(3);
            }
        }
    }

    /// The name of the next victim, and its rank.
    fn victim(&mut self, now: u64) -> (u8, usize) {
        match self.kind {
            PolicyKind::Lru => (self.second.first().unwrap_or_else(|| &self.first[0]).name, 2),
            PolicyKind::PriorityFifo => {
                let stale = self.first.iter().filter(|p| p.timed && p.stale_at <= now);
                match (self.second.first(), stale.min_by_key(|p| (p.stale_at, p.arrival))) {
                    (Some(unsolicited), _) => (unsolicited.name, 0),
                    (None, Some(stale)) => (stale.name, 1),
                    (None, None) => (self.first[0].name, 2),
                }
            }
            PolicyKind::S3Fifo => loop {
                let small = self.second.len() * 10 >= self.len() && !self.second.is_empty();
                if small && self.second[0].uses <= 1 {
                    return (self.second[0].name, 2);
                } else if small {
                    let packet = self.second.remove(0);
                    self.first.push(Packet { uses: 0, ..packet });
                } else if self.first[0].uses == 0 {
                    return (self.first[0].name, 2);
                } else {
                    let packet = self.first.remove(0);
                    self.first.push(Packet { uses: packet.uses - 1, ..packet });
                }
            },
        }
    }

    fn evict(&mut self, name: u8) {
        let (packet, from_small) = self.take(name);
        if self.kind == PolicyKind::S3Fifo && from_small {
            self.ghosts[self.ghost_next] = Some(packet.name);
            self.ghost_next = (self.ghost_next + 1) % self.ghosts.len();
        }
    }

    fn insert(&mut self, now: u64, name: u8, freshness_ms: u32, unsolicited: bool) -> Insertion {
        let stale_at = now + u64::from(freshness_ms);
        if self.has(name) {
            if self.kind == PolicyKind::PriorityFifo {
                let (packet, was_unsolicited) = self.take(name);
                self.arrival += 1;
                let packet =
                    Packet { stale_at, timed: true, arrival: self.arrival, uses: 0, ..packet };
                if unsolicited && was_unsolicited {
                    self.second.push(packet)
                } else {
                    self.first.push(packet)
                };
            } else {
                self.used(name);
            }
            return Insertion::Refreshed;
        }
        while self.len() >= self.limit {
            let (victim, rank) = self.victim(now);
            let own = if unsolicited {
                0
            } else if stale_at <= now {
                1
            } else {
                2
            };
            if self.kind == PolicyKind::PriorityFifo && own < rank {
                return Insertion::Rejected;
            }
            self.evict(victim);
        }
        self.arrival += 1;
        let timed = self.kind == PolicyKind::PriorityFifo && !unsolicited;
        let packet = Packet { name, stale_at, timed, arrival: self.arrival, uses: 0 };
        let to_second = match self.kind {
            PolicyKind::Lru => false,
            PolicyKind::PriorityFifo => unsolicited,
            PolicyKind::S3Fifo => match self.ghosts.iter().position(|ghost| *ghost == Some(name)) {
                Some(at) => {
                    self.ghosts[at] = None;
                    false
                }
                None => true,
            },
        };
        if to_second {
            self.second.push(packet)
        } else {
            self.first.push(packet)
        };
        Insertion::New
    }
}

fn named(number: u8) -> Name {
    Name::new().with_generic([number])
}

fn insert(
    cs: &mut ContentStore,
    now_ms: u64,
    number: u8,
    freshness_ms: u32,
    unsolicited: bool,
) -> Insertion {
    let name = named(number);
    let prefixes = PrefixHashes::of(&KEY, name.as_ref());
    let wire = data(&name, b"");
    let name_span = (4, name.as_ref().as_bytes().len() as u16);
    let packet = IncomingData {
        name: name_span,
        prefixes: &prefixes,
        wire: &wire,
        freshness_ms,
        unsolicited,
    };
    cs.insert(Timestamp::from_millis(now_ms), &packet)
}

fn has(cs: &ContentStore, number: u8) -> bool {
    let key = PrefixHashes::of(&KEY, named(number).as_ref()).lookup_hash();
    cs.tree.keys.candidates(key).any(|id| cs.is_named(id, key, named(number).as_ref().as_bytes()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(256)))]

    /// The packets in the store equal those of the naive policy, for each policy and after each
    /// change of policy.
    #[test]
    fn policy_any_operations_equals_model(
        first in kinds(),
        all in proptest::collection::vec(steps(), 1..400),
    ) {
        let mut cs = store(PACKETS, PACKETS * BLOCK_LEN);
        let ghosts = vec![None; PACKETS / 10 * 9];
        let mut model = Model {
            kind: PolicyKind::Lru,
            first: Vec::new(),
            second: Vec::new(),
            ghosts,
            ghost_next: 0,
            limit: PACKETS,
            arrival: 0,
        };
        let mut now = 5;
        for step in core::iter::once(Step::Policy(first)).chain(all) {
            match step {
                Step::Insert { name, freshness_ms, unsolicited } => {
                    let got = insert(&mut cs, now, name, freshness_ms, unsolicited);
                    prop_assert_eq!(got, model.insert(now, name, freshness_ms, unsolicited));
                }
                Step::Find { name } => {
                    let there = find(&mut cs, now, &named(name), false, false).is_some();
                    prop_assert_eq!(there, model.has(name));
                    if there {
                        model.used(name);
                    }
                }
                Step::Wait { ms } => now += ms,
                Step::Erase { name } => {
                    let there = model.has(name);
                    prop_assert_eq!(cs.erase(named(name).as_ref(), 9), usize::from(there));
                    if there {
                        model.take(name);
                    }
                }
                Step::Limit { packets } => {
                    cs.set_limits(packets, usize::MAX);
                    cs.evict_excess(Timestamp::from_millis(now), usize::MAX);
                    model.limit = packets;
                    while model.len() > packets {
                        let (victim, _) = model.victim(now);
                        model.evict(victim);
                    }
                }
                Step::Policy(kind) => {
                    if kind != model.kind {
                        cs.set_policy(kind);
                        model.kind = kind;
                        model.all().for_each(|p| p.timed = false);
                    }
                }
            }
            prop_assert_eq!(cs.len(), model.len());
            for name in 0..60 {
                prop_assert_eq!(has(&cs, name), model.has(name), "{} under {:?}", name, model.kind);
            }
        }
    }
}

#[test]
fn priority_fifo_evicts_unsolicited_then_stale() {
    let mut cs = store(4, 8 << 10);
    cs.set_policy(PolicyKind::PriorityFifo);
    for (name, freshness_ms, unsolicited) in
        [(1, 1000, false), (2, 100, false), (3, 1000, true), (4, 50, false)]
    {
        assert_eq!(insert(&mut cs, 0, name, freshness_ms, unsolicited), Insertion::New);
    }
    // At 200 ms the second and the fourth packet are stale, the fourth for longer. Use does not
    // matter.
    assert!(find(&mut cs, 0, &named(4), false, false).is_some());
    for (number, evicted) in [(5, 3), (6, 4), (7, 2), (8, 1)] {
        assert!(has(&cs, evicted));
        assert_eq!(insert(&mut cs, 200, number, 1000, false), Insertion::New);
        assert!(!has(&cs, evicted), "{evicted} is evicted for {number}");
    }
    // A packet that would be the next victim is not admitted.
    assert_eq!(insert(&mut cs, 200, 9, 0, false), Insertion::Rejected);
    assert_eq!(insert(&mut cs, 200, 9, 1000, true), Insertion::Rejected);
    assert_eq!((cs.policy(), cs.len()), (PolicyKind::PriorityFifo, 4));
}

#[test]
fn s3_fifo_scan_keeps_used_packets() {
    for (kind, kept) in [(PolicyKind::Lru, 0), (PolicyKind::S3Fifo, 8)] {
        let mut cs = store(20, 20 * BLOCK_LEN);
        cs.set_policy(kind);
        for round in 0..3 {
            for name in 0..8 {
                if round == 0 {
                    insert(&mut cs, 0, name, 0, false);
                }
                assert!(find(&mut cs, 0, &named(name), false, false).is_some());
            }
        }
        for name in 100..200 {
            assert_eq!(insert(&mut cs, 0, name, 0, false), Insertion::New);
        }
        assert_eq!((0..8).filter(|name| has(&cs, *name)).count(), kept, "{kind:?}");
    }
}
