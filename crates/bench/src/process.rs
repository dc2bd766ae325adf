//! Child processes of a benchmark.

use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A child process that is ended when this value is dropped.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    what: String,
}

impl ChildProcess {
    /// Starts a command. `what` names it in errors.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start(what: &str, command: &mut Command) -> Result<Self> {
        let child =
            command.stdin(Stdio::null()).spawn().with_context(|| format!("can't start {what}"))?;
        Ok(ChildProcess { child, what: what.to_owned() })
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a path exists, as the socket of a router does once it listens.
    ///
    /// # Errors
    /// If the process ends, or after 5 s.
    pub fn wait_for(&mut self, path: &Path) -> Result<()> {
        self.wait_until(path, Path::exists)
    }

    /// Waits until a socket accepts connections: its path exists a moment before it listens.
    ///
    /// # Errors
    /// If the process ends, or after 5 s.
    pub fn wait_for_listener(&mut self, path: &Path) -> Result<()> {
        self.wait_until(path, |path| UnixStream::connect(path).is_ok())
    }

    fn wait_until(&mut self, path: &Path, is_there: impl Fn(&Path) -> bool) -> Result<()> {
        let timeout = Instant::now() + Duration::from_secs(5);
        while !is_there(path) {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at once: {status}", self.what);
            }
            if Instant::now() > timeout {
                bail!("{} did not make {} within 5 s", self.what, path.display());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits for the end of the process, for at most `timeout`.
    ///
    /// # Errors
    /// If its exit status is not 0, or it takes longer.
    pub fn finish(mut self, timeout: Duration) -> Result<()> {
        let end = Instant::now() + timeout;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{} failed: {status}", self.what),
                None if Instant::now() > end => bail!("{} took longer than {timeout:?}", self.what),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Returns the processor time of the main thread, user and kernel.
    pub fn cpu(&self) -> Duration {
        // With one shard, only the main thread forwards.
        cpu_at(Path::new(&format!("/proc/{}/schedstat", self.id())))
    }

    /// Returns the time that the main thread was ready to run and waited for a processor.
    pub fn waited(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/schedstat", self.id())).unwrap_or_default();
        Duration::from_nanos(stat.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0))
    }

    /// Returns the processor time of all threads.
    pub fn cpu_of_all_threads(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.id()));
        threads
            .into_iter()
            .flatten()
            .flatten()
            .map(|thread| cpu_at(&thread.path().join("schedstat")))
            .sum()
    }

    /// Returns the processor time of the process, also of threads that have ended, in steps of
    /// 10 ms.
    pub fn cpu_of_process(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        // User and system time are the fields 14 and 15; the first two are before the bracket.
        let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
        let per_s = rustix::param::clock_ticks_per_second();
        Duration::from_secs_f64(ticks.sum::<u64>() as f64 / per_s as f64)
    }

    /// Returns a number of `/proc/<id>/status`: `VmRSS` in KiB, `voluntary_ctxt_switches`.
    pub fn status(&self, key: &str) -> u64 {
        status_at(&format!("/proc/{}/status", self.id()), key)
    }
}

fn status_at(path: &str, key: &str) -> u64 {
    let status = fs::read_to_string(path).unwrap_or_default();
    let line = status.lines().find(|line| line.split(':').next() == Some(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Returns the first number of a `schedstat`: processor time in nanoseconds.
fn cpu_at(path: &Path) -> Duration {
    let stat = fs::read_to_string(path).unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0))
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // By its own id, and only if it still runs.
        if matches!(self.child.try_wait(), Ok(None)) {
            if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            for _ in 0..100 {
                if !matches!(self.child.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn wait_for_listener_waits_until_socket_listens() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        let mut child = ChildProcess::start("a child", Command::new("sleep").arg("10")).unwrap();
        child.wait_for(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let socket = path.clone();
        // First a socket that is bound but does not listen, then one that listens.
        drop(UnixListener::bind(&path).unwrap());
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            fs::remove_file(&socket).unwrap();
            UnixListener::bind(&socket).unwrap()
        });
        child.wait_for_listener(&path).unwrap();
        drop(late.join().unwrap());
    }
}
