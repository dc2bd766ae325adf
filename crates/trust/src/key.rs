//! Private keys and HMAC secrets: generated, imported, exported, and used for signing.

use crate::verify::VerifyKey;
use crate::{Error, pem, safebag};
use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use aws_lc_rs::{digest, hmac};
use nw_name::{Component, Name, NameRef, convention};
use nw_wire::tlv::{push_integer, push_tlv};
use nw_wire::{Sign, SignatureType, sha256, types as t};

/// Length of a generated HMAC secret, bytes.
const SECRET_LEN: usize = 32;

/// Length of a key id, bytes: the start of the SHA-256 of the public key.
const KEY_ID_LEN: usize = 8;

/// The kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256, the default of the NDN tools.
    EcdsaP256,
    /// RSA with 2048 bits.
    Rsa2048,
    /// Ed25519.
    Ed25519,
    /// HMAC-SHA-256 with a shared secret of 32 bytes.
    Hmac,
}

impl KeyKind {
    /// All kinds.
    pub const ALL: [KeyKind; 4] =
        [KeyKind::EcdsaP256, KeyKind::Rsa2048, KeyKind::Ed25519, KeyKind::Hmac];
}

enum PrivateKey {
    Ecdsa(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
    Ed25519(Box<Ed25519KeyPair>),
    Hmac { key: Box<hmac::Key>, secret: Vec<u8> },
}

/// A private key, or a shared secret, and its name.
pub struct Key {
    name: Name,
    locator: Name,
    pair: PrivateKey,
}

impl Key {
    /// Generates a key for an identity, named `/<identity>/KEY/<key id>`. The key id is the first 8
    /// bytes of the SHA-256 of the public key (or secret).
    ///
    /// # Errors
    /// [`Error::Library`] if the library fails.
    pub fn generate(kind: KeyKind, identity: NameRef<'_>) -> Result<Self, Error> {
        let failed = |_| Error::Library("making a key");
        let pair = match kind {
            KeyKind::EcdsaP256 => PrivateKey::Ecdsa(Box::new(
                EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?,
            )),
            KeyKind::Rsa2048 => {
                PrivateKey::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).map_err(failed)?))
            }
            KeyKind::Ed25519 => {
                PrivateKey::Ed25519(Box::new(Ed25519KeyPair::generate().map_err(failed)?))
            }
            KeyKind::Hmac => {
                let mut secret = vec![0; SECRET_LEN];
                aws_lc_rs::rand::fill(&mut secret).map_err(failed)?;
                PrivateKey::of_secret(secret)
            }
        };
        let id = pair.id()?;
        Ok(Self::new(identity.to_name().with(convention::KEY).with_generic(id), pair))
    }

    /// Generates an RSA key with 2048, 3072 or 4096 bits.
    ///
    /// # Errors
    /// [`Error::NotAKey`] for another number of bits; [`Error::Library`] if the library fails.
    pub fn generate_rsa(bits: u16, identity: NameRef<'_>) -> Result<Self, Error> {
        let size = match bits {
            2048 => KeySize::Rsa2048,
            3072 => KeySize::Rsa3072,
            4096 => KeySize::Rsa4096,
            _ => return Err(Error::NotAKey("RSA keys have 2048, 3072 or 4096 bits")),
        };
        let pair = RsaKeyPair::generate(size).map_err(|_| Error::Library("making a key"))?;
        let pair = PrivateKey::Rsa(Box::new(pair));
        let id = pair.id()?;
        Ok(Self::new(identity.to_name().with(convention::KEY).with_generic(id), pair))
    }

    /// Creates an HMAC key from a shared secret. `name` is the key's full name.
    pub fn from_secret(name: NameRef<'_>, secret: &[u8]) -> Self {
        Self::new(name.to_name(), PrivateKey::of_secret(secret.to_vec()))
    }

    /// Parses an unencrypted PKCS#8 document (DER). `name` is the key's full name.
    ///
    /// # Errors
    /// [`Error::NotAKey`] if it is malformed or of an unsupported kind.
    pub fn from_pkcs8(name: NameRef<'_>, der: &[u8]) -> Result<Self, Error> {
        let pair = if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der)
        {
            PrivateKey::Ecdsa(Box::new(pair))
        } else if let Ok(pair) = Ed25519KeyPair::from_pkcs8(der) {
            PrivateKey::Ed25519(Box::new(pair))
        } else if let Ok(pair) = RsaKeyPair::from_pkcs8(der) {
            PrivateKey::Rsa(Box::new(pair))
        } else {
            return Err(Error::NotAKey(
                "PKCS#8 of an ECDSA P-256, Ed25519 or RSA key was expected",
            ));
        };
        Ok(Self::new(name.to_name(), pair))
    }

    /// Parses PKCS#8 from PEM (`BEGIN PRIVATE KEY`) or base64.
    ///
    /// # Errors
    /// The errors of [`from_pkcs8`](Self::from_pkcs8); [`Error::Text`] if it is not base64.
    pub fn from_pem(name: NameRef<'_>, pem: &str) -> Result<Self, Error> {
        Self::from_pkcs8(name, &pem::decode(pem)?)
    }

    /// Parses DER that is PKCS#8, PKCS#1 (RSA) or RFC 5915 (ECDSA): the forms in key files of other
    /// NDN software.
    ///
    /// # Errors
    /// The errors of [`from_pkcs8`](Self::from_pkcs8).
    pub fn from_der(name: NameRef<'_>, der: &[u8]) -> Result<Self, Error> {
        if let Ok(key) = Self::from_pkcs8(name, der) {
            return Ok(key);
        }
        let pair = if let Ok(pair) = RsaKeyPair::from_der(der) {
            PrivateKey::Rsa(Box::new(pair))
        } else if let Ok(pair) =
            EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_ASN1_SIGNING, der)
        {
            PrivateKey::Ecdsa(Box::new(pair))
        } else {
            return Err(Error::NotAKey("a private ECDSA P-256, RSA or Ed25519 key was expected"));
        };
        Ok(Self::new(name.to_name(), pair))
    }

    fn new(name: Name, pair: PrivateKey) -> Self {
        Key { locator: name.clone(), name, pair }
    }

    /// Exports the key as unencrypted PKCS#8 (DER), or the secret of an HMAC key. Keep it secret.
    ///
    /// # Errors
    /// [`Error::Library`] if the library fails.
    pub fn to_pkcs8(&self) -> Result<Vec<u8>, Error> {
        let failed = |_| Error::Library("exporting a key");
        Ok(match &self.pair {
            PrivateKey::Ecdsa(pair) => pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec(),
            PrivateKey::Ed25519(pair) => pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec(),
            PrivateKey::Rsa(pair) => {
                AsDer::<Pkcs8V1Der<'_>>::as_der(&**pair).map_err(failed)?.as_ref().to_vec()
            }
            PrivateKey::Hmac { secret, .. } => secret.clone(),
        })
    }

    /// Exports the key in the form that other NDN software keeps in files: PKCS#1 for RSA, RFC 5915
    /// for ECDSA, PKCS#8 for Ed25519.
    ///
    /// # Errors
    /// [`Error::NoPublicKey`] for an HMAC key; [`Error::Library`] if the library fails.
    pub fn to_der(&self) -> Result<Vec<u8>, Error> {
        let failed = |_| Error::Library("exporting a key");
        match &self.pair {
            PrivateKey::Ecdsa(pair) => {
                let der = AsDer::<EcPrivateKeyRfc5915Der<'_>>::as_der(&pair.private_key())
                    .map_err(failed)?;
                Ok(der.as_ref().to_vec())
            }
            PrivateKey::Rsa(_) => safebag::inner_key(&self.to_pkcs8()?),
            PrivateKey::Ed25519(_) => self.to_pkcs8(),
            PrivateKey::Hmac { .. } => Err(Error::NoPublicKey),
        }
    }

    /// Exports the key as PEM of unencrypted PKCS#8.
    ///
    /// # Errors
    /// [`Error::NoPublicKey`] for an HMAC key; [`Error::Library`] if the library fails.
    pub fn to_pem(&self) -> Result<String, Error> {
        match self.pair {
            PrivateKey::Hmac { .. } => Err(Error::NoPublicKey),
            _ => Ok(pem::encode("PRIVATE KEY", &self.to_pkcs8()?)),
        }
    }

    /// Returns the key's name.
    pub fn name(&self) -> NameRef<'_> {
        self.name.as_ref()
    }

    /// Returns the key's identity: the name before `KEY` and the key id, or the whole name if it
    /// has no such suffix.
    pub fn identity(&self) -> NameRef<'_> {
        let name = self.name.as_ref();
        match name.component(-2) {
            Some(component) if component == convention::KEY => name.prefix(name.len() - 2),
            _ => name,
        }
    }

    /// Returns the kind. An imported RSA key may be longer than 2048 bits.
    pub fn kind(&self) -> KeyKind {
        match self.pair {
            PrivateKey::Ecdsa(_) => KeyKind::EcdsaP256,
            PrivateKey::Rsa(_) => KeyKind::Rsa2048,
            PrivateKey::Ed25519(_) => KeyKind::Ed25519,
            PrivateKey::Hmac { .. } => KeyKind::Hmac,
        }
    }

    /// Returns the key with another KeyLocator for its signatures, such as its certificate's name.
    #[must_use]
    pub fn with_key_locator(mut self, locator: NameRef<'_>) -> Self {
        self.locator = locator.to_name();
        self
    }

    /// Returns the public key, DER SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`Error::NoPublicKey`] for an HMAC key; [`Error::Library`] if the library fails.
    pub fn public_key(&self) -> Result<Vec<u8>, Error> {
        self.pair.public_key()
    }

    /// Returns the key that verifies this key's signatures.
    ///
    /// # Errors
    /// [`Error::Library`] if the library fails.
    pub fn verify_key(&self) -> Result<VerifyKey, Error> {
        match &self.pair {
            PrivateKey::Hmac { secret, .. } => Ok(VerifyKey::from_secret(secret)),
            pair => VerifyKey::from_spki(&pair.public_key()?),
        }
    }

    /// Returns the SignatureType of its signatures.
    pub fn signature_type(&self) -> SignatureType {
        match self.pair {
            PrivateKey::Ecdsa(_) => SignatureType::Sha256WithEcdsa,
            PrivateKey::Rsa(_) => SignatureType::Sha256WithRsa,
            PrivateKey::Ed25519(_) => SignatureType::Ed25519,
            PrivateKey::Hmac { .. } => SignatureType::HmacWithSha256,
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({}, {:?})", self.name, self.kind())
    }
}

impl Sign for Key {
    type Error = Error;

    fn info(&self) -> Vec<u8> {
        let mut info = Vec::with_capacity(self.locator.as_ref().as_bytes().len() + 12);
        push_integer(t::SIGNATURE_TYPE, self.signature_type().number(), &mut info);
        let mut name = Vec::new();
        self.locator.as_ref().encode(&mut name);
        push_tlv(t::KEY_LOCATOR, &name, &mut info);
        info
    }

    fn sign(&self, parts: &[&[u8]]) -> Result<Vec<u8>, Error> {
        let failed = |_| Error::Library("signing");
        Ok(match &self.pair {
            PrivateKey::Ecdsa(pair) => {
                pair.sign_digest(&sha256_of(parts)).map_err(failed)?.as_ref().to_vec()
            }
            PrivateKey::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let digest = sha256_of(parts);
                pair.sign_digest(&RSA_PKCS1_SHA256, &digest, &mut signature).map_err(failed)?;
                signature
            }
            // Ed25519 reads its message twice, so it needs it in one piece.
            PrivateKey::Ed25519(pair) => {
                pair.try_sign(&parts.concat()).map_err(failed)?.as_ref().to_vec()
            }
            PrivateKey::Hmac { key, .. } => {
                let mut context = hmac::Context::with_key(key);
                parts.iter().for_each(|part| context.update(part));
                context.sign().as_ref().to_vec()
            }
        })
    }
}

impl PrivateKey {
    fn of_secret(secret: Vec<u8>) -> Self {
        PrivateKey::Hmac { key: Box::new(hmac::Key::new(hmac::HMAC_SHA256, &secret)), secret }
    }

    fn public_key(&self) -> Result<Vec<u8>, Error> {
        let der: Result<PublicKeyX509Der<'_>, _> = match self {
            PrivateKey::Ecdsa(pair) => pair.public_key().as_der(),
            PrivateKey::Rsa(pair) => pair.public_key().as_der(),
            PrivateKey::Ed25519(pair) => pair.public_key().as_der(),
            PrivateKey::Hmac { .. } => return Err(Error::NoPublicKey),
        };
        Ok(der.map_err(|_| Error::Library("exporting a public key"))?.as_ref().to_vec())
    }

    fn id(&self) -> Result<[u8; KEY_ID_LEN], Error> {
        let digest = match self {
            PrivateKey::Hmac { secret, .. } => sha256(&[secret]),
            pair => sha256(&[&pair.public_key()?]),
        };
        Ok(*digest.first_chunk().expect("32 bytes have a first 8"))
    }
}

/// Returns the SHA-256 of the concatenated parts. A single part needs no heap allocation.
pub(crate) fn sha256_of(parts: &[&[u8]]) -> digest::Digest {
    if let [whole] = parts {
        return digest::digest(&digest::SHA256, whole);
    }
    let mut context = digest::Context::new(&digest::SHA256);
    parts.iter().for_each(|part| context.update(part));
    context.finish()
}

/// The signer of a program's packets: a key or a plain digest.
#[derive(Debug)]
pub enum Signer {
    /// A plain SHA-256 digest, without authenticity.
    Digest,
    /// A private key.
    Key(Box<Key>),
}

impl From<Key> for Signer {
    fn from(key: Key) -> Self {
        Signer::Key(Box::new(key))
    }
}

impl Sign for Signer {
    type Error = Error;

    fn info(&self) -> Vec<u8> {
        match self {
            Signer::Digest => nw_wire::DigestSha256.info(),
            Signer::Key(key) => key.info(),
        }
    }

    fn sign(&self, parts: &[&[u8]]) -> Result<Vec<u8>, Error> {
        match self {
            Signer::Digest => Ok(sha256_of(parts).as_ref().to_vec()),
            Signer::Key(key) => key.sign(parts),
        }
    }
}

/// Returns the InterestSignatureInfo fields that make a signed Interest unique: a random nonce of 8
/// bytes and the time.
///
/// # Errors
/// [`Error::Library`] if the system has no randomness.
pub fn freshness_fields(now_ms: u64) -> Result<Vec<u8>, Error> {
    use aws_lc_rs::rand::SecureRandom;
    let mut nonce = [0; 8];
    SystemRandom::new().fill(&mut nonce).map_err(|_| Error::Library("drawing a nonce"))?;
    let mut fields = Vec::with_capacity(20);
    push_tlv(t::SIGNATURE_NONCE, &nonce, &mut fields);
    push_integer(t::SIGNATURE_TIME, now_ms, &mut fields);
    Ok(fields)
}

/// Returns the name that [`Key::generate`] gives to a key with this SubjectPublicKeyInfo (DER).
pub fn key_name(identity: NameRef<'_>, spki: &[u8]) -> Name {
    identity
        .to_name()
        .with(convention::KEY)
        .with(Component::generic(&sha256(&[spki])[..KEY_ID_LEN]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Name {
        "/alice".parse().unwrap()
    }

    #[test]
    fn generated_key_is_named_by_its_public_key() {
        let key = Key::generate(KeyKind::EcdsaP256, identity().as_ref()).unwrap();
        assert_eq!(key.name(), key_name(identity().as_ref(), &key.public_key().unwrap()).as_ref());
        assert_eq!(key.identity(), identity().as_ref());
        assert_eq!(key.name().component(-1).unwrap().value().len(), 8);
    }

    #[test]
    fn exported_key_imports_again() {
        for kind in KeyKind::ALL {
            let key = Key::generate(kind, identity().as_ref()).unwrap();
            let bytes = key.to_pkcs8().unwrap();
            let again = match kind {
                KeyKind::Hmac => Key::from_secret(key.name(), &bytes),
                _ => Key::from_pkcs8(key.name(), &bytes).unwrap(),
            };
            assert_eq!(again.kind(), kind);
            let signature = again.sign(&[b"hello ", b"world"]).unwrap();
            let verify = key.verify_key().unwrap();
            verify.verify(key.signature_type(), &[b"hello world"], &signature).unwrap();
            if kind != KeyKind::Hmac {
                let again = Key::from_pem(key.name(), &key.to_pem().unwrap()).unwrap();
                assert_eq!(again.public_key(), key.public_key());
            }
        }
    }

    #[test]
    fn der_export_imports_again() {
        for kind in [KeyKind::EcdsaP256, KeyKind::Rsa2048, KeyKind::Ed25519] {
            let key = Key::generate(kind, identity().as_ref()).unwrap();
            let again = Key::from_der(key.name(), &key.to_der().unwrap()).unwrap();
            assert_eq!(again.public_key(), key.public_key(), "{kind:?}");
            assert_eq!(Key::from_der(key.name(), &key.to_pkcs8().unwrap()).unwrap().kind(), kind);
        }
        assert!(matches!(Key::generate_rsa(1024, identity().as_ref()), Err(Error::NotAKey(_))));
    }

    #[test]
    fn malformed_key_is_an_error() {
        let name = identity();
        assert!(matches!(Key::from_pkcs8(name.as_ref(), b""), Err(Error::NotAKey(_))));
        assert!(matches!(Key::from_pkcs8(name.as_ref(), &[0x30; 100]), Err(Error::NotAKey(_))));
        assert!(matches!(Key::from_pem(name.as_ref(), "%%%"), Err(Error::Text(_))));
        let hmac = Key::generate(KeyKind::Hmac, name.as_ref()).unwrap();
        assert_eq!(hmac.public_key(), Err(Error::NoPublicKey));
        assert_eq!(hmac.to_pem(), Err(Error::NoPublicKey));
    }

    #[test]
    fn debug_output_omits_the_secret() {
        let key = Key::from_secret(identity().as_ref(), b"correct horse");
        assert_eq!(format!("{key:?}"), "Key(/alice, Hmac)");
    }
}
