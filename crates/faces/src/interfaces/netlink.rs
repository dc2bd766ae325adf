//! Rtnetlink messages about interfaces, addresses, neighbours and routes: the few fields that faces
//! need.
//!
//! Unknown messages and attributes are skipped, whatever their length: new kernels add some with
//! each release (decision 0011 explains why no library is used).

use nw_link::Mac;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Message types, from `linux/netlink.h` and `linux/rtnetlink.h`.
pub(super) const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
/// Request for interfaces.
pub const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
/// Request for neighbours.
pub const RTM_GETNEIGH: u16 = 30;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
/// Request for addresses.
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
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
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
/// Type of a route to a neighbour or gateway: not to this machine, a group, or nowhere.
const RTN_UNICAST: u8 = 1;
/// States of neighbours whose address is known: NUD_REACHABLE, NUD_STALE, NUD_DELAY, NUD_PROBE,
/// NUD_PERMANENT.
const NUD_KNOWN: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
const NUD_STALE: u16 = 0x04;

/// An address that can't be used: duplicate address detection has failed, or has not ended.
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_TENTATIVE: u32 = 0x40;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An interface was added or has changed.
    Link(Link),
    /// An interface was removed.
    LinkRemoved(u32),
    /// An interface has a usable address.
    Address {
        /// Index of the interface.
        interface: u32,
        /// The address.
        address: IpAddr,
    },
    /// An address was removed from an interface, or is not usable yet.
    AddressRemoved {
        /// Index of the interface.
        interface: u32,
        /// The address.
        address: IpAddr,
    },
    /// State of a neighbour.
    Neighbour {
        /// Index of the interface.
        interface: u32,
        /// IP address of the neighbour.
        address: IpAddr,
        /// Ethernet address of the neighbour, if known.
        mac: Option<Mac>,
        /// Whether it was not confirmed recently.
        stale: bool,
    },
    /// Routes have changed, or the reply to a route request; `None` if there is no route.
    Route(Option<Route>),
    /// End of a reply.
    Done,
    /// A request was refused, with this error number.
    Refused(i32),
}

/// An interface, without its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Index.
    pub index: u32,
    /// Name.
    pub name: Box<str>,
    /// Hardware type, ARPHRD_…: 1 is Ethernet.
    pub hardware: u16,
    /// Flags, IFF_….
    pub flags: u32,
    /// MTU, bytes.
    pub mtu: u32,
    /// Hardware address, if it has the length of an Ethernet address.
    pub mac: Option<Mac>,
    /// Maximum number of receive queues.
    pub queues: u32,
    /// Whether it is a bridge of this machine.
    pub is_bridge: bool,
}

/// The route of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Index of the interface.
    pub interface: u32,
    /// Gateway; `None` if the destination is a neighbour.
    pub gateway: Option<IpAddr>,
    /// Source address.
    pub source: Option<IpAddr>,
}

/// Returns a request for one neighbour of an interface.
pub fn neighbour_request(address: IpAddr, interface: u32) -> Vec<u8> {
    let (family, bytes) = family_and_bytes(address);
    let mut head = [0; NEIGHBOUR_LEN];
    head[0] = family;
    head[4..8].copy_from_slice(&interface.to_ne_bytes());
    encode_request(RTM_GETNEIGH, 0, &head, &[(NDA_DST, &bytes)])
}

/// Returns a request for the route to an address; on the interface with this index, if it is not 0.
pub fn route_request(to: IpAddr, interface: u32) -> Vec<u8> {
    let (family, bytes) = family_and_bytes(to);
    let mut head = [0; ROUTE_LEN];
    head[0] = family;
    head[1] = bytes.len() as u8 * 8;
    let by = interface.to_ne_bytes();
    let attributes: [(u16, &[u8]); 2] = [(RTA_DST, &bytes), (RTA_OIF, &by)];
    encode_request(RTM_GETROUTE, 0, &head, &attributes[..1 + usize::from(interface != 0)])
}

fn family_and_bytes(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
    }
}

/// Encodes a request with the header of its family and its attributes.
pub(super) fn encode_request(
    typ: u16,
    flags: u16,
    head: &[u8],
    attributes: &[(u16, &[u8])],
) -> Vec<u8> {
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

/// Encodes an attribute, padded for the next one.
pub(super) fn attribute(typ: u16, value: &[u8]) -> Vec<u8> {
    let mut out = (4 + value.len() as u16).to_ne_bytes().to_vec();
    out.extend(typ.to_ne_bytes());
    out.extend(value);
    out.resize(align(out.len()), 0);
    out
}

/// Returns a request for all interfaces or all addresses.
pub fn request(typ: u16) -> [u8; HEADER_LEN + LINK_LEN] {
    // Zeros are "any family" in both, and an ifinfomsg is longer than an ifaddrmsg.
    let mut message = [0; HEADER_LEN + LINK_LEN];
    message[..4].copy_from_slice(&((HEADER_LEN + LINK_LEN) as u32).to_ne_bytes());
    message[4..6].copy_from_slice(&typ.to_ne_bytes());
    message[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    message
}

/// Returns the events in the bytes of one read; ends at the first malformed message.
pub fn events(bytes: &[u8]) -> impl Iterator<Item = Event> {
    messages(bytes).filter_map(|(typ, message)| parse_message(typ, message))
}

/// Returns whether one of these messages marks the reply as inconsistent, because of a change
/// meanwhile.
pub fn is_interrupted(mut bytes: &[u8]) -> bool {
    while let (Some(len), Some(flags)) = (u32_at(bytes, 0), u16_at(bytes, 6)) {
        if flags & NLM_F_DUMP_INTR != 0 {
            return true;
        }
        bytes = bytes.get(align(len as usize).max(HEADER_LEN)..).unwrap_or(&[]);
    }
    false
}

/// Returns the event that an interface was removed, as the kernel writes it.
#[cfg(test)]
pub fn link_removed(index: u32) -> Vec<u8> {
    let mut head = [0; LINK_LEN];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    encode_request(RTM_DELLINK, 0, &head, &[])
}

/// Returns type and body of each message in the bytes of one read.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let len = u32_at(bytes, 0)? as usize;
        let message = bytes.get(HEADER_LEN..len)?;
        let typ = u16_at(bytes, 4)?;
        bytes = bytes.get(align(len)..).unwrap_or(&[]);
        Some((typ, message))
    })
}

fn parse_message(typ: u16, message: &[u8]) -> Option<Event> {
    match typ {
        RTM_NEWLINK => link(message).map(Event::Link),
        // With the bridge family it means that a port left a bridge: the interface still exists.
        RTM_DELLINK if message.first() == Some(&0) => u32_at(message, 4).map(Event::LinkRemoved),
        RTM_NEWADDR => address(message).map(|(interface, address, usable)| {
            if usable {
                Event::Address { interface, address }
            } else {
                Event::AddressRemoved { interface, address }
            }
        }),
        RTM_DELADDR => address(message)
            .map(|(interface, address, _)| Event::AddressRemoved { interface, address }),
        RTM_NEWNEIGH => neighbour(message, true),
        RTM_DELNEIGH => neighbour(message, false),
        RTM_NEWROUTE => Some(Event::Route(route(message))),
        RTM_DELROUTE | RTM_NEWRULE | RTM_DELRULE => Some(Event::Route(None)),
        NLMSG_DONE => Some(Event::Done),
        NLMSG_ERROR => u32_at(message, 0).map(|code| Event::Refused((code as i32).wrapping_neg())),
        _ => None,
    }
}

fn link(message: &[u8]) -> Option<Link> {
    if message.first() != Some(&0) {
        return None;
    }
    let (mut name, mut mtu, mut mac, mut queues, mut is_bridge) = (None, None, None, 1, false);
    for (typ, value) in attributes(message.get(LINK_LEN..)?) {
        match typ {
            IFLA_IFNAME => {
                name = core::str::from_utf8(value.split(|b| *b == 0).next().unwrap_or(&[])).ok()
            }
            IFLA_MTU => mtu = u32_at(value, 0),
            IFLA_ADDRESS => mac = value.try_into().ok().map(Mac),
            IFLA_NUM_RX_QUEUES => queues = u32_at(value, 0)?,
            IFLA_LINKINFO => {
                is_bridge = attributes(value)
                    .any(|(typ, kind)| typ == IFLA_INFO_KIND && kind == b"bridge\0");
            }
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
        is_bridge,
    })
}

fn neighbour(message: &[u8], exists: bool) -> Option<Event> {
    let (interface, state) = (u32_at(message, 4)?, u16_at(message, 8)?);
    let (mut of, mut mac) = (None, None);
    for (typ, value) in attributes(message.get(NEIGHBOUR_LEN..)?) {
        match typ {
            NDA_DST => of = ip(value),
            NDA_LLADDR => mac = value.try_into().ok().map(Mac),
            _ => {}
        }
    }
    let known = exists && state & NUD_KNOWN != 0;
    Some(Event::Neighbour {
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
            // A gateway of another family: two bytes for the family, then its address.
            RTA_VIA => gateway = ip(value.get(2..)?),
            RTA_PREFSRC => source = ip(value),
            _ => {}
        }
    }
    (kind == RTN_UNICAST).then_some(Route { interface: interface?, gateway, source })
}

/// Returns interface, address, and whether it can be used.
fn address(message: &[u8]) -> Option<(u32, IpAddr, bool)> {
    let (mut flags, interface) = (u32::from(*message.get(2)?), u32_at(message, 4)?);
    let (mut local, mut peer) = (None, None);
    for (typ, value) in attributes(message.get(ADDRESS_LEN..)?) {
        match typ {
            IFA_LOCAL => local = ip(value),
            IFA_ADDRESS => peer = ip(value),
            // Flags beyond the byte in the header.
            IFA_FLAGS => flags = u32_at(value, 0)?,
            _ => {}
        }
    }
    // On point-to-point links IFA_ADDRESS is the peer's address.
    let address = local.or(peer)?;
    Some((interface, address, flags & (IFA_F_DADFAILED | IFA_F_TENTATIVE) == 0))
}

fn ip(value: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(value).ok().map(|v6| Ipv6Addr::from(v6).into())
}

/// Returns type and value of each attribute.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let (len, typ) = (usize::from(u16_at(bytes, 0)?), u16_at(bytes, 2)?);
        let value = bytes.get(4..len)?;
        bytes = bytes.get(align(len)..).unwrap_or(&[]);
        // The upper two bits describe the encoding of the value.
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
    fn link_messages_are_parsed() {
        let mtu = 1500u32.to_ne_bytes();
        // Attribute 60 is unknown.
        let kind = attribute(1, b"bridge\0");
        let known: [(u16, &[u8]); 6] = [
            (3, b"eth0\0"),
            (60, &[1, 2, 3, 4, 5]),
            (4, &mtu),
            (1, &[2, 0, 0, 0, 0, 7]),
            (32, &4u32.to_ne_bytes()),
            (18, &kind),
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
            is_bridge: true,
        };
        assert_eq!(
            events(&bytes).collect::<Vec<_>>(),
            [Event::Link(link), Event::LinkRemoved(4), Event::Done]
        );
    }

    #[test]
    fn port_leaving_bridge_is_not_removed() {
        const AF_BRIDGE: u8 = 7;
        let bytes = message(RTM_DELLINK, &link_head(AF_BRIDGE, 3, 0), &[(3, b"eth0\0")]);
        assert_eq!(events(&bytes).count(), 0);
        let bytes =
            message(RTM_NEWLINK, &link_head(AF_BRIDGE, 3, 0), &[(3, b"eth0\0"), (4, &[0; 4])]);
        assert_eq!(events(&bytes).count(), 0);
    }

    #[test]
    fn address_messages_are_parsed() {
        let (local, peer) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        let address = |bytes: [u8; 4]| IpAddr::from(bytes);
        for (flags, attributes, expected) in [
            (
                0,
                vec![(IFA_ADDRESS, &local[..])],
                Event::Address { interface: 5, address: address(local) },
            ),
            (
                0,
                vec![(IFA_ADDRESS, &peer[..]), (IFA_LOCAL, &local[..])],
                Event::Address { interface: 5, address: address(local) },
            ),
            (
                0x40,
                vec![(IFA_ADDRESS, &local[..])],
                Event::AddressRemoved { interface: 5, address: address(local) },
            ),
            (
                0,
                vec![(IFA_ADDRESS, &local[..]), (IFA_FLAGS, &[0x48, 0, 0, 0][..])],
                Event::AddressRemoved { interface: 5, address: address(local) },
            ),
        ] {
            let bytes = message(RTM_NEWADDR, &address_head(flags, 5), &attributes);
            assert_eq!(events(&bytes).collect::<Vec<_>>(), [expected]);
        }
        let bytes = message(RTM_DELADDR, &address_head(0, 5), &[(IFA_ADDRESS, &local)]);
        assert_eq!(
            events(&bytes).next(),
            Some(Event::AddressRemoved { interface: 5, address: address(local) })
        );
    }

    #[test]
    fn neighbour_messages_are_parsed() {
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
            let expected = Event::Neighbour {
                interface: 5,
                address: [192, 0, 2, 1].into(),
                mac: known.then_some(Mac([2, 0, 0, 0, 0, 7])),
                stale,
            };
            assert_eq!(
                events(&message(typ, &head(state), &attributes)).collect::<Vec<_>>(),
                [expected]
            );
        }
    }

    #[test]
    fn route_messages_are_parsed() {
        let head = |kind: u8| [&[2, 32, 0, 0, 254, 3, 0, kind][..], &[0; 4]].concat();
        let interface = 3u32.to_ne_bytes();
        let attributes: [(u16, &[u8]); 3] = [
            (RTA_OIF, &interface),
            (RTA_GATEWAY, &[192, 0, 2, 254]),
            (RTA_PREFSRC, &[192, 0, 2, 1]),
        ];
        let answered =
            |kind| events(&message(RTM_NEWROUTE, &head(kind), &attributes)).collect::<Vec<_>>();
        let (gateway, source) = (Some([192, 0, 2, 254].into()), Some([192, 0, 2, 1].into()));
        assert_eq!(
            answered(RTN_UNICAST),
            [Event::Route(Some(Route { interface: 3, gateway, source }))]
        );
        assert_eq!(answered(2), [Event::Route(None)], "to this machine itself");
        assert_eq!(
            events(&message(RTM_DELROUTE, &head(1), &[])).collect::<Vec<_>>(),
            [Event::Route(None)]
        );
        let request = route_request("2001:db8::1".parse().unwrap(), 7);
        assert_eq!(request.len(), 16 + 12 + 20 + 8);
        assert_eq!(request[16..18], [libc::AF_INET6 as u8, 128]);
    }

    #[test]
    fn error_message_is_refusal() {
        let bytes = message(NLMSG_ERROR, &(-1i32).to_ne_bytes(), &[]);
        assert_eq!(events(&bytes).next(), Some(Event::Refused(1)));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            len in 0u32..300,
            typ in 0u16..36,
        ) {
            let _ = events(&bytes).count();
            let mut bytes = bytes;
            if bytes.len() >= 8 {
                bytes[..4].copy_from_slice(&len.to_ne_bytes());
                bytes[4..6].copy_from_slice(&typ.to_ne_bytes());
            }
            prop_assert!(events(&bytes).count() <= bytes.len());
        }
    }
}
