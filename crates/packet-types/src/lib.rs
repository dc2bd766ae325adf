//! The vocabulary that packet processing shares: [`FaceId`] and the table of faces, [`Timestamp`],
//! [`InterestKey`], [reproducible random numbers](random).
//!
//! Layer 1: depends on `nw-name` only. It has no socket, no clock, no table of packets.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod face;
mod interest_key;
pub mod random;
mod timestamp;

pub use face::{FaceId, FaceInfo, FaceTable, LinkType, Peer, Scope};
pub use interest_key::InterestKey;
pub use timestamp::Timestamp;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
