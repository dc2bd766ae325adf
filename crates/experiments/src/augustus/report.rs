//! The report: figures 6 to 8 on this machine, beside what the paper says.

use super::placement::allowed_count;
use super::{AugustusPaper, HostKind, Placement};
use crate::check::{Check, Judged, Relation, write_statements};
use nw_report_kit::chart::{Axis, Chart, Line, Scale, Style};
use nw_report_kit::page::{escape, head};
use nw_router::placement::Machine as Processors;
use nw_traffic::machine::Machine;
use serde::Serialize;
use std::fmt::Write;

/// Share of their processors that threads need, so that a point says something.
const PROCESSOR_SHARE_MIN: f64 = 0.9;

/// One measured point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AugustusPoint {
    /// 6 (with 7) or 8.
    pub figure: u8,
    /// What forwarded.
    pub host: HostKind,
    /// Where the threads ran.
    pub placement: Placement,
    /// Number of threads.
    pub threads: usize,
    /// Number of cores that they ran on.
    pub cores: usize,
    /// Prefixes in the FIB, a power of two.
    pub fib_log2: u32,
    /// Data per second of all threads; as many Interests were forwarded.
    pub data_per_s: f64,
    /// Nanoseconds of a thread per packet, half of them Interests.
    pub ns_per_packet: f64,
    /// Share of the time in which the threads had their processors, 0 to 1.
    pub processor_share: f64,
    /// Share of loads that missed the last-level cache, if the machine counts them.
    pub cache_miss_ratio: Option<f64>,
}

impl AugustusPoint {
    /// Returns the Data per second of one core.
    pub fn data_per_core_s(&self) -> f64 {
        self.data_per_s / self.cores as f64
    }
}

/// All points of a run.
#[derive(Clone, Debug, Serialize)]
pub struct AugustusReport {
    /// The machine.
    pub machine: Machine,
    /// Sockets, cores and processors of the machine that this program may use.
    pub processors: [usize; 3],
    /// The points, in the order of their measurement.
    pub points: Vec<AugustusPoint>,
    /// What this machine cannot show, in sentences.
    pub left_out: Vec<String>,
}

/// A number of the paper beside the same of this machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    pub(super) what: &'static str,
    pub(super) paper: f64,
    /// `None` if the machine cannot show it.
    pub(super) here: Option<f64>,
}

impl AugustusReport {
    pub(super) fn new(processors: &Processors) -> Self {
        AugustusReport {
            machine: Machine::here(),
            processors: allowed_count(processors),
            points: Vec::new(),
            left_out: Vec::new(),
        }
    }

    fn of(&self, figure: u8, host: HostKind) -> impl Iterator<Item = &AugustusPoint> {
        self.points.iter().filter(move |point| point.figure == figure && point.host == host)
    }

    /// Returns the throughput of a number of threads, of the best or of the given placement.
    fn data_per_s(&self, threads: usize, placement: Option<Placement>) -> Option<f64> {
        self.of(6, HostKind::Standalone)
            .filter(|point| point.threads == threads)
            .filter(|point| placement.is_none_or(|placement| point.placement == placement))
            .map(|point| point.data_per_s)
            .reduce(f64::max)
    }

    /// Returns the paper's numbers beside this machine's.
    pub(super) fn comparisons(&self, paper: &AugustusPaper) -> Vec<Comparison> {
        let best = |host| self.of(6, host).map(|point| point.data_per_s).reduce(f64::max);
        let most = best(HostKind::Standalone);
        let one = self.data_per_s(1, None);
        let ratio = |of: Option<f64>, to: Option<f64>| Some(of? / to?);
        let two = |placement| ratio(self.data_per_s(2, Some(placement)), one);
        let dual = self.data_per_s(4, Some(Placement::DualSocket));
        let misses = |threads| {
            let mut points = self.of(6, HostKind::Standalone);
            points.find(|point| point.threads == threads)?.cache_miss_ratio
        };
        let number = |what, name, here| Comparison { what, paper: paper.value(name), here };
        let paper_mpps = paper.value("data_mpps_max");
        let ns = |mpps: f64| 1e3 / (2.0 * mpps);
        let paper_one = paper_mpps * paper.value("one_thread_share");
        vec![
            number("most Data, million/s", "data_mpps_max", most.map(|most| most / 1e6)),
            number("one thread, share of the most", "one_thread_share", ratio(one, most)),
            Comparison {
                what: "one thread, Data, million/s",
                paper: paper_one,
                here: one.map(|one| one / 1e6),
            },
            Comparison {
                what: "one thread, ns per packet",
                paper: ns(paper_one),
                here: one.map(|one| ns(one / 1e6)),
            },
            number(
                "two cores, times one thread",
                "two_cores_ratio",
                [two(Placement::DualSocket), two(Placement::SingleSocket)]
                    .into_iter()
                    .flatten()
                    .reduce(f64::max),
            ),
            number(
                "two hyper-threads, times one thread",
                "two_siblings_ratio",
                two(Placement::Hyperthreading),
            ),
            number(
                "four threads on one socket, share of two sockets",
                "four_threads_one_socket_share",
                ratio(self.data_per_s(4, Some(Placement::SingleSocket)), dual),
            ),
            number(
                "six hyper-threads, share of the most",
                "six_threads_siblings_share",
                ratio(self.data_per_s(6, Some(Placement::Hyperthreading)), most),
            ),
            number("misses, 16 threads, times one", "miss_growth", ratio(misses(16), misses(1))),
        ]
    }

    /// Returns the throughput with the largest FIB as a share of that with the smallest, for one
    /// thread, with both sizes.
    fn fib_share(&self, host: HostKind) -> Option<(f64, u32, u32)> {
        let points: Vec<_> = self.of(8, host).filter(|point| point.threads == 1).collect();
        let (first, last) = (points.first()?, points.last()?);
        Some((last.data_per_s / first.data_per_s, first.fib_log2, last.fib_log2))
    }

    /// Returns one sentence per figure.
    pub fn sentences(&self, paper: &AugustusPaper) -> Vec<String> {
        let mut sentences = Vec::new();
        let one_of = |host| {
            self.of(6, host).find(|point| point.threads == 1).map(|point| point.ns_per_packet)
        };
        if let (Some(standalone), Some(graph)) =
            (one_of(HostKind::Standalone), one_of(HostKind::Graph))
        {
            let most = self.points.iter().map(|point| point.data_per_s).fold(0.0, f64::max);
            sentences.push(format!(
                "Figure 6: one thread takes {standalone:.0} ns per packet standalone and \
                 {graph:.0} ns as a graph (paper: {:.0} ns standalone); the most here is {:.2} \
                 million Data/s (paper: {} million on 16 cores).",
                1e3 / (2.0 * paper.value("data_mpps_max") * paper.value("one_thread_share")),
                most / 1e6,
                paper.value("data_mpps_max"),
            ));
        }
        for host in HostKind::ALL {
            let Some((share, from, to)) = self.fib_share(host) else { continue };
            sentences.push(format!(
                "Figure 8: {} with one thread keeps {:.0} % of its throughput from 2^{from} to \
                 2^{to} prefixes.",
                host.as_str(),
                100.0 * share
            ));
        }
        sentences
    }
}

impl Judged for AugustusReport {
    fn checks(&self) -> Vec<Check> {
        let paper = AugustusPaper::read();
        let ns = 1e3 / (2.0 * paper.value("data_mpps_max") * paper.value("one_thread_share"));
        let best = self
            .of(6, HostKind::Standalone)
            .filter(|point| point.threads == 1)
            .map(|point| point.ns_per_packet)
            .reduce(f64::min);
        let what = "figure 6: ns per packet of one thread, standalone,";
        best.map(|here| Check::new(what, here, ns, Relation::AtMost)).into_iter().collect()
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let share = |point: &AugustusPoint| {
            point.processor_share < PROCESSOR_SHARE_MIN && point.threads <= self.processors[2]
        };
        let busy = self.points.iter().filter(|point| share(point)).count();
        if busy > 0 {
            problems.push(format!(
                "At {busy} of {} points the threads had less than {:.0} % of their processors: \
                 other programs ran. Repeat it on an idle machine.",
                self.points.len(),
                100.0 * PROCESSOR_SHARE_MIN
            ));
        }
        if self.machine.build == "debug" {
            problems.push(
                "This is a debug build, many times slower than a release build: only ratios say \
                 something."
                    .to_owned(),
            );
        }
        problems
    }
}

/// Returns the HTML page, which loads nothing from elsewhere.
pub fn augustus_page(report: &AugustusReport, paper: &AugustusPaper) -> String {
    let mut out = head("nw paper augustus: a router on many cores, and the size of its FIB");
    let [sockets, cores, processors] = report.processors;
    let _ = writeln!(
        out,
        "<p>Figures 6 to 8 of {}, <i>{}</i>, repeated here on {} with {sockets} socket(s), {cores} \
         core(s), {processors} processor(s), {} MiB of memory, kernel {}, {} build. The paper's \
         machine had 2 sockets, 16 cores and 32 hyper-threads at {} GHz.</p>\n\
         <p>Every packet misses the content store and the PIT and reads the FIB, as in the paper. \
         Packets come from memory here, and from a 10 Gbit/s network card there. Each thread has \
         tables of its own. Names have 4 to 8 components, the longest prefix all but the \
         last.</p>",
        escape(&paper.authors),
        escape(&paper.title),
        escape(&report.machine.cpu),
        report.machine.memory_mib,
        escape(&report.machine.kernel),
        escape(&report.machine.build),
        paper.value("clock_ghz"),
    );
    for text in report.problems().iter().chain(&report.left_out) {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(text));
    }
    comparison_table(report, paper, &mut out);
    write_statements(&report.checks(), &mut out);
    for figure in [6, 7, 8] {
        let charts: Vec<Chart> = charts(report, figure)
            .into_iter()
            .filter(|chart| chart.lines.iter().any(|line| !line.points.is_empty()))
            .collect();
        if charts.is_empty() {
            continue;
        }
        let text = &paper.figure[&figure.to_string()];
        let _ = writeln!(
            out,
            "<h2>Figure {figure}. {}</h2><p>The paper found that {}.</p><div class=\"charts\">",
            escape(&text.caption),
            escape(&text.found)
        );
        charts.iter().for_each(|chart| out.push_str(&chart.svg()));
        out.push_str("</div>\n");
    }
    point_table(report, &mut out);
    out.push_str("</body></html>\n");
    out
}

fn comparison_table(report: &AugustusReport, paper: &AugustusPaper, out: &mut String) {
    out.push_str(
        "<table><tr><th>number</th><th class=\"n\">the paper</th><th class=\"n\">here</th></tr>\n",
    );
    for row in report.comparisons(paper) {
        let here = row.here.map_or_else(|| "not here".to_owned(), |here| format!("{here:.2}"));
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{:.2}</td><td class=\"n\">{here}</td></tr>",
            row.what, row.paper
        );
    }
    out.push_str("</table>\n");
}

/// Labels of the lines of figures 6 and 7: placement and host.
const LABELS: [[&str; 2]; 3] = [
    ["hyper-threading, standalone", "hyper-threading, graph"],
    ["single socket, standalone", "single socket, graph"],
    ["dual socket, standalone", "dual socket, graph"],
];
/// Labels of the lines of figure 8: one or more threads, and host.
const LABELS_FIB: [[&str; 2]; 2] = [
    ["one thread, standalone", "one thread, graph"],
    ["several threads, standalone", "several threads, graph"],
];

/// A value of a point, if it has one.
type Value = fn(&AugustusPoint) -> Option<f64>;

fn charts(report: &AugustusReport, figure: u8) -> Vec<Chart> {
    let throughput: Value = |point| Some(point.data_per_s / 1e6);
    let per_core: Value = |point| Some(point.data_per_core_s() / 1e6);
    let misses: Value = |point| point.cache_miss_ratio.map(|ratio| 100.0 * ratio);
    let chart = |title, label, value| {
        let (x, lines) = match figure {
            8 => ("prefixes in the FIB", fib_lines(report, value)),
            _ => ("threads", thread_lines(report, value)),
        };
        let scale = if figure == 8 { Scale::Log } else { Scale::Linear };
        Chart {
            title,
            x: Axis { label: x, scale },
            y: Axis { label, scale: Scale::Linear },
            style: Style::Lines,
            lines,
        }
    };
    let data = "Data, million/s";
    match figure {
        6 => vec![
            chart("Throughput", data, throughput),
            chart("Throughput of a core", data, per_core),
        ],
        7 => vec![chart("Cache misses", "% of loads", misses)],
        _ => {
            vec![chart("Throughput", data, throughput), chart("Cache misses", "% of loads", misses)]
        }
    }
}

fn thread_lines(report: &AugustusReport, value: Value) -> Vec<Line> {
    let mut lines = Vec::new();
    for (placement, labels) in Placement::ALL.into_iter().zip(LABELS) {
        for (host, label) in HostKind::ALL.into_iter().zip(labels) {
            let points = report.of(6, host).filter(|point| point.placement == placement);
            let points = points.filter_map(|point| Some((point.threads as f64, value(point)?)));
            lines.push(Line { label, points: points.collect() });
        }
    }
    lines.retain(|line| !line.points.is_empty());
    lines
}

fn fib_lines(report: &AugustusReport, value: Value) -> Vec<Line> {
    let mut lines = Vec::new();
    for (has_several, labels) in [false, true].into_iter().zip(LABELS_FIB) {
        for (host, label) in HostKind::ALL.into_iter().zip(labels) {
            let points = report.of(8, host).filter(|point| (point.threads > 1) == has_several);
            let points =
                points.filter_map(|point| Some((f64::from(point.fib_log2).exp2(), value(point)?)));
            lines.push(Line { label, points: points.collect() });
        }
    }
    lines.retain(|line| !line.points.is_empty());
    lines
}

fn point_table(report: &AugustusReport, out: &mut String) {
    out.push_str(
        "<h2>All points</h2><table><tr><th>figure</th><th>version</th><th>placement</th>\
         <th class=\"n\">threads</th><th class=\"n\">cores</th><th class=\"n\">prefixes</th>\
         <th class=\"n\">Data/s</th><th class=\"n\">Data/s of a core</th>\
         <th class=\"n\">ns/packet</th><th class=\"n\">processor</th>\
         <th class=\"n\">misses</th></tr>\n",
    );
    for point in &report.points {
        let misses = point
            .cache_miss_ratio
            .map_or_else(|| "not counted".to_owned(), |ratio| format!("{:.1} %", 100.0 * ratio));
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">2^{}</td><td class=\"n\">{:.0}</td><td class=\"n\">{:.0}</td>\
             <td class=\"n\">{:.0}</td><td class=\"n\">{:.0} %</td><td class=\"n\">{misses}</td></tr>",
            point.figure,
            point.host.as_str(),
            point.placement.as_str(),
            point.threads,
            point.cores,
            point.fib_log2,
            point.data_per_s,
            point.data_per_core_s(),
            point.ns_per_packet,
            100.0 * point.processor_share,
        );
    }
    out.push_str("</table>\n");
}
