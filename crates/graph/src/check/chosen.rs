//! Interests that go to `faces`, the face that an element chose, though none on their way chooses one.
//!
//! Which elements choose is read from their contracts: a `Sets:` that says `egress` for Interests, or for all that leaves. `egress 0` leaves it to others.

use crate::{From, Graph, Problem, To};
use nw_element_api::Kind;
use nw_elements::catalogue::{self, Entry};
use std::collections::BTreeSet;

/// One problem for each connection that leads to `faces` without a choice.
///
/// What goes from one face straight on to faces is there for answers, which know where they go.
pub(super) fn check(graph: &Graph, problems: &mut Vec<Problem>) {
    if graph.faces.iter().any(|face| face.is_default) {
        return;
    }
    let mut from: Vec<From> = graph.sources().filter(|from| !matches!(from, From::Port(..))).collect();
    let mut seen: BTreeSet<From> = from.iter().copied().collect();
    while let Some(next) = from.pop() {
        match graph.to_by_kind(next, Kind::Interest) {
            Some(To::Faces) if matches!(next, From::Face(_)) => {}
            Some(To::Faces) => problems.push(describe(graph, next)),
            Some(To::Port(node, port)) => {
                let entry = graph.nodes[node].entry;
                let takes = entry.ins[usize::from(port)].kinds.contains(&Kind::Interest);
                if takes && !chooses(entry) {
                    let outs = entry.outs.iter().enumerate();
                    let outs = outs.filter(|(_, out)| out.kinds.contains(&Kind::Interest));
                    let outs = outs.map(|(out, _)| From::Port(node, out as u8));
                    from.extend(outs.filter(|out| seen.insert(*out)));
                }
            }
            Some(To::Face(_)) | None => {}
        }
    }
}

/// True for an element that chooses a face for Interests.
fn chooses(entry: &Entry) -> bool {
    let (_, contract) = entry.contract();
    let mut lines = contract.lines().skip_while(|line| !line.starts_with("Sets:"));
    let first = lines.next().unwrap_or_default().trim_start_matches("Sets:");
    let more = lines.take_while(|line| line.starts_with(' '));
    let sets = more.fold(first.to_owned(), |sets, line| sets + " " + line.trim());
    sets.split(';').any(|clause| {
        let (who, what) = clause.split_once(':').unwrap_or(("", clause));
        what.contains("egress") && !what.contains("egress 0") && (who.is_empty() || who.contains("interest"))
    })
}

fn describe(graph: &Graph, from: From) -> Problem {
    let name = graph.from_name(from);
    let choosing: Vec<&str> =
        catalogue::ENTRIES.iter().filter(|entry| chooses(entry)).map(|entry| entry.name).collect();
    let connection = graph.connections.iter().find(|connection| connection.from == from);
    Problem::new(
        connection.map(|connection| connection.place).unwrap_or_default(),
        format!("Interests go from `{name}` to faces, and nothing on their way chooses to which one"),
        format!(
            "put one of {} between, name the face: {name} -> NAME, or write `default` behind a face",
            choosing.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contracts are read as they are meant.
    #[test]
    fn these_choose() {
        let choosing = catalogue::ENTRIES.iter().filter(|entry| chooses(entry)).map(|entry| entry.name);
        let choosing: Vec<&str> = choosing.collect();
        assert_eq!(choosing, ["name_router", "router", "strategy_forwarder"], "read `Sets:` of what is new");
    }
}
