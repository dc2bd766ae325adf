//! Link packets collected until the end of a loop iteration, so that one system call sends many.
//!
//! ```text
//! bytes:  | header A | payload A (short, copied) | header B |          items: A, B
//! packet of B: stays in its pool chunk; the kernel gathers header B and payload B
//! ```
//!
//! Headers and short packets are stored in a buffer here; longer payloads stay where they were
//! received and are gathered by the kernel. On a WebSocket connection each link packet gets its
//! frame here, as its length is known only now.

use crate::websocket::frame::{self, Framing, Role};
use nw_element_api::{Kind, Packet, Pool};

/// Payloads up to this are copied, bytes: cheaper than two more pieces for the kernel to gather.
const COPY_MAX: usize = 512;

/// Link packets after which the outbox is sent before the end of the iteration.
const ITEMS_MAX: usize = 512;

/// Bytes of headers and short packets after which the outbox is sent.
const BYTES_MAX: usize = 64 << 10;

/// One link packet: a range of the buffer, then the payload of `packet`.
#[derive(Debug)]
pub struct Outgoing {
    start: u32,
    len: u32,
    /// Bytes at the start that are a frame's head, not part of the link packet.
    frame_head_len: u8,
    /// Packet whose bytes are the payload; `None` if they were copied.
    pub packet: Option<Packet>,
    /// Kind of the network packet that it starts; `None` for all fragments but the first.
    pub kind: Option<Kind>,
}

/// Link packets in the order of sending.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    items: Vec<Outgoing>,
    /// How link packets are framed on a WebSocket connection.
    framing: Option<Framing>,
}

impl Outbox {
    /// Frames each link packet for WebSocket until the next [`clear`](Self::clear).
    pub fn set_framing(&mut self, framing: Framing) {
        self.framing = Some(framing);
    }

    /// Returns whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the offset in the buffer at which the next link packet starts.
    pub fn mark(&self) -> usize {
        self.bytes.len()
    }

    /// Returns how many bytes were written since `mark`.
    pub fn len_since(&self, mark: usize) -> usize {
        self.bytes.len() - mark
    }

    /// Returns the bytes written since `mark`.
    pub fn bytes_since(&self, mark: usize) -> &[u8] {
        &self.bytes[mark..]
    }

    /// Removes the bytes written since `mark`.
    pub fn rollback(&mut self, mark: usize) {
        self.bytes.truncate(mark);
    }

    /// Returns the buffer, for appending a header.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Completes a link packet: the bytes written since `mark`, then those of `packet`.
    #[inline]
    pub fn finish(&mut self, mark: usize, packet: Packet, kind: Kind, pool: &mut Pool) {
        let payload = pool.bytes(&packet);
        // Masking changes the bytes, which other packets may share, so a client copies them.
        if payload.len() <= COPY_MAX
            || self.framing.is_some_and(|framing| framing.role == Role::Client)
        {
            self.bytes.extend_from_slice(payload);
            pool.release(packet);
            self.finish_copied(mark, Some(kind));
        } else {
            let frame_head_len = self
                .framing
                .map_or(0, |framing| self.insert_frame_head(mark, payload.len(), framing));
            let (start, len) = (mark as u32, self.len_since(mark) as u32);
            self.items.push(Outgoing {
                start,
                len,
                frame_head_len,
                packet: Some(packet),
                kind: Some(kind),
            });
        }
    }

    /// Completes a link packet whose bytes were all written since `mark`.
    pub fn finish_copied(&mut self, mark: usize, kind: Option<Kind>) {
        let frame_head_len =
            self.framing.map_or(0, |framing| self.insert_frame_head(mark, 0, framing));
        let (start, len) = (mark as u32, self.len_since(mark) as u32);
        self.items.push(Outgoing { start, len, frame_head_len, packet: None, kind });
    }

    /// Inserts the head of a frame before the bytes written since `mark`, for these and
    /// `payload_len` bytes elsewhere. Returns the length of the head.
    fn insert_frame_head(&mut self, mark: usize, payload_len: usize, framing: Framing) -> u8 {
        let mask = framing.new_mask();
        let head =
            frame::encode_head(frame::Kind::Binary, self.len_since(mark) + payload_len, mask);
        frame::mask(&mut self.bytes[mark..], mask);
        let head_len = head.len() as u8;
        self.bytes.splice(mark..mark, head);
        head_len
    }

    /// Returns whether the outbox must be sent before the end of the iteration.
    pub fn is_full(&self) -> bool {
        self.items.len() >= ITEMS_MAX || self.bytes.len() >= BYTES_MAX
    }

    /// Returns the link packets.
    pub fn items(&self) -> &[Outgoing] {
        &self.items
    }

    /// Returns the part of a link packet that is in the buffer.
    #[inline]
    pub fn head(&self, item: &Outgoing) -> &[u8] {
        &self.bytes[item.start as usize..(item.start + item.len) as usize]
    }

    /// Returns the parts in the buffer of several consecutive link packets, back to back.
    #[inline]
    pub fn heads(&self, first: &Outgoing, last: &Outgoing) -> &[u8] {
        &self.bytes[first.start as usize..(last.start + last.len) as usize]
    }

    /// Returns the bytes of a link packet, without its frame.
    #[inline]
    pub fn item_len(&self, item: &Outgoing, pool: &Pool) -> usize {
        item.len as usize - usize::from(item.frame_head_len)
            + item.packet.as_ref().map_or(0, |packet| pool.bytes(packet).len())
    }

    /// Returns the two parts of a link packet, frame included.
    #[inline]
    pub fn parts<'a>(&'a self, item: &Outgoing, pool: &'a Pool) -> [&'a [u8]; 2] {
        [self.head(item), item.packet.as_ref().map_or(&[][..], |packet| pool.bytes(packet))]
    }

    /// Releases all packets and empties the outbox; its memory is kept.
    pub fn clear(&mut self, pool: &mut Pool) {
        for item in self.items.drain(..) {
            if let Some(packet) = item.packet {
                pool.release(packet);
            }
        }
        self.bytes.clear();
        self.framing = None;
    }
}
