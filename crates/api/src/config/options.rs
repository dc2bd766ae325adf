//! Every option: name, type, default, limits, documentation.

// Texts of the reference: their brackets are TOML.
#![allow(rustdoc::broken_intra_doc_links)]

use super::interface::{InterfacePattern, MacAddress, MacGroup};
use super::section::{item, section};
use super::value::{Mode, Origin, Uri, words};
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
        /// Faces there may be at one time. Peers over IP and Ethernet have at most half of them; a part is kept for programs of this machine, root
        /// and the router's own user. When there are too many, a face of the peer with most gives way.
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
        /// KiB of packets that a reliable face keeps until they are acknowledged; beyond them packets are sent without protection.
        reliability_kib: u32 = 4096, in 16..=1_048_576;
        /// A permanent face that lost its connection tries again after a second, then after twice as long each time, up to so many seconds.
        reconnect_max_s: u32 = 60, in 1..=86_400;
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
        /// New faces are reliable: link packets are acknowledged and, when lost, sent again. The other end must want it too.
        reliability: bool = false;
    }
}

section! {
    /// TCP listeners. Peers of this machine are local faces.
    Tcp = "faces.tcp" {
        /// Addresses to listen on; an empty list is none.
        listen: Vec<SocketAddr> = everywhere(PORT);
        /// New faces are reliable; TCP by itself loses nothing.
        reliability: bool = false;
    }
}

section! {
    /// UDP listeners.
    Udp = "faces.udp" {
        /// Addresses to listen on; an empty list is none.
        listen: Vec<SocketAddr> = everywhere(PORT);
        /// A face that a peer's packet made goes away after so many seconds without another.
        idle_timeout_s: u32 = 600, in 1..=86_400;
        /// Octets of the largest link packet; larger ones are sent in pieces. 8800 leaves it to IP, but for peers of our own.
        mtu: u32 = 8800, in 64..=8800;
        /// KiB of the system's receive buffer: room for bursts.
        receive_buffer_kib: u32 = 8192, in 208..=1_048_576;
        /// KiB of the system's send buffer.
        send_buffer_kib: u32 = 4096, in 208..=1_048_576;
        /// UDP peers of this machine are local faces.
        loopback_is_local: bool = false;
        /// New faces are reliable: link packets are acknowledged and, when lost, sent again. The other end must want it too.
        reliability: bool = false;
        /// KiB of datagrams to one peer that leave in a row; the rest waits for a pause, as peers may have little room; one that says how much it has gets half of that. 0 sets no bound.
        burst_kib: u32 = 128, in 0..=1_048_576;
        /// Microseconds between bursts to one peer.
        burst_pause_us: u32 = 250, in 50..=1_000_000;
    }
}

section! {
    /// WebSocket, for pages in browsers and for programs that speak nothing else. Each message is one packet. For wss:// put a web server
    /// before it.
    WebSocket = "faces.websocket" {
        /// Addresses to listen on; NDN's port is 9696. None unless said, unlike NFD: every page that a browser shows could connect.
        listen: Vec<SocketAddr> = vec![], as "[\"[::]:9696\", \"0.0.0.0:9696\"]";
        /// Origins of pages that count as programs of the machine their browser runs on. Pages of other origins are never local faces.
        local_origins: Vec<Origin> = vec![], as "[\"http://localhost:8080\"]";
        /// Let pages of other origins connect, as somebody of another machine.
        other_origins: bool = true;
        /// Programs of this machine, and pages of `local_origins`, are local faces. Say false when a web server on this machine passes
        /// connections of others on.
        loopback_is_local: bool = true;
        /// Connections of one address in `listen` at one time.
        connections: u32 = 1024, in 1..=1_000_000;
        /// A peer that was silent for so many seconds is asked whether it is there; after as many again without a word its face goes away.
        ping_interval_s: u32 = 10, in 1..=3600;
    }
}

fn groups() -> Vec<SocketAddr> {
    /// Beside the port of single peers.
    const GROUP_PORT: u16 = 56363;
    let v6 = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x1234);
    vec![SocketAddr::from(([224, 0, 23, 170], GROUP_PORT)), SocketAddr::from((v6, GROUP_PORT))]
}

fn every_interface() -> Vec<InterfacePattern> {
    vec![InterfacePattern::Name("*".to_owned())]
}

section! {
    /// UDP to groups of neighbours: a face for each group on each network interface, as interfaces come and go.
    Multicast = "faces.multicast" {
        /// Have such faces. Off unless said, unlike NFD: everybody on the link hears what is asked there, and may ask.
        enabled: bool = false;
        /// The groups; IPv6 ones of one link, ff02::….
        groups: Vec<SocketAddr> = groups();
        /// Who hears one neighbour may not hear another, as by radio without a base station.
        ad_hoc: bool = false;
        /// Interfaces that have them, when they are up and can do multicast.
        whitelist: Vec<InterfacePattern> = every_interface();
        /// Interfaces that have none even so.
        blacklist: Vec<InterfacePattern> = vec![];
    }
}

section! {
    /// Ethernet without IP, EtherType 0x8624. Needs the right to open packet sockets (CAP_NET_RAW).
    Ethernet = "faces.ethernet" {
        /// A face to the group on each network interface, as interfaces come and go.
        multicast: bool = false;
        /// Make a face for each neighbour that sends to this machine's network cards.
        listen: bool = false;
        /// The group.
        group: MacGroup = MacGroup(MacAddress([0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa]));
        /// The VLAN that frames are read from and written to; 0 is frames without one. An interface of the system's own for a VLAN needs 0.
        vlan: u32 = 0, in 0..=4094;
        /// Who hears one neighbour may not hear another, as by radio without a base station.
        ad_hoc: bool = false;
        /// A face that a neighbour's frame made goes away after so many seconds without another.
        idle_timeout_s: u32 = 600, in 1..=86_400;
        /// Interfaces that are used, when they are up.
        whitelist: Vec<InterfacePattern> = every_interface();
        /// Interfaces that are not used even so.
        blacklist: Vec<InterfacePattern> = vec![];
    }
}

section! {
    /// AF_XDP: NDN over UDP and Ethernet comes from the network card's driver to this program, and goes back, past the system's own network code, for a
    /// part of the processor time. Faces are the same as without; what can't go this way goes by their sockets. Needs CAP_BPF, CAP_NET_ADMIN,
    /// CAP_NET_RAW and CAP_IPC_LOCK, and Linux 5.18.
    Xdp = "faces.xdp" {
        /// Interfaces that use it; `nw status` says how each does. What is for others, and all but NDN, is left to the system. Firewall rules and
        /// captures see nothing of what goes this way.
        interfaces: Vec<InterfacePattern> = vec![], as "[\"eth0\"]";
    }
}

section! {
    /// Sizes of tables. All memory they can take is bounded by these; it is taken as it is first used.
    Tables = "tables" {
        /// Pending Interests.
        pit_entries: u32 = 262_144, in 64..=67_108_863;
        /// Pending Interests of one face; 0 is half of the table. When the table is full, a pending Interest of the peer with the most gives way to one of a
        /// peer with less.
        pit_entries_per_face: u32 = 0;
        /// Seconds that a pending Interest is kept at most, whatever its lifetime. Interests of other machines are kept for at most 4 s while the table is more
        /// than half full, and for 1 s from seven eighths on.
        lifetime_max_s: u32 = 3600, in 1..=3600;
        /// Prefixes of the FIB.
        fib_prefixes: u32 = 262_144, in 64..=67_108_864;
        /// Next hops of one prefix; of more routes the cheapest are used.
        next_hops_per_prefix: u32 = 64, in 1..=64;
        /// Routes, all prefixes together.
        routes: u32 = 1_048_576, in 64..=134_217_728;
        /// Nonces of answered Interests remembered, so that looping ones are known.
        dead_nonces: u32 = 262_144, in 1024..=67_108_864;
        /// Prefixes of which strategies remember how their next hops answer.
        measurements: u32 = 65_536, in 64..=16_777_216;
        /// Takes all this memory at start, and keeps it from being paged out: no packet ever waits for the kernel to clear a page. Wants the right to
        /// lock memory (CAP_IPC_LOCK, or LimitMEMLOCK=infinity in the unit), and as much memory as tables, content store and buffers may take.
        lock: bool = false;
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
        /// Threads that forward, each with its part of the tables and UDP sockets of its own; 0 finds out from the machine.
        shards: u32 = 0, in 0..=64;
        /// Let the kernel bring UDP packets to the thread whose names they have, where it may: CAP_BPF, Linux 5.18.
        kernel: bool = true;
        /// The processors of these threads, the first one's first. When empty, a rule chooses (`nw status --hardware`).
        cpus: Vec<u32> = vec![], as "[2, 3]";
        /// Bind each of several threads to its processor. Routers that share a machine with other busy programs may do better without.
        pin: bool = true;
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

words! {
    /// What commands that arrive over TCP may do.
    TcpCommands {
        /// Everything that other local faces may do.
        All = "all",
        /// Register, announce and unregister prefixes for the connection's own face.
        Register = "register",
        /// Nothing.
        None = "none",
    }
}

section! {
    /// Who may command the router, by kinds of signers; [[allow]] has finer rules. By default whoever reaches a local face may do
    /// everything (`faces.unix.mode` says who reaches the unix socket), and nobody on another machine anything.
    Management = "management" {
        /// From where commands are accepted that a plain digest signs, as most libraries send them.
        digest: Reach = Reach::Local;
        /// From where commands are accepted that a key signs which is not in `trusted_keys`. It is not verified.
        unknown_key: Reach = Reach::Local;
        /// From where commands are accepted that a key of `trusted_keys` signs.
        known_key: Reach = Reach::Anywhere;
        /// Files with certificates of keys whose owners are known; they may do everything.
        trusted_keys: Vec<PathBuf> = vec![];
        /// How many seconds a command's time may differ from now.
        grace_s: u32 = 120, in 1..=86_400;
        /// From where `/localhop/nfd` registers routes, each face for itself; who may is decided as above and by [[allow]].
        localhop: Reach = Reach::Local;
        /// What commands may do that arrive over a TCP or WebSocket connection from this machine: `all` that the options above allow, `register`
        /// only prefixes for the connection's own face, or `none`. Status can be read in any case. Programs that use the Unix socket are not
        /// affected.
        tcp: TcpCommands = TcpCommands::All;
    }
}

section! {
    /// Telling other routers which prefixes are here. Takes effect at once when the file is read again.
    Rib = "rib" {
        /// Tell the routing daemon of this machine prefixes that clients register for themselves (origin `client`): signed commands
        /// `/localhost/nlsr/rib/register` and `unregister`, as soon as `/localhost/nlsr` has a route.
        readvertise_nlsr: bool = false;
        /// Tell these faces every prefix that an application registers: signed commands `/localhop/nfd/rib/register` and `unregister`.
        readvertise_to: Vec<Uri> = vec![];
        /// Tell gateways these prefixes while a route is below one of them. A gateway is a face that has a route for `/localhop/nfd`; an empty
        /// list tells nothing.
        propagate: Vec<Name> = vec![];
        /// Cost of routes that others are told.
        propagate_cost: u32 = 15;
        /// A command to others is given up when it is not answered for so many milliseconds.
        command_timeout_ms: u32 = 10_000, in 100..=600_000;
        /// What others were told is told again after so many seconds. It ends there after three times as many.
        refresh_s: u32 = 300, in 1..=86_400;
        /// A command that failed is sent again after so many seconds, then after twice as many each time.
        retry_min_s: u32 = 50, in 1..=86_400;
        /// A command that failed is sent again after at most so many seconds.
        retry_max_s: u32 = 3600, in 1..=86_400;
        /// File with the private key (PKCS#8, PEM) that signs commands to others. Without one they carry a plain digest, which others refuse.
        key: Option<PathBuf> = None, as "\"/etc/namewire/router.key\"";
        /// File with the certificate of that key: names the key to others.
        certificate: Option<PathBuf> = None, as "\"/etc/namewire/router.cert\"";
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

words! {
    /// How a line of the log looks.
    LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

section! {
    /// Logging, to standard error.
    Log = "log" {
        /// How much. `nw log set` changes it in a running router, until the file is read again.
        level: LogLevel = LogLevel::Info;
        /// How a line looks.
        format: LogFormat = LogFormat::Text;
    }
}

section! {
    /// REST, metrics and what `nw top`, `nw trace` and `nw tap` look through. Whoever reaches it commands the router.
    Control = "control" {
        /// Listen on the unix socket.
        enabled: bool = true;
        /// Its path. When not given: that of faces.unix, ending in .control.sock instead of .sock.
        path: Option<PathBuf> = None, as "\"/run/nfd/nfd.control.sock\"";
        /// Who may open it.
        mode: Mode = Mode(0o600);
        /// TCP addresses for monitoring: `/metrics` for Prometheus, `/healthz`, `/readyz`, nothing else, and no token.
        metrics_listen: Vec<SocketAddr> = vec![], as "[\"127.0.0.1:6380\"]";
        /// TCP addresses for commands. Requests need the token of `token_file`; without one only what `metrics_listen` has is served.
        listen: Vec<SocketAddr> = vec![], as "[\"127.0.0.1:6381\"]";
        /// Allow addresses in `listen` and `metrics_listen` that other machines reach; `listen` then needs `token_file`.
        allow_remote: bool = false;
        /// A file with a secret that requests to `listen` carry as `Authorization: Bearer …`.
        token_file: Option<PathBuf> = None, as "\"/etc/namewire/token\"";
        /// Connections at one time; more wait to be accepted.
        connections: u32 = 32, in 2..=1024;
        /// Metrics of each face, beside those of all together. Turn it off where faces come and go by the thousand.
        face_metrics: bool = true;
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
        /// From where, when that matters; for Ethernet and groups the interface, as in "dev://eth0".
        local_uri: Option<Uri> = None, as "\"udp4://192.0.2.2:6363\"";
        /// When it goes away.
        persistency: Persistency = Persistency::Persistent;
        /// Octets of its largest link packet, when it differs from the default.
        mtu: Option<u32> = None, in 64..=8800, as "1420";
        /// Link packets are acknowledged and, when lost, sent again, when it differs from the default of its transport.
        reliability: Option<bool> = None, as "true";
    }
}

impl FaceItem {
    /// A face with nothing else said.
    pub const fn to(uri: Uri) -> Self {
        FaceItem { uri, local_uri: None, persistency: Persistency::Persistent, mtu: None, reliability: None }
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
