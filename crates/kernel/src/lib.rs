//! Kernel programs that bring each packet to its shard, and the balancer's; with their user side:
//! loading, attaching, counting.
//!
//! The programs are in `bpf/`. They choose shards exactly as [`nw_wire::shard::shard_of_packet`]
//! does. The choice saves a hand-over between threads, but correctness does not depend on it: a
//! packet that arrives at a wrong shard is handed over.
//!
//! Layer 4 (edges): does not depend on faces, tables and what a router does with a packet.

#![forbid(unsafe_code)]

pub mod balancer;
mod counters;
mod error;
mod lipsin;
mod object;
mod reuseport;
mod xdp;

pub use counters::ShardCounters;
pub use error::KernelError;
pub use lipsin::{
    LIPSIN_LINKS_MAX, LIPSIN_TABLES, LipsinCounters, LipsinLink, LipsinLinks, LipsinProgram,
    NO_LINK_ID,
};
pub use reuseport::ReuseportProgram;
pub use xdp::{XdpMode, XdpOptions, XdpProgram};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
