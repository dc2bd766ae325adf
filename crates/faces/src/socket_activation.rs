//! Listening sockets passed by the service manager: systemd's socket activation (sd_listen_fds(3)).

use crate::error::FaceError;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of the first passed descriptor.
const FIRST: i32 = 3;
/// Descriptors examined at most.
const COUNT_MAX: i32 = 64;

/// A listening unix stream socket that was passed to this process.
#[derive(Debug)]
pub struct ActivatedUnixSocket {
    /// The socket.
    pub socket: OwnedFd,
    /// Path that it is bound to.
    pub path: PathBuf,
}

/// Takes the unix sockets passed to this process. Empty if none were passed or they were taken
/// before.
///
/// # Errors
/// If something other than a listening unix stream socket was passed: the unit is not for this
/// program.
pub fn take_activated_sockets() -> Result<Vec<ActivatedUnixSocket>, FaceError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let variable =
        |name| std::env::var(name).ok().and_then(|text: String| text.parse::<i32>().ok());
    let is_for_us =
        variable("LISTEN_PID").is_some_and(|pid| pid.unsigned_abs() == std::process::id());
    let count = variable("LISTEN_FDS")
        .filter(|count| is_for_us && (0..=COUNT_MAX).contains(count))
        .unwrap_or(0);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    (FIRST..FIRST + count).map(adopt).collect()
}

#[allow(unsafe_code)]
fn adopt(number: i32) -> Result<ActivatedUnixSocket, FaceError> {
    let fail = |errno| FaceError::system("use", format_args!("passed descriptor {number}"))(errno);
    // SAFETY: LISTEN_PID names this process, so by sd_listen_fds(3) descriptors 3 to 2 + LISTEN_FDS
    // were opened for it and have no other owner in it; they are taken at most once. If that is
    // wrong and the descriptor is not open, the calls below fail with EBADF.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    let path = describe(&socket).map_err(fail)?;
    Ok(ActivatedUnixSocket { socket, path })
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
