//! Models of memory orders: the rings' own code, run with every order of its accesses that C11
//! permits, within a bound of preemptions (decision 0151).
//!
//! x86 keeps stores in order whatever the code asks for; other processors do not. So each model is
//! also run with one order weakened at one end, and must fail then: a model that cannot fail shows
//! nothing. Orders that may be weakened without a failure are named in the model's file.

mod broadcast_ring;
mod reader_page;
mod stream_ring;

use crate::shm::access::{ReadMemory, Word, WriteMemory};
use core::cell::Cell;
use core::sync::atomic::Ordering;
use core::time::Duration;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::sync::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Preemptions of each run; more in the second tier of checks, by this variable.
const PREEMPTIONS: usize = 2;
const PREEMPTIONS_VARIABLE: &str = "NW_MODEL_PREEMPTIONS";

/// An order that one end does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakened {
    /// All are kept.
    Nothing,
    /// Loads of the words at some offsets are relaxed.
    Load(&'static [usize]),
    /// Stores, swaps and additions to them are relaxed.
    Store(&'static [usize]),
    /// Fences of an order are left out.
    Fence(Ordering),
}

/// Runs a model with all orders, and returns normally if none of them violates it.
fn check(model: fn()) {
    let mut builder = loom::model::Builder::new();
    let bound = std::env::var(PREEMPTIONS_VARIABLE).ok().map(|bound| bound.parse().unwrap());
    builder.preemption_bound = Some(bound.unwrap_or(PREEMPTIONS));
    builder.max_branches = 10_000;
    builder.check(model);
}

/// Asserts that a model fails.
fn assert_fails(model: fn(), name: &str) {
    let outcome = catch_unwind(AssertUnwindSafe(|| check(model)));
    assert!(outcome.is_err(), "the model does not notice: {name}");
}

/// A word of the model, as one end uses it.
#[derive(Debug)]
struct ModelWord<A> {
    atomic: Rc<A>,
    are_loads_weak: bool,
    are_stores_weak: bool,
}

impl<A> ModelWord<A> {
    const fn load_order(&self, order: Ordering) -> Ordering {
        if self.are_loads_weak { Ordering::Relaxed } else { order }
    }

    const fn store_order(&self, order: Ordering) -> Ordering {
        if self.are_stores_weak { Ordering::Relaxed } else { order }
    }
}

macro_rules! model_word {
    ($atomic:ty, $value:ty) => {
        impl Word<$value> for ModelWord<$atomic> {
            fn load(&self, order: Ordering) -> $value {
                self.atomic.load(self.load_order(order))
            }

            fn store(&self, value: $value, order: Ordering) {
                self.atomic.store(value, self.store_order(order));
            }

            /// A swap that changes nothing writes nothing: loom lets a store that follows it be
            /// older than what it wrote, which no processor does.
            fn swap(&self, value: $value, order: Ordering) -> $value {
                let (order, mut earlier) = (self.store_order(order), value ^ 1);
                loop {
                    let outcome =
                        self.atomic.compare_exchange(earlier, value, order, Ordering::Relaxed);
                    match outcome {
                        Err(other) if other != value => earlier = other,
                        Ok(earlier) | Err(earlier) => return earlier,
                    }
                }
            }

            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.atomic.fetch_add(value, self.store_order(order))
            }
        }
    };
}

model_word!(AtomicU32, u32);
model_word!(AtomicU64, u64);

/// The bytes of a ring in the model.
#[derive(Debug)]
enum Bytes {
    /// Bytes that no end accesses while the other one writes them: the model fails if one does.
    Owned(Vec<(UnsafeCell<()>, Cell<u8>)>),
    /// Bytes that may be overwritten while they are copied, in words of 8 without an order.
    Contested(Vec<AtomicU64>),
}

/// Shared memory as one end uses it. Everything is created before threads start.
#[derive(Debug)]
struct ModelMemory {
    words: BTreeMap<usize, ModelWord<AtomicU64>>,
    futex_words: BTreeMap<usize, ModelWord<AtomicU32>>,
    bytes_at: usize,
    bytes: Rc<Bytes>,
    /// The kernel's lock and queue of threads that wait for a word.
    sleepers: Rc<(Mutex<()>, Condvar)>,
    weakened: Weakened,
}

impl ModelMemory {
    /// Creates memory with words at some offsets and bytes in a range.
    fn new(
        words: impl IntoIterator<Item = usize>,
        futex_words: impl IntoIterator<Item = usize>,
        bytes: Range<usize>,
        are_contested: bool,
    ) -> Self {
        let len = bytes.len();
        let contents = match are_contested {
            true => Bytes::Contested((0..len / 8).map(|_| AtomicU64::new(0)).collect()),
            false => Bytes::Owned((0..len).map(|_| Default::default()).collect()),
        };
        let words = words.into_iter().map(|at| (at, word(AtomicU64::new(0))));
        let futex_words = futex_words.into_iter().map(|at| (at, word(AtomicU32::new(0))));
        ModelMemory {
            words: words.collect(),
            futex_words: futex_words.collect(),
            bytes_at: bytes.start,
            bytes: Rc::new(contents),
            sleepers: Rc::new((Mutex::new(()), Condvar::new())),
            weakened: Weakened::Nothing,
        }
    }

    /// Returns the memory as another end uses it.
    fn end(&self, weakened: Weakened) -> Self {
        ModelMemory {
            words: ends(&self.words, weakened),
            futex_words: ends(&self.futex_words, weakened),
            bytes_at: self.bytes_at,
            bytes: Rc::clone(&self.bytes),
            sleepers: Rc::clone(&self.sleepers),
            weakened,
        }
    }
}

fn word<A>(atomic: A) -> ModelWord<A> {
    ModelWord { atomic: Rc::new(atomic), are_loads_weak: false, are_stores_weak: false }
}

/// Returns words as another end uses them.
fn ends<A>(
    words: &BTreeMap<usize, ModelWord<A>>,
    weakened: Weakened,
) -> BTreeMap<usize, ModelWord<A>> {
    let end = |(at, word): (&usize, &ModelWord<A>)| {
        let are_loads_weak = matches!(weakened, Weakened::Load(weak) if weak.contains(at));
        let are_stores_weak = matches!(weakened, Weakened::Store(weak) if weak.contains(at));
        (*at, ModelWord { atomic: Rc::clone(&word.atomic), are_loads_weak, are_stores_weak })
    };
    words.iter().map(end).collect()
}

impl ReadMemory for ModelMemory {
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.words[&at].load(order)
    }

    fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        let start = at - self.bytes_at;
        match &*self.bytes {
            Bytes::Owned(cells) => {
                for (byte, (access, cell)) in bytes.iter_mut().zip(&cells[start..]) {
                    *byte = access.with(|_| cell.get());
                }
            }
            Bytes::Contested(words) => {
                assert!(start.is_multiple_of(8) && bytes.len().is_multiple_of(8));
                for (bytes, word) in bytes.chunks_mut(8).zip(&words[start / 8..]) {
                    bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
                }
            }
        }
    }

    fn fence(&self, order: Ordering) {
        if self.weakened != Weakened::Fence(order) {
            loom::sync::atomic::fence(order);
        }
    }
}

impl WriteMemory for ModelMemory {
    type Word = ModelWord<AtomicU64>;
    type FutexWord = ModelWord<AtomicU32>;

    fn word(&self, at: usize) -> &Self::Word {
        &self.words[&at]
    }

    fn futex_word(&self, at: usize) -> &Self::FutexWord {
        &self.futex_words[&at]
    }

    fn copy_in(&self, at: usize, bytes: &[u8]) {
        let start = at - self.bytes_at;
        match &*self.bytes {
            Bytes::Owned(cells) => {
                for (byte, (access, cell)) in bytes.iter().zip(&cells[start..]) {
                    access.with_mut(|_| cell.set(*byte));
                }
            }
            Bytes::Contested(words) => {
                assert!(start.is_multiple_of(8));
                for (bytes, word) in bytes.chunks(8).zip(&words[start / 8..]) {
                    let value = u64::from_ne_bytes(bytes.try_into().expect("whole words"));
                    word.store(value, Ordering::Relaxed);
                }
            }
        }
    }

    /// As the kernel: compares and sleeps under the lock that a wake-up takes.
    fn futex_wait(&self, at: usize, expected: u32, _: Duration) {
        let (lock, sleepers) = &*self.sleepers;
        let locked = lock.lock().unwrap();
        if self.futex_words[&at].load(Ordering::Relaxed) == expected {
            drop(sleepers.wait(locked));
        }
    }

    fn futex_wake(&self, _: usize) {
        let (lock, sleepers) = &*self.sleepers;
        let _locked = lock.lock().unwrap();
        sleepers.notify_one();
    }
}

/// A socket for wake-ups: counts messages, and its reader sleeps while there are none.
#[derive(Debug, Default)]
struct Socket {
    messages: Mutex<u32>,
    arrival: Condvar,
}

impl Socket {
    fn send(&self) {
        *self.messages.lock().unwrap() += 1;
        self.arrival.notify_one();
    }

    fn receive(&self) {
        let mut messages = self.messages.lock().unwrap();
        while *messages == 0 {
            messages = self.arrival.wait(messages).unwrap();
        }
        *messages -= 1;
    }
}
