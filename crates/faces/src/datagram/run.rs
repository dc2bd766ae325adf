//! Runs of datagrams that one message takes (GSO), of faces and of services without faces.

use super::{RUN_BYTES_MAX, RUN_MAX};

/// Datagrams of one message: equal lengths, the last may be shorter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    len: usize,
    count: usize,
    bytes: usize,
    /// Whether the last datagram is shorter, so that none may follow.
    is_closed: bool,
}

impl Run {
    /// Begins a run with a datagram of a length.
    pub const fn start(len: usize) -> Self {
        Run { len, count: 1, bytes: len, is_closed: false }
    }

    /// Returns whether a datagram of a length may follow.
    pub const fn admits(&self, len: usize) -> bool {
        let fits = self.count < RUN_MAX && self.bytes + len <= RUN_BYTES_MAX;
        fits && !self.is_closed && len > 0 && len <= self.len
    }

    /// Adds a datagram of a length that the run [admits](Self::admits).
    pub const fn extend(&mut self, len: usize) {
        self.count += 1;
        self.bytes += len;
        self.is_closed = len < self.len;
    }

    /// Returns the length of all datagrams but the last.
    pub const fn datagram_len(&self) -> usize {
        self.len
    }

    /// Returns the number of datagrams.
    pub const fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_has_equal_lengths_except_last() {
        let lengths_in_run = |lengths: &[usize]| {
            let mut run = Run::start(lengths[0]);
            let follows = |len: &&usize| {
                let admits = run.admits(**len);
                run.extend(**len);
                admits
            };
            1 + lengths[1..].iter().take_while(follows).count()
        };
        assert_eq!(lengths_in_run(&[100, 100, 100]), 3);
        assert_eq!(lengths_in_run(&[100, 100, 40, 40]), 3);
        assert_eq!(lengths_in_run(&[100, 101]), 1);
        assert_eq!(lengths_in_run(&[100, 0]), 1);
        assert_eq!(lengths_in_run(&[100; 100]), RUN_MAX);
        assert_eq!(lengths_in_run(&[9000; 100]), 7);
    }
}
