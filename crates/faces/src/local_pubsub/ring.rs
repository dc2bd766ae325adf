//! Layout of a broadcast ring.
//!
//! ```text
//! 0       magic u64 | ring bytes u64 | items u64
//! 64      intent u64: bytes before (intent - ring bytes) may be overwritten
//! 72      tail u64: end of the last complete record
//! 80      restarts u64: how often a number of an item in the table was given to another one
//! 192     mark u64 | earlier mark u64: starts of records, a quarter of the ring apart
//! 4096    items × { sequence u64 | start of the last publication + 1 u64 }
//! …       ring: records, each at a multiple of 32
//! record  len u32 | item u32 | sequence u64 | total bytes u64 | offset << 8 and flags u64 | bytes
//! ```
//!
//! Positions count bytes since the start and never wrap. Invariant: a record at position *p* is
//! intact while intent - *p* is at most the size of the ring. A reader copies first and then
//! compares, as with a sequence lock.
//!
//! Stores become visible in this order: restarts before an entry that starts again; in an entry the
//! start of a publication before its sequence number, and that before the next start; all of them
//! before the tail. So a reader that has read the tail, then the start and then the sequence number
//! knows whether records of the item are before the tail.

use core::fmt;

/// Bytes before the table of items.
pub(crate) const HEAD_LEN: usize = 4096;
/// Bytes of an entry of the table of items.
pub(crate) const ITEM_LEN: usize = 16;
/// Bytes of a record's header, and alignment of records.
pub(super) const RECORD_LEN: usize = 32;
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"nw-ring1");

pub(crate) const MAGIC_AT: usize = 0;
pub(crate) const SIZE_AT: usize = 8;
pub(crate) const ITEMS_AT: usize = 16;
pub(crate) const INTENT_AT: usize = 64;
pub(crate) const TAIL_AT: usize = 72;
pub(crate) const RESTARTS_AT: usize = 80;
pub(crate) const MARK_AT: usize = 192;
pub(crate) const EARLIER_MARK_AT: usize = 200;

/// Flag: the first record of a publication.
pub const FIRST: u8 = 1;
/// Flag: the last record of a publication.
pub const LAST: u8 = 2;
/// Flag: no publication; those up to the sequence number were lost before they reached the ring.
pub const MISSING: u8 = 8;
/// Flag: no publication; that with the sequence number comes by message.
pub const ELSEWHERE: u8 = 16;
/// Flag: no publication, fills the end of the ring.
pub(super) const PAD: u8 = 4;

/// Smallest ring, bytes.
pub const RING_BYTES_MIN: u32 = 64 << 10;
/// Largest ring, bytes.
pub const RING_BYTES_MAX: u32 = 1 << 30;
/// Largest number of items of one ring.
pub const ITEMS_MAX: u32 = 1 << 20;

/// Error: a ring is not laid out as it must be, so its publisher is faulty or hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingFault {
    /// The memory file can be changed by others, or has another length.
    Memory,
    /// The sizes are outside their limits, or the magic number differs.
    Layout,
    /// A record does not lie within the ring.
    Record,
}

impl fmt::Display for RingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RingFault::Memory => "the ring's memory file is not sealed, or has another length",
            RingFault::Layout => "the ring's sizes are outside their limits",
            RingFault::Record => "a record does not lie within the ring",
        })
    }
}

impl std::error::Error for RingFault {}

/// Sizes of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSize {
    /// Bytes of the ring, a power of two from [`RING_BYTES_MIN`] to [`RING_BYTES_MAX`].
    pub bytes: u32,
    /// Entries of the table of items, 1 to [`ITEMS_MAX`].
    pub items: u32,
}

impl RingSize {
    /// Returns the nearest permitted sizes, rounded up.
    pub const fn at_least(bytes: u32, items: u32) -> Self {
        let bytes = if bytes > RING_BYTES_MAX { RING_BYTES_MAX } else { bytes };
        let bytes = if bytes < RING_BYTES_MIN { RING_BYTES_MIN } else { bytes };
        let items = if items > ITEMS_MAX { ITEMS_MAX } else { items };
        let items = if items == 0 { 1 } else { items };
        RingSize { bytes: bytes.next_power_of_two(), items }
    }

    /// Returns whether both sizes are within their limits.
    pub const fn is_valid(self) -> bool {
        self.bytes.is_power_of_two()
            && self.bytes >= RING_BYTES_MIN
            && self.bytes <= RING_BYTES_MAX
            && self.items >= 1
            && self.items <= ITEMS_MAX
    }

    /// Returns the offset of the ring's first byte in the memory file.
    pub(crate) const fn data_at(self) -> usize {
        (HEAD_LEN + self.items as usize * ITEM_LEN).next_multiple_of(4096)
    }

    /// Returns the length of the memory file, bytes.
    pub const fn memory_len(self) -> usize {
        self.data_at() + self.bytes as usize
    }

    /// Returns the most payload bytes of one record: a quarter of the ring.
    pub const fn record_bytes_max(self) -> usize {
        self.bytes as usize / 4 - RECORD_LEN
    }
}

/// Header of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordHeader {
    /// Payload bytes of this record.
    pub len: u32,
    /// Number of the item, given by the publisher.
    pub item: u32,
    /// Sequence number of the publication within its item, from 1.
    pub sequence: u64,
    /// Payload bytes of the whole publication.
    pub total_bytes: u64,
    /// Payload bytes of the publication before this record.
    pub offset: u64,
    /// [`FIRST`], [`LAST`], [`MISSING`], [`ELSEWHERE`].
    pub flags: u8,
}

impl RecordHeader {
    pub(super) fn encode(self) -> [u8; RECORD_LEN] {
        let mut bytes = [0; RECORD_LEN];
        bytes[..4].copy_from_slice(&self.len.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.item.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.total_bytes.to_le_bytes());
        let last = self.offset << 8 | u64::from(self.flags);
        bytes[24..].copy_from_slice(&last.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; RECORD_LEN]) -> Self {
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
        RecordHeader {
            len: word(0) as u32,
            item: (word(0) >> 32) as u32,
            sequence: word(8),
            total_bytes: word(16),
            offset: word(24) >> 8,
            flags: word(24) as u8,
        }
    }

    /// Returns the bytes that the record takes in the ring.
    pub(super) const fn record_len(self) -> u64 {
        (RECORD_LEN as u64 + self.len as u64).next_multiple_of(RECORD_LEN as u64)
    }
}
