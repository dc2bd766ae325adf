//! What can go wrong, in words that say what is lost and what to do.

use std::error::Error;
use std::io;

/// Oldest Linux that has all the programs need: `bpf_xdp_load_bytes`, and global functions.
const LINUX_MIN: (u32, u32) = (5, 18);

/// Why a kernel program is not at work. None of these keeps a router from running: packets come to any shard then, and are handed on. A
/// balancer is nothing but its program.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The process may not load or attach kernel programs.
    #[error(
        "this process may not use kernel programs, so packets are not brought to their shards in the kernel (many cross a thread more), and a \
         balancer can't run; allow it by `setcap cap_bpf,cap_net_admin+ep` on its file, or `AmbientCapabilities=CAP_BPF CAP_NET_ADMIN` in its \
         systemd unit"
    )]
    Rights {
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// The running kernel lacks what the programs need.
    #[error(
        "Linux {release} is too old for the kernel programs (5.18 or newer is needed), so packets are not brought to their shards in the kernel (many \
         cross a thread more), and a balancer can't run"
    )]
    TooOld {
        /// The running kernel's release.
        release: String,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// The kernel refused a program or a map for another reason.
    #[error("the kernel refused {what}; please report this with the reason behind it and `uname -r`")]
    Refused {
        /// What was refused.
        what: &'static str,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// The number of shards is 0 or above 64.
    #[error("{0} shards: there may be 1 to 64")]
    Shards(usize),
    /// A socket can't be the one of its shard.
    #[error(
        "the socket of shard {shard} can't be chosen by the kernel: it must be a UDP socket, bound after SO_REUSEPORT was set (for XDP: an AF_XDP socket)"
    )]
    Socket {
        /// The shard, from 0.
        shard: u32,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// A queue or shard beyond those that the program was loaded for.
    #[error("queue {queue}, shard {shard}: the program was loaded for {queues} queues and {shards} shards")]
    Slot {
        /// The queue asked for, from 0.
        queue: u32,
        /// The shard asked for, from 0.
        shard: u8,
        /// Queues there are.
        queues: u32,
        /// Shards there are.
        shards: u8,
    },
    /// More ports than the program has room for.
    #[error("{0} UDP ports: the program has room for 8")]
    Ports(usize),
    /// There is no such network interface.
    #[error("there is no network interface {0}; `ip link` lists those there are")]
    NoInterface(String),
    /// The interface already has an XDP program.
    #[error(
        "{interface} has another XDP program already; `ip link set dev {interface} xdp off` takes it away"
    )]
    Busy {
        /// The interface.
        interface: String,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// XDP can't be attached to the interface.
    #[error(
        "{interface} can't run XDP programs in {mode} mode as things are (its driver, MTU, queues or merged packets): take another mode (generic, tc)"
    )]
    NoDriver {
        /// The interface.
        interface: String,
        /// The mode that can't be.
        mode: &'static str,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// The kernel has no links to traffic control.
    #[error(
        "the balancer can't be attached to traffic control: that takes Linux 6.6 or newer, and an XDP mode takes 5.18"
    )]
    NoTrafficControl {
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// Maps and links can't be pinned.
    #[error("the balancer's maps can't be pinned in {folder}: {why}")]
    Pin {
        /// The folder.
        folder: String,
        /// What is wrong, and what to do.
        why: String,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// A cluster's address or port can't be.
    #[error("the cluster can't be so: {0}")]
    Cluster(&'static str),
    /// A member can't be so.
    #[error("member {number}: {why}")]
    Member {
        /// The member's number.
        number: u8,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Slots can't be so.
    #[error("the slots: {0}")]
    Slots(String),
    /// More than there is room for.
    #[error("{count} {what}: there may be {max}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many were given.
        count: usize,
        /// How many there may be.
        max: usize,
    },
}

/// What the system or the loader said.
pub type Cause = Box<dyn Error + Send + Sync>;

impl KernelError {
    /// From what the loader said of `what`.
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

    /// From what the system said of a shard's socket.
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

/// The system's error at the bottom of another.
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
    fn releases_as_they_come() {
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version("5.4.0-150-generic"), Some((5, 4)));
        assert_eq!(version("6.1"), Some((6, 1)));
        assert_eq!(version("linux"), None);
    }

    #[test]
    fn missing_rights_are_told_from_refusals() {
        let error = KernelError::of("a map", io::Error::from(rustix::io::Errno::PERM));
        assert!(matches!(error, KernelError::Rights { .. }));
        assert!(!error.to_string().contains('\n'), "one line: {error}");
        // The verifier says EACCES of a program that it refuses.
        let error = KernelError::of("a program", io::Error::from(rustix::io::Errno::ACCESS));
        assert!(!matches!(error, KernelError::Rights { .. }));
    }
}
