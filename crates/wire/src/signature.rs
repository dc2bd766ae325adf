//! SignatureInfo, KeyLocator, and the trait of signers.
//!
//! NDN Packet Format 0.3, sections "Signature" and "Signed Interest". This crate signs with plain
//! digests only; keys are in `nw-trust`.

use crate::{sha256, types as t};
use core::convert::Infallible;
use nw_name::NameRef;
use nw_name::tlv::{Error, Fault, Reader, push_integer};

/// SignatureType.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignatureType {
    /// SHA-256 of the packet: integrity, no authenticity.
    DigestSha256,
    /// RSA PKCS#1 v1.5 with SHA-256.
    Sha256WithRsa,
    /// ECDSA with SHA-256.
    Sha256WithEcdsa,
    /// HMAC with SHA-256.
    HmacWithSha256,
    /// Ed25519.
    Ed25519,
    /// No signature at all.
    Null,
    /// Another number.
    Other(u64),
}

impl SignatureType {
    /// Returns the number on the wire.
    pub const fn number(self) -> u64 {
        match self {
            SignatureType::DigestSha256 => 0,
            SignatureType::Sha256WithRsa => 1,
            SignatureType::Sha256WithEcdsa => 3,
            SignatureType::HmacWithSha256 => 4,
            SignatureType::Ed25519 => 5,
            SignatureType::Null => 200,
            SignatureType::Other(number) => number,
        }
    }
}

impl From<u64> for SignatureType {
    fn from(number: u64) -> Self {
        match number {
            0 => SignatureType::DigestSha256,
            1 => SignatureType::Sha256WithRsa,
            3 => SignatureType::Sha256WithEcdsa,
            4 => SignatureType::HmacWithSha256,
            5 => SignatureType::Ed25519,
            200 => SignatureType::Null,
            other => SignatureType::Other(other),
        }
    }
}

/// The key that made a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLocator<'a> {
    /// Name of a key or certificate.
    Name(NameRef<'a>),
    /// SHA-256 of the public key.
    Digest(&'a [u8]),
}

/// A checked SignatureInfo or InterestSignatureInfo.
#[derive(Clone, Copy, Debug)]
pub struct SignatureInfo<'a> {
    value: &'a [u8],
    typ: SignatureType,
    key_locator: Option<KeyLocator<'a>>,
    nonce: Option<&'a [u8]>,
    time_ms: Option<u64>,
    sequence: Option<u64>,
    validity: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> SignatureInfo<'a> {
    /// Checks the TLV-VALUE, which starts at offset `base` of the packet.
    ///
    /// # Errors
    /// The fault and its byte offset.
    pub fn check(value: &'a [u8], base: usize) -> Result<Self, Error> {
        let mut reader = Reader::new(value, base);
        let first = reader
            .next()?
            .filter(|e| e.typ == t::SIGNATURE_TYPE)
            .ok_or(Error::new(Fault::MissingField, base))?;
        let mut info = SignatureInfo {
            value,
            typ: SignatureType::from(first.integer()?),
            key_locator: None,
            nonce: None,
            time_ms: None,
            sequence: None,
            validity: None,
        };
        let mut last = t::SIGNATURE_TYPE;
        while let Some(part) = reader.next()? {
            match part.typ {
                t::SIGNATURE_TYPE
                | t::KEY_LOCATOR
                | t::SIGNATURE_NONCE
                | t::SIGNATURE_TIME
                | t::SIGNATURE_SEQ_NUM
                | t::VALIDITY_PERIOD
                    if part.typ <= last =>
                {
                    if part.is_critical() {
                        return Err(Error::new(Fault::FieldOrder, part.start));
                    }
                    continue;
                }
                t::KEY_LOCATOR => info.key_locator = check_locator(part.value, part.value_start)?,
                t::SIGNATURE_NONCE if part.value.is_empty() => {
                    return Err(Error::new(Fault::FieldLength, part.start));
                }
                t::SIGNATURE_NONCE => info.nonce = Some(part.value),
                t::SIGNATURE_TIME => info.time_ms = Some(part.integer()?),
                t::SIGNATURE_SEQ_NUM => info.sequence = Some(part.integer()?),
                t::VALIDITY_PERIOD => {
                    info.validity = Some(check_validity(part.value, part.value_start)?)
                }
                _ if part.is_critical() => {
                    return Err(Error::new(Fault::UnknownCritical, part.start));
                }
                _ => continue,
            }
            last = part.typ;
        }
        Ok(info)
    }

    /// As [`check`](Self::check), without returning the fields.
    #[inline]
    pub(crate) fn check_only(value: &[u8], base: usize) -> Result<(), Error> {
        const SIGNATURE_TYPE: u8 = t::SIGNATURE_TYPE as u8;
        match value {
            // Only a type, as for digests.
            [SIGNATURE_TYPE, 1, _] => Ok(()),
            _ => SignatureInfo::check(value, base).map(drop),
        }
    }

    /// Reads bytes that were checked with their packet.
    pub(crate) fn from_checked(value: &'a [u8], base: usize) -> Self {
        Self::check(value, base).expect("checked with its packet")
    }

    /// Returns the TLV-VALUE.
    pub const fn value(&self) -> &'a [u8] {
        self.value
    }

    /// Returns the signature type.
    pub const fn typ(&self) -> SignatureType {
        self.typ
    }

    /// The key that made a signature.
    pub const fn key_locator(&self) -> Option<KeyLocator<'a>> {
        self.key_locator
    }

    /// Returns SignatureNonce.
    pub const fn nonce(&self) -> Option<&'a [u8]> {
        self.nonce
    }

    /// Returns SignatureTime, milliseconds since 1970.
    pub const fn time_ms(&self) -> Option<u64> {
        self.time_ms
    }

    /// Returns SignatureSeqNum.
    pub const fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// Returns ValidityPeriod as written, NotBefore and NotAfter, each `YYYYMMDDThhmmss` in UTC.
    pub const fn validity(&self) -> Option<(&'a [u8], &'a [u8])> {
        self.validity
    }
}

/// Checks a KeyLocator's value. `None` if it is empty.
fn check_locator(value: &[u8], base: usize) -> Result<Option<KeyLocator<'_>>, Error> {
    let mut reader = Reader::new(value, base);
    let mut locator = None;
    while let Some(part) = reader.next()? {
        match part.typ {
            t::NAME | t::KEY_DIGEST if locator.is_some() => {
                return Err(Error::new(Fault::FieldOrder, part.start));
            }
            t::NAME => {
                let name = NameRef::check_with(part.value, part.value_start, |_, _, _| {})?;
                locator = Some(KeyLocator::Name(name));
            }
            t::KEY_DIGEST => locator = Some(KeyLocator::Digest(part.value)),
            _ if part.is_critical() => return Err(Error::new(Fault::UnknownCritical, part.start)),
            _ => {}
        }
    }
    Ok(locator)
}

/// Checks a ValidityPeriod's value.
fn check_validity(value: &[u8], base: usize) -> Result<(&[u8], &[u8]), Error> {
    let mut reader = Reader::new(value, base);
    let mut moment = |typ| {
        let part =
            reader.next()?.filter(|e| e.typ == typ).ok_or(Error::new(Fault::MissingField, base))?;
        let well_formed = part.value.len() == 15
            && part
                .value
                .iter()
                .enumerate()
                .all(|(i, c)| if i == 8 { *c == b'T' } else { c.is_ascii_digit() });
        if well_formed { Ok(part.value) } else { Err(Error::new(Fault::FieldValue, part.start)) }
    };
    let validity = (moment(t::NOT_BEFORE)?, moment(t::NOT_AFTER)?);
    while let Some(part) = reader.next()? {
        if part.is_critical() {
            return Err(Error::new(Fault::UnknownCritical, part.start));
        }
    }
    Ok(validity)
}

/// A signer.
pub trait Sign {
    /// The error of a failed signature.
    type Error;

    /// Returns the encoded SignatureInfo elements of this signer: SignatureType and, if it has a
    /// key, KeyLocator.
    fn info(&self) -> Vec<u8>;

    /// Returns the SignatureValue over the parts, in order.
    ///
    /// # Errors
    /// When the key can't be used.
    fn sign(&self, parts: &[&[u8]]) -> Result<Vec<u8>, Self::Error>;
}

impl<S: Sign + ?Sized> Sign for &S {
    type Error = S::Error;

    fn info(&self) -> Vec<u8> {
        (**self).info()
    }

    fn sign(&self, parts: &[&[u8]]) -> Result<Vec<u8>, S::Error> {
        (**self).sign(parts)
    }
}

/// Signs with a plain SHA-256 digest: no key, no authenticity, integrity only.
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestSha256;

impl Sign for DigestSha256 {
    type Error = Infallible;

    fn info(&self) -> Vec<u8> {
        let mut info = Vec::with_capacity(3);
        push_integer(t::SIGNATURE_TYPE, SignatureType::DigestSha256.number(), &mut info);
        info
    }

    fn sign(&self, parts: &[&[u8]]) -> Result<Vec<u8>, Infallible> {
        Ok(sha256(parts).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(value: &[u8]) -> Option<Fault> {
        SignatureInfo::check(value, 0).err().map(|e| e.fault)
    }

    #[test]
    fn all_fields_are_read() {
        let moment = b"20260101T000000";
        let mut value =
            vec![27, 1, 3, 28, 5, 7, 3, 8, 1, b'k', 38, 2, 1, 2, 40, 2, 3, 232, 42, 1, 5];
        value.extend_from_slice(&[253, 0, 253, 38, 253, 0, 254, 15]);
        value.extend_from_slice(moment);
        value.extend_from_slice(&[253, 0, 255, 15]);
        value.extend_from_slice(moment);
        let info = SignatureInfo::check(&value, 100).unwrap();
        assert_eq!(info.typ(), SignatureType::Sha256WithEcdsa);
        assert_eq!(
            info.key_locator(),
            Some(KeyLocator::Name(NameRef::check(&[8, 1, b'k']).unwrap()))
        );
        assert_eq!(
            (info.nonce(), info.time_ms(), info.sequence()),
            (Some(&[1, 2][..]), Some(1000), Some(5))
        );
        assert_eq!(info.validity(), Some((&moment[..], &moment[..])));
        assert_eq!(info.value(), value);
    }

    #[test]
    fn signature_types_keep_their_numbers() {
        for number in [0, 1, 2, 3, 4, 5, 6, 200, 70_000] {
            assert_eq!(SignatureType::from(number).number(), number);
        }
    }

    #[test]
    fn signature_info_order_is_checked() {
        assert_eq!(fault(&[]), Some(Fault::MissingField));
        assert_eq!(
            fault(&[28, 0, 27, 1, 0]),
            Some(Fault::MissingField),
            "SignatureType comes first"
        );
        assert_eq!(fault(&[27, 1, 0, 27, 1, 0]), Some(Fault::FieldOrder));
        assert_eq!(fault(&[27, 1, 0, 28, 0, 28, 0]), Some(Fault::FieldOrder));
        assert_eq!(fault(&[27, 1, 0, 40, 1, 1, 28, 0]), Some(Fault::FieldOrder));
        // Nonce, time and number are non-critical: out of order they are skipped.
        let info = SignatureInfo::check(&[27, 1, 0, 40, 1, 1, 38, 1, 7, 40, 1, 2], 0).unwrap();
        assert_eq!((info.nonce(), info.time_ms()), (None, Some(1)));
        assert_eq!(fault(&[27, 1, 0, 29, 0]), Some(Fault::UnknownCritical));
        assert_eq!(fault(&[27, 1, 0, 253, 1, 2, 0]), None, "AdditionalDescription, 258");
    }

    #[test]
    fn sizes() {
        assert_eq!(fault(&[27, 0]), Some(Fault::NumberLength));
        assert_eq!(fault(&[27, 3, 0, 0, 0]), Some(Fault::NumberLength));
        assert_eq!(fault(&[27, 1, 0, 38, 0]), Some(Fault::FieldLength));
        assert_eq!(fault(&[27, 1, 0, 40, 3, 0, 0, 0]), Some(Fault::NumberLength));
        assert_eq!(fault(&[27, 1, 0, 42, 0]), Some(Fault::NumberLength));
    }

    #[test]
    fn key_locators() {
        let locator = |inside: &[u8]| {
            let value = [&[27, 1, 1, 28, inside.len() as u8][..], inside].concat();
            SignatureInfo::check(&value, 0)
                .map(|info| info.key_locator().is_some())
                .map_err(|e| e.fault)
        };
        assert_eq!(locator(&[]), Ok(false));
        assert_eq!(locator(&[7, 0]), Ok(true));
        assert_eq!(locator(&[29, 2, 1, 2]), Ok(true));
        assert_eq!(locator(&[250, 0]), Ok(false));
        assert_eq!(locator(&[250, 0, 29, 0]), Ok(true));
        assert_eq!(locator(&[9, 0]), Err(Fault::UnknownCritical));
        assert_eq!(locator(&[7, 0, 29, 0]), Err(Fault::FieldOrder));
        assert_eq!(locator(&[7, 2, 8, 1]), Err(Fault::Truncated));
        assert_eq!(locator(&[29, 2, 1]), Err(Fault::Truncated));
    }

    #[test]
    fn validity_periods() {
        let validity = |from: &[u8], to: &[u8], more: &[u8]| {
            let mut period = vec![];
            nw_name::tlv::push_tlv(t::NOT_BEFORE, from, &mut period);
            nw_name::tlv::push_tlv(t::NOT_AFTER, to, &mut period);
            period.extend_from_slice(more);
            let mut value = vec![27, 1, 0];
            nw_name::tlv::push_tlv(t::VALIDITY_PERIOD, &period, &mut value);
            fault(&value)
        };
        let good = b"20260101T000000";
        assert_eq!(validity(good, good, &[]), None);
        assert_eq!(validity(good, b"20260101 000000", &[]), Some(Fault::FieldValue));
        assert_eq!(validity(b"2026010T000000", good, &[]), Some(Fault::FieldValue));
        assert_eq!(validity(good, b"", &[]), Some(Fault::FieldValue));
        assert_eq!(validity(good, good, &[250, 0]), None);
        assert_eq!(validity(good, good, &[251, 0]), Some(Fault::UnknownCritical));
        assert_eq!(fault(&[27, 1, 0, 253, 0, 253, 0]), Some(Fault::MissingField));
    }
}
