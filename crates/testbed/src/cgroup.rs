//! Limits processor time with control groups of version 1 (`cpu.cfs_quota_us`) or 2 (`cpu.max`).

use crate::error::LabError;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The period of a quota: too short to disturb a transfer, and long enough for the kernel's
/// smallest quota of 1 ms.
const PERIOD_US: u64 = 20_000;
/// The smallest quota that the kernel accepts.
const QUOTA_MIN_US: u64 = 1_000;

/// The control group hierarchy that limits processor time on this system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CgroupHierarchy {
    /// Version 1, with the directory of the `cpu` hierarchy.
    V1(PathBuf),
    /// Version 2, with the directory of the unified hierarchy.
    V2(PathBuf),
}

impl CgroupHierarchy {
    /// Finds the hierarchy of this system.
    pub(crate) fn find() -> Result<CgroupHierarchy, LabError> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let found = CgroupHierarchy::parse_mounts(&mounts, |directory| {
            fs::read_to_string(directory.join("cgroup.controllers"))
                .is_ok_and(|controllers| controllers.split_whitespace().any(|name| name == "cpu"))
        });
        found.ok_or_else(|| {
            LabError::Missing(
                "no control groups limit processor time here: mount them (mount -t cgroup2 none /sys/fs/cgroup), or leave shares out".into(),
            )
        })
    }

    fn parse_mounts(mounts: &str, has_cpu: impl Fn(&Path) -> bool) -> Option<CgroupHierarchy> {
        let mut unified = None;
        for line in mounts.lines() {
            let mut words = line.split(' ').skip(1);
            let (Some(directory), Some(kind), Some(options)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            match kind {
                "cgroup" if options.split(',').any(|option| option == "cpu") => {
                    return Some(CgroupHierarchy::V1(directory.into()));
                }
                "cgroup2" if has_cpu(Path::new(directory)) => {
                    unified = Some(CgroupHierarchy::V2(directory.into()))
                }
                _ => {}
            }
        }
        unified
    }

    fn directory(&self) -> &Path {
        match self {
            CgroupHierarchy::V1(directory) | CgroupHierarchy::V2(directory) => directory,
        }
    }

    /// Creates a group with a share of one processor, of which 1.0 is all.
    pub(crate) fn make(&self, lab: &str, node: &str, share: f64) -> Result<Cgroup, LabError> {
        let parent = self.directory().join(lab);
        let directory = parent.join(node);
        fs::create_dir_all(&directory)
            .map_err(LabError::at("make the control group", &directory))?;
        if matches!(self, CgroupHierarchy::V2(_)) {
            for ancestor in [self.directory(), &parent] {
                let file = ancestor.join("cgroup.subtree_control");
                fs::write(&file, "+cpu").map_err(LabError::at("write", &file))?;
            }
        }
        let cgroup = Cgroup {
            directory,
            version: if matches!(self, CgroupHierarchy::V1(_)) { 1 } else { 2 },
        };
        cgroup.set_share(share)?;
        Ok(cgroup)
    }

    /// Removes all groups of a testbed, except those that still contain processes.
    pub(crate) fn remove(&self, lab: &str) {
        let parent = self.directory().join(lab);
        for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                let _ = fs::remove_dir(entry.path());
            }
        }
        let _ = fs::remove_dir(parent);
    }

    /// Returns the names of the groups at the top of the hierarchy.
    pub(crate) fn lab_names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

/// A control group.
#[derive(Debug)]
pub(crate) struct Cgroup {
    directory: PathBuf,
    version: u8,
}

impl Cgroup {
    /// Sets the share of one processor.
    pub(crate) fn set_share(&self, share: f64) -> Result<(), LabError> {
        let (quota_us, period_us) = quota_and_period(share);
        let values = match self.version {
            1 => {
                vec![
                    ("cpu.cfs_period_us", period_us.to_string()),
                    ("cpu.cfs_quota_us", quota_us.to_string()),
                ]
            }
            _ => vec![("cpu.max", format!("{quota_us} {period_us}"))],
        };
        for (name, value) in values {
            let file = self.directory.join(name);
            fs::write(&file, value).map_err(LabError::at("write", &file))?;
        }
        Ok(())
    }

    /// Moves a process with all its threads into the group.
    pub(crate) fn add_process(&self, process: u32) -> Result<(), LabError> {
        let file = self.directory.join("cgroup.procs");
        fs::write(&file, process.to_string()).map_err(LabError::at("write", &file))
    }

    /// Returns the total time in which the group's processes were runnable but throttled.
    pub(crate) fn throttled(&self) -> Duration {
        let stat = fs::read_to_string(self.directory.join("cpu.stat")).unwrap_or_default();
        let find = |key: &str| -> Option<u64> {
            stat.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
        };
        let v1 = find("throttled_time ").map(Duration::from_nanos);
        v1.or_else(|| find("throttled_usec ").map(Duration::from_micros)).unwrap_or_default()
    }
}

/// Returns the quota and the period of a share, in microseconds.
fn quota_and_period(share: f64) -> (u64, u64) {
    let quota_us = (share * PERIOD_US as f64).round() as u64;
    if quota_us >= QUOTA_MIN_US {
        return (quota_us, PERIOD_US);
    }
    // The period is longer where the quota would be below the kernel's smallest.
    (QUOTA_MIN_US, ((QUOTA_MIN_US as f64 / share) as u64).min(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchy_with_the_cpu_controller_is_found() {
        let hybrid = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(
            CgroupHierarchy::parse_mounts(hybrid, |_| false),
            Some(CgroupHierarchy::V1("/sys/fs/cgroup/cpu".into()))
        );
        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(
            CgroupHierarchy::parse_mounts(unified, |_| true),
            Some(CgroupHierarchy::V2("/sys/fs/cgroup".into()))
        );
        assert_eq!(
            CgroupHierarchy::parse_mounts(unified, |_| false),
            None,
            "mounted, but without the controller"
        );
        assert_eq!(CgroupHierarchy::parse_mounts("proc /proc proc rw 0 0\n", |_| true), None);
    }

    #[test]
    fn small_share_has_the_smallest_quota_and_a_longer_period() {
        assert_eq!(quota_and_period(0.5), (10_000, 20_000));
        assert_eq!(quota_and_period(2.0), (40_000, 20_000));
        assert_eq!(quota_and_period(0.02), (1_000, 50_000));
        assert_eq!(quota_and_period(0.0), (1_000, 1_000_000));
    }
}
