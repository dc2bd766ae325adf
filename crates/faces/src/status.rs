//! Status and events of faces and listeners, for the host and management.

use crate::shm::fault::SharedMemoryFault;
use core::time::Duration;
use nw_element_api::{FaceId, FaceInfo, LinkType, Peer, Scope, Timestamp};
use nw_link::websocket::ConnectionEnd;
use nw_link::websocket::fault::WebSocketFault;
use nw_link::{FaceCounters, FaceFlags, FaceUri, Persistency, ShapingState};

/// Status of a face.
#[derive(Clone, Debug)]
pub struct FaceStatus {
    /// Id of the face.
    pub id: FaceId,
    /// URI of the peer: Uri in management, remote in commands.
    pub uri: FaceUri,
    /// URI of this end.
    pub local_uri: FaceUri,
    /// Whether the peer is on this machine.
    pub scope: Scope,
    /// When the face is closed.
    pub persistency: Persistency,
    /// Link type: one peer or a group.
    pub link_type: LinkType,
    /// Largest link packet, bytes; `None` on streams, which have no limit.
    pub mtu: Option<usize>,
    /// Flags that are set.
    pub flags: FaceFlags,
    /// Base congestion marking interval.
    pub marking_interval: Duration,
    /// Congestion threshold, bytes of send queue.
    pub marking_threshold: u64,
    /// Connected, or needs no connection.
    pub up: bool,
    /// When an on-demand face is closed unless its peer sends something; datagram faces only.
    pub expiry: Option<Timestamp>,
    /// Bytes queued because the socket is full. For datagram faces, those of the shared socket
    /// count too.
    pub queue_bytes: usize,
    /// What Interest shaping does now, `None` while the link is not short. Of this shard only.
    pub shaping: Option<ShapingState>,
    /// Counters of the face.
    pub counters: FaceCounters,
}

impl FaceStatus {
    /// Returns what forwarding needs to know of the face.
    pub const fn info(&self) -> FaceInfo {
        FaceInfo { scope: self.scope, link_type: self.link_type }
    }

    /// Returns the peer's identity, if its address identifies it.
    pub const fn peer(&self) -> Peer {
        match (&self.uri, self.link_type, self.uri.address()) {
            (FaceUri::Ether(mac), LinkType::PointToPoint, _) => Peer::of_mac(mac.0),
            (_, LinkType::PointToPoint, Some(address)) => Peer::of_ip(address.ip()),
            _ => Peer::UNKNOWN,
        }
    }
}

/// Why a face was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// By [`Faces::close`](crate::Faces::close).
    Requested,
    /// The peer closed the connection.
    PeerClosed,
    /// The peer of an on-demand face was idle for too long, or did not answer a ping.
    Idle,
    /// Evicted: faces or descriptors are short, and the peer of this on-demand face has many.
    Evicted,
    /// A stream contained something other than a packet, so the start of the next packet is
    /// unknown.
    FramingLost(nw_wire::Error),
    /// The peer violated the WebSocket protocol.
    WebSocket(WebSocketFault),
    /// The peer violated the protocol of shared memory.
    SharedMemory(SharedMemoryFault),
    /// The socket failed.
    Socket(rustix::io::Errno),
    /// Its network interface is missing, or the policy no longer requires the face.
    InterfaceGone,
}

impl From<ConnectionEnd> for CloseReason {
    fn from(end: ConnectionEnd) -> Self {
        match end {
            ConnectionEnd::PeerClosed => CloseReason::PeerClosed,
            ConnectionEnd::Fault(fault) => CloseReason::WebSocket(fault),
        }
    }
}

impl core::fmt::Display for CloseReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            CloseReason::Requested => f.write_str("closed on request"),
            CloseReason::PeerClosed => f.write_str("closed by the peer"),
            CloseReason::Idle => f.write_str("idle"),
            CloseReason::Evicted => {
                f.write_str("faces or descriptors are short and this peer has many")
            }
            CloseReason::FramingLost(error) => {
                write!(f, "the stream does not contain packets: {error}")
            }
            CloseReason::WebSocket(fault) => write!(f, "WebSocket: {fault}"),
            CloseReason::SharedMemory(fault) => write!(f, "shared memory: {fault}"),
            CloseReason::Socket(errno) => write!(f, "socket failed: {errno}"),
            CloseReason::InterfaceGone => {
                f.write_str("its network interface is missing or has changed")
            }
        }
    }
}

/// An event of a face.
#[derive(Clone, Debug)]
pub enum FaceEvent {
    /// A face was created. Process before its packets.
    Created(Box<FaceStatus>),
    /// A face was closed; its last status.
    Destroyed(Box<FaceStatus>, CloseReason),
    /// A face is up: connected.
    Up(FaceId),
    /// A face is down: not connected (yet).
    Down(FaceId),
}

/// Status of a listener, which management calls a channel.
#[derive(Clone, Debug)]
pub struct ListenerStatus {
    /// Local URI.
    pub uri: FaceUri,
    /// Peers that got a face since the start.
    pub accepted: u64,
    /// Peers refused since the start: faces or descriptors were short, or the handshake failed.
    pub refused: u64,
    /// State of the receive buffer; datagram sockets only.
    pub udp: Option<UdpBuffer>,
}

/// State of a UDP socket's receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpBuffer {
    /// Bytes requested.
    pub requested: usize,
    /// Bytes granted by the kernel, which counts its overhead too.
    pub granted: usize,
    /// Datagrams lost because the buffer was full.
    pub overflows: u64,
    /// Datagrams of peers without a face: malformed, or too many faces.
    pub unattributed: u64,
}

impl UdpBuffer {
    /// Returns advice if the kernel granted less than requested.
    pub fn advice(&self) -> Option<String> {
        // The kernel doubles the requested size.
        (self.granted < self.requested).then(|| {
            format!(
                "UDP receive buffer is {} bytes instead of {}: bursts may be lost; raise it with `sysctl -w net.core.rmem_max={}`",
                self.granted, self.requested, self.requested
            )
        })
    }
}
