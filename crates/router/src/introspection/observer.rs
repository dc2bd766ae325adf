//! Observes packets: captures for `nw tap`, counters by prefix for `nw top`.
//!
//! Bounds: those of [`Taps`], and one sketch of counters. A counter without a fetch for [`LEASE`]
//! ends. The observer never blocks.

use nw_element_api::capture::{Capture, FaceLabel, LEASE, TapFilter, Taps};
use nw_element_api::{FaceId, Kind, Packet, Pool, Timestamp};
use nw_tables::sketch::{PREFIX_LEN_MAX, Sketch, Traffic};

/// Packets of one batch that are counted by prefix. Of a larger batch, one packet of each group
/// stands for the others.
const SAMPLES_PER_BATCH: usize = 8;

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
    taps: Taps,
    counter: Option<PrefixCounter>,
}

impl PacketObserver {
    /// Observes received packets before they are processed.
    pub fn incoming(&mut self, now: Timestamp, packets: &[Packet], pool: &Pool) {
        if let Some(counter) = &mut self.counter {
            counter.count(packets, pool);
        }
        self.taps.incoming(now, packets, pool);
    }

    /// Observes a packet that is passed to its egress face.
    pub fn outgoing(&mut self, now: Timestamp, packet: &Packet, pool: &Pool) {
        self.taps.outgoing(now, packet, pool);
    }

    /// Starts a capture and returns its id. `None` if there are too many.
    pub fn start_tap(&mut self, now: Timestamp, filter: TapFilter) -> Option<u64> {
        self.taps.start(now, filter)
    }

    /// Fetches the captured packets. `None` if the capture has ended.
    pub fn take_tap(&mut self, now: Timestamp, id: u64) -> Option<Capture> {
        self.taps.take(now, id)
    }

    /// Stops a capture.
    pub fn stop_tap(&mut self, id: u64) {
        self.taps.stop(id);
    }

    /// Remembers the label of a face that ended, for the captures that are running.
    pub fn face_ended(&mut self, face: FaceId, label: impl FnOnce() -> FaceLabel) {
        self.taps.face_ended(face, label);
    }

    /// Returns the label of a face that ended while a capture was running.
    pub fn ended_face(&self, face: FaceId) -> Option<&FaceLabel> {
        self.taps.ended_face(face)
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
        self.counter.take_if(|counter| counter.until <= now);
        self.taps.expire(now) && self.counter.is_none()
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
