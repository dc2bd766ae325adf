//! Datagrams to one peer leave in bursts of bounded size, with a pause between them: peers may have little room (the system's default receive
//! buffer holds some twenty packets of 8 KB). What is too much at once waits here, in order.

use super::{PIECES_MAX, sys};
use crate::queue::ByteQueue;
use arrayvec::ArrayVec;
use nw_element_api::Instant;
use rustix::io::Errno;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use sys::Message;

/// Before each datagram that waits: its length.
const RECORD_HEAD: usize = 4;

/// What one peer was sent lately, and what waits for it.
#[derive(Debug, Default)]
pub struct Burst {
    /// When the burst began.
    since: Instant,
    /// Octets of it so far.
    sent: usize,
    /// What is to follow.
    pub waiting: Waiting,
    /// When more of that goes out, if something waits.
    pub timer: Option<Instant>,
}

/// Datagrams in order.
#[derive(Debug, Default)]
pub struct Waiting {
    queue: ByteQueue,
    records: usize,
}

impl Burst {
    /// Begins another burst, if the pause is over.
    pub fn begin(&mut self, now: Instant, pause: core::time::Duration) {
        if now >= self.since + pause {
            self.since = now;
            self.sent = 0;
        }
    }

    /// Counts a datagram in; false when it has to wait. One datagram always has room, however long.
    pub const fn takes(&mut self, len: usize, burst_max: usize) -> bool {
        let room = self.waiting.is_empty() && (self.sent == 0 || self.sent + len <= burst_max);
        if room {
            self.sent += len;
        }
        room
    }

    /// Sends what waits, as much as one burst holds, to a peer; before each datagram goes a head, if it has one.
    ///
    /// # Errors
    /// Why not all of that was sent: `AGAIN`, `NOBUFS`. A datagram that the system refuses for other reasons is shown to `failed`.
    pub fn send_waiting(
        &mut self,
        now: Instant,
        socket: BorrowedFd<'_>,
        (peer, head): (Option<SocketAddr>, &[u8]),
        burst_max: usize,
        mut failed: impl FnMut(Errno),
    ) -> Result<(), Errno> {
        self.since = now;
        self.sent = 0;
        let mut was_down = false;
        while !self.waiting.is_empty() {
            let mut messages = ArrayVec::<Message, { sys::SENT_MAX }>::new();
            let mut pieces = ArrayVec::<IoSlice<'_>, PIECES_MAX>::new_const();
            let mut ahead = self.sent;
            for datagram in self.waiting.iter().take(sys::SENT_MAX) {
                if ahead > 0 && ahead + datagram.len() > burst_max {
                    break;
                }
                ahead += datagram.len();
                let start = pieces.len();
                if !head.is_empty() {
                    pieces.push(IoSlice::new(head));
                }
                pieces.push(IoSlice::new(datagram));
                messages.push(Message { peer, pieces: (start, pieces.len()), segment: None });
            }
            if messages.is_empty() {
                return Ok(());
            }
            let count = match sys::send(socket, &messages, &pieces) {
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                // Reported once, for an interface that was down for a moment.
                Err(Errno::NETDOWN) if !core::mem::replace(&mut was_down, true) => continue,
                Err(errno @ (Errno::AGAIN | Errno::NOBUFS)) => return Err(errno),
                Err(errno) => {
                    failed(errno);
                    1
                }
            };
            drop(pieces);
            for _ in 0..count {
                self.sent += self.waiting.pop();
            }
        }
        Ok(())
    }
}

impl Waiting {
    /// True when nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Octets that wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Bytes of memory that it takes.
    pub const fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
    }

    /// Datagrams that wait.
    pub const fn records(&self) -> usize {
        self.records
    }

    /// Adds a datagram, in parts; false when that would be more than `len_max` octets.
    pub fn push(&mut self, parts: [&[u8]; 2], len_max: usize) -> bool {
        let len = parts[0].len() + parts[1].len();
        if self.queue.len() + RECORD_HEAD + len > len_max {
            return false;
        }
        self.queue.push(&[&(len as u32).to_ne_bytes(), parts[0], parts[1]]);
        self.records += 1;
        true
    }

    /// Drops all. Returns how many datagrams that were.
    pub fn clear(&mut self) -> usize {
        self.queue.consume(self.queue.len());
        core::mem::take(&mut self.records)
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.queue.slices().flat_map(|mut rest| {
            core::iter::from_fn(move || {
                let (head, behind) = rest.split_first_chunk::<RECORD_HEAD>()?;
                let (datagram, behind) = behind.split_at(u32::from_ne_bytes(*head) as usize);
                rest = behind;
                Some(datagram)
            })
        })
    }

    /// Takes the first off; how long it was.
    fn pop(&mut self) -> usize {
        let len = self.iter().next().map_or(0, <[u8]>::len);
        self.queue.consume(RECORD_HEAD + len);
        self.records -= 1;
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn no_more_than_a_burst_at_once_and_all_in_order() {
        let pause = Duration::from_micros(250);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        let arrived = || {
            let mut buffer = [0; 2000];
            let next = || receiver.recv(&mut buffer).ok().map(|len| (buffer[0], len));
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        let mut burst = Burst::default();
        let at = Instant::from_millis(1);
        burst.begin(at, pause);
        let sent: Vec<u8> = (0..20u8).filter(|_| burst.takes(1000, 4500)).collect();
        assert_eq!(sent, [0, 1, 2, 3]);
        for datagram in 4..20u8 {
            assert!(burst.waiting.push([&[datagram], &[datagram; 999]], 1 << 20));
        }
        // The pause is over, but those that wait go first.
        burst.begin(at + pause, pause);
        assert!(!burst.takes(1, 4500));
        let peer = receiver.local_addr().unwrap();
        let mut expected = 4..20u8;
        while !burst.waiting.is_empty() {
            burst
                .send_waiting(at, sender.as_fd(), (Some(peer), &[]), 4500, |errno| panic!("{errno}"))
                .unwrap();
            let wanted: Vec<_> = expected.by_ref().take(4).map(|datagram| (datagram, 1000)).collect();
            assert_eq!(arrived(), wanted);
        }
        assert_eq!((expected.next(), burst.waiting.len(), burst.waiting.records()), (None, 0, 0));
        assert!(!burst.waiting.push([&[1], &[]], 4) && burst.waiting.push([&[1], &[]], 5));
    }

    #[test]
    fn one_longer_than_a_burst_goes_alone() {
        let mut burst = Burst::default();
        assert!(burst.takes(9000, 4096) && !burst.takes(1, 4096));
    }
}
