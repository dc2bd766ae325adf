//! Which lengths of prefixes exist, and where the middle is.
//!
//! The middle follows the routes: at most one prefix in eight is shorter than it. It moves by building a second set of hints in portions, a few entries
//! per change of the FIB, while the first one answers; then they change places. So no change takes long. Where there is room for entries beside the hints at
//! rest, they move back in the same way, and entries move to their new hints then.

use super::Entry;
use super::ground::{Ground, Site};
use super::hints::{Behind, Hints};
use crate::index::{Index, IndexFull};
use nw_name::{HashKey, NameRef, PREFIXES_MAX, Prefixes};

/// Where the middle is until the routes say better.
const MIDDLE_FIRST: usize = 4;

/// Work per change of the FIB while the middle moves.
const ENTRIES_PER_STEP: usize = 16;
const BUCKETS_PER_STEP: usize = 256;
const CLEARED_PER_STEP: usize = 32;

enum Move {
    Rest,
    /// Entries in buckets before this one have hints at the new middle too.
    Building {
        bucket: usize,
    },
    /// Hints in buckets before this one are forgotten.
    Clearing {
        bucket: usize,
    },
}

pub(super) struct Lengths {
    key: HashKey,
    hints: Hints,
    /// At the new middle while it moves; empty or being emptied otherwise.
    next: Hints,
    adaptive: bool,
    movement: Move,
    /// Tells apart which entries the present movement has seen.
    epoch: u8,
    changes: usize,
    counts: [usize; PREFIXES_MAX + 1],
    populated: u64,
    /// Those of them that are less than the middle.
    shorter: u64,
}

impl Lengths {
    /// The middle is `middle` for ever, or chosen by the lengths of prefixes. Hints have their sites at rest and while the middle moves.
    pub(super) fn new(key: HashKey, [rest, moving]: [Site; 2], middle: Option<usize>) -> Self {
        let first = middle.unwrap_or(MIDDLE_FIRST).clamp(1, PREFIXES_MAX);
        Lengths {
            key,
            hints: Hints::new(first, rest),
            next: Hints::new(first, moving),
            adaptive: middle.is_none(),
            movement: Move::Rest,
            epoch: 0,
            changes: 0,
            counts: [0; PREFIXES_MAX + 1],
            populated: 0,
            shorter: 0,
        }
    }

    pub(super) fn middle(&self) -> usize {
        self.hints.middle()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.hints.memory_bytes() + self.next.memory_bytes()
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, ground: &Ground, prefixes: &Prefixes) {
        let hints = &self.hints;
        if prefixes.count() >= hints.middle() {
            hints.prefetch(ground, prefixes.hash(hints.middle()));
        }
    }

    /// Lengths at which a prefix of this name may be; and where the longest is, if that is known already.
    #[inline(always)]
    pub(super) fn of(&self, ground: &Ground, prefixes: &Prefixes) -> Behind {
        let (count, middle) = (prefixes.count(), self.hints.middle());
        if count < middle {
            return Behind::among(self.shorter & up_to(count));
        }
        let behind = self.hints.behind(ground, prefixes.hash(middle));
        let lengths = match behind.lengths {
            0 => self.shorter,
            lengths => lengths & self.populated & up_to(prefixes.kept()) | self.shorter,
        };
        if behind.lead == 0 {
            return Behind::among(lengths);
        }
        // It may be longer than the name.
        let is_longer = behind.lead_len as usize > count;
        Behind { lengths, lead: if is_longer { 0 } else { behind.lead }, ..behind }
    }

    /// The bucket at rest that leads to a prefix with these hashes, if there is room for entries beside: after a movement, if the middle moves.
    pub(super) fn beside(&self, prefixes: &Prefixes) -> Option<usize> {
        let rest = [&self.hints, &self.next].into_iter().find(|hints| hints.has_rooms())?;
        let middle = if self.is_building() { self.next.middle() } else { self.middle() };
        (prefixes.count() >= middle).then(|| rest.home(prefixes.hash(middle)))
    }

    /// Takes in a prefix of `length` components, whose entry is to stand in `block`; gives the epoch to be kept with its entry.
    pub(super) fn add(
        &mut self,
        ground: &mut Ground,
        prefixes: &Prefixes,
        length: usize,
        block: u32,
    ) -> Result<u8, IndexFull> {
        self.hints.add_of(ground, prefixes, length, block)?;
        if self.is_building() && self.next.add_of(ground, prefixes, length, block).is_err() {
            self.give_up();
        }
        self.counts[length] += 1;
        self.populated |= 1 << length;
        self.settle();
        Ok(self.epoch)
    }

    /// Takes back one [`add`](Self::add), which gave `epoch`, or a movement changed it since.
    pub(super) fn remove(
        &mut self,
        ground: &mut Ground,
        prefixes: &Prefixes,
        length: usize,
        block: u32,
        epoch: u8,
    ) {
        self.hints.remove_of(ground, prefixes, length, block);
        if self.is_building() && epoch == self.epoch {
            self.next.remove_of(ground, prefixes, length, block);
        }
        self.counts[length] -= 1;
        if self.counts[length] == 0 {
            self.populated &= !(1 << length);
            self.settle();
        }
    }

    /// To be called when [`populated`](Self::populated) or the middle has changed.
    fn settle(&mut self) {
        self.shorter = self.populated & ((1 << self.middle()) - 1);
    }

    #[cfg(test)]
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.movement, Move::Rest)
    }

    fn is_building(&self) -> bool {
        matches!(self.movement, Move::Building { .. })
    }

    /// A bounded portion of moving the middle. To be called once per change.
    pub(super) fn work(&mut self, index: &mut Index, ground: &mut Ground) {
        self.changes += 1;
        match self.movement {
            Move::Rest => self.consider(index.len()),
            Move::Building { bucket } => self.build(bucket, index, ground),
            Move::Clearing { bucket } => {
                if !self.next.clear_some(ground, bucket, CLEARED_PER_STEP) {
                    let next = (bucket + CLEARED_PER_STEP).min(self.next.buckets());
                    self.movement = Move::Clearing { bucket: next };
                } else if self.adaptive && self.next.has_rooms() {
                    // Back to where entries have room beside.
                    self.move_to(self.middle());
                } else {
                    self.movement = Move::Rest;
                }
            }
        }
    }

    /// Starts a movement when the middle has been wrong for a while; as seldom as half of all routes change, so it costs a few entries per change.
    fn consider(&mut self, len: usize) {
        if !self.adaptive || self.changes < 32.max(len / 2) {
            return;
        }
        self.changes = 0;
        let best = self.best_middle(len);
        if best != self.middle() {
            self.move_to(best);
        }
    }

    /// To the other hints, which are clear.
    fn move_to(&mut self, middle: usize) {
        self.next.set_middle(middle);
        self.epoch = self.epoch.wrapping_add(1);
        self.movement = Move::Building { bucket: 0 };
    }

    /// The longest length that at most one prefix in eight falls short of; `/` doesn't count, for it needs no search.
    fn best_middle(&self, len: usize) -> usize {
        let mut shorter = 0;
        for (length, count) in self.counts.iter().enumerate().skip(1) {
            shorter += count;
            if shorter > len / 8 {
                return length;
            }
        }
        self.middle()
    }

    fn build(&mut self, start: usize, index: &mut Index, ground: &mut Ground) {
        let end = (start + BUCKETS_PER_STEP).min(index.buckets());
        let mut entries = 0;
        let mut bucket = start;
        while bucket < end && entries < ENTRIES_PER_STEP {
            let mut nth = 0;
            loop {
                let Some(block) = index.in_bucket(bucket).nth(nth) else { break };
                nth += 1;
                // Unless it was added since the movement began.
                if Entry::of(ground.bytes(block)).epoch != self.epoch
                    && self.take_over(block, index, ground).is_err()
                {
                    return self.give_up();
                }
            }
            entries += nth;
            bucket += 1;
        }
        self.movement = Move::Building { bucket };
        if bucket == index.buckets() {
            core::mem::swap(&mut self.hints, &mut self.next);
            self.settle();
            self.movement = Move::Clearing { bucket: 0 };
        }
    }

    /// A hint at the new middle for an entry, which moves beside it if there is room.
    fn take_over(&mut self, mut block: u32, index: &mut Index, ground: &mut Ground) -> Result<(), IndexFull> {
        let (middle, middle_before) = (self.next.middle(), self.middle());
        let entry = Entry::of(ground.bytes(block));
        let (length, entry_len) = (usize::from(entry.components), entry.len());
        if length >= middle {
            let prefixes = Prefixes::of(&self.key, NameRef::from_checked(entry.name));
            let hash = prefixes.hash(middle);
            if self.next.has_rooms()
                && let Some(to) = ground.move_beside(block, entry_len, self.next.home(hash))
            {
                index.replace(prefixes.whole(), block, to);
                if length >= middle_before {
                    self.hints.moved(ground, prefixes.hash(middle_before), block, to);
                }
                block = to;
            }
            self.next.add(ground, hash, length, block)?;
        }
        Entry::set_epoch(ground.bytes_mut(block), self.epoch);
        Ok(())
    }

    /// There was no room at the new middle: stays at the present one for good.
    fn give_up(&mut self) {
        self.adaptive = false;
        self.movement = Move::Clearing { bucket: 0 };
    }
}

/// Lengths of at most `length`, itself at most 62, one bit each.
#[inline(always)]
const fn up_to(length: usize) -> u64 {
    (2 << length) - 1
}
