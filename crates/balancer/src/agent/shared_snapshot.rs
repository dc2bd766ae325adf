//! The newest snapshot of the control member's routes, shared between threads.

use super::snapshot::Snapshot;
use std::sync::{Arc, Mutex, PoisonError};

/// Holds the newest snapshot: the route watcher publishes it, the agents read it.
#[derive(Debug, Default)]
pub struct SharedSnapshot(Mutex<Option<Arc<Snapshot>>>);

impl SharedSnapshot {
    /// Replaces the snapshot by a newer one.
    pub fn publish(&self, snapshot: Snapshot) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(snapshot));
    }

    /// Returns the newest snapshot. `None` if there is none, or its generation is `known`.
    pub fn newer(&self, known: u64) -> Option<Arc<Snapshot>> {
        let snapshot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        snapshot.as_ref().filter(|snapshot| snapshot.generation != known).cloned()
    }
}
