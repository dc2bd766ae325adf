//! Writes link headers.

use crate::lp::{NackReason, Token};
use crate::types as t;
use nw_name::tlv::{push_integer, push_number, push_tlv, put_number};

/// Longest link header in bytes that [`LpHeader`] writes, without Acks and PrefixAnnouncement.
pub const HEADER_LEN_MAX: usize = 192;

/// A link header to be written before a packet. Fields as in [`LpPacket`](crate::LpPacket).
#[derive(Clone, Copy, Debug, Default)]
pub struct LpHeader<'a> {
    /// Sequence number of the link packet.
    pub sequence: Option<u64>,
    /// FragIndex and FragCount, if fragmented.
    pub fragment: Option<(u64, u64)>,
    /// PIT token.
    pub pit_token: Token,
    /// Reason, on a Nack.
    pub nack: Option<NackReason>,
    /// IncomingFaceId.
    pub incoming_face_id: Option<u64>,
    /// NextHopFaceId.
    pub next_hop_face_id: Option<u64>,
    /// CachePolicy NoCache.
    pub no_cache: bool,
    /// CongestionMark; 0 for none.
    pub congestion_mark: u64,
    /// Numbers of acknowledged transmissions.
    pub acks: &'a [u64],
    /// TxSequence.
    pub tx_sequence: Option<u64>,
    /// NonDiscovery.
    pub non_discovery: bool,
    /// PrefixAnnouncement: a whole Data.
    pub prefix_announcement: Option<&'a [u8]>,
    /// The own receive window, KiB.
    pub receive_window_kib: Option<u64>,
}

impl LpHeader<'_> {
    /// Returns whether no field is set, so that a bare packet can be sent.
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
            && self.receive_window_kib.is_none()
    }

    /// Appends the link header for a payload of `payload_len` bytes, up to and including the header
    /// of Fragment; the payload must follow. With `payload_len` 0 there is no Fragment: an idle
    /// packet.
    ///
    /// # Panics
    /// When header and payload have 2^32 bytes or more together; a packet has at most
    /// [`PACKET_LEN_MAX`](crate::PACKET_LEN_MAX).
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
            // python-ndn treats a Nack without a reason as an Interest, so a reason is always
            // written.
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
        if let Some(room_kib) = self.receive_window_kib {
            push_integer(t::LP_RECEIVE_WINDOW, room_kib, out);
        }
        if payload_len > 0 {
            push_number(u64::from(t::LP_FRAGMENT), out);
            push_number(payload_len as u64, out);
        }
        close_outer(start, payload_len, out);
    }
}

/// Bytes of the outer type and of the longest length field written (5).
const OUTER_LEN_MAX: usize = 6;

/// Writes the outer type and length into the bytes reserved at `start`, and removes unused ones.
fn close_outer(start: usize, payload_len: usize, out: &mut Vec<u8>) {
    let body_start = start + OUTER_LEN_MAX;
    let body_len = (out.len() - body_start + payload_len) as u64;
    assert!(body_len <= u64::from(u32::MAX), "a link packet of {body_len} bytes");
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
    fn empty_header_writes_bare_lp_packet() {
        let mut out = vec![9];
        assert!(LpHeader::default().is_empty());
        LpHeader::default().encode(3, &mut out);
        assert_eq!(out, [9, 100, 5, 80, 3], "what was there stays");
        let mut idle = Vec::new();
        LpHeader::default().encode(0, &mut idle);
        assert_eq!(idle, [100, 0]);
    }

    #[test]
    fn nack_is_written_with_reason() {
        let mut out = Vec::new();
        LpHeader { nack: Some(NackReason::None), ..LpHeader::default() }.encode(2, &mut out);
        assert_eq!(out, [100, 13, 253, 3, 32, 5, 253, 3, 33, 1, 0, 80, 2]);
    }

    #[test]
    fn outer_length_field_is_minimal() {
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
    fn longest_header_is_within_header_len_max() {
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
            receive_window_kib: Some(u64::MAX),
        };
        let mut out = Vec::new();
        header.encode(8800, &mut out);
        assert!(out.len() <= HEADER_LEN_MAX, "{} bytes", out.len());
    }
}
