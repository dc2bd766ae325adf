//! `shards/2`: two shared-nothing planes with a thread each, against one plane that does the work
//! of both.
//!
//! Each plane is set up as a shard of a router: the whole FIB, half of the other tables, and the
//! names that its hash selects. The pair is done when the later one is. All of that time counts,
//! including filling the receive buffers, so the figure is elapsed time; the processor time of the
//! threads is reported too, for machines with other load.

use super::Options;
use crate::report::{Row, median};
use nw_experiments::plane_load::{Load, names};
use nw_name::hash::shard_of;
use nw_name::{HashKey, Name};
use nw_packet_types::random::splitmix64;
use nw_router::plane::Plane;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

const SHARDS: usize = 2;
/// Repetitions, alternately with one plane and two.
const RUNS: usize = 9;
/// Number of names, and of hash keys, for the measurement of balance.
const SPREAD: u64 = 100_000;
const KEYS: u64 = 101;

/// Times of one pass.
struct PassTimes {
    /// Time from the common start to the end of the last plane.
    wall: Duration,
    /// Processor time of the thread that used most.
    cpu: Duration,
}

/// Measures the rows.
pub fn two(row: &str, options: Options) -> Vec<Row> {
    let mut rows = spread(row, &options);
    if thread::available_parallelism().map_or(1, usize::from) < SHARDS {
        eprintln!("{row}: speedup is left out, as two threads need two processors");
        return rows;
    }
    let mut alone = vec![Load::<Plane>::new(options, options.cached(), options.numbers())];
    let mut pair: Vec<Load<Plane>> =
        (0..SHARDS).map(|shard| Load::of_shard(options, shard, SHARDS)).collect();
    let packets = 2 * alone[0].count();
    let fed = 2 * pair.iter().map(Load::count).sum::<usize>();
    // The first passes find cold tables.
    lap(&mut alone);
    lap(&mut pair);
    let (mut speedup, mut by_cpu, mut alone_ns, mut pair_ns) = (vec![], vec![], vec![], vec![]);
    for _ in 0..RUNS {
        let (one, two) = (lap(&mut alone), lap(&mut pair));
        let per_packet = |time: Duration, packets: usize| time.as_nanos() as f64 / packets as f64;
        alone_ns.push(per_packet(one.wall, packets));
        pair_ns.push(per_packet(two.wall, fed));
        speedup.push(per_packet(one.wall, packets) / per_packet(two.wall, fed));
        by_cpu.push(per_packet(one.cpu, packets) / per_packet(two.cpu, fed));
    }
    rows.extend([
        Row::new(row, "speedup", &speedup),
        Row::new(row, "speedup_by_processor_time", &by_cpu),
        Row::new(row, "ns_per_packet", &pair_ns).with_reference(median(&alone_ns)),
    ]);
    rows
}

/// Runs each load once, all in parallel.
fn lap(loads: &mut [Load<Plane>]) -> PassTimes {
    let ready = Barrier::new(loads.len());
    let times: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = loads
            .iter_mut()
            .map(|load| {
                scope.spawn(|| {
                    ready.wait();
                    let (start, cpu) = (Instant::now(), thread_cpu());
                    load.lap();
                    (start, Instant::now(), thread_cpu().saturating_sub(cpu))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a load does not fail")).collect()
    });
    let start = times.iter().map(|time| time.0).min().expect("there is a load");
    let end = times.iter().map(|time| time.1).max().expect("there is a load");
    let cpu = times.iter().map(|time| time.2).max().expect("there is a load");
    PassTimes { wall: end - start, cpu }
}

/// Returns the processor time of this thread.
fn thread_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Measures the balance of shards over many hash keys: for mixed names, and for the segments of one
/// download.
fn spread(row: &str, options: &Options) -> Vec<Row> {
    let file: Name = "/video/file/v=1".parse().expect("a name");
    let various: Vec<Name> = (0..SPREAD).map(|number| names(number, options).1).collect();
    let download: Vec<Name> = (0..SPREAD).map(|number| file.clone().with_segment(number)).collect();
    let mut rows = Vec::new();
    for (row, names) in [(row.to_owned(), various), (format!("{row}/download"), download)] {
        let shares: Vec<f64> =
            (0..KEYS).map(|number| busiest_share(&key(number), &names)).collect();
        let worst = shares.iter().copied().fold(0.0, f64::max);
        rows.push(Row::new(&row, "busiest_share", &shares));
        rows.push(Row::new(&row, "busiest_share_by_worst_key", &[worst]));
    }
    rows
}

/// Returns the share of names of the busiest shard.
fn busiest_share(key: &HashKey, names: &[Name]) -> f64 {
    let mut counts = [0usize; SHARDS];
    for name in names {
        counts[shard_of(key.name(name.as_ref()), SHARDS)] += 1;
    }
    counts.into_iter().max().unwrap_or(0) as f64 / names.len() as f64
}

/// Returns a hash key, the same in each run.
fn key(number: u64) -> HashKey {
    HashKey::new(core::array::from_fn(|word| splitmix64(4 * number + word as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_partition_names_evenly() {
        let options = Options { prefixes: 1000, pending: 1000, ..Options::default() };
        let shares: Vec<Load<Plane>> =
            (0..SHARDS).map(|shard| Load::of_shard(options, shard, SHARDS)).collect();
        let counts: Vec<usize> = shares.iter().map(Load::count).collect();
        // An odd name is left out of each.
        assert!((1998..=2000).contains(&counts.iter().sum::<usize>()), "{counts:?}");
        assert!(counts.iter().all(|count| *count > 850), "{counts:?}");
    }

    #[test]
    fn two_planes_forward_all_packets() {
        let options = Options { prefixes: 500, pending: 500, ..Options::default() };
        let mut pair: Vec<Load<Plane>> =
            (0..SHARDS).map(|shard| Load::of_shard(options, shard, SHARDS)).collect();
        for _ in 0..2 {
            // It panics unless each Interest is forwarded and each Data delivered.
            let took = lap(&mut pair);
            assert!(took.wall > Duration::ZERO);
        }
    }
}
