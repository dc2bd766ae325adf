//! A model of memory orders: a shard sees each change of the FIB whole or not at all, and no
//! replica is changed while a shard reads it, in every order that C11 permits (decision 0151).
//!
//! The pointer is counted as `Arc` counts: clones are relaxed, a drop releases, and the last owner
//! acquires. Beside the FIB, of which the model sees nothing, stands a cell of the model, which
//! fails when one thread writes it while another one may read it.

use super::tests::{change, small_fib};
use super::{LeftRight, Replica};
use core::cell::RefCell;
use core::sync::atomic::Ordering;
use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicUsize;
use loom::sync::mpsc;
use loom::thread;
use nw_tables::fib::Fib;
use std::panic::catch_unwind;
use std::rc::Rc;

/// What a pointer points at.
struct Table {
    fib: RefCell<Fib>,
    access: UnsafeCell<()>,
    count: AtomicUsize,
}

/// A counted pointer, of which drops or checks may be relaxed.
struct Counted<const DROP_IS_ORDERED: bool, const CHECK_IS_ORDERED: bool>(Rc<Table>);

impl<const D: bool, const C: bool> Counted<D, C> {
    fn new() -> Self {
        let (fib, access) = (RefCell::new(small_fib()), UnsafeCell::new(()));
        Counted(Rc::new(Table { fib, access, count: AtomicUsize::new(1) }))
    }

    /// Returns how many of the first prefixes have a route.
    fn routes(&self, prefixes: u8) -> usize {
        self.0.access.with(|_| {
            let fib = self.0.fib.borrow();
            let is_there = |prefix: &u8| fib.exact(change(*prefix, &[1]).name.as_ref()).is_some();
            (0..prefixes).filter(is_there).count()
        })
    }
}

impl<const D: bool, const C: bool> Clone for Counted<D, C> {
    fn clone(&self) -> Self {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        Counted(Rc::clone(&self.0))
    }
}

impl<const D: bool, const C: bool> Drop for Counted<D, C> {
    fn drop(&mut self) {
        let order = if D { Ordering::Release } else { Ordering::Relaxed };
        self.0.count.fetch_sub(1, order);
    }
}

impl<const D: bool, const C: bool> Replica for Counted<D, C> {
    fn change<T>(&mut self, change: impl FnOnce(&mut Fib) -> T) -> Option<T> {
        let order = if C { Ordering::Acquire } else { Ordering::Relaxed };
        let is_only_one = self.0.count.load(order) == 1;
        is_only_one.then(|| self.0.access.with_mut(|_| change(&mut self.0.fib.borrow_mut())))
    }
}

/// Changes two routes at a time while a shard reads them.
fn switch<const D: bool, const C: bool>() {
    let mut replicas = LeftRight::new(Counted::<D, C>::new);
    let (snapshots, received) = mpsc::channel();
    let mut fib = replicas.live();
    let shard = thread::spawn(move || {
        assert_eq!(fib.routes(4), 0);
        for expected in [2, 4] {
            fib = received.recv().unwrap();
            assert_eq!(fib.routes(4), expected);
        }
    });
    for first in [0, 2] {
        while !replicas.is_spare_free() {
            thread::yield_now();
        }
        let changes = vec![change(first, &[1]), change(first + 1, &[1])];
        assert!(replicas.change(vec![changes.into()]).is_some());
        snapshots.send(replicas.live()).unwrap();
    }
    shard.join().unwrap();
}

#[test]
fn left_right_any_order_shows_whole_changes() {
    loom::model(switch::<true, true>);
}

#[test]
fn left_right_model_fails_with_weaker_orders() {
    let relaxed_drop = || loom::model(switch::<false, true>);
    assert!(catch_unwind(relaxed_drop).is_err(), "the model does not notice a relaxed drop");
    let relaxed_check = || loom::model(switch::<true, false>);
    assert!(catch_unwind(relaxed_check).is_err(), "the model does not notice a relaxed check");
}
