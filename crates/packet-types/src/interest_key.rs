//! The key of an Interest in the tables.

use nw_name::{NameRef, PrefixHashes};

/// The part of an Interest that decides which Data satisfy it: the key of a PIT entry and of a
/// content store lookup.
#[derive(Clone, Copy, Debug)]
pub struct InterestKey<'a> {
    /// The name, including its implicit digest if it has one.
    pub name: NameRef<'a>,
    /// The hashes of the name's prefixes.
    pub prefixes: &'a PrefixHashes,
    /// CanBePrefix: Data with a longer name may satisfy the Interest.
    pub can_be_prefix: bool,
    /// MustBeFresh: cached Data must be within their FreshnessPeriod.
    pub must_be_fresh: bool,
}
