//! Publications larger than a packet: cut into fragments, and put together again.
//!
//! A fragment names its publication by source and sequence number, its index, the number of
//! fragments and the bytes of the whole ([`FragmentInfo`]). All fragments but the last have the
//! same size, so any of them can be placed as it arrives. The reassembler is bounded in bytes and
//! in publications; what is not complete in time is evicted and counted.

use nw_packet_types::Timestamp;
use nw_wire::publication::{FragmentInfo, StreamPosition};
use std::collections::BTreeMap;

/// Returns the fragments of a publication, each at most `len_max` bytes (at least 1). A
/// publication that fits is one fragment without [`FragmentInfo`].
pub fn split(
    publication: &[u8],
    len_max: usize,
) -> impl ExactSizeIterator<Item = (Option<FragmentInfo>, &[u8])> {
    let len_max = len_max.max(1).max(publication.len().div_ceil(u32::MAX as usize));
    let count = publication.len().div_ceil(len_max).max(1);
    let total_len = publication.len() as u64;
    (0..count).map(move |index| {
        let start = index * len_max;
        let end = publication.len().min(start + len_max);
        let info = FragmentInfo { index: index as u32, count: count as u32, total_len };
        ((count > 1).then_some(info), &publication[start..end])
    })
}

/// Bounds of a reassembler.
#[derive(Clone, Copy, Debug)]
pub struct ReassemblerLimits {
    /// Most bytes of all incomplete publications.
    pub bytes_max: usize,
    /// Most incomplete publications.
    pub publications_max: usize,
    /// Milliseconds after its last fragment when an incomplete publication is given up.
    pub timeout_ms: u64,
}

impl Default for ReassemblerLimits {
    fn default() -> Self {
        ReassemblerLimits { bytes_max: 256 << 20, publications_max: 4096, timeout_ms: 10_000 }
    }
}

/// Counters of a reassembler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReassemblerCounters {
    /// Publications completed.
    pub completed: u64,
    /// Fragments received before.
    pub duplicates: u64,
    /// Fragments that contradict others of their publication.
    pub conflicts: u64,
    /// Fragments of publications that do not fit the bounds.
    pub refused: u64,
    /// Incomplete publications given up, for their time or for others.
    pub evicted: u64,
}

/// An incomplete publication.
#[derive(Clone, Debug)]
struct Partial {
    /// Bytes up to the last fragment received; memory grows with what arrives, not with what a
    /// fragment claims.
    bytes: Vec<u8>,
    total_len: usize,
    /// Size of every fragment but the last.
    size: usize,
    count: u32,
    /// Bit *i* is set if fragment *i* arrived.
    received: Vec<u64>,
    received_count: u32,
    last_arrival: Timestamp,
}

/// The result of [`Reassembler::insert`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reassembly {
    /// More fragments are missing.
    Incomplete,
    /// The publication is complete.
    Complete(Vec<u8>),
    /// The fragment was received before, contradicts others, or does not fit the bounds.
    Refused,
}

/// Puts publications together.
#[derive(Clone, Debug)]
pub struct Reassembler {
    limits: ReassemblerLimits,
    partials: BTreeMap<(u64, u64), Partial>,
    bytes: usize,
    counters: ReassemblerCounters,
}

impl Reassembler {
    /// Creates an empty reassembler.
    pub fn new(limits: ReassemblerLimits) -> Self {
        Reassembler {
            limits,
            partials: BTreeMap::new(),
            bytes: 0,
            counters: ReassemblerCounters::default(),
        }
    }

    /// Adds a fragment.
    pub fn insert(
        &mut self,
        position: StreamPosition,
        info: FragmentInfo,
        fragment: &[u8],
        now: Timestamp,
    ) -> Reassembly {
        let key = (position.source.number(), position.sequence);
        let Some(size) = fragment_size(info, fragment.len()) else {
            self.counters.conflicts += 1;
            return Reassembly::Refused;
        };
        if info.total_len > self.limits.bytes_max as u64 {
            self.counters.refused += 1;
            return Reassembly::Refused;
        }
        if info.count == 1 {
            self.counters.completed += 1;
            return Reassembly::Complete(fragment.to_vec());
        }
        let total_len = info.total_len as usize;
        let known = self.partials.get(&key);
        if let Some(partial) = known
            && !partial.agrees(info, size)
        {
            self.counters.conflicts += 1;
            return Reassembly::Refused;
        }
        let known_size = known.map_or(0, |partial| partial.size);
        // The last fragment does not show the size of the others.
        let size = if size == 0 { known_size } else { size };
        if size == 0 {
            // Without the size it has no place yet: the sender repeats it when it is missed.
            self.counters.refused += 1;
            return Reassembly::Refused;
        }
        if known.is_none() {
            self.partials.insert(key, Partial::new(info, total_len, size, now));
            self.bytes += self.partials[&key].memory_bytes();
        }
        self.place(key, info.index, fragment, now)
    }

    fn place(
        &mut self,
        key: (u64, u64),
        index: u32,
        fragment: &[u8],
        now: Timestamp,
    ) -> Reassembly {
        let Some(partial) = self.partials.get_mut(&key) else { return Reassembly::Refused };
        let before = partial.memory_bytes();
        let is_new = partial.place(index, fragment, now);
        self.bytes = self.bytes + partial.memory_bytes() - before;
        if !is_new {
            self.counters.duplicates += 1;
            return Reassembly::Refused;
        }
        if partial.received_count == partial.count {
            self.counters.completed += 1;
            let partial = self.remove(key).expect("it was found above");
            return Reassembly::Complete(partial.bytes);
        }
        self.evict_for(key)
    }

    fn remove(&mut self, key: (u64, u64)) -> Option<Partial> {
        let partial = self.partials.remove(&key)?;
        self.bytes -= partial.memory_bytes();
        Some(partial)
    }

    /// Evicts the publications that wait longest while the bounds are exceeded. If only the newest
    /// is left, it is refused.
    fn evict_for(&mut self, newest: (u64, u64)) -> Reassembly {
        while self.bytes > self.limits.bytes_max
            || self.partials.len() > self.limits.publications_max
        {
            let others = self.partials.iter().filter(|(key, _)| **key != newest);
            let oldest = others.min_by_key(|(_, partial)| partial.last_arrival);
            let evicted = oldest.map_or(newest, |(key, _)| *key);
            self.remove(evicted);
            self.counters.evicted += 1;
            if evicted == newest {
                return Reassembly::Refused;
            }
        }
        Reassembly::Incomplete
    }

    /// Gives up the publications whose time is over, and returns their number.
    pub fn expire(&mut self, now: Timestamp) -> usize {
        let timeout_ms = self.limits.timeout_ms;
        let is_over = |partial: &Partial| partial.last_arrival.plus_millis(timeout_ms) <= now;
        let over: Vec<_> =
            self.partials.iter().filter(|(_, p)| is_over(p)).map(|(key, _)| *key).collect();
        over.iter().for_each(|key| drop(self.remove(*key)));
        self.counters.evicted += over.len() as u64;
        over.len()
    }

    /// Returns the indexes of missing fragments, at most `count_max`. `None` if no fragment of the
    /// publication is held.
    pub fn missing(&self, position: StreamPosition, count_max: usize) -> Option<Vec<u32>> {
        let partial = self.partials.get(&(position.source.number(), position.sequence))?;
        Some((0..partial.count).filter(|at| !partial.has(*at)).take(count_max).collect())
    }

    /// Returns the bytes held.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the counters.
    pub const fn counters(&self) -> ReassemblerCounters {
        self.counters
    }
}

/// Returns the size of all fragments but the last, as this fragment shows it; 0 if it is the last
/// one and shows nothing. `None` if its numbers contradict each other.
fn fragment_size(info: FragmentInfo, len: usize) -> Option<usize> {
    let (len, count) = (len as u64, u64::from(info.count));
    if count == 0 || info.index >= info.count {
        return None;
    }
    if count == 1 {
        return (len == info.total_len).then_some(len as usize);
    }
    if info.index + 1 == info.count {
        // The others have the same size, at least this one's.
        let others = info.total_len.checked_sub(len)?;
        let size = others / (count - 1);
        return (len > 0 && others % (count - 1) == 0 && size >= len).then_some(size as usize);
    }
    let fits = len > 0 && len.checked_mul(count - 1)? < info.total_len;
    (fits && len.checked_mul(count)? >= info.total_len).then_some(len as usize)
}

impl Partial {
    fn new(info: FragmentInfo, total_len: usize, size: usize, now: Timestamp) -> Self {
        Partial {
            bytes: Vec::new(),
            total_len,
            size,
            count: info.count,
            received: Vec::new(),
            received_count: 0,
            last_arrival: now,
        }
    }

    fn agrees(&self, info: FragmentInfo, size: usize) -> bool {
        self.count == info.count && self.total_len as u64 == info.total_len && self.size == size
    }

    fn has(&self, index: u32) -> bool {
        let word = self.received.get(index as usize / 64).copied().unwrap_or(0);
        word & (1 << (index % 64)) != 0
    }

    /// Copies a fragment to its place. Returns `false` if it is there.
    fn place(&mut self, index: u32, fragment: &[u8], now: Timestamp) -> bool {
        if self.has(index) {
            return false;
        }
        let start = index as usize * self.size;
        let end = start + fragment.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(fragment);
        let word = index as usize / 64;
        if self.received.len() <= word {
            self.received.resize(word + 1, 0);
        }
        self.received[word] |= 1 << (index % 64);
        self.received_count += 1;
        self.last_arrival = now;
        true
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + 8 * self.received.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::publication::Label;
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::START;

    fn position(sequence: u64) -> StreamPosition {
        StreamPosition { source: Label([b'1'; 8]), sequence }
    }

    fn reassembler(bytes_max: usize) -> Reassembler {
        Reassembler::new(ReassemblerLimits { bytes_max, publications_max: 3, timeout_ms: 100 })
    }

    proptest! {
        #[test]
        fn fragments_in_any_order_give_the_publication(
            len in 0usize..3000, len_max in 1usize..700, seed in any::<u64>(),
        ) {
            let publication: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let mut fragments: Vec<_> = split(&publication, len_max).collect();
            if let [(None, whole)] = fragments[..] {
                prop_assert_eq!(whole, &publication[..]);
                return Ok(());
            }
            let count = fragments.len();
            for at in 0..count {
                fragments.swap(at, (seed.rotate_left(at as u32) % count as u64) as usize);
            }
            let mut reassembler = reassembler(100_000);
            let mut whole = None;
            for (at, (info, bytes)) in fragments.iter().enumerate() {
                match reassembler.insert(position(1), info.expect("several"), bytes, NOW) {
                    Reassembly::Complete(bytes) => {
                        prop_assert_eq!(at, count - 1);
                        whole = Some(bytes);
                    }
                    outcome => prop_assert_eq!(outcome, Reassembly::Incomplete),
                }
            }
            prop_assert_eq!(whole, Some(publication));
            prop_assert_eq!(reassembler.bytes(), 0);
        }

        #[test]
        fn hostile_fragments_hold_at_most_the_bound(
            steps in prop::collection::vec((0u64..4, 0u32..70, 0u32..70, 0u64..5000, 0usize..400), 1..100),
        ) {
            let mut reassembler = reassembler(3000);
            for (sequence, index, count, total_len, len) in steps {
                let info = FragmentInfo { index, count, total_len };
                reassembler.insert(position(sequence), info, &vec![1; len], NOW);
                prop_assert!(reassembler.bytes() <= 3000);
            }
            reassembler.expire(NOW.plus_millis(100));
            prop_assert_eq!(reassembler.bytes(), 0);
        }
    }

    #[test]
    fn duplicates_conflicts_and_time_are_counted() {
        let mut reassembler = reassembler(10_000);
        let info = |index, total_len| FragmentInfo { index, count: 3, total_len };
        let whole = reassembler.insert(position(1), info(0, 25), &[0; 10], NOW);
        assert_eq!(whole, Reassembly::Incomplete);
        for (index, total_len, len) in [(0, 25, 10), (1, 26, 10), (1, 25, 9), (2, 25, 6)] {
            let outcome =
                reassembler.insert(position(1), info(index, total_len), &vec![0; len], NOW);
            assert_eq!(outcome, Reassembly::Refused, "{index} {total_len} {len}");
        }
        assert_eq!(reassembler.missing(position(1), 9), Some(vec![1, 2]));
        assert_eq!(reassembler.missing(position(2), 9), None);
        assert_eq!((reassembler.expire(NOW.plus_millis(99)), reassembler.bytes() > 0), (0, true));
        assert_eq!(reassembler.expire(NOW.plus_millis(100)), 1);
        let counters = reassembler.counters();
        assert_eq!((counters.duplicates, counters.conflicts, counters.evicted), (1, 3, 1));
    }

    /// A claim of 9,000 bytes reserves nothing.
    #[test]
    fn too_many_publications_evict_the_one_that_waits_longest() {
        let mut reassembler = reassembler(10_000);
        let info = FragmentInfo { index: 0, count: 900, total_len: 9000 };
        for sequence in 0..4 {
            let now = NOW.plus_millis(sequence);
            assert_eq!(
                reassembler.insert(position(sequence), info, &[0; 10], now),
                Reassembly::Incomplete
            );
        }
        assert!(reassembler.missing(position(0), 1).is_none());
        assert!(reassembler.missing(position(3), 1).is_some());
        assert!(reassembler.bytes() < 1000);
        let large = FragmentInfo { index: 0, count: 2, total_len: 10_001 };
        assert_eq!(
            reassembler.insert(position(9), large, &[0; 6000], NOW),
            Reassembly::Refused,
            "it can never fit"
        );
    }
}
