//! The balancer's settings: plain values.

use crate::error::KernelError;
use nw_name::HashKey;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// The settings that do not change while the program runs.
#[derive(Clone, Debug)]
pub struct BalancerOptions {
    /// The key of the name hash, the same on all balancers of a cluster.
    pub key: HashKey,
    /// The cluster's IPv4 address. At least one address is needed.
    pub cluster_v4: Option<Ipv4Addr>,
    /// The cluster's IPv6 address.
    pub cluster_v6: Option<Ipv6Addr>,
    /// The cluster's UDP port, not 0; usually 6363.
    pub port: u16,
    /// The settings for Ethernet faces, if the cluster has them.
    pub ethernet: Option<EthernetOptions>,
    /// A directory in a bpf file system in which maps and links outlive the process. It is created
    /// if needed.
    pub pin: Option<PathBuf>,
}

impl BalancerOptions {
    pub(super) fn check(&self) -> Result<(), KernelError> {
        if self.port == 0 {
            return Err(KernelError::Cluster("its UDP port is 0; NDN's is 6363"));
        }
        if self.cluster_v4.is_none() && self.cluster_v6.is_none() && self.ethernet.is_none() {
            return Err(KernelError::Cluster(
                "it has no address: give one of IPv4, of IPv6, or two interfaces for Ethernet",
            ));
        }
        let is_unusable =
            self.cluster_v4.is_some_and(|v4| v4.is_unspecified() || v4.is_multicast())
                || self.cluster_v6.is_some_and(|v6| v6.is_unspecified() || v6.is_multicast());
        if is_unusable {
            return Err(KernelError::Cluster("its address must be a unicast address"));
        }
        Ok(())
    }
}

/// NDN over Ethernet (EtherType 0x8624): one interface towards clients, one towards members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetOptions {
    /// Index of the interface towards clients, where the cluster is one neighbour.
    pub outside_index: u32,
    /// The cluster's Ethernet address on that interface.
    pub outside_mac: [u8; 6],
    /// Index of the interface towards members.
    pub inside_index: u32,
    /// NDN's multicast address on both; usually [`EthernetOptions::GROUP`].
    pub group: [u8; 6],
}

impl EthernetOptions {
    /// NDN's multicast address.
    pub const GROUP: [u8; 6] = [0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa];
}

/// How the program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttachMode {
    /// XDP in the driver: the fastest.
    Native,
    /// Generic XDP, for drivers without XDP.
    Generic,
    /// Traffic control at ingress: if XDP can't be attached, or another XDP program is.
    TrafficControl,
}

impl AttachMode {
    /// All modes, the fastest first.
    pub const ALL: [AttachMode; 3] =
        [AttachMode::Native, AttachMode::Generic, AttachMode::TrafficControl];

    /// Returns the name: `native`, `generic` or `tc`.
    pub const fn as_str(self) -> &'static str {
        match self {
            AttachMode::Native => "native",
            AttachMode::Generic => "generic",
            AttachMode::TrafficControl => "tc",
        }
    }
}

/// The addresses of a member, and the next hop to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberEntry {
    /// Its IPv4 address.
    pub address_v4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub address_v6: Option<Ipv6Addr>,
    /// Its own UDP port, different from the cluster's and other members'.
    pub port: u16,
    /// The next hop to it. `None` (not resolved yet): packets to it are dropped and counted as
    /// `no_hop`.
    pub hop: Option<Hop>,
    /// Its Ethernet address, if the cluster has Ethernet faces.
    pub mac: Option<[u8; 6]>,
}

/// The next hop to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the egress interface; for a VLAN interface, of the underlying one.
    pub interface_index: u32,
    /// The Ethernet address of that interface.
    pub own_mac: [u8; 6],
    /// The neighbour's Ethernet address.
    pub mac: [u8; 6],
    /// The VLAN tag of frames, 1 to 4094; `None`: untagged.
    pub vlan: Option<u16>,
    /// The MTU (length of an IP packet), bytes. Longer packets are dropped and counted as
    /// `too_long`.
    pub mtu_bytes: u32,
}

/// A VLAN interface of this machine, which the system's routes may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Index of the VLAN interface.
    pub interface_index: u32,
    /// Index of the underlying interface.
    pub underlying_index: u32,
    /// The VLAN id, 1 to 4094.
    pub vlan: u16,
}
