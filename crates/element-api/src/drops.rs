//! Why packets end: one closed enum, which is also the list of counters.

use crate::shortages::Shortages;
use nw_wire::Fault;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Why a packet was dropped, other than by a fault of its bytes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Cause { $($(#[doc = $doc])+ $variant,)+ }

        impl Cause {
            /// Every cause, in counter order.
            pub const ALL: &'static [Cause] = &[$(Cause::$variant,)+];

            /// The counter's name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Cause::$variant => $name,)+ }
            }

            /// What it means, for people.
            pub const fn explanation(self) -> &'static str {
                match self { $(Cause::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

reasons! {
    /// An Interest whose HopLimit was 0 when it came in.
    HopLimitZero = "hop_limit_zero",
    /// An Interest whose HopLimit is used up; it may not leave the machine.
    HopLimitSpent = "hop_limit_spent",
    /// A `/localhost` name from or to a face that is not local.
    ScopeLocalhost = "scope_localhost",
    /// An Interest with a nonce seen before on a link that does not get Nacks.
    DuplicateNonce = "duplicate_nonce",
    /// An Interest that another one already on its way answers for.
    Aggregated = "aggregated",
    /// A retransmission too soon after the last one.
    RetransmissionSuppressed = "retransmission_suppressed",
    /// An Interest without a route, answered by a Nack or, where its strategy sends none, by silence.
    NoRoute = "no_route",
    /// NextHopFaceId named a face that is not there.
    NextHopUnknown = "next_hop_unknown",
    /// A link field that this face does not allow.
    LinkFieldRefused = "link_field_refused",
    /// The pending Interest table is full; the sender got a Nack(Congestion).
    PitFull = "pit_full",
    /// The pending Interest table is full for this face; the sender got a Nack(Congestion).
    PitFullForFace = "pit_full_for_face",
    /// A pending Interest that gave way to one of a peer with fewer while the table was short; its sender got a Nack(Congestion).
    PitEvicted = "pit_evicted",
    /// An Interest answered from the content store.
    CacheHit = "cache_hit",
    /// Data nobody asked for.
    UnsolicitedData = "unsolicited_data",
    /// Data from a face that was not asked for it.
    DataFromWrongFace = "data_from_wrong_face",
    /// Data all of whose askers have gone.
    NoDownstream = "no_downstream",
    /// A Nack that no Interest of ours explains.
    UnsolicitedNack = "unsolicited_nack",
    /// A Nack on a link with several listeners.
    NackOnMultiAccess = "nack_on_multi_access",
    /// A Nack that the strategy has dealt with.
    NackConsumed = "nack_consumed",
    /// The face it should leave by is gone.
    FaceGone = "face_gone",
    /// The queue of the face it should leave by is full.
    FaceQueueFull = "face_queue_full",
    /// Larger than the face can carry, even in fragments.
    FaceMtu = "face_mtu",
    /// The kernel refused to send it.
    SendFailed = "send_failed",
    /// From a new peer while there were as many peers as there may be, none of which had to give way.
    PeersFull = "peers_full",
    /// The face it should leave by is not connected at the moment.
    FaceDown = "face_down",
    /// Sent on a reliable link as often as may be, and never acknowledged.
    RetransmissionsSpent = "retransmissions_spent",
    /// A WebSocket message that is not binary or too long, or a frame against the protocol; its connection was closed.
    WebSocketFault = "websocket_fault",
    /// A neighbour at shared memory that did what it may not; its link was closed.
    SharedMemoryFault = "shared_memory_fault",
    /// No buffer was free.
    NoBuffer = "no_buffer",
    /// A fragment of a packet that was never whole in time.
    ReassemblyTimeout = "reassembly_timeout",
    /// A fragment that pushed out, or was pushed out by, others: too many packets in pieces.
    ReassemblyFull = "reassembly_full",
    /// A fragment that contradicts its siblings.
    ReassemblyConflict = "reassembly_conflict",
    /// For another shard, whose ring was full.
    ShardFull = "shard_full",
    /// A link packet seen before.
    DuplicateSequence = "duplicate_sequence",
    /// Left an element of a graph by a port from which nothing leads on.
    Unconnected = "unconnected",
    /// Went round in a graph, or became too many there.
    GraphLoop = "graph_loop",
    /// Had no room for a return label in its token, or brought one back that is none.
    ReturnLabel = "return_label",
    /// Waited for a change of a graph together with too many others.
    ChangeFull = "change_full",
    /// A name that a filter's rules refuse.
    NameRefused = "name_refused",
    /// More than a rate limit lets pass, of a face or of a prefix.
    RateLimited = "rate_limited",
    /// A signature that does not verify, or of somebody who may not sign it.
    SignatureInvalid = "signature_invalid",
    /// An Interest that came while a service was being drained.
    Draining = "draining",
    /// Ended where an element's purpose is to end packets.
    Sink = "sink",
    /// Sent to the null face, to which its route leads.
    NullFace = "null_face",
}

impl Cause {
    /// Whether the packet had done its work when it ended: it was answered, another one answers for it, or whom it was for has it.
    pub const fn is_done(self) -> bool {
        matches!(
            self,
            Cause::Aggregated
                | Cause::RetransmissionSuppressed
                | Cause::CacheHit
                | Cause::NackConsumed
                | Cause::Sink
        )
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// Its bytes are no packet: the link header (first) or what is inside.
    Malformed(Fault),
    /// Something else.
    Cause(Cause),
}

impl From<Cause> for DropReason {
    fn from(cause: Cause) -> Self {
        DropReason::Cause(cause)
    }
}

impl DropReason {
    /// The counter's name: `malformed_<fault>` is written by [`DropCounters::iter`].
    pub const fn as_str(self) -> &'static str {
        match self {
            DropReason::Malformed(fault) => fault.as_str(),
            DropReason::Cause(cause) => cause.as_str(),
        }
    }
}

const FAULTS: usize = Fault::ALL.len();
const CAUSES: usize = Cause::ALL.len();

/// One counter a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCounters {
    faults: [u64; FAULTS],
    causes: [u64; CAUSES],
    /// Shortages of shared pools, which often go with drops.
    pub shortages: Shortages,
}

impl Default for DropCounters {
    fn default() -> Self {
        DropCounters { faults: [0; FAULTS], causes: [0; CAUSES], shortages: Shortages::default() }
    }
}

impl DropCounters {
    /// Counts one.
    #[inline]
    pub fn count(&mut self, reason: impl Into<DropReason>) {
        self.add(reason.into(), 1);
    }

    /// Counts several.
    #[inline]
    pub fn add(&mut self, reason: DropReason, packets: u64) {
        match reason {
            DropReason::Malformed(fault) => self.faults[fault as usize] += packets,
            DropReason::Cause(cause) => self.causes[cause as usize] += packets,
        }
    }

    /// How many so far.
    pub fn total(&self, reason: impl Into<DropReason>) -> u64 {
        match reason.into() {
            DropReason::Malformed(fault) => self.faults[fault as usize],
            DropReason::Cause(cause) => self.causes[cause as usize],
        }
    }

    /// All counters in a fixed order, zeros too.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        let faults = Fault::ALL.iter().map(|fault| DropReason::Malformed(*fault));
        let causes = Cause::ALL.iter().map(|cause| DropReason::Cause(*cause));
        faults.chain(causes).map(|reason| (reason, self.total(reason)))
    }

    /// Adds another's counts to these.
    pub fn merge(&mut self, other: &DropCounters) {
        self.shortages.merge(&other.shortages);
        other.iter().for_each(|(reason, packets)| self.add(reason, packets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_its_own_counter() {
        for (index, fault) in Fault::ALL.iter().enumerate() {
            assert_eq!(*fault as usize, index);
        }
        let mut counters = DropCounters::default();
        counters.count(Cause::NoRoute);
        counters.count(DropReason::Malformed(Fault::TooLong));
        assert_eq!(counters.iter().map(|(_, n)| n).sum::<u64>(), 2);
        assert_eq!(counters.total(Cause::NoRoute), 1);
    }
}
