//! Changes of a router's FIB. A shared FIB is changed by its owner and passed to all routers.

use crate::strategy::{Strategies, StrategyId};
use nw_element_api::FaceId;
use nw_name::{HashKey, Name, NameRef};
use nw_tables::fib::{Fib, FibConfig, FibError, NextHop};

/// Next hops that were added to a prefix. Pending Interests under it may have to be sent to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNextHops {
    /// The prefix.
    pub prefix: Name,
    /// Its strategy, which decides whether pending Interests are sent there.
    pub strategy: StrategyId,
    /// The faces added.
    pub faces: Vec<FaceId>,
}

/// Creates the FIB of a new router: `/` has the default strategy and no next hop.
///
/// # Panics
/// When it has no room for a single prefix.
pub fn empty_fib(key: HashKey, config: FibConfig) -> Fib {
    let mut fib = Fib::new(key, config);
    fib.set(NameRef::ROOT, &[], Strategies::DEFAULT).expect("an empty FIB has room for /");
    fib
}

/// Sets next hops and strategy of a prefix, replacing earlier ones. Returns the faces that are new
/// among them.
///
/// # Errors
/// When a table limit is reached; nothing has changed then.
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

/// Removes a prefix. Returns whether it was there. `/` stays, without next hops and with the
/// default strategy.
pub fn remove(fib: &mut Fib, name: NameRef<'_>) -> bool {
    if name.is_empty() {
        return fib.set(name, &[], Strategies::DEFAULT).is_ok();
    }
    fib.remove(name)
}
