//! A domain of 1,000 nodes in virtual time. Each node forwards with the element that routers have;
//! two of them have the rendezvous and topology functions. Requests, replies, deliveries,
//! publications and link state are packets that pass the elements hop by hop, a millisecond each.
//!
//! A rendezvous node passes each request on to the other one, which applies it and stays silent
//! while the first one can be reached: requests have numbers, so a repetition changes nothing.
//!
//! A node repeats its advertisement to its neighbours as a hello. One that was silent for 3.5
//! hellos is no longer a neighbour; the new advertisement is passed on by each node that had an
//! older one. The domain starts with the advertisements of all nodes; hellos are sent by the
//! neighbours of what fails, as those of the others say nothing new.

use nw_element_api::FaceId;
use nw_elements::lipsin_forwarder::{In, LipsinForwarder, LipsinForwarderConfig, LipsinLink};
use nw_pubsub::names::parse_name;
use nw_pubsub::topology::{Delivery, Topology, TopologyConfig};
use nw_pubsub::{Effect, Rendezvous, RendezvousLimits, ReturnCode, Timestamp};
use nw_testkit::bench::{TestBench, face};
use nw_wire::publication::{
    DeliveryChange, Envelope, EnvelopeBuilder, EnvelopeKind, Fid, Id, Label, LinkAdvertisement,
    Message, NeighbourLink, Operation, RendezvousReply, RendezvousRequest, RequestFlags,
    StreamPosition,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

const NODES: usize = 1000;
/// Nodes with the rendezvous and topology functions, the first one in use.
const RENDEZVOUS: [usize; 2] = [400, 801];
const PUBLISHER: usize = 7;
const HELLO_MS: u64 = 100;
/// Milliseconds without a hello after which a neighbour is lost.
const DEAD_MS: u64 = 350;
/// Milliseconds after which a client asks the other rendezvous node.
const RETRY_MS: u64 = 500;

fn label(node: usize) -> Label {
    Label::from_number(1000 + node as u64)
}

fn advertisement((node, links): (usize, &BTreeSet<usize>)) -> LinkAdvertisement {
    let link = |to: &usize| NeighbourLink { neighbour: label(*to), cost: 1 };
    LinkAdvertisement { node: label(node), sequence: 1, links: links.iter().map(link).collect() }
}

fn number(label: Label) -> usize {
    (label.number() - 1000) as usize
}

/// The functions of a rendezvous node.
struct Functions {
    rendezvous: Rendezvous,
    topology: Topology,
    /// What publishers' nodes have to know, by publisher and part.
    deliveries: BTreeMap<(usize, u16), DeliveryChange>,
    /// Whether this node tells publishers about changes.
    speaks: bool,
}

/// A packet on its way: arrival, order, from, to, bytes.
type PacketOnLink = (u64, u64, usize, usize, Vec<u8>);

struct Domain {
    elements: Vec<LipsinForwarder>,
    /// The packets of all nodes; each element is in it while it processes one.
    bench: TestBench<LipsinForwarder>,
    /// Links that carry packets.
    links: Vec<BTreeSet<usize>>,
    /// The last advertisement of each node.
    advertisements: Vec<LinkAdvertisement>,
    /// Numbers of the last advertisements that nodes received, by node and advertising node.
    sequences: BTreeMap<(usize, usize), u64>,
    /// When hellos last arrived, by receiving and sending node; for nodes that send hellos.
    heard: BTreeMap<(usize, usize), u64>,
    functions: BTreeMap<usize, Functions>,
    dead: BTreeSet<usize>,
    now_ms: u64,
    packets: BinaryHeap<Reverse<PacketOnLink>>,
    sent: u64,
    /// What the publisher's node was told, by part.
    parts: BTreeMap<u16, DeliveryChange>,
    /// Nodes that publications were delivered at, with their numbers.
    delivered: Vec<(u64, usize)>,
    replies: Vec<(u64, RendezvousReply)>,
}

impl Domain {
    fn new() -> Self {
        let mut links = vec![BTreeSet::new(); NODES];
        let mut connect = |a: usize, b: usize| {
            links[a].insert(b);
            links[b].insert(a);
        };
        // A tree of three children each, and chords, so that each node has a second path.
        (1..NODES).for_each(|node| connect(node, (node - 1) / 3));
        (0..NODES).for_each(|node| connect(node, (node + 331) % NODES));
        let forwarder = || LipsinForwarder::new(LipsinForwarderConfig::default());
        let functions = |node| {
            let rendezvous = Rendezvous::new(RendezvousLimits::default());
            let topology = Topology::new(TopologyConfig::default());
            let speaks = node == RENDEZVOUS[0];
            (node, Functions { rendezvous, topology, deliveries: BTreeMap::new(), speaks })
        };
        let mut domain = Domain {
            elements: (0..NODES).map(|_| forwarder()).collect(),
            bench: TestBench::new(forwarder()),
            advertisements: links.iter().enumerate().map(advertisement).collect(),
            links,
            sequences: BTreeMap::new(),
            heard: BTreeMap::new(),
            functions: RENDEZVOUS.into_iter().map(functions).collect(),
            dead: BTreeSet::new(),
            now_ms: 1000,
            packets: BinaryHeap::new(),
            sent: 0,
            parts: BTreeMap::new(),
            delivered: Vec::new(),
            replies: Vec::new(),
        };
        let now = Timestamp::from_millis(domain.now_ms);
        for advertisement in &domain.advertisements {
            for functions in domain.functions.values_mut() {
                assert!(functions.topology.advertise(advertisement, now).is_empty());
            }
        }
        domain.assign();
        domain
    }

    /// Sends the advertisement of a node to its neighbours.
    fn send_advertisement(&mut self, node: usize, advertisement: LinkAdvertisement) {
        let mut payload = Vec::new();
        Message::Advertisement(advertisement).encode(&mut payload).unwrap();
        let builder = EnvelopeBuilder {
            kind: EnvelopeKind::Control,
            hop_limit: 1,
            fid: Fid::BROADCAST,
            payload: &payload,
            ..EnvelopeBuilder::default()
        };
        let mut wire = Vec::new();
        builder.encode(&mut wire).unwrap();
        self.forward(node, None, &wire);
    }

    /// Lets nodes send hellos for a time, and look for neighbours that are silent.
    fn run_with_hellos(&mut self, nodes: &BTreeSet<usize>, ms: u64) {
        for _ in 0..ms / HELLO_MS {
            for node in
                nodes.iter().filter(|node| !self.dead.contains(node)).copied().collect::<Vec<_>>()
            {
                self.drop_silent_neighbours(node, nodes);
                self.send_advertisement(node, self.advertisements[node].clone());
            }
            self.run(self.now_ms + HELLO_MS);
        }
    }

    fn drop_silent_neighbours(&mut self, node: usize, senders: &BTreeSet<usize>) {
        let (now_ms, heard) = (self.now_ms, &self.heard);
        let own = &mut self.advertisements[node];
        let before = own.links.len();
        own.links.retain(|link| {
            let neighbour = number(link.neighbour);
            let heard_ms = heard.get(&(node, neighbour)).copied().unwrap_or(now_ms);
            !senders.contains(&neighbour) || heard_ms + DEAD_MS > now_ms
        });
        own.sequence += u64::from(own.links.len() != before);
        if own.links.len() != before {
            let own = own.clone();
            self.receive_advertisement(node, node, &own);
        }
    }

    /// Takes an advertisement from a neighbour, and passes it on if it is new.
    fn receive_advertisement(&mut self, node: usize, from: usize, new: &LinkAdvertisement) {
        let about = number(new.node);
        if from == about {
            self.heard.insert((node, from), self.now_ms);
        }
        // Of the first advertisements all nodes know, and of its own ones each node.
        let known = self.sequences.insert((node, about), new.sequence).unwrap_or(1);
        if known >= new.sequence {
            self.sequences.insert((node, about), known);
            return;
        }
        if about != node {
            self.send_advertisement(node, new.clone());
        }
        let now = Timestamp::from_millis(self.now_ms);
        let Some(functions) = self.functions.get_mut(&node) else { return };
        let told = functions.topology.advertise(new, now);
        self.tell_publishers(node, told);
        self.take_over(node);
    }

    /// Lets a function that stays silent speak if the one before it can't be reached any more: it
    /// tells publishers' nodes again what they may not have been told.
    fn take_over(&mut self, node: usize) {
        let functions = self.functions.get_mut(&node).unwrap();
        let first = functions.topology.unicast(label(node), label(RENDEZVOUS[0]));
        if functions.speaks || first.is_some() {
            return;
        }
        functions.speaks = true;
        let all = functions.deliveries.clone();
        for ((publisher, _), change) in all {
            self.send_control(node, publisher, &Message::Delivery(change));
        }
    }

    /// Keeps changes of deliveries, and sends them if the function speaks. The second function's
    /// versions are greater than all of the first one.
    fn tell_publishers(&mut self, node: usize, told: Vec<Delivery>) {
        let rank = RENDEZVOUS.iter().position(|found| *found == node).unwrap();
        for Delivery { publisher, mut change } in told {
            change.version |= (rank as u32) << 24;
            let functions = self.functions.get_mut(&node).unwrap();
            functions.deliveries.insert((number(publisher), change.part), change.clone());
            if functions.speaks {
                self.send_control(node, number(publisher), &Message::Delivery(change));
            }
        }
    }

    /// Sets the link identifiers of all nodes. Both topology functions assign the same ones.
    fn assign(&mut self) {
        for node in 0..NODES {
            let assigned: Vec<_> = self
                .functions
                .values()
                .map(|functions| functions.topology.assignment(label(node)).unwrap())
                .collect();
            assert_eq!(assigned[0], assigned[1], "the functions agree");
            let links = assigned[0].links.iter().map(|link| LipsinLink {
                face: face(number(link.neighbour) as u32 + 300),
                outgoing: link.outgoing,
                incoming: Some(link.incoming),
            });
            let links: Vec<LipsinLink> = links.collect();
            self.elements[node].set_internal(Some(assigned[0].internal));
            self.elements[node].set_links(&links);
        }
    }

    fn send_control(&mut self, from: usize, to: usize, message: &Message) {
        // Each node has the link state; that of the second function stands for all.
        let topology = &mut self.functions.get_mut(&RENDEZVOUS[1]).unwrap().topology;
        if from == to {
            return self.receive(to, message);
        }
        let Some(path) = topology.unicast(label(from), label(to)) else { return };
        let mut payload = Vec::new();
        message.encode(&mut payload).unwrap();
        let builder = EnvelopeBuilder {
            kind: EnvelopeKind::Control,
            hop_limit: path.hops as u8,
            table: path.table,
            fid: path.fid,
            payload: &payload,
            ..EnvelopeBuilder::default()
        };
        let mut wire = Vec::new();
        builder.encode(&mut wire).unwrap();
        self.forward(from, None, &wire);
    }

    /// Lets the element of a node forward a packet, from a neighbour or from the node itself.
    fn forward(&mut self, node: usize, from: Option<usize>, wire: &[u8]) {
        let bench = &mut self.bench;
        core::mem::swap(&mut bench.element, &mut self.elements[node]);
        bench.now = Timestamp::from_millis(self.now_ms);
        let emitted = bench.process(In::Packet, wire, |meta| {
            meta.ingress = from.map_or(FaceId::NONE, |from| face(from as u32 + 300));
            meta.ingress_local = from.is_none();
        });
        core::mem::swap(&mut bench.element, &mut self.elements[node]);
        for packet in emitted {
            if packet.port == "local" {
                self.deliver(node, from, &packet.wire);
                continue;
            }
            let mut neighbours = self.links[node].iter().copied();
            let Some(to) = neighbours.find(|to| face(*to as u32 + 300) == packet.egress) else {
                continue;
            };
            self.sent += 1;
            self.packets.push(Reverse((self.now_ms + 1, self.sent, node, to, packet.wire)));
        }
    }

    fn deliver(&mut self, node: usize, from: Option<usize>, wire: &[u8]) {
        let envelope = Envelope::check(wire).unwrap();
        match envelope.kind() {
            EnvelopeKind::Publication => {
                self.delivered.push((envelope.stream().unwrap().sequence, node));
            }
            EnvelopeKind::Control => match (Message::parse(envelope.payload()).unwrap(), from) {
                (Message::Advertisement(new), Some(from)) => {
                    self.receive_advertisement(node, from, &new);
                }
                (message, _) => self.receive(node, &message),
            },
        }
    }

    /// Handles a control message. By a false positive one may reach a node that it is not for.
    fn receive(&mut self, node: usize, message: &Message) {
        match message {
            Message::Request(request) if self.functions.contains_key(&node) => {
                self.handle(node, request);
            }
            Message::Delivery(change) if node == PUBLISHER => {
                let known = self.parts.get(&change.part);
                if known.is_none_or(|known| known.version < change.version) {
                    self.parts.insert(change.part, change.clone());
                }
            }
            Message::Reply(reply) if label(node) == reply.client => {
                self.replies.push((self.now_ms, *reply));
            }
            _ => {}
        }
    }

    fn handle(&mut self, node: usize, request: &RendezvousRequest) {
        let now = Timestamp::from_millis(self.now_ms);
        let functions = self.functions.get_mut(&node).unwrap();
        let (mut replies, mut told) = (Vec::new(), Vec::new());
        for effect in functions.rendezvous.handle(request, now) {
            match effect {
                Effect::Reply(reply) => replies.push(reply),
                Effect::Membership(change) => told.extend(functions.topology.apply(&change)),
                _ => {}
            }
        }
        let speaks = functions.speaks;
        if speaks && node == RENDEZVOUS[0] {
            // Before the reply, so that what a client was promised outlives this node.
            self.send_control(node, RENDEZVOUS[1], &Message::Request(request.clone()));
        }
        self.tell_publishers(node, told);
        for reply in replies.into_iter().filter(|_| speaks) {
            self.send_control(node, number(reply.client), &Message::Reply(reply));
        }
    }

    fn run(&mut self, until_ms: u64) {
        while let Some(Reverse((at, _, from, to, wire))) = self.packets.pop() {
            if at > until_ms {
                self.packets.push(Reverse((at, 0, from, to, wire)));
                break;
            }
            self.now_ms = self.now_ms.max(at);
            let is_up = self.links[from].contains(&to);
            if is_up && !self.dead.contains(&to) && !self.dead.contains(&from) {
                self.forward(to, Some(from), &wire);
            }
        }
        self.now_ms = until_ms;
    }

    /// Sends a request, again to the other rendezvous node if no reply comes, and returns the code
    /// and the milliseconds that it took.
    fn ask(&mut self, request: &RendezvousRequest) -> (ReturnCode, u64) {
        let started = self.now_ms;
        let client = number(request.client);
        for node in RENDEZVOUS {
            let before = self.replies.len();
            self.send_control(client, node, &Message::Request(request.clone()));
            self.run(self.now_ms + RETRY_MS);
            let found = self.replies[before..].iter().find(|(_, r)| r.number == request.number);
            if let Some((at, reply)) = found {
                return (ReturnCode::from_number(reply.code).unwrap(), at - started);
            }
        }
        panic!("no rendezvous node replies to {request:?}");
    }

    /// Publishes as the publisher's node was told, and returns the nodes that received it.
    fn publish(&mut self, sequence: u64) -> BTreeSet<usize> {
        let parts: Vec<(u8, Fid)> = self
            .parts
            .values()
            .filter(|part| part.subscribers > 0)
            .map(|part| (part.table, part.fid))
            .collect();
        for (table, fid) in parts {
            let stream = Some(StreamPosition { source: label(PUBLISHER), sequence });
            let builder = EnvelopeBuilder {
                hop_limit: 64,
                table,
                fid,
                stream,
                payload: b"publication",
                ..EnvelopeBuilder::default()
            };
            let mut wire = Vec::new();
            builder.encode(&mut wire).unwrap();
            self.forward(PUBLISHER, None, &wire);
        }
        self.run(self.now_ms + 100);
        let of_this = self.delivered.iter().filter(|(found, _)| *found == sequence);
        of_this.map(|(_, node)| *node).collect()
    }
}

fn request(number: u32, operation: Operation, from: usize, name: &str) -> RendezvousRequest {
    let id = parse_name(name).unwrap();
    let (last, above) = id.labels().split_last().unwrap();
    RendezvousRequest {
        number,
        client: label(from),
        operation,
        strategy: None,
        flags: RequestFlags::default(),
        strength: 0,
        wildcards: 0,
        id: Id::new(vec![*last]),
        prefix: Id::from(above),
        name: name.to_owned(),
    }
}

#[test]
fn domain_of_a_thousand_nodes_delivers_and_survives_a_link_and_a_rendezvous_node() {
    let mut domain = Domain::new();
    let first = request(1, Operation::PublishScope, PUBLISHER, "/a");
    assert_eq!(domain.ask(&first).0, ReturnCode::Success);
    let second = request(2, Operation::PublishItem, PUBLISHER, "/a/b");
    assert_eq!(domain.ask(&second).0, ReturnCode::Success);
    let mut subscribers: BTreeSet<usize> = (20..NODES).step_by(20).collect();
    for node in &subscribers {
        let subscribe = request(1, Operation::SubscribeItem, *node, "/a/b");
        domain.send_control(*node, RENDEZVOUS[0], &Message::Request(subscribe));
    }
    domain.run(domain.now_ms + 1000);
    assert_eq!(domain.replies.len(), 2 + subscribers.len(), "each request has a reply");
    let before = domain.sent;
    let received = domain.publish(1);
    assert!(received.is_superset(&subscribers), "missing: {:?}", &subscribers - &received);
    let others = received.difference(&subscribers).count();
    assert!(others <= subscribers.len() / 5, "{others} nodes by false positives");
    let copies = domain.sent - before;
    let hops = |domain: &mut Domain, node: usize| {
        let topology = &mut domain.functions.get_mut(&RENDEZVOUS[1]).unwrap().topology;
        topology.unicast(label(PUBLISHER), label(node)).unwrap().hops as u64
    };
    let one_each: u64 = subscribers.iter().map(|node| hops(&mut domain, *node)).sum();
    assert!(copies < one_each, "{copies} packets; {one_each} with a packet for each subscriber");

    // A link of the tree fails, next to the publisher's node or to a subscriber.
    let (from, to) = {
        let topology = &domain.functions[&RENDEZVOUS[0]].topology;
        let keys: BTreeSet<u64> = domain.parts.values().map(|part| part.item).collect();
        let item = nw_pubsub::ItemKey(*keys.first().unwrap());
        let links = topology.tree_links(item, label(PUBLISHER));
        let link = links.iter().find(|link| link.from == label(PUBLISHER)).unwrap();
        (number(link.from), number(link.to))
    };
    domain.run_with_hellos(&BTreeSet::from([from, to]), 2 * HELLO_MS);
    domain.links[from].remove(&to);
    domain.links[to].remove(&from);
    assert!(!domain.publish(2).is_superset(&subscribers), "the link was in use");
    let failed_ms = domain.now_ms;
    domain.run_with_hellos(&BTreeSet::from([from, to]), 600);
    assert!(domain.now_ms - failed_ms < 1000);
    assert!(domain.publish(3).is_superset(&subscribers), "data flows again");

    // The rendezvous node fails. A new request is answered within 3 s, and nothing is forgotten.
    let mut senders = domain.links[RENDEZVOUS[0]].clone();
    senders.insert(RENDEZVOUS[0]);
    domain.run_with_hellos(&senders, 2 * HELLO_MS);
    domain.dead.insert(RENDEZVOUS[0]);
    let failed_ms = domain.now_ms;
    domain.run_with_hellos(&senders, 600);
    subscribers.remove(&RENDEZVOUS[0]);
    assert!(domain.now_ms - failed_ms < 1000);
    assert!(domain.publish(4).is_superset(&subscribers), "data flows without this node");
    let (code, _) = domain.ask(&request(1, Operation::SubscribeItem, 15, "/a/b"));
    assert_eq!(code, ReturnCode::Success);
    let took_ms = domain.now_ms - failed_ms;
    assert!(took_ms < 3000, "{took_ms} ms");
    subscribers.insert(15);
    assert!(domain.publish(5).is_superset(&subscribers), "old and new subscribers");
    // A client that did not get the reply of the node that failed asks again.
    let again = request(1, Operation::SubscribeItem, 20, "/a/b");
    assert_eq!(domain.ask(&again).0, ReturnCode::Success);
    let new = request(2, Operation::SubscribeItem, 20, "/a/b");
    assert_eq!(domain.ask(&new).0, ReturnCode::Exists, "the replica knew the subscription");
}
