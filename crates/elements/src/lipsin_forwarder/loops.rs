//! Which forwarding identifiers that may loop came by which face.

use core::time::Duration;
use nw_element_api::{FaceId, Timestamp};
use nw_wire::publication::Fid;

/// Identifiers remembered; a newer one takes the place of an older one with the same hash.
const ENTRIES: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Entry {
    fid: Fid,
    ingress: FaceId,
    until: Timestamp,
}

/// The memory: a hash table with one entry in each place.
#[derive(Clone, Debug)]
pub(super) struct LoopMemory {
    entries: Vec<Entry>,
}

impl LoopMemory {
    pub(super) fn new() -> Self {
        let unused = Entry { fid: Fid::EMPTY, ingress: FaceId::NONE, until: Timestamp::START };
        LoopMemory { entries: vec![unused; ENTRIES] }
    }

    /// Returns whether the identifier came by another face within `duration`. Otherwise remembers
    /// that it came by this one.
    pub(super) fn is_loop(
        &mut self,
        now: Timestamp,
        duration: Duration,
        fid: &Fid,
        ingress: FaceId,
    ) -> bool {
        let words = fid.words();
        let mixed = words.iter().fold(0_u64, |hash, word| {
            (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let entry = &mut self.entries[(mixed >> 54) as usize % ENTRIES];
        let is_known = entry.fid == *fid && now < entry.until;
        if is_known && entry.ingress != ingress {
            return true;
        }
        *entry = Entry { fid: *fid, ingress, until: now + duration };
        false
    }
}
