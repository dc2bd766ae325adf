//! Services of a network before instances: a graph for each, and the links between them as pairs of
//! faces that have no address yet.

use super::ExpandError;
use crate::routes::{Origin, RouteNetwork};
use crate::target::{DEFENCE_PREFIX, Decisions, InstanceId, Origin as InstanceOrigin, digest};
use nw_element_api::{Kind, Value};
use nw_graph_language::network::{
    Host, LinkKind, LinkRule, Network, STATELESS_SERVICES_MAX, is_stateless, overlong_label_path,
};
use nw_graph_language::partition::{partition, split};
use nw_graph_language::{Graph, Source, Target};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A service: all its instances have the same graph up to the addresses of their faces.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub name: String,
    pub graph: Graph,
    /// Name of the host; `None` for the only host of a document without hosts.
    pub host: Option<String>,
    pub quota_cores: Option<f64>,
    pub replicas: u32,
    pub origin: InstanceOrigin,
}

/// One end of a link: a site, and the name of the face in its graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SiteEnd {
    pub site: usize,
    pub face: String,
}

/// Hexadecimal digits of an image's digest in the names of instances.
const IMAGE_DIGITS: usize = 6;

/// A link between two sites. The second end listens.
#[derive(Clone, Debug)]
pub(super) struct SiteLink {
    pub ends: [SiteEnd; 2],
    pub kind: Option<LinkKind>,
    pub cost: u64,
    /// Whether the document joins two faces: Interests may take it in both directions.
    pub is_join: bool,
}

/// All services and links of a network.
#[derive(Clone, Debug, Default)]
pub(super) struct Sites {
    pub sites: Vec<Site>,
    pub links: Vec<SiteLink>,
    /// Part of the names of all instances; may be empty.
    pub revision: String,
    /// Further part of the names of instances on a host, from the image that the document names
    /// for it.
    pub images: BTreeMap<String, String>,
    /// Addresses of instances, if each has one of its own.
    pub addresses: Option<BTreeMap<InstanceId, IpAddr>>,
}

impl Sites {
    /// Partitions a graph into services.
    pub fn new(
        graph: &Graph,
        network: &Network,
        decisions: &Decisions,
    ) -> Result<Sites, ExpandError> {
        let groups = network.groups(graph);
        // The document has been checked; what countermeasures add has not.
        let parts = match decisions.countermeasures.is_empty() {
            true => split(graph, &groups),
            false => partition(graph, &groups),
        };
        let parts = parts.map_err(|problems| {
            ExpandError(problems.iter().map(|problem| problem.to_string()).collect())
        })?;
        let mut rules: BTreeMap<[&str; 2], &LinkRule> = BTreeMap::new();
        for rule in network.links.iter().filter(|rule| graph.face_index(&rule.from).is_none()) {
            let mut names = [network.service_of(&rule.from), network.service_of(&rule.to)];
            names.sort_unstable();
            rules.entry(names).or_insert(rule);
        }
        let mut links = Vec::new();
        for (low, part) in parts.iter().enumerate() {
            for link in part.links.iter().filter(|link| link.other > low) {
                let high = link.other;
                let Some(back) = parts[high].links.iter().find(|link| link.other == low) else {
                    continue;
                };
                let mut names = [part.name.as_str(), parts[high].name.as_str()];
                names.sort_unstable();
                let rule = rules.get(&names).copied();
                let end = |site: usize, face: usize| SiteEnd {
                    site,
                    face: parts[site].graph.faces[face].name.clone(),
                };
                links.push(SiteLink {
                    ends: [end(low, link.face), end(high, back.face)],
                    kind: rule.and_then(|rule| rule.kind),
                    cost: rule.map_or(1, |rule| rule.cost),
                    is_join: false,
                });
            }
        }
        let sites = parts.into_iter().map(|part| site(part.name, part.graph, network, decisions));
        let revision = decisions.revision.clone();
        let addresses = decisions.addresses.clone().map(BTreeMap::from_iter);
        let image = |host: &Host| {
            let digest = digest(&["image", host.image.as_ref()?]);
            Some((host.name.clone(), digest[..IMAGE_DIGITS].to_owned()))
        };
        let images = network.hosts.iter().filter_map(image).collect();
        let mut sites = Sites { sites: sites.collect(), links, revision, images, addresses };
        sites.join_faces(network);
        sites.return_replies();
        Ok(sites)
    }

    fn join_faces(&mut self, network: &Network) {
        for rule in &network.links {
            let end = |sites: &[Site], face: &String| {
                let site = sites.iter().position(|site| site.graph.face_index(face).is_some());
                site.map(|site| SiteEnd { site, face: face.clone() })
            };
            let ends = (end(&self.sites, &rule.from), end(&self.sites, &rule.to));
            let (Some(from), Some(to)) = ends else { continue };
            for (end, listens) in [(&from, false), (&to, true)] {
                let graph = &mut self.sites[end.site].graph;
                if let Some(at) = graph.face_index(&end.face) {
                    graph.faces[at].is_listener = listens;
                    graph.faces[at].is_single_peer = listens;
                }
            }
            let link =
                SiteLink { ends: [from, to], kind: rule.kind, cost: rule.cost, is_join: true };
            self.links.push(link);
        }
    }

    /// Lets replies leave by the face that their Interest came by, instead of a fixed one: the
    /// service at the other end may have several instances.
    fn return_replies(&mut self) {
        for at in 0..self.sites.len() {
            let faces: Vec<String> = self.faces_of(at).map(|end| end.face.clone()).collect();
            let graph = &mut self.sites[at].graph;
            let trackers = tracked_sources(graph);
            let is_stateless = !graph.nodes.iter().any(|node| node.entry.tracks_pending);
            for index in 0..graph.connections.len() {
                let connection = graph.connections[index];
                let Target::Face(face) = connection.to else { continue };
                let is_reply = !passes_interests(graph, connection.from, connection.to);
                let is_link = faces.contains(&graph.faces[face].name);
                if is_link && is_reply && (is_stateless || trackers.contains(&connection.from)) {
                    graph.connections[index].to = Target::Faces;
                }
            }
            let mut known: Vec<(Source, Target)> = Vec::new();
            graph.connections.retain(|connection| {
                let ends = (connection.from, connection.to);
                let is_new = !known.contains(&ends);
                known.push(ends);
                is_new
            });
        }
    }

    /// Returns the ends of links at a site.
    pub fn faces_of(&self, site: usize) -> impl Iterator<Item = &SiteEnd> {
        self.links.iter().flat_map(|link| &link.ends).filter(move |end| end.site == site)
    }

    /// Adds the routes that static routes and registrations call for to all name routers.
    pub fn add_routes(
        &mut self,
        network: &Network,
        decisions: &Decisions,
    ) -> Result<(), ExpandError> {
        let mut graph = RouteNetwork::new(self.sites.len());
        for link in self.links.iter().filter(|link| link.is_join) {
            let [from, to] = &link.ends;
            graph.link((from.site, &from.face), (to.site, &to.face), link.cost);
        }
        let mut origins: BTreeMap<&str, Vec<Origin>> = BTreeMap::new();
        for route in &network.routes {
            let site = self.site_of_element(&route.element);
            let site = site.ok_or_else(|| {
                ExpandError(vec![format!("no element is called {:?}", route.element)])
            })?;
            let origin = Origin { site, cost: route.cost };
            origins.entry(&route.prefix).or_default().push(origin);
        }
        for registration in &decisions.registrations {
            // A registration at an element that is gone has no effect.
            if let Some(site) = self.site_of_element(&registration.element) {
                let origin = Origin { site, cost: registration.cost };
                origins.entry(&registration.prefix).or_default().push(origin);
            }
        }
        for route in &decisions.routes {
            let site = self.site_of_element(&route.element);
            let has_face = |site: &usize| self.sites[*site].graph.face_index(&route.face).is_some();
            if let Some(site) = site.filter(has_face) {
                let hop = [(route.face.clone(), route.cost)];
                add_route(&mut self.sites[site].graph, &route.prefix, &hop);
                let origin = Origin { site, cost: route.cost };
                origins.entry(&route.prefix).or_default().push(origin);
            }
        }
        for (prefix, origins) in origins {
            for (site, hops) in graph.hops(&origins).into_iter().enumerate() {
                if !hops.is_empty() {
                    add_route(&mut self.sites[site].graph, prefix, &hops);
                }
            }
        }
        Ok(())
    }

    /// Refuses a network in which a token has no room for the labels of a path: forwarders before
    /// several instances add one.
    pub fn check_label_budget(&self) -> Result<(), ExpandError> {
        let is_stateless: Vec<bool> =
            self.sites.iter().map(|site| is_stateless(&site.graph)).collect();
        let mut edges: Vec<Vec<usize>> = vec![Vec::new(); self.sites.len()];
        for link in &self.links {
            let [from, to] = &link.ends;
            edges[from.site].push(to.site);
            if link.is_join {
                edges[to.site].push(from.site);
            }
        }
        let Some(path) = overlong_label_path(&is_stateless, &edges) else { return Ok(()) };
        let names: Vec<&str> = path.iter().map(|at| self.sites[*at].name.as_str()).collect();
        Err(ExpandError(vec![format!(
            "{} services in a row without a pending Interest table: {}; replies find their way across at most {STATELESS_SERVICES_MAX}: run fewer instances, or put two of them into one service",
            path.len(),
            names.join(" -> ")
        )]))
    }

    fn site_of_element(&self, element: &str) -> Option<usize> {
        self.sites.iter().position(|site| site.graph.node_index(element).is_some())
    }
}

fn site(name: String, graph: Graph, network: &Network, decisions: &Decisions) -> Site {
    let line = network.services.iter().find(|service| service.name == name);
    let scale = network.scales.iter().find(|scale| scale.service == name);
    let wanted = decisions.replicas.get(&name).copied();
    let replicas = scale.map_or(1, |scale| wanted.unwrap_or(scale.min).clamp(scale.min, scale.max));
    let is_defence = name.starts_with(DEFENCE_PREFIX);
    Site {
        host: network.host_of(&name).map(|host| host.name.clone()),
        quota_cores: line.and_then(|line| line.quota_cores),
        replicas,
        origin: if is_defence { InstanceOrigin::Defence } else { InstanceOrigin::Document },
        name,
        graph,
    }
}

/// Returns whether Interests pass a connection.
pub(super) fn passes_interests(graph: &Graph, from: Source, to: Target) -> bool {
    graph.kinds_from(from).contains(&Kind::Interest)
        && graph.target_for(from, Kind::Interest) == Some(to)
}

/// Returns the ports that emit the replies of elements with pending Interests, directly or through
/// other elements.
fn tracked_sources(graph: &Graph) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    let replies = |node: usize| {
        let outs = graph.nodes[node].entry.outs.iter().enumerate();
        let outs = outs.filter(|(_, port)| !port.kinds.contains(&Kind::Interest));
        outs.map(move |(port, _)| Source::Port(node, port as u8))
    };
    let mut queue: Vec<usize> =
        (0..graph.nodes.len()).filter(|node| graph.nodes[*node].entry.tracks_pending).collect();
    while let Some(node) = queue.pop() {
        for source in replies(node).collect::<Vec<_>>() {
            if sources.contains(&source) {
                continue;
            }
            sources.push(source);
            if let Some(Target::Port(next, _)) = graph.target(source) {
                queue.push(next);
            }
        }
    }
    sources
}

/// Adds a route with next hops and costs to every element with routes.
fn add_route(graph: &mut Graph, prefix: &str, hops: &[(String, u64)]) {
    let words: Vec<String> =
        hops.iter().map(|(face, cost)| format!("{face} cost={cost}")).collect();
    let route = format!("{prefix} {}", words.join(" "));
    let names_router = |name: &str| ["name_router", "router"].contains(&name);
    for node in graph.nodes.iter_mut().filter(|node| names_router(node.entry.name)) {
        let known = node.parameters.0.iter_mut().find(|(name, _)| name == "routes");
        let list = match known {
            Some((_, Value::List(list))) => list,
            _ => {
                node.parameters.0.push(("routes".to_owned(), Value::List(Vec::new())));
                match node.parameters.0.last_mut() {
                    Some((_, Value::List(list))) => list,
                    _ => continue,
                }
            }
        };
        let covers = |value: &Value| match value {
            Value::Text(text) => text.split_whitespace().next() == Some(prefix),
            _ => false,
        };
        // Next hops that the document names beside its routes stay.
        match list.iter_mut().find(|value| covers(value)) {
            Some(Value::Text(text)) => {
                for (word, (face, _)) in words.iter().zip(hops) {
                    if !text.split_whitespace().skip(1).any(|known| known == face) {
                        text.push(' ');
                        text.push_str(word);
                    }
                }
            }
            _ => list.push(Value::Text(route.clone())),
        }
    }
}
