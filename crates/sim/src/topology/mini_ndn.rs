//! Topology files of Mini-NDN: `[nodes]` with one node per line, `[links]` with one link per line.
//!
//! ```text
//! [nodes]
//! a: _ radius=10.3 angle=1.1     only the name is used
//! b: _
//! [links]
//! a:b delay=10ms bw=100 loss=1 max_queue_size=50 cost=5
//! ```
//!
//! Mini-NDN's units: `bw` in Mbit/s, `loss` in percent, `delay` with `us`, `ms` or `s`. `cost` is
//! for `routing.metric = "cost"`. Sections and options without a meaning here are mistakes, except
//! an empty `[switches]` and the options of nodes, which configure Mini-NDN's programs.

use super::{Edge, Topology, TopologyError};

/// Greatest rate in Mbit/s, and greatest loss in percent.
const RATE_MAX: f64 = 1e7;
const LOSS_MAX: f64 = 99.0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    None,
    Nodes,
    Links,
    Switches,
    Unknown,
}

/// Returns whether a text is in this format: its first line that is not a comment is a section.
pub fn is_format(text: &str) -> bool {
    let mut lines = text.lines().map(content).filter(|line| !line.is_empty());
    lines.next().is_some_and(|line| line.starts_with('['))
}

/// Parses a file; `file` is the name used in messages.
pub fn read(file: &str, text: &str) -> Result<Topology, TopologyError> {
    let (mut topology, mut problems) = (Topology::default(), Vec::new());
    let mut section = Section::None;
    for (at, line) in text.lines().enumerate() {
        let line = content(line);
        let result = match section_name(line) {
            _ if line.is_empty() => Ok(()),
            Some(name) => {
                section = match name {
                    "nodes" => Section::Nodes,
                    "links" => Section::Links,
                    "switches" => Section::Switches,
                    _ => Section::Unknown,
                };
                match section {
                    Section::Unknown => Err(format!(
                        "saw the section [{name}]; expected [nodes], [links] or an empty [switches]"
                    )),
                    _ => Ok(()),
                }
            }
            None => match section {
                Section::Nodes => parse_node(&mut topology, line),
                Section::Links => parse_link(&mut topology, line),
                Section::Switches => {
                    Err("a switch: routers are joined by links here; replace it by a node"
                        .to_owned())
                }
                Section::None => Err("a line before the section [nodes]".to_owned()),
                Section::Unknown => Ok(()),
            },
        };
        if let Err(problem) = result {
            problems.push(format!("{file}:{}: {problem}", at + 1));
        }
    }
    if problems.is_empty() && topology.nodes.is_empty() {
        problems.push(format!("{file}: no node: write one per line below [nodes], such as `a: _`"));
    }
    if problems.is_empty() { Ok(topology) } else { Err(TopologyError(problems.join("\n"))) }
}

fn content(line: &str) -> &str {
    line.split('#').next().unwrap_or("").trim()
}

fn section_name(line: &str) -> Option<&str> {
    line.strip_prefix('[')?.strip_suffix(']').map(str::trim)
}

fn parse_node(topology: &mut Topology, line: &str) -> Result<(), String> {
    let Some((name, _)) = line.split_once(':') else {
        return Err(format!("saw {line:?}; expected a node and a colon, such as `a: _`"));
    };
    if topology.find(name.trim()).is_some() {
        return Err(format!("the node {} a second time: remove one line", name.trim()));
    }
    topology.node(name.trim()).map(|_| ()).map_err(|error| error.0)
}

fn parse_link(topology: &mut Topology, line: &str) -> Result<(), String> {
    let mut words = line.split_whitespace();
    let ends = words.next().and_then(|word| word.split_once(':'));
    let Some((from, to)) = ends else {
        return Err(format!("saw {line:?}; expected two nodes, such as `a:b delay=10ms`"));
    };
    let find = |name: &str| {
        topology.find(name).ok_or_else(|| format!("no node {name} in [nodes]: add it there"))
    };
    let mut edge = Edge::between(find(from)?, find(to)?);
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!("saw {word:?}; expected an option, such as delay=10ms"));
        };
        match key {
            "delay" => edge.delay_ns = Some(delay_ns(value)?),
            "bw" => {
                let rate = number(key, value, RATE_MAX, "Mbit/s")?;
                if rate == 0.0 {
                    return Err("bw=0: give a rate in Mbit/s, or leave bw out".to_owned());
                }
                edge.rate_bps = Some((rate * 1e6).round() as u64);
            }
            "loss" => {
                let percent = number(key, value, LOSS_MAX, "percent")?;
                edge.loss_ppb = Some((percent * 1e7).round() as u32);
            }
            "max_queue_size" => {
                edge.queue_packets = Some(number(key, value, 1e6, "packets")? as u32)
            }
            "cost" => edge.cost = Some(number(key, value, 1e6, "")?.max(1.0) as u32),
            _ => {
                return Err(format!(
                    "saw the option {key}; expected delay, bw, loss, max_queue_size or cost"
                ));
            }
        }
    }
    if topology.link_between(edge.ends.0 as usize, edge.ends.1 as usize).is_some() {
        return Err(format!("the link {from}:{to} a second time: remove one line"));
    }
    topology.link(edge).map(|_| ()).map_err(|error| error.0)
}

fn number(key: &str, value: &str, max: f64, unit: &str) -> Result<f64, String> {
    let parsed = value.parse().ok().filter(|number: &f64| (0.0..=max).contains(number));
    parsed.ok_or_else(|| format!("saw {key}={value}; expected {key} from 0 to {max} {unit}"))
}

fn delay_ns(value: &str) -> Result<u64, String> {
    let scales = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let parsed = scales.iter().find_map(|(unit, scale)| {
        let number: f64 = value.strip_suffix(unit)?.parse().ok()?;
        let ns = number * scale;
        (0.0..=1e12).contains(&ns).then_some(ns.round() as u64)
    });
    parsed.ok_or_else(|| format!("saw delay={value}; expected a time such as 10ms, at most 1000s"))
}
