//! Host D: a node of the simulator.

use crate::fused::SIZES;
use crate::fused::tables_of;
use crate::memory::{InMemory, faces, run};
use crate::{Host, KEY, Outcome, Routes, Trace, memory};
use nw_element::{DropCounters, Instant, Packet, Pool};
use nw_name::Name;
use nw_sim::node::{Fused, Node, NodeConfig};
use nw_tables::cs::PolicyKind;
use nw_tables::fib::NextHop;
use std::collections::BTreeMap;

/// See the module.
pub struct Simulated(Fused);

/// Next hops and strategy of each prefix that has one of them: as the simulator's own routes are, whole.
fn whole(routes: &Routes) -> BTreeMap<Name, (Vec<NextHop>, String)> {
    let mut table: BTreeMap<Name, (Vec<NextHop>, String)> = BTreeMap::new();
    for text in &routes.routes {
        let mut words = text.split_whitespace();
        let prefix: Name = words.next().unwrap_or("/").parse().expect("a name");
        let mut hops: Vec<NextHop> = Vec::new();
        for word in words {
            match word.strip_prefix("cost=") {
                Some(cost) => hops.last_mut().expect("behind a face").cost = cost.parse().expect("a number"),
                None => {
                    let number = crate::FACES.iter().position(|face| *face == word).expect("a face");
                    hops.push(NextHop { face: memory::face(number), cost: 0 });
                }
            }
        }
        table.insert(prefix, (hops, "best-route".to_owned()));
    }
    let mut chosen: Vec<(Name, String)> = routes
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

impl InMemory for Simulated {
    fn new(trace: &Trace) -> Self {
        let (pit_entries, fib_prefixes, store_packets) = SIZES;
        let config = NodeConfig {
            pit_entries,
            fib_prefixes,
            dead_nonces: 1 << 16,
            measurements: 1 << 10,
            store_packets,
            store_octets: 1 << 20,
            store_policy: PolicyKind::Lru,
        };
        let mut node = Fused::new(KEY, 7, &config);
        let (mut pool, mut out) = (Pool::new(KEY, 1, 1), Vec::new());
        faces().for_each(|(face, info)| node.add_face(Instant::START, face, info, &mut pool, &mut out));
        for (prefix, (hops, strategy)) in whole(&trace.routes) {
            let strategy: Name = format!("/localhost/nfd/strategy/{strategy}").parse().expect("a name");
            let set = node.set_route(
                Instant::START,
                prefix.as_ref(),
                &hops,
                strategy.as_ref(),
                &mut pool,
                &mut out,
            );
            set.expect("routes of traces are good");
        }
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

    fn tables(&self) -> [u64; 4] {
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
    let hops = whole(&trace.routes);
    trace.routes.strategies.retain(|text| {
        let prefix = text.split_once(' ').and_then(|(prefix, _)| prefix.parse::<Name>().ok());
        prefix.and_then(|prefix| hops.get(&prefix)).is_some_and(|(hops, _)| !hops.is_empty())
    });
    trace
}
