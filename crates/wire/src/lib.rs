//! NDN packets and NDNLPv2: checked views over bytes, and builders.
//!
//! One file per format: numbers, the checked view, the builder, tests. A view is checked once; its accessors can't fail.
//! Layer 1 (words): refuses to know tables and faces.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod data;
pub mod dissect;
pub mod forwarding;
pub mod interest;
mod interest_builder;
pub mod lp;
mod lp_header;
pub mod shard;
pub mod signature;
mod span;
pub mod types;

pub use data::{Data, DataBuilder};
pub use interest::{Interest, InterestBuilder};
pub use lp::{LpHeader, LpPacket, NackReason, Token};
pub use nw_name::tlv::{self, Error, Fault, Framing, Reader, Tlv};
pub use signature::{DigestSha256, KeyLocator, Sign, SignatureInfo, SignatureType};

/// Longest packet: an LpPacket without its link header, an Interest or a Data. Octets.
pub const PACKET_LEN_MAX: usize = 8800;

/// SHA-256 over the parts, one after the other.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    use sha2::Digest;
    let mut hasher = sha2::Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
