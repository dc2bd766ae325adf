//! Reconnection of permanent faces that this end opened: they keep id, routes and counters while
//! they are down.
//!
//! As in NFD, the pause before an attempt doubles with each failure, up to a bound. Here it also
//! varies by a quarter, so that the peers of a restarted router don't all reconnect at once.

use super::Faces;
use super::face::{Token, Transport};
use crate::listener;
use crate::status::{CloseReason, FaceEvent};
use crate::timers::Timer;
use core::time::Duration;
use nw_element_api::{DropCause, FaceId, Pool, Timestamp};
use nw_link::{DropRecorder, Persistency};
use rustix::event::epoll;
use rustix::io::Errno;
use std::os::fd::AsFd;

impl Faces {
    /// Processes the end of a stream: closes the face, or takes it down if it is permanent and was
    /// connected before.
    pub(super) fn lose_stream(
        &mut self,
        now: Timestamp,
        id: FaceId,
        reason: CloseReason,
        pool: &mut Pool,
    ) {
        self.read_last(id, pool);
        let Some(face) = self.slots.get_mut(id) else { return };
        if let CloseReason::SharedMemory(fault) = reason {
            tracing::debug!(peer = %face.uri, %fault, "shared memory: the peer violated the protocol");
            let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
            drops.record(DropCause::SharedMemoryFault, 1);
        }
        let stays = face.persistency == Persistency::Permanent
            && face.reconnect.as_ref().is_some_and(|reconnect| reconnect.was_up);
        if !stays {
            return self.close_face(id, reason, pool);
        }
        let Transport::Stream(mut stream) =
            core::mem::replace(&mut face.transport, Transport::Down)
        else {
            return;
        };
        stream.close_with_reason(&reason);
        let was_connected = stream.connected;
        let _ = epoll::delete(&self.epoll, &stream.socket);
        drop(stream);
        face.awaits_writable = false;
        face.awaits_readable = true;
        if let Some(due) = core::mem::take(&mut face.reading).due() {
            self.timers.cancel(due, Timer::ReadPause(id));
        }
        face.dirty = false;
        let outbox = core::mem::take(&mut face.outbox);
        let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
        for item in outbox.items() {
            drops.face.uncount_out(item.kind, outbox.item_len(item, pool));
            drops.record(DropCause::FaceDown, 1);
        }
        face.link.restart(now, &mut self.budget, &mut drops);
        self.send_budget.recharge(&mut face.charged, 0);
        self.recycle_outbox(outbox, pool);
        if was_connected {
            self.events.push(FaceEvent::Down(id));
        }
        self.schedule_reconnect(now, id);
    }

    /// Reconnects a face that is down, or gives up an attempt that took too long.
    pub(super) fn check_connection(&mut self, now: Timestamp, id: FaceId, pool: &mut Pool) {
        let Some(face) = self.slots.get_mut(id) else { return };
        if let Some(reconnect) = &mut face.reconnect {
            reconnect.timer = None;
        }
        match &face.transport {
            Transport::Stream(stream) if !stream.connected => {
                self.lose_stream(now, id, CloseReason::Socket(Errno::TIMEDOUT), pool);
            }
            // It was permanent when it went down, and is no longer.
            Transport::Down if face.persistency != Persistency::Permanent => {
                self.close_face(id, CloseReason::Socket(Errno::NOTCONN), pool);
            }
            Transport::Down => self.reconnect(now, id),
            _ => {}
        }
    }

    fn reconnect(&mut self, now: Timestamp, id: FaceId) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let bind = face.reconnect.as_ref().and_then(|reconnect| reconnect.bind);
        let Ok((stream, local)) = listener::connect(&face.uri, bind, &self.config) else {
            return self.schedule_reconnect(now, id);
        };
        let (connected, awaits_writable) = (stream.connected, stream.is_connecting());
        if self.watch(stream.socket.as_fd(), Token::Face(id), awaits_writable).is_err() {
            return self.schedule_reconnect(now, id);
        }
        let Some(face) = self.slots.get_mut(id) else { return };
        face.local_uri = local;
        face.transport = Transport::Stream(stream);
        face.awaits_writable = awaits_writable;
        if connected {
            if let Some(reconnect) = &mut face.reconnect {
                reconnect.failures = 0;
            }
            self.events.push(FaceEvent::Up(id));
        } else {
            self.set_reconnect_timer(now + self.config.reconnect_timeout, id);
        }
    }

    fn schedule_reconnect(&mut self, now: Timestamp, id: FaceId) {
        let Some(reconnect) = self.slots.get_mut(id).and_then(|face| face.reconnect.as_mut())
        else {
            return;
        };
        let pause =
            pause(&self.config.reconnect_first, self.config.reconnect_max, reconnect.failures);
        reconnect.failures = reconnect.failures.saturating_add(1);
        self.set_reconnect_timer(now + spread(pause, now, id), id);
    }

    fn set_reconnect_timer(&mut self, due: Timestamp, id: FaceId) {
        let Some(reconnect) = self.slots.get_mut(id).and_then(|face| face.reconnect.as_mut())
        else {
            return;
        };
        if let Some(before) = reconnect.timer.replace(due) {
            self.timers.cancel(before, Timer::Reconnect(id));
        }
        self.timers.set(due, Timer::Reconnect(id));
    }
}

/// Returns the pause after `failures` failures: doubled with each, at most `max`.
fn pause(first: &Duration, max: Duration, failures: u32) -> Duration {
    first.saturating_mul(1 << failures.min(20)).min(max)
}

/// Returns three to five quarters of a pause, varied by face and time.
fn spread(pause: Duration, now: Timestamp, id: FaceId) -> Duration {
    let mixed =
        (now.as_nanos() ^ u64::from(id.bits()).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    pause * 3 / 4 + pause / 2 * (mixed >> 48) as u32 / 0x1_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnect_pause_doubles_within_bounds_and_varies() {
        let (first, max) = (Duration::from_secs(1), Duration::from_secs(60));
        let pauses: Vec<u64> =
            (0..9).map(|failures| pause(&first, max, failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(pause(&first, max, u32::MAX), max);
        let spreads: Vec<Duration> = (0..1000)
            .map(|at| spread(max, Timestamp::from_nanos(at * 1_000_003), FaceId::from_slot(256, 0)))
            .collect();
        assert!(spreads.iter().all(|spread| (45..75).contains(&spread.as_secs())));
        assert!(spreads.iter().any(|spread| spread.as_secs() < 48));
        assert!(spreads.iter().any(|spread| spread.as_secs() > 71));
    }
}
