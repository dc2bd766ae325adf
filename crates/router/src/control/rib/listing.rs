//! What there is, in canonical order.

use super::{EntryId, Octets, Rib, Route};
use nw_name::{Name, NameRef};
use nw_tables::FaceId;
use nw_tables::fib::NextHop;
use std::collections::BTreeMap;
use std::ops::Bound;

impl Rib {
    /// Counts up with every change of routes, next hops or strategies.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Routes there are.
    pub fn routes_len(&self) -> usize {
        self.routes.len()
    }

    /// Looks at up to `names_max` names behind `behind` (from the beginning if `None`), in canonical order, and shows those with routes, each with
    /// its routes: face, origin, route. Gives the name it stopped at, `None` at the end.
    pub fn routes_part(
        &self,
        behind: Option<NameRef<'_>>,
        names_max: usize,
        mut each: impl FnMut(NameRef<'_>, &mut dyn Iterator<Item = (FaceId, u64, &Route)>),
    ) -> Option<Name> {
        part(&self.names, behind, names_max, |name, id| {
            if self.entry(*id).routes > 0 {
                each(name, &mut self.routes_of(*id));
            }
        })
    }

    /// As [`routes_part`](Self::routes_part), prefixes with next hops of their own.
    pub fn next_hops_part(
        &self,
        behind: Option<NameRef<'_>>,
        names_max: usize,
        mut each: impl FnMut(NameRef<'_>, &[NextHop]),
    ) -> Option<Name> {
        part(&self.names, behind, names_max, |name, id| {
            if let Some(hops) = self.next_hops_of(*id).filter(|_| self.entry(*id).is_listed()) {
                each(name, hops);
            }
        })
    }

    /// As [`routes_part`](Self::routes_part), names with a strategy choice and the strategy's listed name.
    pub fn strategies_part(
        &self,
        behind: Option<NameRef<'_>>,
        names_max: usize,
        mut each: impl FnMut(NameRef<'_>, &Name),
    ) -> Option<Name> {
        part(&self.strategies, behind, names_max, |name, (_, listed)| each(name, listed))
    }

    /// Routes of exactly this name: face, origin, route.
    pub fn routes_at(&self, name: NameRef<'_>) -> impl Iterator<Item = (FaceId, u64, &Route)> {
        self.index.get(name.as_bytes()).into_iter().flat_map(|id| self.routes_of(*id))
    }

    fn routes_of(&self, id: EntryId) -> impl Iterator<Item = (FaceId, u64, &Route)> {
        let routes = self.routes.range((id, FaceId::NONE, 0)..=(id, FaceId::from_bits(u32::MAX), u64::MAX));
        routes.map(|((_, face, origin), route)| (*face, *origin, route))
    }

    /// The route of a name, face and origin.
    pub fn route(&self, name: NameRef<'_>, face: FaceId, origin: u64) -> Option<&Route> {
        self.routes.get(&(*self.index.get(name.as_bytes())?, face, origin))
    }

    /// Prefixes that [`next_hops_part`](Self::next_hops_part) shows.
    pub const fn listed_len(&self) -> usize {
        self.listed
    }

    /// Prefixes that the FIB holds: those too that only have a strategy.
    pub fn prefixes_len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn next_hops_of(&self, id: EntryId) -> Option<&[NextHop]> {
        self.entry(id).effective.as_ref().map(|effective| &*effective.next_hops)
    }
}

fn part<T>(
    names: &BTreeMap<Octets, T>,
    behind: Option<NameRef<'_>>,
    names_max: usize,
    mut each: impl FnMut(NameRef<'_>, &T),
) -> Option<Name> {
    let from = behind.map_or(Bound::Unbounded, |name| Bound::Excluded(name.as_bytes()));
    for (at, (name, value)) in names.range::<[u8], _>((from, Bound::Unbounded)).enumerate() {
        each(NameRef::from_checked(name), value);
        if at + 1 == names_max {
            return Some(NameRef::from_checked(name).to_name());
        }
    }
    None
}
