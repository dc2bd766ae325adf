//! Records of other items are skipped by the table of items. Without this all records are read one
//! after the other, with the same result.
//!
//! The entry of an item has the number of its last publication and where it starts. If that number
//! is accounted for, no record before the tail is of interest; if it is the next one, none before
//! its start. With more publications unread, or entries that contradict each other, nothing is
//! skipped. A wrong entry, which only the publisher can write, harms its own readers: a position
//! is checked as each other one, and only moves forward.

use super::{HEAD_LEN, ITEM_LEN, ItemState, RECORD_LEN, RESTARTS_AT, RingReader, TAIL_AT};
use crate::local_pubsub::ring::FIRST;
use crate::shm::access::ReadMemory;
use core::sync::atomic::Ordering;

/// Records in a row without a result after which the table is read. The entry of an item that is
/// published all the time would be in the publisher's cache each time.
pub(super) const OTHERS_MAX: u32 = 8;
/// Items up to which their entries are read: with more of them the records are as near.
const ITEMS_MAX: usize = 16;

impl<M: ReadMemory> RingReader<M> {
    /// Moves past records that are of no interest, at most to `tail`, which was read before.
    /// Returns whether it moved.
    pub(super) fn skip_others(&mut self, tail: u64) -> bool {
        if self.partial.is_some() || self.items.len() > ITEMS_MAX || self.cursor < self.restarts.1 {
            return false;
        }
        let mut target = tail;
        for (&item, state) in &self.items {
            match self.next_of(item, *state, tail) {
                Some(position) => target = target.min(position),
                None => return false,
            }
        }
        // After the entries: one that starts again is visible after the number of restarts.
        let restarts = self.memory.load(RESTARTS_AT, Ordering::Acquire);
        if restarts != self.restarts.0 {
            self.restarts = (restarts, self.memory.load(TAIL_AT, Ordering::Acquire));
            return false;
        }
        let is_forward = target > self.cursor && target.is_multiple_of(RECORD_LEN as u64);
        if is_forward {
            self.cursor = target;
        }
        is_forward
    }

    /// Returns a position at most at `tail` before which no record of an item is of interest.
    /// `None` if its entry does not tell.
    fn next_of(&self, item: u32, state: ItemState, tail: u64) -> Option<u64> {
        if state.last >= state.end {
            return Some(tail);
        }
        let at = HEAD_LEN + item as usize * ITEM_LEN;
        // In this order: the number before a start is visible before it.
        let start = self.memory.load(at + 8, Ordering::Acquire).checked_sub(1);
        let sequence = self.memory.load(at, Ordering::Acquire);
        let start = start.filter(|start| *start >= self.cursor);
        if sequence == state.last {
            // One that starts after the cursor is known, or its last parts are to come.
            return Some(start.map_or(tail, |start| start.min(tail)));
        }
        let start = start.filter(|start| sequence == state.last + 1 && *start < tail)?;
        let header = self.header(start, tail).ok()??;
        let is_next = header.item == item && header.sequence == sequence;
        let is_intact = !self.is_overwritten(start);
        (is_next && header.flags & FIRST != 0 && is_intact).then_some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local_pubsub::ring::{ELSEWHERE, LAST, MISSING, RecordHeader};
    use crate::local_pubsub::{ReadEvent, RingSize, RingWriter};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::os::fd::{AsFd, OwnedFd};

    const SIZE: RingSize = RingSize { bytes: 64 << 10, items: 64 };
    /// Items of which the readers follow the first ones.
    const ITEMS: u32 = 6;
    const FOLLOWED: u32 = 3;

    #[derive(Clone, Debug)]
    enum Step {
        Publish {
            item: u32,
            len: usize,
        },
        /// In small parts, of which some are read before the last one is written.
        PublishParts {
            item: u32,
            len: usize,
        },
        Repeat {
            item: u32,
            count: u32,
        },
        Tell {
            item: u32,
            flags: u8,
            ahead: u64,
        },
        Drop {
            item: u32,
        },
        Restart {
            item: u32,
        },
        Read,
        ReadOne,
    }

    fn step() -> impl Strategy<Value = Step> {
        let item = 0..ITEMS;
        prop_oneof![
            6 => (item.clone(), 0..300_usize).prop_map(|(item, len)| Step::Publish { item, len }),
            1 => (item.clone(), 0..40_000_usize)
                .prop_map(|(item, len)| Step::Publish { item, len }),
            3 => (item.clone(), 100..5000_usize)
                .prop_map(|(item, len)| Step::PublishParts { item, len }),
            4 => (FOLLOWED..ITEMS, 1..80_u32)
                .prop_map(|(item, count)| Step::Repeat { item, count }),
            1 => (item.clone(), 300..1500_u32)
                .prop_map(|(item, count)| Step::Repeat { item, count }),
            1 => (item.clone(), prop::sample::select(vec![MISSING, ELSEWHERE]), 1..4_u64)
                .prop_map(|(item, flags, ahead)| Step::Tell { item, flags, ahead }),
            1 => item.prop_map(|item| Step::Drop { item }),
            1 => (0..FOLLOWED).prop_map(|item| Step::Restart { item }),
            4 => Just(Step::Read),
            2 => Just(Step::ReadOne),
        ]
    }

    /// A reader and what it found of each item.
    struct Reading {
        reader: RingReader,
        buffer: Vec<u8>,
        delivered: BTreeMap<u32, Vec<u64>>,
        lost: BTreeMap<u32, u64>,
    }

    impl Reading {
        /// Follows the first items, and as many others without publications as are asked for.
        fn new(file: &OwnedFd, others: u32) -> Reading {
            let mut reader = RingReader::map(file.as_fd(), SIZE, 1 << 20).unwrap();
            (0..FOLLOWED).chain(ITEMS..ITEMS + others).for_each(|item| {
                reader.follow(item, 0, 0);
            });
            let (delivered, lost) = (BTreeMap::new(), BTreeMap::new());
            Reading { reader, buffer: Vec::new(), delivered, lost }
        }

        /// Returns false at the end.
        fn read_one(&mut self) -> bool {
            match self.reader.read(&mut self.buffer).unwrap() {
                ReadEvent::Publication { item, sequence, len, lost } => {
                    assert!(self.buffer[..len].iter().all(|byte| *byte == sequence as u8));
                    self.delivered.entry(item).or_default().push(sequence);
                    *self.lost.entry(item).or_default() += lost;
                }
                ReadEvent::Lost { item, lost } => *self.lost.entry(item).or_default() += lost,
                ReadEvent::Skipped => {}
                ReadEvent::Empty => return false,
            }
            true
        }

        fn read_all(&mut self) {
            while self.read_one() {}
        }
    }

    /// The writing end, two readers, and the last number of each item.
    struct Ring {
        writer: RingWriter,
        sequences: [u64; ITEMS as usize],
        /// What the ring told as lost or sent elsewhere: it is not among the publications.
        elsewhere: [u64; ITEMS as usize],
        skipping: Reading,
        plain: Reading,
    }

    impl Ring {
        /// Publishes in parts of at most `max` bytes. With `read_at` the readers read all after
        /// each part with a multiple of this number.
        fn publish(&mut self, item: u32, len: usize, max: usize, read_at: Option<usize>) {
            self.sequences[item as usize] += 1;
            let sequence = self.sequences[item as usize];
            let payload = vec![sequence as u8; len];
            let count = len.div_ceil(max).max(1);
            for index in 0..count {
                let (start, end) = (index * max, len.min((index + 1) * max));
                let first = if index == 0 { FIRST } else { 0 };
                let last = if index + 1 == count { LAST } else { 0 };
                let header = RecordHeader {
                    item,
                    sequence,
                    total_bytes: len as u64,
                    offset: start as u64,
                    flags: first | last,
                    ..RecordHeader::default()
                };
                self.writer.write(header, &payload[start..end]);
                if read_at.is_some_and(|read_at| index % read_at == 0) {
                    self.skipping.read_all();
                    self.plain.read_all();
                }
            }
        }

        fn apply(&mut self, step: &Step) {
            match *step {
                Step::Publish { item, len } => {
                    let read_at = (len % 2 == 0).then_some(1);
                    self.publish(item, len, SIZE.record_bytes_max(), read_at);
                }
                Step::PublishParts { item, len } => {
                    let read_at = (len % 4 > 0).then_some(len % 30 + 1);
                    self.publish(item, len, 100, read_at);
                }
                Step::Repeat { item, count } => {
                    (0..count as usize).for_each(|len| self.publish(item, len % 100, 100, None));
                }
                Step::Tell { item, flags, ahead } => {
                    self.sequences[item as usize] += ahead;
                    let sequence = self.sequences[item as usize];
                    let flags = flags | LAST;
                    self.elsewhere[item as usize] += u64::from(flags & ELSEWHERE != 0);
                    let header = RecordHeader { item, sequence, flags, ..Default::default() };
                    self.writer.write(header, &[]);
                }
                Step::Drop { item } => {
                    self.sequences[item as usize] += 1;
                    self.writer.skip_to(item, self.sequences[item as usize]);
                }
                Step::Restart { item } => self.restart(item),
                Step::Read => {
                    self.skipping.read_all();
                    self.plain.read_all();
                }
                Step::ReadOne => {
                    self.skipping.read_one();
                    self.plain.read_one();
                }
            }
        }

        /// Ends an item with unread publications, and gives its number to another one, as the
        /// node and the two ends of an application do.
        fn restart(&mut self, item: u32) {
            let last = core::mem::take(&mut self.sequences[item as usize]);
            self.writer.start_item(item, 0);
            self.publish(item, 10, 100, None);
            self.end(item, last);
            self.elsewhere[item as usize] = 0;
            // The one publication of the new item is older than its subscription.
            let (position, after) = (self.writer.tail(), self.sequences[item as usize]);
            for reading in [&mut self.skipping, &mut self.plain] {
                reading.reader.follow(item, position, after);
                reading.delivered.insert(item, (1..=after).collect());
                reading.lost.remove(&item);
            }
        }

        /// Ends an item for both readers, and compares what they found with each other and with
        /// its last number.
        fn end(&mut self, item: u32, last: u64) {
            let [(found, count), (plain, plain_count)] =
                [&mut self.skipping, &mut self.plain].map(|reading| {
                    reading.reader.follow_until(item, last);
                    reading.read_all();
                    let accounted = reading.reader.unfollow(item).unwrap();
                    let lost = reading.lost.remove(&item).unwrap_or(0) + (last - accounted);
                    let delivered = reading.delivered.remove(&item).unwrap_or_default();
                    let count = delivered.len() as u64 + lost;
                    (delivered, count)
                });
            assert!(plain.iter().all(|one| found.contains(one)), "{found:?} {plain:?}");
            assert!(found.is_sorted_by(|one, next| one < next), "{found:?}");
            let elsewhere = self.elsewhere[item as usize];
            let exact = last - elsewhere..=last;
            assert!(exact.contains(&count) && exact.contains(&plain_count), "{count} of {last}");
        }
    }

    fn ring(steps: &[Step]) -> Ring {
        let (writer, file) = RingWriter::create(SIZE).unwrap();
        let (skipping, plain) = (Reading::new(&file, 0), Reading::new(&file, 20));
        let (sequences, elsewhere) = Default::default();
        let mut ring = Ring { writer, sequences, elsewhere, skipping, plain };
        steps.iter().for_each(|step| ring.apply(step));
        ring
    }

    fn others(count: u32) -> Step {
        Step::Repeat { item: ITEMS - 1, count }
    }

    #[test]
    fn only_publication_of_an_item_is_found_though_others_are_overwritten() {
        // All in the ring is newer than the cursor, and the marks are newer than the publication.
        let steps = [others(2000), Step::Publish { item: 1, len: 9 }, others(500), Step::Read];
        let ring = ring(&steps);
        assert_eq!(ring.skipping.delivered.get(&1), Some(&vec![1]));
        assert_eq!((ring.plain.delivered.get(&1), ring.plain.lost.get(&1)), (None, Some(&1)));
    }

    #[test]
    fn entry_of_an_incomplete_publication_hides_no_unread_one() {
        let mut ring = ring(&[others(3 * OTHERS_MAX), Step::Publish { item: 1, len: 9 }]);
        ring.publish(1, 200, 100, Some(1));
        assert_eq!(ring.skipping.delivered.get(&1), Some(&vec![1, 2]));
    }

    #[test]
    fn entry_that_starts_again_hides_no_unread_publication() {
        let mut ring = ring(&[others(3 * OTHERS_MAX), Step::Publish { item: 1, len: 9 }]);
        ring.writer.start_item(1, 0);
        ring.apply(&Step::Read);
        assert_eq!(ring.skipping.delivered.get(&1), Some(&vec![1]));
    }

    #[test]
    fn hostile_entries_move_a_reader_forward_or_end_its_reading() {
        let wild = [0, 1, 33, 34, 1 << 16, (1 << 40) + 1, u64::MAX - 31, u64::MAX];
        for (sequence, start) in wild.iter().flat_map(|one| wild.map(|other| (*one, other))) {
            let mut ring = ring(&[others(3 * OTHERS_MAX)]);
            ring.writer.set_entry(1, sequence, start);
            let mut position = ring.skipping.reader.cursor();
            for _ in 0..10 {
                let outcome = ring.skipping.reader.read(&mut ring.skipping.buffer);
                assert!(!matches!(outcome, Ok(ReadEvent::Publication { .. })));
                assert!(ring.skipping.reader.cursor() >= position);
                position = ring.skipping.reader.cursor();
            }
            assert!(position <= ring.writer.tail());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn skipping_reader_finds_what_one_that_reads_all_records_finds(
            steps in prop::collection::vec(step(), 1..80),
        ) {
            let mut ring = ring(&steps);
            for item in 0..FOLLOWED {
                ring.end(item, ring.sequences[item as usize]);
            }
        }
    }
}
