//! Domains in virtual time: links that can be cut, packets that can be lost.

use super::*;
use std::net::Ipv4Addr;

/// Nodes with links between their addresses: node *i* sends from address *i*.
struct Network {
    domains: Vec<Domain>,
    links: BTreeSet<(usize, usize)>,
    now_ms: u64,
    /// Every n-th publication packet is lost; 0: none.
    loss: usize,
    count: usize,
}

fn address(node: usize) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(10, 0, 0, node as u8), 55_555))
}

impl Network {
    fn new(nodes: usize, links: &[(usize, usize)]) -> Self {
        let both = links.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]);
        let id = |node: usize| (node as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Network {
            domains: (0..nodes).map(|node| Domain::new(id(node), 100)).collect(),
            links: both.collect(),
            now_ms: 1000,
            loss: 0,
            count: 0,
        }
    }

    fn cut(&mut self, a: usize, b: usize) {
        self.links.retain(|link| *link != (a, b) && *link != (b, a));
    }

    /// Delivers packets until none is left.
    fn exchange(&mut self) {
        for _ in 0..100 {
            let mut moved = false;
            for from in 0..self.domains.len() {
                for (target, bytes) in core::mem::take(&mut self.domains[from].packets) {
                    moved = true;
                    let receivers: Vec<usize> = self
                        .links
                        .iter()
                        .filter(|(a, b)| *a == from && is_for(&target, *b))
                        .map(|(_, b)| *b)
                        .collect();
                    let envelope = Envelope::check(&bytes).unwrap();
                    if envelope.kind() == EnvelopeKind::Publication {
                        self.count += 1;
                        if self.loss > 0 && self.count.is_multiple_of(self.loss) {
                            continue;
                        }
                    }
                    for to in receivers {
                        self.domains[to].receive(self.now_ms, address(from), &bytes);
                    }
                }
            }
            if !moved {
                return;
            }
        }
        panic!("packets circulate");
    }

    fn run(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            self.now_ms += 10;
            for domain in &mut self.domains {
                domain.tick(self.now_ms);
            }
            self.exchange();
        }
    }

    /// Takes the publications that a node received, and the number of lost ones.
    fn received(&mut self, node: usize) -> Vec<(u64, Vec<u8>)> {
        let events = core::mem::take(&mut self.domains[node].events);
        let publication = |event| match event {
            DomainEvent::Publication { sequence, payload, .. } => Some((sequence, payload)),
            _ => None,
        };
        events.into_iter().filter_map(publication).collect()
    }
}

fn is_for(target: &Target, node: usize) -> bool {
    match target {
        Target::Everyone => true,
        Target::Neighbour(to) => *to == address(node),
    }
}

fn name() -> ItemName {
    "/a/b".parse().unwrap()
}

#[test]
fn chain_of_four_delivers_to_subscribed_nodes_only() {
    let mut network = Network::new(4, &[(0, 1), (1, 2), (2, 3)]);
    network.domains[3].set_patterns(vec!["/a/**".parse().unwrap()]);
    network.run(300);
    let nodes = network.domains[0].subscribers(&name());
    assert_eq!(nodes, BTreeSet::from([network.domains[3].node()]));
    network.domains[0].publish(&name(), 1, &[7; 5000], false, &nodes);
    network.exchange();
    assert_eq!(network.received(3), [(1, vec![7; 5000])]);
    assert!(network.received(1).is_empty() && network.received(2).is_empty());
    assert_eq!(network.domains[1].counters().unwanted, 0);
    assert_eq!(network.domains[0].nodes().len(), 3);
}

#[test]
fn ring_heals_within_a_second_after_a_cut() {
    let mut network = Network::new(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]);
    network.domains[2].set_patterns(vec!["/a/b".parse().unwrap()]);
    network.run(300);
    let nodes = network.domains[0].subscribers(&name());
    network.domains[0].publish(&name(), 1, b"x", false, &nodes);
    network.exchange();
    assert_eq!(network.received(2).len(), 1);
    network.cut(1, 2);
    network.run(600);
    network.domains[0].publish(&name(), 2, b"y", false, &nodes);
    network.exchange();
    assert_eq!(network.received(2), [(2, b"y".to_vec())]);
}

#[test]
fn losses_are_told_exactly_also_of_the_last_publication() {
    let mut network = Network::new(2, &[(0, 1)]);
    network.domains[1].set_patterns(vec!["/a/b".parse().unwrap()]);
    network.run(300);
    let nodes = network.domains[0].subscribers(&name());
    network.domains[0].start_item(&name(), 0, None, &nodes);
    network.exchange();
    network.loss = 3;
    for sequence in 1..=30 {
        network.domains[0].publish(&name(), sequence, b"x", false, &nodes);
        network.exchange();
    }
    network.loss = 0;
    network.run(2000);
    let (mut last, mut delivered, mut lost) = (0, 0, 0);
    for event in core::mem::take(&mut network.domains[1].events) {
        match event {
            DomainEvent::Publication { sequence, .. } => {
                delivered += 1;
                lost += sequence - last - 1;
                last = sequence;
            }
            DomainEvent::Missing { last: missing, .. } => {
                lost += missing - last;
                last = missing;
            }
            _ => {}
        }
    }
    assert_eq!((delivered + lost, last), (30, 30));
    assert!(lost > 5);
}

#[test]
fn hostile_packets_are_counted_and_change_nothing() {
    let mut network = Network::new(2, &[(0, 1)]);
    network.domains[1].set_patterns(vec!["/**".parse().unwrap()]);
    network.run(300);
    let domain = &mut network.domains[1];
    let events = domain.events.len();
    let mut flood = Vec::new();
    let body = [&payload_head(0, "/x")[..], b"y"].concat();
    let stream = Some(StreamPosition { source: Label::from_number(9), sequence: 1 });
    let builder = EnvelopeBuilder {
        hop_limit: 255,
        fid: Fid::BROADCAST,
        stream,
        payload: &body,
        ..EnvelopeBuilder::default()
    };
    builder.encode(&mut flood).unwrap();
    domain.receive(2000, address(0), &flood);
    assert_eq!(domain.counters().fill_limit, 1);
    domain.receive(2000, address(77), &flood);
    assert_eq!(domain.counters().invalid, 1, "not from a neighbour");
    for len in 0..flood.len() {
        domain.receive(2000, address(0), &flood[..len]);
    }
    domain.receive(2000, address(0), &[0xff; 1400]);
    assert_eq!(domain.events.len(), events);
    assert_eq!(domain.counters().invalid, 2 + flood.len() as u64);
}

#[test]
fn node_that_ends_is_no_longer_a_receiver() {
    let mut network = Network::new(3, &[(0, 1), (1, 2), (0, 2)]);
    network.domains[1].set_patterns(vec!["/a/b".parse().unwrap()]);
    network.domains[2].set_patterns(vec!["/a/b".parse().unwrap()]);
    network.run(300);
    assert_eq!(network.domains[0].subscribers(&name()).len(), 2);
    network.cut(0, 1);
    network.cut(1, 2);
    network.run(500);
    let left = network.domains[0].subscribers(&name());
    assert_eq!(left, BTreeSet::from([network.domains[2].node()]));
}
