//! The thread of the service: sockets, epoll and timers around [`Node`].
//!
//! Invariant: nothing here blocks except epoll. All decisions are in [`Node`] and the domain.

use crate::blackadder::{Blackadder, Names};
use crate::blackadder_domain::{BlackadderDomain, Settings};
use crate::coalescing::Coalescing;
use crate::domain::Domain;
use crate::node::Node;
use crate::rules::Rules;
use crate::sockets::DomainSockets;
use nw_api::config::{Config, EthernetSockets, PubSub};
use nw_api::pubsub::ScopePattern;
use nw_faces::{EthernetSocket, credentials};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;

const LISTENER: u64 = 0;
const WAKER: u64 = 1;
const PACKETS: u64 = 2;
const INTERFACES: u64 = 3;
const BLACKADDER: u64 = 4;
const BLACKADDER_DOMAIN: u64 = 5;
/// Tokens of connections are their numbers and this.
const FIRST_SESSION: u64 = 16;

/// Events per wait.
const EVENTS_MAX: usize = 256;
/// Bytes of the domain's secret at least.
const SECRET_BYTES_MIN: usize = 16;
/// Connections accepted per step.
const ACCEPTS_PER_STEP: usize = 64;

/// Why the service can't start. The text says what helps.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A rule or a key is invalid.
    #[error("{0}")]
    Rule(String),
    /// Another program listens at the socket.
    #[error("{0}: another program listens there; end it, or choose another path with pubsub.path")]
    InUse(PathBuf),
    /// The system refused something.
    #[error("publish/subscribe: the system refused {request}: {errno}")]
    System {
        /// What was refused.
        request: String,
        /// The error of the operating system.
        errno: Errno,
    },
    /// The thread can't be started.
    #[error("publish/subscribe: can't start a thread: {0}")]
    Thread(std::io::Error),
}

fn refused(request: impl Into<String>) -> impl FnOnce(Errno) -> StartError {
    let request = request.into();
    move |errno| StartError::System { request, errno }
}

/// A running service. It ends when this value is dropped.
#[derive(Debug)]
pub struct PubSubService {
    waker: OwnedFd,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl PubSubService {
    /// Opens the sockets and starts the thread.
    ///
    /// # Errors
    /// If a rule is invalid, or a socket or the thread can't be opened.
    pub fn start(config: &Config, path: &Path) -> Result<Self, StartError> {
        let rules = Rules::parse(&config.pubsub_rule).map_err(StartError::Rule)?;
        let listener = listen(path, config.pubsub.mode.0)?;
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(refused("an event descriptor"))?;
        let (domain, sockets) = match config.pubsub.domain {
            true => {
                let sockets = open_sockets(&config.pubsub)?;
                let secret = random().map_err(refused("random bytes"))?;
                let repair_bytes = config.pubsub.repair_mib as usize * (1 << 20);
                let mut domain = Domain::new(secret, config.pubsub.hello_ms, repair_bytes);
                domain.set_large_trees(config.pubsub.large_trees);
                if let Some(path) = &config.pubsub.domain_key {
                    domain.set_secret(&read_secret(path)?);
                }
                (Some(domain), Some(sockets))
            }
            false => (None, None),
        };
        let settings = Settings::parse(&config.pubsub).map_err(StartError::Rule)?;
        let sockets = match settings.as_ref() {
            Some(settings) => Some(open_sockets(&settings.socket_config(&config.pubsub))?),
            None => sockets,
        };
        let mut node = Node::new(config.pubsub.clone(), rules, domain);
        node.set_kept_patterns(kept_patterns(&config.pubsub)?);
        if let (Some(settings), Some(sockets)) = (settings, &sockets) {
            let names = Names::parse(&config.pubsub.blackadder_names)
                .map_err(|text| StartError::Rule(format!("pubsub.blackadder_names: {text}")))?;
            let mut domain = BlackadderDomain::new(settings, names, config.pubsub.port as u16);
            domain.connect(&mut node).map_err(StartError::Rule)?;
            node.blackadder = Some(Box::new(domain));
            sockets.place_links(&mut node);
        }
        let blackadder = match config.pubsub.blackadder {
            true => Some(Blackadder::open(&config.pubsub, &node).map_err(StartError::Rule)?),
            false => None,
        };
        let service = EventLoop::new(node, listener, &waker, (sockets, blackadder))?;
        let thread = std::thread::Builder::new()
            .name("pubsub".into())
            .spawn(move || service.run())
            .map_err(StartError::Thread)?;
        Ok(PubSubService { waker, thread: Some(thread), path: path.to_owned() })
    }
}

impl Drop for PubSubService {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens the sockets of the domain.
fn open_sockets(config: &PubSub) -> Result<DomainSockets, StartError> {
    if !config.udp && !config.ethernet {
        let what = "pubsub: the nodes of a domain need links; enable pubsub.udp or \
                    pubsub.ethernet, or disable pubsub.domain";
        return Err(StartError::Rule(what.to_owned()));
    }
    let text = match (config.xdp, config.ethernet, &config.domain_key) {
        (true, false, _) => Some("pubsub.xdp needs pubsub.ethernet: enable it too"),
        (false, false, _) if config.ethernet_sockets == EthernetSockets::Xdp => {
            Some("pubsub.ethernet_sockets needs pubsub.ethernet: enable it too")
        }
        (true, true, Some(_)) => Some(
            "pubsub.xdp and pubsub.domain_key exclude each other, as a packet's HMAC changes at \
             each hop: disable one of them",
        ),
        _ => None,
    };
    if let Some(text) = text {
        return Err(StartError::Rule(text.to_owned()));
    }
    if config.ethernet {
        EthernetSocket::may_open()
            .map_err(|error| StartError::Rule(format!("pubsub.ethernet: {error}")))?;
    }
    DomainSockets::open(config).map_err(|(request, errno)| StartError::System { request, errno })
}

/// Returns the patterns of items that this node keeps.
fn kept_patterns(config: &PubSub) -> Result<Vec<ScopePattern>, StartError> {
    let parse = |text: &String| {
        let pattern = text.parse::<ScopePattern>();
        pattern.map_err(|fault| StartError::Rule(format!("pubsub.keep: {text}: {fault}")))
    };
    config.keep.iter().map(parse).collect()
}

/// Reads the secret of the domain.
fn read_secret(path: &Path) -> Result<Vec<u8>, StartError> {
    let unusable = |what: String| StartError::Rule(format!("pubsub.domain_key: {what}"));
    let shown = path.display();
    let secret = fs::read(path).map_err(|error| unusable(format!("{shown}: {error}")))?;
    match secret.len() {
        SECRET_BYTES_MIN.. => Ok(secret),
        len => Err(unusable(format!(
            "{shown} has {len} bytes, at least {SECRET_BYTES_MIN} are needed: make it with `head -c \
             32 /dev/urandom`"
        ))),
    }
}

/// Returns a random identifier for this node; 0 is none.
fn random() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|_| Errno::IO)?;
    Ok(u64::from_ne_bytes(bytes).max(1))
}

/// Opens the listening socket. A socket file that no program listens at is replaced.
fn listen(path: &Path, mode: u32) -> Result<OwnedFd, StartError> {
    let shown = path.display().to_string();
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            return Err(StartError::InUse(path.to_owned()));
        }
        let _ = fs::remove_file(path);
    }
    if let Some(folder) = path.parent() {
        let _ = fs::create_dir_all(folder);
    }
    let address = SocketAddrUnix::new(path).map_err(refused(shown.as_str()))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(refused("a unix socket"))?;
    rustix::net::bind(&socket, &address).map_err(refused(shown.as_str()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        .map_err(refused(shown.as_str()))?;
    rustix::net::listen(&socket, 128).map_err(refused(shown.as_str()))?;
    Ok(socket)
}

/// Returns both ends of the connection to a domain of Blackadder's nodes, with their tokens.
fn domain_ends(node: &Node) -> impl Iterator<Item = (BorrowedFd<'_>, u64)> {
    let domain = node.blackadder.as_ref();
    let own = domain.and_then(|domain| domain.descriptor()).map(|file| (file, BLACKADDER_DOMAIN));
    let session = domain.and_then(|domain| domain.session());
    let other = session.and_then(|id| Some((node.socket(id)?, FIRST_SESSION + id)));
    own.into_iter().chain(other)
}

/// Watches a new connection. Without that it would wait for replies in vain, so it ends.
fn watch_session(epoll: &OwnedFd, node: &mut Node, id: u64) {
    let Some(socket) = node.socket(id) else { return };
    let data = epoll::EventData::new_u64(FIRST_SESSION + id);
    if let Err(errno) = epoll::add(epoll, socket, data, epoll::EventFlags::IN) {
        node.fail(id, &format!("its socket can't be watched: {errno}"));
    }
}

fn is_blackadder(event: &epoll::Event) -> bool {
    event.data.u64() == BLACKADDER
}

/// The loop of the thread.
struct EventLoop {
    node: Node,
    listener: OwnedFd,
    epoll: OwnedFd,
    sockets: Option<DomainSockets>,
    coalescing: Coalescing,
    /// Whether the sockets of the domain are watched: not during pauses of reception.
    is_watching_packets: bool,
    /// Whether packets are left that one step did not receive.
    has_packets: bool,
    blackadder: Option<Blackadder>,
    started: Instant,
}

impl EventLoop {
    fn new(
        node: Node,
        listener: OwnedFd,
        waker: &OwnedFd,
        (sockets, blackadder): (Option<DomainSockets>, Option<Blackadder>),
    ) -> Result<Self, StartError> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused("an epoll descriptor"))?;
        let mut watched = vec![(listener.as_fd(), LISTENER), (waker.as_fd(), WAKER)];
        if let Some(sockets) = &sockets {
            watched.push((sockets.packets(), PACKETS));
            watched.push((sockets.interfaces(), INTERFACES));
        }
        watched.extend(blackadder.as_ref().map(|blackadder| (blackadder.as_fd(), BLACKADDER)));
        watched.extend(domain_ends(&node));
        for (file, token) in watched {
            epoll::add(&epoll, file, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
                .map_err(refused("to watch a descriptor"))?;
        }
        Ok(EventLoop {
            coalescing: Coalescing::new(node.config.coalescing_us),
            node,
            listener,
            epoll,
            sockets,
            blackadder,
            is_watching_packets: true,
            has_packets: false,
            started: Instant::now(),
        })
    }

    fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    /// Returns how long to wait, microseconds. `None`: until something happens.
    fn wait_us(&self, has_more: bool) -> Option<u64> {
        if has_more || self.has_packets {
            return Some(0);
        }
        let programs_ms = self.blackadder.as_ref().and_then(Blackadder::deadline_ms);
        let deadline_ms = self.node.deadline_ms().into_iter().chain(programs_ms).min();
        let deadline_us = deadline_ms.map(|ms| ms.saturating_mul(1000));
        let due_us = deadline_us.into_iter().chain(self.coalescing.due_us()).min()?;
        Some(due_us.saturating_sub(self.now_us()))
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut has_more = false;
        loop {
            let timeout = self.wait_us(has_more).map(|us| rustix::event::Timespec {
                tv_sec: (us / 1_000_000) as i64,
                tv_nsec: (us % 1_000_000 * 1000) as i64,
            });
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return tracing::error!(%errno, "publish/subscribe ends"),
            }
            let now_us = self.now_us();
            for event in &events {
                let flags = event.flags;
                match event.data.u64() {
                    LISTENER => self.accept(),
                    WAKER => return,
                    PACKETS => self.has_packets = true,
                    INTERFACES => self.update_interfaces(),
                    BLACKADDER => {}
                    BLACKADDER_DOMAIN => self.node.with_blackadder(BlackadderDomain::run),
                    token => self.serve(token - FIRST_SESSION, flags),
                }
            }
            if self.has_packets || self.coalescing.due_us().is_some_and(|due_us| now_us >= due_us) {
                self.receive_packets(now_us);
            }
            self.run_programs(now_us / 1000, events.iter().any(is_blackadder));
            self.node.pump_ready();
            self.run_domain(now_us / 1000);
            has_more = self.node.has_ready();
            self.reconnect_domain();
            self.flush();
        }
    }

    fn serve(&mut self, id: u64, flags: epoll::EventFlags) {
        if flags.contains(epoll::EventFlags::OUT) {
            self.node.has_space(id);
        }
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
        {
            self.node.receive(id);
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_STEP {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match rustix::net::accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(errno) => {
                    tracing::warn!(%errno, "can't accept an application");
                    return;
                }
            };
            let Some(credentials) = credentials::of_peer(socket.as_fd()) else { continue };
            let Some(id) = self.node.open(socket, credentials) else {
                tracing::warn!("an application is refused: pubsub.applications is reached");
                continue;
            };
            watch_session(&self.epoll, &mut self.node, id);
        }
    }

    /// Serves programs of Blackadder, if they have something to be read or something waits.
    fn run_programs(&mut self, now_ms: u64, is_readable: bool) {
        let Some(blackadder) = &mut self.blackadder else {
            if let Some(domain) = &mut self.node.blackadder {
                domain.take_scope_notices();
            }
            return;
        };
        blackadder.tell_remote_scopes(&mut self.node, now_ms);
        if !is_readable && blackadder.deadline_ms().is_none() {
            return;
        }
        blackadder.run(&mut self.node, now_ms);
        for id in blackadder.take_new_sessions() {
            watch_session(&self.epoll, &mut self.node, id);
        }
    }

    fn receive_packets(&mut self, now_us: u64) {
        let Some(sockets) = &mut self.sockets else { return };
        let reception = sockets.receive(&mut self.node, now_us / 1000);
        self.has_packets = reception.has_more;
        self.coalescing.record(now_us, reception.packets);
        let is_watching = self.coalescing.due_us().is_none();
        if is_watching == self.is_watching_packets {
            return;
        }
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, is_watching);
        let data = epoll::EventData::new_u64(PACKETS);
        // If it fails, packets are received sooner.
        if epoll::modify(&self.epoll, sockets.packets(), data, flags).is_ok() {
            self.is_watching_packets = is_watching;
        }
    }

    fn update_interfaces(&mut self) {
        if let Some(sockets) = &mut self.sockets {
            sockets.update_interfaces(&mut self.node);
        }
    }

    /// Connects a domain of Blackadder's nodes again, if its connection has ended.
    fn reconnect_domain(&mut self) {
        let mut is_new = false;
        self.node.with_blackadder(|domain, node| is_new = domain.reconnect(node));
        for (file, token) in domain_ends(&self.node).filter(|_| is_new) {
            let data = epoll::EventData::new_u64(token);
            if let Err(errno) = epoll::add(&self.epoll, file, data, epoll::EventFlags::IN) {
                tracing::error!(%errno, "pubsub.blackadder_node: its connection isn't watched");
            }
        }
    }

    fn run_domain(&mut self, now_ms: u64) {
        self.node.run_domain(now_ms);
        if let Some(sockets) = &mut self.sockets {
            sockets.send(&mut self.node);
            sockets.update_kernel(&mut self.node, now_ms);
        }
    }

    /// Sends queued messages. Closed sockets leave epoll by themselves.
    fn flush(&mut self) {
        for (id, interest) in self.node.flush() {
            let Some(socket) = self.node.socket(id) else { continue };
            let mut flags = epoll::EventFlags::empty();
            flags.set(epoll::EventFlags::IN, interest.messages);
            flags.set(epoll::EventFlags::OUT, interest.space);
            let data = epoll::EventData::new_u64(FIRST_SESSION + id);
            let _ = epoll::modify(&self.epoll, socket, data, flags);
        }
    }
}
