//! System calls of packet sockets that rustix lacks: filter, interface and group.

#![allow(unsafe_code)]

use super::sys::last_error;
use core::mem::{size_of, zeroed};
use core::ptr;
use nw_link::Mac;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `linux/bpf_common.h`: load 32 or 16 bits, and, jump if equal, return.
const LOAD_U32: u16 = 0x20;
const LOAD_U16: u16 = 0x28;
const AND: u16 = 0x54;
const JUMP_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// `linux/filter.h`: offsets from here on address the kernel's metadata of the frame.
const ANCILLARY: u32 = 0xffff_f000;
const PACKET_TYPE: u32 = ANCILLARY + 4;
const INTERFACE: u32 = ANCILLARY + 8;
const VLAN_TAG: u32 = ANCILLARY + 44;
const VLAN_TAG_PRESENT: u32 = ANCILLARY + 48;
/// Return value that passes the whole frame.
const WHOLE: u32 = 0x4_0000;

/// An instruction of a socket filter (classic BPF).
#[derive(Clone, Copy, Debug)]
pub struct Op {
    code: u16,
    equal: u8,
    other: u8,
    value: u32,
}

impl Op {
    const fn new(code: u16, value: u32) -> Self {
        Op { code, equal: 0, other: 0, value }
    }

    /// Loads two bytes of the frame.
    pub const fn load_u16(at: u32) -> Self {
        Op::new(LOAD_U16, at)
    }

    /// Loads four bytes of the frame.
    pub const fn load_u32(at: u32) -> Self {
        Op::new(LOAD_U32, at)
    }

    /// Loads the packet type: PACKET_HOST, PACKET_OUTGOING and so on.
    pub const fn load_packet_type() -> Self {
        Op::new(LOAD_U16, PACKET_TYPE)
    }

    /// Loads the index of the frame's interface: the VLAN's own interface, if there is one.
    pub const fn load_interface() -> Self {
        Op::new(LOAD_U32, INTERFACE)
    }

    /// Loads the 802.1Q tag that the kernel removed.
    pub const fn load_vlan() -> Self {
        Op::new(LOAD_U16, VLAN_TAG)
    }

    /// Loads 1 if there was a tag, else 0.
    pub const fn load_vlan_present() -> Self {
        Op::new(LOAD_U16, VLAN_TAG_PRESENT)
    }

    /// Applies a mask to the loaded value.
    pub const fn and(mask: u32) -> Self {
        Op::new(AND, mask)
    }

    /// Skips `equal` instructions if the loaded value equals `value`, else `other`.
    pub const fn jump_equal(value: u32, equal: u8, other: u8) -> Self {
        Op { code: JUMP_EQUAL, equal, other, value }
    }

    /// Accepts the frame.
    pub const fn accept() -> Self {
        Op::new(RETURN, WHOLE)
    }

    /// Drops the frame.
    pub const fn drop() -> Self {
        Op::new(RETURN, 0)
    }
}

/// Attaches a filter to a socket.
///
/// # Errors
/// If the kernel refuses the filter.
pub fn attach_filter(socket: BorrowedFd<'_>, filter: &[Op]) -> Result<(), Errno> {
    let mut code: Vec<libc::sock_filter> = filter
        .iter()
        .map(|op| libc::sock_filter { code: op.code, jt: op.equal, jf: op.other, k: op.value })
        .collect();
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    // The kernel copies the instructions, which live until the call returns.
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Joins a group on an interface.
///
/// # Errors
/// If the kernel refuses it.
pub fn join(socket: BorrowedFd<'_>, interface: u32, group: Mac) -> Result<(), Errno> {
    let mut address = [0; 8];
    address[..6].copy_from_slice(&group.0);
    let request = libc::packet_mreq {
        mr_ifindex: interface as libc::c_int,
        mr_type: libc::PACKET_MR_MULTICAST as _,
        mr_alen: 6,
        mr_address: address,
    };
    set(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Excludes frames sent by this machine, which the filter rejects anyway. No effect on kernels
/// before 4.20.
pub fn ignore_outgoing(socket: BorrowedFd<'_>) {
    /// `linux/if_packet.h`.
    const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
    let on: libc::c_int = 1;
    let _ = set(socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &on);
}

/// Binds a socket to an interface and an EtherType, which starts reception.
///
/// # Errors
/// If the kernel refuses it.
pub fn bind(socket: BorrowedFd<'_>, interface: u32, ethertype: u16) -> Result<(), Errno> {
    // SAFETY: sockaddr_ll is plain C data for which all zeros is a value.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as _;
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = interface as libc::c_int;
    // SAFETY: the address is a sockaddr_ll of the length given; the kernel copies it.
    let code = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_ll>() as _,
        )
    };
    if code == 0 { Ok(()) } else { Err(last_error()) }
}

fn set<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    // SAFETY: the option's value is what is behind the pointer, of the length given; callers pass
    // the type that the option has.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            ptr::from_ref(value).cast(),
            size_of::<T>() as _,
        )
    };
    if code == 0 { Ok(()) } else { Err(last_error()) }
}

/// Runs a filter as the kernel does, for tests.
#[cfg(test)]
pub fn run(
    filter: &[Op],
    frame: &[u8],
    (packet_type, interface): (u32, u32),
    tag: Option<u16>,
) -> bool {
    let (mut at, mut loaded) = (0, 0u32);
    loop {
        let op = filter[at];
        at += 1;
        match (op.code, op.value) {
            (LOAD_U16, PACKET_TYPE) => loaded = packet_type,
            (LOAD_U32, INTERFACE) => loaded = interface,
            (LOAD_U16, VLAN_TAG) => loaded = u32::from(tag.unwrap_or(0)),
            (LOAD_U16, VLAN_TAG_PRESENT) => loaded = u32::from(tag.is_some()),
            (LOAD_U16, offset) => {
                loaded = u32::from(u16::from_be_bytes(
                    frame[offset as usize..][..2].try_into().unwrap(),
                ));
            }
            (LOAD_U32, offset) => {
                loaded = u32::from_be_bytes(frame[offset as usize..][..4].try_into().unwrap())
            }
            (AND, mask) => loaded &= mask,
            (JUMP_EQUAL, value) => {
                at += usize::from(if loaded == value { op.equal } else { op.other })
            }
            (RETURN, len) => return len > 0,
            _ => unreachable!("the filter has only these instructions"),
        }
    }
}
