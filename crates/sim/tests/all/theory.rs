//! Results compared with theory.

use crate::run;
use nw_sim::Outcome;

fn row<'a>(outcome: &'a Outcome, name: &str) -> &'a nw_sim::outcome::ApplicationRow {
    outcome.applications.iter().find(|row| row.name.starts_with(name)).expect(name)
}

/// Along a line, an Interest and its Data take the delay and their length over the rate on each
/// link, and nothing else.
#[test]
fn round_trip_time_is_delay_plus_transmission() {
    for nodes in [2, 5, 20] {
        let last = nodes - 1;
        let outcome = run(&format!(
            "[topology]\ngenerate = \"line:{nodes}\"\n[links]\ndelay_ms = 3\nrate_mbps = 10\n\
             [[producer]]\nprefix = \"/p\"\nat = [\"n{last}\"]\npayload = 1000\n\
             [[consumer]]\nkind = \"ping\"\nprefix = \"/p\"\nat = [\"n0\"]\narrivals = \"even\"\n"
        ));
        let bytes_per_packet = |from: &str, to: &str| {
            let link =
                outcome.links.iter().find(|link| link.from == from && link.to == to).unwrap();
            link.octets as f64 / link.packets as f64 // (retired word)
        };
        let bytes = bytes_per_packet("n0", "n1") + bytes_per_packet("n1", "n0");
        let expected_ms = f64::from(last) * (2.0 * 3.0 + bytes * 8.0 / 10e6 * 1e3);
        let ping = row(&outcome, "consumer");
        assert_eq!((ping.sent, ping.timeouts, ping.nacks), (10, 0, 0));
        let mean = ping.rtt_mean_ms.unwrap();
        assert!(
            (mean / expected_ms - 1.0).abs() < 1e-6,
            "{nodes} nodes: {mean} ms instead of {expected_ms}"
        );
    }
}

/// A producer's delay adds exactly that.
#[test]
fn producer_delay_added_to_round_trip_time() {
    let text = |delay_ms| {
        format!(
            "[topology]\ngenerate = \"line:2\"\n[[producer]]\nprefix = \"/p\"\nat = [\"n1\"]\ndelay_ms = {delay_ms}\nsignature = \"digest\"\n\
             [[consumer]]\nkind = \"rate\"\nprefix = \"/p\"\nat = [\"n0\"]\n"
        )
    };
    let mean = |delay_ms| run(&text(delay_ms)).totals.rtt_mean_ms.unwrap();
    assert!((mean(7.5) - mean(0.0) - 7.5).abs() < 1e-6);
}

/// Data of equal length arriving at random at a link: an M/D/1/K queue. For a load of 1.2 and two
/// waiting places the loss is known from the chain of queue lengths at departures.
#[test]
fn queue_loss_matches_md1k() {
    let (load, waiting) = (1.2, 2);
    let expected = md1k_loss(load, waiting);
    // Data with 8000 bytes of content takes about 6.5 ms at 10 Mbit/s.
    let text = |rate: f64| {
        format!(
            "[run]\nduration_s = 400\n[topology]\ngenerate = \"line:2\"\n[links]\ndelay_ms = 1\nrate_mbps = 10\nqueue_packets = {waiting}\ncongestion_marking = false\n\
             [routers]\nstore_packets = 0\n[[producer]]\nprefix = \"/p\"\nat = [\"n1\"]\npayload = 8000\n\
             [[consumer]]\nkind = \"rate\"\nprefix = \"/p\"\nat = [\"n0\"]\nrate_per_s = {rate}\nlifetime_ms = 1000\n"
        )
    };
    let probe = run(&text(1.0));
    let link = &probe.links[1];
    let service_s = link.octets as f64 / link.packets as f64 * 8.0 / 10e6; // (retired word)
    let outcome = run(&text(load / service_s));
    let link = &outcome.links[1];
    let lost = link.dropped_queue as f64 / link.packets as f64;
    assert!((lost / expected - 1.0).abs() < 0.04, "{lost} instead of {expected}");
    assert_eq!(link.queue_most, u64::from(waiting as u32));
    let satisfied = outcome.totals.satisfied.unwrap();
    assert!((satisfied - (1.0 - lost)).abs() < 0.001, "what is dropped times out");
    // The utilisation is the load that gets through.
    assert!((link.utilisation / (load * (1.0 - lost)) - 1.0).abs() < 0.02, "{}", link.utilisation);
}

/// Returns the loss of an M/D/1/K queue with `waiting` places in addition to the server.
fn md1k_loss(load: f64, waiting: usize) -> f64 {
    let capacity = waiting + 1;
    let mut arrivals = vec![(-load).exp()];
    for count in 1..=capacity {
        arrivals.push(arrivals[count - 1] * load / count as f64);
    }
    // Distribution of the queue length at departures, from 0 to capacity - 1, by iterating the
    // chain.
    let mut queue_lengths = vec![1.0 / capacity as f64; capacity];
    for _ in 0..10_000 {
        let mut next = vec![0.0; capacity];
        for (before, share) in queue_lengths.iter().enumerate() {
            let base = before.saturating_sub(1);
            let mut remaining = 1.0;
            for after in base..capacity - 1 {
                let p = arrivals[after - base];
                next[after] += share * p;
                remaining -= p;
            }
            next[capacity - 1] += share * remaining;
        }
        queue_lengths = next;
    }
    1.0 - 1.0 / (queue_lengths[0] + load)
}

/// The hit ratio of an LRU cache on the path of all consumers, by Che's approximation.
#[test]
fn cache_hit_ratio_matches_che() {
    let (names, exponent, size) = (2000, 0.8, 200);
    let outcome = run(&format!(
        "[run]\nduration_s = 100\n[topology]\ngenerate = \"star:8\"\n[links]\ndelay_ms = 0.01\nrate_mbps = 0\n[routers]\nstore_packets = 0\n\
         [[node]]\nname = \"n0\"\nstore_packets = {size}\n\
         [[producer]]\nprefix = \"/p\"\nat = [\"n1\"]\nfreshness_ms = 1000000\n\
         [[consumer]]\nkind = \"zipf\"\nprefix = \"/p\"\nat = [\"n2\", \"n3\", \"n4\", \"n5\", \"n6\", \"n7\", \"n8\"]\nrate_per_s = 300\nnames = {names}\nzipf = {exponent}\n"
    ));
    let node = &outcome.nodes[0];
    let hits = node.cs_hits as f64 / (node.cs_hits + node.cs_misses) as f64;
    let expected = che(names, exponent, f64::from(size));
    assert!((hits - expected).abs() < 0.01, "{hits} instead of {expected}");
}

fn che(names: usize, exponent: f64, size: f64) -> f64 {
    let weights: Vec<f64> = (1..=names).map(|rank| (rank as f64).powf(-exponent)).collect();
    let sum: f64 = weights.iter().sum();
    let cached = |time: f64| weights.iter().map(|w| 1.0 - (-w / sum * time).exp()).sum::<f64>();
    let (mut low, mut high) = (0.0, 1e9);
    for _ in 0..200 {
        let time = (low + high) / 2.0;
        if cached(time) < size { low = time } else { high = time }
    }
    weights.iter().map(|w| w / sum * (1.0 - (-w / sum * low).exp())).sum()
}

/// Interests for one name at one time become one Interest upstream, and one Data for all.
#[test]
fn simultaneous_interests_aggregated() {
    let outcome = run(
        "[topology]\ngenerate = \"star:9\"\n[links]\ndelay_ms = 50\n[routers]\nstore_packets = 0\n\
         [[producer]]\nprefix = \"/p\"\nat = [\"n1\"]\nsegments = 1\n\
         [[consumer]]\nkind = \"bulk\"\nprefix = \"/p\"\nat = [\"n2\", \"n3\", \"n4\", \"n5\", \"n6\", \"n7\", \"n8\", \"n9\"]\n",
    );
    // Eight downloads of one segment; they also request the next ones, as they don't know the end
    // yet.
    let to_producer = outcome.links.iter().find(|link| link.to == "n1").unwrap();
    let from_producer = outcome.links.iter().find(|link| link.from == "n1").unwrap();
    let first_window = nw_app::fetch::FetchOptions::default().window_initial as u64;
    assert_eq!((to_producer.packets, from_producer.packets), (first_window, 1));
    assert_eq!(outcome.applications.iter().filter(|row| row.done_s.is_some()).count(), 8);
}

/// A download uses the full rate of an otherwise idle link.
#[test]
fn download_uses_full_link_rate() {
    let outcome = run(
        "[run]\nduration_s = 20\n[topology]\ngenerate = \"line:3\"\n[links]\ndelay_ms = 5\nrate_mbps = 20\nqueue_packets = 100\n\
         [[producer]]\nprefix = \"/p\"\nat = [\"n2\"]\npayload = 4000\nsegments = 5000\n\
         [[consumer]]\nkind = \"bulk\"\nprefix = \"/p\"\nat = [\"n0\"]\n",
    );
    let film = row(&outcome, "consumer");
    let best_s = film.octets as f64 * 8.0 / 20e6; // (retired word)
    assert!(film.done_s.unwrap() < 1.15 * best_s, "{:?} s instead of {best_s}", film.done_s);
    assert!(film.marks > 0 || film.timeouts > 0, "a queue was long");
}

/// Packets longer than the MTU are fragmented and reassembled.
#[test]
fn packets_above_mtu_fragmented() {
    let outcome = run(
        "[topology]\ngenerate = \"line:3\"\n[links]\nmtu = 1400\n[[producer]]\nprefix = \"/p\"\nat = [\"n2\"]\npayload = 8000\n\
         [[consumer]]\nkind = \"rate\"\nprefix = \"/p\"\nat = [\"n0\"]\nrate_per_s = 50\n",
    );
    assert_eq!(outcome.totals.satisfied, Some(1.0));
    let (up, down) = (&outcome.links[0], &outcome.links[1]);
    assert!(down.packets >= 6 * (up.packets - 1), "{} for {}", down.packets, up.packets);
}

/// The loss rate is as configured, and each Interest with a lost packet times out.
#[test]
fn loss_rate_as_configured() {
    let outcome = run(
        "[run]\nduration_s = 100\n[topology]\ngenerate = \"line:2\"\n[links]\nloss = 0.05\n[[producer]]\nprefix = \"/p\"\nat = [\"n1\"]\n\
         [[consumer]]\nkind = \"rate\"\nprefix = \"/p\"\nat = [\"n0\"]\nrate_per_s = 500\n",
    );
    let satisfied = outcome.totals.satisfied.unwrap();
    assert!((satisfied - 0.95 * 0.95).abs() < 0.005, "{satisfied}");
}
