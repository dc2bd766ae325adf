//! Looks at what passes some nodes again and again, beside whatever else is done.

use nw_testbed::{LabError, Node, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The interface of a node.
const CARD: &str = "eth0:";

/// Values over time: seconds since the start, and what was seen.
pub type Curve = Vec<(f64, f64)>;

/// Octets that passed each of some nodes, in and out, since the start.
pub(crate) struct Sampler {
    start: Instant,
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Curve, LabError>>>,
}

impl Sampler {
    /// Starts looking at these nodes. Each has a thread of its own, which is in the node's namespace.
    pub(crate) fn start<'a>(nodes: impl IntoIterator<Item = &'a Node>, every: Duration) -> Sampler {
        let (start, end) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let threads = nodes.into_iter().map(|node| {
            let (space, end) = (node.space.clone(), Arc::clone(&end));
            std::thread::spawn(move || within(&space, || Ok(look(start, every, &end))))
        });
        Sampler { start, threads: threads.collect(), end }
    }

    /// Seconds since the start.
    pub(crate) fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// What was seen, in order of the nodes: octets so far at each look.
    pub(crate) fn finish(mut self) -> Result<Vec<Curve>, LabError> {
        self.end.store(true, Ordering::Relaxed);
        let join =
            |thread: JoinHandle<_>| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        std::mem::take(&mut self.threads).into_iter().map(join).collect()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

fn look(start: Instant, every: Duration, end: &AtomicBool) -> Curve {
    let mut seen = Curve::new();
    while !end.load(Ordering::Relaxed) {
        // A namespace that is gone shows nothing any more.
        let Some(octets) = std::fs::read_to_string("/proc/thread-self/net/dev").ok().and_then(|t| octets(&t))
        else {
            break;
        };
        seen.push((start.elapsed().as_secs_f64(), octets as f64));
        std::thread::sleep(every);
    }
    seen
}

/// In and out together.
fn octets(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(CARD))?;
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    Some(numbers.first()? + numbers.get(8)?)
}

/// Octets so far become Mbit/s from look to look, each at the middle of its time.
pub(crate) fn rates(octets: &[(f64, f64)]) -> Curve {
    let rate = |pair: &[(f64, f64)]| {
        let ((from, before), (to, after)) = (pair[0], pair[1]);
        ((from + to) / 2.0, (after - before) * 8e-6 / (to - from).max(1e-6))
    };
    octets.windows(2).map(rate).collect()
}

/// Octets that had passed at a time, between two looks in proportion.
pub(crate) fn at(octets: &[(f64, f64)], time: f64) -> f64 {
    let after = octets.partition_point(|(seen, _)| *seen < time);
    match (after.checked_sub(1).and_then(|before| octets.get(before)), octets.get(after)) {
        (Some((t0, a)), Some((t1, b))) => a + (b - a) * (time - t0) / (t1 - t0).max(1e-9),
        (Some((_, last)), None) => *last,
        (None, Some((_, first))) => *first,
        (None, None) => 0.0,
    }
}

/// Curves added up, at the times of the first.
pub(crate) fn sum(curves: &[Curve]) -> Curve {
    let Some(first) = curves.first() else { return Curve::new() };
    first.iter().map(|(time, _)| (*time, curves.iter().map(|curve| at(curve, *time)).sum())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_s_own_interface_counts() {
        let text = "Inter-|\n face |\n    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n  eth0: 1000 1 0 0 0 0 0 0 500 2 0 0 0 0 0 0\n";
        assert_eq!(octets(text), Some(1500));
        assert_eq!(octets("    lo: 9 1 0 0 0 0 0 0 9 1"), None);
    }

    #[test]
    fn octets_become_rates() {
        let one = vec![(0.0, 0.0), (1.0, 125_000.0), (2.0, 375_000.0)];
        assert_eq!(rates(&one), [(0.5, 1.0), (1.5, 2.0)]);
        assert_eq!((at(&one, -1.0), at(&one, 1.5), at(&one, 9.0)), (0.0, 250_000.0, 375_000.0));
        let two = sum(&[one.clone(), vec![(0.5, 0.0), (1.5, 100.0)]]);
        assert_eq!(two, [(0.0, 0.0), (1.0, 125_050.0), (2.0, 375_100.0)]);
    }
}
