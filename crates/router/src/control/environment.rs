//! What management needs of the router around it: one narrow trait, implemented by the host (and by a fake in tests).
//!
//! Rules for the host
//! * Every call happens inside a call to [`Control`](super::Control). What an implementation learns meanwhile (a face came or went) is queued and
//!   told afterwards, by [`Control::face_event`](super::Control::face_event).
//! * What a call says is done is in effect when it returns: management answers 200 right behind it.

use nw_api::management::{
    ChannelStatus, CsInfo, DropCount, FacePersistency, FaceStatus, ForwarderStatus, ShardStatus, XdpStatus,
};
use nw_name::{Name, NameRef};
use nw_tables::cs::Erasing;
use nw_tables::fib::{NextHop, StrategyId};
use nw_tables::{FaceId, Instant};
use nw_trust::{Clocks, Peer};
use nw_wire::{Data, Interest, Token};
use std::borrow::Cow;

/// The router, as management sees and changes it.
pub trait Environment {
    /// Reads the wall clock: milliseconds since 1970. It may have been set since the last call.
    fn unix_ms(&self) -> u64;

    /// Makes an outgoing face. A connection that takes its time is [`Created::Later`]: the host then calls
    /// [`Control::face_completed`](super::Control::face_completed) with the same ticket, exactly once, also when the connection fails.
    fn create_face(&mut self, ticket: Ticket, request: &FaceRequest<'_>) -> Created;

    /// Gives up a face of which [`Created::Later`] was said: it ends, and [`Control::face_completed`](super::Control::face_completed) is not
    /// called.
    fn abandon_face(&mut self, ticket: Ticket);

    /// Changes a face that is there.
    ///
    /// # Errors
    /// [`UpdateRefusal`] names what can't be; then nothing has changed.
    fn update_face(&mut self, face: FaceId, change: &FaceChange) -> Result<(), UpdateRefusal>;

    /// Ends a face. Nothing happens when it is not there. The host tells its end as any other face's, by an event.
    fn destroy_face(&mut self, face: FaceId);

    /// All there is to say about one face; `None` when it is not there. The internal face (id 1) is a face too.
    fn face_status(&self, face: FaceId) -> Option<FaceStatus>;

    /// True when the face is there; cheaper than [`face_status`](Self::face_status).
    fn has_face(&self, face: FaceId) -> bool;

    /// The ids of all faces, in order.
    fn face_ids(&self) -> Vec<FaceId>;

    /// All listeners, in an order that stays.
    fn channels(&self) -> Vec<ChannelStatus>;

    /// Changes the FIB, in the order given: prefixes before the names below them.
    ///
    /// # Errors
    /// [`FibRefusal`] says which change was the first that could not be made; those before it are in effect, it and those behind are not.
    fn apply_fib(&mut self, changes: &[FibChange<'_>]) -> Result<(), FibRefusal>;

    /// The strategy of a name (with or without version and parameters), and the name it is listed by.
    ///
    /// # Errors
    /// With the code and text the asker gets: 404 for a strategy nobody has, 409 for bad parameters, 500 when there are too many.
    fn resolve_strategy(&mut self, name: NameRef<'_>) -> Result<(StrategyId, Name), Refusal>;

    /// Changes the content store; what is `None` stays. Capacity in packets is cut to what the tables were built for.
    fn cs_config(&mut self, capacity: Option<u64>, admit: Option<bool>, serve: Option<bool>);

    /// Goes on erasing packets under a prefix, for a bounded time; true when that is done.
    fn cs_erase(&mut self, prefix: NameRef<'_>, erasing: &mut Erasing) -> bool;

    /// Keeps a prefix announcement that was found good until `until`: self-learning sends it along with Data below `prefix`.
    fn keep_announcement(&mut self, prefix: NameRef<'_>, announcement: &[u8], until: Instant) {
        let _ = (prefix, announcement, until);
    }

    /// The content store's state and counters.
    fn cs_info(&self) -> CsInfo;

    /// The router's counters and timestamps. Management fills in the version itself, so that may be left empty.
    fn forwarder_status(&self) -> ForwarderStatus;

    /// Packets dropped, by reason, in counter order; reasons that never came may be left out.
    fn drops(&self) -> Vec<DropCount> {
        Vec::new()
    }

    /// Threads that forward, by number.
    fn shards(&self) -> Vec<ShardStatus> {
        Vec::new()
    }

    /// Interfaces that go by AF_XDP.
    fn xdp(&self) -> Vec<XdpStatus> {
        Vec::new()
    }

    /// Hands a Data to forwarding, as if it came by the internal face, with CachePolicy NoCache. With the token of an Interest that came to the
    /// internal face it satisfies that one and no other.
    fn send(&mut self, data: &[u8], token: Token);

    /// Hands an Interest to forwarding, as if it came by the internal face: to a face, or where routes lead. What answers it is told by
    /// [`Control::on_data`](super::Control::on_data) and [`Control::on_nack`](super::Control::on_nack).
    fn ask(&mut self, interest: &[u8], next_hop: Option<FaceId>);
}

/// Tells apart the faces that are being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A face that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceRequest<'a> {
    /// The far end, as the asker wrote it. The host makes it canonical; a host name is refused with 400, as nobody waits for a resolver here.
    pub uri: &'a str,
    /// The near end, where it matters.
    pub local_uri: Option<&'a str>,
    /// When it goes away; never [`FacePersistency::OnDemand`].
    pub persistency: FacePersistency,
    /// What else is said.
    pub options: FaceChange,
}

/// What is said about a face; what is `None` stays, or is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceChange {
    /// When it goes away. Not used in a [`FaceRequest`].
    pub persistency: Option<FacePersistency>,
    /// Bits of [`flags`](nw_api::management::flags) to be set; only those in `mask` are meant.
    pub flags: u64,
    /// Which bits of `flags` are meant.
    pub mask: u64,
    /// Octets of the largest link packet.
    pub mtu: Option<u64>,
    /// Nanoseconds between congestion marks at first.
    pub base_congestion_marking_interval_ns: Option<u64>,
    /// Octets in the send queue beyond which the face is congested.
    pub default_congestion_threshold: Option<u64>,
}

/// What came of a request for a face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is there.
    Now(FaceId),
    /// A face with this far end was there before.
    Exists(FaceId),
    /// It is being connected.
    Later,
    /// It can't be.
    Refused(Refusal),
}

/// Why something can't be, as the asker is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Like HTTP's. For faces: 400 a URI that is none or not canonical, 406 a scheme or option that can't be, 504 nobody answered, 500 the system refused.
    pub code: u64,
    /// For people: what is wrong and what helps.
    pub text: String,
}

impl Refusal {
    /// With a code and a text.
    pub fn new(code: u64, text: impl Into<String>) -> Self {
        Refusal { code, text: text.into() }
    }
}

/// Why a face can't be changed: 409, with the fields that can't be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateRefusal {
    /// The persistency.
    pub persistency: bool,
    /// Bits of flags.
    pub flags: u64,
    /// The MTU.
    pub mtu: bool,
    /// For people.
    pub text: String,
}

/// One change of the FIB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibChange<'a> {
    /// The prefix has these next hops and this strategy from now on.
    Set {
        /// The prefix, at most 32 components.
        name: NameRef<'a>,
        /// Sorted by cost, then face; may be empty.
        next_hops: &'a [NextHop],
        /// The strategy.
        strategy: StrategyId,
    },
    /// The prefix is no entry any more.
    Remove {
        /// The prefix.
        name: NameRef<'a>,
    },
}

/// Why the FIB could not be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FibRefusal {
    /// Index of the first change that was not made.
    pub index: usize,
    /// For people, such as "the FIB is full (65536 prefixes)".
    pub text: String,
}

/// What an authority says of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Carry it out.
    Accept,
    /// Answer 403 with this text.
    Deny(Cow<'static, str>),
    /// Answer nothing: the signature is malformed.
    Silent,
    /// Nothing yet: a certificate has to be fetched first. The authority keeps the Interest, and the host passes it to
    /// [`Control::on_interest`](super::Control::on_interest) once more when it can be decided; nothing may have changed until then.
    Later,
}

/// Who may do what. Implemented over the trust layer; a fake in tests.
pub trait Authorize {
    /// May this command Interest be carried out? Both signature formats come here, and Interests without a signature.
    ///
    /// `module` and `verb` are such as `rib` and `register`; `prefix` is what the command is about, where it is about a prefix.
    /// A command that is accepted here counts as seen: ask last.
    fn command(
        &mut self,
        clocks: Clocks,
        interest: &Interest<'_>,
        ingress: Ingress,
        module: &str,
        verb: &str,
        prefix: Option<NameRef<'_>>,
    ) -> Verdict;

    /// May whoever signed this prefix announcement announce that prefix? `interest` brought it; nothing is remembered of being asked.
    fn announcement(
        &mut self,
        clocks: Clocks,
        announcement: &Data<'_>,
        prefix: NameRef<'_>,
        ingress: Ingress,
        interest: &Interest<'_>,
    ) -> Verdict;

    /// As [`announcement`](Self::announcement), of one that came with Data from a neighbour: nobody commanded, nobody is answered.
    fn learned(
        &mut self,
        clocks: Clocks,
        announcement: &Data<'_>,
        prefix: NameRef<'_>,
        ingress: Ingress,
    ) -> Verdict;
}

/// Where an Interest came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// By which face.
    pub face: FaceId,
    /// True when its other end is on this machine.
    pub local: bool,
    /// The peer whose share of bounded pools it uses.
    pub peer: Peer,
}
