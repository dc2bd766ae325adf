//! The system's allocator, asked not to put work off.

#![allow(unsafe_code)]

/// From now on small pieces of memory that are freed are joined with their neighbours at once, in the whole process. glibc as a rule sets those of up to
/// 128 octets aside, and joins all of them when something large comes or goes: after a million names have changed that is one pause of some 20 ms. What
/// each thread keeps for its next use stays as it is. With other libraries than glibc nothing happens.
pub fn free_at_once() {
    // SAFETY: mallopt takes two numbers and may be called at any time: glibc takes the lock of its arenas.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        // Says whether it knows the option, which it does.
        libc::mallopt(libc::M_MXFAST, 0);
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    /// Pieces that are free and not joined yet.
    fn set_aside() -> usize {
        // SAFETY: it reads counters under the lock of each arena.
        unsafe { libc::mallinfo2().smblks }
    }

    /// Of ten thousand that are freed.
    fn set_aside_of_many() -> usize {
        let mut pieces: Vec<Box<[u64; 4]>> = (0..10_000).map(|number| Box::new([number; 4])).collect();
        std::hint::black_box(&mut pieces).clear();
        let aside = set_aside();
        // Freeing the list, which is large, joins them.
        drop(pieces);
        aside
    }

    #[test]
    fn nothing_is_set_aside() {
        let before = set_aside_of_many();
        super::free_at_once();
        let after = set_aside_of_many();
        assert!(before > 5_000 && after < 500, "{before} pieces before, {after} after");
    }
}
