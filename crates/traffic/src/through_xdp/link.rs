//! AF_XDP sockets as the link of a generator.

use super::{STOP_LATENCY, XdpReport, XdpTrafficError, check_fits, interface_gone};
use crate::link::{Link, Reply, wake_on_time};
use crate::sink::Sink;
use crate::workload::Workload;
use crate::xdp::{self, FRAMES, FrameHeaders};
use core::time::Duration;
use nw_app::FaceUri;
use nw_app::client::plain_token;
use nw_faces::interfaces::{Interface, Interfaces};
use nw_faces::mac::Mac;
use nw_faces::xdp::Port;
use nw_faces::xdp::frame::{self, Body, packet_len, scoped};
use nw_faces::xdp::routes::Routes;
use nw_wire::{Data, Interest, LpHeader, LpPacket, types as t};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Time for a neighbour to answer. The kernel asks three times, once a second.
const NEIGHBOUR_TIMEOUT: Duration = Duration::from_secs(4);
/// An empty LpPacket. Sending it makes the kernel resolve the neighbour; receivers ignore it.
const IDLE_PACKET: [u8; 2] = [t::LP_PACKET as u8, 0];

/// AF_XDP sockets of a generator.
#[derive(Debug)]
pub struct XdpLink {
    port: Port,
    peer: Peer,
    headers: FrameHeaders,
    /// Maximum bytes of a link packet.
    link_packet_len_max: usize,
    started: Instant,
    stop: Arc<AtomicBool>,
    interest: Vec<u8>,
    header: Vec<u8>,
    no_room: u64,
    pieces: u64,
    /// Reserves the UDP port; other datagrams end here.
    _socket: Option<UdpSocket>,
}

/// The peer that answers.
#[derive(Clone, Copy, Debug)]
enum Peer {
    Udp { peer: SocketAddr, own: SocketAddr },
    Ethernet(Mac),
}

/// The content of a received link packet.
enum Received<'a> {
    Reply(Reply<'a>),
    /// A fragment of a packet.
    Fragment,
    /// An Interest or an empty packet, which a generator ignores.
    Ignored,
    /// Not a valid packet.
    Invalid,
}

impl XdpLink {
    /// Opens AF_XDP sockets on an interface towards a UDP address or a MAC address. Setting `stop`
    /// ends the run, and also the opening.
    ///
    /// # Errors
    /// If the peer is not reachable by this interface, or its answers do not fit frames.
    pub fn open(
        interface: &str,
        to: &FaceUri,
        workload: &Workload,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, XdpTrafficError> {
        let interface = xdp::interface(interface)?;
        check_fits(&interface, &Sink::new(workload, 0))?;
        let no_peer = || XdpTrafficError::Peer(to.to_string());
        let resolved = to.resolve()?.into_iter().next();
        let (port, peer, headers, socket) = match resolved {
            Some(FaceUri::Udp(to)) => {
                let (own, mac, socket) = resolve_path(&interface, to, &stop)?;
                let port = xdp::open(&interface, &[own.port()], false)?;
                let headers = FrameHeaders::udp((port.mac, mac), (own, to)).ok_or_else(no_peer)?;
                (port, Peer::Udp { peer: to, own }, headers, Some(socket))
            }
            Some(FaceUri::Ether(mac)) if mac.is_group() => return Err(XdpTrafficError::Group(mac)),
            Some(FaceUri::Ether(mac)) => {
                let port = xdp::open(&interface, &[], true)?;
                let headers = FrameHeaders::ethernet((port.mac, mac));
                (port, Peer::Ethernet(mac), headers, None)
            }
            _ => return Err(no_peer()),
        };
        wake_on_time();
        Ok(XdpLink {
            link_packet_len_max: headers.payload_max(interface.mtu),
            port,
            peer,
            headers,
            started: Instant::now(),
            stop,
            interest: Vec::new(),
            header: Vec::new(),
            no_room: 0,
            pieces: 0,
            _socket: socket,
        })
    }

    /// Returns the counters so far.
    pub fn status(&self) -> XdpReport {
        let status = nw_router::xdp::status(self.port.status());
        XdpReport { status, no_room: self.no_room, pieces: self.pieces }
    }

    /// Reads the received frames and returns their number.
    fn receive(&mut self, on_reply: &mut impl FnMut(Duration, Reply<'_>)) -> u64 {
        let (peer, interface) = (self.peer, self.port.interface.index);
        let (mut came, mut others) = (0, 0);
        for xsk in &mut self.port.queues {
            // One clock reading for all frames of a ring, which have arrived by now.
            let now = self.started.elapsed();
            xsk.receive(FRAMES, |bytes| {
                came += 1;
                match peer.link_packet(bytes, interface).map(parse_link_packet) {
                    Some(Received::Reply(reply)) => on_reply(now, reply),
                    Some(Received::Fragment) => self.pieces += 1,
                    Some(Received::Ignored) => {}
                    Some(Received::Invalid) | None => others += 1,
                }
                true
            });
        }
        self.port.counts.add_received(came);
        self.port.counts.add_others(others);
        came
    }
}

impl Link for XdpLink {
    type Error = XdpTrafficError;

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.interest.clear();
        write(&mut self.interest);
        self.header.clear();
        // A token shows the router that this end returns tokens.
        let pit_token = plain_token();
        LpHeader { pit_token, ..LpHeader::default() }.encode(self.interest.len(), &mut self.header);
        let fits = self.header.len() + self.interest.len() <= self.link_packet_len_max;
        let sent = fits && self.headers.put([&self.header, &self.interest], &mut self.port);
        self.no_room += u64::from(!sent);
    }

    fn poll(
        &mut self,
        wait: Duration,
        mut on_reply: impl FnMut(Duration, Reply<'_>),
    ) -> Result<bool, XdpTrafficError> {
        self.port.kick().map_err(interface_gone(&self.port))?;
        let came = self.receive(&mut on_reply);
        if came == 0 && !wait.is_zero() {
            xdp::wait(&self.port, wait.min(STOP_LATENCY)).map_err(interface_gone(&self.port))?;
            self.receive(&mut on_reply);
        }
        Ok(!self.stop.load(Ordering::Relaxed))
    }
}

impl Peer {
    /// Returns the link packet in a frame from this peer to this end. `None` for other frames.
    fn link_packet(self, bytes: &[u8], interface: u32) -> Option<&[u8]> {
        let seen = frame::read(bytes).ok()?;
        match (self, seen.body) {
            (Peer::Udp { peer, own }, Body::Udp { source, destination, payload }) => {
                let is_ours = scoped(source, interface) == peer
                    && (destination.ip(), destination.port()) == (own.ip(), own.port());
                is_ours.then(|| &bytes[payload])
            }
            (Peer::Ethernet(peer), Body::Ndn(start))
                if seen.source == peer && seen.vlan.is_none() =>
            {
                let payload = &bytes[start..];
                Some(&payload[..packet_len(payload)])
            }
            _ => None,
        }
    }
}

/// Parses a link packet as far as a generator needs it.
fn parse_link_packet(bytes: &[u8]) -> Received<'_> {
    let Ok(link) = LpPacket::check(bytes) else { return Received::Invalid };
    if link.is_fragmented() {
        return Received::Fragment;
    }
    let Some(packet) = link.fragment else { return Received::Ignored };
    if let Some(reason) = link.nack {
        return Interest::check(packet).map_or(Received::Invalid, |interest| {
            Received::Reply(Reply::Nack { name: interest.name(), reason })
        });
    }
    if packet.first() == Some(&(t::INTEREST as u8)) {
        return Received::Ignored;
    }
    let is_marked = link.congestion_mark != 0;
    Data::check(packet).map_or(Received::Invalid, |data| {
        Received::Reply(Reply::Data { name: data.name(), len: packet.len(), is_marked })
    })
}

/// Resolves the path to a peer: the local address and port, and the MAC address of the next hop.
/// Also returns the socket that reserves the port. Datagrams to the peer make the kernel resolve
/// the neighbour.
fn resolve_path(
    interface: &Interface,
    to: SocketAddr,
    stop: &AtomicBool,
) -> Result<(SocketAddr, Mac, UdpSocket), XdpTrafficError> {
    let mut routes = Routes::watch().map_err(xdp::OpenError::Watch)?;
    let scope = if let SocketAddr::V6(v6) = to { v6.scope_id() } else { 0 };
    let (by, source, neighbour) =
        routes.next_hop(to.ip(), scope).ok_or(XdpTrafficError::NoWay(to.ip()))?;
    if by != interface.index {
        let interfaces = Interfaces::watch().map_err(xdp::OpenError::Watch)?;
        let by = interfaces.get(by).map_or_else(|| by.to_string().into(), |by| by.name.clone());
        return Err(XdpTrafficError::OtherInterface {
            to: to.ip(),
            by,
            interface: interface.name.clone(),
        });
    }
    // Bound to this address only, so that the port stays free on the others.
    let socket =
        UdpSocket::bind(scoped(SocketAddr::new(source, 0), by)).map_err(XdpTrafficError::Socket)?;
    let own = SocketAddr::new(source, socket.local_addr().map_err(XdpTrafficError::Socket)?.port());
    let from = Instant::now();
    loop {
        if let Some((mac, _)) = routes.mac(neighbour) {
            return Ok((own, mac, socket));
        }
        if stop.load(Ordering::Relaxed) {
            return Err(XdpTrafficError::Interrupted);
        }
        if from.elapsed() > NEIGHBOUR_TIMEOUT {
            return Err(XdpTrafficError::NoNeighbour {
                to: to.ip(),
                interface: interface.name.clone(),
            });
        }
        // A missing neighbour shows as an error here; the loop tries again until the timeout.
        let _ = socket.send_to(&IDLE_PACKET, to);
        let mut readable = [PollFd::new(&routes.socket, PollFlags::IN)];
        let _ = poll(&mut readable, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }));
        let _ = routes.process_events();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::NackReason;

    fn describe(bytes: &[u8]) -> String {
        match parse_link_packet(bytes) {
            Received::Reply(Reply::Data { name, len, is_marked }) => {
                format!("data {name} {len} {is_marked}")
            }
            Received::Reply(Reply::Nack { name, reason }) => {
                format!("nack {name} {}", reason.as_str())
            }
            Received::Fragment => "fragment".into(),
            Received::Ignored => "ignored".into(),
            Received::Invalid => "invalid".into(),
        }
    }

    fn wrapped(header: LpHeader<'_>, packet: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        header.encode(packet.len(), &mut out);
        out.extend_from_slice(packet);
        out
    }

    #[test]
    fn link_packets_are_parsed_by_kind() {
        let workload = crate::workload::tests::workload();
        let mut data = Vec::new();
        Sink::new(&workload, 10).answer(workload.name(3).as_ref(), false, &mut data);
        let name = workload.name(3);
        let expected = format!("data {name} {}", data.len());
        assert_eq!(describe(&data), format!("{expected} false"));
        let marked = LpHeader { congestion_mark: 1, ..LpHeader::default() };
        assert_eq!(describe(&wrapped(marked, &data)), format!("{expected} true"));
        let interest = nw_wire::InterestBuilder::new(name.clone()).nonce(1).encode();
        let nack = LpHeader { nack: Some(NackReason::NoRoute), ..LpHeader::default() };
        assert_eq!(describe(&wrapped(nack, &interest)), format!("nack {name} NoRoute"));
        assert_eq!(describe(&interest), "ignored", "a generator answers no Interests");
        assert_eq!(describe(&IDLE_PACKET), "ignored");
        let fragment =
            LpHeader { sequence: Some(1), fragment: Some((0, 2)), ..LpHeader::default() };
        assert_eq!(describe(&wrapped(fragment, &data[..20])), "fragment");
        for cut in [0, 1, 5, data.len() - 1] {
            assert_eq!(describe(&data[..cut]), "invalid");
        }
    }

    #[test]
    fn frames_of_other_peers_are_ignored() {
        let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let (own, peer) = (address("192.0.2.1:5000"), address("192.0.2.2:6363"));
        let macs = (Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 1]));
        let of = |from, to| {
            let mut frame = vec![0; 200];
            let len = frame::Heads::new(macs, from, to)
                .unwrap()
                .write([b"\x06\x01", b"x"], 0, &mut frame)
                .unwrap();
            frame.truncate(len);
            frame
        };
        let udp = Peer::Udp { peer, own };
        assert_eq!(udp.link_packet(&of(peer, own), 3), Some(&b"\x06\x01x"[..]));
        assert_eq!(
            udp.link_packet(&of(address("192.0.2.3:6363"), own), 3),
            None,
            "from another peer"
        );
        assert_eq!(
            udp.link_packet(&of(peer, address("192.0.2.1:5001")), 3),
            None,
            "to another port"
        );
        let mut padded = vec![0xaa; 60];
        let len = frame::Head::new(macs, 0).write([b"\x06\x01", b"x"], &mut padded).unwrap();
        assert_eq!(
            Peer::Ethernet(macs.0).link_packet(&padded, 3),
            Some(&b"\x06\x01x"[..]),
            "{len}"
        );
        assert_eq!(Peer::Ethernet(macs.1).link_packet(&padded, 3), None);
        assert_eq!(udp.link_packet(&padded, 3), None);
    }
}
