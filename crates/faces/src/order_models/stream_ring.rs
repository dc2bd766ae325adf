//! The ring of a shared-memory face: all bytes arrive in order, no end accesses a byte that the
//! other one writes, and none sleeps for ever.
//!
//! The "waits" words are swapped with `AcqRel`, which the models do not need: what an end does
//! after it reads the other's position is ordered by that position.

use super::{ModelMemory, Socket, Weakened, assert_fails, check};
use crate::shm::ring::{Reader, RingLayout, WORDS_LEN, Writer};
use core::sync::atomic::Ordering;
use loom::thread;
use std::io::IoSlice;
use std::rc::Rc;

const SIZE: usize = 2;
const WORD_STEP: usize = WORDS_LEN / 4;
/// Offsets of the positions of the first ring.
const WRITTEN: usize = 0;
const READ: usize = WORD_STEP;

const BYTES_AT: usize = 2 * WORDS_LEN;
const THERE: RingLayout = RingLayout { words: 0, bytes: BYTES_AT, size: SIZE };
const BACK: RingLayout = RingLayout { words: WORDS_LEN, bytes: BYTES_AT + SIZE, size: SIZE };

fn memory() -> ModelMemory {
    let words = (0..8).map(|word| word * WORD_STEP);
    ModelMemory::new(words, [], BYTES_AT..BYTES_AT + 2 * SIZE, false)
}

/// One end of a link, as the product's, with sockets of the model.
struct End {
    memory: ModelMemory,
    writer: Writer,
    reader: Reader,
    wakeups_due: u64,
    socket: Rc<Socket>,
    peer: Rc<Socket>,
}

impl End {
    fn send(&mut self, bytes: &[u8]) {
        let mut sent = 0;
        while sent < bytes.len() {
            let written = self.writer.write(&self.memory, &[IoSlice::new(bytes)], sent).unwrap();
            sent += written;
            if written > 0 && self.writer.must_wake_peer(&self.memory) {
                self.peer.send();
            }
            if sent < bytes.len() && self.writer.wait(&self.memory, &mut self.wakeups_due).unwrap()
            {
                self.socket.receive();
            }
        }
    }

    fn receive(&mut self, expected: &[u8]) {
        let mut received = 0;
        while received < expected.len() {
            let mut buffer = [0; SIZE];
            let wanted = SIZE.min(expected.len() - received);
            let len = self.reader.read(&self.memory, &mut buffer[..wanted]).unwrap();
            assert_eq!(buffer[..len], expected[received..received + len]);
            received += len;
            if len > 0 {
                if self.reader.must_wake_peer(&self.memory).unwrap() {
                    self.peer.send();
                }
            } else if self.reader.wait(&self.memory, &mut self.wakeups_due).unwrap() {
                self.socket.receive();
            }
        }
    }
}

/// Returns both ends of a link.
fn link(first: Weakened, second: Weakened) -> [End; 2] {
    let memory = memory();
    let sockets = [(); 2].map(|()| Rc::new(Socket::default()));
    let end = |index: usize, weakened, writes, reads| End {
        memory: memory.end(weakened),
        writer: Writer::new(writes),
        reader: Reader::new(reads),
        wakeups_due: 0,
        socket: Rc::clone(&sockets[index]),
        peer: Rc::clone(&sockets[1 - index]),
    };
    [end(0, first, THERE, BACK), end(1, second, BACK, THERE)]
}

/// Sends more bytes than the ring holds.
fn one_way(sender: Weakened, receiver: Weakened) {
    let [mut sender, mut receiver] = link(sender, receiver);
    let thread = thread::spawn(move || sender.send(b"abcd"));
    receiver.receive(b"abcd");
    thread.join().unwrap();
}

/// Sends bytes back, over one socket for each end.
fn both_ways(first: Weakened, second: Weakened) {
    let [mut first, mut second] = link(first, second);
    let thread = thread::spawn(move || {
        first.send(b"ab");
        first.receive(b"xy");
    });
    second.receive(b"ab");
    second.send(b"xy");
    thread.join().unwrap();
}

#[test]
fn stream_ring_any_order_delivers_all_bytes() {
    check(|| one_way(Weakened::Nothing, Weakened::Nothing));
}

#[test]
fn stream_rings_any_order_deliver_both_ways() {
    check(|| both_ways(Weakened::Nothing, Weakened::Nothing));
}

#[test]
fn stream_ring_model_fails_with_weaker_orders() {
    use Weakened::{Fence, Load, Nothing, Store};
    assert_fails(|| one_way(Store(&[WRITTEN]), Nothing), "the writer's position is relaxed");
    assert_fails(|| one_way(Nothing, Load(&[WRITTEN])), "it is loaded relaxed");
    assert_fails(|| one_way(Nothing, Store(&[READ])), "the reader's position is relaxed");
    assert_fails(|| one_way(Load(&[READ]), Nothing), "it is loaded relaxed");
    assert_fails(|| one_way(Fence(Ordering::SeqCst), Nothing), "the writer has no fence");
    assert_fails(|| one_way(Nothing, Fence(Ordering::SeqCst)), "the reader has no fence");
}
