//! Whether Interests were answered of late: what is worth waiting for depends on it.

/// A mean over some sixteen Interests.
#[derive(Debug, Default)]
pub(super) struct Recent(u16);

impl Recent {
    #[inline(always)]
    pub const fn hit(&mut self) {
        self.0 += (u16::MAX - self.0) >> 4;
    }

    #[inline(always)]
    pub const fn miss(&mut self) {
        self.0 -= self.0 >> 4;
    }

    /// True when more than half were answered.
    #[inline(always)]
    pub const fn is_mostly_hits(&self) -> bool {
        self.0 > u16::MAX / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_what_happens() {
        let mut recent = Recent::default();
        assert!(!recent.is_mostly_hits());
        (0..12).for_each(|_| recent.hit());
        assert!(recent.is_mostly_hits());
        (0..100_000).for_each(|_| recent.hit());
        assert!(recent.is_mostly_hits());
        (0..12).for_each(|_| recent.miss());
        assert!(!recent.is_mostly_hits());
        (0..100_000).for_each(|_| recent.miss());
        (0..12).for_each(|_| recent.hit());
        assert!(recent.is_mostly_hits(), "however long it was otherwise");
    }
}
