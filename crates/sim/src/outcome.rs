//! What came of a run. The same scenario and seed give the same, octet by octet: nothing here says how long it took.

use crate::scenario::{Metric, is_called};
use crate::simulation::Simulation;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Declares a row: a struct with the head and the cells of a table of such.
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

/// A line of a table.
pub trait Row {
    /// What stands above.
    const HEAD: &'static [&'static str];
    /// What stands in it.
    fn cells(&self) -> Vec<String>;
}

/// What a cell shows.
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
        /// Its name, with the node behind an @.
        name: String,
        /// producer, or how it asks.
        kind: String,
        /// Interests sent; by producers Data.
        sent: u64,
        /// Interests answered; of producers those that came.
        satisfied: u64,
        /// Interests refused.
        nacks: u64,
        /// Interests without an answer in their lifetime.
        timeouts: u64,
        /// Interests on their way at the end.
        pending: u64,
        /// Requests for what was on its way already.
        joined: u64,
        /// Data that nobody waited for any more.
        late: u64,
        /// Data with a congestion mark.
        marks: u64,
        /// Octets of Data received; by producers sent.
        octets: u64,
        /// Megabits of these a second, until a download was complete.
        mbps: f64,
        /// From Interest to Data.
        rtt_mean_ms: Option<f64>,
        /// Half are at most that.
        rtt_p50_ms: Option<f64>,
        /// 90 % are.
        rtt_p90_ms: Option<f64>,
        /// 99 % are.
        rtt_p99_ms: Option<f64>,
        /// The longest.
        rtt_max_ms: Option<f64>,
        /// When a download was complete, from when it began.
        done_s: Option<f64>,
        /// Why a download was given up.
        failed: Option<String>,
    }
}

row! {
    /// One direction of a link.
    LinkRow {
        /// From this node.
        from: String,
        /// To this.
        to: String,
        /// Packets given to it.
        packets: u64,
        /// Octets of these.
        octets: u64,
        /// Packets that arrived.
        delivered: u64,
        /// Came when the queue was full.
        dropped_queue: u64,
        /// Lost on the way.
        lost: u64,
        /// Came, or were on their way, while the link or its other end was down.
        dropped_down: u64,
        /// On their way at the end.
        in_flight: u64,
        /// Share of the time in which it was sending.
        utilisation: f64,
        /// Most packets that waited.
        queue_most: u64,
    }
}

row! {
    /// A node.
    NodeRow {
        /// Its name.
        name: String,
        /// Interests that its content store answered.
        cs_hits: u64,
        /// And did not.
        cs_misses: u64,
        /// Data kept.
        cs_insertions: u64,
        /// Data that made room for others.
        cs_evictions: u64,
        /// Pending Interests that were answered.
        pit_satisfied: u64,
        /// Pending Interests that ended otherwise.
        pit_unsatisfied: u64,
        /// Packets dropped on purpose or for a fault.
        drops: u64,
        /// Of these by reason, as `no_route=3 duplicate_nonce=1`.
        drop_reasons: String,
        /// Packets of its applications that came while it was down.
        dropped_down: u64,
    }
}

row! {
    /// A piece of time.
    Point {
        /// Its end.
        at_s: f64,
        /// Interests that consumers sent a second.
        sent_per_s: f64,
        /// Of these answered.
        satisfied_per_s: f64,
        /// Not answered in time.
        timeouts_per_s: f64,
        /// Refused.
        nacks_per_s: f64,
        /// From Interest to Data, those of this piece.
        rtt_mean_ms: Option<f64>,
        /// Packets given to links a second.
        link_packets_per_s: f64,
        /// Packets that links dropped or lost a second.
        dropped_per_s: f64,
        /// Packets on their way at its end.
        in_flight: u64,
        /// Share of Interests at routers that content stores answered.
        cs_hit_ratio: Option<f64>,
    }
}

row! {
    /// All consumers, links and nodes together.
    Totals {
        /// Interests that consumers sent.
        sent: u64,
        /// Share of these that were answered, those on their way left out.
        satisfied: Option<f64>,
        /// Not answered in time.
        timeouts: u64,
        /// Refused.
        nacks: u64,
        /// From Interest to Data.
        rtt_mean_ms: Option<f64>,
        /// Half are at most that.
        rtt_p50_ms: Option<f64>,
        /// 99 % are.
        rtt_p99_ms: Option<f64>,
        /// Megabits of Data that consumers got a second.
        mbps: f64,
        /// When the last download was complete; none when one was not, or there was none.
        done_s: Option<f64>,
        /// Share of Interests at routers that content stores answered.
        cs_hit_ratio: Option<f64>,
        /// Packets given to links: each hop counts.
        link_packets: u64,
        /// Of these, dropped or lost.
        dropped: u64,
        /// Of these, because a queue was full.
        queue_drops: u64,
        /// Packets given to links, or between applications and their nodes.
        packets: u64,
        /// Events.
        events: u64,
    }
}

/// What was expected, and what came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// As it was written.
    pub expected: String,
    /// What was measured; none when there was nothing to measure.
    pub measured: Option<f64>,
    /// Whether it is as expected.
    pub holds: bool,
}

/// See the module.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Virtual seconds.
    pub duration_s: f64,
    /// Nodes of the topology.
    pub nodes_count: u64,
    /// Links of the topology.
    pub links_count: u64,
    /// All together.
    pub totals: Totals,
    /// What was expected.
    pub verdicts: Vec<Verdict>,
    /// What does not add up; empty is good.
    pub violations: Vec<String>,
    /// Producers, then consumers.
    pub applications: Vec<ApplicationRow>,
    /// Two rows a link.
    pub links: Vec<LinkRow>,
    /// By number.
    pub nodes: Vec<NodeRow>,
    /// Over time.
    pub series: Vec<Point>,
    /// Times from Interest to Data of all consumers, nanoseconds.
    #[serde(skip)]
    pub rtt_ns: Histogram<u64>,
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Outcome {
    /// Reads all counters.
    pub fn of(simulation: &Simulation) -> Self {
        let plan = &simulation.plan;
        let duration_s = plan.scenario.run.duration_s.value();
        let applications = applications(simulation, duration_s);
        let mut rtt_ns = Histogram::new(2).expect("two digits are supported");
        for seat in &simulation.seats[simulation.producers..] {
            rtt_ns.add(&seat.application.counters().rtt_ns).expect("both grow as they must");
        }
        let mut outcome = Outcome {
            seed: plan.scenario.run.seed,
            duration_s,
            nodes_count: plan.topology.nodes.len() as u64,
            links_count: plan.topology.links.len() as u64,
            totals: Totals::default(),
            verdicts: Vec::new(),
            violations: simulation.violations(),
            applications,
            links: links(simulation),
            nodes: nodes(simulation),
            series: series(simulation),
            rtt_ns,
        };
        outcome.totals = outcome.totals_of(None);
        outcome.totals.packets = simulation.packets();
        outcome.totals.events = simulation.events();
        outcome.verdicts = plan
            .expectations
            .iter()
            .map(|expectation| {
                let measured = outcome.measure(expectation.metric, expectation.application.as_deref());
                let holds = expectation.holds(measured);
                Verdict { expected: expectation.text.clone(), measured, holds }
            })
            .collect();
        outcome
    }

    /// True when everything adds up and is as expected.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty() && self.verdicts.iter().all(|verdict| verdict.holds)
    }

    /// A measure, of one application or all consumers; `None` when there is nothing to measure.
    pub fn measure(&self, metric: &str, application: Option<&str>) -> Option<f64> {
        debug_assert!(Metric::ALL.iter().any(|known| known.name == metric));
        let totals = if application.is_some() { self.totals_of(application) } else { self.totals.clone() };
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
        let chosen: Vec<&ApplicationRow> = self
            .applications
            .iter()
            .filter(|row| row.kind != "producer" && application.is_none_or(|name| is_called(&row.name, name)))
            .collect();
        let sum = |field: fn(&ApplicationRow) -> u64| chosen.iter().map(|row| field(row)).sum::<u64>();
        let (sent, pending) = (sum(|row| row.sent), sum(|row| row.pending));
        let satisfied = sum(|row| row.satisfied);
        let weighted: f64 =
            chosen.iter().filter_map(|row| Some(row.rtt_mean_ms? * row.satisfied as f64)).sum();
        // Of one application at several nodes: the worst of them.
        let worst = |field: fn(&ApplicationRow) -> Option<f64>| {
            chosen.iter().filter_map(|row| field(row)).reduce(f64::max)
        };
        let (p50, p99) = if application.is_none() && !self.rtt_ns.is_empty() {
            let longest = worst(|row| row.rtt_max_ms).unwrap_or(f64::INFINITY);
            let at = |share| Some(ms(self.rtt_ns.value_at_quantile(share)).min(longest));
            (at(0.5), at(0.99))
        } else {
            (worst(|row| row.rtt_p50_ms), worst(|row| row.rtt_p99_ms))
        };
        let downloads: Vec<_> = chosen.iter().filter(|row| row.kind == "bulk").collect();
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
            mbps: chosen.iter().map(|row| row.mbps).sum(),
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

fn applications(simulation: &Simulation, duration_s: f64) -> Vec<ApplicationRow> {
    let plan = &simulation.plan;
    let producers = plan.producers.iter().map(|producer| (&producer.name, "producer"));
    let consumers = plan.consumers.iter().map(|consumer| (&consumer.name, consumer.kind.as_str()));
    let rows = producers.chain(consumers).zip(&simulation.seats).map(|((name, kind), seat)| {
        let c = seat.application.counters();
        let count = c.rtt_ns.len();
        // The histogram gives the end of a range, which may lie beyond all that was measured.
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
            octets: c.octets,
            mbps: c.octets as f64 * 8.0 / 1e6 / done_s.unwrap_or(duration_s),
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

fn links(simulation: &Simulation) -> Vec<LinkRow> {
    let plan = &simulation.plan;
    let name = |node: u32| plan.topology.nodes[node as usize].name.clone();
    let rows = simulation.directions.iter().enumerate().map(|(number, direction)| {
        let (a, b) = plan.topology.links[number / 2].ends;
        let (from, to) = if number % 2 == 0 { (a, b) } else { (b, a) };
        let c = direction.counters();
        LinkRow {
            from: name(from),
            to: name(to),
            packets: c.packets,
            octets: c.octets,
            delivered: c.delivered,
            dropped_queue: c.dropped_queue,
            lost: c.lost,
            dropped_down: c.dropped_down,
            in_flight: direction.in_flight() as u64,
            utilisation: c.busy_ns as f64 / plan.scenario.run.duration_s.0 as f64,
            queue_most: c.queue_most,
        }
    });
    rows.collect()
}

fn nodes(simulation: &Simulation) -> Vec<NodeRow> {
    let rows = simulation.stations.iter().zip(&simulation.plan.topology.nodes).map(|(station, place)| {
        let (c, drops) = (station.counters(), station.drops());
        let reasons: Vec<String> = drops
            .iter()
            .filter(|(_, packets)| *packets > 0)
            .map(|(reason, packets)| format!("{}={packets}", reason.as_str()))
            .collect();
        NodeRow {
            name: place.name.clone(),
            cs_hits: c.cs_hits,
            cs_misses: c.cs_misses,
            cs_insertions: c.cs_insertions,
            cs_evictions: c.cs_evictions,
            pit_satisfied: c.satisfied,
            pit_unsatisfied: c.unsatisfied,
            drops: drops.iter().map(|(_, packets)| packets).sum(),
            drop_reasons: reasons.join(" "),
            dropped_down: station.dropped_down,
        }
    });
    rows.collect()
}

fn series(simulation: &Simulation) -> Vec<Point> {
    let mut before = crate::simulation::Sample::default();
    let mut points = Vec::with_capacity(simulation.samples.len());
    for now in &simulation.samples {
        let seconds = (now.at_ns - before.at_ns) as f64 / 1e9;
        let per_s = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let (hits, misses) = (now.cs_hits - before.cs_hits, now.cs_misses - before.cs_misses);
        points.push(Point {
            at_s: now.at_ns as f64 / 1e9,
            sent_per_s: per_s(now.sent, before.sent),
            satisfied_per_s: per_s(now.satisfied, before.satisfied),
            timeouts_per_s: per_s(now.timeouts, before.timeouts),
            nacks_per_s: per_s(now.nacks, before.nacks),
            rtt_mean_ms: ratio(now.rtt_sum_ns - before.rtt_sum_ns, now.rtts - before.rtts).map(|ns| ns / 1e6),
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
    fn numbers_are_short() {
        let cells = [0.0, 1.5, 0.1234567, 20.0, 100.0].map(|number| number.cell());
        assert_eq!(cells, ["0", "1.5", "0.123457", "20", "100"]);
        assert_eq!((None::<f64>.cell(), Some(3u64).cell()), (String::new(), "3".to_owned()));
    }
}
