//! Certificates: Data of ContentType KEY, named `/<identity>/KEY/<key id>/<issuer>/<version>`.

use crate::types::content_type;
use crate::{Data, Error, Fault};
use nw_name::{Component, NameRef, convention};

/// A checked certificate. Its signature is not verified here.
#[derive(Clone, Copy, Debug)]
pub struct Certificate<'a> {
    data: Data<'a>,
    validity: (&'a [u8], &'a [u8]),
    name_len: usize,
}

impl<'a> Certificate<'a> {
    /// Checks a whole Data packet as a certificate.
    ///
    /// # Errors
    /// The fault and its byte offset: in the packet, its name, its ContentType or its
    /// ValidityPeriod.
    pub fn check(wire: &'a [u8]) -> Result<Self, Error> {
        let data = Data::check(wire)?;
        let name_len = data.name().len();
        let bad = |fault| Error::new(fault, data.name_start());
        if name_len < 4 || data.name().component(-4) != Some(convention::KEY) {
            return Err(bad(Fault::FieldValue));
        }
        if data.content_type() != content_type::KEY {
            return Err(bad(Fault::FieldValue));
        }
        let validity = data.signature_info().validity().ok_or(bad(Fault::MissingField))?;
        Ok(Certificate { data, validity, name_len })
    }

    /// Returns the Data packet.
    pub const fn data(&self) -> Data<'a> {
        self.data
    }

    /// Returns the identity: all components before `KEY`.
    pub fn identity(&self) -> NameRef<'a> {
        self.data.name().prefix(self.name_len - 4)
    }

    /// Returns the key's name: identity, `KEY` and key id.
    pub fn key_name(&self) -> NameRef<'a> {
        self.data.name().prefix(self.name_len - 2)
    }

    /// Returns the issuer component, such as `self`.
    pub fn issuer(&self) -> Component<'a> {
        self.data.name().component(-2).expect("checked to have four components")
    }

    /// Returns the public key: DER SubjectPublicKeyInfo (RSA, ECDSA), or what the signature type
    /// defines.
    pub fn public_key(&self) -> &'a [u8] {
        self.data.content()
    }

    /// Returns NotBefore and NotAfter as written, `YYYYMMDDThhmmss` in UTC. They can be compared as
    /// text.
    pub const fn validity(&self) -> (&'a [u8], &'a [u8]) {
        self.validity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::DigestSha256;
    use crate::{DataBuilder, types as t};
    use nw_name::Name;
    use nw_name::tlv::push_tlv;

    fn validity() -> Vec<u8> {
        let (mut period, mut element) = (Vec::new(), Vec::new());
        push_tlv(t::NOT_BEFORE, b"20260101T000000", &mut period);
        push_tlv(t::NOT_AFTER, b"20270101T000000", &mut period);
        push_tlv(t::VALIDITY_PERIOD, &period, &mut element);
        element
    }

    fn certificate(uri: &str, content_type: u64, fields: &[u8]) -> Vec<u8> {
        let name: Name = uri.parse().unwrap();
        DataBuilder::new(&name, b"key")
            .content_type(content_type)
            .encode_with(&DigestSha256, fields)
            .unwrap()
    }

    #[test]
    fn certificate_name_gives_identity_key_and_issuer() {
        let wire = certificate("/a/b/KEY/%01/self/v=7", content_type::KEY, &validity());
        let seen = Certificate::check(&wire).unwrap();
        assert_eq!(seen.identity().to_string(), "/a/b");
        assert_eq!(seen.key_name().to_string(), "/a/b/KEY/%01");
        assert_eq!(seen.issuer().to_string(), "self");
        assert_eq!(seen.public_key(), b"key");
        assert_eq!(seen.validity(), (&b"20260101T000000"[..], &b"20270101T000000"[..]));
        let root = certificate("/KEY/%01/self/v=7", content_type::KEY, &validity());
        assert!(Certificate::check(&root).unwrap().identity().is_empty());
    }

    #[test]
    fn data_that_is_no_certificate_is_rejected() {
        let fault = |wire: &[u8]| Certificate::check(wire).unwrap_err().fault;
        let (name, key) = ("/a/KEY/%01/self/v=7", content_type::KEY);
        assert_eq!(fault(&certificate(name, content_type::BLOB, &validity())), Fault::FieldValue);
        assert_eq!(fault(&certificate(name, key, &[])), Fault::MissingField);
        assert_eq!(fault(&certificate("/a/KAY/%01/self/v=7", key, &validity())), Fault::FieldValue);
        assert_eq!(fault(&certificate("/KEY/self/v=7", key, &validity())), Fault::FieldValue);
        assert_eq!(fault(&[5, 0]), Fault::UnknownPacket);
    }
}
