//! The thread that starts, configures and stops the routers, so that the loop of the links never
//! waits for one.

use super::check_stop;
use super::sockets::face_uri;
use crate::error::LabError;
use crate::node::Node;
use crate::plan::{PORT, RouterProgram};
use crate::router::{Listen, Router};
use nw_api::management::{ControlParameters, Verb};
use nw_app::control::{self, ControlError};
use nw_app::{Client, FaceUri};
use nw_name::Name;
use nw_sim::RunPlan;
use nw_sim::routes::RoutingGraph;
use nw_sim::scenario::{NodePlan, STRATEGY_DEFAULT};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

/// Routers that start at a time.
const STARTS_AT_A_TIME: usize = 4;
/// Origin of the routes: static.
const ORIGIN: u64 = 255;
/// Least sizes of tables that a router accepts.
const PIT_ENTRIES_MIN: usize = 64;
const FIB_PREFIXES_MIN: usize = 64;
const DEAD_NONCES_MIN: usize = 1024;
const MEASUREMENTS_MIN: usize = 64;

/// Next hops of a prefix: cost and port of the node.
pub type Hops = Vec<(u64, u32)>;

/// What the loop asks for.
#[derive(Debug)]
pub enum Command {
    /// Replaces the next hops of a prefix at a node.
    Route {
        /// Index of the node.
        node: usize,
        /// The prefix.
        prefix: Name,
        /// The new next hops; empty to remove the route.
        hops: Hops,
    },
    /// Kills a router.
    Stop(usize),
    /// Starts a router, after killing it if it runs.
    Start(usize),
}

/// What has happened.
#[derive(Debug)]
pub enum Event {
    /// The router of a node runs, with its faces, strategies and routes.
    Ready(usize),
    /// A router failed or refused a command.
    Failed(LabError),
}

/// A node and how its router starts.
#[derive(Debug)]
pub struct NodeStart {
    node: Node,
    program: RouterProgram,
    config: String,
    links: usize,
    mtu: Option<u64>,
    strategies: Vec<(Name, Name)>,
    router: Option<Router>,
    /// Face ids by port.
    faces: Vec<u64>,
    routes: BTreeMap<Name, Hops>,
}

impl NodeStart {
    /// Returns the starts of all nodes.
    pub fn all(nw: &Path, plan: &RunPlan, graph: &RoutingGraph, nodes: Vec<Node>) -> Vec<Self> {
        let mtu = u64::from(plan.scenario.links.mtu);
        let announcements = plan.announcements();
        let strategies: Vec<_> = announcements
            .into_iter()
            .filter(|announced| announced.strategy.to_string() != STRATEGY_DEFAULT)
            .map(|announced| (announced.prefix, announced.strategy))
            .collect();
        let policy = plan.scenario.routers.store_policy.as_str();
        let starts = nodes.into_iter().enumerate().map(|(index, node)| NodeStart {
            node,
            program: RouterProgram::Namewire(nw.to_owned()),
            config: config(&plan.nodes[index], policy),
            links: graph.neighbours(index).len(),
            mtu: (mtu > 0).then_some(mtu),
            strategies: strategies.clone(),
            router: None,
            faces: Vec::new(),
            routes: BTreeMap::new(),
        });
        starts.collect()
    }

    fn start(&mut self) -> Result<(), LabError> {
        self.router = None;
        let listen =
            Listen { addresses: self.node.addresses, port: PORT, has_ipv6: false, has_tcp: false };
        let router = Router::start(&self.program, &self.node, listen, &self.config)?;
        self.faces = router.with_client(|client| {
            for (prefix, strategy) in &self.strategies {
                let choice = ControlParameters {
                    strategy: Some(nw_api::management::Strategy(strategy.clone())),
                    ..ControlParameters::of(prefix.clone())
                };
                control::command(client, Verb::StrategyChoiceSet, &choice)?;
            }
            (0..self.links).map(|port| create_face(client, port, self.mtu)).collect()
        })?;
        self.router = Some(router);
        for (prefix, hops) in self.routes.clone() {
            self.change_route(&prefix, &[], &hops)?;
        }
        Ok(())
    }

    fn set_route(&mut self, prefix: Name, hops: Hops) -> Result<(), LabError> {
        let before = self.routes.get(&prefix).cloned().unwrap_or_default();
        self.routes.insert(prefix.clone(), hops.clone());
        self.change_route(&prefix, &before, &hops)
    }

    fn change_route(
        &self,
        prefix: &Name,
        before: &[(u64, u32)],
        after: &[(u64, u32)],
    ) -> Result<(), LabError> {
        let Some(router) = &self.router else { return Ok(()) };
        let of = |port: u32| ControlParameters {
            face_id: self.faces.get(port as usize).copied(),
            origin: Some(ORIGIN),
            ..ControlParameters::of(prefix.clone())
        };
        router.with_client(|client| {
            for (cost, port) in after.iter().filter(|hop| !before.contains(hop)) {
                let route =
                    ControlParameters { cost: Some((*cost).min(u64::from(u32::MAX))), ..of(*port) };
                control::command(client, Verb::RibRegister, &route)?;
            }
            let ports: Vec<u32> = after.iter().map(|(_, port)| *port).collect();
            for (_, port) in before.iter().filter(|(_, port)| !ports.contains(port)) {
                match control::command(client, Verb::RibUnregister, &of(*port)) {
                    Err(ControlError::Refused { response, .. }) if response.code == 404 => {}
                    result => drop(result?),
                }
            }
            Ok(())
        })
    }
}

fn create_face(client: &mut Client, port: usize, mtu: Option<u64>) -> Result<u64, ControlError> {
    let face = ControlParameters { uri: Some(face_uri(port)), mtu, ..ControlParameters::default() };
    Ok(control::command(client, Verb::FacesCreate, &face)?.face_id.unwrap_or_default())
}

/// Returns the sizes of a node's tables as the configuration of a router.
fn config(node: &NodePlan, policy: &str) -> String {
    let sizes = &node.config;
    let mib = sizes.store_bytes.div_ceil(1 << 20).max(1);
    let (packets, mib) = if sizes.store_packets == 0 { (0, 0) } else { (sizes.store_packets, mib) };
    format!(
        "[tables]\npit_entries = {}\nfib_prefixes = {}\ndead_nonces = {}\nmeasurements = {}\n\
         [content_store]\npackets = {packets}\nmib = {mib}\npolicy = \"{policy}\"\n",
        sizes.pit_entries.max(PIT_ENTRIES_MIN),
        sizes.fib_prefixes.max(FIB_PREFIXES_MIN),
        sizes.dead_nonces.max(DEAD_NONCES_MIN),
        sizes.measurements.max(MEASUREMENTS_MIN),
    )
}

/// The running routers.
#[derive(Debug)]
pub struct Controller {
    commands: Option<Sender<Command>>,
    events: Receiver<Event>,
    uris: Vec<FaceUri>,
    thread: Option<JoinHandle<()>>,
}

impl Controller {
    /// Starts all routers and waits until they run.
    pub fn start(mut nodes: Vec<NodeStart>, stop: &AtomicBool) -> Result<Self, LabError> {
        start_all(&mut nodes, stop)?;
        let routers = nodes.iter().filter_map(|node| node.router.as_ref());
        let uris = routers.map(Router::uri).collect();
        let (commands, received) = mpsc::channel();
        let (sender, events) = mpsc::channel();
        let thread = std::thread::spawn(move || obey(nodes, &received, &sender));
        Ok(Controller { commands: Some(commands), events, uris, thread: Some(thread) })
    }

    /// Returns the sockets of the routers for applications, by node.
    pub fn uris(&self) -> &[FaceUri] {
        &self.uris
    }

    /// Passes a command to the thread.
    pub fn send(&self, command: Command) {
        // The thread ends only after this has been dropped.
        if let Some(commands) = &self.commands {
            let _ = commands.send(command);
        }
    }

    /// Returns the next event, if there is one.
    pub fn next_event(&self) -> Option<Event> {
        self.events.try_recv().ok()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts all routers, a few at a time.
fn start_all(nodes: &mut [NodeStart], stop: &AtomicBool) -> Result<(), LabError> {
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<&mut NodeStart>> = nodes.iter_mut().map(Mutex::new).collect();
    let start_some = || -> Result<(), LabError> {
        while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
            check_stop(stop)?;
            slot.lock().unwrap_or_else(PoisonError::into_inner).start()?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..STARTS_AT_A_TIME).map(|_| scope.spawn(start_some)).collect();
        let results = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        results.collect()
    })
}

/// Executes commands until the sender is gone, then ends all routers together.
fn obey(mut nodes: Vec<NodeStart>, commands: &Receiver<Command>, events: &Sender<Event>) {
    for command in commands {
        let result = match command {
            Command::Route { node, prefix, hops } => nodes[node].set_route(prefix, hops),
            Command::Stop(node) => {
                if let Some(mut router) = nodes[node].router.take() {
                    router.process.kill();
                }
                Ok(())
            }
            Command::Start(node) => {
                if let Some(mut router) = nodes[node].router.take() {
                    router.process.kill();
                }
                let started = nodes[node].start();
                if started.is_ok() {
                    let _ = events.send(Event::Ready(node));
                }
                started
            }
        };
        if let Err(error) = result {
            let _ = events.send(Event::Failed(error));
        }
    }
    for router in nodes.iter().filter_map(|node| node.router.as_ref()) {
        router.process.signal(Signal::TERM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_sim::{Overrides, Scenario};

    #[test]
    fn configuration_has_sizes_that_a_router_accepts() {
        let text = "[topology]\ngenerate = \"line:2\"\n[routers]\npit_entries = 16\nstore_packets = 0\n\
            [[node]]\nname = \"n1\"\nstore_packets = 10\nstore_kib = 1500\n\
            [[producer]]\nprefix = \"/p\"\nat = [\"n0\"]\n\
            [[consumer]]\nkind = \"ping\"\nat = [\"n1\"]\nprefix = \"/p\"\n";
        let plan = Scenario::parse("s.toml", text, None, &Overrides::default()).expect("valid");
        let text = |index: usize| config(&plan.nodes[index], "lru");
        let parsed = |index| nw_api::config::Config::parse("nw.toml", &text(index));
        let first = parsed(0).expect("a valid configuration");
        assert_eq!((first.tables.pit_entries, first.content_store.packets), (64, 0));
        let second = parsed(1).expect("a valid configuration");
        assert_eq!((second.content_store.packets, second.content_store.mib), (10, 2));
    }
}
