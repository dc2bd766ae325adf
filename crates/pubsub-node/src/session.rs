//! A connected application: its socket, its reader page, its subscriptions, the rings it reads.

use crate::publisher::MESSAGE_BYTES_MAX;
use crate::rules::Party;
use nw_api::pubsub::{Event, ItemName, ScopePattern};
use nw_faces::credentials::Credentials;
use nw_faces::local_pubsub::{FrameSocket, READER_SLOTS_MAX, ReaderPage, SocketFault};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Number of a connection. Never reused.
pub type SessionId = u64;
/// Number of a publisher: that of its connection, or one of its own for other nodes.
pub type PublisherId = u64;

/// Bytes that wait in a socket above which publications for it are counted as lost.
const RELAY_BYTES_MAX: usize = 4 << 20;

/// Bytes of replies that wait above which no requests are read.
pub const REPLY_BYTES_MAX: usize = 1 << 20;
/// Bytes of control messages that may wait before a large publication.
const CONTROL_BYTES: usize = 64 << 10;

/// A subscription.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The pattern.
    pub pattern: ScopePattern,
    /// Whether the last publication of each item is wanted first.
    pub wants_last: bool,
}

/// A reader page and its file.
#[derive(Debug)]
pub struct Page {
    /// The mapping.
    pub page: ReaderPage,
    /// For publishers.
    pub file: OwnedFd,
}

/// What a socket is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Messages of the application. Not while it does not read the replies to earlier ones.
    pub messages: bool,
    /// Space for messages to it.
    pub space: bool,
}

/// A connected application.
#[derive(Debug)]
pub struct Session {
    /// The connection.
    pub socket: FrameSocket,
    /// User, group and process, from the kernel.
    pub credentials: Credentials,
    /// Name of the program, in its own words.
    pub program: String,
    /// Whether the first message has arrived.
    pub is_welcome: bool,
    /// Reader page; `None` without shared memory.
    pub page: Option<Page>,
    /// Subscriptions by the application's number.
    pub subscriptions: BTreeMap<u32, Subscription>,
    /// Publishers by slot of the reader page.
    slots: Vec<Option<PublisherId>>,
    slot_of: BTreeMap<PublisherId, u32>,
    /// Publications delivered by messages.
    pub relayed: u64,
    /// Publications lost because the socket was full.
    pub relay_lost: u64,
    /// Losses by item that the application does not know yet.
    pub pending_lost: BTreeMap<u32, u64>,
    /// What the socket is watched for.
    pub interest: Interest,
}

impl Session {
    /// Wraps an accepted connection.
    pub fn new(socket: FrameSocket, credentials: Credentials) -> Self {
        Session {
            socket,
            credentials,
            program: String::new(),
            is_welcome: false,
            page: None,
            subscriptions: BTreeMap::new(),
            slots: Vec::new(),
            slot_of: BTreeMap::new(),
            relayed: 0,
            relay_lost: 0,
            pending_lost: BTreeMap::new(),
            interest: Interest { messages: true, space: false },
        }
    }

    /// Returns the application as the subject of a rule.
    pub const fn party(&self) -> Party {
        Party::Application(self.credentials)
    }

    /// Queues a message.
    ///
    /// # Errors
    /// If the application does not read its messages.
    pub fn send(&mut self, event: &Event, file: Option<OwnedFd>) -> Result<(), SocketFault> {
        self.socket.send(event.kind(), &event.encode(), file)
    }

    /// Returns whether a publication of `len` bytes may be queued.
    pub const fn has_relay_space(&self, len: usize) -> bool {
        let queued = self.socket.queued_bytes();
        len <= MESSAGE_BYTES_MAX && (queued < CONTROL_BYTES || queued + len <= RELAY_BYTES_MAX)
    }

    /// Returns whether a subscription matches a name, and whether its last value is wanted.
    pub fn matches(&self, name: &ItemName) -> Option<bool> {
        let mut matching =
            self.subscriptions.values().filter(|subscription| subscription.pattern.matches(name));
        let first = matching.next()?.wants_last;
        Some(first || matching.any(|subscription| subscription.wants_last))
    }

    /// Returns a slot of the reader page for a publisher. `None` if all are in use.
    pub fn slot_for(&mut self, publisher: PublisherId) -> Option<u32> {
        if let Some(slot) = self.slot_of.get(&publisher) {
            return Some(*slot);
        }
        let slot = if self.slots.len() < READER_SLOTS_MAX as usize {
            self.slots.push(None);
            self.slots.len() - 1
        } else {
            self.slots.iter().position(Option::is_none)?
        };
        self.slots[slot] = Some(publisher);
        self.slot_of.insert(publisher, slot as u32);
        Some(slot as u32)
    }

    /// Frees the slot of a publisher and returns it.
    pub fn free_slot(&mut self, publisher: PublisherId) -> Option<u32> {
        let slot = self.slot_of.remove(&publisher)?;
        self.slots[slot as usize] = None;
        Some(slot)
    }

    /// Returns publications delivered and lost so far, in the application's own words where it
    /// reads rings.
    pub fn counts(&self) -> (u64, u64) {
        let page = self.page.as_ref();
        let progress = (0..self.slots.len() as u32)
            .filter_map(|slot| page.map(|page| page.page.progress(slot)));
        progress.fold((self.relayed, self.relay_lost), |(delivered, lost), progress| {
            (delivered.wrapping_add(progress.delivered), lost.wrapping_add(progress.lost))
        })
    }
}
