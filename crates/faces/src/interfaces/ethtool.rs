//! What `ethtool` asks and sets of network cards, by the kernel's own netlink family, so that no program is needed.

use super::netlink::{NLMSG_ERROR, attribute, attributes, messages, question, u16_at, u32_at};
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

/// Switches features of an interface in this thread's namespace, as `ethtool -K` does: names of features as the kernel has them, and whether they are to be on.
///
/// # Errors
/// What the kernel says.
pub fn set_features(interface: &str, features: &[(&str, bool)]) -> io::Result<()> {
    let bits: Vec<u8> = features.iter().flat_map(|(name, on)| bit(name, *on)).collect();
    let wanted = attribute(ETHTOOL_A_BITSET_BITS | NESTED, &bits);
    ask(ETHTOOL_MSG_FEATURES_SET, interface, &[(ETHTOOL_A_FEATURES_WANTED | NESTED, &wanted)]).map(drop)
}

/// Queues that an interface in this thread's namespace sends by, as `ethtool -l` says.
///
/// # Errors
/// What the kernel says: `OPNOTSUPP` for drivers that do not tell.
pub fn send_queues(interface: &str) -> io::Result<u32> {
    let answer = ask(ETHTOOL_MSG_CHANNELS_GET, interface, &[])?;
    Ok(sending(&answer))
}

/// Those that only send, and those that do both.
fn sending(answer: &[u8]) -> u32 {
    attributes(answer)
        .filter(|(typ, _)| matches!(*typ, ETHTOOL_A_CHANNELS_TX_COUNT | ETHTOOL_A_CHANNELS_COMBINED_COUNT))
        .filter_map(|(_, value)| u32_at(value, 0))
        .sum()
}

/// Asks about an interface: the attributes of the answer. The kernel has answered, and acknowledged, before sending returns.
fn ask(command: u8, interface: &str, more: &[(u16, &[u8])]) -> io::Result<Vec<u8>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::GENERIC),
    )?;
    let family = family(&socket)?;
    // Which interface is in each message of the family the first attribute.
    let name = attribute(ETHTOOL_A_HEADER_DEV_NAME, &text(interface));
    let mut all: Vec<(u16, &[u8])> = vec![(ETHTOOL_A_HEADER | NESTED, &name)];
    all.extend_from_slice(more);
    send(&socket, &question(family, NLM_F_ACK, &head(command), &all))?;
    let mut answer = Vec::new();
    loop {
        for (typ, message) in messages(&receive(&socket)?) {
            if typ == family {
                answer.extend_from_slice(message.get(GENERIC_LEN..).unwrap_or(&[]));
            }
            if typ == NLMSG_ERROR {
                return match message.first_chunk().map_or(-1, |code| i32::from_ne_bytes(*code)) {
                    0 => Ok(answer),
                    code => Err(Errno::from_raw_os_error(-code)),
                };
            }
        }
    }
}

/// The number that the family has in this boot.
fn family(socket: &OwnedFd) -> io::Result<u16> {
    let name = text("ethtool");
    send(socket, &question(GENL_ID_CTRL, 0, &head(CTRL_CMD_GETFAMILY), &[(CTRL_ATTR_FAMILY_NAME, &name)]))?;
    let answer = receive(socket)?;
    let message = messages(&answer).find(|(typ, _)| *typ == GENL_ID_CTRL).map(|(_, message)| message);
    let told = message.and_then(|message| message.get(GENERIC_LEN..)).unwrap_or(&[]);
    let id = attributes(told).find(|(typ, _)| *typ == CTRL_ATTR_FAMILY_ID);
    id.and_then(|(_, value)| u16_at(value, 0)).ok_or(Errno::NOENT)
}

fn send(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    rustix::net::send(socket, message, SendFlags::empty()).map(drop)
}

fn receive(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut answer = vec![0; 16 << 10];
    let (len, _) = rustix::net::recv(socket, answer.as_mut_slice(), RecvFlags::DONTWAIT)?;
    answer.truncate(len);
    Ok(answer)
}

/// The header of a family's message: command and version.
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

/// As the kernel has it: with a zero behind.
fn text(value: &str) -> Vec<u8> {
    [value.as_bytes(), &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_rubbish_ends_it() {
        let both = [attribute(2, &text("ethtool")), attribute(1, &[7, 0])].concat();
        let read: Vec<_> = attributes(&both).collect();
        assert_eq!(read, [(2, b"ethtool\0".as_slice()), (1, &[7, 0])]);
        assert_eq!(both.len() % 4, 0);
        assert_eq!(attributes(&[1, 0, 0, 0]).count(), 0, "shorter than its own head");
        assert_eq!(messages(&[3, 0, 0, 0, 2, 0]).count(), 0);
    }

    #[test]
    fn queues_that_send_are_counted() {
        let counts: Vec<u8> = [(1, 9u32), (6, 3), (7, 2), (9, 4)]
            .iter()
            .flat_map(|(typ, n)| attribute(*typ, &n.to_ne_bytes()))
            .collect();
        assert_eq!(sending(&counts), 6);
        assert_eq!(sending(&attribute(7, &[1])), 0, "no number");
        assert!(send_queues("none of this name").is_err());
    }
}
