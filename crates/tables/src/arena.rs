//! Storage for packets: chains of blocks of equal size.
//!
//! Links are in an array of their own, so a chain is followed without touching the blocks. The
//! chain freed last is reused as a whole by the next packet of as many blocks: its lines are cached
//! and no link is written. Other chains return to the free list in order, so adjacent blocks stay
//! adjacent while packets have similar sizes, and copying a packet out takes few copies. Blocks
//! never used take no memory; freed ones are reused before new ones are touched.
//!
//! Main invariant: every block below `high_water` is in exactly one chain: of a packet,
//! `last_freed` or `free`.

use crate::bytes;
use crate::memory::{MmapArray, prefetch_first_last, prefetch_first_last_l1};

/// The end of a chain; no block.
pub const NONE: u32 = u32::MAX;

/// Bytes of the first block that [`BlockArena::prefetch`] prefetches.
const PREFETCH_LEN: usize = 128;

/// An arena of chains of blocks of `N` bytes.
#[derive(Debug)]
pub struct BlockArena<const N: usize> {
    blocks: MmapArray<[u8; N]>,
    /// The next block in the chain; undefined for the last block of a chain.
    links: MmapArray<u32>,
    /// The chain freed last.
    last_freed: Chain,
    /// All chains freed before it, concatenated.
    free: u32,
    /// The first block never used.
    high_water: u32,
    in_use: u32,
}

/// A chain of `blocks` blocks; 0 if there is none.
#[derive(Clone, Copy, Debug)]
struct Chain {
    head: u32,
    blocks: u32,
}

impl<const N: usize> BlockArena<N> {
    /// Creates an arena of `blocks_max` blocks, at most 2^32 - 1.
    pub fn new(blocks_max: usize) -> Self {
        let blocks_max = blocks_max.min(NONE as usize);
        BlockArena {
            blocks: MmapArray::new(blocks_max),
            links: MmapArray::new(blocks_max),
            last_freed: Chain { head: NONE, blocks: 0 },
            free: NONE,
            high_water: 0,
            in_use: 0,
        }
    }

    /// Returns the number of blocks for `len` bytes: at least 1.
    #[inline]
    pub const fn blocks_for(len: usize) -> usize {
        if len == 0 { 1 } else { len.div_ceil(N) }
    }

    /// Returns the number of blocks.
    pub fn capacity(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the number of blocks in use.
    #[inline]
    pub const fn in_use(&self) -> usize {
        self.in_use as usize
    }

    /// Returns the bytes of address space reserved; resident memory is at most this.
    pub fn memory_bytes(&self) -> usize {
        self.blocks.memory_bytes() + self.links.memory_bytes()
    }

    /// Stores a copy of `bytes`. Returns the head of its chain; `None` if there are too few free
    /// blocks.
    #[inline]
    pub fn store(&mut self, bytes: &[u8]) -> Option<u32> {
        let blocks = Self::blocks_for(bytes.len()) as u32;
        let head = if blocks == self.last_freed.blocks {
            self.last_freed.blocks = 0;
            self.last_freed.head
        } else {
            self.alloc_chain(blocks)?
        };
        self.in_use += blocks;
        self.overwrite(head, bytes);
        Some(head)
    }

    /// Overwrites a chain with bytes that take the same number of blocks.
    #[inline(always)]
    pub fn overwrite(&mut self, head: u32, bytes: &[u8]) {
        if bytes.len() <= N {
            bytes::copy(bytes, &mut self.blocks[head as usize]);
        } else {
            self.write_chain(head, bytes);
        }
    }

    /// Writes bytes along a chain.
    fn write_chain(&mut self, head: u32, bytes: &[u8]) {
        let (mut block, mut remaining) = (head as usize, bytes);
        // Copies of constant length compile to a few wide moves.
        while let Some((block_bytes, tail)) = remaining.split_first_chunk::<N>() {
            self.blocks[block] = *block_bytes;
            remaining = tail;
            if remaining.is_empty() {
                return;
            }
            block = self.links[block] as usize;
        }
        bytes::copy(remaining, &mut self.blocks[block]);
    }

    /// Allocates a chain of at least 1 block.
    #[cold]
    fn alloc_chain(&mut self, blocks: u32) -> Option<u32> {
        if blocks as usize > self.blocks.len() - self.in_use() {
            return None;
        }
        let last_freed = core::mem::replace(&mut self.last_freed, Chain { head: NONE, blocks: 0 });
        self.prepend_to_free(last_freed);
        let head = self.alloc_block();
        let mut last = head;
        for _ in 1..blocks {
            let block = self.alloc_block();
            self.links[last as usize] = block;
            last = block;
        }
        Some(head)
    }

    /// Takes a free block, which must exist.
    #[inline]
    fn alloc_block(&mut self) -> u32 {
        let block = self.free;
        if block == NONE {
            self.high_water += 1;
            return self.high_water - 1;
        }
        self.free = self.links[block as usize];
        block
    }

    /// Frees the chain of a packet of `len` bytes.
    #[inline]
    pub fn free(&mut self, head: u32, len: usize) {
        let blocks = Self::blocks_for(len) as u32;
        self.in_use -= blocks;
        let previous = core::mem::replace(&mut self.last_freed, Chain { head, blocks });
        if previous.blocks > 0 {
            self.prepend_to_free(previous);
        }
    }

    /// Prepends a chain to the free blocks.
    fn prepend_to_free(&mut self, chain: Chain) {
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

    /// Returns the first `len` bytes of a chain as slices, one per run of adjacent blocks.
    #[inline]
    pub fn runs(&self, head: u32, len: usize) -> Runs<'_, N> {
        Runs { arena: self, block: head, remaining: len }
    }

    /// Copies the first `out.len()` bytes of a chain, at most as many as are stored in it.
    #[inline]
    pub fn copy_to(&self, head: u32, out: &mut [u8]) {
        if out.len() <= N {
            return bytes::copy(&self.blocks[head as usize][..out.len()], out);
        }
        let mut position = 0;
        for run in self.runs(head, out.len()) {
            bytes::copy(run, &mut out[position..]);
            position += run.len();
        }
    }

    /// Replaces the content of `out` with `len` bytes of a chain from `offset` on.
    pub fn gather(&self, head: u32, offset: usize, len: usize, out: &mut Vec<u8>) {
        out.clear();
        let mut skip = offset;
        for run in self.runs(head, offset + len) {
            let skipped = skip.min(run.len());
            skip -= skipped;
            out.extend_from_slice(&run[skipped..]);
        }
    }

    /// Returns how many bytes of a chain from `offset` on equal the first bytes of `bytes`. Behind
    /// the stored bytes a chain has undefined content: the caller must not pass more bytes than are
    /// stored.
    pub fn common_len(&self, head: u32, offset: usize, bytes: &[u8]) -> usize {
        let (mut skip, mut position) = (offset, 0);
        for run in self.runs(head, offset + bytes.len()) {
            let skipped = skip.min(run.len());
            skip -= skipped;
            let run = &run[skipped..];
            let expected = &bytes[position..position + run.len()];
            if run != expected {
                return position + run.iter().zip(expected).take_while(|(a, b)| a == b).count();
            }
            position += run.len();
        }
        position
    }

    /// Returns whether the bytes of a chain from `offset` on equal `bytes`.
    #[inline]
    pub fn eq_at(&self, head: u32, offset: usize, bytes: &[u8]) -> bool {
        let end = offset + bytes.len();
        if end <= N {
            return bytes::eq(&self.blocks[head as usize][offset..end], bytes);
        }
        self.common_len(head, offset, bytes) == bytes.len()
    }

    /// Prefetches the beginning of a chain.
    #[inline(always)]
    pub fn prefetch(&self, head: u32) {
        if let Some(block) = self.blocks.get(head as usize) {
            prefetch_first_last(&block[..N.min(PREFETCH_LEN)]);
        }
    }

    /// Prefetches the beginning of a chain of `len` bytes into the first-level cache: for few
    /// chains that are written soon.
    #[inline(always)]
    pub fn prefetch_l1(&self, head: u32, len: usize) {
        if let Some(block) = self.blocks.get(head as usize) {
            prefetch_first_last_l1(&block[..len.min(N).min(PREFETCH_LEN)]);
        }
    }
}

/// Iterator over the bytes of a chain as slices.
#[derive(Debug)]
pub struct Runs<'a, const N: usize> {
    arena: &'a BlockArena<N>,
    block: u32,
    remaining: usize,
}

impl<'a, const N: usize> Iterator for Runs<'a, N> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.remaining == 0 || self.block == NONE {
            return None;
        }
        let first = self.block as usize;
        let mut end = first + 1;
        let mut run_len = N;
        while run_len < self.remaining {
            self.block = self.arena.links[end - 1];
            if self.block as usize != end {
                break;
            }
            end += 1;
            run_len += N;
        }
        let len = run_len.min(self.remaining);
        self.remaining -= len;
        Some(&self.arena.blocks[first..end].as_flattened()[..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arena_freed_chain_is_reused() {
        let mut arena = BlockArena::<16>::new(4);
        let long = arena.store(&[1; 33]).unwrap();
        assert_eq!(arena.in_use(), 3);
        assert_eq!(arena.store(&[2; 17]), None);
        let short = arena.store(&[]).unwrap();
        assert_eq!(arena.store(&[]), None);
        arena.free(long, 33);
        let again = arena.store(&[3; 48]).unwrap();
        assert_eq!(again, long, "the blocks freed last are reused first, in their order");
        assert_eq!(arena.runs(again, 48).count(), 1, "and are still adjacent");
        arena.free(short, 0);
        arena.free(again, 48);
        assert_eq!(arena.in_use(), 0);
    }

    #[test]
    fn arena_without_blocks_store_returns_none() {
        assert_eq!(BlockArena::<16>::new(0).store(&[]), None);
    }

    proptest! {
        /// After any sequence of stores and frees, every chain has the bytes stored in it.
        #[test]
        fn arena_any_operations_chains_keep_bytes(
            steps in proptest::collection::vec((any::<bool>(), 0..90usize, any::<u8>()), 1..200),
        ) {
            let mut arena = BlockArena::<16>::new(40);
            let mut model: Vec<(u32, Vec<u8>)> = Vec::new();
            for (store, size, seed) in steps {
                if store {
                    let bytes: Vec<u8> =
                        (0..size).map(|i| (i as u8).wrapping_mul(7).wrapping_add(seed)).collect();
                    let used: usize =
                        model.iter().map(|(_, b)| BlockArena::<16>::blocks_for(b.len())).sum();
                    let head = arena.store(&bytes);
                    prop_assert_eq!(
                        head.is_some(),
                        used + BlockArena::<16>::blocks_for(size) <= 40
                    );
                    model.extend(head.map(|head| (head, bytes)));
                } else if !model.is_empty() {
                    let (head, bytes) = model.swap_remove(size % model.len());
                    arena.free(head, bytes.len());
                }
                for (head, bytes) in &model {
                    let mut out = vec![0; bytes.len()];
                    arena.copy_to(*head, &mut out);
                    prop_assert_eq!(&out, bytes);
                    let split = bytes.len() / 3;
                    prop_assert!(arena.eq_at(*head, split, &bytes[split..]));
                    if let Some(last) = out.last_mut() {
                        *last ^= 1;
                        prop_assert!(!arena.eq_at(*head, split, &out[split..]));
                        prop_assert_eq!(
                            arena.common_len(*head, split, &out[split..]),
                            bytes.len() - split - 1
                        );
                    }
                }
            }
            prop_assert_eq!(
                arena.in_use(),
                model.iter().map(|(_, b)| BlockArena::<16>::blocks_for(b.len())).sum::<usize>()
            );
        }
    }
}
