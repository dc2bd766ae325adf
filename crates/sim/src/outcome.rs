//! Results of a run. Those of the simulator depend only on scenario and seed; no measured time is
//! included.

use crate::applications::AppCounters;
use crate::link::Direction;
use crate::scenario::{Metric, RunPlan, name_matches};
use crate::simulation::{Sample, Simulation};
use hdrhistogram::Histogram;
use serde::Serialize;

/// Declares a table row: a struct with the names and the text of its cells.
macro_rules! row {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $field:ident: $typ:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct $name { $($(#[doc = $doc])+ pub $field: $typ,)+ }

        impl Row for $name {
            const HEAD: &'static [&'static str] = &[$(stringify!($field)),+];
            fn cells(&self) -> Vec<String> {
                vec![$(self.$field.cell()),+]
            }
        }
    };
}

/// A row of a table.
pub trait Row {
    /// Column names.
    const HEAD: &'static [&'static str];
    /// Returns the text of each cell.
    fn cells(&self) -> Vec<String>;
}

/// Text of a cell.
trait Cell {
    fn cell(&self) -> String;
}

impl Cell for u64 {
    fn cell(&self) -> String {
        self.to_string()
    }
}

impl Cell for f64 {
    fn cell(&self) -> String {
        let text = format!("{self:.6}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

impl Cell for String {
    fn cell(&self) -> String {
        self.clone()
    }
}

impl<T: Cell> Cell for Option<T> {
    fn cell(&self) -> String {
        self.as_ref().map_or(String::new(), Cell::cell)
    }
}

row! {
    /// An application.
    ApplicationRow {
        /// Name, with `@` and the node.
        name: String,
        /// `producer`, or the kind of the consumer.
        kind: String,
        /// Interests sent (producers: Data sent).
        sent: u64,
        /// Interests satisfied (producers: Interests received).
        satisfied: u64,
        /// Interests answered by a Nack.
        nacks: u64,
        /// Interests that timed out.
        timeouts: u64,
        /// Interests pending at the end.
        pending: u64,
        /// Requests not sent because an Interest for the same name was pending.
        joined: u64,
        /// Data that arrived too late or twice.
        late: u64,
        /// Data with a congestion mark.
        marks: u64,
        /// Bytes of Data received (producers: sent).
        octets: u64, // (retired word) a column
        /// Megabits of these per second, until a download was complete.
        mbps: f64,
        /// Mean time from Interest to Data.
        rtt_mean_ms: Option<f64>,
        /// Median time.
        rtt_p50_ms: Option<f64>,
        /// 90th percentile.
        rtt_p90_ms: Option<f64>,
        /// 99th percentile.
        rtt_p99_ms: Option<f64>,
        /// Longest time.
        rtt_max_ms: Option<f64>,
        /// Duration of a complete download.
        done_s: Option<f64>,
        /// Why a download failed.
        failed: Option<String>,
    }
}

row! {
    /// One direction of a link.
    LinkRow {
        /// Sending node.
        from: String,
        /// Receiving node.
        to: String,
        /// Packets transmitted.
        packets: u64,
        /// Bytes of these.
        octets: u64, // (retired word) a column
        /// Packets delivered.
        delivered: u64,
        /// Packets dropped at a full queue.
        dropped_queue: u64,
        /// Packets lost by the loss model.
        lost: u64,
        /// Packets transmitted or in flight while the link or the receiving node was down.
        dropped_down: u64,
        /// Packets in flight at the end.
        in_flight: u64,
        /// Share of the time spent sending.
        utilisation: f64,
        /// Largest number of waiting packets.
        queue_most: u64,
    }
}

row! {
    /// A node.
    NodeRow {
        /// Name.
        name: String,
        /// Content store hits.
        cs_hits: u64,
        /// Content store misses.
        cs_misses: u64,
        /// Data inserted into the content store; `None` if the router does not report it.
        cs_insertions: Option<u64>,
        /// Data evicted from the content store; `None` if the router does not report it.
        cs_evictions: Option<u64>,
        /// Pending Interests that were satisfied.
        pit_satisfied: u64,
        /// Pending Interests that expired or ended with a Nack.
        pit_unsatisfied: u64,
        /// Packets dropped.
        drops: u64,
        /// Drops by reason, such as `no_route=3 duplicate_nonce=1`.
        drop_reasons: String,
        /// Packets of local applications that arrived while the node was down.
        dropped_down: u64,
    }
}

row! {
    /// An interval of the time series.
    Point {
        /// End of the interval, seconds.
        at_s: f64,
        /// Interests sent by consumers per second.
        sent_per_s: f64,
        /// Interests satisfied per second.
        satisfied_per_s: f64,
        /// Interests timed out.
        timeouts_per_s: f64,
        /// Interests answered by a Nack.
        nacks_per_s: f64,
        /// Mean time from Interest to Data in this interval.
        rtt_mean_ms: Option<f64>,
        /// Packets transmitted on links per second.
        link_packets_per_s: f64,
        /// Packets dropped or lost by links per second.
        dropped_per_s: f64,
        /// Packets in flight at the end of the interval.
        in_flight: u64,
        /// Share of Interests at routers satisfied by content stores.
        cs_hit_ratio: Option<f64>,
    }
}

row! {
    /// Totals over all consumers, links and nodes.
    Totals {
        /// Interests sent by consumers.
        sent: u64,
        /// Share of these that were satisfied, without pending ones.
        satisfied: Option<f64>,
        /// Interests timed out.
        timeouts: u64,
        /// Interests answered by a Nack.
        nacks: u64,
        /// Mean time from Interest to Data.
        rtt_mean_ms: Option<f64>,
        /// Median time.
        rtt_p50_ms: Option<f64>,
        /// 99th percentile.
        rtt_p99_ms: Option<f64>,
        /// Megabits of Data received by consumers per second.
        mbps: f64,
        /// When the last download was complete; `None` if one was not, or there was none.
        done_s: Option<f64>,
        /// Share of Interests at routers satisfied by content stores.
        cs_hit_ratio: Option<f64>,
        /// Packets transmitted on links; each hop counts.
        link_packets: u64,
        /// Packets dropped or lost on links.
        dropped: u64,
        /// Packets dropped at full queues.
        queue_drops: u64,
        /// Packets transmitted on links, or between applications and their nodes.
        packets: u64,
        /// Events handled.
        events: u64,
    }
}

/// An expectation and its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The expectation as written.
    pub expected: String,
    /// Measured value; `None` if there was nothing to measure.
    pub measured: Option<f64>,
    /// Whether the expectation holds.
    pub holds: bool,
}

/// Results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Seed of the run.
    pub seed: u64,
    /// Seconds simulated, or run in real time.
    pub duration_s: f64,
    /// Whether router processes ran in real time, instead of the simulator.
    pub is_real_time: bool,
    /// Number of nodes.
    pub nodes_count: u64,
    /// Number of links.
    pub links_count: u64,
    /// Totals.
    pub totals: Totals,
    /// Results of the expectations.
    pub verdicts: Vec<Verdict>,
    /// Violations of packet conservation; empty if all is well.
    pub violations: Vec<String>,
    /// Applications: producers, then consumers.
    pub applications: Vec<ApplicationRow>,
    /// Link directions: two rows per link.
    pub links: Vec<LinkRow>,
    /// Nodes, in the order of the topology.
    pub nodes: Vec<NodeRow>,
    /// Time series.
    pub series: Vec<Point>,
    /// Times from Interest to Data of all consumers, nanoseconds.
    #[serde(skip)]
    pub rtt_ns: Histogram<u64>,
}

/// What a run has measured. The simulator and laboratories of real routers fill it alike, so their
/// tables and charts are the same.
#[derive(Debug)]
pub struct RunMeasurements<'a> {
    /// The plan of the run.
    pub plan: &'a RunPlan,
    /// Whether router processes ran in real time.
    pub is_real_time: bool,
    /// Counters of the applications: producers, then consumers.
    pub apps: Vec<&'a AppCounters>,
    /// Link directions: two per link.
    pub directions: &'a [Direction],
    /// Nodes, in the order of the topology.
    pub nodes: Vec<NodeRow>,
    /// Counters over time.
    pub samples: &'a [Sample],
    /// Packets that are unaccounted for, as sentences.
    pub violations: Vec<String>,
    /// Packets on links and between applications and their nodes.
    pub packets: u64,
    /// Events handled.
    pub events: u64,
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Outcome {
    /// Collects the results of a simulation.
    pub fn collect(simulation: &Simulation) -> Self {
        Outcome::of(&RunMeasurements {
            plan: &simulation.plan,
            is_real_time: false,
            apps: simulation.apps.iter().map(|app| app.application.counters()).collect(),
            directions: &simulation.directions,
            nodes: nodes(simulation),
            samples: &simulation.samples,
            violations: simulation.violations(),
            packets: simulation.packets(),
            events: simulation.events(),
        })
    }

    /// Returns the results of a run from its measurements.
    pub fn of(run: &RunMeasurements<'_>) -> Self {
        let plan = run.plan;
        let duration_s = plan.scenario.run.duration_s.value();
        let mut rtt_ns = Histogram::new(2).expect("two digits are supported");
        for counters in &run.apps[plan.producers.len()..] {
            rtt_ns.add(&counters.rtt_ns).expect("both grow as they must");
        }
        let mut outcome = Outcome {
            seed: plan.scenario.run.seed,
            duration_s,
            is_real_time: run.is_real_time,
            nodes_count: plan.topology.nodes.len() as u64,
            links_count: plan.topology.links.len() as u64,
            totals: Totals::default(),
            verdicts: Vec::new(),
            violations: run.violations.clone(),
            applications: applications(run, duration_s),
            links: links(run),
            nodes: run.nodes.clone(),
            series: series(run.samples),
            rtt_ns,
        };
        outcome.totals = outcome.totals_of(None);
        outcome.totals.packets = run.packets;
        outcome.totals.events = run.events;
        outcome.verdicts = plan
            .expectations
            .iter()
            .map(|expectation| {
                let measured =
                    outcome.measure(expectation.metric, expectation.application.as_deref());
                let holds = expectation.holds(measured);
                Verdict { expected: expectation.text.clone(), measured, holds }
            })
            .collect();
        outcome
    }

    /// Returns the verb that produced this, and the unit of its duration.
    pub const fn host(&self) -> (&'static str, &'static str) {
        match self.is_real_time {
            true => ("nw lab", "seconds"),
            false => ("nw sim", "virtual seconds"),
        }
    }

    /// Returns whether all expectations hold and no packet is unaccounted for.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty() && self.verdicts.iter().all(|verdict| verdict.holds)
    }

    /// Returns a measure of one application or of all consumers. `None` if there is nothing to
    /// measure.
    pub fn measure(&self, metric: &str, application: Option<&str>) -> Option<f64> {
        debug_assert!(Metric::ALL.iter().any(|known| known.name == metric));
        let totals =
            if application.is_some() { self.totals_of(application) } else { self.totals.clone() };
        match metric {
            "satisfied" => totals.satisfied,
            "sent" => Some(totals.sent as f64),
            "timeouts" => Some(totals.timeouts as f64),
            "nacks" => Some(totals.nacks as f64),
            "rtt_mean_ms" => totals.rtt_mean_ms,
            "rtt_p50_ms" => totals.rtt_p50_ms,
            "rtt_p99_ms" => totals.rtt_p99_ms,
            "done_s" => Some(totals.done_s.unwrap_or(f64::INFINITY)),
            "mbps" => Some(totals.mbps),
            "cs_hit_ratio" => totals.cs_hit_ratio,
            "dropped" => Some(totals.dropped as f64),
            "queue_drops" => Some(totals.queue_drops as f64),
            "link_packets" => Some(totals.link_packets as f64),
            _ => None,
        }
    }

    fn totals_of(&self, application: Option<&str>) -> Totals {
        let rows: Vec<&ApplicationRow> = self
            .applications
            .iter()
            .filter(|row| {
                row.kind != "producer"
                    && application.is_none_or(|name| name_matches(&row.name, name))
            })
            .collect();
        let sum =
            |field: fn(&ApplicationRow) -> u64| rows.iter().map(|row| field(row)).sum::<u64>();
        let (sent, pending) = (sum(|row| row.sent), sum(|row| row.pending));
        let satisfied = sum(|row| row.satisfied);
        let weighted: f64 =
            rows.iter().filter_map(|row| Some(row.rtt_mean_ms? * row.satisfied as f64)).sum();
        // For an application at several nodes: the worst value.
        let worst = |field: fn(&ApplicationRow) -> Option<f64>| {
            rows.iter().filter_map(|row| field(row)).reduce(f64::max)
        };
        let (p50, p99) = if application.is_none() && !self.rtt_ns.is_empty() {
            let longest = worst(|row| row.rtt_max_ms).unwrap_or(f64::INFINITY);
            let at = |share| Some(ms(self.rtt_ns.value_at_quantile(share)).min(longest));
            (at(0.5), at(0.99))
        } else {
            (worst(|row| row.rtt_p50_ms), worst(|row| row.rtt_p99_ms))
        };
        let downloads: Vec<_> = rows.iter().filter(|row| row.kind == "bulk").collect();
        let all_done = !downloads.is_empty() && downloads.iter().all(|row| row.done_s.is_some());
        let link = |field: fn(&LinkRow) -> u64| self.links.iter().map(field).sum::<u64>();
        let (hits, misses) = (
            self.nodes.iter().map(|row| row.cs_hits).sum::<u64>(),
            self.nodes.iter().map(|row| row.cs_misses).sum::<u64>(),
        );
        Totals {
            sent,
            satisfied: ratio(satisfied, sent.saturating_sub(pending)),
            timeouts: sum(|row| row.timeouts),
            nacks: sum(|row| row.nacks),
            rtt_mean_ms: (satisfied > 0).then(|| weighted / satisfied as f64),
            rtt_p50_ms: p50,
            rtt_p99_ms: p99,
            mbps: rows.iter().map(|row| row.mbps).sum(),
            done_s: if all_done { worst(|row| row.done_s) } else { None },
            cs_hit_ratio: ratio(hits, hits + misses),
            link_packets: link(|row| row.packets),
            dropped: link(|row| row.dropped_queue + row.lost + row.dropped_down),
            queue_drops: link(|row| row.dropped_queue),
            packets: 0,
            events: 0,
        }
    }
}

fn applications(run: &RunMeasurements<'_>, duration_s: f64) -> Vec<ApplicationRow> {
    let plan = run.plan;
    let producers = plan.producers.iter().map(|producer| (&producer.name, "producer"));
    let consumers = plan.consumers.iter().map(|consumer| (&consumer.name, consumer.kind.as_str()));
    let rows = producers.chain(consumers).zip(&run.apps).map(|((name, kind), c)| {
        let count = c.rtt_ns.len();
        // The histogram returns the end of a range, which may be above the largest value.
        let bounded = |ns: u64| ns.min(c.rtt_max_ns).max(c.rtt_min_ns);
        let at = |share| (count > 0).then(|| ms(bounded(c.rtt_ns.value_at_quantile(share))));
        let done_s = c.done_ns.map(|ns| ns as f64 / 1e9);
        ApplicationRow {
            name: name.clone(),
            kind: kind.to_owned(),
            sent: c.sent,
            satisfied: c.satisfied,
            nacks: c.nacks,
            timeouts: c.timeouts,
            pending: c.pending,
            joined: c.joined,
            late: c.late,
            marks: c.marks,
            octets: c.bytes, // (retired word) a column
            mbps: c.bytes as f64 * 8.0 / 1e6 / done_s.unwrap_or(duration_s),
            rtt_mean_ms: (count > 0).then(|| ms(c.rtt_sum_ns) / count as f64),
            rtt_p50_ms: at(0.5),
            rtt_p90_ms: at(0.9),
            rtt_p99_ms: at(0.99),
            rtt_max_ms: (count > 0).then(|| ms(c.rtt_max_ns)),
            done_s,
            failed: c.failed.clone(),
        }
    });
    rows.collect()
}

fn links(run: &RunMeasurements<'_>) -> Vec<LinkRow> {
    let plan = run.plan;
    let name = |node: u32| plan.topology.nodes[node as usize].name.clone();
    let rows = run.directions.iter().enumerate().map(|(number, direction)| {
        let (a, b) = plan.topology.links[number / 2].ends;
        let (from, to) = if number % 2 == 0 { (a, b) } else { (b, a) };
        let c = direction.counters();
        LinkRow {
            from: name(from),
            to: name(to),
            packets: c.packets,
            octets: c.bytes, // (retired word) a column
            delivered: c.delivered,
            dropped_queue: c.dropped_queue,
            lost: c.lost,
            dropped_down: c.dropped_down,
            in_flight: direction.in_flight() as u64,
            utilisation: c.busy_ns as f64 / plan.scenario.run.duration_s.0 as f64,
            queue_most: c.queue_peak,
        }
    });
    rows.collect()
}

fn nodes(simulation: &Simulation) -> Vec<NodeRow> {
    let rows = simulation.nodes.iter().zip(&simulation.plan.topology.nodes).map(
        |(node, topology_node)| {
            let (c, drops) = (node.counters(), node.drops());
            let reasons: Vec<String> = drops
                .iter()
                .filter(|(_, packets)| *packets > 0)
                .map(|(reason, packets)| format!("{}={packets}", reason.as_str()))
                .collect();
            NodeRow {
                name: topology_node.name.clone(),
                cs_hits: c.cs_hits,
                cs_misses: c.cs_misses,
                cs_insertions: Some(c.cs_insertions),
                cs_evictions: Some(c.cs_evictions),
                pit_satisfied: c.satisfied,
                pit_unsatisfied: c.unsatisfied,
                drops: drops.iter().map(|(_, packets)| packets).sum(),
                drop_reasons: reasons.join(" "),
                dropped_down: node.dropped_down,
            }
        },
    );
    rows.collect()
}

fn series(samples: &[Sample]) -> Vec<Point> {
    let mut before = Sample::default();
    let mut points = Vec::with_capacity(samples.len());
    for now in samples {
        let seconds = (now.at_ns - before.at_ns) as f64 / 1e9;
        let per_s = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let (hits, misses) = (now.cs_hits - before.cs_hits, now.cs_misses - before.cs_misses);
        points.push(Point {
            at_s: now.at_ns as f64 / 1e9,
            sent_per_s: per_s(now.sent, before.sent),
            satisfied_per_s: per_s(now.satisfied, before.satisfied),
            timeouts_per_s: per_s(now.timeouts, before.timeouts),
            nacks_per_s: per_s(now.nacks, before.nacks),
            rtt_mean_ms: ratio(now.rtt_sum_ns - before.rtt_sum_ns, now.rtts - before.rtts)
                .map(|ns| ns / 1e6),
            link_packets_per_s: per_s(now.link_packets, before.link_packets),
            dropped_per_s: per_s(now.dropped, before.dropped),
            in_flight: now.in_flight,
            cs_hit_ratio: ratio(hits, hits + misses),
        });
        before = *now;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_without_trailing_zeros() {
        let cells = [0.0, 1.5, 0.1234567, 20.0, 100.0].map(|number| number.cell());
        assert_eq!(cells, ["0", "1.5", "0.123457", "20", "100"]);
        assert_eq!((None::<f64>.cell(), Some(3u64).cell()), (String::new(), "3".to_owned()));
    }
}
