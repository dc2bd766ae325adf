//! The standard graph in virtual time: packet_dispatcher, content_store and router, connected as in
//! the fused host.

use nw_element_api::decode::{decode_lazily, resolve_name};
use nw_element_api::{
    Context, DropCounters, DropReason, Element, FaceId, Kind, LinkFields, Outbox, Packet, Pool,
    Prediction, Scope, Timestamp,
};
use nw_elements::{
    ContentStore, PacketDispatcher, Router, RouterConfig, content_store, packet_dispatcher, router,
};
use nw_name::{HashKey, NameRef};
use nw_tables::FaceInfo;
use nw_tables::cs::CsConfig;
use nw_tables::fib::{FibConfig, FibError, NextHop, StrategyId};
use nw_tables::pit::PitConfig;
use nw_testkit::case::Sent;

/// Settings that are fixed when the graph is created.
#[derive(Clone, Debug)]
pub struct GraphConfig {
    pub pit_entries: usize,
    pub cs: CsConfig,
    pub packets: usize,
    pub upstream_tokens: bool,
    pub data_from_any_face: bool,
    pub seed: u64,
    /// Uses a hash key of small numbers: nearly every tag in every table is then the same.
    pub weak_hash: bool,
    /// Whether names of Data with a token of ours are deferred, as for packets from faces.
    pub defers_names: bool,
}

impl Default for GraphConfig {
    fn default() -> Self {
        GraphConfig {
            pit_entries: 1024,
            cs: CsConfig { packets_max: 64, bytes_max: 1 << 20 },
            packets: 1024,
            upstream_tokens: true,
            data_from_any_face: false,
            seed: 1,
            weak_hash: false,
            defers_names: true,
        }
    }
}

pub struct Graph {
    pub pool: Pool,
    pub drops: DropCounters,
    pub now: Timestamp,
    pub sent: Vec<Sent>,
    pub store: ContentStore,
    pub router: Router,
    dispatcher: PacketDispatcher,
    defers_names: bool,
    faces: Vec<(FaceId, FaceInfo)>,
    dispatched: Outbox<packet_dispatcher::Out>,
    stored: Outbox<content_store::Out>,
    routed: Outbox<router::Out>,
}

macro_rules! context {
    ($graph:expr, $out:ident) => {
        &mut Context { pool: &mut $graph.pool, out: &mut $graph.$out, drops: &mut $graph.drops }
    };
}

impl Graph {
    pub fn new(config: GraphConfig) -> Self {
        let key = HashKey::new(match config.weak_hash {
            true => [config.seed, 2, 3, 4],
            false => [
                0x243f_6a88_85a3_08d3,
                0x1319_8a2e_0370_7344,
                0xa409_3822_299f_31d0,
                0x082e_fa98_ec4e_6c89,
            ],
        });
        let router = RouterConfig {
            shard: 3,
            pit: PitConfig::for_entries(config.pit_entries),
            fib: FibConfig::new(1024),
            dead_nonces: 1024,
            upstream_tokens: config.upstream_tokens,
            accept_data_from_any_face: config.data_from_any_face,
            measurements: 64,
            seed: config.seed,
            ..RouterConfig::default()
        };
        Graph {
            pool: Pool::new(key, 64, config.packets),
            drops: DropCounters::default(),
            now: Timestamp::START,
            sent: Vec::new(),
            store: ContentStore::new(key, config.cs),
            router: Router::new(key, router),
            dispatcher: PacketDispatcher::new(&key, config.seed),
            defers_names: config.defers_names,
            faces: Vec::new(),
            dispatched: Outbox::with_capacity(8),
            stored: Outbox::with_capacity(8),
            routed: Outbox::with_capacity(8),
        }
    }

    pub fn add_face(&mut self, face: FaceId, info: FaceInfo) {
        self.faces.push((face, info));
        self.router.add_face(face, info);
    }

    pub fn remove_face(&mut self, face: FaceId) {
        self.faces.retain(|(known, _)| *known != face);
        self.router.remove_face(self.now, face);
    }

    pub fn set_route(
        &mut self,
        name: NameRef<'_>,
        hops: &[NextHop],
        strategy: StrategyId,
    ) -> Result<(), FibError> {
        let done = self.router.set_route(self.now, name, hops, strategy, context!(self, routed));
        self.run_to_completion();
        done
    }

    /// Receives one packet by a face, its link header already removed.
    pub fn receive(&mut self, face: FaceId, bytes: &[u8], link: LinkFields) {
        self.receive_announced(face, bytes, link, &[]);
    }

    /// As [`receive`](Self::receive), with a prefix announcement; empty for none.
    pub fn receive_announced(
        &mut self,
        face: FaceId,
        bytes: &[u8],
        link: LinkFields,
        announcement: &[u8],
    ) {
        let link = LinkFields { announcement: self.pool.keep_announcement(announcement), ..link };
        let Some(packet) = self.pool.copy_of(bytes) else {
            return self.drops.count(nw_element_api::DropCause::NoBuffer);
        };
        let local =
            self.faces.iter().any(|(known, info)| *known == face && info.scope == Scope::Local);
        let meta = self.pool.meta_mut(&packet);
        meta.ingress = face;
        meta.ingress_local = local;
        meta.arrival = self.now;
        meta.link = link;
        let mut decoded = decode_lazily(&mut self.pool, &packet);
        if !self.defers_names {
            decoded = decoded.and_then(|()| resolve_name(&mut self.pool, &packet));
        }
        if let Err(error) = decoded {
            return self.pool.drop_packet(
                packet,
                DropReason::Malformed(error.fault),
                &mut self.drops,
            );
        }
        self.prefetch(&packet);
        let context = context!(self, dispatched);
        self.dispatcher.process(self.now, packet_dispatcher::In::Packet, packet, context);
        self.run_to_completion();
    }

    /// Prefetching has no visible effect; called here so that a fault in it is noticed.
    fn prefetch(&self, packet: &Packet) {
        let ports = match self.pool.meta(packet).kind {
            Kind::Interest => (Some(content_store::In::Interest), router::In::Interest),
            Kind::Data => (Some(content_store::In::Data), router::In::Data),
            Kind::Nack => (None, router::In::Nack),
            // The dispatcher drops it.
            Kind::Publication => return,
        };
        let mut prediction = Prediction::default();
        for stage in 0..nw_element_api::PREFETCH_STAGES_MAX {
            if let Some(port) = ports.0 {
                self.store.prefetch(stage, port, self.pool.meta(packet), &mut prediction);
            }
            self.router.prefetch(stage, ports.1, self.pool.meta(packet), &mut prediction);
        }
    }

    /// Moves packets between elements until all have left or ended.
    fn run_to_completion(&mut self) {
        loop {
            let dispatched: Vec<_> = self.dispatched.drain().collect();
            let stored: Vec<_> = self.stored.drain().collect();
            let routed: Vec<_> = self.routed.drain().collect();
            if dispatched.is_empty() && stored.is_empty() && routed.is_empty() {
                return;
            }
            for (port, packet) in dispatched {
                match port {
                    packet_dispatcher::Out::Interest => {
                        self.send_to_store(content_store::In::Interest, packet)
                    }
                    packet_dispatcher::Out::Data => self.send_to_router(router::In::Data, packet),
                    packet_dispatcher::Out::Nack => self.send_to_router(router::In::Nack, packet),
                }
            }
            for (port, packet) in stored {
                match port {
                    content_store::Out::Miss => self.send_to_router(router::In::Interest, packet),
                    content_store::Out::Hit | content_store::Out::Data => self.emit(packet),
                }
            }
            for (port, packet) in routed {
                match port {
                    router::Out::Data => self.send_to_store(content_store::In::Data, packet),
                    router::Out::Interest | router::Out::Nack => self.emit(packet),
                    router::Out::RouteEvent => self.emit_route_event(packet),
                }
            }
        }
    }

    fn send_to_store(&mut self, port: content_store::In, packet: Packet) {
        self.store.process(self.now, port, packet, context!(self, stored));
    }

    fn send_to_router(&mut self, port: router::In, packet: Packet) {
        self.router.process(self.now, port, packet, context!(self, routed));
    }

    fn emit(&mut self, packet: Packet) {
        let meta = self.pool.meta(&packet);
        let (face, kind, link) = (meta.egress, meta.kind, meta.link);
        assert!(meta.has_full_hash(), "a packet leaves with an unresolved name");
        assert!(
            kind != Kind::Data || meta.cached,
            "Data leaves that did not pass the content store"
        );
        let bytes = self.pool.bytes(&packet).to_vec();
        let announcement = self.pool.announcement(link.announcement).map(<[u8]>::to_vec);
        self.sent.push(Sent { face, kind, link, bytes, announcement, route_event: false });
        self.pool.release(packet);
    }

    fn emit_route_event(&mut self, packet: Packet) {
        let meta = self.pool.meta(&packet);
        let (face, kind, link) = (meta.ingress, meta.kind, meta.link);
        let bytes = self.pool.bytes(&packet).to_vec();
        self.sent.push(Sent { face, kind, link, bytes, announcement: None, route_event: true });
        self.pool.release(packet);
    }

    /// Advances the time and does what is due on the way.
    pub fn advance(&mut self, to: Timestamp) {
        assert!(to >= self.now, "time runs forwards");
        while let Some(due) = self.router.deadline().filter(|due| *due <= to) {
            self.now = self.now.max(due);
            self.router.tick(self.now, context!(self, routed));
            self.run_to_completion();
        }
        self.now = to;
    }
}
