//! The report: figure 1 of the paper for each router and load, beside the paper's numbers.

use super::Paper;
use super::simulated::SIMULATOR;
use crate::check::{Check, Judged, Relation, Source, write_statements};
use crate::conditions::{Conditions, write_problems};
use nw_report_kit::bounds::bound_of_row;
use nw_report_kit::page::{escape, head};
use nw_traffic::bulk::{BulkResult, section};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// All runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BulkReport {
    /// Conditions on the machine, where real routers ran: virtual time does not depend on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    /// The runs of this router, in their order.
    pub runs: Vec<BulkResult>,
    /// Runs of other routers, which are shown beside and not judged.
    #[serde(default)]
    pub references: Vec<BulkResult>,
    /// What could not be run here, and why.
    pub left_out: Vec<String>,
}

impl BulkReport {
    /// Returns the runs of all routers.
    pub fn all(&self) -> impl Iterator<Item = &BulkResult> {
        self.runs.iter().chain(&self.references)
    }
}

impl Judged for BulkReport {
    fn checks(&self) -> Vec<Check> {
        self.runs.iter().flat_map(checks).collect()
    }

    fn problems(&self) -> Vec<String> {
        self.conditions.as_ref().map(Conditions::problems).unwrap_or_default()
    }
}

/// Returns the statements about a run: all bounds of the experiment.
pub(super) fn checks(run: &BulkResult) -> Vec<Check> {
    let summary = &run.summary;
    let row = format!("overload/bulk/{}", run.files_per_s);
    let subject = format!("{}, {} files a second", run.router, run.files_per_s);
    let complete = Check::new(
        format!("{subject}: complete files"),
        summary.complete as f64,
        summary.files as f64,
        Relation::AtLeast,
    );
    let values = [
        ("goodput_share", "goodput, share of the link's", summary.goodput_share),
        ("retransmitted_share", "share of Interests sent again", Some(summary.retransmitted_share)),
        ("pending_in_bdp", "pending, bandwidth-delay products", summary.pending_in_bdp),
        ("time_share", "time over the link's", summary.time_share),
        ("jain", "Jain's index", Some(summary.jain)),
    ];
    let mut checks = vec![complete.from(Source::Bound)];
    for (unit, what, value) in values {
        if let (Some(bound), Some(value)) = (bound_of_row(&row, unit), value) {
            checks.push(Check::of(bound, format!("{subject}: {what}"), value));
        }
    }
    // Virtual time is the same on every machine.
    let is_virtual = run.router.starts_with(SIMULATOR);
    checks.iter_mut().for_each(|check| check.on_any_machine = is_virtual);
    checks
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
    write_problems(&report.problems(), &mut out);
    table(report, paper, &mut out);
    write_statements(&report.checks(), &mut out);
    for reason in &report.left_out {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(reason));
    }
    for run in report.all() {
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
    for run in report.all() {
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
