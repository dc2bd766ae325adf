//! What watches packets pass: captures for `nw tap`, counts by prefix for `nw top`.
//!
//! State and bound: [`TAPS_MAX`] captures of [`RING_LEN`] octets and [`RING_PACKETS`] packets each, all taken when a capture starts and again,
//! outside of the packet path, each time what was captured is taken; one sketch. A capture that nobody takes from ends after [`LEASE`]. What
//! does not fit is counted as lost: nothing here ever waits.

use core::time::Duration;
use nw_element_api::{FaceId, Instant, Kind, Meta, Packet, Pool};
use nw_name::{Name, NameRef};
use nw_tables::sketch::{PREFIX_LEN_MAX, Sketch, Traffic};
use nw_wire::LpHeader;

/// Captures at one time.
pub const TAPS_MAX: usize = 4;
/// Octets of packets that one capture holds.
pub const RING_LEN: usize = 2 << 20;
/// Packets that one capture holds.
pub const RING_PACKETS: usize = 8192;
/// Who does not ask for so long is gone.
pub const LEASE: Duration = Duration::from_secs(10);
/// Packets of one batch that are counted by prefix; of more, every so many-th stands for the others.
const SAMPLES_PER_BATCH: usize = 8;
/// Octets that a link header can take.
const HEADER_LEN_MAX: usize = nw_wire::lp::HEADER_LEN_MAX;

/// Which packets are captured.
#[derive(Clone, Debug, Default)]
pub struct TapFilter {
    /// Only what comes or leaves by this face.
    pub face: Option<FaceId>,
    /// Only names under this.
    pub name: Name,
    /// Only these kinds; all when empty.
    pub kinds: Vec<Kind>,
    /// Only what comes (true) or leaves (false).
    pub incoming: Option<bool>,
}

impl TapFilter {
    fn takes(&self, face: FaceId, incoming: bool, meta: &Meta, name: NameRef<'_>) -> bool {
        self.face.is_none_or(|wanted| wanted == face)
            && self.incoming.is_none_or(|wanted| wanted == incoming)
            && (self.kinds.is_empty() || self.kinds.contains(&meta.kind))
            && self.name.as_ref().is_prefix_of(name)
    }
}

/// A packet that was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When.
    pub at: Instant,
    /// By which face it came or left.
    pub face: FaceId,
    /// It came.
    pub incoming: bool,
    start: u32,
    len: u32,
}

/// What was captured since the last time.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    packets: Vec<Captured>,
    bytes: Vec<u8>,
    /// Packets that did not fit since the last time.
    pub lost: u64,
    /// Nanoseconds since 1970 at [`Instant::START`], by the wall clock as it was when this was taken.
    pub start_unix_ns: u64,
}

impl Capture {
    fn with_room() -> Self {
        Capture {
            packets: Vec::with_capacity(RING_PACKETS),
            bytes: Vec::with_capacity(RING_LEN),
            lost: 0,
            start_unix_ns: 0,
        }
    }

    /// Packets in order, each with its octets: bare, or with the link header that says what its link fields were.
    pub fn packets(&self) -> impl Iterator<Item = (Captured, &[u8])> {
        self.packets
            .iter()
            .map(|packet| (*packet, &self.bytes[packet.start as usize..(packet.start + packet.len) as usize]))
    }

    /// True when nothing was captured and nothing lost.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty() && self.lost == 0
    }

    fn add(&mut self, at: Instant, face: FaceId, incoming: bool, meta: &Meta, packet: &[u8]) {
        let room = self.bytes.len() + HEADER_LEN_MAX + packet.len() <= RING_LEN;
        if !room || self.packets.len() == RING_PACKETS {
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
        self.packets.push(Captured { at, face, incoming, start: start as u32, len });
    }
}

#[derive(Debug)]
struct Tap {
    id: u64,
    filter: TapFilter,
    capture: Capture,
    until: Instant,
}

#[derive(Debug)]
struct Counting {
    sketch: Sketch,
    components: usize,
    since: Instant,
    until: Instant,
    turn: usize,
}

/// Everything that watches; there is none while nobody looks.
#[derive(Debug, Default)]
pub struct Watch {
    taps: Vec<Tap>,
    last_id: u64,
    counting: Option<Counting>,
}

impl Watch {
    /// Packets that came, before they are processed.
    pub fn incoming(&mut self, now: Instant, packets: &[Packet], pool: &Pool) {
        if let Some(counting) = &mut self.counting {
            counting.count(packets, pool);
        }
        if self.taps.is_empty() {
            return;
        }
        for packet in packets {
            let ingress = pool.meta(packet).ingress;
            self.tap(now, ingress, true, packet, pool);
        }
    }

    /// A packet that is handed to the face it leaves by.
    pub fn outgoing(&mut self, now: Instant, packet: &Packet, pool: &Pool) {
        let egress = pool.meta(packet).egress;
        self.tap(now, egress, false, packet, pool);
    }

    fn tap(&mut self, now: Instant, face: FaceId, incoming: bool, packet: &Packet, pool: &Pool) {
        let (bytes, meta) = (pool.bytes(packet), pool.meta(packet));
        let name = meta.name_in(bytes);
        for tap in &mut self.taps {
            if tap.filter.takes(face, incoming, meta, name) {
                tap.capture.add(now, face, incoming, meta, bytes);
            }
        }
    }

    /// Starts a capture; `None` when there are as many as there may be.
    pub fn start_tap(&mut self, now: Instant, filter: TapFilter) -> Option<u64> {
        if self.taps.len() == TAPS_MAX {
            return None;
        }
        self.last_id += 1;
        self.taps.push(Tap { id: self.last_id, filter, capture: Capture::with_room(), until: now + LEASE });
        Some(self.last_id)
    }

    /// Takes what was captured; `None` when the capture has ended.
    pub fn take_tap(&mut self, now: Instant, id: u64) -> Option<Capture> {
        let tap = self.taps.iter_mut().find(|tap| tap.id == id)?;
        tap.until = now + LEASE;
        if tap.capture.is_empty() {
            return Some(Capture::default());
        }
        Some(core::mem::replace(&mut tap.capture, Capture::with_room()))
    }

    /// Ends a capture.
    pub fn stop_tap(&mut self, id: u64) {
        self.taps.retain(|tap| tap.id != id);
    }

    /// Counts by prefixes of so many components, from now on if it was not so before; since when, and what was counted.
    pub fn count(&mut self, now: Instant, components: usize) -> (Instant, &Sketch) {
        if self.counting.as_ref().is_some_and(|counting| counting.components != components) {
            self.counting = None;
        }
        let counting = self.counting.get_or_insert_with(|| Counting {
            sketch: Sketch::new(),
            components,
            since: now,
            until: now,
            turn: 0,
        });
        counting.until = now + LEASE;
        (counting.since, &counting.sketch)
    }

    /// Ends what nobody asks for any more; true when nothing is left.
    pub fn expire(&mut self, now: Instant) -> bool {
        self.taps.retain(|tap| tap.until > now);
        self.counting.take_if(|counting| counting.until <= now);
        self.taps.is_empty() && self.counting.is_none()
    }
}

impl Counting {
    fn count(&mut self, packets: &[Packet], pool: &Pool) {
        let step = packets.len().div_ceil(SAMPLES_PER_BATCH).max(1);
        // Another of each run every time, so that a pattern in the traffic is not seen as all of it.
        self.turn = self.turn.wrapping_add(1);
        for run in packets.chunks(step) {
            let packet = &run[self.turn % run.len()];
            let (bytes, meta) = (pool.bytes(packet), pool.meta(packet));
            let prefixes = &meta.prefixes;
            let mut components = self.components.min(prefixes.kept());
            while prefixes.end(components) > PREFIX_LEN_MAX {
                components -= 1;
            }
            let name = meta.name_in(bytes).as_bytes();
            let each = Traffic {
                interests: u64::from(meta.kind == Kind::Interest),
                data: u64::from(meta.kind == Kind::Data),
                bytes: bytes.len() as u64,
            };
            let prefix = &name[..prefixes.end(components)];
            self.sketch.count(prefixes.hash(components), prefix, run.len() as u64, each);
        }
    }
}
