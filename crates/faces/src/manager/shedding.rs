//! Shedding: when the memory of all send queues is short, the longest queues are dropped.
//!
//! Limits alone would not do: a peer that never reads would keep what it was given when memory was
//! plentiful.

use super::Faces;
use super::face::Transport;
use core::time::Duration;
use nw_element_api::{DropCause, FaceId, SharedPool, Timestamp};
use nw_link::DropRecorder;

/// Least time between two sheddings, as each iterates over all faces.
const INTERVAL: Duration = Duration::from_millis(100);

/// Whether the memory of send queues is short.
#[derive(Debug, Default)]
pub(super) struct Shedding {
    /// A packet was dropped for it since the last shedding.
    pub(super) is_needed: bool,
    next: Timestamp,
}

impl Faces {
    /// Drops the queues of the faces that hold at least half as much as the one with most, if a
    /// packet of another face was dropped.
    pub(super) fn shed_longest_queues(&mut self) {
        if !self.shedding.is_needed || self.current_time < self.shedding.next {
            return;
        }
        self.shedding = Shedding { is_needed: false, next: self.current_time + INTERVAL };
        let most = self.slots.iter().map(|(_, face)| face.charged).max().unwrap_or(0);
        let longest: Vec<FaceId> = self
            .slots
            .iter()
            .filter(|(_, face)| face.charged > most / 2)
            .map(|(id, _)| id)
            .collect();
        for id in longest {
            self.drop_queue(id);
        }
    }

    fn drop_queue(&mut self, id: FaceId) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let dropped = match &mut face.transport {
            Transport::Stream(stream) => stream.drop_queue(),
            Transport::Datagram { pacer, .. } => pacer.queue.clear(),
            Transport::Down | Transport::Internal | Transport::Null => 0,
        };
        let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
        drops.record(DropCause::FaceQueueFull, dropped as u64);
        (0..dropped).for_each(|_| self.drops.shortages.record(SharedPool::SendQueues));
        self.update_stream(self.current_time, id, false);
    }
}
