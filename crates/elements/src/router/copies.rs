//! Packets made from the PIT's copy of a pending Interest: probes, retries, Nacks.

use super::{Out, Router};
use crate::strategy::{Forward, SendAs};
use nw_element_api::decode::decode;
use nw_element_api::{Context, DropCause, DropReason, FaceId, LinkFields, Packet, Timestamp};
use nw_tables::pit::EntryRef;

impl Router {
    /// Returns the first face whose in-record has not expired.
    pub(super) fn first_downstream(&self, now: Timestamp, entry: EntryRef) -> Option<FaceId> {
        self.pit.in_records(entry).find(|record| record.expiry > now).map(|record| record.face)
    }

    /// Sends a copy of the pending Interest for each forward decision of a strategy event that had
    /// no incoming Interest (Nack, timer).
    pub(super) fn send_forwards(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        downstream: FaceId,
        context: &mut Context<'_, Out>,
    ) {
        for at in 0..self.decisions.forwards.len() {
            let forward = self.decisions.forwards[at];
            self.send_pending_copy(now, entry, downstream, forward, context);
        }
    }

    /// Sends a copy of the pending Interest on behalf of one downstream. A probe gets its own
    /// nonce.
    #[cold]
    pub(super) fn send_pending_copy(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        downstream: FaceId,
        forward: Forward,
        context: &mut Context<'_, Out>,
    ) {
        let Some(packet) = self.copy_interest(entry, context) else { return };
        context.pool.meta_mut(&packet).ingress = downstream;
        if forward.send_as == SendAs::Probe {
            let nonce = self.strategy_state.random.next_u64() as u32;
            let start = usize::from(context.pool.meta(&packet).nonce_start);
            // The packet dispatcher adds a nonce to Interests without one, so there nearly always
            // is.
            if start != 0 {
                context.pool.bytes_mut(&packet)[start..start + 4]
                    .copy_from_slice(&nonce.to_be_bytes());
                context.pool.meta_mut(&packet).nonce = nonce;
            }
        }
        self.send_interest(now, entry, packet, forward, context);
    }

    /// Returns a decoded copy of the pending Interest. `None` if no buffer is free, which is
    /// counted.
    pub(super) fn copy_interest(
        &self,
        entry: EntryRef,
        context: &mut Context<'_, Out>,
    ) -> Option<Packet> {
        self.copy_interest_with(entry, LinkFields::default(), context)
    }

    /// As [`copy_interest`](Self::copy_interest), with link fields: a Nack reason there makes it a
    /// Nack.
    pub(super) fn copy_interest_with(
        &self,
        entry: EntryRef,
        link: LinkFields,
        context: &mut Context<'_, Out>,
    ) -> Option<Packet> {
        let Some(packet) = context.pool.copy_of(self.pit.interest(entry)) else {
            context.drops.count(DropCause::NoBuffer);
            return None;
        };
        context.pool.meta_mut(&packet).link = link;
        if let Err(error) = decode(context.pool, &packet) {
            // The Interest was checked when it arrived.
            debug_assert!(false, "the PIT's copy of an Interest is malformed: {error}");
            context.pool.drop_packet(packet, DropReason::Malformed(error.fault), context.drops);
            return None;
        }
        Some(packet)
    }
}
