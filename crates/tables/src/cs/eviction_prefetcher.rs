//! Prefetches what coming evictions will read.
//!
//! In a full store every insertion evicts a packet. The policy's order is that in which packets are
//! next, but following its links would wait for one cache line after the other. So every entry
//! outside the prefix tree stores its *successor*: the entry inserted [`ENTRY_DISTANCE`] packets
//! later, which will probably be evicted that much later too.
//!
//! Wrong successors only cost a useless prefetch.

use super::record::{Entry, NONE};
use super::tree::Tree;

/// Packets between an eviction and that of the entry prefetched now. Where only the store processes
/// a batch, an insertion is so short that 8 are not enough to wait for two lines.
const ENTRY_DISTANCE: usize = 16;
/// Evictions ahead at which the lines of the entry's packet and index bucket are prefetched: the
/// entry itself has arrived by then.
const LINES_DISTANCE: usize = 8;

/// The prefetcher: see the module.
#[derive(Debug)]
pub(super) struct EvictionPrefetcher {
    /// The last entries inserted, and the last entries prefetched.
    inserted: [u32; ENTRY_DISTANCE],
    prefetched: [u32; LINES_DISTANCE],
    count: usize,
}

impl EvictionPrefetcher {
    pub const fn new() -> Self {
        EvictionPrefetcher {
            inserted: [NONE; ENTRY_DISTANCE],
            prefetched: [NONE; LINES_DISTANCE],
            count: 0,
        }
    }

    /// A packet was inserted in `slot`.
    #[inline(always)]
    pub fn on_inserted(&mut self, entries: &mut [Entry], slot: u32) {
        self.count = self.count.wrapping_add(1);
        let predecessor = core::mem::replace(&mut self.inserted[self.count % ENTRY_DISTANCE], slot);
        if let Some(entry) = entries.get_mut(predecessor as usize) {
            entry.set_successor(slot);
        }
    }

    /// A packet was evicted; `successor` is that of its entry.
    #[inline(always)]
    pub fn on_evicted(&mut self, tree: &Tree, successor: u32) {
        tree.entries.prefetch(successor as usize);
        let soon = core::mem::replace(&mut self.prefetched[self.count % LINES_DISTANCE], successor);
        tree.prefetch_removal(soon);
    }
}
