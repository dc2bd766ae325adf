//! Return labels: the ingress face of an Interest, prepended to its PIT token when the Interest
//! leaves, and taken off the reply's token.
//!
//! ```text
//! face (4) | 0 | 0            of an Interest without a token
//! face (4) | 1 | token        of one with a token of 1 to 27 bytes
//! ```
//!
//! An Interest without a token leaves with 6 bytes, the only token length that NDNd 1.5.3 handles.

use nw_element_api::{FaceId, Kind, Meta, Packet, Pool};
use nw_wire::Token;

/// Length of a face id, bytes.
const FACE_LEN: usize = 4;
/// Length of a label in front of a token, bytes.
pub const LABEL_LEN: usize = FACE_LEN + 1;
/// Length of a label without a token, bytes.
const LABEL_ONLY_LEN: usize = 6;
/// Longest token, bytes (NDNLPv2).
const TOKEN_LEN_MAX: usize = 32;

/// Prepends the label to the token of an outgoing Interest. Returns false if the token is too long.
pub fn attach(meta: &mut Meta) -> bool {
    let token = meta.link.token.as_bytes();
    let mut bytes = [0; TOKEN_LEN_MAX];
    let Some(tail) = bytes.get_mut(LABEL_LEN..LABEL_LEN + token.len()) else { return false };
    tail.copy_from_slice(token);
    let len = (LABEL_LEN + token.len()).max(LABEL_ONLY_LEN);
    bytes[..FACE_LEN].copy_from_slice(&meta.ingress.bits().to_be_bytes());
    bytes[FACE_LEN] = u8::from(!token.is_empty());
    let Some(token) = Token::new(&bytes[..len]) else { return false };
    meta.link.token = token;
    true
}

/// Removes the label from a reply and sets its egress face. Returns false if there is no valid
/// label. Interests pass unchanged.
pub fn detach(packet: &Packet, pool: &mut Pool) -> bool {
    let meta = pool.meta_mut(packet);
    if meta.kind == Kind::Interest {
        return true;
    }
    let Some((label, token_bytes)) = meta.link.token.as_bytes().split_first_chunk::<LABEL_LEN>()
    else {
        return false;
    };
    let [a, b, c, d, has_token] = *label;
    let face = FaceId::from_bits(u32::from_be_bytes([a, b, c, d]));
    let token = if has_token == 0 { Some(Token::NONE) } else { Token::new(token_bytes) };
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
    use nw_graph_language::labels;
    use nw_name::HashKey;

    /// Returns the token that leaves, and the face and token restored from the reply.
    fn round_trip(token: &[u8]) -> Option<(Vec<u8>, FaceId, Vec<u8>)> {
        let mut pool = Pool::new(HashKey::new([1; 4]), 4, 4);
        let packet = pool.copy_of(b"\x06\x00").unwrap();
        let face = FaceId::from_bits(0x0102_0304);
        let meta = pool.meta_mut(&packet);
        meta.link = LinkFields { token: Token::new(token).unwrap(), ..LinkFields::default() };
        (meta.kind, meta.ingress) = (Kind::Interest, face);
        let fits = attach(meta);
        let sent = meta.link.token.as_bytes().to_vec();
        meta.kind = Kind::Data;
        let detached = fits && detach(&packet, &mut pool);
        let meta = pool.meta(&packet);
        let result = detached.then(|| (sent, meta.egress, meta.link.token.as_bytes().to_vec()));
        pool.release(packet);
        result
    }

    /// The checker must know how many labels fit.
    #[test]
    fn attach_fits_as_often_as_the_checker_says() {
        for token_len in 0..=32 {
            let mut pool = Pool::new(HashKey::new([1; 4]), 4, 4);
            let packet = pool.copy_of(b"\x06\x00").unwrap();
            let meta = pool.meta_mut(&packet);
            meta.link.token = Token::new(&vec![7; token_len]).unwrap();
            meta.ingress = FaceId::from_bits(0x0102_0304);
            let fitting = core::iter::from_fn(|| attach(meta).then_some(true)).count();
            let checked =
                |count| labels::labels_in_chain(core::iter::repeat_n(true, count), token_len);
            assert_eq!((checked(fitting), checked(fitting + 1)), (Ok(fitting), Err(fitting)));
            pool.release(packet);
        }
    }

    #[test]
    fn detach_returns_face_and_token_of_attach() {
        for len in 0..=27 {
            let token: Vec<u8> = (0..len).collect();
            let (sent, face, token_back) = round_trip(&token).unwrap();
            assert_eq!((face.bits(), &token_back), (0x0102_0304, &token));
            assert_eq!(sent.len() == 6, len <= 1, "{len}");
        }
        assert_eq!(round_trip(&[7; 28]), None);
    }
}
