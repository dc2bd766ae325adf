//! Figures 12 and 13: one consumer downloads the same content twice from a cluster with content
//! stores.

use crate::sampler::{self, Curve, Sampler};
use crate::scale::MEMBERS;
use crate::testbed::{CHUNK_BYTES, Failure, Testbed, content, publish_plan};
use nw_testbed::{Cluster, Plan, PublishPlan};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The interval between samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// The pause between the two downloads.
const PAUSE: Duration = Duration::from_millis(700);
/// The timeout of a download, which normally takes some seconds.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(120);

/// The measurements of figures 12 and 13.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Caching {
    /// Throughput of the consumer over time in Mbit/s, received and sent.
    pub consumer: Curve,
    /// Throughput of the producer over time in Mbit/s, received and sent.
    pub producer: Curve,
    /// Packets in each member's content store over time.
    pub stored: Vec<Curve>,
    /// Start and end of each download in seconds.
    pub downloads: [(f64, f64); 2],
    /// Bytes received and sent by the consumer in each download.
    #[serde(alias = "consumer_octets")]
    pub consumer_bytes: [f64; 2],
    /// Bytes received and sent by the producer in each download.
    #[serde(alias = "producer_octets")]
    pub producer_bytes: [f64; 2],
    /// Number of packets of the content.
    pub packets: u64,
}

impl Caching {
    /// Returns the number of packets in each content store at a time.
    pub fn stored_at(&self, time: f64) -> Vec<f64> {
        self.stored.iter().map(|curve| sampler::at(curve, time)).collect()
    }
}

pub(crate) fn run(testbed: &Testbed<'_>) -> Result<Caching, Failure> {
    testbed.say("one content, downloaded twice");
    drop(testbed.calibrate(testbed.options.window().1)?);
    let bytes = testbed.bytes(testbed.options.download().as_secs_f64());
    let packets = bytes.div_ceil(CHUNK_BYTES as u64);
    let plan = Plan {
        members: MEMBERS,
        end_rate_mbit: Some(testbed.capacity_mbit()),
        // Each content store can hold the whole content.
        cache_packets: packets + 1000,
        ..testbed.plan()
    };
    let cluster = Cluster::build(&plan)?;
    let served = cluster.publish(0, &content(0), &PublishPlan { bytes, ..publish_plan() })?;
    let ends = [&cluster.consumers()[0].node, &cluster.producers()[0].node];
    let sampler = Sampler::start(ends, SAMPLE_INTERVAL);
    let mut stored = vec![Curve::new(); MEMBERS];
    let mut downloads = [(0.0, 0.0); 2];
    let mut sample = |now: f64| -> Result<(), Failure> {
        for (member, curve) in cluster.members().iter().zip(&mut stored) {
            curve.push((now, member.router.store()?.entries as f64));
        }
        Ok(())
    };
    for download in &mut downloads {
        download.0 = sampler.now();
        sample(download.0)?;
        let plan = testbed.fetch_plan();
        let mut fetching = cluster.consumers()[0].fetch(&served.name, &plan)?;
        let end = Instant::now() + DOWNLOAD_TIMEOUT;
        while fetching.is_running() && Instant::now() < end {
            testbed.pause(SAMPLE_INTERVAL)?;
            sample(sampler.now())?;
        }
        fetching.finish(SAMPLE_INTERVAL)?;
        download.1 = sampler.now();
        testbed.pause(PAUSE)?;
        sample(sampler.now())?;
    }
    let curves = sampler.finish()?;
    let during = |curve: &Curve| {
        downloads.map(|(from, to)| sampler::at(curve, to) - sampler::at(curve, from))
    };
    Ok(Caching {
        consumer: sampler::rates(&curves[0]),
        producer: sampler::rates(&curves[1]),
        consumer_bytes: during(&curves[0]),
        producer_bytes: during(&curves[1]),
        stored,
        downloads,
        packets,
    })
}
