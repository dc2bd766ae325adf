//! How many threads forward on this machine.

/// Two cores are a small machine: one shard has the whole of it when others need nothing. On a larger one half of the cores forward.
pub fn shards() -> u32 {
    match std::thread::available_parallelism().map_or(1, core::num::NonZero::get) {
        0..=2 => 1,
        cores => (cores / 2).min(16) as u32,
    }
}
