//! Links over shared memory between two processes of one machine: a ring of bytes for each
//! direction, and a socket for wake-ups, which also ends the link when one process does.
//!
//! ```text
//!  connects                      unix socket (SEQPACKET)                      listens
//!  creates memory ── hello: version, ring size; the descriptor ──▶ maps it, if it can't shrink
//!  is up          ◀───────────── answer: version ───────────────── is up
//!                 ◀── one byte: wake-up, the other end was waiting ──▶
//!                           either end closes: so does the link
//! ```
//!
//! In the rings packets are back to back, as in any stream. An end leaves a wake-up unread while
//! packets arrive, so that epoll reports the socket again without a further call; it reads it when
//! the ring is empty and it has announced that it waits.
//!
//! The other process is not trusted: see `memory.rs` and `ring.rs`. There is no event descriptor,
//! because it would be open at both ends, and either could make it block for the other (decision
//! 0032).

pub mod access;
pub mod fault;
pub mod memory;
pub mod ring;

use crate::status::CloseReason;
use fault::SharedMemoryFault;
use memory::Memory;
use ring::{Reader, RingLayout, WORDS_LEN, WakeupsDue, Writer};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Smallest ring that this end accepts, bytes.
pub const RING_LEN_MIN: usize = 64 << 10;
/// Largest ring that this end accepts, bytes: as much as a stream may queue.
pub const RING_LEN_MAX: usize = 1 << 20;

/// Bytes of the words at the start of the memory, before both rings.
const HEAD_LEN: usize = 4096;

const MAGIC: [u8; 7] = *b"nw-shm\0";
/// Version of the layout of the memory and of the messages.
const VERSION: u8 = 1;
/// Bytes of a hello: magic, version, ring size.
const HELLO_LEN: usize = 16;
const ANSWER_LEN: usize = 8;
/// Message that wakes the other end.
const WAKEUP: [u8; 1] = [1];

/// Why nothing more can be sent.
#[derive(Debug)]
pub enum SendError {
    /// The other process closed the link.
    PeerGone,
    /// It violated the protocol.
    Fault(SharedMemoryFault),
}

/// One end of a link.
#[derive(Debug)]
pub struct SharedMemoryLink {
    memory: Memory,
    writer: Writer,
    reader: Reader,
    /// Wake-ups that the peer may still send.
    wakeups_due: WakeupsDue,
    open: bool,
}

impl SharedMemoryLink {
    /// Offers memory with rings of `ring_len` bytes on a connected socket. The link is open when
    /// the other end has answered.
    ///
    /// # Errors
    /// The error of a system call.
    pub fn offer(socket: BorrowedFd<'_>, ring_len: usize) -> Result<Self, Errno> {
        let ring_len = ring_len.next_power_of_two().clamp(RING_LEN_MIN, RING_LEN_MAX);
        let file = memory::new_file(memory_len(ring_len))?;
        let memory = Memory::map(file.as_fd(), memory_len(ring_len)).map_err(|_| Errno::NOMEM)?;
        let mut hello = [0; HELLO_LEN];
        hello[..ANSWER_LEN].copy_from_slice(&answer());
        hello[ANSWER_LEN..].copy_from_slice(&(ring_len as u64).to_le_bytes());
        let files = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(socket, &[IoSlice::new(&hello)], &mut control, flags)?;
        let [near, far] = ring_layouts(ring_len);
        SharedMemoryLink::new(memory, near, far, false).map_err(|_| Errno::IO)
    }

    /// Accepts the offer of an accepted connection's peer and answers. `None` if no offer has
    /// arrived.
    ///
    /// # Errors
    /// Why the connection must be closed.
    pub fn accept(socket: BorrowedFd<'_>) -> Result<Option<Self>, CloseReason> {
        let mut hello = [0; HELLO_LEN + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received =
            rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut hello)], &mut control, flags);
        let len = match received {
            Ok(received) => received.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(errno) => return Err(closed(errno)),
        };
        // Further descriptors are closed with the messages.
        let mut files = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        let file = files.next();
        let shared = match len {
            0 => return Err(CloseReason::PeerClosed),
            HELLO_LEN => SharedMemoryLink::map_offer(&hello[..HELLO_LEN], file),
            _ => Err(SharedMemoryFault::Hello),
        };
        // A peer of another version gets this end's version too.
        if matches!(shared, Ok(_) | Err(SharedMemoryFault::Version)) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            rustix::net::send(socket, &answer(), flags).map_err(closed)?;
        }
        shared.map(Some).map_err(CloseReason::SharedMemory)
    }

    /// Checks an offer and maps its memory.
    fn map_offer(hello: &[u8], file: Option<OwnedFd>) -> Result<Self, SharedMemoryFault> {
        let (version, ring_len) = hello.split_at(ANSWER_LEN);
        check_version(version)?;
        let ring_len = u64::from_le_bytes(core::array::from_fn(|at| ring_len[at]));
        let ring_len = usize::try_from(ring_len).map_err(|_| SharedMemoryFault::Size)?;
        if !ring_len.is_power_of_two() || !(RING_LEN_MIN..=RING_LEN_MAX).contains(&ring_len) {
            return Err(SharedMemoryFault::Size);
        }
        let file = file.ok_or(SharedMemoryFault::Memory)?;
        let memory = Memory::map(file.as_fd(), memory_len(ring_len))?;
        let [near, far] = ring_layouts(ring_len);
        SharedMemoryLink::new(memory, far, near, true)
    }

    /// Announces from the start that this end waits, so that the first bytes wake it.
    fn new(
        memory: Memory,
        writes: RingLayout,
        reads: RingLayout,
        open: bool,
    ) -> Result<Self, SharedMemoryFault> {
        let (writer, reader, mut due) = (Writer::new(writes), Reader::new(reads), 0);
        reader.wait(&memory, &mut due)?;
        Ok(SharedMemoryLink { memory, writer, reader, wakeups_due: due, open })
    }

    /// Returns whether both ends have agreed.
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// Writes as much as fits into the ring. Returns the bytes written. If that is not all, this
    /// end is woken when there is space again.
    ///
    /// # Errors
    /// Why nothing more can be sent.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Result<usize, SendError> {
        let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut sent = 0;
        loop {
            let written =
                self.writer.write(&self.memory, pieces, sent).map_err(SendError::Fault)?;
            sent += written;
            if written > 0 && self.writer.must_wake_peer(&self.memory) {
                send_wakeup(socket)?;
            }
            if sent == wanted
                || self
                    .writer
                    .wait(&self.memory, &mut self.wakeups_due)
                    .map_err(SendError::Fault)?
            {
                return Ok(sent);
            }
        }
    }

    /// Reads available bytes. Returns 0 if there are none; then this end is woken later.
    ///
    /// # Errors
    /// Why the link has ended. All earlier bytes have been read.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
    ) -> Result<usize, CloseReason> {
        if !self.open {
            return self.read_answer(socket).map(|()| 0);
        }
        for _ in 0..2 {
            let read = self.reader.read(&self.memory, buffer).map_err(CloseReason::SharedMemory)?;
            if read > 0 {
                if self.reader.must_wake_peer(&self.memory).map_err(CloseReason::SharedMemory)? {
                    // If the peer has closed, the socket reports it when all bytes are read.
                    let _ = send_wakeup(socket);
                }
                return Ok(read);
            }
            let waits = self
                .reader
                .wait(&self.memory, &mut self.wakeups_due)
                .map_err(CloseReason::SharedMemory)?;
            if waits {
                return match self.read_wakeup(socket) {
                    // It may have written and closed since the ring was found empty.
                    Err(CloseReason::PeerClosed) => {
                        match self
                            .reader
                            .read(&self.memory, buffer)
                            .map_err(CloseReason::SharedMemory)?
                        {
                            0 => Err(CloseReason::PeerClosed),
                            read => Ok(read),
                        }
                    }
                    message => message.map(|()| 0),
                };
            }
        }
        // Bytes that were there are gone: the peer moved its position back.
        Err(CloseReason::SharedMemory(SharedMemoryFault::Position))
    }

    /// Reads one wake-up from the socket: its reason has been served.
    fn read_wakeup(&mut self, socket: BorrowedFd<'_>) -> Result<(), CloseReason> {
        let mut message = [0; 2];
        match rustix::net::recv(socket, &mut message[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(CloseReason::PeerClosed),
            Ok((1, _)) if self.wakeups_due > 0 && message[..1] == WAKEUP => {
                self.wakeups_due -= 1;
                Ok(())
            }
            Ok(_) => Err(CloseReason::SharedMemory(SharedMemoryFault::Wakeup)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(errno) => Err(closed(errno)),
        }
    }

    fn read_answer(&mut self, socket: BorrowedFd<'_>) -> Result<(), CloseReason> {
        let mut message = [0; ANSWER_LEN + 1];
        match rustix::net::recv(socket, &mut message[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(CloseReason::PeerClosed),
            Ok((ANSWER_LEN, _)) => {
                check_version(&message[..ANSWER_LEN]).map_err(CloseReason::SharedMemory)?;
                self.open = true;
                Ok(())
            }
            Ok(_) => Err(CloseReason::SharedMemory(SharedMemoryFault::Hello)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(errno) => Err(closed(errno)),
        }
    }
}

fn send_wakeup(socket: BorrowedFd<'_>) -> Result<(), SendError> {
    match rustix::net::send(socket, &WAKEUP, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Err(Errno::PIPE | Errno::CONNRESET) => Err(SendError::PeerGone),
        // A full socket wakes the peer as well as one more message.
        _ => Ok(()),
    }
}

/// Returns the message that both ends send first.
fn answer() -> [u8; ANSWER_LEN] {
    core::array::from_fn(|at| MAGIC.get(at).copied().unwrap_or(VERSION))
}

fn check_version(version: &[u8]) -> Result<(), SharedMemoryFault> {
    match version.strip_prefix(&MAGIC) {
        Some([VERSION]) => Ok(()),
        Some(_) => Err(SharedMemoryFault::Version),
        None => Err(SharedMemoryFault::Hello),
    }
}

const fn memory_len(ring_len: usize) -> usize {
    HEAD_LEN + 2 * ring_len
}

/// Returns the ring that the connecting end writes, and the other one.
const fn ring_layouts(size: usize) -> [RingLayout; 2] {
    [
        RingLayout { words: 0, bytes: HEAD_LEN, size },
        RingLayout { words: WORDS_LEN, bytes: HEAD_LEN + size, size },
    ]
}

const fn closed(errno: Errno) -> CloseReason {
    match errno {
        Errno::CONNRESET | Errno::PIPE => CloseReason::PeerClosed,
        _ => CloseReason::Socket(errno),
    }
}
