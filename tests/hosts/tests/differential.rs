//! Any trace has the same outcome in every host. `NW_TRACES=100000 cargo test -p nw-hosts
//! --release` runs more traces.

use nw_hosts::fused::Fused;
use nw_hosts::graph::InGraph;
use nw_hosts::recorded::trace_of;
use nw_hosts::service::{self, Services, SharedServices};
use nw_hosts::simulated::{self, Linked, Simulated};
use nw_hosts::trace::traces;
use nw_hosts::{Host, Outcome, Trace, memory, tables};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Counters of the content store for Data it already contains.
const REPEATED_DATA_COUNTERS: [&str; 2] = ["refreshes", "refusals"];

/// Packets per batch.
const BATCH_LEN: usize = 48;

fn cases() -> u32 {
    std::env::var("NW_TRACES").ok().and_then(|traces| traces.parse().ok()).unwrap_or(600)
}

fn check(name: &str, own: &Outcome, fused: &Outcome) -> Result<(), TestCaseError> {
    match own.difference(fused) {
        None => Ok(()),
        Some(difference) => {
            Err(TestCaseError::fail(format!("{name} and fused differ in {difference}")))
        }
    }
}

#[test]
fn graph_outcome_equals_fused() {
    let mut runner =
        TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases()) });
    let outcome = runner
        .run(&traces(60), |trace| check(InGraph::NAME, &InGraph::run(&trace), &Fused::run(&trace)));
    assert!(
        outcome.is_ok(),
        "{}",
        outcome.err().map_or_else(String::new, |error| error.to_string())
    );
}

#[test]
fn graph_outcome_in_batches_equals_fused() {
    let mut runner =
        TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases()) });
    let outcome = runner.run(&traces(200), |trace| {
        let fused = memory::run::<Fused>(&trace, BATCH_LEN);
        check(InGraph::NAME, &memory::run::<InGraph>(&trace, BATCH_LEN), &fused)
    });
    assert!(
        outcome.is_ok(),
        "{}",
        outcome.err().map_or_else(String::new, |error| error.to_string())
    );
}

/// A lookup with a probe gives the same result as one without, in every table, for any batch.
#[test]
fn fused_outcome_without_probes_is_unchanged() {
    let mut runner =
        TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases()) });
    let outcome = runner.run(&traces(200), |trace| {
        let fused = memory::run::<Fused>(&trace, BATCH_LEN);
        check("fused without probes", &memory::run::<Fused<false>>(&trace, BATCH_LEN), &fused)
    });
    assert!(
        outcome.is_ok(),
        "{}",
        outcome.err().map_or_else(String::new, |error| error.to_string())
    );
}

/// The simulator's node runs the fused plane itself, so this does not compare forwarding. It shows
/// that what surrounds the plane in the simulator changes nothing: routes set one by one, single
/// packets without prefetching, its own table sizes, drops and counters.
#[test]
fn simulator_node_outcome_equals_fused() {
    let mut runner =
        TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases()) });
    let outcome = runner.run(&traces(60), |trace| {
        let trace = simulated::restrict(trace);
        check(Simulated::NAME, &Simulated::run(&trace), &Fused::run(&trace))
    });
    assert!(
        outcome.is_ok(),
        "{}",
        outcome.err().map_or_else(String::new, |error| error.to_string())
    );
}

/// With link services and links without delay and loss: decoding, encoding, sequence numbers, and
/// the transfer between plane and link. The plane is the same, as above.
#[test]
fn simulator_links_outcome_equals_fused() {
    let mut runner =
        TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases()) });
    let outcome = runner.run(&traces(60), |trace| {
        let (name, own, fused) = run_linked(&simulated::restrict(trace));
        check(name, &own, &fused)
    });
    assert!(
        outcome.is_ok(),
        "{}",
        outcome.err().map_or_else(String::new, |error| error.to_string())
    );
}

fn run_linked(trace: &Trace) -> (&'static str, Outcome, Outcome) {
    let (own, mut fused) = (Linked::run(trace), Fused::run(trace));
    // Behind links a node shows its counters, but not its table contents.
    fused.tables.retain(|name, _| own.tables.contains_key(name));
    (Linked::NAME, own, fused)
}

/// Each face has its own socket, so packets of one step have no order between faces. Data that
/// satisfies several Interests of one application crosses the link once per label: the content
/// store in front sees it repeatedly, which the fused one does not.
fn run_services<H: Host>(trace: &Trace) -> (&'static str, Outcome, Outcome) {
    let [mut own, mut fused] = [H::run(trace), Fused::run(trace)];
    for outcome in [&mut own, &mut fused] {
        assert!(
            REPEATED_DATA_COUNTERS.iter().all(|name| outcome.tables.remove(name).is_some()),
            "they are provided"
        );
    }
    own.sent.iter_mut().chain(&mut fused.sent).for_each(|sent| sent.sort());
    (H::NAME, own, fused)
}

#[test]
fn services_outcome_equals_fused() {
    assert_services_equal_fused::<Services>();
}

#[test]
fn services_with_shared_memory_outcome_equals_fused() {
    assert_services_equal_fused::<SharedServices>();
}

fn assert_services_equal_fused<H: Host>() {
    // Each trace takes two threads, their sockets, and some milliseconds.
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::with_cases(cases() / 2)
    };
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&traces(40), |trace| {
        let (name, own, fused) = run_services::<H>(&service::restrict(trace));
        check(name, &own, &fused)
    });
    assert!(
        outcome.is_ok(),
        "{}",
        outcome.err().map_or_else(String::new, |error| error.to_string())
    );
}

/// Packets of real clients, recorded at a real router.
#[test]
fn recorded_traffic_outcome_equal_in_all_hosts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "pcapng"));
    assert!(files.len() >= 2, "files that tests/hosts/record made");
    for path in files {
        let routes = std::fs::read_to_string(path.with_extension("routes"))
            .expect("a routes file next to it");
        let trace = trace_of(&std::fs::read(&path).expect("a file"), &routes);
        let trace = trace.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let fused = Fused::run(&trace);
        let sent = |kind| fused.sent.iter().flatten().filter(|sent| sent.kind == kind).count();
        assert!(
            sent("Interest") > 5 && sent("Data") > 5,
            "{}: it passes the router",
            path.display()
        );
        let mut outcomes = vec![(InGraph::NAME, InGraph::run(&trace), fused)];
        let batched = memory::run::<InGraph>(&trace, BATCH_LEN);
        outcomes.push((InGraph::NAME, batched, memory::run::<Fused>(&trace, BATCH_LEN)));
        let restricted = simulated::restrict(trace.clone());
        outcomes.push((Simulated::NAME, Simulated::run(&restricted), Fused::run(&restricted)));
        outcomes.push(run_linked(&restricted));
        let restricted = service::restrict(trace);
        outcomes.push(run_services::<Services>(&restricted));
        outcomes.push(run_services::<SharedServices>(&restricted));
        for (name, own, fused) in outcomes {
            check(name, &own, &fused).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

/// Every host provides every number that it can: a missing number is not compared.
#[test]
fn hosts_provide_all_tables() {
    let trace = Trace::default();
    let table_names = |outcome: Outcome| outcome.tables.into_keys().collect::<BTreeSet<_>>();
    let all: BTreeSet<_> = tables::ALL.into_iter().collect();
    let outcomes = [
        Fused::run(&trace),
        InGraph::run(&trace),
        Simulated::run(&trace),
        Services::run(&trace),
        SharedServices::run(&trace),
    ];
    outcomes.into_iter().for_each(|outcome| assert_eq!(table_names(outcome), all));
    let behind_links = ["evictions", "hits", "insertions", "misses", "satisfied", "unsatisfied"];
    assert_eq!(table_names(Linked::run(&trace)), behind_links.into());
}

/// A wrong number in one service is detected.
#[test]
fn services_wrong_table_number_detected() {
    let (name, own, fused) = run_services::<Services>(&Trace::default());
    check(name, &own, &fused).expect("nothing happened in either");
    for number in own.tables.keys() {
        let mut wrong = own.clone();
        *wrong.tables.entry(number).or_default() += 1;
        assert!(check(name, &wrong, &fused).is_err(), "{number}");
    }
}

/// The generated traces cover everything that can happen.
#[test]
fn traces_cover_all_outcomes() {
    let counts = outcomes_reached(|trace| trace);
    for what in [
        "Interest",
        "Data",
        "Nack",
        "satisfied",
        "unsatisfied",
        "cache_hit",
        "aggregated",
        "no_route",
        "unsolicited_data",
        "hop_limit_zero",
        "scope_localhost",
        "retransmission_suppressed",
        "unsolicited_nack",
        "evictions",
    ] {
        assert!(counts.contains_key(what), "no trace reaches {what}: {counts:?}");
    }
}

/// So do the traces restricted for services.
#[test]
fn traces_for_services_cover_all_outcomes() {
    let counts = outcomes_reached(service::restrict);
    for what in [
        "pending",
        "prefixes",
        "satisfied",
        "unsatisfied",
        "cached",
        "hits",
        "misses",
        "insertions",
        "evictions",
    ] {
        assert!(counts.contains_key(what), "no trace reaches {what}: {counts:?}");
    }
}

/// Returns what happened in many traces, with counts.
fn outcomes_reached(restrict: fn(Trace) -> Trace) -> BTreeMap<String, u64> {
    let mut runner =
        TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(300) });
    let counts = RefCell::new(BTreeMap::<String, u64>::new());
    runner
        .run(&traces(60), |trace| {
            let outcome = Fused::run(&restrict(trace));
            let mut counts = counts.borrow_mut();
            let tables = outcome.tables.into_iter().map(|(name, number)| (name.to_owned(), number));
            for (what, number) in
                outcome.drops.into_iter().chain(tables).filter(|(_, number)| *number > 0)
            {
                *counts.entry(what).or_default() += number;
            }
            for sent in outcome.sent.iter().flatten() {
                *counts.entry(sent.kind.to_owned()).or_default() += 1;
            }
            Ok(())
        })
        .expect("a run without checks");
    counts.into_inner()
}
