//! What the plane decided about a packet, found out by looking before and after: the elements themselves know nothing of it.
//!
//! Only packets that a [`Journal`] watches come here, one at a time. Pure, as the plane is.

use crate::plane::Plane;
use core::time::Duration;
use nw_element_api::journal::{Decision, Journal, NotSent};
use nw_element_api::{Cause, DropCounters, FaceId, Instant, Kind, Packet, Pool};
use nw_elements::scope::NameScope;
use nw_elements::strategy::Eligibility;
use nw_name::{HashKey, Name, Prefixes};
use nw_tables::Ask;
use nw_tables::cs::CsCounters;
use nw_tables::fib::{FibEntry, NextHop};
use nw_tables::pit::{EntryRef, MATCHES_MAX};
use nw_wire::NackReason;
use nw_wire::interest::HintNames;

/// Pending Interests whose end is waited for.
const WATCHED_MAX: usize = 64;
/// As many names of a forwarding hint as forwarding looks at.
const HINTS_MAX: usize = 16;

/// A journal, and the pending Interests it has seen begin.
#[derive(Debug)]
pub struct Explainer {
    /// What is written.
    pub journal: Journal,
    watched: Vec<(EntryRef, Name, Instant)>,
}

/// A packet before it is processed.
struct Before {
    kind: Kind,
    ingress: FaceId,
    ingress_local: bool,
    name: Name,
    can_be_prefix: bool,
    must_be_fresh: bool,
    hints: Vec<Name>,
    freshness_ms: u32,
    nack: NackReason,
    drops: DropCounters,
    store: CsCounters,
    stale: Option<Duration>,
    /// The pending Interest of the same identity, how many waited for it, whether this face did, when it was sent to this face.
    pending: Option<EntryRef>,
    asked_before: bool,
    sent: Option<Instant>,
    answers: u32,
}

impl Explainer {
    /// Writes into this journal.
    pub fn new(journal: Journal) -> Self {
        Explainer { journal, watched: Vec::with_capacity(WATCHED_MAX) }
    }

    /// Looks at a packet, has it processed, and looks what came of it.
    pub fn explain(
        &mut self,
        now: Instant,
        plane: &mut Plane,
        packet: Packet,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        process: impl FnOnce(&mut Plane, Packet, &mut Pool, &mut Vec<Packet>),
    ) {
        let before = self.look(now, plane, &packet, pool);
        let out_start = out.len();
        process(plane, packet, pool, out);
        let key = *pool.key();
        match before.kind {
            Kind::Interest => self.interest(now, &before, plane, &key, pool, &out[out_start..]),
            Kind::Data => self.data(now, &before, plane),
            Kind::Nack => {}
        }
        self.departures(now, &before, pool, &out[out_start..]);
        for (reason, count) in plane.drops().iter() {
            // An Interest that was answered ends as a drop by that name: here the answer says it.
            if count > before.drops.total(reason) && reason != Cause::CacheHit.into() {
                self.journal.note(now, Decision::Dropped(reason));
            }
        }
        // What has ended meanwhile was answered or refused, as was written.
        self.watched.retain(|(entry, ..)| plane.router().pit().contains(*entry));
    }

    /// To be called after time has passed: what ended then ended for want of an answer.
    pub fn after_tick(&mut self, now: Instant, plane: &Plane) {
        let journal = &mut self.journal;
        self.watched.retain(|(entry, name, began)| {
            let pending = plane.router().pit().contains(*entry);
            if !pending {
                journal.begin(name.as_ref());
                journal.note(now, Decision::Expired(now.since(*began)));
            }
            pending
        });
    }

    fn look(&mut self, now: Instant, plane: &mut Plane, packet: &Packet, pool: &Pool) -> Before {
        let (bytes, meta) = (pool.bytes(packet), pool.meta(packet));
        let name = meta.name_in(bytes);
        self.journal.begin(name);
        let ask = Ask {
            name,
            prefixes: &meta.prefixes,
            can_be_prefix: meta.can_be_prefix,
            must_be_fresh: meta.must_be_fresh,
        };
        let (drops, store) = (plane.drops().clone(), plane.content_store().store().counters());
        let wants_fresh = meta.kind == Kind::Interest && meta.must_be_fresh;
        let stale = wants_fresh.then(|| plane.content_store_mut().store_mut().stale(now, &ask)).flatten();
        let pit = plane.router().pit();
        let mut matched = Vec::with_capacity(MATCHES_MAX);
        let pending = match meta.kind {
            Kind::Interest | Kind::Nack => pit.find(&ask),
            Kind::Data => {
                let token = pit.by_token(meta.link.token.as_bytes());
                pit.matches(name, &meta.prefixes, token, || nw_wire::sha256(&[bytes]), &mut matched);
                None
            }
        };
        let sent_there = |entry: EntryRef| pit.out_record(entry, meta.ingress).map(|record| record.sent);
        let (hint_start, hint_len) = (usize::from(meta.hint.0), usize::from(meta.hint.1));
        let hints = HintNames::from_checked(&bytes[hint_start..hint_start + hint_len]);
        let before = Before {
            kind: meta.kind,
            ingress: meta.ingress,
            ingress_local: meta.ingress_local,
            name: name.to_name(),
            can_be_prefix: meta.can_be_prefix,
            must_be_fresh: meta.must_be_fresh,
            hints: hints.take(HINTS_MAX).map(|hint| hint.to_name()).collect(),
            freshness_ms: meta.freshness_ms,
            nack: meta.link.nack.unwrap_or(NackReason::None),
            drops,
            store,
            stale: stale.map(|until| now.since(until)),
            asked_before: pending.is_some_and(|entry| pit.in_record(entry, meta.ingress).is_some()),
            sent: match meta.kind {
                Kind::Data => matched.iter().filter_map(|entry| sent_there(*entry)).min(),
                Kind::Interest | Kind::Nack => pending.and_then(sent_there),
            },
            pending,
            answers: matched.len() as u32,
        };
        let after = before.sent.map(|sent| now.since(sent));
        self.journal.note(
            now,
            match before.kind {
                Kind::Interest => Decision::InterestIn {
                    face: before.ingress,
                    can_be_prefix: before.can_be_prefix,
                    must_be_fresh: before.must_be_fresh,
                    lifetime_ms: meta.lifetime_ms,
                    hop_limit: (meta.hop_limit_start != 0).then(|| bytes[usize::from(meta.hop_limit_start)]),
                },
                Kind::Data => Decision::DataIn {
                    face: before.ingress,
                    after,
                    answers: before.answers,
                    freshness_ms: before.freshness_ms,
                },
                Kind::Nack => Decision::NackIn { face: before.ingress, reason: before.nack, after },
            },
        );
        before
    }

    fn interest(
        &mut self,
        now: Instant,
        before: &Before,
        plane: &Plane,
        key: &HashKey,
        pool: &Pool,
        out: &[Packet],
    ) {
        let store = plane.content_store().store();
        let (hits, misses) = (store.counters().hits, store.counters().misses);
        match before.stale {
            _ if hits > before.store.hits => return self.journal.note(now, Decision::StoreHit),
            _ if !store.serves() => self.journal.note(now, Decision::StoreOff),
            // It never came so far.
            _ if misses == before.store.misses => return,
            Some(since) => self.journal.note(now, Decision::StoreStale(since)),
            None => self.journal.note(now, Decision::StoreMiss),
        }
        let prefixes = Prefixes::of(key, before.name.as_ref());
        let ask = Ask {
            name: before.name.as_ref(),
            prefixes: &prefixes,
            can_be_prefix: before.can_be_prefix,
            must_be_fresh: before.must_be_fresh,
        };
        let pit = plane.router().pit();
        match pit.find(&ask) {
            Some(entry) if before.pending == Some(entry) => {
                let downstreams = pit.in_records(entry).count() as u32;
                self.journal.note(now, Decision::PendingJoined { downstreams, again: before.asked_before });
            }
            Some(entry) => {
                self.journal.note(now, Decision::PendingNew);
                if self.watched.len() < WATCHED_MAX {
                    self.watched.push((entry, before.name.clone(), now));
                }
            }
            // Refused at once, or never entered: what was dropped or sent back says so.
            None => {}
        }
        let by_name = plane.router().fib().lookup(before.name.as_ref(), &prefixes);
        let by_hint = before.hints.iter().find_map(|hint| {
            let found = plane.router().fib().lookup(hint.as_ref(), &Prefixes::of(key, hint.as_ref()));
            found.filter(|found| !found.next_hops.is_empty())
        });
        let Some(route) = by_hint.or(by_name) else {
            return self.journal.note(now, Decision::NoRoute);
        };
        self.journal.note(
            now,
            Decision::Route {
                prefix_len: route.prefix_len,
                next_hops: route.next_hops.len() as u32,
                by_hint: by_hint.is_some(),
            },
        );
        if let Some(strategy) = by_name.map(|route| route.strategy) {
            self.journal.note(now, Decision::Strategy(strategy));
        }
        self.passed_over(now, before, plane, route, pool, out);
    }

    fn passed_over(
        &mut self,
        now: Instant,
        before: &Before,
        plane: &Plane,
        route: FibEntry<'_>,
        pool: &Pool,
        out: &[Packet],
    ) {
        let sent: Vec<FaceId> = interests(out, pool).collect();
        let usable: Vec<NextHop> = usable(before, plane, route.next_hops).collect();
        for hop in route.next_hops {
            if sent.contains(&hop.face) {
                continue;
            }
            let why = match plane.router().faces().info(hop.face) {
                None => NotSent::Gone,
                // Held back altogether: how the Interest ended says so.
                Some(_) if sent.is_empty() && usable.contains(hop) => continue,
                Some(_) if usable.contains(hop) => NotSent::NotChosen,
                Some(_) if hop.face == before.ingress => NotSent::CameFrom,
                Some(_) => NotSent::Scope,
            };
            self.journal.note(now, Decision::NotSent { face: hop.face, cost: hop.cost, why });
        }
        for face in &sent {
            let place = usable.iter().position(|hop| hop.face == *face);
            self.journal.note(
                now,
                Decision::InterestOut {
                    face: *face,
                    cost: place.map(|place| usable[place].cost),
                    place: place.unwrap_or(0) as u32,
                    usable: usable.len() as u32,
                    sent: sent.len() as u32,
                },
            );
        }
    }

    fn data(&mut self, now: Instant, before: &Before, plane: &Plane) {
        if before.answers == 0 {
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
        self.journal.note(now, decision);
    }

    /// Data and Nacks that go out; and Interests, where an Interest did not explain them already.
    fn departures(&mut self, now: Instant, before: &Before, pool: &Pool, out: &[Packet]) {
        for packet in out {
            let meta = pool.meta(packet);
            let face = meta.egress;
            match meta.kind {
                Kind::Data => self.journal.note(now, Decision::DataOut(face)),
                Kind::Nack => {
                    let reason = meta.link.nack.unwrap_or(NackReason::None);
                    self.journal.note(now, Decision::NackOut { face, reason });
                }
                Kind::Interest if before.kind == Kind::Interest => {}
                Kind::Interest => self
                    .journal
                    .note(now, Decision::InterestOut { face, cost: None, place: 0, usable: 0, sent: 1 }),
            }
        }
    }
}

fn interests<'a>(out: &'a [Packet], pool: &'a Pool) -> impl Iterator<Item = FaceId> + 'a {
    let metas = out.iter().map(|packet| pool.meta(packet));
    metas.filter(|meta| meta.kind == Kind::Interest).map(|meta| meta.egress)
}

fn usable<'a>(
    before: &Before,
    plane: &'a Plane,
    next_hops: &'a [NextHop],
) -> impl Iterator<Item = NextHop> + 'a {
    let scope = NameScope::of(before.name.as_ref());
    let eligibility = Eligibility::new(plane.router().faces(), before.ingress, before.ingress_local, scope);
    next_hops.iter().copied().filter(move |hop| eligibility.allows(hop.face))
}
