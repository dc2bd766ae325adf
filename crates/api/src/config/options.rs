//! Declarations of all options of the router's configuration.

// These texts are printed in the reference; their brackets are TOML.
#![allow(rustdoc::broken_intra_doc_links)]

use super::interface::{InterfacePattern, MacAddress, MacGroup};
use super::section::{item, section};
use super::value::{LogFilter, Mode, Origin, StrategyName, Uri, string_enum};
use nw_name::Name;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// Returns the unspecified addresses of both families.
fn any_address(port: u16) -> Vec<SocketAddr> {
    vec![
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
    ]
}

/// The port of NDN over UDP and TCP.
const PORT: u16 = 6363;

section! {
    /// All faces.
    Faces = "faces" {
        /// Maximum number of faces. Peers over IP and Ethernet may use half of them; some are
        /// reserved for programs of this machine, root and the router's own user. At the limit a
        /// face of the peer with most faces is closed.
        max: u32 = 16_384, in 16..=1_000_000;
        /// Maximum size of a face's send queue, KiB. Packets beyond it are dropped.
        queue_kib: u32 = 1024, in 64..=1_048_576;
        /// Maximum memory of all send queues together, MiB. One face may use a quarter of what is
        /// free, and an eighth is reserved for local faces. The kernel's buffers of accepted
        /// connections may take as much again.
        queues_mib: u32 = 256, in 1..=1_048_576;
        /// Mark packets when a send queue stays long, so that consumers slow down.
        congestion_marking: bool = true;
        /// Queue length above which a queue counts as long, KiB. On a slow link, so does one that
        /// it takes more than 10 ms for.
        marking_threshold_kib: u32 = 64, in 1..=1_048_576;
        /// Milliseconds for which a queue must be long before packets are marked. A quarter of it
        /// suffices above a quarter of queue_kib; above half of queue_kib packets are marked at
        /// once.
        marking_interval_ms: u32 = 100, in 1..=60_000;
        /// Send no more Interests to a peer that marks congestion than its link can return Data
        /// for, in turn for each downstream face and each flow. Costs nothing until a link is
        /// short.
        interest_shaping: bool = true;
        /// Maximum memory for incomplete fragmented packets, all faces together, MiB. One face may
        /// use 4 MiB, and at most as much as is free beyond it.
        reassembly_mib: u32 = 32, in 1..=4096;
        /// Milliseconds after its last fragment until an incomplete packet is dropped.
        reassembly_timeout_ms: u32 = 500, in 1..=60_000;
        /// Size of the kernel's buffers of each unix or TCP socket, each direction, KiB. With many
        /// accepted connections it is reduced down to 16.
        stream_buffer_kib: u32 = 1024, in 16..=1_048_576;
        /// Maximum size of unacknowledged packets per reliable face, KiB. Packets beyond it are
        /// sent without reliability.
        reliability_kib: u32 = 4096, in 16..=1_048_576;
        /// Maximum delay between reconnection attempts of a permanent face, seconds. The delay
        /// starts at one second and doubles each time.
        reconnect_max_s: u32 = 60, in 1..=86_400;
    }
}

section! {
    /// The unix socket for applications on this machine.
    Unix = "faces.unix" {
        /// Listen on the unix socket.
        enabled: bool = true;
        /// Path of the socket. Default: /run/nfd/nfd.sock for root, nfd.sock in the runtime folder
        /// of other users.
        path: Option<PathBuf> = None, as "\"/run/nfd/nfd.sock\"";
        /// Permission bits of the socket: which users may connect.
        mode: Mode = Mode(0o666);
        /// Enable NDNLPv2 reliability on new faces: link packets are acknowledged, and
        /// retransmitted if lost. The peer must enable it, too.
        reliability: bool = false;
    }
}

section! {
    /// TCP listeners. Peers on this machine get local faces.
    Tcp = "faces.tcp" {
        /// Addresses to listen on; none if empty.
        listen: Vec<SocketAddr> = any_address(PORT);
        /// Enable NDNLPv2 reliability on new faces. TCP itself loses nothing.
        reliability: bool = false;
    }
}

section! {
    /// UDP listeners.
    Udp = "faces.udp" {
        /// Addresses to listen on; none if empty.
        listen: Vec<SocketAddr> = any_address(PORT);
        /// Seconds without packets until an on-demand face is closed.
        idle_timeout_s: u32 = 600, in 1..=86_400;
        /// MTU of new faces: largest link packet, bytes. Larger packets are fragmented by NDNLPv2.
        /// With 8800 fragmentation is left to IP, except for peers that run Namewire.
        mtu: u32 = 8800, in 64..=8800;
        /// Size of the kernel's receive buffer, KiB. A larger buffer absorbs larger bursts.
        receive_buffer_kib: u32 = 8192, in 208..=1_048_576;
        /// Size of the kernel's send buffer, KiB.
        send_buffer_kib: u32 = 4096, in 208..=1_048_576;
        /// Treat UDP peers on this machine as local faces.
        loopback_is_local: bool = false;
        /// Enable NDNLPv2 reliability on new faces: link packets are acknowledged, and
        /// retransmitted if lost. The peer must enable it, too.
        reliability: bool = false;
        /// Maximum burst to one peer, KiB; further datagrams wait for burst_pause_us, as peers may
        /// have small buffers. For a peer that advertises its buffer the burst is half of that. 0
        /// disables the limit.
        burst_kib: u32 = 128, in 0..=1_048_576;
        /// Pause between bursts to one peer, microseconds.
        burst_pause_us: u32 = 250, in 50..=1_000_000;
    }
}

section! {
    /// WebSocket listeners, for web pages and for programs without other transports. Each message
    /// is one packet. For wss:// use a web server as a proxy.
    WebSocket = "faces.websocket" {
        /// Addresses to listen on; the port of NDN is 9696. Disabled by default, unlike in NFD, as
        /// any web page could connect.
        listen: Vec<SocketAddr> = vec![], as "[\"[::]:9696\", \"0.0.0.0:9696\"]";
        /// Origins of web pages that count as programs of the machine on which their browser runs.
        /// Pages of other origins are never local faces.
        local_origins: Vec<Origin> = vec![], as "[\"http://localhost:8080\"]";
        /// Let web pages of other origins connect, as remote faces.
        other_origins: bool = true;
        /// Treat programs on this machine, and web pages of `local_origins`, as local faces. Use
        /// false if a web server on this machine forwards remote connections.
        loopback_is_local: bool = true;
        /// Maximum number of connections per address in `listen`.
        connections: u32 = 1024, in 1..=1_000_000;
        /// Seconds without traffic before a WebSocket ping is sent. The face is closed if no reply
        /// arrives within the same time again.
        ping_interval_s: u32 = 10, in 1..=3600;
    }
}

fn groups() -> Vec<SocketAddr> {
    /// NFD's port for multicast; unicast uses [`PORT`].
    const GROUP_PORT: u16 = 56363;
    let v6 = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x1234);
    vec![SocketAddr::from(([224, 0, 23, 170], GROUP_PORT)), SocketAddr::from((v6, GROUP_PORT))]
}

fn every_interface() -> Vec<InterfacePattern> {
    vec![InterfacePattern::Name("*".to_owned())]
}

section! {
    /// UDP multicast to neighbours: a face for each group on each network interface, created and
    /// closed with the interfaces.
    Multicast = "faces.multicast" {
        /// Create multicast faces. Disabled by default, unlike in NFD: all hosts on the link
        /// receive Interests sent there, and may send Interests.
        enabled: bool = false;
        /// Multicast groups; IPv6 groups must be link-local, ff02::….
        groups: Vec<SocketAddr> = groups();
        /// Set the link type to ad-hoc: neighbours may not receive each other, as in radio networks
        /// without a base station.
        ad_hoc: bool = false;
        /// Interfaces that get multicast faces while they are up and support multicast.
        allow: Vec<InterfacePattern> = every_interface(), was "whitelist";
        /// Interfaces that get no multicast faces, even if `allow` matches.
        deny: Vec<InterfacePattern> = vec![], was "blacklist";
    }
}

section! {
    /// Ethernet without IP, EtherType 0x8624. Needs CAP_NET_RAW.
    Ethernet = "faces.ethernet" {
        /// Create a face to the multicast group on each network interface, as interfaces come and
        /// go.
        multicast: bool = false;
        /// Create an on-demand face for each neighbour that sends frames to this machine.
        listen: bool = false;
        /// Ethernet multicast group.
        group: MacGroup = MacGroup(MacAddress([0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa]));
        /// VLAN of received and sent frames; 0 stands for untagged frames. Use 0 on VLAN interfaces
        /// of the system.
        vlan: u32 = 0, in 0..=4094;
        /// Set the link type to ad-hoc: neighbours may not receive each other, as in radio networks
        /// without a base station.
        ad_hoc: bool = false;
        /// Seconds without frames until an on-demand face is closed.
        idle_timeout_s: u32 = 600, in 1..=86_400;
        /// Interfaces that are used while they are up.
        allow: Vec<InterfacePattern> = every_interface(), was "whitelist";
        /// Interfaces that are not used, even if `allow` matches.
        deny: Vec<InterfacePattern> = vec![], was "blacklist";
    }
}

section! {
    /// AF_XDP: NDN packets over UDP and Ethernet bypass the kernel's network code, which takes less
    /// CPU time. Faces are the same as without AF_XDP; packets that it can't handle use sockets.
    /// Needs CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_IPC_LOCK, and Linux 5.18.
    Xdp = "faces.xdp" {
        /// Interfaces that use AF_XDP; `nw status` shows how. Packets for other programs are left
        /// to the kernel. Firewall rules and captures do not see packets that use AF_XDP.
        interfaces: Vec<InterfacePattern> = vec![], as "[\"eth0\"]";
    }
}

section! {
    /// Sizes of tables. They bound the memory of all tables; memory is allocated when first used.
    Tables = "tables" {
        /// Maximum number of pending Interests.
        pit_entries: u32 = 262_144, in 64..=67_108_863;
        /// Maximum number of pending Interests per face; 0 stands for half of the table. In a full
        /// table a pending Interest of the peer with most of them is evicted for one of another
        /// peer.
        pit_entries_per_face: u32 = 0;
        /// Maximum lifetime of a pending Interest, seconds. For Interests of remote faces the
        /// maximum is 4 s while the table is more than half full, and 1 s above seven eighths.
        lifetime_max_s: u32 = 3600, in 1..=3600;
        /// Maximum number of prefixes in the FIB.
        fib_prefixes: u32 = 262_144, in 64..=67_108_864;
        /// Maximum number of next hops per prefix; those with the lowest cost are used.
        next_hops_per_prefix: u32 = 64, in 1..=64;
        /// Maximum number of routes of all prefixes together.
        routes: u32 = 1_048_576, in 64..=134_217_728;
        /// Number of nonces of answered Interests that are remembered to detect loops.
        dead_nonces: u32 = 262_144, in 1024..=67_108_864;
        /// Maximum number of prefixes for which strategies keep measurements of next hops.
        measurements: u32 = 65_536, in 64..=16_777_216;
        /// Allocate and lock all memory at start, so that no packet waits for the kernel to clear a
        /// page. Needs CAP_IPC_LOCK, or LimitMEMLOCK=infinity in the systemd unit, and enough
        /// memory for tables, content store and buffers at their maximum size.
        lock: bool = false;
    }
}

string_enum! {
    /// The replacement policy of the content store.
    CsPolicy {
        /// Evicts the least recently used packet.
        Lru = "lru",
        /// Evicts unsolicited Data, then stale Data, then the oldest, as NFD's priority_fifo.
        PriorityFifo = "priority-fifo",
        /// Evicts Data requested only once, then the oldest not requested since. Popular Data
        /// survives bursts of one-time Data.
        S3Fifo = "s3-fifo",
    }
}

section! {
    /// The content store. Changes take effect immediately; sizes above the initial one need a
    /// restart.
    ContentStore = "content_store" {
        /// Maximum number of packets; 0 disables the content store.
        packets: u32 = 65_536, in 0..=67_108_864;
        /// Maximum size, MiB.
        mib: u32 = 256, in 0..=1_048_576;
        /// Replacement policy of a full content store.
        policy: CsPolicy = CsPolicy::Lru;
        /// Cache Data that is forwarded.
        admit: bool = true;
        /// Answer Interests from the cache.
        serve: bool = true;
    }
}

section! {
    /// Forwarding.
    Forwarder = "forwarder" {
        /// Accept Data also from faces to which no Interest was sent, as NFD does. This is
        /// insecure: any host can answer.
        accept_data_from_any_face: bool = false;
        /// Names of this router's network regions: forwarding hints with these prefixes have
        /// reached their region.
        regions: Vec<Name> = vec![];
        /// Send PIT tokens with Interests, so that replies are matched faster. Peers that do not
        /// return them work as well.
        upstream_tokens: bool = true;
        /// Number of forwarding threads, each with a part of the tables and UDP sockets of its own;
        /// 0 selects it by the number of cores.
        shards: u32 = 0, in 0..=64;
        /// Steer UDP packets to the thread of their name in the kernel, if permitted: needs CAP_BPF
        /// and Linux 5.18.
        kernel: bool = true;
        /// Processors of the forwarding threads, in order. If empty they are selected by a rule
        /// (see `nw status --hardware`).
        cpus: Vec<u32> = vec![], as "[2, 3]";
        /// Pin each of several threads to its processor. Disable it on machines that are shared
        /// with other busy programs.
        pin: bool = true;
    }
}

string_enum! {
    /// The faces from which commands are accepted.
    AllowFrom {
        /// No faces.
        Nowhere = "nowhere",
        /// Local faces only.
        Local = "local",
        /// All faces.
        Anywhere = "anywhere",
    }
}

string_enum! {
    /// The commands that are allowed over TCP and WebSocket.
    TcpCommands {
        /// All commands that other local faces may send.
        All = "all",
        /// Only registering, announcing and unregistering prefixes for the connection's own face.
        Register = "register",
        /// No commands.
        None = "none",
    }
}

section! {
    /// Access rules by kind of signer; [[allow]] has finer rules. By default every program with a
    /// local face may send all commands (`faces.unix.mode` restricts the unix socket), and remote
    /// faces may send none.
    Management = "management" {
        /// Faces from which commands with a plain digest are accepted, as most libraries send them.
        digest: AllowFrom = AllowFrom::Local;
        /// Faces from which commands signed by a key that is not in `trusted_keys` are accepted.
        /// The signature is not verified.
        unknown_key: AllowFrom = AllowFrom::Local;
        /// Faces from which commands signed by a key in `trusted_keys` are accepted.
        known_key: AllowFrom = AllowFrom::Anywhere;
        /// Files with certificates of trusted keys, whose signers may send all commands.
        trusted_keys: Vec<PathBuf> = vec![];
        /// Maximum difference between a command's timestamp and the clock, seconds.
        grace_s: u32 = 120, in 1..=86_400;
        /// Faces from which routes may be registered at `/localhop/nfd`, each face for itself,
        /// subject to the options above and to [[allow]].
        localhop: AllowFrom = AllowFrom::Local;
        /// Commands allowed on TCP or WebSocket connections from this machine: `all` that the
        /// options above allow, `register` prefixes for the connection's own face, or `none`.
        /// Status can always be read. The unix socket is not affected.
        tcp: TcpCommands = TcpCommands::All;
    }
}

section! {
    /// Readvertising: announcing local prefixes to other routers. Changes take effect immediately
    /// on reload.
    Rib = "rib" {
        /// Announce prefixes that clients register for themselves (origin `client`) to the routing
        /// daemon on this machine, with signed commands `/localhost/nlsr/rib/register` and
        /// `unregister`, while `/localhost/nlsr` has a route.
        readvertise_nlsr: bool = false;
        /// Faces to which each prefix registered by an application is announced, with signed
        /// commands `/localhop/nfd/rib/register` and `unregister`.
        readvertise_to: Vec<Uri> = vec![];
        /// Prefixes that are announced to gateways while a route below them exists. A gateway is a
        /// face with a route for `/localhop/nfd`. None if empty.
        propagate: Vec<Name> = vec![];
        /// Cost of the announced routes.
        propagate_cost: u32 = 15;
        /// Milliseconds without an answer until a command to another router has failed.
        command_timeout_ms: u32 = 10_000, in 100..=600_000;
        /// Interval at which announcements are repeated, seconds. Other routers remove them after
        /// three times as long.
        refresh_s: u32 = 300, in 1..=86_400;
        /// Delay before a failed command is repeated, seconds. It doubles each time.
        retry_min_s: u32 = 50, in 1..=86_400;
        /// Maximum delay before a failed command is repeated, seconds.
        retry_max_s: u32 = 3600, in 1..=86_400;
        /// File with the private key (PKCS#8, PEM) that signs commands to other routers. Without it
        /// they carry a plain digest, which other routers refuse.
        key: Option<PathBuf> = None, as "\"/etc/namewire/router.key\"";
        /// File with the certificate of that key, which names the key to other routers.
        certificate: Option<PathBuf> = None, as "\"/etc/namewire/router.cert\"";
    }
}

string_enum! {
    /// The format of log lines.
    LogFormat {
        /// Text for people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

section! {
    /// Logging to standard error.
    Log = "log" {
        /// Log level, optionally with levels for parts of the program: api, app, faces, rest,
        /// router, tables, trust and so on. `nw log set` changes it at run time, until the next
        /// reload.
        level: LogFilter = LogFilter::default();
        /// Format of log lines.
        format: LogFormat = LogFormat::Text;
    }
}

section! {
    /// The process and its capabilities.
    Process = "process" {
        /// Drop all capabilities that no feature in this file needs, before any socket is opened,
        /// as `nw run --drop-privileges` and the systemd unit do. Features enabled later that need
        /// a dropped capability require a restart.
        drop_privileges: bool = false;
        /// When started as root: run as this user, given as a name in /etc/passwd or as uid:gid,
        /// and drop capabilities as with drop_privileges. The user must be able to read this file
        /// and the files it names.
        user: Option<String> = None, as "\"namewire\"";
    }
}

section! {
    /// The control socket: REST, metrics, and the source of `nw top`, `nw trace` and `nw tap`.
    /// Every program that can connect may control the router.
    Control = "control" {
        /// Listen on the control socket.
        enabled: bool = true;
        /// Path of the control socket. Default: the path of faces.unix, ending in .control.sock
        /// instead of .sock.
        path: Option<PathBuf> = None, as "\"/run/nfd/nfd.control.sock\"";
        /// Permission bits of the socket: which users may connect.
        mode: Mode = Mode(0o600);
        /// TCP addresses for monitoring: only `/metrics` for Prometheus, `/healthz` and `/readyz`,
        /// without a token.
        metrics_listen: Vec<SocketAddr> = vec![], as "[\"127.0.0.1:6380\"]";
        /// TCP addresses for REST. Requests need the token of `token_file`; without one only the
        /// paths of `metrics_listen` are served.
        listen: Vec<SocketAddr> = vec![], as "[\"127.0.0.1:6381\"]";
        /// Allow addresses in `listen` and `metrics_listen` that other machines can reach; `listen`
        /// then needs `token_file`.
        allow_remote: bool = false;
        /// File with the secret that requests to `listen` send as `Authorization: Bearer …`.
        token_file: Option<PathBuf> = None, as "\"/etc/namewire/token\"";
        /// Maximum number of connections; further ones wait to be accepted.
        connections: u32 = 32, in 2..=1024;
        /// Export metrics of each face in addition to totals. Disable it if faces come and go by
        /// the thousand.
        face_metrics: bool = true;
    }
}

section! {
    /// The web page: it shows and changes this router in a browser; `nw open` opens it.
    Page = "page" {
        /// TCP addresses of the page. Empty: no page.
        listen: Vec<SocketAddr> = vec![], as "[\"127.0.0.1:6390\"]";
        /// File with the secret that opens the page where `nw open` cannot run. It has at least 16
        /// characters.
        token_file: Option<PathBuf> = None, as "\"/etc/namewire/page-token\"";
        /// Certificate of the page, PEM, with those that lead to its authority; the page is then
        /// served over TLS, and needs no proxy. It is read at the start.
        certificate: Option<PathBuf> = None, as "\"/etc/namewire/page.pem\"";
        /// Private key of the certificate, PEM.
        key: Option<PathBuf> = None, as "\"/etc/namewire/page-key.pem\"";
        /// URL under which browsers reach the page: with a proxy that adds TLS, or with a host name
        /// in place of an address. With https, cookies are sent over TLS only.
        public_url: Option<String> = None, as "\"https://router.example\"";
        /// Allow addresses in `listen` that other machines can reach; this needs `token_file` and TLS:
        /// a `certificate`, or a proxy and a `public_url` with https.
        allow_remote: bool = false;
        /// Maximum number of connections; further ones wait to be accepted.
        connections: u32 = 64, in 8..=1024;
    }
}

string_enum! {
    /// When a configured face is closed.
    Persistency {
        /// When its socket fails. The router creates it again later, as it is configured.
        Persistent = "persistent",
        /// Never. It reconnects.
        Permanent = "permanent",
    }
}

string_enum! {
    /// The sockets of a domain's Ethernet links.
    EthernetSockets {
        /// Packet sockets: frames pass the network stack of the kernel.
        Packet = "packet",
        /// AF_XDP sockets where the machine can, else packet sockets; the log and
        /// `nw pubsub status` show which.
        Xdp = "xdp",
    }
}

string_enum! {
    /// Forwarding identifiers of trees to many nodes.
    LargeTrees {
        /// Several identifiers of 256 bits, each for a part of the tree.
        Parts = "parts",
        /// One with a filter for each distance from the publisher's node.
        Stages = "stages",
    }
}

section! {
    /// Publish/subscribe: `nw pub`, `nw sub` and applications of this machine; with `domain`, also
    /// between machines that reach each other directly.
    PubSub = "pubsub" {
        /// Run the publish/subscribe service.
        enabled: bool = false;
        /// Path of its socket for applications. Default: the path of faces.unix, ending in
        /// .pubsub.sock instead of .sock.
        path: Option<PathBuf> = None, as "\"/run/nfd/nfd.pubsub.sock\"";
        /// Permission bits of the socket: which users may connect.
        mode: Mode = Mode(0o666);
        /// Maximum number of applications.
        applications: u32 = 1024, in 1..=16_384;
        /// Maximum number of items that one application may publish, and of its subscriptions.
        items_per_application: u32 = 65_536, in 1..=1_048_576;
        /// Maximum number of items of all applications and nodes.
        items: u32 = 1_000_000, in 1..=16_777_216;
        /// Maximum size of a publisher's ring in shared memory, MiB.
        ring_mib: u32 = 64, in 1..=1024;
        /// Maximum memory for last values and history of publishers that have ended, MiB.
        last_values_mib: u32 = 64, in 1..=65_536;
        /// Patterns of items of other nodes that this node follows and keeps for late subscribers,
        /// as if an application had subscribed. Others are kept where applications subscribe.
        keep: Vec<String> = vec![], as "[\"/plant/**\"]";
        /// Publish to, and receive from, other nodes of the network. They find each other.
        domain: bool = true;
        /// Use UDP over IPv4 between nodes.
        udp: bool = true;
        /// Use Ethernet frames of EtherType 0x080a between nodes: they need no IP addresses. They
        /// are preferred to UDP where both reach a node. Needs CAP_NET_RAW.
        ethernet: bool = false;
        /// Sockets of Ethernet links. Those of AF_XDP need CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW,
        /// CAP_IPC_LOCK and Linux 5.18, no other XDP program, and 12 MiB of memory for each receive
        /// queue. Captures do not see their frames.
        ethernet_sockets: EthernetSockets = EthernetSockets::Packet;
        /// Forward publications between Ethernet links in the kernel (XDP), on interfaces without
        /// another XDP program. Needs `ethernet`, no `domain_key`, CAP_BPF, CAP_NET_ADMIN,
        /// CAP_NET_RAW and Linux 5.18. The other end of a veth pair must use XDP or GRO too.
        xdp: bool = false;
        /// UDP port of all nodes of the domain.
        port: u32 = 55_555, in 1..=65_535;
        /// Names of the network interfaces that belong to the domain. Default: all.
        interfaces: Vec<String> = vec![], as "[\"eth0\"]";
        /// Interval of hello messages, milliseconds. A neighbour is lost after 3.5 intervals.
        hello_ms: u32 = 100, in 10..=10_000;
        /// Longest time that packets of other nodes wait for more, so that many are handled
        /// together, microseconds. They wait only at rates at which several come in this time.
        /// 0: never.
        coalescing_us: u32 = 500, in 0..=10_000;
        /// How publications are sent to more nodes than one forwarding identifier reaches: `parts`
        /// sends one copy for each part of the tree. `stages` sends one with a longer identifier,
        /// which all nodes on the way must understand: those of this version or later.
        large_trees: LargeTrees = LargeTrees::Parts;
        /// Maximum memory for publications that were sent to other nodes and can be sent again to
        /// those that miss them, MiB. 0: what is lost on the way is not repaired, only reported.
        repair_mib: u32 = 32, in 0..=65_536;
        /// File with the secret of the domain, the same for all its nodes: others can neither
        /// publish nor subscribe. Default: none, and every machine on these links can.
        domain_key: Option<PathBuf> = None, as "\"/etc/nw/domain.key\"";
        /// Serve programs that were written for Blackadder 0.4. They publish and subscribe to the
        /// same items as all others: a label is the component `8=` and 16 hexadecimal digits.
        blackadder: bool = false;
        /// Path of the unix datagram socket that they send to.
        blackadder_path: PathBuf = "/tmp/blackadder.09999".into(), as "\"/tmp/blackadder.09999\"";
        /// Serve them at port 9999 of generic netlink too, which Blackadder uses on Linux. The
        /// programs need CAP_NET_ADMIN for it, and so does the router.
        blackadder_netlink: bool = false;
        /// Names whose components stand for the labels that programs of Blackadder compute from
        /// them (FNV-1a, 64 bits). All nodes of a domain need the same.
        blackadder_names: Vec<String> = vec![], as "[\"/sensors/room1/temperature\"]";
        /// Label of this node in a domain of Blackadder 0.4's nodes: 8 characters, its `NODEID`.
        /// The node then speaks their wire format, and needs `domain = false`. Default: none.
        blackadder_node: Option<String> = None, as "\"00000002\"";
        /// The node's internal link identifier there (`iLID`): 256 binary digits as in Blackadder's
        /// configuration, 64 hexadecimal digits, or numbers of bits joined by `+`. Needed with
        /// `blackadder_node`. Default: none.
        blackadder_internal: Option<String> = None, as "\"254\"";
        /// Forwarding identifier of requests to that domain's rendezvous node (`DEFAULTRV`).
        /// Default: none, and the node only forwards, unless it has `blackadder_topology`.
        blackadder_rendezvous: Option<String> = None, as "\"154+255\"";
        /// Links of the whole domain, "FROM TO id=LID" with labels, and "NODE NODE id=iLID" for
        /// each node: this node is then the rendezvous node and topology manager. Default: none.
        blackadder_topology: Vec<String> = vec![],
            as "[\"00000001 00000001 id=255\", \"00000001 00000002 id=155\"]";
        /// Links to its neighbours there: "INTERFACE MAC id=LID" for Ethernet or "ADDRESS id=LID"
        /// for UDP; without `id`, packets are received from the neighbour and none are sent.
        blackadder_links: Vec<String> = vec![],
            as "[\"eth0 02:00:00:00:00:01 id=154\", \"192.0.2.3 id=153\"]";
    }
}

item! {
    /// A rule of publish/subscribe. The first one with a matching scope decides. Names without a
    /// rule are for all.
    PubSubRule = "pubsub_rule" {
        /// Pattern of names: `*` is one component, a final `**` any number.
        scope: String, as "\"/plant/**\"";
        /// Which may publish: "any", "uid:N", "gid:N", and "remote" for other nodes.
        publish: Vec<String> = vec![], as "[\"uid:1000\", \"remote\"]";
        /// Which may subscribe: as for publish.
        subscribe: Vec<String> = vec![], as "[\"any\"]";
        /// Keys of which one must have signed each publication: files with a certificate or a
        /// public key, or hmac:FILE for a shared secret. Default: none; signatures are not checked.
        signed_by: Vec<String> = vec![], as "[\"/etc/nw/plant.cert\"]";
    }
}

item! {
    /// A face to another router. It is created again if it fails.
    FaceItem = "face" {
        /// Remote URI of the face.
        uri: Uri, as "\"udp4://192.0.2.1:6363\"";
        /// Local URI, if needed; for Ethernet and multicast the interface, as in "dev://eth0".
        local_uri: Option<Uri> = None, as "\"udp4://192.0.2.2:6363\"";
        /// When the face is closed.
        persistency: Persistency = Persistency::Persistent;
        /// MTU: largest link packet, bytes, if it differs from the default.
        mtu: Option<u32> = None, in 64..=8800, as "1420";
        /// Enable or disable NDNLPv2 reliability, if it differs from the default of the transport.
        reliability: Option<bool> = None, as "true";
    }
}

impl PubSub {
    /// Returns whether the domain's Ethernet links are to use AF_XDP sockets.
    pub fn uses_af_xdp(&self) -> bool {
        self.ethernet && self.ethernet_sockets == EthernetSockets::Xdp
    }
}

impl FaceItem {
    /// Returns a face with default options.
    pub const fn to(uri: Uri) -> Self {
        FaceItem {
            uri,
            local_uri: None,
            persistency: Persistency::Persistent,
            mtu: None,
            reliability: None,
        }
    }
}

item! {
    /// A route. A face without a `[[face]]` entry is created with defaults.
    RouteItem = "route" {
        /// Name prefix of Interests that use the route.
        prefix: Name, as "\"/example\"";
        /// Remote URI of the next hop.
        face: Uri, as "\"udp4://192.0.2.1:6363\"";
        /// Cost of the route; lower is better.
        cost: u64 = 0;
        /// Longer prefixes use this route, too.
        child_inherit: bool = true;
        /// This and longer prefixes do not use routes of shorter prefixes.
        capture: bool = false;
    }
}

item! {
    /// The strategy of a prefix: best-route, multicast, asf, self-learning, random, access,
    /// weighted, hash, round-robin or fail-over.
    StrategyItem = "strategy" {
        /// Name prefix for which the strategy is used.
        prefix: Name, as "\"/example/sync\"";
        /// Short or full name of the strategy, with parameters if needed; the version may be
        /// omitted if there are no parameters.
        strategy: StrategyName, as "\"multicast\"";
    }
}
