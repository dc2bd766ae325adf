//! Processes that a benchmark starts, watches and ends.

use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A child that ends with its owner.
#[derive(Debug)]
pub struct Running {
    child: Child,
    what: String,
}

impl Running {
    /// Starts a command.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start(what: &str, command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).spawn().with_context(|| format!("can't start {what}"))?;
        Ok(Running { child, what: what.to_owned() })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until a path is there, as a socket is once a router listens.
    ///
    /// # Errors
    /// When the process ends or five seconds pass before.
    pub fn wait_for(&mut self, path: &Path) -> Result<()> {
        self.wait_until(path, Path::exists)
    }

    /// As [`wait_for`](Self::wait_for), until a connection is taken: a socket has its path a moment before it listens.
    ///
    /// # Errors
    /// See there.
    pub fn wait_for_listener(&mut self, path: &Path) -> Result<()> {
        self.wait_until(path, |path| UnixStream::connect(path).is_ok())
    }

    fn wait_until(&mut self, path: &Path, is_there: impl Fn(&Path) -> bool) -> Result<()> {
        let patience = Instant::now() + Duration::from_secs(5);
        while !is_there(path) {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at once: {status}", self.what);
            }
            if Instant::now() > patience {
                bail!("{} did not make {} within 5 s", self.what, path.display());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits for its end, at most `patience`.
    ///
    /// # Errors
    /// When it fails, or takes longer.
    pub fn finish(mut self, patience: Duration) -> Result<()> {
        let end = Instant::now() + patience;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{} failed: {status}", self.what),
                None if Instant::now() > end => bail!("{} took longer than {patience:?}", self.what),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Processor time used so far, user and kernel.
    pub fn cpu(&self) -> Duration {
        // Of the main thread: the only one that forwards, where there is one shard.
        cpu_at(Path::new(&format!("/proc/{}/schedstat", self.id())))
    }

    /// As [`cpu`](Self::cpu), of all threads there are.
    pub fn cpu_of_all_threads(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.id()));
        threads.into_iter().flatten().flatten().map(|thread| cpu_at(&thread.path().join("schedstat"))).sum()
    }

    /// A number in `/proc/<id>/status`: `VmRSS` in KiB, `voluntary_ctxt_switches`.
    pub fn status(&self, key: &str) -> u64 {
        status_at(&format!("/proc/{}/status", self.id()), key)
    }
}

/// Resident memory of this process, KiB.
pub fn own_resident_kib() -> u64 {
    status_at("/proc/self/status", "VmRSS")
}

fn status_at(path: &str, key: &str) -> u64 {
    let status = fs::read_to_string(path).unwrap_or_default();
    let line = status.lines().find(|line| line.split(':').next() == Some(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The first number of a `schedstat`: nanoseconds.
fn cpu_at(path: &Path) -> Duration {
    let stat = fs::read_to_string(path).unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0))
}

impl Drop for Running {
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
    fn a_path_that_nobody_listens_at_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        let mut child = Running::start("a child", Command::new("sleep").arg("10")).unwrap();
        child.wait_for(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let socket = path.clone();
        // Bound, as when nobody listens yet; then by one who does.
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
