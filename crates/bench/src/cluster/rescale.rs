//! `cluster/rescale`: three members, a fourth that comes and goes, while five downloads run that never ask twice: one packet lost would end one.

use super::name;
use crate::report::Row;
use anyhow::{Context, Result, ensure};
use nw_testbed::{Balancer, Cluster, FetchPlan, Plan, PublishPlan};
use std::time::Duration;

const MEMBERS: usize = 3;
const DOWNLOADS: usize = 5;
const RUNS: usize = 3;
/// Of one processor, for each member: downloads last longer than what is done meanwhile.
const SHARE: f64 = 0.05;
const SEGMENT: usize = 1000;
const SEGMENTS: u64 = 15_000;
/// Interests on their way of each download: those of the paper.
const WINDOW: u16 = 16;
/// Names that are looked up to see which move.
const PROBES: usize = 200;
const PATIENCE: Duration = Duration::from_secs(120);

pub fn run(row: &str, plan: &Plan) -> Result<Vec<Row>> {
    let (mut lost, mut moved) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (of_downloads, of_names) = once(plan)?;
        lost.push(of_downloads);
        moved.push(of_names);
    }
    Ok(vec![
        Row::new(row, "lost_packets", &[lost.iter().sum()]).at_most(0.0),
        Row::new(row, "names_moved", &moved).at_most(0.27),
    ])
}

/// Downloads that a lost packet ended, and the share of names that moved when the fourth came.
fn once(plan: &Plan) -> Result<(f64, f64)> {
    let plan = Plan { consumers: DOWNLOADS, members: MEMBERS, member_share: Some(SHARE), ..plan.clone() };
    let mut cluster = Cluster::build(&plan)?;
    let publish =
        PublishPlan { octets: SEGMENTS * SEGMENT as u64, segment_len: SEGMENT, ..PublishPlan::default() };
    let contents: Vec<_> = (0..DOWNLOADS).map(|at| name(&format!("/rescale/{at}"))).collect();
    let published = contents.iter().map(|content| cluster.publish(0, content, &publish));
    let _published = published.collect::<Result<Vec<_>, _>>()?;
    let fetch = FetchPlan { window: WINDOW, retries: 0, ..FetchPlan::default() };
    let downloads = contents.iter().zip(cluster.consumers()).map(|(content, by)| by.fetch(content, &fetch));
    let mut downloads = downloads.collect::<Result<Vec<_>, _>>()?;
    let before = served_by(cluster.balancers().first().context("one was planned")?)?;
    let number = cluster.add_member()?;
    let after = served_by(&cluster.balancers()[0])?;
    cluster.remove_member(number)?;
    let running: usize = downloads.iter_mut().map(|download| usize::from(download.is_running())).sum();
    let mut lost = 0.0;
    for download in downloads {
        match download.finish(PATIENCE) {
            Ok(fetched) => ensure!(fetched.retransmissions == 0, "it was not to ask twice: {fetched:?}"),
            Err(error) => {
                eprintln!("{error}");
                lost += 1.0;
            }
        }
    }
    ensure!(
        running as f64 + lost >= DOWNLOADS as f64,
        "downloads ended before the member had gone: they are too short"
    );
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    Ok((lost, moved as f64 / PROBES as f64))
}

/// Members of some names.
fn served_by(balancer: &Balancer) -> Result<Vec<String>> {
    let ask = |at| -> Result<String> {
        Ok(balancer
            .command(&["where", &format!("/rescale/name/{at}"), "--control"], Some(balancer.control()))?)
    };
    (0..PROBES).map(ask).collect()
}
