//! `cluster/failover`: two balancers, one of which has the addresses and fails while downloads run:
//! the length of the gap, and failed downloads.

use super::name;
use crate::report::Row;
use anyhow::{Context, Result, ensure};
use nw_testbed::{Cluster, FetchPlan, LabError, Plan, PublishPlan};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DOWNLOADS: usize = 3;
const RUNS: usize = 3;
/// Rate of each consumer's link, so that downloads last longer than the failover.
const RATE_MBIT: f64 = 40.0;
const BYTES: u64 = 60 << 20;
/// Time that downloads run before the balancer fails.
const TIME_BEFORE: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(10);
/// Bytes per step that count as data flow, above the traffic of health checks.
const FLOW_BYTES_MIN: u64 = 20_000;
/// A consumer that received data within this time is not cut off.
const FLOW_TIMEOUT: Duration = Duration::from_millis(200);
/// Minimum time of observation after the failure.
const TIME_AFTER_MIN: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(90);

pub fn run(row: &str, plan: &Plan) -> Result<Vec<Row>> {
    if Command::new("keepalived")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        eprintln!("{row} is left out: keepalived is not installed: apt install keepalived");
        return Ok(Vec::new());
    }
    let (mut silent, mut aborted) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (seconds, downloads) = run_once(plan)?;
        silent.push(seconds);
        aborted.push(downloads);
    }
    Ok(vec![
        Row::new(row, "seconds_until_resumed", &silent),
        Row::new(row, "downloads_aborted", &[aborted.iter().sum()]),
    ])
}

/// Returns seconds without an answer, and the number of failed downloads.
fn run_once(plan: &Plan) -> Result<(f64, f64)> {
    let plan = Plan {
        consumers: DOWNLOADS,
        members: 2,
        balancers: 2,
        end_rate_mbit: Some(RATE_MBIT),
        ..plan.clone()
    };
    let mut cluster = Cluster::build(&plan)?;
    // One producer serves all, and its link must not be the bottleneck.
    cluster.limit_producer(0, RATE_MBIT * (DOWNLOADS + 1) as f64)?;
    let publish = PublishPlan { bytes: BYTES, ..PublishPlan::default() };
    let contents: Vec<_> = (0..DOWNLOADS).map(|at| name(&format!("/failover/{at}"))).collect();
    let published = contents.iter().map(|content| cluster.publish(0, content, &publish));
    let _published = published.collect::<Result<Vec<_>, _>>()?;
    let fetch = FetchPlan::default();
    let downloads =
        contents.iter().zip(cluster.consumers()).map(|(content, by)| by.fetch(content, &fetch));
    let mut downloads = downloads.collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(TIME_BEFORE);
    cluster.balancer_mut(0).fail()?;
    let silent = longest_gap(&cluster).context("after the first balancer broke down")?;
    let running: usize =
        downloads.iter_mut().map(|download| usize::from(download.is_running())).sum();
    let mut aborted = 0.0;
    for download in downloads {
        if let Err(error) = download.finish(TIMEOUT) {
            eprintln!("{error}");
            aborted += 1.0;
        }
    }
    ensure!(
        running as f64 + aborted >= DOWNLOADS as f64,
        "downloads ended before the change: they are too short"
    );
    Ok((silent.as_secs_f64(), aborted))
}

/// Returns the longest time in which a consumer received no Data. Data in the queues of shaped
/// links still arrives for a while after the failure.
fn longest_gap(cluster: &Cluster) -> Result<Duration> {
    let names: Vec<_> =
        cluster.consumers().iter().map(|consumer| consumer.node.name.clone()).collect();
    let received = || -> Result<Vec<u64>, LabError> {
        let traffic = cluster.traffic()?;
        Ok(names.iter().map(|name| traffic[name].received_bytes).collect())
    };
    let started = Instant::now();
    let mut before = received()?;
    let (mut heard, mut longest) = (vec![started; names.len()], Duration::ZERO);
    loop {
        std::thread::sleep(STEP);
        let (now, counts) = (Instant::now(), received()?);
        for (at, heard) in heard.iter_mut().enumerate() {
            if counts[at] - before[at] > FLOW_BYTES_MIN {
                longest = longest.max(now - *heard);
                *heard = now;
            }
        }
        before = counts;
        let all_flow = heard.iter().all(|heard| now - *heard < FLOW_TIMEOUT);
        if all_flow && started.elapsed() > TIME_AFTER_MIN {
            return Ok(longest);
        }
        ensure!(started.elapsed() < TIMEOUT, "nothing flows again within {TIMEOUT:?}");
    }
}
