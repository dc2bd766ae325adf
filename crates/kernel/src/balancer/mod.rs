//! The balancer of a cluster: loads and attaches its program, and writes its maps (members, slots,
//! rules, peers, links).
//!
//! The program is `bpf/balancer.bpf.c`, in one version for XDP and one for traffic control.
//! Decision 0030 describes what it does with each packet. It chooses members exactly as
//! [`nw_slot_table`] does.

mod benchmark;
mod counters;
mod held;
mod links;
mod maps;
mod options;
mod pins;
mod statistics;

pub use benchmark::{Sink, Source, Swap};
pub use counters::{BalancerCounters, Direction, MemberCounters, Verdict};
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
const PROGRAM_XDP: &str = "nw_balance";
const PROGRAM_TC: &str = "nw_balance_tc";

/// Maximum number of one-port peers.
pub const ONE_PORT_PEERS_MAX: usize = 4096;
/// Maximum number of VLAN interfaces.
pub const LINKS_MAX: usize = 256;

/// A loaded balancer program.
///
/// Without [`pin`](BalancerOptions::pin) the program ends with this value. With it, maps and links
/// outlive the process: after this value is dropped the program works on with its last settings,
/// until [`remove`](Self::remove).
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
    /// Loads the program.
    ///
    /// With [`pin`](BalancerOptions::pin), adopts pinned maps and links if their layout is this
    /// version's: members, slots, rules, peers, links and counters stay, and this program replaces
    /// the earlier one at each interface without a gap. Maps of another layout are removed, and
    /// [`attach`](Self::attach) takes over the links of such a program. Mounts a bpf file system at
    /// `/sys/fs/bpf` if the directory is below it and none is mounted.
    ///
    /// # Errors
    /// [`Rights`](KernelError::Rights) and [`TooOld`](KernelError::TooOld) if the machine lacks
    /// something,
    /// [`Cluster`](KernelError::Cluster) for invalid options, [`Pin`](KernelError::Pin) for an
    /// unusable
    /// directory.
    pub fn load(options: &BalancerOptions) -> Result<Balancer, KernelError> {
        options.check()?;
        let pins = options.pin.as_deref().map(Pins::open).transpose()?;
        let mut loader = EbpfLoader::new();
        // None of the programs needs the running kernel's types, and reading them takes a while.
        loader.btf(None);
        if let Some(pins) = &pins {
            for name in maps::PINNED {
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

    /// Returns whether pinned maps were adopted: members, slots and rules are those of the earlier
    /// process.
    pub fn adopted(&self) -> bool {
        self.pins.as_ref().is_some_and(Pins::had_maps)
    }

    /// Attaches to an interface, and returns the mode. Without a `wanted` mode: native, else
    /// generic, else traffic control. If the program is attached already and no other mode is
    /// wanted, nothing changes.
    ///
    /// # Errors
    /// [`NoInterface`](KernelError::NoInterface); [`Busy`](KernelError::Busy) if another XDP
    /// program is
    /// attached (traffic control is possible then); [`Rights`](KernelError::Rights);
    /// [`NoDriver`](KernelError::NoDriver) if the driver can't run the wanted mode;
    /// [`NoTrafficControl`](KernelError::NoTrafficControl) before Linux 6.6.
    pub fn attach(
        &mut self,
        interface: &str,
        wanted: Option<AttachMode>,
    ) -> Result<AttachMode, KernelError> {
        self.links.attach(&mut self.maps, self.pins.as_ref(), interface, wanted)
    }

    /// Detaches the program from an interface. Does nothing if it is not attached.
    ///
    /// # Errors
    /// [`NoInterface`](KernelError::NoInterface), or the system refuses.
    pub fn detach(&mut self, interface: &str) -> Result<(), KernelError> {
        self.links.detach(interface)
    }

    /// Returns the interfaces (by index) that the program is attached to, including those pinned by
    /// an earlier process, with their modes.
    pub fn attached(&self) -> Vec<(u32, AttachMode)> {
        self.links.iter().collect()
    }

    /// Detaches the program from all interfaces, and removes all pins.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove(mut self) -> Result<(), KernelError> {
        self.links.clear()?;
        self.pins.take().map_or(Ok(()), Pins::remove)
    }

    /// Adds or changes a member, from the next packet on. It takes names only after
    /// [`set_slots`](Self::set_slots).
    ///
    /// # Errors
    /// [`Member`](KernelError::Member) for a number outside 1 to 63, for port 0, the cluster's port
    /// or another
    /// member's port, for a missing address or an invalid VLAN.
    pub fn set_member(&mut self, number: u8, entry: &MemberEntry) -> Result<(), KernelError> {
        let refuse = |why: String| Err(KernelError::Member { number, why });
        if !(1..=MEMBERS_MAX).contains(&number) {
            return refuse(format!("members have numbers from 1 to {MEMBERS_MAX}"));
        }
        if entry.port == 0 || entry.port == self.port {
            return refuse(format!(
                "{} can't be its UDP port; each member needs one of its own",
                entry.port
            ));
        }
        if let Some((other, _)) =
            self.members.iter().find(|(n, m)| **n != number && m.port == entry.port)
        {
            return refuse(format!(
                "UDP port {} is member {other}'s; each member needs one of its own",
                entry.port
            ));
        }
        if entry.address_v4.is_none() && entry.address_v6.is_none() && entry.mac.is_none() {
            return refuse(
                "it has no address: give an IPv4, an IPv6 or an Ethernet address".to_owned(),
            );
        }
        if let Some(vlan) =
            entry.hop.and_then(|hop| hop.vlan).filter(|vlan| !(1..=4094).contains(vlan))
        {
            return refuse(format!("{vlan} is not a VLAN id (1 to 4094)"));
        }
        self.maps.write_member(number, self.members.get(&number), Some(entry))?;
        self.members.insert(number, *entry);
        Ok(())
    }

    /// Removes a member, if it exists. Packets to its port are passed to the system; packets of its
    /// slots are dropped (`no_member`).
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn clear_member(&mut self, number: u8) -> Result<(), KernelError> {
        let Some(known) = self.members.get(&number) else { return Ok(()) };
        self.maps.write_member(number, Some(known), None)?;
        self.members.remove(&number);
        Ok(())
    }

    /// Returns the members, by number.
    pub fn members(&self) -> &BTreeMap<u8, MemberEntry> {
        &self.members
    }

    /// Sets the member of each slot ([`nw_slot_table::Table::slots`]), writing only differences.
    /// Returns the number of changed slots.
    ///
    /// # Errors
    /// [`Slots`](KernelError::Slots) if there are not [`nw_slot_table::SLOTS`], or one is not a
    /// member's
    /// number.
    pub fn set_slots(&mut self, slots: &[u8]) -> Result<usize, KernelError> {
        if slots.len() != SLOTS {
            return Err(KernelError::Slots(format!(
                "{} were given, and there are {SLOTS}",
                slots.len()
            )));
        }
        if let Some(number) = slots.iter().find(|number| **number > MEMBERS_MAX) {
            return Err(KernelError::Slots(format!(
                "{number} is not a member's number (1 to {MEMBERS_MAX})"
            )));
        }
        self.maps.write_slots(&self.slots, slots)?;
        let changed = self.slots.iter().zip(slots).filter(|(old, new)| old != new).count();
        self.slots.copy_from_slice(slots);
        Ok(changed)
    }

    /// Returns the slots.
    pub fn slots(&self) -> &[u8] {
        &self.slots
    }

    /// Sets the member that serves control names; 0: none.
    ///
    /// # Errors
    /// [`Member`](KernelError::Member) if the number is above 63.
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
    /// The kernel refuses.
    pub fn set_rules(&mut self, rules: &Rules) -> Result<(), KernelError> {
        self.maps.write_rules(rules, &self.key)
    }

    /// Sets the peers that get Interests from the cluster's port, at most [`ONE_PORT_PEERS_MAX`],
    /// writing only differences.
    ///
    /// # Errors
    /// [`TooMany`](KernelError::TooMany), or the kernel refuses.
    pub fn set_one_port_peers(&mut self, peers: &[SocketAddr]) -> Result<(), KernelError> {
        bounded("one-port peers", peers.len(), ONE_PORT_PEERS_MAX)?;
        self.maps.write_one_port(peers)
    }

    /// Sets the VLAN interfaces that routes may use, at most [`LINKS_MAX`].
    ///
    /// # Errors
    /// [`TooMany`](KernelError::TooMany), or the kernel refuses.
    pub fn set_links(&mut self, links: &[Link]) -> Result<(), KernelError> {
        bounded("VLAN interfaces", links.len(), LINKS_MAX)?;
        self.maps.write_links(links)
    }

    /// Returns the counters since the maps were created; adopted maps continue to count.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counters(&self) -> Result<BalancerCounters, KernelError> {
        self.maps.counters()
    }

    /// Creates the buffer for IPv4 fragments that arrive before the first one of their packet. Call
    /// it after [`attach`](Self::attach) and only once, as two buffers would each get a part of the
    /// fragments. Without it such fragments are dropped.
    ///
    /// # Errors
    /// The errors of [`load`](Self::load).
    pub fn held_fragments(&mut self) -> Result<HeldFragments, KernelError> {
        let native = self.attached().into_iter().filter(|(_, mode)| *mode == AttachMode::Native);
        let native = native.map(|(index, _)| index).collect();
        HeldFragments::new(&mut self.maps, native)
            .map_err(|e| KernelError::of("holding fragments for the balancer", e))
    }

    /// Returns the runs of the XDP program while [`Statistics`] were enabled.
    ///
    /// # Errors
    /// The statistics can't be read.
    pub fn run_time(&mut self) -> Result<RunTime, KernelError> {
        self.maps
            .xdp()
            .and_then(|program| RunTime::of(program))
            .map_err(|e| KernelError::of("reading a program's statistics", e))
    }

    /// Returns the XDP program, for tests that run it on frames.
    #[doc(hidden)]
    pub fn program(&mut self) -> Result<&mut Xdp, KernelError> {
        self.maps.xdp().map_err(|e| KernelError::of("the balancer's program", e))
    }

    /// Returns the traffic-control program.
    #[doc(hidden)]
    pub fn program_tc(&mut self) -> Result<&mut SchedClassifier, KernelError> {
        self.maps.tc().map_err(|e| KernelError::of("the balancer's program", e))
    }
}

fn bounded(what: &'static str, count: usize, max: usize) -> Result<(), KernelError> {
    if count > max { Err(KernelError::TooMany { what, count, max }) } else { Ok(()) }
}
