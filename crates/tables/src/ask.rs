//! What an Interest asks a table.

use nw_name::{NameRef, Prefixes};

/// The part of an Interest that decides which Data answer it: also the identity of a pending Interest.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The name, with its implicit digest if it has one.
    pub name: NameRef<'a>,
    /// Hashes of the name's prefixes.
    pub prefixes: &'a Prefixes,
    /// A Data with a longer name may answer.
    pub can_be_prefix: bool,
    /// A cached Data must be within its FreshnessPeriod.
    pub must_be_fresh: bool,
}
