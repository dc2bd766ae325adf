//! One face to a router, driven by the application's loop.
//!
//! It uses the transports and the link service of the router, so batching, framing and limits are
//! the same. Single-threaded: [`Client::poll`] waits for packets and passes each to a handler,
//! which may reply.

use core::mem::MaybeUninit;
use core::time::Duration;
use nw_element_api::{FaceId, Kind, LinkFields, Meta, Packet, Pool, Timestamp};
use nw_faces::{
    CloseReason, FaceError, FaceEvent, FaceFlags, FaceOptions, FaceUri, Faces, FacesConfig,
    Persistency,
};
use nw_name::{HashKey, NameRef};
use nw_wire::{NackReason, Token};
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time;

/// Errors of the connection to the router.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The router's address is invalid.
    #[error(transparent)]
    Transport(#[from] crate::transport::TransportError),
    /// The face could not be created.
    #[error(transparent)]
    Face(#[from] FaceError),
    /// A system call that every program needs has failed.
    #[error("{what} failed: {errno}")]
    System {
        /// What was requested.
        what: &'static str,
        /// The error.
        errno: Errno,
    },
    /// The router closed the connection.
    #[error("the router closed the connection ({0})")]
    Closed(CloseReason),
    /// The flag of [`Client::stop_when`] was set.
    #[error("interrupted")]
    Interrupted,
    /// The connection was not established in time.
    #[error("no connection to {0} within {1:?}")]
    ConnectTimeout(FaceUri, Duration),
}

/// A packet received from the router.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The packet without link header.
    pub wire: &'a [u8],
    meta: &'a Meta,
}

impl<'a> Received<'a> {
    /// Returns the kind of the packet.
    pub const fn kind(&self) -> Kind {
        self.meta.kind
    }

    /// Returns the name.
    pub fn name(&self) -> NameRef<'a> {
        self.meta.name_in(self.wire)
    }

    /// Returns whether the Interest can be satisfied by a longer name (CanBePrefix).
    pub const fn can_be_prefix(&self) -> bool {
        self.meta.can_be_prefix
    }

    /// Returns the PIT token that a reply must carry.
    pub const fn token(&self) -> Token {
        self.meta.link.token
    }

    /// Returns the Nack reason, if the packet is a Nack.
    pub const fn nack(&self) -> Option<NackReason> {
        self.meta.link.nack
    }

    /// Returns whether the packet carries a congestion mark.
    pub const fn is_marked(&self) -> bool {
        self.meta.link.congestion_mark != 0
    }

    /// Returns the pause that a Nack(Congestion) asks for: the value of its congestion mark, in
    /// milliseconds, as this project's routers set it. Zero for other packets and marks of 1, which
    /// other routers set.
    pub const fn pause(&self) -> Duration {
        match (self.meta.link.nack, self.meta.link.congestion_mark) {
            (Some(NackReason::Congestion), mark @ 2..) => Duration::from_millis(mark),
            _ => Duration::ZERO,
        }
    }

    /// Returns the router's ingress face (IncomingFaceId), [`FaceId::NONE`] if not given.
    pub const fn incoming_face(&self) -> FaceId {
        self.meta.link.incoming_face
    }
}

/// Packets to send when the handler returns.
#[derive(Debug, Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    packets: Vec<(usize, LinkFields)>,
    stop: bool,
}

impl Outgoing {
    /// Sends a packet.
    pub fn send(&mut self, wire: &[u8]) {
        self.send_with(wire, LinkFields::default());
    }

    /// Sends a reply to an Interest, with its PIT token.
    pub fn answer(&mut self, to: &Received<'_>, wire: &[u8]) {
        self.send_with(wire, LinkFields { token: to.token(), ..LinkFields::default() });
    }

    /// Sends a Nack for an Interest.
    pub fn nack(&mut self, interest: &Received<'_>, reason: NackReason) {
        let link =
            LinkFields { token: interest.token(), nack: Some(reason), ..LinkFields::default() };
        self.send_with(interest.wire, link);
    }

    /// Sends a packet with link fields.
    pub fn send_with(&mut self, wire: &[u8], link: LinkFields) {
        self.bytes.extend_from_slice(wire);
        self.packets.push((self.bytes.len(), link));
    }

    /// Sends a packet that `write` appends to a buffer, which may already contain other packets.
    pub fn send_written(&mut self, link: LinkFields, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.packets.push((self.bytes.len(), link));
    }

    /// Makes [`Client::run`] return.
    pub fn stop(&mut self) {
        self.stop = true;
    }
}

/// A face to a router.
pub struct Client {
    epoll: OwnedFd,
    faces: Faces,
    pool: Pool,
    face: FaceId,
    started: time::Instant,
    batch: Vec<Packet>,
    outgoing: Outgoing,
    stop: Option<Arc<AtomicBool>>,
    /// Connections established so far; 0 until the first is up.
    connections: u64,
    /// When the connection was lost; `None` while connected.
    lost_at: Option<Timestamp>,
}

impl AsFd for Client {
    /// Returns a descriptor that is readable when [`Client::poll`] has something to do, for loops
    /// that wait for more than one thing.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Pause before the first reconnect attempt; it doubles with each attempt.
const RECONNECT_FIRST: Duration = Duration::from_millis(100);
/// Longest such pause: applications are reconnected within this time after a router restart.
const RECONNECT_MAX: Duration = Duration::from_secs(2);

/// Returns the PIT token for Interests of senders that do not need one. It shows the router that
/// this peer returns tokens, so the router may use its own.
///
/// It has 6 bytes: NDNd 1.5.3 panics on tokens of any other length.
pub fn plain_token() -> Token {
    Token::new(b"nw-app").expect("6 bytes fit a token")
}

/// Longest delay before a stop flag is noticed.
const STOP_LATENCY: Duration = Duration::from_millis(100);

/// Chunks of the packet pool.
const CHUNKS_MAX: usize = 128;
/// Packets in use at a time.
const PACKETS_MAX: usize = 16_384;
/// Bytes of replies after which they are written before more packets are handled, while they are
/// still in the processor's cache.
const OUTGOING_BYTES_MAX: usize = 128 << 10;

impl Client {
    /// Connects to the router found by [`transport::default_uri`](crate::transport::default_uri).
    ///
    /// # Errors
    /// If the router can't be reached.
    pub fn connect_default() -> Result<Self, ClientError> {
        Self::connect(&crate::transport::default_uri()?)
    }

    /// Connects to the router at `uri`: `unix://`, `shm://`, `tcp4://`, `tcp6://`, `udp4://` or
    /// `udp6://`. The addresses of a host name are tried one after the other.
    ///
    /// # Errors
    /// If no address can be reached: the error of the last one.
    pub fn connect(uri: &FaceUri) -> Result<Self, ClientError> {
        let addresses = uri.resolve().map_err(FaceError::from)?;
        let mut error = None;
        for address in &addresses {
            match Self::connect_address(address) {
                Ok(client) => return Ok(client),
                Err(failure) => error = Some(failure),
            }
        }
        Err(error.unwrap_or_else(|| ClientError::Face(FaceError::NotCanonical(uri.clone()))))
    }

    fn connect_address(uri: &FaceUri) -> Result<Self, ClientError> {
        let system = |what| move |errno| ClientError::System { what, errno };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(system("creating an epoll descriptor"))?;
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)
            .map_err(|_| ClientError::System { what: "reading random bytes", errno: Errno::IO })?;
        let words = core::array::from_fn(|i| {
            u64::from_le_bytes(core::array::from_fn(|j| secret[8 * i + j]))
        });
        let mut faces = Faces::new(
            FacesConfig {
                faces_max: 4,
                queue_bytes_max: 16 << 20,
                reconnect_first: RECONNECT_FIRST,
                reconnect_max: RECONNECT_MAX,
                ..FacesConfig::default()
            },
            epoll.as_fd(),
        )?;
        let started = time::Instant::now();
        let face = faces.connect(Timestamp::START, uri, None, &FaceOptions::default())?;
        let mut client = Client {
            epoll,
            faces,
            pool: Pool::new(HashKey::new(words), CHUNKS_MAX, PACKETS_MAX),
            face,
            started,
            batch: Vec::with_capacity(1024),
            outgoing: Outgoing::default(),
            stop: None,
            connections: 0,
            lost_at: None,
        };
        client.wait_until_up(uri)?;
        client.connections = 1;
        Ok(client)
    }

    fn wait_until_up(&mut self, uri: &FaceUri) -> Result<(), ClientError> {
        const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
        while !self.faces.status(self.face).is_some_and(|status| status.up) {
            if self.now().since(Timestamp::START) > CONNECT_TIMEOUT {
                return Err(ClientError::ConnectTimeout(uri.clone(), CONNECT_TIMEOUT));
            }
            self.poll(Some(Duration::from_millis(50)), |_, _, _| {})?;
        }
        Ok(())
    }

    /// Reconnects with growing pauses after the connection is lost, instead of returning
    /// [`ClientError::Closed`]. Returns false for transports that do not notice a loss or can't
    /// reconnect. Registrations end with a connection: check [`connections`](Self::connections).
    pub fn reconnect_when_lost(&mut self) -> bool {
        let permanent =
            FaceOptions { persistency: Some(Persistency::Permanent), ..FaceOptions::default() };
        self.faces.update(self.now(), self.face, &permanent).is_ok()
    }

    /// Returns the number of connections established so far, at least 1.
    pub const fn connections(&self) -> u64 {
        self.connections
    }

    /// Returns for how long the connection has been lost; `None` while connected.
    pub fn lost_for(&self) -> Option<Duration> {
        self.lost_at.map(|at| self.now().since(at))
    }

    /// Makes every wait return [`ClientError::Interrupted`] within 100 ms after the flag is set,
    /// for example by Ctrl-C.
    pub fn stop_when(&mut self, flag: Arc<AtomicBool>) {
        self.stop = Some(flag);
    }

    /// Sends NextHopFaceId with Interests that have one. The router must be told, too: a
    /// `faces/update` of this face with flag local-fields.
    ///
    /// # Errors
    /// If the router is on another machine.
    pub fn send_next_hops(&mut self) -> Result<(), ClientError> {
        let (flags, now) = (FaceFlags::LOCAL_FIELDS, self.now());
        let options = FaceOptions { flags, flags_mask: flags, ..FaceOptions::default() };
        Ok(self.faces.update(now, self.face, &options)?)
    }

    /// Returns the time since this client was created.
    pub fn now(&self) -> Timestamp {
        Timestamp::START + self.started.elapsed()
    }

    /// Returns the local URI of the face, which is the remote URI of the router's face. `None` if
    /// it can't be determined.
    pub fn local_uri(&self) -> Option<FaceUri> {
        let status = self.faces.status(self.face)?;
        match (status.local_uri, status.uri) {
            // A wildcard socket: the route to the router determines the address that it sees.
            (FaceUri::Udp(own), FaceUri::Udp(router)) if own.ip().is_unspecified() => {
                let probe = UdpSocket::bind((own.ip(), 0)).ok()?;
                probe.connect(router).ok()?;
                Some(FaceUri::Udp(SocketAddr::new(probe.local_addr().ok()?.ip(), own.port())))
            }
            (own, _) => Some(own),
        }
    }

    /// Returns the bytes that wait because the socket buffer is full.
    pub fn queue_bytes(&self) -> usize {
        self.faces.status(self.face).map_or(0, |status| status.queue_bytes)
    }

    /// Queues a packet, which is sent by the next [`poll`](Self::poll) or [`flush`](Self::flush).
    pub fn send(&mut self, wire: &[u8]) {
        self.outgoing.send(wire);
    }

    /// Queues a packet with link fields.
    pub fn send_with(&mut self, wire: &[u8], link: LinkFields) {
        self.outgoing.send_with(wire, link);
    }

    /// Queues a packet that `write` appends to a buffer, which may already contain other packets.
    pub fn send_written(&mut self, link: LinkFields, write: impl FnOnce(&mut Vec<u8>)) {
        self.outgoing.send_written(link, write);
    }

    /// Writes queued packets as far as the socket accepts them.
    pub fn flush(&mut self) {
        let now = self.now();
        let mut start = 0;
        for (end, link) in self.outgoing.packets.drain(..) {
            let packet = match self.pool.copy_of(&self.outgoing.bytes[start..end]) {
                Some(packet) => packet,
                None => {
                    // All buffers hold packets of this loop: writing them frees buffers, or moves
                    // their bytes to the face's queue.
                    self.faces.flush(&mut self.pool);
                    let Some(packet) = self.pool.copy_of(&self.outgoing.bytes[start..end]) else {
                        break;
                    };
                    packet
                }
            };
            start = end;
            self.pool.meta_mut(&packet).link = link;
            // The packet is decoded so that the face counts it by kind.
            if nw_element_api::decode::decode(&mut self.pool, &packet).is_ok() {
                self.faces.send(now, self.face, packet, &mut self.pool);
            } else {
                self.pool.release(packet);
            }
        }
        self.outgoing.bytes.clear();
        self.faces.flush(&mut self.pool);
    }

    /// Writes queued packets, waits for packets for at most `timeout` (forever if `None`), and
    /// passes each to `handler`. Returns the number of packets received.
    ///
    /// # Errors
    /// If the connection is closed, or the flag of [`stop_when`](Self::stop_when) is set.
    pub fn poll(
        &mut self,
        timeout: Option<Duration>,
        mut handler: impl FnMut(Timestamp, Received<'_>, &mut Outgoing),
    ) -> Result<usize, ClientError> {
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(ClientError::Interrupted);
        }
        self.flush();
        let mut events = [const { MaybeUninit::uninit() }; 4];
        let ready = self.wait_ready(timeout, &mut events)?;
        let now = self.now();
        let mut received = 0;
        let mut batch = core::mem::take(&mut self.batch);
        for event in ready.iter().map(Some).chain([None]) {
            match event {
                Some(event) => {
                    self.faces.on_ready(
                        now,
                        event.data.u64(),
                        event.flags,
                        &mut self.pool,
                        &mut batch,
                    );
                }
                None => {
                    self.faces.tick(now, &mut self.pool);
                    // Packets received before a write failed.
                    self.faces.take_last_packets(&mut batch);
                }
            }
            for packet in batch.drain(..) {
                received += 1;
                let packet_view =
                    Received { wire: self.pool.bytes(&packet), meta: self.pool.meta(&packet) };
                handler(now, packet_view, &mut self.outgoing);
                self.pool.release(packet);
                if self.outgoing.bytes.len() >= OUTGOING_BYTES_MAX {
                    self.flush();
                }
            }
        }
        self.batch = batch;
        match self.take_face_events(now) {
            Some(reason) => Err(ClientError::Closed(reason)),
            None => {
                self.flush();
                Ok(received)
            }
        }
    }

    /// Waits until the face is ready or has to be served, for at most `timeout`.
    fn wait_ready<'e>(
        &self,
        timeout: Option<Duration>,
        events: &'e mut [MaybeUninit<epoll::Event>],
    ) -> Result<&'e [epoll::Event], ClientError> {
        let wake = self.faces.deadline().map(|deadline| deadline.since(self.now()));
        let stop_check = self.stop.as_ref().map(|_| STOP_LATENCY);
        // The write may have detected the end of the connection.
        let ended = self.faces.has_events().then_some(Duration::ZERO);
        let timeout = [timeout, wake, stop_check, ended].into_iter().flatten().min();
        let timespec = timeout.map(|t| rustix::time::Timespec {
            tv_sec: t.as_secs() as i64,
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        match epoll::wait(&self.epoll, events, timespec.as_ref()) {
            Ok((ready, _)) => Ok(ready),
            Err(Errno::INTR) => Ok(&[]),
            Err(errno) => Err(ClientError::System { what: "waiting for packets", errno }),
        }
    }

    /// Takes the events of the face. Returns why it was closed, if it was.
    fn take_face_events(&mut self, now: Timestamp) -> Option<CloseReason> {
        let mut closed = None;
        for event in self.faces.events() {
            match event {
                FaceEvent::Destroyed(status, reason) if status.id == self.face => {
                    closed = Some(reason)
                }
                FaceEvent::Down(face) if face == self.face => {
                    self.lost_at = self.lost_at.or(Some(now))
                }
                FaceEvent::Up(face) if face == self.face && self.lost_at.take().is_some() => {
                    self.connections += 1;
                }
                _ => {}
            }
        }
        closed
    }

    /// Polls until the handler calls [`Outgoing::stop`], or `until` returns true (called at least
    /// every 100 ms).
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn run(
        &mut self,
        mut handler: impl FnMut(Timestamp, Received<'_>, &mut Outgoing),
        mut until: impl FnMut() -> bool,
    ) -> Result<(), ClientError> {
        self.outgoing.stop = false;
        while !self.outgoing.stop && !until() {
            self.poll(Some(Duration::from_millis(100)), &mut handler)?;
        }
        self.flush();
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.batch.drain(..).for_each(|packet| self.pool.release(packet));
        self.faces.close_all(&mut self.pool);
    }
}

impl core::fmt::Debug for Client {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Client")
            .field("face", &self.face)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}
