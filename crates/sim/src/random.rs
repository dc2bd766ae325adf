//! Numbers that look random and are the same for a seed, on every machine and in every version.
//!
//! SplitMix64. Each node, link and application draws from a stream of its own, so that one more of them changes nothing for the others.

/// Whose numbers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Stream {
    /// Shape of a generated topology.
    Topology = 1,
    /// Where applications are put.
    Places,
    /// Tables of a node.
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

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of one part of a simulation.
    pub const fn new(seed: u64, stream: Stream, index: usize) -> Self {
        let mut random = Random { state: seed };
        random.state = random.next_u64() ^ (stream as u64).wrapping_mul(0xd6e8_feb8_6659_fd93);
        random.state = random.next_u64() ^ (index as u64).wrapping_mul(0xa076_1d64_78bd_642f);
        random
    }

    /// 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`, which is not 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.next_u64() as u128 * end as u128) >> 64) as u64
    }

    /// True in so many of 10^9 cases.
    pub const fn chance(&mut self, ppb: u32) -> bool {
        self.below(1_000_000_000) < ppb as u64
    }

    /// From 0 to less than 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A pause of a Poisson process, of the same unit as its mean.
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
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other != one));
        }
        assert_eq!(first(1, Stream::Link, 1), all[1]);
    }

    #[test]
    fn means_are_right() {
        let mut random = Random::new(7, Stream::Topology, 0);
        let mean = (0..100_000).map(|_| random.exponential(3.0)).sum::<f64>() / 1e5;
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
        let hits = (0..100_000).filter(|_| random.chance(10_000_000)).count();
        assert!((900..1100).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| random.below(3) < 3));
    }
}
