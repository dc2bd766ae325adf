//! The shaper against a link of known rate, in virtual time.

use super::rate::RateControl;
use super::*;
use nw_element_api::{FaceId, Pool, decode};
use nw_name::{HashKey, Name};
use nw_wire::InterestBuilder;

const KEY: HashKey = HashKey::new([1, 2, 3, 4]);

fn face(number: u32) -> FaceId {
    FaceId::from_slot(FaceId::FIRST + number, 0)
}

/// Passes one Interest for `flow`/`segment` from downstream face `from` to the shaper.
fn admit(
    shaper: &mut InterestShaper,
    now: Timestamp,
    from: u32,
    flow: &str,
    segment: u64,
) -> Admission {
    let mut pool = Pool::new(KEY, 4, 64);
    let name = flow.parse::<Name>().expect("a name").with_segment(segment);
    let wire = InterestBuilder::new(name.as_ref()).nonce(7).encode();
    let packet = pool.copy_of(&wire).expect("space");
    decode::decode(&mut pool, &packet).expect("an Interest");
    pool.meta_mut(&packet).ingress = face(from);
    let admission = {
        let (bytes, meta) = pool.view(&packet);
        shaper.admit(now, bytes, meta)
    };
    pool.release(packet);
    admission
}

/// Returns a shaper of known rate that has spent `spent` bytes of credit.
fn shaper_at(now: Timestamp, bytes_per_s: f64, spent: f64) -> InterestShaper {
    let mut shaper = InterestShaper::new(now, 9);
    shaper.rate = RateControl::with_rate(now, bytes_per_s);
    shaper.rate.spend(spent);
    shaper
}

fn name_of(interest: &WaitingInterest) -> String {
    nw_wire::Interest::check(&interest.bytes).expect("an Interest").name().to_string()
}

#[test]
fn shaper_with_backlog_serves_faces_and_flows_in_turn() {
    let now = Timestamp::from_millis(1);
    let mut shaper = shaper_at(now, 1e6, 1e6);
    // Face 0 asks for 300 segments of one flow, face 1 for 5 of each of two flows.
    (0..300).for_each(|n| assert_eq!(admit(&mut shaper, now, 0, "/greedy", n), Admission::Queued));
    for n in 0..5 {
        assert_eq!(admit(&mut shaper, now, 1, "/a", n), Admission::Queued);
        assert_eq!(admit(&mut shaper, now, 1, "/b", n), Admission::Queued);
    }
    let mut order = Vec::new();
    for step in 0..2000 {
        let at = now + Duration::from_millis(1010 + step);
        order.extend(core::iter::from_fn(|| shaper.release(at)).map(|i| name_of(&i)));
    }
    let first = &order[..20];
    let of = |prefix: &str| first.iter().filter(|name| name.starts_with(prefix)).count();
    assert!((9..=11).contains(&of("/greedy")), "{first:?}");
    assert!((4..=6).contains(&of("/a")) && (4..=6).contains(&of("/b")), "{first:?}");
}

#[test]
fn shaper_refuses_interest_that_would_wait_half_its_lifetime() {
    let now = Timestamp::from_millis(1);
    let mut shaper = shaper_at(now, 1e6, 1e6);
    let mut queued = 0;
    let pause = loop {
        match admit(&mut shaper, now, 0, "/greedy", queued) {
            Admission::Queued => queued += 1,
            Admission::Refused(pause) => break pause,
            Admission::Send => panic!("no credit"),
        }
    };
    // 2 s at 1 MB/s are 500 Interests of the first cost, 4000 bytes: the last waits just so long.
    assert_eq!((queued, pause), (500, Duration::from_millis(4)));
    // Another face is not affected.
    assert_eq!(admit(&mut shaper, now, 1, "/other", 0), Admission::Queued);
}

#[test]
fn shaper_retransmission_of_waiting_interest_replaces_it() {
    let now = Timestamp::from_millis(1);
    let mut shaper = shaper_at(now, 1e6, 1e6);
    for _ in 0..3 {
        assert_eq!(admit(&mut shaper, now, 0, "/a", 1), Admission::Queued);
    }
    assert_eq!(shaper.len(), 1);
}

#[test]
fn shaper_expired_interests_are_counted_and_not_sent() {
    let now = Timestamp::from_millis(1);
    let mut shaper = shaper_at(now, 1e6, 1e4);
    assert_eq!(admit(&mut shaper, now, 0, "/a", 1), Admission::Queued);
    assert_eq!((shaper.expired(), shaper.len()), (0, 1));
    assert!(!shaper.is_over(now + Duration::from_secs(60)), "one waits still");
    assert!(shaper.release(now + Duration::from_secs(60)).is_none());
    assert_eq!((shaper.expired(), shaper.len()), (1, 0));
    assert!(shaper.is_over(now + Duration::from_secs(61)));
}

#[test]
fn shaper_without_marks_and_backlog_is_over_later() {
    let now = Timestamp::from_millis(1);
    let mut shaper = shaper_at(now, 1e6, 0.0);
    let name = "/a".parse::<Name>().expect("a name");
    shaper.on_data(now + Duration::from_secs(1), name.as_ref().as_bytes(), 1000, true);
    let marked_at = now + Duration::from_secs(1);
    assert_eq!(shaper.deadline(), marked_at + IDLE_TIME);
    assert!(!shaper.is_over(marked_at + IDLE_TIME.mul_f64(0.999)));
    assert!(shaper.is_over(marked_at + IDLE_TIME));
}

#[test]
fn shaper_with_credit_sends_no_interest_ahead_of_those_that_wait() {
    let now = Timestamp::from_millis(1);
    let mut shaper = shaper_at(now, 1e6, 1e4);
    assert_eq!(admit(&mut shaper, now, 0, "/a", 1), Admission::Queued);
    let later = now + Duration::from_millis(100);
    assert_eq!(admit(&mut shaper, later, 0, "/b", 1), Admission::Queued);
    assert_eq!(
        shaper.release(later).map(|interest| name_of(&interest)[..2].to_owned()),
        Some("/a".to_owned())
    );
}

/// What a link carries while no Interest waits does not show how fast it is.
#[test]
fn shaper_raises_its_rate_only_while_interests_wait() {
    let start = Timestamp::from_millis(1);
    let data = "/a".parse::<Name>().expect("a name");
    for (waits, wanted) in [(false, 1e6), (true, 1e6 * 1.25 * 1.25)] {
        let mut shaper = shaper_at(start, 1e6, 1e6);
        if waits {
            assert_eq!(admit(&mut shaper, start, 0, "/a", 1), Admission::Queued);
        }
        for interval in 1..=2 {
            let now = start + Duration::from_millis(50 * interval);
            shaper.on_data(now, data.as_ref().as_bytes(), 1000, false);
        }
        assert_eq!(shaper.bytes_per_s(), Some(wanted), "waits: {waits}");
    }
}

#[test]
fn shaper_full_queue_refuses_and_stays_bounded() {
    let now = Timestamp::from_millis(1);
    let mut shaper = shaper_at(now, 1e11, 1e12);
    let refused = (0..QUEUE_MAX as u64 + 100)
        .filter(|n| matches!(admit(&mut shaper, now, 0, "/a", *n), Admission::Refused(_)))
        .count();
    assert_eq!((shaper.len(), refused), (QUEUE_MAX, 100));
}

/// Runs a far queue that is drained at `capacity` bytes per second and marked above 64 KB. Returns
/// the mean rate of the last half, relative to the capacity.
fn settle(control: &mut RateControl, start_ms: u64, capacity: f64) -> f64 {
    let (mut queue, mut sum) = (0.0_f64, 0.0);
    for ms in start_ms..start_ms + 10_000 {
        let now = Timestamp::from_millis(ms);
        control.refill(now);
        queue += control.bytes_per_s() / 1000.0;
        let sent = queue.min(capacity / 1000.0);
        queue -= sent;
        control.on_data(now, sent as usize, true, queue > 65_536.0);
        if ms >= start_ms + 5000 {
            sum += sent;
        }
    }
    sum / (capacity * 5.0)
}

#[test]
fn rate_control_fills_the_link_and_follows_its_changes() {
    for first in [1e5, 1.25e7, 1e9] {
        let mut control = RateControl::with_rate(Timestamp::START, first);
        let used = settle(&mut control, 0, 1.25e7);
        assert!(used > 0.985, "{used} from {first}");
        let used = settle(&mut control, 10_000, 1.25e6);
        assert!(used > 0.98, "{used} of a tenth, from {first}");
        let used = settle(&mut control, 20_000, 1.25e7);
        assert!(used > 0.985, "{used} back, from {first}");
    }
}

/// What makes the far queue long is not asked for: twice as much in the second interval with a
/// mark, and at most a fifth of an interval.
#[test]
fn rate_control_drains_the_far_queue_after_marks() {
    // Milliseconds without credit after each of three intervals with a mark in a row.
    for (bytes_per_s, pauses) in [(1.25e7, [4, 8, 10]), (1e6, [10, 10, 10]), (1e9, [4, 8, 10])] {
        let mut control = RateControl::with_rate(Timestamp::START, bytes_per_s);
        let mut total = Duration::ZERO;
        for (at, pause) in pauses.into_iter().enumerate() {
            let now = Timestamp::from_millis(50 * (at as u64 + 1));
            control.on_data(now, (bytes_per_s * 0.05) as usize, true, true);
            total += Duration::from_millis(pause);
            let credit_at = control.credit_at().since(Timestamp::START);
            let error = credit_at.abs_diff(total);
            assert!(error < Duration::from_micros(1), "{credit_at:?} at {bytes_per_s}");
        }
        // An interval without a mark needs no pause, and the next one with a mark the shortest.
        control.on_data(Timestamp::from_millis(200), (bytes_per_s * 0.05) as usize, true, false);
        assert!(control.credit_at() <= Timestamp::START + total);
        control.on_data(Timestamp::from_millis(250), (bytes_per_s * 0.05) as usize, true, true);
        total += Duration::from_millis(pauses[0]);
        let error = control.credit_at().since(Timestamp::START).abs_diff(total);
        assert!(error < Duration::from_millis(1), "{error:?} at {bytes_per_s}");
    }
}

#[test]
fn flow_without_answers_costs_little() {
    let now = Timestamp::from_millis(1);
    let mut table = FlowTable::default();
    (0..200).for_each(|_| {
        table.on_sent(now, 1);
        table.on_sent(now, 2);
        table.on_data(2, 8000);
    });
    let cost = |flow, ms| table.interest_cost(Timestamp::from_millis(ms), flow);
    assert!(cost(1, 100) > 7900.0, "its Interests may be outstanding still");
    assert!(cost(1, 6000) <= 100.0, "{}", cost(1, 6000));
    assert!(cost(2, 6000) > 7900.0, "{}", cost(2, 6000));
    assert!(cost(3, 6000) > 7900.0, "a new flow costs what others do");
}

#[test]
fn flow_table_stays_bounded() {
    let mut table = FlowTable::default();
    for flow in 0..100_000 {
        table.on_sent(Timestamp::from_millis(flow), flow);
    }
    assert!(table.len() <= 4096);
}

#[test]
fn flow_that_waits_long_is_marked_at_decreasing_intervals() {
    let mut table = FlowTable::default();
    let mut marks = 0;
    for ms in 0..1000 {
        let now = Timestamp::from_millis(ms);
        table.on_released(now, 1, Duration::from_millis(30), Duration::from_millis(20));
        marks += u32::from(table.on_data(1, 8000));
    }
    assert!((20..=40).contains(&marks), "{marks}");
    table.on_released(
        Timestamp::from_millis(1001),
        1,
        Duration::from_millis(3),
        Duration::from_millis(20),
    );
    assert!(!table.on_data(1, 8000));
}

/// The mark of a full link is for the flows that ask for more than their share of it.
#[test]
fn mark_of_the_link_is_cleared_for_flows_that_hardly_wait() {
    let mut shaper = shaper_at(Timestamp::from_millis(1), 1e7, 0.0);
    let data_of = |shaper: &mut InterestShaper, now, flow: &str| {
        let name = flow.parse::<Name>().expect("a name").with_segment(1);
        shaper.on_data(now, name.as_ref().as_bytes(), 8000, true)
    };
    let mut now = Timestamp::from_millis(2);
    assert_eq!(data_of(&mut shaper, now, "/modest"), MarkAction::Keep, "an unknown flow");
    // Interests of the modest flow never wait longer than its turn takes, those of the greedy one
    // wait for each other.
    for n in 0..100 {
        (0..40).for_each(|k| _ = admit(&mut shaper, now, 0, "/greedy", 40 * n + k));
        admit(&mut shaper, now, 1, "/modest", n);
        for _ in 0..20 {
            now = now + Duration::from_millis(1);
            while shaper.release(now).is_some() {}
        }
    }
    assert_eq!(data_of(&mut shaper, now, "/modest"), MarkAction::Clear);
    assert_ne!(data_of(&mut shaper, now, "/greedy"), MarkAction::Clear);
}

/// Cost of an Interest, bytes.
const COST: f64 = 8000.0;

fn waiting(flow: u64, number: u64) -> WaitingInterest {
    let at = Timestamp::from_millis(1);
    WaitingInterest {
        name_hash: number,
        flow,
        bytes: Box::new([]),
        link: LinkFields::default(),
        queued_at: at,
        expires_at: at,
    }
}

/// Serves 1000 Interests, one per tick: a greedy consumer beside `modest` ones that send an Interest
/// `rtt` ticks after the last one was served. Consumer `n` has flow `n` and the face `of(n)`; the
/// greedy one is 0. Returns the Interests of each that were served.
fn served_of(modest: usize, rtt: u64, of: impl Fn(usize) -> u32) -> Vec<u64> {
    let mut queues = FlowQueues::new(9);
    let mut served = vec![0; modest + 1];
    let mut due = vec![Some(0); modest + 1];
    (0..20).for_each(|n| _ = queues.push(face(of(0)), waiting(0, n), COST, false));
    for tick in 0..1000 {
        for (number, due) in due.iter_mut().enumerate() {
            if due.is_some_and(|due| due <= tick) {
                let name = 100 * tick + 1000 + number as u64;
                let interest = waiting(number as u64, name);
                assert!(queues.push(face(of(number)), interest, COST, false));
                *due = None;
            }
        }
        let number = queues.pop().expect("the greedy one waits").flow as usize;
        served[number] += 1;
        due[number] = Some(if number == 0 { tick + 1 } else { tick + rtt });
    }
    served
}

/// All consumers behind one face, and each behind its own.
const FACES: [fn(usize) -> u32; 2] = [|_| 0, |number| number as u32];

#[test]
fn consumer_with_one_interest_at_a_time_keeps_its_share() {
    for of in FACES {
        // A quantum is 1.1 Data, so a queue that is never empty has two in every eighth turn.
        let served = served_of(1, 1, of);
        assert!(served.iter().all(|n| (470..=530).contains(n)), "{served:?}");
        // One that comes back after its turn: a round of five takes five ticks.
        let served = served_of(4, 6, of);
        assert!(served[1..].iter().all(|n| (140..=167).contains(n)), "{served:?}");
    }
}

#[test]
fn consumers_that_return_leave_others_their_share() {
    for rtt in [1, 2, 5, 10, 19, 20, 21, 40] {
        for of in FACES {
            let served = served_of(19, rtt, of);
            assert!(served[0] >= 47, "{rtt} ticks: {served:?}");
        }
    }
}

/// Each Interest of an attacker has a new source address, and so a new face.
#[test]
fn faces_that_were_never_served_do_not_go_ahead() {
    let mut queues = FlowQueues::new(9);
    (0..20).for_each(|n| assert!(queues.push(face(0), waiting(0, n), COST, false)));
    let mut own = 0;
    for tick in 0..100 {
        let number = 1 + tick as u32;
        assert!(queues.push(face(number), waiting(1, 1000 + tick), COST, false));
        own += u64::from(queues.pop().is_some_and(|interest| interest.flow == 0));
    }
    // Each round is one Interest longer than the last.
    assert!((10..=14).contains(&own), "{own}");
}

/// The first Interest of a flow measures the path for its consumer.
#[test]
fn new_flows_go_ahead_in_every_second_turn() {
    let mut queues = FlowQueues::new(9);
    let push = |queues: &mut FlowQueues, flow, number, is_new| {
        assert!(queues.push(face(0), waiting(flow, number), COST, is_new));
    };
    (0..4).for_each(|n| push(&mut queues, 0, n, false));
    (1..=6).for_each(|flow| push(&mut queues, flow, 100 * flow, true));
    let order: Vec<u64> = core::iter::from_fn(|| queues.pop()).map(|i| i.flow).collect();
    assert_eq!(order, [1, 0, 2, 0, 3, 0, 4, 0, 5, 6]);
}

/// A face pays for the Interest that is sent, not for the next one of another flow.
#[test]
fn face_pays_the_cost_of_the_flow_that_is_served() {
    let mut queues = FlowQueues::new(9);
    for n in 0..10 {
        assert!(queues.push(face(0), waiting(0, n), 5000.0, false));
        assert!(queues.push(face(0), waiting(1000 + n, 1000 + n), 100.0, true));
        assert!(queues.push(face(1), waiting(1, 2000 + n), 9000.0, false));
    }
    // A turn of 9000 bytes: 100, 5000 and 100, but not 5000 more.
    let order: Vec<u64> = (0..4).filter_map(|_| queues.pop()).map(|i| i.flow).collect();
    assert_eq!(order, [1000, 0, 1001, 1]);
}

#[test]
fn interest_waits_for_its_turns_only() {
    let mut queues = FlowQueues::new(9);
    let before =
        |queues: &FlowQueues, number, flow| queues.bytes_before(face(number), flow, COST) / COST;
    assert_eq!(before(&queues, 0, 0), 1.0);
    (0..3).for_each(|n| assert!(queues.push(face(0), waiting(0, n), COST, false)));
    assert_eq!(before(&queues, 0, 0), 4.0, "behind its own flow");
    assert_eq!(before(&queues, 0, 7), 2.0, "one turn of the other flow");
    assert_eq!(before(&queues, 1, 1), 2.0, "one turn of the other face");
    assert!(queues.push(face(1), waiting(1, 10), COST, false));
    assert_eq!(before(&queues, 0, 0), 5.0, "and the only one of the other face");
    assert_eq!(before(&queues, 2, 2), 3.0);
    assert!(queues.pop().is_some_and(|interest| interest.flow == 0));
    assert_eq!(before(&queues, 0, 0), 4.0);
    assert!(queues.pop().is_some_and(|interest| interest.flow == 1));
    assert_eq!(before(&queues, 2, 2), 2.0, "the face without Interests has no turn");
    (0..2).for_each(|_| assert!(queues.pop().is_some()));
    assert!(queues.is_empty() && queues.pop().is_none());
}

/// Faces whose turn has passed are remembered, the last 256 of them.
#[test]
fn face_that_passed_long_ago_does_not_go_ahead() {
    for (others, first) in [(255, 0), (256, 1)] {
        let mut queues = FlowQueues::new(9);
        for number in 0..=others {
            assert!(queues.push(face(number), waiting(2, u64::from(number)), COST, false));
            assert!(queues.pop().is_some() && queues.pop().is_none());
        }
        (0..20).for_each(|n| assert!(queues.push(face(500), waiting(1, 500 + n), COST, false)));
        assert!(queues.push(face(0), waiting(0, 1000), COST, false));
        assert_eq!(queues.pop().map(|interest| interest.flow), Some(first), "{others} since");
    }
}

#[test]
fn full_queue_by_bytes_takes_no_more() {
    let mut queues = FlowQueues::new(9);
    let of_len = |number, len| {
        let bytes = vec![0; len].into_boxed_slice();
        WaitingInterest { bytes, ..waiting(0, number) }
    };
    assert!(queues.push(face(0), of_len(0, QUEUE_BYTES_MAX - 100), COST, false));
    assert!(!queues.push(face(0), of_len(1, 101), COST, false));
    assert!(queues.push(face(0), of_len(2, 100), COST, false));
    assert!(!queues.push(face(0), of_len(3, 1), COST, false));
    // A retransmission takes the place of the one that waits, and each that is sent leaves its own.
    assert!(queues.push(face(0), of_len(0, 100), COST, false));
    assert!(queues.push(face(0), of_len(4, QUEUE_BYTES_MAX - 200), COST, false));
    assert!(!queues.push(face(0), of_len(5, 1), COST, false));
    assert!(queues.pop().is_some());
    assert!(queues.push(face(0), of_len(6, 100), COST, false));
    assert!(!queues.push(face(0), of_len(7, 1), COST, false));
}
