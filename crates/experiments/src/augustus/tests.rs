//! Placements on machines of several shapes, and a short run on this one.

use super::*;
use crate::check::{Judged, Verdict};
use nw_router::placement::Cpu;

/// A machine like the paper's, with `sockets` sockets of `cores` cores with `siblings` hyper-threads,
/// numbered as Linux does: first one hyper-thread of every core.
fn machine(sockets: u32, cores: u32, siblings: u32) -> Processors {
    let mut cpus = Vec::new();
    for _ in 0..siblings {
        for socket in 0..sockets {
            for core in 0..cores {
                cpus.push(Cpu {
                    id: cpus.len(),
                    core: (socket, core),
                    node: socket,
                    cache: socket,
                    allowed: true,
                });
            }
        }
    }
    Processors { cpus, cards: Vec::new() }
}

#[test]
fn augustus_data_is_complete() {
    let paper = AugustusPaper::read();
    for figure in AUGUSTUS_FIGURES {
        assert!(!paper.figure[&figure.to_string()].found.is_empty());
    }
    assert!(paper.number.values().all(|number| number.from.starts_with("section")));
    assert_eq!(paper.value("data_mpps_max"), 10.0);
}

#[test]
fn placements_are_those_of_the_paper() {
    let paper = machine(2, 8, 2);
    let cpus = |placement: Placement, threads| placement.cpus(&paper, threads).expect("possible");
    assert_eq!(cpus(Placement::Hyperthreading, 4), [0, 16, 1, 17]);
    assert_eq!(cpus(Placement::SingleSocket, 4), [0, 1, 2, 3]);
    assert_eq!(cpus(Placement::DualSocket, 4), [0, 8, 1, 9]);
    assert_eq!(cpus(Placement::DualSocket, 32).len(), 32);
    assert_eq!(Placement::SingleSocket.cpus(&paper, 10), None, "a socket has 8 cores");
    assert_eq!(Placement::widest(&paper), (Placement::DualSocket, 8));
    assert_eq!(placement::cores(&paper, &[0, 16, 1]), 2);
    assert_eq!(placement::allowed_count(&paper), [2, 16, 32]);
}

#[test]
fn placements_that_a_machine_lacks_say_why() {
    let small = machine(1, 2, 1);
    let reason = |placement: Placement| placement.exists(&small).expect_err("not here");
    assert!(reason(Placement::Hyperthreading).contains("two hyper-threads"));
    assert!(reason(Placement::DualSocket).contains("one socket"));
    assert_eq!(Placement::SingleSocket.cpus(&small, 2), Some(vec![0, 1]));
    assert_eq!(Placement::SingleSocket.cpus(&small, 4), Some(vec![0, 1, 0, 1]), "they share");
    let mut none = small;
    none.cpus.iter_mut().for_each(|cpu| cpu.allowed = false);
    assert_eq!(Placement::SingleSocket.cpus(&none, 1), None);
}

#[test]
fn short_run_measures_every_point_and_says_what_is_missing() {
    let options = AugustusOptions { quick: true, ..AugustusOptions::new() };
    let watch = Watch { is_interrupted: &|| false, progress: &|_| {} };
    let report = augustus(&options, &watch).expect("a report");
    for host in HostKind::ALL {
        for figure in [6, 8] {
            let points = report.points.iter().filter(|p| p.figure == figure && p.host == host);
            assert!(points.clone().count() >= 1, "figure {figure}, {host:?}");
            for point in points {
                assert!(point.data_per_s > 0.0 && point.ns_per_packet > 0.0, "{point:?}");
                assert!((0.0..=1.01).contains(&point.processor_share), "{point:?}");
            }
        }
    }
    let paper = AugustusPaper::read();
    let page = augustus_page(&report, &paper);
    for text in ["Figure 6.", "Figure 8.", "All points", "one thread, ns per packet", "10.00"] {
        assert!(page.contains(text), "{text}");
    }
    let counted = report.points.iter().any(|point| point.cache_miss_ratio.is_some());
    let is_said = report.left_out.iter().any(|text| text.starts_with("Figure 7"));
    assert!(counted != is_said, "misses are counted, or the page says why not");
    assert_eq!(report.sentences(&paper).len(), 3);
    assert_eq!(report.checks().len(), 1);
    let mut starved = report;
    starved.points.iter_mut().for_each(|point| point.processor_share = 0.5);
    assert_eq!(starved.verdict(), Verdict::Inconclusive);
}

#[test]
fn interrupted_run_ends_without_a_report() {
    let options = AugustusOptions { quick: true, ..AugustusOptions::new() };
    let watch = Watch { is_interrupted: &|| true, progress: &|_| {} };
    assert!(matches!(augustus(&options, &watch), Err(Failure::Interrupted)));
}
