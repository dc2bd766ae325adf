//! The simulation loop: one queue of events in virtual nanoseconds, and the nodes, links and
//! applications it drives.
//!
//! ```text
//!  EventQueue ─▶ link arrival ─▶ NodeRuntime (link service, node) ─▶ Direction::transmit ─▶ events
//!        ├─▶ node timer   ─▶ NodeRuntime::tick ───────────────▶         │
//!        ├─▶ application  ─▶ tick ─▶ packets ─▶ NodeRuntime   └▶ application, at once
//!        └─▶ failure, repair, new routes, sample
//! ```
//!
//! A packet between an application and its node arrives in the same moment; everything else takes
//! time. The result depends on nothing but the scenario and its seed.

use crate::applications::{AppCounters, Application, OutgoingPackets};
use crate::events::{EventKind, EventQueue};
use crate::link::{Direction, LinkCounters};
use crate::node::RouteError;
use crate::node_runtime::{NodeRuntime, PortPeer, Shared, decode_arrival, face_id};
use crate::packet_arena::{PacketArena, PacketBuf};
use crate::random::{Random, Stream};
use crate::recording::RecordedRun;
use crate::routes::{RoutingGraph, UNREACHABLE};
use crate::scenario::{Action, Announcement, RunPlan, Timed};
use nw_element_api::{DropCause, Timestamp};
use nw_link::FaceFlags;
use nw_link::LinkDefaults;
use nw_link::LinkSettings;
use nw_link::QueueState;
use nw_name::{HashKey, Name};
use nw_tables::fib::NextHop;
use std::collections::VecDeque;

/// A running application and the port that connects it to its node.
pub(crate) struct AppInstance {
    pub node: usize,
    pub port: usize,
    pub application: Box<dyn Application>,
    timer_ns: u64,
}

/// A prefix that producers announce.
struct AnnouncedPrefix {
    prefix: Name,
    strategy: Name,
    /// Index of the set of nodes that announce it.
    sources: usize,
    /// By node: the installed next hops.
    installed: Vec<Box<[NextHop]>>,
}

/// A packet between an application and its node.
enum LocalPacket {
    ToNode(u32, PacketBuf),
    ToApplication(u32, PacketBuf),
}

/// A scheduled change of the network.
#[derive(Clone, Copy)]
enum Scheduled {
    Scenario(Timed),
    RecomputeRoutes,
}

/// Counters at one moment, for the time series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Virtual time, nanoseconds.
    pub at_ns: u64,
    /// Interests sent by consumers so far.
    pub sent: u64,
    /// Satisfied Interests so far.
    pub satisfied: u64,
    /// Interests that timed out so far.
    pub timeouts: u64,
    /// Interests answered by a Nack so far.
    pub nacks: u64,
    /// Sum of all round-trip times, nanoseconds.
    pub rtt_sum_ns: u64,
    /// Number of round-trip times.
    pub rtts: u64,
    /// Packets accepted by links so far.
    pub link_packets: u64,
    /// Packets dropped or lost by links so far.
    pub dropped: u64,
    /// Packets on links now.
    pub in_flight: u64,
    /// Content store hits so far.
    pub cs_hits: u64,
    /// Content store misses so far.
    pub cs_misses: u64,
}

impl Sample {
    /// Adds the counters of a consumer.
    pub fn add_consumer(&mut self, counters: &AppCounters) {
        self.sent += counters.sent;
        self.satisfied += counters.satisfied;
        self.timeouts += counters.timeouts;
        self.nacks += counters.nacks;
        self.rtt_sum_ns += counters.rtt_sum_ns;
        self.rtts += counters.rtt_ns.len();
    }

    /// Adds the counters of one direction of a link.
    pub fn add_direction(&mut self, direction: &Direction) {
        self.link_packets += direction.counters().packets;
        self.dropped += direction.counters().dropped();
        self.in_flight += direction.in_flight() as u64;
    }
}

/// A simulation run.
pub struct Simulation {
    pub(crate) plan: RunPlan,
    events: EventQueue,
    pub(crate) arena: PacketArena,
    pub(crate) shared: Shared,
    pub(crate) nodes: Vec<NodeRuntime>,
    /// Two per link: from its first end, and from its second.
    pub(crate) directions: Vec<Direction>,
    /// By direction: the node and port it leads to.
    pub(crate) targets: Vec<(u32, u32)>,
    pub(crate) apps: Vec<AppInstance>,
    /// Number of producers, which come first in `apps`.
    pub(crate) producers: usize,
    local_queue: VecDeque<LocalPacket>,
    outgoing: OutgoingPackets,
    routing_graph: RoutingGraph,
    link_up: Vec<bool>,
    node_up: Vec<bool>,
    announced: Vec<AnnouncedPrefix>,
    sources: Vec<Vec<usize>>,
    scheduled: Vec<Scheduled>,
    routes_due: bool,
    pub(crate) samples: Vec<Sample>,
    sample_ns: u64,
    pub(crate) local_packets: u64,
}

/// A node has rejected a route.
#[derive(Debug, thiserror::Error)]
#[error("node {node}: the route to {prefix} was rejected: {why}")]
pub struct RunError {
    /// Name of the node.
    node: String,
    /// Prefix of the route.
    prefix: Name,
    /// The error.
    why: RouteError,
}

impl Simulation {
    /// Builds the network and installs the first routes; virtual time is 0.
    ///
    /// # Errors
    /// If a node rejects a route, for example because its FIB is full.
    pub fn new(plan: RunPlan) -> Result<Self, RunError> {
        let seed = plan.scenario.run.seed;
        let mut random = Random::new(seed, Stream::Node, usize::MAX);
        let key = HashKey::new(core::array::from_fn(|_| random.next_u64()));
        let (count, links) = (plan.topology.nodes.len(), plan.topology.links.len());
        let routing_graph = plan.routing_graph();
        let nodes = plan.nodes.iter().enumerate().map(|(number, node)| {
            let seed = Random::new(seed, Stream::Node, number).next_u64();
            NodeRuntime::new(key, seed, node.config)
        });
        let directions = plan.directions();
        let mut simulation = Simulation {
            events: EventQueue::default(),
            arena: PacketArena::new(plan.scenario.run.buffer_mib as usize * 1024 * 1024),
            shared: Shared::new(key, nw_link::ReassemblyLimits::default()),
            nodes: nodes.collect(),
            directions,
            targets: vec![(0, 0); 2 * links],
            apps: Vec::new(),
            producers: plan.producers.len(),
            local_queue: VecDeque::new(),
            outgoing: OutgoingPackets::default(),
            routing_graph,
            link_up: vec![true; links],
            node_up: vec![true; count],
            announced: Vec::new(),
            sources: Vec::new(),
            scheduled: Vec::new(),
            routes_due: false,
            samples: Vec::new(),
            sample_ns: plan
                .scenario
                .run
                .duration_s
                .0
                .div_ceil(u64::from(plan.scenario.run.samples)),
            local_packets: 0,
            plan,
        };
        simulation.connect();
        simulation.add_applications();
        simulation.announce();
        simulation.install_routes(0)?;
        simulation.schedule_actions();
        Ok(simulation)
    }

    /// Adds a face for each end of each link; a node's ports are in the order of its neighbours.
    fn connect(&mut self) {
        let links = &self.plan.scenario.links;
        let mut settings = LinkSettings::new(
            &LinkDefaults::default(),
            (links.mtu > 0).then_some(links.mtu as usize),
        );
        settings.flags =
            settings.flags.with(FaceFlags::CONGESTION_MARKING, links.congestion_marking);
        settings.marking_threshold = u64::from(links.marking_threshold_kib) * 1024;
        settings.marking_interval =
            core::time::Duration::from_millis(u64::from(links.marking_interval_ms));
        for node in 0..self.nodes.len() {
            for neighbour in self.routing_graph.neighbours(node) {
                let first = self.plan.topology.links[neighbour.link as usize].ends.0 as usize;
                let (out, back) = if first == node { (0, 1) } else { (1, 0) };
                let peer = PortPeer::Direction(2 * neighbour.link + out);
                let port = self.nodes[node].add_port(peer, &settings, &mut self.shared);
                debug_assert_eq!(port, neighbour.port as usize);
                self.targets[(2 * neighbour.link + back) as usize] = (node as u32, port as u32);
            }
        }
    }

    fn add_applications(&mut self) {
        let settings = LinkSettings::new(&LinkDefaults::default(), None);
        let apps = self.plan.applications();
        for (number, (node, application)) in apps.into_iter().enumerate() {
            let peer = PortPeer::Application(number as u32);
            let port = self.nodes[node].add_port(peer, &settings, &mut self.shared);
            self.apps.push(AppInstance { node, port, application, timer_ns: u64::MAX });
            self.schedule_app_timer(0, number);
        }
    }

    fn announce(&mut self) {
        for announcement in self.plan.announcements() {
            let Announcement { prefix, strategy, nodes } = announcement;
            let sources =
                self.sources.iter().position(|known| *known == nodes).unwrap_or_else(|| {
                    self.sources.push(nodes);
                    self.sources.len() - 1
                });
            let installed = vec![Box::default(); self.nodes.len()];
            self.announced.push(AnnouncedPrefix { prefix, strategy, sources, installed });
        }
    }

    fn schedule_actions(&mut self) {
        for timed in self.plan.actions.clone() {
            self.schedule_action(timed.at_ns, Scheduled::Scenario(timed));
        }
        self.events.schedule(self.sample_ns, EventKind::Sample);
    }

    fn schedule_action(&mut self, at_ns: u64, scheduled: Scheduled) {
        self.events.schedule(at_ns, EventKind::Action(self.scheduled.len() as u32));
        self.scheduled.push(scheduled);
    }

    /// Runs to the end of the scenario.
    ///
    /// # Errors
    /// If a node rejects a route, for example because its FIB is full.
    pub fn run(&mut self) -> Result<(), RunError> {
        self.run_until(self.plan.scenario.run.duration_s.0)
    }

    /// Handles all events up to `until_ns`.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_until(&mut self, until_ns: u64) -> Result<(), RunError> {
        while self.step(until_ns)? {}
        Ok(())
    }

    /// Handles the next event up to `until_ns`. Returns false if there is none.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    #[inline]
    pub fn step(&mut self, until_ns: u64) -> Result<bool, RunError> {
        let Some((now_ns, what)) = self.events.next(until_ns) else { return Ok(false) };
        match what {
            EventKind::Arrival(direction) => self.arrive(now_ns, direction as usize),
            EventKind::Node(node) => self.tick_node(now_ns, node as usize),
            EventKind::Application(app) => self.tick_application(now_ns, app as usize),
            EventKind::Action(number) => self.apply_action(now_ns, number as usize)?,
            EventKind::Sample => self.sample(now_ns),
        }
        self.exchange_local_packets(now_ns);
        Ok(true)
    }

    fn arrive(&mut self, now_ns: u64, direction: usize) {
        if !self.directions[direction].is_scheduled_at(now_ns) {
            // Scheduled before the link went down.
            return;
        }
        let (node, port) = self.targets[direction];
        let (node, now) = (node as usize, Timestamp::from_nanos(now_ns));
        while let Some(packet) = self.directions[direction].next_arrival(now_ns) {
            if self.nodes[node].is_up() {
                self.nodes[node].receive(
                    now,
                    port as usize,
                    self.arena.bytes(&packet),
                    &mut self.shared,
                );
                self.arena.free(packet);
                self.send(now_ns, node);
            } else {
                self.directions[direction].count_undelivered(packet.len() as u64);
                self.arena.free(packet);
            }
        }
        if let Some(next_ns) = self.directions[direction].schedule_next() {
            self.events.schedule(next_ns, EventKind::Arrival(direction as u32));
        }
        self.schedule_node_timer(now_ns, node);
    }

    /// Transmits the packets that leave a node on links, or queues them for applications.
    #[inline]
    fn send(&mut self, now_ns: u64, node: usize) {
        let now = Timestamp::from_nanos(now_ns);
        let mut out = core::mem::take(&mut self.shared.out);
        for packet in out.drain(..) {
            let queue_state = |peer| match peer {
                PortPeer::Direction(direction) => {
                    self.directions[direction as usize].queue_state(now_ns)
                }
                PortPeer::Application(_) => QueueState { bytes: 0, bytes_max: u64::MAX },
            };
            if let Some(peer) = self.nodes[node].send(now, packet, queue_state, &mut self.shared) {
                self.transmit_outbox(now_ns, node, peer);
            }
        }
        self.shared.out = out;
        if !self.shared.refused.is_empty() {
            self.nodes[node].forward_refused(now, &mut self.shared);
            // Each Interest is refused at most once by each link.
            self.send(now_ns, node);
        }
    }

    /// Transmits the link packets in the outbox to what a port is connected to.
    #[inline]
    fn transmit_outbox(&mut self, now_ns: u64, node: usize, peer: PortPeer) {
        let Shared { outbox, pool, .. } = &mut self.shared;
        for item in outbox.items() {
            let parts = outbox.parts(item, pool);
            match peer {
                PortPeer::Direction(direction) => {
                    let direction_out = &mut self.directions[direction as usize];
                    if let Some(at_ns) = direction_out.transmit(now_ns, &parts, &mut self.arena) {
                        self.events.schedule(at_ns, EventKind::Arrival(direction));
                    }
                }
                PortPeer::Application(app) => match self.arena.put(&parts) {
                    Some(packet) => {
                        self.local_queue.push_back(LocalPacket::ToApplication(app, packet))
                    }
                    None => self.nodes[node].link_drops.count(DropCause::NoBuffer),
                },
            }
        }
        outbox.clear(pool);
    }

    /// Sends the Interests that waited for a short link of this node and whose turn it is.
    fn release_interests(&mut self, now_ns: u64, node: usize) {
        let now = Timestamp::from_nanos(now_ns);
        let ports = self.nodes[node].take_shaping_ports(now);
        if ports.is_empty() {
            return;
        }
        for port in ports {
            let peer = self.nodes[node].release_interests(now, port, &mut self.shared);
            self.transmit_outbox(now_ns, node, peer);
        }
        self.nodes[node].refresh_shaping_due();
    }

    /// Exchanges packets between applications and their nodes until none are left in this moment.
    #[inline]
    fn exchange_local_packets(&mut self, now_ns: u64) {
        let now = Timestamp::from_nanos(now_ns);
        while let Some(local) = self.local_queue.pop_front() {
            self.local_packets += 1;
            match local {
                LocalPacket::ToNode(app, packet) => {
                    let AppInstance { node, port, .. } = self.apps[app as usize];
                    if self.nodes[node].is_up() {
                        self.nodes[node].receive(
                            now,
                            port,
                            self.arena.bytes(&packet),
                            &mut self.shared,
                        );
                    } else {
                        self.nodes[node].dropped_down += 1;
                    }
                    self.arena.free(packet);
                    self.send(now_ns, node);
                    self.schedule_node_timer(now_ns, node);
                }
                LocalPacket::ToApplication(app, packet) => {
                    if let Some(arrival) = decode_arrival(self.arena.bytes(&packet)) {
                        self.apps[app as usize].application.receive(
                            now,
                            arrival,
                            &mut self.outgoing,
                        );
                    }
                    self.arena.free(packet);
                    self.queue_outgoing(app as usize);
                    self.schedule_app_timer(now_ns, app as usize);
                }
            }
        }
    }

    fn queue_outgoing(&mut self, app: usize) {
        for packet in self.outgoing.iter() {
            match self.arena.put(&[packet]) {
                Some(packet) => self.local_queue.push_back(LocalPacket::ToNode(app as u32, packet)),
                None => self.nodes[self.apps[app].node].link_drops.count(DropCause::NoBuffer),
            }
        }
        self.outgoing.clear();
    }

    fn tick_application(&mut self, now_ns: u64, app: usize) {
        if self.apps[app].timer_ns != now_ns {
            return;
        }
        self.apps[app].timer_ns = u64::MAX;
        self.apps[app].application.tick(Timestamp::from_nanos(now_ns), &mut self.outgoing);
        self.queue_outgoing(app);
        self.schedule_app_timer(now_ns, app);
    }

    fn tick_node(&mut self, now_ns: u64, node: usize) {
        if self.nodes[node].timer_ns != now_ns {
            return;
        }
        self.nodes[node].timer_ns = u64::MAX;
        self.nodes[node].tick(Timestamp::from_nanos(now_ns), &mut self.shared);
        self.send(now_ns, node);
        self.release_interests(now_ns, node);
        self.schedule_node_timer(now_ns, node);
    }

    /// Schedules the node's timer if its deadline is earlier than the scheduled one.
    #[inline]
    fn schedule_node_timer(&mut self, now_ns: u64, node: usize) {
        let runtime = &mut self.nodes[node];
        if let Some(deadline) = runtime.deadline() {
            let at_ns = deadline.as_nanos().max(now_ns + 1);
            if at_ns < runtime.timer_ns {
                runtime.timer_ns = at_ns;
                self.events.schedule(at_ns, EventKind::Node(node as u32));
            }
        }
    }

    #[inline]
    fn schedule_app_timer(&mut self, now_ns: u64, app: usize) {
        let app_instance = &mut self.apps[app];
        if let Some(deadline) = app_instance.application.deadline() {
            let at_ns = deadline.as_nanos().max(now_ns + 1);
            if at_ns < app_instance.timer_ns {
                app_instance.timer_ns = at_ns;
                self.events.schedule(at_ns, EventKind::Application(app as u32));
            }
        }
    }

    fn apply_action(&mut self, now_ns: u64, number: usize) -> Result<(), RunError> {
        let Scheduled::Scenario(timed) = self.scheduled[number] else {
            self.routes_due = false;
            return self.install_routes(now_ns);
        };
        match timed.action {
            Action::Link(link, up) => {
                self.link_up[link] = up;
                for direction in [2 * link, 2 * link + 1] {
                    self.directions[direction].set_up(up, &mut self.arena);
                }
            }
            Action::Node(node, false) => {
                self.node_up[node] = false;
                self.nodes[node].stop();
            }
            Action::Node(node, true) if self.node_up[node] => {}
            Action::Node(node, true) | Action::Restart(node) => {
                self.node_up[node] = true;
                self.restart(now_ns, node)?;
            }
        }
        let routing = &self.plan.scenario.routing;
        if routing.recompute && !self.routes_due && !matches!(timed.action, Action::Restart(_)) {
            self.routes_due = true;
            let due_ns = now_ns + routing.convergence_ms.0;
            self.schedule_action(due_ns, Scheduled::RecomputeRoutes);
        }
        Ok(())
    }

    fn restart(&mut self, now_ns: u64, node: usize) -> Result<(), RunError> {
        self.nodes[node].start(Timestamp::from_nanos(now_ns), &mut self.shared);
        for number in 0..self.announced.len() {
            let hops = core::mem::take(&mut self.announced[number].installed[node]);
            self.set_route(now_ns, number, node, &hops)?;
            self.announced[number].installed[node] = hops;
        }
        self.send(now_ns, node);
        self.schedule_node_timer(now_ns, node);
        Ok(())
    }

    /// Computes all routes and installs those that changed.
    fn install_routes(&mut self, now_ns: u64) -> Result<(), RunError> {
        let hops_max = self.plan.scenario.routing.next_hops as usize;
        let mut hops = Vec::new();
        for set in 0..self.sources.len() {
            let distances =
                self.routing_graph.distances(&self.sources[set], &self.link_up, &self.node_up);
            for node in 0..self.nodes.len() {
                let is_source = self.sources[set].binary_search(&node).is_ok();
                if is_source || distances[node] == UNREACHABLE {
                    hops.clear();
                } else {
                    self.routing_graph.next_hops(
                        node,
                        &distances,
                        &self.link_up,
                        hops_max,
                        &mut hops,
                    );
                }
                let remote_hops: Box<[NextHop]> = hops
                    .iter()
                    .map(|(length, port)| NextHop {
                        face: face_id(*port as usize),
                        cost: u32::try_from(*length).unwrap_or(u32::MAX),
                    })
                    .collect();
                for number in 0..self.announced.len() {
                    if self.announced[number].sources != set {
                        continue;
                    }
                    let new_hops = if is_source {
                        self.producers_at(node, number)
                    } else {
                        remote_hops.clone()
                    };
                    if self.announced[number].installed[node] != new_hops {
                        if self.node_up[node] {
                            self.set_route(now_ns, number, node, &new_hops)?;
                        }
                        self.announced[number].installed[node] = new_hops;
                    }
                }
                self.send(now_ns, node);
            }
        }
        Ok(())
    }

    fn producers_at(&self, node: usize, number: usize) -> Box<[NextHop]> {
        let prefix = &self.announced[number].prefix;
        let apps = self.apps[..self.producers].iter().zip(&self.plan.producers);
        let local_apps =
            apps.filter(|(app, plan)| app.node == node && plan.config.prefix == *prefix);
        local_apps.map(|(app, _)| NextHop { face: face_id(app.port), cost: 0 }).collect()
    }

    fn set_route(
        &mut self,
        now_ns: u64,
        number: usize,
        node: usize,
        hops: &[NextHop],
    ) -> Result<(), RunError> {
        let AnnouncedPrefix { prefix, strategy, .. } = &self.announced[number];
        let (now, shared) = (Timestamp::from_nanos(now_ns), &mut self.shared);
        self.nodes[node]
            .node_mut()
            .set_route(
                now,
                prefix.as_ref(),
                hops,
                strategy.as_ref(),
                &mut shared.pool,
                &mut shared.out,
            )
            .map_err(|why| RunError {
                node: self.plan.topology.nodes[node].name.clone(),
                prefix: prefix.clone(),
                why,
            })
    }

    fn sample(&mut self, now_ns: u64) {
        let mut sample = Sample { at_ns: now_ns, ..Sample::default() };
        for app in &self.apps[self.producers..] {
            sample.add_consumer(app.application.counters());
        }
        for direction in &self.directions {
            sample.add_direction(direction);
        }
        for node in &self.nodes {
            let counters = node.counters();
            sample.cs_hits += counters.cs_hits;
            sample.cs_misses += counters.cs_misses;
        }
        self.samples.push(sample);
        self.events.schedule(now_ns + self.sample_ns, EventKind::Sample);
    }

    /// Returns the counters of the consumers so far, in the order of the scenario.
    pub fn consumer_counters(&self) -> impl Iterator<Item = &AppCounters> {
        self.apps[self.producers..].iter().map(|app| app.application.counters())
    }

    /// Returns the counters of a link direction so far: 2n leads from the first end of link n, 2n +
    /// 1 to it. `None` if there is no such link.
    pub fn link_counters(&self, direction: usize) -> Option<&LinkCounters> {
        self.directions.get(direction).map(Direction::counters)
    }

    /// Returns the packets transmitted so far by links and applications; each hop counts.
    pub fn packets(&self) -> u64 {
        self.local_packets
            + self.directions.iter().map(|direction| direction.counters().packets).sum::<u64>()
    }

    /// Returns the number of events scheduled so far.
    pub const fn events(&self) -> u64 {
        self.events.scheduled_count()
    }

    /// Returns violations of packet conservation: every packet is delivered, dropped for a counted
    /// reason, or in flight. Empty if all is well.
    pub fn violations(&self) -> Vec<String> {
        let mut violations = Vec::new();
        let mut in_flight = 0;
        for (number, direction) in self.directions.iter().enumerate() {
            let (c, in_flight_now) = (direction.counters(), direction.in_flight() as u64);
            in_flight += in_flight_now;
            if c.packets != c.delivered + c.dropped() + in_flight_now {
                violations.push(format!(
                    "link {}: {} packets accepted, but {} delivered, {} dropped and {in_flight_now} in flight",
                    self.plan.topology.link_name(number / 2),
                    c.packets,
                    c.delivered,
                    c.dropped(),
                ));
            }
            let (node, port) = self.targets[number];
            let received = self.nodes[node as usize].ports()[port as usize].counters.in_packets;
            if received != c.delivered {
                violations.push(format!(
                    "node {}: {} delivered by link {}, but {received} received",
                    self.plan.topology.nodes[node as usize].name,
                    c.delivered,
                    self.plan.topology.link_name(number / 2),
                ));
            }
        }
        for node in &self.nodes {
            for port in node.ports() {
                if let PortPeer::Direction(direction) = port.peer {
                    let accepted = self.directions[direction as usize].counters().packets;
                    if accepted != port.counters.out_packets {
                        violations.push(format!(
                            "a face sent {} packets, its link accepted {accepted}",
                            port.counters.out_packets
                        ));
                    }
                }
            }
        }
        if self.arena.in_use() as u64 != in_flight {
            violations.push(format!(
                "{} packets are kept, {in_flight} are in flight",
                self.arena.in_use()
            ));
        }
        if self.shared.pool.packets_in_use() != 0 {
            violations.push(format!(
                "{} packets were leaked by nodes",
                self.shared.pool.packets_in_use()
            ));
        }
        for (app, plan) in self.apps[self.producers..].iter().zip(&self.plan.consumers) {
            let c = app.application.counters();
            let ended = c.satisfied + c.nacks + c.timeouts + c.pending;
            if c.sent != ended && matches!(plan.workload, crate::scenario::Workload::Rate(_)) {
                violations.push(format!(
                    "{}: {} Interests sent, but {ended} satisfied, nacked, timed out or pending",
                    plan.name, c.sent
                ));
            }
        }
        violations
    }
}

impl RecordedRun for Simulation {
    fn is_link_up(&self, link: usize) -> bool {
        self.link_up[link]
    }

    fn is_node_up(&self, node: usize) -> bool {
        self.node_up[node]
    }

    fn link_counters(&self, direction: usize) -> Option<&LinkCounters> {
        self.link_counters(direction)
    }

    fn consumer_counters(&self) -> impl Iterator<Item = &AppCounters> {
        self.consumer_counters()
    }
}
