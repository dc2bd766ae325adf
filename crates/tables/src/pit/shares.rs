//! Fairness: which pending Interest gives way when the table has no room for another.
//!
//! Faces of one [`Peer`] count together, as UDP ports cost a peer nothing. The peer with the most gives way to one with less; of one peer,
//! the face with the most to a face with less. Nothing of this is touched while there is room: counts by face are kept anyway, sums by peer
//! are added up once in [`REFRESH_CALLS`] searches, and a victim is the best of a sample of [`SAMPLE_LEN`] or fewer, so that a search has a fixed cost.

use super::entry::NONE;
use super::slots::INTEREST_CLASSES;
use super::{DEEP_LENGTHS_MAX, EntryRef, Pit, RECORDS_PER_ENTRY_MAX};
use crate::{Ask, FaceId, Instant, Peer, Scope};
use std::collections::BTreeMap;

/// Entries that one search for a victim looks at, at most.
pub const SAMPLE_LEN: usize = 32;
/// Entries that it looks at while one owner has most of the table: one of that owner's is then among so few as well.
const SHORT_SAMPLE_LEN: usize = 8;
/// Searches for which one addition of sums by peer serves.
const REFRESH_CALLS: u32 = 256;
/// Of searches for the peer with the most, one in this many is made; the others are refused at once.
const HEAVIEST_SEARCHES: u32 = 16;
/// In-records of one entry that are looked at for the one with the least weight.
const RECORDS_LOOKED_AT: usize = 8;
/// While local faces have less than this part of what is short they take from others, whatever their weight, and others not from them.
const LOCAL_RESERVE_DIVISOR: usize = 8;
/// In-records of a face from which on what it asks of management is as anything else.
pub const MANAGEMENT_INS_MAX: u32 = 64;
/// Weight of an entry for which no face waits: it goes first.
const UNWANTED: u64 = u64::MAX;

/// What a table has too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Entries.
    Entries,
    /// Slots for Interests of this class: an index of [`INTEREST_SLOT_LENS`](super::INTEREST_SLOT_LENS).
    Interests(usize),
    /// Records beyond those that entries have room for.
    Records,
    /// Entries with an implicit digest under the name with this hash.
    Digests(u64),
}

/// For which Interest room is needed.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The face by which it came.
    pub face: FaceId,
    /// Goes before all others, while its face has fewer than [`MANAGEMENT_INS_MAX`] in-records.
    pub is_management: bool,
    /// An entry that may not be chosen.
    pub keep: Option<EntryRef>,
}

struct Member {
    face: FaceId,
    scope: Scope,
    /// Index of its peer; [`ALONE`] when that is not known.
    peer: u32,
}

const ALONE: u32 = u32::MAX;

struct PeerShare {
    peer: Peer,
    faces: u32,
    /// In-records of its faces when they were last added up.
    ins: u64,
}

/// Which faces belong together, and how much they have.
#[derive(Default)]
pub(super) struct Shares {
    /// By face slot.
    members: Vec<Option<Member>>,
    peers: Vec<PeerShare>,
    by_peer: BTreeMap<Peer, u32>,
    unused: Vec<u32>,
    /// In-records of local faces when they were last added up.
    local_ins: u64,
    /// The owner that had the most in-records when they were last added up, if more than the reserve of local faces.
    heaviest: Option<Heaviest>,
    /// Whole searches that are still due because a face has ended with entries.
    ended_searches: u32,
    /// Searches until sums are added up again.
    fresh_calls: u32,
    draws: u64,
}

/// One entry that may give way.
#[derive(Clone, Copy)]
struct Candidate {
    slot: u32,
    /// Of the face with the least weight that waits for it; [`FaceId::NONE`] when none does.
    face: FaceId,
    weight: u64,
    expiry: u64,
}

#[derive(Clone, Copy)]
struct Heaviest {
    owner: Owner,
    faces: u64,
    ins: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Peer(u32),
    Face(u32),
    Gone,
}

impl Shares {
    pub fn memory_bytes(&self) -> usize {
        self.members.capacity() * size_of::<Option<Member>>()
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
                self.members[face.slot()] = Some(Member { face, scope, peer: ALONE });
            }
        }
    }

    pub fn set_peer(&mut self, face: FaceId, peer: Peer) {
        if self.member(face).is_none() {
            return;
        }
        let scope = self.members[face.slot()].as_ref().map_or(Scope::NonLocal, |member| member.scope);
        self.leave(face.slot());
        let index = if peer == Peer::UNKNOWN { ALONE } else { self.join(peer) };
        self.members[face.slot()] = Some(Member { face, scope, peer: index });
    }

    pub fn remove(&mut self, face: FaceId) {
        if self.member(face).is_some() {
            self.leave(face.slot());
        }
    }

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

    fn leave(&mut self, slot: usize) {
        let Some(member) = self.members[slot].take() else { return };
        if member.peer == ALONE {
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

    #[inline]
    fn member(&self, face: FaceId) -> Option<&Member> {
        self.members.get(face.slot())?.as_ref().filter(|member| member.face == face)
    }

    fn is_local(&self, face: FaceId) -> bool {
        self.member(face).is_some_and(|member| member.scope == Scope::Local)
    }

    fn owner(&self, face: FaceId) -> Owner {
        match self.member(face) {
            None => Owner::Gone,
            Some(member) if member.peer == ALONE => Owner::Face(face.bits()),
            Some(member) => Owner::Peer(member.peer),
        }
    }

    /// A number below `bound`, the same in each run of a simulation.
    fn draw(&mut self, bound: u32) -> u32 {
        self.draws =
            self.draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.draws >> 32) * u64::from(bound)) >> 32) as u32
    }
}

impl Pit {
    /// Makes a face known: only known faces have a share. Before its first Interest.
    pub fn add_face(&mut self, face: FaceId, scope: Scope) {
        self.shares.insert(face, scope);
    }

    /// Says which peer is behind a known face.
    pub fn set_peer(&mut self, face: FaceId, peer: Peer) {
        self.shares.set_peer(face, peer);
    }

    /// Takes the share of a face that has ended: what is pending for it gives way first.
    pub fn end_share(&mut self, face: FaceId) {
        self.shares.ended_searches = self.shares.ended_searches.max(self.faces.ins(face));
        self.shares.remove(face);
    }

    /// What kept an Interest of this length out; `None` for what no other entry can give way for.
    pub fn shortage(&self, ask: &Ask<'_>, wire_len: usize) -> Option<Shortage> {
        if self.len() == self.capacity() {
            return Some(Shortage::Entries);
        }
        if let Some(class) = self.interests.class_without_room(wire_len) {
            return Some(Shortage::Interests(class));
        }
        let hash = ask.prefixes.key();
        if ask.prefixes.has_digest() {
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

    /// How full the fullest part of the table is, in eighths.
    pub fn pressure(&self) -> usize {
        self.parts().map(|(used, of)| (used * 8).checked_div(of).unwrap_or(0)).max().unwrap_or(0)
    }

    /// True when [`pressure`](Self::pressure) is that or more; found without divisions, as often as a loop turns.
    pub fn is_pressed(&self, eighths: usize) -> bool {
        self.parts().any(|(used, of)| used > 0 && used * 8 >= of * eighths)
    }

    /// What is used, and what there is, of each thing that can be short. Of the first class of slots there is one for each entry.
    fn parts(&self) -> impl Iterator<Item = (usize, usize)> {
        let (used, of) = (self.interests.in_use(), self.interests.capacity());
        (1..INTEREST_CLASSES).map(move |class| (used[class], of[class])).chain([
            (self.len(), self.capacity()),
            (self.records.len(), self.records.records.len()),
            (self.lengths.deep(), DEEP_LENGTHS_MAX),
        ])
    }

    /// The entry that is to give way to an Interest for which there is no room, if one must. It stays until it is [`remove`](Self::remove)d.
    pub fn victim(&mut self, shortage: Shortage, claim: &Claim) -> Option<EntryRef> {
        self.refresh_sums();
        let victim = self.choose_victim(shortage, claim);
        self.shares.ended_searches = self.shares.ended_searches.saturating_sub(1);
        victim
    }

    fn choose_victim(&mut self, shortage: Shortage, claim: &Claim) -> Option<EntryRef> {
        if shortage == Shortage::Entries && self.is_refused_at_once(claim) {
            return None;
        }
        let mut sample = Sample::new();
        self.take_sample(shortage, claim, &mut sample);
        let candidates = &mut sample.candidates[..sample.len];
        let newcomer = self.shares.owner(claim.face);
        // Counts by face and peer are of entries; of other things the sample is the measure.
        let (newcomer_weight, local_has_less) = if shortage == Shortage::Entries {
            for candidate in candidates.iter_mut().filter(|candidate| candidate.face != FaceId::NONE) {
                candidate.weight = self.weight(candidate.face);
            }
            let reserve = (self.capacity() / LOCAL_RESERVE_DIVISOR) as u64;
            (self.weight(claim.face), self.shares.local_ins < reserve)
        } else {
            self.weigh_sample(candidates);
            let (shares, len) = (&self.shares, candidates.len());
            let of_newcomer = candidates.iter().filter(|c| shares.owner(c.face) == newcomer).count();
            let local = candidates.iter().filter(|c| shares.is_local(c.face)).count();
            (of_newcomer as u64, local * LOCAL_RESERVE_DIVISOR < len)
        };
        let ins = |face: FaceId| self.faces.ins(face);
        let is_management = claim.is_management && ins(claim.face) < MANAGEMENT_INS_MAX;
        let is_local = self.shares.is_local(claim.face);
        let victim = candidates.iter().max_by_key(|c| {
            // What local faces have is not touched while they have less than their reserve.
            let open = is_management || !local_has_less || !self.shares.is_local(c.face);
            (c.weight == UNWANTED, open, c.weight, ins(c.face), c.expiry)
        })?;
        let of_reserve = local_has_less && self.shares.is_local(victim.face);
        let gives_way = if victim.weight == UNWANTED || is_management {
            true
        } else if self.shares.owner(victim.face) == newcomer {
            ins(victim.face) > ins(claim.face) + 1
        } else {
            match (is_local && local_has_less, of_reserve) {
                (true, false) => true,
                (false, true) => false,
                _ => victim.weight > newcomer_weight + 1,
            }
        };
        gives_way.then(|| self.reference(victim.slot))
    }

    /// Whether an Interest of the peer with the most entries is refused without a search, as a flood must not cost a search for each packet. One
    /// in [`HEAVIEST_SEARCHES`] is made nevertheless, and evens out faces of the peer. It is always made where the table is searched whole,
    /// for a face that has less than half of its peer's mean, and after a face has ended, whose entries go first.
    fn is_refused_at_once(&mut self, claim: &Claim) -> bool {
        let searches_whole = self.free.touched() as usize <= SAMPLE_LEN;
        let ins = self.faces.ins(claim.face);
        let Some(Heaviest { owner, faces, .. }) = self.shares.heaviest else { return false };
        let has_little = 2 * u64::from(ins) * faces < self.weight(claim.face);
        let is_management = claim.is_management && ins < MANAGEMENT_INS_MAX;
        if searches_whole || has_little || is_management || owner != self.shares.owner(claim.face) {
            return false;
        }
        self.shares.ended_searches == 0 && !self.shares.fresh_calls.is_multiple_of(HEAVIEST_SEARCHES)
    }

    /// The face whose in-record is to give way to another one of an entry that has as many as it may; `None` where it has fewer, or none must.
    pub fn crowding_face(&mut self, entry: EntryRef, claim: &Claim) -> Option<FaceId> {
        self.refresh_sums();
        if self.in_records(entry).count() < RECORDS_PER_ENTRY_MAX {
            return None;
        }
        let weigh = |face: FaceId| (self.weight(face), self.faces.ins(face));
        let heaviest = self.in_records(entry).max_by_key(|record| (weigh(record.face), record.expiry))?;
        let (weight, ins) = weigh(heaviest.face);
        let (newcomer_weight, newcomer_ins) = weigh(claim.face);
        let gives_way = match self.shares.owner(heaviest.face) == self.shares.owner(claim.face) {
            true => ins > newcomer_ins + 1,
            false => weight > newcomer_weight + 1,
        };
        gives_way.then_some(heaviest.face)
    }

    /// In-records of the face and of all others of its peer; [`UNWANTED`] for a face that has ended.
    fn weight(&self, face: FaceId) -> u64 {
        match self.shares.member(face) {
            None => UNWANTED,
            Some(member) if member.peer == ALONE || self.shares.peers[member.peer as usize].faces == 1 => {
                u64::from(self.faces.ins(face))
            }
            Some(member) => self.shares.peers[member.peer as usize].ins.max(u64::from(self.faces.ins(face))),
        }
    }

    fn refresh_sums(&mut self) {
        if let Some(left) = self.shares.fresh_calls.checked_sub(1) {
            self.shares.fresh_calls = left;
            return;
        }
        // Small tables change much within a few calls.
        self.shares.fresh_calls = REFRESH_CALLS.min(self.capacity() as u32 / 64);
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

    fn heaviest(&self) -> Option<Heaviest> {
        let Shares { members, peers, .. } = &self.shares;
        let alone = members.iter().flatten().filter(|member| member.peer == ALONE);
        let alone =
            alone.map(|member| (u64::from(self.faces.ins(member.face)), Owner::Face(member.face.bits()), 1));
        let peers =
            (0..).zip(peers).map(|(index, share)| (share.ins, Owner::Peer(index), u64::from(share.faces)));
        let (ins, owner, faces) = alone.chain(peers).max_by_key(|(ins, ..)| *ins)?;
        let reserve = (self.capacity() / LOCAL_RESERVE_DIVISOR) as u64;
        (ins > reserve).then_some(Heaviest { owner, faces, ins })
    }

    /// Gives each candidate as weight how many of all belong to the same owner.
    fn weigh_sample(&self, candidates: &mut [Candidate]) {
        let owners: [Owner; SAMPLE_LEN] =
            core::array::from_fn(|at| candidates.get(at).map_or(Owner::Gone, |c| self.shares.owner(c.face)));
        let len = candidates.len();
        for (candidate, owner) in candidates.iter_mut().zip(owners) {
            if owner != Owner::Gone {
                candidate.weight = owners[..len].iter().filter(|other| **other == owner).count() as u64;
            }
        }
    }

    /// Collects entries that have of what is short: all of them where they are few, else some by chance.
    fn take_sample(&mut self, shortage: Shortage, claim: &Claim, sample: &mut Sample) {
        let of = match shortage {
            Shortage::Digests(hash) => {
                for slot in self.index.candidates(hash) {
                    let entry = &self.entries[slot as usize];
                    if entry.hash == hash && entry.has_digest() {
                        self.add_candidate(slot, claim, sample);
                    }
                }
                return;
            }
            Shortage::Entries | Shortage::Interests(0) => self.free.touched(),
            Shortage::Interests(class) => self.interests.touched(class),
            Shortage::Records => self.records.free.touched(),
        };
        let all = of as usize <= SAMPLE_LEN;
        let mut picks = [0; SAMPLE_LEN];
        let has_most = |heaviest: Heaviest| 4 * heaviest.ins > 3 * self.capacity() as u64;
        let one_has_most = shortage == Shortage::Entries
            && !all
            && self.shares.ended_searches == 0
            && self.shares.heaviest.is_some_and(has_most);
        let len = if one_has_most { SHORT_SAMPLE_LEN } else { SAMPLE_LEN.min(of as usize) };
        for (at, pick) in picks[..len].iter_mut().enumerate() {
            *pick = if all { at as u32 } else { self.shares.draw(of) };
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
            let has = match shortage {
                Shortage::Interests(class) if class > 0 => {
                    self.entries[slot as usize].interest == self.interests.place(class, pick)
                }
                Shortage::Interests(_) => self.interests.is_slot(self.entries[slot as usize].interest),
                _ => true,
            };
            if has {
                self.add_candidate(slot, claim, sample);
            }
        }
    }

    fn add_candidate(&self, slot: u32, claim: &Claim, sample: &mut Sample) {
        let entry = &self.entries[slot as usize];
        let kept = claim.keep.is_some_and(|keep| keep.index == slot);
        if !entry.is_used() || kept || sample.len == SAMPLE_LEN {
            return;
        }
        let records = self.in_records(self.reference(slot)).take(RECORDS_LOOKED_AT);
        let lightest = records
            .map(|record| (self.weight(record.face), record.face, record.expiry.as_nanos()))
            .min_by_key(|(weight, face, _)| (*weight, *face));
        let (weight, face, expiry) = lightest.unwrap_or((UNWANTED, FaceId::NONE, 0));
        sample.candidates[sample.len] = Candidate { slot, face, weight, expiry };
        sample.len += 1;
    }

    /// Lets no in-record of a face that is not local end after `until`, in `slots_max` slots from `from` on; where the next part begins, `None`
    /// at the end.
    pub fn shorten_part(&mut self, from: u32, slots_max: u32, until: Instant) -> Option<u32> {
        let touched = self.free.touched();
        let end = touched.min(from.saturating_add(slots_max));
        for slot in from..end {
            if self.entries[slot as usize].is_used() {
                self.shorten(slot, until);
            }
        }
        (end < touched).then_some(end)
    }

    fn shorten(&mut self, slot: u32, until: Instant) {
        let Pit { entries, records, shares, wheel, .. } = self;
        let until_nanos = until.as_nanos();
        let entry = &mut entries[slot as usize];
        let (mut latest, mut changed) = (0, false);
        let mut limit = |face: u32, expiry: &mut u64| {
            if *expiry > until_nanos && !shares.is_local(FaceId::from_bits(face)) {
                *expiry = until_nanos;
                changed = true;
            }
            latest = latest.max(*expiry);
        };
        if entry.incoming.face != 0 {
            limit(entry.incoming.face, &mut entry.incoming.expiry);
        }
        let mut link = entry.more_in;
        while link != NONE {
            let record = &mut records.records[link as usize - 1];
            limit(record.face, &mut record.expiry);
            link = record.next;
        }
        if changed && entry.is_armed() && entry.expiry > latest {
            wheel.arm(entries, slot, Instant::from_nanos(latest));
        }
    }
}

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
