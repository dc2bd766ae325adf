//! One face: its peer, its transport and its counters.

use super::backpressure::ReadState;
use super::xdp::XdpRoute;
use crate::accounts::Account;
use crate::config::FacesConfig;
use crate::datagram::{Pacer, Peer};
use crate::stream::Stream;
use nw_element_api::{FaceId, LinkType, Scope, Timestamp};
use nw_link::{FaceCounters, FaceUri, LinkService, Outbox, Persistency};
use std::net::SocketAddr;

/// Transport of a face.
#[derive(Debug)]
pub(super) enum Transport {
    /// A stream socket of its own.
    Stream(Stream),
    /// One of many peers of a datagram socket.
    Datagram {
        /// Index of the datagram socket.
        socket: usize,
        /// The peer.
        peer: Peer,
        /// Longest datagram that the kernel took as part of a run, bytes; 0 for none.
        run_datagram_max: usize,
        /// Limits bursts to the peer, and queues the remainder.
        pacer: Pacer,
        /// Cached AF_XDP route to the peer.
        route: XdpRoute,
    },
    /// A stream without connection, to be reconnected.
    Down,
    /// The queue to the router's own management.
    Internal,
    /// Drops all packets.
    Null,
}

/// Reconnection state of a stream that this end opened.
#[derive(Debug, Default)]
pub(super) struct Reconnect {
    /// Local address to bind to, if given.
    pub(super) bind: Option<SocketAddr>,
    /// It was connected once; a failure before that closes the face.
    pub(super) was_up: bool,
    /// Failed attempts since the last connection.
    pub(super) failures: u32,
    /// When its timer is due, if it is set.
    pub(super) timer: Option<Timestamp>,
}

/// A face.
#[derive(Debug)]
pub(super) struct Face {
    pub(super) uri: FaceUri,
    pub(super) local_uri: FaceUri,
    pub(super) scope: Scope,
    pub(super) link_type: LinkType,
    pub(super) persistency: Persistency,
    pub(super) transport: Transport,
    pub(super) link: LinkService,
    pub(super) counters: FaceCounters,
    /// Index of the listener that accepted it.
    pub(super) listener: Option<u32>,
    /// Account it is charged to, if it is on demand.
    pub(super) account: Option<Account>,
    /// Link packets to send; borrowed from the outbox pool while not empty.
    pub(super) outbox: Outbox,
    /// The outbox is not empty, and the face is in a list of faces to flush.
    pub(super) dirty: bool,
    /// Its network interface is down or removed.
    pub(super) down: bool,
    /// Registered with epoll for writability.
    pub(super) awaits_writable: bool,
    /// Registered with epoll for readability.
    pub(super) awaits_readable: bool,
    /// Whether it is read from; streams only.
    pub(super) reading: ReadState,
    /// The last read brought more Interests than other packets.
    pub(super) requests: bool,
    /// Bytes of its send queue charged to the common budget.
    pub(super) charged: usize,
    /// Bytes of the kernel's send buffer granted to it; accepted connections only.
    pub(super) kernel_buffer: usize,
    /// When the peer last sent something.
    pub(super) last_received: Timestamp,
    /// When the link service's timer is due, if it is set. It may fire early, and is set again
    /// then.
    pub(super) link_timer: Option<Timestamp>,
    /// When the idle timer is due, if it is set.
    pub(super) idle_timer: Option<Timestamp>,
    /// A replica whose counters changed since they were last taken.
    pub(super) active: bool,
    /// Reconnection state; streams that this end opened only.
    pub(super) reconnect: Option<Box<Reconnect>>,
}

impl Face {
    /// Creates a point-to-point face that is active at `now`.
    pub(super) fn new(
        now: Timestamp,
        (uri, local_uri): (FaceUri, FaceUri),
        scope: Scope,
        persistency: Persistency,
        transport: Transport,
        link: LinkService,
    ) -> Self {
        Face {
            uri,
            local_uri,
            scope,
            link_type: LinkType::PointToPoint,
            persistency,
            transport,
            link,
            counters: FaceCounters::default(),
            listener: None,
            account: None,
            outbox: Outbox::default(),
            dirty: false,
            down: false,
            awaits_writable: false,
            awaits_readable: true,
            reading: ReadState::Active,
            requests: false,
            charged: 0,
            kernel_buffer: 0,
            last_received: now,
            link_timer: None,
            idle_timer: None,
            active: false,
            reconnect: None,
        }
    }

    /// Returns whether the peer is local.
    pub(super) fn is_local(&self) -> bool {
        self.scope == Scope::Local
    }

    /// Returns the bytes of memory queued for this face alone.
    pub(super) fn queued_memory_bytes(&self) -> usize {
        let queued = match &self.transport {
            Transport::Stream(stream) => stream.memory_bytes(),
            Transport::Datagram { pacer, .. } => pacer.queue.memory_bytes(),
            Transport::Down | Transport::Internal | Transport::Null => 0,
        };
        queued + self.link.unacknowledged_bytes()
    }

    /// Returns whether the face can have this persistency. Accepted connections are closed with
    /// their socket; only streams opened by this end can be reconnected; faces to groups are
    /// permanent, as silence of one peer means nothing.
    pub(super) fn supports(&self, persistency: Persistency) -> bool {
        match self.uri {
            FaceUri::Fd(_) | FaceUri::Internal | FaceUri::Null => false,
            FaceUri::Unix(_) | FaceUri::Shm(_) => persistency != Persistency::OnDemand,
            FaceUri::WsClient(_) => persistency == Persistency::OnDemand,
            FaceUri::Tcp(_) | FaceUri::Ws(_) => {
                persistency != Persistency::Permanent || self.reconnect.is_some()
            }
            _ => self.link_type == LinkType::PointToPoint || persistency == Persistency::Permanent,
        }
    }

    /// Returns when an on-demand datagram face is closed unless its peer sends something.
    pub(super) fn expiry(&self, config: &FacesConfig) -> Option<Timestamp> {
        let Transport::Datagram { peer, .. } = self.transport else { return None };
        let idle = match peer {
            Peer::Ip(_) => config.udp_idle,
            Peer::Mac(_) => config.ether_idle,
        };
        (self.persistency == Persistency::OnDemand).then(|| self.last_received + idle)
    }
}

/// Subject of an epoll event. Tokens below 2^32 belong to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Listener(u32),
    Datagram(u32),
    Face(FaceId),
    Interfaces,
    Handshake(u32),
    /// AF_XDP interface (upper 24 bits) and queue (lower 8 bits).
    Xdp(u32),
    Routes,
}

impl Token {
    const OURS: u64 = 1 << 63;
    const KIND: u32 = 32;

    pub(super) const fn bits(self) -> u64 {
        let (kind, id) = match self {
            Token::Listener(index) => (1, index),
            Token::Datagram(index) => (2, index),
            Token::Face(face) => (3, face.bits()),
            Token::Interfaces => (4, 0),
            Token::Handshake(index) => (5, index),
            Token::Xdp(queue) => (6, queue),
            Token::Routes => (7, 0),
        };
        Token::OURS | kind << Token::KIND | id as u64
    }

    pub(super) const fn from_bits(bits: u64) -> Option<Self> {
        let id = bits as u32;
        if bits & Token::OURS == 0 {
            return None;
        }
        match bits >> Token::KIND & 0xff {
            1 => Some(Token::Listener(id)),
            2 => Some(Token::Datagram(id)),
            3 => Some(Token::Face(FaceId::from_bits(id))),
            4 => Some(Token::Interfaces),
            5 => Some(Token::Handshake(id)),
            6 => Some(Token::Xdp(id)),
            7 => Some(Token::Routes),
            _ => None,
        }
    }
}
