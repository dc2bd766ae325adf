//! `forward/memory/…` and `cs_hit/memory`: the complete forwarding plane on one core, no I/O.
//!
//! Worst case for tables: every name is different, nothing is cached or aggregated, each Interest's longest prefix is all but its last
//! component, and a million Interests are pending all the time. A timed batch begins with packets in a receive buffer and ends when what leaves
//! is ready to be sent: decoding, hashing, content store, PIT, FIB, strategy, dead nonces, timers. Filling the buffer and giving packets back are not
//! timed (a network card's work, and its driver's).

use crate::process::own_resident_kib;
use core::time::Duration;
use nw_element_api::decode::decode_lazily;
use nw_element_api::{FaceId, FaceInfo, Instant, Kind, LinkType, Packet, Pool, Scope};
use nw_elements::strategy::Strategies;
use nw_name::{HashKey, Name};
use nw_router::plane::{BATCH, Plane};
use nw_tables::fib::NextHop;
use nw_traffic::machine::cycles_per_ns;
use nw_wire::{DataBuilder, InterestBuilder, Sign, Token};
use std::hint::black_box;

mod host;
mod rows;
mod shards;

use host::Host;
pub use rows::run;

const CONSUMER: FaceId = FaceId::from_slot(300, 0);
const PRODUCER: FaceId = FaceId::from_slot(301, 0);

/// A short signature: forwarding looks at its form only, and packets shall be small.
struct Short;

impl Sign for Short {
    type Error = core::convert::Infallible;
    fn info(&self) -> Vec<u8> {
        vec![27, 1, 200]
    }
    fn sign(&self, _: &[&[u8]]) -> Result<Vec<u8>, Self::Error> {
        Ok(vec![0; 4])
    }
}

/// Another number for each.
const fn mix(number: u64) -> u64 {
    let product = (number ^ number >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    product ^ product >> 32
}

/// Names of so many components, all different: the prefix (all but the last component) of number `i`, one of `prefixes`, and the whole.
fn names(i: u64, options: &Options) -> (Name, Name) {
    let (i, turn) = (i % options.prefixes, i / options.prefixes);
    let mut random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635;
    let mut word = || {
        random = mix(random);
        random
    };
    let (least, most) = options.components;
    let components = least + (word() % (most - least + 1) as u64) as usize;
    let mut prefix = Name::new();
    for depth in 0..components - 1 {
        // Upper levels are shared by many names, as names are; the last one of a prefix makes it unique.
        let text = match depth {
            0 => format!("n{}", word() % 64),
            _ if depth == components - 2 => format!("{i:x}"),
            _ => format!("{:x}", word() % 4096),
        };
        prefix = prefix.with_generic(text);
    }
    let name = prefix.clone().with_segment(word() % 32768 + 32768 * turn);
    (prefix, name)
}

/// Packets back to back, and where each ends.
struct Packets {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packets {
    fn new(numbers: impl Iterator<Item = u64>, make: impl Fn(u64) -> Vec<u8>) -> Self {
        let mut packets = Packets { bytes: Vec::new(), ends: Vec::new() };
        for number in numbers {
            packets.bytes.extend_from_slice(&make(number));
            packets.ends.push(packets.bytes.len());
        }
        packets
    }

    fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    fn mean_len(&self) -> f64 {
        self.bytes.len() as f64 / self.ends.len() as f64
    }
}

/// Routes that are made at a time, before they are set.
const LOAD_TOGETHER: usize = 1024;

/// Names between two looks at how fast the processor is: some milliseconds.
const CLOCK_EVERY: usize = 16_384;

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// FIB prefixes.
    pub prefixes: u64,
    /// Interests pending all the time; there are twice as many different names.
    pub pending: u64,
    /// Timed repetitions over all names.
    pub rounds: usize,
    /// Whether batches ask for memory first.
    pub prefetch: bool,
    /// Components of a name, at least and at most; its prefix has one less.
    pub components: (usize, usize),
    /// Batches between two changes of the FIB, each of which adds one route and takes one away; 0 for no change.
    pub batches_per_change: u64,
    /// Which shard it is: what its tokens begin with.
    pub shard: u8,
}

impl Default for Options {
    /// The row `forward/memory/fib1e6`.
    fn default() -> Self {
        Options {
            prefixes: 1_000_000,
            pending: 1_000_000,
            rounds: 5,
            prefetch: true,
            components: (4, 8),
            batches_per_change: 0,
            shard: 0,
        }
    }
}

impl Options {
    /// Numbers of all names that take part: twice as many as are pending, spread over all prefixes. In no order, as routes come in theirs: entries of the FIB
    /// would be read in the order in which they lie in memory else.
    fn numbers(&self) -> impl Iterator<Item = u64> + Clone + use<> {
        let count = 2 * self.pending;
        let apart = (self.prefixes / count).max(1);
        let mut numbers: Vec<u64> = (0..count).map(|i| i * apart).collect();
        numbers.sort_unstable_by_key(|number| mix(mix(*number)));
        numbers.into_iter()
    }

    /// Packets that a content store may hold so that nothing is ever answered from it: fewer than the names that come between two uses of one.
    fn cached(&self) -> usize {
        65_536.min(self.pending as usize / 2)
    }
}

/// Nanoseconds per packet of each round: Interests, Data, both.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Per Interest.
    pub interest_ns: Vec<f64>,
    /// Per Data.
    pub data_ns: Vec<f64>,
    /// Per packet, half of them Interests.
    pub packet_ns: Vec<f64>,
    /// The same in cycles that the processor gave meanwhile.
    pub packet_cycles: Vec<f64>,
    /// Mean length in octets: Interests, Data.
    pub len: (f64, f64),
    /// What filling the FIB took.
    pub loading: Loading,
}

/// What filling the FIB took, per prefix.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loading {
    /// Nanoseconds.
    pub ns: f64,
    /// Resident memory, octets.
    pub octets: f64,
}

struct Bench<H> {
    plane: H,
    pool: Pool,
    batch: Vec<Packet>,
    out: Vec<Packet>,
    now: Instant,
    /// What upstream gives back with a Data: as on the wire.
    tokens: Vec<[u8; 6]>,
    options: Options,
    batches: u64,
    loading: Loading,
}

/// An Interest and a Data for each of these names.
fn packets(options: &Options, numbers: impl Iterator<Item = u64> + Clone) -> (Packets, Packets) {
    let name = |number| names(number, options).1;
    let interests = Packets::new(numbers.clone(), |number| {
        InterestBuilder::new(name(number)).nonce(number as u32 | 1).encode()
    });
    let data = Packets::new(numbers, |number| {
        let Ok(wire) = DataBuilder::new(&name(number), b"x").encode(&Short);
        wire
    });
    (interests, data)
}

/// Type and length of the last element of these Interests.
const NONCE_TLV: [u8; 2] = [0x0a, 4];

const KEY: HashKey = HashKey::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
]);

/// Runs the measurement.
pub fn measure(options: Options) -> Figures {
    measure_in::<Plane>(options)
}

/// As [`measure`], with the elements in a graph.
pub fn measure_graph(options: Options) -> Figures {
    measure_in::<nw_graph::Engine>(options)
}

/// As [`measure`], in a host of choice.
fn measure_in<H: Host>(options: Options) -> Figures {
    let mut load = Load::<H>::new(options, options.cached(), options.numbers());
    let len = (load.interests.mean_len(), load.data.mean_len());
    let mut figures = Figures { len, loading: load.bench.loading, ..Figures::default() };
    for _ in 0..options.rounds {
        let (mut interest_ns, mut data_ns, mut cycles) = (0.0, 0.0, 0.0);
        for from in (0..load.count()).step_by(CLOCK_EVERY) {
            let (interest_time, data_time) = load.part(CLOCK_EVERY.min(load.count() - from));
            interest_ns += interest_time.as_nanos() as f64;
            data_ns += data_time.as_nanos() as f64;
            cycles += (interest_time + data_time).as_nanos() as f64 * cycles_per_ns();
        }
        let names = load.count() as f64;
        figures.interest_ns.push(interest_ns / names);
        figures.data_ns.push(data_ns / names);
        figures.packet_ns.push((interest_ns + data_ns) / (2.0 * names));
        figures.packet_cycles.push(cycles / (2.0 * names));
    }
    figures
}

/// A plane with half of its names pending, and what it is fed.
struct Load<H> {
    bench: Bench<H>,
    interests: Packets,
    data: Packets,
    /// Whose Interest comes next, and whose Data.
    next: usize,
    oldest: usize,
}

impl<H: Host> Load<H> {
    /// Of twice as many names as are pending.
    fn new(options: Options, cached: usize, numbers: impl Iterator<Item = u64> + Clone) -> Self {
        let (interests, data) = packets(&options, numbers);
        let mut bench = Bench::new(options, cached);
        let pending = options.pending as usize;
        for start in (0..pending).step_by(BATCH) {
            bench.interests(&interests, start, BATCH.min(pending - start));
        }
        let next = pending % interests.ends.len();
        Load { bench, interests, data, next, oldest: 0 }
    }

    /// Names.
    fn count(&self) -> usize {
        self.interests.ends.len()
    }

    /// Each name's Data and each name's Interest once; what they took.
    fn lap(&mut self) -> (Duration, Duration) {
        self.part(self.count())
    }

    /// Data of so many names, and Interests for as many others, going round; what they took.
    fn part(&mut self, count: usize) -> (Duration, Duration) {
        let all = self.count();
        let (mut interest_time, mut data_time, mut names) = (Duration::ZERO, Duration::ZERO, 0);
        while names < count {
            let many = BATCH.min(count - names).min(all - self.oldest).min(all - self.next);
            data_time += self.bench.data(&self.data, self.oldest, many);
            interest_time += self.bench.interests(&self.interests, self.next, many);
            names += many;
            self.oldest = (self.oldest + many) % all;
            self.next = (self.next + many) % all;
        }
        (interest_time, data_time)
    }
}

impl<H: Host> Bench<H> {
    fn new(options: Options, cached: usize) -> Self {
        let mut plane = H::new(&options, cached);
        let mut pool = Pool::new(KEY, 64, 4096);
        let mut out = Vec::with_capacity(4 * BATCH);
        let now = Instant::from_millis(1);
        let info = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
        plane.add_face(CONSUMER, info);
        plane.add_face(PRODUCER, info);
        let (mut took, resident_kib) = (Duration::ZERO, own_resident_kib());
        plane.with_router(now, &mut pool, &mut out, |router, context| {
            for first in (0..options.prefixes).step_by(LOAD_TOGETHER) {
                let numbers = first..options.prefixes.min(first + LOAD_TOGETHER as u64);
                let prefixes: Vec<Name> = numbers.map(|number| names(number, &options).0).collect();
                let started = std::time::Instant::now();
                for prefix in &prefixes {
                    let hop = NextHop { face: PRODUCER, cost: 10 };
                    router
                        .set_route(now, prefix.as_ref(), &[hop], Strategies::DEFAULT, context)
                        .expect("the FIB was made for so many");
                }
                took += started.elapsed();
            }
        });
        let taken_kib = own_resident_kib().saturating_sub(resident_kib);
        let loading = Loading {
            ns: took.as_nanos() as f64 / options.prefixes as f64,
            octets: taken_kib as f64 * 1024.0 / options.prefixes as f64,
        };
        let tokens = vec![[0; 6]; 2 * options.pending as usize];
        let batch = Vec::with_capacity(BATCH);
        Bench { plane, pool, batch, out, now, tokens, options, batches: 0, loading }
    }

    /// Adds one route and takes another away, now and then.
    fn change(&mut self) {
        self.batches += 1;
        let every = self.options.batches_per_change;
        if every == 0 || !self.batches.is_multiple_of(every) {
            return;
        }
        let route = |number: u64| Name::new().with_generic("churn").with_segment(number % 16);
        let (now, change) = (self.now, self.batches / every);
        self.plane.with_router(now, &mut self.pool, &mut self.out, |router, context| {
            let hop = NextHop { face: PRODUCER, cost: 10 };
            router
                .set_route(now, route(change).as_ref(), &[hop], Strategies::DEFAULT, context)
                .expect("the FIB was made for so many");
            router.remove_route(route(change + 8).as_ref());
        });
    }

    fn interests(&mut self, packets: &Packets, start: usize, many: usize) -> Duration {
        let took = self.run(packets, start, many, Kind::Interest);
        assert_eq!(self.out.len(), many, "every Interest is forwarded: {:?}", self.dropped());
        for (i, packet) in self.out.drain(..).enumerate() {
            let token = self.pool.meta(&packet).link.token;
            self.tokens[start + i] = token.as_bytes().try_into().unwrap_or_default();
            self.pool.release(packet);
        }
        took
    }

    fn data(&mut self, packets: &Packets, start: usize, many: usize) -> Duration {
        let took = self.run(packets, start, many, Kind::Data);
        assert_eq!(self.out.len(), many, "every Data is delivered: {:?}", self.dropped());
        self.out.drain(..).for_each(|packet| self.pool.release(packet));
        took
    }

    fn hits(&mut self, packets: &Packets, start: usize, many: usize) -> Duration {
        let took = self.run(packets, start, many, Kind::Interest);
        let answered = self.out.iter().all(|packet| self.pool.meta(packet).kind == Kind::Data);
        assert!(answered && self.out.len() == many, "every Interest is answered: {:?}", self.dropped());
        self.out.drain(..).for_each(|packet| self.pool.release(packet));
        took
    }

    fn dropped(&self) -> Vec<(&'static str, u64)> {
        self.plane
            .drops()
            .iter()
            .filter(|(_, packets)| *packets > 0)
            .map(|(why, packets)| (why.as_str(), packets))
            .collect()
    }

    fn run(&mut self, packets: &Packets, start: usize, many: usize, kind: Kind) -> Duration {
        self.now = self.now + Duration::from_nanos(100 * many as u64);
        let chunk = self.pool.take_chunk().expect("chunks come back each batch");
        let mut ends = [0; BATCH + 1];
        let received = self.pool.chunk_bytes_mut(&chunk);
        for i in 0..many {
            let bytes = packets.get(start + i);
            ends[i + 1] = ends[i] + bytes.len();
            received[ends[i]..ends[i + 1]].copy_from_slice(bytes);
            if kind == Kind::Interest {
                // Another nonce each time, as routers remember those of answered Interests.
                assert!(bytes[..bytes.len() - 4].ends_with(&NONCE_TLV), "the nonce is the last element");
                received[ends[i + 1] - 4..ends[i + 1]].copy_from_slice(&(self.batches as u32).to_be_bytes());
            }
        }
        let started = std::time::Instant::now();
        self.change();
        for i in 0..many {
            let packet =
                self.pool.packet_in(&chunk, ends[i]..ends[i + 1]).expect("packets come back each batch");
            let meta = self.pool.meta_mut(&packet);
            meta.arrival = self.now;
            meta.ingress = if kind == Kind::Interest { CONSUMER } else { PRODUCER };
            meta.ingress_local = false;
            if kind == Kind::Data {
                meta.link.token = Token::from_six(self.tokens[start + i]);
            }
            decode_lazily(&mut self.pool, &packet).expect("well-formed");
            self.batch.push(packet);
        }
        self.plane.process(self.now, &mut self.batch, &mut self.pool, &mut self.out);
        self.plane.tick(self.now, &mut self.pool, &mut self.out);
        let took = started.elapsed();
        self.pool.release_chunk(black_box(chunk));
        took
    }
}
