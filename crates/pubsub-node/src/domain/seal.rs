//! The secret of a domain: each packet between two neighbours ends with an HMAC-SHA-256 of it.
//!
//! Invariant: with a secret, a packet that does not end with its HMAC has no effect. The HMAC is
//! made again at each hop, as the hop limit changes.

use nw_trust::{Key, VerifyKey};
use nw_wire::{Sign, SignatureType};

const CONTEXT: &[u8] = b"namewire domain";
/// Bytes of an HMAC.
const TAG_LEN: usize = 32;

/// The secret, if there is one.
#[derive(Debug, Default)]
pub struct Seal(Option<(Key, VerifyKey)>);

impl Seal {
    /// Creates the seal of a secret.
    pub fn new(secret: &[u8]) -> Self {
        let name = nw_name::Name::default();
        let key = Key::from_secret(name.as_ref(), secret);
        Seal(Some((key, VerifyKey::from_secret(secret))))
    }

    /// Returns the bytes behind each packet.
    pub const fn tag_len(&self) -> usize {
        if self.0.is_some() { TAG_LEN } else { 0 }
    }

    /// Appends its HMAC to a packet, which begins at `start`.
    pub fn close(&self, bytes: &mut Vec<u8>, start: usize) {
        if let Some((key, _)) = &self.0
            && let Ok(tag) = key.sign(&[CONTEXT, &bytes[start..]])
        {
            bytes.extend_from_slice(&tag);
        }
    }

    /// Returns a packet without its HMAC. `None` if that is not the one of the secret.
    pub fn open<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let Some((_, key)) = &self.0 else { return Some(packet) };
        let (packet, tag) = packet.split_last_chunk::<TAG_LEN>()?;
        let parts: [&[u8]; 2] = [CONTEXT, packet];
        key.verify(SignatureType::HmacWithSha256, &parts, tag).ok().map(|()| packet)
    }
}
