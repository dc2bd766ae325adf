//! Host D: a node of the simulator, by itself and with its link services and links.

use crate::fused::{SIZES, route_parameters, tables_of};
use crate::memory::{InMemory, faces, run};
use crate::trace::{OutstandingInterest, Sent, Step, sort_outstanding};
use crate::{FACES, Host, KEY, Outcome, Tables, Trace, memory, tables};
use nw_element_api::parameters::{BuildContext, ParameterReader, Parameters};
use nw_element_api::{DropCounters, FaceId, Packet, Pool, Timestamp};
use nw_elements::Router;
use nw_elements::catalogue::Configured;
use nw_link::LinkDefaults;
use nw_link::{LinkSettings, QueueState};
use nw_name::Name;
use nw_sim::link::{Direction, LinkConfig};
use nw_sim::node::{FusedNode, Node, NodeConfig};
use nw_sim::node_runtime::{NodeRuntime, PortPeer, Shared, face_id};
use nw_sim::packet_arena::PacketArena;
use nw_sim::random::{Random, Stream};
use nw_tables::cs::PolicyKind;
use nw_tables::fib::NextHop;
use std::collections::BTreeMap;

/// Links have no queue here.
const NO_QUEUE: QueueState = QueueState { bytes: 0, bytes_max: u64::MAX };

/// The simulator's node as a host.
pub struct Simulated(FusedNode);

/// Returns next hops and strategy of each prefix that has one of them, as the simulator sets
/// routes. `face` returns the id of a face.
fn route_table(
    trace: &Trace,
    face: impl Fn(usize) -> FaceId,
) -> BTreeMap<Name, (Vec<NextHop>, String)> {
    let by_name = |name: &str| FACES.iter().position(|known| *known == name).map(&face);
    let making = BuildContext { key: KEY, seed: 0, start_unix_ms: 0, faces: &by_name };
    let parameters = Parameters(route_parameters(trace));
    let mut reader = ParameterReader::new(making, &parameters, Router::PARAMETERS);
    let routes = reader.routes("routes").into_iter();
    let mut table: BTreeMap<Name, (Vec<NextHop>, String)> =
        routes.map(|(prefix, hops)| (prefix, (hops, "best-route".to_owned()))).collect();
    assert_eq!(reader.into_errors(), [], "routes of traces are valid");
    let mut strategies: Vec<(Name, String)> = trace
        .routes
        .strategies
        .iter()
        .filter_map(|text| text.split_once(' '))
        .map(|(prefix, strategy)| (prefix.parse().expect("a name"), strategy.to_owned()))
        .collect();
    strategies.sort();
    for (prefix, strategy) in strategies {
        let mut covering =
            table.iter().filter(|(known, _)| known.as_ref().is_prefix_of(prefix.as_ref()));
        let inherited = covering.next_back().map(|(_, (hops, _))| hops.clone()).unwrap_or_default();
        table.entry(prefix.clone()).or_insert((inherited, String::new()));
        for (_, (_, inherited_strategy)) in
            table.iter_mut().filter(|(known, _)| prefix.as_ref().is_prefix_of(known.as_ref()))
        {
            inherited_strategy.clone_from(&strategy);
        }
    }
    table
}

fn config() -> NodeConfig {
    let (pit_entries, fib_prefixes, store_packets) = SIZES;
    NodeConfig {
        pit_entries,
        fib_prefixes,
        // As in the other hosts: nonces that share a place are forgotten alike.
        dead_nonces: 1 << 18,
        measurements: 1 << 10,
        store_packets,
        store_bytes: 1 << 20,
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
    for (prefix, (hops, strategy)) in route_table(trace, face) {
        let strategy: Name = format!("/localhost/nfd/strategy/{strategy}").parse().expect("a name");
        let set =
            node.set_route(Timestamp::START, prefix.as_ref(), &hops, strategy.as_ref(), pool, out);
        set.expect("routes of traces are valid");
    }
}

impl InMemory for Simulated {
    fn new(trace: &Trace) -> Self {
        let mut node = FusedNode::new(KEY, 7, &config());
        let (mut pool, mut out) = (Pool::new(KEY, 1, 1), Vec::new());
        faces().for_each(|(face, info)| {
            node.add_face(Timestamp::START, face, info, &mut pool, &mut out)
        });
        set_routes(&mut node, trace, memory::face, &mut pool, &mut out);
        Simulated(node)
    }

    fn process(
        &mut self,
        now: Timestamp,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        self.0.process(now, packets, pool, out);
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.0.deadline()
    }

    fn tick(&mut self, now: Timestamp, pool: &mut Pool, out: &mut Vec<Packet>) {
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

/// Removes strategies of prefixes without next hops, which the simulator can't represent.
pub fn restrict(mut trace: Trace) -> Trace {
    let hops = route_table(&trace, memory::face);
    trace.routes.strategies.retain(|text| {
        let prefix = text.split_once(' ').and_then(|(prefix, _)| prefix.parse::<Name>().ok());
        prefix.and_then(|prefix| hops.get(&prefix)).is_some_and(|(hops, _)| !hops.is_empty())
    });
    trace
}

/// The simulator's node with its link services; its faces are links in both directions.
pub struct Linked {
    node: NodeRuntime,
    shared: Shared,
    arena: PacketArena,
    /// By face: the direction to the node, and the one from it.
    links: Vec<[Direction; 2]>,
    now: Timestamp,
}

/// A link without delay and loss.
const LINK: LinkConfig = LinkConfig {
    delay_ns: 0,
    rate_bps: 0,
    queue_packets: 64,
    queue_bytes: 1 << 20,
    loss_ppb: 0,
    loss_burst: 1,
};

impl Linked {
    fn new(trace: &Trace) -> Self {
        let faces_config = LinkDefaults::default();
        let mut shared = Shared::new(KEY, nw_link::ReassemblyLimits::default());
        let mut node = NodeRuntime::new(KEY, 7, config());
        for face in 0..FACES.len() {
            let peer =
                if face == 0 { PortPeer::Application(0) } else { PortPeer::Direction(face as u32) };
            node.add_port(peer, &LinkSettings::new(&faces_config, None), &mut shared);
        }
        let Shared { pool, out, .. } = &mut shared;
        set_routes(node.node_mut(), trace, face_id, pool, out);
        let link = |face| {
            [2 * face, 2 * face + 1]
                .map(|at| Direction::new(LINK, Random::new(7, Stream::Link, at)))
        };
        let links = (0..FACES.len()).map(link).collect();
        Linked {
            node,
            shared,
            arena: PacketArena::new(1 << 20),
            links,
            now: Timestamp::from_millis(1),
        }
    }

    /// Transmits a link packet on a face's link and receives it at the node.
    fn deliver(&mut self, face: usize, link_packet: &[u8]) {
        let now_ns = self.now.as_nanos();
        let link = &mut self.links[face][0];
        link.transmit(now_ns, &[link_packet], &mut self.arena);
        let packet = link.next_arrival(now_ns).expect("the link has no delay");
        self.node.receive(self.now, face, self.arena.bytes(&packet), &mut self.shared);
        self.arena.free(packet);
    }

    /// Transmits packets that leave on links and receives them at the other end.
    fn collect_sent(&mut self, outstanding: &mut Vec<OutstandingInterest>) -> Vec<Sent> {
        let (now_ns, mut sent) = (self.now.as_nanos(), Vec::new());
        for packet in core::mem::take(&mut self.shared.out) {
            let peer = self.node.send(self.now, packet, |_| NO_QUEUE, &mut self.shared);
            let face = match peer.expect("by an existing face") {
                PortPeer::Application(_) => 0,
                PortPeer::Direction(face) => face as usize,
            };
            let Shared { outbox, pool, .. } = &mut self.shared;
            let link = &mut self.links[face][1];
            for item in outbox.items() {
                link.transmit(now_ns, &outbox.parts(item, pool), &mut self.arena);
                let packet = link.next_arrival(now_ns).expect("the link has no delay");
                sent.push(Sent::from_link_packet(face, self.arena.bytes(&packet), outstanding));
                self.arena.free(packet);
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
        let (mut outcome, mut outstanding) = (Outcome::default(), Vec::new());
        for step in &trace.steps {
            if let Step::Wait { ms } = step {
                for _ in 0..*ms {
                    host.now = host.now.plus_millis(1);
                    host.node.tick(host.now, &mut host.shared);
                }
            } else if let Some(incoming) = step.incoming(&outstanding) {
                host.deliver(incoming.face, &incoming.link_packet());
            }
            let before = outstanding.len();
            outcome.sent.push(host.collect_sent(&mut outstanding));
            sort_outstanding(&mut outstanding[before..]);
        }
        for (reason, packets) in host.node.drops().iter().filter(|(_, packets)| *packets > 0) {
            outcome.drops.insert(reason.as_str().to_owned(), packets);
        }
        outcome.tables = tables::of_node(host.node.counters());
        let links = host.links.iter().flatten();
        assert!(links.clone().all(|link| link.in_flight() == 0), "no packet is in flight");
        assert_eq!(host.shared.pool.packets_in_use(), 0, "no packet is left in the pool");
        outcome
    }
}
