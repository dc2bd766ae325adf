//! AF_XDP sockets, one for each queue and shard, and the XDP program that chooses among them before
//! the system sees a frame.

use crate::counters::ShardCounters;
use crate::error::{Cause, KernelError, os_error};
use crate::object::{Config, Object, PORTS_MAX, address_key, verified};
use aya::maps::{HashMap, MapError, XskMap};
use aya::programs::xdp::{XdpLinkId, XdpMode as Flags};
use aya::programs::{ProgramError, Xdp};
use nw_name::HashKey;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

static CODE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/xdp.o"));
/// Capacity of the map of destinations.
const DESTINATIONS_MAX: usize = 256;
const PROGRAM: &str = "the program that steers frames";

/// How an XDP program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// Generic, for drivers without XDP: about 2.5 times slower.
    Generic,
}

impl XdpMode {
    /// Returns the name: `native` or `generic`.
    pub const fn as_str(self) -> &'static str {
        match self {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        }
    }
}

/// The frames that the program takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// UDP destination ports, at most 8. Other UDP is left to the system.
    pub ports: Vec<u16>,
    /// Takes frames of EtherType 0x8624 in this VLAN (0: untagged) too.
    pub ethernet: Option<u16>,
    /// The interface's own Ethernet address, and NDN's multicast address there. Left to the system
    /// are then:
    /// frames to other addresses, datagrams to addresses not in
    /// [`set_destinations`](XdpProgram::set_destinations), and other VLANs. `None`: takes all.
    pub only: Option<[[u8; 6]; 2]>,
}

impl Default for XdpOptions {
    /// Returns the options for NDN's UDP port and untagged NDN over Ethernet.
    fn default() -> Self {
        XdpOptions { ports: vec![6363], ethernet: Some(0), only: None }
    }
}

/// The XDP program that brings NDN frames of one interface to AF_XDP sockets. All else goes to the
/// system, and so do packets without a socket.
///
/// Without [`only`](XdpOptions::only) the destination is not checked: on an interface that carries
/// NDN of other machines, such as a bridge's, theirs would be taken too. Checksums are not checked.
/// Dropping this value detaches the program.
#[derive(Debug)]
pub struct XdpProgram {
    object: Object,
    queues: u32,
    link: Option<XdpLinkId>,
}

impl XdpProgram {
    /// Loads the program for an interface with `queues` receive queues, for `shards` shards (1 to
    /// 64). `key` is that of the router's tables.
    ///
    /// # Errors
    /// [`Rights`](KernelError::Rights) and [`TooOld`](KernelError::TooOld) if the machine lacks
    /// something;
    /// [`Shards`](KernelError::Shards), [`Slot`](KernelError::Slot) (queues outside 1 to 65,535)
    /// and
    /// [`Ports`](KernelError::Ports) for invalid arguments.
    pub fn load(
        key: &HashKey,
        queues: u32,
        shards: u8,
        options: &XdpOptions,
    ) -> Result<Self, KernelError> {
        if !(1..=65_535).contains(&queues) {
            return Err(KernelError::Slot { queue: 0, shard: 0, queues, shards });
        }
        let mut ports = [0; PORTS_MAX];
        ports
            .get_mut(..options.ports.len())
            .ok_or(KernelError::Ports(options.ports.len()))?
            .copy_from_slice(&options.ports);
        let config = Config { key, shards, ethernet: options.ethernet, ports, only: options.only };
        let object = Object::load(CODE, &config, queues * u32::from(shards))?;
        let mut program = XdpProgram { object, queues, link: None };
        program
            .program()
            .and_then(|program| Ok(verified(|| program.load())?))
            .map_err(|e| KernelError::of(PROGRAM, e))?;
        Ok(program)
    }

    /// Attaches to an interface, detaching from the earlier one, and returns the mode. Without a
    /// `wanted` mode: native, or generic if the driver has no XDP.
    ///
    /// # Errors
    /// [`NoInterface`](KernelError::NoInterface); [`Busy`](KernelError::Busy) if another program is
    /// attached;
    /// [`Rights`](KernelError::Rights); [`Refused`](KernelError::Refused) if the mode is
    /// impossible.
    pub fn attach(
        &mut self,
        interface: &str,
        wanted: Option<XdpMode>,
    ) -> Result<XdpMode, KernelError> {
        check_name(interface)?;
        self.detach()?;
        let attached = self
            .program()
            .map_err(|e| KernelError::of(PROGRAM, e))
            .and_then(|program| attach_to(program, interface, wanted));
        let (link, mode) = attached?;
        self.link = Some(link);
        Ok(mode)
    }

    /// Detaches the program from its interface, if it is attached.
    ///
    /// # Errors
    /// The system refuses.
    pub fn detach(&mut self) -> Result<(), KernelError> {
        let Some(link) = self.link.take() else { return Ok(()) };
        self.program()
            .and_then(|program| Ok(program.detach(link)?))
            .map_err(|e| KernelError::of("detaching an XDP program from its interface", e))
    }

    /// Sets the AF_XDP socket for a shard's frames of a queue. The socket must be bound to that
    /// queue. A closed socket leaves the map by itself.
    ///
    /// # Errors
    /// [`Slot`](KernelError::Slot) if there is no such queue or shard;
    /// [`Socket`](KernelError::Socket) if it is
    /// not an AF_XDP socket.
    pub fn set_socket(
        &mut self,
        queue: u32,
        shard: u8,
        socket: BorrowedFd<'_>,
    ) -> Result<(), KernelError> {
        let at = self.slot(queue, shard)?;
        self.sockets()
            .and_then(|mut sockets| Ok(sockets.set(at, socket, 0)?))
            .map_err(|e| KernelError::of_socket(u32::from(shard), e))
    }

    /// Removes the socket for a shard's frames of a queue: they go to the system.
    ///
    /// # Errors
    /// [`Slot`](KernelError::Slot) if there is no such queue or shard;
    /// [`Socket`](KernelError::Socket) if it had
    /// no socket.
    pub fn clear_socket(&mut self, queue: u32, shard: u8) -> Result<(), KernelError> {
        let at = self.slot(queue, shard)?;
        self.sockets()
            .and_then(|mut sockets| Ok(sockets.unset(at)?))
            .map_err(|e| KernelError::of_socket(u32::from(shard), e))
    }

    /// Sets the destination addresses of datagrams for this machine, including multicast groups, at
    /// most 256. Before the first call there are none. Used with [`XdpOptions::only`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_destinations(&mut self, addresses: &[IpAddr]) -> Result<(), KernelError> {
        let wanted: BTreeSet<[u64; 2]> =
            addresses.iter().take(DESTINATIONS_MAX).map(|a| address_key(*a)).collect();
        self.write_destinations(&wanted)
            .map_err(|e| KernelError::of("addresses of this machine", e))
    }

    fn write_destinations(&mut self, wanted: &BTreeSet<[u64; 2]>) -> Result<(), Cause> {
        let map = self.object.ebpf.map_mut("destinations").ok_or(MapError::ElementNotFound)?;
        let mut map: HashMap<_, [u64; 2], u32> = map.try_into()?;
        let known: Vec<_> = map.keys().collect::<Result<_, _>>()?;
        for address in known.iter().filter(|known| !wanted.contains(*known)) {
            map.remove(address)?;
        }
        for address in wanted {
            map.insert(address, 1, 0)?;
        }
        Ok(())
    }

    /// Returns the program's counters.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counters(&self) -> Result<ShardCounters, KernelError> {
        self.object.counters()
    }

    /// Returns the program, for tests that run it on frames.
    #[doc(hidden)]
    pub fn program(&mut self) -> Result<&mut Xdp, Cause> {
        Ok(self.object.ebpf.program_mut("nw_steer").ok_or(ProgramError::NotLoaded)?.try_into()?)
    }

    fn slot(&self, queue: u32, shard: u8) -> Result<u32, KernelError> {
        let (queues, shards) = (self.queues, self.object.shards);
        if queue >= queues || shard >= shards {
            return Err(KernelError::Slot { queue, shard, queues, shards });
        }
        Ok(queue * u32::from(shards) + u32::from(shard))
    }

    fn sockets(&mut self) -> Result<XskMap<&mut aya::maps::MapData>, Cause> {
        let map = self.object.ebpf.map_mut("sockets").ok_or(MapError::ElementNotFound)?;
        Ok(map.try_into()?)
    }
}

/// Checks that the text can be an interface's name.
fn check_name(interface: &str) -> Result<(), KernelError> {
    match interface.contains('\0') || interface.is_empty() {
        true => Err(KernelError::NoInterface(interface.to_owned())),
        false => Ok(()),
    }
}

/// Attaches a loaded program to an interface; see [`XdpProgram::attach`].
pub(crate) fn attach_to(
    program: &mut Xdp,
    interface: &str,
    wanted: Option<XdpMode>,
) -> Result<(XdpLinkId, XdpMode), KernelError> {
    check_name(interface)?;
    let modes = match &wanted {
        Some(mode) => std::slice::from_ref(mode),
        None => &[XdpMode::Native, XdpMode::Generic],
    };
    let mut last = Cause::from("no mode was tried");
    for mode in modes {
        let flags = if *mode == XdpMode::Native { Flags::Driver } else { Flags::Skb };
        let error = match program.attach(interface, flags) {
            Ok(link) => return Ok((link, *mode)),
            Err(ProgramError::UnknownInterface { name }) => {
                return Err(KernelError::NoInterface(name));
            }
            Err(error) => error,
        };
        let source = Cause::from(error);
        match os_error(&*source) {
            Some(Errno::BUSY | Errno::EXIST) => {
                return Err(KernelError::Busy { interface: interface.to_owned(), source });
            }
            Some(Errno::PERM) => return Err(KernelError::Rights { source }),
            // The driver has no XDP, or not with its current MTU and queues.
            _ => last = source,
        }
    }
    Err(KernelError::of("attaching an XDP program to the interface", last))
}
