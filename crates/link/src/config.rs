//! Limits and options of a link, with the defaults that NFD's clients expect.

use crate::flags::{FaceFlags, Persistency};
use core::time::Duration;
use nw_wire::PACKET_LEN_MAX;

/// Smallest MTU that a face accepts, bytes.
pub const MTU_MIN: usize = 64;

/// Longest link packet on a stream, bytes: the longest network packet and the link header around
/// it.
pub const LINK_PACKET_LEN_MAX: usize = PACKET_LEN_MAX + nw_wire::lp::HEADER_LEN_MAX;

/// Defaults of a new face's link service.
#[derive(Clone, Copy, Debug)]
pub struct LinkDefaults {
    /// Whether new faces mark congestion. Default on.
    pub congestion_marking: bool,
    /// How long a send queue stays above the threshold before the first mark. Default 100 ms.
    pub marking_interval: Duration,
    /// Bytes of send queue above which congestion is marked. Default 65,536.
    pub marking_threshold: u64,
    /// Whether a face shapes its Interests once its peer marks congestion. Default on.
    pub interest_shaping: bool,
    /// Limits of reliability, for faces that use it.
    pub reliability: ReliabilityLimits,
}

impl Default for LinkDefaults {
    fn default() -> Self {
        LinkDefaults {
            congestion_marking: true,
            marking_interval: Duration::from_millis(100),
            marking_threshold: 65_536,
            interest_shaping: true,
            reliability: ReliabilityLimits::default(),
        }
    }
}

/// Which peers may connect by WebSocket, with which scope, and when an idle connection is closed.
#[derive(Clone, Debug)]
pub struct WebSocketConfig {
    /// Faces that one listener may have. Default 1024.
    pub faces_max: usize,
    /// Connections in their handshake; a new one beyond them replaces the oldest. Default 256.
    pub handshakes_max: usize,
    /// Time allowed for a handshake. Default 5 s.
    pub handshake_timeout: Duration,
    /// Time without traffic before a ping is sent. The face is closed if no reply arrives within
    /// the same time again. Default 10 s.
    pub ping_interval: Duration,
    /// Whether programs that connect from loopback addresses are local faces, and pages of
    /// `local_origins` with them. Default on.
    pub loopback_local: bool,
    /// Origins whose pages count as programs of the machine that their browser runs on, as browsers
    /// write them: `http://localhost:8080`.
    pub local_origins: Vec<String>,
    /// Whether pages of other origins may connect, as non-local faces. Default on.
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

/// Bounds on incomplete packets in reassembly.
#[derive(Clone, Copy, Debug)]
pub struct ReassemblyLimits {
    /// Incomplete packets per face; beyond them the oldest is dropped. It bounds the cost of tiny
    /// fragments: `bytes_max` is reached first with usual ones. Default 16,384.
    pub packets_max: usize,
    /// Bytes of fragments per face, bookkeeping included; beyond them the oldest packet is dropped.
    /// A link of 1 Gbit/s that reorders by 30 ms needs 4 MB. Default 4 MiB.
    pub bytes_max: usize,
    /// Bytes of fragments of all faces of a shard. One face may hold as much as is free. Default
    /// 32 MiB.
    pub bytes_max_all: usize,
    /// Time after the latest fragment at which an incomplete packet is dropped. Default 500 ms.
    pub timeout: Duration,
}

impl Default for ReassemblyLimits {
    fn default() -> Self {
        ReassemblyLimits {
            packets_max: 16_384,
            bytes_max: 4 << 20,
            bytes_max_all: 32 << 20,
            timeout: Duration::from_millis(500),
        }
    }
}

/// Bounds on the copies that a reliable face keeps, and on its retransmissions.
#[derive(Clone, Copy, Debug)]
pub struct ReliabilityLimits {
    /// Link packets kept until they are acknowledged; beyond them packets are sent unprotected.
    /// Default 4096.
    pub packets_max: usize,
    /// Bytes kept until they are acknowledged; beyond them packets are sent unprotected. Default
    /// 4 MiB.
    pub bytes_max: usize,
    /// Retransmissions of one link packet. Default 3.
    pub retries_max: u32,
    /// Lower bound of the retransmission timeout; above the 5 ms that acknowledgements may wait.
    /// Default 50 ms.
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

/// Options of one face; the host's default applies to each that is not given.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaceOptions {
    /// When the face is closed. Default persistent.
    pub persistency: Option<Persistency>,
    /// Values of the flags in `flags_mask`.
    pub flags: FaceFlags,
    /// Flags that are given; the others keep their value.
    pub flags_mask: FaceFlags,
    /// MTU in bytes; datagram faces only.
    pub mtu: Option<usize>,
    /// Base congestion marking interval.
    pub marking_interval: Option<Duration>,
    /// Congestion threshold, bytes of send queue.
    pub marking_threshold: Option<u64>,
}

/// Changes to an existing face: the same fields as at its creation.
pub type FaceUpdate = FaceOptions;
