//! The recorded chain (`tests/vectors/blackadder.txt`): this node in the place of its middle node.

use super::*;
use nw_api::config::PubSub;
use nw_faces::mac::Mac;
use nw_wire::publication::{Fid, Id, Label, NetworkPacketBuilder};

const VECTORS: &str = include_str!("../../../../tests/vectors/blackadder.txt");

/// Interfaces of the recorded middle node.
const TO_FIRST: u32 = 2;
const TO_LAST: u32 = 3;

fn config() -> PubSub {
    PubSub {
        domain: false,
        blackadder_node: Some("00000002".into()),
        blackadder_internal: Some("254".into()),
        blackadder_rendezvous: Some("154+255".into()),
        blackadder_links: vec![
            "first 02:00:00:00:00:01 id=154".into(),
            "last 02:00:00:00:02:01 id=153".into(),
        ],
        ..PubSub::default()
    }
}

fn node() -> BlackadderDomain {
    let settings = Settings::parse(&config()).unwrap().unwrap();
    let mut node = BlackadderDomain::new(settings, Names::default(), 55_555);
    node.set_interfaces(|name| Some(if name == "first" { TO_FIRST } else { TO_LAST }));
    node
}

fn first() -> LinkAddress {
    LinkAddress::Ethernet { interface: TO_FIRST, mac: Mac([2, 0, 0, 0, 0, 1]) }
}

fn last() -> LinkAddress {
    LinkAddress::Ethernet { interface: TO_LAST, mac: Mac([2, 0, 0, 0, 2, 1]) }
}

/// Packets of a section that the middle node sent (`out`) or received (`in `).
fn recorded(section: &str, direction: &str) -> Vec<Vec<u8>> {
    let lines = VECTORS.split(&format!("## {section}.")).nth(1).unwrap();
    let lines = lines.split("\n##").next().unwrap().lines();
    let frame = |line: &str| {
        let digits = line.rsplit(' ').next().unwrap().trim_end_matches('.');
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (14..digits.len() / 2).map(|at| byte(2 * at)).collect()
    };
    lines.filter(|line| line.starts_with(direction)).map(frame).collect()
}

fn of_node(packets: &[Vec<u8>], label: &[u8; 8]) -> Vec<Vec<u8>> {
    let of_node = |packet: &&Vec<u8>| packet[42..50] == label[..];
    packets.iter().filter(of_node).cloned().collect()
}

#[test]
fn recorded_requests_and_notices_pass_as_through_the_original() {
    let mut node = node();
    let requests = recorded("D", "in ");
    let passed = of_node(&recorded("C", "out"), b"00000003");
    assert!(requests.len() == 7 && requests == passed, "the original does");
    for packet in &requests {
        assert!(node.receive(&last(), packet).is_none());
    }
    let sent: Vec<_> = node.packets.take();
    assert_eq!(
        sent,
        passed.into_iter().map(|p| (Target::Neighbour(first()), p)).collect::<Vec<_>>()
    );

    let notices = recorded("C", "in ");
    let passed = of_node(&recorded("D", "out"), b"00000003");
    let (mut for_this_node, mut others) = (0, 0);
    for packet in &notices {
        match node.receive(&first(), packet) {
            Some(_) => for_this_node += 1,
            None => others += 1,
        }
    }
    assert_eq!(for_this_node, of_node(&notices, b"00000002").len());
    assert!(others == 7 && others == passed.len());
    let sent: Vec<_> = node.packets.take();
    assert_eq!(
        sent,
        passed.into_iter().map(|p| (Target::Neighbour(last()), p)).collect::<Vec<_>>()
    );
    let counters = &node.counters;
    assert_eq!(counters.forwarded as usize, requests.len() + others);
    assert_eq!((counters.no_link, counters.invalid, counters.unknown_sender), (0, 0, 0));
}

#[test]
fn broadcasts_end_here_and_what_matches_nothing_is_counted() {
    let mut node = node();
    let packet = |fid: Fid| {
        let ids = [Id::new(vec![Label([1; 8]); 2])];
        let mut bytes = Vec::new();
        NetworkPacketBuilder { fid, ids: &ids, payload: b"x" }.encode(&mut bytes).unwrap();
        bytes
    };
    assert!(node.receive(&first(), &packet(Fid::BROADCAST)).is_some());
    assert!(node.packets.take().is_empty());
    assert!(node.receive(&first(), &packet(Fid::of_bit(9))).is_none());
    // Back to where it came from: nowhere.
    assert!(node.receive(&first(), &packet(Fid::of_bit(154))).is_none());
    assert_eq!(node.counters.no_link, 2);
    // Both links and this node: one copy by the other link, one here.
    let all = Fid::of_bit(153).union(Fid::of_bit(154)).union(Fid::of_bit(254));
    assert!(node.receive(&first(), &packet(all)).is_some());
    assert_eq!(node.packets.take().len(), 1);
    let stranger = LinkAddress::Ethernet { interface: TO_LAST, mac: Mac([2, 0, 0, 0, 0, 1]) };
    assert!(node.receive(&stranger, &packet(all)).is_none());
    assert_eq!((node.packets.take().len(), node.counters.unknown_sender), (0, 1));
    // The frame with which the original reads past its buffer.
    let mut lying = packet(all)[..32].to_vec();
    lying.extend([255; 21]);
    assert!(node.receive(&first(), &lying).is_none());
    assert_eq!((node.packets.take().len(), node.counters.invalid), (0, 1));
    node.set_interfaces(|_| None);
    assert!(node.receive(&first(), &packet(all)).is_none());
    assert_eq!(node.counters.unknown_sender, 2);
}
