//! The XDP program of the domain: keeps its links equal to those of the domain, if the kernel is to
//! forward, and brings frames for the service to AF_XDP sockets, if there are any.
//!
//! Invariant: without the program, or for an interface that can't have it, the service forwards,
//! and by packet sockets; nothing but speed is lost.

use crate::domain::{Domain, KernelLink, LinkAddress};
use nw_api::pubsub::status::KernelCounters;
use nw_faces::mac::Mac;
use nw_faces::xdp::{SteeredInterface, Steering, SteeringError, SteeringRequest};
use nw_kernel::{KernelError, LipsinCounters, LipsinLink, LipsinLinks, LipsinProgram, XdpMode};
use nw_pubsub::filter::FILL_BITS_MAX;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Milliseconds between two comparisons of the links.
const UPDATE_MS: u64 = 50;
/// Hop limit at which a packet ends: the domain delivers it at that node only.
const LAST_HOP: u32 = 1;

/// The program. One thread uses it: the lock is never waited for.
#[derive(Clone, Debug)]
struct SharedProgram(Arc<Mutex<LipsinProgram>>);

impl SharedProgram {
    fn lock(&self) -> MutexGuard<'_, LipsinProgram> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The program, and what it was told.
#[derive(Debug)]
pub struct KernelForwarding {
    program: SharedProgram,
    /// Whether it forwards; else it only brings frames to AF_XDP sockets.
    forwards: bool,
    /// Interfaces of the domain, with their addresses and how the program is attached. `None`: it
    /// was refused.
    interfaces: BTreeMap<u32, (Mac, Option<XdpMode>)>,
    links: Vec<KernelLink>,
    /// Version of the domain's record of this node's links when they were last compared.
    links_version: u64,
    /// Whether interfaces changed since the links were set.
    has_changed: bool,
    next_update_ms: u64,
}

/// Explains an error, and what helps.
fn describe(error: &KernelError) -> String {
    match error {
        KernelError::Rights { .. } => {
            "this process may not use kernel programs; allow it by `setcap \
             cap_bpf,cap_net_admin,cap_net_raw+ep` on its file, or `AmbientCapabilities=CAP_BPF \
             CAP_NET_ADMIN CAP_NET_RAW` in its systemd unit"
                .to_owned()
        }
        KernelError::TooOld { release, .. } => {
            format!("Linux {release} is too old for the kernel program; 5.18 or newer is needed")
        }
        KernelError::Refused { what, source } => format!("the kernel refused {what}: {source}"),
        error => error.to_string(),
    }
}

impl KernelForwarding {
    /// Loads the program, if it is to forward or to bring frames to AF_XDP sockets. `None` if the
    /// machine can't; the log says why.
    pub fn load(forwards: bool, uses_af_xdp: bool) -> Option<Self> {
        let missing = match (forwards, uses_af_xdp) {
            (false, false) => return None,
            (true, false) => "publications are not forwarded in the kernel",
            (false, true) => "publish/subscribe uses packet sockets instead of AF_XDP",
            (true, true) => "publications are not forwarded in the kernel, nor by AF_XDP sockets",
        };
        let loaded = LipsinProgram::load()
            .map_err(|error| tracing::warn!("{missing}: {}", describe(&error)));
        Some(KernelForwarding {
            program: SharedProgram(Arc::new(Mutex::new(loaded.ok()?))),
            forwards,
            interfaces: BTreeMap::new(),
            links: Vec::new(),
            links_version: 0,
            has_changed: true,
            next_update_ms: 0,
        })
    }

    /// Returns what brings frames of an interface to AF_XDP sockets. `None` if the program is not
    /// attached to it.
    pub fn steering(&self, interface: u32) -> Option<LinkSteering> {
        let (_, mode) = self.interfaces.get(&interface)?;
        Some(LinkSteering { program: self.program.clone(), interface, mode: (*mode)? })
    }

    /// Attaches the program to new interfaces, and detaches it from others: index, address, name.
    pub fn set_interfaces(&mut self, wanted: &[(u32, Mac, String)]) {
        let is_wanted = |index: &u32| wanted.iter().any(|(wanted, _, _)| wanted == index);
        let removed: Vec<u32> =
            self.interfaces.keys().filter(|index| !is_wanted(index)).copied().collect();
        for index in removed {
            self.interfaces.remove(&index);
            self.has_changed = true;
            if let Err(error) = self.program.lock().detach(index) {
                tracing::debug!("publish/subscribe: {error}");
            }
        }
        for (index, mac, name) in wanted {
            if self.interfaces.get(index).is_some_and(|(known, _)| known == mac) {
                continue;
            }
            self.has_changed = true;
            let mode = self.attach(*index, name);
            self.interfaces.insert(*index, (*mac, mode));
        }
    }

    fn attach(&self, index: u32, name: &str) -> Option<XdpMode> {
        let purpose = if self.forwards { "forwarded in the kernel" } else { "received by AF_XDP" };
        match self.program.lock().attach((index, name), None) {
            Ok(mode) => {
                if self.forwards {
                    let mode = mode.as_str();
                    tracing::info!(interface = %name, mode, "publications {purpose}");
                }
                Some(mode)
            }
            Err(error) => {
                let why = describe(&error);
                tracing::warn!(interface = %name, "publications not {purpose}: {why}");
                None
            }
        }
    }

    /// Sets the links if they have changed, and reads the counters, at an interval.
    pub fn update(&mut self, now_ms: u64, domain: &mut Domain) {
        if !self.forwards || now_ms < self.next_update_ms {
            return;
        }
        self.next_update_ms = now_ms + UPDATE_MS;
        self.set_links(domain);
        let counters = self.program.lock().counters();
        match counters {
            Ok(counters) => domain.set_kernel_counters(status(&counters)),
            Err(error) => tracing::debug!("publish/subscribe: {error}"),
        }
    }

    /// Sets the links if this node is about to tell others of a change: what they then send by a
    /// new link would be dropped until the next comparison.
    pub fn follow(&mut self, domain: &Domain) {
        if self.forwards && domain.links_version() != self.links_version {
            self.set_links(domain);
        }
    }

    fn set_links(&mut self, domain: &Domain) {
        self.links_version = domain.links_version();
        let links = domain.kernel_links();
        if links == self.links && !self.has_changed {
            return;
        }
        let all = LipsinLinks {
            internal: domain.internal_ids(),
            links: links.iter().map(|link| self.link(link)).collect(),
            fill_bits_max: FILL_BITS_MAX,
            last_hop: LAST_HOP,
        };
        let set = self.program.lock().set_links(&all);
        match set {
            Ok(()) => (self.links, self.has_changed) = (links, false),
            Err(error) => tracing::warn!("publish/subscribe: {}", describe(&error)),
        }
    }

    fn link(&self, link: &KernelLink) -> LipsinLink {
        let (interface, own, station) = match link.address {
            LinkAddress::Ethernet { interface, mac } => {
                let own = self.interfaces.get(&interface).map_or([0; 6], |(own, _)| own.0);
                (interface, own, mac.0)
            }
            LinkAddress::Udp(_) => (0, [0; 6], [0; 6]),
        };
        LipsinLink { interface, own, station, outgoing: link.outgoing }
    }
}

/// Brings frames of one interface to its AF_XDP sockets.
#[derive(Clone, Debug)]
pub struct LinkSteering {
    program: SharedProgram,
    interface: u32,
    mode: XdpMode,
}

/// An interface whose frames go to AF_XDP sockets, until this value is dropped.
#[derive(Debug)]
struct SteeredLink {
    steering: LinkSteering,
    own: Mac,
}

impl Steering for LinkSteering {
    fn attach(
        &mut self,
        wanted: &SteeringRequest<'_>,
    ) -> Result<Box<dyn SteeredInterface>, SteeringError> {
        // The program is attached already.
        Ok(Box::new(SteeredLink { steering: self.clone(), own: wanted.mac }))
    }
}

impl SteeredInterface for SteeredLink {
    fn is_native(&self) -> bool {
        self.steering.mode == XdpMode::Native
    }

    fn set_socket(
        &mut self,
        queue: u32,
        _shard: u8,
        socket: BorrowedFd<'_>,
    ) -> Result<(), SteeringError> {
        let mut program = self.steering.program.lock();
        let set = program.set_socket((self.steering.interface, queue), self.own.0, socket);
        set.map_err(|error| describe(&error).into())
    }

    fn set_destinations(&mut self, _addresses: &[IpAddr]) -> Result<(), SteeringError> {
        Ok(())
    }
}

impl Drop for SteeredLink {
    fn drop(&mut self) {
        if let Err(error) = self.steering.program.lock().clear_sockets(self.steering.interface) {
            tracing::debug!("publish/subscribe: {error}");
        }
    }
}

fn status(counters: &LipsinCounters) -> KernelCounters {
    KernelCounters {
        forwarded: counters.of("forwarded"),
        multicast: counters.of("multicast"),
        copies: counters.of("copies"),
        local: counters.of("local"),
        local_and_links: counters.of("local_and_links"),
        control: counters.of("control"),
        no_link: counters.of("no_link"),
        fill_limit: counters.of("fill_limit"),
        hop_limit: counters.of("hop_limit"),
        malformed: counters.of("malformed"),
        unknown_sender: counters.of("unknown_sender"),
        stages: counters.of("stages"),
    }
}
