//! The memory of a FIB's hints and entries, in one piece, so that an entry can stand in the page of the hint that leads to it.
//!
//! ```text
//! hints:                         pages of 16 lines of hints and 48 of entries; where a FIB is small, hints only
//! hints while the middle moves:  hints only
//! slabs:                         entries that are long, or for which the page of their hint had no room
//! ```
//!
//! Where tables are large a lookup waits for translations of addresses more than for lines, and translations are by page. A handle of an entry is its place
//! in steps of 32 octets.

use super::blocks::Blocks;
use super::rooms::Rooms;
use crate::memory::{Lines, prefetch_ends};
use core::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A handle counts in steps of so many octets.
pub(super) const GRAIN: usize = 32;

pub(super) const GRAINS_PER_LINE: usize = size_of::<Line>() / GRAIN;

/// Lines of a page, whatever the kernel's pages are: small ones, as hosts often have them below a guest's large ones.
pub(super) const LINES_PER_PAGE: usize = 4096 / size_of::<Line>();

/// Hints in a page that has room for entries.
pub(super) const HINTS_PER_PAGE: usize = 16;

/// Prefixes for which there is such a page when the FIB is full: a few less than it has lines for, so that three entries of a hundred have to stand in a page near
/// by, and three of a thousand elsewhere. Each such entry costs the translation of another page, and nothing else waits for that meanwhile.
pub(super) const PREFIXES_PER_PAGE: usize = 45;

/// A cache line: a bucket of hints, or a part of an entry.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub(super) struct Line([u8; 64]);

/// Where buckets of hints are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    first: usize,
    buckets: usize,
    /// Lines after each [`HINTS_PER_PAGE`] that are no hints.
    gap: usize,
}

impl Site {
    pub(super) const fn buckets(&self) -> usize {
        self.buckets
    }

    #[inline(always)]
    const fn line(&self, bucket: usize) -> usize {
        self.first + bucket + bucket / HINTS_PER_PAGE * self.gap
    }

    /// True when there is room for entries beside these hints.
    pub(super) const fn has_rooms(&self) -> bool {
        self.gap > 0
    }
}

pub(super) struct Ground {
    lines: Lines<Line>,
    rooms: Rooms,
    blocks: Blocks,
}

impl Ground {
    /// Without entries; and the sites of hints, at rest and while the middle moves, of so many buckets at least each. There is room for `entry_bytes`
    /// octets of entries in slabs.
    pub(super) fn new(buckets: usize, entry_bytes: usize, has_rooms: bool) -> (Self, [Site; 2]) {
        let mut rest = Site { first: 0, buckets, gap: 0 };
        let mut lines = buckets;
        let mut pages = 0;
        if has_rooms {
            pages = buckets.div_ceil(HINTS_PER_PAGE);
            rest.buckets = pages * HINTS_PER_PAGE;
            rest.gap = LINES_PER_PAGE - HINTS_PER_PAGE;
            lines = pages * LINES_PER_PAGE;
        }
        let moving = Site { first: lines, buckets, gap: 0 };
        let slabs = lines + buckets;
        let blocks = Blocks::new(slabs, entry_bytes);
        let lines = slabs + blocks.lines();
        assert!(
            u32::try_from(lines * GRAINS_PER_LINE).is_ok(),
            "hints and entries fit 2^32 steps of 32 octets"
        );
        (Ground { lines: Lines::new(lines), rooms: Rooms::new(pages), blocks }, [rest, moving])
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.memory_bytes() + self.rooms.memory_bytes() + self.blocks.memory_bytes()
    }

    #[inline(always)]
    pub(super) fn hint(&self, site: &Site, bucket: usize) -> &Line {
        &self.lines[site.line(bucket)]
    }

    #[inline(always)]
    pub(super) fn hint_mut(&mut self, site: &Site, bucket: usize) -> &mut Line {
        &mut self.lines[site.line(bucket)]
    }

    #[inline(always)]
    pub(super) fn prefetch_hint(&self, site: &Site, bucket: usize) {
        self.lines.prefetch(site.line(bucket));
    }

    /// Zeroes the hints of some buckets.
    pub(super) fn clear_hints(&mut self, site: &Site, buckets: Range<usize>) {
        if site.has_rooms() {
            buckets.for_each(|bucket| self.hint_mut(site, bucket).0 = [0; 64]);
        } else {
            self.lines.zero(site.first + buckets.start..site.first + buckets.end);
        }
    }

    /// From the start of an entry on, beyond its end.
    #[inline(always)]
    pub(super) fn bytes(&self, entry: u32) -> &[u8] {
        &self.lines.as_bytes()[entry as usize * GRAIN..]
    }

    #[inline(always)]
    pub(super) fn bytes_mut(&mut self, entry: u32) -> &mut [u8] {
        &mut self.lines.as_mut_bytes()[entry as usize * GRAIN..]
    }

    /// Asks for the first `len` octets of an entry.
    #[inline(always)]
    pub(super) fn prefetch(&self, entry: u32, len: usize) {
        let start = entry as usize * GRAIN;
        if let Some(bytes) = self.lines.as_bytes().get(start..start + len) {
            prefetch_ends(bytes);
        }
    }

    /// A place for an entry of `len` octets, at most [`super::BLOCK_MAX`], in the page of a bucket of the hints at rest or near that if there is room; `None`
    /// when there is none anywhere. Its octets are whatever they were.
    pub(super) fn allocate(&mut self, len: usize, beside: Option<usize>) -> Option<u32> {
        beside
            .and_then(|bucket| self.rooms.allocate_near(bucket / HINTS_PER_PAGE, len))
            .or_else(|| self.blocks.allocate(len, self.lines.as_mut_bytes()))
    }

    /// Moves an entry of `len` octets to the page of a bucket or near that; gives its new place, or `None` when it is as near already or there is no room.
    pub(super) fn move_beside(&mut self, entry: u32, len: usize, bucket: usize) -> Option<u32> {
        let page = bucket / HINTS_PER_PAGE;
        let to = match self.rooms.page_of(entry) {
            Some(stands) if stands == page => return None,
            // Not from one page near by to another.
            Some(stands) if Rooms::are_near(stands, page) => self.rooms.allocate(page, len)?,
            _ => self.rooms.allocate_near(page, len)?,
        };
        let start = entry as usize * GRAIN;
        self.lines.as_mut_bytes().copy_within(start..start + len, to as usize * GRAIN);
        self.free(entry, len);
        Some(to)
    }

    /// Gives the place of an entry of `len` octets back.
    pub(super) fn free(&mut self, entry: u32, len: usize) {
        match self.rooms.page_of(entry) {
            Some(page) => self.rooms.free(page, entry, len),
            None => self.blocks.free(entry, self.lines.as_mut_bytes()),
        }
    }

    /// The page where an entry stands beside hints.
    #[cfg(test)]
    pub(super) fn page_of(&self, entry: u32) -> Option<usize> {
        self.rooms.page_of(entry)
    }

    /// Slabs that hold entries or held some.
    #[cfg(test)]
    pub(super) fn slabs_touched(&self) -> usize {
        self.blocks.slabs_touched()
    }
}
