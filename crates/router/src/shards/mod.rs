//! Several shards: threads that share nothing. Each has its own tables, buffers and UDP sockets,
//! and forwards the names that the hash assigns to it.
//!
//! ```text
//!            UDP socket 0      UDP socket 1        one port: the kernel selects by name if it can
//!                 │                 │
//!  unix, TCP, … ─▶ shard 0 ◀─rings─▶ shard 1        packets of another shard are copied once
//!                 │                 │
//!               control ─commands─▶                 ◀─events── counters
//! ```
//!
//! Shard 0 is the event loop of [`Host`](crate::Host): it has control and all faces, and receives
//! packets of unknown peers. Every other shard ([`worker`]) has the same plane, and replicas of UDP
//! and Ethernet faces.
//!
//! The owner of a packet:
//!
//! * An Interest belongs to the shard of its name (without an implicit digest).
//! * Data or a Nack with one of our PIT tokens belongs to the shard that issued the token; without
//!   a token, to the shard of its name.
//! * Data without a token is also offered to shards in which a prefix of its name may be pending
//!   ([`pending_prefix_filter`]).
//!
//! The kernel's selection of sockets is only an optimisation: a packet on the wrong shard is handed
//! over.

pub mod command;
mod fib_replica;
mod host_shards;
mod pending_prefix_filter;
pub mod ring_message;
mod shard_links;
pub mod shard_pool;
mod worker;

pub use shard_pool::ShardPool;
