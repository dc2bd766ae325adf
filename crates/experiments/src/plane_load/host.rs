//! The measured hosts: the fused plane, and the same elements in a graph.

use super::{KEY, Options};
use nw_element_api::{
    Context, DropCounters, FaceId, FaceInfo, Packet, Parameters, Pool, Timestamp, Value,
};
use nw_elements::{Router, RouterConfig, router};
use nw_graph::{Engine, standard};
use nw_router::plane::{BATCH, Plane};
use nw_tables::cs::CsConfig;
use nw_tables::fib::FibConfig;
use nw_tables::pit::PitConfig;

const DEAD_NONCES: usize = 65_536;

/// A host that runs the standard router.
pub trait Host: Sized {
    /// Creates a host with empty tables sized for these options, and a content store for `cached`
    /// packets.
    fn new(options: &Options, cached: usize) -> Self;

    /// Adds a face.
    fn add_face(&mut self, face: FaceId, info: FaceInfo);

    /// Calls a function with the router element.
    fn with_router<R>(
        &mut self,
        now: Timestamp,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        change: impl FnOnce(&mut Router, &mut Context<'_, router::Out>) -> R,
    ) -> R;

    /// Forwards a batch of packets.
    fn process(
        &mut self,
        now: Timestamp,
        batch: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    );

    /// Runs the timers that are due.
    fn tick(&mut self, now: Timestamp, pool: &mut Pool, out: &mut Vec<Packet>);

    /// Returns the counters of dropped packets.
    fn drops(&self) -> &DropCounters;
}

fn pending_max(options: &Options) -> usize {
    options.pending as usize + 4 * BATCH
}

/// Space in the FIB for what the router registers itself.
pub(crate) const ROUTES_OF_THE_ROUTER: usize = 16;

fn prefixes_max(options: &Options) -> usize {
    options.prefixes as usize + ROUTES_OF_THE_ROUTER
}

fn store_bytes(cached: usize) -> usize {
    (cached * 512).max(64 << 20)
}

impl Host for Plane {
    fn new(options: &Options, cached: usize) -> Self {
        let router = RouterConfig {
            shard: options.shard,
            pit: PitConfig::for_entries(pending_max(options)),
            fib: FibConfig::new(prefixes_max(options)),
            dead_nonces: DEAD_NONCES,
            upstream_tokens: true,
            accept_data_from_any_face: false,
            lifetime_max_ms: nw_elements::INTEREST_LIFETIME_MAX_MS,
            ..RouterConfig::default()
        };
        let store = CsConfig { packets_max: cached, bytes_max: store_bytes(cached) };
        let mut plane = Plane::new(KEY, 7, router, store);
        plane.set_prefetch(options.prefetch);
        plane
    }

    fn add_face(&mut self, face: FaceId, info: FaceInfo) {
        let mut pool = Pool::new(KEY, 1, 1);
        self.with_router(Timestamp::START, &mut pool, &mut Vec::new(), |router, _| {
            router.add_face(face, info)
        });
    }

    fn with_router<R>(
        &mut self,
        now: Timestamp,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        change: impl FnOnce(&mut Router, &mut Context<'_, router::Out>) -> R,
    ) -> R {
        self.with_router(now, pool, out, change)
    }

    fn process(
        &mut self,
        now: Timestamp,
        batch: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        self.process(now, batch, pool, out);
    }

    fn tick(&mut self, now: Timestamp, pool: &mut Pool, out: &mut Vec<Packet>) {
        self.tick(now, pool, out);
    }

    fn drops(&self) -> &DropCounters {
        self.drops()
    }
}

impl Host for Engine {
    fn new(options: &Options, cached: usize) -> Self {
        let whole = |name: &str, number: usize| (name.to_owned(), Value::Integer(number as i64));
        let info = FaceInfo {
            scope: nw_element_api::Scope::NonLocal,
            link_type: nw_element_api::LinkType::PointToPoint,
        };
        let graph = standard(&[("any", info)], |node| {
            Parameters(match node {
                "store" => vec![whole("packets", cached), whole("mib", store_bytes(cached) >> 20)],
                "router" => vec![
                    whole("pending", pending_max(options)),
                    whole("prefixes", prefixes_max(options)),
                    whole("dead_nonces", DEAD_NONCES),
                    whole("lifetime_max_ms", nw_elements::INTEREST_LIFETIME_MAX_MS as usize),
                ],
                _ => Vec::new(),
            })
        });
        let mut engine = match Engine::new(&graph, KEY, 7) {
            Ok(engine) => engine,
            Err(faults) => panic!("the standard router is a good graph: {faults:?}"),
        };
        engine.set_prefetch(options.prefetch);
        engine
    }

    fn add_face(&mut self, face: FaceId, info: FaceInfo) {
        self.add_face(face, info, 0, true);
    }

    fn with_router<R>(
        &mut self,
        now: Timestamp,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        change: impl FnOnce(&mut Router, &mut Context<'_, router::Out>) -> R,
    ) -> R {
        self.with("router", now, pool, out, change).expect("the standard router has a router")
    }

    fn process(
        &mut self,
        now: Timestamp,
        batch: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        self.process(now, batch, pool, out);
    }

    fn tick(&mut self, now: Timestamp, pool: &mut Pool, out: &mut Vec<Packet>) {
        self.tick(now, pool, out);
    }

    fn drops(&self) -> &DropCounters {
        self.drops()
    }
}
