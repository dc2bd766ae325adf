//! What prefetching has found for a name, so that the lookup need not repeat it.

use core::cell::Cell;

/// The result of [`ContentStore::prefetch`](super::ContentStore::prefetch) for one name: call
/// [`clear`](Self::clear) when the name changes. A probe from before the last insertion is
/// ignored.
#[derive(Clone, Debug, Default)]
pub struct CsProbe(Cell<u64>);

const NOTHING: u64 = 0;
/// Never equal to a store's state, which is not all ones.
const MAYBE_CACHED: u64 = u64::MAX;

impl CsProbe {
    /// Makes the probe invalid.
    #[inline(always)]
    pub fn clear(&self) {
        self.0.set(NOTHING);
    }

    /// Returns whether the store that was prefetched last may have the packet.
    #[inline(always)]
    pub fn may_be_cached(&self) -> bool {
        self.0.get() == MAYBE_CACHED
    }

    #[inline(always)]
    pub(super) fn set_maybe_cached(&self) {
        self.0.set(MAYBE_CACHED);
    }

    /// Stores that the packet was absent in the store with this state.
    #[inline(always)]
    pub(super) fn set_absent(&self, state: u64) {
        self.0.set(state);
    }

    #[inline(always)]
    pub(super) fn is_absent(&self, state: u64) -> bool {
        self.0.get() == state
    }
}
