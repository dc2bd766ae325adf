//! Setting of the C library's allocator.

#![allow(unsafe_code)]

/// Makes the allocator merge small freed blocks with their neighbours at once, in the whole
/// process.
///
/// By default, glibc keeps freed blocks of up to 128 bytes in fastbins, and merges all of them when
/// something large is allocated or freed: after a million names have changed, that is one pause of
/// some 20 ms. The per-thread cache is unchanged. No effect with other C libraries.
pub fn disable_fastbins() {
    // SAFETY: mallopt takes two numbers and may be called at any time: glibc takes the lock of its
    // arenas.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        // It returns whether it knows the option, which it does.
        libc::mallopt(libc::M_MXFAST, 0);
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    /// Returns the number of free blocks that are not merged.
    fn unmerged_blocks() -> usize {
        // SAFETY: it reads counters under the lock of each arena.
        unsafe { libc::mallinfo2().smblks }
    }

    /// Frees ten thousand blocks and returns how many are not merged.
    fn unmerged_after_freeing_many() -> usize {
        let mut blocks: Vec<Box<[u64; 4]>> =
            (0..10_000).map(|number| Box::new([number; 4])).collect();
        std::hint::black_box(&mut blocks).clear();
        let unmerged = unmerged_blocks();
        // Freeing the list, which is large, merges them.
        drop(blocks);
        unmerged
    }

    #[test]
    fn disable_fastbins_merges_freed_blocks() {
        let before = unmerged_after_freeing_many();
        super::disable_fastbins();
        let after = unmerged_after_freeing_many();
        assert!(before > 5_000 && after < 500, "{before} blocks before, {after} after");
    }
}
