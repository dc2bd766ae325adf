//! Round-robin: the next hops of a prefix take turns.
//!
//! `/localhost/nfd/strategy/round-robin/v=1`. Each prefix that has a route has its own turn
//! counter. If the next hop whose turn it is is not eligible, the turn passes to the following one.
//! A retransmission, or an Interest that got a Nack, goes to a next hop not used yet.

use super::{
    ForwardingStrategy, Parameters, StrategyContext, StrategyError, Suppression, parameters,
    retransmission,
};
use nw_tables::fib::NextHop;

/// Milliseconds without an Interest after which a prefix starts from its first next hop again.
const LIFETIME_MS: u64 = 300_000;

/// The round-robin strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundRobin {
    /// Intervals of retransmission suppression.
    pub suppression: Suppression,
}

impl ForwardingStrategy for RoundRobin {
    const NAME: &'static str = "round-robin";
    const VERSION: u64 = 1;
    const PARAMETERS: &'static [&'static str] = parameters::SUPPRESSION;
    const RETRIES_AFTER_NACK: bool = true;
    const NACKS_LOOPS: bool = true;
    const FOLLOWS_NEW_NEXT_HOPS: bool = false;
    const NEEDS_PIT: bool = false;

    fn from_parameters(given: &Parameters<'_>) -> Result<Self, StrategyError> {
        Ok(RoundRobin { suppression: given.suppression()? })
    }

    fn after_interest(&self, context: &mut StrategyContext<'_>) {
        retransmission::send_to_one(context, &self.suppression, next_in_turn);
    }

    fn after_nack(&self, context: &mut StrategyContext<'_>) {
        retransmission::retry_or_pass_on_nack(context);
    }
}

/// Returns the next hop whose turn it is and advances the turn counter.
fn next_in_turn(context: &mut StrategyContext<'_>) -> Option<NextHop> {
    let hops = context.next_hops();
    let components = context.route_len();
    let start = match context.record_or_new(components, LIFETIME_MS) {
        Some(record) => record.cursor as usize,
        // The measurement table is full: a random start is as fair.
        None => context.random_below(hops.len() as u64) as usize,
    };
    let turns = (0..hops.len()).map(|turn| (start + turn) % hops.len());
    let at = turns.into_iter().find(|at| context.is_eligible(hops[*at].face))?;
    if let Some(record) = context.record_or_new(components, LIFETIME_MS) {
        record.cursor = (at as u32 + 1) % hops.len() as u32;
    }
    Some(hops[at])
}
