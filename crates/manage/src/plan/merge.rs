//! Graphs on the way from one graph to another: the elements of one, the faces of both.
//!
//! What arrives by a face that only the other graph has is led to the elements that both graphs
//! have: past elements that are missing, by the ports that packets would leave them by.

use nw_element_api::Kind;
use nw_graph_language::model::ALL_KINDS;
use nw_graph_language::{Connection, Graph, Position, Source, Target};

/// Returns `base` with those faces of `other` that it lacks, and with the inputs of `other` for
/// packets that `base` leads from a face to no element. Nothing is sent to the added faces, except
/// replies to what arrives by them.
pub(super) fn with_faces_of(base: &Graph, other: &Graph) -> Graph {
    let mut merged = base.clone();
    for (at, face) in other.faces.iter().enumerate() {
        let from = source(other, at);
        let led = |kind: &Kind| (*kind, lead(base, other, from, *kind));
        let index = base.face_index(&face.name);
        let targets: Vec<(Kind, Target)> = match index {
            None => ALL_KINDS.iter().map(led).collect(),
            Some(index) => {
                let own = source(base, index);
                let target = |kind: &Kind| match base.target_for(own, *kind) {
                    Some(to @ Target::Port(..)) => (*kind, to),
                    Some(to) => match led(kind) {
                        (_, added @ Target::Port(..)) => (*kind, added),
                        _ => (*kind, to),
                    },
                    None => led(kind),
                };
                ALL_KINDS.iter().map(target).collect()
            }
        };
        let index = index.unwrap_or_else(|| {
            merged.faces.push(face.clone());
            let index = merged.faces.len() - 1;
            merged.faces[index].is_default = false;
            index
        });
        connect(base, &mut merged, index, &targets);
    }
    merged
}

/// Returns the source of a face's packets: the face, or all faces if it has no connection.
fn source(graph: &Graph, face: usize) -> Source {
    let own = Source::Face(face);
    match graph.connections.iter().any(|connection| connection.from == own) {
        true => own,
        false => Source::Faces,
    }
}

/// Adds the connections that lead packets of each kind from a face to a target.
fn connect(base: &Graph, merged: &mut Graph, face: usize, targets: &[(Kind, Target)]) {
    let from = source(merged, face);
    if targets.iter().all(|(kind, to)| merged.target_for(from, *kind) == Some(*to)) {
        return;
    }
    for (kind, to) in targets {
        let from = Source::Face(face);
        let overlaps = |known: &Connection| {
            let kinds = |to| if matches!(to, Target::Port(..)) { base.kinds_into(to) } else { &[] };
            known.from == from
                && (known.to == *to || kinds(known.to).iter().any(|kind| kinds(*to).contains(kind)))
        };
        if !merged.connections.iter().any(overlaps) && accepts(base, *to, *kind) {
            let position = Position::default();
            merged.connections.push(Connection { from, to: *to, position });
        }
    }
}

fn accepts(base: &Graph, to: Target, kind: Kind) -> bool {
    !matches!(to, Target::Port(..)) || base.kinds_into(to).contains(&kind)
}

/// Returns where packets of a kind that leave `from` in `other` enter `base`.
fn lead(base: &Graph, other: &Graph, from: Source, kind: Kind) -> Target {
    let mut from = from;
    // A path has no more steps than there are elements.
    for _ in 0..=other.nodes.len() {
        match other.target_for(from, kind) {
            Some(Target::Face(face)) => {
                let known = base.face_index(&other.faces[face].name);
                return known.map_or(Target::Faces, Target::Face);
            }
            Some(Target::Port(node, port)) => {
                let known = &other.nodes[node];
                if let Some(same) = base.node_index(&known.name)
                    && base.nodes[same].entry.name == known.entry.name
                {
                    return Target::Port(same, port);
                }
                let passes = |out: &u8| {
                    known.entry.outs[usize::from(*out)].kinds.contains(&kind)
                        && !known.entry.is_closed(*out, &known.parameters)
                };
                let main = (known.entry.main_output)(port).filter(passes);
                let outs = (0..known.entry.outs.len()).map(|out| out as u8);
                match main.or_else(|| outs.into_iter().find(passes)) {
                    Some(out) => from = Source::Port(node, out),
                    None => return Target::Faces,
                }
            }
            Some(Target::Faces) | None => return Target::Faces,
        }
    }
    Target::Faces
}
