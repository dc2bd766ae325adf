//! Forwarders that spread Interests over the instances of a service.
//!
//! If one instance alone sends Interests to the service, the forwarder becomes an element of that
//! instance: no further process, link or label. Otherwise it is a service of its own before the
//! instances: so all who ask for a name ask the same instance, and their Interests are aggregated.

use super::ExpandError;
use super::countermeasures::{add_node, port_of};
use super::sites::{Site, SiteEnd, SiteLink, Sites, passes_interests};
use crate::target::Origin;
use nw_element_api::{FaceInfo, Kind, LinkType, Scope, Value};
use nw_graph_language::network::{Network, Scale, Spread};
use nw_graph_language::{Connection, Face, Graph, Position, Source, Target};

/// Prefix of the names of forwarders.
pub(super) const PREFIX: &str = "balance-";

/// Longest time for which an unanswered Interest of a name keeps its instance, milliseconds.
const STICKY_MS: u64 = 4_000;

/// Adds forwarders of their own where several instances send Interests to a service with several
/// instances.
pub(super) fn add_forwarders(sites: &mut Sites, network: &Network) -> Result<(), ExpandError> {
    for at in 0..sites.sites.len() {
        if sites.sites[at].replicas < 2 {
            continue;
        }
        let scale = network.scales.iter().find(|scale| scale.service == sites.sites[at].name);
        let Some(scale) = scale else { continue };
        let ingress = ingress(sites, at);
        let senders: u32 =
            ingress.iter().map(|link| sites.sites[sender(sites, *link, at).site].replicas).sum();
        if let ([link], 1) = (ingress.as_slice(), senders)
            && !sites.links[*link].is_join
        {
            let end = sender(sites, *link, at).clone();
            let name = format!("{PREFIX}{}", sites.sites[at].name);
            let graph = &mut sites.sites[end.site].graph;
            if insert(graph, &end.face, name, scale)? {
                continue;
            }
        }
        for (number, group) in groups(sites, at, &ingress).into_iter().enumerate() {
            let suffix = if number == 0 { String::new() } else { format!("-{}", number + 1) };
            let name = format!("{PREFIX}{}{suffix}", sites.sites[at].name);
            add_site(sites, at, &group, name, scale)?;
        }
    }
    Ok(())
}

/// Returns links in groups: the links of a group lead to the same ports of the site, so that one
/// face can stand for all of them.
fn groups(sites: &Sites, site: usize, links: &[usize]) -> Vec<Vec<usize>> {
    let graph = &sites.sites[site].graph;
    let behaviour = |link: &usize| {
        let face = own_end(sites, *link, site).and_then(|end| graph.face_index(&end.face));
        let targets = |face: usize| {
            let own =
                graph.connections.iter().filter(move |known| known.from == Source::Face(face));
            let mut targets: Vec<Target> = own.map(|known| known.to).collect();
            targets.sort_unstable();
            targets
        };
        let is_sent_to =
            |face: usize| graph.connections.iter().any(|known| known.to == Target::Face(face));
        face.filter(|face| !sites.links[*link].is_join && !is_sent_to(*face)).map(targets)
    };
    let mut groups: Vec<(Option<Vec<Target>>, Vec<usize>)> = Vec::new();
    for link in links {
        let targets = behaviour(link);
        match groups.iter_mut().find(|(known, _)| targets.is_some() && *known == targets) {
            Some((_, group)) => group.push(*link),
            None => groups.push((targets, vec![*link])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn own_end(sites: &Sites, link: usize, site: usize) -> Option<SiteEnd> {
    sites.links[link].ends.iter().find(|end| end.site == site).cloned()
}

/// Returns the other end of a link of a site.
fn sender(sites: &Sites, link: usize, site: usize) -> &SiteEnd {
    let [from, to] = &sites.links[link].ends;
    if from.site == site { to } else { from }
}

/// Returns the links by which Interests enter a site.
fn ingress(sites: &Sites, site: usize) -> Vec<usize> {
    let enters = |link: &SiteLink| {
        let [from, to] = &link.ends;
        let other = match (from.site == site, to.site == site) {
            (true, _) => to,
            (_, true) => from,
            _ => return false,
        };
        link.is_join || sends_interests(&sites.sites[other.site].graph, &other.face)
    };
    (0..sites.links.len()).filter(|at| enters(&sites.links[*at])).collect()
}

/// Returns whether connections lead Interests to a face.
fn sends_interests(graph: &Graph, face: &str) -> bool {
    let Some(face) = graph.face_index(face) else { return false };
    let leads = |connection: &&Connection| {
        connection.to == Target::Face(face)
            && passes_interests(graph, connection.from, connection.to)
    };
    graph.connections.iter().any(|connection| leads(&connection))
}

/// Returns the parameters of a forwarder to a face, which may stand for several.
fn parameters(face: &str, scale: &Scale) -> Vec<(&'static str, Value)> {
    let strategy = match scale.spread {
        Spread::RoundRobin => "round-robin".to_owned(),
        Spread::Name => {
            let depth = match scale.depth {
                0 => String::new(),
                depth => format!("/depth~{depth}"),
            };
            // Until it is answered, a name stays where it is: a second consumer is aggregated.
            format!(
                "hash/v=1{depth}/retx-suppression-initial~{STICKY_MS}/retx-suppression-max~{STICKY_MS}"
            )
        }
    };
    let list = |text: String| Value::List(vec![Value::Text(text)]);
    vec![("routes", list(format!("/ {face}"))), ("strategies", list(format!("/ {strategy}")))]
}

fn failed(error: String) -> ExpandError {
    ExpandError(vec![error])
}

/// Puts a forwarder before a face of a graph. Returns false, and changes nothing, if connections of
/// the face carry several kinds at once: a forwarder takes them one by one.
fn insert(graph: &mut Graph, face: &str, name: String, scale: &Scale) -> Result<bool, ExpandError> {
    let Some(at) = graph.face_index(face) else { return Ok(false) };
    let own = Source::Face(at);
    let from = match graph.connections.iter().any(|connection| connection.from == own) {
        true => own,
        false => Source::Faces,
    };
    let replies = [Kind::Data, Kind::Nack].map(|kind| (kind, graph.target_for(from, kind)));
    let interests = graph.target_for(from, Kind::Interest);
    let is_mixed = |to: Target| matches!(to, Target::Port(..)) && graph.kinds_into(to).len() > 1;
    let mixed_sources = graph.connections.iter().any(|connection| {
        connection.to == Target::Face(at) && graph.kinds_from(connection.from).len() > 1
    });
    let all = replies.iter().filter_map(|(_, to)| *to).chain(interests);
    if mixed_sources || all.clone().any(is_mixed) {
        return Ok(false);
    }
    let forwarder = add_node(graph, name, "strategy_forwarder", parameters(face, scale));
    let forwarder = forwarder.map_err(failed)?;
    let entry = graph.nodes[forwarder].entry;
    let ports = |kind| Some((port_of(entry.ins, kind)?, port_of(entry.outs, kind)?));
    let missing = || failed("a forwarder takes and emits all kinds of packets".to_owned());
    let interest = ports(Kind::Interest).ok_or_else(missing)?;
    for connection in graph.connections.iter_mut().filter(|known| known.to == Target::Face(at)) {
        connection.to = Target::Port(forwarder, interest.0);
    }
    graph.connections.retain(|connection| connection.from != own);
    let mut connect = |from, to| {
        graph.connections.push(Connection { from, to, position: Position::default() });
    };
    connect(Source::Port(forwarder, interest.1), Target::Faces);
    connect(own, interests.unwrap_or(Target::Faces));
    for (kind, to) in replies {
        let (into, out) = ports(kind).ok_or_else(missing)?;
        connect(own, Target::Port(forwarder, into));
        connect(Source::Port(forwarder, out), to.unwrap_or(Target::Faces));
    }
    Ok(true)
}

/// Adds a forwarder as a service between the senders of some links and a site.
fn add_site(
    sites: &mut Sites,
    site: usize,
    links: &[usize],
    name: String,
    scale: &Scale,
) -> Result<(), ExpandError> {
    let mut graph = Graph::default();
    graph.faces.push(face("next".to_owned(), false));
    let forwarder = add_node(
        &mut graph,
        "forwarder".to_owned(),
        "strategy_forwarder",
        parameters("next", scale),
    );
    let forwarder = forwarder.map_err(failed)?;
    let entry = graph.nodes[forwarder].entry;
    let new = sites.sites.len();
    let position = Position::default();
    let next = Source::Face(0);
    let takes_back = links.iter().any(|link| {
        let own = sites.links[*link].ends.iter().find(|end| end.site == site);
        let graph = &sites.sites[site].graph;
        sites.links[*link].is_join || own.is_some_and(|end| sends_interests(graph, &end.face))
    });
    let mut connections = Vec::new();
    for kind in [Kind::Interest, Kind::Data, Kind::Nack] {
        let (Some(into), Some(out)) = (port_of(entry.ins, kind), port_of(entry.outs, kind)) else {
            return Err(failed("a forwarder takes and emits all kinds of packets".to_owned()));
        };
        connections.push((Source::Port(forwarder, out), Target::Faces));
        if kind != Kind::Interest {
            connections.push((next, Target::Port(forwarder, into)));
        }
    }
    let interest = port_of(entry.ins, Kind::Interest).unwrap_or_default();
    let own_ends: Vec<SiteEnd> =
        links.iter().filter_map(|link| own_end(sites, *link, site)).collect();
    let mut kind = None;
    for (number, link) in links.iter().enumerate() {
        let near = format!("near{}", number + 1);
        graph.faces.push(face(near.clone(), true));
        let source = Source::Face(number + 1);
        connections.push((source, Target::Port(forwarder, interest)));
        connections.push((source, Target::Faces));
        let end = sender(sites, *link, site).clone();
        kind = kind.or(sites.links[*link].kind);
        listen(sites, &end, false);
        sites.links[*link].ends = [end, SiteEnd { site: new, face: near }];
    }
    // Interests of the instances themselves go to the only sender, or are spread over its instances.
    let senders = own_sender_count(sites, new, links);
    match (takes_back, senders) {
        (true, 2..) => {
            let back = add_node(
                &mut graph,
                "back".to_owned(),
                "strategy_forwarder",
                parameters("near1", scale),
            );
            let back = back.map_err(failed)?;
            connections.retain(|connection| *connection != (Source::Face(1), Target::Faces));
            connections.push((next, Target::Port(back, interest)));
            connections.push((
                Source::Port(back, port_of(entry.outs, Kind::Interest).unwrap_or_default()),
                Target::Faces,
            ));
            for kind in [Kind::Data, Kind::Nack] {
                let into = port_of(entry.ins, kind).unwrap_or_default();
                let out = port_of(entry.outs, kind).unwrap_or_default();
                connections.push((Source::Face(1), Target::Port(back, into)));
                connections.push((Source::Port(back, out), Target::Faces));
            }
        }
        (true, _) => connections.push((next, Target::Face(1))),
        (false, _) => connections.push((next, Target::Faces)),
    }
    let connection = |(from, to)| Connection { from, to, position };
    graph.connections = connections.into_iter().map(connection).collect();
    let own = merge_ends(sites, site, &own_ends);
    listen(sites, &own, true);
    sites.links.push(SiteLink {
        ends: [SiteEnd { site: new, face: "next".to_owned() }, own],
        kind,
        cost: 1,
        is_join: false,
    });
    sites.sites.push(Site {
        name,
        graph,
        host: sites.sites[site].host.clone(),
        quota_cores: None,
        replicas: 1,
        origin: Origin::Scaling,
    });
    Ok(())
}

/// Returns how many instances are at the other ends of links of a new forwarder.
fn own_sender_count(sites: &Sites, forwarder: usize, links: &[usize]) -> u32 {
    links.iter().map(|link| sites.sites[sender(sites, *link, forwarder).site].replicas).sum()
}

/// Sets whether the end of a link listens.
fn listen(sites: &mut Sites, end: &SiteEnd, listens: bool) {
    let graph = &mut sites.sites[end.site].graph;
    if let Some(at) = graph.face_index(&end.face) {
        graph.faces[at].is_listener = listens;
        graph.faces[at].is_single_peer = listens;
    }
}

/// Removes all but the first of some faces from the graph of a site. Returns the first.
fn merge_ends(sites: &mut Sites, site: usize, ends: &[SiteEnd]) -> SiteEnd {
    let graph = &mut sites.sites[site].graph;
    for end in ends.iter().skip(1) {
        let Some(at) = graph.face_index(&end.face) else { continue };
        graph.faces.remove(at);
        graph.connections.retain(|connection| connection.from != Source::Face(at));
        let moved = |face: usize| if face > at { face - 1 } else { face };
        for connection in &mut graph.connections {
            if let Source::Face(face) = connection.from {
                connection.from = Source::Face(moved(face));
            }
            if let Target::Face(face) = connection.to {
                connection.to = Target::Face(moved(face));
            }
        }
    }
    ends.first().cloned().unwrap_or(SiteEnd { site, face: String::new() })
}

fn face(name: String, is_listener: bool) -> Face {
    Face {
        name,
        uri: None,
        is_listener,
        is_single_peer: is_listener,
        is_default: false,
        info: FaceInfo { scope: Scope::Local, link_type: LinkType::PointToPoint },
        position: Position::default(),
    }
}
