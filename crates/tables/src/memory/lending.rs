//! Octets of one owner, of which other threads read ranges for a while, without a lock and without a copy (decision 0034).
//!
//! The owner reads all octets at any time and writes those that are not lent; to write lent ones is a bug, and panics. A [`Loan`] goes where it is needed, keeps the
//! memory alive beyond its owner, and ends when it comes back ([`Lendable::end`]) or is dropped anywhere ([`Lendable::next_ended`]). One that is never dropped keeps its
//! octets as they are for good.
//!
//! While nothing is lent, what is written is compared with one bound, as in any slice, and nothing else.

use super::Lines;
use core::fmt;
use core::ops::{Deref, Range};
use core::ptr::NonNull;
use core::slice;
use std::sync::{Arc, Mutex, PoisonError};

/// No loan.
const NONE: u32 = u32::MAX;

/// See the module. Loans are found by blocks of `BLOCK` octets, each within one.
pub struct Lendable<const BLOCK: usize> {
    first: NonNull<u8>,
    len: usize,
    /// Octets from the first on that are written without a look at loans: all while there are none, otherwise none.
    free_len: usize,
    /// By block, up to the last one that was ever lent of: its newest loan.
    newest: Vec<u32>,
    loans: Vec<Entry>,
    loans_free: Vec<u32>,
    shared: Arc<Shared>,
}

/// A loan as its owner knows it.
struct Entry {
    range: Range<usize>,
    block: usize,
    /// In the same block.
    older: u32,
}

/// What is there until the owner and all loans are gone.
struct Shared {
    /// Loans that were dropped, by number.
    ended: Mutex<Vec<u32>>,
    /// Never borrowed: its octets are reached by pointers only.
    _octets: Lines<u8>,
}

/// Octets that nobody writes while this exists.
pub struct Loan {
    first: NonNull<u8>,
    len: usize,
    number: u32,
    /// Always there, but while the loan ends.
    shared: Option<Arc<Shared>>,
}

// SAFETY: it owns its octets, but those that are lent; of those it hands out shared references only, as each loan does.
unsafe impl<const BLOCK: usize> Send for Lendable<BLOCK> {}
// SAFETY: shared references to it give shared references to octets only.
unsafe impl<const BLOCK: usize> Sync for Lendable<BLOCK> {}
// SAFETY: it reads octets that nobody writes until it has ended, which the owner learns from a lock or by being handed the loan: both order what this thread
// has read before what the owner then writes. The memory is unmapped by who is last, as with any `Arc`.
unsafe impl Send for Loan {}
// SAFETY: shared references to it give shared references to octets only.
unsafe impl Sync for Loan {}

impl<const BLOCK: usize> Lendable<BLOCK> {
    /// So many octets, all zero: memory as of [`Lines::new`].
    ///
    /// # Panics
    /// When the address space can't hold them.
    pub fn new(len: usize) -> Self {
        let octets = Lines::<u8>::new(len);
        Lendable {
            first: octets.first,
            len,
            free_len: len,
            newest: Vec::new(),
            loans: Vec::new(),
            loans_free: Vec::new(),
            shared: Arc::new(Shared { ended: Mutex::default(), _octets: octets }),
        }
    }

    /// Octets, to be written.
    ///
    /// # Panics
    /// When the range is outside, or one of its octets is lent.
    #[inline(always)]
    pub fn write(&mut self, range: Range<usize>) -> &mut [u8] {
        self.check_free(&range);
        // SAFETY: the range is inside the memory, which is initialised (zeros at first) and alive as long as `self`. No loan covers any of it, and all other
        // references to octets borrow `self`, which is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.first.as_ptr().add(range.start), range.end - range.start) }
    }

    /// Whole blocks, to be written.
    ///
    /// # Panics
    /// As [`write`](Self::write), and when one is named twice.
    pub fn write_blocks<const N: usize>(&mut self, blocks: [usize; N]) -> [&mut [u8]; N] {
        let is_new = |at: usize| !blocks[..at].contains(&blocks[at]);
        assert!((1..N).all(is_new), "a block can't be written twice at one time");
        blocks.iter().for_each(|block| self.check_free(&Self::block(*block)));
        // SAFETY: as in `write`, and blocks that are not the same have no octets in common.
        blocks
            .map(|block| unsafe { slice::from_raw_parts_mut(self.first.as_ptr().add(block * BLOCK), BLOCK) })
    }

    /// Copies octets to where others are.
    ///
    /// # Panics
    /// As [`write`](Self::write), for either place.
    pub fn copy_within(&mut self, from: Range<usize>, to: usize) {
        let len = self[from.clone()].len();
        self.check_free(&(to..to + len));
        // SAFETY: both ranges are inside the memory, no loan covers any of what is written, and `self` is borrowed exclusively.
        unsafe { core::ptr::copy(self.first.as_ptr().add(from.start), self.first.as_ptr().add(to), len) }
    }

    /// Lends octets of a block to whoever has the loan. The same ones may be lent several times.
    ///
    /// # Panics
    /// When the range is not within the block, or the block not within the memory.
    pub fn lend(&mut self, block: usize, range: Range<usize>) -> Loan {
        let whole = Self::block(block);
        let is_within = whole.start <= range.start && range.start <= range.end && range.end <= whole.end;
        assert!(is_within && whole.end <= self.len, "a loan is within one block of the memory");
        if self.newest.len() <= block {
            self.newest.resize(block + 1, NONE);
        }
        let entry = Entry { range: range.clone(), block, older: self.newest[block] };
        let number = match self.loans_free.pop() {
            Some(number) => {
                self.loans[number as usize] = entry;
                number
            }
            None => {
                self.loans.push(entry);
                u32::try_from(self.loans.len() - 1).expect("fewer loans than 32 bits count")
            }
        };
        self.newest[block] = number;
        self.free_len = 0;
        // SAFETY: the range is inside the memory, so its start is, or is one behind the last.
        let first = unsafe { self.first.add(range.start) };
        Loan { first, len: range.len(), number, shared: Some(Arc::clone(&self.shared)) }
    }

    /// Ends a loan; of which block it was.
    ///
    /// # Panics
    /// When it is one of other memory.
    pub fn end(&mut self, mut loan: Loan) -> usize {
        let is_ours = loan.shared.as_ref().is_some_and(|shared| Arc::ptr_eq(shared, &self.shared));
        assert!(is_ours, "a loan goes back to the memory that it is of");
        loan.shared = None;
        self.forget(loan.number)
    }

    /// A loan that ended without coming back: of which block it was. To be asked until there is none, now and then while [`is_lent`](Self::is_lent).
    pub fn next_ended(&mut self) -> Option<usize> {
        let number = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(self.forget(number))
    }

    /// Whether any octets are lent.
    #[inline(always)]
    pub const fn is_lent(&self) -> bool {
        self.free_len != self.len
    }

    #[inline(always)]
    fn check_free(&self, range: &Range<usize>) {
        if range.start > range.end || range.end > self.free_len {
            self.check_beside_loans(range.start, range.end);
        }
    }

    #[cold]
    #[inline(never)]
    fn check_beside_loans(&self, start: usize, end: usize) {
        assert!(start <= end && end <= self.len, "{start}..{end} is out of the range of {} octets", self.len);
        let blocks = start / BLOCK..end.div_ceil(BLOCK).min(self.newest.len());
        for block in blocks {
            let mut at = self.newest[block];
            while let Some(Entry { range, older, .. }) = self.loans.get(at as usize) {
                let is_apart = range.start.max(start) >= range.end.min(end);
                assert!(is_apart, "{start}..{end} is written while {range:?} is lent to another thread");
                at = *older;
            }
        }
    }

    fn forget(&mut self, number: u32) -> usize {
        let Entry { block, older, .. } = self.loans[number as usize];
        let mut at = self.newest[block];
        if at == number {
            self.newest[block] = older;
        } else {
            while self.loans[at as usize].older != number {
                at = self.loans[at as usize].older;
            }
            self.loans[at as usize].older = older;
        }
        self.loans_free.push(number);
        if self.loans_free.len() == self.loans.len() {
            self.free_len = self.len;
        }
        block
    }

    const fn block(block: usize) -> Range<usize> {
        block * BLOCK..(block + 1) * BLOCK
    }
}

impl<const BLOCK: usize> Deref for Lendable<BLOCK> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the memory holds `len` initialised octets from `first`, alive as long as `self`. Who has a loan only reads.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<const BLOCK: usize> fmt::Debug for Lendable<BLOCK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loans = self.loans.len() - self.loans_free.len();
        f.debug_struct("Lendable").field("len", &self.len).field("loans", &loans).finish()
    }
}

impl Deref for Loan {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: so many octets are initialised memory, alive as long as `shared`, and not written while this loan exists.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.ended.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
        }
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("len", &self.len).finish()
    }
}

#[cfg(test)]
mod tests;
