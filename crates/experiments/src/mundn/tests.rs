//! The page and the bounds, from results that were made up. The experiments themselves are run by
//! `tests/network`.

use super::*;
use crate::check::Verdict;

fn scaling() -> Scaling {
    Scaling {
        quotas: quotas::Quotas { router: 0.12, store: 0.36, name_router: 0.3 },
        mbit: vec![(0.0, 300.0), (1.0, 310.0), (3.0, 600.0)],
        cpu_percent: ["br~1", "nr~1"]
            .map(|name| (name.to_owned(), vec![(0.5, 15.0), (1.0, 14.0)]))
            .into(),
        mbit_one: 300.0,
        mbit_two: 600.0,
        seconds_to_carry: 2.0,
        exchanges: 5_000,
        reason: "load 95 % of 2 instances, but nr has 99 %".to_owned(),
        decisions: vec!["br: 2 instances instead of 1: load 99 %".to_owned()],
        end_equals_start: true,
        ..Scaling::default()
    }
}

fn poisoning() -> PoisoningResult {
    let attack = poisoning::PoisoningAttack {
        start_s: 30.0,
        detected_s: 33.8,
        verifier_s: 35.5,
        confirmed_s: 37.0,
        recovered_s: Some(38.0),
        isolated_s: 44.0,
        end_s: 54.0,
        gone_s: 75.0,
        places: ["cs1", "br", "sf"].map(str::to_owned).to_vec(),
        fakes_before: 120,
        fakes_after: 0,
    };
    PoisoningResult {
        period_s: 2.0,
        quiet_periods: 10,
        rates: [300.0, 600.0],
        hit_percent: vec![(28.0, 100.0), (30.0, 60.0), (32.0, 31.0), (40.0, 33.0)],
        usual_percent: 100.0,
        attacks: vec![attack],
        end_equals_start: true,
        ..PoisoningResult::default()
    }
}

fn report() -> MundnReport {
    let result = |(row, ..): (&str, &str, &str)| ElementResult {
        row: row.to_owned(),
        mbit: 9_000.0,
        cpu_us: 4.0,
        lost: 0,
    };
    let chain = |mbit, cpu_us| ChainResult { mbit, latency_ms: 0.1, cpu_us, ..Default::default() };
    MundnReport {
        cores: 2,
        processes: elements::ROWS.map(result).to_vec(),
        chain: Some(chain(5_000.0, 12.0)),
        router: Some(chain(8_000.0, 4.0)),
        scaling: Some(scaling()),
        poisoning: Some(poisoning()),
        left_out: vec!["NFD is not installed here.".to_owned()],
        ..MundnReport::default()
    }
}

#[test]
fn paper_has_a_number_for_every_row() {
    let paper = mundn_paper();
    for (row, ..) in elements::ROWS {
        assert_eq!(paper.number[row].values.len(), 2, "{row}");
    }
    assert_eq!(paper.number["scaling_mbit"].values, [635.0, 960.0, 715.0]);
    assert_eq!(paper.number["hit_ratio_percent"].values, [100.0, 94.0, 30.0]);
}

#[test]
fn page_shows_tables_and_figure_beside_the_paper() {
    let page = mundn_page(&report(), &mundn_paper());
    for text in [
        "Signature Verifier (RSA2048)",
        "<td class=\"n\">1820</td><td class=\"n\">9000</td><td class=\"n\">4.9</td>",
        "not run",
        "The chain uses 3.0 times the processor time",
        "Speedup 2.00 (the paper: 1.51)",
        "Why there were no more: load 95 % of 2 instances, but nr has 99 %.",
        ">BR1</text>",
        "NFD is not installed here.",
        "<td>lowest hit ratio in the attack</td><td class=\"n\">30 %</td><td class=\"n\">31 %</td>",
        "<td class=\"n\">2 periods</td><td class=\"n\">1.9 periods</td>",
        "before cs1, then br, then sf;",
        "Here: hit ratio by period",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!(report().verdict(), Verdict::Holds, "{:?}", report().checks());
}

#[test]
fn missed_bounds_and_quotas_without_effect_are_told() {
    let bad = Scaling {
        mbit_two: 400.0,
        mbit_three: Some(410.0),
        lost: 1,
        duplicates: 2,
        quota_problems: vec!["instance br~1 on here: no rights".to_owned()],
        ..scaling()
    };
    let mut poisoned = PoisoningResult { false_alarms: 1, ..poisoning() };
    poisoned.attacks[0].detected_s = 35.0;
    poisoned.attacks[0].recovered_s = Some(42.0);
    poisoned.attacks[0].fakes_after = 3;
    let poisoning = Some(poisoned);
    let mut containers = report().processes;
    containers.iter_mut().for_each(|result| result.cpu_us *= 1.5);
    let report = MundnReport { containers, scaling: Some(bad), poisoning, ..report() };
    let missed: Vec<String> = report
        .checks()
        .iter()
        .filter(|check| !check.holds())
        .map(|check| check.what.clone())
        .collect();
    assert_eq!(
        missed,
        [
            "table 3: processor time of containers over that of processes",
            "figure 5: throughput of two backward routers over one's",
            "figure 5: instances that raised it by less than 15 %",
            "figure 5: lost or refused Interests",
            "figure 5: Data that came twice",
            "figure 7: periods until a verifier was asked for",
            "figure 7: seconds from the verifier to the recovery",
            "figure 7: fake Data at the good consumer afterwards",
            "figure 7: verifiers without an attack",
        ]
    );
    assert_eq!(report.verdict(), Verdict::DoesNotHold, "lost Interests, on any machine");
    assert!(report.problems()[0].contains("no rights"));
}
