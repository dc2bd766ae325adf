//! The kernel's run-time statistics of BPF programs.

use crate::error::{Cause, KernelError};
use aya::programs::{ProgramInfo, Xdp, loaded_programs};
use aya::sys::{Stats, enable_stats};
use std::os::fd::OwnedFd;

/// While this value exists, the kernel counts the runs of all BPF programs and their time. That
/// costs 20 to 50 ns per run, which are included in the time.
#[derive(Debug)]
pub struct Statistics {
    _fd: OwnedFd,
}

impl Statistics {
    /// Enables the statistics. Needs CAP_SYS_ADMIN.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enable() -> Result<Statistics, KernelError> {
        let fd = enable_stats(Stats::RunTime)
            .map_err(|e| KernelError::of("enabling run-time statistics of programs", e))?;
        Ok(Statistics { _fd: fd })
    }
}

/// The runs of a program, and their total time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTime {
    /// Number of runs.
    pub runs: u64,
    /// Total time, nanoseconds.
    pub time_ns: u64,
}

impl RunTime {
    pub(super) fn of(program: &Xdp) -> Result<RunTime, Cause> {
        Ok(RunTime::from(program.info()?))
    }

    /// Returns the sum over the programs of all balancers on this machine, in all network
    /// namespaces.
    ///
    /// # Errors
    /// The kernel does not list its programs.
    pub fn of_all_balancers() -> Result<RunTime, KernelError> {
        let mut sum = RunTime::default();
        for info in loaded_programs() {
            let info = info.map_err(|e| KernelError::of("listing programs", e))?;
            if info.name_as_str() == Some(super::PROGRAM_XDP) {
                let program = RunTime::from(info);
                sum = RunTime {
                    runs: sum.runs + program.runs,
                    time_ns: sum.time_ns.saturating_add(program.time_ns),
                };
            }
        }
        Ok(sum)
    }

    /// Returns the difference to an earlier reading.
    pub fn since(self, earlier: RunTime) -> RunTime {
        RunTime {
            runs: self.runs.saturating_sub(earlier.runs),
            time_ns: self.time_ns.saturating_sub(earlier.time_ns),
        }
    }

    /// Returns the mean time of a run, nanoseconds; 0 without runs.
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
