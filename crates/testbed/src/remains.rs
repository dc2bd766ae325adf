//! Whose a laboratory is, and removing all of one: what is there is found by its name, so what a killed process left is found as well.
//!
//! ```text
//!  /run/nwlab/lock            held while names are given and remains are looked for
//!  /run/nwlab/nwlab1/lock     held by the process whose laboratory it is, until it ends
//!  /run/nwlab/nwlab1/…        sockets, configurations, logs
//!  /var/lib/nwlab/nwlab1/…    what is published and fetched: /run may be memory
//!  /run/netns/nwlab1-…        namespaces
//!  <cpu>/nwlab1/…             control groups
//! ```

use crate::error::LabError;
use crate::quota::Groups;
use crate::space;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PLACE: &str = "/run/nwlab";
const CONTENTS: &str = "/var/lib/nwlab";
/// What every name of ours starts with.
const NAME: &str = "nwlab";
/// For processes to end by themselves.
const PATIENCE: Duration = Duration::from_secs(3);

/// A name that nobody else has, and a folder of that name. Removes all that has the name when it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) contents: PathBuf,
    _lock: File,
}

impl Claim {
    pub(crate) fn new() -> Result<Claim, LabError> {
        let _all = locked(Path::new(PLACE))?;
        // Leftovers of others are left alone, names too.
        let number = (1..).find(|number| !is_taken(&format!("{NAME}{number}"))).expect("numbers don't end");
        let name = format!("{NAME}{number}");
        let folder = Path::new(PLACE).join(&name);
        let lock = locked(&folder)?;
        let contents = Path::new(CONTENTS).join(&name);
        let claim = Claim { name, folder, contents, _lock: lock };
        fs::create_dir_all(&claim.contents).map_err(LabError::at("make the folder", &claim.contents))?;
        Ok(claim)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        remove_all_of(&self.name);
    }
}

fn is_taken(name: &str) -> bool {
    Path::new(PLACE).join(name).exists() || spaces().iter().any(|space| laboratory(space) == Some(name))
}

/// Makes a folder and holds its lock.
fn locked(folder: &Path) -> Result<File, LabError> {
    fs::create_dir_all(folder).map_err(LabError::at("make the folder", folder))?;
    let path = folder.join("lock");
    let file = File::create(&path).map_err(LabError::at("make", &path))?;
    flock(&file, FlockOperation::LockExclusive).map_err(|e| LabError::at("lock", &path)(e.into()))?;
    Ok(file)
}

fn spaces() -> Vec<String> {
    let entries = fs::read_dir(space::SPACES).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The laboratory that a name belongs to: `nwlab3` of `nwlab3-m1`.
fn laboratory(name: &str) -> Option<&str> {
    let own = name.split('-').next()?;
    let number = own.strip_prefix(NAME)?;
    (!number.is_empty() && number.bytes().all(|octet| octet.is_ascii_digit())).then_some(own)
}

/// What [`clean`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Laboratories whose owners had gone; nothing of them is left.
    pub removed: Vec<String>,
    /// Laboratories in use.
    pub in_use: Vec<String>,
}

/// Removes what laboratories left whose owners were killed: processes, namespaces, control groups, folders.
///
/// # Errors
/// Without the rights of root.
pub fn clean() -> Result<Cleaned, LabError> {
    needs_root()?;
    let _all = locked(Path::new(PLACE))?;
    let mut names: BTreeSet<String> = BTreeSet::new();
    let folders =
        [PLACE, CONTENTS].into_iter().flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten());
    let folders = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let groups = Groups::find().map(|groups| groups.laboratories()).unwrap_or_default();
    for name in folders.chain(spaces()).chain(groups) {
        names.extend(laboratory(&name).map(str::to_owned));
    }
    let mut cleaned = Cleaned::default();
    for name in names {
        let lock = File::open(Path::new(PLACE).join(&name).join("lock"));
        let is_free =
            lock.map_or(true, |file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok());
        if is_free {
            remove_all_of(&name);
            cleaned.removed.push(name);
        } else {
            cleaned.in_use.push(name);
        }
    }
    Ok(cleaned)
}

/// Returns an error that says what to do, where this process has not the rights of root.
///
/// # Errors
/// [`LabError::Missing`].
pub fn needs_root() -> Result<(), LabError> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(LabError::Missing("network namespaces need the rights of root: try sudo".into())),
    }
}

fn remove_all_of(name: &str) {
    let own: Vec<_> = spaces().into_iter().filter(|space| laboratory(space) == Some(name)).collect();
    end_processes(&own);
    own.iter().for_each(|space| space::remove(space));
    if let Ok(groups) = Groups::find() {
        groups.remove(name);
    }
    let folder = Path::new(PLACE).join(name);
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    for below in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
        if Path::new(below).starts_with(&folder) {
            let _ = space::ask("umount", &["--lazy", below]);
        }
    }
    let _ = fs::remove_dir_all(folder);
    let _ = fs::remove_dir_all(Path::new(CONTENTS).join(name));
}

/// Ends what runs in namespaces of ours, whoever started it: they are about to go.
fn end_processes(spaces: &[String]) {
    let inside = || -> Vec<Pid> {
        let ids = spaces.iter().filter_map(|space| space::ask("ip", &["netns", "pids", space]).ok());
        let ids: Vec<i32> =
            ids.flat_map(|text| text.lines().filter_map(|l| l.parse().ok()).collect::<Vec<_>>()).collect();
        ids.into_iter().filter_map(Pid::from_raw).filter(|pid| *pid != rustix::process::getpid()).collect()
    };
    for (signal, patience) in [(Signal::TERM, PATIENCE), (Signal::KILL, PATIENCE)] {
        let mut left = inside();
        for pid in &left {
            let _ = kill_process(*pid, signal);
        }
        let mut waited = Duration::ZERO;
        while !left.is_empty() && waited < patience {
            std::thread::sleep(Duration::from_millis(20));
            waited += Duration::from_millis(20);
            left = inside();
        }
        if left.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_are_ours() {
        assert_eq!(laboratory("nwlab12-m1"), Some("nwlab12"));
        assert_eq!(laboratory("nwlab12"), Some("nwlab12"));
        for other in ["nwlab", "nwlab-m1", "nwlabel-1", "nw12-m1", "lock", ""] {
            assert_eq!(laboratory(other), None, "{other}");
        }
    }
}
