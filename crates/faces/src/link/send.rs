//! Network packets to link packets: bare where no header is needed, in fragments where the MTU asks for it, numbered and kept where the link is
//! reliable.

use super::marking::QueueState;
use super::reliability::{ACK_LEN, ACKS_PER_PACKET};
use super::{LinkService, Pumped, Tally};
use crate::outbox::Outbox;
use crate::status::FaceFlags;
use arrayvec::ArrayVec;
use nw_element_api::{
    ANNOUNCEMENT_LEN_MAX, Cause, FaceId, Instant, Kind, LinkFields, Packet, Pool, SharedPool, Ticket,
};
use nw_wire::PACKET_LEN_MAX;
use nw_wire::lp::{FRAG_COUNT_MAX, LpHeader, NackReason};

/// Octets of an idle packet's head.
const IDLE_HEAD_LEN_MAX: usize = 4;
/// Octets of a link packet that are left to other fields and a piece of the payload where a prefix announcement goes with it.
const OTHER_FIELDS_LEN: usize = 256;

/// Octets of a Sequence.
const SEQUENCE_LEN: usize = 10;

/// Octets by which the lengths of a header may grow when Acks are added.
const LENGTHS_GROW_MAX: usize = 2;

impl LinkService {
    /// Puts one packet, with its link fields, into the outbox; or drops and counts it. `queue` is what waits for the socket already.
    #[inline]
    pub fn send(
        &mut self,
        now: Instant,
        packet: Packet,
        queue: QueueState,
        pool: &mut Pool,
        outbox: &mut Outbox,
        tally: &mut Tally<'_>,
    ) {
        let meta = pool.meta(&packet);
        let header = self.header(meta.kind, &meta.link);
        if meta.link.announcement != Ticket::NONE {
            return self.send_announced(now, packet, header, queue, pool, outbox, tally);
        }
        self.send_with(now, packet, header, queue, pool, outbox, tally);
    }

    /// As [`send`](Self::send), with a prefix announcement where there is room for it.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "those of `send` and the header")]
    fn send_announced(
        &mut self,
        now: Instant,
        packet: Packet,
        header: LpHeader<'static>,
        queue: QueueState,
        pool: &mut Pool,
        outbox: &mut Outbox,
        tally: &mut Tally<'_>,
    ) {
        let meta = pool.meta(&packet);
        let mut kept = [0; ANNOUNCEMENT_LEN_MAX];
        let announcement = pool.announcement(meta.link.announcement).filter(|_| meta.kind == Kind::Data);
        let room = self.mtu.unwrap_or(usize::MAX).saturating_sub(OTHER_FIELDS_LEN);
        let announcement =
            announcement.filter(|announcement| announcement.len() <= room).map(|announcement| {
                kept[..announcement.len()].copy_from_slice(announcement);
                &kept[..announcement.len()]
            });
        let header = LpHeader { prefix_announcement: announcement, ..header };
        self.send_with(now, packet, header, queue, pool, outbox, tally);
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "those of `send` and the header")]
    fn send_with(
        &mut self,
        now: Instant,
        packet: Packet,
        mut header: LpHeader<'_>,
        queue: QueueState,
        pool: &mut Pool,
        outbox: &mut Outbox,
        tally: &mut Tally<'_>,
    ) {
        let kind = pool.meta(&packet).kind;
        if kind == Kind::Interest {
            header.receive_room_kib = self.room.to_tell(now);
        }
        if self.settings.flags.contains(FaceFlags::CONGESTION_MARKING) {
            let (threshold, interval) = (self.settings.marking_threshold, self.settings.marking_interval);
            if self.marking.is_due(now, queue, threshold, interval) {
                header.congestion_mark = header.congestion_mark.max(1);
                tally.face.out_marks += 1;
            }
        }
        if self.reliability.is_some() {
            return self.send_reliably(now, packet, header, pool, outbox, tally);
        }
        let payload_len = pool.bytes(&packet).len();
        let mark = outbox.mark();
        if !header.is_empty() {
            header.encode(payload_len, outbox.bytes_mut());
        }
        let header_len = outbox.since(mark);
        match self.mtu {
            Some(mtu) if header_len + payload_len > mtu => {
                outbox.undo(mark);
                let fragments = self.fragments(kind, &header, pool.bytes(&packet), header_len, mtu, outbox);
                pool.release(packet);
                match fragments {
                    Some(count) => {
                        tally.face.count_out(kind);
                        tally.face.out_packets += count;
                        tally.face.out_bytes += outbox.since(mark) as u64;
                    }
                    None => {
                        tally.drops(Cause::FaceMtu, 1);
                        tally.face.count_out_dropped(kind);
                    }
                }
            }
            _ => {
                outbox.finish(mark, packet, kind, pool);
                tally.face.count_out(kind);
                tally.face.out_packets += 1;
                tally.face.out_bytes += (header_len + payload_len) as u64;
            }
        }
    }

    #[inline]
    fn header(&self, kind: Kind, link: &LinkFields) -> LpHeader<'static> {
        let mut header = LpHeader {
            pit_token: link.token,
            nack: link.nack,
            congestion_mark: link.congestion_mark,
            no_cache: link.no_cache && kind == Kind::Data,
            non_discovery: link.non_discovery && kind == Kind::Interest,
            ..LpHeader::default()
        };
        match kind {
            Kind::Data => header.nack = None,
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

    /// Cuts a payload into link packets of at most `mtu` octets; gives how many, or `None` when it can't be done.
    fn fragments(
        &mut self,
        kind: Kind,
        first: &LpHeader<'_>,
        payload: &[u8],
        header_len: usize,
        mtu: usize,
        outbox: &mut Outbox,
    ) -> Option<u64> {
        let cut = Cut::new(payload.len(), header_len, mtu, 0)?;
        for (index, piece) in cut.pieces(payload) {
            let mut header = if index == 0 { *first } else { LpHeader::default() };
            header.sequence = Some(self.sequence);
            header.fragment = Some((index, cut.count));
            self.sequence = self.sequence.wrapping_add(1);
            let mark = outbox.mark();
            header.encode(piece.len(), outbox.bytes_mut());
            outbox.bytes_mut().extend_from_slice(piece);
            outbox.finish_copied(mark, (index == 0).then_some(kind));
        }
        Some(cut.count)
    }

    /// As [`send`](Self::send), on a link that is reliable: each link packet has a Sequence and a TxSequence, takes Acks along where there is room,
    /// and is kept.
    fn send_reliably(
        &mut self,
        now: Instant,
        packet: Packet,
        mut header: LpHeader<'_>,
        pool: &mut Pool,
        outbox: &mut Outbox,
        tally: &mut Tally<'_>,
    ) {
        let kind = pool.meta(&packet).kind;
        let payload = pool.bytes(&packet);
        header.sequence = Some(self.sequence);
        header.tx_sequence = Some(0);
        let mtu = self.mtu;
        let first_sequence = self.sequence;
        let before = outbox.mark();
        header.encode(payload.len(), outbox.bytes_mut());
        let header_len = outbox.since(before);
        outbox.undo(before);
        let cut = match mtu {
            Some(mtu) if header_len + payload.len() > mtu => {
                // Each fragment has room for a Sequence and a TxSequence anyway.
                Cut::new(payload.len(), header_len - SEQUENCE_LEN - ACK_LEN, mtu, ACK_LEN)
            }
            _ => Some(Cut::whole(payload.len())),
        };
        let Some(cut) = cut else {
            pool.release(packet);
            tally.drops(Cause::FaceMtu, 1);
            tally.face.count_out_dropped(kind);
            return;
        };
        for (index, piece) in cut.pieces(payload) {
            if index > 0 {
                header = LpHeader { sequence: Some(self.sequence), ..LpHeader::default() };
            }
            header.fragment = (cut.count > 1).then_some((index, cut.count));
            self.sequence = self.sequence.wrapping_add(1);
            let packet_kind = (index == 0).then_some(kind);
            self.put_reliably(now, kind, first_sequence, header, piece, packet_kind, outbox);
            if self
                .reliability
                .as_ref()
                .is_some_and(|reliability| reliability.is_shared_memory_short(piece.len()))
            {
                tally.all.shortages.record(SharedPool::SendQueues);
            }
        }
        if let Some(reliability) = &self.reliability {
            tally.face.reliability = *reliability.counters();
        }
        pool.release(packet);
        tally.face.count_out(kind);
        tally.face.out_packets += cut.count;
        tally.face.out_bytes += outbox.since(before) as u64;
    }

    #[expect(clippy::too_many_arguments, reason = "one link packet, all of it")]
    fn put_reliably(
        &mut self,
        now: Instant,
        kind: Kind,
        first_sequence: u64,
        mut header: LpHeader<'_>,
        piece: &[u8],
        packet_kind: Option<Kind>,
        outbox: &mut Outbox,
    ) {
        let Some(reliability) = &mut self.reliability else { return };
        let mark = outbox.mark();
        header.tx_sequence = reliability.next_tx_sequence(nw_wire::lp::HEADER_LEN_MAX + piece.len());
        header.encode(piece.len(), outbox.bytes_mut());
        let len = outbox.since(mark) + piece.len();
        if header.tx_sequence.is_some() {
            reliability.protect(now, kind, first_sequence, [outbox.bytes_since(mark), piece]);
        }
        // Streams have no MTU, but peers that take no more than the longest packet.
        let room = self.mtu.unwrap_or(PACKET_LEN_MAX).saturating_sub(len + LENGTHS_GROW_MAX);
        let mut acks = ArrayVec::<u64, ACKS_PER_PACKET>::new();
        reliability.take_acks(room, &mut acks);
        if !acks.is_empty() {
            outbox.undo(mark);
            LpHeader { acks: &acks, ..header }.encode(piece.len(), outbox.bytes_mut());
        }
        outbox.bytes_mut().extend_from_slice(piece);
        outbox.finish_copied(mark, packet_kind);
    }

    /// Sends again what was lost, `again_max` link packets at most, and the acknowledgements that waited for long enough.
    pub(crate) fn pump(
        &mut self,
        now: Instant,
        again_max: usize,
        outbox: &mut Outbox,
        tally: &mut Tally<'_>,
    ) {
        let Some(reliability) = &mut self.reliability else { return };
        let room = self.mtu.unwrap_or(PACKET_LEN_MAX).saturating_sub(IDLE_HEAD_LEN_MAX);
        reliability.pump(now, room, again_max, |pumped| {
            let mark = outbox.mark();
            match pumped {
                Pumped::Again(bytes) => outbox.bytes_mut().extend_from_slice(bytes),
                Pumped::Idle(acks) => {
                    LpHeader { acks, ..LpHeader::default() }.encode(0, outbox.bytes_mut());
                }
                Pumped::GivenUp(_) => return tally.drops(Cause::RetransmissionsSpent, 1),
            }
            tally.face.out_packets += 1;
            tally.face.out_bytes += outbox.since(mark) as u64;
            outbox.finish_copied(mark, None);
        });
        tally.face.reliability = *reliability.counters();
    }
}

/// How a payload is cut into link packets.
#[derive(Clone, Copy, Debug)]
struct Cut {
    room_first: usize,
    room: usize,
    count: u64,
}

impl Cut {
    const fn whole(len: usize) -> Self {
        Cut { room_first: len, room: len, count: 1 }
    }

    /// For link packets of at most `mtu` octets, when the header of a whole packet would have `header_len`. `reserved` octets of each header are
    /// for others. `None` when it can't be done.
    fn new(payload_len: usize, header_len: usize, mtu: usize, reserved: usize) -> Option<Self> {
        // Sequence 10, FragIndex and FragCount 4 each at most, heads of LpPacket and Fragment 4 each at most.
        const FRAGMENT_HEADER_MAX: usize = 26;
        let room = mtu.checked_sub(FRAGMENT_HEADER_MAX + reserved).filter(|room| *room > 0)?;
        // The first fragment carries the other headers; their length with the heads is known, the heads were counted above.
        let room_first = room.checked_sub(header_len).filter(|room| *room > 0)?;
        let rest = payload_len.saturating_sub(room_first);
        let count = 1 + rest.div_ceil(room) as u64;
        (count <= FRAG_COUNT_MAX).then_some(Cut { room_first, room, count })
    }

    /// The pieces with their indices.
    fn pieces<'a>(self, payload: &'a [u8]) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let (first, rest) = payload.split_at(self.room_first.min(payload.len()));
        let rest = rest.chunks(self.room.max(1));
        core::iter::once(first).chain(rest).enumerate().map(|(index, piece)| (index as u64, piece))
    }
}
