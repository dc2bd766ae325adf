//! The conditions of a measurement, and whether its results are conclusive.

use nw_report_kit::page::escape;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time for which the machine is observed before the runs.
const IDLE_PERIOD: Duration = Duration::from_millis(500);
/// Maximum share of all processors that other programs may use before a testbed is built.
const BUSY_BEFORE_MAX: f64 = 0.15;
/// Maximum share of all processors in use during a point. Above it, something other than the
/// members' quota may be the bottleneck.
const BUSY_DURING_MAX: f64 = 0.95;
/// Minimum share of its quota that a member with enough work uses.
const QUOTA_USED_MIN: f64 = 0.80;

/// The conditions on the machine during the measurements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Start of the run, in seconds since 1970.
    pub started_unix_s: u64,
    /// The version of `nw`.
    pub version: String,
    /// Load average over one minute at the start of the run.
    pub load_1min: f64,
    /// Largest share of all processors that other programs used while no testbed ran, 0 to 1.
    pub busy_before: f64,
    /// Number of measured points.
    pub points: usize,
    /// Number of points during which nearly all processors were in use or taken by the hypervisor.
    pub points_saturated: usize,
    /// Largest share of all processors in use during a point, 0 to 1.
    pub busy_during: f64,
    /// Number of points at which members had more work than their quota allows.
    pub points_at_quota: usize,
    /// Number of those points at which members used less than 80 % of their quota.
    pub points_below_quota: usize,
    /// Smallest share of their quota that members used at such a point, 0 to 1, or `None` without
    /// such a point.
    pub quota_used_min: Option<f64>,
}

impl Conditions {
    /// Returns the conditions of a run that begins now.
    pub(crate) fn begin() -> Conditions {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Conditions {
            started_unix_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            load_1min: load.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0),
            ..Conditions::default()
        }
    }

    /// Returns the conditions of a run that begins now, after half a second in which only other
    /// programs run.
    ///
    /// # Errors
    /// If the kernel does not tell the processor times.
    pub fn observe() -> std::io::Result<Conditions> {
        let mut conditions = Conditions::begin();
        let before = ProcessorTime::now()?;
        std::thread::sleep(IDLE_PERIOD);
        conditions.note_before(ProcessorTime::now()?.busy_since(&before));
        Ok(conditions)
    }

    /// Records the share of the processors in use without a testbed.
    pub(crate) fn note_before(&mut self, busy: f64) {
        self.busy_before = self.busy_before.max(busy);
    }

    /// Records a point: the share of all processors in use, and the smallest share of its quota
    /// that a member with enough work used.
    pub(crate) fn note_point(&mut self, busy: f64, quota_used: Option<f64>) {
        self.points += 1;
        self.points_saturated += usize::from(busy > BUSY_DURING_MAX);
        self.busy_during = self.busy_during.max(busy);
        if let Some(used) = quota_used {
            self.points_at_quota += 1;
            self.points_below_quota += usize::from(used < QUOTA_USED_MIN);
            self.quota_used_min = Some(self.quota_used_min.map_or(used, |least| least.min(used)));
        }
    }

    /// Returns sentences about conditions that make the results inconclusive; empty if there are
    /// none.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.busy_before > BUSY_BEFORE_MAX {
            problems.push(format!(
                "Other programs used up to {:.0} % of the processors (load {:.1}): the throughput of this run is inconclusive. Repeat it on an idle machine.",
                100.0 * self.busy_before,
                self.load_1min
            ));
        }
        if self.points_saturated > 0 {
            problems.push(format!(
                "The processors were fully in use during {} of {} points (up to {:.0} %): consumers, producers or the balancer may have been the bottleneck there, not the members. Repeat with a smaller --cpu-share.",
                self.points_saturated,
                self.points,
                100.0 * self.busy_during
            ));
        }
        if self.points_below_quota > 0 {
            problems.push(format!(
                "Members used less than {:.0} % of their processor quota at {} of {} points that should have filled it (least {:.0} %): they were not the bottleneck, so these points are inconclusive.",
                100.0 * QUOTA_USED_MIN,
                self.points_below_quota,
                self.points_at_quota,
                100.0 * self.quota_used_min.unwrap_or(0.0)
            ));
        }
        problems
    }

    /// Returns one sentence about the version and the machine before the runs.
    pub(crate) fn before_the_runs(&self) -> String {
        format!(
            "nw {}; load {:.2} at the start; other programs used {:.0} % of the processors before \
             the runs.",
            self.version,
            self.load_1min,
            100.0 * self.busy_before
        )
    }

    /// Returns one line about the time and conditions of the run.
    pub fn describe(&self) -> String {
        let quota = self.quota_used_min.map_or_else(
            || "no point filled the members' quota".to_owned(),
            |used| {
                format!(
                    "members with enough work used at least {:.0} % of their quota",
                    100.0 * used
                )
            },
        );
        format!(
            "nw {}, started {} s after 1970-01-01 UTC; load {:.2} then; other programs used at most {:.0} % of the processors before the experiments; {:.0} % were in use at most during {} points; {quota}.",
            self.version,
            self.started_unix_s,
            self.load_1min,
            100.0 * self.busy_before,
            100.0 * self.busy_during,
            self.points
        )
    }
}

/// A reading of the processor times, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessorTime {
    all: u64,
    idle: u64,
}

impl ProcessorTime {
    /// Reads `/proc/stat`.
    pub(crate) fn now() -> std::io::Result<ProcessorTime> {
        Ok(ProcessorTime::of(&std::fs::read_to_string("/proc/stat")?))
    }

    fn of(text: &str) -> ProcessorTime {
        let first = text.lines().next().unwrap_or_default();
        // user nice system idle iowait irq softirq steal; guest time is included in user time.
        let ticks: Vec<u64> = first
            .split_whitespace()
            .skip(1)
            .take(8)
            .filter_map(|ticks| ticks.parse().ok())
            .collect();
        let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
        ProcessorTime { all: ticks.iter().sum(), idle: at(3) + at(4) }
    }

    /// Returns the share of all processors in use since an earlier reading, 0 to 1, including time
    /// taken by the hypervisor.
    pub(crate) fn busy_since(&self, before: &ProcessorTime) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        if all == 0 { 0.0 } else { all.saturating_sub(idle) as f64 / all as f64 }
    }
}

/// Writes what makes results inconclusive onto a page, one paragraph each.
pub(crate) fn write_problems(problems: &[String], out: &mut String) {
    for problem in problems {
        let _ =
            writeln!(out, "<p><strong style=\"color:#a03c00\">{}</strong></p>", escape(problem));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_time_is_busy_and_iowait_is_idle() {
        let before = ProcessorTime::of("cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1 1 1 1\n");
        let after = ProcessorTime::of("cpu  110 5 60 860 90 2 3 20 9 9\n");
        assert!((after.busy_since(&before) - 50.0 / 150.0).abs() < 1e-9);
        assert_eq!(before.busy_since(&before), 0.0);
        assert_eq!(ProcessorTime::of("").busy_since(&before), 0.0);
    }

    #[test]
    fn inconclusive_conditions_are_reported() {
        let quiet = || {
            let mut conditions = Conditions::begin();
            conditions.note_before(0.05);
            conditions.note_point(0.6, Some(0.97));
            conditions.note_point(0.6, None);
            conditions
        };
        assert_eq!(quiet().problems(), Vec::<String>::new());
        let spoil = |spoil: fn(&mut Conditions)| {
            let mut conditions = quiet();
            spoil(&mut conditions);
            let problems = conditions.problems();
            assert_eq!(problems.len(), 1, "{problems:?}");
            problems[0].clone()
        };
        assert!(
            spoil(|conditions| conditions.note_before(0.6))
                .starts_with("Other programs used up to 60 %")
        );
        assert!(
            spoil(|conditions| conditions.note_point(0.99, None)).contains("during 1 of 3 points")
        );
        assert!(
            spoil(|conditions| conditions.note_point(0.5, Some(0.37)))
                .contains("at 1 of 2 points that should have filled it (least 37 %)")
        );
    }
}
