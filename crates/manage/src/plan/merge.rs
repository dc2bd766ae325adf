//! Graphs on the way from one graph to another: the elements of one, the faces of both.
//!
//! What arrives by a face that only the other graph has is led to the elements that both graphs
//! have: past elements that are missing, by the ports that packets would leave them by.

use nw_element_api::Kind;
use nw_graph_language::model::ALL_KINDS;
use nw_graph_language::{Connection, Graph, Position, Source, Target};

/// Returns `base` with those faces of `other` that it lacks. Nothing is sent to these faces, except
/// replies to what arrives by them.
pub(super) fn with_faces_of(base: &Graph, other: &Graph) -> Graph {
    let mut merged = base.clone();
    for (at, face) in other.faces.iter().enumerate() {
        if base.face_index(&face.name).is_some() {
            continue;
        }
        let index = merged.faces.len();
        merged.faces.push(face.clone());
        merged.faces[index].is_default = false;
        let own = Source::Face(at);
        let from = match other.connections.iter().any(|connection| connection.from == own) {
            true => own,
            false => Source::Faces,
        };
        let targets: Vec<(Kind, Target)> =
            ALL_KINDS.iter().map(|kind| (*kind, lead(base, other, from, *kind))).collect();
        let as_all_faces =
            |(kind, to): &(Kind, Target)| base.target_for(Source::Faces, *kind) == Some(*to);
        if targets.iter().all(as_all_faces) {
            continue;
        }
        for (kind, to) in targets {
            let from = Source::Face(index);
            let overlaps = |known: &Connection| {
                let kinds =
                    |to| if matches!(to, Target::Port(..)) { base.kinds_into(to) } else { &[] };
                known.from == from
                    && (known.to == to
                        || kinds(known.to).iter().any(|kind| kinds(to).contains(kind)))
            };
            if !merged.connections.iter().any(overlaps) && accepts(base, to, kind) {
                merged.connections.push(Connection { from, to, position: Position::default() });
            }
        }
    }
    merged
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
