//! Host D: a node of the simulator; by itself, and with its link services and links.

use crate::fused::{SIZES, route_parameters, tables_of};
use crate::memory::{InMemory, faces, run};
use crate::trace::{Open, Sent, Step, order};
use crate::{FACES, Host, KEY, Outcome, Tables, Trace, memory, tables};
use nw_element_api::parameters::{Making, Parameters, Reader};
use nw_element_api::{DropCounters, FaceId, Instant, Packet, Pool};
use nw_elements::Router;
use nw_elements::catalogue::Configured;
use nw_faces::FacesConfig;
use nw_faces::link::{LinkSettings, QueueState};
use nw_name::Name;
use nw_sim::link::{Direction, LinkConfig};
use nw_sim::node::{Fused, Node, NodeConfig};
use nw_sim::random::{Random, Stream};
use nw_sim::station::{self, Shared, Station, Towards};
use nw_sim::wires::Wires;
use nw_tables::cs::PolicyKind;
use nw_tables::fib::NextHop;
use std::collections::BTreeMap;

/// Nothing waits behind a link here.
const NO_QUEUE: QueueState = QueueState { bytes: 0, bytes_max: u64::MAX };

/// See the module.
pub struct Simulated(Fused);

/// Next hops and strategy of each prefix that has one of them: as the simulator's own routes are, whole. `face` is that of a number.
fn whole(trace: &Trace, face: impl Fn(usize) -> FaceId) -> BTreeMap<Name, (Vec<NextHop>, String)> {
    let by_name = |name: &str| FACES.iter().position(|known| *known == name).map(&face);
    let making = Making { key: KEY, seed: 0, start_unix_ms: 0, faces: &by_name };
    let parameters = Parameters(route_parameters(trace));
    let mut reader = Reader::new(making, &parameters, Router::PARAMETERS);
    let routes = reader.routes("routes").into_iter();
    let mut table: BTreeMap<Name, (Vec<NextHop>, String)> =
        routes.map(|(prefix, hops)| (prefix, (hops, "best-route".to_owned()))).collect();
    assert_eq!(reader.into_errors(), [], "routes of traces are good");
    let mut chosen: Vec<(Name, String)> = trace
        .routes
        .strategies
        .iter()
        .filter_map(|text| text.split_once(' '))
        .map(|(prefix, strategy)| (prefix.parse().expect("a name"), strategy.to_owned()))
        .collect();
    chosen.sort();
    for (prefix, strategy) in chosen {
        let mut above = table.iter().filter(|(known, _)| known.as_ref().is_prefix_of(prefix.as_ref()));
        let inherited = above.next_back().map(|(_, (hops, _))| hops.clone()).unwrap_or_default();
        table.entry(prefix.clone()).or_insert((inherited, String::new()));
        for (_, (_, below)) in
            table.iter_mut().filter(|(known, _)| prefix.as_ref().is_prefix_of(known.as_ref()))
        {
            below.clone_from(&strategy);
        }
    }
    table
}

fn config() -> NodeConfig {
    let (pit_entries, fib_prefixes, store_packets) = SIZES;
    NodeConfig {
        pit_entries,
        fib_prefixes,
        dead_nonces: 1 << 16,
        measurements: 1 << 10,
        store_packets,
        store_octets: 1 << 20,
        store_policy: PolicyKind::Lru,
    }
}

fn set_routes(
    node: &mut dyn Node,
    trace: &Trace,
    face: impl Fn(usize) -> FaceId,
    pool: &mut Pool,
    out: &mut Vec<Packet>,
) {
    for (prefix, (hops, strategy)) in whole(trace, face) {
        let strategy: Name = format!("/localhost/nfd/strategy/{strategy}").parse().expect("a name");
        let set = node.set_route(Instant::START, prefix.as_ref(), &hops, strategy.as_ref(), pool, out);
        set.expect("routes of traces are good");
    }
}

impl InMemory for Simulated {
    fn new(trace: &Trace) -> Self {
        let mut node = Fused::new(KEY, 7, &config());
        let (mut pool, mut out) = (Pool::new(KEY, 1, 1), Vec::new());
        faces().for_each(|(face, info)| node.add_face(Instant::START, face, info, &mut pool, &mut out));
        set_routes(&mut node, trace, memory::face, &mut pool, &mut out);
        Simulated(node)
    }

    fn process(&mut self, now: Instant, packets: &mut Vec<Packet>, pool: &mut Pool, out: &mut Vec<Packet>) {
        self.0.process(now, packets, pool, out);
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    fn tick(&mut self, now: Instant, pool: &mut Pool, out: &mut Vec<Packet>) {
        self.0.tick(now, pool, out);
    }

    fn drops(&self) -> &DropCounters {
        self.0.plane().drops()
    }

    fn tables(&self) -> Tables {
        tables_of(self.0.plane())
    }
}

impl Host for Simulated {
    const NAME: &'static str = "simulator";

    fn run(trace: &Trace) -> Outcome {
        run::<Simulated>(trace, 1)
    }
}

/// A trace as the simulator can be set up for it: it has no prefix with a strategy and without a next hop.
pub fn fitting(mut trace: Trace) -> Trace {
    let hops = whole(&trace, memory::face);
    trace.routes.strategies.retain(|text| {
        let prefix = text.split_once(' ').and_then(|(prefix, _)| prefix.parse::<Name>().ok());
        prefix.and_then(|prefix| hops.get(&prefix)).is_some_and(|(hops, _)| !hops.is_empty())
    });
    trace
}

/// See the module: a station of the simulator whose faces are links, each in both directions.
pub struct Linked {
    station: Station,
    shared: Shared,
    wires: Wires,
    /// By face: towards the node, and from it.
    links: Vec<[Direction; 2]>,
    now: Instant,
}

/// Carries what it is given at once, and loses nothing.
const LINK: LinkConfig = LinkConfig {
    delay_ns: 0,
    rate_bps: 0,
    queue_packets: 64,
    queue_octets: 1 << 20,
    loss_ppb: 0,
    loss_burst: 1,
};

impl Linked {
    fn new(trace: &Trace) -> Self {
        let faces_config = FacesConfig::default();
        let mut shared = Shared::new(KEY, faces_config.reassembly);
        let mut station = Station::new(KEY, 7, config());
        for face in 0..FACES.len() {
            let towards = if face == 0 { Towards::Application(0) } else { Towards::Direction(face as u32) };
            station.add_port(towards, &LinkSettings::new(&faces_config, None), &mut shared);
        }
        let Shared { pool, out, .. } = &mut shared;
        set_routes(station.node_mut(), trace, station::face, pool, out);
        let link =
            |face| [2 * face, 2 * face + 1].map(|at| Direction::new(LINK, Random::new(7, Stream::Link, at)));
        let links = (0..FACES.len()).map(link).collect();
        Linked { station, shared, wires: Wires::new(1 << 20), links, now: Instant::from_millis(1) }
    }

    /// Puts a link packet on a face's link, and takes it off at the node.
    fn give(&mut self, face: usize, link_packet: &[u8]) {
        let now_ns = self.now.as_nanos();
        let link = &mut self.links[face][0];
        link.give(now_ns, &[link_packet], &mut self.wires);
        let wire = link.take(now_ns).expect("it carries at once");
        self.station.receive(self.now, face, self.wires.bytes(&wire), &mut self.shared);
        self.wires.free(wire);
    }

    /// Puts what leaves on links, and takes it off at their far ends.
    fn settle(&mut self, open: &mut Vec<Open>) -> Vec<Sent> {
        let (now_ns, mut sent) = (self.now.as_nanos(), Vec::new());
        for packet in core::mem::take(&mut self.shared.out) {
            let towards = self.station.send(self.now, packet, |_| NO_QUEUE, &mut self.shared);
            let face = match towards.expect("by a face that there is") {
                Towards::Application(_) => 0,
                Towards::Direction(face) => face as usize,
            };
            let Shared { outbox, pool, .. } = &mut self.shared;
            let link = &mut self.links[face][1];
            for item in outbox.items() {
                link.give(now_ns, &outbox.parts(item, pool), &mut self.wires);
                let wire = link.take(now_ns).expect("it carries at once");
                sent.push(Sent::seen(face, self.wires.bytes(&wire), open));
                self.wires.free(wire);
            }
            outbox.clear(pool);
        }
        sent
    }
}

impl Host for Linked {
    const NAME: &'static str = "simulator with links";

    fn run(trace: &Trace) -> Outcome {
        let mut host = Linked::new(trace);
        let (mut outcome, mut open) = (Outcome::default(), Vec::new());
        for step in &trace.steps {
            if let Step::Wait { ms } = step {
                for _ in 0..*ms {
                    host.now = host.now.plus_millis(1);
                    host.station.tick(host.now, &mut host.shared);
                }
            } else if let Some(incoming) = step.incoming(&open) {
                host.give(incoming.face, &incoming.link_packet());
            }
            let before = open.len();
            outcome.sent.push(host.settle(&mut open));
            order(&mut open[before..]);
        }
        for (reason, packets) in host.station.drops().iter().filter(|(_, packets)| *packets > 0) {
            outcome.drops.insert(reason.as_str().to_owned(), packets);
        }
        outcome.tables = tables::of_node(host.station.counters());
        let links = host.links.iter().flatten();
        assert!(links.clone().all(|link| link.in_flight() == 0), "every packet arrived");
        assert_eq!(host.shared.pool.packets_in_use(), 0, "every packet ended");
        outcome
    }
}
