//! What came of packets that were verified before.
//!
//! A packet is told by its name's hash and the end of its signature, which costs nothing, and when something like it was there before, by a digest of all that is
//! signed and of the signature. So packets that come once are never hashed for the sake of those that come again: of these the first is
//! noted, the second remembered, the third known.

/// Entries that a packet may stand in.
const WAYS: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// 0 when nothing is there.
    mark: u64,
    used: u32,
    /// What came of it, and its seal.
    result: Option<(bool, [u8; 32])>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Cache {
    sets: Vec<[Entry; WAYS]>,
    uses: u32,
}

/// What is known of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing like it was there before.
    Nothing,
    /// Something with its mark was there before: its seal is worth computing.
    Seen,
}

impl Cache {
    /// For about so many packets; 0 remembers none.
    pub fn new(packets_max: usize) -> Self {
        Cache { sets: vec![[Entry::default(); WAYS]; packets_max.div_ceil(WAYS)], uses: 0 }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.sets.fill([Entry::default(); WAYS]);
    }

    /// Looks for a packet, and notes that it was there.
    pub fn look(&mut self, mark: u64) -> Known {
        let uses = self.uses;
        let Some(set) = self.set(mark) else { return Known::Nothing };
        if let Some(entry) = set.iter_mut().find(|entry| entry.mark == mark) {
            entry.used = uses;
            return Known::Seen;
        }
        let oldest = set.iter_mut().min_by_key(|entry| (entry.mark != 0, entry.used));
        if let Some(entry) = oldest {
            *entry = Entry { mark, used: uses, result: None };
        }
        self.uses = uses.wrapping_add(1);
        Known::Nothing
    }

    /// What came of a packet that was [`Seen`](Known::Seen).
    pub fn result(&mut self, mark: u64, seal: &[u8; 32]) -> Option<bool> {
        let entry = self.set(mark)?.iter().find(|entry| entry.mark == mark)?;
        entry.result.filter(|(_, known)| known == seal).map(|(valid, _)| valid)
    }

    /// Remembers what came of a packet that was seen.
    pub fn remember(&mut self, mark: u64, seal: [u8; 32], valid: bool) {
        let Some(set) = self.set(mark) else { return };
        if let Some(entry) = set.iter_mut().find(|entry| entry.mark == mark) {
            entry.result = Some((valid, seal));
        }
    }

    fn set(&mut self, mark: u64) -> Option<&mut [Entry; WAYS]> {
        let at = (u128::from(mark) * self.sets.len() as u128) >> 64;
        self.sets.get_mut(at as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_is_known() {
        let mut cache = Cache::new(16);
        assert_eq!(cache.look(7), Known::Nothing);
        assert_eq!(cache.look(7), Known::Seen);
        assert_eq!(cache.result(7, &[1; 32]), None);
        cache.remember(7, [1; 32], true);
        assert_eq!(cache.look(7), Known::Seen);
        assert_eq!(cache.result(7, &[1; 32]), Some(true));
        assert_eq!(cache.result(7, &[2; 32]), None, "only its mark is the same");
        cache.clear();
        assert_eq!(cache.look(7), Known::Nothing);
    }

    #[test]
    fn it_is_bounded_and_may_be_none() {
        let mut cache = Cache::new(WAYS);
        (1..=100).for_each(|mark| _ = cache.look(mark));
        let kept = (1..=100u64).filter(|mark| cache.sets[0].iter().any(|e| e.mark == *mark)).count();
        assert_eq!(kept, WAYS);
        let mut none = Cache::new(0);
        assert_eq!((none.look(1), none.look(1)), (Known::Nothing, Known::Nothing));
        none.remember(1, [0; 32], true);
        assert_eq!(none.result(1, &[0; 32]), None);
    }
}
