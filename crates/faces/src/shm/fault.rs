//! Violations of the protocol that end a link over shared memory.

/// Why a link over shared memory was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedMemoryFault {
    /// The first message is not an offer of shared memory.
    Hello,
    /// The other end uses another version of the protocol.
    Version,
    /// No memory came with the offer, or memory that could shrink under the mapping, or of another
    /// length than offered.
    Memory,
    /// The size of the rings is not permitted.
    Size,
    /// A position in a ring is impossible.
    Position,
    /// A message on the socket that is not an expected wake-up.
    Wakeup,
}

impl SharedMemoryFault {
    /// Returns the description for log lines.
    pub const fn as_str(self) -> &'static str {
        match self {
            SharedMemoryFault::Hello => "the first message is not an offer of shared memory",
            SharedMemoryFault::Version => {
                "the other end uses another version of the protocol: run the same release on both sides"
            }
            SharedMemoryFault::Memory => {
                "the offer has no memory, or not a sealed file of the offered length"
            }
            SharedMemoryFault::Size => "the size of the rings is not permitted",
            SharedMemoryFault::Position => "an impossible position in a ring",
            SharedMemoryFault::Wakeup => "an unexpected message on the socket",
        }
    }
}

impl core::fmt::Display for SharedMemoryFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}
