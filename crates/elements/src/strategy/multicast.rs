//! Multicast: all eligible next hops, suppression for each of them.
//!
//! As `/localhost/nfd/strategy/multicast/v=5` of the reference: no Nack at all, neither sent nor passed on, not even for loops; a next hop added
//! later gets the Interests that wait.

use super::{RetxVerdict, StrategyContext, Suppression};

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Multicast {
    /// When a retransmission is sent.
    pub suppression: Suppression,
}

impl Multicast {
    pub(super) fn after_interest(&self, context: &mut StrategyContext<'_>) {
        for hop in context.eligible() {
            match self.suppression.per_upstream(context, hop.face) {
                RetxVerdict::New => context.forward(hop.face),
                RetxVerdict::Forward(interval_ms) => context.forward_keeping(hop.face, interval_ms),
                RetxVerdict::Suppress => context.suppress(),
            }
        }
    }
}
