//! A member of a sync group: which numbers are known, and when a Sync Interest is due.
//!
//! ```text
//!              newer or equal vector             outdated vector
//! Steady ───────────────────────────▶ Steady ─────────────────────▶ Suppression
//!   ▲ Sync Interest each 30 s ± 10 %, or at once after a publication      │ up to 200 ms
//!   └── Sync Interest, unless what others sent meanwhile is up to date ◀──┘
//! ```
//!
//! Pure: the time is an argument. Invariant: numbers only grow, so vectors that arrive in any
//! order, twice or not at all lead to the same state.

use super::vector::StateVector;
use nw_element_api::Timestamp;
use nw_name::Name;
use std::collections::BTreeMap;

/// Milliseconds between Sync Interests of a group in which nothing changes.
const PERIOD_MS: u64 = 30_000;
/// Milliseconds for which a Sync Interest waits for that of another member, at most.
const SUPPRESSION_MS: u64 = 200;
/// Seconds that a boot time may be in the future.
const FUTURE_S: u64 = 86_400;

/// New publications of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncUpdate {
    /// The member.
    pub name: Name,
    /// When it started, seconds since 1970.
    pub boot_s: u64,
    /// Number of the first new publication.
    pub first: u64,
    /// Number of the last one.
    pub last: u64,
}

/// The state of a member.
#[derive(Debug)]
pub struct SyncGroup {
    name: Name,
    /// Whether names below `name` are of this process, too.
    has_names_below: bool,
    boot_s: u64,
    vector: StateVector,
    /// When a member's number was last raised by another member's vector.
    raised: BTreeMap<Name, Timestamp>,
    /// What arrived in the suppression state; `None` in the steady state.
    merged: Option<StateVector>,
    due: Timestamp,
    random: u64,
}

impl SyncGroup {
    /// Creates a member that has published nothing. Its first Sync Interest is due at once.
    pub fn new(name: Name, boot_s: u64, now: Timestamp, seed: u64) -> Self {
        SyncGroup {
            name,
            has_names_below: false,
            boot_s,
            vector: StateVector::default(),
            raised: BTreeMap::new(),
            merged: None,
            due: now,
            random: seed | 1,
        }
    }

    /// Returns the state vector to send.
    pub const fn vector(&self) -> &StateVector {
        &self.vector
    }

    /// Returns when [`tick`](Self::tick) is due.
    pub const fn deadline(&self) -> Timestamp {
        self.due
    }

    /// Returns a number of 0 to 999.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) % 1000
    }

    /// Makes names below the member's name own ones: they are never reported as others'.
    pub const fn own_names_below(&mut self) {
        self.has_names_below = true;
    }

    fn is_own(&self, name: &Name) -> bool {
        let is_below = || self.name.as_ref().is_prefix_of(name.as_ref());
        *name == self.name || self.has_names_below && is_below()
    }

    /// Counts a publication under an own name, and makes a Sync Interest due. Returns its number;
    /// `None` if the group is full.
    pub fn publish(&mut self, name: &Name, now: Timestamp) -> Option<u64> {
        let number = self.vector.number(name, self.boot_s) + 1;
        let is_counted = self.vector.raise(name, self.boot_s, number);
        self.due = now;
        self.merged = None;
        is_counted.then_some(number)
    }

    fn enter_steady(&mut self, now: Timestamp) {
        self.merged = None;
        let jitter_ms = self.random() * (PERIOD_MS / 5) / 1000;
        self.due = now.plus_millis(PERIOD_MS - PERIOD_MS / 10 + jitter_ms);
    }

    /// Returns the time until a Sync Interest in the suppression state, milliseconds: most members
    /// wait long, so that few send.
    fn suppression_ms(&mut self) -> u64 {
        let share = self.random() as f64 / 1000.0;
        (SUPPRESSION_MS as f64 * (1.0 - (10.0 * (share - 1.0)).exp())) as u64
    }

    /// Takes the vector of a Sync Interest, and returns what is new. `unix_s`: seconds since 1970.
    /// A vector with a boot time more than a day ahead is ignored, and so are numbers of own names
    /// since this start, which only [`publish`](Self::publish) raises.
    pub fn receive(
        &mut self,
        now: Timestamp,
        unix_s: u64,
        theirs: &StateVector,
    ) -> Vec<SyncUpdate> {
        if theirs.iter().any(|(_, boot_s, _)| boot_s > unix_s.saturating_add(FUTURE_S)) {
            return Vec::new();
        }
        // A member that was raised just now is outdated in vectors that were on their way.
        let recently = |name: &Name| {
            let raised = self.raised.get(name);
            raised.is_some_and(|at| at.plus_millis(SUPPRESSION_MS) > now)
        };
        let outdated: Vec<&Name> = self.vector.newer_than(theirs).collect();
        let (is_outdated, is_recent) = (!outdated.is_empty(), outdated.into_iter().all(recently));
        let mut updates = Vec::new();
        for (name, boot_s, last) in theirs.iter() {
            let is_own = self.is_own(name);
            let known = self.vector.number(name, boot_s);
            if is_own && boot_s == self.boot_s || !self.vector.raise(name, boot_s, last) {
                continue;
            }
            self.raised.insert(name.clone(), now);
            if !is_own {
                updates.push(SyncUpdate { name: name.clone(), boot_s, first: known + 1, last });
            }
        }
        match &mut self.merged {
            Some(merged) => theirs.iter().for_each(|(name, boot_s, last)| {
                merged.raise(name, boot_s, last);
            }),
            None if is_outdated && !is_recent => {
                self.merged = Some(theirs.clone());
                self.due = now.plus_millis(self.suppression_ms());
            }
            None => {}
        }
        if !is_outdated {
            self.enter_steady(now);
        }
        updates
    }

    /// Returns whether a Sync Interest is to be sent now, and sets the next time.
    pub fn tick(&mut self, now: Timestamp) -> bool {
        if now < self.due {
            return false;
        }
        let is_up_to_date = |merged: &StateVector| self.vector.newer_than(merged).next().is_none();
        let is_needless = self.merged.as_ref().is_some_and(is_up_to_date);
        self.enter_steady(now);
        !is_needless
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOOT_S: u64 = 1_700_000_000;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn member(number: usize) -> SyncGroup {
        let name = format!("/member/{number}").parse().unwrap();
        SyncGroup::new(name, BOOT_S + number as u64, at(0), 77 * (number as u64 + 1))
    }

    fn publish(member: &mut SyncGroup, ms: u64) -> Option<u64> {
        let name = member.name.clone();
        member.publish(&name, at(ms))
    }

    #[test]
    fn publication_is_told_once_and_numbers_of_the_own_name_are_not() {
        let (mut a, mut b) = (member(0), member(1));
        assert!(a.tick(at(0)) && !a.tick(at(1)));
        let name: Name = "/member/0".parse().unwrap();
        assert_eq!((a.publish(&name, at(5)), a.publish(&name, at(5))), (Some(1), Some(2)));
        assert!(a.tick(at(5)));
        let update = SyncUpdate { name, boot_s: BOOT_S, first: 1, last: 2 };
        assert_eq!(b.receive(at(9), BOOT_S, a.vector()), [update]);
        assert!(b.receive(at(9), BOOT_S, a.vector()).is_empty());
        assert!(a.receive(at(9), BOOT_S, b.vector()).is_empty());
        assert!(a.deadline() >= at(27_000), "the period starts anew");
    }

    #[test]
    fn outdated_vector_is_answered_by_one_of_many_members() {
        let mut members: Vec<SyncGroup> = (0..20).map(member).collect();
        publish(&mut members[0], 0);
        let newest = members[0].vector().clone();
        for member in &mut members {
            member.tick(at(0));
            member.receive(at(1), BOOT_S, &newest);
        }
        let late = StateVector::default();
        members.iter_mut().for_each(|member| drop(member.receive(at(5000), BOOT_S, &late)));
        let (mut sent, mut now_ms) = (0, 5000);
        while now_ms < 5300 {
            now_ms += 5;
            let sender = (0..members.len()).find(|index| members[*index].tick(at(now_ms)));
            let Some(sender) = sender else { continue };
            sent += 1;
            let vector = members[sender].vector().clone();
            members.iter_mut().for_each(|m| drop(m.receive(at(now_ms), BOOT_S, &vector)));
        }
        assert_eq!(sent, 1);
    }

    #[test]
    fn vector_from_the_far_future_changes_nothing() {
        let (mut a, mut b) = (member(0), member(1));
        publish(&mut b, 0);
        assert!(a.receive(at(0), BOOT_S - 2 * FUTURE_S, b.vector()).is_empty());
        assert_eq!(a.vector(), &StateVector::default());
    }

    #[test]
    fn numbers_of_own_names_are_raised_by_own_publications_only() {
        let (mut a, below) = (member(0), "/member/0/item".parse::<Name>().unwrap());
        a.own_names_below();
        let mut hostile = StateVector::default();
        for name in [&a.name, &below] {
            hostile.raise(name, BOOT_S, u64::MAX);
            hostile.raise(name, BOOT_S - 9, 3);
        }
        assert!(a.receive(at(0), BOOT_S, &hostile).is_empty(), "no update of an own name");
        assert_eq!((publish(&mut a, 1), a.publish(&below, at(1))), (Some(1), Some(1)));
        let mut other = member(1);
        let below = |updates: Vec<SyncUpdate>| updates.iter().any(|update| update.name == below);
        assert!(below(other.receive(at(2), BOOT_S, a.vector())), "other members receive it");
    }

    proptest! {
        #[test]
        fn members_agree_after_losses_repetitions_and_any_order(
            // Publisher, receiver, and whether there is a publication.
            steps in prop::collection::vec((0_usize..4, 0_usize..4, any::<bool>()), 1..60),
        ) {
            let mut members: Vec<SyncGroup> = (0..4).map(member).collect();
            let mut sent: Vec<StateVector> = vec![StateVector::default()];
            let mut told = [[0_u64; 4]; 4];
            let mut note = |to: usize, updates: Vec<SyncUpdate>| {
                for update in updates {
                    let from = (update.boot_s - BOOT_S) as usize;
                    assert_eq!(update.first, told[to][from] + 1, "each number once");
                    told[to][from] = update.last;
                }
            };
            let mut published = [0_u64; 4];
            let mut now_ms = 0;
            for (from, to, publishes) in steps {
                now_ms += 10;
                if publishes {
                    published[from] = publish(&mut members[from], now_ms).unwrap();
                    sent.push(members[from].vector().clone());
                }
                let vector = sent[(from * 7 + to * 13) % sent.len()].clone();
                note(to, members[to].receive(at(now_ms), BOOT_S, &vector));
            }
            // Nothing is lost from now on.
            for _ in 0..14_000 {
                now_ms += 5;
                for from in 0..4 {
                    if members[from].tick(at(now_ms)) {
                        let vector = members[from].vector().clone();
                        for to in (0..4).filter(|to| *to != from) {
                            note(to, members[to].receive(at(now_ms), BOOT_S, &vector));
                        }
                    }
                }
            }
            for to in 0..4 {
                prop_assert_eq!(members[to].vector(), members[0].vector());
                let others = (0..4).filter(|from| *from != to);
                prop_assert!(others.clone().all(|from| told[to][from] == published[from]));
            }
        }
    }
}
