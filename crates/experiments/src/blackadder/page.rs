//! The page: each figure beside what the paper says about it.

use super::BlackadderReport;
use super::figures::checks;
use crate::bulk::Paper;
use crate::check::{Judged, write_statements};
use crate::conditions::write_problems;
use nw_report_kit::chart::{Axis, Chart, Line, Scale, Style};
use nw_report_kit::page::{escape, head};
use std::fmt::Write;

/// A figure: number, title, horizontal axis, vertical axis, whether the latter is logarithmic, and
/// what the paper found and how this run differs.
type Figure = (u8, &'static str, &'static str, &'static str, bool, &'static str);

const FIGURES: [Figure; 7] = [
    (
        4,
        "Within a node",
        "subscribers",
        "MB/s to each subscriber",
        true,
        "The paper: more than 1 GB/s for large payloads and few subscribers, 40 to 100 MB/s with \
         10, because each subscriber gets a copy; payloads up to 100 kB. Here subscribers read a \
         ring that is written once, and each copies what it reads.",
    ),
    (
        5,
        "Along a chain",
        "nodes with subscribers",
        "MB/s to each subscriber",
        false,
        "The paper: line speed of 1 Gbit/s at 13 nodes with one subscriber each, falling beyond \
         three nodes with six, loss below 5 %; 15 machines. Here all nodes share this machine's \
         processors, so the sum of their work limits the rate, not a link: processors divided by the \
         processor time of a delivery and by the number of subscribers is the most that can be \
         expected. Each value is at 80 % of the rate that the last node receives when the \
         publisher does not pause.",
    ),
    (
        6,
        "Response time of rendezvous",
        "subscribers of a node",
        "ms, mean",
        true,
        "The paper: 20 ms with 200 subscribers and 54 ms with 500 in a node; 388 ms in a star of \
         15 machines with 500 on each of 14; 100,000 items. Here the star has one machine's \
         processors in all.",
    ),
    (
        7,
        "Emulated sockets",
        "clients",
        "MB/s",
        false,
        "The paper: with both ways the total is bounded by the network, and a client's part falls \
         with their number. Here all clients are behind one link of 100 Mbit/s.",
    ),
    (
        8,
        "Within a node, beside NDN",
        "kB of a piece",
        "MB/s",
        false,
        "The paper: publish/subscribe is far above CCNx, which answers from its content store. \
         Here NDN is this router with 8,000 bytes in a packet at most.",
    ),
    (
        9,
        "Along a chain, beside NDN",
        "nodes, or hops to the producer",
        "MB/s",
        true,
        "The paper: Blackadder at line speed, and 80 MB/s with 6 subscribers a node; CCNx falls \
         from 10.4 MB/s at one node to 0.4 MB/s at 13, and to 0.17 MB/s where it signs each \
         packet. Here each Interest asks for a new name.",
    ),
    (
        10,
        "Rendezvous for each publication",
        "hops to the publisher",
        "MB/s",
        true,
        "The paper: about the level of CCNx, with a rendezvous for every packet. Here 16 \
         subscriptions wait at a time; each publication is an item of its own.",
    ),
];

/// Returns the HTML page, which loads nothing from elsewhere.
pub fn blackadder_page(report: &BlackadderReport, paper: &Paper) -> String {
    let mut out = head("nw paper blackadder: publish/subscribe");
    let quick = if report.quick {
        " A quick run: networks are small and loads short, so figures are rough."
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "<p>The experiments of {}, <i>{}</i>, repeated here on {} processors.{quick}</p>",
        escape(&paper.authors),
        escape(&paper.title),
        report.cores
    );
    write_problems(&report.problems(), &mut out);
    let _ = writeln!(
        out,
        "<p class=\"note\">{} Publishers and subscribers are threads of one process with a \
         connection each. MB are 10<sup>6</sup> bytes of payload.</p>",
        escape(&report.conditions.before_the_runs())
    );
    for figure in &FIGURES {
        if report.points.iter().any(|point| point.figure == figure.0) {
            write_figure(report, figure, &mut out);
        }
    }
    if !report.left_out.is_empty() {
        out.push_str("<h2>What was not run</h2>\n<ul>\n");
        for text in &report.left_out {
            let _ = writeln!(out, "<li>{}</li>", escape(text));
        }
        out.push_str("</ul>\n");
    }
    numbers(paper, &mut out);
    out.push_str("</body></html>\n");
    out
}

fn write_figure(report: &BlackadderReport, figure: &Figure, out: &mut String) {
    let (number, title, x, y, is_log, text) = *figure;
    let points: Vec<_> = report.points.iter().filter(|point| point.figure == number).collect();
    let _ = writeln!(out, "<h2>Figure {number}: {title}</h2>\n<p>{}</p>", escape(text));
    let mut series: Vec<&'static str> = Vec::new();
    for point in &points {
        if !series.contains(&point.series) {
            series.push(point.series);
        }
    }
    let line = |label: &&'static str| {
        let own = points.iter().filter(|point| point.series == *label);
        Line { label, points: own.map(|point| (point.x, point.value)).collect() }
    };
    let mut lines: Vec<Line> = series.iter().map(line).collect();
    let known = points.iter().filter_map(|point| Some((point.x, point.paper?)));
    let mut known: Vec<(f64, f64)> = known.collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    known.dedup();
    if !known.is_empty() && number != 5 && number != 9 {
        lines.push(Line { label: "the paper", points: known });
    }
    let scale = if is_log { Scale::Log } else { Scale::Linear };
    let chart = Chart {
        title,
        x: Axis { label: x, scale: Scale::Linear },
        y: Axis { label: y, scale },
        style: Style::Lines,
        lines,
    };
    let _ = writeln!(
        out,
        "<div class=\"charts\"><figure style=\"margin:0\">{}</figure></div>\n<table><tr><th></th>\
         <th class=\"n\">{x}</th><th class=\"n\">here, {y}</th><th class=\"n\">the paper</th>\
         <th class=\"n\">lost</th><th class=\"n\">processor, µs a delivery</th></tr>",
        chart.svg()
    );
    for point in points {
        let optional = |value: Option<f64>, digits: usize, unit: &str| {
            value.map_or(String::new(), |value| format!("{value:.digits$}{unit}"))
        };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{:.3}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            point.series,
            point.x,
            point.value,
            optional(point.paper, 1, ""),
            optional(point.lost.map(|lost| 100.0 * lost), 2, " %"),
            optional(point.cpu_us, 2, "")
        );
    }
    out.push_str("</table>\n");
    let checks = checks(report);
    let own = checks.iter().filter(|(figure, _)| *figure == number);
    write_statements(own.map(|(_, check)| check), out);
}

/// Writes the paper's numbers with their positions.
fn numbers(paper: &Paper, out: &mut String) {
    out.push_str("<h2>Numbers of the paper</h2>\n<ul>\n");
    for number in paper.number.values() {
        let values: Vec<String> = number.values.iter().map(f64::to_string).collect();
        let _ = writeln!(
            out,
            "<li class=\"note\">{}: {}</li>",
            values.join(", "),
            escape(&number.from)
        );
    }
    out.push_str("</ul>\n");
}
