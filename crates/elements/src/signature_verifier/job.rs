//! Signatures to be verified elsewhere, some at a time.

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

/// Some signatures with all that is needed to verify them: any thread may [`run`](Self::run) it. It goes back by
/// [`done`](super::SignatureVerifier::done); the packets wait until then.
#[derive(Debug, Default)]
#[must_use = "packets wait until a job is done"]
pub struct VerifyJob {
    octets: Vec<u8>,
    pub(super) items: Vec<Item>,
}

impl VerifyJob {
    /// With room for so many packets.
    pub(super) fn with_capacity(packets: usize) -> Self {
        VerifyJob { octets: Vec::new(), items: Vec::with_capacity(packets) }
    }

    pub(super) fn push(&mut self, by: By, parts: &[&[u8]], signature: &[u8], place: usize) {
        let start = self.octets.len();
        parts.iter().for_each(|part| self.octets.extend_from_slice(part));
        let end = self.octets.len();
        self.octets.extend_from_slice(signature);
        let (signed, signature) = (start..end, end..self.octets.len());
        self.items.push(Item { by, signed, signature, place, valid: false });
    }

    pub(super) fn clear(&mut self) {
        self.octets.clear();
        self.items.clear();
    }

    /// Signatures in it.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it has as many packets as it may, or as many octets as stay near the processor that copied them until another takes them.
    pub(super) fn is_full(&self, packets_max: usize) -> bool {
        self.len() >= packets_max || self.octets.len() >= OCTETS_FULL
    }

    /// True without signatures.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Verifies them all.
    pub fn run(&mut self) {
        for item in &mut self.items {
            let signed = &self.octets[item.signed.clone()];
            item.valid = item.by.verify(&[signed], &self.octets[item.signature.clone()]);
        }
    }
}

/// Jobs go to other threads.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<VerifyJob>();
};
