//! A forwarding plane in this process between a generator and a sink. It does all that a router
//! does, without sockets and threads.

use super::link::{Link, Reply};
use super::sink::Sink;
use super::workload::Workload;
use core::convert::Infallible;
use core::time::Duration;
use nw_element_api::decode::decode;
use nw_element_api::{FaceId, FaceInfo, Kind, LinkType, Packet, Pool, Scope, Timestamp};
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
/// Capacity of the plane's content store, in packets.
pub const STORE_PACKETS: usize = 65_536;
/// Capacity of the content store, in bytes.
pub const STORE_BYTES: usize = 256 << 20;
const KEY: HashKey = HashKey::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
]);

/// A forwarding plane with a consumer face and a producer face.
#[derive(Debug)]
pub struct MemoryLink {
    plane: Plane,
    pool: Pool,
    sink: Sink,
    answered: u64,
    started: time::Instant,
    stop: Arc<AtomicBool>,
    interests: Vec<u8>,
    /// End of each Interest in `interests`.
    interest_ends: Vec<usize>,
    batch: Vec<Packet>,
    out: Vec<Packet>,
    answer: Vec<u8>,
}

impl MemoryLink {
    /// Creates a plane with a route to the sink. Setting `stop` ends the run.
    pub fn new(workload: &Workload, sink: Sink, stop: Arc<AtomicBool>) -> Self {
        let router = RouterConfig {
            shard: 0,
            pit: PitConfig::for_entries(super::generator::OUTSTANDING_MAX + 4 * BATCH),
            fib: FibConfig::new(64),
            dead_nonces: 65_536,
            upstream_tokens: true,
            accept_data_from_any_face: false,
            lifetime_max_ms: 3_600_000,
            ..RouterConfig::default()
        };
        let store = CsConfig { packets_max: STORE_PACKETS, bytes_max: STORE_BYTES };
        let mut plane = Plane::new(KEY, 7, router, store);
        let mut pool = Pool::new(KEY, 256, 4096);
        let (now, mut out) = (Timestamp::START, Vec::with_capacity(4 * BATCH));
        plane.with_router(now, &mut pool, &mut out, |router, context| {
            let info = FaceInfo { scope: Scope::Local, link_type: LinkType::PointToPoint };
            router.add_face(CONSUMER, info);
            router.add_face(PRODUCER, info);
            let hops = [NextHop { face: PRODUCER, cost: 0 }];
            router
                .set_route(now, workload.prefix.as_ref(), &hops, Strategies::DEFAULT, context)
                .expect("the FIB is empty");
        });
        MemoryLink {
            plane,
            pool,
            sink,
            answered: 0,
            started: time::Instant::now(),
            stop,
            interests: Vec::new(),
            interest_ends: Vec::new(),
            batch: Vec::with_capacity(BATCH),
            out,
            answer: Vec::new(),
        }
    }

    /// Returns the number of Interests that reached the sink; the content store answered the
    /// others.
    pub const fn answered(&self) -> u64 {
        self.answered
    }

    fn inject(&mut self, bytes: &[u8], ingress: FaceId, token: Token) {
        let packet = self.pool.copy_of(bytes).expect("every batch returns its buffers");
        let now = self.instant();
        let meta = self.pool.meta_mut(&packet);
        (meta.arrival, meta.ingress, meta.ingress_local) = (now, ingress, true);
        meta.link.token = token;
        decode(&mut self.pool, &packet).expect("own packets are well-formed");
        self.batch.push(packet);
    }

    fn instant(&self) -> Timestamp {
        Timestamp::START + self.started.elapsed()
    }

    fn process(&mut self, on_reply: &mut impl FnMut(Duration, Reply<'_>)) {
        // The first pass forwards Interests to the sink, the second pass its answers.
        while !self.batch.is_empty() {
            let now = self.instant();
            self.plane.process(now, &mut self.batch, &mut self.pool, &mut self.out);
            let mut out = core::mem::take(&mut self.out);
            for packet in out.drain(..) {
                self.deliver(packet, on_reply);
            }
            self.out = out;
        }
    }

    fn deliver(&mut self, packet: Packet, on_reply: &mut impl FnMut(Duration, Reply<'_>)) {
        let (bytes, meta) = self.pool.view(&packet);
        let name = meta.name_in(bytes);
        match meta.kind {
            Kind::Interest => {
                let mut answer = core::mem::take(&mut self.answer);
                self.sink.answer(name, meta.can_be_prefix, &mut answer);
                let token = meta.link.token;
                self.pool.release(packet);
                self.answered += 1;
                self.inject(&answer, PRODUCER, token);
                answer.clear();
                self.answer = answer;
                return;
            }
            Kind::Data => {
                let is_marked = meta.link.congestion_mark != 0;
                on_reply(self.started.elapsed(), Reply::Data { name, len: bytes.len(), is_marked });
            }
            Kind::Nack => {
                let reason = meta.link.nack.unwrap_or_default();
                on_reply(self.started.elapsed(), Reply::Nack { name, reason });
            }
            Kind::Publication => {}
        }
        self.pool.release(packet);
    }
}

impl Link for MemoryLink {
    type Error = Infallible;

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.interests);
        self.interest_ends.push(self.interests.len());
    }

    fn poll(
        &mut self,
        wait: Duration,
        mut on_reply: impl FnMut(Duration, Reply<'_>),
    ) -> Result<bool, Infallible> {
        let (interests, ends) =
            (core::mem::take(&mut self.interests), core::mem::take(&mut self.interest_ends));
        let mut start = 0;
        for batch in ends.chunks(BATCH) {
            for end in batch {
                self.inject(&interests[start..*end], CONSUMER, Token::NONE);
                start = *end;
            }
            self.process(&mut on_reply);
        }
        let now = self.instant();
        self.plane.tick(now, &mut self.pool, &mut self.out);
        let mut out = core::mem::take(&mut self.out);
        out.drain(..).for_each(|packet| self.deliver(packet, &mut on_reply));
        self.out = out;
        if ends.is_empty() && !wait.is_zero() {
            // Nothing can arrive meanwhile. A sleep may last too long, so it ends before the wait
            // does.
            if let Some(sleep) = wait.min(RECHECK_INTERVAL).checked_sub(SLEEP_MARGIN) {
                std::thread::sleep(sleep);
            }
        }
        (self.interests, self.interest_ends) = (interests, ends);
        self.interests.clear();
        self.interest_ends.clear();
        Ok(!self.stop.load(Ordering::Relaxed))
    }
}

/// Maximum delay until a set `stop` flag is noticed.
const RECHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Margin by which a sleep may exceed its duration.
const SLEEP_MARGIN: Duration = Duration::from_micros(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{ArrivalProcess, Generator, Limits, Load};
    use crate::link::drive;
    use crate::workload::tests::workload;
    use crate::workload::{Requests, Workload};

    fn run(
        workload: &Workload,
        requests: Requests,
        load: Load,
        packets: u64,
        memory: &mut MemoryLink,
    ) -> Generator {
        let limits = Limits {
            packets: Some(packets),
            duration: Duration::from_secs(60),
            lifetime: Duration::from_secs(4),
        };
        let mut generator =
            Generator::new(workload, requests, load, limits, u64::from(packets as u32));
        assert_eq!(drive(memory, &mut generator), Ok(true));
        generator
    }

    fn memory(workload: &Workload) -> MemoryLink {
        MemoryLink::new(workload, Sink::new(workload, 1000), Arc::new(AtomicBool::new(false)))
    }

    #[test]
    fn memory_link_answers_all_and_caches_popular_names() {
        let workload = workload();
        let mut memory = memory(&workload);
        let load = Load::Closed { window: 32 };
        let generator = run(&workload, Requests::new(&workload), load, 20_000, &mut memory);
        let counters = &generator.measured().counters;
        assert_eq!((counters.asked, counters.answered, counters.lost), (20_000, 20_000, 0));
        assert_eq!(counters.data, counters.interests());
        assert!(
            memory.answered() <= 1000,
            "each of 1000 names is fetched once: {}",
            memory.answered()
        );
    }

    #[test]
    fn memory_link_reaches_hit_ratio_within_one_percent() {
        for (wanted, can_be_prefix) in [(0.3, 0.0), (0.8, 0.1)] {
            let workload = Workload { hit_ratio: Some(wanted), can_be_prefix, ..workload() };
            let mut memory = memory(&workload);
            let load = Load::Closed { window: 64 };
            run(
                &workload,
                Requests::each_once(&workload),
                load,
                workload.names as u64,
                &mut memory,
            );
            let before = memory.answered();
            let generator = run(&workload, Requests::new(&workload), load, 40_000, &mut memory);
            let data = generator.measured().counters.data;
            let hits = 1.0 - (memory.answered() - before) as f64 / data as f64;
            assert!((hits - wanted).abs() < 0.01, "{hits} instead of {wanted}");
        }
    }

    #[test]
    fn memory_link_open_loop_keeps_its_rate() {
        let workload = workload();
        let mut memory = memory(&workload);
        let load = Load::Open { rate: 2000.0, arrivals: ArrivalProcess::Even };
        let generator = run(&workload, Requests::new(&workload), load, 1000, &mut memory);
        let measured = generator.measured();
        assert_eq!(measured.counters.answered, 1000);
        assert!(measured.elapsed >= Duration::from_millis(499), "{:?}", measured.elapsed);
    }

    #[test]
    fn memory_link_stop_flag_ends_run() {
        let workload = workload();
        let stop = Arc::new(AtomicBool::new(true));
        let mut memory = MemoryLink::new(&workload, Sink::new(&workload, 0), stop);
        let limits = Limits {
            packets: None,
            duration: Duration::from_secs(60),
            lifetime: Duration::from_secs(4),
        };
        let load = Load::Closed { window: 1 };
        let mut generator = Generator::new(&workload, Requests::new(&workload), load, limits, 1);
        assert_eq!(drive(&mut memory, &mut generator), Ok(false));
    }
}
