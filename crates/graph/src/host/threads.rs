//! Threads that do what elements let others do: one for each further processor, started with the first work.

use crate::engine::Errand;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

/// Threads at most.
const THREADS_MAX: usize = 8;
/// Errands that wait for one thread: it has enough to do while the loop does something else.
const WAITING_MAX: usize = 4;

/// See the module.
pub(super) struct Threads {
    /// Gone when this is dropped, which ends the threads.
    errands: Sender<Errand>,
    done: Receiver<Errand>,
    under_way: usize,
    count: usize,
}

impl Threads {
    /// Starts them: none where this thread has the only processor, or the system gives no more. Each wakes the loop by `wake`.
    pub fn start(wake: &Arc<OwnedFd>) -> Self {
        let wanted = thread::available_parallelism().map_or(0, |count| count.get() - 1).min(THREADS_MAX);
        let (errands, taken) = bounded::<Errand>(THREADS_MAX * WAITING_MAX);
        let (finished, done) = unbounded();
        let started = (0..wanted).filter(|number| {
            let (taken, finished, wake) = (taken.clone(), finished.clone(), Arc::clone(wake));
            let run = move || {
                for mut errand in taken {
                    errand.run();
                    if finished.send(errand).is_err() {
                        return;
                    }
                    let _ = rustix::io::write(&*wake, &1u64.to_ne_bytes());
                }
            };
            thread::Builder::new().name(format!("errands-{number}")).spawn(run).is_ok()
        });
        let count = started.count();
        Threads { errands, done, under_way: 0, count }
    }

    /// Whether they have room for another errand.
    pub const fn has_room(&self) -> bool {
        self.under_way < self.count * WAITING_MAX
    }

    /// Gives them one, for which there is room.
    pub fn give(&mut self, errand: Errand) {
        self.under_way += 1;
        // They live as long as this does.
        let _ = self.errands.send(errand);
    }

    /// What is done.
    pub fn take_back(&mut self) -> Option<Errand> {
        let errand = self.done.try_recv().ok()?;
        self.under_way -= 1;
        Some(errand)
    }
}
