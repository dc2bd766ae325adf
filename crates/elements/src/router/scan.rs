//! What has to look at every pending Interest: a face that has ended, next hops that are new. A part at a time, so that packets need not wait.

use super::{Out, Router};
use nw_element_api::{Context, FaceId, Instant};
use nw_name::{Name, NameRef, Prefixes};
use nw_tables::pit::FaceScan;
use std::collections::{BTreeMap, VecDeque};

/// Slots of the pending Interest table looked at in one part: some ten microseconds.
const SLOTS_PER_PART: u32 = 1024;
/// Prefixes of which is freed what was told, in one part.
const FREED_PER_PART: usize = 64;
/// Prefixes with new next hops for which one look at the table serves; of more, Interests that wait do not learn.
const PREFIXES_MAX: usize = 4096;

/// What is being looked for.
#[derive(Debug, Default)]
pub(super) struct Scans {
    leaving: VecDeque<(FaceId, FaceScan)>,
    /// New next hops by prefix, and the slot up to which they were told.
    following: BTreeMap<Name, Vec<FaceId>>,
    slot: u32,
    /// The slot up to which lifetimes were cut, while they are.
    pub(super) shortening: Option<u32>,
    /// Those that came after the look at the table began.
    following_next: BTreeMap<Name, Vec<FaceId>>,
    /// What was told to the end of the table, to be freed.
    told: Vec<BTreeMap<Name, Vec<FaceId>>>,
}

impl Scans {
    pub(super) fn is_empty(&self) -> bool {
        self.leaving.is_empty()
            && self.following.is_empty()
            && self.told.is_empty()
            && self.shortening.is_none()
    }

    /// Frees a part of what was told.
    fn free_part(&mut self) {
        let Some(oldest) = self.told.first_mut() else { return };
        for _ in 0..FREED_PER_PART {
            if oldest.pop_first().is_none() {
                self.told.remove(0);
                return;
            }
        }
    }
}

impl Router {
    /// Begins to end what waits only for a face that is gone; what is left is done by [`tick`](nw_element_api::Element::tick).
    pub(super) fn forget_face(&mut self, now: Instant, face: FaceId) {
        let mut scan = FaceScan::default();
        if !self.forget_part(now, face, &mut scan) {
            self.scans.leaving.push_back((face, scan));
        }
    }

    /// "New nexthop: for pending PIT entries under the prefix strategy.afterNewNextHop (multicast forwards them)."
    pub(super) fn follow_new_next_hops(
        &mut self,
        now: Instant,
        prefix: NameRef<'_>,
        faces: Vec<FaceId>,
        context: &mut Context<'_, Out>,
    ) {
        let begins = self.scans.following.is_empty();
        let scans = &mut self.scans;
        let wanted = if begins { &mut scans.following } else { &mut scans.following_next };
        if wanted.len() < PREFIXES_MAX || wanted.contains_key(prefix.as_bytes()) {
            let known = wanted.entry(prefix.to_name()).or_default();
            faces.into_iter().for_each(|face| {
                if !known.contains(&face) {
                    known.push(face);
                }
            });
        }
        if begins {
            self.scans.slot = 0;
            self.follow_part(now, context);
        }
    }

    /// Goes on with what was begun.
    pub(super) fn scan_part(&mut self, now: Instant, context: &mut Context<'_, Out>) {
        if let Some((face, mut scan)) = self.scans.leaving.pop_front()
            && !self.forget_part(now, face, &mut scan)
        {
            self.scans.leaving.push_front((face, scan));
        }
        self.scans.free_part();
        if let Some(slot) = self.scans.shortening {
            let until = now.plus_millis(u64::from(self.shortage.remote_lifetime_max_ms));
            self.scans.shortening = self.pit.shorten_part(slot, SLOTS_PER_PART, until);
        }
        if !self.scans.following.is_empty() {
            self.follow_part(now, context);
        }
    }

    /// True at the end.
    fn forget_part(&mut self, now: Instant, face: FaceId, scan: &mut FaceScan) -> bool {
        let mut left = core::mem::take(&mut self.matched);
        left.clear();
        let done = self.pit.remove_face_part(face, scan, SLOTS_PER_PART, &mut |entry| left.push(entry));
        for entry in left.drain(..) {
            if self.pit.in_records(entry).next().is_none() {
                self.finish_unsatisfied(now, entry);
            }
        }
        self.matched = left;
        done
    }

    fn follow_part(&mut self, now: Instant, context: &mut Context<'_, Out>) {
        let (waiting, end) = self.pit.entries_part(self.scans.slot, SLOTS_PER_PART);
        for entry in waiting {
            let name = self.pit.name(entry);
            // A longer prefix has its own next hops.
            let Some(route) = self.fib.lookup(name, &Prefixes::of(&self.key, name)) else { continue };
            let Some(new) = self.scans.following.get(name.prefix(route.prefix_len).as_bytes()) else {
                continue;
            };
            let has = |face: &&FaceId| route.next_hops.iter().any(|hop| hop.face == **face);
            let faces: Vec<FaceId> = new.iter().filter(has).copied().collect();
            faces.into_iter().for_each(|face| self.follow(now, entry, face, context));
        }
        match end {
            Some(slot) => self.scans.slot = slot,
            None => {
                self.scans.slot = 0;
                let next = core::mem::take(&mut self.scans.following_next);
                self.scans.told.push(core::mem::replace(&mut self.scans.following, next));
            }
        }
    }
}
