//! A certificate's outer form: a Data of type KEY, named `/<identity>/KEY/<key id>/<issuer>/<version>`.

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
    /// Checks one whole Data packet as a certificate.
    ///
    /// # Errors
    /// What is wrong and where: the packet, its name, its ContentType or its ValidityPeriod.
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

    /// The packet.
    pub const fn data(&self) -> Data<'a> {
        self.data
    }

    /// Whose key it is: all before `KEY`.
    pub fn identity(&self) -> NameRef<'a> {
        self.data.name().prefix(self.name_len - 4)
    }

    /// Name of the key: identity, `KEY` and key id.
    pub fn key_name(&self) -> NameRef<'a> {
        self.data.name().prefix(self.name_len - 2)
    }

    /// Who vouches: the issuer component, such as `self`.
    pub fn issuer(&self) -> Component<'a> {
        self.data.name().component(-2).expect("checked to have four components")
    }

    /// The public key, DER SubjectPublicKeyInfo (RSA, ECDSA) or what the signature type puts there.
    pub const fn public_key(&self) -> &'a [u8] {
        self.data.content()
    }

    /// Not before and not after, as written: `YYYYMMDDThhmmss`, UTC. They compare as text.
    pub const fn validity(&self) -> (&'a [u8], &'a [u8]) {
        self.validity
    }
}
