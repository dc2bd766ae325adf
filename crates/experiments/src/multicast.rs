//! Figure 11: five consumers download the same content at the same time from one producer.

use crate::bed::{Bed, ENDS, Failure, content, publish_plan};
use crate::scale::MEMBERS;
use nw_testbed::{Cluster, Plan, PublishPlan};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// For all consumers to have asked.
const ASKING: Duration = Duration::from_millis(600);

/// What was measured, Mbit/s, in and out where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Multicast {
    /// What one member beside them could do at the same time.
    pub capacity_mbit: f64,
    /// Each consumer.
    pub consumers_mbit: Vec<f64>,
    /// The producer.
    pub producer_mbit: f64,
    /// Each member, from and to consumers.
    pub members_mbit: Vec<f64>,
    /// Packets that the producer's link carried towards the cluster.
    pub producer_packets: u64,
}

impl Multicast {
    /// One consumer on average.
    pub fn one_consumer_mbit(&self) -> f64 {
        self.consumers_mbit.iter().sum::<f64>() / self.consumers_mbit.len().max(1) as f64
    }
}

pub(crate) fn run(bed: &Bed<'_>) -> Result<Multicast, Failure> {
    bed.say("five downloads of one content");
    let reference = bed.calibrate(bed.options.window().1)?;
    let plan = Plan { consumers: ENDS, producers: 1, members: MEMBERS, ..bed.plan() };
    let cluster = Cluster::build(&plan)?;
    let (warm_up, measured) = bed.options.window();
    let longest = (ASKING + warm_up + measured + Duration::from_secs(3)).as_secs_f64();
    let octets = bed.octets(longest);
    let served = cluster.publish(0, &content(0), &PublishPlan { octets, ..publish_plan() })?;
    // The producer answers when all have asked, so that nobody is ahead: members keep nothing.
    served.process().signal(Signal::STOP);
    let asking = cluster.consumers().iter().map(|consumer| consumer.fetch(&served.name, &bed.fetch_plan()));
    let mut downloads = asking.collect::<Result<Vec<_>, _>>()?;
    let waited = bed.pause(ASKING);
    served.process().signal(Signal::CONT);
    waited?;
    let beside = reference.start(bed)?;
    bed.pause(warm_up)?;
    let point = bed.watch_beside(&cluster, beside.cluster(), measured, true)?;
    let (passed, capacity_mbit) = (&point.passed, point.capacity_mbit);
    if let Some(ended) =
        downloads.iter_mut().find_map(|download| (!download.is_running()).then_some(download))
    {
        let words = ended.process().last_words();
        return Err(Failure::Download(format!(
            "a download ended while it was measured; its last words: {words}"
        )));
    }
    let names = |letter: char, count: usize| (1..=count).map(move |number| format!("{letter}{number}"));
    // What a member sends goes to consumers but for Interests to the producer, and what it receives comes from consumers but for Data of the producer;
    // the members share both alike, as names are.
    let part = 1.0 / MEMBERS as f64;
    let apart = passed.mbit("p1") * part;
    Ok(Multicast {
        capacity_mbit,
        consumers_mbit: names('c', ENDS).map(|name| passed.mbit(&name)).collect(),
        producer_mbit: passed.mbit("p1"),
        members_mbit: names('m', MEMBERS).map(|name| passed.mbit(&name) - apart).collect(),
        producer_packets: passed.sent_packets("p1"),
    })
}
