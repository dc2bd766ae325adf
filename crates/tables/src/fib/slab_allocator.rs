//! Slab allocator for FIB entries with names of any length up to 16 KiB.
//!
//! Slabs of 16 KiB are divided into blocks of one size class each; an empty slab can serve another
//! class. Blocks of 64 bytes are cache lines. Main invariant: a slab is in the list of its class
//! exactly if it has both used and free blocks, and in the list of empty slabs if it has no used
//! block.

use super::arena::{GRANULE, GRANULES_PER_LINE};
use crate::memory::MmapArray;
use zerocopy::FromZeros;

const SLAB_LEN: usize = 16 << 10;
const GRANULES_PER_SLAB: usize = SLAB_LEN / GRANULE;
const LINES_PER_SLAB: usize = GRANULES_PER_SLAB / GRANULES_PER_LINE;

/// The largest block, bytes.
pub(super) const BLOCK_MAX: usize = SLAB_LEN;

/// Size classes: multiples of 32 bytes up to 256, then four per doubling.
const CLASSES: usize = 32;

/// The end of a list: slabs and blocks are linked by their number plus one.
const NONE: u32 = 0;

/// The state of a slab; all zero if it was never used.
#[derive(Clone, Copy, FromZeros)]
#[repr(C)]
struct SlabInfo {
    previous: u32,
    next: u32,
    /// The first freed block.
    free: u16,
    /// The number of blocks ever allocated: later ones are not linked, so their memory is not
    /// touched.
    high_water: u16,
    used: u16,
    class: u16,
}

/// The state of all blocks. The blocks' bytes are passed to each call; free blocks hold the links.
pub(super) struct SlabAllocator {
    /// The handle of the first block of the first slab.
    first: u32,
    slabs: MmapArray<SlabInfo>,
    /// By class: the doubly linked list of slabs with free blocks.
    partial: [u32; CLASSES],
    /// The linked list of slabs without used blocks, last emptied first.
    empty: u32,
    /// The number of slabs ever used.
    high_water: usize,
}

impl SlabAllocator {
    /// Creates an allocator for `bytes` bytes of blocks, rounded up to slabs, from a line of the
    /// arena on.
    pub(super) fn new(first_line: usize, bytes: usize) -> Self {
        let slabs = bytes.div_ceil(SLAB_LEN) + CLASSES;
        SlabAllocator {
            first: (first_line * GRANULES_PER_LINE) as u32,
            slabs: MmapArray::new(slabs),
            partial: [NONE; CLASSES],
            empty: NONE,
            high_water: 0,
        }
    }

    /// Returns the lines of all slabs.
    pub(super) fn lines(&self) -> usize {
        self.slabs.len() * LINES_PER_SLAB
    }

    /// Returns the bytes of address space outside the arena.
    pub(super) fn memory_bytes(&self) -> usize {
        self.slabs.memory_bytes()
    }

    /// Returns the number of slabs ever used.
    #[cfg(test)]
    pub(super) fn slabs_used(&self) -> usize {
        self.high_water
    }

    /// Allocates a block of at least `len` bytes; `None` if `len` exceeds [`BLOCK_MAX`] or no slab
    /// has one. The content is undefined.
    pub(super) fn allocate(&mut self, len: usize, bytes: &mut [u8]) -> Option<u32> {
        let class = class_of(len);
        if class >= CLASSES {
            return None;
        }
        // No slab left: a larger block will do.
        if self.partial[class] == NONE && !self.alloc_slab(class) {
            let larger = (class..CLASSES).find(|c| self.partial[*c] != NONE)?;
            return Some(self.alloc_block(larger, bytes));
        }
        Some(self.alloc_block(class, bytes))
    }

    /// Frees a block.
    pub(super) fn free(&mut self, block: u32, bytes: &mut [u8]) {
        let (slab, offset) = self.locate(block);
        let class = usize::from(self.slabs[slab].class);
        let next = self.slabs[slab].free;
        let link = block as usize * GRANULE;
        bytes[link..link + 2].copy_from_slice(&next.to_le_bytes());
        let was_full = self.is_full(slab);
        let info = &mut self.slabs[slab];
        info.free = (offset / size_of_class(class)) as u16 + 1;
        info.used -= 1;
        if was_full {
            self.link(slab, class);
        }
        if self.slabs[slab].used == 0 {
            self.unlink(slab, class);
            self.slabs[slab].next = self.empty;
            self.empty = slab as u32 + 1;
        }
    }

    fn is_full(&self, slab: usize) -> bool {
        let info = &self.slabs[slab];
        usize::from(info.used) == SLAB_LEN / size_of_class(usize::from(info.class))
    }

    /// Allocates from the first slab of a class that has free blocks, which must exist.
    fn alloc_block(&mut self, class: usize, bytes: &[u8]) -> u32 {
        let slab = self.partial[class] as usize - 1;
        let size = size_of_class(class);
        let info = &mut self.slabs[slab];
        let position = if info.free == 0 {
            info.high_water += 1;
            info.high_water - 1
        } else {
            info.free - 1
        };
        let block =
            self.first + (slab * GRANULES_PER_SLAB + usize::from(position) * size / GRANULE) as u32;
        if info.free != 0 {
            let link = block as usize * GRANULE;
            info.free = u16::from_le_bytes([bytes[link], bytes[link + 1]]);
        }
        info.used += 1;
        if self.is_full(slab) {
            self.unlink(slab, class);
        }
        block
    }

    fn alloc_slab(&mut self, class: usize) -> bool {
        let slab = if self.empty != NONE {
            let slab = self.empty as usize - 1;
            self.empty = self.slabs[slab].next;
            slab
        } else if self.high_water < self.slabs.len() {
            self.high_water += 1;
            self.high_water - 1
        } else {
            return false;
        };
        self.slabs[slab] = SlabInfo {
            previous: NONE,
            next: NONE,
            free: 0,
            high_water: 0,
            used: 0,
            class: class as u16,
        };
        self.link(slab, class);
        true
    }

    /// Returns the slab of a block and the byte offset in it.
    fn locate(&self, block: u32) -> (usize, usize) {
        let block = (block - self.first) as usize;
        (block / GRANULES_PER_SLAB, block % GRANULES_PER_SLAB * GRANULE)
    }

    fn link(&mut self, slab: usize, class: usize) {
        let next = self.partial[class];
        self.slabs[slab].previous = NONE;
        self.slabs[slab].next = next;
        if next != NONE {
            self.slabs[next as usize - 1].previous = slab as u32 + 1;
        }
        self.partial[class] = slab as u32 + 1;
    }

    fn unlink(&mut self, slab: usize, class: usize) {
        let SlabInfo { previous, next, .. } = self.slabs[slab];
        match previous {
            NONE => self.partial[class] = next,
            _ => self.slabs[previous as usize - 1].next = next,
        }
        if next != NONE {
            self.slabs[next as usize - 1].previous = previous;
        }
    }
}

fn class_of(len: usize) -> usize {
    if len <= 256 {
        return len.div_ceil(GRANULE).max(1) - 1;
    }
    // 2^(8+d) < len <= 2^(9+d), in quarters of 2^(8+d).
    let doublings = (len - 1).ilog2() as usize - 8;
    8 + 4 * doublings + (len - (256 << doublings)).div_ceil(64 << doublings) - 1
}

fn size_of_class(class: usize) -> usize {
    if class < 8 {
        return (class + 1) * GRANULE;
    }
    let (doublings, quarter) = ((class - 8) / 4, (class - 8) % 4);
    (256 << doublings) + (quarter + 1) * (64 << doublings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// An allocator that starts at a line in the middle of its memory.
    struct Harness {
        blocks: SlabAllocator,
        bytes: Vec<u8>,
    }

    impl Harness {
        const FIRST_LINE: usize = 7;

        fn new(bytes: usize) -> Self {
            let blocks = SlabAllocator::new(Self::FIRST_LINE, bytes);
            let bytes = vec![0xee; (Self::FIRST_LINE + blocks.lines()) * crate::memory::CACHE_LINE];
            Harness { blocks, bytes }
        }

        fn allocate(&mut self, len: usize) -> Option<u32> {
            let block = self.blocks.allocate(len, &mut self.bytes)?;
            assert!(block as usize * GRANULE >= Self::FIRST_LINE * crate::memory::CACHE_LINE);
            Some(block)
        }

        fn free(&mut self, block: u32) {
            self.blocks.free(block, &mut self.bytes);
        }
    }

    #[test]
    fn class_of_any_length_is_smallest_fit() {
        assert_eq!(size_of_class(CLASSES - 1), BLOCK_MAX);
        for len in 1..=BLOCK_MAX {
            let class = class_of(len);
            assert!(size_of_class(class) >= len, "{len}");
            assert!(class == 0 || size_of_class(class - 1) < len, "{len}");
        }
        assert!(class_of(BLOCK_MAX + 1) >= CLASSES);
        assert_eq!(class_of(0), 0);
    }

    #[test]
    fn slab_emptied_serves_other_class() {
        let mut blocks = Harness::new(1 << 20);
        let mut peak = 0;
        for size in [9, 64, 100, 300, 1000, 5000, 40] {
            let mut held = Vec::new();
            for _ in 0..(1 << 20) / size_of_class(class_of(size)) {
                held.push(blocks.allocate(size).unwrap());
            }
            peak = peak.max(blocks.blocks.slabs_used());
            held.into_iter().for_each(|block| blocks.free(block));
        }
        assert!(peak <= (1 << 20) / SLAB_LEN + CLASSES);
    }

    #[test]
    fn allocate_class_exhausted_uses_larger_block() {
        let mut blocks = Harness::new(0);
        let mut large = Vec::new();
        while let Some(block) = blocks.allocate(200) {
            large.push(block);
        }
        assert_eq!(blocks.allocate(10), None);
        blocks.free(large.pop().unwrap());
        let small = blocks.allocate(10).unwrap();
        assert_eq!(blocks.allocate(10), None);
        blocks.free(small);
        assert!(blocks.allocate(200).is_some());
    }

    proptest! {
        #[test]
        fn allocate_any_sequence_never_overlaps(
            steps in proptest::collection::vec(
                (1usize..9000, any::<prop::sample::Index>(), any::<bool>()),
                0..300,
            ),
        ) {
            let mut blocks = Harness::new(1 << 18);
            // By start: the end, and the byte the block is filled with.
            let mut held: BTreeMap<usize, (usize, u8)> = BTreeMap::new();
            for (number, (len, which, free)) in steps.into_iter().enumerate() {
                if free && !held.is_empty() {
                    let start = *which.get(&held.keys().copied().collect::<Vec<_>>());
                    held.remove(&start);
                    blocks.free((start / GRANULE) as u32);
                } else if let Some(block) = blocks.allocate(len) {
                    let start = block as usize * GRANULE;
                    let before = held.range(..=start).next_back();
                    prop_assert!(before.is_none_or(|(_, (end, _))| *end <= start));
                    let next = held.range(start..).next();
                    prop_assert!(next.is_none_or(|(other, _)| start + len <= *other));
                    blocks.bytes[start..start + len].fill(number as u8);
                    held.insert(start, (start + len, number as u8));
                }
            }
            for (start, (end, fill)) in held {
                prop_assert!(blocks.bytes[start..end].iter().all(|b| *b == fill));
            }
        }
    }
}
