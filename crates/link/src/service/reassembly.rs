//! Reassembly of fragments, bounded in bytes per face and over all faces.
//!
//! NDNLPv2: fragments of one packet have consecutive Sequences, so Sequence - FragIndex (modulo
//! 2^64) identifies a packet of one sender.
//!
//! An incomplete packet is dropped `timeout` after its latest fragment. The last fifth of that
//! time, the grace period, starts only when [`Reassembler::expire`] runs: after a pause of the
//! process, its sockets hold fragments that must be read first.
//!
//! ```text
//!  waiting ──4/5 of the timeout, seen by expire──▶ grace ──1/5 of the timeout──▶ dropped
//!     ▲                                              │
//!     └──────────────── next fragment ───────────────┘
//! ```

use super::received::ReceivedFields;
use crate::config::ReassemblyLimits;
use crate::counters::DropRecorder;
use nw_element_api::{DropCause, DropReason, SharedPool, Timestamp};
use nw_wire::{Fault, LpPacket, PACKET_LEN_MAX};
use std::collections::HashMap;

/// The grace period is the timeout divided by this.
const GRACE_DIVISOR: u32 = 5;

/// Index of no slot.
const NO_SLOT: u32 = u32::MAX;

/// List of the packets that wait for more fragments.
const WAITING: usize = 0;

/// List of the packets in their grace period.
const GRACE: usize = 1;

/// Packets examined to find one of the sender that holds most.
const VICTIMS_MAX: usize = 32;

/// Completed packets whose memory is kept for the next ones.
const RECYCLED_MAX: usize = 16;

/// Bytes of fragments that all faces of a shard may hold together, and that they do hold.
#[derive(Debug)]
pub struct ReassemblyBudget {
    limits: ReassemblyLimits,
    bytes: usize,
    /// Completed packets, kept for their memory.
    recycled: Vec<IncompletePacket>,
}

impl ReassemblyBudget {
    /// Creates an empty budget.
    pub const fn new(limits: ReassemblyLimits) -> Self {
        ReassemblyBudget { limits, bytes: 0, recycled: Vec::new() }
    }

    /// Returns the bytes held by all faces.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps the memory of a packet that was completed and copied.
    pub fn recycle(&mut self, partial: IncompletePacket) {
        if self.recycled.len() < RECYCLED_MAX {
            self.recycled.push(partial);
        }
    }

    /// Returns a packet of `count` fragments, none of which has arrived.
    fn new_packet(
        &mut self,
        key: (u64, u64),
        received: ReceivedFields,
        count: usize,
        now: Timestamp,
    ) -> IncompletePacket {
        let (mut ranges, mut bytes) = self
            .recycled
            .pop()
            .map_or_else(Default::default, |packet| (packet.ranges, packet.bytes));
        ranges.clear();
        ranges.resize(count, (0, 0));
        bytes.clear();
        IncompletePacket {
            key,
            received,
            arrived: 0,
            ranges,
            bytes,
            deadline: now,
            in_grace: false,
        }
    }
}

/// Incomplete packets of one face.
#[derive(Debug, Default)]
pub struct Reassembler {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    index: HashMap<(u64, u64), u32>,
    /// Slot of the latest fragment's packet: most fragments arrive in a row.
    latest: u32,
    /// The packets that wait and those in their grace period (`WAITING`, `GRACE`), each list with
    /// the earliest deadline first.
    lists: [SlotList; 2],
    /// Bytes of each sender, on faces with several peers.
    senders: HashMap<u64, usize>,
    bytes: usize,
}

/// A slot for one incomplete packet, and its neighbours in its list.
#[derive(Debug)]
struct Slot {
    partial: Option<IncompletePacket>,
    previous: u32,
    next: u32,
}

/// First and last slot of a doubly linked list.
#[derive(Clone, Copy, Debug)]
struct SlotList {
    first: u32,
    last: u32,
}

impl Default for SlotList {
    fn default() -> Self {
        SlotList { first: NO_SLOT, last: NO_SLOT }
    }
}

/// An incomplete packet.
#[derive(Debug)]
pub struct IncompletePacket {
    /// Sender, and Sequence of the first fragment.
    key: (u64, u64),
    /// Fields of the first fragment received.
    received: ReceivedFields,
    /// Fragments that have arrived.
    arrived: u64,
    /// Start and length in `bytes` of each fragment, by index; length 0 until it arrives (the
    /// decoder rejects empty fragments).
    ranges: Vec<(u32, u32)>,
    /// Payloads in the order of arrival.
    bytes: Vec<u8>,
    /// When the grace period starts, or, within it, when the packet is dropped.
    deadline: Timestamp,
    in_grace: bool,
}

impl IncompletePacket {
    /// Returns the bytes charged for it.
    fn cost(&self) -> usize {
        cost(self.ranges.len(), self.bytes.len())
    }

    /// Returns the bytes that have arrived: the packet's length once it is complete.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes the fragments in order into `out`, which must be as long as the packet.
    pub fn copy_to(&self, out: &mut [u8]) {
        let mut at = 0;
        for (start, len) in &self.ranges {
            let payload = &self.bytes[*start as usize..(*start + *len) as usize];
            out[at..at + payload.len()].copy_from_slice(payload);
            at += payload.len();
        }
    }
}

const fn cost(count: usize, bytes: usize) -> usize {
    size_of::<IncompletePacket>() + count * size_of::<(u32, u32)>() + bytes
}

impl Reassembler {
    /// Returns whether no packet is incomplete.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Returns the number of incomplete packets.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns when [`expire`](Self::expire) must be called next. `None`: no need.
    pub fn deadline(&self) -> Option<Timestamp> {
        let firsts = self.lists.iter().filter_map(|list| self.partial(list.first));
        firsts.map(|partial| partial.deadline).min()
    }

    /// Takes a fragment of a checked link packet. Returns the packet if this fragment completes it.
    /// Drops are counted in fragments.
    pub fn push(
        &mut self,
        now: Timestamp,
        sender: u64,
        lp: &LpPacket<'_>,
        received: ReceivedFields,
        budget: &mut ReassemblyBudget,
        drops: &mut DropRecorder<'_>,
    ) -> Option<(ReceivedFields, IncompletePacket)> {
        let (Some(sequence), Some(payload)) = (lp.sequence, lp.fragment) else { return None };
        let (index, count) = (lp.frag_index as usize, lp.frag_count as usize);
        let key = (sender, sequence.wrapping_sub(lp.frag_index));
        let slot = self.find(key);
        let (mut arrived, mut len) = (0, 0);
        if let Some(partial) = self.partial(slot) {
            (arrived, len) = (partial.arrived, partial.bytes.len());
            if partial.ranges.len() != count {
                drops.record(DropCause::ReassemblyConflict, 1);
                return None;
            }
            if partial.ranges[index].1 != 0 {
                drops.record(DropCause::DuplicateSequence, 1);
                return None;
            }
        }
        let refusal = if len + payload.len() > PACKET_LEN_MAX {
            Some(DropReason::Malformed(Fault::TooLong))
        } else {
            let added = if slot == NO_SLOT { cost(count, payload.len()) } else { payload.len() };
            (!self.evict_until_fits(added, slot, budget, drops))
                .then_some(DropCause::ReassemblyFull.into())
        };
        if let Some(reason) = refusal {
            drop(self.take(slot, budget));
            drops.record(reason, arrived + 1);
            return None;
        }
        let slot = match slot {
            NO_SLOT => self.insert(budget.new_packet(key, received, count, now), budget),
            slot => slot,
        };
        self.unlink(slot);
        let partial = self.slots[slot as usize].partial.as_mut()?;
        partial.add(index, payload, received);
        partial.deadline = now + (budget.limits.timeout - budget.limits.timeout / GRACE_DIVISOR);
        partial.in_grace = false;
        let is_whole = partial.arrived == count as u64;
        self.charge(sender, payload.len(), budget);
        self.link(slot);
        self.latest = slot;
        if is_whole {
            return self.take(slot, budget).map(|partial| (partial.received, partial));
        }
        None
    }

    /// Drops packets whose grace period is over, and starts it for those whose waiting time is
    /// over.
    pub fn expire(
        &mut self,
        now: Timestamp,
        budget: &mut ReassemblyBudget,
        drops: &mut DropRecorder<'_>,
    ) {
        while self.is_due(GRACE, now) {
            if let Some(partial) = self.take(self.lists[GRACE].first, budget) {
                drops.record(DropCause::ReassemblyTimeout, partial.arrived);
            }
        }
        while self.is_due(WAITING, now) {
            let slot = self.lists[WAITING].first;
            self.unlink(slot);
            if let Some(partial) = &mut self.slots[slot as usize].partial {
                partial.in_grace = true;
                partial.deadline = now + budget.limits.timeout / GRACE_DIVISOR;
            }
            self.link(slot);
        }
    }

    /// Drops all incomplete packets.
    pub fn clear(&mut self, budget: &mut ReassemblyBudget, drops: &mut DropRecorder<'_>) {
        while let Some(partial) = self.take(self.oldest(NO_SLOT), budget) {
            drops.record(DropCause::ReassemblyTimeout, partial.arrived);
        }
    }

    fn is_due(&self, list: usize, now: Timestamp) -> bool {
        self.partial(self.lists[list].first).is_some_and(|partial| partial.deadline <= now)
    }

    /// Drops packets of this face, but not the one in `slot`, until `bytes` more fit. Returns false
    /// if they still don't.
    ///
    /// A face may hold as much as is free. So the face with most must drop first, and no face keeps
    /// others from having a share.
    fn evict_until_fits(
        &mut self,
        bytes: usize,
        slot: u32,
        budget: &mut ReassemblyBudget,
        drops: &mut DropRecorder<'_>,
    ) -> bool {
        let limits = budget.limits;
        let other_faces_bytes = budget.bytes - self.bytes;
        let shared_max = limits.bytes_max_all.saturating_sub(other_faces_bytes) / 2;
        if self.bytes + bytes > shared_max && shared_max < limits.bytes_max {
            drops.total.shortages.record(SharedPool::Reassembly);
        }
        let bytes_max = limits.bytes_max.min(shared_max);
        let packets_max = limits.packets_max - usize::from(slot == NO_SLOT);
        while self.len() > packets_max || self.bytes + bytes > bytes_max {
            let Some(victim) = self.take(self.victim(slot), budget) else { return false };
            drops.record(DropCause::ReassemblyFull, victim.arrived);
        }
        true
    }

    /// Returns the packet to drop: the oldest of a sender that holds more than half of the face's
    /// bytes, or the oldest of all.
    fn victim(&self, except: u32) -> u32 {
        let mut slot = self.oldest(except);
        for _ in 0..VICTIMS_MAX {
            let Some(partial) = self.partial(slot) else { break };
            let sender_bytes = self.senders.get(&partial.key.0).copied().unwrap_or(self.bytes);
            if sender_bytes > self.bytes / 2 && slot != except {
                return slot;
            }
            slot = self.slots[slot as usize].next;
        }
        self.oldest(except)
    }

    /// Returns the packet with the earliest deadline, except the one given.
    fn oldest(&self, except: u32) -> u32 {
        for list in [self.lists[GRACE], self.lists[WAITING]] {
            match list.first {
                NO_SLOT => {}
                first if first != except => return first,
                first if self.slots[first as usize].next != NO_SLOT => {
                    return self.slots[first as usize].next;
                }
                _ => {}
            }
        }
        NO_SLOT
    }

    fn partial(&self, slot: u32) -> Option<&IncompletePacket> {
        self.slots.get(slot as usize)?.partial.as_ref()
    }

    fn find(&self, key: (u64, u64)) -> u32 {
        if self.partial(self.latest).is_some_and(|partial| partial.key == key) {
            return self.latest;
        }
        self.index.get(&key).copied().unwrap_or(NO_SLOT)
    }

    fn insert(&mut self, partial: IncompletePacket, budget: &mut ReassemblyBudget) -> u32 {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot { partial: None, previous: NO_SLOT, next: NO_SLOT });
            self.slots.len() as u32 - 1
        });
        self.index.insert(partial.key, slot);
        self.charge(partial.key.0, partial.cost(), budget);
        self.slots[slot as usize].partial = Some(partial);
        self.link(slot);
        slot
    }

    fn take(&mut self, slot: u32, budget: &mut ReassemblyBudget) -> Option<IncompletePacket> {
        self.partial(slot)?;
        self.unlink(slot);
        let partial = self.slots[slot as usize].partial.take()?;
        self.vacant.push(slot);
        self.index.remove(&partial.key);
        let (sender, cost) = (partial.key.0, partial.cost());
        self.bytes -= cost;
        budget.bytes -= cost;
        if sender != 0
            && let Some(sender_bytes) = self.senders.get_mut(&sender)
        {
            *sender_bytes -= cost;
            if *sender_bytes == 0 {
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

    /// Appends a packet to its list. Its deadline is the latest there, as each list has one
    /// duration.
    fn link(&mut self, slot: u32) {
        let list = usize::from(self.partial(slot).is_some_and(|partial| partial.in_grace));
        let last = core::mem::replace(&mut self.lists[list].last, slot);
        (self.slots[slot as usize].previous, self.slots[slot as usize].next) = (last, NO_SLOT);
        match self.slots.get_mut(last as usize) {
            Some(last) => last.next = slot,
            None => self.lists[list].first = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let list = usize::from(self.partial(slot).is_some_and(|partial| partial.in_grace));
        let Slot { previous, next, .. } = self.slots[slot as usize];
        match self.slots.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.lists[list].first = next,
        }
        match self.slots.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.lists[list].last = previous,
        }
    }
}

impl IncompletePacket {
    fn add(&mut self, index: usize, payload: &[u8], received: ReceivedFields) {
        self.ranges[index] = (self.bytes.len() as u32, payload.len() as u32);
        self.bytes.extend_from_slice(payload);
        self.arrived += 1;
        // "The first fragment carries the other headers", but each has its own congestion mark.
        let mark = self.received.congestion_mark.max(received.congestion_mark);
        if index == 0 {
            self.received = received;
        }
        self.received.congestion_mark = mark;
    }
}
