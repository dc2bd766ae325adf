//! Certificate chains: from a signer's certificate to a trust anchor.
//!
//! ```text
//! command ──KeyLocator──▶ certificate ──KeyLocator──▶ certificate ──KeyLocator──▶ anchor
//!           each certificate: valid now, issuer allowed to issue for its key, signature verified
//! ```
//!
//! The validator does no I/O: a missing certificate is returned as [`ChainResult::Fetch`], and
//! [`ChainValidator::add`] stores it once it has arrived. The result of a validated chain is cached
//! with its certificates until the first certificate of the chain expires.
//!
//! Bounds: [`DEPTH_MAX`] certificates per chain, [`CERTIFICATES_MAX`] stored certificates.

use crate::certificate::Validity;
use crate::command::Refusal;
use crate::pattern::Pattern;
use crate::verify::{VerifyKey, verify_data};
use nw_name::{Name, NameRef, convention};
use nw_wire::certificate::Certificate;
use nw_wire::{Data, KeyLocator};
use std::collections::BTreeMap;

/// Maximum number of certificates between a command and an anchor.
pub const DEPTH_MAX: usize = 8;
/// Maximum number of stored certificates, anchors not counted.
pub const CERTIFICATES_MAX: usize = 1024;
/// Maximum number of anchor sets.
pub const ANCHOR_SETS_MAX: usize = 64;

/// A set of anchor sets, one bit for each.
pub type AnchorSet = u64;

/// A trust anchor: a key that is trusted without a certificate chain.
#[derive(Clone, Debug)]
pub struct Anchor {
    key_name: Name,
    key: VerifyKey,
    validity: Validity,
}

impl Anchor {
    /// Reads the anchor from its certificate.
    ///
    /// # Errors
    /// [`crate::Error::Packet`] if `wire` is not a certificate, [`crate::Error::NotAKey`] if its
    /// key
    /// is unusable, [`crate::Error::OutsideValidity`] if its validity period has an invalid date.
    pub fn from_certificate(wire: &[u8]) -> Result<Self, crate::Error> {
        let certificate = Certificate::check(wire)?;
        Ok(Anchor {
            key_name: certificate.key_name().to_name(),
            key: VerifyKey::from_spki(certificate.public_key())?,
            validity: Validity::from_certificate(&certificate)
                .ok_or(crate::Error::OutsideValidity)?,
        })
    }

    /// Returns the name of the anchor's key.
    pub fn key_name(&self) -> NameRef<'_> {
        self.key_name.as_ref()
    }

    /// Returns the period in which the anchor is trusted.
    pub const fn validity(&self) -> Validity {
        self.validity
    }
}

/// A rule that allows a signer to issue certificates: variables shared by both patterns must match
/// the same components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerRule {
    /// Matches the name of the certified key.
    pub certificate: Pattern,
    /// Matches the name of the issuer's key.
    pub signer: Pattern,
}

/// The result of validating a signer's certificate chain.
#[derive(Clone, Debug)]
pub enum ChainResult {
    /// The chain leads to an anchor: name and key of the signer.
    Trusted(Name, VerifyKey),
    /// The certificate of this name is missing.
    Fetch(Name),
    /// The certificate fetched by this name has a wrong signature and was removed.
    Bad(Name),
    /// The chain does not lead to an anchor.
    Refused(Refusal),
}

#[derive(Clone, Debug)]
struct Stored {
    wire: Vec<u8>,
    key_name: Name,
    key: VerifyKey,
    validity: Validity,
    /// The anchor sets this certificate's chain leads to, and the period in which all certificates
    /// of the chain are valid. Empty if not validated yet.
    proven: (AnchorSet, Validity),
    /// The value of `uses` at the last use, for eviction.
    used: u64,
}

/// Validates certificate chains; stores anchors, certificates and issuer rules.
#[derive(Debug, Default)]
pub struct ChainValidator {
    anchors: Vec<(AnchorSet, Anchor)>,
    issuer_rules: Vec<IssuerRule>,
    /// By certificate name.
    stored: BTreeMap<Name, Stored>,
    /// Names of the certificates that the configuration gives.
    configured: Vec<Name>,
    uses: u64,
}

impl ChainValidator {
    /// Replaces anchors and issuer rules. Certificates stay, but are validated again.
    pub fn reconfigure(
        &mut self,
        anchors: Vec<(AnchorSet, Anchor)>,
        issuer_rules: Vec<IssuerRule>,
    ) {
        self.anchors = anchors;
        self.issuer_rules = issuer_rules;
        self.stored.values_mut().for_each(|stored| stored.proven = (0, Validity::NEVER));
    }

    /// Stores a certificate without trusting it, and returns its name. If full, evicts the least
    /// recently used certificate, those not validated first.
    ///
    /// # Errors
    /// [`Refusal::BadCertificate`] if `wire` is not a certificate with a usable key.
    pub fn add(&mut self, wire: &[u8]) -> Result<Name, Refusal> {
        let certificate = Certificate::check(wire).map_err(|_| Refusal::BadCertificate)?;
        let key =
            VerifyKey::from_spki(certificate.public_key()).map_err(|_| Refusal::BadCertificate)?;
        let validity = Validity::from_certificate(&certificate).ok_or(Refusal::BadCertificate)?;
        let name = certificate.data().name().to_name();
        self.uses += 1;
        if self.stored.len() >= CERTIFICATES_MAX && !self.stored.contains_key(&name) {
            // A validated certificate is worth more than one that anyone may have made.
            let oldest =
                self.stored.iter().min_by_key(|(_, stored)| (stored.proven.0 != 0, stored.used));
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

    /// Stores the certificates of the configuration, and removes those of an earlier one that are
    /// not among them. All chains are validated anew, as some may have led through these. Returns
    /// why some can't be used.
    pub fn set_configured(&mut self, certificates: &[Vec<u8>]) -> Vec<Refusal> {
        for name in core::mem::take(&mut self.configured) {
            self.stored.remove(&name);
        }
        self.stored.values_mut().for_each(|stored| stored.proven = (0, Validity::NEVER));
        let mut refusals = Vec::new();
        for wire in certificates {
            match self.add(wire) {
                Ok(name) => self.configured.push(name),
                Err(refusal) => refusals.push(refusal),
            }
        }
        refusals
    }

    /// Returns the number of stored certificates, anchors not counted.
    pub fn len(&self) -> usize {
        self.stored.len()
    }

    /// Returns whether no certificate is stored.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// Validates the chain from a signer to one of the anchors in `sets`, at a second since 1970.
    ///
    /// The first part climbs from the signer to an anchor or to a certificate whose chain is
    /// cached. The second part verifies the signatures on the way down, each by the key above it.
    pub fn validate(&mut self, signer: KeyLocator<'_>, sets: AnchorSet, now_s: u64) -> ChainResult {
        // (stored certificate name, the name it was requested by), from the signer upwards.
        let mut path: Vec<(Name, Name)> = Vec::new();
        let mut locator = match signer {
            KeyLocator::Name(name) => Some(name.to_name()),
            KeyLocator::Digest(_) => None,
        };
        let (mut key, mut proven) = loop {
            let issuer_locator = match (&locator, signer) {
                (Some(name), _) => KeyLocator::Name(name.as_ref()),
                (None, digest) => digest,
            };
            match self.anchor(issuer_locator, sets, now_s) {
                Some(Ok((anchor, _))) if path.is_empty() => {
                    return ChainResult::Trusted(anchor.key_name.clone(), anchor.key.clone());
                }
                Some(Ok((anchor, of))) => break (anchor.key.clone(), (of, anchor.validity)),
                Some(Err(refusal)) => return ChainResult::Refused(refusal),
                None => {}
            }
            // A key digest can't be turned into the name of a certificate to fetch.
            let Some(name) = &locator else { return ChainResult::Refused(Refusal::UnknownKey) };
            let Some(stored_name) = self.find(name.as_ref(), now_s) else {
                return ChainResult::Fetch(name.clone());
            };
            if path.iter().any(|(visited, _)| *visited == stored_name) {
                return ChainResult::Refused(Refusal::ChainLoop);
            }
            if path.len() == DEPTH_MAX {
                return ChainResult::Refused(Refusal::ChainTooDeep);
            }
            self.uses += 1;
            let uses = self.uses;
            let stored = self.stored.get_mut(&stored_name).expect("it was just found");
            stored.used = uses;
            if !stored.validity.contains(now_s) {
                return ChainResult::Refused(Refusal::CertificateOutsideValidity);
            }
            let (of, valid) = stored.proven;
            if of & sets != 0 && valid.contains(now_s) {
                if path.is_empty() {
                    return ChainResult::Trusted(stored.key_name.clone(), stored.key.clone());
                }
                break (stored.key.clone(), stored.proven);
            }
            let data = Data::check(&stored.wire).expect("it was checked when it was added");
            let Some(KeyLocator::Name(issuer)) = data.signature_info().key_locator() else {
                return ChainResult::Refused(Refusal::BadCertificate);
            };
            let issuer = issuer.to_name();
            if !self.may_issue_for(self.stored[&stored_name].key_name.as_ref(), issuer.as_ref()) {
                return ChainResult::Refused(Refusal::IssuerNotAllowed);
            }
            path.push((stored_name, locator.replace(issuer).expect("it was a name")));
        };
        for (name, requested) in path.iter().rev() {
            let stored = self.stored.get_mut(name).expect("it is on the path");
            let data = Data::check(&stored.wire).expect("it was checked when it was added");
            if verify_data(&data, &key).is_err() {
                // Removed, as another certificate may be available under this name.
                self.stored.remove(name);
                return ChainResult::Bad(requested.clone());
            }
            proven.1 = proven.1.and(stored.validity);
            stored.proven = proven;
            key = stored.key.clone();
        }
        let signer = self.stored[&path[0].0].key_name.clone();
        ChainResult::Trusted(signer, key)
    }

    /// Returns the valid anchor of this key name or digest in `sets`, with its sets. `None` if
    /// there is no such anchor, `Some(Err)` if it is not valid now.
    fn anchor(
        &self,
        by: KeyLocator<'_>,
        sets: AnchorSet,
        now_s: u64,
    ) -> Option<Result<(&Anchor, AnchorSet), Refusal>> {
        let is = |anchor: &Anchor| match by {
            KeyLocator::Name(name) => is_of_key(name, anchor.key_name.as_ref()),
            KeyLocator::Digest(digest) => anchor.key.key_digest().is_some_and(|own| own == digest),
        };
        let mut found =
            self.anchors.iter().filter(|(of, anchor)| of & sets != 0 && is(anchor)).peekable();
        found.peek()?;
        let valid = found.find(|(_, anchor)| anchor.validity.contains(now_s));
        Some(valid.map(|(of, anchor)| (anchor, *of)).ok_or(Refusal::CertificateOutsideValidity))
    }

    /// Returns the name of the stored certificate that a locator refers to: by certificate name, or
    /// by key name. Of several for one key, the latest version that is valid now.
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

    /// Returns whether `issuer` may issue a certificate for `subject`. Without rules, an identity
    /// may issue for itself and for names below it.
    fn may_issue_for(&self, subject: NameRef<'_>, issuer: NameRef<'_>) -> bool {
        let Some(issuer) = key_name(issuer) else { return false };
        if self.issuer_rules.is_empty() {
            return identity(issuer).is_prefix_of(identity(subject));
        }
        self.issuer_rules
            .iter()
            .any(|rule| rule.signer.matches_with(issuer, &rule.certificate, subject))
    }
}

/// Returns the key name in a key locator, which is the name of a key or of its certificate. `None`
/// if it is neither.
pub fn key_name(locator: NameRef<'_>) -> Option<NameRef<'_>> {
    let is_key = |index| locator.component(index) == Some(convention::KEY);
    if is_key(-4) {
        return Some(locator.prefix(locator.len() - 2));
    }
    is_key(-2).then_some(locator)
}

/// Returns the identity part of a key name.
fn identity(key_name: NameRef<'_>) -> NameRef<'_> {
    key_name.prefix(key_name.len().saturating_sub(2))
}

/// Returns whether the locator is the name of the key or of one of its certificates.
fn is_of_key(locator: NameRef<'_>, key: NameRef<'_>) -> bool {
    locator == key || locator.len() == key.len() + 2 && key.is_prefix_of(locator)
}
