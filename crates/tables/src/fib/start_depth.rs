//! Chooses the start depth of lookups from the lengths of the prefixes, and changes it while
//! lookups go on.
//!
//! The start depth is the largest length that at most one prefix in eight is shorter than. To
//! change it, a second length table (`standby`) is filled in steps, a few entries per change of the
//! FIB, while the `active` one answers; then the two are swapped and the old one is cleared in
//! steps. So every change of the FIB takes bounded time.
//!
//! ```text
//! Idle --start depth no longer fits--> Building --all entries copied--> (swap) Clearing --> Idle
//! ```
//!
//! Only one of the two tables has page slots (see `arena`). After a swap away from it a second
//! rebuild with the same depth swaps back, and entries move into the pages of their new buckets.
//!
//! Main invariant: the active table contains every entry with `start_depth` or more components, and
//! `short_lengths` has a bit for every length below that.

use super::Entry;
use super::arena::{FibArena, TableLayout};
use super::length_table::{LengthCandidates, LengthTable};
use crate::index::{Index, IndexFull};
use nw_name::{HashKey, NameRef, PREFIXES_MAX, PrefixHashes};

/// The start depth of an empty FIB.
const START_DEPTH_INITIAL: usize = 4;

/// Bounds of one step of a rebuild.
const ENTRIES_PER_STEP: usize = 16;
const BUCKETS_PER_STEP: usize = 256;
const CLEARED_PER_STEP: usize = 32;

/// The state of changing the start depth.
enum Rebuild {
    Idle,
    /// The index buckets before this one are copied to the standby table.
    Building {
        bucket: usize,
    },
    /// The buckets of the standby table before this one are clear.
    Clearing {
        bucket: usize,
    },
}

/// The length tables and what is known about the lengths of all prefixes.
pub(super) struct DepthIndex {
    key: HashKey,
    active: LengthTable,
    /// Filled during a rebuild; empty or being cleared otherwise.
    standby: LengthTable,
    /// Whether the start depth follows the lengths of the prefixes.
    adaptive: bool,
    rebuild: Rebuild,
    /// The number of the rebuild, modulo 256: entries with this number are in the standby table.
    epoch: u8,
    /// Changes of the FIB since the start depth was last checked.
    changes: usize,
    /// The number of prefixes per length.
    counts: [usize; PREFIXES_MAX + 1],
    /// One bit per length in use.
    used_lengths: u64,
    /// The lengths in use that are below the start depth.
    short_lengths: u64,
}

impl DepthIndex {
    /// Creates an empty index with a fixed start depth, or with one chosen from the prefixes
    /// (`None`).
    pub(super) fn new(
        key: HashKey,
        [active_layout, standby_layout]: [TableLayout; 2],
        start_depth: Option<usize>,
    ) -> Self {
        let first = start_depth.unwrap_or(START_DEPTH_INITIAL).clamp(1, PREFIXES_MAX);
        DepthIndex {
            key,
            active: LengthTable::new(first, active_layout),
            standby: LengthTable::new(first, standby_layout),
            adaptive: start_depth.is_none(),
            rebuild: Rebuild::Idle,
            epoch: 0,
            changes: 0,
            counts: [0; PREFIXES_MAX + 1],
            used_lengths: 0,
            short_lengths: 0,
        }
    }

    pub(super) fn start_depth(&self) -> usize {
        self.active.start_depth()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.active.memory_bytes() + self.standby.memory_bytes()
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, arena: &FibArena, prefixes: &PrefixHashes) {
        let table = &self.active;
        if prefixes.count() >= table.start_depth() {
            table.prefetch(arena, prefixes.hash(table.start_depth()));
        }
    }

    /// Returns the lengths at which a prefix of this name may exist, and the entry if only one
    /// does.
    #[inline(always)]
    pub(super) fn candidates(&self, arena: &FibArena, prefixes: &PrefixHashes) -> LengthCandidates {
        let (count, start_depth) = (prefixes.count(), self.active.start_depth());
        if count < start_depth {
            return LengthCandidates::from_lengths(self.short_lengths & up_to(count));
        }
        let candidates = self.active.candidates(arena, prefixes.hash(start_depth));
        let lengths = match candidates.lengths {
            0 => self.short_lengths,
            lengths => {
                lengths & self.used_lengths & up_to(prefixes.stored_len()) | self.short_lengths
            }
        };
        if candidates.direct_entry == 0 {
            return LengthCandidates::from_lengths(lengths);
        }
        // The only prefix may be longer than the name.
        let is_longer = candidates.direct_len as usize > count;
        LengthCandidates {
            lengths,
            direct_entry: if is_longer { 0 } else { candidates.direct_entry },
            ..candidates
        }
    }

    /// Returns the bucket in the page that should hold the entry of a prefix, if there are page
    /// slots. During a rebuild: the bucket after it.
    pub(super) fn preferred_bucket(&self, prefixes: &PrefixHashes) -> Option<usize> {
        let with_slots =
            [&self.active, &self.standby].into_iter().find(|table| table.has_page_slots())?;
        let start_depth =
            if self.is_building() { self.standby.start_depth() } else { self.start_depth() };
        (prefixes.count() >= start_depth).then(|| with_slots.home(prefixes.hash(start_depth)))
    }

    /// Adds a prefix of `length` components with the entry `handle`. Returns the epoch to be stored
    /// in the entry.
    pub(super) fn add(
        &mut self,
        arena: &mut FibArena,
        prefixes: &PrefixHashes,
        length: usize,
        handle: u32,
    ) -> Result<u8, IndexFull> {
        self.active.add_prefix(arena, prefixes, length, handle)?;
        if self.is_building() && self.standby.add_prefix(arena, prefixes, length, handle).is_err() {
            self.abort_rebuild();
        }
        self.counts[length] += 1;
        self.used_lengths |= 1 << length;
        self.refresh_short_lengths();
        Ok(self.epoch)
    }

    /// Reverts one [`add`](Self::add). `epoch` is the one stored in the entry.
    pub(super) fn remove(
        &mut self,
        arena: &mut FibArena,
        prefixes: &PrefixHashes,
        length: usize,
        handle: u32,
        epoch: u8,
    ) {
        self.active.remove_prefix(arena, prefixes, length, handle);
        if self.is_building() && epoch == self.epoch {
            self.standby.remove_prefix(arena, prefixes, length, handle);
        }
        self.counts[length] -= 1;
        if self.counts[length] == 0 {
            self.used_lengths &= !(1 << length);
            self.refresh_short_lengths();
        }
    }

    /// To be called when `used_lengths` or the start depth has changed.
    fn refresh_short_lengths(&mut self) {
        self.short_lengths = self.used_lengths & ((1 << self.start_depth()) - 1);
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.rebuild, Rebuild::Idle)
    }

    fn is_building(&self) -> bool {
        matches!(self.rebuild, Rebuild::Building { .. })
    }

    /// Does a bounded step of a rebuild, or starts one. To be called once per change of the FIB.
    pub(super) fn step(&mut self, index: &mut Index, arena: &mut FibArena) {
        self.changes += 1;
        match self.rebuild {
            Rebuild::Idle => self.maybe_start(index.len()),
            Rebuild::Building { bucket } => self.build_step(bucket, index, arena),
            Rebuild::Clearing { bucket } => {
                if !self.standby.clear_some(arena, bucket, CLEARED_PER_STEP) {
                    let next = (bucket + CLEARED_PER_STEP).min(self.standby.buckets());
                    self.rebuild = Rebuild::Clearing { bucket: next };
                } else if self.adaptive && self.standby.has_page_slots() {
                    // Rebuild into the table that has page slots.
                    self.start_rebuild(self.start_depth());
                } else {
                    self.rebuild = Rebuild::Idle;
                }
            }
        }
    }

    /// Starts a rebuild if another start depth fits better. At most once per `len / 2` changes, so
    /// that the copying costs a few entries per change.
    fn maybe_start(&mut self, len: usize) {
        if !self.adaptive || self.changes < 32.max(len / 2) {
            return;
        }
        self.changes = 0;
        let best = self.best_start_depth(len);
        if best != self.start_depth() {
            self.start_rebuild(best);
        }
    }

    /// Starts copying to the standby table, which is empty.
    fn start_rebuild(&mut self, start_depth: usize) {
        self.standby.set_start_depth(start_depth);
        self.epoch = self.epoch.wrapping_add(1);
        self.rebuild = Rebuild::Building { bucket: 0 };
    }

    /// Returns the largest length that at most one prefix in eight is shorter than. `/` is not
    /// counted, as it needs no search.
    fn best_start_depth(&self, len: usize) -> usize {
        let mut shorter = 0;
        for (length, count) in self.counts.iter().enumerate().skip(1) {
            shorter += count;
            if shorter > len / 8 {
                return length;
            }
        }
        self.start_depth()
    }

    /// Copies entries of some index buckets to the standby table; swaps the tables at the end.
    fn build_step(&mut self, start: usize, index: &mut Index, arena: &mut FibArena) {
        let end = (start + BUCKETS_PER_STEP).min(index.buckets());
        let mut entries = 0;
        let mut bucket = start;
        while bucket < end && entries < ENTRIES_PER_STEP {
            let mut position = 0;
            loop {
                let Some(handle) = index.bucket_slots(bucket).nth(position) else { break };
                position += 1;
                // Entries added since the rebuild began are in both tables already.
                if Entry::parse(arena.bytes(handle)).epoch != self.epoch
                    && self.migrate_entry(handle, index, arena).is_err()
                {
                    return self.abort_rebuild();
                }
            }
            entries += position;
            bucket += 1;
        }
        self.rebuild = Rebuild::Building { bucket };
        if bucket == index.buckets() {
            core::mem::swap(&mut self.active, &mut self.standby);
            self.refresh_short_lengths();
            self.rebuild = Rebuild::Clearing { bucket: 0 };
        }
    }

    /// Adds an entry to the standby table, and moves it into the page of its new bucket if there is
    /// a page slot.
    fn migrate_entry(
        &mut self,
        mut handle: u32,
        index: &mut Index,
        arena: &mut FibArena,
    ) -> Result<(), IndexFull> {
        let (start_depth, old_start_depth) = (self.standby.start_depth(), self.start_depth());
        let entry = Entry::parse(arena.bytes(handle));
        let (length, entry_len) = (usize::from(entry.components), entry.len());
        if length >= start_depth {
            let prefixes = PrefixHashes::of(&self.key, NameRef::from_checked(entry.name));
            let hash = prefixes.hash(start_depth);
            if self.standby.has_page_slots()
                && let Some(new_handle) = arena.relocate(handle, entry_len, self.standby.home(hash))
            {
                index.replace(prefixes.full_hash(), handle, new_handle);
                if length >= old_start_depth {
                    self.active.replace_entry(
                        arena,
                        prefixes.hash(old_start_depth),
                        handle,
                        new_handle,
                    );
                }
                handle = new_handle;
            }
            self.standby.add(arena, hash, length, handle)?;
        }
        Entry::set_epoch(arena.bytes_mut(handle), self.epoch);
        Ok(())
    }

    /// The standby table was full: the start depth stays as it is from now on.
    fn abort_rebuild(&mut self) {
        self.adaptive = false;
        self.rebuild = Rebuild::Clearing { bucket: 0 };
    }
}

/// Returns one bit for each length up to `length`, which is 62 at most.
#[inline(always)]
const fn up_to(length: usize) -> u64 {
    (2 << length) - 1
}
