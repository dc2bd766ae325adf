//! Misses of the last-level cache, counted by the processor and read through the program `perf`:
//! the system call needs unsafe code, and most machines that have counters have `perf`.

use std::io::Read;
use std::process::{Child, Command, Stdio};

const EVENTS: &str = "LLC-loads,LLC-load-misses";

/// Access to the counters of this machine.
#[derive(Debug)]
pub(super) struct CacheCounters;

/// Counters that run for some threads.
#[derive(Debug)]
pub(super) struct Counting(Child);

impl CacheCounters {
    /// Finds out whether the machine counts.
    ///
    /// # Errors
    /// The reason, as the end of a sentence.
    pub(super) fn find() -> Result<CacheCounters, String> {
        let output = Command::new("perf")
            .args(["stat", "-x", ",", "-e", EVENTS, "--", "true"])
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .map_err(|_| "cache misses are read by `perf`, which is not installed".to_owned())?;
        parse(&String::from_utf8_lossy(&output.stderr)).map(|_| CacheCounters)
    }

    /// Starts counting for threads of this process.
    pub(super) fn start(&self, threads: &[u32]) -> Option<Counting> {
        let ids: Vec<String> = threads.iter().map(u32::to_string).collect();
        let child = Command::new("perf")
            .args(["stat", "-x", ",", "-e", EVENTS, "-t", &ids.join(",")])
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        child.ok().map(Counting)
    }
}

impl Counting {
    /// Ends counting. Returns the share of loads that missed the cache.
    pub(super) fn end(mut self) -> Option<f64> {
        let pid = rustix::process::Pid::from_raw(self.0.id().cast_signed())?;
        // It prints its counters then.
        rustix::process::kill_process(pid, rustix::process::Signal::INT).ok()?;
        let mut text = String::new();
        self.0.stderr.take()?.read_to_string(&mut text).ok()?;
        self.0.wait().ok()?;
        parse(&text).ok()
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Reads `perf stat -x ,`: a line "value,unit,event,…" per event. Returns misses per load.
fn parse(text: &str) -> Result<f64, String> {
    let value = |event: &str| {
        let line = text.lines().find(|line| line.split(',').nth(2).is_some_and(|e| e == event));
        let value = line.and_then(|line| line.split(',').next()).unwrap_or_default();
        value.parse::<f64>().map_err(|_| {
            let said = value.trim_matches(['<', '>']);
            let said = if said.is_empty() { "without a value" } else { said };
            format!("this machine does not count cache misses (perf says {event}: {said})")
        })
    };
    let (loads, misses) = (value("LLC-loads")?, value("LLC-load-misses")?);
    Ok(if loads > 0.0 { misses / loads } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_the_output_of_perf() {
        let text = "2000,,LLC-loads,1000,100.00,,\n500,,LLC-load-misses,1000,100.00,25.0,of all\n";
        assert_eq!(parse(text), Ok(0.25));
    }

    #[test]
    fn missing_counters_are_said_in_words() {
        let text = "<not supported>,,LLC-loads,0,100.00,,\n<not supported>,,LLC-load-misses,0,,,\n";
        let reason = parse(text).expect_err("no counter");
        assert!(reason.ends_with("(perf says LLC-loads: not supported)"), "{reason}");
        assert!(parse("").is_err());
    }

    #[test]
    fn counters_of_this_machine_count_or_say_why_not() {
        match CacheCounters::find() {
            Ok(counters) => {
                let id = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
                let counting = counters.start(&[id]).expect("perf starts");
                std::thread::sleep(std::time::Duration::from_millis(300));
                assert!(counting.end().is_some());
            }
            Err(reason) => assert!(reason.contains("cache misses"), "{reason}"),
        }
    }
}
