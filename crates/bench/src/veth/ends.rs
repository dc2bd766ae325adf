//! Both ends of `forward/veth` in one thread: asks, answers, and counts what comes back. So many Interests are on their way at any time; what is
//! lost is given up when nothing has come for a while, and counted.

use super::packets;
use super::path::{self, Place};
use anyhow::{Context, Result, ensure};
use nw_faces::raw::{self, Message, Received};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};
use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Datagrams a call.
const BATCH: usize = 64;
const DATAGRAM_MAX: usize = 2048;
/// Octets of a socket's buffers: those of a router.
const RECEIVE_BUFFER: usize = 8 << 20;
const SEND_BUFFER: usize = 4 << 20;
/// After so long without a datagram all that is on the way is lost.
const PATIENCE: Duration = Duration::from_millis(100);
/// Before what is measured: faces and tables have come to be.
const WARM_UP: Duration = Duration::from_millis(300);
/// For the other side to be there.
const STARTING: Duration = Duration::from_secs(5);

/// What came back.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Answers while it was measured.
    pub exchanges: u64,
    /// For so long.
    pub seconds: f64,
    /// Answers in all.
    pub exchanges_in_all: u64,
    /// Interests that were never answered.
    pub lost: u64,
}

/// Runs both ends of a path.
///
/// # Errors
/// When nothing comes back at all; what the system says.
pub fn run(asker: &str, answerer: &str, port: u16, window: u64, measured: Duration) -> Result<Outcome> {
    let mut asking = End::open(asker, Place::Asker, port)?;
    let mut answering = End::open(answerer, Place::Answerer, port)?;
    let (to, back) = (path::middle_address(Place::Asker, port), path::middle_address(Place::Answerer, port));
    let started = Instant::now();
    // Names that no earlier run had.
    let mut number = std::time::UNIX_EPOCH.elapsed()?.as_nanos() as u64;
    let mut outcome = Outcome { exchanges: 0, seconds: 0.0, exchanges_in_all: 0, lost: 0 };
    let (mut on_their_way, mut heard, mut from) = (0, started, None);
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
            for _ in 0..BATCH {
                asking.write(to, |out| packets::interest(number, out));
                number += 1;
            }
            asking.send();
            on_their_way += BATCH as u64;
        }
        let asked = answering.receive(packets::answer, back)?;
        answering.send();
        let came = asking.receive(|_, _| {}, to)?;
        outcome.exchanges_in_all += came as u64;
        on_their_way = on_their_way.saturating_sub(came as u64);
        if came + asked > 0 {
            heard = now;
            continue;
        }
        if now > heard + PATIENCE {
            ensure!(
                outcome.exchanges_in_all > 0 || now < started + STARTING,
                "nothing came back within {STARTING:?}"
            );
            outcome.lost += on_their_way;
            (on_their_way, heard) = (0, now);
        }
        let mut ready =
            [&asking, &answering].map(|end| PollFd::from_borrowed_fd(end.socket.as_fd(), PollFlags::IN));
        let _ = poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 }));
    }
}

/// One end's socket and what it is about to send.
struct End {
    socket: UdpSocket,
    buffer: Vec<u8>,
    out: Vec<u8>,
    /// Where each datagram ends, and to whom it goes.
    ends: Vec<(usize, SocketAddr)>,
}

impl End {
    fn open(namespace: &str, place: Place, port: u16) -> Result<Self> {
        let socket = path::within(namespace, || {
            let socket = UdpSocket::bind(path::end_address(place, port)).context("an end's socket")?;
            if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
                sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
            }
            sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
            Ok(socket)
        })?;
        Ok(End { socket, buffer: vec![0; BATCH * DATAGRAM_MAX], out: Vec::new(), ends: Vec::new() })
    }

    fn write(&mut self, to: SocketAddr, datagram: impl FnOnce(&mut Vec<u8>)) {
        let before = self.out.len();
        datagram(&mut self.out);
        if self.out.len() > before {
            self.ends.push((self.out.len(), to));
        }
    }

    /// Sends what was written. What the system has no room for is lost, as on a wire.
    fn send(&mut self) {
        let mut start = 0;
        let (mut pieces, mut messages) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        for (end, to) in &self.ends {
            pieces.push(IoSlice::new(&self.out[start..*end]));
            messages.push(Message {
                peer: Some(*to),
                pieces: (pieces.len() - 1, pieces.len()),
                segment: None,
            });
            start = *end;
        }
        let mut at = 0;
        while at < messages.len() {
            match raw::send(self.socket.as_fd(), &messages[at..], &pieces) {
                Ok(sent) => at += sent,
                Err(_) => at += 1,
            }
        }
        self.out.clear();
        self.ends.clear();
    }

    /// Takes what has come, and writes what each is answered with; how many there were.
    fn receive(&mut self, answer: impl Fn(&[u8], &mut Vec<u8>), to: SocketAddr) -> Result<usize> {
        let mut received = [Received::NONE; BATCH];
        let mut places = self.buffer.chunks_exact_mut(DATAGRAM_MAX);
        let buffers: [&mut [u8]; BATCH] = core::array::from_fn(|_| places.next().unwrap_or_default());
        let count = raw::receive(self.socket.as_fd(), buffers, &mut received).unwrap_or(0);
        for (at, message) in received[..count].iter().enumerate() {
            let before = self.out.len();
            answer(&self.buffer[at * DATAGRAM_MAX..][..message.len], &mut self.out);
            if self.out.len() > before {
                self.ends.push((self.out.len(), to));
            }
        }
        Ok(count)
    }
}
