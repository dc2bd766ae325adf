//! The services of a network as boxes: elements, host and number of instances; links between them.

use super::{Block, Link};
use crate::network::Network;
use crate::partition::{Part, split};
use crate::{GraphFile, Target};
use nw_element_api::Kind;
use std::collections::BTreeSet;

/// A drawing of services: boxes, their links, and the host of each box.
pub(super) struct Services {
    pub blocks: Vec<Block>,
    pub links: Vec<Link>,
    /// Name of the host, with its engine. `None` for what is outside.
    pub hosts: Vec<Option<String>>,
}

impl Services {
    /// Builds the drawing. `None` if the file says nothing about a network, or its graph can't be
    /// partitioned.
    pub fn new(file: &GraphFile) -> Option<Services> {
        if file.network.is_empty() {
            return None;
        }
        let groups = file.network.groups(&file.graph);
        let parts = split(&file.graph, &groups).ok()?;
        let mut services = Services { blocks: Vec::new(), links: Vec::new(), hosts: Vec::new() };
        for part in &parts {
            services.add(part.name.clone(), label(&file.network, part), false);
            let host = file.network.host_of(&part.name);
            let host = host.map(|host| format!("{}: {}", host.name, host.engine.name()));
            services.hosts.pop();
            services.hosts.push(host.or_else(|| Some("here: process".to_owned())));
        }
        for (from, to) in edges(&file.network, &parts) {
            services.link(from, to);
        }
        for (at, part) in parts.iter().enumerate() {
            let is_link = |face: usize| part.links.iter().any(|link| link.face == face);
            for (index, face) in part.graph.faces.iter().enumerate() {
                let Some(uri) = face.uri.as_ref().filter(|_| !is_link(index)) else { continue };
                let outside = services.add(face.name.clone(), uri.clone(), true);
                match face.is_listener {
                    true => services.link(outside, at),
                    false => services.link(at, outside),
                }
            }
        }
        Some(services)
    }

    fn add(&mut self, name: String, label: String, is_face: bool) -> usize {
        self.blocks.push(Block { name, label, ins: Vec::new(), outs: Vec::new(), is_face });
        self.hosts.push(None);
        self.blocks.len() - 1
    }

    /// Adds a link in the direction of Interests; each has a row of its own at both boxes.
    fn link(&mut self, from: usize, to: usize) {
        self.blocks[from].outs.push("");
        self.blocks[to].ins.push("");
        let from = (from, self.blocks[from].outs.len() - 1);
        let to = (to, self.blocks[to].ins.len() - 1);
        self.links.push(Link { from, to });
    }
}

/// Returns the second line of a service's box: `cs, br @ library 1..3`.
fn label(network: &Network, part: &Part) -> String {
    let names: Vec<&str> = part.graph.nodes.iter().map(|node| node.name.as_str()).collect();
    let mut label = names.join(", ");
    if let Some(host) = network.host_of(&part.name) {
        label.push_str(&format!(" @ {}", host.name));
    }
    let scale = network.scales.iter().find(|scale| scale.service == part.name);
    if let Some(scale) = scale {
        label.push_str(&format!(" {}..{}", scale.min, scale.max));
    }
    label
}

/// Returns the links between services in the direction of Interests; joined faces in the direction
/// of the file.
fn edges(network: &Network, parts: &[Part]) -> BTreeSet<(usize, usize)> {
    let mut edges = BTreeSet::new();
    for (at, part) in parts.iter().enumerate() {
        for link in &part.links {
            let leads = part.graph.connections.iter().any(|connection| {
                connection.to == Target::Face(link.face)
                    && part.graph.target_for(connection.from, Kind::Interest) == Some(connection.to)
                    && part.graph.kinds_from(connection.from).contains(&Kind::Interest)
            });
            if leads {
                edges.insert((at, link.other));
            }
        }
    }
    let part_of =
        |face: &String| parts.iter().position(|part| part.graph.face_index(face).is_some());
    for link in &network.links {
        if let (Some(from), Some(to)) = (part_of(&link.from), part_of(&link.to)) {
            edges.insert((from, to));
        }
    }
    edges
}
