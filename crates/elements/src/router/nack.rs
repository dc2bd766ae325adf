//! Incoming and outgoing Nacks.

use super::{NOWHERE, Out, Router};
use crate::scope::NameScope;
use crate::strategy::{Eligibility, Event, Lesson, Nacks, Strategies, StrategyContext, is_pending};
use nw_element_api::decode::decode;
use nw_element_api::{Cause, Context, FaceId, Instant, LinkFields, LinkType, Packet, Scope};
use nw_tables::Ask;
use nw_tables::pit::{EntryRef, InRecord};
use nw_wire::NackReason;

impl Router {
    pub(super) fn nack(&mut self, now: Instant, packet: Packet, context: &mut Context<'_, Out>) {
        let ingress = context.pool.meta(&packet).ingress;
        let cause = match self.faces.info(ingress) {
            None => Cause::FaceGone,
            // "Pt2pt faces only": on another link it would refuse for all who listen.
            Some(face) if face.link_type != LinkType::PointToPoint => Cause::NackOnMultiAccess,
            Some(_) => match self.refused_entry(&packet, context) {
                None => Cause::UnsolicitedNack,
                Some(entry) => {
                    if self.refused(now, entry, &packet, context) == Lesson::Forget {
                        return context.out.send(Out::Lesson, packet);
                    }
                    Cause::NackConsumed
                }
            },
        };
        context.pool.drop_packet(packet, cause, context.drops);
    }

    /// "Needs PIT entry, out-record on that face and same nonce, else drop."
    fn refused_entry(&self, packet: &Packet, context: &Context<'_, Out>) -> Option<EntryRef> {
        let (bytes, meta) = (context.pool.bytes(packet), context.pool.meta(packet));
        let ask = Ask {
            name: meta.name_in(bytes),
            prefixes: &meta.prefixes,
            can_be_prefix: meta.can_be_prefix,
            must_be_fresh: meta.must_be_fresh,
        };
        let entry = self.pit.find(&ask)?;
        let record = self.pit.out_record(entry, meta.ingress)?;
        (record.nonce == meta.nonce).then_some(entry)
    }

    fn refused(
        &mut self,
        now: Instant,
        entry: EntryRef,
        packet: &Packet,
        context: &mut Context<'_, Out>,
    ) -> Lesson {
        let (bytes, meta) = (context.pool.bytes(packet), context.pool.meta(packet));
        let (ingress, reason) = (meta.ingress, meta.link.nack.unwrap_or(NackReason::None));
        self.pit.update_out(entry, ingress, |record| record.nack = Some(reason));

        let name = meta.name_in(bytes);
        let (strategy, next_hops, route_len) =
            self.fib.lookup(name, &meta.prefixes).map_or((Strategies::DEFAULT, NOWHERE, 0), |route| {
                (route.strategy, route.next_hops, route.prefix_len as u8)
            });
        let instance = *self.strategies.strategy(strategy);
        // Who tries again does so for the sake of an asker.
        let asker = self.first_asker(now, entry).filter(|_| instance.retries_after_nack());
        let (next_hops, downstream) = asker.map_or((NOWHERE, ingress), |asker| (next_hops, asker));
        let local = self.faces.info(downstream).is_some_and(|info| info.scope == Scope::Local);
        let eligibility = Eligibility::new(&self.faces, downstream, local, NameScope::of(name));
        let event = Event { now, entry, ingress, next_hops, eligibility, meta, bytes, route_len, strategy };
        let mut event =
            StrategyContext::new(event, &mut self.pit, &mut self.strategy_state, &mut self.decisions);
        instance.after_nack(&mut event);
        let lesson = self.decisions.extras.lesson;

        if let Some(asker) = asker {
            self.send_decided(now, entry, asker, context);
        }
        match self.decisions.nacks {
            Nacks::Nobody => {}
            Nacks::One(face, reason) => {
                if let Some(record) = self.pit.in_record(entry, face) {
                    self.send_nack(entry, record, reason, context);
                    self.pit.remove_in(entry, face);
                }
            }
            Nacks::All(reason) => self.send_nacks(entry, reason, context),
        }
        // "If no out-record still pending: timer 0."
        if !self.pit.out_records(entry).any(|record| is_pending(&record, now)) {
            self.finish_unsatisfied(now, entry);
        }
        lesson
    }

    pub(super) fn send_nacks(&mut self, entry: EntryRef, reason: NackReason, context: &mut Context<'_, Out>) {
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

    /// "Needs in-record, pt2pt face; carries that in-record's Interest": the entry's copy with the nonce of that downstream.
    pub(super) fn send_nack(
        &self,
        entry: EntryRef,
        record: InRecord,
        reason: NackReason,
        context: &mut Context<'_, Out>,
    ) {
        if !self.faces.info(record.face).is_some_and(|face| face.link_type == LinkType::PointToPoint) {
            return;
        }
        let Some(packet) = context.pool.copy_of(self.pit.interest(entry)) else {
            return context.drops.count(Cause::NoBuffer);
        };
        let link = LinkFields { token: record.token, nack: Some(reason), ..LinkFields::default() };
        context.pool.meta_mut(&packet).link = link;
        if let Err(error) = decode(context.pool, &packet) {
            // It was checked when it came; a copy can't be worse.
            debug_assert!(false, "the table's copy of an Interest is broken: {error}");
            return context.pool.drop_packet(
                packet,
                nw_element_api::DropReason::Malformed(error.fault),
                context.drops,
            );
        }
        let nonce_start = usize::from(self.pit.nonce_start(entry));
        context.pool.bytes_mut(&packet)[nonce_start..nonce_start + 4]
            .copy_from_slice(&record.nonce.to_be_bytes());
        let meta = context.pool.meta_mut(&packet);
        meta.nonce = record.nonce;
        meta.ingress = FaceId::NONE;
        meta.egress = record.face;
        context.out.send(Out::Nack, packet);
    }

    /// Makes an Interest the Nack that answers it.
    pub(super) fn send_back(&mut self, packet: Packet, reason: NackReason, context: &mut Context<'_, Out>) {
        let meta = context.pool.meta_mut(&packet);
        meta.kind = nw_element_api::Kind::Nack;
        meta.egress = meta.ingress;
        meta.link = LinkFields { token: meta.link.token, nack: Some(reason), ..LinkFields::default() };
        context.out.send(Out::Nack, packet);
    }
}
