//! Cycles of connections on which a packet could loop forever. A cycle through an element that
//! detects loops is allowed.

use super::flow::{Flow, kind_name};
use crate::{Graph, Problem, Source, Target};
use nw_elements::catalogue;

/// Reports one problem per cycle of elements none of which detects loops.
pub(super) fn check(graph: &Graph, flow: &Flow, problems: &mut Vec<Problem>) {
    let mut reported: Vec<Vec<usize>> = Vec::new();
    for kind in crate::model::ALL_KINDS {
        let may_loop = |node: usize| !graph.nodes[node].entry.detects_loops;
        let mut next = vec![Vec::new(); graph.nodes.len()];
        for connection in &graph.connections {
            if let (Source::Port(from, _), Target::Port(to, _)) = (connection.from, connection.to)
                && may_loop(from)
                && may_loop(to)
                && flow.passing(graph, connection).contains(*kind)
            {
                next[from].push(to);
            }
        }
        for start in 0..graph.nodes.len() {
            let Some(cycle) = shortest(&next, start) else { continue };
            let mut members = cycle.clone();
            members.sort_unstable();
            if reported.iter().any(|reported| reported.iter().any(|node| members.contains(node))) {
                continue;
            }
            problems.push(describe(graph, &cycle, kind_name(*kind)));
            reported.push(members);
        }
    }
}

/// Returns the shortest path from a node back to itself, without repeating the node at the end.
fn shortest(next: &[Vec<usize>], start: usize) -> Option<Vec<usize>> {
    let mut before = vec![None; next.len()];
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for to in &next[node] {
            if *to == start {
                let mut path = vec![node];
                while let Some(previous) =
                    before[path[path.len() - 1]].filter(|_| path[path.len() - 1] != start)
                {
                    path.push(previous);
                }
                path.reverse();
                return Some(path);
            }
            if before[*to].is_none() {
                before[*to] = Some(node);
                queue.push_back(*to);
            }
        }
    }
    None
}

fn describe(graph: &Graph, cycle: &[usize], kind: &str) -> Problem {
    let mut names: Vec<&str> = cycle.iter().map(|node| graph.nodes[*node].name.as_str()).collect();
    names.push(names[0]);
    let position = graph
        .connections
        .iter()
        .filter(|connection| match (connection.from, connection.to) {
            (Source::Port(from, _), Target::Port(to, _)) => {
                from == cycle[cycle.len() - 1] && to == cycle[0]
            }
            _ => false,
        })
        .map(|connection| connection.position)
        .next()
        .unwrap_or_default();
    let loop_guards: Vec<&str> = catalogue::ENTRIES
        .iter()
        .filter(|entry| entry.detects_loops)
        .map(|entry| entry.name)
        .collect();
    Problem::new(
        position,
        format!("{kind} packets can loop forever: {}", names.join(" -> ")),
        format!(
            "connect one of these elsewhere, or put an element that detects loops in between: {}",
            loop_guards.join(", ")
        ),
    )
}
