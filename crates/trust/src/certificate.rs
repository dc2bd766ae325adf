//! Certificates (format version 2): a Data of type KEY that binds a public key to a name for some time.

use crate::calendar::{moment, parse_moment};
use crate::key::Key;
use crate::verify::{VerifyKey, verify_data};
use crate::{Error, text};
use nw_name::{Component, NameRef};
use nw_wire::certificate::Certificate;
use nw_wire::tlv::push_tlv;
use nw_wire::{DataBuilder, Reader, Tlv, types as t};

/// FreshnessPeriod of certificates: one hour, as everybody has it.
const FRESHNESS_MS: u64 = 3_600_000;

/// The issuer of certificates that vouch for themselves.
pub const ISSUER_SELF: Component<'static> = Component::generic(b"self");

/// From when to when a certificate is valid. Seconds since 1970, both ends included, until 9999-12-31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// First valid second.
    pub not_before_s: u64,
    /// Last valid second.
    pub not_after_s: u64,
}

impl Validity {
    /// Valid at no time.
    pub(crate) const NEVER: Validity = Validity { not_before_s: 1, not_after_s: 0 };

    /// Returns when both are valid.
    pub(crate) fn and(self, other: Validity) -> Validity {
        Validity {
            not_before_s: self.not_before_s.max(other.not_before_s),
            not_after_s: self.not_after_s.min(other.not_after_s),
        }
    }

    /// True at that second.
    pub const fn contains(self, now_s: u64) -> bool {
        self.not_before_s <= now_s && now_s <= self.not_after_s
    }

    /// Of a checked certificate. `None` when a moment is on no calendar, such as month 13.
    pub fn of(certificate: &Certificate<'_>) -> Option<Self> {
        let (from, to) = certificate.validity();
        Some(Validity { not_before_s: parse_moment(from)?, not_after_s: parse_moment(to)? })
    }

    /// The ValidityPeriod element.
    fn encode(self) -> Vec<u8> {
        let mut period = Vec::with_capacity(38);
        push_tlv(t::NOT_BEFORE, &moment(self.not_before_s), &mut period);
        push_tlv(t::NOT_AFTER, &moment(self.not_after_s), &mut period);
        let mut element = Vec::with_capacity(42);
        push_tlv(t::VALIDITY_PERIOD, &period, &mut element);
        element
    }
}

/// A certificate that a key signs for itself: `/<identity>/KEY/<key id>/self/v=<version>`. The usual version is milliseconds since 1970.
///
/// # Errors
/// [`Error::NoPublicHalf`] for an HMAC key; or when the library can't.
pub fn self_signed(key: &Key, version: u64, validity: Validity) -> Result<Vec<u8>, Error> {
    issue(key.name(), &key.public_key()?, ISSUER_SELF, key, version, validity)
}

/// A certificate for somebody's public key (SubjectPublicKeyInfo, DER), vouched for by `issuer_key`.
///
/// # Errors
/// [`Error::NotAKey`] when `public_key` is none; or when the library can't.
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

/// What a certificate says about its owner besides: AdditionalDescription, keys and values, as far as it can be read.
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

/// The key a certificate vouches for, once its time and its signature by `issuer` have been checked.
///
/// # Errors
/// [`Error::OutOfTime`] when it is not valid at that second, [`Error::NotAKey`], or as [`verify_data`].
pub fn verify(certificate: &Certificate<'_>, issuer: &VerifyKey, now_s: u64) -> Result<VerifyKey, Error> {
    if !Validity::of(certificate).is_some_and(|validity| validity.contains(now_s)) {
        return Err(Error::OutOfTime);
    }
    verify_data(&certificate.data(), issuer)?;
    VerifyKey::from_spki(certificate.public_key())
}

/// The packet of a certificate given as bytes, as base64 (`ndnsec cert-dump`) or as PEM.
///
/// # Errors
/// [`Error::Text`] when it is no base64, [`Error::Packet`] when it is no certificate.
pub fn read_file(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let wire = match bytes.first() {
        Some(&first) if u32::from(first) == t::DATA => bytes.to_vec(),
        _ => text::unarmor(std::str::from_utf8(bytes).map_err(|_| Error::Text("a certificate"))?)?,
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
    fn self_signed_certificates_verify_by_themselves() {
        let identity: Name = "/alice".parse().unwrap();
        for kind in [KeyKind::EcdsaP256, KeyKind::Rsa2048, KeyKind::Ed25519] {
            let key = Key::generate(kind, identity.as_ref()).unwrap();
            let wire = self_signed(&key, 1_700_000_000_123, VALIDITY).unwrap();
            let certificate = Certificate::check(&wire).unwrap();
            assert_eq!(certificate.identity(), identity.as_ref());
            assert_eq!(certificate.key_name(), key.name());
            assert_eq!(certificate.issuer(), ISSUER_SELF);
            assert_eq!(certificate.data().freshness_ms(), FRESHNESS_MS);
            assert_eq!(Validity::of(&certificate), Some(VALIDITY));
            let own = VerifyKey::from_spki(certificate.public_key()).unwrap();
            verify(&certificate, &own, 1_700_000_000).unwrap();
            for now_s in [1_699_999_999, 1_800_000_001] {
                assert_eq!(verify(&certificate, &own, now_s).unwrap_err(), Error::OutOfTime);
            }
            assert_eq!(read_file(text::armor(&wire).as_bytes()).unwrap(), wire);
            assert_eq!(read_file(&wire).unwrap(), wire);
        }
    }

    #[test]
    fn a_chain_of_two() {
        let anchor = Key::generate(KeyKind::EcdsaP256, "/anchor".parse::<Name>().unwrap().as_ref()).unwrap();
        let leaf = Key::generate(KeyKind::Ed25519, "/anchor/leaf".parse::<Name>().unwrap().as_ref()).unwrap();
        let issuer = Component::generic(b"anchor");
        let wire = issue(leaf.name(), &leaf.public_key().unwrap(), issuer, &anchor, 1, VALIDITY).unwrap();
        let certificate = Certificate::check(&wire).unwrap();
        assert!(verify(&certificate, &anchor.verify_key().unwrap(), 1_750_000_000).is_ok());
        let wrong = verify(&certificate, &leaf.verify_key().unwrap(), 1_750_000_000);
        assert_eq!(wrong.unwrap_err(), Error::WrongType);
    }

    #[test]
    fn what_is_no_certificate() {
        let key = Key::generate(KeyKind::Hmac, "/a".parse::<Name>().unwrap().as_ref()).unwrap();
        assert_eq!(self_signed(&key, 1, VALIDITY), Err(Error::NoPublicHalf));
        let name: Name = "/a/KEY/1/self/v=1".parse().unwrap();
        let blob = DataBuilder::new(&name, b"").encode(&key).unwrap();
        assert!(matches!(read_file(&blob), Err(Error::Packet(_))));
        assert!(matches!(read_file(&[0xff; 9]), Err(Error::Text(_))));
    }
}
