//! Control operations of the router: faces, routes, strategies, regions; status.

use super::routes::{self, NewNextHops};
use super::{Out, Router, RouterCounters};
use crate::scope::NameScope;
use crate::strategy::{Eligibility, Forward, StrategyError, StrategyId, is_pending};
use nw_element_api::{Context, FaceId, FaceInfo, Scope, Timestamp};
use nw_name::{Name, NameRef};
use nw_tables::FaceTable;
use nw_tables::fib::{Fib, FibError, NextHop};
use nw_tables::measurements::Measurements;
use nw_tables::pit::{EntryRef, Pit};
use std::sync::Arc;

impl Router {
    /// Adds a face, or changes its properties. Must precede the first packet from it.
    pub fn add_face(&mut self, face: FaceId, info: FaceInfo) {
        self.faces.insert(face, info);
        self.pit.add_face(face, info.scope);
        if self.peer_takes_tokens.len() <= face.slot() {
            self.peer_takes_tokens.resize(face.slot() + 1, false);
        }
        // Routers accept tokens by specification; management needs them to tell its clients apart.
        self.peer_takes_tokens[face.slot()] =
            info.scope == Scope::NonLocal || face == FaceId::INTERNAL;
    }

    /// Sends tokens to this face whatever its scope.
    pub(crate) fn enable_tokens(&mut self, face: FaceId) {
        if let Some(knows) = self.peer_takes_tokens.get_mut(face.slot()) {
            *knows = true;
        }
    }

    /// [`set_route`](Self::set_route) before the first packet, when no Interest is pending.
    pub(crate) fn set_initial_route(
        &mut self,
        name: NameRef<'_>,
        next_hops: &[NextHop],
        strategy: StrategyId,
    ) -> Result<(), FibError> {
        self.exclusive_fib().set(name, next_hops, strategy)
    }

    /// Removes a face with its in-records and out-records; in a large PIT a part per tick. Returns
    /// whether it was known. Routes to it should be removed too; until then that next hop is
    /// ineligible.
    pub fn remove_face(&mut self, now: Timestamp, face: FaceId) -> bool {
        let was_known = self.faces.remove(face);
        self.start_face_removal(now, face);
        was_known
    }

    /// Sets next hops and strategy of a prefix, replacing earlier ones.
    ///
    /// Lookups use the longest prefix that was set: a prefix with its own strategy but no route
    /// must be given the next hops it inherits, and the reverse. Pending Interests under the prefix
    /// are sent to next hops that are new, if the strategy follows them.
    ///
    /// # Errors
    /// When a table limit is reached; nothing has changed then.
    ///
    /// # Panics
    /// When the FIB is shared: see [`replace_fib`](Self::replace_fib).
    pub fn set_route(
        &mut self,
        now: Timestamp,
        name: NameRef<'_>,
        next_hops: &[NextHop],
        strategy: StrategyId,
        context: &mut Context<'_, Out>,
    ) -> Result<(), FibError> {
        let new = routes::set(self.exclusive_fib(), name, next_hops, strategy)?;
        self.on_new_next_hops(now, name, strategy, new, context);
        Ok(())
    }

    /// Removes a prefix. Returns whether it was there. `/` stays, without next hops and with the
    /// default strategy.
    ///
    /// # Panics
    /// When the FIB is shared.
    pub fn remove_route(&mut self, name: NameRef<'_>) -> bool {
        routes::remove(self.exclusive_fib(), name)
    }

    /// [`replace_fib`](Self::replace_fib) before the first packet.
    pub fn share_fib(&mut self, fib: Arc<Fib>) {
        self.fib = fib;
    }

    /// Replaces the FIB by one shared with other routers, and returns the former one. Pending
    /// Interests are sent to the `new` next hops, as by [`set_route`](Self::set_route). The FIB's
    /// hash key must be this router's.
    pub fn replace_fib(
        &mut self,
        now: Timestamp,
        fib: Arc<Fib>,
        new: &[NewNextHops],
        context: &mut Context<'_, Out>,
    ) -> Arc<Fib> {
        let former = core::mem::replace(&mut self.fib, fib);
        for NewNextHops { prefix, strategy, faces } in new {
            self.on_new_next_hops(now, prefix.as_ref(), *strategy, faces.clone(), context);
        }
        former
    }

    /// Returns the router's own FIB for changes.
    fn exclusive_fib(&mut self) -> &mut Fib {
        Arc::get_mut(&mut self.fib).expect("a shared FIB is changed by its owner")
    }

    /// Starts to send pending Interests to new next hops, if the strategy follows them.
    fn on_new_next_hops(
        &mut self,
        now: Timestamp,
        name: NameRef<'_>,
        strategy: StrategyId,
        new: Vec<FaceId>,
        context: &mut Context<'_, Out>,
    ) {
        if !new.is_empty() && self.strategies.strategy(strategy).follows_new_next_hops() {
            self.start_new_next_hop_scan(now, name, new, context);
        }
    }

    /// Returns the number of a strategy name, for [`set_route`](Self::set_route).
    ///
    /// # Errors
    /// When there is no such strategy, a parameter is wrong, or too many strategies are in use.
    pub fn resolve_strategy(&mut self, name: NameRef<'_>) -> Result<StrategyId, StrategyError> {
        self.strategies.resolve_for(name, &self.fib, &mut self.strategy_state)
    }

    /// Stores an announcement that control accepted, until `until`: self-learning sends it with
    /// Data below `prefix`.
    pub fn keep_announcement(
        &mut self,
        now: Timestamp,
        prefix: NameRef<'_>,
        announcement: &[u8],
        until: Timestamp,
    ) {
        self.announcements.keep(now, prefix, announcement, until);
    }

    /// Returns the strategies' measurements, for status.
    pub const fn measurements(&self) -> &Measurements {
        &self.strategy_state.measurements
    }

    /// Returns a strategy's name with version and parameters. `None` for a number not in use.
    pub fn strategy_name(&self, strategy: StrategyId) -> Option<NameRef<'_>> {
        self.strategies.name(strategy)
    }

    /// Sets the names of the producer regions this router is in. A ForwardingHint with a name that
    /// is a prefix of one of them is removed from Interests.
    pub fn set_regions(&mut self, regions: Vec<Name>) {
        self.regions = regions;
    }

    /// Sets whether each Interest that is sent carries a token.
    pub const fn set_upstream_tokens(&mut self, give: bool) {
        self.upstream_tokens = give;
    }

    /// Sets whether Data is accepted from a face the Interest was not sent to.
    pub const fn set_accept_data_from_any_face(&mut self, accept: bool) {
        self.accept_data_from_any_face = accept;
    }

    /// Sets how many Interests one face may have pending; `None` for no limit. Further ones are
    /// answered by Nack(Congestion).
    pub fn set_face_limit(&mut self, interests_max: Option<u32>) {
        self.pit.set_face_limit(interests_max);
    }

    /// Returns how pending Interests ended so far. An Interest answered by the content store was
    /// never pending.
    pub const fn counters(&self) -> RouterCounters {
        self.counters
    }

    /// Returns the face table of forwarding.
    pub const fn faces(&self) -> &FaceTable {
        &self.faces
    }

    /// Returns the FIB, for status.
    pub fn fib(&self) -> &Fib {
        &self.fib
    }

    /// Returns the PIT, for status.
    pub const fn pit(&self) -> &Pit {
        &self.pit
    }

    /// Returns the bytes of address space of all tables.
    pub fn memory_bytes(&self) -> usize {
        self.fib.memory_bytes()
            + self.pit.memory_bytes()
            + self.dead_nonces.memory_bytes()
            + self.strategy_state.measurements.memory_bytes()
    }

    /// Sends a pending Interest to a face, on behalf of the first downstream for which it is
    /// eligible.
    pub(super) fn forward_pending_to(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        face: FaceId,
        context: &mut Context<'_, Out>,
    ) {
        if self.pit.out_record(entry, face).is_some_and(|record| is_pending(&record, now)) {
            return;
        }
        let scope = NameScope::of(self.pit.name(entry));
        let eligible = self.pit.in_records(entry).find(|record| {
            let local = self.faces.info(record.face).is_some_and(|info| info.scope == Scope::Local);
            Eligibility::new(&self.faces, record.face, local, scope).allows(face)
        });
        let Some(downstream) = eligible else { return };
        let Some(packet) = self.copy_interest(entry, context) else { return };
        context.pool.meta_mut(&packet).ingress = downstream.face;
        self.send_interest(now, entry, packet, Forward::to(face), context);
    }
}
