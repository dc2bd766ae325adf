//! Recomputes the names below a changed one, a part at a time.
//!
//! A change to a name from which a million names inherit would take seconds in one go. So each
//! change starts a *walk* over the names below it. The change itself covers the first few names;
//! [`Rib::work`] covers the others, with all walks taking turns. A name is computed from the state
//! at the time the walk reaches it, so commands in between are safe: their change starts a walk of
//! its own, or, if one over the same names is under way, makes that restart at its end.
//!
//! Each change has a sequence number. [`Rib::applied_seq`] is the number up to which all walks are
//! complete.
//!
//! Bound: at most one walk per name.

use super::{EntryId, NameBytes, Rib};
use nw_name::NameRef;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

/// What has changed above the names of a walk. If neither is set, the walk covers only entries with
/// nothing but a strategy choice, as these show the next hops of a shorter name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WalkReasons {
    /// The routes that are inherited.
    pub(super) inherits: bool,
    /// The strategy.
    pub(super) strategy: bool,
}

impl WalkReasons {
    /// Returns the reasons that cover both walks. A walk for a strategy skips entries that show the
    /// next hops of a shorter name; merged with a walk for those it must cover inherited routes
    /// too.
    const fn merge(self, other: Self) -> Self {
        let differ = self.only_strategy_entries() != other.only_strategy_entries();
        WalkReasons {
            inherits: self.inherits || other.inherits || differ,
            strategy: self.strategy || other.strategy,
        }
    }

    const fn only_strategy_entries(self) -> bool {
        !self.inherits && !self.strategy
    }
}

#[derive(Debug)]
struct Walk {
    reasons: WalkReasons,
    /// Sequence number of the first change that the walk covers.
    first_seq: u64,
    /// Where the next part starts; `None` if the walk has not begun.
    resume_at: Option<Bound<NameBytes>>,
    /// First sequence number and reasons of the changes since the walk began.
    restart: Option<(u64, WalkReasons)>,
}

/// All walks under way.
#[derive(Debug, Default)]
pub(super) struct Walks {
    by_name: BTreeMap<NameBytes, Walk>,
    /// Names of the walks in the order of their turns.
    queue: VecDeque<NameBytes>,
    /// `first_seq` of each walk.
    open_seqs: BTreeSet<u64>,
    issued_seq: u64,
}

impl Rib {
    /// Returns the sequence number of the last change with effects that [`work`](Self::work) may
    /// have to complete. It is in effect once [`applied_seq`](Self::applied_seq) reaches it.
    pub const fn issued_seq(&self) -> u64 {
        self.walks.issued_seq
    }

    /// Returns the sequence number up to which all changes are complete, once flushed to the FIB.
    pub fn applied_seq(&self) -> u64 {
        self.walks.open_seqs.first().map_or(self.walks.issued_seq, |first| first - 1)
    }

    /// Returns whether names below `name` remain to be recomputed because of a change to it.
    pub fn is_walking(&self, name: NameRef<'_>) -> bool {
        self.walks.by_name.contains_key(name.as_bytes())
    }

    /// Returns whether [`work`](Self::work) has something to do.
    pub fn has_work(&self) -> bool {
        !self.walks.queue.is_empty() || !self.removed_faces.is_empty()
    }

    /// Recomputes about `names_max` more names. The changes must then be flushed to the FIB.
    pub fn work(&mut self, names_max: usize) {
        let mut budget = names_max.max(1);
        self.immediate_left = 0;
        if let Some(&face) = self.removed_faces.first() {
            let share = if self.walks.queue.is_empty() { budget } else { budget.div_ceil(2) };
            budget -= self.remove_face_part(face, share).min(budget);
        }
        while budget > 0 {
            let Some(name) = self.walks.queue.pop_front() else { return };
            budget -= self.advance(&name, budget).min(budget).max(1);
            if self.walks.by_name.contains_key(&name) {
                self.walks.queue.push_back(name);
            }
        }
    }

    /// Starts a walk over the names below `name` and covers the first few of them.
    pub(super) fn walk_below(&mut self, name: NameBytes, reasons: WalkReasons) {
        if let Some(walk) = self.walks.by_name.get_mut(&name) {
            self.walks.issued_seq += 1;
            match (&walk.resume_at, &mut walk.restart) {
                (None, _) => walk.reasons = walk.reasons.merge(reasons),
                (Some(_), Some((_, pending))) => *pending = pending.merge(reasons),
                (Some(_), restart @ None) => *restart = Some((self.walks.issued_seq, reasons)),
            }
            return;
        }
        let from = Bound::Excluded(&*name);
        let first = match reasons.only_strategy_entries() {
            true => self
                .strategies
                .range::<[u8], _>((from, Bound::Unbounded))
                .next()
                .map(|(below, _)| below),
            false => {
                self.names.range::<[u8], _>((from, Bound::Unbounded)).next().map(|(below, _)| below)
            }
        };
        if !first.is_some_and(|below| below.starts_with(&name)) {
            return;
        }
        self.walks.issued_seq += 1;
        let first_seq = self.walks.issued_seq;
        self.walks
            .by_name
            .insert(name.clone(), Walk { reasons, first_seq, resume_at: None, restart: None });
        self.walks.open_seqs.insert(first_seq);
        if self.immediate_left > 0 {
            let visited = self.advance(&name, self.immediate_left);
            self.immediate_left = self.immediate_left.saturating_sub(visited);
        }
        if self.walks.by_name.contains_key(&name) {
            self.walks.queue.push_back(name);
        }
    }

    /// Advances a walk over up to `names_max` names and returns how many it visited. A complete
    /// walk is removed.
    fn advance(&mut self, name: &NameBytes, names_max: usize) -> usize {
        let Some(mut walk) = self.walks.by_name.remove(name) else { return 0 };
        let from = walk.resume_at.take().unwrap_or_else(|| Bound::Excluded(name.clone()));
        let mut part = Part { ids: Vec::new(), visited: 0, resume_at: Some(from) };
        match walk.reasons.only_strategy_entries() {
            true => self.strategy_entries_below(name, names_max, &mut part),
            false => self.affected_below(name, walk.reasons, names_max, &mut part),
        }
        for id in &part.ids {
            self.recompute(*id);
        }
        walk.resume_at = part.resume_at;
        if walk.resume_at.is_none() {
            self.walks.open_seqs.remove(&walk.first_seq);
            let Some((first_seq, reasons)) = walk.restart else { return part.visited };
            walk = Walk { reasons, first_seq, resume_at: None, restart: None };
            self.walks.open_seqs.insert(first_seq);
        }
        self.walks.by_name.insert(name.clone(), walk);
        part.visited
    }

    /// Collects names with a strategy choice, in canonical order.
    fn strategy_entries_below(&self, name: &NameBytes, names_max: usize, part: &mut Part) {
        let Some(from) = part.resume_at.take() else { return };
        for below in self.strategies.range((from, Bound::Unbounded)).map(|(below, _)| below) {
            if !below.starts_with(name) {
                return;
            }
            part.visited += 1;
            part.ids.push(self.index[below]);
            if part.visited >= names_max {
                part.resume_at = Some(Bound::Excluded(below.clone()));
                return;
            }
        }
    }

    /// Collects the names that a change affects, in canonical order: a name comes after those it
    /// depends on.
    fn affected_below(
        &self,
        name: &NameBytes,
        reasons: WalkReasons,
        names_max: usize,
        part: &mut Part,
    ) {
        let Some(mut from) = part.resume_at.take() else { return };
        'subtrees: loop {
            for (below, id) in self.names.range((from.clone(), Bound::Unbounded)) {
                if !below.starts_with(name) {
                    return;
                }
                part.visited += 1;
                let entry = self.entry(*id);
                // An entry with suppressed next hops may show those of a shorter name.
                let captures = entry.captures > 0 && entry.direct == 0;
                let skips_subtree = (!reasons.inherits || captures)
                    && (!reasons.strategy || entry.strategy.is_some());
                if skips_subtree {
                    // The change has no effect below this name. No component starts with byte 255,
                    // so this bound is behind the last name below it.
                    let mut end = below.to_vec();
                    end.push(0xff);
                    from = Bound::Included(end.into());
                } else {
                    part.ids.push(*id);
                }
                if part.visited >= names_max {
                    part.resume_at =
                        Some(if skips_subtree { from } else { Bound::Excluded(below.clone()) });
                    return;
                }
                if skips_subtree {
                    continue 'subtrees;
                }
            }
            return;
        }
    }
}

/// The names of one part of a walk.
struct Part {
    ids: Vec<EntryId>,
    visited: usize,
    /// Where the next part starts; `None` if this is the last.
    resume_at: Option<Bound<NameBytes>>,
}
