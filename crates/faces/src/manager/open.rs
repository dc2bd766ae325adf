//! Creation of listeners and faces.

use super::face::{Face, Reconnect, Token, Transport};
use super::xdp::XdpRoute;
use super::{Faces, watch_stream};
use crate::accounts::Account;
use crate::config::FaceOptions;
use crate::datagram::{DatagramSocket, Medium, Pacer, Peer};
use crate::error::FaceError;
use crate::listener::{self, Listener};
use crate::socket_activation::ActivatedUnixSocket;
use crate::status::FaceEvent;
use crate::stream::Stream;
use crate::timers::Timer;
use nw_element_api::{FaceId, Scope, Timestamp};
use nw_link::{FaceUri, LinkError, LinkSettings, Persistency};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

impl Faces {
    /// Listens for unix connections at `path`, with access rights `mode` (clients expect 0o666).
    /// The folder is created if missing; an unused socket is replaced.
    ///
    /// # Errors
    /// If the socket can't be created; the message has path, cause and remedy.
    pub fn listen_unix(&mut self, path: &Path, mode: u32) -> Result<(), FaceError> {
        let listener = Listener::unix(path, mode)?;
        self.add_listener(listener)
    }

    /// Listens on a unix socket that is listening already. Its file is not removed at the end.
    ///
    /// # Errors
    /// If the socket can't be registered with epoll.
    pub fn adopt_unix(&mut self, inherited: ActivatedUnixSocket) -> Result<(), FaceError> {
        self.add_listener(Listener::adopted(inherited))
    }

    /// Listens at `path` for peers over shared memory, as [`listen_unix`](Self::listen_unix). Every
    /// program that may open the socket gets a face.
    ///
    /// # Errors
    /// If the socket can't be created; the message has path, cause and remedy.
    pub fn listen_shared_memory(&mut self, path: &Path, mode: u32) -> Result<(), FaceError> {
        let listener = Listener::shared_memory(path, mode)?;
        self.add_listener(listener)
    }

    /// Listens for TCP connections. Returns the bound address, with the port chosen if 0 was
    /// requested.
    ///
    /// # Errors
    /// If the address can't be bound.
    pub fn listen_tcp(&mut self, address: SocketAddr) -> Result<SocketAddr, FaceError> {
        let listener = Listener::tcp(address, &self.config)?;
        let bound = listener.uri.address().unwrap_or(address);
        self.add_listener(listener)?;
        Ok(bound)
    }

    /// Listens for WebSocket connections. Returns the bound address, with the port chosen if 0 was
    /// requested. `config.websocket` sets which peers may connect.
    ///
    /// # Errors
    /// If the address can't be bound.
    pub fn listen_websocket(&mut self, address: SocketAddr) -> Result<SocketAddr, FaceError> {
        let listener = Listener::websocket(address, &self.config)?;
        let bound = listener.uri.address().unwrap_or(address);
        self.add_listener(listener)?;
        Ok(bound)
    }

    /// Listens for UDP datagrams of all peers. Returns the bound address, with the port chosen if 0
    /// was requested.
    ///
    /// # Errors
    /// If the address can't be bound.
    pub fn listen_udp(&mut self, address: SocketAddr) -> Result<SocketAddr, FaceError> {
        let is_reusable = |socket: &&mut DatagramSocket| {
            !socket.listening && socket.medium == Medium::Udp(address) && address.port() != 0
        };
        // It listened before, and faces still use it.
        if let Some(socket) = self.sockets.iter_mut().flatten().find(is_reusable) {
            socket.listening = true;
            self.xdp.changed = true;
            return Ok(address);
        }
        let socket = DatagramSocket::bind(address, true, &self.config)?;
        let bound = socket.local_uri().address().unwrap_or(address);
        self.add_socket(socket)?;
        Ok(bound)
    }

    /// Stops the listener at `uri`. Returns false if there is none. Accepted faces stay, and a UDP
    /// socket stays as long as faces use it.
    pub fn stop_listening(&mut self, uri: &FaceUri) -> bool {
        let is_stream =
            |listener: &Option<Listener>| listener.as_ref().is_some_and(|known| known.uri == *uri);
        if let Some(at) = self.listeners.iter().position(is_stream) {
            self.drop_handshakes_of(at as u32);
            // Another listener may get this index.
            let ids: Vec<FaceId> = self.ids().collect();
            for id in ids {
                if let Some(face) = self.slots.get_mut(id) {
                    face.listener.take_if(|listener| *listener == at as u32);
                }
            }
            if let Some(listener) = self.listeners[at].take() {
                // The descriptor may be shared with another process, so closing it would not
                // unregister it.
                let _ = epoll::delete(&self.epoll, &listener.socket);
            }
            return true;
        }
        let is_datagram = |socket: &Option<DatagramSocket>| {
            socket.as_ref().is_some_and(|known| known.listening && known.local_uri() == *uri)
        };
        let Some(at) = self.sockets.iter().position(is_datagram) else { return false };
        if let Some(socket) = &mut self.sockets[at] {
            socket.listening = false;
        }
        self.xdp.changed = true;
        self.drop_socket_without_peers(at);
        true
    }

    /// Creates a face to a peer. `local` is the local address; by default, UDP faces use a
    /// listener's socket if there is one, so that the peer sees its port. Faces to network cards
    /// and groups need `local`: it names the interface. A TCP or WebSocket face exists at once and
    /// is up when the peer answers: [`FaceEvent::Up`], or [`FaceEvent::Destroyed`] if it does not.
    ///
    /// # Errors
    /// [`FaceError::Exists`] if there is a face to that UDP, TCP or Ethernet peer;
    /// [`FaceError::NotCanonical`] for host names: call [`FaceUri::resolve`] first, outside the
    /// packet loop.
    pub fn connect(
        &mut self,
        now: Timestamp,
        uri: &FaceUri,
        local: Option<&FaceUri>,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        if uri.is_canonical() {
            crate::request::check(uri, local, options)?;
        }
        let unreachable =
            |a: &SocketAddr| a.port() == 0 || a.ip().is_unspecified() || a.ip().is_multicast();
        match uri {
            FaceUri::Host { .. } => Err(FaceError::NotCanonical(uri.clone())),
            FaceUri::Udp(group) if group.ip().is_multicast() && group.port() != 0 => {
                self.connect_group(now, *group, local, options)
            }
            FaceUri::Ether(mac) => self.connect_ether(now, *mac, local, options),
            FaceUri::Udp(peer) | FaceUri::Tcp(peer) | FaceUri::Ws(peer) if unreachable(peer) => {
                Err(FaceError::Scheme(uri.clone()))
            }
            FaceUri::Udp(peer) => self.connect_udp(now, *peer, local_address(uri, local)?, options),
            FaceUri::Tcp(_) | FaceUri::Ws(_) | FaceUri::Unix(_) | FaceUri::Shm(_) => {
                let scope = self.scope_of(uri);
                self.settings(uri, None).updated(options, scope)?;
                let existing = self.find(uri).filter(|_| uri.address().is_some());
                if let Some(existing) = existing {
                    return Err(FaceError::Exists(existing));
                }
                let bind = local_address(uri, local)?;
                self.check_capacity()?;
                let (stream, local) = listener::connect(uri, bind, &self.config)?;
                let connected = stream.connected;
                let id = self.add_stream(now, stream, (uri.clone(), local), scope, options)?;
                // An attempt without answer is given up before the kernel's own timeout.
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

    /// Creates a face on a connected unix or TCP socket.
    ///
    /// # Errors
    /// If it is not such a socket, or there are too many faces.
    pub fn adopt(
        &mut self,
        now: Timestamp,
        socket: OwnedFd,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        let uris = listener::uris_of(&socket, &self.config)?;
        let scope = self.scope_of(&uris.0);
        self.add_stream(now, Stream::new(socket, true, None), uris, scope, options)
    }

    /// Creates management's face, [`FaceId::INTERNAL`]: packets sent to it come out of
    /// [`next_internal`](Self::next_internal), packets passed to [`inject`](Self::inject) arrive on
    /// it. Local fields are enabled.
    pub fn open_internal(&mut self, now: Timestamp) -> FaceId {
        let mut settings = LinkSettings::new(&self.config.link_defaults(), None);
        settings.flags = crate::FaceFlags::LOCAL_FIELDS;
        let uris = (FaceUri::Internal, FaceUri::Internal);
        let link = self.link(now, settings);
        let face =
            Face::new(now, uris, Scope::Local, Persistency::Permanent, Transport::Internal, link);
        self.slots.set_reserved(FaceId::INTERNAL, face);
        self.push_created(FaceId::INTERNAL);
        FaceId::INTERNAL
    }

    /// Creates the face that drops all packets, [`FaceId::NULL`].
    pub fn open_null(&mut self, now: Timestamp) -> FaceId {
        let uris = (FaceUri::Null, FaceUri::Null);
        let link = self.link(now, LinkSettings::new(&self.config.link_defaults(), None));
        let face =
            Face::new(now, uris, Scope::NonLocal, Persistency::Permanent, Transport::Null, link);
        self.slots.set_reserved(FaceId::NULL, face);
        self.push_created(FaceId::NULL);
        FaceId::NULL
    }

    pub(super) fn add_stream(
        &mut self,
        now: Timestamp,
        stream: Stream,
        uris: (FaceUri, FaceUri),
        scope: Scope,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        let (connected, awaits_writable) = (stream.connected, stream.is_connecting());
        let settings = self.settings(&uris.0, None).updated(options, scope)?;
        let link = self.link(now, settings);
        let uri = uris.0.clone();
        let persistency = options.persistency.unwrap_or_default();
        let id = self.add_face(|_| {
            let transport = Transport::Stream(stream);
            let mut face = Face::new(now, uris, scope, persistency, transport, link);
            face.awaits_writable = awaits_writable;
            face
        })?;
        let watched = match self.slots.get(id).map(|face| &face.transport) {
            Some(Transport::Stream(stream)) => {
                self.watch(stream.socket.as_fd(), Token::Face(id), awaits_writable)
            }
            _ => Ok(()),
        };
        if let Err(errno) = watched {
            self.slots.remove(id);
            self.events.pop();
            return Err(FaceError::system("watch", uri)(errno));
        }
        if persistency == Persistency::OnDemand {
            self.size_send_buffer(id);
        }
        if !connected {
            self.events.push(FaceEvent::Down(id));
        }
        Ok(id)
    }

    /// Reduces an accepted connection's kernel send buffer when there are many.
    fn size_send_buffer(&mut self, id: FaceId) {
        let wanted = self.config.stream_send_buffer;
        let Some(face) = self.slots.get_mut(id) else { return };
        let Transport::Stream(stream) = &face.transport else { return };
        if stream.shared.is_some() {
            return;
        }
        face.kernel_buffer = self.send_budget.grant_kernel_buffer(wanted);
        if face.kernel_buffer < wanted {
            // If this fails, the buffer stays larger.
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(
                &stream.socket,
                face.kernel_buffer,
            );
        }
    }

    /// Creates the face of a datagram peer that sent something, or is to be sent to.
    pub(super) fn add_peer(
        &mut self,
        now: Timestamp,
        index: usize,
        peer: Peer,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        let Some(socket) = &self.sockets[index] else { return Err(FaceError::Scheme(peer.uri())) };
        let uris = (peer.uri(), socket.local_uri());
        let scope = self.scope_of(&uris.0);
        let mtu = socket.link_mtu(&self.config);
        let settings = self.settings(&uris.0, Some(mtu)).updated(options, scope)?;
        if let Some(mtu) = settings.mtu.filter(|mtu| *mtu > socket.link_mtu_max()) {
            return Err(FaceError::Link(LinkError::Mtu(mtu)));
        }
        let link_type = self.interfaces.link_type(peer);
        settings.check_link_type(link_type)?;
        let mut link = self.link(now, settings);
        if let Some(bytes) = socket.advertised_buffer(peer) {
            link.receive_window_mut().advertise(bytes);
        }
        // A face to a group is not closed when its members are silent.
        let persistency = if peer.is_group() {
            Persistency::Permanent
        } else {
            options.persistency.unwrap_or_default()
        };
        let pacer = Pacer::default();
        let transport = Transport::Datagram {
            socket: index,
            peer,
            run_datagram_max: usize::MAX,
            pacer,
            route: XdpRoute::default(),
        };
        let mut face = Face::new(now, uris, scope, persistency, transport, link);
        face.link_type = link_type;
        face.down = !socket.up;
        let down = face.down;
        face.idle_timer = face.expiry(&self.config);
        let idle = face.idle_timer;
        let id = self.add_face(|_| face)?;
        if down {
            self.events.push(FaceEvent::Down(id));
        }
        if let Some(due) = idle {
            self.timers.set(due, Timer::Idle(id));
        }
        if let Some(socket) = &mut self.sockets[index] {
            socket.peers.insert(peer, id);
        }
        if options.persistency == Some(Persistency::OnDemand) {
            self.register_on_demand(id, Account::of_sender(peer));
        }
        Ok(id)
    }

    fn connect_udp(
        &mut self,
        now: Timestamp,
        peer: SocketAddr,
        local: Option<SocketAddr>,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        let scope = self.scope_of(&FaceUri::Udp(peer));
        self.settings(&FaceUri::Udp(peer), Some(self.config.udp_mtu)).updated(options, scope)?;
        let usable = |socket: &DatagramSocket| match local {
            Some(local) => socket.medium == Medium::Udp(local),
            None => matches!(&socket.medium, Medium::Udp(bound) if reaches(bound.ip(), peer.ip())),
        };
        // Sockets of listeners first: peers answer to their port.
        let sockets =
            || self.sockets.iter().enumerate().filter_map(|(at, s)| Some((at, s.as_ref()?)));
        let found = sockets()
            .filter(|(_, socket)| usable(socket))
            .max_by_key(|(at, socket)| (socket.listening, core::cmp::Reverse(*at)))
            .map(|(at, _)| at);
        let existing = sockets().filter(|(at, _)| local.is_none() || Some(*at) == found);
        if let Some(existing) =
            existing.filter_map(|(_, socket)| socket.peers.get(&Peer::Ip(peer))).next()
        {
            return Err(FaceError::Exists(*existing));
        }
        self.check_capacity()?;
        let index = match found {
            Some(index) => index,
            None => {
                let unspecified = if peer.is_ipv4() {
                    IpAddr::V4(Ipv4Addr::UNSPECIFIED)
                } else {
                    IpAddr::V6(Ipv6Addr::UNSPECIFIED)
                };
                let address = local.unwrap_or(SocketAddr::new(unspecified, 0));
                self.add_socket(DatagramSocket::bind(address, false, &self.config)?)?
            }
        };
        self.add_peer(now, index, Peer::Ip(peer), options)
    }

    fn add_listener(&mut self, listener: Listener) -> Result<(), FaceError> {
        let index = self.listeners.iter().position(Option::is_none).unwrap_or(self.listeners.len());
        let token = Token::Listener(index as u32);
        self.watch(listener.socket.as_fd(), token, false)
            .map_err(FaceError::system("watch", &listener.uri))?;
        if index == self.listeners.len() {
            self.listeners.push(None);
        }
        self.listeners[index] = Some(listener);
        Ok(())
    }

    pub(super) fn add_socket(&mut self, socket: DatagramSocket) -> Result<usize, FaceError> {
        let index = self.sockets.iter().position(Option::is_none).unwrap_or(self.sockets.len());
        self.add_socket_at(index, socket)?;
        Ok(index)
    }

    pub(super) fn add_socket_at(
        &mut self,
        index: usize,
        socket: DatagramSocket,
    ) -> Result<(), FaceError> {
        let watched = self.watch(socket.socket.as_fd(), Token::Datagram(index as u32), false);
        watched.map_err(FaceError::system("watch", socket.local_uri()))?;
        if index == self.sockets.len() {
            self.sockets.push(None);
        }
        if self.xdp.unmerged {
            socket.merge_runs(false);
        }
        self.sockets[index] = Some(socket);
        self.xdp.changed = true;
        Ok(())
    }

    /// Returns the host's default settings for a transport.
    fn settings(&self, peer: &FaceUri, mtu: Option<usize>) -> LinkSettings {
        let reliable = match peer {
            FaceUri::Unix(_) | FaceUri::Fd(_) => self.config.reliable.unix,
            FaceUri::Tcp(_) => self.config.reliable.tcp,
            FaceUri::Udp(address) => self.config.reliable.udp && !address.ip().is_multicast(),
            _ => false,
        };
        LinkSettings::new(&self.config.link_defaults(), mtu).with_reliability(reliable)
    }

    /// Returns the scope of a peer. Unix, shared memory and loopback TCP are local; UDP only if
    /// configured. A WebSocket server may be a reverse proxy, so it is not local.
    pub(super) fn scope_of(&self, peer: &FaceUri) -> Scope {
        let local = match peer {
            FaceUri::Unix(_) | FaceUri::Shm(_) | FaceUri::Fd(_) | FaceUri::Internal => true,
            FaceUri::Tcp(address) => address.ip().is_loopback(),
            FaceUri::Udp(address) => self.config.loopback_udp_local && address.ip().is_loopback(),
            _ => false,
        };
        if local { Scope::Local } else { Scope::NonLocal }
    }

    /// Processes the result of a connection attempt. Queued packets are sent next.
    pub(super) fn finish_connecting(&mut self, id: FaceId) -> Result<(), Errno> {
        let Some(face) = self.slots.get_mut(id) else { return Ok(()) };
        let Transport::Stream(stream) = &mut face.transport else { return Ok(()) };
        // That socket is connected already; the handshake is not complete.
        if stream.shared.is_some() {
            return Ok(());
        }
        rustix::net::sockopt::socket_error(&stream.socket).and_then(|result| result)?;
        if let Ok(Ok(local)) = rustix::net::getsockname(&stream.socket).map(SocketAddr::try_from) {
            face.local_uri = listener::local_uri_of(&face.uri, local);
        }
        if let Some(handshake) =
            stream.websocket.as_mut().and_then(|websocket| websocket.handshake())
        {
            if !core::mem::replace(&mut handshake.request_sent, true) {
                // This request is short and the first bytes sent: a socket that doesn't take it
                // whole is broken.
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                let sent = rustix::net::send(&stream.socket, handshake.request(), flags)?;
                if sent < handshake.request().len() {
                    return Err(Errno::NOBUFS);
                }
                watch_stream(&self.epoll, id, face);
            }
            return Ok(());
        }
        self.finish_stream(id);
        Ok(())
    }

    /// Reports a connection opened by this end as up, once its handshake is complete.
    pub(super) fn finish_handshake(&mut self, now: Timestamp, id: FaceId) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let Transport::Stream(stream) = &mut face.transport else { return };
        if stream.is_opening() {
            return;
        }
        let is_websocket = stream.websocket.is_some();
        self.finish_stream(id);
        if is_websocket {
            self.start_keepalive(now, id);
        }
    }

    fn finish_stream(&mut self, id: FaceId) {
        let Some(face) = self.slots.get_mut(id) else { return };
        if let Transport::Stream(stream) = &mut face.transport {
            stream.connected = true;
        }
        if let Some(reconnect) = &mut face.reconnect {
            reconnect.was_up = true;
            reconnect.failures = 0;
            if let Some(due) = reconnect.timer.take() {
                self.timers.cancel(due, Timer::Reconnect(id));
            }
        }
        self.events.push(FaceEvent::Up(id));
    }
}

/// Returns whether a socket bound to `local` can send to `peer`.
fn reaches(local: IpAddr, peer: IpAddr) -> bool {
    local.is_ipv4() == peer.is_ipv4()
        && (local.is_unspecified() || local.is_loopback() == peer.is_loopback())
}

/// Returns the address of a local URI, which must have the scheme of the peer's URI.
fn local_address(uri: &FaceUri, local: Option<&FaceUri>) -> Result<Option<SocketAddr>, FaceError> {
    match local {
        None => Ok(None),
        Some(local) if local.scheme() == uri.scheme() && local.is_canonical() => {
            Ok(local.address())
        }
        Some(local) => Err(FaceError::Scheme(local.clone())),
    }
}
