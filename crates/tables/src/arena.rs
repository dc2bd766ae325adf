//! Octets of many packets in blocks of equal size: a packet is a chain of blocks.
//!
//! Links stand in an array of their own, so a chain is found without touching the blocks. A chain is used again as a whole by the next packet of
//! as many blocks: its lines are warm and no link is written. Others go back and come out in the same order: blocks that were neighbours stay
//! neighbours as long as packets are of similar sizes, and a copy out is few copies.
//! Blocks never used take no resident memory; freed ones are used again before others are touched.

use crate::memory::{Lines, prefetch_ends, prefetch_ends_soon};
use crate::octets::{self, are_same};

/// No block; ends chains.
pub const NONE: u32 = u32::MAX;

/// Octets of a block's beginning that [`BlockArena::prefetch`] asks for.
const PREFETCH_LEN: usize = 128;

/// Chains of blocks of `N` octets.
#[derive(Debug)]
pub struct BlockArena<const N: usize> {
    blocks: Lines<[u8; N]>,
    /// The next block of each but the last of a chain, where anything may stand.
    links: Lines<u32>,
    /// The chain freed last.
    spare: Chain,
    /// The chains freed before it, joined.
    free: u32,
    /// The first block never used.
    untouched: u32,
    in_use: u32,
}

/// A chain of so many blocks; of none at all.
#[derive(Clone, Copy, Debug)]
struct Chain {
    head: u32,
    blocks: u32,
}

impl<const N: usize> BlockArena<N> {
    /// Of so many blocks, at most 2^32 - 1.
    pub fn new(blocks_max: usize) -> Self {
        let blocks_max = blocks_max.min(NONE as usize);
        BlockArena {
            blocks: Lines::new(blocks_max),
            links: Lines::new(blocks_max),
            spare: Chain { head: NONE, blocks: 0 },
            free: NONE,
            untouched: 0,
            in_use: 0,
        }
    }

    /// Blocks that `len` octets take: one at least.
    #[inline]
    pub const fn blocks_for(len: usize) -> usize {
        if len == 0 { 1 } else { len.div_ceil(N) }
    }

    /// Blocks there are.
    pub fn capacity(&self) -> usize {
        self.blocks.len()
    }

    /// Blocks in chains.
    #[inline]
    pub const fn in_use(&self) -> usize {
        self.in_use as usize
    }

    /// Address space taken, octets; resident memory is at most this.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.memory_bytes() + self.links.memory_bytes()
    }

    /// Keeps a copy; gives the head of its chain, or `None` when there are too few free blocks.
    #[inline]
    pub fn store(&mut self, bytes: &[u8]) -> Option<u32> {
        let blocks = Self::blocks_for(bytes.len()) as u32;
        let head = if blocks == self.spare.blocks {
            self.spare.blocks = 0;
            self.spare.head
        } else {
            self.take(blocks)?
        };
        self.in_use += blocks;
        self.overwrite(head, bytes);
        Some(head)
    }

    /// Puts other octets, of as many blocks, into a chain.
    #[inline(always)]
    pub fn overwrite(&mut self, head: u32, bytes: &[u8]) {
        if bytes.len() <= N {
            octets::copy(bytes, &mut self.blocks[head as usize]);
        } else {
            self.fill(head, bytes);
        }
    }

    /// Writes along a chain of blocks.
    fn fill(&mut self, head: u32, bytes: &[u8]) {
        let (mut block, mut rest) = (head as usize, bytes);
        // Whole blocks are copies of constant length, which compile to a few wide moves.
        while let Some((whole, behind)) = rest.split_first_chunk::<N>() {
            self.blocks[block] = *whole;
            rest = behind;
            if rest.is_empty() {
                return;
            }
            block = self.links[block] as usize;
        }
        octets::copy(rest, &mut self.blocks[block]);
    }

    /// A chain of so many blocks, one at least.
    #[cold]
    fn take(&mut self, blocks: u32) -> Option<u32> {
        if blocks as usize > self.blocks.len() - self.in_use() {
            return None;
        }
        let spare = core::mem::replace(&mut self.spare, Chain { head: NONE, blocks: 0 });
        self.join(spare);
        let head = self.take_block();
        let mut last = head;
        for _ in 1..blocks {
            let block = self.take_block();
            self.links[last as usize] = block;
            last = block;
        }
        Some(head)
    }

    /// A free block; the caller made sure that there is one.
    #[inline]
    fn take_block(&mut self) -> u32 {
        let block = self.free;
        if block == NONE {
            self.untouched += 1;
            return self.untouched - 1;
        }
        self.free = self.links[block as usize];
        block
    }

    /// Gives back the whole chain that `len` octets took.
    #[inline]
    pub fn free(&mut self, head: u32, len: usize) {
        let blocks = Self::blocks_for(len) as u32;
        self.in_use -= blocks;
        let former = core::mem::replace(&mut self.spare, Chain { head, blocks });
        if former.blocks > 0 {
            self.join(former);
        }
    }

    /// Puts a chain before the free blocks.
    fn join(&mut self, chain: Chain) {
        if chain.blocks == 0 {
            return;
        }
        let mut last = chain.head as usize;
        for _ in 1..chain.blocks {
            last = self.links[last] as usize;
        }
        self.links[last] = self.free;
        self.free = chain.head;
    }

    /// The first `len` octets of a chain, as slices over runs of neighbouring blocks.
    #[inline]
    pub fn runs(&self, head: u32, len: usize) -> Runs<'_, N> {
        Runs { arena: self, block: head, left: len }
    }

    /// Copies the first octets of a chain, as many as `out` holds and the chain was given.
    #[inline]
    pub fn copy_to(&self, head: u32, out: &mut [u8]) {
        if out.len() <= N {
            return octets::copy(&self.blocks[head as usize][..out.len()], out);
        }
        let mut at = 0;
        for run in self.runs(head, out.len()) {
            octets::copy(run, &mut out[at..]);
            at += run.len();
        }
    }

    /// Puts `len` octets of a chain from `offset` on into `out`, instead of what was there.
    pub fn gather(&self, head: u32, offset: usize, len: usize, out: &mut Vec<u8>) {
        out.clear();
        let mut skip = offset;
        for run in self.runs(head, offset + len) {
            let passed = skip.min(run.len());
            skip -= passed;
            out.extend_from_slice(&run[passed..]);
        }
    }

    /// How many octets of a chain from `offset` on equal the first ones of `bytes`. What lies behind the octets that were stored is whatever a
    /// former packet left there: the caller limits `bytes` to what the chain holds.
    pub fn common_len(&self, head: u32, offset: usize, bytes: &[u8]) -> usize {
        let (mut skip, mut at) = (offset, 0);
        for run in self.runs(head, offset + bytes.len()) {
            let passed = skip.min(run.len());
            skip -= passed;
            let run = &run[passed..];
            let here = &bytes[at..at + run.len()];
            if run != here {
                return at + run.iter().zip(here).take_while(|(a, b)| a == b).count();
            }
            at += run.len();
        }
        at
    }

    /// True when the octets of a chain from `offset` on are `bytes`.
    #[inline]
    pub fn holds(&self, head: u32, offset: usize, bytes: &[u8]) -> bool {
        let end = offset + bytes.len();
        if end <= N {
            return are_same(&self.blocks[head as usize][offset..end], bytes);
        }
        self.common_len(head, offset, bytes) == bytes.len()
    }

    /// Asks for the beginning of a chain without waiting for it.
    #[inline(always)]
    pub fn prefetch(&self, head: u32) {
        if let Some(block) = self.blocks.get(head as usize) {
            prefetch_ends(&block[..N.min(PREFETCH_LEN)]);
        }
    }

    /// As [`prefetch`](Self::prefetch), of a chain that holds so many octets, into the nearest cache: for few chains, which are written soon.
    #[inline(always)]
    pub fn prefetch_soon(&self, head: u32, len: usize) {
        if let Some(block) = self.blocks.get(head as usize) {
            prefetch_ends_soon(&block[..len.min(N).min(PREFETCH_LEN)]);
        }
    }
}

/// Slices of a chain.
#[derive(Debug)]
pub struct Runs<'a, const N: usize> {
    arena: &'a BlockArena<N>,
    block: u32,
    left: usize,
}

impl<'a, const N: usize> Iterator for Runs<'a, N> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.left == 0 || self.block == NONE {
            return None;
        }
        let first = self.block as usize;
        let mut end = first + 1;
        let mut room = N;
        while room < self.left {
            self.block = self.arena.links[end - 1];
            if self.block as usize != end {
                break;
            }
            end += 1;
            room += N;
        }
        let len = room.min(self.left);
        self.left -= len;
        Some(&self.arena.blocks[first..end].as_flattened()[..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn chains_are_bounded_and_used_again() {
        let mut arena = BlockArena::<16>::new(4);
        let long = arena.store(&[1; 33]).unwrap();
        assert_eq!(arena.in_use(), 3);
        assert_eq!(arena.store(&[2; 17]), None);
        let short = arena.store(&[]).unwrap();
        assert_eq!(arena.store(&[]), None);
        arena.free(long, 33);
        let again = arena.store(&[3; 48]).unwrap();
        assert_eq!(again, long, "the blocks freed last come first, in their order");
        assert_eq!(arena.runs(again, 48).count(), 1, "and are still neighbours");
        arena.free(short, 0);
        arena.free(again, 48);
        assert_eq!(arena.in_use(), 0);
    }

    #[test]
    fn an_arena_without_blocks_keeps_nothing() {
        assert_eq!(BlockArena::<16>::new(0).store(&[]), None);
    }

    proptest! {
        /// Whatever was stored and freed before, chains hold what they were given.
        #[test]
        fn chains_hold_their_octets(steps in proptest::collection::vec((any::<bool>(), 0..90usize, any::<u8>()), 1..200)) {
            let mut arena = BlockArena::<16>::new(40);
            let mut model: Vec<(u32, Vec<u8>)> = Vec::new();
            for (store, size, seed) in steps {
                if store {
                    let bytes: Vec<u8> = (0..size).map(|i| (i as u8).wrapping_mul(7).wrapping_add(seed)).collect();
                    let used: usize = model.iter().map(|(_, b)| BlockArena::<16>::blocks_for(b.len())).sum();
                    let head = arena.store(&bytes);
                    prop_assert_eq!(head.is_some(), used + BlockArena::<16>::blocks_for(size) <= 40);
                    model.extend(head.map(|head| (head, bytes)));
                } else if !model.is_empty() {
                    let (head, bytes) = model.swap_remove(size % model.len());
                    arena.free(head, bytes.len());
                }
                for (head, bytes) in &model {
                    let mut out = vec![0; bytes.len()];
                    arena.copy_to(*head, &mut out);
                    prop_assert_eq!(&out, bytes);
                    let middle = bytes.len() / 3;
                    prop_assert!(arena.holds(*head, middle, &bytes[middle..]));
                    if let Some(last) = out.last_mut() {
                        *last ^= 1;
                        prop_assert!(!arena.holds(*head, middle, &out[middle..]));
                        prop_assert_eq!(arena.common_len(*head, middle, &out[middle..]), bytes.len() - middle - 1);
                    }
                }
            }
            prop_assert_eq!(arena.in_use(), model.iter().map(|(_, b)| BlockArena::<16>::blocks_for(b.len())).sum::<usize>());
        }
    }
}
