//! The publish/subscribe service of a node.
//!
//! Invariant: the service has a thread of its own and shares nothing with forwarding. While it is
//! not enabled, nothing of it exists.
#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod domain;
mod last_values;
mod matching;
mod node;
mod publisher;
mod relay;
mod remote;
mod requests;
mod rules;
mod service;
mod session;
mod status;

pub use service::{PubSubService, StartError};
