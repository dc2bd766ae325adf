//! Which peer has how many on-demand faces, and which face gives way when there are too many.
//!
//! A peer is a user of this machine, an IPv4 address, an IPv6 network of 64 bits, this machine's loopback addresses together, or a network
//! card. A peer's faces are told apart further: those of a user by process, so that a program that holds many does not keep out the same user's others; those of
//! an address by transport.
//!
//! Face ids are kept in queues by age. Faces that ended are left in them and passed over later; what is counted are those that are there.

use crate::datagram::Peer;
use crate::mac::Mac;
use crate::uri::FaceUri;
use nw_element_api::FaceId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

/// How an address is reached.
const BY_TCP: u32 = 0;
const BY_WEBSOCKET: u32 = 1;
const BY_DATAGRAMS: u32 = 2;

/// Entries of a queue beyond twice the faces in it that are cleared away.
const ENDED_MAX: usize = 64;

/// Whose on-demand faces are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerKey {
    /// A user of this machine, over a Unix socket or shared memory.
    User(u32),
    /// This machine, over an IP address of its own.
    Loopback,
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// The first 64 bits of an IPv6 address: one host can have all addresses behind them.
    V6(u64),
    /// A network card.
    Card(Mac),
    /// None of these is known.
    Unknown,
}

/// Who holds a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The peer.
    pub peer: PeerKey,
    /// Which part of the peer: a user's process (0 if it is not known), or how an address is reached.
    pub part: u32,
}

impl Owner {
    /// Of a datagram's sender.
    pub fn of_sender(peer: Peer) -> Self {
        let peer = match peer {
            Peer::Ip(address) => PeerKey::of_ip(address.ip()),
            Peer::Mac(mac) => PeerKey::Card(mac),
        };
        Owner { peer, part: BY_DATAGRAMS }
    }

    /// Of a connection over IP.
    pub fn of_uri(uri: &FaceUri) -> Self {
        let peer = uri.address().map_or(PeerKey::Unknown, |address| PeerKey::of_ip(address.ip()));
        let part = if matches!(uri, FaceUri::Tcp(_)) { BY_TCP } else { BY_WEBSOCKET };
        Owner { peer, part }
    }
}

impl PeerKey {
    fn of_ip(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            ip if ip.is_loopback() => PeerKey::Loopback,
            IpAddr::V4(address) => PeerKey::V4(address),
            IpAddr::V6(address) => PeerKey::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// On-demand faces of a bounded pool, by peer.
#[derive(Debug, Default)]
pub struct PeerShares {
    peers: BTreeMap<PeerKey, PeerShare>,
    by_len: BTreeSet<(usize, PeerKey)>,
    /// All faces, oldest first.
    queue: VecDeque<FaceId>,
    len: usize,
}

/// The faces of one peer, by part.
#[derive(Debug, Default)]
struct PeerShare {
    parts: BTreeMap<u32, PartShare>,
    by_len: BTreeSet<(usize, u32)>,
    len: usize,
}

#[derive(Debug, Default)]
struct PartShare {
    queue: VecDeque<FaceId>,
    len: usize,
}

/// A queue from which a face may give way.
#[derive(Debug)]
pub enum Candidates<'a> {
    /// Faces of a peer or part with more than the newcomer would have.
    Larger(&'a mut VecDeque<FaceId>),
    /// Nothing has more: only faces that are hardly used are to give way.
    Equal(&'a mut VecDeque<FaceId>),
}

impl PeerShares {
    /// Returns how many faces there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns how many faces an owner has.
    pub fn len_of(&self, owner: Owner) -> usize {
        let part = self.peers.get(&owner.peer).and_then(|share| share.parts.get(&owner.part));
        part.map_or(0, |part| part.len)
    }

    /// Adds a face.
    pub fn add(&mut self, owner: Owner, face: FaceId, is_there: impl Fn(FaceId) -> bool) {
        let share = self.peers.entry(owner.peer).or_default();
        self.by_len.remove(&(share.len, owner.peer));
        share.len += 1;
        self.by_len.insert((share.len, owner.peer));
        let part = share.parts.entry(owner.part).or_default();
        share.by_len.remove(&(part.len, owner.part));
        part.len += 1;
        share.by_len.insert((part.len, owner.part));
        self.len += 1;
        push(&mut part.queue, part.len, face, &is_there);
        push(&mut self.queue, self.len, face, &is_there);
    }

    /// Removes a face that has ended. Its place in the queues is skipped and removed later.
    pub fn remove(&mut self, owner: Owner) {
        let Some(share) = self.peers.get_mut(&owner.peer) else { return };
        let Some(part) = share.parts.get_mut(&owner.part) else { return };
        self.by_len.remove(&(share.len, owner.peer));
        share.by_len.remove(&(part.len, owner.part));
        self.len -= 1;
        share.len -= 1;
        part.len -= 1;
        if part.len > 0 {
            share.by_len.insert((part.len, owner.part));
        } else {
            share.parts.remove(&owner.part);
        }
        if share.len > 0 {
            self.by_len.insert((share.len, owner.peer));
        } else {
            self.peers.remove(&owner.peer);
        }
    }

    /// Returns the faces among which one gives way to a newcomer: of the peer with most, if it has more than the newcomer's peer with one
    /// more; else of the largest part of the same peer, in the same way. Where nothing has more these are the newcomer's own, if it has several,
    /// else all. `None` when there are no faces.
    pub fn candidates(&mut self, newcomer: Owner) -> Option<Candidates<'_>> {
        let own = self.peers.get(&newcomer.peer).map_or(0, |share| share.len);
        let (most, largest) = *self.by_len.last()?;
        let is_other = most > own + 1;
        if !is_other && own < 2 {
            return Some(Candidates::Equal(&mut self.queue));
        }
        let share = self.peers.get_mut(if is_other { &largest } else { &newcomer.peer })?;
        let (most, largest) = *share.by_len.last()?;
        let own = share.parts.get(&newcomer.part).map_or(0, |part| part.len);
        let queue = &mut share.parts.get_mut(&largest)?.queue;
        match is_other || most > own + 1 {
            true => Some(Candidates::Larger(queue)),
            false => Some(Candidates::Equal(queue)),
        }
    }

    /// Returns the faces of the largest part of the peer with most.
    pub fn largest(&mut self) -> Option<&mut VecDeque<FaceId>> {
        let (_, peer) = self.by_len.last()?;
        let share = self.peers.get_mut(peer)?;
        let (_, part) = share.by_len.last()?;
        share.parts.get_mut(part).map(|part| &mut part.queue)
    }
}

/// Adds to a queue; what has ended is cleared away before it outnumbers what is there.
fn push(queue: &mut VecDeque<FaceId>, len: usize, face: FaceId, is_there: impl Fn(FaceId) -> bool) {
    queue.push_back(face);
    if queue.len() > ENDED_MAX + 2 * len {
        queue.retain(|known| *known == face || is_there(*known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn owner(peer: u32, process: u32) -> Owner {
        Owner { peer: PeerKey::User(peer), part: process }
    }

    #[test]
    fn peers_are_addresses_networks_users_and_this_machine() {
        let key = |text: &str| Owner::of_sender(Peer::Ip(text.parse().unwrap())).peer;
        assert_eq!(key("127.0.0.1:1"), PeerKey::Loopback);
        assert_eq!(key("127.9.9.9:1"), PeerKey::Loopback);
        assert_eq!(key("[::1]:1"), PeerKey::Loopback);
        assert_eq!(key("192.0.2.1:1"), key("192.0.2.1:2"));
        assert_eq!(key("[::ffff:192.0.2.1]:1"), key("192.0.2.1:2"));
        assert_ne!(key("192.0.2.1:1"), key("192.0.2.2:1"));
        assert_eq!(key("[2001:db8:0:1::1]:1"), key("[2001:db8:0:1:ffff::2]:9"));
        assert_ne!(key("[2001:db8:0:1::1]:1"), key("[2001:db8:0:2::1]:1"));
    }

    #[test]
    fn face_of_the_largest_peer_and_process_gives_way() {
        let mut shares = PeerShares::default();
        assert!(shares.candidates(owner(1, 1)).is_none());
        let mut next = 256;
        let mut add = |shares: &mut PeerShares, who| {
            next += 1;
            shares.add(who, FaceId::from_bits(next), |_| true);
            FaceId::from_bits(next)
        };
        let hog: Vec<FaceId> = (0..5).map(|_| add(&mut shares, owner(1, 10))).collect();
        add(&mut shares, owner(1, 11));
        add(&mut shares, owner(2, 20));
        let mut larger = |who| match shares.candidates(who) {
            Some(Candidates::Larger(queue)) => Some(queue.iter().copied().collect::<Vec<_>>()),
            _ => None,
        };
        assert_eq!(larger(owner(3, 30)), Some(hog.clone()), "another user");
        assert_eq!(larger(owner(2, 20)), Some(hog.clone()), "a user with fewer");
        assert_eq!(larger(owner(1, 12)), Some(hog.clone()), "another program of the same user");
        assert_eq!(larger(owner(1, 11)), Some(hog), "a program with fewer");
        assert_eq!(larger(owner(1, 10)), None, "the one with most");
        let Some(Candidates::Equal(queue)) = shares.candidates(owner(1, 10)) else { panic!("none") };
        assert_eq!(queue.len(), 5, "only its own may give way to it");
        let mut shares = PeerShares::default();
        for peer in 1..9 {
            add(&mut shares, owner(peer, 0));
        }
        let Some(Candidates::Equal(queue)) = shares.candidates(owner(9, 0)) else { panic!("none") };
        assert_eq!(queue.len(), 8, "where all have one, any may");
    }

    proptest! {
        /// Newcomers that take the place of what `candidates` says bring all peers to equal shares.
        #[test]
        fn shares_become_equal(
            starts in proptest::collection::vec((0u32..4, 0u32..3), 12..40),
            newcomers in proptest::collection::vec((0u32..4, 0u32..3), 0..200),
        ) {
            let capacity = starts.len();
            let (mut shares, mut live) = (PeerShares::default(), BTreeMap::new());
            let mut next = 256;
            for (at, (peer, process)) in starts.iter().chain(&newcomers).enumerate() {
                let who = owner(*peer, *process);
                if at >= capacity {
                    let Some(Candidates::Larger(queue)) = shares.candidates(who) else { continue };
                    let victim = loop {
                        let id = queue.pop_front().expect("a live face is in the queue");
                        if live.contains_key(&id) { break id; }
                    };
                    let gone: Owner = live.remove(&victim).unwrap();
                    let len_of = |live: &BTreeMap<FaceId, Owner>, who: PeerKey| live.values().filter(|o| o.peer == who).count();
                    prop_assert!(gone.peer == who.peer || len_of(&live, gone.peer) > len_of(&live, who.peer));
                    shares.remove(gone);
                }
                next += 1;
                let id = FaceId::from_bits(next);
                live.insert(id, who);
                shares.add(who, id, |id| live.contains_key(&id));
                prop_assert_eq!(shares.len(), live.len());
                prop_assert!(shares.queue.len() <= ENDED_MAX + 2 * live.len());
                for peer in 0..4 {
                    let counted = live.values().filter(|o| o.peer == PeerKey::User(peer)).count();
                    prop_assert_eq!(shares.peers.get(&PeerKey::User(peer)).map_or(0, |share| share.len), counted);
                }
            }
        }
    }
}
