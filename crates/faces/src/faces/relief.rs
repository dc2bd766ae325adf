//! What happens when the memory of all send queues is short: the faces with the longest queues give way.
//!
//! Limits alone would not do: a peer that never reads keeps what it was given when memory was plenty.

use super::Faces;
use super::face::Transport;
use crate::link::Tally;
use core::time::Duration;
use nw_element_api::{Cause, FaceId, Instant, SharedPool};

/// All faces are looked at, so at most once in so long.
const INTERVAL: Duration = Duration::from_millis(100);

/// Whether memory of send queues is short.
#[derive(Debug, Default)]
pub(super) struct Relief {
    /// A packet was refused because of it since the last look.
    pub(super) is_needed: bool,
    next: Instant,
}

impl Faces {
    /// Drops what waits for the faces that hold most, all those that hold at least half as much as the one with most, if a packet
    /// of another face was refused.
    pub(super) fn relieve_queues(&mut self) {
        if !self.relief.is_needed || self.latest < self.relief.next {
            return;
        }
        self.relief = Relief { is_needed: false, next: self.latest + INTERVAL };
        let most = self.slots.iter().map(|(_, face)| face.charged).max().unwrap_or(0);
        let longest: Vec<FaceId> =
            self.slots.iter().filter(|(_, face)| face.charged > most / 2).map(|(id, _)| id).collect();
        for id in longest {
            self.drop_queue(id);
        }
    }

    fn drop_queue(&mut self, id: FaceId) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let dropped = match &mut face.transport {
            Transport::Stream(stream) => stream.drop_queue(),
            Transport::Datagram { burst, .. } => burst.waiting.clear(),
            Transport::Down | Transport::Internal | Transport::Null => 0,
        };
        let mut tally = Tally { face: &mut face.counters, all: &mut self.drops };
        tally.drops(Cause::FaceQueueFull, dropped as u64);
        (0..dropped).for_each(|_| self.drops.shortages.record(SharedPool::SendQueues));
        self.update_stream(self.latest, id, false);
    }
}
