//! Fetching a segmented object: which segment to ask for when. Pure: time is passed in, packets are the caller's.
//!
//! Keeps one small record per segment between the oldest outstanding one and the newest asked for, so its memory follows the window, not
//! the object.

use crate::rtt::RttEstimator;
use crate::window::CubicWindow;
use core::time::Duration;
use nw_element_api::Instant;
use nw_wire::NackReason;
use std::collections::VecDeque;

/// How long a fetch goes on without anything new, unless said otherwise.
pub const PATIENCE_DEFAULT: Duration = Duration::from_secs(60);
/// How long it goes on when there is no route, unless said otherwise: applications are back within 2 s of a router's restart.
pub const NO_ROUTE_PATIENCE_DEFAULT: Duration = Duration::from_secs(4);
/// No object has so many segments: with segments of 8 kB that is 8 exabytes.
const SEGMENTS_MAX: u64 = 1 << 50;
/// Copies of one segment that are refused before the fetch ends.
pub const COPIES_MAX: u32 = 4;

/// How to fetch.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Interests on their way at the start.
    pub window_initial: usize,
    /// Most Interests on their way.
    pub window_max: usize,
    /// Times one segment is sent again before giving up; refusals by Nack are not counted. 0 sends each once and waits `rto_max` for it: as
    /// sending again is no cure, nothing is taken for lost earlier.
    pub retries_max: u32,
    /// The fetch ends when no new segment has come for so long.
    pub patience: Duration,
    /// The same, while nothing has come yet and the network says that it has no route: one may be about to appear.
    pub no_route_patience: Duration,
    /// Bounds of the retransmission time-out.
    pub rto_min: Duration,
    /// See [`rto_min`](Self::rto_min).
    pub rto_max: Duration,
}

impl Default for FetchOptions {
    fn default() -> Self {
        FetchOptions {
            window_initial: 8,
            window_max: 256,
            retries_max: 15,
            patience: PATIENCE_DEFAULT,
            no_route_patience: NO_ROUTE_PATIENCE_DEFAULT,
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(8),
        }
    }
}

/// Why an object can't be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// Nobody answered.
    #[error("segment {segment} was asked for {tries} times without an answer")]
    NoAnswer {
        /// Which.
        segment: u64,
        /// How often.
        tries: u32,
    },
    /// The network refused.
    #[error("segment {segment} was refused with Nack({}) {tries} times", reason.as_str())]
    Refused {
        /// Which.
        segment: u64,
        /// How often.
        tries: u32,
        /// Why.
        reason: NackReason,
    },
    /// The producer, or several copies, contradict each other.
    #[error("segment {segment} says that {last} is the last one, but {reason}")]
    FinalBlock {
        /// Which.
        segment: u64,
        /// Its FinalBlockId.
        last: u64,
        /// What it contradicts.
        reason: FinalBlockFault,
    },
}

/// Why a FinalBlockId is not believed. One version of an object does not change, so its end does not either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FinalBlockFault {
    /// A segment behind it has come.
    #[error("segment {0} has come already")]
    BelowReceived(u64),
    /// An earlier one was greater.
    #[error("an earlier segment said that {0} is: the object was truncated or mixed with another one")]
    Shrank(u64),
    /// It grew too much at once, or is beyond what any object has.
    #[error("no object can be that large")]
    Absurd,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchCounters {
    /// Interests sent, retransmissions included.
    pub interests: u64,
    /// Interests sent again.
    pub retransmissions: u64,
    /// Data that carried a congestion mark.
    pub marks: u64,
    /// Nacks received.
    pub nacks: u64,
    /// Data for segments had already.
    pub duplicates: u64,
    /// Data that did not pass verification.
    pub invalid: u64,
}

/// What an answer meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A segment we did not have, and how long it took, if it was asked for once.
    New(Option<Duration>),
    /// One that we had, or never asked for.
    Known,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    done: bool,
    tries: u32,
    /// Transmissions that were refused by a Nack.
    refusals: u32,
    /// Copies that did not pass verification.
    invalid: u32,
    sent: Instant,
    /// Waits to be sent again, not before this moment.
    again_at: Option<Instant>,
    refused: Option<NackReason>,
}

/// State of one fetch.
#[derive(Debug)]
pub struct Fetcher {
    options: FetchOptions,
    rtt: RttEstimator,
    window: CubicWindow,
    /// Segments from `base` on; all before are done.
    segments: VecDeque<Segment>,
    base: u64,
    /// One past the last segment, once known.
    end: Option<u64>,
    outstanding: usize,
    /// Transmissions in the order they were made: segment and moment. A stale one (answered or sent again) is skipped.
    sent: VecDeque<(u64, Instant)>,
    /// Segments to ask for again.
    again: VecDeque<u64>,
    /// One of them may go though the window is full: a time-out says that what fills it may be lost as well, and only an answer can tell.
    probe: bool,
    /// When the newest answered transmission was made.
    newest_answered: Instant,
    /// The greatest segment that has come.
    received_max: Option<u64>,
    /// When a new segment came last, or the fetch began or began anew.
    progress_at: Option<Instant>,
    failure: Option<FetchError>,
    counters: FetchCounters,
}

impl Fetcher {
    /// From segment 0 on.
    pub fn new(options: FetchOptions) -> Self {
        Fetcher {
            rtt: RttEstimator::new(options.rto_min, options.rto_max),
            window: CubicWindow::new(options.window_initial, options.window_max),
            segments: VecDeque::new(),
            base: 0,
            end: None,
            outstanding: 0,
            sent: VecDeque::new(),
            again: VecDeque::new(),
            probe: false,
            newest_answered: Instant::START,
            received_max: None,
            progress_at: None,
            failure: None,
            counters: FetchCounters::default(),
            options,
        }
    }

    /// The next segment to ask for now, if any; the caller sends the Interest. Call until `None`.
    ///
    /// # Errors
    /// When a segment was asked for too often.
    pub fn next_request(&mut self, now: Instant) -> Result<Option<u64>, FetchError> {
        self.expire(now);
        self.progress_at.get_or_insert(now);
        self.check_patience(now);
        if let Some(error) = self.failure {
            return Err(error);
        }
        let is_full = self.outstanding >= self.window.packets();
        if is_full && !core::mem::take(&mut self.probe) {
            return Ok(None);
        }
        for _ in 0..self.again.len() {
            let segment = self.again.pop_front().expect("counted");
            let Some(state) = self.state(segment).filter(|s| !s.done) else { continue };
            let Some(at) = state.again_at else { continue };
            if at > now {
                self.again.push_back(segment);
                continue;
            }
            if state.tries - state.refusals - state.invalid > self.options.retries_max {
                return Err(failure_of(segment, state));
            }
            self.counters.retransmissions += 1;
            self.transmit(now, segment);
            return Ok(Some(segment));
        }
        let segment = self.base + self.segments.len() as u64;
        // What was refused keeps its place in the window: new segments in its stead would meet the same, without any back-off.
        if is_full || self.outstanding + self.again.len() >= self.window.packets() {
            return Ok(None);
        }
        // A segment ahead of a hole waits in the caller's reorder buffer: bounded by the window's maximum.
        if self.end.is_some_and(|end| segment >= end) || self.segments.len() >= 2 * self.options.window_max {
            return Ok(None);
        }
        self.segments.push_back(Segment {
            done: false,
            tries: 0,
            refusals: 0,
            invalid: 0,
            sent: now,
            again_at: None,
            refused: None,
        });
        self.transmit(now, segment);
        Ok(Some(segment))
    }

    fn transmit(&mut self, now: Instant, segment: u64) {
        self.outstanding += 1;
        self.counters.interests += 1;
        self.sent.push_back((segment, now));
        let index = (segment - self.base) as usize;
        let state = &mut self.segments[index];
        state.tries += 1;
        state.sent = now;
        state.again_at = None;
    }

    /// A Data for `segment` came. `final_segment` is what its FinalBlockId says; `marked` that it carried a congestion mark.
    pub fn on_data(
        &mut self,
        now: Instant,
        segment: u64,
        final_segment: Option<u64>,
        marked: bool,
    ) -> Answer {
        if let Some(last) = final_segment
            && let Err(reason) = self.set_final(segment, last)
        {
            self.failure = self.failure.or(Some(FetchError::FinalBlock { segment, last, reason }));
            return Answer::Known;
        }
        let Some(state) = self.state(segment).copied().filter(|s| !s.done) else {
            self.counters.duplicates += 1;
            return Answer::Known;
        };
        if state.again_at.is_none() {
            self.outstanding -= 1;
        }
        self.progress_at = Some(now);
        self.received_max = self.received_max.max(Some(segment));
        let index = (segment - self.base) as usize;
        self.segments[index].done = true;
        while self.segments.front().is_some_and(|s| s.done) {
            self.segments.pop_front();
            self.base += 1;
        }
        let rtt = (state.tries == 1).then(|| now.since(state.sent));
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt);
        }
        // Whether this answers the first or the last transmission can't be told. After a time-out it is most likely the last: then all of the
        // same burst are lost, and each would wait for a time-out of its own, twice as long as the one before.
        self.newest_answered = self.newest_answered.max(state.sent);
        if marked {
            self.counters.marks += 1;
            self.window.on_congestion(now, state.sent);
        } else {
            self.window.on_answer(now, self.rtt.smoothed().unwrap_or_default());
        }
        Answer::New(rtt)
    }

    /// A Nack for `segment` came.
    pub fn on_nack(&mut self, now: Instant, segment: u64, reason: NackReason) {
        self.counters.nacks += 1;
        let Some(state) = self.state(segment).copied().filter(|s| !s.done && s.again_at.is_none()) else {
            return;
        };
        if reason == NackReason::Congestion {
            self.window.on_congestion(now, state.sent);
        }
        let index = (segment - self.base) as usize;
        self.segments[index].refusals += 1;
        self.segments[index].refused = Some(reason);
        self.send_later(segment, now + nack_pause(reason, state.refusals));
    }

    /// A Nack for `segment` carried a congestion mark, whatever its reason. Call it before [`on_nack`](Self::on_nack).
    pub fn on_marked_nack(&mut self, now: Instant, segment: u64) {
        self.counters.marks += 1;
        if let Some(sent) = self.state(segment).map(|state| state.sent) {
            self.window.on_congestion(now, sent);
        }
    }

    /// A Data for `segment` did not pass verification: a better copy may be had. False when there were too many of them.
    pub fn on_invalid(&mut self, now: Instant, segment: u64) -> bool {
        self.counters.invalid += 1;
        let Some(state) = self.state(segment).copied().filter(|s| !s.done && s.again_at.is_none()) else {
            return true;
        };
        let index = (segment - self.base) as usize;
        self.segments[index].invalid += 1;
        self.send_later(segment, now + Duration::from_millis(50) * (1 << state.invalid.min(4)));
        state.invalid + 1 < COPIES_MAX
    }

    /// True when a Data for `segment` would be new.
    pub fn is_wanted(&self, segment: u64) -> bool {
        self.state(segment).is_some_and(|state| !state.done)
    }

    /// The connection was lost and made again: all that was on its way is lost. What came stays.
    pub fn on_reconnect(&mut self, now: Instant) {
        self.window.on_congestion(now, now);
        self.sent.clear();
        self.outstanding = 0;
        self.progress_at = Some(now);
        self.again.clear();
        for (at, segment) in self.segments.iter_mut().enumerate().filter(|(_, segment)| !segment.done) {
            segment.again_at = Some(now);
            segment.refused = None;
            // What the connection lost is no fault of the producer or of the network.
            segment.refusals = segment.tries - segment.invalid;
            self.again.push_back(self.base + at as u64);
        }
    }

    fn send_later(&mut self, segment: u64, at: Instant) {
        self.outstanding -= 1;
        let index = (segment - self.base) as usize;
        self.segments[index].again_at = Some(at);
        self.again.push_back(segment);
    }

    fn check_patience(&mut self, now: Instant) {
        let Some(oldest) = self.segments.front().filter(|_| self.deadline_of_patience() <= now) else {
            return;
        };
        self.failure = self.failure.or(Some(failure_of(self.base, oldest)));
    }

    fn deadline_of_patience(&self) -> Instant {
        let no_route = self.segments.front().is_some_and(|s| s.refused == Some(NackReason::NoRoute));
        let patience = match self.received_max {
            None if no_route => self.options.no_route_patience.min(self.options.patience),
            _ => self.options.patience,
        };
        self.progress_at.unwrap_or(Instant::START) + patience
    }

    /// Looks for transmissions that will not be answered any more.
    fn expire(&mut self, now: Instant) {
        let rto = self.patience();
        // An answer to something sent that much later means this one is lost, too. Links that repair their losses themselves (NDNLPv2 reliability)
        // need two round trips for it, and are not to be taken for lost meanwhile.
        let overtaken = self.rtt.smoothed().map(|rtt| rtt * 3 + Duration::from_millis(5));
        let overtaken = overtaken.filter(|_| self.options.retries_max > 0);
        while let Some(&(segment, sent)) = self.sent.front() {
            let stale = self.state(segment).is_none_or(|s| s.done || s.again_at.is_some() || s.sent != sent);
            if stale {
                self.sent.pop_front();
                continue;
            }
            let timed_out = now.since(sent) >= rto;
            let lost = overtaken.is_some_and(|late| self.newest_answered.since(sent) > late);
            if !timed_out && !lost {
                break;
            }
            self.sent.pop_front();
            if timed_out {
                self.rtt.back_off();
                self.probe = true;
            }
            self.window.on_congestion(now, sent);
            self.outstanding -= 1;
            let index = (segment - self.base) as usize;
            self.segments[index].again_at = Some(now);
            self.again.push_back(segment);
            if timed_out {
                // The doubled time-out is what the next one is held against.
                break;
            }
        }
    }

    /// For an answer.
    fn patience(&self) -> Duration {
        if self.options.retries_max == 0 { self.options.rto_max } else { self.rtt.rto() }
    }

    fn state(&self, segment: u64) -> Option<&Segment> {
        self.segments.get(usize::try_from(segment.checked_sub(self.base)?).ok()?)
    }

    fn set_final(&mut self, segment: u64, last: u64) -> Result<(), FinalBlockFault> {
        let end = last.saturating_add(1);
        if self.end == Some(end) {
            return Ok(());
        }
        let received = self.received_max.max(Some(segment)).unwrap_or(segment);
        match self.end {
            _ if last < received => return Err(FinalBlockFault::BelowReceived(received)),
            Some(before) if end < before => return Err(FinalBlockFault::Shrank(before - 1)),
            // An object that is still being written may grow, as it is written: not by more than it has.
            Some(before) if end > before.saturating_mul(2).saturating_add(1024) => {
                return Err(FinalBlockFault::Absurd);
            }
            _ if end > SEGMENTS_MAX => return Err(FinalBlockFault::Absurd),
            _ => self.end = Some(end),
        }
        while self.base + self.segments.len() as u64 > end {
            match self.segments.pop_back() {
                Some(segment) if !segment.done && segment.again_at.is_none() => self.outstanding -= 1,
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }

    /// Why the fetch can't go on; [`next_request`](Self::next_request) says it as well.
    pub const fn failure(&self) -> Option<FetchError> {
        self.failure
    }

    /// True when every segment has come.
    pub fn is_done(&self) -> bool {
        self.failure.is_none() && self.end.is_some_and(|end| self.base >= end)
    }

    /// When to call [`next_request`](Self::next_request) again though nothing came.
    pub fn deadline(&self) -> Option<Instant> {
        let time_out = self.sent.front().map(|(_, sent)| *sent + self.patience());
        // What waits for room in the window is woken by an answer or a time-out, not by the clock.
        let room = self.outstanding < self.window.packets();
        let again =
            self.again.iter().filter(|_| room).filter_map(|segment| self.state(*segment)?.again_at).min();
        let patience = self.progress_at.filter(|_| !self.is_done()).map(|_| self.deadline_of_patience());
        [time_out, again, patience].into_iter().flatten().min()
    }

    /// Number of segments, once a FinalBlockId told it.
    pub const fn segments_total(&self) -> Option<u64> {
        self.end
    }

    /// Segments before this one have all come.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// What happened so far.
    pub const fn counters(&self) -> FetchCounters {
        self.counters
    }

    /// Interests that may be on their way.
    pub fn window_packets(&self) -> usize {
        self.window.packets()
    }

    /// Smoothed round-trip time.
    pub const fn rtt_smoothed(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }
}

fn failure_of(segment: u64, state: &Segment) -> FetchError {
    let tries = state.tries;
    match state.refused {
        Some(reason) => FetchError::Refused { segment, tries, reason },
        None => FetchError::NoAnswer { segment, tries },
    }
}

/// How long to wait before sending again what was refused `before` times already.
fn nack_pause(reason: NackReason, before: u32) -> Duration {
    match reason {
        // A duplicate nonce is cured by another nonce at once.
        NackReason::Duplicate if before == 0 => Duration::ZERO,
        _ => Duration::from_millis(20 << before.min(6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A producer behind a link with delay, loss, reordering, marks and Nacks, in virtual time. Returns the time it took.
    fn run(segments: u64, seed: u64, loss_percent: u64, nack_percent: u64) -> Result<Instant, FetchError> {
        let mut random = seed | 1;
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let mut fetcher = Fetcher::new(FetchOptions::default());
        let (mut now, mut order) = (Instant::from_millis(1), 0u64);
        let mut on_way: BTreeMap<(Instant, u64), (u64, bool)> = BTreeMap::new();
        let mut got = vec![false; segments as usize];
        while !fetcher.is_done() {
            while let Some(segment) = fetcher.next_request(now)? {
                let roll = next() % 100;
                if roll < loss_percent || segment >= segments {
                    continue;
                }
                order += 1;
                let arrival = now + Duration::from_micros(5_000 + next() % 3_000);
                on_way.insert((arrival, order), (segment, roll < loss_percent + nack_percent));
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
                } else if let Answer::New(_) =
                    fetcher.on_data(now, segment, Some(segments - 1), next() % 50 == 0)
                {
                    assert!(!std::mem::replace(&mut got[segment as usize], true));
                }
            }
        }
        assert!(got.iter().all(|g| *g));
        Ok(now)
    }

    #[test]
    fn a_silent_producer_is_an_error() {
        assert!(matches!(run(10, 3, 100, 0), Err(FetchError::NoAnswer { segment: 0, tries: 8.. })));
        assert!(matches!(
            run(10, 3, 0, 100),
            Err(FetchError::Refused { reason: NackReason::Congestion, .. })
        ));
    }

    /// Sends until nothing is to be sent now.
    fn send_all(fetcher: &mut Fetcher, now: Instant) -> Result<Vec<u64>, FetchError> {
        let mut sent = Vec::new();
        while let Some(segment) = fetcher.next_request(now)? {
            sent.push(segment);
        }
        Ok(sent)
    }

    #[test]
    fn congestion_nacks_slow_a_fetch_and_do_not_end_it() {
        let mut fetcher = Fetcher::new(FetchOptions { retries_max: 3, ..FetchOptions::default() });
        let (mut now, mut sent) = (Instant::from_millis(1), 0);
        let end = now + Duration::from_secs(50);
        while now < end {
            for segment in send_all(&mut fetcher, now).unwrap() {
                sent += 1;
                fetcher.on_nack(now, segment, NackReason::Congestion);
            }
            now = fetcher.deadline().unwrap().max(now + Duration::from_millis(1));
        }
        assert!(sent < 1000, "{sent} Interests in 50 s are no back-off");
        for segment in 0..8 {
            fetcher.on_data(now, segment, Some(7), false);
        }
        assert!(fetcher.is_done());
    }

    #[test]
    fn no_route_ends_a_fetch_soon_at_its_beginning_and_late_in_its_middle() {
        for (first_comes, expected) in [(false, NO_ROUTE_PATIENCE_DEFAULT), (true, PATIENCE_DEFAULT)] {
            let mut fetcher = Fetcher::new(FetchOptions::default());
            let start = Instant::from_millis(1);
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
    fn contradicting_final_blocks_are_errors() {
        let start = Instant::from_millis(1);
        let told = |said: &[(u64, u64)]| {
            let mut fetcher = Fetcher::new(FetchOptions::default());
            send_all(&mut fetcher, start).unwrap();
            for (segment, last) in said {
                fetcher.on_data(start, *segment, Some(*last), false);
            }
            assert!(!fetcher.is_done());
            send_all(&mut fetcher, start).err()
        };
        let fault = |said: &[(u64, u64)]| match told(said) {
            Some(FetchError::FinalBlock { reason, .. }) => Some(reason),
            None => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(fault(&[(0, 99), (3, 99)]), None);
        assert_eq!(fault(&[(0, 99), (3, 150)]), None, "an object that grows");
        assert_eq!(fault(&[(0, 99), (3, 3)]), Some(FinalBlockFault::Shrank(99)));
        assert_eq!(fault(&[(5, 99), (3, 4)]), Some(FinalBlockFault::BelowReceived(5)));
        assert_eq!(fault(&[(5, 2)]), Some(FinalBlockFault::BelowReceived(5)));
        assert_eq!(fault(&[(0, u64::MAX)]), Some(FinalBlockFault::Absurd));
        assert_eq!(fault(&[(0, 9), (1, 1 << 40)]), Some(FinalBlockFault::Absurd));
    }

    #[test]
    fn invalid_copies_are_asked_for_again_a_bounded_number_of_times() {
        let mut fetcher = Fetcher::new(FetchOptions::default());
        let mut now = Instant::from_millis(1);
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
    fn a_new_connection_asks_again_only_for_what_did_not_come() {
        let mut fetcher = Fetcher::new(FetchOptions::default());
        let start = Instant::from_millis(1);
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
    fn loss_costs_less_than_a_time_out_each() {
        // 2000 segments, 1 % lost: time-outs of 200 ms alone would take 4 s.
        let took = run(2000, 7, 1, 0).unwrap();
        assert!(took < Instant::from_millis(3_000), "{took:?}");
    }

    /// Without retransmission lateness is no loss, and a loss is the end.
    #[test]
    fn who_never_asks_again_waits() {
        let options = FetchOptions { retries_max: 0, ..FetchOptions::default() };
        let mut fetcher = Fetcher::new(options.clone());
        let start = Instant::from_millis(1);
        while fetcher.next_request(start).unwrap().is_some() {}
        // All but the first come at once, and what follows them; the first takes five seconds.
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

    /// When the next segment arrives, or the fetcher has something to do.
    fn next_event(fetcher: &Fetcher, on_way: &VecDeque<(Instant, u64)>, now: Instant) -> Instant {
        let deadline = fetcher.deadline().map(|due| due.max(now + Duration::from_micros(1)));
        let arrival = on_way.front().map(|(at, _)| *at);
        arrival.into_iter().chain(deadline).min().expect("something is to come")
    }

    /// All that is on the way is lost, and all that is sent for a second, as when a router on the way breaks down and another takes its place.
    #[test]
    fn a_second_of_silence_costs_less_than_two() {
        const SEGMENTS: u64 = 20_000;
        let mut fetcher = Fetcher::new(FetchOptions { window_max: 64, ..FetchOptions::default() });
        let dark = Instant::from_millis(500)..Instant::from_millis(1500);
        let (mut now, mut on_way) = (Instant::from_millis(1), VecDeque::new());
        let (mut heard, mut longest) = (now, Duration::ZERO);
        while !fetcher.is_done() {
            while let Some(segment) = fetcher.next_request(now).unwrap() {
                if !dark.contains(&now) && segment < SEGMENTS {
                    on_way.push_back((now + Duration::from_millis(5), segment));
                }
            }
            now = next_event(&fetcher, &on_way, now);
            while let Some((_, segment)) = on_way.pop_front_if(|(at, _)| *at <= now) {
                if !dark.contains(&now) {
                    longest = longest.max(now.since(heard));
                    heard = now;
                    fetcher.on_data(now, segment, Some(SEGMENTS - 1), false);
                }
            }
        }
        assert!(longest < Duration::from_secs(2), "{longest:?}");
        assert!(fetcher.counters().retransmissions < 200, "{:?}", fetcher.counters());
    }

    /// A first try of each of the last 40 segments is lost, and nothing new follows that would tell.
    #[test]
    fn a_lost_end_costs_one_time_out_not_one_each() {
        const SEGMENTS: u64 = 200;
        let mut fetcher = Fetcher::new(FetchOptions::default());
        let (mut now, mut on_way) = (Instant::from_millis(1), VecDeque::new());
        let mut seen = vec![false; SEGMENTS as usize];
        while !fetcher.is_done() {
            while let Some(segment) = fetcher.next_request(now).unwrap() {
                let first = segment >= SEGMENTS || !std::mem::replace(&mut seen[segment as usize], true);
                if segment < SEGMENTS && !(first && segment >= SEGMENTS - 40) {
                    on_way.push_back((now + Duration::from_millis(5), segment));
                }
            }
            now = next_event(&fetcher, &on_way, now);
            while let Some((_, segment)) = on_way.pop_front_if(|(at, _)| *at <= now) {
                fetcher.on_data(now, segment, Some(SEGMENTS - 1), false);
            }
        }
        assert!(now < Instant::from_millis(1000), "{now:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_segment_comes_once(segments in 1u64..400, seed: u64, loss in 0u64..25, nacks in 0u64..15) {
            prop_assert!(run(segments, seed, loss, nacks).is_ok());
        }
    }
}
