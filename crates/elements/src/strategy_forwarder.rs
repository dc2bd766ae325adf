//! Forwards each Interest by the strategy of its prefix, in a graph without a PIT: for load
//! sharing, failover or multicast.
//!
//! ```text
//! In:     interest, data, nack
//! Out:    interest, data, nack
//! Needs:  interest: all that decoding fills, ingress, ingress_local, link as received; data, nack:
//!         ingress
//! Sets:   interest: egress, link (as to be sent; the token is kept); nack of its own: egress (the
//!         downstream), link.nack
//! State:  FIB, strategies, their measurements, outstanding Interests: each up to a fixed number
//! Timers: one per outstanding Interest: the latest of its lifetimes
//! Cost:   one FIB lookup, one lookup among outstanding Interests, the strategy's own
//! Drops:  no_route, next_hop_unknown, hop_limit_spent, nack_consumed, no_buffer
//! Spec:   NDNLPv2, NextHopFaceId; the strategies of the router; the strategy forwarder of µNDN
//! ```
//!
//! The strategies are the router's (`strategy/`), except access and self-learning, which need a
//! PIT: they send Interests on their own timer, for all downstreams waiting then.
//!
//! It stands before or after elements with a PIT, or in a chain without one: answers find their way
//! back by the token that the host adds, each to one downstream. So nothing is aggregated or
//! suppressed: an Interest that a strategy would suppress is sent where the last one was sent. The
//! table of outstanding Interests serves strategies only, to recognise retransmissions and answers.
//! When it is full, each Interest counts as new. ASF and fail-over need the answers to pass here.

pub use crate::by_kind::{ByKind as In, ByKind as Out};

use crate::INTEREST_LIFETIME_MAX_MS;
use crate::forwarding_hint;
use crate::interest_key::interest_key;
use crate::name_router::{make_nack, prepare};
use crate::scope::NameScope;
use crate::strategy::{
    Decisions, Eligibility, Event, Forward, Nacks, SendAs, Strategies, Strategy, StrategyContext,
    StrategyError, StrategyId, StrategyRoute, StrategyState, Trigger, WANTS_DATA, is_pending,
};
use nw_element_api::{
    Context, DropCause, Element, ElementStatus, FaceId, FaceInfo, FaceTable, Kind, LinkType, Meta,
    Packet, Pool, Scope, Timestamp,
};
use nw_name::{HashKey, NameRef, PrefixHashes};
use nw_tables::fib::{Fib, FibConfig, FibError, NextHop};
use nw_tables::measurements::Measurements;
use nw_tables::pit::{Downstream, EntryRef, MATCHES_MAX, OutRecord, Pit, PitConfig, TOKEN_LEN};
use nw_wire::{NackReason, Token};

/// Configuration of a strategy forwarder.
#[derive(Clone, Copy, Debug)]
pub struct StrategyForwarderConfig {
    /// Sizes of the FIB.
    pub fib: FibConfig,
    /// Sizes of the table of outstanding Interests.
    pub outstanding: PitConfig,
    /// Prefixes for which strategies keep measurements.
    pub measurements: usize,
    /// Seed of the strategies' random numbers.
    pub seed: u64,
}

impl Default for StrategyForwarderConfig {
    /// 65,536 prefixes and as many outstanding Interests.
    fn default() -> Self {
        StrategyForwarderConfig {
            fib: FibConfig::new(1 << 16),
            outstanding: PitConfig::for_entries(1 << 16),
            measurements: 1 << 16,
            seed: 0,
        }
    }
}

/// The strategy forwarder element.
#[derive(Debug)]
pub struct StrategyForwarder {
    key: HashKey,
    fib: Fib,
    faces: FaceTable,
    strategies: Strategies,
    state: StrategyState,
    outstanding: Pit,
    // Buffers reused for each packet, so that no packet allocates.
    decisions: Decisions,
    matched: Vec<EntryRef>,
}

/// Outstanding Interests expired by one call of [`Element::tick`].
const EXPIRED_PER_TICK: usize = 1024;

impl StrategyForwarder {
    /// Creates a forwarder without faces and routes. `key` must be the key that packets are decoded
    /// with.
    pub fn new(key: HashKey, config: StrategyForwarderConfig) -> Self {
        StrategyForwarder {
            key,
            fib: Fib::new(key, config.fib),
            faces: FaceTable::new(),
            strategies: Strategies::default(),
            state: StrategyState::new(config.measurements, config.seed),
            outstanding: Pit::new(key, 0, config.outstanding),
            decisions: Decisions::with_capacity(config.fib.next_hops_per_prefix_max),
            matched: Vec::with_capacity(MATCHES_MAX),
        }
    }

    /// Returns the number of a strategy name, for [`set_route`](Self::set_route).
    ///
    /// # Errors
    /// When there is no such strategy, it needs a PIT, a parameter is wrong, or too many are in
    /// use.
    pub fn resolve_strategy(&mut self, name: NameRef<'_>) -> Result<StrategyId, StrategyError> {
        let (strategy, _) = Strategy::parse(name)?;
        if strategy.needs_pit() {
            let why = "access and self-learning need a table of pending Interests: put a router in its place";
            return Err(StrategyError::BadParameter(why));
        }
        self.strategies.resolve_for(name, &self.fib, &mut self.state)
    }

    /// Sets next hops and strategy of a prefix, replacing earlier ones.
    ///
    /// # Errors
    /// When a table limit is reached; nothing has changed then.
    pub fn set_route(
        &mut self,
        name: NameRef<'_>,
        next_hops: &[NextHop],
        strategy: StrategyId,
    ) -> Result<(), FibError> {
        self.fib.set(name, next_hops, strategy)
    }

    /// Removes a prefix. Returns whether it was there.
    pub fn remove_route(&mut self, name: NameRef<'_>) -> bool {
        self.fib.remove(name)
    }

    /// Returns the FIB, for status.
    pub const fn fib(&self) -> &Fib {
        &self.fib
    }

    /// Returns the strategies' measurements, for status.
    pub const fn measurements(&self) -> &Measurements {
        &self.state.measurements
    }

    /// Returns the number of outstanding Interests, for status.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Forwards an Interest by NextHopFaceId or by the strategy.
    fn interest(&mut self, now: Timestamp, packet: Packet, context: &mut Context<'_, Out>) {
        if let Some(next_hop) = context.pool.meta(&packet).link.next_hop_face {
            if !self.faces.contains(next_hop) {
                return context.pool.drop_packet(packet, DropCause::NextHopUnknown, context.drops);
            }
            return self.send(packet, next_hop, context);
        }
        let (bytes, meta) = context.pool.view(&packet);
        let entry = remember(&mut self.outstanding, now, bytes, meta);
        self.call_strategy(now, entry, Trigger::Interest, bytes, meta);
        match self.decisions.forwards.len() {
            0 => self.not_forwarded(entry, packet, context),
            forwards => {
                for at in 0..forwards - 1 {
                    let forward = self.decisions.forwards[at];
                    self.send_copy(now, entry, &packet, forward, context);
                }
                let last = self.decisions.forwards[forwards - 1];
                self.record_sent(now, entry, last, context.pool.meta(&packet));
                self.send(packet, last.face, context);
            }
        }
    }

    /// Handles an Interest that the strategy did not forward: a suppressed one is sent where the
    /// last one was sent, as it may be from another downstream; others are rejected or dropped.
    fn not_forwarded(&self, entry: EntryRef, packet: Packet, context: &mut Context<'_, Out>) {
        let last = self
            .outstanding
            .out_records(entry)
            .max_by_key(|record| record.sent)
            .map(|record| record.face);
        match (self.decisions.nacks, last.filter(|_| self.decisions.suppressed)) {
            (_, Some(face)) => {
                // Not recorded as sent, so that suppression intervals count from the strategy's
                // last decision. Never sent back to the ingress face.
                if context.pool.meta(&packet).ingress == face {
                    return context.pool.drop_packet(packet, DropCause::NoRoute, context.drops);
                }
                self.send(packet, face, context);
            }
            (Nacks::One(_, reason) | Nacks::All(reason), None) => {
                self.reject(packet, reason, context)
            }
            (Nacks::None, None) => {
                context.pool.drop_packet(packet, DropCause::NoRoute, context.drops)
            }
        }
    }

    /// Sends an Interest back as a Nack, or drops it if the link carries no Nacks.
    fn reject(&self, packet: Packet, reason: NackReason, context: &mut Context<'_, Out>) {
        let downstream = self.faces.info(context.pool.meta(&packet).ingress);
        if downstream.is_none_or(|face| face.link_type != LinkType::PointToPoint) {
            return context.pool.drop_packet(packet, DropCause::NoRoute, context.drops);
        }
        context.drops.count(DropCause::NoRoute);
        make_nack(context.pool, &packet, reason);
        context.out.send(Out::Nack, packet);
    }

    /// Sends a copy of an Interest to one of several next hops. A probe gets its own nonce.
    fn send_copy(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        packet: &Packet,
        forward: Forward,
        context: &mut Context<'_, Out>,
    ) {
        let Some(copy) = context.pool.duplicate(packet) else {
            return context.drops.count(DropCause::NoBuffer);
        };
        let start = usize::from(context.pool.meta(&copy).nonce_start);
        if forward.send_as == SendAs::Probe && start != 0 {
            let nonce = self.state.generator.draw() as u32;
            context.pool.bytes_mut(&copy)[start..start + 4].copy_from_slice(&nonce.to_be_bytes());
            context.pool.meta_mut(&copy).nonce = nonce;
        }
        self.record_sent(now, entry, forward, context.pool.meta(&copy));
        self.send(copy, forward.face, context);
    }

    /// Sends an Interest to a face, its token kept.
    fn send(&self, packet: Packet, face: FaceId, context: &mut Context<'_, Out>) {
        match prepare(context.pool, &packet, face, &self.faces) {
            Ok(()) => context.out.send(Out::Interest, packet),
            Err(reason) => context.pool.drop_packet(packet, reason, context.drops),
        }
    }

    /// Adds the out-record, if the table has space.
    fn record_sent(&mut self, now: Timestamp, entry: EntryRef, forward: Forward, meta: &Meta) {
        let record = OutRecord {
            face: forward.face,
            nonce: meta.nonce,
            sent: now,
            expiry: now.plus_millis(u64::from(meta.lifetime_ms.min(INTEREST_LIFETIME_MAX_MS))),
            nack: None,
            retx_interval_ms: forward.retx_interval_ms,
        };
        let _: Result<bool, _> = self.outstanding.upsert_out(entry, record);
    }

    /// Removes the entries that a Data satisfies, after calling their strategies.
    fn data(&mut self, now: Timestamp, packet: &Packet, pool: &Pool) {
        let (bytes, meta) = pool.view(packet);
        let mut matched = core::mem::take(&mut self.matched);
        matched.clear();
        let digest = || nw_wire::sha256(&[bytes]);
        self.outstanding.matches(meta.name_in(bytes), &meta.prefixes, None, digest, &mut matched);
        for &entry in &matched {
            if self.outstanding.out_record(entry, meta.ingress).is_none() {
                continue;
            }
            let hold_ms = match self.outstanding.strategy_bits(entry) & WANTS_DATA {
                0 => 0,
                _ => {
                    self.call_strategy(now, entry, Trigger::Data, bytes, meta);
                    self.decisions.extras.hold_ms
                }
            };
            let others = self.outstanding.out_records(entry);
            let others =
                others.filter(|record| record.face != meta.ingress && is_pending(record, now));
            match others.map(|record| record.expiry).max() {
                Some(last) if hold_ms != 0 => {
                    self.outstanding.remove_out(entry, meta.ingress);
                    self.outstanding
                        .set_expiry(entry, last.min(now.plus_millis(u64::from(hold_ms))));
                }
                _ => _ = self.outstanding.remove(entry),
            }
        }
        self.matched = matched;
    }

    /// Finds the strategy of an Interest and calls it. Its decisions are in `self.decisions` until
    /// the next call. `meta` and `bytes` are those of the packet that arrived.
    fn call_strategy(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        trigger: Trigger,
        bytes: &[u8],
        meta: &Meta,
    ) {
        // For Data: the Interest's name may be a prefix of the Data's, or end with an implicit
        // digest.
        let name = match trigger {
            Trigger::Data => self.outstanding.name(entry),
            _ => meta.name_in(bytes),
        };
        let is_other = name.as_bytes().len() != usize::from(meta.name.len);
        let prefixes = is_other.then(|| PrefixHashes::of(&self.key, name));
        let found = self.fib.lookup(name, prefixes.as_ref().unwrap_or(&meta.prefixes));
        let mut route = StrategyRoute::from(found);
        let strategy = self.strategies.strategy(route.strategy);
        let (mut downstream, mut is_local) = (meta.ingress, meta.ingress_local);
        match trigger {
            Trigger::Interest if meta.forwarding_hint.is_some() => {
                // The hint selects the next hops; the strategy is still that of the name.
                let hints = forwarding_hint::names(meta, bytes);
                route.next_hops = forwarding_hint::next_hops(&self.fib, &self.key, hints);
            }
            Trigger::Interest => {}
            Trigger::Nack { downstream: Some(face) } if strategy.retries_after_nack() => {
                downstream = face;
                is_local = self.faces.info(face).is_some_and(|info| info.scope == Scope::Local);
            }
            // Strategies with a timer need a PIT, and are not offered here.
            Trigger::Data | Trigger::Nack { .. } | Trigger::Timer { .. } => route.next_hops = &[],
        }
        let event = Event {
            now,
            entry,
            ingress: meta.ingress,
            next_hops: route.next_hops,
            eligibility: Eligibility::new(&self.faces, downstream, is_local, NameScope::of(name)),
            meta,
            bytes,
            route_len: route.prefix_len,
            strategy: route.strategy,
        };
        let context = StrategyContext::new(
            event,
            &mut self.outstanding,
            &mut self.state,
            &mut self.decisions,
        );
        trigger.call(strategy, context);
    }

    /// Handles a Nack: retries at another next hop, passes it on, or waits for other next hops.
    fn nack(&mut self, now: Timestamp, packet: Packet, context: &mut Context<'_, Out>) {
        let (bytes, meta) = context.pool.view(&packet);
        let ingress = meta.ingress;
        let reason = meta.link.nack.unwrap_or(NackReason::None);
        let entry = self.outstanding.find(&interest_key(meta, bytes));
        let Some(entry) =
            entry.filter(|entry| self.outstanding.out_record(*entry, ingress).is_some())
        else {
            return context.out.send(Out::Nack, packet);
        };
        self.outstanding.update_out(entry, ingress, |record| record.nack = Some(reason));
        // A retry is sent on behalf of the downstream.
        let downstream = match meta.egress {
            FaceId::NONE => {
                self.outstanding.in_records(entry).next().map_or(ingress, |record| record.face)
            }
            egress => egress,
        };
        let trigger = Trigger::Nack { downstream: Some(downstream) };
        self.call_strategy(now, entry, trigger, bytes, meta);

        if let Some(forward) = self.decisions.forwards.first().copied() {
            let meta = context.pool.meta_mut(&packet);
            meta.kind = Kind::Interest;
            meta.ingress = downstream;
            meta.ingress_local =
                self.faces.info(downstream).is_some_and(|info| info.scope == Scope::Local);
            meta.link.nack = None;
            self.record_sent(now, entry, forward, context.pool.meta(&packet));
            return self.send(packet, forward.face, context);
        }
        if !self.outstanding.out_records(entry).any(|record| is_pending(&record, now)) {
            self.outstanding.remove(entry);
        }
        match self.decisions.nacks {
            // Another next hop may still answer, or the strategy wants no Nacks.
            Nacks::None => context.pool.drop_packet(packet, DropCause::NackConsumed, context.drops),
            Nacks::One(_, reason) | Nacks::All(reason) => {
                context.pool.meta_mut(&packet).link.nack = Some(reason);
                context.out.send(Out::Nack, packet);
            }
        }
    }
}

/// Finds or inserts the entry of an Interest. If the table is full, returns a reference that finds
/// nothing.
fn remember(outstanding: &mut Pit, now: Timestamp, bytes: &[u8], meta: &Meta) -> EntryRef {
    let face = if meta.ingress == FaceId::NONE { FaceId::NULL } else { meta.ingress };
    let expiry = now.plus_millis(u64::from(meta.lifetime_ms.min(INTEREST_LIFETIME_MAX_MS)));
    let downstream = Downstream { face, nonce: meta.nonce, expiry, token: &Token::NONE };
    match outstanding.get_or_insert(
        &interest_key(meta, bytes),
        bytes,
        meta.name.into(),
        meta.nonce_start,
        &downstream,
    ) {
        Ok((entry, true)) => entry,
        Ok((entry, false)) => {
            let _: Result<bool, _> = outstanding.upsert_in(entry, downstream.record());
            let latest = outstanding.expiry(entry).map_or(expiry, |known| known.max(expiry));
            outstanding.set_expiry(entry, latest);
            entry
        }
        // A token of another shard: no entry has it.
        Err(_) => EntryRef::from_token(&[u8::MAX; TOKEN_LEN]).expect("as long as a token is"),
    }
}

impl Element for StrategyForwarder {
    type In = In;
    type Out = Out;

    const CHOOSES_EGRESS: bool = true;

    fn prefetch_stages(_: In) -> usize {
        Pit::PREFETCH_STAGES
    }

    fn outputs_for(port: In) -> &'static [Out] {
        match port {
            In::Interest => &[Out::Interest, Out::Nack],
            In::Data => &[Out::Data],
            In::Nack => &[Out::Interest, Out::Nack],
        }
    }

    fn main_output(port: In) -> Option<Out> {
        Some(match port {
            In::Interest => Out::Interest,
            In::Data => Out::Data,
            In::Nack => Out::Nack,
        })
    }

    #[inline(always)]
    fn exceeds_tlb_reach(&self) -> bool {
        self.fib.exceeds_tlb_reach()
    }

    #[inline(always)]
    fn prefetch_pages(&self, port: In, meta: &Meta) {
        if port == In::Interest {
            self.fib.prefetch_pages(&meta.prefixes);
        }
    }

    #[inline]
    fn prefetch(&self, stage: usize, port: In, meta: &Meta) {
        self.outstanding.prefetch(stage, &meta.prefixes);
        if port == In::Interest {
            self.fib.prefetch(stage, &meta.prefixes);
        }
    }

    #[inline]
    fn process(
        &mut self,
        now: Timestamp,
        port: In,
        packet: Packet,
        context: &mut Context<'_, Out>,
    ) {
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

    fn face_gone(&mut self, _: Timestamp, face: FaceId) {
        self.faces.remove(face);
    }

    fn status(&self) -> ElementStatus {
        let values = vec![
            ("outstanding", self.outstanding.len() as u64),
            ("prefixes", self.fib.len() as u64),
        ];
        ElementStatus { values, ..ElementStatus::default() }
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.outstanding.next_expiry()
    }

    fn tick(&mut self, now: Timestamp, _: &mut Context<'_, Out>) {
        for _ in 0..EXPIRED_PER_TICK {
            let Some(entry) = self.outstanding.pop_expired(now) else { break };
            self.outstanding.remove(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_testkit::bench::{KEY, TestBench, as_nack, data, face, interest, name, ports};
    use std::collections::BTreeMap;

    /// Face 300 is the downstream; 301, 302 and 303 are next hops of `/` with costs 1, 2 and 3.
    fn bench(strategy: &str) -> TestBench<StrategyForwarder> {
        let config = StrategyForwarderConfig {
            fib: FibConfig::new(64),
            outstanding: PitConfig::for_entries(64),
            measurements: 64,
            seed: 7,
        };
        let mut bench = TestBench::new(StrategyForwarder::new(KEY, config));
        let info = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
        for number in 300..304 {
            bench.element.face_added(face(number), info);
        }
        let strategy = name(&format!("/localhost/nfd/strategy/{strategy}"));
        let id = bench.element.resolve_strategy(strategy.as_ref()).unwrap();
        let hops = [1, 2, 3].map(|cost| NextHop { face: face(300 + cost), cost });
        bench.element.set_route(name("/").as_ref(), &hops, id).unwrap();
        bench
    }

    fn send_interest(bench: &mut TestBench<StrategyForwarder>, uri: &str, nonce: u32) -> Vec<u32> {
        let emitted = bench.process(In::Interest, &interest(uri, nonce), |meta| {
            meta.ingress = face(300);
            meta.link.token = Token::new(b"theirs").unwrap();
        });
        assert!(
            emitted.iter().all(|l| l.port == "interest" && l.link.token.as_bytes() == b"theirs")
        );
        emitted.iter().map(|emitted| emitted.egress.bits()).collect()
    }

    fn nack_from(
        bench: &mut TestBench<StrategyForwarder>,
        uri: &str,
        by: u32,
    ) -> Vec<nw_testkit::bench::Emitted> {
        let nack = as_nack(NackReason::NoRoute);
        bench.process(In::Nack, &interest(uri, 1), |meta| {
            nack(meta);
            (meta.ingress, meta.egress) = (face(by), face(300));
            meta.link.token = Token::new(b"theirs").unwrap();
        })
    }

    #[test]
    fn strategies_that_share_load_use_all_next_hops() {
        let mut shared = bench("round-robin");
        let turns: Vec<u32> =
            (0..6).flat_map(|n| send_interest(&mut shared, &format!("/a/{n}"), n)).collect();
        assert_eq!(turns, [301, 302, 303, 301, 302, 303]);
        for strategy in ["hash", "random", "weighted/v=1/weights~1-1-1"] {
            let mut bench = bench(strategy);
            let mut got: BTreeMap<u32, u32> = BTreeMap::new();
            for number in 0..300 {
                let uri = format!("/a/{number}");
                let to = send_interest(&mut bench, &uri, number)[0];
                *got.entry(to).or_default() += 1;
                bench.process(In::Data, &data(&uri), |meta| meta.ingress = face(to));
            }
            assert!(got.len() == 3 && got.values().all(|count| *count > 70), "{strategy}: {got:?}");
            assert_eq!(bench.element.outstanding(), 0);
        }
    }

    #[test]
    fn multicast_uses_all_next_hops_and_sends_no_nack() {
        let mut bench = bench("multicast");
        assert_eq!(send_interest(&mut bench, "/a", 1), [301, 302, 303]);
        assert!(nack_from(&mut bench, "/a", 301).is_empty(), "it sends no Nacks");
        assert_eq!(bench.drops.total(DropCause::NackConsumed), 1);
        assert_eq!(
            ports(&bench.process(In::Data, &data("/a"), |meta| meta.ingress = face(302))),
            ["data"]
        );
        assert_eq!(bench.pool.packets_in_use(), 0);
    }

    /// Two downstreams of one name: with a PIT the second Interest would be aggregated.
    #[test]
    fn suppressed_interest_goes_where_the_last_one_went() {
        let mut bench = bench("best-route");
        assert_eq!(send_interest(&mut bench, "/a", 1), [301]);
        assert_eq!(send_interest(&mut bench, "/a", 2), [301]);
        bench.advance_ms(20);
        assert_eq!(
            send_interest(&mut bench, "/a", 3),
            [302],
            "a retransmission uses another next hop"
        );
        bench.advance_ms(5000);
        assert_eq!(bench.element.outstanding(), 0);
        assert_eq!(send_interest(&mut bench, "/a", 4), [301]);
    }

    #[test]
    fn failed_next_hop_is_avoided_until_it_recovers() {
        let mut bench = bench("fail-over/v=1/recovery-interval~1000");
        let ask = |bench: &mut TestBench<StrategyForwarder>, number: u32| {
            bench.advance_ms(300);
            send_interest(bench, &format!("/a/{number}"), number)
        };
        let answer = |bench: &mut TestBench<StrategyForwarder>, number: u32, by: u32| {
            bench.advance_ms(10);
            bench.process(In::Data, &data(&format!("/a/{number}")), |meta| meta.ingress = face(by));
        };
        for number in 0..3 {
            assert_eq!(ask(&mut bench, number), [301]);
            answer(&mut bench, number, 301);
        }
        // Two timeouts.
        let outstanding: Vec<u32> = (3..10).flat_map(|number| ask(&mut bench, number)).collect();
        assert!(outstanding.contains(&302), "{outstanding:?}");
        let (mut number, mut back) = (10, false);
        while number < 40 && !back {
            let asked = ask(&mut bench, number);
            asked.iter().for_each(|by| answer(&mut bench, number, *by));
            back = asked == [301];
            number += 1;
        }
        assert!(back, "a probe found it working again");
    }

    #[test]
    fn nack_is_retried_at_other_next_hops_before_it_is_returned() {
        let mut bench = bench("weighted/v=1/weights~1-1-1");
        let first = send_interest(&mut bench, "/a", 1)[0];
        let mut asked = vec![first];
        for _ in 0..2 {
            let emitted = nack_from(&mut bench, "/a", asked[asked.len() - 1]);
            assert_eq!(
                (ports(&emitted), emitted[0].kind, emitted[0].ingress),
                (vec!["interest"], Kind::Interest, face(300))
            );
            assert_eq!(
                (emitted[0].link.nack, emitted[0].link.token.as_bytes()),
                (None, &b"theirs"[..])
            );
            asked.push(emitted[0].egress.bits());
        }
        let emitted = nack_from(&mut bench, "/a", asked[2]);
        assert_eq!(
            (ports(&emitted), emitted[0].link.nack),
            (vec!["nack"], Some(NackReason::NoRoute))
        );
        asked.sort_unstable();
        assert_eq!((asked, bench.element.outstanding()), (vec![301, 302, 303], 0));
        assert_eq!(ports(&nack_from(&mut bench, "/b", 301)), ["nack"], "without an entry");
    }

    #[test]
    fn asf_prefers_the_fastest_next_hop() {
        let mut bench = bench("asf/v=5/probing-interval~1000");
        let delays = [(301, 60), (302, 5), (303, 90)];
        let mut last = Vec::new();
        for number in 0..400u32 {
            let uri = format!("/a/{number}");
            last = send_interest(&mut bench, &uri, number);
            let mut due: Vec<(u64, u32)> = delays
                .iter()
                .filter(|(hop, _)| last.contains(hop))
                .map(|(hop, delay)| (*delay, *hop))
                .collect();
            due.sort_unstable();
            let mut at = 0;
            for (delay, by) in due {
                bench.advance_ms(delay - at);
                at = delay;
                bench.process(In::Data, &data(&uri), |meta| meta.ingress = face(by));
            }
            bench.advance_ms(100 - at);
        }
        assert_eq!(last[last.len() - 1], 302);
    }

    #[test]
    fn full_table_or_missing_route_still_handles_interests() {
        let config = StrategyForwarderConfig {
            outstanding: PitConfig::for_entries(1),
            fib: FibConfig::new(64),
            ..StrategyForwarderConfig::default()
        };
        let mut full = bench("round-robin");
        full.element.outstanding = Pit::new(KEY, 0, config.outstanding);
        let outstanding: Vec<u32> =
            (0..4).flat_map(|n| send_interest(&mut full, &format!("/{n}"), n)).collect();
        assert_eq!((outstanding, full.element.outstanding()), (vec![301, 302, 303, 301], 1));

        let mut bench = bench("best-route");
        bench.element.remove_route(name("/").as_ref());
        let emitted =
            bench.process(In::Interest, &interest("/a", 1), |meta| meta.ingress = face(300));
        assert_eq!(
            (ports(&emitted), emitted[0].link.nack),
            (vec!["nack"], Some(NackReason::NoRoute))
        );
        assert_eq!(bench.drops.total(DropCause::NoRoute), 1);
        for strategy in ["access", "self-learning"] {
            let uri = name(&format!("/localhost/nfd/strategy/{strategy}"));
            let error = bench.element.resolve_strategy(uri.as_ref()).unwrap_err();
            assert!(error.to_string().contains("put a router"), "{error}");
        }
    }
}
