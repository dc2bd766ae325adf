//! SafeBags: a certificate and its private key behind a passphrase, as `ndnsec export` writes and `ndnsec import` reads them.
//!
//! ```text
//! SafeBag = 128 length Certificate EncryptedKey          EncryptedKey = 129 length (PKCS#8 EncryptedPrivateKeyInfo, DER)
//! ```
//!
//! Written with PBES2: PBKDF2 with HMAC-SHA-256, then AES-256 in CBC mode, which is what OpenSSL and hence ndn-cxx read and write. Read also with
//! the ciphers and hashes of older ones.

use crate::key::Key;
use crate::verify::VerifyKey;
use crate::{Error, text};
use nw_wire::certificate::Certificate;
use nw_wire::tlv::push_tlv;
use nw_wire::{Reader, Sign, types as t};
use pkcs8::pkcs5::pbes2::Parameters;
use pkcs8::{EncryptedPrivateKeyInfoRef, PrivateKeyInfoRef};

/// Rounds of PBKDF2 in what is written here.
const ROUNDS: u32 = 600_000;
/// More rounds are not made for a SafeBag from somewhere: some seconds' work.
const ROUNDS_MAX: u32 = 20_000_000;
/// Octets of salt.
const SALT_LEN: usize = 16;
/// What is signed to see that key and certificate belong together.
const PROBE: &[u8] = b"Do they belong together?";

/// A SafeBag of a certificate and its private key.
///
/// # Errors
/// [`Error::Packet`] when `certificate` is none, [`Error::NotItsKey`], or when the library can't.
pub fn seal(certificate: &[u8], key: &Key, passphrase: &[u8]) -> Result<Vec<u8>, Error> {
    belongs(&Certificate::check(certificate)?, key)?;
    let encrypted = encrypt(&key.to_pkcs8()?, passphrase)?;
    let (mut value, mut bag) = (certificate.to_vec(), Vec::new());
    push_tlv(t::ENCRYPTED_KEY, &encrypted, &mut value);
    push_tlv(t::SAFE_BAG, &value, &mut bag);
    Ok(bag)
}

/// A certificate's packet and its private key, out of a SafeBag.
///
/// # Errors
/// [`Error::Text`] or [`Error::Packet`] when it is no SafeBag, [`Error::WrongPassphrase`], [`Error::Encryption`], [`Error::NotAKey`] or [`Error::NotItsKey`].
pub fn open(bag: &[u8], passphrase: &[u8]) -> Result<(Vec<u8>, Key), Error> {
    let (wire, encrypted) = parts(bag)?;
    let certificate = Certificate::check(wire)?;
    let key = Key::from_pkcs8(certificate.key_name(), &decrypt(encrypted, passphrase)?)?;
    belongs(&certificate, &key)?;
    Ok((wire.to_vec(), key))
}

/// The certificate of a SafeBag, which no passphrase guards.
///
/// # Errors
/// [`Error::Text`] or [`Error::Packet`] when it is no SafeBag.
pub fn certificate(bag: &[u8]) -> Result<&[u8], Error> {
    let (wire, _) = parts(bag)?;
    Certificate::check(wire)?;
    Ok(wire)
}

/// Rounds of PBKDF2 that opening it takes: what it costs, before any passphrase.
///
/// # Errors
/// As [`open`], but for the passphrase and what it hides.
pub fn rounds(bag: &[u8]) -> Result<u32, Error> {
    let (wire, encrypted) = parts(bag)?;
    Certificate::check(wire)?;
    Ok(scheme(encrypted)?.1)
}

/// The octets of a SafeBag given as bytes or as base64.
///
/// # Errors
/// [`Error::Text`] when it is neither.
pub fn read_file(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let bag = match bytes.first() {
        Some(&first) if u32::from(first) == t::SAFE_BAG => bytes.to_vec(),
        _ => text::unarmor(std::str::from_utf8(bytes).map_err(|_| Error::Text("a SafeBag"))?)?,
    };
    parts(&bag)?;
    Ok(bag)
}

/// Certificate and encrypted key.
fn parts(bag: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let none = Error::Text("a SafeBag");
    let mut outer = Reader::new(bag, 0);
    let Some(element) = outer.next().ok().flatten().filter(|e| e.typ == t::SAFE_BAG && outer.is_empty())
    else {
        return Err(none);
    };
    let mut inner = Reader::new(element.value, element.value_start);
    let certificate = inner.next().ok().flatten().filter(|e| e.typ == t::DATA).ok_or(none.clone())?;
    let encrypted = inner.next().ok().flatten().filter(|e| e.typ == t::ENCRYPTED_KEY).ok_or(none)?;
    Ok((&bag[certificate.start..certificate.end()], encrypted.value))
}

fn belongs(certificate: &Certificate<'_>, key: &Key) -> Result<(), Error> {
    let public = VerifyKey::from_spki(certificate.public_key())?;
    let signature = key.sign(&[PROBE])?;
    public.verify(key.signature_type(), &[PROBE], &signature).map_err(|_| Error::NotItsKey)
}

fn encrypt(der: &[u8], passphrase: &[u8]) -> Result<Vec<u8>, Error> {
    let failed = || Error::Library("encrypting a key");
    let (mut salt, mut iv) = ([0; SALT_LEN], [0; 16]);
    aws_lc_rs::rand::fill(&mut salt).map_err(|_| failed())?;
    aws_lc_rs::rand::fill(&mut iv).map_err(|_| failed())?;
    let how = Parameters::generate_pbkdf2_sha256_aes256cbc(ROUNDS, &salt, iv).map_err(|_| failed())?;
    let key = PrivateKeyInfoRef::try_from(der).map_err(|_| failed())?;
    Ok(key.encrypt_with_params(how, passphrase).map_err(|_| failed())?.as_bytes().to_vec())
}

/// The PKCS#8 document within.
fn decrypt(encrypted: &[u8], passphrase: &[u8]) -> Result<Vec<u8>, Error> {
    let (encrypted, _) = scheme(encrypted)?;
    // A wrong passphrase makes wrong padding, or else no document.
    let document = encrypted.decrypt(passphrase).map_err(|_| Error::WrongPassphrase)?;
    Ok(document.as_bytes().to_vec())
}

/// The document, and how many rounds of PBKDF2 guard it.
fn scheme(encrypted: &[u8]) -> Result<(EncryptedPrivateKeyInfoRef<'_>, u32), Error> {
    let encrypted =
        EncryptedPrivateKeyInfoRef::try_from(encrypted).map_err(|_| Error::Encryption("it can't be read"))?;
    let how = encrypted.encryption_algorithm.pbes2().and_then(|how| how.kdf.pbkdf2());
    match how.map(|how| how.iteration_count) {
        None => Err(Error::Encryption("it says so")),
        Some(rounds) if rounds > ROUNDS_MAX => Err(Error::Encryption("too many rounds")),
        Some(rounds) => Ok((encrypted, rounds)),
    }
}

/// What a PKCS#8 document wraps: for RSA the PKCS#1 key.
pub(crate) fn inner_key(pkcs8: &[u8]) -> Result<Vec<u8>, Error> {
    let info = PrivateKeyInfoRef::try_from(pkcs8).map_err(|_| Error::NotAKey("PKCS#8 was expected"))?;
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
    fn what_is_sealed_opens() {
        for kind in [KeyKind::EcdsaP256, KeyKind::Rsa2048, KeyKind::Ed25519] {
            let (wire, key) = pair(kind);
            let bag = seal(&wire, &key, b"secret").unwrap();
            assert_eq!(certificate(&bag).unwrap(), wire);
            assert_eq!(read_file(text::armor(&bag).as_bytes()).unwrap(), bag);
            assert_eq!(read_file(&bag).unwrap(), bag);
            let (again, opened) = open(&bag, b"secret").unwrap();
            assert_eq!((again, opened.public_key()), (wire, key.public_key()));
            assert_eq!(open(&bag, b"Secret").unwrap_err(), Error::WrongPassphrase);
        }
    }

    #[test]
    fn another_key_is_not_taken() {
        let ((wire, _), (_, other)) = (pair(KeyKind::EcdsaP256), pair(KeyKind::EcdsaP256));
        assert_eq!(seal(&wire, &other, b"x"), Err(Error::NotItsKey));
        let (_, key) = pair(KeyKind::Ed25519);
        assert_eq!(seal(&wire, &key, b"x"), Err(Error::NotItsKey));
    }

    #[test]
    fn no_damaged_bag_panics() {
        let (wire, key) = pair(KeyKind::Ed25519);
        let bag = seal(&wire, &key, b"secret").unwrap();
        for end in 0..bag.len() {
            assert!(parts(&bag[..end]).is_err());
        }
        // Where the passphrase is not asked: the frame and the way of encryption.
        for at in 0..bag.len() {
            let mut changed = bag.clone();
            changed[at] ^= 0x55;
            let _ = certificate(&changed);
            let _ =
                parts(&changed).map(|(_, encrypted)| EncryptedPrivateKeyInfoRef::try_from(encrypted).is_ok());
        }
        assert_eq!(read_file("keine Tüte".as_bytes()), Err(Error::Text("base64")));
        assert_eq!(read_file(text::armor(&wire).as_bytes()), Err(Error::Text("a SafeBag")));
    }
}
