//! Figure 11: five consumers download the same content at the same time from one producer.

use crate::scale::MEMBERS;
use crate::testbed::{ENDPOINTS, Failure, Testbed, content, publish_plan};
use nw_testbed::{Cluster, Plan, PublishPlan};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The time for all consumers to send their Interests.
const REQUEST_PERIOD: Duration = Duration::from_millis(600);

/// The measurements of figure 11 in Mbit/s, received and sent unless stated otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Multicast {
    /// Capacity of one member at the same time.
    pub capacity_mbit: f64,
    /// Throughput of each consumer.
    pub consumers_mbit: Vec<f64>,
    /// Throughput of the producer.
    pub producer_mbit: f64,
    /// Throughput of each member from and to consumers.
    pub members_mbit: Vec<f64>,
    /// Number of packets that the producer sent.
    pub producer_packets: u64,
}

impl Multicast {
    /// Returns the average throughput of a consumer.
    pub fn one_consumer_mbit(&self) -> f64 {
        self.consumers_mbit.iter().sum::<f64>() / self.consumers_mbit.len().max(1) as f64
    }
}

pub(crate) fn run(testbed: &Testbed<'_>) -> Result<Multicast, Failure> {
    testbed.say("five downloads of one content");
    let reference = testbed.calibrate(testbed.options.window().1)?;
    let plan = Plan { consumers: ENDPOINTS, producers: 1, members: MEMBERS, ..testbed.plan() };
    let cluster = Cluster::build(&plan)?;
    let (warm_up, measured) = testbed.options.window();
    let longest = (REQUEST_PERIOD + warm_up + measured + Duration::from_secs(3)).as_secs_f64();
    let bytes = testbed.bytes(longest);
    let served = cluster.publish(0, &content(0), &PublishPlan { bytes, ..publish_plan() })?;
    // The producer answers only after all consumers have sent their Interests, because members have
    // no content store.
    served.process().signal(Signal::STOP);
    let asking = cluster
        .consumers()
        .iter()
        .map(|consumer| consumer.fetch(&served.name, &testbed.fetch_plan()));
    let mut downloads = asking.collect::<Result<Vec<_>, _>>()?;
    let pause_result = testbed.pause(REQUEST_PERIOD);
    served.process().signal(Signal::CONT);
    pause_result?;
    let beside = reference.start(testbed)?;
    testbed.pause(warm_up)?;
    let point = testbed.watch_beside(&cluster, beside.cluster(), measured, true)?;
    let (passed, capacity_mbit) = (&point.passed, point.capacity_mbit);
    if let Some(ended) =
        downloads.iter_mut().find_map(|download| (!download.is_running()).then_some(download))
    {
        let log = ended.process().log_tail();
        return Err(Failure::Download(format!(
            "a download ended during the measurement; the end of its log: {log}"
        )));
    }
    let names =
        |letter: char, count: usize| (1..=count).map(move |number| format!("{letter}{number}"));
    // A member's traffic with consumers is all of its traffic minus its traffic with the producer,
    // which is shared equally among the members, as names are.
    let share = 1.0 / MEMBERS as f64;
    let producer_part = passed.mbit("p1") * share;
    Ok(Multicast {
        capacity_mbit,
        consumers_mbit: names('c', ENDPOINTS).map(|name| passed.mbit(&name)).collect(),
        producer_mbit: passed.mbit("p1"),
        members_mbit: names('m', MEMBERS).map(|name| passed.mbit(&name) - producer_part).collect(),
        producer_packets: passed.sent_packets("p1"),
    })
}
