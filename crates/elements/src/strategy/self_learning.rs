//! Self-learning: finds next hops by flooding, and learns routes from prefix announcements in Data.
//!
//! NFD's `/localhost/nfd/strategy/self-learning/v=1`; no parameters. Without a route, an Interest
//! that does not carry NonDiscovery is a *discovery Interest* and is sent to every neighbour (a
//! face to another machine). With a route, an Interest is sent to all next hops, with NonDiscovery
//! added. An Interest with NonDiscovery but without a route is answered by Nack(NoRoute).
//!
//! * Data with an announcement that answers a discovery Interest: control gets the announcement and
//!   adds a route; the announcement is forwarded with the Data to neighbours.
//! * Data that answers an Interest sent with NonDiscovery although a neighbour sent a discovery
//!   Interest for it: the stored announcement for its name is attached for that neighbour.
//! * Nack(NoRoute) from a next hop: it is passed on, and control removes that route.
//!
//! Unlike in NFD, a retransmission within the suppression interval is not flooded again.

use super::{
    ForwardingStrategy, Parameters, RetxVerdict, SendAs, StrategyContext, StrategyError,
    Suppression,
};
use nw_element_api::FaceId;
use nw_wire::NackReason;

/// Strategy bit of a pending Interest: it was sent without NonDiscovery.
const SENT_DISCOVERY: u32 = 1 << 8;
/// Strategy bit of a pending Interest: a downstream sent it without NonDiscovery.
const RECEIVED_DISCOVERY: u32 = 1 << 9;

/// Most neighbours a discovery Interest is sent to.
pub const DISCOVERY_FACES_MAX: usize = 256;

const SUPPRESSION: Suppression =
    Suppression { initial_ms: 10, max_ms: 250, multiplier_milli: 2000 };

/// The self-learning strategy. It has no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelfLearning;

impl ForwardingStrategy for SelfLearning {
    const NAME: &'static str = "self-learning";
    const VERSION: u64 = 1;
    const PARAMETERS: &'static [&'static str] = &[];
    const RETRIES_AFTER_NACK: bool = false;
    const NACKS_LOOPS: bool = true;
    const FOLLOWS_NEW_NEXT_HOPS: bool = false;
    const NEEDS_PIT: bool = true;

    fn from_parameters(_: &Parameters<'_>) -> Result<Self, StrategyError> {
        Ok(SelfLearning)
    }

    fn after_interest(&self, context: &mut StrategyContext<'_>) {
        context.request_data_event();
        let is_discovery = !context.is_non_discovery();
        if is_discovery {
            context.set_bits(RECEIVED_DISCOVERY);
        }
        match (context.next_hops().is_empty(), is_discovery) {
            (true, false) => context.nack(context.ingress(), NackReason::NoRoute),
            (true, true) => {
                context.set_bits(SENT_DISCOVERY);
                for face in context.neighbours().take(DISCOVERY_FACES_MAX) {
                    send(context, SendAs::Received, face);
                }
            }
            (false, _) => {
                context.clear_bits(SENT_DISCOVERY);
                for hop in context.eligible() {
                    send(context, SendAs::NonDiscovery, hop.face);
                }
            }
        }
    }

    fn after_data(&self, context: &mut StrategyContext<'_>) {
        if context.out_record(context.ingress()).is_none() {
            // Where Data is accepted from any face: a face the Interest was not sent to.
            return;
        }
        if context.has_bits(SENT_DISCOVERY) {
            if context.has_announcement() {
                context.announce_route();
            }
        } else if context.has_bits(RECEIVED_DISCOVERY) && context.has_neighbour_downstream() {
            context.attach_announcement();
        }
    }

    fn after_nack(&self, context: &mut StrategyContext<'_>) {
        let reason = context.out_record(context.ingress()).and_then(|record| record.nack);
        if reason == Some(NackReason::NoRoute) {
            context.nack_all(NackReason::NoRoute);
            context.withdraw_route();
        }
    }
}

/// Sends the Interest to a face, unless suppressed.
fn send(context: &mut StrategyContext<'_>, send_as: SendAs, face: FaceId) {
    match SUPPRESSION.per_upstream(context, face) {
        RetxVerdict::New => context.forward_as(send_as, face, 0),
        RetxVerdict::Forward(interval_ms) => context.forward_as(send_as, face, interval_ms),
        RetxVerdict::Suppress => context.suppress(),
    }
}
