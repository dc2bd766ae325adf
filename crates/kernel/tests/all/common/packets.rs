//! NDN packets for tests.

use nw_name::Name;
use nw_wire::lp::LpHeader;
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder};

pub fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

pub fn interest(uri: &str) -> Vec<u8> {
    InterestBuilder::new(name(uri)).nonce(7).encode()
}

/// Returns an Interest with CanBePrefix.
pub fn prefix_interest(uri: &str) -> Vec<u8> {
    InterestBuilder::new(name(uri)).can_be_prefix(true).nonce(7).encode()
}

pub fn data(uri: &str) -> Vec<u8> {
    DataBuilder::new(name(uri).as_ref(), &[7; 100]).encode(&DigestSha256).expect("signed")
}

pub fn link(header: &LpHeader, packet: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    header.encode(packet.len(), &mut wire);
    wire.extend_from_slice(packet);
    wire
}

/// Returns one of `count` fragments, of which the first has `sequence`.
pub fn fragment(sequence: u64, index: u64, count: u64, bytes: &[u8]) -> Vec<u8> {
    let header = LpHeader {
        sequence: Some(sequence.wrapping_add(index)),
        fragment: Some((index, count)),
        ..LpHeader::default()
    };
    link(&header, bytes)
}
