//! The publishing end.

use super::connection::{Connection, PubSubError, PubSubOptions};
use core::time::Duration;
use nw_api::pubsub::{Event, Fragment, ItemName, Request};
use nw_faces::local_pubsub::ring::{FIRST, LAST, RecordHeader};
use nw_faces::local_pubsub::{ReaderPage, RingSize, RingWriter, Wakeup};
use std::collections::BTreeMap;
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
}

/// A reader of the ring, in another process.
#[derive(Debug)]
struct Reader {
    page: ReaderPage,
    slot: u32,
    /// Whether it read nothing for too long.
    is_stalled: bool,
}

#[derive(Debug)]
struct Item {
    name: ItemName,
    sequence: u64,
    subscribers: u32,
}

/// Publishes items.
#[derive(Debug)]
pub struct Publisher {
    connection: Connection,
    /// `None` without shared memory.
    ring: Option<RingWriter>,
    items: BTreeMap<ItemNumber, Item>,
    readers: BTreeMap<u32, Reader>,
    when_full: WhenFull,
    /// Position that all readers had reached when that was last looked at.
    slowest: u64,
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
        let (items, readers) = (BTreeMap::new(), BTreeMap::new());
        Ok(Publisher { connection, ring, items, readers, when_full, slowest: 0 })
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
        let after_last = self.items.keys().next_back().map_or(0, |last| last + 1);
        let item = match after_last < self.connection.items_max {
            true => after_last,
            false => (0..after_last).find(|n| !self.items.contains_key(n)).unwrap_or(after_last),
        };
        if let Some(ring) = &self.ring
            && item < ring.size().items
        {
            ring.start_item(item, 0);
        }
        let request = self.connection.new_request();
        let text = name.to_string();
        let publish = Request::Publish { request, item, keeps_last, name: text };
        self.connection.send(&publish, None)?;
        self.items.insert(item, Item { name: name.clone(), sequence: 0, subscribers: 0 });
        if let Err(error) = self.connection.reply(request) {
            self.items.remove(&item);
            return Err(error);
        }
        self.update()?;
        Ok(item)
    }

    /// Withdraws an item. Its last publication stays at the node if late subscribers get it.
    ///
    /// # Errors
    /// If there is no such item, or the connection is lost.
    pub fn withdraw(&mut self, item: ItemNumber) -> Result<(), PubSubError> {
        let request = self.connection.new_request();
        self.connection.send(&Request::Unpublish { request, item }, None)?;
        self.connection.reply(request)?;
        self.items.remove(&item);
        Ok(())
    }

    /// Returns the number of subscribers of an item: applications of this node, and other nodes.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn subscribers(&mut self, item: ItemNumber) -> Result<u32, PubSubError> {
        self.update()?;
        Ok(self.items.get(&item).map_or(0, |item| item.subscribers))
    }

    /// Returns the name of an item.
    pub fn name(&self, item: ItemNumber) -> Option<&ItemName> {
        self.items.get(&item).map(|item| &item.name)
    }

    /// Publishes. Returns the sequence number.
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
                if payload.len() <= max && self.when_full == WhenFull::Overwrite {
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

    /// Writes one record and wakes the readers that wait.
    fn write(
        &mut self,
        item: ItemNumber,
        sequence: u64,
        payload: &[u8],
        (start, end): (usize, usize),
    ) -> Result<(), PubSubError> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
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
        ring.write(header, &payload[start..end]);
        let mut wakes_node = false;
        for reader in self.readers.values() {
            wakes_node |= reader.page.wake() == Wakeup::Message;
        }
        if wakes_node {
            self.connection.send(&Request::Wake {}, None)?;
        }
        Ok(())
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
            WhenFull::Overwrite => Duration::from_secs(1),
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
        let Some(tail) = self.ring.as_ref().map(RingWriter::tail) else {
            return Ok(true);
        };
        let deadline = Instant::now() + timeout;
        loop {
            self.update()?;
            if self.readers.values().all(|reader| reader.cursor(tail) >= tail) {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
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
                Event::Subscribers { item, count } => {
                    if let Some(item) = self.items.get_mut(&item) {
                        item.subscribers = count;
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
        let reader = Reader { page, slot, is_stalled: false };
        self.slowest = self.slowest.min(reader.cursor(self.slowest));
        self.readers.insert(number, reader);
        match wakeup {
            Wakeup::Message => self.connection.send(&Request::Wake {}, None),
            Wakeup::Done => Ok(()),
        }
    }
}

impl Reader {
    /// Returns how far the reader has read; what can't be true counts as all.
    fn cursor(&self, tail: u64) -> u64 {
        self.page.progress(self.slot).cursor.min(tail)
    }
}
