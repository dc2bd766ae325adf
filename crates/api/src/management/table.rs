//! Tables as management shows them: FIB, RIB, strategy choices, content store, and the router as a whole.

use super::number as n;
use super::parameters::Strategy;
use super::record::record;
use nw_name::Name;

record! {
    /// Where Interests may go, and at what cost.
    NextHopRecord {
        /// The face.
        face_id: u64 = n::FACE_ID,
        /// Its cost.
        cost: u64 = n::COST,
    }
}

record! {
    /// One prefix of the FIB.
    FibEntry {
        /// The prefix.
        #[serde(with = "super::uri")]
        #[schema(value_type = crate::schema::NameText)]
        name: Name = n::NAME,
        /// Where Interests for it may go.
        next_hops: Vec<NextHopRecord> = n::PART,
    }
}

record! {
    /// One route of a prefix.
    Route {
        /// Its face.
        face_id: u64 = n::FACE_ID,
        /// Its origin: see [`origin`](super::origin); a word in JSON.
        #[serde(with = "super::named::route_origin")]
        #[schema(value_type = crate::schema::OriginText)]
        origin: u64 = n::ORIGIN,
        /// Its cost.
        cost: u64 = n::COST,
        /// Bits: see [`ROUTE_FLAGS`](super::named::ROUTE_FLAGS); words in JSON.
        #[serde(with = "super::named::route_flags")]
        #[schema(value_type = Vec<crate::schema::RouteFlagText>)]
        flags: u64 = n::FLAGS,
        /// Milliseconds it still lives; absent when that is as long as its face.
        #[serde(rename = "expiration_period_ms", skip_serializing_if = "Option::is_none")]
        expiration_period: Option<u64> = n::EXPIRATION_PERIOD,
    }
}

record! {
    /// One prefix of the RIB.
    RibEntry {
        /// The prefix.
        #[serde(with = "super::uri")]
        #[schema(value_type = crate::schema::NameText)]
        name: Name = n::NAME,
        /// Its routes.
        routes: Vec<Route> = n::PART,
    }
}

record! {
    /// Which strategy forwards a prefix.
    StrategyChoice {
        /// The prefix.
        #[serde(with = "super::uri")]
        #[schema(value_type = crate::schema::NameText)]
        name: Name = n::NAME,
        /// The strategy, with version and parameters.
        strategy: Strategy = n::STRATEGY,
    }
}

record! {
    /// The content store.
    #[derive(Default)]
    CsInfo {
        /// Packets it may hold.
        capacity: u64 = n::CAPACITY,
        /// Bits: see [`CS_FLAGS`](super::named::CS_FLAGS); words in JSON.
        #[serde(with = "super::named::cs_flags")]
        #[schema(value_type = Vec<crate::schema::CsFlagText>)]
        flags: u64 = n::FLAGS,
        /// Packets it holds.
        entries: u64 = n::N_CS_ENTRIES,
        /// Interests answered.
        hits: u64 = n::N_HITS,
        /// Interests not answered.
        misses: u64 = n::N_MISSES,
    }
}

record! {
    /// The router as a whole. Not wrapped in an element of its own.
    #[derive(Default)]
    ForwarderStatus {
        /// Software and version.
        version: String = n::NFD_VERSION,
        /// When it started, milliseconds since 1970.
        #[serde(rename = "start_timestamp_ms")]
        start_timestamp: u64 = n::START_TIMESTAMP,
        /// Now, milliseconds since 1970.
        #[serde(rename = "current_timestamp_ms")]
        current_timestamp: u64 = n::CURRENT_TIMESTAMP,
        /// Names in all tables; this router has no name tree and says 0.
        name_tree_entries: u64 = n::N_NAME_TREE_ENTRIES,
        /// Prefixes of the FIB.
        fib_entries: u64 = n::N_FIB_ENTRIES,
        /// Pending Interests.
        pit_entries: u64 = n::N_PIT_ENTRIES,
        /// Measurements of strategies.
        measurements_entries: u64 = n::N_MEASUREMENTS_ENTRIES,
        /// Packets of the content store.
        cs_entries: u64 = n::N_CS_ENTRIES,
        /// Interests received.
        in_interests: u64 = n::N_IN_INTERESTS,
        /// Data received.
        in_data: u64 = n::N_IN_DATA,
        /// Nacks received.
        in_nacks: u64 = n::N_IN_NACKS,
        /// Interests sent.
        out_interests: u64 = n::N_OUT_INTERESTS,
        /// Data sent.
        out_data: u64 = n::N_OUT_DATA,
        /// Nacks sent.
        out_nacks: u64 = n::N_OUT_NACKS,
        /// Pending Interests that were answered.
        satisfied_interests: u64 = n::N_SATISFIED_INTERESTS,
        /// Pending Interests that were not.
        unsatisfied_interests: u64 = n::N_UNSATISFIED_INTERESTS,
    }
}

record! {
    /// Packets dropped for one reason. Not NFD's.
    DropCount {
        /// The counter's name, such as `no_route` or `malformed_truncated`; see [`counters`](crate::counters).
        reason: String = n::DROP_REASON,
        /// Packets, since the start.
        count: u64 = n::COUNT,
    }
}

record! {
    /// One shard: a thread with tables and sockets of its own, which forwards the names that fall to it. Not NFD's.
    #[derive(Copy, Default)]
    ShardStatus {
        /// Its number; the first is 0, and has control and the stream faces too.
        shard: u64 = n::SHARD,
        /// Packets it forwarded, since the start.
        packets: u64 = n::SHARD_PACKETS,
        /// Packets that came in here and were another shard's, which had to be handed over.
        handed_over: u64 = n::SHARD_HANDED_OVER,
        /// Octets that other shards have handed over and that wait.
        waiting_bytes: u64 = n::SHARD_WAITING_BYTES,
        /// Nanoseconds in which it worked.
        busy_ns: u64 = n::SHARD_BUSY_NS,
        /// Times it woke up.
        turns: u64 = n::SHARD_TURNS,
        /// Pending Interests it holds.
        pit_entries: u64 = n::SHARD_PIT_ENTRIES,
        /// Packets in its content store.
        cs_entries: u64 = n::SHARD_CS_ENTRIES,
        /// Interests its content store answered.
        cs_hits: u64 = n::SHARD_CS_HITS,
        /// Interests it did not.
        cs_misses: u64 = n::SHARD_CS_MISSES,
        /// UDP packets, or runs of them, that the kernel brought here because of their names; 0 where it does not choose.
        chosen_in_kernel: u64 = n::SHARD_CHOSEN_IN_KERNEL,
        /// Frames that it received by AF_XDP itself, on all interfaces that use it.
        xdp_frames: u64 = n::SHARD_XDP_FRAMES,
    }
}

record! {
    /// An interface whose NDN comes and goes by AF_XDP. Not NFD's.
    XdpStatus {
        /// Its name.
        interface: String = n::XDP_INTERFACE,
        /// Where the kernel's program runs: `native`, in the driver, or `generic`, in the system.
        mode: String = n::XDP_MODE,
        /// Whose memory the driver uses: `zero-copy`, the router's; or `copy`.
        memory: String = n::XDP_MEMORY,
        /// Queues that are read.
        queues: u64 = n::XDP_QUEUES,
        /// Frames received this way.
        received: u64 = n::XDP_RECEIVED,
        /// Frames sent this way.
        sent: u64 = n::XDP_SENT,
        /// Frames that came while there was no room.
        lost: u64 = n::XDP_LOST,
        /// Frames that were for somebody else, or damaged.
        others: u64 = n::XDP_OTHERS,
    }
}

impl core::fmt::Display for XdpStatus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let XdpStatus { interface, mode, memory, queues, received, sent, lost, .. } = self;
        let plural = if *queues == 1 { "queue" } else { "queues" };
        write!(
            f,
            "{interface}: {mode}, {memory}, {queues} {plural}, {received} frames in, {sent} out, {lost} lost"
        )
    }
}
