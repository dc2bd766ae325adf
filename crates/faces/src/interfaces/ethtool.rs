//! Settings of network cards by the kernel's netlink family of `ethtool`, without that program.

use super::netlink::{
    NLMSG_ERROR, attribute, attributes, encode_request, messages, u16_at, u32_at,
};
use rustix::io::{self, Errno};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use std::os::fd::OwnedFd;

/// From `linux/netlink.h`, `linux/genetlink.h`, `linux/ethtool_netlink.h`.
const NLM_F_ACK: u16 = 4;
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const ETHTOOL_MSG_FEATURES_SET: u8 = 12;
const ETHTOOL_MSG_CHANNELS_GET: u8 = 17;
const ETHTOOL_A_HEADER: u16 = 1;
const ETHTOOL_A_FEATURES_WANTED: u16 = 3;
const ETHTOOL_A_HEADER_DEV_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BITS: u16 = 3;
const ETHTOOL_A_BITSET_BITS_BIT: u16 = 1;
const ETHTOOL_A_BITSET_BIT_NAME: u16 = 2;
const ETHTOOL_A_BITSET_BIT_VALUE: u16 = 3;
const ETHTOOL_A_CHANNELS_TX_COUNT: u16 = 7;
const ETHTOOL_A_CHANNELS_COMBINED_COUNT: u16 = 9;
const NESTED: u16 = 0x8000;
const GENERIC_LEN: usize = 4;

/// Turns features of an interface in this thread's namespace on or off, as `ethtool -K` does.
/// Features have the kernel's names.
///
/// # Errors
/// The kernel's error.
pub fn set_features(interface: &str, features: &[(&str, bool)]) -> io::Result<()> {
    let bits: Vec<u8> = features.iter().flat_map(|(name, on)| bit(name, *on)).collect();
    let wanted = attribute(ETHTOOL_A_BITSET_BITS | NESTED, &bits);
    request(ETHTOOL_MSG_FEATURES_SET, interface, &[(ETHTOOL_A_FEATURES_WANTED | NESTED, &wanted)])
        .map(drop)
}

/// Returns the number of send queues of an interface in this thread's namespace, as `ethtool -l`
/// shows.
///
/// # Errors
/// The kernel's error: `OPNOTSUPP` for drivers that don't report it.
pub fn send_queues(interface: &str) -> io::Result<u32> {
    let reply = request(ETHTOOL_MSG_CHANNELS_GET, interface, &[])?;
    Ok(sending(&reply))
}

/// Sums the queues that only send and those that do both.
fn sending(reply: &[u8]) -> u32 {
    attributes(reply)
        .filter(|(typ, _)| {
            matches!(*typ, ETHTOOL_A_CHANNELS_TX_COUNT | ETHTOOL_A_CHANNELS_COMBINED_COUNT)
        })
        .filter_map(|(_, value)| u32_at(value, 0))
        .sum()
}

/// Sends a command about an interface and returns the attributes of the reply. The kernel has
/// replied and acknowledged before sending returns.
fn request(command: u8, interface: &str, extra: &[(u16, &[u8])]) -> io::Result<Vec<u8>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::GENERIC),
    )?;
    let family = family(&socket)?;
    // The first attribute of each message of the family is the interface.
    let name = attribute(ETHTOOL_A_HEADER_DEV_NAME, &text(interface));
    let mut all: Vec<(u16, &[u8])> = vec![(ETHTOOL_A_HEADER | NESTED, &name)];
    all.extend_from_slice(extra);
    send(&socket, &encode_request(family, NLM_F_ACK, &head(command), &all))?;
    let mut reply = Vec::new();
    loop {
        for (typ, message) in messages(&receive(&socket)?) {
            if typ == family {
                reply.extend_from_slice(message.get(GENERIC_LEN..).unwrap_or(&[]));
            }
            if typ == NLMSG_ERROR {
                return match message.first_chunk().map_or(-1, |code| i32::from_ne_bytes(*code)) {
                    0 => Ok(reply),
                    code => Err(Errno::from_raw_os_error(-code)),
                };
            }
        }
    }
}

/// Returns the number that the family has since this boot.
fn family(socket: &OwnedFd) -> io::Result<u16> {
    let name = text("ethtool");
    send(
        socket,
        &encode_request(
            GENL_ID_CTRL,
            0,
            &head(CTRL_CMD_GETFAMILY),
            &[(CTRL_ATTR_FAMILY_NAME, &name)],
        ),
    )?;
    let reply = receive(socket)?;
    let message =
        messages(&reply).find(|(typ, _)| *typ == GENL_ID_CTRL).map(|(_, message)| message);
    let fields = message.and_then(|message| message.get(GENERIC_LEN..)).unwrap_or(&[]);
    let id = attributes(fields).find(|(typ, _)| *typ == CTRL_ATTR_FAMILY_ID);
    id.and_then(|(_, value)| u16_at(value, 0)).ok_or(Errno::NOENT)
}

fn send(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    rustix::net::send(socket, message, SendFlags::empty()).map(drop)
}

fn receive(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut reply = vec![0; 16 << 10];
    let (len, _) = rustix::net::recv(socket, reply.as_mut_slice(), RecvFlags::DONTWAIT)?;
    reply.truncate(len);
    Ok(reply)
}

/// Returns the header of a family's message: command and version.
const fn head(command: u8) -> [u8; GENERIC_LEN] {
    [command, 1, 0, 0]
}

fn bit(name: &str, on: bool) -> Vec<u8> {
    let mut body = attribute(ETHTOOL_A_BITSET_BIT_NAME, &text(name));
    if on {
        body.extend(attribute(ETHTOOL_A_BITSET_BIT_VALUE, &[]));
    }
    attribute(ETHTOOL_A_BITSET_BITS_BIT | NESTED, &body)
}

/// Returns the text with a final zero, as the kernel stores it.
fn text(value: &str) -> Vec<u8> {
    [value.as_bytes(), &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_attributes_parse_and_malformed_end_it() {
        let both = [attribute(2, &text("ethtool")), attribute(1, &[7, 0])].concat();
        let read: Vec<_> = attributes(&both).collect();
        assert_eq!(read, [(2, b"ethtool\0".as_slice()), (1, &[7, 0])]);
        assert_eq!(both.len() % 4, 0);
        assert_eq!(attributes(&[1, 0, 0, 0]).count(), 0, "shorter than its own head");
        assert_eq!(messages(&[3, 0, 0, 0, 2, 0]).count(), 0);
    }

    #[test]
    fn send_queues_are_summed() {
        let counts: Vec<u8> = [(1, 9u32), (6, 3), (7, 2), (9, 4)]
            .iter()
            .flat_map(|(typ, n)| attribute(*typ, &n.to_ne_bytes()))
            .collect();
        assert_eq!(sending(&counts), 6);
        assert_eq!(sending(&attribute(7, &[1])), 0, "no number");
        assert!(send_queues("none of this name").is_err());
    }
}
