//! `cluster/rescale`: three members and a fourth that is added and removed, while five downloads
//! without retransmission run: one lost packet ends a download.

use super::name;
use crate::report::Row;
use anyhow::{Context, Result, ensure};
use nw_testbed::{Balancer, Cluster, FetchPlan, Plan, PublishPlan};
use std::time::Duration;

const MEMBERS: usize = 3;
const DOWNLOADS: usize = 5;
const RUNS: usize = 3;
/// Quota of each member as a share of one processor, so that downloads outlast the changes.
const QUOTA: f64 = 0.05;
const SEGMENT: usize = 1000;
const SEGMENTS: u64 = 15_000;
/// Outstanding Interests of each download, as in the paper.
const WINDOW: u16 = 16;
/// Names whose member is looked up before and after the change.
const PROBES: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(120);

pub fn run(row: &str, plan: &Plan) -> Result<Vec<Row>> {
    let (mut lost, mut moved) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (of_downloads, of_names) = run_once(plan)?;
        lost.push(of_downloads);
        moved.push(of_names);
    }
    Ok(vec![
        Row::new(row, "lost_packets", &[lost.iter().sum()]),
        Row::new(row, "names_moved", &moved),
    ])
}

/// Returns the number of failed downloads, and the share of names that moved to the fourth member.
fn run_once(plan: &Plan) -> Result<(f64, f64)> {
    let plan =
        Plan { consumers: DOWNLOADS, members: MEMBERS, member_share: Some(QUOTA), ..plan.clone() };
    let mut cluster = Cluster::build(&plan)?;
    let publish = PublishPlan {
        bytes: SEGMENTS * SEGMENT as u64,
        segment_len: SEGMENT,
        ..PublishPlan::default()
    };
    let contents: Vec<_> = (0..DOWNLOADS).map(|at| name(&format!("/rescale/{at}"))).collect();
    let published = contents.iter().map(|content| cluster.publish(0, content, &publish));
    let _published = published.collect::<Result<Vec<_>, _>>()?;
    let fetch = FetchPlan { window: WINDOW, retries: 0, ..FetchPlan::default() };
    let downloads =
        contents.iter().zip(cluster.consumers()).map(|(content, by)| by.fetch(content, &fetch));
    let mut downloads = downloads.collect::<Result<Vec<_>, _>>()?;
    let before = served_by(cluster.balancers().first().context("one was planned")?)?;
    let number = cluster.add_member()?;
    let after = served_by(&cluster.balancers()[0])?;
    cluster.remove_member(number)?;
    let running: usize =
        downloads.iter_mut().map(|download| usize::from(download.is_running())).sum();
    let mut lost = 0.0;
    for download in downloads {
        match download.finish(TIMEOUT) {
            Ok(fetched) => {
                ensure!(fetched.retransmissions == 0, "it was not to ask twice: {fetched:?}")
            }
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

/// Returns the members that serve the probe names.
fn served_by(balancer: &Balancer) -> Result<Vec<String>> {
    let ask = |at| -> Result<String> {
        Ok(balancer.command(
            &["where", &format!("/rescale/name/{at}"), "--control"],
            Some(balancer.control()),
        )?)
    };
    (0..PROBES).map(ask).collect()
}
