//! Limits of processor time with control groups of version 1 (`cpu.cfs_quota_us`) or 2 (`cpu.max`).
//!
//! Invariant: a group is named after its instance and network, so a manager that starts later finds
//! it without a record.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Bounds of the period of a quota, microseconds. What has used its quota rests until the period
/// ends: a short one keeps packets from waiting. The longest is the kernel's default.
const PERIOD_US: (f64, f64) = (10_000.0, 100_000.0);
/// Smallest quota that the kernel accepts, microseconds.
const QUOTA_MIN_US: f64 = 1_000.0;
/// Parent of all groups of this program.
const PARENT: &str = "namewire";

/// The hierarchy that limits processor time on this system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// Version 1, with the directory of the `cpu` hierarchy.
    V1(PathBuf),
    /// Version 2, with the directory of the unified hierarchy.
    V2(PathBuf),
}

impl Hierarchy {
    /// Finds the hierarchy of this system.
    pub fn find() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        Self::parse_mounts(&mounts, |directory| {
            let controllers = fs::read_to_string(directory.join("cgroup.controllers"));
            controllers.is_ok_and(|text| text.split_whitespace().any(|name| name == "cpu"))
        })
    }

    fn parse_mounts(mounts: &str, has_cpu: impl Fn(&Path) -> bool) -> Option<Self> {
        let mut unified = None;
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let &[_, directory, kind, options, ..] = fields.as_slice() else { continue };
            if kind == "cgroup" && options.split(',').any(|option| option == "cpu") {
                return Some(Hierarchy::V1(directory.into()));
            }
            if kind == "cgroup2" && has_cpu(Path::new(directory)) {
                unified = Some(Hierarchy::V2(directory.into()));
            }
        }
        unified
    }

    fn root(&self) -> &Path {
        match self {
            Hierarchy::V1(root) | Hierarchy::V2(root) => root,
        }
    }

    fn group(&self, key: &str) -> PathBuf {
        self.root().join(PARENT).join(key)
    }

    /// Limits a process to a share of one core, by the group `key`; `None` removes the limit.
    ///
    /// # Errors
    /// Of the file system, usually for want of rights.
    pub fn limit(&self, key: &str, pid: u32, quota: Option<f64>) -> io::Result<()> {
        let group = self.group(key);
        if quota.is_none() && !group.exists() {
            return Ok(());
        }
        fs::create_dir_all(&group)?;
        if let Hierarchy::V2(root) = self {
            for ancestor in [root.clone(), root.join(PARENT)] {
                fs::write(ancestor.join("cgroup.subtree_control"), "+cpu")?;
            }
        }
        let limit = quota.map(quota_and_period_us);
        let period = limit.map_or(PERIOD_US.1 as u64, |(_, period)| period);
        match self {
            Hierarchy::V1(_) => {
                fs::write(group.join("cpu.cfs_period_us"), period.to_string())?;
                let quota = limit.map_or_else(|| "-1".to_owned(), |(us, _)| us.to_string());
                fs::write(group.join("cpu.cfs_quota_us"), quota)?;
            }
            Hierarchy::V2(_) => {
                let quota = limit.map_or_else(|| "max".to_owned(), |(us, _)| us.to_string());
                fs::write(group.join("cpu.max"), format!("{quota} {period}"))?;
            }
        }
        fs::write(group.join("cgroup.procs"), pid.to_string())
    }

    /// Returns the limit of a group as a share of one core.
    pub fn quota(&self, key: &str) -> Option<f64> {
        let group = self.group(key);
        let read = |file: &str| fs::read_to_string(group.join(file)).ok();
        let (quota, period) = match self {
            Hierarchy::V1(_) => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
            Hierarchy::V2(_) => {
                let text = read("cpu.max")?;
                let (quota, period) = text.split_once(' ')?;
                (quota.to_owned(), period.to_owned())
            }
        };
        // A quota of -1 or "max" is no limit.
        let quota: u64 = quota.trim().parse().ok()?;
        let period: u64 = period.trim().parse().ok().filter(|period| *period > 0)?;
        Some(quota as f64 / period as f64)
    }

    /// Removes a group without processes, and the parent of all groups if it is empty.
    pub fn remove(&self, key: &str) {
        // Fails if there is none, or if a process is still in it.
        let _ = fs::remove_dir(self.group(key));
        let _ = fs::remove_dir(self.root().join(PARENT));
    }
}

/// Returns quota and period for a share of one core, microseconds: the shortest period in which the
/// share is a quota that the kernel accepts.
pub(super) fn quota_and_period_us(share: f64) -> (u64, u64) {
    let period = (QUOTA_MIN_US / share).clamp(PERIOD_US.0, PERIOD_US.1).round();
    let quota = (share * period).round().max(QUOTA_MIN_US);
    (quota as u64, period as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchy_with_the_cpu_controller_is_found() {
        let hybrid = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let v1 = Some(Hierarchy::V1("/sys/fs/cgroup/cpu".into()));
        assert_eq!(Hierarchy::parse_mounts(hybrid, |_| true), v1);
        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        let v2 = Some(Hierarchy::V2("/sys/fs/cgroup".into()));
        assert_eq!(Hierarchy::parse_mounts(unified, |_| true), v2);
        assert_eq!(Hierarchy::parse_mounts(unified, |_| false), None);
        assert_eq!(Hierarchy::parse_mounts("proc /proc proc rw 0 0\n", |_| true), None);
    }

    #[test]
    fn period_is_the_shortest_with_a_quota_that_the_kernel_accepts() {
        assert_eq!(quota_and_period_us(0.67), (6_700, 10_000));
        assert_eq!(quota_and_period_us(2.5), (25_000, 10_000));
        assert_eq!(quota_and_period_us(0.02), (1_000, 50_000));
        assert_eq!(quota_and_period_us(0.015), (1_000, 66_667));
        for share in [0.0, 0.0001] {
            assert_eq!(quota_and_period_us(share), (1_000, 100_000));
        }
    }

    /// Both versions write the same kind of files, so a plain directory stands for each of them.
    #[test]
    fn limit_of_both_versions_is_written_and_read_back() {
        for v2 in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().to_owned();
            let hierarchy = if v2 { Hierarchy::V2(path) } else { Hierarchy::V1(path) };
            hierarchy.limit("n-a", 1, None).unwrap();
            assert!(!root.path().join(PARENT).exists(), "no limit needs no group");
            hierarchy.limit("n-a", 1, Some(0.67)).unwrap();
            assert_eq!(hierarchy.quota("n-a"), Some(0.67));
            hierarchy.limit("n-a", 1, None).unwrap();
            assert_eq!(hierarchy.quota("n-a"), None);
            assert_eq!(hierarchy.quota("n-b"), None);
        }
    }
}
