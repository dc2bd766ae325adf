//! Fail-over: the cheapest next hop that works; dearer ones only while cheaper ones don't.
//!
//! `/localhost/nfd/strategy/fail-over/v=1`. A next hop fails after `max-timeouts` (2) answers in a row that did not come in time or were Nacks
//! other than Duplicate; time is RFC 6298's, 200 ms at least. While a cheaper next hop has failed, one Interest each `recovery-interval` (5000
//! ms) is sent to the cheapest of these too, with a nonce of its own: its first answer brings it back. When all have failed the cheapest is asked. A
//! retransmission goes to a next hop not tried yet; so does an Interest that was refused.

use super::{RetxVerdict, StrategyContext, Suppression, shared};
use nw_element_api::FaceId;
use nw_tables::fib::NextHop;
use nw_tables::measurements::{FaceState, RTO_MIN};
use nw_wire::NackReason;

/// What was found out about a prefix not asked for this long is forgotten.
const LIFETIME_MS: u64 = 300_000;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailOver {
    /// When a retransmission is sent.
    pub suppression: Suppression,
    /// Answers in a row that may be missing before a next hop has failed, at least 1.
    pub timeouts_max: u8,
    /// Milliseconds between trials of a next hop that has failed.
    pub recovery_interval_ms: u32,
}

impl Default for FailOver {
    fn default() -> Self {
        FailOver { suppression: Suppression::default(), timeouts_max: 2, recovery_interval_ms: 5000 }
    }
}

impl FailOver {
    pub(super) fn after_interest(&self, context: &mut StrategyContext<'_>) {
        context.want_data();
        let (now, components) = (context.now(), context.route_len());
        if let Some(record) = context.record(components) {
            record.refresh(now, LIFETIME_MS, self.timeouts_max);
        }
        match self.suppression.per_entry(context) {
            RetxVerdict::Suppress => context.suppress(),
            RetxVerdict::New => {
                let cheapest = context.eligible().next();
                let Some(hop) = first_working(context).or(cheapest) else {
                    return context.nack(context.ingress(), NackReason::NoRoute);
                };
                context.forward(hop.face);
                note_sent(context, hop.face);
                self.try_failed(context, hop);
            }
            RetxVerdict::Forward(interval_ms) => {
                context.set_retx_interval_ms(interval_ms);
                if let Some(hop) = untried(context).or_else(|| shared::earliest_used(context)) {
                    context.forward(hop.face);
                    note_sent(context, hop.face);
                }
            }
        }
    }

    pub(super) fn after_data(&self, context: &mut StrategyContext<'_>) {
        context.measure(context.route_len());
        // One that is tried again may answer later.
        context.linger(shared::LINGER);
    }

    pub(super) fn after_nack(&self, context: &mut StrategyContext<'_>) {
        let (ingress, components) = (context.ingress(), context.route_len());
        let (now, reason) = (context.now(), context.out_record(ingress).and_then(|record| record.nack));
        if reason != Some(NackReason::Duplicate)
            && let Some(record) = context.record_or_new(components, LIFETIME_MS)
        {
            record.face_or_new(now, ingress).missed(self.timeouts_max);
        }
        match untried(context) {
            Some(hop) => {
                context.forward(hop.face);
                note_sent(context, hop.face);
            }
            None => shared::pass_on_nack(context),
        }
    }

    /// Sends a copy to the cheapest next hop that has failed, if it would be preferred to `used` and its time has come.
    fn try_failed(&self, context: &mut StrategyContext<'_>, used: NextHop) {
        let failed =
            context.eligible().take_while(|hop| *hop != used).find(|hop| has_failed(context, hop.face));
        let (now, components) = (context.now(), context.route_len());
        let Some(record) = context.record(components) else { return };
        let Some(failed) = failed else {
            record.probe_at = 0;
            return;
        };
        let next = now.plus_millis(u64::from(self.recovery_interval_ms)).as_nanos();
        if record.probe_at == 0 {
            record.probe_at = next;
        } else if record.probe_at <= now.as_nanos() {
            record.probe_at = next;
            context.forward_probe(failed.face);
            note_sent(context, failed.face);
        }
    }
}

fn has_failed(context: &StrategyContext<'_>, face: FaceId) -> bool {
    let record = context.peek(context.route_len());
    record.and_then(|record| record.face(face)).is_some_and(|face| face.state() == FaceState::Failed)
}

fn first_working(context: &StrategyContext<'_>) -> Option<NextHop> {
    context.eligible().find(|hop| !has_failed(context, hop.face))
}

/// One not used yet for this Interest: the cheapest that works, else the cheapest.
fn untried(context: &StrategyContext<'_>) -> Option<NextHop> {
    let mut unused = context.eligible().filter(|hop| shared::is_unused(context, hop.face));
    unused.clone().find(|hop| !has_failed(context, hop.face)).or_else(|| unused.next())
}

fn note_sent(context: &mut StrategyContext<'_>, face: FaceId) {
    context.note_sent(context.route_len(), face, LIFETIME_MS, RTO_MIN);
}
