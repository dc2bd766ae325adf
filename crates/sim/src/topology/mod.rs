//! Topologies: generated, published, or from a file.

mod draw;
mod edges;
mod generate;
mod gml;
mod mini_ndn;

pub use draw::{dot, svg, toml};
pub use generate::{FORMS, PUBLISHED};

use crate::link::LinkConfig;
use nw_api::config::file::{TEXT_MAX, read_text};
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum number of nodes.
pub const NODES_MAX: usize = 100_000;
/// Maximum number of links.
pub const LINKS_MAX: usize = 1_000_000;

/// A node of a topology.
#[derive(Clone, Debug, PartialEq)]
pub struct TopologyNode {
    /// Name, without spaces.
    pub name: String,
    /// Position in drawings, from 0 to 1: right, down. `None`: placed on a circle.
    pub position: Option<(f64, f64)>,
}

/// A link between two nodes, with the properties that differ from the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    /// Node indices of its ends.
    pub ends: (u32, u32),
    /// Overrides the property of [`LinkConfig`].
    pub delay_ns: Option<u64>,
    /// Overrides the property of [`LinkConfig`].
    pub rate_bps: Option<u64>,
    /// Overrides the property of [`LinkConfig`].
    pub queue_packets: Option<u32>,
    /// Overrides the property of [`LinkConfig`].
    pub queue_bytes: Option<u64>,
    /// Overrides the property of [`LinkConfig`].
    pub loss_ppb: Option<u32>,
    /// Overrides the property of [`LinkConfig`].
    pub loss_burst: Option<u32>,
    /// Cost for routing.
    pub cost: Option<u32>,
}

impl Edge {
    /// Creates a link with default properties.
    pub fn between(a: usize, b: usize) -> Self {
        Edge { ends: (a as u32, b as u32), ..Edge::default() }
    }

    /// Returns the properties, with `defaults` where not given.
    pub fn config(&self, defaults: &LinkConfig) -> LinkConfig {
        LinkConfig {
            delay_ns: self.delay_ns.unwrap_or(defaults.delay_ns),
            rate_bps: self.rate_bps.unwrap_or(defaults.rate_bps),
            queue_packets: self.queue_packets.unwrap_or(defaults.queue_packets),
            queue_bytes: self.queue_bytes.unwrap_or(defaults.queue_bytes),
            loss_ppb: self.loss_ppb.unwrap_or(defaults.loss_ppb),
            loss_burst: self.loss_burst.unwrap_or(defaults.loss_burst),
        }
    }
}

/// Nodes and links. Names are unique, no link connects a node with itself, and two nodes have at
/// most one link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// Nodes.
    pub nodes: Vec<TopologyNode>,
    /// Links.
    pub links: Vec<Edge>,
    by_name: BTreeMap<String, u32>,
    by_ends: BTreeMap<(u32, u32), u32>,
}

/// Why a topology could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TopologyError(pub String);

impl Topology {
    /// Generates a topology from a description such as `grid:10x10`, `waxman:100` or `abilene`.
    /// Random ones depend on `seed`.
    ///
    /// # Errors
    /// If the description is invalid; the message lists the valid forms.
    pub fn generate(text: &str, seed: u64) -> Result<Self, TopologyError> {
        generate::generate(text, seed)
    }

    /// Loads a file: GML as published by the Topology Zoo if the name ends in `.gml`, a topology of
    /// Mini-NDN if it begins with a section, otherwise a list of links.
    ///
    /// # Errors
    /// Every mistake, with its line.
    pub fn load(path: &Path) -> Result<Self, TopologyError> {
        let text = read_text(path, TEXT_MAX).map_err(|error| TopologyError(error.to_string()))?;
        Topology::parse(&path.display().to_string(), &text)
    }

    /// Parses the text of a file; its name selects the format, as in [`load`](Self::load).
    ///
    /// # Errors
    /// Every mistake, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, TopologyError> {
        let extension = Path::new(file).extension();
        if extension.is_some_and(|ending| ending.eq_ignore_ascii_case("gml")) {
            gml::read(file, text)
        } else if mini_ndn::is_format(text) {
            mini_ndn::read(file, text)
        } else {
            edges::read(file, text)
        }
    }

    /// Returns the index of a node, which is created if the name is new.
    ///
    /// # Errors
    /// If the name is invalid, or there are too many nodes.
    pub fn node(&mut self, name: &str) -> Result<usize, TopologyError> {
        if let Some(known) = self.by_name.get(name) {
            return Ok(*known as usize);
        }
        if name.is_empty()
            || name.chars().any(|c| c.is_whitespace() || c.is_control() || c == '"' || c == '@')
        {
            return Err(TopologyError(format!(
                "{name:?} is not a valid node name: write it without spaces, quotes and @"
            )));
        }
        if self.nodes.len() == NODES_MAX {
            return Err(TopologyError(format!("more than {NODES_MAX} nodes: reduce the topology")));
        }
        self.by_name.insert(name.to_owned(), self.nodes.len() as u32);
        self.nodes.push(TopologyNode { name: name.to_owned(), position: None });
        Ok(self.nodes.len() - 1)
    }

    /// Adds a link, or changes the existing one. Returns its index.
    ///
    /// # Errors
    /// If the link connects a node with itself, or there are too many links.
    pub fn link(&mut self, edge: Edge) -> Result<usize, TopologyError> {
        let (a, b) = edge.ends;
        if a == b {
            let name = &self.nodes[a as usize].name;
            return Err(TopologyError(format!("a link from {name} to itself: remove it")));
        }
        if let Some(known) = self.link_between(a as usize, b as usize) {
            let old = &mut self.links[known];
            old.delay_ns = edge.delay_ns.or(old.delay_ns);
            old.rate_bps = edge.rate_bps.or(old.rate_bps);
            old.queue_packets = edge.queue_packets.or(old.queue_packets);
            old.queue_bytes = edge.queue_bytes.or(old.queue_bytes);
            old.loss_ppb = edge.loss_ppb.or(old.loss_ppb);
            old.loss_burst = edge.loss_burst.or(old.loss_burst);
            old.cost = edge.cost.or(old.cost);
            return Ok(known);
        }
        if self.links.len() == LINKS_MAX {
            return Err(TopologyError(format!("more than {LINKS_MAX} links: reduce the topology")));
        }
        self.by_ends.insert((a.min(b), a.max(b)), self.links.len() as u32);
        self.links.push(edge);
        Ok(self.links.len() - 1)
    }

    /// Returns the index of a node.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).map(|number| *number as usize)
    }

    /// Returns the index of the link between two nodes.
    pub fn link_between(&self, a: usize, b: usize) -> Option<usize> {
        self.by_ends.get(&(a.min(b) as u32, a.max(b) as u32)).map(|number| *number as usize)
    }

    /// Returns the name of a link: its ends' names with a hyphen in between.
    pub fn link_name(&self, link: usize) -> String {
        let (a, b) = self.links[link].ends;
        format!("{}-{}", self.nodes[a as usize].name, self.nodes[b as usize].name)
    }

    /// Returns the index of a link by name, from either end. Node names may contain hyphens.
    pub fn find_link(&self, name: &str) -> Option<usize> {
        name.match_indices('-').find_map(|(at, _)| {
            let (a, b) = (self.find(&name[..at])?, self.find(&name[at + 1..])?);
            self.link_between(a, b)
        })
    }

    /// Returns the number of links of each node.
    pub fn degrees(&self) -> Vec<u32> {
        let mut degrees = vec![0; self.nodes.len()];
        for (a, b) in self.links.iter().map(|link| link.ends) {
            degrees[a as usize] += 1;
            degrees[b as usize] += 1;
        }
        degrees
    }

    /// Returns whether every node can be reached from the first.
    pub fn is_connected(&self) -> bool {
        self.components().iter().all(|component| *component == 0)
    }

    /// Returns, by node, the lowest index in its connected component.
    fn components(&self) -> Vec<u32> {
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

/// Propagation delay of light in fibre, nanoseconds per kilometre.
const NS_PER_KM: f64 = 5_000.0;

/// Returns the delay of a cable along the great circle between two places (latitude and longitude
/// in degrees), rounded to 10 µs, at least 5 µs.
fn delay_ns(from: (f64, f64), to: (f64, f64)) -> u64 {
    let (lat_a, lat_b) = (from.0.to_radians(), to.0.to_radians());
    let (half_lat, half_lon) = ((lat_b - lat_a) / 2.0, (to.1 - from.1).to_radians() / 2.0);
    let h = half_lat.sin().powi(2) + lat_a.cos() * lat_b.cos() * half_lon.sin().powi(2);
    let km = 2.0 * 6371.0 * h.sqrt().min(1.0).asin();
    (((km * NS_PER_KM) / 1e4).round() as u64 * 10_000).max(5_000)
}

#[cfg(test)]
mod tests;
