//! The memory of a FIB's length tables and entries, in one mapping, so that an entry can be placed
//! in the memory page of its length-table bucket.
//!
//! ```text
//! table A: with page slots: pages of 16 buckets and 48 lines for entries; without: buckets only
//! table B: buckets only (used while the start depth changes)
//! slabs:   entries that are long, or for which the page of their bucket was full
//! ```
//!
//! In large FIBs a lookup waits for address translation (per page) more than for cache lines, so
//! reading the bucket and the entry in one page saves a translation. A handle is the offset of an
//! entry in units of 32 bytes.

use super::page_slots::PageSlots;
use super::slab_allocator::SlabAllocator;
use crate::memory::{MmapArray, prefetch_first_last};
use core::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The unit of a handle, bytes.
pub(super) const GRANULE: usize = 32;

pub(super) const GRANULES_PER_LINE: usize = size_of::<Line>() / GRANULE;

/// Lines of a 4 KiB page, whatever the kernel's page size is: below a guest's huge pages the host
/// may have small ones.
pub(super) const LINES_PER_PAGE: usize = 4096 / size_of::<Line>();

/// Buckets of the length table in a page with page slots.
pub(super) const BUCKETS_PER_PAGE: usize = 16;

/// Prefixes per page when the FIB is full: fewer than the 48 lines, so that 97 % of the entries fit
/// in the page of their bucket and all but 0.3 % in a neighbour page.
pub(super) const PREFIXES_PER_PAGE: usize = 45;

/// A cache line: a bucket of a length table, or a part of an entry.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub(super) struct Line([u8; 64]);

/// The position of the buckets of a length table in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableLayout {
    first_line: usize,
    buckets: usize,
    /// Lines for entries after each [`BUCKETS_PER_PAGE`] buckets.
    gap: usize,
}

impl TableLayout {
    pub(super) const fn buckets(&self) -> usize {
        self.buckets
    }

    /// Returns the line of a bucket.
    #[inline(always)]
    const fn line(&self, bucket: usize) -> usize {
        self.first_line + bucket + bucket / BUCKETS_PER_PAGE * self.gap
    }

    /// Returns whether there is space for entries in the pages of these buckets.
    pub(super) const fn has_page_slots(&self) -> bool {
        self.gap > 0
    }
}

/// The arena: see the module.
pub(super) struct FibArena {
    lines: MmapArray<Line>,
    page_slots: PageSlots,
    slabs: SlabAllocator,
}

impl FibArena {
    /// Creates an arena without entries, with two length tables of at least `buckets` buckets each
    /// and `entry_bytes` bytes of slabs. Returns the layouts of the active and the standby table.
    pub(super) fn new(
        buckets: usize,
        entry_bytes: usize,
        has_page_slots: bool,
    ) -> (Self, [TableLayout; 2]) {
        let mut active = TableLayout { first_line: 0, buckets, gap: 0 };
        let mut lines = buckets;
        let mut pages = 0;
        if has_page_slots {
            pages = buckets.div_ceil(BUCKETS_PER_PAGE);
            active.buckets = pages * BUCKETS_PER_PAGE;
            active.gap = LINES_PER_PAGE - BUCKETS_PER_PAGE;
            lines = pages * LINES_PER_PAGE;
        }
        let standby = TableLayout { first_line: lines, buckets, gap: 0 };
        let slabs_start = lines + buckets;
        let slab_allocator = SlabAllocator::new(slabs_start, entry_bytes);
        let lines = slabs_start + slab_allocator.lines();
        assert!(
            u32::try_from(lines * GRANULES_PER_LINE).is_ok(),
            "length tables and entries fit handles of 32 bits"
        );
        (
            FibArena {
                lines: MmapArray::new(lines),
                page_slots: PageSlots::new(pages),
                slabs: slab_allocator,
            },
            [active, standby],
        )
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.memory_bytes() + self.page_slots.memory_bytes() + self.slabs.memory_bytes()
    }

    #[inline(always)]
    pub(super) fn bucket(&self, layout: &TableLayout, bucket: usize) -> &Line {
        &self.lines[layout.line(bucket)]
    }

    #[inline(always)]
    pub(super) fn bucket_mut(&mut self, layout: &TableLayout, bucket: usize) -> &mut Line {
        &mut self.lines[layout.line(bucket)]
    }

    #[inline(always)]
    pub(super) fn prefetch_bucket(&self, layout: &TableLayout, bucket: usize) {
        self.lines.prefetch(layout.line(bucket));
    }

    /// Zeroes a range of buckets.
    pub(super) fn clear_buckets(&mut self, layout: &TableLayout, buckets: Range<usize>) {
        if layout.has_page_slots() {
            buckets.for_each(|bucket| self.bucket_mut(layout, bucket).0 = [0; 64]);
        } else {
            self.lines.zero(layout.first_line + buckets.start..layout.first_line + buckets.end);
        }
    }

    /// Returns the bytes from the start of an entry to the end of the arena.
    #[inline(always)]
    pub(super) fn bytes(&self, entry: u32) -> &[u8] {
        &self.lines.as_bytes()[entry as usize * GRANULE..]
    }

    #[inline(always)]
    pub(super) fn bytes_mut(&mut self, entry: u32) -> &mut [u8] {
        &mut self.lines.as_mut_bytes()[entry as usize * GRANULE..]
    }

    /// Prefetches the first `len` bytes of an entry.
    #[inline(always)]
    pub(super) fn prefetch(&self, entry: u32, len: usize) {
        let start = entry as usize * GRANULE;
        if let Some(bytes) = self.lines.as_bytes().get(start..start + len) {
            prefetch_first_last(bytes);
        }
    }

    /// Allocates space for an entry of `len` bytes, at most [`super::BLOCK_MAX`]: in the page of
    /// `preferred_bucket` or a neighbour page, else in a slab. `None` if all are full. The content
    /// is undefined.
    pub(super) fn allocate(&mut self, len: usize, preferred_bucket: Option<usize>) -> Option<u32> {
        preferred_bucket
            .and_then(|bucket| self.page_slots.allocate_near(bucket / BUCKETS_PER_PAGE, len))
            .or_else(|| self.slabs.allocate(len, self.lines.as_mut_bytes()))
    }

    /// Moves an entry of `len` bytes to the page of a bucket or a neighbour page. Returns its new
    /// handle; `None` if it is as near already or these pages are full.
    pub(super) fn relocate(&mut self, entry: u32, len: usize, bucket: usize) -> Option<u32> {
        let page = bucket / BUCKETS_PER_PAGE;
        let new_entry = match self.page_slots.page_of(entry) {
            Some(current) if current == page => return None,
            // A move between two neighbour pages would gain nothing.
            Some(current) if PageSlots::are_neighbours(current, page) => {
                self.page_slots.allocate(page, len)?
            }
            _ => self.page_slots.allocate_near(page, len)?,
        };
        let start = entry as usize * GRANULE;
        self.lines.as_mut_bytes().copy_within(start..start + len, new_entry as usize * GRANULE);
        self.free(entry, len);
        Some(new_entry)
    }

    /// Frees the space of an entry of `len` bytes.
    pub(super) fn free(&mut self, entry: u32, len: usize) {
        match self.page_slots.page_of(entry) {
            Some(page) => self.page_slots.free(page, entry, len),
            None => self.slabs.free(entry, self.lines.as_mut_bytes()),
        }
    }

    /// Returns the page of an entry in a page slot.
    #[cfg(test)]
    pub(super) fn page_of(&self, entry: u32) -> Option<usize> {
        self.page_slots.page_of(entry)
    }

    /// Returns the number of slabs ever used.
    #[cfg(test)]
    pub(super) fn slabs_used(&self) -> usize {
        self.slabs.slabs_used()
    }
}
