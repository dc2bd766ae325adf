//! Routes, next hops set by hand and strategy choices by name; and what the FIB has to hold because of them.
//!
//! A name is an *entry* while it has any of the three. The FIB holds one prefix per entry, with its *effective* next hops and strategy:
//!
//! * a name with routes: per face the cheapest of its own; then, unless one of its routes captures, routes with CHILD_INHERIT of shorter names,
//!   nearest first, of faces not had yet, up to and with the first name that captures;
//! * a name with nothing but a strategy choice: what the next shorter entry has, as longest prefix match would have found that;
//! * the strategy of the longest prefix for which one was chosen.
//!
//! State and its bound: `routes_max` routes and next hops; entries are bounded by the FIB, which refuses more. Cost of a change: O(log n) for the
//! name itself and for the first few names below that are affected; the others are brought up to date by [`Rib::work`], a part at a time, and
//! [`Rib::settled`] tells when. Whatever is walked is an ordered map.

mod effective;
mod listing;
#[cfg(test)]
mod model;
mod walk;

use super::environment::FibChange;
use nw_name::{Name, NameRef};
use nw_tables::fib::{NextHop, StrategyId};
use nw_tables::{FaceId, Instant};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use walk::Walks;

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its cost; the FIB knows costs up to 2^32-1.
    pub cost: u64,
    /// Bits: see [`flags`](nw_api::management::flags).
    pub flags: u64,
    /// When it ends; [`Instant::NEVER`] for as long as its face.
    pub expires: Instant,
}

/// A next hop set by a `fib` command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByHand {
    /// It is there, whatever routes say.
    Cost(u32),
    /// As a cost of 0, for the router's own purposes: not listed.
    Unlisted,
    /// It is not, until a route of that face is registered again.
    Without,
}

/// There are as many routes as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRoutes(pub usize);

type Octets = Arc<[u8]>;
/// Index of an entry, while it is one.
pub(in crate::control) type EntryId = u32;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Effective {
    next_hops: Arc<[NextHop]>,
    strategy: StrategyId,
}

#[derive(Debug)]
struct Entry {
    name: Octets,
    routes: u32,
    /// Routes with CAPTURE.
    captures: u32,
    by_hand: u32,
    /// Of these, next hops that are not listed.
    unlisted: u32,
    /// It is counted among those that are listed.
    listed: bool,
    strategy: Option<StrategyId>,
    /// What the FIB holds, or will hold once the changes are applied.
    effective: Option<Effective>,
}

/// A change that the FIB has not been told yet.
#[derive(Debug)]
struct Change {
    name: Octets,
    before: Option<Effective>,
    after: Option<Effective>,
}

/// See the module.
#[derive(Debug)]
pub struct Rib {
    next_hops_max: usize,
    routes_max: usize,
    /// In canonical order: names below a name stand right behind it.
    names: BTreeMap<Octets, EntryId>,
    /// The same, for finding one: a step less to memory than the tree. Never walked.
    index: HashMap<Octets, EntryId>,
    entries: Vec<Option<Entry>>,
    entries_free: Vec<EntryId>,
    routes: BTreeMap<(EntryId, FaceId, u64), Route>,
    by_hand: BTreeMap<(EntryId, FaceId), ByHand>,
    /// Cheapest cost per face of the name's own routes.
    own: BTreeSet<(EntryId, u32, FaceId)>,
    /// Cheapest cost per face of routes that are inherited.
    inheritable: BTreeSet<(EntryId, u32, FaceId)>,
    of_face: BTreeSet<(FaceId, EntryId)>,
    expiries: BTreeSet<(Instant, EntryId, FaceId, u64)>,
    strategies: BTreeMap<Octets, (StrategyId, Name)>,
    changes: Vec<Change>,
    /// Entries that are listed: those with next hops of their own.
    listed: usize,
    generation: u64,
    walks: Walks,
    /// Faces that are gone and still have routes here.
    leaving: BTreeSet<FaceId>,
    /// Names that one change may touch at once, its own not counted.
    at_once_max: usize,
    /// What is left of them for the change that is being made.
    at_once_left: usize,
    /// Names whose routes changed, when somebody wants to know.
    touched: Option<Vec<Octets>>,
}

/// Names that are looked at within a change itself, such as those below a changed one: each takes some 20 µs where memory is cold.
const AT_ONCE_MAX: usize = 8;

/// Names that the index has room for from the start, at most: 1 octet each is resident at once.
const INDEX_NAMES_MAX: usize = 16 << 20;

impl Rib {
    /// Empty, but for `/`, whose strategy is `strategy`, listed as `listed`. A prefix of the FIB gets at most `next_hops_max` next hops (the
    /// cheapest), and there are at most `routes_max` routes and next hops set by hand.
    pub fn new(next_hops_max: usize, routes_max: usize, strategy: StrategyId, listed: Name) -> Self {
        let mut rib = Rib {
            next_hops_max,
            routes_max,
            names: BTreeMap::new(),
            // Growing these would be one long pause with a million names in them; what is never used is never touched.
            index: HashMap::with_capacity(routes_max.min(INDEX_NAMES_MAX)),
            entries: Vec::with_capacity(routes_max.min(INDEX_NAMES_MAX)),
            entries_free: Vec::with_capacity(routes_max.min(INDEX_NAMES_MAX)),
            routes: BTreeMap::new(),
            by_hand: BTreeMap::new(),
            own: BTreeSet::new(),
            inheritable: BTreeSet::new(),
            of_face: BTreeSet::new(),
            expiries: BTreeSet::new(),
            strategies: BTreeMap::new(),
            changes: Vec::new(),
            listed: 0,
            generation: 0,
            walks: Walks::default(),
            leaving: BTreeSet::new(),
            at_once_max: AT_ONCE_MAX,
            at_once_left: AT_ONCE_MAX,
            touched: None,
        };
        rib.set_strategy(NameRef::ROOT, strategy, listed);
        rib
    }

    /// Adds a route or replaces the one of the same name, face and origin; returns that.
    ///
    /// # Errors
    /// When there are too many.
    pub fn register(
        &mut self,
        name: NameRef<'_>,
        face: FaceId,
        origin: u64,
        route: Route,
    ) -> Result<Option<Route>, TooManyRoutes> {
        self.at_once_left = self.at_once_max;
        let known =
            self.index.get(name.as_bytes()).is_some_and(|id| self.routes.contains_key(&(*id, face, origin)));
        if !known && self.routes.len() + self.by_hand.len() >= self.routes_max {
            return Err(TooManyRoutes(self.routes_max));
        }
        let id = self.entry_of(name);
        let masked = self.by_hand.get(&(id, face)) == Some(&ByHand::Without);
        let mut before = None;
        self.change_face(id, face, masked, |rib| {
            if masked {
                rib.put_by_hand(id, face, None);
            }
            before = rib.put_route(id, face, origin, Some(route));
        });
        Ok(before)
    }

    /// Removes a route; returns it.
    pub fn unregister(&mut self, name: NameRef<'_>, face: FaceId, origin: u64) -> Option<Route> {
        self.at_once_left = self.at_once_max;
        let id = *self.index.get(name.as_bytes())?;
        let mut before = None;
        self.change_face(id, face, false, |rib| before = rib.put_route(id, face, origin, None));
        before
    }

    /// Sets or forgets a next hop set by hand; returns what was set before.
    ///
    /// # Errors
    /// When there are too many.
    pub fn set_by_hand(
        &mut self,
        name: NameRef<'_>,
        face: FaceId,
        by_hand: Option<ByHand>,
    ) -> Result<Option<ByHand>, TooManyRoutes> {
        self.at_once_left = self.at_once_max;
        let known = self.index.get(name.as_bytes()).is_some_and(|id| self.by_hand.contains_key(&(*id, face)));
        if by_hand.is_some() && !known && self.routes.len() + self.by_hand.len() >= self.routes_max {
            return Err(TooManyRoutes(self.routes_max));
        }
        if by_hand.is_none() && !known {
            return Ok(None);
        }
        let id = self.entry_of(name);
        let mut before = None;
        self.change_face(id, face, true, |rib| before = rib.put_by_hand(id, face, by_hand));
        Ok(before)
    }

    /// Removes a next hop of exactly this prefix, whoever set it.
    pub fn remove_next_hop(&mut self, name: NameRef<'_>, face: FaceId) -> bool {
        self.at_once_left = self.at_once_max;
        let Some(&id) = self.index.get(name.as_bytes()) else { return false };
        if !self.next_hops_of(id).is_some_and(|hops| hops.iter().any(|hop| hop.face == face)) {
            return false;
        }
        // A next hop that only was set by hand needs no mark that it is not there.
        let has_routes = self.entry(id).routes > 0;
        let by_hand = has_routes.then_some(ByHand::Without);
        // No more is kept than was before, so there can't be too many; were there, the mark replaces what is.
        self.change_face(id, face, true, |rib| {
            rib.put_by_hand(id, face, by_hand);
        });
        true
    }

    /// Chooses a name's strategy; returns the choice before.
    pub fn set_strategy(
        &mut self,
        name: NameRef<'_>,
        strategy: StrategyId,
        listed: Name,
    ) -> Option<(StrategyId, Name)> {
        self.at_once_left = self.at_once_max;
        let id = self.entry_of(name);
        self.generation += 1;
        self.entry_mut(id).strategy = Some(strategy);
        let octets = self.entry(id).name.clone();
        let before = self.strategies.insert(octets, (strategy, listed));
        self.refresh(id, false, true);
        before
    }

    /// Leaves a name's strategy to shorter names; returns the choice before. `/` keeps its strategy.
    pub fn unset_strategy(&mut self, name: NameRef<'_>) -> Option<(StrategyId, Name)> {
        self.at_once_left = self.at_once_max;
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

    /// Whether [`take_touched`](Self::take_touched) shall tell.
    pub fn watch(&mut self, yes: bool) {
        match yes {
            true => drop(self.touched.get_or_insert_default()),
            false => self.touched = None,
        }
    }

    /// True when there is something to be told.
    pub fn has_touched(&self) -> bool {
        self.touched.as_ref().is_some_and(|touched| !touched.is_empty())
    }

    /// Names whose routes changed since the last call.
    pub fn take_touched(&mut self) -> impl Iterator<Item = Name> + use<> {
        let touched = self.touched.as_mut().map(core::mem::take).unwrap_or_default();
        touched.into_iter().map(|name| NameRef::from_checked(&name).to_name())
    }

    /// Forgets all of a face, which must not come back: some of it at once, the rest by [`work`](Self::work).
    pub fn remove_face(&mut self, face: FaceId) {
        self.leaving.insert(face);
        // Half for its own names, half for those below them.
        self.at_once_left = self.at_once_max / 2;
        self.forget_part(face, self.at_once_max / 2);
    }

    /// Forgets a face at up to `names_max` names; how many there were.
    fn forget_part(&mut self, face: FaceId, names_max: usize) -> usize {
        let of_face = self.of_face.range((face, 0)..=(face, EntryId::MAX));
        let ids: Vec<EntryId> = of_face.take(names_max).map(|(_, id)| *id).collect();
        if ids.len() < names_max {
            self.leaving.remove(&face);
        }
        for id in &ids {
            let id = *id;
            let routes = self.routes.range((id, face, 0)..=(id, face, u64::MAX));
            let origins: Vec<u64> = routes.map(|((_, _, origin), _)| *origin).collect();
            self.change_face(id, face, false, |rib| {
                rib.put_by_hand(id, face, None);
                for origin in origins {
                    rib.put_route(id, face, origin, None);
                }
            });
        }
        ids.len()
    }

    /// When the next route ends by itself.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.expiries.first().map(|(expires, ..)| *expires)
    }

    /// Removes routes whose time has come, at most `limit` of them; true when there may be more.
    pub fn expire(&mut self, now: Instant, limit: usize) -> bool {
        self.at_once_left = self.at_once_max;
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

    /// Gives what the FIB has not been told to `apply`, prefixes before names below them. `apply` says how many of the changes it made; those
    /// it did not make are as if they had never been asked for, until something changes there again.
    pub fn flush<E>(
        &mut self,
        apply: impl FnOnce(&[FibChange<'_>]) -> Result<(), (usize, E)>,
    ) -> Result<(), E> {
        let (result, changes) = self.tell(apply);
        let Err((made, error)) = result else { return Ok(()) };
        // Backwards, so that of several changes to one name the oldest state not left behind remains.
        self.take_back(changes.into_iter().skip(made).rev());
        Err(error)
    }

    /// As [`flush`](Self::flush), but a change that `apply` can't make keeps none of the others back. Gives the first error, and how many there
    /// were.
    pub fn flush_each<E>(
        &mut self,
        mut apply: impl FnMut(&[FibChange<'_>]) -> Result<(), (usize, E)>,
    ) -> Result<(), (usize, E)> {
        let mut refused = None;
        loop {
            let (result, changes) = self.tell(&mut apply);
            let Err((made, error)) = result else { break };
            let mut rest = changes.into_iter().skip(made);
            self.take_back(rest.next().into_iter());
            self.changes = rest.collect();
            let (count, _) = refused.get_or_insert((0, error));
            *count += 1;
        }
        refused.map_or(Ok(()), Err)
    }

    fn tell<E>(
        &mut self,
        apply: impl FnOnce(&[FibChange<'_>]) -> Result<(), (usize, E)>,
    ) -> (Result<(), (usize, E)>, Vec<Change>) {
        if self.changes.is_empty() {
            return (Ok(()), Vec::new());
        }
        let mut changes = core::mem::take(&mut self.changes);
        let told: Vec<FibChange<'_>> = changes
            .iter()
            .map(|change| {
                let name = NameRef::from_checked(&change.name);
                match &change.after {
                    Some(after) => {
                        FibChange::Set { name, next_hops: &after.next_hops, strategy: after.strategy }
                    }
                    None => FibChange::Remove { name },
                }
            })
            .collect();
        let result = apply(&told);
        drop(told);
        if result.is_ok() {
            changes.clear();
            // Keep the room, unless a flood of changes made it large.
            if changes.capacity() <= 1024 {
                self.changes = changes;
            }
            return (Ok(()), Vec::new());
        }
        (result, changes)
    }

    fn take_back(&mut self, changes: impl Iterator<Item = Change>) {
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

    fn entry_of(&mut self, name: NameRef<'_>) -> EntryId {
        if let Some(id) = self.index.get(name.as_bytes()) {
            return *id;
        }
        let name: Octets = name.as_bytes().into();
        let entry = Entry {
            name: name.clone(),
            routes: 0,
            captures: 0,
            by_hand: 0,
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
        if entry.routes == 0 && entry.by_hand == 0 && entry.strategy.is_none() {
            let name = entry.name.clone();
            self.listed -= usize::from(entry.listed);
            self.names.remove(&name);
            self.index.remove(&name);
            self.entries[id as usize] = None;
            self.entries_free.push(id);
        }
    }

    /// Carries out `change`, which touches only one face of one entry, and brings all that follows from it up to date.
    fn change_face(&mut self, id: EntryId, face: FaceId, force: bool, change: impl FnOnce(&mut Self)) {
        let own = self.own_cost(id, face);
        let inheritable = self.inheritable_cost(id, face);
        let captured = self.entry(id).captures > 0;
        let routed = self.entry(id).routes > 0;
        change(self);
        self.generation += 1;
        if let Some(touched) = &mut self.touched {
            let entry = self.entries[id as usize].as_ref().expect("an id is used while its entry is there");
            touched.push(entry.name.clone());
        }
        if routed && self.entry(id).routes == 0 {
            self.forget_marks(id);
        }
        let (own_now, inheritable_now) = (self.own_cost(id, face), self.inheritable_cost(id, face));
        move_rank(&mut self.own, id, face, own, own_now);
        move_rank(&mut self.inheritable, id, face, inheritable, inheritable_now);
        let entry = self.entry(id);
        let captures = captured != (entry.captures > 0);
        let of_face = own_now.is_some()
            || self.by_hand.contains_key(&(id, face))
            || self.routes.range((id, face, 0)..=(id, face, u64::MAX)).next().is_some();
        if of_face {
            self.of_face.insert((face, id));
        } else {
            self.of_face.remove(&(face, id));
        }
        let inherits = captures || inheritable != inheritable_now;
        if force || inherits || own != own_now || routed != (self.entry(id).routes > 0) {
            self.refresh(id, inherits, false);
        }
        self.count_listed(id);
        self.release_if_empty(id);
    }

    /// Keeps count of the entries that are listed, after one of them changed.
    fn count_listed(&mut self, id: EntryId) {
        let entry = self.entries[id as usize].as_mut().expect("an id is used while its entry is there");
        let listed = entry.is_listed();
        self.listed = self.listed + usize::from(listed) - usize::from(entry.listed);
        entry.listed = listed;
    }

    /// Without routes there is nothing that a mark [`ByHand::Without`] could take away.
    fn forget_marks(&mut self, id: EntryId) {
        let by_hand = self.by_hand.range((id, FaceId::NONE)..=(id, FaceId::from_bits(u32::MAX)));
        let marks = by_hand.filter(|(_, by_hand)| **by_hand == ByHand::Without);
        let faces: Vec<FaceId> = marks.map(|((_, face), _)| *face).collect();
        for face in faces {
            self.put_by_hand(id, face, None);
            self.of_face.remove(&(face, id));
        }
    }

    fn put_route(&mut self, id: EntryId, face: FaceId, origin: u64, route: Option<Route>) -> Option<Route> {
        let key = (id, face, origin);
        let before = match route {
            Some(route) => self.routes.insert(key, route),
            None => self.routes.remove(&key),
        };
        let entry = self.entries[id as usize].as_mut().expect("an id is used while its entry is there");
        for (route, here) in [(before, false), (route, true)] {
            let Some(route) = route else { continue };
            let expiry = (route.expires, id, face, origin);
            if here {
                entry.routes += 1;
                entry.captures += u32::from(captures(&route));
                if route.expires != Instant::NEVER {
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

    fn put_by_hand(&mut self, id: EntryId, face: FaceId, by_hand: Option<ByHand>) -> Option<ByHand> {
        let before = match by_hand {
            Some(by_hand) => self.by_hand.insert((id, face), by_hand),
            None => self.by_hand.remove(&(id, face)),
        };
        let entry = self.entry_mut(id);
        let count = |by_hand: Option<ByHand>| {
            (u32::from(by_hand.is_some()), u32::from(by_hand == Some(ByHand::Unlisted)))
        };
        let (now, then) = (count(by_hand), count(before));
        entry.by_hand = entry.by_hand + now.0 - then.0;
        entry.unlisted = entry.unlisted + now.1 - then.1;
        before
    }
}

impl Entry {
    const fn is_routed(&self) -> bool {
        self.routes > 0 || self.by_hand > 0
    }

    /// True when it has next hops of its own that clients are shown.
    fn is_listed(&self) -> bool {
        let has_hops = self.effective.as_ref().is_some_and(|effective| !effective.next_hops.is_empty());
        (self.routes > 0 || self.by_hand > self.unlisted) && has_hops
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

fn move_rank(
    ranks: &mut BTreeSet<(EntryId, u32, FaceId)>,
    id: EntryId,
    face: FaceId,
    from: Option<u32>,
    to: Option<u32>,
) {
    if from != to {
        if let Some(cost) = from {
            ranks.remove(&(id, cost, face));
        }
        if let Some(cost) = to {
            ranks.insert((id, cost, face));
        }
    }
}
