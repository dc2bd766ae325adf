//! Forwarding of publications in the kernel by their forwarding identifiers (LIPSIN).
//!
//! One program serves the interfaces of a node's domain. Invariant: a packet sees one set of links
//! as a whole, as a new set is written beside the one in use.

use crate::error::{Cause, KernelError};
use crate::object::verified;
use crate::xdp::{XdpMode, attach_to};
use aya::maps::{Array, DevMap, HashMap, MapError, PerCpuArray, XskMap};
use aya::programs::xdp::XdpLinkId;
use aya::programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use nw_wire::publication::Fid;
use std::os::fd::BorrowedFd;

static CODE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/lipsin.o"));
const PROGRAM: &str = "the program that forwards publications";
const EGRESS_PROGRAM: &str = "nw_lipsin_out";

/// Tables of link identifiers.
pub const LIPSIN_TABLES: usize = 9;
/// Links of a node at most, and interfaces.
pub const LIPSIN_LINKS_MAX: usize = 64;
/// Receive queues with AF_XDP sockets, at most.
const SOCKETS_MAX: usize = 4096;

/// Frames in one batch of a measurement: as many as drivers pass on at once.
const LIVE_BATCH: u32 = 64;
const LINK_WORDS: usize = 3;
const FID_WORDS: usize = 4;
const TABLE_WORDS: usize = FID_WORDS * (1 + LIPSIN_LINKS_MAX);
/// Words of `struct state` in `bpf/lipsin.bpf.c`.
const STATE_WORDS: usize = 2 + LINK_WORDS * LIPSIN_LINKS_MAX + TABLE_WORDS * LIPSIN_TABLES;
const OUTCOMES: [&str; 12] = [
    "forwarded",
    "multicast",
    "copies",
    "local",
    "local_and_links",
    "control",
    "no_link",
    "fill_limit",
    "hop_limit",
    "malformed",
    "unknown_sender",
    "stages",
];

/// An identifier that no forwarding identifier below the fill limit contains: of links and tables
/// without one.
pub const NO_LINK_ID: Fid = Fid::BROADCAST;

/// A link to a neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LipsinLink {
    /// Index of its interface; 0 if the service sends by it, as over UDP.
    pub interface: u32,
    /// Address of the interface.
    pub own: [u8; 6],
    /// Address of the neighbour.
    pub station: [u8; 6],
    /// Identifiers of the link in all tables; [`NO_LINK_ID`] for a link that only receives.
    pub outgoing: [Fid; LIPSIN_TABLES],
}

/// The links of a node, and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LipsinLinks {
    /// Identifiers of the node's internal link.
    pub internal: [Fid; LIPSIN_TABLES],
    /// Links to neighbours, at most [`LIPSIN_LINKS_MAX`]; more are left to the service.
    pub links: Vec<LipsinLink>,
    /// Most bits of a forwarding identifier.
    pub fill_bits_max: u32,
    /// Hop limit at which packets are not forwarded any more.
    pub last_hop: u32,
}

/// Frames by what became of them, since the program was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LipsinCounters([u64; OUTCOMES.len()]);

impl LipsinCounters {
    /// Returns the counters by name: `forwarded` by one link, `multicast` by several, in a number of
    /// `copies`; left to the service: `local`, `local_and_links`, `control`, `malformed`,
    /// `unknown_sender` and `stages`; dropped: `no_link`, `fill_limit` and `hop_limit`.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        OUTCOMES.into_iter().zip(self.0)
    }

    /// Returns a counter. 0 for a name that does not exist.
    pub fn of(&self, name: &str) -> u64 {
        self.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| count)
    }
}

/// An interface with the program.
#[derive(Debug)]
struct Attached {
    interface: u32,
    link: XdpLinkId,
}

/// The program, and the interfaces that it is attached to. Dropping this value detaches it.
///
/// Publications for the service, and all control messages to one station, go to the AF_XDP socket
/// of their queue if one was set, else to the system. Without links, all publications do.
#[derive(Debug)]
pub struct LipsinProgram {
    ebpf: Ebpf,
    /// Interface and queue of each AF_XDP socket, by number in the map of sockets.
    queues: Vec<Option<[u32; 2]>>,
    /// By number in the map of interfaces.
    attached: Vec<Option<Attached>>,
    /// Number of the state in use.
    current: u32,
}

impl LipsinProgram {
    /// Loads the program, without links: it leaves all frames to the system.
    ///
    /// # Errors
    /// [`Rights`](KernelError::Rights) and [`TooOld`](KernelError::TooOld) if the machine lacks
    /// something.
    pub fn load() -> Result<Self, KernelError> {
        let ebpf = EbpfLoader::new().btf(None).load(CODE).map_err(|e| {
            KernelError::of("the maps of the program that forwards publications", e)
        })?;
        let mut program =
            LipsinProgram { ebpf, queues: Vec::new(), attached: Vec::new(), current: 0 };
        for name in ["nw_lipsin", EGRESS_PROGRAM] {
            program
                .program(name)
                .and_then(|program| Ok(verified(|| program.load())?))
                .map_err(|e| KernelError::of(PROGRAM, e))?;
        }
        Ok(program)
    }

    /// Attaches the program to an interface, and returns the mode. Without a `wanted` mode: native,
    /// or generic if the driver has no XDP.
    ///
    /// # Errors
    /// Those of [`XdpProgram::attach`](crate::XdpProgram::attach).
    pub fn attach(
        &mut self,
        (interface, name): (u32, &str),
        wanted: Option<XdpMode>,
    ) -> Result<XdpMode, KernelError> {
        self.detach(interface)?;
        let free = self.attached.iter().position(Option::is_none);
        let number = free.unwrap_or(self.attached.len());
        if number >= LIPSIN_LINKS_MAX {
            return Err(KernelError::of(PROGRAM, "there are 64 interfaces already"));
        }
        let attached = self
            .program("nw_lipsin")
            .map_err(|e| KernelError::of(PROGRAM, e))
            .and_then(|program| attach_to(program, name, wanted));
        let (link, mode) = attached?;
        if number == self.attached.len() {
            self.attached.push(None);
        }
        self.attached[number] = Some(Attached { interface, link });
        self.enter_interface(number as u32, interface)
            .map_err(|e| KernelError::of("an interface of publications", e))?;
        Ok(mode)
    }

    /// Detaches the program from an interface, if it is attached.
    ///
    /// # Errors
    /// The system refuses.
    pub fn detach(&mut self, interface: u32) -> Result<(), KernelError> {
        let number = self.number_of(interface);
        let Some(attached) = number.and_then(|number| self.attached[number].take()) else {
            return Ok(());
        };
        // What is left in the map of interfaces has no link, so its copies are dropped.
        self.program("nw_lipsin")
            .and_then(|program| Ok(program.detach(attached.link)?))
            .map_err(|e| KernelError::of("detaching an XDP program from its interface", e))
    }

    fn number_of(&self, interface: u32) -> Option<usize> {
        let is_it = |attached: &Attached| attached.interface == interface;
        self.attached.iter().position(|attached| attached.as_ref().is_some_and(is_it))
    }

    fn enter_interface(&mut self, number: u32, interface: u32) -> Result<(), Cause> {
        let out: &Xdp =
            self.ebpf.program(EGRESS_PROGRAM).ok_or(ProgramError::NotLoaded)?.try_into()?;
        let out = out.fd()?.try_clone()?;
        let map = self.ebpf.map_mut("interfaces").ok_or(MapError::ElementNotFound)?;
        DevMap::try_from(map)?.set(number, interface, Some(&out), 0)?;
        Ok(())
    }

    /// Sets the AF_XDP socket for the service's frames of a queue of an interface, to its address
    /// `own`. The socket must be bound to that queue. A closed socket leaves the map by itself.
    ///
    /// # Errors
    /// [`TooMany`](KernelError::TooMany) above 4,096 sockets; [`Socket`](KernelError::Socket) if it
    /// is not an AF_XDP socket.
    pub fn set_socket(
        &mut self,
        (interface, queue): (u32, u32),
        own: [u8; 6],
        socket: BorrowedFd<'_>,
    ) -> Result<(), KernelError> {
        let key = [interface, queue];
        let known = self.queues.iter().position(|used| *used == Some(key));
        let slot = known.or_else(|| self.queues.iter().position(Option::is_none));
        let slot = slot.unwrap_or(self.queues.len());
        if slot >= SOCKETS_MAX {
            let (what, count) = ("AF_XDP sockets", slot + 1);
            return Err(KernelError::TooMany { what, count, max: SOCKETS_MAX });
        }
        self.write_socket(slot as u32, key, own, socket)
            .map_err(|e| KernelError::of_socket(queue, e))?;
        if slot == self.queues.len() {
            self.queues.push(None);
        }
        self.queues[slot] = Some(key);
        Ok(())
    }

    fn write_socket(
        &mut self,
        slot: u32,
        key: [u32; 2],
        own: [u8; 6],
        socket: BorrowedFd<'_>,
    ) -> Result<(), Cause> {
        let map = self.ebpf.map_mut("sockets").ok_or(MapError::ElementNotFound)?;
        XskMap::try_from(map)?.set(slot, socket, 0)?;
        let map = self.ebpf.map_mut("queues").ok_or(MapError::ElementNotFound)?;
        let value = [mac_word(own), u64::from(slot)];
        HashMap::<_, [u32; 2], [u64; 2]>::try_from(map)?.insert(key, value, 0)?;
        Ok(())
    }

    /// Removes the AF_XDP sockets of an interface: the service's frames go to the system.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn clear_sockets(&mut self, interface: u32) -> Result<(), KernelError> {
        let mut clear = || -> Result<(), Cause> {
            let map = self.ebpf.map_mut("queues").ok_or(MapError::ElementNotFound)?;
            let mut map: HashMap<_, [u32; 2], [u64; 2]> = map.try_into()?;
            for used in &mut self.queues {
                if let Some(key) = used.take_if(|key| key[0] == interface) {
                    map.remove(&key)?;
                }
            }
            Ok(())
        };
        clear().map_err(|e| KernelError::of("AF_XDP sockets of publications", e))
    }

    /// Sets the links. Those of interfaces without the program are left to the service.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_links(&mut self, links: &LipsinLinks) -> Result<(), KernelError> {
        let words = self.state_words(links);
        let next = self.current ^ 1;
        self.write_state(next, words).map_err(|e| KernelError::of("links of publications", e))?;
        self.current = next;
        Ok(())
    }

    fn write_state(&mut self, next: u32, words: [u64; STATE_WORDS]) -> Result<(), Cause> {
        let map = self.ebpf.map_mut("states").ok_or(MapError::ElementNotFound)?;
        Array::<_, [u64; STATE_WORDS]>::try_from(map)?.set(next, words, 0)?;
        let map = self.ebpf.map_mut("current").ok_or(MapError::ElementNotFound)?;
        Array::<_, u32>::try_from(map)?.set(0, next, 0)?;
        Ok(())
    }

    /// Returns `struct state` as words.
    fn state_words(&self, links: &LipsinLinks) -> [u64; STATE_WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let mut words = [0; STATE_WORDS];
        let used = &links.links[..links.links.len().min(LIPSIN_LINKS_MAX)];
        words[0] = pair(used.len() as u32, links.fill_bits_max);
        words[1] = pair(links.last_hop, 0);
        for (at, link) in used.iter().enumerate() {
            let number = self.number_of(link.interface);
            let interface = number.map_or(0, |_| link.interface);
            let start = 2 + LINK_WORDS * at;
            words[start] = mac_word(link.station);
            words[start + 1] = mac_word(link.own);
            words[start + 2] = pair(interface, number.unwrap_or(0) as u32);
        }
        for table in 0..LIPSIN_TABLES {
            let start = 2 + LINK_WORDS * LIPSIN_LINKS_MAX + TABLE_WORDS * table;
            words[start..start + FID_WORDS].copy_from_slice(&links.internal[table].words());
            for (at, link) in used.iter().enumerate() {
                let start = start + FID_WORDS * (1 + at);
                words[start..start + FID_WORDS].copy_from_slice(&link.outgoing[table].words());
            }
        }
        words
    }

    /// Returns the counters.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn counters(&self) -> Result<LipsinCounters, KernelError> {
        let read = || -> Result<LipsinCounters, Cause> {
            let map = self.ebpf.map("counters").ok_or(MapError::ElementNotFound)?;
            let map: PerCpuArray<_, [u64; OUTCOMES.len()]> = map.try_into()?;
            let mut sum = LipsinCounters::default();
            for counted in map.get(&0, 0)?.iter() {
                sum.0.iter_mut().zip(counted).for_each(|(sum, count)| *sum += count);
            }
            Ok(sum)
        };
        read().map_err(|e| KernelError::of("reading the counters of publications", e))
    }

    /// Passes a frame, as received from an interface, `repeat` times through the program and out of
    /// the interfaces: for measurements. The frame's bytes stay as the program left them.
    ///
    /// # Errors
    /// The kernel refuses: Linux 5.18 or newer is needed.
    pub fn run_live(
        &mut self,
        frame: &[u8],
        interface: u32,
        repeat: u32,
    ) -> Result<(), KernelError> {
        let context: Vec<u8> = [0, frame.len() as u32, 0, interface, 0, 0]
            .iter()
            .flat_map(|number: &u32| number.to_ne_bytes())
            .collect();
        let options = TestRunOptions {
            data_in: Some(frame),
            ctx_in: Some(&context),
            repeat,
            attrs: TestRunAttrs::new().xdp_live_frames(LIVE_BATCH),
            ..TestRunOptions::default()
        };
        self.program("nw_lipsin")
            .and_then(|program| Ok(program.test_run(options)?))
            .map(drop)
            .map_err(|e| KernelError::of("frames for a measurement", e))
    }

    /// Returns a program, for tests that run it on frames.
    #[doc(hidden)]
    pub fn program(&mut self, name: &str) -> Result<&mut Xdp, Cause> {
        Ok(self.ebpf.program_mut(name).ok_or(ProgramError::NotLoaded)?.try_into()?)
    }
}

/// Returns an Ethernet address as the program reads it.
fn mac_word(bytes: [u8; 6]) -> u64 {
    let mut word = [0; 8];
    word[..6].copy_from_slice(&bytes);
    u64::from_le_bytes(word)
}
