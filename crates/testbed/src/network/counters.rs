//! The thread that reads the counters of the routers.

use nw_api::counters::split_done;
use nw_api::management::client::{decode_cs_info, decode_items, decode_status};
use nw_api::management::{Dataset, DropCount};
use nw_app::control::{self, ControlError};
use nw_app::{Client, FaceUri};
use nw_sim::RunPlan;
use nw_wire::Error;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Shortest interval between two readings, which load the routers.
const INTERVAL_MIN: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(20);

/// Counters of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouterCounters {
    /// Content store hits.
    pub cs_hits: u64,
    /// Content store misses.
    pub cs_misses: u64,
    /// Pending Interests that were satisfied.
    pub satisfied: u64,
    /// Pending Interests that were not.
    pub unsatisfied: u64,
    /// Dropped packets by reason.
    pub drops: BTreeMap<String, u64>,
}

impl RouterCounters {
    fn add(&mut self, other: &RouterCounters) {
        self.cs_hits += other.cs_hits;
        self.cs_misses += other.cs_misses;
        self.satisfied += other.satisfied;
        self.unsatisfied += other.unsatisfied;
        for (reason, count) in &other.drops {
            *self.drops.entry(reason.clone()).or_default() += count;
        }
    }

    const fn lookups(&self) -> u64 {
        self.cs_hits + self.cs_misses
    }
}

/// A router and its counters, also those from before restarts as far as they were read.
struct Source {
    uri: FaceUri,
    client: Option<Client>,
    earlier: RouterCounters,
    latest: RouterCounters,
}

impl Source {
    fn total(&self) -> RouterCounters {
        let mut total = self.earlier.clone();
        total.add(&self.latest);
        total
    }

    /// Reads the counters. A router that does not answer keeps its last ones.
    fn read(&mut self) {
        if self.client.is_none() {
            self.client = Client::connect(&self.uri).ok();
        }
        let Some(client) = &mut self.client else { return };
        match read(client) {
            Ok(counters) => {
                let has_restarted = counters.lookups() < self.latest.lookups()
                    || counters.satisfied < self.latest.satisfied;
                if has_restarted {
                    let latest = core::mem::take(&mut self.latest);
                    self.earlier.add(&latest);
                }
                self.latest = counters;
            }
            Err(_) => self.client = None,
        }
    }
}

fn read(client: &mut Client) -> Result<RouterCounters, ControlError> {
    let failed =
        |what: Dataset| move |error: Error| ControlError::Answer { what: what.to_string(), error };
    let content = control::dataset(client, Dataset::CsInfo, None)?;
    let store = decode_cs_info(&content).map_err(failed(Dataset::CsInfo))?;
    let content = control::dataset(client, Dataset::StatusGeneral, None)?;
    let status = decode_status(&content).map_err(failed(Dataset::StatusGeneral))?;
    let content = control::dataset(client, Dataset::StatusDrops, None)?;
    let counts: Vec<DropCount> = decode_items(&content).map_err(failed(Dataset::StatusDrops))?;
    let (dropped, _) = split_done(counts);
    let dropped = dropped.into_iter().filter(|drop| drop.count > 0);
    Ok(RouterCounters {
        cs_hits: store.hits,
        cs_misses: store.misses,
        satisfied: status.satisfied_interests,
        unsatisfied: status.unsatisfied_interests,
        drops: dropped.map(|drop| (drop.reason, drop.count)).collect(),
    })
}

/// Sums over all routers.
#[derive(Debug, Default)]
struct Sums {
    cs_hits: AtomicU64,
    cs_misses: AtomicU64,
    has_ended: AtomicBool,
}

/// The running thread.
#[derive(Debug)]
pub struct CounterThread {
    sums: Arc<Sums>,
    thread: Option<JoinHandle<Vec<RouterCounters>>>,
}

impl CounterThread {
    /// Starts reading the counters of the routers at `uris` at the scenario's points of time.
    pub fn start(uris: &[FaceUri], plan: &RunPlan) -> Self {
        let run = &plan.scenario.run;
        let interval = Duration::from_nanos(run.duration_s.0 / u64::from(run.samples));
        let interval = interval.max(INTERVAL_MIN);
        let sums = Arc::new(Sums::default());
        let (shared, uris) = (Arc::clone(&sums), uris.to_vec());
        let thread = std::thread::spawn(move || read_until_end(uris, interval, &shared));
        CounterThread { sums, thread: Some(thread) }
    }

    /// Returns the hits and misses of all content stores so far, as last read.
    pub fn cache(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.sums.cs_hits), load(&self.sums.cs_misses))
    }

    /// Reads the counters a last time and returns them, by node.
    pub fn finish(mut self) -> Vec<RouterCounters> {
        self.sums.has_ended.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for CounterThread {
    fn drop(&mut self) {
        self.sums.has_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn read_until_end(uris: Vec<FaceUri>, interval: Duration, sums: &Sums) -> Vec<RouterCounters> {
    let source = |uri| Source {
        uri,
        client: None,
        earlier: RouterCounters::default(),
        latest: RouterCounters::default(),
    };
    let mut sources: Vec<Source> = uris.into_iter().map(source).collect();
    let mut due = Instant::now() + interval;
    loop {
        let is_last = sums.has_ended.load(Ordering::Relaxed);
        if !is_last && Instant::now() < due {
            std::thread::sleep(STEP);
            continue;
        }
        due = Instant::now() + interval;
        let mut totals = Vec::with_capacity(sources.len());
        for source in &mut sources {
            source.read();
            totals.push(source.total());
        }
        let sum = |count: fn(&RouterCounters) -> u64| totals.iter().map(count).sum();
        sums.cs_hits.store(sum(|total| total.cs_hits), Ordering::Relaxed);
        sums.cs_misses.store(sum(|total| total.cs_misses), Ordering::Relaxed);
        if is_last {
            return totals;
        }
    }
}
