//! Bulk results as CSV and as charts like figure 1 of the paper.

use super::{BulkResult, BulkSample};
use nw_report_kit::chart::{Axis, Chart, Line, Scale, Style};
use nw_report_kit::page::{escape, head};
use std::fmt::Write;

/// Returns a table with one row per file.
pub fn csv_files(result: &BulkResult) -> String {
    let mut out = String::from("file,start_s,stop_s,interests,retransmissions,nacks,marks,error\n");
    for file in &result.files {
        let stop = file.stop_s.map(|stop| format!("{stop:.6}")).unwrap_or_default();
        let error = file.error.as_deref().unwrap_or_default().replace(['"', ','], " ");
        let _ = writeln!(
            out,
            "{},{:.6},{stop},{},{},{},{},{error}",
            file.file, file.start_s, file.interests, file.retransmissions, file.nacks, file.marks
        );
    }
    out
}

/// Returns a table with one row per sample.
pub fn csv_samples(result: &BulkResult) -> String {
    let mut out = String::from(
        "at_s,goodput_mbit,link_mbit,pending,outstanding,retransmissions_per_s,nacks_per_s,\
         marks_per_s\n",
    );
    for sample in &result.samples {
        let link = sample.link_mbit.map(|mbit| format!("{mbit:.3}")).unwrap_or_default();
        let pending = sample.pending.map(|pending| pending.to_string()).unwrap_or_default();
        let _ = writeln!(
            out,
            "{:.3},{:.3},{link},{pending},{},{:.1},{:.1},{:.1}",
            sample.at_s,
            sample.goodput_mbit,
            sample.outstanding,
            sample.retransmissions_per_s,
            sample.nacks_per_s,
            sample.marks_per_s
        );
    }
    out
}

/// Returns the four charts of the paper's figure for one load.
fn charts(result: &BulkResult) -> Vec<Chart> {
    let file = |time: fn(f64, f64) -> f64| {
        let points = result
            .files
            .iter()
            .filter_map(|file| Some((file.file as f64, time(file.start_s, file.stop_s?))));
        points.collect::<Vec<_>>()
    };
    let over_time = |value: &dyn Fn(&BulkSample) -> Option<f64>| {
        let points = result.samples.iter().filter_map(|sample| Some((sample.at_s, value(sample)?)));
        points.collect::<Vec<_>>()
    };
    let pending = |sample: &BulkSample| sample.pending.map(|pending| pending as f64);
    let outstanding = |sample: &BulkSample| Some(sample.outstanding as f64);
    vec![
        chart(
            "Start and stop of each file",
            ("file", "seconds"),
            vec![
                Line { label: "stop", points: file(|_, stop| stop) },
                Line { label: "start", points: file(|start, _| start) },
            ],
        ),
        chart(
            "Pending Interests",
            ("seconds", "Interests"),
            vec![
                Line { label: "router", points: over_time(&pending) },
                Line { label: "consumers", points: over_time(&outstanding) },
            ],
        ),
        chart(
            "Interests sent again",
            ("seconds", "Interests per second"),
            vec![Line {
                label: "sent again",
                points: over_time(&|sample| Some(sample.retransmissions_per_s)),
            }],
        ),
        chart(
            "Network load and goodput",
            ("seconds", "Mbit/s"),
            vec![
                Line { label: "link", points: over_time(&|sample| sample.link_mbit) },
                Line { label: "goodput", points: over_time(&|sample| Some(sample.goodput_mbit)) },
            ],
        ),
    ]
}

fn chart(title: &'static str, axes: (&'static str, &'static str), lines: Vec<Line>) -> Chart {
    let axis = |label| Axis { label, scale: Scale::Linear };
    Chart { title, x: axis(axes.0), y: axis(axes.1), style: Style::Lines, lines }
}

/// Returns a section of a page: a sentence and the charts of a run.
pub fn section(result: &BulkResult, out: &mut String) {
    let _ = writeln!(out, "<p>{}</p>\n<div class=\"charts\">", escape(&result.describe()));
    for chart in charts(result) {
        let _ = writeln!(out, "<figure style=\"margin:0\">{}</figure>", chart.svg());
    }
    out.push_str("</div>\n");
}

/// Returns a page with the charts of a run, which loads nothing from elsewhere.
pub fn html(result: &BulkResult) -> String {
    let mut out = head("nw bench bulk");
    section(result, &mut out);
    out.push_str("</body></html>\n");
    out
}

impl BulkResult {
    /// Returns one sentence about the run.
    pub fn describe(&self) -> String {
        let summary = &self.summary;
        let mut text = format!(
            "{}: {} files a second for {} s, {} of {} files complete in {:.2} s (median {:.2} s, \
             longest {:.2} s); goodput {:.1} Mbit/s, {:.2} % of the Interests sent again, at most \
             {} pending, Jain's index {:.3}",
            self.router,
            self.files_per_s,
            self.start_seconds,
            summary.complete,
            summary.files,
            summary.seconds,
            summary.file_s_median,
            summary.file_s_max,
            summary.goodput_mbit,
            100.0 * summary.retransmitted_share,
            summary.pending_max,
            summary.jain,
        );
        if let (Some(share), Some(time)) = (summary.goodput_share, summary.time_share) {
            let _ = write!(
                text,
                "; {:.1} % of what the link can carry, {time:.2} times its time",
                100.0 * share
            );
        }
        if let Some(bdp) = summary.pending_in_bdp {
            let _ = write!(text, "; pending Interests {bdp:.1} bandwidth-delay products");
        }
        text
    }
}
