//! Turns valid options into a plan that can be run: checks references between them and
//! contradictions.

use super::actions::{self, Timed};
use super::expect::Expectation;
use super::options::{Arrivals, ConsumerItem, ConsumerKind, Policy, ProducerItem, Signature};
use super::{LinkItem, NodeItem, Scenario, Secs};
use crate::applications::{BulkConfig, ConsumerConfig, Names, ProducerConfig};
use crate::link::LinkConfig;
use crate::node::NodeConfig;
use crate::random::{Random, Stream};
use crate::topology::{Edge, Topology};
use core::time::Duration;
use nw_api::config::diagnostics::Source;
use nw_api::config::read::Places;
use nw_app::fetch::FetchOptions;
use nw_element_api::Timestamp;
use nw_elements::strategy::{Strategy, StrategyError};
use nw_name::{Name, NameRef};
use nw_report_kit::zipf::Zipf;
use nw_tables::cs::PolicyKind;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of applications in a run.
const APPLICATIONS_MAX: usize = 100_000;
/// Maximum length of a prefix, bytes; leaves space for what consumers append.
const PREFIX_BYTES_MAX: usize = 2000;

/// A checked scenario, ready to run.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The scenario, with the changes of the command line.
    pub scenario: Scenario,
    /// Nodes and links.
    pub topology: Topology,
    /// Plan of each node.
    pub nodes: Vec<NodePlan>,
    /// Properties of each link.
    pub links: Vec<LinkConfig>,
    /// Producers.
    pub producers: Vec<ProducerPlan>,
    /// Consumers.
    pub consumers: Vec<ConsumerPlan>,
    /// Strategies by prefix.
    pub strategies: Vec<StrategyPlan>,
    /// Failures and repairs, sorted by time.
    pub actions: Vec<Timed>,
    /// Expectations.
    pub expectations: Vec<Expectation>,
}

/// Plan of a node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Table sizes.
    pub config: NodeConfig,
}

/// A producer at a node.
#[derive(Clone, Debug)]
pub struct ProducerPlan {
    /// Name, with `@` and the node.
    pub name: String,
    /// Index of the node.
    pub node: usize,
    /// Its parameters.
    pub config: ProducerConfig,
}

/// A consumer at a node.
#[derive(Clone, Debug)]
pub struct ConsumerPlan {
    /// Name, with `@` and the node.
    pub name: String,
    /// Index of the node.
    pub node: usize,
    /// Kind as written.
    pub kind: ConsumerKind,
    /// Its parameters.
    pub workload: Workload,
}

/// The workload of a consumer.
#[derive(Clone, Debug)]
pub enum Workload {
    /// Sends at a rate.
    Rate(ConsumerConfig),
    /// Downloads as fast as its window allows.
    Bulk(BulkConfig),
}

/// The strategy of a prefix.
#[derive(Clone, Debug)]
pub struct StrategyPlan {
    /// Names under this prefix.
    pub prefix: Name,
    /// Full strategy name.
    pub strategy: Name,
}

/// The default strategy.
pub const STRATEGY_DEFAULT: &str = "/localhost/nfd/strategy/best-route";

struct Check<'a, 'b> {
    places: &'a Places,
    source: &'a mut Source<'b>,
}

impl Check<'_, '_> {
    fn report(&mut self, option: &str, found: impl Into<String>, expected: impl Into<String>) {
        let shown = self.places.shown(option);
        if !self.source.is_unread(&shown) {
            self.source.mismatch(&self.places.near(option), shown, found, expected);
        }
    }
}

/// Returns the plan of a scenario; mistakes are reported to `source`.
pub fn check(
    scenario: Scenario,
    folder: Option<&Path>,
    places: &Places,
    source: &mut Source<'_>,
) -> RunPlan {
    let mut check = Check { places, source };
    let topology = topology(&scenario, folder, &mut check);
    let default_link = LinkConfig {
        delay_ns: scenario.links.delay_ms.0,
        rate_bps: scenario.links.rate_mbps.0,
        queue_packets: scenario.links.queue_packets,
        queue_bytes: u64::from(scenario.links.queue_kib) * 1024,
        loss_ppb: scenario.links.loss.0 as u32,
        loss_burst: scenario.links.loss_burst,
    };
    let links = topology.links.iter().map(|edge| edge.config(&default_link)).collect();
    if (1..64).contains(&scenario.links.mtu) {
        check.report("links.mtu", scenario.links.mtu.to_string(), "0, or at least 64");
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
        check.report("consumer", "no [[consumer]]", "at least one");
    }
    if producers.len() + consumers.len() > APPLICATIONS_MAX {
        check.report("consumer", "too many applications", format!("at most {APPLICATIONS_MAX}"));
    }
    make_names_unique(&mut producers, &mut consumers);
    let strategies = strategies(&scenario, &mut check);
    let mut prefixes: Vec<&Name> =
        producers.iter().map(|producer| &producer.config.prefix).collect();
    prefixes.sort();
    prefixes.dedup();
    let fib_prefixes = prefixes.len() + 16;
    let mut nodes = vec![
        NodePlan { config: default_node_config(&scenario, fib_prefixes) };
        topology.nodes.len()
    ];
    for item in &scenario.node {
        if let Some(node) = topology.find(&item.name) {
            apply_overrides(&mut nodes[node].config, item);
        }
    }
    let actions = actions(&scenario, &topology, &mut check);
    let expectations = expectations(&scenario, &consumers, &mut check);
    RunPlan {
        scenario,
        topology,
        nodes,
        links,
        producers,
        consumers,
        strategies,
        actions,
        expectations,
    }
}

fn topology(scenario: &Scenario, folder: Option<&Path>, check: &mut Check<'_, '_>) -> Topology {
    let section = &scenario.topology;
    let mut topology = match (&section.generate, &section.file) {
        (Some(_), Some(_)) => {
            check.report("topology.file", "generate and file", "one of them");
            Topology::default()
        }
        (Some(text), None) => Topology::generate(text, scenario.run.seed).unwrap_or_else(|error| {
            let expected =
                error.0.strip_prefix(&format!("no topology {text:?}: write ")).unwrap_or(&error.0);
            check.report("topology.generate", format!("{text:?}"), expected);
            Topology::default()
        }),
        (None, Some(path)) => {
            let path = folder.map_or_else(|| path.clone(), |folder| folder.join(path));
            Topology::load(&path).unwrap_or_else(|error| {
                check.report("topology.file", "an unusable file", error.0.replace('\n', "; "));
                Topology::default()
            })
        }
        (None, None) => Topology::default(),
    };
    for (index, item) in scenario.node.iter().enumerate() {
        if let Err(error) = topology.node(&item.name) {
            check.report(&format!("node[{index}].name"), format!("{:?}", item.name), error.0);
        }
    }
    for (index, item) in scenario.link.iter().enumerate() {
        if let Err(error) = link(&mut topology, item) {
            check.report(&format!("link[{index}].to"), format!("{:?}", item.to), error.0);
        }
    }
    if topology.nodes.is_empty() && section.generate.is_none() && section.file.is_none() {
        check.report(
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
        queue_bytes: item.queue_kib.map(|kib| u64::from(kib) * 1024),
        loss_ppb: item.loss.map(|share| share.0 as u32),
        loss_burst: item.loss_burst,
        cost: item.cost,
        ..Edge::between(a, b)
    })
}

fn default_node_config(scenario: &Scenario, fib_prefixes: usize) -> NodeConfig {
    let routers = &scenario.routers;
    let store_packets = routers.store_packets as usize;
    NodeConfig {
        pit_entries: routers.pit_entries as usize,
        fib_prefixes,
        dead_nonces: routers.dead_nonces as usize,
        measurements: routers.measurements as usize,
        store_packets,
        store_bytes: store_bytes(store_packets, routers.store_kib),
        store_policy: match routers.store_policy {
            Policy::Lru => PolicyKind::Lru,
            Policy::PriorityFifo => PolicyKind::PriorityFifo,
            Policy::S3Fifo => PolicyKind::S3Fifo,
        },
    }
}

/// Returns the content store's size in bytes: 2 KiB per packet unless given. Memory is reserved for
/// the largest size, in large pages, and used when needed.
fn store_bytes(packets: usize, kib: Option<u32>) -> usize {
    if packets == 0 { 0 } else { kib.map_or(2 * packets, |kib| kib as usize) * 1024 }
}

fn apply_overrides(config: &mut NodeConfig, item: &NodeItem) {
    if item.store_packets.is_some() || item.store_kib.is_some() {
        config.store_packets =
            item.store_packets.map_or(config.store_packets, |packets| packets as usize);
        config.store_bytes = store_bytes(config.store_packets, item.store_kib);
    }
    if let Some(entries) = item.pit_entries {
        config.pit_entries = entries as usize;
    }
}

/// Returns the nodes selected by a list such as `["a", "random:3"]`, sorted, without duplicates.
/// `stream` selects the random stream.
fn select_nodes(
    list: &[String],
    option: &str,
    (seed, stream): (u64, usize),
    topology: &Topology,
    check: &mut Check<'_, '_>,
) -> Vec<usize> {
    let mut selected = Vec::new();
    if list.is_empty() {
        check.report(
            option,
            "an empty list",
            "at least one node, \"all\", \"leaves\" or \"random:3\"",
        );
    }
    let all = 0..topology.nodes.len();
    for word in list {
        match (topology.find(word), word.as_str(), word.strip_prefix("random:")) {
            (Some(node), ..) => selected.push(node),
            (None, "all", _) => selected.extend(all.clone()),
            (None, "leaves", _) => {
                let degrees = topology.degrees();
                selected.extend(all.clone().filter(|node| degrees[*node] == 1));
            }
            (None, _, Some(count)) => match count.parse() {
                Ok(count) if (1..=all.len()).contains(&count) => {
                    let mut random = Random::new(seed, Stream::Placement, stream);
                    let mut remaining: Vec<usize> = all.clone().collect();
                    let drawn = (0..count).map(|_| {
                        remaining.swap_remove(random.below(remaining.len() as u64) as usize)
                    });
                    selected.extend(drawn);
                }
                _ => check.report(
                    option,
                    format!("{word:?}"),
                    format!("random: and a number from 1 to {}", all.len()),
                ),
            },
            (None, ..) if topology.nodes.is_empty() => {}
            (None, ..) => check.report(
                option,
                format!("{word:?}"),
                format!(
                    "a node of the topology (such as {}), \"all\", \"leaves\" or \"random:3\"",
                    topology.nodes[0].name
                ),
            ),
        }
    }
    selected.sort_unstable();
    selected.dedup();
    selected
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
    let nodes = select_nodes(&item.at, &option, (scenario.run.seed, 2 * index), topology, check);
    let config = ProducerConfig {
        prefix: item.prefix.clone(),
        payload_bytes: item.payload as usize,
        freshness_ms: u64::from(item.freshness_ms),
        segments: u64::from(item.segments),
        delay: Duration::from_nanos(item.delay_ms.0),
        digest: item.signature == Signature::Digest,
    };
    let plan = |node: usize| ProducerPlan {
        name: instance_name(&item.name, node, topology),
        node,
        config: config.clone(),
    };
    nodes.into_iter().map(plan).collect()
}

fn instance_name(name: &str, node: usize, topology: &Topology) -> String {
    format!("{name}@{}", topology.nodes[node].name)
}

fn prefix(prefix: &Name, option: &str, check: &mut Check<'_, '_>) {
    let bytes = prefix.as_ref().as_bytes().len();
    if prefix.as_ref().is_empty() || prefix.as_ref().len() > 24 || bytes > PREFIX_BYTES_MAX {
        check.report(
            option,
            prefix.to_string(),
            format!("1 to 24 components, at most {PREFIX_BYTES_MAX} bytes"),
        );
    }
    let scopes =
        ["/localhost", "/localhop"].map(|scope| scope.parse::<Name>().expect("a constant name"));
    if scopes.iter().any(|scope| scope.as_ref().is_prefix_of(prefix.as_ref())) {
        check.report(option, prefix.to_string(), "a prefix outside /localhost and /localhop");
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
    let nodes =
        select_nodes(&item.at, &option("at"), (scenario.run.seed, 2 * index + 1), topology, check);
    let stop = item.stop_s.unwrap_or(scenario.run.duration_s);
    check_consumer(scenario, item, index, stop, check);
    let (start, stop) = (Timestamp::from_nanos(item.start_s.0), Timestamp::from_nanos(stop.0));
    let default_rate = if item.kind == ConsumerKind::Ping { 1.0 } else { 100.0 };
    let pause_ns = 1e9 / item.rate_per_s.map_or(default_rate, |rate| rate.value());
    let catalogue = (item.kind == ConsumerKind::Zipf)
        .then(|| Arc::new(Zipf::new(item.names.max(1) as usize, item.zipf.value())));
    let plan = |node: usize| {
        // Prefixes of one consumer contain its node's name.
        let own_prefix = |word: &str| {
            item.prefix.clone().with_generic(word).with_generic(&topology.nodes[node].name)
        };
        let (prefix, names) = match (item.kind, &catalogue) {
            (ConsumerKind::Zipf, Some(zipf)) => {
                (item.prefix.clone(), Names::Popular(Arc::clone(zipf)))
            }
            (ConsumerKind::Ping, _) => (item.prefix.clone().with_generic("ping"), Names::Random),
            _ => (own_prefix(&item.name), Names::Counted),
        };
        let workload = match item.kind {
            ConsumerKind::Bulk => Workload::Bulk(BulkConfig {
                prefix: item.prefix.clone(),
                lifetime_ms: item.lifetime_ms,
                start,
                stop,
                options: FetchOptions {
                    window_max: item.window as usize,
                    ..FetchOptions::default()
                },
            }),
            _ => Workload::Rate(ConsumerConfig {
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
        ConsumerPlan {
            name: instance_name(&item.name, node, topology),
            node,
            kind: item.kind,
            workload,
        }
    };
    nodes.into_iter().map(plan).collect()
}

/// Reports contradictions between the options of a consumer and the producers.
fn check_consumer(
    scenario: &Scenario,
    item: &ConsumerItem,
    index: usize,
    stop: Secs,
    check: &mut Check<'_, '_>,
) {
    let option = |key: &str| format!("consumer[{index}].{key}");
    if item.start_s >= stop {
        check.report(
            &option("start_s"),
            item.start_s.value().to_string(),
            format!("a time before stop_s, {}", stop.value()),
        );
    }
    let producers = scenario.producer.iter().filter(|producer| {
        let (a, b) = (producer.prefix.as_ref(), item.prefix.as_ref());
        a.is_prefix_of(b) || b.is_prefix_of(a)
    });
    let mut producers = producers.peekable();
    if producers.peek().is_none() {
        check.report(
            &option("prefix"),
            item.prefix.to_string(),
            "a prefix that some [[producer]] answers",
        );
    } else if item.kind == ConsumerKind::Bulk && !producers.any(|producer| producer.segments > 0) {
        check.report(
            &option("kind"),
            "a download of an object without an end",
            "segments = 1000, for example, in its [[producer]]",
        );
    }
    if item.kind == ConsumerKind::Bulk && item.rate_per_s.is_some() {
        check.report(&option("rate_per_s"), "a rate for a download", "no rate: its window decides");
    }
}

/// Sections may share a name: the second one gets a number.
fn make_names_unique(producers: &mut [ProducerPlan], consumers: &mut [ConsumerPlan]) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let names =
        producers.iter_mut().map(|p| &mut p.name).chain(consumers.iter_mut().map(|c| &mut c.name));
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
                    let known: Vec<&str> = Strategy::ALL.iter().map(|known| known.name).collect();
                    format!("one of {}, optionally with parameters", known.join(", "))
                }
                other => other.to_string(),
            })?;
            if matches!(strategy, Strategy::SelfLearning(_)) {
                return Err(
                    "another strategy: self-learning needs control, which simulated routers don't have"
                        .into(),
                );
            }
            Ok(whole)
        });
        match parsed {
            Ok(strategy) => plans.push(StrategyPlan { prefix: item.prefix.clone(), strategy }),
            Err(expected) => check.report(&option, format!("{:?}", item.strategy), expected),
        }
        let covers = |prefix: NameRef<'_>| item.prefix.as_ref().is_prefix_of(prefix);
        if !scenario.producer.iter().any(|producer| covers(producer.prefix.as_ref())) {
            check.report(
                &format!("strategy[{index}].prefix"),
                item.prefix.to_string(),
                "a prefix of some [[producer]], or a shorter one: only these have routes",
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
                check.report(
                    "run.at",
                    format!("{text:?}"),
                    format!("a time before the end, {} s", run.duration_s.value()),
                );
            }
            Ok(timed) => all.push(timed),
            Err(expected) => check.report("run.at", format!("{text:?}"), expected),
        }
    }
    match actions::random(failures, topology, run.seed, run.duration_s.0) {
        Ok(random) => all.extend(random),
        Err(expected) => check.report("failures.links_per_s", "too many failures", expected),
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
                let exists = |name: &String| {
                    consumers.iter().any(|consumer| name_matches(&consumer.name, name))
                };
                if let Some(name) = expectation.application.as_ref().filter(|name| !exists(name)) {
                    check.report(
                        "run.expect",
                        format!("{name:?}"),
                        "the name of a [[consumer]], optionally with @ and a node",
                    );
                }
                all.push(expectation);
            }
            Err(expected) => check.report("run.expect", format!("{text:?}"), expected),
        }
    }
    all
}

/// Returns whether the full name, such as `viewers@paris`, matches `name`: the part before `@`, or
/// all of it.
pub fn name_matches(whole: &str, name: &str) -> bool {
    whole == name || whole.split('@').next() == Some(name)
}
