//! Transports, listeners and the link service of one shard.
//!
//! [`Faces`] owns every face: it turns readiness of sockets into decoded packets and queued packets into gathered writes. Non-blocking,
//! driven by the host's epoll loop; no thread, no async runtime, no clock. Layer 4 (edges): refuses to know tables.

#![deny(unsafe_code)] // but where it says so: datagram::sys, datagram::packet, shm::memory, xdp::rings, credentials, heap, mapping, and one call in inherited

pub mod config;
pub mod counters;
mod credentials;
mod datagram;
pub mod error;
mod faces;
mod heap;
mod inherited;
pub mod interfaces;
pub mod link;
mod listener;
pub mod mac;
mod mapping;
mod memory;
pub mod outbox;
pub mod queue;
pub mod request;
mod send_budget;
mod shares;
pub mod shm;
mod slab;
pub mod status;
mod stream;
mod timers;
pub mod uri;
pub mod websocket;
pub mod xdp;

/// The calls that UDP faces are made of, for what they are measured against; and readers of what the kernel says, for fuzzing.
#[doc(hidden)]
pub mod raw {
    pub use crate::datagram::sys::{Message, RECEIVED_MAX, Received, receive, send, set_gro};
    pub use crate::interfaces::netlink::{News, news};
}

pub use config::{FaceOptions, FaceUpdate, FacesConfig};
pub use counters::FaceCounters;
pub use error::FaceError;
pub use faces::{Faces, Lane, Stray, Twins, Whence};
pub use heap::free_at_once;
pub use inherited::{InheritedUnix, take_inherited};
pub use nw_element_api::{FaceId, FaceInfo, Instant, LinkType, Scope};
pub use shm::fault::SharedMemoryFault;
pub use status::{CloseReason, FaceEvent, FaceFlags, FaceStatus, ListenerStatus, Persistency, UdpBuffer};
pub use uri::FaceUri;
pub use websocket::fault::WebSocketFault;
