//! What a neighbour did that ends a link over shared memory.

/// Why a link over shared memory can't go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedMemoryFault {
    /// The first message is not that of such a link.
    Hello,
    /// The other end has another version of what is in the memory.
    Version,
    /// No memory came, or some that could vanish under a mapping, or that is not as long as was said.
    Memory,
    /// A ring of no size that is allowed.
    Size,
    /// A position in a ring that can't be.
    Position,
    /// It rang though nobody waited, or said something else on the socket.
    Bell,
}

impl SharedMemoryFault {
    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            SharedMemoryFault::Hello => "what came first is no offer of shared memory",
            SharedMemoryFault::Version => {
                "the other end has another version of these links: run the same release on both sides"
            }
            SharedMemoryFault::Memory => {
                "no memory came with the offer, or not a sealed file of the length it says"
            }
            SharedMemoryFault::Size => "a ring of a size that is not allowed",
            SharedMemoryFault::Position => "a position in the ring that can't be",
            SharedMemoryFault::Bell => "a message on the socket that nobody waited for",
        }
    }
}

impl core::fmt::Display for SharedMemoryFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}
