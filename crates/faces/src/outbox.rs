//! Link packets that wait for the end of the loop's turn, so that one system call sends many.
//!
//! For a WebSocket connection each link packet is put into a frame here, as only here its length is known.
//!
//! Headers and short packets stand in a buffer here; longer payloads stay where they were received and are gathered by the kernel.

use crate::websocket::frame::{self, Role};
use nw_element_api::{Kind, Packet, Pool};

/// Payloads up to this are copied: that costs less than two more pieces for the kernel to gather.
const COPY_MAX: usize = 512;

/// Link packets that are gathered before they are sent in the middle of a turn.
const ITEMS_MAX: usize = 512;

/// Octets of headers and short packets likewise.
const BYTES_MAX: usize = 64 << 10;

/// One link packet: octets of the buffer, then the packet's.
#[derive(Debug)]
pub struct Outgoing {
    start: u32,
    len: u32,
    /// Octets at the beginning that are a frame's head, and no part of the link packet.
    framing: u8,
    /// The payload, unless it was copied.
    pub packet: Option<Packet>,
    /// What it carries, for the counters; `None` in all fragments but the first.
    pub kind: Option<Kind>,
}

/// Link packets in order.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    items: Vec<Outgoing>,
    /// Link packets are put into frames, as this end of a connection sends them.
    frames: Option<Role>,
}

impl Outbox {
    /// From now on, until it is cleared, each link packet is put into a WebSocket frame.
    pub fn frame_as(&mut self, role: Role) {
        self.frames = Some(role);
    }

    /// True when there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Where the next link packet starts in the buffer.
    pub fn mark(&self) -> usize {
        self.bytes.len()
    }

    /// Octets of the buffer since a mark.
    pub fn since(&self, mark: usize) -> usize {
        self.bytes.len() - mark
    }

    /// What was written since a mark.
    pub fn bytes_since(&self, mark: usize) -> &[u8] {
        &self.bytes[mark..]
    }

    /// Takes back what was written since a mark.
    pub fn undo(&mut self, mark: usize) {
        self.bytes.truncate(mark);
    }

    /// The buffer, to be appended to.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends a link packet: what was written since the mark, then the packet's octets.
    #[inline]
    pub fn finish(&mut self, mark: usize, packet: Packet, kind: Kind, pool: &mut Pool) {
        let payload = pool.bytes(&packet);
        // What is to be masked can't stay where others may read it.
        if payload.len() <= COPY_MAX || self.frames == Some(Role::Client) {
            self.bytes.extend_from_slice(payload);
            pool.release(packet);
            self.finish_copied(mark, Some(kind));
        } else {
            let framing = self.frames.map_or(0, |role| self.put_into_frame(mark, payload.len(), role));
            let (start, len) = (mark as u32, self.since(mark) as u32);
            self.items.push(Outgoing { start, len, framing, packet: Some(packet), kind: Some(kind) });
        }
    }

    /// Ends a link packet that was written whole since the mark.
    pub fn finish_copied(&mut self, mark: usize, kind: Option<Kind>) {
        let framing = self.frames.map_or(0, |role| self.put_into_frame(mark, 0, role));
        let (start, len) = (mark as u32, self.since(mark) as u32);
        self.items.push(Outgoing { start, len, framing, packet: None, kind });
    }

    /// Puts what was written since the mark, and so many octets that are elsewhere, into a frame; octets of its head.
    fn put_into_frame(&mut self, mark: usize, elsewhere: usize, role: Role) -> u8 {
        let mask = role.new_mask();
        let head = frame::head_of(frame::Kind::Binary, self.since(mark) + elsewhere, mask);
        frame::mask(&mut self.bytes[mark..], mask);
        let framing = head.len() as u8;
        self.bytes.splice(mark..mark, head);
        framing
    }

    /// True when it is time to send without waiting for the end of the turn.
    pub fn is_full(&self) -> bool {
        self.items.len() >= ITEMS_MAX || self.bytes.len() >= BYTES_MAX
    }

    /// The link packets.
    pub fn items(&self) -> &[Outgoing] {
        &self.items
    }

    /// What stands in the buffer of a link packet.
    #[inline]
    pub fn head(&self, item: &Outgoing) -> &[u8] {
        &self.bytes[item.start as usize..(item.start + item.len) as usize]
    }

    /// What stands in the buffer of several consecutive ones, back to back.
    #[inline]
    pub fn heads(&self, first: &Outgoing, last: &Outgoing) -> &[u8] {
        &self.bytes[first.start as usize..(last.start + last.len) as usize]
    }

    /// Octets of a link packet, without the frame around it.
    #[inline]
    pub fn item_len(&self, item: &Outgoing, pool: &Pool) -> usize {
        item.len as usize - usize::from(item.framing)
            + item.packet.as_ref().map_or(0, |packet| pool.bytes(packet).len())
    }

    /// The two parts of a link packet, in its frame.
    #[inline]
    pub fn parts<'a>(&'a self, item: &Outgoing, pool: &'a Pool) -> [&'a [u8]; 2] {
        [self.head(item), item.packet.as_ref().map_or(&[][..], |packet| pool.bytes(packet))]
    }

    /// Ends all packets and empties the outbox; the room is kept.
    pub fn clear(&mut self, pool: &mut Pool) {
        for item in self.items.drain(..) {
            if let Some(packet) = item.packet {
                pool.release(packet);
            }
        }
        self.bytes.clear();
        self.frames = None;
    }
}
