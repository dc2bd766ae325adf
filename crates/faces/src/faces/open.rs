//! How faces and listeners come to be.

use super::Faces;
use super::face::{Face, Reconnect, Token, Transport};
use crate::config::FaceOptions;
use crate::error::FaceError;
use crate::inherited::InheritedUnix;
use crate::link::LinkSettings;
use crate::listener::{self, Listener};
use crate::status::{FaceEvent, Persistency};
use crate::stream::Stream;
use crate::timers::Timer;
use crate::udp::{Burst, UdpSocket};
use crate::uri::FaceUri;
use nw_element::{FaceId, Instant, Scope};
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

impl Faces {
    /// Accepts unix connections at `path`, whose access rights will be `mode` (clients expect 0o666). Its directory is made if missing; a
    /// socket that nobody listens on any more is replaced.
    ///
    /// # Errors
    /// With path, cause and remedy.
    pub fn listen_unix(&mut self, path: &Path, mode: u32) -> Result<(), FaceError> {
        let listener = Listener::unix(path, mode)?;
        self.add_listener(listener)
    }

    /// Accepts unix connections on a socket that listens already. Its file is left to whoever made it.
    ///
    /// # Errors
    /// What the system says.
    pub fn adopt_unix(&mut self, inherited: InheritedUnix) -> Result<(), FaceError> {
        self.add_listener(Listener::adopted(inherited))
    }

    /// Accepts TCP connections; gives the address bound, which says the port when 0 was asked for.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen_tcp(&mut self, address: SocketAddr) -> Result<SocketAddr, FaceError> {
        let listener = Listener::tcp(address, &self.config)?;
        let bound = listener.uri.address().unwrap_or(address);
        self.add_listener(listener)?;
        Ok(bound)
    }

    /// Takes datagrams from anybody; gives the address bound, which says the port when 0 was asked for.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen_udp(&mut self, address: SocketAddr) -> Result<SocketAddr, FaceError> {
        let socket = UdpSocket::bind(address, true, &self.config)?;
        let bound = socket.local;
        self.add_socket(socket)?;
        Ok(bound)
    }

    /// Makes a face to a peer. `local` says from which address; where it is not said, UDP faces use the socket of a listener if there is one, so
    /// that the peer sees its port. A TCP face is there at once and up when the peer answers: [`FaceEvent::Up`], or
    /// [`FaceEvent::Destroyed`] when it doesn't.
    ///
    /// # Errors
    /// [`FaceError::Exists`] when there is a face to that UDP or TCP peer; [`FaceError::NotCanonical`] for host names, which
    /// [`FaceUri::resolve`] resolves, outside the packet loop.
    pub fn connect(
        &mut self,
        now: Instant,
        uri: &FaceUri,
        local: Option<&FaceUri>,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        if options.persistency == Some(Persistency::OnDemand) {
            return Err(FaceError::Persistency(Persistency::OnDemand.as_str()));
        }
        let unreachable = |a: &SocketAddr| a.port() == 0 || a.ip().is_unspecified() || a.ip().is_multicast();
        match uri {
            FaceUri::Host { .. } => Err(FaceError::NotCanonical(uri.clone())),
            FaceUri::Udp(peer) | FaceUri::Tcp(peer) if unreachable(peer) => {
                Err(FaceError::Scheme(uri.clone()))
            }
            FaceUri::Udp(peer) => self.connect_udp(now, *peer, local_address(uri, local)?, options),
            FaceUri::Tcp(_) | FaceUri::Unix(_) => {
                let scope = self.scope_of(uri);
                self.settings(uri, None).updated(options, scope)?;
                let existing = self.find(uri).filter(|_| uri.address().is_some());
                if let Some(existing) = existing {
                    return Err(FaceError::Exists(existing));
                }
                let bind = local_address(uri, local)?;
                let (socket, local, connected) = listener::connect(uri, bind, &self.config)?;
                let id = self.add_stream(now, socket, (uri.clone(), local), options, connected)?;
                // An attempt that nobody answers is over before the system says so.
                let timer = (!connected).then(|| now + self.config.reconnect_timeout);
                timer.into_iter().for_each(|due| self.timers.set(due, Timer::Reconnect(id)));
                if let Some(face) = self.slots.get_mut(id) {
                    face.reconnect =
                        Some(Box::new(Reconnect { bind, was_up: connected, timer, failures: 0 }));
                }
                Ok(id)
            }
            _ => Err(FaceError::Scheme(uri.clone())),
        }
    }

    /// Makes a face of a connected unix or TCP socket.
    ///
    /// # Errors
    /// When it is no such socket, or there are too many faces.
    pub fn adopt(
        &mut self,
        now: Instant,
        socket: OwnedFd,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        let ends = listener::ends_of(&socket, &self.config)?;
        self.add_stream(now, socket, ends, options, true)
    }

    /// Makes the face by which management answers, [`FaceId::INTERNAL`]: what is sent to it comes out of
    /// [`next_internal`](Self::next_internal), what is given to [`inject`](Self::inject) comes in by it. Local fields are enabled.
    pub fn open_internal(&mut self, now: Instant) -> FaceId {
        let mut settings = LinkSettings::new(&self.config, None);
        settings.flags = crate::FaceFlags::LOCAL_FIELDS;
        let ends = (FaceUri::Internal, FaceUri::Internal);
        let link = self.link(now, settings);
        let face = Face::new(now, ends, Scope::Local, Persistency::Permanent, Transport::Internal, link);
        self.slots.set_reserved(FaceId::INTERNAL, face);
        self.tell_created(FaceId::INTERNAL);
        FaceId::INTERNAL
    }

    pub(super) fn add_stream(
        &mut self,
        now: Instant,
        socket: OwnedFd,
        ends: (FaceUri, FaceUri),
        options: &FaceOptions,
        connected: bool,
    ) -> Result<FaceId, FaceError> {
        let scope = self.scope_of(&ends.0);
        let settings = self.settings(&ends.0, None).updated(options, scope)?;
        let link = self.link(now, settings);
        let uri = ends.0.clone();
        let persistency = options.persistency.unwrap_or_default();
        let id = self.add_face(|_| {
            let transport = Transport::Stream(Stream::new(socket, connected));
            let mut face = Face::new(now, ends, scope, persistency, transport, link);
            face.awaits_writable = !connected;
            face
        })?;
        let watched = match self.slots.get(id).map(|face| &face.transport) {
            Some(Transport::Stream(stream)) => self.watch(stream.socket.as_fd(), Token::Face(id), !connected),
            _ => Ok(()),
        };
        if let Err(errno) = watched {
            self.slots.remove(id);
            self.events.pop();
            return Err(FaceError::system("watch", uri)(errno));
        }
        if !connected {
            self.events.push(FaceEvent::Down(id));
        }
        Ok(id)
    }

    /// Makes a face of a peer that spoke, or is to be spoken to.
    pub(super) fn add_peer(
        &mut self,
        now: Instant,
        index: usize,
        peer: SocketAddr,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        let Some(socket) = &self.sockets[index] else { return Err(FaceError::Scheme(FaceUri::Udp(peer))) };
        let ends = (FaceUri::Udp(peer), FaceUri::Udp(socket.local));
        let scope = self.scope_of(&ends.0);
        let settings = self.settings(&ends.0, Some(self.config.udp_mtu)).updated(options, scope)?;
        let link = self.link(now, settings);
        let persistency = options.persistency.unwrap_or_default();
        let idle = (persistency == Persistency::OnDemand).then(|| now + self.config.udp_idle);
        let id = self.add_face(|_| {
            let burst = Burst::default();
            let transport = Transport::Udp { socket: index, peer, run_datagram_max: usize::MAX, burst };
            let mut face = Face::new(now, ends, scope, persistency, transport, link);
            face.idle_timer = idle;
            face
        })?;
        if let Some(due) = idle {
            self.timers.set(due, Timer::Idle(id));
        }
        if let Some(socket) = &mut self.sockets[index] {
            socket.peers.insert(peer, id);
            if idle.is_some() {
                socket.waiting_to_yield.push_back((id, now));
            }
            // Faces that ended otherwise are cleared away before they outnumber those that live.
            if socket.waiting_to_yield.len() > 64 + 2 * socket.peers.len() {
                let slots = &self.slots;
                socket.waiting_to_yield.retain(|(id, _)| slots.get(*id).is_some());
            }
        }
        Ok(id)
    }

    fn connect_udp(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        local: Option<SocketAddr>,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        let scope = self.scope_of(&FaceUri::Udp(peer));
        self.settings(&FaceUri::Udp(peer), Some(self.config.udp_mtu)).updated(options, scope)?;
        let usable = |socket: &UdpSocket| match local {
            Some(local) => socket.local == local,
            None => reaches(socket.local.ip(), peer.ip()),
        };
        // Listeners' sockets first: peers answer to their port.
        let sockets = || self.sockets.iter().enumerate().filter_map(|(at, s)| Some((at, s.as_ref()?)));
        let found = sockets()
            .filter(|(_, socket)| usable(socket))
            .max_by_key(|(at, socket)| (socket.listening, core::cmp::Reverse(*at)))
            .map(|(at, _)| at);
        let existing = sockets().filter(|(at, _)| local.is_none() || Some(*at) == found);
        if let Some(existing) = existing.filter_map(|(_, socket)| socket.peers.get(&peer)).next() {
            return Err(FaceError::Exists(*existing));
        }
        if self.slots.len() >= self.config.faces_max {
            return Err(FaceError::TooMany(self.config.faces_max));
        }
        let index = match found {
            Some(index) => index,
            None => {
                let any = if peer.is_ipv4() {
                    IpAddr::V4(Ipv4Addr::UNSPECIFIED)
                } else {
                    IpAddr::V6(Ipv6Addr::UNSPECIFIED)
                };
                let address = local.unwrap_or(SocketAddr::new(any, 0));
                self.add_socket(UdpSocket::bind(address, false, &self.config)?)?
            }
        };
        self.add_peer(now, index, peer, options)
    }

    fn add_listener(&mut self, listener: Listener) -> Result<(), FaceError> {
        let token = Token::Listener(self.listeners.len() as u32);
        self.watch(listener.socket.as_fd(), token, false)
            .map_err(FaceError::system("watch", &listener.uri))?;
        self.listeners.push(listener);
        Ok(())
    }

    fn add_socket(&mut self, socket: UdpSocket) -> Result<usize, FaceError> {
        let index = self.sockets.iter().position(Option::is_none).unwrap_or(self.sockets.len());
        let watched = self.watch(socket.socket.as_fd(), Token::Udp(index as u32), false);
        watched.map_err(FaceError::system("watch", FaceUri::Udp(socket.local)))?;
        if index == self.sockets.len() {
            self.sockets.push(None);
        }
        self.sockets[index] = Some(socket);
        Ok(index)
    }

    /// The host's defaults for a transport.
    fn settings(&self, peer: &FaceUri, mtu: Option<usize>) -> LinkSettings {
        let reliable = match peer {
            FaceUri::Unix(_) | FaceUri::Fd(_) => self.config.reliable.unix,
            FaceUri::Tcp(_) => self.config.reliable.tcp,
            FaceUri::Udp(_) => self.config.reliable.udp,
            _ => false,
        };
        LinkSettings::new(&self.config, mtu).reliable(reliable)
    }

    /// Unix and loopback TCP are local; UDP is not, unless the host says so.
    fn scope_of(&self, peer: &FaceUri) -> Scope {
        let local = match peer {
            FaceUri::Unix(_) | FaceUri::Fd(_) | FaceUri::Internal => true,
            FaceUri::Tcp(address) => address.ip().is_loopback(),
            FaceUri::Udp(address) => self.config.loopback_udp_local && address.ip().is_loopback(),
            _ => false,
        };
        if local { Scope::Local } else { Scope::NonLocal }
    }

    /// A connection that was asked for has been made, or has failed. What waits for it is to be sent next.
    pub(super) fn finish_connecting(&mut self, id: FaceId) -> Result<(), Errno> {
        let Some(face) = self.slots.get_mut(id) else { return Ok(()) };
        let Transport::Stream(stream) = &mut face.transport else { return Ok(()) };
        rustix::net::sockopt::socket_error(&stream.socket).and_then(|result| result)?;
        stream.connected = true;
        if let Ok(Ok(local)) = rustix::net::getsockname(&stream.socket).map(SocketAddr::try_from) {
            face.local_uri = FaceUri::Tcp(local);
        }
        if let Some(reconnect) = &mut face.reconnect {
            reconnect.was_up = true;
            reconnect.failures = 0;
            if let Some(due) = reconnect.timer.take() {
                self.timers.cancel(due, Timer::Reconnect(id));
            }
        }
        self.events.push(FaceEvent::Up(id));
        Ok(())
    }
}

/// Whether a socket bound to `local` can send to `peer`.
fn reaches(local: IpAddr, peer: IpAddr) -> bool {
    local.is_ipv4() == peer.is_ipv4() && (local.is_unspecified() || local.is_loopback() == peer.is_loopback())
}

/// The address of a local URI, which has to be of the peer's kind.
fn local_address(uri: &FaceUri, local: Option<&FaceUri>) -> Result<Option<SocketAddr>, FaceError> {
    match local {
        None => Ok(None),
        Some(local) if local.scheme() == uri.scheme() && local.is_canonical() => Ok(local.address()),
        Some(local) => Err(FaceError::Scheme(local.clone())),
    }
}
