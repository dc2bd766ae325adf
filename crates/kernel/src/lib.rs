//! Kernel programs that bring each packet to its shard, and their user side: loading, attaching, counting.
//!
//! The programs are in `bpf/`. They choose as [`nw_wire::shard::shard_of_packet`] does, to the bit; the choice saves a hand-over between
//! threads and is never relied upon: whoever decodes a packet sends on what came to a wrong shard.
//!
//! Layer 4 (edges): refuses to know faces, tables and what a router does with a packet.

#![forbid(unsafe_code)]

pub mod balancer;
mod counters;
mod error;
mod object;
mod reuseport;
mod xdp;

pub use counters::ShardCounters;
pub use error::KernelError;
pub use reuseport::Dispatch;
pub use xdp::{XdpMode, XdpOptions, XdpSteering};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
