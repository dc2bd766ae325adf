//! FIB, PIT, content store, dead nonce list and measurements: bounded at construction, clock passed in.
//!
//! Layer 2 (state): refuses to know how packets come in or leave.

#![deny(unsafe_code)]

pub mod arena;
pub mod ask;
pub mod cs;
pub mod dnl;
pub mod face;
pub mod fib;
pub mod index;
pub mod measurements;
#[allow(unsafe_code)]
pub mod memory;
pub mod octets;
pub mod pit;
pub mod prefix_map;
pub mod sketch;
pub mod time;

pub use ask::Ask;
pub use face::{FaceId, FaceInfo, FaceTable, LinkType, Peer, Scope};
pub use time::Instant;
