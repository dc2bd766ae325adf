//! WebSocket frames (RFC 6455, section 5): heads are parsed and encoded, masks applied.

use super::fault::WebSocketFault;
use arrayvec::ArrayVec;
use std::io::Cursor;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

/// Bytes of the longest head of a frame.
pub const HEAD_LEN_MAX: usize = 14;

/// Bytes of the longest payload of a control frame.
pub const CONTROL_LEN_MAX: usize = 125;

/// Which end of a connection this is; clients mask the frames they send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The peer connected to this end.
    Server,
    /// This end connected to the peer.
    Client,
}

/// Source of masks: returns four unpredictable bytes per call.
pub type MaskSource = fn() -> [u8; 4];

/// How this end of a connection frames what it sends.
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    /// Which end this is.
    pub role: Role,
    /// Source of a client's masks. They keep a page's data from looking like HTTP to a broken
    /// proxy; a router's packets are not chosen by a page, so a predictable mask does no harm.
    pub mask_source: MaskSource,
}

impl Framing {
    /// Returns the mask for a frame that this end sends. `None` for a server.
    pub fn new_mask(&self) -> Option<[u8; 4]> {
        (self.role == Role::Client).then(self.mask_source)
    }
}

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Further part of a fragmented message.
    Continuation,
    /// A text message, or its first part.
    Text,
    /// A binary message, or its first part.
    Binary,
    /// The end of the connection.
    Close,
    /// A request for a pong.
    Ping,
    /// The reply to a ping.
    Pong,
}

/// Head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the head.
    pub len: usize,
    /// Bytes of the payload after it.
    pub payload_len: usize,
    /// Kind of the frame.
    pub kind: Kind,
    /// Whether this is the last frame of its message.
    pub is_final: bool,
    /// The mask of the payload, if it is masked.
    pub mask: Option<[u8; 4]>,
}

/// Parses the head of a frame sent to this end. `None` if it is incomplete.
///
/// # Errors
/// A head that is invalid without extensions, or not permitted from the other end.
pub fn parse_head(bytes: &[u8], role: Role) -> Result<Option<Head>, WebSocketFault> {
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
    // A length beyond the address space is longer than any packet.
    let payload_len = usize::try_from(payload_len).map_err(|_| WebSocketFault::TooLong)?;
    let len = cursor.position() as usize;
    Ok(Some(Head { len, payload_len, kind, is_final: header.is_final, mask: header.mask }))
}

/// Encodes the head of a frame that is a complete message.
pub fn encode_head(
    kind: Kind,
    payload_len: usize,
    mask: Option<[u8; 4]>,
) -> ArrayVec<u8, HEAD_LEN_MAX> {
    let opcode = match kind {
        Kind::Continuation => OpCode::Data(Data::Continue),
        Kind::Text => OpCode::Data(Data::Text),
        Kind::Binary => OpCode::Data(Data::Binary),
        Kind::Close => OpCode::Control(Control::Close),
        Kind::Ping => OpCode::Control(Control::Ping),
        Kind::Pong => OpCode::Control(Control::Pong),
    };
    let header =
        FrameHeader { is_final: true, rsv1: false, rsv2: false, rsv3: false, opcode, mask };
    let mut bytes = [0; HEAD_LEN_MAX];
    header
        .format(payload_len as u64, &mut &mut bytes[..])
        .expect("there is room for the longest head");
    bytes.into_iter().take(header.len(payload_len as u64)).collect()
}

/// Applies or removes a mask; `None` leaves the bytes as they are.
pub fn mask(bytes: &mut [u8], mask: Option<[u8; 4]>) {
    let Some([a, b, c, d]) = mask else { return };
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, tail) = bytes.as_chunks_mut::<8>();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    tail.iter_mut().zip([a, b, c, d].into_iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
}

/// Returns the code in a close frame's payload. `None` if the payload is empty.
///
/// # Errors
/// A code that must not be sent, or a reason that is not UTF-8.
pub fn close_code(payload: &[u8]) -> Result<Option<u16>, WebSocketFault> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() { Ok(None) } else { Err(WebSocketFault::Close) };
    };
    let code = u16::from_be_bytes(*code);
    let fits = CloseCode::from(code).is_allowed() && core::str::from_utf8(reason).is_ok();
    if fits { Ok(Some(code)) } else { Err(WebSocketFault::Close) }
}
