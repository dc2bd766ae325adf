//! Content store: Data packets kept for whoever asks next.
//!
//! Found by exact name, by implicit digest (computed when first asked for, then kept) and by any prefix of their names, whatever Interest
//! once fetched them. Bounded by packets and by octets; which packet goes is decided in `policy`.
//!
//! A tree over the names' prefixes is kept only while somebody asks by prefix (`upkeep`): without it, a prefix is looked for among the
//! [`RECENT_MAX`] packets that the policy would keep longest, so a store of no more than these answers every prefix, and a larger one may miss
//! a packet until its tree is whole. Exact names are always found.
//!
//! ```text
//! key hash -> index -> number -> Entry (64 octets): what is compared, the policy's order, the place in the tree of prefixes
//!                        `-----> chain of blocks of 256 octets: the packet          digests apart, touched only when asked for
//! ```

mod hint;
mod lookahead;
#[cfg(test)]
mod model_tests;
mod policy;
#[cfg(test)]
mod policy_tests;
mod recent;
mod record;
mod search;
#[cfg(test)]
mod tests;
mod tree;
mod upkeep;

use crate::arena::BlockArena;
use crate::index::Spot;
use crate::memory::Lines;
use crate::{Ask, Instant};
use arrayvec::ArrayVec;
pub use hint::CsHint;
use lookahead::Lookahead;
use nw_name::{HashKey, NameRef, Prefixes};
use nw_wire::{PACKET_LEN_MAX, sha256};
pub use policy::PolicyKind;
use policy::{Arrival, Policy};
use recent::Recent;
use record::{Entry, NONE};
use tree::Tree;
use upkeep::Upkeep;
pub use upkeep::{Erasing, KEPT_IDLE, RECENT_MAX};

/// Octets of a block: what a packet's octets are rounded up to.
pub const BLOCK_LEN: usize = 256;

/// Packets of one name that are kept at a time; they differ in their digests.
pub const VERSIONS_MAX: usize = 4;

/// Packets that go for one that comes, at most: more than the largest takes blocks.
const EVICTIONS_MAX: usize = 64;

/// Packets that go, and entries that the tree takes in or gives back, in one slice of work.
const WORK_EVICTIONS: usize = 256;
const WORK_ENTRIES: usize = 128;

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

/// A Data packet for the store, checked before.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Where its name's TLV-VALUE stands in it: start and length, octets.
    pub name: (u16, u16),
    /// Of that name; the hash of the whole does while there is [no tree](ContentStore::has_tree).
    pub prefixes: &'a Prefixes,
    /// All of it.
    pub wire: &'a [u8],
    /// FreshnessPeriod, milliseconds; 0 without one.
    pub freshness_ms: u32,
    /// Nobody waits for it. It matters to a policy with ranks only.
    pub unsolicited: bool,
}

impl Incoming<'_> {
    /// True when the name can stand at its place of the packet, behind two types and two lengths, and is one that a packet may have itself.
    #[inline(always)]
    fn is_sound(&self) -> bool {
        let (start, len) = self.name;
        start <= u16::from(u8::MAX)
            && usize::from(start) + usize::from(len) <= self.wire.len()
            && !self.prefixes.has_digest()
    }

    /// "Fresh *for* its FreshnessPeriod"; without one it is never fresh, which is 0.
    #[inline(always)]
    const fn fresh_until(&self, now: Instant) -> u64 {
        if self.freshness_ms == 0 { 0 } else { now.plus_millis(self.freshness_ms as u64).as_nanos() }
    }

    #[inline(always)]
    fn arrival(&self, now: Instant) -> Arrival {
        Arrival { stale_at: self.fresh_until(now).max(now.as_nanos()), unsolicited: self.unsolicited }
    }
}

/// What became of a packet given to [`ContentStore::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// Kept.
    New,
    /// The same packet was there; it counts as just used and is fresh from now on.
    Refreshed,
    /// Not kept: admission is off, it would be the next to go (under a policy with ranks), it is larger than the store or than a packet may be, its name ends with an implicit digest (no packet's own
    /// does) or does not stand where it is said to, or its place in the index is full.
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
    upkeep: Upkeep,
    digests: Lines<[u8; 32]>,
    policy: Policy,
    lookahead: Lookahead,
    len: usize,
    packets_max: usize,
    packets_limit: usize,
    blocks_limit: usize,
    admit: bool,
    serve: bool,
    /// Octets of a packet that is taken in, at most; 0 while none is.
    wire_len_max: usize,
    /// The same for packets that may replace the next victim in its place, see [`settle`](ContentStore::settle).
    replace_len_max: usize,
    counters: CsCounters,
    recent: Recent,
}

impl ContentStore {
    /// Stages of [`prefetch`](Self::prefetch).
    pub const PREFETCH_STAGES: usize = 3;

    /// An empty store. What it may grow to is reserved as address space; memory is taken as packets come.
    pub fn new(key: HashKey, config: CsConfig) -> Self {
        let packets_max = config.packets_max.min(1 << 30);
        let arena = BlockArena::new(config.bytes_max / BLOCK_LEN);
        let mut store = ContentStore {
            key,
            packets_max,
            packets_limit: packets_max,
            blocks_limit: arena.capacity(),
            digests: Lines::sparse(arena.capacity()),
            tree: Tree::new(key, packets_max, arena),
            upkeep: Upkeep::new(),
            policy: Policy::new(),
            lookahead: Lookahead::new(),
            len: 0,
            admit: true,
            serve: true,
            wire_len_max: 0,
            replace_len_max: 0,
            counters: CsCounters::default(),
            recent: Recent::default(),
        };
        store.settle();
        store
    }

    /// False when there is surely no packet of this name (or name and digest): what nearly all Interests that are not answered learn from one
    /// line of the index, or from what [`prefetch`](Self::prefetch) saw there while no packet came since. Counts nothing; [`find`](Self::find) or
    /// [`missed`](Self::missed) does.
    #[inline(always)]
    pub fn may_hold(&self, prefixes: &Prefixes, hint: &CsHint) -> bool {
        !hint.is_absent(self.state()) && self.tree.keys.may_have(prefixes.key())
    }

    /// Which store this is and how many packets came: what is absent stays so while this is the same. Neither 0 nor all ones.
    #[inline(always)]
    fn state(&self) -> u64 {
        (core::ptr::from_ref(self).addr() as u64) << 32 ^ (self.counters.insertions << 1 | 1)
    }

    /// Counts an Interest that asked for what [`may_hold`](Self::may_hold) ruled out.
    #[inline(always)]
    pub const fn missed(&mut self) {
        self.counters.misses += self.serve as u64;
        self.recent.miss();
    }

    /// The packet that answers, if there is one; it counts as used. Of several with the asked name the one that came last answers.
    #[inline]
    pub fn find(&mut self, now: Instant, ask: &Ask<'_>) -> Option<CsRef> {
        if !self.serve {
            return None;
        }
        let mut found = self.exact(now, ask);
        if ask.can_be_prefix && found.is_none() {
            found = self.longer(now, ask);
        }
        let Some(slot) = found else {
            self.counters.misses += 1;
            self.recent.miss();
            return None;
        };
        self.counters.hits += 1;
        self.recent.hit();
        self.policy.used(&mut self.tree.entries, slot);
        Some(CsRef { slot, generation: self.tree.entries[slot as usize].generation })
    }

    /// Until when the packet was fresh that would answer if freshness did not matter; of longer names only those that the tree holds. Nothing is
    /// counted or moved: for people who ask why [`find`](Self::find) found nothing.
    pub fn stale(&mut self, now: Instant, ask: &Ask<'_>) -> Option<Instant> {
        let slot = match self.exact(now, &Ask { must_be_fresh: false, ..*ask }) {
            None if ask.can_be_prefix => match self.tree.search(ask.name, ask.prefixes, None) {
                search::Search::Found(slot) => Some(slot),
                search::Search::Absent | search::Search::GaveUp => None,
            },
            found => found,
        };
        slot.map(|slot| Instant::from_nanos(self.tree.entries[slot as usize].fresh_until))
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
        self.tree.arena.copy_to(found.slot, &mut out[..len]);
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

    /// Keeps a Data packet; others go to make room.
    #[inline(always)]
    pub fn insert(&mut self, now: Instant, packet: &Incoming<'_>) -> Insertion {
        if self.policy.is_plain() && self.replace_victim::<true>(now, packet) {
            return Insertion::New;
        }
        // By value: what is lent here would have to stand in memory before.
        self.insert_any(now, *packet)
    }

    /// The common case in a full store: the packet takes the place of the next victim, which has as many blocks. False when it is not that. `PLAIN` where
    /// the [policy is](Policy::is_plain).
    #[inline(always)]
    fn replace_victim<const PLAIN: bool>(&mut self, now: Instant, packet: &Incoming<'_>) -> bool {
        let last = packet.wire.len().wrapping_sub(1);
        let blocks = last / BLOCK_LEN + 1;
        let full = self.len == self.packets_limit || self.tree.arena.in_use() + blocks > self.blocks_limit;
        if last >= self.replace_len_max || !full || !packet.is_sound() {
            return false;
        }
        let key = packet.prefixes.key();
        // S3-FIFO makes up its mind when asked for the victim: not in vain.
        if !PLAIN && self.tree.keys.may_have(key) {
            return false;
        }
        let entries = &mut self.tree.entries[..];
        let victim = match PLAIN {
            true => self.policy.plain_victim(),
            false => self.policy.victim(entries, now.as_nanos()).map(|(slot, _)| slot),
        };
        let Some(slot) = victim else { return false };
        let entry = &mut entries[slot as usize];
        if (usize::from(entry.wire_len) - 1) / BLOCK_LEN + 1 != blocks {
            return false;
        }
        let Some(vacancy) = self.tree.keys.vacancy(key) else { return false };
        let spot = self.tree.keys.fill(&vacancy, slot);
        if !self.tree.keys.remove_at(entry.spot, entry.key, slot) {
            self.tree.keys.remove(entry.key, slot);
        }
        let stays = PLAIN || self.policy.renews(entries, slot);
        let entry = &mut entries[slot as usize];
        let follower = entry.follower();
        entry.key = key;
        entry.spot = spot;
        entry.fresh_until = packet.fresh_until(now);
        entry.stored = self.counters.insertions as u32;
        entry.wire_len = packet.wire.len() as u16;
        entry.name_len = packet.name.1;
        entry.name_start = packet.name.0 as u8;
        entry.forget_packet();
        self.policy.renewed(entries, slot, packet.arrival(now), stays);
        self.counters.insertions += 1;
        self.counters.evictions += 1;
        self.lookahead.came(entries, slot);
        self.lookahead.goes(&self.tree, follower);
        self.tree.arena.overwrite(slot, packet.wire);
        true
    }

    #[inline(never)]
    fn insert_any(&mut self, now: Instant, packet: Incoming<'_>) -> Insertion {
        if !self.policy.is_plain() && self.replace_victim::<false>(now, &packet) {
            return Insertion::New;
        }
        if !self.admit {
            return Insertion::NotKept;
        }
        let Incoming { name: place, prefixes, wire, .. } = packet;
        if wire.is_empty() || wire.len() > self.wire_len_max || !packet.is_sound() {
            return self.refuse();
        }
        let (key, blocks) = (prefixes.key(), BlockArena::<BLOCK_LEN>::blocks_for(wire.len()));
        let name = &wire[usize::from(place.0)..][..usize::from(place.1)];
        if let Some(known) = self.same_packet(name, key, wire) {
            return self.refresh(now, known, &packet);
        }
        if !self.make_room_for(now, &packet, blocks) {
            return self.refuse();
        }
        let Some(slot) = self.tree.arena.store(wire) else { return self.refuse() };
        let spot = match self.tree.keys.vacancy(key) {
            Some(vacancy) => self.tree.keys.fill(&vacancy, slot),
            None if self.tree.keys.insert(key, slot).is_err() => {
                self.tree.arena.free(slot, wire.len());
                return self.refuse();
            }
            None => Spot::NONE,
        };
        let entry = &mut self.tree.entries[slot as usize];
        *entry = Entry::new(key, (place.0 as u8, place.1), wire.len() as u16, entry.generation);
        entry.spot = spot;
        entry.fresh_until = packet.fresh_until(now);
        entry.stored = self.counters.insertions as u32;
        self.policy.inserted(&mut self.tree.entries, slot, packet.arrival(now));
        self.lookahead.came(&mut self.tree.entries, slot);
        self.len += 1;
        self.counters.insertions += 1;
        if !self.upkeep.is_off() {
            self.tend(now, slot, NameRef::from_checked(name), prefixes);
        }
        if self.len == self.packets_limit || self.tree.arena.in_use() + blocks > self.blocks_limit {
            self.prefetch_victims();
        }
        Insertion::New
    }

    /// Removes packets whose names start with `prefix`, at most `limit`; gives how many. However long it takes:
    /// [`erase_part`](Self::erase_part) goes in slices.
    pub fn erase(&mut self, prefix: NameRef<'_>, limit: usize) -> usize {
        let mut erasing = Erasing::new(limit);
        while !self.erase_part(prefix, &mut erasing) {}
        erasing.erased
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

    /// The bounds it was made for: those in effect are never wider.
    pub fn made_for(&self) -> CsConfig {
        CsConfig { packets_max: self.packets_max, bytes_max: self.tree.arena.capacity() * BLOCK_LEN }
    }

    /// Changes the bounds, up to what the store was made for, and gives the new ones. Packets that are too many go in slices, by
    /// [`work`](Self::work) and as others come.
    pub fn set_limits(&mut self, packets_max: usize, bytes_max: usize) -> CsConfig {
        self.packets_limit = packets_max.min(self.packets_max);
        self.blocks_limit = (bytes_max / BLOCK_LEN).min(self.tree.arena.capacity());
        self.settle();
        self.limits()
    }

    /// True when [`work`](Self::work) should be called soon: packets are to go since the bounds were lowered, or the tree is being made or taken
    /// down.
    pub fn has_work(&self) -> bool {
        self.is_over() || self.upkeep.is_moving()
    }

    /// Does a slice of what there is to do besides packets: some hundred microseconds.
    pub fn work(&mut self, now: Instant) {
        self.shrink(now, WORK_EVICTIONS);
        self.go_on(WORK_ENTRIES);
    }

    /// True while there is more than the bounds allow.
    #[inline]
    const fn is_over(&self) -> bool {
        self.len > self.packets_limit || self.tree.arena.in_use() > self.blocks_limit
    }

    /// How it is chosen what goes.
    pub const fn policy(&self) -> PolicyKind {
        self.policy.kind()
    }

    /// Changes how it is chosen what goes; packets stay. Takes address space, but no time in proportion to them.
    pub fn set_policy(&mut self, kind: PolicyKind) {
        if kind != self.policy.kind() {
            self.policy.set(kind, self.packets_max, self.tree.entries.len());
            self.settle();
        }
    }

    /// Whether packets are taken in.
    pub const fn admits(&self) -> bool {
        self.admit
    }

    /// Switches taking packets in.
    pub fn set_admit(&mut self, admit: bool) {
        self.admit = admit;
        self.settle();
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

    /// True while every packet is found by any prefix of its name, however many there are; see the module.
    pub const fn knows_prefixes(&self) -> bool {
        self.upkeep.is_on()
    }

    /// Prefixes that have a node in the tree, besides `/`.
    pub const fn prefix_nodes(&self) -> usize {
        self.tree.nodes_in_use()
    }

    /// Address space taken, octets; resident memory is at most this.
    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes() + self.digests.memory_bytes() + self.policy.memory_bytes()
    }

    /// Asks for what finding a name will touch, without waiting: call stage 0 for each packet of a batch, then 1. What the latter finds out is kept in
    /// `hint`; true when it may be here and is given away.
    #[inline]
    pub fn prefetch(&self, stage: usize, prefixes: &Prefixes, hint: &CsHint) -> bool {
        match stage {
            // The first line that a hit reads. Where most miss, others are in more of a hurry.
            0 if self.recent.is_mostly_hits() => self.tree.keys.prefetch_soon(prefixes.key()),
            0 => self.tree.keys.prefetch(prefixes.key()),
            1 if !self.serve => {}
            // Most are not here.
            1 if !self.tree.keys.may_have(prefixes.key()) => hint.set_absent(self.state()),
            1 => {
                for id in self.tree.keys.candidates(prefixes.key()) {
                    self.tree.entries.prefetch(id as usize);
                    self.tree.arena.prefetch(id);
                }
                hint.set_maybe_here();
                return true;
            }
            _ => {}
        }
        false
    }

    /// As [`prefetch_insert`](Self::prefetch_insert) for a name of which only the hash is known.
    #[inline(always)]
    pub fn prefetch_hash(&self, hash: u64) {
        self.tree.keys.prefetch(hash);
    }

    /// True while prefixes of names are kept: what is [inserted](Self::insert) needs them all then, and only the hash of the whole otherwise.
    #[inline(always)]
    pub const fn has_tree(&self) -> bool {
        !self.upkeep.is_off()
    }

    /// Asks for what inserting a name will touch, or searching below it: call with each stage of [`prefetch`](Self::prefetch).
    #[inline]
    pub fn prefetch_insert(&self, stage: usize, prefixes: &Prefixes) {
        if stage == 0 {
            self.tree.keys.prefetch(prefixes.key());
        }
        if !self.upkeep.is_off() {
            self.tree.prefetch_link(stage, prefixes);
        }
    }

    /// The newest packet with the asked name, and the asked digest if there is one.
    #[inline]
    fn exact(&mut self, now: Instant, ask: &Ask<'_>) -> Option<u32> {
        if ask.prefixes.has_digest() {
            return self.with_digest(now, ask);
        }
        let mut newest = None;
        for id in self.tree.keys.candidates(ask.prefixes.key()) {
            if self.suits(id, now, ask, ask.name.as_bytes())
                && newest.is_none_or(|other| self.age(id) < self.age(other))
            {
                newest = Some(id);
            }
        }
        newest
    }

    /// The packet with the asked name and digest.
    #[inline(never)]
    fn with_digest(&mut self, now: Instant, ask: &Ask<'_>) -> Option<u32> {
        let (name, digest) = ask.name.as_bytes().split_at(ask.prefixes.key_len());
        if digest.len() != DIGEST_COMPONENT_LEN {
            return None;
        }
        // There are no more than VERSIONS_MAX.
        let suitable =
            self.tree.keys.candidates(ask.prefixes.key()).filter(|id| self.suits(*id, now, ask, name));
        let versions: ArrayVec<u32, VERSIONS_MAX> = suitable.take(VERSIONS_MAX).collect();
        versions.into_iter().find(|id| self.digest(*id)[..] == digest[2..])
    }

    /// True for an entry of this name that is as fresh as was asked.
    #[inline(always)]
    fn suits(&self, id: u32, now: Instant, ask: &Ask<'_>, name: &[u8]) -> bool {
        self.is_named(id, ask.prefixes.key(), name)
            && (!ask.must_be_fresh || self.tree.entries[id as usize].is_fresh(now.as_nanos()))
    }

    /// The entry of the same packet. When there are [`VERSIONS_MAX`] others of its name, the one that came first goes.
    #[inline(never)]
    fn same_packet(&mut self, name: &[u8], key: u64, wire: &[u8]) -> Option<u32> {
        let (mut versions, mut eldest) = (0, NONE);
        for id in self.tree.keys.candidates(key) {
            if self.is_named(id, key, name) {
                let entry = &self.tree.entries[id as usize];
                if usize::from(entry.wire_len) == wire.len() && self.tree.arena.holds(id, 0, wire) {
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

    /// When the store is full it is known what goes next and after that: by then the lines of the latter are here.
    #[inline]
    fn prefetch_victims(&self) {
        let behind = self.policy.behind_victim(&self.tree.entries);
        self.tree.prefetch_removal(behind);
        if let Some(entry) = self.tree.entries.get(behind as usize) {
            self.tree.entries.prefetch(entry.newer as usize);
        }
    }

    /// Works out which packets are taken in. To be called after each change of what that depends on: limits and
    /// what is over them, the switch, the policy, the tree's being off.
    pub(super) fn settle(&mut self) {
        let takes = self.admit && self.packets_limit > 0;
        let wire_len_max = PACKET_LEN_MAX.min(self.blocks_limit * BLOCK_LEN);
        self.wire_len_max = if takes { wire_len_max } else { 0 };
        let may_replace =
            self.upkeep.is_off() && self.policy.kind() != PolicyKind::PriorityFifo && !self.is_over();
        self.replace_len_max = if may_replace { self.wire_len_max } else { 0 };
    }

    #[cold]
    fn refuse(&mut self) -> Insertion {
        self.counters.refusals += 1;
        Insertion::NotKept
    }

    fn refresh(&mut self, now: Instant, slot: u32, packet: &Incoming<'_>) -> Insertion {
        let entry = &mut self.tree.entries[slot as usize];
        entry.fresh_until = packet.fresh_until(now);
        if entry.place.linked != 0 {
            self.tree.raise_fresh_end(slot);
        }
        self.policy.refreshed(&mut self.tree.entries, slot, packet.arrival(now));
        self.counters.refreshes += 1;
        Insertion::Refreshed
    }

    /// True for an entry of this name.
    #[inline(always)]
    fn is_named(&self, id: u32, key: u64, name: &[u8]) -> bool {
        let entry = &self.tree.entries[id as usize];
        entry.key == key && usize::from(entry.name_len) == name.len() && self.tree.starts_with(id, name)
    }

    /// Packets stored since this one.
    #[inline]
    fn age(&self, slot: u32) -> u32 {
        (self.counters.insertions as u32).wrapping_sub(self.tree.entries[slot as usize].stored)
    }

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

    /// Evicts until there is room for a packet of so many blocks; false when that is not to be.
    fn make_room_for(&mut self, now: Instant, packet: &Incoming<'_>, blocks: usize) -> bool {
        for _ in 0..EVICTIONS_MAX {
            let fits =
                self.len < self.packets_limit && self.tree.arena.in_use() + blocks <= self.blocks_limit;
            if fits {
                return true;
            }
            let arrival = packet.arrival(now);
            let now = now.as_nanos();
            let Some((victim, rank)) = self.policy.victim(&mut self.tree.entries, now) else { return false };
            if !self.policy.takes(now, arrival, rank) {
                return false;
            }
            self.evict(victim);
        }
        // Limits were lowered far below what is here: until that has gone, the store may have a few packets more than before.
        self.len < self.packets_max && self.tree.arena.in_use() + blocks <= self.tree.arena.capacity()
    }

    /// Evicts while there is more than the bounds allow, so many packets at most.
    fn shrink(&mut self, now: Instant, packets_max: usize) {
        for _ in 0..packets_max {
            if !self.is_over() {
                break;
            }
            let Some((victim, _)) = self.policy.victim(&mut self.tree.entries, now.as_nanos()) else { break };
            self.evict(victim);
        }
    }

    fn evict(&mut self, victim: u32) {
        self.policy.evicted(&mut self.tree.entries, victim);
        self.forget(victim);
        self.counters.evictions += 1;
    }

    /// Removes an entry that is not a victim.
    fn remove(&mut self, slot: u32) {
        self.policy.removed(&mut self.tree.entries, slot);
        self.forget(slot);
    }

    /// Gives back what an entry that the policy knows no more took.
    #[inline]
    fn forget(&mut self, slot: u32) {
        let entry = &mut self.tree.entries[slot as usize];
        let Entry { key, spot, wire_len, .. } = *entry;
        let linked = entry.place.linked != 0;
        entry.wire_len = 0;
        entry.generation = entry.generation.wrapping_add(1);
        if linked {
            self.tree.unlink(slot);
        }
        if !self.tree.keys.remove_at(spot, key, slot) {
            self.tree.keys.remove(key, slot);
        }
        self.tree.arena.free(slot, usize::from(wire_len));
        self.len -= 1;
        self.settle();
    }

    #[inline]
    fn entry(&self, found: CsRef) -> Option<&Entry> {
        self.tree.entries.get(found.slot as usize).filter(|entry| entry.generation == found.generation)
    }
}
