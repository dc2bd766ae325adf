//! Content store: Data packets that satisfy later Interests.
//!
//! A packet is found by its exact name, by its implicit digest (computed at the first such lookup,
//! then stored) and by any prefix of its name. The store is bounded by packets and by bytes;
//! `policy` selects which packet is evicted.
//!
//! A tree over all prefixes exists only while Interests with CanBePrefix need it
//! (`tree_lifecycle`). Without it, a prefix is searched among the [`RECENT_MAX`] packets that the
//! policy would keep longest. So a store of at most that many packets finds every prefix; a larger
//! one may miss a packet until its tree is complete. Exact names are always found.
//!
//! ```text
//! name hash -> index -> number -> Entry (64 bytes): key fields, policy queue, link in the tree
//!                         |-----> packet, in a chain of blocks of 256 bytes
//!                         `-----> digest, in an array of its own, touched only if needed
//! ```
//!
//! Main invariant: an entry is in the index and in one queue of the policy exactly while `wire_len`
//! is not 0; a [`CsRef`] to an evicted packet finds nothing.

mod eviction_prefetcher;
mod hit_rate;
mod listing;
#[cfg(test)]
mod model_tests;
mod policy;
#[cfg(test)]
mod policy_tests;
mod prefetch;
mod probe;
mod record;
mod search;
#[cfg(test)]
mod tests;
mod tree;
mod tree_lifecycle;

use crate::arena::BlockArena;
use crate::index::BucketPos;
use crate::memory::MmapArray;
use crate::{InterestKey, Timestamp};
use arrayvec::ArrayVec;
use eviction_prefetcher::EvictionPrefetcher;
use hit_rate::HitRateEwma;
pub use listing::{ListedPacket, Listing};
use nw_name::{HashKey, NameRef, PrefixHashes};
use nw_wire::{PACKET_LEN_MAX, sha256};
pub use policy::PolicyKind;
use policy::{Arrival, Policy};
pub use probe::CsProbe;
use record::{Entry, NONE};
use tree::Tree;
use tree_lifecycle::TreeLifecycle;
pub use tree_lifecycle::{EraseCursor, RECENT_MAX, TREE_IDLE_MAX};

/// Bytes of a block; the size of a packet is rounded up to whole blocks.
pub const BLOCK_LEN: usize = 256;

/// The maximum number of packets with one name; they differ in their digests.
pub const VERSIONS_MAX: usize = 4;

/// The maximum number of evictions per insertion: more than the number of blocks of the largest
/// packet.
const EVICTIONS_MAX: usize = 64;

/// Evictions, and entries added to or removed from the tree, per call of [`ContentStore::work`].
const WORK_EVICTIONS: usize = 256;
const WORK_ENTRIES: usize = 128;

/// Bytes of an implicit digest component: type, length, digest.
const DIGEST_COMPONENT_LEN: usize = 34;

/// Capacity of a content store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsConfig {
    /// The maximum number of packets, at most 2^30.
    pub packets_max: usize,
    /// The maximum number of bytes of all packets, each rounded up to blocks of [`BLOCK_LEN`].
    pub bytes_max: usize,
}

impl Default for CsConfig {
    /// 65536 packets in 256 MiB; an empty store takes no memory.
    fn default() -> Self {
        CsConfig { packets_max: 1 << 16, bytes_max: 256 << 20 }
    }
}

/// A reference to a packet in the store. It finds nothing once the packet is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsRef {
    slot: u32,
    generation: u16,
}

/// A checked Data packet to be inserted.
#[derive(Clone, Copy, Debug)]
pub struct IncomingData<'a> {
    /// Start and length in bytes of the name's TLV-VALUE in `wire`.
    pub name: (u16, u16),
    /// The hashes of the name. Without a [tree](ContentStore::has_tree) only the full hash is used.
    pub prefixes: &'a PrefixHashes,
    /// The whole packet.
    pub wire: &'a [u8],
    /// FreshnessPeriod in milliseconds; 0 if absent.
    pub freshness_ms: u32,
    /// No Interest waited for it. Used by the priority FIFO policy only.
    pub unsolicited: bool,
}

impl IncomingData<'_> {
    /// Returns whether the name's position is possible (after two types and lengths) and the name
    /// has no implicit digest, which no packet's own name has.
    #[inline(always)]
    fn is_valid(&self) -> bool {
        let (start, len) = self.name;
        start <= u16::from(u8::MAX)
            && usize::from(start) + usize::from(len) <= self.wire.len()
            && !self.prefixes.has_digest()
    }

    /// Returns the end of freshness, nanoseconds ("fresh *for* its FreshnessPeriod"); 0 (never
    /// fresh) without FreshnessPeriod.
    #[inline(always)]
    const fn fresh_until(&self, now: Timestamp) -> u64 {
        if self.freshness_ms == 0 {
            0
        } else {
            now.plus_millis(self.freshness_ms as u64).as_nanos()
        }
    }

    #[inline(always)]
    fn arrival(&self, now: Timestamp) -> Arrival {
        Arrival {
            stale_at: self.fresh_until(now).max(now.as_nanos()),
            unsolicited: self.unsolicited,
        }
    }
}

/// The result of [`ContentStore::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// The packet was stored.
    New,
    /// The same packet was stored already: it counts as used now, and its freshness starts again.
    Refreshed,
    /// The packet was not stored: admission is off; the policy would evict it first; it is larger
    /// than the store or than a packet may be; its name ends with an implicit digest or is not at
    /// `name`; or its index buckets are full.
    Rejected,
}

/// Counters since the store was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CsCounters {
    /// Interests satisfied.
    pub hits: u64,
    /// Interests not satisfied.
    pub misses: u64,
    /// Prefix searches that stopped at their limit; counted among the misses too.
    pub searches_aborted: u64,
    /// Packets stored.
    pub insertions: u64,
    /// Packets inserted that were stored already.
    pub refreshes: u64,
    /// Packets rejected while admission was on.
    pub rejections: u64,
    /// Packets evicted.
    pub evictions: u64,
}

/// The content store of one shard.
#[derive(Debug)]
pub struct ContentStore {
    key: HashKey,
    tree: Tree,
    lifecycle: TreeLifecycle,
    digests: MmapArray<[u8; 32]>,
    policy: Policy,
    eviction_prefetcher: EvictionPrefetcher,
    len: usize,
    packets_max: usize,
    packets_limit: usize,
    blocks_limit: usize,
    admit: bool,
    serve: bool,
    /// The maximum length of a packet to be stored, bytes; 0 while none is admitted.
    wire_len_max: usize,
    /// The maximum length of a packet that may reuse the victim's entry: see
    /// [`refresh_limits`](ContentStore::refresh_limits).
    replace_len_max: usize,
    counters: CsCounters,
    hit_rate: HitRateEwma,
}

impl ContentStore {
    /// The number of stages of [`prefetch`](Self::prefetch).
    pub const PREFETCH_STAGES: usize = 3;

    /// Creates an empty store. Address space for its capacity is reserved; memory is taken as
    /// packets are stored.
    pub fn new(key: HashKey, config: CsConfig) -> Self {
        let packets_max = config.packets_max.min(1 << 30);
        let arena = BlockArena::new(config.bytes_max / BLOCK_LEN);
        let mut store = ContentStore {
            key,
            packets_max,
            packets_limit: packets_max,
            blocks_limit: arena.capacity(),
            digests: MmapArray::with_small_pages(arena.capacity()),
            tree: Tree::new(key, packets_max, arena),
            lifecycle: TreeLifecycle::new(),
            policy: Policy::new(),
            eviction_prefetcher: EvictionPrefetcher::new(),
            len: 0,
            admit: true,
            serve: true,
            wire_len_max: 0,
            replace_len_max: 0,
            counters: CsCounters::default(),
            hit_rate: HitRateEwma::default(),
        };
        store.refresh_limits();
        store
    }

    /// Returns false if no packet has this name (or name and digest). Reads one line of the index,
    /// or nothing if `probe` is valid. Counts nothing: [`find`](Self::find) or
    /// [`record_miss`](Self::record_miss) does.
    #[inline(always)]
    pub fn may_contain(&self, prefixes: &PrefixHashes, probe: &CsProbe) -> bool {
        !probe.is_absent(self.state()) && self.tree.keys.may_contain(prefixes.lookup_hash())
    }

    /// Identifies this store and its number of insertions: a name that is absent stays absent while
    /// it is unchanged. Neither 0 nor all ones.
    #[inline(always)]
    fn state(&self) -> u64 {
        (core::ptr::from_ref(self).addr() as u64) << 32 ^ (self.counters.insertions << 1 | 1)
    }

    /// Counts a miss that [`may_contain`](Self::may_contain) has found.
    #[inline(always)]
    pub const fn record_miss(&mut self) {
        self.counters.misses += self.serve as u64;
        self.hit_rate.miss();
    }

    /// Returns the packet that satisfies an Interest, and counts it as used. Of several with the
    /// name, the newest one.
    #[inline]
    pub fn find(&mut self, now: Timestamp, key: &InterestKey<'_>) -> Option<CsRef> {
        if !self.serve {
            return None;
        }
        let mut found = self.find_exact(now, key);
        if key.can_be_prefix && found.is_none() {
            found = self.find_by_prefix(now, key);
        }
        let Some(slot) = found else {
            self.counters.misses += 1;
            self.hit_rate.miss();
            return None;
        };
        self.counters.hits += 1;
        self.hit_rate.hit();
        self.policy.record_use(&mut self.tree.entries, slot);
        Some(CsRef { slot, generation: self.tree.entries[slot as usize].generation })
    }

    /// Returns the end of freshness of the packet that would satisfy the Interest without
    /// MustBeFresh; longer names only if they are in the tree. Counts and moves nothing. For
    /// diagnosis: why [`find`](Self::find) found nothing.
    pub fn stale(&mut self, now: Timestamp, key: &InterestKey<'_>) -> Option<Timestamp> {
        let slot = match self.find_exact(now, &InterestKey { must_be_fresh: false, ..*key }) {
            None if key.can_be_prefix => match self.tree.search(key.name, key.prefixes, None) {
                search::Search::Found(slot) => Some(slot),
                search::Search::Absent | search::Search::Aborted => None,
            },
            found => found,
        };
        slot.map(|slot| Timestamp::from_nanos(self.tree.entries[slot as usize].fresh_until))
    }

    /// Returns the length of a packet in bytes; 0 if it was evicted.
    #[inline]
    pub fn wire_len(&self, found: CsRef) -> usize {
        self.entry(found).map_or(0, |entry| usize::from(entry.wire_len))
    }

    /// Copies a packet, or the part that fits into `out`; returns the number of bytes copied, 0 if
    /// the packet was evicted.
    #[inline]
    pub fn copy_wire(&self, found: CsRef, out: &mut [u8]) -> usize {
        let Some(entry) = self.entry(found) else { return 0 };
        let len = out.len().min(usize::from(entry.wire_len));
        self.tree.arena.copy_to(found.slot, &mut out[..len]);
        len
    }

    /// Returns the start and length in bytes of the name's TLV-VALUE in a packet; `(0, 0)` if it
    /// was evicted.
    #[inline]
    pub fn name_span(&self, found: CsRef) -> (u16, u16) {
        self.entry(found).map_or((0, 0), |entry| (u16::from(entry.name_start), entry.name_len))
    }

    /// Returns the end of freshness of a packet; [`Timestamp::START`] if it was never fresh or was
    /// evicted.
    pub fn fresh_until(&self, found: CsRef) -> Timestamp {
        self.entry(found).map_or(Timestamp::START, |entry| Timestamp::from_nanos(entry.fresh_until))
    }

    /// Stores a Data packet, evicting others if needed.
    #[inline(always)]
    pub fn insert(&mut self, now: Timestamp, packet: &IncomingData<'_>) -> Insertion {
        if self.policy.is_simple_lru()
            && let Some(insertion) = self.insert_fast::<true>(now, packet)
        {
            return insertion;
        }
        // Passed by value so the hot path keeps these fields in registers.
        self.insert_slow(now, *packet)
    }

    /// The fast form of [`insert`](Self::insert) into a full store: the packet reuses the entry and
    /// the blocks of the next victim, if it needs as many blocks. `None`: no packet was changed;
    /// use the slow form. `SIMPLE_LRU`: the [policy is simple LRU](Policy::is_simple_lru).
    #[inline(always)]
    fn insert_fast<const SIMPLE_LRU: bool>(
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

    /// The slow form of [`insert`](Self::insert).
    #[inline(never)]
    fn insert_slow(&mut self, now: Timestamp, packet: IncomingData<'_>) -> Insertion {
        if !self.policy.is_simple_lru()
            && let Some(insertion) = self.insert_fast::<false>(now, &packet)
        {
            return insertion;
        }
        if !self.admit {
            return Insertion::Rejected;
        }
        let IncomingData { name: name_span, prefixes, wire, .. } = packet;
        if wire.is_empty() || wire.len() > self.wire_len_max || !packet.is_valid() {
            return self.reject();
        }
        let (key, blocks) =
            (prefixes.lookup_hash(), BlockArena::<BLOCK_LEN>::blocks_for(wire.len()));
        let name = &wire[usize::from(name_span.0)..][..usize::from(name_span.1)];
        if let Some(stored) = self.find_same_packet(name, key, wire) {
            return self.refresh(now, stored, &packet);
        }
        if !self.evict_for(now, &packet, blocks) {
            return self.reject();
        }
        let Some(slot) = self.tree.arena.store(wire) else { return self.reject() };
        let index_pos = match self.tree.keys.vacant_entry(key) {
            Some(vacant) => self.tree.keys.insert_at(&vacant, slot),
            None if self.tree.keys.insert(key, slot).is_err() => {
                self.tree.arena.free(slot, wire.len());
                return self.reject();
            }
            None => BucketPos::NONE,
        };
        let entry = &mut self.tree.entries[slot as usize];
        *entry =
            Entry::new(key, (name_span.0 as u8, name_span.1), wire.len() as u16, entry.generation);
        entry.index_pos = index_pos;
        entry.fresh_until = packet.fresh_until(now);
        entry.stored = self.counters.insertions as u32;
        self.policy.insert(&mut self.tree.entries, slot, packet.arrival(now));
        self.eviction_prefetcher.on_inserted(&mut self.tree.entries, slot);
        self.len += 1;
        self.counters.insertions += 1;
        if !self.lifecycle.is_off() {
            self.after_insert(now, slot, NameRef::from_checked(name), prefixes);
        }
        if self.len == self.packets_limit || self.tree.arena.in_use() + blocks > self.blocks_limit {
            self.prefetch_victims();
        }
        Insertion::New
    }

    /// Removes at most `limit` packets with names that start with `prefix`; returns how many. Takes
    /// any time; [`erase_part`](Self::erase_part) works in steps.
    pub fn erase(&mut self, prefix: NameRef<'_>, limit: usize) -> usize {
        let mut cursor = EraseCursor::new(limit);
        while !self.erase_part(prefix, &mut cursor) {}
        cursor.erased
    }

    /// Returns the number of packets.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no packets.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes of all packets, in whole blocks.
    pub const fn bytes(&self) -> usize {
        self.tree.arena.in_use() * BLOCK_LEN
    }

    /// Returns the limits in effect.
    pub const fn limits(&self) -> CsConfig {
        CsConfig { packets_max: self.packets_limit, bytes_max: self.blocks_limit * BLOCK_LEN }
    }

    /// Returns the capacity, which the limits never exceed.
    pub fn capacity(&self) -> CsConfig {
        CsConfig {
            packets_max: self.packets_max,
            bytes_max: self.tree.arena.capacity() * BLOCK_LEN,
        }
    }

    /// Changes the limits, up to the capacity; returns the new ones. Packets above the limits are
    /// evicted in steps, by [`work`](Self::work) and by insertions.
    pub fn set_limits(&mut self, packets_max: usize, bytes_max: usize) -> CsConfig {
        self.packets_limit = packets_max.min(self.packets_max);
        self.blocks_limit = (bytes_max / BLOCK_LEN).min(self.tree.arena.capacity());
        self.refresh_limits();
        self.limits()
    }

    /// Returns whether [`work`](Self::work) should be called soon: packets above lowered limits are
    /// to be evicted, or the tree is being built or removed.
    pub fn has_work(&self) -> bool {
        self.exceeds_limits() || self.lifecycle.is_changing()
    }

    /// Does a step of background work: some hundred microseconds.
    pub fn work(&mut self, now: Timestamp) {
        self.evict_excess(now, WORK_EVICTIONS);
        self.step_tree(WORK_ENTRIES);
    }

    /// Returns whether the store exceeds its limits.
    #[inline]
    const fn exceeds_limits(&self) -> bool {
        self.len > self.packets_limit || self.tree.arena.in_use() > self.blocks_limit
    }

    /// Returns the eviction policy.
    pub const fn policy(&self) -> PolicyKind {
        self.policy.kind()
    }

    /// Changes the eviction policy; packets stay. Reserves address space; takes constant time.
    pub fn set_policy(&mut self, kind: PolicyKind) {
        if kind != self.policy.kind() {
            self.policy.set(kind, self.packets_max, self.tree.entries.len());
            self.refresh_limits();
        }
    }

    /// Returns whether packets are admitted.
    pub const fn admits(&self) -> bool {
        self.admit
    }

    /// Switches admission on or off.
    pub fn set_admit(&mut self, admit: bool) {
        self.admit = admit;
        self.refresh_limits();
    }

    /// Returns whether lookups are served.
    pub const fn serves(&self) -> bool {
        self.serve
    }

    /// Switches serving on or off; while it is off no misses are counted.
    pub const fn set_serve(&mut self, serve: bool) {
        self.serve = serve;
    }

    /// Returns the counters.
    pub const fn counters(&self) -> CsCounters {
        self.counters
    }

    /// Returns whether the tree is complete, so that every packet is found by any prefix of its
    /// name.
    pub const fn has_complete_tree(&self) -> bool {
        self.lifecycle.is_on()
    }

    /// Returns the number of prefixes with a node in the tree, without `/`.
    #[cfg(test)]
    pub const fn prefix_nodes(&self) -> usize {
        self.tree.nodes_in_use()
    }

    /// Returns the bytes of address space reserved; resident memory is at most this.
    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes() + self.digests.memory_bytes() + self.policy.memory_bytes()
    }

    /// Returns whether the tree exists, completely or in part. Then packets to be
    /// [inserted](Self::insert) need the hashes of all their prefixes, otherwise only the full
    /// hash.
    #[inline(always)]
    pub const fn has_tree(&self) -> bool {
        !self.lifecycle.is_off()
    }

    /// Returns the newest packet with this name, and this digest if the key has one.
    #[inline]
    fn find_exact(&mut self, now: Timestamp, key: &InterestKey<'_>) -> Option<u32> {
        if key.prefixes.has_digest() {
            return self.find_with_digest(now, key);
        }
        let mut newest = None;
        for id in self.tree.keys.candidates(key.prefixes.lookup_hash()) {
            if self.is_match(id, now, key, key.name.as_bytes())
                && newest.is_none_or(|other| self.age(id) < self.age(other))
            {
                newest = Some(id);
            }
        }
        newest
    }

    /// Returns the packet with this name and digest.
    #[inline(never)]
    fn find_with_digest(&mut self, now: Timestamp, key: &InterestKey<'_>) -> Option<u32> {
        let (name, digest) = key.name.as_bytes().split_at(key.prefixes.lookup_len());
        if digest.len() != DIGEST_COMPONENT_LEN {
            return None;
        }
        // A name has at most VERSIONS_MAX packets.
        let matching = self
            .tree
            .keys
            .candidates(key.prefixes.lookup_hash())
            .filter(|id| self.is_match(*id, now, key, name));
        let versions: ArrayVec<u32, VERSIONS_MAX> = matching.take(VERSIONS_MAX).collect();
        versions.into_iter().find(|id| self.digest(*id)[..] == digest[2..])
    }

    /// Returns whether an entry has this name and is fresh if the key requires it.
    #[inline(always)]
    fn is_match(&self, id: u32, now: Timestamp, key: &InterestKey<'_>, name: &[u8]) -> bool {
        self.is_named(id, key.prefixes.lookup_hash(), name)
            && (!key.must_be_fresh || self.tree.entries[id as usize].is_fresh(now.as_nanos()))
    }

    /// Returns the entry of the same packet. If [`VERSIONS_MAX`] others have its name, the oldest
    /// one is evicted.
    #[inline(never)]
    fn find_same_packet(&mut self, name: &[u8], key: u64, wire: &[u8]) -> Option<u32> {
        let (mut versions, mut oldest) = (0, NONE);
        for id in self.tree.keys.candidates(key) {
            if self.is_named(id, key, name) {
                let entry = &self.tree.entries[id as usize];
                if usize::from(entry.wire_len) == wire.len() && self.tree.arena.eq_at(id, 0, wire) {
                    return Some(id);
                }
                versions += 1;
                if oldest == NONE || self.age(id) > self.age(oldest) {
                    oldest = id;
                }
            }
        }
        if versions >= VERSIONS_MAX {
            self.remove(oldest);
            self.counters.evictions += 1;
        }
        None
    }

    /// Recomputes which packets are admitted. To be called after every change of the limits, of the
    /// excess over them, of the admission switch, of the policy, and of whether the tree exists.
    pub(super) fn refresh_limits(&mut self) {
        let admits = self.admit && self.packets_limit > 0;
        let wire_len_max = PACKET_LEN_MAX.min(self.blocks_limit * BLOCK_LEN);
        self.wire_len_max = if admits { wire_len_max } else { 0 };
        let may_replace = self.lifecycle.is_off()
            && self.policy.kind() != PolicyKind::PriorityFifo
            && !self.exceeds_limits();
        self.replace_len_max = if may_replace { self.wire_len_max } else { 0 };
    }

    #[cold]
    fn reject(&mut self) -> Insertion {
        self.counters.rejections += 1;
        Insertion::Rejected
    }

    /// Makes a stored packet fresh again.
    fn refresh(&mut self, now: Timestamp, slot: u32, packet: &IncomingData<'_>) -> Insertion {
        let entry = &mut self.tree.entries[slot as usize];
        entry.fresh_until = packet.fresh_until(now);
        if entry.link.linked != 0 {
            self.tree.raise_fresh_end(slot);
        }
        self.policy.refresh(&mut self.tree.entries, slot, packet.arrival(now));
        self.counters.refreshes += 1;
        Insertion::Refreshed
    }

    /// Returns whether an entry has this name.
    #[inline(always)]
    fn is_named(&self, id: u32, key: u64, name: &[u8]) -> bool {
        let entry = &self.tree.entries[id as usize];
        entry.key == key
            && usize::from(entry.name_len) == name.len()
            && self.tree.starts_with(id, name)
    }

    /// Returns the number of packets stored since this one.
    #[inline]
    fn age(&self, slot: u32) -> u32 {
        (self.counters.insertions as u32).wrapping_sub(self.tree.entries[slot as usize].stored)
    }

    /// Returns the implicit digest of a packet; computes it the first time.
    fn digest(&mut self, slot: u32) -> [u8; 32] {
        let entry = &mut self.tree.entries[slot as usize];
        if !entry.is_digested() {
            entry.set_digested();
            let runs = self.tree.arena.runs(slot, usize::from(entry.wire_len));
            let parts: ArrayVec<&[u8], { PACKET_LEN_MAX.div_ceil(BLOCK_LEN) }> = runs.collect();
            self.digests[slot as usize] = sha256(&parts);
        }
        self.digests[slot as usize]
    }

    /// Evicts until a packet of this many blocks fits; returns false if the policy prefers the
    /// stored packets.
    fn evict_for(&mut self, now: Timestamp, packet: &IncomingData<'_>, blocks: usize) -> bool {
        for _ in 0..EVICTIONS_MAX {
            let fits = self.len < self.packets_limit
                && self.tree.arena.in_use() + blocks <= self.blocks_limit;
            if fits {
                return true;
            }
            let arrival = packet.arrival(now);
            let now = now.as_nanos();
            let Some((victim, rank)) = self.policy.victim(&mut self.tree.entries, now) else {
                return false;
            };
            if !self.policy.admits_packet(now, arrival, rank) {
                return false;
            }
            self.evict(victim);
        }
        // The limits were lowered far below the content: until it has shrunk, the store may accept
        // a few more packets.
        self.len < self.packets_max
            && self.tree.arena.in_use() + blocks <= self.tree.arena.capacity()
    }

    /// Evicts at most `packets_max` packets while the store exceeds its limits.
    fn evict_excess(&mut self, now: Timestamp, packets_max: usize) {
        for _ in 0..packets_max {
            if !self.exceeds_limits() {
                break;
            }
            let Some((victim, _)) = self.policy.victim(&mut self.tree.entries, now.as_nanos())
            else {
                break;
            };
            self.evict(victim);
        }
    }

    /// Evicts the policy's victim.
    fn evict(&mut self, victim: u32) {
        self.policy.remove_victim(&mut self.tree.entries, victim);
        self.release_entry(victim);
        self.counters.evictions += 1;
    }

    /// Removes an entry that is not the policy's victim.
    fn remove(&mut self, slot: u32) {
        self.policy.remove(&mut self.tree.entries, slot);
        self.release_entry(slot);
    }

    /// Frees an entry that is in no queue of the policy any more.
    #[inline]
    fn release_entry(&mut self, slot: u32) {
        let entry = &mut self.tree.entries[slot as usize];
        let Entry { key, index_pos, wire_len, .. } = *entry;
        let linked = entry.link.linked != 0;
        entry.wire_len = 0;
        entry.generation = entry.generation.wrapping_add(1);
        if linked {
            self.tree.unlink(slot);
        }
        if !self.tree.keys.remove_at(index_pos, key, slot) {
            self.tree.keys.remove(key, slot);
        }
        self.tree.arena.free(slot, usize::from(wire_len));
        self.len -= 1;
        self.refresh_limits();
    }

    #[inline]
    fn entry(&self, found: CsRef) -> Option<&Entry> {
        self.tree
            .entries
            .get(found.slot as usize)
            .filter(|entry| entry.generation == found.generation)
    }
}
