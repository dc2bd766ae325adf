//! Health checks. [`ProbeHistory`] is pure; [`Prober`] is a thread with one UDP socket per family.
//!
//! * At most one probe of a member is outstanding; the next is sent one interval after it. Until a
//!   member is healthy, the interval is a fifth.
//! * A probe that is lost, late, answered with a Nack (where an agent should answer) or answered
//!   with
//!   other content counts against the member.
//! * A member without an agent has no one to answer probes: a Nack then shows that its router
//!   works.

use crate::config::Health;
use crate::probe::{self, ProbeAnswer};
use core::time::Duration;
use nw_element_api::Timestamp;
use nw_name::Name;
use rustix::event::{PollFd, PollFlags};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time;

/// The outcome of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered after this time.
    Answered(Duration),
    /// Answered after this time, later than `health.slow_ms`.
    Late(Duration),
    /// Answered with a Nack: the router has no route to the agent.
    Nacked,
    /// Not answered in time.
    Lost,
}

impl Outcome {
    /// Returns what is wrong. `None` if the probe was answered in time.
    pub const fn trouble(self) -> Option<&'static str> {
        match self {
            Outcome::Answered(_) => None,
            Outcome::Late(_) => Some("its probes are answered too late (health.slow_ms)"),
            Outcome::Nacked => Some("its router refuses probes: it has no route to the agent yet"),
            Outcome::Lost => Some("its probes are not answered"),
        }
    }
}

/// Derives a member's health from its last probes: the configured numbers of answered or lost
/// probes in a row change it.
#[derive(Clone, Copy, Debug)]
pub struct ProbeHistory {
    failures: u32,
    successes: u32,
    lost_in_row: u32,
    answered_in_row: u32,
    verdict: Option<bool>,
}

impl ProbeHistory {
    /// Creates a history with the configured thresholds.
    pub const fn new(health: &Health) -> Self {
        ProbeHistory {
            failures: health.failures,
            successes: health.successes,
            lost_in_row: 0,
            answered_in_row: 0,
            verdict: None,
        }
    }

    /// Records a probe, and returns whether the member is healthy. `None`: not known yet.
    pub fn record(&mut self, outcome: Outcome) -> Option<bool> {
        if matches!(outcome, Outcome::Answered(_)) {
            (self.answered_in_row, self.lost_in_row) = (self.answered_in_row.saturating_add(1), 0);
        } else {
            (self.lost_in_row, self.answered_in_row) = (self.lost_in_row.saturating_add(1), 0);
        }
        if self.answered_in_row >= self.successes {
            self.verdict = Some(true);
        } else if self.lost_in_row >= self.failures {
            self.verdict = Some(false);
        }
        self.verdict
    }

    /// Returns whether the member is healthy. `None`: not known yet.
    pub const fn verdict(&self) -> Option<bool> {
        self.verdict
    }
}

/// A member to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The member's name.
    pub name: String,
    /// The member's address and own port.
    pub address: SocketAddr,
    /// True if an agent answers the probes.
    pub has_agent: bool,
}

/// The result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The member's name.
    pub name: String,
    /// The outcome of this probe.
    pub outcome: Outcome,
    /// Whether the member is healthy after it. `None`: not known yet.
    pub verdict: Option<bool>,
}

struct ProbeState {
    target: Target,
    prefix: Name,
    history: ProbeHistory,
    /// Number and send time of the outstanding probe.
    outstanding: Option<(u64, Timestamp)>,
    next: Timestamp,
}

/// Probes members until the sender of `targets` is dropped.
pub struct Prober<F> {
    health: Health,
    cluster: String,
    states: BTreeMap<String, ProbeState>,
    v4: UdpSocket,
    v6: Option<UdpSocket>,
    number: u64,
    started: time::Instant,
    on_probe: F,
}

/// Maximum wait before the list of targets is read again.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Maximum number of datagrams received in one iteration.
const RECEIVES_PER_ITERATION: usize = 512;
/// Length of the receive buffer, bytes.
const DATAGRAM_LEN_MAX: usize = 9000;

impl<F: FnMut(Probed)> Prober<F> {
    /// Opens the sockets. `on_probe` is called with each result.
    ///
    /// # Errors
    /// No IPv4 socket can be opened, or the system has no randomness.
    pub fn new(cluster: &str, health: &Health, on_probe: F) -> io::Result<Self> {
        let bind = |address: SocketAddr| {
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            io::Result::Ok(socket)
        };
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(|_| io::Error::other("no random bytes"))?;
        Ok(Prober {
            health: health.clone(),
            cluster: cluster.to_owned(),
            states: BTreeMap::new(),
            v4: bind((Ipv4Addr::UNSPECIFIED, 0).into())?,
            // The machine may have no IPv6.
            v6: bind((Ipv6Addr::UNSPECIFIED, 0).into()).ok(),
            number: u64::from_ne_bytes(number),
            started: time::Instant::now(),
            on_probe,
        })
    }

    /// Probes until the sender is dropped. Each list received replaces the list of targets.
    pub fn run(mut self, targets: &Receiver<Vec<Target>>) {
        let mut buffer = vec![0; DATAGRAM_LEN_MAX];
        loop {
            loop {
                match targets.try_recv() {
                    Ok(list) => self.set_targets(list),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            let now = self.now();
            self.send(now);
            self.wait(now);
            self.receive(&mut buffer);
            self.expire();
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::START + self.started.elapsed()
    }

    fn set_targets(&mut self, list: Vec<Target>) {
        let now = self.now();
        let mut previous = core::mem::take(&mut self.states);
        for target in list {
            let known = previous.remove(&target.name).filter(|known| known.target == target);
            let new_state = || ProbeState {
                prefix: probe::prefix(&self.cluster, &target.name),
                history: ProbeHistory::new(&self.health),
                outstanding: None,
                next: now,
                target: target.clone(),
            };
            let state = known.unwrap_or_else(new_state);
            self.states.insert(target.name, state);
        }
    }

    fn send(&mut self, now: Timestamp) {
        let (interval, timeout_ms) =
            (ms(self.health.interval_ms), u64::from(self.health.timeout_ms));
        for state in
            self.states.values_mut().filter(|it| it.outstanding.is_none() && it.next <= now)
        {
            self.number = self.number.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let wire = probe::interest(&state.prefix, self.number, timeout_ms);
            let socket =
                if state.target.address.is_ipv4() { Some(&self.v4) } else { self.v6.as_ref() };
            // A probe that can't be sent is lost: that is what probes find out.
            let _ = socket.map(|socket| socket.send_to(&wire, state.target.address));
            let is_healthy = state.history.verdict() == Some(true);
            state.outstanding = Some((self.number, now));
            state.next = now + if is_healthy { interval } else { interval / 5 };
        }
    }

    fn wait(&self, now: Timestamp) {
        let timeout = ms(self.health.timeout_ms);
        let due =
            |state: &ProbeState| state.outstanding.map_or(state.next, |(_, sent)| sent + timeout);
        let next = self.states.values().map(due).min();
        let wait =
            next.map_or(WAIT_MAX, |at| at.since(now).min(WAIT_MAX)) + Duration::from_micros(500);
        let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut fds = vec![PollFd::new(&self.v4, PollFlags::IN)];
        fds.extend(self.v6.as_ref().map(|socket| PollFd::new(socket, PollFlags::IN)));
        // A signal ends the wait early, which is harmless.
        let _ = rustix::event::poll(&mut fds, Some(&wait));
    }

    fn receive(&mut self, buffer: &mut [u8]) {
        let now = self.now();
        let mut answers = Vec::new();
        for socket in core::iter::once(&self.v4).chain(&self.v6) {
            for _ in 0..RECEIVES_PER_ITERATION {
                match socket.recv_from(buffer) {
                    Ok((len, from)) => answers.extend(self.match_answer(from, &buffer[..len])),
                    // An ICMP error for an earlier datagram; the timeout will count that probe as
                    // lost.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(_) => break,
                }
            }
        }
        for (name, answer) in answers {
            self.on_answer(now, &name, answer);
        }
    }

    /// Returns the member and probe that a datagram answers. It must come from the member itself.
    fn match_answer(&self, from: SocketAddr, datagram: &[u8]) -> Option<(String, ProbeAnswer)> {
        let state = self.states.values().find(|state| {
            state.target.address.port() == from.port() && state.target.address.ip() == from.ip()
        })?;
        Some((state.target.name.clone(), probe::read(&state.prefix, datagram)?))
    }

    fn on_answer(&mut self, now: Timestamp, name: &str, answer: ProbeAnswer) {
        let late = match self.health.slow_ms {
            0 => Duration::MAX,
            slow_ms => ms(slow_ms),
        };
        let Some(state) = self.states.get_mut(name) else { return };
        let (ProbeAnswer::Data(number) | ProbeAnswer::Nack(number)) = answer;
        let Some((_, sent)) = state.outstanding.filter(|(sent_number, _)| *sent_number == number)
        else {
            return;
        };
        state.outstanding = None;
        let took = now.since(sent);
        let is_nacked = matches!(answer, ProbeAnswer::Nack(_)) && state.target.has_agent;
        let outcome = match is_nacked {
            true => Outcome::Nacked,
            false if took > late => Outcome::Late(took),
            false => Outcome::Answered(took),
        };
        let verdict = state.history.record(outcome);
        (self.on_probe)(Probed { name: name.to_owned(), outcome, verdict });
    }

    fn expire(&mut self) {
        let (now, timeout) = (self.now(), ms(self.health.timeout_ms));
        let mut lost = Vec::new();
        for state in self.states.values_mut() {
            if state.outstanding.is_some_and(|(_, sent)| now.since(sent) >= timeout) {
                state.outstanding = None;
                let verdict = state.history.record(Outcome::Lost);
                lost.push(Probed {
                    name: state.target.name.clone(),
                    outcome: Outcome::Lost,
                    verdict,
                });
            }
        }
        lost.into_iter().for_each(&mut self.on_probe);
    }
}

fn ms(ms: u32) -> Duration {
    Duration::from_millis(u64::from(ms))
}

#[cfg(test)]
mod tests;
