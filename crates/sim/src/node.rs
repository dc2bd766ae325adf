//! The packet engine of a simulated router: anything that processes decoded packets, has a
//! deadline, and counts.

use nw_element_api::{DropCounters, FaceId, FaceInfo, Packet, Pool, Timestamp};
use nw_elements::RouterConfig;
use nw_elements::strategy::StrategyError;
use nw_name::{HashKey, NameRef};
use nw_router::plane::Plane;
use nw_tables::cs::{CsConfig, PolicyKind};
use nw_tables::fib::{FibConfig, FibError, NextHop};
use nw_tables::pit::PitConfig;

/// A packet engine under simulation. It reads no clock and opens no socket; the simulation provides
/// links, faces and time.
pub trait Node {
    /// Processes all decoded packets in order. Appends packets that leave to `out`, with
    /// `meta.egress` set.
    fn process(
        &mut self,
        now: Timestamp,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    );

    /// Runs the timers that are due. Appends packets that leave to `out`.
    fn tick(&mut self, now: Timestamp, pool: &mut Pool, out: &mut Vec<Packet>);

    /// Returns when to call [`tick`](Self::tick) next. Changes after every other call.
    fn deadline(&self) -> Option<Timestamp>;

    /// Adds a face; called before its first packet.
    fn add_face(
        &mut self,
        now: Timestamp,
        face: FaceId,
        info: FaceInfo,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    );

    /// Sets next hops and strategy of a prefix; without next hops the route is removed.
    ///
    /// # Errors
    /// If the FIB is full, or the strategy is unknown.
    fn set_route(
        &mut self,
        now: Timestamp,
        prefix: NameRef<'_>,
        next_hops: &[NextHop],
        strategy: NameRef<'_>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) -> Result<(), RouteError>;

    /// Returns the counters since creation.
    fn counters(&self) -> NodeCounters;

    /// Returns the packets dropped since creation, by reason.
    fn drops(&self) -> DropCounters;
}

/// Reasons why a route was rejected.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RouteError {
    /// The FIB rejected it.
    #[error("{0}")]
    Fib(#[from] FibError),
    /// The strategy is unknown or its parameters are invalid.
    #[error("{0}")]
    Strategy(StrategyError),
}

/// Counters of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Content store hits.
    pub cs_hits: u64,
    /// Content store misses.
    pub cs_misses: u64,
    /// Data inserted into the content store.
    pub cs_insertions: u64,
    /// Data evicted from the content store.
    pub cs_evictions: u64,
    /// Pending Interests that were satisfied.
    pub satisfied: u64,
    /// Pending Interests that expired or ended with a Nack.
    pub unsatisfied: u64,
}

impl NodeCounters {
    /// Adds the counters of `other`.
    pub const fn add(&mut self, other: &NodeCounters) {
        self.cs_hits += other.cs_hits;
        self.cs_misses += other.cs_misses;
        self.cs_insertions += other.cs_insertions;
        self.cs_evictions += other.cs_evictions;
        self.satisfied += other.satisfied;
        self.unsatisfied += other.unsatisfied;
    }
}

/// Table sizes of a node. Memory is allocated on first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Maximum number of pending Interests.
    pub pit_entries: usize,
    /// Maximum number of FIB prefixes.
    pub fib_prefixes: usize,
    /// Maximum number of nonces in the dead nonce list.
    pub dead_nonces: usize,
    /// Maximum number of prefixes with measurements of strategies.
    pub measurements: usize,
    /// Maximum number of Data in the content store; 0: no content store.
    pub store_packets: usize,
    /// Maximum total length of these, bytes.
    pub store_bytes: usize,
    /// Replacement policy.
    pub store_policy: PolicyKind,
}

/// The forwarding plane of host A (`nw run`): the fused standard graph.
#[derive(Debug)]
pub struct FusedNode {
    plane: Plane,
}

impl FusedNode {
    /// Creates a node with empty tables.
    pub fn new(key: HashKey, seed: u64, config: &NodeConfig) -> Self {
        let router = RouterConfig {
            pit: PitConfig::for_entries(config.pit_entries),
            fib: FibConfig { next_hops_per_prefix_max: 64, ..FibConfig::new(config.fib_prefixes) },
            dead_nonces: config.dead_nonces,
            lifetime_max_ms: nw_elements::INTEREST_LIFETIME_MAX_MS,
            measurements: config.measurements,
            ..RouterConfig::default()
        };
        let store = CsConfig { packets_max: config.store_packets, bytes_max: config.store_bytes };
        let mut plane = Plane::new(key, seed, router, store);
        // Packets are processed one at a time, so there is no batch to prefetch for.
        plane.set_prefetch(false);
        plane.content_store_mut().store_mut().set_policy(config.store_policy);
        FusedNode { plane }
    }

    /// Returns the plane, for tests.
    pub const fn plane(&self) -> &Plane {
        &self.plane
    }

    /// Discards the route events of self-learning: there is no control plane here.
    fn discard_route_events(&mut self, pool: &mut Pool) {
        while let Some(event) = self.plane.next_route_event() {
            pool.release(event);
        }
    }
}

impl Node for FusedNode {
    #[inline]
    fn process(
        &mut self,
        now: Timestamp,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        self.plane.process(now, packets, pool, out);
        self.discard_route_events(pool);
    }

    fn tick(&mut self, now: Timestamp, pool: &mut Pool, out: &mut Vec<Packet>) {
        self.plane.tick(now, pool, out);
        self.discard_route_events(pool);
    }

    #[inline]
    fn deadline(&self) -> Option<Timestamp> {
        self.plane.deadline()
    }

    fn add_face(
        &mut self,
        now: Timestamp,
        face: FaceId,
        info: FaceInfo,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        self.plane.with_router(now, pool, out, |router, _| router.add_face(face, info));
    }

    fn set_route(
        &mut self,
        now: Timestamp,
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
