//! The records of the content store: entries (packets) and nodes (shared prefixes), one cache line
//! each.

use crate::index::BucketPos;
use zerocopy::FromZeros;

/// No record.
pub(super) const NONE: u32 = u32::MAX;

/// Set in the id of a [`Node`], clear in that of an [`Entry`].
const NODE: u32 = 1 << 31;

/// Returns whether the id is that of a node.
#[inline(always)]
pub(super) const fn is_node(id: u32) -> bool {
    id & NODE != 0
}

/// Returns the id of the node with this index, and the reverse.
#[inline(always)]
pub(super) const fn node_id(index: u32) -> u32 {
    index ^ NODE
}

/// The position of a record in the prefix tree.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
pub(super) struct TreeLink {
    /// The hash of the name's prefix one component longer than the parent's; the record is indexed
    /// under it. Equal to an entry's key if the entry is indexed under its key only.
    pub edge: u64,
    /// The parent node.
    pub parent: u32,
    /// The next newer sibling, or [`NONE`].
    pub prev: u32,
    /// The next older sibling, or [`NONE`].
    pub next: u32,
    /// The number of components, at most [`DEEPER`](super::tree::DEEPER).
    pub depth: u8,
    /// 0 for an entry that is not in the tree: the other fields are undefined then, except that
    /// `next` may be a [`successor`](Entry::successor).
    pub linked: u8,
    padding: [u8; 2],
}

/// A packet. Its number is that of its first block, so both can be prefetched at once.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C, align(64))]
pub(super) struct Entry {
    /// The hash of the packet's name.
    pub key: u64,
    /// Its position in the tree.
    pub link: TreeLink,
    /// The end of freshness, nanoseconds as in [`Timestamp`](crate::Timestamp); 0 if never fresh.
    pub fresh_until: u64,
    /// Neighbours in the policy's queue.
    pub newer: u32,
    pub older: u32,
    /// The number of insertions before this one, modulo 2^32.
    pub stored: u32,
    /// 0 if the entry is free.
    pub wire_len: u16,
    pub name_len: u16,
    /// Incremented each time the entry is reused.
    pub generation: u16,
    /// The start of the name's TLV-VALUE in the packet.
    pub name_start: u8,
    /// Bit 0: the digest is stored. Bit 1: the entry is in the policy's second queue. Bits 2 and 3:
    /// number of uses, as far as the policy counts them.
    marks: u8,
    /// The position of its key in the index, if known.
    pub index_pos: BucketPos,
}

/// A prefix that several records share.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C, align(64))]
pub(super) struct Node {
    /// The hash of the prefix.
    pub hash: u64,
    /// Its position in the tree.
    pub link: TreeLink,
    /// The newest child; the next free node in free nodes.
    pub first: u32,
    /// The number of children; 0 in free nodes.
    pub count: u32,
    /// No packet below is fresh from this time on: see [`coarse_end`].
    pub fresh_end: u32,
    padding: u32,
}

const _: () = assert!(size_of::<Entry>() == 64 && size_of::<Node>() == 64);

impl Entry {
    /// Returns the entry of a packet that is not in the tree and in no queue.
    #[inline(always)]
    pub const fn new(key: u64, name: (u8, u16), wire_len: u16, generation: u16) -> Self {
        Entry {
            key,
            link: TreeLink {
                edge: 0,
                parent: NONE,
                prev: NONE,
                next: NONE,
                depth: 0,
                linked: 0,
                padding: [0; 2],
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
            index_pos: BucketPos::NONE,
        }
    }

    /// Prepares the entry for another packet; only its place in the policy's queue stays.
    #[inline(always)]
    pub const fn reset_for_packet(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.marks &= 0b10;
    }

    /// Returns the entry inserted some packets after this one. It is stored in an unused field of
    /// entries outside the tree, so it may be any number.
    #[inline(always)]
    pub const fn successor(&self) -> u32 {
        if self.link.linked == 0 { self.link.next } else { NONE }
    }

    #[inline(always)]
    pub const fn set_successor(&mut self, slot: u32) {
        if self.link.linked == 0 {
            self.link.next = slot;
        }
    }

    /// Returns whether the implicit digest is stored.
    #[inline(always)]
    pub const fn is_digested(&self) -> bool {
        self.marks & 1 != 0
    }

    pub const fn set_digested(&mut self) {
        self.marks |= 1;
    }

    /// Returns which of the policy's two queues the entry is in.
    #[inline(always)]
    pub const fn queue(&self) -> usize {
        (self.marks >> 1 & 1) as usize
    }

    #[inline(always)]
    pub const fn set_queue(&mut self, queue: usize) {
        self.marks = self.marks & !0b10 | (queue as u8) << 1;
    }

    /// Returns the number of uses, at most 3.
    #[inline(always)]
    pub const fn uses(&self) -> u8 {
        self.marks >> 2
    }

    #[inline(always)]
    pub const fn set_uses(&mut self, uses: u8) {
        self.marks = self.marks & 0b11 | uses << 2;
    }

    /// Returns whether the packet satisfies MustBeFresh.
    #[inline(always)]
    pub const fn is_fresh(&self, now: u64) -> bool {
        now < self.fresh_until
    }
}

impl Node {
    /// Returns the node of a prefix, without children and parent.
    pub const fn new(hash: u64, depth: u8) -> Self {
        let link = TreeLink {
            edge: hash,
            parent: NONE,
            prev: NONE,
            next: NONE,
            depth,
            linked: 1,
            padding: [0; 2],
        };
        Node { hash, link, first: NONE, count: 0, fresh_end: 0, padding: 0 }
    }

    /// Returns false if no packet below is fresh.
    #[inline(always)]
    pub const fn may_be_fresh(&self, now: u64) -> bool {
        (now >> COARSE_BITS) < self.fresh_end as u64 || self.fresh_end == u32::MAX
    }
}

/// A coarse tick is 2^30 ns, about a second.
const COARSE_BITS: u32 = 30;

/// Returns the coarse tick from which on a packet with this end of freshness is stale. Coarse, so
/// that most insertions need not update the nodes above.
#[inline(always)]
pub(super) const fn coarse_end(fresh_until: u64) -> u32 {
    if fresh_until == 0 {
        return 0;
    }
    let end = (fresh_until >> COARSE_BITS) + 1;
    if end > u32::MAX as u64 { u32::MAX } else { end as u32 }
}
