//! Listening sockets that were opened before this program started: systemd's socket activation (sd_listen_fds(3)).

use crate::error::FaceError;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first descriptor that is passed.
const FIRST: i32 = 3;
/// More are not looked at.
const COUNT_MAX: i32 = 64;

/// A listening unix stream socket, and the path it is at.
#[derive(Debug)]
pub struct InheritedUnix {
    /// The socket.
    pub socket: OwnedFd,
    /// Its path.
    pub path: PathBuf,
}

/// Takes the unix sockets that this process was started with; none when it was started otherwise, or when they were taken before.
///
/// # Errors
/// When something else was passed: a unit that is not for this program.
pub fn take_inherited() -> Result<Vec<InheritedUnix>, FaceError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let variable = |name| std::env::var(name).ok().and_then(|text: String| text.parse::<i32>().ok());
    let ours = variable("LISTEN_PID").is_some_and(|pid| pid.unsigned_abs() == std::process::id());
    let count = variable("LISTEN_FDS").filter(|count| ours && (0..=COUNT_MAX).contains(count)).unwrap_or(0);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    (FIRST..FIRST + count).map(adopt).collect()
}

#[allow(unsafe_code)]
fn adopt(number: i32) -> Result<InheritedUnix, FaceError> {
    let fail = |errno| FaceError::system("use", format_args!("inherited descriptor {number}"))(errno);
    // SAFETY: LISTEN_PID names this process, so by sd_listen_fds(3) descriptors 3 to 2 + LISTEN_FDS were opened for it and belong to nobody
    // else in it; they are taken at most once. Should that be a lie and the descriptor not be open, the calls below fail with EBADF.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    let path = describe(&socket).map_err(fail)?;
    Ok(InheritedUnix { socket, path })
}

fn describe(socket: &OwnedFd) -> Result<PathBuf, Errno> {
    rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(socket, true)?;
    let stream = sockopt::socket_type(socket)? == SocketType::STREAM;
    if !stream
        || sockopt::socket_domain(socket)? != AddressFamily::UNIX
        || !sockopt::socket_acceptconn(socket)?
    {
        return Err(Errno::NOTSOCK);
    }
    let address = SocketAddrUnix::try_from(rustix::net::getsockname(socket)?)?;
    let path = address.path().ok_or(Errno::ADDRNOTAVAIL)?;
    Ok(Path::new(std::ffi::OsStr::from_bytes(path.to_bytes())).to_owned())
}
