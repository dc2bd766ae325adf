//! Transports, listeners and the link service of one shard.
//!
//! [`Faces`] owns every face: it turns readiness of sockets into decoded packets and queued packets into gathered writes. Non-blocking,
//! driven by the host's epoll loop; no thread, no async runtime, no clock. Layer 4 (edges): refuses to know tables.

#![deny(unsafe_code)] // but for the two modules that say so: datagram::sys and datagram::packet

pub mod config;
pub mod counters;
mod datagram;
pub mod error;
mod faces;
pub mod interfaces;
pub mod link;
mod listener;
pub mod mac;
mod memory;
mod outbox;
mod queue;
mod slab;
pub mod status;
mod stream;
mod timers;
pub mod uri;

pub use config::{FaceOptions, FaceUpdate, FacesConfig};
pub use counters::FaceCounters;
pub use error::FaceError;
pub use faces::Faces;
pub use nw_element::{FaceId, FaceInfo, Instant, LinkType, Scope};
pub use status::{CloseReason, FaceEvent, FaceFlags, FaceStatus, ListenerStatus, Persistency, UdpBuffer};
pub use uri::FaceUri;
