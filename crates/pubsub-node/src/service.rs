//! The thread of the service: sockets, epoll and timers around [`Node`].
//!
//! Invariant: nothing here blocks except epoll. All decisions are in [`Node`] and the domain.

use crate::domain::Domain;
use crate::node::Node;
use crate::remote::DomainSockets;
use crate::rules::Rules;
use nw_api::config::Config;
use nw_faces::credentials;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;

const LISTENER: u64 = 0;
const WAKER: u64 = 1;
const DATAGRAMS: u64 = 2;
const INTERFACES: u64 = 3;
/// Tokens of connections are their numbers and this.
const FIRST_SESSION: u64 = 16;

/// Events per wait.
const EVENTS_MAX: usize = 256;
/// Connections accepted per step.
const ACCEPTS_PER_STEP: usize = 64;

/// Why the service can't start. The text says what helps.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A rule is invalid.
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
                let sockets = DomainSockets::open(&config.pubsub)
                    .map_err(refused(format!("UDP port {}", config.pubsub.port)))?;
                let secret = random().map_err(refused("random bytes"))?;
                (Some(Domain::new(secret, config.pubsub.hello_ms)), Some(sockets))
            }
            false => (None, None),
        };
        let node = Node::new(config.pubsub.clone(), rules, domain);
        let service = EventLoop::new(node, listener, &waker, sockets)?;
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

/// The loop of the thread.
struct EventLoop {
    node: Node,
    listener: OwnedFd,
    epoll: OwnedFd,
    sockets: Option<DomainSockets>,
    started: Instant,
}

impl EventLoop {
    fn new(
        node: Node,
        listener: OwnedFd,
        waker: &OwnedFd,
        sockets: Option<DomainSockets>,
    ) -> Result<Self, StartError> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused("an epoll descriptor"))?;
        let mut watched = vec![(listener.as_fd(), LISTENER), (waker.as_fd(), WAKER)];
        if let Some(sockets) = &sockets {
            watched.push((sockets.datagrams(), DATAGRAMS));
            watched.push((sockets.interfaces(), INTERFACES));
        }
        for (file, token) in watched {
            epoll::add(&epoll, file, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
                .map_err(refused("to watch a descriptor"))?;
        }
        Ok(EventLoop { node, listener, epoll, sockets, started: Instant::now() })
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut has_more = false;
        loop {
            let now_ms = self.now_ms();
            let wait_ms = match (has_more, self.node.deadline_ms()) {
                (true, _) => Some(0),
                (false, Some(deadline)) => Some(deadline.saturating_sub(now_ms)),
                (false, None) => None,
            };
            let timeout = wait_ms.map(|ms| rustix::event::Timespec {
                tv_sec: (ms / 1000) as i64,
                tv_nsec: (ms % 1000 * 1_000_000) as i64,
            });
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return tracing::error!(%errno, "publish/subscribe ends"),
            }
            for event in &events {
                let flags = event.flags;
                match event.data.u64() {
                    LISTENER => self.accept(),
                    WAKER => return,
                    DATAGRAMS => self.receive_datagrams(),
                    INTERFACES => self.update_interfaces(),
                    token => self.serve(token - FIRST_SESSION, flags),
                }
            }
            has_more = self.node.pump_ready();
            self.run_domain();
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
            if let Some(socket) = self.node.socket(id) {
                let data = epoll::EventData::new_u64(FIRST_SESSION + id);
                let _ = epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN);
            }
        }
    }

    fn receive_datagrams(&mut self) {
        let now_ms = self.now_ms();
        if let Some(sockets) = &mut self.sockets {
            sockets.receive(&mut self.node, now_ms);
        }
    }

    fn update_interfaces(&mut self) {
        if let Some(sockets) = &mut self.sockets {
            sockets.update_interfaces(&mut self.node);
        }
    }

    fn run_domain(&mut self) {
        let now_ms = self.now_ms();
        self.node.run_domain(now_ms);
        if let Some(sockets) = &mut self.sockets {
            sockets.send(&mut self.node);
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
