//! One face to a router, and a loop that an application turns.
//!
//! The same transports and link service the router uses, so batching, framing and bounds are the same. Single-threaded: [`Client::turn`] waits
//! for packets and shows each to a handler, which may answer.

use core::mem::MaybeUninit;
use core::time::Duration;
use nw_element_api::{FaceId, Instant, Kind, LinkFields, Meta, Packet, Pool};
use nw_faces::{CloseReason, FaceError, FaceEvent, FaceOptions, FaceUri, Faces, FacesConfig, Persistency};
use nw_name::{HashKey, NameRef};
use nw_wire::{NackReason, Token};
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time;

/// Why talking to the router failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Where the router is can't be known.
    #[error(transparent)]
    Transport(#[from] crate::transport::TransportError),
    /// No face could be made.
    #[error(transparent)]
    Face(#[from] FaceError),
    /// The system refused something a program always needs.
    #[error("the system refused {what}: {errno}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        errno: Errno,
    },
    /// The router went away.
    #[error("the router closed the connection ({0})")]
    Closed(CloseReason),
    /// The flag of [`Client::stop_when`] was set.
    #[error("interrupted")]
    Interrupted,
    /// The router did not answer the connection in time.
    #[error("no connection to {0} within {1:?}")]
    ConnectTimeout(FaceUri, Duration),
}

/// A packet that came from the router.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Its bytes, without link header.
    pub wire: &'a [u8],
    meta: &'a Meta,
}

impl<'a> Received<'a> {
    /// What it is.
    pub const fn kind(&self) -> Kind {
        self.meta.kind
    }

    /// Its name.
    pub fn name(&self) -> NameRef<'a> {
        self.meta.name_in(self.wire)
    }

    /// Of an Interest: whether a longer name may answer.
    pub const fn can_be_prefix(&self) -> bool {
        self.meta.can_be_prefix
    }

    /// The PIT token that an answer must carry.
    pub const fn token(&self) -> Token {
        self.meta.link.token
    }

    /// On a Nack.
    pub const fn nack(&self) -> Option<NackReason> {
        self.meta.link.nack
    }

    /// True when the way it came is congested.
    pub const fn is_marked(&self) -> bool {
        self.meta.link.congestion_mark != 0
    }

    /// The face by which the router got it, if it tells.
    pub const fn incoming_face(&self) -> FaceId {
        self.meta.link.incoming_face
    }
}

/// Packets to be sent when the handler returns.
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

    /// Sends an answer that carries back the asker's token.
    pub fn answer(&mut self, to: &Received<'_>, wire: &[u8]) {
        self.send_with(wire, LinkFields { token: to.token(), ..LinkFields::default() });
    }

    /// Refuses an Interest.
    pub fn nack(&mut self, interest: &Received<'_>, reason: NackReason) {
        let link = LinkFields { token: interest.token(), nack: Some(reason), ..LinkFields::default() };
        self.send_with(interest.wire, link);
    }

    /// Sends a packet with link fields.
    pub fn send_with(&mut self, wire: &[u8], link: LinkFields) {
        self.bytes.extend_from_slice(wire);
        self.packets.push((self.bytes.len(), link));
    }

    /// Sends a packet that `write` appends to a buffer, which holds others before it.
    pub fn send_written(&mut self, link: LinkFields, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.packets.push((self.bytes.len(), link));
    }

    /// Asks [`Client::run`] to return.
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
    /// Connections made so far; 0 until the first is up.
    connections: u64,
    /// Since when there is no connection.
    lost_at: Option<Instant>,
}

/// The first pause before a lost connection is made again; it doubles with each attempt.
const RECONNECT_FIRST: Duration = Duration::from_millis(100);
/// The longest such pause: a restarted router has its applications back within this time.
const RECONNECT_MAX: Duration = Duration::from_secs(2);

/// The PIT token of Interests whose sender needs none: it tells a router that this end returns tokens, so the router may send its own.
///
/// It has 6 bytes: NDNd 1.5.3 ends with a panic when a consumer's token has any other length.
pub fn plain_token() -> Token {
    Token::new(b"nw-app").expect("6 bytes fit a token")
}

/// How late a set flag may be seen.
const STOP_LATENCY: Duration = Duration::from_millis(100);

/// Chunks for what is read and what waits to be written.
const CHUNKS_MAX: usize = 128;
/// Packets under way inside the client.
const PACKETS_MAX: usize = 16_384;
/// So many octets of answers are written before more requests are shown: they are copied on while a processor's cache still has them.
const OUTGOING_BYTES_MAX: usize = 128 << 10;

impl Client {
    /// To the router that [`transport::default_uri`](crate::transport::default_uri) finds.
    ///
    /// # Errors
    /// When it can't be reached.
    pub fn connect_default() -> Result<Self, ClientError> {
        Self::connect(&crate::transport::default_uri()?)
    }

    /// To the router at `uri`: `unix://`, `shm://`, `tcp4://`, `tcp6://`, `udp4://` or `udp6://`. The addresses of a host name are tried one after the other.
    ///
    /// # Errors
    /// When it can't be reached: why the last address did not do.
    pub fn connect(uri: &FaceUri) -> Result<Self, ClientError> {
        let addresses = uri.resolve().map_err(FaceError::from)?;
        let mut error = None;
        for address in &addresses {
            match Self::connect_address(address) {
                Ok(client) => return Ok(client),
                Err(refused) => error = Some(refused),
            }
        }
        Err(error.unwrap_or_else(|| ClientError::Face(FaceError::NotCanonical(uri.clone()))))
    }

    fn connect_address(uri: &FaceUri) -> Result<Self, ClientError> {
        let system = |what| move |errno| ClientError::System { what, errno };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("an epoll descriptor"))?;
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)
            .map_err(|_| ClientError::System { what: "random octets", errno: Errno::IO })?;
        let words = core::array::from_fn(|i| u64::from_le_bytes(core::array::from_fn(|j| secret[8 * i + j])));
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
        let face = faces.connect(Instant::START, uri, None, &FaceOptions::default())?;
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
        const PATIENCE: Duration = Duration::from_secs(5);
        while !self.faces.status(self.face).is_some_and(|status| status.up) {
            if self.now().since(Instant::START) > PATIENCE {
                return Err(ClientError::ConnectTimeout(uri.clone(), PATIENCE));
            }
            self.turn(Some(Duration::from_millis(50)), |_, _, _| {})?;
        }
        Ok(())
    }

    /// Makes a lost connection again, with growing pauses, instead of ending with [`ClientError::Closed`]. False for transports that notice no loss
    /// or can't be connected again. The application looks at [`connections`](Self::connections): registrations end with a connection.
    pub fn reconnect_when_lost(&mut self) -> bool {
        let permanent = FaceOptions { persistency: Some(Persistency::Permanent), ..FaceOptions::default() };
        self.faces.update(self.now(), self.face, &permanent).is_ok()
    }

    /// Number of connections made so far, at least 1. It grows when a lost connection is made again.
    pub const fn connections(&self) -> u64 {
        self.connections
    }

    /// For how long there has been no connection; `None` while there is one.
    pub fn lost_for(&self) -> Option<Duration> {
        self.lost_at.map(|at| self.now().since(at))
    }

    /// Makes every wait end with [`ClientError::Interrupted`], within 100 ms, once the flag is set: as by Ctrl-C.
    pub fn stop_when(&mut self, flag: Arc<AtomicBool>) {
        self.stop = Some(flag);
    }

    /// Time since this client was made.
    pub fn now(&self) -> Instant {
        Instant::START + self.started.elapsed()
    }

    /// This end of its face: what the router calls the face's far end. `None` when that can't be known.
    pub fn local_uri(&self) -> Option<FaceUri> {
        let status = self.faces.status(self.face)?;
        match (status.local_uri, status.uri) {
            // A socket for all addresses: the route to the router tells which of them it sees.
            (FaceUri::Udp(own), FaceUri::Udp(router)) if own.ip().is_unspecified() => {
                let probe = UdpSocket::bind((own.ip(), 0)).ok()?;
                probe.connect(router).ok()?;
                Some(FaceUri::Udp(SocketAddr::new(probe.local_addr().ok()?.ip(), own.port())))
            }
            (own, _) => Some(own),
        }
    }

    /// Octets that wait because the socket is full.
    pub fn queue_bytes(&self) -> usize {
        self.faces.status(self.face).map_or(0, |status| status.queue_bytes)
    }

    /// Queues a packet; it leaves with the next [`turn`](Self::turn) or [`flush`](Self::flush).
    pub fn send(&mut self, wire: &[u8]) {
        self.outgoing.send(wire);
    }

    /// Queues a packet with link fields.
    pub fn send_with(&mut self, wire: &[u8], link: LinkFields) {
        self.outgoing.send_with(wire, link);
    }

    /// Queues a packet that `write` appends to a buffer, which holds others before it.
    pub fn send_written(&mut self, link: LinkFields, write: impl FnOnce(&mut Vec<u8>)) {
        self.outgoing.send_written(link, write);
    }

    /// Writes what is queued, as far as the socket takes it.
    pub fn flush(&mut self) {
        let now = self.now();
        let mut start = 0;
        for (end, link) in self.outgoing.packets.drain(..) {
            let packet = match self.pool.copy_of(&self.outgoing.bytes[start..end]) {
                Some(packet) => packet,
                None => {
                    // All buffers hold packets of this very loop: writing them frees buffers, or moves their bytes to the face's queue.
                    self.faces.flush(&mut self.pool);
                    let Some(packet) = self.pool.copy_of(&self.outgoing.bytes[start..end]) else { break };
                    packet
                }
            };
            start = end;
            self.pool.meta_mut(&packet).link = link;
            // What the packet is decides how the face counts it.
            if nw_element_api::decode::decode(&mut self.pool, &packet).is_ok() {
                self.faces.send(now, self.face, packet, &mut self.pool);
            } else {
                self.pool.release(packet);
            }
        }
        self.outgoing.bytes.clear();
        self.faces.flush(&mut self.pool);
    }

    /// Writes what is queued, waits for packets at most `timeout` (for ever if `None`), and shows each to `handler`. Returns how many came.
    ///
    /// # Errors
    /// When the router went away, or [`stop_when`](Self::stop_when)'s flag is set.
    pub fn turn(
        &mut self,
        timeout: Option<Duration>,
        mut handler: impl FnMut(Instant, Received<'_>, &mut Outgoing),
    ) -> Result<usize, ClientError> {
        if self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(ClientError::Interrupted);
        }
        self.flush();
        let wake = self.faces.deadline().map(|deadline| deadline.since(self.now()));
        let look = self.stop.as_ref().map(|_| STOP_LATENCY);
        // A write just now may have found the connection ended.
        let ended = self.faces.has_events().then_some(Duration::ZERO);
        let timeout = [timeout, wake, look, ended].into_iter().flatten().min();
        let timespec = timeout.map(|t| rustix::time::Timespec {
            tv_sec: t.as_secs() as i64,
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        let mut events = [const { MaybeUninit::uninit() }; 4];
        let ready: &[epoll::Event] = match epoll::wait(&self.epoll, &mut events, timespec.as_ref()) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => &[],
            Err(errno) => return Err(ClientError::System { what: "to wait for packets", errno }),
        };
        let now = self.now();
        let mut received = 0;
        let mut batch = core::mem::take(&mut self.batch);
        for event in ready.iter().map(Some).chain([None]) {
            match event {
                Some(event) => {
                    self.faces.on_ready(now, event.data.u64(), event.flags, &mut self.pool, &mut batch);
                }
                None => {
                    self.faces.tick(now, &mut self.pool);
                    // What came before a write failed.
                    self.faces.take_last_packets(&mut batch);
                }
            }
            for packet in batch.drain(..) {
                received += 1;
                let seen = Received { wire: self.pool.bytes(&packet), meta: self.pool.meta(&packet) };
                handler(now, seen, &mut self.outgoing);
                self.pool.release(packet);
                if self.outgoing.bytes.len() >= OUTGOING_BYTES_MAX {
                    self.flush();
                }
            }
        }
        self.batch = batch;
        let mut closed = None;
        for event in self.faces.events() {
            match event {
                FaceEvent::Destroyed(status, reason) if status.id == self.face => closed = Some(reason),
                FaceEvent::Down(face) if face == self.face => self.lost_at = self.lost_at.or(Some(now)),
                FaceEvent::Up(face) if face == self.face && self.lost_at.take().is_some() => {
                    self.connections += 1;
                }
                _ => {}
            }
        }
        match closed {
            Some(reason) => Err(ClientError::Closed(reason)),
            None => {
                self.flush();
                Ok(received)
            }
        }
    }

    /// Turns until the handler calls [`Outgoing::stop`], or `until` returns true (asked at least every 100 ms).
    ///
    /// # Errors
    /// When the router went away.
    pub fn run(
        &mut self,
        mut handler: impl FnMut(Instant, Received<'_>, &mut Outgoing),
        mut until: impl FnMut() -> bool,
    ) -> Result<(), ClientError> {
        self.outgoing.stop = false;
        while !self.outgoing.stop && !until() {
            self.turn(Some(Duration::from_millis(100)), &mut handler)?;
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
        f.debug_struct("Client").field("face", &self.face).field("pool", &self.pool).finish_non_exhaustive()
    }
}
