//! The slot table: weighted rendezvous hashing for each slot, with a bound on every member's load.
//!
//! The table is a function of members (in any order), weights and seed. A member that joins or
//! leaves moves only its own share of the slots, except for the few that the load bound moves.

use crate::rules::{Decision, Rules};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use nw_name::{HashKey, NameRef};

/// Bits of a mixed hash that choose the slot.
const SLOT_BITS: u32 = 17;
/// An odd multiplier: the fractional part of the golden ratio.
const SLOT_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Number of slots.
pub const SLOTS: usize = 1 << SLOT_BITS;
/// The maximum number of members; members are numbered from 1 to this.
pub const MEMBERS_MAX: u8 = 63;
/// The content of every slot when no member accepts names.
pub const NO_MEMBER: u8 = 0;
/// No member gets more slots than this percentage of its fair share, plus one slot.
const LOAD_MAX_PERCENT: u64 = 102;

/// The properties of a member that determine its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// 1 to [`MEMBERS_MAX`]; the value stored in its slots.
    pub number: u8,
    /// Seeds the selection of its slots. It must be stable over restarts and equal on every
    /// balancer, such as a hash of the member's name.
    pub id: u64,
    /// Its share is this divided by the sum of all weights; a weight of 0 gets no slot.
    pub weight: u32,
    /// False while the member joins, drains or has failed: it has no slots but keeps its number.
    pub accepts_names: bool,
}

/// The member number of each slot.
#[derive(Clone, PartialEq, Eq)]
pub struct Table {
    slots: Box<[u8]>,
}

impl Table {
    /// Computes the table of these members; the order of `members` does not matter.
    ///
    /// A member that joins takes slots from the others. No slot moves between the others, except
    /// for those the load bound moves (none in clusters of a few members, some per mille in large
    /// ones).
    ///
    /// Members with a number out of range are ignored, and so are all but the first of those with
    /// equal numbers.
    pub fn compute(members: &[Member], seed: u64) -> Table {
        let mut candidates = candidates(members);
        let total: u64 = candidates.iter().map(|c| u64::from(c.weight)).sum();
        for candidate in &mut candidates {
            let fair_times_100 =
                u128::from(candidate.weight) * SLOTS as u128 * u128::from(LOAD_MAX_PERCENT);
            candidate.slots_left = (fair_times_100 / (100 * u128::from(total))) as usize + 1;
        }
        let mut slots = vec![NO_MEMBER; SLOTS].into_boxed_slice();
        if !candidates.is_empty() {
            for (slot, member) in slots.iter_mut().enumerate() {
                *member = assign_slot(&mut candidates, slot as u64, seed);
            }
        }
        Table { slots }
    }

    /// Returns the member number of each slot, [`NO_MEMBER`] if there is none: the content of the
    /// kernel's map.
    pub fn slots(&self) -> &[u8] {
        &self.slots
    }

    /// Returns the slot of a hash. The hash is mixed once more, because the bits of hashes of
    /// numbered names are not uniform enough for exact shares (each step of the name hash is one
    /// product).
    pub const fn slot_of(hash: u64) -> usize {
        ((hash ^ hash >> 32).wrapping_mul(SLOT_MULTIPLIER) >> (64 - SLOT_BITS)) as usize
    }

    /// Returns the number of the member that serves a hash; [`NO_MEMBER`] if there is none.
    pub fn member_of(&self, hash: u64) -> u8 {
        self.slots[Table::slot_of(hash)]
    }

    /// Returns the fraction of all slots that a member has, 0 to 1.
    pub fn share(&self, number: u8) -> f64 {
        self.slots.iter().filter(|member| **member == number).count() as f64 / SLOTS as f64
    }

    /// Returns the fraction of slots that have a different member in `other`, 0 to 1.
    pub fn moved_fraction(&self, other: &Table) -> f64 {
        self.slots.iter().zip(&other.slots).filter(|(a, b)| a != b).count() as f64 / SLOTS as f64
    }
}

impl core::fmt::Debug for Table {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let numbers: Vec<_> = (1..=MEMBERS_MAX)
            .map(|number| (number, self.share(number)))
            .filter(|(_, s)| *s > 0.0)
            .collect();
        f.debug_struct("Table").field("shares", &numbers).finish()
    }
}

/// The member that serves a name, with the steps that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The result of the rules.
    pub decision: Decision,
    /// The slot; `None` if the control member serves the name.
    pub slot: Option<usize>,
    /// The number of the member; [`NO_MEMBER`] if there is none.
    pub member: u8,
}

/// Returns the member that serves a name; `control` is the number of the control member.
pub fn locate_name(
    name: NameRef<'_>,
    key: &HashKey,
    rules: &Rules,
    table: &Table,
    control: u8,
) -> Placement {
    let decision = rules.decide(name, key);
    match decision.hash {
        None => Placement { decision, slot: None, member: control },
        Some(hash) => {
            Placement { decision, slot: Some(Table::slot_of(hash)), member: table.member_of(hash) }
        }
    }
}

/// A member that accepts names, while the table is computed.
struct Candidate {
    number: u8,
    id: u64,
    weight: u32,
    /// Slots it may still get.
    slots_left: usize,
}

/// Returns the members with a positive share, each number once, sorted by id.
fn candidates(members: &[Member]) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for member in members {
        let valid = (1..=MEMBERS_MAX).contains(&member.number);
        if valid && !candidates.iter().any(|c| c.number == member.number) {
            let weight = if member.accepts_names { member.weight } else { 0 };
            candidates.push(Candidate {
                number: member.number,
                id: member.id,
                weight,
                slots_left: 0,
            });
        }
    }
    candidates.retain(|candidate| candidate.weight > 0);
    candidates.sort_unstable_by_key(|candidate| (candidate.id, candidate.number));
    candidates
}

/// Assigns a slot to the candidate of least cost below its load bound; returns its number.
fn assign_slot(candidates: &mut [Candidate], slot: u64, seed: u64) -> u8 {
    let mut best: Option<(f64, &mut Candidate)> = None;
    for candidate in candidates.iter_mut().filter(|candidate| candidate.slots_left > 0) {
        let cost = cost(mix(mix(seed ^ candidate.id) ^ slot)) / f64::from(candidate.weight);
        // Equal costs: the lowest id wins, as candidates are sorted by id.
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, candidate));
        }
    }
    // The bounds add up to more than all slots, so one candidate is below its bound.
    best.map_or(NO_MEMBER, |(_, candidate)| {
        candidate.slots_left -= 1;
        candidate.number
    })
}

/// Mixes all bits of a value (the finalizer of SplitMix64).
const fn mix(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns `-ln(u)`, where `u` is the hash scaled to (0, 1).
///
/// It is exponentially distributed. So the least of `cost / weight` over all members is a member's
/// with probability `weight / sum of weights` (weighted rendezvous hashing).
///
/// Only operations that IEEE 754 defines exactly are used, as two balancers must get equal results
/// and `core` has no logarithm.
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
                + square
                    * (1.0 / 5.0 + square * (1.0 / 7.0 + square * (1.0 / 9.0 + square / 11.0))));
    -(f64::from(exponent) * core::f64::consts::LN_2 + 2.0 * t * series)
}
