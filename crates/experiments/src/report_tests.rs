//! Tests with made-up results that equal the paper's, and with changes that must be detected.

use super::*;
use crate::check::Verdict;
use crate::setup::{FIGURES, Machine};
use crate::timeline::Stage;

const UNIT: f64 = 40.0;
const SHARE: f64 = 0.1;

fn cell(members: usize, downloads: usize, throughput: f64, shares: &[f64]) -> Cell {
    Cell {
        members,
        downloads,
        capacity_mbit: UNIT,
        throughput_mbit: throughput * UNIT,
        member_mbit: shares.iter().map(|share| share * throughput * UNIT).collect(),
        member_cpu: shares.iter().map(|_| SHARE * throughput / members.max(1) as f64).collect(),
        balancer_cpu: 0.1 * SHARE * throughput / members.max(1) as f64,
    }
}

/// Returns a report with exactly the paper's results.
fn paper_report() -> Report {
    let csr = Csr::read();
    let setup = Setup {
        machine: Machine { processor: "made <up>".into(), processors: 2, kernel: "6.18".into() },
        quick: true,
        share: SHARE,
        capacity_mbit: UNIT,
        window: 128,
    };
    let mut report = Report::new(setup);
    let third = 1.0 / 3.0;
    let grid =
        (0..=MEMBERS_MAX).flat_map(|members| (1..=5).map(move |downloads| (members, downloads)));
    let cells = grid.map(|(members, downloads)| {
        cell(
            members,
            downloads,
            csr.throughput(members, downloads),
            &vec![1.0 / members.max(1) as f64; members],
        )
    });
    report.scale = Some(Scale { cells: cells.collect() });
    let heterogeneous = |of: [u32; 3], shares: [f64; 3]| -> Vec<Cell> {
        (1..=5)
            .map(|downloads| cell(3, downloads, csr.heterogeneous(of, downloads), &shares))
            .collect()
    };
    report.weights = Some(Weights {
        uniform: heterogeneous([1; 3], [third; 3]),
        weighted: heterogeneous(csr.weights(), [0.25, 0.25, 0.5]),
        weights: csr.weights(),
    });
    report.multicast = Some(Multicast {
        capacity_mbit: UNIT,
        consumers_mbit: vec![60.0; 5],
        producer_mbit: 60.0,
        members_mbit: vec![100.0; 3],
        producer_packets: 1000,
    });
    let stored = vec![(0.0, 0.0), (3.0, 1000.0), (10.0, 1000.0)];
    report.caching = Some(Caching {
        consumer: vec![(1.0, UNIT), (4.0, 0.0), (5.0, UNIT)],
        producer: vec![(1.0, UNIT), (4.0, 0.0), (5.0, 0.0)],
        stored: vec![stored; 3],
        downloads: [(0.0, 3.0), (4.0, 7.0)],
        consumer_bytes: [1e7, 1e7],
        producer_bytes: [1e7, 1e3],
        packets: 3000,
    });
    let stages = csr.values("live_members").iter().enumerate().map(|(at, members)| Stage {
        members: *members as usize,
        from_s: 3.0 * at as f64,
        to_s: 3.0 * at as f64 + 3.0,
        throughput_mbit: members * UNIT,
        capacity_mbit: UNIT,
    });
    report.timeline = Some(Timeline {
        capacity_mbit: UNIT,
        consumers: vec![(0.0, UNIT), (3.0, 2.0 * UNIT)],
        stages: stages.collect(),
        downloads: 5,
        completed: 5,
        retransmissions: 0,
        errors: Vec::new(),
        losses: nw_testbed::LossCounters::default(),
    });
    report.evaluate(&csr, &FIGURES);
    report
}

/// Returns the finding of a figure after a change of the paper's results.
fn spoiled(figure: u8, spoil: impl FnOnce(&mut Report)) -> Finding {
    let mut report = paper_report();
    spoil(&mut report);
    report.evaluate(&Csr::read(), &[figure]);
    assert_eq!(report.findings.len(), 1);
    report.findings.remove(0)
}

#[test]
fn paper_results_agree() {
    let report = paper_report();
    let figures: Vec<_> = report.findings.iter().map(|finding| finding.figure).collect();
    assert_eq!(figures, FIGURES);
    for finding in &report.findings {
        assert!(finding.agrees(), "{}", finding.sentence());
        assert!(finding.sentence().contains("That agrees"));
    }
}

#[test]
fn changed_result_does_not_agree() {
    let scale = |report: &mut Report| report.scale.take().expect("made");
    let findings = [
        // The fourth member adds no throughput.
        spoiled(6, |report| {
            let mut made = scale(report);
            made.cells.iter_mut().filter(|cell| cell.members == 4 && cell.downloads == 5).for_each(
                |cell| {
                    cell.throughput_mbit = 3.0 * UNIT;
                },
            );
            report.scale = Some(made);
        }),
        // The balancer costs a fifth of the throughput.
        spoiled(6, |report| {
            let mut made = scale(report);
            made.cells
                .iter_mut()
                .filter(|cell| cell.members == 1)
                .for_each(|cell| cell.throughput_mbit *= 0.8);
            report.scale = Some(made);
        }),
        // A single download uses one member.
        spoiled(7, |report| {
            let mut made = scale(report);
            let single =
                made.cells.iter_mut().find(|cell| (cell.members, cell.downloads) == (3, 1));
            single.expect("made").member_mbit = vec![UNIT, 0.0, 0.0];
            report.scale = Some(made);
        }),
        // The balancer uses as much processor time as the members.
        spoiled(8, |report| {
            let mut made = scale(report);
            made.cells.iter_mut().for_each(|cell| cell.balancer_cpu = SHARE);
            report.scale = Some(made);
        }),
        // Weights have no effect.
        spoiled(9, |report| {
            let weights = report.weights.as_mut().expect("made");
            weights.weighted = weights.uniform.clone();
        }),
        spoiled(10, |report| {
            let weights = report.weights.as_mut().expect("made");
            weights.weighted = weights.uniform.clone();
        }),
        // The producer sends each packet to each consumer.
        spoiled(11, |report| report.multicast.as_mut().expect("made").producer_mbit = 300.0),
        // Nothing was cached.
        spoiled(12, |report| report.caching.as_mut().expect("made").producer_bytes = [1e7, 1e7]),
        // One cache stored nothing.
        spoiled(13, |report| {
            let caching = report.caching.as_mut().expect("made");
            caching.stored[1].iter_mut().for_each(|(_, stored)| *stored = 0.0);
        }),
        // A packet was lost, and a download failed.
        spoiled(14, |report| report.timeline.as_mut().expect("made").completed = 4),
        // The second member did not help.
        spoiled(14, |report| {
            report.timeline.as_mut().expect("made").stages[1].throughput_mbit = UNIT
        }),
    ];
    for finding in findings {
        assert!(!finding.agrees(), "figure {}", finding.figure);
        assert!(finding.sentence().contains("does not agree"), "{}", finding.sentence());
    }
}

#[test]
fn inconclusive_conditions_are_at_the_top_of_the_page() {
    let mut report = paper_report();
    assert_eq!(report.verdict(), Verdict::Holds);
    report.conditions.note_before(0.6);
    assert_eq!(report.verdict(), Verdict::Inconclusive, "the conditions are bad");
    let page = page(&report, &Csr::read());
    let problem =
        page.find("Other programs used up to 60 % of the processors").expect("the problem");
    assert!(problem < page.find("<section").expect("a figure"));
    let mut report = paper_report();
    report.multicast.as_mut().expect("made").producer_mbit = 300.0;
    report.evaluate(&Csr::read(), &FIGURES);
    assert_eq!(report.verdict(), Verdict::DoesNotHold, "a figure disagrees");
}

#[test]
fn checks_have_the_source_of_their_expected_number() {
    let report = paper_report();
    let of =
        |figure: u8| report.findings.iter().find(|finding| finding.figure == figure).expect("made");
    let sources = |figure| -> Vec<&str> {
        of(figure).checks.iter().map(|check| check.source.as_str()).collect()
    };
    assert!(sources(6).iter().all(|source| *source == "the paper"));
    assert!(sources(9).iter().all(|source| *source == "our model"));
    assert!(sources(8).iter().all(|source| *source == "our bound"));
    let page = page(&report, &Csr::read());
    assert!(page.contains("<td>our model</td>") && page.contains("model, matching"));
}

#[test]
fn charts_of_one_figure_have_the_same_scale() {
    let mut report = paper_report();
    let cells = &mut report.scale.as_mut().expect("made").cells;
    cells.iter_mut().for_each(|cell| cell.throughput_mbit *= 0.5);
    let drawn = charts(6, &report, &Csr::read());
    let ticks = |svg: &str| -> Vec<String> {
        svg.lines().filter(|line| line.contains("text-anchor=\"end\"")).map(str::to_owned).collect()
    };
    let svgs: Vec<_> = drawn.iter().map(|chart| chart.svg_on_scale_of(&drawn)).collect();
    assert_eq!(ticks(&svgs[0]), ticks(&svgs[1]));
    assert_ne!(ticks(&drawn[0].svg()), ticks(&drawn[1].svg()), "a single chart has its own scale");
}

#[test]
fn report_survives_json() {
    let full = paper_report();
    let empty = Report::new(full.setup.clone());
    for report in [full, empty] {
        let text = serde_json::to_string(&report).expect("plain values");
        let read: Report = serde_json::from_str(&text).expect("the written JSON is valid");
        // Numbers may differ in the last bit.
        assert!(format!("{read:.9?}") == format!("{report:.9?}"), "{text}");
    }
}

#[test]
fn page_has_every_figure_and_loads_nothing() {
    let report = paper_report();
    let page = page(&report, &Csr::read());
    for figure in FIGURES {
        let start = page.find(&format!("<section id=\"figure-{figure}\">")).expect("its section");
        let section = &page[start..start + page[start..].find("</section>").expect("its end")];
        assert!(
            section.contains("<svg") && section.contains("The paper found that"),
            "figure {figure}"
        );
        assert!(
            section.matches("<path d=\"M").count() + section.matches("<rect").count() > 1,
            "figure {figure} draws both"
        );
    }
    assert!(page.contains("made &lt;up&gt;") && !page.contains("made <up>"));
    assert_eq!(page.matches("http").count(), page.matches("http://www.w3.org/2000/svg").count());
    assert!(!page.contains("<script") && !page.contains("NaN"));
}
