//! Who answers by AF_XDP: each frame with an Interest is answered to where it came from, from the Interest alone.

use super::{ByXdp, STOP_LATENCY, XdpTrafficError, check_fits, gone};
use crate::sink::Sink;
use crate::through_router::Answered;
use crate::xdp::{self, FRAMES, Heads, OpenError};
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

/// Heads that are kept from one turn to the next.
const ASKERS_KEPT: usize = 64;

/// A sink's rings.
#[derive(Debug)]
pub struct XdpSink {
    port: Port,
    /// Addresses of its interface come and go.
    interfaces: Interfaces,
    sink: Sink,
    batch: Batch,
    no_room: u64,
    pieces: u64,
    /// Keeps the port, and what is not for the rings.
    _socket: UdpSocket,
}

/// Answers of one turn, before they are put into the ring that they were read beside.
#[derive(Debug, Default)]
struct Batch {
    askers: Vec<(Asker, Heads)>,
    octets: Vec<u8>,
    answers: Vec<Answer>,
}

/// Where an Interest came from: card, address, and which of ours it was sent to.
type Asker = (Mac, Option<(SocketAddr, SocketAddr)>);

#[derive(Debug)]
struct Answer {
    asker: usize,
    header: Range<usize>,
    data: Range<usize>,
}

/// What came of a frame.
enum Asked {
    /// An answer.
    Answered,
    /// A piece of a packet.
    Piece,
    /// Nothing to be answered.
    Nothing,
    /// For somebody else, or damaged.
    Other,
}

impl XdpSink {
    /// Hears NDN in UDP to a port of this interface's addresses, and Ethernet frames to its card.
    ///
    /// # Errors
    /// What is missing, in a sentence.
    pub fn open(interface: &str, udp_port: u16, sink: Sink) -> Result<Self, XdpTrafficError> {
        let interface = xdp::interface(interface)?;
        check_fits(&interface, &sink)?;
        let socket = keep(udp_port)?;
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
        sink.follow()?;
        Ok(sink)
    }

    /// How it went so far.
    pub fn status(&self) -> ByXdp {
        let status = nw_router::xdp::status(self.port.status());
        ByXdp { status, no_room: self.no_room, pieces: self.pieces }
    }

    /// Answers until `stop` is set.
    ///
    /// # Errors
    /// When the interface goes away.
    pub fn serve(&mut self, answered: &Answered, stop: &AtomicBool) -> Result<(), XdpTrafficError> {
        let mut looked = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            if looked.elapsed() >= STOP_LATENCY {
                looked = Instant::now();
                if self.interfaces.take_news().map_err(gone(&self.port))? {
                    self.follow()?;
                }
            }
            let mut came = 0;
            for queue in 0..self.port.queues.len() {
                came += self.read(queue);
                self.write(answered);
            }
            self.port.kick().map_err(gone(&self.port))?;
            if came == 0 {
                xdp::wait(&self.port, STOP_LATENCY).map_err(gone(&self.port))?;
            }
        }
        Ok(())
    }

    /// Takes what is for the addresses that the interface has now.
    fn follow(&mut self) -> Result<(), XdpTrafficError> {
        let now = self.interfaces.get(self.port.interface.index);
        let now = now.ok_or(Errno::NODEV).map_err(gone(&self.port))?;
        self.port.interface.addresses.clone_from(&now.addresses);
        let addresses: Vec<IpAddr> = now.addresses.iter().copied().collect();
        let refused = |why| OpenError::Refused { interface: now.name.clone(), why: XdpError::Steering(why) };
        Ok(self.port.set_destinations(&addresses).map_err(refused)?)
    }

    /// Takes frames of a queue, and makes answers; how many came.
    fn read(&mut self, queue: usize) -> u64 {
        let (mut came, mut others) = (0, 0);
        let XdpSink { port, sink, batch, pieces, .. } = self;
        batch.begin();
        let (own, interface) = (port.mac, &port.interface);
        port.queues[queue].receive(FRAMES, |bytes| {
            came += 1;
            match batch.take(bytes, own, interface, sink) {
                Asked::Answered | Asked::Nothing => {}
                Asked::Piece => *pieces += 1,
                Asked::Other => others += 1,
            }
            true
        });
        port.counts.add_received(came);
        port.counts.add_others(others);
        came
    }

    /// Puts the answers into the ring.
    fn write(&mut self, answered: &Answered) {
        let (mut count, mut octets) = (0, 0);
        for Answer { asker, header, data } in &self.batch.answers {
            let (_, heads) = &self.batch.askers[*asker];
            // An Interest of others may have a longer name than those of the workload.
            let fits = header.len() + data.len() <= heads.room(self.port.interface.mtu);
            let parts = [&self.batch.octets[header.clone()], &self.batch.octets[data.clone()]];
            if fits && heads.put(parts, &mut self.port) {
                count += 1;
                octets += data.len() as u64;
            } else {
                self.no_room += 1;
            }
        }
        answered.interests.fetch_add(count, Ordering::Relaxed);
        answered.octets.fetch_add(octets, Ordering::Relaxed);
    }
}

impl Batch {
    fn begin(&mut self) {
        self.octets.clear();
        self.answers.clear();
        if self.askers.len() > ASKERS_KEPT {
            self.askers.clear();
        }
    }

    fn take(&mut self, bytes: &[u8], own: Mac, interface: &Interface, sink: &Sink) -> Asked {
        let Some((asker, link_packet)) = asker(bytes, own, interface) else { return Asked::Other };
        let Ok(link) = LpPacket::check(link_packet) else { return Asked::Other };
        if link.is_fragmented() {
            return Asked::Piece;
        }
        let packet = link.fragment.filter(|_| link.nack.is_none());
        let Some(packet) = packet.filter(|packet| packet.first() == Some(&(t::INTEREST as u8))) else {
            return Asked::Nothing;
        };
        let Ok(interest) = Interest::check(packet) else { return Asked::Other };
        if !sink.takes(Kind::Interest, interest.name()) {
            return Asked::Nothing;
        }
        let Some(asker) = self.place(asker, own) else { return Asked::Other };
        let start = self.octets.len();
        sink.answer(interest.name(), interest.can_be_prefix(), &mut self.octets);
        let end = self.octets.len();
        let header = LpHeader { pit_token: link.pit_token, ..LpHeader::default() };
        if !header.is_empty() {
            header.encode(end - start, &mut self.octets);
        }
        self.answers.push(Answer { asker, header: end..self.octets.len(), data: start..end });
        Asked::Answered
    }

    /// The place of an asker's heads; mostly it is the last one's.
    fn place(&mut self, asker: Asker, own: Mac) -> Option<usize> {
        if let Some(at) = self.askers.iter().rposition(|(known, _)| *known == asker) {
            return Some(at);
        }
        let macs = (own, asker.0);
        let heads = match asker.1 {
            Some((source, destination)) => Heads::udp(macs, (destination, source))?,
            None => Heads::ethernet(macs),
        };
        self.askers.push((asker, heads));
        Some(self.askers.len() - 1)
    }
}

/// Whom a frame is from, and what link packet it has. `None` when it is not from a single other machine to this one.
fn asker<'a>(bytes: &'a [u8], own: Mac, interface: &Interface) -> Option<(Asker, &'a [u8])> {
    let seen = frame::read(bytes).ok()?;
    if seen.destination != own || seen.source == own || seen.source.is_group() {
        return None;
    }
    match seen.body {
        Body::Udp { source, destination, payload } => {
            let ip = source.ip();
            let nobody = ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_multicast()
                || matches!(ip, IpAddr::V4(v4) if v4.is_broadcast())
                || interface.addresses.contains(&ip);
            let is_ours = interface.addresses.contains(&destination.ip());
            (is_ours && !nobody).then(|| ((seen.source, Some((source, destination))), &bytes[payload]))
        }
        Body::Ndn(start) if seen.vlan.is_none() => {
            let rest = &bytes[start..];
            Some(((seen.source, None), &rest[..packet_len(rest)]))
        }
        Body::Ndn(_) => None,
    }
}

/// Sees that no other program hears at this port, and keeps it.
fn keep(port: u16) -> Result<UdpSocket, XdpTrafficError> {
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
    fn an_interest_is_answered_to_where_it_came_from_with_its_token() {
        let (sink, mut batch) = (Sink::new(&workload(), 10), Batch::default());
        let frames = [
            udp((PEER, OWN), "192.0.2.2:5000", "192.0.2.1:6363", &interest(1, b"abc")),
            udp((PEER, OWN), "[2001:db8::2]:5000", "[2001:db8::1]:6363", &interest(2, b"")),
            udp((PEER, OWN), "192.0.2.2:5000", "192.0.2.1:6363", &interest(3, b"de")),
        ];
        for frame in &frames {
            assert!(matches!(batch.take(frame, OWN, &card(), &sink), Asked::Answered));
        }
        assert_eq!(batch.answers.iter().map(|answer| answer.asker).collect::<Vec<_>>(), [0, 1, 0]);
        for (answer, (number, token)) in batch.answers.iter().zip([(1, &b"abc"[..]), (2, b""), (3, b"de")]) {
            let whole = [&batch.octets[answer.header.clone()], &batch.octets[answer.data.clone()]].concat();
            let link = LpPacket::check(&whole).unwrap();
            assert_eq!(link.pit_token.as_bytes(), token);
            assert_eq!(Data::check(link.fragment.unwrap()).unwrap().name(), workload().name(number).as_ref());
        }
        batch.begin();
        assert!(batch.answers.is_empty() && batch.askers.len() == 2);
    }

    #[test]
    fn what_is_not_ours_is_not_answered() {
        let sink = Sink::new(&workload(), 10);
        let packet = interest(1, b"abc");
        let (from, to) = ("192.0.2.2:5000", "192.0.2.1:6363");
        let is_other =
            |frame: &[u8]| matches!(Batch::default().take(frame, OWN, &card(), &sink), Asked::Other);
        assert!(!is_other(&udp((PEER, OWN), from, to, &packet)));
        assert!(is_other(&udp((PEER, PEER), from, to, &packet)), "to another card");
        assert!(is_other(&udp((OWN, OWN), from, to, &packet)), "from this one");
        assert!(is_other(&udp((PEER, OWN), from, "192.0.2.7:6363", &packet)), "to another address");
        for nobody in ["127.0.0.1:5", "0.0.0.0:5", "224.0.0.1:5", "255.255.255.255:5", "192.0.2.1:5"] {
            assert!(is_other(&udp((PEER, OWN), nobody, to, &packet)), "{nobody}");
        }
        assert!(is_other(&udp((PEER, OWN), from, to, &packet[..packet.len() - 1])), "not whole");
        let elsewhere =
            InterestBuilder::new("/elsewhere".parse::<nw_name::Name>().unwrap()).nonce(1).encode();
        let mut batch = Batch::default();
        let asked = batch.take(&udp((PEER, OWN), from, to, &elsewhere), OWN, &card(), &sink);
        assert!(matches!(asked, Asked::Nothing) && batch.answers.is_empty());
    }

    proptest! {
        /// Whatever comes, nothing breaks, and what is made stays bounded.
        #[test]
        fn any_frame_will_do(mut frame in proptest::collection::vec(any::<u8>(), 0..200), ndn: bool) {
            if ndn && frame.len() >= 14 {
                frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0x24]);
            }
            let mut batch = Batch::default();
            batch.take(&frame, OWN, &card(), &Sink::new(&workload(), 10));
            prop_assert!(batch.answers.len() <= 1);
        }
    }

    #[test]
    fn a_port_that_somebody_has_is_named() {
        for any in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
            // Where there is no IPv6, two of three remain.
            let Ok(socket) = UdpSocket::bind(any) else { continue };
            let port = socket.local_addr().unwrap().port();
            let error = keep(port).unwrap_err();
            assert!(matches!(error, XdpTrafficError::PortInUse(of) if of == port), "{any}: {error}");
        }
    }
}
