//! How many records each face has, limits on that, and what happens when a face ends.

use super::entry::NONE;
use super::{EntryRef, Pit};
use crate::FaceId;
use crate::memory::Lines;
use zerocopy::FromZeros;

#[derive(FromZeros)]
#[repr(C)]
struct Count {
    ins: u32,
    outs: u32,
}

/// Records by face slot. A face that took over the slot of one that has ended shares its count until those records have ended too.
pub(super) struct FaceCounts {
    counts: Lines<Count>,
    ins_max: u32,
}

impl FaceCounts {
    pub fn new() -> Self {
        FaceCounts { counts: Lines::sparse(FaceId::SLOTS_MAX as usize), ins_max: u32::MAX }
    }

    pub fn memory_bytes(&self) -> usize {
        self.counts.memory_bytes()
    }

    /// In-records of a face.
    #[inline]
    pub fn ins(&self, face: FaceId) -> u32 {
        self.counts[face.slot()].ins
    }

    #[inline]
    pub fn is_full(&self, face: FaceId) -> bool {
        self.counts[face.slot()].ins >= self.ins_max
    }

    /// The in-records of a face, where one more may be added.
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

    /// An in-record of one face and an out-record of another at a time.
    #[inline(always)]
    pub fn remove_both(&mut self, asker: FaceId, asked: FaceId) {
        let counts = &mut self.counts[..];
        counts[asker.slot()].ins -= 1;
        counts[asked.slot()].outs -= 1;
    }

    #[inline]
    pub fn remove_out(&mut self, face: FaceId) {
        self.counts[face.slot()].outs -= 1;
    }
}

/// How far the removal of a face's records has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceScan {
    slot: u32,
}

impl Pit {
    /// Lets every face have at most so many in-records from now on; `None` as many as there is room for. Those that are there stay.
    pub fn set_face_limit(&mut self, in_records_max: Option<u32>) {
        self.faces.ins_max = in_records_max.unwrap_or(u32::MAX);
    }

    /// In-records of a face.
    pub fn face_in_records(&self, face: FaceId) -> usize {
        self.faces.counts[face.slot()].ins as usize
    }

    /// Out-records of a face.
    pub fn face_out_records(&self, face: FaceId) -> usize {
        self.faces.counts[face.slot()].outs as usize
    }

    /// Removes all in- and out-records of a face and shows each entry that had one. Entries stay, even without records, until their moment or
    /// until they are removed. Looks at every slot ever used unless the face's records are found sooner: see
    /// [`remove_face_part`](Self::remove_face_part) for large tables.
    pub fn remove_face(&mut self, face: FaceId, each: &mut dyn FnMut(EntryRef)) {
        let mut scan = FaceScan::default();
        while !self.remove_face_part(face, &mut scan, u32::MAX, each) {}
    }

    /// A part of [`remove_face`](Self::remove_face): looks at `slots_max` slots from where `scan` stands. True when all is done; call
    /// again until then, with other work in between, but without giving the face new records.
    pub fn remove_face_part(
        &mut self,
        face: FaceId,
        scan: &mut FaceScan,
        slots_max: u32,
        each: &mut dyn FnMut(EntryRef),
    ) -> bool {
        let end = self.free.touched().min(scan.slot.saturating_add(slots_max));
        while scan.slot < end {
            let count = &self.faces.counts[face.slot()];
            if count.ins == 0 && count.outs == 0 {
                return true;
            }
            let entry = &self.entries[scan.slot as usize];
            // One that has not even a record in a chain and whose own are others' is the usual case.
            let may_have = entry.is_used()
                && (entry.incoming.face == face.bits()
                    || entry.outgoing.face == face.bits()
                    || entry.more_in != NONE
                    || entry.more_out != NONE);
            if may_have {
                let reference = self.reference(scan.slot);
                let (had_in, had_out) = (self.remove_in(reference, face), self.remove_out(reference, face));
                if had_in || had_out {
                    each(reference);
                }
            }
            scan.slot += 1;
        }
        scan.slot >= self.free.touched()
    }
}
