//! Fragments to whole packets. Bounded in packets and octets per face and in octets over all faces; what is not whole in time is given up.
//!
//! Of the time allowed the last part is counted from the moment when somebody sees that it begins: a program that was held up has pieces waiting in its
//! sockets, and is to read them first.
//!
//! NDNLPv2: fragments of one packet have consecutive Sequences, so Sequence - FragIndex (modulo 2^64) names the packet of
//! one sender.

use super::{Received, Tally};
use crate::config::ReassemblyLimits;
use nw_element::{Cause, DropReason, Instant};
use nw_wire::{Fault, LpPacket, PACKET_LEN_MAX};

/// The last part of the time allowed, of the whole.
const LAST_PART: u32 = 5;

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

/// Packets in pieces of one face, the one whose time ends first at the beginning.
#[derive(Debug, Default)]
pub struct Reassembler {
    partials: Vec<Partial>,
    bytes: usize,
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
        self.partials.is_empty()
    }

    /// Packets in pieces.
    pub fn len(&self) -> usize {
        self.partials.len()
    }

    /// When [`expire`](Self::expire) is to be called.
    pub fn deadline(&self) -> Option<Instant> {
        // They are kept in the order of their deadlines.
        self.partials.first().map(|partial| partial.deadline)
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
        let mut partial = match self.partials.iter().position(|partial| partial.key == key) {
            Some(at) => self.take(at, budget),
            None => budget.begin(key, received, count, now),
        };
        let refused = if partial.places.len() != count {
            Some(DropReason::from(Cause::ReassemblyConflict))
        } else if partial.places[index].1 != 0 {
            Some(Cause::DuplicateSequence.into())
        } else {
            None
        };
        if let Some(reason) = refused {
            tally.drops(reason, 1);
            self.keep(partial, budget);
            return None;
        }
        if partial.bytes.len() + piece.len() > PACKET_LEN_MAX {
            tally.drops(DropReason::Malformed(Fault::TooLong), partial.pieces + 1);
            return None;
        }
        if !self.make_room(cost(count, partial.bytes.len() + piece.len()), budget, tally) {
            tally.drops(Cause::ReassemblyFull, partial.pieces + 1);
            return None;
        }
        partial.add(index, piece, received);
        partial.deadline = now + (budget.limits.timeout - budget.limits.timeout / LAST_PART);
        partial.last_chance = false;
        if partial.pieces == count as u64 {
            return Some((partial.received, partial));
        }
        self.keep(partial, budget);
        None
    }

    /// Gives up what was not whole in time.
    pub fn expire(&mut self, now: Instant, budget: &mut ReassemblyBudget, tally: &mut Tally<'_>) {
        while self.partials.first().is_some_and(|partial| partial.deadline <= now) {
            let mut partial = self.take(0, budget);
            if partial.last_chance {
                tally.drops(Cause::ReassemblyTimeout, partial.pieces);
            } else {
                partial.last_chance = true;
                partial.deadline = now + budget.limits.timeout / LAST_PART;
                self.keep(partial, budget);
            }
        }
    }

    /// Gives up all.
    pub fn clear(&mut self, budget: &mut ReassemblyBudget, tally: &mut Tally<'_>) {
        while !self.partials.is_empty() {
            let partial = self.take(0, budget);
            tally.drops(Cause::ReassemblyTimeout, partial.pieces);
        }
    }

    /// Pushes out the oldest of this face until `bytes` more fit; false when they don't even so.
    fn make_room(&mut self, bytes: usize, budget: &mut ReassemblyBudget, tally: &mut Tally<'_>) -> bool {
        let limits = budget.limits;
        while self.partials.len() >= limits.packets_max
            || self.bytes + bytes > limits.bytes_max
            || budget.bytes + bytes > limits.bytes_max_all
        {
            if self.partials.is_empty() {
                return false;
            }
            let oldest = self.take(0, budget);
            tally.drops(Cause::ReassemblyFull, oldest.pieces);
        }
        true
    }

    fn take(&mut self, at: usize, budget: &mut ReassemblyBudget) -> Partial {
        let partial = self.partials.remove(at);
        self.bytes -= partial.cost();
        budget.bytes -= partial.cost();
        partial
    }

    fn keep(&mut self, partial: Partial, budget: &mut ReassemblyBudget) {
        self.bytes += partial.cost();
        budget.bytes += partial.cost();
        // A duplicate does not prolong a packet's time, so the order by deadline has to be sought.
        let at = self.partials.partition_point(|other| other.deadline <= partial.deadline);
        self.partials.insert(at, partial);
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
