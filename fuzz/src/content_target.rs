//! Content from the network that the router acts on: prefix announcements.
//! Replayed by `crates/control/tests/corpus.rs`.

/// Checks a Data as a prefix announcement: accepted, or refused with a reason.
pub fn announcement(bytes: &[u8]) -> Result<(), &'static str> {
    match nw_control::check_announcement(bytes) {
        Ok(()) => Ok(()),
        Err(reason) => {
            assert!(!reason.is_empty());
            Err("refused")
        }
    }
}
