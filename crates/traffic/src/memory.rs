//! A forwarding plane in this process between a generator and a sink: no socket, no other thread, everything else a router does.

use super::link::{Arrival, Link};
use super::sink::Sink;
use super::workload::Workload;
use core::convert::Infallible;
use core::time::Duration;
use nw_element_api::decode::decode;
use nw_element_api::{FaceId, FaceInfo, Instant, Kind, LinkType, Packet, Pool, Scope};
use nw_elements::{RouterConfig, strategy::Strategies};
use nw_name::HashKey;
use nw_router::plane::{BATCH, Plane};
use nw_tables::cs::CsConfig;
use nw_tables::fib::{FibConfig, NextHop};
use nw_tables::pit::PitConfig;
use nw_wire::Token;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time;

const CONSUMER: FaceId = FaceId::from_slot(300, 0);
const PRODUCER: FaceId = FaceId::from_slot(301, 0);
/// Data that the plane's content store holds.
pub const STORE_PACKETS: usize = 65_536;
/// Octets that it holds.
pub const STORE_OCTETS: usize = 256 << 20;
const KEY: HashKey = HashKey::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
]);

/// The plane with its two neighbours.
#[derive(Debug)]
pub struct Memory {
    plane: Plane,
    pool: Pool,
    sink: Sink,
    answered: u64,
    started: time::Instant,
    stop: Arc<AtomicBool>,
    interests: Vec<u8>,
    ends: Vec<usize>,
    batch: Vec<Packet>,
    out: Vec<Packet>,
    answer: Vec<u8>,
}

impl Memory {
    /// With a route to the sink; `stop` ends it.
    pub fn new(workload: &Workload, sink: Sink, stop: Arc<AtomicBool>) -> Self {
        let router = RouterConfig {
            shard: 0,
            pit: PitConfig::for_entries(super::generator::WAITING_MAX + 4 * BATCH),
            fib: FibConfig::new(64),
            dead_nonces: 65_536,
            upstream_tokens: true,
            accept_data_from_any_face: false,
            lifetime_max_ms: 3_600_000,
            ..RouterConfig::default()
        };
        let store = CsConfig { packets_max: STORE_PACKETS, bytes_max: STORE_OCTETS };
        let mut plane = Plane::new(KEY, 7, router, store);
        let mut pool = Pool::new(KEY, 256, 4096);
        let (now, mut out) = (Instant::START, Vec::with_capacity(4 * BATCH));
        plane.with_router(now, &mut pool, &mut out, |router, context| {
            let info = FaceInfo { scope: Scope::Local, link_type: LinkType::PointToPoint };
            router.add_face(CONSUMER, info);
            router.add_face(PRODUCER, info);
            let hops = [NextHop { face: PRODUCER, cost: 0 }];
            router
                .set_route(now, workload.prefix.as_ref(), &hops, Strategies::DEFAULT, context)
                .expect("the FIB is empty");
        });
        Memory {
            plane,
            pool,
            sink,
            answered: 0,
            started: time::Instant::now(),
            stop,
            interests: Vec::new(),
            ends: Vec::new(),
            batch: Vec::with_capacity(BATCH),
            out,
            answer: Vec::new(),
        }
    }

    /// Interests that came to the sink; the content store answered the others.
    pub const fn answered(&self) -> u64 {
        self.answered
    }

    fn take(&mut self, bytes: &[u8], ingress: FaceId, token: Token) {
        let packet = self.pool.copy_of(bytes).expect("buffers come back each batch");
        let now = self.instant();
        let meta = self.pool.meta_mut(&packet);
        (meta.arrival, meta.ingress, meta.ingress_local) = (now, ingress, true);
        meta.link.token = token;
        decode(&mut self.pool, &packet).expect("this program makes packets that are well-formed");
        self.batch.push(packet);
    }

    fn instant(&self) -> Instant {
        Instant::START + self.started.elapsed()
    }

    fn process(&mut self, arrived: &mut impl FnMut(Duration, Arrival<'_>)) {
        // Interests to the sink leave first, its answers pass the plane in the second turn.
        while !self.batch.is_empty() {
            let now = self.instant();
            self.plane.process(now, &mut self.batch, &mut self.pool, &mut self.out);
            let mut out = core::mem::take(&mut self.out);
            for packet in out.drain(..) {
                self.deliver(packet, arrived);
            }
            self.out = out;
        }
    }

    fn deliver(&mut self, packet: Packet, arrived: &mut impl FnMut(Duration, Arrival<'_>)) {
        let (bytes, meta) = self.pool.view(&packet);
        let name = meta.name_in(bytes);
        match meta.kind {
            Kind::Interest => {
                let mut answer = core::mem::take(&mut self.answer);
                self.sink.answer(name, meta.can_be_prefix, &mut answer);
                let token = meta.link.token;
                self.pool.release(packet);
                self.answered += 1;
                self.take(&answer, PRODUCER, token);
                answer.clear();
                self.answer = answer;
                return;
            }
            Kind::Data => {
                let is_marked = meta.link.congestion_mark != 0;
                arrived(self.started.elapsed(), Arrival::Data { name, octets: bytes.len(), is_marked });
            }
            Kind::Nack => {
                let reason = meta.link.nack.unwrap_or_default();
                arrived(self.started.elapsed(), Arrival::Nack { name, reason });
            }
        }
        self.pool.release(packet);
    }
}

impl Link for Memory {
    type Error = Infallible;

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.interests);
        self.ends.push(self.interests.len());
    }

    fn turn(
        &mut self,
        wait: Duration,
        mut arrived: impl FnMut(Duration, Arrival<'_>),
    ) -> Result<bool, Infallible> {
        let (interests, ends) = (core::mem::take(&mut self.interests), core::mem::take(&mut self.ends));
        let mut start = 0;
        for batch in ends.chunks(BATCH) {
            for end in batch {
                self.take(&interests[start..*end], CONSUMER, Token::NONE);
                start = *end;
            }
            self.process(&mut arrived);
        }
        let now = self.instant();
        self.plane.tick(now, &mut self.pool, &mut self.out);
        let mut out = core::mem::take(&mut self.out);
        out.drain(..).for_each(|packet| self.deliver(packet, &mut arrived));
        self.out = out;
        if ends.is_empty() && !wait.is_zero() {
            // Nothing can come meanwhile. A sleep lasts longer than asked for, so the last stretch is waited out.
            if let Some(sleep) = wait.min(LOOK_AGAIN).checked_sub(SLEEP_LATE) {
                std::thread::sleep(sleep);
            }
        }
        (self.interests, self.ends) = (interests, ends);
        self.interests.clear();
        self.ends.clear();
        Ok(!self.stop.load(Ordering::Relaxed))
    }
}

/// How late a set flag may be seen.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// By how much a sleep may be too long.
const SLEEP_LATE: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{Arrivals, Generator, Limits, Load};
    use crate::link::drive;
    use crate::workload::tests::workload;
    use crate::workload::{Requests, Workload};

    fn run(
        workload: &Workload,
        requests: Requests,
        load: Load,
        packets: u64,
        memory: &mut Memory,
    ) -> Generator {
        let limits = Limits {
            packets: Some(packets),
            duration: Duration::from_secs(60),
            lifetime: Duration::from_secs(4),
        };
        let mut generator = Generator::new(workload, requests, load, limits, u64::from(packets as u32));
        assert_eq!(drive(memory, &mut generator), Ok(true));
        generator
    }

    fn memory(workload: &Workload) -> Memory {
        Memory::new(workload, Sink::new(workload, 1000), Arc::new(AtomicBool::new(false)))
    }

    #[test]
    fn everything_is_answered_and_popular_names_are_cached() {
        let workload = workload();
        let mut memory = memory(&workload);
        let load = Load::Closed { window: 32 };
        let generator = run(&workload, Requests::new(&workload), load, 20_000, &mut memory);
        let counters = &generator.measured().counters;
        assert_eq!((counters.asked, counters.answered, counters.lost), (20_000, 20_000, 0));
        assert_eq!(counters.data, counters.interests());
        assert!(memory.answered() <= 1000, "a thousand names, each fetched once: {}", memory.answered());
    }

    #[test]
    fn the_hit_ratio_asked_for_is_reached_within_a_point() {
        for (wanted, can_be_prefix) in [(0.3, 0.0), (0.8, 0.1)] {
            let workload = Workload { hit_ratio: Some(wanted), can_be_prefix, ..workload() };
            let mut memory = memory(&workload);
            let load = Load::Closed { window: 64 };
            run(&workload, Requests::each_once(&workload), load, workload.names as u64, &mut memory);
            let before = memory.answered();
            let generator = run(&workload, Requests::new(&workload), load, 40_000, &mut memory);
            let data = generator.measured().counters.data;
            let hits = 1.0 - (memory.answered() - before) as f64 / data as f64;
            assert!((hits - wanted).abs() < 0.01, "{hits} instead of {wanted}");
        }
    }

    #[test]
    fn an_open_loop_over_memory_keeps_its_rate() {
        let workload = workload();
        let mut memory = memory(&workload);
        let load = Load::Open { rate: 2000.0, arrivals: Arrivals::Even };
        let generator = run(&workload, Requests::new(&workload), load, 1000, &mut memory);
        let measured = generator.measured();
        assert_eq!(measured.counters.answered, 1000);
        assert!(measured.elapsed >= Duration::from_millis(499), "{:?}", measured.elapsed);
    }

    #[test]
    fn a_set_flag_ends_it() {
        let workload = workload();
        let stop = Arc::new(AtomicBool::new(true));
        let mut memory = Memory::new(&workload, Sink::new(&workload, 0), stop);
        let limits =
            Limits { packets: None, duration: Duration::from_secs(60), lifetime: Duration::from_secs(4) };
        let load = Load::Closed { window: 1 };
        let mut generator = Generator::new(&workload, Requests::new(&workload), load, limits, 1);
        assert_eq!(drive(&mut memory, &mut generator), Ok(false));
    }
}
