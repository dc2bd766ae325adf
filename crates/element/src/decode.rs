//! Decoding at ingress: once per packet, then carried as metadata.

use crate::meta::{Kind, Meta};
use crate::pool::{Packet, Pool};
use nw_name::HashKey;
use nw_wire::forwarding::{DataFields, InterestFields, Leading};
use nw_wire::{Error, Fault, types};

/// Checks the network packet behind a packet's bytes (link header already taken off) and fills its metadata: kind, name, prefix hashes, fields.
/// `meta.link` must be set before, as a Nack is an Interest with a reason there.
///
/// # Errors
/// What is wrong and where.
#[inline(always)]
pub fn decode(pool: &mut Pool, packet: &Packet) -> Result<(), Error> {
    let (key, bytes, meta) = pool.parts_mut(packet);
    meta.route_hint.forget();
    meta.maybe_cached.set(false);
    match bytes.wire().first() {
        Some(&first) if u32::from(first) == types::INTEREST => interest(key, bytes, meta),
        Some(&first) if u32::from(first) == types::DATA => data(key, bytes, meta),
        Some(_) => Err(Error::new(Fault::UnknownPacket, 0)),
        None => Err(Error::new(Fault::Truncated, 0)),
    }
}

#[inline(always)]
fn interest(key: &HashKey, bytes: Leading<'_>, meta: &mut Meta) -> Result<(), Error> {
    let fields = InterestFields::check(bytes, key, &mut meta.prefixes)?;
    meta.kind = if meta.link.nack.is_some() { Kind::Nack } else { Kind::Interest };
    meta.name = fields.name;
    meta.can_be_prefix = fields.can_be_prefix;
    meta.must_be_fresh = fields.must_be_fresh;
    meta.nonce = fields.nonce;
    meta.nonce_start = fields.nonce_start;
    meta.lifetime_ms = fields.lifetime_ms;
    meta.hop_limit_start = fields.hop_limit_start;
    meta.hint = fields.hint;
    meta.freshness_ms = 0;
    Ok(())
}

#[inline(always)]
fn data(key: &HashKey, bytes: Leading<'_>, meta: &mut Meta) -> Result<(), Error> {
    // "Nack with Data: drop."
    if meta.link.nack.is_some() || meta.link.next_hop_face.is_some() || meta.link.non_discovery {
        return Err(Error::new(Fault::LinkField, 0));
    }
    let fields = DataFields::check(bytes, key, &mut meta.prefixes)?;
    meta.kind = Kind::Data;
    meta.name = fields.name;
    meta.freshness_ms = fields.freshness_ms;
    meta.hint = (0, 0);
    Ok(())
}
