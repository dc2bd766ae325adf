//! State machine for fetching a segmented object: decides which segment to request when. Pure: the
//! caller passes the time in and handles the packets.
//!
//! It keeps one small record per segment between the oldest outstanding and the newest requested
//! one, so its memory follows the window, not the object.

use crate::rtt::RttEstimator;
use crate::window::CubicWindow;
use core::time::Duration;
use nw_element_api::Timestamp;
use nw_wire::NackReason;
use std::collections::VecDeque;

/// Default time without a new segment after which a fetch fails.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// Default time with NoRoute Nacks after which a fetch fails: applications reconnect within 2 s of
/// a router's restart.
pub const NO_ROUTE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(4);
/// Maximum number of segments: 8 exabytes with segments of 8 kB.
const SEGMENTS_MAX: u64 = 1 << 50;
/// Rejected copies of one segment after which the fetch fails.
pub const COPIES_MAX: u32 = 4;

/// Options of a fetch.
#[derive(Clone, Debug)]
pub struct FetchOptions {
    /// Initial window, Interests.
    pub window_initial: usize,
    /// Maximum window, Interests.
    pub window_max: usize,
    /// Maximum retransmissions of one segment, not counting those after Nacks. 0: each Interest is
    /// sent once and awaited for `rto_max`, without earlier loss detection.
    pub retries_max: u32,
    /// The fetch fails after this time without a new segment.
    pub timeout: Duration,
    /// The same, while nothing was received yet and the network replies with NoRoute: a route may
    /// be about to appear.
    pub no_route_timeout: Duration,
    /// Minimum retransmission timeout.
    pub rto_min: Duration,
    /// Maximum retransmission timeout.
    pub rto_max: Duration,
}

impl Default for FetchOptions {
    fn default() -> Self {
        FetchOptions {
            window_initial: 8,
            window_max: 256,
            retries_max: 15,
            timeout: TIMEOUT_DEFAULT,
            no_route_timeout: NO_ROUTE_TIMEOUT_DEFAULT,
            rto_min: Duration::from_millis(200),
            rto_max: Duration::from_secs(8),
        }
    }
}

/// Reasons why an object can't be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// No reply to a segment.
    #[error("no answer for segment {segment} after {tries} Interests")]
    NoAnswer {
        /// The segment.
        segment: u64,
        /// Interests sent.
        tries: u32,
    },
    /// A segment was answered by Nacks.
    #[error("segment {segment} was refused with Nack({}) {tries} times", reason.as_str())]
    Refused {
        /// The segment.
        segment: u64,
        /// Interests sent.
        tries: u32,
        /// Nack reason.
        reason: NackReason,
    },
    /// Inconsistent FinalBlockIds.
    #[error("segment {segment} gives {last} as the last segment, but {reason}")]
    FinalBlock {
        /// The segment.
        segment: u64,
        /// Its FinalBlockId.
        last: u64,
        /// The contradiction.
        reason: FinalBlockFault,
    },
}

/// Why a FinalBlockId is rejected. One version of an object does not change, so neither does its
/// end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FinalBlockFault {
    /// A later segment was already received.
    #[error("segment {0} was already received")]
    BelowReceived(u64),
    /// An earlier FinalBlockId was greater.
    #[error("an earlier segment gave {0}: the object was truncated or mixed with another one")]
    Shrank(u64),
    /// It grew too much at once, or exceeds the maximum.
    #[error("no object can be that large")]
    TooLarge,
}

/// Counters of a fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchCounters {
    /// Interests sent, including retransmissions.
    pub interests: u64,
    /// Retransmissions.
    pub retransmissions: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// Nacks received.
    pub nacks: u64,
    /// Data for segments that were already received.
    pub duplicates: u64,
    /// Data that did not pass verification.
    pub invalid: u64,
}

/// The effect of a Data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataOutcome {
    /// A new segment; with its round-trip time if it was requested once.
    New(Option<Duration>),
    /// A segment that was already received or never requested.
    Duplicate,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    is_received: bool,
    tries: u32,
    /// Transmissions answered by a Nack.
    nacks: u32,
    /// Copies that did not pass verification.
    invalid_copies: u32,
    sent_at: Timestamp,
    /// Time of the next transmission, if it waits for one.
    retry_at: Option<Timestamp>,
    last_nack: Option<NackReason>,
}

/// State of one fetch.
#[derive(Debug)]
pub struct Fetcher {
    options: FetchOptions,
    rtt: RttEstimator,
    window: CubicWindow,
    /// Segments from `base` on; all earlier ones are complete.
    segments: VecDeque<Segment>,
    /// First segment that is not complete.
    base: u64,
    /// Number of segments, once known.
    segment_count: Option<u64>,
    /// Interests sent and not answered, lost or timed out.
    outstanding: usize,
    /// Transmissions, in order: segment and time. Entries of segments that were received or sent
    /// again are skipped.
    transmissions: VecDeque<(u64, Timestamp)>,
    /// Segments to request again.
    retry_queue: VecDeque<u64>,
    /// Allows one retransmission although the window is full: after a timeout the other outstanding
    /// Interests may be lost as well, and only a reply shows which.
    may_probe: bool,
    /// Time of the newest transmission that was answered.
    newest_answered: Timestamp,
    /// Greatest segment received.
    received_max: Option<u64>,
    /// Time of the last new segment, or when the fetch began or reconnected.
    progress_at: Option<Timestamp>,
    failure: Option<FetchError>,
    counters: FetchCounters,
}

impl Fetcher {
    /// Creates a fetch from segment 0 on.
    pub fn new(options: FetchOptions) -> Self {
        Fetcher {
            rtt: RttEstimator::new(options.rto_min, options.rto_max),
            window: CubicWindow::new(options.window_initial, options.window_max),
            segments: VecDeque::new(),
            base: 0,
            segment_count: None,
            outstanding: 0,
            transmissions: VecDeque::new(),
            retry_queue: VecDeque::new(),
            may_probe: false,
            newest_answered: Timestamp::START,
            received_max: None,
            progress_at: None,
            failure: None,
            counters: FetchCounters::default(),
            options,
        }
    }

    /// Returns the next segment to request now, if any; the caller sends the Interest. Call it
    /// until it returns `None`.
    ///
    /// # Errors
    /// If the fetch has failed.
    pub fn next_request(&mut self, now: Timestamp) -> Result<Option<u64>, FetchError> {
        self.expire(now);
        self.progress_at.get_or_insert(now);
        self.check_timeout(now);
        if let Some(error) = self.failure {
            return Err(error);
        }
        let is_full = self.outstanding >= self.window.packets();
        if is_full && !core::mem::take(&mut self.may_probe) {
            return Ok(None);
        }
        for _ in 0..self.retry_queue.len() {
            let segment = self.retry_queue.pop_front().expect("counted");
            let Some(state) = self.state(segment).filter(|s| !s.is_received) else { continue };
            let Some(at) = state.retry_at else { continue };
            if at > now {
                self.retry_queue.push_back(segment);
                continue;
            }
            if state.tries - state.nacks - state.invalid_copies > self.options.retries_max {
                return Err(failure_for(segment, state));
            }
            self.counters.retransmissions += 1;
            self.transmit(now, segment);
            return Ok(Some(segment));
        }
        let segment = self.base + self.segments.len() as u64;
        // Segments answered by a Nack keep their place in the window: new segments instead would
        // get the same Nack without any back-off.
        if is_full || self.outstanding + self.retry_queue.len() >= self.window.packets() {
            return Ok(None);
        }
        // Segments after a missing one wait in the caller's reorder buffer: bounded by the maximum
        // window.
        if self.segment_count.is_some_and(|end| segment >= end)
            || self.segments.len() >= 2 * self.options.window_max
        {
            return Ok(None);
        }
        self.segments.push_back(Segment {
            is_received: false,
            tries: 0,
            nacks: 0,
            invalid_copies: 0,
            sent_at: now,
            retry_at: None,
            last_nack: None,
        });
        self.transmit(now, segment);
        Ok(Some(segment))
    }

    fn transmit(&mut self, now: Timestamp, segment: u64) {
        self.outstanding += 1;
        self.counters.interests += 1;
        self.transmissions.push_back((segment, now));
        let index = (segment - self.base) as usize;
        let state = &mut self.segments[index];
        state.tries += 1;
        state.sent_at = now;
        state.retry_at = None;
    }

    /// Handles Data for `segment`. `final_segment` is its FinalBlockId; `is_marked`: it carried a
    /// congestion mark.
    pub fn on_data(
        &mut self,
        now: Timestamp,
        segment: u64,
        final_segment: Option<u64>,
        is_marked: bool,
    ) -> DataOutcome {
        if let Some(last) = final_segment
            && let Err(reason) = self.set_final(segment, last)
        {
            self.failure = self.failure.or(Some(FetchError::FinalBlock { segment, last, reason }));
            return DataOutcome::Duplicate;
        }
        let Some(state) = self.state(segment).copied().filter(|s| !s.is_received) else {
            self.counters.duplicates += 1;
            return DataOutcome::Duplicate;
        };
        if state.retry_at.is_none() {
            self.outstanding -= 1;
        }
        self.progress_at = Some(now);
        self.received_max = self.received_max.max(Some(segment));
        let index = (segment - self.base) as usize;
        self.segments[index].is_received = true;
        while self.segments.front().is_some_and(|s| s.is_received) {
            self.segments.pop_front();
            self.base += 1;
        }
        let rtt = (state.tries == 1).then(|| now.since(state.sent_at));
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt);
        }
        // It is not known which transmission this answers. After a timeout it is most likely the
        // last: then all of the same burst are lost, and waiting for a timeout of each, with
        // back-off, would take long.
        self.newest_answered = self.newest_answered.max(state.sent_at);
        if is_marked {
            self.counters.marks += 1;
            self.window.on_congestion(now, state.sent_at);
        } else {
            self.window.on_reply(now, self.rtt.smoothed().unwrap_or_default());
        }
        DataOutcome::New(rtt)
    }

    /// Handles a Nack for `segment`.
    pub fn on_nack(&mut self, now: Timestamp, segment: u64, reason: NackReason) {
        self.counters.nacks += 1;
        let Some(state) =
            self.state(segment).copied().filter(|s| !s.is_received && s.retry_at.is_none())
        else {
            return;
        };
        if reason == NackReason::Congestion {
            self.window.on_congestion(now, state.sent_at);
        }
        let index = (segment - self.base) as usize;
        self.segments[index].nacks += 1;
        self.segments[index].last_nack = Some(reason);
        self.send_later(segment, now + nack_pause(reason, state.nacks));
    }

    /// Handles the congestion mark of a Nack for `segment`, for any Nack reason. Call it before
    /// [`on_nack`](Self::on_nack).
    pub fn on_marked_nack(&mut self, now: Timestamp, segment: u64) {
        self.counters.marks += 1;
        if let Some(sent) = self.state(segment).map(|state| state.sent_at) {
            self.window.on_congestion(now, sent);
        }
    }

    /// Handles Data for `segment` that did not pass verification: another copy is requested.
    /// Returns false after [`COPIES_MAX`] of them.
    pub fn on_invalid(&mut self, now: Timestamp, segment: u64) -> bool {
        self.counters.invalid += 1;
        let Some(state) =
            self.state(segment).copied().filter(|s| !s.is_received && s.retry_at.is_none())
        else {
            return true;
        };
        let index = (segment - self.base) as usize;
        self.segments[index].invalid_copies += 1;
        self.send_later(
            segment,
            now + Duration::from_millis(50) * (1 << state.invalid_copies.min(4)),
        );
        state.invalid_copies + 1 < COPIES_MAX
    }

    /// Returns whether Data for `segment` would be new.
    pub fn is_wanted(&self, segment: u64) -> bool {
        self.state(segment).is_some_and(|state| !state.is_received)
    }

    /// Handles a reconnect: all outstanding Interests are lost; received segments stay.
    pub fn on_reconnect(&mut self, now: Timestamp) {
        self.window.on_congestion(now, now);
        self.transmissions.clear();
        self.outstanding = 0;
        self.progress_at = Some(now);
        self.retry_queue.clear();
        for (at, segment) in
            self.segments.iter_mut().enumerate().filter(|(_, segment)| !segment.is_received)
        {
            segment.retry_at = Some(now);
            segment.last_nack = None;
            // Losses of the connection do not count as failed transmissions.
            segment.nacks = segment.tries - segment.invalid_copies;
            self.retry_queue.push_back(self.base + at as u64);
        }
    }

    fn send_later(&mut self, segment: u64, at: Timestamp) {
        self.outstanding -= 1;
        let index = (segment - self.base) as usize;
        self.segments[index].retry_at = Some(at);
        self.retry_queue.push_back(segment);
    }

    fn check_timeout(&mut self, now: Timestamp) {
        let Some(oldest) = self.segments.front().filter(|_| self.timeout_deadline() <= now) else {
            return;
        };
        self.failure = self.failure.or(Some(failure_for(self.base, oldest)));
    }

    fn timeout_deadline(&self) -> Timestamp {
        let no_route =
            self.segments.front().is_some_and(|s| s.last_nack == Some(NackReason::NoRoute));
        let timeout = match self.received_max {
            None if no_route => self.options.no_route_timeout.min(self.options.timeout),
            _ => self.options.timeout,
        };
        self.progress_at.unwrap_or(Timestamp::START) + timeout
    }

    /// Finds transmissions that are lost or timed out.
    fn expire(&mut self, now: Timestamp) {
        let rto = self.segment_timeout();
        // A reply to a transmission that was sent this much later shows that this one is lost.
        // Links that repair losses themselves (NDNLPv2 reliability) need two round trips, and must
        // not be treated as lossy meanwhile.
        let loss_threshold = self.rtt.smoothed().map(|rtt| rtt * 3 + Duration::from_millis(5));
        let loss_threshold = loss_threshold.filter(|_| self.options.retries_max > 0);
        while let Some(&(segment, sent)) = self.transmissions.front() {
            let is_stale = self
                .state(segment)
                .is_none_or(|s| s.is_received || s.retry_at.is_some() || s.sent_at != sent);
            if is_stale {
                self.transmissions.pop_front();
                continue;
            }
            let timed_out = now.since(sent) >= rto;
            let lost = loss_threshold.is_some_and(|late| self.newest_answered.since(sent) > late);
            if !timed_out && !lost {
                break;
            }
            self.transmissions.pop_front();
            if timed_out {
                self.rtt.back_off();
                self.may_probe = true;
            }
            self.window.on_congestion(now, sent);
            self.outstanding -= 1;
            let index = (segment - self.base) as usize;
            self.segments[index].retry_at = Some(now);
            self.retry_queue.push_back(segment);
            if timed_out {
                // The doubled timeout applies to the next one.
                break;
            }
        }
    }

    /// Returns how long to wait for a reply.
    fn segment_timeout(&self) -> Duration {
        if self.options.retries_max == 0 { self.options.rto_max } else { self.rtt.rto() }
    }

    fn state(&self, segment: u64) -> Option<&Segment> {
        self.segments.get(usize::try_from(segment.checked_sub(self.base)?).ok()?)
    }

    fn set_final(&mut self, segment: u64, last: u64) -> Result<(), FinalBlockFault> {
        let end = last.saturating_add(1);
        if self.segment_count == Some(end) {
            return Ok(());
        }
        let received = self.received_max.max(Some(segment)).unwrap_or(segment);
        match self.segment_count {
            _ if last < received => return Err(FinalBlockFault::BelowReceived(received)),
            Some(previous) if end < previous => return Err(FinalBlockFault::Shrank(previous - 1)),
            // An object that is still being written may grow, but not beyond twice its size.
            Some(previous) if end > previous.saturating_mul(2).saturating_add(1024) => {
                return Err(FinalBlockFault::TooLarge);
            }
            _ if end > SEGMENTS_MAX => return Err(FinalBlockFault::TooLarge),
            _ => self.segment_count = Some(end),
        }
        while self.base + self.segments.len() as u64 > end {
            match self.segments.pop_back() {
                Some(segment) if !segment.is_received && segment.retry_at.is_none() => {
                    self.outstanding -= 1
                }
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }

    /// Returns why the fetch failed, if it did; [`next_request`](Self::next_request) returns the
    /// same.
    pub const fn failure(&self) -> Option<FetchError> {
        self.failure
    }

    /// Returns whether every segment was received.
    pub fn is_done(&self) -> bool {
        self.failure.is_none() && self.segment_count.is_some_and(|end| self.base >= end)
    }

    /// Returns when to call [`next_request`](Self::next_request) again if no packet arrives.
    /// Changes after every other call.
    pub fn deadline(&self) -> Option<Timestamp> {
        let retransmission =
            self.transmissions.front().map(|(_, sent)| *sent + self.segment_timeout());
        // Segments that wait for the window are resumed by a reply or a timeout, not by this
        // deadline.
        let has_capacity = self.outstanding < self.window.packets();
        let retry = self
            .retry_queue
            .iter()
            .filter(|_| has_capacity)
            .filter_map(|segment| self.state(*segment)?.retry_at)
            .min();
        let timeout = self.progress_at.filter(|_| !self.is_done()).map(|_| self.timeout_deadline());
        [retransmission, retry, timeout].into_iter().flatten().min()
    }

    /// Returns the number of segments, once a FinalBlockId was received.
    pub const fn segments_total(&self) -> Option<u64> {
        self.segment_count
    }

    /// Returns the first segment that is not complete.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// Counters of a fetch.
    pub const fn counters(&self) -> FetchCounters {
        self.counters
    }
}

fn failure_for(segment: u64, state: &Segment) -> FetchError {
    let tries = state.tries;
    match state.last_nack {
        Some(reason) => FetchError::Refused { segment, tries, reason },
        None => FetchError::NoAnswer { segment, tries },
    }
}

/// Returns the pause before a retransmission after a Nack.
fn nack_pause(reason: NackReason, previous_nacks: u32) -> Duration {
    match reason {
        // A new nonce resolves a duplicate at once.
        NackReason::Duplicate if previous_nacks == 0 => Duration::ZERO,
        _ => Duration::from_millis(20 << previous_nacks.min(6)),
    }
}

#[cfg(test)]
mod tests {
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
            assert!(
                fetcher.outstanding <= fetcher.window.packets().max(fetcher.options.window_max)
            );
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
        let mut fetcher = Fetcher::new(FetchOptions { retries_max: 3, ..FetchOptions::default() });
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
    fn no_route_fails_early_at_start_and_late_after_progress() {
        for (first_comes, expected) in [(false, NO_ROUTE_TIMEOUT_DEFAULT), (true, TIMEOUT_DEFAULT)]
        {
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
            let mut fetcher = Fetcher::new(FetchOptions::default());
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
        let mut fetcher = Fetcher::new(FetchOptions::default());
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
    fn next_event(
        fetcher: &Fetcher,
        on_way: &VecDeque<(Timestamp, u64)>,
        now: Timestamp,
    ) -> Timestamp {
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
}
