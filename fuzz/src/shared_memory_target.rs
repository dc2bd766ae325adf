//! What a neighbour on this machine may do to a link over shared memory: its first message, the
//! memory that comes with it, words in that, messages on the socket. Replayed by
//! `crates/faces/tests/corpus.rs`.

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

/// Bits of the first byte: a file comes with the first message, it can't become shorter or longer,
/// it is as long as was said; it is our end that offers.
const FILE: u8 = 1;
const SEALED: u8 = 2;
const AS_SAID: u8 = 4;
const WE_OFFER: u8 = 8;

const HEAD_LEN: usize = 4096;
/// Words of both rings, and where they are.
const WORDS: u8 = 8;
const WORD_STEP: u64 = 128;

/// The first byte says how the link begins, the second how long the first message is, which
/// follows. What is behind it are steps of either end.
pub fn shared_memory(bytes: &[u8]) -> Result<(), &'static str> {
    let mut bytes = Bytes(bytes);
    let how = bytes.one();
    let len = usize::from(bytes.one() % 32);
    let first = bytes.some(len);
    let flags = SocketFlags::CLOEXEC;
    let (near, far) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .expect("a pair of sockets");
    if how & WE_OFFER != 0 {
        let mut ours = SharedMemoryLink::offer(near.as_fd(), RING_LEN_MIN).expect("an offer");
        say(&far, first, None);
        ours.receive(near.as_fd(), &mut [0; 64]).map_err(name)?;
        return if ours.is_open() { steps(ours, &near, far, None, bytes) } else { Err("partial") };
    }
    let memory = (how & FILE != 0).then(|| memory(first, how));
    say(&far, first, memory.as_ref());
    match SharedMemoryLink::accept(near.as_fd()).map_err(name)? {
        Some(ours) => {
            assert!(ours.is_open() && how & 7 == 7, "only what can't vanish is mapped");
            steps(ours, &near, far, memory, bytes)
        }
        None => Err("partial"),
    }
}

/// Both ends go on, until the steps or the link are at their end.
fn steps(
    mut ours: SharedMemoryLink,
    near: &OwnedFd,
    far: OwnedFd,
    memory: Option<File>,
    mut bytes: Bytes<'_>,
) -> Result<(), &'static str> {
    let (mut far, mut buffer) = (Some(far), [0; 256 * 16]);
    while !bytes.0.is_empty() {
        match bytes.one() % 5 {
            0 => {
                let at = u64::from(bytes.one() % WORDS) * WORD_STEP;
                let mut value = [0; 8];
                let given = bytes.some(8);
                value[..given.len()].copy_from_slice(given);
                if let Some(memory) = &memory {
                    memory.write_all_at(&value, at).expect("a word");
                }
            }
            1 => {
                let len = usize::from(bytes.one() % 4);
                let message = bytes.some(len);
                if let Some(far) = &far {
                    say(far, message, None);
                }
            }
            2 => {
                let room = (usize::from(bytes.one()) + 1) * 16;
                let read = ours.receive(near.as_fd(), &mut buffer[..room]).map_err(name)?;
                assert!(read <= room);
            }
            3 => {
                let len = usize::from(bytes.one()) * 16;
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

/// What a neighbour sends along with its first message.
fn memory(first: &[u8], how: u8) -> File {
    let said =
        first.get(8..16).map_or(0, |len| u64::from_le_bytes(core::array::from_fn(|at| len[at])));
    let said = usize::try_from(said).map_or(RING_LEN_MAX, |len| len.min(RING_LEN_MAX));
    let len = if how & AS_SAID != 0 { HEAD_LEN + 2 * said } else { HEAD_LEN };
    let file = rustix::fs::memfd_create("fuzz", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .expect("a memory file");
    rustix::fs::ftruncate(&file, len as u64).expect("its length");
    if how & SEALED != 0 {
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).expect("seals");
    }
    file.into()
}

/// What does not fit into the socket any more is left out.
fn say(socket: &OwnedFd, bytes: &[u8], file: Option<&File>) {
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

/// What is left of the input; zeros, or less than was asked for, behind its end.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn one(&mut self) -> u8 {
        self.some(1).first().copied().unwrap_or(0)
    }

    fn some(&mut self, len: usize) -> &'a [u8] {
        let (some, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        some
    }
}
