//! What the content store keeps of a packet and of a prefix: one cache line each.

use crate::index::Spot;
use zerocopy::FromZeros;

/// No record.
pub(super) const NONE: u32 = u32::MAX;

/// Set in the id of a [`Node`], clear in that of an [`Entry`].
const NODE: u32 = 1 << 31;

/// True when the id is a node's.
#[inline(always)]
pub(super) const fn is_node(id: u32) -> bool {
    id & NODE != 0
}

/// A node's id from its index, and the reverse.
#[inline(always)]
pub(super) const fn node_id(index: u32) -> u32 {
    index ^ NODE
}

/// Where a record hangs in the prefix tree.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub(super) struct Place {
    /// Hash of the name's prefix one component longer than the parent's: the record is indexed under it. An entry's own key when it has no
    /// index record besides that of its key.
    pub edge: u64,
    /// The node above.
    pub parent: u32,
    /// Sibling that came later, or [`NONE`].
    pub before: u32,
    /// Sibling that came earlier, or [`NONE`].
    pub after: u32,
    /// Components, [`DEEPER`](super::tree::DEEPER) at most.
    pub depth: u8,
    /// False for an entry that hangs nowhere: its place is whatever it was before, or a [`follower`](Entry::follower).
    pub linked: u8,
    spare: [u8; 2],
}

/// One packet. Its number is that of its first block of octets, so both are asked for at once.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C, align(64))]
pub(super) struct Entry {
    /// Hash of its name.
    pub key: u64,
    /// Where it hangs.
    pub place: Place,
    /// End of freshness, nanoseconds of [`Instant`](crate::Instant); 0 for never fresh.
    pub fresh_until: u64,
    /// Neighbours in the policy's order.
    pub newer: u32,
    pub older: u32,
    /// When it was stored, counted in packets stored.
    pub stored: u32,
    /// 0 when there is no packet.
    pub wire_len: u16,
    pub name_len: u16,
    /// Changes each time the entry is used for another packet.
    pub generation: u16,
    /// Where the name's TLV-VALUE starts in the packet.
    pub name_start: u8,
    /// Bit 0: the digest was computed and kept. Bit 1: the policy's second queue. Bits 2 and 3: uses, as far as the policy counts them.
    marks: u8,
    /// Where its key stands in the index, if that is known.
    pub spot: Spot,
}

/// One prefix that several records share.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C, align(64))]
pub(super) struct Node {
    /// Hash of the prefix.
    pub hash: u64,
    /// Where it hangs.
    pub place: Place,
    /// The record below that came last; links free nodes.
    pub first: u32,
    /// Records right below; 0 in free nodes.
    pub count: u32,
    /// Nothing below is fresh from this moment on, see [`coarse_end`].
    pub fresh_end: u32,
    spare: u32,
}

const _: () = assert!(size_of::<Entry>() == 64 && size_of::<Node>() == 64);

impl Entry {
    /// What lies at a place of its packet, hanging nowhere, in no order.
    #[inline(always)]
    pub const fn new(key: u64, name: (u8, u16), wire_len: u16, generation: u16) -> Self {
        Entry {
            key,
            place: Place {
                edge: 0,
                parent: NONE,
                before: NONE,
                after: NONE,
                depth: 0,
                linked: 0,
                spare: [0; 2],
            },
            fresh_until: 0,
            newer: NONE,
            older: NONE,
            stored: 0,
            wire_len,
            name_len: name.1,
            generation,
            name_start: name.0,
            marks: 0,
            spot: Spot::NONE,
        }
    }

    /// Another packet came in this entry: nothing of the former is known but its place in the policy's order.
    #[inline(always)]
    pub const fn forget_packet(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.marks &= 0b10;
    }

    /// Which entry came some packets after this one, if that is known: kept in its place while it hangs nowhere, so it may be anything.
    #[inline(always)]
    pub const fn follower(&self) -> u32 {
        if self.place.linked == 0 { self.place.after } else { NONE }
    }

    #[inline(always)]
    pub const fn set_follower(&mut self, slot: u32) {
        if self.place.linked == 0 {
            self.place.after = slot;
        }
    }

    #[inline(always)]
    pub const fn is_digested(&self) -> bool {
        self.marks & 1 != 0
    }

    pub const fn set_digested(&mut self) {
        self.marks |= 1;
    }

    /// Which of the policy's two queues it is in.
    #[inline(always)]
    pub const fn queue(&self) -> usize {
        (self.marks >> 1 & 1) as usize
    }

    #[inline(always)]
    pub const fn set_queue(&mut self, queue: usize) {
        self.marks = self.marks & !0b10 | (queue as u8) << 1;
    }

    /// How often it was used, 3 at most.
    #[inline(always)]
    pub const fn uses(&self) -> u8 {
        self.marks >> 2
    }

    #[inline(always)]
    pub const fn set_uses(&mut self, uses: u8) {
        self.marks = self.marks & 0b11 | uses << 2;
    }

    /// True when an Interest with MustBeFresh may be answered.
    #[inline(always)]
    pub const fn is_fresh(&self, now: u64) -> bool {
        now < self.fresh_until
    }
}

impl Node {
    /// Of a prefix, with nothing below, hanging nowhere.
    pub const fn new(hash: u64, depth: u8) -> Self {
        let place =
            Place { edge: hash, parent: NONE, before: NONE, after: NONE, depth, linked: 1, spare: [0; 2] };
        Node { hash, place, first: NONE, count: 0, fresh_end: 0, spare: 0 }
    }

    /// False when nothing below is fresh.
    #[inline(always)]
    pub const fn may_be_fresh(&self, now: u64) -> bool {
        (now >> COARSE_BITS) < self.fresh_end as u64 || self.fresh_end == u32::MAX
    }
}

/// A coarse tick is 2^30 ns, about a second.
const COARSE_BITS: u32 = 30;

/// The coarse tick in which nothing with this end of freshness is fresh any more. Coarse, so that most insertions need not tell the nodes above.
#[inline(always)]
pub(super) const fn coarse_end(fresh_until: u64) -> u32 {
    if fresh_until == 0 {
        return 0;
    }
    let end = (fresh_until >> COARSE_BITS) + 1;
    if end > u32::MAX as u64 { u32::MAX } else { end as u32 }
}
