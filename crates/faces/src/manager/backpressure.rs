//! Back-pressure on stream faces: a peer that requests faster than it reads is slowed down, and
//! loses nothing.
//!
//! ```text
//!            queue above 1/4 of its bound                  no progress for 200 ms
//!  Active ──────────────────────────────▶ Paused ───────────────────────────────────▶ Stalled
//!    ▲  ◀──────── queue below 1/8 ───────────┘                                            │
//!    └───────────────────── queue below 1/8, and its pause is over ───────────────────────┘
//! ```
//!
//! A face that mainly brings Interests is not read while more than a high watermark is in its send
//! queue, and is read again below a low one. Of one read only as many Interests are processed as
//! their Data fits into the queue; the others stay in the face. The peer's own socket fills, so the
//! peer waits too.
//!
//! Two routers that wait for each other to read would wait forever. So a face whose queue made no
//! progress for [`STALL`] is read again, and the ordinary rule holds until it has drained: packets
//! beyond the bound are dropped (decision 0042).

use super::face::{Face, Transport};
use super::{Faces, watch_stream};
use crate::config::LINK_PACKET_LEN_MAX;
use crate::stream::READ_LEN_MAX;
use crate::timers::Timer;
use core::time::Duration;
use nw_element_api::{FaceId, Pool, Scope, Timestamp};

/// A queue without progress for this long no longer pauses its face.
const STALL: Duration = Duration::from_millis(200);
/// Interval at which a paused shared-memory face checks for free space: it has no event for it.
const SHARED_POLL: Duration = Duration::from_micros(500);

/// A remote face that stalled is not paused again for this long, so that two routers that load a
/// link in both directions lose little time.
const REMOTE_PAUSE: Duration = Duration::from_secs(10);

/// Bytes per read on a face whose Data is likely to be dropped.
const STALLED_READ_LEN: usize = 2 << 10;

/// Reading pauses above the queue's bound divided by this.
const HIGH_DIVISOR: usize = 4;
/// Reading resumes below the queue's bound divided by this.
const LOW_DIVISOR: usize = 8;

/// Whether a stream face is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReadState {
    /// It is read.
    #[default]
    Active,
    /// It is not read until its send queue has drained.
    Paused {
        /// When bytes last left that queue.
        progress: Timestamp,
        /// When its timer is due.
        due: Timestamp,
    },
    /// It is read although its send queue is long: pausing did not help.
    Stalled {
        /// It is not paused again before.
        until: Timestamp,
    },
}

impl ReadState {
    /// Returns when its timer is due, if it is set.
    pub(super) const fn due(self) -> Option<Timestamp> {
        match self {
            ReadState::Paused { due, .. } => Some(due),
            ReadState::Active | ReadState::Stalled { .. } => None,
        }
    }
}

impl Faces {
    /// Returns how many Interests a stream face may bring at once, so that their Data fits into its
    /// send queue, and how many bytes it may read.
    pub(super) fn read_bounds(&self, face: &Face) -> (usize, usize) {
        let Transport::Stream(stream) = &face.transport else { return (usize::MAX, READ_LEN_MAX) };
        let queue_max = self.send_budget.limit(face.is_local(), self.config.queue_bytes_max);
        // Most Data will be dropped, so others get their turn soon. Deferred packets take memory
        // too: when that is short, they are dropped instead.
        if matches!(face.reading, ReadState::Stalled { .. }) || queue_max < READ_LEN_MAX {
            return (usize::MAX, STALLED_READ_LEN);
        }
        // With several shards, Data for earlier Interests is still on its way.
        let parts = if self.config.share_ports { 4 } else { 1 };
        let room = queue_max.saturating_sub(stream.queue_bytes()) / parts;
        ((room / LINK_PACKET_LEN_MAX).max(1), READ_LEN_MAX)
    }

    /// Returns whether a stream face is not read.
    pub(super) fn is_reading_paused(&self, id: FaceId) -> bool {
        self.slots.get(id).is_some_and(|face| matches!(face.reading, ReadState::Paused { .. }))
    }

    /// Pauses or resumes reading according to the send queue. Call after the queue has grown or
    /// shrunk; `progress`: bytes left it.
    pub(super) fn update_reading(&mut self, now: Timestamp, id: FaceId, progress: bool) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let Transport::Stream(stream) = &face.transport else { return };
        let queued = stream.queue_bytes();
        if queued == 0 && face.reading == ReadState::Active {
            return;
        }
        let queue_max =
            self.send_budget.limit(face.scope == Scope::Local, self.config.queue_bytes_max);
        let threshold =
            if stream.has_deferred() { queue_max / LOW_DIVISOR } else { queue_max / HIGH_DIVISOR };
        match &mut face.reading {
            ReadState::Active if queued > threshold && face.requests && stream.connected => {
                self.pause_reading(now, id)
            }
            ReadState::Active => {}
            ReadState::Paused { .. } if queued <= queue_max / LOW_DIVISOR => {
                self.resume_reading(id, ReadState::Active)
            }
            ReadState::Paused { progress: last, .. } if progress => *last = now,
            ReadState::Stalled { until } if now >= *until && queued <= queue_max / LOW_DIVISOR => {
                face.reading = ReadState::Active
            }
            ReadState::Paused { .. } | ReadState::Stalled { .. } => {}
        }
    }

    #[cold]
    fn pause_reading(&mut self, now: Timestamp, id: FaceId) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let Transport::Stream(stream) = &face.transport else { return };
        let due = now + if stream.shared.is_some() { SHARED_POLL } else { STALL };
        face.reading = ReadState::Paused { progress: now, due };
        self.timers.set(due, Timer::ReadPause(id));
        watch_stream(&self.epoll, id, face);
    }

    /// Resumes reading, in the given state.
    pub(super) fn resume_reading(&mut self, id: FaceId, reading: ReadState) {
        let Some(face) = self.slots.get_mut(id) else { return };
        if let ReadState::Paused { due, .. } = face.reading {
            self.timers.cancel(due, Timer::ReadPause(id));
        }
        face.reading = reading;
        watch_stream(&self.epoll, id, face);
    }

    /// Checks whether the queue of a paused face has made progress.
    pub(super) fn check_reading(&mut self, now: Timestamp, id: FaceId, pool: &mut Pool) {
        let Some(face) = self.slots.get(id) else { return };
        let Transport::Stream(stream) = &face.transport else { return };
        let shared = stream.shared.is_some();
        if shared && let Err(reason) = self.drain_stream(now, id) {
            return self.lose_stream(now, id, reason, pool);
        }
        let Some(face) = self.slots.get_mut(id) else { return };
        let ReadState::Paused { progress, due } = &mut face.reading else { return };
        if now >= *progress + STALL {
            *due = now;
            let pause = if face.is_local() { Duration::ZERO } else { REMOTE_PAUSE };
            return self.resume_reading(id, ReadState::Stalled { until: now + pause });
        }
        *due = if shared { now + SHARED_POLL } else { *progress + STALL };
        let due = *due;
        self.timers.set(due, Timer::ReadPause(id));
    }
}
