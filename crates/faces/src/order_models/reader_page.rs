//! Wake-ups of a reader that waits: none is lost, by futex and by message.

use super::{ModelMemory, Socket, Weakened, assert_fails, check};
use crate::local_pubsub::{ReaderPage, Wakeup};
use crate::shm::access::{ReadMemory, Word, WriteMemory};
use core::sync::atomic::Ordering;
use core::time::Duration;
use loom::thread;
use std::rc::Rc;

/// Offset of a word that stands for a ring's tail, which the page has not.
const TAIL: usize = 8;
/// Offset of the items of slot 0 that wake the reader.
const ITEMS: usize = 64 + 24;

/// A reader that follows no record yet waits, while a publisher writes one.
fn wait(publisher: Weakened, reader: Weakened, by_message: bool) {
    let memory = ModelMemory::new([TAIL, ITEMS], [0, 8], 0..0, false);
    let (publisher, tail) = (ReaderPage::new(memory.end(publisher)), memory.end(Weakened::Nothing));
    let page = ReaderPage::new(memory.end(reader));
    let socket = Rc::new(Socket::default());
    let messages = Rc::clone(&socket);
    let thread = thread::spawn(move || {
        tail.word(TAIL).store(1, Ordering::Release);
        if publisher.wake_for(0, 5) == Wakeup::Message {
            messages.send();
        }
    });
    let has_records = || memory.load(TAIL, Ordering::Acquire) != 0;
    page.set_items(0, 0);
    while !has_records() {
        page.announce_wait(by_message);
        if has_records() {
            page.end_wait();
        } else if by_message {
            socket.receive();
        } else {
            page.wait(Duration::MAX);
        }
    }
    thread.join().unwrap();
}

#[test]
fn reader_waiting_by_futex_is_always_woken() {
    check(|| wait(Weakened::Nothing, Weakened::Nothing, false));
}

#[test]
fn reader_waiting_by_message_is_always_woken() {
    check(|| wait(Weakened::Nothing, Weakened::Nothing, true));
}

#[test]
fn reader_page_model_fails_without_fences() {
    const FENCE: Weakened = Weakened::Fence(Ordering::SeqCst);
    assert_fails(|| wait(FENCE, Weakened::Nothing, false), "the publisher has no fence");
    assert_fails(|| wait(Weakened::Nothing, FENCE, false), "the reader has no fence");
}
