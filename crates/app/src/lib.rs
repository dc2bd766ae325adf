//! What applications link: consumer, producer, segmented fetch and publish.
//!
//! Layer 6 (users). [`Client`] is one face to a router; [`object::fetch_object`] and [`publish::Publication`] carry files;
//! [`fetch::Fetcher`] is the pure part that decides what to ask for when.

#![forbid(unsafe_code)]

pub mod client;
pub mod control;
pub mod fetch;
pub mod held;
pub mod import;
pub mod keystore;
pub mod object;
pub mod packet;
pub mod publish;
pub mod rtt;
pub mod transport;
pub mod verify;
pub mod window;

pub use client::{Client, ClientError, Outgoing, Received};
pub use nw_faces::FaceUri;
