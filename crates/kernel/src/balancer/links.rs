//! Where the program is attached.

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

/// A program that is being started has all descriptors until it runs: a link that was let go of lives on in it for so long, step by step.
const LETTING_GO: Duration = Duration::from_millis(2);
const LETTING_GO_STEPS: u32 = 50;

/// What keeps the program at an interface: this value, or a pin.
#[derive(Debug)]
enum Held {
    Here { _link: FdLink },
    Pinned(PinnedLink),
}

/// By the interface's index.
#[derive(Debug, Default)]
pub(super) struct Links {
    held: BTreeMap<u32, (AttachMode, Held)>,
}

impl Links {
    /// Takes over what is pinned, when its maps are these: this program takes the place of the one before.
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
        self.held.iter().map(|(index, (mode, _))| (*index, *mode))
    }

    pub fn attach(
        &mut self,
        maps: &mut Maps,
        pins: Option<&Pins>,
        interface: &str,
        wanted: Option<AttachMode>,
    ) -> Result<AttachMode, KernelError> {
        let index = index_of(interface)?;
        // Of a program with another layout: still there, and not adopted.
        if let Some(pins) = pins.filter(|_| !self.held.contains_key(&index)) {
            for (_, mode) in pins.links()?.into_iter().filter(|(pinned, _)| *pinned == index) {
                self.take_over(maps, pins, index, mode)?;
            }
        }
        let mut patience = 0;
        if let Some((mode, _)) = self.held.get(&index) {
            if wanted.is_none_or(|wanted| wanted == *mode) {
                return Ok(*mode);
            }
            self.release(index)?;
            patience = LETTING_GO_STEPS;
        }
        let modes = wanted.as_ref().map_or(&AttachMode::ALL[..], std::slice::from_ref);
        let mut last = None;
        for mode in modes {
            match make_once_free(maps, index, *mode, patience) {
                Ok(link) => {
                    let held = match pins {
                        Some(pins) => Held::Pinned(pin(link, pins, index, *mode)?),
                        None => Held::Here { _link: link },
                    };
                    self.held.insert(index, (*mode, held));
                    return Ok(*mode);
                }
                Err(source) => last = Some(refusal(interface, *mode, source)),
            }
            // Only a driver that can't is reason to try the next: another program there is not to be passed over unasked.
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
        while let Some(index) = self.held.keys().next().copied() {
            self.release(index)?;
        }
        Ok(())
    }

    fn release(&mut self, index: u32) -> Result<(), KernelError> {
        match self.held.remove(&index) {
            // A link without a pin goes with its last descriptor.
            Some((_, Held::Pinned(link))) => match link.unpin() {
                Ok(link) => drop(link),
                Err(e) => return Err(KernelError::of("taking the balancer off an interface", e)),
            },
            Some((_, Held::Here { .. })) | None => {}
        }
        Ok(())
    }

    /// Puts this program into a pinned link. A link whose interface is gone goes.
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
                self.held.insert(index, (mode, Held::Pinned(link)));
                Ok(())
            }
            Err(source) if os_error(&*source) == Some(Errno::NOLINK) => {
                std::fs::remove_file(&path).map_err(|e| KernelError::of("a pinned link of the balancer", e))
            }
            Err(source) => Err(KernelError::of("replacing the balancer's program", source)),
        }
    }
}

/// As [`make`]; where there is another program, it may go yet.
fn make_once_free(maps: &mut Maps, index: u32, mode: AttachMode, steps: u32) -> Result<FdLink, Cause> {
    for _ in 0..steps {
        match make(maps, index, mode) {
            Err(source) if is_taken(&source) => thread::sleep(LETTING_GO),
            made => return made,
        }
    }
    make(maps, index, mode)
}

/// Whether there is another program already.
fn is_taken(source: &Cause) -> bool {
    matches!(os_error(&**source), Some(Errno::BUSY | Errno::EXIST))
}

/// Attaches, and makes the link this one's own.
fn make(maps: &mut Maps, index: u32, mode: AttachMode) -> Result<FdLink, Cause> {
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
    link.pin(pins.link(index, mode)).map_err(|e| KernelError::of("pinning a link of the balancer", e))
}

fn refusal(interface: &str, mode: AttachMode, source: Cause) -> KernelError {
    let interface = interface.to_owned();
    match (os_error(&*source), mode) {
        (Some(Errno::PERM), _) => KernelError::Rights { source },
        (_, AttachMode::Native | AttachMode::Generic) if is_taken(&source) => {
            KernelError::Busy { interface, source }
        }
        (Some(Errno::NODEV), _) => KernelError::NoInterface(interface),
        (Some(Errno::INVAL), AttachMode::TrafficControl) => KernelError::NoTrafficControl { source },
        (_, AttachMode::TrafficControl) => {
            KernelError::of("attaching the balancer to traffic control", source)
        }
        // A driver without XDP, or without it as things are: its MTU, its queues.
        _ => KernelError::NoDriver { interface, mode: mode.as_str(), source },
    }
}

/// The index of an interface in this thread's network namespace.
fn index_of(interface: &str) -> Result<u32, KernelError> {
    let none = || KernelError::NoInterface(interface.to_owned());
    if interface.is_empty() || interface.contains('\0') {
        return Err(none());
    }
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)
        .map_err(|e| KernelError::of("a socket", std::io::Error::from(e)))?;
    rustix::net::netdevice::name_to_index(any, interface).map_err(|_| none())
}

fn name_of(index: u32) -> Result<String, Cause> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None).map_err(std::io::Error::from)?;
    Ok(rustix::net::netdevice::index_to_name(any, index).map_err(std::io::Error::from)?)
}
