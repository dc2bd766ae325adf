//! Private keys: made, imported, exported, and signing.

use crate::verify::VerifyKey;
use crate::{Error, safebag, text};
use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use aws_lc_rs::{digest, hmac};
use nw_name::{Component, Name, NameRef, convention};
use nw_wire::tlv::{push_integer, push_tlv};
use nw_wire::{Sign, SignatureType, sha256, types as t};

/// Octets of a new HMAC secret.
const SECRET_LEN: usize = 32;

/// Octets of a key id: the start of the key's SHA-256.
const KEY_ID_LEN: usize = 8;

/// Bits of RSA keys that can be made.
pub const RSA_BITS: [u16; 3] = [2048, 3072, 4096];

/// What kinds of keys can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256, the ecosystem's default.
    EcdsaP256,
    /// RSA of 2048 bits.
    Rsa2048,
    /// Ed25519.
    Ed25519,
    /// A shared secret of 32 octets.
    Hmac,
}

impl KeyKind {
    /// Every kind.
    pub const ALL: [KeyKind; 4] = [KeyKind::EcdsaP256, KeyKind::Rsa2048, KeyKind::Ed25519, KeyKind::Hmac];
}

enum Pair {
    Ecdsa(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
    Ed25519(Box<Ed25519KeyPair>),
    Hmac { key: Box<hmac::Key>, secret: Vec<u8> },
}

/// A private key, or a shared secret, and its name.
pub struct Key {
    name: Name,
    locator: Name,
    pair: Pair,
}

impl Key {
    /// Makes a key for an identity, named `/<identity>/KEY/<first 8 octets of the SHA-256 of its public half>`.
    ///
    /// # Errors
    /// When the library can't.
    pub fn generate(kind: KeyKind, identity: NameRef<'_>) -> Result<Self, Error> {
        let failed = |_| Error::Library("making a key");
        let pair = match kind {
            KeyKind::EcdsaP256 => Pair::Ecdsa(Box::new(
                EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?,
            )),
            KeyKind::Rsa2048 => Pair::Rsa(Box::new(RsaKeyPair::generate(KeySize::Rsa2048).map_err(failed)?)),
            KeyKind::Ed25519 => Pair::Ed25519(Box::new(Ed25519KeyPair::generate().map_err(failed)?)),
            KeyKind::Hmac => {
                let mut secret = vec![0; SECRET_LEN];
                aws_lc_rs::rand::fill(&mut secret).map_err(failed)?;
                Pair::of_secret(secret)
            }
        };
        let id = pair.id()?;
        Ok(Self::new(identity.to_name().with(convention::KEY).with_generic(id), pair))
    }

    /// As [`generate`](Self::generate), an RSA key of that many bits.
    ///
    /// # Errors
    /// [`Error::NotAKey`] when it is none of [`RSA_BITS`]; or when the library can't.
    pub fn generate_rsa(bits: u16, identity: NameRef<'_>) -> Result<Self, Error> {
        let size = match bits {
            2048 => KeySize::Rsa2048,
            3072 => KeySize::Rsa3072,
            4096 => KeySize::Rsa4096,
            _ => return Err(Error::NotAKey("RSA keys have 2048, 3072 or 4096 bits")),
        };
        let pair = RsaKeyPair::generate(size).map_err(|_| Error::Library("making a key"))?;
        let pair = Pair::Rsa(Box::new(pair));
        let id = pair.id()?;
        Ok(Self::new(identity.to_name().with(convention::KEY).with_generic(id), pair))
    }

    /// An HMAC key from a secret that was agreed upon. `name` is the key's whole name.
    pub fn from_secret(name: NameRef<'_>, secret: &[u8]) -> Self {
        Self::new(name.to_name(), Pair::of_secret(secret.to_vec()))
    }

    /// A key from an unencrypted PKCS#8 document (DER). `name` is the key's whole name.
    ///
    /// # Errors
    /// [`Error::NotAKey`] when it is none, or of a kind we don't sign with.
    pub fn from_pkcs8(name: NameRef<'_>, der: &[u8]) -> Result<Self, Error> {
        let pair = if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der) {
            Pair::Ecdsa(Box::new(pair))
        } else if let Ok(pair) = Ed25519KeyPair::from_pkcs8(der) {
            Pair::Ed25519(Box::new(pair))
        } else if let Ok(pair) = RsaKeyPair::from_pkcs8(der) {
            Pair::Rsa(Box::new(pair))
        } else {
            return Err(Error::NotAKey("PKCS#8 of an ECDSA P-256, Ed25519 or RSA key was expected"));
        };
        Ok(Self::new(name.to_name(), pair))
    }

    /// As [`from_pkcs8`](Self::from_pkcs8), from PEM (`BEGIN PRIVATE KEY`) or bare base64.
    ///
    /// # Errors
    /// As [`from_pkcs8`](Self::from_pkcs8); [`Error::Text`] when it is no base64.
    pub fn from_pem(name: NameRef<'_>, pem: &str) -> Result<Self, Error> {
        Self::from_pkcs8(name, &text::unarmor(pem)?)
    }

    /// As [`from_pkcs8`](Self::from_pkcs8), but the DER may also be PKCS#1 (RSA) or RFC 5915 (ECDSA): what key files of the ecosystem hold.
    ///
    /// # Errors
    /// As [`from_pkcs8`](Self::from_pkcs8).
    pub fn from_der(name: NameRef<'_>, der: &[u8]) -> Result<Self, Error> {
        if let Ok(key) = Self::from_pkcs8(name, der) {
            return Ok(key);
        }
        let pair = if let Ok(pair) = RsaKeyPair::from_der(der) {
            Pair::Rsa(Box::new(pair))
        } else if let Ok(pair) = EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_ASN1_SIGNING, der) {
            Pair::Ecdsa(Box::new(pair))
        } else {
            return Err(Error::NotAKey("a private ECDSA P-256, RSA or Ed25519 key was expected"));
        };
        Ok(Self::new(name.to_name(), pair))
    }

    fn new(name: Name, pair: Pair) -> Self {
        Key { locator: name.clone(), name, pair }
    }

    /// The key as unencrypted PKCS#8 (DER); an HMAC key's secret as it is. Keep it from others' eyes.
    ///
    /// # Errors
    /// When the library can't.
    pub fn to_pkcs8(&self) -> Result<Vec<u8>, Error> {
        let failed = |_| Error::Library("exporting a key");
        Ok(match &self.pair {
            Pair::Ecdsa(pair) => pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.to_pkcs8v1().map_err(failed)?.as_ref().to_vec(),
            Pair::Rsa(pair) => AsDer::<Pkcs8V1Der<'_>>::as_der(&**pair).map_err(failed)?.as_ref().to_vec(),
            Pair::Hmac { secret, .. } => secret.clone(),
        })
    }

    /// The key as the ecosystem's key files hold it: PKCS#1 for RSA, RFC 5915 for ECDSA, PKCS#8 for Ed25519, which has no other form.
    ///
    /// # Errors
    /// When the library can't; [`Error::NoPublicHalf`] for an HMAC key.
    pub fn to_der(&self) -> Result<Vec<u8>, Error> {
        let failed = |_| Error::Library("exporting a key");
        match &self.pair {
            Pair::Ecdsa(pair) => {
                let der = AsDer::<EcPrivateKeyRfc5915Der<'_>>::as_der(&pair.private_key()).map_err(failed)?;
                Ok(der.as_ref().to_vec())
            }
            Pair::Rsa(_) => safebag::inner_key(&self.to_pkcs8()?),
            Pair::Ed25519(_) => self.to_pkcs8(),
            Pair::Hmac { .. } => Err(Error::NoPublicHalf),
        }
    }

    /// [`to_pkcs8`](Self::to_pkcs8) as PEM.
    ///
    /// # Errors
    /// When the library can't; [`Error::NoPublicHalf`] for an HMAC key, which is no PKCS#8.
    pub fn to_pem(&self) -> Result<String, Error> {
        match self.pair {
            Pair::Hmac { .. } => Err(Error::NoPublicHalf),
            _ => Ok(text::pem("PRIVATE KEY", &self.to_pkcs8()?)),
        }
    }

    /// Name of the key.
    pub fn name(&self) -> NameRef<'_> {
        self.name.as_ref()
    }

    /// Whose key it is: the name before `KEY` and key id, or the whole name when it is not of that form.
    pub fn identity(&self) -> NameRef<'_> {
        let name = self.name.as_ref();
        match name.component(-2) {
            Some(component) if component == convention::KEY => name.prefix(name.len() - 2),
            _ => name,
        }
    }

    /// What kind of key it is. An imported RSA key may be longer than 2048 bits.
    pub fn kind(&self) -> KeyKind {
        match self.pair {
            Pair::Ecdsa(_) => KeyKind::EcdsaP256,
            Pair::Rsa(_) => KeyKind::Rsa2048,
            Pair::Ed25519(_) => KeyKind::Ed25519,
            Pair::Hmac { .. } => KeyKind::Hmac,
        }
    }

    /// Signatures from now on name `locator` (such as the key's certificate) instead of the key.
    #[must_use]
    pub fn located_at(mut self, locator: NameRef<'_>) -> Self {
        self.locator = locator.to_name();
        self
    }

    /// The public half, DER SubjectPublicKeyInfo.
    ///
    /// # Errors
    /// [`Error::NoPublicHalf`] for an HMAC key; or when the library can't.
    pub fn public_key(&self) -> Result<Vec<u8>, Error> {
        self.pair.public_key()
    }

    /// What verifies this key's signatures.
    ///
    /// # Errors
    /// When the library can't.
    pub fn verify_key(&self) -> Result<VerifyKey, Error> {
        match &self.pair {
            Pair::Hmac { secret, .. } => Ok(VerifyKey::from_secret(secret)),
            pair => VerifyKey::from_spki(&pair.public_key()?),
        }
    }

    /// SignatureType of its signatures.
    pub fn signature_type(&self) -> SignatureType {
        match self.pair {
            Pair::Ecdsa(_) => SignatureType::Sha256WithEcdsa,
            Pair::Rsa(_) => SignatureType::Sha256WithRsa,
            Pair::Ed25519(_) => SignatureType::Ed25519,
            Pair::Hmac { .. } => SignatureType::HmacWithSha256,
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
            Pair::Ecdsa(pair) => pair.sign_digest(&sha256_of(parts)).map_err(failed)?.as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let digest = sha256_of(parts);
                pair.sign_digest(&RSA_PKCS1_SHA256, &digest, &mut signature).map_err(failed)?;
                signature
            }
            // Ed25519 goes over its message twice, so it must have it in one piece.
            Pair::Ed25519(pair) => pair.try_sign(&parts.concat()).map_err(failed)?.as_ref().to_vec(),
            Pair::Hmac { key, .. } => {
                let mut context = hmac::Context::with_key(key);
                parts.iter().for_each(|part| context.update(part));
                context.sign().as_ref().to_vec()
            }
        })
    }
}

impl Pair {
    fn of_secret(secret: Vec<u8>) -> Self {
        Pair::Hmac { key: Box::new(hmac::Key::new(hmac::HMAC_SHA256, &secret)), secret }
    }

    fn public_key(&self) -> Result<Vec<u8>, Error> {
        let der: Result<PublicKeyX509Der<'_>, _> = match self {
            Pair::Ecdsa(pair) => pair.public_key().as_der(),
            Pair::Rsa(pair) => pair.public_key().as_der(),
            Pair::Ed25519(pair) => pair.public_key().as_der(),
            Pair::Hmac { .. } => return Err(Error::NoPublicHalf),
        };
        Ok(der.map_err(|_| Error::Library("exporting a public key"))?.as_ref().to_vec())
    }

    fn id(&self) -> Result<[u8; KEY_ID_LEN], Error> {
        let digest = match self {
            Pair::Hmac { secret, .. } => sha256(&[secret]),
            pair => sha256(&[&pair.public_key()?]),
        };
        Ok(*digest.first_chunk().expect("32 octets have a first 8"))
    }
}

/// Of the parts, one after the other. Of a single one at once, which needs no context from the heap.
pub(crate) fn sha256_of(parts: &[&[u8]]) -> digest::Digest {
    if let [whole] = parts {
        return digest::digest(&digest::SHA256, whole);
    }
    let mut context = digest::Context::new(&digest::SHA256);
    parts.iter().for_each(|part| context.update(part));
    context.finish()
}

/// What a program signs with: a key, or nothing but a digest.
#[derive(Debug)]
pub enum Signer {
    /// A plain SHA-256 digest.
    Digest,
    /// A key.
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

/// The fields of InterestSignatureInfo that make a signed Interest unlike any other: eight random octets and the time.
///
/// # Errors
/// When the system has no randomness to give.
pub fn freshness_fields(now_ms: u64) -> Result<Vec<u8>, Error> {
    use aws_lc_rs::rand::SecureRandom;
    let mut nonce = [0; 8];
    SystemRandom::new().fill(&mut nonce).map_err(|_| Error::Library("drawing a nonce"))?;
    let mut fields = Vec::with_capacity(20);
    push_tlv(t::SIGNATURE_NONCE, &nonce, &mut fields);
    push_integer(t::SIGNATURE_TIME, now_ms, &mut fields);
    Ok(fields)
}

/// The name that [`Key::generate`] gives to a key with this public half (SubjectPublicKeyInfo, DER).
pub fn key_name(identity: NameRef<'_>, spki: &[u8]) -> Name {
    identity.to_name().with(convention::KEY).with(Component::generic(&sha256(&[spki])[..KEY_ID_LEN]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Name {
        "/alice".parse().unwrap()
    }

    #[test]
    fn keys_are_named_by_their_public_half() {
        let key = Key::generate(KeyKind::EcdsaP256, identity().as_ref()).unwrap();
        assert_eq!(key.name(), key_name(identity().as_ref(), &key.public_key().unwrap()).as_ref());
        assert_eq!(key.identity(), identity().as_ref());
        assert_eq!(key.name().component(-1).unwrap().value().len(), 8);
    }

    #[test]
    fn exported_keys_come_back() {
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
    fn key_files_come_back() {
        for kind in [KeyKind::EcdsaP256, KeyKind::Rsa2048, KeyKind::Ed25519] {
            let key = Key::generate(kind, identity().as_ref()).unwrap();
            let again = Key::from_der(key.name(), &key.to_der().unwrap()).unwrap();
            assert_eq!(again.public_key(), key.public_key(), "{kind:?}");
            assert_eq!(Key::from_der(key.name(), &key.to_pkcs8().unwrap()).unwrap().kind(), kind);
        }
        assert!(matches!(Key::generate_rsa(1024, identity().as_ref()), Err(Error::NotAKey(_))));
    }

    #[test]
    fn nonsense_is_no_key() {
        let name = identity();
        assert!(matches!(Key::from_pkcs8(name.as_ref(), b""), Err(Error::NotAKey(_))));
        assert!(matches!(Key::from_pkcs8(name.as_ref(), &[0x30; 100]), Err(Error::NotAKey(_))));
        assert!(matches!(Key::from_pem(name.as_ref(), "%%%"), Err(Error::Text(_))));
        let hmac = Key::generate(KeyKind::Hmac, name.as_ref()).unwrap();
        assert_eq!(hmac.public_key(), Err(Error::NoPublicHalf));
        assert_eq!(hmac.to_pem(), Err(Error::NoPublicHalf));
    }

    #[test]
    fn debug_output_holds_no_secret() {
        let key = Key::from_secret(identity().as_ref(), b"correct horse");
        assert_eq!(format!("{key:?}"), "Key(/alice, Hmac)");
    }
}
