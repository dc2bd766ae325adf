//! Tests of fetching: loss, Nacks, congestion marks and reordering in virtual time.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Fetches from a producer behind a link with delay, loss, reordering, marks and Nacks, in
/// virtual time. Returns the end time.
fn run(
    segments: u64,
    seed: u64,
    loss_percent: u64,
    nack_percent: u64,
) -> Result<Timestamp, FetchError> {
    let mut random = seed | 1;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut fetcher = Fetcher::new(FetchOptions::default());
    let (mut now, mut sequence) = (Timestamp::from_millis(1), 0u64);
    let mut on_way: BTreeMap<(Timestamp, u64), (u64, bool)> = BTreeMap::new();
    let mut received = vec![false; segments as usize];
    while !fetcher.is_done() {
        while let Some(segment) = fetcher.next_request(now)? {
            let roll = next() % 100;
            if roll < loss_percent || segment >= segments {
                continue;
            }
            sequence += 1;
            let arrival = now + Duration::from_micros(5_000 + next() % 3_000);
            on_way.insert((arrival, sequence), (segment, roll < loss_percent + nack_percent));
        }
        assert!(fetcher.outstanding <= fetcher.window.packets().max(fetcher.options.window_max));
        let arrival = on_way.first_key_value().map(|(key, _)| *key);
        now = match (arrival.map(|(at, _)| at), fetcher.deadline()) {
            (Some(at), Some(deadline)) => at.min(deadline.max(now + Duration::from_micros(1))),
            (Some(at), None) => at,
            (None, Some(deadline)) => deadline.max(now + Duration::from_micros(1)),
            (None, None) => panic!("stuck at {fetcher:?}"),
        };
        while let Some(entry) = on_way.first_entry().filter(|e| e.key().0 <= now) {
            let (segment, refused) = entry.remove();
            if refused {
                fetcher.on_nack(now, segment, NackReason::Congestion);
            } else if let DataOutcome::New(_) =
                fetcher.on_data(now, segment, Some(segments - 1), next() % 50 == 0)
            {
                assert!(!std::mem::replace(&mut received[segment as usize], true));
            }
        }
    }
    assert!(received.iter().all(|g| *g));
    Ok(now)
}

#[test]
fn producer_without_replies_fails() {
    assert!(matches!(run(10, 3, 100, 0), Err(FetchError::NoAnswer { segment: 0, tries: 8.. })));
    assert!(matches!(
        run(10, 3, 0, 100),
        Err(FetchError::Refused { reason: NackReason::Congestion, .. })
    ));
}

/// Returns options of a fetch that begins with eight Interests.
fn eight_at_once() -> FetchOptions {
    FetchOptions { window_initial: 8, ..FetchOptions::default() }
}

/// Sends everything that may be sent now.
fn send_all(fetcher: &mut Fetcher, now: Timestamp) -> Result<Vec<u64>, FetchError> {
    let mut sent = Vec::new();
    while let Some(segment) = fetcher.next_request(now)? {
        sent.push(segment);
    }
    Ok(sent)
}

#[test]
fn congestion_nacks_slow_fetch_without_failure() {
    let mut fetcher = Fetcher::new(FetchOptions { retries_max: 3, ..eight_at_once() });
    let (mut now, mut sent) = (Timestamp::from_millis(1), 0);
    let end = now + Duration::from_secs(50);
    while now < end {
        for segment in send_all(&mut fetcher, now).unwrap() {
            sent += 1;
            fetcher.on_nack(now, segment, NackReason::Congestion);
        }
        now = fetcher.deadline().unwrap().max(now + Duration::from_millis(1));
    }
    assert!(sent < 1000, "{sent} Interests in 50 s: no back-off");
    for segment in 0..8 {
        fetcher.on_data(now, segment, Some(7), false);
    }
    assert!(fetcher.is_done());
}

#[test]
fn refusal_with_pause_is_retried_after_it() {
    let mut fetcher = Fetcher::new(eight_at_once());
    let now = Timestamp::from_millis(1);
    let sent = send_all(&mut fetcher, now).unwrap();
    for segment in &sent {
        fetcher.on_refusal(now, *segment, NackReason::Congestion, Duration::from_millis(300));
    }
    let early = now + Duration::from_millis(299);
    assert_eq!(send_all(&mut fetcher, early).unwrap(), Vec::<u64>::new());
    assert!(!send_all(&mut fetcher, now + Duration::from_millis(300)).unwrap().is_empty());
    // A pause without end is not kept.
    let mut fetcher = Fetcher::new(eight_at_once());
    send_all(&mut fetcher, now).unwrap();
    fetcher.on_refusal(now, 0, NackReason::Congestion, Duration::from_secs(1_000_000));
    assert!(send_all(&mut fetcher, now + PAUSE_MAX).unwrap().contains(&0));
}

#[test]
fn no_route_fails_early_at_start_and_late_after_progress() {
    for (first_comes, expected) in [(false, NO_ROUTE_TIMEOUT_DEFAULT), (true, TIMEOUT_DEFAULT)] {
        let mut fetcher = Fetcher::new(FetchOptions::default());
        let start = Timestamp::from_millis(1);
        let mut now = start;
        if first_comes {
            send_all(&mut fetcher, now).unwrap();
            fetcher.on_data(now, 0, Some(100), false);
        }
        let error = loop {
            match send_all(&mut fetcher, now) {
                Ok(sent) => {
                    sent.into_iter().for_each(|s| fetcher.on_nack(now, s, NackReason::NoRoute));
                    now = fetcher.deadline().unwrap().max(now + Duration::from_millis(1));
                }
                Err(error) => break error,
            }
        };
        assert!(matches!(error, FetchError::Refused { reason: NackReason::NoRoute, .. }));
        let took = now.since(start);
        assert!(took >= expected && took < expected + Duration::from_secs(10), "{took:?}");
    }
}

#[test]
fn inconsistent_final_blocks_fail() {
    let start = Timestamp::from_millis(1);
    let failure_after = |final_blocks: &[(u64, u64)]| {
        let mut fetcher = Fetcher::new(eight_at_once());
        send_all(&mut fetcher, start).unwrap();
        for (segment, last) in final_blocks {
            fetcher.on_data(start, *segment, Some(*last), false);
        }
        assert!(!fetcher.is_done());
        send_all(&mut fetcher, start).err()
    };
    let fault = |final_blocks: &[(u64, u64)]| match failure_after(final_blocks) {
        Some(FetchError::FinalBlock { reason, .. }) => Some(reason),
        None => None,
        unexpected => panic!("{unexpected:?}"),
    };
    assert_eq!(fault(&[(0, 99), (3, 99)]), None);
    assert_eq!(fault(&[(0, 99), (3, 150)]), None, "an object that grows");
    assert_eq!(fault(&[(0, 99), (3, 3)]), Some(FinalBlockFault::Shrank(99)));
    assert_eq!(fault(&[(5, 99), (3, 4)]), Some(FinalBlockFault::BelowReceived(5)));
    assert_eq!(fault(&[(5, 2)]), Some(FinalBlockFault::BelowReceived(5)));
    assert_eq!(fault(&[(0, u64::MAX)]), Some(FinalBlockFault::TooLarge));
    assert_eq!(fault(&[(0, 9), (1, 1 << 40)]), Some(FinalBlockFault::TooLarge));
}

#[test]
fn invalid_copies_requested_again_up_to_maximum() {
    let mut fetcher = Fetcher::new(FetchOptions::default());
    let mut now = Timestamp::from_millis(1);
    let mut refused = 0;
    loop {
        let sent = send_all(&mut fetcher, now).unwrap();
        if sent.contains(&0) {
            refused += 1;
            if !fetcher.on_invalid(now, 0) {
                break;
            }
        }
        now = now + Duration::from_millis(20);
    }
    assert_eq!(refused, COPIES_MAX);
    assert!(fetcher.is_wanted(0) && !fetcher.is_wanted(1000));
}

#[test]
fn reconnect_requests_only_missing_segments() {
    let mut fetcher = Fetcher::new(eight_at_once());
    let start = Timestamp::from_millis(1);
    let sent = send_all(&mut fetcher, start).unwrap();
    fetcher.on_data(start, 1, Some(7), false);
    fetcher.on_reconnect(start + Duration::from_secs(30));
    let mut again = Vec::new();
    let mut now = start + Duration::from_secs(30);
    while !fetcher.is_done() {
        for segment in send_all(&mut fetcher, now).unwrap() {
            again.push(segment);
            fetcher.on_data(now, segment, Some(7), false);
        }
        now = now + Duration::from_millis(10);
    }
    assert_eq!(again, sent.into_iter().filter(|s| *s != 1).collect::<Vec<_>>());
}

#[test]
fn loss_recovered_faster_than_by_timeouts() {
    // 2000 segments, 1 % lost: timeouts of 200 ms alone would take 4 s.
    let took = run(2000, 7, 1, 0).unwrap();
    assert!(took < Timestamp::from_millis(3_000), "{took:?}");
}

/// Without retransmissions late Data is no loss, and a loss is an error.
#[test]
fn no_retries_waits_for_rto_max() {
    let options = FetchOptions { retries_max: 0, ..FetchOptions::default() };
    let mut fetcher = Fetcher::new(options.clone());
    let start = Timestamp::from_millis(1);
    while fetcher.next_request(start).unwrap().is_some() {}
    // All segments but the first arrive at once, and those after them; the first takes five
    // seconds.
    for segment in 1..100 {
        fetcher.on_data(start + Duration::from_millis(segment), segment, Some(99), false);
        while fetcher.next_request(start + Duration::from_millis(segment)).unwrap().is_some() {}
    }
    let late = start + Duration::from_secs(5);
    assert_eq!(fetcher.next_request(late), Ok(None));
    assert_eq!(fetcher.deadline(), Some(start + options.rto_max));
    assert_eq!(
        fetcher.next_request(start + options.rto_max),
        Err(FetchError::NoAnswer { segment: 0, tries: 1 })
    );
    assert_eq!(fetcher.counters().retransmissions, 0);
}

/// Returns when the next segment arrives or the fetcher is due.
fn next_event(fetcher: &Fetcher, on_way: &VecDeque<(Timestamp, u64)>, now: Timestamp) -> Timestamp {
    let deadline = fetcher.deadline().map(|due| due.max(now + Duration::from_micros(1)));
    let arrival = on_way.front().map(|(at, _)| *at);
    arrival.into_iter().chain(deadline).min().expect("an event is due")
}

/// Everything in flight and everything sent for a second is lost, as when a router on the path
/// fails and is replaced.
#[test]
fn outage_of_one_second_recovered_within_two() {
    const SEGMENTS: u64 = 20_000;
    let mut fetcher = Fetcher::new(FetchOptions { window_max: 64, ..FetchOptions::default() });
    let outage = Timestamp::from_millis(500)..Timestamp::from_millis(1500);
    let (mut now, mut on_way) = (Timestamp::from_millis(1), VecDeque::new());
    let (mut last_received, mut longest) = (now, Duration::ZERO);
    while !fetcher.is_done() {
        while let Some(segment) = fetcher.next_request(now).unwrap() {
            if !outage.contains(&now) && segment < SEGMENTS {
                on_way.push_back((now + Duration::from_millis(5), segment));
            }
        }
        now = next_event(&fetcher, &on_way, now);
        while let Some((_, segment)) = on_way.pop_front_if(|(at, _)| *at <= now) {
            if !outage.contains(&now) {
                longest = longest.max(now.since(last_received));
                last_received = now;
                fetcher.on_data(now, segment, Some(SEGMENTS - 1), false);
            }
        }
    }
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    assert!(fetcher.counters().retransmissions < 200, "{:?}", fetcher.counters());
}

/// The first transmission of each of the last 40 segments is lost, and no new segment follows.
#[test]
fn lost_tail_recovered_with_one_timeout() {
    const SEGMENTS: u64 = 200;
    let mut fetcher = Fetcher::new(FetchOptions::default());
    let (mut now, mut on_way) = (Timestamp::from_millis(1), VecDeque::new());
    let mut seen = vec![false; SEGMENTS as usize];
    while !fetcher.is_done() {
        while let Some(segment) = fetcher.next_request(now).unwrap() {
            let first =
                segment >= SEGMENTS || !std::mem::replace(&mut seen[segment as usize], true);
            if segment < SEGMENTS && !(first && segment >= SEGMENTS - 40) {
                on_way.push_back((now + Duration::from_millis(5), segment));
            }
        }
        now = next_event(&fetcher, &on_way, now);
        while let Some((_, segment)) = on_way.pop_front_if(|(at, _)| *at <= now) {
            fetcher.on_data(now, segment, Some(SEGMENTS - 1), false);
        }
    }
    assert!(now < Timestamp::from_millis(1000), "{now:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_segment_received_once(segments in 1u64..400, seed: u64, loss in 0u64..25, nacks in 0u64..15) {
        prop_assert!(run(segments, seed, loss, nacks).is_ok());
    }
}
