//! Logs shortages of shared pools: one ERROR line per pool at most every ten seconds, with advice
//! for the operator.

use crate::host::Host;
use core::time::Duration;
use nw_element_api::{SharedPool, Shortages, Timestamp};

/// Shortest time between two lines about the same pool.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Counts that are logged already, and when the next line of each pool may be logged.
#[derive(Debug)]
pub(crate) struct ShortageLog {
    logged: Shortages,
    next_line: [Timestamp; SharedPool::ALL.len()],
}

impl Default for ShortageLog {
    fn default() -> Self {
        ShortageLog {
            logged: Shortages::default(),
            next_line: [Timestamp::START; SharedPool::ALL.len()],
        }
    }
}

impl ShortageLog {
    /// Logs each pool with new shortages, if its last line is old enough.
    pub(crate) fn report(&mut self, now: Timestamp, shortages: &Shortages) {
        for (pool, refused) in self.take_due(now, shortages) {
            tracing::error!(
                pool = pool.as_str(),
                refused,
                "a shared pool is short, so peers with large shares are refused; {}",
                pool.remedy()
            );
        }
    }

    /// Returns whether a shortage is not logged yet. Compares two sums only, as each iteration
    /// calls it.
    pub(crate) fn is_behind(&self, total: u64) -> bool {
        total != self.logged.total()
    }

    fn take_due(&mut self, now: Timestamp, shortages: &Shortages) -> Vec<(SharedPool, u64)> {
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
        let mut drops = self.drops();
        drops.shortages.merge(self.authority.shortages());
        drops.shortages.merge(&self.control.shortages());
        drops.shortages.merge(&self.query_shortages);
        drops.shortages
    }

    /// Logs shortages that were not logged yet, if a line is due.
    pub(crate) fn log_shortages(&mut self, now: Timestamp) {
        let pools = [
            &self.plane.drops().shortages,
            &self.faces.drops().shortages,
            self.authority.shortages(),
            &self.control.shortages(),
            &self.query_shortages,
        ];
        let total = pools.iter().map(|shortages| shortages.total()).sum::<u64>();
        // Other shards report from time to time; their sums are added from the last reports.
        let other_shards =
            self.shard_pool.iter().map(|shard_pool| shard_pool.shortages_total()).sum::<u64>();
        if self.shortage_log.is_behind(total + other_shards) {
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
        assert_eq!(log.take_due(Timestamp::from_millis(5), &shortages), [(SharedPool::Faces, 1)]);
        for _ in 0..3 {
            shortages.record(SharedPool::Faces);
        }
        shortages.record(SharedPool::Commands);
        assert_eq!(
            log.take_due(Timestamp::from_millis(6), &shortages),
            [(SharedPool::Commands, 1)]
        );
        assert!(log.is_behind(shortages.total()));
        assert_eq!(
            log.take_due(Timestamp::from_millis(10_005), &shortages),
            [(SharedPool::Faces, 3)]
        );
        assert!(!log.is_behind(shortages.total()));
    }
}
