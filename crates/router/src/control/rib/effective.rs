//! What an entry's next hops and strategy come to.

use super::walk::Reasons;
use super::{ByHand, Change, Effective, EntryId, Rib, cost_of, is_inherited};
use nw_name::NameRef;
use nw_tables::FaceId;
use nw_tables::fib::{NextHop, StrategyId};
use std::collections::BTreeSet;

impl Rib {
    /// Brings an entry up to date, and has the names below that depend on it brought up to date: see [`walk`](super::walk). `inherits`: what
    /// it passes on has changed; `strategy`: its strategy has.
    pub(super) fn refresh(&mut self, id: EntryId, inherits: bool, strategy: bool) {
        let changed = self.recompute(id);
        // Only names that have nothing but a strategy look at next hops that are not passed on.
        if inherits || strategy || changed {
            let name = self.entry(id).name.clone();
            self.walk_below(name, Reasons { inherits, strategy });
        }
    }

    /// Computes an entry anew; true when its next hops changed. Notes the change for the FIB.
    pub(super) fn recompute(&mut self, id: EntryId) -> bool {
        let after = self.effective(id);
        let entry = self.entry_mut(id);
        if entry.effective == after {
            return false;
        }
        let before = core::mem::replace(&mut entry.effective, after.clone());
        let hops =
            |effective: &Option<Effective>| effective.as_ref().map(|effective| effective.next_hops.clone());
        let changed = hops(&before) != hops(&after);
        let name = entry.name.clone();
        self.changes.push(Change { name, before, after });
        self.count_listed(id);
        changed
    }

    fn effective(&self, id: EntryId) -> Option<Effective> {
        let entry = self.entry(id);
        let ends = Ends::of(&entry.name);
        let mut next_hops = Vec::new();
        if entry.is_routed() {
            next_hops.extend(self.cheapest(&self.own, id).take(self.next_hops_max));
        }
        if entry.routes > 0 && entry.captures == 0 {
            self.inherit(id, &ends, &mut next_hops);
        }
        if next_hops.is_empty() {
            // Not an entry for the FIB, unless for its strategy: then it stands for what it hides.
            entry.strategy?;
            let hidden = ends.shorter(&entry.name).find_map(|shorter| {
                let id = self.index.get(shorter)?;
                self.entry(*id).effective.as_ref().map(|effective| effective.next_hops.clone())
            });
            return Some(Effective {
                next_hops: hidden.unwrap_or_default(),
                strategy: self.strategy(id, &ends),
            });
        }
        next_hops.sort_unstable_by_key(|hop: &NextHop| (hop.cost, hop.face));
        next_hops.truncate(self.next_hops_max);
        Some(Effective { next_hops: next_hops.into(), strategy: self.strategy(id, &ends) })
    }

    fn inherit(&self, id: EntryId, ends: &Ends, next_hops: &mut Vec<NextHop>) {
        let mut nearer: Vec<EntryId> = Vec::new();
        let name = self.entry(id).name.clone();
        for shorter in ends.shorter(&name) {
            let Some(&from) = self.index.get(shorter) else { continue };
            let had = |face: FaceId| {
                self.has_own(id, face) || nearer.iter().any(|id| self.inheritable_cost(*id, face).is_some())
            };
            let passed_on = self.cheapest(&self.inheritable, from).filter(|hop| !had(hop.face));
            next_hops.extend(passed_on.take(self.next_hops_max));
            if self.entry(from).captures > 0 {
                break;
            }
            nearer.push(from);
        }
    }

    fn strategy(&self, id: EntryId, ends: &Ends) -> StrategyId {
        let entry = self.entry(id);
        let shorter =
            || ends.shorter(&entry.name).find_map(|shorter| self.strategies.get(shorter).map(|(id, _)| *id));
        entry.strategy.or_else(shorter).expect("the name / always has a strategy")
    }

    fn cheapest<'a>(
        &self,
        ranks: &'a BTreeSet<(EntryId, u32, FaceId)>,
        id: EntryId,
    ) -> impl Iterator<Item = NextHop> + use<'a> {
        let all = ranks.range((id, 0, FaceId::NONE)..=(id, u32::MAX, FaceId::from_bits(u32::MAX)));
        all.map(|(_, cost, face)| NextHop { face: *face, cost: *cost })
    }

    /// True when the name itself says something about the face, so that it does not inherit that.
    fn has_own(&self, id: EntryId, face: FaceId) -> bool {
        self.of_face.contains(&(face, id))
    }

    /// What a face costs at a name by its own routes.
    pub(super) fn own_cost(&self, id: EntryId, face: FaceId) -> Option<u32> {
        match self.by_hand.get(&(id, face)) {
            Some(ByHand::Cost(cost)) => Some(*cost),
            Some(ByHand::Unlisted) => Some(0),
            Some(ByHand::Without) => None,
            None => {
                self.routes.range((id, face, 0)..=(id, face, u64::MAX)).map(|(_, route)| cost_of(route)).min()
            }
        }
    }

    /// What a face costs to names below.
    pub(super) fn inheritable_cost(&self, id: EntryId, face: FaceId) -> Option<u32> {
        let routes = self.routes.range((id, face, 0)..=(id, face, u64::MAX)).map(|(_, route)| route);
        routes.filter(|route| is_inherited(route)).map(cost_of).min()
    }
}

/// Where the components of a name end.
struct Ends {
    ends: [u16; ENDS_MAX],
    len: usize,
}

/// Names in the FIB have at most 32 components; `/` is one more end.
const ENDS_MAX: usize = 33;

impl Ends {
    fn of(name: &[u8]) -> Self {
        let mut ends = Ends { ends: [0; ENDS_MAX], len: 1 };
        let mut components = NameRef::from_checked(name).components();
        while components.next().is_some() && ends.len < ENDS_MAX {
            ends.ends[ends.len] = components.consumed() as u16;
            ends.len += 1;
        }
        ends
    }

    /// All shorter prefixes, longest first.
    fn shorter<'a>(&self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let ends = self.ends;
        (0..self.len - 1).rev().map(move |at| &name[..usize::from(ends[at])])
    }
}
