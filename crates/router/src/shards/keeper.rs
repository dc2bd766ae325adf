//! One FIB for all shards of a memory node but the first shard, which changes its own in place.
//!
//! ```text
//! control ──changes, strategies──▶ keeper ──copies, strategies──▶ shard 1, shard 2, …     read the live copy
//!     │                              │   changes are made in the spare copy; then that is the live one, and shards are given it
//!     └──all other orders──▶ shards  ◀───────── the copy before, once each shard has let go of it: the next spare
//! ```
//!
//! Strategies come by the keeper too, as their numbers are those that no prefix has: they and changes stay in order. Nothing else does, so packets never meet a
//! face that they know and the shard does not yet. Each change is made twice, in one copy after the other, by a thread that forwards nothing: shards only replace a pointer between two batches. Both copies see the
//! same changes in the same order, so they are equal to the octet, and what one took the other takes.

use super::exchange::Bell;
use super::order::{Order, OwnedFibChange, Snapshot};
use core::time::Duration;
use crossbeam_channel::{Receiver, Sender, bounded};
use nw_elements::router::routes::{self, NewNextHops};
use nw_tables::fib::Fib;
use std::sync::Arc;

/// Orders whose changes are made together, when so many have come meanwhile.
const ORDERS_AT_ONCE: usize = 256;
/// A shard that ends gives nothing back: so long until a look at whether the copy is free nevertheless.
const PATIENCE: Duration = Duration::from_millis(10);

/// Two copies of a FIB: one that shards read, one that is changed.
#[derive(Debug)]
pub struct Copies {
    live: Arc<Fib>,
    spare: Arc<Fib>,
    /// What the live one has and the spare has not.
    behind: Vec<Arc<[OwnedFibChange]>>,
}

impl Copies {
    /// Of what `make` makes, which must be the same each time.
    pub fn new(make: impl Fn() -> Fib) -> Self {
        Copies { live: Arc::new(make()), spare: Arc::new(make()), behind: Vec::new() }
    }

    /// For those who read it.
    pub fn live(&self) -> Arc<Fib> {
        Arc::clone(&self.live)
    }

    /// True when nobody reads the spare copy any more.
    pub fn is_free(&mut self) -> bool {
        Arc::get_mut(&mut self.spare).is_some()
    }

    /// Makes changes in the spare copy, which is the live one from then on; gives next hops that prefixes did not have. Nothing happens while somebody
    /// reads the spare copy: `None`.
    pub fn change(&mut self, changes: Vec<Arc<[OwnedFibChange]>>) -> Option<Vec<NewNextHops>> {
        let spare = Arc::get_mut(&mut self.spare)?;
        for changes in self.behind.drain(..) {
            // What came of them was said when the other copy took them.
            changes.iter().for_each(|change| drop(make(spare, change)));
        }
        let made = changes.iter().flat_map(|changes| changes.iter()).map(|change| make(spare, change));
        let new = made.flatten().collect();
        core::mem::swap(&mut self.live, &mut self.spare);
        self.behind = changes;
        Some(new)
    }
}

/// Makes one change.
fn make(fib: &mut Fib, OwnedFibChange { name, set }: &OwnedFibChange) -> Option<NewNextHops> {
    let Some((next_hops, strategy)) = set else {
        routes::remove(fib, name.as_ref());
        return None;
    };
    match routes::set(fib, name.as_ref(), next_hops, *strategy) {
        Ok(faces) => Some(NewNextHops { prefix: name.clone(), strategy: *strategy, faces })
            .filter(|new| !new.faces.is_empty()),
        Err(error) => {
            // Tables of all shards are alike, so what the first one took the others take.
            tracing::error!(%name, %error, "a shard can't take a route that another has");
            None
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Keeper {
    /// From control: changes of the FIB and strategies.
    pub orders: Receiver<Order>,
    /// Who reads the FIB: shards by number, and the way to them.
    pub readers: Vec<(usize, Sender<Order>)>,
    /// By shard.
    pub bells: Arc<[Bell]>,
    /// Of the FIB.
    pub copies: Copies,
}

impl Keeper {
    /// Runs until there is nobody to give orders.
    pub fn run(mut self) {
        let (back, returned) = bounded(2 * self.readers.len());
        let mut next = None;
        while let Some(order) = next.take().or_else(|| self.orders.recv().ok()) {
            match order {
                Order::Fib(changes) => next = self.change(changes, &back, &returned),
                other => self.pass_on(&other),
            }
        }
    }

    /// Makes changes, and those of orders that came meanwhile; gives the order that came after them.
    fn change(
        &mut self,
        changes: Arc<[OwnedFibChange]>,
        back: &Sender<Arc<Fib>>,
        returned: &Receiver<Arc<Fib>>,
    ) -> Option<Order> {
        while !self.copies.is_free() {
            drop(returned.recv_timeout(PATIENCE));
        }
        let (mut all, mut next) = (vec![changes], None);
        while all.len() < ORDERS_AT_ONCE && next.is_none() {
            match self.orders.try_recv() {
                Ok(Order::Fib(changes)) => all.push(changes),
                Ok(other) => next = Some(other),
                Err(_) => break,
            }
        }
        let orders = all.len() as u64;
        if let Some(new) = self.copies.change(all) {
            let (fib, back) = (self.copies.live(), back.clone());
            self.pass_on(&Order::Snapshot(Snapshot { fib, new: new.into(), orders, back }));
        }
        next
    }

    fn pass_on(&self, order: &Order) {
        for (shard, orders) in &self.readers {
            // A shard that has ended said why in the log.
            let _ = orders.send(order.clone());
            self.bells[*shard].ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_element_api::FaceId;
    use nw_elements::strategy::Strategies;
    use nw_name::{HashKey, Name};
    use nw_tables::fib::{FibConfig, NextHop};
    use proptest::prelude::*;

    fn small() -> Fib {
        // Full after a dozen prefixes, and of next hops earlier.
        let config = FibConfig { next_hop_sets_max: 6, ..FibConfig::new(12) };
        routes::empty_fib(HashKey::new([1, 2, 3, 4]), config)
    }

    fn change(prefix: u8, faces: &[u8]) -> OwnedFibChange {
        let name: Name = format!("/a/{}/{prefix}", prefix % 3).parse().unwrap();
        let next_hops = faces.iter().map(|face| NextHop { face: face_of(*face), cost: 1 }).collect();
        OwnedFibChange { name, set: (!faces.is_empty()).then_some((next_hops, Strategies::DEFAULT)) }
    }

    fn face_of(number: u8) -> FaceId {
        FaceId::from_bits(300 + u32::from(number))
    }

    #[test]
    fn a_copy_that_is_read_is_not_changed() {
        let mut copies = Copies::new(small);
        let (before, first) = (copies.live(), change(1, &[1]));
        let new = copies.change(vec![vec![first.clone()].into()]).unwrap();
        assert_eq!(
            new,
            [NewNextHops {
                prefix: first.name.clone(),
                strategy: Strategies::DEFAULT,
                faces: vec![face_of(1)]
            }]
        );
        assert!(copies.live().exact(first.name.as_ref()).is_some());
        assert!(before.exact(first.name.as_ref()).is_none());
        assert!(!copies.is_free());
        assert_eq!(copies.change(vec![vec![change(2, &[2])].into()]), None);
        assert_eq!(copies.live().len(), 2);
        drop(before);
        assert!(copies.is_free());
        let again = change(1, &[1, 2]);
        let new = copies.change(vec![vec![again, change(2, &[2])].into()]).unwrap();
        assert_eq!(
            new.iter().map(|new| new.faces.len()).sum::<usize>(),
            2,
            "face 1 is not new at the first prefix"
        );
        assert_eq!(copies.live().len(), 3);
    }

    #[test]
    fn changes_and_strategies_stay_in_order_and_copies_come_back() {
        let bells: Arc<[Bell]> = (0..3).map(|_| Bell::new().unwrap()).collect::<Vec<_>>().into();
        let (control, orders) = bounded(64);
        let (readers, ends): (Vec<_>, Vec<_>) = (1..3)
            .map(|shard| {
                let (orders, end) = bounded(64);
                ((shard, orders), end)
            })
            .unzip();
        let keeper = Keeper { orders, readers, bells, copies: Copies::new(small) };
        let thread = std::thread::spawn(move || keeper.run());
        let read = |orders: Receiver<Order>| {
            let (mut fib, mut seen, mut strategies) = (Arc::new(small()), 0, 0);
            for order in orders {
                seen += order.orders();
                match order {
                    Order::Snapshot(Snapshot { fib: next, back, .. }) => {
                        assert!(next.len() > fib.len());
                        let _ = back.try_send(core::mem::replace(&mut fib, next));
                    }
                    Order::Strategy(_) => {
                        strategies += 1;
                        assert_eq!(fib.len(), 1 + strategies, "each is told after the route before it");
                    }
                    other => panic!("{other:?} is not for keepers"),
                }
            }
            (seen, strategies)
        };
        let shards = ends.into_iter().map(|end| std::thread::spawn(move || read(end))).collect::<Vec<_>>();
        for prefix in 0..8 {
            let change = change(prefix, &[1]);
            control.send(Order::Fib(vec![change.clone()].into())).unwrap();
            control.send(Order::Strategy(Arc::new(change.name))).unwrap();
        }
        drop(control);
        thread.join().unwrap();
        for shard in shards {
            assert_eq!(shard.join().unwrap(), (16, 8));
        }
    }

    proptest! {
        /// Whatever fits and does not, in whatever portions, with readers that come and go: the live copy is a FIB in which the same was done.
        #[test]
        fn both_copies_are_as_one_fib(
            portions in proptest::collection::vec(
                (proptest::collection::vec((0u8..20, proptest::collection::vec(0u8..5, 0..3)), 0..5), any::<bool>()),
                1..40,
            )
        ) {
            let (mut copies, mut model) = (Copies::new(small), small());
            let mut held: Option<Arc<Fib>> = None;
            for (portion, hold) in portions {
                let changes: Vec<OwnedFibChange> =
                    portion.iter().map(|(prefix, faces)| change(*prefix, faces)).collect();
                if !copies.is_free() {
                    prop_assert!(copies.change(vec![changes.clone().into()]).is_none());
                    held = None;
                }
                let new = copies.change(vec![changes.clone().into()]).expect("nobody reads it");
                let wanted: Vec<_> = changes.iter().filter_map(|change| make(&mut model, change)).collect();
                prop_assert_eq!(new, wanted);
                let live = copies.live();
                prop_assert_eq!(live.entries(), model.entries());
                prop_assert_eq!(live.middle(), model.middle());
                if hold {
                    held = Some(live);
                }
            }
            drop(held);
        }
    }
}
