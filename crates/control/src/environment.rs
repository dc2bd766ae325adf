//! The router around management: one trait for what management reads and changes, and one for
//! access control. The host implements both; tests use a fake.
//!
//! Rules for an implementation of [`Environment`]:
//!
//! * [`Control`](super::Control) calls it only from within its own methods. Face events that occur
//!   during such a call are queued and delivered afterwards, by
//!   [`Control::on_face_event`](super::Control::on_face_event).
//! * A change is in effect when the call returns: management answers 200 right after it.

use nw_api::management::{
    ChannelStatus, CsInfo, DropCount, FacePersistency, FaceStatus, ForwarderStatus, ShardStatus,
    XdpStatus,
};
use nw_name::{Name, NameRef};
use nw_tables::cs::EraseCursor;
use nw_tables::fib::{NextHop, StrategyId};
use nw_tables::{FaceId, Timestamp};
use nw_trust::{Clocks, PeerGroup};
use nw_wire::{Data, Interest, Token};
use std::borrow::Cow;

/// Faces, FIB, content store and counters of the router, as management reads and changes them.
pub trait Environment {
    /// Returns the wall clock in milliseconds since 1970. The clock may be set between two calls.
    fn unix_ms(&self) -> u64;

    /// Creates an outgoing face.
    ///
    /// [`FaceCreation::Connecting`] promises one later call of
    /// [`Control::on_face_connected`](super::Control::on_face_connected) with the same operation,
    /// also if the connection fails.
    fn create_face(&mut self, operation: OperationId, request: &FaceRequest<'_>) -> FaceCreation;

    /// Cancels a face creation that answered [`FaceCreation::Connecting`]. The face is closed, and
    /// [`Control::on_face_connected`](super::Control::on_face_connected) is not called.
    fn cancel_face(&mut self, operation: OperationId);

    /// Starts to resolve the host name in a face URI and returns without waiting.
    ///
    /// `true` promises one later call of
    /// [`Control::on_host_resolved`](super::Control::on_host_resolved) with the same operation.
    /// `false` if there is no resolver or its queue is full.
    fn resolve(&mut self, operation: OperationId, uri: &str) -> bool {
        let _ = (operation, uri);
        false
    }

    /// Changes the options of an existing face.
    ///
    /// # Errors
    /// [`UpdateRefusal`] names the fields that can't be changed; then none was changed.
    fn update_face(&mut self, face: FaceId, change: &FaceChange) -> Result<(), UpdateRefusal>;

    /// Closes a face. Does nothing if there is no such face. Its end is reported by an event, as
    /// for any other face.
    fn destroy_face(&mut self, face: FaceId);

    /// Returns the status of a face, including the internal face (id 1). `None` if there is no such
    /// face.
    fn face_status(&self, face: FaceId) -> Option<FaceStatus>;

    /// Returns whether the face exists. Cheaper than [`face_status`](Self::face_status).
    fn has_face(&self, face: FaceId) -> bool;

    /// Returns the ids of all faces in ascending order.
    fn face_ids(&self) -> Vec<FaceId>;

    /// Returns all listeners, in the same order at each call.
    fn channels(&self) -> Vec<ChannelStatus>;

    /// Applies changes to the FIB in the order given: a prefix comes before the names below it.
    ///
    /// # Errors
    /// [`FibRefusal`] has the index of the first change that failed. The changes before it are in
    /// effect; it and all later ones are not.
    fn apply_fib(&mut self, changes: &[FibChange<'_>]) -> Result<(), FibRefusal>;

    /// Returns the strategy with this name (with or without version and parameters), and the full
    /// name under which datasets list it.
    ///
    /// # Errors
    /// 404 for an unknown strategy, 409 for invalid parameters, 500 if there are too many
    /// parametrised strategies. Code and text go to the client.
    fn resolve_strategy(&mut self, name: NameRef<'_>) -> Result<(StrategyId, Name), Refusal>;

    /// Changes the content store's options; `None` leaves an option as it is. The capacity, in
    /// packets, is limited to the size the tables were built for.
    fn cs_config(&mut self, capacity: Option<u64>, admit: Option<bool>, serve: Option<bool>);

    /// Continues to erase packets under a prefix for a bounded time. Returns `true` when the
    /// erasure is complete.
    fn cs_erase(&mut self, prefix: NameRef<'_>, erasing: &mut EraseCursor) -> bool;

    /// Stores a validated prefix announcement until `until`. Self-learning attaches it to Data
    /// below `prefix`.
    fn store_announcement(&mut self, prefix: NameRef<'_>, announcement: &[u8], until: Timestamp) {
        let _ = (prefix, announcement, until);
    }

    /// Returns the content store's state and counters.
    fn cs_info(&self) -> CsInfo;

    /// Returns the router's counters and timestamps. The version may be empty: management fills it
    /// in.
    fn forwarder_status(&self) -> ForwarderStatus;

    /// Returns the number of packets dropped by reason, in counter order. Reasons with a count of 0
    /// may be left out.
    fn drops(&self) -> Vec<DropCount> {
        Vec::new()
    }

    /// Returns the forwarding threads in the order of their index.
    fn shards(&self) -> Vec<ShardStatus> {
        Vec::new()
    }

    /// Returns the interfaces that use AF_XDP.
    fn xdp(&self) -> Vec<XdpStatus> {
        Vec::new()
    }

    /// Passes a Data packet to forwarding as if received on the internal face, with CachePolicy
    /// NoCache. With the PIT token of an Interest it satisfies that Interest only.
    fn send_data(&mut self, data: &[u8], token: Token);

    /// Passes an Interest to forwarding as if received on the internal face: to one face, or to the
    /// FIB's next hops if `next_hop` is `None`. The reply arrives at
    /// [`Control::on_data`](super::Control::on_data) or
    /// [`Control::on_nack`](super::Control::on_nack).
    fn send_interest(&mut self, interest: &[u8], next_hop: Option<FaceId>);
}

/// Identifies an operation that completes after the call that started it. Unique per
/// [`Control`](super::Control).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// Parameters of [`Environment::create_face`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceRequest<'a> {
    /// Remote face URI as the client wrote it. The host makes it canonical. A host name is refused
    /// with 400: [`Environment::resolve`] replaces it by addresses first.
    pub uri: &'a str,
    /// Local face URI; `None` lets the system choose.
    pub local_uri: Option<&'a str>,
    /// Persistency of the face; never [`FacePersistency::OnDemand`].
    pub persistency: FacePersistency,
    /// All other options.
    pub options: FaceChange,
}

/// Options of a face. `None` keeps the current value, or means the default for a new face.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceChange {
    /// New persistency. Not used in a [`FaceRequest`].
    pub persistency: Option<FacePersistency>,
    /// New values of the [`flags`](nw_api::management::flags) that are selected by `mask`.
    pub flags: u64,
    /// Selects the bits of `flags` to change.
    pub mask: u64,
    /// Largest link packet in bytes.
    pub mtu: Option<u64>,
    /// First interval between congestion marks in nanoseconds.
    pub base_congestion_marking_interval_ns: Option<u64>,
    /// Length of the send queue, in bytes, above which the face is congested.
    pub default_congestion_threshold: Option<u64>,
}

/// Result of [`Environment::create_face`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaceCreation {
    /// The face was created.
    Created(FaceId),
    /// A face with this remote URI existed before.
    Exists(FaceId),
    /// The connection is being established.
    Connecting,
    /// The face can't be created.
    Refused(Refusal),
}

/// Code and text of a failed command, as the client receives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status code as in HTTP. For faces: 400 invalid or non-canonical URI, 406 unsupported scheme
    /// or option, 504 the peer did not answer, 500 error of the operating system.
    pub code: u64,
    /// Explanation and remedy for an operator.
    pub text: String,
}

impl Refusal {
    /// Creates a refusal from a code and a text.
    pub fn new(code: u64, text: impl Into<String>) -> Self {
        Refusal { code, text: text.into() }
    }
}

/// Fields that [`Environment::update_face`] can't change. The command is answered with 409.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateRefusal {
    /// The persistency was refused.
    pub persistency: bool,
    /// Bits of `flags` that were refused.
    pub flags: u64,
    /// The MTU was refused.
    pub mtu: bool,
    /// Explanation for an operator.
    pub text: String,
}

/// One change of the FIB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibChange<'a> {
    /// Adds a prefix or replaces its next hops and strategy.
    Set {
        /// The prefix, at most 32 components.
        name: NameRef<'a>,
        /// Next hops sorted by cost, then by face; may be empty.
        next_hops: &'a [NextHop],
        /// Strategy of the prefix.
        strategy: StrategyId,
    },
    /// Removes a prefix.
    Remove {
        /// The prefix.
        name: NameRef<'a>,
    },
}

/// Error of [`Environment::apply_fib`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FibRefusal {
    /// Index of the first change that was not applied.
    pub index: usize,
    /// Explanation for an operator, such as "the FIB is full (65536 prefixes)".
    pub text: String,
}

/// Decision of [`Authorize`] about a command or announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Execute it.
    Accept,
    /// Answer 403 with this text.
    Deny(Cow<'static, str>),
    /// Send no reply: the signature is malformed.
    Ignore,
    /// A certificate is being fetched. The authority keeps the Interest and the host passes it to
    /// [`Control::on_interest`](super::Control::on_interest) again when the certificate has
    /// arrived. Until then the command must not have changed anything.
    Defer,
}

/// Access control for commands and announcements, implemented over `nw-trust`.
pub trait Authorize {
    /// Decides whether a command Interest may be executed. Called for both signature formats and
    /// for Interests without a signature.
    ///
    /// `module` and `verb` are, for example, `rib` and `register`; `prefix` is the prefix that the
    /// command changes, if any. An accepted command is recorded against replay, so this must be
    /// the last check before execution.
    fn command(
        &mut self,
        clocks: Clocks,
        interest: &Interest<'_>,
        ingress: Ingress,
        module: &str,
        verb: &str,
        prefix: Option<NameRef<'_>>,
    ) -> Verdict;

    /// Decides whether the signer of a prefix announcement may announce `prefix`. `interest` is the
    /// command that carried it. Records nothing.
    fn announcement(
        &mut self,
        clocks: Clocks,
        announcement: &Data<'_>,
        prefix: NameRef<'_>,
        ingress: Ingress,
        interest: &Interest<'_>,
    ) -> Verdict;

    /// Decides as [`announcement`](Self::announcement) does, for an announcement that a neighbour
    /// attached to Data. There is no command and no reply.
    fn learned(
        &mut self,
        clocks: Clocks,
        announcement: &Data<'_>,
        prefix: NameRef<'_>,
        ingress: Ingress,
    ) -> Verdict;
}

/// Origin of an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// Face on which the router received the Interest.
    pub face: FaceId,
    /// The peer of this face is on the same machine.
    pub local: bool,
    /// Peer that is charged for its share of bounded pools.
    pub peer: PeerGroup,
}
