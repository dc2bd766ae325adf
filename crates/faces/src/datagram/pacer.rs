//! Pacing: datagrams to one peer leave in bursts of bounded size with a pause between them, as the
//! peer's receive buffer may be small (the system's default holds some twenty packets of 8 KB).
//! Datagrams beyond a burst are queued here, in order.

use super::{PIECES_MAX, sys};
use crate::queue::ByteQueue;
use arrayvec::ArrayVec;
use nw_element_api::Timestamp;
use rustix::io::Errno;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use sys::Message;

/// Bytes before each queued datagram: its length.
const RECORD_HEAD: usize = 4;

/// The current burst to one peer, and the datagrams queued behind it.
#[derive(Debug, Default)]
pub struct Pacer {
    /// When the burst started.
    since: Timestamp,
    /// Bytes of it so far.
    sent: usize,
    /// Datagrams for later bursts.
    pub queue: PacedQueue,
    /// When the next burst is sent, if the timer is set.
    pub timer: Option<Timestamp>,
}

/// A queue of datagrams.
#[derive(Debug, Default)]
pub struct PacedQueue {
    queue: ByteQueue,
    records: usize,
}

impl Pacer {
    /// Starts another burst, if the pause is over.
    pub fn start(&mut self, now: Timestamp, pause: core::time::Duration) {
        if now >= self.since + pause {
            self.since = now;
            self.sent = 0;
        }
    }

    /// Counts a datagram to the burst. Returns false if it must be queued. One datagram is always
    /// admitted, however long.
    pub const fn admits(&mut self, len: usize, burst_max: usize) -> bool {
        let fits = self.queue.is_empty() && (self.sent == 0 || self.sent + len <= burst_max);
        if fits {
            self.sent += len;
        }
        fits
    }

    /// Sends what waits, as much as one burst holds, to a peer; before each datagram goes a head,
    /// if it has one.
    ///
    /// # Errors
    /// Why not all of that was sent: `AGAIN`, `NOBUFS`. A datagram that the system refuses for
    /// other reasons is shown to `failed`.
    pub fn send_queued(
        &mut self,
        now: Timestamp,
        socket: BorrowedFd<'_>,
        (peer, head): (Option<SocketAddr>, &[u8]),
        burst_max: usize,
        mut failed: impl FnMut(Errno),
    ) -> Result<(), Errno> {
        self.since = now;
        self.sent = 0;
        let mut was_down = false;
        while !self.queue.is_empty() {
            let mut messages = ArrayVec::<Message, { sys::SENT_MAX }>::new();
            let mut pieces = ArrayVec::<IoSlice<'_>, PIECES_MAX>::new_const();
            let mut burst_len = self.sent;
            for datagram in self.queue.iter().take(sys::SENT_MAX) {
                if burst_len > 0 && burst_len + datagram.len() > burst_max {
                    break;
                }
                burst_len += datagram.len();
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
                self.sent += self.queue.pop();
            }
        }
        Ok(())
    }
}

impl PacedQueue {
    /// True when nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Returns the bytes queued.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the bytes of memory that the queue takes.
    pub const fn memory_bytes(&self) -> usize {
        self.queue.memory_bytes()
    }

    /// Returns the number of queued datagrams.
    pub const fn records(&self) -> usize {
        self.records
    }

    /// Adds a datagram, given in two parts. Returns false if the queue would exceed `len_max`
    /// bytes.
    pub fn push(&mut self, parts: [&[u8]; 2], len_max: usize) -> bool {
        let len = parts[0].len() + parts[1].len();
        if self.queue.len() + RECORD_HEAD + len > len_max {
            return false;
        }
        self.queue.push(&[&(len as u32).to_ne_bytes(), parts[0], parts[1]]);
        self.records += 1;
        true
    }

    /// Drops all datagrams. Returns their number.
    pub fn clear(&mut self) -> usize {
        self.queue.consume(self.queue.len());
        core::mem::take(&mut self.records)
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.queue.slices().flat_map(|mut remaining| {
            core::iter::from_fn(move || {
                let (head, tail) = remaining.split_first_chunk::<RECORD_HEAD>()?;
                let (datagram, tail) = tail.split_at(u32::from_ne_bytes(*head) as usize);
                remaining = tail;
                Some(datagram)
            })
        })
    }

    /// Removes the first datagram. Returns its length.
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
    fn datagrams_leave_in_bursts_and_in_order() {
        let pause = Duration::from_micros(250);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        let arrived = || {
            let mut buffer = [0; 2000];
            let next = || receiver.recv(&mut buffer).ok().map(|len| (buffer[0], len));
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        let mut pacer = Pacer::default();
        let at = Timestamp::from_millis(1);
        pacer.start(at, pause);
        let sent: Vec<u8> = (0..20u8).filter(|_| pacer.admits(1000, 4500)).collect();
        assert_eq!(sent, [0, 1, 2, 3]);
        for datagram in 4..20u8 {
            assert!(pacer.queue.push([&[datagram], &[datagram; 999]], 1 << 20));
        }
        // The pause is over, but queued datagrams go first.
        pacer.start(at + pause, pause);
        assert!(!pacer.admits(1, 4500));
        let peer = receiver.local_addr().unwrap();
        let mut expected = 4..20u8;
        while !pacer.queue.is_empty() {
            pacer
                .send_queued(at, sender.as_fd(), (Some(peer), &[]), 4500, |errno| panic!("{errno}"))
                .unwrap();
            let wanted: Vec<_> =
                expected.by_ref().take(4).map(|datagram| (datagram, 1000)).collect();
            assert_eq!(arrived(), wanted);
        }
        assert_eq!((expected.next(), pacer.queue.len(), pacer.queue.records()), (None, 0, 0));
        assert!(!pacer.queue.push([&[1], &[]], 4) && pacer.queue.push([&[1], &[]], 5));
    }

    #[test]
    fn datagram_longer_than_burst_is_sent_alone() {
        let mut pacer = Pacer::default();
        assert!(pacer.admits(9000, 4096) && !pacer.admits(1, 4096));
    }
}
