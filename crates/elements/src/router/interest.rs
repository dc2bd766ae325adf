//! Incoming Interests: loops, the PIT, the strategy.
//!
//! ```text
//! dead nonce? ─ yes ─► interest_loop                      Nack(Duplicate), or drop
//!     │ no
//! find_or_insert_entry ─ pending ─► on_pending            in-record; loop, or select_next_hop
//!     │ new            └ full ────► interest_when_full    evict, or Nack(Congestion)
//! next_hop_fast ─ None ─► select_next_hop                 NextHopFaceId, or the strategy
//!     │ face
//! record_sent ─► emit
//! ```
//!
//! Invariant: an Interest leaves only after its in-record and its out-record are in the PIT.

use super::{Out, Router};
use crate::forwarding_hint;
use crate::interest_key::interest_key;
use crate::strategy::{Eligibility, Forward, Nacks, SendAs, Strategies, Trigger, WANTS_TIMER};
use nw_element_api::{Context, DropCause, FaceId, FaceInfo, LinkType, Meta, Packet, Timestamp};
use nw_name::NameRef;
use nw_tables::fib::FibProbe;
use nw_tables::pit::{Downstream, EntryRef, InRecord, PitFull};
use nw_wire::NackReason;

impl Router {
    /// Handles an incoming Interest: dead nonces, the PIT, the next hop.
    #[inline(never)]
    pub(super) fn interest(
        &mut self,
        now: Timestamp,
        packet: Packet,
        probe: &FibProbe,
        context: &mut Context<'_, Out>,
    ) {
        let (bytes, meta) = context.pool.view_mut(&packet);
        let Some(face) = self.faces.info(meta.ingress) else {
            return context.pool.drop_packet(packet, DropCause::FaceGone, context.drops);
        };
        if !meta.link.token.is_none() {
            self.peer_takes_tokens[meta.ingress.slot()] = true;
        }
        // "Name and nonce in the Dead Nonce List: Interest loop."
        if self.dead_nonces.contains(now, meta.prefixes.lookup_hash(), meta.nonce) {
            return self.interest_loop(packet, face, context);
        }
        if meta.forwarding_hint.is_some() {
            return self.interest_with_forwarding_hint(now, packet, face, context);
        }
        let expiry = self.expiry(now, meta);
        let entry = match self.find_or_insert_entry(expiry, bytes, meta) {
            Ok((entry, true)) => entry,
            Ok((entry, false)) => return self.on_pending(now, entry, packet, face, context),
            Err(full) => return self.interest_when_full(now, packet, face, full, context),
        };
        let Some(hop) = self.next_hop_fast(meta.name_in(bytes), meta, probe) else {
            return self.select_next_hop(now, entry, packet, face, true, context);
        };
        let sent = self.record_sent::<true>(now, expiry, entry, Forward::to(hop), bytes, meta);
        Self::emit(sent, packet, context);
    }

    /// Handles an Interest with a ForwardingHint.
    #[inline(never)]
    fn interest_with_forwarding_hint(
        &mut self,
        now: Timestamp,
        packet: Packet,
        face: FaceInfo,
        context: &mut Context<'_, Out>,
    ) {
        let Some(packet) = self.strip_hint(packet, context) else { return };
        let (bytes, meta) = context.pool.view(&packet);
        match self.find_or_insert_entry(self.expiry(now, meta), bytes, meta) {
            Ok((entry, true)) => self.select_next_hop(now, entry, packet, face, true, context),
            Ok((entry, false)) => self.on_pending(now, entry, packet, face, context),
            Err(full) => self.interest_when_full(now, packet, face, full, context),
        }
    }

    /// Handles an Interest that is already pending: a loop, another downstream, or a
    /// retransmission.
    #[inline(never)]
    pub(super) fn on_pending(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        packet: Packet,
        face: FaceInfo,
        context: &mut Context<'_, Out>,
    ) {
        let meta = context.pool.meta(&packet);
        if self.is_duplicate(entry, meta.ingress, meta.nonce, face.link_type) {
            return self.interest_loop(packet, face, context);
        }
        let downstream = Self::downstream(self.expiry(now, meta), meta).record();
        let mut added = self.add_downstream(entry, downstream);
        if added == Err(PitFull::Table) && self.evict_for_record(now, entry, &packet, context) {
            added = self.add_downstream(entry, downstream);
        }
        match added {
            Ok(is_new_downstream) => {
                self.select_next_hop(now, entry, packet, face, is_new_downstream, context)
            }
            Err(full) => self.reject_full(packet, face, full, context),
        }
    }

    /// Finds the PIT entry, or inserts it with its first in-record. Returns whether it is new.
    #[inline(always)]
    pub(super) fn find_or_insert_entry(
        &mut self,
        expiry: Timestamp,
        bytes: &[u8],
        meta: &Meta,
    ) -> Result<(EntryRef, bool), PitFull> {
        let key = interest_key(meta, bytes);
        let downstream = Self::downstream(expiry, meta);
        self.pit.get_or_insert(&key, bytes, meta.name.into(), meta.nonce_start, &downstream)
    }

    /// Returns the next hop of a new entry without calling the strategy: the fast form of
    /// [`select_next_hop`](Self::select_next_hop). `None`: use the slow form.
    #[inline(always)]
    fn next_hop_fast(&self, name: NameRef<'_>, meta: &Meta, probe: &FibProbe) -> Option<FaceId> {
        if meta.link.next_hop_face.is_some() {
            return None;
        }
        let route = self.fib.resolve(name, &meta.prefixes, probe)?;
        if !self.strategies.sends_new_to_cheapest(route.strategy) {
            return None;
        }
        let scope = self.scopes.of(|| name, &meta.prefixes);
        let eligibility = Eligibility::new(&self.faces, meta.ingress, meta.ingress_local, scope);
        let face = route.next_hops.first()?.face;
        eligibility.allows(face).then_some(face)
    }

    /// Selects next hops, by NextHopFaceId or by the strategy.
    #[inline(never)]
    pub(super) fn select_next_hop(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        packet: Packet,
        face: FaceInfo,
        is_new_downstream: bool,
        context: &mut Context<'_, Out>,
    ) {
        match context.pool.meta(&packet).link.next_hop_face {
            Some(next_hop) => self.bypass_strategy(now, entry, packet, next_hop, context),
            None => {
                self.strategy_after_interest(now, entry, packet, face, is_new_downstream, context)
            }
        }
    }

    /// Returns when an Interest received now expires.
    #[inline(always)]
    pub(super) fn expiry(&self, now: Timestamp, meta: &Meta) -> Timestamp {
        let max_ms = if meta.ingress_local {
            self.lifetime_max_ms
        } else {
            self.shortage.remote_lifetime_max_ms
        };
        now.plus_millis(u64::from(meta.lifetime_ms.min(max_ms)))
    }

    /// Returns the in-record for this packet: downstream face, nonce, expiry, PIT token.
    #[inline(always)]
    fn downstream(expiry: Timestamp, meta: &Meta) -> Downstream<'_> {
        Downstream { face: meta.ingress, nonce: meta.nonce, expiry, token: &meta.link.token }
    }

    /// Adds or renews an in-record; the entry lives until the latest of them expires. Returns
    /// whether the face had none.
    fn add_downstream(&mut self, entry: EntryRef, downstream: InRecord) -> Result<bool, PitFull> {
        let expiry = downstream.expiry;
        let is_new_downstream = self.pit.upsert_in(entry, downstream)?;
        // "Expiry timer = latest in-record expiry."
        let mut latest =
            self.pit.in_records(entry).map(|record| record.expiry).max().unwrap_or(expiry);
        // The entry may still be held after being satisfied.
        self.pit.set_satisfied(entry, None);
        if self.pit.strategy_bits(entry) & WANTS_TIMER != 0 {
            latest = latest.min(self.pit.expiry(entry).unwrap_or(latest));
        }
        self.pit.set_expiry(entry, latest);
        Ok(is_new_downstream)
    }

    /// "Duplicate nonce in any in-/out-record: loop, except on a pt2pt face when the same face
    /// already has this nonce (plain retransmission)."
    fn is_duplicate(
        &self,
        entry: EntryRef,
        ingress: FaceId,
        nonce: u32,
        link_type: LinkType,
    ) -> bool {
        let mut duplicate = false;
        for record in self.pit.in_records(entry).filter(|record| record.nonce == nonce) {
            if record.face == ingress && link_type == LinkType::PointToPoint {
                return false;
            }
            duplicate = true;
        }
        duplicate || self.pit.out_records(entry).any(|record| record.nonce == nonce)
    }

    /// "Non-pt2pt: drop; pt2pt: strategy. Default sends Nack Duplicate; multicast sends nothing."
    fn interest_loop(&mut self, packet: Packet, face: FaceInfo, context: &mut Context<'_, Out>) {
        let meta = context.pool.meta(&packet);
        let strategy =
            match self.fib.lookup(meta.name_in(context.pool.bytes(&packet)), &meta.prefixes) {
                Some(route) => route.strategy,
                None => Strategies::DEFAULT,
            };
        if face.link_type == LinkType::PointToPoint
            && self.strategies.strategy(strategy).nacks_loops()
        {
            self.return_as_nack(packet, NackReason::Duplicate, context);
        } else {
            context.pool.drop_packet(packet, DropCause::DuplicateNonce, context.drops);
        }
    }

    /// "Strip ForwardingHint if in producer region": one of its names is a prefix of a region's
    /// name.
    fn strip_hint(&mut self, packet: Packet, context: &mut Context<'_, Out>) -> Option<Packet> {
        match forwarding_hint::strip(&self.regions, packet, context.pool) {
            Ok(packet) => Some(packet),
            Err((packet, reason)) => {
                context.pool.drop_packet(packet, reason, context.drops);
                None
            }
        }
    }

    /// "NextHopFaceId set: send there (bypasses strategy and scope, drop if no such face)."
    fn bypass_strategy(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        packet: Packet,
        next_hop: FaceId,
        context: &mut Context<'_, Out>,
    ) {
        if !self.faces.contains(next_hop) {
            return context.pool.drop_packet(packet, DropCause::NextHopUnknown, context.drops);
        }
        self.send_interest(now, entry, packet, Forward::to(next_hop), context);
    }

    /// Calls the strategy and carries out its decisions.
    fn strategy_after_interest(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        packet: Packet,
        face: FaceInfo,
        is_new_downstream: bool,
        context: &mut Context<'_, Out>,
    ) {
        let (bytes, meta) = context.pool.view(&packet);
        self.call_strategy(now, entry, Trigger::Interest, bytes, meta);

        let forwards = self.decisions.forwards.len();
        if forwards == 0 {
            return self.not_forwarded(now, entry, packet, face, is_new_downstream, context);
        }
        if self.decisions.extras.timer_ms != 0 {
            self.set_strategy_timer(now, entry);
        }
        for at in 0..forwards - 1 {
            let forward = self.decisions.forwards[at];
            self.send_copy(now, entry, &packet, forward, context);
        }
        let last = self.decisions.forwards[forwards - 1];
        self.send_interest(now, entry, packet, last, context);
    }

    /// Sends a copy of an Interest to one of several next hops.
    fn send_copy(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        packet: &Packet,
        forward: Forward,
        context: &mut Context<'_, Out>,
    ) {
        if forward.send_as == SendAs::Probe {
            return self.send_pending_copy(
                now,
                entry,
                context.pool.meta(packet).ingress,
                forward,
                context,
            );
        }
        let Some(copy) = context.pool.clone_shallow(packet) else {
            return context.drops.count(DropCause::NoBuffer);
        };
        context.pool.meta_mut(&copy).link = context.pool.meta(packet).link;
        self.send_interest(now, entry, copy, forward, context);
    }

    /// Handles an Interest that the strategy did not forward: Nack, suppression, or no route.
    fn not_forwarded(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        packet: Packet,
        face: FaceInfo,
        is_new_downstream: bool,
        context: &mut Context<'_, Out>,
    ) {
        let ingress = context.pool.meta(&packet).ingress;
        match self.decisions.nacks {
            Nacks::One(_, reason) | Nacks::All(reason) => {
                self.pit.remove_in(entry, ingress);
                if self.pit.in_records(entry).next().is_none() {
                    self.finish_unsatisfied(now, entry);
                }
                self.reject(packet, face, reason, DropCause::NoRoute, context);
            }
            Nacks::None => {
                let cause = match (self.decisions.suppressed, is_new_downstream) {
                    (true, true) => DropCause::Aggregated,
                    (true, false) => DropCause::RetransmissionSuppressed,
                    (false, _) => DropCause::NoRoute,
                };
                context.pool.drop_packet(packet, cause, context.drops);
            }
        }
    }

    /// "A full table answers Nack(Congestion) and counts it."
    #[cold]
    pub(super) fn reject_full(
        &mut self,
        packet: Packet,
        face: FaceInfo,
        full: PitFull,
        context: &mut Context<'_, Out>,
    ) {
        let cause = match full {
            PitFull::Table => DropCause::PitFull,
            PitFull::Face => DropCause::PitFullForFace,
        };
        self.reject(packet, face, NackReason::Congestion, cause, context);
    }

    /// Counts the cause, and sends the Interest back as a Nack if the link carries Nacks.
    fn reject(
        &mut self,
        packet: Packet,
        face: FaceInfo,
        reason: NackReason,
        cause: DropCause,
        context: &mut Context<'_, Out>,
    ) {
        if face.link_type == LinkType::PointToPoint {
            context.drops.count(cause);
            self.return_as_nack(packet, reason, context);
        } else {
            context.pool.drop_packet(packet, cause, context.drops);
        }
    }
}
