//! Chooses where each Interest goes by the strategy of its prefix: shares load among next hops, leaves one that fails, asks several.
//!
//! ```text
//! In:     interest, data, nack
//! Out:    interest, data, nack
//! Needs:  interest: all that decoding fills, ingress, ingress_local, link as received; data, nack: ingress
//! Sets:   interest: egress, link (as to be sent; the token stays); nack of its own: egress (the asker), link.nack
//! State:  routes, strategies, their measurements, and where each Interest of the last seconds went: each up to a number
//! Timers: one per Interest whose way is remembered: the latest of its lifetimes
//! Cost:   one lookup among routes, one among the ways, the strategy's own
//! Drops:  no_route, next_hop_unknown, hop_limit_spent, nack_consumed, no_buffer
//! Spec:   NDNLPv2, NextHopFaceId; the strategies of the router; the strategy forwarder of µNDN
//! ```
//!
//! The strategies are the router's own, written once (`strategy/`): best-route, multicast, ASF, random, weighted, hash, round-robin, fail-over. Not access and
//! self-learning, which send Interests at moments of their own, for whoever waits then.
//!
//! It stands where no table of pending Interests is, before clones of one or after: answers find back by what the host put on the token, each to one asker.
//! So nothing is aggregated and nothing held back: what a strategy would suppress as sent a moment ago goes where the last one went. What it remembers of
//! ways serves strategies alone: to tell a second try from a first, and what answers from what does not. When that is full, Interests pass as first tries.
//! For ASF and fail-over the answers must pass here.

pub use crate::by_kind::{ByKind as In, ByKind as Out};

use crate::hints;
use crate::name_router::{make_nack, prepare};
use crate::scope::Scopes;
use crate::strategy::{
    Decisions, Eligibility, Event, Form, Forward, Nacks, Strategies, Strategy, StrategyContext,
    StrategyError, StrategyId, StrategyState, WANTS_DATA, is_pending,
};
use nw_element_api::{
    Cause, Context, Element, FaceId, FaceInfo, FaceTable, Instant, Kind, LinkType, Meta, Packet, Pool, Scope,
};
use nw_name::{HashKey, NameRef, Prefixes};
use nw_tables::Ask;
use nw_tables::fib::{Fib, FibConfig, FibError, NextHop};
use nw_tables::measurements::Measurements;
use nw_tables::pit::{Asker, EntryRef, MATCHES_MAX, OutRecord, Pit, PitConfig, TOKEN_LEN};
use nw_wire::{NackReason, Token};

/// What a strategy forwarder is made with.
#[derive(Clone, Copy, Debug)]
pub struct StrategyForwarderConfig {
    /// Sizes of the FIB.
    pub fib: FibConfig,
    /// Interests whose way is remembered at one time.
    pub ways: PitConfig,
    /// Prefixes of which strategies remember something.
    pub measurements: usize,
    /// Makes what strategies draw.
    pub seed: u64,
}

impl Default for StrategyForwarderConfig {
    /// 65,536 prefixes and as many ways.
    fn default() -> Self {
        StrategyForwarderConfig {
            fib: FibConfig::new(1 << 16),
            ways: PitConfig::for_entries(1 << 16),
            measurements: 1 << 16,
            seed: 0,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct StrategyForwarder {
    key: HashKey,
    scopes: Scopes,
    fib: Fib,
    faces: FaceTable,
    strategies: Strategies,
    state: StrategyState,
    ways: Pit,
    // Room used again by each packet, so that none of them allocates.
    decisions: Decisions,
    matched: Vec<EntryRef>,
}

/// Ways forgotten by one call of [`Element::tick`].
const EXPIRED_PER_TICK: usize = 1024;
/// As long as the router's.
const LIFETIME_MAX_MS: u32 = 600_000;

/// What the FIB says of a name.
struct Route<'a> {
    strategy: StrategyId,
    next_hops: &'a [NextHop],
    len: u8,
}

impl StrategyForwarder {
    /// Without faces and routes. `key` is the one packets are decoded with.
    pub fn new(key: HashKey, config: StrategyForwarderConfig) -> Self {
        StrategyForwarder {
            key,
            scopes: Scopes::new(&key),
            fib: Fib::new(key, config.fib),
            faces: FaceTable::new(),
            strategies: Strategies::default(),
            state: StrategyState::new(config.measurements, config.seed),
            ways: Pit::new(key, 0, config.ways),
            decisions: Decisions::with_capacity(config.fib.next_hops_per_prefix_max),
            matched: Vec::with_capacity(MATCHES_MAX),
        }
    }

    /// The number of a strategy, by its name, to be given to [`set_route`](Self::set_route).
    ///
    /// # Errors
    /// When there is no such strategy, it can't work here, its parameters are bad, or too many are in use.
    pub fn resolve_strategy(&mut self, name: NameRef<'_>) -> Result<StrategyId, StrategyError> {
        if let (Strategy::Access(_) | Strategy::SelfLearning(_), _) = Strategy::parse(name)? {
            let why = "access and self-learning need a table of pending Interests: put a router in its place";
            return Err(StrategyError::BadParameter(why));
        }
        self.strategies.resolve_for(name, &self.fib, &mut self.state)
    }

    /// Sets next hops and strategy of a prefix, in place of what was.
    ///
    /// # Errors
    /// What is too much; nothing has changed then.
    pub fn set_route(
        &mut self,
        name: NameRef<'_>,
        next_hops: &[NextHop],
        strategy: StrategyId,
    ) -> Result<(), FibError> {
        self.fib.set(name, next_hops, strategy)
    }

    /// Removes a prefix; false when it was not there.
    pub fn remove_route(&mut self, name: NameRef<'_>) -> bool {
        self.fib.remove(name)
    }

    /// Routes, for status.
    pub const fn fib(&self) -> &Fib {
        &self.fib
    }

    /// What strategies remember of prefixes, for status.
    pub const fn measurements(&self) -> &Measurements {
        &self.state.measurements
    }

    /// Interests whose way is remembered, for status.
    pub fn ways(&self) -> usize {
        self.ways.len()
    }

    fn interest(&mut self, now: Instant, packet: Packet, context: &mut Context<'_, Out>) {
        if let Some(next_hop) = context.pool.meta(&packet).link.next_hop_face {
            if !self.faces.contains(next_hop) {
                return context.pool.drop_packet(packet, Cause::NextHopUnknown, context.drops);
            }
            return self.send(packet, next_hop, context);
        }
        let (bytes, meta) = context.pool.view(&packet);
        let entry = enter(&mut self.ways, now, bytes, meta);
        let name = meta.name_in(bytes);
        let mut route = route(&self.fib, name, &meta.prefixes);
        if meta.hint.1 != 0 {
            // The hint says where to; the strategy is still that of the name.
            route.next_hops = hints::next_hops(&self.fib, &self.key, hints::names(meta, bytes));
        }
        let scope = self.scopes.of(|| name, &meta.prefixes);
        let eligibility = Eligibility::new(&self.faces, meta.ingress, meta.ingress_local, scope);
        let event = event(now, entry, meta.ingress, &route, eligibility, meta, bytes);
        let mut event = StrategyContext::new(event, &mut self.ways, &mut self.state, &mut self.decisions);
        self.strategies.strategy(route.strategy).after_interest(&mut event);
        match self.decisions.forwards.len() {
            0 => self.not_forwarded(entry, packet, context),
            forwards => {
                for at in 0..forwards - 1 {
                    let forward = self.decisions.forwards[at];
                    self.send_copy(now, entry, &packet, forward, context);
                }
                let last = self.decisions.forwards[forwards - 1];
                self.note(now, entry, last, context.pool.meta(&packet));
                self.send(packet, last.face, context);
            }
        }
    }

    /// What is held back elsewhere goes where the last one went, as its asker may be another one.
    fn not_forwarded(&self, entry: EntryRef, packet: Packet, context: &mut Context<'_, Out>) {
        let last = self.ways.out_records(entry).max_by_key(|record| record.sent).map(|record| record.face);
        match (self.decisions.nacks, last.filter(|_| self.decisions.suppressed)) {
            (_, Some(face)) => {
                // Not noted as sent: intervals count from the last that was meant. Not back to whom it came from.
                if context.pool.meta(&packet).ingress == face {
                    return context.pool.drop_packet(packet, Cause::NoRoute, context.drops);
                }
                self.send(packet, face, context);
            }
            (Nacks::One(_, reason) | Nacks::All(reason), None) => self.refuse(packet, reason, context),
            (Nacks::Nobody, None) => context.pool.drop_packet(packet, Cause::NoRoute, context.drops),
        }
    }

    fn refuse(&self, packet: Packet, reason: NackReason, context: &mut Context<'_, Out>) {
        let asker = self.faces.info(context.pool.meta(&packet).ingress);
        if asker.is_none_or(|face| face.link_type != LinkType::PointToPoint) {
            return context.pool.drop_packet(packet, Cause::NoRoute, context.drops);
        }
        context.drops.count(Cause::NoRoute);
        make_nack(context.pool, &packet, reason);
        context.out.send(Out::Nack, packet);
    }

    fn send_copy(
        &mut self,
        now: Instant,
        entry: EntryRef,
        packet: &Packet,
        forward: Forward,
        context: &mut Context<'_, Out>,
    ) {
        let Some(copy) = context.pool.twin(packet) else {
            return context.drops.count(Cause::NoBuffer);
        };
        let start = usize::from(context.pool.meta(&copy).nonce_start);
        if forward.form == Form::Probe && start != 0 {
            let nonce = self.state.generator.draw() as u32;
            context.pool.bytes_mut(&copy)[start..start + 4].copy_from_slice(&nonce.to_be_bytes());
            context.pool.meta_mut(&copy).nonce = nonce;
        }
        self.note(now, entry, forward, context.pool.meta(&copy));
        self.send(copy, forward.face, context);
    }

    fn send(&self, packet: Packet, face: FaceId, context: &mut Context<'_, Out>) {
        match prepare(context.pool, &packet, face, &self.faces) {
            Ok(()) => context.out.send(Out::Interest, packet),
            Err(reason) => context.pool.drop_packet(packet, reason, context.drops),
        }
    }

    /// Remembers which way it goes, if there is room.
    fn note(&mut self, now: Instant, entry: EntryRef, forward: Forward, meta: &Meta) {
        let record = OutRecord {
            face: forward.face,
            nonce: meta.nonce,
            sent: now,
            expiry: now.plus_millis(u64::from(meta.lifetime_ms.min(LIFETIME_MAX_MS))),
            nack: None,
            retx_interval_ms: forward.retx_interval_ms,
        };
        let _: Result<bool, _> = self.ways.upsert_out(entry, record);
    }

    fn data(&mut self, now: Instant, packet: &Packet, pool: &Pool) {
        let (bytes, meta) = pool.view(packet);
        let mut matched = core::mem::take(&mut self.matched);
        matched.clear();
        let digest = || nw_wire::sha256(&[bytes]);
        self.ways.matches(meta.name_in(bytes), &meta.prefixes, None, digest, &mut matched);
        for &entry in &matched {
            if self.ways.out_record(entry, meta.ingress).is_none() {
                continue;
            }
            let linger_ms = match self.ways.strategy_bits(entry) & WANTS_DATA {
                0 => 0,
                _ => self.tell_strategy(now, entry, meta, bytes),
            };
            let others = self.ways.out_records(entry);
            let others = others.filter(|record| record.face != meta.ingress && is_pending(record, now));
            match others.map(|record| record.expiry).max() {
                Some(last) if linger_ms != 0 => {
                    self.ways.remove_out(entry, meta.ingress);
                    self.ways.set_expiry(entry, last.min(now.plus_millis(u64::from(linger_ms))));
                }
                _ => _ = self.ways.remove(entry),
            }
        }
        self.matched = matched;
    }

    /// Shows a strategy the Data that answers; for how long it wants to see others.
    fn tell_strategy(&mut self, now: Instant, entry: EntryRef, meta: &Meta, bytes: &[u8]) -> u16 {
        let name = self.ways.name(entry);
        // An Interest may ask for a prefix, or for a digest.
        let asked =
            (name.as_bytes().len() != usize::from(meta.name.1)).then(|| Prefixes::of(&self.key, name));
        let mut route = route(&self.fib, name, asked.as_ref().unwrap_or(&meta.prefixes));
        route.next_hops = &[];
        let scope = crate::scope::NameScope::of(name);
        let eligibility = Eligibility::new(&self.faces, meta.ingress, meta.ingress_local, scope);
        let event = event(now, entry, meta.ingress, &route, eligibility, meta, bytes);
        let mut event = StrategyContext::new(event, &mut self.ways, &mut self.state, &mut self.decisions);
        self.strategies.strategy(route.strategy).after_data(&mut event);
        self.decisions.extras.linger_ms
    }

    fn nack(&mut self, now: Instant, packet: Packet, context: &mut Context<'_, Out>) {
        let (bytes, meta) = context.pool.view(&packet);
        let ingress = meta.ingress;
        let reason = meta.link.nack.unwrap_or(NackReason::None);
        let entry = self.ways.find(&ask(meta, bytes));
        let Some(entry) = entry.filter(|entry| self.ways.out_record(*entry, ingress).is_some()) else {
            return context.out.send(Out::Nack, packet);
        };
        self.ways.update_out(entry, ingress, |record| record.nack = Some(reason));
        // Who tries again does so for the sake of the asker.
        let asker = match meta.egress {
            FaceId::NONE => self.ways.in_records(entry).next().map_or(ingress, |record| record.face),
            egress => egress,
        };
        let name = meta.name_in(bytes);
        let mut route = route(&self.fib, name, &meta.prefixes);
        let strategy = *self.strategies.strategy(route.strategy);
        if !strategy.retries_after_nack() {
            route.next_hops = &[];
        }
        let local = self.faces.info(asker).is_some_and(|info| info.scope == Scope::Local);
        let scope = self.scopes.of(|| name, &meta.prefixes);
        let eligibility = Eligibility::new(&self.faces, asker, local, scope);
        let event = event(now, entry, ingress, &route, eligibility, meta, bytes);
        let mut event = StrategyContext::new(event, &mut self.ways, &mut self.state, &mut self.decisions);
        strategy.after_nack(&mut event);

        if let Some(forward) = self.decisions.forwards.first().copied() {
            let meta = context.pool.meta_mut(&packet);
            (meta.kind, meta.ingress, meta.ingress_local) = (Kind::Interest, asker, local);
            meta.link.nack = None;
            self.note(now, entry, forward, context.pool.meta(&packet));
            return self.send(packet, forward.face, context);
        }
        if !self.ways.out_records(entry).any(|record| is_pending(&record, now)) {
            self.ways.remove(entry);
        }
        match self.decisions.nacks {
            // Another next hop may still answer, or the strategy wants no Nacks.
            Nacks::Nobody => context.pool.drop_packet(packet, Cause::NackConsumed, context.drops),
            Nacks::One(_, reason) | Nacks::All(reason) => {
                context.pool.meta_mut(&packet).link.nack = Some(reason);
                context.out.send(Out::Nack, packet);
            }
        }
    }
}

fn ask<'a>(meta: &'a Meta, bytes: &'a [u8]) -> Ask<'a> {
    Ask {
        name: meta.name_in(bytes),
        prefixes: &meta.prefixes,
        can_be_prefix: meta.can_be_prefix,
        must_be_fresh: meta.must_be_fresh,
    }
}

fn route<'a>(fib: &'a Fib, name: NameRef<'_>, prefixes: &Prefixes) -> Route<'a> {
    fib.lookup(name, prefixes).map_or(Route { strategy: Strategies::DEFAULT, next_hops: &[], len: 0 }, |r| {
        Route { strategy: r.strategy, next_hops: r.next_hops, len: r.prefix_len as u8 }
    })
}

fn event<'a>(
    now: Instant,
    entry: EntryRef,
    ingress: FaceId,
    route: &Route<'a>,
    eligibility: Eligibility<'a>,
    meta: &'a Meta,
    bytes: &'a [u8],
) -> Event<'a> {
    let (next_hops, route_len, strategy) = (route.next_hops, route.len, route.strategy);
    Event { now, entry, ingress, next_hops, eligibility, meta, bytes, route_len, strategy }
}

/// The memory of an Interest's way, or one that remembers nothing when there is no room.
fn enter(ways: &mut Pit, now: Instant, bytes: &[u8], meta: &Meta) -> EntryRef {
    let face = if meta.ingress == FaceId::NONE { FaceId::NULL } else { meta.ingress };
    let expiry = now.plus_millis(u64::from(meta.lifetime_ms.min(LIFETIME_MAX_MS)));
    let asker = Asker { face, nonce: meta.nonce, expiry, token: &Token::NONE };
    match ways.enter(&ask(meta, bytes), bytes, meta.name, meta.nonce_start, &asker) {
        Ok((entry, true)) => entry,
        Ok((entry, false)) => {
            let _: Result<bool, _> = ways.upsert_in(entry, asker.record());
            let latest = ways.expiry(entry).map_or(expiry, |known| known.max(expiry));
            ways.set_expiry(entry, latest);
            entry
        }
        // Of a shard that is not ours: it finds nothing.
        Err(_) => EntryRef::from_token(&[u8::MAX; TOKEN_LEN]).expect("as long as a token is"),
    }
}

impl Element for StrategyForwarder {
    type In = In;
    type Out = Out;

    fn prefetch_stages(_: In) -> usize {
        Pit::PREFETCH_STAGES
    }

    fn leads(port: In) -> &'static [Out] {
        match port {
            In::Interest => &[Out::Interest, Out::Nack],
            In::Data => &[Out::Data],
            In::Nack => &[Out::Interest, Out::Nack],
        }
    }

    fn usual(port: In) -> Option<Out> {
        Some(match port {
            In::Interest => Out::Interest,
            In::Data => Out::Data,
            In::Nack => Out::Nack,
        })
    }

    #[inline(always)]
    fn is_far(&self) -> bool {
        self.fib.is_far()
    }

    #[inline(always)]
    fn prefetch_far(&self, port: In, meta: &Meta) {
        if port == In::Interest {
            self.fib.prefetch_far(&meta.prefixes);
        }
    }

    #[inline]
    fn prefetch(&self, stage: usize, port: In, meta: &Meta) {
        self.ways.prefetch(stage, &meta.prefixes);
        if port == In::Interest {
            self.fib.prefetch(stage, &meta.prefixes);
        }
    }

    #[inline]
    fn process(&mut self, now: Instant, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        match port {
            In::Interest => self.interest(now, packet, context),
            In::Data => {
                self.data(now, &packet, context.pool);
                context.out.send(Out::Data, packet);
            }
            In::Nack => self.nack(now, packet, context),
        }
    }

    fn face_added(&mut self, face: FaceId, info: FaceInfo) {
        self.faces.insert(face, info);
    }

    fn face_gone(&mut self, _: Instant, face: FaceId) {
        self.faces.remove(face);
    }

    fn deadline(&self) -> Option<Instant> {
        self.ways.next_expiry()
    }

    fn tick(&mut self, now: Instant, _: &mut Context<'_, Out>) {
        for _ in 0..EXPIRED_PER_TICK {
            let Some(entry) = self.ways.pop_expired(now) else { break };
            self.ways.remove(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{KEY, Lab, as_nack, data, face, interest, name, ports};
    use std::collections::BTreeMap;

    /// 300 asks; 301, 302 and 303 are next hops of `/`, at costs 1, 2 and 3.
    fn lab(strategy: &str) -> Lab<StrategyForwarder> {
        let config = StrategyForwarderConfig {
            fib: FibConfig::new(64),
            ways: PitConfig::for_entries(64),
            measurements: 64,
            seed: 7,
        };
        let mut lab = Lab::new(StrategyForwarder::new(KEY, config));
        let info = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
        for number in 300..304 {
            lab.element.face_added(face(number), info);
        }
        let strategy = name(&format!("/localhost/nfd/strategy/{strategy}"));
        let id = lab.element.resolve_strategy(strategy.as_ref()).unwrap();
        let hops = [1, 2, 3].map(|cost| NextHop { face: face(300 + cost), cost });
        lab.element.set_route(name("/").as_ref(), &hops, id).unwrap();
        lab
    }

    fn ask_for(lab: &mut Lab<StrategyForwarder>, uri: &str, nonce: u32) -> Vec<u32> {
        let left = lab.give(In::Interest, &interest(uri, nonce), |meta| {
            meta.ingress = face(300);
            meta.link.token = Token::new(b"theirs").unwrap();
        });
        assert!(left.iter().all(|l| l.port == "interest" && l.link.token.as_bytes() == b"theirs"));
        left.iter().map(|left| left.egress.bits()).collect()
    }

    fn refuse(lab: &mut Lab<StrategyForwarder>, uri: &str, by: u32) -> Vec<crate::lab::Left> {
        let nack = as_nack(NackReason::NoRoute);
        lab.give(In::Nack, &interest(uri, 1), |meta| {
            nack(meta);
            (meta.ingress, meta.egress) = (face(by), face(300));
            meta.link.token = Token::new(b"theirs").unwrap();
        })
    }

    #[test]
    fn load_is_shared() {
        let mut shared = lab("round-robin");
        let turns: Vec<u32> = (0..6).flat_map(|n| ask_for(&mut shared, &format!("/a/{n}"), n)).collect();
        assert_eq!(turns, [301, 302, 303, 301, 302, 303]);
        for strategy in ["hash", "random", "weighted/v=1/weights~1-1-1"] {
            let mut lab = lab(strategy);
            let mut got: BTreeMap<u32, u32> = BTreeMap::new();
            for number in 0..300 {
                let uri = format!("/a/{number}");
                let to = ask_for(&mut lab, &uri, number)[0];
                *got.entry(to).or_default() += 1;
                lab.give(In::Data, &data(&uri), |meta| meta.ingress = face(to));
            }
            assert!(got.len() == 3 && got.values().all(|count| *count > 70), "{strategy}: {got:?}");
            assert_eq!(lab.element.ways(), 0);
        }
    }

    #[test]
    fn all_are_asked_at_once() {
        let mut lab = lab("multicast");
        assert_eq!(ask_for(&mut lab, "/a", 1), [301, 302, 303]);
        assert!(refuse(&mut lab, "/a", 301).is_empty(), "it sends no Nacks");
        assert_eq!(lab.drops.total(Cause::NackConsumed), 1);
        assert_eq!(ports(&lab.give(In::Data, &data("/a"), |meta| meta.ingress = face(302))), ["data"]);
        assert_eq!(lab.pool.packets_in_use(), 0);
    }

    /// Two askers of one name: elsewhere the second would wait for the first one's answer.
    #[test]
    fn nothing_is_held_back() {
        let mut lab = lab("best-route");
        assert_eq!(ask_for(&mut lab, "/a", 1), [301]);
        assert_eq!(ask_for(&mut lab, "/a", 2), [301]);
        lab.advance_ms(20);
        assert_eq!(ask_for(&mut lab, "/a", 3), [302], "a second try, by another way");
        lab.advance_ms(5000);
        assert_eq!(lab.element.ways(), 0);
        assert_eq!(ask_for(&mut lab, "/a", 4), [301]);
    }

    #[test]
    fn one_that_fails_is_left_and_comes_back() {
        let mut lab = lab("fail-over/v=1/recovery-interval~1000");
        let ask = |lab: &mut Lab<StrategyForwarder>, number: u32| {
            lab.advance_ms(300);
            ask_for(lab, &format!("/a/{number}"), number)
        };
        let answer = |lab: &mut Lab<StrategyForwarder>, number: u32, by: u32| {
            lab.advance_ms(10);
            lab.give(In::Data, &data(&format!("/a/{number}")), |meta| meta.ingress = face(by));
        };
        for number in 0..3 {
            assert_eq!(ask(&mut lab, number), [301]);
            answer(&mut lab, number, 301);
        }
        // Silence, twice.
        let ways: Vec<u32> = (3..10).flat_map(|number| ask(&mut lab, number)).collect();
        assert!(ways.contains(&302), "{ways:?}");
        let (mut number, mut back) = (10, false);
        while number < 40 && !back {
            let asked = ask(&mut lab, number);
            asked.iter().for_each(|by| answer(&mut lab, number, *by));
            back = asked == [301];
            number += 1;
        }
        assert!(back, "a trial found it well again");
    }

    #[test]
    fn a_refusal_is_tried_elsewhere_before_it_goes_back() {
        let mut lab = lab("weighted/v=1/weights~1-1-1");
        let first = ask_for(&mut lab, "/a", 1)[0];
        let mut asked = vec![first];
        for _ in 0..2 {
            let left = refuse(&mut lab, "/a", asked[asked.len() - 1]);
            assert_eq!(
                (ports(&left), left[0].kind, left[0].ingress),
                (vec!["interest"], Kind::Interest, face(300))
            );
            assert_eq!((left[0].link.nack, left[0].link.token.as_bytes()), (None, &b"theirs"[..]));
            asked.push(left[0].egress.bits());
        }
        let left = refuse(&mut lab, "/a", asked[2]);
        assert_eq!((ports(&left), left[0].link.nack), (vec!["nack"], Some(NackReason::NoRoute)));
        asked.sort_unstable();
        assert_eq!((asked, lab.element.ways()), (vec![301, 302, 303], 0));
        assert_eq!(ports(&refuse(&mut lab, "/b", 301)), ["nack"], "of what it does not remember");
    }

    #[test]
    fn asf_measures_by_what_passes() {
        let mut lab = lab("asf/v=5/probing-interval~1000");
        let delays = [(301, 60), (302, 5), (303, 90)];
        let mut last = Vec::new();
        for number in 0..400u32 {
            let uri = format!("/a/{number}");
            last = ask_for(&mut lab, &uri, number);
            let mut due: Vec<(u64, u32)> = delays
                .iter()
                .filter(|(hop, _)| last.contains(hop))
                .map(|(hop, delay)| (*delay, *hop))
                .collect();
            due.sort_unstable();
            let mut at = 0;
            for (delay, by) in due {
                lab.advance_ms(delay - at);
                at = delay;
                lab.give(In::Data, &data(&uri), |meta| meta.ingress = face(by));
            }
            lab.advance_ms(100 - at);
        }
        assert_eq!(last[last.len() - 1], 302);
    }

    #[test]
    fn without_room_or_route() {
        let config = StrategyForwarderConfig {
            ways: PitConfig::for_entries(1),
            fib: FibConfig::new(64),
            ..StrategyForwarderConfig::default()
        };
        let mut full = lab("round-robin");
        full.element.ways = Pit::new(KEY, 0, config.ways);
        let ways: Vec<u32> = (0..4).flat_map(|n| ask_for(&mut full, &format!("/{n}"), n)).collect();
        assert_eq!((ways, full.element.ways()), (vec![301, 302, 303, 301], 1));

        let mut lab = lab("best-route");
        lab.element.remove_route(name("/").as_ref());
        let left = lab.give(In::Interest, &interest("/a", 1), |meta| meta.ingress = face(300));
        assert_eq!((ports(&left), left[0].link.nack), (vec!["nack"], Some(NackReason::NoRoute)));
        assert_eq!(lab.drops.total(Cause::NoRoute), 1);
        for strategy in ["access", "self-learning"] {
            let uri = name(&format!("/localhost/nfd/strategy/{strategy}"));
            let error = lab.element.resolve_strategy(uri.as_ref()).unwrap_err();
            assert!(error.to_string().contains("put a router"), "{error}");
        }
    }
}
