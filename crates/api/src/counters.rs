//! Names of drop reasons and metrics. Names are stable: they never change once published.

use crate::management::DropCount;
use nw_element_api::DropCause;
use nw_wire::Fault;

/// The name and meaning of a drop reason.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DropReasonName {
    /// Name of the counter, as in [`DropCount::reason`](crate::management::DropCount).
    pub name: String,
    /// Meaning, as a sentence for people.
    pub explanation: &'static str,
}

/// Returns all drop reasons in counter order: malformed packets first.
pub fn drop_reasons() -> Vec<DropReasonName> {
    let malformed = |fault: &Fault| DropReasonName {
        name: format!("malformed_{}", fault.as_str()),
        explanation: "The packet violates the specification; the name of the reason has details.",
    };
    let cause = |cause: &DropCause| DropReasonName {
        name: cause.as_str().to_owned(),
        explanation: cause.explanation().trim(),
    };
    Fault::ALL.iter().map(malformed).chain(DropCause::ALL.iter().map(cause)).collect()
}

/// Returns whether packets counted under this name ended as expected: they were answered, or
/// another packet will be answered in their place.
pub fn is_done(reason: &str) -> bool {
    DropCause::ALL.iter().any(|cause| cause.is_expected() && cause.as_str() == reason)
}

/// Separates counters of dropped packets from those of packets that ended as expected.
pub fn split_done(counts: Vec<DropCount>) -> (Vec<DropCount>, Vec<DropCount>) {
    counts.into_iter().partition(|count| !is_done(&count.reason))
}

/// Returns the number of dropped packets, and of packets that ended as expected.
pub fn dropped_and_done<'a>(drops: impl IntoIterator<Item = (&'a str, u64)>) -> (u64, u64) {
    drops.into_iter().fold((0, 0), |(dropped, done), (reason, packets)| {
        if is_done(reason) { (dropped, done + packets) } else { (dropped + packets, done) }
    })
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that grows and shrinks.
    Gauge,
}

/// A metric of the Prometheus interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name; counters end in `_total`.
    pub name: &'static str,
    /// Counter or gauge.
    pub kind: MetricKind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Meaning, as a sentence for people.
    pub help: &'static str,
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind: MetricKind::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Gauge, labels, help }
}

/// All metrics of a router.
pub const METRICS: &[Metric] = &[
    counter(
        "nw_face_packets_total",
        &["face", "uri", "direction", "kind"],
        "Interests, Data and Nacks received and sent on a face. Absent with control.face_metrics = \
         false.",
    ),
    counter(
        "nw_face_bytes_total",
        &["face", "uri", "direction"],
        "Bytes received and sent on a face, including link headers. Absent with \
         control.face_metrics = false.",
    ),
    gauge(
        "nw_face_held_interests",
        &["face", "uri"],
        "Interests that wait for a link that is short. Absent for other faces, and with \
         control.face_metrics = false.",
    ),
    gauge(
        "nw_face_shaping_rate_bytes",
        &["face", "uri"],
        "Data that may be requested per second on a link that is short, bytes. 0 while the rate is \
         being learned, absent for other faces.",
    ),
    counter(
        "nw_face_refused_interests_total",
        &["face", "uri"],
        "Interests refused because they would have waited too long for a link that is short.",
    ),
    counter(
        "nw_face_shaping_marks_total",
        &["face", "uri"],
        "Data marked because Interests of their flow waited long for a link that is short.",
    ),
    counter(
        "nw_packets_total",
        &["direction", "kind"],
        "Interests, Data and Nacks received and sent on all faces, closed ones included.",
    ),
    counter(
        "nw_bytes_total",
        &["direction"],
        "Bytes received and sent on all faces, closed ones included.",
    ),
    counter(
        "nw_drops_total",
        &["reason"],
        "Packets dropped, by reason. nw_packets_done_total counts packets that ended as expected.",
    ),
    counter(
        "nw_packets_done_total",
        &["reason"],
        "Packets that ended as expected, by reason: answered from the content store, joined to a \
         pending Interest.",
    ),
    counter(
        "nw_pool_shortages_total",
        &["pool"],
        "Times a shared pool was exhausted: a request was refused, or something was evicted.",
    ),
    counter("nw_interests_satisfied_total", &[], "Pending Interests that were answered."),
    counter(
        "nw_interests_unsatisfied_total",
        &[],
        "Pending Interests that expired without an answer.",
    ),
    counter("nw_content_store_hits_total", &[], "Interests answered from the content store."),
    counter("nw_content_store_misses_total", &[], "Interests not answered from the content store."),
    gauge("nw_content_store_packets", &[], "Packets in the content store."),
    gauge("nw_content_store_capacity_packets", &[], "Capacity of the content store, packets."),
    gauge("nw_content_store_bytes", &[], "Bytes of packets in the content store."),
    gauge("nw_pit_entries", &[], "Pending Interests."),
    gauge("nw_fib_entries", &[], "Prefixes in the FIB."),
    gauge("nw_faces", &[], "Number of faces."),
    gauge(
        "nw_packets_in_use",
        &[],
        "Packets that were received, and neither sent nor dropped yet.",
    ),
    counter("nw_loop_turns_total", &[], "Iterations of the event loop."),
    counter(
        "nw_loop_slow_turns_total",
        &[],
        "Iterations of the event loop that took more than a millisecond.",
    ),
    counter(
        "nw_loop_busy_seconds_total",
        &[],
        "Busy time of the event loop; its rate is the share of a core.",
    ),
    gauge(
        "nw_loop_longest_turn_seconds",
        &[],
        "Duration of the longest iteration of the event loop since start.",
    ),
    counter("nw_shard_packets_total", &["shard"], "Packets forwarded, by thread."),
    counter(
        "nw_shard_handed_over_total",
        &["shard"],
        "Packets received by a thread and handed over to another, by receiving thread.",
    ),
    counter(
        "nw_shard_busy_seconds_total",
        &["shard"],
        "Busy time of a thread; its rate is the share of a core.",
    ),
    gauge("nw_build_info", &["version"], "1, with the version of the program."),
    gauge("nw_start_time_seconds", &[], "Start time of the router, seconds since 1970."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn drops_are_separated_from_expected_ends() {
        let drops =
            [("malformed_too_long", 1), ("cache_hit", 20), ("no_route", 300), ("aggregated", 4000)];
        assert_eq!(dropped_and_done(drops), (301, 4020));
        let counts = drops.map(|(reason, count)| DropCount { reason: reason.to_owned(), count });
        let (dropped, done) = split_done(counts.to_vec());
        let reasons = |counts: &[DropCount]| {
            counts.iter().map(|count| count.reason.clone()).collect::<Vec<_>>()
        };
        assert_eq!(reasons(&dropped), ["malformed_too_long", "no_route"]);
        assert_eq!(reasons(&done), ["cache_hit", "aggregated"]);
    }

    #[test]
    fn names_are_unique_and_well_formed() {
        let drops = drop_reasons();
        let names: BTreeSet<_> = drops.iter().map(|reason| reason.name.as_str()).collect();
        assert_eq!(names.len(), Fault::ALL.len() + DropCause::ALL.len());
        let metrics: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(metrics.len(), METRICS.len());
        for name in names.iter().chain(&metrics) {
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit()),
                "{name}"
            );
        }
        for metric in METRICS {
            assert_eq!(metric.kind == MetricKind::Counter, metric.name.ends_with("_total"));
            assert!(metric.help.ends_with('.'));
        }
    }
}
