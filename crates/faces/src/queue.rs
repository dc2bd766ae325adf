//! Send queue: bytes that wait for a socket, first in, first out. It takes memory only while it is
//! not empty.
//!
//! ```text
//!  blocks: [4 KiB, heap] [64 KiB, mmap] [64 KiB, mmap] …     one push is always in one block
//! ```
//!
//! Bytes are stored in blocks, so that nothing is moved when more are added or the oldest are sent:
//! a full socket leaves megabytes here. The first block is small and comes from the allocator. The
//! others come from the kernel and return to it (see `mapping.rs`), except for a few that each
//! thread keeps for all its queues: a queue that fills and drains many times a second would
//! otherwise fault in the same pages again and again.

use crate::mapping::Mapping;
use nw_link::websocket::SendQueue;
use std::cell::RefCell;
use std::collections::VecDeque;

/// Bytes that an empty queue keeps at most: there may be thousands of queues.
const KEPT_MAX: usize = 4 << 10;
/// Bytes of each other block.
const BLOCK_LEN: usize = 64 << 10;
/// Empty blocks that a thread keeps for all its queues: 4 MiB.
const FREE_BLOCKS_MAX: usize = 64;
/// Capacity for blocks that an empty queue keeps.
const BLOCKS_KEPT: usize = 8;
/// Bytes of the smallest page: a block counts as the pages that were written.
const PAGE_LEN: usize = 4 << 10;

thread_local! {
    /// Empty blocks of [`BLOCK_LEN`].
    static FREE_BLOCKS: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

/// Memory of a block.
#[derive(Debug)]
enum Memory {
    Heap(Box<[u8]>),
    System(Mapping),
}

/// Memory that is filled from its start.
#[derive(Debug)]
struct Block {
    memory: Memory,
    len: usize,
    /// Highest number of bytes ever written.
    written: usize,
    /// Number of pushes into it.
    pushes: usize,
    /// Bytes of the first push.
    first_len: usize,
}

impl Block {
    /// Returns an empty block for at least `len` bytes.
    fn take(len: usize) -> Self {
        let free_blocks =
            if len == BLOCK_LEN { FREE_BLOCKS.with_borrow_mut(Vec::pop) } else { None };
        free_blocks.unwrap_or_else(|| Block {
            memory: Memory::new(len),
            len: 0,
            written: 0,
            pushes: 0,
            first_len: 0,
        })
    }

    /// Keeps the block for other queues of this thread, or frees it.
    fn recycle(mut self) {
        FREE_BLOCKS.with_borrow_mut(|free_blocks| {
            if self.capacity() == BLOCK_LEN && free_blocks.len() < FREE_BLOCKS_MAX {
                self.clear();
                free_blocks.push(self);
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

    /// Returns the bytes of memory that it takes.
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
        if len <= KEPT_MAX {
            return heap(len);
        }
        // If this process has no mappings left, the allocator may still have memory.
        Mapping::new(len.next_multiple_of(PAGE_LEN)).map_or_else(|_| heap(len), Memory::System)
    }
}

/// A queue of bytes. Its user bounds it, as only the user knows where packets end.
#[derive(Debug, Default)]
pub struct ByteQueue {
    /// Oldest first; none is empty, except one that an empty queue keeps.
    blocks: VecDeque<Block>,
    /// Bytes of the first block that were consumed.
    head: usize,
    len: usize,
    memory_bytes: usize,
}

impl ByteQueue {
    /// Returns the bytes queued.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes of memory that it takes; 0 if empty.
    pub const fn memory_bytes(&self) -> usize {
        if self.len == 0 { 0 } else { self.memory_bytes }
    }

    /// Returns whether it is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the queued bytes, oldest first. Bytes pushed at once are in one slice.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let head = |at| if at == 0 { self.head } else { 0 };
        self.blocks.iter().enumerate().map(move |(at, block)| &block.bytes()[head(at)..])
    }

    /// Returns the oldest bytes: at least those of the first push.
    pub fn front(&self) -> &[u8] {
        self.slices().next().unwrap_or_default()
    }

    /// Appends bytes, which stay contiguous.
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
            let block_len =
                if self.blocks.is_empty() && len <= KEPT_MAX { KEPT_MAX } else { BLOCK_LEN };
            let block = Block::take(len.max(block_len));
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

    /// Drops all pushes except those that were consumed in part or are contiguous with consumed
    /// bytes. `len_of` returns the length of the first push in the given bytes; without it the
    /// first block stays unchanged. Returns how many pushes were dropped.
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
        let Some(first) = self.blocks.front_mut().filter(|first| first.len > 0) else {
            return dropped;
        };
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

    /// Removes bytes from the front.
    pub fn consume(&mut self, len: usize) {
        assert!(len <= self.len, "only what waits can be consumed");
        self.len -= len;
        self.head += len;
        while let Some(mut first) = self.blocks.pop_front_if(|first| self.head >= first.len) {
            self.head -= first.len;
            if self.blocks.is_empty() && first.capacity() <= KEPT_MAX {
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

impl SendQueue for ByteQueue {
    fn queued_len(&self) -> usize {
        self.len
    }

    fn push_frame(&mut self, parts: &[&[u8]]) {
        self.push(parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn queue_equals_deque(
            steps in proptest::collection::vec((0usize..300, 0usize..9000, 0usize..20_000), 0..200),
        ) {
            let (mut queue, mut model) = (ByteQueue::default(), VecDeque::<u8>::new());
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
    fn empty_queue_holds_little_memory() {
        let mut queue = ByteQueue::default();
        for _ in 0..3 {
            for len in [1 << 20, 10, 3000] {
                queue.push(&[&vec![1; len]]);
            }
            queue.consume((1 << 20) + 3010);
            assert!(queue.blocks.iter().map(Block::capacity).sum::<usize>() <= KEPT_MAX);
            assert!(queue.memory_bytes() == 0 && queue.blocks.capacity() <= BLOCKS_KEPT);
        }
    }

    #[test]
    fn free_blocks_are_kept_up_to_a_bound() {
        let fill = |queue: &mut ByteQueue| (0..100 * 8).for_each(|_| queue.push(&[&[1; 8000]]));
        let free_blocks = || FREE_BLOCKS.with_borrow(Vec::len);
        let mut queues = [ByteQueue::default(), ByteQueue::default()];
        for queue in &mut queues {
            fill(queue);
            queue.consume(queue.len());
            assert_eq!(free_blocks(), FREE_BLOCKS_MAX);
        }
        let [first, second] = &mut queues;
        fill(first);
        assert_eq!(free_blocks(), 0);
        second.push(&[&[2; BLOCK_LEN]]);
        assert!(second.front().iter().all(|byte| *byte == 2) && second.len() == BLOCK_LEN);
    }

    #[test]
    fn many_pushes_share_blocks() {
        let mut queue = ByteQueue::default();
        (0..1000).for_each(|_| queue.push(&[&[1; 100], &[2; 8400]]));
        assert!(queue.slices().count() < 160, "seven in each but the first");
    }

    proptest! {
        #[test]
        fn drop_newest_leaves_whole_records(
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
