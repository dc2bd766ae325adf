//! The recorded chain of three Blackadder nodes (`tests/vectors/blackadder.txt`, section C) against
//! the rendezvous and topology functions: the same requests in the same order, the same notices.
//!
//! Compared are notices of new and ended scopes, and for each item the deliveries in the end:
//! publishers, identifiers, and the links in the forwarding identifier. The original repeats `STOP`
//! and `START` when nothing changed; those are left out of the comparison.

use nw_pubsub::filter::SINGLE_BIT_TABLE;
use nw_pubsub::{
    Effect, Rendezvous, RendezvousLimits, Request, ReturnCode, Timestamp, Topology, TopologyConfig,
};
use nw_wire::publication::{
    ApplicationMessage, Fid, Id, Label, LinkAdvertisement, NeighbourLink, NetworkPacket,
    NodeNotice, Operation, RENDEZVOUS_SCOPE, RequestBody,
};
use std::collections::{BTreeMap, BTreeSet};

const VECTORS: &str = include_str!("../../../../tests/vectors/blackadder.txt");
const NOW: Timestamp = Timestamp::START;

/// Names of links with their bits in the recording.
const RECORDED_LINKS: [(&str, u8); 7] = [
    ("n0", 255),
    ("n1", 254),
    ("n2", 253),
    ("n0>n1", 155),
    ("n1>n0", 154),
    ("n1>n2", 153),
    ("n2>n1", 152),
];

fn node(number: u8) -> Label {
    Label([b'0', b'0', b'0', b'0', b'0', b'0', b'0', b'1' + number])
}

/// A frame of section C: whether node 1 sends it, identifiers, payload.
struct Frame {
    sent: bool,
    id: Id,
    payload: Vec<u8>,
}

fn frames() -> Vec<Frame> {
    let section = VECTORS.split("## C.").nth(1).expect("section C");
    let section = section.split("## D.").next().expect("its end");
    let frame = |line: &str| {
        let digits = line.rsplit(' ').next().expect("bytes");
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
        let bytes: Vec<u8> = (0..digits.len() / 2).map(|at| byte(2 * at)).collect();
        let packet = NetworkPacket::check(&bytes[14..]).expect(line);
        let id = packet.ids().to_ids().remove(0);
        Frame { sent: line.starts_with("out"), id, payload: packet.payload().to_vec() }
    };
    let lines = section.lines().filter(|line| line.starts_with("out") || line.starts_with("in "));
    lines.map(frame).collect()
}

/// What nodes 1 and 2 are told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    scopes: BTreeSet<(Label, bool, Vec<Id>)>,
    /// By publisher and identifiers: the links in the last forwarding identifier; none for stop.
    items: BTreeMap<(Label, BTreeSet<Id>), BTreeSet<String>>,
    /// Every forwarding identifier that was not empty.
    started: BTreeSet<(Label, BTreeSet<Id>, BTreeSet<String>)>,
}

impl Told {
    fn deliver(&mut self, to: Label, ids: &[Id], links: BTreeSet<String>) {
        let ids: BTreeSet<Id> = ids.iter().cloned().collect();
        if !links.is_empty() {
            self.started.insert((to, ids.clone(), links.clone()));
        }
        self.items.insert((to, ids), links);
    }
}

fn recorded(frames: &[Frame]) -> Told {
    let mut told = Told::default();
    for frame in frames.iter().filter(|frame| !frame.sent) {
        let to = frame.id.labels()[1];
        match NodeNotice::parse(&frame.payload).expect("a notice") {
            NodeNotice::Start { ids, fid } => {
                let links =
                    RECORDED_LINKS.iter().filter(|(_, bit)| fid.contains(&Fid::of_bit(*bit)));
                told.deliver(to, &ids, links.map(|(name, _)| (*name).to_owned()).collect());
            }
            NodeNotice::Stop { ids } => told.deliver(to, &ids, BTreeSet::new()),
            NodeNotice::Scope { published, ids } => drop(told.scopes.insert((to, published, ids))),
            NodeNotice::UpdateFids { .. } => panic!("not recorded"),
        }
    }
    told
}

/// Returns the links of a filter of single bits, by their numbers.
fn links(topology: &Topology, fid: Fid) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for from in 0..3 {
        let assignment = topology.assignment(node(from)).expect("a node");
        if fid.contains(&Fid::of_bit(assignment.internal as u8)) {
            names.insert(format!("n{from}"));
        }
        for link in assignment.links {
            let to = link.neighbour.0[7] - b'1';
            if fid.contains(&Fid::of_bit(link.outgoing as u8)) {
                names.insert(format!("n{from}>n{to}"));
            }
        }
    }
    names
}

fn replayed(frames: &[Frame]) -> (Told, usize) {
    let mut rendezvous = Rendezvous::new(RendezvousLimits::default());
    let mut topology = Topology::new(TopologyConfig::default());
    for (from, neighbours) in [(0, &[1][..]), (1, &[0, 2]), (2, &[1])] {
        let link = |to: &u8| NeighbourLink { neighbour: node(*to), cost: 1 };
        let links = neighbours.iter().map(link).collect();
        let advertisement = LinkAdvertisement { node: node(from), sequence: 1, links };
        topology.advertise(&advertisement, NOW);
    }
    let (mut told, mut requests) = (Told::default(), 0);
    // Made before the recording began: the notices about scopes below this one show it.
    let root = RequestBody {
        operation: Operation::SubscribeScope,
        id: Id::new(vec![Label([0; 8])]),
        prefix: Id::default(),
        strategy: 2,
        option: None,
    };
    rendezvous.handle(&Request::of_blackadder(node(2), &root), NOW);
    for frame in frames.iter().filter(|frame| frame.sent) {
        assert_eq!(frame.id.labels()[0], RENDEZVOUS_SCOPE);
        let message = ApplicationMessage::parse(&frame.payload).expect("a request");
        let ApplicationMessage::Request(body) = message else { panic!("{message:?}") };
        let request = Request::of_blackadder(frame.id.labels()[1], &body);
        requests += 1;
        for effect in rendezvous.handle(&request, NOW) {
            match effect {
                Effect::Reply(reply) => {
                    let code = ReturnCode::from_number(reply.code);
                    assert_eq!(code, Some(ReturnCode::Success), "{request:?}");
                }
                Effect::Scope { published, subscribers, ids, .. } => {
                    let notices = subscribers.into_iter().map(|to| (to, published, ids.clone()));
                    told.scopes.extend(notices);
                }
                Effect::Membership(change) => {
                    for delivery in topology.apply(&change) {
                        let table = delivery.change.table;
                        let is_stop = delivery.change.subscribers == 0;
                        assert!(is_stop || table == SINGLE_BIT_TABLE, "few links");
                        let links = links(&topology, delivery.change.fid);
                        told.deliver(delivery.publisher, &delivery.change.ids, links);
                    }
                }
                other => panic!("strategy domain has no {other:?}"),
            }
        }
    }
    // The publisher withdraws everything; the subscriber does not unsubscribe.
    assert_eq!(rendezvous.size().items, 0);
    let (left, _) = rendezvous.list(0, 100);
    assert!(left.iter().all(|vertex| vertex.publishers.is_empty()), "{left:?}");
    (told, requests)
}

#[test]
fn recorded_requests_cause_the_recorded_notices() {
    let frames = frames();
    let (expected, (told, requests)) = (recorded(&frames), replayed(&frames));
    assert!(requests >= 20 && expected.started.len() >= 7, "{requests} {expected:?}");
    assert_eq!(told.scopes, expected.scopes);
    assert!(told.started.is_superset(&expected.started), "{expected:?}\n{told:?}");
    // A scope that gains a parent gives its items more identifiers. The original does not tell
    // publishers; here they learn them at once, with the same links.
    for (publisher, ids, links) in told.started.difference(&expected.started) {
        let is_earlier = |(to, known, by): &&(Label, BTreeSet<Id>, BTreeSet<String>)| {
            (to, by) == (publisher, links) && known.is_subset(ids)
        };
        assert!(expected.started.iter().any(|started| is_earlier(&started)), "{ids:?}");
    }
    let known: BTreeSet<_> = told.items.keys().collect();
    assert!(expected.items.keys().all(|item| known.contains(item)), "{expected:?}\n{told:?}");
}
