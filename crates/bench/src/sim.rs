//! `sim/1000x1e7`: a thousand routers in virtual time with ten million packets of applications:
//! five million Interests and their Data.
//!
//! The reference is the same number of empty events through the same queue.

use crate::report::Row;
use anyhow::{Result, ensure};
use nw_sim::events::{EventKind, EventQueue};
use nw_sim::random::{Random, Stream};
use nw_sim::{Overrides, Scenario, Simulation};
use std::time::Instant;

/// Every node requests names of a catalogue, 500 times a second.
const SCENARIO: &str = r#"
[run]
duration_s = 10.5
expect = ["sent >= 4900000", "satisfied >= 0.999"]
[topology]
generate = "scale-free:1000:2"
[links]
delay_ms = 1
rate_mbps = 10000
[routers]
store_packets = 200
[[producer]]
prefix = "/data"
at = ["random:10"]
freshness_ms = 60000
[[consumer]]
kind = "zipf"
at = ["all"]
prefix = "/data"
rate_per_s = 500
names = 10000
stop_s = 10
"#;

/// Pending events in the reference.
const EVENTS_PENDING: u64 = 6000;

/// Measures the row.
///
/// # Errors
/// If a packet is lost or an Interest is not answered.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let plan = Scenario::parse("the row's scenario", SCENARIO, None, &Overrides::default())?;
    let start = Instant::now();
    let mut simulation = Simulation::new(plan)?;
    simulation.run()?;
    let took_s = start.elapsed().as_secs_f64();
    let rss_mib = nw_experiments::plane_load::own_resident_kib() as f64 / 1024.0;
    let outcome = nw_sim::Outcome::collect(&simulation);
    ensure!(outcome.is_good(), "{:?} {:?}", outcome.violations, outcome.verdicts);
    let totals = &outcome.totals;
    let applications: u64 = outcome.applications.iter().map(|row| row.sent).sum();
    let answered: u64 = outcome
        .applications
        .iter()
        .filter(|row| row.kind != "producer")
        .map(|row| row.satisfied)
        .sum();
    ensure!(
        applications > 0 && answered + totals.sent >= 9_800_000,
        "too few packets: {answered} and {}",
        totals.sent
    );
    let empty_s = empty_loop(totals.events);
    let packets = totals.packets as f64;
    Ok(vec![
        Row::new(row, "seconds", &[took_s]),
        // Every hop counts: packets that links and applications handed over.
        Row::new(row, "packets_per_s", &[packets / took_s]),
        Row::new(row, "events_per_s", &[totals.events as f64 / took_s])
            .with_reference(totals.events as f64 / empty_s),
        Row::new(row, "hop_packets", &[packets]),
        Row::new(row, "rss_mib", &[rss_mib]),
    ])
}

fn empty_loop(events: u64) -> f64 {
    let (mut queue, mut random) = (EventQueue::default(), Random::new(1, Stream::Topology, 0));
    (0..EVENTS_PENDING)
        .for_each(|number| queue.schedule(random.below(1_000_000), EventKind::Node(number as u32)));
    let start = Instant::now();
    while queue.scheduled_count() < events {
        let Some((now_ns, what)) = queue.next(u64::MAX) else { break };
        queue.schedule(now_ns + random.below(1_000_000), std::hint::black_box(what));
    }
    start.elapsed().as_secs_f64()
}
