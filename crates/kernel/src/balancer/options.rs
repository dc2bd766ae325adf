//! What the balancer is told: plain values.

use crate::error::KernelError;
use nw_name::HashKey;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// What does not change while the program runs.
#[derive(Clone, Debug)]
pub struct BalancerOptions {
    /// Names are hashed by it; the same at all balancers of a cluster.
    pub key: HashKey,
    /// The cluster's address; this one, the other, or both.
    pub cluster_v4: Option<Ipv4Addr>,
    /// The cluster's address; this one, the other, or both.
    pub cluster_v6: Option<Ipv6Addr>,
    /// The cluster's UDP port, not 0; NDN's is 6363.
    pub port: u16,
    /// Ethernet faces, where the cluster has them.
    pub ethernet: Option<EthernetOptions>,
    /// A folder in a bpf file system, where maps and links outlive the process; it is made if there is none.
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
        let unspecified = self.cluster_v4.is_some_and(|v4| v4.is_unspecified() || v4.is_multicast())
            || self.cluster_v6.is_some_and(|v6| v6.is_unspecified() || v6.is_multicast());
        if unspecified {
            return Err(KernelError::Cluster("its address must be one that a packet can come from"));
        }
        Ok(())
    }
}

/// NDN over Ethernet (EtherType 0x8624): one interface to the outside, one to the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetOptions {
    /// Index of the interface where the cluster is one neighbour.
    pub outside_index: u32,
    /// The Ethernet address that the cluster has there.
    pub outside_mac: [u8; 6],
    /// Index of the interface where the members are.
    pub inside_index: u32,
    /// NDN's group on both; [`EthernetOptions::GROUP`] by default.
    pub group: [u8; 6],
}

impl EthernetOptions {
    /// NDN's multicast group.
    pub const GROUP: [u8; 6] = [0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa];
}

/// How the program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttachMode {
    /// XDP in the driver, before a frame becomes anything else: the fastest.
    Native,
    /// XDP by the system, for drivers that can't.
    Generic,
    /// Traffic control at ingress (clsact): where XDP can't be attached, or another XDP program is.
    TrafficControl,
}

impl AttachMode {
    /// Every mode, the fastest first.
    pub const ALL: [AttachMode; 3] = [AttachMode::Native, AttachMode::Generic, AttachMode::TrafficControl];

    /// Its name: `native`, `generic` or `tc`.
    pub const fn as_str(self) -> &'static str {
        match self {
            AttachMode::Native => "native",
            AttachMode::Generic => "generic",
            AttachMode::TrafficControl => "tc",
        }
    }
}

/// Where a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberEntry {
    /// Its address, where it is reached by IPv4.
    pub address_v4: Option<Ipv4Addr>,
    /// Its address, where it is reached by IPv6.
    pub address_v6: Option<Ipv6Addr>,
    /// Its own UDP port: neither the cluster's nor another member's.
    pub port: u16,
    /// The next hop on the way to it; without one (not known yet) packets to it are dropped and counted `no_hop`.
    pub hop: Option<Hop>,
    /// Its Ethernet address, where the cluster has Ethernet faces.
    pub mac: Option<[u8; 6]>,
}

/// The next hop on the way to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index of the interface that frames leave by: a real one; of a VLAN interface, the one below it.
    pub interface_index: u32,
    /// The Ethernet address of that interface.
    pub own_mac: [u8; 6],
    /// The neighbour's Ethernet address.
    pub mac: [u8; 6],
    /// The VLAN tag frames shall have, 1 to 4094; `None` for none.
    pub vlan: Option<u16>,
    /// The longest IP packet that the link takes, in octets; longer ones are dropped and counted `too_long`.
    pub mtu_octets: u32,
}

/// A VLAN interface of the balancer: what the system's routes lead to, and what that is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Index of the VLAN interface.
    pub interface_index: u32,
    /// Index of the interface below it.
    pub underlying_index: u32,
    /// Its tag, 1 to 4094.
    pub vlan: u16,
}
