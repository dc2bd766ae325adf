//! Faces as the forwarding plane knows them: an id, a scope, a kind of link.

use core::net::IpAddr;

/// Names a face. Ids of ended faces come back only with another generation, so a stale one finds nothing.
///
/// Bits 0..20 are a slot, the others a generation. 0 is no face; 1, 254 and 255 are reserved as clients expect; slots of others start at 256.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaceId(u32);

impl FaceId {
    /// No face.
    pub const NONE: FaceId = FaceId(0);
    /// The router's own face, where management answers.
    pub const INTERNAL: FaceId = FaceId(1);
    /// Seen as IncomingFaceId of what the content store answers.
    pub const CONTENT_STORE: FaceId = FaceId(254);
    /// Drops all that is sent to it.
    pub const NULL: FaceId = FaceId(255);
    /// The first id of others.
    pub const FIRST: u32 = 256;
    const SLOT_BITS: u32 = 20;

    /// From its number, if a face can have it.
    pub fn from_number(number: u64) -> Option<Self> {
        u32::try_from(number).ok().filter(|n| *n != 0).map(FaceId)
    }

    /// Its number.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0 as u64
    }

    /// From a slot below [`SLOTS_MAX`](Self::SLOTS_MAX) and a generation.
    pub const fn from_slot(slot: u32, generation: u32) -> Self {
        FaceId((slot & (Self::SLOTS_MAX - 1)) | generation << Self::SLOT_BITS)
    }

    /// Faces there can be at one time.
    pub const SLOTS_MAX: u32 = 1 << Self::SLOT_BITS;

    /// Where tables keep this face.
    #[inline]
    pub const fn slot(self) -> usize {
        (self.0 & (Self::SLOTS_MAX - 1)) as usize
    }

    /// How often the slot was used before, modulo 4096.
    pub const fn generation(self) -> u32 {
        self.0 >> Self::SLOT_BITS
    }

    /// As tables keep it, in 32 bits.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The reverse of [`bits`](Self::bits).
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

/// Whether the other end is on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// An application or another process of this machine; `/localhost` may pass.
    Local,
    /// Anything else.
    NonLocal,
}

/// Who hears what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// One peer.
    PointToPoint,
    /// All on the link.
    MultiAccess,
    /// All in radio range, who may not hear one another: packets may go back where they came from.
    AdHoc,
}

/// The other end of a face, as far as it can be told from others: faces with the same one share what there is too little of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(u64);

impl Peer {
    /// Not known: the face stands for itself.
    pub const UNKNOWN: Peer = Peer(0);
    /// All addresses of this machine.
    const LOOPBACK: Peer = Peer(0xff01 << 48);
    const IPV4: u64 = 0xff02 << 48;
    const MAC: u64 = 0xff03 << 48;

    /// The peer at an IP address: a whole IPv4 address, the first 64 bits of an IPv6 address, as a host has all of those at its disposal. Link-local
    /// IPv6 addresses all begin alike, so of these the last 64 bits count.
    pub const fn of_ip(address: IpAddr) -> Self {
        match address.to_canonical() {
            address if address.is_loopback() => Peer::LOOPBACK,
            IpAddr::V4(address) => Peer(Peer::IPV4 | address.to_bits() as u64),
            // Multicast addresses, which begin with ff, are no peer's.
            IpAddr::V6(address) => match (address.to_bits() >> 64) as u64 {
                0xfe80_0000_0000_0000 => Peer(address.to_bits() as u64),
                0 => Peer::UNKNOWN,
                network => Peer(network),
            },
        }
    }

    /// The peer at an Ethernet address.
    pub const fn of_mac(address: [u8; 6]) -> Self {
        let [a, b, c, d, e, f] = address;
        Peer(Peer::MAC | u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }
}

/// What forwarding needs to know of a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceInfo {
    /// Whether the other end is on this machine.
    pub scope: Scope,
    /// Who hears what is sent.
    pub link_type: LinkType,
}

/// The faces there are.
#[derive(Debug, Default)]
pub struct FaceTable {
    slots: Vec<Option<(FaceId, FaceInfo)>>,
}

impl FaceTable {
    /// Without faces.
    pub const fn new() -> Self {
        FaceTable { slots: Vec::new() }
    }

    /// Adds a face or changes what is known of it.
    pub fn insert(&mut self, id: FaceId, info: FaceInfo) {
        if self.slots.len() <= id.slot() {
            self.slots.resize(id.slot() + 1, None);
        }
        self.slots[id.slot()] = Some((id, info));
    }

    /// All of them, by slot.
    pub fn ids(&self) -> impl Iterator<Item = FaceId> {
        self.slots.iter().flatten().map(|(id, _)| *id)
    }

    /// Forgets a face; false when it was not there.
    pub fn remove(&mut self, id: FaceId) -> bool {
        let known = self.contains(id);
        if known {
            self.slots[id.slot()] = None;
        }
        known
    }

    /// What is known of a face, if it is there.
    #[inline]
    pub fn info(&self, id: FaceId) -> Option<FaceInfo> {
        match self.slots.get(id.slot()) {
            Some(Some((known, info))) if *known == id => Some(*info),
            _ => None,
        }
    }

    /// All faces, in the order of their slots. Looks at every slot ever used.
    pub fn iter(&self) -> impl Iterator<Item = (FaceId, FaceInfo)> + Clone + '_ {
        self.slots.iter().flatten().copied()
    }

    /// True when the face is there.
    #[inline]
    pub fn contains(&self, id: FaceId) -> bool {
        self.info(id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_of_ports_and_interfaces_of_one_host_is_one() {
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
    fn a_stale_id_finds_nothing() {
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
