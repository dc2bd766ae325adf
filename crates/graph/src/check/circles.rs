//! Ways on which packets could go round for ever.

use super::flow::{Flow, kind_name};
use crate::{From, Graph, Problem, To};
use nw_elements::catalogue;

/// One problem for each circle of elements, none of which ends what comes a second time.
pub(super) fn check(graph: &Graph, flow: &Flow, problems: &mut Vec<Problem>) {
    let mut told: Vec<Vec<usize>> = Vec::new();
    for kind in crate::model::ALL_KINDS {
        let open = |node: usize| !graph.nodes[node].entry.guards_loops;
        let mut next = vec![Vec::new(); graph.nodes.len()];
        for connection in &graph.connections {
            if let (From::Port(from, _), To::Port(to, _)) = (connection.from, connection.to)
                && open(from)
                && open(to)
                && flow.passing(graph, connection).has(*kind)
            {
                next[from].push(to);
            }
        }
        for start in 0..graph.nodes.len() {
            let Some(circle) = shortest(&next, start) else { continue };
            let mut members = circle.clone();
            members.sort_unstable();
            if told.iter().any(|told| told.iter().any(|node| members.contains(node))) {
                continue;
            }
            problems.push(describe(graph, &circle, kind_name(*kind)));
            told.push(members);
        }
    }
}

/// The shortest way from a node back to it, without it at the end.
fn shortest(next: &[Vec<usize>], start: usize) -> Option<Vec<usize>> {
    let mut before = vec![None; next.len()];
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for to in &next[node] {
            if *to == start {
                let mut way = vec![node];
                while let Some(previous) = before[way[way.len() - 1]].filter(|_| way[way.len() - 1] != start)
                {
                    way.push(previous);
                }
                way.reverse();
                return Some(way);
            }
            if before[*to].is_none() {
                before[*to] = Some(node);
                queue.push_back(*to);
            }
        }
    }
    None
}

fn describe(graph: &Graph, circle: &[usize], kind: &str) -> Problem {
    let mut names: Vec<&str> = circle.iter().map(|node| graph.nodes[*node].name.as_str()).collect();
    names.push(names[0]);
    let place = graph
        .connections
        .iter()
        .filter(|connection| match (connection.from, connection.to) {
            (From::Port(from, _), To::Port(to, _)) => from == circle[circle.len() - 1] && to == circle[0],
            _ => false,
        })
        .map(|connection| connection.place)
        .next()
        .unwrap_or_default();
    let guards: Vec<&str> =
        catalogue::ENTRIES.iter().filter(|entry| entry.guards_loops).map(|entry| entry.name).collect();
    Problem::new(
        place,
        format!("{kind} packets can go round for ever: {}", names.join(" -> ")),
        format!(
            "lead one of these elsewhere, or put an element in between that ends loops: {}",
            guards.join(", ")
        ),
    )
}
