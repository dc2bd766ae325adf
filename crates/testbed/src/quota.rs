//! Processor time by control groups, of version 1 (`cpu.cfs_quota_us`) or 2 (`cpu.max`), whichever this system has.

use crate::error::LabError;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A quota is dealt out anew after so long: shorter than a transfer notices, and long enough for the kernel's smallest quota of a millisecond.
const PERIOD_US: u64 = 20_000;
/// The kernel's smallest.
const QUOTA_MIN_US: u64 = 1_000;

/// How processor time is limited here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    /// The folder of the `cpu` hierarchy.
    V1(PathBuf),
    /// The folder of the only hierarchy.
    V2(PathBuf),
}

impl Groups {
    /// What this system has.
    pub(crate) fn find() -> Result<Groups, LabError> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let found = Groups::among(&mounts, |folder| {
            fs::read_to_string(folder.join("cgroup.controllers"))
                .is_ok_and(|controllers| controllers.split_whitespace().any(|name| name == "cpu"))
        });
        found.ok_or_else(|| {
            LabError::Missing(
                "no control groups limit processor time here: mount them (mount -t cgroup2 none /sys/fs/cgroup), or leave shares out".into(),
            )
        })
    }

    fn among(mounts: &str, has_cpu: impl Fn(&Path) -> bool) -> Option<Groups> {
        let mut second = None;
        for line in mounts.lines() {
            let mut words = line.split(' ').skip(1);
            let (Some(folder), Some(kind), Some(options)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            match kind {
                "cgroup" if options.split(',').any(|option| option == "cpu") => {
                    return Some(Groups::V1(folder.into()));
                }
                "cgroup2" if has_cpu(Path::new(folder)) => second = Some(Groups::V2(folder.into())),
                _ => {}
            }
        }
        second
    }

    fn folder(&self) -> &Path {
        match self {
            Groups::V1(folder) | Groups::V2(folder) => folder,
        }
    }

    /// A group that gets so much of one processor; 1.0 is all of it.
    pub(crate) fn make(&self, lab: &str, node: &str, share: f64) -> Result<Quota, LabError> {
        let parent = self.folder().join(lab);
        let folder = parent.join(node);
        fs::create_dir_all(&folder).map_err(LabError::at("make the control group", &folder))?;
        if matches!(self, Groups::V2(_)) {
            for above in [self.folder(), &parent] {
                let file = above.join("cgroup.subtree_control");
                fs::write(&file, "+cpu").map_err(LabError::at("write", &file))?;
            }
        }
        let quota = Quota { folder, version: if matches!(self, Groups::V1(_)) { 1 } else { 2 } };
        quota.set(share)?;
        Ok(quota)
    }

    /// Removes all groups of a laboratory. Processes that are left in one keep it.
    pub(crate) fn remove(&self, lab: &str) {
        let parent = self.folder().join(lab);
        for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                let _ = fs::remove_dir(entry.path());
            }
        }
        let _ = fs::remove_dir(parent);
    }

    /// Names of groups of laboratories.
    pub(crate) fn laboratories(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

/// A group.
#[derive(Debug)]
pub(crate) struct Quota {
    folder: PathBuf,
    version: u8,
}

impl Quota {
    /// Changes the share of one processor.
    pub(crate) fn set(&self, share: f64) -> Result<(), LabError> {
        let (quota_us, period_us) = quota(share);
        let values = match self.version {
            1 => {
                vec![("cpu.cfs_period_us", period_us.to_string()), ("cpu.cfs_quota_us", quota_us.to_string())]
            }
            _ => vec![("cpu.max", format!("{quota_us} {period_us}"))],
        };
        for (name, value) in values {
            let file = self.folder.join(name);
            fs::write(&file, value).map_err(LabError::at("write", &file))?;
        }
        Ok(())
    }

    /// Moves a process in, with all its threads.
    pub(crate) fn take(&self, process: u32) -> Result<(), LabError> {
        let file = self.folder.join("cgroup.procs");
        fs::write(&file, process.to_string()).map_err(LabError::at("write", &file))
    }

    /// Time in which processes of the group wanted to run and might not, all of them together.
    pub(crate) fn throttled(&self) -> Duration {
        let stat = fs::read_to_string(self.folder.join("cpu.stat")).unwrap_or_default();
        let find = |key: &str| -> Option<u64> {
            stat.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
        };
        let v1 = find("throttled_time ").map(Duration::from_nanos);
        v1.or_else(|| find("throttled_usec ").map(Duration::from_micros)).unwrap_or_default()
    }
}

/// Quota and period in microseconds.
fn quota(share: f64) -> (u64, u64) {
    let quota_us = (share * PERIOD_US as f64).round() as u64;
    if quota_us >= QUOTA_MIN_US {
        return (quota_us, PERIOD_US);
    }
    // Below the kernel's smallest quota the period is longer.
    (QUOTA_MIN_US, ((QUOTA_MIN_US as f64 / share) as u64).min(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_by_what_limits_processors() {
        let hybrid =
            "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(Groups::among(hybrid, |_| false), Some(Groups::V1("/sys/fs/cgroup/cpu".into())));
        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(Groups::among(unified, |_| true), Some(Groups::V2("/sys/fs/cgroup".into())));
        assert_eq!(Groups::among(unified, |_| false), None, "mounted, but without the controller");
        assert_eq!(Groups::among("proc /proc proc rw 0 0\n", |_| true), None);
    }

    #[test]
    fn shares_keep_the_kernels_smallest_quota() {
        assert_eq!(quota(0.5), (10_000, 20_000));
        assert_eq!(quota(2.0), (40_000, 20_000));
        assert_eq!(quota(0.02), (1_000, 50_000));
        assert_eq!(quota(0.0), (1_000, 1_000_000));
    }
}
