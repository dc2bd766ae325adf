//! Generated topologies.

use super::{Edge, NS_PER_KM, Topology, TopologyError};
use crate::random::{Random, Stream};

/// Forms of generated topologies, with explanations.
pub const FORMS: &[(&str, &str)] = &[
    ("line:N", "N nodes in a row"),
    ("ring:N", "N nodes in a ring"),
    ("star:N", "n0 with N others around it"),
    ("full:N", "N nodes, all linked to each other"),
    ("grid:WxH", "W columns and H rows"),
    ("tree:KxD", "D levels of links below n0, each node with K below it"),
    (
        "random:N:D",
        "Erdős and Rényi: any two of N nodes are linked at random, D links per node on average (default 4); separate components are connected",
    ),
    (
        "waxman:N:D",
        "Waxman: nearby nodes are linked more often, delays by distance in a square of 2000 km",
    ),
    (
        "scale-free:N:M",
        "Barabási and Albert: each of N nodes links to M (default 2) earlier ones, preferably those with many links",
    ),
];

/// Published maps: name, explanation, text of a topology file.
pub const PUBLISHED: &[(&str, &str, &str)] = &[
    (
        "abilene",
        "Internet2's backbone of 2004: 11 nodes, 14 links",
        include_str!("../../topologies/abilene.gml"),
    ),
    (
        "nsfnet",
        "NSF's T1 backbone of 1991: 14 nodes, 21 links",
        include_str!("../../topologies/nsfnet.gml"),
    ),
    (
        "ndn-testbed",
        "the NDN testbed as in Mini-NDN's testbed.conf (commit 587b78ff): 37 nodes, 95 links",
        include_str!("../../topologies/ndn-testbed.conf"),
    ),
    (
        "geant",
        "GÉANT's network of December 2018: 45 nodes, 71 links",
        include_str!("../../topologies/geant.conf"),
    ),
    (
        "sprint",
        "Sprint's points of presence as mapped by Rocketfuel (AS 1239): 52 nodes, 84 links",
        include_str!("../../topologies/sprint.conf"),
    ),
];

/// Side of the square of Waxman topologies, kilometres.
const SQUARE_KM: f64 = 2000.0;
/// Waxman's distance parameter, as a share of the longest distance.
const WAXMAN_BETA: f64 = 0.15;
/// Maximum number of nodes for models that draw every pair of nodes.
const PAIRS_NODES_MAX: usize = 20_000;

/// Generates a topology from its description, or reads a published map.
pub fn generate(text: &str, seed: u64) -> Result<Topology, TopologyError> {
    if let Some((name, _, map)) = PUBLISHED.iter().find(|(name, ..)| *name == text) {
        let format = if map.contains("graph [") { "gml" } else { "conf" };
        return Topology::parse(&format!("{name}.{format}"), map);
    }
    let mut words = text.split(':');
    let form = words.next().unwrap_or_default();
    let sizes: Vec<&str> = words.collect();
    let mut random = Random::new(seed, Stream::Topology, 0);
    let result = match (form, &sizes[..]) {
        ("line", [n]) => parse_count(n, 1).map(line),
        ("ring", [n]) => parse_count(n, 3).map(ring),
        ("star", [n]) => parse_count(n, 1).map(star),
        ("full", [n]) => parse_count(n, 2).filter(|n| *n <= 1000).map(full),
        ("grid", [size]) => parse_grid_size(size).map(|(w, h)| grid(w, h)),
        ("tree", [size]) => parse_grid_size(size).and_then(|(arity, depth)| tree(arity, depth)),
        ("random", [n, options @ ..]) => parse_count_and_degree(n, options, 4.0)
            .map(|(n, degree)| erdos_renyi(n, degree, &mut random)),
        ("waxman", [n, options @ ..]) => parse_count_and_degree(n, options, 4.0)
            .map(|(n, degree)| waxman(n, degree, &mut random)),
        ("scale-free", [n, options @ ..]) => parse_count_and_degree(n, options, 2.0)
            .map(|(n, links)| scale_free(n, links as usize, &mut random)),
        _ => None,
    };
    match result {
        Some(topology) => topology,
        None => Err(unknown_description(text)),
    }
}

fn unknown_description(text: &str) -> TopologyError {
    let forms: Vec<&str> = FORMS.iter().map(|(form, _)| *form).collect();
    let maps: Vec<&str> = PUBLISHED.iter().map(|(name, ..)| *name).collect();
    TopologyError(format!(
        "no topology {text:?}: write one of {}, or the name of a map ({}); at most {} nodes ({PAIRS_NODES_MAX} where any two may be linked)",
        forms.join(", "),
        maps.join(", "),
        super::NODES_MAX
    ))
}

/// Parses a number of nodes from `min` to the maximum.
fn parse_count(text: &str, min: usize) -> Option<usize> {
    text.parse().ok().filter(|n| (min..=super::NODES_MAX).contains(n))
}

/// Parses `WxH`.
fn parse_grid_size(text: &str) -> Option<(usize, usize)> {
    let (a, b) = text.split_once('x')?;
    let (a, b) = (parse_count(a, 1)?, parse_count(b, 1)?);
    (a.checked_mul(b)? <= super::NODES_MAX).then_some((a, b))
}

/// Parses a number of nodes and an optional number of links per node.
fn parse_count_and_degree(n: &str, options: &[&str], default: f64) -> Option<(usize, f64)> {
    let n = parse_count(n, 2).filter(|n| *n <= PAIRS_NODES_MAX)?;
    let degree = match options {
        [] => default,
        [degree] => degree.parse().ok().filter(|degree: &f64| (1.0..=100.0).contains(degree))?,
        _ => return None,
    };
    Some((n, degree.min((n - 1) as f64)))
}

type TopologyResult = Result<Topology, TopologyError>;

/// Creates the nodes `n0`, `n1` and so on, with positions from `at`.
fn nodes(count: usize, at: impl Fn(usize) -> (f64, f64)) -> TopologyResult {
    let mut topology = Topology::default();
    for number in 0..count {
        topology.node(&format!("n{number}"))?;
        topology.nodes[number].position = Some(at(number));
    }
    Ok(topology)
}

fn with_links(
    nodes: TopologyResult,
    links: impl IntoIterator<Item = (usize, usize)>,
) -> TopologyResult {
    let mut topology = nodes?;
    for (a, b) in links {
        topology.link(Edge::between(a, b))?;
    }
    Ok(topology)
}

fn circle(count: usize) -> impl Fn(usize) -> (f64, f64) {
    move |number| {
        let angle = core::f64::consts::TAU * number as f64 / count as f64;
        (0.5 + 0.5 * angle.sin(), 0.5 - 0.5 * angle.cos())
    }
}

fn line(n: usize) -> TopologyResult {
    with_links(
        nodes(n, |at| (at as f64 / (n.max(2) - 1) as f64, 0.5)),
        (1..n).map(|at| (at - 1, at)),
    )
}

fn ring(n: usize) -> TopologyResult {
    with_links(nodes(n, circle(n)), (0..n).map(|at| (at, (at + 1) % n)))
}

fn star(n: usize) -> TopologyResult {
    let around = circle(n);
    let position = move |at: usize| if at == 0 { (0.5, 0.5) } else { around(at - 1) };
    with_links(nodes(n + 1, position), (1..=n).map(|at| (0, at)))
}

fn full(n: usize) -> TopologyResult {
    with_links(nodes(n, circle(n)), (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))))
}

fn grid(w: usize, h: usize) -> TopologyResult {
    let position = |at: usize| {
        ((at % w) as f64 / (w.max(2) - 1) as f64, (at / w) as f64 / (h.max(2) - 1) as f64)
    };
    let links = (0..w * h).flat_map(|at| {
        let right = ((at + 1) % w != 0).then_some((at, at + 1));
        let below = (at + w < w * h).then_some((at, at + w));
        [right, below].into_iter().flatten()
    });
    with_links(nodes(w * h, position), links)
}

fn tree(arity: usize, depth: usize) -> Option<TopologyResult> {
    let (mut count, mut level) = (1usize, 1usize);
    // Positions by node: level by level.
    let mut positions = vec![(0.5, 0.0)];
    for row in 1..=depth {
        level = level.checked_mul(arity)?;
        count = count.checked_add(level).filter(|count| *count <= super::NODES_MAX)?;
        let y = row as f64 / depth as f64;
        positions.extend((0..level).map(|at| ((at as f64 + 0.5) / level as f64, y)));
    }
    Some(with_links(nodes(count, |at| positions[at]), (1..count).map(|at| ((at - 1) / arity, at))))
}

fn erdos_renyi(n: usize, degree: f64, random: &mut Random) -> TopologyResult {
    let ppb = (1e9 * degree / (n - 1) as f64) as u32;
    let mut topology = nodes(n, circle(n))?;
    for a in 0..n {
        for b in a + 1..n {
            if random.chance(ppb) {
                topology.link(Edge::between(a, b))?;
            }
        }
    }
    connect_components(topology, random, |_, _| None)
}

fn waxman(n: usize, degree: f64, random: &mut Random) -> TopologyResult {
    let positions: Vec<(f64, f64)> = (0..n).map(|_| (random.unit(), random.unit())).collect();
    let mut topology = nodes(n, |at| positions[at])?;
    let distance = |a: usize, b: usize| {
        (positions[a].0 - positions[b].0).hypot(positions[a].1 - positions[b].1)
    };
    let delay = |a: usize, b: usize| {
        Some(((distance(a, b) * SQUARE_KM * NS_PER_KM / 1e4) as u64 + 1) * 10_000)
    };
    let weight =
        |a: usize, b: usize| (-distance(a, b) / (WAXMAN_BETA * core::f64::consts::SQRT_2)).exp();
    let pairs = || (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
    let sum: f64 = pairs().map(|(a, b)| weight(a, b)).sum();
    let scale = degree * n as f64 / 2.0 / sum;
    for (a, b) in pairs() {
        if random.unit() < scale * weight(a, b) {
            topology.link(Edge { delay_ns: delay(a, b), ..Edge::between(a, b) })?;
        }
    }
    connect_components(topology, random, delay)
}

fn scale_free(n: usize, links: usize, random: &mut Random) -> TopologyResult {
    let mut topology = nodes(n, circle(n))?;
    // Each node once per link: drawing from this list prefers nodes with many links.
    let mut ends: Vec<usize> = Vec::new();
    let first = links.min(n - 1);
    for a in 0..=first {
        for b in a + 1..=first {
            topology.link(Edge::between(a, b))?;
            ends.extend([a, b]);
        }
    }
    for node in first + 1..n {
        let mut targets: Vec<usize> = Vec::with_capacity(links);
        while targets.len() < links {
            let target = ends[random.below(ends.len() as u64) as usize];
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        for target in targets {
            topology.link(Edge::between(target, node))?;
            ends.extend([target, node]);
        }
    }
    Ok(topology)
}

/// Connects each component to a random node of the first one.
fn connect_components(
    mut topology: Topology,
    random: &mut Random,
    delay: impl Fn(usize, usize) -> Option<u64>,
) -> TopologyResult {
    let components = topology.components();
    let main: Vec<usize> = (0..components.len()).filter(|node| components[*node] == 0).collect();
    for (node, component) in components.iter().enumerate() {
        if *component as usize == node && node != 0 {
            let target = main[random.below(main.len() as u64) as usize];
            topology.link(Edge { delay_ns: delay(target, node), ..Edge::between(target, node) })?;
        }
    }
    Ok(topology)
}
