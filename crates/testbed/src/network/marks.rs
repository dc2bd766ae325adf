//! Congestion marks of a link. Its queue is in this process, so routers see none in front of it;
//! the link sets the marks that they would set, by the same rule.
//!
//! ```text
//!  bare packet ─▶ LpPacket { CongestionMark, Fragment: packet }
//!  LpPacket { fields, Fragment } ─▶ LpPacket { fields, CongestionMark, Fragment }
//! ```

use core::time::Duration;
use nw_element_api::Timestamp;
use nw_link::QueueState;
use nw_link::service::Marking;
use nw_sim::scenario::Links;
use nw_wire::lp::{LpHeader, LpPacket};
use nw_wire::tlv::{Reader, push_integer, push_number};
use nw_wire::types::{LP_CONGESTION_MARK, LP_FRAGMENT, LP_PACKET};

/// Marks the datagrams of one direction.
#[derive(Debug)]
pub struct LinkMarking {
    /// Threshold in bytes and interval; `None` if the scenario wants no marks.
    limits: Option<(u64, Duration)>,
    marking: Marking,
    sent_bytes: u64,
    /// The last marked datagram.
    marked: Vec<u8>,
}

impl LinkMarking {
    /// Creates the marking that a scenario's links have.
    pub fn new(links: &Links) -> Self {
        let interval = Duration::from_millis(u64::from(links.marking_interval_ms));
        let limits = (u64::from(links.marking_threshold_kib) * 1024, interval);
        LinkMarking {
            limits: links.congestion_marking.then_some(limits),
            marking: Marking::default(),
            sent_bytes: 0,
            marked: Vec::new(),
        }
    }

    /// Returns a datagram as it goes on the link, with a mark if one is due. `queue`: as it is
    /// before this datagram.
    pub fn apply<'a>(&'a mut self, now_ns: u64, queue: QueueState, datagram: &'a [u8]) -> &'a [u8] {
        let Some(limits) = self.limits else { return datagram };
        let sent_bytes = self.sent_bytes;
        self.sent_bytes += datagram.len() as u64;
        // Of a fragmented packet, the first fragment carries the mark.
        let packet = LpPacket::check(datagram).ok().filter(|packet| packet.frag_index == 0);
        let Some(packet) = packet else { return datagram };
        let now = Timestamp::from_nanos(now_ns);
        let is_due = self.marking.is_due(now, queue, sent_bytes, limits);
        if !is_due || packet.congestion_mark != 0 {
            return datagram;
        }
        mark(datagram, &mut self.marked);
        &self.marked
    }
}

/// Writes a copy of a checked link packet without a mark to `marked`, with one.
fn mark(datagram: &[u8], marked: &mut Vec<u8>) {
    marked.clear();
    let mut outer = Reader::new(datagram, 0);
    let Ok(Some(packet)) = outer.next() else { return marked.extend_from_slice(datagram) };
    if packet.typ != LP_PACKET {
        LpHeader { congestion_mark: 1, ..LpHeader::default() }.encode(datagram.len(), marked);
        return marked.extend_from_slice(datagram);
    }
    // Fields are in order of their type, but Fragment is the last.
    let (mut fields, mut at) = (packet.inner(), packet.value_start);
    while let Ok(Some(field)) = fields.next() {
        if field.typ == LP_FRAGMENT || field.typ > LP_CONGESTION_MARK {
            break;
        }
        at = field.end();
    }
    let mut field = Vec::new();
    push_integer(LP_CONGESTION_MARK, 1, &mut field);
    push_number(u64::from(LP_PACKET), marked);
    push_number((packet.value.len() + field.len()) as u64, marked);
    marked.extend_from_slice(&datagram[packet.value_start..at]);
    marked.extend_from_slice(&field);
    marked.extend_from_slice(&datagram[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::{NackReason, Token};

    fn link_packet(header: &LpHeader<'_>, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        if !header.is_empty() {
            header.encode(payload.len(), &mut packet);
        }
        packet.extend_from_slice(payload);
        packet
    }

    #[test]
    fn mark_is_added_between_the_other_fields() {
        let data = [&[6, 200][..], &[7; 200]].concat();
        let token = Token::new(&[1, 2, 3]).expect("a token");
        let acks = [7, 8];
        let headers = [
            LpHeader::default(),
            LpHeader { pit_token: token, ..LpHeader::default() },
            LpHeader { fragment: Some((0, 3)), sequence: Some(9), ..LpHeader::default() },
            LpHeader { nack: Some(NackReason::NoRoute), acks: &acks, ..LpHeader::default() },
            LpHeader { tx_sequence: Some(4), receive_window_kib: Some(5), ..LpHeader::default() },
        ];
        for header in headers {
            let mut marked = Vec::new();
            mark(&link_packet(&header, &data), &mut marked);
            assert_eq!(marked, link_packet(&LpHeader { congestion_mark: 1, ..header }, &data));
        }
    }

    #[test]
    fn long_queue_is_marked_after_the_interval() {
        let links = Links::default();
        let (short, long) = (
            QueueState { bytes: 1000, bytes_max: 1 << 20 },
            QueueState { bytes: 100_000, bytes_max: 1 << 20 },
        );
        let data = [6, 2, 7, 0];
        let marked_at = |links: &Links, queue| {
            let mut marking = LinkMarking::new(links);
            (0..300u64).find(|ms| marking.apply(ms * 1_000_000, queue, &data).len() > data.len())
        };
        assert_eq!((marked_at(&links, short), marked_at(&links, long)), (None, Some(100)));
        let unmarked = Links { congestion_marking: false, ..Links::default() };
        assert_eq!(marked_at(&unmarked, long), None);
    }

    #[test]
    fn marks_of_routers_and_later_fragments_stay_as_they_are() {
        let mut marking = LinkMarking::new(&Links::default());
        let full = QueueState { bytes: 1000, bytes_max: 1000 };
        let beyond = LpHeader { congestion_mark: 2, ..LpHeader::default() };
        let second = LpHeader { fragment: Some((1, 3)), sequence: Some(9), ..LpHeader::default() };
        for header in [beyond, second] {
            let packet = link_packet(&header, &[6, 2, 7, 0]);
            assert_eq!(marking.apply(1, full, &packet), packet);
        }
        assert_eq!(marking.apply(2, full, b"no packet"), b"no packet");
    }
}
