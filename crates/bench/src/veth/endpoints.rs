//! Consumer and producer of `forward/veth` in one thread. A fixed number of Interests is
//! outstanding; Interests without an answer are counted as lost when nothing has arrived for a
//! while.

use super::packets;
use super::path::{self, Position};
use super::xdp::XdpEnd;
use anyhow::{Context, Result, ensure};
use nw_faces::raw::{self, Message, Received};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Datagrams per system call.
const BATCH: usize = 64;
const DATAGRAM_MAX: usize = 2048;
/// Socket buffers in bytes, as in the router.
const RECEIVE_BUFFER: usize = 8 << 20;
const SEND_BUFFER: usize = 4 << 20;
/// Time without a datagram after which all outstanding Interests count as lost.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Unmeasured time in which faces and table entries are created.
const WARM_UP: Duration = Duration::from_millis(300);
/// Time for the forwarder to start.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// Result of a run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Answers in the measured time.
    pub exchanges: u64,
    /// The measured time.
    pub seconds: f64,
    /// Answers in total.
    pub exchanges_in_all: u64,
    /// Interests without an answer.
    pub lost: u64,
}

/// Runs both ends of a path. The namespaces are those of the consumer, the forwarder and the
/// producer.
///
/// # Errors
/// If no answer arrives, or a system call fails.
pub fn run(
    names: [&str; 3],
    xdp: bool,
    port: u16,
    window: u64,
    measured: Duration,
) -> Result<Outcome> {
    let [asker, middle, answerer] = names;
    let open = |name, place| match xdp {
        true => Ok(EndSocket::Xdp(XdpEnd::open(name, middle, place, port)?)),
        false => UdpEnd::open(name, place, port).map(EndSocket::Udp),
    };
    let (mut asking, mut answering) =
        (open(asker, Position::Downstream)?, open(answerer, Position::Answerer)?);
    let started = Instant::now();
    // Names that no earlier run used.
    let mut number = std::time::UNIX_EPOCH.elapsed()?.as_nanos() as u64;
    let mut outcome = Outcome { exchanges: 0, seconds: 0.0, exchanges_in_all: 0, lost: 0 };
    let (mut on_their_way, mut heard, mut from) = (0, started, None);
    let (mut packet, mut answers) = (Vec::new(), Vec::new());
    // A packet first, so that a learning forwarder knows this end.
    packets::interest(number, &mut packet);
    answering.write(&packet);
    answering.send();
    loop {
        let now = Instant::now();
        if from.is_none() && outcome.exchanges_in_all > 0 && now > started + WARM_UP {
            from = Some((now, outcome.exchanges_in_all));
        }
        if let Some((since, before)) = from
            && now >= since + measured
        {
            outcome.seconds = (now - since).as_secs_f64();
            outcome.exchanges = outcome.exchanges_in_all - before;
            return Ok(outcome);
        }
        while on_their_way + BATCH as u64 <= window {
            send_interests(&mut asking, &mut number, &mut packet);
            on_their_way += BATCH as u64;
        }
        let asked = answer_interests(&mut answering, &mut answers);
        let came = asking.receive(|_| {});
        outcome.exchanges_in_all += came as u64;
        on_their_way = on_their_way.saturating_sub(came as u64);
        if came + asked > 0 {
            heard = now;
            continue;
        }
        if now > heard + TIMEOUT {
            ensure!(
                outcome.exchanges_in_all > 0 || now < started + START_TIMEOUT,
                "nothing came back within {START_TIMEOUT:?}"
            );
            outcome.lost += on_their_way;
            (on_their_way, heard) = (0, now);
        }
        let mut ready =
            [&asking, &answering].map(|end| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
        let _ = poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 }));
    }
}

/// Sends a batch of Interests. `number` is that of the last one, `packet` a buffer.
fn send_interests(consumer: &mut EndSocket, number: &mut u64, packet: &mut Vec<u8>) {
    for _ in 0..BATCH {
        *number += 1;
        packet.clear();
        packets::interest(*number, packet);
        consumer.write(packet);
    }
    consumer.send();
}

/// Answers the received packets. Returns their number. `answers` is an empty buffer.
fn answer_interests(producer: &mut EndSocket, answers: &mut Vec<u8>) -> usize {
    let mut ends = Vec::with_capacity(BATCH);
    let received = producer.receive(|packet| {
        packets::answer(packet, answers);
        ends.push(answers.len());
    });
    let mut start = 0;
    for end in ends {
        if end > start {
            producer.write(&answers[start..end]);
        }
        start = end;
    }
    answers.clear();
    producer.send();
    received
}

/// Socket of an end.
enum EndSocket {
    Udp(UdpEnd),
    Xdp(XdpEnd),
}

impl EndSocket {
    fn write(&mut self, datagram: &[u8]) {
        match self {
            EndSocket::Udp(end) => end.write(datagram),
            EndSocket::Xdp(end) => end.write(datagram),
        }
    }

    fn send(&mut self) {
        match self {
            EndSocket::Udp(end) => end.send(),
            EndSocket::Xdp(end) => end.send(),
        }
    }

    fn receive(&mut self, each: impl FnMut(&[u8])) -> usize {
        match self {
            EndSocket::Udp(end) => end.receive(each),
            EndSocket::Xdp(end) => end.receive(each),
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            EndSocket::Udp(end) => end.socket.as_fd(),
            EndSocket::Xdp(end) => end.socket().as_fd(),
        }
    }
}

/// A UDP socket and its batch of datagrams.
struct UdpEnd {
    socket: UdpSocket,
    to: SocketAddr,
    buffer: Vec<u8>,
    out: Vec<u8>,
    /// EndSocket of each datagram in the batch.
    ends: Vec<usize>,
}

impl UdpEnd {
    fn open(namespace: &str, place: Position, port: u16) -> Result<Self> {
        let socket = path::within(namespace, || {
            let socket =
                UdpSocket::bind(path::end_address(place, port)).context("an end's socket")?;
            if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
                sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
            }
            sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
            Ok(socket)
        })?;
        let (buffer, to) = (vec![0; BATCH * DATAGRAM_MAX], path::forwarder_address(place, port));
        Ok(UdpEnd { socket, to, buffer, out: Vec::new(), ends: Vec::new() })
    }

    fn write(&mut self, datagram: &[u8]) {
        self.out.extend_from_slice(datagram);
        self.ends.push(self.out.len());
    }

    /// Sends the batch. Datagrams beyond the socket buffer are lost, as on a wire.
    fn send(&mut self) {
        let mut start = 0;
        let (mut pieces, mut messages) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        for end in &self.ends {
            pieces.push(IoSlice::new(&self.out[start..*end]));
            let pieces = (pieces.len() - 1, pieces.len());
            messages.push(Message { peer: Some(self.to), pieces, segment: None });
            start = *end;
        }
        let mut at = 0;
        while at < messages.len() {
            at += raw::send(self.socket.as_fd(), &messages[at..], &pieces).unwrap_or(1);
        }
        self.out.clear();
        self.ends.clear();
    }

    /// Reads the received datagrams and returns their number.
    fn receive(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let mut received = [Received::NONE; BATCH];
        let mut places = self.buffer.chunks_exact_mut(DATAGRAM_MAX);
        let buffers: [&mut [u8]; BATCH] =
            core::array::from_fn(|_| places.next().unwrap_or_default());
        let count = raw::receive(self.socket.as_fd(), buffers, &mut received).unwrap_or(0);
        for (at, message) in received[..count].iter().enumerate() {
            each(&self.buffer[at * DATAGRAM_MAX..][..message.len]);
        }
        count
    }
}
