//! Logs shortages of shared pools: one ERROR line per pool at most every ten seconds, with what an operator can do.

use crate::host::Host;
use core::time::Duration;
use nw_element_api::{Instant, SharedPool, Shortages};

/// The least time between two lines about the same pool.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Remembers what was logged.
#[derive(Debug)]
pub(crate) struct ShortageLog {
    logged: Shortages,
    next_line: [Instant; SharedPool::ALL.len()],
}

impl Default for ShortageLog {
    fn default() -> Self {
        ShortageLog { logged: Shortages::default(), next_line: [Instant::START; SharedPool::ALL.len()] }
    }
}

impl ShortageLog {
    /// Logs each pool whose count has grown and whose last line is old enough.
    pub(crate) fn report(&mut self, now: Instant, shortages: &Shortages) {
        for (pool, refused) in self.take_due(now, shortages) {
            tracing::error!(
                pool = pool.as_str(),
                refused,
                "a shared pool is short, so peers with large shares are refused; {}",
                pool.remedy()
            );
        }
    }

    /// Returns whether something is not logged yet. Two sums, so that each turn of the loop can look.
    pub(crate) fn is_behind(&self, total: u64) -> bool {
        total != self.logged.total()
    }

    fn take_due(&mut self, now: Instant, shortages: &Shortages) -> Vec<(SharedPool, u64)> {
        let mut due = Vec::new();
        for (pool, count) in shortages.iter() {
            let new = count.saturating_sub(self.logged.count(pool));
            let next_line = &mut self.next_line[pool as usize];
            if new > 0 && now >= *next_line {
                *next_line = now + LINE_INTERVAL;
                self.logged.set(pool, count);
                due.push((pool, new));
            }
        }
        due
    }
}

impl Host {
    /// Returns the shortages of every shared pool of this router.
    pub(crate) fn shortages(&self) -> Shortages {
        let mut all = self.drops();
        all.shortages.merge(self.authority.shortages());
        all.shortages.merge(&self.control.shortages());
        all.shortages.merge(&self.rest_shortages);
        all.shortages
    }

    /// Logs shortages that were not logged yet, if a line is due.
    pub(crate) fn log_shortages(&mut self, now: Instant) {
        let parts = [
            &self.plane.drops().shortages,
            &self.faces.drops().shortages,
            self.authority.shortages(),
            &self.control.shortages(),
            &self.rest_shortages,
        ];
        let total = parts.iter().map(|part| part.total()).sum::<u64>();
        // Other shards report from time to time; the few sums of their reports are as cheap.
        let others = self.crew.iter().map(|crew| crew.shortages_total()).sum::<u64>();
        if self.shortage_log.is_behind(total + others) {
            let shortages = self.shortages();
            self.shortage_log.report(now, &shortages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_repeated_within_ten_seconds_is_one_line() {
        let (mut log, mut shortages) = (ShortageLog::default(), Shortages::default());
        assert!(!log.is_behind(shortages.total()));
        shortages.record(SharedPool::Faces);
        assert!(log.is_behind(shortages.total()));
        assert_eq!(log.take_due(Instant::from_millis(5), &shortages), [(SharedPool::Faces, 1)]);
        for _ in 0..3 {
            shortages.record(SharedPool::Faces);
        }
        shortages.record(SharedPool::Commands);
        assert_eq!(log.take_due(Instant::from_millis(6), &shortages), [(SharedPool::Commands, 1)]);
        assert!(log.is_behind(shortages.total()));
        assert_eq!(log.take_due(Instant::from_millis(10_005), &shortages), [(SharedPool::Faces, 3)]);
        assert!(!log.is_behind(shortages.total()));
    }
}
