//! Further parents of scopes and items, by name.
//!
//! A name is a path from one root scope. A scope or item that was republished under a further scope
//! has a name for each path: `/a/s` under `/b` makes `/b/s`, and `/b/s/x` of `/a/s/x`. These are
//! the full identifiers of [`Graph`](crate::graph), for nodes that hold no graph of all items.
//! Invariants: the parents that this table accepts make no cycle; the names of a scope or item are
//! bounded also if tables of several nodes are joined, which may make one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Names of a scope or item at most.
pub const NAMES_MAX: usize = 64;
/// Further parents in a table at most.
pub const PARENTS_MAX: usize = 4096;
/// Components of a name at most.
const COMPONENTS_MAX: usize = 32;

/// Why a parent is not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParentError {
    /// The parent is the scope itself, or below it.
    #[error("the scope would be below itself: choose a parent that is not below it")]
    Cycle,
    /// The table is full, or the scope has too many names.
    #[error("too many parents: a node has 4096 further parents, a scope 64 names")]
    Full,
}

/// Further parents of scopes and items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parents {
    parents: BTreeMap<Box<str>, BTreeSet<Box<str>>>,
    len: usize,
}

impl Parents {
    /// Returns whether no scope or item has a further parent.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a parent of a scope or item. Returns whether it is new.
    ///
    /// # Errors
    /// If the scope would be below itself, or a bound is reached.
    pub fn insert(&mut self, child: &str, parent: &str) -> Result<bool, ParentError> {
        if self.parents.get(child).is_some_and(|parents| parents.contains(parent)) {
            return Ok(false);
        }
        let (own, above) = (self.names(child), self.names(parent));
        if above.iter().any(|above| own.iter().any(|own| is_below(above, own))) {
            return Err(ParentError::Cycle);
        }
        if self.len >= PARENTS_MAX || own.len() + above.len() > NAMES_MAX {
            return Err(ParentError::Full);
        }
        self.insert_unchecked(child, parent);
        Ok(true)
    }

    /// Adds a parent that another node accepted. Beyond the bound of the table nothing is added.
    pub fn insert_unchecked(&mut self, child: &str, parent: &str) {
        if self.len < PARENTS_MAX {
            let parents = self.parents.entry(child.into()).or_default();
            self.len += usize::from(parents.insert(parent.into()));
        }
    }

    /// Returns further parents with their scopes or items, as `(child, parent)`, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parents
            .iter()
            .flat_map(|(child, parents)| parents.iter().map(move |parent| (&**child, &**parent)))
    }

    /// Returns the scopes and items whose further parents differ from those in another table.
    pub fn changed_children<'a>(&'a self, other: &'a Parents) -> BTreeSet<&'a str> {
        let all = self.parents.keys().chain(other.parents.keys()).map(|child| &**child);
        all.filter(|child| self.parents.get(*child) != other.parents.get(*child)).collect()
    }

    /// Returns whether something may have a name in or below a scope by a further parent, so that
    /// parents of the scope concern more than what is announced there.
    pub fn lead_to(&self, scope: &str) -> bool {
        let is_same_path = |one: &str, other: &str| {
            let len = one.len().min(other.len());
            one.as_bytes()[..len] == other.as_bytes()[..len]
        };
        self.iter().any(|(child, parent)| {
            let label = &child[child.rfind('/').unwrap_or(0)..];
            is_same_path(parent, scope)
                && scope.get(parent.len()..).is_none_or(|rest| is_same_path(label, rest))
        })
    }

    /// Returns the names of a scope or item: first the one given, then those by further parents,
    /// nearest first, at most [`NAMES_MAX`].
    pub fn names(&self, name: &str) -> Vec<String> {
        let mut names = vec![name.to_owned()];
        if self.is_empty() {
            return names;
        }
        let mut queue = VecDeque::from([name.to_owned()]);
        while let Some(known) = queue.pop_front() {
            for end in component_ends(&known) {
                let Some(parents) = self.parents.get(&known[..end]) else { continue };
                let label = known[..end].rfind('/').unwrap_or(0);
                for parent in parents {
                    let new = format!("{parent}{}", &known[label..]);
                    let is_short = new.matches('/').count() <= COMPONENTS_MAX;
                    if names.len() < NAMES_MAX && is_short && !names.contains(&new) {
                        queue.push_back(new.clone());
                        names.push(new);
                    }
                }
            }
        }
        names
    }
}

/// Returns where the components of a name end.
fn component_ends(name: &str) -> impl Iterator<Item = usize> {
    let inner = name.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    inner.chain(core::iter::once(name.len()))
}

/// Returns whether a name is that of a scope, or below it.
pub fn is_below(name: &str, scope: &str) -> bool {
    name.strip_prefix(scope).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(pairs: &[(&str, &str)]) -> Parents {
        let mut table = Parents::default();
        for (child, parent) in pairs {
            assert_eq!(table.insert(child, parent), Ok(true), "{child} {parent}");
        }
        table
    }

    #[test]
    fn names_follow_every_path_from_a_root() {
        let table = table(&[("/a/s", "/b"), ("/b", "/c"), ("/a/s/x", "/d")]);
        assert_eq!(table.names("/a/s/x"), ["/a/s/x", "/b/s/x", "/d/x", "/c/b/s/x"]);
        assert_eq!(table.names("/a/s"), ["/a/s", "/b/s", "/c/b/s"]);
        assert_eq!(table.names("/a/sx"), ["/a/sx"]);
        assert_eq!(Parents::default().names("/a"), ["/a"]);
        assert_eq!(table.iter().count(), 3);
    }

    #[test]
    fn cycles_are_refused_and_joined_ones_are_bounded() {
        let mut both = table(&[("/a", "/b")]);
        for (child, parent) in [("/b", "/a"), ("/b", "/b/a/x"), ("/a", "/a"), ("/b", "/a/x")] {
            assert_eq!(both.insert(child, parent), Err(ParentError::Cycle), "{child} {parent}");
        }
        assert_eq!(both.insert("/a", "/b"), Ok(false));
        // Two nodes that did not know of each other.
        both.insert_unchecked("/b", "/a");
        let names = both.names("/a/x");
        assert!(names.len() <= NAMES_MAX && names.len() > 4, "{names:?}");
        assert!(names.iter().all(|name| name.matches('/').count() <= COMPONENTS_MAX));
    }

    #[test]
    fn bounds_of_table_and_names_hold() {
        let mut table = Parents::default();
        for number in 0..NAMES_MAX - 1 {
            assert_eq!(table.insert("/a/x", &format!("/p{number}")), Ok(true));
        }
        assert_eq!(table.insert("/a/x", "/one-more"), Err(ParentError::Full));
        assert_eq!(table.names("/a/x").len(), NAMES_MAX);
        for number in 0..2 * PARENTS_MAX {
            table.insert_unchecked(&format!("/c{number}"), "/p");
        }
        assert_eq!(table.iter().count(), PARENTS_MAX);
    }
}
