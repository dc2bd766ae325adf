//! Self-learning: finds next hops by asking everybody once, and learns them from the prefix announcement that comes with the Data.
//!
//! As `/localhost/nfd/strategy/self-learning/v=1` of the reference; no parameters. Where no route is known, an Interest without NonDiscovery is a
//! *discovery* Interest: it goes to every neighbour. Where one is known, it goes to all next hops, with NonDiscovery; a non-discovery Interest
//! without a route is answered by Nack(NoRoute).
//!
//! * Data that answers a discovery Interest and carries an announcement: control is told, which makes a route of it, and neighbours who wait get the
//!   announcement with the Data.
//! * Data that answers a non-discovery Interest of ours, while a neighbour asked for discovery: the announcement known for that name goes with it.
//! * Nack(NoRoute) from a next hop: it is passed on, and control is told that this route is gone.
//!
//! Unlike the reference's, retransmissions within the suppression interval are not flooded again.

use super::{Form, RetxVerdict, StrategyContext, Suppression};
use nw_element_api::FaceId;
use nw_wire::NackReason;

/// Kept with the pending Interest: it was sent without NonDiscovery.
const SENT_DISCOVERY: u32 = 1 << 8;
/// Kept with the pending Interest: somebody asked without NonDiscovery.
const ASKED_DISCOVERY: u32 = 1 << 9;

/// Neighbours that a discovery Interest goes to at most.
pub const DISCOVERY_FACES_MAX: usize = 256;

const SUPPRESSION: Suppression = Suppression { initial_ms: 10, max_ms: 250, multiplier_milli: 2000 };

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelfLearning;

impl SelfLearning {
    pub(super) fn after_interest(&self, context: &mut StrategyContext<'_>) {
        context.want_data();
        let discovery = !context.is_non_discovery();
        if discovery {
            context.mark(ASKED_DISCOVERY);
        }
        match (context.next_hops().is_empty(), discovery) {
            (true, false) => context.nack(context.ingress(), NackReason::NoRoute),
            (true, true) => {
                context.mark(SENT_DISCOVERY);
                for face in context.neighbours().take(DISCOVERY_FACES_MAX) {
                    send(context, Form::AsReceived, face);
                }
            }
            (false, _) => {
                context.unmark(SENT_DISCOVERY);
                for hop in context.eligible() {
                    send(context, Form::NonDiscovery, hop.face);
                }
            }
        }
    }

    pub(super) fn after_data(&self, context: &mut StrategyContext<'_>) {
        if context.out_record(context.ingress()).is_none() {
            // Where Data is taken from anybody: who was not asked teaches nothing.
            return;
        }
        if context.is_marked(SENT_DISCOVERY) {
            if context.has_announcement() {
                context.learn_route();
            }
        } else if context.is_marked(ASKED_DISCOVERY) && context.has_neighbour_downstream() {
            context.attach_announcement();
        }
    }

    pub(super) fn after_nack(&self, context: &mut StrategyContext<'_>) {
        let reason = context.out_record(context.ingress()).and_then(|record| record.nack);
        if reason == Some(NackReason::NoRoute) {
            context.nack_all(NackReason::NoRoute);
            context.forget_route();
        }
    }
}

fn send(context: &mut StrategyContext<'_>, form: Form, face: FaceId) {
    match SUPPRESSION.per_upstream(context, face) {
        RetxVerdict::New => context.forward_as(form, face, 0),
        RetxVerdict::Forward(interval_ms) => context.forward_as(form, face, interval_ms),
        RetxVerdict::Suppress => context.suppress(),
    }
}
