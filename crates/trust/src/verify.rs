//! Verification of Data and Interest signatures with public keys and shared secrets.

use crate::Error;
use crate::key::sha256_of;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P521_SHA256_ASN1, ED25519,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};
use nw_wire::{Data, Interest, SignatureType, sha256};

/// A key that verifies signatures: a public key, or a shared secret.
#[derive(Clone)]
pub struct VerifyKey(Material);

#[derive(Clone)]
enum Material {
    Public { key: Box<ParsedPublicKey>, signature_type: SignatureType, kind: &'static str },
    Secret(Box<hmac::Key>),
}

/// Supported public keys, with the signature type each makes. Parsers are tried in this order.
const PUBLIC_KINDS: [(SignatureType, &dyn VerificationAlgorithm, &str); 5] = [
    (SignatureType::Sha256WithEcdsa, &ECDSA_P256_SHA256_ASN1, "ECDSA P-256"),
    (SignatureType::Sha256WithRsa, &RSA_PKCS1_2048_8192_SHA256, "RSA"),
    (SignatureType::Ed25519, &ED25519, "Ed25519"),
    (SignatureType::Sha256WithEcdsa, &ECDSA_P384_SHA256_ASN1, "ECDSA P-384"),
    (SignatureType::Sha256WithEcdsa, &ECDSA_P521_SHA256_ASN1, "ECDSA P-521"),
];

impl VerifyKey {
    /// Parses a DER SubjectPublicKeyInfo: ECDSA (P-256, P-384, P-521), RSA (2048 to 8192 bits) or
    /// Ed25519.
    ///
    /// # Errors
    /// [`Error::NotAKey`] if it is none of these.
    pub fn from_spki(der: &[u8]) -> Result<Self, Error> {
        let read = |(signature_type, algorithm, kind): (
            SignatureType,
            &'static dyn VerificationAlgorithm,
            &'static str,
        )| {
            let key = Box::new(ParsedPublicKey::new(algorithm, der).ok()?);
            Some(VerifyKey(Material::Public { key, signature_type, kind }))
        };
        PUBLIC_KINDS.into_iter().find_map(read).ok_or(Error::NotAKey(
            "SubjectPublicKeyInfo of an ECDSA, RSA or Ed25519 key was expected",
        ))
    }

    /// Creates an HMAC-SHA-256 key from a shared secret.
    pub fn from_secret(secret: &[u8]) -> Self {
        VerifyKey(Material::Secret(Box::new(hmac::Key::new(hmac::HMAC_SHA256, secret))))
    }

    /// Returns the SignatureType that the key verifies.
    pub fn signature_type(&self) -> SignatureType {
        match &self.0 {
            Material::Public { signature_type, .. } => *signature_type,
            Material::Secret(_) => SignatureType::HmacWithSha256,
        }
    }

    /// Returns the kind of key for display, such as `ECDSA P-256`.
    pub fn kind(&self) -> &'static str {
        match &self.0 {
            Material::Public { kind, .. } => kind,
            Material::Secret(_) => "HMAC",
        }
    }

    /// Returns the SHA-256 of the SubjectPublicKeyInfo (the KeyDigest). `None` for a secret.
    pub fn key_digest(&self) -> Option<[u8; 32]> {
        match &self.0 {
            Material::Public { key, .. } => Some(sha256(&[key.as_der().ok()?.as_ref()])),
            Material::Secret(_) => None,
        }
    }

    /// Verifies a signature over the concatenation of `parts`.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key makes signatures of another type, [`Error::Mismatch`] if the
    /// signature does not match.
    pub fn verify(
        &self,
        typ: SignatureType,
        parts: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), Error> {
        if typ != self.signature_type() {
            return Err(Error::WrongType);
        }
        let result = match &self.0 {
            Material::Secret(key) => {
                let mut context = hmac::Context::with_key(key);
                parts.iter().for_each(|part| context.update(part));
                verify_slices_are_equal(context.sign().as_ref(), signature)
            }
            // Ed25519 can't sign a digest: it needs the message in one piece.
            Material::Public { key, signature_type: SignatureType::Ed25519, .. } => match parts {
                [whole] => key.verify_sig(whole, signature),
                parts => key.verify_sig(&parts.concat(), signature),
            },
            Material::Public { key, .. } => key.verify_digest_sig(&sha256_of(parts), signature),
        };
        result.map_err(|_| Error::Mismatch)
    }
}

impl std::fmt::Debug for VerifyKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VerifyKey({:?})", self.signature_type())
    }
}

/// Verifies the signature of a Data.
///
/// # Errors
/// The errors of [`VerifyKey::verify`].
pub fn verify_data(data: &Data<'_>, key: &VerifyKey) -> Result<(), Error> {
    key.verify(data.signature_info().typ(), &[data.signed_portion()], data.signature_value())
}

/// Verifies the signature of a signed Interest (format 0.3).
///
/// # Errors
/// [`Error::Unsigned`], or the errors of [`VerifyKey::verify`].
pub fn verify_interest(interest: &Interest<'_>, key: &VerifyKey) -> Result<(), Error> {
    match (interest.signature_info(), interest.signed_portion(), interest.signature_value()) {
        (Some(info), Some(parts), Some(value)) => key.verify(info.typ(), &parts, value),
        _ => Err(Error::Unsigned),
    }
}

/// Checks a DigestSha256 signature, which proves integrity but not authenticity.
///
/// # Errors
/// [`Error::Mismatch`] if the digest differs.
pub fn verify_digest(parts: &[&[u8]], signature: &[u8]) -> Result<(), Error> {
    if sha256_of(parts).as_ref() == signature { Ok(()) } else { Err(Error::Mismatch) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Key, KeyKind, Signer, freshness_fields};
    use nw_name::Name;
    use nw_wire::{DataBuilder, InterestBuilder};

    fn name() -> Name {
        "/alice/file/seg=0".parse().unwrap()
    }

    #[test]
    fn signature_of_each_key_kind_verifies_by_its_key_only() {
        for kind in KeyKind::ALL {
            let key = Key::generate(kind, name().as_ref()).unwrap();
            let verify = key.verify_key().unwrap();
            let wire = DataBuilder::new(&name(), b"content").encode(&key).unwrap();
            let data = Data::check(&wire).unwrap();
            assert_eq!(data.signature_info().typ(), key.signature_type());
            verify_data(&data, &verify).unwrap();

            let fields = freshness_fields(1_700_000_000_000).unwrap();
            let wire = InterestBuilder::new(name()).encode_signed(&key, &fields).unwrap();
            let interest = Interest::check(&wire).unwrap();
            verify_interest(&interest, &verify).unwrap();
            assert_eq!(interest.signature_info().unwrap().time_ms(), Some(1_700_000_000_000));

            let foreign = Key::generate(kind, name().as_ref()).unwrap().verify_key().unwrap();
            assert_eq!(verify_data(&data, &foreign), Err(Error::Mismatch));
            assert_eq!(verify_interest(&interest, &foreign), Err(Error::Mismatch));
        }
    }

    #[test]
    fn data_with_any_changed_byte_is_rejected() {
        for kind in [KeyKind::EcdsaP256, KeyKind::Ed25519, KeyKind::Hmac] {
            let key = Key::generate(kind, name().as_ref()).unwrap();
            let verify = key.verify_key().unwrap();
            let wire = DataBuilder::new(&name(), b"content").encode(&key).unwrap();
            for at in 0..wire.len() {
                let mut changed = wire.clone();
                changed[at] ^= 1;
                if let Ok(data) = Data::check(&changed) {
                    assert!(verify_data(&data, &verify).is_err(), "{kind:?}: byte {at}");
                }
            }
        }
    }

    #[test]
    fn signature_of_another_type_is_rejected() {
        let key = Key::generate(KeyKind::Ed25519, name().as_ref()).unwrap();
        let wire = DataBuilder::new(&name(), b"").encode(&Signer::Digest).unwrap();
        let data = Data::check(&wire).unwrap();
        assert_eq!(verify_data(&data, &key.verify_key().unwrap()), Err(Error::WrongType));
        verify_digest(&[data.signed_portion()], data.signature_value()).unwrap();
        assert_eq!(
            verify_digest(&[b"x", data.signed_portion()], data.signature_value()),
            Err(Error::Mismatch)
        );
        let wire = InterestBuilder::new(name()).encode();
        let unsigned = Interest::check(&wire).unwrap();
        assert_eq!(verify_interest(&unsigned, &key.verify_key().unwrap()), Err(Error::Unsigned));
    }

    #[test]
    fn malformed_public_key_is_an_error() {
        for bytes in [&[][..], &[0; 31], &[0x30; 91]] {
            assert!(matches!(VerifyKey::from_spki(bytes), Err(Error::NotAKey(_))));
        }
    }
}
