//! Bytes that wait for a socket: a first-in first-out queue that takes memory only while there is something in it.
//!
//! They are kept in blocks, so that nothing is moved when more are added or the oldest are sent: a full socket leaves
//! megabytes here. The first block is small and comes from the allocator. The others come from the system and return to it
//! (see `mapping.rs`), but for a few that each thread keeps for its queues: a queue that fills and drains many times a second
//! would otherwise fault in the same pages again and again.

use crate::mapping::Mapping;
use std::cell::RefCell;
use std::collections::VecDeque;

/// Memory up to this is kept by an empty queue. Little, as there may be thousands of them.
const KEPT: usize = 4 << 10;
/// Bytes of each other block.
const BLOCK_LEN: usize = 64 << 10;
/// Blocks of that size that a thread keeps for all its queues: 4 MiB.
const SPARE_MAX: usize = 64;
/// Places for blocks that an empty queue keeps.
const BLOCKS_KEPT: usize = 8;
/// Bytes of the smallest page: blocks are counted in pages that were written to.
const PAGE_LEN: usize = 4 << 10;

thread_local! {
    /// Empty blocks of [`BLOCK_LEN`].
    static SPARE: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

/// Memory of a block.
#[derive(Debug)]
enum Memory {
    Heap(Box<[u8]>),
    System(Mapping),
}

/// Memory that is filled from its beginning.
#[derive(Debug)]
struct Block {
    memory: Memory,
    len: usize,
    /// Bytes that were ever written to.
    written: usize,
    /// How often something was pushed.
    pushes: usize,
    /// Bytes of the first push.
    first_len: usize,
}

impl Block {
    /// Returns an empty block for at least `len` bytes.
    fn take(len: usize) -> Self {
        let spare = if len == BLOCK_LEN { SPARE.with_borrow_mut(Vec::pop) } else { None };
        spare.unwrap_or_else(|| Block {
            memory: Memory::new(len),
            len: 0,
            written: 0,
            pushes: 0,
            first_len: 0,
        })
    }

    /// Keeps the block for other queues of this thread, or frees it.
    fn recycle(mut self) {
        SPARE.with_borrow_mut(|spare| {
            if self.capacity() == BLOCK_LEN && spare.len() < SPARE_MAX {
                self.clear();
                spare.push(self);
            }
        });
    }

    fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Heap(bytes) => bytes.len(),
            Memory::System(bytes) => bytes.len(),
        }
    }

    fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(bytes) => &bytes[..self.len],
            Memory::System(bytes) => &bytes[..self.len],
        }
    }

    const fn clear(&mut self) {
        (self.len, self.pushes, self.first_len) = (0, 0, 0);
    }

    fn push(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.append(part));
        if self.pushes == 0 {
            self.first_len = self.len;
        }
        self.pushes += 1;
    }

    fn append(&mut self, part: &[u8]) {
        let memory: &mut [u8] = match &mut self.memory {
            Memory::Heap(bytes) => bytes,
            Memory::System(bytes) => bytes,
        };
        memory[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
        self.written = self.written.max(self.len);
    }

    /// Bytes of memory behind it.
    fn memory_bytes(&self) -> usize {
        match &self.memory {
            Memory::Heap(bytes) => bytes.len(),
            Memory::System(_) => self.written.next_multiple_of(PAGE_LEN),
        }
    }
}

impl Memory {
    fn new(len: usize) -> Self {
        let heap = |len| Memory::Heap(vec![0; len].into_boxed_slice());
        if len <= KEPT {
            return heap(len);
        }
        // Without mappings left for this process the allocator may still have memory.
        Mapping::new(len.next_multiple_of(PAGE_LEN)).map_or_else(|_| heap(len), Memory::System)
    }
}

/// A queue of bytes. Its owner bounds it, as only the owner knows where packets end.
#[derive(Debug, Default)]
pub struct ByteQueue {
    /// Oldest first; each holds something, but for one that an empty queue keeps.
    blocks: VecDeque<Block>,
    /// Bytes of the first block that were consumed already.
    head: usize,
    len: usize,
    memory_bytes: usize,
}

impl ByteQueue {
    /// Bytes in it.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that it takes while something is in it.
    pub const fn memory_bytes(&self) -> usize {
        if self.len == 0 { 0 } else { self.memory_bytes }
    }

    /// True when nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What waits, oldest first. Octets that were pushed at once stand in one of these.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let head = |at| if at == 0 { self.head } else { 0 };
        self.blocks.iter().enumerate().map(move |(at, block)| &block.bytes()[head(at)..])
    }

    /// The oldest octets; at least those that were pushed at once.
    pub fn front(&self) -> &[u8] {
        self.slices().next().unwrap_or_default()
    }

    /// Adds octets at the end, which stay together.
    pub fn push(&mut self, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len == 0 {
            return;
        }
        if self.blocks.back().is_none_or(|block| block.capacity() - block.len < len) {
            if self.is_empty() {
                self.blocks.clear();
                self.memory_bytes = 0;
            }
            let usual = if self.blocks.is_empty() && len <= KEPT { KEPT } else { BLOCK_LEN };
            let block = Block::take(len.max(usual));
            self.memory_bytes += block.memory_bytes();
            self.blocks.push_back(block);
        }
        if let Some(block) = self.blocks.back_mut() {
            let before = block.memory_bytes();
            block.push(parts);
            self.memory_bytes += block.memory_bytes() - before;
        }
        self.len += len;
    }

    /// Drops the newest of what waits, but for what was pushed together with bytes that were consumed. `len_of` returns the length of
    /// what was pushed first of the bytes given; without it the first block stays as it is. Returns how many pushes were dropped.
    pub fn drop_newest(&mut self, mut len_of: impl FnMut(&[u8]) -> Option<usize>) -> usize {
        let mut dropped = 0;
        while self.blocks.len() > 1
            && let Some(last) = self.blocks.pop_back()
        {
            dropped += last.pushes;
            self.len -= last.len;
            self.memory_bytes -= last.memory_bytes();
            last.recycle();
        }
        let Some(first) = self.blocks.front_mut().filter(|first| first.len > 0) else { return dropped };
        let (mut end, mut kept) = (first.first_len, 1);
        while end < self.head {
            let Some(len) = len_of(&first.bytes()[end..]) else { return dropped };
            (end, kept) = (end + len, kept + 1);
        }
        if end < first.len {
            dropped += first.pushes - kept;
            self.len -= first.len - end;
            (first.len, first.pushes) = (end, kept);
            self.consume(0);
        }
        dropped
    }

    /// Takes octets off the front.
    pub fn consume(&mut self, len: usize) {
        assert!(len <= self.len, "only what waits can be consumed");
        self.len -= len;
        self.head += len;
        while let Some(mut first) = self.blocks.pop_front_if(|first| self.head >= first.len) {
            self.head -= first.len;
            if self.blocks.is_empty() && first.capacity() <= KEPT {
                first.clear();
                self.blocks.push_front(first);
                return;
            }
            self.memory_bytes -= first.memory_bytes();
            first.recycle();
        }
        if self.blocks.is_empty() && self.blocks.capacity() > BLOCKS_KEPT {
            self.blocks = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn as_a_deque(
            steps in proptest::collection::vec((0usize..300, 0usize..9000, 0usize..20_000), 0..200),
        ) {
            let (mut queue, mut model) = (ByteQueue::default(), VecDeque::new());
            let mut next = 0u8;
            for (first, second, consume) in steps {
                let bytes: Vec<u8> =
                    (0..first + second).map(|_| { next = next.wrapping_add(1); next }).collect();
                queue.push(&[&bytes[..first], &bytes[first..]]);
                model.extend(&bytes);
                let last = queue.slices().last().unwrap_or_default();
                prop_assert!(last.ends_with(&bytes), "what is pushed at once stays together");
                let consume = consume.min(model.len());
                queue.consume(consume);
                model.drain(..consume);
                prop_assert_eq!(queue.len(), model.len());
                let memory: usize = queue.blocks.iter().map(Block::memory_bytes).sum();
                prop_assert!(queue.is_empty() || queue.memory_bytes() == memory && memory >= model.len());
                prop_assert!(queue.slices().flatten().eq(model.iter()));
                prop_assert!(queue.is_empty() || !queue.front().is_empty());
            }
        }
    }

    #[test]
    fn empty_holds_little() {
        let mut queue = ByteQueue::default();
        for _ in 0..3 {
            for len in [1 << 20, 10, 3000] {
                queue.push(&[&vec![1; len]]);
            }
            queue.consume((1 << 20) + 3010);
            assert!(queue.blocks.iter().map(Block::capacity).sum::<usize>() <= KEPT);
            assert!(queue.memory_bytes() == 0 && queue.blocks.capacity() <= BLOCKS_KEPT);
        }
    }

    #[test]
    fn large_blocks_are_kept_for_others_but_not_all() {
        let fill = |queue: &mut ByteQueue| (0..100 * 8).for_each(|_| queue.push(&[&[1; 8000]]));
        let spare = || SPARE.with_borrow(Vec::len);
        let mut queues = [ByteQueue::default(), ByteQueue::default()];
        for queue in &mut queues {
            fill(queue);
            queue.consume(queue.len());
            assert_eq!(spare(), SPARE_MAX);
        }
        let [first, second] = &mut queues;
        fill(first);
        assert_eq!(spare(), 0);
        second.push(&[&[2; BLOCK_LEN]]);
        assert!(second.front().iter().all(|octet| *octet == 2) && second.len() == BLOCK_LEN);
    }

    #[test]
    fn many_wait_in_few_blocks() {
        let mut queue = ByteQueue::default();
        (0..1000).for_each(|_| queue.push(&[&[1; 100], &[2; 8400]]));
        assert!(queue.slices().count() < 160, "seven in each but the first");
    }

    proptest! {
        #[test]
        fn dropping_the_newest_leaves_whole_records(
            lens in proptest::collection::vec(1usize..9000, 1..60),
            consumed in 0usize..400_000,
        ) {
            let mut queue = ByteQueue::default();
            let record = |len: usize| [&(len as u32).to_ne_bytes()[..], &vec![len as u8; len]].concat();
            lens.iter().for_each(|len| queue.push(&[&record(*len)]));
            let consumed = consumed.min(queue.len() - 1);
            queue.consume(consumed);
            let len_of = |bytes: &[u8]| Some(4 + u32::from_ne_bytes(*bytes.first_chunk()?) as usize);
            let dropped = queue.drop_newest(len_of);
            let all: Vec<u8> = lens.iter().flat_map(|len| record(*len)).collect();
            let kept: Vec<u8> = lens[..lens.len() - dropped].iter().flat_map(|len| record(*len)).collect();
            let left: Vec<u8> = queue.slices().flatten().copied().collect();
            prop_assert_eq!(left.len(), queue.len());
            prop_assert!(all.starts_with(&kept) && kept[consumed.min(kept.len())..] == left[..]);
            prop_assert!(queue.len() <= 9004, "no more than the record that was begun");
            queue.push(&[b"after"]);
            prop_assert!(queue.slices().flatten().copied().collect::<Vec<u8>>().ends_with(b"after"));
        }
    }
}
