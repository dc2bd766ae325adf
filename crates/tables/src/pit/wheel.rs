//! The timer: a hierarchical timing wheel with two levels of lists, linked through the entries.
//! Setting, changing and cancelling a timer changes a few links, however many entries exist.
//!
//! Ticks are 2^22 ns (4.2 ms). The near wheel has a list for each of the next 4096 ticks (17 s),
//! the far wheel one for each of the next 4095 rounds of the near wheel (19 h). An entry that
//! expires later is in the last list of the far wheel and is sorted again there.
//!
//! Main invariant: an entry is in the list of the first tick that begins at or after its expiry, so
//! it is never popped early and at most one tick late.

use super::entry::{Entry, NONE};
use crate::Timestamp;
use crate::memory::prefetch_value;

const TICK_SHIFT: u32 = 22;
const LISTS_SHIFT: u32 = 12;
const LISTS: u64 = 1 << LISTS_SHIFT;
/// The list of entries with a time that had passed when it was set.
const DUE: u32 = 2 * LISTS as u32;
/// Flag in `prev`: the entry is the first of the list given by the lower bits.
const FIRST_OF: u32 = 1 << 31;
/// The maximum number of entries moved from the far to the near wheel per call.
const MOVES_MAX: usize = 64;

/// The lists of a wheel that have entries: one bit each.
struct Occupied {
    words: [u64; (LISTS / 64) as usize],
    /// One bit per word that is not zero.
    summary: u64,
}

impl Occupied {
    const fn new() -> Self {
        Occupied { words: [0; (LISTS / 64) as usize], summary: 0 }
    }

    #[inline]
    fn set(&mut self, list: usize) {
        self.words[list / 64] |= 1 << (list % 64);
        self.summary |= 1 << (list / 64);
    }

    #[inline]
    fn clear(&mut self, list: usize) {
        let word = &mut self.words[list / 64];
        *word &= !(1 << (list % 64));
        if *word == 0 {
            self.summary &= !(1 << (list / 64));
        }
    }

    /// Returns the number of lists from `from` on, wrapping around, to the first one with entries.
    #[inline]
    fn distance(&self, from: u64) -> Option<u64> {
        let from = from & (LISTS - 1);
        let word = (from / 64) as usize;
        let word_bits = self.words[word] >> (from % 64);
        if word_bits != 0 {
            return Some(u64::from(word_bits.trailing_zeros()));
        }
        let higher_words = u64::MAX << word << 1;
        let word = match (self.summary & higher_words, self.summary & !higher_words) {
            (0, 0) => return None,
            (0, before) => before.trailing_zeros(),
            (higher, _) => higher.trailing_zeros(),
        };
        let list = u64::from(word) * 64 + u64::from(self.words[word as usize].trailing_zeros());
        Some(list.wrapping_sub(from) & (LISTS - 1))
    }
}

/// The timer wheel: see the module.
pub(super) struct Wheel {
    /// The first entry of each list, slot plus one: near lists, far lists, [`DUE`].
    heads: Vec<u32>,
    near: Occupied,
    far: Occupied,
    /// No entry has an earlier tick, except for those in [`DUE`].
    current: u64,
}

impl Wheel {
    pub fn new() -> Self {
        Wheel {
            heads: vec![NONE; DUE as usize + 1],
            near: Occupied::new(),
            far: Occupied::new(),
            current: 0,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        size_of_val(&self.heads[..]) + size_of::<Self>()
    }

    /// Sets or changes the time of an entry.
    #[inline(always)]
    pub fn arm(&mut self, entries: &mut [Entry], slot: u32, at: Timestamp) {
        let entry = &mut entries[slot as usize];
        let tick = tick_at_or_after(at.as_nanos());
        let armed = entry.is_armed();
        let stays = armed && tick == tick_at_or_after(entry.expiry);
        entry.expiry = at.as_nanos();
        if stays {
            return;
        }
        if armed {
            self.unlink(entries, slot);
        }
        self.link(entries, slot, self.list_of(tick));
    }

    /// Sets the time of an entry that has none.
    #[inline(always)]
    pub fn arm_new(&mut self, entries: &mut [Entry], slot: u32, at: Timestamp) {
        let entry = &mut entries[slot as usize];
        debug_assert!(!entry.is_armed());
        entry.expiry = at.as_nanos();
        self.link(entries, slot, self.list_of(tick_at_or_after(at.as_nanos())));
    }

    /// Cancels the timer of an entry, if it is set.
    #[inline]
    pub fn disarm(&mut self, entries: &mut [Entry], slot: u32) {
        if entries[slot as usize].is_armed() {
            self.unlink(entries, slot);
        }
    }

    /// Returns the start of the first tick with entries: see `Pit::next_expiry`.
    #[inline]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        if self.heads[DUE as usize] != NONE {
            return Some(Timestamp::START);
        }
        let tick = match (self.first_near(), self.first_far()) {
            (Some(near), Some(far)) => near.min(far),
            (near, far) => near.or(far)?,
        };
        Some(Timestamp::from_nanos(tick.saturating_mul(1 << TICK_SHIFT)))
    }

    /// Removes an entry with a tick that has begun; returns it and the entry likely to be popped
    /// next.
    #[inline]
    pub fn pop(&mut self, entries: &mut [Entry], now: Timestamp) -> Option<(u32, Option<u32>)> {
        if self.heads[DUE as usize] != NONE {
            return Some(self.pop_first(entries, DUE));
        }
        let now_tick = now.as_nanos() >> TICK_SHIFT;
        for _ in 0..=MOVES_MAX {
            let near = self.first_near();
            match self.first_far() {
                Some(far) if far <= now_tick && near.is_none_or(|near| far <= near) => {
                    self.current = self.current.max(far);
                    let (slot, _) = self
                        .pop_first(entries, (LISTS + ((far >> LISTS_SHIFT) & (LISTS - 1))) as u32);
                    self.link(
                        entries,
                        slot,
                        self.list_of(tick_at_or_after(entries[slot as usize].expiry)),
                    );
                }
                _ => match near {
                    Some(tick) if tick <= now_tick => {
                        self.current = tick;
                        return Some(self.pop_first(entries, (tick & (LISTS - 1)) as u32));
                    }
                    _ => {
                        self.current = self.current.max(now_tick + 1);
                        return None;
                    }
                },
            }
        }
        None
    }

    /// Prefetches the entries that cancelling this one would change.
    #[inline]
    pub fn prefetch(&self, entries: &[Entry], entry: &Entry) {
        if entry.prev != NONE && entry.prev & FIRST_OF == 0 {
            prefetch_line_0(entries, entry.prev);
        }
        if entry.next != NONE {
            prefetch_line_0(entries, entry.next);
        }
    }

    /// Returns the tick of the first non-empty near list.
    #[inline]
    fn first_near(&self) -> Option<u64> {
        self.near.distance(self.current).map(|ticks| self.current + ticks)
    }

    /// Returns the tick at which the first non-empty far list must be moved to the near wheel.
    #[inline]
    fn first_far(&self) -> Option<u64> {
        let round = self.current >> LISTS_SHIFT;
        self.far.distance(round).map(|rounds| (round + rounds) << LISTS_SHIFT)
    }

    /// Returns the list for an entry with this tick.
    #[inline]
    fn list_of(&self, tick: u64) -> u32 {
        if tick < self.current {
            DUE
        } else if tick - self.current < LISTS {
            (tick & (LISTS - 1)) as u32
        } else {
            let round = (tick >> LISTS_SHIFT).min((self.current >> LISTS_SHIFT) + LISTS - 1);
            (LISTS + (round & (LISTS - 1))) as u32
        }
    }

    /// Adds an entry to a list, as its first.
    #[inline(always)]
    fn link(&mut self, entries: &mut [Entry], slot: u32, list: u32) {
        let first = core::mem::replace(&mut self.heads[list as usize], slot + 1);
        let entry = &mut entries[slot as usize];
        entry.prev = FIRST_OF | list;
        entry.next = first;
        if first != NONE {
            entries[first as usize - 1].prev = slot + 1;
        } else if u64::from(list) < LISTS {
            self.near.set(list as usize);
        } else if list != DUE {
            self.far.set(list as usize - LISTS as usize);
        }
    }

    /// Removes an entry from its list.
    #[inline(always)]
    fn unlink(&mut self, entries: &mut [Entry], slot: u32) {
        let entry = &mut entries[slot as usize];
        let (prev, next) = (core::mem::replace(&mut entry.prev, NONE), entry.next);
        if next != NONE {
            entries[next as usize - 1].prev = prev;
        }
        if prev & FIRST_OF == 0 {
            entries[prev as usize - 1].next = next;
            return;
        }
        let list = prev & !FIRST_OF;
        self.heads[list as usize] = next;
        if next == NONE && list != DUE {
            if u64::from(list) < LISTS {
                self.near.clear(list as usize);
            } else {
                self.far.clear(list as usize - LISTS as usize);
            }
        }
    }

    /// Removes the first entry of a non-empty list.
    #[inline]
    fn pop_first(&mut self, entries: &mut [Entry], list: u32) -> (u32, Option<u32>) {
        let slot = self.heads[list as usize] - 1;
        self.unlink(entries, slot);
        let next = self.heads[list as usize].checked_sub(1);
        if let Some(next) = next {
            // Prefetch the one after the next: the entries of a tick are often popped in a row and
            // were last touched seconds ago.
            let after = entries[next as usize].next;
            if after != NONE
                && let Some(entry) = entries.get(after as usize - 1)
            {
                prefetch_value(entry);
            }
        }
        (slot, next)
    }
}

#[inline]
fn tick_at_or_after(nanos: u64) -> u64 {
    nanos.div_ceil(1 << TICK_SHIFT)
}

#[inline]
fn prefetch_line_0(entries: &[Entry], link: u32) {
    if let Some(entry) = entries.get(link as usize - 1) {
        prefetch_value(&entry.hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MmapArray;

    const TICK: u64 = 1 << TICK_SHIFT;

    fn at(tick: u64) -> Timestamp {
        Timestamp::from_nanos(tick * TICK)
    }

    fn drain(wheel: &mut Wheel, entries: &mut [Entry], now: Timestamp) -> Vec<u32> {
        let mut slots = Vec::new();
        loop {
            match wheel.pop(entries, now) {
                Some((slot, _)) => slots.push(slot),
                // Moves from the far wheel are bounded per call: continue until done.
                None if wheel.next_expiry().is_some_and(|next| next <= now) => {}
                None => break,
            }
        }
        slots.sort_unstable();
        slots
    }

    #[test]
    fn wheel_pop_is_never_early_and_at_most_a_tick_late() {
        let (mut wheel, mut entries) = (Wheel::new(), MmapArray::<Entry>::new(8));
        let moment = Timestamp::from_nanos(10 * TICK + 1);
        wheel.arm(&mut entries, 0, moment);
        assert_eq!(wheel.next_expiry(), Some(at(11)));
        assert_eq!(wheel.pop(&mut entries, Timestamp::from_nanos(11 * TICK - 1)), None);
        assert_eq!(wheel.next_expiry(), Some(at(11)));
        assert_eq!(wheel.pop(&mut entries, at(11)), Some((0, None)));
        assert_eq!(wheel.next_expiry(), None);
        assert!(!entries[0].is_armed());
        // At the start of a tick the expiry is exact.
        wheel.arm(&mut entries, 0, at(20));
        assert_eq!(wheel.pop(&mut entries, at(20)), Some((0, None)));
    }

    #[test]
    fn wheel_past_expiry_is_due_at_once() {
        let (mut wheel, mut entries) = (Wheel::new(), MmapArray::<Entry>::new(8));
        assert_eq!(wheel.pop(&mut entries, at(1000)), None);
        wheel.arm(&mut entries, 3, at(1000));
        wheel.arm(&mut entries, 4, at(1));
        assert_eq!(wheel.next_expiry(), Some(Timestamp::START));
        // Even if the clock stands still or jumps back.
        assert_eq!(drain(&mut wheel, &mut entries, at(999)), [3, 4]);
        assert_eq!(wheel.next_expiry(), None);
    }

    #[test]
    fn wheel_rearmed_entry_moves() {
        let (mut wheel, mut entries) = (Wheel::new(), MmapArray::<Entry>::new(8));
        wheel.arm(&mut entries, 0, at(50));
        wheel.arm(&mut entries, 1, at(50));
        wheel.arm(&mut entries, 2, at(50));
        wheel.arm(&mut entries, 1, at(40));
        wheel.arm(&mut entries, 0, at(60));
        wheel.arm(&mut entries, 2, Timestamp::from_nanos(50 * TICK - 5));
        assert_eq!(wheel.next_expiry(), Some(at(40)));
        assert_eq!(drain(&mut wheel, &mut entries, at(45)), [1]);
        assert_eq!(drain(&mut wheel, &mut entries, at(55)), [2]);
        assert!(drain(&mut wheel, &mut entries, at(59)).is_empty());
        assert_eq!(drain(&mut wheel, &mut entries, at(60)), [0]);
    }

    #[test]
    fn wheel_disarm_any_position_unlinks() {
        for removed in 0..3 {
            let (mut wheel, mut entries) = (Wheel::new(), MmapArray::<Entry>::new(8));
            (0..3).for_each(|slot| wheel.arm(&mut entries, slot, at(7)));
            wheel.disarm(&mut entries, removed);
            wheel.disarm(&mut entries, removed);
            let remaining: Vec<u32> = (0..3).filter(|slot| *slot != removed).collect();
            assert_eq!(drain(&mut wheel, &mut entries, at(7)), remaining);
            assert_eq!(wheel.next_expiry(), None);
        }
        let (mut wheel, mut entries) = (Wheel::new(), MmapArray::<Entry>::new(1));
        wheel.arm(&mut entries, 0, at(9));
        wheel.disarm(&mut entries, 0);
        assert_eq!(wheel.next_expiry(), None);
    }

    #[test]
    fn wheel_far_expiry_is_popped_in_time() {
        let (mut wheel, mut entries) = (Wheel::new(), MmapArray::<Entry>::new(8));
        let hours = |hours: u64| Timestamp::from_millis(hours * 3_600_000);
        let moments = [hours(1), hours(18), hours(20), hours(50), Timestamp::NEVER];
        (0..5).for_each(|slot| wheel.arm(&mut entries, slot as u32, moments[slot]));
        let (mut now, mut wakes, mut given) = (Timestamp::START, 0, Vec::new());
        while let Some(next) = wheel.next_expiry().filter(|next| *next <= hours(51)) {
            now = now.max(next);
            wakes += 1;
            while let Some((slot, _)) = wheel.pop(&mut entries, now) {
                assert!(
                    now >= moments[slot as usize]
                        && now.since(moments[slot as usize]).as_nanos() < u128::from(TICK)
                );
                given.push(slot);
            }
        }
        assert_eq!(given, [0, 1, 2, 3]);
        assert!(wakes < 20, "an idle router rarely wakes: {wakes} times");
    }

    #[test]
    fn wheel_clock_jump_pops_all() {
        let (mut wheel, mut entries) = (Wheel::new(), MmapArray::<Entry>::new(1000));
        for slot in 0..1000_u64 {
            wheel.arm(&mut entries, slot as u32, at(slot * 37));
        }
        assert_eq!(
            drain(&mut wheel, &mut entries, at(999 * 37 - 1)),
            (0..999).collect::<Vec<u32>>()
        );
        assert_eq!(drain(&mut wheel, &mut entries, at(1 << 30)), [999]);
        wheel.arm(&mut entries, 5, at((1 << 30) + 2));
        assert_eq!(wheel.next_expiry(), Some(at((1 << 30) + 2)));
        assert_eq!(drain(&mut wheel, &mut entries, Timestamp::NEVER), [5]);
    }

    #[test]
    fn wheel_many_far_entries_moves_per_call_bounded() {
        let (mut wheel, mut entries) = (Wheel::new(), MmapArray::<Entry>::new(1000));
        let moment = at(3 * LISTS + 100);
        (0..1000).for_each(|slot| wheel.arm(&mut entries, slot, moment));
        let now = at(3 * LISTS);
        assert_eq!(wheel.pop(&mut entries, now), None);
        let moved =
            (0..1000).filter(|slot| wheel.list_of(0) == DUE && entries[*slot].next == NONE).count();
        assert!(moved <= 2, "lists have one end each");
        let mut calls = 1;
        while wheel.next_expiry().is_some_and(|next| next <= now) {
            assert_eq!(wheel.pop(&mut entries, now), None);
            calls += 1;
        }
        assert_eq!(calls, 1000_usize.div_ceil(MOVES_MAX + 1));
        assert_eq!(wheel.next_expiry(), Some(moment));
        assert_eq!(drain(&mut wheel, &mut entries, moment).len(), 1000);
    }

    #[test]
    fn occupied_distance_wraps_around() {
        let mut occupied = Occupied::new();
        assert_eq!(occupied.distance(5), None);
        for list in [0, 63, 64, 4095] {
            occupied.set(list);
            for from in 0..LISTS {
                assert_eq!(
                    occupied.distance(from),
                    Some((list as u64).wrapping_sub(from) & (LISTS - 1))
                );
                assert_eq!(occupied.distance(from + 3 * LISTS), occupied.distance(from));
            }
            occupied.clear(list);
        }
        assert_eq!(occupied.summary, 0);
    }
}
