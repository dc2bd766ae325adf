//! The kernel's own statistics of its programs.

use crate::error::{Cause, KernelError};
use aya::programs::{ProgramInfo, Xdp, loaded_programs};
use aya::sys::{Stats, enable_stats};
use std::os::fd::OwnedFd;

/// While this lives, the kernel counts the runs of all programs and their time; that costs each run some 20 to 50 ns, which are in the time.
#[derive(Debug)]
pub struct Statistics {
    _kept: OwnedFd,
}

impl Statistics {
    /// Has them kept. Takes CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// When the kernel does not.
    pub fn keep() -> Result<Statistics, KernelError> {
        let kept =
            enable_stats(Stats::RunTime).map_err(|e| KernelError::of("keeping statistics of programs", e))?;
        Ok(Statistics { _kept: kept })
    }
}

/// How often a program ran, and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTime {
    /// Runs.
    pub runs: u64,
    /// Nanoseconds of all of them.
    pub time_ns: u64,
}

impl RunTime {
    pub(super) fn of(program: &Xdp) -> Result<RunTime, Cause> {
        Ok(RunTime::from(program.info()?))
    }

    /// What the programs of all balancers on this machine did, in all network namespaces. Programs that are gone count no more.
    ///
    /// # Errors
    /// When the kernel does not list its programs.
    pub fn of_all_balancers() -> Result<RunTime, KernelError> {
        let mut sum = RunTime::default();
        for info in loaded_programs() {
            let info = info.map_err(|e| KernelError::of("listing programs", e))?;
            if info.name_as_str() == Some(super::PROGRAM_XDP) {
                let one = RunTime::from(info);
                sum = RunTime { runs: sum.runs + one.runs, time_ns: sum.time_ns.saturating_add(one.time_ns) };
            }
        }
        Ok(sum)
    }

    /// What was between this and an earlier reading.
    pub fn since(self, earlier: RunTime) -> RunTime {
        RunTime {
            runs: self.runs.saturating_sub(earlier.runs),
            time_ns: self.time_ns.saturating_sub(earlier.time_ns),
        }
    }

    /// Nanoseconds a run; 0 for none.
    pub fn ns_per_run(self) -> f64 {
        if self.runs == 0 { 0.0 } else { self.time_ns as f64 / self.runs as f64 }
    }
}

impl From<ProgramInfo> for RunTime {
    fn from(info: ProgramInfo) -> RunTime {
        let time_ns = u64::try_from(info.run_time().as_nanos()).unwrap_or(u64::MAX);
        RunTime { runs: info.run_count(), time_ns }
    }
}
