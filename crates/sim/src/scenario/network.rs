//! What a plan says to every host that runs it: the simulator, and laboratories of real routers.

use super::{RoutingMetric, RunPlan, STRATEGY_DEFAULT, Workload};
use crate::applications::{Application, Bulk, Consumer, Producer};
use crate::link::Direction;
use crate::random::{Random, Stream};
use crate::routes::RoutingGraph;
use nw_name::Name;
use std::collections::BTreeMap;

/// A prefix that producers announce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The prefix.
    pub prefix: Name,
    /// Full name of its strategy.
    pub strategy: Name,
    /// Indices of the nodes with a producer, sorted.
    pub nodes: Vec<usize>,
}

impl RunPlan {
    /// Returns the network as seen by routing, with the metric of the scenario.
    pub fn routing_graph(&self) -> RoutingGraph {
        let metric = self.scenario.routing.metric;
        RoutingGraph::new(&self.topology, |link| match metric {
            RoutingMetric::Hops => 1,
            RoutingMetric::Delay => self.links[link].delay_ns,
            RoutingMetric::Cost => u64::from(self.topology.links[link].cost.unwrap_or(1)),
        })
    }

    /// Creates the directions of all links: two per link, from its first end and to it.
    pub fn directions(&self) -> Vec<Direction> {
        let seed = self.scenario.run.seed;
        let direction = |number: usize| {
            Direction::new(self.links[number / 2], Random::new(seed, Stream::Link, number))
        };
        (0..2 * self.links.len()).map(direction).collect()
    }

    /// Creates the applications with their nodes: producers, then consumers.
    pub fn applications(&self) -> Vec<(usize, Box<dyn Application>)> {
        let mut apps: Vec<(usize, Box<dyn Application>)> = Vec::new();
        for producer in &self.producers {
            apps.push((producer.node, Box::new(Producer::new(producer.config.clone()))));
        }
        for (number, consumer) in self.consumers.iter().enumerate() {
            let random = Random::new(self.scenario.run.seed, Stream::Application, number);
            let application: Box<dyn Application> = match &consumer.workload {
                Workload::Rate(config) => Box::new(Consumer::new(config.clone(), random)),
                Workload::Bulk(config) => Box::new(Bulk::new(config.clone(), random)),
            };
            apps.push((consumer.node, application));
        }
        apps
    }

    /// Returns the prefixes of all producers, sorted.
    pub fn announcements(&self) -> Vec<Announcement> {
        let mut by_prefix: BTreeMap<&Name, Vec<usize>> = BTreeMap::new();
        for producer in &self.producers {
            by_prefix.entry(&producer.config.prefix).or_default().push(producer.node);
        }
        let announcement = |(prefix, mut nodes): (&Name, Vec<usize>)| {
            nodes.sort_unstable();
            nodes.dedup();
            let covering = self
                .strategies
                .iter()
                .filter(|strategy| strategy.prefix.as_ref().is_prefix_of(prefix.as_ref()));
            let strategy = match covering.max_by_key(|strategy| strategy.prefix.as_ref().len()) {
                Some(configured) => configured.strategy.clone(),
                None => STRATEGY_DEFAULT.parse().expect("a constant name"),
            };
            Announcement { prefix: prefix.clone(), strategy, nodes }
        };
        by_prefix.into_iter().map(announcement).collect()
    }
}
