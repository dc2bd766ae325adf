//! Rate limit for log lines that remote peers can cause: a few lines per second, the rest counted.

use nw_tables::Timestamp;

/// Log lines allowed per second.
const LINES_MAX: u32 = 5;
/// Length of the window in which lines are counted.
const WINDOW_MS: u64 = 1000;

/// Counts the log lines of the current second.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLimiter {
    window_start: Timestamp,
    lines: u32,
    suppressed: u64,
}

impl Default for LogLimiter {
    fn default() -> Self {
        LogLimiter { window_start: Timestamp::START, lines: 0, suppressed: 0 }
    }
}

impl LogLimiter {
    /// Returns the number of lines suppressed since the last allowed one, or `None` if this line
    /// must be suppressed too.
    pub(super) fn allow(&mut self, now: Timestamp) -> Option<u64> {
        if now >= self.window_start.plus_millis(WINDOW_MS) {
            (self.window_start, self.lines) = (now, 0);
        }
        if self.lines >= LINES_MAX {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(core::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_limiter_flood_allows_five_lines_per_second_and_counts_the_rest() {
        let mut limiter = LogLimiter::default();
        let mut lines = Vec::new();
        for ms in 0..3000 {
            lines.extend(limiter.allow(Timestamp::from_millis(ms)));
        }
        assert_eq!(lines, [0, 0, 0, 0, 0, 995, 0, 0, 0, 0, 995, 0, 0, 0, 0]);
    }
}
