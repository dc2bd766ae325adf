//! Best-route: the cheapest next hop; a retransmission goes to another one.
//!
//! NFD's `/localhost/nfd/strategy/best-route/v=5`. A retransmission goes to the cheapest next hop
//! not used yet for this Interest, or else to the one used longest ago. Without an eligible next
//! hop the answer is Nack(NoRoute). Nacks are passed on once every next hop that was used has sent
//! one.

use super::{
    ForwardingStrategy, Parameters, StrategyContext, StrategyError, Suppression, parameters,
    retransmission,
};

/// The best-route strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BestRoute {
    /// Intervals of retransmission suppression.
    pub suppression: Suppression,
}

impl ForwardingStrategy for BestRoute {
    const NAME: &'static str = "best-route";
    const VERSION: u64 = 5;
    const PARAMETERS: &'static [&'static str] = parameters::SUPPRESSION;
    const SENDS_NEW_TO_CHEAPEST: bool = true;
    const RETRIES_AFTER_NACK: bool = false;
    const NACKS_LOOPS: bool = true;
    const FOLLOWS_NEW_NEXT_HOPS: bool = false;
    const NEEDS_PIT: bool = false;

    fn from_parameters(given: &Parameters<'_>) -> Result<Self, StrategyError> {
        Ok(BestRoute { suppression: given.suppression()? })
    }

    #[inline]
    fn after_interest(&self, context: &mut StrategyContext<'_>) {
        retransmission::send_to_one(context, &self.suppression, |context| {
            context.eligible().next()
        });
    }

    fn after_nack(&self, context: &mut StrategyContext<'_>) {
        retransmission::pass_on_nack(context);
    }
}
