//! Scans of the whole PIT, a part per tick, so that packets need not wait: for removed faces, for
//! new next hops, for lifetimes to reduce.

use super::{Out, Router};
use nw_element_api::{Context, FaceId, Timestamp};
use nw_name::{Name, NameRef, PrefixHashes};
use std::collections::BTreeMap;

/// PIT slots per part: about ten microseconds.
const SLOTS_PER_PART: u32 = 1024;
/// Prefixes freed per part.
const FREED_PER_PART: usize = 64;
/// Most prefixes with new next hops in one scan. Beyond that, pending Interests are not sent to new
/// next hops.
const PREFIXES_MAX: usize = 4096;

/// The scans in progress.
#[derive(Debug, Default)]
pub(super) struct TableScans {
    /// New next hops by prefix, for the scan in progress.
    new_next_hops: BTreeMap<Name, Vec<FaceId>>,
    slot: u32,
    /// Next slot of the scan that reduces lifetimes, if one is running.
    pub(super) lifetime_cut_slot: Option<u32>,
    /// New next hops added after the scan started: for the next scan.
    new_next_hops_queued: BTreeMap<Name, Vec<FaceId>>,
    /// Prefixes of finished scans, freed a few per tick.
    to_free: Vec<BTreeMap<Name, Vec<FaceId>>>,
}

impl TableScans {
    /// Returns whether no scan is in progress, besides that for removed faces.
    pub(super) fn is_empty(&self) -> bool {
        self.new_next_hops.is_empty() && self.to_free.is_empty() && self.lifetime_cut_slot.is_none()
    }

    /// Frees a part of finished scans.
    fn free_part(&mut self) {
        let Some(oldest) = self.to_free.first_mut() else { return };
        for _ in 0..FREED_PER_PART {
            if oldest.pop_first().is_none() {
                self.to_free.remove(0);
                return;
            }
        }
    }
}

impl Router {
    /// Starts to remove the records of a removed face, and entries without a downstream left. What
    /// one part does not reach is done by [`tick`](nw_element_api::Element::tick), in one pass for
    /// all faces that end meanwhile.
    pub(super) fn start_face_removal(&mut self, now: Timestamp, face: FaceId) {
        let is_running = self.pit.has_ended_records();
        self.pit.mark_face_ended(face);
        if !is_running {
            self.face_removal_part(now);
        }
    }

    /// "New nexthop: for pending PIT entries under the prefix strategy.afterNewNextHop (multicast
    /// forwards them)."
    pub(super) fn start_new_next_hop_scan(
        &mut self,
        now: Timestamp,
        prefix: NameRef<'_>,
        faces: Vec<FaceId>,
        context: &mut Context<'_, Out>,
    ) {
        let starts = self.scans.new_next_hops.is_empty();
        let scans = &mut self.scans;
        let scan = if starts { &mut scans.new_next_hops } else { &mut scans.new_next_hops_queued };
        if scan.len() < PREFIXES_MAX || scan.contains_key(prefix.as_bytes()) {
            let known = scan.entry(prefix.to_name()).or_default();
            faces.into_iter().for_each(|face| {
                if !known.contains(&face) {
                    known.push(face);
                }
            });
        }
        if starts {
            self.scans.slot = 0;
            self.new_next_hop_part(now, context);
        }
    }

    /// Continues the scans in progress.
    pub(super) fn scan_part(&mut self, now: Timestamp, context: &mut Context<'_, Out>) {
        if self.pit.has_ended_records() {
            self.face_removal_part(now);
        }
        self.scans.free_part();
        if let Some(slot) = self.scans.lifetime_cut_slot {
            let until = now.plus_millis(u64::from(self.shortage.remote_lifetime_max_ms));
            self.scans.lifetime_cut_slot = self.pit.shorten_part(slot, SLOTS_PER_PART, until);
        }
        if !self.scans.new_next_hops.is_empty() {
            self.new_next_hop_part(now, context);
        }
    }

    /// Removes the records of removed faces from one part of the PIT.
    fn face_removal_part(&mut self, now: Timestamp) {
        let mut entries = core::mem::take(&mut self.matched);
        entries.clear();
        self.pit.remove_ended_part(SLOTS_PER_PART, &mut |entry| entries.push(entry));
        for entry in entries.drain(..) {
            if self.pit.in_records(entry).next().is_none() {
                self.finish_unsatisfied(now, entry);
            }
        }
        self.matched = entries;
    }

    /// Sends pending Interests of one part of the PIT to new next hops.
    fn new_next_hop_part(&mut self, now: Timestamp, context: &mut Context<'_, Out>) {
        let (waiting, end) = self.pit.entries_part(self.scans.slot, SLOTS_PER_PART);
        for entry in waiting {
            let name = self.pit.name(entry);
            // An Interest under a longer prefix uses that prefix's next hops.
            let Some(route) = self.fib.lookup(name, &PrefixHashes::of(&self.key, name)) else {
                continue;
            };
            let Some(new) = self.scans.new_next_hops.get(name.prefix(route.prefix_len).as_bytes())
            else {
                continue;
            };
            let has = |face: &&FaceId| route.next_hops.iter().any(|hop| hop.face == **face);
            let faces: Vec<FaceId> = new.iter().filter(has).copied().collect();
            faces.into_iter().for_each(|face| self.forward_pending_to(now, entry, face, context));
        }
        match end {
            Some(slot) => self.scans.slot = slot,
            None => {
                self.scans.slot = 0;
                let next = core::mem::take(&mut self.scans.new_next_hops_queued);
                self.scans.to_free.push(core::mem::replace(&mut self.scans.new_next_hops, next));
            }
        }
    }
}
