//! State machine for fetching a segmented object: decides which segment to request when. Pure: the
//! caller passes the time in and handles the packets.
//!
//! It keeps one small record per segment between the oldest outstanding and the newest requested
//! one, so its memory follows the window, not the object.

use crate::queue_delay::QueueDelay;
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

/// Longest pause before a retransmission that a router may ask for.
pub const PAUSE_MAX: Duration = Duration::from_secs(2);

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
            window_initial: 4,
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
    delay: QueueDelay,
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
            delay: QueueDelay::default(),
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
            match self.delay.sample(now, state.sent_at, rtt) {
                Some(round) => {
                    if self.window.on_round(round) {
                        self.delay.restart();
                    }
                }
                None => self.window.on_sample(self.delay.compare(rtt)),
            }
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
        self.on_refusal(now, segment, reason, Duration::ZERO);
    }

    /// Handles a Nack for `segment` that asks for a pause: on Nack(Congestion) of this project's
    /// routers, the value of the congestion mark in milliseconds. At most [`PAUSE_MAX`] is kept.
    pub fn on_refusal(
        &mut self,
        now: Timestamp,
        segment: u64,
        reason: NackReason,
        pause: Duration,
    ) {
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
        let pause = nack_pause(reason, state.nacks).max(pause.min(PAUSE_MAX));
        self.send_later(segment, now + pause);
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

    /// Sets the number of segments, for objects whose size is known before.
    pub fn set_segments(&mut self, count: u64) {
        self.segment_count = Some(count.min(SEGMENTS_MAX));
    }

    /// Returns the Interests that are outstanding.
    pub const fn outstanding(&self) -> usize {
        self.outstanding
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
#[path = "fetch_tests.rs"]
mod tests;
