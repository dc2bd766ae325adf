//! Decoding at ingress: once per packet, then carried as metadata.

use crate::drops::{DropCounters, DropReason};
use crate::meta::{Kind, Meta};
use crate::pool::{Packet, Pool};
use nw_name::HashKey;
use nw_tables::pit::TOKEN_LEN;
use nw_wire::forwarding::{self, DataFields, InterestFields, Leading};
use nw_wire::{Error, Fault, types};

/// Checks the network packet behind a packet's bytes (link header already taken off) and fills its metadata: kind, name, prefix hashes, fields.
/// `meta.link` must be set before, as a Nack is an Interest with a reason there.
///
/// # Errors
/// What is wrong and where.
#[inline(always)]
pub fn decode(pool: &mut Pool, packet: &Packet) -> Result<(), Error> {
    let (key, bytes, meta) = pool.parts_mut(packet);
    decode_parts(key, bytes, meta)
}

/// As [`decode`], but a Data with a label, which as a rule is of our making, keeps its name for later: it is compared with the one that was asked
/// for, and need not be hashed. See [`Meta::name_unread`].
///
/// # Errors
/// As there.
#[inline(always)]
pub fn decode_lazily(pool: &mut Pool, packet: &Packet) -> Result<(), Error> {
    let (key, bytes, meta) = pool.parts_mut(packet);
    let wire = bytes.wire();
    let is_data = wire.first().is_some_and(|first| u32::from(*first) == types::DATA);
    if !is_data || meta.link.token.len() != TOKEN_LEN {
        return decode_parts(key, bytes, meta);
    }
    check_data_link(meta)?;
    meta.likely_hash.set(0);
    let Some(fields) = DataFields::usual(wire) else { return other_data(key, wire, meta) };
    meta.prefixes.clear(key);
    meta.name_unread = true;
    take_data(meta, fields);
    Ok(())
}

#[inline(always)]
fn decode_parts(key: &HashKey, bytes: Leading<'_>, meta: &mut Meta) -> Result<(), Error> {
    meta.route_hint.forget();
    meta.cache_hint.forget();
    match bytes.wire().first() {
        Some(&first) if u32::from(first) == types::INTEREST => interest(key, bytes, meta),
        Some(&first) if u32::from(first) == types::DATA => data(key, bytes, meta),
        Some(_) => Err(Error::new(Fault::UnknownPacket, 0)),
        None => Err(Error::new(Fault::Truncated, 0)),
    }
}

/// Reads the name of a packet that was [decoded lazily](decode_lazily), if it was not read since.
///
/// # Errors
/// What is wrong with the name, and where.
#[inline(always)]
pub fn read_name(pool: &mut Pool, packet: &Packet) -> Result<(), Error> {
    if !pool.meta(packet).name_unread {
        return Ok(());
    }
    let (key, bytes, meta) = pool.parts_mut(packet);
    meta.name_unread = false;
    forwarding::read_name(bytes, meta.name, key, &mut meta.prefixes)
}

/// As [`read_name`]; a packet whose name is none is dropped, and its reason counted.
#[inline(always)]
pub fn read_or_drop(pool: &mut Pool, packet: Packet, drops: &mut DropCounters) -> Option<Packet> {
    match read_name(pool, &packet) {
        Ok(()) => Some(packet),
        Err(error) => {
            pool.drop_packet(packet, DropReason::Malformed(error.fault), drops);
            None
        }
    }
}

/// [`read_or_drop`] for each of several packets, which stay in order.
pub fn read_names(pool: &mut Pool, packets: &mut Vec<Packet>, drops: &mut DropCounters) {
    let mut kept = 0;
    for at in 0..packets.len() {
        match read_name(pool, &packets[at]) {
            Ok(()) => {
                packets.swap(kept, at);
                kept += 1;
            }
            Err(error) => drops.count(DropReason::Malformed(error.fault)),
        }
    }
    packets.drain(kept..).for_each(|packet| pool.release(packet));
}

#[inline(always)]
fn interest(key: &HashKey, bytes: Leading<'_>, meta: &mut Meta) -> Result<(), Error> {
    let Some(fields) = InterestFields::usual(bytes.wire()) else {
        return other_interest(key, bytes.wire(), meta);
    };
    // Before the name is read, not kept in memory meanwhile.
    take_interest(meta, fields);
    match forwarding::read_usual_name(bytes, meta.name, key, &mut meta.prefixes) {
        true => Ok(()),
        false => other_interest(key, bytes.wire(), meta),
    }
}

// Other packets than the usual ones are taken apart: where the fields of both meet they go through memory, written in small pieces and read back in
// large ones, for which a processor waits.

#[inline(never)]
fn other_interest(key: &HashKey, wire: &[u8], meta: &mut Meta) -> Result<(), Error> {
    let fields = InterestFields::any(wire, key, &mut meta.prefixes)?;
    take_interest(meta, fields);
    Ok(())
}

#[inline(always)]
fn take_interest(meta: &mut Meta, fields: InterestFields) {
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
}

#[inline(always)]
fn data(key: &HashKey, bytes: Leading<'_>, meta: &mut Meta) -> Result<(), Error> {
    check_data_link(meta)?;
    match DataFields::usual(bytes.wire()) {
        Some(fields) if forwarding::read_name(bytes, fields.name, key, &mut meta.prefixes).is_ok() => {
            meta.name_unread = false;
            take_data(meta, fields);
            Ok(())
        }
        _ => other_data(key, bytes.wire(), meta),
    }
}

#[inline(never)]
fn other_data(key: &HashKey, wire: &[u8], meta: &mut Meta) -> Result<(), Error> {
    let fields = DataFields::any(wire, key, &mut meta.prefixes)?;
    meta.name_unread = false;
    take_data(meta, fields);
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

#[inline(always)]
fn take_data(meta: &mut Meta, fields: DataFields) {
    meta.kind = Kind::Data;
    meta.name = fields.name;
    meta.freshness_ms = fields.freshness_ms;
    meta.hint = (0, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_name::{Name, Prefixes};
    use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, Token};

    const KEY: HashKey = HashKey::new([1, 2, 3, 4]);

    fn data(uri: &str) -> Vec<u8> {
        let name: Name = uri.parse().unwrap();
        DataBuilder::new(&name, b"content").encode(&DigestSha256).unwrap_or_else(|never| match never {})
    }

    /// As [`data`], of which the first component says that it is longer than the name.
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
    fn only_the_name_of_a_labelled_data_waits() {
        let mut pool = Pool::new(KEY, 8, 8);
        let interest = InterestBuilder::new("/a/b".parse::<Name>().unwrap()).nonce(1).encode();
        for (wire, label_len, waits) in [
            (data("/a/b"), TOKEN_LEN, true),
            (data("/a/b"), 5, false),
            (data("/a/b"), 0, false),
            (interest, TOKEN_LEN, false),
        ] {
            let packet = received(&mut pool, &wire, label_len).unwrap();
            assert_eq!(pool.meta(&packet).name_unread, waits);
            assert_eq!(pool.meta(&packet).knows_hash(), !waits);
            let twins = [pool.share(&packet).unwrap(), pool.twin(&packet).unwrap()];
            for copy in twins.into_iter().chain([packet]) {
                let knows_as_much = pool.meta(&copy).name_unread == waits;
                assert!(knows_as_much, "a copy knows as much of its name");
                read_name(&mut pool, &copy).unwrap();
                let meta = pool.meta(&copy);
                assert!(!meta.name_unread && meta.knows_hash());
                if waits {
                    let wanted = Prefixes::of(&KEY, meta.name_in(&wire));
                    assert_eq!((meta.prefixes.whole(), meta.prefixes.count()), (wanted.whole(), 2));
                }
                pool.release(copy);
            }
        }
        assert_eq!(received(&mut pool, &without_name("/a/b"), 0).err(), Some(Fault::Truncated));
        // The slot is used again: what was waited for is forgotten.
        let unread = received(&mut pool, &data("/a"), TOKEN_LEN).unwrap();
        pool.release(unread);
        let fresh = pool.alloc(10).unwrap();
        assert!(!pool.meta(&fresh).name_unread);
        pool.release(fresh);
    }

    #[test]
    fn those_without_a_name_go_and_others_stay_in_order() {
        let mut pool = Pool::new(KEY, 8, 8);
        let wires =
            [data("/a"), without_name("/b"), data("/c"), without_name("/d"), without_name("/e"), data("/f")];
        let mut packets: Vec<Packet> =
            wires.iter().map(|wire| received(&mut pool, wire, TOKEN_LEN).unwrap()).collect();
        let mut drops = DropCounters::default();
        read_names(&mut pool, &mut packets, &mut drops);
        let names: Vec<String> =
            packets.iter().map(|packet| pool.meta(packet).name_in(pool.bytes(packet)).to_string()).collect();
        assert_eq!(names, ["/a", "/c", "/f"]);
        assert_eq!(drops.iter().filter(|(_, count)| *count > 0).count(), 1);
        assert_eq!((drops.total(DropReason::Malformed(Fault::Truncated)), pool.packets_in_use()), (3, 3));
        packets.drain(..).for_each(|packet| pool.release(packet));
    }
}
