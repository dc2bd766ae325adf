//! The loop in real time: links, applications, failures and samples, from one event queue.
//!
//! It differs from the simulator's loop in that time passes by itself: an event is handled when it
//! is due or later, and how late is measured.

use super::controller::{Command, Controller, Event};
use super::counters::{CounterThread, RouterCounters};
use super::marks::LinkMarking;
use super::sockets::LinkSockets;
use super::{NetworkOutcome, check_stop};
use crate::error::LabError;
use nw_app::control::{self, ControlError};
use nw_app::{Client, Received};
use nw_element_api::{Kind, LinkFields, Timestamp};
use nw_name::Name;
use nw_name::convention::Kind as ComponentKind;
use nw_sim::applications::{AppCounters, Application, Arrival, OutgoingPackets};
use nw_sim::events::{EventKind, EventQueue};
use nw_sim::link::{Direction, LinkCounters};
use nw_sim::outcome::{NodeRow, RunMeasurements};
use nw_sim::packet_arena::PacketArena;
use nw_sim::recording::{self, RecordedRun, RecordingBuilder};
use nw_sim::routes::{RoutingGraph, UNREACHABLE};
use nw_sim::scenario::{Action, Announcement};
use nw_sim::simulation::Sample;
use nw_sim::{Outcome, RunPlan};
use nw_wire::Data;
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Largest datagram, bytes.
const DATAGRAM_MAX: usize = 9216;
/// Datagrams of a socket that are read before events are handled.
const READS_MAX: usize = 64;
/// Longest wait: events of the controller are noticed within this time.
const WAIT_MAX: Duration = Duration::from_millis(10);
/// Packets later than this count as late, nanoseconds.
const LATE_NS: u64 = 1_000_000;
/// Share of late packets above which the result is not trusted.
const LATE_SHARE_MAX: f64 = 0.05;
/// Bit of an epoll token that marks applications; the others are ends of links.
const APPLICATION_BIT: u64 = 1 << 32;
const EVENTS_MAX: usize = 64;

/// A running application.
struct LiveApp {
    node: usize,
    application: Box<dyn Application>,
    client: Option<Client>,
    timer_ns: u64,
}

/// A scheduled change.
#[derive(Clone, Copy)]
enum Scheduled {
    Scenario(Action),
    RecomputeRoutes,
}

/// The running network.
pub struct Live {
    plan: RunPlan,
    graph: RoutingGraph,
    controller: Controller,
    sockets: LinkSockets,
    epoll: OwnedFd,
    started: Instant,
    events: EventQueue,
    event_count: u64,
    arena: PacketArena,
    directions: Vec<Direction>,
    /// Congestion marks of each direction.
    marking: Vec<LinkMarking>,
    apps: Vec<LiveApp>,
    announcements: Vec<Announcement>,
    /// By announcement and node: the next hops.
    installed: Vec<Vec<Vec<(u64, u32)>>>,
    link_up: Vec<bool>,
    node_up: Vec<bool>,
    /// Whether the router of a node is known to run.
    node_ready: Vec<bool>,
    /// By node: packets of applications while it was down.
    dropped_down: Vec<u64>,
    scheduled: Vec<Scheduled>,
    routes_due: bool,
    samples: Vec<Sample>,
    sample_ns: u64,
    local_packets: u64,
    delivered: u64,
    late: u64,
    lag_max_ns: u64,
}

fn system(what: &str) -> impl FnOnce(Errno) -> LabError {
    let what = what.to_owned();
    move |errno| LabError::Io { what, source: errno.into() }
}

impl Live {
    /// Connects the applications and installs the first routes.
    pub fn new(
        plan: RunPlan,
        graph: RoutingGraph,
        sockets: LinkSockets,
        controller: Controller,
    ) -> Result<Self, LabError> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("can't wait for packets"))?;
        for (end, socket) in sockets.ends.iter().enumerate() {
            watch(&epoll, socket, end as u64)?;
        }
        let (nodes, links) = (plan.topology.nodes.len(), plan.links.len());
        let announcements = plan.announcements();
        let run = &plan.scenario.run;
        let apps = plan.applications().into_iter();
        let mut live = Live {
            apps: apps
                .map(|(node, application)| LiveApp {
                    node,
                    application,
                    client: None,
                    timer_ns: u64::MAX,
                })
                .collect(),
            arena: PacketArena::new(run.buffer_mib as usize * 1024 * 1024),
            directions: plan.directions(),
            marking: (0..2 * links).map(|_| LinkMarking::new(&plan.scenario.links)).collect(),
            installed: vec![vec![Vec::new(); nodes]; announcements.len()],
            announcements,
            link_up: vec![true; links],
            node_up: vec![true; nodes],
            node_ready: vec![true; nodes],
            dropped_down: vec![0; nodes],
            sample_ns: run.duration_s.0.div_ceil(u64::from(run.samples)),
            started: Instant::now(),
            events: EventQueue::default(),
            event_count: 0,
            scheduled: Vec::new(),
            routes_due: false,
            samples: Vec::new(),
            local_packets: 0,
            delivered: 0,
            late: 0,
            lag_max_ns: 0,
            plan,
            graph,
            controller,
            sockets,
            epoll,
        };
        for node in 0..nodes {
            live.connect_applications(node)?;
        }
        live.install_routes();
        Ok(live)
    }

    /// Runs to the end of the scenario, and adds frames to a recording.
    pub fn run(
        &mut self,
        stop: &Arc<AtomicBool>,
        counters: &CounterThread,
        mut recording: Option<&mut RecordingBuilder>,
        mut progress: impl FnMut(f64),
    ) -> Result<(), LabError> {
        let end_ns = self.plan.scenario.run.duration_s.0;
        let frame_ns = end_ns.div_ceil(recording::FRAMES);
        let mut next_frame_ns = frame_ns;
        for timed in self.plan.actions.clone() {
            self.schedule_action(timed.at_ns, Scheduled::Scenario(timed.action));
        }
        self.events.schedule(self.sample_ns, EventKind::Sample);
        self.started = Instant::now();
        for app in 0..self.apps.len() {
            self.schedule_app_timer(0, app);
        }
        loop {
            check_stop(stop)?;
            let now_ns = self.now_ns();
            while let Some((at_ns, event)) = self.events.next(now_ns.min(end_ns)) {
                self.event_count += 1;
                self.handle(at_ns, event, counters)?;
            }
            let is_over = now_ns >= end_ns;
            if let Some(recording) =
                recording.as_mut().filter(|_| is_over || now_ns >= next_frame_ns)
            {
                // A loop that is late leaves frames out.
                next_frame_ns = (now_ns / frame_ns + 1) * frame_ns;
                recording.add_frame(self, now_ns.min(end_ns));
            }
            if is_over {
                return Ok(());
            }
            progress(now_ns as f64 / end_ns as f64);
            while let Some(event) = self.controller.next_event() {
                match event {
                    Event::Ready(node) => self.on_router_ready(node)?,
                    Event::Failed(error) => return Err(error),
                }
            }
            self.wait(now_ns, end_ns)?;
        }
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Waits for packets until the next event, and handles them.
    fn wait(&mut self, now_ns: u64, end_ns: u64) -> Result<(), LabError> {
        let next_ns = self.events.next_ns().unwrap_or(end_ns).min(end_ns);
        let timeout = Duration::from_nanos(next_ns.saturating_sub(now_ns)).min(WAIT_MAX);
        let timespec =
            rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(timeout.subsec_nanos()) };
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let ready = match epoll::wait(&self.epoll, &mut events, Some(&timespec)) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(system("can't wait for packets")(errno)),
        };
        for event in ready.iter() {
            let token = event.data.u64();
            match token.checked_sub(APPLICATION_BIT) {
                Some(app) => self.poll_application(app as usize)?,
                None => self.receive_from_router(token as usize),
            }
        }
        Ok(())
    }

    fn handle(
        &mut self,
        at_ns: u64,
        event: EventKind,
        counters: &CounterThread,
    ) -> Result<(), LabError> {
        match event {
            EventKind::Arrival(direction) => self.deliver(at_ns, direction as usize),
            EventKind::Application(app) => self.tick_application(at_ns, app as usize),
            EventKind::Action(number) => self.apply_action(number as usize),
            EventKind::Sample => self.sample(at_ns, counters),
            EventKind::Node(_) => {}
        }
        Ok(())
    }

    /// Puts the datagrams of a router on its link.
    fn receive_from_router(&mut self, end: usize) {
        let mut buffer = [0; DATAGRAM_MAX];
        for _ in 0..READS_MAX {
            // An error tells that the router does not run.
            let Ok(len) = self.sockets.ends[end].recv(&mut buffer) else { return };
            let now_ns = self.now_ns();
            let direction = &mut self.directions[end];
            let queue = direction.queue_state(now_ns);
            let packet = self.marking[end].apply(now_ns, queue, &buffer[..len]);
            if let Some(at_ns) = direction.transmit(now_ns, &[packet], &mut self.arena) {
                self.events.schedule(at_ns, EventKind::Arrival(end as u32));
            }
        }
    }

    /// Passes the packets that have arrived at the end of a link to the router there.
    fn deliver(&mut self, at_ns: u64, direction: usize) {
        if !self.directions[direction].is_scheduled_at(at_ns) {
            // Scheduled before the link went down.
            return;
        }
        let now_ns = self.now_ns();
        let lag_ns = now_ns.saturating_sub(at_ns);
        self.lag_max_ns = self.lag_max_ns.max(lag_ns);
        while let Some(packet) = self.directions[direction].next_arrival(now_ns) {
            self.delivered += 1;
            self.late += u64::from(lag_ns > LATE_NS);
            // The other end: 2n + 1 for 2n, and 2n for 2n + 1.
            if self.sockets.ends[direction ^ 1].send(self.arena.bytes(&packet)).is_err() {
                // The router does not run.
                self.directions[direction].count_undelivered(packet.len() as u64);
            }
            self.arena.free(packet);
        }
        if let Some(next_ns) = self.directions[direction].schedule_next() {
            self.events.schedule(next_ns, EventKind::Arrival(direction as u32));
        }
    }

    /// Connects the applications of a node to its router, and registers its producers.
    fn connect_applications(&mut self, node: usize) -> Result<(), LabError> {
        let uri = self.controller.uris()[node].clone();
        for (number, app) in self.apps.iter_mut().enumerate().filter(|(_, app)| app.node == node) {
            let connect = || -> Result<Client, ControlError> {
                let mut client = Client::connect(&uri)?;
                if let Some(producer) = self.plan.producers.get(number) {
                    control::register(&mut client, producer.config.prefix.clone())?;
                }
                Ok(client)
            };
            let client = connect().map_err(|source| LabError::Router {
                router: format!("the router on {}", self.plan.topology.nodes[node].name),
                source: Box::new(source),
            })?;
            watch(&self.epoll, &client, APPLICATION_BIT + number as u64)?;
            app.client = Some(client);
        }
        Ok(())
    }

    fn on_router_ready(&mut self, node: usize) -> Result<(), LabError> {
        if self.node_up[node] {
            self.connect_applications(node)?;
            self.node_ready[node] = true;
        }
        Ok(())
    }

    /// Passes the packets that an application has received to it.
    fn poll_application(&mut self, app: usize) -> Result<(), LabError> {
        let now_ns = self.now_ns();
        let LiveApp { application, client, node, .. } = &mut self.apps[app];
        let Some(connected) = client else { return Ok(()) };
        let mut outgoing = OutgoingPackets::default();
        let mut count = 0;
        let now = Timestamp::from_nanos(now_ns);
        let polled = connected.poll(Some(Duration::ZERO), |_, received, out| {
            if let Some(arrival) = arrival(&received) {
                application.receive(now, arrival, &mut outgoing);
            }
            let link = link_fields(&received);
            for packet in outgoing.iter() {
                count += 1;
                out.send_with(packet, link);
            }
            outgoing.clear();
        });
        match polled {
            Ok(received) => self.local_packets += received as u64 + count,
            Err(error) => {
                *client = None;
                if self.node_up[*node] && self.node_ready[*node] {
                    let name = &self.plan.topology.nodes[*node].name;
                    return Err(LabError::Program {
                        what: format!("the router on {name}"),
                        said: format!("an application lost it: {error}"),
                    });
                }
            }
        }
        self.schedule_app_timer(now_ns, app);
        Ok(())
    }

    fn tick_application(&mut self, at_ns: u64, app: usize) {
        if self.apps[app].timer_ns != at_ns {
            return;
        }
        let now_ns = self.now_ns();
        let LiveApp { application, client, node, timer_ns } = &mut self.apps[app];
        *timer_ns = u64::MAX;
        let mut outgoing = OutgoingPackets::default();
        application.tick(Timestamp::from_nanos(now_ns), &mut outgoing);
        let link = LinkFields { token: nw_app::client::plain_token(), ..LinkFields::default() };
        for packet in outgoing.iter() {
            match client {
                Some(client) => {
                    self.local_packets += 1;
                    client.send_with(packet, link);
                }
                None => self.dropped_down[*node] += 1,
            }
        }
        if let Some(client) = client {
            client.flush();
        }
        self.schedule_app_timer(now_ns, app);
    }

    fn schedule_app_timer(&mut self, now_ns: u64, app: usize) {
        let live_app = &mut self.apps[app];
        if let Some(deadline) = live_app.application.deadline() {
            let at_ns = deadline.as_nanos().max(now_ns + 1);
            if at_ns < live_app.timer_ns {
                live_app.timer_ns = at_ns;
                self.events.schedule(at_ns, EventKind::Application(app as u32));
            }
        }
    }

    fn schedule_action(&mut self, at_ns: u64, scheduled: Scheduled) {
        self.events.schedule(at_ns, EventKind::Action(self.scheduled.len() as u32));
        self.scheduled.push(scheduled);
    }

    fn apply_action(&mut self, number: usize) {
        let Scheduled::Scenario(action) = self.scheduled[number] else {
            self.routes_due = false;
            return self.install_routes();
        };
        match action {
            Action::Link(link, up) => {
                self.link_up[link] = up;
                for direction in [2 * link, 2 * link + 1] {
                    self.directions[direction].set_up(up, &mut self.arena);
                }
            }
            Action::Node(node, false) => {
                self.node_up[node] = false;
                self.stop_applications(node);
                self.controller.send(Command::Stop(node));
            }
            Action::Node(node, true) if self.node_up[node] => {}
            Action::Node(node, true) | Action::Restart(node) => {
                self.node_up[node] = true;
                self.stop_applications(node);
                self.controller.send(Command::Start(node));
            }
        }
        let routing = &self.plan.scenario.routing;
        if routing.recompute && !self.routes_due && !matches!(action, Action::Restart(_)) {
            self.routes_due = true;
            let due_ns = self.now_ns() + routing.convergence_ms.0;
            self.schedule_action(due_ns, Scheduled::RecomputeRoutes);
        }
    }

    fn stop_applications(&mut self, node: usize) {
        self.node_ready[node] = false;
        for app in self.apps.iter_mut().filter(|app| app.node == node) {
            app.client = None;
        }
    }

    /// Computes all routes, and passes those that changed to the controller.
    fn install_routes(&mut self) {
        let hops_max = self.plan.scenario.routing.next_hops as usize;
        let mut hops = Vec::new();
        for (number, announced) in self.announcements.iter().enumerate() {
            let distances = self.graph.distances(&announced.nodes, &self.link_up, &self.node_up);
            for node in 0..distances.len() {
                let is_source = announced.nodes.binary_search(&node).is_ok();
                hops.clear();
                if !is_source && distances[node] != UNREACHABLE {
                    self.graph.next_hops(node, &distances, &self.link_up, hops_max, &mut hops);
                }
                if self.installed[number][node] != hops {
                    self.installed[number][node].clone_from(&hops);
                    let prefix: Name = announced.prefix.clone();
                    self.controller.send(Command::Route { node, prefix, hops: hops.clone() });
                }
            }
        }
    }

    fn sample(&mut self, at_ns: u64, counters: &CounterThread) {
        let (cs_hits, cs_misses) = counters.cache();
        let mut sample = Sample { at_ns, cs_hits, cs_misses, ..Sample::default() };
        self.consumer_counters().for_each(|counters| sample.add_consumer(counters));
        for direction in &self.directions {
            sample.add_direction(direction);
        }
        self.samples.push(sample);
        self.events.schedule(at_ns + self.sample_ns, EventKind::Sample);
    }

    /// Returns the results, with the counters of the routers.
    pub fn finish(self, routers: Vec<RouterCounters>) -> Result<NetworkOutcome, LabError> {
        let names = self.plan.topology.nodes.iter().zip(&self.dropped_down);
        let rows = routers.into_iter().zip(names);
        let nodes: Vec<NodeRow> =
            rows.map(|(router, (node, down))| node_row(&node.name, router, *down)).collect();
        let apps: Vec<&AppCounters> =
            self.apps.iter().map(|app| app.application.counters()).collect();
        let link_packets: u64 =
            self.directions.iter().map(|direction| direction.counters().packets).sum();
        let outcome = Outcome::of(&RunMeasurements {
            plan: &self.plan,
            is_real_time: true,
            apps,
            directions: &self.directions,
            nodes,
            samples: &self.samples,
            violations: self.violations(),
            packets: self.local_packets + link_packets,
            events: self.event_count,
        });
        let late_share = match self.delivered {
            0 => 0.0,
            delivered => self.late as f64 / delivered as f64,
        };
        Ok(NetworkOutcome {
            outcome,
            warnings: self.warnings(late_share),
            lag_max_ms: self.lag_max_ns as f64 / 1e6,
            late_share,
            recording: None,
        })
    }

    /// Returns the links of which packets are unaccounted for.
    fn violations(&self) -> Vec<String> {
        let mut violations = Vec::new();
        for (number, direction) in self.directions.iter().enumerate() {
            let (c, in_flight) = (direction.counters(), direction.in_flight() as u64);
            if c.packets != c.delivered + c.dropped() + in_flight {
                violations.push(format!(
                    "link {}: {} packets accepted, but {} delivered, {} dropped and {in_flight} in flight",
                    self.plan.topology.link_name(number / 2),
                    c.packets,
                    c.delivered,
                    c.dropped(),
                ));
            }
        }
        violations
    }

    fn warnings(&self, late_share: f64) -> Vec<String> {
        let mut warnings = Vec::new();
        let lost = self.sockets.buffer_losses();
        if lost > 0 {
            warnings.push(format!(
                "{lost} packets were lost in full socket buffers, not on links: lower the rates, or simulate with nw sim run"
            ));
        }
        if late_share > LATE_SHARE_MAX {
            warnings.push(format!(
                "{:.0} % of packets arrived more than 1 ms late, the latest by {:.1} ms: this machine is too slow or too busy for these rates",
                100.0 * late_share,
                self.lag_max_ns as f64 / 1e6
            ));
        }
        warnings
    }
}

impl RecordedRun for Live {
    fn is_link_up(&self, link: usize) -> bool {
        self.link_up[link]
    }

    fn is_node_up(&self, node: usize) -> bool {
        self.node_up[node]
    }

    fn link_counters(&self, direction: usize) -> Option<&LinkCounters> {
        self.directions.get(direction).map(Direction::counters)
    }

    fn consumer_counters(&self) -> impl Iterator<Item = &AppCounters> {
        self.apps[self.plan.producers.len()..].iter().map(|app| app.application.counters())
    }
}

fn watch(epoll: &OwnedFd, what: impl AsFd, token: u64) -> Result<(), LabError> {
    epoll::add(epoll, what, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
        .map_err(system("can't wait for packets"))
}

/// Returns a packet as the simulator's applications read it.
fn arrival<'a>(received: &Received<'a>) -> Option<Arrival<'a>> {
    match received.kind() {
        Kind::Interest => Some(Arrival::Interest { name: received.name() }),
        Kind::Nack => Some(Arrival::Nack {
            name: received.name(),
            reason: received.nack()?,
            pause: received.pause(),
        }),
        Kind::Data => {
            let data = Data::check(received.wire).ok()?;
            let last = data.final_block();
            Some(Arrival::Data {
                name: received.name(),
                bytes: received.wire.len(),
                is_marked: received.is_marked(),
                final_segment: last.and_then(|last| ComponentKind::Segment.number(last)),
            })
        }
        _ => None,
    }
}

/// Returns the link fields of what follows a packet: a reply has the token of its Interest.
fn link_fields(received: &Received<'_>) -> LinkFields {
    let token = match received.kind() {
        Kind::Interest => received.token(),
        _ => nw_app::client::plain_token(),
    };
    LinkFields { token, ..LinkFields::default() }
}

fn node_row(name: &str, router: RouterCounters, dropped_down: u64) -> NodeRow {
    let reasons: Vec<String> =
        router.drops.iter().map(|(reason, packets)| format!("{reason}={packets}")).collect();
    NodeRow {
        name: name.to_owned(),
        cs_hits: router.cs_hits,
        cs_misses: router.cs_misses,
        cs_insertions: None,
        cs_evictions: None,
        pit_satisfied: router.satisfied,
        pit_unsatisfied: router.unsatisfied,
        drops: router.drops.values().sum(),
        drop_reasons: reasons.join(" "),
        dropped_down,
    }
}
