//! Computes the effective next hops and strategy of an entry.

use super::walk::WalkReasons;
use super::{Change, DirectNextHop, Effective, EntryId, Rib, cost_of, is_inherited};
use nw_name::NameRef;
use nw_tables::FaceId;
use nw_tables::fib::{NextHop, StrategyId};
use std::collections::BTreeSet;

impl Rib {
    /// Recomputes an entry and starts a walk over the dependent names below it, see
    /// [`walk`](super::walk). `inherits`: the routes it passes on have changed; `strategy`: its
    /// strategy has changed.
    pub(super) fn refresh(&mut self, id: EntryId, inherits: bool, strategy: bool) {
        let changed = self.recompute(id);
        // Without either, only entries with nothing but a strategy choice depend on the next hops
        // here.
        if inherits || strategy || changed {
            let name = self.entry(id).name.clone();
            self.walk_below(name, WalkReasons { inherits, strategy });
        }
    }

    /// Recomputes an entry and records the change for the FIB. Returns whether its next hops
    /// changed.
    pub(super) fn recompute(&mut self, id: EntryId) -> bool {
        let after = self.effective(id);
        let entry = self.entry_mut(id);
        if entry.effective == after {
            return false;
        }
        let before = core::mem::replace(&mut entry.effective, after.clone());
        let hops = |effective: &Option<Effective>| {
            effective.as_ref().map(|effective| effective.next_hops.clone())
        };
        let changed = hops(&before) != hops(&after);
        let name = entry.name.clone();
        self.changes.push(Change { name, before, after });
        self.count_listed(id);
        changed
    }

    fn effective(&self, id: EntryId) -> Option<Effective> {
        let entry = self.entry(id);
        let ends = ComponentEnds::of(&entry.name);
        let mut next_hops = Vec::new();
        if entry.is_routed() {
            next_hops.extend(self.cheapest(&self.own_costs, id).take(self.next_hops_max));
        }
        if entry.routes > 0 && entry.captures == 0 {
            self.inherit(id, &ends, &mut next_hops);
        }
        if next_hops.is_empty() {
            // No FIB prefix, unless there is a strategy choice: then the next hops are those of the
            // next shorter entry, which this prefix hides from longest prefix match.
            entry.strategy?;
            let hidden = ends.shorter_prefixes(&entry.name).find_map(|shorter| {
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

    fn inherit(&self, id: EntryId, ends: &ComponentEnds, next_hops: &mut Vec<NextHop>) {
        let mut nearer: Vec<EntryId> = Vec::new();
        let name = self.entry(id).name.clone();
        for shorter in ends.shorter_prefixes(&name) {
            let Some(&from) = self.index.get(shorter) else { continue };
            let is_known = |face: FaceId| {
                self.has_own_state(id, face)
                    || nearer.iter().any(|id| self.inheritable_cost(*id, face).is_some())
            };
            let inherited =
                self.cheapest(&self.inheritable_costs, from).filter(|hop| !is_known(hop.face));
            next_hops.extend(inherited.take(self.next_hops_max));
            if self.entry(from).captures > 0 {
                break;
            }
            nearer.push(from);
        }
    }

    fn strategy(&self, id: EntryId, ends: &ComponentEnds) -> StrategyId {
        let entry = self.entry(id);
        let shorter = || {
            ends.shorter_prefixes(&entry.name)
                .find_map(|shorter| self.strategies.get(shorter).map(|(id, _)| *id))
        };
        entry.strategy.or_else(shorter).expect("the name / always has a strategy")
    }

    fn cheapest<'a>(
        &self,
        costs: &'a BTreeSet<(EntryId, u32, FaceId)>,
        id: EntryId,
    ) -> impl Iterator<Item = NextHop> + use<'a> {
        let of_entry =
            costs.range((id, 0, FaceId::NONE)..=(id, u32::MAX, FaceId::from_bits(u32::MAX)));
        of_entry.map(|(_, cost, face)| NextHop { face: *face, cost: *cost })
    }

    /// Returns whether the entry has a route or direct next hop of this face, and so inherits none
    /// for it.
    fn has_own_state(&self, id: EntryId, face: FaceId) -> bool {
        self.names_by_face.contains(&(face, id))
    }

    /// Returns the cost of a face by the entry's own routes and direct next hops. `None` if it is
    /// no next hop.
    pub(super) fn own_cost(&self, id: EntryId, face: FaceId) -> Option<u32> {
        match self.direct.get(&(id, face)) {
            Some(DirectNextHop::Cost(cost)) => Some(*cost),
            Some(DirectNextHop::Unlisted) => Some(0),
            Some(DirectNextHop::Suppressed) => None,
            None => self
                .routes
                .range((id, face, 0)..=(id, face, u64::MAX))
                .map(|(_, route)| cost_of(route))
                .min(),
        }
    }

    /// Returns the cost of a face by the routes that names below inherit.
    pub(super) fn inheritable_cost(&self, id: EntryId, face: FaceId) -> Option<u32> {
        let routes =
            self.routes.range((id, face, 0)..=(id, face, u64::MAX)).map(|(_, route)| route);
        routes.filter(|route| is_inherited(route)).map(cost_of).min()
    }
}

/// Byte offsets at which the components of a name end; the first is 0, for `/`.
struct ComponentEnds {
    offsets: [u16; ENDS_MAX],
    len: usize,
}

/// Names in the FIB have at most 32 components, and `/` is one more end.
const ENDS_MAX: usize = 33;

impl ComponentEnds {
    fn of(name: &[u8]) -> Self {
        let mut ends = ComponentEnds { offsets: [0; ENDS_MAX], len: 1 };
        let mut components = NameRef::from_checked(name).components();
        while components.next().is_some() && ends.len < ENDS_MAX {
            ends.offsets[ends.len] = components.consumed() as u16;
            ends.len += 1;
        }
        ends
    }

    /// Returns all shorter prefixes, the longest first.
    fn shorter_prefixes<'a>(&self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let offsets = self.offsets;
        (0..self.len - 1).rev().map(move |index| &name[..usize::from(offsets[index])])
    }
}
