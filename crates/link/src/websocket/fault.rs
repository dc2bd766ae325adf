//! Violations of the WebSocket protocol that end a connection, and their close codes.

/// Why a WebSocket connection was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebSocketFault {
    /// An unknown kind of frame, or extension bits without an extension.
    Frame,
    /// A client's frame without a mask, or a server's with one.
    Mask,
    /// A fragmented control frame, or one above 125 bytes.
    Control,
    /// A continuation without a message, or a new message within another.
    Order,
    /// A close frame with an invalid code.
    Close,
    /// A text message: packets are binary.
    Text,
    /// A message longer than the longest link packet.
    TooLong,
    /// The server refused the handshake, or does not speak WebSocket.
    Refused,
}

impl WebSocketFault {
    /// Returns the close code sent to the peer.
    pub const fn code(self) -> u16 {
        match self {
            WebSocketFault::Text => 1003,
            WebSocketFault::TooLong => 1009,
            _ => 1002,
        }
    }

    /// Returns the description for the close frame and for log lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            WebSocketFault::Frame => "a frame of unknown kind, or with extension bits",
            WebSocketFault::Mask => "wrong masking: clients mask their frames, servers don't",
            WebSocketFault::Control => {
                "a control frame that is fragmented or has more than 125 bytes"
            }
            WebSocketFault::Order => "frames of a message out of order",
            WebSocketFault::Close => "a close frame with an invalid code",
            WebSocketFault::Text => "a text message: send each packet as a binary message",
            WebSocketFault::TooLong => "a message longer than the longest packet",
            WebSocketFault::Refused => "the server refused the WebSocket handshake",
        }
    }
}

impl core::fmt::Display for WebSocketFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}
