//! From options that are right one by one to a plan that can be run: names that must be there, options that contradict each other.

use super::actions::{self, Timed};
use super::expect::Expectation;
use super::options::{Arrivals, ConsumerItem, ConsumerKind, Policy, ProducerItem, Signature};
use super::{LinkItem, NodeItem, Scenario};
use crate::applications::{BulkConfig, ConsumerConfig, Names, ProducerConfig};
use crate::link::LinkConfig;
use crate::node::NodeConfig;
use crate::random::{Random, Stream};
use crate::topology::{Edge, Topology};
use core::time::Duration;
use nw_api::config::problem::Source;
use nw_api::config::read::Places;
use nw_app::fetch::FetchOptions;
use nw_element_api::Instant;
use nw_elements::strategy::{Strategy, StrategyError};
use nw_name::{Name, NameRef};
use nw_report_kit::zipf::Zipf;
use nw_tables::cs::PolicyKind;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Applications of one run.
const APPLICATIONS_MAX: usize = 100_000;
/// Octets of a prefix with room for what consumers append to it.
const PREFIX_OCTETS_MAX: usize = 2000;

/// A scenario that can be run.
#[derive(Clone, Debug)]
pub struct Checked {
    /// As it is written, with what the command line changed.
    pub scenario: Scenario,
    /// Nodes and links.
    pub topology: Topology,
    /// By node.
    pub nodes: Vec<NodePlan>,
    /// By link.
    pub links: Vec<LinkConfig>,
    /// Who answers.
    pub producers: Vec<ProducerPlan>,
    /// Who asks.
    pub consumers: Vec<ConsumerPlan>,
    /// By prefix.
    pub strategies: Vec<StrategyPlan>,
    /// What happens when, in order.
    pub actions: Vec<Timed>,
    /// What must hold.
    pub expectations: Vec<Expectation>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Its tables.
    pub config: NodeConfig,
}

/// A producer at a node.
#[derive(Clone, Debug)]
pub struct ProducerPlan {
    /// Its name, with the node behind an @.
    pub name: String,
    /// Where.
    pub node: usize,
    /// How it answers.
    pub config: ProducerConfig,
}

/// A consumer at a node.
#[derive(Clone, Debug)]
pub struct ConsumerPlan {
    /// Its name, with the node behind an @.
    pub name: String,
    /// Where.
    pub node: usize,
    /// As it is written.
    pub kind: ConsumerKind,
    /// How it asks.
    pub asks: Asks,
}

/// How a consumer asks.
#[derive(Clone, Debug)]
pub enum Asks {
    /// At a rate.
    Rate(ConsumerConfig),
    /// As fast as its window allows.
    Bulk(BulkConfig),
}

/// The strategy of a prefix.
#[derive(Clone, Debug)]
pub struct StrategyPlan {
    /// For names under this.
    pub prefix: Name,
    /// Its whole name.
    pub strategy: Name,
}

/// The strategy where none was chosen.
pub const STRATEGY_DEFAULT: &str = "/localhost/nfd/strategy/best-route";

struct Check<'a, 'b> {
    places: &'a Places,
    source: &'a mut Source<'b>,
}

impl Check<'_, '_> {
    fn say(&mut self, option: &str, seen: impl Into<String>, expected: impl Into<String>) {
        let shown = self.places.shown(option);
        if !self.source.is_unread(&shown) {
            self.source.problem(&self.places.near(option), shown, seen, expected);
        }
    }
}

pub fn check(scenario: Scenario, beside: Option<&Path>, places: &Places, source: &mut Source<'_>) -> Checked {
    let mut check = Check { places, source };
    let topology = topology(&scenario, beside, &mut check);
    let usual = LinkConfig {
        delay_ns: scenario.links.delay_ms.0,
        rate_bps: scenario.links.rate_mbps.0,
        queue_packets: scenario.links.queue_packets,
        queue_octets: u64::from(scenario.links.queue_kib) * 1024,
        loss_ppb: scenario.links.loss.0 as u32,
        loss_burst: scenario.links.loss_burst,
    };
    let links = topology.links.iter().map(|edge| edge.config(&usual)).collect();
    if (1..64).contains(&scenario.links.mtu) {
        check.say("links.mtu", scenario.links.mtu.to_string(), "0, or at least 64");
    }
    let mut producers = Vec::new();
    for (index, item) in scenario.producer.iter().enumerate() {
        producers.extend(self::producers(&scenario, item, index, &topology, &mut check));
    }
    let mut consumers = Vec::new();
    for (index, item) in scenario.consumer.iter().enumerate() {
        consumers.extend(self::consumers(&scenario, item, index, &topology, &mut check));
    }
    if scenario.consumer.is_empty() && !places.contains("consumer") {
        check.say("consumer", "no [[consumer]]", "at least one, so that something happens");
    }
    if producers.len() + consumers.len() > APPLICATIONS_MAX {
        check.say("consumer", "too many applications", format!("at most {APPLICATIONS_MAX}"));
    }
    distinct(&mut producers, &mut consumers);
    let strategies = strategies(&scenario, &mut check);
    let mut prefixes: Vec<&Name> = producers.iter().map(|producer| &producer.config.prefix).collect();
    prefixes.sort();
    prefixes.dedup();
    let fib_prefixes = prefixes.len() + 16;
    let mut nodes = vec![NodePlan { config: usual_node(&scenario, fib_prefixes) }; topology.nodes.len()];
    for item in &scenario.node {
        if let Some(node) = topology.find(&item.name) {
            change(&mut nodes[node].config, item);
        }
    }
    let actions = actions(&scenario, &topology, &mut check);
    let expectations = expectations(&scenario, &consumers, &mut check);
    Checked { scenario, topology, nodes, links, producers, consumers, strategies, actions, expectations }
}

fn topology(scenario: &Scenario, beside: Option<&Path>, check: &mut Check<'_, '_>) -> Topology {
    let section = &scenario.topology;
    let mut topology = match (&section.generate, &section.file) {
        (Some(_), Some(_)) => {
            check.say("topology.file", "generate and file", "one of them");
            Topology::default()
        }
        (Some(text), None) => Topology::generate(text, scenario.run.seed).unwrap_or_else(|error| {
            let expected = error.0.strip_prefix(&format!("no topology {text:?}: write ")).unwrap_or(&error.0);
            check.say("topology.generate", format!("{text:?}"), expected);
            Topology::default()
        }),
        (None, Some(path)) => {
            let path = beside.map_or_else(|| path.clone(), |folder| folder.join(path));
            Topology::load(&path).unwrap_or_else(|error| {
                check.say("topology.file", "a file that can't be used", error.0.replace('\n', "; "));
                Topology::default()
            })
        }
        (None, None) => Topology::default(),
    };
    for (index, item) in scenario.node.iter().enumerate() {
        if let Err(error) = topology.node(&item.name) {
            check.say(&format!("node[{index}].name"), format!("{:?}", item.name), error.0);
        }
    }
    for (index, item) in scenario.link.iter().enumerate() {
        if let Err(error) = link(&mut topology, item) {
            check.say(&format!("link[{index}].to"), format!("{:?}", item.to), error.0);
        }
    }
    if topology.nodes.is_empty() && section.generate.is_none() && section.file.is_none() {
        check.say(
            "topology",
            "no node",
            "[topology] generate = \"grid:10x10\", or file, or [[link]] sections",
        );
    }
    topology
}

fn link(topology: &mut Topology, item: &LinkItem) -> Result<usize, crate::topology::TopologyError> {
    let (a, b) = (topology.node(&item.from)?, topology.node(&item.to)?);
    topology.link(Edge {
        delay_ns: item.delay_ms.map(|ms| ms.0),
        rate_bps: item.rate_mbps.map(|mbps| mbps.0),
        queue_packets: item.queue_packets,
        queue_octets: item.queue_kib.map(|kib| u64::from(kib) * 1024),
        loss_ppb: item.loss.map(|share| share.0 as u32),
        loss_burst: item.loss_burst,
        cost: item.cost,
        ..Edge::between(a, b)
    })
}

fn usual_node(scenario: &Scenario, fib_prefixes: usize) -> NodeConfig {
    let routers = &scenario.routers;
    let store_packets = routers.store_packets as usize;
    NodeConfig {
        pit_entries: routers.pit_entries as usize,
        fib_prefixes,
        dead_nonces: routers.dead_nonces as usize,
        measurements: routers.measurements as usize,
        store_packets,
        store_octets: store_octets(store_packets, routers.store_kib),
        store_policy: match routers.store_policy {
            Policy::Lru => PolicyKind::Lru,
            Policy::PriorityFifo => PolicyKind::PriorityFifo,
            Policy::S3Fifo => PolicyKind::S3Fifo,
        },
    }
}

/// Room for packets of the usual length, unless said otherwise. A table is as large as it may become, and large ones come in large pages.
fn store_octets(packets: usize, kib: Option<u32>) -> usize {
    if packets == 0 { 0 } else { kib.map_or(2 * packets, |kib| kib as usize) * 1024 }
}

fn change(config: &mut NodeConfig, item: &NodeItem) {
    if item.store_packets.is_some() || item.store_kib.is_some() {
        config.store_packets = item.store_packets.map_or(config.store_packets, |packets| packets as usize);
        config.store_octets = store_octets(config.store_packets, item.store_kib);
    }
    if let Some(entries) = item.pit_entries {
        config.pit_entries = entries as usize;
    }
}

/// The nodes that a list such as `["a", "random:3"]` means, in order, each once. `stream` tells lists apart.
fn places(
    list: &[String],
    option: &str,
    (seed, stream): (u64, usize),
    topology: &Topology,
    check: &mut Check<'_, '_>,
) -> Vec<usize> {
    let mut found = Vec::new();
    if list.is_empty() {
        check.say(option, "an empty list", "at least one node, \"all\", \"leaves\" or \"random:3\"");
    }
    let all = 0..topology.nodes.len();
    for word in list {
        match (topology.find(word), word.as_str(), word.strip_prefix("random:")) {
            (Some(node), ..) => found.push(node),
            (None, "all", _) => found.extend(all.clone()),
            (None, "leaves", _) => {
                let degrees = topology.degrees();
                found.extend(all.clone().filter(|node| degrees[*node] == 1));
            }
            (None, _, Some(count)) => match count.parse() {
                Ok(count) if (1..=all.len()).contains(&count) => {
                    let mut random = Random::new(seed, Stream::Places, stream);
                    let mut left: Vec<usize> = all.clone().collect();
                    let drawn =
                        (0..count).map(|_| left.swap_remove(random.below(left.len() as u64) as usize));
                    found.extend(drawn);
                }
                _ => check.say(
                    option,
                    format!("{word:?}"),
                    format!("random: and a number from 1 to {}", all.len()),
                ),
            },
            (None, ..) if topology.nodes.is_empty() => {}
            (None, ..) => check.say(
                option,
                format!("{word:?}"),
                format!(
                    "a node of the topology (such as {}), \"all\", \"leaves\" or \"random:3\"",
                    topology.nodes[0].name
                ),
            ),
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn producers(
    scenario: &Scenario,
    item: &ProducerItem,
    index: usize,
    topology: &Topology,
    check: &mut Check<'_, '_>,
) -> Vec<ProducerPlan> {
    prefix(&item.prefix, &format!("producer[{index}].prefix"), check);
    let option = format!("producer[{index}].at");
    let nodes = places(&item.at, &option, (scenario.run.seed, 2 * index), topology, check);
    let config = ProducerConfig {
        prefix: item.prefix.clone(),
        payload_octets: item.payload as usize,
        freshness_ms: u64::from(item.freshness_ms),
        segments: u64::from(item.segments),
        delay: Duration::from_nanos(item.delay_ms.0),
        digest: item.signature == Signature::Digest,
    };
    let plan =
        |node: usize| ProducerPlan { name: named(&item.name, node, topology), node, config: config.clone() };
    nodes.into_iter().map(plan).collect()
}

fn named(name: &str, node: usize, topology: &Topology) -> String {
    format!("{name}@{}", topology.nodes[node].name)
}

fn prefix(prefix: &Name, option: &str, check: &mut Check<'_, '_>) {
    let octets = prefix.as_ref().as_bytes().len();
    if prefix.as_ref().is_empty() || prefix.as_ref().len() > 24 || octets > PREFIX_OCTETS_MAX {
        check.say(
            option,
            prefix.to_string(),
            format!("1 to 24 components, at most {PREFIX_OCTETS_MAX} octets"),
        );
    }
    let scopes = ["/localhost", "/localhop"].map(|scope| scope.parse::<Name>().expect("a constant name"));
    if scopes.iter().any(|scope| scope.as_ref().is_prefix_of(prefix.as_ref())) {
        check.say(option, prefix.to_string(), "a name that may leave a node");
    }
}

fn consumers(
    scenario: &Scenario,
    item: &ConsumerItem,
    index: usize,
    topology: &Topology,
    check: &mut Check<'_, '_>,
) -> Vec<ConsumerPlan> {
    let option = |key: &str| format!("consumer[{index}].{key}");
    prefix(&item.prefix, &option("prefix"), check);
    let nodes = places(&item.at, &option("at"), (scenario.run.seed, 2 * index + 1), topology, check);
    let end = scenario.run.duration_s;
    let stop = item.stop_s.unwrap_or(end);
    if item.start_s >= stop {
        check.say(
            &option("start_s"),
            item.start_s.value().to_string(),
            format!("less than when it stops, {}", stop.value()),
        );
    }
    let answered = scenario.producer.iter().filter(|producer| {
        let (a, b) = (producer.prefix.as_ref(), item.prefix.as_ref());
        a.is_prefix_of(b) || b.is_prefix_of(a)
    });
    let mut answered = answered.peekable();
    if answered.peek().is_none() {
        check.say(&option("prefix"), item.prefix.to_string(), "a prefix that some [[producer]] answers");
    } else if item.kind == ConsumerKind::Bulk && !answered.any(|producer| producer.segments > 0) {
        check.say(
            &option("kind"),
            "a download of what has no end",
            "segments = 1000 or so in its [[producer]]",
        );
    }
    if item.kind == ConsumerKind::Bulk && item.rate_per_s.is_some() {
        check.say(&option("rate_per_s"), "a rate for a download", "none: its window decides");
    }
    let (start, stop) = (Instant::from_nanos(item.start_s.0), Instant::from_nanos(stop.0));
    let usual = if item.kind == ConsumerKind::Ping { 1.0 } else { 100.0 };
    let pause_ns = 1e9 / item.rate_per_s.map_or(usual, |rate| rate.value());
    let catalogue = (item.kind == ConsumerKind::Zipf)
        .then(|| Arc::new(Zipf::new(item.names.max(1) as usize, item.zipf.value())));
    let plan = |node: usize| {
        // What is to be its own has its node in the name.
        let own =
            |word: &str| item.prefix.clone().with_generic(word).with_generic(&topology.nodes[node].name);
        let (prefix, names) = match (item.kind, &catalogue) {
            (ConsumerKind::Zipf, Some(zipf)) => (item.prefix.clone(), Names::Popular(Arc::clone(zipf))),
            (ConsumerKind::Ping, _) => (item.prefix.clone().with_generic("ping"), Names::Random),
            _ => (own(&item.name), Names::Counted),
        };
        let asks = match item.kind {
            ConsumerKind::Bulk => Asks::Bulk(BulkConfig {
                prefix: item.prefix.clone(),
                lifetime_ms: item.lifetime_ms,
                start,
                stop,
                options: FetchOptions { window_max: item.window as usize, ..FetchOptions::default() },
            }),
            _ => Asks::Rate(ConsumerConfig {
                prefix,
                names,
                pause_ns,
                poisson: item.arrivals == Arrivals::Poisson,
                lifetime_ms: item.lifetime_ms,
                start,
                stop,
                requests_max: if item.requests == 0 { u64::MAX } else { item.requests },
            }),
        };
        ConsumerPlan { name: named(&item.name, node, topology), node, kind: item.kind, asks }
    };
    nodes.into_iter().map(plan).collect()
}

/// Two sections may have one name: the second gets a number.
fn distinct(producers: &mut [ProducerPlan], consumers: &mut [ConsumerPlan]) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let names = producers.iter_mut().map(|p| &mut p.name).chain(consumers.iter_mut().map(|c| &mut c.name));
    for name in names {
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1
            && let Some((before, node)) = name.split_once('@')
        {
            *name = format!("{before}{count}@{node}");
        }
    }
}

fn strategies(scenario: &Scenario, check: &mut Check<'_, '_>) -> Vec<StrategyPlan> {
    let mut plans = Vec::new();
    for (index, item) in scenario.strategy.iter().enumerate() {
        let option = format!("strategy[{index}].strategy");
        let text = if item.strategy.starts_with('/') {
            item.strategy.clone()
        } else {
            format!("/localhost/nfd/strategy/{}", item.strategy)
        };
        let parsed = text.parse::<Name>().map_err(|error| error.to_string()).and_then(|name| {
            let (strategy, whole) = Strategy::parse(name.as_ref()).map_err(|error| match error {
                StrategyError::Unknown => {
                    let known: Vec<&str> = Strategy::KNOWN.iter().map(|known| known.name).collect();
                    format!("one of {}, with parameters perhaps", known.join(", "))
                }
                other => other.to_string(),
            })?;
            if matches!(strategy, Strategy::SelfLearning(_)) {
                return Err(
                    "another one: self-learning needs control, which a simulated router does not have".into(),
                );
            }
            Ok(whole)
        });
        match parsed {
            Ok(strategy) => plans.push(StrategyPlan { prefix: item.prefix.clone(), strategy }),
            Err(expected) => check.say(&option, format!("{:?}", item.strategy), expected),
        }
        let above = |prefix: NameRef<'_>| item.prefix.as_ref().is_prefix_of(prefix);
        if !scenario.producer.iter().any(|producer| above(producer.prefix.as_ref())) {
            check.say(
                &format!("strategy[{index}].prefix"),
                item.prefix.to_string(),
                "a prefix of some [[producer]], or one above it: routes are for these",
            );
        }
    }
    plans
}

fn actions(scenario: &Scenario, topology: &Topology, check: &mut Check<'_, '_>) -> Vec<Timed> {
    let (run, failures) = (&scenario.run, &scenario.failures);
    let mut all = Vec::new();
    for text in &run.at {
        match Timed::parse(text, topology) {
            Ok(timed) if timed.at_ns >= run.duration_s.0 => {
                check.say(
                    "run.at",
                    format!("{text:?}"),
                    format!("a time before the end, {} s", run.duration_s.value()),
                );
            }
            Ok(timed) => all.push(timed),
            Err(expected) => check.say("run.at", format!("{text:?}"), expected),
        }
    }
    match actions::random(failures, topology, run.seed, run.duration_s.0) {
        Ok(random) => all.extend(random),
        Err(expected) => check.say("failures.links_per_s", "too many failures", expected),
    }
    all.sort_by_key(|timed| timed.at_ns);
    all
}

fn expectations(
    scenario: &Scenario,
    consumers: &[ConsumerPlan],
    check: &mut Check<'_, '_>,
) -> Vec<Expectation> {
    let mut all = Vec::new();
    for text in &scenario.run.expect {
        match Expectation::parse(text) {
            Ok(expectation) => {
                let is_there =
                    |name: &String| consumers.iter().any(|consumer| is_called(&consumer.name, name));
                if let Some(name) = expectation.application.as_ref().filter(|name| !is_there(name)) {
                    check.say(
                        "run.expect",
                        format!("{name:?}"),
                        "the name of a [[consumer]], with @ and a node perhaps",
                    );
                }
                all.push(expectation);
            }
            Err(expected) => check.say("run.expect", format!("{text:?}"), expected),
        }
    }
    all
}

/// Whether `viewers@paris` is meant by `viewers`, or by its whole name.
pub fn is_called(whole: &str, name: &str) -> bool {
    whole == name || whole.split('@').next() == Some(name)
}
