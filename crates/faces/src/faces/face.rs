//! One face: who the peer is, by what transport it is reached, what was counted.

use super::backpressure::Reading;
use super::xdp::Way;
use crate::config::FacesConfig;
use crate::counters::FaceCounters;
use crate::datagram::{Burst, Peer};
use crate::link::LinkService;
use crate::outbox::Outbox;
use crate::shares::Owner;
use crate::status::Persistency;
use crate::stream::Stream;
use crate::uri::FaceUri;
use nw_element_api::{FaceId, Instant, LinkType, Scope};
use std::net::SocketAddr;

/// How a face's peer is reached.
#[derive(Debug)]
pub(super) enum Transport {
    /// A socket of its own.
    Stream(Stream),
    /// One of many peers of a socket.
    Datagram {
        /// Which of the datagram sockets.
        socket: usize,
        /// The peer.
        peer: Peer,
        /// Longest datagram that the kernel took as part of a run; 0 for none.
        run_datagram_max: usize,
        /// What it was sent lately, and what waits so that it is not too much at once.
        burst: Burst,
        /// How it is reached by AF_XDP.
        way: Way,
    },
    /// A socket of its own that is to be connected again.
    Down,
    /// The mailbox of the router itself.
    Internal,
    /// Nothing: it drops all that is sent to it.
    Null,
}

/// How a stream that this end connected is connected again.
#[derive(Debug, Default)]
pub(super) struct Reconnect {
    /// From which address, if that was said.
    pub(super) bind: Option<SocketAddr>,
    /// It was connected once: before that, failing is its end.
    pub(super) was_up: bool,
    /// Attempts that failed since it was connected.
    pub(super) failures: u32,
    /// When its timer is due, if there is one.
    pub(super) timer: Option<Instant>,
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
    /// Which listener accepted it.
    pub(super) listener: Option<u32>,
    /// Whose it is, if it was made because its peer connected or spoke.
    pub(super) owner: Option<Owner>,
    /// Lent from the spare ones while there is something in it.
    pub(super) outbox: Outbox,
    /// Something is in the outbox.
    pub(super) dirty: bool,
    /// Its network interface is down or gone.
    pub(super) down: bool,
    /// The host's epoll reports when the socket can be written.
    pub(super) awaits_writable: bool,
    /// The host's epoll reports when the socket can be read.
    pub(super) awaits_readable: bool,
    /// Whether it is read from, where it is a stream.
    pub(super) reading: Reading,
    /// The last read brought more Interests than other packets.
    pub(super) requests: bool,
    /// Bytes of its send queue that the common budget was charged with.
    pub(super) charged: usize,
    /// Bytes of the kernel's send buffer that it was granted, where it was accepted.
    pub(super) kernel_buffer: usize,
    /// When the peer was last heard.
    pub(super) heard: Instant,
    /// When its timer of this kind is due, if there is one. It may be early: then it is set again.
    pub(super) link_timer: Option<Instant>,
    /// Likewise.
    pub(super) idle_timer: Option<Instant>,
    /// Its counters are to be taken, where it is a lane.
    pub(super) touched: bool,
    /// Of streams that this end connected.
    pub(super) reconnect: Option<Box<Reconnect>>,
}

impl Face {
    pub(super) fn new(
        now: Instant,
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
            owner: None,
            outbox: Outbox::default(),
            dirty: false,
            down: false,
            awaits_writable: false,
            awaits_readable: true,
            reading: Reading::On,
            requests: false,
            charged: 0,
            kernel_buffer: 0,
            heard: now,
            link_timer: None,
            idle_timer: None,
            touched: false,
            reconnect: None,
        }
    }

    /// True for peers on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.scope == Scope::Local
    }

    /// Bytes of memory that wait to be sent to it alone.
    pub(super) fn held_bytes(&self) -> usize {
        let queued = match &self.transport {
            Transport::Stream(stream) => stream.memory_bytes(),
            Transport::Datagram { burst, .. } => burst.waiting.memory_bytes(),
            Transport::Down | Transport::Internal | Transport::Null => 0,
        };
        queued + self.link.unacknowledged_bytes()
    }

    /// Whether it can have a persistency: sockets that a unix or WebSocket peer connected live as long as it; only what this end connected can be connected again;
    /// nobody closes a group's face by being silent.
    pub(super) fn may_be(&self, persistency: Persistency) -> bool {
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

    /// When it ends if its peer stays silent.
    pub(super) fn expiry(&self, config: &FacesConfig) -> Option<Instant> {
        let Transport::Datagram { peer, .. } = self.transport else { return None };
        let idle = match peer {
            Peer::Ip(_) => config.udp_idle,
            Peer::Mac(_) => config.ether_idle,
        };
        (self.persistency == Persistency::OnDemand).then(|| self.heard + idle)
    }
}

/// What an epoll event is about. Tokens below 2^32 are the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Listener(u32),
    Datagram(u32),
    Face(FaceId),
    Interfaces,
    Handshake(u32),
    /// Port and queue.
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
