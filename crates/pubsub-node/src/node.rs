//! The state of a node: applications, publishers, items, subscriptions; and the loop's steps on it.
//!
//! Invariants: every table is bounded by the configuration; an application that breaks a rule of
//! the protocol is disconnected alone; all that belongs to a connection ends with it, and each
//! subscriber is told the last sequence number of each ended item, so that its counts are exact.

use crate::blackadder_domain::BlackadderDomain;
use crate::domain::{Domain, NodeId};
use crate::keeping::Keeping;
use crate::last_values::LastValues;
use crate::presence::{Presence, Watches};
use crate::publisher::{Delivery, Index, Origin, Publisher};
use crate::rules::Rules;
use crate::scopes::Scopes;
use crate::serving::Serving;
use crate::session::{Interest, PublisherId, REPLY_BYTES_MAX, Session, SessionId};
use nw_api::config::PubSub;
use nw_api::pubsub::status::EthernetLinkStatus;
use nw_api::pubsub::{Event, ScopePattern};
use nw_faces::credentials::Credentials;
use nw_faces::local_pubsub::{FrameSocket, SocketFault};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Frames of one application that one step handles, so that the others are not delayed.
const FRAMES_PER_STEP: usize = 1024;
/// Rings that an application keeps while it reads no item of them.
pub(crate) const PAUSED_RINGS_MAX: usize = 16;

/// Counters for the status.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Applications disconnected because of invalid messages or rings.
    pub faults: u64,
    /// Requests refused.
    pub refusals: u64,
    /// Publications refused because they have not the signature that a rule wants.
    pub refused_signatures: u64,
}

/// The state of a node.
#[derive(Debug)]
pub struct Node {
    pub(crate) config: PubSub,
    pub(crate) rules: Rules,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) publishers: BTreeMap<PublisherId, Publisher>,
    pub(crate) index: Index,
    pub(crate) scopes: Scopes,
    pub(crate) serving: Serving,
    pub(crate) last_values: LastValues,
    pub(crate) keeping: Keeping,
    pub(crate) counters: Counters,
    pub(crate) domain: Option<Domain>,
    /// This node in a domain of Blackadder's nodes.
    pub(crate) blackadder: Option<Box<BlackadderDomain>>,
    /// Interfaces of Ethernet links, as last read.
    pub(crate) ethernet_status: Vec<EthernetLinkStatus>,
    /// Publishers whose rings this node has to read.
    pub(crate) ready: BTreeSet<PublisherId>,
    /// Publishers of other nodes.
    pub(crate) remotes: BTreeMap<NodeId, PublisherId>,
    /// Whether the set of patterns changed since the domain was last told.
    pub(crate) patterns_changed: bool,
    /// Whether patterns were removed since then.
    pub(crate) patterns_removed: bool,
    pub(crate) watches: Watches,
    /// Connections with queued messages, and whether publishers must see them first.
    dirty: BTreeMap<SessionId, bool>,
    failed: Vec<SessionId>,
    next_id: u64,
    next_item: u32,
}

impl Node {
    /// Creates a node without applications.
    pub fn new(config: PubSub, rules: Rules, domain: Option<Domain>) -> Self {
        let last_values = LastValues::new(config.last_values_mib as usize * (1 << 20));
        Node {
            config,
            rules,
            sessions: BTreeMap::new(),
            publishers: BTreeMap::new(),
            index: Index::default(),
            scopes: Scopes::default(),
            serving: Serving::default(),
            last_values,
            keeping: Keeping::default(),
            counters: Counters::default(),
            domain,
            blackadder: None,
            ethernet_status: Vec::new(),
            ready: BTreeSet::new(),
            remotes: BTreeMap::new(),
            patterns_changed: false,
            patterns_removed: false,
            watches: Watches::default(),
            dirty: BTreeMap::new(),
            failed: Vec::new(),
            next_id: 1,
            next_item: 1,
        }
    }

    /// Sets the items of other nodes that this node follows and keeps without any application.
    pub fn set_kept_patterns(&mut self, patterns: Vec<ScopePattern>) {
        self.keeping.patterns = patterns;
        self.patterns_changed = true;
    }

    /// Returns a number for a connection or publisher.
    pub(crate) fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Returns a number for an item within this node.
    pub(crate) fn new_item_id(&mut self) -> u32 {
        let id = self.next_item;
        self.next_item = self.next_item.wrapping_add(1);
        id
    }

    /// Adds a connection. `None` if there are too many; it is then closed.
    pub fn open(&mut self, socket: OwnedFd, credentials: Credentials) -> Option<SessionId> {
        if self.sessions.len() >= self.config.applications as usize {
            self.counters.refusals += 1;
            return None;
        }
        let id = self.new_id();
        self.sessions.insert(id, Session::new(FrameSocket::new(socket), credentials));
        Some(id)
    }

    /// Returns the socket of a connection.
    pub fn socket(&self, id: SessionId) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        self.sessions.get(&id).map(|session| session.socket.as_fd())
    }

    /// Reads and handles the messages of a connection.
    pub fn receive(&mut self, id: SessionId) {
        for _ in 0..FRAMES_PER_STEP / 64 {
            let Some(session) = self.sessions.get_mut(&id) else { return };
            let outcome = session.socket.receive();
            self.handle_frames(id);
            match outcome {
                Ok(true) => {}
                Ok(false) => return,
                Err(fault) => return self.fail(id, &fault),
            }
        }
    }

    fn handle_frames(&mut self, id: SessionId) {
        loop {
            let Some(session) = self.sessions.get_mut(&id) else { return };
            match session.socket.next_frame() {
                Ok(Some(frame)) => {
                    if let Err(reason) = self.handle(id, frame) {
                        return self.fail(id, &reason);
                    }
                }
                Ok(None) => return,
                Err(fault) => return self.fail(id, &fault),
            }
        }
    }

    /// Marks a connection as ended. [`flush`](Self::flush) removes it.
    pub(crate) fn fail(&mut self, id: SessionId, reason: &dyn core::fmt::Display) {
        if self.failed.contains(&id) {
            return;
        }
        let text = reason.to_string();
        if text != SocketFault::Closed.to_string() {
            self.counters.faults += 1;
            let program = self.sessions.get(&id).map_or("", |session| session.program.as_str());
            tracing::warn!(session = id, program, "application disconnected: {text}");
        }
        self.failed.push(id);
    }

    /// Queues a message. `is_first`: publishers must see it before others see theirs.
    pub(crate) fn send(
        &mut self,
        id: SessionId,
        event: &Event,
        file: Option<OwnedFd>,
        is_first: bool,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match session.send(event, file) {
            Ok(()) => *self.dirty.entry(id).or_default() |= is_first,
            Err(fault) => self.fail(id, &fault),
        }
    }

    /// Queues a part of a publication.
    pub(crate) fn send_data(&mut self, id: SessionId, event: &Event) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match session.socket.send_data(event.kind(), &event.encode()) {
            Ok(()) => {
                self.dirty.entry(id).or_default();
            }
            Err(fault) => self.fail(id, &fault),
        }
    }

    /// Sends queued messages and removes ended connections. Returns what other connections are
    /// to be watched for, where that changed.
    pub fn flush(&mut self) -> Vec<(SessionId, Interest)> {
        let mut watched = Vec::new();
        loop {
            let dirty = core::mem::take(&mut self.dirty);
            for is_first in [true, false] {
                for (&id, _) in dirty.iter().filter(|(_, first)| **first == is_first) {
                    self.flush_session(id, &mut watched);
                }
            }
            let failed = core::mem::take(&mut self.failed);
            if failed.is_empty() && self.dirty.is_empty() {
                return watched;
            }
            for id in failed {
                self.close(id);
            }
        }
    }

    fn flush_session(&mut self, id: SessionId, watched: &mut Vec<(SessionId, Interest)>) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        match session.socket.flush() {
            Ok(is_empty) => {
                if let Some(page) = &session.page {
                    page.page.notify_mail();
                }
                let messages = session.socket.queued_control_bytes() < REPLY_BYTES_MAX;
                let interest = Interest { messages, space: !is_empty };
                if session.interest != interest {
                    session.interest = interest;
                    watched.push((id, interest));
                }
                if is_empty {
                    self.report_losses(id);
                }
            }
            Err(fault) => self.fail(id, &fault),
        }
    }

    /// Marks a connection whose socket has space again.
    pub fn has_space(&mut self, id: SessionId) {
        self.dirty.entry(id).or_default();
    }

    /// Tells an application which publications it lost, now that its socket has space.
    pub(crate) fn report_losses(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        for (item, count) in core::mem::take(&mut session.pending_lost) {
            self.send(id, &Event::Lost { item, count }, None, false);
        }
    }

    /// Removes a connection: its items, its subscriptions, its use of rings.
    fn close(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let patterns: Vec<_> = session.subscriptions.patterns().cloned().collect();
        self.end_publisher(id);
        for pattern in &patterns {
            for (publisher, item) in self.index.matching(pattern) {
                self.detach(publisher, item, id);
            }
        }
        let rings = self.sessions.get(&id).map_or(Vec::new(), Session::rings);
        for publisher in rings {
            self.end_source(publisher, id);
        }
        self.end_scopes(id);
        self.unwatch(id);
        for pattern in patterns {
            self.index.remove_subscription(&pattern, id);
            (self.patterns_changed, self.patterns_removed) = (true, true);
            self.report_presence(id, &Presence::Pattern(pattern), false);
        }
        let Some(session) = self.sessions.remove(&id) else { return };
        tracing::debug!(session = id, program = session.program, "application gone");
    }

    /// Ends all items of a publisher, and the publisher.
    pub(crate) fn end_publisher(&mut self, id: PublisherId) {
        let Some(publisher) = self.publishers.get(&id) else { return };
        let items: Vec<u32> = publisher.items.keys().copied().collect();
        for item in items {
            self.end_item(id, item);
        }
        let users = self.publishers.get(&id).map(|publisher| publisher.users.keys());
        let users: Vec<SessionId> = users.into_iter().flatten().copied().collect();
        for session in users {
            self.end_source(id, session);
        }
        self.publishers.remove(&id);
        self.ready.remove(&id);
    }

    /// Ends an item: keeps its last value and tells its subscribers.
    pub(crate) fn end_item(&mut self, id: PublisherId, number: u32) {
        self.pump(id, usize::MAX);
        self.settle_item(id, number);
        let found = self.publishers.get(&id).and_then(|publisher| publisher.items.get(&number));
        if found.is_some_and(|item| !item.is_standby()) {
            self.keep_item(id, number);
        }
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Some(item) = publisher.items.get(&number) else { return };
        if let Some(domain) = &mut self.domain
            && item.reaches_nodes()
        {
            let last = publisher.ring.as_ref().and_then(|ring| ring.reader.sequence(number));
            domain.end_item(&item.name, last.unwrap_or(0), &item.nodes);
            if item.choice.is_some() {
                // The next publisher of this node may begin at once, and its numbers are others.
                domain.send_ends(&item.name, last.unwrap_or(0), &item.nodes);
            }
        }
        let subscribers: Vec<SessionId> = item.subscribers.keys().copied().collect();
        for session in subscribers {
            self.detach(id, number, session);
        }
        // Also what it read for other nodes, as the number may be that of another item later.
        self.unfollow(id, number);
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let origin = publisher.origin;
        if let Some(item) = publisher.items.remove(&number) {
            self.index.remove_item(&item.name, id, number);
            item.further.iter().for_each(|name| self.index.remove_alias(name, id, number));
            if origin == Origin::Application {
                self.end_item_links(id, &item.name);
                if item.choice.is_some() {
                    self.update_item_serving(&item.name);
                }
                self.report_presence(id, &Presence::Item(item.name), false);
            }
        }
    }

    /// Ends the subscription of an application to an item, and tells it.
    pub(crate) fn detach(&mut self, id: PublisherId, number: u32, session: SessionId) {
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Some(item) = publisher.items.get_mut(&number) else { return };
        let Some(delivery) = item.subscribers.remove(&session) else { return };
        let count = item.subscriber_count();
        let needs_node = item.needs_node();
        let global = item.id;
        let ring = publisher.ring.as_ref();
        let last = ring.and_then(|ring| ring.reader.sequence(number)).unwrap_or(0);
        let node_writes = ring.is_some_and(|ring| ring.writer.is_some());
        let mut end = Event::ItemEnd { source: u32::MAX, item: global, last };
        let (mut is_unused, mut can_pause) = (false, false);
        if delivery == Delivery::Ring
            && let Some(user) = publisher.users.get_mut(&session)
        {
            user.end_item(number);
            (is_unused, can_pause) = (user.items == 0, user.can_pause());
            end = Event::ItemEnd { source: user.slot, item: number, last };
        }
        let origin = publisher.origin;
        if !needs_node {
            self.unfollow(id, number);
        }
        if delivery == Delivery::Messages {
            // The application forgets the item with its end, so its losses come before.
            self.report_losses(session);
        }
        self.send(session, &end, None, false);
        if delivery == Delivery::Ring && !node_writes {
            let end = Event::ItemReaderEnd { item: number, reader: session as u32 };
            self.send(id, &end, None, false);
        }
        match is_unused {
            true if can_pause => self.pause_ring(id, session),
            true => self.end_source(id, session),
            false => {}
        }
        if origin == Origin::Application {
            self.send(id, &Event::Subscribers { item: number, count }, None, false);
        }
    }

    /// Keeps a ring that an application reads no item of, for its next subscription: to pass and
    /// map one takes longer than all else. The one that was kept for longest is taken back.
    fn pause_ring(&mut self, id: PublisherId, session_id: SessionId) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        session.paused.push_back(id);
        if session.paused.len() > PAUSED_RINGS_MAX
            && let Some(&oldest) = session.paused.front()
        {
            self.end_source(oldest, session_id);
        }
    }

    /// Takes a ring from an application that has no items of it any more.
    pub(crate) fn end_source(&mut self, id: PublisherId, session: SessionId) {
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        if publisher.users.remove(&session).is_none() {
            return;
        }
        let origin = publisher.origin;
        let slot = self.sessions.get_mut(&session).and_then(|session| session.free_slot(id));
        if let Some(source) = slot {
            self.send(session, &Event::SourceEnd { source }, None, false);
        }
        if origin == Origin::Application {
            self.send(id, &Event::ReaderEnd { reader: session as u32 }, None, false);
        }
    }
}
