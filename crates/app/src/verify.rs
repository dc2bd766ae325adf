//! Which fetched Data are accepted: digests always match, signatures are verified as far as keys are known, or must be by a trusted key.
//!
//! ```text
//! Data ─▶ SHA-256 digest wrong ─▶ refused                          always
//!      ─▶ key known here (key store, anchors, shared secret) ─▶ signature verified, refused if it does not match
//!      ─▶ any other signature ─▶ accepted, unless a trusted signature is required
//! ```
//!
//! Nothing is sent here: a certificate that is missing is named, and the caller fetches it.

use core::fmt;
use nw_api::config::{ANY, DataTrust};
use nw_name::{ComponentType, Name, NameRef};
use nw_trust::chain::{Chains, DEPTH_MAX, Step, key_name};
use nw_trust::{Allow, Anchor, Pattern, Refusal, Side, VerifyKey, Vouch, certificate, verify_data};
use nw_wire::{Data, KeyLocator, SignatureType};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Times one certificate is fetched before a signature that needs it is refused.
const CERTIFICATE_TRIES_MAX: u32 = 2;
/// Certificates fetched for one verifier: chains are short, so more is an attempt to keep it busy.
const CERTIFICATES_MAX: usize = 16 * DEPTH_MAX;
/// The set of anchors that are not in a trust file.
const OWN_SET: u64 = 1 << 63;

/// Why a Data packet is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is not what its producer signed.
    #[error("its content does not match its SHA-256 digest: it was damaged or changed on the way")]
    Digest,
    /// A signature by a key that is known here.
    #[error(
        "its signature is not by the key {0}: it was damaged, changed, or made by another key of that name"
    )]
    Signature(String),
    /// A signature by a trusted key is required.
    #[error("it is signed by {signer}, which is not trusted: {why}")]
    NotTrusted {
        /// The key locator, or what stands for it.
        signer: String,
        /// Why not.
        why: String,
    },
    /// Its name ends in a digest, which names packets and is no part of their names.
    #[error("its name ends in an implicit digest")]
    Name,
}

/// What is known of an accepted Data packet's signer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signer {
    /// A digest: the content is whole, its producer is not known.
    Digest,
    /// A key, verified.
    Verified(Name),
    /// A key or signature type that is not known here: not verified.
    Unverified(String),
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Signer::Digest => f.write_str("signed by a digest, which identifies no signer"),
            Signer::Verified(key) => write!(f, "signed by {key}, verified"),
            Signer::Unverified(signer) => write!(f, "signed by {signer}, not verified"),
        }
    }
}

/// Result of looking at one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Accepted.
    Accepted(Signer),
    /// Not known before this certificate is fetched; see [`Verifier::add_certificate`].
    Needs(Name),
}

/// Why anchors or rules can't be read.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file.
    #[error("can't read {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What is no certificate.
    #[error("{place} is no certificate that can be an anchor")]
    Anchor {
        /// Where it is.
        place: String,
        /// Why not.
        source: nw_trust::Error,
    },
    /// Mistakes in a trust file.
    #[error("{0}")]
    Rules(nw_api::config::Problems),
}

/// Decides which Data are accepted.
#[derive(Debug, Default)]
pub struct Verifier {
    is_off: bool,
    required: bool,
    secrets: Vec<(Option<Name>, VerifyKey)>,
    chains: Chains,
    anchors: Vec<(u64, Anchor)>,
    issuers: Vec<Vouch>,
    /// Empty: every name, by every signer whose certificates lead to an anchor.
    rules: Vec<Allow>,
    /// Certificates fetched or asked for, and how often.
    asked: BTreeMap<Name, u32>,
}

impl Verifier {
    /// Accepts everything: for measurements whose packets carry no valid signature.
    pub fn off() -> Self {
        Verifier { is_off: true, ..Verifier::default() }
    }

    /// Requires a signature by a trusted key from now on.
    pub const fn require_trusted(&mut self) {
        self.required = true;
    }

    /// True when a signature by a trusted key is required.
    pub const fn requires_trusted(&self) -> bool {
        self.required
    }

    /// True when there is no key that could verify anything.
    pub fn is_without_keys(&self) -> bool {
        self.anchors.is_empty() && self.secrets.is_empty() && self.rules.is_empty()
    }

    /// Adds a secret that HMAC signatures are verified by; with a name, only those of that key locator.
    pub fn add_secret(&mut self, name: Option<Name>, secret: &[u8]) {
        self.secrets.push((name, VerifyKey::from_secret(secret)));
    }

    /// Adds a certificate whose key is trusted.
    ///
    /// # Errors
    /// When it is no certificate.
    pub fn add_anchor(&mut self, wire: &[u8]) -> Result<(), nw_trust::Error> {
        self.anchors.push((OWN_SET, Anchor::of(wire)?));
        self.configure();
        Ok(())
    }

    /// As [`add_anchor`](Self::add_anchor), from a file: as it is, in base64 or in PEM.
    ///
    /// # Errors
    /// When it can't be read, or is no certificate.
    pub fn add_anchor_file(&mut self, path: &Path) -> Result<(), TrustError> {
        let anchor = read_anchor(path)?;
        self.anchors.push((OWN_SET, anchor));
        self.configure();
        Ok(())
    }

    /// Adds the anchors and rules of a trust file. Relative paths in it start at its folder.
    ///
    /// # Errors
    /// All mistakes in it, or an anchor that can't be read.
    pub fn add_trust_file(&mut self, path: &Path) -> Result<(), TrustError> {
        let text = fs::read_to_string(path).map_err(|source| file_error(path, source))?;
        let trust = DataTrust::parse(&path.display().to_string(), &text).map_err(TrustError::Rules)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut sets = BTreeMap::new();
        for (index, item) in trust.anchor.iter().enumerate() {
            let set = 1u64 << index; // at most 64, `DataTrust` says
            sets.insert(item.id.as_str(), set);
            if let Some(file) = &item.file {
                self.anchors.push((set, read_anchor(&folder.join(file))?));
            }
            if let Some(base64) = &item.base64 {
                self.anchors.push((set, anchor_of(&format!("anchor {}", item.id), base64.as_bytes())?));
            }
            for path in item.folder.iter().map(|inner| certificates_in(&folder.join(inner))) {
                for path in path? {
                    self.anchors.push((set, read_anchor(&path)?));
                }
            }
        }
        for rule in &trust.allow {
            let any = rule.anchors.iter().any(|id| id == ANY);
            self.rules.push(Allow {
                id: rule.id.clone(),
                side: Side::Both,
                anchors: (!any).then(|| rule.anchors.iter().filter_map(|id| sets.get(id.as_str())).sum()),
                signer: rule.signer.clone(),
                privileges: core::iter::empty().collect(),
                prefix: rule.prefix.clone(),
            });
        }
        let issuers = trust.vouch.into_iter();
        self.issuers.extend(issuers.map(|rule| Vouch { certificate: rule.certificate, signer: rule.signer }));
        self.configure();
        Ok(())
    }

    fn configure(&mut self) {
        self.chains.reconfigure(self.anchors.clone(), self.issuers.clone());
    }

    /// Looks at one packet, at the present time.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn check(&mut self, data: &Data<'_>) -> Result<Finding, Invalid> {
        if self.is_off {
            return Ok(Finding::Accepted(Signer::Unverified("anybody".to_owned())));
        }
        check_digest(data)?;
        let info = data.signature_info();
        let locator = info.key_locator();
        let signer = describe(locator);
        let is_digest = info.typ() == SignatureType::DigestSha256;
        if info.typ() == SignatureType::HmacWithSha256
            && let Some(finding) = self.check_secret(data, locator, &signer)
        {
            return finding;
        }
        let by_rules = match locator {
            Some(locator) if !is_digest => self.check_chain(data, locator),
            _ => self.check_unsigned(data),
        };
        match by_rules {
            Err(Invalid::NotTrusted { .. }) if !self.required && is_digest => {
                Ok(Finding::Accepted(Signer::Digest))
            }
            Ok(Finding::Needs(_)) | Err(Invalid::NotTrusted { .. }) if !self.required => {
                Ok(Finding::Accepted(Signer::Unverified(signer)))
            }
            other => other,
        }
    }

    /// By a shared secret. `None` when none is of that name.
    fn check_secret(
        &self,
        data: &Data<'_>,
        locator: Option<KeyLocator<'_>>,
        signer: &str,
    ) -> Option<Result<Finding, Invalid>> {
        let named = match locator {
            Some(KeyLocator::Name(name)) => Some(name),
            _ => None,
        };
        let fits = |name: &Option<Name>| name.is_none() || name.as_ref().map(Name::as_ref) == named;
        let mut secrets = self.secrets.iter().filter(|(name, _)| fits(name)).peekable();
        secrets.peek()?;
        let verified = secrets.any(|(_, key)| verify_data(data, key).is_ok());
        Some(match verified {
            true => Ok(Finding::Accepted(Signer::Verified(named.map(NameRef::to_name).unwrap_or_default()))),
            false => Err(Invalid::Signature(signer.to_owned())),
        })
    }

    /// Of a digest, or a signature that names no key.
    fn check_unsigned(&self, data: &Data<'_>) -> Result<Finding, Invalid> {
        let any = |rule: &Allow| rule.anchors.is_none() && rule.fits(None, Some(data.name()));
        if self.rules.iter().any(any) {
            return Ok(Finding::Accepted(Signer::Digest));
        }
        let why = "a signature by a trusted key is required".to_owned();
        Err(Invalid::NotTrusted { signer: "a plain digest".to_owned(), why })
    }

    fn check_chain(&mut self, data: &Data<'_>, locator: KeyLocator<'_>) -> Result<Finding, Invalid> {
        let signer = describe(Some(locator));
        let named = match locator {
            KeyLocator::Name(name) => key_name(name),
            KeyLocator::Digest(_) => None,
        };
        let mut rules = core::mem::take(&mut self.rules);
        let of_file = rules.len();
        let has_own = self.anchors.iter().any(|(set, _)| *set == OWN_SET);
        if of_file == 0 || has_own {
            rules.push(Allow {
                id: "anchors".to_owned(),
                side: Side::Both,
                anchors: Some(if of_file == 0 { u64::MAX } else { OWN_SET }),
                signer: None,
                privileges: core::iter::empty().collect(),
                prefix: Pattern::any(),
            });
        }
        let mut refusal = Refusal::NotAllowed;
        let mut needs = None;
        let mut accepted = None;
        for rule in &rules {
            match self.check_rule(rule, data, locator, named) {
                Ok(Finding::Needs(name)) => needs = needs.or(Some(name)),
                Ok(finding) => {
                    accepted = Some(finding);
                    break;
                }
                // What is wrong with a signer of the right name says more than that no rule names it.
                Err(Refusal::NotAllowed) => {}
                Err(why) => refusal = why,
            }
        }
        rules.truncate(of_file);
        self.rules = rules;
        match (accepted, needs) {
            (Some(finding), _) => Ok(finding),
            (None, Some(name)) => Ok(Finding::Needs(name)),
            (None, None) if refusal == Refusal::BadSignature => Err(Invalid::Signature(signer)),
            (None, None) => Err(Invalid::NotTrusted { signer, why: explain(refusal).to_owned() }),
        }
    }

    fn check_rule(
        &mut self,
        rule: &Allow,
        data: &Data<'_>,
        locator: KeyLocator<'_>,
        named: Option<NameRef<'_>>,
    ) -> Result<Finding, Refusal> {
        let Some(sets) = rule.anchors else {
            let fits = rule.fits(named, Some(data.name()));
            let unverified = || Finding::Accepted(Signer::Unverified(describe(Some(locator))));
            return fits.then(unverified).ok_or(Refusal::NotAllowed);
        };
        if named.is_none() && matches!(locator, KeyLocator::Name(_)) {
            return Err(Refusal::UnknownKey);
        }
        if named.is_some() && !rule.fits(named, Some(data.name())) {
            return Err(Refusal::NotAllowed);
        }
        match self.chains.follow(locator, sets, now_s()) {
            Step::Trusted(key_name, key) => {
                if !rule.fits(Some(key_name.as_ref()), Some(data.name())) {
                    return Err(Refusal::NotAllowed);
                }
                verify_data(data, &key).map_err(|_| Refusal::BadSignature)?;
                Ok(Finding::Accepted(Signer::Verified(key_name)))
            }
            Step::Fetch(name) if !self.is_given_up(&name) => Ok(Finding::Needs(name)),
            Step::Fetch(_) => Err(Refusal::CertificateMissing),
            // Another certificate may be had under this name.
            Step::Bad(name) if !self.is_given_up(&name) => Ok(Finding::Needs(name)),
            Step::Bad(_) => Err(Refusal::BadCertificate),
            Step::Refused(refusal) => Err(refusal),
        }
    }

    fn is_given_up(&self, certificate: &Name) -> bool {
        let tries = self.asked.get(certificate).copied().unwrap_or(0);
        tries >= CERTIFICATE_TRIES_MAX || tries == 0 && self.asked.len() >= CERTIFICATES_MAX
    }

    /// Takes in a certificate that was fetched because a packet needs it; `None` when it could not be had. Nothing is trusted by that.
    pub fn add_certificate(&mut self, needed: &Name, wire: Option<&[u8]>) {
        *self.asked.entry(needed.clone()).or_default() += 1;
        if let Some(wire) = wire {
            // What is none is missing still, and the packet is refused.
            let _ = self.chains.add(wire);
        }
    }
}

/// The checks for every packet, whatever its signer.
///
/// # Errors
/// When its digest is wrong.
pub fn check_digest(data: &Data<'_>) -> Result<(), Invalid> {
    if data.name().component(-1).is_some_and(|last| last.typ() == ComponentType::IMPLICIT_DIGEST) {
        return Err(Invalid::Name);
    }
    if data.signature_info().typ() != SignatureType::DigestSha256 {
        return Ok(());
    }
    nw_trust::verify_digest(&[data.signed_portion()], data.signature_value()).map_err(|_| Invalid::Digest)
}

fn describe(locator: Option<KeyLocator<'_>>) -> String {
    match locator {
        Some(KeyLocator::Name(name)) => name.to_string(),
        Some(KeyLocator::Digest(digest)) => {
            let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("the key with digest {hex}…")
        }
        None => "a signature that names no key".to_owned(),
    }
}

/// What a refusal means for a packet that was fetched.
const fn explain(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NotAllowed => "no rule lets this key sign this name",
        Refusal::CertificateMissing => "a certificate between it and an anchor could not be fetched",
        Refusal::CertificateOutOfTime => "a certificate between it and an anchor is not valid now",
        Refusal::BadCertificate => {
            "what stands for a certificate between it and an anchor is none, or is wrong"
        }
        Refusal::NotVouched => "a certificate's issuer may not sign certificates for that name",
        Refusal::ChainLoop => "its certificates lead back to themselves and to no anchor",
        Refusal::ChainTooDeep => "there are too many certificates between it and an anchor",
        _ => "its certificates lead to no anchor",
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn file_error(path: &Path, source: io::Error) -> TrustError {
    TrustError::File { path: path.to_owned(), source }
}

fn read_anchor(path: &Path) -> Result<Anchor, TrustError> {
    let bytes = fs::read(path).map_err(|source| file_error(path, source))?;
    anchor_of(&path.display().to_string(), &bytes)
}

fn anchor_of(place: &str, bytes: &[u8]) -> Result<Anchor, TrustError> {
    let anchor = certificate::read_file(bytes).and_then(|wire| Anchor::of(&wire));
    anchor.map_err(|source| TrustError::Anchor { place: place.to_owned(), source })
}

/// Files of a folder that end as certificates do, in order.
fn certificates_in(folder: &Path) -> Result<Vec<PathBuf>, TrustError> {
    let entries = fs::read_dir(folder).map_err(|source| file_error(folder, source))?;
    let is_certificate = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ["cert", "ndncert", "pem"].contains(&ending))
    };
    let mut paths: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_certificate).collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests;
