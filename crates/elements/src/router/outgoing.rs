//! Outgoing Interests, and how pending ones end.

use super::{Out, Router};
use crate::strategy::{Form, Forward};
use nw_element_api::{Cause, Context, Instant, Meta, Packet, Scope};
use nw_tables::pit::{EntryRef, OutRecord, TOKEN_LEN};

impl Router {
    /// Sends one Interest to one face; remembers when and with which nonce.
    #[inline(never)]
    pub(super) fn send_interest(
        &mut self,
        now: Instant,
        entry: EntryRef,
        packet: Packet,
        forward: Forward,
        context: &mut Context<'_, Out>,
    ) {
        let (bytes, meta) = context.pool.view_mut(&packet);
        let expiry = self.expiry(now, meta);
        let mut sent = self.record_sent::<false>(now, expiry, entry, forward, bytes, meta);
        if sent == Err(Cause::PitFull) && self.make_room_for_record(now, entry, &packet, context) {
            let (bytes, meta) = context.pool.view_mut(&packet);
            sent = self.record_sent::<false>(now, expiry, entry, forward, bytes, meta);
        }
        Self::leave(sent, packet, context);
    }

    /// Lets an Interest leave that was [recorded](Self::record_sent), or drops it.
    #[inline(always)]
    pub(super) fn leave(sent: Result<(), Cause>, packet: Packet, context: &mut Context<'_, Out>) {
        match sent {
            Ok(()) => context.out.send(Out::Interest, packet),
            Err(cause) => context.pool.drop_packet(packet, cause, context.drops),
        }
    }

    /// Remembers that an Interest is sent to a face, and makes its metadata say so; or why it can't be. `NEW` where the entry was made for it and nothing
    /// was sent yet.
    #[inline(always)]
    pub(super) fn record_sent<const NEW: bool>(
        &mut self,
        now: Instant,
        expiry: Instant,
        entry: EntryRef,
        forward: Forward,
        bytes: &[u8],
        meta: &mut Meta,
    ) -> Result<(), Cause> {
        let face = self.faces.info(forward.face).ok_or(Cause::FaceGone)?;
        let hop_limit_start = usize::from(meta.hop_limit_start);
        // "HopLimit 0 and non-local: drop."
        if hop_limit_start != 0 && face.scope == Scope::NonLocal && bytes[hop_limit_start] == 0 {
            return Err(Cause::HopLimitSpent);
        }
        let record = OutRecord {
            face: forward.face,
            nonce: meta.nonce,
            sent: now,
            expiry,
            nack: None,
            retx_interval_ms: forward.retx_interval_ms,
        };
        if NEW {
            self.pit.add_first_out(entry, &record);
        } else if self.pit.upsert_out(entry, record).is_err() {
            return Err(Cause::PitFull);
        }
        // "Upstream tokens are exactly 6 octets."
        let known = self.knows_tokens.get(forward.face.slot()).copied().unwrap_or(false);
        let (token, token_len) = match self.upstream_tokens && known {
            true => (entry.token_padded(), TOKEN_LEN as u8),
            false => ([0; 8], 0),
        };
        meta.egress = forward.face;
        let (congestion_mark, non_discovery) = (meta.link.congestion_mark, meta.link.non_discovery);
        meta.link.clear();
        meta.link.token.set_short(token, token_len);
        meta.link.congestion_mark = congestion_mark;
        meta.link.incoming_face = meta.ingress;
        meta.link.non_discovery = non_discovery || forward.form == Form::NonDiscovery;
        Ok(())
    }

    /// "Finalize: Dead Nonce List insert of all out-record nonces if unsatisfied; counters; PIT erase."
    pub(super) fn finish_unsatisfied(&mut self, now: Instant, entry: EntryRef) {
        if self.pit.satisfied(entry).is_some() {
            return self.finish_lingering(now, entry);
        }
        self.bury_nonces(now, entry);
        self.counters.unsatisfied += 1;
        self.pit.remove(entry);
    }

    /// As above for an entry that Data has answered. Its nonces are remembered whatever became of the Data: a content store that holds it answers copies before
    /// they come here, and what comes here has no answer there, be it that none was kept, that it is no longer fresh, or that it was erased or pushed out.
    pub(super) fn finish_satisfied(&mut self, now: Instant, entry: EntryRef) {
        self.bury_nonces_of_answered(now, entry);
        self.counters.satisfied += 1;
        self.pit.remove(entry);
    }

    pub(super) fn bury_nonces_of_answered(&mut self, now: Instant, entry: EntryRef) {
        let hash = self.pit.name_hash(entry);
        for record in self.pit.out_records(entry) {
            self.dead_nonces.insert_answered(now, hash, record.nonce);
        }
    }

    fn bury_nonces(&mut self, now: Instant, entry: EntryRef) {
        let hash = self.pit.name_hash(entry);
        for record in self.pit.out_records(entry) {
            self.dead_nonces.insert(now, hash, record.nonce);
        }
    }
}
