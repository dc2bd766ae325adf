//! Outgoing Interests, and the end of pending ones.

use super::{Out, Router};
use crate::strategy::{Forward, SendAs};
use nw_element_api::{Context, DropCause, Meta, Packet, Scope, Timestamp};
use nw_tables::pit::{EntryRef, OutRecord, TOKEN_LEN};

impl Router {
    /// Sends an Interest to a face and records when and with which nonce.
    #[inline(never)]
    pub(super) fn send_interest(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        packet: Packet,
        forward: Forward,
        context: &mut Context<'_, Out>,
    ) {
        let (bytes, meta) = context.pool.view_mut(&packet);
        let expiry = self.expiry(now, meta);
        let mut sent = self.record_sent::<false>(now, expiry, entry, forward, bytes, meta);
        if sent == Err(DropCause::PitFull) && self.evict_for_record(now, entry, &packet, context) {
            let (bytes, meta) = context.pool.view_mut(&packet);
            sent = self.record_sent::<false>(now, expiry, entry, forward, bytes, meta);
        }
        Self::emit(sent, packet, context);
    }

    /// Emits an Interest that was [recorded](Self::record_sent), or drops it.
    #[inline(always)]
    pub(super) fn emit(
        sent: Result<(), DropCause>,
        packet: Packet,
        context: &mut Context<'_, Out>,
    ) {
        match sent {
            Ok(()) => context.out.send(Out::Interest, packet),
            Err(cause) => context.pool.drop_packet(packet, cause, context.drops),
        }
    }

    /// Adds the out-record for an Interest and sets its metadata for sending, or returns why it
    /// can't be sent. `NEW`: the entry was just inserted and has no out-record yet.
    #[inline(always)]
    pub(super) fn record_sent<const NEW: bool>(
        &mut self,
        now: Timestamp,
        expiry: Timestamp,
        entry: EntryRef,
        forward: Forward,
        bytes: &[u8],
        meta: &mut Meta,
    ) -> Result<(), DropCause> {
        let face = self.faces.info(forward.face).ok_or(DropCause::FaceGone)?;
        let hop_limit_start = usize::from(meta.hop_limit_start);
        // "HopLimit 0 and non-local: drop."
        if hop_limit_start != 0 && face.scope == Scope::NonLocal && bytes[hop_limit_start] == 0 {
            return Err(DropCause::HopLimitSpent);
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
            return Err(DropCause::PitFull);
        }
        // "Upstream tokens are exactly 6 bytes."
        let known = self.peer_takes_tokens.get(forward.face.slot()).copied().unwrap_or(false);
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
        meta.link.non_discovery = non_discovery || forward.send_as == SendAs::NonDiscovery;
        Ok(())
    }

    /// "Finalize: Dead Nonce List insert of all out-record nonces if unsatisfied; counters; PIT
    /// erase."
    pub(super) fn finish_unsatisfied(&mut self, now: Timestamp, entry: EntryRef) {
        if self.pit.satisfied(entry).is_some() {
            return self.finish_held(now, entry);
        }
        self.record_dead_nonces(now, entry);
        self.counters.unsatisfied += 1;
        self.pit.remove(entry);
    }

    /// As [`finish_unsatisfied`](Self::finish_unsatisfied), for an entry satisfied by Data. Its
    /// nonces are always recorded: a copy of the Interest that loops back later is either answered
    /// by the content store, or must be recognised here.
    pub(super) fn finish_satisfied(&mut self, now: Timestamp, entry: EntryRef) {
        self.record_dead_nonces_of_satisfied(now, entry);
        self.counters.satisfied += 1;
        self.pit.remove(entry);
    }

    /// Adds the nonces of a satisfied entry's out-records to the dead nonce list.
    pub(super) fn record_dead_nonces_of_satisfied(&mut self, now: Timestamp, entry: EntryRef) {
        let hash = self.pit.name_hash(entry);
        for record in self.pit.out_records(entry) {
            self.dead_nonces.insert_satisfied(now, hash, record.nonce);
        }
    }

    /// Adds the nonces of an unsatisfied entry's out-records to the dead nonce list.
    fn record_dead_nonces(&mut self, now: Timestamp, entry: EntryRef) {
        let hash = self.pit.name_hash(entry);
        for record in self.pit.out_records(entry) {
            self.dead_nonces.insert(now, hash, record.nonce);
        }
    }
}
