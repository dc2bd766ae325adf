//! The page and the statements, from results that were made up. The experiments themselves are run
//! by `tests/pubsub/test_paper.py`.

use super::*;
use crate::check::Verdict;

fn point(figure: u8, series: &'static str, x: f64, value: f64) -> BlackadderPoint {
    let (paper, lost, cpu_us) = (None, None, None);
    BlackadderPoint { figure, series, x, value, paper, lost, cpu_us }
}

fn report() -> BlackadderReport {
    let points = vec![
        BlackadderPoint { paper: Some(100.0), lost: Some(0.0), ..point(4, "100 kB", 10.0, 900.0) },
        BlackadderPoint { paper: Some(20.0), ..point(6, figures::LOCAL, 200.0, 4.0) },
        BlackadderPoint { paper: Some(54.0), ..point(6, figures::LOCAL, 500.0, 12.0) },
        point(8, figures::PUBSUB, 2.0, 2000.0),
        point(8, figures::STORE, 2.0, 500.0),
        point(7, sockets::PUBSUB_TOTAL, 4.0, 11.6),
        point(7, sockets::UDP_TOTAL, 4.0, 11.7),
    ];
    BlackadderReport { cores: 2, points, ..BlackadderReport::default() }
}

#[test]
fn paper_has_the_numbers_that_figures_name() {
    let paper = blackadder_paper();
    assert_eq!(paper.number["response_local_ms"].values, [200.0, 20.0, 500.0, 54.0]);
    assert_eq!(paper.value("local_few_mbyte_per_s"), 1000.0);
    assert_eq!(paper.number["ccnx_chain_mbyte_per_s"].values, [1.0, 10.4, 13.0, 0.4]);
}

#[test]
fn page_shows_each_figure_beside_the_paper() {
    let page = blackadder_page(&report(), &blackadder_paper());
    for text in [
        "Figure 4: Within a node",
        "<td>100 kB</td><td class=\"n\">10</td><td class=\"n\">900.000</td>\
         <td class=\"n\">100.0</td><td class=\"n\">0.00 %</td>",
        "Figure 6: Response time of rendezvous",
        "node-local, 200: mean time, ms, is 4 (expected by the paper: at most 20): holds",
        "Figure 8: Within a node, beside NDN",
        "section V.B.3 and figure 6, PlanetLab",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    assert!(!page.contains("Figure 5:"), "a figure without points is not drawn");
}

#[test]
fn statements_say_what_does_not_hold() {
    assert_eq!(report().verdict(), Verdict::Holds, "{:?}", report().checks());
    let mut bad = report();
    bad.points[0].lost = Some(0.01);
    bad.points[1].value = 21.0;
    bad.points[3].value = 400.0;
    bad.points[5].value = 5.0;
    let checks = figures::checks(&bad);
    let failed: Vec<_> =
        checks.iter().filter(|(_, check)| !check.holds()).map(|(figure, _)| *figure).collect();
    assert_eq!(failed, [4, 6, 8, 7], "{checks:?}");
    // What is lost within a node is a fault on any machine.
    bad.conditions.busy_before = 0.6;
    assert_eq!(bad.verdict(), Verdict::DoesNotHold);
    bad.points[0].lost = Some(0.0);
    assert_eq!(bad.verdict(), Verdict::Inconclusive);
}

#[test]
fn subscribers_ask_for_no_item_twice_nor_for_those_of_others() {
    let load = response::ResponseLoad::random(1_000, 50);
    let drawn = |number| -> std::collections::BTreeSet<u32> {
        (0..load.iterations).map(|iteration| load.item(number, 7, iteration)).collect()
    };
    let all: Vec<_> = (0..7).map(drawn).collect();
    assert!(all.iter().all(|items| items.len() == 50), "{all:?}");
    let together: std::collections::BTreeSet<_> = all.iter().flatten().collect();
    assert_eq!(together.len(), all.iter().map(|items| items.len()).sum::<usize>());
    assert!(together.iter().all(|item| **item < load.items));
}

#[test]
fn busy_machine_makes_a_run_inconclusive() {
    let mut report = report();
    assert!(report.problems().is_empty());
    report.conditions.busy_before = 0.6;
    assert!(report.problems()[0].contains("up to 60 % of the processors"));
    report.conditions.busy_before = 0.0;
    report.debug_build = true;
    assert_eq!(report.verdict(), Verdict::Inconclusive);
    assert!(blackadder_page(&report, &blackadder_paper()).contains("This is a debug build"));
}
