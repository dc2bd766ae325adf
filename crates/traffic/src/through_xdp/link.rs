//! An AF_XDP socket as a generator's link.

use super::{ByXdp, STOP_LATENCY, XdpTrafficError, check_fits, gone};
use crate::link::{Arrival, Link, wake_on_time};
use crate::sink::Sink;
use crate::workload::Workload;
use crate::xdp::{self, FRAMES, Heads};
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

/// For a neighbour to answer, which the system asks three times, a second each.
const PATIENCE: Duration = Duration::from_secs(4);
/// An LpPacket without anything in it: makes the system ask for a neighbour, and means nothing to who gets it.
const IDLE: [u8; 2] = [t::LP_PACKET as u8, 0];

/// A generator's rings.
#[derive(Debug)]
pub struct XdpLink {
    port: Port,
    peer: Peer,
    heads: Heads,
    /// Octets of a link packet.
    room: usize,
    started: Instant,
    stop: Arc<AtomicBool>,
    interest: Vec<u8>,
    header: Vec<u8>,
    no_room: u64,
    pieces: u64,
    /// Keeps the port, and what is not for the rings.
    _socket: Option<UdpSocket>,
}

/// Whom answers come from.
#[derive(Clone, Copy, Debug)]
enum Peer {
    Udp { peer: SocketAddr, own: SocketAddr },
    Card(Mac),
}

/// What a link packet has.
enum Heard<'a> {
    Arrival(Arrival<'a>),
    /// A piece of a packet.
    Piece,
    /// Something that is said to a router, or nothing.
    Nothing,
    /// No packet.
    Damaged,
}

impl XdpLink {
    /// To a UDP address or an Ethernet card, by this interface. `stop` ends it, also while it is opened. The answers must fit frames.
    ///
    /// # Errors
    /// What is missing, in a sentence.
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
        let (port, peer, heads, socket) = match resolved {
            Some(FaceUri::Udp(to)) => {
                let (own, mac, socket) = way(&interface, to, &stop)?;
                let port = xdp::open(&interface, &[own.port()], false)?;
                let heads = Heads::udp((port.mac, mac), (own, to)).ok_or_else(no_peer)?;
                (port, Peer::Udp { peer: to, own }, heads, Some(socket))
            }
            Some(FaceUri::Ether(mac)) if mac.is_group() => return Err(XdpTrafficError::Group(mac)),
            Some(FaceUri::Ether(mac)) => {
                let port = xdp::open(&interface, &[], true)?;
                let heads = Heads::ethernet((port.mac, mac));
                (port, Peer::Card(mac), heads, None)
            }
            _ => return Err(no_peer()),
        };
        wake_on_time();
        Ok(XdpLink {
            room: heads.room(interface.mtu),
            port,
            peer,
            heads,
            started: Instant::now(),
            stop,
            interest: Vec::new(),
            header: Vec::new(),
            no_room: 0,
            pieces: 0,
            _socket: socket,
        })
    }

    /// How it went so far.
    pub fn status(&self) -> ByXdp {
        let status = nw_router::xdp::status(self.port.status());
        ByXdp { status, no_room: self.no_room, pieces: self.pieces }
    }

    /// Takes what is there; how many frames it was.
    fn take(&mut self, arrived: &mut impl FnMut(Duration, Arrival<'_>)) -> u64 {
        let (peer, interface) = (self.peer, self.port.interface.index);
        let (mut came, mut others) = (0, 0);
        for xsk in &mut self.port.queues {
            // All that is taken now is there by now.
            let now = self.started.elapsed();
            xsk.receive(FRAMES, |bytes| {
                came += 1;
                match peer.link_packet(bytes, interface).map(hear) {
                    Some(Heard::Arrival(arrival)) => arrived(now, arrival),
                    Some(Heard::Piece) => self.pieces += 1,
                    Some(Heard::Nothing) => {}
                    Some(Heard::Damaged) | None => others += 1,
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
        // A token tells a router that this end understands them.
        let pit_token = plain_token();
        LpHeader { pit_token, ..LpHeader::default() }.encode(self.interest.len(), &mut self.header);
        let fits = self.header.len() + self.interest.len() <= self.room;
        let sent = fits && self.heads.put([&self.header, &self.interest], &mut self.port);
        self.no_room += u64::from(!sent);
    }

    fn turn(
        &mut self,
        wait: Duration,
        mut arrived: impl FnMut(Duration, Arrival<'_>),
    ) -> Result<bool, XdpTrafficError> {
        self.port.kick().map_err(gone(&self.port))?;
        let came = self.take(&mut arrived);
        if came == 0 && !wait.is_zero() {
            xdp::wait(&self.port, wait.min(STOP_LATENCY)).map_err(gone(&self.port))?;
            self.take(&mut arrived);
        }
        Ok(!self.stop.load(Ordering::Relaxed))
    }
}

impl Peer {
    /// The link packet in a frame, if it is from this peer to us.
    fn link_packet(self, bytes: &[u8], interface: u32) -> Option<&[u8]> {
        let seen = frame::read(bytes).ok()?;
        match (self, seen.body) {
            (Peer::Udp { peer, own }, Body::Udp { source, destination, payload }) => {
                let is_ours = scoped(source, interface) == peer
                    && (destination.ip(), destination.port()) == (own.ip(), own.port());
                is_ours.then(|| &bytes[payload])
            }
            (Peer::Card(peer), Body::Ndn(start)) if seen.source == peer && seen.vlan.is_none() => {
                let rest = &bytes[start..];
                Some(&rest[..packet_len(rest)])
            }
            _ => None,
        }
    }
}

/// What a generator waits for in a link packet.
fn hear(bytes: &[u8]) -> Heard<'_> {
    let Ok(link) = LpPacket::check(bytes) else { return Heard::Damaged };
    if link.is_fragmented() {
        return Heard::Piece;
    }
    let Some(packet) = link.fragment else { return Heard::Nothing };
    if let Some(reason) = link.nack {
        return Interest::check(packet).map_or(Heard::Damaged, |interest| {
            Heard::Arrival(Arrival::Nack { name: interest.name(), reason })
        });
    }
    if packet.first() == Some(&(t::INTEREST as u8)) {
        return Heard::Nothing;
    }
    let is_marked = link.congestion_mark != 0;
    Data::check(packet).map_or(Heard::Damaged, |data| {
        Heard::Arrival(Arrival::Data { name: data.name(), octets: packet.len(), is_marked })
    })
}

/// Asks the system how to reach a peer: from which address and port, over whose card; with the socket that keeps the port. The system asks for the
/// neighbour, because a datagram is sent there.
fn way(
    interface: &Interface,
    to: SocketAddr,
    stop: &AtomicBool,
) -> Result<(SocketAddr, Mac, UdpSocket), XdpTrafficError> {
    let mut routes = Routes::watch().map_err(xdp::OpenError::Watch)?;
    let scope = if let SocketAddr::V6(v6) = to { v6.scope_id() } else { 0 };
    let (by, source, neighbour) = routes.way(to.ip(), scope).ok_or(XdpTrafficError::NoWay(to.ip()))?;
    if by != interface.index {
        let interfaces = Interfaces::watch().map_err(xdp::OpenError::Watch)?;
        let by = interfaces.get(by).map_or_else(|| by.to_string().into(), |by| by.name.clone());
        return Err(XdpTrafficError::OtherInterface { to: to.ip(), by, interface: interface.name.clone() });
    }
    // Of this address, not of all, so that what it is used for is the same to others.
    let socket = UdpSocket::bind(scoped(SocketAddr::new(source, 0), by)).map_err(XdpTrafficError::Socket)?;
    let own = SocketAddr::new(source, socket.local_addr().map_err(XdpTrafficError::Socket)?.port());
    let from = Instant::now();
    loop {
        if let Some((mac, _)) = routes.mac(neighbour) {
            return Ok((own, mac, socket));
        }
        if stop.load(Ordering::Relaxed) {
            return Err(XdpTrafficError::Interrupted);
        }
        if from.elapsed() > PATIENCE {
            return Err(XdpTrafficError::NoNeighbour { to: to.ip(), interface: interface.name.clone() });
        }
        // That a neighbour is not there the system says by an error here; it is asked for again until patience ends.
        let _ = socket.send_to(&IDLE, to);
        let mut news = [PollFd::new(&routes.socket, PollFlags::IN)];
        let _ = poll(&mut news, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }));
        let _ = routes.take_news();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::NackReason;

    fn heard(bytes: &[u8]) -> String {
        match hear(bytes) {
            Heard::Arrival(Arrival::Data { name, octets, is_marked }) => {
                format!("data {name} {octets} {is_marked}")
            }
            Heard::Arrival(Arrival::Nack { name, reason }) => format!("nack {name} {}", reason.as_str()),
            Heard::Piece => "piece".into(),
            Heard::Nothing => "nothing".into(),
            Heard::Damaged => "damaged".into(),
        }
    }

    fn wrapped(header: LpHeader<'_>, packet: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        header.encode(packet.len(), &mut out);
        out.extend_from_slice(packet);
        out
    }

    #[test]
    fn what_may_come_is_told_apart() {
        let workload = crate::workload::tests::workload();
        let mut data = Vec::new();
        Sink::new(&workload, 10).answer(workload.name(3).as_ref(), false, &mut data);
        let name = workload.name(3);
        let expected = format!("data {name} {}", data.len());
        assert_eq!(heard(&data), format!("{expected} false"));
        let marked = LpHeader { congestion_mark: 1, ..LpHeader::default() };
        assert_eq!(heard(&wrapped(marked, &data)), format!("{expected} true"));
        let interest = nw_wire::InterestBuilder::new(name.clone()).nonce(1).encode();
        let nack = LpHeader { nack: Some(NackReason::NoRoute), ..LpHeader::default() };
        assert_eq!(heard(&wrapped(nack, &interest)), format!("nack {name} NoRoute"));
        assert_eq!(heard(&interest), "nothing", "a router asks nothing of who only asks");
        assert_eq!(heard(&IDLE), "nothing");
        let piece = LpHeader { sequence: Some(1), fragment: Some((0, 2)), ..LpHeader::default() };
        assert_eq!(heard(&wrapped(piece, &data[..20])), "piece");
        for cut in [0, 1, 5, data.len() - 1] {
            assert_eq!(heard(&data[..cut]), "damaged");
        }
    }

    #[test]
    fn frames_of_others_are_none_of_ours() {
        let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let (own, peer) = (address("192.0.2.1:5000"), address("192.0.2.2:6363"));
        let macs = (Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 1]));
        let of = |from, to| {
            let mut frame = vec![0; 200];
            let len =
                frame::Heads::new(macs, from, to).unwrap().write([b"\x06\x01", b"x"], 0, &mut frame).unwrap();
            frame.truncate(len);
            frame
        };
        let udp = Peer::Udp { peer, own };
        assert_eq!(udp.link_packet(&of(peer, own), 3), Some(&b"\x06\x01x"[..]));
        assert_eq!(udp.link_packet(&of(address("192.0.2.3:6363"), own), 3), None, "from somebody else");
        assert_eq!(udp.link_packet(&of(peer, address("192.0.2.1:5001")), 3), None, "to another port");
        let mut padded = vec![0xaa; 60];
        let len = frame::Head::new(macs, 0).write([b"\x06\x01", b"x"], &mut padded).unwrap();
        assert_eq!(Peer::Card(macs.0).link_packet(&padded, 3), Some(&b"\x06\x01x"[..]), "{len}");
        assert_eq!(Peer::Card(macs.1).link_packet(&padded, 3), None);
        assert_eq!(udp.link_packet(&padded, 3), None);
    }
}
