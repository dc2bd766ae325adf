//! Prefetching of what lookups, insertions and evictions will read.

use super::{ContentStore, CsProbe};
use nw_name::PrefixHashes;

impl ContentStore {
    /// Prefetches what finding a name will read: stage 0, then stage 1, each for a whole batch.
    /// Stage 1 stores its result in `probe`: [`CsProbe::MayBeCached`] only if lookups are served.
    #[inline(always)]
    pub fn advance(&self, stage: usize, prefixes: &PrefixHashes, probe: &mut CsProbe) {
        match stage {
            // The first line that a hit reads. If most lookups miss, other lines are more urgent in
            // the first-level cache.
            0 if self.hit_rate.is_mostly_hits() => {
                self.tree.keys.prefetch_l1(prefixes.lookup_hash())
            }
            0 => self.tree.keys.prefetch(prefixes.lookup_hash()),
            1 if !self.serve => {}
            // Usual: the packet is not in the store.
            1 if !self.tree.keys.may_contain(prefixes.lookup_hash()) => {
                *probe = CsProbe::Absent { insertions: self.counters.insertions }
            }
            1 => {
                for id in self.tree.keys.candidates(prefixes.lookup_hash()) {
                    self.tree.entries.prefetch(id as usize);
                    self.tree.arena.prefetch(id);
                }
                *probe = CsProbe::MayBeCached;
            }
            _ => {}
        }
    }

    /// Prefetches the index bucket of a name of which only the hash is known.
    #[inline(always)]
    pub fn prefetch_hash(&self, hash: u64) {
        self.tree.keys.prefetch(hash);
    }

    /// Prefetches what inserting a name, or searching below it, will read: call it with each stage
    /// of [`advance`](Self::advance).
    #[inline]
    pub fn prefetch_insert(&self, stage: usize, prefixes: &PrefixHashes) {
        if stage == 0 {
            self.tree.keys.prefetch(prefixes.lookup_hash());
        }
        if !self.lifecycle.is_off() {
            self.tree.prefetch_link(stage, prefixes);
        }
    }

    /// Prefetches the second victim from now: its lines arrive by its turn.
    #[inline]
    pub(super) fn prefetch_victims(&self) {
        let second = self.policy.second_victim(&self.tree.entries);
        self.tree.prefetch_removal(second);
        if let Some(entry) = self.tree.entries.get(second as usize) {
            self.tree.entries.prefetch(entry.newer as usize);
        }
    }
}
