//! The router's end of the internal face: link packets that were sent to it, until management takes them. Bounded in packets and octets.

use std::collections::VecDeque;

/// Link packets that may wait.
const PACKETS_MAX: usize = 4096;

/// A queue of link packets.
#[derive(Debug, Default)]
pub struct Mailbox {
    packets: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Mailbox {
    /// Octets in it.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds one, in parts; false when it is full.
    pub fn push(&mut self, parts: [&[u8]; 2], bytes_max: usize) -> bool {
        let len = parts[0].len() + parts[1].len();
        if self.packets.len() == PACKETS_MAX || self.bytes + len > bytes_max {
            return false;
        }
        self.bytes += len;
        self.packets.push_back(parts.concat());
        true
    }

    /// Takes the oldest.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.len();
        Some(packet)
    }
}
