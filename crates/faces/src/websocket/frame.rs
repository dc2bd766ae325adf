//! WebSocket frames: heads read and written, masks put on and taken off.

use super::fault::WebSocketFault;
use arrayvec::ArrayVec;
use std::io::Cursor;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

/// Octets of the longest head.
pub const HEAD_LEN_MAX: usize = 14;

/// Octets of the longest payload of a control frame.
pub const CONTROL_LEN_MAX: usize = 125;

/// Which end of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The peer connected: it masks what it sends.
    Server,
    /// This end connected: it masks what it sends.
    Client,
}

impl Role {
    /// A fresh mask for a frame that this end sends.
    pub fn new_mask(self) -> Option<[u8; 4]> {
        (self == Role::Client).then(|| {
            let mut mask = [0; 4];
            // Masks keep what a page sends from looking like HTTP to a broken proxy. The packets of a router are no page's choice, so one that
            // can be guessed does no harm where the system has no randomness.
            let _ = getrandom::fill(&mut mask);
            mask
        })
    }
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// More of a message.
    Continuation,
    /// A message of text, or its beginning.
    Text,
    /// A message of octets, or its beginning.
    Binary,
    /// The end of the connection.
    Close,
    /// To be answered by a pong.
    Ping,
    /// The answer.
    Pong,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Octets of the head itself.
    pub len: usize,
    /// Octets behind it.
    pub payload_len: usize,
    /// What the frame is.
    pub kind: Kind,
    /// The last of its message.
    pub is_final: bool,
    /// What is on each four octets of the payload.
    pub mask: Option<[u8; 4]>,
}

/// Reads the head of a frame that was sent to this end; `None` when it is not all there.
///
/// # Errors
/// What no frame of this protocol without extensions is.
pub fn head(bytes: &[u8], role: Role) -> Result<Option<Head>, WebSocketFault> {
    let mut cursor = Cursor::new(bytes);
    let parsed = FrameHeader::parse(&mut cursor).map_err(|_| WebSocketFault::Frame)?;
    let Some((header, payload_len)) = parsed else { return Ok(None) };
    if header.rsv1 || header.rsv2 || header.rsv3 {
        return Err(WebSocketFault::Frame);
    }
    if header.mask.is_some() != (role == Role::Server) {
        return Err(WebSocketFault::Mask);
    }
    let kind = match header.opcode {
        OpCode::Data(Data::Continue) => Kind::Continuation,
        OpCode::Data(Data::Text) => Kind::Text,
        OpCode::Data(Data::Binary) => Kind::Binary,
        OpCode::Control(Control::Close) => Kind::Close,
        OpCode::Control(Control::Ping) => Kind::Ping,
        OpCode::Control(Control::Pong) => Kind::Pong,
        OpCode::Data(Data::Reserved(_)) | OpCode::Control(Control::Reserved(_)) => {
            return Err(WebSocketFault::Frame);
        }
    };
    let is_control = matches!(kind, Kind::Close | Kind::Ping | Kind::Pong);
    if is_control && (!header.is_final || payload_len > CONTROL_LEN_MAX as u64) {
        return Err(WebSocketFault::Control);
    }
    // Longer than memory is longer than any packet.
    let payload_len = usize::try_from(payload_len).map_err(|_| WebSocketFault::TooLong)?;
    let len = cursor.position() as usize;
    Ok(Some(Head { len, payload_len, kind, is_final: header.is_final, mask: header.mask }))
}

/// The head of a frame that is a whole message.
pub fn head_of(kind: Kind, payload_len: usize, mask: Option<[u8; 4]>) -> ArrayVec<u8, HEAD_LEN_MAX> {
    let opcode = match kind {
        Kind::Continuation => OpCode::Data(Data::Continue),
        Kind::Text => OpCode::Data(Data::Text),
        Kind::Binary => OpCode::Data(Data::Binary),
        Kind::Close => OpCode::Control(Control::Close),
        Kind::Ping => OpCode::Control(Control::Ping),
        Kind::Pong => OpCode::Control(Control::Pong),
    };
    let header = FrameHeader { is_final: true, rsv1: false, rsv2: false, rsv3: false, opcode, mask };
    let mut octets = [0; HEAD_LEN_MAX];
    header.format(payload_len as u64, &mut &mut octets[..]).expect("there is room for the longest head");
    octets.into_iter().take(header.len(payload_len as u64)).collect()
}

/// Puts a mask on, or takes it off.
pub fn mask(bytes: &mut [u8], mask: Option<[u8; 4]>) {
    let Some([a, b, c, d]) = mask else { return };
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    rest.iter_mut().zip([a, b, c, d].into_iter().cycle()).for_each(|(octet, mask)| *octet ^= mask);
}

/// The code in a closing frame's payload, if there is one.
///
/// # Errors
/// When it is none that may be sent, or its reason no text.
pub fn close_code(payload: &[u8]) -> Result<Option<u16>, WebSocketFault> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() { Ok(None) } else { Err(WebSocketFault::Close) };
    };
    let code = u16::from_be_bytes(*code);
    let fits = CloseCode::from(code).is_allowed() && core::str::from_utf8(reason).is_ok();
    if fits { Ok(Some(code)) } else { Err(WebSocketFault::Close) }
}
