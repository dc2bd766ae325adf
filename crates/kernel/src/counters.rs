//! The counters of the shard programs.

use nw_wire::shard::Reason;

/// The layout of `struct counters` in `bpf/ndn.h`: reasons, then shards.
pub(crate) const REASONS: usize = 16;
pub(crate) const SHARDS: usize = 64;
const NO_SOCKET: usize = 11;
const PASSED: usize = 12;
const FAILED: usize = 13;
const ONLY: usize = 14;

/// The packets that a program has seen since it was attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardCounters {
    reasons: [u64; REASONS],
    shards: Vec<u64>,
}

impl ShardCounters {
    pub(crate) fn new(shards: u8) -> Self {
        ShardCounters { reasons: [0; REASONS], shards: vec![0; usize::from(shards)] }
    }

    /// Adds the counters of one CPU.
    pub(crate) fn add(&mut self, counted: &[u64; REASONS + SHARDS]) {
        let (reasons, shards) = counted.split_at(REASONS);
        self.reasons
            .iter_mut()
            .zip(reasons)
            .for_each(|(sum, count)| *sum = sum.wrapping_add(*count));
        self.shards.iter_mut().zip(shards).for_each(|(sum, count)| *sum = sum.wrapping_add(*count));
    }

    /// Returns the packets whose shard was chosen for this reason.
    pub fn reason(&self, reason: Reason) -> u64 {
        self.reasons[reason as usize]
    }

    /// Returns the packets given to each shard's socket.
    pub fn shards(&self) -> &[u64] {
        &self.shards
    }

    /// Returns the packets whose shard had no socket. The system distributed them by flow; with
    /// XDP, the system received them.
    pub fn no_socket(&self) -> u64 {
        self.reasons[NO_SOCKET]
    }

    /// XDP: returns the frames that are not NDN's, and were passed to the system.
    pub fn passed(&self) -> u64 {
        self.reasons[PASSED]
    }

    /// Returns the packets that could not be read, or that found no configuration: left to the
    /// system.
    pub fn failed(&self) -> u64 {
        self.reasons[FAILED]
    }

    /// XDP: returns the packets given to the only shard, without parsing them.
    pub fn only(&self) -> u64 {
        self.reasons[ONLY]
    }

    /// Returns all counters except those of the shards, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let others = [
            ("no_socket", self.no_socket()),
            ("passed", self.passed()),
            ("failed", self.failed()),
            ("only", self.only()),
        ];
        Reason::ALL.iter().map(|reason| (reason.as_str(), self.reason(*reason))).chain(others)
    }
}
