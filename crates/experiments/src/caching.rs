//! Figures 12 and 13: one consumer requests the same content twice, of a cluster that caches.

use crate::bed::{Bed, CHUNK_OCTETS, Failure, content, publish_plan};
use crate::sampler::{self, Curve, Sampler};
use crate::scale::MEMBERS;
use nw_testbed::{Cluster, Plan, PublishPlan};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);
/// Between the two downloads.
const PAUSE: Duration = Duration::from_millis(700);
/// For a download that should take some seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Caching {
    /// Mbit/s of the consumer over time, in and out.
    pub consumer: Curve,
    /// The same of the producer.
    pub producer: Curve,
    /// Packets in each member's content store over time.
    pub stored: Vec<Curve>,
    /// When the downloads began and ended, seconds.
    pub downloads: [(f64, f64); 2],
    /// Octets that passed the consumer in each, in and out.
    pub consumer_octets: [f64; 2],
    /// Octets that passed the producer in each.
    pub producer_octets: [f64; 2],
    /// Packets of the content.
    pub packets: u64,
}

impl Caching {
    /// Packets in each store at a time.
    pub fn stored_at(&self, time: f64) -> Vec<f64> {
        self.stored.iter().map(|curve| sampler::at(curve, time)).collect()
    }
}

pub(crate) fn run(bed: &Bed<'_>) -> Result<Caching, Failure> {
    bed.say("one content, downloaded twice");
    drop(bed.calibrate(bed.options.window().1)?);
    let octets = bed.octets(bed.options.download().as_secs_f64());
    let packets = octets.div_ceil(CHUNK_OCTETS as u64);
    let plan = Plan {
        members: MEMBERS,
        end_rate_mbit: Some(bed.capacity_mbit()),
        // Room for all of it in each.
        cache_packets: packets + 1000,
        ..bed.plan()
    };
    let cluster = Cluster::build(&plan)?;
    let served = cluster.publish(0, &content(0), &PublishPlan { octets, ..publish_plan() })?;
    let ends = [&cluster.consumers()[0].node, &cluster.producers()[0].node];
    let sampler = Sampler::start(ends, EVERY);
    let mut stored = vec![Curve::new(); MEMBERS];
    let mut downloads = [(0.0, 0.0); 2];
    let mut look = |now: f64| -> Result<(), Failure> {
        for (member, curve) in cluster.members().iter().zip(&mut stored) {
            curve.push((now, member.router.store()?.entries as f64));
        }
        Ok(())
    };
    for download in &mut downloads {
        download.0 = sampler.now();
        look(download.0)?;
        let plan = bed.fetch_plan();
        let mut fetching = cluster.consumers()[0].fetch(&served.name, &plan)?;
        let end = Instant::now() + PATIENCE;
        while fetching.is_running() && Instant::now() < end {
            bed.pause(EVERY)?;
            look(sampler.now())?;
        }
        fetching.finish(EVERY)?;
        download.1 = sampler.now();
        bed.pause(PAUSE)?;
        look(sampler.now())?;
    }
    let curves = sampler.finish()?;
    let during =
        |curve: &Curve| downloads.map(|(from, to)| sampler::at(curve, to) - sampler::at(curve, from));
    Ok(Caching {
        consumer: sampler::rates(&curves[0]),
        producer: sampler::rates(&curves[1]),
        consumer_octets: during(&curves[0]),
        producer_octets: during(&curves[1]),
        stored,
        downloads,
        packets,
    })
}
