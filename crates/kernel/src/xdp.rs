//! AF_XDP sockets, one for each queue and shard, and the program that chooses among them before the system sees a frame.

use crate::counters::ShardCounters;
use crate::error::{Cause, KernelError, os_error};
use crate::object::{Config, Object, PORTS_MAX, verified};
use aya::maps::{HashMap, MapError, XskMap};
use aya::programs::xdp::{XdpLinkId, XdpMode as Flags};
use aya::programs::{ProgramError, Xdp};
use nw_name::HashKey;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

static CODE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/xdp.o"));
/// As the map has room for.
const DESTINATIONS_MAX: usize = 256;
const PROGRAM: &str = "the program that steers frames";

/// How an XDP program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XdpMode {
    /// By the driver, before a frame becomes anything else.
    Native,
    /// By the system, for drivers that can't: about 2.5 times slower.
    Generic,
}

impl XdpMode {
    /// Its name: `native` or `generic`.
    pub const fn as_str(self) -> &'static str {
        match self {
            XdpMode::Native => "native",
            XdpMode::Generic => "generic",
        }
    }
}

/// Which frames are steered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// UDP destination ports, at most 8. Other UDP stays with the system.
    pub ports: Vec<u16>,
    /// Frames of EtherType 0x8624 too, in this VLAN; 0 is none.
    pub ethernet: Option<u16>,
    /// The interface's own Ethernet address, and that of NDN's group there: frames to others are left to the system, and so are datagrams to
    /// addresses that [`set_destinations`](XdpSteering::set_destinations) does not name, and those of other VLANs. `None` takes all.
    pub only: Option<[[u8; 6]; 2]>,
}

impl Default for XdpOptions {
    /// NDN's UDP port, and NDN over Ethernet.
    fn default() -> Self {
        XdpOptions { ports: vec![6363], ethernet: Some(0), only: None }
    }
}

/// Brings NDN frames of one interface to AF_XDP sockets. Everything else goes on to the system, and so does what has no socket.
///
/// Unless [`only`](XdpOptions::only) is said, a frame's destination is not looked at: on an interface that carries other machines' NDN, as a
/// bridge's, theirs would be taken too. Checksums are not looked at either. Dropping this value detaches the program.
#[derive(Debug)]
pub struct XdpSteering {
    object: Object,
    queues: u32,
    link: Option<XdpLinkId>,
}

impl XdpSteering {
    /// Loads the program for an interface of `queues` receive queues and for `shards` shards (1 to 64). Packets go by `key`.
    ///
    /// # Errors
    /// [`Rights`](KernelError::Rights) and [`TooOld`](KernelError::TooOld) say what the machine lacks; [`Shards`](KernelError::Shards),
    /// [`Slot`](KernelError::Slot) (no queue, or more than 65,535) and [`Ports`](KernelError::Ports) what the caller gave.
    pub fn load(key: &HashKey, queues: u32, shards: u8, options: &XdpOptions) -> Result<Self, KernelError> {
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
        let mut steering = XdpSteering { object, queues, link: None };
        steering
            .program()
            .and_then(|program| Ok(verified(|| program.load())?))
            .map_err(|e| KernelError::of(PROGRAM, e))?;
        Ok(steering)
    }

    /// Attaches to an interface, and takes the program off the one it was on. Without a `wanted` mode it is native, or generic where the
    /// driver can't. Returns the mode it is.
    ///
    /// # Errors
    /// [`NoInterface`](KernelError::NoInterface); [`Busy`](KernelError::Busy) when another program is there;
    /// [`Rights`](KernelError::Rights); [`Refused`](KernelError::Refused) when the wanted mode can't be.
    pub fn attach(&mut self, interface: &str, wanted: Option<XdpMode>) -> Result<XdpMode, KernelError> {
        if interface.contains('\0') || interface.is_empty() {
            return Err(KernelError::NoInterface(interface.to_owned()));
        }
        self.detach()?;
        let modes = match &wanted {
            Some(mode) => std::slice::from_ref(mode),
            None => &[XdpMode::Native, XdpMode::Generic],
        };
        let mut last = Cause::from("no mode was tried");
        for mode in modes {
            let flags = if *mode == XdpMode::Native { Flags::Driver } else { Flags::Skb };
            match self.program().and_then(|program| Ok(program.attach(interface, flags)?)) {
                Ok(link) => {
                    self.link = Some(link);
                    return Ok(*mode);
                }
                Err(source) => match (source.downcast_ref(), os_error(&*source)) {
                    (Some(ProgramError::UnknownInterface { name }), _) => {
                        return Err(KernelError::NoInterface(name.clone()));
                    }
                    (_, Some(Errno::BUSY | Errno::EXIST)) => {
                        return Err(KernelError::Busy { interface: interface.to_owned(), source });
                    }
                    (_, Some(Errno::PERM)) => return Err(KernelError::Rights { source }),
                    // A driver without XDP, or without it as things are: its MTU, its queues.
                    _ => last = source,
                },
            }
        }
        Err(KernelError::of("attaching an XDP program to the interface", last))
    }

    /// Takes the program off its interface; it is none when it is on none.
    ///
    /// # Errors
    /// When the system does not.
    pub fn detach(&mut self) -> Result<(), KernelError> {
        let Some(link) = self.link.take() else { return Ok(()) };
        self.program()
            .and_then(|program| Ok(program.detach(link)?))
            .map_err(|e| KernelError::of("taking an XDP program off its interface", e))
    }

    /// Gives a queue's frames for a shard to an AF_XDP socket, which must be bound to that queue. A closed socket has left by itself.
    ///
    /// # Errors
    /// [`Slot`](KernelError::Slot) when there is no such queue or shard; [`Socket`](KernelError::Socket) when it is no AF_XDP socket.
    pub fn set_socket(&mut self, queue: u32, shard: u8, socket: BorrowedFd<'_>) -> Result<(), KernelError> {
        let at = self.slot(queue, shard)?;
        self.sockets()
            .and_then(|mut sockets| Ok(sockets.set(at, socket, 0)?))
            .map_err(|e| KernelError::of_socket(u32::from(shard), e))
    }

    /// Takes a queue's socket for a shard away: those frames go to the system.
    ///
    /// # Errors
    /// [`Slot`](KernelError::Slot) when there is no such queue or shard; [`Socket`](KernelError::Socket) when it had none.
    pub fn clear_socket(&mut self, queue: u32, shard: u8) -> Result<(), KernelError> {
        let at = self.slot(queue, shard)?;
        self.sockets()
            .and_then(|mut sockets| Ok(sockets.unset(at)?))
            .map_err(|e| KernelError::of_socket(u32::from(shard), e))
    }

    /// Which datagrams are for this machine: to these addresses, groups among them, at most 256. Before the first call there are none.
    ///
    /// # Errors
    /// When the kernel does not take them.
    pub fn set_destinations(&mut self, addresses: &[IpAddr]) -> Result<(), KernelError> {
        let wanted: BTreeSet<[u64; 2]> =
            addresses.iter().take(DESTINATIONS_MAX).map(|a| key_of(*a)).collect();
        self.write_destinations(&wanted).map_err(|e| KernelError::of("addresses of this machine", e))
    }

    fn write_destinations(&mut self, wanted: &BTreeSet<[u64; 2]>) -> Result<(), Cause> {
        let map = self.object.ebpf.map_mut("destinations").ok_or(MapError::ElementNotFound)?;
        let mut map: HashMap<_, [u64; 2], u32> = map.try_into()?;
        let known: Vec<_> = map.keys().collect::<Result<_, _>>()?;
        for gone in known.iter().filter(|known| !wanted.contains(*known)) {
            map.remove(gone)?;
        }
        for new in wanted {
            map.insert(new, 1, 0)?;
        }
        Ok(())
    }

    /// What the program has counted.
    ///
    /// # Errors
    /// When the kernel does not give them out.
    pub fn counters(&self) -> Result<ShardCounters, KernelError> {
        self.object.counters()
    }

    /// The program itself, for tests that run it on frames of their own.
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

/// An address as the program's map has it: IPv4 ones mapped.
fn key_of(address: IpAddr) -> [u64; 2] {
    let octets = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| octets[at + i]));
    [word(0), word(8)]
}
