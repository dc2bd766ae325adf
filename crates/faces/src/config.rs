//! What a host may choose, with the defaults that clients expect.

use crate::status::{FaceFlags, Persistency};
use core::time::Duration;
use nw_wire::PACKET_LEN_MAX;

/// The smallest MTU a face may be given, octets.
pub const MTU_MIN: usize = 64;

/// Longest link packet on a stream: a whole network packet and the link header around it. Octets.
pub const LINK_PACKET_LEN_MAX: usize = PACKET_LEN_MAX + nw_wire::lp::HEADER_LEN_MAX;

/// Bounds and defaults of all faces of a shard.
#[derive(Clone, Debug)]
pub struct FacesConfig {
    /// Faces there may be at one time.
    pub faces_max: usize,
    /// Octets that may wait for a face whose socket is full; beyond them its packets are dropped.
    pub queue_bytes_max: usize,
    /// On-demand faces over IP and Ethernet, all listeners together, but never more than half of `faces_max`: programs of this machine have the
    /// rest. [`WebSocketConfig`] has a bound of its own for each listener.
    pub peers_max: usize,
    /// Reads of up to 64 KiB from one stream before others get their turn.
    pub stream_reads_per_turn: usize,
    /// Receives of up to 16 messages (runs of up to 64 KiB) from one datagram socket before others get their turn.
    pub udp_reads_per_turn: usize,
    /// Connections taken from one listener before others get their turn.
    pub accepts_per_turn: usize,
    /// SO_SNDBUF asked for on unix and TCP sockets, octets.
    pub stream_send_buffer: usize,
    /// Octets of a ring of shared memory, one each way, where this end makes it: a power of two from 64 KiB to 1 MiB.
    pub shared_ring_len: usize,
    /// Faces one listener of shared memory may have. Each may use twice 1 MiB.
    pub shared_faces_max: usize,
    /// SO_RCVBUF asked for on TCP sockets, octets; `None` leaves it to the kernel, which adapts it.
    pub tcp_receive_buffer: Option<usize>,
    /// SO_RCVBUF asked for on datagram sockets, octets: room for bursts.
    pub udp_receive_buffer: usize,
    /// SO_SNDBUF asked for on datagram sockets, octets.
    pub udp_send_buffer: usize,
    /// MTU of UDP faces, octets. Larger link packets are cut into fragments; up to it, fragmentation is IP's.
    pub udp_mtu: usize,
    /// An on-demand UDP face ends after so long without a packet from its peer.
    pub udp_idle: Duration,
    /// An on-demand Ethernet face likewise.
    pub ether_idle: Duration,
    /// Loopback UDP peers are local. They are not elsewhere.
    pub loopback_udp_local: bool,
    /// Congestion marking is on for new faces.
    pub congestion_marking: bool,
    /// How long a send queue has to stay above the threshold before the first mark.
    pub marking_interval: Duration,
    /// Send queue above which congestion is marked, octets.
    pub marking_threshold: u64,
    /// Limits of reassembly.
    pub reassembly: ReassemblyLimits,
    /// On which new faces link packets are acknowledged and repeated.
    pub reliable: Reliable,
    /// Limits of reliability.
    pub reliability: ReliabilityLimits,
    /// Octets of datagrams to one UDP peer that leave in a row; the rest waits for [`burst_pause`](Self::burst_pause). Peers may have little room;
    /// one that says how much it has gets half of that.
    pub burst_bytes_max: usize,
    /// How long a UDP peer is given for a burst.
    pub burst_pause: Duration,
    /// UDP ports are shared with the other shards of this router (SO_REUSEPORT).
    pub share_ports: bool,
    /// WebSocket listeners and connections.
    pub websocket: WebSocketConfig,
    /// A permanent face that lost its connection tries again after so long, then after twice as long each time.
    pub reconnect_first: Duration,
    /// At most after so long.
    pub reconnect_max: Duration,
    /// An attempt to connect again that nobody answers is given up.
    pub reconnect_timeout: Duration,
}

/// Transports whose faces are reliable unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reliable {
    /// Unix faces.
    pub unix: bool,
    /// TCP faces.
    pub tcp: bool,
    /// UDP faces.
    pub udp: bool,
}

impl Default for FacesConfig {
    fn default() -> Self {
        FacesConfig {
            faces_max: 65_536,
            queue_bytes_max: 1 << 20,
            peers_max: usize::MAX,
            stream_reads_per_turn: 1,
            udp_reads_per_turn: 4,
            accepts_per_turn: 64,
            stream_send_buffer: 512 << 10,
            shared_ring_len: 512 << 10,
            shared_faces_max: 256,
            tcp_receive_buffer: None,
            udp_receive_buffer: 8 << 20,
            udp_send_buffer: 4 << 20,
            udp_mtu: PACKET_LEN_MAX,
            udp_idle: Duration::from_secs(600),
            ether_idle: Duration::from_secs(600),
            loopback_udp_local: false,
            congestion_marking: true,
            marking_interval: Duration::from_millis(100),
            marking_threshold: 65_536,
            reassembly: ReassemblyLimits::default(),
            reliable: Reliable::default(),
            reliability: ReliabilityLimits::default(),
            burst_bytes_max: 128 << 10,
            burst_pause: Duration::from_micros(250),
            share_ports: false,
            websocket: WebSocketConfig::default(),
            reconnect_first: Duration::from_secs(1),
            reconnect_max: Duration::from_secs(60),
            reconnect_timeout: Duration::from_secs(10),
        }
    }
}

/// Who may connect by WebSocket, as what, and for how long a connection is believed in.
#[derive(Clone, Debug)]
pub struct WebSocketConfig {
    /// Faces one listener may have.
    pub faces_max: usize,
    /// Connections whose handshake is not over; beyond them the oldest gives way.
    pub handshakes_max: usize,
    /// A handshake is given up after so long.
    pub handshake_timeout: Duration,
    /// A peer that was silent for so long is asked whether it is there. After as long again without a word its face ends.
    pub ping_interval: Duration,
    /// Programs of this machine are local faces, and so are pages of `local_origins`.
    pub loopback_local: bool,
    /// Origins of pages that count as programs of the machine their browser runs on, as browsers write them: `http://localhost:8080`.
    pub local_origins: Vec<String>,
    /// Pages of other origins may connect, as somebody of another machine.
    pub other_origins: bool,
}

impl Default for WebSocketConfig {
    fn default() -> Self {
        WebSocketConfig {
            faces_max: 1024,
            handshakes_max: 256,
            handshake_timeout: Duration::from_secs(5),
            ping_interval: Duration::from_secs(10),
            loopback_local: true,
            local_origins: Vec::new(),
            other_origins: true,
        }
    }
}

/// How much may wait to become whole.
#[derive(Clone, Copy, Debug)]
pub struct ReassemblyLimits {
    /// Packets in pieces per face; the oldest gives way.
    pub packets_max: usize,
    /// Octets in pieces per face, bookkeeping included; the oldest packet gives way.
    pub bytes_max: usize,
    /// Octets in pieces of all faces.
    pub bytes_max_all: usize,
    /// After the last fragment, a packet that is not whole is given up.
    pub timeout: Duration,
}

impl Default for ReassemblyLimits {
    fn default() -> Self {
        ReassemblyLimits {
            packets_max: 64,
            bytes_max: 256 << 10,
            bytes_max_all: 16 << 20,
            timeout: Duration::from_millis(500),
        }
    }
}

/// How much a reliable face keeps, and how hard it tries.
#[derive(Clone, Copy, Debug)]
pub struct ReliabilityLimits {
    /// Link packets kept until they are acknowledged. Beyond them packets are sent without protection.
    pub packets_max: usize,
    /// Octets kept likewise.
    pub bytes_max: usize,
    /// How often a link packet is sent again.
    pub retries_max: u32,
    /// The least time-out; above the 5 ms that acknowledgements may wait.
    pub rto_min: Duration,
}

impl Default for ReliabilityLimits {
    fn default() -> Self {
        ReliabilityLimits {
            packets_max: 4096,
            bytes_max: 4 << 20,
            retries_max: 3,
            rto_min: Duration::from_millis(50),
        }
    }
}

/// What may be said of a face when it is made; what is not said is the host's default.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaceOptions {
    /// How the face ends. Persistent when not said.
    pub persistency: Option<Persistency>,
    /// Flags to set; those not in `flags_mask` keep their default.
    pub flags: FaceFlags,
    /// Which flags are said.
    pub flags_mask: FaceFlags,
    /// MTU in octets; only datagram faces.
    pub mtu: Option<usize>,
    /// Base congestion marking interval.
    pub marking_interval: Option<Duration>,
    /// Congestion threshold, octets.
    pub marking_threshold: Option<u64>,
}

/// What is to change of a face; the same fields as when it was made.
pub type FaceUpdate = FaceOptions;
