//! Page slots: which lines of each page with length-table buckets are in use for entries.
//!
//! ```text
//! page (64 lines): 16 lines of buckets | 48 lines for entries, 1 to 4 adjacent lines each
//! ```

use super::arena::{BUCKETS_PER_PAGE, GRANULES_PER_LINE, LINES_PER_PAGE};
use crate::memory::MmapArray;

const CACHE_LINE: usize = crate::memory::CACHE_LINE;

/// Longer entries would take the space of many others.
const LEN_MAX: usize = 4 * CACHE_LINE;

/// Pages with page-table entries (8 bytes each) in one cache line. A page walk for one of them
/// fetches those of the others, so a full page overflows into these.
const NEIGHBOUR_PAGES: usize = 8;

/// Mask of the lines that are buckets.
const BUCKET_LINES: u64 = (1 << BUCKETS_PER_PAGE) - 1;

const _: () = assert!(LINES_PER_PAGE == u64::BITS as usize);

/// The used lines of all pages with page slots.
pub(super) struct PageSlots {
    /// By page: one bit per line in use for an entry.
    used_lines: MmapArray<u64>,
}

impl PageSlots {
    pub(super) fn new(pages: usize) -> Self {
        PageSlots { used_lines: MmapArray::with_small_pages(pages) }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.used_lines.memory_bytes()
    }

    /// Allocates adjacent lines for `len` bytes in a page; `None` if the page is full or does not
    /// exist.
    pub(super) fn allocate(&mut self, page: usize, len: usize) -> Option<u32> {
        let used_lines = self.used_lines.get_mut(page)?;
        if len > LEN_MAX {
            return None;
        }
        let lines = lines_of(len);
        // A bit remains set where enough free lines follow.
        let free = !(*used_lines | BUCKET_LINES);
        let starts = (1..lines).fold(free, |starts, next| starts & free >> next);
        if starts == 0 {
            return None;
        }
        let first = starts.trailing_zeros() as usize;
        *used_lines |= mask(lines) << first;
        Some(((page * LINES_PER_PAGE + first) * GRANULES_PER_LINE) as u32)
    }

    /// Returns whether two pages share a line of page-table entries.
    pub(super) const fn are_neighbours(a: usize, b: usize) -> bool {
        a / NEIGHBOUR_PAGES == b / NEIGHBOUR_PAGES
    }

    /// Allocates in a page or, if it is full, in one of its neighbours.
    pub(super) fn allocate_near(&mut self, page: usize, len: usize) -> Option<u32> {
        let first = page / NEIGHBOUR_PAGES * NEIGHBOUR_PAGES;
        (0..NEIGHBOUR_PAGES)
            .find_map(|step| self.allocate(first + (page + step) % NEIGHBOUR_PAGES, len))
    }

    /// Returns the page of an entry in a page slot; `None` for entries in slabs.
    pub(super) fn page_of(&self, entry: u32) -> Option<usize> {
        let page = entry as usize / GRANULES_PER_LINE / LINES_PER_PAGE;
        (page < self.used_lines.len()).then_some(page)
    }

    /// Frees the lines that [`allocate`](Self::allocate) returned for the same length.
    pub(super) fn free(&mut self, page: usize, entry: u32, len: usize) {
        let first = entry as usize / GRANULES_PER_LINE % LINES_PER_PAGE;
        let lines = mask(lines_of(len)) << first;
        debug_assert!(self.used_lines[page] & lines == lines, "lines are freed once");
        self.used_lines[page] &= !lines;
    }
}

const fn lines_of(len: usize) -> usize {
    if len == 0 { 1 } else { len.div_ceil(CACHE_LINE) }
}

const fn mask(lines: usize) -> u64 {
    (1 << lines) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn allocate_without_pages_returns_none() {
        let mut page_slots = PageSlots::new(0);
        assert_eq!((page_slots.allocate(0, 10), page_slots.page_of(0)), (None, None));
    }

    #[test]
    fn allocate_page_full_returns_none() {
        let mut page_slots = PageSlots::new(2);
        assert_eq!(page_slots.allocate(1, LEN_MAX + 1), None);
        let all: Vec<u32> = core::iter::from_fn(|| page_slots.allocate(1, CACHE_LINE)).collect();
        assert_eq!(all.len(), LINES_PER_PAGE - BUCKETS_PER_PAGE);
        assert!(all.iter().all(|entry| page_slots.page_of(*entry) == Some(1)));
        assert_eq!(page_slots.page_of((2 * LINES_PER_PAGE * GRANULES_PER_LINE) as u32), None);
        // Two free lines that are not adjacent do not fit an entry of two lines.
        page_slots.free(1, all[3], CACHE_LINE);
        page_slots.free(1, all[5], CACHE_LINE);
        assert_eq!(page_slots.allocate(1, CACHE_LINE + 1), None);
        page_slots.free(1, all[4], CACHE_LINE);
        assert_eq!(page_slots.allocate(1, CACHE_LINE + 1), Some(all[3]));
        assert_eq!((page_slots.allocate(1, 1), page_slots.allocate(1, 1)), (Some(all[5]), None));
    }

    #[test]
    fn allocate_near_uses_neighbour_pages() {
        const LINES: usize = LINES_PER_PAGE - BUCKETS_PER_PAGE;
        let mut page_slots = PageSlots::new(2 * NEIGHBOUR_PAGES + 2);
        let mut pages = vec![0; 2 * NEIGHBOUR_PAGES + 2];
        while let Some(entry) = page_slots.allocate_near(11, CACHE_LINE) {
            pages[page_slots.page_of(entry).unwrap()] += 1;
            // Its own page first, then the next one.
            assert!(pages[11] == LINES || pages[12] == 0);
        }
        let (first, end) = (NEIGHBOUR_PAGES, 2 * NEIGHBOUR_PAGES);
        assert!(pages[first..end].iter().all(|used| *used == LINES), "{pages:?}");
        assert_eq!(pages[..first].iter().chain(&pages[end..]).sum::<usize>(), 0);
        // The last pages have fewer neighbours.
        assert_eq!(
            (0..3 * LINES).filter_map(|_| page_slots.allocate_near(end, CACHE_LINE)).count(),
            2 * LINES
        );
    }

    proptest! {
        #[test]
        fn allocate_any_sequence_lines_never_overlap(
            steps in proptest::collection::vec(
                (0usize..3, 1usize..300, any::<prop::sample::Index>(), any::<bool>()),
                0..300,
            ),
        ) {
            let mut page_slots = PageSlots::new(3);
            let mut held: Vec<(u32, usize)> = Vec::new();
            for (page, len, which, free) in steps {
                if free && !held.is_empty() {
                    let (entry, len) = held.swap_remove(which.index(held.len()));
                    page_slots.free(page_slots.page_of(entry).unwrap(), entry, len);
                } else if let Some(entry) = page_slots.allocate(page, len) {
                    prop_assert_eq!(page_slots.page_of(entry), Some(page));
                    let of = |(entry, len): (u32, usize)| {
                        let first = entry as usize / GRANULES_PER_LINE;
                        first..first + lines_of(len)
                    };
                    let new = of((entry, len));
                    prop_assert!(
                        new.start % LINES_PER_PAGE >= BUCKETS_PER_PAGE
                            && new.end <= (page + 1) * LINES_PER_PAGE
                    );
                    let is_disjoint = |other: &(u32, usize)| {
                        let other = of(*other);
                        other.end <= new.start || new.end <= other.start
                    };
                    prop_assert!(held.iter().all(is_disjoint));
                    held.push((entry, len));
                }
            }
            let taken: usize = held.iter().map(|(_, len)| lines_of(*len)).sum();
            prop_assert_eq!(
                page_slots.used_lines.iter().map(|bits| bits.count_ones() as usize).sum::<usize>(),
                taken
            );
        }
    }
}
