//! Routes, direct next hops and strategy choices by name, and the FIB entries that follow from
//! them.
//!
//! A name is an *entry* while it has any of the three. The FIB holds one prefix per entry, with its
//! *effective* next hops and strategy:
//!
//! * A name with routes: per face the cheapest of its own routes. Unless one of its routes has
//!   CAPTURE, it also inherits routes with CHILD_INHERIT from shorter names, the longest first, for
//!   faces not listed yet, up to and including the first name with CAPTURE.
//! * A name with only a strategy choice: the next hops of the next shorter entry, which longest
//!   prefix match would have found without this entry.
//! * The strategy is that of the longest prefix with a strategy choice.
//!
//! Bounds: `routes_max` routes and direct next hops; the number of entries is bounded by the FIB,
//! which refuses more. A change costs O(log n) for the name itself and for the first few affected
//! names below it. The others are recomputed by [`Rib::work`], a part per call;
//! [`Rib::applied_seq`] shows the progress. Everything that is iterated is an ordered map, so the
//! order is deterministic.

mod effective;
mod listing;
#[cfg(test)]
mod model;
mod walk;

use super::environment::FibChange;
use nw_name::{Name, NameRef};
use nw_tables::fib::{NextHop, StrategyId};
use nw_tables::{FaceId, Timestamp};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use walk::Walks;

/// A route to a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Cost of the route. The FIB stores costs up to 2^32-1.
    pub cost: u64,
    /// Bits of [`flags`](nw_api::management::flags).
    pub flags: u64,
    /// When the route expires; [`Timestamp::NEVER`] if it lives as long as its face.
    pub expires: Timestamp,
}

/// A next hop set by a `fib` command or by the router itself, not by a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectNextHop {
    /// The next hop has this cost, whatever the routes of its face are.
    Cost(u32),
    /// The next hop has cost 0 and is not listed in datasets; for the router's own prefixes.
    Unlisted,
    /// The next hop is removed although it has routes, until one of these is registered again.
    Suppressed,
}

/// The limit of routes and direct next hops is reached; the value is the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRoutes(pub usize);

type NameBytes = Arc<[u8]>;
/// Index of an entry. Reused after the entry is removed.
pub(crate) type EntryId = u32;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Effective {
    next_hops: Arc<[NextHop]>,
    strategy: StrategyId,
}

#[derive(Debug)]
struct Entry {
    name: NameBytes,
    routes: u32,
    /// Number of routes with CAPTURE.
    captures: u32,
    direct: u32,
    /// Number of direct next hops that are not listed.
    unlisted: u32,
    /// Counted in [`Rib::listed_len`].
    listed: bool,
    strategy: Option<StrategyId>,
    /// Value in the FIB once all pending changes are applied.
    effective: Option<Effective>,
}

/// A change that is not applied to the FIB yet.
#[derive(Debug)]
struct Change {
    name: NameBytes,
    before: Option<Effective>,
    after: Option<Effective>,
}

/// The routing information base.
#[derive(Debug)]
pub struct Rib {
    next_hops_max: usize,
    routes_max: usize,
    /// In canonical order: the names below a name follow it directly.
    names: BTreeMap<NameBytes, EntryId>,
    /// The same entries as a hash table, for lookups. Never iterated.
    index: HashMap<NameBytes, EntryId>,
    entries: Vec<Option<Entry>>,
    entries_free: Vec<EntryId>,
    routes: BTreeMap<(EntryId, FaceId, u64), Route>,
    direct: BTreeMap<(EntryId, FaceId), DirectNextHop>,
    /// Cheapest cost per face of an entry's own routes and direct next hops.
    own_costs: BTreeSet<(EntryId, u32, FaceId)>,
    /// Cheapest cost per face of routes that shorter names pass on.
    inheritable_costs: BTreeSet<(EntryId, u32, FaceId)>,
    names_by_face: BTreeSet<(FaceId, EntryId)>,
    expiries: BTreeSet<(Timestamp, EntryId, FaceId, u64)>,
    strategies: BTreeMap<NameBytes, (StrategyId, Name)>,
    changes: Vec<Change>,
    /// Number of entries with next hops of their own.
    listed: usize,
    generation: u64,
    walks: Walks,
    /// Closed faces that still have routes.
    removed_faces: BTreeSet<FaceId>,
    /// Names below a changed one that the change itself may recompute.
    immediate_max: usize,
    /// How many of them remain for the current change.
    immediate_left: usize,
    /// Names with changed routes; `None` while changes are not tracked.
    changed_names: Option<Vec<NameBytes>>,
}

/// Names recomputed within a change itself, such as those below a changed one. The rest is left to
/// [`Rib::work`].
const IMMEDIATE_MAX: usize = 8;

/// Largest initial capacity of the tables of names.
const INDEX_NAMES_MAX: usize = 16 << 20;

impl Rib {
    /// Creates a RIB with one entry: `/` with the strategy `strategy`, listed under the name
    /// `listed`.
    ///
    /// A FIB prefix gets at most `next_hops_max` next hops, the cheapest. There are at most
    /// `routes_max` routes and direct next hops.
    pub fn new(
        next_hops_max: usize,
        routes_max: usize,
        strategy: StrategyId,
        listed: Name,
    ) -> Self {
        let mut rib = Rib {
            next_hops_max,
            routes_max,
            names: BTreeMap::new(),
            // Allocated at once: growing a table with a million names would be a long pause. Memory
            // that is never used is never touched.
            index: HashMap::with_capacity(routes_max.min(INDEX_NAMES_MAX)),
            entries: Vec::with_capacity(routes_max.min(INDEX_NAMES_MAX)),
            entries_free: Vec::with_capacity(routes_max.min(INDEX_NAMES_MAX)),
            routes: BTreeMap::new(),
            direct: BTreeMap::new(),
            own_costs: BTreeSet::new(),
            inheritable_costs: BTreeSet::new(),
            names_by_face: BTreeSet::new(),
            expiries: BTreeSet::new(),
            strategies: BTreeMap::new(),
            changes: Vec::new(),
            listed: 0,
            generation: 0,
            walks: Walks::default(),
            removed_faces: BTreeSet::new(),
            immediate_max: IMMEDIATE_MAX,
            immediate_left: IMMEDIATE_MAX,
            changed_names: None,
        };
        rib.set_strategy(NameRef::ROOT, strategy, listed);
        rib
    }

    /// Adds a route, or replaces and returns the route with the same name, face and origin.
    ///
    /// # Errors
    /// If the limit of routes is reached.
    pub fn register(
        &mut self,
        name: NameRef<'_>,
        face: FaceId,
        origin: u64,
        route: Route,
    ) -> Result<Option<Route>, TooManyRoutes> {
        self.immediate_left = self.immediate_max;
        self.remove_stale_suppressions(name);
        let exists = self
            .index
            .get(name.as_bytes())
            .is_some_and(|id| self.routes.contains_key(&(*id, face, origin)));
        if !exists && self.routes.len() + self.direct.len() >= self.routes_max {
            return Err(TooManyRoutes(self.routes_max));
        }
        let id = self.entry_or_create(name);
        let suppressed = self.direct.get(&(id, face)) == Some(&DirectNextHop::Suppressed);
        let mut before = None;
        self.change_face(id, face, suppressed, |rib| {
            if suppressed {
                rib.put_direct(id, face, None);
            }
            before = rib.put_route(id, face, origin, Some(route));
        });
        Ok(before)
    }

    /// Removes and returns a route. `None` if there is no such route.
    pub fn unregister(&mut self, name: NameRef<'_>, face: FaceId, origin: u64) -> Option<Route> {
        self.immediate_left = self.immediate_max;
        self.remove_stale_suppressions(name);
        let id = *self.index.get(name.as_bytes())?;
        let mut before = None;
        self.change_face(id, face, false, |rib| before = rib.put_route(id, face, origin, None));
        before
    }

    /// Sets or removes a direct next hop. Returns the previous one.
    ///
    /// # Errors
    /// If the limit of routes and direct next hops is reached.
    pub fn set_direct(
        &mut self,
        name: NameRef<'_>,
        face: FaceId,
        direct: Option<DirectNextHop>,
    ) -> Result<Option<DirectNextHop>, TooManyRoutes> {
        self.immediate_left = self.immediate_max;
        self.remove_stale_suppressions(name);
        let exists = self
            .index
            .get(name.as_bytes())
            .is_some_and(|id| self.direct.contains_key(&(*id, face)));
        if direct.is_some() && !exists && self.routes.len() + self.direct.len() >= self.routes_max {
            return Err(TooManyRoutes(self.routes_max));
        }
        if direct.is_none() && !exists {
            return Ok(None);
        }
        let id = self.entry_or_create(name);
        let mut before = None;
        self.change_face(id, face, true, |rib| before = rib.put_direct(id, face, direct));
        Ok(before)
    }

    /// Removes a next hop of exactly this prefix, whether a route or a command set it. Returns
    /// whether it existed.
    pub fn remove_next_hop(&mut self, name: NameRef<'_>, face: FaceId) -> bool {
        self.immediate_left = self.immediate_max;
        self.remove_stale_suppressions(name);
        let Some(&id) = self.index.get(name.as_bytes()) else { return false };
        if !self.next_hops_of(id).is_some_and(|hops| hops.iter().any(|hop| hop.face == face)) {
            return false;
        }
        // A next hop without routes needs no suppression.
        let has_routes = self.entry(id).routes > 0;
        let direct = has_routes.then_some(DirectNextHop::Suppressed);
        // The number of direct next hops can't exceed the limit: the suppression replaces a route's
        // next hop.
        self.change_face(id, face, true, |rib| {
            rib.put_direct(id, face, direct);
        });
        true
    }

    /// Sets the strategy choice of a name. Returns the previous one.
    pub fn set_strategy(
        &mut self,
        name: NameRef<'_>,
        strategy: StrategyId,
        listed: Name,
    ) -> Option<(StrategyId, Name)> {
        self.immediate_left = self.immediate_max;
        let id = self.entry_or_create(name);
        self.generation += 1;
        self.entry_mut(id).strategy = Some(strategy);
        let bytes = self.entry(id).name.clone();
        let before = self.strategies.insert(bytes, (strategy, listed));
        self.refresh(id, false, true);
        before
    }

    /// Removes and returns the strategy choice of a name. `/` keeps its choice.
    pub fn unset_strategy(&mut self, name: NameRef<'_>) -> Option<(StrategyId, Name)> {
        self.immediate_left = self.immediate_max;
        if name.is_empty() {
            return None;
        }
        let before = self.strategies.remove(name.as_bytes())?;
        let id = self.index[name.as_bytes()];
        self.generation += 1;
        self.entry_mut(id).strategy = None;
        self.refresh(id, false, true);
        self.release_if_empty(id);
        Some(before)
    }

    /// Enables or disables [`take_changed_names`](Self::take_changed_names).
    pub fn track_changes(&mut self, enabled: bool) {
        match enabled {
            true => drop(self.changed_names.get_or_insert_default()),
            false => self.changed_names = None,
        }
    }

    /// Returns whether [`take_changed_names`](Self::take_changed_names) would return a name.
    pub fn has_changed_names(&self) -> bool {
        self.changed_names.as_ref().is_some_and(|names| !names.is_empty())
    }

    /// Returns the names with routes that changed since the last call.
    pub fn take_changed_names(&mut self) -> impl Iterator<Item = Name> + use<> {
        let names = self.changed_names.as_mut().map(core::mem::take).unwrap_or_default();
        names.into_iter().map(|name| NameRef::from_checked(&name).to_name())
    }

    /// Removes all routes and next hops of a closed face: some of them at once, the others by
    /// [`work`](Self::work). The face id must not be reused.
    pub fn remove_face(&mut self, face: FaceId) {
        self.removed_faces.insert(face);
        // Half of the budget for the face's own names, half for those below them.
        self.immediate_left = self.immediate_max / 2;
        self.remove_face_part(face, self.immediate_max / 2);
    }

    /// Removes a face from up to `names_max` names. Returns from how many.
    fn remove_face_part(&mut self, face: FaceId, names_max: usize) -> usize {
        let names = self.names_by_face.range((face, 0)..=(face, EntryId::MAX));
        let ids: Vec<EntryId> = names.take(names_max).map(|(_, id)| *id).collect();
        if ids.len() < names_max {
            self.removed_faces.remove(&face);
        }
        for id in &ids {
            self.remove_face_from(*id, face);
        }
        ids.len()
    }

    /// Removes the routes and the direct next hop of a face from an entry.
    fn remove_face_from(&mut self, id: EntryId, face: FaceId) {
        let routes = self.routes.range((id, face, 0)..=(id, face, u64::MAX));
        let origins: Vec<u64> = routes.map(|((_, _, origin), _)| *origin).collect();
        self.change_face(id, face, false, |rib| {
            rib.put_direct(id, face, None);
            for origin in origins {
                rib.put_route(id, face, origin, None);
            }
        });
    }

    /// Removes the suppressions of a name whose routes all belong to closed faces. They go with the
    /// last of these routes, so a change of the name must not depend on how far
    /// [`work`](Self::work) is with them.
    fn remove_stale_suppressions(&mut self, name: NameRef<'_>) {
        if self.removed_faces.is_empty() {
            return;
        }
        let Some(&id) = self.index.get(name.as_bytes()) else { return };
        let suppressed = self.suppressed_faces(id);
        let last = FaceId::from_bits(u32::MAX);
        let mut routes = self.routes.range((id, FaceId::NONE, 0)..=(id, last, u64::MAX));
        if suppressed.is_empty()
            || !routes.all(|((_, face, _), _)| self.removed_faces.contains(face))
        {
            return;
        }
        for face in suppressed {
            self.change_face(id, face, true, |rib| {
                rib.put_direct(id, face, None);
            });
        }
    }

    /// Returns when the next route expires.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.expiries.first().map(|(expires, ..)| *expires)
    }

    /// Removes expired routes, at most `limit`. Returns whether there may be more.
    pub fn expire(&mut self, now: Timestamp, limit: usize) -> bool {
        self.immediate_left = self.immediate_max;
        for _ in 0..limit {
            match self.expiries.first() {
                Some(&(expires, id, face, origin)) if expires <= now => {
                    self.change_face(id, face, false, |rib| {
                        rib.put_route(id, face, origin, None);
                    });
                }
                _ => return false,
            }
        }
        true
    }

    /// Passes all pending changes to `apply`, prefixes before the names below them.
    ///
    /// # Errors
    /// If `apply` fails, it returns how many changes it made. The others are reverted: they are not
    /// tried again until something changes at their names.
    pub fn flush<E>(
        &mut self,
        apply: impl FnOnce(&[FibChange<'_>]) -> Result<(), (usize, E)>,
    ) -> Result<(), E> {
        let (result, changes) = self.apply_changes(apply);
        let Err((made, error)) = result else { return Ok(()) };
        // In reverse order, so that of several changes to one name the oldest state remains.
        self.revert(changes.into_iter().skip(made).rev());
        Err(error)
    }

    /// Passes pending changes to `apply` as [`flush`](Self::flush) does, but continues after a
    /// change that fails and reverts only that one.
    ///
    /// # Errors
    /// The number of failed changes and the first error.
    pub fn flush_each<E>(
        &mut self,
        mut apply: impl FnMut(&[FibChange<'_>]) -> Result<(), (usize, E)>,
    ) -> Result<(), (usize, E)> {
        let mut refused = None;
        loop {
            let (result, changes) = self.apply_changes(&mut apply);
            let Err((made, error)) = result else { break };
            let mut unapplied = changes.into_iter().skip(made);
            self.revert(unapplied.next().into_iter());
            self.changes = unapplied.collect();
            let (count, _) = refused.get_or_insert((0, error));
            *count += 1;
        }
        refused.map_or(Ok(()), Err)
    }

    fn apply_changes<E>(
        &mut self,
        apply: impl FnOnce(&[FibChange<'_>]) -> Result<(), (usize, E)>,
    ) -> (Result<(), (usize, E)>, Vec<Change>) {
        if self.changes.is_empty() {
            return (Ok(()), Vec::new());
        }
        let mut changes = core::mem::take(&mut self.changes);
        let fib_changes: Vec<FibChange<'_>> = changes
            .iter()
            .map(|change| {
                let name = NameRef::from_checked(&change.name);
                match &change.after {
                    Some(after) => FibChange::Set {
                        name,
                        next_hops: &after.next_hops,
                        strategy: after.strategy,
                    },
                    None => FibChange::Remove { name },
                }
            })
            .collect();
        let result = apply(&fib_changes);
        drop(fib_changes);
        if result.is_ok() {
            changes.clear();
            // Keep the allocation unless many changes at once made it large.
            if changes.capacity() <= 1024 {
                self.changes = changes;
            }
            return (Ok(()), Vec::new());
        }
        (result, changes)
    }

    fn revert(&mut self, changes: impl Iterator<Item = Change>) {
        for change in changes {
            if let Some(id) = self.index.get(&change.name) {
                let id = *id;
                self.entry_mut(id).effective = change.before;
                self.count_listed(id);
            }
        }
    }

    fn entry(&self, id: EntryId) -> &Entry {
        self.entries[id as usize].as_ref().expect("an id is used while its entry is there")
    }

    fn entry_mut(&mut self, id: EntryId) -> &mut Entry {
        self.entries[id as usize].as_mut().expect("an id is used while its entry is there")
    }

    fn entry_or_create(&mut self, name: NameRef<'_>) -> EntryId {
        if let Some(id) = self.index.get(name.as_bytes()) {
            return *id;
        }
        let name: NameBytes = name.as_bytes().into();
        let entry = Entry {
            name: name.clone(),
            routes: 0,
            captures: 0,
            direct: 0,
            unlisted: 0,
            listed: false,
            strategy: None,
            effective: None,
        };
        let id = match self.entries_free.pop() {
            Some(id) => {
                self.entries[id as usize] = Some(entry);
                id
            }
            None => {
                self.entries.push(Some(entry));
                (self.entries.len() - 1) as EntryId
            }
        };
        self.index.insert(name.clone(), id);
        self.names.insert(name, id);
        id
    }

    fn release_if_empty(&mut self, id: EntryId) {
        let entry = self.entry(id);
        if entry.routes == 0 && entry.direct == 0 && entry.strategy.is_none() {
            let name = entry.name.clone();
            self.listed -= usize::from(entry.listed);
            self.names.remove(&name);
            self.index.remove(&name);
            self.entries[id as usize] = None;
            self.entries_free.push(id);
        }
    }

    /// Executes `change`, which may modify only one face of one entry, and updates everything that
    /// depends on it.
    fn change_face(
        &mut self,
        id: EntryId,
        face: FaceId,
        force: bool,
        change: impl FnOnce(&mut Self),
    ) {
        let own_before = self.own_cost(id, face);
        let inheritable_before = self.inheritable_cost(id, face);
        let captured_before = self.entry(id).captures > 0;
        let routed_before = self.entry(id).routes > 0;
        change(self);
        self.generation += 1;
        if let Some(names) = &mut self.changed_names {
            let entry =
                self.entries[id as usize].as_ref().expect("an id is used while its entry is there");
            names.push(entry.name.clone());
        }
        if routed_before && self.entry(id).routes == 0 {
            self.remove_suppressions(id);
        }
        let (own_now, inheritable_now) = (self.own_cost(id, face), self.inheritable_cost(id, face));
        update_cost(&mut self.own_costs, id, face, own_before, own_now);
        update_cost(&mut self.inheritable_costs, id, face, inheritable_before, inheritable_now);
        let entry = self.entry(id);
        let captures_changed = captured_before != (entry.captures > 0);
        let has_any = own_now.is_some()
            || self.direct.contains_key(&(id, face))
            || self.routes.range((id, face, 0)..=(id, face, u64::MAX)).next().is_some();
        if has_any {
            self.names_by_face.insert((face, id));
        } else {
            self.names_by_face.remove(&(face, id));
        }
        let inherits = captures_changed || inheritable_before != inheritable_now;
        if force
            || inherits
            || own_before != own_now
            || routed_before != (self.entry(id).routes > 0)
        {
            self.refresh(id, inherits, false);
        }
        self.count_listed(id);
        self.release_if_empty(id);
    }

    /// Updates the number of listed entries after a change of one of them.
    fn count_listed(&mut self, id: EntryId) {
        let entry =
            self.entries[id as usize].as_mut().expect("an id is used while its entry is there");
        let listed = entry.is_listed();
        self.listed = self.listed + usize::from(listed) - usize::from(entry.listed);
        entry.listed = listed;
    }

    /// Returns the faces that are suppressed as next hops of an entry.
    fn suppressed_faces(&self, id: EntryId) -> Vec<FaceId> {
        let direct = self.direct.range((id, FaceId::NONE)..=(id, FaceId::from_bits(u32::MAX)));
        direct
            .filter(|(_, direct)| **direct == DirectNextHop::Suppressed)
            .map(|((_, face), _)| *face)
            .collect()
    }

    /// Removes the suppressions of an entry without routes, which have no effect.
    fn remove_suppressions(&mut self, id: EntryId) {
        let faces = self.suppressed_faces(id);
        for face in faces {
            self.put_direct(id, face, None);
            self.names_by_face.remove(&(face, id));
        }
    }

    fn put_route(
        &mut self,
        id: EntryId,
        face: FaceId,
        origin: u64,
        route: Option<Route>,
    ) -> Option<Route> {
        let key = (id, face, origin);
        let before = match route {
            Some(route) => self.routes.insert(key, route),
            None => self.routes.remove(&key),
        };
        let entry =
            self.entries[id as usize].as_mut().expect("an id is used while its entry is there");
        for (route, is_added) in [(before, false), (route, true)] {
            let Some(route) = route else { continue };
            let expiry = (route.expires, id, face, origin);
            if is_added {
                entry.routes += 1;
                entry.captures += u32::from(captures(&route));
                if route.expires != Timestamp::NEVER {
                    self.expiries.insert(expiry);
                }
            } else {
                entry.routes -= 1;
                entry.captures -= u32::from(captures(&route));
                self.expiries.remove(&expiry);
            }
        }
        before
    }

    fn put_direct(
        &mut self,
        id: EntryId,
        face: FaceId,
        direct: Option<DirectNextHop>,
    ) -> Option<DirectNextHop> {
        let before = match direct {
            Some(direct) => self.direct.insert((id, face), direct),
            None => self.direct.remove(&(id, face)),
        };
        let entry = self.entry_mut(id);
        let count = |direct: Option<DirectNextHop>| {
            (u32::from(direct.is_some()), u32::from(direct == Some(DirectNextHop::Unlisted)))
        };
        let (added, removed) = (count(direct), count(before));
        entry.direct = entry.direct + added.0 - removed.0;
        entry.unlisted = entry.unlisted + added.1 - removed.1;
        before
    }
}

impl Entry {
    const fn is_routed(&self) -> bool {
        self.routes > 0 || self.direct > 0
    }

    /// Returns whether datasets show the entry: it has next hops of its own.
    fn is_listed(&self) -> bool {
        let has_hops =
            self.effective.as_ref().is_some_and(|effective| !effective.next_hops.is_empty());
        (self.routes > 0 || self.direct > self.unlisted) && has_hops
    }
}

fn captures(route: &Route) -> bool {
    route.flags & nw_api::management::flags::CAPTURE != 0
}

fn is_inherited(route: &Route) -> bool {
    route.flags & nw_api::management::flags::CHILD_INHERIT != 0
}

fn cost_of(route: &Route) -> u32 {
    u32::try_from(route.cost).unwrap_or(u32::MAX)
}

fn update_cost(
    costs: &mut BTreeSet<(EntryId, u32, FaceId)>,
    id: EntryId,
    face: FaceId,
    from: Option<u32>,
    to: Option<u32>,
) {
    if from != to {
        if let Some(cost) = from {
            costs.remove(&(id, cost, face));
        }
        if let Some(cost) = to {
            costs.insert((id, cost, face));
        }
    }
}
