//! Zipf's law: the `n`th most popular name is requested in proportion to `n^-exponent`.

/// A Zipf distribution over ranks `0..n`. Exponent 0 is the uniform distribution.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// Cumulative probability of each rank.
    cumulative: Vec<f64>,
}

impl Zipf {
    /// Creates a distribution over `ranks` (at least 1) ranks. It takes 8 bytes per rank.
    pub fn new(ranks: usize, exponent: f64) -> Self {
        assert!(ranks > 0, "a distribution has at least one rank");
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (1..=ranks)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|share| *share /= sum);
        Zipf { cumulative }
    }

    /// Returns the rank for 64 random bits, by inverse transform sampling.
    pub fn draw(&self, random: u64) -> usize {
        let share = unit(random);
        self.cumulative.partition_point(|up_to| *up_to <= share).min(self.cumulative.len() - 1)
    }
}

/// Maps 64 random bits to a number in `0.0..1.0`.
pub fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_packet_types::random::splitmix64;

    #[test]
    fn draws_follow_the_law() {
        let zipf = Zipf::new(100_000, 1.0);
        let mut counts = [0; 3];
        for i in 0..100_000 {
            if let Some(count) = counts.get_mut(zipf.draw(splitmix64(i))) {
                *count += 1;
            }
        }
        // The second is asked for half as often as the first, the third a third.
        assert!((1.8..2.2).contains(&(f64::from(counts[0]) / f64::from(counts[1]))));
        assert!((2.6..3.4).contains(&(f64::from(counts[0]) / f64::from(counts[2]))));
    }

    #[test]
    fn exponent_zero_draws_all_alike() {
        let zipf = Zipf::new(10, 0.0);
        let mut counts = [0; 10];
        (0..100_000).for_each(|i| counts[zipf.draw(splitmix64(i))] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_ends_are_drawn() {
        let zipf = Zipf::new(7, 0.8);
        assert_eq!((zipf.draw(0), zipf.draw(u64::MAX)), (0, 6));
    }
}
