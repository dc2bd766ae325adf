//! What asking for memory finds out about a name, so that nobody looks twice.

use core::cell::Cell;

/// What the stages of [`ContentStore::prefetch`](super::ContentStore::prefetch) found out about one name, for the search that follows: to be
/// [forgotten](Self::forget) when the name changes.
#[derive(Clone, Debug, Default)]
pub struct CsHint(Cell<u64>);

const NOTHING: u64 = 0;
/// No [`ContentStore::state`](super::ContentStore) is all ones.
const MAYBE_HERE: u64 = u64::MAX;

impl CsHint {
    /// Says nothing from now on.
    #[inline(always)]
    pub fn forget(&self) {
        self.0.set(NOTHING);
    }

    /// True when the store that was asked last may have the packet.
    #[inline(always)]
    pub fn is_maybe_here(&self) -> bool {
        self.0.get() == MAYBE_HERE
    }

    #[inline(always)]
    pub(super) fn set_maybe_here(&self) {
        self.0.set(MAYBE_HERE);
    }

    /// There was no such packet in the store whose state this is.
    #[inline(always)]
    pub(super) fn set_absent(&self, state: u64) {
        self.0.set(state);
    }

    #[inline(always)]
    pub(super) fn is_absent(&self, state: u64) -> bool {
        self.0.get() == state
    }
}
