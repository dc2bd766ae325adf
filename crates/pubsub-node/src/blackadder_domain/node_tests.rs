//! A domain of Blackadder's nodes with the state of a node, and what others can make them hold.

use super::*;
use crate::relay::tests::Application;
use crate::rules::Rules;
use nw_api::config::PubSub;
use nw_api::pubsub::{Event, Fragment, ItemOptions, Request};
use nw_wire::publication::{NODE_SCOPE, NetworkPacketBuilder, NodeNotice};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const OWN: Label = Label(*b"00000002");

fn config() -> PubSub {
    PubSub {
        domain: false,
        blackadder_node: Some("00000002".into()),
        blackadder_internal: Some("254".into()),
        blackadder_rendezvous: Some("154+255".into()),
        blackadder_links: vec!["192.0.2.1 id=154".into(), "192.0.2.3 id=153".into()],
        ..PubSub::default()
    }
}

fn node(config: PubSub) -> Node {
    let settings = Settings::parse(&config).unwrap().unwrap();
    let mut node = Node::new(config, Rules::default(), None);
    let mut domain = BlackadderDomain::new(settings, Names::default(), 55_555);
    domain.connect(&mut node).unwrap();
    node.blackadder = Some(Box::new(domain));
    node
}

fn id(labels: &[u64]) -> Id {
    Id::new(labels.iter().map(|label| Label::from_number(*label)).collect())
}

fn receive(node: &mut Node, ids: &[Id], payload: &[u8]) {
    let from = LinkAddress::from(SocketAddr::from(([192, 0, 2, 1], 55_555)));
    let (fid, mut bytes) = (Fid::of_bit(254), Vec::new());
    NetworkPacketBuilder { fid, ids, payload }.encode(&mut bytes).unwrap();
    node.receive_packet(0, from, &bytes);
}

fn notify(node: &mut Node, notice: &NodeNotice) {
    let mut payload = Vec::new();
    notice.encode(&mut payload).unwrap();
    let to = [Id::new(vec![NODE_SCOPE, OWN])];
    receive(node, &to, &payload);
}

fn domain(node: &mut Node) -> &mut BlackadderDomain {
    node.blackadder.as_mut().unwrap()
}

/// Passes on what waits between the node and the domain.
fn settle(node: &mut Node) {
    for _ in 0..4 {
        node.pump_ready();
        node.flush();
        node.with_blackadder(BlackadderDomain::run);
    }
}

#[test]
fn identifiers_of_one_item_are_bounded() {
    let mut node = node(config());
    let mut application = Application::new(&mut node);
    application.subscribe(&mut node, "/8=0000000000000001/**");
    for round in 0..20 {
        let first = id(&[1, 2]);
        let further = (0..100).map(|label| id(&[10 + 1000 * round + label, 2]));
        let ids: Vec<Id> = core::iter::once(first).chain(further).collect();
        receive(&mut node, &ids, b"x");
    }
    let domain = domain(&mut node);
    assert_eq!((domain.inward.len(), domain.counters.delivered), (1, 20));
    // 255 names; below 63 further scopes the node knows it, too.
    assert_eq!(domain.counters.omitted, 2001 - 255 + 254 - 63);
}

#[test]
fn more_items_than_one_application_may_have_take_turns() {
    let mut node = node(PubSub { items_per_application: 8, ..config() });
    let mut application = Application::new(&mut node);
    application.subscribe(&mut node, "/8=0000000000000001/**");
    for label in 0..20 {
        receive(&mut node, &[id(&[1, label])], b"x");
    }
    node.pump_ready();
    let is_data = |event: &Event| matches!(event, Event::Data { .. });
    assert_eq!(application.events(&mut node).iter().filter(|event| is_data(event)).count(), 20);
    assert_eq!((domain(&mut node).inward.len(), node.counters.refusals), (8, 0));
}

#[test]
fn presence_of_many_items_exceeds_no_queue() {
    let mut node = node(PubSub { items: 1_000_000, ..config() });
    let mut application = Application::new(&mut node);
    let scope = format!("/{}", "s".repeat(255)).repeat(3);
    for item in 0..18_000 {
        let name = format!("{scope}/{item:0>255}");
        let options = ItemOptions::default();
        application.send(&mut node, &Request::Publish { request: 1, item, options, name }, None);
        application.events(&mut node);
    }
    settle(&mut node);
    let session = domain(&mut node).session().unwrap();
    assert!(node.sessions.contains_key(&session), "the node has not ended the connection");
    let requests = |node: &mut Node| domain(node).requests.len();
    assert_eq!(requests(&mut node), 18_000 * 4);
    application.end(&mut node);
    assert_eq!(requests(&mut node), 0);
}

#[test]
fn connection_that_the_node_ended_begins_anew_with_the_items_that_are_started() {
    let mut node = node(config());
    let mut application = Application::new(&mut node);
    let (item, options) = (0, ItemOptions::default());
    let name = "/8=0000000000000001/8=0000000000000002".to_owned();
    application.send(&mut node, &Request::Publish { request: 1, item, options, name }, None);
    notify(&mut node, &NodeNotice::Start { ids: vec![id(&[1, 2])], fid: Fid::of_bit(153) });
    settle(&mut node);
    let publish = |node: &mut Node, application: &mut Application, sequence: u64| {
        domain(node).packets.take();
        for fragment in Fragment::parts(sequence, b"data") {
            application.send(node, &Request::Data { item, fragment }, None);
        }
        settle(node);
        domain(node).packets.take().len()
    };
    assert_eq!(publish(&mut node, &mut application, 1), 1);
    let before = domain(&mut node).session().unwrap();
    node.fail(before, &"it has more than may wait");
    settle(&mut node);
    let mut is_new = false;
    node.with_blackadder(|domain, node| is_new = domain.reconnect(node));
    assert!(is_new && domain(&mut node).session().is_some_and(|after| after != before));
    settle(&mut node);
    assert_eq!(publish(&mut node, &mut application, 2), 1);
    notify(&mut node, &NodeNotice::Stop { ids: vec![id(&[1, 2])] });
    assert_eq!(publish(&mut node, &mut application, 3), 0);
}

#[test]
fn subscription_to_many_scopes_of_other_nodes_ends_at_once() {
    const SCOPES: u64 = 16_000;
    let mut node = node(config());
    let mut application = Application::new(&mut node);
    application.subscribe(&mut node, "/8=0000000000000001/**");
    for first in (0..SCOPES).step_by(100) {
        let ids = (first..first + 100).map(|label| id(&[1, label])).collect();
        notify(&mut node, &NodeNotice::Scope { published: true, ids });
    }
    assert_eq!(domain(&mut node).scopes.len() as u64, SCOPES);
    let requests = domain(&mut node).counters.requests;
    let started = Instant::now();
    application.end(&mut node);
    // Each scope compared with each other one: more than 20 seconds.
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let domain = domain(&mut node);
    assert!(domain.scopes.is_empty() && domain.subtrees.is_empty());
    assert_eq!((domain.counters.requests - requests, domain.requests.len()), (SCOPES + 1, 0));
}

#[test]
fn start_beyond_the_subscriptions_of_the_domain_is_counted_and_leaves_no_route() {
    let mut node = node(PubSub { items_per_application: 3, ..config() });
    let mut application = Application::new(&mut node);
    for item in 0..2 {
        let name = format!("/8=0000000000000001/8=000000000000000{item}");
        let options = ItemOptions::default();
        application.send(&mut node, &Request::Publish { request: 1, item, options, name }, None);
    }
    for label in 0..2 {
        notify(&mut node, &NodeNotice::Start { ids: vec![id(&[1, label])], fid: Fid::of_bit(153) });
    }
    let domain = domain(&mut node);
    assert_eq!((domain.routes.len(), domain.counters.omitted), (1, 1));
    let session = domain.session().unwrap();
    assert_eq!(node.sessions[&session].subscriptions.len(), 2);
}
