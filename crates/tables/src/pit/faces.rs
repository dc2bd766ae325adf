//! The number of records per face, the limit on it, and removing the records of a face.

use super::entry::NONE;
use super::{EntryRef, Pit};
use crate::FaceId;
use crate::memory::MmapArray;
use zerocopy::FromZeros;

/// The number of records of a face.
#[derive(FromZeros)]
#[repr(C)]
struct Count {
    ins: u32,
    outs: u32,
}

/// The number of records by face slot. A face that reuses the slot of a removed one shares its
/// counts until those records expire.
pub(super) struct FaceCounts {
    counts: MmapArray<Count>,
    ins_max: u32,
}

impl FaceCounts {
    pub fn new() -> Self {
        FaceCounts {
            counts: MmapArray::with_small_pages(FaceId::SLOTS_MAX as usize),
            ins_max: u32::MAX,
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.counts.memory_bytes()
    }

    /// Returns the number of in-records of a face.
    #[inline]
    pub fn ins(&self, face: FaceId) -> u32 {
        self.counts[face.slot()].ins
    }

    #[inline]
    pub fn is_full(&self, face: FaceId) -> bool {
        self.counts[face.slot()].ins >= self.ins_max
    }

    /// Returns the number of in-records of a face; `None` if it has reached its limit.
    #[inline(always)]
    pub fn ins_below_max(&mut self, face: FaceId) -> Option<&mut u32> {
        let ins = &mut self.counts[face.slot()].ins;
        (*ins < self.ins_max).then_some(ins)
    }

    #[inline]
    pub fn add_in(&mut self, face: FaceId) {
        self.counts[face.slot()].ins += 1;
    }

    #[inline]
    pub fn remove_in(&mut self, face: FaceId) {
        self.counts[face.slot()].ins -= 1;
    }

    #[inline]
    pub fn add_out(&mut self, face: FaceId) {
        self.counts[face.slot()].outs += 1;
    }

    /// Removes one in-record and one out-record.
    #[inline(always)]
    pub fn remove_both(&mut self, downstream: FaceId, upstream: FaceId) {
        let counts = &mut self.counts[..];
        counts[downstream.slot()].ins -= 1;
        counts[upstream.slot()].outs -= 1;
    }

    #[inline]
    pub fn remove_out(&mut self, face: FaceId) {
        self.counts[face.slot()].outs -= 1;
    }
}

/// Progress of [`Pit::remove_face_part`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceScan {
    slot: u32,
}

impl Pit {
    /// Sets the maximum number of in-records of each face; `None` for no limit. Existing records
    /// stay.
    pub fn set_face_limit(&mut self, in_records_max: Option<u32>) {
        self.faces.ins_max = in_records_max.unwrap_or(u32::MAX);
    }

    /// Returns the number of in-records of a face.
    #[cfg(test)]
    pub fn face_in_records(&self, face: FaceId) -> usize {
        self.faces.counts[face.slot()].ins as usize
    }

    /// Returns the number of out-records of a face.
    #[cfg(test)]
    pub fn face_out_records(&self, face: FaceId) -> usize {
        self.faces.counts[face.slot()].outs as usize
    }

    /// Removes all in- and out-records of a face and passes each entry that had one to `each`.
    /// Entries stay until they expire or are removed, even without records. Visits every slot ever
    /// used, until all records are found; see [`remove_face_part`](Self::remove_face_part) for
    /// large tables.
    pub fn remove_face(&mut self, face: FaceId, visit: &mut dyn FnMut(EntryRef)) {
        let mut scan = FaceScan::default();
        while !self.remove_face_part(face, &mut scan, u32::MAX, visit) {}
    }

    /// Does a part of [`remove_face`](Self::remove_face): visits `slots_max` slots. Returns true
    /// when all records are removed; call it again until then. The face must not get new records in
    /// between.
    pub fn remove_face_part(
        &mut self,
        face: FaceId,
        scan: &mut FaceScan,
        slots_max: u32,
        visit: &mut dyn FnMut(EntryRef),
    ) -> bool {
        let end = self.free.high_water().min(scan.slot.saturating_add(slots_max));
        while scan.slot < end {
            let count = &self.faces.counts[face.slot()];
            if count.ins == 0 && count.outs == 0 {
                return true;
            }
            let entry = &self.entries[scan.slot as usize];
            // Usual: no record in a chain, and the inline records belong to other faces.
            let may_have_record = entry.is_used()
                && (entry.incoming.face == face.bits()
                    || entry.outgoing.face == face.bits()
                    || entry.in_chain != NONE
                    || entry.out_chain != NONE);
            if may_have_record {
                let reference = self.reference(scan.slot);
                let (had_in, had_out) =
                    (self.remove_in(reference, face), self.remove_out(reference, face));
                if had_in || had_out {
                    visit(reference);
                }
            }
            scan.slot += 1;
        }
        scan.slot >= self.free.high_water()
    }
}
