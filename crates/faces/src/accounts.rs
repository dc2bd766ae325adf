//! Accounts of on-demand faces: how many each peer has, and whose is evicted when there are too
//! many.
//!
//! ```text
//!  FaceAccounts ─ PeerAccount (user, address, network, card) ─ PartAccount (process, or transport)
//! ```
//!
//! A peer is a user of this machine, an IPv4 address, an IPv6 network of 64 bits, this machine's
//! loopback addresses together, or a network card. A user's faces are divided by process, so that a
//! program with many does not keep out the same user's other programs; those of an address by
//! transport.
//!
//! Invariant: `len` fields count live faces; queues hold face ids by age and may also hold closed
//! ones, which are skipped, and removed before they outnumber the live ones.

use crate::datagram::Peer;
use nw_element_api::FaceId;
use nw_link::{FaceUri, Mac};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

/// Parts of a network peer's account: its transports.
const BY_TCP: u32 = 0;
const BY_WEBSOCKET: u32 = 1;
const BY_DATAGRAMS: u32 = 2;

/// Entries of a queue beyond twice its live faces, at which closed ones are removed.
const ENDED_MAX: usize = 64;

/// The peer that on-demand faces are counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerKey {
    /// A user of this machine, over a unix socket or shared memory.
    User(u32),
    /// This machine, over one of its loopback addresses.
    Loopback,
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// The first 64 bits of an IPv6 address: one host can have all addresses of such a network.
    V6(u64),
    /// A network card.
    Card(Mac),
    /// The peer is unknown.
    Unknown,
}

/// The account that a face is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The peer.
    pub peer: PeerKey,
    /// Part of the peer: a user's process id (0 if unknown), or the transport to an address.
    pub part: u32,
}

impl Account {
    /// Returns the account of a datagram's sender.
    pub fn of_sender(peer: Peer) -> Self {
        let peer = match peer {
            Peer::Ip(address) => PeerKey::of_ip(address.ip()),
            Peer::Mac(mac) => PeerKey::Card(mac),
        };
        Account { peer, part: BY_DATAGRAMS }
    }

    /// Returns the account of a connection over IP.
    pub fn of_uri(uri: &FaceUri) -> Self {
        let peer = uri.address().map_or(PeerKey::Unknown, |address| PeerKey::of_ip(address.ip()));
        let part = if matches!(uri, FaceUri::Tcp(_)) { BY_TCP } else { BY_WEBSOCKET };
        Account { peer, part }
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

/// Accounts of the on-demand faces of one bounded pool.
#[derive(Debug, Default)]
pub struct FaceAccounts {
    peers: BTreeMap<PeerKey, PeerAccount>,
    /// Peers by their number of faces.
    by_len: BTreeSet<(usize, PeerKey)>,
    /// All faces, oldest first.
    queue: VecDeque<FaceId>,
    len: usize,
}

/// The faces of one peer, by part.
#[derive(Debug, Default)]
struct PeerAccount {
    parts: BTreeMap<u32, PartAccount>,
    /// Parts by their number of faces.
    by_len: BTreeSet<(usize, u32)>,
    len: usize,
}

/// The faces of one part of a peer, oldest first.
#[derive(Debug, Default)]
struct PartAccount {
    queue: VecDeque<FaceId>,
    len: usize,
}

/// A queue from which a face may be evicted.
#[derive(Debug)]
pub enum Candidates<'a> {
    /// Faces of a peer or part with more than the newcomer would have: any may be evicted.
    Larger(&'a mut VecDeque<FaceId>),
    /// No peer has more: only unused or long idle faces may be evicted.
    Equal(&'a mut VecDeque<FaceId>),
}

impl FaceAccounts {
    /// Returns the number of faces.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of faces of an account.
    pub fn len_of(&self, account: Account) -> usize {
        let part = self
            .peers
            .get(&account.peer)
            .and_then(|peer_account| peer_account.parts.get(&account.part));
        part.map_or(0, |part| part.len)
    }

    /// Adds a face. `is_live` returns whether a face still exists.
    pub fn add(&mut self, account: Account, face: FaceId, is_live: impl Fn(FaceId) -> bool) {
        let peer_account = self.peers.entry(account.peer).or_default();
        self.by_len.remove(&(peer_account.len, account.peer));
        peer_account.len += 1;
        self.by_len.insert((peer_account.len, account.peer));
        let part = peer_account.parts.entry(account.part).or_default();
        peer_account.by_len.remove(&(part.len, account.part));
        part.len += 1;
        peer_account.by_len.insert((part.len, account.part));
        self.len += 1;
        push(&mut part.queue, part.len, face, &is_live);
        push(&mut self.queue, self.len, face, &is_live);
    }

    /// Removes a closed face. Its queue entries are skipped and removed later.
    pub fn remove(&mut self, account: Account) {
        let Some(peer_account) = self.peers.get_mut(&account.peer) else { return };
        let Some(part) = peer_account.parts.get_mut(&account.part) else { return };
        self.by_len.remove(&(peer_account.len, account.peer));
        peer_account.by_len.remove(&(part.len, account.part));
        self.len -= 1;
        peer_account.len -= 1;
        part.len -= 1;
        if part.len > 0 {
            peer_account.by_len.insert((part.len, account.part));
        } else {
            peer_account.parts.remove(&account.part);
        }
        if peer_account.len > 0 {
            self.by_len.insert((peer_account.len, account.peer));
        } else {
            self.peers.remove(&account.peer);
        }
    }

    /// Returns the faces from which one is evicted for a newcomer: those of the peer with most, if
    /// it has more than the newcomer's peer would have; else those of the same peer's largest part,
    /// by the same rule. If no peer has more, the newcomer's own if it has several, else all.
    /// `None` if there are no faces.
    pub fn candidates(&mut self, newcomer: Account) -> Option<Candidates<'_>> {
        let own = self.peers.get(&newcomer.peer).map_or(0, |peer_account| peer_account.len);
        let (most, largest) = *self.by_len.last()?;
        let is_other = most > own + 1;
        if !is_other && own < 2 {
            return Some(Candidates::Equal(&mut self.queue));
        }
        let peer_account = self.peers.get_mut(if is_other { &largest } else { &newcomer.peer })?;
        let (most, largest) = *peer_account.by_len.last()?;
        let own = peer_account.parts.get(&newcomer.part).map_or(0, |part| part.len);
        let queue = &mut peer_account.parts.get_mut(&largest)?.queue;
        match is_other || most > own + 1 {
            true => Some(Candidates::Larger(queue)),
            false => Some(Candidates::Equal(queue)),
        }
    }

    /// Returns the faces of the largest part of the peer with most.
    pub fn largest(&mut self) -> Option<&mut VecDeque<FaceId>> {
        let (_, peer) = self.by_len.last()?;
        let peer_account = self.peers.get_mut(peer)?;
        let (_, part) = peer_account.by_len.last()?;
        peer_account.parts.get_mut(part).map(|part| &mut part.queue)
    }
}

/// Adds a face to a queue. Removes closed ones before they outnumber the live ones.
fn push(queue: &mut VecDeque<FaceId>, len: usize, face: FaceId, is_live: impl Fn(FaceId) -> bool) {
    queue.push_back(face);
    if queue.len() > ENDED_MAX + 2 * len {
        queue.retain(|known| *known == face || is_live(*known));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn account(peer: u32, process: u32) -> Account {
        Account { peer: PeerKey::User(peer), part: process }
    }

    #[test]
    fn account_key_groups_addresses_by_network() {
        let key = |text: &str| Account::of_sender(Peer::Ip(text.parse().unwrap())).peer;
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
    fn candidates_are_faces_of_largest_peer_and_process() {
        let mut accounts = FaceAccounts::default();
        assert!(accounts.candidates(account(1, 1)).is_none());
        let mut next = 256;
        let mut add = |accounts: &mut FaceAccounts, newcomer| {
            next += 1;
            accounts.add(newcomer, FaceId::from_bits(next), |_| true);
            FaceId::from_bits(next)
        };
        let hog: Vec<FaceId> = (0..5).map(|_| add(&mut accounts, account(1, 10))).collect();
        add(&mut accounts, account(1, 11));
        add(&mut accounts, account(2, 20));
        let mut larger = |newcomer| match accounts.candidates(newcomer) {
            Some(Candidates::Larger(queue)) => Some(queue.iter().copied().collect::<Vec<_>>()),
            _ => None,
        };
        assert_eq!(larger(account(3, 30)), Some(hog.clone()), "another user");
        assert_eq!(larger(account(2, 20)), Some(hog.clone()), "a user with fewer");
        assert_eq!(larger(account(1, 12)), Some(hog.clone()), "another program of the same user");
        assert_eq!(larger(account(1, 11)), Some(hog), "a program with fewer");
        assert_eq!(larger(account(1, 10)), None, "the one with most");
        let Some(Candidates::Equal(queue)) = accounts.candidates(account(1, 10)) else {
            panic!("none")
        };
        assert_eq!(queue.len(), 5, "only its own may be evicted for it");
        let mut accounts = FaceAccounts::default();
        for peer in 1..9 {
            add(&mut accounts, account(peer, 0));
        }
        let Some(Candidates::Equal(queue)) = accounts.candidates(account(9, 0)) else {
            panic!("none")
        };
        assert_eq!(queue.len(), 8, "if all have one, any may be evicted");
    }

    proptest! {
        /// Newcomers that evict one of `candidates` bring all peers to equal shares.
        #[test]
        fn evictions_equalize_accounts(
            starts in proptest::collection::vec((0u32..4, 0u32..3), 12..40),
            newcomers in proptest::collection::vec((0u32..4, 0u32..3), 0..200),
        ) {
            let capacity = starts.len();
            let (mut accounts, mut live) = (FaceAccounts::default(), BTreeMap::new());
            let mut next = 256;
            for (at, (peer, process)) in starts.iter().chain(&newcomers).enumerate() {
                let newcomer = account(*peer, *process);
                if at >= capacity {
                    let Some(Candidates::Larger(queue)) = accounts.candidates(newcomer) else {
                        continue;
                    };
                    let victim = loop {
                        let id = queue.pop_front().expect("a live face is in the queue");
                        if live.contains_key(&id) {
                            break id;
                        }
                    };
                    let evicted: Account = live.remove(&victim).unwrap();
                    let len_of =
                        |peer: PeerKey| live.values().filter(|other| other.peer == peer).count();
                    let is_larger = len_of(evicted.peer) > len_of(newcomer.peer);
                    prop_assert!(evicted.peer == newcomer.peer || is_larger);
                    accounts.remove(evicted);
                }
                next += 1;
                let id = FaceId::from_bits(next);
                live.insert(id, newcomer);
                accounts.add(newcomer, id, |id| live.contains_key(&id));
                prop_assert_eq!(accounts.len(), live.len());
                prop_assert!(accounts.queue.len() <= ENDED_MAX + 2 * live.len());
                for peer in 0..4 {
                    let key = PeerKey::User(peer);
                    let counted = live.values().filter(|other| other.peer == key).count();
                    let len = accounts.peers.get(&key).map_or(0, |peer_account| peer_account.len);
                    prop_assert_eq!(len, counted);
                }
            }
        }
    }
}
