//! The ring of publications: a reader never takes a torn or overwritten record for one, and what it
//! receives and what it reports as lost are all publications.

use super::{ModelMemory, Weakened, assert_fails, check};
use crate::local_pubsub::ring::{
    EARLIER_MARK_AT, FIRST, HEAD_LEN, INTENT_AT, ITEM_LEN, ITEMS_AT, LAST, MAGIC_AT, MARK_AT,
    RESTARTS_AT, RecordHeader, SIZE_AT, TAIL_AT,
};
use crate::local_pubsub::{ReadEvent, RingReader, RingSize, RingWriter};
use core::sync::atomic::Ordering;
use loom::thread;

/// A ring of four records with eight bytes each: smaller than any in the product.
const SIZE: RingSize = RingSize { bytes: 256, items: 2 };
const PAYLOAD_LEN: usize = 8;
const ITEM: u32 = 1;
/// Offsets of the item's entry.
const SEQUENCE_AT: usize = HEAD_LEN + ITEM as usize * ITEM_LEN;
const START_AT: usize = SEQUENCE_AT + 8;

fn memory() -> ModelMemory {
    let head = [MAGIC_AT, SIZE_AT, ITEMS_AT, INTENT_AT, TAIL_AT, RESTARTS_AT];
    let marks = [MARK_AT, EARLIER_MARK_AT];
    let entries = (0..SIZE.items as usize * 2).map(|word| HEAD_LEN + 8 * word);
    let words = head.into_iter().chain(marks).chain(entries);
    ModelMemory::new(words, [], SIZE.data_at()..SIZE.memory_len(), true)
}

fn write(writer: &mut RingWriter<ModelMemory>, item: u32, sequence: u64, payload: &[u8]) {
    let (total_bytes, flags) = (payload.len() as u64, FIRST | LAST);
    let header = RecordHeader { item, sequence, total_bytes, flags, ..RecordHeader::default() };
    writer.write(header, payload);
}

fn publish(writer: &mut RingWriter<ModelMemory>, sequence: u64) {
    write(writer, ITEM, sequence, &[sequence as u8; PAYLOAD_LEN]);
}

/// A reader, and the publications that it accounted for.
struct Subscriber {
    reader: RingReader<ModelMemory>,
    buffer: Vec<u8>,
    last: u64,
    accounted: u64,
}

impl Subscriber {
    fn new(memory: ModelMemory) -> Self {
        let mut reader = RingReader::new(memory, SIZE, 64).unwrap();
        reader.follow(ITEM, 0, 0);
        Subscriber { reader, buffer: Vec::new(), last: 0, accounted: 0 }
    }

    /// Returns false if nothing is left.
    fn read(&mut self) -> bool {
        match self.reader.read(&mut self.buffer).unwrap() {
            ReadEvent::Publication { item, sequence, len, lost } => {
                assert_eq!((item, &self.buffer[..len]), (ITEM, &[sequence as u8; 8][..]));
                assert!(sequence > self.last, "order is kept");
                self.last = sequence;
                self.accounted += 1 + lost;
            }
            ReadEvent::Lost { lost, .. } => self.accounted += lost,
            ReadEvent::Skipped => {}
            ReadEvent::Empty => return false,
        }
        true
    }

    /// Reads what is left, after the last of some publications.
    fn finish(&mut self, published: u64) {
        while self.read() {}
        assert_eq!(self.accounted, published);
    }
}

/// Publishes `before` publications, then `meanwhile` while they are read.
fn overwrite(before: u64, meanwhile: u64, writer: Weakened, reader: Weakened) {
    let memory = memory();
    let mut writer = RingWriter::new(memory.end(writer), SIZE);
    (1..=before).for_each(|sequence| publish(&mut writer, sequence));
    let mut subscriber = Subscriber::new(memory.end(reader));
    let published = before + meanwhile;
    let thread = thread::spawn(move || {
        (before + 1..=published).for_each(|sequence| publish(&mut writer, sequence));
    });
    (0..2).all(|_| subscriber.read());
    thread.join().unwrap();
    subscriber.finish(published);
}

/// Two subscribers read the first record while it is written. They write nothing that the other
/// one reads, so more records only multiply the orders.
fn two_readers(writer: Weakened, reader: Weakened) {
    let memory = memory();
    let mut writer = RingWriter::new(memory.end(writer), SIZE);
    let [mut first, mut second] =
        [Weakened::Nothing, reader].map(|weakened| Subscriber::new(memory.end(weakened)));
    let publisher = thread::spawn(move || publish(&mut writer, 1));
    let thread = thread::spawn(move || {
        second.read();
        second
    });
    first.read();
    publisher.join().unwrap();
    let mut second = thread.join().unwrap();
    first.finish(1);
    second.finish(1);
}

/// An item whose only publication is unread is given to another one, while a subscriber that has
/// been overtaken by records of others looks at the table of items.
fn restart(writer: Weakened, reader: Weakened) {
    let memory = memory();
    let mut writer = RingWriter::new(memory.end(writer), SIZE);
    (1..=9).for_each(|sequence| write(&mut writer, 0, sequence, &[]));
    let mut subscriber = Subscriber::new(memory.end(reader));
    let thread = thread::spawn(move || {
        publish(&mut writer, 1);
        writer.start_item(ITEM, 0);
    });
    (0..2).all(|_| subscriber.read());
    thread.join().unwrap();
    subscriber.finish(1);
}

/// The first record is overwritten while it is read.
fn overwrite_first(writer: Weakened, reader: Weakened) {
    overwrite(4, 1, writer, reader);
}

/// The first record is read while it is written.
fn read_new(writer: Weakened, reader: Weakened) {
    overwrite(0, 2, writer, reader);
}

#[test]
fn broadcast_ring_any_order_counts_what_is_overwritten() {
    check(|| overwrite_first(Weakened::Nothing, Weakened::Nothing));
}

#[test]
fn broadcast_ring_any_order_delivers_new_records_whole() {
    check(|| read_new(Weakened::Nothing, Weakened::Nothing));
}

#[test]
fn broadcast_ring_any_order_serves_two_readers() {
    check(|| two_readers(Weakened::Nothing, Weakened::Nothing));
}

#[test]
fn broadcast_ring_any_order_restart_hides_no_publication() {
    check(|| restart(Weakened::Nothing, Weakened::Nothing));
}

#[test]
fn broadcast_ring_model_fails_with_weaker_orders() {
    use Weakened::{Fence, Load, Nothing, Store};
    assert_fails(|| read_new(Store(&[TAIL_AT]), Nothing), "the tail is relaxed");
    assert_fails(|| read_new(Nothing, Load(&[TAIL_AT])), "the tail is loaded relaxed");
    assert_fails(|| overwrite_first(Fence(Ordering::Release), Nothing), "intent without a fence");
    assert_fails(|| overwrite_first(Nothing, Fence(Ordering::Acquire)), "copies without a fence");
    let tail = || two_readers(Nothing, Load(&[TAIL_AT]));
    assert_fails(tail, "the second reader loads the tail relaxed");
    let entry = || restart(Store(&[SEQUENCE_AT, START_AT]), Nothing);
    assert_fails(entry, "an entry that starts again is relaxed");
    let entry = || restart(Nothing, Load(&[SEQUENCE_AT, START_AT]));
    assert_fails(entry, "it is loaded relaxed");
}
