//! Signatures of publications: one for each, or one for a batch.
//!
//! A signed publication is its payload and a block after it:
//!
//! ```text
//! payload | signature type 1 | index 1 | count 1 | { hash 32 }… | signature | length 2 | mark 8
//!
//! leaf  = SHA-256(0 | name length 2 | name | sequence number 8 | payload)
//! node  = SHA-256(1 | left 32 | right 32)      a leaf beyond the count is 32 bytes of 0
//! signed: "namewire publications" | count 1 | root 32
//! ```
//!
//! Numbers have the most significant byte first. Invariant: a publication of a batch is checked
//! alone, and costs one signature check for the whole batch. A signature is valid for one name and
//! one sequence number.

use crate::key::{Key, sha256_of};
use crate::{Error, VerifyKey, pem};
use nw_wire::certificate::Certificate;
use nw_wire::{Sign, SignatureType};

/// Publications of a batch at most.
pub const BATCH_MAX: usize = 64;

const MARK: &[u8; 8] = b"nwsigned";
const CONTEXT: &[u8] = b"namewire publications";
/// Bytes of the block's end.
const END_LEN: usize = 10;
/// Bytes of a block at most: a signature of RSA 8192 and a path.
const BLOCK_BYTES_MAX: usize = 2048;

type Hash = [u8; 32];

/// Why a publication is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicationFault {
    /// It has no signature.
    #[error("it is not signed: publish it with a key, as `nw pub --key` does")]
    Unsigned,
    /// No key of the set made its signature.
    #[error("its signature is of no key that is accepted here")]
    Mismatch,
}

/// The block of a signed publication.
#[derive(Clone, Copy, Debug)]
struct Block<'a> {
    typ: SignatureType,
    index: usize,
    count: usize,
    path: &'a [u8],
    signature: &'a [u8],
}

fn hash(parts: &[&[u8]]) -> Hash {
    let digest = sha256_of(parts);
    core::array::from_fn(|at| digest.as_ref()[at])
}

fn leaf(name: &str, sequence: u64, payload: &[u8]) -> Hash {
    let len = (name.len() as u16).to_be_bytes();
    hash(&[&[0], &len, name.as_bytes(), &sequence.to_be_bytes(), payload])
}

/// Levels of a tree above its leaves.
const fn depth(count: usize) -> usize {
    count.next_power_of_two().trailing_zeros() as usize
}

/// Returns the blocks that make consecutive publications of an item signed ones, by one signature.
/// Each is to be put after its payload. The first publication has number `first`.
///
/// # Errors
/// [`Error::Library`] if the signature can't be made, or if there are none or more than
/// [`BATCH_MAX`].
pub fn sign_batch(
    key: &Key,
    name: &str,
    first: u64,
    payloads: &[&[u8]],
) -> Result<Vec<Vec<u8>>, Error> {
    let count = payloads.len();
    if count == 0 || count > BATCH_MAX {
        return Err(Error::Library("signing a batch of none, or of more than 64"));
    }
    let mut leaves: Vec<Hash> =
        (first..).zip(payloads).map(|(number, payload)| leaf(name, number, payload)).collect();
    leaves.resize(count.next_power_of_two(), [0; 32]);
    let mut levels = vec![leaves];
    while let Some(last) = levels.last().filter(|level| level.len() > 1) {
        levels.push(last.chunks(2).map(|pair| hash(&[&[1], &pair[0], &pair[1]])).collect());
    }
    let root = levels[levels.len() - 1][0];
    let signature = key.sign(&[&[CONTEXT, &[count as u8], &root].concat()])?;
    let typ = key.signature_type().number() as u8;
    let block = |index: usize| {
        let mut block = vec![typ, index as u8, count as u8];
        for (height, level) in levels[..levels.len() - 1].iter().enumerate() {
            block.extend_from_slice(&level[(index >> height) ^ 1]);
        }
        block.extend_from_slice(&signature);
        let len = (block.len() + END_LEN) as u16;
        block.extend_from_slice(&len.to_be_bytes());
        block.extend_from_slice(MARK);
        block
    };
    Ok((0..count).map(block).collect())
}

/// Divides a publication into payload and block. `None` if it has no block.
fn split(publication: &[u8]) -> Option<(&[u8], Block<'_>)> {
    let rest = publication.strip_suffix(MARK)?;
    let (rest, len) = rest.split_last_chunk::<2>()?;
    let len = usize::from(u16::from_be_bytes(*len));
    if len > BLOCK_BYTES_MAX {
        return None;
    }
    let (payload, block) =
        rest.split_at_checked(rest.len().checked_sub(len.checked_sub(END_LEN)?)?)?;
    let ([typ, index, count], rest) = block.split_first_chunk::<3>()?;
    let (index, count) = (usize::from(*index), usize::from(*count));
    if index >= count || count > BATCH_MAX {
        return None;
    }
    let (path, signature) = rest.split_at_checked(32 * depth(count))?;
    let typ = SignatureType::from(u64::from(*typ));
    Some((payload, Block { typ, index, count, path, signature }))
}

/// Returns the payload of a publication without its signature, which is not checked; all of it if
/// it has none.
pub fn payload_of(publication: &[u8]) -> &[u8] {
    split(publication).map_or(publication, |(payload, _)| payload)
}

/// Reads the key of a file: a certificate or a public key, binary, base64 or PEM.
///
/// # Errors
/// [`Error::NotAKey`] if it is neither.
pub fn read_public_key(file: &[u8]) -> Result<VerifyKey, Error> {
    let decoded = core::str::from_utf8(file).ok().and_then(|text| pem::decode(text).ok());
    let bytes = decoded.as_deref().unwrap_or(file);
    match Certificate::check(bytes) {
        Ok(certificate) => VerifyKey::from_spki(certificate.public_key()),
        Err(_) => VerifyKey::from_spki(bytes),
    }
}

/// Keys whose publications are accepted.
#[derive(Debug, Default)]
pub struct PublicationKeys {
    keys: Vec<VerifyKey>,
    /// The batch that was found valid last: type, number of publications, root and signature.
    valid: Option<(SignatureType, usize, Hash, Vec<u8>)>,
    checks: u64,
}

impl PublicationKeys {
    /// Creates a set of keys.
    pub const fn new(keys: Vec<VerifyKey>) -> Self {
        PublicationKeys { keys, valid: None, checks: 0 }
    }

    /// Returns how many signatures were checked: one per batch if its publications come together.
    pub const fn checks(&self) -> u64 {
        self.checks
    }

    /// Returns the payload of a publication that one of the keys signed for this name and number.
    ///
    /// # Errors
    /// If it is not signed, or not by one of the keys.
    pub fn check<'a>(
        &mut self,
        name: &str,
        sequence: u64,
        publication: &'a [u8],
    ) -> Result<&'a [u8], PublicationFault> {
        let (payload, block) = split(publication).ok_or(PublicationFault::Unsigned)?;
        let mut root = leaf(name, sequence, payload);
        for (height, other) in block.path.chunks(32).enumerate() {
            root = match block.index >> height & 1 {
                0 => hash(&[&[1], &root, other]),
                _ => hash(&[&[1], other, &root]),
            };
        }
        let is_known = self.valid.as_ref().is_some_and(|(typ, count, known, signature)| {
            (*typ, *count, *known) == (block.typ, block.count, root) && signature == block.signature
        });
        if is_known {
            return Ok(payload);
        }
        let signed = [CONTEXT, &[block.count as u8], &root].concat();
        self.checks += 1;
        let mut keys = self.keys.iter();
        if !keys.any(|key| key.verify(block.typ, &[&signed], block.signature).is_ok()) {
            return Err(PublicationFault::Mismatch);
        }
        self.valid = Some((block.typ, block.count, root, block.signature.to_vec()));
        Ok(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyKind;

    fn key(kind: KeyKind) -> Key {
        let identity: nw_name::Name = "/plant".parse().unwrap();
        Key::generate(kind, identity.as_ref()).unwrap()
    }

    #[test]
    fn batch_of_any_size_is_accepted_by_one_check_and_changed_ones_are_not() {
        for kind in [KeyKind::Ed25519, KeyKind::Hmac] {
            let (key, other) = (key(kind), key(kind));
            for count in [1, 2, 3, 7, 64] {
                let payloads: Vec<Vec<u8>> = (0..count).map(|n| vec![n as u8; n]).collect();
                let slices: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
                let blocks = sign_batch(&key, "/a/b", 5, &slices).unwrap();
                let mut keys = PublicationKeys::new(vec![
                    other.verify_key().unwrap(),
                    key.verify_key().unwrap(),
                ]);
                let mut stranger = PublicationKeys::new(vec![other.verify_key().unwrap()]);
                for ((sequence, payload), block) in (5..).zip(&payloads).zip(&blocks) {
                    let mut signed = [&payload[..], block].concat();
                    assert_eq!(keys.check("/a/b", sequence, &signed), Ok(&payload[..]));
                    assert_eq!(payload_of(&signed), payload);
                    let refused = Err(PublicationFault::Mismatch);
                    assert_eq!(keys.check("/a/c", sequence, &signed), refused);
                    assert_eq!(keys.check("/a/b", sequence + 1, &signed), refused);
                    assert_eq!(stranger.check("/a/b", sequence, &signed), refused);
                    signed[0] ^= 1;
                    assert!(keys.check("/a/b", sequence, &signed).is_err());
                }
                let mut keys = PublicationKeys::new(vec![key.verify_key().unwrap()]);
                for ((sequence, payload), block) in (5..).zip(&payloads).zip(&blocks) {
                    let signed = [&payload[..], block].concat();
                    assert!(keys.check("/a/b", sequence, &signed).is_ok());
                }
                assert_eq!(keys.checks(), 1, "one signature for {count}");
            }
        }
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_refused() {
        let key = key(KeyKind::Ed25519);
        let blocks = sign_batch(&key, "/a", 1, &[b"one", b"two", b"three"]).unwrap();
        let signed = [b"two", &blocks[1][..]].concat();
        let mut keys = PublicationKeys::new(vec![key.verify_key().unwrap()]);
        assert!(keys.check("/a", 2, &signed).is_ok());
        for end in 0..signed.len() {
            assert!(keys.check("/a", 2, &signed[..end]).is_err());
            let mut changed = signed.clone();
            changed[end] ^= 0x41;
            assert!(keys.check("/a", 2, &changed).is_err(), "byte {end}");
        }
        assert_eq!(keys.check("/a", 2, b"plain"), Err(PublicationFault::Unsigned));
        assert_eq!(payload_of(b"plain"), b"plain");
        assert!(sign_batch(&key, "/a", 1, &[]).is_err());
        assert!(sign_batch(&key, "/a", 1, &[&[0][..]; 65]).is_err());
    }

    #[test]
    fn keys_are_read_from_certificates_and_public_keys() {
        let key = key(KeyKind::Ed25519);
        let spki = key.public_key().unwrap();
        let validity = crate::certificate::Validity { not_before_s: 0, not_after_s: 4_000_000_000 };
        let certificate = crate::certificate::self_signed(&key, 1, validity).unwrap();
        let text = pem::encode("PUBLIC KEY", &spki);
        let base64 = pem::encode_base64(&certificate);
        for file in [&spki[..], &certificate, text.as_bytes(), base64.as_bytes()] {
            let found = read_public_key(file).unwrap();
            assert_eq!(found.key_digest(), key.verify_key().unwrap().key_digest());
        }
        assert!(read_public_key(b"no key").is_err());
    }
}
