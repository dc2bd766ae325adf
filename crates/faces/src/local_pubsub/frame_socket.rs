//! The socket between an application and its node: frames over a unix stream, with descriptors.
//!
//! ```text
//! frame: len u32 (of all after it) | files u8 (0 or 1) | kind u8 | body
//! ```
//!
//! Invariant: both queues are bounded, and neither direction blocks. A peer that sends a frame
//! without its descriptor, or one that is too long, is faulty.

use core::fmt;
use core::ops::Range;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Largest frame without its length field, bytes.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// Bytes that may wait to be sent; beyond, the peer does not read and is disconnected.
pub const QUEUE_BYTES_MAX: usize = 16 << 20;
/// As [`QUEUE_BYTES_MAX`], for publications: one large one fits.
pub const DATA_QUEUE_BYTES_MAX: usize = 80 << 20;
/// Descriptors received whose frames are not complete.
const FILES_MAX: usize = 64;
/// Bytes per read.
const RECEIVE_LEN: usize = 64 << 10;
/// Small frames are joined up to this length.
const CHUNK_LEN: usize = 32 << 10;
const HEADER_LEN: usize = 6;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketFault {
    /// The peer closed it or has died.
    Closed,
    /// The peer violated the framing.
    Framing,
    /// The peer does not read what is sent to it.
    Stalled,
    /// A system call failed.
    System(Errno),
}

impl fmt::Display for SocketFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketFault::Closed => f.write_str("the other end has closed the connection"),
            SocketFault::Framing => f.write_str("the other end sent an invalid frame"),
            SocketFault::Stalled => f.write_str("the other end does not read its messages"),
            SocketFault::System(errno) => errno.fmt(f),
        }
    }
}

impl std::error::Error for SocketFault {}

/// A received frame.
#[derive(Debug)]
pub struct Frame {
    /// Kind of message.
    pub kind: u8,
    /// Its contents.
    pub body: Vec<u8>,
    /// The descriptor that came with it.
    pub file: Option<OwnedFd>,
}

#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    sent: usize,
    file: Option<OwnedFd>,
}

/// One end of a connection.
#[derive(Debug)]
pub struct FrameSocket {
    socket: OwnedFd,
    /// Grows and never shrinks, so that no byte is cleared more than once.
    received: Vec<u8>,
    /// Where the bytes that were received and not taken lie in `received`.
    unread: Range<usize>,
    files: VecDeque<OwnedFd>,
    queue: VecDeque<Chunk>,
    queued_bytes: usize,
    /// Of those at most: parts of publications. They do not count for other frames.
    data_bytes: usize,
}

impl FrameSocket {
    /// Wraps a connected unix stream socket. It is used without blocking.
    pub fn new(socket: OwnedFd) -> Self {
        FrameSocket {
            socket,
            received: Vec::new(),
            unread: 0..0,
            files: VecDeque::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            data_bytes: 0,
        }
    }

    /// Returns bytes that wait to be sent.
    pub const fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Returns bytes that wait to be sent, without parts of publications.
    pub const fn queued_control_bytes(&self) -> usize {
        self.queued_bytes.saturating_sub(self.data_bytes)
    }

    /// Queues a frame. [`flush`](Self::flush) sends it.
    ///
    /// # Errors
    /// [`SocketFault::Stalled`] if the queue is full.
    pub fn send(
        &mut self,
        kind: u8,
        body: &[u8],
        file: Option<OwnedFd>,
    ) -> Result<(), SocketFault> {
        self.queue(kind, body, file, QUEUE_BYTES_MAX + self.data_bytes)
    }

    /// Queues a frame with a part of a publication.
    ///
    /// # Errors
    /// [`SocketFault::Stalled`] if the queue is full.
    pub fn send_data(&mut self, kind: u8, body: &[u8]) -> Result<(), SocketFault> {
        self.queue(kind, body, None, DATA_QUEUE_BYTES_MAX)?;
        self.data_bytes += body.len();
        Ok(())
    }

    fn queue(
        &mut self,
        kind: u8,
        body: &[u8],
        file: Option<OwnedFd>,
        limit: usize,
    ) -> Result<(), SocketFault> {
        let len = body.len() + 2;
        if self.queued_bytes + len > limit || len > FRAME_BYTES_MAX {
            return Err(SocketFault::Stalled);
        }
        let has_file = u8::from(file.is_some());
        let joins = |chunk: &Chunk| file.is_none() && chunk.bytes.len() + len <= CHUNK_LEN;
        if !self.queue.back().is_some_and(joins) {
            self.queue.push_back(Chunk { bytes: Vec::new(), sent: 0, file });
        }
        if let Some(chunk) = self.queue.back_mut() {
            chunk.bytes.extend_from_slice(&(len as u32).to_le_bytes());
            chunk.bytes.extend_from_slice(&[has_file, kind]);
            chunk.bytes.extend_from_slice(body);
        }
        self.queued_bytes += len + 4;
        Ok(())
    }

    /// Sends what the socket takes. Returns whether all is sent.
    ///
    /// # Errors
    /// Why the connection has ended.
    pub fn flush(&mut self) -> Result<bool, SocketFault> {
        while let Some(chunk) = self.queue.front_mut() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let files = chunk.file.as_ref().map(|file| [file.as_fd()]);
            if let Some(files) = &files {
                control.push(SendAncillaryMessage::ScmRights(files));
            }
            let bytes = [IoSlice::new(&chunk.bytes[chunk.sent..])];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::sendmsg(&self.socket, &bytes, &mut control, flags) {
                Ok(sent) => {
                    chunk.sent += sent;
                    chunk.file = None;
                    self.queued_bytes -= sent;
                    if chunk.sent == chunk.bytes.len() {
                        self.queue.pop_front();
                    }
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(SocketFault::Closed),
                Err(errno) => return Err(SocketFault::System(errno)),
            }
        }
        self.data_bytes = 0;
        Ok(true)
    }

    /// Reads once from the socket. Returns whether there may be more to read.
    ///
    /// # Errors
    /// Why the connection has ended. Frames received before can still be taken.
    pub fn receive(&mut self) -> Result<bool, SocketFault> {
        if self.unread.start > 0 {
            self.received.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        let start = self.unread.end;
        if self.received.len() < start + RECEIVE_LEN {
            self.received.resize(start + RECEIVE_LEN, 0);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let into = &mut [IoSliceMut::new(&mut self.received[start..start + RECEIVE_LEN])];
        let outcome = rustix::net::recvmsg(&self.socket, into, &mut control, flags);
        let bytes = outcome.as_ref().map_or(0, |received| received.bytes);
        self.unread.end += bytes;
        let mut has_files = false;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
                has_files = true;
            }
        }
        match outcome {
            Ok(_) if self.files.len() > FILES_MAX => Err(SocketFault::Framing),
            Ok(_) if bytes == 0 => Err(SocketFault::Closed),
            // The system ends a read early only after a descriptor.
            Ok(_) => Ok(has_files || bytes == RECEIVE_LEN),
            Err(Errno::AGAIN) => Ok(false),
            Err(Errno::INTR) => Ok(true),
            Err(Errno::CONNRESET) => Err(SocketFault::Closed),
            Err(errno) => Err(SocketFault::System(errno)),
        }
    }

    /// Returns the next complete frame.
    ///
    /// # Errors
    /// [`SocketFault::Framing`] if the peer sent anything else.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, SocketFault> {
        let bytes = &self.received[self.unread.clone()];
        if bytes.len() < HEADER_LEN {
            return Ok(None);
        }
        let len = u32::from_le_bytes(core::array::from_fn(|at| bytes[at])) as usize;
        let (files, kind) = (bytes[4], bytes[5]);
        if !(2..=FRAME_BYTES_MAX).contains(&len) || files > 1 {
            return Err(SocketFault::Framing);
        }
        if bytes.len() < 4 + len {
            return Ok(None);
        }
        let body = bytes[HEADER_LEN..4 + len].to_vec();
        let file = match files {
            0 => None,
            _ => Some(self.files.pop_front().ok_or(SocketFault::Framing)?),
        };
        self.unread.start += 4 + len;
        Ok(Some(Frame { kind, body, file }))
    }
}

impl AsFd for FrameSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn pair() -> (FrameSocket, FrameSocket) {
        let (one, other) = UnixStream::pair().unwrap();
        (FrameSocket::new(one.into()), FrameSocket::new(other.into()))
    }

    #[test]
    fn frames_arrive_with_their_descriptors() {
        let (mut one, mut other) = pair();
        for round in 0..20_u8 {
            let file = (round % 3 == 0).then(|| tempfile::tempfile().unwrap().into());
            one.send(round, &vec![round; 5000], file).unwrap();
        }
        let mut found = 0;
        while found < 20 {
            one.flush().unwrap();
            other.receive().unwrap();
            while let Some(frame) = other.next_frame().unwrap() {
                assert_eq!((frame.kind, frame.body.len()), (found, 5000));
                assert_eq!(frame.file.is_some(), found % 3 == 0);
                found += 1;
            }
        }
        assert_eq!(one.queued_bytes(), 0);
    }

    #[test]
    fn lengths_that_lie_and_missing_descriptors_end_the_connection() {
        for bytes in [[0, 0, 0, 0, 0, 1], [0xff, 0xff, 0xff, 0xff, 0, 1], [2, 0, 0, 0, 1, 1]] {
            let (mut raw, socket) = UnixStream::pair().unwrap();
            let mut socket = FrameSocket::new(socket.into());
            raw.write_all(&bytes).unwrap();
            socket.receive().unwrap();
            assert_eq!(socket.next_frame().err(), Some(SocketFault::Framing), "{bytes:?}");
        }
    }

    #[test]
    fn queue_of_a_peer_that_does_not_read_is_bounded() {
        let (mut one, _other) = pair();
        let outcome = (0..100).try_for_each(|_| {
            one.send(1, &vec![0; 500_000], None)?;
            one.flush().map(|_| ())
        });
        assert_eq!(outcome, Err(SocketFault::Stalled));
        assert!(one.queued_bytes() <= QUEUE_BYTES_MAX);
    }
}
