//! Which packet goes when there is no room: the one file that decides it.
//!
//! A policy is told what happens to entries and names the next victim. All policies keep entries in two queues, linked through the entries:
//!
//! | policy | first queue | second queue | goes next |
//! |---|---|---|---|
//! | least recently used | all, by last use | - | what was used longest ago |
//! | priority FIFO | solicited, by arrival | unsolicited | unsolicited; else what stopped being fresh first; else what came first |
//! | S3-FIFO | main: used more than once while in small, or back from the ghosts | small: what just came | see [`Policy::oldest_unused`] |
//!
//! So another policy takes over at once, with the entries where they stand.
//!
//! Sources: NFD 24.07, `cs-policy-priority-fifo`; Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, for S3-FIFO.

mod ghosts;
mod stale;

use super::record::{Entry, NONE};
use ghosts::Ghosts;
use stale::StaleTimes;

/// How the store chooses what goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// Least recently used goes first: NFD's default.
    #[default]
    Lru,
    /// In the order they came; unsolicited and then stale ones first; what would go at once is not taken in.
    PriorityFifo,
    /// A small queue sorts out what is asked for once only; what comes back is kept long.
    S3Fifo,
}

/// Entries that S3-FIFO looks at for one victim; each may be used thrice, so there is always one in the end.
const LOOKS_MAX: usize = 64;

/// What a policy asks of a packet that comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// From when on it is not fresh, nanoseconds; now, when it never is.
    pub stale_at: u64,
    /// Nobody waits for it.
    pub unsolicited: bool,
}

/// What a packet is worth to a policy that has ranks; lower ones go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Unsolicited,
    Stale,
    Equal,
}

/// The order of entries.
#[derive(Debug)]
pub(super) struct Policy {
    kind: PolicyKind,
    queues: [Queue; 2],
    /// Entries of the first queue, while the policy is priority FIFO.
    stale: Option<Box<StaleTimes>>,
    /// Names that went from the small queue, while the policy is S3-FIFO.
    ghosts: Option<Box<Ghosts>>,
}

const FIRST: usize = 0;
const SECOND: usize = 1;

impl Policy {
    pub const fn new() -> Self {
        Policy { kind: PolicyKind::Lru, queues: [Queue::new(), Queue::new()], stale: None, ghosts: None }
    }

    pub const fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// Changes the policy, for a store of so many packets and entry numbers. For control: takes address space.
    pub fn set(&mut self, kind: PolicyKind, packets_max: usize, entries_max: usize) {
        self.kind = kind;
        match kind {
            PolicyKind::Lru => {}
            PolicyKind::PriorityFifo => {
                let stale =
                    self.stale.get_or_insert_with(|| Box::new(StaleTimes::new(packets_max, entries_max)));
                // Entries that came before are in their queue only: they count as fresh.
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

    /// An entry came, or comes again after [`removed`](Self::removed) or [`evicted`](Self::evicted).
    #[inline]
    pub fn inserted(&mut self, entries: &mut [Entry], slot: u32, arrival: Arrival) {
        if self.kind == PolicyKind::Lru {
            self.push(entries, FIRST, slot);
        } else {
            self.inserted_by_rank(entries, slot, arrival);
        }
    }

    fn inserted_by_rank(&mut self, entries: &mut [Entry], slot: u32, arrival: Arrival) {
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

    /// An entry answered.
    #[inline]
    pub fn used(&mut self, entries: &mut [Entry], slot: u32) {
        match self.kind {
            PolicyKind::Lru => {
                if self.queues[FIRST].newest != slot {
                    self.take_out(entries, slot);
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

    /// The same packet came again.
    pub fn refreshed(&mut self, entries: &mut [Entry], slot: u32, arrival: Arrival) {
        if self.kind != PolicyKind::PriorityFifo {
            return self.used(entries, slot);
        }
        // Solicited once is solicited.
        let unsolicited = arrival.unsolicited && entries[slot as usize].queue() == SECOND;
        self.removed(entries, slot);
        self.inserted(entries, slot, Arrival { unsolicited, ..arrival });
    }

    /// An entry goes for another reason than that it is the next victim.
    #[inline]
    pub fn removed(&mut self, entries: &mut [Entry], slot: u32) {
        if let (PolicyKind::PriorityFifo, Some(stale)) = (self.kind, &mut self.stale) {
            stale.remove(slot);
        }
        self.take_out(entries, slot);
    }

    /// The victim goes.
    #[inline]
    pub fn evicted(&mut self, entries: &mut [Entry], slot: u32) {
        if let (PolicyKind::S3Fifo, Some(ghosts)) = (self.kind, &mut self.ghosts) {
            let entry = &entries[slot as usize];
            if entry.queue() == SECOND {
                ghosts.push(entry.key);
            }
        }
        self.removed(entries, slot);
    }

    /// The victim goes and another packet comes in its entry: call before that is changed, and [`renewed`](Self::renewed) with what this gave
    /// behind.
    #[inline(always)]
    pub fn renews(&mut self, entries: &mut [Entry], slot: u32) -> bool {
        let stays = self.kind == PolicyKind::Lru && entries[slot as usize].queue() == FIRST;
        if !stays {
            self.evicted(entries, slot);
        }
        stays
    }

    /// See [`renews`](Self::renews).
    #[inline(always)]
    pub fn renewed(&mut self, entries: &mut [Entry], slot: u32, arrival: Arrival, stayed: bool) {
        if stayed {
            self.queues[FIRST].turn(entries, slot);
        } else {
            self.inserted(entries, slot, arrival);
        }
    }

    /// True when the [victim](Self::victim) is the oldest of the first queue, whatever it is, and becomes the newest when it is renewed: least recently used
    /// goes first, and no former policy left anything.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.kind == PolicyKind::Lru && self.queues[SECOND].oldest == NONE
    }

    /// The victim of a [plain](Self::is_plain) policy.
    #[inline(always)]
    pub fn plain_victim(&self) -> Option<u32> {
        let oldest = self.queues[FIRST].oldest;
        (oldest != NONE).then_some(oldest)
    }

    /// What is to go next, and its rank at a time; the same one until something changes. S3-FIFO makes up its mind here.
    #[inline(always)]
    pub fn victim(&mut self, entries: &mut [Entry], now: u64) -> Option<(u32, Rank)> {
        let [first, second] = [self.queues[FIRST].oldest, self.queues[SECOND].oldest];
        match self.kind {
            // Nothing is in the second queue but what a former policy left there.
            PolicyKind::Lru if second == NONE => some(first, Rank::Equal),
            PolicyKind::Lru => some(second, Rank::Equal),
            PolicyKind::PriorityFifo if second != NONE => some(second, Rank::Unsolicited),
            PolicyKind::PriorityFifo => match self.stale.as_ref().and_then(|stale| stale.first()) {
                Some((stale_at, slot)) if stale_at <= now => some(slot, Rank::Stale),
                _ => some(first, Rank::Equal),
            },
            PolicyKind::S3Fifo => some(self.oldest_unused(entries), Rank::Equal),
        }
    }

    /// False for a packet that would be the next to go, though all others could stay.
    #[inline]
    pub fn takes(&self, now: u64, arrival: Arrival, victim: Rank) -> bool {
        let rank = match self.kind {
            PolicyKind::PriorityFifo if arrival.unsolicited => Rank::Unsolicited,
            PolicyKind::PriorityFifo if arrival.stale_at <= now => Rank::Stale,
            _ => Rank::Equal,
        };
        rank >= victim
    }

    /// Entries, those that came (or were used, where that matters) last first, one queue after the other.
    pub fn recent<'a>(&self, entries: &'a [Entry]) -> impl Iterator<Item = u32> + use<'a> {
        let [first, second] = [self.queues[FIRST].newest, self.queues[SECOND].newest];
        let newest = if self.kind == PolicyKind::S3Fifo { [second, first] } else { [first, second] };
        newest.into_iter().flat_map(move |newest| {
            let known = |slot: u32| (slot != NONE).then_some(slot);
            core::iter::successors(known(newest), move |slot| known(entries[*slot as usize].older))
        })
    }

    /// The entry behind the next victim, most likely.
    #[inline]
    pub fn behind_victim(&self, entries: &[Entry]) -> u32 {
        let [first, second] = [self.queues[FIRST].oldest, self.queues[SECOND].oldest];
        let oldest = if second == NONE { first } else { second };
        entries.get(oldest as usize).map_or(NONE, |entry| entry.newer)
    }

    /// S3-FIFO's victim. While a tenth of all are in the small queue, its oldest: one that was used more than once moves to the main queue
    /// instead. Else the main queue's oldest: one that was used goes to that queue's end instead, a use less. [`NONE`] when there is no entry.
    fn oldest_unused(&mut self, entries: &mut [Entry]) -> u32 {
        for _ in 0..LOOKS_MAX {
            let all = self.queues[FIRST].len + self.queues[SECOND].len;
            let from_small = self.queues[SECOND].len > 0
                && u64::from(self.queues[SECOND].len) * 10 >= u64::from(all)
                || self.queues[FIRST].len == 0;
            let slot = self.queues[if from_small { SECOND } else { FIRST }].oldest;
            let Some(entry) = entries.get_mut(slot as usize) else { return NONE };
            match (from_small, entry.uses()) {
                (true, 0 | 1) | (false, 0) => return slot,
                (true, _) => entry.set_uses(0),
                (false, uses) => entry.set_uses(uses - 1),
            }
            self.take_out(entries, slot);
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
    fn take_out(&mut self, entries: &mut [Entry], slot: u32) {
        self.queues[entries[slot as usize].queue()].take_out(entries, slot);
    }
}

#[inline(always)]
fn some(slot: u32, rank: Rank) -> Option<(u32, Rank)> {
    (slot != NONE).then_some((slot, rank))
}

/// Entries in an order, linked through themselves.
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

    /// Makes the oldest the newest.
    #[inline(always)]
    fn turn(&mut self, entries: &mut [Entry], oldest: u32) {
        let second = entries[oldest as usize].newer;
        // Alone, it is both.
        let Some(entry) = entries.get_mut(second as usize) else { return };
        entry.older = NONE;
        self.oldest = second;
        // Where there are two, the second is the newest.
        let newest = core::mem::replace(&mut self.newest, oldest);
        entries[newest as usize].newer = oldest;
        let entry = &mut entries[oldest as usize];
        (entry.newer, entry.older) = (NONE, newest);
    }

    #[inline]
    fn take_out(&mut self, entries: &mut [Entry], slot: u32) {
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
