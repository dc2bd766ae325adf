//! Octets that wait for a socket: a first-in first-out queue that takes memory only while there is something in it.
//!
//! They stand in blocks, so that nothing is moved when more comes or the oldest go: a full socket leaves megabytes here. Large blocks are given back to
//! the thread's other queues; the system's allocator would return their pages and ask for them again, many times a second.

use std::cell::RefCell;
use std::collections::VecDeque;

/// Memory up to this is kept by an empty queue. Little, as there may be thousands of them.
const KEPT: usize = 4 << 10;
/// Each block is twice as large as the one before it, up to this.
const BLOCK_MAX: usize = 64 << 10;
/// Blocks of that size that a thread keeps for all its queues: 4 MiB.
const SPARE_MAX: usize = 64;

thread_local! {
    /// Empty blocks of the largest size.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty block with room for so much.
fn take_block(len: usize) -> Vec<u8> {
    let spare = if len == BLOCK_MAX { SPARE.with_borrow_mut(Vec::pop) } else { None };
    spare.unwrap_or_else(|| Vec::with_capacity(len))
}

fn give_back(mut block: Vec<u8>) {
    SPARE.with_borrow_mut(|spare| {
        if block.capacity() == BLOCK_MAX && spare.len() < SPARE_MAX {
            block.clear();
            spare.push(block);
        }
    });
}

/// A queue of octets. Its bound is its owner's to keep, as only the owner knows where packets end.
#[derive(Debug, Default)]
pub struct ByteQueue {
    /// Oldest first; each holds something, but for one that an empty queue keeps.
    blocks: VecDeque<Vec<u8>>,
    /// Octets of the first block that are gone already.
    head: usize,
    len: usize,
}

impl ByteQueue {
    /// Octets in it.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True when nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What waits, oldest first. Octets that were pushed at once stand in one of these.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.blocks.iter().enumerate().map(|(at, block)| if at == 0 { &block[self.head..] } else { block })
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
        let fill = |block: &mut Vec<u8>| parts.iter().for_each(|part| block.extend_from_slice(part));
        match self.blocks.back_mut() {
            Some(block) if block.capacity() - block.len() >= len => fill(block),
            last => {
                let twice = last.map_or(0, |block| 2 * block.capacity());
                let mut block = take_block(len.max(twice.clamp(KEPT, BLOCK_MAX)));
                fill(&mut block);
                if self.is_empty() {
                    self.blocks.clear();
                }
                self.blocks.push_back(block);
            }
        }
        self.len += len;
    }

    /// Takes octets off the front.
    pub fn consume(&mut self, len: usize) {
        assert!(len <= self.len, "only what waits can be consumed");
        self.len -= len;
        self.head += len;
        while let Some(mut first) = self.blocks.pop_front_if(|first| self.head >= first.len()) {
            self.head -= first.len();
            if self.blocks.is_empty() && first.capacity() <= KEPT {
                first.clear();
                self.blocks.push_front(first);
                return;
            }
            give_back(first);
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
            assert!(queue.blocks.iter().map(Vec::capacity).sum::<usize>() <= KEPT);
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
        second.push(&[&[2; BLOCK_MAX]]);
        assert!(second.front().iter().all(|octet| *octet == 2) && second.len() == BLOCK_MAX);
    }

    #[test]
    fn many_wait_in_few_blocks() {
        let mut queue = ByteQueue::default();
        (0..1000).for_each(|_| queue.push(&[&[1; 100], &[2; 8400]]));
        assert!(queue.slices().count() < 160, "seven in each but the first");
    }
}
