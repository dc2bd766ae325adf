//! A model of memory orders: what a thread reads of a lease is read before the owner writes there
//! again, in every order that C11 permits (decision 0151).
//!
//! The bytes themselves are read through slices, which the model can't see: beside them stands a
//! cell of the model, which fails when one thread writes it while another one may read it.

use super::{DroppedLeases, SharedBuffer};
use core::sync::atomic::Ordering;
use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::AtomicU32;
use loom::thread;
use std::panic::catch_unwind;
use std::rc::Rc;

const BLOCK: usize = 64;

impl DroppedLeases for Mutex<Vec<u32>> {
    fn push(&self, number: u32) {
        self.lock().unwrap().push(number);
    }

    fn pop(&self) -> Option<u32> {
        self.lock().unwrap().pop()
    }
}

/// One dropped lease, without a lock.
#[derive(Default)]
struct OneDropped<const IS_ORDERED: bool>(AtomicU32);

impl<const IS_ORDERED: bool> DroppedLeases for OneDropped<IS_ORDERED> {
    fn push(&self, number: u32) {
        self.0.store(number + 1, if IS_ORDERED { Ordering::Release } else { Ordering::Relaxed });
    }

    fn pop(&self) -> Option<u32> {
        let order = if IS_ORDERED { Ordering::Acquire } else { Ordering::Relaxed };
        let number = self.0.load(order).checked_sub(1)?;
        self.0.store(0, Ordering::Relaxed);
        Some(number)
    }
}

/// Writes leased bytes after another thread has read them and dropped the lease.
fn write_after_drop<D: DroppedLeases + 'static>() {
    let mut buffer = SharedBuffer::<BLOCK, D>::new(BLOCK);
    let bytes = Rc::new(UnsafeCell::new(()));
    let (lease, leased) = (buffer.lease(0, 0..8), Rc::clone(&bytes));
    let thread = thread::spawn(move || {
        leased.with(|_| assert_eq!(lease[..], [0; 8]));
        drop(lease);
    });
    while buffer.next_dropped().is_none() {
        thread::yield_now();
    }
    bytes.with_mut(|_| buffer.write(0..8).fill(1));
    thread.join().unwrap();
}

#[test]
fn dropped_lease_any_order_is_read_before_written() {
    loom::model(write_after_drop::<Mutex<Vec<u32>>>);
    loom::model(write_after_drop::<OneDropped<true>>);
}

#[test]
fn dropped_lease_model_fails_with_relaxed_list() {
    let model = || loom::model(write_after_drop::<OneDropped<false>>);
    assert!(catch_unwind(model).is_err(), "the model does not notice a list without an order");
}
