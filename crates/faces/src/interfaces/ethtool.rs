//! What `ethtool` asks and sets of network cards, by the kernel's own netlink family, so that no program is needed.

use rustix::io::{self, Errno};
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
const HEADER_LEN: usize = 16;
const GENERIC_LEN: usize = 4;

/// Switches features of an interface in this thread's namespace, as `ethtool -K` does: names of features as the kernel has them, and whether they are to be on.
///
/// # Errors
/// What the kernel says.
pub fn set_features(interface: &str, features: &[(&str, bool)]) -> io::Result<()> {
    let bits: Vec<u8> = features.iter().flat_map(|(name, on)| bit(name, *on)).collect();
    let wanted = attribute(ETHTOOL_A_BITSET_BITS | NESTED, &bits);
    let body = [header(interface), attribute(ETHTOOL_A_FEATURES_WANTED | NESTED, &wanted)].concat();
    ask(ETHTOOL_MSG_FEATURES_SET, &body).map(drop)
}

/// Queues that an interface in this thread's namespace sends by, as `ethtool -l` says.
///
/// # Errors
/// What the kernel says: `OPNOTSUPP` for drivers that do not tell.
pub fn send_queues(interface: &str) -> io::Result<u32> {
    let answer = ask(ETHTOOL_MSG_CHANNELS_GET, &header(interface))?;
    Ok(sending(&answer))
}

/// Those that only send, and those that do both.
fn sending(answer: &[u8]) -> u32 {
    attributes(answer)
        .filter(|(typ, _)| matches!(*typ, ETHTOOL_A_CHANNELS_TX_COUNT | ETHTOOL_A_CHANNELS_COMBINED_COUNT))
        .filter_map(|(_, value)| value.first_chunk().copied().map(u32::from_ne_bytes))
        .sum()
}

/// Asks, and waits for the end: the attributes of what came before it.
fn ask(command: u8, body: &[u8]) -> io::Result<Vec<u8>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::GENERIC),
    )?;
    let family = family(&socket)?;
    send(&socket, family, command, NLM_F_REQUEST | NLM_F_ACK, body)?;
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

/// Which interface; in each message of the family the first attribute.
fn header(interface: &str) -> Vec<u8> {
    attribute(ETHTOOL_A_HEADER | NESTED, &text(ETHTOOL_A_HEADER_DEV_NAME, interface))
}

/// The number that the family has in this boot.
fn family(socket: &OwnedFd) -> io::Result<u16> {
    send(socket, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, NLM_F_REQUEST, &text(CTRL_ATTR_FAMILY_NAME, "ethtool"))?;
    let answer = receive(socket)?;
    let message = messages(&answer).find(|(typ, _)| *typ == GENL_ID_CTRL).map(|(_, message)| message);
    let attributes = message.and_then(|message| message.get(GENERIC_LEN..)).unwrap_or(&[]);
    let id = self::attributes(attributes).find(|(typ, _)| *typ == CTRL_ATTR_FAMILY_ID);
    id.and_then(|(_, value)| value.first_chunk().copied().map(u16::from_ne_bytes)).ok_or(Errno::NOENT)
}

fn send(socket: &OwnedFd, family: u16, command: u8, flags: u16, body: &[u8]) -> io::Result<()> {
    let len = (HEADER_LEN + GENERIC_LEN + body.len()) as u32;
    let mut message = len.to_ne_bytes().to_vec();
    message.extend(family.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([command, 1, 0, 0]);
    message.extend(body);
    rustix::net::send(socket.as_fd(), &message, SendFlags::empty()).map(drop)
}

fn receive(socket: &OwnedFd) -> io::Result<Vec<u8>> {
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
