//! What several strategies do alike: retransmissions to another next hop, Nacks.

use super::{RetxVerdict, StrategyContext, Suppression};
use core::time::Duration;
use nw_element_api::FaceId;
use nw_tables::fib::NextHop;
use nw_wire::NackReason;

/// How long the answer of a slower next hop is waited for, so that it is measured.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// True when the pending Interest has not been sent there, or what was sent has ended.
#[inline]
pub(super) fn is_unused(context: &StrategyContext<'_>, face: FaceId) -> bool {
    context.out_record(face).is_none_or(|record| record.expiry <= context.now())
}

/// The cheapest next hop not used yet, else the one used longest ago.
#[inline]
pub(super) fn another_next_hop(context: &StrategyContext<'_>) -> Option<NextHop> {
    context.eligible().find(|hop| is_unused(context, hop.face)).or_else(|| earliest_used(context))
}

/// The next hop that was asked longest ago. `min_by_key` keeps the first of equals: the cheaper one.
#[inline]
pub(super) fn earliest_used(context: &StrategyContext<'_>) -> Option<NextHop> {
    context.eligible().min_by_key(|hop| context.out_record(hop.face).map(|record| record.sent))
}

/// Sends a new Interest where `choose` says, a retransmission to another next hop; refuses when there is none.
#[inline]
pub(super) fn send_to_one(
    context: &mut StrategyContext<'_>,
    suppression: &Suppression,
    choose: impl FnOnce(&mut StrategyContext<'_>) -> Option<NextHop>,
) {
    match suppression.per_entry(context) {
        RetxVerdict::Suppress => context.suppress(),
        RetxVerdict::New => match choose(context) {
            Some(hop) => context.forward(hop.face),
            None => context.nack(context.ingress(), NackReason::NoRoute),
        },
        RetxVerdict::Forward(interval_ms) => {
            context.set_retx_interval_ms(interval_ms);
            if let Some(hop) = another_next_hop(context) {
                context.forward(hop.face);
            }
        }
    }
}

/// "All nacked => Nack downstream with the least severe reason; one un-nacked upstream that is also a downstream => Nack it."
pub(super) fn pass_on_nack(context: &mut StrategyContext<'_>) {
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

/// Tries a next hop not used yet before the Nack is passed on. For strategies that are offered next hops with a Nack.
pub(super) fn retry_or_pass_on_nack(context: &mut StrategyContext<'_>) {
    let unused = context.eligible().find(|hop| is_unused(context, hop.face));
    match unused {
        Some(hop) => context.forward(hop.face),
        None => pass_on_nack(context),
    }
}
