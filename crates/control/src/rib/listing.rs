//! Reads the RIB in canonical order of names, a page at a time.

use super::{EntryId, NameBytes, Rib, Route};
use nw_name::{Name, NameRef};
use nw_tables::FaceId;
use nw_tables::fib::NextHop;
use std::collections::BTreeMap;
use std::ops::Bound;

impl Rib {
    /// Returns a number that increases with every change of routes, next hops or strategy choices.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the number of routes.
    pub fn routes_len(&self) -> usize {
        self.routes.len()
    }

    /// Visits up to `names_max` names after `after` (from the start if `None`), in canonical order,
    /// and passes those with routes to `visit`: name, then face, origin and route of each route.
    /// Returns the last name visited, or `None` at the end.
    pub fn visit_routes(
        &self,
        after: Option<NameRef<'_>>,
        names_max: usize,
        mut visit: impl FnMut(NameRef<'_>, &mut dyn Iterator<Item = (FaceId, u64, &Route)>),
    ) -> Option<Name> {
        visit_after(&self.names, after, names_max, |name, id| {
            if self.entry(*id).routes > 0 {
                visit(name, &mut self.routes_of(*id));
            }
        })
    }

    /// Visits the prefixes with next hops of their own, as [`visit_routes`](Self::visit_routes)
    /// does.
    pub fn visit_next_hops(
        &self,
        after: Option<NameRef<'_>>,
        names_max: usize,
        mut visit: impl FnMut(NameRef<'_>, &[NextHop]),
    ) -> Option<Name> {
        visit_after(&self.names, after, names_max, |name, id| {
            if let Some(hops) = self.next_hops_of(*id).filter(|_| self.entry(*id).is_listed()) {
                visit(name, hops);
            }
        })
    }

    /// Visits the names with a strategy choice, as [`visit_routes`](Self::visit_routes) does, with
    /// the name under which the strategy is listed.
    pub fn visit_strategies(
        &self,
        after: Option<NameRef<'_>>,
        names_max: usize,
        mut visit: impl FnMut(NameRef<'_>, &Name),
    ) -> Option<Name> {
        visit_after(&self.strategies, after, names_max, |name, (_, listed)| visit(name, listed))
    }

    /// Returns the routes of exactly this name: face, origin, route.
    pub fn routes_at(&self, name: NameRef<'_>) -> impl Iterator<Item = (FaceId, u64, &Route)> {
        self.index.get(name.as_bytes()).into_iter().flat_map(|id| self.routes_of(*id))
    }

    fn routes_of(&self, id: EntryId) -> impl Iterator<Item = (FaceId, u64, &Route)> {
        let routes =
            self.routes.range((id, FaceId::NONE, 0)..=(id, FaceId::from_bits(u32::MAX), u64::MAX));
        routes.map(|((_, face, origin), route)| (*face, *origin, route))
    }

    /// Returns the route with this name, face and origin.
    pub fn route(&self, name: NameRef<'_>, face: FaceId, origin: u64) -> Option<&Route> {
        self.routes.get(&(*self.index.get(name.as_bytes())?, face, origin))
    }

    /// Returns the number of prefixes that [`visit_next_hops`](Self::visit_next_hops) passes on.
    pub const fn listed_len(&self) -> usize {
        self.listed
    }

    /// Returns the number of FIB prefixes, including those with only a strategy choice.
    pub fn prefixes_len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn next_hops_of(&self, id: EntryId) -> Option<&[NextHop]> {
        self.entry(id).effective.as_ref().map(|effective| &*effective.next_hops)
    }
}

fn visit_after<T>(
    names: &BTreeMap<NameBytes, T>,
    after: Option<NameRef<'_>>,
    names_max: usize,
    mut visit: impl FnMut(NameRef<'_>, &T),
) -> Option<Name> {
    let from = after.map_or(Bound::Unbounded, |name| Bound::Excluded(name.as_bytes()));
    for (index, (name, value)) in names.range::<[u8], _>((from, Bound::Unbounded)).enumerate() {
        visit(NameRef::from_checked(name), value);
        if index + 1 == names_max {
            return Some(NameRef::from_checked(name).to_name());
        }
    }
    None
}
