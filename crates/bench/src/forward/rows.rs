//! The rows over the in-memory plane.

use super::{Bench, Host, Load, Options, measure, packets, shards};
use crate::report::{Row, median};
use core::time::Duration;
use nw_graph::Engine;
use nw_router::plane::{BATCH, Plane};

/// Prefixes, or pending Interests, that the rows compare.
const CURVE: [u32; 5] = [10, 14, 18, 22, 26];

/// A row, or a family of rows. Empty when there is none of this name.
pub fn run(row: &str) -> Vec<Row> {
    let usual = Options::default();
    match row {
        "forward/memory/fib1e4" => forward(row, Options { prefixes: 10_000, pending: 10_000, ..usual }, None),
        "forward/memory/fib1e6" => forward(row, usual, Some(100.0)),
        "forward/memory/fib2p26" => {
            forward(row, Options { prefixes: 1 << 26, rounds: 3, ..usual }, Some(130.0))
        }
        "forward/memory/pit1e7" => pit(row, usual),
        "forward/memory/churn" => churn(row, usual),
        "forward/memory/curve" => curve(row, usual),
        "graph/memory" => graph(row, usual),
        "shards/2" => shards::two(row, usual),
        "cs_hit/memory" => cs_hit(row, usual),
        _ => Vec::new(),
    }
}

/// Beside the same without prefetching.
fn forward(row: &str, options: Options, bound_ns: Option<f64>) -> Vec<Row> {
    let with = measure(options);
    let without = measure(Options { prefetch: false, rounds: 3, ..options });
    let bound = |row: Row| match bound_ns {
        Some(bound_ns) => row.at_most(bound_ns),
        None => row,
    };
    vec![
        bound(Row::new(row, "ns_per_packet", &with.packet_ns)).beside(median(&without.packet_ns)),
        bound(Row::new(row, "ns_per_interest", &with.interest_ns)),
        bound(Row::new(row, "ns_per_data", &with.data_ns)),
        Row::new(row, "cycles_per_packet", &with.packet_cycles).beside(median(&without.packet_cycles)),
        Row::new(row, "interest_octets", &[with.len.0]),
        Row::new(row, "data_octets", &[with.len.1]),
        Row::new(row, "load_ns_per_prefix", &[with.loading.ns]),
        Row::new(row, "resident_octets_per_prefix", &[with.loading.octets]),
    ]
}

/// Ten million pending Interests beside a hundred thousand.
fn pit(row: &str, usual: Options) -> Vec<Row> {
    let few = measure(Options { pending: 100_000, rounds: 15, ..usual });
    let many = measure(Options { pending: 10_000_000, rounds: 2, ..usual });
    let reference = median(&few.packet_ns);
    vec![Row::new(row, "ns_per_packet", &many.packet_ns).beside(reference).at_most((1.5 * reference).round())]
}

/// Ten thousand changes of the FIB a second (a batch takes some ten microseconds) beside none.
fn churn(row: &str, usual: Options) -> Vec<Row> {
    let mut quiet = Load::<Plane>::new(usual, usual.cached(), usual.numbers());
    let (interests, data) = quiet.lap();
    let batch_us = (interests + data).as_secs_f64() * 1e6 / (2 * quiet.count()) as f64 * BATCH as f64;
    let changing = Options { batches_per_change: (100.0 / batch_us).round().max(1.0) as u64, ..usual };
    let mut busy = Load::<Plane>::new(changing, usual.cached(), usual.numbers());
    let taken = in_turn(&mut quiet, &mut busy);
    vec![
        Row::new(row, "ratio_to_quiet", &taken.ratios).at_most(1.05),
        Row::new(row, "ns_per_packet", &taken.other_ns).beside(median(&taken.one_ns)),
    ]
}

/// By number of prefixes and by depth, with and without prefetching.
fn curve(row: &str, usual: Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for depth in [4, 8, 16] {
        for power in CURVE {
            let options = Options {
                prefixes: 1 << power,
                pending: 200_000,
                rounds: 3,
                components: (depth, depth),
                ..usual
            };
            let with = measure(options);
            let without = measure(Options { prefetch: false, rounds: 1, ..options });
            let name = format!("{row}/fib2p{power}/depth{depth}");
            rows.push(Row::new(name, "ns_per_packet", &with.packet_ns).beside(median(&without.packet_ns)));
        }
    }
    rows
}

/// Times that two hosts go over all names, in turn.
const LAPS: usize = 7;
/// Names that one of them takes before it is the other's turn: some milliseconds, so that a machine that becomes faster or slower does so to both.
const TURN: usize = 32_768;

/// What two hosts took for the same load, by lap.
#[derive(Default)]
struct InTurn {
    /// Nanoseconds per packet.
    one_ns: Vec<f64>,
    other_ns: Vec<f64>,
    /// The other's time, where the one's is 1.
    ratios: Vec<f64>,
}

fn in_turn<A: Host, B: Host>(one: &mut Load<A>, other: &mut Load<B>) -> InTurn {
    let names = one.count();
    let both = |(interests, data): (Duration, Duration)| interests + data;
    let ns_per_packet = |time: Duration| time.as_nanos() as f64 / (2 * names) as f64;
    one.lap();
    other.lap();
    let mut taken = InTurn::default();
    for _ in 0..LAPS {
        let (mut ones, mut others) = (Duration::ZERO, Duration::ZERO);
        for from in (0..names).step_by(TURN) {
            let turn = TURN.min(names - from);
            ones += both(one.part(turn));
            others += both(other.part(turn));
        }
        taken.one_ns.push(ns_per_packet(ones));
        taken.other_ns.push(ns_per_packet(others));
        taken.ratios.push(others.as_secs_f64() / ones.as_secs_f64());
    }
    taken
}

/// The standard router as a graph beside the fused one.
fn graph(row: &str, usual: Options) -> Vec<Row> {
    let mut fused = Load::<Plane>::new(usual, usual.cached(), usual.numbers());
    let mut graph = Load::<Engine>::new(usual, usual.cached(), usual.numbers());
    let taken = in_turn(&mut graph, &mut fused);
    vec![
        Row::new(row, "ratio_to_fused", &taken.ratios).at_least(0.9),
        Row::new(row, "ns_per_packet", &taken.one_ns).beside(median(&taken.other_ns)),
    ]
}

/// Every Interest is answered by the content store: an exchange is an Interest in, a Data out.
fn cs_hit(row: &str, usual: Options) -> Vec<Row> {
    let options = Options { pending: 50_000, prefixes: 10_000, ..usual };
    let (interests, data) = packets(&options, options.numbers());
    let count = 2 * options.pending as usize;
    let mut bench = Bench::<Plane>::new(options, count);
    for start in (0..count).step_by(BATCH) {
        let many = BATCH.min(count - start);
        bench.interests(&interests, start, many);
        bench.data(&data, start, many);
    }
    let mut runs = Vec::new();
    for _ in 0..20 {
        let mut took = core::time::Duration::ZERO;
        for start in (0..count).step_by(BATCH) {
            took += bench.hits(&interests, start, BATCH.min(count - start));
        }
        runs.push(took.as_nanos() as f64 / count as f64);
    }
    vec![Row::new(row, "ns_per_exchange", &runs).at_most(100.0)]
}
