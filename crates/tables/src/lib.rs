//! FIB, PIT, content store, dead nonce list and measurements: bounded at construction, the clock
//! passed in.
//!
//! Layer 2 (state). This crate does not depend on how packets come in or leave: it has no socket,
//! no thread and no clock.

#![deny(unsafe_code)]

pub mod arena;
pub mod bytes;
pub mod cs;
pub mod dnl;
pub mod fib;
pub mod index;
pub mod measurements;
#[allow(unsafe_code)]
pub mod memory;
pub mod pit;
pub mod prefix_map;
pub mod sketch;
#[cfg(test)]
mod test_util;

pub use nw_packet_types::{
    FaceId, FaceInfo, FaceTable, InterestKey, LinkType, Peer, Scope, Timestamp,
};
