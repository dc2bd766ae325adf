//! A connected application: its socket, its reader page, its subscriptions, the rings it reads.

use crate::publisher::{Item, MESSAGE_BYTES_MAX};
use crate::rules::Party;
use crate::subscriptions::Subscriptions;
use nw_api::pubsub::{Event, ItemName, Strategy};
use nw_faces::credentials::Credentials;
use nw_faces::local_pubsub::{FrameSocket, READER_SLOTS_MAX, ReaderPage, SocketFault};
use std::collections::{BTreeMap, VecDeque};
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
    /// Whether it stands for other nodes.
    pub is_remote: bool,
    /// Name of the program, in its own words.
    pub program: String,
    /// Whether the first message has arrived.
    pub is_welcome: bool,
    /// Reader page; `None` without shared memory.
    pub page: Option<Page>,
    /// Its subscriptions.
    pub subscriptions: Subscriptions,
    /// Publishers by slot of the reader page.
    slots: Vec<Option<PublisherId>>,
    slot_of: BTreeMap<PublisherId, u32>,
    /// Publishers whose rings it has and reads no item of, by the time that this is so.
    pub paused: VecDeque<PublisherId>,
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
            is_remote: false,
            program: String::new(),
            is_welcome: false,
            page: None,
            subscriptions: Subscriptions::default(),
            slots: Vec::new(),
            slot_of: BTreeMap::new(),
            paused: VecDeque::new(),
            relayed: 0,
            relay_lost: 0,
            pending_lost: BTreeMap::new(),
            interest: Interest { messages: true, space: false },
        }
    }

    /// Returns the application as the subject of a rule.
    pub const fn party(&self) -> Party {
        match self.is_remote {
            true => Party::Remote,
            false => Party::Application(self.credentials),
        }
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

    /// Returns the name of an item as the application is told it: the plain one, unless it asks for
    /// the domains.
    pub fn shown_name(&self, name: &ItemName) -> String {
        let is_whole = self.subscriptions.wants_path(name);
        if is_whole { name.as_str() } else { name.plain() }.to_owned()
    }

    /// Returns how many earlier publications the subscriptions to any name of an item want. `None`
    /// if none matches.
    pub fn matches_item(&self, item: &Item) -> Option<u32> {
        let history = item.names().filter_map(|name| self.subscriptions.matches(name)).max();
        history.filter(|_| !self.is_kept_from(item))
    }

    /// Returns whether the application would take an item to other domains that stays in a part of
    /// this one.
    pub fn is_kept_from(&self, item: &Item) -> bool {
        item.strategy != Strategy::Domain
            && item.names().any(|name| self.subscriptions.matches_for(name, true))
            && !item.names().any(|name| self.subscriptions.matches_for(name, false))
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

    /// Returns the publishers whose rings it has.
    pub fn rings(&self) -> Vec<PublisherId> {
        self.slot_of.keys().copied().collect()
    }

    /// Returns the publisher whose ring is to be taken back for a slot for another one: all slots
    /// are in use, and it is the one that the application has read nothing of for longest.
    pub fn ring_to_take_back(&self, publisher: PublisherId) -> Option<PublisherId> {
        let is_full = self.slot_of.len() >= READER_SLOTS_MAX as usize;
        let needs_slot = is_full && !self.slot_of.contains_key(&publisher);
        self.paused.front().copied().filter(|_| needs_slot)
    }

    /// Frees the slot of a publisher and returns it.
    pub fn free_slot(&mut self, publisher: PublisherId) -> Option<u32> {
        let slot = self.slot_of.remove(&publisher)?;
        self.slots[slot as usize] = None;
        self.paused.retain(|paused| *paused != publisher);
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
