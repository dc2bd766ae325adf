//! Frames on a connection between manager and agent: a kind, a length, and that many bytes.
//!
//! ```text
//! kind u8 | length u32, big-endian | payload
//! ```

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Payload of a frame, at most, bytes: a log or a long list.
pub const PAYLOAD_MAX: usize = 8 << 20;
/// Bytes of a reply in one frame, at most, where replies may have several.
pub const PART_MAX: usize = 1 << 20;
/// Payload of the first frame, before the peer is known, at most, bytes.
pub const HELLO_MAX: usize = 4 << 10;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Agent: what the connection is for; JSON.
    Hello = 1,
    /// Manager: the connection is accepted; JSON.
    Welcome = 2,
    /// Manager: the connection is refused, with a sentence.
    Refused = 3,
    /// A request that has a reply: of the manager on a channel, of the host on a caller's
    /// connection.
    Call = 4,
    /// The reply, or the last part of a long one.
    Reply = 5,
    /// Manager: make the connection a tunnel.
    Open = 6,
    /// Agent: from here on, bytes of the tunnel.
    Opened = 7,
    /// Agent: there is no tunnel, with a sentence. The connection stays as it was.
    Failed = 8,
    /// Manager: is the agent there?
    Ping = 9,
    /// Agent: it is.
    Pong = 10,
    /// Manager: a part of a long reply; others follow.
    Part = 11,
}

impl Kind {
    const ALL: [Kind; 11] = [
        Kind::Hello,
        Kind::Welcome,
        Kind::Refused,
        Kind::Call,
        Kind::Reply,
        Kind::Open,
        Kind::Opened,
        Kind::Failed,
        Kind::Ping,
        Kind::Pong,
        Kind::Part,
    ];
}

/// Writes a frame.
pub async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    kind: Kind,
    payload: &[u8],
) -> io::Result<()> {
    let Some(len) = u32::try_from(payload.len()).ok().filter(|len| *len as usize <= PAYLOAD_MAX)
    else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a message is too long"));
    };
    let mut bytes = Vec::with_capacity(5 + payload.len());
    bytes.push(kind as u8);
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes.extend_from_slice(payload);
    stream.write_all(&bytes).await?;
    stream.flush().await
}

/// Reads a frame with a payload of at most `max` bytes. Memory grows with what has arrived, not
/// with what the peer announces.
pub async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    max: usize,
) -> io::Result<(Kind, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).await?;
    let invalid = |text| io::Error::new(io::ErrorKind::InvalidData, text);
    let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == head[0]);
    let kind = kind.ok_or_else(|| invalid("a message of an unknown kind"))?;
    let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if len > max {
        return Err(invalid("a message is too long"));
    }
    let mut payload = Vec::new();
    stream.take(len as u64).read_to_end(&mut payload).await?;
    match payload.len() == len {
        true => Ok((kind, payload)),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
