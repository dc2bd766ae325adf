//! Signatures to be verified elsewhere, some at a time.

use nw_element::Work;
use nw_trust::{VerifyKey, verify_digest};
use nw_wire::SignatureType;
use std::ops::Range;
use std::sync::Arc;

/// A job with so many octets is full. Large packets go in small jobs: copying a megabyte ahead costs more than handing over more often.
const OCTETS_FULL: usize = 64 << 10;

/// How a signature is to be verified.
#[derive(Clone, Debug)]
pub(super) enum By {
    /// It is a digest.
    Digest,
    /// By a key.
    Key(Arc<VerifyKey>, SignatureType),
}

impl By {
    /// Verifies a signature over the parts, one after the other.
    pub fn verify(&self, parts: &[&[u8]], signature: &[u8]) -> bool {
        match self {
            By::Digest => verify_digest(parts, signature).is_ok(),
            By::Key(key, typ) => key.verify(*typ, parts, signature).is_ok(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Item {
    by: By,
    signed: Range<usize>,
    signature: Range<usize>,
    /// Where its packet is held.
    pub place: usize,
    pub valid: bool,
}

/// Some signatures with all that is needed to verify them, so that any thread can. Their packets wait until it is back.
#[derive(Debug, Default)]
pub(super) struct VerifyJob {
    octets: Vec<u8>,
    pub items: Vec<Item>,
}

impl VerifyJob {
    /// With room for so many packets.
    pub fn with_capacity(packets: usize) -> Self {
        VerifyJob { octets: Vec::new(), items: Vec::with_capacity(packets) }
    }

    pub fn push(&mut self, by: By, parts: &[&[u8]], signature: &[u8], place: usize) {
        let start = self.octets.len();
        parts.iter().for_each(|part| self.octets.extend_from_slice(part));
        let end = self.octets.len();
        self.octets.extend_from_slice(signature);
        let (signed, signature) = (start..end, end..self.octets.len());
        self.items.push(Item { by, signed, signature, place, valid: false });
    }

    pub fn clear(&mut self) {
        self.octets.clear();
        self.items.clear();
    }

    /// Whether it has as many packets as it may, or as many octets as stay near the processor that copied them until another takes them.
    pub fn is_full(&self, packets_max: usize) -> bool {
        self.items.len() >= packets_max || self.octets.len() >= OCTETS_FULL
    }

    /// True without signatures.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Work for VerifyJob {
    /// Verifies them all.
    fn run(&mut self) {
        for item in &mut self.items {
            let signed = &self.octets[item.signed.clone()];
            item.valid = item.by.verify(&[signed], &self.octets[item.signature.clone()]);
        }
    }
}
