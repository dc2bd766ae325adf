//! From a signer's certificate to a trust anchor.
//!
//! ```text
//! command ──KeyLocator──▶ certificate ──KeyLocator──▶ certificate ──KeyLocator──▶ anchor
//!                              each: valid now, its issuer may vouch for its key, its signature verifies
//! ```
//!
//! Certificates that are not here are named ([`Step::Fetch`]) and put in by [`Chains::add`]. What was proven is remembered with the certificate
//! until one of the chain runs out. Bounded: [`DEPTH_MAX`] certificates a chain, [`CERTIFICATES_MAX`] kept.

use crate::certificate::Validity;
use crate::command::Refusal;
use crate::pattern::Pattern;
use crate::verify::{VerifyKey, verify_data};
use nw_name::{Name, NameRef, convention};
use nw_wire::certificate::Certificate;
use nw_wire::{Data, KeyLocator};
use std::collections::BTreeMap;

/// Certificates between a command and an anchor.
pub const DEPTH_MAX: usize = 8;
/// Certificates kept that are no anchors.
pub const CERTIFICATES_MAX: usize = 1024;
/// Sets of anchors.
pub const SETS_MAX: usize = 64;

/// Sets of anchors, a bit each.
pub type Sets = u64;

/// A key that is believed without anybody vouching for it.
#[derive(Clone, Debug)]
pub struct Anchor {
    key_name: Name,
    key: VerifyKey,
    validity: Validity,
}

impl Anchor {
    /// The key of a certificate.
    ///
    /// # Errors
    /// [`crate::Error::Packet`] when it is no certificate, [`crate::Error::NotAKey`], or [`crate::Error::OutOfTime`] when its validity is on no calendar.
    pub fn of(wire: &[u8]) -> Result<Self, crate::Error> {
        let certificate = Certificate::check(wire)?;
        Ok(Anchor {
            key_name: certificate.key_name().to_name(),
            key: VerifyKey::from_spki(certificate.public_key())?,
            validity: Validity::of(&certificate).ok_or(crate::Error::OutOfTime)?,
        })
    }

    /// The name of its key.
    pub fn key_name(&self) -> NameRef<'_> {
        self.key_name.as_ref()
    }

    /// When it is believed.
    pub const fn validity(&self) -> Validity {
        self.validity
    }
}

/// Who may sign whose certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vouch {
    /// The key that a certificate is for.
    pub certificate: Pattern,
    /// The key that signs it.
    pub signer: Pattern,
}

/// What following a signer's chain comes to.
#[derive(Clone, Debug)]
pub enum Step {
    /// It leads to an anchor: the signer's key and its name.
    Trusted(Name, VerifyKey),
    /// This certificate is missing.
    Fetch(Name),
    /// This certificate, by the name it was asked for, has a wrong signature and was dropped.
    Bad(Name),
    /// It leads nowhere.
    Refused(Refusal),
}

#[derive(Clone, Debug)]
struct Stored {
    wire: Vec<u8>,
    key_name: Name,
    key: VerifyKey,
    validity: Validity,
    /// Sets of anchors that the chain from here leads to, and when all of that chain is valid.
    proven: (Sets, Validity),
    /// For making room: the last use.
    used: u64,
}

/// Anchors, certificates, and who may vouch for whom.
#[derive(Debug, Default)]
pub struct Chains {
    anchors: Vec<(Sets, Anchor)>,
    vouch: Vec<Vouch>,
    /// By name.
    stored: BTreeMap<Name, Stored>,
    uses: u64,
}

impl Chains {
    /// Other anchors and rules; what was proven by the former is to be proven again. Certificates stay.
    pub fn reconfigure(&mut self, anchors: Vec<(Sets, Anchor)>, vouch: Vec<Vouch>) {
        self.anchors = anchors;
        self.vouch = vouch;
        self.stored.values_mut().for_each(|stored| stored.proven = (0, Validity::NEVER));
    }

    /// Keeps a certificate. Nothing is believed by that.
    ///
    /// # Errors
    /// [`Refusal::BadCertificate`] when it is none, or its key none that can be used.
    pub fn add(&mut self, wire: &[u8]) -> Result<Name, Refusal> {
        let certificate = Certificate::check(wire).map_err(|_| Refusal::BadCertificate)?;
        let key = VerifyKey::from_spki(certificate.public_key()).map_err(|_| Refusal::BadCertificate)?;
        let validity = Validity::of(&certificate).ok_or(Refusal::BadCertificate)?;
        let name = certificate.data().name().to_name();
        self.uses += 1;
        if self.stored.len() >= CERTIFICATES_MAX && !self.stored.contains_key(&name) {
            // What leads to an anchor stays before what anyone may have made.
            let oldest = self.stored.iter().min_by_key(|(_, stored)| (stored.proven.0 != 0, stored.used));
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                self.stored.remove(&oldest);
            }
        }
        let key_name = certificate.key_name().to_name();
        let stored = Stored {
            wire: wire.to_vec(),
            key_name,
            key,
            validity,
            proven: (0, Validity::NEVER),
            used: self.uses,
        };
        self.stored.insert(name.clone(), stored);
        Ok(name)
    }

    /// Certificates kept, anchors aside.
    pub fn len(&self) -> usize {
        self.stored.len()
    }

    /// True when no certificate is kept.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// Follows a signer to one of the anchors in `sets`, at a second since 1970.
    pub fn follow(&mut self, signer: KeyLocator<'_>, sets: Sets, now_s: u64) -> Step {
        // Certificates by their names, and by the names that led to them.
        let mut path: Vec<(Name, Name)> = Vec::new();
        let mut locator = match signer {
            KeyLocator::Name(name) => Some(name.to_name()),
            KeyLocator::Digest(_) => None,
        };
        let (mut key, mut proven) = loop {
            let by = match (&locator, signer) {
                (Some(name), _) => KeyLocator::Name(name.as_ref()),
                (None, digest) => digest,
            };
            match self.anchor(by, sets, now_s) {
                Some(Ok((anchor, _))) if path.is_empty() => {
                    return Step::Trusted(anchor.key_name.clone(), anchor.key.clone());
                }
                Some(Ok((anchor, of))) => break (anchor.key.clone(), (of, anchor.validity)),
                Some(Err(refusal)) => return Step::Refused(refusal),
                None => {}
            }
            // A digest names nothing that could be asked for.
            let Some(name) = &locator else { return Step::Refused(Refusal::UnknownKey) };
            let Some(stored_name) = self.find(name.as_ref(), now_s) else { return Step::Fetch(name.clone()) };
            if path.iter().any(|(passed, _)| *passed == stored_name) {
                return Step::Refused(Refusal::ChainLoop);
            }
            if path.len() == DEPTH_MAX {
                return Step::Refused(Refusal::ChainTooDeep);
            }
            self.uses += 1;
            let uses = self.uses;
            let stored = self.stored.get_mut(&stored_name).expect("it was just found");
            stored.used = uses;
            if !stored.validity.contains(now_s) {
                return Step::Refused(Refusal::CertificateOutOfTime);
            }
            let (of, valid) = stored.proven;
            if of & sets != 0 && valid.contains(now_s) {
                if path.is_empty() {
                    return Step::Trusted(stored.key_name.clone(), stored.key.clone());
                }
                break (stored.key.clone(), stored.proven);
            }
            let data = Data::check(&stored.wire).expect("it was checked when it was added");
            let Some(KeyLocator::Name(issuer)) = data.signature_info().key_locator() else {
                return Step::Refused(Refusal::BadCertificate);
            };
            let issuer = issuer.to_name();
            if !self.may_vouch(self.stored[&stored_name].key_name.as_ref(), issuer.as_ref()) {
                return Step::Refused(Refusal::NotVouched);
            }
            path.push((stored_name, locator.replace(issuer).expect("it was a name")));
        };
        // From the anchor down: each certificate by the key above it.
        for (name, asked) in path.iter().rev() {
            let stored = self.stored.get_mut(name).expect("it is on the path");
            let data = Data::check(&stored.wire).expect("it was checked when it was added");
            if verify_data(&data, &key).is_err() {
                // Another may be had under this name.
                self.stored.remove(name);
                return Step::Bad(asked.clone());
            }
            proven.1 = proven.1.and(stored.validity);
            stored.proven = proven;
            key = stored.key.clone();
        }
        let signer = self.stored[&path[0].0].key_name.clone();
        Step::Trusted(signer, key)
    }

    /// The anchor of this name or digest in these sets. `Some(Err)` when its time is over or has not come.
    fn anchor(&self, by: KeyLocator<'_>, sets: Sets, now_s: u64) -> Option<Result<(&Anchor, Sets), Refusal>> {
        let is = |anchor: &Anchor| match by {
            KeyLocator::Name(name) => is_of_key(name, anchor.key_name.as_ref()),
            KeyLocator::Digest(digest) => anchor.key.key_digest().is_some_and(|own| own == digest),
        };
        let mut found = self.anchors.iter().filter(|(of, anchor)| of & sets != 0 && is(anchor)).peekable();
        found.peek()?;
        let valid = found.find(|(_, anchor)| anchor.validity.contains(now_s));
        Some(valid.map(|(of, anchor)| (anchor, *of)).ok_or(Refusal::CertificateOutOfTime))
    }

    /// The stored certificate a locator means: of that name, or of that key; of several the latest that is valid.
    fn find(&self, locator: NameRef<'_>, now_s: u64) -> Option<Name> {
        if self.stored.contains_key(locator.as_bytes()) {
            return Some(locator.to_name());
        }
        let of_key = |stored: &Stored| stored.key_name.as_ref() == locator;
        let candidates = self.stored.iter().filter(|(_, stored)| of_key(stored));
        candidates
            .max_by_key(|(name, stored)| {
                (stored.validity.contains(now_s), convention::version(name.as_ref()))
            })
            .map(|(name, _)| name.clone())
    }

    /// Without rules: an identity vouches for itself and the names below it.
    fn may_vouch(&self, subject: NameRef<'_>, issuer: NameRef<'_>) -> bool {
        let Some(issuer) = key_name(issuer) else { return false };
        if self.vouch.is_empty() {
            return identity(issuer).is_prefix_of(identity(subject));
        }
        self.vouch.iter().any(|rule| rule.signer.matches_with(issuer, &rule.certificate, subject))
    }
}

/// The key that a locator names, which may name a certificate of it. `None` when it names neither.
pub fn key_name(locator: NameRef<'_>) -> Option<NameRef<'_>> {
    let is_key = |index| locator.component(index) == Some(convention::KEY);
    if is_key(-4) {
        return Some(locator.prefix(locator.len() - 2));
    }
    is_key(-2).then_some(locator)
}

/// Whose key it is.
fn identity(key_name: NameRef<'_>) -> NameRef<'_> {
    key_name.prefix(key_name.len().saturating_sub(2))
}

/// True when the locator is the key's name or that of a certificate of it.
fn is_of_key(locator: NameRef<'_>, key: NameRef<'_>) -> bool {
    locator == key || locator.len() == key.len() + 2 && key.is_prefix_of(locator)
}
