//! Network packets to link packets: bare where no header is needed, in fragments where the MTU asks for it.

use super::{LinkService, Tally};
use crate::outbox::Outbox;
use crate::status::FaceFlags;
use nw_element::{
    ANNOUNCEMENT_LEN_MAX, Cause, FaceId, Instant, Kind, LinkFields, Packet, Pool, Ticket,
};
use nw_wire::lp::{FRAG_COUNT_MAX, LpHeader, NackReason};

/// Octets of a link packet that are left to other fields and a piece of the payload where a prefix announcement goes with it.
const OTHER_FIELDS_LEN: usize = 256;

impl LinkService {
    /// Puts one packet, with its link fields, into the outbox; or drops and counts it. `queue_bytes` is what waits for the socket already.
    #[inline]
    pub(crate) fn send(
        &mut self,
        now: Instant,
        packet: Packet,
        queue_bytes: usize,
        pool: &mut Pool,
        outbox: &mut Outbox,
        tally: &mut Tally<'_>,
    ) {
        let meta = pool.meta(&packet);
        let header = self.header(meta.kind, &meta.link);
        if meta.link.announcement != Ticket::NONE {
            return self.send_announced(now, packet, header, queue_bytes, pool, outbox, tally);
        }
        self.send_with(now, packet, header, queue_bytes, pool, outbox, tally);
    }

    /// As [`send`](Self::send), with a prefix announcement where there is room for it.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "those of `send` and the header")]
    fn send_announced(
        &mut self,
        now: Instant,
        packet: Packet,
        mut header: LpHeader<'_>,
        queue_bytes: usize,
        pool: &mut Pool,
        outbox: &mut Outbox,
        tally: &mut Tally<'_>,
    ) {
        let meta = pool.meta(&packet);
        let mut kept = [0; ANNOUNCEMENT_LEN_MAX];
        let announcement = pool.announcement(meta.link.announcement).filter(|_| meta.kind == Kind::Data);
        let room = self.settings.mtu.unwrap_or(usize::MAX).saturating_sub(OTHER_FIELDS_LEN);
        if let Some(announcement) = announcement.filter(|announcement| announcement.len() <= room) {
            kept[..announcement.len()].copy_from_slice(announcement);
            header.prefix_announcement = Some(&kept[..announcement.len()]);
        }
        self.send_with(now, packet, header, queue_bytes, pool, outbox, tally);
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "those of `send` and the header")]
    fn send_with(
        &mut self,
        now: Instant,
        packet: Packet,
        mut header: LpHeader<'_>,
        queue_bytes: usize,
        pool: &mut Pool,
        outbox: &mut Outbox,
        tally: &mut Tally<'_>,
    ) {
        let kind = pool.meta(&packet).kind;
        if self.settings.flags.contains(FaceFlags::CONGESTION_MARKING) {
            let (threshold, interval) = (self.settings.marking_threshold, self.settings.marking_interval);
            if self.marking.is_due(now, queue_bytes as u64, threshold, interval) {
                header.congestion_mark = header.congestion_mark.max(1);
                tally.face.out_marks += 1;
            }
        }
        let payload_len = pool.bytes(&packet).len();
        let mark = outbox.mark();
        if !header.is_empty() {
            header.encode(payload_len, outbox.bytes_mut());
        }
        let header_len = outbox.since(mark);
        match self.settings.mtu {
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
        // Sequence 10, FragIndex and FragCount 4 each at most, heads of LpPacket and Fragment 4 each at most.
        const FRAGMENT_HEADER_MAX: usize = 26;
        let room = mtu.checked_sub(FRAGMENT_HEADER_MAX).filter(|room| *room > 0)?;
        // The first fragment carries the other headers; their length with the heads is known, the heads were counted above.
        let room_first = room.checked_sub(header_len).filter(|room| *room > 0)?;
        let rest = payload.len().saturating_sub(room_first);
        let count = 1 + rest.div_ceil(room) as u64;
        if count > FRAG_COUNT_MAX {
            return None;
        }
        let mut at = 0;
        for index in 0..count {
            let len = if index == 0 { room_first } else { room }.min(payload.len() - at);
            let mut header = if index == 0 { *first } else { LpHeader::default() };
            header.sequence = Some(self.sequence);
            header.fragment = Some((index, count));
            self.sequence = self.sequence.wrapping_add(1);
            let mark = outbox.mark();
            header.encode(len, outbox.bytes_mut());
            outbox.bytes_mut().extend_from_slice(&payload[at..at + len]);
            outbox.finish_copied(mark, (index == 0).then_some(kind));
            at += len;
        }
        Some(count)
    }
}
