//! Forwarding strategies: which next hops an Interest takes, and what a Nack means.
//!
//! One file per strategy, three events each (Interest, Data, Nack), one narrow context: a strategy sees one pending Interest and its eligible
//! next hops, and leaves [`Decisions`] that the router carries out. It holds no packets and reads no clock.
//!
//! To add one: its file, a variant of [`Strategy`], a line in the list in `names.rs`. The compiler names the rest.

mod best_route;
mod context;
mod multicast;
mod names;
mod registry;
mod suppression;

pub use best_route::BestRoute;
pub(crate) use context::is_pending;
pub use context::{Decisions, Eligibility, Forward, Nacks, StrategyContext};
pub use multicast::Multicast;
pub use names::StrategyError;
pub use nw_tables::fib::StrategyId;
pub use registry::Strategies;
pub use suppression::{RetxVerdict, Suppression};

/// A strategy with its parameters: an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The cheapest next hop; another one on retransmission.
    BestRoute(BestRoute),
    /// All next hops.
    Multicast(Multicast),
}

impl Strategy {
    /// An Interest that was not answered from the content store, is no loop, and is in the table.
    #[inline]
    pub fn after_interest(&self, context: &mut StrategyContext<'_>) {
        match self {
            Strategy::BestRoute(strategy) => strategy.after_interest(context),
            Strategy::Multicast(strategy) => strategy.after_interest(context),
        }
    }

    /// A Data that satisfies the pending Interest. The router itself sends it to all askers; a strategy only learns.
    #[inline]
    pub fn after_data(&self, _context: &mut StrategyContext<'_>) {
        match self {
            // Neither measures anything; see `learns_from_data`.
            Strategy::BestRoute(_) | Strategy::Multicast(_) => {}
        }
    }

    /// A Nack from a next hop that was asked; it is recorded already.
    pub fn after_nack(&self, context: &mut StrategyContext<'_>) {
        match self {
            Strategy::BestRoute(strategy) => strategy.after_nack(context),
            // "Multicast: no Nack at all."
            Strategy::Multicast(_) => {}
        }
    }

    /// True when [`after_data`](Self::after_data) does anything: the router saves itself a lookup otherwise.
    pub const fn learns_from_data(&self) -> bool {
        match self {
            Strategy::BestRoute(_) | Strategy::Multicast(_) => false,
        }
    }

    /// True when a looping Interest is answered by a Nack(Duplicate).
    pub const fn nacks_loops(&self) -> bool {
        match self {
            Strategy::BestRoute(_) => true,
            Strategy::Multicast(_) => false,
        }
    }

    /// True when pending Interests are sent to a next hop that is added while they wait.
    pub const fn follows_new_next_hops(&self) -> bool {
        match self {
            Strategy::BestRoute(_) => false,
            Strategy::Multicast(_) => true,
        }
    }
}
