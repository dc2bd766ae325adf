//! Content store: Data packets kept for whoever asks next.
//!
//! Found by exact name, by implicit digest (computed when first asked for, then kept) and by any prefix of their names, whatever Interest
//! once fetched them. Bounded by packets and by octets; which packet goes is decided in `policy`, how
//! prefixes are kept in `tree`, how they are searched in `search`.
//!
//! ```text
//! key hash -> index -> Entry (64 octets) -> chain of blocks of 256 octets: the packet
//!                        |-- policy's order          digests apart, touched only when asked for
//!                        `-- tree of prefixes
//! ```

#[cfg(test)]
mod model_tests;
mod policy;
mod record;
mod search;
#[cfg(test)]
mod tests;
mod tree;

use crate::arena::BlockArena;
use crate::memory::Lines;
use crate::{Ask, Instant};
use arrayvec::ArrayVec;
use nw_name::tlv::read_number;
use nw_name::{HashKey, NameRef, PREFIXES_MAX, Prefixes};
use nw_wire::{PACKET_LEN_MAX, sha256};
use policy::Policy;
use record::{Entry, NONE, is_node};
use search::Search;
use tree::{DEEPER, Tree};

/// Octets of a block: what a packet's octets are rounded up to.
pub const BLOCK_LEN: usize = 256;

/// Packets of one name that are kept at a time; they differ in their digests.
pub const VERSIONS_MAX: usize = 4;

/// An implicit digest component: type, length, 32 octets.
const DIGEST_COMPONENT_LEN: usize = 34;

/// Bounds of a content store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsConfig {
    /// Packets, at most 2^30.
    pub packets_max: usize,
    /// Octets of packets, each rounded up to whole blocks of [`BLOCK_LEN`].
    pub bytes_max: usize,
}

impl Default for CsConfig {
    /// 65536 packets in 256 MiB; an empty store takes no memory.
    fn default() -> Self {
        CsConfig { packets_max: 1 << 16, bytes_max: 256 << 20 }
    }
}

/// A packet in the store. Finds nothing once that packet has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsRef {
    slot: u32,
    generation: u16,
}

/// What became of a packet given to [`ContentStore::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// Kept.
    New,
    /// The same packet was there; it counts as just used and is fresh from now on.
    Refreshed,
    /// Not kept: admission is off, it is larger than the store or than a packet may be, its name ends with an implicit digest (no packet's own
    /// does), or its place in the index is full.
    NotKept,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CsCounters {
    /// Asked and answered.
    pub hits: u64,
    /// Asked and not answered.
    pub misses: u64,
    /// Prefix searches given up after a bounded effort; counted among the misses too.
    pub searches_given_up: u64,
    /// Packets kept.
    pub insertions: u64,
    /// Packets that were there already.
    pub refreshes: u64,
    /// Packets not kept though admission was on.
    pub refusals: u64,
    /// Packets that made room for others.
    pub evictions: u64,
}

/// The content store of one shard.
#[derive(Debug)]
pub struct ContentStore {
    key: HashKey,
    tree: Tree,
    digests: Lines<[u8; 32]>,
    policy: Policy,
    /// Entries given back, linked by `newer`.
    entries_free: u32,
    entries_untouched: u32,
    len: usize,
    packets_limit: usize,
    blocks_limit: usize,
    admit: bool,
    serve: bool,
    counters: CsCounters,
}

impl ContentStore {
    /// Stages of [`prefetch`](Self::prefetch).
    pub const PREFETCH_STAGES: usize = 3;

    /// An empty store. What it may grow to is reserved as address space; memory is taken as packets come.
    pub fn new(key: HashKey, config: CsConfig) -> Self {
        let packets_max = config.packets_max.min(1 << 30);
        let arena = BlockArena::new(config.bytes_max / BLOCK_LEN);
        ContentStore {
            key,
            packets_limit: packets_max,
            blocks_limit: arena.capacity(),
            tree: Tree::new(key, packets_max, arena),
            digests: Lines::new(packets_max),
            policy: Policy::lru(),
            entries_free: NONE,
            entries_untouched: 0,
            len: 0,
            admit: true,
            serve: true,
            counters: CsCounters::default(),
        }
    }

    /// The packet that answers, if there is one; it counts as used. Of several with the asked name the one that came last answers.
    pub fn find(&mut self, now: Instant, ask: &Ask<'_>) -> Option<CsRef> {
        if !self.serve {
            return None;
        }
        let found = match self.exact(now, ask) {
            None if ask.can_be_prefix => self.longer(now, ask),
            found => found,
        };
        let Some(slot) = found else {
            self.counters.misses += 1;
            return None;
        };
        self.counters.hits += 1;
        self.policy.used(&mut self.tree.entries, slot);
        Some(CsRef { slot, generation: self.tree.entries[slot as usize].generation })
    }

    /// Octets of a packet; 0 when it has gone.
    #[inline]
    pub fn wire_len(&self, found: CsRef) -> usize {
        self.entry(found).map_or(0, |entry| usize::from(entry.wire_len))
    }

    /// Copies a packet, or the part of it for which there is room; gives the octets written, 0 when it has gone.
    #[inline]
    pub fn copy_wire(&self, found: CsRef, out: &mut [u8]) -> usize {
        let Some(entry) = self.entry(found) else { return 0 };
        let len = out.len().min(usize::from(entry.wire_len));
        self.tree.arena.copy_to(entry.block, &mut out[..len]);
        len
    }

    /// Where the name's TLV-VALUE stands in a packet: start and length, octets. `(0, 0)` when it has gone.
    #[inline]
    pub fn name_place(&self, found: CsRef) -> (u16, u16) {
        self.entry(found).map_or((0, 0), |entry| (u16::from(entry.name_start), entry.name_len))
    }

    /// Until when a packet is fresh; [`Instant::START`] when it never was or has gone.
    pub fn fresh_until(&self, found: CsRef) -> Instant {
        self.entry(found).map_or(Instant::START, |entry| Instant::from_nanos(entry.fresh_until))
    }

    /// Keeps a Data packet, checked before: its name, that name's prefixes, the whole packet, and its FreshnessPeriod in milliseconds. Others
    /// go to make room.
    pub fn insert(
        &mut self,
        now: Instant,
        name: NameRef<'_>,
        prefixes: &Prefixes,
        wire: &[u8],
        freshness_ms: u32,
    ) -> Insertion {
        if !self.admit {
            return Insertion::NotKept;
        }
        let blocks = BlockArena::<BLOCK_LEN>::blocks_for(wire.len());
        let name_start = name_start(wire, name);
        let fits = wire.len() <= PACKET_LEN_MAX && blocks <= self.blocks_limit && self.packets_limit > 0;
        let (Some(name_start), true, false) = (name_start, fits, prefixes.has_digest()) else {
            self.counters.refusals += 1;
            return Insertion::NotKept;
        };
        // A Data is fresh *for* its FreshnessPeriod; without one it is never fresh.
        let fresh_until =
            if freshness_ms == 0 { 0 } else { now.plus_millis(u64::from(freshness_ms)).as_nanos() };
        if let Some(known) = self.same_name(name, prefixes.key(), wire) {
            self.tree.entries[known as usize].fresh_until = fresh_until;
            self.tree.raise_fresh_end(known);
            self.policy.used(&mut self.tree.entries, known);
            self.counters.refreshes += 1;
            return Insertion::Refreshed;
        }
        self.make_room(self.packets_limit - 1, self.blocks_limit - blocks);
        let slot = self.take_entry();
        let stored = self
            .tree
            .index
            .insert(prefixes.key(), slot)
            .is_ok()
            .then(|| self.tree.arena.store(wire))
            .flatten();
        let Some(block) = stored else {
            self.tree.index.remove(prefixes.key(), slot);
            self.free_entry(slot);
            self.counters.refusals += 1;
            return Insertion::NotKept;
        };
        let entry = &mut self.tree.entries[slot as usize];
        entry.key = prefixes.key();
        entry.place.depth = if prefixes.count() > PREFIXES_MAX { DEEPER } else { prefixes.count() as u8 };
        entry.fresh_until = fresh_until;
        entry.block = block;
        entry.stored = self.counters.insertions as u32;
        entry.wire_len = wire.len() as u16;
        entry.name_len = name.as_bytes().len() as u16;
        entry.name_start = name_start;
        entry.digested = 0;
        self.tree.link(slot, name, prefixes);
        self.policy.inserted(&mut self.tree.entries, slot);
        self.len += 1;
        self.counters.insertions += 1;
        // When the store is full it is known what goes next and after that: by then the lines of the latter are here.
        let full = self.len == self.packets_limit || self.tree.arena.in_use() + blocks > self.blocks_limit;
        if let Some(victim) = self.policy.victim().filter(|_| full) {
            self.tree.prefetch_removal(self.tree.entries[victim as usize].newer);
        }
        Insertion::New
    }

    /// Removes packets whose names start with `prefix`, at most `limit`; gives how many. For control: takes time in proportion to them.
    pub fn erase(&mut self, prefix: NameRef<'_>, limit: usize) -> usize {
        let prefixes = Prefixes::of(&self.key, prefix);
        let mut slots = self.tree.collect(prefix, &prefixes, limit);
        if prefixes.has_digest() && slots.len() < limit {
            let ask = Ask { name: prefix, prefixes: &prefixes, can_be_prefix: false, must_be_fresh: false };
            slots.extend(self.exact(Instant::START, &ask));
        }
        for slot in &slots {
            self.remove(*slot);
        }
        slots.len()
    }

    /// True when a packet's name starts with `prefix`.
    pub fn has_under(&self, prefix: NameRef<'_>) -> bool {
        !self.tree.collect(prefix, &Prefixes::of(&self.key, prefix), 1).is_empty()
    }

    /// Packets in the store.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True without packets.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Octets taken by packets, in whole blocks.
    pub const fn bytes(&self) -> usize {
        self.tree.arena.in_use() * BLOCK_LEN
    }

    /// The bounds in effect.
    pub const fn limits(&self) -> CsConfig {
        CsConfig { packets_max: self.packets_limit, bytes_max: self.blocks_limit * BLOCK_LEN }
    }

    /// Changes the bounds, up to what the store was made for; packets go at once if there are too many. Gives the bounds in effect.
    pub fn set_limits(&mut self, packets_max: usize, bytes_max: usize) -> CsConfig {
        self.packets_limit = packets_max.min(self.tree.entries.len());
        self.blocks_limit = (bytes_max / BLOCK_LEN).min(self.tree.arena.capacity());
        self.make_room(self.packets_limit, self.blocks_limit);
        self.limits()
    }

    /// Whether packets are taken in.
    pub const fn admits(&self) -> bool {
        self.admit
    }

    /// Switches taking packets in.
    pub const fn set_admit(&mut self, admit: bool) {
        self.admit = admit;
    }

    /// Whether Interests are answered.
    pub const fn serves(&self) -> bool {
        self.serve
    }

    /// Switches answering Interests; while it is off nothing counts as asked.
    pub const fn set_serve(&mut self, serve: bool) {
        self.serve = serve;
    }

    /// What happened so far.
    pub const fn counters(&self) -> CsCounters {
        self.counters
    }

    /// Prefixes that have a node in the tree, besides `/`.
    pub const fn prefix_nodes(&self) -> usize {
        self.tree.nodes_in_use()
    }

    /// Address space taken, octets; resident memory is at most this.
    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes() + self.digests.memory_bytes()
    }

    /// Asks for what finding or inserting a name will touch, without waiting: call stage 0 for each packet of a batch, then 1, then 2.
    #[inline]
    pub fn prefetch(&self, stage: usize, prefixes: &Prefixes) {
        match stage {
            0 => self.tree.index.prefetch(prefixes.key()),
            _ => {
                for slot in self.tree.index.candidates(prefixes.key()).filter(|id| !is_node(*id)) {
                    match stage {
                        1 => self.tree.entries.prefetch(slot as usize),
                        _ => {
                            let entry = &self.tree.entries[slot as usize];
                            if entry.key == prefixes.key() {
                                self.tree.arena.prefetch(entry.block);
                                self.tree.entries.prefetch(entry.newer as usize);
                                self.tree.entries.prefetch(entry.older as usize);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Asks for what inserting a name, or searching below it, touches besides: call with each stage of [`prefetch`](Self::prefetch) for Data
    /// and for Interests with CanBePrefix.
    #[inline]
    pub fn prefetch_insert(&self, stage: usize, prefixes: &Prefixes) {
        self.tree.prefetch_link(stage, prefixes);
    }

    /// The newest packet with the asked name, and the asked digest if there is one.
    #[inline]
    fn exact(&mut self, now: Instant, ask: &Ask<'_>) -> Option<u32> {
        let key = ask.prefixes.key();
        let (name, digest) = ask.name.as_bytes().split_at(ask.prefixes.key_len());
        if ask.prefixes.has_digest() && digest.len() != DIGEST_COMPONENT_LEN {
            return None;
        }
        let mut found = ArrayVec::<u32, VERSIONS_MAX>::new();
        for id in self.tree.index.candidates(key) {
            if self.is_named(id, key, name)
                && (!ask.must_be_fresh || self.tree.entries[id as usize].is_fresh(now.as_nanos()))
            {
                // There are no more than VERSIONS_MAX.
                let _ = found.try_push(id);
            }
        }
        if ask.prefixes.has_digest() {
            return found.into_iter().find(|slot| self.digest(*slot)[..] == digest[2..]);
        }
        let age = |slot: &u32| self.age(*slot);
        if found.len() > 1 { found.into_iter().min_by_key(age) } else { found.pop() }
    }

    fn longer(&mut self, now: Instant, ask: &Ask<'_>) -> Option<u32> {
        let fresh_at = ask.must_be_fresh.then(|| now.as_nanos());
        match self.tree.search(ask.name, ask.prefixes, fresh_at) {
            Search::Found(slot) => {
                self.tree.move_to_front(slot);
                Some(slot)
            }
            Search::Absent => None,
            Search::GaveUp => {
                self.counters.searches_given_up += 1;
                None
            }
        }
    }

    /// The entry of the same packet. When there are [`VERSIONS_MAX`] others of its name, the one that came first goes.
    #[inline]
    fn same_name(&mut self, name: NameRef<'_>, key: u64, wire: &[u8]) -> Option<u32> {
        let (mut versions, mut eldest) = (0, NONE);
        for id in self.tree.index.candidates(key) {
            if self.is_named(id, key, name.as_bytes()) {
                let entry = &self.tree.entries[id as usize];
                if usize::from(entry.wire_len) == wire.len() && self.tree.arena.holds(entry.block, 0, wire) {
                    return Some(id);
                }
                versions += 1;
                if eldest == NONE || self.age(id) > self.age(eldest) {
                    eldest = id;
                }
            }
        }
        if versions >= VERSIONS_MAX {
            self.remove(eldest);
            self.counters.evictions += 1;
        }
        None
    }

    /// True for an entry of this name.
    #[inline(always)]
    fn is_named(&self, id: u32, key: u64, name: &[u8]) -> bool {
        if is_node(id) {
            return false;
        }
        let entry = &self.tree.entries[id as usize];
        entry.key == key && usize::from(entry.name_len) == name.len() && self.tree.starts_with(entry, name)
    }

    /// Packets stored since this one.
    #[inline]
    fn age(&self, slot: u32) -> u32 {
        (self.counters.insertions as u32).wrapping_sub(self.tree.entries[slot as usize].stored)
    }

    fn digest(&mut self, slot: u32) -> [u8; 32] {
        let entry = &mut self.tree.entries[slot as usize];
        if entry.digested == 0 {
            entry.digested = 1;
            let runs = self.tree.arena.runs(entry.block, usize::from(entry.wire_len));
            let parts: ArrayVec<&[u8], { PACKET_LEN_MAX.div_ceil(BLOCK_LEN) }> = runs.collect();
            self.digests[slot as usize] = sha256(&parts);
        }
        self.digests[slot as usize]
    }

    #[inline]
    fn make_room(&mut self, packets: usize, blocks: usize) {
        while self.len > packets || self.tree.arena.in_use() > blocks {
            let Some(victim) = self.policy.victim() else { break };
            self.remove(victim);
            self.counters.evictions += 1;
        }
    }

    fn remove(&mut self, slot: u32) {
        self.tree.unlink(slot);
        let Entry { key, block, wire_len, .. } = self.tree.entries[slot as usize];
        self.tree.index.remove(key, slot);
        self.tree.arena.free(block, usize::from(wire_len));
        self.policy.removed(&mut self.tree.entries, slot);
        self.free_entry(slot);
        self.len -= 1;
    }

    /// An entry to be filled; the caller made room.
    #[inline]
    fn take_entry(&mut self) -> u32 {
        let slot = self.entries_free;
        if slot == NONE {
            self.entries_untouched += 1;
            return self.entries_untouched - 1;
        }
        self.entries_free = self.tree.entries[slot as usize].newer;
        slot
    }

    #[inline]
    fn free_entry(&mut self, slot: u32) {
        let entry = &mut self.tree.entries[slot as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.newer = self.entries_free;
        self.entries_free = slot;
    }

    #[inline]
    fn entry(&self, found: CsRef) -> Option<&Entry> {
        self.tree.entries.get(found.slot as usize).filter(|entry| entry.generation == found.generation)
    }
}

/// Where the name's TLV-VALUE starts in a Data packet; `None` when the packet isn't one of that name.
#[inline]
fn name_start(wire: &[u8], name: NameRef<'_>) -> Option<u8> {
    let mut at = 0;
    // Type and length of the packet, type and length of its name.
    for _ in 0..4 {
        at = read_number(wire, at).ok()?.1;
    }
    wire.get(at..)?.starts_with(name.as_bytes()).then_some(at as u8)
}
