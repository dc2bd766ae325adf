//! Failures of links and nodes, and recovery.

use crate::run;

const RING: &str = "[topology]\ngenerate = \"ring:6\"\n[links]\ndelay_ms = 1\n\
    [[producer]]\nprefix = \"/p\"\nat = [\"n0\"]\n\
    [[consumer]]\nkind = \"rate\"\nprefix = \"/p\"\nat = [\"n2\"]\nrate_per_s = 100\nlifetime_ms = 200\n";

fn scenario(run: &str, sections: &str) -> String {
    format!("[run]\n{run}\n{RING}{sections}")
}

fn satisfied_between(outcome: &nw_sim::Outcome, from_s: f64, to_s: f64) -> f64 {
    let points = outcome.series.iter().filter(|point| point.at_s > from_s && point.at_s <= to_s);
    points.map(|point| point.satisfied_per_s).sum::<f64>()
        / outcome.series.iter().filter(|p| p.at_s > from_s && p.at_s <= to_s).count() as f64
}

/// Between a failure and the new routes nothing is satisfied; afterwards everything is, by the
/// longer path.
#[test]
fn link_failure_routed_around_after_convergence() {
    let outcome = run(&scenario(
        "at = [\"3s link n0-n1 down\", \"7s link n0-n1 up\"]",
        "[routing]\nconvergence_ms = 500\n",
    ));
    assert!(satisfied_between(&outcome, 3.0, 3.5) < 5.0, "{:?}", outcome.series);
    assert!(satisfied_between(&outcome, 3.6, 7.0) > 90.0);
    let rtt = |at_s: f64| {
        outcome.series.iter().find(|point| point.at_s >= at_s).unwrap().rtt_mean_ms.unwrap()
    };
    assert!(rtt(2.0) < 5.0 && rtt(5.0) > 8.0 && rtt(9.0) < 5.0, "2, 4 and again 2 links");
    assert!(outcome.links[0].dropped_down + outcome.links[1].dropped_down > 0);
    assert!(
        outcome.totals.timeouts > 30 && outcome.totals.timeouts < 70,
        "{}",
        outcome.totals.timeouts
    );
}

/// ASF finds the other path without new routes, best-route does not.
#[test]
fn asf_recovers_without_new_routes() {
    let routing = "[routing]\nnext_hops = 2\nrecompute = false\n";
    let down = "at = [\"3s link n0-n1 down\"]";
    let asf = run(&scenario(
        down,
        &format!("{routing}[[strategy]]\nprefix = \"/p\"\nstrategy = \"asf\"\n"),
    ));
    let best = run(&scenario(down, routing));
    assert!(satisfied_between(&asf, 5.0, 10.0) > 90.0, "{:?}", asf.totals);
    assert!(satisfied_between(&best, 5.0, 10.0) < 5.0, "{:?}", best.totals);
}

/// A restarted node has empty tables, and its routes.
#[test]
fn node_restart_empties_tables() {
    let text = |run: &str| {
        format!(
            "[run]\n{run}\n[topology]\ngenerate = \"line:3\"\n[links]\ndelay_ms = 20\n\
             [[producer]]\nprefix = \"/p\"\nat = [\"n2\"]\nfreshness_ms = 100000\n\
             [[consumer]]\nkind = \"zipf\"\nprefix = \"/p\"\nat = [\"n0\"]\nrate_per_s = 200\nnames = 50\nlifetime_ms = 500\n"
        )
    };
    let (undisturbed, restarted) = (run(&text("")), run(&text("at = [\"5s node n0 restart\"]")));
    // 50 names are fetched once, and once more after the restart.
    assert_eq!(undisturbed.nodes[0].cs_insertions, Some(50));
    assert_eq!(restarted.nodes[0].cs_insertions, Some(100));
    assert!(restarted.totals.timeouts <= 3);
    assert_eq!(restarted.nodes[0].cs_hits + restarted.nodes[0].cs_misses, restarted.totals.sent);
}

/// While a node is down, arriving packets are dropped and counted; then it works as before.
#[test]
fn node_down_drops_counted_until_up() {
    let outcome = run(&scenario(
        "at = [\"3s node n1 down\", \"4s node n1 up\"]",
        "[routing]\nrecompute = false\n",
    ));
    assert!(satisfied_between(&outcome, 3.1, 4.0) < 5.0);
    assert!(satisfied_between(&outcome, 4.1, 10.0) > 90.0);
    let to_n1 = outcome.links.iter().filter(|link| link.to == "n1");
    assert!(to_n1.map(|link| link.dropped_down).sum::<u64>() > 80);
}
