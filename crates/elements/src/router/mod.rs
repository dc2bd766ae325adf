//! The NDN forwarding plane: pending Interest table, FIB and strategies. Asked after the content store.
//!
//! ```text
//! In:     interest, data, nack
//! Out:    interest, data, nack, lesson
//! Needs:  all that decoding fills, but for names of labelled Data; ingress, ingress_local, link as received; scope, hop limit and nonce seen to by
//!         `packet_dispatcher`
//! Sets:   egress and link (as to be sent) of all that leaves; cached, true on all copies of a Data but one
//! State:  pending Interests, routes, dead nonces, strategies, their measurements, announcements: each of a size fixed at start
//! Timers: one per pending Interest: the latest of its askers' lifetimes, or earlier where a strategy asked to be woken; ten a second while the
//!         table of pending Interests is more than a quarter full
//! Cost:   benchmark `forward/memory/fib1e6`
//! Drops:  duplicate_nonce, aggregated, retransmission_suppressed, no_route, next_hop_unknown, hop_limit_spent, pit_full,
//!         pit_full_for_face, pit_evicted, unsolicited_data, data_from_wrong_face, unsolicited_nack, nack_on_multi_access, nack_consumed, face_gone,
//!         no_buffer, malformed_too_long, malformed_truncated, malformed_number_not_minimal, malformed_type_range,
//!         malformed_digest_length (the last four: names that were read late)
//! Spec:   NDN Packet Format 0.3; NDNLPv2; the pipelines of the reference forwarder where the specification leaves it open
//! ```
//!
//! A packet leaves by `data` with egress 0 when nobody waits for it any more but a content store may keep it. What leaves by `lesson` is for control:
//! a prefix announcement (an undecoded Data) from which a route to `ingress` is to be made, or a Nack for which `ingress` is no route any more.
//!
//! | file | what |
//! |---|---|
//! | `interest.rs` | incoming Interests: loops, the table, the strategy |
//! | `data.rs` | incoming Data: every pending Interest it satisfies |
//! | `nack.rs` | incoming and outgoing Nacks |
//! | `outgoing.rs` | outgoing Interests, expiry |
//! | `shortage.rs` | what gives way when the table is short, and how lifetimes are cut before |
//! | `scan.rs` | what looks at every pending Interest, a part at a time |
//! | `seldom.rs` | what few strategies ask for: copies of their own, waking, lingering, announcements |
//! | `control.rs` | faces, routes, strategies, regions; status |
//! | `routes.rs` | what a change of a route is to a FIB, its own or a shared one |

mod control;
mod data;
mod interest;
mod nack;
mod outgoing;
pub mod routes;
mod scan;
mod seldom;
mod shortage;

use crate::scope::Scopes;
use crate::strategy::{DISCOVERY_FACES_MAX, Decisions, Strategies, StrategyState, WANTS_WAKING};
use nw_element_api::{Context, Element, FaceId, FaceInfo, Instant, Meta, Packet, Peer, Pool};
use nw_name::{HashKey, Name};
use nw_tables::FaceTable;
use nw_tables::dnl::DeadNonceList;
use nw_tables::fib::{Fib, FibConfig, NextHop};
use nw_tables::pit::{EntryRef, MATCHES_MAX, Pit, PitConfig, TOKEN_LEN};
use nw_wire::Token;
use seldom::Announcements;
use std::sync::Arc;

nw_element_api::ports! {
    /// Where packets enter.
    pub enum In {
        /// Not answered by the content store.
        Interest = "interest" [Interest],
        /// From a face, not from the content store.
        Data = "data" [Data],
        /// A refusal of an Interest that was sent.
        Nack = "nack" [Nack],
    }
}

nw_element_api::ports! {
    /// Where packets leave.
    pub enum Out {
        /// To a next hop.
        Interest = "interest" [Interest],
        /// To an asker.
        Data = "data" [Data],
        /// To an asker.
        Nack = "nack" [Nack],
        /// To control, which changes routes.
        Lesson = "lesson" [Data, Nack],
    }
}

/// What a router is made with.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// Number of this shard, in the tokens it gives.
    pub shard: u8,
    /// Sizes of the pending Interest table.
    pub pit: PitConfig,
    /// Sizes of the FIB.
    pub fib: FibConfig,
    /// Nonces remembered after their Interest is gone.
    pub dead_nonces: usize,
    /// Gives each Interest that is sent a token of 6 octets, to be returned by the peer if it can.
    pub upstream_tokens: bool,
    /// Takes Data from a face that was not asked, as the reference does. A hole: whoever guesses a name answers for it.
    pub accept_data_from_any_face: bool,
    /// InterestLifetimes are cut to this many milliseconds; those of remote faces to less while the table is short.
    pub lifetime_max_ms: u32,
    /// Prefixes of which strategies remember something.
    pub measurements: usize,
    /// Makes what strategies draw.
    pub seed: u64,
}

impl Default for RouterConfig {
    /// A quarter of a million pending Interests, a million prefixes; tokens are given, Data is taken only from whom it was asked.
    fn default() -> Self {
        RouterConfig {
            shard: 0,
            pit: PitConfig::default(),
            fib: FibConfig::new(FibConfig::PREFIXES_DEFAULT),
            dead_nonces: 1 << 18,
            upstream_tokens: true,
            accept_data_from_any_face: false,
            lifetime_max_ms: LIFETIME_MAX_DEFAULT_MS,
            measurements: 1 << 16,
            seed: 0,
        }
    }
}

/// Longer than any client's known to wait: a reader of face events asks for a minute.
const LIFETIME_MAX_DEFAULT_MS: u32 = 600_000;

/// What became of pending Interests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterCounters {
    /// Pending Interests that were answered by Data.
    pub satisfied: u64,
    /// Pending Interests that ended otherwise.
    pub unsatisfied: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Router {
    key: HashKey,
    scopes: Scopes,
    upstream_tokens: bool,
    accept_data_from_any_face: bool,
    lifetime_max_ms: u32,
    shortage: shortage::ShortageState,
    pit: Pit,
    /// Its own, or one that several routers read: then it is replaced, never changed.
    fib: Arc<Fib>,
    dead_nonces: DeadNonceList,
    faces: FaceTable,
    /// By face slot: the peer has used PIT tokens itself. Some libraries take an Interest with a link field they don't know for an error, so a local
    /// application that never showed a token is sent none.
    knows_tokens: Vec<bool>,
    strategies: Strategies,
    strategy_state: StrategyState,
    announcements: Announcements,
    /// Names of the regions this router is in: ForwardingHints that lead here have done their work.
    regions: Vec<Name>,
    counters: RouterCounters,
    scans: scan::Scans,
    // Room used again by each packet, so that none of them allocates.
    decisions: Decisions,
    matched: Vec<EntryRef>,
    downstreams: Vec<(FaceId, Token)>,
}

/// Pending Interests ended by one call of [`Element::tick`].
const EXPIRED_PER_TICK: usize = 1024;

impl Router {
    /// Without faces and routes; `/` has the default strategy and no next hop.
    ///
    /// `key` is the one packets are decoded with.
    ///
    /// # Panics
    /// When the FIB is to have no prefix at all.
    pub fn new(key: HashKey, config: RouterConfig) -> Self {
        let next_hops_max = config.fib.next_hops_per_prefix_max;
        // Routers of one graph have different seeds.
        let fib = routes::empty_fib(key, FibConfig { owner: config.seed as u32, ..config.fib });
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
            knows_tokens: Vec::new(),
            strategies: Strategies::default(),
            strategy_state: StrategyState::new(config.measurements, config.seed),
            announcements: Announcements::default(),
            regions: Vec::new(),
            counters: RouterCounters::default(),
            scans: scan::Scans::default(),
            decisions: Decisions::with_capacity(next_hops_max.max(DISCOVERY_FACES_MAX)),
            matched: Vec::with_capacity(MATCHES_MAX),
            downstreams: Vec::with_capacity(1024),
        }
    }

    /// [`prefetch`](Element::prefetch) without the FIB.
    #[inline(always)]
    pub(crate) fn prefetch_pending(&self, stage: usize, port: In, meta: &Meta) {
        match port {
            In::Interest => {
                if stage < 2 || meta.maybe_pending.get() {
                    meta.maybe_pending.set(self.pit.prefetch(stage, &meta.prefixes));
                }
                if stage == 0 {
                    self.dead_nonces.prefetch(meta.arrival, meta.prefixes.key(), meta.nonce);
                }
            }
            // With a token the entry is usually found without the index.
            In::Data if meta.link.token.len() != TOKEN_LEN => _ = self.pit.prefetch(stage, &meta.prefixes),
            In::Data if stage == 2 => self.pit.prefetch_hash(meta.likely_hash.get()),
            In::Data => {
                if let Some(hash) = self.pit.prefetch_token(stage, &meta.link.token) {
                    meta.likely_hash.set(hash);
                }
            }
            In::Nack => _ = self.pit.prefetch(stage, &meta.prefixes),
        }
    }
}

impl Element for Router {
    type In = In;
    type Out = Out;

    const CLAIMS_REPLIES: bool = true;
    const GUARDS_LOOPS: bool = true;
    const TAKES_UNREAD_NAMES: bool = true;

    fn prefetch_stages(port: In) -> usize {
        match port {
            In::Interest => Fib::PREFETCH_STAGES,
            In::Data | In::Nack => Pit::PREFETCH_STAGES,
        }
    }

    fn leads(port: In) -> &'static [Out] {
        match port {
            In::Interest | In::Nack => &[Out::Interest, Out::Nack, Out::Lesson],
            In::Data => &[Out::Data, Out::Lesson],
        }
    }

    #[inline]
    fn usual(port: In) -> Option<Out> {
        (port == In::Data).then_some(Out::Data)
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

    #[inline(always)]
    fn prefetch(&self, stage: usize, port: In, meta: &Meta) {
        // It ends in the content store then, nearly always.
        if port == In::Interest && stage > 0 && meta.cache_hint.is_maybe_here() {
            return;
        }
        self.prefetch_pending(stage, port, meta);
        if port == In::Interest {
            self.fib.prefetch_hinted(stage, &meta.prefixes, &meta.route_hint);
        }
    }

    #[inline(always)]
    fn process(&mut self, now: Instant, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        match port {
            In::Interest => self.interest(now, packet, context),
            In::Data => self.data(now, packet, context),
            In::Nack => self.nack(now, packet, context),
        }
    }

    fn face_added(&mut self, face: FaceId, info: FaceInfo) {
        self.add_face(face, info);
    }

    fn set_peer(&mut self, face: FaceId, peer: Peer) {
        self.pit.set_peer(face, peer);
    }

    fn face_gone(&mut self, now: Instant, face: FaceId) {
        self.remove_face(now, face);
    }

    fn is_idle(&self) -> bool {
        self.pit.is_empty()
    }

    fn expects(&self, packet: &Packet, pool: &Pool) -> bool {
        self.awaits(packet, pool)
    }

    fn deadline(&self) -> Option<Instant> {
        if !self.scans.is_empty() {
            return Some(Instant::START);
        }
        [self.pit.next_expiry(), self.shortage_deadline()].into_iter().flatten().min()
    }

    fn tick(&mut self, now: Instant, context: &mut Context<'_, Out>) {
        self.check_shortage(now);
        self.scan_part(now, context);
        for _ in 0..EXPIRED_PER_TICK {
            match self.pit.pop_expired(now) {
                Some(entry) if self.pit.strategy_bits(entry) & WANTS_WAKING != 0 => {
                    self.wake_strategy(now, entry, context);
                }
                Some(entry) => self.finish_unsatisfied(now, entry),
                None => break,
            }
        }
    }
}

/// No next hop.
const NOWHERE: &[NextHop] = &[];
