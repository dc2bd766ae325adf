//! `lipsin/memory`, `pubsub/tree`, `rendezvous/local`: the pure parts of publish/subscribe, without
//! sockets. Times are processor times.
//!
//! - `lipsin/memory`: a publication through the forwarder of a node with 16 links, decoding
//!   included, by one link and by four. Reference: the comparisons alone.
//! - `pubsub/tree`: one more subscriber node in a domain of 1,000 nodes where nearly all subscribe.
//!   Reference: the whole tree made anew, as each change costs in Blackadder.
//! - `rendezvous/local`: subscriptions of 200 applications to items of 100,000, each ended again.

use crate::report::Row;
use nw_element_api::decode::decode;
use nw_element_api::{Context, DropCounters, Element, FaceId, Outbox, Packet, Pool, Timestamp};
use nw_elements::lipsin_forwarder::{In, LipsinLink, Out};
use nw_elements::{LipsinForwarder, LipsinForwarderConfig};
use nw_name::HashKey;
use nw_packet_types::random::splitmix64;
use nw_pubsub::filter::LinkScheme;
use nw_pubsub::rendezvous::{ItemKey, MembershipChange, Publisher};
use nw_pubsub::{
    ItemOptions, Rendezvous, RendezvousLimits, Request, Strategy, Topology, TopologyConfig,
};
use nw_wire::publication::{
    EnvelopeBuilder, Fid, Id, Label, LinkAdvertisement, NeighbourLink, Operation, RequestFlags,
};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;

const RUNS: usize = 9;
const NOW: Timestamp = Timestamp::START;

/// Returns the nanoseconds of processor time of this thread: other load of the machine is left out.
pub(crate) fn processor_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Measures the rows.
pub fn run(row: &str) -> Vec<Row> {
    match row {
        "lipsin/memory" => lipsin(),
        "pubsub/tree" => tree(),
        "rendezvous/local" => rendezvous(),
        _ => Vec::new(),
    }
}

const LINKS: u32 = 16;
const BATCH: usize = 64;
const BATCHES: usize = 2000;
const PAYLOAD_LEN: usize = 200;

fn lipsin() -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, links) in [("lipsin/memory", 1), ("lipsin/memory/fan4", 4)] {
        let runs: Vec<f64> = (0..RUNS).map(|_| forwarder_ns(links)).collect();
        let reference: Vec<f64> = (0..RUNS).map(|_| comparisons_ns()).collect();
        let row = Row::new(name, "ns_per_packet", &runs)
            .with_reference(crate::report::median(&reference));
        rows.push(row);
    }
    rows
}

/// Returns the identifiers of the node's links in a table.
fn link_ids(table: u8) -> Vec<Fid> {
    let scheme = LinkScheme::default();
    (1..=LINKS).map(|link| scheme.link_id(300 + link, table).expect("a candidate table")).collect()
}

/// Publications that leave by `links` of the links; each has another forwarding identifier.
fn publications(links: usize) -> Vec<Vec<u8>> {
    let publication = |number: usize| {
        let table = (number % 8) as u8;
        let ids = link_ids(table);
        let fid =
            (0..links).fold(Fid::EMPTY, |fid, at| fid.union(ids[(number + 3 * at) % ids.len()]));
        let id = [Id::new(vec![Label::from_number(1), Label::from_number(number as u64)])];
        let mut wire = Vec::new();
        let payload = [7; PAYLOAD_LEN];
        EnvelopeBuilder {
            hop_limit: 9,
            table,
            fid,
            ids: &id,
            payload: &payload,
            ..Default::default()
        }
        .encode(&mut wire)
        .expect("a short packet");
        wire
    };
    (0..BATCH).map(publication).collect()
}

fn forwarder_ns(links: usize) -> f64 {
    let key = HashKey::new([1, 2, 3, 4]);
    let mut pool = Pool::new(key, 64, 4096);
    let mut forwarder = LipsinForwarder::new(LipsinForwarderConfig::default());
    let link = |at: u32| LipsinLink {
        face: FaceId::from_bits(300 + at),
        outgoing: 300 + at,
        incoming: Some(400 + at),
    };
    forwarder.set_internal(Some(299));
    forwarder.set_links(&(1..=LINKS).map(link).collect::<Vec<_>>());
    let (mut out, mut drops) = (Outbox::<Out>::with_capacity(BATCH), DropCounters::default());
    let wires = publications(links);
    let (mut nanos, mut emitted) = (0.0, 0);
    for _ in 0..BATCHES {
        let packets: Vec<Packet> =
            wires.iter().map(|wire| pool.copy_of(wire).expect("the pool has room")).collect();
        let start = processor_ns();
        for packet in packets {
            decode(&mut pool, &packet).expect("a publication");
            let context = &mut Context { pool: &mut pool, out: &mut out, drops: &mut drops };
            forwarder.process(NOW, In::Packet, packet, context);
            out.take_all(|_, packet| {
                emitted += 1;
                pool.release(packet);
            });
        }
        nanos += processor_ns() - start;
    }
    // False positives among the 16 links are possible and rare.
    let least = BATCH * BATCHES * links;
    assert!((least..least * 11 / 10).contains(&emitted), "{emitted} copies of {least}");
    nanos / (BATCH * BATCHES) as f64
}

fn comparisons_ns() -> f64 {
    let tables: Vec<Vec<Fid>> = (0..8).map(link_ids).collect();
    let fids: Vec<Fid> = (0..BATCH).map(|at| tables[at % 8][at % LINKS as usize]).collect();
    let (mut found, start) = (0, processor_ns());
    for _ in 0..BATCHES {
        for (at, fid) in fids.iter().enumerate() {
            found += tables[at % 8].iter().filter(|id| black_box(fid).contains(id)).count();
        }
    }
    let nanos = processor_ns() - start;
    assert!(found >= BATCH * BATCHES);
    nanos / (BATCH * BATCHES) as f64
}

const NODES: u32 = 1000;
const JOINS: usize = 500;

fn node(number: u32) -> Label {
    Label::from_number(1000 + u64::from(number))
}

/// A domain of 1,000 nodes and some 2,600 unidirectional links: a tree with chords.
fn domain() -> Topology {
    let mut topology = Topology::new(TopologyConfig::default());
    let mut links = vec![Vec::new(); NODES as usize];
    let mut connect = |from: u32, to: u32, cost| {
        links[from as usize].push(NeighbourLink { neighbour: node(to), cost });
        links[to as usize].push(NeighbourLink { neighbour: node(from), cost });
    };
    (1..NODES).for_each(|at| connect((at - 1) / 3, at, 1));
    (0..NODES / 3).for_each(|at| connect(at, NODES - 1 - at, 2));
    for (at, links) in links.into_iter().enumerate() {
        topology.advertise(&LinkAdvertisement { node: node(at as u32), sequence: 1, links }, NOW);
    }
    topology
}

fn change(version: u32) -> MembershipChange {
    MembershipChange {
        item: ItemKey(1 << 32 | 1),
        version,
        strategy: Strategy::Domain,
        options: ItemOptions::default(),
        publishers_joined: Vec::new(),
        publishers_left: Vec::new(),
        subscribers_joined: Vec::new(),
        subscribers_left: Vec::new(),
        ids: vec![Id::new(vec![Label::from_number(1), Label::from_number(2)])],
        ended: false,
    }
}

/// The first change of the item: a publisher, and all nodes subscribe.
fn whole_membership() -> MembershipChange {
    MembershipChange {
        publishers_joined: vec![Publisher { client: node(0), strength: 0 }],
        subscribers_joined: (0..NODES).map(node).collect(),
        ..change(1)
    }
}

fn tree() -> Vec<Row> {
    let (mut joins, mut whole) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let mut topology = domain();
        let start = processor_ns();
        assert!(topology.apply(&whole_membership()).len() > 1, "the tree has parts");
        whole.push((processor_ns() - start) / 1000.0);
        let (mut nanos, mut version) = (0.0, 1);
        for join in 0..JOINS {
            let at = splitmix64((run * JOINS + join) as u64) % u64::from(NODES);
            let moved = vec![node(at as u32)];
            version += 1;
            let left = MembershipChange {
                subscribers_left: moved.clone(),
                ids: vec![],
                ..change(version)
            };
            assert_eq!(topology.apply(&left).len(), 1, "one part changes");
            version += 1;
            let joined =
                MembershipChange { subscribers_joined: moved, ids: vec![], ..change(version) };
            let start = processor_ns();
            let deliveries = black_box(topology.apply(&joined));
            nanos += processor_ns() - start;
            assert_eq!(deliveries.len(), 1, "one part changes");
        }
        joins.push(nanos / 1000.0 / JOINS as f64);
    }
    vec![
        Row::new("pubsub/tree", "us_per_join", &joins)
            .with_reference(crate::report::median(&whole)),
    ]
}

const ITEMS: u64 = 100_000;
const APPLICATIONS: u64 = 200;
const SUBSCRIPTIONS: u64 = 100_000;

fn request(client: u64, operation: Operation, scope: Option<u64>, label: u64) -> Request {
    Request {
        number: 0,
        client: Label::from_number(client),
        operation,
        strategy: Some(Strategy::NodeLocal as u8),
        flags: RequestFlags::default(),
        strength: 0,
        wildcards: 0,
        id: Id::new(vec![Label::from_number(label)]),
        prefix: Id::new(scope.map(Label::from_number).into_iter().collect()),
        name: String::new(),
    }
}

fn rendezvous() -> Vec<Row> {
    let (mut per_s, mut advertise, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS as u64 {
        let mut rendezvous = Rendezvous::new(RendezvousLimits::default());
        rendezvous.handle(&request(1, Operation::PublishScope, None, 1), NOW);
        let start = processor_ns();
        for item in 0..ITEMS {
            let label = splitmix64(item);
            let effects =
                rendezvous.handle(&request(1, Operation::PublishItem, Some(1), label), NOW);
            assert!(effects.len() > 1, "the item is new");
        }
        advertise.push((processor_ns() - start) / 1000.0 / ITEMS as f64);
        bytes.push(rendezvous.memory_bytes() as f64 / ITEMS as f64);
        let start = processor_ns();
        for number in 0..SUBSCRIPTIONS {
            let label = splitmix64(splitmix64(run * SUBSCRIPTIONS + number) % ITEMS);
            let client = 2 + number % APPLICATIONS;
            for operation in [Operation::SubscribeItem, Operation::UnsubscribeItem] {
                let effects = rendezvous.handle(&request(client, operation, Some(1), label), NOW);
                assert!(effects.len() > 1, "the publisher is told to start and to stop");
            }
        }
        per_s.push(SUBSCRIPTIONS as f64 / ((processor_ns() - start) / 1e9));
    }
    let name = "rendezvous/local";
    vec![
        Row::new(name, "per_s_core", &per_s),
        Row::new(name, "us_per_advertisement_core", &advertise),
        Row::new(name, "bytes_per_item", &bytes),
    ]
}
