//! Content that others publish and our programs act on: prefix announcements. Replayed by
//! `crates/control/tests/corpus.rs`.

/// A Data as a prefix announcement: accepted, or refused with a sentence.
pub fn announcement(bytes: &[u8]) -> Result<(), &'static str> {
    match nw_control::check_announcement(bytes) {
        Ok(()) => Ok(()),
        Err(why) => {
            assert!(!why.is_empty());
            Err("refused")
        }
    }
}
