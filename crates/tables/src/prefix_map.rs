//! A map from prefixes to values, found by longest prefix match: rules, limits. Of fixed size.
//!
//! For up to some ten thousand prefixes with few kinds of values (the FIB is for more). A search
//! looks only at the lengths that some prefix has.

use crate::index::Index;
use nw_name::{HashKey, Name, NameRef, PREFIXES_MAX, PrefixHashes};

/// Why a prefix was not inserted; the map is unchanged then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixMapError {
    /// The map has its maximum number of prefixes.
    Full,
    /// The prefix has more than 32 components.
    TooLong,
}

impl core::fmt::Display for PrefixMapError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            PrefixMapError::Full => "the table of prefixes is full: remove a prefix first",
            PrefixMapError::TooLong => "a prefix has at most 32 components",
        })
    }
}

impl core::error::Error for PrefixMapError {}

/// The map: see the module.
#[derive(Debug)]
pub struct PrefixMap<T> {
    key: HashKey,
    index: Index,
    entries: Vec<Option<(Name, T)>>,
    free: Vec<u32>,
    /// The number of prefixes per length, and one bit per length in use.
    counts: [u32; PREFIXES_MAX + 1],
    lengths: u64,
}

impl<T> PrefixMap<T> {
    /// Creates an empty map for at most `prefixes_max` prefixes. `key` must be the key of all
    /// [`PrefixHashes`] passed to it.
    pub fn new(key: HashKey, prefixes_max: usize) -> Self {
        PrefixMap {
            key,
            index: Index::with_capacity(prefixes_max),
            entries: Vec::new(),
            free: Vec::new(),
            counts: [0; PREFIXES_MAX + 1],
            lengths: 0,
        }
    }

    /// Sets the value of a prefix; returns the old value.
    ///
    /// # Errors
    /// When the map is full or the prefix too long; the map is unchanged then.
    pub fn insert(&mut self, prefix: NameRef<'_>, value: T) -> Result<Option<T>, PrefixMapError> {
        let (hash, length) = (self.key.name(prefix), prefix.len());
        if length > PREFIXES_MAX {
            return Err(PrefixMapError::TooLong);
        }
        if let Some(slot) = self.find(hash, prefix.as_bytes()) {
            return Ok(Some(core::mem::replace(self.value_mut(slot), value)));
        }
        let slot = self.free.last().copied().unwrap_or(self.entries.len() as u32);
        self.index.insert(hash, slot).map_err(|_| PrefixMapError::Full)?;
        if self.free.pop().is_none() {
            self.entries.push(None);
        }
        self.entries[slot as usize] = Some((prefix.to_name(), value));
        self.counts[length] += 1;
        self.lengths |= 1 << length;
        Ok(None)
    }

    /// Removes a prefix; returns its value.
    pub fn remove(&mut self, prefix: NameRef<'_>) -> Option<T> {
        let hash = self.key.name(prefix);
        let slot = self.find(hash, prefix.as_bytes())?;
        self.index.remove(hash, slot as u32);
        self.free.push(slot as u32);
        let length = prefix.len();
        self.counts[length] -= 1;
        if self.counts[length] == 0 {
            self.lengths &= !(1 << length);
        }
        self.entries[slot].take().map(|(_, value)| value)
    }

    /// Returns the slot of the longest prefix of a name. `prefixes` are the hashes of `name`.
    #[inline]
    pub fn longest(&self, name: NameRef<'_>, prefixes: &PrefixHashes) -> Option<usize> {
        let mut lengths = self.lengths & (u64::MAX >> (63 - prefixes.stored_len()));
        while let Some(length) = lengths.checked_ilog2() {
            let bytes = &name.as_bytes()[..prefixes.end(length as usize)];
            if let Some(slot) = self.find(prefixes.hash(length as usize), bytes) {
                return Some(slot);
            }
            lengths &= !(1 << length);
        }
        None
    }

    /// Returns the slot of exactly this prefix, given by its hash and its TLV-VALUE.
    #[inline]
    pub fn find(&self, hash: u64, bytes: &[u8]) -> Option<usize> {
        let is_match = |slot: u32| {
            let entry = self.entries[slot as usize].as_ref();
            entry.is_some_and(|(name, _)| name.as_ref().as_bytes() == bytes)
        };
        self.index.find(hash, is_match).map(|slot| slot as usize)
    }

    /// Returns the slot of exactly this prefix.
    pub fn exact(&self, prefix: NameRef<'_>) -> Option<usize> {
        self.find(self.key.name(prefix), prefix.as_bytes())
    }

    /// Returns the prefix in a slot.
    ///
    /// # Panics
    /// When the slot is free.
    #[inline]
    pub fn prefix(&self, slot: usize) -> NameRef<'_> {
        self.entries[slot].as_ref().expect("the slot is in use").0.as_ref()
    }

    /// Returns the value in a slot.
    ///
    /// # Panics
    /// When the slot is free.
    #[inline]
    pub fn value(&self, slot: usize) -> &T {
        &self.entries[slot].as_ref().expect("the slot is in use").1
    }

    /// Returns the value in a slot, to be changed.
    ///
    /// # Panics
    /// When the slot is free.
    #[inline]
    pub fn value_mut(&mut self, slot: usize) -> &mut T {
        &mut self.entries[slot].as_mut().expect("the slot is in use").1
    }

    /// Iterates over all prefixes and values, in undefined order.
    pub fn iter(&self) -> impl Iterator<Item = (NameRef<'_>, &T)> {
        self.entries.iter().flatten().map(|(name, value)| (name.as_ref(), value))
    }

    /// Returns the number of prefixes.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns whether there are no prefixes.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_util::KEY;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn name(letters: &[u8]) -> Name {
        letters.iter().fold(Name::new(), |name, letter| name.with_generic([*letter]))
    }

    #[test]
    fn prefix_map_full_or_too_long_returns_error() {
        let mut map = PrefixMap::new(KEY, 1);
        assert_eq!(map.insert(name(b"a").as_ref(), 1), Ok(None));
        assert_eq!(map.insert(name(b"b").as_ref(), 2), Err(PrefixMapError::Full));
        assert_eq!(map.insert(name(b"a").as_ref(), 3), Ok(Some(1)));
        assert_eq!(map.insert(name(&[b'x'; 33]).as_ref(), 4), Err(PrefixMapError::TooLong));
        assert_eq!(map.remove(name(b"a").as_ref()), Some(3));
        assert_eq!(map.insert(name(&[b'x'; 32]).as_ref(), 4), Ok(None));
        let long = name(&[b'x'; 40]);
        let found = map.longest(long.as_ref(), &PrefixHashes::of(&KEY, long.as_ref()));
        assert_eq!(found.map(|slot| *map.value(slot)), Some(4));
    }

    proptest! {
        /// Equals a naive map.
        #[test]
        fn prefix_map_any_operations_equals_model(
            steps in proptest::collection::vec(
                (proptest::collection::vec(b'a'..b'c', 0..4), any::<bool>()),
                0..60,
            ),
            names in proptest::collection::vec(proptest::collection::vec(b'a'..b'd', 0..6), 0..10),
        ) {
            let mut map = PrefixMap::new(KEY, 8);
            let mut model: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
            for (number, (letters, add)) in steps.into_iter().enumerate() {
                let prefix = name(&letters);
                if !add {
                    prop_assert_eq!(map.remove(prefix.as_ref()), model.remove(&letters));
                } else if model.len() < 8 || model.contains_key(&letters) {
                    prop_assert_eq!(
                        map.insert(prefix.as_ref(), number),
                        Ok(model.insert(letters, number))
                    );
                } else {
                    prop_assert_eq!(map.insert(prefix.as_ref(), number), Err(PrefixMapError::Full));
                }
                prop_assert_eq!(map.len(), model.len());
            }
            for letters in names {
                let wanted =
                    (0..=letters.len()).rev().find_map(|length| model.get(&letters[..length]));
                let name = name(&letters);
                let found = map.longest(name.as_ref(), &PrefixHashes::of(&KEY, name.as_ref()));
                prop_assert_eq!(found.map(|slot| map.value(slot)), wanted);
            }
            prop_assert_eq!(map.iter().count(), model.len());
        }
    }
}
