//! The record of one prefix: of fixed size and the same for all strategies, each of which uses a
//! part.

use crate::{FaceId, Timestamp};
use core::time::Duration;
use zerocopy::FromZeros;

/// The maximum number of next hops measured per prefix. Further ones replace failed ones and those
/// not used for longest.
pub const FACES_MAX: usize = 8;

/// The retransmission timeout before the first measurement (RFC 6298, 2.1).
pub const RTO_INITIAL: Duration = Duration::from_secs(1);
/// The minimum timeout for strategies that stop using a next hop after timeouts, so that a slightly
/// late reply does not count as lost.
pub const RTO_MIN: Duration = Duration::from_millis(200);
/// The maximum timeout (RFC 6298, 2.5).
pub const RTO_MAX: Duration = Duration::from_secs(60);

/// The state of a next hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub enum FaceState {
    /// It replied, and has not failed since.
    Working = 1,
    /// No measurement yet.
    #[default]
    Unmeasured = 0,
    /// Too many timeouts in a row, or it rejected an Interest.
    Failed = 2,
}

impl FaceState {
    /// Returns the order of preference: working, unmeasured, failed.
    pub const fn rank(self) -> u8 {
        match self {
            FaceState::Working => 0,
            FaceState::Unmeasured => 1,
            FaceState::Failed => 2,
        }
    }
}

/// The measurements of one next hop: round-trip time, and the one Interest with an expected reply.
///
/// Only one Interest at a time is observed, so that a burst lost on the way counts as one timeout.
/// There is no timer: [`check_timeout`](Self::check_timeout) compares the time when the result is
/// needed.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub struct FaceRecord {
    face: u32,
    srtt_us: u32,
    rttvar_us: u32,
    state: FaceState,
    timeouts: u8,
    is_awaiting: bool,
    padding: u8,
    awaited_hash: u64,
    /// Nanoseconds.
    awaited_until: u64,
    /// Time of last use, nanoseconds.
    used: u64,
}

impl FaceRecord {
    /// Returns the face of the next hop.
    pub const fn face(&self) -> FaceId {
        FaceId::from_bits(self.face)
    }

    /// Returns the state of the next hop.
    pub const fn state(&self) -> FaceState {
        self.state
    }

    /// Returns the smoothed round-trip time; `None` without a measurement.
    pub fn srtt(&self) -> Option<Duration> {
        (self.srtt_us != 0).then(|| Duration::from_micros(u64::from(self.srtt_us)))
    }

    /// Returns the retransmission timeout: "SRTT + 4 RTTVAR", between `min` and [`RTO_MAX`] (RFC
    /// 6298, 2.3).
    pub fn rto(&self, min: Duration) -> Duration {
        match self.srtt() {
            None => RTO_INITIAL.max(min),
            Some(srtt) => {
                (srtt + 4 * Duration::from_micros(u64::from(self.rttvar_us))).clamp(min, RTO_MAX)
            }
        }
    }

    /// Adds a round-trip time measurement and sets the state to working (RFC 6298, 2.2 and 2.3).
    pub fn record_rtt(&mut self, now: Timestamp, rtt: Duration) {
        // At least one microsecond: 0 means that there is no measurement.
        let rtt_us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).max(1);
        if self.srtt_us == 0 {
            self.srtt_us = rtt_us;
            self.rttvar_us = rtt_us / 2;
        } else {
            let (srtt, rttvar, rtt) =
                (u64::from(self.srtt_us), u64::from(self.rttvar_us), u64::from(rtt_us));
            self.rttvar_us = ((3 * rttvar + srtt.abs_diff(rtt)) / 4) as u32;
            self.srtt_us = (((7 * srtt + rtt) / 8) as u32).max(1);
        }
        self.state = FaceState::Working;
        self.timeouts = 0;
        self.used = now.as_nanos();
    }

    /// Records that an Interest was sent: its reply is expected within the timeout, unless another
    /// reply is expected already.
    pub fn expect_reply(&mut self, now: Timestamp, name_hash: u64, rto_min: Duration) {
        self.used = now.as_nanos();
        if !self.is_awaiting {
            self.is_awaiting = true;
            self.awaited_hash = name_hash;
            self.awaited_until = (now + self.rto(rto_min)).as_nanos();
        }
    }

    /// Records that the reply to an Interest arrived.
    pub fn clear_expected(&mut self, name_hash: u64) {
        self.is_awaiting &= self.awaited_hash != name_hash;
    }

    /// Counts a timeout if the expected reply is overdue. The next hop fails after `timeouts_max`
    /// timeouts in a row.
    pub fn check_timeout(&mut self, now: Timestamp, timeouts_max: u8) {
        if self.is_awaiting && self.awaited_until <= now.as_nanos() {
            self.record_timeout(timeouts_max);
        }
    }

    /// Counts a timeout. The next hop fails after `timeouts_max` timeouts in a row.
    pub fn record_timeout(&mut self, timeouts_max: u8) {
        self.is_awaiting = false;
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts >= timeouts_max {
            self.state = FaceState::Failed;
        }
    }

    /// Marks the next hop as failed at once.
    pub fn mark_failed(&mut self) {
        self.state = FaceState::Failed;
        self.is_awaiting = false;
    }
}

/// The measurements of one strategy for one prefix. All zero at first.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub struct Record {
    faces: [FaceRecord; FACES_MAX],
    /// When to probe another next hop, nanoseconds; 0 if not decided yet.
    pub probe_at: u64,
    /// A counter for round robin.
    pub cursor: u32,
    /// The next hop that replied last; [`FaceId::NONE`] if none did.
    last: u32,
}

impl Record {
    /// Iterates over the measured next hops, in undefined order.
    pub fn faces(&self) -> impl Iterator<Item = &FaceRecord> {
        self.faces.iter().filter(|face| face.face != 0)
    }

    /// Returns the measurements of a next hop.
    pub fn face(&self, face: FaceId) -> Option<&FaceRecord> {
        self.faces().find(|record| record.face == face.bits())
    }

    /// Returns the measurements of a next hop, to be changed.
    pub fn face_mut(&mut self, face: FaceId) -> Option<&mut FaceRecord> {
        self.faces.iter_mut().find(|record| record.face != 0 && record.face == face.bits())
    }

    /// Returns the measurements of a next hop; a new record replaces the least useful one if there
    /// is none.
    pub fn face_or_new(&mut self, now: Timestamp, face: FaceId) -> &mut FaceRecord {
        let index = match self.faces.iter().position(|record| record.face == face.bits()) {
            Some(index) => index,
            None => {
                let usefulness = |index: &usize| {
                    let record = &self.faces[*index];
                    (record.face != 0, record.state == FaceState::Working, record.used)
                };
                let index = (0..FACES_MAX).min_by_key(usefulness).unwrap_or(0);
                self.faces[index] = FaceRecord {
                    face: face.bits(),
                    used: now.as_nanos(),
                    ..FaceRecord::new_zeroed()
                };
                index
            }
        };
        &mut self.faces[index]
    }

    /// Removes next hops not used for `lifetime_ms`, and [checks the
    /// timeouts](FaceRecord::check_timeout) of the others.
    pub fn refresh(&mut self, now: Timestamp, lifetime_ms: u64, timeouts_max: u8) {
        for face in &mut self.faces {
            if face.face == 0 {
                continue;
            }
            if Timestamp::from_nanos(face.used).plus_millis(lifetime_ms) <= now {
                *face = FaceRecord::new_zeroed();
            } else {
                face.check_timeout(now, timeouts_max);
            }
        }
    }

    /// Returns the next hop that replied last; [`FaceId::NONE`] if none did.
    pub const fn last(&self) -> FaceId {
        FaceId::from_bits(self.last)
    }

    /// Sets the next hop that replied last.
    pub const fn set_last(&mut self, face: FaceId) {
        self.last = face.bits();
    }
}
