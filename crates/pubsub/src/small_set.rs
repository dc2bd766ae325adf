//! Sorted sets that usually have no element or one, in 16 bytes (8 where elements have 4).

/// A sorted set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SmallSet<T> {
    /// No element.
    #[default]
    Empty,
    /// One element.
    One(T),
    /// Two or more, sorted. Boxed, so that the set itself stays small.
    #[expect(clippy::box_collection, reason = "a vector has three words, the set has two")]
    Many(Box<Vec<T>>),
}

impl<T: Copy + Ord> SmallSet<T> {
    /// Returns the elements, sorted.
    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            SmallSet::Empty => &[],
            SmallSet::One(element) => core::slice::from_ref(element),
            SmallSet::Many(elements) => elements,
        }
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Returns whether there is no element.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, SmallSet::Empty)
    }

    /// Returns whether an element is in the set.
    pub(crate) fn contains(&self, element: &T) -> bool {
        self.as_slice().binary_search(element).is_ok()
    }

    /// Adds an element. Returns `false` if it was there.
    pub(crate) fn insert(&mut self, element: T) -> bool {
        match self {
            SmallSet::Empty => *self = SmallSet::One(element),
            SmallSet::One(known) => {
                let known = *known;
                if known == element {
                    return false;
                }
                *self = SmallSet::Many(Box::new(vec![known.min(element), known.max(element)]));
            }
            SmallSet::Many(elements) => match elements.binary_search(&element) {
                Ok(_) => return false,
                Err(at) => elements.insert(at, element),
            },
        }
        true
    }

    /// Removes an element. Returns `false` if it was not there.
    pub(crate) fn remove(&mut self, element: &T) -> bool {
        match self {
            SmallSet::Empty => return false,
            SmallSet::One(known) if known == element => *self = SmallSet::Empty,
            SmallSet::One(_) => return false,
            SmallSet::Many(elements) => {
                let Ok(at) = elements.binary_search(element) else { return false };
                elements.remove(at);
                if let [last] = elements[..] {
                    *self = SmallSet::One(last);
                }
            }
        }
        true
    }

    /// Returns the bytes of heap memory in use.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            SmallSet::Many(elements) => size_of::<Vec<T>>() + elements.capacity() * size_of::<T>(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn set_agrees_with_the_standard_one(steps in prop::collection::vec((any::<bool>(), 0u32..6), 0..60)) {
            let (mut set, mut model) = (SmallSet::default(), BTreeSet::new());
            for (insert, element) in steps {
                match insert {
                    true => prop_assert_eq!(set.insert(element), model.insert(element)),
                    false => prop_assert_eq!(set.remove(&element), model.remove(&element)),
                }
                prop_assert!(set.as_slice().iter().eq(&model));
                prop_assert_eq!(set.is_empty(), model.is_empty());
                prop_assert_eq!(set.contains(&3), model.contains(&3));
                prop_assert_eq!((set.len(), set.heap_bytes() > 0), (model.len(), model.len() > 1));
            }
        }
    }

    #[test]
    fn set_of_numbers_has_two_words() {
        assert_eq!(size_of::<SmallSet<u32>>(), 16);
    }
}
