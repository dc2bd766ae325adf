//! Random: one of the eligible next hops, all equally likely.
//!
//! NFD's `/localhost/nfd/strategy/random/v=1`; no parameters. Every retransmission is sent, to a
//! next hop drawn again. Without an eligible next hop the answer is Nack(NoRoute). Nacks are passed
//! on once every next hop that was used has sent one.

use super::{ForwardingStrategy, Parameters, StrategyContext, StrategyError, retransmission};
use nw_wire::NackReason;

/// The random strategy. It has no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Random;

impl ForwardingStrategy for Random {
    const NAME: &'static str = "random";
    const VERSION: u64 = 1;
    const PARAMETERS: &'static [&'static str] = &[];
    const RETRIES_AFTER_NACK: bool = false;
    const NACKS_LOOPS: bool = true;
    const FOLLOWS_NEW_NEXT_HOPS: bool = false;
    const NEEDS_PIT: bool = false;

    fn from_parameters(_: &Parameters<'_>) -> Result<Self, StrategyError> {
        Ok(Random)
    }

    fn after_interest(&self, context: &mut StrategyContext<'_>) {
        let draw = context.random_below(context.eligible().count() as u64);
        match context.eligible().nth(draw as usize) {
            Some(hop) => context.forward(hop.face),
            None => context.nack(context.ingress(), NackReason::NoRoute),
        }
    }

    fn after_nack(&self, context: &mut StrategyContext<'_>) {
        retransmission::pass_on_nack(context);
    }
}
