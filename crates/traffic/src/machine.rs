//! Facts about the machine on which a figure was measured.

use serde::Serialize;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

/// Facts that measured figures depend on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Processor model, from /proc/cpuinfo.
    pub cpu: String,
    /// Number of processors that this process may use.
    pub processors: usize,
    /// Main memory in MiB.
    pub memory_mib: u64,
    /// Release of the Linux kernel.
    pub kernel: String,
    /// Build profile: `release` or `debug`.
    pub build: String,
    /// Load average over one minute at the start of the run.
    pub load: f64,
}

impl Machine {
    /// Reads the facts of this machine.
    pub fn here() -> Self {
        let field = |path: &str, key: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
            line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let memory_kib: u64 = field("/proc/meminfo", "MemTotal")
            .split_whitespace()
            .next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
        Machine {
            cpu: field("/proc/cpuinfo", "model name"),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory_kib / 1024,
            kernel: read("/proc/sys/kernel/osrelease"),
            build: if cfg!(debug_assertions) { "debug".into() } else { "release".into() },
            load: read("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or(0.0),
        }
    }
}

/// Estimates the processor cycles per nanosecond that this thread gets now, from a chain of
/// dependent multiplications: each takes three cycles on x86-64 processors of the last ten years.
/// Virtual machines rarely offer a cycle counter.
pub fn cycles_per_ns() -> f64 {
    const MULTIPLICATIONS: u32 = 8192;
    const CYCLES_EACH: u32 = 3;
    let started = Instant::now();
    let product =
        (0..MULTIPLICATIONS).fold(black_box(3u64), |product, _| product.wrapping_mul(product));
    black_box(product);
    f64::from(MULTIPLICATIONS * CYCLES_EACH) / started.elapsed().as_nanos().max(1) as f64
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}, {} processors, {} MiB, Linux {}, {} build, load {:.2}",
            self.cpu, self.processors, self.memory_mib, self.kernel, self.build, self.load
        )
    }
}
