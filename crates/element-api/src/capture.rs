//! Captures of packets as they are received and sent, for `nw tap`: the same for a router and for a
//! graph. A graph also captures packets at output ports of its elements.
//!
//! Bounds: [`TAPS_MAX`] captures of [`CAPTURE_BYTES_MAX`] bytes and [`CAPTURE_PACKETS_MAX`] packets
//! each. The buffers are allocated when a capture starts and at each fetch, never on the packet
//! path. A capture without a fetch for [`LEASE`] ends. Packets that do not fit are counted as lost:
//! a capture never blocks.

use crate::{FaceId, Kind, Meta, Packet, Pool, Timestamp};
use core::time::Duration;
use nw_name::{Name, NameRef};
use nw_wire::LpHeader;
use std::collections::VecDeque;

/// Captures that may run at the same time.
pub const TAPS_MAX: usize = 4;
/// Bytes of packets that one capture holds.
pub const CAPTURE_BYTES_MAX: usize = 2 << 20;
/// Packets that one capture holds.
pub const CAPTURE_PACKETS_MAX: usize = 8192;
/// A capture ends if its client does not fetch for this time.
pub const LEASE: Duration = Duration::from_secs(10);
/// Longest link header in bytes.
const HEADER_LEN_MAX: usize = nw_wire::lp::HEADER_LEN_MAX;
/// Time over which a rate limit counts.
const RATE_INTERVAL: Duration = Duration::from_secs(1);
/// Ended faces whose names are remembered while a capture is running.
const ENDED_FACES_MAX: usize = 1024;

/// Selects the packets of a capture.
#[derive(Clone, Debug, Default)]
pub struct TapFilter {
    /// Only packets received or sent on this face.
    pub face: Option<FaceId>,
    /// Only names under this prefix.
    pub name: Name,
    /// Only these kinds of packets; all if empty.
    pub kinds: Vec<Kind>,
    /// Only received (`true`) or sent (`false`) packets.
    pub incoming: Option<bool>,
    /// Most packets per second; others count as lost. `None`: no limit.
    pub packets_per_s_max: Option<u32>,
}

/// Where a packet is captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CapturePoint {
    /// At a face.
    Face(FaceId),
    /// At an output port of an element; the program that captures gives the number.
    Port(u32),
}

impl CapturePoint {
    /// Returns the number of the face or the port.
    pub const fn number(self) -> u64 {
        match self {
            CapturePoint::Face(face) => face.number(),
            CapturePoint::Port(port) => port as u64,
        }
    }
}

impl TapFilter {
    fn matches(&self, point: CapturePoint, incoming: bool, meta: &Meta, name: NameRef<'_>) -> bool {
        self.face.is_none_or(|selected| point == CapturePoint::Face(selected))
            && self.incoming.is_none_or(|selected| selected == incoming)
            && (self.kinds.is_empty() || self.kinds.contains(&meta.kind))
            && self.name.as_ref().is_prefix_of(name)
    }
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Time when the packet was received, sent, or emitted by an element.
    pub time: Timestamp,
    /// Where it was captured.
    pub point: CapturePoint,
    /// The packet was received on a face.
    pub incoming: bool,
    start: u32,
    len: u32,
}

/// Packets captured since the last fetch.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    packets: Vec<CapturedPacket>,
    bytes: Vec<u8>,
    /// Number of packets lost since the last fetch, as they did not fit.
    pub lost: u64,
    /// Nanoseconds since 1970 at [`Timestamp::START`], by the wall clock at the time of the fetch.
    pub start_unix_ns: u64,
}

impl Capture {
    fn with_capacity() -> Self {
        Capture {
            packets: Vec::with_capacity(CAPTURE_PACKETS_MAX),
            bytes: Vec::with_capacity(CAPTURE_BYTES_MAX),
            lost: 0,
            start_unix_ns: 0,
        }
    }

    /// Returns the packets in order, each with its bytes: bare, or with a link header that holds
    /// its link fields.
    pub fn packets(&self) -> impl Iterator<Item = (CapturedPacket, &[u8])> {
        self.packets.iter().map(|packet| {
            (*packet, &self.bytes[packet.start as usize..(packet.start + packet.len) as usize])
        })
    }

    /// Returns whether nothing was captured and nothing lost.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.lost == 0
    }

    fn add(
        &mut self,
        time: Timestamp,
        point: CapturePoint,
        incoming: bool,
        meta: &Meta,
        packet: &[u8],
    ) {
        let has_capacity = self.bytes.len() + HEADER_LEN_MAX + packet.len() <= CAPTURE_BYTES_MAX;
        if !has_capacity || self.packets.len() == CAPTURE_PACKETS_MAX {
            self.lost += 1;
            return;
        }
        let start = self.bytes.len();
        let link = &meta.link;
        let header = LpHeader {
            pit_token: link.token,
            nack: (meta.kind == Kind::Nack).then(|| link.nack.unwrap_or(nw_wire::NackReason::None)),
            next_hop_face_id: link.next_hop_face.filter(|_| incoming).map(FaceId::number),
            no_cache: link.no_cache && meta.kind == Kind::Data,
            congestion_mark: link.congestion_mark,
            non_discovery: link.non_discovery,
            ..LpHeader::default()
        };
        if !header.is_empty() {
            header.encode(packet.len(), &mut self.bytes);
        }
        self.bytes.extend_from_slice(packet);
        let len = (self.bytes.len() - start) as u32;
        self.packets.push(CapturedPacket { time, point, incoming, start: start as u32, len });
    }
}

#[derive(Debug)]
struct Tap {
    id: u64,
    filter: TapFilter,
    /// Output ports at which it captures; empty if it captures at faces.
    ports: Vec<u32>,
    capture: Capture,
    until: Timestamp,
    /// Start of the interval of the rate limit, and packets since.
    interval: (Timestamp, u32),
}

impl Tap {
    fn captures_at(&self, point: CapturePoint) -> bool {
        match point {
            CapturePoint::Face(_) => self.ports.is_empty(),
            CapturePoint::Port(port) => self.ports.contains(&port),
        }
    }

    /// Returns whether the rate limit allows one more packet, and counts it.
    fn is_within_rate(&mut self, now: Timestamp) -> bool {
        let Some(limit) = self.filter.packets_per_s_max else { return true };
        let (start, count) = self.interval;
        let (start, count) =
            if now.since(start) >= RATE_INTERVAL { (now, 0) } else { (start, count) };
        let is_within = count < limit;
        self.interval = (start, count + u32::from(is_within));
        is_within
    }
}

/// Name and URI of a face, as they are shown with its packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaceLabel {
    /// Name in the graph; empty if it has none.
    pub name: String,
    /// Remote URI.
    pub uri: String,
}

/// The captures that are running.
#[derive(Debug, Default)]
pub struct Taps {
    taps: Vec<Tap>,
    last_id: u64,
    /// Faces that ended while a capture was running, oldest first.
    ended_faces: VecDeque<(FaceId, FaceLabel)>,
}

impl Taps {
    /// Returns whether no capture is running.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taps.is_empty()
    }

    /// Observes received packets before they are processed.
    pub fn incoming(&mut self, now: Timestamp, packets: &[Packet], pool: &Pool) {
        if self.taps.is_empty() {
            return;
        }
        for packet in packets {
            let ingress = pool.meta(packet).ingress;
            self.observe(now, CapturePoint::Face(ingress), true, packet, pool);
        }
    }

    /// Observes a packet that is passed to its egress face.
    pub fn outgoing(&mut self, now: Timestamp, packet: &Packet, pool: &Pool) {
        let egress = pool.meta(packet).egress;
        self.observe(now, CapturePoint::Face(egress), false, packet, pool);
    }

    /// Observes packets that leave an element by an output port.
    pub fn emitted(&mut self, now: Timestamp, port: u32, packets: &[Packet], pool: &Pool) {
        for packet in packets {
            self.observe(now, CapturePoint::Port(port), false, packet, pool);
        }
    }

    fn observe(
        &mut self,
        now: Timestamp,
        point: CapturePoint,
        incoming: bool,
        packet: &Packet,
        pool: &Pool,
    ) {
        let (bytes, meta) = (pool.bytes(packet), pool.meta(packet));
        let name = meta.name_in(bytes);
        for tap in &mut self.taps {
            if !tap.captures_at(point) || !tap.filter.matches(point, incoming, meta, name) {
                continue;
            }
            match tap.is_within_rate(now) {
                true => tap.capture.add(now, point, incoming, meta, bytes),
                false => tap.capture.lost += 1,
            }
        }
    }

    /// Remembers the label of a face that ended, as its packets may not be fetched yet.
    pub fn face_ended(&mut self, face: FaceId, label: impl FnOnce() -> FaceLabel) {
        if self.taps.is_empty() {
            return;
        }
        if self.ended_faces.len() == ENDED_FACES_MAX {
            self.ended_faces.pop_front();
        }
        self.ended_faces.push_back((face, label()));
    }

    /// Returns the label of a face that ended while a capture was running.
    pub fn ended_face(&self, face: FaceId) -> Option<&FaceLabel> {
        self.ended_faces.iter().rev().find(|(id, _)| *id == face).map(|(_, label)| label)
    }

    /// Starts a capture at faces and returns its id. `None` if there are too many.
    pub fn start(&mut self, now: Timestamp, filter: TapFilter) -> Option<u64> {
        self.start_at(now, filter, Vec::new())
    }

    /// Starts a capture at output ports and returns its id. `None` if there are too many.
    pub fn start_at_ports(
        &mut self,
        now: Timestamp,
        filter: TapFilter,
        ports: Vec<u32>,
    ) -> Option<u64> {
        debug_assert!(!ports.is_empty(), "without ports a capture would be one of faces");
        self.start_at(now, filter, ports)
    }

    fn start_at(&mut self, now: Timestamp, filter: TapFilter, ports: Vec<u32>) -> Option<u64> {
        if self.taps.len() == TAPS_MAX {
            return None;
        }
        self.last_id += 1;
        self.taps.push(Tap {
            id: self.last_id,
            filter,
            ports,
            capture: Capture::with_capacity(),
            until: now + LEASE,
            interval: (now, 0),
        });
        Some(self.last_id)
    }

    /// Fetches the captured packets. `None` if the capture has ended.
    pub fn take(&mut self, now: Timestamp, id: u64) -> Option<Capture> {
        let tap = self.taps.iter_mut().find(|tap| tap.id == id)?;
        tap.until = now + LEASE;
        if tap.capture.is_empty() {
            return Some(Capture::default());
        }
        Some(core::mem::replace(&mut tap.capture, Capture::with_capacity()))
    }

    /// Returns whether a capture observes this output port.
    pub fn uses_port(&self, port: u32) -> bool {
        self.taps.iter().any(|tap| tap.ports.contains(&port))
    }

    /// Ends captures at output ports none of which `exists` any more.
    pub fn end_without_ports(&mut self, exists: impl Fn(u32) -> bool) {
        self.retain(|tap| tap.ports.is_empty() || tap.ports.iter().any(|port| exists(*port)));
    }

    /// Stops a capture.
    pub fn stop(&mut self, id: u64) {
        self.retain(|tap| tap.id != id);
    }

    /// Ends captures without a fetch. Returns whether none is left.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        self.retain(|tap| tap.until > now);
        self.taps.is_empty()
    }

    fn retain(&mut self, is_running: impl FnMut(&Tap) -> bool) {
        self.taps.retain(is_running);
        if self.taps.is_empty() {
            self.ended_faces.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_name::HashKey;

    /// Returns a pool and a packet of a kind with these bytes.
    fn packet(kind: Kind) -> (Pool, Packet) {
        let mut pool = Pool::new(HashKey::new([1, 2, 3, 4]), 4, 16);
        let packet = pool.copy_of(&[6, 3, 7, 1, 8]).expect("the pool is empty");
        pool.meta_mut(&packet).kind = kind;
        (pool, packet)
    }

    fn face(id: u64) -> FaceId {
        FaceId::from_number(id).expect("a valid face id")
    }

    #[test]
    fn label_of_ended_face_is_remembered_while_a_capture_runs() {
        let label = |number: u64| FaceLabel { name: number.to_string(), uri: String::new() };
        let mut taps = Taps::default();
        taps.face_ended(face(300), || label(300));
        assert_eq!(taps.ended_face(face(300)), None);
        let id = taps.start(Timestamp::START, TapFilter::default()).unwrap();
        let last = 300 + ENDED_FACES_MAX as u64;
        (300..=last).for_each(|number| taps.face_ended(face(number), || label(number)));
        assert_eq!(taps.ended_face(face(300)), None, "the oldest is forgotten");
        assert_eq!(taps.ended_face(face(last)), Some(&label(last)));
        taps.stop(id);
        assert_eq!(taps.ended_face(face(last)), None);
    }

    #[test]
    fn packets_beyond_the_rate_are_lost_and_counted() {
        let (mut pool, packet) = packet(Kind::Data);
        pool.meta_mut(&packet).egress = face(300);
        let mut taps = Taps::default();
        let filter = TapFilter { packets_per_s_max: Some(3), ..TapFilter::default() };
        let id = taps.start(Timestamp::START, filter).unwrap();
        for _ in 0..5 {
            taps.outgoing(Timestamp::START, &packet, &pool);
        }
        let capture = taps.take(Timestamp::START, id).unwrap();
        assert_eq!((capture.packets().count(), capture.lost), (3, 2));
        let later = Timestamp::START + RATE_INTERVAL;
        taps.outgoing(later, &packet, &pool);
        let capture = taps.take(later, id).unwrap();
        assert_eq!((capture.packets().count(), capture.lost), (1, 0));
        pool.release(packet);
    }

    #[test]
    fn filter_selects_by_face_direction_and_kind() {
        let (mut pool, packet) = packet(Kind::Interest);
        pool.meta_mut(&packet).ingress = face(300);
        let mut taps = Taps::default();
        let mut start = |filter| taps.start(Timestamp::START, filter).unwrap();
        let all = start(TapFilter::default());
        let other_face = start(TapFilter { face: Some(face(301)), ..TapFilter::default() });
        let data = start(TapFilter { kinds: vec![Kind::Data], ..TapFilter::default() });
        let sent = start(TapFilter { incoming: Some(false), ..TapFilter::default() });
        let packets = [packet];
        taps.incoming(Timestamp::START, &packets, &pool);
        let mut count = |id| taps.take(Timestamp::START, id).unwrap().packets().count();
        assert_eq!([count(all), count(other_face), count(data), count(sent)], [1, 0, 0, 0]);
        packets.into_iter().for_each(|packet| pool.release(packet));
    }

    #[test]
    fn capture_at_ports_sees_these_ports_only() {
        let (pool, packet) = packet(Kind::Data);
        let mut taps = Taps::default();
        let now = Timestamp::START;
        let faces = taps.start(now, TapFilter::default()).unwrap();
        let ports = taps.start_at_ports(now, TapFilter::default(), vec![7, 8]).unwrap();
        let packets = [packet];
        taps.incoming(now, &packets, &pool);
        [7, 9, 8].into_iter().for_each(|port| taps.emitted(now, port, &packets, &pool));
        let points = |taps: &mut Taps, id| -> Vec<CapturePoint> {
            let capture = taps.take(now, id).unwrap();
            capture.packets().map(|(captured, _)| captured.point).collect()
        };
        assert_eq!(points(&mut taps, ports), [CapturePoint::Port(7), CapturePoint::Port(8)]);
        assert_eq!(points(&mut taps, faces).len(), 1);
        assert!(taps.uses_port(8) && !taps.uses_port(9));
        taps.end_without_ports(|port| port == 8);
        assert!(taps.uses_port(7), "one of its ports exists");
        taps.end_without_ports(|port| port == 9);
        assert!(taps.take(now, ports).is_none() && taps.take(now, faces).is_some());
        let mut pool = pool;
        packets.into_iter().for_each(|packet| pool.release(packet));
    }

    #[test]
    fn capture_that_is_not_fetched_ends_and_their_number_is_bounded() {
        let mut taps = Taps::default();
        for _ in 0..TAPS_MAX {
            assert!(taps.start(Timestamp::START, TapFilter::default()).is_some());
        }
        assert_eq!(taps.start(Timestamp::START, TapFilter::default()), None);
        assert!(!taps.expire(Timestamp::START));
        assert!(taps.expire(Timestamp::START + LEASE));
        assert!(taps.is_empty());
    }
}
