//! The two changes of an Interest that can't be made in place: adding a nonce, and removing a
//! ForwardingHint.

use nw_element_api::decode::decode;
use nw_element_api::{DropCause, DropReason, Packet, Pool};
use nw_wire::tlv::{number_len, put_number};
use nw_wire::{Fault, PACKET_LEN_MAX, Reader, types as t};

/// Adds a nonce to the Interest. On failure returns the packet and the drop reason.
pub(crate) fn with_nonce(
    pool: &mut Pool,
    packet: Packet,
    nonce: u32,
) -> Result<Packet, (Packet, DropReason)> {
    let mut element = [t::NONCE as u8, 4, 0, 0, 0, 0];
    element[2..].copy_from_slice(&nonce.to_be_bytes());
    let at = nonce_offset(pool.bytes(&packet));
    splice(pool, packet, at, 0, &element)
}

/// Removes the Interest's ForwardingHint. On failure returns the packet and the drop reason.
pub(crate) fn without_hint(
    pool: &mut Pool,
    packet: Packet,
) -> Result<Packet, (Packet, DropReason)> {
    let hint = pool.meta(&packet).forwarding_hint;
    let header_len = 1 + number_len(u64::from(hint.len));
    let start = usize::from(hint.start) - header_len;
    splice(pool, packet, start, header_len + usize::from(hint.len), &[])
}

/// Returns where a nonce belongs: "Name, CanBePrefix, MustBeFresh, ForwardingHint, Nonce, …", so
/// after the last of the first four.
fn nonce_offset(bytes: &[u8]) -> usize {
    let mut outer = Reader::new(bytes, 0);
    let Ok(Some(interest)) = outer.next() else { return bytes.len() };
    let mut reader = interest.inner();
    let mut offset = interest.value_start;
    while let Ok(Some(field)) = reader.next() {
        if matches!(field.typ, t::NAME | t::CAN_BE_PREFIX | t::MUST_BE_FRESH | t::FORWARDING_HINT) {
            offset = field.end();
        }
    }
    offset
}

/// Replaces `removed_len` bytes at `at` by `inserted`: in a new packet with corrected lengths and
/// newly decoded metadata. Link fields, ingress and times are kept.
fn splice(
    pool: &mut Pool,
    packet: Packet,
    at: usize,
    removed_len: usize,
    inserted: &[u8],
) -> Result<Packet, (Packet, DropReason)> {
    let bytes = pool.bytes(&packet);
    let mut outer = Reader::new(bytes, 0);
    let Ok(Some(interest)) = outer.next() else {
        return Err((packet, DropReason::Malformed(Fault::Truncated)));
    };
    let body = interest.value_start;
    let body_len = bytes.len() - body - removed_len + inserted.len();
    let mut wire = [0; PACKET_LEN_MAX];
    let len = 1 + number_len(body_len as u64) + body_len;
    if len > PACKET_LEN_MAX {
        return Err((packet, DropReason::Malformed(Fault::TooLong)));
    }
    wire[0] = t::INTEREST as u8;
    let mut end = 1 + put_number(body_len as u64, &mut wire[1..]);
    for part in [&bytes[body..at], inserted, &bytes[at + removed_len..]] {
        wire[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    let Some(changed) = pool.copy_of(&wire[..len]) else {
        return Err((packet, DropCause::NoBuffer.into()));
    };
    let meta = pool.meta(&packet).clone();
    *pool.meta_mut(&changed) = meta;
    match decode(pool, &changed) {
        Ok(()) => {
            pool.release(packet);
            Ok(changed)
        }
        Err(error) => {
            pool.release(changed);
            Err((packet, DropReason::Malformed(error.fault)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_name::{HashKey, Name};
    use nw_wire::{Interest, InterestBuilder, Span};

    fn pool() -> Pool {
        Pool::new(HashKey::new([1, 2, 3, 4]), 4, 16)
    }

    fn decoded(pool: &mut Pool, wire: &[u8]) -> Packet {
        let packet = pool.copy_of(wire).unwrap();
        decode(pool, &packet).unwrap();
        packet
    }

    /// The longest name makes the outer length field grow from one byte to three.
    #[test]
    fn interest_without_nonce_gets_one_in_field_order() {
        for len in [1, 230, 240] {
            let name = Name::new().with_generic(vec![b'n'; len]);
            let builder = InterestBuilder::new(name.clone())
                .can_be_prefix(true)
                .must_be_fresh(true)
                .forwarding_hint(name)
                .lifetime_ms(1000)
                .hop_limit(4)
                .parameters("p");
            let mut pool = pool();
            let packet = decoded(&mut pool, &builder.clone().encode());
            let packet = with_nonce(&mut pool, packet, 0x0102_0304).unwrap();
            assert_eq!(pool.bytes(&packet), builder.nonce(0x0102_0304).encode());
            assert_eq!(pool.meta(&packet).nonce, 0x0102_0304);
            pool.release(packet);
            assert_eq!(pool.packets_in_use(), 0);
        }
    }

    #[test]
    fn forwarding_hint_is_removed() {
        for len in [1, 240, 300] {
            let builder =
                InterestBuilder::new("/a".parse::<Name>().unwrap()).nonce(7).lifetime_ms(9);
            let hint = Name::new().with_generic(vec![b'h'; len]);
            let mut pool = pool();
            let packet = decoded(&mut pool, &builder.clone().forwarding_hint(hint).encode());
            let packet = without_hint(&mut pool, packet).unwrap();
            assert_eq!(pool.bytes(&packet), builder.encode());
            assert_eq!(pool.meta(&packet).forwarding_hint, Span::NONE);
            pool.release(packet);
        }
    }

    #[test]
    fn nonce_beyond_packet_limit_leaves_packet_unchanged() {
        let name = Name::new().with_generic(vec![0; PACKET_LEN_MAX - 12]);
        let wire = InterestBuilder::new(name).encode();
        assert_eq!(wire.len(), PACKET_LEN_MAX);
        let mut pool = pool();
        let packet = decoded(&mut pool, &wire);
        let (packet, reason) = with_nonce(&mut pool, packet, 1).unwrap_err();
        assert_eq!(reason, DropReason::Malformed(Fault::TooLong));
        assert!(Interest::check(pool.bytes(&packet)).is_ok());
        pool.release(packet);
        assert_eq!(pool.packets_in_use(), 0);
    }
}
