//! Lists of links, one per line: two nodes, optionally delay (ms) and rate (Mbit/s). `#` begins a
//! comment.

use super::{Edge, Topology, TopologyError};

/// Parses a list of links; `file` is the name used in messages.
pub fn read(file: &str, text: &str) -> Result<Topology, TopologyError> {
    let (mut topology, mut problems) = (Topology::default(), Vec::new());
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line
            .split('#')
            .next()
            .unwrap_or("")
            .split([' ', '\t', ','])
            .filter(|w| !w.is_empty())
            .collect();
        if words.is_empty() {
            continue;
        }
        if let Err(problem) = parse_link(&mut topology, &words) {
            problems.push(format!("{file}:{}: {problem}", at + 1));
        }
    }
    if problems.is_empty() && topology.nodes.is_empty() {
        problems.push(format!(
            "{file}: no link: write one per line, such as `a b 5 100` (nodes, delay in ms, rate in Mbit/s)"
        ));
    }
    if problems.is_empty() { Ok(topology) } else { Err(TopologyError(problems.join("\n"))) }
}

fn parse_link(topology: &mut Topology, words: &[&str]) -> Result<(), String> {
    let (from, to, options) = match words {
        [from, to, options @ ..] if options.len() <= 2 => (from, to, options),
        _ => {
            return Err(format!(
                "saw {} words; expected two nodes, optionally a delay (ms) and a rate (Mbit/s)",
                words.len()
            ));
        }
    };
    let number =
        |at: usize, what: &str, max: f64| match options.get(at).map(|word| word.parse::<f64>()) {
            None => Ok(None),
            Some(Ok(value)) if (0.0..=max).contains(&value) => Ok(Some(value)),
            Some(_) => Err(format!("saw {:?}; expected {what} from 0 to {max}", options[at])),
        };
    let delay_ns = number(0, "a delay in ms", 1e6)?.map(|ms| (ms * 1e6).round() as u64);
    let rate_bps = number(1, "a rate in Mbit/s", 1e7)?.map(|mbps| (mbps * 1e6).round() as u64);
    let mut add = || {
        let (a, b) = (topology.node(from)?, topology.node(to)?);
        topology.link(Edge { delay_ns, rate_bps, ..Edge::between(a, b) })
    };
    add().map(|_| ()).map_err(|error| error.0)
}
