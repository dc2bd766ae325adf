//! One FIB for all shards of a memory node except the first shard, which changes its own in place.
//!
//! ```text
//! control ──changes, strategies──▶ updater ──live replica, strategies──▶ shard 1, shard 2, …
//!     │                              │  changes the spare replica, then swaps it with the live one
//!     └──all other commands──▶ shards  ◀──── the previous replica, once each shard has released it
//! ```
//!
//! Left-right scheme: each change is applied twice, to one replica after the other, by a thread
//! that forwards nothing; shards only replace a pointer between two batches. Both replicas get the
//! same changes in the same order, so they are equal byte by byte, and a change that one accepts
//! the other accepts too.
//!
//! Strategies pass through the updater as well, to keep their order with the changes that use them.
//! Commands about faces do not: they reach a shard directly, so a packet never refers to a face
//! that the shard does not have yet.

use super::command::{OwnedFibChange, ShardCommand, Snapshot};
use super::shard_links::Waker;
use core::time::Duration;
use crossbeam_channel::{Receiver, Sender, bounded};
use nw_elements::router::routes::{self, NewNextHops};
use nw_tables::fib::Fib;
use std::sync::Arc;

/// Queued commands that are applied together.
const COMMANDS_PER_CHANGE: usize = 256;
/// A shard that has stopped never returns a replica: check the reference count after this time.
const RETURN_TIMEOUT: Duration = Duration::from_millis(10);

/// A counted pointer to a FIB. What readers did before they dropped theirs is ordered before what
/// the last owner changes.
pub trait Replica: Clone {
    /// Changes the FIB. `None` if another pointer to it exists; then nothing has changed.
    fn change<T>(&mut self, change: impl FnOnce(&mut Fib) -> T) -> Option<T>;
}

impl Replica for Arc<Fib> {
    fn change<T>(&mut self, change: impl FnOnce(&mut Fib) -> T) -> Option<T> {
        Arc::get_mut(self).map(change)
    }
}

/// Two replicas of a FIB: shards read one, and the updater changes the other.
#[derive(Debug)]
pub struct LeftRight<R = Arc<Fib>> {
    live: R,
    spare: R,
    /// Changes that the live replica has and the spare does not.
    spare_pending: Vec<Arc<[OwnedFibChange]>>,
}

impl<R: Replica> LeftRight<R> {
    /// Creates both replicas by `create`, which must return equal tables each time.
    pub fn new(create: impl Fn() -> R) -> Self {
        LeftRight { live: create(), spare: create(), spare_pending: Vec::new() }
    }

    /// Returns the live replica, for readers.
    pub fn live(&self) -> R {
        self.live.clone()
    }

    /// Returns whether no reader holds the spare replica any more.
    pub fn is_spare_free(&mut self) -> bool {
        self.spare.change(|_| ()).is_some()
    }

    /// Applies changes to the spare replica and makes it the live one. Returns the next hops that
    /// prefixes did not have before. `None` if a reader holds the spare replica; then nothing has
    /// changed.
    pub fn change(&mut self, changes: Vec<Arc<[OwnedFibChange]>>) -> Option<Vec<NewNextHops>> {
        let pending = &mut self.spare_pending;
        let new = self.spare.change(|spare| {
            for changes in pending.drain(..) {
                // Their new next hops were returned when the other replica got them.
                changes.iter().for_each(|change| drop(apply(spare, change)));
            }
            let changes = changes.iter().flat_map(|changes| changes.iter());
            changes.filter_map(|change| apply(spare, change)).collect()
        })?;
        core::mem::swap(&mut self.live, &mut self.spare);
        self.spare_pending = changes;
        Some(new)
    }
}

/// Applies one change. Returns the next hops that the prefix did not have before.
fn apply(fib: &mut Fib, OwnedFibChange { name, set }: &OwnedFibChange) -> Option<NewNextHops> {
    let Some((next_hops, strategy)) = set else {
        routes::remove(fib, name.as_ref());
        return None;
    };
    match routes::set(fib, name.as_ref(), next_hops, *strategy) {
        Ok(faces) => Some(NewNextHops { prefix: name.clone(), strategy: *strategy, faces })
            .filter(|new| !new.faces.is_empty()),
        Err(error) => {
            // The tables of all shards have the same size, so all accept what the first one
            // accepted.
            tracing::error!(%name, %error, "a shard refuses a route that another has (a bug)");
            None
        }
    }
}

/// The thread that changes a shared FIB.
#[derive(Debug)]
pub struct FibUpdater {
    /// Changes of the FIB and strategies, from control.
    pub commands: Receiver<ShardCommand>,
    /// The shards that read the FIB: index and command queue.
    pub readers: Vec<(usize, Sender<ShardCommand>)>,
    /// Wakers by shard index.
    pub wakers: Arc<[Waker]>,
    /// The FIB.
    pub replicas: LeftRight,
}

impl FibUpdater {
    /// Runs until control drops its end of the queue.
    pub fn run(mut self) {
        let (return_sender, returned) = bounded(2 * self.readers.len());
        let mut next = None;
        while let Some(command) = next.take().or_else(|| self.commands.recv().ok()) {
            match command {
                ShardCommand::Fib(changes) => {
                    next = self.change(changes, &return_sender, &returned)
                }
                command => self.pass_on(&command),
            }
        }
    }

    /// Applies changes, together with those of queued commands. Returns the next command that is no
    /// change.
    fn change(
        &mut self,
        changes: Arc<[OwnedFibChange]>,
        return_sender: &Sender<Arc<Fib>>,
        returned: &Receiver<Arc<Fib>>,
    ) -> Option<ShardCommand> {
        while !self.replicas.is_spare_free() {
            drop(returned.recv_timeout(RETURN_TIMEOUT));
        }
        let (mut batches, mut next) = (vec![changes], None);
        while batches.len() < COMMANDS_PER_CHANGE && next.is_none() {
            match self.commands.try_recv() {
                Ok(ShardCommand::Fib(changes)) => batches.push(changes),
                Ok(command) => next = Some(command),
                Err(_) => break,
            }
        }
        let commands = batches.len() as u64;
        if let Some(new) = self.replicas.change(batches) {
            let (fib, return_to) = (self.replicas.live(), return_sender.clone());
            self.pass_on(&ShardCommand::Snapshot(Snapshot {
                fib,
                new: new.into(),
                commands,
                return_to,
            }));
        }
        next
    }

    fn pass_on(&self, command: &ShardCommand) {
        for (shard, sender) in &self.readers {
            // Fails only if the shard has stopped, which is logged.
            let _ = sender.send(command.clone());
            self.wakers[*shard].wake();
        }
    }
}

#[cfg(test)]
mod order_model;

#[cfg(test)]
mod tests {
    use super::*;
    use nw_element_api::FaceId;
    use nw_elements::strategy::Strategies;
    use nw_name::{HashKey, Name};
    use nw_tables::fib::{FibConfig, NextHop};
    use proptest::prelude::*;

    pub(super) fn small_fib() -> Fib {
        // Full after twelve prefixes, and of next hop sets even earlier.
        let config = FibConfig { next_hop_sets_max: 6, ..FibConfig::new(12) };
        routes::empty_fib(HashKey::new([1, 2, 3, 4]), config)
    }

    pub(super) fn change(prefix: u8, faces: &[u8]) -> OwnedFibChange {
        let name: Name = format!("/a/{}/{prefix}", prefix % 3).parse().unwrap();
        let next_hops =
            faces.iter().map(|face| NextHop { face: face_of(*face), cost: 1 }).collect();
        OwnedFibChange {
            name,
            set: (!faces.is_empty()).then_some((next_hops, Strategies::DEFAULT)),
        }
    }

    fn face_of(number: u8) -> FaceId {
        FaceId::from_bits(300 + u32::from(number))
    }

    #[test]
    fn left_right_spare_in_use_is_not_changed() {
        let mut replicas = LeftRight::new(|| Arc::new(small_fib()));
        let (before, first) = (replicas.live(), change(1, &[1]));
        let new = replicas.change(vec![vec![first.clone()].into()]).unwrap();
        assert_eq!(
            new,
            [NewNextHops {
                prefix: first.name.clone(),
                strategy: Strategies::DEFAULT,
                faces: vec![face_of(1)]
            }]
        );
        assert!(replicas.live().exact(first.name.as_ref()).is_some());
        assert!(before.exact(first.name.as_ref()).is_none());
        assert!(!replicas.is_spare_free());
        assert_eq!(replicas.change(vec![vec![change(2, &[2])].into()]), None);
        assert_eq!(replicas.live().len(), 2);
        drop(before);
        assert!(replicas.is_spare_free());
        let changed = change(1, &[1, 2]);
        let new = replicas.change(vec![vec![changed, change(2, &[2])].into()]).unwrap();
        assert_eq!(
            new.iter().map(|new| new.faces.len()).sum::<usize>(),
            2,
            "face 1 is not new at the first prefix"
        );
        assert_eq!(replicas.live().len(), 3);
    }

    #[test]
    fn updater_keeps_order_of_changes_and_strategies() {
        let wakers: Arc<[Waker]> = (0..3).map(|_| Waker::new().unwrap()).collect::<Vec<_>>().into();
        let (control, commands) = bounded(64);
        let (readers, receivers): (Vec<_>, Vec<_>) = (1..3)
            .map(|shard| {
                let (sender, receiver) = bounded(64);
                ((shard, sender), receiver)
            })
            .unzip();
        let updater = FibUpdater {
            commands,
            readers,
            wakers,
            replicas: LeftRight::new(|| Arc::new(small_fib())),
        };
        let thread = std::thread::spawn(move || updater.run());
        let read = |commands: Receiver<ShardCommand>| {
            let (mut fib, mut seen, mut strategies) = (Arc::new(small_fib()), 0, 0);
            for command in commands {
                seen += command.command_count();
                match command {
                    ShardCommand::Snapshot(Snapshot { fib: next, return_to, .. }) => {
                        assert!(next.len() > fib.len());
                        let _ = return_to.try_send(core::mem::replace(&mut fib, next));
                    }
                    ShardCommand::Strategy(_) => {
                        strategies += 1;
                        assert_eq!(
                            fib.len(),
                            1 + strategies,
                            "each strategy follows the route before it"
                        );
                    }
                    command => panic!("{command:?} is not for updaters"),
                }
            }
            (seen, strategies)
        };
        let shards = receivers
            .into_iter()
            .map(|receiver| std::thread::spawn(move || read(receiver)))
            .collect::<Vec<_>>();
        for prefix in 0..8 {
            let change = change(prefix, &[1]);
            control.send(ShardCommand::Fib(vec![change.clone()].into())).unwrap();
            control.send(ShardCommand::Strategy(Arc::new(change.name))).unwrap();
        }
        drop(control);
        thread.join().unwrap();
        for shard in shards {
            assert_eq!(shard.join().unwrap(), (16, 8));
        }
    }

    proptest! {
        /// Any changes in any batches, with readers that come and go: the live replica equals a
        /// single FIB.
        #[test]
        fn left_right_any_changes_match_single_fib(
            batches in proptest::collection::vec(
                (proptest::collection::vec((0u8..20, proptest::collection::vec(0u8..5, 0..3)), 0..5), any::<bool>()),
                1..40,
            )
        ) {
            let (mut replicas, mut model) = (LeftRight::new(|| Arc::new(small_fib())), small_fib());
            let mut reader: Option<Arc<Fib>> = None;
            for (batch, keep_reading) in batches {
                let changes: Vec<OwnedFibChange> =
                    batch.iter().map(|(prefix, faces)| change(*prefix, faces)).collect();
                if !replicas.is_spare_free() {
                    prop_assert!(replicas.change(vec![changes.clone().into()]).is_none());
                    reader = None;
                }
                let new = replicas.change(vec![changes.clone().into()]).expect("the spare is free");
                let expected: Vec<_> = changes.iter().filter_map(|change| apply(&mut model, change)).collect();
                prop_assert_eq!(new, expected);
                let live = replicas.live();
                prop_assert_eq!(live.entries(), model.entries());
                prop_assert_eq!(live.start_depth(), model.start_depth());
                if keep_reading {
                    reader = Some(live);
                }
            }
            drop(reader);
        }
    }
}
