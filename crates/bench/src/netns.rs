//! Network namespaces that a row creates and removes. Those of a killed process are removed by the
//! next process that creates some.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Folder of named network namespaces.
const NETNS_DIR: &str = "/run/netns";
/// Prefix of the names; the process id, `-` and a number follow.
const PREFIX: &str = "nwbench";

/// Number of the next namespace of this process.
static MADE: AtomicUsize = AtomicUsize::new(0);
static OTHERS: Once = Once::new();

/// A network namespace. Dropping it removes it.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Creates a namespace with its loopback up. It needs root and `ip`.
    ///
    /// # Errors
    /// If a permission or a program is missing. Nothing is left behind.
    pub fn new() -> Result<Self> {
        ensure!(rustix::process::geteuid().is_root(), "network namespaces need root");
        OTHERS.call_once(|| remove_stale(Path::new(NETNS_DIR), Path::new("/proc")));
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let space = Netns { name: format!("{PREFIX}{}-{number}", std::process::id()) };
        ip(&["netns", "add", &space.name])?;
        space.ip(&["link", "set", "lo", "up"])?;
        Ok(space)
    }

    /// Returns the name for `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with these arguments in the namespace.
    ///
    /// # Errors
    /// If the command fails.
    pub fn ip(&self, words: &[&str]) -> Result<()> {
        ip(&[&["-n", &self.name], words].concat())
    }

    /// Returns a command that runs in the namespace; the program is its next argument.
    pub fn command(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]);
        command
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

fn remove(name: &str) {
    // A missing namespace is no error.
    let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
}

fn remove_stale(spaces: &Path, processes: &Path) {
    let Ok(entries) = std::fs::read_dir(spaces) else { return };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| is_stale(name, processes)).for_each(|name| remove(&name));
}

fn is_stale(name: &str, processes: &Path) -> bool {
    let process =
        name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')).map(|(process, _)| process);
    process
        .is_some_and(|process| process.parse::<u32>().is_ok() && !processes.join(process).exists())
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
    fn only_namespaces_of_ended_processes_are_removed() {
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
            assert_eq!(is_stale(name, processes.path()), dead, "{name}");
        }
    }
}
