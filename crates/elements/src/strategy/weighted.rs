//! Weighted: next hops get shares of a prefix's Interests in proportion to their weights.
//!
//! `/localhost/nfd/strategy/weighted/v=1`. Without parameters a next hop's weight is 1 / (1 +
//! cost). With `weights~5-3-1` the cheapest next hop has weight 5, the next one 3, this and all
//! further ones 1; among equal costs the lower face id comes first. Only eligible next hops take
//! part, so the share of a removed one goes to the others. A retransmission, or an Interest that
//! got a Nack, goes to a next hop not used yet.

use super::{
    ForwardingStrategy, Parameters, StrategyContext, StrategyError, Suppression, parameters,
    retransmission,
};
use nw_tables::fib::NextHop;

/// Most weights that can be given.
pub const WEIGHTS_MAX: usize = 8;

/// The weighted strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weighted {
    /// Intervals of retransmission suppression.
    pub suppression: Suppression,
    /// Weights by rank, cheapest first; the first 0 ends the list. An empty list: weights by cost.
    pub weights: [u8; WEIGHTS_MAX],
}

impl ForwardingStrategy for Weighted {
    const NAME: &'static str = "weighted";
    const VERSION: u64 = 1;
    const PARAMETERS: &'static [&'static str] =
        &["weights", parameters::INITIAL, parameters::MAX, parameters::MULTIPLIER];
    const RETRIES_AFTER_NACK: bool = true;
    const NACKS_LOOPS: bool = true;
    const FOLLOWS_NEW_NEXT_HOPS: bool = false;
    const NEEDS_PIT: bool = false;

    fn from_parameters(given: &Parameters<'_>) -> Result<Self, StrategyError> {
        Ok(Weighted { suppression: given.suppression()?, weights: parse_weights(given)? })
    }

    fn after_interest(&self, context: &mut StrategyContext<'_>) {
        retransmission::send_to_one(context, &self.suppression, |context| {
            self.draw_next_hop(context)
        });
    }

    fn after_nack(&self, context: &mut StrategyContext<'_>) {
        retransmission::retry_or_pass_on_nack(context);
    }
}

impl Weighted {
    /// Draws an eligible next hop in proportion to the weights.
    fn draw_next_hop(&self, context: &mut StrategyContext<'_>) -> Option<NextHop> {
        // Ranks count all next hops of the prefix, so that a next hop's weight does not depend on
        // which others are eligible for this downstream.
        let eligible = context.next_hops().iter().enumerate();
        let eligible = eligible.filter(|(_, hop)| context.is_eligible(hop.face));
        let total = eligible.map(|(rank, hop)| self.weight(rank, hop)).sum();
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

    /// Returns the weight of a next hop at this rank.
    fn weight(&self, rank: usize, hop: &NextHop) -> u64 {
        let given = self.weights.iter().position(|weight| *weight == 0).unwrap_or(WEIGHTS_MAX);
        match given {
            0 => (1 << 32) / (1 + u64::from(hop.cost)),
            _ => u64::from(self.weights[rank.min(given - 1)]),
        }
    }
}

/// Parses the parameter `weights`.
fn parse_weights(given: &Parameters<'_>) -> Result<[u8; WEIGHTS_MAX], StrategyError> {
    let mut weights = [0; WEIGHTS_MAX];
    let Some(text) = given.text("weights") else { return Ok(weights) };
    let bad = || {
        StrategyError::BadParameter("weights is 1 to 8 numbers from 1 to 255, as in weights~5-3-1")
    };
    let mut slots = weights.iter_mut();
    for number in text.split('-') {
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let weight = number.parse().ok().filter(|weight| *weight > 0 && digits).ok_or_else(bad)?;
        *slots.next().ok_or_else(bad)? = weight;
    }
    Ok(weights)
}
