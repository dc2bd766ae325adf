//! Room for the entries of a FIB, whose names have any length: blocks of size classes, cut from slabs that go back to all classes when empty.
//!
//! Blocks of 64 octets are cache lines.

use super::ground::{GRAIN, GRAINS_PER_LINE};
use crate::memory::Lines;
use zerocopy::FromZeros;

const SLAB: usize = 16 << 10;
const GRAINS_PER_SLAB: usize = SLAB / GRAIN;
const LINES_PER_SLAB: usize = GRAINS_PER_SLAB / GRAINS_PER_LINE;

/// The largest block.
pub(super) const BLOCK_MAX: usize = SLAB;

/// Steps of 32 octets up to 256, then four per doubling.
const CLASSES: usize = 32;

/// Ends a list: slabs and blocks are linked by their number plus one.
const NONE: u32 = 0;

/// What is known of a slab; all zero for one that was never used.
#[derive(Clone, Copy, FromZeros)]
#[repr(C)]
struct Meta {
    previous: u32,
    next: u32,
    /// First block of those given back.
    free: u16,
    /// Blocks that were ever handed out: the others are not linked, so their memory isn't touched.
    fresh: u16,
    used: u16,
    class: u16,
}

/// Which blocks there are of the octets that it is told about; those of unused blocks are its own.
pub(super) struct Blocks {
    /// The handle of the first slab's first block.
    first: u32,
    meta: Lines<Meta>,
    /// By class: slabs with room, linked both ways.
    partial: [u32; CLASSES],
    /// Slabs without blocks, linked one way, last emptied first.
    empty: u32,
    /// Slabs that were ever used.
    fresh: usize,
}

impl Blocks {
    /// With room for `bytes` octets of blocks, and some slabs for rounding up, from a line on.
    pub(super) fn new(first_line: usize, bytes: usize) -> Self {
        let slabs = bytes.div_ceil(SLAB) + CLASSES;
        Blocks {
            first: (first_line * GRAINS_PER_LINE) as u32,
            meta: Lines::new(slabs),
            partial: [NONE; CLASSES],
            empty: NONE,
            fresh: 0,
        }
    }

    /// Lines of all slabs.
    pub(super) fn lines(&self) -> usize {
        self.meta.len() * LINES_PER_SLAB
    }

    /// Octets of address space besides the blocks'.
    pub(super) fn memory_bytes(&self) -> usize {
        self.meta.memory_bytes()
    }

    /// Slabs that hold blocks or held some: what was ever touched.
    #[cfg(test)]
    pub(super) fn slabs_touched(&self) -> usize {
        self.fresh
    }

    /// A block of at least `len` octets, at most [`BLOCK_MAX`]; `None` when no slab has one. Its octets are whatever they were.
    pub(super) fn allocate(&mut self, len: usize, octets: &mut [u8]) -> Option<u32> {
        let class = class_of(len);
        if class >= CLASSES {
            return None;
        }
        // A larger block rather than none.
        if self.partial[class] == NONE && !self.take_slab(class) {
            let larger = (class..CLASSES).find(|c| self.partial[*c] != NONE)?;
            return Some(self.take_block(larger, octets));
        }
        Some(self.take_block(class, octets))
    }

    /// Gives a block back.
    pub(super) fn free(&mut self, block: u32, octets: &mut [u8]) {
        let (slab, offset) = self.place(block);
        let class = usize::from(self.meta[slab].class);
        let next = self.meta[slab].free;
        let link = block as usize * GRAIN;
        octets[link..link + 2].copy_from_slice(&next.to_le_bytes());
        let was_full = self.is_full(slab);
        let meta = &mut self.meta[slab];
        meta.free = (offset / size_of_class(class)) as u16 + 1;
        meta.used -= 1;
        if was_full {
            self.link(slab, class);
        }
        if self.meta[slab].used == 0 {
            self.unlink(slab, class);
            self.meta[slab].next = self.empty;
            self.empty = slab as u32 + 1;
        }
    }

    fn is_full(&self, slab: usize) -> bool {
        let meta = &self.meta[slab];
        usize::from(meta.used) == SLAB / size_of_class(usize::from(meta.class))
    }

    /// From the first slab with room of a class; there is one.
    fn take_block(&mut self, class: usize, octets: &[u8]) -> u32 {
        let slab = self.partial[class] as usize - 1;
        let size = size_of_class(class);
        let meta = &mut self.meta[slab];
        let position = if meta.free == 0 {
            meta.fresh += 1;
            meta.fresh - 1
        } else {
            meta.free - 1
        };
        let block = self.first + (slab * GRAINS_PER_SLAB + usize::from(position) * size / GRAIN) as u32;
        if meta.free != 0 {
            let link = block as usize * GRAIN;
            meta.free = u16::from_le_bytes([octets[link], octets[link + 1]]);
        }
        meta.used += 1;
        if self.is_full(slab) {
            self.unlink(slab, class);
        }
        block
    }

    fn take_slab(&mut self, class: usize) -> bool {
        let slab = if self.empty != NONE {
            let slab = self.empty as usize - 1;
            self.empty = self.meta[slab].next;
            slab
        } else if self.fresh < self.meta.len() {
            self.fresh += 1;
            self.fresh - 1
        } else {
            return false;
        };
        self.meta[slab] =
            Meta { previous: NONE, next: NONE, free: 0, fresh: 0, used: 0, class: class as u16 };
        self.link(slab, class);
        true
    }

    /// Its slab, and where it starts there.
    fn place(&self, block: u32) -> (usize, usize) {
        let block = (block - self.first) as usize;
        (block / GRAINS_PER_SLAB, block % GRAINS_PER_SLAB * GRAIN)
    }

    fn link(&mut self, slab: usize, class: usize) {
        let next = self.partial[class];
        self.meta[slab].previous = NONE;
        self.meta[slab].next = next;
        if next != NONE {
            self.meta[next as usize - 1].previous = slab as u32 + 1;
        }
        self.partial[class] = slab as u32 + 1;
    }

    fn unlink(&mut self, slab: usize, class: usize) {
        let Meta { previous, next, .. } = self.meta[slab];
        match previous {
            NONE => self.partial[class] = next,
            _ => self.meta[previous as usize - 1].next = next,
        }
        if next != NONE {
            self.meta[next as usize - 1].previous = previous;
        }
    }
}

fn class_of(len: usize) -> usize {
    if len <= 256 {
        return len.div_ceil(GRAIN).max(1) - 1;
    }
    // 2^(8+d) < len <= 2^(9+d), in quarters of 2^(8+d).
    let doublings = (len - 1).ilog2() as usize - 8;
    8 + 4 * doublings + (len - (256 << doublings)).div_ceil(64 << doublings) - 1
}

fn size_of_class(class: usize) -> usize {
    if class < 8 {
        return (class + 1) * GRAIN;
    }
    let (doublings, quarter) = ((class - 8) / 4, (class - 8) % 4);
    (256 << doublings) + (quarter + 1) * (64 << doublings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Behind some lines of others.
    struct Lab {
        blocks: Blocks,
        octets: Vec<u8>,
    }

    impl Lab {
        const FIRST_LINE: usize = 7;

        fn new(bytes: usize) -> Self {
            let blocks = Blocks::new(Self::FIRST_LINE, bytes);
            let octets = vec![0xee; (Self::FIRST_LINE + blocks.lines()) * crate::memory::LINE];
            Lab { blocks, octets }
        }

        fn allocate(&mut self, len: usize) -> Option<u32> {
            let block = self.blocks.allocate(len, &mut self.octets)?;
            assert!(block as usize * GRAIN >= Self::FIRST_LINE * crate::memory::LINE);
            Some(block)
        }

        fn free(&mut self, block: u32) {
            self.blocks.free(block, &mut self.octets);
        }
    }

    #[test]
    fn classes_fit_tightly() {
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
    fn emptied_slabs_serve_other_sizes() {
        let mut blocks = Lab::new(1 << 20);
        let mut peak = 0;
        for size in [9, 64, 100, 300, 1000, 5000, 40] {
            let mut held = Vec::new();
            for _ in 0..(1 << 20) / size_of_class(class_of(size)) {
                held.push(blocks.allocate(size).unwrap());
            }
            peak = peak.max(blocks.blocks.slabs_touched());
            held.into_iter().for_each(|block| blocks.free(block));
        }
        assert!(peak <= (1 << 20) / SLAB + CLASSES);
    }

    #[test]
    fn a_larger_block_rather_than_none() {
        let mut blocks = Lab::new(0);
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
        fn blocks_never_overlap(steps in proptest::collection::vec((1usize..9000, any::<prop::sample::Index>(), any::<bool>()), 0..300)) {
            let mut blocks = Lab::new(1 << 18);
            // By start: end and the octet it is filled with.
            let mut held: BTreeMap<usize, (usize, u8)> = BTreeMap::new();
            for (number, (len, which, free)) in steps.into_iter().enumerate() {
                if free && !held.is_empty() {
                    let start = *which.get(&held.keys().copied().collect::<Vec<_>>());
                    held.remove(&start);
                    blocks.free((start / GRAIN) as u32);
                } else if let Some(block) = blocks.allocate(len) {
                    let start = block as usize * GRAIN;
                    let before = held.range(..=start).next_back();
                    prop_assert!(before.is_none_or(|(_, (end, _))| *end <= start));
                    let behind = held.range(start..).next();
                    prop_assert!(behind.is_none_or(|(other, _)| start + len <= *other));
                    blocks.octets[start..start + len].fill(number as u8);
                    held.insert(start, (start + len, number as u8));
                }
            }
            for (start, (end, fill)) in held {
                prop_assert!(blocks.octets[start..end].iter().all(|b| *b == fill));
            }
        }
    }
}
