//! The last packets that failed verification, for operators.

use nw_element_api::{FaceId, Timestamp};
use nw_name::NameRef;

/// Why verification failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The signature does not match.
    Mismatch,
    /// The key is not configured, and there is no anchor it could be certified by.
    UnknownKey,
    /// A certificate is missing: see
    /// [`missing_certificates`](super::SignatureVerifier::missing_certificates).
    CertificateMissing,
    /// Its certificate chain does not lead to an anchor, or is not valid now.
    BadChain,
    /// No trust rule allows this key to sign this name.
    NotAllowed,
    /// It has a plain digest where a signature is required, or no signature.
    Unsigned,
}

impl Fault {
    /// Returns the fault as text.
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

/// A packet that failed verification.
#[derive(Clone, Debug)]
pub struct Failure {
    name: Vec<u8>,
    /// Hash of the name.
    hash: u64,
    /// Whether a packet with the same hash was valid later: fakes compete with good packets.
    pub is_contested: bool,
    /// The fault.
    pub fault: Fault,
    /// Its ingress face.
    pub ingress: FaceId,
    /// Time of arrival.
    pub at: Timestamp,
}

impl Failure {
    /// Returns the packet's name.
    pub fn name(&self) -> NameRef<'_> {
        NameRef::from_checked(&self.name)
    }
}

/// A ring of the last failures.
#[derive(Debug)]
pub(super) struct Failures {
    last: Vec<Failure>,
    max: usize,
    next: usize,
    total: u64,
}

impl Failures {
    /// Creates a ring of `max` failures.
    pub fn new(max: usize) -> Self {
        Failures { last: Vec::new(), max, next: 0, total: 0 }
    }

    /// Records a failure in place of the oldest one.
    pub fn record(
        &mut self,
        at: Timestamp,
        (name, hash): (NameRef<'_>, u64),
        fault: Fault,
        ingress: FaceId,
    ) {
        self.total += 1;
        if self.last.len() < self.max {
            let name = name.as_bytes().to_vec();
            self.last.push(Failure { name, hash, is_contested: false, fault, ingress, at });
        } else if let Some(oldest) = self.last.get_mut(self.next) {
            oldest.name.clear();
            oldest.name.extend_from_slice(name.as_bytes());
            (oldest.fault, oldest.ingress, oldest.at) = (fault, ingress, at);
            (oldest.hash, oldest.is_contested) = (hash, false);
            self.next = (self.next + 1) % self.max;
        }
    }

    /// Marks failures with the same name hash as a valid packet.
    #[inline]
    pub fn mark_contested(&mut self, hash: u64) {
        let same = self.last.iter_mut().filter(|failure| failure.hash == hash);
        same.for_each(|failure| failure.is_contested = true);
    }

    /// Returns the number of failures so far.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the failures, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Failure> {
        let (newer, older) = self.last.split_at(self.next.min(self.last.len()));
        older.iter().chain(newer)
    }
}
