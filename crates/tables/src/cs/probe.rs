//! What prefetching has found for a name, so that the lookup need not repeat it.

/// The result of [`ContentStore::advance`](super::ContentStore::advance) for one name in one
/// store. It is ignored once the store has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CsProbe {
    /// Nothing is known.
    #[default]
    Empty,
    /// The packet was absent after this number of insertions.
    Absent {
        /// Insertions into the store until then.
        insertions: u64,
    },
    /// The packet is most likely in the store.
    MayBeCached,
}
