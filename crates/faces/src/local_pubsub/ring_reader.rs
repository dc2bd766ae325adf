//! A reading end of a broadcast ring.
//!
//! Invariants: nothing in the ring is believed before it is copied out and the copy is known to be
//! of one record; the work per call is bounded; and for each item the publications since it was
//! followed are those returned plus those reported as lost, exactly.

use super::ring::{
    EARLIER_MARK_AT, ELSEWHERE, FIRST, HEAD_LEN, INTENT_AT, ITEM_LEN, ITEMS_AT, LAST, MAGIC,
    MAGIC_AT, MISSING, PAD, RECORD_LEN, RESTARTS_AT, RecordHeader, RingFault, RingSize, SIZE_AT,
    TAIL_AT,
};
use crate::shm::access::ReadMemory;
use crate::shm::memory::ReadOnlyMemory;
use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

mod skip;

/// Records that one call reads at most, so that a publisher of other items can't keep it busy.
const RECORDS_PER_CALL: u32 = 4096;

/// Records that a search for earlier publications looks at.
const HISTORY_RECORDS_MAX: u32 = 262_144;

/// What a call to [`RingReader::read`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEvent {
    /// A publication; its bytes are in the buffer.
    Publication {
        /// Number of the item.
        item: u32,
        /// Its sequence number.
        sequence: u64,
        /// Payload bytes.
        len: usize,
        /// Publications of this item lost since the one before.
        lost: u64,
    },
    /// Publications that were overwritten unread, with no later one of the item.
    Lost {
        /// Number of the item.
        item: u32,
        /// How many.
        lost: u64,
    },
    /// Nothing for this reader among the records read so far; more are there.
    Skipped,
    /// All records are read.
    Empty,
}

/// Progress in one item.
#[derive(Clone, Copy, Debug, Default)]
struct ItemState {
    /// Publications up to this sequence number are accounted for.
    last: u64,
    /// Later ones than this are not wanted.
    end: u64,
}

/// A publication of which not all records are read.
#[derive(Clone, Copy, Debug)]
struct Partial {
    /// Position of its first record.
    start: u64,
    item: u32,
    sequence: u64,
    total_bytes: u64,
    len: usize,
}

/// A reading end of a ring.
#[derive(Debug)]
pub struct RingReader<M = ReadOnlyMemory> {
    memory: M,
    size: RingSize,
    cursor: u64,
    items: BTreeMap<u32, ItemState>,
    /// Followed items by the bit that they have among those that wake the reader.
    items_by_bit: [u32; 64],
    partial: Option<Partial>,
    /// Whether records were overwritten unread since all items were last compared.
    is_gapped: bool,
    /// Number of restarts of items that is known here, and the position up to which all records
    /// are read because of the last one.
    restarts: (u64, u64),
    publication_bytes_max: usize,
}

impl RingReader {
    /// Maps a ring, and starts at its end. Publications of more than `publication_bytes_max` bytes
    /// are counted as lost.
    ///
    /// # Errors
    /// If the file is not a ring of these sizes that only its creator can write.
    pub fn map(
        file: BorrowedFd<'_>,
        size: RingSize,
        publication_bytes_max: usize,
    ) -> Result<Self, RingFault> {
        if !size.is_valid() {
            return Err(RingFault::Layout);
        }
        let memory = ReadOnlyMemory::map(file, size.memory_len()).map_err(|_| RingFault::Memory)?;
        RingReader::new(memory, size, publication_bytes_max)
    }
}

impl<M: ReadMemory> RingReader<M> {
    /// Returns a reader that starts at the end of a ring.
    pub(crate) fn new(
        memory: M,
        size: RingSize,
        publication_bytes_max: usize,
    ) -> Result<Self, RingFault> {
        let is_as_told = memory.load(MAGIC_AT, Ordering::Acquire) == MAGIC
            && memory.load(SIZE_AT, Ordering::Relaxed) == u64::from(size.bytes)
            && memory.load(ITEMS_AT, Ordering::Relaxed) == u64::from(size.items);
        if !is_as_told {
            return Err(RingFault::Layout);
        }
        let restarts = (memory.load(RESTARTS_AT, Ordering::Acquire), 0);
        let cursor = memory.load(TAIL_AT, Ordering::Acquire);
        Ok(RingReader {
            memory,
            size,
            cursor,
            items: BTreeMap::new(),
            items_by_bit: [0; 64],
            partial: None,
            is_gapped: false,
            restarts,
            publication_bytes_max,
        })
    }

    /// Follows an item from the publication after sequence number `after` on, and reads the ring
    /// again from `position` if that is earlier than what was read. A reader that follows no other
    /// item leaves out what is before `position`. Returns whether the item is in the table.
    pub fn follow(&mut self, item: u32, position: u64, after: u64) -> bool {
        if item >= self.size.items {
            return false;
        }
        if self.items.is_empty() {
            (self.cursor, self.partial, self.is_gapped) = (position, None, false);
        }
        self.items.entry(item).or_insert_with(|| {
            self.items_by_bit[item as usize % 64] += 1;
            ItemState { last: after, end: u64::MAX }
        });
        // The records of a publication follow each other: within one nothing is read again.
        let is_within = self.partial.is_some_and(|partial| partial.start < position);
        if position < self.cursor && !is_within {
            // Publications of other items are not returned twice: their numbers are known.
            self.cursor = position;
            self.partial = None;
        }
        true
    }

    /// Returns the end of the last record, bytes since the start of the ring.
    pub fn tail(&self) -> u64 {
        self.memory.load(TAIL_AT, Ordering::Acquire)
    }

    /// Follows an item only up to a sequence number.
    pub fn follow_until(&mut self, item: u32, end: u64) {
        if let Some(state) = self.items.get_mut(&item) {
            state.end = end;
        }
    }

    /// Ends following an item. Returns the sequence number up to which its publications are
    /// accounted for. `None` if it was not followed.
    pub fn unfollow(&mut self, item: u32) -> Option<u64> {
        let state = self.items.remove(&item)?;
        self.items_by_bit[item as usize % 64] -= 1;
        Some(state.last)
    }

    /// Returns whether any item is followed. Otherwise there is nothing to read.
    pub fn follows_any(&self) -> bool {
        !self.items.is_empty()
    }

    /// Returns the sequence number up to which an item's publications are accounted for. `None` if
    /// it is not followed.
    pub fn accounted(&self, item: u32) -> Option<u64> {
        self.items.get(&item).map(|state| state.last)
    }

    /// Returns whether the buffer has the first parts of a publication, and the others are to come.
    pub const fn is_between_parts(&self) -> bool {
        self.partial.is_some()
    }

    /// Returns the sequence number of an item's last publication; 0 if there was none. `None` for
    /// an item beyond the table.
    pub fn sequence(&self, item: u32) -> Option<u64> {
        let is_there = item < self.size.items;
        is_there.then(|| self.memory.load(self.item_at(item), Ordering::Acquire))
    }

    /// Returns the bytes read since the start of the ring, for the publisher.
    pub const fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Returns whether records are there that were not read.
    pub fn has_records(&self) -> bool {
        self.memory.load(TAIL_AT, Ordering::Acquire) != self.cursor
    }

    const fn item_at(&self, item: u32) -> usize {
        HEAD_LEN + item as usize * ITEM_LEN
    }

    /// Returns the followed items, as those that wake the reader: see
    /// [`ReaderPage::set_items`](super::ReaderPage::set_items).
    pub fn followed_items(&self) -> u64 {
        let bits = (0..).zip(&self.items_by_bit).filter(|(_, count)| **count > 0);
        bits.fold(0, |items, (bit, _)| items | super::item_bit(bit))
    }

    /// Reads the next publication of a followed item into `buffer`, which grows as needed and
    /// never shrinks. Between calls it may have the first parts of a publication: each reader needs
    /// a buffer of its own, and nothing else may write to it.
    ///
    /// # Errors
    /// If the ring is not laid out as it must be. The ring must not be read further.
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Result<ReadEvent, RingFault> {
        let mut others = 0;
        for _ in 0..RECORDS_PER_CALL {
            let tail = self.memory.load(TAIL_AT, Ordering::Acquire);
            if tail == self.cursor {
                return Ok(self.lost_at_end().unwrap_or(ReadEvent::Empty));
            }
            let is_overrun = tail.wrapping_sub(self.cursor) > u64::from(self.size.bytes);
            if is_overrun || others == skip::OTHERS_MAX {
                others = 0;
                if self.skip_others(tail) {
                    continue;
                }
            }
            if is_overrun {
                self.skip_overwritten(tail)?;
                continue;
            }
            let Some(header) = self.header(self.cursor, tail)? else {
                self.skip_overwritten(tail)?;
                continue;
            };
            match self.take(header, buffer) {
                Ok(None) => others += 1,
                Ok(Some(event)) => return Ok(event),
                Err(Overwritten) => self.skip_overwritten(tail)?,
            }
        }
        Ok(ReadEvent::Skipped)
    }

    /// Reads the last publication of a followed item, if it is still in the ring. Returns its
    /// sequence number and length. Publications up to it are then accounted for.
    pub fn read_last(&mut self, item: u32, buffer: &mut Vec<u8>) -> Option<(u64, usize)> {
        let last = self.items.get(&item)?.last;
        let found = self.peek_last(item, buffer)?;
        if let Some(state) = self.items.get_mut(&item) {
            state.last = found.0.max(last);
        }
        Some(found)
    }

    /// Reads the last publication of an item, if it is still in the ring, and changes nothing
    /// else. Returns its sequence number and length. The buffer must not be that of
    /// [`read`](Self::read).
    pub fn peek_last(&mut self, item: u32, buffer: &mut Vec<u8>) -> Option<(u64, usize)> {
        if item >= self.size.items {
            return None;
        }
        let start = self.memory.load(self.item_at(item) + 8, Ordering::Acquire).checked_sub(1)?;
        let tail = self.memory.load(TAIL_AT, Ordering::Acquire);
        if tail.wrapping_sub(start) > u64::from(self.size.bytes) {
            return None;
        }
        let (resume, partial) = (self.cursor, self.partial.take());
        let state = self.items.insert(item, ItemState { last: 0, end: u64::MAX });
        self.cursor = start;
        let found = self.read_one(item, tail, buffer);
        self.cursor = resume;
        self.partial = partial;
        match state {
            Some(state) => self.items.insert(item, state),
            None => self.items.remove(&item),
        };
        found
    }

    /// Returns from which position, and after which sequence number, an item is to be followed so
    /// that its last `count` publications are read, as far as the ring safely has them. `None` if
    /// it has none. What is before the position `begin` belongs to an earlier item of the number.
    pub fn history(&self, item: u32, count: u32, begin: u64) -> Option<(u64, u64)> {
        let last = self.sequence(item).filter(|last| *last > 0)?;
        let wanted = last.saturating_sub(u64::from(count));
        let tail = self.tail();
        let mark = self.memory.load(EARLIER_MARK_AT, Ordering::Acquire);
        let is_usable = mark <= tail && tail - mark <= u64::from(self.size.bytes) / 4 * 3;
        let mut position = if is_usable { mark.max(begin) } else { return None };
        for _ in 0..HISTORY_RECORDS_MAX {
            if position >= tail {
                return None;
            }
            let header = self.header(position, tail).ok()??;
            let is_plain = header.flags & (PAD | MISSING | ELSEWHERE) == 0;
            let is_start = is_plain && header.flags & FIRST != 0 && header.item == item;
            if is_start && header.sequence > wanted && header.sequence <= last {
                let is_intact = !self.is_overwritten(position);
                return is_intact.then_some((position, header.sequence - 1));
            }
            position += header.record_len();
        }
        None
    }

    /// Reads the publication that starts at the cursor, if all of it is intact.
    fn read_one(&mut self, item: u32, tail: u64, buffer: &mut Vec<u8>) -> Option<(u64, usize)> {
        for _ in 0..RECORDS_PER_CALL {
            if self.cursor == tail {
                return None;
            }
            let header = self.header(self.cursor, tail).ok()??;
            match self.take(header, buffer) {
                Ok(Some(ReadEvent::Publication { item: found, sequence, len, .. }))
                    if found == item =>
                {
                    return Some((sequence, len));
                }
                Ok(None) => {}
                _ => return None,
            }
        }
        None
    }

    /// Returns the header at a position, which is at most a ring before `tail`. `None` if it is
    /// overwritten. One that lies within the ring may be overwritten, too:
    /// [`take`](Self::take) looks once for header and payload.
    fn header(&self, position: u64, tail: u64) -> Result<Option<RecordHeader>, RingFault> {
        if !position.is_multiple_of(RECORD_LEN as u64) {
            return Err(RingFault::Record);
        }
        let offset = (position & u64::from(self.size.bytes - 1)) as usize;
        let mut bytes = [0; RECORD_LEN];
        self.memory.copy_out(self.size.data_at() + offset, &mut bytes);
        let header = RecordHeader::decode(&bytes);
        let len = header.record_len();
        let is_within =
            offset as u64 + len <= u64::from(self.size.bytes) && len <= tail.wrapping_sub(position);
        match is_within {
            true => Ok(Some(header)),
            // Bytes of two records are not a fault.
            false if self.is_overwritten(position) => Ok(None),
            false => Err(RingFault::Record),
        }
    }

    /// Returns whether the bytes copied from a position may have been overwritten meanwhile.
    fn is_overwritten(&self, position: u64) -> bool {
        self.memory.fence(Ordering::Acquire);
        let intent = self.memory.load(INTENT_AT, Ordering::Relaxed);
        intent.wrapping_sub(position) > u64::from(self.size.bytes)
    }

    /// Takes the record at the cursor and moves past it.
    fn take(
        &mut self,
        header: RecordHeader,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<ReadEvent>, Overwritten> {
        let position = self.cursor;
        let is_plain = header.flags & (PAD | MISSING | ELSEWHERE) == 0;
        let is_followed = is_plain && self.items.contains_key(&header.item);
        if !is_followed && self.is_overwritten(position) {
            return Err(Overwritten);
        }
        self.cursor += header.record_len();
        if header.flags & PAD != 0 {
            return Ok(None);
        }
        let last = match self.items.get(&header.item) {
            Some(state) if header.sequence > state.last && header.sequence <= state.end => {
                state.last
            }
            _ => return self.skip_from(position),
        };
        if header.flags & MISSING != 0 {
            self.set_last(header);
            let (item, lost) = (header.item, header.sequence - last);
            return Ok(Some(ReadEvent::Lost { item, lost }));
        }
        if header.flags & ELSEWHERE != 0 {
            self.set_last(header);
            let (item, lost) = (header.item, header.sequence - last - 1);
            return Ok((lost > 0).then_some(ReadEvent::Lost { item, lost }));
        }
        let Some(mut partial) = self.partial_for(&header, position) else {
            return self.skip_from(position);
        };
        let end = partial.len + header.len as usize;
        if buffer.len() < end {
            buffer.resize(end, 0);
        }
        let offset = (position & u64::from(self.size.bytes - 1)) as usize;
        let payload = self.size.data_at() + offset + RECORD_LEN;
        self.memory.copy_out(payload, &mut buffer[partial.len..end]);
        if self.is_overwritten(position) {
            self.cursor = position;
            return Err(Overwritten);
        }
        partial.len = end;
        if header.flags & LAST == 0 {
            self.partial = Some(partial);
            return Ok(None);
        }
        self.set_last(header);
        let (item, sequence) = (header.item, header.sequence);
        Ok(Some(ReadEvent::Publication { item, sequence, len: end, lost: sequence - last - 1 }))
    }

    /// Leaves a record out, if it was one.
    fn skip_from(&mut self, position: u64) -> Result<Option<ReadEvent>, Overwritten> {
        if self.is_overwritten(position) {
            self.cursor = position;
            return Err(Overwritten);
        }
        Ok(None)
    }

    fn set_last(&mut self, header: RecordHeader) {
        if let Some(state) = self.items.get_mut(&header.item) {
            state.last = header.sequence;
        }
    }

    /// Returns the publication that a record starts or continues. `None` if its first records are
    /// lost, if it is too long, or if the record contradicts the earlier ones.
    fn partial_for(&mut self, header: &RecordHeader, start: u64) -> Option<Partial> {
        let started = self.partial.take();
        let fits = header.total_bytes <= self.publication_bytes_max as u64;
        if header.flags & FIRST != 0 {
            let (item, sequence) = (header.item, header.sequence);
            let total_bytes = header.total_bytes;
            let is_whole = header.flags & LAST == 0 || total_bytes == u64::from(header.len);
            let new = Partial { start, item, sequence, total_bytes, len: 0 };
            return (fits && is_whole && u64::from(header.len) <= total_bytes).then_some(new);
        }
        let partial = started?;
        let end = header.offset.checked_add(u64::from(header.len))?;
        let continues = partial.item == header.item
            && partial.sequence == header.sequence
            && partial.total_bytes == header.total_bytes
            && partial.len as u64 == header.offset
            && end <= partial.total_bytes
            && (header.flags & LAST == 0 || end == partial.total_bytes);
        continues.then_some(partial)
    }

    /// Moves to a later record: the oldest of the marks that is still intact, else the end.
    fn skip_overwritten(&mut self, tail: u64) -> Result<(), RingFault> {
        self.is_gapped = true;
        self.partial = None;
        let mark = self.memory.load(EARLIER_MARK_AT, Ordering::Acquire);
        let size = u64::from(self.size.bytes);
        let is_usable = mark > self.cursor && mark <= tail && tail - mark <= size / 4 * 3;
        let target = if is_usable { mark } else { tail };
        if target <= self.cursor || !target.is_multiple_of(RECORD_LEN as u64) {
            return Err(RingFault::Record);
        }
        self.cursor = target;
        Ok(())
    }

    /// Returns a loss that no later publication of its item reports. Called at the end of the ring.
    fn lost_at_end(&mut self) -> Option<ReadEvent> {
        if !self.is_gapped {
            return None;
        }
        for (&item, state) in &mut self.items {
            let at = HEAD_LEN + item as usize * ITEM_LEN;
            let sequence = self.memory.load(at, Ordering::Acquire);
            // A record that is being written is not lost: it will be read.
            if self.memory.load(INTENT_AT, Ordering::Acquire) != self.cursor {
                return None;
            }
            let sequence = sequence.min(state.end);
            if sequence > state.last {
                let lost = sequence - state.last;
                state.last = sequence;
                return Some(ReadEvent::Lost { item, lost });
            }
        }
        self.is_gapped = false;
        None
    }
}

/// The record was overwritten while it was copied.
struct Overwritten;

#[cfg(test)]
mod tests {
    use super::super::ring_writer::RingWriter;
    use super::*;
    use std::os::fd::{AsFd, OwnedFd};

    const SIZE: RingSize = RingSize { bytes: 64 << 10, items: 8 };

    fn ring() -> (RingWriter, OwnedFd, RingReader) {
        let (writer, file) = RingWriter::create(SIZE).unwrap();
        let mut reader = RingReader::map(file.as_fd(), SIZE, 1 << 20).unwrap();
        assert!(reader.follow(1, 0, 0) && !reader.follow(8, 0, 0));
        (writer, file, reader)
    }

    fn publish(writer: &mut RingWriter, item: u32, sequence: u64, payload: &[u8]) {
        let (total, max) = (payload.len(), SIZE.record_bytes_max());
        for (index, part) in payload.chunks(max).enumerate() {
            let offset = index * max;
            let first = if index == 0 { FIRST } else { 0 };
            let last = if offset + part.len() == total { LAST } else { 0 };
            let header = RecordHeader {
                item,
                sequence,
                total_bytes: total as u64,
                offset: offset as u64,
                flags: first | last,
                ..RecordHeader::default()
            };
            writer.write(header, part);
        }
    }

    /// Reads all; returns sequence numbers and the number of lost publications.
    fn drain(reader: &mut RingReader) -> (Vec<u64>, u64) {
        let (mut buffer, mut sequences, mut total_lost) = (Vec::new(), Vec::new(), 0);
        loop {
            match reader.read(&mut buffer).unwrap() {
                ReadEvent::Publication { sequence, lost, len, .. } => {
                    assert!(buffer[..len].iter().all(|byte| *byte == sequence as u8));
                    sequences.push(sequence);
                    total_lost += lost;
                }
                ReadEvent::Lost { lost, .. } => total_lost += lost,
                ReadEvent::Skipped => {}
                ReadEvent::Empty => return (sequences, total_lost),
            }
        }
    }

    #[test]
    fn publications_of_followed_items_arrive_in_order() {
        let (mut writer, _file, mut reader) = ring();
        for sequence in 1..=100 {
            publish(&mut writer, 1, sequence, &[sequence as u8; 100]);
            publish(&mut writer, 2, sequence, &[0; 50]);
        }
        assert_eq!(drain(&mut reader), ((1..=100).collect(), 0));
        assert!(!reader.has_records());
        // An item followed late is read from where it began; the other one is not read twice.
        assert!(reader.follow(2, 0, 90));
        let mut buffer = Vec::new();
        for sequence in 91..=100 {
            let event = ReadEvent::Publication { item: 2, sequence, len: 50, lost: 0 };
            assert_eq!(reader.read(&mut buffer), Ok(event));
        }
        assert_eq!(reader.read(&mut buffer), Ok(ReadEvent::Empty));
    }

    #[test]
    fn overwritten_publications_are_counted_exactly() {
        let (mut writer, _file, mut reader) = ring();
        for sequence in 1..=5000 {
            publish(&mut writer, 1, sequence, &[sequence as u8; 100]);
        }
        // Item 1 is overwritten whole by item 2: no later publication tells.
        let (sequences, lost) = drain(&mut reader);
        assert_eq!(sequences.len() as u64 + lost, 5000);
        assert_eq!(sequences.last(), Some(&5000));
        for sequence in 5001..=5010 {
            publish(&mut writer, 1, sequence, &[sequence as u8; 100]);
        }
        for sequence in 1..=5000 {
            publish(&mut writer, 2, sequence, &[0; 100]);
        }
        assert_eq!(drain(&mut reader), (vec![], 10));
        assert_eq!(drain(&mut reader), (vec![], 0));
    }

    #[test]
    fn fragmented_publication_is_assembled_and_last_value_is_read() {
        let (mut writer, _file, mut reader) = ring();
        publish(&mut writer, 1, 1, &[1; 50_000]);
        publish(&mut writer, 1, 2, &[2; 10]);
        assert_eq!(drain(&mut reader), (vec![1, 2], 0));
        let mut late = RingReader::map(_file.as_fd(), SIZE, 1 << 20).unwrap();
        late.follow(1, late.tail(), late.sequence(1).unwrap());
        let mut buffer = Vec::new();
        assert_eq!(late.read_last(1, &mut buffer), Some((2, 10)));
        assert_eq!(drain(&mut late), (vec![], 0));
        publish(&mut writer, 1, 3, &[3; 40_000]);
        assert_eq!(late.read_last(1, &mut buffer), Some((3, 40_000)));
        assert_eq!(drain(&mut late), (vec![], 0), "not twice");
        assert_eq!(late.peek_last(1, &mut buffer), Some((3, 40_000)));
        late.follow_until(1, 3);
        publish(&mut writer, 1, 4, &[4; 10]);
        assert_eq!(drain(&mut late), (vec![], 0), "beyond the end");
        publish(&mut writer, 1, 5, &[3; 40_000]);
        assert_eq!((late.unfollow(1), late.unfollow(1)), (Some(3), None));
        assert_eq!(late.peek_last(1, &mut buffer), Some((5, 40_000)), "also without following");
    }

    #[test]
    fn item_followed_within_a_publication_of_another_one_loses_nothing() {
        let (mut writer, _file, mut reader) = ring();
        let part = |offset: u64, flags: u8| RecordHeader {
            item: 1,
            sequence: 1,
            total_bytes: 200,
            offset,
            flags,
            ..RecordHeader::default()
        };
        let mut buffer = Vec::new();
        writer.write(part(0, FIRST), &[1; 100]);
        let position = reader.tail();
        writer.write(part(100, 0), &[1; 50]);
        assert_eq!(reader.read(&mut buffer), Ok(ReadEvent::Empty));
        reader.follow(2, position, 0);
        writer.write(part(150, LAST), &[1; 50]);
        publish(&mut writer, 2, 1, &[1; 10]);
        let whole = ReadEvent::Publication { item: 1, sequence: 1, len: 200, lost: 0 };
        assert_eq!(reader.read(&mut buffer), Ok(whole));
        assert_eq!(drain(&mut reader), (vec![1], 0), "item 2");
    }

    #[test]
    fn history_is_followed_as_far_as_the_ring_has_it() {
        let (mut writer, file, reader) = ring();
        assert_eq!(reader.history(1, 5, 0), None, "nothing is published");
        for sequence in 1..=10 {
            publish(&mut writer, 2, sequence, &[0; 50]);
            publish(&mut writer, 1, sequence, &[sequence as u8; 100]);
        }
        let read = |count: u32| {
            let mut late = RingReader::map(file.as_fd(), SIZE, 1 << 20).unwrap();
            let (position, after) = late.history(1, count, 0)?;
            late.follow(1, position, after);
            Some(drain(&mut late))
        };
        assert_eq!(read(3), Some((vec![8, 9, 10], 0)));
        assert_eq!(read(100), Some(((1..=10).collect(), 0)));
        assert_eq!(reader.history(1, 100, reader.tail()), None, "those were of another item");
        for sequence in 11..=5000 {
            publish(&mut writer, 1, sequence, &[sequence as u8; 100]);
        }
        assert_eq!(read(3), Some((vec![4998, 4999, 5000], 0)));
        let (sequences, lost) = read(100_000).unwrap();
        assert!(lost == 0 && sequences.len() > 100 && sequences.last() == Some(&5000));
        for sequence in 1..=5000 {
            publish(&mut writer, 2, sequence, &[0; 100]);
        }
        assert_eq!(read(3), None, "overwritten");
    }

    #[test]
    fn publications_missing_before_the_ring_are_told() {
        let (mut writer, _file, mut reader) = ring();
        publish(&mut writer, 1, 1, &[1; 10]);
        let flags = MISSING | LAST;
        writer.write(RecordHeader { item: 1, sequence: 4, flags, ..RecordHeader::default() }, &[]);
        publish(&mut writer, 1, 5, &[5; 10]);
        let flags = ELSEWHERE | LAST;
        writer.write(RecordHeader { item: 1, sequence: 7, flags, ..RecordHeader::default() }, &[]);
        publish(&mut writer, 1, 8, &[8; 10]);
        assert_eq!(drain(&mut reader), (vec![1, 5, 8], 4));
    }

    #[test]
    fn publication_above_the_limit_is_counted_as_lost() {
        let (mut writer, file, _) = ring();
        let mut reader = RingReader::map(file.as_fd(), SIZE, 1000).unwrap();
        reader.follow(1, 0, 0);
        publish(&mut writer, 1, 1, &[1; 1001]);
        publish(&mut writer, 1, 2, &[2; 1000]);
        assert_eq!(drain(&mut reader), (vec![2], 1));
    }

    #[test]
    fn hostile_ring_is_refused_not_followed() {
        use super::super::ring::TAIL_AT;
        use crate::shm::access::WriteMemory;
        use crate::shm::memory::new_broadcast_file;
        let (memory, file) = new_broadcast_file(SIZE.memory_len()).unwrap();
        assert_eq!(RingReader::map(file.as_fd(), SIZE, 9).err(), Some(RingFault::Layout));
        memory.word(SIZE_AT).store(u64::from(SIZE.bytes), Ordering::Relaxed);
        memory.word(ITEMS_AT).store(8, Ordering::Relaxed);
        memory.word(MAGIC_AT).store(MAGIC, Ordering::Release);
        let mut buffer = Vec::new();
        for (tail, mark) in [(64, 0), (1 << 40, 0), (1 << 40, (1 << 40) - 7), (u64::MAX, 5), (1, 0)]
        {
            let mut reader = RingReader::map(file.as_fd(), SIZE, 9).unwrap();
            reader.follow(1, 0, 0);
            // A record of 2^32 - 1 bytes.
            memory.copy_in(SIZE.data_at(), &[0xff; 32]);
            memory.word(TAIL_AT).store(tail, Ordering::Release);
            memory.word(EARLIER_MARK_AT).store(mark, Ordering::Release);
            for _ in 0..10 {
                match reader.read(&mut buffer) {
                    Err(RingFault::Record) => break,
                    Ok(ReadEvent::Publication { .. }) => panic!("a publication from nothing"),
                    _ => {}
                }
            }
            memory.word(TAIL_AT).store(0, Ordering::Release);
        }
        assert!(buffer.len() < 1000);
    }
}
