//! Ownership of a testbed and its removal. Everything is found by the testbed's name, so the
//! leftovers of a killed process are found as well.
//!
//! ```text
//!  /run/nwlab/lock            held while names are allocated and leftovers are searched
//!  /run/nwlab/nwlab1/lock     held by the owner of the testbed until it ends
//!  /run/nwlab/nwlab1/…        sockets, configurations, logs
//!  /var/lib/nwlab/nwlab1/…    published and fetched content (/run may be in memory)
//!  /run/netns/nwlab1-…        namespaces
//!  <cpu>/nwlab1/…             control groups
//! ```

use crate::cgroup::CgroupHierarchy;
use crate::error::LabError;
use crate::netns;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

const RUN_DIRECTORY: &str = "/run/nwlab";
const CONTENT_DIRECTORY: &str = "/var/lib/nwlab";
/// The prefix of all testbed names.
const NAME_PREFIX: &str = "nwlab";
/// The time for processes to end after a signal.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(3);

/// A unique testbed name with its directories. Everything with this name is removed on drop.
#[derive(Debug)]
pub(crate) struct LabLock {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    pub(crate) content_directory: PathBuf,
    _lock: File,
}

impl LabLock {
    pub(crate) fn new() -> Result<LabLock, LabError> {
        let _global_lock = lock_directory(Path::new(RUN_DIRECTORY))?;
        // Leftovers of other testbeds are not removed here, and their names are not reused.
        let number = (1..)
            .find(|number| !is_taken(&format!("{NAME_PREFIX}{number}")))
            .expect("numbers don't end");
        let name = format!("{NAME_PREFIX}{number}");
        let directory = Path::new(RUN_DIRECTORY).join(&name);
        let lock = lock_directory(&directory)?;
        let content_directory = Path::new(CONTENT_DIRECTORY).join(&name);
        let lab = LabLock { name, directory, content_directory, _lock: lock };
        fs::create_dir_all(&lab.content_directory)
            .map_err(LabError::at("make the directory", &lab.content_directory))?;
        Ok(lab)
    }
}

impl Drop for LabLock {
    fn drop(&mut self) {
        remove_lab(&self.name);
    }
}

fn is_taken(name: &str) -> bool {
    Path::new(RUN_DIRECTORY).join(name).exists()
        || namespaces().iter().any(|netns| lab_name(netns) == Some(name))
}

/// Makes a directory and locks it while the returned file is open.
fn lock_directory(directory: &Path) -> Result<File, LabError> {
    fs::create_dir_all(directory).map_err(LabError::at("make the directory", directory))?;
    let path = directory.join("lock");
    let file = File::create(&path).map_err(LabError::at("make", &path))?;
    flock(&file, FlockOperation::LockExclusive)
        .map_err(|e| LabError::at("lock", &path)(e.into()))?;
    Ok(file)
}

fn namespaces() -> Vec<String> {
    let entries = fs::read_dir(netns::NETNS_DIRECTORY).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Returns the name of the testbed that a name belongs to: `nwlab3` for `nwlab3-m1`.
fn lab_name(name: &str) -> Option<&str> {
    let own = name.split('-').next()?;
    let number = own.strip_prefix(NAME_PREFIX)?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(own)
}

/// The result of [`clean`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Laboratories without an owner, which were removed.
    pub removed: Vec<String>,
    /// Laboratories in use.
    pub in_use: Vec<String>,
}

/// Removes the processes, namespaces, control groups and directories of testbeds without an
/// owner.
///
/// # Errors
/// Returns an error without root rights.
pub fn clean() -> Result<Cleaned, LabError> {
    needs_root()?;
    let _global_lock = lock_directory(Path::new(RUN_DIRECTORY))?;
    let mut names: BTreeSet<String> = BTreeSet::new();
    let directories = [RUN_DIRECTORY, CONTENT_DIRECTORY]
        .into_iter()
        .flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten());
    let directories = directories.filter_map(|entry| entry.file_name().into_string().ok());
    let groups = CgroupHierarchy::find().map(|groups| groups.lab_names()).unwrap_or_default();
    for name in directories.chain(namespaces()).chain(groups) {
        names.extend(lab_name(&name).map(str::to_owned));
    }
    let mut cleaned = Cleaned::default();
    for name in names {
        let lock = File::open(Path::new(RUN_DIRECTORY).join(&name).join("lock"));
        let is_free = lock
            .map_or(true, |file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok());
        if is_free {
            remove_lab(&name);
            cleaned.removed.push(name);
        } else {
            cleaned.in_use.push(name);
        }
    }
    Ok(cleaned)
}

/// Returns an error with advice if this process does not have root rights.
///
/// # Errors
/// Returns [`LabError::Missing`] without root rights.
pub fn needs_root() -> Result<(), LabError> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => {
            Err(LabError::Missing("network namespaces need the rights of root: try sudo".into()))
        }
    }
}

fn remove_lab(name: &str) {
    let own: Vec<_> =
        namespaces().into_iter().filter(|netns| lab_name(netns) == Some(name)).collect();
    end_processes(&own);
    own.iter().for_each(|netns| netns::remove(netns));
    if let Ok(groups) = CgroupHierarchy::find() {
        groups.remove(name);
    }
    let directory = Path::new(RUN_DIRECTORY).join(name);
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    for mount_point in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
        if Path::new(mount_point).starts_with(&directory) {
            let _ = netns::run("umount", &["--lazy", mount_point]);
        }
    }
    let _ = fs::remove_dir_all(directory);
    let _ = fs::remove_dir_all(Path::new(CONTENT_DIRECTORY).join(name));
}

/// Ends all processes in the namespaces, which are about to be removed.
fn end_processes(namespaces: &[String]) {
    let running = || -> Vec<Pid> {
        let ids =
            namespaces.iter().filter_map(|netns| netns::run("ip", &["netns", "pids", netns]).ok());
        let ids: Vec<i32> = ids
            .flat_map(|text| text.lines().filter_map(|l| l.parse().ok()).collect::<Vec<_>>())
            .collect();
        ids.into_iter()
            .filter_map(Pid::from_raw)
            .filter(|pid| *pid != rustix::process::getpid())
            .collect()
    };
    for (signal, timeout) in
        [(Signal::TERM, TERMINATION_TIMEOUT), (Signal::KILL, TERMINATION_TIMEOUT)]
    {
        let mut pids = running();
        for pid in &pids {
            let _ = kill_process(*pid, signal);
        }
        let mut waited = Duration::ZERO;
        while !pids.is_empty() && waited < timeout {
            std::thread::sleep(Duration::from_millis(20));
            waited += Duration::from_millis(20);
            pids = running();
        }
        if pids.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_another_program_is_no_laboratory() {
        assert_eq!(lab_name("nwlab12-m1"), Some("nwlab12"));
        assert_eq!(lab_name("nwlab12"), Some("nwlab12"));
        for name in ["nwlab", "nwlab-m1", "nwlabel-1", "nw12-m1", "lock", ""] {
            assert_eq!(lab_name(name), None, "{name}");
        }
    }
}
