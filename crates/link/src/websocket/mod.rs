//! WebSocket (RFC 6455) over a stream, without I/O: bytes in, messages and control frames out.
//!
//! A packet is one binary message, as in NFD. A message in one frame is unmasked in the chunk that
//! it was read into and never copied; a fragmented message is assembled here, up to the longest
//! link packet. Heads of frames and the HTTP handshake are parsed by `tungstenite` (decision 0011).
//!
//! Invariant: a frame is accepted or rejected by its head alone, so an oversized one holds no
//! memory.

pub mod fault;
pub mod frame;
pub mod handshake;

use crate::config::LINK_PACKET_LEN_MAX;
use arrayvec::ArrayVec;
use fault::WebSocketFault;
use frame::{CONTROL_LEN_MAX, Framing, Kind, MaskSource, Role};
use handshake::ClientHandshake;
use nw_element_api::{Chunk, Packet, Pool};
use std::cell::Cell;

/// Pings are not answered while more bytes than this are queued: a peer that doesn't read must not
/// fill memory by pinging.
const ANSWERS_MAX: usize = 64 << 10;

/// Close code of a normal end.
const CLOSE_NORMAL: u16 = 1000;

/// Close code of an end that goes away.
const CLOSE_GOING_AWAY: u16 = 1001;

/// A queue of bytes to send to the peer, for pongs, pings and close frames.
pub trait SendQueue {
    /// Returns the bytes queued.
    fn queued_len(&self) -> usize;
    /// Appends one control frame, given in parts.
    fn push_frame(&mut self, parts: &[&[u8]]);
}

impl SendQueue for Vec<u8> {
    fn queued_len(&self) -> usize {
        self.len()
    }

    fn push_frame(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.extend_from_slice(part));
    }
}

/// Why no more messages can be read from a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The peer closed the connection.
    PeerClosed,
    /// The peer violated the protocol.
    Fault(WebSocketFault),
}

impl From<WebSocketFault> for ConnectionEnd {
    fn from(fault: WebSocketFault) -> Self {
        ConnectionEnd::Fault(fault)
    }
}

/// Protocol state of one connection.
#[derive(Debug)]
pub struct WebSocket {
    role: Role,
    mask_source: MaskSource,
    /// The handshake of a connection that this end opened, until the server has accepted.
    handshake: Option<Box<ClientHandshake>>,
    /// A fragmented message without its last frame.
    partial_message: Option<Vec<u8>>,
    /// A ping was sent since the peer was last active.
    ping_outstanding: bool,
    /// This end sent a close frame.
    close_sent: bool,
}

impl WebSocket {
    /// Returns the state of a connection that a peer opened, after its handshake.
    pub const fn server() -> Self {
        WebSocket {
            role: Role::Server,
            mask_source: || [0; 4],
            handshake: None,
            partial_message: None,
            ping_outstanding: false,
            close_sent: false,
        }
    }

    /// Returns the state of a connection that this end opens, before its handshake.
    pub fn client(handshake: ClientHandshake, mask_source: MaskSource) -> Self {
        let handshake = Some(Box::new(handshake));
        WebSocket { role: Role::Client, mask_source, handshake, ..WebSocket::server() }
    }

    /// Returns how this end frames link packets.
    pub const fn framing(&self) -> Framing {
        Framing { role: self.role, mask_source: self.mask_source }
    }

    /// Returns the client's handshake until it is complete.
    pub fn handshake(&mut self) -> Option<&mut ClientHandshake> {
        self.handshake.as_deref_mut()
    }

    /// Returns whether this end's request was sent and its response is not complete.
    pub fn is_awaiting_response(&self) -> bool {
        self.handshake.as_ref().is_some_and(|handshake| handshake.request_sent)
    }

    /// Returns whether the handshake is complete, so that packets can be sent.
    pub const fn is_open(&self) -> bool {
        self.handshake.is_none()
    }

    /// Splits `filled` bytes of a chunk into messages and passes each to `on_packet`; `None` for
    /// one that the pool has no buffer for. Replies to the peer are appended to `queue`. Stops when
    /// `remaining`, which `on_packet` counts down, is 0.
    ///
    /// Returns the bytes consumed; those after them are the start of an incomplete frame, shorter
    /// than the longest permitted one. The result is an error once the connection has ended.
    pub fn read_messages(
        &mut self,
        chunk: &Chunk,
        filled: usize,
        pool: &mut Pool,
        (queue, remaining): (&mut impl SendQueue, &Cell<usize>),
        on_packet: &mut impl FnMut(Option<Packet>, &mut Pool),
    ) -> (usize, Result<(), ConnectionEnd>) {
        let mut consumed = 0;
        if let Some(handshake) = &mut self.handshake {
            match handshake.check_response(&pool.chunk_bytes(chunk)[..filled]) {
                Ok(Some(len)) => consumed = len,
                Ok(None) => return (0, Ok(())),
                Err(fault) => return (0, Err(fault.into())),
            }
            self.handshake = None;
        }
        loop {
            if remaining.get() == 0 {
                return (consumed, Ok(()));
            }
            match self.read_frame(chunk, consumed..filled, pool, queue, on_packet) {
                Ok(0) => return (consumed, Ok(())),
                Ok(len) => consumed += len,
                Err(end) => return (consumed, Err(end)),
            }
        }
    }

    /// Processes the frame at the start of a range. Returns its length, or 0 if it is incomplete.
    fn read_frame(
        &mut self,
        chunk: &Chunk,
        range: core::ops::Range<usize>,
        pool: &mut Pool,
        queue: &mut impl SendQueue,
        on_packet: &mut impl FnMut(Option<Packet>, &mut Pool),
    ) -> Result<usize, ConnectionEnd> {
        let head = frame::parse_head(&pool.chunk_bytes(chunk)[range.clone()], self.role)?;
        let Some(head) = head else { return Ok(0) };
        self.check_head(&head)?;
        let payload = range.start + head.len..range.start + head.len + head.payload_len;
        if payload.end > range.end {
            return Ok(0);
        }
        let bytes = &mut pool.chunk_bytes_mut(chunk)[payload.clone()];
        frame::mask(bytes, head.mask);
        match head.kind {
            Kind::Ping => {
                if queue.queued_len() <= ANSWERS_MAX {
                    self.push_control(Kind::Pong, bytes, queue);
                }
            }
            Kind::Pong => {}
            Kind::Close => return Err(self.on_close_frame(bytes, queue)),
            Kind::Binary if head.is_final => {
                let packet = pool.packet_in(chunk, payload.clone());
                on_packet(packet, pool);
            }
            Kind::Binary | Kind::Text | Kind::Continuation => {
                self.partial_message.get_or_insert_default().extend_from_slice(bytes);
                if let Some(message) = self.partial_message.take_if(|_| head.is_final) {
                    let packet = pool.copy_of(&message);
                    on_packet(packet, pool);
                }
            }
        }
        Ok(payload.end - range.start)
    }

    /// Checks that a frame with this head may follow the earlier ones, and is not too long.
    fn check_head(&self, head: &frame::Head) -> Result<(), WebSocketFault> {
        let partial_len = match (head.kind, &self.partial_message) {
            (Kind::Text, _) => return Err(WebSocketFault::Text),
            (Kind::Binary, Some(_)) | (Kind::Continuation, None) => {
                return Err(WebSocketFault::Order);
            }
            (Kind::Binary, None) => 0,
            (Kind::Continuation, Some(partial)) => partial.len(),
            (Kind::Ping | Kind::Pong | Kind::Close, _) => return Ok(()),
        };
        let fits = head.payload_len <= LINK_PACKET_LEN_MAX - partial_len;
        if fits { Ok(()) } else { Err(WebSocketFault::TooLong) }
    }

    /// Answers the peer's close frame with the same code, as RFC 6455 requires.
    fn on_close_frame(&mut self, payload: &[u8], queue: &mut impl SendQueue) -> ConnectionEnd {
        match frame::close_code(payload) {
            Ok(code) => {
                self.push_close(code.unwrap_or(CLOSE_NORMAL), "", queue);
                ConnectionEnd::PeerClosed
            }
            Err(fault) => ConnectionEnd::Fault(fault),
        }
    }

    /// Queues a close frame, once: with the code and description of `fault`, or "going away".
    pub fn close(&mut self, fault: Option<WebSocketFault>, queue: &mut impl SendQueue) {
        match fault {
            Some(fault) => self.push_close(fault.code(), fault.as_str(), queue),
            None => self.push_close(CLOSE_GOING_AWAY, "", queue),
        }
    }

    /// Queues a ping. Returns false if one was sent already and the peer has been silent since.
    pub fn ping(&mut self, queue: &mut impl SendQueue) -> bool {
        if core::mem::replace(&mut self.ping_outstanding, true) {
            return false;
        }
        self.push_control(Kind::Ping, &[], queue);
        true
    }

    /// Notes that bytes of the peer have arrived.
    pub const fn mark_active(&mut self) {
        self.ping_outstanding = false;
    }

    fn push_close(&mut self, code: u16, reason: &str, queue: &mut impl SendQueue) {
        if core::mem::replace(&mut self.close_sent, true) || !self.is_open() {
            return;
        }
        let reason = &reason.as_bytes()[..reason.len().min(CONTROL_LEN_MAX - 2)];
        self.push_control(Kind::Close, &[&code.to_be_bytes(), reason].concat(), queue);
    }

    fn push_control(&self, kind: Kind, payload: &[u8], queue: &mut impl SendQueue) {
        let mask = self.framing().new_mask();
        let mut bytes: ArrayVec<u8, CONTROL_LEN_MAX> = payload.iter().copied().collect();
        frame::mask(&mut bytes, mask);
        queue.push_frame(&[&frame::encode_head(kind, bytes.len(), mask), &bytes]);
    }
}

#[cfg(test)]
mod tests;
