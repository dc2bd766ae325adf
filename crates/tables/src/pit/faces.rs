//! The number of records per face, the limit on it, and removing the records of ended faces.
//!
//! One pass over the table serves all faces that have ended: a flood of forged sources ends
//! thousands of faces a second, and a pass for each would take longer than their packets.

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
    sweep: Sweep,
}

impl FaceCounts {
    pub fn new() -> Self {
        FaceCounts {
            counts: MmapArray::with_small_pages(FaceId::SLOTS_MAX as usize),
            ins_max: u32::MAX,
            sweep: Sweep::default(),
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

/// A pass over the entries that removes the records of ended faces.
#[derive(Clone, Copy, Debug, Default)]
struct Sweep {
    /// The next slot.
    next: u32,
    /// The slot before which the pass ends; 0 if none is running.
    end: u32,
    /// The slots before this one are visited again: faces ended after the pass had reached it.
    again_to: u32,
}

impl Sweep {
    /// Includes a face that ends now, with records in slots below `high_water`.
    fn extend(&mut self, high_water: u32) {
        (self.again_to, self.end) = (self.next, high_water);
    }

    /// Returns the next slot. `None` at the end of the last pass.
    fn step(&mut self) -> Option<u32> {
        if self.next >= self.end {
            *self = Sweep { next: 0, end: self.again_to, again_to: 0 };
        }
        (self.next < self.end).then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    const fn is_running(&self) -> bool {
        self.next < self.end || self.again_to > 0
    }
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

    /// Returns whether records of ended faces are still to be removed.
    pub const fn has_ended_records(&self) -> bool {
        self.faces.sweep.is_running()
    }

    /// Includes a face that has ended in the pass over the table, if it has records.
    pub(super) fn sweep_ended_face(&mut self, face: FaceId) {
        let count = &self.faces.counts[face.slot()];
        if count.ins > 0 || count.outs > 0 {
            self.faces.sweep.extend(self.free.high_water());
        }
    }

    /// Removes the in- and out-records of ended faces from at most `slots_max` slots, and passes
    /// each entry that had one to `visit`. Entries stay until they expire or are removed, even
    /// without records. Call it until [`has_ended_records`](Self::has_ended_records) returns false.
    pub fn remove_ended_part(&mut self, slots_max: u32, visit: &mut dyn FnMut(EntryRef)) {
        for _ in 0..slots_max {
            let Some(slot) = self.faces.sweep.step() else { return };
            if self.remove_ended_of(slot) {
                visit(self.reference(slot));
            }
        }
    }

    /// Removes the records of ended faces from one entry. Returns whether there were any.
    fn remove_ended_of(&mut self, slot: u32) -> bool {
        let Pit { entries, records, faces, shares, .. } = self;
        let entry = &mut entries[slot as usize];
        if !entry.is_used() {
            return false;
        }
        let has_ended = |bits: u32| bits != 0 && shares.has_ended(FaceId::from_bits(bits));
        let mut had_any = false;
        if has_ended(entry.incoming.face) {
            faces.remove_in(FaceId::from_bits(core::mem::take(&mut entry.incoming.face)));
            had_any = true;
        }
        if has_ended(entry.outgoing.face) {
            faces.remove_out(FaceId::from_bits(core::mem::take(&mut entry.outgoing.face)));
            had_any = true;
        }
        // Usual: no record in a chain.
        if entry.in_chain != NONE || entry.out_chain != NONE {
            records.unlink_all(&mut entry.in_chain, has_ended, |face| {
                faces.remove_in(face);
                had_any = true;
            });
            records.unlink_all(&mut entry.out_chain, has_ended, |face| {
                faces.remove_out(face);
                had_any = true;
            });
        }
        had_any
    }
}
