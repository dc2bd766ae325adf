//! Best-route: the cheapest next hop; on retransmission one not tried yet, else the one asked longest ago.
//!
//! As `/localhost/nfd/strategy/best-route/v=5` of the reference: Nack(NoRoute) when there is none; Nacks are passed on when all that were asked
//! have refused.

use super::{RetxVerdict, StrategyContext, Suppression};
use nw_wire::NackReason;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BestRoute {
    /// When a retransmission is sent.
    pub suppression: Suppression,
}

impl BestRoute {
    #[inline]
    pub(super) fn after_interest(&self, context: &mut StrategyContext<'_>) {
        match self.suppression.per_entry(context) {
            RetxVerdict::Suppress => context.suppress(),
            RetxVerdict::New => match context.eligible().next() {
                Some(hop) => context.forward(hop.face),
                None => context.nack(context.ingress(), NackReason::NoRoute),
            },
            RetxVerdict::Forward(interval_ms) => {
                context.set_retx_interval_ms(interval_ms);
                self.retransmit(context);
            }
        }
    }

    fn retransmit(&self, context: &mut StrategyContext<'_>) {
        let now = context.now();
        let unused = |face| context.out_record(face).is_none_or(|record| record.expiry <= now);
        let hop = context.eligible().find(|hop| unused(hop.face)).or_else(|| {
            // `min_by_key` keeps the first of equals: the cheaper one.
            context.eligible().min_by_key(|hop| context.out_record(hop.face).map(|record| record.sent))
        });
        if let Some(hop) = hop {
            context.forward(hop.face);
        }
    }

    /// "All nacked => Nack downstream with the least severe reason; one un-nacked upstream that is also a downstream => Nack it."
    pub(super) fn after_nack(&self, context: &mut StrategyContext<'_>) {
        let mut reason = NackReason::None;
        let (mut waiting, mut last_waiting) = (0, None);
        for record in context.out_records() {
            match record.nack {
                Some(nack) if nack.severity() < reason.severity() => reason = nack,
                Some(_) => {}
                None => {
                    waiting += 1;
                    last_waiting = Some(record.face);
                }
            }
        }
        match (waiting, last_waiting) {
            (0, _) => context.nack_all(reason),
            // That neighbour waits for us while we wait for it: neither would ever answer.
            (1, Some(face)) if context.is_downstream(face) => context.nack(face, reason),
            _ => {}
        }
    }
}
