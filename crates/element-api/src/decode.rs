//! Decoding at ingress: once per packet; the result is carried as metadata.

use crate::drops::{DropCounters, DropReason};
use crate::meta::{Kind, Meta};
use crate::pool::{Packet, Pool};
use nw_name::HashKey;
use nw_tables::pit::TOKEN_LEN;
use nw_wire::forwarding::{self, DataFields, InterestFields, PaddedPacket};
use nw_wire::publication::Envelope;
use nw_wire::{Error, Fault, Span, types};

/// Checks a network packet (link header already removed) and fills its metadata: kind, name, prefix
/// hashes, fields. `meta.link` must be set before, as a Nack is an Interest with a reason there.
///
/// # Errors
/// The fault and its byte offset, if the packet is malformed.
#[inline(always)]
pub fn decode(pool: &mut Pool, packet: &Packet) -> Result<(), Error> {
    let (key, bytes, meta) = pool.parts_mut(packet);
    decode_parts(key, bytes, meta)
}

/// As [`decode`], but a Data with a PIT token of our length keeps its name unresolved: it is
/// compared with the pending Interest's name instead of being hashed. See [`Meta::name_deferred`].
///
/// # Errors
/// The fault and its byte offset, if the packet is malformed apart from its name.
#[inline(always)]
pub fn decode_lazily(pool: &mut Pool, packet: &Packet) -> Result<(), Error> {
    let (key, bytes, meta) = pool.parts_mut(packet);
    let wire = bytes.wire();
    let is_data = wire.first().is_some_and(|first| u32::from(*first) == types::DATA);
    if !is_data || meta.link.token.len() != TOKEN_LEN {
        return decode_parts(key, bytes, meta);
    }
    check_data_link(meta)?;
    let Some(fields) = DataFields::parse_fast(wire) else { return data_slow(key, wire, meta) };
    meta.prefixes.clear(key);
    meta.name_deferred = true;
    set_data_fields(meta, fields);
    Ok(())
}

/// Checks a packet and fills its metadata, its name included.
#[inline(always)]
fn decode_parts(key: &HashKey, bytes: PaddedPacket<'_>, meta: &mut Meta) -> Result<(), Error> {
    match bytes.wire().first() {
        Some(&first) if u32::from(first) == types::INTEREST => interest(key, bytes, meta),
        Some(&first) if u32::from(first) == types::DATA => data(key, bytes, meta),
        Some(&first) if u32::from(first) == types::PUBLICATION => publication(key, bytes, meta),
        Some(_) => Err(Error::new(Fault::UnknownPacket, 0)),
        None => Err(Error::new(Fault::Truncated, 0)),
    }
}

/// Resolves the name of a packet that was [decoded lazily](decode_lazily), if it is still deferred.
///
/// # Errors
/// The fault and its byte offset, if the name is malformed.
#[inline(always)]
pub fn resolve_name(pool: &mut Pool, packet: &Packet) -> Result<(), Error> {
    if !pool.meta(packet).name_deferred {
        return Ok(());
    }
    let (key, bytes, meta) = pool.parts_mut(packet);
    meta.name_deferred = false;
    forwarding::read_name(bytes, meta.name, key, &mut meta.prefixes)
}

/// As [`resolve_name`]; a packet with a malformed name is dropped and counted.
#[inline(always)]
pub fn resolve_name_or_drop(
    pool: &mut Pool,
    packet: Packet,
    drops: &mut DropCounters,
) -> Option<Packet> {
    match resolve_name(pool, &packet) {
        Ok(()) => Some(packet),
        Err(error) => {
            pool.drop_packet(packet, DropReason::Malformed(error.fault), drops);
            None
        }
    }
}

/// Calls [`resolve_name_or_drop`] for several packets. The others keep their order.
pub fn resolve_names(pool: &mut Pool, packets: &mut Vec<Packet>, drops: &mut DropCounters) {
    let mut resolved = 0;
    for at in 0..packets.len() {
        match resolve_name(pool, &packets[at]) {
            Ok(()) => {
                packets.swap(resolved, at);
                resolved += 1;
            }
            Err(error) => drops.count(DropReason::Malformed(error.fault)),
        }
    }
    packets.drain(resolved..).for_each(|packet| pool.release(packet));
}

/// Decodes an Interest or a Nack.
#[inline(always)]
fn interest(key: &HashKey, bytes: PaddedPacket<'_>, meta: &mut Meta) -> Result<(), Error> {
    let Some(fields) = InterestFields::parse_fast(bytes.wire()) else {
        return interest_slow(key, bytes.wire(), meta);
    };
    // Set before the name is hashed, so that the fields need not be kept meanwhile.
    set_interest_fields(meta, fields);
    match forwarding::read_name_fast(bytes, meta.name, key, &mut meta.prefixes) {
        true => Ok(()),
        false => interest_slow(key, bytes.wire(), meta),
    }
}

// The slow forms are separate functions: if the fields of both forms met in one place, they would
// go through memory, written in small pieces and read back in large ones, which stalls the
// processor.

/// The slow form of [`interest`]: the full check.
#[inline(never)]
fn interest_slow(key: &HashKey, wire: &[u8], meta: &mut Meta) -> Result<(), Error> {
    let fields = InterestFields::parse_slow(wire, key, &mut meta.prefixes)?;
    set_interest_fields(meta, fields);
    Ok(())
}

/// Copies an Interest's fields to the metadata.
#[inline(always)]
fn set_interest_fields(meta: &mut Meta, fields: InterestFields) {
    meta.kind = if meta.link.nack.is_some() { Kind::Nack } else { Kind::Interest };
    meta.name = fields.name;
    meta.can_be_prefix = fields.can_be_prefix;
    meta.must_be_fresh = fields.must_be_fresh;
    meta.nonce = fields.nonce;
    meta.nonce_start = fields.nonce_start;
    meta.lifetime_ms = fields.lifetime_ms;
    meta.hop_limit_start = fields.hop_limit_start;
    meta.forwarding_hint = fields.forwarding_hint;
    meta.freshness_ms = 0;
}

/// Decodes a Data.
#[inline(always)]
fn data(key: &HashKey, bytes: PaddedPacket<'_>, meta: &mut Meta) -> Result<(), Error> {
    check_data_link(meta)?;
    match DataFields::parse_fast(bytes.wire()) {
        Some(fields)
            if forwarding::read_name(bytes, fields.name, key, &mut meta.prefixes).is_ok() =>
        {
            meta.name_deferred = false;
            set_data_fields(meta, fields);
            Ok(())
        }
        _ => data_slow(key, bytes.wire(), meta),
    }
}

/// The slow form of [`data`]: the full check.
#[inline(never)]
fn data_slow(key: &HashKey, wire: &[u8], meta: &mut Meta) -> Result<(), Error> {
    let fields = DataFields::parse_slow(wire, key, &mut meta.prefixes)?;
    meta.name_deferred = false;
    set_data_fields(meta, fields);
    Ok(())
}

/// Decodes a publication. Only its elements read more.
#[inline(never)]
fn publication(key: &HashKey, bytes: PaddedPacket<'_>, meta: &mut Meta) -> Result<(), Error> {
    check_data_link(meta)?;
    Envelope::check(bytes.wire())?;
    meta.kind = Kind::Publication;
    meta.name = Span::NONE;
    meta.name_deferred = false;
    meta.prefixes.clear(key);
    meta.forwarding_hint = Span::NONE;
    meta.freshness_ms = 0;
    Ok(())
}

/// "Nack with Data: drop."
#[inline(always)]
fn check_data_link(meta: &Meta) -> Result<(), Error> {
    match meta.link.nack.is_some() || meta.link.next_hop_face.is_some() || meta.link.non_discovery {
        true => Err(Error::new(Fault::LinkField, 0)),
        false => Ok(()),
    }
}

/// Copies a Data's fields to the metadata.
#[inline(always)]
fn set_data_fields(meta: &mut Meta, fields: DataFields) {
    meta.kind = Kind::Data;
    meta.name = fields.name;
    meta.freshness_ms = fields.freshness_ms;
    meta.forwarding_hint = Span::NONE;
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_name::{Name, PrefixHashes};
    use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, Token};

    const KEY: HashKey = HashKey::new([1, 2, 3, 4]);

    fn data(uri: &str) -> Vec<u8> {
        let name: Name = uri.parse().unwrap();
        DataBuilder::new(&name, b"content")
            .encode(&DigestSha256)
            .unwrap_or_else(|never| match never {})
    }

    /// As [`data`], with a first component that is longer than the name.
    fn without_name(uri: &str) -> Vec<u8> {
        let mut wire = data(uri);
        let name_start = nw_wire::Data::check(&wire).unwrap().name_start();
        wire[name_start + 1] = 200;
        wire
    }

    fn received(pool: &mut Pool, wire: &[u8], label_len: usize) -> Result<Packet, Fault> {
        let packet = pool.copy_of(wire).unwrap();
        pool.meta_mut(&packet).link.token = Token::new(&vec![7; label_len]).unwrap();
        match decode_lazily(pool, &packet) {
            Ok(()) => Ok(packet),
            Err(error) => {
                pool.release(packet);
                Err(error.fault)
            }
        }
    }

    #[test]
    fn data_with_token_defers_its_name() {
        let mut pool = Pool::new(KEY, 8, 8);
        let interest = InterestBuilder::new("/a/b".parse::<Name>().unwrap()).nonce(1).encode();
        for (wire, label_len, is_deferred) in [
            (data("/a/b"), TOKEN_LEN, true),
            (data("/a/b"), 5, false),
            (data("/a/b"), 0, false),
            (interest, TOKEN_LEN, false),
        ] {
            let packet = received(&mut pool, &wire, label_len).unwrap();
            assert_eq!(pool.meta(&packet).name_deferred, is_deferred);
            assert_eq!(pool.meta(&packet).has_full_hash(), !is_deferred);
            let copies = [pool.clone_shallow(&packet).unwrap(), pool.duplicate(&packet).unwrap()];
            for copy in copies.into_iter().chain([packet]) {
                let knows_as_much = pool.meta(&copy).name_deferred == is_deferred;
                assert!(knows_as_much, "a copy knows as much of its name");
                resolve_name(&mut pool, &copy).unwrap();
                let meta = pool.meta(&copy);
                assert!(!meta.name_deferred && meta.has_full_hash());
                if is_deferred {
                    let expected = PrefixHashes::of(&KEY, meta.name_in(&wire));
                    assert_eq!(
                        (meta.prefixes.full_hash(), meta.prefixes.count()),
                        (expected.full_hash(), 2)
                    );
                }
                pool.release(copy);
            }
        }
        assert_eq!(received(&mut pool, &without_name("/a/b"), 0).err(), Some(Fault::Truncated));
        // The slot is reused: its name is no longer deferred.
        let unread = received(&mut pool, &data("/a"), TOKEN_LEN).unwrap();
        pool.release(unread);
        let fresh = pool.alloc(10).unwrap();
        assert!(!pool.meta(&fresh).name_deferred);
        pool.release(fresh);
    }

    #[test]
    fn malformed_names_are_dropped_and_order_is_kept() {
        let mut pool = Pool::new(KEY, 8, 8);
        let wires = [
            data("/a"),
            without_name("/b"),
            data("/c"),
            without_name("/d"),
            without_name("/e"),
            data("/f"),
        ];
        let mut packets: Vec<Packet> =
            wires.iter().map(|wire| received(&mut pool, wire, TOKEN_LEN).unwrap()).collect();
        let mut drops = DropCounters::default();
        resolve_names(&mut pool, &mut packets, &mut drops);
        let names: Vec<String> = packets
            .iter()
            .map(|packet| pool.meta(packet).name_in(pool.bytes(packet)).to_string())
            .collect();
        assert_eq!(names, ["/a", "/c", "/f"]);
        assert_eq!(drops.iter().filter(|(_, count)| *count > 0).count(), 1);
        assert_eq!(
            (drops.total(DropReason::Malformed(Fault::Truncated)), pool.packets_in_use()),
            (3, 3)
        );
        packets.drain(..).for_each(|packet| pool.release(packet));
    }
}
