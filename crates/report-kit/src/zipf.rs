//! Zipf's law: the `n`th most popular of some names is asked for in proportion to `n^-exponent`.

/// Numbers from 0 on by Zipf's law; exponent 0 draws all alike.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// What share of draws is at most this number.
    shares: Vec<f64>,
}

impl Zipf {
    /// Over so many numbers, at least one; takes eight octets for each.
    pub fn new(numbers: usize, exponent: f64) -> Self {
        assert!(numbers > 0, "there is something to draw");
        let mut sum = 0.0;
        let mut shares: Vec<f64> = (1..=numbers)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        shares.iter_mut().for_each(|share| *share /= sum);
        Zipf { shares }
    }

    /// The number that 64 random bits stand for.
    pub fn draw(&self, random: u64) -> usize {
        let share = unit(random);
        self.shares.partition_point(|upto| *upto <= share).min(self.shares.len() - 1)
    }
}

/// 64 random bits as a number from 0 to less than 1.
pub fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64.
    fn mix(number: u64) -> u64 {
        let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    #[test]
    fn draws_follow_the_law() {
        let zipf = Zipf::new(100_000, 1.0);
        let mut counts = [0; 3];
        for i in 0..100_000 {
            if let Some(count) = counts.get_mut(zipf.draw(mix(i))) {
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
        (0..100_000).for_each(|i| counts[zipf.draw(mix(i))] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_ends_are_drawn() {
        let zipf = Zipf::new(7, 0.8);
        assert_eq!((zipf.draw(0), zipf.draw(u64::MAX)), (0, 6));
    }
}
