//! Best-route: the cheapest next hop; on retransmission one not tried yet, else the one asked longest ago.
//!
//! As `/localhost/nfd/strategy/best-route/v=5` of the reference: Nack(NoRoute) when there is none; Nacks are passed on when all that were asked
//! have refused.

use super::{StrategyContext, Suppression, shared};

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BestRoute {
    /// When a retransmission is sent.
    pub suppression: Suppression,
}

impl BestRoute {
    #[inline]
    pub(super) fn after_interest(&self, context: &mut StrategyContext<'_>) {
        shared::send_to_one(context, &self.suppression, |context| context.eligible().next());
    }

    pub(super) fn after_nack(&self, context: &mut StrategyContext<'_>) {
        shared::pass_on_nack(context);
    }
}
