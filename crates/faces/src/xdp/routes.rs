//! Routes to UDP peers, read from the kernel: interface, source address and neighbour. ARP and
//! neighbour discovery stay in the kernel: a datagram to an unknown neighbour is sent by an
//! ordinary socket, which makes the kernel resolve it and report the result here.
//!
//! A neighbour that was not confirmed recently ("stale") is still used, but the next datagram goes
//! by the socket once, which makes the kernel probe it again: otherwise a new card or a vanished
//! neighbour would not be noticed.

use crate::error::FaceError;
use crate::interfaces::netlink::{self, Event, Route};
use crate::interfaces::{netlink_socket, receive};
use nw_link::Mac;
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::net::netlink::SocketAddrNetlink;
use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// RTMGRP_NEIGH, RTMGRP_IPV4_ROUTE, RTMGRP_IPV4_RULE, RTMGRP_IPV6_ROUTE.
const GROUPS: u32 = 0x4 | 0x40 | 0x80 | 0x400;
const RECEIVE_LEN: usize = 64 << 10;
/// Reads per loop iteration.
const RECEIVES_PER_TURN: usize = 32;
/// Neighbours remembered at most; peers beyond them are served by sockets.
const NEIGHBOURS_MAX: usize = 16_384;

/// Index of a neighbour, resolved or not, valid as long as its [`Routes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour(u32);

#[derive(Debug, Default)]
struct Entry {
    mac: Option<Mac>,
    /// Version of `mac`.
    version: u32,
    /// The kernel must be made to probe it.
    probe: bool,
}

/// Routes and neighbours of this machine.
#[derive(Debug)]
pub struct Routes {
    /// Readable after changes.
    pub socket: OwnedFd,
    /// Socket for requests.
    requests: OwnedFd,
    entries: Vec<Entry>,
    neighbours: HashMap<(u32, IpAddr), Neighbour>,
    /// Version of all routes.
    generation: u32,
    buffer: Vec<u8>,
}

impl Routes {
    /// Subscribes to changes.
    ///
    /// # Errors
    /// The error of the netlink socket.
    pub fn watch() -> Result<Self, FaceError> {
        let make = || {
            Ok(Routes {
                socket: netlink_socket(GROUPS)?,
                requests: netlink_socket(0)?,
                entries: Vec::new(),
                neighbours: HashMap::new(),
                generation: 0,
                buffer: vec![0; RECEIVE_LEN],
            })
        };
        make().map_err(FaceError::system("watch", "routes and neighbours"))
    }

    /// Returns the version of all routes; it changes whenever a route may have changed.
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// Returns interface index, source address and neighbour of the route to an address. `None` if
    /// it is not reached by a neighbour.
    pub fn next_hop(&mut self, to: IpAddr, scope: u32) -> Option<(u32, IpAddr, Neighbour)> {
        let route = self.route(to, scope).ok()??;
        let neighbour = self.neighbour(route.interface, route.gateway.unwrap_or(to))?;
        Some((route.interface, route.source?, neighbour))
    }

    /// Returns a neighbour's Ethernet address and its version. `None` if it is unknown, or once if
    /// the kernel must be made to probe it: then the datagram goes by a socket.
    pub fn mac(&mut self, neighbour: Neighbour) -> Option<(Mac, u32)> {
        let entry = self.entries.get_mut(neighbour.0 as usize)?;
        if core::mem::take(&mut entry.probe) {
            return None;
        }
        Some((entry.mac?, entry.version))
    }

    /// Processes the kernel's events. Epoll reports the socket again if some are left.
    ///
    /// # Errors
    /// If the kernel can't be read any more.
    pub fn process_events(&mut self) -> Result<(), Errno> {
        for _ in 0..RECEIVES_PER_TURN {
            match receive(&self.socket, &mut self.buffer) {
                Ok(len) => self.apply_events(len),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                // Events were lost: read all neighbours again.
                Err(Errno::NOBUFS) => {
                    self.generation = self.generation.wrapping_add(1);
                    self.entries.iter_mut().for_each(Entry::clear);
                    self.read_neighbours()?;
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn apply_events(&mut self, len: usize) {
        let buffer = core::mem::take(&mut self.buffer);
        netlink::events(&buffer[..len]).for_each(|event| self.apply(event));
        self.buffer = buffer;
    }

    fn apply(&mut self, event: Event) {
        match event {
            // Neighbours that are not peers don't matter here.
            Event::Neighbour { interface, address, mac, stale } => {
                if let Some(neighbour) = self.neighbours.get(&(interface, address)) {
                    self.entries[neighbour.0 as usize].set(mac, stale);
                }
            }
            Event::Route(_) => self.generation = self.generation.wrapping_add(1),
            _ => {}
        }
    }

    fn neighbour(&mut self, interface: u32, address: IpAddr) -> Option<Neighbour> {
        if let Some(neighbour) = self.neighbours.get(&(interface, address)) {
            return Some(*neighbour);
        }
        if self.entries.len() >= NEIGHBOURS_MAX {
            return None;
        }
        let neighbour = Neighbour(self.entries.len() as u32);
        self.entries.push(Entry::default());
        self.neighbours.insert((interface, address), neighbour);
        // Later changes are reported without a request.
        if self.send_request(&netlink::neighbour_request(address, interface)).is_ok()
            && let Ok(len) = receive(&self.requests, &mut self.buffer)
        {
            self.apply_events(len);
        }
        Some(neighbour)
    }

    fn read_neighbours(&mut self) -> Result<(), Errno> {
        self.send_request(&netlink::request(netlink::RTM_GETNEIGH))?;
        loop {
            let len = match receive(&self.requests, &mut self.buffer) {
                Err(Errno::INTR) => continue,
                received => received?,
            };
            for event in netlink::events(&self.buffer[..len]).collect::<Vec<_>>() {
                match event {
                    Event::Done => return Ok(()),
                    Event::Refused(code) => return Err(Errno::from_raw_os_error(code)),
                    event => self.apply(event),
                }
            }
        }
    }

    fn route(&mut self, to: IpAddr, scope: u32) -> Result<Option<Route>, Errno> {
        self.send_request(&netlink::route_request(to, scope))?;
        // The kernel replies during the request.
        let len = receive(&self.requests, &mut self.buffer)?;
        Ok(netlink::events(&self.buffer[..len]).find_map(|event| match event {
            Event::Route(route) => route,
            _ => None,
        }))
    }

    fn send_request(&mut self, request: &[u8]) -> Result<(), Errno> {
        // Left-over replies to an earlier request would be taken for this one's.
        while receive(&self.requests, &mut self.buffer).is_ok() {}
        rustix::net::sendto(
            &self.requests,
            request,
            SendFlags::empty(),
            &SocketAddrNetlink::new(0, 0),
        )?;
        Ok(())
    }
}

impl Entry {
    fn set(&mut self, mac: Option<Mac>, stale: bool) {
        if self.mac != mac {
            self.mac = mac;
            self.version = self.version.wrapping_add(1);
        }
        self.probe = stale && mac.is_some();
    }

    fn clear(&mut self) {
        self.set(None, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_route_has_no_neighbour() {
        let mut routes = Routes::watch().unwrap();
        let hop = routes.next_hop("127.0.0.1".parse().unwrap(), 0);
        assert!(hop.is_none(), "a route to this machine itself: {hop:?}");
    }

    #[test]
    fn stale_neighbour_is_probed_once() {
        let mut routes = Routes::watch().unwrap();
        let address = "192.0.2.77".parse().unwrap();
        let neighbour = routes.neighbour(99, address).unwrap();
        assert_eq!(routes.mac(neighbour), None, "nothing is known yet");
        let (old, new) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let report = |routes: &mut Routes, mac, stale| {
            routes.apply(Event::Neighbour { interface: 99, address, mac, stale });
        };
        report(&mut routes, Some(old), false);
        let first = routes.mac(neighbour).unwrap();
        assert_eq!(first.0, old);
        report(&mut routes, Some(old), true);
        assert_eq!(routes.mac(neighbour), None, "by the socket, once");
        assert_eq!(
            routes.mac(neighbour),
            Some(first),
            "the same as before, until the kernel says something else"
        );
        report(&mut routes, Some(new), false);
        let second = routes.mac(neighbour).unwrap();
        assert!(second.0 == new && second.1 != first.1);
        report(&mut routes, None, false);
        assert_eq!(routes.mac(neighbour), None);
        let generation = routes.generation();
        routes.apply(Event::Route(None));
        assert_ne!(routes.generation(), generation);
    }
}
