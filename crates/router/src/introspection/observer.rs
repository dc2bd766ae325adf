//! Observes packets: captures for `nw tap`, counters by prefix for `nw top`.
//!
//! Bounds: [`TAPS_MAX`] captures of [`CAPTURE_BYTES_MAX`] bytes and [`CAPTURE_PACKETS_MAX`] packets
//! each, and one sketch of counters. The buffers are allocated when a capture starts and at each
//! fetch, never on the packet path. A capture without a fetch for [`LEASE`] ends. Packets that do
//! not fit are counted as lost: the observer never blocks.

use core::time::Duration;
use nw_element_api::{FaceId, Kind, Meta, Packet, Pool, Timestamp};
use nw_name::{Name, NameRef};
use nw_tables::sketch::{PREFIX_LEN_MAX, Sketch, Traffic};
use nw_wire::LpHeader;

/// Captures that may run at the same time.
pub const TAPS_MAX: usize = 4;
/// Bytes of packets that one capture holds.
pub const CAPTURE_BYTES_MAX: usize = 2 << 20;
/// Packets that one capture holds.
pub const CAPTURE_PACKETS_MAX: usize = 8192;
/// A capture or counter ends if its client does not fetch for this time.
pub const LEASE: Duration = Duration::from_secs(10);
/// Packets of one batch that are counted by prefix. Of a larger batch, one packet of each group
/// stands for the others.
const SAMPLES_PER_BATCH: usize = 8;
/// Longest link header in bytes.
const HEADER_LEN_MAX: usize = nw_wire::lp::HEADER_LEN_MAX;

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
}

impl TapFilter {
    fn matches(&self, face: FaceId, incoming: bool, meta: &Meta, name: NameRef<'_>) -> bool {
        self.face.is_none_or(|selected| selected == face)
            && self.incoming.is_none_or(|selected| selected == incoming)
            && (self.kinds.is_empty() || self.kinds.contains(&meta.kind))
            && self.name.as_ref().is_prefix_of(name)
    }
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Time when the packet was received or sent.
    pub time: Timestamp,
    /// Face on which it was received or sent.
    pub face: FaceId,
    /// The packet was received.
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

    fn add(&mut self, time: Timestamp, face: FaceId, incoming: bool, meta: &Meta, packet: &[u8]) {
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
        self.packets.push(CapturedPacket { time, face, incoming, start: start as u32, len });
    }
}

#[derive(Debug)]
struct Tap {
    id: u64,
    filter: TapFilter,
    capture: Capture,
    until: Timestamp,
}

#[derive(Debug)]
struct PrefixCounter {
    sketch: Sketch,
    components: usize,
    since: Timestamp,
    until: Timestamp,
    round: usize,
}

/// All captures and counters. Exists only while there are any.
#[derive(Debug, Default)]
pub struct PacketObserver {
    taps: Vec<Tap>,
    last_id: u64,
    counter: Option<PrefixCounter>,
}

impl PacketObserver {
    /// Observes received packets before they are processed.
    pub fn incoming(&mut self, now: Timestamp, packets: &[Packet], pool: &Pool) {
        if let Some(counter) = &mut self.counter {
            counter.count(packets, pool);
        }
        if self.taps.is_empty() {
            return;
        }
        for packet in packets {
            let ingress = pool.meta(packet).ingress;
            self.tap(now, ingress, true, packet, pool);
        }
    }

    /// Observes a packet that is passed to its egress face.
    pub fn outgoing(&mut self, now: Timestamp, packet: &Packet, pool: &Pool) {
        let egress = pool.meta(packet).egress;
        self.tap(now, egress, false, packet, pool);
    }

    fn tap(&mut self, now: Timestamp, face: FaceId, incoming: bool, packet: &Packet, pool: &Pool) {
        let (bytes, meta) = (pool.bytes(packet), pool.meta(packet));
        let name = meta.name_in(bytes);
        for tap in &mut self.taps {
            if tap.filter.matches(face, incoming, meta, name) {
                tap.capture.add(now, face, incoming, meta, bytes);
            }
        }
    }

    /// Starts a capture and returns its id. `None` if there are too many.
    pub fn start_tap(&mut self, now: Timestamp, filter: TapFilter) -> Option<u64> {
        if self.taps.len() == TAPS_MAX {
            return None;
        }
        self.last_id += 1;
        self.taps.push(Tap {
            id: self.last_id,
            filter,
            capture: Capture::with_capacity(),
            until: now + LEASE,
        });
        Some(self.last_id)
    }

    /// Fetches the captured packets. `None` if the capture has ended.
    pub fn take_tap(&mut self, now: Timestamp, id: u64) -> Option<Capture> {
        let tap = self.taps.iter_mut().find(|tap| tap.id == id)?;
        tap.until = now + LEASE;
        if tap.capture.is_empty() {
            return Some(Capture::default());
        }
        Some(core::mem::replace(&mut tap.capture, Capture::with_capacity()))
    }

    /// Stops a capture.
    pub fn stop_tap(&mut self, id: u64) {
        self.taps.retain(|tap| tap.id != id);
    }

    /// Counts traffic by prefixes of this many components, and starts to do so if necessary.
    /// Returns the start of counting and the counters.
    pub fn count(&mut self, now: Timestamp, components: usize) -> (Timestamp, &Sketch) {
        if self.counter.as_ref().is_some_and(|counter| counter.components != components) {
            self.counter = None;
        }
        let counter = self.counter.get_or_insert_with(|| PrefixCounter {
            sketch: Sketch::new(),
            components,
            since: now,
            until: now,
            round: 0,
        });
        counter.until = now + LEASE;
        (counter.since, &counter.sketch)
    }

    /// Ends captures and counters without a fetch. Returns whether none is left.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        self.taps.retain(|tap| tap.until > now);
        self.counter.take_if(|counter| counter.until <= now);
        self.taps.is_empty() && self.counter.is_none()
    }
}

impl PrefixCounter {
    fn count(&mut self, packets: &[Packet], pool: &Pool) {
        let step = packets.len().div_ceil(SAMPLES_PER_BATCH).max(1);
        // A different packet of each group every time, so that periodic traffic does not bias the
        // sample.
        self.round = self.round.wrapping_add(1);
        for run in packets.chunks(step) {
            let packet = &run[self.round % run.len()];
            let (bytes, meta) = (pool.bytes(packet), pool.meta(packet));
            let prefixes = &meta.prefixes;
            let mut components = self.components.min(prefixes.stored_len());
            while prefixes.end(components) > PREFIX_LEN_MAX {
                components -= 1;
            }
            let name = meta.name_in(bytes).as_bytes();
            let traffic = Traffic {
                interests: u64::from(meta.kind == Kind::Interest),
                data: u64::from(meta.kind == Kind::Data),
                bytes: bytes.len() as u64,
            };
            let prefix = &name[..prefixes.end(components)];
            self.sketch.count(prefixes.hash(components), prefix, run.len() as u64, traffic);
        }
    }
}
