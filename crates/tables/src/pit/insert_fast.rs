//! The fast form of [`Pit::get_or_insert`]: a new Interest of the common kind. It changes nothing
//! unless it inserts the entry; `insert_slow` alone has the same result.

use super::entry::{InlineIn, StoredInterest};
use super::{Downstream, EntryRef, Pit};
use crate::{FaceId, InterestKey};

impl Pit {
    /// The fast form of [`get_or_insert`](Self::get_or_insert): for an Interest without CanBePrefix
    /// and digest, if no other entry has its hash and the token fits into the entry. `None`:
    /// nothing has changed; use the slow form.
    #[inline(always)]
    pub(super) fn insert_fast(
        &mut self,
        key: &InterestKey<'_>,
        wire: &[u8],
        name: (u16, u16),
        nonce_start: u16,
        downstream: &Downstream<'_>,
    ) -> Option<EntryRef> {
        let hash = key.prefixes.lookup_hash();
        let vacant = self.index.vacant_entry(hash)?;
        if key.can_be_prefix
            || key.prefixes.has_digest()
            || !InlineIn::holds(downstream.token)
            || downstream.face == FaceId::NONE
            || usize::from(name.0) + usize::from(name.1) > wire.len()
        {
            return None;
        }
        let ins = self.faces.ins_below_max(downstream.face)?;
        let slot = self.free.alloc()?;
        let Some(interest) = self.interests.insert(slot, wire) else {
            self.free.free(slot);
            return None;
        };
        *ins += 1;
        let index_pos = self.index.insert_at(&vacant, slot);
        let entries = &mut self.entries[..];
        let entry = &mut entries[slot as usize];
        entry.set_key(
            hash,
            index_pos,
            key.prefixes.count(),
            StoredInterest { line: interest, wire, name, nonce_start },
        );
        entry.activate(false, key.must_be_fresh, false, false);
        entry.incoming.set(downstream);
        let reference = EntryRef { index: slot, generation: entry.generation, shard: self.shard };
        self.wheel.arm_new(entries, slot, downstream.expiry);
        Some(reference)
    }
}
