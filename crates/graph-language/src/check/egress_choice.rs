//! Interests that leave by `faces` although no element on their path sets an egress face.

use crate::{Graph, Problem, Source, Target};
use nw_element_api::Kind;
use nw_elements::catalogue::{self, Entry};
use std::collections::BTreeSet;

/// Reports one problem per connection to `faces` on which no egress face is set.
///
/// Connections from a single face straight to `faces` are for replies: their egress face is known.
pub(super) fn check(graph: &Graph, problems: &mut Vec<Problem>) {
    if graph.faces.iter().any(|face| face.is_default) {
        return;
    }
    let mut from: Vec<Source> =
        graph.sources().filter(|from| !matches!(from, Source::Port(..))).collect();
    let mut seen: BTreeSet<Source> = from.iter().copied().collect();
    while let Some(next) = from.pop() {
        match graph.target_for(next, Kind::Interest) {
            Some(Target::Faces) if matches!(next, Source::Face(_)) => {}
            Some(Target::Faces) => problems.push(describe(graph, next)),
            Some(Target::Port(node, port)) => {
                let entry = graph.nodes[node].entry;
                let takes = entry.ins[usize::from(port)].kinds.contains(&Kind::Interest);
                if takes && !chooses(entry) {
                    let outs = entry.outs.iter().enumerate();
                    let outs = outs.filter(|(_, out)| out.kinds.contains(&Kind::Interest));
                    let outs = outs.map(|(out, _)| Source::Port(node, out as u8));
                    from.extend(outs.filter(|out| seen.insert(*out)));
                }
            }
            Some(Target::Face(_)) | None => {}
        }
    }
}

/// Returns whether an element sets the egress face of Interests.
fn chooses(entry: &Entry) -> bool {
    entry.chooses_egress
}

fn describe(graph: &Graph, from: Source) -> Problem {
    let name = graph.source_name(from);
    let elements: Vec<&str> =
        catalogue::ENTRIES.iter().filter(|entry| chooses(entry)).map(|entry| entry.name).collect();
    let connection = graph.connections.iter().find(|connection| connection.from == from);
    Problem::new(
        connection.map(|connection| connection.position).unwrap_or_default(),
        format!(
            "Interests go from `{name}` to faces, and no element on their path chooses the face"
        ),
        format!(
            "put one of {} in between, name the face: {name} -> NAME, or write `default` after a face",
            elements.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_true_for_elements_that_set_egress() {
        let elements =
            catalogue::ENTRIES.iter().filter(|entry| chooses(entry)).map(|entry| entry.name);
        let elements: Vec<&str> = elements.collect();
        assert_eq!(
            elements,
            ["name_router", "router", "strategy_forwarder"],
            "add a new element here if it sets the egress face"
        );
    }
}
