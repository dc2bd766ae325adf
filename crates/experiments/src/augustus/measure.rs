//! One point: a plane per thread, each bound to a processor, with packets from memory.
//!
//! Each thread builds its own tables after it is bound, so that they are in near memory. The FIB is
//! whole in every thread; names are divided by hash, as between shards of a router. Filling the
//! receive buffers, the work of a network card, is not timed.

use super::cache_counters::CacheCounters;
use crate::plane_load::{Host, Load, Options, ROUTES_OF_THE_ROUTER};
use nw_graph::Engine;
use nw_router::plane::Plane;
use nw_tables::fib::FibConfig;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Names between two looks at the end of the measurement.
const NAMES_PER_TURN: usize = 4096;
/// Time between two looks at an interruption.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the prefixes of a FIB of this size. The largest one has some fewer, as a FIB can't be
/// configured larger and the router has routes of its own.
fn prefixes(log2: u32) -> u64 {
    (1 << log2).min((FibConfig::PREFIXES_MAX - ROUTES_OF_THE_ROUTER) as u64)
}

/// What forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostKind {
    /// The fused plane of a router: the paper's standalone version.
    Standalone,
    /// The same elements in a graph: the paper's modular version.
    Graph,
}

impl HostKind {
    /// Both, in the paper's order.
    pub const ALL: [HostKind; 2] = [HostKind::Standalone, HostKind::Graph];

    /// Returns the name of the version.
    pub const fn as_str(self) -> &'static str {
        match self {
            HostKind::Standalone => "standalone",
            HostKind::Graph => "graph",
        }
    }
}

/// A point to measure.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) host: HostKind,
    /// The processor of each thread.
    pub(super) cpus: Vec<usize>,
    pub(super) fib_log2: u32,
    /// Pending Interests of all threads.
    pub(super) pending: u64,
    pub(super) time: Duration,
}

/// Result of a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// Data per second of all threads; as many Interests were forwarded.
    pub(super) data_per_s: f64,
    /// Time of a thread per packet.
    pub(super) ns_per_packet: f64,
    /// Share of the time in which threads had their processors. Below 1, other programs or other
    /// threads had them.
    pub(super) processor_share: f64,
    pub(super) cache_miss_ratio: Option<f64>,
}

/// Sums of one thread.
#[derive(Clone, Copy, Debug)]
struct ThreadTimes {
    names: usize,
    /// Time of forwarding.
    forwarding: Duration,
    wall: Duration,
    processor: Duration,
}

/// What the threads share.
struct Shared {
    ready: Barrier,
    start: Barrier,
    stop: AtomicBool,
    ids: Mutex<Vec<u32>>,
}

/// Measures a point. `None` if it was interrupted.
pub(super) fn measure(
    case: &Case,
    counters: Option<&CacheCounters>,
    is_interrupted: &dyn Fn() -> bool,
) -> Option<Measured> {
    match case.host {
        HostKind::Standalone => measure_in::<Plane>(case, counters, is_interrupted),
        HostKind::Graph => measure_in::<Engine>(case, counters, is_interrupted),
    }
}

fn measure_in<H: Host>(
    case: &Case,
    counters: Option<&CacheCounters>,
    is_interrupted: &dyn Fn() -> bool,
) -> Option<Measured> {
    let threads = case.cpus.len();
    let shared = Shared {
        ready: Barrier::new(threads + 1),
        start: Barrier::new(threads + 1),
        stop: AtomicBool::new(false),
        ids: Mutex::new(Vec::new()),
    };
    let (times, cache_miss_ratio) = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                let shared = &shared;
                scope.spawn(move || run::<H>(case, number, shared))
            })
            .collect();
        shared.ready.wait();
        let ids = shared.ids.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let counting = counters.and_then(|counters| counters.start(&ids));
        shared.start.wait();
        let end = Instant::now() + case.time;
        while Instant::now() < end && !is_interrupted() {
            thread::sleep(POLL_INTERVAL.min(case.time));
        }
        let ratio = counting.and_then(super::cache_counters::Counting::end);
        shared.stop.store(true, Ordering::Relaxed);
        let join = |thread: thread::ScopedJoinHandle<'_, ThreadTimes>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        (running.into_iter().map(join).collect::<Vec<_>>(), ratio)
    });
    if is_interrupted() {
        return None;
    }
    let rate = |times: &ThreadTimes| times.names as f64 / times.forwarding.as_secs_f64().max(1e-9);
    let sum = |value: fn(&ThreadTimes) -> f64| times.iter().map(value).sum::<f64>();
    Some(Measured {
        data_per_s: times.iter().map(rate).sum(),
        ns_per_packet: sum(|t| t.forwarding.as_nanos() as f64) / (2.0 * sum(|t| t.names as f64)),
        processor_share: sum(|t| t.processor.as_secs_f64()) / sum(|t| t.wall.as_secs_f64()),
        cache_miss_ratio,
    })
}

/// Runs one thread: builds its tables, waits for the others, and forwards until the end.
fn run<H: Host>(case: &Case, number: usize, shared: &Shared) -> ThreadTimes {
    let mut set = CpuSet::new();
    set.set(case.cpus[number]);
    // The processor was allowed when the placement was made. If it is gone, another one serves.
    let _ = sched_setaffinity(None, &set);
    let options =
        Options { prefixes: prefixes(case.fib_log2), pending: case.pending, ..Options::default() };
    let mut load = Load::<H>::of_shard(options, number, case.cpus.len());
    let turn = NAMES_PER_TURN.min(load.count());
    load.part(turn);
    let id = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    shared.ids.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(id);
    shared.ready.wait();
    shared.start.wait();
    let (start, before) = (Instant::now(), thread_time());
    let (mut names, mut forwarding) = (0, Duration::ZERO);
    while names == 0 || !shared.stop.load(Ordering::Relaxed) {
        let (interests, data) = load.part(turn);
        forwarding += interests + data;
        names += turn;
    }
    let processor = thread_time().saturating_sub(before);
    ThreadTimes { names, forwarding, wall: start.elapsed(), processor }
}

/// Returns the processor time of this thread.
fn thread_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_fib_and_the_routes_of_a_router_fit_into_one_that_elements_accept() {
        assert_eq!(prefixes(20), 1 << 20);
        assert_eq!(prefixes(26) as usize + ROUTES_OF_THE_ROUTER, FibConfig::PREFIXES_MAX);
    }
}
