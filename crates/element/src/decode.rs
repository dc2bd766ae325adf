//! Decoding at ingress: once per packet, then carried as metadata.

use crate::meta::{Kind, Meta};
use crate::pool::{Packet, Pool};
use nw_name::HashKey;
use nw_wire::{Data, Error, Fault, Interest, types};

/// Checks the network packet behind a packet's bytes (link header already taken off) and fills its metadata: kind, name, prefix hashes, fields.
/// `meta.link` must be set before, as a Nack is an Interest with a reason there.
///
/// # Errors
/// What is wrong and where.
#[inline]
pub fn decode(pool: &mut Pool, packet: &Packet) -> Result<(), Error> {
    let (key, bytes, meta) = pool.parts_mut(packet);
    decode_bytes(key, bytes, meta)
}

/// As [`decode`], over bytes.
///
/// # Errors
/// What is wrong and where.
#[inline]
pub fn decode_bytes(key: &HashKey, bytes: &[u8], meta: &mut Meta) -> Result<(), Error> {
    meta.route_hint.forget();
    match bytes.first() {
        Some(&first) if u32::from(first) == types::INTEREST => {
            let interest = Interest::check_hashing(bytes, key, &mut meta.prefixes)?;
            meta.kind = if meta.link.nack.is_some() { Kind::Nack } else { Kind::Interest };
            meta.name = place(interest.name_start(), interest.name().as_bytes().len());
            meta.can_be_prefix = interest.can_be_prefix();
            meta.must_be_fresh = interest.must_be_fresh();
            meta.nonce = interest.nonce().unwrap_or(0);
            meta.nonce_start = interest.nonce_start().unwrap_or(0) as u16;
            meta.lifetime_ms = u32::try_from(interest.lifetime_ms()).unwrap_or(u32::MAX);
            meta.hop_limit_start = interest.hop_limit_start().unwrap_or(0) as u16;
            meta.hint =
                interest.forwarding_hint_value().map_or((0, 0), |(value, start)| place(start, value.len()));
            meta.freshness_ms = 0;
        }
        Some(&first) if u32::from(first) == types::DATA => {
            // "Nack with Data: drop."
            if meta.link.nack.is_some() || meta.link.next_hop_face.is_some() || meta.link.non_discovery {
                return Err(Error::new(Fault::LinkField, 0));
            }
            let data = Data::check_hashing(bytes, key, &mut meta.prefixes)?;
            meta.kind = Kind::Data;
            meta.name = place(data.name_start(), data.name().as_bytes().len());
            meta.freshness_ms = u32::try_from(data.freshness_ms()).unwrap_or(u32::MAX);
            meta.hint = (0, 0);
        }
        Some(_) => return Err(Error::new(Fault::UnknownPacket, 0)),
        None => return Err(Error::new(Fault::Truncated, 0)),
    }
    Ok(())
}

/// A packet ends before octet 8800, so places in it fit 16 bits.
fn place(start: usize, len: usize) -> (u16, u16) {
    (start as u16, len as u16)
}
