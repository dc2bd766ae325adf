//! What this process uses: processor time and memory, from `/proc/self`.

use std::fs;

/// Field numbers in `/proc/self/stat` after the command name, from 0: user and system time.
const UTIME: usize = 11;
const STIME: usize = 12;
/// Field number of the resident pages.
const RESIDENT: usize = 21;

/// Processor time and memory of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Seconds of processor time in user mode, of all threads.
    pub user_s: f64,
    /// Seconds of processor time in the kernel, of all threads.
    pub system_s: f64,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
}

impl Usage {
    /// Reads the current values; zeros if `/proc` is not mounted. The sum of the processor times is
    /// exact; its parts are counted in ticks of 10 ms, which is too coarse for short periods.
    pub fn read() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
        let page_bytes = rustix::param::page_size() as u64;
        let usage = Usage::parse(&stat, ticks_per_s, page_bytes).unwrap_or_default();
        let exact = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        usage.with_sum(exact.tv_sec as f64 + exact.tv_nsec as f64 / 1e9)
    }

    /// Returns the same shares of user mode and kernel of another sum, in seconds.
    fn with_sum(self, sum_s: f64) -> Self {
        let ticks_s = self.user_s + self.system_s;
        let user_share = if ticks_s > 0.0 { self.user_s / ticks_s } else { 1.0 };
        Usage { user_s: sum_s * user_share, system_s: sum_s * (1.0 - user_share), ..self }
    }

    /// Parses a `stat` file. The command name may contain spaces and parentheses.
    fn parse(stat: &str, ticks_per_s: f64, page_bytes: u64) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Usage {
            user_s: number(UTIME)? as f64 / ticks_per_s,
            system_s: number(STIME)? as f64 / ticks_per_s,
            resident_bytes: number(RESIDENT)? * page_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_odd_command_name_is_parsed() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 3 0 99 1000 12 18";
        let usage = Usage::parse(stat, 100.0, 4096).unwrap();
        assert_eq!(usage, Usage { user_s: 2.5, system_s: 0.5, resident_bytes: 12 * 4096 });
        assert_eq!(Usage::parse("", 100.0, 4096), None);
    }

    #[test]
    fn sum_is_exact_and_keeps_the_shares() {
        let ticks = Usage { user_s: 0.03, system_s: 0.01, resident_bytes: 1 };
        let exact = ticks.with_sum(0.042);
        assert!((exact.user_s - 0.0315).abs() < 1e-9 && (exact.system_s - 0.0105).abs() < 1e-9);
        let new = Usage::default().with_sum(0.002);
        assert_eq!((new.user_s, new.system_s), (0.002, 0.0));
    }

    #[test]
    fn own_usage_is_plausible() {
        let mut usage = Usage::read();
        assert!(usage.resident_bytes > 100_000, "{usage:?}");
        let before = usage.user_s + usage.system_s;
        while usage.user_s + usage.system_s <= before {
            usage = Usage::read();
        }
    }
}
