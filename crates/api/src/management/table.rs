//! Records of tables: FIB, RIB, strategy choices, content store, and the router as a whole.

use super::number as n;
use super::parameters::Strategy;
use super::record::record;
use nw_name::Name;

record! {
    /// A next hop of a FIB entry.
    NextHopRecord {
        /// Face id.
        face_id: u64 = n::FACE_ID,
        /// Cost of the next hop.
        cost: u64 = n::COST,
    }
}

record! {
    /// A FIB entry.
    FibEntry {
        /// Name prefix.
        #[serde(with = "super::uri")]
        #[schema(value_type = crate::schema::NameText)]
        name: Name = n::NAME,
        /// Next hops.
        next_hops: Vec<NextHopRecord> = n::PART,
    }
}

record! {
    /// A route of a prefix.
    Route {
        /// Face id of the next hop.
        face_id: u64 = n::FACE_ID,
        /// Origin, see [`origin`](super::origin); a word in JSON.
        #[serde(with = "super::labels::route_origin")]
        #[schema(value_type = crate::schema::OriginText)]
        origin: u64 = n::ORIGIN,
        /// Cost; lower is better.
        cost: u64 = n::COST,
        /// Flag bits, see [`ROUTE_FLAGS`](super::labels::ROUTE_FLAGS); words in JSON.
        #[serde(with = "super::labels::route_flags")]
        #[schema(value_type = Vec<crate::schema::RouteFlagText>)]
        flags: u64 = n::FLAGS,
        /// Remaining lifetime, milliseconds; absent if it lives as long as its face.
        #[serde(rename = "expiration_period_ms", skip_serializing_if = "Option::is_none")]
        expiration_period: Option<u64> = n::EXPIRATION_PERIOD,
    }
}

record! {
    /// A RIB entry: the routes of a prefix.
    RibEntry {
        /// Name prefix.
        #[serde(with = "super::uri")]
        #[schema(value_type = crate::schema::NameText)]
        name: Name = n::NAME,
        /// Routes of the prefix.
        routes: Vec<Route> = n::PART,
    }
}

record! {
    /// The strategy choice of a prefix.
    StrategyChoice {
        /// Name prefix.
        #[serde(with = "super::uri")]
        #[schema(value_type = crate::schema::NameText)]
        name: Name = n::NAME,
        /// Name of the strategy, with version and parameters.
        strategy: Strategy = n::STRATEGY,
    }
}

record! {
    /// State and counters of the content store.
    #[derive(Default)]
    CsInfo {
        /// Capacity, packets.
        capacity: u64 = n::CAPACITY,
        /// Flag bits, see [`CS_FLAGS`](super::labels::CS_FLAGS); words in JSON.
        #[serde(with = "super::labels::cs_flags")]
        #[schema(value_type = Vec<crate::schema::CsFlagText>)]
        flags: u64 = n::FLAGS,
        /// Number of cached packets.
        entries: u64 = n::N_CS_ENTRIES,
        /// Interests answered from the cache.
        hits: u64 = n::N_HITS,
        /// Interests not answered from the cache.
        misses: u64 = n::N_MISSES,
    }
}

record! {
    /// State and counters of the router. Not enclosed in an element.
    #[derive(Default)]
    ForwarderStatus {
        /// Software and version.
        version: String = n::NFD_VERSION,
        /// Start time, milliseconds since 1970.
        #[serde(rename = "start_timestamp_ms")]
        start_timestamp: u64 = n::START_TIMESTAMP,
        /// Current time, milliseconds since 1970.
        #[serde(rename = "current_timestamp_ms")]
        current_timestamp: u64 = n::CURRENT_TIMESTAMP,
        /// Entries of the name tree; always 0, as this router has none.
        name_tree_entries: u64 = n::N_NAME_TREE_ENTRIES,
        /// Prefixes in the FIB.
        fib_entries: u64 = n::N_FIB_ENTRIES,
        /// Pending Interests.
        pit_entries: u64 = n::N_PIT_ENTRIES,
        /// Measurements of strategies.
        measurements_entries: u64 = n::N_MEASUREMENTS_ENTRIES,
        /// Packets in the content store.
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
        /// Pending Interests that expired unanswered.
        unsatisfied_interests: u64 = n::N_UNSATISFIED_INTERESTS,
    }
}

record! {
    /// Dropped packets of one reason. An extension of Namewire.
    DropCount {
        /// Name of the reason, such as `no_route` or `malformed_truncated`; see
        /// [`counters`](crate::counters).
        reason: String = n::DROP_REASON,
        /// Packets since start.
        count: u64 = n::COUNT,
    }
}

record! {
    /// Counters of a shard: a forwarding thread with its own tables and sockets, to which names are
    /// assigned by hash. An extension of Namewire.
    #[derive(Copy, Default)]
    ShardStatus {
        /// Number of the shard, from 0. Shard 0 also runs management and stream faces.
        shard: u64 = n::SHARD,
        /// Packets forwarded since start.
        packets: u64 = n::SHARD_PACKETS,
        /// Packets received for other shards and handed over to them.
        handed_over: u64 = n::SHARD_HANDED_OVER,
        /// Bytes of packets from other shards that wait to be processed.
        waiting_bytes: u64 = n::SHARD_WAITING_BYTES,
        /// Busy time, nanoseconds.
        busy_ns: u64 = n::SHARD_BUSY_NS,
        /// Iterations of the event loop.
        turns: u64 = n::SHARD_TURNS,
        /// Pending Interests in its PIT.
        pit_entries: u64 = n::SHARD_PIT_ENTRIES,
        /// Packets in its content store.
        cs_entries: u64 = n::SHARD_CS_ENTRIES,
        /// Interests answered from its content store.
        cs_hits: u64 = n::SHARD_CS_HITS,
        /// Interests not answered from its content store.
        cs_misses: u64 = n::SHARD_CS_MISSES,
        /// UDP packets, or GRO batches, that the kernel steered to this shard by name; 0 without
        /// kernel steering.
        chosen_in_kernel: u64 = n::SHARD_CHOSEN_IN_KERNEL,
        /// Frames received with AF_XDP, on all interfaces.
        xdp_frames: u64 = n::SHARD_XDP_FRAMES,
    }
}

record! {
    /// State and counters of an interface that uses AF_XDP. An extension of Namewire.
    XdpStatus {
        /// Name of the interface.
        interface: String = n::XDP_INTERFACE,
        /// Mode of the XDP program: `native` (in the driver) or `generic` (in the kernel's network
        /// code).
        mode: String = n::XDP_MODE,
        /// `zero-copy` if the driver uses the router's memory, else `copy`.
        memory: String = n::XDP_MEMORY,
        /// Number of receive queues.
        queues: u64 = n::XDP_QUEUES,
        /// Frames received with AF_XDP.
        received: u64 = n::XDP_RECEIVED,
        /// Frames sent with AF_XDP.
        sent: u64 = n::XDP_SENT,
        /// Frames lost because a ring or buffer was full.
        lost: u64 = n::XDP_LOST,
        /// Frames for other programs, or malformed frames.
        others: u64 = n::XDP_OTHERS,
    }
}

impl core::fmt::Display for XdpStatus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let XdpStatus { interface, mode, memory, queues, received, sent, lost, .. } = self;
        let plural = if *queues == 1 { "queue" } else { "queues" };
        write!(
            f,
            "{interface}: {mode}, {memory}, {queues} {plural}, {received} frames in, {sent} out, \
             {lost} lost"
        )
    }
}
