//! A UDP port for a service that has no faces: the publish/subscribe domain.
//!
//! The system calls are those of UDP faces: many datagrams per call, and runs of equal lengths as
//! one message (GSO, GRO). Invariant: datagrams to one peer leave in the order in which they are
//! given; each that the system does not take is counted.

use super::run::Run;
use super::sys::{self, Message, Received};
use arrayvec::ArrayVec;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Messages received per call.
const RECEIVED: usize = sys::RECEIVED_MAX;
/// Bytes of a received message at most: the longest run that the kernel merges.
const MESSAGE_LEN_MAX: usize = 1 << 16;
/// Datagrams in one call.
const PIECES_MAX: usize = 512;

/// A socket at a UDP port, IPv4.
#[derive(Debug)]
pub struct UdpSocket {
    socket: OwnedFd,
    buffers: Vec<u8>,
    /// Whether the kernel sends runs of datagrams as one message.
    has_gso: bool,
}

impl UdpSocket {
    /// Opens the socket, with buffers of `buffer_bytes` as far as the system permits. Packets to
    /// groups stay on the link.
    ///
    /// # Errors
    /// If the port is in use, or the socket can't be opened.
    pub fn open(port: u16, buffer_bytes: usize) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))?;
        sockopt::set_ip_multicast_ttl(&socket, 1)?;
        // Without the right to exceed it, the system's limit is used.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, buffer_bytes)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, buffer_bytes));
        let _ = sockopt::set_socket_send_buffer_size_force(&socket, buffer_bytes)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, buffer_bytes));
        sys::set_gro(socket.as_fd(), true);
        let has_gso = sys::has_gso(socket.as_fd());
        Ok(UdpSocket { socket, buffers: vec![0; RECEIVED * MESSAGE_LEN_MAX], has_gso })
    }

    /// Receives up to [`MESSAGES_PER_CALL`](crate::MESSAGES_PER_CALL) messages: passes the sender
    /// and the bytes of each datagram to `on_packet`. Returns the number of messages; fewer than
    /// that if none is left.
    ///
    /// # Errors
    /// `AGAIN` if there are none; else the socket's error.
    pub fn receive(
        &mut self,
        mut on_packet: impl FnMut(SocketAddr, &[u8]),
    ) -> Result<usize, Errno> {
        let mut chunks = self.buffers.chunks_exact_mut(MESSAGE_LEN_MAX);
        let buffers: [&mut [u8]; RECEIVED] =
            core::array::from_fn(|_| chunks.next().unwrap_or_default());
        let mut received = [Received::NONE; RECEIVED];
        let count = sys::receive(self.socket.as_fd(), buffers, &mut received)?;
        let messages = received[..count].iter().zip(self.buffers.chunks_exact(MESSAGE_LEN_MAX));
        for (message, bytes) in messages.filter(|(message, _)| !message.truncated) {
            let datagrams = bytes[..message.len].chunks(message.stride);
            datagrams.for_each(|datagram| on_packet(message.peer, datagram));
        }
        Ok(count)
    }

    /// Sends datagrams. Returns the number of those that the system did not take. Runs are found
    /// among neighbours in the order given.
    pub fn send<'a>(&self, datagrams: impl IntoIterator<Item = (SocketAddr, &'a [u8])>) -> usize {
        let mut refused = 0;
        let mut pieces = ArrayVec::<IoSlice<'a>, PIECES_MAX>::new_const();
        let mut messages = ArrayVec::<Message, { sys::SENT_MAX }>::new_const();
        let mut run = Run::default();
        for (peer, bytes) in datagrams {
            let is_same_peer = messages.last().is_some_and(|message| message.peer == Some(peer));
            let extends = self.has_gso && is_same_peer && run.admits(bytes.len());
            if pieces.is_full() || messages.is_full() && !extends {
                refused += self.send_all(&messages, &pieces);
                messages.clear();
                pieces.clear();
            }
            match messages.last_mut().filter(|_| extends) {
                Some(message) => {
                    message.segment = Some(run.datagram_len() as u16);
                    message.pieces.1 += 1;
                    run.extend(bytes.len());
                }
                None => {
                    let pieces = (pieces.len(), pieces.len() + 1);
                    messages.push(Message { peer: Some(peer), pieces, segment: None });
                    run = Run::start(bytes.len());
                }
            }
            pieces.push(IoSlice::new(bytes));
        }
        refused + self.send_all(&messages, &pieces)
    }

    /// Sends messages. Returns the number of datagrams that the system did not take.
    fn send_all(&self, messages: &[Message], pieces: &[IoSlice<'_>]) -> usize {
        let (mut refused, mut at) = (0, 0);
        while at < messages.len() {
            match sys::send(self.socket.as_fd(), &messages[at..], pieces) {
                Ok(count) if count > 0 => at += count,
                Err(Errno::INTR) => {}
                // The interface has a smaller MTU, or can't compute checksums: one by one.
                Err(Errno::INVAL | Errno::IO | Errno::MSGSIZE)
                    if messages[at].segment.is_some() =>
                {
                    refused += self.send_singly(&messages[at], pieces);
                    at += 1;
                }
                Ok(_) | Err(_) => {
                    refused += messages[at].pieces.1 - messages[at].pieces.0;
                    at += 1;
                }
            }
        }
        refused
    }

    fn send_singly(&self, message: &Message, pieces: &[IoSlice<'_>]) -> usize {
        let is_refused = |at: &usize| {
            let one = Message { pieces: (*at, *at + 1), segment: None, ..message.clone() };
            !matches!(sys::send(self.socket.as_fd(), &[one], pieces), Ok(1..))
        };
        (message.pieces.0..message.pieces.1).filter(is_refused).count()
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn address(socket: &UdpSocket) -> SocketAddr {
        let bound = rustix::net::getsockname(&socket.socket).unwrap();
        let port = SocketAddr::try_from(bound).unwrap().port();
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    /// Receives until a number of datagrams has come. Returns them, and the number of messages.
    fn receive(socket: &mut UdpSocket, count: usize) -> (Vec<Vec<u8>>, usize) {
        let (mut datagrams, mut messages) = (Vec::new(), 0);
        let end = Instant::now() + Duration::from_secs(10);
        while datagrams.len() < count {
            assert!(Instant::now() < end, "{} of {count}", datagrams.len());
            match socket.receive(|_, bytes| datagrams.push(bytes.to_vec())) {
                Ok(received) => messages += received,
                Err(Errno::AGAIN) => std::thread::yield_now(),
                Err(errno) => panic!("{errno}"),
            }
        }
        (datagrams, messages)
    }

    #[test]
    fn datagrams_of_all_lengths_arrive_in_order_in_few_messages() {
        let (sender, mut one, mut other) = (
            UdpSocket::open(0, 4 << 20).unwrap(),
            UdpSocket::open(0, 4 << 20).unwrap(),
            UdpSocket::open(0, 4 << 20).unwrap(),
        );
        let datagram =
            |at: usize, len: usize| [&(at as u32).to_be_bytes()[..], &vec![7; len]].concat();
        // Equal ones, then others: shorter, longer, and alternating.
        let lengths = [vec![1400; 200], vec![10, 900, 899, 1400], [1300, 1301].repeat(20)].concat();
        let sent: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(at, len)| datagram(at, *len)).collect();
        let to_one = sent.iter().map(|bytes| (address(&one), &bytes[..]));
        let to_other = sent[..3].iter().map(|bytes| (address(&other), &bytes[..]));
        assert_eq!(sender.send(to_one.chain(to_other)), 0, "none is refused");
        let (got, messages) = receive(&mut one, sent.len());
        assert_eq!(got, sent);
        if sender.has_gso {
            assert!(messages < 100, "{messages} messages");
        }
        assert_eq!(receive(&mut other, 3).0, sent[..3]);
    }

    #[test]
    fn datagrams_that_the_system_refuses_are_counted_and_others_arrive() {
        let (sender, mut receiver) =
            (UdpSocket::open(0, 1 << 20).unwrap(), UdpSocket::open(0, 1 << 20).unwrap());
        let (to, nowhere) = (address(&receiver), SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let (short, long) = ([1; 100], vec![0; 70_000]);
        let datagrams =
            [(to, &short[..]), (nowhere, &short), (nowhere, &short), (to, &long), (to, &short)];
        assert_eq!(sender.send(datagrams), 3);
        assert_eq!(receive(&mut receiver, 2).0, [short, short]);
    }
}
