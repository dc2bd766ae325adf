//! Pseudo-random numbers: equal for equal seeds, on every machine and in every version.
//!
//! SplitMix64. Each node, link and application has its own stream, so adding one does not change
//! the numbers of the others.

use nw_packet_types::random::splitmix64;

/// The purpose of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Links of a generated topology.
    Topology = 1,
    /// Nodes that applications are placed at.
    Placement,
    /// Hash seeds of a node.
    Node,
    /// Loss on a link.
    Link,
    /// Names, nonces and pauses of an application.
    Application,
    /// Failures of links.
    LinkFailure,
    /// Failures of nodes.
    NodeFailure,
}

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    numbers: nw_packet_types::random::Random,
}

impl Random {
    /// Creates the stream of one part of a simulation.
    pub const fn new(seed: u64, stream: Stream, index: usize) -> Self {
        let of_stream = splitmix64(seed) ^ (stream as u64).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let of_part = splitmix64(of_stream) ^ (index as u64).wrapping_mul(0xa076_1d64_78bd_642f);
        Random { numbers: nw_packet_types::random::Random::new(of_part) }
    }

    /// Returns 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.numbers.next_u64()
    }

    /// Returns a number below `end`, which must not be 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.numbers.below(end)
    }

    /// Returns true with probability `ppb` / 10^9.
    pub const fn chance(&mut self, ppb: u32) -> bool {
        self.below(1_000_000_000) < ppb as u64
    }

    /// Returns a number from 0 (inclusive) to 1 (exclusive).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns an interval of a Poisson process with the given mean, in the same unit.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let first = |seed, stream, index| Random::new(seed, stream, index).next_u64();
        let all = [
            first(1, Stream::Link, 0),
            first(1, Stream::Link, 1),
            first(1, Stream::Node, 0),
            first(2, Stream::Link, 0),
        ];
        for (index, number) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|earlier| earlier != number));
        }
        assert_eq!(first(1, Stream::Link, 1), all[1]);
    }

    #[test]
    fn random_means_within_bounds() {
        let mut random = Random::new(7, Stream::Topology, 0);
        let mean = (0..100_000).map(|_| random.exponential(3.0)).sum::<f64>() / 1e5;
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
        let hits = (0..100_000).filter(|_| random.chance(10_000_000)).count();
        assert!((900..1100).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| random.below(3) < 3));
    }
}
