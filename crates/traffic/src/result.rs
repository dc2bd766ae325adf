//! The result of a run, as a table and as JSON.

use super::generator::Load;
use super::measured::{Counters, Measured};
use super::through_xdp::XdpReport;
use super::timings::Timings;
use super::workload::Workload;
use crate::machine::Machine;
use core::time::Duration;
use serde::Serialize;
use std::collections::BTreeMap;

/// The result of a run. `docs/guide/measuring.md` documents its JSON form.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The workload.
    pub workload: Workload,
    /// The load.
    pub load: Load,
    /// The link: `memory`, the router's URI, or the peer of AF_XDP frames.
    pub over: String,
    /// False if the user or the router ended the run early.
    pub complete: bool,
    /// Length of the run.
    pub seconds: f64,
    /// Requests issued.
    pub asked: u64,
    /// Interests sent. The other requests joined one of these.
    pub interests: u64,
    /// Requests answered.
    pub answered: u64,
    /// Requests refused, by the reason of the Nack.
    pub refused: BTreeMap<&'static str, u64>,
    /// Requests without an answer within the InterestLifetime.
    pub lost: u64,
    /// Requests outstanding at the end.
    pub unanswered: u64,
    /// Requests that were due but never issued, because this program or the router was too slow.
    pub unsent: u64,
    /// Packets without an outstanding request.
    pub unexpected: u64,
    /// Data that arrived before the answer to an earlier Interest.
    pub reordered: u64,
    /// The largest reordering extent, in Interests.
    pub reordered_by_max: u64,
    /// Data with a congestion mark.
    pub marked: u64,
    /// Interests that reached the sink. Absent if the sink is another process.
    pub answered_by_sink: Option<u64>,
    /// Share of Data that caches answered.
    pub hit_ratio: Option<f64>,
    /// Requests issued per second.
    pub asked_per_s: f64,
    /// Requests answered per second.
    pub answered_per_s: f64,
    /// Sizes of the received Data packets in bytes; null if there are none.
    pub data_bytes: Option<ByteRange>,
    /// Rate of Data packets in Mbit/s.
    pub mbit_per_s: f64,
    /// Time from the due time to the answer; null if no request was answered, like the next two.
    pub latency_us: Option<Quantiles>,
    /// Time from sending to the answer.
    pub since_sent_us: Option<Quantiles>,
    /// Time from the due time to sending.
    pub lateness_us: Option<Quantiles>,
    /// Rates and latencies over time.
    pub series: Vec<Point>,
    /// Counters of AF_XDP; absent if packets went by sockets.
    pub xdp: Option<XdpReport>,
    /// The machine.
    pub machine: Machine,
}

/// The link that carried the packets.
#[derive(Clone, Debug)]
pub struct TransportInfo {
    /// Short description.
    pub over: String,
    /// Counters, if it was AF_XDP.
    pub xdp: Option<XdpReport>,
}

impl TransportInfo {
    /// Describes a link other than AF_XDP.
    pub fn of(over: impl Into<String>) -> Self {
        TransportInfo { over: over.into(), xdp: None }
    }
}

/// A range of sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ByteRange {
    /// The smallest size.
    pub min: u64,
    /// The largest size.
    pub max: u64,
}

/// Statistics of durations in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// Minimum.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
}

impl Quantiles {
    fn of(timings: &Timings) -> Option<Self> {
        let at = |share| us(timings.quantile_ns(share));
        Some(Quantiles {
            min: us(timings.min_ns()?),
            mean: timings.mean_ns()? / 1e3,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: us(timings.max_ns()?),
        })
    }
}

/// One interval of the series.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// Start in seconds since the start of the run.
    pub at_s: f64,
    /// Length in seconds.
    pub length_s: f64,
    /// Requests issued per second.
    pub asked_per_s: f64,
    /// Requests answered per second.
    pub answered_per_s: f64,
    /// Requests lost.
    pub lost: u64,
    /// Median latency of the answered requests; absent if there are none.
    pub p50_us: Option<f64>,
    /// 99th percentile of their latency.
    pub p99_us: Option<f64>,
}

fn us(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

fn per_s(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}

impl Outcome {
    /// Summarises a run.
    pub fn new(
        workload: &Workload,
        load: Load,
        transport: TransportInfo,
        complete: bool,
        measured: &Measured,
        answered_by_sink: Option<u64>,
    ) -> Self {
        let Counters { asked, answered, lost, unanswered, unsent, unexpected, reordered, .. } =
            measured.counters;
        let counters = &measured.counters;
        let busy = measured.busy();
        let hits = |by_sink: u64| {
            (counters.data > 0)
                .then(|| counters.data.saturating_sub(by_sink) as f64 / counters.data as f64)
        };
        Outcome {
            workload: workload.clone(),
            load,
            over: transport.over,
            complete,
            seconds: measured.elapsed.as_secs_f64(),
            asked,
            interests: counters.interests(),
            answered,
            refused: counters.refused.clone(),
            lost,
            unanswered,
            unsent,
            unexpected,
            reordered,
            reordered_by_max: counters.reordered_by_max,
            marked: counters.marked,
            answered_by_sink,
            hit_ratio: answered_by_sink.and_then(hits),
            asked_per_s: per_s(asked, busy),
            answered_per_s: per_s(answered, busy),
            data_bytes: (counters.data > 0).then_some(ByteRange {
                min: counters.data_bytes_min,
                max: counters.data_bytes_max,
            }),
            mbit_per_s: per_s(counters.data_bytes, busy) * 8.0 / 1e6,
            latency_us: Quantiles::of(&measured.latency),
            since_sent_us: Quantiles::of(&measured.since_sent),
            lateness_us: Quantiles::of(&measured.lateness),
            series: points(measured),
            xdp: transport.xdp,
            machine: Machine::here(),
        }
    }

    /// Returns the rows of a table: quantity, value, note.
    pub fn rows(&self) -> Vec<[String; 3]> {
        let row = |what: &str, value: String, note: String| [what.to_owned(), value, note];
        let share =
            |count: u64| format!("{:.3} %", 100.0 * count as f64 / self.asked.max(1) as f64);
        let mut rows = vec![
            row("asked", self.asked.to_string(), format!("{:.0} a second", self.asked_per_s)),
            row(
                "interests",
                self.interests.to_string(),
                format!("{} requests joined one on its way", self.asked - self.interests),
            ),
            row(
                "answered",
                self.answered.to_string(),
                format!("{:.0} a second, {:.1} Mbit/s", self.answered_per_s, self.mbit_per_s),
            ),
            row("data size", self.data_size(), "of Data packets with name and signature".into()),
            row("lost", self.lost.to_string(), share(self.lost)),
            row(
                "reordered",
                self.reordered.to_string(),
                format!("by {} Interests at most", self.reordered_by_max),
            ),
        ];
        if let (Some(ratio), Some(by_sink)) = (self.hit_ratio, self.answered_by_sink) {
            let wanted = self
                .workload
                .hit_ratio
                .map_or(String::new(), |w| format!(", {:.1} % wanted", 100.0 * w));
            rows.push(row(
                "cache hits",
                format!("{:.1} %", 100.0 * ratio),
                format!("{by_sink} came to the sink{wanted}"),
            ));
        }
        for (reason, count) in &self.refused {
            rows.push(row("refused", count.to_string(), format!("Nack({reason})")));
        }
        if let Some(xdp) = &self.xdp {
            rows.push(row("AF_XDP", xdp.status.mode.clone(), xdp.to_string()));
        }
        let rare = [
            ("marked", self.marked, "Data with a congestion mark"),
            ("unexpected", self.unexpected, "packets without an outstanding request"),
            ("unanswered", self.unanswered, "outstanding at the end"),
            ("unsent", self.unsent, "due but never sent: the rate is too high"),
        ];
        for (what, count, note) in rare.into_iter().filter(|(_, count, _)| *count > 0) {
            rows.push(row(what, count.to_string(), note.into()));
        }
        rows
    }

    fn data_size(&self) -> String {
        match self.data_bytes {
            None => "-".into(),
            Some(ByteRange { min, max }) if min == max => format!("{min} bytes"),
            Some(ByteRange { min, max }) => format!("{min}-{max} bytes"),
        }
    }

    /// Returns the header and the rows of the table of latencies, in microseconds.
    pub fn latencies(&self) -> ([&'static str; 8], Vec<(&'static str, Quantiles)>) {
        let head = ["µs", "min", "mean", "50 %", "90 %", "99 %", "99.9 %", "max"];
        let mut rows = vec![("latency", self.latency_us)];
        if matches!(self.load, Load::Open { .. }) {
            rows.push(("since sent", self.since_sent_us));
            rows.push(("sent late by", self.lateness_us));
        }
        (head, rows.into_iter().filter_map(|(what, quantiles)| Some((what, quantiles?))).collect())
    }
}

fn points(measured: &Measured) -> Vec<Point> {
    let length = measured.series.length;
    let mut points = Vec::with_capacity(measured.series.intervals.len());
    for (i, interval) in measured.series.intervals.iter().enumerate() {
        let at = length * i as u32;
        // The last interval ends with the run.
        let lasted = length.min(measured.elapsed.saturating_sub(at)).max(Duration::from_millis(1));
        let quantile = |share| {
            (!interval.latency.is_empty()).then(|| us(interval.latency.value_at_quantile(share)))
        };
        points.push(Point {
            at_s: at.as_secs_f64(),
            length_s: lasted.as_secs_f64(),
            asked_per_s: per_s(interval.asked, lasted),
            answered_per_s: per_s(interval.answered, lasted),
            lost: interval.lost,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
        });
    }
    points
}
