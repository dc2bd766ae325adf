//! Switching off what network cards do for the system, as `ethtool -K` does: the kernel's own netlink family, so that no program is needed.
//!
//! A pair of virtual interfaces hands a packet over with its checksum half made, as nobody looks. A kernel program that sends it on does not make
//! the other half, so the receiver drops it: senders must make whole ones.

use crate::error::LabError;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use std::os::fd::{AsFd, OwnedFd};

/// From `linux/netlink.h`, `linux/genetlink.h`, `linux/ethtool_netlink.h`.
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const ETHTOOL_MSG_FEATURES_SET: u8 = 12;
const ETHTOOL_A_FEATURES_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_HEADER_DEV_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BIT_VALUE: u16 = 3;
const NESTED: u16 = 0x8000;
const HEADER_LEN: usize = 16;
const GENERIC_LEN: usize = 4;

/// Whole checksums, and VLAN tags in the frame, where a kernel program sees them.
pub(crate) const WHOLE: &[(&str, bool)] =
    &[("tx-checksum-ip-generic", false), ("tx-vlan-hw-insert", false), ("tx-vlan-stag-hw-insert", false)];
/// Takes in what a kernel program at the other end sends: without either a program or this, frames that are redirected to an interface vanish.
pub(crate) const TAKES_REDIRECTED: &[(&str, bool)] = &[("rx-gro", true)];

/// Switches features of an interface in this thread's namespace. It must be up before GRO is switched on.
pub(crate) fn set(interface: &str, features: &[(&str, bool)]) -> Result<(), LabError> {
    let refused = |said: String| LabError::Refused { what: format!("ethtool -K {interface}"), said };
    let talk = || -> rustix::io::Result<i32> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::GENERIC),
        )?;
        let family = family(&socket)?;
        let bits: Vec<u8> = features.iter().flat_map(|(name, on)| bit(name, *on)).collect();
        let bits = attribute(ETHTOOL_A_BITSET_BITS | NESTED, &bits);
        let mut body =
            attribute(ETHTOOL_A_FEATURES_HEADER | NESTED, &text(ETHTOOL_A_HEADER_DEV_NAME, interface));
        body.extend(attribute(ETHTOOL_A_FEATURES_WANTED | NESTED, &bits));
        send(&socket, family, ETHTOOL_MSG_FEATURES_SET, NLM_F_REQUEST | NLM_F_ACK, &body)?;
        loop {
            for (typ, message) in messages(&receive(&socket)?) {
                if typ == NLMSG_ERROR {
                    return Ok(message.first_chunk().map_or(-1, |code| i32::from_ne_bytes(*code)));
                }
            }
        }
    };
    match talk() {
        Ok(0) => Ok(()),
        Ok(code) => Err(refused(std::io::Error::from_raw_os_error(-code).to_string())),
        Err(errno) => Err(refused(errno.to_string())),
    }
}

/// The number that the family has in this boot.
fn family(socket: &OwnedFd) -> rustix::io::Result<u16> {
    send(socket, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, NLM_F_REQUEST, &text(CTRL_ATTR_FAMILY_NAME, "ethtool"))?;
    let answer = receive(socket)?;
    let message = messages(&answer).find(|(typ, _)| *typ == GENL_ID_CTRL).map(|(_, message)| message);
    let attributes = message.and_then(|message| message.get(GENERIC_LEN..)).unwrap_or(&[]);
    let id = self::attributes(attributes).find(|(typ, _)| *typ == CTRL_ATTR_FAMILY_ID);
    id.and_then(|(_, value)| value.first_chunk().copied().map(u16::from_ne_bytes))
        .ok_or(rustix::io::Errno::NOENT)
}

fn send(socket: &OwnedFd, family: u16, command: u8, flags: u16, body: &[u8]) -> rustix::io::Result<()> {
    let len = (HEADER_LEN + GENERIC_LEN + body.len()) as u32;
    let mut message = len.to_ne_bytes().to_vec();
    message.extend(family.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend(body);
    rustix::net::send(socket.as_fd(), &message, SendFlags::empty()).map(drop)
}

fn receive(socket: &OwnedFd) -> rustix::io::Result<Vec<u8>> {
    let mut answer = vec![0; 16 << 10];
    let (len, _) = rustix::net::recv(socket.as_fd(), answer.as_mut_slice(), RecvFlags::empty())?;
    answer.truncate(len);
    Ok(answer)
}

fn bit(name: &str, on: bool) -> Vec<u8> {
    let mut body = text(ETHTOOL_A_BITSET_BIT_NAME, name);
    if on {
        body.extend(attribute(ETHTOOL_A_BITSET_BIT_VALUE, &[]));
    }
    attribute(ETHTOOL_A_BITSET_BITS_BIT | NESTED, &body)
}

fn text(typ: u16, value: &str) -> Vec<u8> {
    attribute(typ, &[value.as_bytes(), &[0]].concat())
}

fn attribute(typ: u16, value: &[u8]) -> Vec<u8> {
    let mut out = (4 + value.len() as u16).to_ne_bytes().to_vec();
    out.extend(typ.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// Type and body of each message.
fn messages(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        let len = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
        let typ = u16::from_ne_bytes(*rest.get(4..)?.first_chunk()?);
        let message = rest.get(HEADER_LEN..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((typ, message))
    })
}

/// Type and value of each attribute.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(*rest.first_chunk()?));
        let typ = u16::from_ne_bytes(*rest.get(2..)?.first_chunk()?);
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((typ & !NESTED, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_rubbish_ends_it() {
        let both = [text(2, "ethtool"), attribute(1, &[7, 0])].concat();
        let read: Vec<_> = attributes(&both).collect();
        assert_eq!(read, [(2, b"ethtool\0".as_slice()), (1, &[7, 0])]);
        assert_eq!(both.len() % 4, 0);
        assert_eq!(attributes(&[1, 0, 0, 0]).count(), 0, "shorter than its own head");
        assert_eq!(messages(&[3, 0, 0, 0, 2, 0]).count(), 0);
    }
}
