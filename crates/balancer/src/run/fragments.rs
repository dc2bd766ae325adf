//! The thread that holds IPv4 fragments which arrive before the first fragment of their packet.

use super::kernel::with_causes;
use super::{Balancer, spawn};
use core::time::Duration;
use nw_kernel::balancer::{HeldFragments, HeldReport};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Minimum time between two log lines on the same subject.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

impl Balancer {
    /// Starts holding fragments on the attached interfaces. Without it the balancer works, but
    /// drops such fragments.
    pub(super) fn hold_fragments(&mut self) -> std::io::Result<()> {
        let Some(path) = &mut self.data_path else { return Ok(()) };
        match path.held_fragments() {
            Ok(Some(held)) => {
                let stop = Arc::clone(&self.stop);
                self.threads.push(spawn("fragments", move || hold(held, &stop))?);
            }
            Ok(None) => {}
            Err(error) => {
                let message = format!(
                    "IPv4 fragments that arrive before the first one of their packet are dropped: {}",
                    with_causes(&error)
                );
                tracing::warn!("{message}");
                self.warnings.insert("fragments", message);
            }
        }
        Ok(())
    }
}

fn hold(mut held: HeldFragments, stop: &AtomicBool) {
    let mut log = FragmentLog::default();
    let ended = held.run(stop, |report| {
        for line in log.lines(Instant::now(), report) {
            tracing::error!("{line}");
        }
    });
    if let Err(error) = ended {
        tracing::error!(
            "IPv4 fragments that arrive before the first one of their packet are dropped until the balancer \
             is restarted: {}",
            with_causes(&error)
        );
    }
}

/// Limits the log lines about fragments.
#[derive(Default)]
struct FragmentLog {
    refused: u64,
    last_line: Option<Instant>,
}

impl FragmentLog {
    fn lines(&mut self, now: Instant, report: &HeldReport) -> Vec<String> {
        self.refused += report.refused;
        let waits = self.last_line.is_some_and(|last| now.duration_since(last) < LOG_INTERVAL);
        if waits || (self.refused == 0 && report.error.is_none()) {
            return Vec::new();
        }
        self.last_line = Some(now);
        let refused = core::mem::take(&mut self.refused);
        let full = (refused > 0).then(|| {
            format!(
                "no space to hold {refused} IPv4 fragments that arrived before the first one of their packet: \
                 they were dropped (ip_fragment_lost). They arrive if a path reorders or loses packets, or in \
                 an attack. To avoid them, use Data that fit into one frame"
            )
        });
        let failed = report
            .error
            .as_ref()
            .map(|error| format!("an IPv4 fragment was dropped: {}", with_causes(error)));
        full.into_iter().chain(failed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_fragments_are_logged_once_in_ten_seconds() {
        let (mut log, start) = (FragmentLog::default(), Instant::now());
        let mut lines = |at_ms: u64, refused: u64| {
            let report = HeldReport { lost: refused + 1, refused, ..HeldReport::default() };
            log.lines(start + Duration::from_millis(at_ms), &report)
        };
        assert!(lines(0, 0).is_empty(), "fragments that waited in vain are counted and not logged");
        assert!(lines(1, 3)[0].starts_with("no space to hold 3 IPv4 fragments"));
        assert!(lines(2, 5).is_empty() && lines(9000, 5).is_empty());
        assert!(lines(10_001, 1)[0].starts_with("no space to hold 11 "));
    }
}
