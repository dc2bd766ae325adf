//! A buffer with one owner, of which other threads read ranges without a lock and without a copy
//! (decision 0034).
//!
//! The owner may read all bytes at any time and write those that are not leased; writing leased
//! bytes is a bug and panics. A [`ReadLease`] may be sent to other threads and keeps the memory
//! alive, even after its owner is dropped. It ends when it is given to [`SharedBuffer::release`],
//! or when it is dropped anywhere and the owner has called [`SharedBuffer::next_dropped`]. A leaked
//! lease protects its bytes for ever.
//!
//! While there are no leases, a write checks one bound like a slice, and nothing else.

use super::MmapArray;
use core::fmt;
use core::ops::{Deref, Range};
use core::ptr::NonNull;
use core::slice;
use std::sync::{Arc, Mutex, PoisonError};

/// No lease.
const NONE: u32 = u32::MAX;

/// The numbers of leases that were dropped, from any thread to the owner. What a thread did before
/// it pushes a number is ordered before what the owner does after it has taken that number.
pub trait DroppedLeases: Default {
    /// Adds a number.
    fn push(&self, number: u32);
    /// Takes a number; `None` if there is none.
    fn pop(&self) -> Option<u32>;
}

impl DroppedLeases for Mutex<Vec<u32>> {
    fn push(&self, number: u32) {
        self.lock().unwrap_or_else(PoisonError::into_inner).push(number);
    }

    fn pop(&self) -> Option<u32> {
        self.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// The buffer: see the module. A lease is within one block of `BLOCK` bytes.
pub struct SharedBuffer<const BLOCK: usize, D = Mutex<Vec<u32>>> {
    first: NonNull<u8>,
    len: usize,
    /// Bytes that can be written without looking at leases: all if there are none, otherwise 0.
    free_len: usize,
    /// By block, up to the last one ever leased: its newest lease.
    newest_lease: Vec<u32>,
    leases: Vec<LeaseRecord>,
    free_leases: Vec<u32>,
    shared: Arc<Shared<D>>,
}

/// A lease in the owner's list.
struct LeaseRecord {
    range: Range<usize>,
    block: usize,
    /// The next older lease of the same block.
    next_older: u32,
}

/// Alive until the owner and all leases are dropped.
struct Shared<D> {
    dropped: D,
    /// Never borrowed: its bytes are accessed through pointers only.
    _bytes: MmapArray<u8>,
}

/// Bytes that are not written while this lease exists.
pub struct ReadLease<D: DroppedLeases = Mutex<Vec<u32>>> {
    first: NonNull<u8>,
    len: usize,
    number: u32,
    /// `None` only while the lease ends.
    shared: Option<Arc<Shared<D>>>,
}

// SAFETY: the buffer owns its bytes. Of leased bytes it hands out shared references only, as each
// lease does.
unsafe impl<const BLOCK: usize, D: Send + Sync> Send for SharedBuffer<BLOCK, D> {}
// SAFETY: shared references to it give shared references to bytes only.
unsafe impl<const BLOCK: usize, D: Send + Sync> Sync for SharedBuffer<BLOCK, D> {}
// SAFETY: a lease reads bytes that are not written until it has ended. The owner is notified of
// that by a lock or by receiving the lease, and both order this thread's reads before the owner's
// writes. The last one alive unmaps the memory, as with any `Arc`.
unsafe impl<D: DroppedLeases + Send + Sync> Send for ReadLease<D> {}
// SAFETY: shared references to it give shared references to bytes only.
unsafe impl<D: DroppedLeases + Send + Sync> Sync for ReadLease<D> {}

impl<const BLOCK: usize, D: DroppedLeases> SharedBuffer<BLOCK, D> {
    /// Creates a buffer of `len` zero bytes, in memory like [`MmapArray::new`].
    ///
    /// # Panics
    /// When the address space can't hold them.
    pub fn new(len: usize) -> Self {
        let bytes = MmapArray::<u8>::new(len);
        SharedBuffer {
            first: bytes.first,
            len,
            free_len: len,
            newest_lease: Vec::new(),
            leases: Vec::new(),
            free_leases: Vec::new(),
            shared: Arc::new(Shared { dropped: D::default(), _bytes: bytes }),
        }
    }

    /// Returns a range of bytes to be written.
    ///
    /// # Panics
    /// When the range is outside the buffer or overlaps a lease.
    #[inline(always)]
    pub fn write(&mut self, range: Range<usize>) -> &mut [u8] {
        self.check_writable(&range);
        // SAFETY: the range is inside the memory, which is initialised (zeros at first) and alive
        // as long as `self`. No lease overlaps it, and all other references to the bytes borrow
        // `self`, which is borrowed exclusively.
        unsafe {
            slice::from_raw_parts_mut(self.first.as_ptr().add(range.start), range.end - range.start)
        }
    }

    /// Returns whole blocks to be written.
    ///
    /// # Panics
    /// Like [`write`](Self::write), and when a block is given twice.
    pub fn write_blocks<const N: usize>(&mut self, blocks: [usize; N]) -> [&mut [u8]; N] {
        let is_unique = |index: usize| !blocks[..index].contains(&blocks[index]);
        assert!((1..N).all(is_unique), "each block is given once");
        blocks.iter().for_each(|block| self.check_writable(&Self::block(*block)));
        // SAFETY: as in `write`; different blocks do not overlap.
        blocks.map(|block| unsafe {
            slice::from_raw_parts_mut(self.first.as_ptr().add(block * BLOCK), BLOCK)
        })
    }

    /// Copies a range of bytes to offset `to`.
    ///
    /// # Panics
    /// When a range is outside the buffer, or the target overlaps a lease.
    pub fn copy_within(&mut self, from: Range<usize>, to: usize) {
        let len = self[from.clone()].len();
        self.check_writable(&(to..to + len));
        // SAFETY: both ranges are inside the memory, no lease overlaps the target, and `self` is
        // borrowed exclusively.
        unsafe {
            core::ptr::copy(self.first.as_ptr().add(from.start), self.first.as_ptr().add(to), len)
        }
    }

    /// Leases a range of bytes of a block for reading. Leases may overlap.
    ///
    /// # Panics
    /// When the range is not within the block, or the block not within the buffer.
    pub fn lease(&mut self, block: usize, range: Range<usize>) -> ReadLease<D> {
        let whole = Self::block(block);
        let is_inside =
            whole.start <= range.start && range.start <= range.end && range.end <= whole.end;
        assert!(is_inside && whole.end <= self.len, "a lease is within one block of the buffer");
        if self.newest_lease.len() <= block {
            self.newest_lease.resize(block + 1, NONE);
        }
        let entry =
            LeaseRecord { range: range.clone(), block, next_older: self.newest_lease[block] };
        let number = match self.free_leases.pop() {
            Some(number) => {
                self.leases[number as usize] = entry;
                number
            }
            None => {
                self.leases.push(entry);
                u32::try_from(self.leases.len() - 1).expect("fewer leases than 32 bits count")
            }
        };
        self.newest_lease[block] = number;
        self.free_len = 0;
        // SAFETY: the start of the range is inside the memory, or one past its end.
        let first = unsafe { self.first.add(range.start) };
        ReadLease { first, len: range.len(), number, shared: Some(Arc::clone(&self.shared)) }
    }

    /// Ends a lease; returns its block.
    ///
    /// # Panics
    /// When the lease belongs to another buffer.
    pub fn release(&mut self, mut lease: ReadLease<D>) -> usize {
        let is_ours = lease.shared.as_ref().is_some_and(|shared| Arc::ptr_eq(shared, &self.shared));
        assert!(is_ours, "a lease is released to its own buffer");
        lease.shared = None;
        self.remove_lease(lease.number)
    }

    /// Ends a lease that was dropped elsewhere; returns its block, `None` if there is none. To be
    /// called until it returns `None`, from time to time while [`has_leases`](Self::has_leases).
    pub fn next_dropped(&mut self) -> Option<usize> {
        let number = self.shared.dropped.pop()?;
        Some(self.remove_lease(number))
    }

    /// Returns whether any bytes are leased.
    #[inline(always)]
    pub const fn has_leases(&self) -> bool {
        self.free_len != self.len
    }

    /// Panics if a range is outside the buffer or leased.
    #[inline(always)]
    fn check_writable(&self, range: &Range<usize>) {
        if range.start > range.end || range.end > self.free_len {
            self.check_against_leases(range.start, range.end);
        }
    }

    /// The slow form of [`check_writable`](Self::check_writable), while leases exist.
    #[cold]
    #[inline(never)]
    fn check_against_leases(&self, start: usize, end: usize) {
        assert!(
            start <= end && end <= self.len,
            "{start}..{end} is out of the range of {} bytes",
            self.len
        );
        let blocks = start / BLOCK..end.div_ceil(BLOCK).min(self.newest_lease.len());
        for block in blocks {
            let mut current = self.newest_lease[block];
            while let Some(LeaseRecord { range, next_older, .. }) =
                self.leases.get(current as usize)
            {
                let is_disjoint = range.start.max(start) >= range.end.min(end);
                assert!(is_disjoint, "{start}..{end} is written while {range:?} is leased");
                current = *next_older;
            }
        }
    }

    /// Removes a lease from the list; returns its block.
    fn remove_lease(&mut self, number: u32) -> usize {
        let LeaseRecord { block, next_older, .. } = self.leases[number as usize];
        let mut current = self.newest_lease[block];
        if current == number {
            self.newest_lease[block] = next_older;
        } else {
            while self.leases[current as usize].next_older != number {
                current = self.leases[current as usize].next_older;
            }
            self.leases[current as usize].next_older = next_older;
        }
        self.free_leases.push(number);
        if self.free_leases.len() == self.leases.len() {
            self.free_len = self.len;
        }
        block
    }

    const fn block(block: usize) -> Range<usize> {
        block * BLOCK..(block + 1) * BLOCK
    }
}

impl<const BLOCK: usize, D> Deref for SharedBuffer<BLOCK, D> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the memory holds `len` initialised bytes from `first`, alive as long as `self`.
        // Leases only read.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<const BLOCK: usize, D> fmt::Debug for SharedBuffer<BLOCK, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let leases = self.leases.len() - self.free_leases.len();
        f.debug_struct("SharedBuffer").field("len", &self.len).field("leases", &leases).finish()
    }
}

impl<D: DroppedLeases> Deref for ReadLease<D> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: these `len` bytes are initialised, alive as long as `shared`, and not written
        // while this lease exists.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<D: DroppedLeases> Drop for ReadLease<D> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.dropped.push(self.number);
        }
    }
}

impl<D: DroppedLeases> fmt::Debug for ReadLease<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadLease").field("len", &self.len).finish()
    }
}

#[cfg(test)]
mod order_model;
#[cfg(test)]
mod tests;
