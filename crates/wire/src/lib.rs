//! NDN packets and NDNLPv2 link packets: checked views over bytes, and builders.
//!
//! One file per format: the checked view, the builder, tests. A view is checked once by `check`;
//! after that its accessors can't fail. Errors name the fault and its byte offset. Layer 1: it
//! depends on names only, not on tables or faces.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod data;
pub mod dissect;
pub mod forwarding;
pub mod interest;
mod interest_builder;
pub mod lp;
mod lp_header;
pub mod publication;
pub mod shard;
pub mod signature;
mod span;
pub mod types;

pub use data::{Data, DataBuilder};
pub use interest::{Interest, InterestBuilder};
pub use lp::{LpHeader, LpPacket, NackReason, Token};
pub use nw_name::tlv::{self, Error, Fault, Framing, Reader, Tlv};
pub use signature::{DigestSha256, KeyLocator, Sign, SignatureInfo, SignatureType};
pub use span::Span;

/// Longest network packet (an Interest or a Data, without link header), in bytes.
pub const PACKET_LEN_MAX: usize = 8800;

/// Returns the SHA-256 digest of the parts, in order.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    use sha2::Digest;
    let mut hasher = sha2::Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
