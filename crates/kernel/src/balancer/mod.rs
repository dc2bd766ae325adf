//! The balancer of a cluster: loading and attaching its program, and telling it members, slots, rules, peers and links.
//!
//! The program is `bpf/balancer.bpf.c` (for XDP, and its twin for traffic control); what it does with each packet is told there and in
//! decision 0030. The name's part of its decisions is [`nw_slot_table`]'s, to the bit.

mod counters;
mod figures;
mod held;
mod links;
mod maps;
mod options;
mod pins;
mod statistics;

pub use counters::{BalancerCounters, Direction, MemberCounters, Verdict};
pub use figures::{Sink, Source, Swap};
pub use held::{HeldFragments, HeldReport};
pub use options::{AttachMode, BalancerOptions, EthernetOptions, Hop, Link, MemberEntry};
pub use statistics::{RunTime, Statistics};

use crate::error::KernelError;
use aya::EbpfLoader;
use aya::programs::{SchedClassifier, Xdp};
use links::Links;
use maps::Maps;
use nw_name::HashKey;
use nw_slot_table::{MEMBERS_MAX, Rules, SLOTS};
use pins::Pins;
use std::collections::BTreeMap;
use std::net::SocketAddr;

static CODE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/balancer.o"));
const PROGRAM_XDP: &str = "nw_slot_table";
const PROGRAM_TC: &str = "nw_balance_tc";

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
    maps: Maps,
    links: Links,
    pins: Option<Pins>,
    key: HashKey,
    port: u16,
    members: BTreeMap<u8, MemberEntry>,
    slots: Vec<u8>,
}

impl Balancer {
    /// Loads the program; with [`pin`](BalancerOptions::pin), adopts the maps and links that are pinned there when their layout is the one of
    /// this version: members, slots, rules, peers, links and counters stay, and at each interface this program takes the place of the one
    /// before, without a gap. Maps of another layout are left behind, and links of such a program are taken over by
    /// [`attach`](Self::attach), without a gap too. Mounts a bpf file system at `/sys/fs/bpf` where the folder shall be in it and there is none.
    ///
    /// # Errors
    /// [`Rights`](KernelError::Rights) and [`TooOld`](KernelError::TooOld) say what the machine lacks, [`Cluster`](KernelError::Cluster) what
    /// can't be, [`Pin`](KernelError::Pin) what is wrong with the folder.
    pub fn load(options: &BalancerOptions) -> Result<Balancer, KernelError> {
        options.check()?;
        let pins = options.pin.as_deref().map(Pins::open).transpose()?;
        let mut loader = EbpfLoader::new();
        // The running kernel's own types matter to none of the programs, and reading them takes a while.
        loader.btf(None);
        if let Some(pins) = &pins {
            for name in maps::KEPT {
                loader.map_pin_path(name, pins.map(name));
            }
        }
        let ebpf = loader.load(CODE).map_err(|e| KernelError::of("the balancer's maps", e))?;
        let mut maps = Maps::new(ebpf);
        maps.configure(options)?;
        maps.load_program()?;
        let (members, slots) = (maps.read_members()?, maps.read_slots()?);
        let mut links = Links::default();
        if let Some(pins) = &pins {
            links.adopt(&mut maps, pins)?;
        }
        Ok(Balancer { maps, links, pins, key: options.key, port: options.port, members, slots })
    }

    /// Whether what was pinned is in use: members, slots and rules are then what the process before said.
    pub fn adopted(&self) -> bool {
        self.pins.as_ref().is_some_and(Pins::had_maps)
    }

    /// Attaches to an interface. Without a `wanted` mode it is native, or generic where the driver can't, or traffic control. Where it is attached
    /// already that stays, and its mode is returned, unless another is wanted.
    ///
    /// # Errors
    /// [`NoInterface`](KernelError::NoInterface); [`Busy`](KernelError::Busy) when another XDP program is there (traffic control can be wanted
    /// then); [`Rights`](KernelError::Rights); [`NoDriver`](KernelError::NoDriver) when native is wanted and the driver can't;
    /// [`NoTrafficControl`](KernelError::NoTrafficControl) before Linux 6.6.
    pub fn attach(&mut self, interface: &str, wanted: Option<AttachMode>) -> Result<AttachMode, KernelError> {
        self.links.attach(&mut self.maps, self.pins.as_ref(), interface, wanted)
    }

    /// Takes the program off an interface; nothing happens where it is not.
    ///
    /// # Errors
    /// [`NoInterface`](KernelError::NoInterface), or when the system does not.
    pub fn detach(&mut self, interface: &str) -> Result<(), KernelError> {
        self.links.detach(interface)
    }

    /// Interfaces with the program, by index (those pinned by a process before among them), and how it is attached.
    pub fn attached(&self) -> Vec<(u32, AttachMode)> {
        self.links.iter().collect()
    }

    /// Takes the program off all interfaces and removes what is pinned.
    ///
    /// # Errors
    /// When the system does not.
    pub fn remove(mut self) -> Result<(), KernelError> {
        self.links.clear()?;
        self.pins.take().map_or(Ok(()), Pins::remove)
    }

    /// Tells where a member is, from the next packet on; also of one that is known. It gets names only by [`set_slots`](Self::set_slots).
    ///
    /// # Errors
    /// [`Member`](KernelError::Member) says what can't be: a number that is not 1 to 63, a port that is 0, the cluster's, or another member's.
    pub fn set_member(&mut self, number: u8, entry: &MemberEntry) -> Result<(), KernelError> {
        let refuse = |why: String| Err(KernelError::Member { number, why });
        if !(1..=MEMBERS_MAX).contains(&number) {
            return refuse(format!("members have numbers from 1 to {MEMBERS_MAX}"));
        }
        if entry.port == 0 || entry.port == self.port {
            return refuse(format!("{} can't be its UDP port; each member needs one of its own", entry.port));
        }
        if let Some((other, _)) = self.members.iter().find(|(n, m)| **n != number && m.port == entry.port) {
            return refuse(format!(
                "UDP port {} is member {other}'s; each member needs one of its own",
                entry.port
            ));
        }
        if entry.address_v4.is_none() && entry.address_v6.is_none() && entry.mac.is_none() {
            return refuse("it has no address: give one of IPv4, of IPv6, or of Ethernet".to_owned());
        }
        if let Some(vlan) = entry.hop.and_then(|hop| hop.vlan).filter(|vlan| !(1..=4094).contains(vlan)) {
            return refuse(format!("{vlan} is no VLAN; they are 1 to 4094"));
        }
        self.maps.write_member(number, self.members.get(&number), Some(entry))?;
        self.members.insert(number, *entry);
        Ok(())
    }

    /// Forgets a member: packets to its port are no member's any more, those of its slots are dropped (`no_member`). Nothing happens when
    /// there is none.
    ///
    /// # Errors
    /// When the kernel does not.
    pub fn clear_member(&mut self, number: u8) -> Result<(), KernelError> {
        let Some(known) = self.members.get(&number) else { return Ok(()) };
        self.maps.write_member(number, Some(known), None)?;
        self.members.remove(&number);
        Ok(())
    }

    /// The members as they are set, by number.
    pub fn members(&self) -> &BTreeMap<u8, MemberEntry> {
        &self.members
    }

    /// Sets the member of each slot ([`nw_slot_table::Table::slots`]); writes only what differs. How many slots changed is returned.
    ///
    /// # Errors
    /// [`Slots`](KernelError::Slots) when they are not [`nw_slot_table::SLOTS`], or one holds no number of a member.
    pub fn set_slots(&mut self, slots: &[u8]) -> Result<usize, KernelError> {
        if slots.len() != SLOTS {
            return Err(KernelError::Slots(format!("{} were given, and there are {SLOTS}", slots.len())));
        }
        if let Some(number) = slots.iter().find(|number| **number > MEMBERS_MAX) {
            return Err(KernelError::Slots(format!(
                "{number} is no member's number; they are 1 to {MEMBERS_MAX}"
            )));
        }
        self.maps.write_slots(&self.slots, slots)?;
        let changed = self.slots.iter().zip(slots).filter(|(old, new)| old != new).count();
        self.slots.copy_from_slice(slots);
        Ok(changed)
    }

    /// The slots as they are set.
    pub fn slots(&self) -> &[u8] {
        &self.slots
    }

    /// The member that serves the rules' control names; 0 for none.
    ///
    /// # Errors
    /// [`Member`](KernelError::Member) when the number is above 63.
    pub fn set_control(&mut self, number: u8) -> Result<(), KernelError> {
        if number > MEMBERS_MAX {
            let why = format!("members have numbers from 1 to {MEMBERS_MAX}");
            return Err(KernelError::Member { number, why });
        }
        self.maps.write_control(number)
    }

    /// Sets the rules.
    ///
    /// # Errors
    /// When the kernel does not take them.
    pub fn set_rules(&mut self, rules: &Rules) -> Result<(), KernelError> {
        self.maps.write_rules(rules, &self.key)
    }

    /// Sets the peers whose Interests leave from the cluster's port, at most [`ONE_PORT_PEERS_MAX`]; writes only what differs.
    ///
    /// # Errors
    /// [`TooMany`](KernelError::TooMany), or when the kernel does not take them.
    pub fn set_one_port_peers(&mut self, peers: &[SocketAddr]) -> Result<(), KernelError> {
        bounded("one-port peers", peers.len(), ONE_PORT_PEERS_MAX)?;
        self.maps.write_one_port(peers)
    }

    /// Sets the VLAN interfaces that routes may lead to, at most [`LINKS_MAX`].
    ///
    /// # Errors
    /// [`TooMany`](KernelError::TooMany), or when the kernel does not take them.
    pub fn set_links(&mut self, links: &[Link]) -> Result<(), KernelError> {
        bounded("VLAN interfaces", links.len(), LINKS_MAX)?;
        self.maps.write_links(links)
    }

    /// What the program has counted since the maps were made; adopting goes on counting.
    ///
    /// # Errors
    /// When the kernel does not give them out.
    pub fn counters(&self) -> Result<BalancerCounters, KernelError> {
        self.maps.counters()
    }

    /// Takes up the IPv4 fragments that the program could not send on, as they came before the first one of their packet. To be had after
    /// [`attach`](Self::attach), and once: two would each get a part. Without it, or when its process is gone, such fragments are dropped.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn held_fragments(&mut self) -> Result<HeldFragments, KernelError> {
        let native = self.attached().into_iter().filter(|(_, mode)| *mode == AttachMode::Native);
        let native = native.map(|(index, _)| index).collect();
        HeldFragments::new(&mut self.maps, native)
            .map_err(|e| KernelError::of("holding fragments for the balancer", e))
    }

    /// How often the program for XDP ran, and how long, while [`Statistics`] were kept.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn run_time(&mut self) -> Result<RunTime, KernelError> {
        self.maps
            .xdp()
            .and_then(|program| RunTime::of(program))
            .map_err(|e| KernelError::of("reading a program's statistics", e))
    }

    /// The program itself, for tests that run it on frames of their own.
    #[doc(hidden)]
    pub fn program(&mut self) -> Result<&mut Xdp, KernelError> {
        self.maps.xdp().map_err(|e| KernelError::of("the balancer's program", e))
    }

    /// Its twin for traffic control.
    #[doc(hidden)]
    pub fn program_tc(&mut self) -> Result<&mut SchedClassifier, KernelError> {
        self.maps.tc().map_err(|e| KernelError::of("the balancer's program", e))
    }
}

fn bounded(what: &'static str, count: usize, max: usize) -> Result<(), KernelError> {
    if count > max { Err(KernelError::TooMany { what, count, max }) } else { Ok(()) }
}
