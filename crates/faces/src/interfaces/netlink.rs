//! What the kernel says about interfaces and their addresses: the few fields of rtnetlink messages that faces need.
//!
//! Every message and attribute that is not known here is passed over, whatever its length: new kernels add some with each release
//! (decision 0011 says why this is not a library's).

use crate::mac::Mac;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Message types, from `linux/netlink.h` and `linux/rtnetlink.h`.
pub(super) const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
/// Asks for interfaces.
pub const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
/// Asks for neighbours.
pub const RTM_GETNEIGH: u16 = 30;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
/// Asks for addresses.
pub const RTM_GETADDR: u16 = 22;

const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLM_F_DUMP_INTR: u16 = 0x10;
const HEADER_LEN: usize = 16;
const LINK_LEN: usize = 16;
const ADDRESS_LEN: usize = 8;
const ROUTE_LEN: usize = 12;
const NEIGHBOUR_LEN: usize = 12;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_VIA: u16 = 18;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// To a neighbour or by one: neither this machine nor a group nor nowhere.
const RTN_UNICAST: u8 = 1;
/// States of neighbours whose address is known: NUD_REACHABLE, NUD_STALE, NUD_DELAY, NUD_PROBE, NUD_PERMANENT.
const NUD_KNOWN: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
const NUD_STALE: u16 = 0x04;

/// An address that can't be used: duplicate address detection has failed, or has not ended.
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_TENTATIVE: u32 = 0x40;

/// One piece of news.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// An interface is there, or has changed.
    Link(Link),
    /// An interface is gone.
    LinkGone(u32),
    /// An interface has an address.
    Address {
        /// The interface's number.
        interface: u32,
        /// The address.
        address: IpAddr,
    },
    /// An interface has an address no more, or not yet.
    AddressGone {
        /// The interface's number.
        interface: u32,
        /// The address.
        address: IpAddr,
    },
    /// What is known of a neighbour.
    Neighbour {
        /// The interface's number.
        interface: u32,
        /// Its address.
        address: IpAddr,
        /// Its Ethernet address, if that is known.
        mac: Option<Mac>,
        /// That was not confirmed for a while.
        stale: bool,
    },
    /// Routes have changed; or the answer to a question, unless it leads nowhere.
    Route(Option<Route>),
    /// All that was asked for has been said.
    Done,
    /// What was asked for is refused.
    Refused(i32),
}

/// An interface, without its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: Box<str>,
    /// ARPHRD_…: 1 is Ethernet.
    pub hardware: u16,
    /// IFF_…
    pub flags: u32,
    /// Octets of the largest payload.
    pub mtu: u32,
    /// Its own address, if it is an Ethernet's.
    pub mac: Option<Mac>,
    /// Receive queues it may have.
    pub queues: u32,
}

/// How a datagram leaves this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// By which interface.
    pub interface: u32,
    /// By whom; by nobody when its destination is a neighbour.
    pub gateway: Option<IpAddr>,
    /// From which address.
    pub source: Option<IpAddr>,
}

/// Asks for one neighbour of an interface.
pub fn neighbour_request(address: IpAddr, interface: u32) -> Vec<u8> {
    let (family, octets) = family_and_octets(address);
    let mut head = [0; NEIGHBOUR_LEN];
    head[0] = family;
    head[4..8].copy_from_slice(&interface.to_ne_bytes());
    question(RTM_GETNEIGH, 0, &head, &[(NDA_DST, &octets)])
}

/// Asks how datagrams to an address leave; by the interface of this number, if it is not 0.
pub fn route_request(to: IpAddr, interface: u32) -> Vec<u8> {
    let (family, octets) = family_and_octets(to);
    let mut head = [0; ROUTE_LEN];
    head[0] = family;
    head[1] = octets.len() as u8 * 8;
    let by = interface.to_ne_bytes();
    let attributes: [(u16, &[u8]); 2] = [(RTA_DST, &octets), (RTA_OIF, &by)];
    question(RTM_GETROUTE, 0, &head, &attributes[..1 + usize::from(interface != 0)])
}

fn family_and_octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
    }
}

/// A request with the header of its family and its attributes.
pub(super) fn question(typ: u16, flags: u16, head: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut message = vec![0; HEADER_LEN];
    message[4..6].copy_from_slice(&typ.to_ne_bytes());
    message[6..8].copy_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
    message.extend_from_slice(head);
    for (typ, value) in attributes {
        message.extend(attribute(*typ, value));
    }
    let len = message.len() as u32;
    message[..4].copy_from_slice(&len.to_ne_bytes());
    message
}

/// An attribute, filled up for the next one.
pub(super) fn attribute(typ: u16, value: &[u8]) -> Vec<u8> {
    let mut out = (4 + value.len() as u16).to_ne_bytes().to_vec();
    out.extend(typ.to_ne_bytes());
    out.extend(value);
    out.resize(align(out.len()), 0);
    out
}

/// Asks for all interfaces or all addresses.
pub fn request(typ: u16) -> [u8; HEADER_LEN + LINK_LEN] {
    // Zeros are "any family" in both, and an ifinfomsg is longer than an ifaddrmsg.
    let mut message = [0; HEADER_LEN + LINK_LEN];
    message[..4].copy_from_slice(&((HEADER_LEN + LINK_LEN) as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&typ.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    message
}

/// The news in what was received with one call; ends where nothing can be made of the rest.
pub fn news(bytes: &[u8]) -> impl Iterator<Item = News> {
    messages(bytes).filter_map(|(typ, message)| read(typ, message))
}

/// True when one of these messages says that an answer is inconsistent, as something changed while it was written.
pub fn is_interrupted(mut bytes: &[u8]) -> bool {
    while let (Some(len), Some(flags)) = (u32_at(bytes, 0), u16_at(bytes, 6)) {
        if flags & NLM_F_DUMP_INTR != 0 {
            return true;
        }
        bytes = bytes.get(align(len as usize).max(HEADER_LEN)..).unwrap_or(&[]);
    }
    false
}

/// The event that an interface is gone, as the kernel writes it.
#[cfg(test)]
pub fn link_gone(index: u32) -> Vec<u8> {
    let mut head = [0; LINK_LEN];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    question(RTM_DELLINK, 0, &head, &[])
}

/// Type and body of each message in what was received with one call.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let len = u32_at(bytes, 0)? as usize;
        let message = bytes.get(HEADER_LEN..len)?;
        let typ = u16_at(bytes, 4)?;
        bytes = bytes.get(align(len)..).unwrap_or(&[]);
        Some((typ, message))
    })
}

fn read(typ: u16, message: &[u8]) -> Option<News> {
    match typ {
        RTM_NEWLINK => link(message).map(News::Link),
        // A bridge says with its own family that a port has left it: the interface itself is still there.
        RTM_DELLINK if message.first() == Some(&0) => u32_at(message, 4).map(News::LinkGone),
        RTM_NEWADDR => address(message).map(|(interface, address, usable)| {
            if usable {
                News::Address { interface, address }
            } else {
                News::AddressGone { interface, address }
            }
        }),
        RTM_DELADDR => {
            address(message).map(|(interface, address, _)| News::AddressGone { interface, address })
        }
        RTM_NEWNEIGH => neighbour(message, true),
        RTM_DELNEIGH => neighbour(message, false),
        RTM_NEWROUTE => Some(News::Route(route(message))),
        RTM_DELROUTE | RTM_NEWRULE | RTM_DELRULE => Some(News::Route(None)),
        NLMSG_DONE => Some(News::Done),
        NLMSG_ERROR => u32_at(message, 0).map(|code| News::Refused((code as i32).wrapping_neg())),
        _ => None,
    }
}

fn link(message: &[u8]) -> Option<Link> {
    if message.first() != Some(&0) {
        return None;
    }
    let (mut name, mut mtu, mut mac, mut queues) = (None, None, None, 1);
    for (typ, value) in attributes(message.get(LINK_LEN..)?) {
        match typ {
            IFLA_IFNAME => name = core::str::from_utf8(value.split(|b| *b == 0).next().unwrap_or(&[])).ok(),
            IFLA_MTU => mtu = u32_at(value, 0),
            IFLA_ADDRESS => mac = value.try_into().ok().map(Mac),
            IFLA_NUM_RX_QUEUES => queues = u32_at(value, 0)?,
            _ => {}
        }
    }
    Some(Link {
        hardware: u16_at(message, 2)?,
        index: u32_at(message, 4)?,
        flags: u32_at(message, 8)?,
        name: name?.into(),
        mtu: mtu?,
        mac,
        queues,
    })
}

fn neighbour(message: &[u8], there: bool) -> Option<News> {
    let (interface, state) = (u32_at(message, 4)?, u16_at(message, 8)?);
    let (mut of, mut mac) = (None, None);
    for (typ, value) in attributes(message.get(NEIGHBOUR_LEN..)?) {
        match typ {
            NDA_DST => of = ip(value),
            NDA_LLADDR => mac = value.try_into().ok().map(Mac),
            _ => {}
        }
    }
    let known = there && state & NUD_KNOWN != 0;
    Some(News::Neighbour {
        interface,
        address: of?,
        mac: mac.filter(|_| known),
        stale: state & NUD_STALE != 0,
    })
}

fn route(message: &[u8]) -> Option<Route> {
    let kind = *message.get(7)?;
    let (mut interface, mut gateway, mut source) = (None, None, None);
    for (typ, value) in attributes(message.get(ROUTE_LEN..)?) {
        match typ {
            RTA_OIF => interface = u32_at(value, 0),
            RTA_GATEWAY => gateway = ip(value),
            // A gateway of another family: two octets that say which, then its address.
            RTA_VIA => gateway = ip(value.get(2..)?),
            RTA_PREFSRC => source = ip(value),
            _ => {}
        }
    }
    (kind == RTN_UNICAST).then_some(Route { interface: interface?, gateway, source })
}

/// Interface, address, and whether it can be used.
fn address(message: &[u8]) -> Option<(u32, IpAddr, bool)> {
    let (mut flags, interface) = (u32::from(*message.get(2)?), u32_at(message, 4)?);
    let (mut local, mut peer) = (None, None);
    for (typ, value) in attributes(message.get(ADDRESS_LEN..)?) {
        match typ {
            IFA_LOCAL => local = ip(value),
            IFA_ADDRESS => peer = ip(value),
            // Says what the octet in the header has no room for.
            IFA_FLAGS => flags = u32_at(value, 0)?,
            _ => {}
        }
    }
    // On links of two ends IFA_ADDRESS is the other end.
    let address = local.or(peer)?;
    Some((interface, address, flags & (IFA_F_DADFAILED | IFA_F_TENTATIVE) == 0))
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(value).ok().map(|v6| Ipv6Addr::from(v6).into())
}

/// Type and value of each attribute.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let (len, typ) = (usize::from(u16_at(bytes, 0)?), u16_at(bytes, 2)?);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(align(len)..).unwrap_or(&[]);
        // The upper two bits say how the value is to be read, not what it is.
        Some((typ & 0x3fff, value))
    })
}

const fn align(len: usize) -> usize {
    len.next_multiple_of(4)
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(typ: u16, head: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = head.to_vec();
        for (typ, value) in attributes {
            body.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
            body.extend_from_slice(&typ.to_ne_bytes());
            body.extend_from_slice(value);
            body.resize(align(body.len()), 0);
        }
        let mut out = ((HEADER_LEN + body.len()) as u32).to_ne_bytes().to_vec();
        out.extend_from_slice(&typ.to_ne_bytes());
        out.resize(HEADER_LEN, 0);
        out.extend_from_slice(&body);
        out
    }

    fn link_head(family: u8, index: u32, flags: u32) -> Vec<u8> {
        let mut head = vec![family, 0];
        head.extend_from_slice(&1u16.to_ne_bytes());
        head.extend_from_slice(&index.to_ne_bytes());
        head.extend_from_slice(&flags.to_ne_bytes());
        head.resize(LINK_LEN, 0);
        head
    }

    fn address_head(flags: u8, index: u32) -> Vec<u8> {
        let mut head = vec![2, 24, flags, 0];
        head.extend_from_slice(&index.to_ne_bytes());
        head
    }

    #[test]
    fn links() {
        let mtu = 1500u32.to_ne_bytes();
        // 0x8003 is a nested attribute of a type that is not ours: its flag is no part of the type, and 60 is unknown.
        let known: [(u16, &[u8]); 5] = [
            (3, b"eth0\0"),
            (60, &[1, 2, 3, 4, 5]),
            (4, &mtu),
            (1, &[2, 0, 0, 0, 0, 7]),
            (32, &4u32.to_ne_bytes()),
        ];
        let mut bytes = message(RTM_NEWLINK, &link_head(0, 3, 0x1003), &known);
        bytes.extend(message(99, b"whatever", &[]));
        bytes.extend(message(RTM_DELLINK, &link_head(0, 4, 0), &[]));
        bytes.extend(message(NLMSG_DONE, &[0; 4], &[]));
        let link = Link {
            index: 3,
            name: "eth0".into(),
            hardware: 1,
            flags: 0x1003,
            mtu: 1500,
            mac: Some(Mac([2, 0, 0, 0, 0, 7])),
            queues: 4,
        };
        assert_eq!(news(&bytes).collect::<Vec<_>>(), [News::Link(link), News::LinkGone(4), News::Done]);
    }

    #[test]
    fn a_port_that_leaves_a_bridge_is_not_gone() {
        const AF_BRIDGE: u8 = 7;
        let bytes = message(RTM_DELLINK, &link_head(AF_BRIDGE, 3, 0), &[(3, b"eth0\0")]);
        assert_eq!(news(&bytes).count(), 0);
        let bytes = message(RTM_NEWLINK, &link_head(AF_BRIDGE, 3, 0), &[(3, b"eth0\0"), (4, &[0; 4])]);
        assert_eq!(news(&bytes).count(), 0);
    }

    #[test]
    fn addresses() {
        let (ours, theirs) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        let address = |octets: [u8; 4]| IpAddr::from(octets);
        for (flags, attributes, expected) in [
            (0, vec![(IFA_ADDRESS, &ours[..])], News::Address { interface: 5, address: address(ours) }),
            (
                0,
                vec![(IFA_ADDRESS, &theirs[..]), (IFA_LOCAL, &ours[..])],
                News::Address { interface: 5, address: address(ours) },
            ),
            (
                0x40,
                vec![(IFA_ADDRESS, &ours[..])],
                News::AddressGone { interface: 5, address: address(ours) },
            ),
            (
                0,
                vec![(IFA_ADDRESS, &ours[..]), (IFA_FLAGS, &[0x48, 0, 0, 0][..])],
                News::AddressGone { interface: 5, address: address(ours) },
            ),
        ] {
            let bytes = message(RTM_NEWADDR, &address_head(flags, 5), &attributes);
            assert_eq!(news(&bytes).collect::<Vec<_>>(), [expected]);
        }
        let bytes = message(RTM_DELADDR, &address_head(0, 5), &[(IFA_ADDRESS, &ours)]);
        assert_eq!(news(&bytes).next(), Some(News::AddressGone { interface: 5, address: address(ours) }));
    }

    #[test]
    fn neighbours() {
        let head = |state: u16| {
            let mut head = vec![2, 0, 0, 0];
            head.extend_from_slice(&5u32.to_ne_bytes());
            head.extend_from_slice(&state.to_ne_bytes());
            head.resize(NEIGHBOUR_LEN, 0);
            head
        };
        let attributes: [(u16, &[u8]); 3] =
            [(NDA_DST, &[192, 0, 2, 1]), (9, &[1]), (NDA_LLADDR, &[2, 0, 0, 0, 0, 7])];
        for (typ, state, known, stale) in [
            (RTM_NEWNEIGH, 0x02, true, false),
            (RTM_NEWNEIGH, 0x04, true, true),
            (RTM_NEWNEIGH, 0x80, true, false),
            // Incomplete; failed; gone.
            (RTM_NEWNEIGH, 0x01, false, false),
            (RTM_NEWNEIGH, 0x20, false, false),
            (RTM_DELNEIGH, 0x02, false, false),
        ] {
            let expected = News::Neighbour {
                interface: 5,
                address: [192, 0, 2, 1].into(),
                mac: known.then_some(Mac([2, 0, 0, 0, 0, 7])),
                stale,
            };
            assert_eq!(news(&message(typ, &head(state), &attributes)).collect::<Vec<_>>(), [expected]);
        }
    }

    #[test]
    fn routes() {
        let head = |kind: u8| [&[2, 32, 0, 0, 254, 3, 0, kind][..], &[0; 4]].concat();
        let interface = 3u32.to_ne_bytes();
        let attributes: [(u16, &[u8]); 3] =
            [(RTA_OIF, &interface), (RTA_GATEWAY, &[192, 0, 2, 254]), (RTA_PREFSRC, &[192, 0, 2, 1])];
        let answered = |kind| news(&message(RTM_NEWROUTE, &head(kind), &attributes)).collect::<Vec<_>>();
        let (gateway, source) = (Some([192, 0, 2, 254].into()), Some([192, 0, 2, 1].into()));
        assert_eq!(answered(RTN_UNICAST), [News::Route(Some(Route { interface: 3, gateway, source }))]);
        assert_eq!(answered(2), [News::Route(None)], "to this machine itself");
        assert_eq!(news(&message(RTM_DELROUTE, &head(1), &[])).collect::<Vec<_>>(), [News::Route(None)]);
        let question = route_request("2001:db8::1".parse().unwrap(), 7);
        assert_eq!(question.len(), 16 + 12 + 20 + 8);
        assert_eq!(question[16..18], [libc::AF_INET6 as u8, 128]);
    }

    #[test]
    fn refusals() {
        let bytes = message(NLMSG_ERROR, &(-1i32).to_ne_bytes(), &[]);
        assert_eq!(news(&bytes).next(), Some(News::Refused(1)));
    }

    proptest! {
        #[test]
        fn any_octets(bytes in proptest::collection::vec(any::<u8>(), 0..200), len in 0u32..300, typ in 0u16..36) {
            let _ = news(&bytes).count();
            let mut bytes = bytes;
            if bytes.len() >= 8 {
                bytes[..4].copy_from_slice(&len.to_ne_bytes());
                bytes[4..6].copy_from_slice(&typ.to_ne_bytes());
            }
            prop_assert!(news(&bytes).count() <= bytes.len());
        }
    }
}
