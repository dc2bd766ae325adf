//! The router's end of the internal face: link packets sent to it, until management takes them.
//! Bounded in packets and bytes.

use std::collections::VecDeque;

/// Link packets queued at most.
const PACKETS_MAX: usize = 4096;

/// A queue of link packets.
#[derive(Debug, Default)]
pub struct InternalQueue {
    packets: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl InternalQueue {
    /// Returns the bytes queued.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a link packet, given in two parts. Returns false if the queue is full.
    pub fn push(&mut self, parts: [&[u8]; 2], bytes_max: usize) -> bool {
        let len = parts[0].len() + parts[1].len();
        if self.packets.len() == PACKETS_MAX || self.bytes + len > bytes_max {
            return false;
        }
        self.bytes += len;
        self.packets.push_back(parts.concat());
        true
    }

    /// Removes and returns the oldest link packet.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.len();
        Some(packet)
    }
}
