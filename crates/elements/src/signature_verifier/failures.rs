//! The last packets that failed, for whoever can do something about it.

use nw_element_api::{FaceId, Instant};
use nw_name::NameRef;

/// Why a packet is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The signature does not fit.
    Mismatch,
    /// Nobody told us of the key, and nothing leads from it to an anchor.
    UnknownKey,
    /// A certificate is missing: see [`wanted`](super::SignatureVerifier::wanted).
    CertificateMissing,
    /// Its certificates lead nowhere, or not now.
    BadChain,
    /// This key may not sign this name.
    NotAllowed,
    /// A digest, where that is not enough, or no signature at all.
    Unsigned,
}

impl Fault {
    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Fault::Mismatch => "the signature does not match",
            Fault::UnknownKey => "the key is not known",
            Fault::CertificateMissing => "a certificate is missing",
            Fault::BadChain => "its certificates do not lead to an anchor",
            Fault::NotAllowed => "no rule lets this key sign this name",
            Fault::Unsigned => "it is not signed by a key",
        }
    }
}

/// A packet that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    name: Vec<u8>,
    /// Why.
    pub fault: Fault,
    /// By which face it came.
    pub ingress: FaceId,
    /// When.
    pub at: Instant,
}

impl Failure {
    /// Its name.
    pub fn name(&self) -> NameRef<'_> {
        NameRef::from_checked(&self.name)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Failures {
    last: Vec<Failure>,
    max: usize,
    next: usize,
}

impl Failures {
    pub fn new(max: usize) -> Self {
        Failures { last: Vec::new(), max, next: 0 }
    }

    pub fn note(&mut self, at: Instant, name: NameRef<'_>, fault: Fault, ingress: FaceId) {
        if self.last.len() < self.max {
            self.last.push(Failure { name: name.as_bytes().to_vec(), fault, ingress, at });
        } else if let Some(oldest) = self.last.get_mut(self.next) {
            oldest.name.clear();
            oldest.name.extend_from_slice(name.as_bytes());
            (oldest.fault, oldest.ingress, oldest.at) = (fault, ingress, at);
            self.next = (self.next + 1) % self.max;
        }
    }

    /// The oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Failure> {
        let (newer, older) = self.last.split_at(self.next.min(self.last.len()));
        older.iter().chain(newer)
    }
}
