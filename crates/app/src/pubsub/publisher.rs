//! The publishing end.

use super::connection::{Connection, PubSubError, PubSubOptions};
use core::time::Duration;
use nw_api::pubsub::{Event, Fragment, ItemName, ItemOptions, Request};
use nw_faces::local_pubsub::ring::{FIRST, LAST, MISSING, RecordHeader};
use nw_faces::local_pubsub::{ReaderPage, RingSize, RingWriter, Wakeup};
use nw_trust::Key;
use nw_trust::publication::sign_batch;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// Pause while readers catch up.
const PAUSE: Duration = Duration::from_micros(50);

/// Number of an item of one publisher.
pub type ItemNumber = u32;

/// What happens when a subscriber has not read what the ring would overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest publications are overwritten; the subscriber is told how many it lost.
    Overwrite,
    /// The publisher waits. A subscriber that reads nothing for this long is no longer waited for.
    Wait(Duration),
    /// The new publication is dropped, and counted in [`Publisher::dropped`]; subscribers are told
    /// that they lost it. A publication of more than one record waits as with `Wait`, at most a
    /// second without progress.
    DropNewest,
}

/// A reader of the ring, in another process.
#[derive(Debug)]
struct Reader {
    page: ReaderPage,
    slot: u32,
    /// Number of items that it reads. A reader of none is not waited for and not woken.
    items: u32,
    /// Whether it read nothing for too long.
    is_stalled: bool,
}

#[derive(Debug)]
struct Item {
    name: ItemName,
    sequence: u64,
    /// Whether its last publications were dropped, and no record says so yet.
    has_dropped: bool,
    subscribers: u32,
    /// Its readers, in ascending order.
    readers: Vec<u32>,
    /// Whether it is in `changed`.
    has_changed: bool,
}

/// Publishes items.
#[derive(Debug)]
pub struct Publisher {
    connection: Connection,
    /// `None` without shared memory.
    ring: Option<RingWriter>,
    items: BTreeMap<ItemNumber, Item>,
    /// Items whose number of subscribers has changed, each once.
    changed: VecDeque<ItemNumber>,
    readers: BTreeMap<u32, Reader>,
    when_full: WhenFull,
    dropped: u64,
    /// Position that all readers had reached when that was last looked at.
    slowest: u64,
    /// Position from which on a record wakes all readers, so that none is a quarter of the ring
    /// behind only because it waits for other items.
    wakes_all_at: u64,
    wakeups: u64,
}

impl Publisher {
    /// Connects to a node.
    ///
    /// # Errors
    /// If no node can be reached, or shared memory can't be created.
    pub fn connect(options: &PubSubOptions, when_full: WhenFull) -> Result<Self, PubSubError> {
        let mut connection = Connection::open(options)?;
        let ring = match options.shared_memory {
            true => {
                let bytes = options.ring_bytes.min(connection.ring_bytes_max);
                let size = RingSize::at_least(bytes, connection.items_max);
                let (ring, file) = RingWriter::create(size).map_err(PubSubError::Memory)?;
                let RingSize { bytes, items } = size;
                connection.send(&Request::Ring { bytes, items }, Some(file))?;
                Some(ring)
            }
            false => None,
        };
        Ok(Publisher {
            connection,
            ring,
            items: BTreeMap::new(),
            changed: VecDeque::new(),
            readers: BTreeMap::new(),
            when_full,
            dropped: 0,
            slowest: 0,
            wakes_all_at: 0,
            wakeups: 0,
        })
    }

    /// Announces an item. `keeps_last`: late subscribers get the last publication first.
    ///
    /// # Errors
    /// If the node refuses it, or the connection is lost.
    pub fn announce(
        &mut self,
        name: &ItemName,
        keeps_last: bool,
    ) -> Result<ItemNumber, PubSubError> {
        self.announce_with(name, ItemOptions { keeps_last, ..ItemOptions::default() })
    }

    /// Announces an item with options. If another publisher serves by [`ItemOptions::choice`], it
    /// has no subscribers until [`next_change`](Self::next_change) says so.
    ///
    /// # Errors
    /// If the node refuses it, or the connection is lost.
    pub fn announce_with(
        &mut self,
        name: &ItemName,
        options: ItemOptions,
    ) -> Result<ItemNumber, PubSubError> {
        self.announce_after(name, options, 0)
    }

    /// Announces an item that has had publications up to the number `last` elsewhere: those are
    /// not told as lost.
    ///
    /// # Errors
    /// If the node refuses it, or the connection is lost.
    pub fn announce_after(
        &mut self,
        name: &ItemName,
        options: ItemOptions,
        last: u64,
    ) -> Result<ItemNumber, PubSubError> {
        let after_last = self.items.keys().next_back().map_or(0, |last| last + 1);
        let item = match after_last < self.connection.items_max {
            true => after_last,
            false => (0..after_last).find(|n| !self.items.contains_key(n)).unwrap_or(after_last),
        };
        if let Some(ring) = &self.ring
            && item < ring.size().items
        {
            ring.start_item(item, last);
        }
        let request = self.connection.new_request();
        let text = name.to_string();
        let publish = Request::Publish { request, item, options, name: text };
        self.connection.send(&publish, None)?;
        self.items.insert(
            item,
            Item {
                name: name.clone(),
                sequence: last,
                has_dropped: false,
                subscribers: 0,
                readers: Vec::new(),
                has_changed: false,
            },
        );
        if let Err(error) = self.connection.reply(request) {
            self.items.remove(&item);
            return Err(error);
        }
        self.update()?;
        Ok(item)
    }

    /// Sends a request and waits for its reply.
    pub(super) fn request(
        &mut self,
        request: impl FnOnce(u32) -> Request,
    ) -> Result<(), PubSubError> {
        let number = self.connection.new_request();
        self.connection.send(&request(number), None)?;
        self.connection.reply(number)?;
        self.update()
    }

    /// Withdraws an item. Its last publication stays at the node if late subscribers get it.
    ///
    /// # Errors
    /// If there is no such item, or the connection is lost.
    pub fn withdraw(&mut self, item: ItemNumber) -> Result<(), PubSubError> {
        self.request(|request| Request::Unpublish { request, item })?;
        if self.items.remove(&item).is_some_and(|state| state.has_changed) {
            self.changed.retain(|number| *number != item);
        }
        Ok(())
    }

    /// Returns the number of subscribers of an item: applications of this node, and other nodes. 0
    /// while another publisher of the item serves them all.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn subscribers(&mut self, item: ItemNumber) -> Result<u32, PubSubError> {
        self.update()?;
        Ok(self.items.get(&item).map_or(0, |item| item.subscribers))
    }

    /// Waits for the next item whose number of subscribers has changed, at most `timeout`. Returns
    /// the item and the number, which is the newest one, or `None` after `timeout`. A subscriber at
    /// another node that ends its subscription and subscribes again at once may be no change.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn next_change(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<(ItemNumber, u32)>, PubSubError> {
        let deadline = Instant::now() + timeout;
        loop {
            if self.changed.is_empty() || self.connection.has_mail() {
                self.update()?;
            }
            while let Some(number) = self.changed.pop_front() {
                if let Some(item) = self.items.get_mut(&number) {
                    item.has_changed = false;
                    return Ok(Some((number, item.subscribers)));
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if let Some(page) = &self.connection.page {
                page.announce_wait(false);
                if self.connection.has_mail() {
                    page.end_wait();
                    continue;
                }
            }
            self.connection.wait(left);
        }
    }

    /// Returns the name of an item.
    pub fn name(&self, item: ItemNumber) -> Option<&ItemName> {
        self.items.get(&item).map(|item| &item.name)
    }

    /// Returns the number of publications dropped because subscribers had not made space for them.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns how often readers that waited were woken, each by a system call.
    pub const fn wakeups(&self) -> u64 {
        self.wakeups
    }

    /// Publishes. Returns the sequence number, also of a publication that is dropped.
    ///
    /// # Errors
    /// If the connection is lost.
    ///
    /// # Panics
    /// If the item was not announced.
    pub fn publish(&mut self, item: ItemNumber, payload: &[u8]) -> Result<u64, PubSubError> {
        if self.connection.has_mail() {
            self.update()?;
        }
        let Some(state) = self.items.get_mut(&item) else {
            panic!("item {item} was not announced")
        };
        state.sequence += 1;
        let sequence = state.sequence;
        match &self.ring {
            Some(ring) => {
                let max = ring.size().record_bytes_max();
                let is_one = payload.len() <= max;
                if is_one && self.when_full == WhenFull::DropNewest {
                    self.write_or_drop(item, sequence, payload)?;
                } else if is_one && self.when_full == WhenFull::Overwrite {
                    self.write(item, sequence, payload, (0, payload.len()))?;
                } else {
                    self.write_waiting(item, sequence, payload, max)?;
                }
            }
            None => {
                for fragment in Fragment::parts(sequence, payload) {
                    self.connection.send(&Request::Data { item, fragment }, None)?;
                }
            }
        }
        Ok(sequence)
    }

    /// Publishes with a number of its own, which is greater than that of the publication before:
    /// subscribers are told numbers between them as lost. Needs shared memory.
    ///
    /// # Errors
    /// If the connection is lost.
    ///
    /// # Panics
    /// If the item was not announced, or the number is not greater.
    pub fn publish_as(
        &mut self,
        item: ItemNumber,
        sequence: u64,
        payload: &[u8],
    ) -> Result<(), PubSubError> {
        let Some(state) = self.items.get_mut(&item) else {
            panic!("item {item} was not announced")
        };
        assert!(sequence > state.sequence && self.ring.is_some(), "numbers of an item go up");
        state.sequence = sequence - 1;
        self.publish(item, payload).map(|_| ())
    }

    /// Tells subscribers that the publications up to a number are lost. Needs shared memory.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn report_lost(&mut self, item: ItemNumber, last: u64) -> Result<(), PubSubError> {
        let Some(state) = self.items.get_mut(&item) else { return Ok(()) };
        if last <= state.sequence {
            return Ok(());
        }
        state.sequence = last;
        let flags = MISSING | LAST;
        let header = RecordHeader { item, sequence: last, flags, ..RecordHeader::default() };
        self.write_record(header, &[])
    }

    /// Publishes up to 64 publications of an item with one signature for all: each can be checked
    /// alone, with [`PublicationKeys`](super::PublicationKeys). Returns the number of the last one.
    ///
    /// # Errors
    /// If they can't be signed, or the connection is lost.
    ///
    /// # Panics
    /// If the item was not announced.
    pub fn publish_signed(
        &mut self,
        item: ItemNumber,
        payloads: &[&[u8]],
        key: &Key,
    ) -> Result<u64, PubSubError> {
        let Some(state) = self.items.get(&item) else { panic!("item {item} was not announced") };
        let (name, mut last) = (state.name.as_str(), state.sequence);
        let blocks = sign_batch(key, name, last + 1, payloads).map_err(PubSubError::Signature)?;
        for (payload, block) in payloads.iter().zip(&blocks) {
            last = self.publish(item, &[payload, &block[..]].concat())?;
        }
        Ok(last)
    }

    /// Writes one record and wakes the readers that wait for its item.
    fn write(
        &mut self,
        item: ItemNumber,
        sequence: u64,
        payload: &[u8],
        (start, end): (usize, usize),
    ) -> Result<(), PubSubError> {
        let first = if start == 0 { FIRST } else { 0 };
        let last = if end == payload.len() { LAST } else { 0 };
        let header = RecordHeader {
            len: 0,
            item,
            sequence,
            total_bytes: payload.len() as u64,
            offset: start as u64,
            flags: first | last,
        };
        self.write_record(header, &payload[start..end])
    }

    fn write_record(&mut self, header: RecordHeader, bytes: &[u8]) -> Result<(), PubSubError> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        ring.write(header, bytes);
        let tail = ring.tail();
        if tail >= self.wakes_all_at {
            self.wakes_all_at = tail + u64::from(ring.size().bytes) / 4;
            return self.wake(None);
        }
        self.wake(Some(header.item))
    }

    /// Wakes the readers of an item that wait, or all readers that have not read everything.
    fn wake(&mut self, item: Option<u32>) -> Result<(), PubSubError> {
        let tail = self.ring.as_ref().map_or(0, RingWriter::tail);
        let (mut wakeups, mut wakes_node) = (0, false);
        let mut count = |wakeup: Wakeup| {
            wakeups += u64::from(wakeup != Wakeup::Unneeded);
            wakes_node |= wakeup == Wakeup::Message;
        };
        match item {
            Some(number) => {
                let readers = self.items.get(&number).map_or(&[][..], |item| &item.readers);
                for reader in readers.iter().filter_map(|reader| self.readers.get(reader)) {
                    count(reader.page.wake_for(reader.slot, number));
                }
            }
            None => {
                let behind = self.readers.values().filter(|reader| reader.cursor(tail) < tail);
                behind.for_each(|reader| count(reader.page.wake()));
            }
        }
        self.wakeups += wakeups;
        match wakes_node {
            true => self.connection.send(&Request::Wake {}, None),
            false => Ok(()),
        }
    }

    /// Writes a publication of one record if no reader would lose anything by it, or drops it.
    fn write_or_drop(
        &mut self,
        item: ItemNumber,
        sequence: u64,
        payload: &[u8],
    ) -> Result<(), PubSubError> {
        if self.has_space(payload.len()) {
            if let Some(state) = self.items.get_mut(&item) {
                state.has_dropped = false;
            }
            return self.write(item, sequence, payload, (0, payload.len()));
        }
        if let (Some(ring), Some(state)) = (&self.ring, self.items.get_mut(&item)) {
            ring.skip_to(item, sequence);
            state.has_dropped = true;
            self.dropped += 1;
        }
        // Also those that wait for other items have to read on.
        self.wake(None)
    }

    /// Tells subscribers which publications were dropped after the last one written.
    fn report_dropped(&mut self) -> Result<(), PubSubError> {
        let dropped = self.items.iter().filter(|(_, item)| item.has_dropped);
        let dropped: Vec<_> = dropped.map(|(number, item)| (*number, item.sequence)).collect();
        for (item, sequence) in dropped {
            if !self.has_space(0) {
                return Ok(());
            }
            let flags = MISSING | LAST;
            self.write_record(
                RecordHeader { item, sequence, flags, ..RecordHeader::default() },
                &[],
            )?;
            if let Some(state) = self.items.get_mut(&item) {
                state.has_dropped = false;
            }
        }
        Ok(())
    }

    /// Returns whether no reader would lose anything by a record of `len` bytes.
    fn has_space(&mut self, len: usize) -> bool {
        let Some(ring) = &self.ring else { return true };
        let (tail, end, size) = (ring.tail(), ring.tail_after(len), u64::from(ring.size().bytes));
        if end - self.slowest > size {
            let cursors = self.readers.values().map(|reader| reader.cursor(tail));
            self.slowest = cursors.min().unwrap_or(tail);
        }
        end - self.slowest <= size
    }

    /// Writes as many records as needed, each when the readers have made space.
    fn write_waiting(
        &mut self,
        item: ItemNumber,
        sequence: u64,
        payload: &[u8],
        max: usize,
    ) -> Result<(), PubSubError> {
        // A publication of several records is of no use with one overwritten.
        let patience = match self.when_full {
            WhenFull::Wait(patience) => patience,
            WhenFull::Overwrite | WhenFull::DropNewest => Duration::from_secs(1),
        };
        let count = payload.len().div_ceil(max).max(1);
        for index in 0..count {
            let (start, end) = (index * max, payload.len().min((index + 1) * max));
            self.wait_for_space(end - start, patience)?;
            self.write(item, sequence, payload, (start, end))?;
        }
        Ok(())
    }

    /// Waits until no reader would lose anything by a record of `len` bytes.
    fn wait_for_space(&mut self, len: usize, patience: Duration) -> Result<(), PubSubError> {
        let Some(ring) = &self.ring else { return Ok(()) };
        let (tail, end) = (ring.tail(), ring.tail_after(len));
        let size = u64::from(ring.size().bytes);
        if end - self.slowest <= size {
            return Ok(());
        }
        let mut progress = (u64::MAX, Instant::now());
        loop {
            let behind = self.readers.values().filter(|reader| !reader.is_stalled);
            let slowest = behind.map(|reader| reader.cursor(tail)).min().unwrap_or(tail);
            if end - slowest <= size {
                self.slowest = slowest;
                return Ok(());
            }
            if slowest != progress.0 {
                progress = (slowest, Instant::now());
            } else if progress.1.elapsed() > patience {
                for reader in self.readers.values_mut() {
                    reader.is_stalled |= end - reader.cursor(tail) > size;
                }
                return Ok(());
            }
            // Also those that wait for other items have to read on.
            self.wake(None)?;
            std::thread::sleep(PAUSE);
            if self.connection.has_mail() {
                self.update()?;
            }
        }
    }

    /// Waits until all readers have read everything, at most `timeout`. Returns whether they have.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn drain(&mut self, timeout: Duration) -> Result<bool, PubSubError> {
        if self.ring.is_none() {
            return Ok(true);
        }
        let deadline = Instant::now() + timeout;
        loop {
            self.update()?;
            self.report_dropped()?;
            let tail = self.ring.as_ref().map_or(0, RingWriter::tail);
            if self.readers.values().all(|reader| reader.cursor(tail) >= tail) {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            self.wake(None)?;
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Handles the node's messages: readers and subscribers that came and went.
    fn update(&mut self) -> Result<(), PubSubError> {
        for (event, file) in self.connection.take_events()? {
            match event {
                Event::Reader { reader, slot } => self.add_reader(reader, slot, file)?,
                Event::ReaderEnd { reader } => {
                    self.readers.remove(&reader);
                }
                Event::ItemReader { item, reader, after } => {
                    self.add_item_reader(item, reader, after)?;
                }
                Event::ItemReaderEnd { item, reader } => self.remove_item_reader(item, reader),
                Event::Subscribers { item, count } => {
                    let Some(state) = self.items.get_mut(&item) else { continue };
                    state.subscribers = count;
                    if !core::mem::replace(&mut state.has_changed, true) {
                        self.changed.push_back(item);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn add_reader(
        &mut self,
        number: u32,
        slot: u32,
        file: Option<OwnedFd>,
    ) -> Result<(), PubSubError> {
        let Some(file) = file else { return Ok(()) };
        let Ok(page) = ReaderPage::map(file.as_fd()) else { return Ok(()) };
        // It may wait for publications that were written before it was known here.
        let wakeup = page.wake();
        self.readers.insert(number, Reader { page, slot, items: 0, is_stalled: false });
        match wakeup {
            Wakeup::Message => self.connection.send(&Request::Wake {}, None),
            Wakeup::Done | Wakeup::Unneeded => Ok(()),
        }
    }

    fn add_item_reader(
        &mut self,
        item: ItemNumber,
        number: u32,
        after: u64,
    ) -> Result<(), PubSubError> {
        let Some(state) = self.items.get_mut(&item) else { return Ok(()) };
        let Some(reader) = self.readers.get_mut(&number) else { return Ok(()) };
        let Err(at) = state.readers.binary_search(&number) else { return Ok(()) };
        state.readers.insert(at, number);
        reader.items += 1;
        if reader.items == 1 {
            reader.is_stalled = false;
            self.slowest = self.slowest.min(reader.cursor(self.slowest));
        }
        // It may wait for what was published before it was known to read the item.
        if state.sequence > after && reader.page.wake_for(reader.slot, item) == Wakeup::Message {
            return self.connection.send(&Request::Wake {}, None);
        }
        Ok(())
    }

    fn remove_item_reader(&mut self, item: ItemNumber, number: u32) {
        let Some(state) = self.items.get_mut(&item) else { return };
        let Ok(at) = state.readers.binary_search(&number) else { return };
        state.readers.remove(at);
        if let Some(reader) = self.readers.get_mut(&number) {
            reader.items -= 1;
        }
    }
}

impl Reader {
    /// Returns how far the reader has read. What can't be true counts as all, and so does a reader
    /// of no item.
    fn cursor(&self, tail: u64) -> u64 {
        match self.items {
            0 => tail,
            _ => self.page.progress(self.slot).cursor.min(tail),
        }
    }
}
