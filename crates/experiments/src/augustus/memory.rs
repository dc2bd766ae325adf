//! The largest FIB that free memory allows. Other programs keep a quarter of what is free.

use std::fs;

/// Estimate of the bytes of one prefix with its name, length table and index: what a million
/// prefixes of 4 to 7 components take (`resident_bytes_per_prefix` of `forward/memory/fib1e6`),
/// rounded up. Larger tables were not measured.
const PREFIX_BYTES: u64 = 224;
/// Bytes of one pending Interest: its table entry, and the prepared packets of two names.
const PENDING_BYTES: u64 = 1024;
/// Sizes up to this one are always measured.
const LOG2_MIN: u32 = 10;
const LOG2_MAX: u32 = nw_tables::fib::FibConfig::PREFIXES_MAX.ilog2();

/// Returns the power of two of the largest FIB for this many threads with one each.
pub(super) fn fib_log2_max(threads: usize, pending: u64) -> u32 {
    largest(available_mib() << 20, threads, pending)
}

fn largest(available: u64, threads: usize, pending: u64) -> u32 {
    let budget = (available / 4 * 3).saturating_sub(pending * PENDING_BYTES);
    let prefixes = budget / PREFIX_BYTES / threads.max(1) as u64;
    prefixes.max(1).ilog2().clamp(LOG2_MIN, LOG2_MAX)
}

/// Returns the memory that programs may still take, MiB.
pub(super) fn available_mib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_fib_leaves_memory_to_others() {
        const GIB: u64 = 1 << 30;
        assert_eq!(largest(24 * GIB, 1, 500_000), 26);
        assert_eq!(largest(24 * GIB, 2, 500_000), 25);
        assert_eq!(largest(4 * GIB, 1, 500_000), 23);
        assert_eq!(largest(0, 1, 500_000), LOG2_MIN, "a small one needs little");
        assert!(available_mib() > 0);
    }
}
