//! The interfaces that the balancer's program is attached to.

use super::maps::Maps;
use super::options::AttachMode;
use super::pins::Pins;
use crate::error::{Cause, KernelError, os_error};
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::tc::{SchedClassifierLink, TcAttachOptions};
use aya::programs::xdp::{XdpLink, XdpMode as Flags};
use aya::programs::{LinkOrder, TcAttachType};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

/// A released link may live on for a moment, in a process between fork and exec that has inherited
/// its descriptor. Attaching is retried at this interval.
const RELEASE_WAIT: Duration = Duration::from_millis(2);
const RELEASE_WAITS: u32 = 50;

/// The owner of a link: this value, or a pin in the bpf file system.
#[derive(Debug)]
enum LinkOwner {
    Process { _link: FdLink },
    Pinned(PinnedLink),
}

/// The links, by interface index.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: BTreeMap<u32, (AttachMode, LinkOwner)>,
}

impl Links {
    /// Adopts the pinned links if the maps are theirs: this program replaces the earlier one.
    pub fn adopt(&mut self, maps: &mut Maps, pins: &Pins) -> Result<(), KernelError> {
        if !pins.had_maps() {
            return Ok(());
        }
        for (index, mode) in pins.links()? {
            self.take_over(maps, pins, index, mode)?;
        }
        Ok(())
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, AttachMode)> + '_ {
        self.links.iter().map(|(index, (mode, _))| (*index, *mode))
    }

    pub fn attach(
        &mut self,
        maps: &mut Maps,
        pins: Option<&Pins>,
        interface: &str,
        wanted: Option<AttachMode>,
    ) -> Result<AttachMode, KernelError> {
        let index = index_of(interface)?;
        // A pinned link of a program with another layout was not adopted, but may still be there.
        if let Some(pins) = pins.filter(|_| !self.links.contains_key(&index)) {
            for (_, mode) in pins.links()?.into_iter().filter(|(pinned, _)| *pinned == index) {
                self.take_over(maps, pins, index, mode)?;
            }
        }
        let mut waits = 0;
        if let Some((mode, _)) = self.links.get(&index) {
            if wanted.is_none_or(|wanted| wanted == *mode) {
                return Ok(*mode);
            }
            self.release(index)?;
            waits = RELEASE_WAITS;
        }
        let modes = wanted.as_ref().map_or(&AttachMode::ALL[..], std::slice::from_ref);
        let mut last = None;
        for mode in modes {
            match attach_when_free(maps, index, *mode, waits) {
                Ok(link) => {
                    let owner = match pins {
                        Some(pins) => LinkOwner::Pinned(pin(link, pins, index, *mode)?),
                        None => LinkOwner::Process { _link: link },
                    };
                    self.links.insert(index, (*mode, owner));
                    return Ok(*mode);
                }
                Err(source) => last = Some(refusal(interface, *mode, source)),
            }
            // The next mode is tried only if the driver has no XDP: another program is never
            // bypassed.
            if !matches!(last, Some(KernelError::NoDriver { .. })) {
                break;
            }
        }
        Err(last.unwrap_or_else(|| KernelError::of("attaching the balancer", "no mode was tried")))
    }

    pub fn detach(&mut self, interface: &str) -> Result<(), KernelError> {
        self.release(index_of(interface)?)
    }

    pub fn clear(&mut self) -> Result<(), KernelError> {
        while let Some(index) = self.links.keys().next().copied() {
            self.release(index)?;
        }
        Ok(())
    }

    fn release(&mut self, index: u32) -> Result<(), KernelError> {
        match self.links.remove(&index) {
            // A link without a pin ends with its last descriptor.
            Some((_, LinkOwner::Pinned(link))) => match link.unpin() {
                Ok(link) => drop(link),
                Err(e) => {
                    return Err(KernelError::of("detaching the balancer from an interface", e));
                }
            },
            Some((_, LinkOwner::Process { .. })) | None => {}
        }
        Ok(())
    }

    /// Replaces the program of a pinned link by this one. Removes the pin if the interface is gone.
    fn take_over(
        &mut self,
        maps: &mut Maps,
        pins: &Pins,
        index: u32,
        mode: AttachMode,
    ) -> Result<(), KernelError> {
        let path = pins.link(index, mode);
        let replace = |maps: &mut Maps| -> Result<(), Cause> {
            let link: FdLink = PinnedLink::from_pin(&path)?.into();
            match mode {
                AttachMode::Native | AttachMode::Generic => {
                    let program = maps.xdp()?;
                    let id = program.attach_to_link(XdpLink::try_from(link)?)?;
                    drop(program.take_link(id)?);
                }
                AttachMode::TrafficControl => {
                    let program = maps.tc()?;
                    let id = program.attach_to_link(SchedClassifierLink::try_from(link)?)?;
                    drop(program.take_link(id)?);
                }
            }
            Ok(())
        };
        match replace(maps) {
            Ok(()) => {
                let link = PinnedLink::from_pin(&path)
                    .map_err(|e| KernelError::of("a pinned link of the balancer", e))?;
                self.links.insert(index, (mode, LinkOwner::Pinned(link)));
                Ok(())
            }
            Err(source) if os_error(&*source) == Some(Errno::NOLINK) => std::fs::remove_file(&path)
                .map_err(|e| KernelError::of("a pinned link of the balancer", e)),
            Err(source) => Err(KernelError::of("replacing the balancer's program", source)),
        }
    }
}

/// Attaches; if another program is attached, retries for some time, as it may be on its way out.
fn attach_when_free(
    maps: &mut Maps,
    index: u32,
    mode: AttachMode,
    waits: u32,
) -> Result<FdLink, Cause> {
    for _ in 0..waits {
        match attach(maps, index, mode) {
            Err(source) if is_taken(&source) => thread::sleep(RELEASE_WAIT),
            result => return result,
        }
    }
    attach(maps, index, mode)
}

/// Returns whether another program is attached already.
fn is_taken(source: &Cause) -> bool {
    matches!(os_error(&**source), Some(Errno::BUSY | Errno::EXIST))
}

/// Attaches, and returns the link, which the program no longer owns.
fn attach(maps: &mut Maps, index: u32, mode: AttachMode) -> Result<FdLink, Cause> {
    if mode == AttachMode::TrafficControl {
        let program = maps.tc()?;
        let name = name_of(index)?;
        let options = TcAttachOptions::TcxOrder(LinkOrder::default());
        let id = program.attach_with_options(&name, TcAttachType::Ingress, options)?;
        let link = program.take_link(id)?;
        return Ok(link.try_into()?);
    }
    let flags = if mode == AttachMode::Native { Flags::Driver } else { Flags::Skb };
    let program = maps.xdp()?;
    let id = program.attach_to_if_index(index, flags)?;
    let link = program.take_link(id)?;
    Ok(link.try_into()?)
}

fn pin(link: FdLink, pins: &Pins, index: u32, mode: AttachMode) -> Result<PinnedLink, KernelError> {
    link.pin(pins.link(index, mode))
        .map_err(|e| KernelError::of("pinning a link of the balancer", e))
}

fn refusal(interface: &str, mode: AttachMode, source: Cause) -> KernelError {
    let interface = interface.to_owned();
    match (os_error(&*source), mode) {
        (Some(Errno::PERM), _) => KernelError::Rights { source },
        (_, AttachMode::Native | AttachMode::Generic) if is_taken(&source) => {
            KernelError::Busy { interface, source }
        }
        (Some(Errno::NODEV), _) => KernelError::NoInterface(interface),
        (Some(Errno::INVAL), AttachMode::TrafficControl) => {
            KernelError::NoTrafficControl { source }
        }
        (_, AttachMode::TrafficControl) => {
            KernelError::of("attaching the balancer to traffic control", source)
        }
        // The driver has no XDP, or not with its current MTU and queues.
        _ => KernelError::NoDriver { interface, mode: mode.as_str(), source },
    }
}

/// Returns the index of an interface in this thread's network namespace.
fn index_of(interface: &str) -> Result<u32, KernelError> {
    let missing = || KernelError::NoInterface(interface.to_owned());
    if interface.is_empty() || interface.contains('\0') {
        return Err(missing());
    }
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)
        .map_err(|e| KernelError::of("a socket", std::io::Error::from(e)))?;
    rustix::net::netdevice::name_to_index(socket, interface).map_err(|_| missing())
}

fn name_of(index: u32) -> Result<String, Cause> {
    let socket =
        socket(AddressFamily::INET, SocketType::DGRAM, None).map_err(std::io::Error::from)?;
    Ok(rustix::net::netdevice::index_to_name(socket, index).map_err(std::io::Error::from)?)
}
