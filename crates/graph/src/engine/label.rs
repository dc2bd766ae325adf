//! Return labels: the face that an Interest came by, in front of the token of whoever sent it.

use nw_element::{FaceId, Kind, Meta, Packet, Pool};
use nw_wire::Token;

/// Octets of a label.
pub const LABEL_LEN: usize = 4;
/// Octets of a token.
const TOKEN_LEN_MAX: usize = 32;

/// Puts a label on an Interest that leaves; false when its token leaves no room.
pub fn put_on(meta: &mut Meta) -> bool {
    let token = meta.link.token.as_bytes();
    let mut octets = [0; TOKEN_LEN_MAX];
    let Some(rest) = octets.get_mut(LABEL_LEN..LABEL_LEN + token.len()) else { return false };
    rest.copy_from_slice(token);
    let len = LABEL_LEN + token.len();
    octets[..LABEL_LEN].copy_from_slice(&meta.ingress.bits().to_be_bytes());
    let Some(token) = Token::new(&octets[..len]) else { return false };
    meta.link.token = token;
    true
}

/// Takes the label off what comes back, which is then for that face; false when there is none.
pub fn take_off(packet: &Packet, pool: &mut Pool) -> bool {
    let meta = pool.meta_mut(packet);
    if meta.kind == Kind::Interest {
        return true;
    }
    let Some((label, rest)) = meta.link.token.as_bytes().split_first_chunk::<LABEL_LEN>() else {
        return false;
    };
    let face = FaceId::from_bits(u32::from_be_bytes(*label));
    let Some(token) = Token::new(rest) else { return false };
    if face == FaceId::NONE {
        return false;
    }
    meta.egress = face;
    meta.link.token = token;
    meta.link.incoming_face = meta.ingress;
    true
}
