//! The fast form of [`ContentStore::insert`]: a full store replaces its victim in place. It changes
//! nothing unless it stores the packet; `insert_slow` alone has the same result.

use super::{BLOCK_LEN, ContentStore, IncomingData, Insertion};
use crate::Timestamp;

impl ContentStore {
    /// The fast form of [`insert`](Self::insert) into a full store: the packet reuses the entry and
    /// the blocks of the next victim, if it needs as many blocks. `None`: no packet was changed;
    /// use the slow form. `SIMPLE_LRU`: the [policy is simple LRU](Policy::is_simple_lru).
    #[inline(always)]
    pub(super) fn insert_fast<const SIMPLE_LRU: bool>(
        &mut self,
        now: Timestamp,
        packet: &IncomingData<'_>,
    ) -> Option<Insertion> {
        let last_index = packet.wire.len().wrapping_sub(1);
        let blocks = last_index / BLOCK_LEN + 1;
        let full =
            self.len == self.packets_limit || self.tree.arena.in_use() + blocks > self.blocks_limit;
        if last_index >= self.replace_len_max || !full || !packet.is_valid() {
            return None;
        }
        let key = packet.prefixes.lookup_hash();
        // S3-FIFO changes its queues when it selects the victim, so this must not be in vain.
        if !SIMPLE_LRU && self.tree.keys.may_contain(key) {
            return None;
        }
        let entries = &mut self.tree.entries[..];
        let victim = match SIMPLE_LRU {
            true => self.policy.lru_victim(),
            false => self.policy.victim(entries, now.as_nanos()).map(|(slot, _)| slot),
        };
        let slot = victim?;
        let entry = &mut entries[slot as usize];
        if (usize::from(entry.wire_len) - 1) / BLOCK_LEN + 1 != blocks {
            return None;
        }
        let vacant = self.tree.keys.vacant_entry(key)?;
        let index_pos = self.tree.keys.insert_at(&vacant, slot);
        if !self.tree.keys.remove_at(entry.index_pos, entry.key, slot) {
            self.tree.keys.remove(entry.key, slot);
        }
        let stays_in_queue = SIMPLE_LRU || self.policy.begin_replace(entries, slot);
        let entry = &mut entries[slot as usize];
        let successor = entry.successor();
        entry.key = key;
        entry.index_pos = index_pos;
        entry.fresh_until = packet.fresh_until(now);
        entry.stored = self.counters.insertions as u32;
        entry.wire_len = packet.wire.len() as u16;
        entry.name_len = packet.name.1;
        entry.name_start = packet.name.0 as u8;
        entry.reset_for_packet();
        self.policy.finish_replace(entries, slot, packet.arrival(now), stays_in_queue);
        self.counters.insertions += 1;
        self.counters.evictions += 1;
        self.eviction_prefetcher.on_inserted(entries, slot);
        self.eviction_prefetcher.on_evicted(&self.tree, successor);
        self.tree.arena.overwrite(slot, packet.wire);
        Some(Insertion::New)
    }
}
