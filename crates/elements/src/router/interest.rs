//! Incoming Interests.

use super::{NOWHERE, Out, Router};
use crate::hints;
use crate::strategy::{Eligibility, Event, Form, Forward, Nacks, Strategies, StrategyContext, WANTS_WAKING};
use nw_element_api::{Cause, Context, FaceId, FaceInfo, Instant, LinkType, Meta, Packet};
use nw_name::NameRef;
use nw_tables::Ask;
use nw_tables::pit::{Asker, EntryRef, InRecord, PitFull};
use nw_wire::NackReason;

impl Router {
    #[inline(never)]
    pub(super) fn interest(&mut self, now: Instant, packet: Packet, context: &mut Context<'_, Out>) {
        let (bytes, meta) = context.pool.view_mut(&packet);
        let Some(face) = self.faces.info(meta.ingress) else {
            return context.pool.drop_packet(packet, Cause::FaceGone, context.drops);
        };
        if !meta.link.token.is_none() {
            self.knows_tokens[meta.ingress.slot()] = true;
        }
        // "Name and nonce in the Dead Nonce List: Interest loop."
        if self.dead_nonces.contains(now, meta.prefixes.key(), meta.nonce) {
            return self.interest_loop(packet, face, context);
        }
        if meta.hint.1 != 0 {
            return self.hinted(now, packet, face, context);
        }
        let (name, expiry) = (meta.name_in(bytes), self.expiry(now, meta));
        let entry = match self.enter(expiry, name, bytes, meta) {
            Ok((entry, true)) => entry,
            Ok((entry, false)) => return self.ask_again(now, entry, packet, face, context),
            Err(full) => return self.interest_without_room(now, packet, face, full, context),
        };
        let Some(hop) = self.only_choice(name, meta) else {
            return self.choose(now, entry, packet, face, true, context);
        };
        let sent = self.record_sent::<true>(now, expiry, entry, Forward::plain(hop), bytes, meta);
        Self::leave(sent, packet, context);
    }

    /// An Interest with a ForwardingHint.
    #[inline(never)]
    fn hinted(&mut self, now: Instant, packet: Packet, face: FaceInfo, context: &mut Context<'_, Out>) {
        let Some(packet) = self.strip_hint(packet, context) else { return };
        let (bytes, meta) = context.pool.view(&packet);
        match self.enter(self.expiry(now, meta), meta.name_in(bytes), bytes, meta) {
            Ok((entry, true)) => self.choose(now, entry, packet, face, true, context),
            Ok((entry, false)) => self.ask_again(now, entry, packet, face, context),
            Err(full) => self.interest_without_room(now, packet, face, full, context),
        }
    }

    /// An Interest that is pending already: a loop, somebody else who asks, or a retransmission.
    #[inline(never)]
    pub(super) fn ask_again(
        &mut self,
        now: Instant,
        entry: EntryRef,
        packet: Packet,
        face: FaceInfo,
        context: &mut Context<'_, Out>,
    ) {
        let meta = context.pool.meta(&packet);
        if self.is_duplicate(entry, meta.ingress, meta.nonce, face.link_type) {
            return self.interest_loop(packet, face, context);
        }
        let asker = Self::asker(self.expiry(now, meta), meta).record();
        let mut added = self.add_asker(entry, asker);
        if added == Err(PitFull::Table) && self.make_room_for_record(now, entry, &packet, context) {
            added = self.add_asker(entry, asker);
        }
        match added {
            Ok(is_new_asker) => self.choose(now, entry, packet, face, is_new_asker, context),
            Err(full) => self.refuse_full(packet, face, full, context),
        }
    }

    /// Finds the entry, or makes it with its first asker. True when it is new.
    #[inline(always)]
    pub(super) fn enter(
        &mut self,
        expiry: Instant,
        name: NameRef<'_>,
        bytes: &[u8],
        meta: &Meta,
    ) -> Result<(EntryRef, bool), PitFull> {
        let ask = Ask {
            name,
            prefixes: &meta.prefixes,
            can_be_prefix: meta.can_be_prefix,
            must_be_fresh: meta.must_be_fresh,
        };
        let asker = Self::asker(expiry, meta);
        self.pit.enter(&ask, bytes, meta.name, meta.nonce_start, &asker)
    }

    /// The usual case of [`choose`](Self::choose) for a new entry: the next hop that the strategy takes whatever else there is. `None` says nothing.
    #[inline(always)]
    fn only_choice(&self, name: NameRef<'_>, meta: &Meta) -> Option<FaceId> {
        if meta.link.next_hop_face.is_some() {
            return None;
        }
        let route = self.fib.lookup_hinted(name, &meta.prefixes, &meta.route_hint)?;
        if !self.strategies.sends_new_to_cheapest(route.strategy) {
            return None;
        }
        let scope = self.scopes.of(|| name, &meta.prefixes);
        let eligibility = Eligibility::new(&self.faces, meta.ingress, meta.ingress_local, scope);
        let face = route.next_hops.first()?.face;
        eligibility.allows(face).then_some(face)
    }

    /// Where to, by the application's word or the strategy's.
    #[inline(never)]
    pub(super) fn choose(
        &mut self,
        now: Instant,
        entry: EntryRef,
        packet: Packet,
        face: FaceInfo,
        is_new_asker: bool,
        context: &mut Context<'_, Out>,
    ) {
        match context.pool.meta(&packet).link.next_hop_face {
            Some(next_hop) => self.bypass_strategy(now, entry, packet, next_hop, context),
            None => self.ask_strategy(now, entry, packet, face, is_new_asker, context),
        }
    }

    /// Until when an Interest waits.
    #[inline(always)]
    pub(super) fn expiry(&self, now: Instant, meta: &Meta) -> Instant {
        let max_ms =
            if meta.ingress_local { self.lifetime_max_ms } else { self.shortage.remote_lifetime_max_ms };
        now.plus_millis(u64::from(meta.lifetime_ms.min(max_ms)))
    }

    /// Who asks, and until when.
    #[inline(always)]
    fn asker(expiry: Instant, meta: &Meta) -> Asker<'_> {
        Asker { face: meta.ingress, nonce: meta.nonce, expiry, token: &meta.link.token }
    }

    /// Remembers who else asked; the entry lives as long as the most patient of them. True when this face had not asked before.
    fn add_asker(&mut self, entry: EntryRef, asker: InRecord) -> Result<bool, PitFull> {
        let expiry = asker.expiry;
        let is_new_asker = self.pit.upsert_in(entry, asker)?;
        // "Expiry timer = latest in-record expiry."
        let mut latest = self.pit.in_records(entry).map(|record| record.expiry).max().unwrap_or(expiry);
        // It may have lingered behind the Data that answered it.
        self.pit.set_satisfied(entry, None);
        if self.pit.strategy_bits(entry) & WANTS_WAKING != 0 {
            latest = latest.min(self.pit.expiry(entry).unwrap_or(latest));
        }
        self.pit.set_expiry(entry, latest);
        Ok(is_new_asker)
    }

    /// "Duplicate nonce in any in-/out-record: loop, except on a pt2pt face when the same face already has this nonce (plain retransmission)."
    fn is_duplicate(&self, entry: EntryRef, ingress: FaceId, nonce: u32, link_type: LinkType) -> bool {
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
        let strategy = match self.fib.lookup(meta.name_in(context.pool.bytes(&packet)), &meta.prefixes) {
            Some(route) => route.strategy,
            None => Strategies::DEFAULT,
        };
        if face.link_type == LinkType::PointToPoint && self.strategies.strategy(strategy).nacks_loops() {
            self.send_back(packet, NackReason::Duplicate, context);
        } else {
            context.pool.drop_packet(packet, Cause::DuplicateNonce, context.drops);
        }
    }

    /// "Strip ForwardingHint if in producer region": one of its names is a prefix of a region's.
    fn strip_hint(&mut self, packet: Packet, context: &mut Context<'_, Out>) -> Option<Packet> {
        match hints::strip(&self.regions, packet, context.pool) {
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
        now: Instant,
        entry: EntryRef,
        packet: Packet,
        next_hop: FaceId,
        context: &mut Context<'_, Out>,
    ) {
        if !self.faces.contains(next_hop) {
            return context.pool.drop_packet(packet, Cause::NextHopUnknown, context.drops);
        }
        self.send_interest(now, entry, packet, Forward::plain(next_hop), context);
    }

    fn ask_strategy(
        &mut self,
        now: Instant,
        entry: EntryRef,
        packet: Packet,
        face: FaceInfo,
        is_new_asker: bool,
        context: &mut Context<'_, Out>,
    ) {
        let (bytes, meta) = context.pool.view(&packet);
        let ingress = meta.ingress;
        let name = meta.name_in(bytes);
        let route = self.fib.lookup_hinted(name, &meta.prefixes, &meta.route_hint);
        let (strategy, by_name, route_len) = route
            .map_or((Strategies::DEFAULT, NOWHERE, 0), |r| (r.strategy, r.next_hops, r.prefix_len as u8));
        // The hint says where to; the strategy is still that of the name.
        let next_hops = if meta.hint.1 == 0 {
            by_name
        } else {
            hints::next_hops(&self.fib, &self.key, hints::names(meta, bytes))
        };
        let eligibility = Eligibility::new(
            &self.faces,
            ingress,
            meta.ingress_local,
            self.scopes.of(|| name, &meta.prefixes),
        );
        let event = Event { now, entry, ingress, next_hops, eligibility, meta, bytes, route_len, strategy };
        let mut event =
            StrategyContext::new(event, &mut self.pit, &mut self.strategy_state, &mut self.decisions);
        self.strategies.strategy(strategy).after_interest(&mut event);

        let forwards = self.decisions.forwards.len();
        if forwards == 0 {
            return self.not_forwarded(now, entry, packet, face, is_new_asker, context);
        }
        if self.decisions.extras.wake_ms != 0 {
            self.set_waking(now, entry);
        }
        for at in 0..forwards - 1 {
            let forward = self.decisions.forwards[at];
            self.send_copy(now, entry, &packet, forward, context);
        }
        let last = self.decisions.forwards[forwards - 1];
        self.send_interest(now, entry, packet, last, context);
    }

    fn send_copy(
        &mut self,
        now: Instant,
        entry: EntryRef,
        packet: &Packet,
        forward: Forward,
        context: &mut Context<'_, Out>,
    ) {
        if forward.form == Form::Probe {
            return self.send_again(now, entry, context.pool.meta(packet).ingress, forward, context);
        }
        let Some(copy) = context.pool.share(packet) else {
            return context.drops.count(Cause::NoBuffer);
        };
        context.pool.meta_mut(&copy).link = context.pool.meta(packet).link;
        self.send_interest(now, entry, copy, forward, context);
    }

    fn not_forwarded(
        &mut self,
        now: Instant,
        entry: EntryRef,
        packet: Packet,
        face: FaceInfo,
        is_new_asker: bool,
        context: &mut Context<'_, Out>,
    ) {
        let ingress = context.pool.meta(&packet).ingress;
        match self.decisions.nacks {
            Nacks::One(_, reason) | Nacks::All(reason) => {
                self.pit.remove_in(entry, ingress);
                if self.pit.in_records(entry).next().is_none() {
                    self.finish_unsatisfied(now, entry);
                }
                self.refuse(packet, face, reason, Cause::NoRoute, context);
            }
            Nacks::Nobody => {
                let cause = match (self.decisions.suppressed, is_new_asker) {
                    (true, true) => Cause::Aggregated,
                    (true, false) => Cause::RetransmissionSuppressed,
                    (false, _) => Cause::NoRoute,
                };
                context.pool.drop_packet(packet, cause, context.drops);
            }
        }
    }

    /// "A full table answers Nack(Congestion) and counts it."
    #[cold]
    pub(super) fn refuse_full(
        &mut self,
        packet: Packet,
        face: FaceInfo,
        full: PitFull,
        context: &mut Context<'_, Out>,
    ) {
        let cause = match full {
            PitFull::Table => Cause::PitFull,
            PitFull::Face => Cause::PitFullForFace,
        };
        self.refuse(packet, face, NackReason::Congestion, cause, context);
    }

    /// Counts why, and sends the Interest back as a Nack where the link carries Nacks.
    fn refuse(
        &mut self,
        packet: Packet,
        face: FaceInfo,
        reason: NackReason,
        cause: Cause,
        context: &mut Context<'_, Out>,
    ) {
        if face.link_type == LinkType::PointToPoint {
            context.drops.count(cause);
            self.send_back(packet, reason, context);
        } else {
            context.pool.drop_packet(packet, cause, context.drops);
        }
    }
}
