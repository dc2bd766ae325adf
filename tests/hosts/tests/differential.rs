//! Any trace has the same outcome in every host. `NW_TRACES=100000 cargo test -p nw-hosts --release` looks deeper.

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

/// What the content store counts when it meets a Data again.
const ONCE_MORE: [&str; 2] = ["refreshes", "refusals"];

/// Packets of a batch.
const TOGETHER: usize = 48;

fn cases() -> u32 {
    std::env::var("NW_TRACES").ok().and_then(|traces| traces.parse().ok()).unwrap_or(600)
}

fn check(name: &str, own: &Outcome, fused: &Outcome) -> Result<(), TestCaseError> {
    match own.difference(fused) {
        None => Ok(()),
        Some(difference) => Err(TestCaseError::fail(format!("{name} and fused differ in {difference}"))),
    }
}

#[test]
fn graph_and_fused_are_one() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases()) });
    let outcome =
        runner.run(&traces(60), |trace| check(InGraph::NAME, &InGraph::run(&trace), &Fused::run(&trace)));
    assert!(outcome.is_ok(), "{}", outcome.err().map_or_else(String::new, |error| error.to_string()));
}

#[test]
fn they_are_one_in_batches_too() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases()) });
    let outcome = runner.run(&traces(200), |trace| {
        let fused = memory::run::<Fused>(&trace, TOGETHER);
        check(InGraph::NAME, &memory::run::<InGraph>(&trace, TOGETHER), &fused)
    });
    assert!(outcome.is_ok(), "{}", outcome.err().map_or_else(String::new, |error| error.to_string()));
}

/// The simulator's node runs the fused plane itself, so this can't show that it forwards as the plane does. It shows that what the simulator puts
/// around the plane changes nothing: routes that are set whole and one by one, packets that come singly and without prefetching, sizes of its own,
/// and its drops and counters.
#[test]
fn the_simulators_node_and_fused_are_one() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases()) });
    let outcome = runner.run(&traces(60), |trace| {
        let trace = simulated::fitting(trace);
        check(Simulated::NAME, &Simulated::run(&trace), &Fused::run(&trace))
    });
    assert!(outcome.is_ok(), "{}", outcome.err().map_or_else(String::new, |error| error.to_string()));
}

/// With link services and links, which carry at once and lose nothing: what is decoded, encoded, numbered and handed on between plane and link. The
/// plane is the same, as above.
#[test]
fn the_simulators_links_and_fused_are_one() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases()) });
    let outcome = runner.run(&traces(60), |trace| {
        let (name, own, fused) = over_links(&simulated::fitting(trace));
        check(name, &own, &fused)
    });
    assert!(outcome.is_ok(), "{}", outcome.err().map_or_else(String::new, |error| error.to_string()));
}

fn over_links(trace: &Trace) -> (&'static str, Outcome, Outcome) {
    let (own, mut fused) = (Linked::run(trace), Fused::run(trace));
    // Behind links a station shows what it counts, and not what its tables hold.
    fused.tables.retain(|name, _| own.tables.contains_key(name));
    (Linked::NAME, own, fused)
}

/// Packets leave by sockets of their own, so those of one step have no order between faces. A Data that answers several Interests of one application
/// comes over the link once for each, as each has its label: the store in front meets it again, which the fused one does not.
fn in_services<H: Host>(trace: &Trace) -> (&'static str, Outcome, Outcome) {
    let [mut own, mut fused] = [H::run(trace), Fused::run(trace)];
    for outcome in [&mut own, &mut fused] {
        assert!(ONCE_MORE.iter().all(|name| outcome.tables.remove(name).is_some()), "they are shown");
    }
    own.sent.iter_mut().chain(&mut fused.sent).for_each(|sent| sent.sort());
    (H::NAME, own, fused)
}

#[test]
fn services_and_fused_are_one() {
    services_are_one::<Services>();
}

#[test]
fn services_that_share_memory_and_fused_are_one() {
    services_are_one::<SharedServices>();
}

fn services_are_one<H: Host>() {
    // Each trace takes two threads, their sockets, and some milliseconds.
    let config =
        Config { failure_persistence: None, max_shrink_iters: 200, ..Config::with_cases(cases() / 2) };
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&traces(40), |trace| {
        let (name, own, fused) = in_services::<H>(&service::fitting(trace));
        check(name, &own, &fused)
    });
    assert!(outcome.is_ok(), "{}", outcome.err().map_or_else(String::new, |error| error.to_string()));
}

/// Packets of real clients, as they came to a real router.
#[test]
fn recorded_traffic_has_one_outcome() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "pcapng"));
    assert!(files.len() >= 2, "files that tests/hosts/record made");
    for path in files {
        let routes = std::fs::read_to_string(path.with_extension("routes")).expect("routes beside it");
        let trace = trace_of(&std::fs::read(&path).expect("a file"), &routes);
        let trace = trace.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let fused = Fused::run(&trace);
        let sent = |kind| fused.sent.iter().flatten().filter(|sent| sent.kind == kind).count();
        assert!(sent("Interest") > 5 && sent("Data") > 5, "{}: it leads through the router", path.display());
        let mut outcomes = vec![(InGraph::NAME, InGraph::run(&trace), fused)];
        let batched = memory::run::<InGraph>(&trace, TOGETHER);
        outcomes.push((InGraph::NAME, batched, memory::run::<Fused>(&trace, TOGETHER)));
        let fitting = simulated::fitting(trace.clone());
        outcomes.push((Simulated::NAME, Simulated::run(&fitting), Fused::run(&fitting)));
        outcomes.push(over_links(&fitting));
        let fitting = service::fitting(trace);
        outcomes.push(in_services::<Services>(&fitting));
        outcomes.push(in_services::<SharedServices>(&fitting));
        for (name, own, fused) in outcomes {
            check(name, &own, &fused).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

/// Every host shows every number, but for those that it can't: a number that is not there is not compared.
#[test]
fn hosts_show_their_tables() {
    let trace = Trace::default();
    let shown = |outcome: Outcome| outcome.tables.into_keys().collect::<BTreeSet<_>>();
    let all: BTreeSet<_> = tables::ALL.into_iter().collect();
    let outcomes = [
        Fused::run(&trace),
        InGraph::run(&trace),
        Simulated::run(&trace),
        Services::run(&trace),
        SharedServices::run(&trace),
    ];
    outcomes.into_iter().for_each(|outcome| assert_eq!(shown(outcome), all));
    let behind_links = ["evictions", "hits", "insertions", "misses", "satisfied", "unsatisfied"];
    assert_eq!(shown(Linked::run(&trace)), behind_links.into());
}

/// A number that is wrong in one service is a difference.
#[test]
fn tables_of_services_are_compared() {
    let (name, own, fused) = in_services::<Services>(&Trace::default());
    check(name, &own, &fused).expect("nothing happened in either");
    for number in own.tables.keys() {
        let mut wrong = own.clone();
        *wrong.tables.entry(number).or_default() += 1;
        assert!(check(name, &wrong, &fused).is_err(), "{number}");
    }
}

/// The traces are worth something: all that can happen does.
#[test]
fn traces_reach_much() {
    let seen = reached(|trace| trace);
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
        assert!(seen.contains_key(what), "no trace comes to {what}: {seen:?}");
    }
}

/// And those that are left for services.
#[test]
fn traces_for_services_reach_much() {
    let seen = reached(service::fitting);
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
        assert!(seen.contains_key(what), "no trace comes to {what}: {seen:?}");
    }
}

/// What came of many traces, and how often.
fn reached(fitting: fn(Trace) -> Trace) -> BTreeMap<String, u64> {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(300) });
    let seen = RefCell::new(BTreeMap::<String, u64>::new());
    runner
        .run(&traces(60), |trace| {
            let outcome = Fused::run(&fitting(trace));
            let mut seen = seen.borrow_mut();
            let tables = outcome.tables.into_iter().map(|(name, number)| (name.to_owned(), number));
            for (what, number) in outcome.drops.into_iter().chain(tables).filter(|(_, number)| *number > 0) {
                *seen.entry(what).or_default() += number;
            }
            for sent in outcome.sent.iter().flatten() {
                *seen.entry(sent.kind.to_owned()).or_default() += 1;
            }
            Ok(())
        })
        .expect("a run without checks");
    seen.into_inner()
}
