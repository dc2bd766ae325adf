//! Transports and listeners of one shard: sockets, shared memory, AF_XDP and network interfaces.
//!
//! [`Faces`] owns every face: it turns readiness of sockets into decoded packets, and queued
//! packets into gathered writes. Sockets are non-blocking and driven by the host's epoll loop;
//! there is no thread, no async runtime and no clock here (the host passes `now`). The link service
//! itself is the pure crate [`nw_link`]. Layer 4; does not depend on tables.

// `unsafe` only where a module allows it: datagram::sys, datagram::packet, shm::memory, xdp::rings,
// blackadder, credentials, malloc, mapping, and one call in socket_activation.
#![deny(unsafe_code)]

mod accounts;
pub mod blackadder;
pub mod config;
pub mod credentials;
mod datagram;
pub mod error;
pub mod interfaces;
mod internal_face;
mod listener;
pub mod local_pubsub;
mod malloc;
mod manager;
mod mapping;
#[cfg(test)]
mod order_models;
pub mod queue;
pub mod request;
mod send_budget;
pub mod shm;
mod slab;
mod socket_activation;
pub mod status;
mod stream;
mod timers;
pub mod xdp;

pub use nw_link::{counters, mac, outbox, uri, websocket};

/// The system calls of UDP faces, for benchmarks, and the parser of netlink messages, for fuzzing.
#[doc(hidden)]
pub mod raw {
    pub use crate::datagram::sys::{Message, RECEIVED_MAX, Received, receive, send, set_gro};
    pub use crate::interfaces::netlink::{Event, events};
}

pub use config::FacesConfig;
pub use datagram::sys::RECEIVED_MAX as MESSAGES_PER_CALL;
pub use datagram::{EthernetSocket, UdpSocket};
pub use error::FaceError;
pub use malloc::disable_fastbins;
pub use manager::{FaceReplica, Faces, Origin, ReuseportSockets, UnknownPeerPacket};
pub use nw_element_api::{FaceId, FaceInfo, LinkType, Scope, Timestamp};
pub use nw_link::websocket::fault::WebSocketFault;
pub use nw_link::{
    FaceCounters, FaceFlags, FaceOptions, FaceUpdate, FaceUri, LinkError, Persistency,
};
pub use shm::fault::SharedMemoryFault;
pub use socket_activation::{ActivatedUnixSocket, take_activated_sockets};
pub use status::{CloseReason, FaceEvent, FaceStatus, ListenerStatus, UdpBuffer};
