//! Nanoseconds per packet of packet_dispatcher, content_store and router, without I/O: many FIB prefixes, many pending Interests, all names
//! different. `cargo bench -p nw-elements --bench forward_memory -- [prefixes] [pending] [packets] [packets cached]`.
//!
//! Interests and Data come in batches of 32, half and half; each Data answers the Interest that has waited longest.

#![allow(clippy::print_stdout)] // its purpose

use nw_element::decode::decode;
use nw_element::{Context, DropCounters, Element, FaceId, Instant, Kind, LinkFields, Outbox, Packet, Pool};
use nw_elements::strategy::Strategies;
use nw_elements::{
    ContentStore, PacketDispatcher, Router, RouterConfig, content_store, packet_dispatcher, router,
};
use nw_name::{HashKey, Name};
use nw_tables::cs::CsConfig;
use nw_tables::fib::{FibConfig, NextHop};
use nw_tables::pit::PitConfig;
use nw_tables::{FaceInfo, LinkType, Scope};
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, Token};
use std::collections::VecDeque;
use std::time::{Duration, Instant as Clock};

const BATCH: usize = 32;

/// A cheap sequence without visible pattern.
fn mix(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

fn prefix(at: u64) -> Name {
    let mut name =
        Name::new().with_generic(format!("site{:04x}", mix(at) & 0xffff)).with_generic(format!("{at:x}"));
    for level in 0..mix(at) % 3 {
        name = name.with_generic(format!("l{level}"));
    }
    name
}

/// 4 to 8 components.
fn name(at: u64, prefixes: u64) -> Name {
    let mut name = prefix(mix(at) % prefixes).with_generic("object");
    for level in 0..mix(at ^ 7) % 3 {
        name = name.with_generic(format!("part{level}"));
    }
    name.with_segment(at)
}

/// What forwarding is made of; each counted over all packets of a batch, Interests and Data.
const PARTS: [&str; 5] = [
    "prefetch",
    "dispatcher",
    "content store, Interests; router, Data",
    "router, Interests",
    "content store, Data",
];

/// Time since the last call.
fn lap(clock: &mut Clock) -> Duration {
    let now = Clock::now();
    now - core::mem::replace(clock, now)
}

struct Bench {
    pool: Pool,
    drops: DropCounters,
    dispatcher: PacketDispatcher,
    store: ContentStore,
    router: Router,
    dispatched: Outbox<packet_dispatcher::Out>,
    stored: Outbox<content_store::Out>,
    routed: Outbox<router::Out>,
    asks: Vec<(packet_dispatcher::Out, Packet)>,
    sent: Vec<(Kind, Token)>,
    /// Of each batch: what it took to copy in and decode, and to forward.
    took: Vec<(Duration, Duration)>,
    /// Parts of forwarding, in the order of [`PARTS`].
    parts: [Vec<Duration>; PARTS.len()],
    packets: u64,
}

const DOWN: FaceId = FaceId::from_slot(300, 0);
const UP: FaceId = FaceId::from_slot(301, 0);

impl Bench {
    fn new(prefixes: u64, pending: usize, cached: usize) -> Self {
        let key = HashKey::new([11, 22, 33, 44]);
        let config = RouterConfig {
            pit: PitConfig::for_entries(pending + pending / 8 + 64),
            fib: FibConfig::new(prefixes as usize + 16),
            ..RouterConfig::default()
        };
        let mut bench = Bench {
            pool: Pool::new(key, 64, 4096),
            drops: DropCounters::default(),
            dispatcher: PacketDispatcher::new(1),
            store: ContentStore::new(key, CsConfig { packets_max: cached, ..CsConfig::default() }),
            router: Router::new(key, config),
            dispatched: Outbox::with_capacity(64),
            stored: Outbox::with_capacity(64),
            routed: Outbox::with_capacity(64),
            asks: Vec::with_capacity(64),
            sent: Vec::with_capacity(64),
            took: Vec::new(),
            parts: Default::default(),
            packets: 0,
        };
        let info = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
        bench.router.add_face(DOWN, info);
        bench.router.add_face(UP, info);
        for at in 0..prefixes {
            let hops = [NextHop { face: UP, cost: (at % 100) as u32 }];
            let mut context =
                Context { pool: &mut bench.pool, out: &mut bench.routed, drops: &mut bench.drops };
            let name = prefix(at);
            let set = bench.router.set_route(
                Instant::START,
                name.as_ref(),
                &hops,
                Strategies::DEFAULT,
                &mut context,
            );
            set.expect("room for a route");
        }
        bench
    }

    /// One batch, as the fused host runs it.
    fn batch(&mut self, now: Instant, wires: &[(&[u8], LinkFields)]) {
        let start = Clock::now();
        let mut packets = Vec::with_capacity(wires.len());
        for (wire, link) in wires {
            let packet = self.pool.copy_of(wire).expect("a buffer");
            let meta = self.pool.meta_mut(&packet);
            meta.ingress = if wire[0] == 5 { DOWN } else { UP };
            meta.link = *link;
            decode(&mut self.pool, &packet).expect("a packet");
            packets.push(packet);
        }
        let decoded = Clock::now();
        for stage in 0..ContentStore::PREFETCH_STAGES.max(Router::PREFETCH_STAGES) {
            for packet in &packets {
                let (to_store, to_router) = match self.pool.meta(packet).kind {
                    Kind::Interest => (content_store::In::Interest, router::In::Interest),
                    Kind::Data => (content_store::In::Data, router::In::Data),
                    Kind::Nack => continue,
                };
                self.store.prefetch(stage, to_store, packet, &self.pool);
                self.router.prefetch(stage, to_router, packet, &self.pool);
            }
        }
        let mut clock = decoded;
        self.parts[0].push(lap(&mut clock));
        for packet in packets {
            let (pool, drops) = (&mut self.pool, &mut self.drops);
            let out = &mut self.dispatched;
            self.dispatcher.process(
                now,
                packet_dispatcher::In::Packet,
                packet,
                &mut Context { pool, out, drops },
            );
        }
        self.parts[1].push(lap(&mut clock));
        let (pool, drops) = (&mut self.pool, &mut self.drops);
        self.asks.extend(self.dispatched.drain());
        for (port, packet) in self.asks.drain(..) {
            let (stored, routed) = (&mut self.stored, &mut self.routed);
            match port {
                packet_dispatcher::Out::Interest => {
                    let context = &mut Context { pool, out: stored, drops };
                    self.store.process(now, content_store::In::Interest, packet, context);
                }
                packet_dispatcher::Out::Data => {
                    self.router.process(
                        now,
                        router::In::Data,
                        packet,
                        &mut Context { pool, out: routed, drops },
                    );
                }
                packet_dispatcher::Out::Nack => {
                    self.router.process(
                        now,
                        router::In::Nack,
                        packet,
                        &mut Context { pool, out: routed, drops },
                    );
                }
            }
        }
        self.parts[2].push(lap(&mut clock));
        for (port, packet) in self.stored.drain() {
            assert_eq!(port, content_store::Out::Miss);
            let context = &mut Context { pool, out: &mut self.routed, drops };
            self.router.process(now, router::In::Interest, packet, context);
        }
        self.parts[3].push(lap(&mut clock));
        for (port, packet) in self.routed.drain() {
            match port {
                router::Out::Data => {
                    let context = &mut Context { pool, out: &mut self.stored, drops };
                    self.store.process(now, content_store::In::Data, packet, context);
                }
                router::Out::Interest | router::Out::Nack => {
                    let meta = pool.meta(&packet);
                    self.sent.push((meta.kind, meta.link.token));
                    pool.release(packet);
                }
            }
        }
        self.parts[4].push(lap(&mut clock));
        for (_, packet) in self.stored.drain() {
            self.sent.push((Kind::Data, Token::NONE));
            pool.release(packet);
        }
        self.took.push((decoded - start, decoded.elapsed()));
        self.packets += wires.len() as u64;
    }
}

/// Packets made beforehand, one behind the other: making them costs more than forwarding them.
#[derive(Default)]
struct Wires {
    octets: Vec<u8>,
    ends: Vec<usize>,
}

impl Wires {
    fn push(&mut self, wire: &[u8]) {
        self.octets.extend_from_slice(wire);
        self.ends.push(self.octets.len());
    }

    fn wire(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.octets[start..self.ends[at]]
    }
}

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (prefixes, pending, packets) = (number(0, 1_000_000), number(1, 1_000_000), number(2, 1_000_000));
    let (pending, answered) = (pending.next_multiple_of(BATCH), (packets / 2).next_multiple_of(BATCH));
    let (mut interests, mut data) = (Wires::default(), Wires::default());
    for at in 0..(pending + answered) as u64 {
        let name = name(at, prefixes as u64);
        if at < answered as u64 {
            let builder = DataBuilder::new(&name, &[7; 64]).freshness_ms(1000);
            data.push(&builder.encode(&DigestSha256).unwrap_or_else(|never| match never {}));
        }
        interests.push(&InterestBuilder::new(name).nonce(mix(at) as u32).lifetime_ms(400_000).encode());
    }
    let mut bench = Bench::new(prefixes as u64, pending, number(3, CsConfig::default().packets_max));
    let (mut now, mut next, mut waiting) = (Instant::START, 0, VecDeque::with_capacity(pending + BATCH));
    let mut batch = Vec::with_capacity(BATCH);
    let mut done = 0;
    while done < answered {
        let full = waiting.len() >= pending;
        if next == pending {
            // Filled: only what follows is measured.
            bench.took.clear();
            bench.parts.iter_mut().for_each(Vec::clear);
            bench.packets = 0;
        }
        let (answers, asks) = if full { (BATCH / 2, BATCH / 2) } else { (0, BATCH) };
        batch.clear();
        for at in done..done + answers {
            let token: Token = waiting.pop_front().expect("as many as are pending");
            batch.push((data.wire(at), LinkFields { token, ..LinkFields::default() }));
        }
        for at in next..next + asks {
            let token = Token::new(&mix(at as u64).to_be_bytes()[..6]).expect("6 octets");
            batch.push((interests.wire(at), LinkFields { token, ..LinkFields::default() }));
        }
        (done, next) = (done + answers, next + asks);
        bench.batch(now, &batch);
        waiting
            .extend(bench.sent.drain(..).filter(|(kind, _)| *kind == Kind::Interest).map(|(_, token)| token));
        now = Instant::from_nanos(now.as_nanos() + 10_000);
    }
    let per_packet = |mut took: Vec<Duration>| {
        took.sort_unstable();
        [50, 10, 90].map(|percent| took[took.len() * percent / 100].as_nanos() as f64 / BATCH as f64)
    };
    println!(
        "{} prefixes, {} pending, {} packets",
        bench.router.fib().len(),
        bench.router.pit().len(),
        bench.packets
    );
    // The median: others may be using the machine.
    let (decoding, forwarding) = bench.took.iter().copied().unzip();
    for (what, took) in [("copying in and decoding", decoding), ("forwarding", forwarding)] {
        let [median, low, high] = per_packet(took);
        println!("{what}: {median:.1} ns a packet (10 % of batches below {low:.1}, 10 % above {high:.1})");
    }
    for (what, took) in PARTS.iter().zip(bench.parts) {
        let [median, low, high] = per_packet(took);
        println!("  {what}: {median:.1} ({low:.1}, {high:.1})");
    }
    for (reason, packets) in bench.drops.iter().filter(|(_, packets)| *packets > 0) {
        println!("dropped: {} {packets}", reason.as_str());
    }
}
