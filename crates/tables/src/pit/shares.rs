//! Fairness: selects which entry is removed when the table has no space for a new Interest.
//!
//! The weight of an entry is the number of in-records of its peer (of the lightest one, if several
//! faces wait for it). All faces of one [`Peer`] count together, as UDP ports cost a peer nothing.
//! Rules:
//!
//! * An entry of the heaviest peer is removed for an Interest of a lighter one; within one peer, an
//!   entry of the heaviest face.
//! * Local faces have a reserve (an eighth of the table), which remote faces can't take.
//! * Commands to management are admitted first, up to [`MANAGEMENT_INS_MAX`] per face.
//! * Entries of removed faces are victims first.
//!
//! Cost: nothing is computed while the table has space. Counts per face exist anyway; sums per peer
//! are refreshed every [`REFRESH_INTERVAL`] searches; the victim is the best of a sample of at most
//! [`SAMPLE_LEN`] entries.

use super::entry::NONE;
use super::slots::INTEREST_CLASSES;
use super::{DEEP_LENGTHS_MAX, EntryRef, Pit, RECORDS_PER_ENTRY_MAX};
use crate::{FaceId, InterestKey, Peer, Scope, Timestamp};
use std::collections::BTreeMap;

/// The maximum number of entries a search for a victim reads.
pub const SAMPLE_LEN: usize = 32;
/// The number of entries sampled while one owner has most of the table: some of them are its own
/// then.
const SHORT_SAMPLE_LEN: usize = 8;
/// Searches between two refreshes of the sums per peer.
const REFRESH_INTERVAL: u32 = 256;
/// One in this many searches on behalf of the heaviest owner is made; the others fail at once.
const HEAVIEST_SEARCH_INTERVAL: u32 = 16;
/// In-records sampled per entry to find the one with the least weight.
const RECORDS_SAMPLED: usize = 8;
/// Local faces have a reserve of this fraction of the limited resource. Below it they take from
/// remote faces whatever the weights, and remote faces do not take from them.
const LOCAL_RESERVE_DIVISOR: usize = 8;
/// The number of in-records of a face from which on its Interests for management have no priority.
pub const MANAGEMENT_INS_MAX: u32 = 64;
/// The weight of an entry without downstream faces: it is removed first.
const ORPHANED: u64 = u64::MAX;

/// The resource that is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Entries.
    Entries,
    /// Slots for Interests of this class: an index into
    /// [`INTEREST_SLOT_LENS`](super::INTEREST_SLOT_LENS).
    Interests(usize),
    /// Records of the record store.
    Records,
    /// Entries with an implicit digest under the name with this hash.
    Digests(u64),
}

/// The new Interest for which space is needed.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The face it arrived on.
    pub face: FaceId,
    /// Whether it has priority as a command to management, while its face has fewer than
    /// [`MANAGEMENT_INS_MAX`] in-records.
    pub is_management: bool,
    /// An entry that must not be selected.
    pub keep: Option<EntryRef>,
}

/// A face with its peer.
struct FaceMember {
    face: FaceId,
    scope: Scope,
    /// The index of its peer in `peers`; [`NO_PEER`] if unknown.
    peer: u32,
}

const NO_PEER: u32 = u32::MAX;

/// A peer with the sum of its faces.
struct PeerShare {
    peer: Peer,
    faces: u32,
    /// In-records of its faces at the last refresh.
    ins: u64,
}

/// The faces with their peers and the sums of their in-records.
#[derive(Default)]
pub(super) struct Shares {
    /// By face slot.
    members: Vec<Option<FaceMember>>,
    peers: Vec<PeerShare>,
    by_peer: BTreeMap<Peer, u32>,
    unused: Vec<u32>,
    /// In-records of local faces at the last refresh.
    local_ins: u64,
    /// The owner with the most in-records at the last refresh, if more than the reserve of local
    /// faces.
    heaviest: Option<Heaviest>,
    /// Full searches still to be made because a face with entries was removed.
    full_searches_due: u32,
    /// Searches until the next refresh.
    calls_until_refresh: u32,
    random_state: u64,
}

/// An entry of the sample.
#[derive(Clone, Copy)]
struct Candidate {
    slot: u32,
    /// The face with the least weight among its downstreams; [`FaceId::NONE`] if there is none.
    face: FaceId,
    weight: u64,
    expiry: u64,
}

/// The owner with the most in-records.
#[derive(Clone, Copy)]
struct Heaviest {
    owner: Owner,
    faces: u64,
    ins: u64,
}

/// What entries are counted by: the peer of a face, or the face if its peer is unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Peer(u32),
    Face(u32),
    Ended,
}

impl Shares {
    pub fn memory_bytes(&self) -> usize {
        self.members.capacity() * size_of::<Option<FaceMember>>()
            + self.peers.capacity() * size_of::<PeerShare>()
            + self.unused.capacity() * size_of::<u32>()
    }

    pub fn insert(&mut self, face: FaceId, scope: Scope) {
        if self.members.len() <= face.slot() {
            self.members.resize_with(face.slot() + 1, || None);
        }
        match &mut self.members[face.slot()] {
            Some(member) if member.face == face => member.scope = scope,
            _ => {
                self.leave(face.slot());
                self.members[face.slot()] = Some(FaceMember { face, scope, peer: NO_PEER });
            }
        }
    }

    pub fn set_peer(&mut self, face: FaceId, peer: Peer) {
        if self.member(face).is_none() {
            return;
        }
        let scope =
            self.members[face.slot()].as_ref().map_or(Scope::NonLocal, |member| member.scope);
        self.leave(face.slot());
        let index = if peer == Peer::UNKNOWN { NO_PEER } else { self.join(peer) };
        self.members[face.slot()] = Some(FaceMember { face, scope, peer: index });
    }

    pub fn remove(&mut self, face: FaceId) {
        if self.member(face).is_some() {
            self.leave(face.slot());
        }
    }

    /// Returns the index of a peer, with one more face.
    fn join(&mut self, peer: Peer) -> u32 {
        let index = match self.by_peer.get(&peer) {
            Some(index) => *index,
            None => {
                let new = PeerShare { peer, faces: 0, ins: 0 };
                let index = match self.unused.pop() {
                    Some(index) => {
                        self.peers[index as usize] = new;
                        index
                    }
                    None => {
                        self.peers.push(new);
                        self.peers.len() as u32 - 1
                    }
                };
                self.by_peer.insert(peer, index);
                index
            }
        };
        self.peers[index as usize].faces += 1;
        index
    }

    /// Removes the face in a slot from its peer.
    fn leave(&mut self, slot: usize) {
        let Some(member) = self.members[slot].take() else { return };
        if member.peer == NO_PEER {
            return;
        }
        let share = &mut self.peers[member.peer as usize];
        share.faces -= 1;
        if share.faces == 0 {
            share.ins = 0;
            self.by_peer.remove(&share.peer);
            self.unused.push(member.peer);
        }
    }

    /// Returns whether a face has ended, or was never added.
    #[inline]
    pub fn has_ended(&self, face: FaceId) -> bool {
        self.member(face).is_none()
    }

    #[inline]
    fn member(&self, face: FaceId) -> Option<&FaceMember> {
        self.members.get(face.slot())?.as_ref().filter(|member| member.face == face)
    }

    fn is_local(&self, face: FaceId) -> bool {
        self.member(face).is_some_and(|member| member.scope == Scope::Local)
    }

    fn owner(&self, face: FaceId) -> Owner {
        match self.member(face) {
            None => Owner::Ended,
            Some(member) if member.peer == NO_PEER => Owner::Face(face.bits()),
            Some(member) => Owner::Peer(member.peer),
        }
    }

    /// Returns a pseudo-random number below `bound`, equal in every run of a simulation.
    fn draw(&mut self, bound: u32) -> u32 {
        self.random_state = self
            .random_state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (((self.random_state >> 32) * u64::from(bound)) >> 32) as u32
    }
}

impl Pit {
    /// Adds a face: only added faces have a share. To be called before its first Interest.
    pub fn add_face(&mut self, face: FaceId, scope: Scope) {
        self.shares.insert(face, scope);
    }

    /// Sets the peer of an added face.
    pub fn set_peer(&mut self, face: FaceId, peer: Peer) {
        self.shares.set_peer(face, peer);
    }

    /// Removes a face from the shares: its entries are victims first from now on, and its records
    /// are removed by [`remove_ended_part`](Self::remove_ended_part).
    pub fn mark_face_ended(&mut self, face: FaceId) {
        self.shares.full_searches_due = self.shares.full_searches_due.max(self.faces.ins(face));
        self.shares.remove(face);
        self.sweep_ended_face(face);
    }

    /// Returns the resource that an Interest of this length lacks; `None` if removing an entry
    /// would not help.
    pub fn shortage(&self, key: &InterestKey<'_>, wire_len: usize) -> Option<Shortage> {
        if self.len() == self.capacity() {
            return Some(Shortage::Entries);
        }
        if let Some(class) = self.interests.exhausted_class(wire_len) {
            return Some(Shortage::Interests(class));
        }
        let hash = key.prefixes.lookup_hash();
        if key.prefixes.has_digest() {
            let digests = self.index.candidates(hash).filter(|slot| {
                let entry = &self.entries[*slot as usize];
                entry.hash == hash && entry.has_digest()
            });
            if digests.count() >= super::DIGESTS_PER_NAME_MAX {
                return Some(Shortage::Digests(hash));
            }
        }
        self.records_full().then_some(Shortage::Records)
    }

    /// Returns the fill level of the fullest resource, in eighths.
    pub fn pressure(&self) -> usize {
        self.resources()
            .map(|(used, capacity)| (used * 8).checked_div(capacity).unwrap_or(0))
            .max()
            .unwrap_or(0)
    }

    /// Returns whether [`pressure`](Self::pressure) is at least this many eighths. Uses no
    /// division, as the event loop calls it each iteration.
    pub fn pressure_reaches(&self, eighths: usize) -> bool {
        self.resources().any(|(used, capacity)| used > 0 && used * 8 >= capacity * eighths)
    }

    /// Returns (used, capacity) of each resource. The first class of slots has one slot per entry
    /// and is never exhausted first.
    fn resources(&self) -> impl Iterator<Item = (usize, usize)> {
        let (used, capacity) = (self.interests.in_use(), self.interests.capacity());
        (1..INTEREST_CLASSES).map(move |class| (used[class], capacity[class])).chain([
            (self.len(), self.capacity()),
            (self.records.len(), self.records.records.len()),
            (self.lengths.deep(), DEEP_LENGTHS_MAX),
        ])
    }

    /// Selects the entry to be removed for a new Interest without space; `None` if none must yield.
    /// The caller [`remove`](Self::remove)s it.
    pub fn select_victim(&mut self, shortage: Shortage, claim: &Claim) -> Option<EntryRef> {
        self.refresh_sums();
        let victim = self.pick_victim(shortage, claim);
        self.shares.full_searches_due = self.shares.full_searches_due.saturating_sub(1);
        victim
    }

    /// Selects a victim from a sample.
    fn pick_victim(&mut self, shortage: Shortage, claim: &Claim) -> Option<EntryRef> {
        if shortage == Shortage::Entries && self.skips_search(claim) {
            return None;
        }
        let mut sample = Sample::new();
        self.take_sample(shortage, claim, &mut sample);
        let candidates = &mut sample.candidates[..sample.len];
        let newcomer = self.shares.owner(claim.face);
        // Counts per face and peer are of entries; for other resources the sample is the measure.
        let (newcomer_weight, local_has_less) = if shortage == Shortage::Entries {
            for candidate in
                candidates.iter_mut().filter(|candidate| candidate.face != FaceId::NONE)
            {
                candidate.weight = self.weight(candidate.face);
            }
            let reserve = (self.capacity() / LOCAL_RESERVE_DIVISOR) as u64;
            (self.weight(claim.face), self.shares.local_ins < reserve)
        } else {
            self.weigh_sample(candidates);
            let (shares, len) = (&self.shares, candidates.len());
            let newcomer_count =
                candidates.iter().filter(|c| shares.owner(c.face) == newcomer).count();
            let local = candidates.iter().filter(|c| shares.is_local(c.face)).count();
            (newcomer_count as u64, local * LOCAL_RESERVE_DIVISOR < len)
        };
        let ins = |face: FaceId| self.faces.ins(face);
        let is_management = claim.is_management && ins(claim.face) < MANAGEMENT_INS_MAX;
        let is_local = self.shares.is_local(claim.face);
        let victim = candidates.iter().max_by_key(|c| {
            // Entries of local faces are not selected while these have less than their reserve.
            let may_yield = is_management || !local_has_less || !self.shares.is_local(c.face);
            (c.weight == ORPHANED, may_yield, c.weight, ins(c.face), c.expiry)
        })?;
        let victim_in_reserve = local_has_less && self.shares.is_local(victim.face);
        let must_yield = if victim.weight == ORPHANED || is_management {
            true
        } else if self.shares.owner(victim.face) == newcomer {
            ins(victim.face) > ins(claim.face) + 1
        } else {
            match (is_local && local_has_less, victim_in_reserve) {
                (true, false) => true,
                (false, true) => false,
                _ => victim.weight > newcomer_weight + 1,
            }
        };
        must_yield.then(|| self.reference(victim.slot))
    }

    /// Returns whether an Interest of the heaviest owner fails without a search, so that a flood
    /// does not cost a search per packet. One search in [`HEAVIEST_SEARCH_INTERVAL`] is made, which
    /// evens out the faces of the peer. All are made if the table is so small that a search is
    /// complete, for a face with less than half of its peer's mean, and after a face was removed.
    fn skips_search(&mut self, claim: &Claim) -> bool {
        let search_is_complete = self.free.high_water() as usize <= SAMPLE_LEN;
        let ins = self.faces.ins(claim.face);
        let Some(Heaviest { owner, faces, .. }) = self.shares.heaviest else { return false };
        let has_little = 2 * u64::from(ins) * faces < self.weight(claim.face);
        let is_management = claim.is_management && ins < MANAGEMENT_INS_MAX;
        if search_is_complete
            || has_little
            || is_management
            || owner != self.shares.owner(claim.face)
        {
            return false;
        }
        self.shares.full_searches_due == 0
            && !self.shares.calls_until_refresh.is_multiple_of(HEAVIEST_SEARCH_INTERVAL)
    }

    /// Returns the face of the in-record that yields to a new one in an entry with its maximum
    /// number of in-records; `None` if it has fewer or none must yield.
    pub fn record_victim(&mut self, entry: EntryRef, claim: &Claim) -> Option<FaceId> {
        self.refresh_sums();
        if self.in_records(entry).count() < RECORDS_PER_ENTRY_MAX {
            return None;
        }
        let weigh = |face: FaceId| (self.weight(face), self.faces.ins(face));
        let heaviest =
            self.in_records(entry).max_by_key(|record| (weigh(record.face), record.expiry))?;
        let (weight, ins) = weigh(heaviest.face);
        let (newcomer_weight, newcomer_ins) = weigh(claim.face);
        let must_yield = match self.shares.owner(heaviest.face) == self.shares.owner(claim.face) {
            true => ins > newcomer_ins + 1,
            false => weight > newcomer_weight + 1,
        };
        must_yield.then_some(heaviest.face)
    }

    /// Returns the in-records of all faces of the face's peer; [`ORPHANED`] for a removed face.
    fn weight(&self, face: FaceId) -> u64 {
        match self.shares.member(face) {
            None => ORPHANED,
            Some(member)
                if member.peer == NO_PEER || self.shares.peers[member.peer as usize].faces == 1 =>
            {
                u64::from(self.faces.ins(face))
            }
            Some(member) => {
                self.shares.peers[member.peer as usize].ins.max(u64::from(self.faces.ins(face)))
            }
        }
    }

    /// Recomputes the sums per peer, if it is time to.
    fn refresh_sums(&mut self) {
        if let Some(remaining) = self.shares.calls_until_refresh.checked_sub(1) {
            self.shares.calls_until_refresh = remaining;
            return;
        }
        // Small tables change much within a few searches.
        self.shares.calls_until_refresh = REFRESH_INTERVAL.min(self.capacity() as u32 / 64);
        let Shares { members, peers, local_ins, .. } = &mut self.shares;
        peers.iter_mut().for_each(|share| share.ins = 0);
        *local_ins = 0;
        for member in members.iter().flatten() {
            let ins = u64::from(self.faces.ins(member.face));
            if let Some(share) = peers.get_mut(member.peer as usize) {
                share.ins += ins;
            }
            if member.scope == Scope::Local {
                *local_ins += ins;
            }
        }
        self.shares.heaviest = self.heaviest();
    }

    /// Returns the heaviest owner, if it has more than the reserve of local faces.
    fn heaviest(&self) -> Option<Heaviest> {
        let Shares { members, peers, .. } = &self.shares;
        let alone = members.iter().flatten().filter(|member| member.peer == NO_PEER);
        let alone = alone.map(|member| {
            (u64::from(self.faces.ins(member.face)), Owner::Face(member.face.bits()), 1)
        });
        let peers = (0..)
            .zip(peers)
            .map(|(index, share)| (share.ins, Owner::Peer(index), u64::from(share.faces)));
        let (ins, owner, faces) = alone.chain(peers).max_by_key(|(ins, ..)| *ins)?;
        let reserve = (self.capacity() / LOCAL_RESERVE_DIVISOR) as u64;
        (ins > reserve).then_some(Heaviest { owner, faces, ins })
    }

    /// Sets the weight of each candidate to the number of candidates of the same owner.
    fn weigh_sample(&self, candidates: &mut [Candidate]) {
        let owners: [Owner; SAMPLE_LEN] = core::array::from_fn(|index| {
            candidates.get(index).map_or(Owner::Ended, |c| self.shares.owner(c.face))
        });
        let len = candidates.len();
        for (candidate, owner) in candidates.iter_mut().zip(owners) {
            if owner != Owner::Ended {
                candidate.weight =
                    owners[..len].iter().filter(|other| **other == owner).count() as u64;
            }
        }
    }

    /// Samples entries that use the exhausted resource: all if they are few, else random ones.
    fn take_sample(&mut self, shortage: Shortage, claim: &Claim, sample: &mut Sample) {
        let population = match shortage {
            Shortage::Digests(hash) => {
                for slot in self.index.candidates(hash) {
                    let entry = &self.entries[slot as usize];
                    if entry.hash == hash && entry.has_digest() {
                        self.add_candidate(slot, claim, sample);
                    }
                }
                return;
            }
            Shortage::Entries | Shortage::Interests(0) => self.free.high_water(),
            Shortage::Interests(class) => self.interests.high_water(class),
            Shortage::Records => self.records.free.high_water(),
        };
        let is_complete = population as usize <= SAMPLE_LEN;
        let mut picks = [0; SAMPLE_LEN];
        let is_dominant = |heaviest: Heaviest| 4 * heaviest.ins > 3 * self.capacity() as u64;
        let has_dominant_owner = shortage == Shortage::Entries
            && !is_complete
            && self.shares.full_searches_due == 0
            && self.shares.heaviest.is_some_and(is_dominant);
        let len =
            if has_dominant_owner { SHORT_SAMPLE_LEN } else { SAMPLE_LEN.min(population as usize) };
        for (index, pick) in picks[..len].iter_mut().enumerate() {
            *pick = if is_complete { index as u32 } else { self.shares.draw(population) };
        }
        let mut slots = [None; SAMPLE_LEN];
        for (slot, pick) in slots.iter_mut().zip(&picks[..len]) {
            *slot = match shortage {
                Shortage::Interests(class) if class > 0 => self.interests.owner(class, *pick),
                Shortage::Records => self.records.records[*pick as usize].owner(),
                _ => Some(*pick),
            };
            if let Some(slot) = slot {
                self.entries.prefetch(*slot as usize);
            }
        }
        for (slot, pick) in slots.into_iter().zip(picks) {
            let Some(slot) = slot else { continue };
            let uses_resource = match shortage {
                Shortage::Interests(class) if class > 0 => {
                    self.entries[slot as usize].interest == self.interests.slot_line(class, pick)
                }
                Shortage::Interests(_) => {
                    self.interests.is_in_slot(self.entries[slot as usize].interest)
                }
                _ => true,
            };
            if uses_resource {
                self.add_candidate(slot, claim, sample);
            }
        }
    }

    /// Adds an entry to the sample, weighed by its lightest downstream.
    fn add_candidate(&self, slot: u32, claim: &Claim, sample: &mut Sample) {
        let entry = &self.entries[slot as usize];
        let is_excluded = claim.keep.is_some_and(|keep| keep.index == slot);
        if !entry.is_used() || is_excluded || sample.len == SAMPLE_LEN {
            return;
        }
        let records = self.in_records(self.reference(slot)).take(RECORDS_SAMPLED);
        let lightest = records
            .map(|record| (self.weight(record.face), record.face, record.expiry.as_nanos()))
            .min_by_key(|(weight, face, _)| (*weight, *face));
        let (weight, face, expiry) = lightest.unwrap_or((ORPHANED, FaceId::NONE, 0));
        sample.candidates[sample.len] = Candidate { slot, face, weight, expiry };
        sample.len += 1;
    }

    /// Limits the expiry of in-records of remote faces to `until`, in `slots_max` slots from `from`
    /// on. Returns where the next part begins, `None` at the end.
    pub fn shorten_part(&mut self, from: u32, slots_max: u32, until: Timestamp) -> Option<u32> {
        let high_water = self.free.high_water();
        let end = high_water.min(from.saturating_add(slots_max));
        for slot in from..end {
            if self.entries[slot as usize].is_used() {
                self.shorten(slot, until);
            }
        }
        (end < high_water).then_some(end)
    }

    /// Limits the expiry of the in-records of remote faces in one entry, and its timer.
    fn shorten(&mut self, slot: u32, until: Timestamp) {
        let Pit { entries, records, shares, wheel, .. } = self;
        let until_nanos = until.as_nanos();
        let entry = &mut entries[slot as usize];
        let (mut latest, mut changed) = (0, false);
        let mut shorten_record = |face: u32, expiry: &mut u64| {
            if *expiry > until_nanos && !shares.is_local(FaceId::from_bits(face)) {
                *expiry = until_nanos;
                changed = true;
            }
            latest = latest.max(*expiry);
        };
        if entry.incoming.face != 0 {
            shorten_record(entry.incoming.face, &mut entry.incoming.expiry);
        }
        let mut link = entry.in_chain;
        while link != NONE {
            let record = &mut records.records[link as usize - 1];
            shorten_record(record.face, &mut record.expiry);
            link = record.next;
        }
        if changed && entry.is_armed() && entry.expiry > latest {
            wheel.arm(entries, slot, Timestamp::from_nanos(latest));
        }
    }
}

/// The sampled entries.
struct Sample {
    candidates: [Candidate; SAMPLE_LEN],
    len: usize,
}

impl Sample {
    const fn new() -> Self {
        let none = Candidate { slot: 0, face: FaceId::NONE, weight: 0, expiry: 0 };
        Sample { candidates: [none; SAMPLE_LEN], len: 0 }
    }
}
