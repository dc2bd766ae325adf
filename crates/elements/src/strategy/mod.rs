//! Forwarding strategies: which next hops an Interest is sent to, and what a Nack means.
//!
//! One file per strategy: a plain type that implements [`ForwardingStrategy`]. A strategy is called
//! for an event (Interest, Data, Nack, timer) of one pending Interest. It sees that Interest and
//! its eligible next hops through [`StrategyContext`], and leaves [`Decisions`] that the router
//! carries out. It holds no packets and reads no clock. What it remembers per prefix is in one
//! table shared by all strategies ([`StrategyState`]), what it remembers per pending Interest is in
//! the PIT entry; time and random numbers come from the context.
//!
//! To add a strategy: write its file, and add its module and its line in the list below. The
//! compiler reports every constant and method that is missing.

mod access;
mod asf;
mod best_route;
mod catalogue;
mod context;
mod fail_over;
mod hash;
mod multicast;
mod parameters;
mod random;
mod registry;
mod retransmission;
mod round_robin;
mod self_learning;
mod state;
mod suppression;
mod weighted;

pub use access::Access;
pub use asf::Asf;
pub use best_route::BestRoute;
pub use catalogue::{ForwardingStrategy, StrategyInfo};
pub use context::{
    Decisions, Eligibility, Event, Forward, Nacks, RouteEvent, SendAs, StrategyContext,
    StrategyExtras,
};
pub(crate) use context::{StrategyRoute, Trigger, WANTS_DATA, WANTS_TIMER, is_pending};
pub use fail_over::FailOver;
pub use hash::Hash;
pub use multicast::Multicast;
pub use nw_tables::fib::StrategyId;
pub use parameters::{Parameters, StrategyError};
pub use random::Random;
pub use registry::Strategies;
pub use round_robin::RoundRobin;
pub use self_learning::{DISCOVERY_FACES_MAX, SelfLearning};
pub use state::StrategyState;
pub use suppression::{RetxVerdict, Suppression};
pub use weighted::{WEIGHTS_MAX, Weighted};

catalogue::strategies! {
    /// The cheapest next hop; another one on retransmission.
    BestRoute,
    /// All next hops.
    Multicast,
    /// The next hop with the lowest round-trip time.
    Asf,
    /// All neighbours until a route is learned.
    SelfLearning,
    /// A random next hop.
    Random,
    /// The next hop that answered last.
    Access,
    /// Next hops in proportion to their weights.
    Weighted,
    /// One next hop per name.
    Hash,
    /// Next hops in turn.
    RoundRobin,
    /// The cheapest working next hop.
    FailOver,
}
