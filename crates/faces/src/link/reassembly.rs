//! Fragments to whole packets. Bounded in bytes by face and over all faces; what is not whole in time is given up.
//!
//! Of the time allowed the last part is counted from the moment when somebody sees that it begins: a program that was held up has pieces waiting in its
//! sockets, and is to read them first.
//!
//! NDNLPv2: fragments of one packet have consecutive Sequences, so Sequence - FragIndex (modulo 2^64) names the packet of
//! one sender.

use super::{Received, Tally};
use crate::config::ReassemblyLimits;
use nw_element_api::{Cause, DropReason, Instant, SharedPool};
use nw_wire::{Fault, LpPacket, PACKET_LEN_MAX};
use std::collections::HashMap;

/// The last part of the time allowed, of the whole.
const LAST_PART: u32 = 5;

/// No slot.
const NO_SLOT: u32 = u32::MAX;

/// Packets looked at to find one of the sender that holds most.
const VICTIMS_MAX: usize = 32;

/// Packets whose memory is kept for the next ones.
const SPARE_MAX: usize = 16;

/// What all faces of a shard may hold in pieces together, and how much they do.
#[derive(Debug)]
pub struct ReassemblyBudget {
    limits: ReassemblyLimits,
    bytes: usize,
    /// Those that became whole, for their memory.
    spare: Vec<Partial>,
}

impl ReassemblyBudget {
    /// Nothing held yet.
    pub const fn new(limits: ReassemblyLimits) -> Self {
        ReassemblyBudget { limits, bytes: 0, spare: Vec::new() }
    }

    /// Octets held by all faces.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes back a packet that was whole and has been copied.
    pub fn give_back(&mut self, partial: Partial) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(partial);
        }
    }

    /// A packet of `count` pieces, none of which is there.
    fn begin(&mut self, key: (u64, u64), received: Received, count: usize, now: Instant) -> Partial {
        let (mut places, mut bytes) =
            self.spare.pop().map_or_else(Default::default, |spare| (spare.places, spare.bytes));
        places.clear();
        places.resize(count, (0, 0));
        bytes.clear();
        Partial { key, received, pieces: 0, places, bytes, deadline: now, last_chance: false }
    }
}

/// Packets in pieces of one face.
#[derive(Debug, Default)]
pub struct Reassembler {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    index: HashMap<(u64, u64), u32>,
    /// Where the last fragment went: most come in a row.
    latest: u32,
    /// Those whose time runs, and those that have their last chance. In each, the one whose time ends first is at the beginning.
    queues: [Queue; 2],
    /// Bytes of each sender, where there may be several.
    senders: HashMap<u64, usize>,
    bytes: usize,
}

/// A place for a packet in pieces, and its neighbours in its queue.
#[derive(Debug)]
struct Slot {
    partial: Option<Partial>,
    before: u32,
    behind: u32,
}

/// The ends of a linked list of slots.
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Queue { first: NO_SLOT, last: NO_SLOT }
    }
}

/// A packet in pieces.
#[derive(Debug)]
pub struct Partial {
    key: (u64, u64),
    received: Received,
    /// Pieces that are there.
    pieces: u64,
    /// Where the piece of each index stands in `bytes`; length 0 when it is not there (empty fragments are refused on decoding).
    places: Vec<(u32, u32)>,
    /// Pieces in the order they came.
    bytes: Vec<u8>,
    /// When it is given its last chance, or given up.
    deadline: Instant,
    last_chance: bool,
}

impl Partial {
    /// Octets of memory it stands for.
    fn cost(&self) -> usize {
        cost(self.places.len(), self.bytes.len())
    }

    /// Octets of the whole packet.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Puts the pieces in order into `out`, which is as long as the whole packet.
    pub fn copy_to(&self, out: &mut [u8]) {
        let mut at = 0;
        for (start, len) in &self.places {
            let piece = &self.bytes[*start as usize..(*start + *len) as usize];
            out[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
    }
}

const fn cost(count: usize, bytes: usize) -> usize {
    size_of::<Partial>() + count * size_of::<(u32, u32)>() + bytes
}

impl Reassembler {
    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Packets in pieces.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// When [`expire`](Self::expire) is to be called.
    pub fn deadline(&self) -> Option<Instant> {
        let firsts = self.queues.iter().filter_map(|queue| self.partial(queue.first));
        firsts.map(|partial| partial.deadline).min()
    }

    /// Takes a fragment of a checked link packet; gives the whole packet when this was the last piece. Drops are counted in fragments.
    pub fn push(
        &mut self,
        now: Instant,
        sender: u64,
        lp: &LpPacket<'_>,
        received: Received,
        budget: &mut ReassemblyBudget,
        tally: &mut Tally<'_>,
    ) -> Option<(Received, Partial)> {
        let (Some(sequence), Some(piece)) = (lp.sequence, lp.fragment) else { return None };
        let (index, count) = (lp.frag_index as usize, lp.frag_count as usize);
        let key = (sender, sequence.wrapping_sub(lp.frag_index));
        let known = self.find(key);
        let (mut pieces, mut len) = (0, 0);
        if let Some(partial) = self.partial(known) {
            (pieces, len) = (partial.pieces, partial.bytes.len());
            if partial.places.len() != count {
                tally.drops(Cause::ReassemblyConflict, 1);
                return None;
            }
            if partial.places[index].1 != 0 {
                tally.drops(Cause::DuplicateSequence, 1);
                return None;
            }
        }
        let refused = if len + piece.len() > PACKET_LEN_MAX {
            Some(DropReason::Malformed(Fault::TooLong))
        } else {
            let more = if known == NO_SLOT { cost(count, piece.len()) } else { piece.len() };
            (!self.make_room(more, known, budget, tally)).then_some(Cause::ReassemblyFull.into())
        };
        if let Some(reason) = refused {
            drop(self.take(known, budget));
            tally.drops(reason, pieces + 1);
            return None;
        }
        let slot = match known {
            NO_SLOT => self.insert(budget.begin(key, received, count, now), budget),
            known => known,
        };
        self.unlink(slot);
        let partial = self.slots[slot as usize].partial.as_mut()?;
        partial.add(index, piece, received);
        partial.deadline = now + (budget.limits.timeout - budget.limits.timeout / LAST_PART);
        partial.last_chance = false;
        let is_whole = partial.pieces == count as u64;
        self.charge(sender, piece.len(), budget);
        self.link(slot);
        self.latest = slot;
        if is_whole {
            return self.take(slot, budget).map(|partial| (partial.received, partial));
        }
        None
    }

    /// Gives up what was not whole in time.
    pub fn expire(&mut self, now: Instant, budget: &mut ReassemblyBudget, tally: &mut Tally<'_>) {
        let [running, last_chance] = [0, 1];
        while self.is_due(last_chance, now) {
            if let Some(partial) = self.take(self.queues[last_chance].first, budget) {
                tally.drops(Cause::ReassemblyTimeout, partial.pieces);
            }
        }
        while self.is_due(running, now) {
            let slot = self.queues[running].first;
            self.unlink(slot);
            if let Some(partial) = &mut self.slots[slot as usize].partial {
                partial.last_chance = true;
                partial.deadline = now + budget.limits.timeout / LAST_PART;
            }
            self.link(slot);
        }
    }

    /// Gives up all.
    pub fn clear(&mut self, budget: &mut ReassemblyBudget, tally: &mut Tally<'_>) {
        while let Some(partial) = self.take(self.oldest(NO_SLOT), budget) {
            tally.drops(Cause::ReassemblyTimeout, partial.pieces);
        }
    }

    fn is_due(&self, queue: usize, now: Instant) -> bool {
        self.partial(self.queues[queue].first).is_some_and(|partial| partial.deadline <= now)
    }

    /// Pushes out packets of this face, but not the one in `slot`, until `bytes` more fit; false when they don't even so.
    ///
    /// A face may hold as much as is free beside it, so the face with most has to push out first, and none keeps others from having anything.
    fn make_room(
        &mut self,
        bytes: usize,
        slot: u32,
        budget: &mut ReassemblyBudget,
        tally: &mut Tally<'_>,
    ) -> bool {
        let limits = budget.limits;
        let others = budget.bytes - self.bytes;
        let shared_max = limits.bytes_max_all.saturating_sub(others) / 2;
        if self.bytes + bytes > shared_max && shared_max < limits.bytes_max {
            tally.all.shortages.record(SharedPool::Reassembly);
        }
        let bytes_max = limits.bytes_max.min(shared_max);
        let packets_max = limits.packets_max - usize::from(slot == NO_SLOT);
        while self.len() > packets_max || self.bytes + bytes > bytes_max {
            let Some(victim) = self.take(self.victim(slot), budget) else { return false };
            tally.drops(Cause::ReassemblyFull, victim.pieces);
        }
        true
    }

    /// The packet that gives way: the oldest of a sender that holds more than half of what the face does, or the oldest of all.
    fn victim(&self, except: u32) -> u32 {
        let mut slot = self.oldest(except);
        for _ in 0..VICTIMS_MAX {
            let Some(partial) = self.partial(slot) else { break };
            let held = self.senders.get(&partial.key.0).copied().unwrap_or(self.bytes);
            if held > self.bytes / 2 && slot != except {
                return slot;
            }
            slot = self.slots[slot as usize].behind;
        }
        self.oldest(except)
    }

    /// The packet whose time ends first, but for one.
    fn oldest(&self, except: u32) -> u32 {
        for queue in [self.queues[1], self.queues[0]] {
            match queue.first {
                NO_SLOT => {}
                first if first != except => return first,
                first if self.slots[first as usize].behind != NO_SLOT => {
                    return self.slots[first as usize].behind;
                }
                _ => {}
            }
        }
        NO_SLOT
    }

    fn partial(&self, slot: u32) -> Option<&Partial> {
        self.slots.get(slot as usize)?.partial.as_ref()
    }

    fn find(&self, key: (u64, u64)) -> u32 {
        if self.partial(self.latest).is_some_and(|partial| partial.key == key) {
            return self.latest;
        }
        self.index.get(&key).copied().unwrap_or(NO_SLOT)
    }

    fn insert(&mut self, partial: Partial, budget: &mut ReassemblyBudget) -> u32 {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot { partial: None, before: NO_SLOT, behind: NO_SLOT });
            self.slots.len() as u32 - 1
        });
        self.index.insert(partial.key, slot);
        self.charge(partial.key.0, partial.cost(), budget);
        self.slots[slot as usize].partial = Some(partial);
        self.link(slot);
        slot
    }

    fn take(&mut self, slot: u32, budget: &mut ReassemblyBudget) -> Option<Partial> {
        self.partial(slot)?;
        self.unlink(slot);
        let partial = self.slots[slot as usize].partial.take()?;
        self.vacant.push(slot);
        self.index.remove(&partial.key);
        let (sender, cost) = (partial.key.0, partial.cost());
        self.bytes -= cost;
        budget.bytes -= cost;
        if sender != 0
            && let Some(held) = self.senders.get_mut(&sender)
        {
            *held -= cost;
            if *held == 0 {
                self.senders.remove(&sender);
            }
        }
        Some(partial)
    }

    fn charge(&mut self, sender: u64, bytes: usize, budget: &mut ReassemblyBudget) {
        self.bytes += bytes;
        budget.bytes += bytes;
        if sender != 0 {
            *self.senders.entry(sender).or_default() += bytes;
        }
    }

    /// Puts a packet at the end of its queue: its time ends last there, as each queue has one duration and time goes on.
    fn link(&mut self, slot: u32) {
        let queue = usize::from(self.partial(slot).is_some_and(|partial| partial.last_chance));
        let last = core::mem::replace(&mut self.queues[queue].last, slot);
        (self.slots[slot as usize].before, self.slots[slot as usize].behind) = (last, NO_SLOT);
        match self.slots.get_mut(last as usize) {
            Some(last) => last.behind = slot,
            None => self.queues[queue].first = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let queue = usize::from(self.partial(slot).is_some_and(|partial| partial.last_chance));
        let Slot { before, behind, .. } = self.slots[slot as usize];
        match self.slots.get_mut(before as usize) {
            Some(before) => before.behind = behind,
            None => self.queues[queue].first = behind,
        }
        match self.slots.get_mut(behind as usize) {
            Some(behind) => behind.before = before,
            None => self.queues[queue].last = before,
        }
    }
}

impl Partial {
    fn add(&mut self, index: usize, piece: &[u8], received: Received) {
        self.places[index] = (self.bytes.len() as u32, piece.len() as u32);
        self.bytes.extend_from_slice(piece);
        self.pieces += 1;
        // "The first fragment carries the other headers", but each is marked on its own.
        let mark = self.received.congestion_mark.max(received.congestion_mark);
        if index == 0 {
            self.received = received;
        }
        self.received.congestion_mark = mark;
    }
}
