//! What a strategy sees of one pending Interest, and what it decides.

use crate::scope::NameScope;
use nw_element::{FaceId, Instant, LinkType, Scope};
use nw_tables::FaceTable;
use nw_tables::fib::NextHop;
use nw_tables::pit::{EntryRef, OutRecord, Pit};
use nw_wire::NackReason;

/// Which next hops an Interest may take from one downstream.
#[derive(Clone, Copy)]
pub struct Eligibility<'a> {
    faces: &'a FaceTable,
    downstream: FaceId,
    downstream_local: bool,
    name_scope: NameScope,
}

impl<'a> Eligibility<'a> {
    /// For an Interest of a name of this scope that came from `downstream`.
    pub fn new(
        faces: &'a FaceTable,
        downstream: FaceId,
        downstream_local: bool,
        name_scope: NameScope,
    ) -> Self {
        Eligibility { faces, downstream, downstream_local, name_scope }
    }

    /// "Eligible nexthop: not the incoming face (unless ad-hoc); not `/localhost` to a non-local face; `/localhop` to non-local only if received
    /// from local." A face that is gone is not eligible either.
    #[inline]
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

/// One Interest to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// To this face.
    pub face: FaceId,
    /// Suppression interval to be kept with the out-record, milliseconds; 0 for none.
    pub retx_interval_ms: u16,
}

/// Nacks to be sent downstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nacks {
    /// None.
    #[default]
    Nobody,
    /// To one downstream.
    One(FaceId, NackReason),
    /// To every downstream.
    All(NackReason),
}

/// What a strategy has decided; the router carries it out in this order.
#[derive(Debug, Default)]
pub struct Decisions {
    /// Interests to be sent.
    pub forwards: Vec<Forward>,
    /// Nacks to be sent.
    pub nacks: Nacks,
    /// True when something was held back because it was sent a short while ago.
    pub suppressed: bool,
}

impl Decisions {
    /// With room for as many next hops as an entry may have.
    pub fn with_capacity(next_hops: usize) -> Self {
        Decisions { forwards: Vec::with_capacity(next_hops), ..Decisions::default() }
    }

    /// Forgets the last event's.
    #[inline]
    pub fn clear(&mut self) {
        self.forwards.clear();
        self.nacks = Nacks::Nobody;
        self.suppressed = false;
    }
}

/// One event about one pending Interest.
pub struct StrategyContext<'a> {
    now: Instant,
    pit: &'a mut Pit,
    entry: EntryRef,
    ingress: FaceId,
    next_hops: &'a [NextHop],
    eligibility: Eligibility<'a>,
    decisions: &'a mut Decisions,
}

impl<'a> StrategyContext<'a> {
    /// `next_hops` sorted by cost; empty where the event does not choose among them.
    #[inline]
    pub fn new(
        now: Instant,
        pit: &'a mut Pit,
        entry: EntryRef,
        ingress: FaceId,
        next_hops: &'a [NextHop],
        eligibility: Eligibility<'a>,
        decisions: &'a mut Decisions,
    ) -> Self {
        decisions.clear();
        StrategyContext { now, pit, entry, ingress, next_hops, eligibility, decisions }
    }

    /// The time of the event.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The face the packet of this event came by.
    pub fn ingress(&self) -> FaceId {
        self.ingress
    }

    /// Next hops this Interest may take, cheapest first.
    #[inline]
    pub fn eligible(&self) -> impl Iterator<Item = NextHop> + use<'a> {
        let eligibility = self.eligibility;
        let next_hops = self.next_hops;
        next_hops.iter().copied().filter(move |hop| eligibility.allows(hop.face))
    }

    /// Where the Interest was sent so far, expired ones too.
    #[inline]
    pub fn out_records(&self) -> impl Iterator<Item = OutRecord> + '_ {
        self.pit.out_records(self.entry)
    }

    /// When and how it was sent to one face.
    #[inline]
    pub fn out_record(&self, face: FaceId) -> Option<OutRecord> {
        self.pit.out_record(self.entry, face)
    }

    /// True when a next hop may still answer.
    #[inline]
    pub fn has_pending_upstream(&self) -> bool {
        self.out_records().any(|record| is_pending(&record, self.now))
    }

    /// True when the face waits for an answer.
    pub fn is_downstream(&self, face: FaceId) -> bool {
        self.pit.in_record(self.entry, face).is_some()
    }

    /// Suppression interval kept with the entry, milliseconds; 0 when none was set.
    #[inline]
    pub fn retx_interval_ms(&self) -> u16 {
        self.pit.retx_interval_ms(self.entry)
    }

    /// Keeps a suppression interval with the entry.
    pub fn set_retx_interval_ms(&mut self, interval_ms: u16) {
        self.pit.set_retx_interval_ms(self.entry, interval_ms);
    }

    /// Sends the Interest to a face.
    #[inline]
    pub fn forward(&mut self, face: FaceId) {
        self.forward_keeping(face, 0);
    }

    /// As [`forward`](Self::forward), keeping a suppression interval with the out-record.
    #[inline]
    pub fn forward_keeping(&mut self, face: FaceId, retx_interval_ms: u16) {
        self.decisions.forwards.push(Forward { face, retx_interval_ms });
    }

    /// Says that the Interest, or a copy of it, was held back because it was sent a short while ago.
    pub fn suppress(&mut self) {
        self.decisions.suppressed = true;
    }

    /// Refuses towards one downstream.
    pub fn nack(&mut self, face: FaceId, reason: NackReason) {
        self.decisions.nacks = Nacks::One(face, reason);
    }

    /// Refuses towards every downstream.
    pub fn nack_all(&mut self, reason: NackReason) {
        self.decisions.nacks = Nacks::All(reason);
    }
}

/// True while an answer to this out-record may come.
#[inline]
pub(crate) fn is_pending(record: &OutRecord, now: Instant) -> bool {
    record.expiry >= now && record.nack.is_none()
}
