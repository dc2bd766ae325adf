//! SafeBags: a certificate and its private key encrypted with a passphrase, as written by
//! `ndnsec export` and read by `ndnsec import`.
//!
//! ```text
//! SafeBag      = 128 length Certificate EncryptedKey
//! EncryptedKey = 129 length (PKCS#8 EncryptedPrivateKeyInfo, DER)
//! ```
//!
//! Written with PBES2: PBKDF2 with HMAC-SHA-256, then AES-256-CBC, which OpenSSL and ndn-cxx read
//! and write. The ciphers and hashes of older software are read as well.

use crate::key::Key;
use crate::verify::VerifyKey;
use crate::{Error, pem};
use nw_wire::certificate::Certificate;
use nw_wire::tlv::push_tlv;
use nw_wire::{Reader, Sign, types as t};
use pkcs8::pkcs5::pbes2::Parameters;
use pkcs8::{EncryptedPrivateKeyInfoRef, PrivateKeyInfoRef};

/// PBKDF2 rounds of written SafeBags.
const ROUNDS: u32 = 600_000;
/// Maximum PBKDF2 rounds accepted from a SafeBag: some seconds of work.
const ROUNDS_MAX: u32 = 20_000_000;
/// Length of the salt, bytes.
const SALT_LEN: usize = 16;
/// Signed to check that key and certificate belong together.
const PROBE: &[u8] = b"Do they belong together?";

/// Encodes a SafeBag with a certificate and its private key.
///
/// # Errors
/// [`Error::Packet`] if `certificate` is not one, [`Error::KeyMismatch`] if the key is another
/// one's, [`Error::Library`] if the library fails.
pub fn seal(certificate: &[u8], key: &Key, passphrase: &[u8]) -> Result<Vec<u8>, Error> {
    check_key_matches(&Certificate::check(certificate)?, key)?;
    let encrypted = encrypt(&key.to_pkcs8()?, passphrase)?;
    let (mut value, mut bag) = (certificate.to_vec(), Vec::new());
    push_tlv(t::ENCRYPTED_KEY, &encrypted, &mut value);
    push_tlv(t::SAFE_BAG, &value, &mut bag);
    Ok(bag)
}

/// Decrypts a SafeBag, and returns the certificate packet and its private key.
///
/// # Errors
/// [`Error::Text`] or [`Error::Packet`] if it is not a SafeBag; [`Error::WrongPassphrase`],
/// [`Error::Encryption`], [`Error::NotAKey`] or [`Error::KeyMismatch`].
pub fn open(bag: &[u8], passphrase: &[u8]) -> Result<(Vec<u8>, Key), Error> {
    let (wire, encrypted) = parts(bag)?;
    let certificate = Certificate::check(wire)?;
    let key = Key::from_pkcs8(certificate.key_name(), &decrypt(encrypted, passphrase)?)?;
    check_key_matches(&certificate, &key)?;
    Ok((wire.to_vec(), key))
}

/// Returns the certificate packet of a SafeBag, which is not encrypted.
///
/// # Errors
/// [`Error::Text`] or [`Error::Packet`] if it is not a SafeBag.
pub fn certificate(bag: &[u8]) -> Result<&[u8], Error> {
    let (wire, _) = parts(bag)?;
    Certificate::check(wire)?;
    Ok(wire)
}

/// Returns the number of PBKDF2 rounds needed to decrypt a SafeBag.
///
/// # Errors
/// The errors of [`open`] except those of decryption.
pub fn rounds(bag: &[u8]) -> Result<u32, Error> {
    let (wire, encrypted) = parts(bag)?;
    Certificate::check(wire)?;
    Ok(scheme(encrypted)?.1)
}

/// Returns the SafeBag packet in a file, which is binary or base64.
///
/// # Errors
/// [`Error::Text`] if it is neither.
pub fn read_file(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let bag = match bytes.first() {
        Some(&first) if u32::from(first) == t::SAFE_BAG => bytes.to_vec(),
        _ => pem::decode(std::str::from_utf8(bytes).map_err(|_| Error::Text("a SafeBag"))?)?,
    };
    parts(&bag)?;
    Ok(bag)
}

/// Splits a SafeBag into the certificate packet and the encrypted key.
fn parts(bag: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let malformed = Error::Text("a SafeBag");
    let mut outer = Reader::new(bag, 0);
    let Some(element) =
        outer.next().ok().flatten().filter(|e| e.typ == t::SAFE_BAG && outer.is_empty())
    else {
        return Err(malformed);
    };
    let mut inner = Reader::new(element.value, element.value_start);
    let certificate =
        inner.next().ok().flatten().filter(|e| e.typ == t::DATA).ok_or(malformed.clone())?;
    let encrypted =
        inner.next().ok().flatten().filter(|e| e.typ == t::ENCRYPTED_KEY).ok_or(malformed)?;
    Ok((&bag[certificate.start..certificate.end()], encrypted.value))
}

fn check_key_matches(certificate: &Certificate<'_>, key: &Key) -> Result<(), Error> {
    let public = VerifyKey::from_spki(certificate.public_key())?;
    let signature = key.sign(&[PROBE])?;
    public.verify(key.signature_type(), &[PROBE], &signature).map_err(|_| Error::KeyMismatch)
}

fn encrypt(der: &[u8], passphrase: &[u8]) -> Result<Vec<u8>, Error> {
    let failed = || Error::Library("encrypting a key");
    let (mut salt, mut iv) = ([0; SALT_LEN], [0; 16]);
    aws_lc_rs::rand::fill(&mut salt).map_err(|_| failed())?;
    aws_lc_rs::rand::fill(&mut iv).map_err(|_| failed())?;
    let parameters =
        Parameters::generate_pbkdf2_sha256_aes256cbc(ROUNDS, &salt, iv).map_err(|_| failed())?;
    let key = PrivateKeyInfoRef::try_from(der).map_err(|_| failed())?;
    Ok(key.encrypt_with_params(parameters, passphrase).map_err(|_| failed())?.as_bytes().to_vec())
}

/// Decrypts to the PKCS#8 document (DER).
fn decrypt(encrypted: &[u8], passphrase: &[u8]) -> Result<Vec<u8>, Error> {
    let (encrypted, _) = scheme(encrypted)?;
    // A wrong passphrase gives wrong padding, or a malformed document.
    let document = encrypted.decrypt(passphrase).map_err(|_| Error::WrongPassphrase)?;
    Ok(document.as_bytes().to_vec())
}

/// Parses the encrypted document, and returns it with its number of PBKDF2 rounds.
fn scheme(encrypted: &[u8]) -> Result<(EncryptedPrivateKeyInfoRef<'_>, u32), Error> {
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(encrypted)
        .map_err(|_| Error::Encryption("malformed"))?;
    let kdf = encrypted.encryption_algorithm.pbes2().and_then(|scheme| scheme.kdf.pbkdf2());
    match kdf.map(|kdf| kdf.iteration_count) {
        None => Err(Error::Encryption("another scheme")),
        Some(rounds) if rounds > ROUNDS_MAX => Err(Error::Encryption("too many rounds")),
        Some(rounds) => Ok((encrypted, rounds)),
    }
}

/// Returns the key inside a PKCS#8 document: PKCS#1 for RSA.
pub(crate) fn inner_key(pkcs8: &[u8]) -> Result<Vec<u8>, Error> {
    let info =
        PrivateKeyInfoRef::try_from(pkcs8).map_err(|_| Error::NotAKey("PKCS#8 was expected"))?;
    Ok(info.private_key.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::{Validity, self_signed};
    use crate::key::KeyKind;
    use nw_name::Name;

    fn pair(kind: KeyKind) -> (Vec<u8>, Key) {
        let key = Key::generate(kind, "/alice".parse::<Name>().unwrap().as_ref()).unwrap();
        let validity = Validity { not_before_s: 0, not_after_s: 2_000_000_000 };
        (self_signed(&key, 1, validity).unwrap(), key)
    }

    #[test]
    fn sealed_bag_opens_with_its_passphrase_only() {
        for kind in [KeyKind::EcdsaP256, KeyKind::Rsa2048, KeyKind::Ed25519] {
            let (wire, key) = pair(kind);
            let bag = seal(&wire, &key, b"secret").unwrap();
            assert_eq!(certificate(&bag).unwrap(), wire);
            assert_eq!(read_file(pem::encode_base64(&bag).as_bytes()).unwrap(), bag);
            assert_eq!(read_file(&bag).unwrap(), bag);
            let (again, opened) = open(&bag, b"secret").unwrap();
            assert_eq!((again, opened.public_key()), (wire, key.public_key()));
            assert_eq!(open(&bag, b"Secret").unwrap_err(), Error::WrongPassphrase);
        }
    }

    #[test]
    fn seal_with_foreign_key_is_an_error() {
        let ((wire, _), (_, foreign)) = (pair(KeyKind::EcdsaP256), pair(KeyKind::EcdsaP256));
        assert_eq!(seal(&wire, &foreign, b"x"), Err(Error::KeyMismatch));
        let (_, key) = pair(KeyKind::Ed25519);
        assert_eq!(seal(&wire, &key, b"x"), Err(Error::KeyMismatch));
    }

    #[test]
    fn damaged_bag_does_not_panic() {
        let (wire, key) = pair(KeyKind::Ed25519);
        let bag = seal(&wire, &key, b"secret").unwrap();
        for end in 0..bag.len() {
            assert!(parts(&bag[..end]).is_err());
        }
        // The parts that are read without the passphrase: framing and encryption scheme.
        for at in 0..bag.len() {
            let mut changed = bag.clone();
            changed[at] ^= 0x55;
            let _ = certificate(&changed);
            let _ = parts(&changed)
                .map(|(_, encrypted)| EncryptedPrivateKeyInfoRef::try_from(encrypted).is_ok());
        }
        assert_eq!(read_file("keine Tüte".as_bytes()), Err(Error::Text("base64")));
        assert_eq!(read_file(pem::encode_base64(&wire).as_bytes()), Err(Error::Text("a SafeBag")));
    }
}
