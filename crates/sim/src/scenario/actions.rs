//! Failures, repairs and restarts of links and nodes: from text, and at random.

use super::options::Failures;
use super::values::Secs;
use crate::random::{Random, Stream};
use crate::topology::Topology;

/// Maximum number of random failures and repairs in a run.
const RANDOM_MAX: usize = 1_000_000;

/// A change of a link or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Takes a link down (false) or up.
    Link(usize, bool),
    /// Takes a node down (false) or up, with empty tables.
    Node(usize, bool),
    /// Restarts a node, with empty tables.
    Restart(usize),
}

/// A change at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Nanoseconds from the start of the run.
    pub at_ns: u64,
    /// The change.
    pub action: Action,
}

impl Timed {
    /// Parses text such as `2s link a-b down`.
    ///
    /// # Errors
    /// What is expected, for the message.
    pub fn parse(text: &str, topology: &Topology) -> Result<Self, String> {
        let usage = "a time and an action: \"2s link a-b down\", \"2s link a-b up\", \"2500ms node x down\", \"4s node x up\" or \"3s node x restart\"";
        let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "at").collect();
        let [time, subject, name, state] = words[..] else { return Err(usage.to_owned()) };
        let at_ns = time_ns(time).ok_or(usage)?;
        let up = match state {
            "up" => Some(true),
            "down" => Some(false),
            "restart" => None,
            _ => return Err(usage.to_owned()),
        };
        let action = match (subject, up) {
            ("link", Some(up)) => {
                let link = topology.find_link(name).ok_or_else(|| {
                    format!(
                        "a link of the topology, such as {}",
                        topology.links.first().map_or("a-b".into(), |_| topology.link_name(0))
                    )
                })?;
                Action::Link(link, up)
            }
            ("node", _) => {
                let node = topology.find(name).ok_or_else(|| {
                    format!(
                        "a node of the topology, such as {}",
                        topology.nodes.first().map_or("a", |node| &node.name)
                    )
                })?;
                up.map_or(Action::Restart(node), |up| Action::Node(node, up))
            }
            _ => return Err(usage.to_owned()),
        };
        Ok(Timed { at_ns, action })
    }

    /// Returns the text form, which [`parse`](Self::parse) accepts.
    pub fn describe(&self, topology: &Topology) -> String {
        let word = |up: bool| if up { "up" } else { "down" };
        let at = self.at_ns as f64 / 1e9;
        match self.action {
            Action::Link(link, up) => {
                format!("{at}s link {} {}", topology.link_name(link), word(up))
            }
            Action::Node(node, up) => {
                format!("{at}s node {} {}", topology.nodes[node].name, word(up))
            }
            Action::Restart(node) => format!("{at}s node {} restart", topology.nodes[node].name),
        }
    }
}

fn time_ns(text: &str) -> Option<u64> {
    match text.strip_suffix("ms") {
        Some(ms) => super::values::Ms::parse(ms).map(|ms| ms.0),
        None => Secs::parse(text.strip_suffix('s')?).map(|s| s.0),
    }
}

/// Draws random failures and repairs, sorted by time.
///
/// # Errors
/// If there would be more than [`RANDOM_MAX`].
pub fn random(
    failures: &Failures,
    topology: &Topology,
    seed: u64,
    duration_ns: u64,
) -> Result<Vec<Timed>, String> {
    let mut all = Vec::new();
    let mut draw = |per_s: f64, count: usize, stream: Stream, action: fn(usize, bool) -> Action| {
        if per_s <= 0.0 {
            return Ok(());
        }
        for number in 0..count {
            let mut random = Random::new(seed, stream, number);
            let mut at_ns = 0.0;
            loop {
                at_ns += random.exponential(1e9 / per_s);
                if at_ns >= duration_ns as f64 {
                    break;
                }
                all.push(Timed { at_ns: at_ns as u64, action: action(number, false) });
                at_ns += random.exponential(failures.mean_down_s.0 as f64);
                all.push(Timed { at_ns: at_ns as u64, action: action(number, true) });
                if all.len() > RANDOM_MAX {
                    return Err(format!(
                        "lower rates: these are more than {RANDOM_MAX} failures and repairs"
                    ));
                }
            }
        }
        Ok(())
    };
    draw(failures.links_per_s.value(), topology.links.len(), Stream::LinkFailure, Action::Link)?;
    draw(failures.nodes_per_s.value(), topology.nodes.len(), Stream::NodeFailure, Action::Node)?;
    all.retain(|timed| timed.at_ns < duration_ns);
    all.sort_by_key(|timed| timed.at_ns);
    Ok(all)
}
