//! The connection to a node: requests, replies, and messages that arrive between them.

use crate::transport;
use core::time::Duration;
use nw_api::pubsub::{Event, Reply, Request, VERSION};
use nw_faces::local_pubsub::{FrameSocket, ReaderPage, RingFault, SocketFault};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Reads of the socket per call: a node that sends without end can't keep a call busy.
const READS_MAX: usize = 64;
/// Time that a node has to reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Errors of publish/subscribe. The text says what helps.
#[derive(Debug, thiserror::Error)]
pub enum PubSubError {
    /// No node listens.
    #[error(
        "no node with publish/subscribe at {path} ({error}); start one with: nw run, with \
         [pubsub] enabled = true in its configuration"
    )]
    NoNode {
        /// Path of the socket.
        path: PathBuf,
        /// Why it can't be connected.
        error: std::io::Error,
    },
    /// The node refused a request.
    #[error("the node refused: {text}")]
    Refused {
        /// The kind of refusal.
        reply: Reply,
        /// The node's reason.
        text: String,
    },
    /// The connection ended.
    #[error("connection to the node lost: {0}")]
    Lost(SocketFault),
    /// The node does not reply.
    #[error("the node does not reply")]
    Timeout,
    /// The node sent an invalid message, or is of another version.
    #[error("the node at the other end is of another version, or no node")]
    Protocol,
    /// Shared memory can't be created.
    #[error("can't create shared memory: {0}")]
    Memory(Errno),
    /// The system has no random bytes.
    #[error("the system has no random bytes")]
    Random,
    /// A publication can't be signed.
    #[error("a publication can't be signed: {0}")]
    Signature(nw_trust::Error),
    /// A publisher's ring is invalid.
    #[error("a publisher is faulty: {0}")]
    Ring(RingFault),
}

/// How to connect.
#[derive(Clone, Debug)]
pub struct PubSubOptions {
    /// Path of the node's socket.
    pub path: PathBuf,
    /// Name of the program, for the node's status.
    pub program: String,
    /// Whether to use shared memory. Without it publications go through the node.
    pub shared_memory: bool,
    /// Bytes of a publisher's ring, rounded up to a power of two.
    pub ring_bytes: u32,
    /// Largest publication that is received, bytes. Larger ones count as lost.
    pub publication_bytes_max: usize,
}

impl PubSubOptions {
    /// Returns default options for a socket: shared memory, a ring of 8 MiB, publications of up to
    /// 256 MiB.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        PubSubOptions {
            path: path.into(),
            program: program_name(),
            shared_memory: true,
            ring_bytes: 8 << 20,
            publication_bytes_max: 256 << 20,
        }
    }
}

fn program_name() -> String {
    let path = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the path of the publish/subscribe socket of the router at a transport such as
/// `unix:///run/nfd/nfd.sock`; of the default router for `None`.
pub fn default_path(transport: Option<&str>) -> PathBuf {
    let beside = |text: &str| {
        let path = text.strip_prefix("unix://").unwrap_or(text);
        nw_api::config::pubsub_path_beside(Path::new(path))
    };
    if let Some(transport) = transport {
        return beside(transport);
    }
    if let Some(configured) = transport::configured_unix() {
        return nw_api::config::pubsub_path_beside(&configured);
    }
    let runtime =
        std::env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("nfd.sock"));
    let places = runtime.into_iter().chain(transport::SOCKETS.iter().map(PathBuf::from));
    let places: Vec<PathBuf> =
        places.map(|path| nw_api::config::pubsub_path_beside(&path)).collect();
    let first = places.iter().find(|path| path.exists()).or(places.first()).cloned();
    first.unwrap_or_default()
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Connection {
    socket: FrameSocket,
    /// Reader page; `None` without shared memory.
    pub page: Option<ReaderPage>,
    mail: u32,
    /// Largest ring that the node accepts, bytes.
    pub ring_bytes_max: u32,
    /// Most items.
    pub items_max: u32,
    next_request: u32,
    /// Messages that were received and not taken.
    events: VecDeque<(Event, Option<OwnedFd>)>,
    /// Whether the socket may have more than the last call read.
    has_more: bool,
}

impl Connection {
    fn new(socket: UnixStream, page: Option<ReaderPage>) -> Self {
        Connection {
            socket: FrameSocket::new(socket.into()),
            page,
            mail: 0,
            ring_bytes_max: 0,
            items_max: 0,
            next_request: 1,
            events: VecDeque::new(),
            has_more: false,
        }
    }

    /// Connects and waits for the welcome.
    pub fn open(options: &PubSubOptions) -> Result<Self, PubSubError> {
        let path = options.path.clone();
        let socket =
            UnixStream::connect(&path).map_err(|error| PubSubError::NoNode { path, error })?;
        let (page, file) = match options.shared_memory {
            true => {
                let (page, file) = ReaderPage::create().map_err(PubSubError::Memory)?;
                (Some(page), Some(file))
            }
            false => (None, None),
        };
        let mut connection = Connection::new(socket, page);
        let hello = Request::Hello { version: VERSION, program: options.program.clone() };
        connection.send(&hello, file)?;
        let welcome = connection.wait_for(|event| match event {
            Event::Welcome { version, ring_bytes_max, items_max, .. } => {
                Some((*version, *ring_bytes_max, *items_max))
            }
            _ => None,
        })?;
        if welcome.0 != VERSION {
            return Err(PubSubError::Protocol);
        }
        (connection.ring_bytes_max, connection.items_max) = (welcome.1, welcome.2);
        Ok(connection)
    }

    /// Sends a message; waits while the socket is full.
    pub fn send(&mut self, request: &Request, file: Option<OwnedFd>) -> Result<(), PubSubError> {
        self.socket.send(request.kind(), &request.encode(), file).map_err(PubSubError::Lost)?;
        let deadline = Instant::now() + REPLY_TIMEOUT;
        while !self.socket.flush().map_err(PubSubError::Lost)? {
            if Instant::now() > deadline {
                return Err(PubSubError::Timeout);
            }
            self.wait_socket(PollFlags::OUT | PollFlags::IN, Duration::from_millis(100));
            // The node may be waiting for this end to read.
            self.read_socket()?;
        }
        Ok(())
    }

    /// Returns a number for a request.
    pub const fn new_request(&mut self) -> u32 {
        self.next_request = self.next_request.wrapping_add(1);
        self.next_request
    }

    /// Waits for the reply to a request.
    pub fn reply(&mut self, number: u32) -> Result<(), PubSubError> {
        let (code, text) = self.wait_for(|event| match event {
            Event::Reply { request, code, text } if *request == number => {
                Some((*code, text.clone()))
            }
            _ => None,
        })?;
        match Reply::from_code(code) {
            Reply::Done => Ok(()),
            reply => Err(PubSubError::Refused { reply, text }),
        }
    }

    /// Waits for a message that `choose` accepts, and keeps the others.
    pub fn wait_for<T>(&mut self, choose: impl Fn(&Event) -> Option<T>) -> Result<T, PubSubError> {
        let deadline = Instant::now() + REPLY_TIMEOUT;
        let mut looked_at = 0;
        loop {
            for at in looked_at..self.events.len() {
                if let Some(found) = choose(&self.events[at].0) {
                    self.events.remove(at);
                    return Ok(found);
                }
            }
            looked_at = self.events.len();
            if Instant::now() > deadline {
                return Err(PubSubError::Timeout);
            }
            self.wait_socket(PollFlags::IN, Duration::from_millis(100));
            self.read_socket()?;
        }
    }

    fn wait_socket(&self, flags: PollFlags, timeout: Duration) {
        let mut fds = [PollFd::new(&self.socket, flags)];
        let timeout = Timespec::try_from(timeout).ok();
        let _ = poll(&mut fds, timeout.as_ref());
    }

    /// Reads what the socket has, or a part of it.
    fn read_socket(&mut self) -> Result<(), PubSubError> {
        self.read_at_most(READS_MAX)
    }

    fn read_at_most(&mut self, reads_max: usize) -> Result<(), PubSubError> {
        if let Some(page) = &self.page {
            self.mail = page.mail();
        }
        self.has_more = false;
        for _ in 0..reads_max {
            let outcome = self.socket.receive();
            while let Some(frame) = self.socket.next_frame().map_err(PubSubError::Lost)? {
                let event =
                    Event::decode(frame.kind, &frame.body).map_err(|_| PubSubError::Protocol)?;
                self.events.push_back((event, frame.file));
            }
            match outcome {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(fault) => return Err(PubSubError::Lost(fault)),
            }
        }
        self.has_more = true;
        Ok(())
    }

    /// Returns whether the node has sent messages, without a system call. Without shared memory:
    /// true.
    pub fn has_mail(&self) -> bool {
        !self.events.is_empty()
            || self.has_more
            || self.page.as_ref().is_none_or(|page| page.mail() != self.mail)
    }

    /// Returns the messages: those received while a reply was waited for, and those that the
    /// socket has, which is not read if the node has sent no others.
    pub fn take_events(&mut self) -> Result<VecDeque<(Event, Option<OwnedFd>)>, PubSubError> {
        let is_read =
            !self.has_more && self.page.as_ref().is_some_and(|page| page.mail() == self.mail);
        if is_read && !self.events.is_empty() {
            return Ok(core::mem::take(&mut self.events));
        }
        match self.read_socket() {
            // What arrived before the end counts.
            Err(PubSubError::Lost(_)) if !self.events.is_empty() => {}
            outcome => outcome?,
        }
        Ok(core::mem::take(&mut self.events))
    }

    /// Waits until the node or a publisher has something, at most `timeout`.
    pub fn wait(&self, timeout: Duration) {
        match &self.page {
            Some(page) => page.wait(timeout),
            None => self.wait_socket(PollFlags::IN, timeout),
        }
    }
}

/// Asks a node for a status as JSON: `status`, or `trace` and a name.
///
/// # Errors
/// If no node can be reached, or it does not answer.
pub fn query(options: &PubSubOptions, topic: &str) -> Result<String, PubSubError> {
    let options = PubSubOptions { shared_memory: false, ..options.clone() };
    let mut connection = Connection::open(&options)?;
    let request = connection.new_request();
    connection.send(&Request::Query { request, topic: topic.to_owned() }, None)?;
    let mut json = Vec::new();
    loop {
        let (is_last, part) = connection.wait_for(|event| match event {
            Event::Answer { request: found, is_last, json } if *found == request => {
                Some((*is_last, json.0.clone()))
            }
            _ => None,
        })?;
        json.extend_from_slice(&part);
        if is_last {
            return String::from_utf8(json).map_err(|_| PubSubError::Protocol);
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_that_sends_without_end_keeps_no_call_busy() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut node = FrameSocket::new(far.into());
        let (page, _file) = ReaderPage::create().unwrap();
        let mut connection = Connection::new(near, Some(page));
        let event = Event::Lost { item: 1, count: 2 };
        let count = (150 << 10) / (event.encode().len() + 6);
        (0..count).for_each(|_| node.send(event.kind(), &event.encode(), None).unwrap());
        assert!(node.flush().unwrap(), "a socket holds as much");
        connection.read_at_most(1).unwrap();
        let first = core::mem::take(&mut connection.events).len();
        assert!((1..count / 2).contains(&first), "{first} of {count}");
        assert!(connection.has_mail(), "though the node has told of no further messages");
        let rest = connection.take_events().unwrap().len();
        assert_eq!((first + rest, connection.has_mail()), (count, false));
    }
}
