//! Programs that run in a testbed.

use crate::cgroup::Cgroup;
use crate::error::LabError;
use crate::netns;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Length of the log excerpt in an error.
const LOG_TAIL_BYTES: u64 = 600;
/// Maximum number of output lines that are kept.
const LINES_MAX: usize = 16;
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The time for a program to end after a signal.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A program that runs in a namespace and is ended on drop.
#[derive(Debug)]
pub struct Running {
    child: Child,
    what: String,
    log: PathBuf,
}

impl Running {
    /// Starts a program in a namespace, limited by a control group if there is one. Its standard
    /// error goes to `log`.
    pub(crate) fn start(
        what: &str,
        command: &mut Command,
        netns: &str,
        cgroup: Option<&Cgroup>,
        log: PathBuf,
    ) -> Result<Running, LabError> {
        let errors = File::create(&log).map_err(LabError::at("write", &log))?;
        command.stdin(Stdio::null()).stderr(errors);
        // Ctrl-C on the terminal thus reaches only the owner, which ends the programs in order.
        command.process_group(0);
        let child = netns::within_netns(netns, || {
            command
                .spawn()
                .map_err(|source| LabError::Io { what: format!("can't start {what}"), source })
        })?;
        let running = Running { child, what: what.to_owned(), log };
        if let Some(cgroup) = cgroup {
            cgroup.add_process(running.id())?;
        }
        Ok(running)
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns a channel with the first lines of the program's standard output, which must be
    /// piped. All output is read, so that the program never blocks.
    pub(crate) fn lines(&mut self) -> Receiver<String> {
        let stdout = self.child.stdout.take().expect("piped, and asked for once");
        let (sender, receiver) = mpsc::sync_channel(LINES_MAX);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.try_send(line);
            }
        });
        receiver
    }

    /// Waits for the program to end, and returns an error unless it succeeds.
    pub(crate) fn finish(&mut self, timeout: Duration) -> Result<(), LabError> {
        let end = Instant::now() + timeout;
        loop {
            match self.exit_status() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.failure(&format!("it failed ({status})"))),
                None if Instant::now() > end => {
                    return Err(self.failure(&format!("it took longer than {timeout:?}")));
                }
                None => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// Returns true until the program has ended, without reaping it.
    pub fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        // The state follows the name, which is in parentheses.
        stat.rsplit(')').next().is_some_and(|fields| {
            !fields.trim_start().starts_with(['Z', 'X']) && !fields.is_empty()
        })
    }

    /// Returns the exit status if the program has ended.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns the processor time of all the program's threads so far, user and kernel.
    pub fn cpu(&self) -> Duration {
        let threads =
            fs::read_dir(format!("/proc/{}/task", self.id())).into_iter().flatten().flatten();
        let nanos = |path: &Path| -> Option<u64> {
            fs::read_to_string(path).ok()?.split(' ').next()?.parse().ok()
        };
        Duration::from_nanos(
            threads.filter_map(|thread| nanos(&thread.path().join("schedstat"))).sum(),
        )
    }

    /// Returns the end of the program's log.
    pub fn log_tail(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(&self.log)?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(len.saturating_sub(LOG_TAIL_BYTES)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        read().unwrap_or_default()
    }

    /// Returns an error about the program, with the end of its log.
    pub(crate) fn failure(&self, said: &str) -> LabError {
        let log = self.log_tail();
        let said = if log.is_empty() {
            said.to_owned()
        } else {
            format!("{said}; the end of its log: {log}")
        };
        LabError::Program { what: self.what.clone(), said }
    }

    /// Waits until a condition holds.
    pub(crate) fn wait_until(
        &mut self,
        timeout: Duration,
        goal: &str,
        mut holds: impl FnMut() -> bool,
    ) -> Result<(), LabError> {
        let end = Instant::now() + timeout;
        while !holds() {
            if let Some(status) = self.exit_status() {
                return Err(self.failure(&format!("it ended ({status}) before it {goal}")));
            }
            if Instant::now() > end {
                return Err(self.failure(&format!("it has not {goal} within {timeout:?}")));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.id() as i32) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills the program.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.exit_status().is_none() {
            self.signal(Signal::TERM);
        }
        let end = Instant::now() + EXIT_TIMEOUT;
        while self.exit_status().is_none() && Instant::now() < end {
            std::thread::sleep(POLL_INTERVAL);
        }
        if self.exit_status().is_none() {
            self.kill();
        }
    }
}
