//! Who is linked to whom: generated, published, or from a file.

mod draw;
mod edges;
mod generate;
mod gml;

pub use draw::{dot, svg, toml};
pub use generate::{FORMS, PUBLISHED};

use crate::link::LinkConfig;
use std::collections::BTreeMap;
use std::path::Path;

/// Most nodes of one simulation.
pub const NODES_MAX: usize = 100_000;
/// Most links of one simulation.
pub const LINKS_MAX: usize = 1_000_000;

/// A router.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Its name, without spaces.
    pub name: String,
    /// Where to draw it: from 0 to 1, rightwards and downwards.
    pub at: Option<(f64, f64)>,
}

/// A link between two nodes, with what differs from the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    /// Its ends, by number.
    pub ends: (u32, u32),
    /// See [`LinkConfig`].
    pub delay_ns: Option<u64>,
    /// See [`LinkConfig`].
    pub rate_bps: Option<u64>,
    /// See [`LinkConfig`].
    pub queue_packets: Option<u32>,
    /// See [`LinkConfig`].
    pub queue_octets: Option<u64>,
    /// See [`LinkConfig`].
    pub loss_ppb: Option<u32>,
    /// See [`LinkConfig`].
    pub loss_burst: Option<u32>,
    /// For routing by cost.
    pub cost: Option<u32>,
}

impl Edge {
    /// With nothing else said.
    pub fn between(a: usize, b: usize) -> Self {
        Edge { ends: (a as u32, b as u32), ..Edge::default() }
    }

    /// What it is like.
    pub fn config(&self, usual: &LinkConfig) -> LinkConfig {
        LinkConfig {
            delay_ns: self.delay_ns.unwrap_or(usual.delay_ns),
            rate_bps: self.rate_bps.unwrap_or(usual.rate_bps),
            queue_packets: self.queue_packets.unwrap_or(usual.queue_packets),
            queue_octets: self.queue_octets.unwrap_or(usual.queue_octets),
            loss_ppb: self.loss_ppb.unwrap_or(usual.loss_ppb),
            loss_burst: self.loss_burst.unwrap_or(usual.loss_burst),
        }
    }
}

/// Nodes and links. Names are distinct, no link leads back to its node, and two nodes have one link at most.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// Nodes, by number.
    pub nodes: Vec<Place>,
    /// Links, by number.
    pub links: Vec<Edge>,
    by_name: BTreeMap<String, u32>,
    by_ends: BTreeMap<(u32, u32), u32>,
}

/// Why there is no topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TopologyError(pub String);

impl Topology {
    /// By its description, such as `grid:10x10`, `waxman:100` or `abilene`. `seed` makes those that are random.
    ///
    /// # Errors
    /// What is wrong with it, and what there is.
    pub fn generate(text: &str, seed: u64) -> Result<Self, TopologyError> {
        generate::generate(text, seed)
    }

    /// From a file: GML as the Topology Zoo publishes it where the name ends in `.gml`, otherwise a list of links.
    ///
    /// # Errors
    /// Every mistake, with its line.
    pub fn load(path: &Path) -> Result<Self, TopologyError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| TopologyError(format!("can't read {}: {error}", path.display())))?;
        Topology::parse(&path.display().to_string(), &text)
    }

    /// Reads the text of a file of this name, which [`load`](Self::load) would open.
    ///
    /// # Errors
    /// Every mistake, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, TopologyError> {
        let extension = Path::new(file).extension();
        if extension.is_some_and(|ending| ending.eq_ignore_ascii_case("gml")) {
            gml::read(file, text)
        } else {
            edges::read(file, text)
        }
    }

    /// The number of a node; a new one where the name is new.
    ///
    /// # Errors
    /// A name that can't be one, or too many.
    pub fn node(&mut self, name: &str) -> Result<usize, TopologyError> {
        if let Some(known) = self.by_name.get(name) {
            return Ok(*known as usize);
        }
        if name.is_empty()
            || name.chars().any(|c| c.is_whitespace() || c.is_control() || c == '"' || c == '@')
        {
            return Err(TopologyError(format!(
                "{name:?} is no name of a node: write it without spaces, quotes and @"
            )));
        }
        if self.nodes.len() == NODES_MAX {
            return Err(TopologyError(format!("more than {NODES_MAX} nodes: run fewer")));
        }
        self.by_name.insert(name.to_owned(), self.nodes.len() as u32);
        self.nodes.push(Place { name: name.to_owned(), at: None });
        Ok(self.nodes.len() - 1)
    }

    /// Adds a link, or changes what is said of the one there is.
    ///
    /// # Errors
    /// A link from a node to itself, or too many.
    pub fn link(&mut self, edge: Edge) -> Result<usize, TopologyError> {
        let (a, b) = edge.ends;
        if a == b {
            let name = &self.nodes[a as usize].name;
            return Err(TopologyError(format!("a link from {name} to itself: leave it out")));
        }
        if let Some(known) = self.link_between(a as usize, b as usize) {
            let old = &mut self.links[known];
            old.delay_ns = edge.delay_ns.or(old.delay_ns);
            old.rate_bps = edge.rate_bps.or(old.rate_bps);
            old.queue_packets = edge.queue_packets.or(old.queue_packets);
            old.queue_octets = edge.queue_octets.or(old.queue_octets);
            old.loss_ppb = edge.loss_ppb.or(old.loss_ppb);
            old.loss_burst = edge.loss_burst.or(old.loss_burst);
            old.cost = edge.cost.or(old.cost);
            return Ok(known);
        }
        if self.links.len() == LINKS_MAX {
            return Err(TopologyError(format!("more than {LINKS_MAX} links: run fewer")));
        }
        self.by_ends.insert((a.min(b), a.max(b)), self.links.len() as u32);
        self.links.push(edge);
        Ok(self.links.len() - 1)
    }

    /// A node by its name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).map(|number| *number as usize)
    }

    /// The link between two nodes.
    pub fn link_between(&self, a: usize, b: usize) -> Option<usize> {
        self.by_ends.get(&(a.min(b) as u32, a.max(b) as u32)).map(|number| *number as usize)
    }

    /// What a link is called: its ends' names with a hyphen between.
    pub fn link_name(&self, link: usize) -> String {
        let (a, b) = self.links[link].ends;
        format!("{}-{}", self.nodes[a as usize].name, self.nodes[b as usize].name)
    }

    /// A link by its name, from either end; names of nodes may have hyphens.
    pub fn find_link(&self, name: &str) -> Option<usize> {
        name.match_indices('-').find_map(|(at, _)| {
            let (a, b) = (self.find(&name[..at])?, self.find(&name[at + 1..])?);
            self.link_between(a, b)
        })
    }

    /// How many links each node has.
    pub fn degrees(&self) -> Vec<u32> {
        let mut degrees = vec![0; self.nodes.len()];
        for (a, b) in self.links.iter().map(|link| link.ends) {
            degrees[a as usize] += 1;
            degrees[b as usize] += 1;
        }
        degrees
    }

    /// True when every node is reached from the first.
    pub fn is_connected(&self) -> bool {
        self.islands().iter().all(|island| *island == 0)
    }

    /// By node: the lowest number among those it is connected with.
    fn islands(&self) -> Vec<u32> {
        let mut parents: Vec<u32> = (0..self.nodes.len() as u32).collect();
        fn root(parents: &mut [u32], mut node: u32) -> u32 {
            while parents[node as usize] != node {
                parents[node as usize] = parents[parents[node as usize] as usize];
                node = parents[node as usize];
            }
            node
        }
        for (a, b) in self.links.iter().map(|link| link.ends) {
            let (a, b) = (root(&mut parents, a), root(&mut parents, b));
            parents[a.max(b) as usize] = a.min(b);
        }
        (0..self.nodes.len() as u32).map(|node| root(&mut parents, node)).collect()
    }
}

/// Light in glass, nanoseconds a kilometre.
const NS_PER_KM: f64 = 5_000.0;

/// The delay of a cable along the shortest way between two places on Earth (degrees), to ten microseconds; half of that at least.
fn delay_ns(from: (f64, f64), to: (f64, f64)) -> u64 {
    let (lat_a, lat_b) = (from.0.to_radians(), to.0.to_radians());
    let (half_lat, half_lon) = ((lat_b - lat_a) / 2.0, (to.1 - from.1).to_radians() / 2.0);
    let h = half_lat.sin().powi(2) + lat_a.cos() * lat_b.cos() * half_lon.sin().powi(2);
    let km = 2.0 * 6371.0 * h.sqrt().min(1.0).asin();
    (((km * NS_PER_KM) / 1e4).round() as u64 * 10_000).max(5_000)
}

#[cfg(test)]
mod tests;
