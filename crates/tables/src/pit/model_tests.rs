//! The whole table against a naive model: after any operation both return the same results.

use super::tests::wire_of;
use super::*;
use crate::test_util::KEY;
use crate::{FaceId, Peer, Scope};
use nw_name::{Component, ComponentType, Name};
use nw_wire::Token;
use proptest::prelude::*;
use std::collections::BTreeMap;

const TICK: u64 = 1 << 22;
const ENTRIES_MAX: usize = 12;
const RECORDS_MAX: usize = 8;

/// A name: an optional deep base, some components, some digests.
#[derive(Clone, Debug)]
struct Shape {
    deep: bool,
    path: Vec<u8>,
    digests: Vec<u8>,
}

impl Shape {
    fn name(&self) -> Name {
        let base = if self.deep { 31 } else { 0 };
        let name = (0..base).fold(Name::new(), |name, _| name.with_generic("x"));
        let name = self.path.iter().fold(name, |name, byte| name.with_generic([*byte]));
        self.digests.iter().fold(name, |name, byte| {
            name.with(Component::new(ComponentType::IMPLICIT_DIGEST, &[*byte; 32]).unwrap())
        })
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Insert { name: Shape, flags: (bool, bool) },
    Remove { pick: usize },
    In { pick: usize, face: u64, nonce: u32, token_len: usize },
    RemoveIn { pick: usize, face: u64 },
    Out { pick: usize, face: u64, nonce: u32 },
    Nack { pick: usize, face: u64 },
    RemoveOut { pick: usize, face: u64 },
    RemoveFace { face: u64, part: u32 },
    Expire { pick: usize, offset_ms: i64 },
    Advance { ms: u64, rearm: Option<u64> },
    Data { name: Shape, digest: u8, token: Option<usize> },
    GiveWay { face: u64, is_management: bool, keep: Option<usize> },
    Shorten { ms: u64, part: u32 },
}

#[derive(Clone, Debug, Default)]
struct Pending {
    wire: Vec<u8>,
    ins: BTreeMap<u64, InRecord>,
    outs: BTreeMap<u64, OutRecord>,
    expiry: Option<Timestamp>,
}

type Identity = (Name, bool, bool);

#[derive(Default)]
struct Model {
    pending: BTreeMap<Identity, Pending>,
    refs: BTreeMap<Identity, EntryRef>,
    stale: Vec<EntryRef>,
    now: Timestamp,
}

/// "Interest matches Data" as the packet format specification defines it, by components.
fn satisfied(identity: &Identity, data: &Name, digest: u8) -> bool {
    let wanted: Vec<Component<'_>> = identity.0.as_ref().components().collect();
    let data: Vec<Component<'_>> = data.as_ref().components().collect();
    if wanted.len() == data.len() + 1 {
        let last = wanted[data.len()];
        return last.typ() == ComponentType::IMPLICIT_DIGEST
            && last.value() == [digest; 32]
            && wanted[..data.len()] == data[..];
    }
    if identity.1 { data.starts_with(&wanted) } else { wanted == data }
}

fn has_come(expiry: Timestamp, now: Timestamp) -> bool {
    expiry.as_nanos().div_ceil(TICK) <= now.as_nanos() / TICK
}

fn face(number: u64) -> FaceId {
    FaceId::from_number(300 + number).unwrap()
}

/// A face that was never added to the table.
const UNKNOWN: u64 = 7;

/// Faces 0 and 1 are local; 2, 3 and 4 belong to one peer.
fn is_local(number: u64) -> bool {
    number < 2
}

fn peer_of(number: u64) -> u64 {
    if (2..5).contains(&number) { 2 } else { number }
}

fn add_faces(pit: &mut Pit) {
    (0..UNKNOWN).for_each(|number| add_face(pit, number));
}

fn add_face(pit: &mut Pit, number: u64) {
    if number == UNKNOWN {
        return;
    }
    pit.add_face(face(number), if is_local(number) { Scope::Local } else { Scope::NonLocal });
    if peer_of(number) == 2 {
        pit.set_peer(face(number), Peer::of_mac([7; 6]));
    }
}

impl Model {
    fn pick(&self, pick: usize) -> Option<(Identity, EntryRef)> {
        let at = pick.checked_rem(self.refs.len())?;
        self.refs.iter().nth(at).map(|(identity, entry)| (identity.clone(), *entry))
    }

    fn remove(&mut self, identity: &Identity) {
        self.pending.remove(identity);
        self.stale.extend(self.refs.remove(identity));
    }

    fn insert(&mut self, pit: &mut Pit, identity: Identity) {
        if identity.0.as_ref().is_empty() {
            return;
        }
        let prefixes = PrefixHashes::of(&KEY, identity.0.as_ref());
        let key = InterestKey {
            name: identity.0.as_ref(),
            prefixes: &prefixes,
            can_be_prefix: identity.1,
            must_be_fresh: identity.2,
        };
        let (wire, name_span, nonce_start) = wire_of(key.name, 0);
        assert_eq!(pit.find(&key), self.refs.get(&identity).copied());
        match pit.get_or_insert_bare(&key, &wire, name_span, nonce_start) {
            Ok((entry, new)) => {
                assert_eq!(new, !self.pending.contains_key(&identity));
                self.pending
                    .entry(identity.clone())
                    .or_insert_with(|| Pending { wire, ..Pending::default() });
                self.refs.insert(identity, entry);
            }
            Err(full) => {
                assert_eq!(full, PitFull::Table);
                assert!(!self.pending.contains_key(&identity) && self.pending.len() == ENTRIES_MAX);
            }
        }
    }

    fn upsert_in(&mut self, pit: &mut Pit, pick: usize, record: InRecord, number: u64) {
        let Some((identity, entry)) = self.pick(pick) else { return };
        let pending = self.pending.get_mut(&identity).unwrap();
        match pit.upsert_in(entry, record) {
            Ok(new) => assert_eq!(new, pending.ins.insert(number, record).is_none()),
            Err(full) => assert_eq!((full, pit.records_len()), (PitFull::Table, RECORDS_MAX)),
        }
    }

    fn upsert_out(&mut self, pit: &mut Pit, pick: usize, record: OutRecord, number: u64) {
        let Some((identity, entry)) = self.pick(pick) else { return };
        let pending = self.pending.get_mut(&identity).unwrap();
        match pit.upsert_out(entry, record) {
            Ok(new) => assert_eq!(new, pending.outs.insert(number, record).is_none()),
            Err(full) => {
                assert_eq!((full, pit.records_len()), (PitFull::Table, RECORDS_MAX));
                assert!(!pending.outs.contains_key(&number), "replacing needs no space");
            }
        }
    }

    /// Ends a face, and removes its records with those of the face that was never added.
    fn remove_face(&mut self, pit: &mut Pit, number: u64, part: u32) {
        let mut shown = Vec::new();
        pit.mark_face_ended(face(number));
        let had_records = pit.has_ended_records();
        while pit.has_ended_records() {
            pit.remove_ended_part(part, &mut |entry| shown.push(entry));
        }
        let mut expected = Vec::new();
        for (identity, pending) in &mut self.pending {
            let mut had_any = false;
            for ended in [number, UNKNOWN].into_iter().filter(|_| had_records) {
                had_any |= pending.ins.remove(&ended).is_some();
                had_any |= pending.outs.remove(&ended).is_some();
            }
            if had_any {
                expected.push(self.refs[identity]);
            }
            assert!(!pending.ins.contains_key(&number) && !pending.outs.contains_key(&number));
        }
        shown.sort();
        expected.sort();
        assert_eq!(shown, expected);
        add_face(pit, number);
    }

    fn advance(&mut self, pit: &mut Pit, ms: u64, rearm: Option<u64>) {
        self.now = self.now.plus_millis(ms);
        let mut popped = Vec::new();
        loop {
            match pit.pop_expired(self.now) {
                Some(entry) => popped.push(entry),
                None if pit.next_expiry().is_some_and(|next| next <= self.now) => {}
                None => break,
            }
        }
        let mut expected = Vec::new();
        for (identity, pending) in &mut self.pending {
            if pending.expiry.is_some_and(|expiry| has_come(expiry, self.now)) {
                pending.expiry = None;
                expected.push((self.refs[identity], identity.clone()));
            }
        }
        expected.sort();
        popped.sort();
        assert_eq!(popped, expected.iter().map(|(entry, _)| *entry).collect::<Vec<_>>());
        for (entry, identity) in expected {
            assert_eq!(pit.name(entry), identity.0.as_ref());
            match rearm {
                Some(ms) => {
                    let at = self.now.plus_millis(ms);
                    pit.set_expiry(entry, at);
                    self.pending.get_mut(&identity).unwrap().expiry = Some(at);
                }
                None => {
                    assert!(pit.remove(entry));
                    self.remove(&identity);
                }
            }
        }
    }

    fn data(&mut self, pit: &mut Pit, data: &Name, digest: u8, token: Option<usize>) {
        let prefixes = PrefixHashes::of(&KEY, data.as_ref());
        let bytes = token.and_then(|pick| Some(self.pick(pick)?.1.token()));
        let token = bytes.and_then(|token| pit.by_token(&token));
        let mut found = Vec::new();
        (0..3).for_each(|stage| _ = pit.prefetch(stage, &prefixes));
        pit.matches(data.as_ref(), &prefixes, token, || [digest; 32], &mut found);
        let satisfied = self.refs.iter().filter(|(identity, _)| satisfied(identity, data, digest));
        let mut expected: Vec<EntryRef> = satisfied.map(|(_, entry)| *entry).collect();
        if let Some(token) = token.filter(|token| expected.contains(token)) {
            assert_eq!(found[0], token);
        }
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        if let Some(single) =
            pit.match_one(data.as_ref(), &prefixes, &bytes.map_or(Token::NONE, Token::from_six))
        {
            self.end_match(pit, &single, &found);
        }
    }

    /// The fast match equals the general one, and its removal is complete.
    fn end_match(&mut self, pit: &mut Pit, single: &SingleMatch, found: &[EntryRef]) {
        assert_eq!(found, [single.entry]);
        let (identity, _) = self
            .refs
            .iter()
            .find(|(_, entry)| **entry == single.entry)
            .expect("the match is in the model");
        let identity = identity.clone();
        let pending = &self.pending[&identity];
        assert_eq!(pending.ins.values().collect::<Vec<_>>(), [&single.downstream]);
        let upstreams: Vec<_> =
            pending.outs.values().map(|record| (record.face, record.nonce)).collect();
        assert_eq!(upstreams, [(single.upstream, single.nonce)]);
        assert_eq!(single.must_be_fresh, identity.2);
        pit.remove_match(single);
        self.remove(&identity);
    }

    fn ins(&self, number: u64) -> u64 {
        self.pending.values().filter(|pending| pending.ins.contains_key(&number)).count() as u64
    }

    /// The in-records of all faces of its peer.
    fn weight(&self, number: u64) -> u64 {
        if number == UNKNOWN {
            return u64::MAX;
        }
        (0..8).filter(|other| peer_of(*other) == peer_of(number)).map(|other| self.ins(other)).sum()
    }

    /// The order in which entries are selected as victims; the greatest is selected.
    fn rank(&self, pending: &Pending, prefers_remote: bool) -> (bool, bool, u64, u64, Timestamp) {
        let lightest = pending.ins.keys().min_by_key(|number| (self.weight(**number), **number));
        let Some(&number) = lightest else { return (true, true, u64::MAX, 0, Timestamp::START) };
        let (weight, ins) = (self.weight(number), self.ins(number));
        let open = !prefers_remote || !is_local(number);
        (weight == u64::MAX, open, weight, ins, pending.ins[&number].expiry)
    }

    fn give_way(&mut self, pit: &mut Pit, number: u64, is_management: bool, keep: Option<usize>) {
        if number == UNKNOWN {
            return;
        }
        let keep = keep.and_then(|pick| self.pick(pick)).map(|(_, entry)| entry);
        let claim = Claim { face: face(number), is_management, keep };
        let local_ins: u64 =
            (0..8).filter(|other| is_local(*other)).map(|other| self.ins(other)).sum();
        let local_has_less = local_ins < (ENTRIES_MAX / 8) as u64;
        let ranks = self.pending.iter().filter(|(identity, _)| Some(self.refs[*identity]) != keep);
        let prefers_remote = local_has_less && !is_management;
        let greatest = ranks.map(|(_, pending)| self.rank(pending, prefers_remote)).max();
        let chosen = pit.select_victim(Shortage::Entries, &claim);
        let chosen =
            self.refs.iter().find(|(_, entry)| Some(**entry) == chosen).map(|(id, _)| id.clone());
        if let Some(identity) = &chosen {
            let pending = &self.pending[identity];
            assert_eq!(Some(self.rank(pending, prefers_remote)), greatest);
            let lightest =
                pending.ins.keys().min_by_key(|number| (self.weight(**number), **number)).copied();
            assert!(
                is_management
                    || lightest.is_none_or(|victim| self.must_yield(
                        victim,
                        number,
                        local_has_less
                    ))
            );
            assert!(pit.remove(self.refs[identity]));
            self.remove(&identity.clone());
        } else if let Some((unwanted, open, weight, ..)) = greatest {
            assert!(!unwanted && !is_management, "a management command yields to none");
            let is_heavy = weight <= self.weight(number) + 1;
            assert!(
                is_heavy || !open || peer_of(number) == 2,
                "only an Interest of a heavy owner is rejected"
            );
        }
    }

    fn must_yield(&self, victim: u64, newcomer: u64, local_has_less: bool) -> bool {
        if self.weight(victim) == u64::MAX
            || local_has_less && is_local(newcomer) && !is_local(victim)
        {
            return true;
        }
        if local_has_less && is_local(victim) && !is_local(newcomer) {
            return false;
        }
        match peer_of(victim) == peer_of(newcomer) {
            true => self.ins(victim) > self.ins(newcomer) + 1,
            false => self.weight(victim) > self.weight(newcomer) + 1,
        }
    }

    fn shorten(&mut self, pit: &mut Pit, ms: u64, part: u32) {
        let until = self.now.plus_millis(ms);
        let mut from = Some(0);
        while let Some(slot) = from {
            from = pit.shorten_part(slot, part, until);
        }
        for pending in self.pending.values_mut() {
            let mut changed = false;
            for (number, record) in &mut pending.ins {
                if !is_local(*number) && record.expiry > until {
                    record.expiry = until;
                    changed = true;
                }
            }
            let latest = pending.ins.values().map(|record| record.expiry).max();
            if let (Some(expiry), Some(latest)) = (&mut pending.expiry, latest)
                && changed
            {
                *expiry = latest.min(*expiry);
            }
        }
    }

    fn nack(&mut self, pit: &mut Pit, pick: usize, number: u64) {
        let Some((identity, entry)) = self.pick(pick) else { return };
        let nack = Some(nw_wire::NackReason::Congestion);
        let record = self.pending.get_mut(&identity).unwrap().outs.get_mut(&number);
        let updated = pit.update_out(entry, face(number), |record| record.nack = nack);
        assert_eq!(updated, record.is_some());
        if let Some(record) = record {
            record.nack = nack;
        }
    }

    fn apply(&mut self, pit: &mut Pit, operation: Operation) {
        match operation {
            Operation::Insert { name, flags } => self.insert(pit, (name.name(), flags.0, flags.1)),
            Operation::Remove { pick } => {
                if let Some((identity, entry)) = self.pick(pick) {
                    assert!(pit.remove(entry));
                    self.remove(&identity);
                }
            }
            Operation::In { pick, face: number, nonce, token_len } => {
                let (expiry, token) = (
                    self.now.plus_millis(4000),
                    Token::new(&[nonce as u8; 32][..token_len]).unwrap(),
                );
                self.upsert_in(
                    pit,
                    pick,
                    InRecord { face: face(number), nonce, expiry, token },
                    number,
                );
            }
            Operation::RemoveIn { pick, face: number } => {
                if let Some((identity, entry)) = self.pick(pick) {
                    let had =
                        self.pending.get_mut(&identity).unwrap().ins.remove(&number).is_some();
                    assert_eq!(pit.remove_in(entry, face(number)), had);
                }
            }
            Operation::Out { pick, face: number, nonce } => {
                let record = OutRecord {
                    face: face(number),
                    nonce,
                    sent: self.now,
                    expiry: self.now.plus_millis(4000),
                    nack: None,
                    retx_interval_ms: nonce as u16,
                };
                self.upsert_out(pit, pick, record, number);
            }
            Operation::Nack { pick, face: number } => self.nack(pit, pick, number),
            Operation::RemoveOut { pick, face: number } => {
                if let Some((identity, entry)) = self.pick(pick) {
                    let had =
                        self.pending.get_mut(&identity).unwrap().outs.remove(&number).is_some();
                    assert_eq!(pit.remove_out(entry, face(number)), had);
                }
            }
            Operation::RemoveFace { face, part } => self.remove_face(pit, face, part),
            Operation::Expire { pick, offset_ms } => {
                if let Some((identity, entry)) = self.pick(pick) {
                    let at = self.now.as_millis().saturating_add_signed(offset_ms);
                    let at = Timestamp::from_nanos(at * 1_000_000 + 17);
                    pit.set_expiry(entry, at);
                    self.pending.get_mut(&identity).unwrap().expiry = Some(at);
                }
            }
            Operation::Advance { ms, rearm } => self.advance(pit, ms, rearm),
            Operation::Data { name, digest, token } => self.data(pit, &name.name(), digest, token),
            Operation::GiveWay { face, is_management, keep } => {
                self.give_way(pit, face, is_management, keep)
            }
            Operation::Shorten { ms, part } => self.shorten(pit, ms, part),
        }
    }

    /// Compares all results of operations that change nothing.
    fn compare(&self, pit: &Pit) {
        assert_eq!(pit.len(), self.pending.len());
        let mut faces = [(0, 0); 8];
        for (identity, pending) in &self.pending {
            let entry = self.refs[identity];
            assert_eq!(pit.by_token(&entry.token()), Some(entry));
            assert_eq!(pit.interest(entry), pending.wire);
            assert_eq!(
                (pit.can_be_prefix(entry), pit.must_be_fresh(entry)),
                (identity.1, identity.2)
            );
            assert_eq!(pit.expiry(entry), pending.expiry);
            let mut ins: Vec<InRecord> = pit.in_records(entry).collect();
            ins.sort_by_key(|record| record.face);
            assert_eq!(ins, pending.ins.values().copied().collect::<Vec<_>>());
            let mut outs: Vec<OutRecord> = pit.out_records(entry).collect();
            outs.sort_by_key(|record| record.face);
            assert_eq!(outs, pending.outs.values().copied().collect::<Vec<_>>());
            for (number, counts) in faces.iter_mut().enumerate() {
                let number = number as u64;
                assert_eq!(pit.in_record(entry, face(number)), pending.ins.get(&number).copied());
                assert_eq!(pit.out_record(entry, face(number)), pending.outs.get(&number).copied());
                counts.0 += usize::from(pending.ins.contains_key(&number));
                counts.1 += usize::from(pending.outs.contains_key(&number));
            }
        }
        for (number, counts) in faces.iter().enumerate() {
            let face = face(number as u64);
            assert_eq!((pit.face_in_records(face), pit.face_out_records(face)), *counts);
        }
        assert!(
            self.stale
                .iter()
                .all(|entry| !pit.contains(*entry) && pit.by_token(&entry.token()).is_none())
        );
        let first = self.pending.values().filter_map(|pending| pending.expiry).min();
        match (first, pit.next_expiry()) {
            (None, next) => assert_eq!(next, None),
            (Some(first), Some(next)) => assert!(next.as_nanos() < first.as_nanos() + TICK),
            (Some(_), None) => panic!("next_expiry misses an entry"),
        }
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let digests = prop_oneof![4 => Just(vec![]), 3 => proptest::collection::vec(0_u8..2, 1..3)];
    (prop::bool::weighted(0.3), proptest::collection::vec(0_u8..2, 0..4), digests)
        .prop_map(|(deep, path, digests)| Shape { deep, path, digests })
}

fn operation() -> impl Strategy<Value = Operation> {
    let offsets = prop::sample::select(vec![
        -5000_i64,
        -1,
        0,
        1,
        3,
        4,
        5,
        100,
        4000,
        17_000,
        20_000,
        3_600_000,
        100_000_000,
    ]);
    let steps = prop::sample::select(vec![0_u64, 1, 4, 5, 50, 4000, 17_200, 3_600_000, 90_000_000]);
    let token_len = prop::sample::select(vec![0_usize, 1, 6, 8, 9, 32]);
    prop_oneof![
        8 => (shape(), any::<(bool, bool)>())
            .prop_map(|(name, flags)| Operation::Insert { name, flags }),
        1 => any::<usize>()
            .prop_map(|pick| Operation::Remove { pick }),
        4 => (any::<usize>(), 0_u64..8, any::<u32>(), token_len)
            .prop_map(|(pick, face, nonce, token_len)| {
                Operation::In { pick, face, nonce, token_len }
            }),
        1 => (any::<usize>(), 0_u64..8)
            .prop_map(|(pick, face)| Operation::RemoveIn { pick, face }),
        4 => (any::<usize>(), 0_u64..8, any::<u32>())
            .prop_map(|(pick, face, nonce)| Operation::Out { pick, face, nonce }),
        1 => (any::<usize>(), 0_u64..8)
            .prop_map(|(pick, face)| Operation::Nack { pick, face }),
        1 => (any::<usize>(), 0_u64..8)
            .prop_map(|(pick, face)| Operation::RemoveOut { pick, face }),
        1 => (0_u64..8, 1_u32..20)
            .prop_map(|(face, part)| Operation::RemoveFace { face, part }),
        5 => (any::<usize>(), offsets)
            .prop_map(|(pick, offset_ms)| Operation::Expire { pick, offset_ms }),
        3 => (steps, prop::option::weighted(0.3, 0_u64..30_000))
            .prop_map(|(ms, rearm)| Operation::Advance { ms, rearm }),
        6 => (shape(), 0_u8..2, any::<Option<usize>>())
            .prop_map(|(name, digest, token)| Operation::Data { name, digest, token }),
        5 => (0_u64..8, prop::bool::weighted(0.2), any::<Option<usize>>())
            .prop_map(|(face, is_management, keep)| {
                Operation::GiveWay { face, is_management, keep }
            }),
        2 => (0_u64..5000, 1_u32..20)
            .prop_map(|(ms, part)| Operation::Shorten { ms, part }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn pit_any_operations_equals_model(
        operations in proptest::collection::vec(operation(), 1..120),
    ) {
        let config = PitConfig {
            entries_max: ENTRIES_MAX,
            records_max: RECORDS_MAX,
            interest_slots: [3, ENTRIES_MAX, 2, 2],
        };
        let (mut pit, mut model) = (Pit::new(KEY, 3, config), Model::default());
        add_faces(&mut pit);
        for operation in operations {
            model.apply(&mut pit, operation);
            model.compare(&pit);
        }
    }
}
