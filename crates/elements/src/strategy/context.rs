//! What a strategy reads and decides for one pending Interest.

mod memory;

use super::{Strategies, Strategy, StrategyState};
use crate::scope::NameScope;
use nw_element_api::{FaceId, LinkType, Meta, Scope, Timestamp};
use nw_name::PrefixHashes;
use nw_tables::FaceTable;
use nw_tables::fib::{FibEntry, NextHop, StrategyId};
use nw_tables::pit::{EntryRef, OutRecord, Pit};
use nw_wire::NackReason;

/// Decides which next hops an Interest from one downstream may use.
#[derive(Clone, Copy)]
pub struct Eligibility<'a> {
    faces: &'a FaceTable,
    downstream: FaceId,
    downstream_local: bool,
    name_scope: NameScope,
}

impl<'a> Eligibility<'a> {
    /// Creates the check for an Interest from `downstream` whose name has this scope.
    pub fn new(
        faces: &'a FaceTable,
        downstream: FaceId,
        downstream_local: bool,
        name_scope: NameScope,
    ) -> Self {
        Eligibility { faces, downstream, downstream_local, name_scope }
    }

    /// "Eligible nexthop: not the incoming face (unless ad-hoc); not `/localhost` to a non-local
    /// face; `/localhop` to non-local only if received from local." A removed face is not eligible
    /// either.
    #[inline(always)]
    pub fn allows(&self, face: FaceId) -> bool {
        let Some(info) = self.faces.info(face) else { return false };
        if face == self.downstream && info.link_type != LinkType::AdHoc {
            return false;
        }
        if info.scope == Scope::Local {
            return true;
        }
        match self.name_scope {
            NameScope::Global => true,
            NameScope::Localhop => self.downstream_local,
            NameScope::Localhost => false,
        }
    }
}

impl<'a> Eligibility<'a> {
    /// Returns the faces to other machines that this Interest may use.
    pub fn neighbours(self) -> impl Iterator<Item = FaceId> + use<'a> {
        let non_local = self.faces.iter().filter(|(_, info)| info.scope == Scope::NonLocal);
        non_local.map(|(face, _)| face).filter(move |face| self.allows(*face))
    }

    /// Returns whether a face leads to another machine.
    pub fn is_neighbour(&self, face: FaceId) -> bool {
        self.faces.info(face).is_some_and(|info| info.scope == Scope::NonLocal)
    }
}

/// One Interest to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The face to send it to.
    pub face: FaceId,
    /// Suppression interval stored with the out-record, milliseconds; 0 for none.
    pub retx_interval_ms: u16,
    /// How the Interest is changed before sending.
    pub send_as: SendAs,
}

impl Forward {
    /// An unchanged Interest without suppression interval.
    pub const fn to(face: FaceId) -> Self {
        Forward { face, retx_interval_ms: 0, send_as: SendAs::Received }
    }
}

/// How an Interest is changed before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendAs {
    /// Not at all.
    Received,
    /// Sent with its own nonce, so that it is not mistaken for a loop where the paths of both
    /// copies meet.
    Probe,
    /// Sent with NonDiscovery.
    NonDiscovery,
}

/// Nacks to be sent downstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nacks {
    /// No Nack.
    #[default]
    None,
    /// To one downstream.
    One(FaceId, NackReason),
    /// To every downstream.
    All(NackReason),
}

/// Decisions of a strategy. The router carries them out in this order.
#[derive(Debug, Default)]
pub struct Decisions {
    /// Interests to be sent.
    pub forwards: Vec<Forward>,
    /// Nacks to be sent.
    pub nacks: Nacks,
    /// Whether the Interest was suppressed because it was sent a short while ago.
    pub suppressed: bool,
    /// Decisions that only some strategies make.
    pub extras: StrategyExtras,
}

/// Decisions that only some strategies make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StrategyExtras {
    /// Milliseconds until the strategy's timer, if the Interest is still pending then; 0 for no
    /// timer.
    pub timer_ms: u32,
    /// Milliseconds to hold the entry after this Data, so that slower next hops are measured; 0 to
    /// end it.
    pub hold_ms: u16,
    /// What happens to routes and prefix announcements.
    pub route_event: RouteEvent,
}

/// What self-learning concludes from a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteEvent {
    /// Nothing.
    #[default]
    None,
    /// The Data's announcement becomes a route to its ingress face, and is forwarded to neighbours.
    Announce,
    /// The stored announcement for the Data's name is sent to neighbours with it.
    AttachAnnouncement,
    /// The route to the ingress face of this Nack is removed.
    Withdraw,
}

impl Decisions {
    /// Creates an empty set of decisions with capacity for all next hops of an entry.
    pub fn with_capacity(next_hops: usize) -> Self {
        Decisions { forwards: Vec::with_capacity(next_hops), ..Decisions::default() }
    }

    /// Removes the decisions of the last event.
    #[inline]
    pub fn clear(&mut self) {
        self.forwards.clear();
        self.nacks = Nacks::None;
        self.suppressed = false;
        self.extras = StrategyExtras::default();
    }
}

/// An event, and the pending Interest it is about.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// The current time.
    pub now: Timestamp,
    /// The pending Interest.
    pub entry: EntryRef,
    /// The ingress face of the packet; for a timer, that of a downstream.
    pub ingress: FaceId,
    /// Next hops sorted by cost; empty if the event allows no choice among them.
    pub next_hops: &'a [NextHop],
    /// Which next hops may be used.
    pub eligibility: Eligibility<'a>,
    /// The packet: Interest, Data or Nack; for a timer, the PIT's copy of the Interest.
    pub meta: &'a Meta,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Components of the prefix the next hops belong to.
    pub route_len: u8,
    /// Number of the strategy.
    pub strategy: StrategyId,
}

/// What a strategy is called for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trigger {
    /// An Interest was received.
    Interest,
    /// Data satisfies the pending Interest.
    Data,
    /// A Nack was received. A retry would be on behalf of this downstream, if one is still waiting.
    Nack { downstream: Option<FaceId> },
    /// The strategy's timer; forwards are on behalf of this downstream.
    Timer { downstream: FaceId },
}

impl Trigger {
    /// Calls the strategy's method for this event.
    #[inline(always)]
    pub(crate) fn call(self, strategy: &Strategy, mut context: StrategyContext<'_>) {
        match self {
            Trigger::Interest => strategy.after_interest(&mut context),
            Trigger::Data => strategy.after_data(&mut context),
            Trigger::Nack { .. } => strategy.after_nack(&mut context),
            Trigger::Timer { .. } => strategy.on_timer(&mut context),
        }
    }
}

/// The FIB's answer for a name, as strategies need it. Without a route: the default strategy and no
/// next hops.
#[derive(Clone, Copy)]
pub(crate) struct StrategyRoute<'a> {
    pub(crate) strategy: StrategyId,
    pub(crate) next_hops: &'a [NextHop],
    /// Components of the prefix found.
    pub(crate) prefix_len: u8,
}

impl<'a> From<Option<FibEntry<'a>>> for StrategyRoute<'a> {
    #[inline(always)]
    fn from(found: Option<FibEntry<'a>>) -> Self {
        match found {
            Some(route) => StrategyRoute {
                strategy: route.strategy,
                next_hops: route.next_hops,
                prefix_len: route.prefix_len as u8,
            },
            None => StrategyRoute { strategy: Strategies::DEFAULT, next_hops: &[], prefix_len: 0 },
        }
    }
}

/// One event, with everything a strategy may read or do.
pub struct StrategyContext<'a> {
    event: Event<'a>,
    pit: &'a mut Pit,
    state: &'a mut StrategyState,
    decisions: &'a mut Decisions,
}

/// Strategy bit of a pending Interest: the strategy requested the Data event.
pub(crate) const WANTS_DATA: u32 = 1;
/// Strategy bit of a pending Interest: its expiry may be the strategy's timer, before its end.
pub(crate) const WANTS_TIMER: u32 = 2;

impl<'a> StrategyContext<'a> {
    /// Creates the context and removes the decisions of the last event.
    #[inline]
    pub fn new(
        event: Event<'a>,
        pit: &'a mut Pit,
        state: &'a mut StrategyState,
        decisions: &'a mut Decisions,
    ) -> Self {
        decisions.clear();
        StrategyContext { event, pit, state, decisions }
    }

    /// Returns the time of the event.
    pub fn now(&self) -> Timestamp {
        self.event.now
    }

    /// Returns the ingress face of the packet.
    pub fn ingress(&self) -> FaceId {
        self.event.ingress
    }

    /// Returns the hashes of the prefixes of the packet's name.
    pub fn prefixes(&self) -> &'a PrefixHashes {
        &self.event.meta.prefixes
    }

    /// Returns the number of components of the prefix the next hops belong to. Measurements are
    /// kept for this prefix.
    pub fn route_len(&self) -> usize {
        usize::from(self.event.route_len)
    }

    /// Returns the next hops of the prefix, cheapest first, including ineligible ones.
    pub fn next_hops(&self) -> &'a [NextHop] {
        self.event.next_hops
    }

    /// Returns whether this Interest may be sent to a face.
    pub fn is_eligible(&self, face: FaceId) -> bool {
        self.event.eligibility.allows(face)
    }

    /// Returns the eligible next hops, cheapest first.
    #[inline]
    pub fn eligible(&self) -> impl Iterator<Item = NextHop> + Clone + use<'a> {
        let eligibility = self.event.eligibility;
        let next_hops = self.event.next_hops;
        next_hops.iter().copied().filter(move |hop| eligibility.allows(hop.face))
    }

    /// Returns all out-records, including expired ones.
    #[inline]
    pub fn out_records(&self) -> impl Iterator<Item = OutRecord> + '_ {
        self.pit.out_records(self.event.entry)
    }

    /// Returns the out-record of one face.
    #[inline]
    pub fn out_record(&self, face: FaceId) -> Option<OutRecord> {
        self.pit.out_record(self.event.entry, face)
    }

    /// Returns whether a next hop may still answer.
    #[inline]
    pub fn has_pending_upstream(&self) -> bool {
        self.out_records().any(|record| is_pending(&record, self.event.now))
    }

    /// Returns whether the face has an in-record.
    pub fn is_downstream(&self, face: FaceId) -> bool {
        self.pit.in_record(self.event.entry, face).is_some()
    }

    /// Returns the suppression interval stored with the entry, milliseconds; 0 if none was set.
    #[inline]
    pub fn retx_interval_ms(&self) -> u16 {
        self.pit.retx_interval_ms(self.event.entry)
    }

    /// Stores a suppression interval with the entry, milliseconds.
    pub fn set_retx_interval_ms(&mut self, interval_ms: u16) {
        self.pit.set_retx_interval_ms(self.event.entry, interval_ms);
    }

    /// Sends the Interest to a face.
    #[inline]
    pub fn forward(&mut self, face: FaceId) {
        self.forward_keeping(face, 0);
    }

    /// As [`forward`](Self::forward), storing a suppression interval (milliseconds) with the
    /// out-record.
    #[inline]
    pub fn forward_keeping(&mut self, face: FaceId, retx_interval_ms: u16) {
        self.decisions.forwards.push(Forward { face, retx_interval_ms, send_as: SendAs::Received });
    }

    /// As [`forward_keeping`](Self::forward_keeping), for a changed Interest.
    pub fn forward_as(&mut self, send_as: SendAs, face: FaceId, retx_interval_ms: u16) {
        self.decisions.forwards.push(Forward { face, retx_interval_ms, send_as });
    }

    /// Sends a copy with its own nonce, in addition to other forwards.
    pub fn forward_probe(&mut self, face: FaceId) {
        // First in the list: the last forward is sent as the packet itself, unchanged.
        self.decisions.forwards.insert(0, Forward { send_as: SendAs::Probe, ..Forward::to(face) });
    }

    /// Records that the Interest, or a copy of it, was suppressed because it was sent a short while
    /// ago.
    pub fn suppress(&mut self) {
        self.decisions.suppressed = true;
    }

    /// Sends a Nack to one downstream.
    pub fn nack(&mut self, face: FaceId, reason: NackReason) {
        self.decisions.nacks = Nacks::One(face, reason);
    }

    /// Sends a Nack to every downstream.
    pub fn nack_all(&mut self, reason: NackReason) {
        self.decisions.nacks = Nacks::All(reason);
    }
}

/// Returns whether an answer to this out-record may still arrive.
#[inline]
pub(crate) fn is_pending(record: &OutRecord, now: Timestamp) -> bool {
    record.expiry >= now && record.nack.is_none()
}
