//! Sockets of a Blackadder node: datagrams from and to programs on this machine.
//!
//! ```text
//! program ── /tmp/blackadder.<pid> ──┐                    ┌── connected socket for each program
//! program ── netlink port <pid>    ──┴─▶ NodeSocket ──────┴── the same socket, for netlink
//! ```
//!
//! Invariant: a datagram is passed on with the user and process that the kernel says sent it; what
//! the datagram itself says about that is not read here. Descriptors sent with one are dropped.

#![allow(unsafe_code)]

use crate::credentials::Credentials;
use core::mem::{offset_of, size_of};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, netlink, sockopt,
};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of credentials in a control message: nothing else fits beside them.
// SAFETY: computes a length only.
const CONTROL_LEN: usize = unsafe { libc::CMSG_SPACE(size_of::<libc::ucred>() as u32) } as usize;
/// Bytes of datagrams that wait in a socket, as far as the system allows.
const BUFFER_LEN: usize = 4 << 20;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// The address of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramAddress {
    /// Path of its unix datagram socket.
    Path(PathBuf),
    /// Its netlink port.
    Port(u32),
}

/// A datagram of a program.
#[derive(Clone, Debug)]
pub struct Received {
    /// Bytes in the buffer.
    pub len: usize,
    /// Whether the datagram was longer than the buffer.
    pub is_cut: bool,
    /// Where answers go. `None` if its socket has no name.
    pub address: Option<ProgramAddress>,
    /// User and process that sent it; process 0 is one of another namespace.
    pub sender: Option<Credentials>,
}

/// The socket that programs send to.
#[derive(Debug)]
pub struct NodeSocket {
    socket: OwnedFd,
}

impl NodeSocket {
    /// Opens a unix datagram socket at a path, which must not exist.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn open_unix(path: &Path) -> Result<Self, Errno> {
        let address = SocketAddrUnix::new(path)?;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, FLAGS, None)?;
        NodeSocket::prepare(&socket)?;
        rustix::net::bind(&socket, &address)?;
        Ok(NodeSocket { socket })
    }

    /// Opens a generic netlink socket at a port.
    ///
    /// # Errors
    /// If the system refuses; [`Errno::ADDRINUSE`] if another program has the port.
    pub fn open_netlink(port: u32) -> Result<Self, Errno> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = rustix::net::socket_with(family, kind, FLAGS, Some(netlink::GENERIC))?;
        NodeSocket::prepare(&socket)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(port, 0))?;
        Ok(NodeSocket { socket })
    }

    fn prepare(socket: &OwnedFd) -> Result<(), Errno> {
        sockopt::set_socket_passcred(socket, true)?;
        // As much as the system allows.
        let _ = sockopt::set_socket_recv_buffer_size(socket, BUFFER_LEN);
        let _ = sockopt::set_socket_send_buffer_size(socket, BUFFER_LEN);
        Ok(())
    }

    /// Returns whether a node listens at the path of a unix datagram socket.
    pub fn is_in_use(path: &Path) -> bool {
        let connect = || {
            let socket =
                rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, FLAGS, None)?;
            rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
        };
        connect().is_ok()
    }

    /// Takes the next datagram. `None` if there is none.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Received>, Errno> {
        let mut name = libc::sockaddr_un { sun_family: 0, sun_path: [0; 108] };
        let mut control = [0_u64; CONTROL_LEN.div_ceil(8)];
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: a header of integers and pointers, for which zeros are valid.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_name = (&raw mut name).cast();
        message.msg_namelen = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_LEN;
        // SAFETY: name, buffer and control memory are as long as the header says, and live until
        // after the last use of the header.
        let len = unsafe {
            libc::recvmsg(
                self.socket.as_raw_fd(),
                &raw mut message,
                libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC,
            )
        };
        let Ok(len) = usize::try_from(len) else {
            let errno = Errno::from_io_error(&std::io::Error::last_os_error());
            return match errno.unwrap_or(Errno::IO) {
                Errno::AGAIN | Errno::INTR => Ok(None),
                errno => Err(errno),
            };
        };
        Ok(Some(Received {
            len,
            is_cut: message.msg_flags & libc::MSG_TRUNC != 0,
            address: address_of(&name, message.msg_namelen as usize),
            sender: sender_of(&message),
        }))
    }

    /// Returns a sender of datagrams to a program.
    ///
    /// # Errors
    /// If the program has no socket at the address, or this process may not write to it.
    pub fn sender_to(&self, address: &ProgramAddress) -> Result<ProgramSocket, Errno> {
        match address {
            ProgramAddress::Path(path) => {
                let socket =
                    rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, FLAGS, None)?;
                let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER_LEN);
                rustix::net::connect(&socket, &SocketAddrUnix::new(path.as_path())?)?;
                Ok(ProgramSocket::Unix(socket))
            }
            ProgramAddress::Port(port) => {
                let socket = rustix::io::fcntl_dupfd_cloexec(&self.socket, 0)?;
                Ok(ProgramSocket::Netlink(socket, *port))
            }
        }
    }
}

impl AsFd for NodeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Reads the name of a sender: a path or a netlink port.
fn address_of(name: &libc::sockaddr_un, len: usize) -> Option<ProgramAddress> {
    if i32::from(name.sun_family) == libc::AF_NETLINK && len == size_of::<libc::sockaddr_nl>() {
        // A `sockaddr_nl` has its port after the family and two bytes of padding.
        let port = core::array::from_fn(|at| name.sun_path[2 + at] as u8);
        return Some(ProgramAddress::Port(u32::from_ne_bytes(port)));
    }
    let path_len = len.checked_sub(offset_of!(libc::sockaddr_un, sun_path))?;
    let path: Vec<u8> = name.sun_path.iter().take(path_len).map(|byte| *byte as u8).collect();
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    // Nothing, or a name of the abstract namespace, which Blackadder does not use.
    (i32::from(name.sun_family) == libc::AF_UNIX && end > 0)
        .then(|| ProgramAddress::Path(OsStr::from_bytes(&path[..end]).into()))
}

/// Returns the credentials that the kernel attached to a datagram.
fn sender_of(message: &libc::msghdr) -> Option<Credentials> {
    // SAFETY: the header is as `recvmsg` left it, so its control messages lie within its control
    // memory, and the kernel wrote a whole `ucred` where it says so.
    let found = unsafe {
        let control = libc::CMSG_FIRSTHDR(message);
        let is_credentials = !control.is_null()
            && (*control).cmsg_level == libc::SOL_SOCKET
            && (*control).cmsg_type == libc::SCM_CREDENTIALS
            && (*control).cmsg_len as usize
                >= libc::CMSG_LEN(size_of::<libc::ucred>() as u32) as usize;
        is_credentials.then(|| libc::CMSG_DATA(control).cast::<libc::ucred>().read_unaligned())?
    };
    let pid = u32::try_from(found.pid).unwrap_or(0);
    Some(Credentials { uid: found.uid, gid: found.gid, pid })
}

/// A sender of datagrams to one program.
#[derive(Debug)]
pub enum ProgramSocket {
    /// A connected unix datagram socket.
    Unix(OwnedFd),
    /// The node's netlink socket, and the program's port.
    Netlink(OwnedFd, u32),
}

impl ProgramSocket {
    /// Sends a datagram.
    ///
    /// # Errors
    /// [`Errno::AGAIN`] if the program has not read earlier ones, [`Errno::CONNREFUSED`] if it is
    /// gone, [`Errno::MSGSIZE`] if the system does not take one of this length.
    pub fn send(&self, datagram: &[u8]) -> Result<(), Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match self {
            ProgramSocket::Unix(socket) => rustix::net::send(socket, datagram, flags),
            ProgramSocket::Netlink(socket, port) => {
                let address = SocketAddrNetlink::new(*port, 0);
                rustix::net::sendto(socket, datagram, flags, &address)
            }
        }
        .map(|_| ())
    }

    /// Returns the descriptor that epoll reports as writable once the program has read. `None` for
    /// netlink, which has no such report.
    pub fn waitable(&self) -> Option<BorrowedFd<'_>> {
        match self {
            ProgramSocket::Unix(socket) => Some(socket.as_fd()),
            ProgramSocket::Netlink(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn datagram_has_the_sender_that_the_kernel_knows() {
        let folder = tempfile::tempdir().unwrap();
        let (node, program) = (folder.path().join("node"), folder.path().join("program"));
        assert!(!NodeSocket::is_in_use(&node));
        let socket = NodeSocket::open_unix(&node).unwrap();
        assert!(NodeSocket::is_in_use(&node) && NodeSocket::open_unix(&node).is_err());
        let mut buffer = [0; 16];
        assert!(socket.receive(&mut buffer).unwrap().is_none());
        let bound = UnixDatagram::bind(&program).unwrap();
        bound.send_to(b"hello", &node).unwrap();
        let received = socket.receive(&mut buffer).unwrap().unwrap();
        assert_eq!((&buffer[..received.len], received.is_cut), (&b"hello"[..], false));
        assert_eq!(received.sender.map(|sender| sender.pid), Some(std::process::id()));
        assert_eq!(received.address, Some(ProgramAddress::Path(program)));
        let sender = socket.sender_to(&received.address.unwrap()).unwrap();
        sender.send(b"answer").unwrap();
        let len = bound.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"answer");
        UnixDatagram::unbound().unwrap().send_to(&[7; 17], &node).unwrap();
        let received = socket.receive(&mut buffer).unwrap().unwrap();
        assert!(received.is_cut && received.address.is_none());
        drop(bound);
        assert_eq!(sender.send(b"answer"), Err(Errno::CONNREFUSED));
    }

    #[test]
    fn full_program_returns_again_and_is_reported_as_writable_later() {
        let folder = tempfile::tempdir().unwrap();
        let (node, program) = (folder.path().join("node"), folder.path().join("program"));
        let socket = NodeSocket::open_unix(&node).unwrap();
        let bound = UnixDatagram::bind(&program).unwrap();
        let sender = socket.sender_to(&ProgramAddress::Path(program)).unwrap();
        let errno = (0..100_000).find_map(|_| sender.send(&[0; 100]).err());
        assert_eq!(errno, Some(Errno::AGAIN));
        let is_writable = || {
            let waitable = sender.waitable().unwrap();
            let mut polled =
                [rustix::event::PollFd::from_borrowed_fd(waitable, rustix::event::PollFlags::OUT)];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            rustix::event::poll(&mut polled, Some(&now)).unwrap() == 1
        };
        assert!(!is_writable());
        bound.set_nonblocking(true).unwrap();
        while bound.recv(&mut [0; 100]).is_ok() {}
        assert!(is_writable());
    }
}
