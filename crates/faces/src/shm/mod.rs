//! Links over shared memory between two processes of one machine: a ring of octets each way, and a socket that wakes, and that ends when one of the two does.
//!
//! ```text
//!  connects                       unix socket (SEQPACKET)                      listens
//!  makes memory ── hello: version, size of a ring; the memory's descriptor ──▶ maps it, if it can't vanish
//!  is up        ◀───────────────── answer: version ─────────────────────────── is up
//!               ◀── one octet: "you said you wait; there is something now" ──▶
//!                             either end closes: so does the link
//! ```
//!
//! In the rings packets stand back to back, as in any stream. The socket has a message only while its end has something to do: an end leaves it unread as long as packets come,
//! so that epoll comes back without a call for it, and reads it when it has found nothing and has said that it waits.
//!
//! A neighbour is not trusted: see `memory.rs` and `ring.rs`. There is no event descriptor in it, because one descriptor would be open at both ends, and who has one may make it
//! block for the other (decision 0032).

pub mod fault;
pub mod memory;
pub mod ring;

use crate::status::CloseReason;
use fault::SharedMemoryFault;
use memory::Memory;
use ring::{Due, Place, Reader, WORDS_LEN, Writer};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Octets of a ring that this end accepts from another.
pub const RING_LEN_MIN: usize = 64 << 10;
/// Likewise: what a stream may hold back as well.
pub const RING_LEN_MAX: usize = 1 << 20;

/// What stands first in the memory, before the octets of both rings.
const HEAD_LEN: usize = 4096;

const MAGIC: [u8; 7] = *b"nw-shm\0";
/// Of what is in the memory and on the socket.
const VERSION: u8 = 1;
/// Magic, version, size of a ring.
const HELLO_LEN: usize = 16;
const ANSWER_LEN: usize = 8;
/// Wakes the other end.
const BELL: [u8; 1] = [1];

/// Why nothing more can be sent.
#[derive(Debug)]
pub enum Unsent {
    /// The neighbour is gone.
    Gone,
    /// It did what it may not.
    Fault(SharedMemoryFault),
}

/// One end of a link.
#[derive(Debug)]
pub struct Shared {
    memory: Memory,
    writer: Writer,
    reader: Reader,
    due: Due,
    open: bool,
}

impl Shared {
    /// Offers memory with rings of so many octets by a socket that was connected just now. The link is open when the other end has agreed.
    ///
    /// # Errors
    /// What the system says.
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
        let [near, far] = places(ring_len);
        Shared::new(memory, near, far, false).map_err(|_| Errno::IO)
    }

    /// Takes what the other end of an accepted connection offers, and agrees; `None` while it has offered nothing.
    ///
    /// # Errors
    /// Why the connection is to be closed.
    pub fn accept(socket: BorrowedFd<'_>) -> Result<Option<Self>, CloseReason> {
        let mut hello = [0; HELLO_LEN + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut hello)], &mut control, flags);
        let len = match received {
            Ok(received) => received.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(errno) => return Err(closed(errno)),
        };
        // More than one are closed with the messages they came in.
        let mut files = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        let file = files.next();
        let shared = match len {
            0 => return Err(CloseReason::PeerClosed),
            HELLO_LEN => Shared::taken(&hello[..HELLO_LEN], file),
            _ => Err(SharedMemoryFault::Hello),
        };
        // Who speaks another version hears which one is spoken here.
        if matches!(shared, Ok(_) | Err(SharedMemoryFault::Version)) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            rustix::net::send(socket, &answer(), flags).map_err(closed)?;
        }
        shared.map(Some).map_err(CloseReason::SharedMemory)
    }

    /// Judges an offer.
    fn taken(hello: &[u8], file: Option<OwnedFd>) -> Result<Self, SharedMemoryFault> {
        let (spoken, ring_len) = hello.split_at(ANSWER_LEN);
        judge(spoken)?;
        let ring_len = u64::from_le_bytes(core::array::from_fn(|at| ring_len[at]));
        let ring_len = usize::try_from(ring_len).map_err(|_| SharedMemoryFault::Size)?;
        if !ring_len.is_power_of_two() || !(RING_LEN_MIN..=RING_LEN_MAX).contains(&ring_len) {
            return Err(SharedMemoryFault::Size);
        }
        let file = file.ok_or(SharedMemoryFault::Memory)?;
        let memory = Memory::map(file.as_fd(), memory_len(ring_len))?;
        let [near, far] = places(ring_len);
        Shared::new(memory, far, near, true)
    }

    /// Waits from the start, so that the first octets that come are told of.
    fn new(memory: Memory, writes: Place, reads: Place, open: bool) -> Result<Self, SharedMemoryFault> {
        let (writer, reader, mut due) = (Writer::new(writes), Reader::new(reads), 0);
        reader.wait(&memory, &mut due)?;
        Ok(Shared { memory, writer, reader, due, open })
    }

    /// True when both ends have agreed.
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// Writes as much as there is room for; how much. When that is not all, this end is woken when there is room again.
    ///
    /// # Errors
    /// Why nothing more can be sent.
    pub fn send(&mut self, socket: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> Result<usize, Unsent> {
        let wanted: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut sent = 0;
        loop {
            let written = self.writer.write(&self.memory, pieces, sent).map_err(Unsent::Fault)?;
            sent += written;
            if written > 0 && self.writer.wakes(&self.memory) {
                ring_bell(socket)?;
            }
            if sent == wanted || self.writer.wait(&self.memory, &mut self.due).map_err(Unsent::Fault)? {
                return Ok(sent);
            }
        }
    }

    /// Reads what is there; 0 when there is nothing, and this end will be woken.
    ///
    /// # Errors
    /// Why the link is at its end. What was there before has been read.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, CloseReason> {
        if !self.open {
            return self.hear_answer(socket).map(|()| 0);
        }
        for _ in 0..2 {
            let read = self.reader.read(&self.memory, buffer).map_err(CloseReason::SharedMemory)?;
            if read > 0 {
                if self.reader.wakes(&self.memory).map_err(CloseReason::SharedMemory)? {
                    // Should it be gone, the socket says so when all has been read.
                    let _ = ring_bell(socket);
                }
                return Ok(read);
            }
            let waits = self.reader.wait(&self.memory, &mut self.due).map_err(CloseReason::SharedMemory)?;
            if waits {
                return match self.hear_bell(socket) {
                    // It may have written and left since the ring was found empty.
                    Err(CloseReason::PeerClosed) => {
                        match self.reader.read(&self.memory, buffer).map_err(CloseReason::SharedMemory)? {
                            0 => Err(CloseReason::PeerClosed),
                            read => Ok(read),
                        }
                    }
                    heard => heard.map(|()| 0),
                };
            }
        }
        // What was there is not any more: somebody takes back what he wrote.
        Err(CloseReason::SharedMemory(SharedMemoryFault::Position))
    }

    /// Takes one message off the socket: what it was rung for has been done.
    fn hear_bell(&mut self, socket: BorrowedFd<'_>) -> Result<(), CloseReason> {
        let mut heard = [0; 2];
        match rustix::net::recv(socket, &mut heard[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(CloseReason::PeerClosed),
            Ok((1, _)) if self.due > 0 && heard[..1] == BELL => {
                self.due -= 1;
                Ok(())
            }
            Ok(_) => Err(CloseReason::SharedMemory(SharedMemoryFault::Bell)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(errno) => Err(closed(errno)),
        }
    }

    fn hear_answer(&mut self, socket: BorrowedFd<'_>) -> Result<(), CloseReason> {
        let mut heard = [0; ANSWER_LEN + 1];
        match rustix::net::recv(socket, &mut heard[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(CloseReason::PeerClosed),
            Ok((ANSWER_LEN, _)) => {
                judge(&heard[..ANSWER_LEN]).map_err(CloseReason::SharedMemory)?;
                self.open = true;
                Ok(())
            }
            Ok(_) => Err(CloseReason::SharedMemory(SharedMemoryFault::Hello)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(errno) => Err(closed(errno)),
        }
    }
}

fn ring_bell(socket: BorrowedFd<'_>) -> Result<(), Unsent> {
    match rustix::net::send(socket, &BELL, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Err(Errno::PIPE | Errno::CONNRESET) => Err(Unsent::Gone),
        // A full socket wakes as well as one more message.
        _ => Ok(()),
    }
}

/// What both ends say first.
fn answer() -> [u8; ANSWER_LEN] {
    core::array::from_fn(|at| MAGIC.get(at).copied().unwrap_or(VERSION))
}

fn judge(spoken: &[u8]) -> Result<(), SharedMemoryFault> {
    match spoken.strip_prefix(&MAGIC) {
        Some([VERSION]) => Ok(()),
        Some(_) => Err(SharedMemoryFault::Version),
        None => Err(SharedMemoryFault::Hello),
    }
}

const fn memory_len(ring_len: usize) -> usize {
    HEAD_LEN + 2 * ring_len
}

/// The ring that the end which connects writes to, and the other one.
const fn places(size: usize) -> [Place; 2] {
    [Place { words: 0, octets: HEAD_LEN, size }, Place { words: WORDS_LEN, octets: HEAD_LEN + size, size }]
}

const fn closed(errno: Errno) -> CloseReason {
    match errno {
        Errno::CONNRESET | Errno::PIPE => CloseReason::PeerClosed,
        _ => CloseReason::Socket(errno),
    }
}
