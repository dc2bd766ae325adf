//! Results of packets verified before.
//!
//! A packet is first looked up by a fingerprint of its name's hash and the end of its signature,
//! which costs next to nothing; only if that was seen before, a digest of all signed bytes and the
//! signature is computed and compared. So packets that occur once are never hashed. Of a repeated
//! packet the first occurrence stores the fingerprint, the second the result, and the third uses
//! it.

/// Entries per set: the cache is 8-way set-associative.
const SET_LEN: usize = 8;

/// One entry of a set.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// 0 for an empty entry.
    fingerprint: u64,
    used: u32,
    /// Whether the signature was valid, and the digest it was valid for.
    result: Option<(bool, [u8; 32])>,
}

/// The cache.
#[derive(Debug)]
pub(super) struct Cache {
    sets: Vec<[Entry; SET_LEN]>,
    uses: u32,
}

/// The result of a lookup by fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheLookup {
    /// Not seen before.
    Miss,
    /// The fingerprint was seen before: computing the digest is worthwhile.
    Seen,
}

impl Cache {
    /// Creates a cache for about `packets_max` packets; 0 for none.
    pub fn new(packets_max: usize) -> Self {
        Cache { sets: vec![[Entry::default(); SET_LEN]; packets_max.div_ceil(SET_LEN)], uses: 0 }
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.sets.fill([Entry::default(); SET_LEN]);
    }

    /// Looks up a fingerprint and stores it if it is new.
    pub fn lookup(&mut self, fingerprint: u64) -> CacheLookup {
        let uses = self.uses;
        let Some(set) = self.set(fingerprint) else { return CacheLookup::Miss };
        if let Some(entry) = set.iter_mut().find(|entry| entry.fingerprint == fingerprint) {
            entry.used = uses;
            return CacheLookup::Seen;
        }
        let oldest = set.iter_mut().min_by_key(|entry| (entry.fingerprint != 0, entry.used));
        if let Some(entry) = oldest {
            *entry = Entry { fingerprint, used: uses, result: None };
        }
        self.uses = uses.wrapping_add(1);
        CacheLookup::Miss
    }

    /// Returns the result of a packet whose fingerprint was [`Seen`](CacheLookup::Seen). `None` if
    /// there is none for this digest.
    pub fn result(&mut self, fingerprint: u64, digest: &[u8; 32]) -> Option<bool> {
        let entry = self.set(fingerprint)?.iter().find(|entry| entry.fingerprint == fingerprint)?;
        entry.result.filter(|(_, known)| known == digest).map(|(valid, _)| valid)
    }

    /// Stores the result of a packet whose fingerprint was seen.
    pub fn remember(&mut self, fingerprint: u64, digest: [u8; 32], valid: bool) {
        let Some(set) = self.set(fingerprint) else { return };
        if let Some(entry) = set.iter_mut().find(|entry| entry.fingerprint == fingerprint) {
            entry.result = Some((valid, digest));
        }
    }

    /// Returns the set that a fingerprint belongs to. `None` if the cache has no entries.
    fn set(&mut self, fingerprint: u64) -> Option<&mut [Entry; SET_LEN]> {
        let at = (u128::from(fingerprint) * self.sets.len() as u128) >> 64;
        self.sets.get_mut(at as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn third_occurrence_uses_the_stored_result() {
        let mut cache = Cache::new(16);
        assert_eq!(cache.lookup(7), CacheLookup::Miss);
        assert_eq!(cache.lookup(7), CacheLookup::Seen);
        assert_eq!(cache.result(7, &[1; 32]), None);
        cache.remember(7, [1; 32], true);
        assert_eq!(cache.lookup(7), CacheLookup::Seen);
        assert_eq!(cache.result(7, &[1; 32]), Some(true));
        assert_eq!(cache.result(7, &[2; 32]), None, "same fingerprint, other digest");
        cache.clear();
        assert_eq!(cache.lookup(7), CacheLookup::Miss);
    }

    #[test]
    fn cache_is_bounded_and_may_be_empty() {
        let mut cache = Cache::new(SET_LEN);
        (1..=100).for_each(|fingerprint| _ = cache.lookup(fingerprint));
        let kept = (1..=100u64)
            .filter(|fingerprint| cache.sets[0].iter().any(|e| e.fingerprint == *fingerprint))
            .count();
        assert_eq!(kept, SET_LEN);
        let mut none = Cache::new(0);
        assert_eq!((none.lookup(1), none.lookup(1)), (CacheLookup::Miss, CacheLookup::Miss));
        none.remember(1, [0; 32], true);
        assert_eq!(none.result(1, &[0; 32]), None);
    }
}
