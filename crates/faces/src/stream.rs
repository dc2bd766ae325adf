//! A stream face: a unix or TCP socket, with packets back to back or in WebSocket messages, or
//! shared memory with its socket.
//!
//! ```text
//!  read  ─▶ chunk ─▶ split into packets      remainder: `partial`, prepended to the next read
//!  flush ─▶ sendmsg ── AGAIN ─▶ queue (bounded) ─▶ drain, when writable
//! ```
//!
//! Large reads into pool chunks that packets share, gathered writes, and a bounded queue for what
//! the socket does not take.
//!
//! Invariant: a packet that was sent in part is always completed, or framing would be lost; bounds
//! apply to whole packets only.

use crate::config::LINK_PACKET_LEN_MAX;
use crate::datagram::{SAMPLE_INTERVAL, sys};
use crate::queue::ByteQueue;
use crate::shm::{SendError, SharedMemoryLink};
use crate::status::CloseReason;
use arrayvec::ArrayVec;
use nw_element_api::{Chunk, DropCause, Packet, Pool, Timestamp};
use nw_link::FaceUri;
use nw_link::outbox::{Outbox, Outgoing};
use nw_link::websocket::WebSocket;
use nw_link::websocket::handshake::ClientHandshake;
use nw_wire::tlv::{Framing, frame};
use nw_wire::{Error, Fault, LpPacket, types};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use std::cell::Cell;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tungstenite::handshake::client::generate_key;

/// Pieces per system call (UIO_MAXIOV).
const PIECES_MAX: usize = 1024;

/// Blocks of the queue per system call: megabytes.
const DRAINED_MAX: usize = 32;

/// Reads of 4 KiB that discard unread bytes when a WebSocket connection ends: closing with unread
/// bytes would discard the last ones sent.
const UNREAD_MAX: usize = 16;

/// Bytes at the start of a stream that are examined to recognise text.
const TEXT_LEN: usize = 16;

/// Bytes per read on a face that is new or had packets deferred recently. Doubled after each full
/// read without deferred packets.
const READ_LEN_MIN: usize = 16 << 10;

/// Buffers kept for partial packets.
const BUFFER_POOL_MAX: usize = 64;

/// Bytes of the longest read.
pub const READ_LEN_MAX: usize = 64 << 10;

/// Buffers that faces take when a read ends within a packet, and return with its remainder.
pub type BufferPool = Vec<Vec<u8>>;

/// A stream, connected or connecting.
#[derive(Debug)]
pub struct Stream {
    /// The socket.
    pub socket: OwnedFd,
    /// False while connecting, and during a client's handshake.
    pub connected: bool,
    /// WebSocket framing; `None` if packets are back to back.
    pub websocket: Option<Box<WebSocket>>,
    /// Shared memory that carries the bytes instead of the socket.
    pub shared: Option<Box<SharedMemoryLink>>,
    /// Remainder of the last read: the start of a packet, or more if deferred.
    partial: Vec<u8>,
    /// `partial` may hold whole packets, which were not processed yet.
    deferred: bool,
    /// Bytes of the next read, at most.
    read_len: usize,
    /// Bytes that the socket did not take.
    queue: ByteQueue,
    /// Bytes in the kernel that it has not transmitted, at the last sample; TCP only.
    pub kernel_queue: usize,
    sampled_at: Timestamp,
    /// The peer reads no more. What it sent before is still read; the end of that closes the face.
    peer_closed_read: bool,
    /// A well-formed packet has arrived: the peer speaks NDN.
    confirmed: bool,
    /// The end of the stream was read.
    read_ended: bool,
}

impl Stream {
    /// Returns the stream of a non-blocking socket.
    pub fn new(socket: OwnedFd, connected: bool, websocket: Option<WebSocket>) -> Self {
        Stream {
            socket,
            connected,
            websocket: websocket.map(Box::new),
            shared: None,
            partial: Vec::new(),
            deferred: false,
            read_len: READ_LEN_MIN,
            queue: ByteQueue::default(),
            kernel_queue: 0,
            sampled_at: Timestamp::START,
            peer_closed_read: false,
            confirmed: false,
            read_ended: false,
        }
    }

    /// Returns the stream to a peer that this end connects to.
    pub fn connecting(uri: &FaceUri, socket: OwnedFd, connected: bool) -> Self {
        match uri {
            // Not connected before the handshake is complete, even if the socket is.
            FaceUri::Ws(peer) => {
                let handshake = ClientHandshake::new(*peer, &generate_key());
                Stream::new(socket, false, Some(WebSocket::client(handshake, random_mask)))
            }
            _ => Stream::new(socket, connected, None),
        }
    }

    /// Returns the stream over shared memory, with its socket.
    pub fn over_shared_memory(socket: OwnedFd, shared: SharedMemoryLink) -> Self {
        let connected = shared.is_open();
        Stream { shared: Some(Box::new(shared)), ..Stream::new(socket, connected, None) }
    }

    /// Returns whether the handshake is not complete.
    pub fn is_opening(&self) -> bool {
        self.websocket.as_ref().is_some_and(|websocket| !websocket.is_open())
            || self.shared.as_ref().is_some_and(|shared| !shared.is_open())
    }

    /// Returns whether the socket is still connecting.
    pub const fn is_connecting(&self) -> bool {
        !self.connected && self.shared.is_none()
    }

    /// Returns whether to wait for writability to learn that the socket is connected.
    pub fn awaits_connection(&self) -> bool {
        self.is_connecting()
            && !self.websocket.as_ref().is_some_and(|websocket| websocket.is_awaiting_response())
    }

    /// Returns whether to wait for writability to send the queue. Shared memory reports free space
    /// by a message instead.
    pub fn awaits_writable(&self) -> bool {
        !self.queue.is_empty() && self.shared.is_none() && !self.is_opening()
    }

    /// Samples how much of a TCP stream the kernel has not transmitted, at most once a millisecond.
    pub fn sample_queue(&mut self, now: Timestamp) {
        if now >= self.sampled_at + SAMPLE_INTERVAL {
            self.sampled_at = now;
            self.kernel_queue = sys::unsent(self.socket.as_fd(), true);
        }
    }

    /// Returns the bytes in the send queue.
    pub fn queue_bytes(&self) -> usize {
        self.queue.len()
    }

    /// Returns the bytes of memory in the send queue and in deferred packets.
    pub fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes() + if self.deferred { self.partial.capacity() } else { 0 }
    }

    /// Returns whether there are packets that [`read`](Self::read) has deferred.
    pub const fn has_deferred(&self) -> bool {
        self.deferred
    }

    /// Drops the send queue, but for a packet that was sent in part. Returns how many packets were
    /// dropped.
    pub fn drop_queue(&mut self) -> usize {
        let is_framed = self.websocket.is_some();
        self.queue.drop_newest(|bytes| match frame(bytes, LINK_PACKET_LEN_MAX) {
            Ok(Framing::Whole(len)) if !is_framed => Some(len),
            _ => None,
        })
    }

    /// Reads at most `reads` times, up to `len_max` bytes each, and passes each packet to
    /// `on_packet`; `None` for one that the pool has no buffer for. Stops when `remaining`, which
    /// `on_packet` counts down, is 0: the packets read and not passed are deferred.
    ///
    /// # Errors
    /// Why the stream has ended. Packets passed before are valid.
    pub fn read(
        &mut self,
        (reads, len_max, remaining): (usize, usize, &Cell<usize>),
        pool: &mut Pool,
        buffers: &mut BufferPool,
        on_packet: impl FnMut(Option<Packet>, &mut Pool),
    ) -> Result<(), CloseReason> {
        let read = self.read_packets((reads, len_max, remaining), pool, buffers, on_packet);
        self.read_ended |= read.is_err();
        read
    }

    /// Returns whether more can be read: it is connected, and its end was not reached.
    pub const fn is_readable(&self) -> bool {
        self.connected && !self.read_ended
    }

    fn read_packets(
        &mut self,
        (reads, len_max, remaining): (usize, usize, &Cell<usize>),
        pool: &mut Pool,
        buffers: &mut BufferPool,
        mut on_packet: impl FnMut(Option<Packet>, &mut Pool),
    ) -> Result<(), CloseReason> {
        for _ in 0..reads {
            // Without a chunk nothing is read: the peer is slowed down, and nothing is lost.
            let Some(chunk) = pool.take_chunk() else { return Ok(()) };
            let partial_len = self.partial.len();
            let buffer = pool.chunk_bytes_mut(&chunk);
            buffer[..partial_len].copy_from_slice(&self.partial);
            let read_max = self.read_len.min(len_max).min(buffer.len() - partial_len);
            let received = if self.deferred {
                Ok(0)
            } else {
                self.receive(&mut buffer[partial_len..partial_len + read_max])
            };
            let filled = match received {
                Ok(read) if read > 0 || self.deferred => partial_len + read,
                other => {
                    pool.release_chunk(chunk);
                    return other.map(drop);
                }
            };
            self.recycle(buffers);
            let (at, end) = match &mut self.websocket {
                None => split_packets(
                    &chunk,
                    filled,
                    (&mut self.confirmed, remaining),
                    pool,
                    &mut on_packet,
                ),
                Some(websocket) => {
                    let queue = (&mut self.queue, remaining);
                    let (at, end) =
                        websocket.read_messages(&chunk, filled, pool, queue, &mut on_packet);
                    (at, end.map_err(CloseReason::from))
                }
            };
            let had_deferred = core::mem::replace(
                &mut self.deferred,
                remaining.get() == 0 && at < filled && end.is_ok(),
            );
            if self.deferred {
                self.read_len = READ_LEN_MIN;
            } else if filled == partial_len + read_max {
                self.read_len = (2 * self.read_len).min(READ_LEN_MAX);
            }
            if at < filled && end.is_ok() {
                self.partial = buffers.pop().unwrap_or_default();
                self.partial.extend_from_slice(&pool.chunk_bytes(&chunk)[at..filled]);
            }
            pool.release_chunk(chunk);
            end?;
            if self.deferred || !had_deferred && filled < partial_len + read_max {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends a WebSocket peer the reason for closing, as far as the socket takes it at once.
    pub fn close_with_reason(&mut self, reason: &CloseReason) {
        let Some(websocket) = self.websocket.as_mut().filter(|_| self.connected) else { return };
        match reason {
            CloseReason::WebSocket(fault) => websocket.close(Some(*fault), &mut self.queue),
            CloseReason::PeerClosed | CloseReason::Socket(_) => {}
            _ => websocket.close(None, &mut self.queue),
        }
        let _ = self.drain();
        shutdown_write(self.socket.as_fd());
    }

    /// Sends a ping on a WebSocket connection. Returns false if one was sent already and the peer
    /// has been silent since.
    pub fn ping(&mut self) -> bool {
        self.websocket.as_mut().is_some_and(|websocket| websocket.ping(&mut self.queue))
    }

    /// Reads into `buffer`. Returns the bytes read; 0 if there are none.
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

    fn recycle(&mut self, buffers: &mut BufferPool) {
        let mut partial = core::mem::take(&mut self.partial);
        if partial.capacity() > 0 && buffers.len() < BUFFER_POOL_MAX {
            partial.clear();
            buffers.push(partial);
        }
    }

    /// Sends the outbox as far as the socket takes it; the remainder is queued, up to `queue_max`
    /// bytes. Dropped link packets are passed to `dropped` with their length and cause. The outbox
    /// is left unchanged, for the caller to clear.
    ///
    /// # Errors
    /// Why the stream has ended.
    pub fn flush(
        &mut self,
        outbox: &Outbox,
        pool: &Pool,
        queue_max: usize,
        mut dropped: impl FnMut(&Outgoing, usize, DropCause),
    ) -> Result<(), CloseReason> {
        let mut items = outbox.items();
        while self.connected && !self.peer_closed_read && self.queue.is_empty() && !items.is_empty()
        {
            let mut pieces = ArrayVec::<_, PIECES_MAX>::new_const();
            let (gathered, total) = gather(items, outbox, pool, &mut pieces);
            let Some(sent) = transmit(self.socket.as_fd(), &mut self.shared, &pieces)? else {
                self.peer_closed_read = true;
                break;
            };
            if sent == total {
                items = &items[gathered..];
                continue;
            }
            self.queue_remaining(items, outbox, pool, sent, queue_max, dropped);
            return Ok(());
        }
        if self.peer_closed_read {
            items
                .iter()
                .for_each(|item| dropped(item, outbox.item_len(item, pool), DropCause::FaceGone));
        } else {
            self.queue_remaining(items, outbox, pool, 0, queue_max, dropped);
        }
        Ok(())
    }

    /// Copies link packets to the queue, without the first `sent` bytes.
    fn queue_remaining(
        &mut self,
        items: &[Outgoing],
        outbox: &Outbox,
        pool: &Pool,
        mut sent: usize,
        queue_max: usize,
        mut dropped: impl FnMut(&Outgoing, usize, DropCause),
    ) {
        for item in items {
            let parts = outbox.parts(item, pool);
            let len = parts[0].len() + parts[1].len();
            if sent >= len {
                sent -= len;
                continue;
            }
            // A packet that was sent in part must be completed, or framing is lost.
            if sent == 0 && self.queue.len() + len > queue_max {
                dropped(item, len, DropCause::FaceQueueFull);
                continue;
            }
            let (head, body) = (
                &parts[0][sent.min(parts[0].len())..],
                &parts[1][sent.saturating_sub(parts[0].len())..],
            );
            self.queue.push(&[head, body]);
            sent = 0;
        }
    }

    /// Sends the queue as far as the socket takes it.
    ///
    /// # Errors
    /// Why the stream has ended.
    pub fn drain(&mut self) -> Result<(), CloseReason> {
        while self.connected && !self.queue.is_empty() {
            let pieces = self.queue.slices().take(DRAINED_MAX).map(IoSlice::new);
            let pieces = pieces.collect::<ArrayVec<_, DRAINED_MAX>>();
            let offered = pieces.iter().map(|piece| piece.len()).sum();
            let sent = transmit(self.socket.as_fd(), &mut self.shared, &pieces)?;
            drop(pieces);
            self.peer_closed_read |= sent.is_none();
            self.queue.consume(sent.unwrap_or(self.queue.len()));
            if sent < Some(offered) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Sends without blocking. Returns the bytes sent. `None` if the peer reads no more.
fn transmit(
    socket: BorrowedFd<'_>,
    shared: &mut Option<Box<SharedMemoryLink>>,
    pieces: &[IoSlice<'_>],
) -> Result<Option<usize>, CloseReason> {
    if let Some(shared) = shared {
        return match shared.send(socket, pieces) {
            Ok(sent) => Ok(Some(sent)),
            Err(SendError::PeerGone) => Ok(None),
            Err(SendError::Fault(fault)) => Err(CloseReason::SharedMemory(fault)),
        };
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        return match rustix::net::sendmsg(
            socket,
            pieces,
            &mut SendAncillaryBuffer::default(),
            flags,
        ) {
            Ok(sent) => Ok(Some(sent)),
            Err(Errno::AGAIN | Errno::NOBUFS) => Ok(Some(0)),
            Err(Errno::INTR) => continue,
            Err(Errno::PIPE) => Ok(None),
            Err(errno) => Err(close_reason(errno)),
        };
    }
}

/// Shuts down writing and reads what has arrived: a socket closed with unread bytes would discard
/// the last ones sent.
pub fn shutdown_write(socket: BorrowedFd<'_>) {
    let _ = rustix::net::shutdown(socket, Shutdown::Write);
    let mut unread = [0; 4096];
    for _ in 0..UNREAD_MAX {
        if !matches!(rustix::net::recv(socket, &mut unread[..], RecvFlags::DONTWAIT), Ok((1.., _)))
        {
            return;
        }
    }
}

/// Splits back-to-back packets and passes them to `on_packet`. Returns the bytes consumed. The
/// first well-formed packet sets `confirmed`.
fn split_packets(
    chunk: &Chunk,
    filled: usize,
    (confirmed, remaining): (&mut bool, &Cell<usize>),
    pool: &mut Pool,
    on_packet: &mut impl FnMut(Option<Packet>, &mut Pool),
) -> (usize, Result<(), CloseReason>) {
    let unknown = || Err(CloseReason::FramingLost(Error::new(Fault::UnknownPacket, 0)));
    let mut at = 0;
    loop {
        if remaining.get() == 0 {
            return (at, Ok(()));
        }
        let stream = &pool.chunk_bytes(chunk)[at..filled];
        if is_unknown_protocol(stream) {
            return (at, unknown());
        }
        match frame(stream, LINK_PACKET_LEN_MAX) {
            Ok(Framing::Whole(len)) => {
                if !*confirmed {
                    *confirmed = is_packet(&stream[..len]);
                    if !*confirmed && is_text(&stream[..len]) {
                        return (at, unknown());
                    }
                }
                let packet = pool.packet_in(chunk, at..at + len);
                on_packet(packet, pool);
                at += len;
            }
            Ok(Framing::Partial) => return (at, Ok(())),
            Err(error) => return (at, Err(CloseReason::FramingLost(error))),
        }
    }
}

/// Returns whether the next element is not an Interest, Data, LpPacket or publication: the peer
/// speaks another protocol, or framing was lost.
///
/// Elements of other types are not skipped (decision 0040): `P` of `POST` is a valid type, and the
/// length after it would lead through another protocol's text to bytes that its author chose.
#[inline]
fn is_unknown_protocol(stream: &[u8]) -> bool {
    stream.first().is_some_and(|first| {
        let typ = u32::from(*first);
        !matches!(typ, types::INTEREST | types::DATA | types::LP_PACKET | types::PUBLICATION)
    })
}

/// Returns whether an element is a link packet by its header, with the start of a network packet in
/// it.
fn is_packet(element: &[u8]) -> bool {
    LpPacket::check(element).is_ok_and(|packet| {
        let first =
            packet.fragment.and_then(|fragment| fragment.first()).map(|first| u32::from(*first));
        let is_known =
            matches!(first, None | Some(types::INTEREST | types::DATA | types::PUBLICATION));
        packet.is_fragmented() || is_known
    })
}

/// Returns whether an element starts like text. The type of LpPacket is the letter `d`, so a
/// request whose method starts with it looks like one until its fields are parsed; no Interest or
/// Data starts with text.
fn is_text(element: &[u8]) -> bool {
    let head = &element[..element.len().min(TEXT_LEN)];
    head.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n'))
}

/// Returns a mask for a frame that a client sends; zeros if the system has no randomness.
fn random_mask() -> [u8; 4] {
    let mut mask = [0; 4];
    let _ = getrandom::fill(&mut mask);
    mask
}

fn close_reason(errno: Errno) -> CloseReason {
    match errno {
        Errno::CONNRESET => CloseReason::PeerClosed,
        _ => CloseReason::Socket(errno),
    }
}

/// Gathers as many link packets as one call takes. Returns their number and their bytes.
fn gather<'a>(
    items: &'a [Outgoing],
    outbox: &'a Outbox,
    pool: &'a Pool,
    // Passed in, as an array of this size should not be moved.
    pieces: &mut ArrayVec<IoSlice<'a>, PIECES_MAX>,
) -> (usize, usize) {
    let (mut at, mut total) = (0, 0);
    while at < items.len() && pieces.remaining_capacity() >= 2 {
        // Short packets and headers are contiguous in the outbox's buffer.
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

    /// Writes bytes to a new stream. Returns how many packets it passed, and whether it goes on.
    fn packets_of(written: &[u8]) -> (usize, bool) {
        let mut pool = Pool::new(HashKey::new([1, 2, 3, 4]), 4, 256);
        let (own, mut peer) = UnixStream::pair().unwrap();
        let mut stream = Stream::new(own.into(), true, None);
        peer.write_all(written).unwrap();
        let mut count = 0;
        let read = stream.read(
            (4, READ_LEN_MAX, &Cell::new(usize::MAX)),
            &mut pool,
            &mut BufferPool::new(),
            |packet, pool| {
                count += 1;
                packet.into_iter().for_each(|packet| pool.release(packet));
            },
        );
        assert_eq!(pool.chunks_in_use(), 0);
        assert_eq!(stream.is_readable(), read.is_ok());
        (count, read.is_ok())
    }

    /// First bytes of other protocols, each followed by a packet that their author wants to be
    /// read.
    #[test]
    fn stream_of_another_protocol_ends_before_any_packet() {
        let text = |opening: &str| opening.as_bytes().to_vec();
        let steered = |head: &str| {
            // The second byte is taken as a length: the head is padded to it.
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
            (
                "HTTP, a method that starts like an LpPacket",
                steered("d~ /aaaa HTTP/1.1\r\nHost: x\r\n"),
            ),
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
            // Also as a later element it ends the stream; earlier packets are passed.
            let later = packets_of(&[wanted, &opening[..], wanted].concat());
            let is_link_packet = opening[0] == 100;
            assert!(later == (1, false) || is_link_packet, "{protocol}: {later:?}");
        }
    }

    #[test]
    fn publication_without_link_header_passes_a_stream() {
        let publication = [&[176, 41, 1, 0, 0, 9, 0, 8, 0, 0][..], &[1; 33]].concat();
        assert!(is_packet(&publication));
        assert_eq!(packets_of(&publication.repeat(3)), (3, true));
    }

    #[test]
    fn malformed_packet_does_not_end_stream() {
        // Malformed binary packets, first or later, don't end the stream; the host drops and counts
        // them.
        for bytes in [&[5, 2, 0xf0, 0][..], &[100, 4, 0xfd, 1, 0, 0], &[6, 0], &[5, 1, 0]] {
            assert_eq!(packets_of(bytes), (1, true), "{bytes:?}");
        }
        // A PIT token of text in a well-formed link packet; after one, text is as malformed as
        // anything else.
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
        fn packets_are_the_same_for_any_split(
            lens in proptest::collection::vec(prop_oneof![0usize..300, 8000usize..8780], 1..60),
            cuts in proptest::collection::vec(1usize..40_000, 1..20),
        ) {
            let mut pool = Pool::new(HashKey::new([1, 2, 3, 4]), 4, 256);
            let mut buffers = BufferPool::new();
            let (own, mut peer) = UnixStream::pair().unwrap();
            let mut stream = Stream::new(own.into(), true, None);
            let packets: Vec<Vec<u8>> = lens.iter().map(|len| {
                let mut packet = Vec::new();
                push_tlv(6, &vec![*len as u8; *len], &mut packet);
                packet
            }).collect();
            let bytes = packets.concat();
            let (mut unsent, mut got) = (&bytes[..], Vec::new());
            let mut cuts = cuts.iter().cycle();
            while !unsent.is_empty() {
                let (now, later) = unsent.split_at(unsent.len().min(*cuts.next().unwrap()));
                peer.write_all(now).unwrap();
                unsent = later;
                let limits = (2, READ_LEN_MAX, &Cell::new(usize::MAX));
                let read = stream.read(limits, &mut pool, &mut buffers, |packet, pool| {
                    let packet = packet.expect("there is room");
                    got.push(pool.bytes(&packet).to_vec());
                    pool.release(packet);
                });
                prop_assert!(read.is_ok());
                prop_assert_eq!(pool.chunks_in_use(), 0);
            }
            prop_assert!(got == packets);
            prop_assert!(stream.partial.capacity() == 0 && buffers.len() <= 1);
        }
    }
}
