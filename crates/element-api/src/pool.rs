//! Packets and where their bytes live.
//!
//! A [`Packet`] is a handle: it moves, is never cloned, and must end in a port, in named state or in [`Pool::drop_packet`]; a handle that is
//! let go of by accident panics in builds with debug assertions. Bytes live in chunks of 64 KiB that receivers fill with many packets at once;
//! a chunk returns when the last packet in it has ended. One pool per shard; nothing here crosses threads but octets that are lent for reading ([`Pool::lend`]).

use crate::announcements::{Announcements, Ticket};
use crate::drops::{DropCounters, DropReason};
use crate::meta::{Kind, Meta};
use core::ops::Range;
use nw_name::HashKey;
use nw_tables::memory::lending::{Lendable, Loan};
use nw_wire::forwarding::Leading;

/// Octets of one chunk: what one read of a stream or one receive of a run of datagrams fills.
pub const CHUNK_LEN: usize = 64 * 1024;

/// Octets behind the last chunk that are never written, so that a name at its end can be read in large steps too.
const MARGIN: usize = 64;

/// Places in chunks are counted with 32 bits.
const CHUNKS_MAX: usize = (1 << 32) / CHUNK_LEN - 1;

/// A packet. Linear: see the module.
#[derive(Debug)]
#[must_use = "a packet leaves by a port, is held, or is dropped with a reason"]
pub struct Packet {
    slot: u32,
}

impl Drop for Packet {
    fn drop(&mut self) {
        debug_assert!(
            std::thread::panicking(),
            "a packet was lost: it must leave by a port, be held, or be dropped with a reason"
        );
    }
}

/// A chunk being filled. Linear too: goes back by [`Pool::release_chunk`].
#[derive(Debug)]
#[must_use = "a chunk goes back to its pool"]
pub struct Chunk {
    index: u32,
}

impl Chunk {
    const fn start(&self) -> usize {
        self.index as usize * CHUNK_LEN
    }
}

#[repr(C)]
struct PacketSlot {
    /// Counted from the first chunk's first octet.
    start: u32,
    len: u32,
    chunk: u32,
    meta: Meta,
}

impl PacketSlot {
    #[inline(always)]
    const fn range(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// Buffers and metadata of all packets of one shard.
pub struct Pool {
    key: HashKey,
    /// All chunks, one behind the other, and a margin.
    octets: Lendable<CHUNK_LEN>,
    /// By chunk that was ever taken: packets in it, loans of them, plus one while it is being filled.
    chunk_uses: Vec<u32>,
    chunks_free: Vec<u32>,
    chunks_max: usize,
    packets: Vec<PacketSlot>,
    packets_free: Vec<u32>,
    packets_max: usize,
    /// Where packets made here (answers, Nacks) are written, and how far.
    filling: Option<(Chunk, usize)>,
    announcements: Announcements,
}

impl Pool {
    /// Of at most so many chunks (65,535 at most) and packets. Memory is taken as it is first needed and then kept.
    pub fn new(key: HashKey, chunks_max: usize, packets_max: usize) -> Self {
        let chunks_max = chunks_max.min(CHUNKS_MAX);
        Pool {
            key,
            octets: Lendable::new(chunks_max * CHUNK_LEN + MARGIN),
            chunk_uses: Vec::with_capacity(chunks_max),
            chunks_free: Vec::with_capacity(chunks_max),
            chunks_max,
            packets: Vec::new(),
            packets_free: Vec::with_capacity(packets_max),
            packets_max,
            filling: None,
            announcements: Announcements::new(),
        }
    }

    /// The secret of the name hash.
    pub const fn key(&self) -> &HashKey {
        &self.key
    }

    /// A chunk to receive into, or `None` when all are in use.
    pub fn take_chunk(&mut self) -> Option<Chunk> {
        if self.octets.is_lent() {
            self.end_lost_loans();
        }
        if let Some(index) = self.chunks_free.pop() {
            self.chunk_uses[index as usize] = 1;
            return Some(Chunk { index });
        }
        if self.chunk_uses.len() == self.chunks_max {
            return None;
        }
        self.chunk_uses.push(1);
        Some(Chunk { index: (self.chunk_uses.len() - 1) as u32 })
    }

    /// Its bytes, [`CHUNK_LEN`] of them.
    #[inline]
    pub fn chunk_bytes(&self, chunk: &Chunk) -> &[u8] {
        &self.octets[chunk.start()..][..CHUNK_LEN]
    }

    /// Its bytes, to be written.
    #[inline]
    pub fn chunk_bytes_mut(&mut self, chunk: &Chunk) -> &mut [u8] {
        self.octets.write(chunk.start()..chunk.start() + CHUNK_LEN)
    }

    /// Several chunks' bytes at once, for receives that fill many.
    pub fn chunks_bytes_mut<const N: usize>(&mut self, chunks: &[Chunk; N]) -> [&mut [u8]; N] {
        self.octets.write_blocks(core::array::from_fn(|at| chunks[at].index as usize))
    }

    /// Ends the filling of a chunk; it is free once its packets have ended.
    #[inline]
    pub fn release_chunk(&mut self, chunk: Chunk) {
        self.unuse(chunk.index);
    }

    /// A packet in `range` of a chunk, not decoded yet; `None` when there are too many packets.
    #[inline(always)]
    pub fn packet_in(&mut self, chunk: &Chunk, range: Range<usize>) -> Option<Packet> {
        debug_assert!(range.end <= CHUNK_LEN);
        let packet = self.take_slot(chunk.index, (chunk.start() + range.start) as u32, range.len() as u32)?;
        self.chunk_uses[chunk.index as usize] += 1;
        Some(packet)
    }

    /// A packet of `len` octets to be written by the caller, not decoded; `None` when there is no buffer or `len` is beyond a chunk.
    #[inline]
    pub fn alloc(&mut self, len: usize) -> Option<Packet> {
        let (chunk, start) = match self.filling.take() {
            Some((chunk, filled)) if len <= CHUNK_LEN - filled => (chunk, filled),
            full => self.next_filling(full, len)?,
        };
        let packet = self.packet_in(&chunk, start..start + len);
        self.filling = Some((chunk, start + len));
        packet
    }

    /// A fresh chunk to write packets into, instead of a full one; that stays where a packet of `len` octets could be written nowhere.
    #[cold]
    fn next_filling(&mut self, former: Option<(Chunk, usize)>, len: usize) -> Option<(Chunk, usize)> {
        if len > CHUNK_LEN {
            self.filling = former;
            return None;
        }
        if let Some((chunk, _)) = former {
            self.release_chunk(chunk);
        }
        Some((self.take_chunk()?, 0))
    }

    /// A packet with a copy of `bytes`.
    pub fn copy_of(&mut self, bytes: &[u8]) -> Option<Packet> {
        let packet = self.alloc(bytes.len())?;
        self.bytes_mut(&packet).copy_from_slice(bytes);
        Some(packet)
    }

    /// Another packet over the same bytes, for another downstream: kind, name place, ingress and arrival are the same, link fields are empty,
    /// prefixes are not carried (it was looked up already).
    pub fn share(&mut self, packet: &Packet) -> Option<Packet> {
        let from = &self.packets[packet.slot as usize];
        let (chunk, start, len) = (from.chunk, from.start, from.len);
        let twin = self.take_slot(chunk, start, len)?;
        self.chunk_uses[chunk as usize] += 1;
        let (from, to) = self.two(packet.slot, twin.slot);
        to.kind = from.kind;
        to.ingress = from.ingress;
        to.ingress_local = from.ingress_local;
        to.arrival = from.arrival;
        to.name = from.name;
        to.nonce = from.nonce;
        to.nonce_start = from.nonce_start;
        to.lifetime_ms = from.lifetime_ms;
        to.hop_limit_start = from.hop_limit_start;
        to.hint = from.hint;
        to.can_be_prefix = from.can_be_prefix;
        to.must_be_fresh = from.must_be_fresh;
        to.freshness_ms = from.freshness_ms;
        to.cached = from.cached;
        to.name_unread = from.name_unread;
        Some(twin)
    }

    /// Another packet like it in everything, to go another way; `None` when there is no buffer. The octets of a Data are shared, as nobody changes
    /// those; of an Interest or a Nack they are copied, as hop limits and nonces are changed in place.
    pub fn twin(&mut self, packet: &Packet) -> Option<Packet> {
        let twin = match self.meta(packet).kind {
            Kind::Data => self.share(packet)?,
            Kind::Interest | Kind::Nack => {
                let from = self.packets[packet.slot as usize].range();
                let twin = self.alloc(from.len())?;
                let to = self.packets[twin.slot as usize].start as usize;
                self.octets.copy_within(from, to);
                twin
            }
        };
        let (from, to) = self.two(packet.slot, twin.slot);
        to.clone_from(from);
        Some(twin)
    }

    fn two(&mut self, from: u32, to: u32) -> (&Meta, &mut Meta) {
        let (from, to) = (from as usize, to as usize);
        if from < to {
            let (low, high) = self.packets.split_at_mut(to);
            (&low[from].meta, &mut high[0].meta)
        } else {
            let (low, high) = self.packets.split_at_mut(from);
            (&high[0].meta, &mut low[to].meta)
        }
    }

    /// The packet's bytes.
    #[inline]
    pub fn bytes(&self, packet: &Packet) -> &[u8] {
        &self.octets[self.packets[packet.slot as usize].range()]
    }

    /// The packet's bytes, to be changed in place.
    ///
    /// # Panics
    /// While they are lent.
    #[inline]
    pub fn bytes_mut(&mut self, packet: &Packet) -> &mut [u8] {
        self.octets.write(self.packets[packet.slot as usize].range())
    }

    /// The packet's bytes, for another thread to read. They stay as they are until the loan has ended, also when the packet ends before.
    pub fn lend(&mut self, packet: &Packet) -> Loan {
        let slot = &self.packets[packet.slot as usize];
        self.chunk_uses[slot.chunk as usize] += 1;
        self.octets.lend(slot.chunk as usize, slot.range())
    }

    /// Ends a loan. One that is dropped instead, as by a thread that dies, ends too: the pool notices when it next needs a chunk.
    ///
    /// # Panics
    /// When it is one of another pool.
    pub fn end_loan(&mut self, loan: Loan) {
        let chunk = self.octets.end(loan);
        self.unuse(chunk as u32);
    }

    /// Narrows the packet to `range` of its bytes, as when a link header is taken off.
    #[inline]
    pub fn narrow(&mut self, packet: &Packet, range: Range<usize>) {
        let slot = &mut self.packets[packet.slot as usize];
        debug_assert!(range.start <= range.end && range.end <= slot.len as usize);
        slot.start += range.start as u32;
        slot.len = (range.end - range.start) as u32;
    }

    /// Keeps a copy of a prefix announcement for a while; to be put among a packet's link fields. Too long a one is not kept.
    pub fn keep_announcement(&mut self, announcement: &[u8]) -> Ticket {
        self.announcements.keep(announcement)
    }

    /// As [`keep_announcement`](Self::keep_announcement), of octets of a packet.
    pub fn keep_announcement_in(&mut self, packet: &Packet, range: Range<usize>) -> Ticket {
        let octets = &self.octets[self.packets[packet.slot as usize].range()];
        self.announcements.keep(&octets[range])
    }

    /// The octets of an announcement: a whole Data. `None` when there was none, or it was too long ago.
    pub fn announcement(&self, ticket: Ticket) -> Option<&[u8]> {
        self.announcements.octets(ticket)
    }

    /// A packet of its own with the octets of an announcement, not decoded.
    pub fn announcement_packet(&mut self, ticket: Ticket) -> Option<Packet> {
        let packet = self.alloc(self.announcements.octets(ticket)?.len())?;
        let to = self.octets.write(self.packets[packet.slot as usize].range());
        if let Some(octets) = self.announcements.octets(ticket) {
            to[..octets.len()].copy_from_slice(octets);
        }
        Some(packet)
    }

    /// What is known of the packet.
    #[inline]
    pub fn meta(&self, packet: &Packet) -> &Meta {
        &self.packets[packet.slot as usize].meta
    }

    /// What is known of the packet, to be changed.
    #[inline]
    pub fn meta_mut(&mut self, packet: &Packet) -> &mut Meta {
        &mut self.packets[packet.slot as usize].meta
    }

    /// Bytes and metadata together: what most elements look at.
    #[inline(always)]
    pub fn view(&self, packet: &Packet) -> (&[u8], &Meta) {
        let slot = &self.packets[packet.slot as usize];
        (&self.octets[slot.range()], &slot.meta)
    }

    /// As [`view`](Self::view), with the metadata to be changed.
    #[inline(always)]
    pub fn view_mut(&mut self, packet: &Packet) -> (&[u8], &mut Meta) {
        let slot = &mut self.packets[packet.slot as usize];
        (&self.octets[slot.range()], &mut slot.meta)
    }

    /// Bytes and metadata together, the latter to be changed: what decoding needs.
    #[inline]
    pub fn parts_mut(&mut self, packet: &Packet) -> (&HashKey, Leading<'_>, &mut Meta) {
        let slot = &mut self.packets[packet.slot as usize];
        let around = &self.octets[slot.start as usize..];
        (&self.key, Leading::new(around, slot.len as usize), &mut slot.meta)
    }

    /// Ends a packet that was sent or otherwise served its purpose.
    #[inline]
    pub fn release(&mut self, packet: Packet) {
        let slot = packet.slot;
        core::mem::forget(packet);
        let chunk = self.packets[slot as usize].chunk;
        self.packets_free.push(slot);
        self.unuse(chunk);
    }

    /// Ends a packet that goes nowhere, and counts why.
    #[inline]
    pub fn drop_packet(&mut self, packet: Packet, reason: impl Into<DropReason>, drops: &mut DropCounters) {
        drops.count(reason);
        self.release(packet);
    }

    /// Packets that have not ended.
    pub fn packets_in_use(&self) -> usize {
        self.packets.len() - self.packets_free.len()
    }

    /// Chunks that are being filled, or hold packets or what is lent.
    pub fn chunks_in_use(&self) -> usize {
        self.chunk_uses.len() - self.chunks_free.len()
    }

    #[inline(always)]
    fn take_slot(&mut self, chunk: u32, start: u32, len: u32) -> Option<Packet> {
        let slot = match self.packets_free.pop() {
            Some(slot) => slot,
            None => self.new_slot()?,
        };
        let entry = &mut self.packets[slot as usize];
        entry.chunk = chunk;
        entry.start = start;
        entry.len = len;
        entry.meta.link.clear();
        entry.meta.egress = crate::FaceId::NONE;
        entry.meta.cached = false;
        entry.meta.name_unread = false;
        Some(Packet { slot })
    }

    /// One that was never used; `None` when there are as many as may be.
    #[cold]
    fn new_slot(&mut self) -> Option<u32> {
        if self.packets.len() == self.packets_max {
            return None;
        }
        self.packets.push(PacketSlot { chunk: 0, start: 0, len: 0, meta: Meta::new(&self.key) });
        Some((self.packets.len() - 1) as u32)
    }

    #[cold]
    fn end_lost_loans(&mut self) {
        while let Some(chunk) = self.octets.next_ended() {
            self.unuse(chunk as u32);
        }
    }

    #[inline]
    fn unuse(&mut self, chunk: u32) {
        let uses = &mut self.chunk_uses[chunk as usize];
        *uses -= 1;
        if *uses == 0 {
            self.chunks_free.push(chunk);
        }
    }
}

impl core::fmt::Debug for Pool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Pool({} packets in {} chunks)", self.packets_in_use(), self.chunks_in_use())
    }
}

#[cfg(test)]
mod tests;
