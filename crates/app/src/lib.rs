//! The library for applications: consumer, producer, segmented fetch and publish.
//!
//! Layer 6 (users). [`Client`] is one face to a router; [`object::fetch_object`] and
//! [`publish::Publication`] transfer files; [`fetch::Fetcher`] is the pure state machine that
//! decides which segment to request when.

#![forbid(unsafe_code)]

pub mod client;
pub mod control;
pub mod enrol;
pub mod fetch;
pub mod import;
pub mod keystore;
pub mod object;
pub mod packet;
pub mod publish;
pub mod pubsub;
pub mod queue_delay;
pub mod rtt;
pub mod snapshot;
pub mod sync;
pub mod transport;
pub mod verify;
pub mod window;

pub use client::{Client, ClientError, Outgoing, Received};
pub use nw_faces::FaceUri;
