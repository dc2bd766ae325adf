//! The link layer of a face, without sockets: link packets in, network packets out, and back.
//!
//! ```text
//!  bytes of a socket ─▶ LinkService::receive ─▶ network packet, decoded (Meta complete)
//!  Outbox            ◀─ LinkService::send    ◀─ network packet + link fields
//! ```
//!
//! * [`service`]: NDNLPv2: fragmentation, reassembly, reliability, congestion marking.
//! * [`websocket`]: RFC 6455 frames and handshake.
//! * [`uri`]: face URIs. [`counters`]: what a face counts. [`outbox`]: link packets ready to send.
//!
//! Layer 3, pure: time, randomness and packets are arguments. The crate opens no socket and reads
//! no clock; the simulator runs it in virtual time. The one contact with the system is name
//! resolution by the standard library ([`FaceUri::resolve`], and zone names of IPv6 addresses).

#![forbid(unsafe_code)]

pub mod config;
pub mod counters;
pub mod error;
pub mod flags;
pub mod mac;
pub mod outbox;
pub mod service;
pub mod uri;
pub mod websocket;

pub use config::{FaceOptions, FaceUpdate, LinkDefaults, ReassemblyLimits, ReliabilityLimits};
pub use counters::{DropRecorder, FaceCounters, ReliabilityCounters, ShapingCounters};
pub use error::LinkError;
pub use flags::{FaceFlags, Persistency};
pub use mac::Mac;
pub use outbox::Outbox;
pub use service::{
    LinkService, LinkSettings, QueueState, ReassemblyBudget, ReceiveWindow, ShapingState, Source,
};
pub use uri::FaceUri;
