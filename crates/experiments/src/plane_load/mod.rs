//! The complete forwarding plane on one core, without I/O: the load of `nw paper augustus` and of
//! the rows `forward/memory/…`, `cs_hit/memory` and `shards/2` of the benchmark.
//!
//! Every name is different, no packet is cached or aggregated, the longest prefix of each Interest
//! has all but its last component, and a million Interests are pending all the time. A timed batch
//! begins with packets in a receive buffer and ends when the packets that leave are ready to be
//! sent: decoding, hashing, content store, PIT, FIB, strategy, dead nonces, timers. Filling the
//! buffer and releasing packets are not timed (the work of a network card and its driver).

use core::time::Duration;
use nw_element_api::decode::decode_lazily;
use nw_element_api::pool::{CHUNK_LEN, Chunk};
use nw_element_api::{FaceId, FaceInfo, Kind, LinkType, Packet, Pool, Scope, Timestamp};
use nw_elements::strategy::Strategies;
use nw_name::hash::shard_of;
use nw_name::{HashKey, Name};
use nw_packet_types::random::splitmix64;
use nw_router::plane::{BATCH, Plane};
use nw_tables::fib::NextHop;
use nw_traffic::machine::cycles_per_ns;
use nw_wire::{DataBuilder, InterestBuilder, LpHeader, LpPacket, Sign, Token};
use std::hint::black_box;

mod host;

pub use host::Host;
pub(crate) use host::ROUTES_OF_THE_ROUTER;

const CONSUMER: FaceId = FaceId::from_slot(300, 0);
const PRODUCER: FaceId = FaceId::from_slot(301, 0);

/// A placeholder signature of 4 bytes, so that packets are small. Forwarding checks only its form.
struct PlaceholderSignature;

impl Sign for PlaceholderSignature {
    type Error = core::convert::Infallible;
    fn info(&self) -> Vec<u8> {
        vec![27, 1, 200]
    }
    fn sign(&self, _: &[&[u8]]) -> Result<Vec<u8>, Self::Error> {
        Ok(vec![0; 4])
    }
}

/// Returns a pseudo-random number; distinct inputs give distinct outputs.
const fn mix(number: u64) -> u64 {
    let product = (number ^ number >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    product ^ product >> 32
}

/// Returns the prefix (all but the last component, one of `options.prefixes`) and the full name of
/// number `i`. All names differ.
pub fn names(i: u64, options: &Options) -> (Name, Name) {
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
        // Many names share the upper components, as in real name trees; the last component of a
        // prefix makes it unique.
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

/// Packets in one buffer.
#[derive(Debug)]
pub struct Packets {
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

/// Routes whose names are built together before they are inserted.
const LOAD_TOGETHER: usize = 1024;

/// Names between two measurements of the processor's clock: some milliseconds.
const CLOCK_EVERY: usize = 16_384;

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of FIB entries.
    pub prefixes: u64,
    /// Number of pending Interests; there are twice as many names.
    pub pending: u64,
    /// Timed repetitions over all names.
    pub rounds: usize,
    /// Whether table memory is prefetched per batch.
    pub prefetch: bool,
    /// Least and greatest number of components of a name; its prefix has one less.
    pub components: (usize, usize),
    /// Batches between two changes of the FIB, each of which adds one route and removes one; 0 for
    /// no changes.
    pub batches_per_change: u64,
    /// Number of the shard, which begins its PIT tokens.
    pub shard: u8,
    /// Link headers and PIT tokens.
    pub link: Link,
    /// Bytes of content of a Data packet.
    pub content_len: usize,
    /// Whether Data answer random pending Interests. Otherwise they answer the oldest.
    pub shuffled: bool,
}

/// What a run does about NDNLPv2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Packets are bare, and the PIT token of a Data is put into its metadata.
    TokensInMetadata,
    /// Packets are bare, and the upstream returns no PIT tokens.
    NoTokens,
    /// Packets arrive in LpPackets with PIT tokens, which are parsed, and leave in LpPackets, whose
    /// headers are written. Both are timed.
    Headers,
}

impl Default for Options {
    /// Returns the options of the row `forward/memory/fib1e6`.
    fn default() -> Self {
        Options {
            prefixes: 1_000_000,
            pending: 1_000_000,
            rounds: 5,
            prefetch: true,
            components: (4, 8),
            batches_per_change: 0,
            shard: 0,
            link: Link::TokensInMetadata,
            content_len: 1,
            shuffled: false,
        }
    }
}

impl Options {
    /// Returns the numbers of all names, twice as many as are pending, spread over all prefixes.
    /// They are shuffled, because routes are inserted in order: FIB entries would otherwise be read
    /// in the order of their memory.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + Clone + use<> {
        let count = 2 * self.pending;
        let apart = (self.prefixes / count).max(1);
        let mut numbers: Vec<u64> = (0..count).map(|i| i * apart).collect();
        numbers.sort_unstable_by_key(|number| mix(mix(*number)));
        numbers.into_iter()
    }

    /// Returns the number of packets in a batch: as many as fit a receive buffer.
    const fn batch_len(&self) -> usize {
        const HEADERS_LEN_MAX: usize = 200;
        let fitting = CHUNK_LEN / (self.content_len + HEADERS_LEN_MAX);
        if fitting < BATCH { fitting } else { BATCH }
    }

    /// Returns the number of names within which Data are shuffled: half of those that are pending,
    /// so that each Data answers a pending Interest, and is evicted before its name is requested
    /// again.
    const fn shuffle_block(&self) -> usize {
        (self.pending / 2) as usize
    }

    /// Returns the order in which the Data of the names arrive.
    fn data_order(&self, count: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count as u32).collect();
        if self.shuffled {
            for block in order.chunks_mut(self.shuffle_block()) {
                block.sort_unstable_by_key(|index| splitmix64(u64::from(*index)));
            }
        }
        order
    }

    /// Returns a capacity of the content store with which it never answers: fewer packets than the
    /// names between two uses of one name.
    pub fn cached(&self) -> usize {
        65_536.min(self.pending as usize / 4)
    }
}

/// Nanoseconds per packet, by round.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Nanoseconds per Interest.
    pub interest_ns: Vec<f64>,
    /// Nanoseconds per Data.
    pub data_ns: Vec<f64>,
    /// Nanoseconds per packet, half of them Interests.
    pub packet_ns: Vec<f64>,
    /// Processor cycles per packet.
    pub packet_cycles: Vec<f64>,
    /// Mean length of Interests and Data in bytes.
    pub len: (f64, f64),
    /// Cost of filling the FIB.
    pub loading: Loading,
}

/// Cost of filling the FIB, per prefix.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loading {
    /// Nanoseconds per prefix.
    pub ns: f64,
    /// Bytes of resident memory per prefix.
    pub bytes: f64,
}

/// A host with its faces, routes and buffers.
#[derive(Debug)]
pub struct Bench<H> {
    plane: H,
    pool: Pool,
    batch: Vec<Packet>,
    out: Vec<Packet>,
    now: Timestamp,
    /// PIT tokens that the upstream returns with Data, as on the wire.
    tokens: Vec<[u8; 6]>,
    options: Options,
    batches: u64,
    loading: Loading,
    /// Link header of a packet that leaves.
    header: Vec<u8>,
}

/// Builds an Interest and a Data packet for each of these names.
pub fn packets(
    options: &Options,
    numbers: impl Iterator<Item = u64> + Clone,
) -> (Packets, Packets) {
    let name = |number| names(number, options).1;
    let interests = Packets::new(numbers.clone(), |number| {
        InterestBuilder::new(name(number)).nonce(number as u32 | 1).encode()
    });
    let content = vec![b'x'; options.content_len];
    let data = Packets::new(numbers, |number| {
        let Ok(wire) = DataBuilder::new(&name(number), &content).encode(&PlaceholderSignature);
        wire
    });
    (interests, data)
}

/// PIT token of the consumer, with link headers.
const DOWNSTREAM_TOKEN: [u8; 6] = *b"client";

/// Type and length of the last element of these Interests.
const NONCE_TLV: [u8; 2] = [0x0a, 4];

/// Key of all name hashes, the same in each run.
pub const KEY: HashKey = HashKey::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
]);

/// Measures the fused plane.
pub fn measure(options: Options) -> Figures {
    measure_in::<Plane>(options)
}

/// Measures the same elements in a graph.
pub fn measure_graph(options: Options) -> Figures {
    measure_in::<nw_graph::Engine>(options)
}

/// Returns a function that processes Data and Interests of this many names on the fused plane, for
/// tests of the steady state.
pub fn steady_state(options: Options) -> impl FnMut(usize) {
    let mut load = Load::<Plane>::new(options, options.cached(), options.numbers());
    move |names| {
        load.part(names);
    }
}

/// Measures a host.
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

/// A host with half of its names pending, and its packets.
#[derive(Debug)]
pub struct Load<H> {
    bench: Bench<H>,
    interests: Packets,
    data: Packets,
    /// Names of Interests in order of arrival, and those of Data.
    interest_order: Vec<u32>,
    data_order: Vec<u32>,
    /// Positions of the next Interest and of the next Data in these orders.
    next: usize,
    oldest: usize,
}

impl<H: Host> Load<H> {
    /// Creates a load over these names, half of which are pending.
    pub fn new(
        options: Options,
        cached: usize,
        numbers: impl Iterator<Item = u64> + Clone,
    ) -> Self {
        let (interests, data) = packets(&options, numbers);
        let mut bench = Bench::new(options, cached);
        let count = interests.ends.len();
        let interest_order: Vec<u32> = (0..count as u32).collect();
        let data_order = options.data_order(count);
        let pending = options.pending as usize;
        for batch in interest_order[..pending].chunks(options.batch_len()) {
            bench.interests(&interests, batch);
        }
        let next = pending % count;
        Load { bench, interests, data, interest_order, data_order, next, oldest: 0 }
    }

    /// Creates the load of one of several shards: the whole FIB, and the names that the hash
    /// selects for it.
    pub fn of_shard(options: Options, shard: usize, shards: usize) -> Self {
        let mut numbers: Vec<u64> = options
            .numbers()
            .filter(|number| {
                let name = names(*number, &options).1;
                shard_of(KEY.name(name.as_ref()), shards) == shard
            })
            .collect();
        // Half of the names are pending at a time.
        numbers.truncate(numbers.len() & !1);
        let own = Options { pending: numbers.len() as u64 / 2, shard: shard as u8, ..options };
        Load::new(own, options.cached() / shards, numbers.into_iter())
    }

    /// Returns the number of names.
    pub fn count(&self) -> usize {
        self.interests.ends.len()
    }

    /// Processes each name's Data and Interest once. Returns the times of Interests and Data.
    pub fn lap(&mut self) -> (Duration, Duration) {
        self.part(self.count())
    }

    /// Processes Data for this many names and Interests for as many others. Returns the times of
    /// both.
    pub fn part(&mut self, count: usize) -> (Duration, Duration) {
        let all = self.count();
        let (mut interest_time, mut data_time, mut names) = (Duration::ZERO, Duration::ZERO, 0);
        while names < count {
            let many = self.bench.options.batch_len().min(count - names);
            // Shuffled Data answer pending Interests only within a block.
            let block = self.bench.options.shuffle_block();
            let many = many.min(block - self.oldest % block);
            let many = many.min(all - self.oldest).min(all - self.next);
            let answered = &self.data_order[self.oldest..self.oldest + many];
            data_time += self.bench.data(&self.data, answered);
            let requested = &self.interest_order[self.next..self.next + many];
            interest_time += self.bench.interests(&self.interests, requested);
            names += many;
            self.oldest = (self.oldest + many) % all;
            self.next = (self.next + many) % all;
        }
        (interest_time, data_time)
    }
}

impl<H: Host> Bench<H> {
    /// Creates a host with all routes, and a content store for `cached` packets.
    pub fn new(options: Options, cached: usize) -> Self {
        let mut plane = H::new(&options, cached);
        let mut pool = Pool::new(KEY, 64, 4096);
        let mut out = Vec::with_capacity(4 * BATCH);
        let now = Timestamp::from_millis(1);
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
                        .expect("the FIB has space for all routes");
                }
                took += started.elapsed();
            }
        });
        let taken_kib = own_resident_kib().saturating_sub(resident_kib);
        let loading = Loading {
            ns: took.as_nanos() as f64 / options.prefixes as f64,
            bytes: taken_kib as f64 * 1024.0 / options.prefixes as f64,
        };
        let tokens = vec![[0; 6]; 2 * options.pending as usize];
        let batch = Vec::with_capacity(BATCH);
        let header = Vec::with_capacity(64);
        Bench { plane, pool, batch, out, now, tokens, options, batches: 0, loading, header }
    }

    /// Adds one route and removes another when a change is due.
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
                .expect("the FIB has space for all routes");
            router.remove_route(route(change + 8).as_ref());
        });
    }

    /// Processes the Interests of these names. Returns the time.
    pub fn interests(&mut self, packets: &Packets, names: &[u32]) -> Duration {
        let took = self.run(packets, names, Kind::Interest);
        assert_eq!(
            self.out.len(),
            names.len(),
            "every Interest is forwarded: {:?}",
            self.dropped()
        );
        for (name, packet) in names.iter().zip(self.out.drain(..)) {
            let token = self.pool.meta(&packet).link.token;
            self.tokens[*name as usize] = token.as_bytes().try_into().unwrap_or_default();
            self.pool.release(packet);
        }
        took
    }

    /// Processes the Data of these names. Returns the time.
    pub fn data(&mut self, packets: &Packets, names: &[u32]) -> Duration {
        let took = self.run(packets, names, Kind::Data);
        assert_eq!(self.out.len(), names.len(), "every Data is delivered: {:?}", self.dropped());
        self.out.drain(..).for_each(|packet| self.pool.release(packet));
        took
    }

    /// Processes Interests of these names, which the content store answers. Returns the time.
    pub fn hits(&mut self, packets: &Packets, names: &[u32]) -> Duration {
        let took = self.run(packets, names, Kind::Interest);
        let answered = self.out.iter().all(|packet| self.pool.meta(packet).kind == Kind::Data);
        assert!(
            answered && self.out.len() == names.len(),
            "every Interest is answered: {:?}",
            self.dropped()
        );
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

    /// Fills a receive buffer with the packets of these names and processes them. Returns the time
    /// of the processing.
    fn run(&mut self, packets: &Packets, names: &[u32], kind: Kind) -> Duration {
        self.now = self.now + Duration::from_nanos(100 * names.len() as u64);
        let chunk = self.pool.take_chunk().expect("chunks come back each batch");
        let mut ends = [0; BATCH + 1];
        self.fill(packets, names, kind, &chunk, &mut ends);
        let started = std::time::Instant::now();
        self.change();
        for (i, name) in names.iter().enumerate() {
            let (range, token) = match self.options.link {
                Link::Headers => {
                    let received = &self.pool.chunk_bytes(&chunk)[ends[i]..ends[i + 1]];
                    let link = LpPacket::check(received).expect("well-formed");
                    (ends[i] + link.fragment_start..ends[i + 1], link.pit_token)
                }
                Link::TokensInMetadata if kind == Kind::Data => {
                    (ends[i]..ends[i + 1], Token::from_six(self.tokens[*name as usize]))
                }
                _ => (ends[i]..ends[i + 1], Token::NONE),
            };
            let packet = self.pool.packet_in(&chunk, range).expect("packets come back each batch");
            let meta = self.pool.meta_mut(&packet);
            meta.arrival = self.now;
            meta.ingress = if kind == Kind::Interest { CONSUMER } else { PRODUCER };
            meta.ingress_local = false;
            meta.link.token = token;
            decode_lazily(&mut self.pool, &packet).expect("well-formed");
            self.batch.push(packet);
        }
        self.plane.process(self.now, &mut self.batch, &mut self.pool, &mut self.out);
        self.plane.tick(self.now, &mut self.pool, &mut self.out);
        if self.options.link == Link::Headers {
            for packet in &self.out {
                let (bytes, meta) = self.pool.view(packet);
                self.header.clear();
                LpHeader { pit_token: meta.link.token, ..LpHeader::default() }
                    .encode(bytes.len(), &mut self.header);
                black_box(&self.header);
            }
        }
        let took = started.elapsed();
        self.pool.release_chunk(black_box(chunk));
        took
    }

    /// Writes the packets of these names into a receive buffer, as a network card would.
    fn fill(
        &mut self,
        packets: &Packets,
        names: &[u32],
        kind: Kind,
        chunk: &Chunk,
        ends: &mut [usize; BATCH + 1],
    ) {
        let received = self.pool.chunk_bytes_mut(chunk);
        for (i, name) in names.iter().enumerate() {
            let name = *name as usize;
            let bytes = packets.get(name);
            let mut start = ends[i];
            if self.options.link == Link::Headers {
                let token = if kind == Kind::Data { self.tokens[name] } else { DOWNSTREAM_TOKEN };
                self.header.clear();
                LpHeader { pit_token: Token::from_six(token), ..LpHeader::default() }
                    .encode(bytes.len(), &mut self.header);
                received[start..start + self.header.len()].copy_from_slice(&self.header);
                start += self.header.len();
            }
            let end = start + bytes.len();
            received[start..end].copy_from_slice(bytes);
            if kind == Kind::Interest {
                // A new nonce each time, because routers store the nonces of answered Interests.
                assert!(
                    bytes[..bytes.len() - 4].ends_with(&NONCE_TLV),
                    "the nonce is the last element"
                );
                received[end - 4..end].copy_from_slice(&(self.batches as u32).to_be_bytes());
            }
            ends[i + 1] = end;
        }
    }
}

/// Returns the resident memory of this process in KiB.
pub fn own_resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
