//! Changes of a router's FIB: by the router itself where the FIB is its own, by somebody else where several routers share it.

use crate::strategy::{Strategies, StrategyId};
use nw_element_api::FaceId;
use nw_name::{HashKey, Name, NameRef};
use nw_tables::fib::{Fib, FibConfig, FibError, NextHop};

/// Next hops that a prefix did not have before: Interests that wait under it may want them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNextHops {
    /// The prefix.
    pub prefix: Name,
    /// Decides whether Interests that wait are sent there.
    pub strategy: StrategyId,
    /// By which faces.
    pub faces: Vec<FaceId>,
}

/// As a router's is at first: `/` has the default strategy and no next hop.
///
/// # Panics
/// When it is to have no prefix at all.
pub fn empty_fib(key: HashKey, config: FibConfig) -> Fib {
    let mut fib = Fib::new(key, config);
    fib.set(NameRef::ROOT, &[], Strategies::DEFAULT).expect("an empty FIB has room for /");
    fib
}

/// Sets next hops and strategy of a prefix, in place of what was; gives the faces among them that are new.
///
/// # Errors
/// What is too much; nothing has changed then.
pub fn set(
    fib: &mut Fib,
    name: NameRef<'_>,
    next_hops: &[NextHop],
    strategy: StrategyId,
) -> Result<Vec<FaceId>, FibError> {
    let known = fib.exact(name).map_or(&[][..], |route| route.next_hops);
    let faces = next_hops.iter().map(|hop| hop.face);
    let new = faces.filter(|face| known.iter().all(|hop| hop.face != *face)).collect();
    fib.set(name, next_hops, strategy)?;
    Ok(new)
}

/// Removes a prefix; false when it was not there. `/` stays, without next hops and with the default strategy.
pub fn remove(fib: &mut Fib, name: NameRef<'_>) -> bool {
    if name.is_empty() {
        return fib.set(name, &[], Strategies::DEFAULT).is_ok();
    }
    fib.remove(name)
}
