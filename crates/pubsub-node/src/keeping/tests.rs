//! Nodes with applications and links, without threads: publishers' nodes that end.

use super::*;
use crate::domain::{Domain, LinkAddress};
use crate::relay::tests::Application;
use crate::rules::Rules;
use nw_api::config::PubSub;
use nw_api::pubsub::{ItemOptions, Request};
use nw_faces::mac::Mac;
use std::collections::BTreeSet;

/// Nodes that hear each other, each from an address of its own.
struct Network {
    nodes: Vec<Node>,
    /// Nodes that were lost.
    dead: BTreeSet<usize>,
    now_ms: u64,
    /// Every n-th packet after the first 1,000 ms is lost; 0: none.
    loss: usize,
    count: usize,
}

fn address(node: usize) -> LinkAddress {
    LinkAddress::Ethernet { interface: 1, mac: Mac([2, 0, 0, 0, 0, node as u8]) }
}

impl Network {
    fn new(count: usize) -> Self {
        let node = |number: usize| {
            let domain = Domain::new(number as u64 + 1, 100, 1 << 20);
            Node::new(PubSub::default(), Rules::default(), Some(domain))
        };
        let nodes = (0..count).map(node).collect();
        Network { nodes, dead: BTreeSet::new(), now_ms: 1000, loss: 0, count: 0 }
    }

    fn run(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            self.now_ms += 5;
            let mut packets = Vec::new();
            for (from, node) in self.nodes.iter_mut().enumerate() {
                node.pump_ready();
                node.run_domain(self.now_ms);
                node.flush();
                let domain = node.domain.as_mut().unwrap();
                let taken = domain.packets.take().into_iter();
                packets.extend(taken.map(|(target, bytes)| (from, target, bytes)));
            }
            for (from, target, bytes) in packets {
                self.count += 1;
                let is_lost = self.loss > 0 && self.count.is_multiple_of(self.loss);
                for to in 0..self.nodes.len() {
                    let is_for = match &target {
                        crate::domain::Target::Everyone => true,
                        crate::domain::Target::Neighbour(found) => *found == address(to),
                    };
                    let is_cut = self.dead.contains(&from) || self.dead.contains(&to) || is_lost;
                    if is_for && from != to && !is_cut {
                        self.nodes[to].receive_packet(self.now_ms, address(from), &bytes);
                    }
                }
            }
        }
    }

    fn application(&mut self, node: usize) -> Application {
        Application::new(&mut self.nodes[node])
    }

    fn subscriber(&mut self, node: usize, pattern: &str, history: u32) -> Application {
        let mut application = self.application(node);
        let (request, subscription, pattern) = (1, 1, pattern.into());
        let subscribe = Request::SubscribeHistory { request, subscription, history, pattern };
        application.send(&mut self.nodes[node], &subscribe, None);
        application
    }

    /// Announces an item and publishes texts under it.
    fn publisher(&mut self, node: usize, name: &str, texts: &[&str]) -> Application {
        let mut application = self.application(node);
        let options = ItemOptions { keeps_last: true, ..ItemOptions::default() };
        let announce = Request::Publish { request: 1, item: 0, options, name: name.into() };
        application.send(&mut self.nodes[node], &announce, None);
        self.run(50);
        for (sequence, text) in (1..).zip(texts) {
            for fragment in Fragment::parts(sequence, text.as_bytes()) {
                let data = Request::Data { item: 0, fragment };
                application.send(&mut self.nodes[node], &data, None);
            }
        }
        self.run(50);
        application
    }

    /// Returns the publications that an application got since the last call.
    fn texts(&mut self, node: usize, application: &mut Application) -> Vec<String> {
        let events = application.events(&mut self.nodes[node]);
        let texts = events.into_iter().filter_map(|event| match event {
            Event::Data { fragment, .. } => Some(String::from_utf8(fragment.payload).unwrap()),
            _ => None,
        });
        texts.collect()
    }

    fn offers(&self, node: usize) -> u64 {
        self.nodes[node].status().domain.kept_offers
    }
}

#[test]
fn late_subscriber_gets_history_of_a_node_that_is_gone_once_from_those_that_had_it() {
    let mut network = Network::new(5);
    network.run(300);
    let _had_it: Vec<Application> =
        (1..4).map(|node| network.subscriber(node, "/k/**", 0)).collect();
    network.run(100);
    let _publisher = network.publisher(0, "/k/item", &["one", "two", "three"]);
    network.dead.insert(0);
    network.run(600);
    let mut last = network.subscriber(4, "/k/item", 1);
    network.run(300);
    assert_eq!(network.texts(4, &mut last), ["three"]);
    let offering = (1..5).filter(|node| network.offers(*node) > 0).count();
    assert_eq!(offering, OFFERING_NODES, "of the three that had it");
    // A node that is alone in having it passes all on, also in the presence of loss.
    let ranked: Vec<usize> = (1..4).filter(|node| network.offers(*node) > 0).collect();
    network.dead.extend(ranked);
    network.run(600);
    network.loss = 3;
    let mut all = network.subscriber(4, "/k/*", 100);
    network.run(3000);
    let texts = network.texts(4, &mut all);
    assert_eq!(texts, ["three"], "this node had fetched one");
    assert_eq!(network.texts(4, &mut last), Vec::<String>::new(), "each once");
}

#[test]
fn node_that_keeps_by_configuration_serves_history_without_any_subscriber() {
    let mut network = Network::new(3);
    network.nodes[1].set_kept_patterns(vec!["/k/**".parse().unwrap()]);
    network.run(300);
    let texts: Vec<String> = (1..=20).map(|number| number.to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let large = "x".repeat(5000);
    let _many = network.publisher(0, "/k/many", &texts);
    let _large = network.publisher(0, "/k/large", &["small", &large]);
    let _other = network.publisher(0, "/other", &["gone"]);
    network.dead.insert(0);
    network.run(600);
    network.loss = 4;
    let mut late = network.subscriber(2, "/k/many", 10);
    let mut parts = network.subscriber(2, "/k/large", 1);
    let mut other = network.subscriber(2, "/other", 1);
    network.run(2000);
    assert_eq!(network.texts(2, &mut late), texts[10..]);
    assert_eq!(network.texts(2, &mut parts).concat(), large);
    assert!(network.texts(2, &mut other).is_empty());
    assert_eq!(network.nodes[1].status().last_values, 2);
    // The node that fetched serves its own later subscribers.
    let mut later = network.subscriber(2, "/k/*", 3);
    assert_eq!(network.texts(2, &mut later).len(), 3 + 1);
}

#[test]
fn ended_publisher_of_a_node_that_is_there_serves_late_subscribers_of_others() {
    let mut network = Network::new(3);
    network.run(300);
    let mut early = network.subscriber(1, "/k/**", 1);
    network.run(50);
    let publisher = network.publisher(0, "/k/item", &["old"]);
    assert_eq!(network.texts(1, &mut early), ["old"]);
    network.nodes[0].fail(publisher.id, &"test");
    network.nodes[0].flush();
    network.run(200);
    let mut late = network.subscriber(2, "/k/item", 5);
    network.run(200);
    assert_eq!(network.texts(2, &mut late), ["old"]);
    assert_eq!((network.offers(0) > 0, network.offers(1)), (true, 0), "its node alone offers it");
    // A new publisher of the name replaces what is kept everywhere.
    let _again = network.publisher(0, "/k/item", &["new"]);
    assert_eq!(network.texts(2, &mut late), ["new"]);
    assert_eq!(network.texts(1, &mut early), ["new"]);
    let mut latest = network.subscriber(1, "/k/item", 5);
    assert_eq!(network.texts(1, &mut latest), ["new"]);
    network.dead.insert(0);
    network.run(600);
    let mut other = network.subscriber(2, "/*/item", 5);
    network.run(400);
    assert_eq!(network.texts(2, &mut other), ["new"]);
}

#[test]
fn subscribers_get_what_they_missed_when_the_publishers_node_ends() {
    let mut network = Network::new(3);
    network.run(300);
    let mut near = network.subscriber(1, "/k/item", 0);
    let mut far = network.subscriber(2, "/k/item", 0);
    network.run(100);
    let mut publisher = network.publisher(0, "/k/item", &["one"]);
    // The last publication reaches node 1 only, and then its node ends.
    network.dead.insert(2);
    for fragment in Fragment::parts(2, b"two") {
        publisher.send(&mut network.nodes[0], &Request::Data { item: 0, fragment }, None);
    }
    network.run(10);
    network.dead = BTreeSet::from([0]);
    network.run(1500);
    assert_eq!(network.texts(1, &mut near), ["one", "two"]);
    assert_eq!(network.texts(2, &mut far), ["one", "two"]);
}

#[test]
fn strategy_of_a_scope_holds_at_all_nodes_also_for_items_that_are_there() {
    use nw_api::pubsub::Strategy;
    let mut network = Network::new(2);
    network.run(300);
    let mut far = network.subscriber(1, "/plant/**", 0);
    let mut scope = network.application(1);
    let publish = |strategy| Request::PublishScope { request: 9, strategy, name: "/plant".into() };
    let mut publisher = network.publisher(0, "/plant/meter", &["1"]);
    assert_eq!(network.texts(1, &mut far), ["1"]);
    scope.send(&mut network.nodes[1], &publish(Some(Strategy::NodeLocal)), None);
    network.run(50);
    let mut hidden = network.publisher(0, "/plant/other", &["hidden"]);
    for fragment in Fragment::parts(2, b"2") {
        publisher.send(&mut network.nodes[0], &Request::Data { item: 0, fragment }, None);
    }
    network.run(100);
    assert_eq!(network.texts(1, &mut far), Vec::<String>::new(), "it holds at node 0");
    assert_eq!(network.nodes[0].status().scopes[0].strategy, "node");
    // Another strategy is refused there, for the scope and for items below.
    let options = ItemOptions { strategy: Some(Strategy::Domain), ..ItemOptions::default() };
    let item = Request::Publish { request: 8, item: 1, options, name: "/plant/third".into() };
    for request in [publish(Some(Strategy::Domain)), item] {
        hidden.send(&mut network.nodes[0], &request, None);
        let events = hidden.events(&mut network.nodes[0]);
        let is_refused =
            |event: &Event| matches!(event, Event::Reply { text, .. } if !text.is_empty());
        assert!(events.iter().any(is_refused), "{events:?}");
    }
    // What ended below it is not for other nodes.
    network.nodes[0].fail(hidden.id, &"test");
    network.nodes[0].flush();
    let mut late = network.subscriber(1, "/*/other", 1);
    network.run(200);
    assert!(network.texts(1, &mut late).is_empty());
    let mut late = network.subscriber(0, "/*/other", 1);
    assert_eq!(network.texts(0, &mut late), ["hidden"]);
    // An item keeps the strategy when the scope ends; a new one does not get it.
    network.nodes[1].fail(scope.id, &"test");
    network.nodes[1].flush();
    network.run(100);
    assert!(network.nodes[0].status().scopes.is_empty());
    let _open = network.publisher(0, "/plant/open", &["open"]);
    assert_eq!(network.texts(1, &mut far), ["open"]);
}

#[test]
fn publisher_is_told_when_its_forwarding_identifier_leads_to_fewer_nodes() {
    use nw_api::pubsub::{ImplicitRoute, Strategy};
    let mut network = Network::new(3);
    network.run(300);
    let others = BTreeSet::from([2, 3].map(NodeId));
    let paths = network.nodes[0].domain.as_ref().unwrap().forwarding_paths(&others);
    let mut publisher = network.application(0);
    let options = ItemOptions { strategy: Some(Strategy::Implicit), ..ItemOptions::default() };
    let publish = Request::Publish { request: 1, item: 0, options, name: "/p".into() };
    publisher.send(&mut network.nodes[0], &publish, None);
    let route = ImplicitRoute::Path(paths[0]);
    publisher.send(&mut network.nodes[0], &Request::Route { request: 2, item: 0, route }, None);
    let counts = |events: Vec<Event>| {
        let count = |event: &Event| match event {
            Event::Subscribers { count, .. } => Some(*count),
            _ => None,
        };
        events.iter().filter_map(count).collect::<Vec<_>>()
    };
    assert_eq!(counts(publisher.events(&mut network.nodes[0])), [2]);
    network.dead.insert(2);
    network.run(600);
    assert_eq!(counts(publisher.events(&mut network.nodes[0])), [1]);
    assert_eq!(network.nodes[0].status().domain.outdated_paths, 1);
}

#[test]
fn invalid_offers_and_requests_are_refused() {
    let mut network = Network::new(2);
    network.run(300);
    let _subscriber = network.subscriber(1, "/k/**", 100);
    network.run(100);
    let node = &mut network.nodes[1];
    let name: ItemName = "/k/item".parse().unwrap();
    let (gone, other) = (NodeId(77), NodeId(1));
    node.receive_offer((gone, name.clone()), other, (5, 4), 0);
    node.receive_offer((gone, name.clone()), other, (1, u64::MAX), 0);
    assert_eq!(node.counters.refusals, 2);
    node.receive_offer((other, name.clone()), gone, (1, 4), 0);
    assert_eq!(node.keeping.fetches.len(), 0, "the publisher's node is there");
    node.receive_offer((gone, name.clone()), other, (0, u64::MAX - 1), 0);
    (0..1000).for_each(|keeper| {
        node.receive_offer((gone, name.clone()), NodeId(keeper % 100), (1, 4), 0);
    });
    let keepers = &node.keeping.fetches[&(gone, name.clone())].keepers;
    assert_eq!(keepers.len(), HOLDERS_MAX, "each once, and no more");
    node.answer_kept(other, (gone, &name), &RepairRequest::Numbers(vec![(0, u64::MAX)]));
    network.run(3000);
    let node = &network.nodes[1];
    assert_eq!(node.keeping.fetches.len(), 0, "nothing came, and it ended");
    assert!(node.last_values.is_empty());
}
