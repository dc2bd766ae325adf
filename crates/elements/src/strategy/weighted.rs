//! Weighted: shares the Interests of a prefix among its next hops.
//!
//! `/localhost/nfd/strategy/weighted/v=1`. Without parameters a next hop's weight is 1 / (1 + cost). With `weights~5-3-1` the cheapest next hop
//! has weight 5, the next 3, this and all further ones 1; among equal costs the lower face id comes first. Only eligible next hops are weighed,
//! so the share of one that is gone goes to the others. A retransmission goes to a next hop not tried yet; so does an Interest that was refused.

use super::{StrategyContext, Suppression, shared};
use nw_tables::fib::NextHop;

/// Next hops whose weights can be given.
pub const WEIGHTS_MAX: usize = 8;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weighted {
    /// When a retransmission is sent.
    pub suppression: Suppression,
    /// By rank; the first 0 ends them. None: by cost.
    pub weights: [u8; WEIGHTS_MAX],
}

impl Weighted {
    pub(super) fn after_interest(&self, context: &mut StrategyContext<'_>) {
        shared::send_to_one(context, &self.suppression, |context| self.choose(context));
    }

    pub(super) fn after_nack(&self, context: &mut StrategyContext<'_>) {
        shared::retry_or_pass_on_nack(context);
    }

    fn choose(&self, context: &mut StrategyContext<'_>) -> Option<NextHop> {
        // The rank is among all next hops of the prefix: who is eligible differs by asker, weights must not.
        let weighed = context.next_hops().iter().enumerate();
        let weighed = weighed.filter(|(_, hop)| context.is_eligible(hop.face));
        let total = weighed.map(|(rank, hop)| self.weight(rank, hop)).sum();
        let mut draw = context.random_below(total);
        for (rank, hop) in context.next_hops().iter().enumerate() {
            if !context.is_eligible(hop.face) {
                continue;
            }
            let weight = self.weight(rank, hop);
            if draw < weight {
                return Some(*hop);
            }
            draw -= weight;
        }
        None
    }

    fn weight(&self, rank: usize, hop: &NextHop) -> u64 {
        let given = self.weights.iter().position(|weight| *weight == 0).unwrap_or(WEIGHTS_MAX);
        match given {
            0 => (1 << 32) / (1 + u64::from(hop.cost)),
            _ => u64::from(self.weights[rank.min(given - 1)]),
        }
    }
}
