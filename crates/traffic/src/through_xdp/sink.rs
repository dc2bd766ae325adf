//! The sink over AF_XDP: answers each frame with an Interest to its sender, from the Interest
//! alone.

use super::{STOP_LATENCY, XdpReport, XdpTrafficError, check_fits, interface_gone};
use crate::sink::Sink;
use crate::through_router::AnswerCounters;
use crate::xdp::{self, FRAMES, FrameHeaders, OpenError};
use core::ops::Range;
use nw_element_api::Kind;
use nw_faces::interfaces::{Interface, Interfaces};
use nw_faces::mac::Mac;
use nw_faces::xdp::frame::{self, Body, packet_len};
use nw_faces::xdp::{Port, XdpError};
use nw_wire::{Interest, LpHeader, LpPacket, types as t};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Maximum number of peers whose prepared headers are kept between batches.
const PEERS_KEPT_MAX: usize = 64;

/// AF_XDP sockets of a sink.
#[derive(Debug)]
pub struct XdpSink {
    port: Port,
    /// Watches the addresses of the interface.
    interfaces: Interfaces,
    sink: Sink,
    batch: Batch,
    no_room: u64,
    pieces: u64,
    /// Reserves the UDP port; other datagrams end here.
    _socket: UdpSocket,
}

/// Answers to the frames of one queue, before they are written to its transmit ring.
#[derive(Debug, Default)]
struct Batch {
    peers: Vec<(PeerKey, FrameHeaders)>,
    /// Link headers and Data of the answers.
    bytes: Vec<u8>,
    answers: Vec<Answer>,
}

/// Source of an Interest: MAC address, and for UDP source and destination address.
type PeerKey = (Mac, Option<(SocketAddr, SocketAddr)>);

#[derive(Debug)]
struct Answer {
    /// Index in `Batch::peers`.
    peer: usize,
    header: Range<usize>,
    data: Range<usize>,
}

/// Outcome of a received frame.
enum FrameOutcome {
    /// An Interest, for which an answer is ready.
    AnswerCounters,
    /// A fragment of a packet.
    Fragment,
    /// A packet that needs no answer.
    Ignored,
    /// A frame for another destination, or an invalid packet.
    Foreign,
}

impl XdpSink {
    /// Opens AF_XDP sockets for NDN over UDP to a port of the interface's addresses, and for NDN's
    /// Ethernet frames to its MAC address.
    ///
    /// # Errors
    /// If the interface can't be opened, the port is in use, or answers do not fit frames.
    pub fn open(interface: &str, udp_port: u16, sink: Sink) -> Result<Self, XdpTrafficError> {
        let interface = xdp::interface(interface)?;
        check_fits(&interface, &sink)?;
        let socket = reserve_port(udp_port)?;
        let port = xdp::open(&interface, &[udp_port], true)?;
        let interfaces = Interfaces::watch().map_err(OpenError::Watch)?;
        let mut sink = XdpSink {
            port,
            interfaces,
            sink,
            batch: Batch::default(),
            no_room: 0,
            pieces: 0,
            _socket: socket,
        };
        sink.update_addresses()?;
        Ok(sink)
    }

    /// Returns the counters so far.
    pub fn status(&self) -> XdpReport {
        let status = nw_router::xdp::status(self.port.status());
        XdpReport { status, no_room: self.no_room, pieces: self.pieces }
    }

    /// Answers Interests until `stop` is set.
    ///
    /// # Errors
    /// If the interface is removed or set down.
    pub fn serve(
        &mut self,
        answered: &AnswerCounters,
        stop: &AtomicBool,
    ) -> Result<(), XdpTrafficError> {
        let mut checked_at = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            if checked_at.elapsed() >= STOP_LATENCY {
                checked_at = Instant::now();
                if self.interfaces.process_events().map_err(interface_gone(&self.port))? {
                    self.update_addresses()?;
                }
            }
            let mut came = 0;
            for queue in 0..self.port.queues.len() {
                came += self.read(queue);
                self.write(answered);
            }
            self.port.kick().map_err(interface_gone(&self.port))?;
            if came == 0 {
                xdp::wait(&self.port, STOP_LATENCY).map_err(interface_gone(&self.port))?;
            }
        }
        Ok(())
    }

    /// Sets the addresses of the interface as destinations of the kernel program.
    fn update_addresses(&mut self) -> Result<(), XdpTrafficError> {
        let now = self.interfaces.get(self.port.interface.index);
        let now = now.ok_or(Errno::NODEV).map_err(interface_gone(&self.port))?;
        self.port.interface.addresses.clone_from(&now.addresses);
        let addresses: Vec<IpAddr> = now.addresses.iter().copied().collect();
        let refused =
            |why| OpenError::Refused { interface: now.name.clone(), why: XdpError::Steering(why) };
        Ok(self.port.set_destinations(&addresses).map_err(refused)?)
    }

    /// Reads the received frames of a queue and prepares the answers. Returns the number of frames.
    fn read(&mut self, queue: usize) -> u64 {
        let (mut came, mut others) = (0, 0);
        let XdpSink { port, sink, batch, pieces, .. } = self;
        batch.clear();
        let (own, interface) = (port.mac, &port.interface);
        port.queues[queue].receive(FRAMES, |bytes| {
            came += 1;
            match batch.take(bytes, own, interface, sink) {
                FrameOutcome::AnswerCounters | FrameOutcome::Ignored => {}
                FrameOutcome::Fragment => *pieces += 1,
                FrameOutcome::Foreign => others += 1,
            }
            true
        });
        port.counts.add_received(came);
        port.counts.add_others(others);
        came
    }

    /// Writes the prepared answers to the transmit ring.
    fn write(&mut self, answered: &AnswerCounters) {
        let (mut count, mut bytes) = (0, 0);
        for Answer { peer, header, data } in &self.batch.answers {
            let (_, headers) = &self.batch.peers[*peer];
            // Interests of other programs may have longer names than the workload.
            let fits = header.len() + data.len() <= headers.payload_max(self.port.interface.mtu);
            let parts = [&self.batch.bytes[header.clone()], &self.batch.bytes[data.clone()]];
            if fits && headers.put(parts, &mut self.port) {
                count += 1;
                bytes += data.len() as u64;
            } else {
                self.no_room += 1;
            }
        }
        answered.interests.fetch_add(count, Ordering::Relaxed);
        answered.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Batch {
    fn clear(&mut self) {
        self.bytes.clear();
        self.answers.clear();
        if self.peers.len() > PEERS_KEPT_MAX {
            self.peers.clear();
        }
    }

    fn take(&mut self, bytes: &[u8], own: Mac, interface: &Interface, sink: &Sink) -> FrameOutcome {
        let Some((peer, link_packet)) = parse_frame(bytes, own, interface) else {
            return FrameOutcome::Foreign;
        };
        let Ok(link) = LpPacket::check(link_packet) else { return FrameOutcome::Foreign };
        if link.is_fragmented() {
            return FrameOutcome::Fragment;
        }
        let packet = link.fragment.filter(|_| link.nack.is_none());
        let Some(packet) = packet.filter(|packet| packet.first() == Some(&(t::INTEREST as u8)))
        else {
            return FrameOutcome::Ignored;
        };
        let Ok(interest) = Interest::check(packet) else { return FrameOutcome::Foreign };
        if !sink.takes(Kind::Interest, interest.name()) {
            return FrameOutcome::Ignored;
        }
        let Some(peer) = self.peer_index(peer, own) else { return FrameOutcome::Foreign };
        let start = self.bytes.len();
        sink.answer(interest.name(), interest.can_be_prefix(), &mut self.bytes);
        let end = self.bytes.len();
        let header = LpHeader { pit_token: link.pit_token, ..LpHeader::default() };
        if !header.is_empty() {
            header.encode(end - start, &mut self.bytes);
        }
        self.answers.push(Answer { peer, header: end..self.bytes.len(), data: start..end });
        FrameOutcome::AnswerCounters
    }

    /// Returns the index of a peer in `peers`, which it adds if it is new.
    fn peer_index(&mut self, peer: PeerKey, own: Mac) -> Option<usize> {
        if let Some(at) = self.peers.iter().rposition(|(known, _)| *known == peer) {
            return Some(at);
        }
        let macs = (own, peer.0);
        let headers = match peer.1 {
            Some((source, destination)) => FrameHeaders::udp(macs, (destination, source))?,
            None => FrameHeaders::ethernet(macs),
        };
        self.peers.push((peer, headers));
        Some(self.peers.len() - 1)
    }
}

/// Returns the source and the link packet of a frame. `None` if it is not a unicast frame from
/// another machine to this one.
fn parse_frame<'a>(
    bytes: &'a [u8],
    own: Mac,
    interface: &Interface,
) -> Option<(PeerKey, &'a [u8])> {
    let seen = frame::read(bytes).ok()?;
    if seen.destination != own || seen.source == own || seen.source.is_group() {
        return None;
    }
    match seen.body {
        Body::Udp { source, destination, payload } => {
            let ip = source.ip();
            let is_invalid_source = ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_multicast()
                || matches!(ip, IpAddr::V4(v4) if v4.is_broadcast())
                || interface.addresses.contains(&ip);
            let is_ours = interface.addresses.contains(&destination.ip());
            (is_ours && !is_invalid_source)
                .then(|| ((seen.source, Some((source, destination))), &bytes[payload]))
        }
        Body::Ndn(start) if seen.vlan.is_none() => {
            let payload = &bytes[start..];
            Some(((seen.source, None), &payload[..packet_len(payload)]))
        }
        Body::Ndn(_) => None,
    }
}

/// Reserves a UDP port, so that no other program receives on it.
fn reserve_port(port: u16) -> Result<UdpSocket, XdpTrafficError> {
    let both = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port));
    both.or_else(|error| match error.kind() {
        ErrorKind::AddrInUse | ErrorKind::PermissionDenied => Err(error),
        // Without IPv6.
        _ => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)),
    })
    .map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => XdpTrafficError::PortInUse(port),
        _ => XdpTrafficError::Socket(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::workload;
    use nw_wire::{Data, InterestBuilder, Token};
    use proptest::prelude::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const PEER: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn card() -> Interface {
        let addresses = ["192.0.2.1", "2001:db8::1"].map(|address| address.parse().unwrap());
        Interface { addresses: addresses.into(), mac: Some(OWN), ..Interface::default() }
    }

    fn interest(number: u64, token: &[u8]) -> Vec<u8> {
        let packet = InterestBuilder::new(workload().name(number)).nonce(1).encode();
        let mut out = Vec::new();
        LpHeader { pit_token: Token::new(token).unwrap(), ..LpHeader::default() }
            .encode(packet.len(), &mut out);
        out.extend_from_slice(&packet);
        out
    }

    fn udp(macs: (Mac, Mac), from: &str, to: &str, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 2048];
        let heads = frame::Heads::new(macs, from.parse().unwrap(), to.parse().unwrap()).unwrap();
        let len = heads.write([packet, &[]], 0, &mut frame).unwrap();
        frame.truncate(len);
        frame
    }

    #[test]
    fn interest_is_answered_to_its_source_with_its_token() {
        let (sink, mut batch) = (Sink::new(&workload(), 10), Batch::default());
        let frames = [
            udp((PEER, OWN), "192.0.2.2:5000", "192.0.2.1:6363", &interest(1, b"abc")),
            udp((PEER, OWN), "[2001:db8::2]:5000", "[2001:db8::1]:6363", &interest(2, b"")),
            udp((PEER, OWN), "192.0.2.2:5000", "192.0.2.1:6363", &interest(3, b"de")),
        ];
        for frame in &frames {
            assert!(matches!(batch.take(frame, OWN, &card(), &sink), FrameOutcome::AnswerCounters));
        }
        assert_eq!(batch.answers.iter().map(|answer| answer.peer).collect::<Vec<_>>(), [0, 1, 0]);
        for (answer, (number, token)) in
            batch.answers.iter().zip([(1, &b"abc"[..]), (2, b""), (3, b"de")])
        {
            let whole =
                [&batch.bytes[answer.header.clone()], &batch.bytes[answer.data.clone()]].concat();
            let link = LpPacket::check(&whole).unwrap();
            assert_eq!(link.pit_token.as_bytes(), token);
            assert_eq!(
                Data::check(link.fragment.unwrap()).unwrap().name(),
                workload().name(number).as_ref()
            );
        }
        batch.clear();
        assert!(batch.answers.is_empty() && batch.peers.len() == 2);
    }

    #[test]
    fn frames_for_other_destinations_are_not_answered() {
        let sink = Sink::new(&workload(), 10);
        let packet = interest(1, b"abc");
        let (from, to) = ("192.0.2.2:5000", "192.0.2.1:6363");
        let is_rejected = |frame: &[u8]| {
            matches!(Batch::default().take(frame, OWN, &card(), &sink), FrameOutcome::Foreign)
        };
        assert!(!is_rejected(&udp((PEER, OWN), from, to, &packet)));
        assert!(is_rejected(&udp((PEER, PEER), from, to, &packet)), "to another MAC address");
        assert!(is_rejected(&udp((OWN, OWN), from, to, &packet)), "from this interface");
        assert!(
            is_rejected(&udp((PEER, OWN), from, "192.0.2.7:6363", &packet)),
            "to another address"
        );
        for source in
            ["127.0.0.1:5", "0.0.0.0:5", "224.0.0.1:5", "255.255.255.255:5", "192.0.2.1:5"]
        {
            assert!(is_rejected(&udp((PEER, OWN), source, to, &packet)), "{source}");
        }
        assert!(is_rejected(&udp((PEER, OWN), from, to, &packet[..packet.len() - 1])), "truncated");
        let elsewhere =
            InterestBuilder::new("/elsewhere".parse::<nw_name::Name>().unwrap()).nonce(1).encode();
        let mut batch = Batch::default();
        let asked = batch.take(&udp((PEER, OWN), from, to, &elsewhere), OWN, &card(), &sink);
        assert!(matches!(asked, FrameOutcome::Ignored) && batch.answers.is_empty());
    }

    proptest! {
        /// Arbitrary frames never panic, and make at most one answer.
        #[test]
        fn any_frame_gives_at_most_one_answer(mut frame in proptest::collection::vec(any::<u8>(), 0..200), ndn: bool) {
            if ndn && frame.len() >= 14 {
                frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0x24]);
            }
            let mut batch = Batch::default();
            batch.take(&frame, OWN, &card(), &Sink::new(&workload(), 10));
            prop_assert!(batch.answers.len() <= 1);
        }
    }

    #[test]
    fn port_in_use_is_named() {
        for any in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
            // Without IPv6, two of the three remain.
            let Ok(socket) = UdpSocket::bind(any) else { continue };
            let port = socket.local_addr().unwrap().port();
            let error = reserve_port(port).unwrap_err();
            assert!(
                matches!(error, XdpTrafficError::PortInUse(of) if of == port),
                "{any}: {error}"
            );
        }
    }
}
