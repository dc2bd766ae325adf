//! A stream face's socket: unix or TCP, with packets back to back or in WebSocket messages; or a socket beside shared memory. Large reads into chunks that packets are cut from, gathered writes, and a bounded queue for what the
//! socket refuses.

use crate::config::LINK_PACKET_LEN_MAX;
use crate::datagram::{LOOK_PAUSE, sys};
use crate::outbox::{Outbox, Outgoing};
use crate::queue::ByteQueue;
use crate::shm::{Shared, Unsent};
use crate::status::CloseReason;
use crate::uri::FaceUri;
use crate::websocket::WebSocket;
use crate::websocket::handshake::Opening;
use arrayvec::ArrayVec;
use nw_element::{Cause, Chunk, Instant, Packet, Pool};
use nw_wire::tlv::{Framing, frame, is_critical, read_number};
use nw_wire::{Error, Fault, types};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use std::cell::Cell;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Pieces the kernel gathers in one call (UIO_MAXIOV).
const PIECES_MAX: usize = 1024;

/// Blocks of the queue that are sent by one call: megabytes.
const DRAINED_MAX: usize = 32;

/// What came and is not read is thrown away when a WebSocket connection ends, up to so many times a few KiB: the system would otherwise throw
/// away what was said last.
const UNREAD_MAX: usize = 16;

/// Bytes of a read on a face whose Interests had to wait for room lately, or that is new. Twice as many after each read that
/// brought that much and had nothing wait.
const READ_LEN_MIN: usize = 16 << 10;

/// Buffers for the beginnings of packets that are kept when no face needs them.
const SPARE_MAX: usize = 64;

/// Bytes of the longest read.
pub const READ_LEN_MAX: usize = 64 << 10;

/// Buffers that faces take when a read ends within a packet, and give back when the rest has come.
pub type Spare = Vec<Vec<u8>>;

/// A connected, or connecting, stream socket.
#[derive(Debug)]
pub struct Stream {
    /// The socket.
    pub socket: OwnedFd,
    /// False until a connection that was asked for is there, and its handshake over.
    pub connected: bool,
    /// How packets are told apart when they are not back to back.
    pub websocket: Option<Box<WebSocket>>,
    /// What octets go by instead of the socket.
    pub shared: Option<Box<Shared>>,
    /// What the last read left: the beginning of a packet; or more, if it is deferred.
    carry: Vec<u8>,
    /// There may be whole packets in `carry`, which were not to be taken in yet.
    deferred: bool,
    /// Bytes that the next read may bring.
    read_len: usize,
    /// What the socket refused.
    queue: ByteQueue,
    /// Octets that waited in the system when that was last looked at; only TCP.
    pub kernel_queue: usize,
    looked_at: Instant,
    /// The peer takes nothing any more. What it sent before is still read; the end of that ends the face.
    deaf: bool,
}

impl Stream {
    /// Over a non-blocking socket.
    pub fn new(socket: OwnedFd, connected: bool, websocket: Option<WebSocket>) -> Self {
        Stream {
            socket,
            connected,
            websocket: websocket.map(Box::new),
            shared: None,
            carry: Vec::new(),
            deferred: false,
            read_len: READ_LEN_MIN,
            queue: ByteQueue::default(),
            kernel_queue: 0,
            looked_at: Instant::START,
            deaf: false,
        }
    }

    /// To a peer that this end connects to.
    pub fn to(uri: &FaceUri, socket: OwnedFd, connected: bool) -> Self {
        match uri {
            // Connected is one thing, agreed to speak WebSocket another.
            FaceUri::Ws(peer) => Stream::new(socket, false, Some(WebSocket::to_open(Opening::to(*peer)))),
            _ => Stream::new(socket, connected, None),
        }
    }

    /// Over shared memory, beside a socket.
    pub fn beside(socket: OwnedFd, shared: Shared) -> Self {
        let connected = shared.is_open();
        Stream { shared: Some(Box::new(shared)), ..Stream::new(socket, connected, None) }
    }

    /// The two ends have still to agree on how they speak.
    pub fn is_opening(&self) -> bool {
        self.websocket.as_ref().is_some_and(|websocket| !websocket.is_open())
            || self.shared.as_ref().is_some_and(|shared| !shared.is_open())
    }

    /// The system is still to say that the socket is connected.
    pub const fn is_connecting(&self) -> bool {
        !self.connected && self.shared.is_none()
    }

    /// The socket can be written once it is connected, and something is to be sent then.
    pub fn awaits_connection(&self) -> bool {
        self.is_connecting() && !self.websocket.as_ref().is_some_and(|websocket| websocket.has_asked())
    }

    /// Something waits until the socket can be written. Beside shared memory a message says that there is room.
    pub fn awaits_writable(&self) -> bool {
        !self.queue.is_empty() && self.shared.is_none() && !self.is_opening()
    }

    /// Asks the system how much of a TCP stream was never on its way yet; once a millisecond.
    pub fn look_at_queue(&mut self, now: Instant) {
        if now >= self.looked_at + LOOK_PAUSE {
            self.looked_at = now;
            self.kernel_queue = sys::unsent(self.socket.as_fd(), true);
        }
    }

    /// Bytes that wait for the socket.
    pub fn queue_bytes(&self) -> usize {
        self.queue.len()
    }

    /// Bytes of memory that wait for the socket, or for their turn to be taken in.
    pub fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes() + if self.deferred { self.carry.capacity() } else { 0 }
    }

    /// True when packets were read that [`read`](Self::read) is still to show.
    pub const fn has_deferred(&self) -> bool {
        self.deferred
    }

    /// Drops what waits for the socket, but for a packet that was sent in part. Returns how many packets were dropped.
    pub fn drop_queue(&mut self) -> usize {
        let is_framed = self.websocket.is_some();
        self.queue.drop_newest(|bytes| match frame(bytes, LINK_PACKET_LEN_MAX) {
            Ok(Framing::Whole(len)) if !is_framed => Some(len),
            _ => None,
        })
    }

    /// Reads at most `reads` times, up to `len_max` bytes each, and shows each packet; `None` for one that there was no room for. Leaves the rest to the next turn.
    /// Shows no more when `left` is 0, to be counted down by `each`: what was read and not shown waits here, and `has_deferred` holds.
    ///
    /// # Errors
    /// Why the stream is at its end. Packets shown before are good.
    pub fn read(
        &mut self,
        (reads, len_max, left): (usize, usize, &Cell<usize>),
        pool: &mut Pool,
        spare: &mut Spare,
        mut each: impl FnMut(Option<Packet>, &mut Pool),
    ) -> Result<(), CloseReason> {
        for _ in 0..reads {
            // Without a chunk nothing is read: the peer feels it, and nothing is lost.
            let Some(chunk) = pool.take_chunk() else { return Ok(()) };
            let carried = self.carry.len();
            let buffer = pool.chunk_bytes_mut(&chunk);
            buffer[..carried].copy_from_slice(&self.carry);
            let room = self.read_len.min(len_max).min(buffer.len() - carried);
            let received =
                if self.deferred { Ok(0) } else { self.receive(&mut buffer[carried..carried + room]) };
            let filled = match received {
                Ok(read) if read > 0 || self.deferred => carried + read,
                other => {
                    pool.release_chunk(chunk);
                    return other.map(drop);
                }
            };
            self.put_back(spare);
            let (at, end) = match &mut self.websocket {
                None => cut(&chunk, filled, pool, left, &mut each),
                Some(socket) => socket.cut(&chunk, filled, pool, (&mut self.queue, left), &mut each),
            };
            let had_deferred =
                core::mem::replace(&mut self.deferred, left.get() == 0 && at < filled && end.is_ok());
            if self.deferred {
                self.read_len = READ_LEN_MIN;
            } else if filled == carried + room {
                self.read_len = (2 * self.read_len).min(READ_LEN_MAX);
            }
            if at < filled && end.is_ok() {
                self.carry = spare.pop().unwrap_or_default();
                self.carry.extend_from_slice(&pool.chunk_bytes(&chunk)[at..filled]);
            }
            pool.release_chunk(chunk);
            end?;
            if self.deferred || !had_deferred && filled < carried + room {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Tells the peer of a WebSocket connection why it ends. As much as the socket takes at once.
    pub fn part(&mut self, reason: &CloseReason) {
        let Some(websocket) = self.websocket.as_mut().filter(|_| self.connected) else { return };
        websocket.part(reason, &mut self.queue);
        let _ = self.drain();
        hang_up(self.socket.as_fd());
    }

    /// Asks the peer of a WebSocket connection whether it is there; false when it was asked already, and nothing came.
    pub fn ping(&mut self) -> bool {
        self.websocket.as_mut().is_some_and(|websocket| websocket.ping(&mut self.queue))
    }

    /// Octets that came; 0 when there are none.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, CloseReason> {
        if let Some(shared) = &mut self.shared {
            return shared.receive(self.socket.as_fd(), buffer);
        }
        match rustix::net::recv(&self.socket, buffer, RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(CloseReason::PeerClosed),
            Ok((read, _)) => Ok(read),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(Errno::CONNRESET | Errno::PIPE) => Err(CloseReason::PeerClosed),
            Err(errno) => Err(CloseReason::Socket(errno)),
        }
    }

    fn put_back(&mut self, spare: &mut Spare) {
        let mut carry = core::mem::take(&mut self.carry);
        if carry.capacity() > 0 && spare.len() < SPARE_MAX {
            carry.clear();
            spare.push(carry);
        }
    }

    /// Sends what is in the outbox as far as the socket takes it; the rest waits in the queue, up to `queue_max` octets. What goes nowhere is
    /// shown to `dropped`, with its length and why. The outbox is left as it is, to be cleared by the caller.
    ///
    /// # Errors
    /// Why the stream is at its end.
    pub fn flush(
        &mut self,
        outbox: &Outbox,
        pool: &Pool,
        queue_max: usize,
        mut dropped: impl FnMut(&Outgoing, usize, Cause),
    ) -> Result<(), CloseReason> {
        let mut items = outbox.items();
        while self.connected && !self.deaf && self.queue.is_empty() && !items.is_empty() {
            let mut pieces = ArrayVec::<_, PIECES_MAX>::new_const();
            let (gathered, total) = gather(items, outbox, pool, &mut pieces);
            let Some(sent) = transmit(self.socket.as_fd(), &mut self.shared, &pieces)? else {
                self.deaf = true;
                break;
            };
            if sent == total {
                items = &items[gathered..];
                continue;
            }
            self.wait_for_rest(items, outbox, pool, sent, queue_max, dropped);
            return Ok(());
        }
        if self.deaf {
            items.iter().for_each(|item| dropped(item, outbox.item_len(item, pool), Cause::FaceGone));
        } else {
            self.wait_for_rest(items, outbox, pool, 0, queue_max, dropped);
        }
        Ok(())
    }

    /// Copies link packets to the queue, but for the first `sent` octets.
    fn wait_for_rest(
        &mut self,
        items: &[Outgoing],
        outbox: &Outbox,
        pool: &Pool,
        mut sent: usize,
        queue_max: usize,
        mut dropped: impl FnMut(&Outgoing, usize, Cause),
    ) {
        for item in items {
            let parts = outbox.parts(item, pool);
            let len = parts[0].len() + parts[1].len();
            if sent >= len {
                sent -= len;
                continue;
            }
            // A packet whose beginning is gone already must be ended, or framing is lost.
            if sent == 0 && self.queue.len() + len > queue_max {
                dropped(item, len, Cause::FaceQueueFull);
                continue;
            }
            let (head, body) =
                (&parts[0][sent.min(parts[0].len())..], &parts[1][sent.saturating_sub(parts[0].len())..]);
            self.queue.push(&[head, body]);
            sent = 0;
        }
    }

    /// Sends what waits, as far as the socket takes it.
    ///
    /// # Errors
    /// Why the stream is at its end.
    pub fn drain(&mut self) -> Result<(), CloseReason> {
        while self.connected && !self.queue.is_empty() {
            let pieces = self.queue.slices().take(DRAINED_MAX).map(IoSlice::new);
            let pieces = pieces.collect::<ArrayVec<_, DRAINED_MAX>>();
            let offered = pieces.iter().map(|piece| piece.len()).sum();
            let sent = transmit(self.socket.as_fd(), &mut self.shared, &pieces)?;
            drop(pieces);
            self.deaf |= sent.is_none();
            self.queue.consume(sent.unwrap_or(self.queue.len()));
            if sent < Some(offered) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Sends what is taken at once; how many octets, or `None` when the peer takes nothing any more.
fn transmit(
    socket: BorrowedFd<'_>,
    shared: &mut Option<Box<Shared>>,
    pieces: &[IoSlice<'_>],
) -> Result<Option<usize>, CloseReason> {
    if let Some(shared) = shared {
        return match shared.send(socket, pieces) {
            Ok(sent) => Ok(Some(sent)),
            Err(Unsent::Gone) => Ok(None),
            Err(Unsent::Fault(fault)) => Err(CloseReason::SharedMemory(fault)),
        };
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        return match rustix::net::sendmsg(socket, pieces, &mut SendAncillaryBuffer::default(), flags) {
            Ok(sent) => Ok(Some(sent)),
            Err(Errno::AGAIN | Errno::NOBUFS) => Ok(Some(0)),
            Err(Errno::INTR) => continue,
            Err(Errno::PIPE) => Ok(None),
            Err(errno) => Err(closed(errno)),
        };
    }
}

/// Says that nothing more is sent, and reads what has come: closed over something unread, a socket would take back what it was sent last.
pub fn hang_up(socket: BorrowedFd<'_>) {
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
    let mut unread = [0; 4096];
    for _ in 0..UNREAD_MAX {
        if !matches!(rustix::net::recv(socket, &mut unread[..], RecvFlags::DONTWAIT), Ok((1.., _))) {
            return;
        }
    }
}

/// Cuts packets that stand back to back; how far it came.
fn cut(
    chunk: &Chunk,
    filled: usize,
    pool: &mut Pool,
    left: &Cell<usize>,
    each: &mut impl FnMut(Option<Packet>, &mut Pool),
) -> (usize, Result<(), CloseReason>) {
    let mut at = 0;
    loop {
        if left.get() == 0 {
            return (at, Ok(()));
        }
        let rest = &pool.chunk_bytes(chunk)[at..filled];
        if is_foreign(rest) {
            return (at, Err(CloseReason::FramingLost(Error::new(Fault::UnknownPacket, 0))));
        }
        match frame(rest, LINK_PACKET_LEN_MAX) {
            Ok(Framing::Whole(len)) => {
                let packet = pool.packet_in(chunk, at..at + len);
                each(packet, pool);
                at += len;
            }
            Ok(Framing::Partial) => return (at, Ok(())),
            Err(error) => return (at, Err(CloseReason::FramingLost(error))),
        }
    }
}

/// True when what stands at the head is no packet, nor one of a version to come that may be skipped: the peer speaks something else, or framing was lost.
/// Waiting for the length that it seems to say could take the peer's packets for ever.
#[inline]
fn is_foreign(stream: &[u8]) -> bool {
    match stream.first().map(|first| u32::from(*first)) {
        None | Some(types::INTEREST | types::DATA | types::LP_PACKET) => false,
        Some(_) => read_number(stream, 0).is_ok_and(|(typ, _)| is_critical(typ)),
    }
}

fn closed(errno: Errno) -> CloseReason {
    match errno {
        Errno::CONNRESET => CloseReason::PeerClosed,
        _ => CloseReason::Socket(errno),
    }
}

/// Gathers as many link packets as one call takes; how many, and how many octets.
fn gather<'a>(
    items: &'a [Outgoing],
    outbox: &'a Outbox,
    pool: &'a Pool,
    // Lent, not returned: an array of this size is not to be moved.
    pieces: &mut ArrayVec<IoSlice<'a>, PIECES_MAX>,
) -> (usize, usize) {
    let (mut at, mut total) = (0, 0);
    while at < items.len() && pieces.remaining_capacity() >= 2 {
        // Short packets and headers stand back to back in the outbox's buffer.
        let first = at;
        while at + 1 < items.len() && items[at].packet.is_none() {
            at += 1;
        }
        let head = outbox.heads(&items[first], &items[at]);
        if !head.is_empty() {
            total += head.len();
            pieces.push(IoSlice::new(head));
        }
        if let Some(packet) = &items[at].packet {
            let body = pool.bytes(packet);
            total += body.len();
            pieces.push(IoSlice::new(body));
        }
        at += 1;
    }
    (at, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_name::HashKey;
    use nw_name::tlv::push_tlv;
    use proptest::prelude::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn who_speaks_another_protocol_is_found_out_at_once() {
        for text in ["GET / HTTP/1.1\r\n", "SSH-2.0-x\r\n", "\x16\x03\x01\x02\x00", "\0\0", "{\"a\":1}"] {
            assert!(is_foreign(text.as_bytes()), "{text:?}");
        }
        // Packets, what a version to come may send beside them, and a type that is not whole.
        let packets: [&[u8]; 8] = [&[], &[5], &[6, 0], &[100, 3], &[32], &[80, 9], &[253, 1, 0], &[253, 1]];
        for packet in packets {
            assert!(!is_foreign(packet), "{packet:?}");
        }
        assert!(is_foreign(&[253, 1, 1]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn packets_are_the_same_however_they_are_cut(
            lens in proptest::collection::vec(prop_oneof![0usize..300, 8000usize..8780], 1..60),
            cuts in proptest::collection::vec(1usize..40_000, 1..20),
        ) {
            let mut pool = Pool::new(HashKey::new([1, 2, 3, 4]), 4, 256);
            let mut spare = Spare::new();
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut stream = Stream::new(ours.into(), true, None);
            let packets: Vec<Vec<u8>> = lens.iter().map(|len| {
                let mut packet = Vec::new();
                push_tlv(6, &vec![*len as u8; *len], &mut packet);
                packet
            }).collect();
            let bytes = packets.concat();
            let (mut rest, mut got) = (&bytes[..], Vec::new());
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                theirs.write_all(now).unwrap();
                rest = later;
                let read = stream.read((2, READ_LEN_MAX, &Cell::new(usize::MAX)), &mut pool, &mut spare, |packet, pool| {
                    let packet = packet.expect("there is room");
                    got.push(pool.bytes(&packet).to_vec());
                    pool.release(packet);
                });
                prop_assert!(read.is_ok());
                prop_assert_eq!(pool.chunks_in_use(), 0);
            }
            prop_assert!(got == packets);
            prop_assert!(stream.carry.capacity() == 0 && spare.len() <= 1);
        }
    }
}
