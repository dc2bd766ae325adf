//! Samples the traffic of nodes in the background.

use nw_testbed::{LabError, Node, within_netns};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The interface of a node, as in `/proc/net/dev`.
const INTERFACE: &str = "eth0:";

/// Values over time: seconds since the start and the value.
pub type Curve = Vec<(f64, f64)>;

/// Samples the bytes received and sent by nodes since the start.
pub(crate) struct Sampler {
    start: Instant,
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Curve, LabError>>>,
}

impl Sampler {
    /// Starts sampling nodes, each in a separate thread in the node's namespace.
    pub(crate) fn start<'a>(
        nodes: impl IntoIterator<Item = &'a Node>,
        interval: Duration,
    ) -> Sampler {
        let (start, end) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let threads = nodes.into_iter().map(|node| {
            let (netns, stop) = (node.netns.clone(), Arc::clone(&end));
            std::thread::spawn(move || within_netns(&netns, || Ok(sample(start, interval, &stop))))
        });
        Sampler { start, threads: threads.collect(), end }
    }

    /// Returns the seconds since the start.
    pub(crate) fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Returns the samples of each node: bytes so far.
    pub(crate) fn finish(mut self) -> Result<Vec<Curve>, LabError> {
        self.end.store(true, Ordering::Relaxed);
        let join = |thread: JoinHandle<_>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        std::mem::take(&mut self.threads).into_iter().map(join).collect()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}

fn sample(start: Instant, interval: Duration, stop: &AtomicBool) -> Curve {
    let mut samples = Curve::new();
    while !stop.load(Ordering::Relaxed) {
        // Sampling ends when the namespace is gone.
        let Some(bytes) =
            std::fs::read_to_string("/proc/thread-self/net/dev").ok().and_then(|t| bytes(&t))
        else {
            break;
        };
        samples.push((start.elapsed().as_secs_f64(), bytes as f64));
        std::thread::sleep(interval);
    }
    samples
}

/// Returns the bytes received and sent by the interface.
fn bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(INTERFACE))?;
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    Some(numbers.first()? + numbers.get(8)?)
}

/// Converts samples of bytes to Mbit/s between samples, at the middle of each interval.
pub(crate) fn rates(bytes: &[(f64, f64)]) -> Curve {
    let rate = |pair: &[(f64, f64)]| {
        let ((from, before), (to, after)) = (pair[0], pair[1]);
        ((from + to) / 2.0, (after - before) * 8e-6 / (to - from).max(1e-6))
    };
    bytes.windows(2).map(rate).collect()
}

/// Returns the bytes at a time, interpolated between samples.
pub(crate) fn at(bytes: &[(f64, f64)], time: f64) -> f64 {
    let after = bytes.partition_point(|(seen, _)| *seen < time);
    match (after.checked_sub(1).and_then(|before| bytes.get(before)), bytes.get(after)) {
        (Some((t0, a)), Some((t1, b))) => a + (b - a) * (time - t0) / (t1 - t0).max(1e-9),
        (Some((_, last)), None) => *last,
        (None, Some((_, first))) => *first,
        (None, None) => 0.0,
    }
}

/// Returns the sum of curves at the times of the first.
pub(crate) fn sum(curves: &[Curve]) -> Curve {
    let Some(first) = curves.first() else { return Curve::new() };
    first
        .iter()
        .map(|(time, _)| (*time, curves.iter().map(|curve| at(curve, *time)).sum()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_node_interface_is_counted() {
        let text = "Inter-|\n face |\n    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n  eth0: 1000 1 0 0 0 0 0 0 500 2 0 0 0 0 0 0\n";
        assert_eq!(bytes(text), Some(1500));
        assert_eq!(bytes("    lo: 9 1 0 0 0 0 0 0 9 1"), None);
    }

    #[test]
    fn samples_are_converted_to_rates() {
        let samples = vec![(0.0, 0.0), (1.0, 125_000.0), (2.0, 375_000.0)];
        assert_eq!(rates(&samples), [(0.5, 1.0), (1.5, 2.0)]);
        assert_eq!(
            (at(&samples, -1.0), at(&samples, 1.5), at(&samples, 9.0)),
            (0.0, 250_000.0, 375_000.0)
        );
        let total = sum(&[samples.clone(), vec![(0.5, 0.0), (1.5, 100.0)]]);
        assert_eq!(total, [(0.0, 0.0), (1.0, 125_050.0), (2.0, 375_100.0)]);
    }
}
