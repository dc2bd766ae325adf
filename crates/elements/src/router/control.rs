//! What control asks of the router: faces, routes, strategies, regions; status.

use super::routes::{self, NewNextHops};
use super::{Out, Router, RouterCounters};
use crate::scope::NameScope;
use crate::strategy::{Eligibility, Forward, StrategyError, StrategyId, is_pending};
use nw_element_api::decode::decode;
use nw_element_api::{Cause, Context, DropReason, FaceId, FaceInfo, Instant, Scope};
use nw_name::{Name, NameRef};
use nw_tables::FaceTable;
use nw_tables::fib::{Fib, FibError, NextHop};
use nw_tables::measurements::Measurements;
use nw_tables::pit::{EntryRef, Pit};
use std::sync::Arc;

impl Router {
    /// Makes a face known, or changes what is known of it. Before its first packet comes.
    pub fn add_face(&mut self, face: FaceId, info: FaceInfo) {
        self.faces.insert(face, info);
        self.pit.add_face(face, info.scope);
        if self.knows_tokens.len() <= face.slot() {
            self.knows_tokens.resize(face.slot() + 1, false);
        }
        // Another router takes tokens by the specification, management to tell apart who asked.
        self.knows_tokens[face.slot()] = info.scope == Scope::NonLocal || face == FaceId::INTERNAL;
    }

    /// Gives tokens to what is behind this face, whatever its scope.
    pub(crate) fn give_tokens(&mut self, face: FaceId) {
        if let Some(knows) = self.knows_tokens.get_mut(face.slot()) {
            *knows = true;
        }
    }

    /// [`set_route`](Self::set_route) before the first packet: no Interest waits that could follow it.
    pub(crate) fn set_only_route(
        &mut self,
        name: NameRef<'_>,
        next_hops: &[NextHop],
        strategy: StrategyId,
    ) -> Result<(), FibError> {
        self.own_fib().set(name, next_hops, strategy)
    }

    /// Forgets a face: what it asked for and was asked for goes too, in a large table a part with every tick; false when it was not known. Routes
    /// to it are to be removed besides, until then they lead nowhere.
    pub fn remove_face(&mut self, now: Instant, face: FaceId) -> bool {
        let known = self.faces.remove(face);
        self.pit.end_share(face);
        self.forget_face(now, face);
        known
    }

    /// Sets next hops and strategy of a prefix, in place of what was.
    ///
    /// Lookups take the longest prefix that was set: a prefix that has a strategy of its own but no route must be given the next hops it inherits,
    /// and the reverse. Interests that wait under the prefix are sent to next hops that are new, if the strategy wants that.
    ///
    /// # Errors
    /// What is too much; nothing has changed then.
    ///
    /// # Panics
    /// When the FIB is shared: see [`take_fib`](Self::take_fib).
    pub fn set_route(
        &mut self,
        now: Instant,
        name: NameRef<'_>,
        next_hops: &[NextHop],
        strategy: StrategyId,
        context: &mut Context<'_, Out>,
    ) -> Result<(), FibError> {
        let new = routes::set(self.own_fib(), name, next_hops, strategy)?;
        self.tell_new_next_hops(now, name, strategy, new, context);
        Ok(())
    }

    /// Removes a prefix; false when it was not there. `/` stays, without next hops and with the default strategy.
    ///
    /// # Panics
    /// As [`set_route`](Self::set_route).
    pub fn remove_route(&mut self, name: NameRef<'_>) -> bool {
        routes::remove(self.own_fib(), name)
    }

    /// [`take_fib`](Self::take_fib) before the first packet.
    pub fn share_fib(&mut self, fib: Arc<Fib>) {
        self.fib = fib;
    }

    /// Takes a FIB that is shared with other routers, in place of the one before, which it gives back. Interests that wait are sent to next hops that are `new`
    /// in it, as by [`set_route`](Self::set_route). The key of its hash must be this router's.
    pub fn take_fib(
        &mut self,
        now: Instant,
        fib: Arc<Fib>,
        new: &[NewNextHops],
        context: &mut Context<'_, Out>,
    ) -> Arc<Fib> {
        let former = core::mem::replace(&mut self.fib, fib);
        for NewNextHops { prefix, strategy, faces } in new {
            self.tell_new_next_hops(now, prefix.as_ref(), *strategy, faces.clone(), context);
        }
        former
    }

    fn own_fib(&mut self) -> &mut Fib {
        Arc::get_mut(&mut self.fib).expect("a FIB that is shared is changed by who shares it")
    }

    fn tell_new_next_hops(
        &mut self,
        now: Instant,
        name: NameRef<'_>,
        strategy: StrategyId,
        new: Vec<FaceId>,
        context: &mut Context<'_, Out>,
    ) {
        if !new.is_empty() && self.strategies.strategy(strategy).follows_new_next_hops() {
            self.follow_new_next_hops(now, name, new, context);
        }
    }

    /// The number of a strategy, to be given to [`set_route`](Self::set_route).
    ///
    /// # Errors
    /// When there is no such strategy, its parameters are bad, or too many are in use.
    pub fn resolve_strategy(&mut self, name: NameRef<'_>) -> Result<StrategyId, StrategyError> {
        self.strategies.resolve_for(name, &self.fib, &mut self.strategy_state)
    }

    /// Keeps an announcement that control found good, until `until`: self-learning sends it along with Data below `prefix`.
    pub fn keep_announcement(
        &mut self,
        now: Instant,
        prefix: NameRef<'_>,
        announcement: &[u8],
        until: Instant,
    ) {
        self.announcements.keep(now, prefix, announcement, until);
    }

    /// What strategies remember of prefixes, for status.
    pub const fn measurements(&self) -> &Measurements {
        &self.strategy_state.measurements
    }

    /// The name of a strategy, with version and parameters.
    pub fn strategy_name(&self, strategy: StrategyId) -> Option<NameRef<'_>> {
        self.strategies.name(strategy)
    }

    /// Names of the regions this router is in: a ForwardingHint that is a prefix of one of them has done its work.
    pub fn set_regions(&mut self, regions: Vec<Name>) {
        self.regions = regions;
    }

    /// Whether each Interest that is sent gets a token.
    pub const fn set_upstream_tokens(&mut self, give: bool) {
        self.upstream_tokens = give;
    }

    /// Whether Data may come from a face that was not asked.
    pub const fn set_accept_data_from_any_face(&mut self, accept: bool) {
        self.accept_data_from_any_face = accept;
    }

    /// How many Interests one face may have pending; `None` as many as there is room for. More are answered by Nack(Congestion).
    pub fn set_face_limit(&mut self, interests_max: Option<u32>) {
        self.pit.set_face_limit(interests_max);
    }

    /// Pending Interests that ended so far. An Interest that the content store answered was never pending.
    pub const fn counters(&self) -> RouterCounters {
        self.counters
    }

    /// Faces, as forwarding knows them.
    pub const fn faces(&self) -> &FaceTable {
        &self.faces
    }

    /// Routes, for status.
    pub fn fib(&self) -> &Fib {
        &self.fib
    }

    /// Pending Interests, for status.
    pub const fn pit(&self) -> &Pit {
        &self.pit
    }

    /// Octets of address space of all tables.
    pub fn memory_bytes(&self) -> usize {
        self.fib.memory_bytes()
            + self.pit.memory_bytes()
            + self.dead_nonces.memory_bytes()
            + self.strategy_state.measurements.memory_bytes()
    }

    /// Sends a pending Interest to a face, for the sake of the first asker for whom it is eligible.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        entry: EntryRef,
        face: FaceId,
        context: &mut Context<'_, Out>,
    ) {
        if self.pit.out_record(entry, face).is_some_and(|record| is_pending(&record, now)) {
            return;
        }
        let scope = NameScope::of(self.pit.name(entry));
        let asker = self.pit.in_records(entry).find(|record| {
            let local = self.faces.info(record.face).is_some_and(|info| info.scope == Scope::Local);
            Eligibility::new(&self.faces, record.face, local, scope).allows(face)
        });
        let Some(asker) = asker else { return };
        let Some(packet) = context.pool.copy_of(self.pit.interest(entry)) else {
            return context.drops.count(Cause::NoBuffer);
        };
        if let Err(error) = decode(context.pool, &packet) {
            debug_assert!(false, "the table's copy of an Interest is broken: {error}");
            return context.pool.drop_packet(packet, DropReason::Malformed(error.fault), context.drops);
        }
        context.pool.meta_mut(&packet).ingress = asker.face;
        self.send_interest(now, entry, packet, Forward::plain(face), context);
    }
}
