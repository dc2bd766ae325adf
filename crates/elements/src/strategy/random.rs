//! Random: one of the eligible next hops, each as likely.
//!
//! As `/localhost/nfd/strategy/random/v=1` of the reference: no parameters; every retransmission is sent, to a next hop drawn anew; Nack(NoRoute)
//! when there is none; Nacks are passed on when all that were asked have refused.

use super::{StrategyContext, shared};
use nw_wire::NackReason;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Random;

impl Random {
    pub(super) fn after_interest(&self, context: &mut StrategyContext<'_>) {
        let draw = context.random_below(context.eligible().count() as u64);
        match context.eligible().nth(draw as usize) {
            Some(hop) => context.forward(hop.face),
            None => context.nack(context.ingress(), NackReason::NoRoute),
        }
    }

    pub(super) fn after_nack(&self, context: &mut StrategyContext<'_>) {
        shared::pass_on_nack(context);
    }
}
