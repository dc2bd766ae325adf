//! Input of a neighbour on a shared-memory link: its first message, the memory passed with it,
//! words in that memory, messages on the socket. Replayed by `crates/faces/tests/all/corpus.rs`.

use nw_faces::shm::{RING_LEN_MAX, RING_LEN_MIN, SendError, SharedMemoryLink};
use nw_faces::{CloseReason, SharedMemoryFault};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Bits of the first byte: the first message passes a file, its length is sealed, its length is the
/// announced one; this end makes the offer.
const FILE: u8 = 1;
const SEALED: u8 = 2;
const ANNOUNCED_LEN: u8 = 4;
const WE_OFFER: u8 = 8;

const HEAD_LEN: usize = 4096;
/// Number of the rings' words, and their distance in bytes.
const WORDS: u8 = 8;
const WORD_STEP: u64 = 128;

/// Runs a link. The first byte has the flags of its start, the second the length of the first
/// message, which follows. The other bytes are steps of either end.
pub fn shared_memory(bytes: &[u8]) -> Result<(), &'static str> {
    let mut bytes = Bytes(bytes);
    let flags = bytes.byte();
    let len = usize::from(bytes.byte() % 32);
    let first = bytes.take(len);
    let socket_flags = SocketFlags::CLOEXEC;
    let (near, far) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, socket_flags, None)
            .expect("a pair of sockets");
    if flags & WE_OFFER != 0 {
        let mut ours = SharedMemoryLink::offer(near.as_fd(), RING_LEN_MIN).expect("an offer");
        send_message(&far, first, None);
        ours.receive(near.as_fd(), &mut [0; 64]).map_err(name)?;
        return if ours.is_open() { steps(ours, &near, far, None, bytes) } else { Err("partial") };
    }
    let memory = (flags & FILE != 0).then(|| memory(first, flags));
    send_message(&far, first, memory.as_ref());
    match SharedMemoryLink::accept(near.as_fd()).map_err(name)? {
        Some(ours) => {
            assert!(
                ours.is_open() && flags & 7 == 7,
                "only a sealed file of the right length is mapped"
            );
            steps(ours, &near, far, memory, bytes)
        }
        None => Err("partial"),
    }
}

/// Runs the steps of both ends, until the steps or the link end.
fn steps(
    mut ours: SharedMemoryLink,
    near: &OwnedFd,
    far: OwnedFd,
    memory: Option<File>,
    mut bytes: Bytes<'_>,
) -> Result<(), &'static str> {
    let (mut far, mut buffer) = (Some(far), [0; 256 * 16]);
    while !bytes.0.is_empty() {
        match bytes.byte() % 5 {
            0 => {
                let at = u64::from(bytes.byte() % WORDS) * WORD_STEP;
                let mut value = [0; 8];
                let given = bytes.take(8);
                value[..given.len()].copy_from_slice(given);
                if let Some(memory) = &memory {
                    memory.write_all_at(&value, at).expect("a word");
                }
            }
            1 => {
                let len = usize::from(bytes.byte() % 4);
                let message = bytes.take(len);
                if let Some(far) = &far {
                    send_message(far, message, None);
                }
            }
            2 => {
                let capacity = (usize::from(bytes.byte()) + 1) * 16;
                let read = ours.receive(near.as_fd(), &mut buffer[..capacity]).map_err(name)?;
                assert!(read <= capacity);
            }
            3 => {
                let len = usize::from(bytes.byte()) * 16;
                match ours.send(
                    near.as_fd(),
                    &[IoSlice::new(&buffer[..len / 2]), IoSlice::new(&buffer[len / 2..len])],
                ) {
                    Ok(sent) => assert!(sent <= len),
                    Err(SendError::PeerGone) => return Err("gone"),
                    Err(SendError::Fault(fault)) => return Err(fault_name(fault)),
                }
            }
            _ => far = None,
        }
    }
    Ok(())
}

/// Makes the memory file that a neighbour passes with its first message.
fn memory(first: &[u8], flags: u8) -> File {
    let announced =
        first.get(8..16).map_or(0, |len| u64::from_le_bytes(core::array::from_fn(|at| len[at])));
    let announced = usize::try_from(announced).map_or(RING_LEN_MAX, |len| len.min(RING_LEN_MAX));
    let len = if flags & ANNOUNCED_LEN != 0 { HEAD_LEN + 2 * announced } else { HEAD_LEN };
    let file = rustix::fs::memfd_create("fuzz", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .expect("a memory file");
    rustix::fs::ftruncate(&file, len as u64).expect("its length");
    if flags & SEALED != 0 {
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).expect("seals");
    }
    file.into()
}

/// Sends a message, or drops it if the socket's buffer is full.
fn send_message(socket: &OwnedFd, bytes: &[u8], file: Option<&File>) {
    let files: Vec<_> = file.iter().map(|file| file.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let _ = rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags);
}

fn name(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::SharedMemory(fault) => fault_name(fault),
        CloseReason::PeerClosed => "gone",
        other => panic!("a neighbour can't cause {other:?}"),
    }
}

fn fault_name(fault: SharedMemoryFault) -> &'static str {
    match fault {
        SharedMemoryFault::Hello => "hello",
        SharedMemoryFault::Version => "version",
        SharedMemoryFault::Memory => "memory",
        SharedMemoryFault::Size => "size",
        SharedMemoryFault::Position => "position",
        SharedMemoryFault::Wakeup => "bell",
    }
}

/// The unread input. After its end `byte` returns 0 and `take` fewer bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, unread) = self.0.split_at(len.min(self.0.len()));
        self.0 = unread;
        taken
    }
}
