//! Round-robin: the next hops of a prefix take turns.
//!
//! `/localhost/nfd/strategy/round-robin/v=1`. Each prefix that has a route counts for itself; a turn that falls on a next hop which is not eligible
//! goes to the next one. A retransmission goes to a next hop not tried yet; so does an Interest that was refused.

use super::{StrategyContext, Suppression, shared};
use nw_tables::fib::NextHop;

/// A prefix not asked for this long starts from its first next hop.
const LIFETIME_MS: u64 = 300_000;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundRobin {
    /// When a retransmission is sent.
    pub suppression: Suppression,
}

impl RoundRobin {
    pub(super) fn after_interest(&self, context: &mut StrategyContext<'_>) {
        shared::send_to_one(context, &self.suppression, choose);
    }

    pub(super) fn after_nack(&self, context: &mut StrategyContext<'_>) {
        shared::retry_or_pass_on_nack(context);
    }
}

fn choose(context: &mut StrategyContext<'_>) -> Option<NextHop> {
    let hops = context.next_hops();
    let components = context.route_len();
    let start = match context.record_or_new(components, LIFETIME_MS) {
        Some(record) => record.cursor as usize,
        // No room to count turns: chance is as fair.
        None => context.random_below(hops.len() as u64) as usize,
    };
    let turns = (0..hops.len()).map(|turn| (start + turn) % hops.len());
    let at = turns.into_iter().find(|at| context.is_eligible(hops[*at].face))?;
    if let Some(record) = context.record_or_new(components, LIFETIME_MS) {
        record.cursor = (at as u32 + 1) % hops.len() as u32;
    }
    Some(hops[at])
}
