//! Access: for the router next to applications and a few upstreams. Asks all next hops at first, then the one that answered.
//!
//! As `/localhost/nfd/strategy/access/v=1` of the reference: no parameters, no Nacks. What answered is remembered for 8 s, for the Data's name
//! without its last component. If that next hop does not answer in time (RFC 6298, 1 ms at least), the others are asked too; so they are by a
//! retransmission, which is held back within 100 ms of the last one.

use super::{RetxVerdict, StrategyContext, Suppression};
use core::time::Duration;

const SUPPRESSION: Suppression = Suppression { initial_ms: 100, max_ms: 100, multiplier_milli: 1000 };
const LIFETIME_MS: u64 = 8000;
const RTO_MIN: Duration = Duration::from_millis(1);

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access;

impl Access {
    pub(super) fn after_interest(&self, context: &mut StrategyContext<'_>) {
        context.want_data();
        match SUPPRESSION.per_entry(context) {
            RetxVerdict::Suppress => context.suppress(),
            RetxVerdict::Forward(interval_ms) => {
                context.set_retx_interval_ms(interval_ms);
                context.eligible().for_each(|hop| context.forward(hop.face));
            }
            RetxVerdict::New => match last_working(context) {
                Some((hop, rto)) => {
                    context.forward(hop);
                    context.wake_after(rto);
                }
                None => context.eligible().for_each(|hop| context.forward(hop.face)),
            },
        }
    }

    /// The next hop that had worked did not answer in time: the others are asked.
    pub(super) fn on_timer(&self, context: &mut StrategyContext<'_>) {
        for hop in context.eligible() {
            if context.out_record(hop.face).is_none() {
                context.forward(hop.face);
            }
        }
    }

    pub(super) fn after_data(&self, context: &mut StrategyContext<'_>) {
        let (now, ingress) = (context.now(), context.ingress());
        let Some(sent) = context.out_record(ingress).map(|record| record.sent) else { return };
        let len = context.prefixes().count();
        // Above the prefix of the strategy other strategies rule.
        let parent = len.saturating_sub(1);
        let components = if parent >= context.route_len() { parent } else { len };
        if let Some(record) = context.record_or_new(components, LIFETIME_MS) {
            record.face_or_new(now, ingress).measured(now, now.since(sent));
            record.set_last(ingress);
        }
    }
}

/// The next hop that answered last for the longest prefix, and how long to wait for it.
fn last_working(context: &mut StrategyContext<'_>) -> Option<(nw_element_api::FaceId, Duration)> {
    let record = context.longest_record()?;
    let (last, rto) = (record.last(), record.face(record.last())?.rto(RTO_MIN));
    context.eligible().any(|hop| hop.face == last).then_some((last, rto))
}
