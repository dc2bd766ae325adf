//! What happens to links and nodes when: from text, and by the seed.

use super::options::Failures;
use super::values::Secs;
use crate::random::{Random, Stream};
use crate::topology::Topology;

/// Failures that one run may have by the seed.
const RANDOM_MAX: usize = 1_000_000;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A link, down (false) or up.
    Link(usize, bool),
    /// A node, down (false) or up, with empty tables.
    Node(usize, bool),
    /// A node starts anew at once, with empty tables.
    Restart(usize),
}

/// When it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Nanoseconds from the start.
    pub at_ns: u64,
    /// What.
    pub action: Action,
}

impl Timed {
    /// From text such as `2s link a-b down`.
    ///
    /// # Errors
    /// What should be there.
    pub fn parse(text: &str, topology: &Topology) -> Result<Self, String> {
        let usage = "a time and what happens: \"2s link a-b down\", \"2s link a-b up\", \"2500ms node x down\", \"4s node x up\" or \"3s node x restart\"";
        let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "at").collect();
        let [time, what, which, how] = words[..] else { return Err(usage.to_owned()) };
        let at_ns = time_ns(time).ok_or(usage)?;
        let up = match how {
            "up" => Some(true),
            "down" => Some(false),
            "restart" => None,
            _ => return Err(usage.to_owned()),
        };
        let action = match (what, up) {
            ("link", Some(up)) => {
                let link = topology.find_link(which).ok_or_else(|| {
                    format!(
                        "a link of the topology, such as {}",
                        topology.links.first().map_or("a-b".into(), |_| topology.link_name(0))
                    )
                })?;
                Action::Link(link, up)
            }
            ("node", _) => {
                let node = topology.find(which).ok_or_else(|| {
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

    /// As text that can be read again.
    pub fn show(&self, topology: &Topology) -> String {
        let word = |up: bool| if up { "up" } else { "down" };
        let at = self.at_ns as f64 / 1e9;
        match self.action {
            Action::Link(link, up) => format!("{at}s link {} {}", topology.link_name(link), word(up)),
            Action::Node(node, up) => format!("{at}s node {} {}", topology.nodes[node].name, word(up)),
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

/// Failures and repairs by the seed, in order of time.
///
/// # Errors
/// When there would be too many.
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
                    return Err(format!("less: these are more than {RANDOM_MAX} failures and repairs"));
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
