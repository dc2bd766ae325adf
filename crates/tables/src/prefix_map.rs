//! Something for each of some prefixes, found by the longest that a name has: rules, limits. Of a fixed size.
//!
//! For what the FIB is not for: few kinds of values and up to some ten thousand prefixes. A search looks only at lengths at which there is a prefix.

use crate::index::Index;
use nw_name::{HashKey, Name, NameRef, PREFIXES_MAX, Prefixes};

/// Why a prefix was not taken; nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixMapError {
    /// There are as many prefixes as there may be.
    Full,
    /// More than 32 components.
    TooLong,
}

impl core::fmt::Display for PrefixMapError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            PrefixMapError::Full => "there are as many prefixes as there may be: remove one first",
            PrefixMapError::TooLong => "a prefix has at most 32 components",
        })
    }
}

impl core::error::Error for PrefixMapError {}

/// See the module.
#[derive(Debug)]
pub struct PrefixMap<T> {
    key: HashKey,
    index: Index,
    places: Vec<Option<(Name, T)>>,
    free: Vec<u32>,
    /// Prefixes of each length, and a bit for each length that has some.
    counts: [u32; PREFIXES_MAX + 1],
    lengths: u64,
}

impl<T> PrefixMap<T> {
    /// Without prefixes, for so many at most. `key` is that of the [`Prefixes`] it will be asked with.
    pub fn new(key: HashKey, prefixes_max: usize) -> Self {
        PrefixMap {
            key,
            index: Index::with_capacity(prefixes_max),
            places: Vec::new(),
            free: Vec::new(),
            counts: [0; PREFIXES_MAX + 1],
            lengths: 0,
        }
    }

    /// Sets what belongs to a prefix; what was there is given back.
    ///
    /// # Errors
    /// When it does not fit; nothing has changed then.
    pub fn insert(&mut self, prefix: NameRef<'_>, value: T) -> Result<Option<T>, PrefixMapError> {
        let (hash, length) = (self.key.name(prefix), prefix.len());
        if length > PREFIXES_MAX {
            return Err(PrefixMapError::TooLong);
        }
        if let Some(place) = self.find(hash, prefix.as_bytes()) {
            return Ok(Some(core::mem::replace(self.value_mut(place), value)));
        }
        let place = self.free.last().copied().unwrap_or(self.places.len() as u32);
        self.index.insert(hash, place).map_err(|_| PrefixMapError::Full)?;
        if self.free.pop().is_none() {
            self.places.push(None);
        }
        self.places[place as usize] = Some((prefix.to_name(), value));
        self.counts[length] += 1;
        self.lengths |= 1 << length;
        Ok(None)
    }

    /// Removes a prefix; what belonged to it is given back.
    pub fn remove(&mut self, prefix: NameRef<'_>) -> Option<T> {
        let hash = self.key.name(prefix);
        let place = self.find(hash, prefix.as_bytes())?;
        self.index.remove(hash, place as u32);
        self.free.push(place as u32);
        let length = prefix.len();
        self.counts[length] -= 1;
        if self.counts[length] == 0 {
            self.lengths &= !(1 << length);
        }
        self.places[place].take().map(|(_, value)| value)
    }

    /// The place of the longest prefix of a name. `prefixes` are those of `name`.
    #[inline]
    pub fn longest(&self, name: NameRef<'_>, prefixes: &Prefixes) -> Option<usize> {
        let mut lengths = self.lengths & (u64::MAX >> (63 - prefixes.kept()));
        while let Some(length) = lengths.checked_ilog2() {
            let octets = &name.as_bytes()[..prefixes.end(length as usize)];
            if let Some(place) = self.find(prefixes.hash(length as usize), octets) {
                return Some(place);
            }
            lengths &= !(1 << length);
        }
        None
    }

    /// The place of exactly these components, whose hash is known.
    #[inline]
    pub fn find(&self, hash: u64, octets: &[u8]) -> Option<usize> {
        let is_it = |place: u32| matches!(&self.places[place as usize], Some((name, _)) if name.as_ref().as_bytes() == octets);
        self.index.find(hash, is_it).map(|place| place as usize)
    }

    /// The place of exactly this prefix.
    pub fn exact(&self, prefix: NameRef<'_>) -> Option<usize> {
        self.find(self.key.name(prefix), prefix.as_bytes())
    }

    /// The prefix at a place that was found.
    ///
    /// # Panics
    /// When nothing is there.
    #[inline]
    pub fn prefix(&self, place: usize) -> NameRef<'_> {
        self.places[place].as_ref().expect("a place that was found").0.as_ref()
    }

    /// What belongs to the prefix at a place that was found.
    ///
    /// # Panics
    /// When nothing is there.
    #[inline]
    pub fn value(&self, place: usize) -> &T {
        &self.places[place].as_ref().expect("a place that was found").1
    }

    /// As [`value`](Self::value), to be changed.
    ///
    /// # Panics
    /// When nothing is there.
    #[inline]
    pub fn value_mut(&mut self, place: usize) -> &mut T {
        &mut self.places[place].as_mut().expect("a place that was found").1
    }

    /// All of them, in no order that means something.
    pub fn iter(&self) -> impl Iterator<Item = (NameRef<'_>, &T)> {
        self.places.iter().flatten().map(|(name, value)| (name.as_ref(), value))
    }

    /// Prefixes in it.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True without prefixes.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const KEY: HashKey = HashKey::new([
        0x243f_6a88_85a3_08d3,
        0x1319_8a2e_0370_7344,
        0xa409_3822_299f_31d0,
        0x082e_fa98_ec4e_6c89,
    ]);

    fn name(letters: &[u8]) -> Name {
        letters.iter().fold(Name::new(), |name, letter| name.with_generic([*letter]))
    }

    #[test]
    fn bounds() {
        let mut map = PrefixMap::new(KEY, 1);
        assert_eq!(map.insert(name(b"a").as_ref(), 1), Ok(None));
        assert_eq!(map.insert(name(b"b").as_ref(), 2), Err(PrefixMapError::Full));
        assert_eq!(map.insert(name(b"a").as_ref(), 3), Ok(Some(1)));
        assert_eq!(map.insert(name(&[b'x'; 33]).as_ref(), 4), Err(PrefixMapError::TooLong));
        assert_eq!(map.remove(name(b"a").as_ref()), Some(3));
        assert_eq!(map.insert(name(&[b'x'; 32]).as_ref(), 4), Ok(None));
        let long = name(&[b'x'; 40]);
        let found = map.longest(long.as_ref(), &Prefixes::of(&KEY, long.as_ref()));
        assert_eq!(found.map(|place| *map.value(place)), Some(4));
    }

    proptest! {
        /// As a naive map does it.
        #[test]
        fn as_a_naive_map(
            steps in proptest::collection::vec((proptest::collection::vec(b'a'..b'c', 0..4), any::<bool>()), 0..60),
            asked in proptest::collection::vec(proptest::collection::vec(b'a'..b'd', 0..6), 0..10),
        ) {
            let mut map = PrefixMap::new(KEY, 8);
            let mut model: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
            for (number, (letters, add)) in steps.into_iter().enumerate() {
                let prefix = name(&letters);
                if !add {
                    prop_assert_eq!(map.remove(prefix.as_ref()), model.remove(&letters));
                } else if model.len() < 8 || model.contains_key(&letters) {
                    prop_assert_eq!(map.insert(prefix.as_ref(), number), Ok(model.insert(letters, number)));
                } else {
                    prop_assert_eq!(map.insert(prefix.as_ref(), number), Err(PrefixMapError::Full));
                }
                prop_assert_eq!(map.len(), model.len());
            }
            for letters in asked {
                let wanted = (0..=letters.len()).rev().find_map(|length| model.get(&letters[..length]));
                let asked = name(&letters);
                let found = map.longest(asked.as_ref(), &Prefixes::of(&KEY, asked.as_ref()));
                prop_assert_eq!(found.map(|place| map.value(place)), wanted);
            }
            prop_assert_eq!(map.iter().count(), model.len());
        }
    }
}
