//! The thread that holds IPv4 fragments which came before the first one of their packet.

use super::kernel::whole;
use super::{Balancer, spawn};
use core::time::Duration;
use nw_kernel::balancer::{HeldFragments, HeldReport};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Between two lines of the log about the same.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

impl Balancer {
    /// Begins to hold fragments, at the interfaces that the program is attached to. A balancer that can't does all else: those fragments are
    /// dropped then.
    pub(super) fn hold_fragments(&mut self) -> std::io::Result<()> {
        let Some(path) = &mut self.path else { return Ok(()) };
        match path.held_fragments() {
            Ok(Some(held)) => {
                let stop = Arc::clone(&self.stop);
                self.threads.push(spawn("fragments", move || hold(held, &stop))?);
            }
            Ok(None) => {}
            Err(error) => {
                let why = format!(
                    "IPv4 fragments that come before the first one of their packet are dropped: {}",
                    whole(&error)
                );
                tracing::warn!("{why}");
                self.warnings.insert("fragments", why);
            }
        }
        Ok(())
    }
}

fn hold(mut held: HeldFragments, stop: &AtomicBool) {
    let mut log = Log::default();
    let ended = held.run(stop, |report| {
        for line in log.lines(Instant::now(), report) {
            tracing::error!("{line}");
        }
    });
    if let Err(error) = ended {
        tracing::error!(
            "IPv4 fragments that come before the first one of their packet are dropped until the balancer is started anew: {}",
            whole(&error)
        );
    }
}

/// What is worth a line, and when there was one last.
#[derive(Default)]
struct Log {
    refused: u64,
    said: Option<Instant>,
}

impl Log {
    fn lines(&mut self, now: Instant, report: &HeldReport) -> Vec<String> {
        self.refused += report.refused;
        let waits = self.said.is_some_and(|said| now.duration_since(said) < LOG_INTERVAL);
        if waits || (self.refused == 0 && report.error.is_none()) {
            return Vec::new();
        }
        self.said = Some(now);
        let refused = core::mem::take(&mut self.refused);
        let short = (refused > 0).then(|| {
            format!(
                "no room to hold {refused} IPv4 fragments that came before the first one of their packet: they were dropped (ip_fragment_lost). \
                 So many come when a path reorders packets or loses them, or in an attack; peers that send Data that fit frames need none"
            )
        });
        let failed =
            report.error.as_ref().map(|error| format!("an IPv4 fragment was dropped: {}", whole(error)));
        short.into_iter().chain(failed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_without_room_are_logged_once_in_ten_seconds() {
        let (mut log, start) = (Log::default(), Instant::now());
        let mut lines = |at_ms: u64, refused: u64| {
            let report = HeldReport { lost: refused + 1, refused, ..HeldReport::default() };
            log.lines(start + Duration::from_millis(at_ms), &report)
        };
        assert!(lines(0, 0).is_empty(), "those that waited in vain are counted, and no error");
        assert!(lines(1, 3)[0].starts_with("no room to hold 3 IPv4 fragments"));
        assert!(lines(2, 5).is_empty() && lines(9000, 5).is_empty());
        assert!(lines(10_001, 1)[0].starts_with("no room to hold 11 "));
    }
}
