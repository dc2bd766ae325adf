//! Names below a changed one, brought up to date a part at a time.
//!
//! A change to a name that a million names inherit from would take seconds in one go. So each change asks for a *walk* over the names below; it does
//! the first few at once and leaves the rest to [`Rib::work`], which takes turns among all walks. Every name is computed from what holds when the
//! walk comes to it, so commands in between need no care: a change of theirs asks for a walk of its own, and one over the same names while the
//! first is under way makes it go again.
//!
//! State and its bound: one walk for each name at most.

use super::{EntryId, Octets, Rib};
use nw_name::NameRef;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// Why names below are looked at. With neither it is only for those that have nothing but a strategy: they show what is above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reasons {
    /// What is passed on has changed.
    pub(super) inherits: bool,
    /// The strategy has.
    pub(super) strategy: bool,
}

impl Reasons {
    /// Reason enough for both. A walk for a strategy's sake passes over names that show what is above, so together with one for theirs it goes
    /// as far as one for what is passed on.
    const fn and(self, other: Self) -> Self {
        let mixed = self.only_shown() != other.only_shown();
        Reasons {
            inherits: self.inherits || other.inherits || mixed,
            strategy: self.strategy || other.strategy,
        }
    }

    const fn only_shown(self) -> bool {
        !self.inherits && !self.strategy
    }
}

#[derive(Debug)]
struct Walk {
    reasons: Reasons,
    /// The first request that it answers.
    since: u64,
    /// The names up to here are done.
    from: Option<Bound<Octets>>,
    /// What was asked for after it began.
    again: Option<(u64, Reasons)>,
}

/// The walks under way.
#[derive(Debug, Default)]
pub(super) struct Walks {
    by_name: BTreeMap<Octets, Walk>,
    /// In turn.
    turns: VecDeque<Octets>,
    /// `since` of each.
    open: BTreeSet<u64>,
    asked: u64,
}

impl Rib {
    /// Counts up with every change whose effects may take [`work`](Self::work). What was asked up to now is in effect once
    /// [`settled`](Self::settled) has come this far.
    pub const fn asked(&self) -> u64 {
        self.walks.asked
    }

    /// All that was asked up to here is in effect, once the FIB is told.
    pub fn settled(&self) -> u64 {
        self.walks.open.first().map_or(self.walks.asked, |since| since - 1)
    }

    /// True when names below this one are still to be brought up to date because of a change to it.
    pub fn is_walking(&self, name: NameRef<'_>) -> bool {
        self.walks.by_name.contains_key(name.as_bytes())
    }

    /// True when [`work`](Self::work) has something to do.
    pub fn has_work(&self) -> bool {
        !self.walks.turns.is_empty() || !self.leaving.is_empty()
    }

    /// Brings up to about `names_max` more names up to date; the FIB is then to be told.
    pub fn work(&mut self, names_max: usize) {
        let mut left = names_max.max(1);
        self.at_once_left = 0;
        if let Some(&face) = self.leaving.first() {
            let share = if self.walks.turns.is_empty() { left } else { left.div_ceil(2) };
            left -= self.forget_part(face, share).min(left);
        }
        while left > 0 {
            let Some(name) = self.walks.turns.pop_front() else { return };
            left -= self.advance(&name, left).min(left).max(1);
            if self.walks.by_name.contains_key(&name) {
                self.walks.turns.push_back(name);
            }
        }
    }

    /// Asks for the names below to be brought up to date; does the first few.
    pub(super) fn walk_below(&mut self, name: Octets, reasons: Reasons) {
        if let Some(walk) = self.walks.by_name.get_mut(&name) {
            self.walks.asked += 1;
            match (&walk.from, &mut walk.again) {
                (None, _) => walk.reasons = walk.reasons.and(reasons),
                (Some(_), Some((_, again))) => *again = again.and(reasons),
                (Some(_), again @ None) => *again = Some((self.walks.asked, reasons)),
            }
            return;
        }
        let from = Bound::Excluded(&*name);
        let first = match reasons.only_shown() {
            true => self.strategies.range::<[u8], _>((from, Bound::Unbounded)).next().map(|(below, _)| below),
            false => self.names.range::<[u8], _>((from, Bound::Unbounded)).next().map(|(below, _)| below),
        };
        if !first.is_some_and(|below| below.starts_with(&name)) {
            return;
        }
        self.walks.asked += 1;
        let since = self.walks.asked;
        self.walks.by_name.insert(name.clone(), Walk { reasons, since, from: None, again: None });
        self.walks.open.insert(since);
        if self.at_once_left > 0 {
            let seen = self.advance(&name, self.at_once_left);
            self.at_once_left = self.at_once_left.saturating_sub(seen);
        }
        if self.walks.by_name.contains_key(&name) {
            self.walks.turns.push_back(name);
        }
    }

    /// Takes a walk over up to `names_max` names; how many it were. It is forgotten when it has come to its end.
    fn advance(&mut self, name: &Octets, names_max: usize) -> usize {
        let Some(mut walk) = self.walks.by_name.remove(name) else { return 0 };
        let from = walk.from.take().unwrap_or_else(|| Bound::Excluded(name.clone()));
        let mut part = Part { ids: Vec::new(), seen: 0, from: Some(from) };
        match walk.reasons.only_shown() {
            true => self.shown_below(name, names_max, &mut part),
            false => self.affected_below(name, walk.reasons, names_max, &mut part),
        }
        for id in &part.ids {
            self.recompute(*id);
        }
        walk.from = part.from;
        if walk.from.is_none() {
            self.walks.open.remove(&walk.since);
            let Some((since, reasons)) = walk.again else { return part.seen };
            walk = Walk { reasons, since, from: None, again: None };
            self.walks.open.insert(since);
        }
        self.walks.by_name.insert(name.clone(), walk);
        part.seen
    }

    /// Names that have a strategy, in canonical order.
    fn shown_below(&self, name: &Octets, names_max: usize, part: &mut Part) {
        let Some(from) = part.from.take() else { return };
        for below in self.strategies.range((from, Bound::Unbounded)).map(|(below, _)| below) {
            if !below.starts_with(name) {
                return;
            }
            part.seen += 1;
            part.ids.push(self.index[below]);
            if part.seen >= names_max {
                part.from = Some(Bound::Excluded(below.clone()));
                return;
            }
        }
    }

    /// Names that a change reaches, in canonical order, so what a name depends on is up to date before it.
    fn affected_below(&self, name: &Octets, reasons: Reasons, names_max: usize, part: &mut Part) {
        let Some(mut from) = part.from.take() else { return };
        'subtrees: loop {
            for (below, id) in self.names.range((from.clone(), Bound::Unbounded)) {
                if !below.starts_with(name) {
                    return;
                }
                part.seen += 1;
                let entry = self.entry(*id);
                // Where next hops were taken away by hand, what is above may show through.
                let captures = entry.captures > 0 && entry.by_hand == 0;
                let beyond =
                    (!reasons.inherits || captures) && (!reasons.strategy || entry.strategy.is_some());
                if beyond {
                    // Nothing of it gets past here. No component starts with octet 255, so this is behind the last name below.
                    let mut end = below.to_vec();
                    end.push(0xff);
                    from = Bound::Included(end.into());
                } else {
                    part.ids.push(*id);
                }
                if part.seen >= names_max {
                    part.from = Some(if beyond { from } else { Bound::Excluded(below.clone()) });
                    return;
                }
                if beyond {
                    continue 'subtrees;
                }
            }
            return;
        }
    }
}

/// A part of a walk.
struct Part {
    ids: Vec<EntryId>,
    seen: usize,
    /// Where the next one begins; `None` when this is the last.
    from: Option<Bound<Octets>>,
}
