//! The publish/subscribe service of a node.
//!
//! Invariant: the service has a thread of its own and shares nothing with forwarding. While it is
//! not enabled, nothing of it exists.
#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod blackadder;
mod blackadder_domain;
mod coalescing;
mod domain;
mod ethernet_links;
mod keeping;
mod kernel_forwarding;
mod last_values;
mod matching;
mod node;
mod pattern_set;
mod presence;
mod publisher;
mod relay;
mod remote;
mod requests;
mod rules;
mod scopes;
mod service;
mod serving;
mod session;
mod sockets;
mod status;
mod subscriptions;

/// The domain as one node sees it, without sockets, for benchmarks.
#[doc(hidden)]
pub mod raw {
    pub use crate::domain::{Domain, LaterUse, LinkAddress, Target};
    pub use crate::pattern_set::PatternSet;
}

pub use service::{PubSubService, StartError};
