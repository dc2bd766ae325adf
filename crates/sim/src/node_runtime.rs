//! A node with its faces: the link services between bytes on links and packets of the node.

use crate::applications::Arrival;
use crate::node::{FusedNode, Node, NodeConfig, NodeCounters};
use nw_element_api::{DropCounters, FaceId, FaceInfo, LinkType, Packet, Pool, Scope, Timestamp};
use nw_link::FaceCounters;
use nw_link::Outbox;
use nw_link::{DropRecorder, LinkService, LinkSettings, QueueState, ReassemblyBudget, Source};
use nw_name::HashKey;
use nw_wire::{Data, Interest, LpPacket, types};

/// What a port is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortPeer {
    /// A link direction, by index.
    Direction(u32),
    /// A local application, by index.
    Application(u32),
}

/// A face of a node.
#[derive(Debug)]
pub struct Port {
    /// What it is connected to.
    pub peer: PortPeer,
    /// Packet and byte counters.
    pub counters: FaceCounters,
    link: LinkService,
}

/// A node with its faces, and its counters across restarts.
pub struct NodeRuntime {
    node: Box<dyn Node>,
    config: NodeConfig,
    key: HashKey,
    seed: u64,
    ports: Vec<Port>,
    is_up: bool,
    /// When the first shaper of a port is due; `None` while no link is short.
    shaping_due: Option<Timestamp>,
    /// When the node's timer is scheduled, nanoseconds; `u64::MAX` if it is not.
    pub timer_ns: u64,
    /// Packets from applications that arrived while the node was down.
    pub dropped_down: u64,
    /// Packets dropped by link services.
    pub link_drops: DropCounters,
    /// Counters from before the last restart.
    previous_runs: NodeCounters,
    previous_drops: DropCounters,
}

/// Buffers that all nodes share, as they run one after the other.
#[derive(Debug)]
pub struct Shared {
    /// Packet buffers.
    pub pool: Pool,
    /// Packets received.
    pub batch: Vec<Packet>,
    /// Packets to send.
    pub out: Vec<Packet>,
    /// Link packets to send.
    pub outbox: Outbox,
    /// Interests that links refused, as Nacks.
    pub refused: Vec<Packet>,
    budget: ReassemblyBudget,
}

impl Shared {
    /// Creates buffers for nodes that hash names with `key`.
    pub fn new(key: HashKey, limits: nw_link::config::ReassemblyLimits) -> Self {
        Shared {
            pool: Pool::new(key, 256, 1 << 16),
            batch: Vec::with_capacity(64),
            out: Vec::with_capacity(256),
            outbox: Outbox::default(),
            refused: Vec::new(),
            budget: ReassemblyBudget::new(limits),
        }
    }
}

/// Returns the face id of a port.
pub const fn face_id(port: usize) -> FaceId {
    FaceId::from_slot(FaceId::FIRST + port as u32, 0)
}

impl NodeRuntime {
    /// Creates a running node without faces.
    pub fn new(key: HashKey, seed: u64, config: NodeConfig) -> Self {
        NodeRuntime {
            node: Box::new(FusedNode::new(key, seed, &config)),
            config,
            key,
            seed,
            ports: Vec::new(),
            is_up: true,
            shaping_due: None,
            timer_ns: u64::MAX,
            dropped_down: 0,
            link_drops: DropCounters::default(),
            previous_runs: NodeCounters::default(),
            previous_drops: DropCounters::default(),
        }
    }

    /// Adds a face and returns its port number.
    pub fn add_port(
        &mut self,
        peer: PortPeer,
        settings: &LinkSettings,
        shared: &mut Shared,
    ) -> usize {
        let link = LinkService::new(settings.clone(), 0);
        self.ports.push(Port { peer, counters: FaceCounters::default(), link });
        let port = self.ports.len() - 1;
        self.announce_port(Timestamp::START, port, shared);
        port
    }

    fn announce_port(&mut self, now: Timestamp, port: usize, shared: &mut Shared) {
        let scope = match self.ports[port].peer {
            PortPeer::Direction(_) => Scope::NonLocal,
            PortPeer::Application(_) => Scope::Local,
        };
        let info = FaceInfo { scope, link_type: LinkType::PointToPoint };
        self.node.add_face(now, face_id(port), info, &mut shared.pool, &mut shared.out);
    }

    /// Returns the faces, by port.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Returns whether the node is up.
    pub const fn is_up(&self) -> bool {
        self.is_up
    }

    /// Takes the node down; its state is lost.
    pub fn stop(&mut self) {
        self.is_up = false;
    }

    /// Starts the node with empty tables and the same faces. The caller installs the routes.
    pub fn start(&mut self, now: Timestamp, shared: &mut Shared) {
        self.previous_runs.add(&self.node.counters());
        self.previous_drops.merge(&self.node.drops());
        self.seed = self.seed.wrapping_add(1);
        self.node = Box::new(FusedNode::new(self.key, self.seed, &self.config));
        self.is_up = true;
        for port in 0..self.ports.len() {
            self.announce_port(now, port, shared);
        }
    }

    /// Returns the packet engine.
    pub fn node_mut(&mut self) -> &mut dyn Node {
        &mut *self.node
    }

    /// Returns when to call [`tick`](Self::tick) next.
    #[inline]
    pub fn deadline(&self) -> Option<Timestamp> {
        let due = [self.node.deadline(), self.shaping_due].into_iter().flatten().min();
        due.filter(|_| self.is_up)
    }

    /// Returns the counters across restarts.
    pub fn counters(&self) -> NodeCounters {
        let mut counters = self.previous_runs;
        counters.add(&self.node.counters());
        counters
    }

    /// Returns all drops across restarts, including those of link services.
    pub fn drops(&self) -> DropCounters {
        let mut drops = self.previous_drops.clone();
        drops.merge(&self.node.drops());
        drops.merge(&self.link_drops);
        drops
    }

    /// Receives a link packet on a port; packets that leave are in `shared.out`.
    #[inline]
    pub fn receive(&mut self, now: Timestamp, port: usize, bytes: &[u8], shared: &mut Shared) {
        let Some(packet) = shared.pool.copy_of(bytes) else {
            self.link_drops.count(nw_element_api::DropCause::NoBuffer);
            return;
        };
        let face = &mut self.ports[port];
        let local = matches!(face.peer, PortPeer::Application(_));
        let source = Source { face: face_id(port), local, congested: false, sender: 0 };
        let mut drop_recorder =
            DropRecorder { face: &mut face.counters, total: &mut self.link_drops };
        let received = face.link.receive(
            now,
            packet,
            source,
            &mut shared.pool,
            &mut shared.budget,
            &mut drop_recorder,
        );
        if let Some(packet) = received {
            shared.batch.push(packet);
            self.node.process(now, &mut shared.batch, &mut shared.pool, &mut shared.out);
        }
    }

    /// Runs the timers that are due; packets that leave are in `shared.out`.
    pub fn tick(&mut self, now: Timestamp, shared: &mut Shared) {
        if self.is_up && self.node.deadline().is_some_and(|deadline| deadline <= now) {
            self.node.tick(now, &mut shared.pool, &mut shared.out);
        }
    }

    /// Encodes a packet that leaves into link packets in the outbox. Returns what its port is
    /// connected to, or `None` if the packet was dropped.
    #[inline]
    pub fn send(
        &mut self,
        now: Timestamp,
        packet: Packet,
        queue_state: impl FnOnce(PortPeer) -> QueueState,
        shared: &mut Shared,
    ) -> Option<PortPeer> {
        let egress = shared.pool.meta(&packet).egress;
        let port = (egress.slot() as u32).checked_sub(FaceId::FIRST).map(|port| port as usize);
        let Some(face) = port.and_then(|port| self.ports.get_mut(port)) else {
            shared.pool.drop_packet(
                packet,
                nw_element_api::DropCause::FaceGone,
                &mut self.link_drops,
            );
            return None;
        };
        let mut drop_recorder =
            DropRecorder { face: &mut face.counters, total: &mut self.link_drops };
        let queue = queue_state(face.peer);
        let refused = face.link.send(
            now,
            packet,
            queue,
            &mut shared.pool,
            &mut shared.outbox,
            &mut drop_recorder,
        );
        shared.refused.extend(refused);
        if face.link.is_shaping() {
            self.shaping_due = [self.shaping_due, face.link.deadline()].into_iter().flatten().min();
        }
        Some(face.peer)
    }

    /// Forwards the Interests that links refused, as Nacks from their peers. Packets that leave are
    /// in `shared.out`.
    pub fn forward_refused(&mut self, now: Timestamp, shared: &mut Shared) {
        shared.batch.append(&mut shared.refused);
        self.node.process(now, &mut shared.batch, &mut shared.pool, &mut shared.out);
    }

    /// Encodes the Interests of a port whose turn it is into the outbox. Returns what the port is
    /// connected to.
    pub fn release_interests(
        &mut self,
        now: Timestamp,
        port: usize,
        shared: &mut Shared,
    ) -> PortPeer {
        let face = &mut self.ports[port];
        let mut drop_recorder =
            DropRecorder { face: &mut face.counters, total: &mut self.link_drops };
        let queue = QueueState { bytes: 0, bytes_max: u64::MAX };
        face.link.release_interests(
            now,
            queue,
            &mut shared.pool,
            &mut shared.outbox,
            &mut drop_recorder,
        );
        face.peer
    }

    /// Returns the ports whose Interests are shaped, if one is due, and forgets when.
    pub fn take_shaping_ports(&mut self, now: Timestamp) -> Vec<usize> {
        if self.shaping_due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        self.shaping_due = None;
        (0..self.ports.len()).filter(|port| self.ports[*port].link.is_shaping()).collect()
    }

    /// Notes when the shapers of the ports are due next.
    pub fn refresh_shaping_due(&mut self) {
        let shaping = self.ports.iter().filter(|port| port.link.is_shaping());
        self.shaping_due = shaping.filter_map(|port| port.link.deadline()).min();
    }
}

/// Decodes a link packet for an application. `None` if it is not a packet a router sends.
#[inline]
pub fn decode_arrival(bytes: &[u8]) -> Option<Arrival<'_>> {
    let link = LpPacket::check(bytes).ok()?;
    let wire = link.fragment?;
    if let Some(reason) = link.nack {
        let pause = core::time::Duration::from_millis(link.congestion_mark);
        return Some(Arrival::Nack { name: Interest::check(wire).ok()?.name(), reason, pause });
    }
    if u32::from(*wire.first()?) == types::INTEREST {
        return Some(Arrival::Interest { name: Interest::check(wire).ok()?.name() });
    }
    let data = Data::check(wire).ok()?;
    let final_segment =
        data.final_block().and_then(|last| nw_name::convention::Kind::Segment.number(last));
    Some(Arrival::Data {
        name: data.name(),
        bytes: wire.len(),
        is_marked: link.congestion_mark != 0,
        final_segment,
    })
}
