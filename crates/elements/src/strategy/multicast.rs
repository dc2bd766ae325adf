//! Multicast: all eligible next hops, with retransmission suppression per next hop.
//!
//! NFD's `/localhost/nfd/strategy/multicast/v=5`. It sends no Nacks and passes none on, not even
//! for loops. Pending Interests are also sent to next hops added later.

use super::{
    ForwardingStrategy, Parameters, RetxVerdict, StrategyContext, StrategyError, Suppression,
    parameters,
};

/// The multicast strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Multicast {
    /// Intervals of retransmission suppression.
    pub suppression: Suppression,
}

impl ForwardingStrategy for Multicast {
    const NAME: &'static str = "multicast";
    const VERSION: u64 = 5;
    const PARAMETERS: &'static [&'static str] = parameters::SUPPRESSION;
    const RETRIES_AFTER_NACK: bool = false;
    const NACKS_LOOPS: bool = false;
    const FOLLOWS_NEW_NEXT_HOPS: bool = true;
    const NEEDS_PIT: bool = false;

    fn from_parameters(given: &Parameters<'_>) -> Result<Self, StrategyError> {
        Ok(Multicast { suppression: given.suppression()? })
    }

    fn after_interest(&self, context: &mut StrategyContext<'_>) {
        for hop in context.eligible() {
            match self.suppression.per_upstream(context, hop.face) {
                RetxVerdict::New => context.forward(hop.face),
                RetxVerdict::Forward(interval_ms) => context.forward_keeping(hop.face, interval_ms),
                RetxVerdict::Suppress => context.suppress(),
            }
        }
    }

    /// "Multicast, access: no Nack at all."
    fn after_nack(&self, _: &mut StrategyContext<'_>) {}
}
