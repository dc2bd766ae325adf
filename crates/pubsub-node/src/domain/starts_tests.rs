//! Losses at the start of an item: all publications since the subscription are received or told.

use super::tests::{Network, name, receivers};
use super::*;
use nw_packet_types::random::splitmix64;

const LATER: LaterUse = LaterUse { keeps_last: false, is_bound: false };

/// Node 1 subscribes to an item of node 0. Returns its receivers.
fn subscribed() -> (Network, BTreeSet<NodeId>) {
    let mut network = Network::new(2, &[(0, 1)]);
    network.subscribe(1, "/a/b");
    network.run(300);
    network.domains[1].events.clear();
    let nodes = network.domains[0].receivers([&name()], Strategy::Domain);
    assert_eq!(nodes.len(), 1);
    (network, nodes)
}

fn publish(network: &mut Network, sequence: u64, nodes: &BTreeSet<NodeId>) {
    network.domains[0].publish(&name(), sequence, &[sequence as u8], LATER, nodes);
    network.exchange();
}

fn start(network: &mut Network, last: u64, nodes: &BTreeSet<NodeId>) {
    network.domains[0].start_item(&name(), last, None, LATER, receivers(nodes, 1));
    network.exchange();
}

fn numbers(network: &mut Network) -> Vec<u64> {
    network.received(1).into_iter().map(|(sequence, _)| sequence).collect()
}

#[test]
fn publication_lost_with_the_start_is_repaired() {
    for last in [0, 5] {
        let (mut network, nodes) = subscribed();
        network.lose_next = 2;
        start(&mut network, last, &nodes);
        publish(&mut network, last + 1, &nodes);
        assert!(numbers(&mut network).is_empty());
        network.run(200);
        assert_eq!(numbers(&mut network), [last + 1]);
        publish(&mut network, last + 2, &nodes);
        assert_eq!(numbers(&mut network), [last + 2]);
        network.run(3000);
        assert!(numbers(&mut network).is_empty());
    }
}

#[test]
fn publications_that_follow_a_lost_start_wait_for_the_earlier_ones() {
    let (mut network, nodes) = subscribed();
    network.lose_next = 3;
    start(&mut network, 7, &nodes);
    for sequence in 8..=10 {
        publish(&mut network, sequence, &nodes);
    }
    assert!(numbers(&mut network).is_empty(), "10 has come, 8 and 9 may be missing");
    network.run(100);
    assert_eq!(numbers(&mut network), [8, 9, 10]);
}

#[test]
fn item_that_ends_at_once_is_received_and_its_end_is_told_once() {
    let (mut network, nodes) = subscribed();
    network.lose_next = 3;
    start(&mut network, 0, &nodes);
    publish(&mut network, 1, &nodes);
    network.domains[0].end_item(&name(), 1, &nodes);
    network.exchange();
    network.run(3000);
    let events = core::mem::take(&mut network.domains[1].events);
    let kinds: Vec<bool> = events
        .iter()
        .filter_map(|event| match event {
            DomainEvent::Publication { sequence: 1, .. } => Some(false),
            DomainEvent::End { .. } => Some(true),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [false, true], "{events:?}");
    assert_eq!(network.domains[0].starts.get(&name(), network.domains[1].node()), None);
}

#[test]
fn last_value_that_is_lost_is_repaired() {
    for lost in [1, 2] {
        let (mut network, nodes) = subscribed();
        network.lose_next = lost;
        let keeps = LaterUse { keeps_last: true, is_bound: false };
        network.domains[0].start_item(&name(), 9, Some((9, b"value")), keeps, receivers(&nodes, 1));
        network.exchange();
        network.run(300);
        let events = core::mem::take(&mut network.domains[1].events);
        let values: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                DomainEvent::Publication { sequence, payload, is_last_value, .. } => {
                    Some((*sequence, &payload[..], *is_last_value))
                }
                _ => None,
            })
            .collect();
        assert_eq!(values, [(9, &b"value"[..], true)], "{lost} lost");
    }
}

#[test]
fn subscription_that_is_renewed_at_once_goes_on_where_it_ended() {
    let (mut network, nodes) = subscribed();
    start(&mut network, 0, &nodes);
    (1..=3).for_each(|sequence| publish(&mut network, sequence, &nodes));
    assert_eq!(numbers(&mut network), [1, 2, 3]);
    let publisher = network.domains[0].node();
    network.domains[1].forget(publisher, &name());
    network.lose_next = 1;
    publish(&mut network, 4, &nodes);
    publish(&mut network, 5, &nodes);
    network.run(200);
    assert_eq!(numbers(&mut network), [4, 5], "none is received twice");
}

/// The numbers of a new publisher are its own, whatever was received of the one before.
#[test]
fn publisher_that_begins_again_is_received_from_its_first_publication_on() {
    for (is_ended, lost) in [(true, 0), (true, 2), (false, 0), (false, 2)] {
        let (mut network, nodes) = subscribed();
        start(&mut network, 0, &nodes);
        (1..=2).for_each(|sequence| publish(&mut network, sequence, &nodes));
        if is_ended {
            network.domains[0].end_item(&name(), 2, &nodes);
            network.exchange();
        }
        assert_eq!(numbers(&mut network), [1, 2]);
        network.lose_next = lost;
        network.domains[0].start_item(&name(), 0, None, LATER, receivers(&nodes, 2));
        network.exchange();
        publish(&mut network, 1, &nodes);
        network.run(200);
        assert_eq!(numbers(&mut network), [1], "ended: {is_ended}, lost: {lost}");
        publish(&mut network, 2, &nodes);
        assert_eq!(numbers(&mut network), [2]);
        // The number of the first publisher, late.
        let name = name();
        let last = LastNumber { number: 7, round: 1 };
        let key = (network.domains[0].node(), name.clone());
        network.domains[1].streams.receive_number(&key, last, 0, Timestamp::from_millis(2000));
        network.run(3000);
        assert!(numbers(&mut network).is_empty());
        assert_eq!(network.domains[1].counters().lost, 0);
    }
}

/// A node is told no number of an item after its subscription has ended: it might be taken for one
/// of the next publisher.
#[test]
fn numbers_are_repeated_for_nodes_that_receive_only() {
    let (mut network, nodes) = subscribed();
    start(&mut network, 0, &nodes);
    publish(&mut network, 1, &nodes);
    let received = network.domains[1].counters().received;
    network.domains[0].retain_receivers(&name(), &BTreeSet::new());
    network.run(3000);
    assert_eq!(network.domains[1].counters().received, received);
}

#[test]
fn renewed_subscription_of_an_item_without_publications_gets_no_earlier_ones() {
    let (mut network, nodes) = subscribed();
    start(&mut network, 0, &nodes);
    network.domains[1].set_patterns(Vec::new(), PatternSet::default());
    network.domains[1].forget_unwanted();
    network.domains[0].retain_receivers(&name(), &BTreeSet::new());
    // Others got them, so they are kept.
    let others = BTreeSet::from([NodeId(99)]);
    (1..=3).for_each(|sequence| publish(&mut network, sequence, &others));
    network.subscribe(1, "/a/**");
    network.run(100);
    start(&mut network, 3, &nodes);
    publish(&mut network, 4, &nodes);
    network.run(1000);
    assert_eq!(numbers(&mut network), [4]);
    assert_eq!(network.domains[1].counters().repair_requests, 0);
}

#[test]
fn node_that_gets_all_publications_of_a_link_accepts_them_from_its_subscription_on() {
    let mut network = Network::new(2, &[(0, 1)]);
    network.run(300);
    let nodes = network.domains[0].receivers([&name()], Strategy::Broadcast);
    let all = Receivers { nodes: &nodes, round: 1, have_subscribed: false };
    network.domains[0].start_item(&name(), 0, None, LATER, all);
    network.exchange();
    (1..=3).for_each(|sequence| publish(&mut network, sequence, &nodes));
    network.subscribe(1, "/a/**");
    network.run(200);
    publish(&mut network, 4, &nodes);
    network.run(1000);
    assert_eq!(numbers(&mut network), [4]);
}

#[test]
fn publications_are_passed_on_without_an_answer_after_some_requests() {
    let (mut network, nodes) = subscribed();
    network.lose_next = 1;
    start(&mut network, 3, &nodes);
    publish(&mut network, 5, &nodes);
    network.cut(0, 1);
    network.run(100);
    assert!(numbers(&mut network).is_empty());
    network.run(300);
    assert_eq!(numbers(&mut network), [5]);
}

/// Packets are lost at random for a while, at the start, the end and in between.
#[test]
fn received_and_lost_add_up_to_published_with_losses_from_the_start_on() {
    for seed in 0..300 {
        let (mut network, nodes) = subscribed();
        let random = |step: u64| splitmix64(seed * 1000 + step);
        let last = random(0) % 3;
        let count = 1 + random(1) % 5;
        let lose = |network: &mut Network, step: u64| {
            network.lose_next =
                usize::from(random(step) % 2 == 0) * (random(step + 500) % 4) as usize;
        };
        lose(&mut network, 2);
        start(&mut network, last, &nodes);
        for number in 1..=count {
            lose(&mut network, 10 + number);
            publish(&mut network, last + number, &nodes);
            if random(20 + number) % 4 == 0 {
                network.run(20);
            }
        }
        network.domains[0].end_item(&name(), last + count, &nodes);
        lose(&mut network, 30);
        network.run(3000);
        let (mut passed, mut ends) = (last, 0);
        for event in core::mem::take(&mut network.domains[1].events) {
            match event {
                DomainEvent::Publication { sequence, .. } => {
                    assert_eq!(sequence, passed + 1, "seed {seed}");
                    passed = sequence;
                }
                DomainEvent::Missing { last, .. } => passed = last,
                DomainEvent::End { .. } => ends += 1,
                _ => {}
            }
        }
        assert_eq!((passed, ends), (last + count, 1), "seed {seed}");
    }
}
