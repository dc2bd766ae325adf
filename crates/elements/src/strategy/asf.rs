//! ASF, adaptive forwarding by smoothed round-trip time: the next hop that answers fastest, and now and then a trial of another.
//!
//! As `/localhost/nfd/strategy/asf/v=5` of the reference. Per prefix that has a route, and per next hop, a round-trip time is kept (RFC 6298). Next
//! hops that work are ranked by it, before those of which nothing is known, before those that failed; among the latter two the cheaper is
//! preferred. A next hop fails by `max-timeouts` answers in a row that did not come in time, or by a Nack.
//!
//! Trials: the first within 5 s of the prefix's first Interest, at a moment drawn; the others `probing-interval` apart. A trial is a copy of a new
//! Interest with a nonce of its own, sent to a next hop never measured, or else to one drawn among the others, the better ranked the likelier. The
//! pending Interest stays for up to a second after the first answer, so that the slower one is measured (the reference waits 50 ms, and takes
//! whatever is slower by more for dead).

use super::{RetxVerdict, StrategyContext, Suppression, shared};
use core::time::Duration;
use nw_element_api::FaceId;
use nw_tables::fib::NextHop;
use nw_tables::measurements::{FaceState, RTO_MIN, Record};
use nw_wire::NackReason;

/// The first trial comes at a moment drawn below this.
const FIRST_PROBE_MS: u64 = 5000;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asf {
    /// When a retransmission is sent.
    pub suppression: Suppression,
    /// Milliseconds between trials, at least 1000.
    pub probing_interval_ms: u32,
    /// Answers in a row that may be missing before a next hop has failed, at least 1.
    pub timeouts_max: u8,
    /// What was measured is forgotten when not used for so long; more than `probing_interval_ms`.
    pub lifetime_ms: u32,
}

impl Default for Asf {
    fn default() -> Self {
        Asf {
            suppression: Suppression::default(),
            probing_interval_ms: 60_000,
            timeouts_max: 3,
            lifetime_ms: 300_000,
        }
    }
}

impl Asf {
    pub(super) fn after_interest(&self, context: &mut StrategyContext<'_>) {
        context.want_data();
        let (now, components) = (context.now(), context.route_len());
        if let Some(record) = context.record(components) {
            record.refresh(now, u64::from(self.lifetime_ms), self.timeouts_max);
        }
        if !context.has_pending_upstream() {
            let Some(hop) = best(context, context.eligible()) else {
                return context.nack(context.ingress(), NackReason::NoRoute);
            };
            context.forward(hop.face);
            self.note_sent(context, hop.face);
            return self.probe(context, hop.face);
        }
        let unused = context.eligible().filter(|hop| shared::is_unused(context, hop.face));
        let unused = best(context, unused);
        let Some(hop) = unused.or_else(|| shared::earliest_used(context)) else { return };
        match self.suppression.per_upstream(context, hop.face) {
            RetxVerdict::Suppress => return context.suppress(),
            RetxVerdict::New => context.forward(hop.face),
            RetxVerdict::Forward(interval_ms) => context.forward_keeping(hop.face, interval_ms),
        }
        if unused.is_some() {
            self.note_sent(context, hop.face);
        }
    }

    pub(super) fn after_data(&self, context: &mut StrategyContext<'_>) {
        context.measure(context.route_len());
        context.linger(shared::LINGER);
    }

    pub(super) fn after_nack(&self, context: &mut StrategyContext<'_>) {
        let (ingress, components) = (context.ingress(), context.route_len());
        if let Some(face) = context.record(components).and_then(|record| record.face_mut(ingress)) {
            face.refused();
        }
        shared::pass_on_nack(context);
    }

    fn note_sent(&self, context: &mut StrategyContext<'_>, face: FaceId) {
        context.note_sent(context.route_len(), face, u64::from(self.lifetime_ms), RTO_MIN);
    }

    /// Sends a trial, if its time has come, to another next hop than `used`.
    fn probe(&self, context: &mut StrategyContext<'_>, used: FaceId) {
        let (now, components) = (context.now(), context.route_len());
        let Some(due) = context.peek(components).map(|record| record.probe_at) else { return };
        let in_ms = match due {
            0 => context.random_below(FIRST_PROBE_MS + 1),
            due if due > now.as_nanos() => return,
            _ => {
                let Some(face) = face_to_probe(context, used) else { return };
                context.forward_probe(face);
                self.note_sent(context, face);
                u64::from(self.probing_interval_ms)
            }
        };
        if let Some(record) = context.record(components) {
            record.probe_at = now.plus_millis(in_ms).as_nanos().max(1);
        }
    }
}

/// Orders next hops: the best is the least.
fn rank(record: Option<&Record>, hop: &NextHop) -> (u8, Duration, u32, FaceId) {
    let face = record.and_then(|record| record.face(hop.face));
    let state = face.map_or(FaceState::Unmeasured, |face| face.state());
    let srtt = face.filter(|_| state == FaceState::Working).and_then(|face| face.srtt());
    (state.rank(), srtt.unwrap_or_default(), hop.cost, hop.face)
}

fn best(context: &StrategyContext<'_>, hops: impl Iterator<Item = NextHop>) -> Option<NextHop> {
    let record = context.peek(context.route_len());
    hops.min_by_key(|hop| rank(record, hop))
}

/// One never measured, or one drawn: of n, the best has a chance of n to the last one's 1.
fn face_to_probe(context: &mut StrategyContext<'_>, used: FaceId) -> Option<FaceId> {
    let others = context.eligible().filter(|hop| hop.face != used);
    let record = context.peek(context.route_len());
    let never = |hop: &NextHop| record.and_then(|r| r.face(hop.face)).is_none_or(|f| f.srtt().is_none());
    if let Some(hop) = others.clone().find(never) {
        return Some(hop.face);
    }
    let count = others.clone().count() as u64;
    if count == 0 {
        return None;
    }
    let mut draw = context.random_below(count * (count + 1) / 2);
    let mut place = 0;
    while draw >= count - place {
        draw -= count - place;
        place += 1;
        if place == count {
            return None;
        }
    }
    let record = context.peek(context.route_len());
    let better = |than: &NextHop| others.clone().filter(|hop| rank(record, hop) < rank(record, than)).count();
    others.clone().find(|hop| better(hop) as u64 == place).map(|hop| hop.face)
}
