//! Worker threads for jobs that elements offload: one per further processor, started with the first
//! job.

use crate::engine::OffloadJob;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

/// Maximum number of threads.
const THREADS_MAX: usize = 8;
/// Jobs that may be in flight per thread: enough to stay busy while the loop does other work.
const JOBS_PER_THREAD_MAX: usize = 4;

/// The worker threads; they end when this is dropped.
pub(super) struct WorkerPool {
    /// Dropping the sender ends the threads.
    jobs: Sender<OffloadJob>,
    finished_jobs: Receiver<OffloadJob>,
    in_flight: usize,
    thread_count: usize,
}

impl WorkerPool {
    /// Starts the threads: none if there is one processor, or if the system can't create any. Each
    /// wakes the loop through `wake` after a job.
    pub fn start(wake: &Arc<OwnedFd>) -> Self {
        let thread_count_max =
            thread::available_parallelism().map_or(0, |count| count.get() - 1).min(THREADS_MAX);
        let (jobs, queued_jobs) = bounded::<OffloadJob>(THREADS_MAX * JOBS_PER_THREAD_MAX);
        let (result_sender, finished_jobs) = unbounded();
        let started = (0..thread_count_max).filter(|number| {
            let (queued_jobs, result_sender, wake) =
                (queued_jobs.clone(), result_sender.clone(), Arc::clone(wake));
            let run = move || {
                for mut job in queued_jobs {
                    job.run();
                    if result_sender.send(job).is_err() {
                        return;
                    }
                    let _ = rustix::io::write(&*wake, &1u64.to_ne_bytes());
                }
            };
            thread::Builder::new().name(format!("offload-{number}")).spawn(run).is_ok()
        });
        let thread_count = started.count();
        WorkerPool { jobs, finished_jobs, in_flight: 0, thread_count }
    }

    /// Returns whether another job may be submitted.
    pub const fn has_capacity(&self) -> bool {
        self.in_flight < self.thread_count * JOBS_PER_THREAD_MAX
    }

    /// Submits a job; requires [`has_capacity`](Self::has_capacity).
    pub fn submit(&mut self, job: OffloadJob) {
        self.in_flight += 1;
        // The receivers live as long as `self`.
        let _ = self.jobs.send(job);
    }

    /// Returns a finished job, or `None`.
    pub fn next_finished(&mut self) -> Option<OffloadJob> {
        let job = self.finished_jobs.try_recv().ok()?;
        self.in_flight -= 1;
        Some(job)
    }
}
