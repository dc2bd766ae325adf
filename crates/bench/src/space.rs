//! Network namespaces that a row makes and removes. Those of a process that was killed are removed by the next one that makes some.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where `ip` keeps them.
const SPACES: &str = "/run/netns";
/// Begins their names; then come the number of the process, `-`, and one of its own for each.
const PREFIX: &str = "nwbench";

/// Tells those of one process apart.
static MADE: AtomicUsize = AtomicUsize::new(0);
static OTHERS: Once = Once::new();

/// A namespace, there as long as this value.
#[derive(Debug)]
pub struct Space {
    name: String,
}

impl Space {
    /// Makes one, its loopback up. Needs the rights of root, and `ip`.
    ///
    /// # Errors
    /// What is missing. Nothing is left behind.
    pub fn new() -> Result<Self> {
        ensure!(rustix::process::geteuid().is_root(), "network namespaces need root");
        OTHERS.call_once(|| remove_those_of_the_dead(Path::new(SPACES), Path::new("/proc")));
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let space = Space { name: format!("{PREFIX}{}-{number}", std::process::id()) };
        ip(&["netns", "add", &space.name])?;
        space.ip(&["link", "set", "lo", "up"])?;
        Ok(space)
    }

    /// Its name for `ip`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `ip`, with these words, in there.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn ip(&self, words: &[&str]) -> Result<()> {
        ip(&[&["-n", &self.name], words].concat())
    }

    /// Begins a command that runs in there: what runs is its next word.
    pub fn command(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]);
        command
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

fn remove(name: &str) {
    // One that is not there is no reason to complain.
    let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
}

fn remove_those_of_the_dead(spaces: &Path, processes: &Path) {
    let Ok(entries) = std::fs::read_dir(spaces) else { return };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| is_of_the_dead(name, processes)).for_each(|name| remove(&name));
}

fn is_of_the_dead(name: &str, processes: &Path) -> bool {
    let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')).map(|(process, _)| process);
    process.is_some_and(|process| process.parse::<u32>().is_ok() && !processes.join(process).exists())
}

fn ip(words: &[&str]) -> Result<()> {
    let output = Command::new("ip").args(words).stdin(Stdio::null()).output();
    let output = output.context("there is no ip: apt install iproute2")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "this system refused ip {}: {}", words.join(" "), said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_of_processes_that_are_no_more_are_removed() {
        let processes = tempfile::tempdir().unwrap();
        std::fs::create_dir(processes.path().join("77")).unwrap();
        for (name, dead) in [
            ("nwbench78-0", true),
            ("nwbench77-0", false),
            ("nwbench-0", false),
            ("nwbench78", false),
            ("nwbenchx-1", false),
            ("other78-0", false),
            ("nwlab-78-0", false),
        ] {
            assert_eq!(is_of_the_dead(name, processes.path()), dead, "{name}");
        }
    }
}
