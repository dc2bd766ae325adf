//! The report: figure 1 of the paper for each router and load, beside the paper's numbers.

use super::Paper;
use nw_report_kit::page::{escape, head};
use nw_traffic::bulk::{BulkResult, section};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Goodput that a load must reach, as a share of what the link can carry.
const GOODPUT_MIN: f64 = 0.97;
/// Share of the Interests that may be sent again.
const AGAIN_MAX: f64 = 0.001;
/// Time for all files, as a multiple of the link's.
const TIME_MAX: f64 = 1.05;

/// All runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BulkReport {
    /// The runs, in their order.
    pub runs: Vec<BulkResult>,
    /// What could not be run here, and why.
    pub left_out: Vec<String>,
}

impl BulkReport {
    /// Returns whether a run keeps the bounds: goodput, retransmissions and time.
    pub fn holds(run: &BulkResult) -> bool {
        let summary = &run.summary;
        summary.complete == summary.files
            && summary.goodput_share.is_none_or(|share| share >= GOODPUT_MIN)
            && summary.time_share.is_none_or(|share| share <= TIME_MAX)
            && summary.retransmitted_share <= AGAIN_MAX
    }
}

/// Returns the HTML page, which loads nothing from elsewhere.
pub fn bulk_page(report: &BulkReport, paper: &Paper) -> String {
    let mut out = head("nw paper bulk: parallel downloads over one link");
    let _ = writeln!(
        out,
        "<p>The experiment of {}, <i>{}</i>, repeated here. In the paper, files took {} s each at \
         100 files a second, where the link could have carried all of them in {} s, and {:.0} % of \
         the link was in use.</p>",
        escape(&paper.authors),
        escape(&paper.title),
        paper.value("file_s_worst"),
        paper.value("all_files_s_possible"),
        100.0 * paper.value("load_share"),
    );
    table(report, paper, &mut out);
    for reason in &report.left_out {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(reason));
    }
    for run in &report.runs {
        let _ =
            writeln!(out, "<h2>{}: {} files a second</h2>", escape(&run.router), run.files_per_s);
        section(run, &mut out);
    }
    out.push_str("</body></html>\n");
    out
}

fn table(report: &BulkReport, paper: &Paper, out: &mut String) {
    out.push_str(
        "<table><tr><th>router</th><th class=\"n\">files/s</th><th class=\"n\">complete</th>\
         <th class=\"n\">all files, s</th><th class=\"n\">longest file, s</th>\
         <th class=\"n\">goodput, share of the link</th><th class=\"n\">sent again</th>\
         <th class=\"n\">pending</th><th class=\"n\">Jain</th></tr>\n",
    );
    let _ = writeln!(
        out,
        "<tr><td>CCNx 0.5.1 (the paper)</td><td class=\"n\">100</td><td class=\"n\"></td>\
         <td class=\"n\"></td><td class=\"n\">{}</td><td class=\"n\">about {:.2} (load)</td>\
         <td class=\"n\"></td><td class=\"n\"></td><td class=\"n\"></td></tr>",
        paper.value("file_s_worst"),
        paper.value("load_share")
    );
    for run in &report.runs {
        let summary = &run.summary;
        let share = summary.goodput_share.map(|share| format!("{share:.3}")).unwrap_or_default();
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{} of {}</td>\
             <td class=\"n\">{:.2}</td><td class=\"n\">{:.2}</td><td class=\"n\">{share}</td>\
             <td class=\"n\">{:.3} %</td><td class=\"n\">{}</td><td class=\"n\">{:.3}</td></tr>",
            escape(&run.router),
            run.files_per_s,
            summary.complete,
            summary.files,
            summary.seconds,
            summary.file_s_max,
            100.0 * summary.retransmitted_share,
            summary.pending_max,
            summary.jain
        );
    }
    out.push_str("</table>\n");
}
