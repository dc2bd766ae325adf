//! Builds the graph of one element between a face where Interests arrive and a face where they
//! leave.

use nw_element_api::{FaceInfo, Kind, LinkType, Parameters, Scope};
use nw_elements::catalogue::find;
use nw_graph::model::NDN_KINDS;
use nw_graph::{Connection, Face, Graph, Node, Position, Source, Target};

/// The addresses on both sides of the element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// URIs to listen on, for consumers or the previous service.
    pub listen: Vec<String>,
    /// Names and URIs of the faces for Interests. The first one takes Interests without an egress
    /// face.
    pub to: Vec<(String, String)>,
}

/// Reasons why the graph can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SingleElementError {
    /// No element has this name.
    #[error("no element is called {0:?}: `nw graph help` lists all elements")]
    Unknown(String),
}

/// Returns a graph with one element, named as in the catalogue. Packets enter by the port that
/// accepts their kind and leave by the egress face the element sets; Interests without one leave by
/// the first face of `endpoints.to`.
///
/// # Errors
/// If no element has this name. Parameters are checked with the graph.
pub fn single_element_graph(
    element: &str,
    parameters: Parameters,
    endpoints: &Endpoints,
) -> Result<Graph, SingleElementError> {
    let entry = find(element).ok_or_else(|| SingleElementError::Unknown(element.to_owned()))?;
    let position = Position::default();
    let face = |name: String, uri: &str, is_listener: bool, is_default: bool| {
        let is_here = ["unix:", "shm:"].iter().any(|scheme| uri.starts_with(scheme));
        let scope = if is_here { Scope::Local } else { Scope::NonLocal };
        let info = FaceInfo { scope, link_type: LinkType::PointToPoint };
        Face {
            name,
            uri: Some(uri.to_owned()),
            is_listener,
            is_single_peer: false,
            is_default,
            info,
            position,
        }
    };
    let listening = endpoints.listen.iter().enumerate().map(|(number, uri)| {
        let name = if number == 0 { "near".to_owned() } else { format!("near{}", number + 1) };
        face(name, uri, true, false)
    });
    let leading = endpoints
        .to
        .iter()
        .enumerate()
        .map(|(number, (name, uri))| face(name.clone(), uri, false, number == 0));
    let faces: Vec<Face> = listening.chain(leading).collect();
    let name = element.to_owned();
    let node = Node { name, entry, parameters, parameter_positions: Vec::new(), position };
    let ins = (0..entry.ins.len()).map(|port| Connection {
        from: Source::Faces,
        to: Target::Port(0, port as u8),
        position,
    });
    // An output port with a parameter of the same name is off unless the parameter is "port".
    let is_off = |port: &u8| entry.gate_of(*port).is_some();
    let outs = (0..entry.outs.len() as u8).filter(|port| !is_off(port)).map(|port| Connection {
        from: Source::Port(0, port),
        to: Target::Faces,
        position,
    });
    // Kinds without an input port bypass the element.
    let is_taken = |kind: &Kind| entry.ins.iter().any(|port| port.kinds.contains(kind));
    let passes = !NDN_KINDS.iter().all(is_taken);
    let past = passes.then_some(Connection { from: Source::Faces, to: Target::Faces, position });
    Ok(Graph { faces, nodes: vec![node], connections: ins.chain(past).chain(outs).collect() })
}
