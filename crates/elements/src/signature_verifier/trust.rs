//! Who may sign what: known keys, chains of certificates to anchors, and rules that tie names of Data to names of keys.

use super::Fault;
use nw_element_api::Instant;
use nw_name::{Name, NameRef};
use nw_trust::chain::{Chains, Step, key_name};
use nw_trust::{Anchor, Pattern, Refusal, VerifyKey, Vouch};
use nw_wire::KeyLocator;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys found by chains that are remembered at one time.
const SIGNERS_MAX: usize = 1024;
/// A chain that led to an anchor is followed again after so long, as its certificates end.
const FOLLOW_AGAIN_MS: u64 = 10_000;
/// Certificates that are missing and remembered as such.
pub const WANTED_MAX: usize = 64;
/// All anchors are in one set.
const ANCHORS: u64 = 1;

/// Keys whose names are like this may sign names like that; what a variable stands for in one it stands for in the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustRule {
    /// The names.
    pub data: Pattern,
    /// The keys.
    pub signer: Pattern,
}

/// What a verifier believes.
#[derive(Clone, Debug, Default)]
pub struct TrustConfig {
    /// Keys that are known by name, and believed at all times.
    pub keys: Vec<(Name, VerifyKey)>,
    /// Keys that are believed, and those they vouch for, while their certificates are valid.
    pub anchors: Vec<Anchor>,
    /// Who may vouch for whom; none: an identity for names below it.
    pub vouch: Vec<Vouch>,
    /// Who may sign what; none: whoever is believed may sign anything.
    pub rules: Vec<TrustRule>,
    /// A plain digest is enough for all names. It keeps nobody from making up Data.
    pub accept_digest: bool,
}

/// A key, and whose it is.
#[derive(Clone, Debug)]
struct Signer {
    key_name: Name,
    key: Arc<VerifyKey>,
    until: Instant,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Trust {
    known: BTreeMap<Name, Arc<VerifyKey>>,
    /// Names of known keys by their digest.
    digests: BTreeMap<[u8; 32], Name>,
    rules: Vec<TrustRule>,
    pub accept_digest: bool,
    chains: Chains,
    has_anchors: bool,
    /// By what a KeyLocator holds.
    signers: BTreeMap<Name, Signer>,
    wanted: Vec<Name>,
    /// Milliseconds since 1970 at the host's beginning of time.
    start_ms: u64,
}

impl Trust {
    /// By other keys and rules from now on. Certificates stay.
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
        self.wanted.clear();
    }

    /// Tells what time it is outside.
    pub const fn set_clock(&mut self, now: Instant, unix_ms: u64) {
        self.start_ms = unix_ms.saturating_sub(now.as_millis());
    }

    /// Keeps a certificate. Nothing is believed by that.
    pub fn add_certificate(&mut self, wire: &[u8]) -> Result<(), Refusal> {
        let name = self.chains.add(wire)?;
        let is_it = |wanted: &Name| {
            wanted.as_ref() == name.as_ref() || key_name(name.as_ref()) == Some(wanted.as_ref())
        };
        self.wanted.retain(|wanted| !is_it(wanted));
        Ok(())
    }

    /// Certificates that were missing, by their names or those of their keys.
    pub fn wanted(&self) -> &[Name] {
        &self.wanted
    }

    /// True when a Data of this name may be a certificate that was missing.
    pub fn wants(&self, name: NameRef<'_>) -> bool {
        self.wanted.iter().any(|wanted| wanted.as_ref().is_prefix_of(name))
    }

    /// The key that made a signature, if it may sign the name.
    pub fn key(
        &mut self,
        now: Instant,
        locator: KeyLocator<'_>,
        name: NameRef<'_>,
    ) -> Result<Arc<VerifyKey>, Fault> {
        if let Some((key_name, key)) = self.known(locator) {
            return may_sign(&self.rules, key_name, name).map(|()| Arc::clone(key));
        }
        if !self.has_anchors {
            return Err(Fault::UnknownKey);
        }
        let is_fresh = |signer: &&Signer| signer.until > now;
        if let KeyLocator::Name(by) = locator
            && let Some(signer) = self.signers.get(by.as_bytes()).filter(is_fresh)
        {
            return may_sign(&self.rules, signer.key_name.as_ref(), name).map(|()| Arc::clone(&signer.key));
        }
        self.follow(now, locator, name)
    }

    /// By the key's name, the name of one of its certificates, or its digest.
    fn known(&self, locator: KeyLocator<'_>) -> Option<(NameRef<'_>, &Arc<VerifyKey>)> {
        let by_name = |name: &[u8]| self.known.get_key_value(name).map(|(name, key)| (name.as_ref(), key));
        match locator {
            KeyLocator::Name(name) => {
                by_name(name.as_bytes()).or_else(|| by_name(key_name(name)?.as_bytes()))
            }
            KeyLocator::Digest(digest) => by_name(self.digests.get(digest)?.as_ref().as_bytes()),
        }
    }

    #[cold]
    fn follow(
        &mut self,
        now: Instant,
        locator: KeyLocator<'_>,
        name: NameRef<'_>,
    ) -> Result<Arc<VerifyKey>, Fault> {
        let now_s = (self.start_ms + now.as_millis()) / 1000;
        let (key_name, key) = match self.chains.follow(locator, ANCHORS, now_s) {
            Step::Trusted(key_name, key) => (key_name, Arc::new(key)),
            Step::Fetch(missing) => {
                if self.wanted.len() < WANTED_MAX && !self.wanted.contains(&missing) {
                    self.wanted.push(missing);
                }
                return Err(Fault::CertificateMissing);
            }
            Step::Bad(_) => return Err(Fault::BadChain),
            Step::Refused(Refusal::UnknownKey) => return Err(Fault::UnknownKey),
            Step::Refused(_) => return Err(Fault::BadChain),
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

fn may_sign(rules: &[TrustRule], signer: NameRef<'_>, name: NameRef<'_>) -> Result<(), Fault> {
    let allowed =
        rules.is_empty() || rules.iter().any(|rule| rule.signer.matches_with(signer, &rule.data, name));
    if allowed { Ok(()) } else { Err(Fault::NotAllowed) }
}
