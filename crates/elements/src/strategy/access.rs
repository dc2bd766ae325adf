//! Access: for a router next to applications that has a few upstreams.
//!
//! NFD's `/localhost/nfd/strategy/access/v=1`: no parameters, no Nacks. An Interest goes to all
//! next hops until one of them has answered, then to that one only. The working next hop is
//! remembered for 8 s, for the Data's name without its last component. If it does not answer within
//! its retransmission timeout (RFC 6298, at least 1 ms), the Interest is sent to the other next
//! hops too. A retransmission also goes to all next hops, unless it comes within 100 ms of the last
//! one.

use super::{
    ForwardingStrategy, Parameters, RetxVerdict, StrategyContext, StrategyError, Suppression,
};
use core::time::Duration;
use nw_element_api::FaceId;

const SUPPRESSION: Suppression =
    Suppression { initial_ms: 100, max_ms: 100, multiplier_milli: 1000 };
const LIFETIME_MS: u64 = 8000;
const RTO_MIN: Duration = Duration::from_millis(1);

/// The access strategy. It has no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access;

impl ForwardingStrategy for Access {
    const NAME: &'static str = "access";
    const VERSION: u64 = 1;
    const PARAMETERS: &'static [&'static str] = &[];
    const RETRIES_AFTER_NACK: bool = false;
    const NACKS_LOOPS: bool = true;
    const FOLLOWS_NEW_NEXT_HOPS: bool = false;
    const NEEDS_PIT: bool = true;

    fn from_parameters(_: &Parameters<'_>) -> Result<Self, StrategyError> {
        Ok(Access)
    }

    fn after_interest(&self, context: &mut StrategyContext<'_>) {
        context.request_data_event();
        match SUPPRESSION.per_entry(context) {
            RetxVerdict::Suppress => context.suppress(),
            RetxVerdict::Forward(interval_ms) => {
                context.set_retx_interval_ms(interval_ms);
                context.eligible().for_each(|hop| context.forward(hop.face));
            }
            RetxVerdict::New => match last_working(context) {
                Some((hop, rto)) => {
                    context.forward(hop);
                    context.set_timer(rto);
                }
                None => context.eligible().for_each(|hop| context.forward(hop.face)),
            },
        }
    }

    fn after_data(&self, context: &mut StrategyContext<'_>) {
        let (now, ingress) = (context.now(), context.ingress());
        let Some(sent) = context.out_record(ingress).map(|record| record.sent) else { return };
        let len = context.prefixes().count();
        // Shorter prefixes than the route's may belong to other strategies.
        let parent = len.saturating_sub(1);
        let components = if parent >= context.route_len() { parent } else { len };
        if let Some(record) = context.record_or_new(components, LIFETIME_MS) {
            record.face_or_new(now, ingress).record_rtt(now, now.since(sent));
            record.set_last(ingress);
        }
    }

    /// "Multicast, access: no Nack at all."
    fn after_nack(&self, _: &mut StrategyContext<'_>) {}

    /// The working next hop did not answer in time: sends the Interest to the other next hops.
    fn on_timer(&self, context: &mut StrategyContext<'_>) {
        for hop in context.eligible() {
            if context.out_record(hop.face).is_none() {
                context.forward(hop.face);
            }
        }
    }
}

/// Returns the next hop that answered last for the longest known prefix, and its timeout.
fn last_working(context: &mut StrategyContext<'_>) -> Option<(FaceId, Duration)> {
    let record = context.longest_record()?;
    let (last, rto) = (record.last(), record.face(record.last())?.rto(RTO_MIN));
    context.eligible().any(|hop| hop.face == last).then_some((last, rto))
}
