//! The faces of a datagram socket, by peer.
//!
//! The map is divided into 64 parts, as a growing hash map moves all its entries at once, which
//! would delay packets when there are thousands of peers. The part is chosen by a public hash;
//! within it the hash is keyed, as attackers choose the keys.

use super::Peer;
use nw_element_api::FaceId;
use std::collections::HashMap;
use std::hash::RandomState;

/// Number of parts, as a power of two.
const PART_BITS: u32 = 6;

/// Map from peers to faces.
#[derive(Debug)]
pub struct Peers {
    parts: Box<[HashMap<Peer, FaceId>]>,
    len: usize,
}

impl Peers {
    /// Returns an empty map. Memory is allocated with the first peer of a part.
    pub fn new() -> Self {
        let keyed = RandomState::new();
        Peers {
            parts: (0..1 << PART_BITS).map(|_| HashMap::with_hasher(keyed.clone())).collect(),
            len: 0,
        }
    }

    /// Returns the number of peers.
    #[cfg(test)]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no peers.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the face of a peer.
    #[inline]
    pub fn get(&self, peer: &Peer) -> Option<&FaceId> {
        self.parts[part_of(*peer)].get(peer)
    }

    /// Sets the face of a peer.
    pub fn insert(&mut self, peer: Peer, face: FaceId) {
        self.len += usize::from(self.parts[part_of(peer)].insert(peer, face).is_none());
    }

    /// Removes a peer.
    pub fn remove(&mut self, peer: &Peer) {
        self.len -= usize::from(self.parts[part_of(*peer)].remove(peer).is_some());
    }

    /// Returns all peers with their faces, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Peer, &FaceId)> {
        self.parts.iter().flatten()
    }

    /// Returns all faces, in no order.
    pub fn values(&self) -> impl Iterator<Item = &FaceId> {
        self.parts.iter().flat_map(HashMap::values)
    }
}

#[inline]
fn part_of(peer: Peer) -> usize {
    (peer.sender_number().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PART_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    fn peer(number: u32) -> Peer {
        Peer::Ip(SocketAddr::from((
            (0x7f01_0000 + number / 4).to_be_bytes(),
            6363 + (number % 4) as u16,
        )))
    }

    #[test]
    fn growth_moves_few_peers() {
        let mut peers = Peers::new();
        for number in 0..20_000 {
            peers.insert(peer(number), FaceId::INTERNAL);
        }
        assert_eq!(peers.len(), 20_000);
        let largest = peers.parts.iter().map(HashMap::len).max().unwrap();
        assert!(largest < 1000, "{largest} peers are in one shard");
    }

    proptest! {
        #[test]
        fn peers_equal_hash_map(steps in proptest::collection::vec((0u32..40, any::<bool>(), 1u32..9), 0..200)) {
            let (mut peers, mut model) = (Peers::new(), HashMap::new());
            for (number, insert, face) in steps {
                let (peer, face) = (peer(number), FaceId::from_bits(face));
                if insert {
                    peers.insert(peer, face);
                    model.insert(peer, face);
                } else {
                    peers.remove(&peer);
                    model.remove(&peer);
                }
                prop_assert_eq!(peers.get(&peer), model.get(&peer));
                prop_assert_eq!((peers.len(), peers.is_empty()), (model.len(), model.is_empty()));
            }
            let (mut all, mut wanted): (Vec<_>, Vec<_>) = (peers.values().collect(), model.values().collect());
            all.sort_unstable();
            wanted.sort_unstable();
            prop_assert_eq!(all, wanted);
        }
    }
}
