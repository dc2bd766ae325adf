//! Puts elements against attacks into the graph of a document. The elements are named
//! `defence-VERB-ELEMENT`; each belongs to the service of its element unless it is isolated.

use super::ExpandError;
use super::trust::Trust;
use crate::document::Document;
use crate::target::{Countermeasure, DEFENCE_PREFIX, Decisions};
use nw_element_api::Value;
use nw_element_api::{Kind, Parameters, PortInfo};
use nw_elements::catalogue::{self, Entry};
use nw_graph_language::network::{Network, Service};
use nw_graph_language::{Connection, Graph, Node, Position, Source, Target};

/// Most names that one filter rejects.
const NAMES_MAX: usize = 1024;

/// Returns the document's graph and network with all countermeasures.
pub(super) fn apply(
    document: &Document,
    decisions: &Decisions,
) -> Result<(Graph, Network), ExpandError> {
    let mut graph = document.file.graph.clone();
    let mut network = document.file.network.clone();
    let mut errors = Vec::new();
    for countermeasure in &decisions.countermeasures {
        let name = countermeasure.element_name();
        let done = match countermeasure {
            Countermeasure::Verify { element, sample, is_isolated } => {
                verify(&mut graph, &network, decisions, &name, element, *sample)
                    .map(|()| (element, *is_isolated))
            }
            Countermeasure::Filter { element, names } => {
                filter(&mut graph, &network, &name, element, names).map(|()| (element, false))
            }
            Countermeasure::Limit { element, rate } => {
                limit(&mut graph, &name, element, *rate).map(|()| (element, false))
            }
        };
        match done {
            Ok((element, is_isolated)) => {
                place(&graph, &mut network, name, element, is_isolated);
                let gate = gate_name(element);
                let is_placed = network.is_empty() || network.service_of(&gate) != gate;
                if graph.node_index(&gate).is_some() && !is_placed {
                    let owner =
                        if is_isolated { countermeasure.element_name() } else { element.clone() };
                    place(&graph, &mut network, gate, &owner, false);
                }
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok((graph, network)) } else { Err(ExpandError(errors)) }
}

/// Puts a new element into the service of another one, or into one of its own on the same host.
fn place(graph: &Graph, network: &mut Network, name: String, element: &str, is_isolated: bool) {
    if network.is_empty() && !is_isolated {
        return;
    }
    if network.is_empty() {
        let members = graph.nodes.iter().filter(|node| node.name != name);
        let members = members.map(|node| (node.name.clone(), Position::default())).collect();
        let all = nw_graph_language::network::ALL;
        network.services.push(service(all, None, members));
    }
    let owner = network.service_of(element).to_owned();
    let member = (name.clone(), Position::default());
    let host = network.host_of(&owner).map(|host| host.name.clone());
    if is_isolated {
        network.services.push(service(&name, host, vec![member]));
        return;
    }
    match network.services.iter_mut().find(|service| service.name == owner) {
        Some(service) => service.members.push(member),
        None => {
            let own = (element.to_owned(), Position::default());
            network.services.push(service(&owner, None, vec![own, member]));
        }
    }
}

fn service(name: &str, host: Option<String>, members: Vec<(String, Position)>) -> Service {
    Service {
        name: name.to_owned(),
        host,
        quota_cores: None,
        members,
        position: Position::default(),
    }
}

fn entry(name: &str) -> Result<&'static Entry, String> {
    catalogue::find(name).ok_or_else(|| format!("the catalogue has no {name}"))
}

fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

/// Adds an element and returns its index.
pub(super) fn add_node(
    graph: &mut Graph,
    name: String,
    element: &str,
    parameters: Vec<(&str, Value)>,
) -> Result<usize, String> {
    if graph.node_index(&name).is_some() {
        return Err(format!("there are two elements {name:?}: rename the one of the document"));
    }
    let parameters = parameters.into_iter().map(|(name, value)| (name.to_owned(), value));
    graph.nodes.push(Node {
        name,
        entry: entry(element)?,
        parameters: Parameters(parameters.collect()),
        parameter_positions: Vec::new(),
        position: Position::default(),
    });
    Ok(graph.nodes.len() - 1)
}

fn node(graph: &Graph, element: &str) -> Result<usize, String> {
    graph.node_index(element).ok_or_else(|| {
        format!("a countermeasure concerns {element:?}, which the graph does not have")
    })
}

/// Returns the index of the port that accepts or emits a kind, and no other kind if there are
/// several.
pub(super) fn port_of(ports: &[PortInfo], kind: Kind) -> Option<u8> {
    let takes = |port: &&PortInfo| port.kinds.contains(&kind);
    let narrow = ports.iter().filter(takes).min_by_key(|port| port.kinds.len())?;
    ports.iter().position(|port| port.name == narrow.name).map(|at| at as u8)
}

fn connect(graph: &mut Graph, from: Source, to: Target) {
    let known = graph.connections.iter().any(|known| known.from == from && known.to == to);
    if !known {
        graph.connections.push(Connection { from, to, position: Position::default() });
    }
}

/// Puts an element with one input before the port of another one that accepts Data.
fn insert_before_data(
    graph: &mut Graph,
    network: &Network,
    element: &str,
    inserted: usize,
    passed: &str,
) -> Result<(), String> {
    let at = node(graph, element)?;
    let port = port_of(graph.nodes[at].entry.ins, Kind::Data)
        .ok_or_else(|| format!("no Data enters {element:?}"))?;
    let target = Target::Port(at, port);
    let service = network.service_of(element);
    let is_outside = |connection: &Connection| match connection.from {
        Source::Port(node, _) => {
            let name = &graph.nodes[node].name;
            !name.starts_with(DEFENCE_PREFIX) && network.service_of(name) != service
        }
        Source::Face(_) | Source::Faces => true,
    };
    let mut entries = graph.connections.iter().filter(|connection| connection.to == target);
    let into = match entries.any(is_outside) {
        // A face carries all kinds of packets, and the inserted element would take them all.
        true => gate(graph, element, inserted)?,
        false => Target::Port(inserted, 0),
    };
    for connection in &mut graph.connections {
        if connection.to == target {
            connection.to = into;
        }
    }
    let out = catalogue::port(graph.nodes[inserted].entry.outs, passed)
        .ok_or_else(|| format!("no port {passed}"))?;
    connect(graph, Source::Port(inserted, out), target);
    Ok(())
}

/// Adds an element with a port for each kind, of which only Data are used, before an inserted
/// element. Returns its input.
fn gate(graph: &mut Graph, element: &str, inserted: usize) -> Result<Target, String> {
    let gate = add_node(graph, gate_name(element), "rate_limiter", Vec::new())?;
    let entry = graph.nodes[gate].entry;
    for kind in [Kind::Interest, Kind::Data, Kind::Nack] {
        let to = if kind == Kind::Data { Target::Port(inserted, 0) } else { Target::Faces };
        let out = port_of(entry.outs, kind).ok_or("a rate limiter emits all kinds of packets")?;
        connect(graph, Source::Port(gate, out), to);
    }
    let into = port_of(entry.ins, Kind::Data).ok_or("a rate limiter takes Data")?;
    Ok(Target::Port(gate, into))
}

/// Returns the name of the element that keeps other packets than Data from an inserted element.
fn gate_name(element: &str) -> String {
    format!("{DEFENCE_PREFIX}gate-{element}")
}

fn verify(
    graph: &mut Graph,
    network: &Network,
    decisions: &Decisions,
    name: &str,
    element: &str,
    sample: f64,
) -> Result<(), String> {
    let is_read = |file: &String| decisions.anchors.contains_key(file);
    if let Some(anchor) = network.anchors.iter().find(|anchor| !is_read(&anchor.file)) {
        return Err(format!("the anchor {:?} has not been read", anchor.file));
    }
    let mut parameters = Trust::new(network, decisions).parameters();
    parameters.push(("sample", Value::Float(sample)));
    let inserted = add_node(graph, name.to_owned(), "signature_verifier", parameters)?;
    insert_before_data(graph, network, element, inserted, "valid")
}

fn filter(
    graph: &mut Graph,
    network: &Network,
    name: &str,
    element: &str,
    names: &[String],
) -> Result<(), String> {
    let rules = names.iter().take(NAMES_MAX).map(|name| text(format!("deny {name}")));
    let rules = Value::List(rules.collect());
    let inserted = add_node(graph, name.to_owned(), "name_filter", vec![("rules", rules)])?;
    insert_before_data(graph, network, element, inserted, "passed")
}

/// Puts a limiter after the port of an element by which Interests leave, and before the faces by
/// which their replies leave.
fn limit(graph: &mut Graph, name: &str, element: &str, rate: u64) -> Result<(), String> {
    let at = node(graph, element)?;
    let out = port_of(graph.nodes[at].entry.outs, Kind::Interest)
        .ok_or_else(|| format!("no Interest leaves {element:?}"))?;
    let from = Source::Port(at, out);
    let behind = reached(graph, from);
    let rate = Value::Integer(i64::try_from(rate).unwrap_or(i64::MAX));
    let parameters = vec![("rate", rate), ("on_exceed", text("nack"))];
    let limiter = add_node(graph, name.to_owned(), "rate_limiter", parameters)?;
    let limiter_in = |graph: &Graph, kind| port_of(graph.nodes[limiter].entry.ins, kind);
    let limiter_out = |graph: &Graph, kind| port_of(graph.nodes[limiter].entry.outs, kind);
    let ports = |graph: &Graph, kind| Some((limiter_in(graph, kind)?, limiter_out(graph, kind)?));
    let missing = || "a rate limiter takes and emits all kinds of packets".to_owned();
    let interest = ports(graph, Kind::Interest).ok_or_else(missing)?;
    for index in 0..graph.connections.len() {
        let connection = graph.connections[index];
        let Source::Port(source, port) = connection.from else { continue };
        if connection.from == from {
            graph.connections[index].to = Target::Port(limiter, interest.0);
            connect(graph, Source::Port(limiter, interest.1), connection.to);
        } else if behind.contains(&source) && connection.to == Target::Faces {
            let kinds = graph.nodes[source].entry.outs[usize::from(port)].kinds;
            if let [kind @ (Kind::Data | Kind::Nack)] = kinds {
                let reply = ports(graph, *kind).ok_or_else(missing)?;
                graph.connections[index].to = Target::Port(limiter, reply.0);
            }
        }
    }
    for kind in [Kind::Data, Kind::Nack] {
        let reply = ports(graph, kind).ok_or_else(missing)?;
        connect(graph, Source::Port(limiter, reply.1), Target::Faces);
    }
    Ok(())
}

/// Returns the elements that Interests reach from a port.
fn reached(graph: &Graph, from: Source) -> Vec<usize> {
    let (mut nodes, mut sources) = (Vec::new(), vec![from]);
    while let Some(from) = sources.pop() {
        if let Some(Target::Port(node, _)) = graph.target_for(from, Kind::Interest)
            && !nodes.contains(&node)
        {
            nodes.push(node);
            let outs = graph.nodes[node].entry.outs.iter().enumerate();
            let outs = outs.filter(|(_, port)| port.kinds.contains(&Kind::Interest));
            sources.extend(outs.map(|(port, _)| Source::Port(node, port as u8)));
        }
    }
    nodes
}
