//! A publisher: an application or another node, with its ring and its items.

use crate::domain::NodeId;
use crate::session::{PublisherId, SessionId};
use nw_api::pubsub::{ItemName, ScopePattern};
use nw_faces::local_pubsub::ring::{ELSEWHERE, FIRST, LAST, MISSING, RecordHeader};
use nw_faces::local_pubsub::{ReaderPage, RingFault, RingReader, RingSize, RingWriter};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};

/// Largest publication, bytes: what a reader assembles at most.
pub const PUBLICATION_BYTES_MAX: usize = 1 << 30;

/// Largest publication that this node passes on by messages, bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// How publications of an item reach an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It reads the ring.
    Ring,
    /// The node reads the ring and sends messages.
    Messages,
}

/// An announced item.
#[derive(Debug)]
pub struct Item {
    /// Number of the item within this node, for messages.
    pub id: u32,
    /// Name of the item.
    pub name: ItemName,
    /// Rule for the name.
    pub rule: Option<usize>,
    /// Whether late subscribers get the last publication.
    pub keeps_last: bool,
    /// Subscribed applications.
    pub subscribers: BTreeMap<SessionId, Delivery>,
    /// Subscribed nodes.
    pub nodes: BTreeSet<NodeId>,
}

impl Item {
    /// Returns the number of subscribed applications and nodes.
    pub fn subscriber_count(&self) -> u32 {
        (self.subscribers.len() + self.nodes.len()) as u32
    }

    /// Returns whether this node must read the ring for the item.
    pub fn needs_node(&self) -> bool {
        !self.nodes.is_empty()
            || self.subscribers.values().any(|delivery| *delivery == Delivery::Messages)
    }
}

/// A ring as this node holds it.
#[derive(Debug)]
pub struct Ring {
    /// For readers.
    pub file: OwnedFd,
    /// Sizes of the ring.
    pub size: RingSize,
    /// This node's own reading end.
    pub reader: RingReader,
    /// The writing end, if this node writes for the publisher.
    pub writer: Option<RingWriter>,
    /// This node's reader page, once it reads the ring of an application.
    pub page: Option<ReaderPage>,
}

impl Ring {
    /// Maps the ring of an application.
    ///
    /// # Errors
    /// If it is not a ring of these sizes that only its publisher can write.
    pub fn map(file: OwnedFd, size: RingSize) -> Result<Self, RingFault> {
        let reader = RingReader::map(file.as_fd(), size, PUBLICATION_BYTES_MAX)?;
        Ok(Ring { file, size, reader, writer: None, page: None })
    }

    /// Creates a ring that this node writes.
    ///
    /// # Errors
    /// The error of a system call, as text.
    pub fn create(size: RingSize) -> Result<Self, String> {
        let (writer, file) = RingWriter::create(size).map_err(|errno| errno.to_string())?;
        let ring = Ring::map(file, size).map_err(|fault| fault.to_string())?;
        Ok(Ring { writer: Some(writer), ..ring })
    }

    /// Writes a publication, in as many records as it needs. Does nothing for a ring that an
    /// application writes.
    pub fn publish(&mut self, item: u32, sequence: u64, payload: &[u8]) {
        let Some(writer) = &mut self.writer else { return };
        let (total, max) = (payload.len(), self.size.record_bytes_max());
        let count = total.div_ceil(max).max(1);
        for index in 0..count {
            let (start, end) = (index * max, total.min((index + 1) * max));
            let first = if index == 0 { FIRST } else { 0 };
            let last = if index + 1 == count { LAST } else { 0 };
            let header = RecordHeader {
                len: 0,
                item,
                sequence,
                total_bytes: total as u64,
                offset: start as u64,
                flags: first | last,
            };
            writer.write(header, &payload[start..end]);
        }
    }

    /// Returns whether a publication fits the ring with others beside it.
    pub const fn holds(&self, len: usize) -> bool {
        len <= self.size.bytes as usize / 2
    }

    /// Records that a publication reaches the readers by messages.
    pub fn report_elsewhere(&mut self, item: u32, sequence: u64) {
        let header =
            RecordHeader { item, sequence, flags: ELSEWHERE | LAST, ..RecordHeader::default() };
        if let Some(writer) = &mut self.writer {
            writer.write(header, &[]);
        }
    }

    /// Records that the publications up to a sequence number are lost.
    pub fn report_missing(&mut self, item: u32, sequence: u64) {
        let header =
            RecordHeader { item, sequence, flags: MISSING | LAST, ..RecordHeader::default() };
        if let Some(writer) = &mut self.writer {
            writer.write(header, &[]);
        }
    }
}

/// An application that reads the ring of a publisher.
#[derive(Debug)]
pub struct RingUser {
    /// Slot of the ring in its reader page.
    pub slot: u32,
    /// Number of its items.
    pub items: u32,
    /// Its page, if this node writes the ring and so wakes it.
    pub page: Option<ReaderPage>,
}

/// The origin of a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An application of this node; the connection has the publisher's number.
    Application,
    /// Another node.
    Node(NodeId),
}

/// A publisher.
#[derive(Debug)]
pub struct Publisher {
    /// Application or node.
    pub origin: Origin,
    /// The ring, once there is one.
    pub ring: Option<Ring>,
    /// Items by the publisher's number.
    pub items: BTreeMap<u32, Item>,
    /// Applications that read the ring.
    pub users: BTreeMap<SessionId, RingUser>,
    /// Rules of its items.
    pub rules: BTreeSet<usize>,
    /// A publication of an application without a ring, of which not all parts have arrived.
    pub partial: Option<(u32, u64, Vec<u8>)>,
}

impl Publisher {
    /// Creates a publisher without items.
    pub const fn new(origin: Origin) -> Self {
        Publisher {
            origin,
            ring: None,
            items: BTreeMap::new(),
            users: BTreeMap::new(),
            rules: BTreeSet::new(),
            partial: None,
        }
    }

    /// Returns a number below `items_max` that no item has.
    pub fn free_item(&self, items_max: u32) -> Option<u32> {
        let after_last = self.items.keys().next_back().map_or(0, |last| last + 1);
        if after_last < items_max {
            return Some(after_last);
        }
        (0..items_max).find(|number| !self.items.contains_key(number))
    }

    /// Wakes the applications that wait for publications that this node wrote.
    pub fn wake_users(&self) {
        for page in self.users.values().filter_map(|user| user.page.as_ref()) {
            let _ = page.wake();
        }
    }
}

/// All items by name, and all subscriptions by pattern.
#[derive(Debug, Default)]
pub struct Index {
    items: BTreeMap<ItemName, BTreeSet<(PublisherId, u32)>>,
    count: usize,
    exact: BTreeMap<ScopePattern, BTreeSet<SessionId>>,
    patterns: BTreeMap<ScopePattern, BTreeSet<SessionId>>,
}

impl Index {
    /// Returns the number of items.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Adds an item.
    pub fn insert_item(&mut self, name: ItemName, publisher: PublisherId, item: u32) {
        self.count += usize::from(self.items.entry(name).or_default().insert((publisher, item)));
    }

    /// Removes an item.
    pub fn remove_item(&mut self, name: &ItemName, publisher: PublisherId, item: u32) {
        let Some(set) = self.items.get_mut(name) else { return };
        self.count -= usize::from(set.remove(&(publisher, item)));
        if set.is_empty() {
            self.items.remove(name);
        }
    }

    /// Returns the items with a name.
    pub fn named(&self, name: &ItemName) -> impl Iterator<Item = (PublisherId, u32)> {
        self.items.get(name).into_iter().flatten().copied()
    }

    /// Returns the items that match a pattern.
    pub fn matching(&self, pattern: &ScopePattern) -> Vec<(PublisherId, u32)> {
        if pattern.is_name() {
            let name = pattern.as_str().parse::<ItemName>();
            return name.map_or_else(|_| Vec::new(), |name| self.named(&name).collect());
        }
        let prefix = pattern.literal_prefix();
        let from = prefix.parse::<ItemName>();
        let all: Box<dyn Iterator<Item = _>> = match &from {
            Ok(from) => Box::new(self.items.range(from..)),
            Err(_) => Box::new(self.items.iter()),
        };
        all.take_while(|(name, _)| name.as_str().starts_with(prefix))
            .filter(|(name, _)| pattern.matches(name))
            .flat_map(|(_, set)| set.iter().copied())
            .collect()
    }

    /// Adds a subscription. Returns whether it is the first of its pattern.
    pub fn insert_subscription(&mut self, pattern: ScopePattern, session: SessionId) -> bool {
        let table = if pattern.is_name() { &mut self.exact } else { &mut self.patterns };
        let set = table.entry(pattern).or_default();
        set.insert(session) && set.len() == 1
    }

    /// Removes the subscription of a connection to a pattern. Returns whether it was the last.
    pub fn remove_subscription(&mut self, pattern: &ScopePattern, session: SessionId) -> bool {
        let table = if pattern.is_name() { &mut self.exact } else { &mut self.patterns };
        let Some(set) = table.get_mut(pattern) else { return false };
        set.remove(&session);
        let is_last = set.is_empty();
        if is_last {
            table.remove(pattern);
        }
        is_last
    }

    /// Returns the connections whose subscriptions match a name.
    pub fn subscribers(&self, name: &ItemName) -> BTreeSet<SessionId> {
        let exact = name.as_str().parse::<ScopePattern>().ok();
        let exact = exact.and_then(|pattern| self.exact.get(&pattern)).into_iter().flatten();
        let matching = self.patterns.iter().filter(|(pattern, _)| pattern.matches(name));
        exact.chain(matching.flat_map(|(_, set)| set)).copied().collect()
    }

    /// Returns all patterns that applications of this node subscribe to.
    pub fn patterns(&self) -> impl Iterator<Item = &ScopePattern> {
        self.exact.keys().chain(self.patterns.keys())
    }
}
