//! The subscribing end.

use super::connection::{Connection, PubSubError, PubSubOptions};
use core::time::Duration;
use nw_api::pubsub::{Event, Fragment, Reply, Request, ScopePattern};
use nw_faces::local_pubsub::{Progress, ReadEvent, RingFault, RingReader, RingSize};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// Longest wait without looking at the socket: the end of the node is noticed within it.
const SLICE: Duration = Duration::from_millis(100);
/// Source of items whose publications come in messages.
const BY_MESSAGES: u32 = u32::MAX;

/// What a subscriber receives.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A publication.
    Publication {
        /// Name of the item.
        name: &'a str,
        /// Sequence number within the item, from 1.
        sequence: u64,
        /// The bytes.
        payload: &'a [u8],
        /// Publications of this item lost since the one before.
        lost: u64,
        /// Whether it is older than the subscription.
        is_last_value: bool,
    },
    /// Publications that were lost, with no later one yet.
    Lost {
        /// Name of the item.
        name: &'a str,
        /// How many.
        lost: u64,
    },
    /// Nothing arrived in time.
    Nothing,
}

/// Publications of all items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Received.
    pub delivered: u64,
    /// Lost.
    pub lost: u64,
}

#[derive(Debug)]
struct Item {
    name: Box<str>,
    stream: u64,
    /// Sequence number of the last publication, once the item has ended.
    end: Option<u64>,
}

/// A publisher's ring.
#[derive(Debug)]
struct Source {
    slot: u32,
    reader: RingReader,
    /// The publication being read. Its parts may come with those of other rings in between.
    buffer: Vec<u8>,
    items: BTreeMap<u32, Item>,
    /// Items that have ended, and whose last publications may still be in the ring.
    ended: Vec<u32>,
    counts: Counts,
    has_ended: bool,
}

/// An item whose publications come in messages.
#[derive(Debug)]
struct Relayed {
    name: Box<str>,
    stream: u64,
    partial: Vec<u8>,
}

/// A publication or loss that waits to be returned.
#[derive(Debug)]
enum Pending {
    Publication {
        name: Box<str>,
        stream: u64,
        sequence: u64,
        payload: Vec<u8>,
        is_last_value: bool,
    },
    Lost {
        name: Box<str>,
        stream: u64,
        lost: u64,
    },
}

/// What `receive` found, without borrows.
enum Found {
    Ring { source: usize, item: u32, sequence: u64, len: usize, lost: u64 },
    RingLost { source: usize, item: u32, lost: u64 },
    Pending(Pending),
}

/// Receives publications.
#[derive(Debug)]
pub struct Subscriber {
    connection: Connection,
    sources: Vec<Source>,
    relayed: BTreeMap<u32, Relayed>,
    pending: VecDeque<Pending>,
    /// The pending entry that was returned last.
    current: Option<Pending>,
    subscriptions: BTreeMap<u32, ScopePattern>,
    next_subscription: u32,
    next_source: usize,
    publication_bytes_max: usize,
    counts: Counts,
    /// Items of publishers so far.
    streams: u64,
    /// The item of a publisher that the last result is about.
    stream: u64,
    /// When the socket was last read.
    updated: Instant,
}

impl Subscriber {
    /// Connects to a node.
    ///
    /// # Errors
    /// If no node can be reached, or shared memory can't be created.
    pub fn connect(options: &PubSubOptions) -> Result<Self, PubSubError> {
        Ok(Subscriber {
            connection: Connection::open(options)?,
            sources: Vec::new(),
            relayed: BTreeMap::new(),
            pending: VecDeque::new(),
            current: None,
            subscriptions: BTreeMap::new(),
            next_subscription: 1,
            next_source: 0,
            publication_bytes_max: options.publication_bytes_max,
            counts: Counts::default(),
            streams: 0,
            stream: 0,
            updated: Instant::now(),
        })
    }

    /// Subscribes to a pattern. `wants_last`: the last publication of each item comes first.
    /// Returns the number of the subscription.
    ///
    /// # Errors
    /// If the node refuses it, or the connection is lost.
    pub fn subscribe(
        &mut self,
        pattern: &ScopePattern,
        wants_last: bool,
    ) -> Result<u32, PubSubError> {
        self.subscribe_from(pattern, u32::from(wants_last))
    }

    /// Subscribes to a pattern. The last `history` publications of each item come first, as far as
    /// the ring of its publisher still has them. Returns the number of the subscription.
    ///
    /// # Errors
    /// If the node refuses it, or the connection is lost.
    pub fn subscribe_from(
        &mut self,
        pattern: &ScopePattern,
        history: u32,
    ) -> Result<u32, PubSubError> {
        self.request(pattern, |request, subscription, pattern| Request::SubscribeHistory {
            request,
            subscription,
            history,
            pattern,
        })
    }

    /// Subscribes to a pattern for publications that reach this node anyhow: other nodes are not
    /// told. For items with [`Strategy::Implicit`](nw_api::pubsub::Strategy::Implicit), and for
    /// those of this node alone. Returns the number of the subscription.
    ///
    /// # Errors
    /// If the node refuses it, or the connection is lost.
    pub fn subscribe_here(
        &mut self,
        pattern: &ScopePattern,
        history: u32,
    ) -> Result<u32, PubSubError> {
        self.request(pattern, |request, subscription, pattern| Request::SubscribeHere {
            request,
            subscription,
            history,
            pattern,
        })
    }

    fn request(
        &mut self,
        pattern: &ScopePattern,
        request: impl FnOnce(u32, u32, String) -> Request,
    ) -> Result<u32, PubSubError> {
        let subscription = self.next_subscription;
        self.next_subscription += 1;
        let number = self.connection.new_request();
        self.connection.send(&request(number, subscription, pattern.to_string()), None)?;
        self.connection.reply(number)?;
        self.subscriptions.insert(subscription, pattern.clone());
        Ok(subscription)
    }

    /// Ends a subscription. The node is told and not waited for: what is published before it
    /// handles the message still comes.
    ///
    /// # Errors
    /// If there is no such subscription, or the connection is lost.
    pub fn unsubscribe(&mut self, subscription: u32) -> Result<(), PubSubError> {
        if self.subscriptions.remove(&subscription).is_none() {
            let text = format!("there is no subscription {subscription}");
            return Err(PubSubError::Refused { reply: Reply::Missing, text });
        }
        let request = self.connection.new_request();
        self.connection.send(&Request::Unsubscribe { request, subscription }, None)
    }

    /// Returns the publications received and lost so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns a number for the item of one publisher that the last publication or loss was of.
    /// Items of several publishers with one name have different ones, and so has an item that
    /// begins again.
    pub const fn stream(&self) -> u64 {
        self.stream
    }

    /// Waits for the next publication or loss, at most `timeout`.
    ///
    /// # Errors
    /// If the connection is lost; all publications before are returned first.
    pub fn receive(&mut self, timeout: Duration) -> Result<Received<'_>, PubSubError> {
        let mut deadline = None;
        loop {
            let mut outcome = Ok(());
            if self.connection.has_mail() && self.connection.page.is_some() {
                outcome = self.update();
            }
            if let Some(found) = self.next_found() {
                return Ok(self.describe(found));
            }
            outcome?;
            let now = Instant::now();
            let deadline = *deadline.get_or_insert_with(|| now + timeout);
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() && self.connection.page.is_none() {
                self.update()?;
            }
            self.wait(left)?;
            if let Some(found) = self.next_found() {
                return Ok(self.describe(found));
            }
            if left.is_zero() {
                return Ok(Received::Nothing);
            }
        }
    }

    /// Waits once, at most a slice, and reads the socket if the node has sent something, nothing
    /// else has arrived, or the last time is a slice ago.
    fn wait(&mut self, left: Duration) -> Result<(), PubSubError> {
        if let Some(page) = &self.connection.page {
            page.announce_wait(false);
            if self.has_records() || self.connection.has_mail() || left.is_zero() {
                page.end_wait();
                return Ok(());
            }
        }
        self.connection.wait(left.min(SLICE));
        let is_recent = self.updated.elapsed() < SLICE;
        if is_recent && self.has_records() && !self.connection.has_mail() {
            return Ok(());
        }
        let outcome = self.update();
        match self.has_records() {
            true => Ok(()),
            false => outcome,
        }
    }

    /// Returns whether a ring has records that were not read.
    fn has_records(&self) -> bool {
        self.sources.iter().any(|source| !source.is_idle() && source.reader.has_records())
    }

    /// Returns the next thing to report.
    fn next_found(&mut self) -> Option<Found> {
        if let Some(pending) = self.pending.pop_front() {
            return Some(Found::Pending(pending));
        }
        for _ in 0..self.sources.len() {
            self.next_source = (self.next_source + 1) % self.sources.len();
            let source = self.next_source;
            if !self.sources[source].is_idle()
                && let Some(found) = self.read_source(source)
            {
                return Some(found);
            }
            if let Some(pending) = self.pending.pop_front() {
                return Some(Found::Pending(pending));
            }
            if self.sources[source].is_done() {
                self.sources.remove(source);
                return self.next_found();
            }
        }
        None
    }

    /// Reads a ring. At its end the items that have ended are settled.
    fn read_source(&mut self, index: usize) -> Option<Found> {
        let source = &mut self.sources[index];
        loop {
            let event = match source.reader.read(&mut source.buffer) {
                Ok(event) => event,
                Err(fault) => {
                    // The publisher is faulty: only its own items end.
                    warn_of_fault(source.items.values().map(|item| &*item.name), fault);
                    source.items.clear();
                    source.ended.clear();
                    source.has_ended = true;
                    return None;
                }
            };
            let found = match event {
                ReadEvent::Publication { item, sequence, len, lost } => {
                    source.counts.delivered += 1;
                    source.counts.lost += lost;
                    Found::Ring { source: index, item, sequence, len, lost }
                }
                ReadEvent::Lost { item, lost } => {
                    source.counts.lost += lost;
                    Found::RingLost { source: index, item, lost }
                }
                ReadEvent::Skipped => continue,
                ReadEvent::Empty => {
                    source.settle(&mut self.pending, &self.connection);
                    source.report(&self.connection);
                    return None;
                }
            };
            source.report(&self.connection);
            return Some(found);
        }
    }

    /// Counts what was found, and borrows it for the caller.
    fn describe(&mut self, found: Found) -> Received<'_> {
        match found {
            Found::Ring { source, item, sequence, len, lost } => {
                self.counts.delivered += 1;
                self.counts.lost += lost;
                self.stream = self.sources[source].stream(item);
                let name = self.sources[source].name(item);
                let payload = &self.sources[source].buffer[..len];
                Received::Publication { name, sequence, payload, lost, is_last_value: false }
            }
            Found::RingLost { source, item, lost } => {
                self.counts.lost += lost;
                self.stream = self.sources[source].stream(item);
                Received::Lost { name: self.sources[source].name(item), lost }
            }
            Found::Pending(pending) => match self.current.insert(pending) {
                Pending::Publication { name, stream, sequence, payload, is_last_value } => {
                    self.stream = *stream;
                    self.counts.delivered += 1;
                    let (sequence, is_last_value) = (*sequence, *is_last_value);
                    Received::Publication { name, sequence, payload, lost: 0, is_last_value }
                }
                Pending::Lost { name, stream, lost } => {
                    self.stream = *stream;
                    self.counts.lost += *lost;
                    Received::Lost { name, lost: *lost }
                }
            },
        }
    }

    /// Handles the node's messages.
    fn update(&mut self) -> Result<(), PubSubError> {
        self.updated = Instant::now();
        for (event, file) in self.connection.take_events()? {
            match event {
                Event::Source { source, bytes, items } => {
                    self.add_source(source, RingSize { bytes, items }, file);
                }
                Event::Item { source: BY_MESSAGES, item, name, .. } => {
                    self.streams += 1;
                    let stream = self.streams;
                    let relayed = Relayed { name: name.into(), stream, partial: Vec::new() };
                    self.relayed.insert(item, relayed);
                }
                Event::Item { source, item, position, after, reads_last, name } => {
                    self.add_item(source, item, (position, after), reads_last, name.into());
                }
                Event::ItemEnd { source: BY_MESSAGES, item, .. } => {
                    self.relayed.remove(&item);
                }
                Event::ItemEnd { source, item, last } => {
                    if let Some(source) = self.source(source)
                        && let Some(state) = source.items.get_mut(&item)
                    {
                        if state.end.replace(last).is_none() {
                            source.ended.push(item);
                        }
                        source.reader.follow_until(item, last);
                    }
                }
                Event::SourceEnd { source } => {
                    if let Some(page) = &self.connection.page {
                        // The slot may be that of another ring from now on.
                        page.set_items(source, 0);
                    }
                    if let Some(source) = self.source(source) {
                        source.has_ended = true;
                    }
                }
                Event::Data { item, is_last_value, fragment } => {
                    self.take_fragment(item, is_last_value, fragment);
                }
                Event::Lost { item, count } => {
                    if let Some(relayed) = self.relayed.get(&item) {
                        let (name, stream) = (relayed.name.clone(), relayed.stream);
                        self.pending.push_back(Pending::Lost { name, stream, lost: count });
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn source(&mut self, slot: u32) -> Option<&mut Source> {
        self.sources.iter_mut().find(|source| source.slot == slot && !source.has_ended)
    }

    fn add_source(&mut self, slot: u32, size: RingSize, file: Option<OwnedFd>) {
        let Some(file) = file else { return };
        let reader = match RingReader::map(file.as_fd(), size, self.publication_bytes_max) {
            Ok(reader) => reader,
            Err(fault) => return warn_of_fault([].into_iter(), fault),
        };
        self.sources.push(Source {
            slot,
            reader,
            buffer: Vec::new(),
            items: BTreeMap::new(),
            ended: Vec::new(),
            counts: Counts::default(),
            has_ended: false,
        });
    }

    fn add_item(
        &mut self,
        slot: u32,
        number: u32,
        (position, after): (u64, u64),
        reads_last: bool,
        name: Box<str>,
    ) {
        let at = self.sources.iter().position(|found| found.slot == slot && !found.has_ended);
        let Some(source) = at.map(|at| &mut self.sources[at]) else { return };
        source.reader.follow(number, position, after);
        self.streams += 1;
        let stream = self.streams;
        let item = Item { name: name.clone(), stream, end: None };
        let before = source.items.insert(number, item);
        if before.is_some_and(|item| item.end.is_some()) {
            // It had ended, but the ring is not read to that end yet: now it goes on.
            source.reader.follow_until(number, u64::MAX);
            source.ended.retain(|ended| *ended != number);
        }
        source.set_items(&self.connection);
        source.report(&self.connection);
        // Not into the source's buffer, which may hold the first parts of a publication.
        let mut payload = Vec::new();
        if reads_last
            && after > 0
            && let Some((sequence, len)) = source.reader.read_last(number, &mut payload)
        {
            source.counts.delivered += 1;
            payload.truncate(len);
            let is_last_value = true;
            self.pending.push_back(Pending::Publication {
                name,
                stream,
                sequence,
                payload,
                is_last_value,
            });
        }
    }

    /// Takes a publication that came in a message, or a part of one.
    fn take_fragment(&mut self, item: u32, is_last_value: bool, fragment: Fragment) {
        let Some(relayed) = self.relayed.get_mut(&item) else { return };
        let is_last = fragment.is_last();
        if fragment.offset == 0 {
            relayed.partial.clear();
        }
        let fits = fragment.total_bytes <= self.publication_bytes_max as u64;
        if fits && relayed.partial.len() as u64 == fragment.offset {
            relayed.partial.extend_from_slice(&fragment.payload);
        }
        if !is_last {
            return;
        }
        let (name, stream) = (relayed.name.clone(), relayed.stream);
        let payload = core::mem::take(&mut relayed.partial);
        self.pending.push_back(match payload.len() as u64 == fragment.total_bytes {
            true => {
                let sequence = fragment.sequence;
                Pending::Publication { name, stream, sequence, payload, is_last_value }
            }
            false => Pending::Lost { name, stream, lost: 1 },
        });
    }
}

impl Source {
    fn name(&self, item: u32) -> &str {
        self.items.get(&item).map_or("", |item| &item.name)
    }

    fn stream(&self, item: u32) -> u64 {
        self.items.get(&item).map_or(0, |item| item.stream)
    }

    /// Ends the items of which nothing more will come: the ring is read to its end.
    fn settle(&mut self, pending: &mut VecDeque<Pending>, connection: &Connection) {
        if self.ended.is_empty() {
            return;
        }
        for number in core::mem::take(&mut self.ended) {
            let Some(item) = self.items.remove(&number) else { continue };
            let end = item.end.unwrap_or(0);
            let lost = end.saturating_sub(self.reader.unfollow(number).unwrap_or(end));
            if lost > 0 {
                self.counts.lost += lost;
                pending.push_back(Pending::Lost { name: item.name, stream: item.stream, lost });
            }
        }
        self.set_items(connection);
    }

    /// Says which items wake this subscriber.
    fn set_items(&self, connection: &Connection) {
        if let Some(page) = &connection.page
            && !self.has_ended
        {
            page.set_items(self.slot, self.reader.followed_items());
        }
    }

    /// Returns whether no item of the ring is subscribed to now. It is not read then.
    fn is_idle(&self) -> bool {
        self.items.is_empty()
    }

    fn is_done(&self) -> bool {
        self.has_ended && self.items.is_empty()
    }

    /// Reports the progress to publisher and node.
    fn report(&self, connection: &Connection) {
        if let Some(page) = &connection.page {
            let Counts { delivered, lost } = self.counts;
            page.report(self.slot, Progress { cursor: self.reader.cursor(), delivered, lost });
        }
    }
}

/// Tells the user of the program that a publisher's items end because its ring is invalid.
fn warn_of_fault<'a>(mut names: impl Iterator<Item = &'a str>, fault: RingFault) {
    let (first, others) = (names.next().unwrap_or_default(), names.count());
    tracing::warn!(%fault, "a publisher is faulty, and its items end: {first} and {others} others");
}
