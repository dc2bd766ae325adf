//! Return labels of services in a row, and how many fit.
//!
//! A graph without an element that tracks pending Interests finds the way back of replies by a
//! label, which it puts in front of the PIT token of each Interest that leaves. Each such graph in
//! a row makes the token longer; a graph with a tracking element begins a token of its own. An
//! Interest whose token would be too long is dropped (`return_label`).
//!
//! ```text
//! consumer ── no token ──▶ nr ── 6 bytes ──▶ cs ── 11 ──▶ br ── 6 ──▶ nr ── 11 ──▶ producer
//! ```

use crate::{Graph, Source, Target};
use nw_element_api::Kind;
use std::collections::BTreeMap;

/// Length of a label in front of a token, bytes.
pub const LABEL_BYTES: usize = 5;
/// Length of a label without a token, and of the token of a tracking element, bytes.
pub const FIRST_TOKEN_BYTES: usize = 6;
/// Longest token, bytes (NDNLPv2).
pub const TOKEN_BYTES_MAX: usize = 32;

/// Returns whether a graph adds a label to Interests: no element tracks pending Interests.
pub fn adds_label(graph: &Graph) -> bool {
    !graph.nodes.iter().any(|node| node.entry.tracks_pending)
}

/// Returns the length of an Interest's token, in bytes, after a graph that adds a label or begins a
/// token of its own. `None` if the label does not fit.
pub fn token_bytes_after(token_bytes: usize, adds_label: bool) -> Option<usize> {
    let bytes = match (adds_label, token_bytes) {
        (false, _) | (true, 0) => FIRST_TOKEN_BYTES,
        (true, token_bytes) => (token_bytes + LABEL_BYTES).max(FIRST_TOKEN_BYTES),
    };
    (bytes <= TOKEN_BYTES_MAX).then_some(bytes)
}

/// Returns the labels that an Interest has behind a chain of graphs, in its direction; each item is
/// whether the graph [adds a label](adds_label). `consumer_token_bytes` is the length of the token
/// with which consumers send it, 0 for none.
///
/// # Errors
/// The index of the first graph whose label does not fit.
pub fn labels_in_chain(
    chain: impl IntoIterator<Item = bool>,
    consumer_token_bytes: usize,
) -> Result<usize, usize> {
    let (mut token_bytes, mut labels) = (consumer_token_bytes, 0);
    for (index, adds_label) in chain.into_iter().enumerate() {
        token_bytes = token_bytes_after(token_bytes, adds_label).ok_or(index)?;
        labels = if adds_label { labels + 1 } else { 0 };
    }
    Ok(labels)
}

/// Returns services through which an Interest can pass, one after another, such that the label of
/// the last one does not fit. `service_of_node` is the service of each node of the graph. `None` if
/// all labels fit. Consumers are assumed to send no token.
pub fn overflowing_chain(graph: &Graph, service_of_node: &[usize]) -> Option<Vec<usize>> {
    let mut services = Services::default();
    for (node, service) in graph.nodes.iter().zip(service_of_node) {
        *services.adds_label.entry(*service).or_insert(true) &= !node.entry.tracks_pending;
    }
    for connection in &graph.connections {
        let (Source::Port(from, _), Target::Port(to, _)) = (connection.from, connection.to) else {
            continue;
        };
        let (from, to) = (service_of_node[from], service_of_node[to]);
        let passes_interests = graph.kinds_from(connection.from).contains(&Kind::Interest)
            && graph.kinds_into(connection.to).contains(&Kind::Interest);
        if from != to && passes_interests {
            services.next.entry(from).or_default().push(to);
        }
    }
    let all: Vec<usize> = services.adds_label.keys().copied().collect();
    all.into_iter().find_map(|first| services.walk(first, 0, &mut Vec::new()))
}

/// Services, and where their Interests go.
#[derive(Default)]
struct Services {
    adds_label: BTreeMap<usize, bool>,
    next: BTreeMap<usize, Vec<usize>>,
    /// The longest token with which each service was visited.
    visited: BTreeMap<usize, usize>,
}

impl Services {
    /// Follows Interests with a token of this length; each service is visited again only with a
    /// longer token, so that the walk ends.
    fn walk(
        &mut self,
        service: usize,
        token_bytes: usize,
        path: &mut Vec<usize>,
    ) -> Option<Vec<usize>> {
        if path.contains(&service) || self.visited.get(&service).is_some_and(|b| *b > token_bytes) {
            return None;
        }
        self.visited.insert(service, token_bytes);
        path.push(service);
        let adds_label = self.adds_label.get(&service).copied().unwrap_or_default();
        let Some(after) = token_bytes_after(token_bytes, adds_label) else {
            return Some(path.clone());
        };
        let next = self.next.get(&service).cloned().unwrap_or_default();
        let found = next.into_iter().find_map(|next| self.walk(next, after, path));
        path.pop();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GraphFile;

    #[test]
    fn six_labels_fit_without_a_token_and_fewer_behind_one() {
        let fits = |count: usize, token| labels_in_chain(core::iter::repeat_n(true, count), token);
        assert_eq!((fits(6, 0), fits(7, 0)), (Ok(6), Err(6)));
        assert_eq!((fits(5, 6), fits(6, 6)), (Ok(5), Err(5)));
        assert_eq!((fits(0, 32), fits(1, 28)), (Ok(0), Err(0)));
        // A tracking element begins anew.
        let chain = [true, true, true, false, true, true, true, true, true];
        assert_eq!(labels_in_chain(chain, 0), Ok(5));
        assert_eq!(labels_in_chain(chain.into_iter().chain([true]), 0), Err(9));
    }

    fn counters(count: usize, tracker_at: Option<usize>) -> Graph {
        let mut text = "face near listens unix:///tmp/n\nface far = unix:///tmp/f\n".to_owned();
        for at in 0..count {
            let element = match tracker_at {
                Some(tracker) if tracker == at => "backward_router",
                _ => "counter",
            };
            text += &format!("e{at} = {element}\n");
        }
        let mut path = "near".to_owned();
        let mut back = String::new();
        for at in 0..count {
            if tracker_at == Some(at) {
                path += &format!(" -> e{at}.interest");
                back = format!("far -> e{at}.data -> near\n");
            } else {
                path += &format!(" -> e{at}");
            }
        }
        text += &format!("{path} -> far\n{back}");
        // Only the direction of Interests matters here.
        let (file, problems) = GraphFile::parse(&text);
        assert!(problems.is_empty(), "{problems:?}");
        file.graph
    }

    #[test]
    fn chain_of_services_that_is_too_long_is_found() {
        let alone: Vec<usize> = (0..8).collect();
        assert_eq!(overflowing_chain(&counters(6, None), &alone[..6]), None);
        let found = overflowing_chain(&counters(8, None), &alone).unwrap();
        assert_eq!(found, alone[..7]);
        assert_eq!(overflowing_chain(&counters(8, None), &[0, 0, 0, 0, 1, 1, 2, 3]), None);
        assert_eq!(overflowing_chain(&counters(8, Some(3)), &alone), None);
    }
}
