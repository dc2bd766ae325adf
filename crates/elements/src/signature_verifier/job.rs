//! Jobs: several signatures to be verified together, on any thread.

use nw_element_api::{OffloadTask, Pool, ReadLease};
use nw_trust::{VerifyKey, verify_digest};
use nw_wire::SignatureType;
use std::ops::Range;
use std::sync::Arc;

/// How a signature is verified.
#[derive(Clone, Debug)]
pub(super) enum VerifyMethod {
    /// As a plain SHA-256 digest.
    Digest,
    /// With a public or shared key.
    Key(Arc<VerifyKey>, SignatureType),
}

impl VerifyMethod {
    /// Returns whether the signature over the parts, in order, is valid.
    pub fn verify(&self, parts: &[&[u8]], signature: &[u8]) -> bool {
        match self {
            VerifyMethod::Digest => verify_digest(parts, signature).is_ok(),
            VerifyMethod::Key(key, typ) => key.verify(*typ, parts, signature).is_ok(),
        }
    }
}

/// One signature to verify.
#[derive(Debug)]
pub(super) struct Item {
    by: VerifyMethod,
    /// The packet's bytes.
    pub bytes: ReadLease,
    signed: Signed,
    /// Slot in which the verifier holds the packet.
    pub slot: usize,
    pub valid: bool,
}

/// Byte ranges in a packet: the signed parts, in order, and the signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signed {
    parts: [Range<usize>; 3],
    signature: Range<usize>,
}

impl Signed {
    /// Computes the ranges. The parts and the signature must be slices of `packet`.
    pub fn of(packet: &[u8], parts: &[&[u8]; 3], signature: &[u8]) -> Self {
        let slot = |part: &[u8]| match part.is_empty() {
            true => 0..0,
            false => {
                let start = part.as_ptr().addr() - packet.as_ptr().addr();
                start..start + part.len()
            }
        };
        Signed { parts: parts.map(slot), signature: slot(signature) }
    }
}

/// Signatures to verify, with all that is needed for it. The packets are held by the verifier
/// meanwhile; their bytes are leased.
#[derive(Debug, Default)]
pub(super) struct VerifyJob {
    pub items: Vec<Item>,
}

impl VerifyJob {
    /// Creates an empty job with capacity for this many packets.
    pub fn with_capacity(packets: usize) -> Self {
        VerifyJob { items: Vec::with_capacity(packets) }
    }

    /// Adds a signature to verify.
    pub fn push(&mut self, by: VerifyMethod, bytes: ReadLease, signed: Signed, slot: usize) {
        self.items.push(Item { by, bytes, signed, slot, valid: false });
    }

    /// Ends all leases without verifying.
    pub fn cancel(&mut self, pool: &mut Pool) {
        self.items.drain(..).for_each(|item| pool.end_lease(item.bytes));
    }

    /// Returns whether it has no signatures.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl OffloadTask for VerifyJob {
    /// Verifies all signatures.
    fn run(&mut self) {
        for Item { by, bytes, signed, valid, .. } in &mut self.items {
            let parts = signed.parts.each_ref().map(|part| &bytes[part.clone()]);
            *valid = by.verify(non_empty_parts(&parts), &bytes[signed.signature.clone()]);
        }
    }
}

/// Returns the parts without empty ones at the end.
pub(super) fn non_empty_parts<'p, 'a>(parts: &'p [&'a [u8]; 3]) -> &'p [&'a [u8]] {
    if parts[1].is_empty() && parts[2].is_empty() { &parts[..1] } else { parts }
}
