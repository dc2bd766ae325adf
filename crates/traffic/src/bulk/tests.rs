//! Downloads over a network of one delay, in virtual time, and the arithmetic of results.

use super::*;
use nw_wire::Interest;

fn plan(files_per_s: f64, seconds: f64) -> BulkPlan {
    BulkPlan {
        prefix: "/bulk".parse().expect("a name"),
        files_per_s,
        seconds,
        file_bytes: 100_000,
        payload: 8000,
        lifetime_ms: 4000,
        window_max: 64,
    }
}

/// Answers every Interest after 10 ms. Returns the results of the files.
fn run(plan: &BulkPlan) -> Vec<BulkFile> {
    let start = Timestamp::from_millis(5);
    let mut downloads = Downloads::new(plan, start, 7);
    let (mut now, mut replies) = (start, std::collections::VecDeque::new());
    while !downloads.is_over() {
        downloads.send_due(now, |wire| {
            let name = Interest::check(wire).expect("an Interest").name().to_name();
            replies.push_back((now + Duration::from_millis(10), name));
        });
        let due = replies.front().map(|(at, _)| *at).unwrap_or(Timestamp::NEVER);
        now = downloads.next_wake(now).min(due);
        while let Some((_, name)) = replies.pop_front_if(|(at, _)| *at <= now) {
            let reply = Reply {
                kind: Kind::Data,
                name: name.as_ref(),
                is_marked: false,
                reason: NackReason::None,
                pause: Duration::ZERO,
            };
            downloads.on_reply(now, reply);
        }
    }
    downloads.results(start)
}

#[test]
fn downloads_start_at_their_rate_and_complete() {
    let plan = plan(10.0, 2.0);
    let files = run(&plan);
    assert_eq!((files.len(), plan.segments()), (20, 13));
    for (number, file) in files.iter().enumerate() {
        assert!((file.start_s - number as f64 / 10.0).abs() < 1e-6);
        assert_eq!((file.interests, file.retransmissions), (13, 0));
        assert!(file.stop_s.is_some_and(|stop| stop - file.start_s < 0.05), "{file:?}");
    }
}

#[test]
fn plan_with_impossible_numbers_is_refused() {
    for (files_per_s, seconds) in [(0.0, 1.0), (f64::NAN, 1.0), (1e9, 1.0), (-1.0, 1.0)] {
        assert!(matches!(plan(files_per_s, seconds).check(), Err(PlanError::Rate(_))));
    }
    assert!(matches!(plan(1.0, 0.0).check(), Err(PlanError::Seconds(_))));
    assert_eq!(plan(0.01, 1.0).check(), Err(PlanError::Files(0)));
    assert_eq!(plan(100_000.0, 100.0).check(), Err(PlanError::Files(10_000_000)));
    let empty = BulkPlan { file_bytes: 0, ..plan(1.0, 1.0) };
    assert_eq!(empty.check(), Err(PlanError::Empty));
    let huge = BulkPlan { file_bytes: u64::MAX, ..plan(1.0, 1.0) };
    assert!(matches!(huge.check(), Err(PlanError::Segments(_))));
    assert_eq!(plan(2.0, 10.0).check(), Ok(()));
}

#[test]
fn summary_compares_with_the_link() {
    let plan = BulkPlan { file_bytes: 1_000_000, ..plan(10.0, 1.0) };
    let file = |number: u64, stop_s: f64| BulkFile {
        file: number,
        start_s: number as f64 / 10.0,
        stop_s: Some(stop_s),
        interests: 125,
        retransmissions: 0,
        nacks: 0,
        marks: 0,
        error: None,
    };
    let files: Vec<BulkFile> = (0..10).map(|n| file(n, 1.0)).collect();
    let sample = |tenth: u32| BulkSample {
        at_s: f64::from(tenth) / 10.0,
        goodput_mbit: 80.0,
        pending: Some(50),
        ..BulkSample::default()
    };
    // 80 Mbit of content in 1 s, over a link that carries 80 Mbit/s of content.
    let link = Link { rate_mbit: 100.0, rtt_ms: 20.0, segment_bytes: 10_000.0 };
    let samples = (1..=10).map(sample).collect();
    let summary = BulkResult::new("x".into(), &plan, Some(link), files, samples).summary;
    assert!((summary.goodput_share.expect("a link") - 1.0).abs() < 1e-6, "{summary:?}");
    assert!((summary.time_share.expect("a link") - 1.0).abs() < 1e-6, "{summary:?}");
    // 100 Mbit/s for 20 ms are 25 segments of 10,000 bytes.
    assert_eq!(summary.pending_in_bdp, Some(2.0));
    assert!(summary.jain < 0.9, "files started later were faster: {}", summary.jain);
}

#[test]
fn jain_is_one_for_equal_rates_and_a_part_for_one() {
    assert_eq!(jain(&[3.0; 7]), 1.0);
    assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), 0.25);
}
