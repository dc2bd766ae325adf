//! WebSocket (RFC 6455) over a stream, without I/O: octets in, messages and answers out.
//!
//! A packet is a binary message of its own, as the reference forwarder has it. A message that comes in one frame is unmasked in the chunk it was read
//! into and never copied; one in several frames is put together here, up to the longest link packet. Heads of frames and the HTTP at the
//! beginning are `tungstenite`'s (decision 0011).

pub mod fault;
pub mod frame;
pub mod handshake;

use crate::config::LINK_PACKET_LEN_MAX;
use crate::queue::ByteQueue;
use crate::status::CloseReason;
use arrayvec::ArrayVec;
use fault::WebSocketFault;
use frame::{CONTROL_LEN_MAX, Kind, Role};
use handshake::Opening;
use nw_element_api::{Chunk, Packet, Pool};
use std::cell::Cell;

/// Pings are not answered while more than this waits for the socket. A peer that doesn't read gets no memory for asking.
const ANSWERS_MAX: usize = 64 << 10;

/// The end of a connection, without a reason of ours.
const NORMAL: u16 = 1000;

/// This end goes away.
const GOING_AWAY: u16 = 1001;

/// What is known of a connection beyond its octets.
#[derive(Debug)]
pub struct WebSocket {
    role: Role,
    /// At the beginning of a connection that this end made: what was asked, until it is answered.
    opening: Option<Box<Opening>>,
    /// A message whose last frame has not come.
    begun: Option<Vec<u8>>,
    /// A ping was sent since the peer was heard.
    pinged: bool,
    /// This end said that it ends.
    parted: bool,
}

impl WebSocket {
    /// After the handshake of a peer that connected to this end.
    pub const fn accepted() -> Self {
        WebSocket { role: Role::Server, opening: None, begun: None, pinged: false, parted: false }
    }

    /// Before the handshake of a connection that this end makes.
    pub fn to_open(opening: Opening) -> Self {
        let opening = Some(Box::new(opening));
        WebSocket { role: Role::Client, opening, begun: None, pinged: false, parted: false }
    }

    /// Which end this is.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// The handshake, as long as it is not over.
    pub fn opening(&mut self) -> Option<&mut Opening> {
        self.opening.as_deref_mut()
    }

    /// True while the handshake of this end was sent and not answered.
    pub fn has_asked(&self) -> bool {
        self.opening.as_ref().is_some_and(|opening| opening.asked)
    }

    /// True when packets can go either way.
    pub const fn is_open(&self) -> bool {
        self.opening.is_none()
    }

    /// Cuts what was read into messages and shows each; `None` for one that there was no room for. Answers to the peer are added to `answers`.
    /// Shows no more when `left` is 0. Gives how far it came: what is behind that is the beginning of a frame, shorter than the longest there may be.
    pub fn cut(
        &mut self,
        chunk: &Chunk,
        filled: usize,
        pool: &mut Pool,
        (answers, left): (&mut ByteQueue, &Cell<usize>),
        each: &mut impl FnMut(Option<Packet>, &mut Pool),
    ) -> (usize, Result<(), CloseReason>) {
        let mut at = 0;
        if let Some(opening) = &mut self.opening {
            match opening.answered(&pool.chunk_bytes(chunk)[..filled]) {
                Ok(Some(len)) => at = len,
                Ok(None) => return (0, Ok(())),
                Err(fault) => return (0, Err(CloseReason::WebSocket(fault))),
            }
            self.opening = None;
        }
        loop {
            if left.get() == 0 {
                return (at, Ok(()));
            }
            match self.frame(chunk, at..filled, pool, answers, each) {
                Ok(0) => return (at, Ok(())),
                Ok(len) => at += len,
                Err(reason) => return (at, Err(reason)),
            }
        }
    }

    /// Takes in the frame at the beginning of a range; its octets, or 0 when it is not whole.
    fn frame(
        &mut self,
        chunk: &Chunk,
        range: core::ops::Range<usize>,
        pool: &mut Pool,
        answers: &mut ByteQueue,
        each: &mut impl FnMut(Option<Packet>, &mut Pool),
    ) -> Result<usize, CloseReason> {
        let Some(head) = frame::head(&pool.chunk_bytes(chunk)[range.clone()], self.role)? else {
            return Ok(0);
        };
        // Judged by its head alone: nothing is kept of what can't be taken.
        self.judge(&head)?;
        let payload = range.start + head.len..range.start + head.len + head.payload_len;
        if payload.end > range.end {
            return Ok(0);
        }
        let bytes = &mut pool.chunk_bytes_mut(chunk)[payload.clone()];
        frame::mask(bytes, head.mask);
        match head.kind {
            Kind::Ping => {
                if answers.len() <= ANSWERS_MAX {
                    self.push_control(Kind::Pong, bytes, answers);
                }
            }
            Kind::Pong => {}
            Kind::Close => return Err(self.closed(bytes, answers)),
            Kind::Binary if head.is_final => {
                let packet = pool.packet_in(chunk, payload.clone());
                each(packet, pool);
            }
            Kind::Binary | Kind::Text | Kind::Continuation => {
                self.begun.get_or_insert_default().extend_from_slice(bytes);
                if let Some(message) = self.begun.take_if(|_| head.is_final) {
                    let packet = pool.copy_of(&message);
                    each(packet, pool);
                }
            }
        }
        Ok(payload.end - range.start)
    }

    /// Whether a frame may come now.
    fn judge(&self, head: &frame::Head) -> Result<(), WebSocketFault> {
        let before = match (head.kind, &self.begun) {
            (Kind::Text, _) => return Err(WebSocketFault::Text),
            (Kind::Binary, Some(_)) | (Kind::Continuation, None) => return Err(WebSocketFault::Order),
            (Kind::Binary, None) => 0,
            (Kind::Continuation, Some(begun)) => begun.len(),
            (Kind::Ping | Kind::Pong | Kind::Close, _) => return Ok(()),
        };
        let fits = head.payload_len <= LINK_PACKET_LEN_MAX - before;
        if fits { Ok(()) } else { Err(WebSocketFault::TooLong) }
    }

    /// The peer ends the connection: its code comes back to it, as the protocol has it.
    fn closed(&mut self, payload: &[u8], answers: &mut ByteQueue) -> CloseReason {
        match frame::close_code(payload) {
            Ok(code) => {
                self.push_close(code.unwrap_or(NORMAL), "", answers);
                CloseReason::PeerClosed
            }
            Err(fault) => CloseReason::WebSocket(fault),
        }
    }

    /// Says that the connection ends, if that is worth saying.
    pub fn part(&mut self, reason: &CloseReason, answers: &mut ByteQueue) {
        match reason {
            CloseReason::WebSocket(fault) => self.push_close(fault.code(), fault.as_str(), answers),
            CloseReason::PeerClosed | CloseReason::Socket(_) => {}
            _ => self.push_close(GOING_AWAY, "", answers),
        }
    }

    /// Asks the peer whether it is there; false when it was asked already, and nothing came.
    pub fn ping(&mut self, queue: &mut ByteQueue) -> bool {
        if core::mem::replace(&mut self.pinged, true) {
            return false;
        }
        self.push_control(Kind::Ping, &[], queue);
        true
    }

    /// The peer was heard.
    pub const fn heard(&mut self) {
        self.pinged = false;
    }

    fn push_close(&mut self, code: u16, why: &str, queue: &mut ByteQueue) {
        if core::mem::replace(&mut self.parted, true) || !self.is_open() {
            return;
        }
        let why = &why.as_bytes()[..why.len().min(CONTROL_LEN_MAX - 2)];
        self.push_control(Kind::Close, &[&code.to_be_bytes(), why].concat(), queue);
    }

    fn push_control(&self, kind: Kind, payload: &[u8], queue: &mut ByteQueue) {
        let mask = self.role.new_mask();
        let mut octets: ArrayVec<u8, CONTROL_LEN_MAX> = payload.iter().copied().collect();
        frame::mask(&mut octets, mask);
        queue.push(&[&frame::head_of(kind, octets.len(), mask), &octets]);
    }
}

impl From<WebSocketFault> for CloseReason {
    fn from(fault: WebSocketFault) -> Self {
        CloseReason::WebSocket(fault)
    }
}

#[cfg(test)]
mod tests;
