//! One direction of a link: delay, rate, a tail-drop queue, loss. Every packet transmitted is
//! delivered, lost for a counted reason, or in flight.
//!
//! All times of a packet are known when it is transmitted: it leaves the queue after those before
//! it, takes its length over the rate to be sent, and then the delay. So a direction is an ordered
//! list of arrivals, and nothing happens in between.

use crate::packet_arena::{PacketArena, PacketBuf};
use crate::random::Random;
use nw_link::QueueState;
use std::collections::VecDeque;

/// Properties of a link, equal for both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Propagation delay, nanoseconds.
    pub delay_ns: u64,
    /// Rate, bits per second; 0: unlimited.
    pub rate_bps: u64,
    /// Packets that may wait while another one is being sent.
    pub queue_packets: u32,
    /// Bytes that may wait or be in transmission.
    pub queue_bytes: u64,
    /// Loss rate, per 10^9 packets.
    pub loss_ppb: u32,
    /// Mean number of packets lost in a row; 1: independent losses.
    pub loss_burst: u32,
}

/// Packet counters of a link direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets transmitted.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Packets that arrived at the other end.
    pub delivered: u64,
    /// Bytes of these.
    pub delivered_bytes: u64,
    /// Packets dropped at a full queue.
    pub dropped_queue: u64,
    /// Packets lost by the loss model.
    pub lost: u64,
    /// Packets transmitted or in flight while the link or the node at its other end was down.
    pub dropped_down: u64,
    /// Time spent sending, nanoseconds.
    pub busy_ns: u64,
    /// Largest number of waiting packets.
    pub queue_peak: u64,
}

impl LinkCounters {
    /// Returns the number of packets that did not arrive.
    pub const fn dropped(&self) -> u64 {
        self.dropped_queue + self.lost + self.dropped_down
    }
}

#[derive(Debug)]
struct Flight {
    sent_ns: u64,
    arrives_ns: u64,
    bytes: u16,
    /// `None` if the packet is lost; it still takes its time on the link.
    packet: Option<PacketBuf>,
}

/// No arrival is scheduled.
const NOT_SCHEDULED: u64 = u64::MAX;

/// One direction of a link.
#[derive(Debug)]
pub struct Direction {
    config: LinkConfig,
    is_up: bool,
    busy_until_ns: u64,
    flights: VecDeque<Flight>,
    /// Number of `flights` that have left the queue.
    sent_count: usize,
    /// Number of `flights` that are lost and will not arrive.
    lost_in_flight: usize,
    /// Time of the scheduled arrival event, or [`NOT_SCHEDULED`].
    scheduled_ns: u64,
    /// Bytes of the packets that have not left the queue.
    queued_bytes: u64,
    random: Random,
    in_burst: bool,
    counters: LinkCounters,
}

impl Direction {
    /// Creates a direction that is up and empty.
    pub const fn new(config: LinkConfig, random: Random) -> Self {
        Direction {
            config,
            is_up: true,
            busy_until_ns: 0,
            flights: VecDeque::new(),
            sent_count: 0,
            lost_in_flight: 0,
            scheduled_ns: NOT_SCHEDULED,
            queued_bytes: 0,
            random,
            in_burst: false,
            counters: LinkCounters {
                packets: 0,
                bytes: 0,
                delivered: 0,
                delivered_bytes: 0,
                dropped_queue: 0,
                lost: 0,
                dropped_down: 0,
                busy_ns: 0,
                queue_peak: 0,
            },
        }
    }

    /// Transmits a packet given in parts. Returns the time of an arrival event to schedule, or
    /// `None` if one is already scheduled or the packet was dropped.
    #[inline]
    pub fn transmit(
        &mut self,
        now_ns: u64,
        parts: &[&[u8]],
        arena: &mut PacketArena,
    ) -> Option<u64> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        self.counters.packets += 1;
        self.counters.bytes += bytes;
        if !self.is_up {
            self.counters.dropped_down += 1;
            return None;
        }
        self.advance(now_ns);
        // The packet being sent does not wait.
        let queued = (self.flights.len() - self.sent_count).saturating_sub(1) as u64;
        let is_idle = self.busy_until_ns <= now_ns;
        if !is_idle
            && (queued >= u64::from(self.config.queue_packets)
                || self.queued_bytes + bytes > self.config.queue_bytes)
        {
            self.counters.dropped_queue += 1;
            return None;
        }
        let sending_ns = self.sending_ns(bytes);
        let sent_ns = self.busy_until_ns.max(now_ns) + sending_ns;
        let packet = if self.is_lost() {
            self.counters.lost += 1;
            self.lost_in_flight += 1;
            None
        } else {
            let Some(packet) = arena.put(parts) else {
                self.counters.dropped_queue += 1;
                return None;
            };
            Some(packet)
        };
        self.busy_until_ns = sent_ns;
        self.counters.busy_ns += sending_ns;
        let arrives_ns = sent_ns + self.config.delay_ns;
        self.flights.push_back(Flight { sent_ns, arrives_ns, bytes: bytes as u16, packet });
        if sending_ns > 0 {
            self.queued_bytes += bytes;
            let queued = (self.flights.len() - self.sent_count) as u64 - 1;
            self.counters.queue_peak = self.counters.queue_peak.max(queued);
        } else {
            self.sent_count += 1;
        }
        (self.scheduled_ns == NOT_SCHEDULED).then(|| {
            self.scheduled_ns = arrives_ns;
            arrives_ns
        })
    }

    /// Returns whether an arrival event at `now_ns` is valid. If so, the caller calls
    /// [`next_arrival`](Self::next_arrival) until it returns `None`, then
    /// [`schedule_next`](Self::schedule_next).
    #[inline]
    pub const fn is_scheduled_at(&self, now_ns: u64) -> bool {
        self.scheduled_ns == now_ns
    }

    /// Returns the next packet that has arrived by `now_ns`.
    #[inline]
    pub fn next_arrival(&mut self, now_ns: u64) -> Option<PacketBuf> {
        loop {
            self.flights.front().filter(|flight| flight.arrives_ns <= now_ns)?;
            self.advance(now_ns);
            let flight = self.flights.pop_front()?;
            self.sent_count -= 1;
            match flight.packet {
                Some(packet) => {
                    self.counters.delivered += 1;
                    self.counters.delivered_bytes += packet.len() as u64;
                    return Some(packet);
                }
                None => self.lost_in_flight -= 1,
            }
        }
    }

    /// Returns the time of the next arrival event to schedule, if any.
    #[inline]
    pub fn schedule_next(&mut self) -> Option<u64> {
        let next = self.flights.front().map(|flight| flight.arrives_ns);
        self.scheduled_ns = next.unwrap_or(NOT_SCHEDULED);
        next
    }

    /// Counts a delivered packet as dropped: the receiving node is down.
    pub const fn count_undelivered(&mut self, bytes: u64) {
        self.counters.delivered -= 1;
        self.counters.delivered_bytes -= bytes;
        self.counters.dropped_down += 1;
    }

    /// Takes the link up or down; packets in flight are dropped when it goes down.
    pub fn set_up(&mut self, up: bool, arena: &mut PacketArena) {
        self.is_up = up;
        if !up {
            self.clear(arena);
            self.busy_until_ns = 0;
        }
    }

    fn clear(&mut self, arena: &mut PacketArena) {
        for packet in self.flights.drain(..).filter_map(|flight| flight.packet) {
            self.counters.dropped_down += 1;
            arena.free(packet);
        }
        (self.sent_count, self.lost_in_flight, self.queued_bytes) = (0, 0, 0);
        self.scheduled_ns = NOT_SCHEDULED;
    }

    /// Returns the bytes in the queue and their limit.
    #[inline]
    pub fn queue_state(&mut self, now_ns: u64) -> QueueState {
        self.advance(now_ns);
        QueueState { bytes: self.queued_bytes, bytes_max: self.config.queue_bytes }
    }

    /// Returns the number of packets in flight that will arrive.
    pub fn in_flight(&self) -> usize {
        self.flights.len() - self.lost_in_flight
    }

    /// Returns the packet counters.
    pub const fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// Returns the properties of the link.
    pub const fn config(&self) -> &LinkConfig {
        &self.config
    }

    #[inline]
    fn advance(&mut self, now_ns: u64) {
        while let Some(flight) =
            self.flights.get(self.sent_count).filter(|flight| flight.sent_ns <= now_ns)
        {
            self.queued_bytes = self.queued_bytes.saturating_sub(u64::from(flight.bytes));
            self.sent_count += 1;
        }
    }

    /// Returns the transmission time, rounded up.
    #[inline]
    const fn sending_ns(&self, bytes: u64) -> u64 {
        if self.config.rate_bps == 0 {
            0
        } else {
            (bytes * 8_000_000_000).div_ceil(self.config.rate_bps)
        }
    }

    /// Gilbert's model: all packets of a burst are lost. The mean burst length and the frequency of
    /// bursts give the configured loss rate.
    #[inline]
    fn is_lost(&mut self) -> bool {
        let loss_ppb = self.config.loss_ppb;
        if loss_ppb == 0 {
            return false;
        }
        if self.config.loss_burst <= 1 {
            return self.random.chance(loss_ppb);
        }
        let burst_end_ppb = 1_000_000_000 / self.config.loss_burst;
        self.in_burst = if self.in_burst {
            !self.random.chance(burst_end_ppb)
        } else {
            let delivered_ppb = u64::from(1_000_000_000 - loss_ppb.min(999_999_999));
            let burst_start_ppb = u64::from(loss_ppb) * u64::from(burst_end_ppb) / delivered_ppb;
            self.random.chance(burst_start_ppb.min(1_000_000_000) as u32)
        };
        self.in_burst
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    const DEFAULT_LINK: LinkConfig = LinkConfig {
        delay_ns: 1000,
        rate_bps: 8_000_000_000,
        queue_packets: 2,
        queue_bytes: 1 << 20,
        loss_ppb: 0,
        loss_burst: 1,
    };

    fn direction(config: LinkConfig) -> (Direction, PacketArena) {
        (Direction::new(config, Random::new(1, Stream::Link, 0)), PacketArena::new(1 << 20))
    }

    #[test]
    fn direction_delay_rate_and_queue_as_configured() {
        let (mut link, mut arena) = direction(DEFAULT_LINK);
        // A byte takes a nanosecond. One packet is sent, two wait, the fourth is dropped.
        assert_eq!(link.transmit(0, &[&[0; 60], &[0; 40]], &mut arena), Some(1100));
        assert_eq!(
            (0..3).map(|_| link.transmit(0, &[&[0; 100]], &mut arena)).collect::<Vec<_>>(),
            [None; 3]
        );
        assert_eq!((link.counters().dropped_queue, link.queue_state(99).bytes), (1, 300));
        // The first packet is sent: the queue has space again.
        assert_eq!(link.transmit(100, &[&[0; 100]], &mut arena), None);
        assert_eq!(link.counters().dropped_queue, 1);
        let mut arrivals = Vec::new();
        while let Some(at) = link.schedule_next() {
            assert!(link.is_scheduled_at(at) && !link.is_scheduled_at(at - 1));
            let packet = link.next_arrival(at).expect("a packet is due");
            arena.free(packet);
            arrivals.push(at);
        }
        assert_eq!(arrivals, [1100, 1200, 1300, 1400]);
        assert_eq!((link.counters().delivered, link.counters().busy_ns), (4, 400));
    }

    #[test]
    fn direction_down_drops_packets_in_flight() {
        let (mut link, mut arena) = direction(DEFAULT_LINK);
        assert!(link.transmit(0, &[b"a"], &mut arena).is_some());
        link.set_up(false, &mut arena);
        assert_eq!(link.transmit(1, &[b"b"], &mut arena), None);
        link.set_up(true, &mut arena);
        assert_eq!(link.transmit(2, &[b"c"], &mut arena), Some(1003));
        assert_eq!((link.counters().dropped_down, link.in_flight(), arena.in_use()), (2, 1, 1));
    }

    #[test]
    fn direction_loss_rate_and_burst_length_as_configured() {
        for burst in [1, 5] {
            let (mut link, mut arena) = direction(LinkConfig {
                rate_bps: 0,
                loss_ppb: 50_000_000,
                loss_burst: burst,
                ..DEFAULT_LINK
            });
            let (mut bursts, mut before) = (0, 0);
            for _ in 0..100_000 {
                let lost = link.counters().lost;
                link.transmit(0, &[b"x"], &mut arena);
                if let Some(packet) = link.next_arrival(1000) {
                    arena.free(packet);
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
