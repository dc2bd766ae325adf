//! Forwarding strategies: which next hops an Interest takes, and what a Nack means.
//!
//! One file per strategy, three events each (Interest, Data, Nack), one narrow context: a strategy sees one pending Interest and its eligible
//! next hops, and leaves [`Decisions`] that the router carries out. It holds no packets and reads no clock. What it remembers of prefixes stands in one
//! table for all ([`StrategyState`]), what it remembers of a pending Interest with that; time and chance are arguments.
//!
//! To add one: its file, a variant of [`Strategy`], a line in the list in `known.rs`. The compiler names the rest.

mod access;
mod asf;
mod best_route;
mod context;
mod fail_over;
mod hash;
mod known;
mod multicast;
mod names;
mod random;
mod registry;
mod round_robin;
mod self_learning;
mod shared;
mod state;
mod suppression;
mod weighted;

pub use access::Access;
pub use asf::Asf;
pub use best_route::BestRoute;
pub use context::{Decisions, Eligibility, Event, Extras, Form, Forward, Lesson, Nacks, StrategyContext};
pub(crate) use context::{WANTS_DATA, WANTS_WAKING, is_pending};
pub use fail_over::FailOver;
pub use hash::Hash;
pub use multicast::Multicast;
pub use names::StrategyError;
pub use nw_tables::fib::StrategyId;
pub use random::Random;
pub use registry::Strategies;
pub use round_robin::RoundRobin;
pub use self_learning::{DISCOVERY_FACES_MAX, SelfLearning};
pub use state::{Generator, StrategyState};
pub use suppression::{RetxVerdict, Suppression};
pub use weighted::{WEIGHTS_MAX, Weighted};

/// A strategy with its parameters: an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The cheapest next hop; another one on retransmission.
    BestRoute(BestRoute),
    /// All next hops.
    Multicast(Multicast),
    /// The next hop that answers fastest.
    Asf(Asf),
    /// All neighbours until a route is learnt.
    SelfLearning(SelfLearning),
    /// Any next hop.
    Random(Random),
    /// The next hop that answered last.
    Access(Access),
    /// Next hops by shares.
    Weighted(Weighted),
    /// The next hop that the name falls to.
    Hash(Hash),
    /// Next hops in turn.
    RoundRobin(RoundRobin),
    /// The cheapest next hop that works.
    FailOver(FailOver),
}

impl Strategy {
    /// An Interest that was not answered from the content store, is no loop, and is in the table.
    #[inline]
    pub fn after_interest(&self, context: &mut StrategyContext<'_>) {
        match self {
            Strategy::BestRoute(strategy) => strategy.after_interest(context),
            Strategy::Multicast(strategy) => strategy.after_interest(context),
            Strategy::Asf(strategy) => strategy.after_interest(context),
            Strategy::SelfLearning(strategy) => strategy.after_interest(context),
            Strategy::Random(strategy) => strategy.after_interest(context),
            Strategy::Access(strategy) => strategy.after_interest(context),
            Strategy::Weighted(strategy) => strategy.after_interest(context),
            Strategy::Hash(strategy) => strategy.after_interest(context),
            Strategy::RoundRobin(strategy) => strategy.after_interest(context),
            Strategy::FailOver(strategy) => strategy.after_interest(context),
        }
    }

    /// A Data that satisfies a pending Interest whose strategy wanted to see it. The router itself sends it to all askers; a strategy only learns.
    pub fn after_data(&self, context: &mut StrategyContext<'_>) {
        match self {
            Strategy::Asf(strategy) => strategy.after_data(context),
            Strategy::SelfLearning(strategy) => strategy.after_data(context),
            Strategy::Access(strategy) => strategy.after_data(context),
            Strategy::FailOver(strategy) => strategy.after_data(context),
            Strategy::BestRoute(_)
            | Strategy::Multicast(_)
            | Strategy::Random(_)
            | Strategy::Weighted(_)
            | Strategy::Hash(_)
            | Strategy::RoundRobin(_) => {}
        }
    }

    /// A Nack from a next hop that was asked; it is recorded already.
    pub fn after_nack(&self, context: &mut StrategyContext<'_>) {
        match self {
            Strategy::BestRoute(strategy) => strategy.after_nack(context),
            Strategy::Asf(strategy) => strategy.after_nack(context),
            Strategy::SelfLearning(strategy) => strategy.after_nack(context),
            Strategy::Random(strategy) => strategy.after_nack(context),
            Strategy::Weighted(strategy) => strategy.after_nack(context),
            Strategy::Hash(strategy) => strategy.after_nack(context),
            Strategy::RoundRobin(strategy) => strategy.after_nack(context),
            Strategy::FailOver(strategy) => strategy.after_nack(context),
            // "Multicast, access: no Nack at all."
            Strategy::Multicast(_) | Strategy::Access(_) => {}
        }
    }

    /// The moment has come that the strategy asked for, and the Interest still waits.
    pub fn on_timer(&self, context: &mut StrategyContext<'_>) {
        if let Strategy::Access(strategy) = self {
            strategy.on_timer(context);
        }
    }

    /// True when all it does for a new pending Interest is to send it to the cheapest next hop that may be taken: the router needs not ask it then.
    #[inline]
    pub const fn sends_new_to_cheapest(&self) -> bool {
        matches!(self, Strategy::BestRoute(_))
    }

    /// True when a Nack may make it ask another next hop: it is shown them then.
    pub const fn retries_after_nack(&self) -> bool {
        use Strategy::{FailOver, Hash, RoundRobin, Weighted};
        matches!(self, Weighted(_) | Hash(_) | RoundRobin(_) | FailOver(_))
    }

    /// True when a looping Interest is answered by a Nack(Duplicate).
    pub const fn nacks_loops(&self) -> bool {
        !matches!(self, Strategy::Multicast(_))
    }

    /// True when pending Interests are sent to a next hop that is added while they wait.
    pub const fn follows_new_next_hops(&self) -> bool {
        matches!(self, Strategy::Multicast(_))
    }
}
