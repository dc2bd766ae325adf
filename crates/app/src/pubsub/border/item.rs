//! An item that crosses: its numbers, and what waits.

use super::Arrival;
use nw_api::pubsub::ItemName;
use nw_element_api::Timestamp;
use std::collections::VecDeque;

/// What number a publication crosses with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Its own. What is missing before it is lost.
    Own,
    /// Its own, and what was before the number has nothing to do with it: a publisher began again.
    Restart(u64),
    /// Another one, as several publishers have the item.
    Other(u64),
    /// None: it crossed already.
    Repeated,
}

/// An item in one direction.
#[derive(Debug)]
pub struct Item {
    /// Its name in the target.
    pub name: ItemName,
    /// The publisher of the last publication, and the one before.
    stream: u64,
    stream_before: u64,
    has_several: bool,
    /// Number of the last publication received or lost.
    pub last: u64,
    /// Number of the last one in the target.
    pub sent: u64,
    /// Number where the announced item stands; `None` if it is not announced.
    pub announced: Option<u64>,
    /// Whether the node of the target refused it.
    pub is_refused: bool,
    /// From when on publications are passed on.
    pub ready: Timestamp,
    /// Until when another program is waited for that passes the item on.
    pub handover_end: Timestamp,
    /// Number up to which publications were lost after the last one, and when that is told:
    /// another program may still pass them on.
    pub lost_after: Option<(u64, Timestamp)>,
    /// When something was last received.
    pub used: Timestamp,
    /// What waits, by number.
    pub queue: VecDeque<(u64, Vec<u8>)>,
}

impl Item {
    /// Creates an item before its first publication.
    pub const fn new(name: ItemName, first: &Arrival<'_>, now: Timestamp) -> Self {
        let before = first.sequence.saturating_sub(1);
        let before = before.saturating_sub(first.lost);
        Item {
            name,
            stream: first.stream,
            stream_before: 0,
            has_several: false,
            last: before,
            sent: before,
            announced: None,
            is_refused: false,
            ready: now,
            handover_end: now,
            lost_after: None,
            used: now,
            queue: VecDeque::new(),
        }
    }

    /// Returns how a publication is numbered. `is_same_way`: it passed the same domains as the one
    /// before.
    pub fn number(&mut self, arrival: &Arrival<'_>, is_same_way: bool) -> Numbering {
        let Arrival { stream, sequence, lost, .. } = *arrival;
        let base = sequence.saturating_sub(1).saturating_sub(lost);
        if stream != self.stream && is_same_way {
            self.has_several |= stream == self.stream_before;
        }
        if self.has_several && is_same_way {
            return Numbering::Other(self.last + 1);
        }
        if stream == self.stream {
            return if sequence > self.last { Numbering::Own } else { Numbering::Repeated };
        }
        let is_next = sequence > self.last;
        if !is_next && (arrival.is_last_value || !is_same_way) {
            return Numbering::Repeated;
        }
        self.stream_before = core::mem::replace(&mut self.stream, stream);
        // Another program may go on with the numbers of the one before it.
        match is_next && base <= self.last {
            true => Numbering::Own,
            false => Numbering::Restart(base),
        }
    }

    /// Returns whether a loss is about the publisher of the last publication.
    pub const fn is_from(&self, stream: u64) -> bool {
        self.stream == stream
    }

    /// Begins again after a number. Returns the bytes that no longer wait.
    pub fn restart(&mut self, base: u64) -> usize {
        (self.last, self.sent, self.lost_after) = (base, base, None);
        let bytes = self.queue.iter().map(|(_, payload)| payload.len()).sum();
        self.queue.clear();
        bytes
    }

    /// Takes back what waits up to a number, which is in the target. Returns its bytes.
    pub fn skip_to(&mut self, sequence: u64) -> usize {
        self.sent = self.sent.max(sequence);
        let mut bytes = 0;
        while self.queue.front().is_some_and(|(number, _)| *number <= self.sent) {
            bytes += self.queue.pop_front().map_or(0, |(_, payload)| payload.len());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(stream: u64, sequence: u64, lost: u64) -> Arrival<'static> {
        Arrival { name: "/x", stream, sequence, lost, is_last_value: false, payload: b"" }
    }

    fn item(first: u64) -> Item {
        let mut item = Item::new("/x".parse().unwrap(), &arrival(1, first, 0), Timestamp::START);
        assert_eq!(item.number(&arrival(1, first, 0), true), Numbering::Own);
        item.last = first;
        item
    }

    #[test]
    fn numbers_are_kept_also_by_a_program_that_takes_over() {
        let mut item = item(7);
        assert_eq!((item.sent, item.number(&arrival(1, 9, 1), true)), (6, Numbering::Own));
        assert_eq!(item.number(&arrival(1, 7, 0), true), Numbering::Repeated);
        assert_eq!(item.number(&arrival(2, 8, 0), true), Numbering::Own, "goes on where it was");
        item.last = 8;
        assert_eq!(item.number(&arrival(3, 8, 0), false), Numbering::Repeated, "by another way");
        assert_eq!(item.number(&arrival(4, 11, 2), false), Numbering::Own, "and told its loss");
        let last = Arrival { is_last_value: true, ..arrival(5, 8, 0) };
        assert_eq!(item.number(&last, true), Numbering::Repeated);
    }

    #[test]
    fn publisher_that_begins_again_restarts_and_two_get_common_numbers() {
        let mut item = item(7);
        assert_eq!(item.number(&arrival(2, 1, 0), true), Numbering::Restart(0));
        item.restart(0);
        item.last = 1;
        assert_eq!(item.number(&arrival(3, 100, 0), true), Numbering::Restart(99), "no loss");
        item.restart(99);
        item.last = 100;
        assert_eq!(item.number(&arrival(2, 2, 0), true), Numbering::Other(101));
        item.last = 101;
        assert_eq!(item.number(&arrival(3, 101, 0), true), Numbering::Other(102));
    }
}
