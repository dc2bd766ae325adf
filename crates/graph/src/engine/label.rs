//! Return labels: the face that an Interest came by, in front of the token of whoever sent it.
//!
//! ```text
//! face (4) | 0 | 0            of an Interest without a token
//! face (4) | 1 | token        of one with a token of 1 to 27 bytes
//! ```
//!
//! So what applications send without tokens leaves with 6 bytes, the only length that NDNd 1.5.3 survives.

use nw_element_api::{FaceId, Kind, Meta, Packet, Pool};
use nw_wire::Token;

/// Bytes of a face.
const FACE_LEN: usize = 4;
/// Bytes of a label in front of a token.
pub const LABEL_LEN: usize = FACE_LEN + 1;
/// Bytes of a label without a token behind it.
const LONE_LABEL_LEN: usize = 6;
/// Bytes of a token.
const TOKEN_LEN_MAX: usize = 32;

/// Puts a label on an Interest that leaves; false when its token leaves no room.
pub fn put_on(meta: &mut Meta) -> bool {
    let token = meta.link.token.as_bytes();
    let mut bytes = [0; TOKEN_LEN_MAX];
    let Some(rest) = bytes.get_mut(LABEL_LEN..LABEL_LEN + token.len()) else { return false };
    rest.copy_from_slice(token);
    let len = (LABEL_LEN + token.len()).max(LONE_LABEL_LEN);
    bytes[..FACE_LEN].copy_from_slice(&meta.ingress.bits().to_be_bytes());
    bytes[FACE_LEN] = u8::from(!token.is_empty());
    let Some(token) = Token::new(&bytes[..len]) else { return false };
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
    let [a, b, c, d, has_token] = *label;
    let face = FaceId::from_bits(u32::from_be_bytes([a, b, c, d]));
    let token = if has_token == 0 { Some(Token::NONE) } else { Token::new(rest) };
    let Some(token) = token else { return false };
    if face == FaceId::NONE {
        return false;
    }
    meta.egress = face;
    meta.link.token = token;
    meta.link.incoming_face = meta.ingress;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_element_api::LinkFields;
    use nw_name::HashKey;

    /// The token that leaves, and what comes back of it.
    fn there_and_back(token: &[u8]) -> Option<(Vec<u8>, FaceId, Vec<u8>)> {
        let mut pool = Pool::new(HashKey::new([1; 4]), 4, 4);
        let packet = pool.copy_of(b"\x06\x00").unwrap();
        let face = FaceId::from_bits(0x0102_0304);
        let meta = pool.meta_mut(&packet);
        meta.link = LinkFields { token: Token::new(token).unwrap(), ..LinkFields::default() };
        (meta.kind, meta.ingress) = (Kind::Interest, face);
        let fits = put_on(meta);
        let left = meta.link.token.as_bytes().to_vec();
        meta.kind = Kind::Data;
        let came = fits && take_off(&packet, &mut pool);
        let meta = pool.meta(&packet);
        let result = came.then(|| (left, meta.egress, meta.link.token.as_bytes().to_vec()));
        pool.release(packet);
        result
    }

    #[test]
    fn labels_come_off_as_they_were_put_on() {
        for len in 0..=27 {
            let token: Vec<u8> = (0..len).collect();
            let (left, face, back) = there_and_back(&token).unwrap();
            assert_eq!((face.bits(), &back), (0x0102_0304, &token));
            assert_eq!(left.len() == 6, len <= 1, "{len}");
        }
        assert_eq!(there_and_back(&[7; 28]), None);
    }
}
