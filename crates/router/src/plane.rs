//! The forwarding plane: the three elements of the standard graph, fused. Pure: no socket, no clock.
//!
//! ```text
//!  in ─▶ packet_dispatcher ─interest─▶ content_store ─miss─▶ router ─interest, nack─▶ out
//!              │                        ▲      └──────hit──────────────────────────▶ out
//!              └──data, nack────────────┼─────────────▶ router ─data─▶ content_store ─▶ out
//! ```
//!
//! A batch goes through in two passes: first every packet asks for the memory it will read, then each is processed. A cold cache line costs
//! over 200 ns when waited for and some 16 ns when sixteen are fetched together, so this is the one big lever.

use crate::explain::Explainer;
use nw_element_api::decode::read_names;
use nw_element_api::journal::Journal;
use nw_element_api::{
    Cause, Context, DropCounters, Element, FaceId, Instant, Outbox, PREFETCH_STAGES_MAX, Packet, Pool,
};
use nw_elements::{
    ContentStore, PacketDispatcher, Router, RouterConfig, content_store, packet_dispatcher, router,
};
use nw_name::{HashKey, Name};
use nw_tables::cs::CsConfig;
use nw_tables::fib::Fib;
use std::sync::Arc;

/// Packets that ask for memory together.
pub const BATCH: usize = 64;
/// Packets for control that one turn may bring.
const LESSONS_MAX: usize = 256;

/// The elements and what is between them.
#[derive(Debug)]
pub struct Plane {
    dispatcher: PacketDispatcher,
    content_store: ContentStore,
    router: Router,
    drops: DropCounters,
    stored: Outbox<content_store::Out>,
    routed: Outbox<router::Out>,
    lessons: Vec<Packet>,
    batch: Vec<(packet_dispatcher::Out, Packet)>,
    prefetch: bool,
    /// Present while somebody traces.
    explainer: Option<Box<Explainer>>,
}

impl Plane {
    /// With empty tables. `seed` makes nonces for Interests that come without one.
    pub fn new(key: HashKey, seed: u64, router: RouterConfig, store: CsConfig) -> Self {
        Plane {
            dispatcher: PacketDispatcher::new(&key, seed),
            content_store: ContentStore::new(key, store),
            router: Router::new(key, RouterConfig { seed: !seed, ..router }),
            drops: DropCounters::default(),
            stored: Outbox::with_capacity(BATCH),
            routed: Outbox::with_capacity(4 * BATCH),
            lessons: Vec::with_capacity(LESSONS_MAX),
            batch: Vec::with_capacity(BATCH),
            prefetch: true,
            explainer: None,
        }
    }

    /// Turns the first pass off: for measuring what it brings.
    pub const fn set_prefetch(&mut self, prefetch: bool) {
        self.prefetch = prefetch;
    }

    /// Writes decisions into a journal from now on, until its time is over; or no longer.
    pub fn set_journal(&mut self, journal: Option<Journal>) {
        self.explainer = journal.map(|journal| Box::new(Explainer::new(journal)));
    }

    /// What is being written, while somebody traces.
    pub fn journal_mut(&mut self) -> Option<&mut Journal> {
        self.explainer.as_mut().map(|explainer| &mut explainer.journal)
    }

    /// Takes decoded packets, all of them, in order; what leaves is appended to `out` with `meta.egress` set.
    pub fn process(
        &mut self,
        now: Instant,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        match self.explainer.take() {
            None => self.process_batches(now, packets, pool, out),
            Some(explainer) => self.process_explained(now, explainer, packets, pool, out),
        }
    }

    /// Reads the names of packets that were [decoded lazily](nw_element_api::decode::decode_lazily): who watches packets needs them.
    pub fn read_names(&mut self, packets: &mut Vec<Packet>, pool: &mut Pool) {
        read_names(pool, packets, &mut self.drops);
    }

    /// As [`process`](Self::process): packets that are watched go through alone, others together as ever.
    #[cold]
    fn process_explained(
        &mut self,
        now: Instant,
        mut explainer: Box<Explainer>,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        self.read_names(packets, pool);
        // What was written until its end still waits to be read.
        let over = explainer.journal.is_over(now);
        let mut others = Vec::with_capacity(BATCH);
        for packet in packets.drain(..) {
            if over || !explainer.journal.watches(pool.meta(&packet).name_in(pool.bytes(&packet))) {
                others.push(packet);
                continue;
            }
            self.process_batches(now, &mut others, pool, out);
            explainer.explain(now, self, packet, pool, out, |plane, packet, pool, out| {
                others.push(packet);
                plane.process_batches(now, &mut others, pool, out);
            });
        }
        self.process_batches(now, &mut others, pool, out);
        self.explainer = Some(explainer);
    }

    fn process_batches(
        &mut self,
        now: Instant,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let mut packets = packets.drain(..);
        loop {
            let mut taken = 0;
            for packet in packets.by_ref().take(BATCH) {
                taken += 1;
                match self.dispatcher.dispatch(packet, pool) {
                    Ok(dispatched) => self.batch.push(dispatched),
                    Err((packet, reason)) => pool.drop_packet(packet, reason, &mut self.drops),
                }
            }
            if taken == 0 {
                break;
            }
            if self.prefetch && self.batch.len() > 1 {
                self.prefetch_batch(pool);
            }
            let mut batch = core::mem::take(&mut self.batch);
            for (port, packet) in batch.drain(..) {
                match port {
                    packet_dispatcher::Out::Interest => self.ask_store(now, packet, pool, out),
                    packet_dispatcher::Out::Data => self.route(now, router::In::Data, packet, pool, out),
                    packet_dispatcher::Out::Nack => self.route(now, router::In::Nack, packet, pool, out),
                }
            }
            self.batch = batch;
        }
    }

    fn prefetch_batch(&self, pool: &Pool) {
        // All of them, below.
        const { assert!(PREFETCH_STAGES_MAX == 3) };
        if self.router.is_far() {
            self.prefetch_far(pool);
        }
        let _helped = self.prefetch_stage::<0>(pool)
            && self.prefetch_stage::<1>(pool)
            && self.prefetch_stage::<2>(pool);
    }

    #[inline(never)]
    fn prefetch_far(&self, pool: &Pool) {
        for (port, packet) in &self.batch {
            if *port == packet_dispatcher::Out::Interest {
                self.router.prefetch_far(router::In::Interest, pool.meta(packet));
            }
        }
    }

    /// True where the next one helps a packet too.
    #[inline(always)]
    fn prefetch_stage<const STAGE: usize>(&self, pool: &Pool) -> bool {
        let mut more = false;
        for (port, packet) in &self.batch {
            let meta = pool.meta(packet);
            let (stored, routed) = match port {
                packet_dispatcher::Out::Interest => (Some(content_store::In::Interest), router::In::Interest),
                packet_dispatcher::Out::Data => (Some(content_store::In::Data), router::In::Data),
                packet_dispatcher::Out::Nack => (None, router::In::Nack),
            };
            if let Some(port) = stored {
                self.content_store.prefetch(STAGE, port, meta);
                more |= STAGE + 1 < ContentStore::prefetch_stages(port);
            }
            self.router.prefetch(STAGE, routed, meta);
            more |= STAGE + 1 < Router::prefetch_stages(routed);
        }
        more
    }

    #[inline(always)]
    fn ask_store(&mut self, now: Instant, interest: Packet, pool: &mut Pool, out: &mut Vec<Packet>) {
        if self.content_store.passes(pool.meta(&interest)) {
            return self.route(now, router::In::Interest, interest, pool, out);
        }
        let mut context = Context { pool, out: &mut self.stored, drops: &mut self.drops };
        self.content_store.look_up(now, interest, &mut context);
        while let Some((port, packet)) = self.stored.take() {
            match port {
                content_store::Out::Hit | content_store::Out::Data => out.push(packet),
                content_store::Out::Miss => self.route(now, router::In::Interest, packet, pool, out),
            }
        }
    }

    #[inline(always)]
    fn route(
        &mut self,
        now: Instant,
        port: router::In,
        packet: Packet,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let mut context = Context { pool, out: &mut self.routed, drops: &mut self.drops };
        self.router.process(now, port, packet, &mut context);
        self.take_routed(now, pool, out);
    }

    #[inline(always)]
    fn take_routed(&mut self, now: Instant, pool: &mut Pool, out: &mut Vec<Packet>) {
        while let Some((port, packet)) = self.routed.take() {
            match port {
                router::Out::Interest | router::Out::Nack => out.push(packet),
                router::Out::Lesson if self.lessons.len() < LESSONS_MAX => self.lessons.push(packet),
                // Control learns from the next one.
                router::Out::Lesson => pool.drop_packet(packet, Cause::NoBuffer, &mut self.drops),
                router::Out::Data => {
                    let mut context =
                        Context { pool: &mut *pool, out: &mut self.stored, drops: &mut self.drops };
                    self.content_store.process(now, content_store::In::Data, packet, &mut context);
                    while let Some((port, packet)) = self.stored.take() {
                        match port {
                            content_store::Out::Data => out.push(packet),
                            content_store::Out::Hit | content_store::Out::Miss => {
                                pool.drop_packet(packet, Cause::NoDownstream, &mut self.drops);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Ends what is due; what leaves is appended to `out`.
    pub fn tick(&mut self, now: Instant, pool: &mut Pool, out: &mut Vec<Packet>) {
        if self.router.deadline().is_some_and(|deadline| deadline <= now) {
            let mut context = Context { pool, out: &mut self.routed, drops: &mut self.drops };
            self.router.tick(now, &mut context);
            self.take_routed(now, pool, out);
            if let Some(mut explainer) = self.explainer.take() {
                explainer.after_tick(now, self);
                self.explainer = Some(explainer);
            }
        }
        if self.content_store.deadline().is_some() {
            let mut context = Context { pool, out: &mut self.stored, drops: &mut self.drops };
            self.content_store.tick(now, &mut context);
        }
    }

    /// When [`tick`](Self::tick) wants to be called.
    pub fn deadline(&self) -> Option<Instant> {
        [self.router.deadline(), self.content_store.deadline()].into_iter().flatten().min()
    }

    /// Changes the router element: faces, routes, strategies. What that makes leave is appended to `out`.
    pub fn with_router<R>(
        &mut self,
        now: Instant,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        change: impl FnOnce(&mut Router, &mut Context<'_, router::Out>) -> R,
    ) -> R {
        let mut context = Context { pool: &mut *pool, out: &mut self.routed, drops: &mut self.drops };
        let result = change(&mut self.router, &mut context);
        self.take_routed(now, pool, out);
        result
    }

    /// Reads routes of a FIB that somebody else changes, from before the first packet on.
    pub fn share_fib(&mut self, fib: Arc<Fib>) {
        self.router.share_fib(fib);
    }

    /// The next of what self-learning found out: an announcement or a Nack, for control. To be asked until there is none, in the same turn.
    pub fn next_lesson(&mut self) -> Option<Packet> {
        self.lessons.pop()
    }

    /// Its pending Interests, routes and strategies.
    pub const fn router(&self) -> &Router {
        &self.router
    }

    /// Its content store.
    pub const fn content_store(&self) -> &ContentStore {
        &self.content_store
    }

    /// Its content store, for control.
    pub const fn content_store_mut(&mut self) -> &mut ContentStore {
        &mut self.content_store
    }

    /// Packets dropped between ingress and egress.
    pub const fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// Names of the regions this router is in.
    pub fn set_regions(&mut self, regions: Vec<Name>) {
        self.router.set_regions(regions);
    }

    /// Interests that one face may have pending; 0 is no limit but the table's.
    pub fn set_face_limit(&mut self, interests: u32) {
        self.router.set_face_limit((interests != 0).then_some(interests));
    }

    /// Forgets a face.
    pub fn remove_face(&mut self, now: Instant, face: FaceId) {
        self.router.remove_face(now, face);
    }
}
