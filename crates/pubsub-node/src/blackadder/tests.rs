//! The recorded dialogues of Blackadder's programs (`tests/vectors/blackadder.txt`) against this
//! bridge and a node, and what the recording does not have.

use super::bridge::Bridge;
use super::names::Names;
use crate::node::Node;
use crate::relay::tests::Application;
use crate::rules::Rules;
use crate::session::SessionId;
use nw_api::config::{PubSub, PubSubRule};
use nw_api::pubsub::{Event as NodeEvent, ItemOptions, Request as NodeRequest};
use nw_faces::credentials::Credentials;
use nw_pubsub::ReturnCode;
use nw_wire::publication::{
    ApplicationMessage, Event, EventKind, Id, Label, NETLINK_HEADER_LEN, NetlinkHeader,
    NetworkPacket, NodeNotice, Operation, RequestBody,
};
use std::collections::{BTreeMap, BTreeSet};

const VECTORS: &str = include_str!("../../../../tests/vectors/blackadder.txt");

struct Bench {
    node: Node,
    bridge: Bridge,
    sessions: BTreeMap<u32, SessionId>,
}

impl Bench {
    fn new(rules: &[PubSubRule]) -> Self {
        Bench::of(Node::new(PubSub::default(), Rules::parse(rules).unwrap(), None))
    }

    fn with_config(config: PubSub) -> Self {
        Bench::of(Node::new(config, Rules::default(), None))
    }

    fn of(node: Node) -> Self {
        let bridge = Bridge::new(&node, Names::default());
        Bench { node, bridge, sessions: BTreeMap::new() }
    }

    fn session(&mut self, pid: u32) -> SessionId {
        if let Some(session) = self.sessions.get(&pid) {
            return *session;
        }
        let credentials = Credentials { uid: 1000 + pid % 10, gid: 1000, pid };
        let session = self.bridge.open(&mut self.node, credentials).unwrap();
        self.sessions.insert(pid, session);
        session
    }

    fn send(&mut self, pid: u32, message: ApplicationMessage<'_>) {
        let session = self.session(pid);
        if !self.bridge.handle(&mut self.node, session, message) {
            self.bridge.end(&mut self.node, session);
            self.sessions.remove(&pid);
        }
        self.settle();
    }

    /// Passes on until nothing moves.
    fn settle(&mut self) {
        loop {
            self.node.pump_ready();
            self.node.flush();
            let mut has_moved = false;
            for session in self.sessions.values() {
                while let Some(program) = self.bridge.programs.get_mut(session) {
                    has_moved |= program.connection.receive().unwrap_or(false);
                    let Ok(Some(frame)) = program.connection.next_frame() else { break };
                    let event = NodeEvent::decode(frame.kind, &frame.body).unwrap();
                    self.bridge.handle_event(&self.node, *session, event);
                }
            }
            if !has_moved {
                return;
            }
        }
    }

    /// Returns the datagrams that wait for a program.
    fn received(&mut self, pid: u32) -> Vec<Vec<u8>> {
        let session = self.sessions.get(&pid);
        let Some(program) = session.and_then(|s| self.bridge.programs.get_mut(s)) else {
            return Vec::new();
        };
        let mut datagrams = Vec::new();
        while let Some(datagram) = program.next_datagram() {
            datagrams.push(datagram.to_vec());
            program.pop_datagram();
        }
        datagrams
    }

    fn events(&mut self, pid: u32) -> Vec<(EventKind, Id, Vec<u8>)> {
        let event = |datagram: Vec<u8>| {
            let event = Event::parse(&datagram[NETLINK_HEADER_LEN..]).unwrap();
            (event.kind, event.id.clone(), event.data.to_vec())
        };
        self.received(pid).into_iter().map(event).collect()
    }

    fn ask(
        &mut self,
        pid: u32,
        operation: Operation,
        scope: &[u64],
        label: u64,
        strategy: u8,
    ) -> ReturnCode {
        let session = self.session(pid);
        let body =
            RequestBody { operation, id: id(&[label]), prefix: id(scope), strategy, option: None };
        let code = self.bridge.request(&mut self.node, session, &body);
        self.settle();
        code
    }

    fn publish(&mut self, pid: u32, path: &[u64], strategy: u8, data: &[u8]) {
        let fid = matches!(strategy, 1 | 3).then(Default::default);
        self.send(pid, ApplicationMessage::PublishData { id: id(path), strategy, fid, data });
    }
}

fn id(labels: &[u64]) -> Id {
    Id::new(labels.iter().map(|label| Label::from_number(*label)).collect())
}

fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len() / 2).map(|at| byte(2 * at)).collect()
}

fn section(name: &str) -> impl Iterator<Item = &'static str> {
    let section = VECTORS.split("## ").find(|text| text.starts_with(name)).expect(name);
    section.lines().skip(1)
}

fn take(datagram: &[u8]) -> (u32, ApplicationMessage<'_>) {
    let (header, body) = NetlinkHeader::parse(datagram).unwrap();
    (header.pid, ApplicationMessage::parse(body).unwrap())
}

#[test]
fn recorded_dialogue_gets_the_recorded_events_byte_for_byte() {
    let mut bench = Bench::new(&[]);
    let (mut requests, mut events) = (0, 0);
    for line in section("B.") {
        let Some(digits) = line.rsplit(' ').next().filter(|_| !line.is_empty()) else { continue };
        let datagram = bytes(digits);
        if line.starts_with('>') {
            requests += 1;
            let (pid, message) = take(&datagram);
            bench.send(pid, message);
        } else if let Some(to) = line.strip_prefix("< to ") {
            events += 1;
            let pid = to[..4].parse().unwrap();
            assert_eq!(bench.received(pid), [datagram], "{line}");
        }
    }
    assert_eq!((requests, events), (9, 4));
    assert!(bench.bridge.programs.is_empty() && bench.bridge.publishers.is_empty());
    assert_eq!(bench.node.counters.refusals, 0);
}

/// What the recorded chain shows of the program `subscriber` and the program `publisher`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    scopes: BTreeSet<Id>,
    started: BTreeSet<Id>,
    data: BTreeSet<Id>,
}

fn recorded() -> Seen {
    let mut seen = Seen::default();
    for line in section("C.").filter(|line| line.starts_with("in ")) {
        let frame = bytes(line.rsplit(' ').next().unwrap());
        let packet = NetworkPacket::check(&frame[14..]).unwrap();
        match NodeNotice::parse(packet.payload()).unwrap() {
            NodeNotice::Start { ids, .. } => seen.started.extend(ids.into_iter().take(1)),
            NodeNotice::Scope { published: true, ids } => seen.scopes.extend(ids),
            _ => {}
        }
    }
    for line in section("D.").filter(|line| line.starts_with("out 10")) {
        let frame = bytes(line.rsplit(' ').next().unwrap().trim_end_matches('.'));
        let packet = NetworkPacket::check(&frame[14..]).unwrap();
        seen.data.extend(packet.ids().to_ids());
    }
    seen
}

/// Both sample programs, with their answers to events.
#[test]
fn recorded_requests_of_the_sample_publisher_reach_the_sample_subscriber() {
    const SUBSCRIBER: u32 = 7;
    let mut bench = Bench::new(&[]);
    let mut seen = Seen::default();
    assert_eq!(bench.ask(SUBSCRIBER, Operation::SubscribeScope, &[], 0, 2), ReturnCode::Success);
    let lines: Vec<Vec<u8>> =
        section("A.").filter_map(|line| line.split(" bytes ").nth(1)).map(bytes).collect();
    assert_eq!(lines.len(), 20);
    let (requests, disconnect) = lines.split_at(19);
    let publisher = take(&requests[0]).0;
    for datagram in requests {
        let (pid, message) = take(datagram);
        bench.send(pid, message);
    }
    let mut has_new = true;
    while has_new {
        has_new = false;
        for (kind, found, data) in bench.events(SUBSCRIBER) {
            has_new = true;
            if kind == EventKind::ScopePublished {
                let scope: Vec<u64> = found.labels().iter().map(|label| label.number()).collect();
                let (label, above) = scope.split_last().unwrap();
                bench.ask(SUBSCRIBER, Operation::SubscribeScope, above, *label, 2);
                seen.scopes.insert(found);
            } else {
                assert_eq!((kind, data.len()), (EventKind::PublishedData, 1000));
                seen.data.insert(found);
            }
        }
        for (kind, found, _) in bench.events(publisher) {
            has_new = true;
            assert_eq!(kind, EventKind::StartPublish);
            let data = [0; 1000];
            let message = ApplicationMessage::PublishData {
                id: found.clone(),
                strategy: 2,
                fid: None,
                data: &data,
            };
            bench.send(publisher, message);
            seen.started.insert(found);
        }
    }
    let expected = recorded();
    assert!(expected.data.len() == 7 && expected.scopes.len() >= 7, "{expected:?}");
    assert_eq!(seen.scopes, expected.scopes);
    assert_eq!(seen.data, expected.data);
    assert_eq!(seen.started, expected.started);
    let (pid, message) = take(&disconnect[0]);
    bench.send(pid, message);
    assert!(bench.bridge.publishers.is_empty());
    assert!(bench.node.last_values.is_empty(), "of a publisher that has ended");
}

#[test]
fn second_publisher_is_started_when_the_first_has_ended() {
    let mut bench = Bench::new(&[]);
    for pid in [1, 2] {
        bench.ask(pid, Operation::PublishScope, &[], 5, 2);
        assert_eq!(bench.ask(pid, Operation::PublishItem, &[5], 6, 2), ReturnCode::Success);
    }
    bench.ask(3, Operation::SubscribeItem, &[5], 6, 2);
    let started = vec![(EventKind::StartPublish, id(&[5, 6]), vec![])];
    let first = if bench.events(1) == started { 1 } else { 2 };
    let second = 3 - first;
    bench.events(first);
    assert_eq!(bench.events(second), []);
    bench.publish(first, &[5, 6], 2, b"one");
    assert_eq!(bench.events(3), [(EventKind::PublishedData, id(&[5, 6]), b"one".to_vec())]);
    bench.ask(4, Operation::SubscribeScope, &[], 5, 2);
    let late = bench.events(4);
    assert_eq!(late, [(EventKind::PublishedData, id(&[5, 6]), b"one".to_vec())], "the last value");
    bench.send(first, ApplicationMessage::Disconnect);
    assert_eq!(bench.events(second), started);
    bench.ask(3, Operation::UnsubscribeItem, &[5], 6, 2);
    assert_eq!(bench.events(second), [], "another one subscribes to the scope");
    bench.ask(4, Operation::UnsubscribeScope, &[], 5, 2);
    assert_eq!(bench.events(second), [(EventKind::StopPublish, id(&[5, 6]), vec![])]);
}

#[test]
fn fragments_below_an_item_reach_its_scope_without_a_request() {
    let mut bench = Bench::new(&[]);
    bench.ask(1, Operation::PublishScope, &[], 5, 2);
    bench.ask(1, Operation::PublishItem, &[5], 6, 2);
    assert_eq!(bench.ask(2, Operation::SubscribeScope, &[5], 6, 3), ReturnCode::Success);
    for number in 0..600_u64 {
        bench.publish(1, &[5, 6, number], 2, &number.to_be_bytes());
    }
    let expected = (0..600_u64).map(|number| {
        (EventKind::PublishedData, id(&[5, 6, number]), number.to_be_bytes().to_vec())
    });
    assert_eq!(bench.events(2), expected.collect::<Vec<_>>());
    let items = bench.node.publishers.values().map(|publisher| publisher.items.len());
    assert!(items.sum::<usize>() <= 257, "bounded");
    // By another program that has not published the item above.
    bench.publish(3, &[5, 6, 1], 2, b"x");
    assert_eq!((bench.events(2), bench.node.counters.refusals), (vec![], 1));
    bench.publish(3, &[5, 6, 1], 3, b"on this node");
    assert_eq!(bench.events(2).len(), 1);
}

#[test]
fn scopes_of_other_applications_are_told_after_many_subscriptions_that_ended() {
    let mut bench = Bench::new(&[]);
    let mut application = Application::new(&mut bench.node);
    let mut publish = |bench: &mut Bench, item: u32, scope: u64| {
        let name = format!("/8={scope:016x}/8={:016x}/8={:016x}", 1, 2);
        let options = ItemOptions::default();
        let request = NodeRequest::Publish { request: 1, item, options, name };
        application.send(&mut bench.node, &request, None);
        bench.settle();
    };
    for scope in 100..300_u64 {
        assert_eq!(bench.ask(1, Operation::SubscribeScope, &[], scope, 2), ReturnCode::Success);
        if scope == 200 {
            publish(&mut bench, 0, scope);
            assert_eq!(bench.events(1), [(EventKind::ScopePublished, id(&[200, 1]), vec![])]);
        }
        assert_eq!(bench.ask(1, Operation::UnsubscribeScope, &[], scope, 2), ReturnCode::Success);
    }
    assert_eq!(bench.node.watch_count(bench.sessions[&1]), 0);
    publish(&mut bench, 1, 7);
    assert_eq!(bench.events(1), []);
    bench.ask(1, Operation::SubscribeScope, &[], 7, 2);
    assert_eq!(bench.events(1), [(EventKind::ScopePublished, id(&[7, 1]), vec![])]);
    // A scope that is watched for itself once the one above is not.
    bench.ask(1, Operation::SubscribeScope, &[], 8, 2);
    bench.ask(1, Operation::SubscribeScope, &[8], 9, 2);
    bench.ask(1, Operation::UnsubscribeScope, &[], 8, 2);
    bench.events(1);
    let name = format!("/8={:016x}/8={:016x}/8={:016x}/8={:016x}", 8, 9, 10, 11);
    let (item, options) = (2, ItemOptions::default());
    let request = NodeRequest::Publish { request: 1, item, options, name };
    application.send(&mut bench.node, &request, None);
    bench.settle();
    assert_eq!(bench.events(1), [(EventKind::ScopePublished, id(&[8, 9, 10]), vec![])]);
    application.end(&mut bench.node);
    bench.settle();
    let ended = bench.events(1);
    assert_eq!(ended.len(), 2, "of the scopes that it subscribes to: {ended:?}");
}

#[test]
fn fragments_take_turns_where_a_program_may_have_few_items() {
    let mut bench = Bench::with_config(PubSub { items_per_application: 8, ..PubSub::default() });
    bench.ask(1, Operation::PublishScope, &[], 5, 2);
    bench.ask(1, Operation::PublishItem, &[5], 6, 2);
    assert_eq!(bench.ask(2, Operation::SubscribeScope, &[5], 6, 3), ReturnCode::Success);
    for number in 0..20_u64 {
        bench.publish(1, &[5, 6, number], 2, b"x");
    }
    assert_eq!((bench.events(2).len(), bench.node.counters.refusals), (20, 0));
}

#[test]
fn request_that_the_node_refuses_leaves_no_trace() {
    let rule = PubSubRule {
        scope: "/8=0000000000000005/**".into(),
        publish: vec!["uid:1001".into()],
        subscribe: vec!["any".into()],
        signed_by: vec![],
    };
    let mut bench = Bench::new(&[rule]);
    assert_eq!(bench.ask(9, Operation::SubscribeScope, &[], 5, 2), ReturnCode::Success);
    assert_eq!(bench.ask(2, Operation::PublishScope, &[], 5, 2), ReturnCode::NotAllowed);
    assert_eq!(bench.ask(1, Operation::PublishScope, &[], 5, 2), ReturnCode::Success);
    assert_eq!(bench.ask(2, Operation::PublishScope, &[5], 6, 2), ReturnCode::NotAllowed);
    assert_eq!(bench.ask(2, Operation::PublishItem, &[5], 7, 2), ReturnCode::NotAllowed);
    assert_eq!(bench.events(9), []);
    assert_eq!(bench.ask(1, Operation::PublishScope, &[5], 6, 2), ReturnCode::Success);
    assert_eq!(bench.ask(1, Operation::PublishItem, &[5], 6, 2), ReturnCode::ScopeWithSameId);
    assert_eq!(bench.ask(1, Operation::PublishScope, &[5], 6, 2), ReturnCode::Exists);
    assert_eq!(bench.ask(1, Operation::PublishScope, &[5], 8, 0), ReturnCode::StrategyMismatch);
    assert_eq!(bench.ask(1, Operation::UnpublishItem, &[5], 9, 2), ReturnCode::ItemMissing);
    assert_eq!(bench.events(9), [(EventKind::ScopePublished, id(&[5, 6]), vec![])]);
    let deep: Vec<u64> = (0..31).collect();
    assert_eq!(bench.ask(1, Operation::SubscribeScope, &deep, 1, 2), ReturnCode::WrongIds);
    assert_eq!(bench.ask(1, Operation::PublishScope, &[], 1, 9), ReturnCode::StrategyMismatch);
}

/// Random requests of a few programs over few labels: whatever they do, nothing is left of them.
#[test]
fn programs_that_ended_leave_nothing_behind() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut bench = Bench::new(&[]);
    for _ in 0..3000 {
        let pid = 1 + random(4) as u32;
        let path: Vec<u64> = (0..=random(3)).map(|_| random(3)).collect();
        let (label, scope) = path.split_last().unwrap();
        let strategy = [2, 2, 2, 0, 3, 4][random(6) as usize];
        match random(12) {
            0 => bench.publish(pid, &path, strategy, b"data"),
            1 if random(8) == 0 => bench.send(pid, ApplicationMessage::Disconnect),
            2 => {
                let above = id(&(0..random(3)).map(|_| random(3)).collect::<Vec<_>>());
                let operation = Operation::ALL[random(2) as usize];
                let body =
                    RequestBody { operation, id: id(&path), prefix: above, strategy, option: None };
                bench.send(pid, ApplicationMessage::Request(body));
            }
            _ => {
                let operation = Operation::ALL[random(8) as usize];
                bench.ask(pid, operation, scope, *label, strategy);
            }
        }
    }
    for pid in 1..=4 {
        bench.session(pid);
        assert!(!bench.events(pid).is_empty(), "something happened");
        bench.send(pid, ApplicationMessage::Disconnect);
    }
    bench.settle();
    for session in bench.node.sessions.keys().copied().collect::<Vec<_>>() {
        bench.node.receive(session);
    }
    bench.node.flush();
    assert!(bench.bridge.is_empty(), "{:?}", bench.bridge);
    assert!(bench.node.sessions.is_empty() && bench.node.publishers.is_empty());
    assert_eq!((bench.node.index.len(), bench.node.scope_status().len()), (0, 0));
}
