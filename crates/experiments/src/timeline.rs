//! Figure 14: members are added and removed during five downloads by a client that never
//! retransmits.

use crate::paper_data::Csr;
use crate::sampler::{self, Curve, Sampler};
use crate::testbed::{ENDPOINTS, Failure, Testbed, content, publish_plan};
use nw_testbed::{Cluster, Download, LossCounters, Plan, PublishPlan};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The interval between samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// The time for the downloads to end after the last change.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(180);
/// The length of the contents, as a multiple of the expected traffic while members change.
const CONTENT_MARGIN: f64 = 1.25;

/// The measurements of figure 14.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Average capacity of one member over the stages in Mbit/s.
    pub capacity_mbit: f64,
    /// Throughput of all consumers over time in Mbit/s, received and sent.
    pub consumers: Curve,
    /// The stages in order.
    pub stages: Vec<Stage>,
    /// Number of started downloads.
    pub downloads: usize,
    /// Number of completed downloads.
    pub completed: usize,
    /// Number of retransmitted Interests.
    pub retransmissions: u64,
    /// The errors of downloads that were not completed.
    #[serde(alias = "complaints")]
    pub errors: Vec<String>,
    /// Packets lost during the downloads, by place.
    pub losses: LossCounters,
}

impl Timeline {
    /// Ends a download of `len` bytes and adds its result.
    fn add_download(&mut self, download: Download, len: u64) {
        match download.finish(SAMPLE_INTERVAL) {
            Ok(fetched) if fetched.bytes == len => {
                self.completed += 1;
                self.retransmissions += fetched.retransmissions;
            }
            Ok(fetched) => self.errors.push(format!("received {} of {len} bytes", fetched.bytes)),
            Err(error) => self.errors.push(error.to_string()),
        }
    }

    /// Returns the capacity of one member in the stage at a time, in Mbit/s; between stages the
    /// average.
    pub fn capacity_at(&self, time_s: f64) -> f64 {
        let stage = self.stages.iter().find(|stage| (stage.from_s..stage.to_s).contains(&time_s));
        stage.map_or(self.capacity_mbit, |stage| stage.capacity_mbit)
    }
}

/// A stage with a constant number of members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Number of members.
    pub members: usize,
    /// Start of the stage in seconds: all members are active, and none is being drained.
    pub from_s: f64,
    /// End of the stage in seconds.
    pub to_s: f64,
    /// Throughput of all consumers in Mbit/s, received and sent.
    pub throughput_mbit: f64,
    /// Capacity of one member at the same time in Mbit/s.
    pub capacity_mbit: f64,
}

pub(crate) fn run(testbed: &Testbed<'_>) -> Result<Timeline, Failure> {
    let csr = Csr::read();
    let members: Vec<usize> =
        csr.values("live_members").iter().map(|count| *count as usize).collect();
    let stage = testbed.options.stage();
    testbed.say("members are added and removed");
    let reference = testbed.calibrate(stage)?;
    let plan =
        Plan { consumers: ENDPOINTS, producers: ENDPOINTS, members: members[0], ..testbed.plan() };
    let mut cluster = Cluster::build(&plan)?;
    let sum: usize = members.iter().sum();
    let bytes = testbed.bytes(CONTENT_MARGIN * sum as f64 * stage.as_secs_f64() / ENDPOINTS as f64);
    let publish = |at| cluster.publish(at, &content(at), &PublishPlan { bytes, ..publish_plan() });
    let contents = (0..ENDPOINTS).map(publish).collect::<Result<Vec<_>, _>>()?;
    let sampler =
        Sampler::start(cluster.consumers().iter().map(|consumer| &consumer.node), SAMPLE_INTERVAL);
    let before = cluster.losses()?;
    let mut lost = before.clone();
    let plan = testbed.fetch_plan();
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
            let last = cluster.members().last().expect("there are more members than needed").number;
            cluster.remove_member(last)?;
        }
        let from_s = sampler.now();
        testbed.say(&format!("{count} members, five downloads"));
        let beside = reference.start(testbed)?;
        let point = testbed.watch_beside(&cluster, beside.cluster(), stage, true)?;
        drop(beside);
        lost.update(cluster.losses()?);
        let (to_s, capacity_mbit) = (sampler.now(), point.capacity_mbit);
        stages.push(Stage { members: count, from_s, to_s, throughput_mbit: 0.0, capacity_mbit });
    }
    let capacity_mbit =
        stages.iter().map(|stage| stage.capacity_mbit).sum::<f64>() / stages.len() as f64;
    let mut timeline = Timeline { capacity_mbit, downloads: ENDPOINTS, ..Timeline::default() };
    let end = Instant::now() + DOWNLOAD_TIMEOUT;
    for download in &mut downloads {
        testbed.wait_for_download(download, end.saturating_duration_since(Instant::now()))?;
    }
    for (download, content) in downloads.into_iter().zip(&contents) {
        timeline.add_download(download, content.bytes);
    }
    lost.update(cluster.losses()?);
    timeline.losses = lost.since(&before);
    let bytes = sampler::sum(&sampler.finish()?);
    for stage in &mut stages {
        let passed = sampler::at(&bytes, stage.to_s) - sampler::at(&bytes, stage.from_s);
        stage.throughput_mbit = passed * 8e-6 / (stage.to_s - stage.from_s);
    }
    timeline.consumers = sampler::rates(&bytes);
    timeline.stages = stages;
    Ok(timeline)
}
