//! A download of this project beside a consumer that requests more than the link carries, whatever
//! marks and delays say: the router before the link gives each its share.

use nw_sim::{Overrides, Scenario, Simulation};

/// Bytes of a Data on a simulated link: content and headers.
const DATA_BYTES: f64 = 8077.0;
/// Time at which the download begins, and that from which it is measured, seconds.
const START_S: u64 = 3;
const FROM_S: u64 = 6;
const UNTIL_S: u64 = 18;

/// A link of `rate_mbit` with a one-way delay; the greedy consumer requests three times its rate.
fn scenario(rate_mbit: f64, delay_ms: f64) -> String {
    let rate_per_s = 3.0 * rate_mbit * 1e6 / 8.0 / DATA_BYTES;
    format!(
        "[run]\nduration_s = {UNTIL_S}\n[topology]\ngenerate = \"line:2\"\n\
         [links]\ndelay_ms = {delay_ms}\nrate_mbps = {rate_mbit}\nqueue_packets = 1000000\n\
         queue_kib = 1024\n[routers]\nstore_packets = 0\npit_entries = 262144\n\
         [[producer]]\nat = [\"n1\"]\nprefix = \"/greedy\"\npayload = 8000\n\
         [[producer]]\nat = [\"n1\"]\nprefix = \"/own\"\npayload = 8000\nsegments = 1000000\n\
         [[consumer]]\nname = \"greedy\"\nkind = \"rate\"\nat = [\"n0\"]\nprefix = \"/greedy\"\n\
         rate_per_s = {rate_per_s:.0}\nlifetime_ms = 4000\n\
         [[consumer]]\nname = \"own\"\nkind = \"bulk\"\nat = [\"n0\"]\nprefix = \"/own\"\n\
         start_s = {START_S}\nlifetime_ms = 4000\nwindow = 1024\n"
    )
}

/// Returns the share of the link that is used, and the download's share of its half.
fn shares(rate_mbit: f64, delay_ms: f64) -> (f64, f64) {
    let text = scenario(rate_mbit, delay_ms);
    let run = Scenario::parse("share", &text, None, &Overrides::default()).expect("a scenario");
    let mut simulation = Simulation::new(run).expect("a simulation");
    let mut satisfied = |at_s: u64| {
        simulation.run_until(at_s * 1_000_000_000).expect("virtual time");
        simulation.consumer_counters().map(|counters| counters.satisfied).collect::<Vec<_>>()
    };
    let (before, after) = (satisfied(FROM_S), satisfied(UNTIL_S));
    let per_s = |index: usize| (after[index] - before[index]) as f64 / (UNTIL_S - FROM_S) as f64;
    let link = rate_mbit * 1e6 / 8.0 / DATA_BYTES;
    ((per_s(0) + per_s(1)) / link, per_s(1) / (link / 2.0))
}

#[test]
fn download_beside_a_greedy_consumer_gets_its_half_of_the_link() {
    // On slow links a download has two or three segments on its way.
    for (rate_mbit, delay_ms, fair_min) in [
        (10.0, 0.1, 0.95),
        (10.0, 1.0, 0.95),
        (10.0, 10.0, 0.85),
        (20.0, 1.0, 0.95),
        (20.0, 10.0, 0.95),
        (100.0, 10.0, 0.95),
    ] {
        let (link, fair) = shares(rate_mbit, delay_ms);
        let text = format!(
            "{rate_mbit} Mbit/s, {delay_ms} ms: {link:.3} of the link, {fair:.3} of the fair share"
        );
        assert!(link > 0.89, "{text}");
        assert!(fair > fair_min && fair < 1.15, "{text}");
    }
}
