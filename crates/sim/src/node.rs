//! What a simulated router is made of: anything that takes decoded packets and gives decoded packets, and says when it wants to be called again.

use nw_element_api::{DropCounters, FaceId, FaceInfo, Instant, Packet, Pool};
use nw_elements::RouterConfig;
use nw_elements::strategy::StrategyError;
use nw_name::{HashKey, NameRef};
use nw_router::plane::Plane;
use nw_tables::cs::{CsConfig, PolicyKind};
use nw_tables::fib::{FibConfig, FibError, NextHop};
use nw_tables::pit::PitConfig;

/// A packet engine under simulation. It reads no clock and opens no socket: links, faces and time are the simulation's.
pub trait Node {
    /// Takes decoded packets, all of them, in order; what leaves is appended to `out` with `meta.egress` set.
    fn process(&mut self, now: Instant, packets: &mut Vec<Packet>, pool: &mut Pool, out: &mut Vec<Packet>);

    /// Ends what is due; what leaves is appended to `out`.
    fn tick(&mut self, now: Instant, pool: &mut Pool, out: &mut Vec<Packet>);

    /// When [`tick`](Self::tick) wants to be called.
    fn deadline(&self) -> Option<Instant>;

    /// Makes a face known, before its first packet comes.
    fn add_face(
        &mut self,
        now: Instant,
        face: FaceId,
        info: FaceInfo,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    );

    /// Sets next hops and strategy of a prefix; without next hops the prefix goes.
    ///
    /// # Errors
    /// What is too much, or that there is no such strategy.
    fn set_route(
        &mut self,
        now: Instant,
        prefix: NameRef<'_>,
        next_hops: &[NextHop],
        strategy: NameRef<'_>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) -> Result<(), RouteError>;

    /// What was counted since it was made.
    fn counters(&self) -> NodeCounters;

    /// Packets it dropped since it was made, by reason.
    fn drops(&self) -> DropCounters;
}

/// Why a route was not set.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RouteError {
    /// No room.
    #[error("{0}")]
    Fib(#[from] FibError),
    /// No such strategy.
    #[error("{0}")]
    Strategy(StrategyError),
}

/// What a node counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Interests that the content store answered.
    pub cs_hits: u64,
    /// Interests that it was asked for and did not answer.
    pub cs_misses: u64,
    /// Data kept.
    pub cs_insertions: u64,
    /// Data that made room for others.
    pub cs_evictions: u64,
    /// Pending Interests that were answered.
    pub satisfied: u64,
    /// Pending Interests that ended otherwise.
    pub unsatisfied: u64,
}

impl NodeCounters {
    /// Adds another's.
    pub const fn add(&mut self, other: &NodeCounters) {
        self.cs_hits += other.cs_hits;
        self.cs_misses += other.cs_misses;
        self.cs_insertions += other.cs_insertions;
        self.cs_evictions += other.cs_evictions;
        self.satisfied += other.satisfied;
        self.unsatisfied += other.unsatisfied;
    }
}

/// How large a node's tables are. Memory is taken as it is first used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Pending Interests.
    pub pit_entries: usize,
    /// Routes.
    pub fib_prefixes: usize,
    /// Nonces remembered after their Interest is gone.
    pub dead_nonces: usize,
    /// Prefixes of which strategies remember something.
    pub measurements: usize,
    /// Data kept; 0 is none.
    pub store_packets: usize,
    /// Octets of these.
    pub store_octets: usize,
    /// Which Data go first.
    pub store_policy: PolicyKind,
}

/// InterestLifetimes above this are cut, as routers do.
const LIFETIME_MAX_MS: u32 = 3_600_000;

/// Host A's forwarding plane: the standard graph, fused.
#[derive(Debug)]
pub struct Fused {
    plane: Plane,
}

impl Fused {
    /// With empty tables.
    pub fn new(key: HashKey, seed: u64, config: &NodeConfig) -> Self {
        let router = RouterConfig {
            pit: PitConfig::for_entries(config.pit_entries),
            fib: FibConfig { next_hops_per_prefix_max: 64, ..FibConfig::new(config.fib_prefixes) },
            dead_nonces: config.dead_nonces,
            lifetime_max_ms: LIFETIME_MAX_MS,
            measurements: config.measurements,
            ..RouterConfig::default()
        };
        let store = CsConfig { packets_max: config.store_packets, bytes_max: config.store_octets };
        let mut plane = Plane::new(key, seed, router, store);
        // One packet at a time: there is no batch to ask for memory together.
        plane.set_prefetch(false);
        plane.content_store_mut().store_mut().set_policy(config.store_policy);
        Fused { plane }
    }

    /// What it runs, for tests that look inside.
    pub const fn plane(&self) -> &Plane {
        &self.plane
    }

    /// What self-learning found out is for control, which is not here.
    fn end_lessons(&mut self, pool: &mut Pool) {
        while let Some(lesson) = self.plane.next_lesson() {
            pool.release(lesson);
        }
    }
}

impl Node for Fused {
    #[inline]
    fn process(&mut self, now: Instant, packets: &mut Vec<Packet>, pool: &mut Pool, out: &mut Vec<Packet>) {
        self.plane.process(now, packets, pool, out);
        self.end_lessons(pool);
    }

    fn tick(&mut self, now: Instant, pool: &mut Pool, out: &mut Vec<Packet>) {
        self.plane.tick(now, pool, out);
        self.end_lessons(pool);
    }

    #[inline]
    fn deadline(&self) -> Option<Instant> {
        self.plane.deadline()
    }

    fn add_face(
        &mut self,
        now: Instant,
        face: FaceId,
        info: FaceInfo,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        self.plane.with_router(now, pool, out, |router, _| router.add_face(face, info));
    }

    fn set_route(
        &mut self,
        now: Instant,
        prefix: NameRef<'_>,
        next_hops: &[NextHop],
        strategy: NameRef<'_>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) -> Result<(), RouteError> {
        self.plane.with_router(now, pool, out, |router, context| {
            if next_hops.is_empty() {
                router.remove_route(prefix);
                return Ok(());
            }
            let strategy = router.resolve_strategy(strategy).map_err(RouteError::Strategy)?;
            Ok(router.set_route(now, prefix, next_hops, strategy, context)?)
        })
    }

    fn counters(&self) -> NodeCounters {
        let store = self.plane.content_store().store().counters();
        let router = self.plane.router().counters();
        NodeCounters {
            cs_hits: store.hits,
            cs_misses: store.misses,
            cs_insertions: store.insertions,
            cs_evictions: store.evictions,
            satisfied: router.satisfied,
            unsatisfied: router.unsatisfied,
        }
    }

    fn drops(&self) -> DropCounters {
        self.plane.drops().clone()
    }
}
