//! The routes of a name router by what set them: the graph, control, or a command of the face
//! itself. A prefix is forwarded to the next hops of all of them.
//!
//! Invariant: no two routes have the same prefix, origin and link (or face, if registered).

use nw_element_api::{FaceId, Timestamp};
use nw_name::{Name, NameRef};
use nw_tables::fib::NextHop;
use std::collections::{BTreeMap, BTreeSet};

/// Most routes that faces may register.
pub const REGISTERED_MAX: usize = 65_536;
/// Most routes that one face may register.
pub const REGISTERED_PER_FACE_MAX: usize = 16_384;

/// What set a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteOrigin {
    /// The parameter `routes`.
    Graph,
    /// Control.
    Control,
    /// A command of the face that is the next hop.
    Registration,
}

/// A next hop of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcedHop {
    /// What set it.
    pub origin: RouteOrigin,
    /// Name of the face in the graph; empty if registered.
    pub link: String,
    /// The face; [`FaceId::NONE`] while it is not connected.
    pub face: FaceId,
    /// The cost.
    pub cost: u32,
    /// When the route ends; [`Timestamp::NEVER`] if it does not end by itself.
    pub until: Timestamp,
}

/// A change of a registered route, for the host to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationEvent {
    /// The prefix.
    pub prefix: Name,
    /// The face.
    pub face: FaceId,
    /// True if the route was added, false if it ended.
    pub is_added: bool,
}

/// All routes of a name router.
#[derive(Debug, Default)]
pub(crate) struct RouteSources {
    by_prefix: BTreeMap<Name, Vec<SourcedHop>>,
    registered_count: usize,
    /// Numbers of registered routes by face, without zeros.
    by_face: BTreeMap<FaceId, usize>,
    /// The earliest end of a registered route, or earlier.
    next_end: Option<Timestamp>,
    /// Bounded by the number of registered routes between two calls of the host.
    events: Vec<RegistrationEvent>,
}

impl RouteSources {
    /// Returns all prefixes with their routes, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &[SourcedHop])> {
        self.by_prefix.iter().map(|(prefix, hops)| (prefix, hops.as_slice()))
    }

    /// Returns the number of registered routes.
    pub const fn registered_count(&self) -> usize {
        self.registered_count
    }

    /// Returns when [`end_due`](Self::end_due) is to be called.
    pub const fn next_end(&self) -> Option<Timestamp> {
        self.next_end
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<RegistrationEvent> {
        core::mem::take(&mut self.events)
    }

    /// Returns the next hops of a prefix. `None` if it has no route.
    pub fn next_hops(&self, prefix: NameRef<'_>) -> Option<Vec<NextHop>> {
        let hops = self.by_prefix.get(prefix.as_bytes())?;
        let is_known = |hop: &&SourcedHop| hop.face != FaceId::NONE;
        let next_hop = |hop: &SourcedHop| NextHop { face: hop.face, cost: hop.cost };
        Some(hops.iter().filter(is_known).map(next_hop).collect())
    }

    /// Replaces all routes of an origin. Returns the prefixes that may have changed.
    pub fn replace(
        &mut self,
        origin: RouteOrigin,
        routes: impl IntoIterator<Item = (Name, SourcedHop)>,
    ) -> BTreeSet<Name> {
        let mut changed = BTreeSet::new();
        self.by_prefix.retain(|prefix, hops| {
            let before = hops.len();
            hops.retain(|hop| hop.origin != origin);
            if hops.len() < before {
                changed.insert(prefix.clone());
            }
            !hops.is_empty()
        });
        for (prefix, hop) in routes {
            let hop = SourcedHop { origin, ..hop };
            changed.insert(prefix.clone());
            let hops = self.by_prefix.entry(prefix).or_default();
            match hops.iter_mut().find(|known| (known.origin, &known.link) == (origin, &hop.link)) {
                Some(known) => *known = hop,
                None => hops.push(hop),
            }
        }
        changed
    }

    /// Adds or changes the route that a face registers. Returns false if there are too many.
    pub fn register(&mut self, prefix: &Name, face: FaceId, cost: u32, until: Timestamp) -> bool {
        let is_own = |hop: &SourcedHop| hop.origin == RouteOrigin::Registration && hop.face == face;
        let hop = SourcedHop {
            origin: RouteOrigin::Registration,
            link: String::new(),
            face,
            cost,
            until,
        };
        let known = self.by_prefix.get_mut(prefix);
        if let Some(known) = known.and_then(|hops| hops.iter_mut().find(|hop| is_own(hop))) {
            *known = hop;
        } else {
            let of_face = self.by_face.entry(face).or_default();
            if self.registered_count >= REGISTERED_MAX || *of_face >= REGISTERED_PER_FACE_MAX {
                return false;
            }
            *of_face += 1;
            self.registered_count += 1;
            self.by_prefix.entry(prefix.clone()).or_default().push(hop);
            self.events.push(RegistrationEvent { prefix: prefix.clone(), face, is_added: true });
        }
        if until != Timestamp::NEVER {
            self.next_end = Some(self.next_end.map_or(until, |end| end.min(until)));
        }
        true
    }

    /// Removes the registered route of a face. Returns whether there was one.
    pub fn unregister(&mut self, prefix: NameRef<'_>, face: FaceId) -> bool {
        let Some(hops) = self.by_prefix.get_mut(prefix.as_bytes()) else { return false };
        let is_own = |hop: &SourcedHop| hop.origin == RouteOrigin::Registration && hop.face == face;
        let Some(at) = hops.iter().position(is_own) else { return false };
        hops.remove(at);
        if hops.is_empty() {
            self.by_prefix.remove(prefix.as_bytes());
        }
        self.count_removed(&prefix.to_name(), face);
        true
    }

    /// Removes the registered routes of a face. Returns the prefixes that changed.
    pub fn remove_face(&mut self, face: FaceId) -> BTreeSet<Name> {
        match self.by_face.contains_key(&face) {
            true => self.remove_registered(|hop| hop.face == face),
            false => BTreeSet::new(),
        }
    }

    /// Removes registered routes whose time is over. Returns the prefixes that changed.
    pub fn end_due(&mut self, now: Timestamp) -> BTreeSet<Name> {
        if self.next_end.is_none_or(|end| end > now) {
            return BTreeSet::new();
        }
        let changed = self.remove_registered(|hop| hop.until <= now);
        let ends = self.by_prefix.values().flatten().map(|hop| hop.until);
        self.next_end = ends.filter(|until| *until != Timestamp::NEVER).min();
        changed
    }

    fn remove_registered(&mut self, is_removed: impl Fn(&SourcedHop) -> bool) -> BTreeSet<Name> {
        let mut removed = Vec::new();
        self.by_prefix.retain(|prefix, hops| {
            hops.retain(|hop| {
                let ends = hop.origin == RouteOrigin::Registration && is_removed(hop);
                if ends {
                    removed.push((prefix.clone(), hop.face));
                }
                !ends
            });
            !hops.is_empty()
        });
        removed.iter().for_each(|(prefix, face)| self.count_removed(prefix, *face));
        removed.into_iter().map(|(prefix, _)| prefix).collect()
    }

    /// Updates the counts for a registered route that was removed, and records the event.
    fn count_removed(&mut self, prefix: &Name, face: FaceId) {
        self.registered_count -= 1;
        if let Some(count) = self.by_face.get_mut(&face) {
            *count -= 1;
            if *count == 0 {
                self.by_face.remove(&face);
            }
        }
        self.events.push(RegistrationEvent { prefix: prefix.clone(), face, is_added: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(uri: &str) -> Name {
        uri.parse().unwrap()
    }

    fn face(number: u32) -> FaceId {
        FaceId::from_slot(number, 0)
    }

    fn hop(origin: RouteOrigin, link: &str, face: FaceId, cost: u32) -> SourcedHop {
        SourcedHop { origin, link: link.to_owned(), face, cost, until: Timestamp::NEVER }
    }

    fn faces(sources: &RouteSources, prefix: &str) -> Option<Vec<(FaceId, u32)>> {
        let hops = sources.next_hops(name(prefix).as_ref())?;
        Some(hops.iter().map(|hop| (hop.face, hop.cost)).collect())
    }

    #[test]
    fn next_hops_of_all_origins_are_used_and_each_ends_by_itself() {
        let mut sources = RouteSources::default();
        let graph = hop(RouteOrigin::Graph, "up", face(300), 9);
        sources.replace(RouteOrigin::Graph, [(name("/a"), graph.clone())]);
        let control = hop(RouteOrigin::Control, "far", face(301), 5);
        sources.replace(RouteOrigin::Control, [(name("/a"), control), (name("/b"), graph)]);
        assert!(sources.register(&name("/a"), face(302), 1, Timestamp::NEVER));
        assert!(sources.register(&name("/a"), face(302), 2, Timestamp::from_millis(50)));
        let all = vec![(face(300), 9), (face(301), 5), (face(302), 2)];
        assert_eq!((faces(&sources, "/a"), sources.registered_count()), (Some(all), 1));
        assert_eq!(sources.next_end(), Some(Timestamp::from_millis(50)));
        assert!(sources.end_due(Timestamp::from_millis(49)).is_empty());
        assert_eq!(sources.end_due(Timestamp::from_millis(50)), [name("/a")].into());
        assert_eq!(sources.next_end(), None);
        let changed = sources.replace(RouteOrigin::Control, []);
        assert_eq!(changed, [name("/a"), name("/b")].into());
        assert_eq!(faces(&sources, "/a"), Some(vec![(face(300), 9)]));
        assert_eq!(faces(&sources, "/b"), None);
    }

    #[test]
    fn registered_routes_end_with_their_face_and_are_reported() {
        let mut sources = RouteSources::default();
        for (prefix, number) in [("/a", 300), ("/a", 301), ("/b", 300)] {
            assert!(sources.register(&name(prefix), face(number), 0, Timestamp::NEVER));
        }
        assert!(!sources.unregister(name("/b").as_ref(), face(301)));
        assert!(sources.unregister(name("/b").as_ref(), face(300)));
        assert_eq!(sources.remove_face(face(300)), [name("/a")].into());
        assert_eq!(faces(&sources, "/a"), Some(vec![(face(301), 0)]));
        let events = sources.take_events();
        let removed: Vec<_> = events.iter().filter(|event| !event.is_added).collect();
        assert_eq!((events.len(), removed.len(), sources.registered_count()), (5, 2, 1));
    }

    #[test]
    fn face_registers_up_to_its_limit() {
        let mut sources = RouteSources::default();
        let prefix = |number: usize| name("/p").with_segment(number as u64);
        for number in 0..REGISTERED_PER_FACE_MAX {
            assert!(sources.register(&prefix(number), face(300), 0, Timestamp::NEVER));
        }
        assert!(!sources.register(&name("/more"), face(300), 0, Timestamp::NEVER));
        assert!(sources.register(&prefix(0), face(300), 7, Timestamp::NEVER), "it is known");
        assert!(sources.register(&name("/more"), face(301), 0, Timestamp::NEVER));
    }
}
