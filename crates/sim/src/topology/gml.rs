//! Graphs in GML, as the Internet Topology Zoo publishes maps: `graph [ node [ id 0 label "A" Latitude 1.0 Longitude 2.0 ] edge [ source 0 target 1 ] ]`.
//!
//! Where both ends have places, a link's delay is that of a cable the shortest way. `delay_ms` and `rate_mbps` in an edge say it otherwise;
//! `LinkSpeedRaw` is a rate in bit/s.

use super::{Edge, Topology, TopologyError, delay_ns};
use std::collections::BTreeMap;

/// Brackets in brackets.
const DEPTH_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Word(String),
    List(List),
}

/// Keys with values and lines, in order.
type List = Vec<(String, usize, Value)>;

pub fn read(file: &str, text: &str) -> Result<Topology, TopologyError> {
    let mut words = words(text).into_iter();
    let problem = |line: usize, what: String| TopologyError(format!("{file}:{line}: {what}"));
    let all = list(&mut words, 0).map_err(|(line, what)| problem(line, what))?;
    let graph = all.iter().find_map(|(key, _, value)| match value {
        Value::List(list) if key == "graph" => Some(list),
        _ => None,
    });
    let Some(graph) = graph else {
        return Err(problem(1, "no `graph [ … ]`: is it GML?".into()));
    };
    let (mut topology, mut by_id, mut places) = (Topology::default(), BTreeMap::new(), Vec::new());
    let mut problems = Vec::new();
    for (key, line, value) in graph {
        let Value::List(fields) = value else { continue };
        let done = match key.as_str() {
            "node" => node(&mut topology, fields).map(|(id, number, place)| {
                by_id.insert(id, number);
                places.resize(topology.nodes.len(), None);
                places[number] = place;
            }),
            "edge" => edge(&mut topology, fields, &by_id, &places),
            _ => Ok(()),
        };
        if let Err(what) = done {
            problems.push(problem(*line, what).0);
        }
    }
    if topology.nodes.is_empty() {
        problems.push(problem(1, "no `node [ … ]`".into()).0);
    }
    if !problems.is_empty() {
        return Err(TopologyError(problems.join("\n")));
    }
    draw_at(&mut topology, &places);
    Ok(topology)
}

fn word<'a>(fields: &'a List, key: &str) -> Option<&'a str> {
    fields.iter().find_map(|(name, _, value)| match value {
        Value::Word(word) if name == key => Some(word.as_str()),
        _ => None,
    })
}

fn number(fields: &List, key: &str) -> Option<f64> {
    word(fields, key)?.parse().ok().filter(|number: &f64| number.is_finite())
}

type Place = Option<(f64, f64)>;

fn node(topology: &mut Topology, fields: &List) -> Result<(String, usize, Place), String> {
    let id = word(fields, "id").ok_or("a node without id")?.to_owned();
    let label: String = match word(fields, "label") {
        Some(label) if !label.is_empty() => {
            label.chars().map(|c| if c.is_whitespace() || c == '@' { '_' } else { c }).collect()
        }
        _ => format!("n{id}"),
    };
    // Maps have places they don't know by one name, such as None or ?.
    let name = if topology.find(&label).is_some() { format!("{label}_{id}") } else { label };
    if topology.find(&name).is_some() {
        return Err(format!("two nodes {name} with one id"));
    }
    let place = number(fields, "Latitude").zip(number(fields, "Longitude"));
    Ok((id, topology.node(&name).map_err(|error| error.0)?, place))
}

fn edge(
    topology: &mut Topology,
    fields: &List,
    by_id: &BTreeMap<String, usize>,
    places: &[Place],
) -> Result<(), String> {
    let end = |key: &str| {
        let id = word(fields, key).ok_or_else(|| format!("an edge without {key}"))?;
        by_id.get(id).copied().ok_or_else(|| format!("{key} {id} is no node before it"))
    };
    let (a, b) = (end("source")?, end("target")?);
    if a == b {
        // Some published maps have such.
        return Ok(());
    }
    let by_place = places[a].zip(places[b]).map(|(from, to)| delay_ns(from, to));
    let given = number(fields, "delay_ms").filter(|ms| (0.0..=1e6).contains(ms)).map(|ms| (ms * 1e6) as u64);
    let rate_bps =
        number(fields, "rate_mbps").map(|mbps| mbps * 1e6).or_else(|| number(fields, "LinkSpeedRaw"));
    let rate_bps = rate_bps.filter(|bps| (1.0..=1e13).contains(bps)).map(|bps| bps as u64);
    let edge = Edge { delay_ns: given.or(by_place), rate_bps, ..Edge::between(a, b) };
    topology.link(edge).map(|_| ()).map_err(|error| error.0)
}

/// Where to draw nodes: as on a map.
fn draw_at(topology: &mut Topology, places: &[Place]) {
    let known = || places.iter().flatten();
    let low = known().fold((f64::MAX, f64::MAX), |low, at| (low.0.min(at.0), low.1.min(at.1)));
    let high = known().fold((f64::MIN, f64::MIN), |high, at| (high.0.max(at.0), high.1.max(at.1)));
    let share = |value: f64, low: f64, high: f64| if high > low { (value - low) / (high - low) } else { 0.5 };
    for (node, place) in topology.nodes.iter_mut().zip(places) {
        node.at = place.map(|(lat, lon)| (share(lon, low.1, high.1), 1.0 - share(lat, low.0, high.0)));
    }
}

/// Words, brackets and quoted text, with their lines.
fn words(text: &str) -> Vec<(usize, String, bool)> {
    let mut words = Vec::new();
    let (mut line, mut chars) = (1, text.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '\n' => line += 1,
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '"' => {
                let start = line;
                let mut word = String::new();
                for c in chars.by_ref().take_while(|c| *c != '"') {
                    line += usize::from(c == '\n');
                    word.push(c);
                }
                words.push((start, word, true));
            }
            '[' | ']' => words.push((line, c.to_string(), false)),
            c if c.is_whitespace() => {}
            c => {
                let mut word = c.to_string();
                while let Some(c) = chars.next_if(|c| !c.is_whitespace() && !['[', ']', '"'].contains(c)) {
                    word.push(c);
                }
                words.push((line, word, false));
            }
        }
    }
    words
}

fn list(
    words: &mut impl Iterator<Item = (usize, String, bool)>,
    depth: usize,
) -> Result<List, (usize, String)> {
    let mut list = List::new();
    let mut last = 1;
    while let Some((line, key, quoted)) = words.next() {
        last = line;
        match key.as_str() {
            "]" if !quoted && depth > 0 => return Ok(list),
            "[" | "]" if !quoted => return Err((line, format!("saw {key}; expected a key"))),
            _ => {}
        }
        let value = match words.next() {
            Some((line, bracket, false)) if bracket == "[" => {
                if depth == DEPTH_MAX {
                    return Err((line, format!("more than {DEPTH_MAX} brackets in brackets")));
                }
                Value::List(self::list(words, depth + 1)?)
            }
            Some((line, bracket, false)) if bracket == "]" => {
                return Err((line, format!("saw ]; expected a value of {key}")));
            }
            Some((_, word, _)) => Value::Word(word),
            None => return Err((line, format!("{key} has no value"))),
        };
        list.push((key, line, value));
    }
    if depth > 0 { Err((last, "a bracket [ is not closed".into())) } else { Ok(list) }
}
