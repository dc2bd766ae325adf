//! `pubsub/join`: one more subscriber in a domain of 1,000 nodes of `nw run`'s own domain code,
//! each with four links, in virtual time and without sockets. Times are processor times.
//!
//! - `us_at_joining_node`: the new record, until its packets are queued.
//! - `us_at_other_node`: all copies of it at each other node, mean, until all know it.
//! - `us_at_publisher`: the first publication after it, to half of the nodes and the new ones,
//!   until its packets are queued.
//! - `bytes_per_node`: bytes that each node sends for it, mean, from the UDP payload on.

use crate::publish_subscribe::processor_ns;
use crate::report::Row;
use nw_api::pubsub::{ItemName, ScopePattern, Strategy};
use nw_packet_types::random::splitmix64;
use nw_pubsub_node::raw::{Domain, LaterUse, LinkAddress, PatternSet, Target};
use std::net::{Ipv4Addr, SocketAddr};

const NODES: usize = 1000;
/// From a node to the other two neighbours: a ring of rings.
const STEP: usize = 31;
const RUNS: u64 = 5;
const JOINS: u64 = 10;
const TICK_MS: u64 = 10;
const HELLO_MS: u32 = 100;
/// Milliseconds until the domain must be complete.
const FORMED_MS: u64 = 5000;

/// What all nodes did until no packet was left.
#[derive(Default)]
struct Cost {
    bytes: usize,
    receive_ns: f64,
}

struct Simulation {
    domains: Vec<Domain>,
    now_ms: u64,
}

fn address(node: usize) -> LinkAddress {
    let [high, low] = (node as u16).to_be_bytes();
    SocketAddr::from((Ipv4Addr::new(10, 0, high, low), 55_555)).into()
}

fn neighbours(node: usize) -> [usize; 4] {
    [1, STEP, NODES - STEP, NODES - 1].map(|step| (node + step) % NODES)
}

fn is_for(target: &Target, node: usize) -> bool {
    match target {
        Target::Everyone => true,
        Target::Neighbour(to) => *to == address(node),
    }
}

impl Simulation {
    fn new() -> Self {
        let node = |number| Domain::new(splitmix64(number), HELLO_MS, 1 << 20);
        let mut simulation =
            Simulation { domains: (0..NODES as u64).map(node).collect(), now_ms: 1000 };
        while simulation.domains.iter().any(|domain| domain.node_count() != NODES - 1) {
            assert!(simulation.now_ms < 1000 + FORMED_MS, "the domain is complete");
            simulation.now_ms += TICK_MS;
            simulation.tick();
            simulation.exchange();
        }
        simulation
    }

    /// Returns the nanoseconds of processor time.
    fn tick(&mut self) -> f64 {
        let start = processor_ns();
        self.domains.iter_mut().for_each(|domain| domain.tick(self.now_ms));
        processor_ns() - start
    }

    fn exchange(&mut self) -> Cost {
        let mut cost = Cost::default();
        loop {
            let mut arriving = Vec::new();
            for (from, domain) in self.domains.iter_mut().enumerate() {
                for run in domain.packets.runs() {
                    for (target, bytes) in run.packets() {
                        let to = neighbours(from).into_iter().filter(|to| is_for(target, *to));
                        arriving.extend(to.map(|to| (from, to, bytes.to_vec())));
                    }
                }
                domain.packets.clear();
                domain.events.clear();
            }
            if arriving.is_empty() {
                return cost;
            }
            cost.bytes += arriving.iter().map(|(.., bytes)| bytes.len()).sum::<usize>();
            let start = processor_ns();
            for (from, to, bytes) in &arriving {
                self.domains[*to].receive(self.now_ms, address(*from), bytes);
            }
            cost.receive_ns += processor_ns() - start;
        }
    }

    /// Subscribes an application of a node. Returns the nanoseconds of processor time.
    fn subscribe(&mut self, node: usize, pattern: &str) -> f64 {
        let told: Vec<ScopePattern> = vec![pattern.parse().expect("a pattern")];
        let accepted: PatternSet = told.iter().collect();
        let start = processor_ns();
        self.domains[node].set_patterns(told, accepted);
        processor_ns() - start
    }
}

/// Measures the row.
pub fn run() -> Vec<Row> {
    let name: ItemName = "/bench/item".parse().expect("a name");
    let mut simulation = Simulation::new();
    (0..NODES).step_by(2).for_each(|node| {
        simulation.subscribe(node, "/bench/*");
    });
    simulation.exchange();
    simulation.tick();
    let mut columns: [Vec<f64>; 4] = Default::default();
    for run in 0..RUNS {
        let mut sums = [0.0; 4];
        for join in 0..JOINS {
            let number = run * JOINS + join;
            let node = (2 * number as usize + 1) * 37 % NODES;
            sums[0] += simulation.subscribe(node, "/bench/*");
            let cost = simulation.exchange();
            sums[1] += (cost.receive_ns + simulation.tick()) / (NODES - 1) as f64;
            sums[3] += cost.bytes as f64 / NODES as f64;
            let publisher = &mut simulation.domains[0];
            let start = processor_ns();
            let nodes = publisher.receivers([&name], Strategy::Domain);
            publisher.publish(&name, number + 1, b"x", LaterUse::default(), &nodes);
            sums[2] += processor_ns() - start;
            assert_eq!(nodes.len(), NODES / 2 + number as usize, "a node more each time");
            simulation.exchange();
        }
        for (column, sum) in columns.iter_mut().zip(sums) {
            column.push(sum / JOINS as f64);
        }
    }
    let [joining, other, publisher, bytes] = columns;
    let us = |column: Vec<f64>| column.iter().map(|ns| ns / 1000.0).collect::<Vec<f64>>();
    vec![
        Row::new("pubsub/join", "us_at_joining_node", &us(joining)),
        Row::new("pubsub/join", "us_at_other_node", &us(other)),
        Row::new("pubsub/join", "us_at_publisher", &us(publisher)),
        Row::new("pubsub/join", "bytes_per_node", &bytes),
    ]
}
