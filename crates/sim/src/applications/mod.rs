//! Applications at the edges: consumers and producers. Pure: packets in, packets out, and a
//! deadline.

mod bulk;
mod consumer;
mod producer;

pub use bulk::{Bulk, BulkConfig};
pub use consumer::{Consumer, ConsumerConfig, Names};
pub use producer::{Producer, ProducerConfig};

use hdrhistogram::Histogram;
use nw_element_api::Timestamp;
use nw_name::tlv::{number_len, push_number, push_tlv};
use nw_name::{ComponentType, NameRef};
use nw_wire::types as t;

/// Packets that an application sends in one call, back to back.
#[derive(Debug, Default)]
pub struct OutgoingPackets {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl OutgoingPackets {
    /// Appends one packet, written by the closure.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Returns the packets, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| &self.bytes[core::mem::replace(&mut start, *end)..*end])
    }

    /// Removes all packets; the memory is kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// A packet received by an application, without its link header.
#[derive(Clone, Copy, Debug)]
pub enum Arrival<'a> {
    /// An Interest.
    Interest {
        /// Name of the packet.
        name: NameRef<'a>,
    },
    /// A Data packet.
    Data {
        /// Name of the packet.
        name: NameRef<'a>,
        /// Length of the packet, bytes.
        bytes: usize,
        /// True if it carries a congestion mark.
        is_marked: bool,
        /// FinalBlockId, if it is a segment number.
        final_segment: Option<u64>,
    },
    /// A Nack.
    Nack {
        /// Name of the Interest.
        name: NameRef<'a>,
        /// Nack reason.
        reason: nw_wire::NackReason,
        /// Pause that it asks for.
        pause: core::time::Duration,
    },
}

/// An application.
pub trait Application {
    /// Receives one packet; packets to send are appended to `outgoing`.
    fn receive(&mut self, now: Timestamp, arrival: Arrival<'_>, outgoing: &mut OutgoingPackets);

    /// Runs the timers that are due; packets to send are appended to `outgoing`.
    fn tick(&mut self, now: Timestamp, outgoing: &mut OutgoingPackets);

    /// Returns when to call [`tick`](Self::tick) next.
    fn deadline(&self) -> Option<Timestamp>;

    /// Returns the counters.
    fn counters(&self) -> &AppCounters;
}

/// Counters of an application. For producers `satisfied` counts received Interests and `sent`
/// counts Data.
#[derive(Clone, Debug)]
pub struct AppCounters {
    /// Interests sent (producers: Data sent).
    pub sent: u64,
    /// Interests satisfied in time (producers: Interests received).
    pub satisfied: u64,
    /// Interests answered by a Nack.
    pub nacks: u64,
    /// Interests that timed out.
    pub timeouts: u64,
    /// Interests pending now.
    pub pending: u64,
    /// Requests not sent because an Interest for the same name was pending.
    pub joined: u64,
    /// Data that arrived too late or twice.
    pub late: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// Bytes of Data received (producers: sent).
    pub bytes: u64,
    /// Round-trip times, nanoseconds.
    pub rtt_ns: Histogram<u64>,
    /// Sum of all round-trip times, nanoseconds.
    pub rtt_sum_ns: u64,
    /// Shortest round-trip time, exact, nanoseconds; `u64::MAX` before the first.
    pub rtt_min_ns: u64,
    /// Longest round-trip time, exact, nanoseconds.
    pub rtt_max_ns: u64,
    /// When the download was complete, nanoseconds after its start.
    pub done_ns: Option<u64>,
    /// Why the download failed, if it did.
    pub failed: Option<String>,
}

impl Default for AppCounters {
    fn default() -> Self {
        AppCounters {
            sent: 0,
            satisfied: 0,
            nacks: 0,
            timeouts: 0,
            pending: 0,
            joined: 0,
            late: 0,
            marks: 0,
            bytes: 0,
            // Two significant digits save memory: there may be thousands of applications.
            rtt_ns: Histogram::new(2).expect("two digits are supported"),
            rtt_sum_ns: 0,
            rtt_min_ns: u64::MAX,
            rtt_max_ns: 0,
            done_ns: None,
            failed: None,
        }
    }
}

impl AppCounters {
    /// Records a round-trip time.
    pub fn round_trip(&mut self, rtt_ns: u64) {
        // The histogram resizes itself, so no value is too large.
        let _ = self.rtt_ns.record(rtt_ns.max(1));
        self.rtt_sum_ns += rtt_ns;
        self.rtt_min_ns = self.rtt_min_ns.min(rtt_ns);
        self.rtt_max_ns = self.rtt_max_ns.max(rtt_ns);
    }
}

/// Appends an Interest without link header: `prefix` followed by a segment number.
fn push_interest(prefix: &[u8], number: u64, nonce: u32, lifetime_ms: u32, out: &mut Vec<u8>) {
    let (bytes, from) = minimal_bytes(number);
    let component = &bytes[from..];
    let name_len = prefix.len() + 2 + component.len();
    let (lifetime, lifetime_from) = minimal_bytes(u64::from(lifetime_ms));
    let lifetime = &lifetime[lifetime_from..];
    let len = 1 + number_len(name_len as u64) + name_len + 6 + 2 + lifetime.len();
    push_number(u64::from(t::INTEREST), out);
    push_number(len as u64, out);
    push_number(u64::from(t::NAME), out);
    push_number(name_len as u64, out);
    out.extend_from_slice(prefix);
    push_tlv(u32::from(ComponentType::SEGMENT.number()), component, out);
    push_tlv(t::NONCE, &nonce.to_be_bytes(), out);
    push_tlv(t::INTEREST_LIFETIME, lifetime, out);
}

/// Returns a number as 8 big-endian bytes, and the index of the first byte of its shortest encoding
/// in 1, 2, 4 or 8 bytes.
fn minimal_bytes(number: u64) -> ([u8; 8], usize) {
    let from = match number {
        0..=0xff => 7,
        0x100..=0xffff => 6,
        0x1_0000..=0xffff_ffff => 4,
        _ => 0,
    };
    (number.to_be_bytes(), from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_name::Name;
    use nw_wire::Interest;

    #[test]
    fn push_interest_encodes_valid_interest() {
        let prefix: Name = "/a/b".parse().unwrap();
        for (number, lifetime_ms) in
            [(0, 1), (255, 4000), (256, 70_000), (1 << 20, 255), (1 << 40, u32::MAX)]
        {
            let mut wire = Vec::new();
            push_interest(prefix.as_ref().as_bytes(), number, 7, lifetime_ms, &mut wire);
            let interest = Interest::check(&wire).unwrap();
            assert_eq!(nw_name::convention::segment(interest.name()), Some(number));
            assert!(prefix.as_ref().is_prefix_of(interest.name()));
            assert_eq!(interest.lifetime_ms(), u64::from(lifetime_ms));
        }
    }
}
