//! Calls of the strategy, and what follows from events that only some strategies use: Data, timers,
//! late Data.

use super::{NO_NEXT_HOPS, Out, Router};
use crate::forwarding_hint;
use crate::scope::NameScope;
use crate::strategy::{
    Eligibility, Event, StrategyContext, StrategyExtras, StrategyRoute, Trigger, WANTS_TIMER,
    is_pending,
};
use nw_element_api::{Context, FaceId, Meta, Packet, Scope, Timestamp};
use nw_name::PrefixHashes;
use nw_tables::pit::EntryRef;

impl Router {
    /// Finds the strategy of a pending Interest and calls it. Its decisions are in `self.decisions`
    /// until the next call.
    ///
    /// `meta` and `bytes` are those of the packet that arrived; for a timer, those of the PIT's
    /// copy of the Interest.
    #[inline(always)]
    pub(super) fn call_strategy(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        trigger: Trigger,
        bytes: &[u8],
        meta: &Meta,
    ) {
        let name = meta.name_in(bytes);
        let (route, scope) = match trigger {
            Trigger::Interest => {
                let found = self.fib.lookup(name, &meta.prefixes);
                let mut route = StrategyRoute::from(found);
                if meta.forwarding_hint.is_some() {
                    // The hint selects the next hops; the strategy is still that of the name.
                    let hints = forwarding_hint::names(meta, bytes);
                    route.next_hops = forwarding_hint::next_hops(&self.fib, &self.key, hints);
                }
                (route, self.scopes.of(|| name, &meta.prefixes))
            }
            Trigger::Data => {
                // The Interest's name may be a prefix of the Data's, or end with an implicit
                // digest.
                let name = self.pit.name(entry);
                let is_other = name.as_bytes().len() != usize::from(meta.name.len);
                let prefixes = is_other.then(|| PrefixHashes::of(&self.key, name));
                let found = self.fib.lookup(name, prefixes.as_ref().unwrap_or(&meta.prefixes));
                let route = StrategyRoute { next_hops: NO_NEXT_HOPS, ..StrategyRoute::from(found) };
                (route, NameScope::of(name))
            }
            Trigger::Nack { .. } | Trigger::Timer { .. } => {
                let found = self.fib.lookup(name, &meta.prefixes);
                (StrategyRoute::from(found), NameScope::of(name))
            }
        };
        let strategy = self.strategies.strategy(route.strategy);
        let (downstream, downstream_local) = self.find_downstream(trigger, meta);
        let next_hops = match trigger {
            Trigger::Nack { downstream }
                if downstream.is_none() || !strategy.retries_after_nack() =>
            {
                NO_NEXT_HOPS
            }
            _ => route.next_hops,
        };
        let event = Event {
            now,
            entry,
            ingress: if let Trigger::Timer { downstream } = trigger {
                downstream
            } else {
                meta.ingress
            },
            next_hops,
            eligibility: Eligibility::new(&self.faces, downstream, downstream_local, scope),
            meta,
            bytes,
            route_len: route.prefix_len,
            strategy: route.strategy,
        };
        let context = StrategyContext::new(
            event,
            &mut self.pit,
            &mut self.strategy_state,
            &mut self.decisions,
        );
        trigger.call(strategy, context);
    }

    /// Returns the face on behalf of which the strategy forwards, and whether it is local.
    #[inline(always)]
    fn find_downstream(&self, trigger: Trigger, meta: &Meta) -> (FaceId, bool) {
        let is_local =
            |face: FaceId| self.faces.info(face).is_some_and(|info| info.scope == Scope::Local);
        match trigger {
            Trigger::Interest | Trigger::Data => (meta.ingress, meta.ingress_local),
            Trigger::Nack { downstream } => {
                let downstream = downstream.unwrap_or(meta.ingress);
                (downstream, is_local(downstream))
            }
            Trigger::Timer { downstream } => (downstream, is_local(downstream)),
        }
    }

    /// Calls the strategy for Data that satisfies a pending Interest. Returns what it decided
    /// besides forwarding.
    #[cold]
    pub(super) fn strategy_after_data(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        packet: &Packet,
        context: &Context<'_, Out>,
    ) -> StrategyExtras {
        let (bytes, meta) = context.pool.view(packet);
        self.call_strategy(now, entry, Trigger::Data, bytes, meta);
        self.decisions.extras
    }

    /// Keeps a satisfied entry for up to `hold_ms`, while other next hops it was sent to may still
    /// answer, so that their round-trip times are measured. Ends it if there are none.
    #[cold]
    pub(super) fn hold_for_late_data(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        ingress: FaceId,
        freshness_ms: u32,
        hold_ms: u16,
    ) {
        let was_satisfied = self.pit.satisfied(entry).is_some();
        let others =
            self.pit.out_records(entry).filter(|r| r.face != ingress && is_pending(r, now));
        let Some(last_expiry) = others.map(|record| record.expiry).max() else {
            return match was_satisfied {
                true => self.finish_held(now, entry),
                false => self.finish_satisfied(now, entry),
            };
        };
        self.record_dead_nonces_of_satisfied(now, entry);
        self.counters.satisfied += u64::from(!was_satisfied);
        while let Some(record) = self.pit.in_records(entry).next() {
            self.pit.remove_in(entry, record.face);
        }
        self.pit.remove_out(entry, ingress);
        let until = now.plus_millis(u64::from(hold_ms)).min(last_expiry);
        if !was_satisfied {
            self.pit.set_expiry(entry, until);
        }
        self.pit.set_satisfied(entry, Some(freshness_ms));
    }

    /// Ends an entry that was satisfied, counted and then held for late Data.
    #[cold]
    pub(super) fn finish_held(&mut self, now: Timestamp, entry: EntryRef) {
        self.record_dead_nonces_of_satisfied(now, entry);
        self.pit.remove(entry);
    }

    /// Moves the entry's expiry forward to the timer that the strategy asked for.
    #[cold]
    pub(super) fn set_strategy_timer(&mut self, now: Timestamp, entry: EntryRef) {
        let timer = now.plus_millis(u64::from(self.decisions.extras.timer_ms));
        let expiry = self.pit.expiry(entry).unwrap_or(timer);
        self.pit.set_expiry(entry, timer.min(expiry));
    }

    /// Handles the expiry of an entry with a strategy timer: calls the strategy if the Interest is
    /// still pending, or else ends the entry.
    #[cold]
    pub(super) fn strategy_on_timer(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        context: &mut Context<'_, Out>,
    ) {
        let bits = self.pit.strategy_bits(entry);
        self.pit.set_strategy_bits(entry, bits & !WANTS_TIMER);
        let latest = self.pit.in_records(entry).map(|record| record.expiry).max();
        let (Some(latest), Some(downstream)) =
            (latest.filter(|expiry| *expiry > now), self.first_downstream(now, entry))
        else {
            return self.finish_unsatisfied(now, entry);
        };
        self.pit.set_expiry(entry, latest);
        // The strategy reads name and hashes from a packet, so the PIT's copy is decoded.
        let Some(packet) = self.copy_interest(entry, context) else { return };
        let (bytes, meta) = context.pool.view(&packet);
        self.call_strategy(now, entry, Trigger::Timer { downstream }, bytes, meta);
        context.pool.release(packet);
        self.send_forwards(now, entry, downstream, context);
        if self.decisions.extras.timer_ms != 0 {
            self.set_strategy_timer(now, entry);
        }
    }
}
