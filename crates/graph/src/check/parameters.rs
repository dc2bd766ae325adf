//! Parameters, by making every element once.

use crate::{Graph, Node, Place, Problem};
use nw_element_api::parameters::{Making, ParameterError};
use nw_element_api::{DropCounters, FaceId, Instant, Lent, Parameters, Pool, Runs};
use nw_name::HashKey;

/// All that elements say of their parameters.
pub(super) fn check(graph: &Graph, problems: &mut Vec<Problem>) {
    // A route can't lead to whoever connects.
    let face = |name: &str| {
        let at = graph.face(name).filter(|at| !graph.faces[*at].listens || graph.faces[*at].is_single)?;
        Some(FaceId::from_slot(FaceId::FIRST + at as u32, 0))
    };
    let key = HashKey::new([1, 2, 3, 4]);
    let mut pool = Pool::new(key, 1, 16);
    for (at, node) in graph.nodes.iter().enumerate() {
        let making = Making { key, seed: at as u64, start_unix_ms: 0, faces: &face };
        for error in errors(node, &making, &mut pool) {
            problems.push(describe(graph, node, &error));
        }
    }
}

fn errors(node: &Node, making: &Making<'_>, pool: &mut Pool) -> Vec<ParameterError> {
    let (mut errors, element) = match node.entry.make(making, &node.parameters) {
        Ok(element) => (Vec::new(), Some(element)),
        Err(errors) => {
            // What may be changed live is read by an element that is there: one is made with what is left.
            let is_wrong = |name: &str| errors.iter().any(|error| error.name == name);
            let others = node.parameters.0.iter().filter(|(name, _)| !is_wrong(name)).cloned().collect();
            let element = node.entry.make(making, &Parameters(others)).ok();
            (errors, element)
        }
    };
    if let Some(mut element) = element {
        let (mut out, mut drops) = (Runs::default(), DropCounters::default());
        let lent = &mut Lent { pool: &mut *pool, out: &mut out, drops: &mut drops };
        let applied =
            node.entry.apply(element.as_mut(), Instant::START, making, &node.parameters, lent).err();
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
    let place: Option<&Place> = at.and_then(|at| node.parameter_places.get(at));
    let what = format!("`{}`, parameter `{}`: {}", node.name, error.name, error.text);
    let mut listens = graph.faces.iter().filter(|face| face.listens);
    let meant = listens.find(|face| error.text.contains(&format!("no face is called {:?}", face.name)));
    if let Some(face) = meant {
        let what = format!("`{}`, parameter `{}`: face `{}` listens", node.name, error.name, face.name);
        let remedy = "name a face that leads to a peer: nothing can be sent to whoever may connect";
        return Problem::new(place.copied().unwrap_or(node.place), what, remedy);
    }
    let known = node.entry.parameters.iter().map(|info| info.name);
    let near = match node.entry.parameters.iter().any(|info| info.name == error.name) {
        true => None,
        false => crate::nearest::nearest(&error.name, known),
    };
    let remedy = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("`nw graph help {}` explains them", node.entry.name),
    };
    Problem::new(place.copied().unwrap_or(node.place), what, remedy)
}
