//! The errors of loading and attaching programs. Each message says what is lost and what to do.

use std::error::Error;
use std::io;

/// The oldest Linux version with all features needed: `bpf_xdp_load_bytes` and global functions.
const LINUX_MIN: (u32, u32) = (5, 18);

/// A kernel program can't work. A router runs without it: packets then arrive at any shard and are
/// handed over. A balancer can't.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The process may not load or attach kernel programs.
    #[error(
        "this process may not use kernel programs, so packets are not brought to their shards in the kernel (many \
         pass through one more thread), and a balancer can't run; allow it by `setcap cap_bpf,cap_net_admin+ep` on \
         its file, or `AmbientCapabilities=CAP_BPF CAP_NET_ADMIN` in its systemd unit"
    )]
    Rights {
        /// The error of the system.
        #[source]
        source: Cause,
    },
    /// The running kernel lacks a feature.
    #[error(
        "Linux {release} is too old for the kernel programs (5.18 or newer is needed), so packets are not brought to \
         their shards in the kernel (many pass through one more thread), and a balancer can't run"
    )]
    TooOld {
        /// The running kernel's release.
        release: String,
        /// The error of the system.
        #[source]
        source: Cause,
    },
    /// The kernel refused a program or a map for another reason.
    #[error(
        "the kernel refused {what}; please report this with the cause below and the output of `uname -r`"
    )]
    Refused {
        /// The program or map.
        what: &'static str,
        /// The error of the system.
        #[source]
        source: Cause,
    },
    /// The number of shards is 0 or above 64.
    #[error("{0} shards: there may be 1 to 64")]
    Shards(usize),
    /// A socket can't be assigned to its shard.
    #[error(
        "the socket of shard {shard} can't be used by the kernel program: it must be a UDP socket, bound after \
         SO_REUSEPORT was set (for XDP: an AF_XDP socket)"
    )]
    Socket {
        /// The shard, from 0.
        shard: u32,
        /// The error of the system.
        #[source]
        source: Cause,
    },
    /// A queue or shard is out of range.
    #[error(
        "queue {queue}, shard {shard}: the program was loaded for {queues} queues and {shards} shards"
    )]
    Slot {
        /// The queue, from 0.
        queue: u32,
        /// The shard, from 0.
        shard: u8,
        /// Number of queues.
        queues: u32,
        /// Number of shards.
        shards: u8,
    },
    /// Too many UDP ports.
    #[error("{0} UDP ports: at most 8 are possible")]
    Ports(usize),
    /// The interface does not exist.
    #[error("there is no network interface {0}; `ip link` lists all interfaces")]
    NoInterface(String),
    /// Another XDP program is attached to the interface.
    #[error(
        "{interface} has another XDP program already; `ip link set dev {interface} xdp off` detaches it"
    )]
    Busy {
        /// The interface.
        interface: String,
        /// The error of the system.
        #[source]
        source: Cause,
    },
    /// XDP can't be attached to the interface.
    #[error(
        "{interface} can't run XDP programs in {mode} mode with its driver, MTU, queues and offloads: use another \
         mode (generic, tc)"
    )]
    NoDriver {
        /// The interface.
        interface: String,
        /// The mode that was tried.
        mode: &'static str,
        /// The error of the system.
        #[source]
        source: Cause,
    },
    /// The kernel can't attach to traffic control by links.
    #[error(
        "the balancer can't be attached to traffic control: that needs Linux 6.6 or newer (XDP modes need 5.18)"
    )]
    NoTrafficControl {
        /// The error of the system.
        #[source]
        source: Cause,
    },
    /// Maps and links can't be pinned.
    #[error("the balancer's maps can't be pinned in {directory}: {why}")]
    Pin {
        /// The directory.
        directory: String,
        /// The reason, and what to do.
        why: String,
        /// The error of the system.
        #[source]
        source: Cause,
    },
    /// The cluster's address or port is invalid.
    #[error("invalid cluster: {0}")]
    Cluster(&'static str),
    /// A member is invalid.
    #[error("member {number}: {why}")]
    Member {
        /// The member's number.
        number: u8,
        /// The reason, and what to do.
        why: String,
    },
    /// The slots are invalid.
    #[error("invalid slots: {0}")]
    Slots(String),
    /// Too many entries for a map.
    #[error("{count} {what}: at most {max} are possible")]
    TooMany {
        /// The kind of entries.
        what: &'static str,
        /// The number given.
        count: usize,
        /// The maximum.
        max: usize,
    },
}

/// The error of the system or the loader.
pub type Cause = Box<dyn Error + Send + Sync>;

impl KernelError {
    /// Creates the error for a loader's error about `what`.
    pub(crate) fn of(what: &'static str, error: impl Into<Cause>) -> Self {
        let source = error.into();
        if is(&*source, io::ErrorKind::PermissionDenied)
            && os_error(&*source) == Some(rustix::io::Errno::PERM)
        {
            return KernelError::Rights { source };
        }
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        if version(&release).is_some_and(|running| running < LINUX_MIN) {
            return KernelError::TooOld { release, source };
        }
        KernelError::Refused { what, source }
    }

    /// Creates the error for a system's error about a shard's socket.
    pub(crate) fn of_socket(shard: u32, error: impl Into<Cause>) -> Self {
        let source = error.into();
        if os_error(&*source) == Some(rustix::io::Errno::PERM) {
            return KernelError::Rights { source };
        }
        KernelError::Socket { shard, source }
    }
}

fn is(error: &(dyn Error + 'static), kind: io::ErrorKind) -> bool {
    io_error(error).is_some_and(|e| e.kind() == kind)
}

/// Returns the system's error at the end of the chain of causes.
pub(crate) fn os_error(error: &(dyn Error + 'static)) -> Option<rustix::io::Errno> {
    io_error(error).and_then(rustix::io::Errno::from_io_error)
}

fn io_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<io::Error>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_release_is_parsed() {
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version("5.4.0-150-generic"), Some((5, 4)));
        assert_eq!(version("6.1"), Some((6, 1)));
        assert_eq!(version("linux"), None);
    }

    #[test]
    fn missing_rights_differ_from_a_refusal() {
        let error = KernelError::of("a map", io::Error::from(rustix::io::Errno::PERM));
        assert!(matches!(error, KernelError::Rights { .. }));
        assert!(!error.to_string().contains('\n'), "one line: {error}");
        // The verifier reports EACCES for a program that it refuses.
        let error = KernelError::of("a program", io::Error::from(rustix::io::Errno::ACCESS));
        assert!(!matches!(error, KernelError::Rights { .. }));
    }
}
