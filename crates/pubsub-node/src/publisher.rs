//! A publisher: an application or another node, with its ring and its items.

use crate::domain::{LaterUse, NodeId};
use crate::pattern_set::{name_prefixes, whole_names};
use crate::session::{PublisherId, SessionId};
use nw_api::pubsub::{ImplicitRoute, ItemName, PublisherChoice, ScopePattern, Strategy};
use nw_faces::local_pubsub::ring::{ELSEWHERE, FIRST, LAST, MISSING, RecordHeader};
use nw_faces::local_pubsub::{ReadEvent, ReaderPage, RingFault, RingReader, RingSize, RingWriter};
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
    /// Names that further parents give it.
    pub further: Vec<ItemName>,
    /// Position in the ring before which its number was that of another item.
    pub begin: u64,
    /// Whether late subscribers get the last publication.
    pub keeps_last: bool,
    /// Which nodes its publications reach.
    pub strategy: Strategy,
    /// Whether its publisher asked for that strategy.
    pub has_own_strategy: bool,
    /// Which of several publishers of the item serve a subscriber; `None` if none has chosen.
    pub choice: Option<PublisherChoice>,
    /// Strength of its publisher.
    pub strength: u32,
    /// Whether it serves applications of this node, by that choice.
    pub serves_here: bool,
    /// For items of other nodes: when the first publication came, if another publisher was to serve
    /// this node then, milliseconds.
    pub unexpected_ms: Option<u64>,
    /// Where they go with the strategy implicit.
    pub route: ImplicitRoute,
    /// Subscribed applications.
    pub subscribers: BTreeMap<SessionId, Delivery>,
    /// Subscribed nodes.
    pub nodes: BTreeSet<NodeId>,
    /// Nodes that a given forwarding identifier leads to.
    pub path_nodes: BTreeSet<NodeId>,
}

impl Item {
    /// Returns the number of subscribed applications and nodes, and of those on a given path.
    pub fn subscriber_count(&self) -> u32 {
        (self.subscribers.len() + self.nodes.len() + self.path_nodes.len()) as u32
    }

    /// Returns whether other publishers of the item serve all subscribers.
    pub fn is_standby(&self) -> bool {
        !self.serves_here && !self.reaches_nodes()
    }

    /// Returns all names: first the announced one.
    pub fn names(&self) -> impl Iterator<Item = &ItemName> {
        core::iter::once(&self.name).chain(&self.further)
    }

    /// Returns what becomes of publications after they are delivered.
    pub fn later_use(&self) -> LaterUse {
        let is_bound = self.strategy != Strategy::Domain;
        LaterUse { keeps_last: self.keeps_last, is_bound }
    }

    /// Returns whether publications go to other nodes.
    pub fn reaches_nodes(&self) -> bool {
        !self.nodes.is_empty() || matches!(self.route, ImplicitRoute::Path(_))
    }

    /// Returns whether this node must read the ring for the item.
    pub fn needs_node(&self) -> bool {
        self.reaches_nodes()
            || self.subscribers.values().any(|delivery| *delivery == Delivery::Messages)
    }
}

/// Ended items of an application by which its ring is kept; with more it is passed again.
const ENDED_MAX: usize = 4096;

/// A ring as this node holds it.
#[derive(Debug)]
pub struct Ring {
    /// For readers.
    pub file: OwnedFd,
    /// Sizes of the ring.
    pub size: RingSize,
    /// This node's own reading end.
    pub reader: RingReader,
    /// The publication that it reads. It may have the first parts of one, so no other ring uses it.
    pub buffer: Vec<u8>,
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
        Ok(Ring { file, size, reader, buffer: Vec::new(), writer: None, page: None })
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

    /// Returns the last publication of an item, if the ring still has it: number and bytes.
    pub fn last(&mut self, item: u32) -> Option<(u64, Vec<u8>)> {
        let mut payload = Vec::new();
        let (sequence, len) = self.reader.peek_last(item, &mut payload)?;
        payload.truncate(len);
        Some((sequence, payload))
    }

    /// Returns the last `count` publications of an item that the ring still has from the position
    /// `begin` on, oldest first.
    pub fn history(&mut self, item: u32, count: u32, begin: u64) -> Vec<(u64, Vec<u8>)> {
        let earlier = if count > 1 { self.reader.history(item, count, begin) } else { None };
        let Some((position, after)) = earlier else {
            return if count > 0 { self.last(item).into_iter().collect() } else { Vec::new() };
        };
        let reader = RingReader::map(self.file.as_fd(), self.size, PUBLICATION_BYTES_MAX);
        let Ok(mut reader) = reader else { return Vec::new() };
        reader.follow(item, position, after);
        let (mut found, mut buffer, mut bytes) = (Vec::new(), Vec::new(), 0);
        // A publisher that goes on writing could keep this node reading.
        while found.len() < count as usize && bytes <= self.size.bytes as usize {
            match reader.read(&mut buffer) {
                Ok(ReadEvent::Publication { sequence, len, .. }) => {
                    bytes += len;
                    found.push((sequence, buffer[..len].to_vec()));
                }
                Ok(ReadEvent::Lost { .. }) => {}
                Ok(ReadEvent::Skipped | ReadEvent::Empty) | Err(_) => break,
            }
        }
        found
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
    /// Number of its items. With none the ring is kept for the next one.
    pub items: u32,
    /// Numbers of items that have ended for it. Another item with such a number needs the ring
    /// passed again, as the application may not have read the first one to its end.
    pub ended: BTreeSet<u32>,
    /// Its page, if this node writes the ring and so wakes it.
    pub page: Option<ReaderPage>,
}

impl RingUser {
    /// Records that an item has ended for the application.
    pub fn end_item(&mut self, number: u32) {
        self.items -= 1;
        if self.ended.len() <= ENDED_MAX {
            self.ended.insert(number);
        }
    }

    /// Returns whether the ring, of which the application reads no item, may be kept.
    pub fn can_pause(&self) -> bool {
        self.ended.len() <= ENDED_MAX
    }

    /// Returns whether the ring is kept without items, and an item had this number before.
    pub fn had(&self, number: u32) -> bool {
        self.items == 0 && self.ended.contains(&number)
    }
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
    /// Position of a ring that this node writes from which on a record wakes all readers, so that
    /// none is a quarter of the ring behind only because it waits for other items.
    wakes_all_at: u64,
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
            wakes_all_at: 0,
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

    /// Wakes the applications that wait for an item, of which this node wrote a publication.
    pub fn wake_readers(&mut self, number: u32) {
        let Some(ring) = &self.ring else { return };
        let Some(tail) = ring.writer.as_ref().map(RingWriter::tail) else { return };
        if tail >= self.wakes_all_at {
            self.wakes_all_at = tail + u64::from(ring.size.bytes) / 4;
            let reading = self.users.values().filter(|user| user.items > 0);
            for (page, slot) in reading.filter_map(|user| Some((user.page.as_ref()?, user.slot))) {
                if page.progress(slot).cursor < tail {
                    let _ = page.wake();
                }
            }
            return;
        }
        let Some(item) = self.items.get(&number) else { return };
        let users = item.subscribers.keys().filter_map(|session| self.users.get(session));
        for (page, slot) in users.filter_map(|user| Some((user.page.as_ref()?, user.slot))) {
            let _ = page.wake_for(slot, number);
        }
    }
}

/// All items by name, and all subscriptions by pattern.
#[derive(Debug, Default)]
pub struct Index {
    items: BTreeMap<ItemName, BTreeSet<(PublisherId, u32)>>,
    count: usize,
    exact: Subscribers,
    /// Patterns with wildcards by the text before the first one.
    patterns: BTreeMap<Box<str>, Subscribers>,
}

/// Returns the plain name of an item that passed other domains.
fn plain_of(name: &ItemName) -> Option<ItemName> {
    name.path().and_then(|_| name.plain().parse().ok())
}

/// Connections by the pattern that they subscribe to.
type Subscribers = BTreeMap<ScopePattern, BTreeSet<SessionId>>;

impl Index {
    /// Returns the number of items.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Adds an item. One that passed other domains is found by its plain name, too.
    pub fn insert_item(&mut self, name: ItemName, publisher: PublisherId, item: u32) {
        if let Some(plain) = plain_of(&name) {
            self.insert_alias(plain, publisher, item);
        }
        self.count += usize::from(self.items.entry(name).or_default().insert((publisher, item)));
    }

    /// Removes an item.
    pub fn remove_item(&mut self, name: &ItemName, publisher: PublisherId, item: u32) {
        if let Some(plain) = plain_of(name) {
            self.remove_alias(&plain, publisher, item);
        }
        let Some(set) = self.items.get_mut(name) else { return };
        self.count -= usize::from(set.remove(&(publisher, item)));
        if set.is_empty() {
            self.items.remove(name);
        }
    }

    /// Adds a further name of an item.
    pub fn insert_alias(&mut self, name: ItemName, publisher: PublisherId, item: u32) {
        if let Some(plain) = plain_of(&name) {
            self.items.entry(plain).or_default().insert((publisher, item));
        }
        self.items.entry(name).or_default().insert((publisher, item));
    }

    /// Removes a further name of an item.
    pub fn remove_alias(&mut self, name: &ItemName, publisher: PublisherId, item: u32) {
        let plain = plain_of(name);
        for name in [Some(name), plain.as_ref()].into_iter().flatten() {
            let Some(set) = self.items.get_mut(name) else { continue };
            set.remove(&(publisher, item));
            if set.is_empty() {
                self.items.remove(name);
            }
        }
    }

    /// Returns whether there are items below a scope.
    pub fn has_below(&self, scope: &ItemName) -> bool {
        let pattern = format!("{scope}/**").parse::<ScopePattern>();
        pattern.is_ok_and(|pattern| {
            let all = self.items.range(scope..);
            let mut near = all.take_while(|(name, _)| name.as_str().starts_with(scope.as_str()));
            near.any(|(name, _)| name != scope && pattern.matches(name))
        })
    }

    /// Returns the items with a name, also one by further parents.
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

    /// Adds a subscription.
    pub fn insert_subscription(&mut self, pattern: ScopePattern, session: SessionId) {
        let table = match pattern.is_name() {
            true => &mut self.exact,
            false => self.patterns.entry(pattern.literal_prefix().into()).or_default(),
        };
        table.entry(pattern).or_default().insert(session);
    }

    /// Removes the subscription of a connection to a pattern.
    pub fn remove_subscription(&mut self, pattern: &ScopePattern, session: SessionId) {
        let prefix = pattern.literal_prefix();
        let table = match pattern.is_name() {
            true => Some(&mut self.exact),
            false => self.patterns.get_mut(prefix),
        };
        let Some(table) = table else { return };
        let Some(set) = table.get_mut(pattern) else { return };
        set.remove(&session);
        if set.is_empty() {
            table.remove(pattern);
        }
        if self.patterns.get(prefix).is_some_and(BTreeMap::is_empty) {
            self.patterns.remove(prefix);
        }
    }

    /// Returns the connections whose subscriptions match a name.
    pub fn subscribers(&self, name: &ItemName) -> BTreeSet<SessionId> {
        let exact = whole_names(name).filter_map(|text| self.exact.get(text)).flatten();
        let near = name_prefixes(name).filter_map(|prefix| self.patterns.get(prefix)).flatten();
        let matching = near.filter(|(pattern, _)| pattern.matches(name));
        exact.chain(matching.flat_map(|(_, set)| set)).copied().collect()
    }

    /// Returns all patterns that applications of this node subscribe to.
    pub fn patterns(&self) -> impl Iterator<Item = &ScopePattern> {
        self.exact.keys().chain(self.patterns.values().flat_map(BTreeMap::keys))
    }
}
