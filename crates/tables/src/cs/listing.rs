//! Listing and copying the packets of a content store in steps, to hand them to another store.

use super::{ContentStore, CsConfig, CsRef};

/// Index buckets visited per step: about 3,000 entries of a full store.
const BUCKETS_PER_STEP: usize = 1024;

/// A packet in a [`Listing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedPacket {
    /// Number of packets stored after it, modulo 2^32.
    pub age: u32,
    /// The packet.
    pub reference: CsRef,
}

/// The progress of a listing: see [`ContentStore::list_part`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The packets found so far, in no order.
    pub packets: Vec<ListedPacket>,
    /// The number of index buckets visited.
    bucket: usize,
}

impl ContentStore {
    /// Does a step of a listing (some hundred microseconds); returns whether it is complete. A
    /// packet stored or evicted meanwhile may be missing.
    pub fn list_part(&self, listing: &mut Listing) -> bool {
        let buckets = self.tree.keys.buckets();
        let end = buckets.min(listing.bucket + BUCKETS_PER_STEP);
        let newest = self.counters.insertions as u32;
        for bucket in listing.bucket..end {
            for slot in self.tree.keys.bucket_slots(bucket) {
                let entry = &self.tree.entries[slot as usize];
                listing.packets.push(ListedPacket {
                    age: newest.wrapping_sub(entry.stored),
                    reference: CsRef { slot, generation: entry.generation },
                });
            }
        }
        listing.bucket = end;
        end == buckets
    }

    /// Returns whether a packet of this length can be stored without an eviction.
    pub fn has_capacity_for(&self, wire_len: usize) -> bool {
        let CsConfig { packets_max, bytes_max } = self.limits();
        let wire_bytes = wire_len.next_multiple_of(super::BLOCK_LEN);
        self.len() < packets_max && self.bytes() + wire_bytes <= bytes_max
    }
}
