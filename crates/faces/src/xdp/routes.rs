//! The way to a UDP peer, as the kernel has it: by which interface, from which address, over which neighbour. ARP and neighbour discovery stay the
//! kernel's: what has no entry is sent by an ordinary socket, which makes the kernel ask; its answer is told here.
//!
//! An entry that the kernel has not heard confirmed for a while ("stale") is used on, but what is sent next goes by the socket once, which makes
//! the kernel ask the neighbour again: one that has got another card, or is gone, would not be noticed otherwise.

use crate::error::FaceError;
use crate::interfaces::netlink::{self, News, Route};
use crate::interfaces::{netlink_socket, receive};
use crate::mac::Mac;
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::net::netlink::SocketAddrNetlink;
use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// RTMGRP_NEIGH, RTMGRP_IPV4_ROUTE, RTMGRP_IPV4_RULE, RTMGRP_IPV6_ROUTE.
const GROUPS: u32 = 0x4 | 0x40 | 0x80 | 0x400;
const RECEIVE_LEN: usize = 64 << 10;
/// Calls before others get their turn.
const RECEIVES_PER_TURN: usize = 32;
/// Neighbours of peers that are remembered; beyond them peers are sent to by sockets.
const NEIGHBOURS_MAX: usize = 16_384;

/// A neighbour that may be: its place here, for as long as this lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour(u32);

#[derive(Debug, Default)]
struct Entry {
    mac: Option<Mac>,
    /// Counts changes of `mac`.
    version: u32,
    /// The kernel is to be made to ask.
    ask: bool,
}

/// Routes and neighbours of this machine.
#[derive(Debug)]
pub struct Routes {
    /// Readable when something has changed.
    pub socket: OwnedFd,
    /// For questions.
    questions: OwnedFd,
    entries: Vec<Entry>,
    places: HashMap<(u32, IpAddr), Neighbour>,
    /// Counts changes of routes.
    generation: u32,
    buffer: Vec<u8>,
}

impl Routes {
    /// Subscribes to changes.
    ///
    /// # Errors
    /// What the system says.
    pub fn watch() -> Result<Self, FaceError> {
        let make = || {
            Ok(Routes {
                socket: netlink_socket(GROUPS)?,
                questions: netlink_socket(0)?,
                entries: Vec::new(),
                places: HashMap::new(),
                generation: 0,
                buffer: vec![0; RECEIVE_LEN],
            })
        };
        make().map_err(FaceError::system("watch", "routes and neighbours"))
    }

    /// Changes whenever a route may be another one than before.
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// The way to an address, if it is one by a neighbour: the interface, the address to send from, the neighbour.
    pub fn way(&mut self, to: IpAddr, scope: u32) -> Option<(u32, IpAddr, Neighbour)> {
        let route = self.route(to, scope).ok()??;
        let place = self.place(route.interface, route.gateway.unwrap_or(to))?;
        Some((route.interface, route.source?, place))
    }

    /// A neighbour's address, and a number that is another one when that is; nothing when there is none, or the kernel is to be made to ask: then
    /// what is sent now goes by a socket.
    pub fn mac(&mut self, neighbour: Neighbour) -> Option<(Mac, u32)> {
        let entry = self.entries.get_mut(neighbour.0 as usize)?;
        if core::mem::take(&mut entry.ask) {
            return None;
        }
        Some((entry.mac?, entry.version))
    }

    /// Takes in what the kernel tells. What is left makes epoll say so again.
    ///
    /// # Errors
    /// When the kernel can't be asked any more.
    pub fn take_news(&mut self) -> Result<(), Errno> {
        for _ in 0..RECEIVES_PER_TURN {
            match receive(&self.socket, &mut self.buffer) {
                Ok(len) => self.take_in(len),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // More was told than there was room for.
                Err(Errno::NOBUFS) => {
                    self.generation = self.generation.wrapping_add(1);
                    self.entries.iter_mut().for_each(Entry::forget);
                    self.ask_for_neighbours()?;
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn take_in(&mut self, len: usize) {
        let buffer = core::mem::take(&mut self.buffer);
        netlink::news(&buffer[..len]).for_each(|news| self.apply(news));
        self.buffer = buffer;
    }

    fn apply(&mut self, news: News) {
        match news {
            // Those of others than peers don't matter here.
            News::Neighbour { interface, address, mac, stale } => {
                if let Some(place) = self.places.get(&(interface, address)) {
                    self.entries[place.0 as usize].become_of(mac, stale);
                }
            }
            News::Route(_) => self.generation = self.generation.wrapping_add(1),
            _ => {}
        }
    }

    fn place(&mut self, interface: u32, address: IpAddr) -> Option<Neighbour> {
        if let Some(place) = self.places.get(&(interface, address)) {
            return Some(*place);
        }
        if self.entries.len() >= NEIGHBOURS_MAX {
            return None;
        }
        let place = Neighbour(self.entries.len() as u32);
        self.entries.push(Entry::default());
        self.places.insert((interface, address), place);
        // What comes to be known later is told without being asked for.
        if self.ask(&netlink::neighbour_request(address, interface)).is_ok()
            && let Ok(len) = receive(&self.questions, &mut self.buffer)
        {
            self.take_in(len);
        }
        Some(place)
    }

    fn ask_for_neighbours(&mut self) -> Result<(), Errno> {
        self.ask(&netlink::request(netlink::RTM_GETNEIGH))?;
        loop {
            let len = match receive(&self.questions, &mut self.buffer) {
                Err(Errno::INTR) => continue,
                received => received?,
            };
            for news in netlink::news(&self.buffer[..len]).collect::<Vec<_>>() {
                match news {
                    News::Done => return Ok(()),
                    News::Refused(code) => return Err(Errno::from_raw_os_error(code)),
                    news => self.apply(news),
                }
            }
        }
    }

    fn route(&mut self, to: IpAddr, scope: u32) -> Result<Option<Route>, Errno> {
        self.ask(&netlink::route_request(to, scope))?;
        // The kernel answers while it is asked.
        let len = receive(&self.questions, &mut self.buffer)?;
        Ok(netlink::news(&self.buffer[..len]).find_map(|news| match news {
            News::Route(route) => route,
            _ => None,
        }))
    }

    fn ask(&mut self, question: &[u8]) -> Result<(), Errno> {
        // What an earlier question left behind would be taken for the answer.
        while receive(&self.questions, &mut self.buffer).is_ok() {}
        rustix::net::sendto(&self.questions, question, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        Ok(())
    }
}

impl Entry {
    fn become_of(&mut self, mac: Option<Mac>, stale: bool) {
        if self.mac != mac {
            self.mac = mac;
            self.version = self.version.wrapping_add(1);
        }
        self.ask = stale && mac.is_some();
    }

    fn forget(&mut self) {
        self.become_of(None, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_neighbours_on_the_way() {
        let mut routes = Routes::watch().unwrap();
        let way = routes.way("127.0.0.1".parse().unwrap(), 0);
        assert!(way.is_none(), "a way to this machine itself: {way:?}");
    }

    #[test]
    fn a_stale_neighbour_is_asked_once() {
        let mut routes = Routes::watch().unwrap();
        let address = "192.0.2.77".parse().unwrap();
        let place = routes.place(99, address).unwrap();
        assert_eq!(routes.mac(place), None, "nothing is known yet");
        let (one, other) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let tell = |routes: &mut Routes, mac, stale| {
            routes.apply(News::Neighbour { interface: 99, address, mac, stale });
        };
        tell(&mut routes, Some(one), false);
        let first = routes.mac(place).unwrap();
        assert_eq!(first.0, one);
        tell(&mut routes, Some(one), true);
        assert_eq!(routes.mac(place), None, "by the socket, once");
        assert_eq!(
            routes.mac(place),
            Some(first),
            "the same as before, until the kernel says something else"
        );
        tell(&mut routes, Some(other), false);
        let second = routes.mac(place).unwrap();
        assert!(second.0 == other && second.1 != first.1);
        tell(&mut routes, None, false);
        assert_eq!(routes.mac(place), None);
        let generation = routes.generation();
        routes.apply(News::Route(None));
        assert_ne!(routes.generation(), generation);
    }
}
