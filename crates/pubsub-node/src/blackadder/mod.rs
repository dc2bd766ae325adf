//! Programs of Blackadder 0.4: their datagrams, on a unix socket and on netlink.
//!
//! ```text
//! program ─▶ node socket ─▶ Bridge ─▶ Node (a connection for each program)
//! program ◀─ outbox ◀────── Bridge ◀─ that connection
//! ```
//!
//! Invariants: a program is the process that the kernel says sent the datagram, and a datagram that
//! names another process is refused; a program ends with its process; one that does not read is
//! left alone with its own connection, where the node counts what it loses.

mod bridge;
mod names;
mod program;
mod publish;
#[cfg(test)]
mod tests;

use crate::node::Node;
use crate::session::SessionId;
use bridge::Bridge;
pub use bridge::PROGRAM;
pub use names::Names;
use nw_api::config::PubSub;
use nw_api::pubsub::Event;
use nw_faces::blackadder::{NodeSocket, ProgramAddress, ProgramSocket, Received};
use nw_faces::credentials::Credentials;
use nw_wire::publication::{ApplicationMessage, NETLINK_PORT, NetlinkHeader};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Datagrams of one socket that one step handles.
const DATAGRAMS_PER_STEP: usize = 64;
/// Bytes of a datagram at most. The system's limits for sockets are usually below.
const DATAGRAM_BYTES_MAX: usize = 1 << 20;
/// Bytes that wait for a program above which no more are taken from the node.
const OUTBOX_BYTES_PAUSE: usize = 64 << 10;
/// Times between attempts to send to a netlink socket that is full.
const RETRY_MS: u64 = 2;
const EVENTS_MAX: usize = 64;

/// Descriptors of a program in epoll: its number and one of these.
const CONNECTION: u64 = 0;
const EXIT: u64 = 1;
const SPACE: u64 = 2;
/// Tokens of the node's sockets are above those of programs.
const SOCKETS: u64 = 1 << 63;

/// How a program is reached, and noticed to end.
#[derive(Debug)]
struct Link {
    pid: u32,
    address: ProgramAddress,
    socket: ProgramSocket,
    /// Readable once the process has ended.
    exit: OwnedFd,
    is_full: bool,
}

/// The programs of Blackadder of this machine.
#[derive(Debug)]
pub struct Blackadder {
    bridge: Bridge,
    sockets: Vec<NodeSocket>,
    path: PathBuf,
    epoll: OwnedFd,
    links: BTreeMap<SessionId, Link>,
    by_pid: BTreeMap<u32, SessionId>,
    buffer: Vec<u8>,
    /// Sessions whose descriptors the node's loop does not watch yet.
    new_sessions: Vec<SessionId>,
    retry_at_ms: Option<u64>,
}

impl Blackadder {
    /// Opens the sockets of a configuration.
    ///
    /// # Errors
    /// A sentence that says what to change.
    pub fn open(config: &PubSub, node: &Node) -> Result<Self, String> {
        let names = Names::parse(&config.blackadder_names)
            .map_err(|text| format!("pubsub.blackadder_names: {text}"))?;
        let path = config.blackadder_path.clone();
        let mut sockets = vec![open_unix(&path, config.mode.0)?];
        if config.blackadder_netlink {
            let netlink = NodeSocket::open_netlink(NETLINK_PORT).map_err(|errno| match errno {
                Errno::ADDRINUSE => format!(
                    "pubsub.blackadder_netlink: another program has port {NETLINK_PORT} of \
                     generic netlink: end it, or disable this option"
                ),
                errno => format!("pubsub.blackadder_netlink: {errno}"),
            })?;
            sockets.push(netlink);
        }
        let refused = |errno: Errno| format!("pubsub.blackadder: epoll: {errno}");
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused)?;
        for (at, socket) in sockets.iter().enumerate() {
            let token = epoll::EventData::new_u64(SOCKETS + at as u64);
            epoll::add(&epoll, socket, token, epoll::EventFlags::IN).map_err(refused)?;
        }
        Ok(Blackadder {
            bridge: Bridge::new(node, names),
            sockets,
            path,
            epoll,
            links: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            new_sessions: Vec::new(),
            retry_at_ms: None,
        })
    }

    /// Returns when [`run`](Self::run) is to be called even if nothing is readable, milliseconds.
    pub const fn deadline_ms(&self) -> Option<u64> {
        self.retry_at_ms
    }

    /// Returns the connections that are new since the last call.
    pub fn take_new_sessions(&mut self) -> Vec<SessionId> {
        core::mem::take(&mut self.new_sessions)
    }

    /// Handles what is readable, and sends what waits.
    pub fn run(&mut self, node: &mut Node, now_ms: u64) {
        if self.retry_at_ms.is_some_and(|at| at <= now_ms) {
            self.retry_at_ms = None;
            let full = self.links.iter().filter(|(_, link)| link.is_full);
            let full: Vec<SessionId> = full.map(|(session, _)| *session).collect();
            full.into_iter().for_each(|session| self.send(node, session, now_ms));
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let buffer = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(&self.epoll, buffer, Some(&now)).is_err() {
            return;
        }
        for event in &events {
            match event.data.u64() {
                token if token >= SOCKETS => {
                    self.receive(node, (token - SOCKETS) as usize, now_ms);
                }
                token if token % 4 == EXIT => self.end(node, token / 4),
                token if token % 4 == SPACE => self.send(node, token / 4, now_ms),
                token => self.take_events(node, token / 4, now_ms),
            }
        }
        self.send_all(node, now_ms);
    }

    /// Tells programs which scopes other nodes of a Blackadder domain published or withdrew.
    pub fn tell_remote_scopes(&mut self, node: &mut Node, now_ms: u64) {
        let Some(domain) = &mut node.blackadder else { return };
        let notices = domain.take_scope_notices();
        if !notices.is_empty() {
            self.bridge.tell_remote_scopes(&notices);
            self.send_all(node, now_ms);
        }
    }

    fn receive(&mut self, node: &mut Node, index: usize, now_ms: u64) {
        for _ in 0..DATAGRAMS_PER_STEP {
            let Some(socket) = self.sockets.get(index) else { return };
            let mut buffer = core::mem::take(&mut self.buffer);
            let received = socket.receive(&mut buffer);
            let is_last = match received {
                Ok(Some(received)) => {
                    let outcome = self.take_datagram(node, index, &received, &buffer);
                    if let Err(text) = outcome {
                        node.counters.refusals += 1;
                        tracing::debug!("blackadder: a datagram is refused: {text}");
                    }
                    false
                }
                Ok(None) => true,
                // What a netlink socket could not hold is lost to the sender only.
                Err(errno) => {
                    tracing::debug!(%errno, "blackadder: a socket");
                    true
                }
            };
            self.buffer = buffer;
            if is_last {
                return;
            }
        }
        self.send_all(node, now_ms);
    }

    /// Handles a datagram.
    fn take_datagram(
        &mut self,
        node: &mut Node,
        index: usize,
        received: &Received,
        buffer: &[u8],
    ) -> Result<(), String> {
        let sender = received.sender.filter(|sender| sender.pid != 0);
        let sender = sender.ok_or("its process is not of this machine's namespace")?;
        if received.is_cut {
            return Err(format!("it has more than {DATAGRAM_BYTES_MAX} bytes"));
        }
        let datagram = &buffer[..received.len];
        let (header, body) = NetlinkHeader::parse(datagram).map_err(|error| error.to_string())?;
        if header.pid != sender.pid {
            return Err(format!("process {} sent it as {}", sender.pid, header.pid));
        }
        let message = ApplicationMessage::parse(body).map_err(|error| error.to_string())?;
        let address = received.address.as_ref().ok_or("its socket has no name")?;
        let session = match self.by_pid.get(&sender.pid) {
            Some(session) => {
                let known = self.links.get(session).map(|link| &link.address);
                if known != Some(address) {
                    return Err("its process has another socket in use".into());
                }
                *session
            }
            None if message == ApplicationMessage::Disconnect => return Ok(()),
            None => self.open_program(node, index, sender, address)?,
        };
        if !self.bridge.handle(node, session, message) {
            self.end(node, session);
        }
        Ok(())
    }

    fn open_program(
        &mut self,
        node: &mut Node,
        index: usize,
        sender: Credentials,
        address: &ProgramAddress,
    ) -> Result<SessionId, String> {
        let pid = i32::try_from(sender.pid).ok().and_then(Pid::from_raw);
        let exit = pid.ok_or(Errno::SRCH).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let exit = exit.map_err(|errno| format!("its process has ended: {errno}"))?;
        let socket = self.sockets.get(index).ok_or(Errno::BADF);
        let socket = socket.and_then(|socket| socket.sender_to(address));
        let socket = socket.map_err(|errno| format!("its socket can't be written: {errno}"))?;
        let session = self.bridge.open(node, sender).ok_or("pubsub.applications is reached")?;
        let link = Link { pid: sender.pid, address: address.clone(), socket, exit, is_full: false };
        let watched = self.watch(session, &link);
        self.links.insert(session, link);
        self.by_pid.insert(sender.pid, session);
        self.new_sessions.push(session);
        if let Err(errno) = watched {
            self.end(node, session);
            return Err(format!("its descriptors can't be watched: {errno}"));
        }
        Ok(session)
    }

    fn watch(&self, session: SessionId, link: &Link) -> Result<(), Errno> {
        let add = |file: BorrowedFd<'_>, kind: u64, flags| {
            epoll::add(&self.epoll, file, epoll::EventData::new_u64(4 * session + kind), flags)
        };
        if let Some(program) = self.bridge.programs.get(&session) {
            add(program.connection.as_fd(), CONNECTION, epoll::EventFlags::IN)?;
        }
        add(link.exit.as_fd(), EXIT, epoll::EventFlags::IN)?;
        match link.socket.waitable() {
            // Reported only while something waits; errors are always reported.
            Some(file) => add(file, SPACE, epoll::EventFlags::ET),
            None => Ok(()),
        }
    }

    /// Takes what the node sends to a program, while not much waits for it.
    fn take_events(&mut self, node: &mut Node, session: SessionId, now_ms: u64) {
        loop {
            let Some(program) = self.bridge.programs.get_mut(&session) else { return };
            let received = program.connection.receive();
            while let Some(program) = self.bridge.programs.get_mut(&session) {
                match program.connection.next_frame() {
                    Ok(Some(frame)) => {
                        if let Ok(event) = Event::decode(frame.kind, &frame.body) {
                            self.bridge.handle_event(node, session, event);
                        }
                    }
                    Ok(None) => break,
                    Err(_) => return self.end(node, session),
                }
            }
            self.send(node, session, now_ms);
            let waiting =
                self.bridge.programs.get(&session).map_or(0, program::Program::outbox_bytes);
            match received {
                Ok(true) if waiting < OUTBOX_BYTES_PAUSE => {}
                Ok(_) => return,
                Err(_) => return self.end(node, session),
            }
        }
    }

    fn send_all(&mut self, node: &mut Node, now_ms: u64) {
        let programs = self.bridge.programs.values();
        let waiting = programs.filter(|p| p.next_datagram().is_some() || p.is_stalled);
        let waiting: Vec<SessionId> = waiting.map(|program| program.session).collect();
        for session in waiting {
            let is_full = self.links.get(&session).is_some_and(|link| link.is_full);
            let is_stalled = self.bridge.programs.get(&session).is_some_and(|p| p.is_stalled);
            if is_stalled {
                tracing::warn!(session, "blackadder: a program that reads nothing is ended");
                node.counters.faults += 1;
                self.end(node, session);
            } else if !is_full {
                self.send(node, session, now_ms);
            }
        }
    }

    /// Sends what waits for a program, as far as it takes it.
    fn send(&mut self, node: &mut Node, session: SessionId, now_ms: u64) {
        let Some(program) = self.bridge.programs.get_mut(&session) else { return };
        let Some(link) = self.links.get_mut(&session) else { return };
        let was_full = link.is_full;
        link.is_full = false;
        while let Some(datagram) = program.next_datagram() {
            match link.socket.send(datagram) {
                Ok(()) => program.pop_datagram(),
                Err(Errno::AGAIN | Errno::NOBUFS) => {
                    link.is_full = true;
                    break;
                }
                Err(Errno::INTR) => {}
                Err(errno @ Errno::MSGSIZE) => {
                    tracing::warn!(session, %errno, "blackadder: a publication is dropped");
                    program.pop_datagram();
                }
                // Its socket is closed, whether or not its process goes on.
                Err(_) => return self.end(node, session),
            }
        }
        if link.is_full && link.socket.waitable().is_none() {
            self.retry_at_ms = Some(now_ms + RETRY_MS);
        }
        if link.is_full != was_full {
            self.update_interest(session);
        }
    }

    /// Watches a full program for space, and its connection only while there is space.
    fn update_interest(&self, session: SessionId) {
        let Some(link) = self.links.get(&session) else { return };
        let modify = |file: BorrowedFd<'_>, kind: u64, flags| {
            let token = epoll::EventData::new_u64(4 * session + kind);
            let _ = epoll::modify(&self.epoll, file, token, flags);
        };
        let (reads, writes) = match link.is_full {
            true => (epoll::EventFlags::empty(), epoll::EventFlags::OUT),
            false => (epoll::EventFlags::IN, epoll::EventFlags::ET),
        };
        if let Some(program) = self.bridge.programs.get(&session) {
            modify(program.connection.as_fd(), CONNECTION, reads);
        }
        if let Some(file) = link.socket.waitable() {
            modify(file, SPACE, writes);
        }
    }

    /// Ends a program: it said so, it is gone, or the node ended its connection.
    fn end(&mut self, node: &mut Node, session: SessionId) {
        if let Some(link) = self.links.remove(&session) {
            self.by_pid.remove(&link.pid);
        }
        self.bridge.end(node, session);
    }
}

impl AsFd for Blackadder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for Blackadder {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Opens the unix socket. A socket file that no program listens at is replaced.
fn open_unix(path: &Path, mode: u32) -> Result<NodeSocket, String> {
    let shown = path.display();
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if NodeSocket::is_in_use(path) {
            return Err(format!(
                "{shown}: another program listens there; end it, or choose another path with \
                 pubsub.blackadder_path"
            ));
        }
        let _ = fs::remove_file(path);
    }
    let refused = |what: &dyn core::fmt::Display| format!("pubsub.blackadder: {shown}: {what}");
    let socket = NodeSocket::open_unix(path).map_err(|errno| refused(&errno))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| refused(&error))?;
    Ok(socket)
}
