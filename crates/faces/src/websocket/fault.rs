//! What a peer did that ends a WebSocket connection, with the protocol's code for it.

/// Why a WebSocket connection can't go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebSocketFault {
    /// Bits that an extension would have to give a meaning, or a kind of frame that there is not.
    Frame,
    /// A client's frame that is not masked, or a server's that is.
    Mask,
    /// A control frame in pieces, or a long one.
    Control,
    /// The continuation of nothing, or a new message within another.
    Order,
    /// A closing frame with a code that can't be.
    Close,
    /// A text message: packets are binary.
    Text,
    /// A message longer than the longest packet.
    TooLong,
    /// What answered the beginning of a connection is no WebSocket server, or refused.
    Refused,
}

impl WebSocketFault {
    /// The code that the peer is told.
    pub const fn code(self) -> u16 {
        match self {
            WebSocketFault::Text => 1003,
            WebSocketFault::TooLong => 1009,
            _ => 1002,
        }
    }

    /// For the peer, and for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            WebSocketFault::Frame => "a frame of no known kind, or with bits of an extension",
            WebSocketFault::Mask => "a client masks its frames, a server does not",
            WebSocketFault::Control => "a control frame in pieces, or with more than 125 octets",
            WebSocketFault::Order => "frames of a message out of order",
            WebSocketFault::Close => "a closing frame with a code that can't be",
            WebSocketFault::Text => "a text message; send each packet as a binary one",
            WebSocketFault::TooLong => "a message longer than the longest packet",
            WebSocketFault::Refused => "the other end did not agree to speak WebSocket",
        }
    }
}

impl core::fmt::Display for WebSocketFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}
