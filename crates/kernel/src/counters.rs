//! What the programs count.

use nw_wire::shard::Reason;

/// As `struct counters` of `bpf/ndn.h`: reasons, then shards.
pub(crate) const REASONS: usize = 16;
pub(crate) const SHARDS: usize = 64;
const NO_SOCKET: usize = 11;
const PASSED: usize = 12;
const FAILED: usize = 13;
const ONLY: usize = 14;

/// Packets that a program has seen since it was attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardCounters {
    reasons: [u64; REASONS],
    shards: Vec<u64>,
}

impl ShardCounters {
    pub(crate) fn new(shards: u8) -> Self {
        ShardCounters { reasons: [0; REASONS], shards: vec![0; usize::from(shards)] }
    }

    /// Adds what one processor counted.
    pub(crate) fn add(&mut self, counted: &[u64; REASONS + SHARDS]) {
        let (reasons, shards) = counted.split_at(REASONS);
        self.reasons.iter_mut().zip(reasons).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
        self.shards.iter_mut().zip(shards).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
    }

    /// Packets whose shard was chosen for this reason.
    pub fn reason(&self, reason: Reason) -> u64 {
        self.reasons[reason as usize]
    }

    /// Packets that were given to each shard's socket.
    pub fn shards(&self) -> &[u64] {
        &self.shards
    }

    /// Packets for whose shard there was no socket. The system chose one by the flow; under XDP, it got the frame.
    pub fn no_socket(&self) -> u64 {
        self.reasons[NO_SOCKET]
    }

    /// XDP: frames that were none of ours, and passed on.
    pub fn passed(&self) -> u64 {
        self.reasons[PASSED]
    }

    /// Packets that could not be read, or for which the program had no configuration: left to the system.
    pub fn failed(&self) -> u64 {
        self.reasons[FAILED]
    }

    /// XDP: packets of the only shard there is, which were not read to choose it.
    pub fn only(&self) -> u64 {
        self.reasons[ONLY]
    }

    /// All counters but those of the shards, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let rest = [
            ("no_socket", self.no_socket()),
            ("passed", self.passed()),
            ("failed", self.failed()),
            ("only", self.only()),
        ];
        Reason::ALL.iter().map(|reason| (reason.as_str(), self.reason(*reason))).chain(rest)
    }
}
