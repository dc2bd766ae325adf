//! Traces decisions of the plane about packets with certain names, for `nw trace`.
//!
//! The elements do not report decisions. The [`Tracer`] processes each traced packet alone: it
//! takes a snapshot of the tables before, compares it with their state afterwards, and derives the
//! decisions. Pure, as the plane is.

use crate::plane::{BATCH, Plane};
use core::time::Duration;
use nw_element_api::decision_trace::{Decision, DecisionTrace, NotSent};
use nw_element_api::{
    DropCause, DropCounters, Element as _, FaceId, Kind, Meta, Packet, Pool, Timestamp,
};
use nw_elements::scope::NameScope;
use nw_elements::strategy::Eligibility;
use nw_name::{HashKey, Name, PrefixHashes};
use nw_tables::InterestKey;
use nw_tables::cs::CsCounters;
use nw_tables::fib::{FibEntry, NextHop};
use nw_tables::pit::{EntryRef, MATCHES_MAX};
use nw_wire::NackReason;
use nw_wire::interest::HintNames;

/// Pending Interests that are traced until they end.
const PENDING_MAX: usize = 64;
/// Delegations of a ForwardingHint that forwarding considers.
const FORWARDING_HINTS_MAX: usize = 16;

/// Records decisions about traced packets.
#[derive(Debug)]
pub struct Tracer {
    /// The recorded decisions.
    pub journal: DecisionTrace,
    /// Traced PIT entries that have not ended, with name and time of insertion.
    pending: Vec<(EntryRef, Name, Timestamp)>,
}

/// A packet and the state of the tables before it is processed.
struct PacketSnapshot {
    kind: Kind,
    ingress: FaceId,
    ingress_local: bool,
    name: Name,
    can_be_prefix: bool,
    must_be_fresh: bool,
    forwarding_hints: Vec<Name>,
    freshness_ms: u32,
    nack: NackReason,
    drops: DropCounters,
    store: CsCounters,
    /// How long a matching Data packet in the content store has been stale.
    stale_since: Option<Duration>,
    /// The PIT entry with the same name and selectors, if any.
    pending: Option<EntryRef>,
    /// The ingress face had an in-record.
    was_downstream: bool,
    /// When the Interest was sent to the ingress face.
    sent: Option<Timestamp>,
    /// PIT entries that a Data packet satisfies.
    satisfied: u32,
}

impl Tracer {
    /// Creates a tracer that records into `journal`.
    pub fn new(journal: DecisionTrace) -> Self {
        Tracer { journal, pending: Vec::with_capacity(PENDING_MAX) }
    }

    /// Processes packets as [`Plane::process`] does. Packets with traced names go through alone,
    /// the others in batches between them, in their order.
    #[cold]
    pub fn process(
        &mut self,
        now: Timestamp,
        plane: &mut Plane,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        plane.resolve_names(packets, pool);
        // After its end a trace records nothing more; its events still wait to be fetched.
        let is_over = self.journal.is_expired(now);
        let mut batch = Vec::with_capacity(BATCH);
        for packet in packets.drain(..) {
            if is_over || !self.journal.watches(pool.meta(&packet).name_in(pool.bytes(&packet))) {
                batch.push(packet);
                continue;
            }
            plane.process(now, &mut batch, pool, out);
            self.process_traced(now, plane, packet, pool, out);
        }
        plane.process(now, &mut batch, pool, out);
    }

    /// Runs the plane's timers and records the pending Interests that expire.
    pub fn tick(
        &mut self,
        now: Timestamp,
        plane: &mut Plane,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let is_router_due = plane.router().deadline().is_some_and(|deadline| deadline <= now);
        plane.tick(now, pool, out);
        if is_router_due {
            self.record_expired(now, plane);
        }
    }

    /// Processes one packet and records what the plane decided about it.
    fn process_traced(
        &mut self,
        now: Timestamp,
        plane: &mut Plane,
        packet: Packet,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let before = self.snapshot(now, plane, &packet, pool);
        let first_out = out.len();
        plane.process(now, &mut vec![packet], pool, out);
        let key = *pool.key();
        match before.kind {
            Kind::Interest => {
                self.record_interest(now, &before, plane, &key, pool, &out[first_out..])
            }
            Kind::Data => self.record_data(now, &before, plane),
            Kind::Nack | Kind::Publication => {}
        }
        self.record_outgoing(now, &before, pool, &out[first_out..]);
        for (reason, count) in plane.drops().iter() {
            // An Interest answered from the content store is also counted as a drop; its StoreHit
            // says the same.
            if count > before.drops.total(reason) && reason != DropCause::CacheHit.into() {
                self.journal.record(now, Decision::Dropped(reason));
            }
        }
        // Entries that ended now were satisfied or rejected, which is recorded already.
        self.pending.retain(|(entry, ..)| plane.router().pit().contains(*entry));
    }

    /// Records the traced entries that expired in the last tick.
    fn record_expired(&mut self, now: Timestamp, plane: &Plane) {
        let journal = &mut self.journal;
        self.pending.retain(|(entry, name, started)| {
            let pending = plane.router().pit().contains(*entry);
            if !pending {
                journal.start(name.as_ref());
                journal.record(now, Decision::Expired(now.since(*started)));
            }
            pending
        });
    }

    /// Records the arrival of a packet and the state of the tables before it is processed.
    fn snapshot(
        &mut self,
        now: Timestamp,
        plane: &mut Plane,
        packet: &Packet,
        pool: &Pool,
    ) -> PacketSnapshot {
        let (bytes, meta) = (pool.bytes(packet), pool.meta(packet));
        let name = meta.name_in(bytes);
        self.journal.start(name);
        let interest_key = InterestKey {
            name,
            prefixes: &meta.prefixes,
            can_be_prefix: meta.can_be_prefix,
            must_be_fresh: meta.must_be_fresh,
        };
        let (drops, store) = (plane.drops().clone(), plane.content_store().store().counters());
        let needs_fresh = meta.kind == Kind::Interest && meta.must_be_fresh;
        let stale = needs_fresh
            .then(|| plane.content_store_mut().store_mut().stale(now, &interest_key))
            .flatten();
        let pit = plane.router().pit();
        let mut matched = Vec::with_capacity(MATCHES_MAX);
        let pending = match meta.kind {
            Kind::Interest | Kind::Nack => pit.find(&interest_key),
            Kind::Publication => None,
            Kind::Data => {
                let token = pit.by_token(meta.link.token.as_bytes());
                pit.matches(
                    name,
                    &meta.prefixes,
                    token,
                    || nw_wire::sha256(&[bytes]),
                    &mut matched,
                );
                None
            }
        };
        let sent_to_ingress =
            |entry: EntryRef| pit.out_record(entry, meta.ingress).map(|record| record.sent);
        let hints = HintNames::from_checked(meta.forwarding_hint.in_bytes(bytes));
        let before = PacketSnapshot {
            kind: meta.kind,
            ingress: meta.ingress,
            ingress_local: meta.ingress_local,
            name: name.to_name(),
            can_be_prefix: meta.can_be_prefix,
            must_be_fresh: meta.must_be_fresh,
            forwarding_hints: hints.take(FORWARDING_HINTS_MAX).map(|hint| hint.to_name()).collect(),
            freshness_ms: meta.freshness_ms,
            nack: meta.link.nack.unwrap_or(NackReason::None),
            drops,
            store,
            stale_since: stale.map(|until| now.since(until)),
            was_downstream: pending
                .is_some_and(|entry| pit.in_record(entry, meta.ingress).is_some()),
            sent: match meta.kind {
                Kind::Data => matched.iter().filter_map(|entry| sent_to_ingress(*entry)).min(),
                Kind::Interest | Kind::Nack => pending.and_then(sent_to_ingress),
                Kind::Publication => None,
            },
            pending,
            satisfied: matched.len() as u32,
        };
        self.record_arrival(now, &before, meta, bytes);
        before
    }

    /// Records that a packet was received.
    fn record_arrival(
        &mut self,
        now: Timestamp,
        before: &PacketSnapshot,
        meta: &Meta,
        bytes: &[u8],
    ) {
        let (face, after) = (before.ingress, before.sent.map(|sent| now.since(sent)));
        let decision = match before.kind {
            Kind::Interest => Decision::InterestIn {
                face,
                can_be_prefix: before.can_be_prefix,
                must_be_fresh: before.must_be_fresh,
                lifetime_ms: meta.lifetime_ms,
                hop_limit: (meta.hop_limit_start != 0)
                    .then(|| bytes[usize::from(meta.hop_limit_start)]),
            },
            Kind::Data => Decision::DataIn {
                face,
                after,
                answers: before.satisfied,
                freshness_ms: before.freshness_ms,
            },
            Kind::Nack => Decision::NackIn { face, reason: before.nack, after },
            // Traces follow names.
            Kind::Publication => return,
        };
        self.journal.record(now, decision);
    }

    /// Records what the content store, the PIT and the FIB decided about an Interest.
    fn record_interest(
        &mut self,
        now: Timestamp,
        before: &PacketSnapshot,
        plane: &Plane,
        key: &HashKey,
        pool: &Pool,
        out: &[Packet],
    ) {
        let store = plane.content_store().store();
        let (hits, misses) = (store.counters().hits, store.counters().misses);
        match before.stale_since {
            _ if hits > before.store.hits => return self.journal.record(now, Decision::StoreHit),
            _ if !store.serves() => self.journal.record(now, Decision::StoreOff),
            // The Interest did not reach the content store.
            _ if misses == before.store.misses => return,
            Some(since) => self.journal.record(now, Decision::StoreStale(since)),
            None => self.journal.record(now, Decision::StoreMiss),
        }
        let prefixes = PrefixHashes::of(key, before.name.as_ref());
        let interest_key = InterestKey {
            name: before.name.as_ref(),
            prefixes: &prefixes,
            can_be_prefix: before.can_be_prefix,
            must_be_fresh: before.must_be_fresh,
        };
        let pit = plane.router().pit();
        match pit.find(&interest_key) {
            Some(entry) if before.pending == Some(entry) => {
                let downstreams = pit.in_records(entry).count() as u32;
                self.journal.record(
                    now,
                    Decision::PendingJoined { downstreams, again: before.was_downstream },
                );
            }
            Some(entry) => {
                self.journal.record(now, Decision::PendingNew);
                if self.pending.len() < PENDING_MAX {
                    self.pending.push((entry, before.name.clone(), now));
                }
            }
            // Rejected or not inserted: the recorded drop or Nack explains it.
            None => {}
        }
        let by_name = plane.router().fib().lookup(before.name.as_ref(), &prefixes);
        let by_hint = before.forwarding_hints.iter().find_map(|hint| {
            let entry =
                plane.router().fib().lookup(hint.as_ref(), &PrefixHashes::of(key, hint.as_ref()));
            entry.filter(|entry| !entry.next_hops.is_empty())
        });
        let Some(route) = by_hint.or(by_name) else {
            return self.journal.record(now, Decision::NoRoute);
        };
        self.journal.record(
            now,
            Decision::Route {
                prefix_len: route.prefix_len,
                next_hops: route.next_hops.len() as u32,
                by_hint: by_hint.is_some(),
            },
        );
        if let Some(strategy) = by_name.map(|route| route.strategy) {
            self.journal.record(now, Decision::Strategy(strategy));
        }
        self.record_next_hops(now, before, plane, route, pool, out);
    }

    /// Records to which next hops an Interest was sent, and why not to the others.
    fn record_next_hops(
        &mut self,
        now: Timestamp,
        before: &PacketSnapshot,
        plane: &Plane,
        route: FibEntry<'_>,
        pool: &Pool,
        out: &[Packet],
    ) {
        let sent: Vec<FaceId> = interests(out, pool).collect();
        let eligible: Vec<NextHop> = eligible_next_hops(before, plane, route.next_hops).collect();
        for hop in route.next_hops {
            if sent.contains(&hop.face) {
                continue;
            }
            let reason = match plane.router().faces().info(hop.face) {
                None => NotSent::Gone,
                // Not sent at all: the recorded end of the Interest explains it.
                Some(_) if sent.is_empty() && eligible.contains(hop) => continue,
                Some(_) if eligible.contains(hop) => NotSent::NotChosen,
                Some(_) if hop.face == before.ingress => NotSent::CameFrom,
                Some(_) => NotSent::Scope,
            };
            self.journal
                .record(now, Decision::NotSent { face: hop.face, cost: hop.cost, why: reason });
        }
        for face in &sent {
            let rank = eligible.iter().position(|hop| hop.face == *face);
            self.journal.record(
                now,
                Decision::InterestOut {
                    face: *face,
                    cost: rank.map(|rank| eligible[rank].cost),
                    place: rank.unwrap_or(0) as u32,
                    usable: eligible.len() as u32,
                    sent: sent.len() as u32,
                },
            );
        }
    }

    /// Records whether Data was cached.
    fn record_data(&mut self, now: Timestamp, before: &PacketSnapshot, plane: &Plane) {
        if before.satisfied == 0 {
            return;
        }
        let counters = plane.content_store().store().counters();
        let decision = if counters.insertions > before.store.insertions {
            Decision::Cached
        } else if counters.refreshes > before.store.refreshes {
            Decision::CachedAgain
        } else {
            Decision::NotCached
        };
        self.journal.record(now, decision);
    }

    /// Records outgoing Data and Nacks, and Interests that were not caused by an incoming Interest.
    fn record_outgoing(
        &mut self,
        now: Timestamp,
        before: &PacketSnapshot,
        pool: &Pool,
        out: &[Packet],
    ) {
        for packet in out {
            let meta = pool.meta(packet);
            let face = meta.egress;
            match meta.kind {
                Kind::Data => self.journal.record(now, Decision::DataOut(face)),
                Kind::Nack => {
                    let reason = meta.link.nack.unwrap_or(NackReason::None);
                    self.journal.record(now, Decision::NackOut { face, reason });
                }
                Kind::Interest if before.kind == Kind::Interest => {}
                Kind::Publication => {}
                Kind::Interest => self.journal.record(
                    now,
                    Decision::InterestOut { face, cost: None, place: 0, usable: 0, sent: 1 },
                ),
            }
        }
    }
}

fn interests<'a>(out: &'a [Packet], pool: &'a Pool) -> impl Iterator<Item = FaceId> + 'a {
    let metas = out.iter().map(|packet| pool.meta(packet));
    metas.filter(|meta| meta.kind == Kind::Interest).map(|meta| meta.egress)
}

fn eligible_next_hops<'a>(
    before: &PacketSnapshot,
    plane: &'a Plane,
    next_hops: &'a [NextHop],
) -> impl Iterator<Item = NextHop> + 'a {
    let scope = NameScope::of(before.name.as_ref());
    let eligibility =
        Eligibility::new(plane.router().faces(), before.ingress, before.ingress_local, scope);
    next_hops.iter().copied().filter(move |hop| eligibility.allows(hop.face))
}
