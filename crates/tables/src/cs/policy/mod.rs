//! Eviction policies: which packet is evicted when the store is full.
//!
//! A policy is called for every change of the entries and returns the next victim. All policies
//! keep the entries in two queues, linked through the entries:
//!
//! | policy | first queue | second queue | next victim |
//! |---|---|---|---|
//! | least recently used | all, by last use | - | least recently used |
//! | priority FIFO | solicited, by arrival | unsolicited | unsolicited, first stale, oldest |
//! | S3-FIFO | main: used twice, or in ghosts | small: new | [`Policy::oldest_unused`] |
//!
//! Main invariant: every entry is in exactly one queue. So another policy can take over at once,
//! with the entries in their places.
//!
//! Sources: NFD 24.07, `cs-policy-priority-fifo`; Yang et al., "FIFO queues are all you need for
//! cache eviction", SOSP 2023, for S3-FIFO.

mod ghosts;
mod stale_heap;

use super::record::{Entry, NONE};
use ghosts::Ghosts;
use stale_heap::StaleHeap;

/// The eviction policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// Least recently used packets first: NFD's default.
    #[default]
    Lru,
    /// In the order of arrival, but unsolicited and then stale packets first. A packet that would
    /// be the next victim is not admitted.
    PriorityFifo,
    /// A small queue filters packets that are used only once; packets that return are kept longer.
    S3Fifo,
}

/// The maximum number of entries S3-FIFO visits per victim. Each may be spared three times, so a
/// victim is always found in the end.
const SCAN_MAX: usize = 64;

/// The properties of a new packet that a policy uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// The time from which on it is stale, nanoseconds; now, if it is never fresh.
    pub stale_at: u64,
    /// No Interest waited for it.
    pub unsolicited: bool,
}

/// The priority class of a packet; lower ones are evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Unsolicited,
    Stale,
    Equal,
}

/// The state of the policy.
#[derive(Debug)]
pub(super) struct Policy {
    kind: PolicyKind,
    queues: [Queue; 2],
    /// The entries of the first queue by end of freshness, for priority FIFO.
    stale: Option<Box<StaleHeap>>,
    /// Names evicted from the small queue, for S3-FIFO.
    ghosts: Option<Box<Ghosts>>,
}

const FIRST: usize = 0;
const SECOND: usize = 1;

impl Policy {
    pub const fn new() -> Self {
        Policy {
            kind: PolicyKind::Lru,
            queues: [Queue::new(), Queue::new()],
            stale: None,
            ghosts: None,
        }
    }

    pub const fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// Changes the policy, for a store of this many packets and entry numbers. Reserves address
    /// space.
    pub fn set(&mut self, kind: PolicyKind, packets_max: usize, entries_max: usize) {
        self.kind = kind;
        match kind {
            PolicyKind::Lru => {}
            PolicyKind::PriorityFifo => {
                let stale = self
                    .stale
                    .get_or_insert_with(|| Box::new(StaleHeap::new(packets_max, entries_max)));
                // Earlier entries are in their queue only: they count as fresh.
                stale.clear();
            }
            PolicyKind::S3Fifo => {
                self.ghosts.get_or_insert_with(|| Box::new(Ghosts::new(packets_max)));
            }
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.stale.as_ref().map_or(0, |stale| stale.memory_bytes())
            + self.ghosts.as_ref().map_or(0, |ghosts| ghosts.memory_bytes())
    }

    /// Adds an entry, also after [`remove`](Self::remove) or
    /// [`remove_victim`](Self::remove_victim).
    #[inline]
    pub fn insert(&mut self, entries: &mut [Entry], slot: u32, arrival: Arrival) {
        if self.kind == PolicyKind::Lru {
            self.push(entries, FIRST, slot);
        } else {
            self.insert_by_rank(entries, slot, arrival);
        }
    }

    /// [Inserts](Self::insert) an entry for priority FIFO or S3-FIFO.
    fn insert_by_rank(&mut self, entries: &mut [Entry], slot: u32, arrival: Arrival) {
        let mut queue = FIRST;
        if let (PolicyKind::S3Fifo, Some(ghosts)) = (self.kind, &mut self.ghosts) {
            queue = if ghosts.take(entries[slot as usize].key) { FIRST } else { SECOND };
        }
        if let (PolicyKind::PriorityFifo, Some(stale)) = (self.kind, &mut self.stale) {
            if arrival.unsolicited {
                queue = SECOND;
            } else {
                stale.push(arrival.stale_at, slot);
            }
        }
        entries[slot as usize].set_uses(0);
        self.push(entries, queue, slot);
    }

    /// Counts a use of an entry.
    #[inline]
    pub fn record_use(&mut self, entries: &mut [Entry], slot: u32) {
        match self.kind {
            PolicyKind::Lru => {
                if self.queues[FIRST].newest != slot {
                    self.unlink(entries, slot);
                    self.push(entries, FIRST, slot);
                }
            }
            PolicyKind::PriorityFifo => {}
            PolicyKind::S3Fifo => {
                let entry = &mut entries[slot as usize];
                entry.set_uses((entry.uses() + 1).min(3));
            }
        }
    }

    /// The packet of an entry was inserted again.
    pub fn refresh(&mut self, entries: &mut [Entry], slot: u32, arrival: Arrival) {
        if self.kind != PolicyKind::PriorityFifo {
            return self.record_use(entries, slot);
        }
        // An entry that was solicited once stays solicited.
        let unsolicited = arrival.unsolicited && entries[slot as usize].queue() == SECOND;
        self.remove(entries, slot);
        self.insert(entries, slot, Arrival { unsolicited, ..arrival });
    }

    /// Removes an entry that is not the victim.
    #[inline]
    pub fn remove(&mut self, entries: &mut [Entry], slot: u32) {
        if let (PolicyKind::PriorityFifo, Some(stale)) = (self.kind, &mut self.stale) {
            stale.remove(slot);
        }
        self.unlink(entries, slot);
    }

    /// Removes the victim.
    #[inline]
    pub fn remove_victim(&mut self, entries: &mut [Entry], slot: u32) {
        if let (PolicyKind::S3Fifo, Some(ghosts)) = (self.kind, &mut self.ghosts) {
            let entry = &entries[slot as usize];
            if entry.queue() == SECOND {
                ghosts.push(entry.key);
            }
        }
        self.remove(entries, slot);
    }

    /// The victim's entry is to be reused by another packet. To be called before the entry changes;
    /// its result is passed to [`finish_replace`](Self::finish_replace) afterwards.
    #[inline(always)]
    pub fn begin_replace(&mut self, entries: &mut [Entry], slot: u32) -> bool {
        let stays_in_queue =
            self.kind == PolicyKind::Lru && entries[slot as usize].queue() == FIRST;
        if !stays_in_queue {
            self.remove_victim(entries, slot);
        }
        stays_in_queue
    }

    /// The other half of [`begin_replace`](Self::begin_replace), with its result.
    #[inline(always)]
    pub fn finish_replace(
        &mut self,
        entries: &mut [Entry],
        slot: u32,
        arrival: Arrival,
        stays_in_queue: bool,
    ) {
        if stays_in_queue {
            self.queues[FIRST].rotate(entries, slot);
        } else {
            self.insert(entries, slot, arrival);
        }
    }

    /// Returns whether the policy is LRU and no earlier policy has left entries in the second
    /// queue. Then the [victim](Self::victim) is the oldest of the first queue, and reusing its
    /// entry makes it the newest.
    #[inline(always)]
    pub fn is_simple_lru(&self) -> bool {
        self.kind == PolicyKind::Lru && self.queues[SECOND].oldest == NONE
    }

    /// Returns the victim if the [policy is simple LRU](Self::is_simple_lru).
    #[inline(always)]
    pub fn lru_victim(&self) -> Option<u32> {
        let oldest = self.queues[FIRST].oldest;
        (oldest != NONE).then_some(oldest)
    }

    /// Returns the next victim and its rank; the same one until something changes. S3-FIFO moves
    /// entries between its queues here.
    #[inline(always)]
    pub fn victim(&mut self, entries: &mut [Entry], now: u64) -> Option<(u32, Rank)> {
        let [first, second] = [self.queues[FIRST].oldest, self.queues[SECOND].oldest];
        match self.kind {
            // The second queue contains only what an earlier policy left there.
            PolicyKind::Lru if second == NONE => victim_if_some(first, Rank::Equal),
            PolicyKind::Lru => victim_if_some(second, Rank::Equal),
            PolicyKind::PriorityFifo if second != NONE => victim_if_some(second, Rank::Unsolicited),
            PolicyKind::PriorityFifo => match self.stale.as_ref().and_then(|stale| stale.first()) {
                Some((stale_at, slot)) if stale_at <= now => victim_if_some(slot, Rank::Stale),
                _ => victim_if_some(first, Rank::Equal),
            },
            PolicyKind::S3Fifo => victim_if_some(self.oldest_unused(entries), Rank::Equal),
        }
    }

    /// Returns false for a packet that would be the next victim itself.
    #[inline]
    pub fn admits_packet(&self, now: u64, arrival: Arrival, victim: Rank) -> bool {
        let rank = match self.kind {
            PolicyKind::PriorityFifo if arrival.unsolicited => Rank::Unsolicited,
            PolicyKind::PriorityFifo if arrival.stale_at <= now => Rank::Stale,
            _ => Rank::Equal,
        };
        rank >= victim
    }

    /// Iterates over entries, the most recently inserted (LRU: used) first, one queue after the
    /// other.
    pub fn recent<'a>(&self, entries: &'a [Entry]) -> impl Iterator<Item = u32> + use<'a> {
        let [first, second] = [self.queues[FIRST].newest, self.queues[SECOND].newest];
        let newest =
            if self.kind == PolicyKind::S3Fifo { [second, first] } else { [first, second] };
        newest.into_iter().flat_map(move |newest| {
            let some_slot = |slot: u32| (slot != NONE).then_some(slot);
            core::iter::successors(some_slot(newest), move |slot| {
                some_slot(entries[*slot as usize].older)
            })
        })
    }

    /// Returns the entry that is probably the victim after the next one.
    #[inline]
    pub fn second_victim(&self, entries: &[Entry]) -> u32 {
        let [first, second] = [self.queues[FIRST].oldest, self.queues[SECOND].oldest];
        let oldest = if second == NONE { first } else { second };
        entries.get(oldest as usize).map_or(NONE, |entry| entry.newer)
    }

    /// Returns S3-FIFO's victim; [`NONE`] if there is no entry. If the small queue has at least a
    /// tenth of all entries: its oldest, but one used more than once moves to the main queue
    /// instead. Else the oldest of the main queue, but one that was used moves to the end of the
    /// queue, with one use less.
    fn oldest_unused(&mut self, entries: &mut [Entry]) -> u32 {
        for _ in 0..SCAN_MAX {
            let total = self.queues[FIRST].len + self.queues[SECOND].len;
            let from_small = self.queues[SECOND].len > 0
                && u64::from(self.queues[SECOND].len) * 10 >= u64::from(total)
                || self.queues[FIRST].len == 0;
            let slot = self.queues[if from_small { SECOND } else { FIRST }].oldest;
            let Some(entry) = entries.get_mut(slot as usize) else { return NONE };
            match (from_small, entry.uses()) {
                (true, 0 | 1) | (false, 0) => return slot,
                (true, _) => entry.set_uses(0),
                (false, uses) => entry.set_uses(uses - 1),
            }
            self.unlink(entries, slot);
            self.push(entries, FIRST, slot);
        }
        let [first, second] = [self.queues[FIRST].oldest, self.queues[SECOND].oldest];
        if first == NONE { second } else { first }
    }

    #[inline]
    fn push(&mut self, entries: &mut [Entry], queue: usize, slot: u32) {
        entries[slot as usize].set_queue(queue);
        self.queues[queue].push(entries, slot);
    }

    #[inline]
    fn unlink(&mut self, entries: &mut [Entry], slot: u32) {
        self.queues[entries[slot as usize].queue()].unlink(entries, slot);
    }
}

#[inline(always)]
fn victim_if_some(slot: u32, rank: Rank) -> Option<(u32, Rank)> {
    (slot != NONE).then_some((slot, rank))
}

/// A doubly linked list through the entries, in order of insertion.
#[derive(Debug)]
struct Queue {
    newest: u32,
    oldest: u32,
    len: u32,
}

impl Queue {
    const fn new() -> Self {
        Queue { newest: NONE, oldest: NONE, len: 0 }
    }

    #[inline]
    fn push(&mut self, entries: &mut [Entry], slot: u32) {
        let entry = &mut entries[slot as usize];
        (entry.newer, entry.older) = (NONE, self.newest);
        match entries.get_mut(self.newest as usize) {
            Some(second) => second.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
        self.len += 1;
    }

    /// Makes the oldest entry the newest.
    #[inline(always)]
    fn rotate(&mut self, entries: &mut [Entry], oldest: u32) {
        let second = entries[oldest as usize].newer;
        // A single entry is both.
        let Some(entry) = entries.get_mut(second as usize) else { return };
        entry.older = NONE;
        self.oldest = second;
        // With two entries, `second` is the newest.
        let newest = core::mem::replace(&mut self.newest, oldest);
        entries[newest as usize].newer = oldest;
        let entry = &mut entries[oldest as usize];
        (entry.newer, entry.older) = (NONE, newest);
    }

    #[inline]
    fn unlink(&mut self, entries: &mut [Entry], slot: u32) {
        let Entry { newer, older, .. } = entries[slot as usize];
        match entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        self.len -= 1;
    }
}
