//! A reader's page: where it says that it waits, and how far it has read.
//!
//! The reader creates the file. Its publishers and its node map it, and both sides may write it.
//! Invariant: no decision of a publisher about others depends on it, and no access waits: a wrong
//! value costs a useless wake-up, or the wake-up of this reader alone.
//!
//! ```text
//! 0     waits u32: 0 no, 1 by futex, 2 by a message to its node
//! 8     mail u32: counts messages that its node has sent it
//! 64    slots × { cursor u64 | delivered u64 | lost u64 | items u64 }, 64 bytes apart; one per
//!       ring. items: bit n mod 64 is set for each item n that wakes the reader; 0: all do
//! ```

use super::ring::RingFault;
use crate::shm::access::{Word, WriteMemory};
use crate::shm::memory::{Memory, new_file};
use core::sync::atomic::Ordering;
use core::time::Duration;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Rings that a reader can follow at the same time.
pub const READER_SLOTS_MAX: u32 = 1023;
const SLOT_LEN: usize = 64;
const PAGE_LEN: usize = SLOT_LEN * (READER_SLOTS_MAX as usize + 1);

/// Offsets of the words of 32 bits.
const WAITS_AT: usize = 0;
const MAIL_AT: usize = 8;

const AWAKE: u32 = 0;
const WAITS_BY_FUTEX: u32 = 1;
const WAITS_BY_MESSAGE: u32 = 2;

/// How a reader that waits is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// It does not wait, or not for this item.
    Unneeded,
    /// It has been woken.
    Done,
    /// The publisher sends its node a message, for the node is the reader.
    Message,
}

/// How far a reader has read a ring, in its own words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read since the start of the ring.
    pub cursor: u64,
    /// Publications delivered.
    pub delivered: u64,
    /// Publications lost.
    pub lost: u64,
}

/// A reader's page.
#[derive(Debug)]
pub struct ReaderPage<M = Memory>(M);

impl ReaderPage {
    /// Creates a page. The descriptor is for the node, and through it for publishers.
    ///
    /// # Errors
    /// The error of a system call.
    pub fn create() -> Result<(Self, OwnedFd), Errno> {
        let file = new_file(PAGE_LEN)?;
        let memory = Memory::map(file.as_fd(), PAGE_LEN).map_err(|_| Errno::NOMEM)?;
        Ok((ReaderPage(memory), file))
    }

    /// Maps the page of another process.
    ///
    /// # Errors
    /// If the file has another length or can shrink.
    pub fn map(file: BorrowedFd<'_>) -> Result<Self, RingFault> {
        Memory::map(file, PAGE_LEN).map(ReaderPage).map_err(|_| RingFault::Memory)
    }
}

impl<M: WriteMemory> ReaderPage<M> {
    /// Returns the page in memory of zeros.
    #[cfg(test)]
    pub(crate) const fn new(memory: M) -> Self {
        ReaderPage(memory)
    }

    fn waits(&self) -> &M::FutexWord {
        self.0.futex_word(WAITS_AT)
    }

    /// Returns a number that changes when the node has sent messages to the owner of this page.
    pub fn mail(&self) -> u32 {
        self.0.futex_word(MAIL_AT).load(Ordering::Acquire)
    }

    /// Reports messages to the owner of this page, and wakes it.
    pub fn notify_mail(&self) {
        self.0.futex_word(MAIL_AT).fetch_add(1, Ordering::Release);
        let _ = self.wake();
    }

    /// Announces that this reader will wait. The caller then looks for records once more.
    pub fn announce_wait(&self, by_message: bool) {
        let value = if by_message { WAITS_BY_MESSAGE } else { WAITS_BY_FUTEX };
        self.waits().store(value, Ordering::Relaxed);
        self.0.fence(Ordering::SeqCst);
    }

    /// Withdraws the announcement.
    pub fn end_wait(&self) {
        self.waits().store(AWAKE, Ordering::Relaxed);
    }

    /// Waits until a publisher or the node wakes this reader, at most `timeout`. Returns at once
    /// if that happened since the announcement.
    pub fn wait(&self, timeout: Duration) {
        self.0.futex_wait(WAITS_AT, WAITS_BY_FUTEX, timeout);
        self.end_wait();
    }

    /// Wakes the reader if it has announced that it waits. Called after a record is written.
    pub fn wake(&self) -> Wakeup {
        self.0.fence(Ordering::SeqCst);
        self.wake_waiting()
    }

    /// Wakes the reader if it has announced that it waits and an item of the ring in a slot is one
    /// that wakes it. Called after a record of the item is written.
    pub fn wake_for(&self, slot: u32, item: u32) -> Wakeup {
        self.0.fence(Ordering::SeqCst);
        if self.waits().load(Ordering::Relaxed) == AWAKE {
            return Wakeup::Unneeded;
        }
        let items = self.0.word(slot_at(slot) + 24).load(Ordering::Acquire);
        match items == 0 || items & item_bit(item) != 0 {
            true => self.wake_waiting(),
            false => Wakeup::Unneeded,
        }
    }

    fn wake_waiting(&self) -> Wakeup {
        if self.waits().load(Ordering::Relaxed) == AWAKE {
            return Wakeup::Unneeded;
        }
        match self.waits().swap(AWAKE, Ordering::Relaxed) {
            WAITS_BY_MESSAGE => Wakeup::Message,
            WAITS_BY_FUTEX => {
                self.0.futex_wake(WAITS_AT);
                Wakeup::Done
            }
            _ => Wakeup::Unneeded,
        }
    }

    /// Sets the items of a ring that wake this reader, as the union of their [`item_bit`]s; 0: all.
    /// The caller then looks for records before it waits.
    pub fn set_items(&self, slot: u32, items: u64) {
        self.0.word(slot_at(slot) + 24).store(items, Ordering::Release);
    }

    /// Reports how far this reader has read a ring.
    pub fn report(&self, slot: u32, progress: Progress) {
        let at = slot_at(slot);
        self.0.word(at + 8).store(progress.delivered, Ordering::Relaxed);
        self.0.word(at + 16).store(progress.lost, Ordering::Relaxed);
        self.0.word(at).store(progress.cursor, Ordering::Release);
    }

    /// Returns how far the reader has read a ring, in its own words.
    pub fn progress(&self, slot: u32) -> Progress {
        let at = slot_at(slot);
        let word = |at| self.0.word(at).load(Ordering::Acquire);
        Progress { cursor: word(at), delivered: word(at + 8), lost: word(at + 16) }
    }
}

/// Returns the bit of an item among those that wake a reader. Items whose numbers differ by a
/// multiple of 64 share one.
pub const fn item_bit(item: u32) -> u64 {
    1 << (item % 64)
}

/// Returns the offset of a slot. Slots beyond the page share the last one.
const fn slot_at(slot: u32) -> usize {
    let slot = if slot < READER_SLOTS_MAX { slot } else { READER_SLOTS_MAX - 1 };
    (slot as usize + 1) * SLOT_LEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn waiting_reader_is_woken_by_another_mapping() {
        let (page, file) = ReaderPage::create().unwrap();
        let other = ReaderPage::map(file.as_fd()).unwrap();
        page.report(3, Progress { cursor: 64, delivered: 2, lost: 1 });
        assert_eq!(other.progress(3), Progress { cursor: 64, delivered: 2, lost: 1 });
        assert_eq!(other.wake(), Wakeup::Unneeded);
        page.announce_wait(true);
        assert_eq!((other.wake(), other.wake()), (Wakeup::Message, Wakeup::Unneeded));
        page.announce_wait(false);
        let started = Instant::now();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            other.wake()
        });
        page.wait(Duration::from_secs(20));
        assert!(started.elapsed() < Duration::from_secs(10));
        assert_eq!(thread.join().unwrap(), Wakeup::Done);
    }

    #[test]
    fn only_items_of_a_reader_wake_it() {
        let (page, file) = ReaderPage::create().unwrap();
        let other = ReaderPage::map(file.as_fd()).unwrap();
        page.announce_wait(false);
        assert_eq!(other.wake_for(2, 9), Wakeup::Done, "all items, as none is named");
        page.set_items(2, item_bit(9) | item_bit(65));
        page.report(2, Progress { cursor: 64, delivered: 2, lost: 1 });
        for (slot, item, expected) in [
            (2, 8, Wakeup::Unneeded),
            (2, 9, Wakeup::Done),
            (2, 1, Wakeup::Done),
            (2, 129, Wakeup::Done),
            (3, 8, Wakeup::Done),
        ] {
            page.announce_wait(false);
            assert_eq!(other.wake_for(slot, item), expected, "{slot} {item}");
        }
        page.announce_wait(true);
        assert_eq!(other.wake_for(2, 9), Wakeup::Message);
        assert_eq!(other.wake_for(2, 9), Wakeup::Unneeded, "it does not wait");
    }
}
