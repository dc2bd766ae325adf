//! The table of slots: weighted rendezvous hashing with a bound on each member's load.

use crate::rules::{Decision, Rules};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use nw_name::{HashKey, NameRef};

/// Bits of a mixed hash that choose the slot.
const SLOT_BITS: u32 = 17;
/// An odd number without a pattern: the fraction of the golden ratio.
const SLOT_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Slots of the table.
pub const SLOTS: usize = 1 << SLOT_BITS;
/// Most members there may be; their numbers are 1 to this.
pub const MEMBERS_MAX: u8 = 63;
/// What a slot has when no member takes names.
pub const NO_MEMBER: u8 = 0;
/// No member has more than its fair share times this many hundredths, and a slot.
const LOAD_MAX_PERCENT: u64 = 102;

/// One member, as the table sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// 1 to [`MEMBERS_MAX`]; what the slots hold.
    pub number: u8,
    /// What the member's slots depend on, besides the seed: stable over restarts and the same at each balancer, as a hash of its name is.
    pub id: u64,
    /// Its share is this over the sum of all weights; 0 takes nothing.
    pub weight: u32,
    /// False while it is joining, draining or failed: it has no slot, and keeps its number.
    pub takes_names: bool,
}

/// Which member serves each slot.
#[derive(Clone, PartialEq, Eq)]
pub struct Table {
    slots: Box<[u8]>,
}

impl Table {
    /// The table of these members: the same for the same members (in any order) and seed. A member that joins takes slots from the others and
    /// none moves between them, but for what the load bound makes go (no slot in clusters of a few members, some per mille in large ones).
    ///
    /// Members with a number out of range are left out, and of several with one number all but the first.
    pub fn compute(members: &[Member], seed: u64) -> Table {
        let mut candidates = candidates(members);
        let total: u64 = candidates.iter().map(|c| u64::from(c.weight)).sum();
        for candidate in &mut candidates {
            let fair_times_100 = u128::from(candidate.weight) * SLOTS as u128 * u128::from(LOAD_MAX_PERCENT);
            candidate.room = (fair_times_100 / (100 * u128::from(total))) as usize + 1;
        }
        let mut slots = vec![NO_MEMBER; SLOTS].into_boxed_slice();
        if !candidates.is_empty() {
            for (slot, served_by) in slots.iter_mut().enumerate() {
                *served_by = choose(&mut candidates, slot as u64, seed);
            }
        }
        Table { slots }
    }

    /// The member of each slot, [`NO_MEMBER`] where there is none: what the kernel is given.
    pub fn slots(&self) -> &[u8] {
        &self.slots
    }

    /// From slots as [`slots`](Self::slots) gives them; `None` when they are not [`SLOTS`].
    pub fn from_slots(slots: &[u8]) -> Option<Table> {
        (slots.len() == SLOTS).then(|| Table { slots: slots.into() })
    }

    /// The slot of a hash. The hash is mixed once more: its own bits of names that are numbered are not even enough for shares, as a step
    /// of it is one product.
    pub const fn slot_of(hash: u64) -> usize {
        ((hash ^ hash >> 32).wrapping_mul(SLOT_MULTIPLIER) >> (64 - SLOT_BITS)) as usize
    }

    /// The member that serves a hash; [`NO_MEMBER`] when there is none.
    pub fn member_of(&self, hash: u64) -> u8 {
        self.slots[Table::slot_of(hash)]
    }

    /// The part of all slots that a member has, 0 to 1.
    pub fn share(&self, number: u8) -> f64 {
        self.slots.iter().filter(|served_by| **served_by == number).count() as f64 / SLOTS as f64
    }

    /// The part of all slots that another table gives to another member, 0 to 1.
    pub fn moved(&self, other: &Table) -> f64 {
        self.slots.iter().zip(&other.slots).filter(|(a, b)| a != b).count() as f64 / SLOTS as f64
    }
}

impl core::fmt::Debug for Table {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let numbers: Vec<_> =
            (1..=MEMBERS_MAX).map(|number| (number, self.share(number))).filter(|(_, s)| *s > 0.0).collect();
        f.debug_struct("Table").field("shares", &numbers).finish()
    }
}

/// Where a name is served, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// What the rules say: the hash, or that it is the control member's.
    pub decision: Decision,
    /// The slot; `None` for names of the control member.
    pub slot: Option<usize>,
    /// The member's number; [`NO_MEMBER`] when there is none.
    pub member: u8,
}

/// The member that serves a name.
pub fn where_is(name: NameRef<'_>, key: &HashKey, rules: &Rules, table: &Table, control: u8) -> Served {
    let decision = rules.decide(name, key);
    match decision.hash {
        None => Served { decision, slot: None, member: control },
        Some(hash) => Served { decision, slot: Some(Table::slot_of(hash)), member: table.member_of(hash) },
    }
}

/// A member that takes names.
struct Candidate {
    number: u8,
    id: u64,
    weight: u32,
    /// Slots that it may still take.
    room: usize,
}

/// Those that take names, by number, each once.
fn candidates(members: &[Member]) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for member in members {
        let valid = (1..=MEMBERS_MAX).contains(&member.number);
        if valid && !candidates.iter().any(|c| c.number == member.number) {
            let weight = if member.takes_names { member.weight } else { 0 };
            candidates.push(Candidate { number: member.number, id: member.id, weight, room: 0 });
        }
    }
    candidates.retain(|candidate| candidate.weight > 0);
    candidates.sort_unstable_by_key(|candidate| (candidate.id, candidate.number));
    candidates
}

/// The candidate of the least cost that has room: it is given the slot.
fn choose(candidates: &mut [Candidate], slot: u64, seed: u64) -> u8 {
    let mut best: Option<(f64, &mut Candidate)> = None;
    for candidate in candidates.iter_mut().filter(|candidate| candidate.room > 0) {
        let cost = cost(mix(mix(seed ^ candidate.id) ^ slot)) / f64::from(candidate.weight);
        // The first of equals, which is the one of the lowest id.
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, candidate));
        }
    }
    // Each has room for its fair share and a slot more, so somebody has room.
    best.map_or(NO_MEMBER, |(_, candidate)| {
        candidate.room -= 1;
        candidate.number
    })
}

/// Spreads every bit over all (the finalizer of SplitMix64).
const fn mix(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The negated natural logarithm of a hash as a number between 0 and 1: exponentially distributed, so that the least of several, each over
/// its weight, is the member's with a probability of its weight over the sum.
///
/// Written with the operations that IEEE 754 defines to the bit, as two balancers have to agree, and `core` has no logarithm.
fn cost(hash: u64) -> f64 {
    let value = (hash >> 11) as f64 + 0.5;
    let bits = value.to_bits();
    let (mut exponent, mut mantissa) =
        ((bits >> 52) as i32 - 1023 - 53, f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52));
    if mantissa > core::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let square = t * t;
    let series = 1.0
        + square
            * (1.0 / 3.0
                + square * (1.0 / 5.0 + square * (1.0 / 7.0 + square * (1.0 / 9.0 + square / 11.0))));
    -(f64::from(exponent) * core::f64::consts::LN_2 + 2.0 * t * series)
}
