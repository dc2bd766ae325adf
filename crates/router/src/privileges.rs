//! What a router started with many rights gives up before it opens a socket (decision 0049).
//!
//! Everything here concerns the calling thread. So it runs before any other thread is started: those inherit what is left.

use nw_api::config::Config;
use nw_faces::FaceUri;
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why rights could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// `process.user` names none.
    #[error("process.user: {0}")]
    User(String),
    /// Only root can become another user.
    #[error(
        "process.user is {0:?}, and only root can become another user: start as root, or leave process.user out"
    )]
    NotRoot(String),
    /// The system refused.
    #[error("the system refused {what}: {errno}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        errno: Errno,
    },
}

/// A user of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
}

impl User {
    /// By name as /etc/passwd has it, or as `uid:gid`.
    ///
    /// # Errors
    /// A sentence: there is no such user.
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
            let found = fields.next() == Some(text);
            found.then(|| {
                (fields.nth(1).and_then(|uid| uid.parse().ok()), fields.next().and_then(|g| g.parse().ok()))
            })
        });
        match line {
            Some((Some(uid), Some(gid))) => Ok(User { uid, gid }),
            _ => Err(format!(
                "there is no user {text:?} in /etc/passwd: make one with `useradd --system {text}`, or give numbers as in \"990:990\""
            )),
        }
    }
}

/// The rights that a configuration's features need.
pub fn needed(config: &Config) -> CapabilitySet {
    let mut needed = CapabilitySet::empty();
    let listens = [&config.tcp.listen, &config.udp.listen, &config.websocket.listen, &config.control.listen];
    let first = unprivileged_port();
    if listens.into_iter().flatten().any(|address| address.port() != 0 && address.port() < first) {
        needed |= CapabilitySet::NET_BIND_SERVICE;
    }
    let uris = config.face.iter().map(|face| &face.uri).chain(config.route.iter().map(|route| &route.face));
    let ethernet = config.ethernet.multicast
        || config.ethernet.listen
        || uris.into_iter().any(|uri| matches!(uri.0.parse(), Ok(FaceUri::Ether(_))));
    if ethernet {
        needed |= CapabilitySet::NET_RAW;
    }
    if !config.xdp.interfaces.is_empty() {
        needed |=
            CapabilitySet::BPF | CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW | CapabilitySet::IPC_LOCK;
    }
    if config.forwarder.kernel && config.forwarder.shards != 1 {
        needed |= CapabilitySet::BPF;
    }
    if config.tables.lock {
        needed |= CapabilitySet::IPC_LOCK;
    }
    needed
}

/// Ports from this one on are everyone's.
fn unprivileged_port() -> u16 {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    text.trim().parse().unwrap_or(1024)
}

/// The number of the user that this process runs as.
pub fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Rights that a configuration needs, and that this process gave up as the one it was started with did not need them.
pub fn missing(config: &Config, started_with: &Config) -> Vec<String> {
    let held = rustix::thread::capabilities(None).map_or(CapabilitySet::all(), |sets| sets.permitted);
    names(needed(config).difference(needed(started_with)).difference(held))
}

fn names(set: CapabilitySet) -> Vec<String> {
    set.iter_names().map(|(name, _)| format!("CAP_{name}")).collect()
}

/// Becomes `process.user`, if there is one, and gives up every right that no feature of this configuration needs, for this process and all
/// that it starts. Returns the rights that are left.
///
/// # Errors
/// See [`PrivilegeError`]; what was given up until then stays so.
pub fn drop(config: &Config) -> Result<Vec<String>, PrivilegeError> {
    let system = |what| move |errno| PrivilegeError::System { what, errno };
    let sets = rustix::thread::capabilities(None).map_err(system("to tell its rights"))?;
    let kept = needed(config).intersection(sets.permitted);
    let root = rustix::process::geteuid().is_root();
    let user = config.process.user.as_deref();
    let user = user.map(|user| User::find(user).map(|found| (user, found)).map_err(PrivilegeError::User));
    let user = user.transpose()?;
    for (_, capability) in CapabilitySet::all().difference(kept).iter_names() {
        // Without the right to do so the set is the starter's affair: what is not held can't be had by it either, given what follows.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    match user {
        Some((name, user)) if user.uid != rustix::process::geteuid().as_raw() => {
            if !root {
                return Err(PrivilegeError::NotRoot(name.to_owned()));
            }
            give_folders(config, user);
            become_user(user)?;
        }
        _ => {}
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    let left = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, left).map_err(system("to give up rights"))?;
    rustix::thread::set_no_new_privs(true).map_err(system("to have no new rights"))?;
    Ok(names(kept))
}

/// Changes user and group of this thread, which is the only one, and keeps the capabilities it is permitted.
fn become_user(user: User) -> Result<(), PrivilegeError> {
    let system = |what| move |errno| PrivilegeError::System { what, errno };
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    rustix::thread::set_keep_capabilities(true).map_err(system("to keep rights"))?;
    rustix::thread::set_thread_groups(&[]).map_err(system("to leave groups"))?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).map_err(system("another group"))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).map_err(system("another user"))?;
    Ok(())
}

/// The folders of sockets belong to that user: new ones, and those of the system's own kind, such as /run/nfd, that are root's and nothing else's.
fn give_folders(config: &Config, user: User) {
    let unix = crate::unix_path(config);
    let sockets = [config.unix.enabled.then(|| unix.clone()), config.control_path(&unix)];
    let folders = sockets.into_iter().flatten().filter_map(|path| path.parent().map(PathBuf::from));
    for folder in folders {
        let is_new = !folder.exists() && fs::create_dir_all(&folder).is_ok();
        if is_new || is_own_of_root(&folder) {
            let owner = (Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)));
            if let Err(errno) = rustix::fs::chown(&folder, owner.0, owner.1) {
                tracing::warn!(folder = %folder.display(), "can't give the sockets' folder to process.user: {errno}");
            }
        }
    }
}

/// True for a folder in /run that is root's alone to write.
fn is_own_of_root(folder: &Path) -> bool {
    let in_run = folder.parent() == Some(Path::new("/run"));
    in_run && fs::metadata(folder).is_ok_and(|it| it.is_dir() && it.uid() == 0 && it.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_by_name_and_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nnamewire:x:990:991::/:/bin/false\nbroken:x\n";
        assert_eq!(User::find_in(passwd, "namewire"), Ok(User { uid: 990, gid: 991 }));
        assert_eq!(User::find_in(passwd, "5:6"), Ok(User { uid: 5, gid: 6 }));
        for unknown in ["nobody", "broken", "5", "", "990:"] {
            assert!(User::find_in(passwd, unknown).is_err(), "{unknown}");
        }
    }

    #[test]
    fn rights_follow_the_features_that_are_used() {
        let of = |text: &str| names(needed(&Config::parse("test", text).unwrap()));
        let one = "[forwarder]\nshards = 1\n";
        assert_eq!(of(one), [""; 0]);
        assert_eq!(of(""), ["CAP_BPF"]);
        assert_eq!(of("[forwarder]\nkernel = false\n"), [""; 0]);
        assert_eq!(of(&format!("{one}[faces.ethernet]\nlisten = true\n")), ["CAP_NET_RAW"]);
        let face = "[[face]]\nuri = \"ether://[08:00:27:01:02:03]\"\nlocal_uri = \"dev://eth0\"\n";
        assert_eq!(of(&format!("{one}{face}")), ["CAP_NET_RAW"]);
        assert_eq!(of(&format!("{one}[tables]\nlock = true\n")), ["CAP_IPC_LOCK"]);
        assert_eq!(of(&format!("{one}[faces.xdp]\ninterfaces = [\"eth0\"]\n")).len(), 4);
        let low = unprivileged_port().saturating_sub(1);
        if low > 0 {
            assert_eq!(
                of(&format!("{one}[faces.udp]\nlisten = [\"0.0.0.0:{low}\"]\n")),
                ["CAP_NET_BIND_SERVICE"]
            );
        }
    }
}
