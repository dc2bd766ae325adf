//! The bounds of the experiment, in virtual time: the same result on every machine.

use super::*;

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
        let summary = result.summary;
        assert_eq!(summary.complete, summary.files, "{}", result.describe());
        assert!(summary.goodput_share.is_some_and(|s| s >= 0.95), "{}", result.describe());
        assert!(summary.retransmitted_share <= 0.001, "{}", result.describe());
        assert!(summary.time_share.is_some_and(|s| s <= 1.05), "{}", result.describe());
        assert!(summary.pending_in_bdp.is_some_and(|p| p <= 8.0), "{}", result.describe());
        assert!(summary.jain >= 0.95, "{}", result.describe());
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
        assert!(result.summary.jain >= 0.95, "{}", result.describe());
        assert!(result.summary.goodput_share.is_some_and(|s| s >= 0.97), "{}", result.describe());
    }
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
    let page = bulk_page(&BulkReport { runs: vec![run], left_out }, &Paper::read());
    for text in ["CCNx 0.5.1", "150 s each", "Pending Interests", "NDNd: no Go here"] {
        assert!(page.contains(text), "{text}");
    }
}
