//! The forwarding plane: the three elements of the standard graph, fused. Pure: no socket, no
//! clock.
//!
//! ```text
//!  in ─▶ packet_dispatcher ─interest─▶ content_store ─miss─▶ router ─interest, nack─▶ out
//!              │                        ▲      └──────hit──────────────────────────▶ out
//!              └──data, nack────────────┼─────────────▶ router ─data─▶ content_store ─▶ out
//! ```
//!
//! A batch takes two passes: the first prefetches the cache lines that each packet will read, the
//! second processes the packets. A cold cache line costs over 200 ns alone, and some 16 ns if
//! sixteen are fetched together.

use nw_element_api::decode::resolve_names;
use nw_element_api::{
    Context, DropCause, DropCounters, Element, FaceId, Outbox, PREFETCH_STAGES_MAX, Packet, Pool,
    Prediction, Timestamp,
};
use nw_elements::{
    ContentStore, PacketDispatcher, Router, RouterConfig, content_store, packet_dispatcher, router,
};
use nw_name::{HashKey, Name};
use nw_tables::cs::{CsConfig, CsProbe};
use nw_tables::fib::{Fib, FibProbe};
use std::sync::Arc;

/// Packets per batch.
pub const BATCH: usize = 64;
/// Route events that one call may produce; more are dropped and counted.
const ROUTE_EVENTS_MAX: usize = 256;

/// What prefetching found for one packet of a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    prediction: Prediction,
    store: CsProbe,
    route: FibProbe,
}

/// The elements, and the queues between them.
#[derive(Debug)]
pub struct Plane {
    dispatcher: PacketDispatcher,
    content_store: ContentStore,
    router: Router,
    drops: DropCounters,
    store_out: Outbox<content_store::Out>,
    router_out: Outbox<router::Out>,
    route_events: Vec<Packet>,
    batch: Vec<(packet_dispatcher::Out, Packet)>,
    /// What prefetching found for the packets of `batch`, at the same positions.
    probes: [Probe; BATCH],
    prefetch: bool,
}

impl Plane {
    /// Creates a plane with empty tables. `seed` generates nonces for Interests without one.
    pub fn new(key: HashKey, seed: u64, router: RouterConfig, store: CsConfig) -> Self {
        Plane {
            dispatcher: PacketDispatcher::new(&key, seed),
            content_store: ContentStore::new(key, store),
            router: Router::new(key, RouterConfig { seed: !seed, ..router }),
            drops: DropCounters::default(),
            store_out: Outbox::with_capacity(BATCH),
            router_out: Outbox::with_capacity(4 * BATCH),
            route_events: Vec::with_capacity(ROUTE_EVENTS_MAX),
            batch: Vec::with_capacity(BATCH),
            probes: [Probe::default(); BATCH],
            prefetch: true,
        }
    }

    /// Enables or disables the first pass, for measurements.
    pub const fn set_prefetch(&mut self, prefetch: bool) {
        self.prefetch = prefetch;
    }

    /// Processes all decoded packets in order. Packets that leave are appended to `out`, with
    /// `meta.egress` set.
    pub fn process(
        &mut self,
        now: Timestamp,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let mut packets = packets.drain(..);
        loop {
            let mut count = 0;
            for packet in packets.by_ref().take(BATCH) {
                count += 1;
                match self.dispatcher.dispatch(packet, pool) {
                    Ok(dispatched) => self.batch.push(dispatched),
                    Err((packet, reason)) => pool.drop_packet(packet, reason, &mut self.drops),
                }
            }
            if count == 0 {
                break;
            }
            self.probes[..self.batch.len()].fill(Probe::default());
            if self.prefetch && self.batch.len() > 1 {
                self.prefetch_batch(pool);
            }
            let mut batch = core::mem::take(&mut self.batch);
            for (position, (port, packet)) in batch.drain(..).enumerate() {
                match port {
                    packet_dispatcher::Out::Interest => {
                        self.look_up_content(now, packet, position, pool, out)
                    }
                    packet_dispatcher::Out::Data => {
                        self.route(now, router::In::Data, packet, pool, out)
                    }
                    packet_dispatcher::Out::Nack => {
                        self.route(now, router::In::Nack, packet, pool, out)
                    }
                }
            }
            self.batch = batch;
        }
    }

    /// Reads the names of packets that were [decoded
    /// lazily](nw_element_api::decode::decode_lazily), which an observer needs.
    pub fn resolve_names(&mut self, packets: &mut Vec<Packet>, pool: &mut Pool) {
        resolve_names(pool, packets, &mut self.drops);
    }

    fn prefetch_batch(&mut self, pool: &Pool) {
        // One call per stage, below.
        const { assert!(PREFETCH_STAGES_MAX == 4) };
        if self.router.exceeds_tlb_reach() {
            self.prefetch_stage::<0>(pool);
        }
        let _has_all_stages = self.prefetch_stage::<1>(pool)
            && self.prefetch_stage::<2>(pool)
            && self.prefetch_stage::<3>(pool);
    }

    /// Prefetches one stage. Returns whether a further stage helps some packet.
    #[inline(always)]
    fn prefetch_stage<const STAGE: usize>(&mut self, pool: &Pool) -> bool {
        let mut has_next_stage = false;
        for ((port, packet), probe) in self.batch.iter().zip(&mut self.probes) {
            let meta = pool.meta(packet);
            let Probe { prediction, store, route } = probe;
            let (store_port, router_port) = match port {
                packet_dispatcher::Out::Interest => {
                    (Some(content_store::In::Interest), router::In::Interest)
                }
                packet_dispatcher::Out::Data => (Some(content_store::In::Data), router::In::Data),
                packet_dispatcher::Out::Nack => (None, router::In::Nack),
            };
            if let Some(port) = store_port {
                self.content_store.advance(STAGE, port, meta, prediction, store);
                has_next_stage |= STAGE + 1 < ContentStore::prefetch_stages(port);
            }
            self.router.advance(STAGE, router_port, meta, prediction, route);
            has_next_stage |= STAGE + 1 < Router::prefetch_stages(router_port);
        }
        has_next_stage
    }

    #[inline(always)]
    fn look_up_content(
        &mut self,
        now: Timestamp,
        interest: Packet,
        position: usize,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let probe = &self.probes[position];
        if self.content_store.is_sure_miss(pool.meta(&interest), probe.store) {
            let mut context = Context { pool, out: &mut self.router_out, drops: &mut self.drops };
            let (port, probe) = (router::In::Interest, &probe.route);
            self.router.process_with_probe(now, port, interest, probe, &mut context);
            return self.dispatch_routed(now, pool, out);
        }
        let mut context = Context { pool, out: &mut self.store_out, drops: &mut self.drops };
        self.content_store.look_up(now, interest, &mut context);
        while let Some((port, packet)) = self.store_out.take() {
            match port {
                content_store::Out::Hit | content_store::Out::Data => out.push(packet),
                content_store::Out::Miss => {
                    self.route(now, router::In::Interest, packet, pool, out)
                }
            }
        }
    }

    #[inline(always)]
    fn route(
        &mut self,
        now: Timestamp,
        port: router::In,
        packet: Packet,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let mut context = Context { pool, out: &mut self.router_out, drops: &mut self.drops };
        self.router.process(now, port, packet, &mut context);
        self.dispatch_routed(now, pool, out);
    }

    #[inline(always)]
    fn dispatch_routed(&mut self, now: Timestamp, pool: &mut Pool, out: &mut Vec<Packet>) {
        while let Some((port, packet)) = self.router_out.take() {
            match port {
                router::Out::Interest | router::Out::Nack => out.push(packet),
                router::Out::RouteEvent if self.route_events.len() < ROUTE_EVENTS_MAX => {
                    self.route_events.push(packet)
                }
                // Control receives the next one.
                router::Out::RouteEvent => {
                    pool.drop_packet(packet, DropCause::NoBuffer, &mut self.drops)
                }
                router::Out::Data => {
                    let mut context = Context {
                        pool: &mut *pool,
                        out: &mut self.store_out,
                        drops: &mut self.drops,
                    };
                    self.content_store.process(now, content_store::In::Data, packet, &mut context);
                    while let Some((port, packet)) = self.store_out.take() {
                        match port {
                            content_store::Out::Data => out.push(packet),
                            content_store::Out::Hit | content_store::Out::Miss => {
                                pool.drop_packet(packet, DropCause::NoDownstream, &mut self.drops);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Runs due timers. Packets that leave are appended to `out`.
    pub fn tick(&mut self, now: Timestamp, pool: &mut Pool, out: &mut Vec<Packet>) {
        if self.router.deadline().is_some_and(|deadline| deadline <= now) {
            let mut context = Context { pool, out: &mut self.router_out, drops: &mut self.drops };
            self.router.tick(now, &mut context);
            self.dispatch_routed(now, pool, out);
        }
        if self.content_store.deadline().is_some() {
            let mut context = Context { pool, out: &mut self.store_out, drops: &mut self.drops };
            self.content_store.tick(now, &mut context);
        }
    }

    /// Returns when [`tick`](Self::tick) must be called. `None` if no timer is set.
    pub fn deadline(&self) -> Option<Timestamp> {
        [self.router.deadline(), self.content_store.deadline()].into_iter().flatten().min()
    }

    /// Calls `change` with the router element, to change faces, routes or strategies. Packets that
    /// leave because of it are appended to `out`.
    pub fn with_router<R>(
        &mut self,
        now: Timestamp,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        change: impl FnOnce(&mut Router, &mut Context<'_, router::Out>) -> R,
    ) -> R {
        let mut context =
            Context { pool: &mut *pool, out: &mut self.router_out, drops: &mut self.drops };
        let result = change(&mut self.router, &mut context);
        self.dispatch_routed(now, pool, out);
        result
    }

    /// Makes the router element read a FIB that another thread changes. To be called before the
    /// first packet.
    pub fn share_fib(&mut self, fib: Arc<Fib>) {
        self.router.share_fib(fib);
    }

    /// Returns the next event for self-learning: Data with an announcement, or a Nack. The caller
    /// takes all events after each call of [`process`](Self::process).
    pub fn next_route_event(&mut self) -> Option<Packet> {
        self.route_events.pop()
    }

    /// Returns the router element: PIT, FIB, strategies.
    pub const fn router(&self) -> &Router {
        &self.router
    }

    /// Returns the content store element.
    pub const fn content_store(&self) -> &ContentStore {
        &self.content_store
    }

    /// Returns the content store element, for changes by control.
    pub const fn content_store_mut(&mut self) -> &mut ContentStore {
        &mut self.content_store
    }

    /// Returns the counters of packets dropped between ingress and egress.
    pub const fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// Sets the names of the regions this router is in, for forwarding hints.
    pub fn set_regions(&mut self, regions: Vec<Name>) {
        self.router.set_regions(regions);
    }

    /// Limits the pending Interests per face; 0 leaves only the table's limit.
    pub fn set_face_limit(&mut self, interests: u32) {
        self.router.set_face_limit((interests != 0).then_some(interests));
    }

    /// Removes a face and the state that refers to it.
    pub fn remove_face(&mut self, now: Timestamp, face: FaceId) {
        self.router.remove_face(now, face);
    }
}
