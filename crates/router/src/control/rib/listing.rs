//! What there is, in canonical order.

use super::{EntryId, Rib, Route};
use nw_name::{Name, NameRef};
use nw_tables::FaceId;
use nw_tables::fib::NextHop;

impl Rib {
    /// Counts up with every change of routes, next hops or strategies.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Routes there are.
    pub fn routes_len(&self) -> usize {
        self.routes.len()
    }

    /// Names with routes, in canonical order, each with its routes: face, origin, route.
    pub fn routes(&self) -> impl Iterator<Item = (NameRef<'_>, impl Iterator<Item = (FaceId, u64, &Route)>)> {
        self.names.iter().filter(|(_, id)| self.entry(**id).routes > 0).map(|(name, id)| {
            let routes =
                self.routes.range((*id, FaceId::NONE, 0)..=(*id, FaceId::from_bits(u32::MAX), u64::MAX));
            (NameRef::from_checked(name), routes.map(|((_, face, origin), route)| (*face, *origin, route)))
        })
    }

    /// The route of a name, face and origin.
    pub fn route(&self, name: NameRef<'_>, face: FaceId, origin: u64) -> Option<&Route> {
        self.routes.get(&(*self.index.get(name.as_bytes())?, face, origin))
    }

    /// Prefixes that have next hops of their own, in canonical order.
    pub fn next_hops(&self) -> impl Iterator<Item = (NameRef<'_>, &[NextHop])> {
        self.names.iter().filter(|(_, id)| self.entry(**id).is_routed()).filter_map(|(name, id)| {
            let hops = self.next_hops_of(*id)?;
            (!hops.is_empty()).then_some((NameRef::from_checked(name), hops))
        })
    }

    /// Names with a strategy choice, in canonical order, each with the strategy's listed name.
    pub fn strategies(&self) -> impl Iterator<Item = (NameRef<'_>, &Name)> {
        self.strategies.iter().map(|(name, (_, listed))| (NameRef::from_checked(name), listed))
    }

    /// Prefixes that the FIB holds.
    pub fn prefixes_len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn next_hops_of(&self, id: EntryId) -> Option<&[NextHop]> {
        self.entry(id).effective.as_ref().map(|effective| &*effective.next_hops)
    }
}
