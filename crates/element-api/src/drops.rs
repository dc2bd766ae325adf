//! Why packets are dropped: one closed enum, which is also the list of counters.

use crate::shortages::Shortages;
use nw_wire::Fault;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The cause of a drop, other than a fault in the packet's bytes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropCause { $($(#[doc = $doc])+ $variant,)+ }

        impl DropCause {
            /// Every cause, in counter order.
            pub const ALL: &'static [DropCause] = &[$(DropCause::$variant,)+];

            /// Returns the counter's name.
            pub const fn as_str(self) -> &'static str {
                match self { $(DropCause::$variant => $name,)+ }
            }

            /// Returns one sentence for people that explains the cause.
            pub const fn explanation(self) -> &'static str {
                match self { $(DropCause::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

reasons! {
    /// An Interest received with HopLimit 0.
    HopLimitZero = "hop_limit_zero",
    /// An Interest whose HopLimit reached 0; it may not leave the machine.
    HopLimitSpent = "hop_limit_spent",
    /// A `/localhost` name from or to a face that is not local.
    ScopeLocalhost = "scope_localhost",
    /// An Interest with a nonce seen before, on a link that does not get Nacks.
    DuplicateNonce = "duplicate_nonce",
    /// An Interest for which another one is already pending.
    Aggregated = "aggregated",
    /// A retransmission too soon after the last one.
    RetransmissionSuppressed = "retransmission_suppressed",
    /// An Interest without a usable route; answered by a Nack if its strategy sends one.
    NoRoute = "no_route",
    /// NextHopFaceId names a face that does not exist.
    NextHopUnknown = "next_hop_unknown",
    /// A link field that this face does not allow.
    LinkFieldRefused = "link_field_refused",
    /// The PIT is full; the sender got a Nack(Congestion).
    PitFull = "pit_full",
    /// The PIT is full for this face; the sender got a Nack(Congestion).
    PitFullForFace = "pit_full_for_face",
    /// A pending Interest evicted for one of a peer with fewer entries; its downstreams got a
    /// Nack(Congestion).
    PitEvicted = "pit_evicted",
    /// An Interest answered by the content store.
    CacheHit = "cache_hit",
    /// Data without a pending Interest.
    UnsolicitedData = "unsolicited_data",
    /// Data from a face that the Interest was not sent to.
    DataFromWrongFace = "data_from_wrong_face",
    /// Data without a downstream left.
    NoDownstream = "no_downstream",
    /// A Nack without a pending Interest that was sent to its face.
    UnsolicitedNack = "unsolicited_nack",
    /// A Nack on a link with several peers.
    NackOnMultiAccess = "nack_on_multi_access",
    /// A Nack that the strategy has handled.
    NackConsumed = "nack_consumed",
    /// The egress or ingress face no longer exists.
    FaceGone = "face_gone",
    /// The send queue of the egress face is full.
    FaceQueueFull = "face_queue_full",
    /// Larger than the face can send, even in fragments.
    FaceMtu = "face_mtu",
    /// The kernel refused to send it.
    SendFailed = "send_failed",
    /// From a new peer while the limit of peers is reached and none could be evicted.
    PeersFull = "peers_full",
    /// The egress face is not connected at the moment.
    FaceDown = "face_down",
    /// Sent on a reliable link as often as allowed, and never acknowledged.
    RetransmissionsSpent = "retransmissions_spent",
    /// A WebSocket message that is not binary or too long, or a frame against the protocol; its
    /// connection was closed.
    WebSocketFault = "websocket_fault",
    /// A shared memory peer broke the ring protocol; its link was closed.
    SharedMemoryFault = "shared_memory_fault",
    /// No buffer was free.
    NoBuffer = "no_buffer",
    /// A fragment of a packet that was not completed in time.
    ReassemblyTimeout = "reassembly_timeout",
    /// A fragment evicted from, or refused by, the reassembly buffer: too many incomplete packets.
    ReassemblyFull = "reassembly_full",
    /// A fragment that contradicts another one of the same packet.
    ReassemblyConflict = "reassembly_conflict",
    /// For another shard, whose ring was full.
    ShardFull = "shard_full",
    /// A link packet received before.
    DuplicateSequence = "duplicate_sequence",
    /// Left an element of a graph by a port that is not connected.
    Unconnected = "unconnected",
    /// Looped in a graph, or its copies became too many there.
    GraphLoop = "graph_loop",
    /// No space for a return label in its token, or a returned token that is not one of ours.
    ReturnLabel = "return_label",
    /// Too many packets waited for a change of the graph.
    ChangeFull = "change_full",
    /// A name that a filter's rules deny.
    NameRefused = "name_refused",
    /// More than the rate limit of a face or of a prefix.
    RateLimited = "rate_limited",
    /// A signature that does not verify, or of a key that may not sign this name.
    SignatureInvalid = "signature_invalid",
    /// A command answered by the service itself.
    Answered = "answered",
    /// A command while too many others waited to be answered.
    CommandsFull = "commands_full",
    /// An Interest received while the service was being drained.
    Draining = "draining",
    /// Ended in an element whose purpose is to end packets.
    Sink = "sink",
    /// Sent to the null face, to which its route leads.
    NullFace = "null_face",
}

impl DropCause {
    /// Returns whether this is normal operation and no loss: the packet was answered, handled, or
    /// another one stands for it.
    pub const fn is_expected(self) -> bool {
        matches!(
            self,
            DropCause::Aggregated
                | DropCause::RetransmissionSuppressed
                | DropCause::CacheHit
                | DropCause::Answered
                | DropCause::NackConsumed
                | DropCause::Sink
        )
    }
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropReason {
    /// A fault in its bytes: in the link header (checked first) or in the network packet.
    Malformed(Fault),
    /// Another cause.
    Cause(DropCause),
}

impl From<DropCause> for DropReason {
    fn from(cause: DropCause) -> Self {
        DropReason::Cause(cause)
    }
}

impl DropReason {
    /// Returns the reason's name. [`DropCounters::iter`] yields faults as `malformed_<fault>`.
    pub const fn as_str(self) -> &'static str {
        match self {
            DropReason::Malformed(fault) => fault.as_str(),
            DropReason::Cause(cause) => cause.as_str(),
        }
    }
}

const FAULTS: usize = Fault::ALL.len();
const CAUSES: usize = DropCause::ALL.len();

/// One counter per reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCounters {
    faults: [u64; FAULTS],
    causes: [u64; CAUSES],
    /// Shortages of shared pools, which often cause drops.
    pub shortages: Shortages,
}

impl Default for DropCounters {
    fn default() -> Self {
        DropCounters { faults: [0; FAULTS], causes: [0; CAUSES], shortages: Shortages::default() }
    }
}

impl DropCounters {
    /// Counts one packet.
    #[inline]
    pub fn count(&mut self, reason: impl Into<DropReason>) {
        self.add(reason.into(), 1);
    }

    /// Counts several packets.
    #[inline]
    pub fn add(&mut self, reason: DropReason, packets: u64) {
        match reason {
            DropReason::Malformed(fault) => self.faults[fault as usize] += packets,
            DropReason::Cause(cause) => self.causes[cause as usize] += packets,
        }
    }

    /// Returns the packets counted for a reason.
    pub fn total(&self, reason: impl Into<DropReason>) -> u64 {
        match reason.into() {
            DropReason::Malformed(fault) => self.faults[fault as usize],
            DropReason::Cause(cause) => self.causes[cause as usize],
        }
    }

    /// Returns all counters in a fixed order, including zeros.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        let faults = Fault::ALL.iter().map(|fault| DropReason::Malformed(*fault));
        let causes = DropCause::ALL.iter().map(|cause| DropReason::Cause(*cause));
        faults.chain(causes).map(|reason| (reason, self.total(reason)))
    }

    /// Adds another set of counters to this one.
    pub fn merge(&mut self, other: &DropCounters) {
        self.shortages.merge(&other.shortages);
        other.iter().for_each(|(reason, packets)| self.add(reason, packets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_counts_separately() {
        for (index, fault) in Fault::ALL.iter().enumerate() {
            assert_eq!(*fault as usize, index);
        }
        let mut counters = DropCounters::default();
        counters.count(DropCause::NoRoute);
        counters.count(DropReason::Malformed(Fault::TooLong));
        assert_eq!(counters.iter().map(|(_, n)| n).sum::<u64>(), 2);
        assert_eq!(counters.total(DropCause::NoRoute), 1);
    }
}
