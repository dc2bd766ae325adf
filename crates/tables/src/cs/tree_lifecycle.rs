//! When the prefix tree exists, and how a prefix is searched without it.
//!
//! Maintaining the tree costs more than the rest of an insertion, and most Interests are for exact
//! names. So the tree is built when a prefix search among the recent packets fails and older
//! packets exist (or when many packets were scanned), and removed after [`TREE_IDLE_MAX`] without a
//! prefix search. Both happen in steps, with each insertion and each prefix search:
//!
//! ```text
//! Off --search failed--> Linking --all index buckets visited--> On
//!  ^                                                             | TREE_IDLE_MAX without a search
//!  `-------- all index buckets visited -- Unlinking <------------'   (a search: back to Linking)
//! ```
//!
//! Main invariant: in the states On and Off all entries, or none, are in the tree; in between,
//! those of the buckets visited.

use super::ContentStore;
use super::search::Search;
use crate::{InterestKey, Timestamp};
use arrayvec::ArrayVec;
use core::time::Duration;
use nw_name::{NameRef, PrefixHashes};

/// The number of packets scanned for a prefix while there is no tree.
pub const RECENT_MAX: usize = 64;

/// How long the tree is kept after the last search that used it.
pub const TREE_IDLE_MAX: Duration = Duration::from_secs(60);

/// Packets scanned after which a tree is worth its cost even if every scan succeeded.
const SCANNED_MAX: usize = 4096;

/// Entries linked or unlinked with each insertion (microseconds) and with each search (tens of
/// microseconds).
const WITH_INSERT: usize = 4;
const WITH_SEARCH: usize = 64;

/// The maximum number of index buckets visited for each of them.
const BUCKETS_PER_ENTRY: usize = 4;

/// The states of the tree: see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Off,
    /// The entries of this many index buckets are in the tree, and all inserted since.
    Linking(usize),
    On,
    /// The entries of this many index buckets are not in the tree.
    Unlinking(usize),
}

/// The state of the tree, and what decides about it.
#[derive(Debug)]
pub(super) struct TreeLifecycle {
    state: State,
    /// Packets scanned since the tree was removed.
    scanned: usize,
    /// The time of the last search that used the tree.
    last_search: Timestamp,
    /// A name is assembled here.
    name: Vec<u8>,
}

impl TreeLifecycle {
    pub fn new() -> Self {
        TreeLifecycle {
            state: State::Off,
            scanned: 0,
            last_search: Timestamp::START,
            name: Vec::with_capacity(nw_wire::PACKET_LEN_MAX),
        }
    }

    /// Returns whether the tree does not exist, not even in part.
    #[inline(always)]
    pub const fn is_off(&self) -> bool {
        matches!(self.state, State::Off)
    }

    /// Returns whether the tree is being built or removed.
    pub const fn is_changing(&self) -> bool {
        matches!(self.state, State::Linking(_) | State::Unlinking(_))
    }

    /// Returns whether every entry is in the tree.
    #[inline]
    pub const fn is_on(&self) -> bool {
        matches!(self.state, State::On)
    }
}

impl ContentStore {
    /// Returns an entry with a name that starts with the key's name.
    pub(super) fn find_by_prefix(&mut self, now: Timestamp, key: &InterestKey<'_>) -> Option<u32> {
        let fresh_at = key.must_be_fresh.then(|| now.as_nanos());
        let on = self.lifecycle.is_on();
        let result = if on {
            self.lifecycle.last_search = now;
            self.tree.search(key.name, key.prefixes, fresh_at)
        } else {
            self.scan_recent(now, key.name, fresh_at)
        };
        match result {
            Search::Found(slot) => {
                if on {
                    self.tree.move_to_front(slot);
                }
                Some(slot)
            }
            Search::Absent => None,
            Search::Aborted => {
                self.counters.searches_aborted += 1;
                None
            }
        }
    }

    /// Scans recent packets; starts building the tree if that does not suffice.
    fn scan_recent(&mut self, now: Timestamp, name: NameRef<'_>, fresh_at: Option<u64>) -> Search {
        let (mut result, mut visited) = (Search::Aborted, 0);
        for slot in self.policy.recent(&self.tree.entries).take(RECENT_MAX) {
            let entry = &self.tree.entries[slot as usize];
            self.tree.entries.prefetch(entry.older as usize);
            self.tree.arena.prefetch(entry.older);
            visited += 1;
            if fresh_at.is_none_or(|now| entry.is_fresh(now))
                && self.tree.starts_with(slot, name.as_bytes())
            {
                result = Search::Found(slot);
                break;
            }
        }
        if result == Search::Aborted && visited == self.len {
            result = Search::Absent;
        }
        self.lifecycle.scanned += visited;
        let needs_tree = result == Search::Aborted || self.lifecycle.scanned > SCANNED_MAX;
        if needs_tree && !matches!(self.lifecycle.state, State::Linking(_)) {
            self.lifecycle.state = State::Linking(0);
            self.refresh_limits();
        }
        if matches!(self.lifecycle.state, State::Linking(_)) {
            self.lifecycle.last_search = now;
            self.step_tree(WITH_SEARCH);
        }
        result
    }

    /// Updates the tree after an insertion, if it exists.
    #[cold]
    pub(super) fn after_insert(
        &mut self,
        now: Timestamp,
        slot: u32,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
    ) {
        match self.lifecycle.state {
            State::Off => {}
            State::On => {
                self.tree.link(slot, name, prefixes);
                if now.since(self.lifecycle.last_search) > TREE_IDLE_MAX {
                    self.lifecycle.state = State::Unlinking(0);
                }
            }
            State::Linking(_) => {
                self.tree.link(slot, name, prefixes);
                self.step_tree(WITH_INSERT);
            }
            State::Unlinking(_) => self.step_tree(WITH_INSERT),
        }
    }

    /// Starts building or removing the tree, and does a step.
    #[cfg(test)]
    pub(super) fn switch_tree(&mut self, on: bool, entries: usize) {
        match (self.lifecycle.state, on) {
            (State::Off | State::Unlinking(_), true) => self.lifecycle.state = State::Linking(0),
            (State::On | State::Linking(_), false) => self.lifecycle.state = State::Unlinking(0),
            _ => {}
        }
        self.step_tree(entries);
    }

    /// Links or unlinks at most `entries` entries.
    pub(super) fn step_tree(&mut self, entries: usize) {
        let (mut bucket, link) = match self.lifecycle.state {
            State::Linking(bucket) => (bucket, true),
            State::Unlinking(bucket) => (bucket, false),
            State::Off | State::On => return,
        };
        let end = self.tree.keys.buckets().min(bucket + BUCKETS_PER_ENTRY * entries);
        let mut changed = 0;
        while bucket < end && changed < entries {
            for slot in self.bucket_slots(bucket) {
                if (self.tree.entries[slot as usize].link.linked != 0) != link {
                    if link {
                        self.link_existing(slot);
                    } else {
                        self.tree.unlink(slot);
                    }
                    changed += 1;
                }
            }
            bucket += 1;
        }
        self.lifecycle.state = match (bucket < self.tree.keys.buckets(), link) {
            (true, true) => State::Linking(bucket),
            (true, false) => State::Unlinking(bucket),
            (false, true) => State::On,
            (false, false) => State::Off,
        };
        if self.lifecycle.is_off() {
            self.lifecycle.scanned = 0;
        }
        self.refresh_limits();
    }

    /// Returns the entries in a bucket of the index.
    fn bucket_slots(&self, bucket: usize) -> ArrayVec<u32, 16> {
        self.tree.keys.bucket_slots(bucket).collect()
    }

    /// Links an entry that was inserted before the tree was started.
    fn link_existing(&mut self, slot: u32) {
        let mut bytes = core::mem::take(&mut self.lifecycle.name);
        let entry = &self.tree.entries[slot as usize];
        self.tree.arena.gather(
            slot,
            usize::from(entry.name_start),
            usize::from(entry.name_len),
            &mut bytes,
        );
        let name = NameRef::from_checked(&bytes);
        self.tree.link(slot, name, &PrefixHashes::of(&self.key, name));
        self.lifecycle.name = bytes;
    }

    /// Does a step of an erasure (some hundred microseconds); returns whether it is complete.
    pub fn erase_part(&mut self, prefix: NameRef<'_>, cursor: &mut EraseCursor) -> bool {
        if cursor.bucket == 0 {
            let prefixes = PrefixHashes::of(&self.key, prefix);
            if prefixes.has_digest() {
                self.erase_digest(prefix, &prefixes, cursor);
            }
            if self.lifecycle.is_on() {
                let mut slots =
                    self.tree.collect(prefix, &prefixes, cursor.remaining().saturating_add(1));
                cursor.has_more |= slots.len() > cursor.remaining();
                slots.truncate(cursor.remaining());
                slots.iter().for_each(|slot| self.remove(*slot));
                cursor.erased += slots.len();
                return true;
            }
        }
        let end = self.tree.keys.buckets().min(cursor.bucket + ERASE_BUCKETS_PER_STEP);
        while cursor.bucket < end && !cursor.has_more {
            self.prefetch_bucket(cursor.bucket + PREFETCH_AHEAD);
            for slot in self.bucket_slots(cursor.bucket) {
                if !self.tree.starts_with(slot, prefix.as_bytes()) {
                    continue;
                }
                if cursor.remaining() == 0 {
                    cursor.has_more = true;
                    break;
                }
                self.remove(slot);
                cursor.erased += 1;
            }
            cursor.bucket += 1;
        }
        cursor.has_more || cursor.bucket == self.tree.keys.buckets()
    }

    /// A packet can be named by its digest too.
    fn erase_digest(
        &mut self,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
        cursor: &mut EraseCursor,
    ) {
        let key = InterestKey { name, prefixes, can_be_prefix: false, must_be_fresh: false };
        let Some(slot) = self.find_exact(Timestamp::START, &key) else { return };
        if cursor.remaining() == 0 {
            cursor.has_more = true;
        } else {
            self.remove(slot);
            cursor.erased += 1;
        }
    }

    /// Prefetches the entries of a bucket.
    fn prefetch_bucket(&self, bucket: usize) {
        for slot in self.bucket_slots(bucket) {
            self.tree.entries.prefetch(slot as usize);
            self.tree.arena.prefetch(slot);
        }
    }
}

/// The progress of an erasure in steps: see [`ContentStore::erase_part`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EraseCursor {
    /// The maximum number of packets to erase.
    pub limit: usize,
    /// The number of packets erased so far.
    pub erased: usize,
    /// Set at the end if more packets match.
    pub has_more: bool,
    /// For the caller's use, when the erasure continues in the stores of other shards; 0 at first.
    pub continuation: u64,
    /// The number of index buckets visited.
    bucket: usize,
}

impl EraseCursor {
    /// Returns the cursor of a new erasure of at most `limit` packets.
    pub const fn new(limit: usize) -> Self {
        EraseCursor { limit, erased: 0, has_more: false, continuation: 0, bucket: 0 }
    }

    const fn remaining(&self) -> usize {
        self.limit - self.erased
    }
}

/// Index buckets visited per step of an erasure: about 3,000 entries of a full store.
const ERASE_BUCKETS_PER_STEP: usize = 1024;

/// How many buckets ahead entries are prefetched.
const PREFETCH_AHEAD: usize = 2;
