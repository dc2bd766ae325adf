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
use nw_element_api::{Cause, Chunk, Instant, Packet, Pool};
use nw_wire::tlv::{Framing, frame};
use nw_wire::{Error, Fault, LpPacket, types};
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

/// Bytes at the head of a stream that are looked at to recognise text.
const TEXT_LEN: usize = 16;

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
    /// A well-formed packet has come: the peer speaks this protocol.
    confirmed: bool,
    /// Reading has reached the end of the stream.
    read_ended: bool,
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
            confirmed: false,
            read_ended: false,
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
        each: impl FnMut(Option<Packet>, &mut Pool),
    ) -> Result<(), CloseReason> {
        let read = self.read_packets((reads, len_max, left), pool, spare, each);
        self.read_ended |= read.is_err();
        read
    }

    /// Returns whether more can be read: the connection is there, and its end was not reached.
    pub const fn is_readable(&self) -> bool {
        self.connected && !self.read_ended
    }

    fn read_packets(
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
                None => cut(&chunk, filled, (&mut self.confirmed, left), pool, &mut each),
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

/// Cuts packets that stand back to back and returns how far it came. `confirmed` is set by the first well-formed packet.
fn cut(
    chunk: &Chunk,
    filled: usize,
    (confirmed, left): (&mut bool, &Cell<usize>),
    pool: &mut Pool,
    each: &mut impl FnMut(Option<Packet>, &mut Pool),
) -> (usize, Result<(), CloseReason>) {
    let unknown = || Err(CloseReason::FramingLost(Error::new(Fault::UnknownPacket, 0)));
    let mut at = 0;
    loop {
        if left.get() == 0 {
            return (at, Ok(()));
        }
        let rest = &pool.chunk_bytes(chunk)[at..filled];
        if is_unknown_protocol(rest) {
            return (at, unknown());
        }
        match frame(rest, LINK_PACKET_LEN_MAX) {
            Ok(Framing::Whole(len)) => {
                if !*confirmed {
                    *confirmed = is_packet(&rest[..len]);
                    if !*confirmed && is_text(&rest[..len]) {
                        return (at, unknown());
                    }
                }
                let packet = pool.packet_in(chunk, at..at + len);
                each(packet, pool);
                at += len;
            }
            Ok(Framing::Partial) => return (at, Ok(())),
            Err(error) => return (at, Err(CloseReason::FramingLost(error))),
        }
    }
}

/// Returns whether what comes next is no Interest, Data or LpPacket: the peer speaks another protocol, or framing was lost.
///
/// Elements of other types are not skipped (decision 0040): `P` of `POST` is a type like any other, and the length behind it would lead
/// through the rest of another protocol's text to bytes that its author chose.
#[inline]
fn is_unknown_protocol(stream: &[u8]) -> bool {
    stream
        .first()
        .is_some_and(|first| !matches!(u32::from(*first), types::INTEREST | types::DATA | types::LP_PACKET))
}

/// Returns whether an element is a link packet as far as its header says, with the beginning of a network packet in it.
fn is_packet(element: &[u8]) -> bool {
    LpPacket::check(element).is_ok_and(|packet| {
        let first = packet.fragment.and_then(|fragment| fragment.first()).map(|first| u32::from(*first));
        packet.is_fragmented() || matches!(first, None | Some(types::INTEREST | types::DATA))
    })
}

/// Returns whether an element starts as text does. An LpPacket's type is the letter `d`, so a request whose method starts with it looks
/// like one until its fields are read; no Interest or Data starts with text.
fn is_text(element: &[u8]) -> bool {
    let head = &element[..element.len().min(TEXT_LEN)];
    head.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n'))
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

    /// Reads what is written to a stream of its own: the packets it gave, and whether it goes on.
    fn packets_of(written: &[u8]) -> (usize, bool) {
        let mut pool = Pool::new(HashKey::new([1, 2, 3, 4]), 4, 256);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut stream = Stream::new(ours.into(), true, None);
        theirs.write_all(written).unwrap();
        let mut count = 0;
        let read = stream.read(
            (4, READ_LEN_MAX, &Cell::new(usize::MAX)),
            &mut pool,
            &mut Spare::new(),
            |packet, pool| {
                count += 1;
                packet.into_iter().for_each(|packet| pool.release(packet));
            },
        );
        assert_eq!(pool.chunks_in_use(), 0);
        assert_eq!(stream.is_readable(), read.is_ok());
        (count, read.is_ok())
    }

    /// Openings of other protocols, each followed by a packet that their author would like to be read.
    #[test]
    fn stream_of_another_protocol_ends_before_any_packet() {
        let text = |opening: &str| opening.as_bytes().to_vec();
        let steered = |head: &str| {
            // What the second byte says is skipped: the rest of the head is padded to that.
            let mut bytes = head.as_bytes().to_vec();
            bytes.resize(2 + usize::from(bytes[1]), b'a');
            bytes
        };
        let openings: Vec<(&str, Vec<u8>)> = vec![
            ("HTTP GET", text("GET / HTTP/1.1\r\nHost: x\r\n\r\n")),
            ("HTTP POST, body behind its length", steered("POST /aaaa HTTP/1.1\r\n")),
            ("HTTP HEAD", steered("HEAD / HTTP/1.1\r\n")),
            ("HTTP PUT", steered("PUT / HTTP/1.1\r\n")),
            ("HTTP DELETE", steered("DELETE / HTTP/1.1\r\n")),
            ("HTTP OPTIONS", steered("OPTIONS / HTTP/1.1\r\n")),
            ("HTTP PATCH", steered("PATCH / HTTP/1.1\r\n")),
            ("HTTP CONNECT", steered("CONNECT a:1 HTTP/1.1\r\n")),
            ("HTTP patch", steered("patch / HTTP/1.1\r\n")),
            ("HTTP, a method that starts like an LpPacket", steered("d~ /aaaa HTTP/1.1\r\nHost: x\r\n")),
            ("the same with a PIT token", steered("d~b /aaaa HTTP/1.1\r\nHost: x\r\n")),
            ("the same with a fragment", steered("dzPx /aaa HTTP/1.1\r\nHost: x\r\n")),
            ("HTTP/2", text("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")),
            ("TLS 1.3", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
            ("TLS 1.0 as SSL 2", b"\x80\x2e\x01\x00\x02".to_vec()),
            ("SSH", text("SSH-2.0-OpenSSH_9.2\r\n")),
            ("SMTP", text("EHLO x\r\nMAIL FROM:<a@b>\r\n")),
            ("FTP", text("USER anonymous\r\n")),
            ("Redis", text("*1\r\n$4\r\nPING\r\n")),
            ("memcached", text("set a 0 0 5\r\n")),
            ("memcached, binary", b"\x80\x01\x00\x05".to_vec()),
            ("IRC", text("NICK x\r\n")),
            ("gopher", text("/dir\r\n")),
            ("finger", steered("d+orothy\r\n")),
            ("SIP", text("REGISTER sip:x SIP/2.0\r\n")),
            ("RTSP", text("DESCRIBE rtsp://x RTSP/1.0\r\n")),
            ("STUN or TURN", b"\x00\x01\x00\x08\x21\x12\xa4\x42".to_vec()),
            ("STUN in an ICE-TCP frame", b"\x02\x80\x00\x01\x02\x6c\x21\x12\xa4\x42".to_vec()),
            ("DNS over TCP", b"\x00\x1d\x12\x34\x01\x00".to_vec()),
            ("PostgreSQL", b"\x00\x00\x00\x08\x04\xd2\x16\x2f".to_vec()),
            ("MQTT", b"\x10\x0c\x00\x04MQTT".to_vec()),
            ("AMQP", text("AMQP\0\0\t\x01")),
            ("RDP", b"\x03\x00\x00\x13\x0e\xe0".to_vec()),
            ("SMB", b"\x00\x00\x00\x45\xffSMB".to_vec()),
            ("LDAP", b"\x30\x0c\x02\x01\x01".to_vec()),
            ("SOCKS 4", b"\x04\x01\x00\x50".to_vec()),
            ("Kafka", b"\x00\x00\x00\x2b\x00\x12".to_vec()),
            ("X11", text("l\0\x0b\0")),
            ("Git", text("0032git-upload-pack /x")),
            ("JSON", text("{\"a\":1}")),
            ("an ignorable type", vec![80, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
            ("an ignorable type of three bytes", vec![253, 3, 32, 1, 0]),
            ("an Interest's type in three bytes", vec![253, 0, 5, 1, 0]),
            ("zeros", vec![0; 8]),
        ];
        let wanted: &[u8] = &[6, 3, 7, 1, 0];
        for (protocol, opening) in openings {
            assert_eq!(packets_of(&[&opening[..], wanted].concat()), (0, false), "{protocol}");
            // As a later element it ends the stream as well; what came before is given.
            let later = packets_of(&[wanted, &opening[..], wanted].concat());
            let is_link_packet = opening[0] == 100;
            assert!(later == (1, false) || is_link_packet, "{protocol}: {later:?}");
        }
    }

    #[test]
    fn stream_with_malformed_packets_goes_on() {
        // Binary ones are the peer's fault alone, first or later; the host drops and counts them.
        for bytes in [&[5, 2, 0xf0, 0][..], &[100, 4, 0xfd, 1, 0, 0], &[6, 0], &[5, 1, 0]] {
            assert_eq!(packets_of(bytes), (1, true), "{bytes:?}");
        }
        // A PIT token of text in a well-formed link packet; behind one, text is as malformed as anything else.
        let interest = [5, 5, 7, 3, 8, 1, b'a'];
        let token = [&b"d+b abcdefghijklmnopqrstuvwxyz012345P\x07"[..], &interest].concat();
        assert!(LpPacket::check(&token).is_ok());
        assert_eq!(packets_of(&[&token[..], b"d!", &[b'a'; 33]].concat()), (2, true));
        for partial in [&[][..], &[5], &[6, 200], &[100, 3], &[100, 253]] {
            assert_eq!(packets_of(partial), (0, true), "{partial:?}");
        }
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
