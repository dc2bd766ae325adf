//! A node with its faces: link services between the octets of links and the packets of the node.

use crate::applications::Arrival;
use crate::node::{Fused, Node, NodeConfig, NodeCounters};
use nw_element_api::{DropCounters, FaceId, FaceInfo, Instant, LinkType, Packet, Pool, Scope};
use nw_faces::FaceCounters;
use nw_faces::link::{LinkService, LinkSettings, QueueState, ReassemblyBudget, Source, Tally};
use nw_faces::outbox::Outbox;
use nw_name::HashKey;
use nw_wire::{Data, Interest, LpPacket, types};

/// Where what leaves by a port goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Towards {
    /// A direction of a link.
    Direction(u32),
    /// An application here.
    Application(u32),
}

/// One face.
#[derive(Debug)]
pub struct Port {
    /// What is behind it.
    pub towards: Towards,
    /// Packets and octets.
    pub counters: FaceCounters,
    link: LinkService,
}

/// See the module.
pub struct Station {
    node: Box<dyn Node>,
    config: NodeConfig,
    key: HashKey,
    seed: u64,
    ports: Vec<Port>,
    up: bool,
    /// For when a timer is asked for; later than any other when none is.
    pub timer_ns: u64,
    /// What came while it was down.
    pub dropped_down: u64,
    /// What link services dropped.
    pub link_drops: DropCounters,
    /// Of lives before this one.
    past: NodeCounters,
    past_drops: DropCounters,
}

/// What all nodes share: they run one after the other.
#[derive(Debug)]
pub struct Shared {
    /// Buffers of packets.
    pub pool: Pool,
    /// Packets that came in.
    pub batch: Vec<Packet>,
    /// Packets that leave.
    pub out: Vec<Packet>,
    /// Link packets that leave.
    pub outbox: Outbox,
    budget: ReassemblyBudget,
}

impl Shared {
    /// For nodes whose names are hashed with `key`.
    pub fn new(key: HashKey, limits: nw_faces::config::ReassemblyLimits) -> Self {
        Shared {
            pool: Pool::new(key, 256, 1 << 16),
            batch: Vec::with_capacity(64),
            out: Vec::with_capacity(256),
            outbox: Outbox::default(),
            budget: ReassemblyBudget::new(limits),
        }
    }
}

/// The face of a port.
pub const fn face(port: usize) -> FaceId {
    FaceId::from_slot(FaceId::FIRST + port as u32, 0)
}

impl Station {
    /// Up, without faces.
    pub fn new(key: HashKey, seed: u64, config: NodeConfig) -> Self {
        Station {
            node: Box::new(Fused::new(key, seed, &config)),
            config,
            key,
            seed,
            ports: Vec::new(),
            up: true,
            timer_ns: u64::MAX,
            dropped_down: 0,
            link_drops: DropCounters::default(),
            past: NodeCounters::default(),
            past_drops: DropCounters::default(),
        }
    }

    /// Adds a face, and gives its number.
    pub fn add_port(&mut self, towards: Towards, settings: &LinkSettings, shared: &mut Shared) -> usize {
        let link = LinkService::new(settings.clone(), 0);
        self.ports.push(Port { towards, counters: FaceCounters::default(), link });
        let port = self.ports.len() - 1;
        self.tell_port(Instant::START, port, shared);
        port
    }

    fn tell_port(&mut self, now: Instant, port: usize, shared: &mut Shared) {
        let scope = match self.ports[port].towards {
            Towards::Direction(_) => Scope::NonLocal,
            Towards::Application(_) => Scope::Local,
        };
        let info = FaceInfo { scope, link_type: LinkType::PointToPoint };
        self.node.add_face(now, face(port), info, &mut shared.pool, &mut shared.out);
    }

    /// Its faces.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Whether it runs.
    pub const fn is_up(&self) -> bool {
        self.up
    }

    /// Ends it: what it knew is gone.
    pub fn stop(&mut self) {
        self.up = false;
    }

    /// Starts it anew: tables are empty, faces are the same. Routes are the caller's.
    pub fn start(&mut self, now: Instant, shared: &mut Shared) {
        self.past.add(&self.node.counters());
        self.past_drops.merge(&self.node.drops());
        self.seed = self.seed.wrapping_add(1);
        self.node = Box::new(Fused::new(self.key, self.seed, &self.config));
        self.up = true;
        for port in 0..self.ports.len() {
            self.tell_port(now, port, shared);
        }
    }

    /// Its packet engine.
    pub fn node_mut(&mut self) -> &mut dyn Node {
        &mut *self.node
    }

    /// When it wants to be called.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        self.node.deadline().filter(|_| self.up)
    }

    /// What it counted, in all its lives.
    pub fn counters(&self) -> NodeCounters {
        let mut counters = self.past;
        counters.add(&self.node.counters());
        counters
    }

    /// What it dropped, in all its lives, link services included.
    pub fn drops(&self) -> DropCounters {
        let mut drops = self.past_drops.clone();
        drops.merge(&self.node.drops());
        drops.merge(&self.link_drops);
        drops
    }

    /// Takes a link packet that came by a port; what leaves is in `shared.out`.
    #[inline]
    pub fn receive(&mut self, now: Instant, port: usize, bytes: &[u8], shared: &mut Shared) {
        let Some(packet) = shared.pool.copy_of(bytes) else {
            self.link_drops.count(nw_element_api::Cause::NoBuffer);
            return;
        };
        let at = &mut self.ports[port];
        let local = matches!(at.towards, Towards::Application(_));
        let source = Source { face: face(port), local, congested: false, sender: 0 };
        let mut tally = Tally { face: &mut at.counters, all: &mut self.link_drops };
        let received = at.link.receive(now, packet, source, &mut shared.pool, &mut shared.budget, &mut tally);
        if let Some(packet) = received {
            shared.batch.push(packet);
            self.node.process(now, &mut shared.batch, &mut shared.pool, &mut shared.out);
        }
    }

    /// Does what is due; what leaves is in `shared.out`.
    pub fn tick(&mut self, now: Instant, shared: &mut Shared) {
        if self.up && self.node.deadline().is_some_and(|deadline| deadline <= now) {
            self.node.tick(now, &mut shared.pool, &mut shared.out);
        }
    }

    /// Puts a packet that leaves into the outbox, as link packets; gives the port, or `None` when it was dropped.
    #[inline]
    pub fn send(
        &mut self,
        now: Instant,
        packet: Packet,
        waiting: impl FnOnce(Towards) -> QueueState,
        shared: &mut Shared,
    ) -> Option<Towards> {
        let egress = shared.pool.meta(&packet).egress;
        let port = (egress.slot() as u32).checked_sub(FaceId::FIRST).map(|port| port as usize);
        let Some(at) = port.and_then(|port| self.ports.get_mut(port)) else {
            shared.pool.drop_packet(packet, nw_element_api::Cause::FaceGone, &mut self.link_drops);
            return None;
        };
        let mut tally = Tally { face: &mut at.counters, all: &mut self.link_drops };
        let queue = waiting(at.towards);
        at.link.send(now, packet, queue, &mut shared.pool, &mut shared.outbox, &mut tally);
        Some(at.towards)
    }
}

/// What an application gets of a link packet; `None` of what no router sends.
#[inline]
pub fn arrival(bytes: &[u8]) -> Option<Arrival<'_>> {
    let link = LpPacket::check(bytes).ok()?;
    let wire = link.fragment?;
    if let Some(reason) = link.nack {
        return Some(Arrival::Nack { name: Interest::check(wire).ok()?.name(), reason });
    }
    if u32::from(*wire.first()?) == types::INTEREST {
        return Some(Arrival::Interest { name: Interest::check(wire).ok()?.name() });
    }
    let data = Data::check(wire).ok()?;
    let final_segment = data.final_block().and_then(|last| nw_name::convention::Kind::Segment.number(last));
    Some(Arrival::Data {
        name: data.name(),
        octets: wire.len(),
        is_marked: link.congestion_mark != 0,
        final_segment,
    })
}
