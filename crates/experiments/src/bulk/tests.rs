//! The bounds of the experiment, in virtual time: the same result on every machine.

use super::*;
use crate::check::{Judged, Verdict};
use nw_report_kit::bounds::bound;

#[test]
fn paper_data_is_complete() {
    let paper = Paper::read();
    assert_eq!(paper.number["files_per_s"].values, [2.0, 10.0, 100.0]);
    assert_eq!(paper.value("file_s_worst"), 150.0);
}

#[test]
fn simulated_link_stays_full_at_every_load() {
    for files_per_s in [2.0, 10.0, 100.0] {
        let result = simulate(SimulatedChain::paper(files_per_s)).expect("a chain");
        let checks = report::checks(&result);
        assert_eq!(checks.len(), 6, "complete files and five bounds");
        let missed: Vec<_> = checks.iter().filter(|check| !check.holds()).collect();
        assert!(missed.is_empty(), "{missed:?}");
    }
}

/// As in the chain of namespaces: the router before the slowest link has all files behind one face,
/// and no delay but that of queues. A link shared equally at each moment has 0.966.
#[test]
fn files_behind_one_face_have_equal_shares() {
    for rate_mbit in [80.0, 95.5] {
        let chain =
            SimulatedChain { rate_mbit, delay_ms: 0.05, hops: 2, ..SimulatedChain::paper(10.0) };
        let result = simulate(chain).expect("a chain");
        assert_eq!(result.summary.complete, 100, "{}", result.describe());
        let keeps = |key, value| bound(key).limit.holds(value);
        let (jain, goodput) = (result.summary.jain, result.summary.goodput_share);
        assert!(keeps("overload/bulk/*.jain", jain), "{}", result.describe());
        let goodput = goodput.expect("the link is known");
        assert!(keeps("overload/bulk/*.goodput_share", goodput), "{}", result.describe());
    }
}

/// Returns the row of a run in the table of docs/guide/papers.md, with missed bounds in bold.
fn guide_row(run: &BulkResult) -> String {
    let summary = &run.summary;
    let missed: Vec<_> = report::checks(run).into_iter().filter(|check| !check.holds()).collect();
    let cell = |what: &str, text: String| match missed.iter().any(|c| c.what.contains(what)) {
        true => format!("**{text}**"),
        false => text,
    };
    let share = |value: Option<f64>| value.unwrap_or(f64::NAN);
    let link = run.router.trim_start_matches("simulator, ");
    format!(
        "| {link} | {} | {} | {} | {} | {} | {} |",
        run.files_per_s,
        cell("goodput", format!("{:.3}", share(summary.goodput_share))),
        cell("sent again", format!("{:.2} %", 100.0 * summary.retransmitted_share)),
        cell("time over", format!("{:.2}", share(summary.time_share))),
        cell("pending", format!("{:.1}", share(summary.pending_in_bdp))),
        cell("Jain", format!("{:.3}", summary.jain)),
    )
}

fn guide_has(chains: &[SimulatedChain]) {
    let guide = include_str!("../../../../docs/guide/papers.md");
    let rows = chains.iter().map(|chain| guide_row(&simulate(*chain).expect("a chain")));
    let missing: Vec<_> = rows.filter(|row| !guide.contains(row)).collect();
    assert!(missing.is_empty(), "docs/guide/papers.md lacks:\n{}", missing.join("\n"));
}

#[test]
fn guide_states_the_results_of_the_papers_link() {
    guide_has(&[2.0, 10.0, 100.0].map(SimulatedChain::paper));
}

#[test]
#[ignore = "a minute: 1.6 million segments"]
fn guide_states_the_results_of_other_links() {
    guide_has(&SimulatedChain::others(100.0));
}

#[test]
fn simulated_run_is_the_same_every_time() {
    let chain = SimulatedChain::paper(100.0);
    assert_eq!(simulate(chain).expect("a chain"), simulate(chain).expect("a chain"));
}

#[test]
fn bulk_page_shows_every_run_beside_the_paper() {
    let run = simulate(SimulatedChain::paper(2.0)).expect("a chain");
    let left_out = vec!["NDNd: no Go here".to_owned()];
    let mut other = run.clone();
    other.router = "NDNd, UDP".to_owned();
    other.summary.jain = 0.4;
    let (runs, references) = (vec![run], vec![other]);
    let mut report = BulkReport { runs, references, left_out, conditions: None };
    assert_eq!(report.verdict(), Verdict::Holds, "other routers are not judged");
    let page = bulk_page(&report, &Paper::read());
    report.runs[0].summary.jain = 0.4;
    assert_eq!(report.verdict(), Verdict::DoesNotHold);
    for text in ["CCNx 0.5.1", "150 s each", "Pending Interests", "NDNd: no Go here", "NDNd, UDP"] {
        assert!(page.contains(text), "{text}");
    }
}
