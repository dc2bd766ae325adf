//! `manager/routes`: a producer registers a prefix at one of a hundred name routers.
//!
//! Conditions: a grid of ten by ten services, each a backward router and a name router. Expansion
//! and plan are real and measured; a step is simulated and lasts `STEP_MS`, 16 at one time, as
//! the manager carries them out. The clock starts when the manager's sample shows the registration:
//! samples are taken each second by default, which comes on top.
//!
//! `black_holes`: after each single step, in ten orders within each wave, all routers that have a
//! route are followed by every next hop. The registration, and a move of the producer to the
//! opposite corner, must never lead to a router without a route. The model check of all networks of
//! up to five routers is a test of `nw-manage`.

use crate::manager::observe;
use crate::report::{Row, median};
use anyhow::{Result, ensure};
use nw_manage::plan::{Action, Plan};
use nw_manage::target::{Decisions, InstanceId, Registration};
use nw_manage::{Document, Target, expand, plan};
use nw_packet_types::random::splitmix64;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

const SIDE: usize = 10;
const PREFIX: &str = "/new";
/// Milliseconds of a change of an instance's graph and of the look that it is done; 7 to 13 were
/// measured with processes.
const STEP_MS: f64 = 20.0;
/// Steps of a wave that the manager carries out at one time.
const PARALLEL: usize = 16;
const RUNS: usize = 3;
const ORDERS: u64 = 10;

/// Measures the row.
///
/// # Errors
/// If the network can't be expanded, or the prefix is not reached by all routers in the end.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let document = Document::read("grid", "grid", &text()).map_err(anyhow::Error::msg)?;
    let target = |origin: Option<usize>| {
        let registrations = origin.map(|site| Registration {
            instance: InstanceId { name: format!("s{site}~1"), host: "here".to_owned() },
            element: format!("nr{site}"),
            prefix: PREFIX.to_owned(),
            cost: 0,
        });
        let decisions = Decisions {
            registrations: registrations.into_iter().collect(),
            ..Decisions::default()
        };
        expand(&document, &decisions, Path::new("/run/nw/grid"))
    };
    let [nowhere, first, last] = [None, Some(0), Some(SIDE * SIDE - 1)].map(target);
    let (nowhere, first, last) = (nowhere?, first?, last?);
    let (mut usable_ms, mut plan_ms) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let start = Instant::now();
        let wanted = target(Some(0))?;
        let made = plan(&wanted, &observe(&nowhere));
        let took_ms = start.elapsed().as_secs_f64() * 1e3;
        plan_ms.push(took_ms);
        usable_ms.push(took_ms + steps_ms(&made));
    }
    let mut holes = 0;
    let mut changes = 0;
    for (before, after, origins) in
        [(&nowhere, &first, [0, 0]), (&first, &last, [0, SIDE * SIDE - 1])]
    {
        let made = plan(after, &observe(before));
        ensure!(made.steps().count() >= SIDE * SIDE - 1, "all routers but the first change");
        for seed in 0..ORDERS {
            let (found, states) = follow(before, after, &made, origins, seed)?;
            holes += found;
            changes += states;
        }
    }
    ensure!(changes > 1_000, "{changes} states");
    Ok(vec![
        Row::new(row, "ms", &usable_ms).with_reference(median(&plan_ms)),
        Row::new(row, "black_holes", &[holes as f64]),
    ])
}

/// Returns how long the steps of a plan take, wave by wave.
fn steps_ms(made: &Plan) -> f64 {
    let waves = made.waves.iter().map(|wave| wave.steps.len().div_ceil(PARALLEL));
    waves.sum::<usize>() as f64 * STEP_MS
}

/// Next hops for the prefix by router: numbers of routers. Empty: no route.
type Hops = Vec<Vec<usize>>;

/// Carries a plan out in an order of its own within each wave. Returns the number of states with a
/// black hole, and the number of states.
fn follow(
    before: &Target,
    after: &Target,
    made: &Plan,
    origins: [usize; 2],
    seed: u64,
) -> Result<(usize, usize)> {
    let faces = peers(before);
    let read = |id: &InstanceId, graph: &str| next_hops(&faces, id, graph);
    let mut hops: Hops = vec![Vec::new(); SIDE * SIDE];
    for instance in &before.instances {
        hops[number(&instance.id)] = read(&instance.id, &instance.graph);
    }
    let (mut holes, mut states) = (0, 0);
    for wave in &made.waves {
        let mut steps: Vec<_> = wave.steps.iter().enumerate().collect();
        steps.sort_by_key(|(at, _)| splitmix64(seed << 32 | *at as u64));
        for (_, step) in steps {
            if let Action::SetGraph { instance, graph, .. } = &step.action {
                hops[number(instance)] = read(instance, graph);
                states += 1;
                holes += usize::from(has_black_hole(&hops, origins));
            }
        }
    }
    for instance in &after.instances {
        let at = number(&instance.id);
        ensure!(origins[1] == at || !hops[at].is_empty(), "{} has no route", instance.id);
    }
    Ok((holes, states))
}

/// Returns whether an Interest of a router with a route can reach one that has none and is no
/// origin, or go in a circle.
fn has_black_hole(hops: &Hops, origins: [usize; 2]) -> bool {
    // 0: not visited, 1: on the way, 2: arrives.
    fn arrives(hops: &Hops, origins: [usize; 2], at: usize, state: &mut [u8]) -> bool {
        if state[at] == 2 || origins.contains(&at) {
            return true;
        }
        if state[at] == 1 || hops[at].is_empty() {
            return false;
        }
        state[at] = 1;
        let all = hops[at].iter().all(|next| arrives(hops, origins, *next, state));
        state[at] = if all { 2 } else { 1 };
        all
    }
    let mut state = vec![0; hops.len()];
    (0..hops.len()).any(|at| !hops[at].is_empty() && !arrives(hops, origins, at, &mut state))
}

/// Returns the router at the other end of each face of a link.
fn peers(target: &Target) -> BTreeMap<(usize, String), usize> {
    let ends = target.links.iter().flat_map(|link| {
        let (from, to) = (number(&link.from.instance), number(&link.to.instance));
        [((from, link.from.face.clone()), to), ((to, link.to.face.clone()), from)]
    });
    ends.collect()
}

fn number(id: &InstanceId) -> usize {
    let digits: String = id.name.chars().filter(char::is_ascii_digit).collect();
    // `sN~1`: the last digit is the instance's.
    digits[..digits.len() - 1].parse().unwrap_or(0)
}

/// Returns the routers that a graph's route of the prefix leads to.
fn next_hops(faces: &BTreeMap<(usize, String), usize>, id: &InstanceId, graph: &str) -> Vec<usize> {
    let route = format!("\"{PREFIX} ");
    let routes = graph.lines().filter_map(|line| line.split_once(&route));
    let names = routes
        .filter_map(|(_, rest)| rest.split_once('"'))
        .flat_map(|(names, _)| names.split_whitespace().filter(|word| !word.starts_with("cost=")));
    names.filter_map(|face| faces.get(&(number(id), face.to_owned())).copied()).collect()
}

/// Returns the document: a grid of services with a backward router and a name router each.
fn text() -> String {
    let mut text = String::from("host here = process\n");
    for site in 0..SIDE * SIDE {
        let (x, y) = (site % SIDE, site / SIDE);
        let mut faces = vec![format!("in{site}")];
        // Writing to a string can't fail.
        let _ = writeln!(text, "face in{site} listens unix:///tmp/in{site}.sock");
        for (is_there, other) in [
            (x > 0, site.wrapping_sub(1)),
            (x + 1 < SIDE, site + 1),
            (y > 0, site.wrapping_sub(SIDE)),
            (y + 1 < SIDE, site + SIDE),
        ] {
            if is_there {
                let _ = writeln!(text, "face f{site}_{other}");
                faces.push(format!("f{site}_{other}"));
                if site < other {
                    let _ = writeln!(text, "link f{site}_{other} -> f{other}_{site}");
                }
            }
        }
        let _ = writeln!(
            text,
            "br{site} = backward_router(pending = 1024, dead_nonces = 1024)\n\
             nr{site} = name_router(prefixes = 64)\n\
             br{site}.interest -> nr{site}.interest -> faces\nnr{site}.data -> br{site}.data -> faces\n\
             nr{site}.nack -> br{site}.nack -> faces"
        );
        for face in &faces {
            let _ = writeln!(
                text,
                "{face} -> br{site}.interest\n{face} -> nr{site}.data\n{face} -> nr{site}.nack"
            );
        }
        let members: Vec<&str> = faces[1..].iter().map(String::as_str).collect();
        let _ = writeln!(text, "service s{site} {{ br{site}, nr{site}, {} }}", members.join(", "));
    }
    text
}
