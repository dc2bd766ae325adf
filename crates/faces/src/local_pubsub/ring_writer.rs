//! The writing end of a broadcast ring: the only process that can change it.
//!
//! Invariant: `intent` is published before any byte of an old record is overwritten, and `tail`
//! after the new record is complete. Old records are overwritten whether or not they were read.

use super::ring::{
    EARLIER_MARK_AT, FIRST, HEAD_LEN, INTENT_AT, ITEM_LEN, ITEMS_AT, LAST, MAGIC, MAGIC_AT,
    MARK_AT, PAD, RECORD_LEN, RESTARTS_AT, RecordHeader, RingSize, SIZE_AT, TAIL_AT,
};
use crate::shm::access::{Word, WriteMemory};
use crate::shm::memory::{Memory, new_broadcast_file};
use core::sync::atomic::Ordering;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The writing end of a ring.
#[derive(Debug)]
pub struct RingWriter<M = Memory> {
    memory: M,
    size: RingSize,
    tail: u64,
    mark: u64,
}

impl RingWriter {
    /// Creates a ring. The descriptor is for readers, who can't write by it.
    ///
    /// # Errors
    /// The error of a system call.
    pub fn create(size: RingSize) -> Result<(Self, OwnedFd), Errno> {
        if !size.is_valid() {
            return Err(Errno::INVAL);
        }
        let (memory, file) = new_broadcast_file(size.memory_len())?;
        Ok((RingWriter::new(memory, size), file))
    }
}

impl<M: WriteMemory> RingWriter<M> {
    /// Returns the writer of a ring in memory of zeros.
    pub(crate) fn new(memory: M, size: RingSize) -> Self {
        memory.word(SIZE_AT).store(u64::from(size.bytes), Ordering::Relaxed);
        memory.word(ITEMS_AT).store(u64::from(size.items), Ordering::Relaxed);
        memory.word(MAGIC_AT).store(MAGIC, Ordering::Release);
        RingWriter { memory, size, tail: 0, mark: 0 }
    }

    /// Returns the ring's sizes.
    pub const fn size(&self) -> RingSize {
        self.size
    }

    /// Returns the end of the last record, bytes since the start.
    pub const fn tail(&self) -> u64 {
        self.tail
    }

    /// Returns the end of a record of `len` payload bytes if it were written now.
    pub fn tail_after(&self, len: usize) -> u64 {
        let record = (RECORD_LEN + len).next_multiple_of(RECORD_LEN) as u64;
        self.tail + self.pad_len(record) + record
    }

    /// Returns the bytes at the end of the ring that a record of this length leaves free.
    const fn pad_len(&self, record: u64) -> u64 {
        let left = self.size.bytes as u64 - self.offset(self.tail);
        if record > left { left } else { 0 }
    }

    const fn offset(&self, position: u64) -> u64 {
        position & (self.size.bytes as u64 - 1)
    }

    /// Writes a record. `header.len` is set here.
    ///
    /// # Panics
    /// If the payload is longer than [`RingSize::record_bytes_max`] or the item beyond the table:
    /// callers divide publications and check items.
    pub fn write(&mut self, mut header: RecordHeader, payload: &[u8]) {
        assert!(payload.len() <= self.size.record_bytes_max() && header.item < self.size.items);
        header.len = payload.len() as u32;
        let record = header.record_len();
        let pad = self.pad_len(record);
        let (start, end) = (self.tail + pad, self.tail + pad + record);
        self.memory.word(INTENT_AT).store(end, Ordering::Relaxed);
        self.memory.fence(Ordering::Release);
        let data = self.size.data_at();
        if pad > 0 {
            let len = pad as u32 - RECORD_LEN as u32;
            let filler = RecordHeader { len, flags: PAD, ..RecordHeader::default() };
            self.memory.copy_in(data + self.offset(self.tail) as usize, &filler.encode());
        }
        let at = data + self.offset(start) as usize;
        self.memory.copy_in(at, &header.encode());
        self.memory.copy_in(at + RECORD_LEN, payload);
        let item = HEAD_LEN + header.item as usize * ITEM_LEN;
        if header.flags & FIRST != 0 {
            self.memory.word(item + 8).store(start + 1, Ordering::Release);
        }
        if header.flags & LAST != 0 {
            self.memory.word(item).store(header.sequence, Ordering::Release);
        }
        self.memory.word(TAIL_AT).store(end, Ordering::Release);
        self.tail = end;
        if end - self.mark >= u64::from(self.size.bytes) / 4 {
            self.memory.word(EARLIER_MARK_AT).store(self.mark, Ordering::Relaxed);
            self.memory.word(MARK_AT).store(end, Ordering::Relaxed);
            self.mark = end;
        }
    }

    /// Raises an item's last sequence number, because publications up to it are not written.
    /// Readers report them as lost with the item's next record, or its end.
    pub fn skip_to(&self, item: u32, sequence: u64) {
        let at = HEAD_LEN + item as usize * ITEM_LEN;
        self.memory.word(at).store(sequence, Ordering::Release);
    }

    /// Sets an item's last sequence number, without a publication, before its number is used.
    pub fn start_item(&self, item: u32, sequence: u64) {
        let at = HEAD_LEN + item as usize * ITEM_LEN;
        let (last, start) = (self.memory.word(at), self.memory.word(at + 8));
        if last.load(Ordering::Relaxed) != 0 || start.load(Ordering::Relaxed) != 0 {
            // Records of the earlier item may be unread, and the entry no longer shows them.
            self.memory.word(RESTARTS_AT).fetch_add(1, Ordering::Release);
        }
        start.store(0, Ordering::Release);
        last.store(sequence, Ordering::Release);
    }

    /// Sets an item's entry to anything, as a hostile publisher may.
    #[cfg(test)]
    pub(super) fn set_entry(&self, item: u32, sequence: u64, start: u64) {
        let at = HEAD_LEN + item as usize * ITEM_LEN;
        self.memory.word(at).store(sequence, Ordering::Relaxed);
        self.memory.word(at + 8).store(start, Ordering::Relaxed);
    }
}
