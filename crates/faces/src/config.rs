//! Limits and defaults of all faces of a shard.

use core::time::Duration;
pub use nw_link::config::{
    FaceOptions, FaceUpdate, LINK_PACKET_LEN_MAX, LinkDefaults, MTU_MIN, ReassemblyLimits,
    ReliabilityLimits, WebSocketConfig,
};
use nw_wire::PACKET_LEN_MAX;

/// Limits and defaults of all faces of a shard.
#[derive(Clone, Debug)]
pub struct FacesConfig {
    /// Faces at one time.
    pub faces_max: usize,
    /// Bytes queued for one face whose socket is full; beyond them its packets are dropped.
    pub queue_bytes_max: usize,
    /// Bytes of memory of all send queues, copies for retransmission included. The kernel's send
    /// buffers of accepted connections may take half as much again.
    pub queues_bytes_max: usize,
    /// On-demand faces over IP and Ethernet, all listeners together; at most half of `faces_max`,
    /// as the other half is for programs of this machine. [`WebSocketConfig`] has a limit for each
    /// listener.
    pub peers_max: usize,
    /// Reads of up to 64 KiB from one stream per call of `on_ready`.
    pub stream_reads_per_turn: usize,
    /// Receives of up to 16 messages (runs of up to 64 KiB) from one datagram socket per call.
    pub udp_reads_per_turn: usize,
    /// Connections accepted from one listener per call.
    pub accepts_per_turn: usize,
    /// SO_SNDBUF of unix and TCP sockets, bytes. Accepted connections get less when there are many.
    pub stream_send_buffer: usize,
    /// Bytes of a ring of shared memory that this end offers, one for each direction: a power of
    /// two from 64 KiB to 1 MiB.
    pub shared_ring_len: usize,
    /// Faces of one shared-memory listener. Each may use twice 1 MiB.
    pub shared_faces_max: usize,
    /// SO_RCVBUF of TCP sockets, bytes; `None` leaves it to the kernel, which adapts it.
    pub tcp_receive_buffer: Option<usize>,
    /// SO_RCVBUF of datagram sockets, bytes, for bursts.
    pub udp_receive_buffer: usize,
    /// SO_SNDBUF of datagram sockets, bytes.
    pub udp_send_buffer: usize,
    /// MTU of UDP faces, bytes. Larger packets are fragmented by the link service; link packets up
    /// to it, by IP if necessary.
    pub udp_mtu: usize,
    /// Time without a packet after which an on-demand UDP face is closed.
    pub udp_idle: Duration,
    /// Time without a packet after which an on-demand Ethernet face is closed.
    pub ether_idle: Duration,
    /// Time that faces of a removed interface wait for one of the same name.
    pub interface_grace: Duration,
    /// Whether UDP peers on loopback addresses are local.
    pub loopback_udp_local: bool,
    /// Whether new faces mark congestion.
    pub congestion_marking: bool,
    /// How long a send queue stays above the threshold before the first mark.
    pub marking_interval: Duration,
    /// Bytes of send queue above which congestion is marked.
    pub marking_threshold: u64,
    /// Whether faces shape their Interests once their peer marks congestion. For routers: an
    /// application has a window of its own.
    pub interest_shaping: bool,
    /// Limits of reassembly.
    pub reassembly: ReassemblyLimits,
    /// Transports whose new faces use reliability.
    pub reliable: Reliable,
    /// Limits of reliability.
    pub reliability: ReliabilityLimits,
    /// Bytes of datagrams to one UDP peer in one burst; the remainder waits for
    /// [`burst_pause`](Self::burst_pause). A peer that advertises its receive buffer gets half of
    /// that if it is more.
    pub burst_bytes_max: usize,
    /// Pause between two bursts to a UDP peer.
    pub burst_pause: Duration,
    /// Whether UDP ports are shared with the other shards of this router (SO_REUSEPORT).
    pub share_ports: bool,
    /// WebSocket listeners and connections.
    pub websocket: WebSocketConfig,
    /// Pause before a permanent face reconnects; doubled with each failure.
    pub reconnect_first: Duration,
    /// Longest pause before a permanent face reconnects.
    pub reconnect_max: Duration,
    /// Time after which a connection attempt without answer is given up.
    pub reconnect_timeout: Duration,
}

impl FacesConfig {
    /// Returns the defaults of a new face's link service.
    pub const fn link_defaults(&self) -> LinkDefaults {
        LinkDefaults {
            congestion_marking: self.congestion_marking,
            marking_interval: self.marking_interval,
            marking_threshold: self.marking_threshold,
            interest_shaping: self.interest_shaping,
            reliability: self.reliability,
        }
    }
}

/// Transports whose faces use reliability by default.
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
            queues_bytes_max: 256 << 20,
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
            interface_grace: Duration::from_secs(300),
            loopback_udp_local: false,
            congestion_marking: true,
            marking_interval: Duration::from_millis(100),
            marking_threshold: 65_536,
            interest_shaping: false,
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
