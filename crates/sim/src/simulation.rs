//! The loop: one queue of events in virtual nanoseconds, nodes, links and applications it drives.
//!
//! ```text
//!  Events ─▶ link arrival ─▶ Station (link service, node) ─▶ link services ─▶ Direction::give ─▶ Events
//!        ├─▶ node timer   ─▶ Station::tick ──────────────▶       │
//!        ├─▶ application  ─▶ tick ─▶ packets ─▶ Station          └▶ application, at once
//!        └─▶ failure, repair, new routes, sample
//! ```
//!
//! What an application sends is with its node in the same moment, and the reverse. Nothing else is instantaneous, and nothing depends on
//! anything but the scenario and its seed.

use crate::applications::{Application, Bulk, Consumer, Producer, Sends};
use crate::events::{Events, What};
use crate::link::Direction;
use crate::node::RouteError;
use crate::random::{Random, Stream};
use crate::routes::{FAR, Map};
use crate::scenario::{Action, Checked, RoutingMetric, Timed};
use crate::station::{Shared, Station, Towards, arrival, face};
use crate::wires::{Wire, Wires};
use nw_element_api::{Cause, Instant};
use nw_faces::FacesConfig;
use nw_faces::link::LinkSettings;
use nw_faces::link::QueueState;
use nw_faces::status::FaceFlags;
use nw_name::{HashKey, Name};
use nw_tables::fib::NextHop;
use std::collections::{BTreeMap, VecDeque};

/// An application at its place.
pub(crate) struct Seat {
    pub node: usize,
    pub port: usize,
    pub application: Box<dyn Application>,
    timer_ns: u64,
}

/// A prefix that producers announce.
struct Announced {
    prefix: Name,
    strategy: Name,
    /// Which of the sets of nodes it is announced from.
    sources: usize,
    /// By node: what is installed there.
    installed: Vec<Box<[NextHop]>>,
}

/// Between an application and its node.
enum Local {
    ToNode(u32, Wire),
    ToApplication(u32, Wire),
}

/// What may happen at a moment said before.
#[derive(Clone, Copy)]
enum Planned {
    Of(Timed),
    NewRoutes,
}

/// A moment of the series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at_ns: u64,
    /// Interests that consumers sent so far.
    pub sent: u64,
    /// Of these, answered.
    pub satisfied: u64,
    /// Of these, not answered in time.
    pub timeouts: u64,
    /// Of these, refused.
    pub nacks: u64,
    /// Sum of the times from Interest to Data.
    pub rtt_sum_ns: u64,
    /// How many times these are.
    pub rtts: u64,
    /// Packets given to links so far.
    pub link_packets: u64,
    /// Packets that links dropped or lost so far.
    pub dropped: u64,
    /// Packets on their way now.
    pub in_flight: u64,
    /// Interests that content stores answered so far.
    pub cs_hits: u64,
    /// And did not.
    pub cs_misses: u64,
}

/// A run.
pub struct Simulation {
    pub(crate) plan: Checked,
    events: Events,
    pub(crate) wires: Wires,
    pub(crate) shared: Shared,
    pub(crate) stations: Vec<Station>,
    /// Two a link: from its first end, and from its second.
    pub(crate) directions: Vec<Direction>,
    /// By direction: the node and port it leads to.
    pub(crate) targets: Vec<(u32, u32)>,
    pub(crate) seats: Vec<Seat>,
    /// Of the seats, those that are producers, which stand first.
    pub(crate) producers: usize,
    local: VecDeque<Local>,
    sends: Sends,
    map: Map,
    link_up: Vec<bool>,
    node_up: Vec<bool>,
    announced: Vec<Announced>,
    sources: Vec<Vec<usize>>,
    planned: Vec<Planned>,
    routes_due: bool,
    pub(crate) samples: Vec<Sample>,
    sample_ns: u64,
    pub(crate) local_packets: u64,
}

/// Why a run can't go on.
#[derive(Debug, thiserror::Error)]
#[error("node {node} takes no route to {prefix}: {why}")]
pub struct RunError {
    /// Where.
    node: String,
    /// To what.
    prefix: Name,
    /// Why.
    why: RouteError,
}

impl Simulation {
    /// Everything is there, nothing has happened.
    ///
    /// # Errors
    /// When a node has no room for its routes.
    pub fn new(plan: Checked) -> Result<Self, RunError> {
        let seed = plan.scenario.run.seed;
        let mut random = Random::new(seed, Stream::Node, usize::MAX);
        let key = HashKey::new(core::array::from_fn(|_| random.next_u64()));
        let (count, links) = (plan.topology.nodes.len(), plan.topology.links.len());
        let metric = plan.scenario.routing.metric;
        let map = Map::new(&plan.topology, |link| match metric {
            RoutingMetric::Hops => 1,
            RoutingMetric::Delay => plan.links[link].delay_ns,
            RoutingMetric::Cost => u64::from(plan.topology.links[link].cost.unwrap_or(1)),
        });
        let stations = plan.nodes.iter().enumerate().map(|(number, node)| {
            let seed = Random::new(seed, Stream::Node, number).next_u64();
            Station::new(key, seed, node.config)
        });
        let directions = (0..2 * links)
            .map(|number| Direction::new(plan.links[number / 2], Random::new(seed, Stream::Link, number)));
        let mut simulation = Simulation {
            events: Events::default(),
            wires: Wires::new(plan.scenario.run.buffer_mib as usize * 1024 * 1024),
            shared: Shared::new(key, FacesConfig::default().reassembly),
            stations: stations.collect(),
            directions: directions.collect(),
            targets: vec![(0, 0); 2 * links],
            seats: Vec::new(),
            producers: plan.producers.len(),
            local: VecDeque::new(),
            sends: Sends::default(),
            map,
            link_up: vec![true; links],
            node_up: vec![true; count],
            announced: Vec::new(),
            sources: Vec::new(),
            planned: Vec::new(),
            routes_due: false,
            samples: Vec::new(),
            sample_ns: plan.scenario.run.duration_s.0.div_ceil(u64::from(plan.scenario.run.samples)),
            local_packets: 0,
            plan,
        };
        simulation.connect();
        simulation.seat_applications(seed);
        simulation.announce();
        simulation.install_routes(0)?;
        simulation.plan_actions();
        Ok(simulation)
    }

    /// Faces for links: each node's in the order of the map's ways.
    fn connect(&mut self) {
        let links = &self.plan.scenario.links;
        let mut settings =
            LinkSettings::new(&FacesConfig::default(), (links.mtu > 0).then_some(links.mtu as usize));
        settings.flags = settings.flags.with(FaceFlags::CONGESTION_MARKING, links.congestion_marking);
        settings.marking_threshold = u64::from(links.marking_threshold_kib) * 1024;
        settings.marking_interval = core::time::Duration::from_millis(u64::from(links.marking_interval_ms));
        for node in 0..self.stations.len() {
            for way in self.map.ways(node) {
                let first = self.plan.topology.links[way.link as usize].ends.0 as usize;
                let (out, back) = if first == node { (0, 1) } else { (1, 0) };
                let towards = Towards::Direction(2 * way.link + out);
                let port = self.stations[node].add_port(towards, &settings, &mut self.shared);
                debug_assert_eq!(port, way.port as usize);
                self.targets[(2 * way.link + back) as usize] = (node as u32, port as u32);
            }
        }
    }

    fn seat_applications(&mut self, seed: u64) {
        let settings = LinkSettings::new(&FacesConfig::default(), None);
        let mut seats: Vec<(usize, Box<dyn Application>)> = Vec::new();
        for producer in &self.plan.producers {
            seats.push((producer.node, Box::new(Producer::new(producer.config.clone()))));
        }
        for (number, consumer) in self.plan.consumers.iter().enumerate() {
            let random = Random::new(seed, Stream::Application, number);
            let application: Box<dyn Application> = match &consumer.asks {
                crate::scenario::Asks::Rate(config) => Box::new(Consumer::new(config.clone(), random)),
                crate::scenario::Asks::Bulk(config) => Box::new(Bulk::new(config.clone(), random)),
            };
            seats.push((consumer.node, application));
        }
        for (number, (node, application)) in seats.into_iter().enumerate() {
            let towards = Towards::Application(number as u32);
            let port = self.stations[node].add_port(towards, &settings, &mut self.shared);
            self.seats.push(Seat { node, port, application, timer_ns: u64::MAX });
            self.await_application(0, number);
        }
    }

    fn announce(&mut self) {
        let mut by_prefix: BTreeMap<&Name, Vec<usize>> = BTreeMap::new();
        for producer in &self.plan.producers {
            by_prefix.entry(&producer.config.prefix).or_default().push(producer.node);
        }
        for (prefix, mut nodes) in by_prefix {
            nodes.sort_unstable();
            nodes.dedup();
            let sources = self.sources.iter().position(|known| *known == nodes).unwrap_or_else(|| {
                self.sources.push(nodes);
                self.sources.len() - 1
            });
            let above =
                self.plan.strategies.iter().filter(|s| s.prefix.as_ref().is_prefix_of(prefix.as_ref()));
            let strategy = match above.max_by_key(|s| s.prefix.as_ref().len()) {
                Some(chosen) => chosen.strategy.clone(),
                None => crate::scenario::STRATEGY_DEFAULT.parse().expect("a constant name"),
            };
            let installed = vec![Box::default(); self.stations.len()];
            self.announced.push(Announced { prefix: prefix.clone(), strategy, sources, installed });
        }
    }

    fn plan_actions(&mut self) {
        for timed in self.plan.actions.clone() {
            self.plan_at(timed.at_ns, Planned::Of(timed));
        }
        self.events.at(self.sample_ns, What::Sample);
    }

    fn plan_at(&mut self, at_ns: u64, planned: Planned) {
        self.events.at(at_ns, What::Action(self.planned.len() as u32));
        self.planned.push(planned);
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// When a node has no room for its routes.
    pub fn run(&mut self) -> Result<(), RunError> {
        self.run_until(self.plan.scenario.run.duration_s.0)
    }

    /// Does all that is due by then.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_until(&mut self, until_ns: u64) -> Result<(), RunError> {
        while self.step(until_ns)? {}
        Ok(())
    }

    /// The next event, if it is due by then; false when there is none.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    #[inline]
    pub fn step(&mut self, until_ns: u64) -> Result<bool, RunError> {
        let Some((now_ns, what)) = self.events.next(until_ns) else { return Ok(false) };
        match what {
            What::Arrival(direction) => self.arrive(now_ns, direction as usize),
            What::Node(node) => self.tick_node(now_ns, node as usize),
            What::Application(seat) => self.tick_application(now_ns, seat as usize),
            What::Action(number) => self.act(now_ns, number as usize)?,
            What::Sample => self.sample(now_ns),
        }
        self.settle(now_ns);
        Ok(true)
    }

    fn arrive(&mut self, now_ns: u64, direction: usize) {
        if !self.directions[direction].is_awaited(now_ns) {
            // Of what was on the link before it went down.
            return;
        }
        let (node, port) = self.targets[direction];
        let (node, now) = (node as usize, Instant::from_nanos(now_ns));
        while let Some(wire) = self.directions[direction].take(now_ns) {
            if self.stations[node].is_up() {
                self.stations[node].receive(now, port as usize, self.wires.bytes(&wire), &mut self.shared);
                self.wires.free(wire);
                self.send(now_ns, node);
            } else {
                self.directions[direction].undeliver(wire.len() as u64);
                self.wires.free(wire);
            }
        }
        if let Some(next_ns) = self.directions[direction].next_ns() {
            self.events.at(next_ns, What::Arrival(direction as u32));
        }
        self.await_node(now_ns, node);
    }

    /// Puts what leaves a node on links, or hands it to applications.
    #[inline]
    fn send(&mut self, now_ns: u64, node: usize) {
        let now = Instant::from_nanos(now_ns);
        let mut out = core::mem::take(&mut self.shared.out);
        for packet in out.drain(..) {
            let waiting = |towards| match towards {
                Towards::Direction(direction) => self.directions[direction as usize].queue_state(now_ns),
                Towards::Application(_) => QueueState { bytes: 0, bytes_max: u64::MAX },
            };
            let Some(towards) = self.stations[node].send(now, packet, waiting, &mut self.shared) else {
                continue;
            };
            let Shared { outbox, pool, .. } = &mut self.shared;
            for item in outbox.items() {
                let pieces = outbox.parts(item, pool);
                match towards {
                    Towards::Direction(direction) => {
                        let on = &mut self.directions[direction as usize];
                        if let Some(at_ns) = on.give(now_ns, &pieces, &mut self.wires) {
                            self.events.at(at_ns, What::Arrival(direction));
                        }
                    }
                    Towards::Application(seat) => match self.wires.put(&pieces) {
                        Some(wire) => self.local.push_back(Local::ToApplication(seat, wire)),
                        None => self.stations[node].link_drops.count(Cause::NoBuffer),
                    },
                }
            }
            outbox.clear(pool);
        }
        self.shared.out = out;
    }

    /// Lets applications and their nodes speak until they have nothing more to say in this moment.
    #[inline]
    fn settle(&mut self, now_ns: u64) {
        let now = Instant::from_nanos(now_ns);
        while let Some(local) = self.local.pop_front() {
            self.local_packets += 1;
            match local {
                Local::ToNode(seat, wire) => {
                    let Seat { node, port, .. } = self.seats[seat as usize];
                    if self.stations[node].is_up() {
                        self.stations[node].receive(now, port, self.wires.bytes(&wire), &mut self.shared);
                    } else {
                        self.stations[node].dropped_down += 1;
                    }
                    self.wires.free(wire);
                    self.send(now_ns, node);
                    self.await_node(now_ns, node);
                }
                Local::ToApplication(seat, wire) => {
                    if let Some(arrival) = arrival(self.wires.bytes(&wire)) {
                        self.seats[seat as usize].application.receive(now, arrival, &mut self.sends);
                    }
                    self.wires.free(wire);
                    self.take_sends(seat as usize);
                    self.await_application(now_ns, seat as usize);
                }
            }
        }
    }

    fn take_sends(&mut self, seat: usize) {
        for packet in self.sends.iter() {
            match self.wires.put(&[packet]) {
                Some(wire) => self.local.push_back(Local::ToNode(seat as u32, wire)),
                None => self.stations[self.seats[seat].node].link_drops.count(Cause::NoBuffer),
            }
        }
        self.sends.clear();
    }

    fn tick_application(&mut self, now_ns: u64, seat: usize) {
        if self.seats[seat].timer_ns != now_ns {
            return;
        }
        self.seats[seat].timer_ns = u64::MAX;
        self.seats[seat].application.tick(Instant::from_nanos(now_ns), &mut self.sends);
        self.take_sends(seat);
        self.await_application(now_ns, seat);
    }

    fn tick_node(&mut self, now_ns: u64, node: usize) {
        if self.stations[node].timer_ns != now_ns {
            return;
        }
        self.stations[node].timer_ns = u64::MAX;
        self.stations[node].tick(Instant::from_nanos(now_ns), &mut self.shared);
        self.send(now_ns, node);
        self.await_node(now_ns, node);
    }

    /// Asks for a timer if the node wants an earlier one than it has.
    #[inline]
    fn await_node(&mut self, now_ns: u64, node: usize) {
        let station = &mut self.stations[node];
        if let Some(deadline) = station.deadline() {
            let at_ns = deadline.as_nanos().max(now_ns + 1);
            if at_ns < station.timer_ns {
                station.timer_ns = at_ns;
                self.events.at(at_ns, What::Node(node as u32));
            }
        }
    }

    #[inline]
    fn await_application(&mut self, now_ns: u64, seat: usize) {
        let at = &mut self.seats[seat];
        if let Some(deadline) = at.application.deadline() {
            let at_ns = deadline.as_nanos().max(now_ns + 1);
            if at_ns < at.timer_ns {
                at.timer_ns = at_ns;
                self.events.at(at_ns, What::Application(seat as u32));
            }
        }
    }

    fn act(&mut self, now_ns: u64, number: usize) -> Result<(), RunError> {
        let Planned::Of(timed) = self.planned[number] else {
            self.routes_due = false;
            return self.install_routes(now_ns);
        };
        match timed.action {
            Action::Link(link, up) => {
                self.link_up[link] = up;
                for direction in [2 * link, 2 * link + 1] {
                    self.directions[direction].set_up(up, &mut self.wires);
                }
            }
            Action::Node(node, false) => {
                self.node_up[node] = false;
                self.stations[node].stop();
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
            self.plan_at(due_ns, Planned::NewRoutes);
        }
        Ok(())
    }

    fn restart(&mut self, now_ns: u64, node: usize) -> Result<(), RunError> {
        self.stations[node].start(Instant::from_nanos(now_ns), &mut self.shared);
        for number in 0..self.announced.len() {
            let hops = core::mem::take(&mut self.announced[number].installed[node]);
            self.set_route(now_ns, number, node, &hops)?;
            self.announced[number].installed[node] = hops;
        }
        self.send(now_ns, node);
        self.await_node(now_ns, node);
        Ok(())
    }

    /// Computes all routes, and installs those that differ.
    fn install_routes(&mut self, now_ns: u64) -> Result<(), RunError> {
        let most = self.plan.scenario.routing.next_hops as usize;
        let mut hops = Vec::new();
        for set in 0..self.sources.len() {
            let distances = self.map.distances(&self.sources[set], &self.link_up, &self.node_up);
            for node in 0..self.stations.len() {
                let is_source = self.sources[set].binary_search(&node).is_ok();
                if is_source || distances[node] == FAR {
                    hops.clear();
                } else {
                    self.map.next_hops(node, &distances, &self.link_up, most, &mut hops);
                }
                let away: Box<[NextHop]> = hops
                    .iter()
                    .map(|(length, port)| NextHop {
                        face: face(*port as usize),
                        cost: u32::try_from(*length).unwrap_or(u32::MAX),
                    })
                    .collect();
                for number in 0..self.announced.len() {
                    if self.announced[number].sources != set {
                        continue;
                    }
                    let wanted = if is_source { self.producers_at(node, number) } else { away.clone() };
                    if self.announced[number].installed[node] != wanted {
                        if self.node_up[node] {
                            self.set_route(now_ns, number, node, &wanted)?;
                        }
                        self.announced[number].installed[node] = wanted;
                    }
                }
                self.send(now_ns, node);
            }
        }
        Ok(())
    }

    fn producers_at(&self, node: usize, number: usize) -> Box<[NextHop]> {
        let prefix = &self.announced[number].prefix;
        let seats = self.seats[..self.producers].iter().zip(&self.plan.producers);
        let here = seats.filter(|(seat, plan)| seat.node == node && plan.config.prefix == *prefix);
        here.map(|(seat, _)| NextHop { face: face(seat.port), cost: 0 }).collect()
    }

    fn set_route(
        &mut self,
        now_ns: u64,
        number: usize,
        node: usize,
        hops: &[NextHop],
    ) -> Result<(), RunError> {
        let Announced { prefix, strategy, .. } = &self.announced[number];
        let (now, shared) = (Instant::from_nanos(now_ns), &mut self.shared);
        self.stations[node]
            .node_mut()
            .set_route(now, prefix.as_ref(), hops, strategy.as_ref(), &mut shared.pool, &mut shared.out)
            .map_err(|why| RunError {
                node: self.plan.topology.nodes[node].name.clone(),
                prefix: prefix.clone(),
                why,
            })
    }

    fn sample(&mut self, now_ns: u64) {
        let mut sample = Sample { at_ns: now_ns, ..Sample::default() };
        for seat in &self.seats[self.producers..] {
            let counters = seat.application.counters();
            sample.sent += counters.sent;
            sample.satisfied += counters.satisfied;
            sample.timeouts += counters.timeouts;
            sample.nacks += counters.nacks;
            sample.rtt_sum_ns += counters.rtt_sum_ns;
            sample.rtts += counters.rtt_ns.len();
        }
        for direction in &self.directions {
            let counters = direction.counters();
            sample.link_packets += counters.packets;
            sample.dropped += counters.dropped();
            sample.in_flight += direction.in_flight() as u64;
        }
        for station in &self.stations {
            let counters = station.counters();
            sample.cs_hits += counters.cs_hits;
            sample.cs_misses += counters.cs_misses;
        }
        self.samples.push(sample);
        self.events.at(now_ns + self.sample_ns, What::Sample);
    }

    /// Packets that links and applications handed over so far: each hop counts.
    pub fn packets(&self) -> u64 {
        self.local_packets + self.directions.iter().map(|direction| direction.counters().packets).sum::<u64>()
    }

    /// Events so far.
    pub const fn events(&self) -> u64 {
        self.events.asked()
    }

    /// What does not add up: every packet is delivered, dropped for a counted reason, or on its way. Empty is good.
    pub fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut in_flight = 0;
        for (number, direction) in self.directions.iter().enumerate() {
            let (c, flying) = (direction.counters(), direction.in_flight() as u64);
            in_flight += flying;
            if c.packets != c.delivered + c.dropped() + flying {
                found.push(format!(
                    "link {}: {} packets given, but {} delivered, {} dropped and {flying} on their way",
                    self.plan.topology.link_name(number / 2),
                    c.packets,
                    c.delivered,
                    c.dropped(),
                ));
            }
            let (node, port) = self.targets[number];
            let came = self.stations[node as usize].ports()[port as usize].counters.in_packets;
            if came != c.delivered {
                found.push(format!(
                    "node {}: {} delivered by link {}, but {came} came",
                    self.plan.topology.nodes[node as usize].name,
                    c.delivered,
                    self.plan.topology.link_name(number / 2),
                ));
            }
        }
        for station in &self.stations {
            for port in station.ports() {
                if let Towards::Direction(direction) = port.towards {
                    let given = self.directions[direction as usize].counters().packets;
                    if given != port.counters.out_packets {
                        found.push(format!(
                            "a face sent {} packets, its link got {given}",
                            port.counters.out_packets
                        ));
                    }
                }
            }
        }
        if self.wires.in_use() as u64 != in_flight {
            found.push(format!("{} packets are kept, {in_flight} are on their way", self.wires.in_use()));
        }
        if self.shared.pool.packets_in_use() != 0 {
            found.push(format!("{} packets were lost in nodes", self.shared.pool.packets_in_use()));
        }
        for (seat, plan) in self.seats[self.producers..].iter().zip(&self.plan.consumers) {
            let c = seat.application.counters();
            let ended = c.satisfied + c.nacks + c.timeouts + c.pending;
            if c.sent != ended && matches!(plan.asks, crate::scenario::Asks::Rate(_)) {
                found.push(format!(
                    "{}: {} Interests sent, but {ended} answered, refused, timed out or pending",
                    plan.name, c.sent
                ));
            }
        }
        found
    }
}
