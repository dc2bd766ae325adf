//! Parameters, checked by building every element once.

use crate::{Graph, Node, Position, Problem};
use nw_element_api::parameters::{BuildContext, ParameterError};
use nw_element_api::{
    DropCounters, ErasedContext, FaceId, Parameters, Pool, TaggedBatch, Timestamp,
};
use nw_name::HashKey;

/// Reports every parameter error of every element.
pub(super) fn check(graph: &Graph, problems: &mut Vec<Problem>) {
    // A route can't lead to a listening face: its peers are not known in advance.
    let face = |name: &str| {
        let at = graph
            .face_index(name)
            .filter(|at| !graph.faces[*at].is_listener || graph.faces[*at].is_single_peer)?;
        Some(FaceId::from_slot(FaceId::FIRST + at as u32, 0))
    };
    let key = HashKey::new([1, 2, 3, 4]);
    let mut pool = Pool::new(key, 1, 16);
    for (at, node) in graph.nodes.iter().enumerate() {
        let context = BuildContext { key, seed: at as u64, start_unix_ms: 0, faces: &face };
        for error in errors(node, &context, &mut pool) {
            problems.push(describe(graph, node, &error));
        }
    }
}

fn errors(node: &Node, context: &BuildContext<'_>, pool: &mut Pool) -> Vec<ParameterError> {
    let (mut errors, element) = match node.entry.make(context, &node.parameters) {
        Ok(element) => (Vec::new(), Some(element)),
        Err(errors) => {
            // Live parameters are read by an existing element: build one without the invalid
            // parameters.
            let is_wrong = |name: &str| errors.iter().any(|error| error.name == name);
            let valid =
                node.parameters.0.iter().filter(|(name, _)| !is_wrong(name)).cloned().collect();
            let element = node.entry.make(context, &Parameters(valid)).ok();
            (errors, element)
        }
    };
    if let Some(mut element) = element {
        let (mut out, mut drops) = (TaggedBatch::default(), DropCounters::default());
        let ctx = &mut ErasedContext { pool: &mut *pool, out: &mut out, drops: &mut drops };
        let applied = node
            .entry
            .apply(element.as_mut(), Timestamp::START, context, &node.parameters, ctx)
            .err();
        for error in applied.into_iter().flatten() {
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        while let Some((_, packet)) = out.pop() {
            pool.release(packet);
        }
    }
    errors
}

fn describe(graph: &Graph, node: &Node, error: &ParameterError) -> Problem {
    let at = node.parameters.0.iter().position(|(name, _)| *name == error.name);
    let position: Option<&Position> = at.and_then(|at| node.parameter_positions.get(at));
    let what = format!("`{}`, parameter `{}`: {}", node.name, error.name, error.text);
    let mut listens = graph.faces.iter().filter(|face| face.is_listener);
    let listening =
        listens.find(|face| error.text.contains(&format!("no face is called {:?}", face.name)));
    if let Some(face) = listening {
        let what =
            format!("`{}`, parameter `{}`: face `{}` listens", node.name, error.name, face.name);
        let remedy =
            "name a face with a known peer: the peers of a listening face are not known in advance";
        return Problem::new(position.copied().unwrap_or(node.position), what, remedy);
    }
    let known = node.entry.parameters.iter().map(|info| info.name);
    let near = match node.entry.parameters.iter().any(|info| info.is_called(&error.name)) {
        true => None,
        false => crate::suggest::suggest(&error.name, known),
    };
    let remedy = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("`nw graph help {}` lists the parameters", node.entry.name),
    };
    Problem::new(position.copied().unwrap_or(node.position), what, remedy)
}
