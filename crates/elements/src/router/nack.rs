//! Incoming and outgoing Nacks.

use super::{Out, Router};
use crate::interest_key::interest_key;
use crate::strategy::{Nacks, RouteEvent, Trigger, is_pending};
use nw_element_api::{Context, DropCause, FaceId, Kind, LinkFields, LinkType, Packet, Timestamp};
use nw_tables::pit::{EntryRef, InRecord};
use nw_wire::NackReason;

impl Router {
    /// Handles an incoming Nack: the strategy decides whether to try another next hop, to pass the
    /// Nack on, or to wait for other next hops.
    pub(super) fn nack(&mut self, now: Timestamp, packet: Packet, context: &mut Context<'_, Out>) {
        let ingress = context.pool.meta(&packet).ingress;
        let cause = match self.faces.info(ingress) {
            None => DropCause::FaceGone,
            // "Pt2pt faces only": on another link it would speak for all peers.
            Some(face) if face.link_type != LinkType::PointToPoint => DropCause::NackOnMultiAccess,
            Some(_) => match self.nacked_entry(&packet, context) {
                None => DropCause::UnsolicitedNack,
                Some(entry) => {
                    if self.strategy_after_nack(now, entry, &packet, context)
                        == RouteEvent::Withdraw
                    {
                        return context.out.send(Out::RouteEvent, packet);
                    }
                    DropCause::NackConsumed
                }
            },
        };
        context.pool.drop_packet(packet, cause, context.drops);
    }

    /// "Needs PIT entry, out-record on that face and same nonce, else drop."
    fn nacked_entry(&self, packet: &Packet, context: &Context<'_, Out>) -> Option<EntryRef> {
        let (bytes, meta) = context.pool.view(packet);
        let entry = self.pit.find(&interest_key(meta, bytes))?;
        let record = self.pit.out_record(entry, meta.ingress)?;
        (record.nonce == meta.nonce).then_some(entry)
    }

    /// Records the Nack, calls the strategy and carries out its decisions. Ends the entry if no
    /// next hop can still answer.
    fn strategy_after_nack(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        packet: &Packet,
        context: &mut Context<'_, Out>,
    ) -> RouteEvent {
        let (bytes, meta) = context.pool.view(packet);
        let reason = meta.link.nack.unwrap_or(NackReason::None);
        // On a Nack, the mark is the pause that the upstream asks for.
        let mark = meta.link.congestion_mark;
        self.pit.update_out(entry, meta.ingress, |record| record.nack = Some(reason));
        // A retry is sent on behalf of a downstream that is still waiting.
        let downstream = self.first_downstream(now, entry);
        self.call_strategy(now, entry, Trigger::Nack { downstream }, bytes, meta);
        let route_event = self.decisions.extras.route_event;

        if let Some(downstream) = downstream {
            self.send_forwards(now, entry, downstream, context);
        }
        match self.decisions.nacks {
            Nacks::None => {}
            Nacks::One(face, reason) => {
                if let Some(record) = self.pit.in_record(entry, face) {
                    self.send_nack(entry, record, (reason, mark), context);
                    self.pit.remove_in(entry, face);
                }
            }
            Nacks::All(reason) => self.send_nacks(entry, (reason, mark), context),
        }
        // "If no out-record still pending: timer 0."
        if !self.pit.out_records(entry).any(|record| is_pending(&record, now)) {
            self.finish_unsatisfied(now, entry);
        }
        route_event
    }

    /// Sends a Nack with a reason and a congestion mark (0: none) to every downstream and removes
    /// their in-records.
    pub(super) fn send_nacks(
        &mut self,
        entry: EntryRef,
        reason: (NackReason, u64),
        context: &mut Context<'_, Out>,
    ) {
        let mut downstreams = core::mem::take(&mut self.downstreams);
        downstreams.clear();
        downstreams.extend(self.pit.in_records(entry).map(|record| (record.face, record.token)));
        for (face, _) in &downstreams {
            if let Some(record) = self.pit.in_record(entry, *face) {
                self.send_nack(entry, record, reason, context);
                self.pit.remove_in(entry, *face);
            }
        }
        self.downstreams = downstreams;
    }

    /// "Needs in-record, pt2pt face; carries that in-record's Interest": the PIT's copy with the
    /// nonce of that downstream.
    pub(super) fn send_nack(
        &self,
        entry: EntryRef,
        record: InRecord,
        (reason, congestion_mark): (NackReason, u64),
        context: &mut Context<'_, Out>,
    ) {
        if !self
            .faces
            .info(record.face)
            .is_some_and(|face| face.link_type == LinkType::PointToPoint)
        {
            return;
        }
        let link = LinkFields {
            token: record.token,
            nack: Some(reason),
            congestion_mark,
            ..LinkFields::default()
        };
        let Some(packet) = self.copy_interest_with(entry, link, context) else { return };
        let nonce_start = usize::from(self.pit.nonce_start(entry));
        context.pool.bytes_mut(&packet)[nonce_start..nonce_start + 4]
            .copy_from_slice(&record.nonce.to_be_bytes());
        let meta = context.pool.meta_mut(&packet);
        meta.nonce = record.nonce;
        meta.ingress = FaceId::NONE;
        meta.egress = record.face;
        context.out.send(Out::Nack, packet);
    }

    /// Turns an Interest into the Nack that answers it, and sends it back.
    pub(super) fn return_as_nack(
        &mut self,
        packet: Packet,
        reason: NackReason,
        context: &mut Context<'_, Out>,
    ) {
        let meta = context.pool.meta_mut(&packet);
        meta.kind = Kind::Nack;
        meta.egress = meta.ingress;
        meta.link =
            LinkFields { token: meta.link.token, nack: Some(reason), ..LinkFields::default() };
        context.out.send(Out::Nack, packet);
    }
}
