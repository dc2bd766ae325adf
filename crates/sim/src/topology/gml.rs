//! Graphs in GML, as published by the Internet Topology Zoo: `graph [ node [ id 0 label "A"
//! Latitude 1.0 Longitude 2.0 ] edge [ source 0 target 1 ] ]`.
//!
//! If both ends have coordinates, the delay of a link is that of a cable along the great circle.
//! `delay_ms` and `rate_mbps` of an edge override this; `LinkSpeedRaw` is a rate in bit/s.

use super::{Edge, Topology, TopologyError, delay_ns};
use std::collections::BTreeMap;

/// Maximum nesting of brackets.
const DEPTH_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Word(String),
    List(List),
}

/// Keys, lines and values, in order.
type List = Vec<(String, usize, Value)>;

/// Parses a GML graph; `file` is the name used in messages.
pub fn read(file: &str, text: &str) -> Result<Topology, TopologyError> {
    let mut tokens = tokenize(text).into_iter();
    let problem = |line: usize, message: String| TopologyError(format!("{file}:{line}: {message}"));
    let all = parse_list(&mut tokens, 0).map_err(|(line, message)| problem(line, message))?;
    let graph = all.iter().find_map(|(key, _, value)| match value {
        Value::List(list) if key == "graph" => Some(list),
        _ => None,
    });
    let Some(graph) = graph else {
        return Err(problem(1, "no `graph [ … ]`: this is not a GML graph".into()));
    };
    let (mut topology, mut by_id, mut coordinates) =
        (Topology::default(), BTreeMap::new(), Vec::new());
    let mut problems = Vec::new();
    for (key, line, value) in graph {
        let Value::List(fields) = value else { continue };
        let result = match key.as_str() {
            "node" => node(&mut topology, fields).map(|(id, number, position)| {
                by_id.insert(id, number);
                coordinates.resize(topology.nodes.len(), None);
                coordinates[number] = position;
            }),
            "edge" => edge(&mut topology, fields, &by_id, &coordinates),
            _ => Ok(()),
        };
        if let Err(message) = result {
            problems.push(problem(*line, message).0);
        }
    }
    if topology.nodes.is_empty() {
        problems.push(problem(1, "no `node [ … ]`".into()).0);
    }
    if !problems.is_empty() {
        return Err(TopologyError(problems.join("\n")));
    }
    set_positions(&mut topology, &coordinates);
    Ok(topology)
}

/// Returns the text value of a key.
fn text_field<'a>(fields: &'a List, key: &str) -> Option<&'a str> {
    fields.iter().find_map(|(name, _, value)| match value {
        Value::Word(word) if name == key => Some(word.as_str()),
        _ => None,
    })
}

/// Returns the number value of a key, if finite.
fn number_field(fields: &List, key: &str) -> Option<f64> {
    text_field(fields, key)?.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Latitude and longitude in degrees, if known.
type Coordinates = Option<(f64, f64)>;

fn node(topology: &mut Topology, fields: &List) -> Result<(String, usize, Coordinates), String> {
    let id = text_field(fields, "id").ok_or("a node without id")?.to_owned();
    let label: String = match text_field(fields, "label") {
        Some(label) if !label.is_empty() => {
            label.chars().map(|c| if c.is_whitespace() || c == '@' { '_' } else { c }).collect()
        }
        _ => format!("n{id}"),
    };
    // Maps use one label, such as None or ?, for several unnamed nodes.
    let name = if topology.find(&label).is_some() { format!("{label}_{id}") } else { label };
    if topology.find(&name).is_some() {
        return Err(format!("two nodes {name} with the same id"));
    }
    let position = number_field(fields, "Latitude").zip(number_field(fields, "Longitude"));
    Ok((id, topology.node(&name).map_err(|error| error.0)?, position))
}

fn edge(
    topology: &mut Topology,
    fields: &List,
    by_id: &BTreeMap<String, usize>,
    coordinates: &[Coordinates],
) -> Result<(), String> {
    let end = |key: &str| {
        let id = text_field(fields, key).ok_or_else(|| format!("an edge without {key}"))?;
        by_id.get(id).copied().ok_or_else(|| format!("{key} {id} is not a node above"))
    };
    let (a, b) = (end("source")?, end("target")?);
    if a == b {
        // Some published maps contain such edges.
        return Ok(());
    }
    let by_distance = coordinates[a].zip(coordinates[b]).map(|(from, to)| delay_ns(from, to));
    let explicit = number_field(fields, "delay_ms")
        .filter(|ms| (0.0..=1e6).contains(ms))
        .map(|ms| (ms * 1e6) as u64);
    let rate_bps = number_field(fields, "rate_mbps")
        .map(|mbps| mbps * 1e6)
        .or_else(|| number_field(fields, "LinkSpeedRaw"));
    let rate_bps = rate_bps.filter(|bps| (1.0..=1e13).contains(bps)).map(|bps| bps as u64);
    let edge = Edge { delay_ns: explicit.or(by_distance), rate_bps, ..Edge::between(a, b) };
    topology.link(edge).map(|_| ()).map_err(|error| error.0)
}

/// Sets the drawing positions of nodes from their coordinates.
fn set_positions(topology: &mut Topology, coordinates: &[Coordinates]) {
    let known = || coordinates.iter().flatten();
    let low = known().fold((f64::MAX, f64::MAX), |low, at| (low.0.min(at.0), low.1.min(at.1)));
    let high = known().fold((f64::MIN, f64::MIN), |high, at| (high.0.max(at.0), high.1.max(at.1)));
    let share = |value: f64, low: f64, high: f64| {
        if high > low { (value - low) / (high - low) } else { 0.5 }
    };
    for (node, position) in topology.nodes.iter_mut().zip(coordinates) {
        node.position =
            position.map(|(lat, lon)| (share(lon, low.1, high.1), 1.0 - share(lat, low.0, high.0)));
    }
}

/// Returns words, brackets and quoted strings, with line and whether quoted.
fn tokenize(text: &str) -> Vec<(usize, String, bool)> {
    let mut tokens = Vec::new();
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
                tokens.push((start, word, true));
            }
            '[' | ']' => tokens.push((line, c.to_string(), false)),
            c if c.is_whitespace() => {}
            c => {
                let mut word = c.to_string();
                while let Some(c) =
                    chars.next_if(|c| !c.is_whitespace() && !['[', ']', '"'].contains(c))
                {
                    word.push(c);
                }
                tokens.push((line, word, false));
            }
        }
    }
    tokens
}

fn parse_list(
    tokens: &mut impl Iterator<Item = (usize, String, bool)>,
    depth: usize,
) -> Result<List, (usize, String)> {
    let mut list = List::new();
    let mut last = 1;
    while let Some((line, key, quoted)) = tokens.next() {
        last = line;
        match key.as_str() {
            "]" if !quoted && depth > 0 => return Ok(list),
            "[" | "]" if !quoted => return Err((line, format!("saw {key}; expected a key"))),
            _ => {}
        }
        let value = match tokens.next() {
            Some((line, bracket, false)) if bracket == "[" => {
                if depth == DEPTH_MAX {
                    return Err((line, format!("more than {DEPTH_MAX} nested brackets")));
                }
                Value::List(parse_list(tokens, depth + 1)?)
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
