//! Names of counters: of dropped packets by reason, and of what metrics show. A name once given stays.

use crate::management::DropCount;
use nw_element_api::Cause;
use nw_wire::Fault;

/// A reason for which packets are dropped.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DropReasonName {
    /// The counter's name, as [`DropCount::reason`](crate::management::DropCount) has it.
    pub name: String,
    /// What it means, for people.
    pub explanation: &'static str,
}

/// Every reason for which a packet can be dropped, in counter order: faults of its bytes, then the others.
pub fn drop_reasons() -> Vec<DropReasonName> {
    let malformed = |fault: &Fault| DropReasonName {
        name: format!("malformed_{}", fault.as_str()),
        explanation: "The packet's bytes are not what the specification says; the name says what is wrong.",
    };
    let cause = |cause: &Cause| DropReasonName {
        name: cause.as_str().to_owned(),
        explanation: cause.explanation().trim(),
    };
    Fault::ALL.iter().map(malformed).chain(Cause::ALL.iter().map(cause)).collect()
}

/// Returns whether a packet that is counted under this name ended as expected: it was answered, or another packet answers for it.
pub fn is_done(reason: &str) -> bool {
    Cause::ALL.iter().any(|cause| cause.is_done() && cause.as_str() == reason)
}

/// Separates counters of packets that were dropped from those of packets that ended as expected.
pub fn split_done(counts: Vec<DropCount>) -> (Vec<DropCount>, Vec<DropCount>) {
    counts.into_iter().partition(|count| !is_done(&count.reason))
}

/// How many packets were dropped before they had done their work, and how many had done it, by counters of these names.
pub fn dropped_and_done<'a>(drops: impl IntoIterator<Item = (&'a str, u64)>) -> (u64, u64) {
    drops.into_iter().fold((0, 0), |(dropped, done), (reason, packets)| {
        if is_done(reason) { (dropped, done + packets) } else { (dropped + packets, done) }
    })
}

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// A metric, as monitoring sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name; counters end in `_total`.
    pub name: &'static str,
    /// Gauge or counter.
    pub kind: MetricKind,
    /// Labels it is split by.
    pub labels: &'static [&'static str],
    /// What it means, for people.
    pub help: &'static str,
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Gauge, labels, help }
}

/// Every metric of a router.
pub const METRICS: &[Metric] = &[
    counter(
        "nw_face_packets_total",
        &["face", "uri", "direction", "kind"],
        "Interests, Data and Nacks that came and left by a face. Absent with control.face_metrics = false.",
    ),
    counter(
        "nw_face_bytes_total",
        &["face", "uri", "direction"],
        "Octets that came and left by a face, link headers included. Absent with control.face_metrics = false.",
    ),
    counter(
        "nw_packets_total",
        &["direction", "kind"],
        "Interests, Data and Nacks that came and left by all faces there were.",
    ),
    counter("nw_bytes_total", &["direction"], "Octets that came and left by all faces there were."),
    counter(
        "nw_drops_total",
        &["reason"],
        "Packets dropped before they had done their work, by reason; nw_packets_done_total has the others.",
    ),
    counter(
        "nw_packets_done_total",
        &["reason"],
        "Packets that ended as expected, by reason: answered from the content store, joined to a pending Interest.",
    ),
    counter(
        "nw_pool_shortages_total",
        &["pool"],
        "Times a pool that peers share was short: something was refused, or replaced something else.",
    ),
    counter("nw_interests_satisfied_total", &[], "Pending Interests that were answered."),
    counter("nw_interests_unsatisfied_total", &[], "Pending Interests that ended without an answer."),
    counter("nw_content_store_hits_total", &[], "Interests answered from the content store."),
    counter("nw_content_store_misses_total", &[], "Interests not answered from the content store."),
    gauge("nw_content_store_packets", &[], "Packets in the content store."),
    gauge("nw_content_store_capacity_packets", &[], "Packets the content store may hold."),
    gauge("nw_content_store_bytes", &[], "Octets that packets take in the content store."),
    gauge("nw_pit_entries", &[], "Pending Interests."),
    gauge("nw_fib_entries", &[], "Prefixes of the FIB."),
    gauge("nw_faces", &[], "Faces there are."),
    gauge("nw_packets_in_use", &[], "Packets in the router's hands: read, and neither sent nor dropped yet."),
    counter("nw_loop_turns_total", &[], "Times the forwarding loop woke up."),
    counter(
        "nw_loop_slow_turns_total",
        &[],
        "Turns of the forwarding loop that took more than a millisecond.",
    ),
    counter(
        "nw_loop_busy_seconds_total",
        &[],
        "Time of the forwarding loop between waking up and going to sleep; its rate is the share of a core.",
    ),
    gauge("nw_loop_longest_turn_seconds", &[], "The longest turn of the forwarding loop since the start."),
    counter("nw_shard_packets_total", &["shard"], "Packets forwarded, by thread."),
    counter(
        "nw_shard_handed_over_total",
        &["shard"],
        "Packets that came to a thread and were another's, by thread.",
    ),
    counter(
        "nw_shard_busy_seconds_total",
        &["shard"],
        "Time in which a thread worked; its rate is the share of a core.",
    ),
    gauge("nw_build_info", &["version"], "1, with the version of the program."),
    gauge("nw_start_time_seconds", &[], "When the router started, seconds since 1970."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn packets_that_had_done_their_work_are_counted_apart() {
        let drops = [("malformed_too_long", 1), ("cache_hit", 20), ("no_route", 300), ("aggregated", 4000)];
        assert_eq!(dropped_and_done(drops), (301, 4020));
        let counts = drops.map(|(reason, count)| DropCount { reason: reason.to_owned(), count });
        let (dropped, done) = split_done(counts.to_vec());
        let reasons =
            |counts: &[DropCount]| counts.iter().map(|count| count.reason.clone()).collect::<Vec<_>>();
        assert_eq!(reasons(&dropped), ["malformed_too_long", "no_route"]);
        assert_eq!(reasons(&done), ["cache_hit", "aggregated"]);
    }

    #[test]
    fn names_are_distinct_and_well_formed() {
        let drops = drop_reasons();
        let names: BTreeSet<_> = drops.iter().map(|reason| reason.name.as_str()).collect();
        assert_eq!(names.len(), Fault::ALL.len() + Cause::ALL.len());
        let metrics: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(metrics.len(), METRICS.len());
        for name in names.iter().chain(&metrics) {
            assert!(
                name.bytes()
                    .all(|octet| octet.is_ascii_lowercase() || octet == b'_' || octet.is_ascii_digit()),
                "{name}"
            );
        }
        for metric in METRICS {
            assert_eq!(metric.kind == MetricKind::Counter, metric.name.ends_with("_total"));
            assert!(metric.help.ends_with('.'));
        }
    }
}
