//! Programs that run in a laboratory, and end with it.

use crate::error::LabError;
use crate::quota::Quota;
use crate::space;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Octets of what a program said last that a complaint cites.
const CITED: u64 = 600;
/// Lines of output that are kept.
const LINES_MAX: usize = 16;
const STEP: Duration = Duration::from_millis(5);
/// For a program to end by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// A program in a namespace. Ended when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    what: String,
    log: PathBuf,
}

impl Running {
    /// Starts a program in a namespace, limited if asked for. What it writes to standard error, and to standard output unless that is piped, is
    /// in `log`.
    pub(crate) fn start(
        what: &str,
        command: &mut Command,
        space: &str,
        quota: Option<&Quota>,
        log: PathBuf,
    ) -> Result<Running, LabError> {
        let errors = File::create(&log).map_err(LabError::at("write", &log))?;
        command.stdin(Stdio::null()).stderr(errors);
        // So that Ctrl-C on the terminal reaches only the owner, who ends them in order.
        command.process_group(0);
        let child = space::within(space, || {
            command.spawn().map_err(|source| LabError::Io { what: format!("can't start {what}"), source })
        })?;
        let running = Running { child, what: what.to_owned(), log };
        if let Some(quota) = quota {
            quota.take(running.id())?;
        }
        Ok(running)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The first lines of its standard output, which must be piped. All of it is read, so that it never waits for a reader.
    pub(crate) fn lines(&mut self) -> Receiver<String> {
        let stdout = self.child.stdout.take().expect("piped, and asked for once");
        let (tell, told) = mpsc::sync_channel(LINES_MAX);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = tell.try_send(line);
            }
        });
        told
    }

    /// Waits for a program that is to end; an error unless all went well.
    pub(crate) fn finish(&mut self, patience: Duration) -> Result<(), LabError> {
        let end = Instant::now() + patience;
        loop {
            match self.ended() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.complaint(&format!("it failed ({status})"))),
                None if Instant::now() > end => {
                    return Err(self.complaint(&format!("it took longer than {patience:?}")));
                }
                None => std::thread::sleep(STEP),
            }
        }
    }

    /// True until it has ended, as far as the system says without being told of the end.
    pub fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        // The state follows the name, which is in brackets.
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']) && !rest.is_empty())
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Processor time used so far, user and kernel, of all its threads.
    pub fn cpu(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.id())).into_iter().flatten().flatten();
        let nanos =
            |path: &Path| -> Option<u64> { fs::read_to_string(path).ok()?.split(' ').next()?.parse().ok() };
        Duration::from_nanos(threads.filter_map(|thread| nanos(&thread.path().join("schedstat"))).sum())
    }

    /// The last that it said.
    pub fn last_words(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(&self.log)?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(len.saturating_sub(CITED)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        read().unwrap_or_default()
    }

    /// A complaint about it that cites its last words.
    pub(crate) fn complaint(&self, said: &str) -> LabError {
        let words = self.last_words();
        let said =
            if words.is_empty() { said.to_owned() } else { format!("{said}; its last words: {words}") };
        LabError::Program { what: self.what.clone(), said }
    }

    /// Waits until something holds.
    pub(crate) fn wait_until(
        &mut self,
        patience: Duration,
        goal: &str,
        mut holds: impl FnMut() -> bool,
    ) -> Result<(), LabError> {
        let end = Instant::now() + patience;
        while !holds() {
            if let Some(status) = self.ended() {
                return Err(self.complaint(&format!("it ended ({status}) before it {goal}")));
            }
            if Instant::now() > end {
                return Err(self.complaint(&format!("it has not {goal} within {patience:?}")));
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.id() as i32) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends it without a word, as a machine that breaks down.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal(Signal::TERM);
        }
        let end = Instant::now() + PATIENCE;
        while self.ended().is_none() && Instant::now() < end {
            std::thread::sleep(STEP);
        }
        if self.ended().is_none() {
            self.kill();
        }
    }
}
