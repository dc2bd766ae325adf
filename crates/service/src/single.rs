//! The graph of one element between the face that Interests come by and the one that they leave by.

use nw_element_api::{FaceInfo, Kind, LinkType, Parameters, Scope};
use nw_elements::catalogue::find;
use nw_graph::model::ALL_KINDS;
use nw_graph::{Connection, Face, From, Graph, Node, Place, To};

/// What the element stands between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// URIs that consumers, or the services before it, connect to.
    pub listen: Vec<String>,
    /// Names and URIs of where Interests go. The first one takes those for which the element does not choose.
    pub to: Vec<(String, String)>,
}

/// Why there is no such graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SingleError {
    /// Nobody knows the element.
    #[error("no element is called {0:?}: `nw graph help` lists all there are")]
    Unknown(String),
}

/// The graph of one element, which is called as in the catalogue. Packets enter by the port that takes their kind; what leaves goes to the face that the
/// element chose, Interests for which it chose none to the first of `ends.to`.
///
/// # Errors
/// See [`SingleError`]. Parameters are looked at when the graph is checked.
pub fn single(element: &str, parameters: Parameters, ends: &Ends) -> Result<Graph, SingleError> {
    let entry = find(element).ok_or_else(|| SingleError::Unknown(element.to_owned()))?;
    let place = Place::default();
    let face = |name: String, uri: &str, listens: bool, is_default: bool| {
        let is_here = ["unix:", "shm:"].iter().any(|scheme| uri.starts_with(scheme));
        let scope = if is_here { Scope::Local } else { Scope::NonLocal };
        let info = FaceInfo { scope, link_type: LinkType::PointToPoint };
        Face { name, uri: Some(uri.to_owned()), listens, is_single: false, is_default, info, place }
    };
    let listening = ends.listen.iter().enumerate().map(|(number, uri)| {
        let name = if number == 0 { "near".to_owned() } else { format!("near{}", number + 1) };
        face(name, uri, true, false)
    });
    let leading =
        ends.to.iter().enumerate().map(|(number, (name, uri))| face(name.clone(), uri, false, number == 0));
    let faces: Vec<Face> = listening.chain(leading).collect();
    let name = element.to_owned();
    let node = Node { name, entry, parameters, parameter_places: Vec::new(), place };
    let ins =
        (0..entry.ins.len()).map(|port| Connection { from: From::Faces, to: To::Port(0, port as u8), place });
    // A port with a parameter of its name is off unless that is "port".
    let is_off =
        |port: &u8| entry.parameters.iter().any(|info| info.name == entry.outs[usize::from(*port)].name);
    let outs = (0..entry.outs.len() as u8).filter(|port| !is_off(port)).map(|port| Connection {
        from: From::Port(0, port),
        to: To::Faces,
        place,
    });
    // What the element has no port for passes by it.
    let is_taken = |kind: &Kind| entry.ins.iter().any(|port| port.kinds.contains(kind));
    let passes = !ALL_KINDS.iter().all(is_taken);
    let past = passes.then_some(Connection { from: From::Faces, to: To::Faces, place });
    Ok(Graph { faces, nodes: vec![node], connections: ins.chain(past).chain(outs).collect() })
}
