//! Signatures to be verified elsewhere, some at a time.

use nw_element_api::{Loan, Pool, Work};
use nw_trust::{VerifyKey, verify_digest};
use nw_wire::SignatureType;
use std::ops::Range;
use std::sync::Arc;

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
    /// The packet's, and what of them is signed.
    pub octets: Loan,
    signed: Signed,
    /// Where its packet is held.
    pub place: usize,
    pub valid: bool,
}

/// Where in a packet the parts are that are signed, one after the other, and the signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signed {
    parts: [Range<usize>; 3],
    signature: Range<usize>,
}

impl Signed {
    /// Of parts of `packet`.
    pub fn of(packet: &[u8], parts: &[&[u8]; 3], signature: &[u8]) -> Self {
        let place = |part: &[u8]| match part.is_empty() {
            true => 0..0,
            false => {
                let start = part.as_ptr().addr() - packet.as_ptr().addr();
                start..start + part.len()
            }
        };
        Signed { parts: parts.map(place), signature: place(signature) }
    }
}

/// Some signatures with all that is needed to verify them, so that any thread can. Their packets wait until it is back; their octets are lent.
#[derive(Debug, Default)]
pub(super) struct VerifyJob {
    pub items: Vec<Item>,
}

impl VerifyJob {
    /// With room for so many packets.
    pub fn with_capacity(packets: usize) -> Self {
        VerifyJob { items: Vec::with_capacity(packets) }
    }

    pub fn push(&mut self, by: By, octets: Loan, signed: Signed, place: usize) {
        self.items.push(Item { by, octets, signed, place, valid: false });
    }

    /// Gives back what is lent; nothing is verified.
    pub fn give_up(&mut self, pool: &mut Pool) {
        self.items.drain(..).for_each(|item| pool.end_loan(item.octets));
    }

    /// True without signatures.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

impl Work for VerifyJob {
    /// Verifies them all.
    fn run(&mut self) {
        for Item { by, octets, signed, valid, .. } in &mut self.items {
            let parts = signed.parts.each_ref().map(|part| &octets[part.clone()]);
            *valid = by.verify(whole(&parts), &octets[signed.signature.clone()]);
        }
    }
}

/// The parts, but for those of which there is nothing.
pub(super) fn whole<'p, 'a>(parts: &'p [&'a [u8]; 3]) -> &'p [&'a [u8]] {
    if parts[1].is_empty() && parts[2].is_empty() { &parts[..1] } else { parts }
}
