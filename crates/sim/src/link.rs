//! One direction of a link: delay, rate, a queue that drops its tail, loss. Every packet given to it is delivered, lost for a counted reason, or on
//! its way.
//!
//! A packet's times are known when it is given: it leaves the queue when those before it have been sent, takes its length over the rate to be
//! sent, and then the delay. So a direction is a list of arrivals in order, and nothing happens in between.

use crate::random::Random;
use crate::wires::{Wire, Wires};
use nw_faces::link::QueueState;
use std::collections::VecDeque;

/// What a link is like, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// From its one end to the other.
    pub delay_ns: u64,
    /// Bits a second; 0 is without bound.
    pub rate_bps: u64,
    /// Packets that may wait while another is sent.
    pub queue_packets: u32,
    /// Octets that may wait likewise.
    pub queue_octets: u64,
    /// Packets lost of 10^9.
    pub loss_ppb: u32,
    /// Packets that are lost in a row, on average; 1 is each for itself.
    pub loss_burst: u32,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Given to it.
    pub packets: u64,
    /// Octets of these.
    pub octets: u64,
    /// Arrived at the other end.
    pub delivered: u64,
    /// Octets of these.
    pub delivered_octets: u64,
    /// Came when the queue was full.
    pub dropped_queue: u64,
    /// Lost on the way.
    pub lost: u64,
    /// Given to it, or on their way, while it was down; or its other end was.
    pub dropped_down: u64,
    /// Nanoseconds in which it was sending.
    pub busy_ns: u64,
    /// Most packets that waited.
    pub queue_most: u64,
}

impl LinkCounters {
    /// Packets that did not arrive.
    pub const fn dropped(&self) -> u64 {
        self.dropped_queue + self.lost + self.dropped_down
    }
}

#[derive(Debug)]
struct Flight {
    sent_ns: u64,
    arrives_ns: u64,
    octets: u16,
    /// `None` when it is lost: it takes its time nevertheless.
    wire: Option<Wire>,
}

/// No moment: nobody was told to come back.
const NOBODY: u64 = u64::MAX;

/// One direction.
#[derive(Debug)]
pub struct Direction {
    config: LinkConfig,
    up: bool,
    busy_until_ns: u64,
    flights: VecDeque<Flight>,
    /// Of the flights, those that have been sent.
    sent: usize,
    /// Of the flights, those that will not arrive.
    ghosts: usize,
    /// For when the caller was told to come back.
    awaited_ns: u64,
    /// Octets of those that have not.
    waiting_octets: u64,
    random: Random,
    in_burst: bool,
    counters: LinkCounters,
}

impl Direction {
    /// Up and empty.
    pub const fn new(config: LinkConfig, random: Random) -> Self {
        Direction {
            config,
            up: true,
            busy_until_ns: 0,
            flights: VecDeque::new(),
            sent: 0,
            ghosts: 0,
            awaited_ns: NOBODY,
            waiting_octets: 0,
            random,
            in_burst: false,
            counters: LinkCounters {
                packets: 0,
                octets: 0,
                delivered: 0,
                delivered_octets: 0,
                dropped_queue: 0,
                lost: 0,
                dropped_down: 0,
                busy_ns: 0,
                queue_most: 0,
            },
        }
    }

    /// Takes a packet that stands in pieces. Gives when the caller is to come back, if it did not know that yet: see [`is_awaited`](Self::is_awaited).
    #[inline]
    pub fn give(&mut self, now_ns: u64, pieces: &[&[u8]], wires: &mut Wires) -> Option<u64> {
        let octets = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.counters.packets += 1;
        self.counters.octets += octets;
        if !self.up {
            self.counters.dropped_down += 1;
            return None;
        }
        self.advance(now_ns);
        // The one that is being sent waits no more.
        let waiting = (self.flights.len() - self.sent).saturating_sub(1) as u64;
        let is_idle = self.busy_until_ns <= now_ns;
        if !is_idle
            && (waiting >= u64::from(self.config.queue_packets)
                || self.waiting_octets + octets > self.config.queue_octets)
        {
            self.counters.dropped_queue += 1;
            return None;
        }
        let sending_ns = self.sending_ns(octets);
        let sent_ns = self.busy_until_ns.max(now_ns) + sending_ns;
        let wire = if self.is_lost() {
            self.counters.lost += 1;
            self.ghosts += 1;
            None
        } else {
            let Some(wire) = wires.put(pieces) else {
                self.counters.dropped_queue += 1;
                return None;
            };
            Some(wire)
        };
        self.busy_until_ns = sent_ns;
        self.counters.busy_ns += sending_ns;
        let arrives_ns = sent_ns + self.config.delay_ns;
        self.flights.push_back(Flight { sent_ns, arrives_ns, octets: octets as u16, wire });
        if sending_ns > 0 {
            self.waiting_octets += octets;
            let waiting = (self.flights.len() - self.sent) as u64 - 1;
            self.counters.queue_most = self.counters.queue_most.max(waiting);
        } else {
            self.sent += 1;
        }
        (self.awaited_ns == NOBODY).then(|| {
            self.awaited_ns = arrives_ns;
            arrives_ns
        })
    }

    /// The caller is back: true when it was for this moment that it was told to come. Then it [takes](Self::take) all there is, and
    /// asks [when to come again](Self::next_ns).
    #[inline]
    pub const fn is_awaited(&self, now_ns: u64) -> bool {
        self.awaited_ns == now_ns
    }

    /// The next packet that arrived by now.
    #[inline]
    pub fn take(&mut self, now_ns: u64) -> Option<Wire> {
        loop {
            self.flights.front().filter(|flight| flight.arrives_ns <= now_ns)?;
            self.advance(now_ns);
            let flight = self.flights.pop_front()?;
            self.sent -= 1;
            match flight.wire {
                Some(wire) => {
                    self.counters.delivered += 1;
                    self.counters.delivered_octets += wire.len() as u64;
                    return Some(wire);
                }
                None => self.ghosts -= 1,
            }
        }
    }

    /// When to come back, if at all.
    #[inline]
    pub fn next_ns(&mut self) -> Option<u64> {
        let next = self.flights.front().map(|flight| flight.arrives_ns);
        self.awaited_ns = next.unwrap_or(NOBODY);
        next
    }

    /// A packet that was taken finds nobody: the node is down.
    pub const fn undeliver(&mut self, octets: u64) {
        self.counters.delivered -= 1;
        self.counters.delivered_octets -= octets;
        self.counters.dropped_down += 1;
    }

    /// Takes the link down, with all that is on it, or up again.
    pub fn set_up(&mut self, up: bool, wires: &mut Wires) {
        self.up = up;
        if !up {
            self.clear(wires);
            self.busy_until_ns = 0;
        }
    }

    fn clear(&mut self, wires: &mut Wires) {
        for wire in self.flights.drain(..).filter_map(|flight| flight.wire) {
            self.counters.dropped_down += 1;
            wires.free(wire);
        }
        (self.sent, self.ghosts, self.waiting_octets) = (0, 0, 0);
        self.awaited_ns = NOBODY;
    }

    /// Bytes that wait or are being sent, and how many there may be.
    #[inline]
    pub fn queue_state(&mut self, now_ns: u64) -> QueueState {
        self.advance(now_ns);
        QueueState { bytes: self.waiting_octets, bytes_max: self.config.queue_octets }
    }

    /// Packets on their way.
    pub fn in_flight(&self) -> usize {
        self.flights.len() - self.ghosts
    }

    /// What became of packets.
    pub const fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// What it is like.
    pub const fn config(&self) -> &LinkConfig {
        &self.config
    }

    #[inline]
    fn advance(&mut self, now_ns: u64) {
        while let Some(flight) = self.flights.get(self.sent).filter(|flight| flight.sent_ns <= now_ns) {
            self.waiting_octets = self.waiting_octets.saturating_sub(u64::from(flight.octets));
            self.sent += 1;
        }
    }

    /// Rounded up: a bit is not sent before its time.
    #[inline]
    const fn sending_ns(&self, octets: u64) -> u64 {
        if self.config.rate_bps == 0 { 0 } else { (octets * 8_000_000_000).div_ceil(self.config.rate_bps) }
    }

    /// Gilbert's model: in a burst all is lost; its mean length and how often it begins make the rate asked for.
    #[inline]
    fn is_lost(&mut self) -> bool {
        let loss_ppb = self.config.loss_ppb;
        if loss_ppb == 0 {
            return false;
        }
        if self.config.loss_burst <= 1 {
            return self.random.chance(loss_ppb);
        }
        let ends_ppb = 1_000_000_000 / self.config.loss_burst;
        self.in_burst = if self.in_burst {
            !self.random.chance(ends_ppb)
        } else {
            let left_ppb = u64::from(1_000_000_000 - loss_ppb.min(999_999_999));
            let begins_ppb = u64::from(loss_ppb) * u64::from(ends_ppb) / left_ppb;
            self.random.chance(begins_ppb.min(1_000_000_000) as u32)
        };
        self.in_burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    const USUAL: LinkConfig = LinkConfig {
        delay_ns: 1000,
        rate_bps: 8_000_000_000,
        queue_packets: 2,
        queue_octets: 1 << 20,
        loss_ppb: 0,
        loss_burst: 1,
    };

    fn direction(config: LinkConfig) -> (Direction, Wires) {
        (Direction::new(config, Random::new(1, Stream::Link, 0)), Wires::new(1 << 20))
    }

    #[test]
    fn delay_rate_and_queue() {
        let (mut link, mut wires) = direction(USUAL);
        // An octet takes a nanosecond. One is sent, two wait, the fourth finds no room.
        assert_eq!(link.give(0, &[&[0; 60], &[0; 40]], &mut wires), Some(1100));
        assert_eq!((0..3).map(|_| link.give(0, &[&[0; 100]], &mut wires)).collect::<Vec<_>>(), [None; 3]);
        assert_eq!((link.counters().dropped_queue, link.queue_state(99).bytes), (1, 300));
        // The first is sent: there is room again.
        assert_eq!(link.give(100, &[&[0; 100]], &mut wires), None);
        assert_eq!(link.counters().dropped_queue, 1);
        let mut arrivals = Vec::new();
        while let Some(at) = link.next_ns() {
            assert!(link.is_awaited(at) && !link.is_awaited(at - 1));
            let wire = link.take(at).expect("it is due");
            wires.free(wire);
            arrivals.push(at);
        }
        assert_eq!(arrivals, [1100, 1200, 1300, 1400]);
        assert_eq!((link.counters().delivered, link.counters().busy_ns), (4, 400));
    }

    #[test]
    fn what_is_on_it_goes_down_with_it() {
        let (mut link, mut wires) = direction(USUAL);
        assert!(link.give(0, &[b"a"], &mut wires).is_some());
        link.set_up(false, &mut wires);
        assert_eq!(link.give(1, &[b"b"], &mut wires), None);
        link.set_up(true, &mut wires);
        assert_eq!(link.give(2, &[b"c"], &mut wires), Some(1003));
        assert_eq!((link.counters().dropped_down, link.in_flight(), wires.in_use()), (2, 1, 1));
    }

    #[test]
    fn loss_alone_and_in_bursts() {
        for burst in [1, 5] {
            let (mut link, mut wires) =
                direction(LinkConfig { rate_bps: 0, loss_ppb: 50_000_000, loss_burst: burst, ..USUAL });
            let (mut bursts, mut before) = (0, 0);
            for _ in 0..100_000 {
                let lost = link.counters().lost;
                link.give(0, &[b"x"], &mut wires);
                if let Some(wire) = link.take(1000) {
                    wires.free(wire);
                }
                let is_lost = link.counters().lost - lost;
                bursts += u64::from(is_lost > before);
                before = is_lost;
            }
            let lost = link.counters().lost;
            assert!((4600..5400).contains(&lost), "{lost}");
            let mean = lost as f64 / bursts as f64;
            assert!((mean - f64::from(burst)).abs() < 0.4, "{mean}");
        }
    }
}
