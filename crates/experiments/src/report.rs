//! The report of a run as JSON, and as an HTML page with each figure beside the paper's.

use crate::caching::Caching;
use crate::check::{Check, Judged};
use crate::conditions::{Conditions, write_problems};
use crate::finding::{Finding, findings};
use crate::multicast::Multicast;
use crate::paper_data::Csr;
use crate::scale::{Cell, MEMBERS, MEMBERS_MAX, Scale};
use crate::setup::Setup;
use crate::timeline::Timeline;
use crate::weights::Weights;
use nw_report_kit::chart::{Axis, Chart, Line, Scale as Steps, Style};
use nw_report_kit::page::{escape, head};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// All measurements and findings of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The setup of the run.
    pub setup: Setup,
    /// The conditions during the measurements.
    #[serde(default)]
    pub conditions: Conditions,
    /// The measurements of figures 6 to 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// The measurements of figures 9 and 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// The measurements of figure 11.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast: Option<Multicast>,
    /// The measurements of figures 12 and 13.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caching: Option<Caching>,
    /// The measurements of figure 14.
    #[serde(default, alias = "live", skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// The findings of each figure.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Returns a report without measurements.
    pub fn new(setup: Setup) -> Report {
        Report {
            setup,
            conditions: Conditions::default(),
            scale: None,
            weights: None,
            multicast: None,
            caching: None,
            timeline: None,
            findings: Vec::new(),
        }
    }

    /// Computes the findings of the selected figures.
    pub fn evaluate(&mut self, csr: &Csr, figures: &[u8]) {
        self.findings = findings(csr, self, figures);
    }

    /// Returns the number of figures that agree with the paper's.
    pub fn agreeing(&self) -> usize {
        self.findings.iter().filter(|finding| finding.agrees()).count()
    }
}

impl Judged for Report {
    fn checks(&self) -> Vec<Check> {
        self.findings.iter().flat_map(|finding| finding.checks.clone()).collect()
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.conditions.problems();
        let unmeasured = self.findings.iter().filter(|finding| finding.checks.is_empty());
        problems.extend(
            unmeasured.map(|finding| format!("Figure {}: nothing was measured.", finding.figure)),
        );
        problems
    }
}

/// Returns the HTML page, which loads nothing from elsewhere.
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
    write_problems(&report.problems(), &mut out);
    let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&report.conditions.describe()));
    out.push_str("<h2>What differs from the paper's testbed</h2>\n<ul>\n");
    for paragraph in report.setup.describe() {
        let _ = writeln!(out, "<li>{}</li>", escape(&paragraph));
    }
    out.push_str("</ul>\n");
    for finding in &report.findings {
        section(finding, report, csr, &mut out);
    }
    out.push_str("<h2>The paper's numbers</h2>\n<table>\n<tr><th>number</th><th class=\"n\">value</th><th>position in the paper</th></tr>\n");
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
    let (mark, colour) =
        if finding.agrees() { ("agrees", "#00664b") } else { ("does not agree", "#a03c00") };
    let _ = writeln!(
        out,
        "<section id=\"figure-{n}\">\n<h2>Figure {n}: {} <span style=\"color:{colour}\">– {mark}</span></h2>\n<p>{}</p>\n<div class=\"charts\">",
        escape(&finding.caption),
        escape(&finding.sentence()),
        n = finding.figure
    );
    let charts = charts(finding.figure, report, csr);
    for chart in &charts {
        // Charts of the same quantity have the same scale, so that their shapes can be compared.
        let _ =
            writeln!(out, "<figure style=\"margin:0\">{}</figure>", chart.svg_on_scale_of(&charts));
    }
    out.push_str("</div>\n<details><summary class=\"note\">every check</summary>\n<table>\n<tr><th>what</th><th class=\"n\">here</th><th class=\"n\">expected</th><th>expected by</th><th></th></tr>\n");
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
        _ => report.timeline.as_ref().map(|timeline| vec![figure_14(csr, timeline)]),
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

const DOWNLOADS: &str = "concurrent downloads";

fn figure_6(csr: &Csr, scale: &Scale) -> Vec<Chart> {
    const LABELS: [&str; MEMBERS_MAX + 1] =
        ["no cluster", "1 member", "2 members", "3 members", "4 members"];
    let all = |value: &dyn Fn(&Cell) -> f64| -> Vec<Line> {
        LABELS
            .iter()
            .enumerate()
            .map(|(members, label)| Line {
                label,
                points: over_downloads(scale.row(members), value),
            })
            .filter(|line| !line.points.is_empty())
            .collect()
    };
    vec![
        lines("Here", DOWNLOADS, CAPACITIES, all(&Cell::throughput)),
        lines(
            "Paper",
            DOWNLOADS,
            CAPACITIES,
            all(&|cell| csr.throughput(cell.members, cell.downloads)),
        ),
    ]
}

/// Returns a line for each member.
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
    let mut all =
        by_member(&cells, |cell, at| of_member(&cell.member_mbit, at) / cell.capacity_mbit);
    let paper = |cell: &Cell| csr.throughput(MEMBERS, cell.downloads) / MEMBERS as f64;
    all.push(Line { label: "paper, each", points: over_downloads(cells.iter().copied(), paper) });
    lines("Traffic of each member", DOWNLOADS, CAPACITIES, all)
}

fn figure_8(csr: &Csr, scale: &Scale, share: f64) -> Chart {
    let cells: Vec<_> = scale.row(MEMBERS).collect();
    let mut all = by_member(&cells, |cell, at| 100.0 * of_member(&cell.member_cpu, at) / share);
    let points = over_downloads(cells.iter().copied(), |cell| 100.0 * cell.balancer_cpu / share);
    all.push(Line { label: "balancer", points });
    let paper = |cell: &Cell| 100.0 * csr.throughput(MEMBERS, cell.downloads) / MEMBERS as f64;
    all.push(Line {
        label: "paper, each member",
        points: over_downloads(cells.iter().copied(), paper),
    });
    lines("Processor time", DOWNLOADS, "load (% of a member's processor)", all)
}

fn figure_9(csr: &Csr, weights: &Weights) -> Chart {
    let here = |cells: &[Cell]| over_downloads(cells.iter(), Cell::throughput);
    let paper = |cells: &[Cell], of| {
        over_downloads(cells.iter(), |cell| csr.heterogeneous(of, cell.downloads))
    };
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
    let mut all =
        by_member(&cells, |cell, at| of_member(&cell.member_mbit, at) / cell.capacity_mbit);
    let sum: f64 = weights.weights.iter().map(|weight| f64::from(*weight)).sum();
    for (label, at) in [("model, 1 and 2", 0), ("model, 3", 2)] {
        let part = f64::from(weights.weights[at]) / sum;
        let paper = |cell: &Cell| part * csr.heterogeneous(weights.weights, cell.downloads);
        all.push(Line { label, points: over_downloads(cells.iter().copied(), paper) });
    }
    lines("Traffic of each member, matching weights", DOWNLOADS, CAPACITIES, all)
}

fn numbered(values: impl IntoIterator<Item = f64>) -> Vec<(f64, f64)> {
    values.into_iter().enumerate().map(|(at, value)| (at as f64, value)).collect()
}

fn figure_11(multicast: &Multicast) -> Chart {
    const NODES: &[&str] = &["c1", "c2", "c3", "c4", "c5", "p1", "m1", "m2", "m3"];
    let one = multicast.one_consumer_mbit();
    let here = multicast
        .consumers_mbit
        .iter()
        .chain([&multicast.producer_mbit])
        .chain(&multicast.members_mbit);
    let consumers = multicast.consumers_mbit.len() as f64;
    let alike = multicast.consumers_mbit.iter().map(|_| 1.0).chain([1.0]);
    let paper = alike.chain(
        multicast.members_mbit.iter().map(|_| consumers / multicast.members_mbit.len() as f64),
    );
    Chart {
        title: "Consumers, producer, members",
        x: Axis {
            label: "consumers c, producer p, members m towards consumers",
            scale: Steps::Columns(NODES),
        },
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
        "Mbit/s, received and sent",
        vec![
            Line { label: "consumer", points: caching.consumer.clone() },
            Line { label: "producer", points: caching.producer.clone() },
        ],
    );
    let shares = [0, 1].map(|at| caching.producer_bytes[at] / caching.consumer_bytes[at]);
    let parts = Chart {
        title: "Share of the producer's traffic",
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
    let part = |curve: &[(f64, f64)]| {
        curve.iter().map(|(time, stored)| (*time, stored / packets)).collect()
    };
    let mut all: Vec<_> = MEMBER_LABELS
        .iter()
        .zip(&caching.stored)
        .map(|(label, curve)| Line { label, points: part(curve) })
        .collect();
    let [(begun, ended), (_, last)] = caching.downloads;
    let each = 1.0 / MEMBERS as f64;
    all.push(Line {
        label: "paper, each",
        points: vec![(begun, 0.0), (ended, each), (last, each)],
    });
    lines("Content of the members' caches", "seconds", "share of the content", all)
}

fn figure_14(csr: &Csr, timeline: &Timeline) -> Chart {
    let here = timeline
        .consumers
        .iter()
        .map(|(time, mbit)| (*time, mbit / timeline.capacity_at(*time)))
        .collect();
    // The paper's steps, with the length of the measured stages.
    let paper = timeline
        .stages
        .iter()
        .zip(csr.values("live_members"))
        .flat_map(|(stage, members)| [(stage.from_s, *members), (stage.to_s, *members)])
        .collect();
    lines(
        "Changing number of members: 1, 2, 3, 2, 1",
        "seconds",
        CAPACITIES,
        vec![Line { label: "here", points: here }, Line { label: "paper", points: paper }],
    )
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
