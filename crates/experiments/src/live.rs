//! Figure 14: members come and go during five downloads by a client that never retransmits.

use crate::bed::{Bed, ENDS, Failure, content, publish_plan};
use crate::numbers::Csr;
use crate::sampler::{self, Curve, Sampler};
use nw_testbed::{Cluster, Losses, Plan, PublishPlan};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);
/// For the downloads to end after the last change.
const PATIENCE: Duration = Duration::from_secs(180);
/// Of contents, so much more than should pass while members change.
const SPARE: f64 = 1.25;

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// What one member beside them could do on average over the stages, Mbit/s.
    pub capacity_mbit: f64,
    /// Mbit/s of all consumers over time, in and out.
    pub consumers: Curve,
    /// One after the other.
    pub stages: Vec<Stage>,
    /// Downloads that were begun.
    pub downloads: usize,
    /// Those that got all of their content.
    pub completed: usize,
    /// Interests that were sent again.
    pub retransmissions: u64,
    /// Why downloads were not completed.
    pub complaints: Vec<String>,
    /// Packets that were lost meanwhile, and where.
    pub losses: Losses,
}

impl Live {
    /// Returns what one member could do in the stage of a time, Mbit/s; between stages the average.
    pub fn capacity_at(&self, time_s: f64) -> f64 {
        let stage = self.stages.iter().find(|stage| (stage.from_s..stage.to_s).contains(&time_s));
        stage.map_or(self.capacity_mbit, |stage| stage.capacity_mbit)
    }
}

/// While the number of members was the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// So many.
    pub members: usize,
    /// Seconds since the start: all of them took names, or none was leaving any more.
    pub from_s: f64,
    /// And when that ended.
    pub to_s: f64,
    /// All consumers, in and out.
    pub throughput_mbit: f64,
    /// What one member beside them could do at the same time, Mbit/s.
    pub capacity_mbit: f64,
}

pub(crate) fn run(bed: &Bed<'_>) -> Result<Live, Failure> {
    let csr = Csr::read();
    let members: Vec<usize> = csr.all("live_members").iter().map(|count| *count as usize).collect();
    let stage = bed.options.stage();
    bed.say("members come and go");
    let reference = bed.calibrate(stage)?;
    let plan = Plan { consumers: ENDS, producers: ENDS, members: members[0], ..bed.plan() };
    let mut cluster = Cluster::build(&plan)?;
    let sum: usize = members.iter().sum();
    let octets = bed.octets(SPARE * sum as f64 * stage.as_secs_f64() / ENDS as f64);
    let publish = |at| cluster.publish(at, &content(at), &PublishPlan { octets, ..publish_plan() });
    let contents = (0..ENDS).map(publish).collect::<Result<Vec<_>, _>>()?;
    let sampler = Sampler::start(cluster.consumers().iter().map(|consumer| &consumer.node), EVERY);
    let before = cluster.losses()?;
    let mut lost = before.clone();
    let plan = bed.fetch_plan();
    let fetch = cluster.consumers().iter().zip(&contents);
    let mut downloads = fetch
        .map(|(consumer, content)| consumer.fetch(&content.name, &plan))
        .collect::<Result<Vec<_>, _>>()?;
    let mut stages: Vec<Stage> = Vec::new();
    for count in members {
        while cluster.members().len() < count {
            cluster.add_member()?;
        }
        while cluster.members().len() > count {
            let last = cluster.members().last().expect("more than wanted").number;
            cluster.remove_member(last)?;
        }
        let from_s = sampler.now();
        bed.say(&format!("{count} members, five downloads"));
        let beside = reference.start(bed)?;
        let point = bed.watch_beside(&cluster, beside.cluster(), stage, true)?;
        drop(beside);
        lost.renew(cluster.losses()?);
        let (to_s, capacity_mbit) = (sampler.now(), point.capacity_mbit);
        stages.push(Stage { members: count, from_s, to_s, throughput_mbit: 0.0, capacity_mbit });
    }
    let capacity_mbit = stages.iter().map(|stage| stage.capacity_mbit).sum::<f64>() / stages.len() as f64;
    let mut live = Live { capacity_mbit, downloads: ENDS, ..Live::default() };
    let end = Instant::now() + PATIENCE;
    for download in &mut downloads {
        bed.await_end(download, end.saturating_duration_since(Instant::now()))?;
    }
    for (download, content) in downloads.into_iter().zip(&contents) {
        match download.finish(EVERY) {
            Ok(fetched) if fetched.bytes == content.octets => {
                live.completed += 1;
                live.retransmissions += fetched.retransmissions;
            }
            Ok(fetched) => {
                live.complaints.push(format!("{} of {} octets came", fetched.bytes, content.octets))
            }
            Err(error) => live.complaints.push(error.to_string()),
        }
    }
    lost.renew(cluster.losses()?);
    live.losses = lost.since(&before);
    let octets = sampler::sum(&sampler.finish()?);
    for stage in &mut stages {
        let passed = sampler::at(&octets, stage.to_s) - sampler::at(&octets, stage.from_s);
        stage.throughput_mbit = passed * 8e-6 / (stage.to_s - stage.from_s);
    }
    live.consumers = sampler::rates(&octets);
    live.stages = stages;
    Ok(live)
}
