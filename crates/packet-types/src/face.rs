//! Faces as the forwarding plane sees them: an id, a scope, a type of link.

use alloc::vec::Vec;
use core::net::IpAddr;

/// The id of a face. The ids of removed faces are reused with another generation only, so a stale
/// id finds nothing.
///
/// Bits 0 to 19 are a slot, the others a generation. 0 means no face; 1, 254 and 255 are reserved
/// as in NFD; other faces have slots from 256 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaceId(u32);

impl FaceId {
    /// No face.
    pub const NONE: FaceId = FaceId(0);
    /// The router's own face, which management uses.
    pub const INTERNAL: FaceId = FaceId(1);
    /// The IncomingFaceId of Data from the content store.
    pub const CONTENT_STORE: FaceId = FaceId(254);
    /// Drops every packet sent to it.
    pub const NULL: FaceId = FaceId(255);
    /// The first id that is not reserved.
    pub const FIRST: u32 = 256;
    const SLOT_BITS: u32 = 20;

    /// Returns the id with this number; `None` for 0 and for numbers above 32 bits.
    pub fn from_number(number: u64) -> Option<Self> {
        u32::try_from(number).ok().filter(|n| *n != 0).map(FaceId)
    }

    /// Returns the number of the id.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0 as u64
    }

    /// Returns the id of a slot below [`SLOTS_MAX`](Self::SLOTS_MAX) and a generation.
    pub const fn from_slot(slot: u32, generation: u32) -> Self {
        FaceId((slot & (Self::SLOTS_MAX - 1)) | generation << Self::SLOT_BITS)
    }

    /// The maximum number of faces at one time.
    pub const SLOTS_MAX: u32 = 1 << Self::SLOT_BITS;

    /// Returns the slot, which tables use as an index.
    #[inline]
    pub const fn slot(self) -> usize {
        (self.0 & (Self::SLOTS_MAX - 1)) as usize
    }

    /// Returns how often the slot was used before, modulo 4096.
    pub const fn generation(self) -> u32 {
        self.0 >> Self::SLOT_BITS
    }

    /// Returns the id as 32 bits.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the id with these bits: the reverse of [`bits`](Self::bits).
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        FaceId(bits)
    }
}

impl core::fmt::Display for FaceId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether the peer of a face is on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The peer is on this machine, so `/localhost` names may pass.
    Local,
    /// The peer is another machine.
    NonLocal,
}

/// Which peers receive what is sent to a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// One peer.
    PointToPoint,
    /// All peers on the link.
    MultiAccess,
    /// All peers in radio range. They may not receive each other, so packets may be sent back to
    /// the link of arrival.
    AdHoc,
}

/// The identity of the other end of a face, for fairness: faces with the same peer share limited
/// resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(u64);

impl Peer {
    /// Unknown: the face does not share with any other.
    pub const UNKNOWN: Peer = Peer(0);
    /// All addresses of this machine.
    const LOOPBACK: Peer = Peer(0xff01 << 48);
    const IPV4: u64 = 0xff02 << 48;
    const MAC: u64 = 0xff03 << 48;

    /// Returns the peer of an IP address: a whole IPv4 address, or the first 64 bits of an IPv6
    /// address, as one host may use all addresses below them. Link-local IPv6 addresses have the
    /// same first 64 bits, so their last 64 bits are used.
    pub const fn of_ip(address: IpAddr) -> Self {
        match address.to_canonical() {
            address if address.is_loopback() => Peer::LOOPBACK,
            IpAddr::V4(address) => Peer(Peer::IPV4 | address.to_bits() as u64),
            // Values from ff00:: on are free, as multicast addresses are never a peer's.
            IpAddr::V6(address) => match (address.to_bits() >> 64) as u64 {
                0xfe80_0000_0000_0000 => Peer(address.to_bits() as u64),
                0 => Peer::UNKNOWN,
                network => Peer(network),
            },
        }
    }

    /// Returns the peer of an Ethernet address.
    pub const fn of_mac(address: [u8; 6]) -> Self {
        let [a, b, c, d, e, f] = address;
        Peer(Peer::MAC | u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }
}

/// The properties of a face that forwarding uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceInfo {
    /// Whether the peer is on this machine.
    pub scope: Scope,
    /// Which peers receive what is sent.
    pub link_type: LinkType,
}

/// The faces that exist, by slot.
#[derive(Debug, Default)]
pub struct FaceTable {
    slots: Vec<Option<(FaceId, FaceInfo)>>,
}

impl FaceTable {
    /// Creates an empty table.
    pub const fn new() -> Self {
        FaceTable { slots: Vec::new() }
    }

    /// Adds a face, or changes its properties.
    pub fn insert(&mut self, id: FaceId, info: FaceInfo) {
        if self.slots.len() <= id.slot() {
            self.slots.resize(id.slot() + 1, None);
        }
        self.slots[id.slot()] = Some((id, info));
    }

    /// Iterates over the ids of all faces, by slot.
    pub fn ids(&self) -> impl Iterator<Item = FaceId> {
        self.slots.iter().flatten().map(|(id, _)| *id)
    }

    /// Removes a face; returns whether it existed.
    pub fn remove(&mut self, id: FaceId) -> bool {
        let existed = self.contains(id);
        if existed {
            self.slots[id.slot()] = None;
        }
        existed
    }

    /// Returns the properties of a face; `None` if it does not exist.
    #[inline]
    pub fn info(&self, id: FaceId) -> Option<FaceInfo> {
        match self.slots.get(id.slot()) {
            Some(Some((stored_id, info))) if *stored_id == id => Some(*info),
            _ => None,
        }
    }

    /// Iterates over all faces by slot. Visits every slot ever used.
    pub fn iter(&self) -> impl Iterator<Item = (FaceId, FaceInfo)> + Clone + '_ {
        self.slots.iter().flatten().copied()
    }

    /// Returns whether the face exists.
    #[inline]
    pub fn contains(&self, id: FaceId) -> bool {
        self.info(id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_addresses_of_one_host_are_equal() {
        let of = |text: &str| Peer::of_ip(text.parse().expect("an address"));
        for (a, b) in [
            ("192.0.2.1", "::ffff:192.0.2.1"),
            ("127.0.0.1", "127.1.2.3"),
            ("127.0.0.1", "::1"),
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::"),
        ] {
            assert_eq!(of(a), of(b), "{a} {b}");
        }
        let different = [
            "192.0.2.1",
            "192.0.2.2",
            "127.0.0.1",
            "2001:db8:1:2::1",
            "2001:db8:1:3::1",
            "fe80::1",
            "fe80::2",
        ];
        for (at, a) in different.iter().enumerate() {
            assert_ne!(of(a), Peer::UNKNOWN);
            assert!(different[at + 1..].iter().all(|b| of(a) != of(b)), "{a}");
        }
        assert_ne!(Peer::of_mac([0, 0, 192, 0, 2, 1]), of("192.0.2.1"));
    }

    #[test]
    fn face_table_stale_id_finds_nothing() {
        let info = FaceInfo { scope: Scope::Local, link_type: LinkType::PointToPoint };
        let (old, new) = (FaceId::from_slot(300, 0), FaceId::from_slot(300, 1));
        let mut faces = FaceTable::new();
        faces.insert(old, info);
        assert!(faces.remove(old));
        faces.insert(new, info);
        assert_eq!(faces.info(old), None);
        assert_eq!(faces.info(new), Some(info));
        assert!(!faces.remove(old));
        assert_eq!(old.number(), 300);
    }
}
