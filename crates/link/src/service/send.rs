//! Network packets to link packets: without header where none is needed, fragmented where the MTU
//! requires it, numbered and copied where the link is reliable.

use super::marking::QueueState;
use super::reliability::{ACK_LEN, ACKS_PER_PACKET};
use super::{LinkService, ReliabilityAction};
use crate::counters::DropRecorder;
use crate::flags::FaceFlags;
use crate::outbox::Outbox;
use arrayvec::ArrayVec;
use nw_element_api::{
    ANNOUNCEMENT_LEN_MAX, AnnouncementRef, DropCause, FaceId, Kind, LinkFields, Packet, Pool,
    SharedPool, Timestamp,
};
use nw_wire::PACKET_LEN_MAX;
use nw_wire::lp::{FRAG_COUNT_MAX, LpHeader, NackReason};

/// Bytes of an idle packet's TLV head.
const IDLE_HEAD_LEN_MAX: usize = 4;

/// Bytes of a link packet left for other fields and a piece of the payload when it carries a prefix
/// announcement.
const RESERVED_LEN: usize = 256;

/// Bytes of a Sequence field.
const SEQUENCE_LEN: usize = 10;

/// Bytes by which the length fields of a header may grow when Acks are added.
const LENGTHS_GROW_MAX: usize = 2;

impl LinkService {
    /// Puts one packet and its link fields into the outbox, or drops and counts it. `queue` is the
    /// send queue as it is before this packet. Returns an Interest that the link can't serve in
    /// time, as a Nack from the peer, for the host to forward.
    #[inline]
    pub fn send(
        &mut self,
        now: Timestamp,
        packet: Packet,
        queue: QueueState,
        pool: &mut Pool,
        outbox: &mut Outbox,
        drops: &mut DropRecorder<'_>,
    ) -> Option<Packet> {
        let meta = pool.meta(&packet);
        if self.shaper.is_some() && meta.kind == Kind::Interest {
            return self.send_shaped(now, packet, queue, pool, outbox, drops);
        }
        let header = self.header(meta.kind, &meta.link);
        if meta.link.announcement != AnnouncementRef::NONE {
            self.send_announced(now, packet, header, queue, pool, outbox, drops);
            return None;
        }
        self.send_with(now, packet, header, queue, pool, outbox, drops);
        None
    }

    /// Sends a packet with a prefix announcement, or without it where the MTU leaves no space.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "those of `send` and the header")]
    fn send_announced(
        &mut self,
        now: Timestamp,
        packet: Packet,
        header: LpHeader<'static>,
        queue: QueueState,
        pool: &mut Pool,
        outbox: &mut Outbox,
        drops: &mut DropRecorder<'_>,
    ) {
        let meta = pool.meta(&packet);
        let mut copy = [0; ANNOUNCEMENT_LEN_MAX];
        let announcement =
            pool.announcement(meta.link.announcement).filter(|_| meta.kind == Kind::Data);
        let len_max = self.mtu.unwrap_or(usize::MAX).saturating_sub(RESERVED_LEN);
        let announcement =
            announcement.filter(|announcement| announcement.len() <= len_max).map(|announcement| {
                copy[..announcement.len()].copy_from_slice(announcement);
                &copy[..announcement.len()]
            });
        let header = LpHeader { prefix_announcement: announcement, ..header };
        self.send_with(now, packet, header, queue, pool, outbox, drops);
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "those of `send` and the header")]
    pub(super) fn send_with(
        &mut self,
        now: Timestamp,
        packet: Packet,
        mut header: LpHeader<'_>,
        queue: QueueState,
        pool: &mut Pool,
        outbox: &mut Outbox,
        drops: &mut DropRecorder<'_>,
    ) {
        let kind = pool.meta(&packet).kind;
        if kind == Kind::Interest {
            header.receive_window_kib = self.window.next_advertisement(now);
        }
        if self.settings.flags.contains(FaceFlags::CONGESTION_MARKING) {
            let (threshold, interval) =
                (self.settings.marking_threshold, self.settings.marking_interval);
            let sent_bytes = drops.face.out_bytes;
            if self.marking.is_due(now, queue, sent_bytes, (threshold, interval)) {
                header.congestion_mark = header.congestion_mark.max(1);
                drops.face.out_marks += 1;
            }
        }
        if self.reliability.is_some() {
            return self.send_reliably(now, packet, header, pool, outbox, drops);
        }
        let payload_len = pool.bytes(&packet).len();
        let mark = outbox.mark();
        if !header.is_empty() {
            header.encode(payload_len, outbox.bytes_mut());
        }
        let header_len = outbox.len_since(mark);
        match self.mtu {
            Some(mtu) if header_len + payload_len > mtu => {
                outbox.rollback(mark);
                let fragments =
                    self.fragments(kind, &header, pool.bytes(&packet), header_len, mtu, outbox);
                pool.release(packet);
                match fragments {
                    Some(count) => {
                        drops.face.count_out(kind);
                        drops.face.out_packets += count;
                        drops.face.out_bytes += outbox.len_since(mark) as u64;
                    }
                    None => {
                        drops.record(DropCause::FaceMtu, 1);
                        drops.face.count_out_dropped(kind);
                    }
                }
            }
            _ => {
                outbox.finish(mark, packet, kind, pool);
                drops.face.count_out(kind);
                drops.face.out_packets += 1;
                drops.face.out_bytes += (header_len + payload_len) as u64;
            }
        }
    }

    #[inline]
    pub(super) fn header(&self, kind: Kind, link: &LinkFields) -> LpHeader<'static> {
        let mut header = LpHeader {
            pit_token: link.token,
            nack: link.nack,
            congestion_mark: link.congestion_mark,
            no_cache: link.no_cache && kind == Kind::Data,
            non_discovery: link.non_discovery && kind == Kind::Interest,
            ..LpHeader::default()
        };
        match kind {
            Kind::Data | Kind::Publication => header.nack = None,
            Kind::Nack => header.nack = Some(link.nack.unwrap_or(NackReason::None)),
            Kind::Interest => {}
        }
        if self.settings.flags.contains(FaceFlags::LOCAL_FIELDS) {
            header.incoming_face_id =
                (link.incoming_face != FaceId::NONE).then(|| link.incoming_face.number());
            header.next_hop_face_id =
                link.next_hop_face.filter(|_| kind == Kind::Interest).map(FaceId::number);
        }
        header
    }

    /// Fragments a payload into link packets of at most `mtu` bytes. Returns their number, or
    /// `None` if the MTU is too small.
    fn fragments(
        &mut self,
        kind: Kind,
        first: &LpHeader<'_>,
        payload: &[u8],
        header_len: usize,
        mtu: usize,
        outbox: &mut Outbox,
    ) -> Option<u64> {
        let plan = FragmentPlan::new(payload.len(), header_len, mtu, 0)?;
        for (index, piece) in plan.pieces(payload) {
            let mut header = if index == 0 { *first } else { LpHeader::default() };
            header.sequence = Some(self.sequence);
            header.fragment = Some((index, plan.count));
            self.sequence = self.sequence.wrapping_add(1);
            let mark = outbox.mark();
            header.encode(piece.len(), outbox.bytes_mut());
            outbox.bytes_mut().extend_from_slice(piece);
            outbox.finish_copied(mark, (index == 0).then_some(kind));
        }
        Some(plan.count)
    }

    /// Sends a packet on a reliable link: each link packet has a Sequence and a TxSequence, carries
    /// Acks where they fit, and is copied for retransmission.
    fn send_reliably(
        &mut self,
        now: Timestamp,
        packet: Packet,
        mut header: LpHeader<'_>,
        pool: &mut Pool,
        outbox: &mut Outbox,
        drops: &mut DropRecorder<'_>,
    ) {
        let kind = pool.meta(&packet).kind;
        let payload = pool.bytes(&packet);
        header.sequence = Some(self.sequence);
        header.tx_sequence = Some(0);
        let mtu = self.mtu;
        let first_sequence = self.sequence;
        let before = outbox.mark();
        header.encode(payload.len(), outbox.bytes_mut());
        let header_len = outbox.len_since(before);
        outbox.rollback(before);
        let plan = match mtu {
            Some(mtu) if header_len + payload.len() > mtu => {
                // Space is left for a Sequence and a TxSequence in each fragment.
                FragmentPlan::new(payload.len(), header_len - SEQUENCE_LEN - ACK_LEN, mtu, ACK_LEN)
            }
            _ => Some(FragmentPlan::whole(payload.len())),
        };
        let Some(plan) = plan else {
            pool.release(packet);
            drops.record(DropCause::FaceMtu, 1);
            drops.face.count_out_dropped(kind);
            return;
        };
        for (index, piece) in plan.pieces(payload) {
            if index > 0 {
                header = LpHeader { sequence: Some(self.sequence), ..LpHeader::default() };
            }
            header.fragment = (plan.count > 1).then_some((index, plan.count));
            self.sequence = self.sequence.wrapping_add(1);
            let packet_kind = (index == 0).then_some(kind);
            self.send_protected(now, kind, first_sequence, header, piece, packet_kind, outbox);
            if self
                .reliability
                .as_ref()
                .is_some_and(|reliability| reliability.is_shared_memory_short(piece.len()))
            {
                drops.total.shortages.record(SharedPool::SendQueues);
            }
        }
        if let Some(reliability) = &self.reliability {
            drops.face.reliability = *reliability.counters();
        }
        pool.release(packet);
        drops.face.count_out(kind);
        drops.face.out_packets += plan.count;
        drops.face.out_bytes += outbox.len_since(before) as u64;
    }

    #[expect(clippy::too_many_arguments, reason = "one link packet, all of it")]
    fn send_protected(
        &mut self,
        now: Timestamp,
        kind: Kind,
        first_sequence: u64,
        mut header: LpHeader<'_>,
        piece: &[u8],
        packet_kind: Option<Kind>,
        outbox: &mut Outbox,
    ) {
        let Some(reliability) = &mut self.reliability else { return };
        let mark = outbox.mark();
        header.tx_sequence =
            reliability.next_tx_sequence(nw_wire::lp::HEADER_LEN_MAX + piece.len());
        header.encode(piece.len(), outbox.bytes_mut());
        let len = outbox.len_since(mark) + piece.len();
        if header.tx_sequence.is_some() {
            reliability.protect(now, kind, first_sequence, [outbox.bytes_since(mark), piece]);
        }
        // Streams have no MTU, but peers accept no link packet above the longest packet.
        let ack_bytes_max =
            self.mtu.unwrap_or(PACKET_LEN_MAX).saturating_sub(len + LENGTHS_GROW_MAX);
        let mut acks = ArrayVec::<u64, ACKS_PER_PACKET>::new();
        reliability.take_acks(ack_bytes_max, &mut acks);
        if !acks.is_empty() {
            outbox.rollback(mark);
            LpHeader { acks: &acks, ..header }.encode(piece.len(), outbox.bytes_mut());
        }
        outbox.bytes_mut().extend_from_slice(piece);
        outbox.finish_copied(mark, packet_kind);
    }

    /// Retransmits lost link packets, at most `retransmit_max`, and sends acknowledgements that
    /// have waited long enough.
    pub fn send_due(
        &mut self,
        now: Timestamp,
        retransmit_max: usize,
        outbox: &mut Outbox,
        drops: &mut DropRecorder<'_>,
    ) {
        let Some(reliability) = &mut self.reliability else { return };
        let ack_bytes_max = self.mtu.unwrap_or(PACKET_LEN_MAX).saturating_sub(IDLE_HEAD_LEN_MAX);
        reliability.process_due(now, ack_bytes_max, retransmit_max, |action| {
            let mark = outbox.mark();
            match action {
                ReliabilityAction::Retransmit(bytes) => outbox.bytes_mut().extend_from_slice(bytes),
                ReliabilityAction::SendAcks(acks) => {
                    LpHeader { acks, ..LpHeader::default() }.encode(0, outbox.bytes_mut());
                }
                ReliabilityAction::GaveUp(_) => {
                    return drops.record(DropCause::RetransmissionsSpent, 1);
                }
            }
            drops.face.out_packets += 1;
            drops.face.out_bytes += outbox.len_since(mark) as u64;
            outbox.finish_copied(mark, None);
        });
        drops.face.reliability = *reliability.counters();
    }
}

/// How a payload is split into fragments.
#[derive(Clone, Copy, Debug)]
struct FragmentPlan {
    first_len_max: usize,
    len_max: usize,
    count: u64,
}

impl FragmentPlan {
    const fn whole(len: usize) -> Self {
        FragmentPlan { first_len_max: len, len_max: len, count: 1 }
    }

    /// Returns the split for link packets of at most `mtu` bytes, where the header of the
    /// unfragmented packet has `header_len` bytes and `reserved` bytes of each header are kept
    /// free. `None` if the MTU is too small.
    fn new(payload_len: usize, header_len: usize, mtu: usize, reserved: usize) -> Option<Self> {
        // Sequence 10, FragIndex and FragCount at most 4 each, heads of LpPacket and Fragment at
        // most 4 each.
        const FRAGMENT_HEADER_MAX: usize = 26;
        let len_max =
            mtu.checked_sub(FRAGMENT_HEADER_MAX + reserved).filter(|len_max| *len_max > 0)?;
        // The first fragment carries the other headers. `header_len` includes the heads, which are
        // counted in FRAGMENT_HEADER_MAX already.
        let first_len_max = len_max.checked_sub(header_len).filter(|len_max| *len_max > 0)?;
        let remaining = payload_len.saturating_sub(first_len_max);
        let count = 1 + remaining.div_ceil(len_max) as u64;
        (count <= FRAG_COUNT_MAX).then_some(FragmentPlan { first_len_max, len_max, count })
    }

    /// Returns the fragments with their indices.
    fn pieces<'a>(self, payload: &'a [u8]) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let (first, remaining) = payload.split_at(self.first_len_max.min(payload.len()));
        let others = remaining.chunks(self.len_max.max(1));
        core::iter::once(first)
            .chain(others)
            .enumerate()
            .map(|(index, piece)| (index as u64, piece))
    }
}
