//! What came of it: for programs as JSON, for people as one HTML page with each figure beside the paper's. Pure.

use crate::caching::Caching;
use crate::conditions::Conditions;
use crate::finding::{Check, Finding, findings};
use crate::live::Live;
use crate::multicast::Multicast;
use crate::numbers::Csr;
use crate::scale::{Cell, MEMBERS, MEMBERS_MAX, Scale};
use crate::setup::Setup;
use crate::weights::Weights;
use nw_report_kit::chart::{Axis, Chart, Line, Scale as Steps, Style};
use nw_report_kit::page::{escape, head};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// All that was measured, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// By which rules.
    pub setup: Setup,
    /// How busy the machine was, and whether members were the bottleneck.
    #[serde(default)]
    pub conditions: Conditions,
    /// Figures 6 to 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// Figures 9 and 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// Figure 11.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast: Option<Multicast>,
    /// Figures 12 and 13.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caching: Option<Caching>,
    /// Figure 14.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Live>,
    /// Figure by figure.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Nothing measured yet.
    pub fn new(setup: Setup) -> Report {
        Report {
            setup,
            conditions: Conditions::default(),
            scale: None,
            weights: None,
            multicast: None,
            caching: None,
            live: None,
            findings: Vec::new(),
        }
    }

    /// Holds what was measured against what the paper found, for these figures.
    pub fn judge(&mut self, csr: &Csr, figures: &[u8]) {
        self.findings = findings(csr, self, figures);
    }

    /// How many figures agree with the paper's.
    pub fn agreeing(&self) -> usize {
        self.findings.iter().filter(|finding| finding.agrees()).count()
    }

    /// Returns whether every figure agrees and was measured under conditions in which that says something.
    pub fn is_proof(&self) -> bool {
        self.agreeing() == self.findings.len() && self.conditions.problems().is_empty()
    }
}

/// The page. Nothing in it comes from elsewhere.
pub fn page(report: &Report, csr: &Csr) -> String {
    let mut out = head("nw paper csr: a cluster behind a kernel balancer");
    let _ = writeln!(
        out,
        "<p>The experiments of {}, <i>{}</i>, repeated here. {} of {} figures agree with the paper's.{}</p>",
        escape(&csr.authors),
        escape(&csr.title),
        report.agreeing(),
        report.findings.len(),
        if report.setup.quick { " A quick run: short downloads, fewer points." } else { "" }
    );
    for problem in report.conditions.problems() {
        let _ = writeln!(out, "<p><strong style=\"color:#a03c00\">{}</strong></p>", escape(&problem));
    }
    let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&report.conditions.describe()));
    out.push_str("<h2>What differs from the paper's testbed</h2>\n<ul>\n");
    for words in report.setup.words() {
        let _ = writeln!(out, "<li>{}</li>", escape(&words));
    }
    out.push_str("</ul>\n");
    for finding in &report.findings {
        section(finding, report, csr, &mut out);
    }
    out.push_str("<h2>The paper's numbers</h2>\n<table>\n<tr><th>number</th><th class=\"n\">value</th><th>where it stands</th></tr>\n");
    for (name, number) in &csr.number {
        let values: Vec<_> = number.values.iter().map(f64::to_string).collect();
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"note\">{}</td></tr>",
            escape(name),
            values.join(", "),
            escape(&number.from)
        );
    }
    out.push_str("</table>\n</body></html>\n");
    out
}

fn section(finding: &Finding, report: &Report, csr: &Csr, out: &mut String) {
    let (mark, colour) = if finding.agrees() { ("agrees", "#00664b") } else { ("does not agree", "#a03c00") };
    let _ = writeln!(
        out,
        "<section id=\"figure-{n}\">\n<h2>Figure {n}: {} <span style=\"color:{colour}\">– {mark}</span></h2>\n<p>{}</p>\n<div class=\"charts\">",
        escape(&finding.caption),
        escape(&finding.sentence()),
        n = finding.figure
    );
    let charts = charts(finding.figure, report, csr);
    for chart in &charts {
        // Charts of the same quantity have the same scale: shapes compare by eye.
        let _ = writeln!(out, "<figure style=\"margin:0\">{}</figure>", chart.svg_on_scale_of(&charts));
    }
    out.push_str("</div>\n<details><summary class=\"note\">every check</summary>\n<table>\n<tr><th>what</th><th class=\"n\">here</th><th class=\"n\">wanted</th><th>wanted by</th><th></th></tr>\n");
    for check in &finding.checks {
        row(check, out);
    }
    out.push_str("</table></details>\n</section>\n");
}

fn row(check: &Check, out: &mut String) {
    let _ = writeln!(
        out,
        "<tr><td>{}</td><td class=\"n\">{:.3}</td><td class=\"n\">{:.3}</td><td>{}</td><td>{}</td></tr>",
        escape(check.what.trim_end_matches(',')),
        check.here,
        check.paper,
        check.source.as_str(),
        if check.holds() { "holds" } else { "<strong>fails</strong>" }
    );
}

const MEMBER_LABELS: [&str; MEMBERS] = ["member 1", "member 2", "member 3"];
const CAPACITIES: &str = "throughput (one member's capacity is 1)";

fn charts(figure: u8, report: &Report, csr: &Csr) -> Vec<Chart> {
    let drawn = match figure {
        6 => report.scale.as_ref().map(|scale| figure_6(csr, scale)),
        7 => report.scale.as_ref().map(|scale| vec![figure_7(csr, scale)]),
        8 => report.scale.as_ref().map(|scale| vec![figure_8(csr, scale, report.setup.share)]),
        9 => report.weights.as_ref().map(|weights| vec![figure_9(csr, weights)]),
        10 => report.weights.as_ref().map(|weights| vec![figure_10(csr, weights)]),
        11 => report.multicast.as_ref().map(|multicast| vec![figure_11(multicast)]),
        12 => report.caching.as_ref().map(figure_12),
        13 => report.caching.as_ref().map(|caching| vec![figure_13(caching)]),
        _ => report.live.as_ref().map(|live| vec![figure_14(csr, live)]),
    };
    drawn.unwrap_or_default()
}

fn linear(label: &'static str) -> Axis {
    Axis { label, scale: Steps::Linear }
}

fn lines(title: &'static str, x: &'static str, y: &'static str, lines: Vec<Line>) -> Chart {
    Chart { title, x: linear(x), y: linear(y), style: Style::Lines, lines }
}

fn over_downloads<'a>(
    cells: impl Iterator<Item = &'a Cell>,
    value: impl Fn(&Cell) -> f64,
) -> Vec<(f64, f64)> {
    cells.map(|cell| (cell.downloads as f64, value(cell))).collect()
}

const DOWNLOADS: &str = "downloads at a time";

fn figure_6(csr: &Csr, scale: &Scale) -> Vec<Chart> {
    const LABELS: [&str; MEMBERS_MAX + 1] = ["no cluster", "1 member", "2 members", "3 members", "4 members"];
    let all = |value: &dyn Fn(&Cell) -> f64| -> Vec<Line> {
        LABELS
            .iter()
            .enumerate()
            .map(|(members, label)| Line { label, points: over_downloads(scale.row(members), value) })
            .filter(|line| !line.points.is_empty())
            .collect()
    };
    vec![
        lines("Here", DOWNLOADS, CAPACITIES, all(&Cell::throughput)),
        lines("Paper", DOWNLOADS, CAPACITIES, all(&|cell| csr.throughput(cell.members, cell.downloads))),
    ]
}

/// A line for each member, in units of a value.
fn by_member(cells: &[&Cell], value: impl Fn(&Cell, usize) -> f64) -> Vec<Line> {
    MEMBER_LABELS
        .iter()
        .enumerate()
        .map(|(at, label)| Line {
            label,
            points: over_downloads(cells.iter().copied(), |cell| value(cell, at)),
        })
        .collect()
}

fn of_member(values: &[f64], at: usize) -> f64 {
    values.get(at).copied().unwrap_or(0.0)
}

fn figure_7(csr: &Csr, scale: &Scale) -> Chart {
    let cells: Vec<_> = scale.row(MEMBERS).collect();
    let mut all = by_member(&cells, |cell, at| of_member(&cell.member_mbit, at) / cell.capacity_mbit);
    let paper = |cell: &Cell| csr.throughput(MEMBERS, cell.downloads) / MEMBERS as f64;
    all.push(Line { label: "paper, each", points: over_downloads(cells.iter().copied(), paper) });
    lines("What each member handles", DOWNLOADS, CAPACITIES, all)
}

fn figure_8(csr: &Csr, scale: &Scale, share: f64) -> Chart {
    let cells: Vec<_> = scale.row(MEMBERS).collect();
    let mut all = by_member(&cells, |cell, at| 100.0 * of_member(&cell.member_cpu, at) / share);
    let points = over_downloads(cells.iter().copied(), |cell| 100.0 * cell.balancer_cpu / share);
    all.push(Line { label: "balancer", points });
    let paper = |cell: &Cell| 100.0 * csr.throughput(MEMBERS, cell.downloads) / MEMBERS as f64;
    all.push(Line { label: "paper, each member", points: over_downloads(cells.iter().copied(), paper) });
    lines("Processor time", DOWNLOADS, "load (% of a member's processor)", all)
}

fn figure_9(csr: &Csr, weights: &Weights) -> Chart {
    let here = |cells: &[Cell]| over_downloads(cells.iter(), Cell::throughput);
    let paper = |cells: &[Cell], of| over_downloads(cells.iter(), |cell| csr.of_unlike(of, cell.downloads));
    lines(
        "Equal and matching weights",
        DOWNLOADS,
        CAPACITIES,
        vec![
            Line { label: "equal", points: here(&weights.uniform) },
            Line { label: "matching", points: here(&weights.weighted) },
            Line { label: "model, equal", points: paper(&weights.uniform, [1; 3]) },
            Line { label: "model, matching", points: paper(&weights.weighted, weights.weights) },
        ],
    )
}

fn figure_10(csr: &Csr, weights: &Weights) -> Chart {
    let cells: Vec<_> = weights.weighted.iter().collect();
    let mut all = by_member(&cells, |cell, at| of_member(&cell.member_mbit, at) / cell.capacity_mbit);
    let sum: f64 = weights.weights.iter().map(|weight| f64::from(*weight)).sum();
    for (label, at) in [("model, 1 and 2", 0), ("model, 3", 2)] {
        let part = f64::from(weights.weights[at]) / sum;
        let paper = |cell: &Cell| part * csr.of_unlike(weights.weights, cell.downloads);
        all.push(Line { label, points: over_downloads(cells.iter().copied(), paper) });
    }
    lines("What each member handles, matching weights", DOWNLOADS, CAPACITIES, all)
}

fn numbered(values: impl IntoIterator<Item = f64>) -> Vec<(f64, f64)> {
    values.into_iter().enumerate().map(|(at, value)| (at as f64, value)).collect()
}

fn figure_11(multicast: &Multicast) -> Chart {
    const WHO: &[&str] = &["c1", "c2", "c3", "c4", "c5", "p1", "m1", "m2", "m3"];
    let one = multicast.one_consumer_mbit();
    let here =
        multicast.consumers_mbit.iter().chain([&multicast.producer_mbit]).chain(&multicast.members_mbit);
    let consumers = multicast.consumers_mbit.len() as f64;
    let alike = multicast.consumers_mbit.iter().map(|_| 1.0).chain([1.0]);
    let paper =
        alike.chain(multicast.members_mbit.iter().map(|_| consumers / multicast.members_mbit.len() as f64));
    Chart {
        title: "Consumers, producer, members",
        x: Axis { label: "consumers c, producer p, members m towards consumers", scale: Steps::Columns(WHO) },
        y: linear("throughput (one consumer's is 1)"),
        style: Style::Beside,
        lines: vec![
            Line { label: "here", points: numbered(here.map(|mbit| mbit / one)) },
            Line { label: "paper", points: numbered(paper) },
        ],
    }
}

fn figure_12(caching: &Caching) -> Vec<Chart> {
    let over_time = lines(
        "Here",
        "seconds",
        "Mbit/s, in and out",
        vec![
            Line { label: "consumer", points: caching.consumer.clone() },
            Line { label: "producer", points: caching.producer.clone() },
        ],
    );
    let shares = [0, 1].map(|at| caching.producer_octets[at] / caching.consumer_octets[at]);
    let parts = Chart {
        title: "What the producer passes of it",
        x: Axis { label: "download", scale: Steps::Columns(&["first", "second"]) },
        y: linear("producer's traffic (the consumer's is 1)"),
        style: Style::Beside,
        lines: vec![
            Line { label: "here", points: numbered(shares) },
            Line { label: "paper", points: numbered([1.0, 0.0]) },
        ],
    };
    vec![over_time, parts]
}

fn figure_13(caching: &Caching) -> Chart {
    let packets = caching.packets as f64;
    let part = |curve: &[(f64, f64)]| curve.iter().map(|(time, stored)| (*time, stored / packets)).collect();
    let mut all: Vec<_> = MEMBER_LABELS
        .iter()
        .zip(&caching.stored)
        .map(|(label, curve)| Line { label, points: part(curve) })
        .collect();
    let [(begun, ended), (_, last)] = caching.downloads;
    let each = 1.0 / MEMBERS as f64;
    all.push(Line { label: "paper, each", points: vec![(begun, 0.0), (ended, each), (last, each)] });
    lines("What the members' caches hold", "seconds", "share of the content", all)
}

fn figure_14(csr: &Csr, live: &Live) -> Chart {
    let here = live.consumers.iter().map(|(time, mbit)| (*time, mbit / live.capacity_at(*time))).collect();
    // The paper's steps, as long as ours.
    let paper = live
        .stages
        .iter()
        .zip(csr.all("live_members"))
        .flat_map(|(stage, members)| [(stage.from_s, *members), (stage.to_s, *members)])
        .collect();
    lines(
        "Members come and go: 1, 2, 3, 2, 1",
        "seconds",
        CAPACITIES,
        vec![Line { label: "here", points: here }, Line { label: "paper", points: paper }],
    )
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
