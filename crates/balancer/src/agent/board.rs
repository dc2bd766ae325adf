//! Where the newest snapshot hangs.

use super::snapshot::Snapshot;
use std::sync::{Arc, Mutex, PoisonError};

/// The newest snapshot, for all who give it to members.
#[derive(Debug, Default)]
pub struct Board(Mutex<Option<Arc<Snapshot>>>);

impl Board {
    /// Hangs out a newer one.
    pub fn put(&self, snapshot: Snapshot) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(snapshot));
    }

    /// The newest, unless it is `known`.
    pub fn newer(&self, known: u64) -> Option<Arc<Snapshot>> {
        let snapshot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        snapshot.as_ref().filter(|snapshot| snapshot.generation != known).cloned()
    }
}
