//! N shards: threads that share nothing, each with tables, buffers and UDP sockets of its own, each forwarding the names whose hash falls to it.
//!
//! ```text
//!            UDP socket 0      UDP socket 1        one port: the kernel chooses by name where it can
//!                 │                 │
//!  unix, TCP, … ─▶ shard 0 ◀─rings─▶ shard 1        what is another's is handed over, copied once
//!                 │                 │
//!               control ──orders──▶                 ◀─tidings── counters
//! ```
//!
//! The first shard is [`Host`](crate::Host)'s own loop: control, all faces, strangers. Another ([`worker`]) has the same plane and lanes of UDP and Ethernet faces.
//! Whose a packet is: an Interest is its name's (without implicit digest); a Data or Nack is that shard's whose token it carries, otherwise its name's,
//! and a Data is shown besides to shards in which a prefix of its name is pending ([`board`]). The kernel's choice need not be right for this to be.

mod board;
pub mod crew;
mod exchange;
mod first;
mod keeper;
pub mod order;
pub mod parcel;
mod worker;

pub use crew::Crew;
