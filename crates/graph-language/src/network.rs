//! What a graph file says about the network it describes: hosts, services, scale bounds, links,
//! trust, defence and routes. All of it is optional: a file without it describes one service.
//!
//! The model promises nothing by itself: the checker reports every mistake.

use crate::{Graph, Position};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The network part of a graph file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Machines and engines that run services.
    pub hosts: Vec<Host>,
    /// Groups of elements that run as one process.
    pub services: Vec<Service>,
    /// Bounds and rules for the number of instances of a service.
    pub scales: Vec<Scale>,
    /// Transports between services, and joined faces.
    pub links: Vec<LinkRule>,
    /// How packets are handled while the network changes.
    pub order: Option<(InsertionOrder, Position)>,
    /// Trust anchors: files with certificates.
    pub anchors: Vec<Anchor>,
    /// Keys that may sign names; they also bound which prefixes a key may register.
    pub permissions: Vec<Permission>,
    /// Defences against attacks.
    pub defences: Vec<Defence>,
    /// Routes that never expire.
    pub routes: Vec<StaticRoute>,
}

/// A machine with an engine that runs services.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Name, unique among hosts.
    pub name: String,
    /// Engine that starts the services.
    pub engine: EngineKind,
    /// Whether the host is another machine, reached by the agent enrolled under the host's name.
    pub is_remote: bool,
    /// Address where other hosts reach its services. `None` if links never leave the host.
    pub address: Option<IpAddr>,
    /// Processor cores that services may use together. `None` for no limit.
    pub cores: Option<f64>,
    /// Memory that services may use together, MiB. `None` for no limit.
    pub memory_mib: Option<u64>,
    /// Container image. `None` for the engine's default.
    pub image: Option<String>,
    /// First and last port for links from other hosts.
    pub ports: (u16, u16),
    /// Position in the file.
    pub position: Position,
}

/// Ports for links between hosts, unless a host sets others.
pub const LINK_PORTS_DEFAULT: (u16, u16) = (16_400, 17_399);

/// How services are run on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// As processes.
    #[default]
    Process,
    /// As containers of the Docker engine.
    Docker,
}

impl EngineKind {
    /// All kinds, by their names in graph files.
    pub const NAMES: [(&'static str, EngineKind); 2] =
        [("process", EngineKind::Process), ("docker", EngineKind::Docker)];

    /// Returns the name in graph files.
    pub fn name(self) -> &'static str {
        name_of(&Self::NAMES, self)
    }
}

/// Elements and faces that run as one process.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Name, unique among services.
    pub name: String,
    /// Host it runs on. `None` for the first host of the file.
    pub host: Option<String>,
    /// Share of a processor core that an instance may use at most: 0.67 is 67 %.
    pub quota_cores: Option<f64>,
    /// Names of its elements and faces, with their positions.
    pub members: Vec<(String, Position)>,
    /// Position in the file.
    pub position: Position,
}

/// Bounds and rules for the number of instances of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// Service, or element that is a service of its own.
    pub service: String,
    /// Fewest instances, at least 1.
    pub min: u32,
    /// Most instances, at most [`INSTANCES_MAX`].
    pub max: u32,
    /// Wanted load of an instance: processor time as a share of its quota.
    pub target: f64,
    /// Load of the remaining instances below which one is removed.
    pub low: f64,
    /// Deviation from `target` that causes no change, as a share of `target`.
    pub tolerance: f64,
    /// Time for which the load must call for a change, milliseconds.
    pub hold_ms: u64,
    /// Time after a change in which none follows, milliseconds.
    pub cool_down_ms: u64,
    /// How Interests are spread over the instances.
    pub spread: Spread,
    /// Name components that count with [`Spread::Name`]; 0 for all.
    pub depth: u32,
    /// Position in the file.
    pub position: Position,
}

/// Most instances of one service.
pub const INSTANCES_MAX: u32 = 64;

/// Most services in a row without a pending Interest table: each adds 5 bytes to a token, which has
/// at most 32 and may have 6 before.
pub const STATELESS_SERVICES_MAX: usize = 5;

/// How Interests are spread over the instances of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// By a hash of the name: a name stays at one instance, so caches do not double and Interests
    /// are aggregated.
    #[default]
    Name,
    /// In turn.
    RoundRobin,
}

impl Spread {
    /// All kinds, by their names in graph files.
    pub const NAMES: [(&'static str, Spread); 2] =
        [("name", Spread::Name), ("round-robin", Spread::RoundRobin)];

    /// Returns the name in graph files.
    pub fn name(self) -> &'static str {
        name_of(&Self::NAMES, self)
    }
}

/// Transport between two services, or two faces joined by a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkRule {
    /// A service, an element, or a face without address.
    pub from: String,
    /// The same kind of item as `from`.
    pub to: String,
    /// Transport. `None`: shared memory between processes of a host, Unix sockets between its
    /// containers, TCP between hosts.
    pub kind: Option<LinkKind>,
    /// Cost of the link for routes, at least 1.
    pub cost: u64,
    /// Position in the file.
    pub position: Position,
}

/// Transport of a link between two services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// A Unix stream socket.
    Unix,
    /// Shared memory.
    Shm,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl LinkKind {
    /// All kinds, by their names in graph files.
    pub const NAMES: [(&'static str, LinkKind); 4] = [
        ("unix", LinkKind::Unix),
        ("shm", LinkKind::Shm),
        ("tcp", LinkKind::Tcp),
        ("udp", LinkKind::Udp),
    ];

    /// Returns the name in graph files.
    pub fn name(self) -> &'static str {
        name_of(&Self::NAMES, self)
    }

    /// Returns whether the link needs both ends on one host.
    pub const fn is_local(self) -> bool {
        matches!(self, LinkKind::Unix | LinkKind::Shm)
    }
}

/// How packets are handled while the network changes (the three orders of the µNDN paper).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InsertionOrder {
    /// The new path is in use before the old one is removed: nothing is lost.
    #[default]
    MakeBeforeBreak,
    /// Interests are held until the old path has nothing pending: nothing is lost, some wait.
    Buffer,
    /// The old path is removed first: what is pending on it is lost.
    Drop,
}

impl InsertionOrder {
    /// All orders, by their names in graph files.
    pub const NAMES: [(&'static str, InsertionOrder); 3] = [
        ("make-before-break", InsertionOrder::MakeBeforeBreak),
        ("buffer", InsertionOrder::Buffer),
        ("drop", InsertionOrder::Drop),
    ];

    /// Returns the name in graph files.
    pub fn name(self) -> &'static str {
        name_of(&Self::NAMES, self)
    }
}

/// A file with a trusted certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Path of the file, relative to the graph file.
    pub file: String,
    /// Position in the file.
    pub position: Position,
}

/// A rule of trust: which keys may sign which names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// Pattern of the names.
    pub names: String,
    /// Pattern of the names of the keys.
    pub keys: String,
    /// Position in the file.
    pub position: Position,
}

/// A defence against one kind of attack.
#[derive(Clone, Debug, PartialEq)]
pub struct Defence {
    /// Attack it answers.
    pub attack: Attack,
    /// Watched elements: content stores for poisoning, elements with faces for flooding. Empty for
    /// all that fit.
    pub watch: Vec<(String, Position)>,
    /// Length of a period, milliseconds.
    pub period_ms: u64,
    /// Poisoning: fall of the hit ratio, as a share of its average, that raises suspicion.
    /// Flooding: share of unsatisfied Interests that raises suspicion.
    pub threshold: f64,
    /// Fewest requests in a period that count.
    pub requests_min: u64,
    /// Periods without attack after which the countermeasure is removed.
    pub quiet_periods: u32,
    /// Share of packets that is verified.
    pub sample: f64,
    /// Flooding: Interests per second that a limited face may send.
    pub rate: u64,
    /// Whether countermeasures run in a process of their own.
    pub is_isolated: bool,
    /// Position in the file.
    pub position: Position,
}

/// Kinds of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// Data with invalid signatures fills content stores.
    Poisoning,
    /// Interests for names that do not exist fill pending Interest tables.
    Flooding,
}

impl Attack {
    /// All attacks, by their names in graph files.
    pub const NAMES: [(&'static str, Attack); 2] =
        [("poisoning", Attack::Poisoning), ("flooding", Attack::Flooding)];

    /// Returns the name in graph files.
    pub fn name(self) -> &'static str {
        name_of(&Self::NAMES, self)
    }
}

/// A route that never expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticRoute {
    /// Prefix, as a URI.
    pub prefix: String,
    /// Element that routes by name.
    pub element: String,
    /// Face of the element's service that leads to the prefix.
    pub face: String,
    /// Cost beyond that face.
    pub cost: u64,
    /// Position in the file.
    pub position: Position,
}

fn name_of<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, known)| *known == value).map_or("", |(name, _)| name)
}

impl Network {
    /// Returns whether the file says nothing about a network: its graph is one service.
    pub fn is_empty(&self) -> bool {
        *self == Network::default()
    }

    /// Returns the service that an element or a listed face belongs to: the one that lists it, else
    /// one named after it. In an empty network everything belongs to one service, `all`.
    pub fn service_of<'a>(&'a self, member: &'a str) -> &'a str {
        if self.is_empty() {
            return ALL;
        }
        let lists = |service: &&Service| service.members.iter().any(|(name, _)| name == member);
        self.services.iter().find(lists).map_or(member, |service| &service.name)
    }

    /// Returns the host of a service: the one that its line names, else the first. `None` if the
    /// file declares no host.
    pub fn host_of(&self, service: &str) -> Option<&Host> {
        let line = self.services.iter().find(|known| known.name == service);
        match line.and_then(|service| service.host.as_ref()) {
            Some(name) => self.hosts.iter().find(|host| host.name == *name),
            None => self.hosts.first(),
        }
    }

    /// Returns all services with their members, in the order of the graph's elements.
    pub fn groups(&self, graph: &Graph) -> Vec<(String, Vec<String>)> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for node in &graph.nodes {
            let service = self.service_of(&node.name);
            match groups.iter_mut().find(|(name, _)| name == service) {
                Some((_, members)) => members.push(node.name.clone()),
                None => groups.push((service.to_owned(), vec![node.name.clone()])),
            }
        }
        for service in &self.services {
            let faces = service.members.iter().filter(|(name, _)| graph.face_index(name).is_some());
            let faces: Vec<String> = faces.map(|(name, _)| name.clone()).collect();
            match groups.iter_mut().find(|(name, _)| *name == service.name) {
                Some((_, members)) => members.extend(faces),
                None => {}
            }
        }
        groups
    }
}

/// Name of the only service of a file without network statements.
pub const ALL: &str = "all";

/// Returns whether replies find their way through a graph by labels: no element has a pending
/// Interest table.
pub fn is_stateless(graph: &Graph) -> bool {
    !graph.nodes.iter().any(|node| node.entry.tracks_pending)
}

/// Most steps of the search for long paths; larger networks are searched in part.
const STEPS_MAX: usize = 200_000;

/// Returns a path across more than [`STATELESS_SERVICES_MAX`] services by labels, if there is one.
/// `edges` has, by service, the services that Interests go to.
pub fn overlong_label_path(is_stateless: &[bool], edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut steps = 0;
    for start in (0..is_stateless.len()).filter(|at| is_stateless[*at]) {
        let mut path = vec![start];
        if extend(is_stateless, edges, &mut path, &mut steps) {
            return Some(path);
        }
    }
    None
}

/// Extends a path by stateless services until it is too long. Returns whether it is.
fn extend(
    is_stateless: &[bool],
    edges: &[Vec<usize>],
    path: &mut Vec<usize>,
    steps: &mut usize,
) -> bool {
    if path.len() > STATELESS_SERVICES_MAX {
        return true;
    }
    for next in &edges[path[path.len() - 1]] {
        *steps += 1;
        if *steps > STEPS_MAX {
            return false;
        }
        if is_stateless[*next] && !path.contains(next) {
            path.push(*next);
            if extend(is_stateless, edges, path, steps) {
                return true;
            }
            path.pop();
        }
    }
    false
}
