//! Octets that wait for a socket: a first-in first-out queue that takes memory only while there is something in it.

/// Memory up to this is kept by an empty queue. Little, as there may be thousands of them.
const KEPT: usize = 4 << 10;

/// A queue of octets. Its bound is its owner's to keep, as only the owner knows where packets end.
#[derive(Debug, Default)]
pub struct ByteQueue {
    bytes: Vec<u8>,
    /// Octets at the front that are gone already.
    head: usize,
}

impl ByteQueue {
    /// Octets in it.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.head
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What waits, oldest first.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.head..]
    }

    /// Adds octets at the end.
    pub fn push(&mut self, bytes: &[u8]) {
        // Moving costs no more than what was consumed since, so each octet is moved about once.
        if self.head > self.len() {
            self.bytes.drain(..self.head);
            self.head = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes octets off the front.
    pub fn consume(&mut self, len: usize) {
        assert!(len <= self.len(), "only what waits can be consumed");
        self.head += len;
        if self.is_empty() {
            self.head = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT {
                self.bytes = Vec::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn as_a_deque(steps in proptest::collection::vec((0usize..300, 0usize..300), 0..200)) {
            let (mut queue, mut model) = (ByteQueue::default(), VecDeque::new());
            let mut next = 0u8;
            for (push, consume) in steps {
                let bytes: Vec<u8> = (0..push).map(|_| { next = next.wrapping_add(1); next }).collect();
                queue.push(&bytes);
                model.extend(&bytes);
                let consume = consume.min(model.len());
                queue.consume(consume);
                model.drain(..consume);
                prop_assert!(queue.as_slice().iter().eq(model.iter()));
            }
        }
    }

    #[test]
    fn empty_holds_little() {
        let mut queue = ByteQueue::default();
        queue.push(&vec![1; 1 << 20]);
        queue.consume(1 << 20);
        assert!(queue.bytes.capacity() <= KEPT);
    }
}
