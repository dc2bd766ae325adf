//! Parts that several strategies share: retransmissions to another next hop, Nacks.

use super::{RetxVerdict, StrategyContext, Suppression};
use core::time::Duration;
use nw_element_api::FaceId;
use nw_tables::fib::NextHop;
use nw_wire::NackReason;

/// How long an entry is held for the answer of a slower next hop, so that it is measured.
pub(super) const LATE_DATA_HOLD: Duration = Duration::from_secs(1);

/// Returns whether the pending Interest was not sent to a face, or that out-record has expired.
#[inline]
pub(super) fn is_unused(context: &StrategyContext<'_>, face: FaceId) -> bool {
    context.out_record(face).is_none_or(|record| record.expiry <= context.now())
}

/// Returns the cheapest next hop not used yet, else the one used longest ago.
#[inline]
pub(super) fn another_next_hop(context: &StrategyContext<'_>) -> Option<NextHop> {
    context.eligible().find(|hop| is_unused(context, hop.face)).or_else(|| earliest_used(context))
}

/// Returns the next hop used longest ago; of several, the cheapest, as `min_by_key` returns the
/// first.
#[inline]
pub(super) fn earliest_used(context: &StrategyContext<'_>) -> Option<NextHop> {
    context.eligible().min_by_key(|hop| context.out_record(hop.face).map(|record| record.sent))
}

/// Sends a new Interest to the next hop that `choose` returns (Nack(NoRoute) if `None`), and a
/// retransmission to another next hop.
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

/// "All nacked => Nack downstream with the least severe reason; one un-nacked upstream that is also
/// a downstream => Nack it."
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
        // That neighbour waits for this router and this router for it: neither could ever answer.
        (1, Some(face)) if context.is_downstream(face) => context.nack(face, reason),
        _ => {}
    }
}

/// Sends the Interest to a next hop not used yet, or else passes the Nack on. For strategies with
/// [`RETRIES_AFTER_NACK`](super::ForwardingStrategy::RETRIES_AFTER_NACK).
pub(super) fn retry_or_pass_on_nack(context: &mut StrategyContext<'_>) {
    let unused = context.eligible().find(|hop| is_unused(context, hop.face));
    match unused {
        Some(hop) => context.forward(hop.face),
        None => pass_on_nack(context),
    }
}
