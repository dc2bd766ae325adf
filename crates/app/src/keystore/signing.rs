//! A key of the store, ready to sign, with its certificate chain.

use super::{KeyStore, KeyStoreError, Level, level};
use nw_name::NameRef;
use nw_trust::Key;
use nw_wire::{Data, Interest, KeyLocator, sha256};

/// Longest certificate chain; verifiers follow no longer ones.
const CHAIN_MAX: usize = 8;

/// A signing key, and the certificates of its chain that are in the store.
#[derive(Debug)]
pub struct Credentials {
    /// The key; its signatures carry the certificate's name as key locator.
    pub key: Key,
    /// The certificate, then that of its issuer, and so on.
    pub certificates: Vec<Vec<u8>>,
}

impl KeyStore {
    /// Returns the credentials of an identity, a key or a certificate; `None`: of the default
    /// identity.
    ///
    /// # Errors
    /// If there are none, or the private key is missing.
    pub fn credentials(&self, name: Option<NameRef<'_>>) -> Result<Credentials, KeyStoreError> {
        let certificate = self.certificate(name)?;
        let own = certificate.name.as_ref();
        let key = self.private_key(own.prefix(own.len() - 2))?.with_key_locator(own);
        let mut certificates = vec![certificate.wire];
        while certificates.len() < CHAIN_MAX {
            let last = certificates.last().expect("it began with one");
            let Some(issuer) = self.issuer(last)?.filter(|wire| !certificates.contains(wire))
            else {
                break;
            };
            certificates.push(issuer);
        }
        Ok(Credentials { key, certificates })
    }

    fn issuer(&self, wire: &[u8]) -> Result<Option<Vec<u8>>, KeyStoreError> {
        let data = Data::check(wire)?;
        let named = match data.signature_info().key_locator() {
            Some(KeyLocator::Name(name)) if level(name) != Level::Identity => name,
            _ => return Ok(None),
        };
        Ok(self.certificate(Some(named)).ok().map(|certificate| certificate.wire))
    }
}

impl Credentials {
    /// Returns the certificate that satisfies an Interest, if it is one of these.
    pub fn answer(&self, interest: &Interest<'_>) -> Option<&[u8]> {
        let answers = |wire: &&Vec<u8>| {
            let Ok(data) = Data::check(wire) else { return false };
            interest.is_answered_by(data.name(), || sha256(&[wire]))
        };
        self.certificates.iter().find(answers).map(Vec::as_slice)
    }
}
