//! Fail-over: the cheapest next hop that works; a dearer one only while cheaper ones have failed.
//!
//! `/localhost/nfd/strategy/fail-over/v=1`. A next hop has failed after `max-timeouts` (2) answers
//! in a row that timed out (RFC 6298, at least 200 ms) or were Nacks other than Duplicate. While a
//! cheaper next hop is failed, one Interest per `recovery-interval` (5000 ms) is copied to the
//! cheapest failed one, with its own nonce; its first answer brings that next hop back into use. If
//! all have failed, the cheapest is used. A retransmission, or an Interest that got a Nack, goes to
//! a next hop not used yet.

use super::{
    ForwardingStrategy, Parameters, RetxVerdict, StrategyContext, StrategyError, Suppression,
    parameters, retransmission,
};
use nw_element_api::FaceId;
use nw_tables::fib::NextHop;
use nw_tables::measurements::{FaceState, RTO_MIN};
use nw_wire::NackReason;

/// Milliseconds without an Interest after which a prefix's measurements are dropped.
const LIFETIME_MS: u64 = 300_000;

/// The fail-over strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailOver {
    /// Intervals of retransmission suppression.
    pub suppression: Suppression,
    /// Timeouts in a row after which a next hop has failed, at least 1.
    pub timeouts_max: u8,
    /// Milliseconds between probes of a failed next hop.
    pub recovery_interval_ms: u32,
}

impl Default for FailOver {
    fn default() -> Self {
        FailOver {
            suppression: Suppression::default(),
            timeouts_max: 2,
            recovery_interval_ms: 5000,
        }
    }
}

impl ForwardingStrategy for FailOver {
    const NAME: &'static str = "fail-over";
    const VERSION: u64 = 1;
    const PARAMETERS: &'static [&'static str] = &[
        "max-timeouts",
        "recovery-interval",
        parameters::INITIAL,
        parameters::MAX,
        parameters::MULTIPLIER,
    ];
    const RETRIES_AFTER_NACK: bool = true;
    const NACKS_LOOPS: bool = true;
    const FOLLOWS_NEW_NEXT_HOPS: bool = false;
    const NEEDS_PIT: bool = false;

    fn from_parameters(given: &Parameters<'_>) -> Result<Self, StrategyError> {
        let mut fail_over = FailOver { suppression: given.suppression()?, ..FailOver::default() };
        if let Some(timeouts) = given.timeouts_max()? {
            fail_over.timeouts_max = timeouts;
        }
        let interval = "recovery-interval is a number of milliseconds from 100 to 4294967295";
        if let Some(ms) = given.number("recovery-interval", 100..=u32::MAX, interval)? {
            fail_over.recovery_interval_ms = ms;
        }
        Ok(fail_over)
    }

    fn after_interest(&self, context: &mut StrategyContext<'_>) {
        context.request_data_event();
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
                start_measurement(context, hop.face);
                self.probe_failed(context, hop);
            }
            RetxVerdict::Forward(interval_ms) => {
                context.set_retx_interval_ms(interval_ms);
                if let Some(hop) =
                    unused_next_hop(context).or_else(|| retransmission::earliest_used(context))
                {
                    context.forward(hop.face);
                    start_measurement(context, hop.face);
                }
            }
        }
    }

    fn after_data(&self, context: &mut StrategyContext<'_>) {
        context.finish_measurement(context.route_len());
        // A failed next hop that is probed may answer later.
        context.hold_for_late_data(retransmission::LATE_DATA_HOLD);
    }

    fn after_nack(&self, context: &mut StrategyContext<'_>) {
        let (ingress, components) = (context.ingress(), context.route_len());
        let (now, reason) =
            (context.now(), context.out_record(ingress).and_then(|record| record.nack));
        if reason != Some(NackReason::Duplicate)
            && let Some(record) = context.record_or_new(components, LIFETIME_MS)
        {
            record.face_or_new(now, ingress).record_timeout(self.timeouts_max);
        }
        match unused_next_hop(context) {
            Some(hop) => {
                context.forward(hop.face);
                start_measurement(context, hop.face);
            }
            None => retransmission::pass_on_nack(context),
        }
    }
}

impl FailOver {
    /// Sends a probe to the cheapest failed next hop, if it is cheaper than `used` and a probe is
    /// due.
    fn probe_failed(&self, context: &mut StrategyContext<'_>, used: NextHop) {
        let failed = context
            .eligible()
            .take_while(|hop| *hop != used)
            .find(|hop| has_failed(context, hop.face));
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
            start_measurement(context, failed.face);
        }
    }
}

/// Returns whether a next hop has failed.
fn has_failed(context: &StrategyContext<'_>, face: FaceId) -> bool {
    let record = context.peek(context.route_len());
    record
        .and_then(|record| record.face(face))
        .is_some_and(|face| face.state() == FaceState::Failed)
}

/// Returns the cheapest working next hop.
fn first_working(context: &StrategyContext<'_>) -> Option<NextHop> {
    context.eligible().find(|hop| !has_failed(context, hop.face))
}

/// Returns a next hop not used yet for this Interest: the cheapest working one, else the cheapest.
fn unused_next_hop(context: &StrategyContext<'_>) -> Option<NextHop> {
    let mut unused = context.eligible().filter(|hop| retransmission::is_unused(context, hop.face));
    unused.clone().find(|hop| !has_failed(context, hop.face)).or_else(|| unused.next())
}

fn start_measurement(context: &mut StrategyContext<'_>, face: FaceId) {
    context.start_measurement(context.route_len(), face, LIFETIME_MS, RTO_MIN);
}
