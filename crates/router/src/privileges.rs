//! Drops the privileges that a router was started with and does not need, before it opens a socket
//! (decision 0049).
//!
//! All functions affect the calling thread only. They must be called before any other thread is
//! started: threads inherit the remaining privileges.

use nw_api::config::Config;
use nw_faces::FaceUri;
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Errors of [`drop`].
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// `process.user` names no user.
    #[error("process.user: {0}")]
    User(String),
    /// Only root can change the user.
    #[error(
        "process.user is {0:?}, but only root can change the user: start as root, or leave \
         process.user out"
    )]
    NotRoot(String),
    /// The operating system refused a request.
    #[error("the system refused {request}: {errno}")]
    System {
        /// The request, after "the system refused".
        request: &'static str,
        /// Error of the operating system.
        errno: Errno,
    },
}

/// User and group ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl User {
    /// Finds a user by its name in /etc/passwd, or parses `uid:gid`.
    ///
    /// # Errors
    /// A text, if there is no such user.
    pub fn find(text: &str) -> Result<Self, String> {
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        User::find_in(&passwd, text)
    }

    fn find_in(passwd: &str, text: &str) -> Result<Self, String> {
        if let Some((uid, gid)) = text.split_once(':')
            && let (Ok(uid), Ok(gid)) = (uid.parse(), gid.parse())
        {
            return Ok(User { uid, gid });
        }
        let line = passwd.lines().map(|line| line.split(':')).find_map(|mut fields| {
            let is_user = fields.next() == Some(text);
            is_user.then(|| {
                (
                    fields.nth(1).and_then(|uid| uid.parse().ok()),
                    fields.next().and_then(|g| g.parse().ok()),
                )
            })
        });
        match line {
            Some((Some(uid), Some(gid))) => Ok(User { uid, gid }),
            _ => Err(format!(
                "there is no user {text:?} in /etc/passwd: create it with `useradd --system \
                 {text}`, or use numbers such as \"990:990\""
            )),
        }
    }
}

/// Returns the capabilities that a configuration's features need.
pub fn needed(config: &Config) -> CapabilitySet {
    let mut needed = CapabilitySet::empty();
    let listens =
        [&config.tcp.listen, &config.udp.listen, &config.websocket.listen, &config.control.listen];
    let unprivileged = unprivileged_port();
    if listens
        .into_iter()
        .flatten()
        .any(|address| address.port() != 0 && address.port() < unprivileged)
    {
        needed |= CapabilitySet::NET_BIND_SERVICE;
    }
    let uris = config
        .face
        .iter()
        .map(|face| &face.uri)
        .chain(config.route.iter().map(|route| &route.face));
    let uses_ethernet = config.ethernet.multicast
        || config.ethernet.listen
        || config.pubsub.enabled && config.pubsub.domain && config.pubsub.ethernet
        || uris.into_iter().any(|uri| matches!(uri.0.parse(), Ok(FaceUri::Ether(_))));
    if uses_ethernet {
        needed |= CapabilitySet::NET_RAW;
    }
    if !config.xdp.interfaces.is_empty() {
        needed |= CapabilitySet::BPF
            | CapabilitySet::NET_ADMIN
            | CapabilitySet::NET_RAW
            | CapabilitySet::IPC_LOCK;
    }
    if config.pubsub.enabled && config.pubsub.domain {
        let uses_sockets = config.pubsub.uses_af_xdp();
        if config.pubsub.xdp || uses_sockets {
            needed |= CapabilitySet::BPF | CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
        }
        needed
            .set(CapabilitySet::IPC_LOCK, needed.contains(CapabilitySet::IPC_LOCK) || uses_sockets);
    }
    if config.forwarder.kernel && config.forwarder.shards != 1 {
        needed |= CapabilitySet::BPF;
    }
    if config.tables.lock {
        needed |= CapabilitySet::IPC_LOCK;
    }
    needed
}

/// Returns the first port that needs no capability.
fn unprivileged_port() -> u16 {
    let text =
        fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    text.trim().parse().unwrap_or(1024)
}

/// Returns the user id that this process runs as.
pub fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the capabilities that a configuration needs and that this process dropped at its start,
/// as the configuration of that time did not need them.
pub fn missing(config: &Config, started_with: &Config) -> Vec<String> {
    let permitted =
        rustix::thread::capabilities(None).map_or(CapabilitySet::all(), |sets| sets.permitted);
    capability_names(needed(config).difference(needed(started_with)).difference(permitted))
}

fn capability_names(set: CapabilitySet) -> Vec<String> {
    set.iter_names().map(|(name, _)| format!("CAP_{name}")).collect()
}

/// Changes to `process.user`, if configured, and drops every capability that no feature of this
/// configuration needs, for this process and its children. Returns the remaining capabilities.
///
/// # Errors
/// See [`PrivilegeError`]. Capabilities dropped before the error stay dropped.
pub fn drop(config: &Config) -> Result<Vec<String>, PrivilegeError> {
    let refused = |request| move |errno| PrivilegeError::System { request, errno };
    let sets = rustix::thread::capabilities(None).map_err(refused("to report capabilities"))?;
    let retained = needed(config).intersection(sets.permitted);
    let is_root = rustix::process::geteuid().is_root();
    let user = config.process.user.as_deref();
    let user =
        user.map(|user| User::find(user).map(|found| (user, found)).map_err(PrivilegeError::User));
    let user = user.transpose()?;
    for (_, capability) in CapabilitySet::all().difference(retained).iter_names() {
        // Without CAP_SETPCAP the bounding set stays as it is. What is not permitted can't be
        // regained anyway, because of no_new_privs below.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    match user {
        Some((name, user)) if user.uid != rustix::process::geteuid().as_raw() => {
            if !is_root {
                return Err(PrivilegeError::NotRoot(name.to_owned()));
            }
            give_socket_folders(config, user);
            become_user(user)?;
        }
        _ => {}
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    let sets = CapabilitySets {
        effective: retained,
        permitted: retained,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets).map_err(refused("to drop capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(refused("to set no_new_privs"))?;
    Ok(capability_names(retained))
}

/// Changes user and group of this thread, the only one, and keeps the permitted capabilities.
fn become_user(user: User) -> Result<(), PrivilegeError> {
    let refused = |request| move |errno| PrivilegeError::System { request, errno };
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    rustix::thread::set_keep_capabilities(true).map_err(refused("to keep capabilities"))?;
    rustix::thread::set_thread_groups(&[]).map_err(refused("to drop supplementary groups"))?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(refused("to change the group"))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(refused("to change the user"))?;
    Ok(())
}

/// Makes `user` the owner of the sockets' folders: of new ones, and of folders in /run that only
/// root can write to, such as /run/nfd.
fn give_socket_folders(config: &Config, user: User) {
    let unix = crate::unix_path(config);
    let sockets = [config.unix.enabled.then(|| unix.clone()), config.control_path(&unix)];
    let folders = sockets.into_iter().flatten().filter_map(|path| path.parent().map(PathBuf::from));
    for folder in folders {
        let is_new = !folder.exists() && fs::create_dir_all(&folder).is_ok();
        if is_new || is_writable_by_root_only(&folder) {
            let owner = (Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)));
            if let Err(errno) = rustix::fs::chown(&folder, owner.0, owner.1) {
                let folder = folder.display();
                tracing::warn!(%folder, "can't make process.user the owner of this folder: {errno}");
            }
        }
    }
}

/// Returns whether a folder is in /run and only root can write to it.
fn is_writable_by_root_only(folder: &Path) -> bool {
    let in_run = folder.parent() == Some(Path::new("/run"));
    in_run
        && fs::metadata(folder).is_ok_and(|metadata| {
            metadata.is_dir() && metadata.uid() == 0 && metadata.mode() & 0o022 == 0
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_found_by_name_or_numbers() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nnamewire:x:990:991::/:/bin/false\nbroken:x\n";
        assert_eq!(User::find_in(passwd, "namewire"), Ok(User { uid: 990, gid: 991 }));
        assert_eq!(User::find_in(passwd, "5:6"), Ok(User { uid: 5, gid: 6 }));
        for unknown in ["unknown", "broken", "5", "", "990:"] {
            assert!(User::find_in(passwd, unknown).is_err(), "{unknown}");
        }
    }

    #[test]
    fn needed_capabilities_follow_enabled_features() {
        let needed_for =
            |text: &str| capability_names(needed(&Config::parse("test", text).unwrap()));
        let single = "[forwarder]\nshards = 1\n";
        assert_eq!(needed_for(single), [""; 0]);
        assert_eq!(needed_for(""), ["CAP_BPF"]);
        assert_eq!(needed_for("[forwarder]\nkernel = false\n"), [""; 0]);
        assert_eq!(
            needed_for(&format!("{single}[faces.ethernet]\nlisten = true\n")),
            ["CAP_NET_RAW"]
        );
        let face = "[[face]]\nuri = \"ether://[08:00:27:01:02:03]\"\nlocal_uri = \"dev://eth0\"\n";
        assert_eq!(needed_for(&format!("{single}{face}")), ["CAP_NET_RAW"]);
        let pubsub = "[pubsub]\nenabled = true\nethernet = true\n";
        assert_eq!(needed_for(&format!("{single}{pubsub}")), ["CAP_NET_RAW"]);
        assert_eq!(needed_for(&format!("{single}{pubsub}domain = false\n")), [""; 0]);
        assert_eq!(needed_for(&format!("{single}{pubsub}xdp = true\n")).len(), 3);
        let sockets = "ethernet_sockets = \"xdp\"\n";
        assert_eq!(needed_for(&format!("{single}{pubsub}{sockets}")).len(), 4);
        assert_eq!(needed_for(&format!("{single}[tables]\nlock = true\n")), ["CAP_IPC_LOCK"]);
        assert_eq!(needed_for(&format!("{single}[faces.xdp]\ninterfaces = [\"eth0\"]\n")).len(), 4);
        let low = unprivileged_port().saturating_sub(1);
        if low > 0 {
            assert_eq!(
                needed_for(&format!("{single}[faces.udp]\nlisten = [\"0.0.0.0:{low}\"]\n")),
                ["CAP_NET_BIND_SERVICE"]
            );
        }
    }
}
