//! Applications at the edges: those who ask and those who answer. Pure: packets in, packets out, and when to be called again.

mod bulk;
mod consumer;
mod producer;

pub use bulk::{Bulk, BulkConfig};
pub use consumer::{Consumer, ConsumerConfig, Names};
pub use producer::{Producer, ProducerConfig};

use hdrhistogram::Histogram;
use nw_element_api::Instant;
use nw_name::tlv::{number_len, push_number, push_tlv};
use nw_name::{ComponentType, NameRef};
use nw_wire::types as t;

/// Octets of packets that an application sends in one turn, back to back.
#[derive(Debug, Default)]
pub struct Sends {
    octets: Vec<u8>,
    ends: Vec<usize>,
}

impl Sends {
    /// Appends one packet, written by the caller.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.octets);
        self.ends.push(self.octets.len());
    }

    /// The packets, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| &self.octets[core::mem::replace(&mut start, *end)..*end])
    }

    /// Forgets them; the room is kept.
    pub fn clear(&mut self) {
        self.octets.clear();
        self.ends.clear();
    }
}

/// What came to an application, its link header taken off.
#[derive(Clone, Copy, Debug)]
pub enum Arrival<'a> {
    /// Somebody asks.
    Interest {
        /// For this.
        name: NameRef<'a>,
    },
    /// An answer.
    Data {
        /// Its name.
        name: NameRef<'a>,
        /// Octets of the packet.
        octets: usize,
        /// It carries a congestion mark.
        is_marked: bool,
        /// FinalBlockId, where it is a segment.
        final_segment: Option<u64>,
    },
    /// A refusal.
    Nack {
        /// Of this.
        name: NameRef<'a>,
        /// Why.
        reason: nw_wire::NackReason,
    },
}

/// An application.
pub trait Application {
    /// Takes one packet.
    fn receive(&mut self, now: Instant, arrival: Arrival<'_>, sends: &mut Sends);

    /// Does what is due.
    fn tick(&mut self, now: Instant, sends: &mut Sends);

    /// When [`tick`](Self::tick) wants to be called.
    fn deadline(&self) -> Option<Instant>;

    /// What it counted.
    fn counters(&self) -> &AppCounters;
}

/// What applications count. Those who answer count Interests that came as `received`, and Data as `sent`.
#[derive(Clone, Debug)]
pub struct AppCounters {
    /// Interests sent (by producers: Data).
    pub sent: u64,
    /// Interests answered in time (by producers: Interests that came).
    pub satisfied: u64,
    /// Interests refused by a Nack.
    pub nacks: u64,
    /// Interests not answered in their lifetime.
    pub timeouts: u64,
    /// Interests on their way now.
    pub pending: u64,
    /// Requests for what was on its way already, and so not sent.
    pub joined: u64,
    /// Data that nobody waited for any more.
    pub late: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// Octets of Data received (by producers: sent).
    pub octets: u64,
    /// Nanoseconds from Interest to Data.
    pub rtt_ns: Histogram<u64>,
    /// The same, summed.
    pub rtt_sum_ns: u64,
    /// The shortest, exact; `u64::MAX` before the first.
    pub rtt_min_ns: u64,
    /// The longest, exact.
    pub rtt_max_ns: u64,
    /// When a download was complete.
    pub done_ns: Option<u64>,
    /// A download was given up.
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
            octets: 0,
            // Two digits: there may be thousands of applications.
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
    /// Counts a round trip.
    pub fn round_trip(&mut self, rtt_ns: u64) {
        // It grows as it must, so nothing is too long for it.
        let _ = self.rtt_ns.record(rtt_ns.max(1));
        self.rtt_sum_ns += rtt_ns;
        self.rtt_min_ns = self.rtt_min_ns.min(rtt_ns);
        self.rtt_max_ns = self.rtt_max_ns.max(rtt_ns);
    }
}

/// Appends a bare Interest for `prefix` and a last component that is a segment number.
fn push_interest(prefix: &[u8], number: u64, nonce: u32, lifetime_ms: u32, out: &mut Vec<u8>) {
    let (octets, from) = shortest(number);
    let component = &octets[from..];
    let name_len = prefix.len() + 2 + component.len();
    let (lifetime, lifetime_from) = shortest(u64::from(lifetime_ms));
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

/// A number in 1, 2, 4 or 8 octets, and where they begin.
fn shortest(number: u64) -> ([u8; 8], usize) {
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
    fn interests_are_as_the_specification_says() {
        let prefix: Name = "/a/b".parse().unwrap();
        for (number, lifetime_ms) in [(0, 1), (255, 4000), (256, 70_000), (1 << 20, 255), (1 << 40, u32::MAX)]
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
