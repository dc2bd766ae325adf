//! Access to memory that two ends share: words with an order, and bytes that are copied.
//!
//! The rings are generic over it, so that the tests run the same code on memory of which all orders
//! are modelled (decision 0151). The product has one instance for each trait, a mapping.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use core::time::Duration;

/// A word that is read and written by atomic instructions.
pub trait Word<T> {
    /// Returns its value.
    fn load(&self, order: Ordering) -> T;
    /// Sets its value.
    fn store(&self, value: T, order: Ordering);
    /// Sets its value and returns the earlier one.
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Adds to its value, which wraps, and returns the earlier one.
    fn fetch_add(&self, value: T, order: Ordering) -> T;
}

macro_rules! word {
    ($atomic:ty, $value:ty) => {
        impl Word<$value> for $atomic {
            #[inline(always)]
            fn load(&self, order: Ordering) -> $value {
                self.load(order)
            }

            #[inline(always)]
            fn store(&self, value: $value, order: Ordering) {
                self.store(value, order);
            }

            #[inline(always)]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                self.swap(value, order)
            }

            #[inline(always)]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.fetch_add(value, order)
            }
        }
    };
}

word!(AtomicU32, u32);
word!(AtomicU64, u64);

/// Memory that this end reads. Offsets are chosen by this end.
pub trait ReadMemory {
    /// Returns the word at an offset.
    fn load(&self, at: usize, order: Ordering) -> u64;

    /// Copies bytes from an offset.
    fn copy_out(&self, at: usize, bytes: &mut [u8]);

    /// Orders this thread's accesses before and after it.
    #[inline(always)]
    fn fence(&self, order: Ordering) {
        fence(order);
    }
}

/// Memory that this end reads and writes. Offsets are chosen by this end.
pub trait WriteMemory: ReadMemory {
    /// A word of 64 bits.
    type Word: Word<u64>;
    /// A word of 32 bits that threads can wait for.
    type FutexWord: Word<u32>;

    /// Returns the word at an offset.
    fn word(&self, at: usize) -> &Self::Word;

    /// Returns the word of 32 bits at an offset.
    fn futex_word(&self, at: usize) -> &Self::FutexWord;

    /// Copies bytes to an offset.
    fn copy_in(&self, at: usize, bytes: &[u8]);

    /// Waits until a wake-up of the word at an offset, at most `timeout`. Returns at once if its
    /// value is not the expected one, and may return without a reason.
    fn futex_wait(&self, at: usize, expected: u32, timeout: Duration);

    /// Wakes a thread that waits for the word at an offset.
    fn futex_wake(&self, at: usize);
}
