//! Which of the programs that connect a scope to a group does so: the oldest in the domain.
//!
//! Each of them announces an item `/@group/bridges/CONNECTION/START`, and the presence of the
//! others is known by events of publish/subscribe, also when their node is lost. Invariant:
//! programs that know of each other agree, as names differ. In parts of a domain that have no link,
//! one each is active.

use super::scope::MARK;
use nw_api::pubsub::{ItemName, NameFault, ScopePattern};
use nw_element_api::Timestamp;
use nw_name::Name;
use std::collections::BTreeSet;

/// Milliseconds after its start in which a program only learns of the others.
pub const SETTLE_MS: u64 = 1000;
/// Other programs that are known at most.
const OTHERS_MAX: usize = 1024;

/// One program's view of the election.
#[derive(Debug)]
pub struct BridgeElection {
    own: ItemName,
    pattern: ScopePattern,
    /// Items of older programs.
    older: BTreeSet<String>,
    settled: Timestamp,
}

impl BridgeElection {
    /// Creates the view of a program that starts now. `unix_ms`: milliseconds since 1970.
    /// `random`: differs for each program.
    ///
    /// # Errors
    /// Never: the names are short.
    pub fn new(
        scope: &ItemName,
        group: &Name,
        unix_ms: u64,
        random: u32,
        now: Timestamp,
    ) -> Result<Self, NameFault> {
        let parts = [scope.as_str().as_bytes(), b"\0", group.as_ref().as_bytes()];
        Self::below(&format!("/{MARK}/bridges"), &parts, unix_ms, random, now)
    }

    /// Creates the view of a program that starts now, among those that announce items below a
    /// scope for the same connection.
    ///
    /// # Errors
    /// If the scope is too long.
    pub fn below(
        scope: &str,
        connection: &[&[u8]],
        unix_ms: u64,
        random: u32,
        now: Timestamp,
    ) -> Result<Self, NameFault> {
        let connection: String =
            nw_wire::sha256(connection)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(BridgeElection {
            own: format!("{scope}/{connection}/{unix_ms:016x}-{random:08x}").parse()?,
            pattern: format!("{scope}/{connection}/*").parse()?,
            older: BTreeSet::new(),
            settled: now.plus_millis(SETTLE_MS),
        })
    }

    /// Returns the item that this program announces.
    pub const fn item(&self) -> &ItemName {
        &self.own
    }

    /// Returns the pattern of the items of all programs for this scope and group.
    pub const fn pattern(&self) -> &ScopePattern {
        &self.pattern
    }

    /// Takes an event: a program's item is here, or is no longer.
    pub fn update(&mut self, item: &str, is_here: bool) {
        if !is_here {
            self.older.remove(item);
        } else if item < self.own.as_str() && self.older.len() < OTHERS_MAX {
            self.older.insert(item.to_owned());
        }
    }

    /// Returns whether the time in which this program only learns of others has passed.
    pub fn is_settled(&self, now: Timestamp) -> bool {
        now >= self.settled
    }

    /// Returns whether this program connects the scope to the group.
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.is_settled(now) && self.older.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(group: &str, unix_ms: u64, random: u32) -> BridgeElection {
        let (scope, group) = ("/s".parse().unwrap(), group.parse().unwrap());
        BridgeElection::new(&scope, &group, unix_ms, random, Timestamp::START).unwrap()
    }

    #[test]
    fn oldest_program_is_active_and_the_next_one_after_it() {
        let mut views = [view("/g", 5, 1), view("/g", 5, 2), view("/g", 70, 0)];
        let items = views.each_ref().map(|view| view.item().clone());
        let now = Timestamp::START.plus_millis(SETTLE_MS);
        assert!(!views[0].is_active(Timestamp::START), "not before it knows of others");
        for view in &mut views {
            items.iter().for_each(|item| view.update(item.as_str(), true));
        }
        let active = |views: &[BridgeElection]| views.iter().map(|v| v.is_active(now)).collect();
        let is: Vec<bool> = active(&views);
        assert_eq!(is, [true, false, false]);
        views.iter_mut().for_each(|view| view.update(items[0].as_str(), false));
        let is: Vec<bool> = active(&views);
        assert_eq!(is, [true, true, false], "the first has ended and counts for none");
        let other = view("/other", 5, 1);
        assert!(!views[0].pattern().matches(other.item()) && other.pattern().matches(other.item()));
    }
}
