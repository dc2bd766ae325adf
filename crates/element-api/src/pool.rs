//! Packets and the memory their bytes are in.
//!
//! ```text
//!  chunk (64 KiB, written by one read):  [packet 1][packet 2][packet 3]......
//!                                           ▲ start, len
//!  slot:                                 chunk, start, len, Meta   ◄── Packet (slot number)
//! ```
//!
//! A [`Packet`] is a handle. It moves, is never cloned, and must end by a port, in held state or in
//! [`Pool::drop_packet`]; a handle that is dropped by accident panics in builds with debug
//! assertions. A chunk is reused when the last packet in it has ended. There is one pool per shard;
//! only bytes that are leased for reading ([`Pool::lease`]) are used by other threads.

use crate::announcements::{AnnouncementRef, Announcements};
use crate::drops::{DropCounters, DropReason};
use crate::meta::{Kind, Meta};
use core::ops::Range;
use nw_name::HashKey;
use nw_tables::memory::shared_buffer::{ReadLease, SharedBuffer};
use nw_wire::forwarding::PaddedPacket;

/// Bytes of one chunk: filled by one read of a stream, or by one receive of several datagrams.
pub const CHUNK_LEN: usize = 64 * 1024;

/// Bytes after the last chunk that are never written, so that a name at its end can be read in wide
/// steps.
const MARGIN: usize = 64;

/// Offsets of bytes in the pool are 32 bits.
const CHUNKS_MAX: usize = (1 << 32) / CHUNK_LEN - 1;

/// A packet. It must be consumed: see the module's description.
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

/// A chunk that is being written. It must be returned by [`Pool::release_chunk`].
#[derive(Debug)]
#[must_use = "a chunk goes back to its pool"]
pub struct Chunk {
    index: u32,
}

impl Chunk {
    /// Returns the offset of the chunk's first byte.
    const fn start(&self) -> usize {
        self.index as usize * CHUNK_LEN
    }
}

/// A packet's place in the pool, and its metadata.
#[repr(C)]
struct PacketSlot {
    /// Offset from the first byte of the first chunk.
    start: u32,
    len: u32,
    chunk: u32,
    meta: Meta,
}

impl PacketSlot {
    /// Returns the offsets of the packet's bytes.
    #[inline(always)]
    const fn range(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// Bytes and metadata of all packets of one shard.
pub struct Pool {
    key: HashKey,
    /// All chunks, one after the other, and [`MARGIN`].
    bytes: SharedBuffer<CHUNK_LEN>,
    /// By chunk: packets in it, leases of them, and one while it is being written.
    chunk_refs: Vec<u32>,
    chunks_free: Vec<u32>,
    chunks_max: usize,
    packets: Vec<PacketSlot>,
    packets_free: Vec<u32>,
    packets_max: usize,
    /// The chunk that packets created here (answers, Nacks) are written to, and how far.
    write_chunk: Option<(Chunk, usize)>,
    announcements: Announcements,
}

impl Pool {
    /// Creates a pool of at most `chunks_max` chunks (65,535 at most) and `packets_max` packets.
    /// Memory is allocated when first needed and then kept.
    pub fn new(key: HashKey, chunks_max: usize, packets_max: usize) -> Self {
        let chunks_max = chunks_max.min(CHUNKS_MAX);
        Pool {
            key,
            bytes: SharedBuffer::new(chunks_max * CHUNK_LEN + MARGIN),
            chunk_refs: Vec::with_capacity(chunks_max),
            chunks_free: Vec::with_capacity(chunks_max),
            chunks_max,
            packets: Vec::new(),
            packets_free: Vec::with_capacity(packets_max),
            packets_max,
            write_chunk: None,
            announcements: Announcements::new(),
        }
    }

    /// Returns the key of the name hash.
    pub const fn key(&self) -> &HashKey {
        &self.key
    }

    /// Takes a chunk to receive into. `None` if all are in use.
    pub fn take_chunk(&mut self) -> Option<Chunk> {
        if self.bytes.has_leases() {
            self.collect_dropped_leases();
        }
        if let Some(index) = self.chunks_free.pop() {
            self.chunk_refs[index as usize] = 1;
            return Some(Chunk { index });
        }
        if self.chunk_refs.len() == self.chunks_max {
            return None;
        }
        self.chunk_refs.push(1);
        Some(Chunk { index: (self.chunk_refs.len() - 1) as u32 })
    }

    /// Returns the chunk's [`CHUNK_LEN`] bytes.
    #[inline]
    pub fn chunk_bytes(&self, chunk: &Chunk) -> &[u8] {
        &self.bytes[chunk.start()..][..CHUNK_LEN]
    }

    /// Returns the chunk's bytes for writing.
    #[inline]
    pub fn chunk_bytes_mut(&mut self, chunk: &Chunk) -> &mut [u8] {
        self.bytes.write(chunk.start()..chunk.start() + CHUNK_LEN)
    }

    /// Returns the bytes of several chunks for writing, for receives that fill many at once.
    pub fn chunks_bytes_mut<const N: usize>(&mut self, chunks: &[Chunk; N]) -> [&mut [u8]; N] {
        self.bytes.write_blocks(core::array::from_fn(|at| chunks[at].index as usize))
    }

    /// Ends the writing of a chunk. It is free once its packets have ended.
    #[inline]
    pub fn release_chunk(&mut self, chunk: Chunk) {
        self.unref_chunk(chunk.index);
    }

    /// Creates a packet from `range` of a chunk, not decoded. `None` if there are too many packets.
    #[inline(always)]
    pub fn packet_in(&mut self, chunk: &Chunk, range: Range<usize>) -> Option<Packet> {
        debug_assert!(range.end <= CHUNK_LEN);
        let packet =
            self.take_slot(chunk.index, (chunk.start() + range.start) as u32, range.len() as u32)?;
        self.chunk_refs[chunk.index as usize] += 1;
        Some(packet)
    }

    /// Creates a packet of `len` bytes to be written by the caller, not decoded. `None` if no
    /// buffer is free or `len` exceeds [`CHUNK_LEN`].
    #[inline]
    pub fn alloc(&mut self, len: usize) -> Option<Packet> {
        let (chunk, start) = match self.write_chunk.take() {
            Some((chunk, filled)) if len <= CHUNK_LEN - filled => (chunk, filled),
            full => self.next_write_chunk(full, len)?,
        };
        let packet = self.packet_in(&chunk, start..start + len);
        self.write_chunk = Some((chunk, start + len));
        packet
    }

    /// Takes a fresh chunk to write packets to and releases the full one. If `len` exceeds a chunk,
    /// the former one stays.
    #[cold]
    fn next_write_chunk(
        &mut self,
        former: Option<(Chunk, usize)>,
        len: usize,
    ) -> Option<(Chunk, usize)> {
        if len > CHUNK_LEN {
            self.write_chunk = former;
            return None;
        }
        if let Some((chunk, _)) = former {
            self.release_chunk(chunk);
        }
        Some((self.take_chunk()?, 0))
    }

    /// Creates a packet with a copy of `bytes`, not decoded. `None` if no buffer is free.
    pub fn copy_of(&mut self, bytes: &[u8]) -> Option<Packet> {
        let packet = self.alloc(bytes.len())?;
        self.bytes_mut(&packet).copy_from_slice(bytes);
        Some(packet)
    }

    /// Creates another packet over the same bytes, for another downstream. Kind, fields, ingress
    /// and arrival are copied; link fields are empty and prefix hashes are not copied, as lookups
    /// are done. `None` if there are too many packets.
    pub fn clone_shallow(&mut self, packet: &Packet) -> Option<Packet> {
        let from = &self.packets[packet.slot as usize];
        let (chunk, start, len) = (from.chunk, from.start, from.len);
        let copy = self.take_slot(chunk, start, len)?;
        self.chunk_refs[chunk as usize] += 1;
        let (from, to) = self.meta_pair(packet.slot, copy.slot);
        to.kind = from.kind;
        to.ingress = from.ingress;
        to.ingress_local = from.ingress_local;
        to.arrival = from.arrival;
        to.name = from.name;
        to.nonce = from.nonce;
        to.nonce_start = from.nonce_start;
        to.lifetime_ms = from.lifetime_ms;
        to.hop_limit_start = from.hop_limit_start;
        to.forwarding_hint = from.forwarding_hint;
        to.can_be_prefix = from.can_be_prefix;
        to.must_be_fresh = from.must_be_fresh;
        to.freshness_ms = from.freshness_ms;
        to.cached = from.cached;
        to.name_deferred = from.name_deferred;
        Some(copy)
    }

    /// Creates a complete copy of a packet, metadata included. The bytes of a Data are shared, as
    /// they are never changed; those of others are copied, as hop limits and nonces are
    /// changed in place. `None` if no buffer is free.
    pub fn duplicate(&mut self, packet: &Packet) -> Option<Packet> {
        let copy = match self.meta(packet).kind {
            Kind::Data => self.clone_shallow(packet)?,
            Kind::Interest | Kind::Nack | Kind::Publication => {
                let from = self.packets[packet.slot as usize].range();
                let copy = self.alloc(from.len())?;
                let to = self.packets[copy.slot as usize].start as usize;
                self.bytes.copy_within(from, to);
                copy
            }
        };
        let (from, to) = self.meta_pair(packet.slot, copy.slot);
        to.clone_from(from);
        Some(copy)
    }

    /// Returns the metadata of two different slots, the second one for changes.
    fn meta_pair(&mut self, from: u32, to: u32) -> (&Meta, &mut Meta) {
        let (from, to) = (from as usize, to as usize);
        if from < to {
            let (low, high) = self.packets.split_at_mut(to);
            (&low[from].meta, &mut high[0].meta)
        } else {
            let (low, high) = self.packets.split_at_mut(from);
            (&high[0].meta, &mut low[to].meta)
        }
    }

    /// Returns the packet's bytes.
    #[inline]
    pub fn bytes(&self, packet: &Packet) -> &[u8] {
        &self.bytes[self.packets[packet.slot as usize].range()]
    }

    /// Returns the packet's bytes for changes in place.
    ///
    /// # Panics
    /// While they are leased.
    #[inline]
    pub fn bytes_mut(&mut self, packet: &Packet) -> &mut [u8] {
        self.bytes.write(self.packets[packet.slot as usize].range())
    }

    /// Leases the packet's bytes to another thread for reading. They stay unchanged until the lease
    /// ends, even if the packet ends earlier.
    pub fn lease(&mut self, packet: &Packet) -> ReadLease {
        let slot = &self.packets[packet.slot as usize];
        self.chunk_refs[slot.chunk as usize] += 1;
        self.bytes.lease(slot.chunk as usize, slot.range())
    }

    /// Ends a lease. A lease that is dropped instead, for example by a thread that panics, ends
    /// too: the pool notices when it next needs a chunk.
    ///
    /// # Panics
    /// When the lease is of another pool.
    pub fn end_lease(&mut self, lease: ReadLease) {
        let chunk = self.bytes.release(lease);
        self.unref_chunk(chunk as u32);
    }

    /// Reduces the packet to `range` of its bytes, for example to remove a link header.
    #[inline]
    pub fn narrow(&mut self, packet: &Packet, range: Range<usize>) {
        let slot = &mut self.packets[packet.slot as usize];
        debug_assert!(range.start <= range.end && range.end <= slot.len as usize);
        slot.start += range.start as u32;
        slot.len = (range.end - range.start) as u32;
    }

    /// Stores a copy of a prefix announcement, to be referred to by link fields. Returns
    /// [`AnnouncementRef::NONE`] if it is too long.
    pub fn keep_announcement(&mut self, announcement: &[u8]) -> AnnouncementRef {
        self.announcements.store(announcement)
    }

    /// As [`keep_announcement`](Self::keep_announcement), from bytes of a packet.
    pub fn keep_announcement_in(
        &mut self,
        packet: &Packet,
        range: Range<usize>,
    ) -> AnnouncementRef {
        let bytes = &self.bytes[self.packets[packet.slot as usize].range()];
        self.announcements.store(&bytes[range])
    }

    /// Returns the bytes of an announcement, a whole Data. `None` if there is none or it was
    /// overwritten.
    pub fn announcement(&self, announcement: AnnouncementRef) -> Option<&[u8]> {
        self.announcements.bytes(announcement)
    }

    /// Creates a packet with the bytes of an announcement, not decoded.
    pub fn announcement_packet(&mut self, announcement: AnnouncementRef) -> Option<Packet> {
        let packet = self.alloc(self.announcements.bytes(announcement)?.len())?;
        let to = self.bytes.write(self.packets[packet.slot as usize].range());
        if let Some(bytes) = self.announcements.bytes(announcement) {
            to[..bytes.len()].copy_from_slice(bytes);
        }
        Some(packet)
    }

    /// Returns the packet's metadata.
    #[inline]
    pub fn meta(&self, packet: &Packet) -> &Meta {
        &self.packets[packet.slot as usize].meta
    }

    /// Returns the packet's metadata for changes.
    #[inline]
    pub fn meta_mut(&mut self, packet: &Packet) -> &mut Meta {
        &mut self.packets[packet.slot as usize].meta
    }

    /// Returns bytes and metadata.
    #[inline(always)]
    pub fn view(&self, packet: &Packet) -> (&[u8], &Meta) {
        let slot = &self.packets[packet.slot as usize];
        (&self.bytes[slot.range()], &slot.meta)
    }

    /// As [`view`](Self::view), with the metadata for changes.
    #[inline(always)]
    pub fn view_mut(&mut self, packet: &Packet) -> (&[u8], &mut Meta) {
        let slot = &mut self.packets[packet.slot as usize];
        (&self.bytes[slot.range()], &mut slot.meta)
    }

    /// Returns what decoding needs: the hash key, the bytes with padding, the metadata for changes.
    #[inline]
    pub fn parts_mut(&mut self, packet: &Packet) -> (&HashKey, PaddedPacket<'_>, &mut Meta) {
        let slot = &mut self.packets[packet.slot as usize];
        let buffer = &self.bytes[slot.start as usize..];
        (&self.key, PaddedPacket::new(buffer, slot.len as usize), &mut slot.meta)
    }

    /// Ends a packet that was sent or otherwise served its purpose.
    #[inline]
    pub fn release(&mut self, packet: Packet) {
        let slot = packet.slot;
        core::mem::forget(packet);
        let chunk = self.packets[slot as usize].chunk;
        self.packets_free.push(slot);
        self.unref_chunk(chunk);
    }

    /// Ends a packet that is not forwarded, and counts the reason.
    #[inline]
    pub fn drop_packet(
        &mut self,
        packet: Packet,
        reason: impl Into<DropReason>,
        drops: &mut DropCounters,
    ) {
        drops.count(reason);
        self.release(packet);
    }

    /// Returns the number of packets that have not ended.
    pub fn packets_in_use(&self) -> usize {
        self.packets.len() - self.packets_free.len()
    }

    /// Returns the number of chunks that are being written or hold packets or leased bytes.
    pub fn chunks_in_use(&self) -> usize {
        self.chunk_refs.len() - self.chunks_free.len()
    }

    /// Takes a free slot for a packet at `start` and resets its metadata.
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
        entry.meta.name_deferred = false;
        Some(Packet { slot })
    }

    /// Creates a new slot. `None` if there are `packets_max` already.
    #[cold]
    fn new_slot(&mut self) -> Option<u32> {
        if self.packets.len() == self.packets_max {
            return None;
        }
        self.packets.push(PacketSlot { chunk: 0, start: 0, len: 0, meta: Meta::new(&self.key) });
        Some((self.packets.len() - 1) as u32)
    }

    /// Ends the leases that were dropped by their owners.
    #[cold]
    fn collect_dropped_leases(&mut self) {
        while let Some(chunk) = self.bytes.next_dropped() {
            self.unref_chunk(chunk as u32);
        }
    }

    /// Removes one reference to a chunk; without any left it is free.
    #[inline]
    fn unref_chunk(&mut self, chunk: u32) {
        let refs = &mut self.chunk_refs[chunk as usize];
        *refs -= 1;
        if *refs == 0 {
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
