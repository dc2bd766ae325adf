//! User and process at the other end of a unix socket (SO_PEERCRED). A process id of zero is not an
//! error: a process in another namespace has that.

#![allow(unsafe_code)]

use core::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// User and process of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Process id; 0 if it has none in this namespace.
    pub pid: u32,
}

/// Returns the credentials of the peer of a connected unix socket. `None` for other sockets.
pub fn of_peer(socket: BorrowedFd<'_>) -> Option<Credentials> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `found`, which is that long and made of
    // integers.
    let code = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &mut len,
        )
    };
    // A socket without credentials has user -1.
    let is_known = code == 0 && found.uid != u32::MAX;
    is_known.then(|| Credentials {
        uid: found.uid,
        gid: found.gid,
        pid: u32::try_from(found.pid).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn credentials_are_those_of_the_connecting_process() {
        let (socket, _peer) = UnixStream::pair().unwrap();
        let own = Credentials {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            pid: std::process::id(),
        };
        assert_eq!(of_peer(socket.as_fd()), Some(own));
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(of_peer(tcp.as_fd()), None);
    }
}
