//! Every option: name, type, default, limits, documentation.

use super::section::{item, section};
use super::value::{Mode, Uri, words};
use nw_name::Name;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

fn everywhere(port: u16) -> Vec<SocketAddr> {
    vec![SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))]
}

/// The port of NDN over UDP and TCP.
const PORT: u16 = 6363;

section! {
    /// All faces.
    Faces = "faces" {
        /// Faces there may be at one time.
        max: u32 = 16_384, in 16..=1_000_000;
        /// KiB that may wait for one face whose socket is full; beyond them its packets are dropped.
        queue_kib: u32 = 1024, in 64..=1_048_576;
        /// Mark packets when a send queue stays long, so that senders slow down.
        congestion_marking: bool = true;
        /// A queue is long above so many KiB.
        marking_threshold_kib: u32 = 64, in 1..=1_048_576;
        /// A queue stays long after so many milliseconds.
        marking_interval_ms: u32 = 100, in 1..=60_000;
        /// MiB of packets in pieces, of all faces together.
        reassembly_mib: u32 = 16, in 1..=4096;
        /// A packet in pieces is given up so many milliseconds after its last piece.
        reassembly_timeout_ms: u32 = 500, in 1..=60_000;
        /// KiB of the system's buffers, each way, for each unix or TCP socket.
        stream_buffer_kib: u32 = 1024, in 16..=1_048_576;
    }
}

section! {
    /// The unix socket, for applications of this machine.
    Unix = "faces.unix" {
        /// Listen on it.
        enabled: bool = true;
        /// Its path. When not given: /run/nfd/nfd.sock for root, nfd.sock in the user's runtime folder for others.
        path: Option<PathBuf> = None, as "\"/run/nfd/nfd.sock\"";
        /// Who may open it.
        mode: Mode = Mode(0o666);
    }
}

section! {
    /// TCP listeners. Peers of this machine are local faces.
    Tcp = "faces.tcp" {
        /// Addresses to listen on; an empty list is none.
        listen: Vec<SocketAddr> = everywhere(PORT);
    }
}

section! {
    /// UDP listeners.
    Udp = "faces.udp" {
        /// Addresses to listen on; an empty list is none.
        listen: Vec<SocketAddr> = everywhere(PORT);
        /// A face that a peer's packet made goes away after so many seconds without another.
        idle_timeout_s: u32 = 600, in 1..=86_400;
        /// Octets of the largest link packet; larger ones are sent in pieces. 8800 leaves it to IP.
        mtu: u32 = 8800, in 64..=8800;
        /// KiB of the system's receive buffer: room for bursts.
        receive_buffer_kib: u32 = 8192, in 208..=1_048_576;
        /// KiB of the system's send buffer.
        send_buffer_kib: u32 = 4096, in 208..=1_048_576;
        /// UDP peers of this machine are local faces.
        loopback_is_local: bool = false;
    }
}

section! {
    /// Sizes of tables. All memory they can take is bounded by these; it is taken as it is first used.
    Tables = "tables" {
        /// Pending Interests.
        pit_entries: u32 = 262_144, in 64..=67_108_863;
        /// Pending Interests of one face; 0 is no limit but the table's.
        pit_entries_per_face: u32 = 0;
        /// Prefixes of the FIB.
        fib_prefixes: u32 = 262_144, in 64..=67_108_864;
        /// Next hops of one prefix; of more routes the cheapest are used.
        next_hops_per_prefix: u32 = 64, in 1..=64;
        /// Routes, all prefixes together.
        routes: u32 = 1_048_576, in 64..=134_217_728;
        /// Nonces of answered Interests remembered, so that looping ones are known.
        dead_nonces: u32 = 262_144, in 1024..=67_108_864;
    }
}

words! {
    /// What goes when the content store is full.
    CsPolicy {
        /// What was used longest ago.
        Lru = "lru",
        /// What nobody waits for, then what is not fresh any more, then what came first; as NFD's priority_fifo.
        PriorityFifo = "priority-fifo",
        /// What was asked for once only; then what came first and was not asked for since. Keeps popular Data through bursts of others.
        S3Fifo = "s3-fifo",
    }
}

section! {
    /// The content store. A running router takes over changes; beyond the size it started with at the next start.
    ContentStore = "content_store" {
        /// Packets it holds at most; 0 turns it off.
        packets: u32 = 65_536, in 0..=67_108_864;
        /// MiB it holds at most.
        mib: u32 = 256, in 0..=1_048_576;
        /// What goes when it is full.
        policy: CsPolicy = CsPolicy::Lru;
        /// Store Data that passes.
        admit: bool = true;
        /// Answer from it.
        serve: bool = true;
    }
}

section! {
    /// Forwarding.
    Forwarder = "forwarder" {
        /// Take Data also from faces that were not asked for it, as NFD does. A hole: anybody can answer then.
        accept_data_from_any_face: bool = false;
        /// Names of the regions this router is in: forwarding hints that lead there have arrived.
        regions: Vec<Name> = vec![];
        /// Put PIT tokens on Interests, so that answers are found at once. Peers that don't return them work as well.
        upstream_tokens: bool = true;
    }
}

words! {
    /// From which faces something is accepted.
    Reach {
        /// None.
        Nowhere = "nowhere",
        /// Those of this machine.
        Local = "local",
        /// All.
        Anywhere = "anywhere",
    }
}

section! {
    /// Who may command the router.
    Management = "management" {
        /// From where commands are accepted that a plain digest signs, as most libraries send them.
        digest: Reach = Reach::Local;
        /// From where commands are accepted that a key signs which is not in `trusted_keys`.
        unknown_key: Reach = Reach::Local;
        /// From where commands are accepted that a key of `trusted_keys` signs.
        known_key: Reach = Reach::Anywhere;
        /// Files with certificates of keys whose owners are known.
        trusted_keys: Vec<PathBuf> = vec![];
        /// How many seconds a command's time may differ from now.
        grace_s: u32 = 120, in 1..=86_400;
        /// From where `/localhop/nfd` registers routes, each face for itself; who may is decided as above.
        localhop: Reach = Reach::Local;
    }
}

words! {
    /// How much is logged.
    LogLevel {
        /// What stops the router or a part of it.
        Error = "error",
        /// What somebody should look at.
        Warn = "warn",
        /// What happens seldom: starts, faces, changes of routes from the file.
        Info = "info",
        /// Commands and their answers.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

section! {
    /// Logging, to standard error.
    Log = "log" {
        /// How much.
        level: LogLevel = LogLevel::Info;
    }
}

words! {
    /// When a face goes away.
    Persistency {
        /// When its socket fails; the router makes it again after a while, as it is in the file.
        Persistent = "persistent",
        /// Never; it reconnects.
        Permanent = "permanent",
    }
}

item! {
    /// A face to another router. Kept: when it fails it is made again.
    FaceItem = "face" {
        /// Where to.
        uri: Uri, as "\"udp4://192.0.2.1:6363\"";
        /// From where, when that matters.
        local_uri: Option<Uri> = None, as "\"udp4://192.0.2.2:6363\"";
        /// When it goes away.
        persistency: Persistency = Persistency::Persistent;
        /// Octets of its largest link packet, when it differs from the default.
        mtu: Option<u32> = None, in 64..=8800, as "1420";
    }
}

impl FaceItem {
    /// A face with nothing else said.
    pub const fn to(uri: Uri) -> Self {
        FaceItem { uri, local_uri: None, persistency: Persistency::Persistent, mtu: None }
    }
}

item! {
    /// A route. A face that is in no `[[face]]` is made with defaults.
    RouteItem = "route" {
        /// Interests for names under this.
        prefix: Name, as "\"/example\"";
        /// Where they may go.
        face: Uri, as "\"udp4://192.0.2.1:6363\"";
        /// The cheapest route is used first.
        cost: u64 = 0;
        /// Longer prefixes use it too.
        child_inherit: bool = true;
        /// Routes of shorter prefixes are not used here and below.
        capture: bool = false;
    }
}

item! {
    /// A prefix' strategy. Known: best-route and multicast.
    StrategyItem = "strategy" {
        /// For names under this.
        prefix: Name, as "\"/example/sync\"";
        /// Its name; the version may be left out, parameters follow it.
        strategy: Name, as "\"/localhost/nfd/strategy/multicast\"";
    }
}
