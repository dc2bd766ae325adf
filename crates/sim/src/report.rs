//! Results as files: CSV tables, and one page with charts.

use crate::outcome::{Outcome, Point, Row};
use crate::topology::{self, Topology};
use core::fmt::Write;
use nw_report_kit::chart::{Axis, Chart, Line, Scale, Style};
use nw_report_kit::page::{escape, head};
use std::io;
use std::path::Path;

/// Maximum number of rows per table on the page; files contain all.
const PAGE_ROWS_MAX: usize = 100;

/// Returns rows as comma-separated values (RFC 4180, with `\
/// ` line ends).
pub fn csv<R: Row>(rows: &[R]) -> String {
    let mut out = R::HEAD.join(",");
    out.push('\n');
    for row in rows {
        let cells: Vec<String> = row.cells().iter().map(|cell| quote(cell)).collect();
        out.push_str(&cells.join(","));
        out.push('\n');
    }
    out
}

fn quote(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// Writes `totals.csv`, `applications.csv`, `links.csv`, `nodes.csv`, `series.csv` and
/// `report.html` to a folder, which is created if needed.
///
/// # Errors
/// If the folder or a file can't be written.
pub fn write(outcome: &Outcome, topology: &Topology, title: &str, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let files = [
        ("totals.csv", csv(std::slice::from_ref(&outcome.totals))),
        ("applications.csv", csv(&outcome.applications)),
        ("links.csv", csv(&outcome.links)),
        ("nodes.csv", csv(&outcome.nodes)),
        ("series.csv", csv(&outcome.series)),
        ("report.html", page(outcome, topology, title)),
    ];
    files.into_iter().try_for_each(|(name, text)| std::fs::write(folder.join(name), text))
}

/// Returns the HTML page.
pub fn page(outcome: &Outcome, topology: &Topology, title: &str) -> String {
    let (verb, unit) = outcome.host();
    let mut out = head(&format!("{verb}: {title}"));
    let _ = writeln!(
        out,
        "<p>{} nodes, {} links, {} {unit}; seed {}</p>",
        outcome.nodes_count, outcome.links_count, outcome.duration_s, outcome.seed
    );
    for verdict in &outcome.verdicts {
        let measured = verdict.measured.map_or("nothing".into(), |value| format!("{value:.6}"));
        let word = if verdict.holds { "holds" } else { "<strong>does not hold</strong>" };
        let _ = writeln!(out, "<p>{} {word}: {measured}</p>", escape(&verdict.expected));
    }
    for violation in &outcome.violations {
        let _ =
            writeln!(out, "<p><strong>packets unaccounted for:</strong> {}</p>", escape(violation));
    }
    out.push_str("<div class=\"charts\">\n");
    for chart in charts(outcome) {
        let _ = writeln!(out, "<figure style=\"margin:0\">{}</figure>", chart.svg());
    }
    let load = |link: usize| {
        outcome.links[2 * link].utilisation.max(outcome.links[2 * link + 1].utilisation)
    };
    let _ = writeln!(
        out,
        "<figure style=\"margin:0\">{}<figcaption class=\"note\">Links: the thicker, the busier</figcaption></figure>\n</div>",
        topology::svg(topology, load)
    );
    table(&mut out, "All", std::slice::from_ref(&outcome.totals));
    table(&mut out, "Applications", &outcome.applications);
    let mut links = outcome.links.clone();
    links.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation).then(b.packets.cmp(&a.packets)));
    table(&mut out, "Links, busiest first", &links);
    let mut nodes = outcome.nodes.clone();
    nodes.sort_by_key(|node| core::cmp::Reverse(node.cs_hits + node.cs_misses));
    table(&mut out, "Nodes, busiest first", &nodes);
    let footer = match outcome.is_real_time {
        true => "Measured on real router processes: another run differs.",
        false => "The same scenario and seed give the same page.",
    };
    let _ = writeln!(out, "<footer>{footer}</footer>\n</body></html>");
    out
}

fn table<R: Row>(out: &mut String, title: &str, rows: &[R]) {
    // A wide table scrolls by itself, not with the page.
    let _ = write!(
        out,
        "<h2>{title}</h2>\n<div style=\"overflow-x:auto\"><table style=\"font-size:.8em\">\n<tr>"
    );
    let shown: Vec<Vec<Cell>> = rows
        .iter()
        .take(PAGE_ROWS_MAX)
        .map(|row| row.cells().iter().map(|cell| Cell::of(cell)).collect())
        .collect();
    for (at, head) in R::HEAD.iter().enumerate() {
        let class = shown.first().map_or("", |cells| cells[at].class());
        let _ = write!(out, "<th{class}>{}</th>", head.replace('_', " "));
    }
    out.push_str("</tr>\n");
    for cells in &shown {
        out.push_str("<tr>");
        for cell in cells {
            let _ = write!(out, "<td{}>{}</td>", cell.class(), escape(&cell.text));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
    if rows.len() > PAGE_ROWS_MAX {
        let _ = writeln!(
            out,
            "<p class=\"note\">{} more are in the CSV file</p>",
            rows.len() - PAGE_ROWS_MAX
        );
    }
}

/// A cell of a table on the page: rounded, while files have all digits.
struct Cell {
    text: String,
    is_number: bool,
}

impl Cell {
    fn of(written: &str) -> Self {
        let number = written.parse::<f64>().ok();
        let text = match number.filter(|number| number.is_finite() && written.contains('.')) {
            Some(number) => rounded(number),
            None => written.to_owned(),
        };
        Cell { text, is_number: number.is_some() || written.is_empty() }
    }

    fn class(&self) -> &'static str {
        if self.is_number { " class=\"n\"" } else { "" }
    }
}

/// Returns a number with four significant digits, or all digits before the point.
fn rounded(number: f64) -> String {
    let before = if number == 0.0 { 1.0 } else { number.abs().log10().floor() + 1.0 };
    let text = format!("{number:.*}", (4.0 - before).clamp(0.0, 9.0) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// Value of a point in a chart.
type Value = fn(&Point) -> Option<f64>;

fn charts(outcome: &Outcome) -> Vec<Chart> {
    let over_time = |value: Value| {
        outcome
            .series
            .iter()
            .filter_map(|point| Some((point.at_s, value(point)?)))
            .collect::<Vec<_>>()
    };
    let time = || Axis { label: "virtual time (s)", scale: Scale::Linear };
    let linear = |label| Axis { label, scale: Scale::Linear };
    let chart = |title, y, lines: Vec<(&'static str, Value)>| Chart {
        title,
        x: time(),
        y,
        style: Style::Lines,
        lines: lines
            .into_iter()
            .map(|(label, value)| Line { label, points: over_time(value) })
            .collect(),
    };
    let quantiles = if outcome.rtt_ns.is_empty() {
        Vec::new()
    } else {
        let steps = ((outcome.rtt_ns.len() as f64).log10().min(5.0) * 24.0).ceil() as u32;
        let share = |step: u32| 1.0 - 10f64.powf(-f64::from(step) / 24.0);
        (0..=steps)
            .map(share)
            .map(|share| (share, outcome.rtt_ns.value_at_quantile(share) as f64 / 1e6))
            .collect()
    };
    vec![
        chart(
            "Interests of consumers",
            linear("a second"),
            vec![
                ("sent", |point| Some(point.sent_per_s)),
                ("answered", |point| Some(point.satisfied_per_s)),
                ("timed out", |point| Some(point.timeouts_per_s)),
            ],
        ),
        Chart {
            title: "Time from Interest to Data by share",
            x: Axis { label: "share of Interests answered that fast", scale: Scale::Nines },
            y: Axis { label: "ms", scale: Scale::Log },
            style: Style::Lines,
            lines: vec![Line { label: "time", points: quantiles }],
        },
        chart(
            "Time from Interest to Data, mean",
            linear("ms"),
            vec![("mean", |point| point.rtt_mean_ms)],
        ),
        chart(
            "Interests answered by content stores",
            linear("share"),
            vec![("share", |point| point.cs_hit_ratio)],
        ),
        chart(
            "Packets dropped or lost by links",
            linear("a second"),
            vec![("dropped", |point| Some(point.dropped_per_s))],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_cells_with_commas_or_quotes_quoted() {
        assert_eq!(["a", "a,b", "a\"b"].map(quote), ["a", "\"a,b\"", "\"a\"\"b\""]);
    }
}
