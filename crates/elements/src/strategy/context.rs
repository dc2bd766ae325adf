//! What a strategy sees of one pending Interest, and what it decides.

mod memory;

use super::StrategyState;
use crate::scope::NameScope;
use nw_element_api::{FaceId, Instant, LinkType, Meta, Scope};
use nw_name::Prefixes;
use nw_tables::FaceTable;
use nw_tables::fib::{NextHop, StrategyId};
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
    /// Faces to other machines that allow this Interest.
    pub fn neighbours(self) -> impl Iterator<Item = FaceId> + use<'a> {
        let non_local = self.faces.iter().filter(|(_, info)| info.scope == Scope::NonLocal);
        non_local.map(|(face, _)| face).filter(move |face| self.allows(*face))
    }

    /// True when a face leads to another machine.
    pub fn is_neighbour(&self, face: FaceId) -> bool {
        self.faces.info(face).is_some_and(|info| info.scope == Scope::NonLocal)
    }
}

/// One Interest to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// To this face.
    pub face: FaceId,
    /// Suppression interval to be kept with the out-record, milliseconds; 0 for none.
    pub retx_interval_ms: u16,
    /// In which form.
    pub form: Form,
}

impl Forward {
    /// The Interest as it came, without suppression interval.
    pub const fn plain(face: FaceId) -> Self {
        Forward { face, retx_interval_ms: 0, form: Form::AsReceived }
    }
}

/// What of an Interest is changed before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Nothing.
    AsReceived,
    /// It gets a nonce of its own: a trial, which must not be taken for a loop where its way and the other's meet.
    Probe,
    /// It carries NonDiscovery.
    NonDiscovery,
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
    /// What few strategies ask for.
    pub extras: Extras,
}

/// What few strategies ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The strategy is to be woken after so many milliseconds, if the Interest waits then; 0 for not.
    pub wake_ms: u32,
    /// The entry stays for so many milliseconds after this Data, for slower next hops to be measured; 0 for not.
    pub linger_ms: u16,
    /// What becomes of routes and prefix announcements.
    pub lesson: Lesson,
}

/// What self-learning draws from a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lesson {
    /// Nothing.
    #[default]
    Nothing,
    /// The Data's announcement becomes a route to where it came from, and goes on to neighbours.
    Learn,
    /// The announcement known for the Data's name goes to neighbours with it.
    Attach,
    /// The route by which this Nack came is gone.
    Forget,
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
        self.extras = Extras::default();
    }
}

/// What happened, and to which Interest.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// When.
    pub now: Instant,
    /// The pending Interest.
    pub entry: EntryRef,
    /// The face the packet came by; where no packet came, that of an asker.
    pub ingress: FaceId,
    /// Sorted by cost; empty where the event does not choose among them.
    pub next_hops: &'a [NextHop],
    /// Which of them may be taken.
    pub eligibility: Eligibility<'a>,
    /// The packet: Interest, Data or Nack; where none came, the table's copy of the Interest.
    pub meta: &'a Meta,
    /// Its octets.
    pub bytes: &'a [u8],
    /// Components of the prefix that the next hops are of.
    pub route_len: u8,
    /// The strategy's number.
    pub strategy: StrategyId,
}

/// One event about one pending Interest, and all that a strategy may look at or do.
pub struct StrategyContext<'a> {
    event: Event<'a>,
    pit: &'a mut Pit,
    state: &'a mut StrategyState,
    decisions: &'a mut Decisions,
}

/// Kept with the pending Interest: the strategy wants to see the Data.
pub(crate) const WANTS_DATA: u32 = 1;
/// Kept with the pending Interest: its timer may be the strategy's, and earlier than its end.
pub(crate) const WANTS_WAKING: u32 = 2;

impl<'a> StrategyContext<'a> {
    /// Forgets the last event's decisions.
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

    /// The time of the event.
    pub fn now(&self) -> Instant {
        self.event.now
    }

    /// The face the packet of this event came by.
    pub fn ingress(&self) -> FaceId {
        self.event.ingress
    }

    /// Hashes of the prefixes of the packet's name.
    pub fn prefixes(&self) -> &'a Prefixes {
        &self.event.meta.prefixes
    }

    /// Components of the prefix that the next hops are of: what is measured is measured of this prefix.
    pub fn route_len(&self) -> usize {
        usize::from(self.event.route_len)
    }

    /// Next hops of the prefix, cheapest first, also those that this Interest may not take.
    pub fn next_hops(&self) -> &'a [NextHop] {
        self.event.next_hops
    }

    /// True when this Interest may go to a face.
    pub fn is_eligible(&self, face: FaceId) -> bool {
        self.event.eligibility.allows(face)
    }

    /// Next hops this Interest may take, cheapest first.
    #[inline]
    pub fn eligible(&self) -> impl Iterator<Item = NextHop> + Clone + use<'a> {
        let eligibility = self.event.eligibility;
        let next_hops = self.event.next_hops;
        next_hops.iter().copied().filter(move |hop| eligibility.allows(hop.face))
    }

    /// Where the Interest was sent so far, expired ones too.
    #[inline]
    pub fn out_records(&self) -> impl Iterator<Item = OutRecord> + '_ {
        self.pit.out_records(self.event.entry)
    }

    /// When and how it was sent to one face.
    #[inline]
    pub fn out_record(&self, face: FaceId) -> Option<OutRecord> {
        self.pit.out_record(self.event.entry, face)
    }

    /// True when a next hop may still answer.
    #[inline]
    pub fn has_pending_upstream(&self) -> bool {
        self.out_records().any(|record| is_pending(&record, self.event.now))
    }

    /// True when the face waits for an answer.
    pub fn is_downstream(&self, face: FaceId) -> bool {
        self.pit.in_record(self.event.entry, face).is_some()
    }

    /// Suppression interval kept with the entry, milliseconds; 0 when none was set.
    #[inline]
    pub fn retx_interval_ms(&self) -> u16 {
        self.pit.retx_interval_ms(self.event.entry)
    }

    /// Keeps a suppression interval with the entry.
    pub fn set_retx_interval_ms(&mut self, interval_ms: u16) {
        self.pit.set_retx_interval_ms(self.event.entry, interval_ms);
    }

    /// Sends the Interest to a face.
    #[inline]
    pub fn forward(&mut self, face: FaceId) {
        self.forward_keeping(face, 0);
    }

    /// As [`forward`](Self::forward), keeping a suppression interval with the out-record.
    #[inline]
    pub fn forward_keeping(&mut self, face: FaceId, retx_interval_ms: u16) {
        self.decisions.forwards.push(Forward { face, retx_interval_ms, form: Form::AsReceived });
    }

    /// As [`forward_keeping`](Self::forward_keeping), in another form than it came.
    pub fn forward_as(&mut self, form: Form, face: FaceId, retx_interval_ms: u16) {
        self.decisions.forwards.push(Forward { face, retx_interval_ms, form });
    }

    /// Sends a copy with a nonce of its own, besides what else is sent.
    pub fn forward_probe(&mut self, face: FaceId) {
        // In front: the last one is sent as the packet itself, which must stay as it is.
        self.decisions.forwards.insert(0, Forward { form: Form::Probe, ..Forward::plain(face) });
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
