//! Decides which fetched Data is accepted: digests must always match; signatures are verified if
//! the key is known, or must be by a trusted key.
//!
//! ```text
//! Data ─▶ SHA-256 digest wrong ─▶ rejected                         always
//!      ─▶ key known (key store, anchors, shared secret) ─▶ signature verified, rejected if wrong
//!      ─▶ any other signature ─▶ accepted, unless a trusted signature is required
//! ```
//!
//! Sends nothing: names the missing certificate, which the caller fetches.

use core::fmt;
use nw_api::config::{ANY, DataTrust};
use nw_name::{ComponentType, Name, NameRef};
use nw_trust::chain::{ChainResult, ChainValidator, DEPTH_MAX, key_name};
use nw_trust::{
    AllowRule, Anchor, FaceScope, IssuerRule, Pattern, Refusal, VerifyKey, certificate, verify_data,
};
use nw_wire::{Data, KeyLocator, SignatureType};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Attempts to fetch one certificate.
const CERTIFICATE_TRIES_MAX: u32 = 2;
/// Certificates fetched for one verifier: chains are short, so more would be an attempt to keep it
/// busy.
const CERTIFICATES_MAX: usize = 16 * DEPTH_MAX;
/// The set of anchors added directly, not by a trust file.
const DIRECT_ANCHOR_SET: u64 = 1 << 63;

/// Reasons why a Data packet is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidData {
    /// The digest is wrong.
    #[error("its content does not match its SHA-256 digest: it was damaged or changed on the way")]
    Digest,
    /// The signature is wrong, and its key is known here.
    #[error(
        "its signature is not by the key {0}: it was damaged, changed, or made by another key of that name"
    )]
    Signature(String),
    /// A signature by a trusted key is required.
    #[error("it is signed by {signer}, which is not trusted: {why}")]
    NotTrusted {
        /// The key locator, or its description.
        signer: String,
        /// The reason.
        why: String,
    },
    /// The name ends in an implicit digest, which is not part of a packet's name.
    #[error("its name ends in an implicit digest")]
    Name,
}

/// Verification result of an accepted Data packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signer {
    /// A digest: the content is intact, its producer unknown.
    Digest,
    /// Signed by this key, verified.
    Verified(Name),
    /// Key or signature type not known here: not verified.
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

/// Result of checking a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Accepted.
    Accepted(Signer),
    /// This certificate must be fetched first; see [`Verifier::add_certificate`].
    NeedsCertificate(Name),
}

/// Reasons why anchors or rules can't be read.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file can't be read.
    #[error("can't read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// An anchor is not a valid certificate.
    #[error("{source_name} is not a certificate that can be an anchor")]
    Anchor {
        /// File or id of the anchor.
        source_name: String,
        /// The reason.
        source: nw_trust::Error,
    },
    /// Mistakes in a trust file.
    #[error("{0}")]
    Rules(nw_api::config::Diagnostics),
}

/// Decides which Data is accepted.
#[derive(Debug, Default)]
pub struct Verifier {
    accepts_all: bool,
    required: bool,
    secrets: Vec<(Option<Name>, VerifyKey)>,
    chains: ChainValidator,
    anchors: Vec<(u64, Anchor)>,
    issuers: Vec<IssuerRule>,
    /// Rules of trust files. Empty: any name, by any signer with a chain to an anchor.
    rules: Vec<AllowRule>,
    /// Certificates requested, with the number of attempts.
    fetch_attempts: BTreeMap<Name, u32>,
}

impl Verifier {
    /// Creates a verifier that accepts everything: for measurements with packets without valid
    /// signatures.
    pub fn off() -> Self {
        Verifier { accepts_all: true, ..Verifier::default() }
    }

    /// Requires a signature by a trusted key from now on.
    pub const fn require_trusted(&mut self) {
        self.required = true;
    }

    /// Returns whether there is no key to verify with.
    pub fn is_without_keys(&self) -> bool {
        self.anchors.is_empty() && self.secrets.is_empty() && self.rules.is_empty()
    }

    /// Adds a shared secret for HMAC signatures; with a name, only for those with that key locator.
    pub fn add_secret(&mut self, name: Option<Name>, secret: &[u8]) {
        self.secrets.push((name, VerifyKey::from_secret(secret)));
    }

    /// Adds a certificate as a trust anchor.
    ///
    /// # Errors
    /// If it is not a valid certificate.
    pub fn add_anchor(&mut self, wire: &[u8]) -> Result<(), nw_trust::Error> {
        self.anchors.push((DIRECT_ANCHOR_SET, Anchor::from_certificate(wire)?));
        self.configure();
        Ok(())
    }

    /// Like [`add_anchor`](Self::add_anchor), from a file: binary, base64 or PEM.
    ///
    /// # Errors
    /// If the file can't be read, or is not a valid certificate.
    pub fn add_anchor_file(&mut self, path: &Path) -> Result<(), TrustError> {
        let anchor = read_anchor(path)?;
        self.anchors.push((DIRECT_ANCHOR_SET, anchor));
        self.configure();
        Ok(())
    }

    /// Adds the anchors and rules of a trust file. Relative paths start at its folder.
    ///
    /// # Errors
    /// All mistakes in it, or an anchor that can't be read.
    pub fn add_trust_file(&mut self, path: &Path) -> Result<(), TrustError> {
        let text = fs::read_to_string(path).map_err(|source| file_error(path, source))?;
        let trust =
            DataTrust::parse(&path.display().to_string(), &text).map_err(TrustError::Rules)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut sets = BTreeMap::new();
        for (index, item) in trust.anchor.iter().enumerate() {
            let set = 1u64 << index; // `DataTrust` allows at most 64
            sets.insert(item.id.as_str(), set);
            if let Some(file) = &item.file {
                self.anchors.push((set, read_anchor(&folder.join(file))?));
            }
            if let Some(base64) = &item.base64 {
                self.anchors
                    .push((set, anchor_of(&format!("anchor {}", item.id), base64.as_bytes())?));
            }
            for path in item.folder.iter().map(|inner| certificates_in(&folder.join(inner))) {
                for path in path? {
                    self.anchors.push((set, read_anchor(&path)?));
                }
            }
        }
        for rule in &trust.allow {
            let any = rule.anchors.iter().any(|id| id == ANY);
            self.rules.push(AllowRule {
                id: rule.id.clone(),
                scope: FaceScope::Both,
                anchors: (!any)
                    .then(|| rule.anchors.iter().filter_map(|id| sets.get(id.as_str())).sum()),
                signer: rule.signer.clone(),
                privileges: core::iter::empty().collect(),
                prefix: rule.prefix.clone(),
            });
        }
        let issuers = trust.issuer.into_iter();
        self.issuers.extend(
            issuers.map(|rule| IssuerRule { certificate: rule.certificate, signer: rule.signer }),
        );
        self.configure();
        Ok(())
    }

    fn configure(&mut self) {
        self.chains.reconfigure(self.anchors.clone(), self.issuers.clone());
    }

    /// Checks a packet at the present time.
    ///
    /// # Errors
    /// Why the packet is rejected.
    pub fn check(&mut self, data: &Data<'_>) -> Result<Verdict, InvalidData> {
        if self.accepts_all {
            return Ok(Verdict::Accepted(Signer::Unverified("anyone".to_owned())));
        }
        check_digest(data)?;
        let info = data.signature_info();
        let locator = info.key_locator();
        let signer = describe(locator);
        let is_digest = info.typ() == SignatureType::DigestSha256;
        if info.typ() == SignatureType::HmacWithSha256
            && let Some(verdict) = self.check_secret(data, locator, &signer)
        {
            return verdict;
        }
        let verdict = match locator {
            Some(locator) if !is_digest => self.check_chain(data, locator),
            _ => self.check_unsigned(data),
        };
        match verdict {
            Err(InvalidData::NotTrusted { .. }) if !self.required && is_digest => {
                Ok(Verdict::Accepted(Signer::Digest))
            }
            Ok(Verdict::NeedsCertificate(_)) | Err(InvalidData::NotTrusted { .. })
                if !self.required =>
            {
                Ok(Verdict::Accepted(Signer::Unverified(signer)))
            }
            verdict => verdict,
        }
    }

    /// Checks a signature by a shared secret. `None` if no secret has that name.
    fn check_secret(
        &self,
        data: &Data<'_>,
        locator: Option<KeyLocator<'_>>,
        signer: &str,
    ) -> Option<Result<Verdict, InvalidData>> {
        let key_locator_name = match locator {
            Some(KeyLocator::Name(name)) => Some(name),
            _ => None,
        };
        let matches = |name: &Option<Name>| {
            name.is_none() || name.as_ref().map(Name::as_ref) == key_locator_name
        };
        let mut secrets = self.secrets.iter().filter(|(name, _)| matches(name)).peekable();
        secrets.peek()?;
        let verified = secrets.any(|(_, key)| verify_data(data, key).is_ok());
        Some(match verified {
            true => Ok(Verdict::Accepted(Signer::Verified(
                key_locator_name.map(NameRef::to_name).unwrap_or_default(),
            ))),
            false => Err(InvalidData::Signature(signer.to_owned())),
        })
    }

    /// Checks a digest, or a signature without a key locator.
    fn check_unsigned(&self, data: &Data<'_>) -> Result<Verdict, InvalidData> {
        let any = |rule: &AllowRule| rule.anchors.is_none() && rule.fits(None, Some(data.name()));
        if self.rules.iter().any(any) {
            return Ok(Verdict::Accepted(Signer::Digest));
        }
        let why = "a signature by a trusted key is required".to_owned();
        Err(InvalidData::NotTrusted { signer: "a plain digest".to_owned(), why })
    }

    fn check_chain(
        &mut self,
        data: &Data<'_>,
        locator: KeyLocator<'_>,
    ) -> Result<Verdict, InvalidData> {
        let signer = describe(Some(locator));
        let key_locator_name = match locator {
            KeyLocator::Name(name) => key_name(name),
            KeyLocator::Digest(_) => None,
        };
        let mut rules = core::mem::take(&mut self.rules);
        let file_rule_count = rules.len();
        let has_direct_anchors = self.anchors.iter().any(|(set, _)| *set == DIRECT_ANCHOR_SET);
        if file_rule_count == 0 || has_direct_anchors {
            rules.push(AllowRule {
                id: "anchors".to_owned(),
                scope: FaceScope::Both,
                anchors: Some(if file_rule_count == 0 { u64::MAX } else { DIRECT_ANCHOR_SET }),
                signer: None,
                privileges: core::iter::empty().collect(),
                prefix: Pattern::any(),
            });
        }
        let mut refusal = Refusal::NotAllowed;
        let mut missing_certificate = None;
        let mut accepted = None;
        for rule in &rules {
            match self.check_rule(rule, data, locator, key_locator_name) {
                Ok(Verdict::NeedsCertificate(name)) => {
                    missing_certificate = missing_certificate.or(Some(name))
                }
                Ok(verdict) => {
                    accepted = Some(verdict);
                    break;
                }
                // The fault of a signer with the right name is more helpful than that no rule
                // matches.
                Err(Refusal::NotAllowed) => {}
                Err(why) => refusal = why,
            }
        }
        rules.truncate(file_rule_count);
        self.rules = rules;
        match (accepted, missing_certificate) {
            (Some(verdict), _) => Ok(verdict),
            (None, Some(name)) => Ok(Verdict::NeedsCertificate(name)),
            (None, None) if refusal == Refusal::BadSignature => Err(InvalidData::Signature(signer)),
            (None, None) => {
                Err(InvalidData::NotTrusted { signer, why: explain(refusal).to_owned() })
            }
        }
    }

    fn check_rule(
        &mut self,
        rule: &AllowRule,
        data: &Data<'_>,
        locator: KeyLocator<'_>,
        key_locator_name: Option<NameRef<'_>>,
    ) -> Result<Verdict, Refusal> {
        let Some(sets) = rule.anchors else {
            let matches = rule.fits(key_locator_name, Some(data.name()));
            let unverified = || Verdict::Accepted(Signer::Unverified(describe(Some(locator))));
            return matches.then(unverified).ok_or(Refusal::NotAllowed);
        };
        if key_locator_name.is_none() && matches!(locator, KeyLocator::Name(_)) {
            return Err(Refusal::UnknownKey);
        }
        if key_locator_name.is_some() && !rule.fits(key_locator_name, Some(data.name())) {
            return Err(Refusal::NotAllowed);
        }
        match self.chains.validate(locator, sets, now_s()) {
            ChainResult::Trusted(key_name, key) => {
                if !rule.fits(Some(key_name.as_ref()), Some(data.name())) {
                    return Err(Refusal::NotAllowed);
                }
                verify_data(data, &key).map_err(|_| Refusal::BadSignature)?;
                Ok(Verdict::Accepted(Signer::Verified(key_name)))
            }
            ChainResult::Fetch(name) if !self.is_exhausted(&name) => {
                Ok(Verdict::NeedsCertificate(name))
            }
            ChainResult::Fetch(_) => Err(Refusal::CertificateMissing),
            // Another certificate may exist under this name.
            ChainResult::Bad(name) if !self.is_exhausted(&name) => {
                Ok(Verdict::NeedsCertificate(name))
            }
            ChainResult::Bad(_) => Err(Refusal::BadCertificate),
            ChainResult::Refused(refusal) => Err(refusal),
        }
    }

    fn is_exhausted(&self, certificate: &Name) -> bool {
        let tries = self.fetch_attempts.get(certificate).copied().unwrap_or(0);
        tries >= CERTIFICATE_TRIES_MAX
            || tries == 0 && self.fetch_attempts.len() >= CERTIFICATES_MAX
    }

    /// Adds a certificate fetched for a packet; `None` if it was not received. It is not trusted by
    /// that.
    pub fn add_certificate(&mut self, needed: &Name, wire: Option<&[u8]>) {
        *self.fetch_attempts.entry(needed.clone()).or_default() += 1;
        if let Some(wire) = wire {
            // An invalid certificate remains missing, and the packet is rejected.
            let _ = self.chains.add(wire);
        }
    }
}

/// Checks the name and the digest, which must be valid in every packet.
///
/// # Errors
/// If the digest is wrong, or the name ends in an implicit digest.
pub fn check_digest(data: &Data<'_>) -> Result<(), InvalidData> {
    if data.name().component(-1).is_some_and(|last| last.typ() == ComponentType::IMPLICIT_DIGEST) {
        return Err(InvalidData::Name);
    }
    if data.signature_info().typ() != SignatureType::DigestSha256 {
        return Ok(());
    }
    nw_trust::verify_digest(&[data.signed_portion()], data.signature_value())
        .map_err(|_| InvalidData::Digest)
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

/// Returns the meaning of a refusal for a fetched packet.
const fn explain(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NotAllowed => "no rule lets this key sign this name",
        Refusal::CertificateMissing => {
            "a certificate between it and an anchor could not be fetched"
        }
        Refusal::CertificateOutsideValidity => {
            "a certificate between it and an anchor is not valid now"
        }
        Refusal::BadCertificate => "a certificate between it and an anchor is invalid",
        Refusal::IssuerNotAllowed => {
            "a certificate's issuer may not sign certificates for that name"
        }
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

fn anchor_of(source_name: &str, bytes: &[u8]) -> Result<Anchor, TrustError> {
    let anchor = certificate::read_file(bytes).and_then(|wire| Anchor::from_certificate(&wire));
    anchor.map_err(|source| TrustError::Anchor { source_name: source_name.to_owned(), source })
}

/// Returns the certificate files in a folder, by extension, sorted.
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
