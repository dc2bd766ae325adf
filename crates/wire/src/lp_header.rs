//! Writing link headers.

use crate::lp::{NackReason, Token};
use crate::types as t;
use nw_name::tlv::{push_integer, push_number, push_tlv, put_number};

/// Most octets of link header around a whole packet or fragment that [`LpHeader`] writes without Acks and PrefixAnnouncement.
pub const HEADER_LEN_MAX: usize = 192;

/// A link header to be written in front of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct LpHeader<'a> {
    /// See [`LpPacket::sequence`](crate::LpPacket::sequence).
    pub sequence: Option<u64>,
    /// Index and count, when fragmented.
    pub fragment: Option<(u64, u64)>,
    /// See [`LpPacket::pit_token`](crate::LpPacket::pit_token).
    pub pit_token: Token,
    /// See [`LpPacket::nack`](crate::LpPacket::nack).
    pub nack: Option<NackReason>,
    /// See [`LpPacket::incoming_face_id`](crate::LpPacket::incoming_face_id).
    pub incoming_face_id: Option<u64>,
    /// See [`LpPacket::next_hop_face_id`](crate::LpPacket::next_hop_face_id).
    pub next_hop_face_id: Option<u64>,
    /// See [`LpPacket::no_cache`](crate::LpPacket::no_cache).
    pub no_cache: bool,
    /// See [`LpPacket::congestion_mark`](crate::LpPacket::congestion_mark).
    pub congestion_mark: u64,
    /// Transmissions acknowledged.
    pub acks: &'a [u64],
    /// See [`LpPacket::tx_sequence`](crate::LpPacket::tx_sequence).
    pub tx_sequence: Option<u64>,
    /// See [`LpPacket::non_discovery`](crate::LpPacket::non_discovery).
    pub non_discovery: bool,
    /// See [`LpPacket::prefix_announcement`](crate::LpPacket::prefix_announcement).
    pub prefix_announcement: Option<&'a [u8]>,
    /// See [`LpPacket::receive_room_kib`](crate::LpPacket::receive_room_kib).
    pub receive_room_kib: Option<u64>,
}

impl LpHeader<'_> {
    /// True when a bare packet says as much.
    pub fn is_empty(&self) -> bool {
        self.sequence.is_none()
            && self.fragment.is_none()
            && self.pit_token.is_none()
            && self.nack.is_none()
            && self.incoming_face_id.is_none()
            && self.next_hop_face_id.is_none()
            && !self.no_cache
            && self.congestion_mark == 0
            && self.acks.is_empty()
            && self.tx_sequence.is_none()
            && !self.non_discovery
            && self.prefix_announcement.is_none()
            && self.receive_room_kib.is_none()
    }

    /// Appends all that stands before a payload of `payload_len` octets, up to and with the head of Fragment; the payload is to follow.
    /// With `payload_len` 0 there is no Fragment: an idle packet.
    ///
    /// # Panics
    /// When header and payload come to 2^32 octets or more; a packet has at most [`PACKET_LEN_MAX`](crate::PACKET_LEN_MAX).
    pub fn encode(&self, payload_len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; OUTER_LEN_MAX]);
        if let Some(sequence) = self.sequence {
            push_tlv(t::LP_SEQUENCE, &sequence.to_be_bytes(), out);
        }
        if let Some((index, count)) = self.fragment {
            push_integer(t::LP_FRAG_INDEX, index, out);
            push_integer(t::LP_FRAG_COUNT, count, out);
        }
        if !self.pit_token.is_none() {
            push_tlv(t::LP_PIT_TOKEN, self.pit_token.as_bytes(), out);
        }
        if let Some(reason) = self.nack {
            // python-ndn takes a Nack without a reason for an Interest, so there always is one.
            let mut inner = [0; 8];
            let head = put_number(u64::from(t::LP_NACK_REASON), &mut inner);
            inner[head] = 1;
            inner[head + 1] = reason.number() as u8;
            push_tlv(t::LP_NACK, &inner[..head + 2], out);
        }
        if let Some(face) = self.incoming_face_id {
            push_integer(t::LP_INCOMING_FACE_ID, face, out);
        }
        if let Some(face) = self.next_hop_face_id {
            push_integer(t::LP_NEXT_HOP_FACE_ID, face, out);
        }
        if self.no_cache {
            push_tlv(t::LP_CACHE_POLICY, &[0xfd, 0x03, 0x35, 1, 1], out);
        }
        if self.congestion_mark != 0 {
            push_integer(t::LP_CONGESTION_MARK, self.congestion_mark, out);
        }
        for ack in self.acks {
            push_tlv(t::LP_ACK, &ack.to_be_bytes(), out);
        }
        if let Some(sequence) = self.tx_sequence {
            push_tlv(t::LP_TX_SEQUENCE, &sequence.to_be_bytes(), out);
        }
        if self.non_discovery {
            push_tlv(t::LP_NON_DISCOVERY, &[], out);
        }
        if let Some(announcement) = self.prefix_announcement {
            push_tlv(t::LP_PREFIX_ANNOUNCEMENT, announcement, out);
        }
        if let Some(room_kib) = self.receive_room_kib {
            push_integer(t::LP_RECEIVE_ROOM, room_kib, out);
        }
        if payload_len > 0 {
            push_number(u64::from(t::LP_FRAGMENT), out);
            push_number(payload_len as u64, out);
        }
        close_outer(start, payload_len, out);
    }
}

/// Octets of the outer type and the longest length we write, of five octets.
const OUTER_LEN_MAX: usize = 6;

/// Writes the outer type and length into the room left at `start`, and takes back what they don't need of it.
fn close_outer(start: usize, payload_len: usize, out: &mut Vec<u8>) {
    let body_start = start + OUTER_LEN_MAX;
    let body_len = (out.len() - body_start + payload_len) as u64;
    assert!(body_len <= u64::from(u32::MAX), "a link packet of {body_len} octets");
    let mut head = [0; 10];
    head[0] = t::LP_PACKET as u8;
    let head_len = 1 + put_number(body_len, &mut head[1..]);
    out[start..start + head_len].copy_from_slice(&head[..head_len]);
    out.copy_within(body_start.., start + head_len);
    out.truncate(out.len() - (OUTER_LEN_MAX - head_len));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lp::LpPacket;

    #[test]
    fn an_empty_header_is_an_envelope() {
        let mut out = vec![9];
        assert!(LpHeader::default().is_empty());
        LpHeader::default().encode(3, &mut out);
        assert_eq!(out, [9, 100, 5, 80, 3], "what was there stays");
        let mut idle = Vec::new();
        LpHeader::default().encode(0, &mut idle);
        assert_eq!(idle, [100, 0]);
    }

    #[test]
    fn a_nack_always_has_a_reason() {
        let mut out = Vec::new();
        LpHeader { nack: Some(NackReason::None), ..LpHeader::default() }.encode(2, &mut out);
        assert_eq!(out, [100, 13, 253, 3, 32, 5, 253, 3, 33, 1, 0, 80, 2]);
    }

    #[test]
    fn the_outer_length_has_the_octets_it_needs() {
        for payload_len in [1, 248, 249, 250, 252, 253, 300, 65_530, 65_531, 65_536, 1 << 20] {
            let mut out = Vec::new();
            let header = LpHeader { congestion_mark: 1, ..LpHeader::default() };
            header.encode(payload_len, &mut out);
            out.resize(out.len() + payload_len, 7);
            let packet = LpPacket::check(&out).unwrap();
            assert_eq!((packet.fragment.unwrap().len(), packet.congestion_mark), (payload_len, 1));
        }
    }

    #[test]
    #[should_panic(expected = "a link packet of")]
    fn absurd_lengths_are_the_callers_bug() {
        LpHeader::default().encode(1 << 32, &mut Vec::new());
    }

    #[test]
    fn headers_keep_to_their_bound() {
        let header = LpHeader {
            sequence: Some(u64::MAX),
            fragment: Some((399, 400)),
            pit_token: Token::new(&[1; 32]).unwrap(),
            nack: Some(NackReason::NoRoute),
            incoming_face_id: Some(u64::MAX),
            next_hop_face_id: Some(u64::MAX),
            no_cache: true,
            congestion_mark: u64::MAX,
            acks: &[],
            tx_sequence: Some(u64::MAX),
            non_discovery: true,
            prefix_announcement: None,
            receive_room_kib: Some(u64::MAX),
        };
        let mut out = Vec::new();
        header.encode(8800, &mut out);
        assert!(out.len() <= HEADER_LEN_MAX, "{} octets", out.len());
    }
}
