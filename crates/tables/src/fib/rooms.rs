//! Room for entries beside the hints that lead to them: which lines of each page are taken.

use super::ground::{GRAINS_PER_LINE, HINTS_PER_PAGE, LINES_PER_PAGE};
use crate::memory::Lines;

const LINE: usize = crate::memory::LINE;

/// Longer entries would take a page from many others.
const LEN_MAX: usize = 4 * LINE;

/// Pages whose translations stand in one cache line, at eight octets each: who asks for one of them finds those of the others sooner. So they stand in for
/// one that is full.
const NEIGHBOURS: usize = 8;

/// The lines of hints.
const HINTS: u64 = (1 << HINTS_PER_PAGE) - 1;

const _: () = assert!(LINES_PER_PAGE == u64::BITS as usize);

pub(super) struct Rooms {
    /// By page: one bit for each line that belongs to an entry.
    taken: Lines<u64>,
}

impl Rooms {
    pub(super) fn new(pages: usize) -> Self {
        Rooms { taken: Lines::sparse(pages) }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.taken.memory_bytes()
    }

    /// Lines in one piece for `len` octets; `None` where a page has none, or there are no pages.
    pub(super) fn allocate(&mut self, page: usize, len: usize) -> Option<u32> {
        let taken = self.taken.get_mut(page)?;
        if len > LEN_MAX {
            return None;
        }
        let lines = lines_of(len);
        // A bit stays where as many lines as are wanted are free from there on.
        let free = !(*taken | HINTS);
        let starts = (1..lines).fold(free, |starts, next| starts & free >> next);
        if starts == 0 {
            return None;
        }
        let first = starts.trailing_zeros() as usize;
        *taken |= mask(lines) << first;
        Some(((page * LINES_PER_PAGE + first) * GRAINS_PER_LINE) as u32)
    }

    /// True for pages that stand in for each other.
    pub(super) const fn are_near(one: usize, other: usize) -> bool {
        one / NEIGHBOURS == other / NEIGHBOURS
    }

    /// As [`allocate`](Self::allocate), in a page near by where that one is full.
    pub(super) fn allocate_near(&mut self, page: usize, len: usize) -> Option<u32> {
        let first = page / NEIGHBOURS * NEIGHBOURS;
        (0..NEIGHBOURS).find_map(|step| self.allocate(first + (page + step) % NEIGHBOURS, len))
    }

    /// The page in which an entry stands beside hints; `None` for those elsewhere.
    pub(super) fn page_of(&self, entry: u32) -> Option<usize> {
        let page = entry as usize / GRAINS_PER_LINE / LINES_PER_PAGE;
        (page < self.taken.len()).then_some(page)
    }

    /// Gives back what [`allocate`](Self::allocate) gave for as many octets.
    pub(super) fn free(&mut self, page: usize, entry: u32, len: usize) {
        let first = entry as usize / GRAINS_PER_LINE % LINES_PER_PAGE;
        let lines = mask(lines_of(len)) << first;
        debug_assert!(self.taken[page] & lines == lines, "lines are given back once");
        self.taken[page] &= !lines;
    }
}

const fn lines_of(len: usize) -> usize {
    if len == 0 { 1 } else { len.div_ceil(LINE) }
}

const fn mask(lines: usize) -> u64 {
    (1 << lines) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_pages_there_is_no_room() {
        let mut rooms = Rooms::new(0);
        assert_eq!((rooms.allocate(0, 10), rooms.page_of(0)), (None, None));
    }

    #[test]
    fn a_page_holds_as_many_lines_as_are_not_hints() {
        let mut rooms = Rooms::new(2);
        assert_eq!(rooms.allocate(1, LEN_MAX + 1), None);
        let all: Vec<u32> = core::iter::from_fn(|| rooms.allocate(1, LINE)).collect();
        assert_eq!(all.len(), LINES_PER_PAGE - HINTS_PER_PAGE);
        assert!(all.iter().all(|entry| rooms.page_of(*entry) == Some(1)));
        assert_eq!(rooms.page_of((2 * LINES_PER_PAGE * GRAINS_PER_LINE) as u32), None);
        // Two lines apart are no place for two in a row.
        rooms.free(1, all[3], LINE);
        rooms.free(1, all[5], LINE);
        assert_eq!(rooms.allocate(1, LINE + 1), None);
        rooms.free(1, all[4], LINE);
        assert_eq!(rooms.allocate(1, LINE + 1), Some(all[3]));
        assert_eq!((rooms.allocate(1, 1), rooms.allocate(1, 1)), (Some(all[5]), None));
    }

    #[test]
    fn a_full_page_has_room_in_seven_others() {
        const LINES: usize = LINES_PER_PAGE - HINTS_PER_PAGE;
        let mut rooms = Rooms::new(2 * NEIGHBOURS + 2);
        let mut pages = vec![0; 2 * NEIGHBOURS + 2];
        while let Some(entry) = rooms.allocate_near(11, LINE) {
            pages[rooms.page_of(entry).unwrap()] += 1;
            // Its own first, then the one behind it.
            assert!(pages[11] == LINES || pages[12] == 0);
        }
        let (first, end) = (NEIGHBOURS, 2 * NEIGHBOURS);
        assert!(pages[first..end].iter().all(|taken| *taken == LINES), "{pages:?}");
        assert_eq!(pages[..first].iter().chain(&pages[end..]).sum::<usize>(), 0);
        // The last pages have fewer neighbours.
        assert_eq!((0..3 * LINES).filter_map(|_| rooms.allocate_near(end, LINE)).count(), 2 * LINES);
    }

    proptest! {
        #[test]
        fn places_never_overlap(steps in proptest::collection::vec((0usize..3, 1usize..300, any::<prop::sample::Index>(), any::<bool>()), 0..300)) {
            let mut rooms = Rooms::new(3);
            let mut held: Vec<(u32, usize)> = Vec::new();
            for (page, len, which, free) in steps {
                if free && !held.is_empty() {
                    let (entry, len) = held.swap_remove(which.index(held.len()));
                    rooms.free(rooms.page_of(entry).unwrap(), entry, len);
                } else if let Some(entry) = rooms.allocate(page, len) {
                    prop_assert_eq!(rooms.page_of(entry), Some(page));
                    let of = |(entry, len): (u32, usize)| {
                        let first = entry as usize / GRAINS_PER_LINE;
                        first..first + lines_of(len)
                    };
                    let new = of((entry, len));
                    prop_assert!(new.start % LINES_PER_PAGE >= HINTS_PER_PAGE && new.end <= (page + 1) * LINES_PER_PAGE);
                    prop_assert!(held.iter().all(|other| of(*other).end <= new.start || new.end <= of(*other).start));
                    held.push((entry, len));
                }
            }
            let taken: usize = held.iter().map(|(_, len)| lines_of(*len)).sum();
            prop_assert_eq!(rooms.taken.iter().map(|bits| bits.count_ones() as usize).sum::<usize>(), taken);
        }
    }
}
