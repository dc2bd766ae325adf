//! One prefix's record: of fixed size, the same for every strategy, each of which uses its part.

use crate::{FaceId, Instant};
use core::time::Duration;
use zerocopy::FromZeros;

/// Next hops of one prefix that are measured at one time. Of more, those that don't answer and those used longest ago are forgotten first.
pub const FACES_MAX: usize = 8;

/// Time to wait for an answer where nothing was measured yet (RFC 6298, 2.1).
pub const RTO_INITIAL: Duration = Duration::from_secs(1);
/// Shortest time to wait, for strategies that give up on a next hop: an answer a little late is no fault.
pub const RTO_MIN: Duration = Duration::from_millis(200);
/// Longest time to wait (RFC 6298, 2.5).
pub const RTO_MAX: Duration = Duration::from_secs(60);

/// What is known of a next hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromZeros)]
#[repr(u8)]
pub enum FaceState {
    /// It answered, and was not found silent since.
    Working = 1,
    /// Nothing.
    #[default]
    Unmeasured = 0,
    /// It was silent too often, or refused.
    Failed = 2,
}

impl FaceState {
    /// Working ones first, then those of which nothing is known, then those that failed.
    pub const fn rank(self) -> u8 {
        match self {
            FaceState::Working => 0,
            FaceState::Unmeasured => 1,
            FaceState::Failed => 2,
        }
    }
}

/// One next hop of a prefix: its round-trip time, and one Interest whose answer is awaited.
///
/// Only one Interest at a time is awaited, so that a burst lost on the way counts as one silence. No timer runs: that a moment has passed is found
/// out by [`notice_silence`](Self::notice_silence) when it next matters.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub struct FaceRecord {
    face: u32,
    srtt_us: u32,
    rttvar_us: u32,
    state: FaceState,
    silences: u8,
    awaits: bool,
    spare: u8,
    awaited_hash: u64,
    /// Nanoseconds.
    awaited_until: u64,
    /// Nanoseconds.
    used: u64,
}

impl FaceRecord {
    /// Whose it is.
    pub const fn face(&self) -> FaceId {
        FaceId::from_bits(self.face)
    }

    /// What is known of it.
    pub const fn state(&self) -> FaceState {
        self.state
    }

    /// Smoothed round-trip time; `None` when it never answered.
    pub fn srtt(&self) -> Option<Duration> {
        (self.srtt_us != 0).then(|| Duration::from_micros(u64::from(self.srtt_us)))
    }

    /// Time to wait for an answer: "SRTT + 4 RTTVAR", between `min` and [`RTO_MAX`] (RFC 6298, 2.3).
    pub fn rto(&self, min: Duration) -> Duration {
        match self.srtt() {
            None => RTO_INITIAL.max(min),
            Some(srtt) => (srtt + 4 * Duration::from_micros(u64::from(self.rttvar_us))).clamp(min, RTO_MAX),
        }
    }

    /// It answered, after so long: it works (RFC 6298, 2.2 and 2.3).
    pub fn measured(&mut self, now: Instant, rtt: Duration) {
        // A microsecond at least: 0 says that there was no answer yet.
        let rtt_us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).max(1);
        if self.srtt_us == 0 {
            self.srtt_us = rtt_us;
            self.rttvar_us = rtt_us / 2;
        } else {
            let (srtt, rttvar, rtt) = (u64::from(self.srtt_us), u64::from(self.rttvar_us), u64::from(rtt_us));
            self.rttvar_us = ((3 * rttvar + srtt.abs_diff(rtt)) / 4) as u32;
            self.srtt_us = (((7 * srtt + rtt) / 8) as u32).max(1);
        }
        self.state = FaceState::Working;
        self.silences = 0;
        self.used = now.as_nanos();
    }

    /// An Interest was sent to it: its answer is awaited, unless another's is.
    pub fn sent(&mut self, now: Instant, name_hash: u64, rto_min: Duration) {
        self.used = now.as_nanos();
        if !self.awaits {
            self.awaits = true;
            self.awaited_hash = name_hash;
            self.awaited_until = (now + self.rto(rto_min)).as_nanos();
        }
    }

    /// The answer to an Interest came: it is awaited no longer.
    pub fn answered(&mut self, name_hash: u64) {
        self.awaits &= self.awaited_hash != name_hash;
    }

    /// Notices that the answer awaited did not come in time; after `silences_max` of these in a row the face has failed.
    pub fn notice_silence(&mut self, now: Instant, silences_max: u8) {
        if self.awaits && self.awaited_until <= now.as_nanos() {
            self.missed(silences_max);
        }
    }

    /// It gave no answer that is of use; after `silences_max` of these in a row it has failed.
    pub fn missed(&mut self, silences_max: u8) {
        self.awaits = false;
        self.silences = self.silences.saturating_add(1);
        if self.silences >= silences_max {
            self.state = FaceState::Failed;
        }
    }

    /// It refused: it has failed at once.
    pub fn refused(&mut self) {
        self.state = FaceState::Failed;
        self.awaits = false;
    }
}

/// What one strategy remembers of one prefix. All zero at first.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub struct Record {
    faces: [FaceRecord; FACES_MAX],
    /// When to try another next hop, nanoseconds; 0 when that was not decided yet.
    pub probe_at: u64,
    /// Whose turn it is.
    pub cursor: u32,
    /// The next hop that answered last; [`FaceId::NONE`] when none did.
    last: u32,
}

impl Record {
    /// Measured next hops, in no particular order that means anything.
    pub fn faces(&self) -> impl Iterator<Item = &FaceRecord> {
        self.faces.iter().filter(|face| face.face != 0)
    }

    /// What is known of a next hop, if anything.
    pub fn face(&self, face: FaceId) -> Option<&FaceRecord> {
        self.faces().find(|known| known.face == face.bits())
    }

    /// As [`face`](Self::face), to be changed.
    pub fn face_mut(&mut self, face: FaceId) -> Option<&mut FaceRecord> {
        self.faces.iter_mut().find(|known| known.face != 0 && known.face == face.bits())
    }

    /// As [`face_mut`](Self::face_mut), a new one where there is none, in place of the least useful.
    pub fn face_or_new(&mut self, now: Instant, face: FaceId) -> &mut FaceRecord {
        let at = match self.faces.iter().position(|known| known.face == face.bits()) {
            Some(at) => at,
            None => {
                let use_of = |at: &usize| {
                    let known = &self.faces[*at];
                    (known.face != 0, known.state == FaceState::Working, known.used)
                };
                let at = (0..FACES_MAX).min_by_key(use_of).unwrap_or(0);
                self.faces[at] =
                    FaceRecord { face: face.bits(), used: now.as_nanos(), ..FaceRecord::new_zeroed() };
                at
            }
        };
        &mut self.faces[at]
    }

    /// Forgets next hops not used for so long, and notices who was silent: see [`FaceRecord::notice_silence`].
    pub fn refresh(&mut self, now: Instant, lifetime_ms: u64, silences_max: u8) {
        for face in &mut self.faces {
            if face.face == 0 {
                continue;
            }
            if Instant::from_nanos(face.used).plus_millis(lifetime_ms) <= now {
                *face = FaceRecord::new_zeroed();
            } else {
                face.notice_silence(now, silences_max);
            }
        }
    }

    /// The next hop that answered last; [`FaceId::NONE`] when none did.
    pub const fn last(&self) -> FaceId {
        FaceId::from_bits(self.last)
    }

    /// Remembers who answered last.
    pub const fn set_last(&mut self, face: FaceId) {
        self.last = face.bits();
    }
}
