//! The manager's certificate authority: a key and a certificate in its state directory, and the
//! certificates that it signs for hosts.
//!
//! Only the manager trusts it, and only hosts that were given its digest. A host sends a public key
//! and no request document: what its certificate says is decided here alone.

use crate::{AgentError, lock_file, read_private, write_private};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::path::Path;
use time::OffsetDateTime;

/// Name in the manager's certificate; agents accept no other.
pub const MANAGER_NAME: &str = "manager.namewire.internal";
/// Bytes of an uncompressed public key on the curve P-256.
pub const PUBLIC_KEY_LEN: usize = 65;
/// Certificates are valid from this long before they are signed, because clocks differ, seconds.
const CLOCK_TOLERANCE_S: u64 = 300;
/// Lifetime of the authority and of the manager's own certificate, seconds: ten years. The latter
/// is made anew at each start.
const AUTHORITY_LIFETIME_S: u64 = 10 * 365 * 86_400;

/// Signs certificates of hosts.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

/// Public key of a host: a point on P-256, uncompressed.
struct HostKey([u8; PUBLIC_KEY_LEN]);

impl PublicKeyData for HostKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl Authority {
    /// Reads the authority in `directory`, or makes one there. `now_s`: seconds since 1970.
    pub fn open(directory: &Path, now_s: u64) -> Result<Authority, AgentError> {
        // Two processes that begin at the same time make one authority.
        let _lock = lock_file(&directory.join("authority.lock"))?;
        let (key_path, path) = (directory.join("authority.key"), directory.join("authority.der"));
        if key_path.exists() && path.exists() {
            let key = PrivatePkcs8KeyDer::from(read_private(&key_path)?);
            let key = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ECDSA_P256_SHA256)
                .map_err(AgentError::damaged(&key_path))?;
            let certificate = CertificateDer::from(read_private(&path)?);
            return Ok(Authority { issuer: Issuer::new(authority_params(0), key), certificate });
        }
        let key = new_key();
        let params = authority_params(now_s);
        let certificate = params.self_signed(&key).expect("a new key signs").der().clone();
        write_private(&key_path, key.serialized_der())?;
        write_private(&path, &certificate)?;
        Ok(Authority { issuer: Issuer::new(params, key), certificate })
    }

    /// Returns the certificate of the authority.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Returns a certificate chain and a key for the manager's listener.
    pub fn manager_identity(
        &self,
        now_s: u64,
    ) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let name = rcgen::SanType::DnsName(MANAGER_NAME.try_into().expect("a DNS name"));
        self.identity(vec![name], now_s)
    }

    /// Returns a certificate chain and a key for a listener with these names.
    pub fn identity(
        &self,
        names: Vec<rcgen::SanType>,
        now_s: u64,
    ) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = new_key();
        let mut params = params("Namewire manager", now_s, AUTHORITY_LIFETIME_S);
        params.subject_alt_names = names;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority signs");
        let chain = vec![certificate.der().clone(), self.certificate.clone()];
        (chain, PrivatePkcs8KeyDer::from(key.serialize_der()).into())
    }

    /// Signs a certificate for a host's public key, valid for `lifetime_s` from `now_s`. `None` if
    /// the key has another length or form.
    pub fn sign(
        &self,
        host: &str,
        key: &[u8],
        now_s: u64,
        lifetime_s: u64,
    ) -> Option<CertificateDer<'static>> {
        // 4 marks a point without compression.
        let key: [u8; PUBLIC_KEY_LEN] = key.try_into().ok().filter(|key: &[u8; _]| key[0] == 4)?;
        let mut params = params(host, now_s, lifetime_s);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        Some(params.signed_by(&HostKey(key), &self.issuer).ok()?.der().clone())
    }
}

/// Returns a new key on P-256.
pub fn new_key() -> KeyPair {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("the system has random numbers")
}

fn authority_params(now_s: u64) -> CertificateParams {
    let mut params = params("Namewire network authority", now_s, AUTHORITY_LIFETIME_S);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

fn params(name: &str, now_s: u64, lifetime_s: u64) -> CertificateParams {
    let time = |time_s: u64| {
        let time_s = i64::try_from(time_s).unwrap_or(i64::MAX);
        OffsetDateTime::from_unix_timestamp(time_s).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    };
    let mut distinguished_name = DistinguishedName::new();
    distinguished_name.push(DnType::CommonName, name);
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name;
    params.not_before = time(now_s.saturating_sub(CLOCK_TOLERANCE_S));
    params.not_after = time(now_s.saturating_add(lifetime_s));
    params
}
