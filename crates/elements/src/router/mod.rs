//! The NDN forwarding plane: pending Interest table (PIT), FIB and strategies. It comes after the
//! content store.
//!
//! ```text
//! In:     interest, data, nack
//! Out:    interest, data, nack, route_event
//! Needs:  all that decoding fills, except names of Data with our token; ingress, ingress_local,
//!         link as received; scope, hop limit and nonce handled by `packet_dispatcher`
//! Sets:   egress and link (as to be sent) of all packets sent; cached, true on all copies of a
//!         Data but one
//! State:  PIT, FIB, dead nonce list, strategies, their measurements, announcements: each of a size
//!         fixed at start
//! Timers: one per pending Interest: the latest in-record expiry, or earlier if a strategy set a
//!         timer; ten a second while the PIT is more than a quarter full
//! Cost:   benchmark `forward/memory/fib1e6`
//! Drops:  duplicate_nonce, aggregated, retransmission_suppressed, no_route, next_hop_unknown,
//!         hop_limit_spent, pit_full, pit_full_for_face, pit_evicted, unsolicited_data,
//!         data_from_wrong_face, unsolicited_nack, nack_on_multi_access, nack_consumed, face_gone,
//!         no_buffer, malformed_too_long, malformed_truncated, malformed_number_not_minimal,
//!         malformed_type_range, malformed_digest_length (the last four: names resolved late)
//! Spec:   NDN Packet Format 0.3; NDNLPv2; the pipelines of NFD where the specification leaves it
//!         open
//! ```
//!
//! Data leaves by `data` with egress 0 if it has no downstream left but a content store may keep
//! it. Packets that leave by `route_event` are for control: a prefix announcement (an undecoded
//! Data) from which a route to `ingress` is to be made, or a Nack after which the route to
//! `ingress` is to be removed.
//!
//! | file | what |
//! |---|---|
//! | `interest.rs` | incoming Interests: loops, the PIT, the strategy |
//! | `data.rs` | incoming Data: every pending Interest it satisfies |
//! | `nack.rs` | incoming and outgoing Nacks |
//! | `outgoing.rs` | outgoing Interests, end of pending ones |
//! | `strategy_events.rs` | calls of the strategy; timers, late Data |
//! | `copies.rs` | packets made from the PIT's copy of an Interest |
//! | `announcements.rs` | prefix announcements of self-learning |
//! | `shortage.rs` | eviction when the PIT is full, shorter lifetimes before that |
//! | `scan.rs` | scans of the whole PIT, a part per tick |
//! | `control.rs` | faces, routes, strategies, regions; status |
//! | `routes.rs` | changes of a FIB, the router's own or a shared one |

mod announcements;
mod control;
mod copies;
mod data;
mod interest;
mod nack;
mod outgoing;
pub mod routes;
mod scan;
mod shortage;
mod strategy_events;

use crate::INTEREST_LIFETIME_MAX_MS;
use crate::scope::Scopes;
use crate::strategy::{DISCOVERY_FACES_MAX, Decisions, Strategies, StrategyState, WANTS_TIMER};
use announcements::Announcements;
use nw_element_api::{
    Context, Element, ElementStatus, FaceId, FaceInfo, Meta, Packet, Peer, Pool, Prediction,
    Timestamp,
};
use nw_name::{HashKey, Name};
use nw_tables::FaceTable;
use nw_tables::dnl::DeadNonceList;
use nw_tables::fib::{Fib, FibConfig, FibProbe, NextHop};
use nw_tables::pit::{EntryRef, MATCHES_MAX, Pit, PitConfig, TOKEN_LEN};
use nw_wire::Token;

use std::sync::Arc;

nw_element_api::ports! {
    /// Where packets enter.
    pub enum In {
        /// Interests the content store did not answer.
        Interest = "interest" [Interest],
        /// Data from a face, not from the content store.
        Data = "data" [Data],
        /// Nacks for Interests that were sent.
        Nack = "nack" [Nack],
    }
}

nw_element_api::ports! {
    /// Where packets leave.
    pub enum Out {
        /// Interests for a next hop.
        Interest = "interest" [Interest],
        /// Data for a downstream.
        Data = "data" [Data],
        /// Nacks for a downstream.
        Nack = "nack" [Nack],
        /// Announcements and Nacks for control, which changes routes.
        RouteEvent = "route_event" | "lesson" [Data, Nack],
    }
}

/// Configuration of a router.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// Number of this shard, written into its PIT tokens.
    pub shard: u8,
    /// Sizes of the PIT.
    pub pit: PitConfig,
    /// Sizes of the FIB.
    pub fib: FibConfig,
    /// Nonces remembered after their Interest has ended.
    pub dead_nonces: usize,
    /// Whether each Interest that is sent carries a PIT token of 6 bytes, to be returned by the
    /// peer.
    pub upstream_tokens: bool,
    /// Whether Data is accepted from a face the Interest was not sent to, as in NFD. Insecure: any
    /// face that guesses a name can answer.
    pub accept_data_from_any_face: bool,
    /// Longest InterestLifetime in milliseconds; longer ones are reduced to it. Remote faces get
    /// less while the PIT is nearly full.
    pub lifetime_max_ms: u32,
    /// Prefixes for which strategies keep measurements.
    pub measurements: usize,
    /// Seed of the strategies' random numbers.
    pub seed: u64,
}

impl Default for RouterConfig {
    /// 262,144 pending Interests and as many prefixes; tokens are sent; Data is accepted only from
    /// faces the Interest was sent to.
    fn default() -> Self {
        RouterConfig {
            shard: 0,
            pit: PitConfig::default(),
            fib: FibConfig::new(FibConfig::PREFIXES_DEFAULT),
            dead_nonces: 1 << 18,
            upstream_tokens: true,
            accept_data_from_any_face: false,
            lifetime_max_ms: INTEREST_LIFETIME_MAX_MS,
            measurements: 1 << 16,
            seed: 0,
        }
    }
}

/// How pending Interests ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterCounters {
    /// Satisfied by Data.
    pub satisfied: u64,
    /// Ended without Data.
    pub unsatisfied: u64,
}

/// The router element.
#[derive(Debug)]
pub struct Router {
    key: HashKey,
    scopes: Scopes,
    upstream_tokens: bool,
    accept_data_from_any_face: bool,
    lifetime_max_ms: u32,
    shortage: shortage::ShortageState,
    pit: Pit,
    /// Its own FIB, or one shared with other routers: a shared one is replaced, never changed.
    fib: Arc<Fib>,
    dead_nonces: DeadNonceList,
    faces: FaceTable,
    /// By face slot: whether the peer accepts PIT tokens. Some libraries reject an Interest with an
    /// unknown link field, so a local application is sent none until it has used tokens itself.
    peer_takes_tokens: Vec<bool>,
    strategies: Strategies,
    strategy_state: StrategyState,
    announcements: Announcements,
    /// Names of the producer regions this router is in: a ForwardingHint that leads here is
    /// removed.
    regions: Vec<Name>,
    counters: RouterCounters,
    scans: scan::TableScans,
    // Buffers reused for each packet, so that no packet allocates.
    decisions: Decisions,
    matched: Vec<EntryRef>,
    downstreams: Vec<(FaceId, Token)>,
}

/// Pending Interests expired by one call of [`Element::tick`].
const EXPIRED_PER_TICK: usize = 1024;

impl Router {
    /// Creates a router without faces and routes; `/` has the default strategy and no next hop.
    /// `key` must be the key that packets are decoded with.
    ///
    /// # Panics
    /// When the FIB has no room for a single prefix.
    pub fn new(key: HashKey, config: RouterConfig) -> Self {
        let next_hops_max = config.fib.next_hops_per_prefix_max;
        let fib = routes::empty_fib(key, config.fib);
        Router {
            key,
            scopes: Scopes::new(&key),
            upstream_tokens: config.upstream_tokens,
            accept_data_from_any_face: config.accept_data_from_any_face,
            lifetime_max_ms: config.lifetime_max_ms,
            shortage: shortage::ShortageState::new(config.lifetime_max_ms),
            pit: Pit::new(key, config.shard, config.pit),
            fib: Arc::new(fib),
            dead_nonces: DeadNonceList::new(config.dead_nonces),
            faces: FaceTable::new(),
            peer_takes_tokens: Vec::new(),
            strategies: Strategies::default(),
            strategy_state: StrategyState::new(config.measurements, config.seed),
            announcements: Announcements::default(),
            regions: Vec::new(),
            counters: RouterCounters::default(),
            scans: scan::TableScans::default(),
            decisions: Decisions::with_capacity(next_hops_max.max(DISCOVERY_FACES_MAX)),
            matched: Vec::with_capacity(MATCHES_MAX),
            downstreams: Vec::with_capacity(1024),
        }
    }

    /// Prefetches as [`prefetch`](Element::prefetch) does and stores in `probe` the route that it
    /// found, for [`process_with_probe`](Self::process_with_probe).
    #[inline(always)]
    pub fn advance(
        &self,
        stage: usize,
        port: In,
        meta: &Meta,
        prediction: &mut Prediction,
        probe: &mut FibProbe,
    ) {
        let Some(stage) = stage.checked_sub(1) else {
            if port == In::Interest {
                self.fib.prefetch_pages(&meta.prefixes);
            }
            return;
        };
        if port == In::Interest {
            if stage > 0 && prediction.is_cached {
                return;
            }
            if !prediction.is_routed {
                self.fib.advance(stage, &meta.prefixes, probe);
                prediction.is_routed = probe.has_entry();
            }
        }
        self.prefetch_pending(stage, port, meta, prediction);
    }

    /// Returns whether stage 0 of [`advance`](Self::advance) helps: the FIB is too large for the
    /// processor's cache of page translations.
    #[inline(always)]
    pub fn exceeds_tlb_reach(&self) -> bool {
        self.fib.exceeds_tlb_reach()
    }

    /// Stages 1 to 3 of [`advance`](Self::advance), counted from 0, for the PIT and the dead nonce
    /// list, without the FIB.
    #[inline(always)]
    pub(crate) fn prefetch_pending(
        &self,
        stage: usize,
        port: In,
        meta: &Meta,
        prediction: &mut Prediction,
    ) {
        match port {
            In::Interest => {
                if stage < 2 || !prediction.is_new {
                    prediction.is_new = !self.pit.prefetch(stage, &meta.prefixes);
                }
                if stage == 0 {
                    self.dead_nonces.prefetch(
                        meta.arrival,
                        meta.prefixes.lookup_hash(),
                        meta.nonce,
                    );
                }
            }
            // With our token the entry is usually found without the index.
            In::Data if meta.link.token.len() != TOKEN_LEN => {
                _ = self.pit.prefetch(stage, &meta.prefixes)
            }
            In::Data if stage == 2 => self.pit.prefetch_hash(prediction.name_hash),
            In::Data => {
                if let Some(hash) = self.pit.prefetch_token(stage, &meta.link.token) {
                    prediction.name_hash = hash;
                }
            }
            In::Nack => _ = self.pit.prefetch(stage, &meta.prefixes),
        }
    }

    /// Processes one packet as [`process`](Element::process) does, whatever `probe` holds, which
    /// [`advance`](Self::advance) has filled for this packet.
    #[inline(always)]
    pub fn process_with_probe(
        &mut self,
        now: Timestamp,
        port: In,
        packet: Packet,
        probe: &FibProbe,
        context: &mut Context<'_, Out>,
    ) {
        match port {
            In::Interest => self.interest(now, packet, probe, context),
            In::Data => self.data(now, packet, context),
            In::Nack => self.nack(now, packet, context),
        }
    }
}

impl Element for Router {
    type In = In;
    type Out = Out;

    const CHOOSES_EGRESS: bool = true;
    const TRACKS_PENDING: bool = true;
    const DETECTS_LOOPS: bool = true;
    const ACCEPTS_DEFERRED_NAMES: bool = true;

    fn prefetch_stages(port: In) -> usize {
        match port {
            In::Interest => 1 + Fib::PREFETCH_STAGES,
            In::Data | In::Nack => 1 + Pit::PREFETCH_STAGES,
        }
    }

    fn outputs_for(port: In) -> &'static [Out] {
        match port {
            In::Interest | In::Nack => &[Out::Interest, Out::Nack, Out::RouteEvent],
            In::Data => &[Out::Data, Out::RouteEvent],
        }
    }

    #[inline]
    fn main_output(port: In) -> Option<Out> {
        (port == In::Data).then_some(Out::Data)
    }

    #[inline(always)]
    fn prefetch(&self, stage: usize, port: In, meta: &Meta, prediction: &mut Prediction) {
        self.advance(stage, port, meta, prediction, &mut FibProbe::default());
    }

    #[inline(always)]
    fn process(
        &mut self,
        now: Timestamp,
        port: In,
        packet: Packet,
        context: &mut Context<'_, Out>,
    ) {
        self.process_with_probe(now, port, packet, &FibProbe::default(), context);
    }

    fn face_added(&mut self, face: FaceId, info: FaceInfo) {
        self.add_face(face, info);
    }

    fn set_peer(&mut self, face: FaceId, peer: Peer) {
        self.pit.set_peer(face, peer);
    }

    fn face_gone(&mut self, now: Timestamp, face: FaceId) {
        self.remove_face(now, face);
    }

    fn is_idle(&self) -> bool {
        self.pit.is_empty()
    }

    fn status(&self) -> ElementStatus {
        let counters = self.counters();
        let values = vec![
            ("pending", self.pit.len() as u64),
            ("prefixes", self.fib.len() as u64),
            ("satisfied", counters.satisfied),
            ("unsatisfied", counters.unsatisfied),
        ];
        ElementStatus { values, ..ElementStatus::default() }
    }

    fn awaits_reply(&self, packet: &Packet, pool: &Pool) -> bool {
        self.is_awaiting(packet, pool)
    }

    fn deadline(&self) -> Option<Timestamp> {
        if !self.scans.is_empty() || self.pit.has_ended_records() {
            return Some(Timestamp::START);
        }
        [self.pit.next_expiry(), self.shortage_deadline()].into_iter().flatten().min()
    }

    fn tick(&mut self, now: Timestamp, context: &mut Context<'_, Out>) {
        self.check_shortage(now);
        self.scan_part(now, context);
        for _ in 0..EXPIRED_PER_TICK {
            match self.pit.pop_expired(now) {
                Some(entry) if self.pit.strategy_bits(entry) & WANTS_TIMER != 0 => {
                    self.strategy_on_timer(now, entry, context);
                }
                Some(entry) => self.finish_unsatisfied(now, entry),
                None => break,
            }
        }
    }
}

/// An empty list of next hops.
const NO_NEXT_HOPS: &[NextHop] = &[];
