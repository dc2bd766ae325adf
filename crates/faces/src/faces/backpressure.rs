//! Back-pressure on stream faces: a peer that requests faster than it reads is slowed down, and loses nothing.
//!
//! A face that mainly brings Interests is not read from while more than a high watermark waits in its own send queue, and is read
//! from again below a low one.
//! Of what one read brings, only so many Interests are taken in that their answers still have room in that queue; the rest waits in
//! the face. The peer's own socket fills, so the peer waits as well.
//!
//! Two routers that both wait for the other to read would wait for ever. So a queue that made no progress for
//! [`STALL`] has its face read again, and the ordinary rule holds until it has drained: what exceeds the bound is dropped (decision 0042).

use super::face::{Face, Transport};
use super::{Faces, watch_stream};
use crate::config::LINK_PACKET_LEN_MAX;
use crate::stream::READ_LEN_MAX;
use crate::timers::Timer;
use core::time::Duration;
use nw_element_api::{FaceId, Instant, Pool, Scope};

/// A queue without progress for this long does not keep its face from being read.
const STALL: Duration = Duration::from_millis(200);
/// Beside shared memory, the socket is not watched while reading rests: whether the neighbour made room is looked at so often.
const SHARED_POLL: Duration = Duration::from_micros(500);

/// A remote face that stalled does not rest again for this long: two routers that load a link in both directions lose little time.
const REMOTE_PAUSE: Duration = Duration::from_secs(10);

/// Bytes of a read on a face whose answers are likely to be dropped.
const STALLED_READ_LEN: usize = 2 << 10;

/// The part of a queue's bound above which reading rests.
const HIGH_PARTS: usize = 4;
/// The part of a queue's bound below which reading goes on.
const LOW_PARTS: usize = 8;

/// Whether a stream face is read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reading {
    /// Yes.
    #[default]
    On,
    /// Not until its send queue has drained.
    Resting {
        /// When something last left that queue.
        progress: Instant,
        /// When its timer is due.
        due: Instant,
    },
    /// Yes, although its send queue is long: resting did not help.
    Stalled {
        /// It does not rest before.
        until: Instant,
    },
}

impl Reading {
    /// When its timer is due, if there is one.
    pub(super) const fn due(self) -> Option<Instant> {
        match self {
            Reading::Resting { due, .. } => Some(due),
            Reading::On | Reading::Stalled { .. } => None,
        }
    }
}

impl Faces {
    /// How many Interests a stream face may take in at once: so many that their answers have room in its send queue. And how many
    /// bytes it may read.
    pub(super) fn read_bounds(&self, face: &Face) -> (usize, usize) {
        let Transport::Stream(stream) = &face.transport else { return (usize::MAX, READ_LEN_MAX) };
        let queue_max = self.send_budget.limit(face.is_local(), self.config.queue_bytes_max);
        // Most answers will be dropped: others get their turn soon. What waits in the face takes memory as well: when that is short,
        // packets are dropped instead.
        if matches!(face.reading, Reading::Stalled { .. }) || queue_max < READ_LEN_MAX {
            return (usize::MAX, STALLED_READ_LEN);
        }
        // With several shards the answers to what was taken in before are still on their way.
        let parts = if self.config.share_ports { 4 } else { 1 };
        let room = queue_max.saturating_sub(stream.queue_bytes()) / parts;
        ((room / LINK_PACKET_LEN_MAX).max(1), READ_LEN_MAX)
    }

    /// True while a stream face is not to be read from.
    pub(super) fn is_resting(&self, id: FaceId) -> bool {
        self.slots.get(id).is_some_and(|face| matches!(face.reading, Reading::Resting { .. }))
    }

    /// Lets a face rest, or read on, as its send queue asks for. To be called when that queue has grown or shrunk.
    pub(super) fn update_reading(&mut self, now: Instant, id: FaceId, progress: bool) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let Transport::Stream(stream) = &face.transport else { return };
        let queued = stream.queue_bytes();
        if queued == 0 && face.reading == Reading::On {
            return;
        }
        let queue_max = self.send_budget.limit(face.scope == Scope::Local, self.config.queue_bytes_max);
        let threshold = if stream.has_deferred() { queue_max / LOW_PARTS } else { queue_max / HIGH_PARTS };
        match &mut face.reading {
            Reading::On if queued > threshold && face.requests && stream.connected => self.rest(now, id),
            Reading::On => {}
            Reading::Resting { .. } if queued <= queue_max / LOW_PARTS => self.read_on(id, Reading::On),
            Reading::Resting { progress: last, .. } if progress => *last = now,
            Reading::Stalled { until } if now >= *until && queued <= queue_max / LOW_PARTS => {
                face.reading = Reading::On
            }
            Reading::Resting { .. } | Reading::Stalled { .. } => {}
        }
    }

    #[cold]
    fn rest(&mut self, now: Instant, id: FaceId) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let Transport::Stream(stream) = &face.transport else { return };
        let due = now + if stream.shared.is_some() { SHARED_POLL } else { STALL };
        face.reading = Reading::Resting { progress: now, due };
        self.timers.set(due, Timer::Reading(id));
        watch_stream(&self.epoll, id, face);
    }

    /// Reads from a face again.
    pub(super) fn read_on(&mut self, id: FaceId, reading: Reading) {
        let Some(face) = self.slots.get_mut(id) else { return };
        if let Reading::Resting { due, .. } = face.reading {
            self.timers.cancel(due, Timer::Reading(id));
        }
        face.reading = reading;
        watch_stream(&self.epoll, id, face);
    }

    /// Looks at a face that rests: has its queue made progress?
    pub(super) fn check_reading(&mut self, now: Instant, id: FaceId, pool: &mut Pool) {
        let Some(face) = self.slots.get(id) else { return };
        let Transport::Stream(stream) = &face.transport else { return };
        let shared = stream.shared.is_some();
        if shared && let Err(reason) = self.drain_stream(now, id) {
            return self.lose_stream(now, id, reason, pool);
        }
        let Some(face) = self.slots.get_mut(id) else { return };
        let Reading::Resting { progress, due } = &mut face.reading else { return };
        if now >= *progress + STALL {
            *due = now;
            let pause = if face.is_local() { Duration::ZERO } else { REMOTE_PAUSE };
            return self.read_on(id, Reading::Stalled { until: now + pause });
        }
        *due = if shared { now + SHARED_POLL } else { *progress + STALL };
        let due = *due;
        self.timers.set(due, Timer::Reading(id));
    }
}
