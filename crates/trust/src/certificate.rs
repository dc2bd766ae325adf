//! NDN certificates (format version 2): a Data of content type KEY that binds a public key to a
//! name for a validity period. Issues, verifies and reads them from files.

use crate::calendar::{format_timestamp, parse_timestamp};
use crate::key::Key;
use crate::verify::{VerifyKey, verify_data};
use crate::{Error, pem};
use nw_name::{Component, NameRef};
use nw_wire::certificate::Certificate;
use nw_wire::tlv::push_tlv;
use nw_wire::{DataBuilder, Reader, Tlv, types as t};

/// FreshnessPeriod of certificates: one hour, as in ndn-cxx.
const FRESHNESS_MS: u64 = 3_600_000;

/// The issuer component of self-signed certificates.
pub const ISSUER_SELF: Component<'static> = Component::generic(b"self");

/// A validity period in seconds since 1970, both ends included, at most until 9999-12-31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// First valid second.
    pub not_before_s: u64,
    /// Last valid second.
    pub not_after_s: u64,
}

impl Validity {
    /// The empty period.
    pub(crate) const NEVER: Validity = Validity { not_before_s: 1, not_after_s: 0 };

    /// Returns the intersection of two periods.
    pub(crate) fn and(self, other: Validity) -> Validity {
        Validity {
            not_before_s: self.not_before_s.max(other.not_before_s),
            not_after_s: self.not_after_s.min(other.not_after_s),
        }
    }

    /// Returns whether the period contains that second.
    pub const fn contains(self, now_s: u64) -> bool {
        self.not_before_s <= now_s && now_s <= self.not_after_s
    }

    /// Reads the ValidityPeriod of a checked certificate. `None` if a date does not exist, such as
    /// month 13.
    pub fn from_certificate(certificate: &Certificate<'_>) -> Option<Self> {
        let (from, to) = certificate.validity();
        Some(Validity { not_before_s: parse_timestamp(from)?, not_after_s: parse_timestamp(to)? })
    }

    /// Encodes the ValidityPeriod element.
    fn encode(self) -> Vec<u8> {
        let mut period = Vec::with_capacity(38);
        push_tlv(t::NOT_BEFORE, &format_timestamp(self.not_before_s), &mut period);
        push_tlv(t::NOT_AFTER, &format_timestamp(self.not_after_s), &mut period);
        let mut element = Vec::with_capacity(42);
        push_tlv(t::VALIDITY_PERIOD, &period, &mut element);
        element
    }
}

/// Issues a self-signed certificate, named `/<identity>/KEY/<key id>/self/v=<version>`. The version
/// is usually the time in milliseconds since 1970.
///
/// # Errors
/// [`Error::NoPublicKey`] for an HMAC key; [`Error::Library`] if signing fails.
pub fn self_signed(key: &Key, version: u64, validity: Validity) -> Result<Vec<u8>, Error> {
    issue(key.name(), &key.public_key()?, ISSUER_SELF, key, version, validity)
}

/// Issues a certificate for a public key (SubjectPublicKeyInfo, DER), signed by `issuer_key`.
///
/// # Errors
/// [`Error::NotAKey`] if `public_key` is not a usable key; [`Error::Library`] if signing fails.
pub fn issue(
    key_name: NameRef<'_>,
    public_key: &[u8],
    issuer: Component<'_>,
    issuer_key: &Key,
    version: u64,
    validity: Validity,
) -> Result<Vec<u8>, Error> {
    VerifyKey::from_spki(public_key)?;
    let name = key_name.to_name().with(issuer).with_version(version);
    DataBuilder::new(&name, public_key)
        .content_type(t::content_type::KEY)
        .freshness_ms(FRESHNESS_MS)
        .encode_with(issuer_key, &validity.encode())
}

/// Returns the keys and values of the certificate's AdditionalDescription. Malformed parts are
/// skipped.
pub fn description(certificate: &Certificate<'_>) -> Vec<(String, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let mut pairs = Vec::new();
    for entry in elements(certificate.data().signature_info().value())
        .filter(|element| element.typ == t::ADDITIONAL_DESCRIPTION)
        .flat_map(|description| elements(description.value))
        .filter(|element| element.typ == t::DESCRIPTION_ENTRY)
    {
        let part = |typ| elements(entry.value).find(|e| e.typ == typ).map(|e| text(e.value));
        pairs.extend(part(t::DESCRIPTION_KEY).zip(part(t::DESCRIPTION_VALUE)));
    }
    pairs
}

fn elements(value: &[u8]) -> impl Iterator<Item = Tlv<'_>> {
    let mut reader = Reader::new(value, 0);
    std::iter::from_fn(move || reader.next().ok().flatten())
}

/// Verifies a certificate's validity period and its signature by `issuer`, and returns its key.
///
/// # Errors
/// [`Error::OutsideValidity`] if `now_s` is outside the validity period, [`Error::NotAKey`], or an
/// error of [`verify_data`].
pub fn verify(
    certificate: &Certificate<'_>,
    issuer: &VerifyKey,
    now_s: u64,
) -> Result<VerifyKey, Error> {
    if !Validity::from_certificate(certificate).is_some_and(|validity| validity.contains(now_s)) {
        return Err(Error::OutsideValidity);
    }
    verify_data(&certificate.data(), issuer)?;
    VerifyKey::from_spki(certificate.public_key())
}

/// Returns the certificate packet in a file: binary, base64 (`ndnsec cert-dump`) or PEM.
///
/// # Errors
/// [`Error::Text`] if the text is not base64, [`Error::Packet`] if it is not a certificate.
pub fn read_file(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let wire = match bytes.first() {
        Some(&first) if u32::from(first) == t::DATA => bytes.to_vec(),
        _ => pem::decode(std::str::from_utf8(bytes).map_err(|_| Error::Text("a certificate"))?)?,
    };
    Certificate::check(&wire)?;
    Ok(wire)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyKind;
    use nw_name::Name;

    const VALIDITY: Validity = Validity { not_before_s: 1_700_000_000, not_after_s: 1_800_000_000 };

    #[test]
    fn self_signed_certificate_verifies_by_its_own_key() {
        let identity: Name = "/alice".parse().unwrap();
        for kind in [KeyKind::EcdsaP256, KeyKind::Rsa2048, KeyKind::Ed25519] {
            let key = Key::generate(kind, identity.as_ref()).unwrap();
            let wire = self_signed(&key, 1_700_000_000_123, VALIDITY).unwrap();
            let certificate = Certificate::check(&wire).unwrap();
            assert_eq!(certificate.identity(), identity.as_ref());
            assert_eq!(certificate.key_name(), key.name());
            assert_eq!(certificate.issuer(), ISSUER_SELF);
            assert_eq!(certificate.data().freshness_ms(), FRESHNESS_MS);
            assert_eq!(Validity::from_certificate(&certificate), Some(VALIDITY));
            let own = VerifyKey::from_spki(certificate.public_key()).unwrap();
            verify(&certificate, &own, 1_700_000_000).unwrap();
            for now_s in [1_699_999_999, 1_800_000_001] {
                assert_eq!(verify(&certificate, &own, now_s).unwrap_err(), Error::OutsideValidity);
            }
            assert_eq!(read_file(pem::encode_base64(&wire).as_bytes()).unwrap(), wire);
            assert_eq!(read_file(&wire).unwrap(), wire);
        }
    }

    #[test]
    fn issued_certificate_verifies_by_issuer_only() {
        let anchor =
            Key::generate(KeyKind::EcdsaP256, "/anchor".parse::<Name>().unwrap().as_ref()).unwrap();
        let leaf =
            Key::generate(KeyKind::Ed25519, "/anchor/leaf".parse::<Name>().unwrap().as_ref())
                .unwrap();
        let issuer = Component::generic(b"anchor");
        let wire =
            issue(leaf.name(), &leaf.public_key().unwrap(), issuer, &anchor, 1, VALIDITY).unwrap();
        let certificate = Certificate::check(&wire).unwrap();
        assert!(verify(&certificate, &anchor.verify_key().unwrap(), 1_750_000_000).is_ok());
        let wrong = verify(&certificate, &leaf.verify_key().unwrap(), 1_750_000_000);
        assert_eq!(wrong.unwrap_err(), Error::WrongType);
    }

    #[test]
    fn invalid_certificates_are_errors() {
        let key = Key::generate(KeyKind::Hmac, "/a".parse::<Name>().unwrap().as_ref()).unwrap();
        assert_eq!(self_signed(&key, 1, VALIDITY), Err(Error::NoPublicKey));
        let name: Name = "/a/KEY/1/self/v=1".parse().unwrap();
        let blob = DataBuilder::new(&name, b"").encode(&key).unwrap();
        assert!(matches!(read_file(&blob), Err(Error::Packet(_))));
        assert!(matches!(read_file(&[0xff; 9]), Err(Error::Text(_))));
    }
}
