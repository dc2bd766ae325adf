//! System calls of datagram sockets that rustix lacks: many datagrams per call, with offload of
//! runs of equal size (GRO, GSO), and the error queue.
//!
//! All `unsafe` of the crate is here and in the modules that `lib.rs` lists. Why not quinn-udp: see
//! the crate's README.

#![allow(unsafe_code)]

use core::mem::{MaybeUninit, size_of, zeroed};
use core::ptr;
use rustix::io::Errno;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Messages received per call; each may hold many datagrams of one peer (GRO).
pub const RECEIVED_MAX: usize = 16;

/// Messages sent per call; each may hold many datagrams to one peer (GSO).
pub const SENT_MAX: usize = 64;

/// Space for one control message with an `int` (24 bytes on 64 bits) and, as alignment requires, a
/// second one.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

/// One received message.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Address of the sender.
    pub peer: SocketAddr,
    /// Bytes in the buffer.
    pub len: usize,
    /// Bytes of each datagram in it; the last may be shorter.
    pub stride: usize,
    /// The buffer was too small, so its contents are not a datagram.
    pub truncated: bool,
}

impl Received {
    /// An empty value, to be filled by [`receive`].
    pub const NONE: Received = Received {
        peer: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        len: 0,
        stride: 0,
        truncated: false,
    };
}

/// One message to send: some pieces, concatenated, to one peer.
#[derive(Clone, Debug)]
pub struct Message {
    /// Destination; `None` for frames, which carry it.
    pub peer: Option<SocketAddr>,
    /// Range of its pieces: start and end (exclusive).
    pub pieces: (usize, usize),
    /// Bytes of each datagram, if the pieces hold several; the last may be shorter.
    pub segment: Option<u16>,
}

/// Receives available messages, up to one per buffer, without blocking. Returns their number.
///
/// # Errors
/// `AGAIN` if there is none; otherwise the socket's error.
pub fn receive<const N: usize>(
    socket: BorrowedFd<'_>,
    buffers: [&mut [u8]; N],
    received: &mut [Received; N],
) -> Result<usize, Errno> {
    let mut pieces = buffers.map(IoSliceMut::new);
    // SAFETY: sockaddr_storage and mmsghdr are plain C data for which all zeros is a value.
    let mut names: [libc::sockaddr_storage; N] = unsafe { zeroed() };
    let mut controls = [Control([0; 64]); N];
    // SAFETY: as above.
    let mut headers: [libc::mmsghdr; N] = unsafe { zeroed() };
    for (at, header) in headers.iter_mut().enumerate() {
        header.msg_hdr.msg_name = ptr::from_mut(&mut names[at]).cast();
        header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as _;
        // IoSliceMut is ABI compatible with iovec, by its documentation.
        header.msg_hdr.msg_iov = ptr::from_mut(&mut pieces[at]).cast();
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_control = ptr::from_mut(&mut controls[at]).cast();
        header.msg_hdr.msg_controllen = size_of::<Control>() as _;
    }
    // SAFETY: each header points at a name, a piece and a control buffer of the lengths given, all
    // of which live and are not touched until the call is over.
    let count = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            N as _,
            libc::MSG_DONTWAIT as _,
            ptr::null_mut(),
        )
    };
    let count = usize::try_from(count).map_err(|_| last_error())?;
    for (at, header) in headers[..count].iter().enumerate() {
        let len = header.msg_len as usize;
        received[at] = Received {
            peer: from_storage(&names[at]).unwrap_or(Received::NONE.peer),
            len,
            stride: gro_stride(&header.msg_hdr).unwrap_or(len).max(1),
            truncated: header.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
        };
    }
    Ok(count)
}

fn gro_stride(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel filled the control buffer that the header points at and set its length;
    // the macros stay within it.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            if (*control).cmsg_level == libc::SOL_UDP && (*control).cmsg_type == libc::UDP_GRO {
                let stride = ptr::read_unaligned(libc::CMSG_DATA(control).cast::<libc::c_int>());
                return usize::try_from(stride).ok().filter(|stride| *stride > 0);
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    None
}

/// Sends messages without blocking. Returns how many of the first were sent.
///
/// # Errors
/// Why the first could not be sent.
pub fn send(
    socket: BorrowedFd<'_>,
    messages: &[Message],
    pieces: &[IoSlice<'_>],
) -> Result<usize, Errno> {
    let messages = &messages[..messages.len().min(SENT_MAX)];
    let mut names = [MaybeUninit::<Name>::uninit(); SENT_MAX];
    let mut controls = [MaybeUninit::<Control>::uninit(); SENT_MAX];
    let mut headers = [MaybeUninit::<libc::mmsghdr>::uninit(); SENT_MAX];
    for (at, message) in messages.iter().enumerate() {
        // SAFETY: mmsghdr is plain C data for which all zeros is a value.
        let mut header: libc::mmsghdr = unsafe { zeroed() };
        if let Some(peer) = message.peer {
            let (name_len, name) = Name::new(peer);
            header.msg_hdr.msg_name = ptr::from_mut(names[at].write(name)).cast();
            header.msg_hdr.msg_namelen = name_len;
        }
        let parts = &pieces[message.pieces.0..message.pieces.1];
        // IoSlice is ABI compatible with iovec, by its documentation; sendmmsg only reads it.
        header.msg_hdr.msg_iov = parts.as_ptr().cast_mut().cast();
        header.msg_hdr.msg_iovlen = parts.len() as _;
        if let Some(segment) = message.segment {
            header.msg_hdr.msg_control = ptr::from_mut(controls[at].write(Control([0; 64]))).cast();
            // SAFETY: CMSG_SPACE and CMSG_LEN only compute. The control buffer is aligned for and
            // longer than one message with a u16, so CMSG_FIRSTHDR is within it and so is its data.
            unsafe {
                header.msg_hdr.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as _) as _;
                let control = libc::CMSG_FIRSTHDR(&header.msg_hdr);
                (*control).cmsg_level = libc::SOL_UDP;
                (*control).cmsg_type = libc::UDP_SEGMENT;
                (*control).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as _) as _;
                ptr::write_unaligned(libc::CMSG_DATA(control).cast::<u16>(), segment);
            }
        }
        headers[at].write(header);
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the first `messages.len()` headers were written above and point at names, pieces and
    // control buffers that live and are not touched until the call is over.
    let count = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            messages.len() as _,
            flags as _,
        )
    };
    usize::try_from(count).map_err(|_| last_error())
}

/// A socket address in the kernel's format.
#[repr(C)]
#[derive(Clone, Copy)]
union Name {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    fn new(address: SocketAddr) -> (libc::socklen_t, Name) {
        match address {
            SocketAddr::V4(address) => {
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as _,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                    sin_zero: [0; 8],
                };
                (size_of::<libc::sockaddr_in>() as _, Name { v4 })
            }
            SocketAddr::V6(address) => {
                let v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as _,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                    sin6_scope_id: address.scope_id(),
                };
                (size_of::<libc::sockaddr_in6>() as _, Name { v6 })
            }
        }
    }
}

fn from_storage(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the storage is larger than, and aligned for, a sockaddr_in, which is what its
            // family says it holds.
            let v4 = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::from((ip, u16::from_be(v4.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: the same holds for a sockaddr_in6.
            let v6 = unsafe { &*ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            // The flow label does not identify a peer.
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

pub(super) fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn set(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> Result<(), Errno> {
    // SAFETY: the option's value is the int behind the pointer, of the length given; the kernel
    // copies it.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            ptr::from_ref(&value).cast(),
            size_of::<libc::c_int>() as _,
        )
    };
    if code == 0 { Ok(()) } else { Err(last_error()) }
}

/// Turns GRO on or off: runs of datagrams in one buffer. Returns false if the kernel can't.
pub fn set_gro(socket: BorrowedFd<'_>, on: bool) -> bool {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, on.into()).is_ok()
}

/// Receives only groups that this socket joined, on the interface where it did.
///
/// # Errors
/// If the kernel does not support it.
pub fn own_groups_only(socket: BorrowedFd<'_>, v6: bool) -> Result<(), Errno> {
    /// From `linux/in6.h`; libc has it not for every target.
    const IPV6_MULTICAST_ALL: libc::c_int = 29;
    if v6 {
        set(socket, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)
    } else {
        set(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0)
    }
}

/// Returns whether the kernel can send runs of datagrams as one message (GSO).
pub fn has_gso(socket: BorrowedFd<'_>) -> bool {
    // 0 keeps it off for messages without a segment size.
    set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok()
}

/// Turns on the error queue, for ICMP errors with the address that they are about.
///
/// # Errors
/// If the kernel refuses it.
pub fn enable_errors(socket: BorrowedFd<'_>, v6: bool) -> Result<(), Errno> {
    if v6 {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)
    } else {
        set(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1)
    }
}

/// Takes one error from the error queue: the destination of the datagram, if known, and the error.
pub fn next_error(socket: BorrowedFd<'_>) -> Option<(Option<SocketAddr>, Errno)> {
    #[repr(C, align(8))]
    struct ErrorControl([u8; 256]);
    // SAFETY: plain C data for which all zeros is a value.
    let (mut name, mut header): (libc::sockaddr_storage, libc::msghdr) =
        unsafe { (zeroed(), zeroed()) };
    let mut control = ErrorControl([0; 256]);
    header.msg_name = ptr::from_mut(&mut name).cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as _;
    header.msg_control = ptr::from_mut(&mut control).cast();
    header.msg_controllen = size_of::<ErrorControl>() as _;
    // SAFETY: the header points at a name and a control buffer of the lengths given, and at no
    // piece; all live until the call is over.
    let code = unsafe {
        libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
    };
    if code < 0 {
        return None;
    }
    let mut errno = Errno::IO;
    // SAFETY: the kernel filled the control buffer that the header points at and set its length;
    // the macros stay within it, and a message of type RECVERR holds a sock_extended_err.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&header);
        while !message.is_null() {
            let kind = ((*message).cmsg_level, (*message).cmsg_type);
            if kind == (libc::IPPROTO_IP, libc::IP_RECVERR)
                || kind == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
            {
                let error =
                    ptr::read_unaligned(libc::CMSG_DATA(message).cast::<libc::sock_extended_err>());
                errno = Errno::from_raw_os_error(error.ee_errno as i32);
            }
            message = libc::CMSG_NXTHDR(&header, message);
        }
    }
    Some((from_storage(&name), errno))
}

/// Fill levels of a socket's buffers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Bytes in use of the receive buffer, the kernel's overhead included.
    pub used: usize,
    /// Size of the receive buffer, bytes.
    pub limit: usize,
    /// Bytes handed to the interface and not transmitted by it, the kernel's overhead included. Of
    /// datagrams also those that wait for that.
    pub in_interface: usize,
    /// Datagrams lost because the buffer was full, since the socket was opened (modulo 2^32).
    pub drops: u32,
}

/// Returns the fill levels of a socket's buffers.
pub fn memory(socket: BorrowedFd<'_>) -> Memory {
    /// SK_MEMINFO_VARS: rmem_alloc, rcvbuf, wmem_alloc, sndbuf, fwd_alloc, wmem_queued, optmem,
    /// backlog, drops.
    const VARS: usize = 9;
    let mut vars = [0u32; VARS];
    let mut len = size_of::<[u32; VARS]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the array, which is that long.
    let code = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            vars.as_mut_ptr().cast(),
            &mut len,
        )
    };
    if code != 0 {
        return Memory::default();
    }
    let [used, limit, in_interface] = [vars[0], vars[1], vars[2]].map(|bytes| bytes as usize);
    Memory { used, limit, in_interface, drops: vars[8] }
}

/// Returns the bytes that the kernel has not transmitted yet. Of a TCP stream these are those in
/// the socket's queue and those in the interface's, where a token bucket may hold them for 15 ms;
/// not those that are on their way to the peer.
pub fn unsent(socket: BorrowedFd<'_>, tcp: bool) -> usize {
    /// linux/sockios.h, the same on all architectures.
    const SIOCOUTQNSD: libc::c_int = 0x894b;
    let request = if tcp { SIOCOUTQNSD } else { libc::TIOCOUTQ as libc::c_int };
    let mut bytes: libc::c_int = 0;
    // SAFETY: both requests write one int to where the pointer says.
    let code = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, ptr::from_mut(&mut bytes)) };
    let bytes = if code == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 };
    bytes + if tcp { memory(socket).in_interface } else { 0 }
}
