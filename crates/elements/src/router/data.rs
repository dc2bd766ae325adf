//! Incoming Data: satisfies every pending Interest that it matches.
//!
//! Invariant: Data is forwarded only to faces with an unexpired in-record in an entry that it
//! matches and, unless configured otherwise, only if that entry was sent to the Data's ingress
//! face.

use super::{Out, Router};
use crate::interest_key::interest_key;
use crate::strategy::{RouteEvent, WANTS_DATA};
use nw_element_api::decode::resolve_name_or_drop;
use nw_element_api::{
    Context, DropCause, FaceId, Kind, LinkFields, LinkType, Meta, Packet, Pool, Timestamp,
};
use nw_tables::FaceTable;
use nw_tables::pit::{EntryRef, MATCHES_MAX, SingleMatch};
use nw_wire::Token;

impl Router {
    /// Satisfies the pending Interests that a Data matches. Most Data match one entry with one
    /// downstream by their token: the fast form.
    #[inline(always)]
    pub(super) fn data(&mut self, now: Timestamp, packet: Packet, context: &mut Context<'_, Out>) {
        let (bytes, meta) = context.pool.view_mut(&packet);
        match self.pit.match_one(meta.name_in(bytes), &meta.prefixes, &meta.link.token) {
            Some(single)
                if single.upstream == meta.ingress && single.strategy_bits & WANTS_DATA == 0 =>
            {
                self.satisfy_fast(now, meta, &single);
                context.out.send(Out::Data, packet);
            }
            _ if meta.name_deferred => self.resolve_name_first(now, packet, context),
            _ => self.satisfy_slow(now, packet, context),
        }
    }

    /// Handles Data with a deferred name whose token leads to no pending Interest of that name
    /// alone.
    #[cold]
    fn resolve_name_first(
        &mut self,
        now: Timestamp,
        packet: Packet,
        context: &mut Context<'_, Out>,
    ) {
        if let Some(packet) = resolve_name_or_drop(context.pool, packet, context.drops) {
            self.data(now, packet, context);
        }
    }

    /// Returns whether this Data satisfies a pending Interest, or an out-record exists for this
    /// Nack.
    pub(super) fn is_awaiting(&self, packet: &Packet, pool: &Pool) -> bool {
        self.is_awaiting_from(pool.meta(packet).ingress, packet, pool)
    }

    /// As [`is_awaiting`](Self::is_awaiting), as if the packet came from the face `asked`.
    pub(crate) fn is_awaiting_from(&self, asked: FaceId, packet: &Packet, pool: &Pool) -> bool {
        self.awaits_into(asked, packet, pool, &mut Vec::with_capacity(MATCHES_MAX))
    }

    /// As [`is_awaiting_from`](Self::is_awaiting_from), without an allocation.
    pub(crate) fn awaits_from(&mut self, asked: FaceId, packet: &Packet, pool: &Pool) -> bool {
        let mut matched = core::mem::take(&mut self.matched);
        matched.clear();
        let awaits = self.awaits_into(asked, packet, pool, &mut matched);
        self.matched = matched;
        awaits
    }

    fn awaits_into(
        &self,
        asked: FaceId,
        packet: &Packet,
        pool: &Pool,
        matched: &mut Vec<EntryRef>,
    ) -> bool {
        let (bytes, meta) = pool.view(packet);
        let token = self.pit.by_token(meta.link.token.as_bytes());
        match meta.kind {
            Kind::Interest | Kind::Publication => return false,
            Kind::Data => {
                let digest = || nw_wire::sha256(&[bytes]);
                self.pit.matches(meta.name_in(bytes), &meta.prefixes, token, digest, matched);
            }
            Kind::Nack => matched.extend(self.pit.find(&interest_key(meta, bytes))),
        }
        matched.iter().any(|entry| self.pit.out_record(*entry, asked).is_some())
    }

    /// Satisfies one entry with one downstream: the fast form of
    /// [`satisfy_slow`](Self::satisfy_slow).
    #[inline(always)]
    fn satisfy_fast(&mut self, now: Timestamp, meta: &mut Meta, single: &SingleMatch) {
        if meta.name_deferred {
            meta.prefixes.set_full_hash(single.hash, meta.name.len);
        }
        self.dead_nonces.insert_satisfied(now, single.hash, single.nonce);
        self.counters.satisfied += 1;
        self.pit.remove_match(single);
        let downstream = &single.downstream;
        let is_waiting = downstream.expiry > now
            && (downstream.face != meta.ingress || is_ad_hoc(&self.faces, meta.ingress));
        meta.cached = meta.link.no_cache;
        meta.egress = if is_waiting { downstream.face } else { FaceId::NONE };
        let congestion_mark = meta.link.congestion_mark;
        meta.link.clear();
        meta.link.congestion_mark = congestion_mark;
        meta.link.incoming_face = meta.ingress;
        match downstream.token.to_short() {
            Some((bytes, len)) => meta.link.token.set_short(bytes, len),
            None => meta.link.token = downstream.token,
        }
    }

    /// Satisfies any number of entries with any number of downstreams.
    #[inline(never)]
    fn satisfy_slow(&mut self, now: Timestamp, packet: Packet, context: &mut Context<'_, Out>) {
        let mut matched = core::mem::take(&mut self.matched);
        let mut downstreams = core::mem::take(&mut self.downstreams);
        matched.clear();
        downstreams.clear();
        match self.find_matches(&packet, &mut matched, context) {
            Ok(()) => {
                let route_event =
                    self.collect_downstreams(now, &packet, &matched, &mut downstreams, context);
                match route_event {
                    RouteEvent::None => send_data(packet, &downstreams, context),
                    _ => self.send_announced(now, packet, &downstreams, route_event, context),
                }
            }
            Err(cause) => context.pool.drop_packet(packet, cause, context.drops),
        }
        self.matched = matched;
        self.downstreams = downstreams;
    }

    /// "Match ALL PIT entries (exact name, prefixes with CanBePrefix, full name); none:
    /// unsolicited." Entries without an out-record for the ingress face are left out.
    #[inline]
    fn find_matches(
        &self,
        packet: &Packet,
        matched: &mut Vec<EntryRef>,
        context: &Context<'_, Out>,
    ) -> Result<(), DropCause> {
        let (bytes, meta) = context.pool.view(packet);
        // Our token if the peer returns tokens; any other finds nothing.
        let token = self.pit.by_token(meta.link.token.as_bytes());
        let digest = || nw_wire::sha256(&[bytes]);
        self.pit.matches(meta.name_in(bytes), &meta.prefixes, token, digest, matched);
        if matched.is_empty() {
            return Err(DropCause::UnsolicitedData);
        }
        // Management answers by token: its answer may be below the name of another client's
        // Interest.
        if meta.ingress == FaceId::INTERNAL && token.is_some() && token == matched.first().copied()
        {
            matched.truncate(1);
        }
        if !self.accept_data_from_any_face {
            matched.retain(|entry| self.pit.out_record(*entry, meta.ingress).is_some());
            if matched.is_empty() {
                return Err(DropCause::DataFromWrongFace);
            }
        }
        Ok(())
    }

    /// Ends the entries and collects the downstreams that get the Data.
    ///
    /// A face with in-records in several entries gets one copy per token it sent, as a peer with
    /// tokens finds its entries by them; a peer without tokens gets one copy.
    #[inline]
    fn collect_downstreams(
        &mut self,
        now: Timestamp,
        packet: &Packet,
        matched: &[EntryRef],
        downstreams: &mut Vec<(FaceId, Token)>,
        context: &Context<'_, Out>,
    ) -> RouteEvent {
        let mut route_event = RouteEvent::None;
        let meta = context.pool.meta(packet);
        let (ingress, freshness_ms) = (meta.ingress, meta.freshness_ms);
        let ad_hoc = is_ad_hoc(&self.faces, ingress);
        for &entry in matched {
            let mut hold_ms = 0;
            if self.pit.strategy_bits(entry) & WANTS_DATA != 0 {
                let extras = self.strategy_after_data(now, entry, packet, context);
                // An entry held for late Data was counted already and stays held.
                hold_ms = extras.hold_ms.max(u16::from(self.pit.satisfied(entry).is_some()));
                if extras.route_event != RouteEvent::None {
                    route_event = extras.route_event;
                }
            }
            // "Every unexpired in-record face except the incoming (unless ad-hoc), each with its
            // own PIT token."
            for record in self.pit.in_records(entry) {
                if record.expiry > now && (ad_hoc || record.face != ingress) {
                    downstreams.push((record.face, record.token));
                }
            }
            match hold_ms {
                0 => self.finish_satisfied(now, entry),
                _ => self.hold_for_late_data(now, entry, ingress, freshness_ms, hold_ms),
            }
        }
        if matched.len() > 1 {
            downstreams.sort_unstable_by(|(a, a_token), (b, b_token)| {
                a.cmp(b).then_with(|| a_token.as_bytes().cmp(b_token.as_bytes()))
            });
            downstreams.dedup();
        }
        route_event
    }
}

/// Returns whether packets may be sent back to the face they came from.
fn is_ad_hoc(faces: &FaceTable, face: FaceId) -> bool {
    faces.info(face).is_some_and(|info| info.link_type == LinkType::AdHoc)
}

/// Returns the link fields of forwarded Data, without the token of each downstream.
#[inline]
fn data_fields(meta: &Meta) -> LinkFields {
    LinkFields {
        congestion_mark: meta.link.congestion_mark,
        incoming_face: meta.ingress,
        ..LinkFields::default()
    }
}

/// Sends one copy per downstream, all over the same bytes. The last one is the packet itself, which
/// a content store may cache.
#[inline]
pub(super) fn send_data(
    packet: Packet,
    downstreams: &[(FaceId, Token)],
    context: &mut Context<'_, Out>,
) {
    let meta = context.pool.meta_mut(&packet);
    // "CachePolicy NoCache is honoured from any face", and not forwarded.
    let cached = meta.link.no_cache;
    let link = data_fields(meta);
    meta.link = link;
    meta.egress = FaceId::NONE;
    if let Some(((last, last_token), copies)) = downstreams.split_last() {
        // Copies inherit this flag: only the packet itself is for the content store.
        meta.cached = true;
        for (face, token) in copies {
            let Some(copy) = context.pool.clone_shallow(&packet) else {
                context.drops.count(DropCause::NoBuffer);
                continue;
            };
            let meta = context.pool.meta_mut(&copy);
            meta.egress = *face;
            meta.link = LinkFields { token: *token, ..link };
            context.out.send(Out::Data, copy);
        }
        let meta = context.pool.meta_mut(&packet);
        meta.egress = *last;
        meta.link.token = *last_token;
    }
    context.pool.meta_mut(&packet).cached = cached;
    context.out.send(Out::Data, packet);
}
