//! What can be seen of faces from outside.

use crate::counters::FaceCounters;
use crate::shm::fault::SharedMemoryFault;
use crate::uri::FaceUri;
use crate::websocket::fault::WebSocketFault;
use core::time::Duration;
use nw_element_api::{FaceId, FaceInfo, Instant, LinkType, Peer, Scope};

/// How a face ends. Numbers as NFD's management protocol has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Persistency {
    /// Until it is closed, or its socket fails.
    #[default]
    Persistent = 0,
    /// Made because a peer spoke; ends when the peer is silent for long, or gone.
    OnDemand = 1,
    /// Until it is closed: it is connected again, and outlives the errors of datagrams.
    Permanent = 2,
}

impl Persistency {
    /// From its number.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Persistency::Persistent),
            1 => Some(Persistency::OnDemand),
            2 => Some(Persistency::Permanent),
            _ => None,
        }
    }

    /// As users read it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Persistency::Persistent => "persistent",
            Persistency::OnDemand => "on-demand",
            Persistency::Permanent => "permanent",
        }
    }
}

/// The flags of a face: bits as NFD's management protocol has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceFlags(pub u64);

impl FaceFlags {
    /// IncomingFaceId is sent, NextHopFaceId is honoured.
    pub const LOCAL_FIELDS: FaceFlags = FaceFlags(1);
    /// Link packets are acknowledged and, when lost, sent again; both ends have to want that.
    pub const RELIABILITY: FaceFlags = FaceFlags(2);
    /// A long send queue sets congestion marks.
    pub const CONGESTION_MARKING: FaceFlags = FaceFlags(4);

    /// True when all of `other`'s flags are set.
    pub const fn contains(self, other: FaceFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These, with `other`'s set or cleared.
    #[must_use]
    pub const fn with(self, other: FaceFlags, on: bool) -> FaceFlags {
        if on { FaceFlags(self.0 | other.0) } else { FaceFlags(self.0 & !other.0) }
    }
}

/// All there is to say of a face.
#[derive(Clone, Debug)]
pub struct FaceStatus {
    /// Its id.
    pub id: FaceId,
    /// The peer: what clients call Uri or remote.
    pub uri: FaceUri,
    /// This end.
    pub local_uri: FaceUri,
    /// Whether the peer is on this machine.
    pub scope: Scope,
    /// How the face ends.
    pub persistency: Persistency,
    /// Who hears what is sent.
    pub link_type: LinkType,
    /// Largest link packet in octets; `None` on streams, which have no limit.
    pub mtu: Option<usize>,
    /// Flags that are set.
    pub flags: FaceFlags,
    /// Base congestion marking interval.
    pub marking_interval: Duration,
    /// Congestion threshold, octets.
    pub marking_threshold: u64,
    /// Connected, or needs no connection.
    pub up: bool,
    /// When an idle on-demand face will end, unless its peer speaks; only datagram faces.
    pub expiry: Option<Instant>,
    /// Octets that wait because the socket is full. (Of a UDP face: those of its socket.)
    pub queue_bytes: usize,
    /// What it counted.
    pub counters: FaceCounters,
}

impl FaceStatus {
    /// What forwarding needs to know.
    pub const fn info(&self) -> FaceInfo {
        FaceInfo { scope: self.scope, link_type: self.link_type }
    }

    /// The peer, where its address tells it from others.
    pub const fn peer(&self) -> Peer {
        match (&self.uri, self.link_type, self.uri.address()) {
            (FaceUri::Ether(mac), LinkType::PointToPoint, _) => Peer::of_mac(mac.0),
            (_, LinkType::PointToPoint, Some(address)) => Peer::of_ip(address.ip()),
            _ => Peer::UNKNOWN,
        }
    }
}

/// Why a face ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// [`Faces::close`](crate::Faces::close) was called.
    Asked,
    /// The peer closed its end.
    PeerClosed,
    /// An on-demand face whose peer was silent for long.
    Idle,
    /// An on-demand face of a peer with many, when faces or descriptors were short.
    GaveWay,
    /// What came in on a stream was no packet, so where the next one starts can't be known.
    FramingLost(nw_wire::Error),
    /// The peer of a WebSocket connection did what ends it.
    WebSocket(WebSocketFault),
    /// The neighbour at shared memory did what ends the link.
    SharedMemory(SharedMemoryFault),
    /// The socket failed.
    Socket(rustix::io::Errno),
    /// Its network interface is gone, or is no longer to have such a face.
    InterfaceGone,
}

impl core::fmt::Display for CloseReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            CloseReason::Asked => f.write_str("asked for"),
            CloseReason::PeerClosed => f.write_str("closed by the peer"),
            CloseReason::Idle => f.write_str("idle"),
            CloseReason::GaveWay => f.write_str("faces or descriptors are short and this peer has many"),
            CloseReason::FramingLost(error) => write!(f, "the stream holds no packets: {error}"),
            CloseReason::WebSocket(fault) => write!(f, "WebSocket: {fault}"),
            CloseReason::SharedMemory(fault) => write!(f, "shared memory: {fault}"),
            CloseReason::Socket(errno) => write!(f, "socket failed: {errno}"),
            CloseReason::InterfaceGone => f.write_str("its network interface is gone or changed"),
        }
    }
}

/// What happened to a face.
#[derive(Clone, Debug)]
pub enum FaceEvent {
    /// It is there. Take it in before its packets.
    Created(Box<FaceStatus>),
    /// It is gone; its last state.
    Destroyed(Box<FaceStatus>, CloseReason),
    /// Connected.
    Up(FaceId),
    /// Not connected (yet).
    Down(FaceId),
}

/// Something that accepts peers: what clients call a channel.
#[derive(Clone, Debug)]
pub struct ListenerStatus {
    /// Where it listens.
    pub uri: FaceUri,
    /// Peers taken in since the start.
    pub accepted: u64,
    /// Peers turned away since the start, because there were too many faces or too few descriptors, or because they spoke no WebSocket, or offered no memory, where that is to be.
    pub refused: u64,
    /// Datagram sockets only.
    pub udp: Option<UdpBuffer>,
}

/// How a UDP socket's receive buffer is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpBuffer {
    /// Octets asked for.
    pub asked: usize,
    /// Octets the kernel granted (it counts its own overhead in).
    pub granted: usize,
    /// Datagrams lost because the buffer was full.
    pub overflows: u64,
    /// Datagrams from peers that got no face: no packets, or too many faces.
    pub unheard: u64,
}

impl UdpBuffer {
    /// What to do when the kernel granted too little.
    pub fn advice(&self) -> Option<String> {
        // The kernel doubles what is asked for.
        (self.granted < self.asked).then(|| {
            format!(
                "UDP receive buffer is {} octets instead of {}: bursts may be lost; raise it with `sysctl -w net.core.rmem_max={}`",
                self.granted, self.asked, self.asked
            )
        })
    }
}
