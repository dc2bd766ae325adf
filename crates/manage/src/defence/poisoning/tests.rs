//! What is suspicious, and what is filtered, number by number.

use super::*;
use nw_graph_language::Position;
use nw_graph_language::network::Attack;

/// Share of the usual hit ratio by which it must fall.
const FALL: f64 = 0.3;

/// Averages of this many periods of 1,000 requests, of which 800 are hits.
fn averages(periods: u32) -> Averages {
    let mut averages = Averages::default();
    (0..periods).for_each(|_| averages.learn(&Period { requests: 1000.0, ratio: 0.8 }));
    averages
}

fn is_suspicious(averages: &Averages, requests: u32, hits: u32) -> bool {
    let (requests, hits) = (f64::from(requests), f64::from(hits));
    averages.is_suspicious(&Period { requests, ratio: hits / requests }, FALL)
}

#[test]
fn additional_requests_without_more_hits_are_suspicious() {
    let usual = averages(20);
    assert!(is_suspicious(&usual, 3000, 800));
    assert!(!is_suspicious(&usual, 1000, 800), "as usual");
    // The ratio must have fallen by 30 %: to 56 %.
    assert!(is_suspicious(&usual, 1440, 800) && !is_suspicious(&usual, 1420, 800));
}

#[test]
fn more_consumers_are_not_suspicious() {
    let usual = averages(20);
    // A tenth more hits may be the attacker's own, more than that are other consumers'.
    assert!(is_suspicious(&usual, 3000, 879));
    assert!(!is_suspicious(&usual, 3000, 881));
    assert!(!is_suspicious(&usual, 3000, 1600));
}

#[test]
fn hits_within_their_deviation_do_not_hide_an_attack() {
    let mut varying = Averages::default();
    let mut learn = |requests, ratio| varying.learn(&Period { requests, ratio });
    (0..20).for_each(|_| {
        learn(1500.0, 0.8);
        learn(500.0, 0.8);
    });
    // Hits are 800 with a deviation of about 400: chance explains some 1,200 more.
    let deviation = varying.hits_deviation;
    assert!((350.0..450.0).contains(&deviation), "{deviation}");
    assert!(is_suspicious(&varying, 6000, (varying.hits() + 2.9 * deviation) as u32));
    assert!(!is_suspicious(&varying, 6000, (varying.hits() + 3.1 * deviation) as u32));
}

#[test]
fn other_popular_names_are_not_suspicious() {
    let usual = averages(20);
    // Hits become misses, of as many Interests as before.
    assert!(!is_suspicious(&usual, 1000, 300));
    // Of 500 additional misses, 300 must be additional Interests.
    assert!(is_suspicious(&usual, 1305, 605) && !is_suspicious(&usual, 1295, 595));
}

#[test]
fn nothing_is_suspicious_while_averages_are_learned() {
    assert!(!is_suspicious(&averages(LEARN_PERIODS - 1), 3000, 800));
    assert!(is_suspicious(&averages(LEARN_PERIODS), 3000, 800));
    assert!(averages(LEARN_PERIODS - 1).is_learning() && !averages(LEARN_PERIODS).is_learning());
}

#[test]
fn ratio_that_varies_must_fall_further() {
    let mut varying = Averages::default();
    let mut learn = |ratio| varying.learn(&Period { requests: 1000.0, ratio });
    (0..20).for_each(|_| {
        learn(0.9);
        learn(0.7);
    });
    // Four mean deviations of about 0.1 are more than 30 % of 0.8, and as much as half of it.
    let fall = (DEVIATIONS * varying.deviation).min(FALL_SURE * varying.ratio);
    assert!((0.35..=0.41).contains(&fall), "{fall}");
    let requests = 4000.0;
    let at = |ratio| varying.is_suspicious(&Period { requests, ratio }, FALL);
    assert!(at(0.2) && !at(varying.ratio - fall + 0.01));
    let mut new = averages(LEARN_PERIODS);
    // A store that has just been filled varies by more than it can fall.
    new.deviation = 0.3;
    assert!(is_suspicious(&new, 2100, 800) && !is_suspicious(&new, 1900, 800));
}

#[test]
fn averages_follow_the_last_periods() {
    let mut averages = averages(100);
    averages.learn(&Period { requests: 2000.0, ratio: 0.4 });
    let near = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-6, "{value}");
    near(averages.ratio, 0.78);
    near(averages.requests, 1050.0);
    near(averages.misses, 200.0 + 0.05 * 1000.0);
    near(averages.hits(), 800.0);
    near(averages.deviation, 0.05 * 0.4);
    near(averages.hits_deviation, 0.0);
    // The first periods have equal weight.
    let mut first = Averages::default();
    first.learn(&Period { requests: 100.0, ratio: 1.0 });
    first.learn(&Period { requests: 300.0, ratio: 0.0 });
    near(first.ratio, 0.5);
    near(first.requests, 200.0);
    near(first.hits_deviation, 50.0);
}

fn defence() -> Defence {
    Defence {
        attack: Attack::Poisoning,
        watch: Vec::new(),
        period_ms: 2000,
        threshold: FALL,
        requests_min: 100,
        quiet_periods: 10,
        sample: 1.0,
        rate: 0,
        is_isolated: false,
        position: Position::default(),
    }
}

fn sample(failures: &[&str], contested: &[&str]) -> ElementSample {
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let (failures, contested) = (texts(failures), texts(contested));
    ElementSample { element: "cs".to_owned(), failures, contested, ..ElementSample::default() }
}

fn filtered(machine: &Poisoning, defence: &Defence) -> Vec<String> {
    let made = machine.countermeasures(defence);
    let names = made.into_iter().filter_map(|made| match made {
        Countermeasure::Filter { names, .. } => Some(names),
        _ => None,
    });
    names.flatten().collect()
}

/// Else fakes of a good name would make the network refuse the good Data.
#[test]
fn filtered_name_that_gets_valid_data_passes_again() {
    let defence = defence();
    let mut machine = Poisoning::new(vec!["cs".to_owned()]);
    machine.state = DefenceState::Confirmed;
    let mut at = 0;
    let mut step = |machine: &mut Poisoning, sample: ElementSample| {
        at += defence.period_ms;
        machine.observe(&defence, at, &[sample])
    };
    step(&mut machine, sample(&[], &[]));
    (0..2).for_each(|_| drop(step(&mut machine, sample(&["/a/fake", "/a/good"], &[]))));
    assert_eq!(filtered(&machine, &defence), ["/a/fake", "/a/good"]);
    step(&mut machine, sample(&["/a/fake"], &["/a/good"]));
    assert_eq!(filtered(&machine, &defence), ["/a/fake"]);
    (0..3).for_each(|_| drop(step(&mut machine, sample(&["/a/fake", "/a/good"], &[]))));
    assert_eq!(filtered(&machine, &defence), ["/a/fake"], "it stays contested");
}

#[test]
fn full_filter_takes_further_names_when_others_leave() {
    let defence = defence();
    let mut machine = Poisoning::new(vec!["cs".to_owned()]);
    machine.state = DefenceState::Isolated;
    let names: Vec<String> = (0..FILTER_MAX + 10).map(|at| format!("/a/{at:03}")).collect();
    let names: Vec<&String> = names.iter().collect();
    machine.note_rejected(&names, 3);
    assert_eq!(filtered(&machine, &defence).len(), 0, "each was rejected once");
    machine.note_rejected(&names, 3);
    let first = filtered(&machine, &defence);
    assert_eq!(first.len(), FILTER_MAX);
    (0..3).for_each(|_| machine.note_rejected(&[], 3));
    assert_eq!(filtered(&machine, &defence), first, "for three more periods");
    machine.note_rejected(&[], 3);
    // Names leave at the end of a period, and those that waited follow in the next.
    assert_eq!(filtered(&machine, &defence).len(), 0);
    machine.note_rejected(&[], 3);
    assert_eq!(filtered(&machine, &defence).len(), 10);
}

#[test]
fn full_table_of_rejected_names_keeps_those_that_matter() {
    let mut machine = Poisoning::new(vec!["cs".to_owned()]);
    machine.rejected_name("/contested").expect("room").is_contested = true;
    machine.rejected_name("/again").expect("room").count = 2;
    for at in 0..10 * REJECTED_MAX {
        let rejected = machine.rejected_name(&format!("/once/{at}")).expect("others leave");
        rejected.count = 1;
        assert!(machine.rejected.len() <= REJECTED_MAX);
    }
    assert!(machine.rejected["/contested"].is_contested);
    assert_eq!(machine.rejected["/again"].count, 2);
    machine.rejected.values_mut().for_each(|rejected| rejected.count = 2);
    while machine.rejected.len() < REJECTED_MAX {
        let at = machine.rejected.len();
        machine.rejected_name(&format!("/twice/{at}")).expect("room").count = 2;
    }
    assert!(machine.rejected_name("/new").is_none(), "none of them may leave");
    assert!(machine.rejected_name("/again").is_some());
}

#[test]
fn full_list_of_erasures_has_the_most_frequent_prefixes() {
    let mut machine = Poisoning::new(vec!["cs".to_owned()]);
    let names: Vec<String> =
        (0..40).flat_map(|at| (0..=at).map(move |n| format!("/p{at:02}/{n}"))).collect();
    let erased = machine.take_new_prefixes(&names.iter().collect::<Vec<_>>());
    let prefixes: Vec<&str> = erased.iter().map(|erasure| erasure.prefix.as_str()).collect();
    let wanted: Vec<String> = (40 - ERASE_MAX..40).map(|at| format!("/p{at:02}")).collect();
    assert_eq!(prefixes, wanted);
    let mut count = erased.len();
    for at in 0..20 * ERASED_MAX {
        count += machine.take_new_prefixes(&[&format!("/q{at}/x")]).len();
    }
    assert_eq!((count, machine.erased.len()), (ERASED_MAX, ERASED_MAX));
}

#[test]
fn rejected_names_of_one_period_are_bounded() {
    let defence = defence();
    let mut machine = Poisoning::new(vec!["cs".to_owned()]);
    let names: Vec<String> = (0..600).map(|at| format!("/a/{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (now_ms, count) in [(1, 600), (2, 1024), (3, 1024)] {
        machine.observe(&defence, now_ms, &[sample(&names, &[])]);
        assert_eq!(machine.failures["cs"].len(), count);
    }
}
