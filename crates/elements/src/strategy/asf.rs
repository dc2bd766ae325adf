//! ASF, adaptive forwarding by smoothed round-trip time: uses the fastest next hop and now and then
//! probes another one.
//!
//! NFD's `/localhost/nfd/strategy/asf/v=5`. Round-trip times (RFC 6298) are kept per next hop for
//! each prefix that has a route. Ranking: working next hops by round-trip time, then unmeasured
//! ones, then failed ones; the latter two groups by cost. A next hop has failed after
//! `max-timeouts` timeouts in a row, or after a Nack.
//!
//! Probes: the first one within 5 s of the prefix's first Interest, at a random moment; further
//! ones `probing-interval` apart. A probe is a copy of a new Interest with its own nonce. It goes
//! to a next hop that was never measured, or else to a random other one, with higher ranks more
//! likely. The pending Interest is held for up to 1 s after the first Data, so that the slower
//! answer is measured as well (NFD holds it for 50 ms and counts a slower answer as a timeout).

use super::{
    ForwardingStrategy, Parameters, RetxVerdict, StrategyContext, StrategyError, Suppression,
    parameters, retransmission,
};
use core::time::Duration;
use nw_element_api::FaceId;
use nw_tables::fib::NextHop;
use nw_tables::measurements::{FaceState, RTO_MIN, Record};
use nw_wire::NackReason;

/// The first probe is sent at a random moment within this many milliseconds.
const FIRST_PROBE_MS: u64 = 5000;

/// The ASF strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asf {
    /// Intervals of retransmission suppression.
    pub suppression: Suppression,
    /// Milliseconds between probes, at least 1000.
    pub probing_interval_ms: u32,
    /// Timeouts in a row after which a next hop has failed, at least 1.
    pub timeouts_max: u8,
    /// Milliseconds without use after which measurements are dropped; more than
    /// `probing_interval_ms`.
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

impl ForwardingStrategy for Asf {
    const NAME: &'static str = "asf";
    const VERSION: u64 = 5;
    const PARAMETERS: &'static [&'static str] = &[
        "probing-interval",
        "max-timeouts",
        "measurements-lifetime",
        parameters::INITIAL,
        parameters::MAX,
        parameters::MULTIPLIER,
    ];
    const RETRIES_AFTER_NACK: bool = false;
    const NACKS_LOOPS: bool = true;
    const FOLLOWS_NEW_NEXT_HOPS: bool = false;
    const NEEDS_PIT: bool = false;

    fn from_parameters(given: &Parameters<'_>) -> Result<Self, StrategyError> {
        let mut asf = Asf { suppression: given.suppression()?, ..Asf::default() };
        let interval = "probing-interval is a number of milliseconds from 1000 to 4294967295";
        if let Some(ms) = given.number("probing-interval", 1000..=u32::MAX, interval)? {
            asf.probing_interval_ms = ms;
        }
        if let Some(timeouts) = given.timeouts_max()? {
            asf.timeouts_max = timeouts;
        }
        let lifetime = "measurements-lifetime is a number of milliseconds from 1 to 4294967295";
        if let Some(ms) = given.number("measurements-lifetime", 1..=u32::MAX, lifetime)? {
            asf.lifetime_ms = ms;
        }
        if asf.lifetime_ms <= asf.probing_interval_ms {
            return Err(StrategyError::BadParameter(
                "measurements-lifetime (300000 if not given) must be longer than probing-interval",
            ));
        }
        Ok(asf)
    }

    fn after_interest(&self, context: &mut StrategyContext<'_>) {
        context.request_data_event();
        let (now, components) = (context.now(), context.route_len());
        if let Some(record) = context.record(components) {
            record.refresh(now, u64::from(self.lifetime_ms), self.timeouts_max);
        }
        if !context.has_pending_upstream() {
            let Some(hop) = best(context, context.eligible()) else {
                return context.nack(context.ingress(), NackReason::NoRoute);
            };
            context.forward(hop.face);
            self.start_measurement(context, hop.face);
            return self.probe(context, hop.face);
        }
        let unused = context.eligible().filter(|hop| retransmission::is_unused(context, hop.face));
        let unused = best(context, unused);
        let Some(hop) = unused.or_else(|| retransmission::earliest_used(context)) else { return };
        match self.suppression.per_upstream(context, hop.face) {
            RetxVerdict::Suppress => return context.suppress(),
            RetxVerdict::New => context.forward(hop.face),
            RetxVerdict::Forward(interval_ms) => context.forward_keeping(hop.face, interval_ms),
        }
        if unused.is_some() {
            self.start_measurement(context, hop.face);
        }
    }

    fn after_data(&self, context: &mut StrategyContext<'_>) {
        context.finish_measurement(context.route_len());
        context.hold_for_late_data(retransmission::LATE_DATA_HOLD);
    }

    fn after_nack(&self, context: &mut StrategyContext<'_>) {
        let (ingress, components) = (context.ingress(), context.route_len());
        if let Some(face) = context.record(components).and_then(|record| record.face_mut(ingress)) {
            face.mark_failed();
        }
        retransmission::pass_on_nack(context);
    }
}

impl Asf {
    fn start_measurement(&self, context: &mut StrategyContext<'_>, face: FaceId) {
        context.start_measurement(context.route_len(), face, u64::from(self.lifetime_ms), RTO_MIN);
    }

    /// Sends a probe to a next hop other than `used`, if one is due.
    fn probe(&self, context: &mut StrategyContext<'_>, used: FaceId) {
        let (now, components) = (context.now(), context.route_len());
        let Some(due) = context.peek(components).map(|record| record.probe_at) else { return };
        let in_ms = match due {
            0 => context.random_below(FIRST_PROBE_MS + 1),
            due if due > now.as_nanos() => return,
            _ => {
                let Some(face) = face_to_probe(context, used) else { return };
                context.forward_probe(face);
                self.start_measurement(context, face);
                u64::from(self.probing_interval_ms)
            }
        };
        if let Some(record) = context.record(components) {
            record.probe_at = now.plus_millis(in_ms).as_nanos().max(1);
        }
    }
}

/// Returns the sort key of a next hop: the lowest is the best.
fn rank(record: Option<&Record>, hop: &NextHop) -> (u8, Duration, u32, FaceId) {
    let face = record.and_then(|record| record.face(hop.face));
    let state = face.map_or(FaceState::Unmeasured, |face| face.state());
    let srtt = face.filter(|_| state == FaceState::Working).and_then(|face| face.srtt());
    (state.rank(), srtt.unwrap_or_default(), hop.cost, hop.face)
}

/// Returns the next hop with the best rank.
fn best(context: &StrategyContext<'_>, hops: impl Iterator<Item = NextHop>) -> Option<NextHop> {
    let record = context.peek(context.route_len());
    hops.min_by_key(|hop| rank(record, hop))
}

/// Returns the next hop to probe: one never measured, or else a random one. Of n candidates the
/// best is drawn n times as often as the last.
fn face_to_probe(context: &mut StrategyContext<'_>, used: FaceId) -> Option<FaceId> {
    let others = context.eligible().filter(|hop| hop.face != used);
    let record = context.peek(context.route_len());
    let is_unmeasured =
        |hop: &NextHop| record.and_then(|r| r.face(hop.face)).is_none_or(|f| f.srtt().is_none());
    if let Some(hop) = others.clone().find(is_unmeasured) {
        return Some(hop.face);
    }
    let count = others.clone().count() as u64;
    if count == 0 {
        return None;
    }
    let mut draw = context.random_below(count * (count + 1) / 2);
    let mut rank_drawn = 0;
    while draw >= count - rank_drawn {
        draw -= count - rank_drawn;
        rank_drawn += 1;
        if rank_drawn == count {
            return None;
        }
    }
    let record = context.peek(context.route_len());
    let better = |than: &NextHop| {
        others.clone().filter(|hop| rank(record, hop) < rank(record, than)).count()
    };
    others.clone().find(|hop| better(hop) as u64 == rank_drawn).map(|hop| hop.face)
}
