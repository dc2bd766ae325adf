//! The subscribing end.

use super::connection::{Connection, PubSubError, PubSubOptions};
use core::time::Duration;
use nw_api::pubsub::{Event, Fragment, Request, ScopePattern};
use nw_faces::local_pubsub::{Progress, ReadEvent, RingReader, RingSize};
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
    /// Sequence number of the last publication, once the item has ended.
    end: Option<u64>,
}

/// A publisher's ring.
#[derive(Debug)]
struct Source {
    slot: u32,
    reader: RingReader,
    items: BTreeMap<u32, Item>,
    counts: Counts,
    has_ended: bool,
}

/// An item whose publications come in messages.
#[derive(Debug)]
struct Relayed {
    name: Box<str>,
    partial: Vec<u8>,
}

/// A publication or loss that waits to be returned.
#[derive(Debug)]
enum Pending {
    Publication { name: Box<str>, sequence: u64, payload: Vec<u8>, is_last_value: bool },
    Lost { name: Box<str>, lost: u64 },
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
    buffer: Vec<u8>,
    publication_bytes_max: usize,
    counts: Counts,
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
            buffer: Vec::new(),
            publication_bytes_max: options.publication_bytes_max,
            counts: Counts::default(),
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
        let subscription = self.next_subscription;
        self.next_subscription += 1;
        let request = self.connection.new_request();
        let text = pattern.to_string();
        let subscribe = Request::Subscribe { request, subscription, wants_last, pattern: text };
        self.connection.send(&subscribe, None)?;
        self.connection.reply(request)?;
        self.subscriptions.insert(subscription, pattern.clone());
        Ok(subscription)
    }

    /// Ends a subscription.
    ///
    /// # Errors
    /// If there is no such subscription, or the connection is lost.
    pub fn unsubscribe(&mut self, subscription: u32) -> Result<(), PubSubError> {
        let request = self.connection.new_request();
        self.connection.send(&Request::Unsubscribe { request, subscription }, None)?;
        self.connection.reply(request)?;
        self.subscriptions.remove(&subscription);
        Ok(())
    }

    /// Returns the publications received and lost so far.
    pub const fn counts(&self) -> Counts {
        self.counts
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

    /// Waits once, at most a slice, and reads the socket.
    fn wait(&mut self, left: Duration) -> Result<(), PubSubError> {
        if let Some(page) = &self.connection.page {
            page.announce_wait(false);
            let has_more = self.sources.iter().any(|source| source.reader.has_records());
            if has_more || self.connection.has_mail() || left.is_zero() {
                page.end_wait();
                return Ok(());
            }
        }
        self.connection.wait(left.min(SLICE));
        let outcome = self.update();
        match self.sources.iter().any(|source| source.reader.has_records()) {
            true => Ok(()),
            false => outcome,
        }
    }

    /// Returns the next thing to report.
    fn next_found(&mut self) -> Option<Found> {
        if let Some(pending) = self.pending.pop_front() {
            return Some(Found::Pending(pending));
        }
        for _ in 0..self.sources.len() {
            self.next_source = (self.next_source + 1) % self.sources.len();
            let source = self.next_source;
            if let Some(found) = self.read_source(source) {
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
            let event = match source.reader.read(&mut self.buffer) {
                Ok(event) => event,
                Err(fault) => {
                    // The publisher is faulty: only its own items end.
                    let _ = fault;
                    source.items.clear();
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
                    source.settle(&mut self.pending);
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
                let name = self.sources[source].name(item);
                let payload = &self.buffer[..len];
                Received::Publication { name, sequence, payload, lost, is_last_value: false }
            }
            Found::RingLost { source, item, lost } => {
                self.counts.lost += lost;
                Received::Lost { name: self.sources[source].name(item), lost }
            }
            Found::Pending(pending) => match self.current.insert(pending) {
                Pending::Publication { name, sequence, payload, is_last_value } => {
                    self.counts.delivered += 1;
                    let (sequence, is_last_value) = (*sequence, *is_last_value);
                    Received::Publication { name, sequence, payload, lost: 0, is_last_value }
                }
                Pending::Lost { name, lost } => {
                    self.counts.lost += *lost;
                    Received::Lost { name, lost: *lost }
                }
            },
        }
    }

    /// Handles the node's messages.
    fn update(&mut self) -> Result<(), PubSubError> {
        for (event, file) in self.connection.take_events()? {
            match event {
                Event::Source { source, bytes, items } => {
                    self.add_source(source, RingSize { bytes, items }, file);
                }
                Event::Item { source: BY_MESSAGES, item, name, .. } => {
                    let relayed = Relayed { name: name.into(), partial: Vec::new() };
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
                        state.end = Some(last);
                        source.reader.follow_until(item, last);
                    }
                }
                Event::SourceEnd { source } => {
                    if let Some(source) = self.source(source) {
                        source.has_ended = true;
                    }
                }
                Event::Data { item, is_last_value, fragment } => {
                    self.take_fragment(item, is_last_value, fragment);
                }
                Event::Lost { item, count } => {
                    if let Some(relayed) = self.relayed.get(&item) {
                        let name = relayed.name.clone();
                        self.pending.push_back(Pending::Lost { name, lost: count });
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
        let Ok(reader) = RingReader::map(file.as_fd(), size, self.publication_bytes_max) else {
            return;
        };
        let (items, counts) = (BTreeMap::new(), Counts::default());
        self.sources.push(Source { slot, reader, items, counts, has_ended: false });
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
        source.items.insert(number, Item { name: name.clone(), end: None });
        if reads_last
            && after > 0
            && let Some((sequence, len)) = source.reader.read_last(number, &mut self.buffer)
        {
            source.counts.delivered += 1;
            let payload = self.buffer[..len].to_vec();
            let is_last_value = true;
            self.pending.push_back(Pending::Publication { name, sequence, payload, is_last_value });
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
        let name = relayed.name.clone();
        let payload = core::mem::take(&mut relayed.partial);
        self.pending.push_back(match payload.len() as u64 == fragment.total_bytes {
            true => {
                let sequence = fragment.sequence;
                Pending::Publication { name, sequence, payload, is_last_value }
            }
            false => Pending::Lost { name, lost: 1 },
        });
    }
}

impl Source {
    fn name(&self, item: u32) -> &str {
        self.items.get(&item).map_or("", |item| &item.name)
    }

    /// Ends the items of which nothing more will come: the ring is read to its end.
    fn settle(&mut self, pending: &mut VecDeque<Pending>) {
        let ended: Vec<(u32, u64)> =
            self.items.iter().filter_map(|(item, state)| Some((*item, state.end?))).collect();
        for (number, end) in ended {
            let Some(item) = self.items.remove(&number) else { continue };
            let lost = end.saturating_sub(self.reader.unfollow(number).unwrap_or(end));
            if lost > 0 {
                self.counts.lost += lost;
                pending.push_back(Pending::Lost { name: item.name, lost });
            }
        }
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
