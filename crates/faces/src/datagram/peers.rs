//! The faces of a datagram socket, by peer.
//!
//! In shards, for a hash map that grows moves all it holds in one go: with ten thousand peers that kept packets waiting for two milliseconds.
//! Which shard is no secret; where within it is, for the keys come from outside.

use super::Peer;
use nw_element_api::FaceId;
use std::collections::HashMap;
use std::hash::RandomState;

const SHARD_BITS: u32 = 6;

/// See the module.
#[derive(Debug)]
pub struct Peers {
    shards: Box<[HashMap<Peer, FaceId>]>,
    len: usize,
}

impl Peers {
    /// Nobody. Takes memory with the first peer of a shard.
    pub fn new() -> Self {
        let keyed = RandomState::new();
        Peers { shards: (0..1 << SHARD_BITS).map(|_| HashMap::with_hasher(keyed.clone())).collect(), len: 0 }
    }

    /// Peers there are.
    #[cfg(test)]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True without peers.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The face of a peer.
    #[inline]
    pub fn get(&self, peer: &Peer) -> Option<&FaceId> {
        self.shards[shard_of(*peer)].get(peer)
    }

    /// Gives a peer a face, in place of the one it had.
    pub fn insert(&mut self, peer: Peer, face: FaceId) {
        self.len += usize::from(self.shards[shard_of(peer)].insert(peer, face).is_none());
    }

    /// Forgets a peer.
    pub fn remove(&mut self, peer: &Peer) {
        self.len -= usize::from(self.shards[shard_of(*peer)].remove(peer).is_some());
    }

    /// All peers with their faces, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&Peer, &FaceId)> {
        self.shards.iter().flatten()
    }

    /// All faces, in no order.
    pub fn values(&self) -> impl Iterator<Item = &FaceId> {
        self.shards.iter().flat_map(HashMap::values)
    }
}

#[inline]
fn shard_of(peer: Peer) -> usize {
    (peer.mark().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SHARD_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    fn peer(number: u32) -> Peer {
        Peer::Ip(SocketAddr::from(((0x7f01_0000 + number / 4).to_be_bytes(), 6363 + (number % 4) as u16)))
    }

    #[test]
    fn no_growth_moves_many_peers() {
        let mut peers = Peers::new();
        for number in 0..20_000 {
            peers.insert(peer(number), FaceId::INTERNAL);
        }
        assert_eq!(peers.len(), 20_000);
        let largest = peers.shards.iter().map(HashMap::len).max().unwrap();
        assert!(largest < 1000, "{largest} peers are in one shard");
    }

    proptest! {
        #[test]
        fn as_one_map(steps in proptest::collection::vec((0u32..40, any::<bool>(), 1u32..9), 0..200)) {
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
