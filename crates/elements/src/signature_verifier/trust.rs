//! Trust: known keys, certificate chains to anchors, and rules that tie names of Data to names of
//! keys.

use super::Fault;
use nw_element_api::Timestamp;
use nw_name::{Name, NameRef};
use nw_trust::chain::{ChainResult, ChainValidator, key_name};
use nw_trust::{Anchor, IssuerRule, Pattern, Refusal, VerifyKey};
use nw_wire::KeyLocator;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most keys found by chains that are remembered.
const SIGNERS_MAX: usize = 1024;
/// Milliseconds after which a chain that led to an anchor is validated again, as certificates
/// expire.
const FOLLOW_AGAIN_MS: u64 = 10_000;
/// Most missing certificates that are listed.
pub const MISSING_MAX: usize = 64;
/// All anchors are in one set.
const ANCHORS: u64 = 1;

/// A trust rule: keys that match `signer` may sign names that match `data`. A variable in both
/// patterns must stand for the same components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustRule {
    /// Pattern of Data and Interest names.
    pub data: Pattern,
    /// Pattern of key names.
    pub signer: Pattern,
}

/// Trust configuration of a verifier.
#[derive(Clone, Debug, Default)]
pub struct TrustConfig {
    /// Known keys by name, trusted at all times.
    pub keys: Vec<(Name, VerifyKey)>,
    /// Trust anchors: keys that are trusted while their certificates are valid, and that may issue
    /// certificates.
    pub anchors: Vec<Anchor>,
    /// Rules for which key may issue certificates for which others; none: an identity for names
    /// below it.
    pub vouch: Vec<IssuerRule>,
    /// Rules for which key may sign which name; none: any trusted key may sign any name.
    pub rules: Vec<TrustRule>,
    /// Whether a plain digest is accepted for all names. It gives no authenticity.
    pub accept_digest: bool,
}

/// A key found by a chain, until it has to be validated again.
#[derive(Clone, Debug)]
struct Signer {
    key_name: Name,
    key: Arc<VerifyKey>,
    until: Timestamp,
}

/// Keys, rules and certificates of a verifier.
#[derive(Debug, Default)]
pub(super) struct Trust {
    known: BTreeMap<Name, Arc<VerifyKey>>,
    /// Names of known keys by their digest.
    digests: BTreeMap<[u8; 32], Name>,
    rules: Vec<TrustRule>,
    pub accept_digest: bool,
    chains: ChainValidator,
    has_anchors: bool,
    /// Keys found by chains, by KeyLocator name.
    signers: BTreeMap<Name, Signer>,
    missing: Vec<Name>,
    /// Wall clock at [`Timestamp::START`], milliseconds since 1970.
    start_ms: u64,
}

impl Trust {
    /// Changes keys and rules. Certificates stay.
    pub fn configure(&mut self, config: TrustConfig) {
        let digest = |(name, key): &(Name, VerifyKey)| Some((key.key_digest()?, name.clone()));
        self.digests = config.keys.iter().filter_map(digest).collect();
        self.known = config.keys.into_iter().map(|(name, key)| (name, Arc::new(key))).collect();
        self.has_anchors = !config.anchors.is_empty();
        let anchors = config.anchors.into_iter().map(|anchor| (ANCHORS, anchor)).collect();
        self.chains.reconfigure(anchors, config.vouch);
        self.rules = config.rules;
        self.accept_digest = config.accept_digest;
        self.signers.clear();
        self.missing.clear();
    }

    /// Sets the wall clock.
    pub const fn set_clock(&mut self, now: Timestamp, unix_ms: u64) {
        self.start_ms = unix_ms.saturating_sub(now.as_millis());
    }

    /// Stores a certificate. This does not make its key trusted.
    pub fn add_certificate(&mut self, wire: &[u8]) -> Result<(), Refusal> {
        let name = self.chains.add(wire)?;
        let is_found = |missing: &Name| {
            missing.as_ref() == name.as_ref() || key_name(name.as_ref()) == Some(missing.as_ref())
        };
        self.missing.retain(|missing| !is_found(missing));
        Ok(())
    }

    /// Stores the certificates of the configuration in place of those of an earlier one. Returns
    /// why some can't be used.
    pub fn set_certificates(&mut self, certificates: &[Vec<u8>]) -> Vec<Refusal> {
        self.signers.clear();
        self.missing.clear();
        self.chains.set_configured(certificates)
    }

    /// Returns the names of missing certificates, or of their keys.
    pub fn missing_certificates(&self) -> &[Name] {
        &self.missing
    }

    /// Returns whether a Data of this name may be a missing certificate.
    pub fn is_missing(&self, name: NameRef<'_>) -> bool {
        self.missing.iter().any(|missing| missing.as_ref().is_prefix_of(name))
    }

    /// Returns the key that made a signature, if it may sign the name.
    pub fn key(
        &mut self,
        now: Timestamp,
        locator: KeyLocator<'_>,
        name: NameRef<'_>,
    ) -> Result<Arc<VerifyKey>, Fault> {
        if let Some((key_name, key)) = self.known_key(locator) {
            return may_sign(&self.rules, key_name, name).map(|()| Arc::clone(key));
        }
        if !self.has_anchors {
            return Err(Fault::UnknownKey);
        }
        let is_fresh = |signer: &&Signer| signer.until > now;
        if let KeyLocator::Name(by) = locator
            && let Some(signer) = self.signers.get(by.as_bytes()).filter(is_fresh)
        {
            return may_sign(&self.rules, signer.key_name.as_ref(), name)
                .map(|()| Arc::clone(&signer.key));
        }
        self.follow_chain(now, locator, name)
    }

    /// Finds a known key by its name, the name of one of its certificates, or its digest.
    fn known_key(&self, locator: KeyLocator<'_>) -> Option<(NameRef<'_>, &Arc<VerifyKey>)> {
        let by_name =
            |name: &[u8]| self.known.get_key_value(name).map(|(name, key)| (name.as_ref(), key));
        match locator {
            KeyLocator::Name(name) => {
                by_name(name.as_bytes()).or_else(|| by_name(key_name(name)?.as_bytes()))
            }
            KeyLocator::Digest(digest) => by_name(self.digests.get(digest)?.as_ref().as_bytes()),
        }
    }

    /// Validates the certificate chain of a key. Missing certificates are added to `missing`.
    #[cold]
    fn follow_chain(
        &mut self,
        now: Timestamp,
        locator: KeyLocator<'_>,
        name: NameRef<'_>,
    ) -> Result<Arc<VerifyKey>, Fault> {
        let now_s = (self.start_ms + now.as_millis()) / 1000;
        let (key_name, key) = match self.chains.validate(locator, ANCHORS, now_s) {
            ChainResult::Trusted(key_name, key) => (key_name, Arc::new(key)),
            ChainResult::Fetch(missing) => {
                if self.missing.len() < MISSING_MAX && !self.missing.contains(&missing) {
                    self.missing.push(missing);
                }
                return Err(Fault::CertificateMissing);
            }
            ChainResult::Bad(_) => return Err(Fault::BadChain),
            ChainResult::Refused(Refusal::UnknownKey) => return Err(Fault::UnknownKey),
            ChainResult::Refused(_) => return Err(Fault::BadChain),
        };
        let allowed = may_sign(&self.rules, key_name.as_ref(), name);
        if let KeyLocator::Name(by) = locator {
            if self.signers.len() >= SIGNERS_MAX {
                let oldest = self.signers.iter().min_by_key(|(_, signer)| signer.until);
                let oldest = oldest.map(|(by, _)| by.clone());
                oldest.map(|by| self.signers.remove(&by));
            }
            let until = now.plus_millis(FOLLOW_AGAIN_MS);
            self.signers.insert(by.to_name(), Signer { key_name, key: Arc::clone(&key), until });
        }
        allowed.map(|()| key)
    }
}

/// Checks a name against the trust rules.
fn may_sign(rules: &[TrustRule], signer: NameRef<'_>, name: NameRef<'_>) -> Result<(), Fault> {
    let allowed = rules.is_empty()
        || rules.iter().any(|rule| rule.signer.matches_with(signer, &rule.data, name));
    if allowed { Ok(()) } else { Err(Fault::NotAllowed) }
}
