//! One call of `sendmmsg`: link packets of many faces as messages, with runs of equal datagrams
//! merged (GSO).

use super::run::Run;
use super::sys::{self, Message};
use super::{PIECES_MAX, Sender, address_of};
use arrayvec::ArrayVec;
use nw_element_api::Pool;
use nw_link::outbox::{Outbox, Outgoing};
use std::io::IoSlice;

/// Position of a link packet among the senders'.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// Index of the sender.
    pub sender: usize,
    /// Index of the link packet among the sender's.
    pub item: usize,
}

/// Messages of one call.
pub struct Batch<'a> {
    /// The messages, in the order of sending.
    pub messages: ArrayVec<Message, { sys::SENT_MAX }>,
    /// First link packet of each message.
    pub starts: ArrayVec<Position, { sys::SENT_MAX }>,
    /// The one after each message.
    pub ends: ArrayVec<Position, { sys::SENT_MAX }>,
    /// Pieces of all messages.
    pub pieces: ArrayVec<IoSlice<'a>, PIECES_MAX>,
}

impl<'a> Batch<'a> {
    /// Refills the batch with as many link packets as one call takes, from a position on.
    pub fn fill(&mut self, senders: &[Sender<'a>], mut at: Position, pool: &'a Pool, gso: bool) {
        self.messages.clear();
        self.starts.clear();
        self.ends.clear();
        self.pieces.clear();
        while let Some(sender) = senders.get(at.sender) {
            let items = sender.items();
            if at.item == items.len() {
                at = Position { sender: at.sender + 1, item: 0 };
                continue;
            }
            let run_datagram_max = if gso { sender.run_datagram_max } else { 0 };
            let run = run_len(sender.outbox, &items[at.item..], pool, run_datagram_max);
            // Each datagram takes at most two pieces, and its header one.
            if self.messages.is_full() || self.pieces.remaining_capacity() < 2 * run + 1 {
                return;
            }
            self.starts.push(at);
            self.message(sender, &items[at.item..at.item + run], pool);
            at.item += run;
            self.ends.push(at);
        }
    }

    fn message(&mut self, sender: &Sender<'a>, items: &'a [Outgoing], pool: &'a Pool) {
        let start = self.pieces.len();
        if !sender.head.is_empty() {
            self.pieces.push(IoSlice::new(sender.head));
        }
        let mut at = 0;
        while at < items.len() {
            // Short datagrams are contiguous in the outbox's buffer.
            let first = at;
            while at + 1 < items.len() && items[at].packet.is_none() {
                at += 1;
            }
            let head = sender.outbox.heads(&items[first], &items[at]);
            if !head.is_empty() {
                self.pieces.push(IoSlice::new(head));
            }
            if let Some(packet) = &items[at].packet {
                self.pieces.push(IoSlice::new(pool.bytes(packet)));
            }
            at += 1;
        }
        let segment = (items.len() > 1).then(|| sender.outbox.item_len(&items[0], pool) as u16);
        self.messages.push(Message {
            peer: address_of(sender.peer),
            pieces: (start, self.pieces.len()),
            segment,
        });
    }
}

/// Returns how many of the first link packets form one run: equal lengths, the last may be shorter.
fn run_len(outbox: &Outbox, items: &[Outgoing], pool: &Pool, datagram_max: usize) -> usize {
    let len = outbox.item_len(&items[0], pool);
    if len > datagram_max {
        return 1;
    }
    let mut run = Run::start(len);
    for item in &items[1..] {
        let next = outbox.item_len(item, pool);
        if !run.admits(next) {
            break;
        }
        run.extend(next);
    }
    run.count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::RUN_MAX;
    use nw_element_api::Kind;
    use nw_name::HashKey;

    fn outbox(datagrams: &[Vec<u8>]) -> Outbox {
        let mut outbox = Outbox::default();
        for datagram in datagrams {
            let mark = outbox.mark();
            outbox.bytes_mut().extend_from_slice(datagram);
            outbox.finish_copied(mark, Some(Kind::Data));
        }
        outbox
    }

    #[test]
    fn run_has_equal_lengths_except_last() {
        let pool = Pool::new(HashKey::new([1, 2, 3, 4]), 1, 1);
        let run = |lens: &[usize], max| {
            let outbox = outbox(&lens.iter().map(|len| vec![0; *len]).collect::<Vec<_>>());
            run_len(&outbox, outbox.items(), &pool, max)
        };
        assert_eq!(run(&[100, 100, 100], usize::MAX), 3);
        assert_eq!(run(&[100, 100, 40, 40], usize::MAX), 3);
        assert_eq!(run(&[100, 101], usize::MAX), 1);
        assert_eq!(run(&[100; 100], usize::MAX), RUN_MAX);
        assert_eq!(run(&[8000; 100], usize::MAX), 8);
        assert_eq!(run(&[100, 100], 99), 1);
    }
}
