//! When the tree of prefixes is kept, and how a prefix is looked for when it is not.
//!
//! The tree costs an insertion more than all the rest, and most Interests ask for exact names. So it is built when a prefix was looked for in
//! vain among the recent packets of a store that has others (or when these looks add up), and taken down when nobody asked by prefix for
//! [`KEPT_IDLE`]. Both go on in slices, with each insertion and each prefix search, so no packet waits long:
//!
//! ```text
//! Off --a look was not enough--> Linking --every bucket of the index was seen--> On
//!  ^                                                                              | nobody asked for KEPT_IDLE
//!  `------------- every bucket was seen -- Unlinking <----------------------------'   (a look brings it back)
//! ```

use super::ContentStore;
use super::search::Search;
use crate::{Ask, Instant};
use arrayvec::ArrayVec;
use core::time::Duration;
use nw_name::{NameRef, Prefixes};

/// Packets among which a prefix is looked for while there is no tree.
pub const RECENT_MAX: usize = 64;

/// How long the tree is kept after the last search that needed it.
pub const KEPT_IDLE: Duration = Duration::from_secs(60);

/// Packets looked at in vain before a tree is worth its cost even if each look was enough.
const LOOKS_MAX: usize = 4096;

/// Entries put into the tree, or taken out of it, with one insertion and with one search: microseconds, and some tens of them.
const WITH_INSERT: usize = 4;
const WITH_SEARCH: usize = 64;

/// Buckets of the index looked at for each of them at most.
const BUCKETS_PER_ENTRY: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Off,
    /// Entries in the first so many buckets of the index are in the tree, and all that came since.
    Linking(usize),
    On,
    /// Entries in the first so many buckets of the index are not in the tree.
    Unlinking(usize),
}

/// What is known of the tree's use.
#[derive(Debug)]
pub(super) struct Upkeep {
    state: State,
    /// Packets looked at while there was no tree.
    looks: usize,
    /// When the tree was needed last.
    asked: Instant,
    /// A name is put together here.
    name: Vec<u8>,
}

impl Upkeep {
    pub fn new() -> Self {
        Upkeep {
            state: State::Off,
            looks: 0,
            asked: Instant::START,
            name: Vec::with_capacity(nw_wire::PACKET_LEN_MAX),
        }
    }

    /// True when insertions need not care.
    #[inline(always)]
    pub const fn is_off(&self) -> bool {
        matches!(self.state, State::Off)
    }

    /// True while the tree is being made or taken down.
    pub const fn is_moving(&self) -> bool {
        matches!(self.state, State::Linking(_) | State::Unlinking(_))
    }

    /// True when every entry is in the tree.
    #[inline]
    pub const fn is_on(&self) -> bool {
        matches!(self.state, State::On)
    }
}

impl ContentStore {
    /// An entry below the asked name.
    pub(super) fn longer(&mut self, now: Instant, ask: &Ask<'_>) -> Option<u32> {
        let fresh_at = ask.must_be_fresh.then(|| now.as_nanos());
        let on = self.upkeep.is_on();
        let result = if on {
            self.upkeep.asked = now;
            self.tree.search(ask.name, ask.prefixes, fresh_at)
        } else {
            self.look(now, ask.name, fresh_at)
        };
        match result {
            Search::Found(slot) => {
                if on {
                    self.tree.move_to_front(slot);
                }
                Some(slot)
            }
            Search::Absent => None,
            Search::GaveUp => {
                self.counters.searches_given_up += 1;
                None
            }
        }
    }

    /// Looks among recent packets; has the tree made when that is not enough.
    fn look(&mut self, now: Instant, name: NameRef<'_>, fresh_at: Option<u64>) -> Search {
        let (mut result, mut seen) = (Search::GaveUp, 0);
        for slot in self.policy.recent(&self.tree.entries).take(RECENT_MAX) {
            let entry = &self.tree.entries[slot as usize];
            self.tree.entries.prefetch(entry.older as usize);
            self.tree.arena.prefetch(entry.older);
            seen += 1;
            if fresh_at.is_none_or(|now| entry.is_fresh(now)) && self.tree.starts_with(slot, name.as_bytes())
            {
                result = Search::Found(slot);
                break;
            }
        }
        if result == Search::GaveUp && seen == self.len {
            result = Search::Absent;
        }
        self.upkeep.looks += seen;
        let wanted = result == Search::GaveUp || self.upkeep.looks > LOOKS_MAX;
        if wanted && !matches!(self.upkeep.state, State::Linking(_)) {
            self.upkeep.state = State::Linking(0);
            self.settle();
        }
        if matches!(self.upkeep.state, State::Linking(_)) {
            self.upkeep.asked = now;
            self.go_on(WITH_SEARCH);
        }
        result
    }

    /// After an insertion while there is a tree or part of one.
    #[cold]
    pub(super) fn tend(&mut self, now: Instant, slot: u32, name: NameRef<'_>, prefixes: &Prefixes) {
        match self.upkeep.state {
            State::Off => {}
            State::On => {
                self.tree.link(slot, name, prefixes);
                if now.since(self.upkeep.asked) > KEPT_IDLE {
                    self.upkeep.state = State::Unlinking(0);
                }
            }
            State::Linking(_) => {
                self.tree.link(slot, name, prefixes);
                self.go_on(WITH_INSERT);
            }
            State::Unlinking(_) => self.go_on(WITH_INSERT),
        }
    }

    /// Begins to make the tree or to take it down, and does so much of it.
    #[cfg(test)]
    pub(super) fn turn(&mut self, on: bool, entries: usize) {
        match (self.upkeep.state, on) {
            (State::Off | State::Unlinking(_), true) => self.upkeep.state = State::Linking(0),
            (State::On | State::Linking(_), false) => self.upkeep.state = State::Unlinking(0),
            _ => {}
        }
        self.go_on(entries);
    }

    /// Goes on making the tree or taking it down, by so many entries.
    pub(super) fn go_on(&mut self, entries: usize) {
        let (mut bucket, link) = match self.upkeep.state {
            State::Linking(bucket) => (bucket, true),
            State::Unlinking(bucket) => (bucket, false),
            State::Off | State::On => return,
        };
        let end = self.tree.keys.buckets().min(bucket + BUCKETS_PER_ENTRY * entries);
        let mut done = 0;
        while bucket < end && done < entries {
            for slot in self.in_bucket(bucket) {
                if (self.tree.entries[slot as usize].place.linked != 0) != link {
                    if link {
                        self.link_old(slot);
                    } else {
                        self.tree.unlink(slot);
                    }
                    done += 1;
                }
            }
            bucket += 1;
        }
        self.upkeep.state = match (bucket < self.tree.keys.buckets(), link) {
            (true, true) => State::Linking(bucket),
            (true, false) => State::Unlinking(bucket),
            (false, true) => State::On,
            (false, false) => State::Off,
        };
        if self.upkeep.is_off() {
            self.upkeep.looks = 0;
        }
        self.settle();
    }

    /// Entries in a bucket of the index.
    fn in_bucket(&self, bucket: usize) -> ArrayVec<u32, 16> {
        self.tree.keys.in_bucket(bucket).collect()
    }

    /// Puts an entry that came before the tree into it.
    fn link_old(&mut self, slot: u32) {
        let mut octets = core::mem::take(&mut self.upkeep.name);
        let entry = &self.tree.entries[slot as usize];
        self.tree.arena.gather(slot, usize::from(entry.name_start), usize::from(entry.name_len), &mut octets);
        let name = NameRef::from_checked(&octets);
        self.tree.link(slot, name, &Prefixes::of(&self.key, name));
        self.upkeep.name = octets;
    }

    /// A slice of an erasure: some hundred microseconds. True when it is at its end.
    pub fn erase_part(&mut self, prefix: NameRef<'_>, erasing: &mut Erasing) -> bool {
        if erasing.bucket == 0 {
            let prefixes = Prefixes::of(&self.key, prefix);
            if prefixes.has_digest() {
                self.erase_digest(prefix, &prefixes, erasing);
            }
            if self.upkeep.is_on() {
                let mut slots = self.tree.collect(prefix, &prefixes, erasing.left().saturating_add(1));
                erasing.more |= slots.len() > erasing.left();
                slots.truncate(erasing.left());
                slots.iter().for_each(|slot| self.remove(*slot));
                erasing.erased += slots.len();
                return true;
            }
        }
        let end = self.tree.keys.buckets().min(erasing.bucket + ERASE_BUCKETS);
        while erasing.bucket < end && !erasing.more {
            self.prefetch_bucket(erasing.bucket + AHEAD);
            for slot in self.in_bucket(erasing.bucket) {
                if !self.tree.starts_with(slot, prefix.as_bytes()) {
                    continue;
                }
                if erasing.left() == 0 {
                    erasing.more = true;
                    break;
                }
                self.remove(slot);
                erasing.erased += 1;
            }
            erasing.bucket += 1;
        }
        erasing.more || erasing.bucket == self.tree.keys.buckets()
    }

    /// A packet may be named by its digest, too.
    fn erase_digest(&mut self, name: NameRef<'_>, prefixes: &Prefixes, erasing: &mut Erasing) {
        let ask = Ask { name, prefixes, can_be_prefix: false, must_be_fresh: false };
        let Some(slot) = self.exact(Instant::START, &ask) else { return };
        if erasing.left() == 0 {
            erasing.more = true;
        } else {
            self.remove(slot);
            erasing.erased += 1;
        }
    }

    /// Asks for what walking a bucket touches.
    fn prefetch_bucket(&self, bucket: usize) {
        for slot in self.in_bucket(bucket) {
            self.tree.entries.prefetch(slot as usize);
            self.tree.arena.prefetch(slot);
        }
    }
}

/// An erasure that goes on in slices: see [`ContentStore::erase_part`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erasing {
    /// Packets to erase at most.
    pub limit: usize,
    /// Packets erased so far.
    pub erased: usize,
    /// At the end: true when there are others.
    pub more: bool,
    /// Left to whoever goes on with the erasure in other stores; 0 at first.
    pub elsewhere: u64,
    /// Buckets of the index seen.
    bucket: usize,
}

impl Erasing {
    /// Of at most so many packets, not begun.
    pub const fn new(limit: usize) -> Self {
        Erasing { limit, erased: 0, more: false, elsewhere: 0, bucket: 0 }
    }

    const fn left(&self) -> usize {
        self.limit - self.erased
    }
}

/// Buckets of the index seen in one slice of an erasure: of a full store some three thousand entries.
const ERASE_BUCKETS: usize = 1024;

/// Buckets for whose entries a walk asks ahead.
const AHEAD: usize = 2;
