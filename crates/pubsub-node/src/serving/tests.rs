//! Nodes with applications and links in virtual time: publishers of one item that come and go.

use super::*;
use crate::domain::{Domain, LinkAddress, Target};
use crate::relay::tests::Application;
use crate::rules::Rules;
use nw_api::config::PubSub;
use nw_api::pubsub::{Event, Fragment, ItemOptions, Request};
use nw_faces::mac::Mac;
use nw_packet_types::random::splitmix64;

const NAME: &str = "/s/item";

/// Nodes with links between them; node *i* has the number `i + 1`.
struct Network {
    nodes: Vec<Node>,
    links: BTreeSet<(usize, usize)>,
    dead: BTreeSet<usize>,
    now_ms: u64,
}

/// A publisher of [`NAME`], and the number of its last publication.
struct Source {
    application: Application,
    node: usize,
    sequence: u64,
}

fn address(node: usize) -> LinkAddress {
    LinkAddress::Ethernet { interface: 1, mac: Mac([2, 0, 0, 0, 0, node as u8]) }
}

fn with(choice: PublisherChoice, strength: u32) -> ItemOptions {
    ItemOptions { choice: Some(choice), strength, ..ItemOptions::default() }
}

impl Network {
    fn new(count: usize, links: &[(usize, usize)]) -> Self {
        let node = |number: usize| {
            let domain = Domain::new(number as u64 + 1, 100, 1 << 20);
            Node::new(PubSub::default(), Rules::default(), Some(domain))
        };
        let links = links.iter().copied().collect();
        let nodes = (0..count).map(node).collect();
        let mut network = Network { nodes, links, dead: BTreeSet::new(), now_ms: 1000 };
        network.run(500);
        network
    }

    fn has_link(&self, a: usize, b: usize) -> bool {
        let is_there = self.links.contains(&(a, b)) || self.links.contains(&(b, a));
        is_there && !self.dead.contains(&a) && !self.dead.contains(&b)
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
                for to in 0..self.nodes.len() {
                    let is_for = match &target {
                        Target::Everyone => true,
                        Target::Neighbour(found) => *found == address(to),
                    };
                    if is_for && self.has_link(from, to) {
                        self.nodes[to].receive_packet(self.now_ms, address(from), &bytes);
                    }
                }
            }
        }
    }

    fn subscriber(&mut self, node: usize) -> Application {
        let mut application = Application::new(&mut self.nodes[node]);
        let (request, subscription, history, pattern) = (1, 1, 1, "/s/**".into());
        let subscribe = Request::SubscribeHistory { request, subscription, history, pattern };
        application.send(&mut self.nodes[node], &subscribe, None);
        self.run(100);
        application.events(&mut self.nodes[node]);
        application
    }

    /// Announces the item. `Err`: the node's sentence.
    fn announce(&mut self, node: usize, options: ItemOptions) -> Result<Source, String> {
        let mut application = Application::new(&mut self.nodes[node]);
        let announce = Request::Publish { request: 1, item: 0, options, name: NAME.into() };
        application.send(&mut self.nodes[node], &announce, None);
        let events = application.events(&mut self.nodes[node]);
        let refused = events.into_iter().find_map(|event| match event {
            Event::Reply { code, text, .. } => (code != 0).then_some(text),
            _ => None,
        });
        self.run(100);
        refused.map_or(Ok(Source { application, node, sequence: 0 }), Err)
    }

    fn source(&mut self, node: usize, choice: PublisherChoice, strength: u32) -> Source {
        self.announce(node, with(choice, strength)).unwrap()
    }

    fn publish(&mut self, source: &mut Source, text: &str) {
        source.sequence += 1;
        for fragment in Fragment::parts(source.sequence, text.as_bytes()) {
            let data = Request::Data { item: 0, fragment };
            source.application.send(&mut self.nodes[source.node], &data, None);
        }
        self.run(20);
    }

    /// Returns what a subscriber got since the last call: texts, and the number of lost ones by
    /// its own count of each item's numbers.
    fn received(&mut self, node: usize, application: &mut Application) -> (Vec<String>, u64) {
        let (mut texts, mut lost) = (Vec::new(), 0);
        for event in application.events(&mut self.nodes[node]) {
            match event {
                Event::Data { fragment, .. } => {
                    texts.push(String::from_utf8(fragment.payload).unwrap());
                }
                Event::Lost { count, .. } => lost += count,
                _ => {}
            }
        }
        (texts, lost + self.nodes[node].status().domain.lost)
    }

    fn standby(&self, source: &Source) -> bool {
        let items = self.nodes[source.node].status().items;
        items.iter().find(|item| item.session == source.application.id).unwrap().standby
    }

    fn end(&mut self, source: Source) {
        source.application.end(&mut self.nodes[source.node]);
        self.run(100);
    }
}

#[test]
fn strongest_serves_everyone_and_after_its_end_the_next_without_false_loss() {
    let mut network = Network::new(3, &[(0, 1), (1, 2)]);
    let mut subscribers: Vec<Application> = (0..3).map(|node| network.subscriber(node)).collect();
    let mut weak = network.source(0, PublisherChoice::Strongest, 1);
    network.publish(&mut weak, "weak 1");
    let mut strong = network.source(2, PublisherChoice::Strongest, 9);
    assert!(network.standby(&weak) && !network.standby(&strong));
    // Number 7 of it is far from what the other one has made.
    for number in 1..=7 {
        network.publish(&mut strong, &format!("strong {number}"));
        network.publish(&mut weak, "unseen");
    }
    network.publish(&mut weak, "weak last");
    let expected = |from: usize| (from..=7).map(|n| format!("strong {n}")).collect::<Vec<_>>();
    for (node, subscriber) in subscribers.iter_mut().enumerate() {
        let (texts, lost) = network.received(node, subscriber);
        assert_eq!((&texts[1..], lost), (&expected(1)[..], 0), "node {node}");
        assert_eq!(texts[0], "weak 1");
    }
    network.end(strong);
    network.publish(&mut weak, "weak 10");
    for (node, subscriber) in subscribers.iter_mut().enumerate() {
        // The last one that it published before comes first.
        let expected = (vec!["weak last".to_owned(), "weak 10".to_owned()], 0);
        assert_eq!(network.received(node, subscriber), expected, "node {node}");
    }
}

#[test]
fn nearest_serves_each_subscriber_and_the_other_one_within_a_second_of_a_lost_node() {
    let mut network = Network::new(4, &[(0, 1), (1, 2), (2, 3)]);
    let mut left = network.source(0, PublisherChoice::Nearest, 0);
    let mut right = network.source(3, PublisherChoice::Nearest, 0);
    let mut near_left = network.subscriber(1);
    let mut near_right = network.subscriber(2);
    network.publish(&mut left, "left");
    network.publish(&mut right, "right");
    assert_eq!(network.received(1, &mut near_left), (vec!["left".into()], 0));
    assert_eq!(network.received(2, &mut near_right), (vec!["right".into()], 0));
    network.dead.insert(3);
    network.run(500);
    for number in 0..3 {
        network.publish(&mut left, &format!("left {number}"));
    }
    let (texts, lost) = network.received(2, &mut near_right);
    assert_eq!(
        (&texts[texts.len() - 3..], lost),
        (&["left 0", "left 1", "left 2"].map(String::from)[..], 0)
    );
    // The node comes back with what it published alone: nothing of it counts as lost.
    for number in 0..5 {
        network.publish(&mut right, &format!("alone {number}"));
    }
    network.dead.clear();
    network.run(1000);
    network.publish(&mut right, "right again");
    network.publish(&mut left, "left again");
    let (texts, lost) = network.received(2, &mut near_right);
    assert_eq!((texts, lost), (vec!["alone 4".into(), "right again".into()], 0));
    let (texts, lost) = network.received(1, &mut near_left);
    assert_eq!((texts.last().map(String::as_str), lost), (Some("left again"), 0));
}

#[test]
fn one_of_two_publishers_of_a_node_serves_applications_and_other_nodes() {
    for choice in [PublisherChoice::Nearest, PublisherChoice::Strongest] {
        let mut network = Network::new(2, &[(0, 1)]);
        let (mut here, mut there) = (network.subscriber(0), network.subscriber(1));
        let mut first = network.source(0, choice, 5);
        let mut second = network.source(0, choice, 3);
        assert!(network.standby(&second) && !network.standby(&first), "{choice}");
        for number in 1..=3 {
            network.publish(&mut second, "unseen");
            network.publish(&mut first, &format!("first {number}"));
        }
        network.end(first);
        network.publish(&mut second, "second 4");
        let expected = ["first 1", "first 2", "first 3", "unseen", "second 4"].map(String::from);
        assert_eq!(network.received(0, &mut here), (expected.to_vec(), 0), "{choice}");
        assert_eq!(network.received(1, &mut there), (expected.to_vec(), 0), "{choice}");
        let subscribers = second.application.events(&mut network.nodes[0]);
        let mut counts = subscribers.iter().filter_map(|event| match event {
            Event::Subscribers { count, .. } => Some(*count),
            _ => None,
        });
        assert_eq!(counts.next_back(), Some(2), "the publisher learns that it serves");
    }
}

#[test]
fn choice_is_a_property_of_the_item_that_others_take_and_may_not_change() {
    let mut network = Network::new(2, &[(0, 1)]);
    let mut subscriber = network.subscriber(1);
    let mut early = network.announce(1, ItemOptions::default()).unwrap();
    let mut chosen = network.source(0, PublisherChoice::Strongest, 2);
    assert!(network.standby(&early), "it takes the choice of another one");
    let refused = network.announce(1, with(PublisherChoice::Nearest, 0)).err().unwrap();
    assert_eq!(refused, "/s/item has publishers with the choice strongest, not nearest");
    let implicit =
        ItemOptions { strategy: Some(Strategy::Implicit), ..with(PublisherChoice::Strongest, 2) };
    let refused = network.announce(1, implicit).err().unwrap();
    assert!(refused.contains("the strategy implicit says where"), "{refused}");
    network.publish(&mut chosen, "chosen");
    network.publish(&mut early, "early");
    assert_eq!(network.received(1, &mut subscriber), (vec!["chosen".into()], 0));
    network.end(chosen);
    let late = network.announce(0, ItemOptions { strength: 1, ..ItemOptions::default() }).unwrap();
    assert!(network.standby(&early) && !network.standby(&late), "the choice stays");
    network.end(late);
    network.end(early);
    network.source(0, PublisherChoice::Nearest, 0);
}

#[test]
fn publishers_without_a_choice_serve_all_of_them() {
    let mut network = Network::new(3, &[(0, 1), (1, 2)]);
    let mut subscriber = network.subscriber(1);
    let mut sources = [0, 2].map(|node| network.announce(node, ItemOptions::default()).unwrap());
    for source in &mut sources {
        network.publish(source, "value");
    }
    assert_eq!(network.received(1, &mut subscriber), (vec!["value".to_owned(); 2], 0));
    let own = network.nodes[0].domain.as_ref().unwrap().publishers().count();
    assert_eq!(own, 0, "nothing is told of them");
}

/// Random networks, publishers, strengths, failures and returns: when states have settled, every
/// subscriber's node that a publisher reaches is served by one, and by the same in all views.
#[test]
fn each_reachable_subscriber_has_exactly_one_serving_publisher() {
    for seed in 0..40 {
        let mut state = seed;
        let mut random = |bound: u64| {
            state = splitmix64(state);
            state % bound
        };
        let count = 2 + random(4) as usize;
        let mut links = Vec::new();
        for b in 1..count {
            links.push((random(b as u64) as usize, b));
            if random(2) == 0 {
                links.push((random(b as u64) as usize, b));
            }
        }
        let choice = [PublisherChoice::Nearest, PublisherChoice::Strongest][random(2) as usize];
        let mut network = Network::new(count, &links);
        let mut subscribers: Vec<Application> = (0..count).map(|n| network.subscriber(n)).collect();
        let mut sources: Vec<Source> = Vec::new();
        for step in 0..6 {
            match random(5) {
                0 | 1 => {
                    let (node, strength) = (random(count as u64) as usize, random(3) as u32);
                    sources.push(network.source(node, choice, strength));
                }
                2 if !sources.is_empty() => {
                    let ended = sources.swap_remove(random(sources.len() as u64) as usize);
                    network.end(ended);
                }
                3 => drop(network.dead.insert(random(count as u64) as usize)),
                _ => network.dead.clear(),
            }
            network.run(800);
            for (node, subscriber) in subscribers.iter_mut().enumerate() {
                network.received(node, subscriber);
            }
            for (number, source) in sources.iter_mut().enumerate() {
                network.publish(source, &number.to_string());
            }
            network.run(50);
            for (node, subscriber) in subscribers.iter_mut().enumerate() {
                let reaching = expected(&network, &sources, choice, node);
                let (texts, _) = network.received(node, subscriber);
                let context = format!("seed {seed}, step {step}, node {node} of {links:?}");
                assert_eq!(texts, Vec::from_iter(reaching.map(|n| n.to_string())), "{context}");
            }
        }
    }
}

/// Returns the publisher that a naive search selects.
fn expected(
    network: &Network,
    sources: &[Source],
    choice: PublisherChoice,
    node: usize,
) -> Option<usize> {
    let mut hops = BTreeMap::from([(node, 0_u32)]);
    for distance in 0..network.nodes.len() as u32 {
        let last: Vec<usize> =
            hops.iter().filter(|(_, hops)| **hops == distance).map(|(node, _)| *node).collect();
        for next in 0..network.nodes.len() {
            if last.iter().any(|from| network.has_link(*from, next)) {
                hops.entry(next).or_insert(distance + 1);
            }
        }
    }
    let rank = |number: &usize| {
        let source = &sources[*number];
        let items = &network.nodes[source.node].publishers[&source.application.id].items;
        let order = match choice {
            PublisherChoice::Nearest => hops[&source.node],
            _ => u32::MAX - items[&0].strength,
        };
        (order, source.node, source.application.id)
    };
    let reaching = (0..sources.len()).filter(|number| hops.contains_key(&sources[*number].node));
    reaching.min_by_key(rank)
}
