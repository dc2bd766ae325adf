//! The rows of the in-memory plane.

use super::{Link, Options, measure, shards};
use crate::report::{Row, median};
use core::time::Duration;
use nw_experiments::plane_load::{Bench, Host, Load, packets};
use nw_graph::Engine;
use nw_packet_types::random::splitmix64;
use nw_router::plane::{BATCH, Plane};

/// Powers of two of FIB entries that the curve covers.
const SIZES_LOG2: [u32; 5] = [10, 14, 18, 22, 26];

/// Measures a row or a family of rows. Returns none for an unknown name.
pub fn run(row: &str) -> Vec<Row> {
    let options = Options::default();
    match row {
        "forward/memory/fib1e4" => {
            forward(row, Options { prefixes: 10_000, pending: 10_000, ..options })
        }
        "forward/memory/fib1e6" => forward(row, options),
        "forward/memory/fib2p26" => {
            forward(row, Options { prefixes: 1 << 26, rounds: 3, ..options })
        }
        "forward/memory/headers" => forward(row, Options { link: Link::Headers, ..options }),
        "forward/memory/no_tokens" => forward(row, Options { link: Link::NoTokens, ..options }),
        "forward/memory/content1k" => forward(row, Options { content_len: 1000, ..options }),
        "forward/memory/shuffled" => forward(row, Options { shuffled: true, ..options }),
        "forward/memory/worst" => {
            let options =
                Options { shuffled: true, link: Link::Headers, content_len: 1000, ..options };
            forward(row, options)
        }
        "forward/memory/pit1e7" => pit(row, options),
        "forward/memory/churn" => churn(row, options),
        "forward/memory/curve" => curve(row, options),
        "graph/memory" => graph(row, options),
        "shards/2" => shards::two(row, options),
        "cs_hit/memory" => cs_hit(row, options),
        "cs_hit/memory/random" => cs_hit(row, Options { shuffled: true, ..options }),
        _ => Vec::new(),
    }
}

/// Measures forwarding, against the same without prefetching.
fn forward(row: &str, options: Options) -> Vec<Row> {
    let with = measure(options);
    let without = measure(Options { prefetch: false, rounds: 3, ..options });
    vec![
        Row::new(row, "ns_per_packet", &with.packet_ns).with_reference(median(&without.packet_ns)),
        Row::new(row, "ns_per_interest", &with.interest_ns),
        Row::new(row, "ns_per_data", &with.data_ns),
        Row::new(row, "cycles_per_packet", &with.packet_cycles)
            .with_reference(median(&without.packet_cycles)),
        Row::new(row, "interest_bytes", &[with.len.0]),
        Row::new(row, "data_bytes", &[with.len.1]),
        Row::new(row, "load_ns_per_prefix", &[with.loading.ns]),
        Row::new(row, "resident_bytes_per_prefix", &[with.loading.bytes]),
    ]
}

/// Measures ten million pending Interests against a hundred thousand.
fn pit(row: &str, options: Options) -> Vec<Row> {
    let few = measure(Options { pending: 100_000, rounds: 15, ..options });
    let many = measure(Options { pending: 10_000_000, rounds: 2, ..options });
    let reference = median(&few.packet_ns);
    let ratios: Vec<f64> = many.packet_ns.iter().map(|ns| ns / reference).collect();
    vec![
        Row::new(row, "ratio_to_few_pending", &ratios),
        Row::new(row, "ns_per_packet", &many.packet_ns).with_reference(reference),
    ]
}

/// Measures ten thousand FIB changes a second (a batch takes some 10 µs) against none.
fn churn(row: &str, options: Options) -> Vec<Row> {
    let mut quiet = Load::<Plane>::new(options, options.cached(), options.numbers());
    let (interests, data) = quiet.lap();
    let batch_us =
        (interests + data).as_secs_f64() * 1e6 / (2 * quiet.count()) as f64 * BATCH as f64;
    let changing =
        Options { batches_per_change: (100.0 / batch_us).round().max(1.0) as u64, ..options };
    let mut busy = Load::<Plane>::new(changing, options.cached(), options.numbers());
    let taken = alternate(&mut quiet, &mut busy);
    vec![
        Row::new(row, "ratio_to_quiet", &taken.ratios),
        Row::new(row, "ns_per_packet", &taken.other_ns).with_reference(median(&taken.one_ns)),
    ]
}

/// Measures by number of prefixes and by depth, with and without prefetching.
fn curve(row: &str, options: Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for depth in [4, 8, 16] {
        for power in SIZES_LOG2 {
            let options = Options {
                prefixes: 1 << power,
                pending: 200_000,
                rounds: 3,
                components: (depth, depth),
                ..options
            };
            let with = measure(options);
            let without = measure(Options { prefetch: false, rounds: 1, ..options });
            let name = format!("{row}/fib2p{power}/depth{depth}");
            rows.push(
                Row::new(name, "ns_per_packet", &with.packet_ns)
                    .with_reference(median(&without.packet_ns)),
            );
        }
    }
    rows
}

/// Number of passes of two hosts over all names, alternately.
const PASSES: usize = 7;
/// Names per turn of one host: some milliseconds, so that changes of the machine's speed affect
/// both.
const NAMES_PER_TURN: usize = 32_768;

/// Times of two hosts for the same load, by pass.
#[derive(Default)]
struct Alternation {
    /// Nanoseconds per packet.
    one_ns: Vec<f64>,
    other_ns: Vec<f64>,
    /// Time of the second host divided by that of the first.
    ratios: Vec<f64>,
}

fn alternate<A: Host, B: Host>(one: &mut Load<A>, other: &mut Load<B>) -> Alternation {
    let names = one.count();
    let both = |(interests, data): (Duration, Duration)| interests + data;
    let ns_per_packet = |time: Duration| time.as_nanos() as f64 / (2 * names) as f64;
    one.lap();
    other.lap();
    let mut taken = Alternation::default();
    for _ in 0..PASSES {
        let (mut ones, mut others) = (Duration::ZERO, Duration::ZERO);
        for from in (0..names).step_by(NAMES_PER_TURN) {
            let turn = NAMES_PER_TURN.min(names - from);
            ones += both(one.part(turn));
            others += both(other.part(turn));
        }
        taken.one_ns.push(ns_per_packet(ones));
        taken.other_ns.push(ns_per_packet(others));
        taken.ratios.push(others.as_secs_f64() / ones.as_secs_f64());
    }
    taken
}

/// Measures the standard router as a graph, against the fused plane.
fn graph(row: &str, options: Options) -> Vec<Row> {
    let mut fused = Load::<Plane>::new(options, options.cached(), options.numbers());
    let mut graph = Load::<Engine>::new(options, options.cached(), options.numbers());
    let taken = alternate(&mut graph, &mut fused);
    vec![
        Row::new(row, "ns_per_packet", &taken.one_ns).with_reference(median(&taken.other_ns)),
        Row::new(row, "ratio_to_fused", &taken.ratios),
    ]
}

/// Measures Interests that the content store answers, in order of insertion or at random.
fn cs_hit(row: &str, options: Options) -> Vec<Row> {
    let count = 100_000;
    let options = Options { pending: count / 2, prefixes: 10_000, ..options };
    let (interests, data) = packets(&options, options.numbers());
    let mut bench = Bench::<Plane>::new(options, count as usize);
    let inserted: Vec<u32> = (0..count as u32).collect();
    for names in inserted.chunks(BATCH) {
        bench.interests(&interests, names);
        bench.data(&data, names);
    }
    let mut order = inserted;
    if options.shuffled {
        order.sort_unstable_by_key(|name| splitmix64(u64::from(*name)));
    }
    let mut runs = Vec::new();
    for _ in 0..20 {
        let took: Duration = order.chunks(BATCH).map(|names| bench.hits(&interests, names)).sum();
        runs.push(took.as_nanos() as f64 / count as f64);
    }
    vec![Row::new(row, "ns_per_exchange", &runs)]
}
