//! Probing members, and what is concluded. [`Judge`] is pure; [`Prober`] is one thread with a socket for each family.
//!
//! * One probe of a member is on its way at a time; the next one leaves an interval after it. Until a member is healthy it is probed five times as often.
//! * A probe that is lost, late, refused (where an agent answers) or answered with something else counts against the member.
//! * Where nobody answers probes, as the member has no agent, a refusal shows that its router works.

use crate::config::Health;
use crate::probe::{self, Echo};
use core::time::Duration;
use nw_element_api::Instant;
use nw_name::Name;
use rustix::event::{PollFd, PollFlags};
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time;

/// What became of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Back after so long.
    Back(Duration),
    /// Back, but too late to be of use.
    Slow(Duration),
    /// Refused by a router that has no route to the agent.
    Refused,
    /// Not back in time.
    Lost,
}

impl Outcome {
    /// For people; nothing when all is well.
    pub const fn trouble(self) -> Option<&'static str> {
        match self {
            Outcome::Back(_) => None,
            Outcome::Slow(_) => Some("its probes come back too late (health.slow_ms)"),
            Outcome::Refused => Some("its router refuses probes: it has no route to the agent yet"),
            Outcome::Lost => Some("its probes don't come back"),
        }
    }
}

/// Concludes from probes whether a member is healthy.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    failures: u32,
    successes: u32,
    /// In a row.
    lost: u32,
    back: u32,
    verdict: Option<bool>,
}

impl Judge {
    /// By the configured thresholds.
    pub const fn new(health: &Health) -> Self {
        Judge { failures: health.failures, successes: health.successes, lost: 0, back: 0, verdict: None }
    }

    /// The verdict after another probe; nothing before the first one.
    pub fn take(&mut self, outcome: Outcome) -> Option<bool> {
        if matches!(outcome, Outcome::Back(_)) {
            (self.back, self.lost) = (self.back.saturating_add(1), 0);
        } else {
            (self.lost, self.back) = (self.lost.saturating_add(1), 0);
        }
        if self.back >= self.successes {
            self.verdict = Some(true);
        } else if self.lost >= self.failures {
            self.verdict = Some(false);
        }
        self.verdict
    }

    /// The verdict so far.
    pub const fn verdict(&self) -> Option<bool> {
        self.verdict
    }
}

/// Whom to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The member.
    pub name: String,
    /// Its address and own port.
    pub address: SocketAddr,
    /// An agent answers its probes.
    pub has_agent: bool,
}

/// A probe is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// Of which member.
    pub name: String,
    /// How.
    pub outcome: Outcome,
    /// What follows.
    pub verdict: Option<bool>,
}

struct Probing {
    target: Target,
    prefix: Name,
    judge: Judge,
    /// Number and time of the one on its way.
    open: Option<(u64, Instant)>,
    next: Instant,
}

/// Probes members until the other end of `targets` is let go.
pub struct Prober<F> {
    health: Health,
    cluster: String,
    probing: BTreeMap<String, Probing>,
    v4: UdpSocket,
    v6: Option<UdpSocket>,
    number: u64,
    started: time::Instant,
    tell: F,
}

/// Nothing waits longer than this for a change of targets.
const TURN_MAX: Duration = Duration::from_millis(50);
/// Datagrams of one turn.
const RECEIVES_PER_TURN: usize = 512;
const DATAGRAM_LEN_MAX: usize = 9000;

impl<F: FnMut(Probed)> Prober<F> {
    /// With sockets of its own; `tell` hears of each probe.
    ///
    /// # Errors
    /// When there are no sockets to be had.
    pub fn new(cluster: &str, health: &Health, tell: F) -> io::Result<Self> {
        let bind = |address: SocketAddr| {
            let socket = UdpSocket::bind(address)?;
            socket.set_nonblocking(true)?;
            io::Result::Ok(socket)
        };
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(|_| io::Error::other("no random octets"))?;
        Ok(Prober {
            health: health.clone(),
            cluster: cluster.to_owned(),
            probing: BTreeMap::new(),
            v4: bind((Ipv4Addr::UNSPECIFIED, 0).into())?,
            // A machine may be without.
            v6: bind((Ipv6Addr::UNSPECIFIED, 0).into()).ok(),
            number: u64::from_ne_bytes(number),
            started: time::Instant::now(),
            tell,
        })
    }

    /// Probes; each list of targets takes the place of the one before.
    pub fn run(mut self, targets: &Receiver<Vec<Target>>) {
        let mut buffer = vec![0; DATAGRAM_LEN_MAX];
        loop {
            loop {
                match targets.try_recv() {
                    Ok(list) => self.aim(list),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            let now = self.now();
            self.send(now);
            self.wait(now);
            self.receive(&mut buffer);
            self.give_up();
        }
    }

    fn now(&self) -> Instant {
        Instant::START + self.started.elapsed()
    }

    fn aim(&mut self, list: Vec<Target>) {
        let now = self.now();
        let mut before = core::mem::take(&mut self.probing);
        for target in list {
            let known = before.remove(&target.name).filter(|known| known.target == target);
            let fresh = || Probing {
                prefix: probe::prefix(&self.cluster, &target.name),
                judge: Judge::new(&self.health),
                open: None,
                next: now,
                target: target.clone(),
            };
            let probing = known.unwrap_or_else(fresh);
            self.probing.insert(target.name, probing);
        }
    }

    fn send(&mut self, now: Instant) {
        let (usual, timeout_ms) = (ms(self.health.interval_ms), u64::from(self.health.timeout_ms));
        for probing in self.probing.values_mut().filter(|it| it.open.is_none() && it.next <= now) {
            self.number = self.number.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let wire = probe::interest(&probing.prefix, self.number, timeout_ms);
            let socket = if probing.target.address.is_ipv4() { Some(&self.v4) } else { self.v6.as_ref() };
            // What can't be sent is lost: that is what the probe is to find out.
            let _ = socket.map(|socket| socket.send_to(&wire, probing.target.address));
            let hurried = probing.judge.verdict() != Some(true);
            probing.open = Some((self.number, now));
            probing.next = now + if hurried { usual / 5 } else { usual };
        }
    }

    fn wait(&self, now: Instant) {
        let timeout = ms(self.health.timeout_ms);
        let due = |probing: &Probing| probing.open.map_or(probing.next, |(_, sent)| sent + timeout);
        let next = self.probing.values().map(due).min();
        let wait = next.map_or(TURN_MAX, |at| at.since(now).min(TURN_MAX)) + Duration::from_micros(500);
        let wait = rustix::time::Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut fds = vec![PollFd::new(&self.v4, PollFlags::IN)];
        fds.extend(self.v6.as_ref().map(|socket| PollFd::new(socket, PollFlags::IN)));
        // A signal ends the wait early, which does no harm.
        let _ = rustix::event::poll(&mut fds, Some(&wait));
    }

    fn receive(&mut self, buffer: &mut [u8]) {
        let now = self.now();
        let mut seen = Vec::new();
        for socket in core::iter::once(&self.v4).chain(&self.v6) {
            for _ in 0..RECEIVES_PER_TURN {
                // Errors are of earlier datagrams: an ICMP answer says what the timeout will say.
                match socket.recv_from(buffer) {
                    Ok((len, from)) => seen.extend(self.recognise(from, &buffer[..len])),
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(_) => break,
                }
            }
        }
        for (name, echo) in seen {
            self.take(now, &name, echo);
        }
    }

    /// An answer counts when it comes from the member itself.
    fn recognise(&self, from: SocketAddr, datagram: &[u8]) -> Option<(String, Echo)> {
        let probing = self.probing.values().find(|probing| {
            probing.target.address.port() == from.port() && probing.target.address.ip() == from.ip()
        })?;
        Some((probing.target.name.clone(), probe::read(&probing.prefix, datagram)?))
    }

    fn take(&mut self, now: Instant, name: &str, echo: Echo) {
        let slow = match self.health.slow_ms {
            0 => Duration::MAX,
            slow_ms => ms(slow_ms),
        };
        let Some(probing) = self.probing.get_mut(name) else { return };
        let (Echo::Back(number) | Echo::Refused(number)) = echo;
        let Some((_, sent)) = probing.open.filter(|(open, _)| *open == number) else { return };
        probing.open = None;
        let took = now.since(sent);
        let refused = matches!(echo, Echo::Refused(_)) && probing.target.has_agent;
        let outcome = match refused {
            true => Outcome::Refused,
            false if took > slow => Outcome::Slow(took),
            false => Outcome::Back(took),
        };
        let verdict = probing.judge.take(outcome);
        (self.tell)(Probed { name: name.to_owned(), outcome, verdict });
    }

    fn give_up(&mut self) {
        let (now, timeout) = (self.now(), ms(self.health.timeout_ms));
        let mut lost = Vec::new();
        for probing in self.probing.values_mut() {
            if probing.open.is_some_and(|(_, sent)| now.since(sent) >= timeout) {
                probing.open = None;
                let verdict = probing.judge.take(Outcome::Lost);
                lost.push(Probed { name: probing.target.name.clone(), outcome: Outcome::Lost, verdict });
            }
        }
        lost.into_iter().for_each(&mut self.tell);
    }
}

fn ms(ms: u32) -> Duration {
    Duration::from_millis(u64::from(ms))
}

#[cfg(test)]
mod tests;
