//! Presence: which publishers and subscribers are here, as events for applications that ask.
//!
//! Applications of this node are known by their connections. Items of other nodes are in their
//! link-state records while a node asks for them, so a node that is lost takes its publishers and
//! subscribers with it. Invariant: each application that asks first gets all that is here, then
//! each change once.

use crate::blackadder::PROGRAM;
use crate::domain::NodeId;
use crate::node::Node;
use crate::publisher::Origin;
use crate::rules::Party;
use crate::session::SessionId;
use nw_api::pubsub::{Event, ItemName, ScopePattern};
use std::collections::{BTreeMap, BTreeSet};

/// Items that a node lists for others at most.
const ITEMS_MAX: usize = 4096;

/// A publisher's item or a subscriber's pattern.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Presence {
    /// An item.
    Item(ItemName),
    /// A pattern.
    Pattern(ScopePattern),
}

impl Presence {
    /// Returns whether a watched pattern is about it. One that is for other domains is about
    /// subscribers alone: who leads there does not have to know all items.
    fn matches(&self, watched: &ScopePattern) -> bool {
        match self {
            Presence::Item(name) => is_about_items(watched) && watched.matches(name),
            Presence::Pattern(pattern) => watched.overlaps(pattern),
        }
    }
}

fn is_about_items(watched: &ScopePattern) -> bool {
    watched.demand_path().is_none()
}

/// Who is watched, and by which application.
#[derive(Debug, Default)]
pub struct Watches {
    /// Patterns by connection.
    patterns: BTreeMap<SessionId, Vec<ScopePattern>>,
    /// What is here of other nodes.
    remote: BTreeSet<(NodeId, Presence)>,
    /// Patterns that other nodes watch.
    asked: Vec<ScopePattern>,
    /// Whether this node's own patterns, or items that others watch, changed.
    has_changed: bool,
}

impl Watches {
    fn watchers(&self, presence: &Presence) -> Vec<SessionId> {
        let matching = |patterns: &[ScopePattern]| patterns.iter().any(|p| presence.matches(p));
        let found = self.patterns.iter().filter(|(_, patterns)| matching(patterns));
        found.map(|(session, _)| *session).collect()
    }
}

impl Node {
    /// Sends an application the events of a pattern: first what is here.
    pub(crate) fn watch(&mut self, session: SessionId, pattern: ScopePattern) {
        for (id, presence) in self.local_presence() {
            if presence.matches(&pattern) {
                self.send_presence(session, (None, id), &presence, true);
            }
        }
        let remote: Vec<_> = self.watches.remote.iter().cloned().collect();
        for (node, presence) in remote {
            if presence.matches(&pattern) {
                self.send_presence(session, (Some(node), 0), &presence, true);
            }
        }
        self.watches.patterns.entry(session).or_default().push(pattern);
        self.watches.has_changed = true;
    }

    /// Returns the number of patterns that a connection watches.
    pub(crate) fn watch_count(&self, session: SessionId) -> usize {
        self.watches.patterns.get(&session).map_or(0, Vec::len)
    }

    /// Ends the events of one pattern of a connection.
    pub(crate) fn end_watch(&mut self, session: SessionId, pattern: &ScopePattern) {
        let Some(patterns) = self.watches.patterns.get_mut(&session) else { return };
        if let Some(at) = patterns.iter().position(|found| found == pattern) {
            patterns.remove(at);
            self.watches.has_changed = true;
        }
        if patterns.is_empty() {
            self.watches.patterns.remove(&session);
        }
    }

    /// Ends the events of a connection that has ended.
    pub(crate) fn unwatch(&mut self, session: SessionId) {
        self.watches.has_changed |= self.watches.patterns.remove(&session).is_some();
    }

    /// Returns the items and patterns of this node's applications.
    fn local_presence(&self) -> Vec<(SessionId, Presence)> {
        let own = self.publishers.iter().filter(|(_, p)| p.origin == Origin::Application);
        let items = own.flat_map(|(id, publisher)| {
            publisher.items.values().map(|item| (*id, Presence::Item(item.name.clone())))
        });
        let patterns = self.sessions.iter().flat_map(|(id, session)| {
            let patterns = session.subscriptions.patterns();
            patterns.map(|pattern| (*id, Presence::Pattern(pattern.clone())))
        });
        items.chain(patterns).collect()
    }

    /// Reports that an application's item or pattern is here, or is no longer.
    pub(crate) fn report_presence(&mut self, id: SessionId, presence: &Presence, is_here: bool) {
        if matches!(presence, Presence::Item(_)) {
            self.watches.has_changed |= self.watches.asked.iter().any(|p| presence.matches(p));
        }
        for watcher in self.watches.watchers(presence) {
            self.send_presence(watcher, (None, id), presence, is_here);
        }
        if self.blackadder.is_some() && self.is_for_blackadder(id, presence) {
            self.with_blackadder(|domain, node| domain.take_presence(node, id, presence, is_here));
        }
    }

    /// Returns whether a domain of Blackadder's nodes is told of an application's item or pattern:
    /// not of its own, nor of those of Blackadder's programs, which make requests.
    fn is_for_blackadder(&self, id: SessionId, presence: &Presence) -> bool {
        let own = self.blackadder.as_ref().and_then(|domain| domain.session());
        let is_program = self.sessions.get(&id).is_some_and(|found| found.program == PROGRAM);
        let may = match presence {
            Presence::Item(name) => self.rules.may_subscribe(self.rules.find(name), Party::Remote),
            Presence::Pattern(_) => true,
        };
        own != Some(id) && !is_program && may
    }

    fn send_presence(
        &mut self,
        watcher: SessionId,
        (node, session): (Option<NodeId>, SessionId),
        presence: &Presence,
        is_here: bool,
    ) {
        if watcher == session {
            return;
        }
        let (is_publisher, name) = match presence {
            Presence::Item(name) => (true, name.to_string()),
            Presence::Pattern(pattern) => (false, pattern.to_string()),
        };
        if let Presence::Item(name) = presence
            && let Some(found) = self.sessions.get(&watcher)
            && !self.rules.may_subscribe(self.rules.find(name), found.party())
        {
            return;
        }
        let program = self.sessions.get(&session).map_or_else(String::new, |s| s.program.clone());
        let node = node.map_or(0, |node| node.0);
        let event = Event::Presence { is_publisher, is_here, node, session, name, program };
        self.send(watcher, &event, None, false);
    }

    /// Tells other nodes what is watched here, and what they watch. Called before the domain runs.
    pub(crate) fn update_watches(&mut self) {
        if !core::mem::take(&mut self.watches.has_changed) {
            return;
        }
        let own: BTreeSet<ScopePattern> =
            self.watches.patterns.values().flatten().cloned().collect();
        let asked = core::mem::take(&mut self.watches.asked);
        let mut items = BTreeSet::new();
        let about_items = asked.iter().filter(|pattern| is_about_items(pattern));
        for (id, number) in about_items.flat_map(|pattern| self.index.matching(pattern)) {
            let Some(publisher) = self.publishers.get(&id) else { continue };
            let Some(item) = publisher.items.get(&number) else { continue };
            let may = self.rules.may_subscribe(item.rule, Party::Remote);
            if publisher.origin == Origin::Application && may && items.len() < ITEMS_MAX {
                items.insert(item.name.clone());
            }
        }
        self.watches.asked = asked;
        if let Some(domain) = &mut self.domain {
            domain.set_watches(own.into_iter().collect(), items.into_iter().collect());
        }
        self.update_remote_presence();
    }

    /// Compares what is here of other nodes with what was, after a change of the domain.
    pub(crate) fn update_remote_presence(&mut self) {
        let Some(domain) = &self.domain else { return };
        let asked = domain.watched_by_others();
        if asked != self.watches.asked {
            self.watches.asked = asked;
            self.watches.has_changed = true;
        }
        let now = match self.watches.patterns.is_empty() {
            true => BTreeSet::new(),
            false => domain.presence(),
        };
        let before = core::mem::replace(&mut self.watches.remote, now.clone());
        let gone = before.difference(&now).map(|entry| (entry, false));
        let new = now.difference(&before).map(|entry| (entry, true));
        for ((node, presence), is_here) in gone.chain(new) {
            for watcher in self.watches.watchers(presence) {
                self.send_presence(watcher, (Some(*node), 0), presence, is_here);
            }
        }
    }
}
