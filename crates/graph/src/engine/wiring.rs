//! Connections as the engine follows them: small numbers instead of names.

use crate::model::{ALL_KINDS, From, Graph, To};
use nw_element_api::{FaceId, Kind};
use std::collections::BTreeMap;

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target(u16);

/// A port that packets enter by: an element of the engine, and the port's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its place among the engine's elements.
    pub element: u16,
    /// Of the element.
    pub port: u8,
    /// Where the element's entries in [`Wiring::routes`] begin.
    pub routes: u16,
}

/// Ports of all elements that packets enter by, at most.
pub const SITES_MAX: usize = 0x8000;
/// Faces that a graph can name.
pub const FACES_MAX: usize = 0x7f00;

impl Target {
    /// Nowhere: no connection.
    pub const NOWHERE: Target = Target(u16::MAX);
    /// Out, by the face that the packet says.
    pub const EGRESS: Target = Target(u16::MAX - 1);

    /// What it is.
    #[inline]
    pub fn what(self) -> What {
        match self.0 {
            at if usize::from(at) < SITES_MAX => What::Site(usize::from(at)),
            at if usize::from(at) < SITES_MAX + FACES_MAX => What::Face(usize::from(at) - SITES_MAX),
            at if at == Target::EGRESS.0 => What::Egress,
            _ => What::Nowhere,
        }
    }
}

/// A target, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An entry of [`Wiring::sites`].
    Site(usize),
    /// Out, by a face of the graph.
    Face(usize),
    /// Out, by the face that the packet says.
    Egress,
    /// No connection.
    Nowhere,
}

/// All connections of one graph.
#[derive(Debug, Default)]
pub struct Wiring {
    /// Ports that packets enter by.
    pub sites: Vec<Site>,
    /// By port that packets leave by, element after element.
    pub routes: Vec<Target>,
    /// Packets that entered by each site, and that left by each entry of `routes`, while these are the connections.
    pub entered: Vec<u64>,
    /// See `entered`.
    pub left: Vec<u64>,
    /// By element of the engine: its first site and its first route.
    firsts: Vec<(usize, usize)>,
    /// By site: those that a packet passes which enters there and goes the usual way, itself first.
    pub usual: Vec<Vec<usize>>,
    /// By site: true when nothing but faces and other such sites lead to its element, so that it may go ahead of others with a whole batch.
    pub ahead: Vec<bool>,
    /// By site: true when nothing that becomes of a packet there comes back to its element, so that several packets may enter it one behind the
    /// other before the first one goes on.
    pub straight: Vec<bool>,
    /// By face of the graph.
    inputs: Vec<[Target; KINDS]>,
    /// The same, while the engine runs, by slot of the face.
    by_slot: Vec<[Target; KINDS]>,
    /// True when no element claims replies: then those find back by labels.
    pub labels: bool,
}

/// Of packets.
const KINDS: usize = ALL_KINDS.len();

/// Where packets go that come by a face, by kind: to the port that takes the kind; else on to faces, where a connection leads there.
fn inputs(graph: &Graph, face: usize) -> [Option<To>; KINDS] {
    let own = || graph.connections.iter().filter(move |connection| connection.from == From::Face(face));
    let from = if own().next().is_some() { From::Face(face) } else { From::Faces };
    let connections = || graph.connections.iter().filter(move |connection| connection.from == from);
    let takes = |to: To, kind: Kind| matches!(to, To::Port(..)) && graph.kinds_to(to).contains(&kind);
    core::array::from_fn(|number| {
        let to_port = connections().find(|connection| takes(connection.to, ALL_KINDS[number]));
        to_port
            .or_else(|| connections().find(|connection| !matches!(connection.to, To::Port(..))))
            .map(|connection| connection.to)
    })
}

/// Steps of the usual way that are looked ahead.
const USUAL_MAX: usize = 4;

impl Wiring {
    /// Of a graph whose nodes are at `places` among the engine's elements.
    pub fn new(graph: &Graph, places: &[usize]) -> Self {
        let mut wiring =
            Wiring { labels: !graph.nodes.iter().any(|node| node.entry.claims_replies), ..Wiring::default() };
        let mut first_site = Vec::new();
        let mut routes = 0;
        wiring.firsts = vec![(0, 0); places.iter().max().map_or(0, |place| place + 1)];
        for (node, place) in graph.nodes.iter().zip(places) {
            first_site.push(wiring.sites.len());
            wiring.firsts[*place] = (wiring.sites.len(), routes);
            let site = |port| Site { element: *place as u16, port: port as u8, routes: routes as u16 };
            wiring.sites.extend((0..node.entry.ins.len()).map(site));
            routes += node.entry.outs.len();
        }
        let fits = wiring.sites.len() <= SITES_MAX && routes <= SITES_MAX && graph.faces.len() <= FACES_MAX;
        assert!(fits, "the checker refuses larger graphs");
        let target = |to: To| match to {
            To::Face(face) => Target((SITES_MAX + face) as u16),
            To::Faces => Target::EGRESS,
            To::Port(node, port) => Target((first_site[node] + usize::from(port)) as u16),
        };
        let to: BTreeMap<From, Target> =
            graph.connections.iter().map(|connection| (connection.from, target(connection.to))).collect();
        let of = |from: From| to.get(&from).copied().unwrap_or(Target::NOWHERE);
        for (number, node) in graph.nodes.iter().enumerate() {
            wiring.routes.extend((0..node.entry.outs.len()).map(|port| of(From::Port(number, port as u8))));
        }
        wiring.entered = vec![0; wiring.sites.len()];
        wiring.left = vec![0; wiring.routes.len()];
        wiring.inputs = (0..graph.faces.len())
            .map(|face| inputs(graph, face).map(|to| to.map_or(Target::NOWHERE, target)))
            .collect();
        wiring.usual = wiring.usual_ways(graph, places);
        wiring.ahead = wiring.sites_ahead(graph, &first_site);
        wiring.straight = wiring.sites_straight(graph);
        wiring
    }

    fn usual_ways(&self, graph: &Graph, places: &[usize]) -> Vec<Vec<usize>> {
        let entry_of = |element: usize| {
            places.iter().position(|place| *place == element).map(|at| graph.nodes[at].entry)
        };
        let way = |first: usize| {
            let mut way = vec![first];
            while way.len() < USUAL_MAX
                && let Site { element, port, routes } = self.sites[way[way.len() - 1]]
                && let Some(out) = entry_of(usize::from(element)).and_then(|entry| (entry.usual)(port))
                && let What::Site(next) = self.routes[usize::from(routes) + usize::from(out)].what()
                && !way.contains(&next)
            {
                way.push(next);
            }
            way
        };
        (0..self.sites.len()).map(way).collect()
    }

    fn sites_straight(&self, graph: &Graph) -> Vec<bool> {
        let ports = graph
            .nodes
            .iter()
            .flat_map(|node| (0..node.entry.ins.len()).map(|port| (node.entry.leads)(port as u8)));
        let next: Vec<Vec<usize>> = ports
            .zip(&self.sites)
            .map(|(outs, site)| {
                let targets =
                    outs.into_iter().map(|out| self.routes[usize::from(site.routes) + usize::from(out)]);
                targets
                    .filter_map(|target| if let What::Site(next) = target.what() { Some(next) } else { None })
                    .collect()
            })
            .collect();
        let is_straight = |first: usize| {
            let (mut seen, mut open) = (vec![false; self.sites.len()], next[first].clone());
            while let Some(site) = open.pop() {
                if self.sites[site].element == self.sites[first].element {
                    return false;
                }
                if !core::mem::replace(&mut seen[site], true) {
                    open.extend(&next[site]);
                }
            }
            true
        };
        (0..self.sites.len()).map(is_straight).collect()
    }

    /// The largest set of elements to which nothing leads but faces and each other, without a ring.
    fn sites_ahead(&self, graph: &Graph, first_site: &[usize]) -> Vec<bool> {
        let mut ahead = vec![false; graph.nodes.len()];
        loop {
            let is_next = |node: usize| {
                !ahead[node]
                    && graph.connections.iter().all(|connection| match (connection.from, connection.to) {
                        (From::Port(from, _), To::Port(to, _)) if to == node => ahead[from],
                        _ => true,
                    })
            };
            let next: Vec<usize> = (0..graph.nodes.len()).filter(|node| is_next(*node)).collect();
            if next.is_empty() {
                break;
            }
            next.into_iter().for_each(|node| ahead[node] = true);
        }
        let mut sites = vec![false; self.sites.len()];
        for (node, first) in first_site.iter().enumerate() {
            sites[*first..*first + graph.nodes[node].entry.ins.len()].fill(ahead[node]);
        }
        sites
    }

    /// Where an element's entries in [`routes`](Self::routes) begin.
    pub fn routes_of(&self, element: usize) -> usize {
        self.firsts[element].1
    }

    /// Packets that entered an element by a port, and that left it by one.
    pub fn counts(&self, element: usize) -> (&[u64], &[u64]) {
        let (site, route) = self.firsts.get(element).copied().unwrap_or_default();
        (&self.entered[site..], &self.left[route..])
    }

    /// Where packets of a kind go that come by a face.
    #[inline]
    pub fn input(&self, face: FaceId, kind: Kind) -> Target {
        self.by_slot.get(face.slot()).map_or(Target::NOWHERE, |inputs| inputs[kind as usize])
    }

    /// Lets packets of a face of the router enter as those of a face of the graph do.
    pub fn open(&mut self, face: FaceId, of: usize) {
        if self.by_slot.len() <= face.slot() {
            self.by_slot.resize(face.slot() + 1, [Target::NOWHERE; KINDS]);
        }
        self.by_slot[face.slot()] = self.inputs.get(of).copied().unwrap_or([Target::NOWHERE; KINDS]);
    }
}
