//! What few strategies ask for: copies of a pending Interest, waking, lingering, announcements.

use super::data::send_data;
use super::{NOWHERE, Out, Router};
use crate::scope::NameScope;
use crate::strategy::{
    Eligibility, Event, Extras, Form, Forward, Lesson, Strategies, StrategyContext, WANTS_WAKING, is_pending,
};
use nw_element_api::decode::decode;
use nw_element_api::{Cause, Context, DropReason, FaceId, Instant, Packet, Scope, Ticket};
use nw_name::{Name, NameRef, Prefixes};
use nw_tables::pit::EntryRef;
use nw_wire::Token;
use std::collections::BTreeMap;

impl Router {
    /// Shows a strategy the Data that answers.
    #[cold]
    pub(super) fn tell_strategy(
        &mut self,
        now: Instant,
        entry: EntryRef,
        packet: &Packet,
        context: &Context<'_, Out>,
    ) -> Extras {
        let (bytes, meta) = (context.pool.bytes(packet), context.pool.meta(packet));
        let name = self.pit.name(entry);
        // An Interest may ask for a prefix, or for a digest.
        let asked =
            (name.as_bytes().len() != usize::from(meta.name.1)).then(|| Prefixes::of(&self.key, name));
        let route = self.fib.lookup(name, asked.as_ref().unwrap_or(&meta.prefixes));
        let Some(route) = route else { return Extras::default() };
        let (strategy, route_len) = (route.strategy, route.prefix_len as u8);
        let (ingress, scope) = (meta.ingress, NameScope::of(name));
        let eligibility = Eligibility::new(&self.faces, ingress, meta.ingress_local, scope);
        let next_hops = NOWHERE;
        let event = Event { now, entry, ingress, next_hops, eligibility, meta, bytes, route_len, strategy };
        let instance = *self.strategies.strategy(strategy);
        let mut event =
            StrategyContext::new(event, &mut self.pit, &mut self.strategy_state, &mut self.decisions);
        instance.after_data(&mut event);
        self.decisions.extras
    }

    /// Keeps an entry that was answered while next hops that were asked too may still answer; ends it if there are none.
    #[cold]
    pub(super) fn linger(
        &mut self,
        now: Instant,
        entry: EntryRef,
        ingress: FaceId,
        freshness_ms: u32,
        linger_ms: u16,
    ) {
        let was_satisfied = self.pit.satisfied(entry).is_some();
        let others = self.pit.out_records(entry).filter(|r| r.face != ingress && is_pending(r, now));
        let Some(last) = others.map(|record| record.expiry).max() else {
            return match was_satisfied {
                true => self.finish_lingering(now, entry),
                false => self.finish_satisfied(now, entry),
            };
        };
        self.bury_nonces_of_answered(now, entry);
        self.counters.satisfied += u64::from(!was_satisfied);
        while let Some(record) = self.pit.in_records(entry).next() {
            self.pit.remove_in(entry, record.face);
        }
        self.pit.remove_out(entry, ingress);
        let until = now.plus_millis(u64::from(linger_ms)).min(last);
        if !was_satisfied {
            self.pit.set_expiry(entry, until);
        }
        self.pit.set_satisfied(entry, Some(freshness_ms));
    }

    /// Ends an entry that was answered, and counted, some time ago.
    #[cold]
    pub(super) fn finish_lingering(&mut self, now: Instant, entry: EntryRef) {
        self.bury_nonces_of_answered(now, entry);
        self.pit.remove(entry);
    }

    /// Lets the entry's timer come early.
    #[cold]
    pub(super) fn set_waking(&mut self, now: Instant, entry: EntryRef) {
        let waking = now.plus_millis(u64::from(self.decisions.extras.wake_ms));
        let expiry = self.pit.expiry(entry).unwrap_or(waking);
        self.pit.set_expiry(entry, waking.min(expiry));
    }

    /// An entry's timer has come, which may be the strategy's: wakes it, or ends the entry.
    #[cold]
    pub(super) fn wake_strategy(&mut self, now: Instant, entry: EntryRef, context: &mut Context<'_, Out>) {
        let bits = self.pit.strategy_bits(entry);
        self.pit.set_strategy_bits(entry, bits & !WANTS_WAKING);
        let latest = self.pit.in_records(entry).map(|record| record.expiry).max();
        let (Some(latest), Some(asker)) = (latest.filter(|at| *at > now), self.first_asker(now, entry))
        else {
            return self.finish_unsatisfied(now, entry);
        };
        self.pit.set_expiry(entry, latest);
        // A packet is what strategies see names and hashes by.
        let Some(packet) = self.copy_interest(entry, context) else { return };
        let (bytes, meta) = (context.pool.bytes(&packet), context.pool.meta(&packet));
        let name = meta.name_in(bytes);
        let route = self.fib.lookup(name, &meta.prefixes);
        let (strategy, next_hops, route_len) = route
            .map_or((Strategies::DEFAULT, NOWHERE, 0), |r| (r.strategy, r.next_hops, r.prefix_len as u8));
        let local = self.faces.info(asker).is_some_and(|info| info.scope == Scope::Local);
        let eligibility = Eligibility::new(&self.faces, asker, local, NameScope::of(name));
        let event =
            Event { now, entry, ingress: asker, next_hops, eligibility, meta, bytes, route_len, strategy };
        let instance = *self.strategies.strategy(strategy);
        let mut event =
            StrategyContext::new(event, &mut self.pit, &mut self.strategy_state, &mut self.decisions);
        instance.on_timer(&mut event);
        context.pool.release(packet);
        self.send_decided(now, entry, asker, context);
        if self.decisions.extras.wake_ms != 0 {
            self.set_waking(now, entry);
        }
    }

    /// A face that waits for the answer.
    pub(super) fn first_asker(&self, now: Instant, entry: EntryRef) -> Option<FaceId> {
        self.pit.in_records(entry).find(|record| record.expiry > now).map(|record| record.face)
    }

    /// Sends copies of the table's Interest where a strategy decided so without an Interest coming in.
    pub(super) fn send_decided(
        &mut self,
        now: Instant,
        entry: EntryRef,
        asker: FaceId,
        context: &mut Context<'_, Out>,
    ) {
        for at in 0..self.decisions.forwards.len() {
            let forward = self.decisions.forwards[at];
            self.send_again(now, entry, asker, forward, context);
        }
    }

    /// Sends a copy of the table's Interest, for the sake of one asker.
    #[cold]
    pub(super) fn send_again(
        &mut self,
        now: Instant,
        entry: EntryRef,
        asker: FaceId,
        forward: Forward,
        context: &mut Context<'_, Out>,
    ) {
        let Some(packet) = self.copy_interest(entry, context) else { return };
        context.pool.meta_mut(&packet).ingress = asker;
        if forward.form == Form::Probe {
            let nonce = self.strategy_state.generator.draw() as u32;
            let start = usize::from(context.pool.meta(&packet).nonce_start);
            // The packet dispatcher gave a nonce to those that came without.
            if start != 0 {
                context.pool.bytes_mut(&packet)[start..start + 4].copy_from_slice(&nonce.to_be_bytes());
                context.pool.meta_mut(&packet).nonce = nonce;
            }
        }
        self.send_interest(now, entry, packet, forward, context);
    }

    fn copy_interest(&self, entry: EntryRef, context: &mut Context<'_, Out>) -> Option<Packet> {
        let Some(packet) = context.pool.copy_of(self.pit.interest(entry)) else {
            context.drops.count(Cause::NoBuffer);
            return None;
        };
        if let Err(error) = decode(context.pool, &packet) {
            debug_assert!(false, "the table's copy of an Interest is broken: {error}");
            context.pool.drop_packet(packet, DropReason::Malformed(error.fault), context.drops);
            return None;
        }
        Some(packet)
    }

    /// Sends a Data with a prefix announcement to neighbours, without to others; shows control what is to be learnt from it.
    #[cold]
    pub(super) fn send_announced(
        &mut self,
        now: Instant,
        packet: Packet,
        downstreams: &[(FaceId, Token)],
        lesson: Lesson,
        context: &mut Context<'_, Out>,
    ) {
        let meta = context.pool.meta(&packet);
        let (ingress, arrival) = (meta.ingress, meta.arrival);
        let announcement = match lesson {
            Lesson::Learn => meta.link.announcement,
            _ => match self.announcements.longest(meta.name_in(context.pool.bytes(&packet)), now) {
                Some(announcement) => context.pool.keep_announcement(announcement),
                None => Ticket::NONE,
            },
        };
        if lesson == Lesson::Learn {
            match context.pool.announcement_packet(announcement) {
                Some(copy) => {
                    let meta = context.pool.meta_mut(&copy);
                    (meta.kind, meta.ingress, meta.arrival) = (nw_element_api::Kind::Data, ingress, arrival);
                    context.out.send(Out::Lesson, copy);
                }
                None if context.pool.announcement(announcement).is_some() => {
                    context.drops.count(Cause::NoBuffer);
                }
                // Pushed out by others since it came.
                None => {}
            }
        }
        let before = context.out.len();
        send_data(packet, downstreams, context);
        for (port, sent) in context.out.since(before) {
            let to_neighbour =
                |face: FaceId| self.faces.info(face).is_some_and(|info| info.scope == Scope::NonLocal);
            if *port == Out::Data && to_neighbour(context.pool.meta(sent).egress) {
                context.pool.meta_mut(sent).link.announcement = announcement;
            }
        }
    }
}

/// Announcements kept at one time.
const ANNOUNCEMENTS_MAX: usize = 1024;

/// Announcements that control found good, by the prefix they announce.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    known: BTreeMap<Name, (Box<[u8]>, Instant)>,
}

impl Announcements {
    /// In place of an earlier one of the prefix. Of too many, those that have ended go, then the first by name.
    pub fn keep(&mut self, now: Instant, prefix: NameRef<'_>, announcement: &[u8], until: Instant) {
        self.known.insert(prefix.to_name(), (announcement.into(), until));
        if self.known.len() > ANNOUNCEMENTS_MAX {
            self.known.retain(|_, (_, end)| *end > now);
        }
        while self.known.len() > ANNOUNCEMENTS_MAX {
            self.known.pop_first();
        }
    }

    /// Of the longest prefix of a name.
    fn longest(&self, name: NameRef<'_>, now: Instant) -> Option<&[u8]> {
        let prefixes = (0..=name.len()).rev().map(|len| name.prefix(len));
        let known = prefixes.filter_map(|prefix| self.known.get(prefix.as_bytes()));
        known.filter(|(_, until)| *until > now).map(|(octets, _)| &octets[..]).next()
    }
}
