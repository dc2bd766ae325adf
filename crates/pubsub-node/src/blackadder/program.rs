//! A program of Blackadder: its connection to the node, what it published and subscribed to, and
//! the events that wait for it.
//!
//! Invariants: events wait only up to a limit of bytes; the program is told each scope once, while
//! it subscribes to the scope above.

use crate::session::SessionId;
use nw_faces::local_pubsub::FrameSocket;
use nw_wire::publication::{Event, EventKind, Id, NETLINK_PORT, NetlinkHeader};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Length that Blackadder's node writes in the header of each event; programs ignore it.
const EVENT_HEADER_LEN: u32 = 4;
/// Bytes of events that wait for a program at most.
const OUTBOX_BYTES_MAX: usize = 4 << 20;
/// Scopes and publishers of them that are kept for one program.
const FOREIGN_MAX: usize = 65_536;

/// A publisher of an item that is no program of Blackadder on this node: node, connection, item.
pub type Foreign = (u64, u64, String);

/// An item that a program published.
#[derive(Debug)]
pub struct OwnItem {
    /// Its identifiers: under the first it is announced, the others are further parents.
    pub ids: Vec<Id>,
    /// Strategy of its requests.
    pub strategy: nw_pubsub::Strategy,
    /// Number of the last publication.
    pub sequence: u64,
    /// Subscribers, without the program itself.
    pub subscribers: u32,
    /// Whether the program was told to publish.
    pub is_started: bool,
}

/// What is known of a scope for one program.
#[derive(Debug, Default)]
struct ScopeState {
    is_local: bool,
    /// Whether another node of a Blackadder domain published it.
    is_remote: bool,
    foreign: BTreeSet<Foreign>,
    is_told: bool,
}

/// A subscription: the scope or item, which of both, and the number of the strategy.
pub type SubscriptionKey = (Id, bool, u8);

/// A program.
#[derive(Debug)]
pub struct Program {
    /// Number of its connection to the node.
    pub session: SessionId,
    /// Its end of that connection.
    pub connection: FrameSocket,
    /// Items by their number at the node.
    pub items: BTreeMap<u32, OwnItem>,
    /// Items announced by publishing, oldest first.
    pub unannounced: VecDeque<(u32, u64)>,
    /// Scopes published under further parents: new identifier and source.
    pub links: BTreeMap<Id, Id>,
    /// Subscriptions and their numbers at the node.
    pub subscriptions: BTreeMap<SubscriptionKey, u32>,
    /// Number of the next subscription.
    pub next_subscription: u32,
    /// Items that it receives, by their number at the node, with the identifier it knows.
    pub received: BTreeMap<u32, Id>,
    /// Scopes below which publishers are watched.
    pub watched: BTreeSet<Id>,
    /// Whether it has to be ended: it reads nothing.
    pub is_stalled: bool,
    scopes: BTreeMap<Id, ScopeState>,
    foreign_count: usize,
    outbox: VecDeque<Vec<u8>>,
    outbox_bytes: usize,
}

impl Program {
    /// Creates a program without publications and subscriptions.
    pub const fn new(session: SessionId, connection: FrameSocket) -> Self {
        Program {
            session,
            connection,
            items: BTreeMap::new(),
            unannounced: VecDeque::new(),
            links: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            next_subscription: 0,
            received: BTreeMap::new(),
            watched: BTreeSet::new(),
            is_stalled: false,
            scopes: BTreeMap::new(),
            foreign_count: 0,
            outbox: VecDeque::new(),
            outbox_bytes: 0,
        }
    }

    /// Queues an event as the datagram that Blackadder's node sends.
    pub fn push(&mut self, kind: EventKind, id: &Id, data: &[u8]) {
        let mut bytes = Vec::with_capacity(32 + 8 * id.len() + data.len());
        NetlinkHeader { len: EVENT_HEADER_LEN, pid: NETLINK_PORT }.encode(&mut bytes);
        Event { kind, id: id.clone(), data }.encode(&mut bytes);
        if self.outbox_bytes + bytes.len() > OUTBOX_BYTES_MAX {
            self.is_stalled = true;
            return;
        }
        self.outbox_bytes += bytes.len();
        self.outbox.push_back(bytes);
    }

    /// Returns the datagram to be sent next.
    pub fn next_datagram(&self) -> Option<&[u8]> {
        self.outbox.front().map(Vec::as_slice)
    }

    /// Removes the datagram that was sent.
    pub fn pop_datagram(&mut self) {
        let sent = self.outbox.pop_front();
        self.outbox_bytes -= sent.map_or(0, |bytes| bytes.len());
    }

    /// Returns bytes that wait for the program.
    pub const fn outbox_bytes(&self) -> usize {
        self.outbox_bytes
    }

    /// Returns whether it subscribes to a scope, with any strategy.
    pub fn subscribes_to_scope(&self, scope: &Id) -> bool {
        let from = (scope.clone(), true, 0);
        let found = self.subscriptions.range(from..).next();
        found.is_some_and(|((id, is_scope, _), _)| id == scope && *is_scope)
    }

    /// Returns whether it subscribes to an item or to the scope above.
    pub fn wants(&self, id: &Id) -> bool {
        let is_item = |(found, is_scope, _): &SubscriptionKey| found == id && !is_scope;
        let from = (id.clone(), false, 0);
        self.subscriptions.range(from..).next().is_some_and(|(key, _)| is_item(key))
            || id.parent().is_some_and(|scope| self.subscribes_to_scope(&scope))
    }

    /// Takes what a program of this node did with a scope.
    pub fn set_local_scope(&mut self, id: &Id, is_published: bool) {
        self.scopes.entry(id.clone()).or_default().is_local = is_published;
        self.tell(id);
    }

    /// Takes what another node of a Blackadder domain did with a scope.
    pub fn set_remote_scope(&mut self, id: &Id, is_published: bool) {
        self.scopes.entry(id.clone()).or_default().is_remote = is_published;
        self.tell(id);
    }

    /// Takes a publisher of an item that came or went: the scopes above exist while there is one.
    pub fn set_foreign(&mut self, item: &Id, foreign: &Foreign, is_here: bool) {
        let mut scope = item.parent();
        while let Some(id) = scope.filter(|id| id.len() > 1) {
            if is_here && self.foreign_count < FOREIGN_MAX {
                let state = self.scopes.entry(id.clone()).or_default();
                self.foreign_count += usize::from(state.foreign.insert(foreign.clone()));
            } else if !is_here && let Some(state) = self.scopes.get_mut(&id) {
                self.foreign_count -= usize::from(state.foreign.remove(foreign));
            }
            self.tell(&id);
            scope = id.parent();
        }
    }

    /// Forgets the publishers of items whose names `is_of` accepts.
    pub fn forget_foreign(&mut self, is_of: impl Fn(&str) -> bool) {
        let mut left = Vec::new();
        for (id, state) in &mut self.scopes {
            let before = state.foreign.len();
            state.foreign.retain(|(_, _, name)| !is_of(name));
            self.foreign_count -= before - state.foreign.len();
            if state.foreign.len() != before {
                left.push(id.clone());
            }
        }
        left.iter().for_each(|id| self.tell(id));
    }

    /// Forgets that the program was told the scopes below one.
    pub fn forget_below(&mut self, scope: &Id) {
        for id in self.below(scope) {
            if let Some(state) = self.scopes.get_mut(&id) {
                (state.is_told, state.is_local, state.is_remote) = (false, false, false);
            }
            self.tell(&id);
        }
    }

    /// Tells the scopes below one that it has not been told.
    pub fn tell_below(&mut self, scope: &Id) {
        self.below(scope).iter().for_each(|id| self.tell(id));
    }

    fn below(&self, scope: &Id) -> Vec<Id> {
        let from = self.scopes.range(scope.clone()..);
        let all = from.map(|(id, _)| id).take_while(|id| scope.is_prefix_of(id));
        all.filter(|id| id.len() == scope.len() + 1).cloned().collect()
    }

    fn tell(&mut self, id: &Id) {
        let is_wanted = id.parent().is_some_and(|above| self.subscribes_to_scope(&above));
        let Some(state) = self.scopes.get_mut(id) else { return };
        let is_here = state.is_local || state.is_remote || !state.foreign.is_empty();
        let was_told = state.is_told;
        state.is_told = is_here && (was_told || is_wanted);
        let is_told = state.is_told;
        if !is_here {
            self.scopes.remove(id);
        }
        match (was_told, is_told) {
            (false, true) => self.push(EventKind::ScopePublished, id, &[]),
            (true, false) if is_wanted => self.push(EventKind::ScopeUnpublished, id, &[]),
            _ => {}
        }
    }
}
