//! Lines that somebody outside can cause, said a few times a second and counted beyond that.

use nw_tables::Instant;

/// Lines in a second.
const LINES_MAX: u32 = 5;
const SECOND_MS: u64 = 1000;

/// How much was said lately.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quiet {
    since: Instant,
    said: u32,
    unsaid: u64,
}

impl Default for Quiet {
    fn default() -> Self {
        Quiet { since: Instant::START, said: 0, unsaid: 0 }
    }
}

impl Quiet {
    /// `None`: say nothing. Otherwise how many lines were not said since the last that was.
    pub(super) fn speak(&mut self, now: Instant) -> Option<u64> {
        if now >= self.since.plus_millis(SECOND_MS) {
            (self.since, self.said) = (now, 0);
        }
        if self.said >= LINES_MAX {
            self.unsaid += 1;
            return None;
        }
        self.said += 1;
        Some(core::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_a_second_and_a_count() {
        let mut quiet = Quiet::default();
        let mut lines = Vec::new();
        for ms in 0..3000 {
            lines.extend(quiet.speak(Instant::from_millis(ms)));
        }
        assert_eq!(lines, [0, 0, 0, 0, 0, 995, 0, 0, 0, 0, 995, 0, 0, 0, 0]);
    }
}
