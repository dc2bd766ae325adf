//! Recorded messages and frames of the running Blackadder 0.4 (`tests/vectors/blackadder.txt`):
//! each one is decoded and encoded again to the same bytes.

use nw_wire::publication::{
    ApplicationMessage, ETHER_TYPE, Event, Id, Label, NETLINK_HEADER_LEN, NETLINK_PORT, NODE_SCOPE,
    NetlinkHeader, NetworkPacket, NetworkPacketBuilder, NodeNotice, Operation, RENDEZVOUS_SCOPE,
};

const VECTORS: &str = include_str!("../../../../tests/vectors/blackadder.txt");
const ETHERNET_HEADER_LEN: usize = 14;

/// Returns the bytes at the end of a line. Frames longer than 200 bytes were cut, marked by `...`.
fn bytes(line: &str) -> Vec<u8> {
    let digits = line.rsplit(' ').next().unwrap_or_default().trim_end_matches('.');
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
    (0..digits.len() / 2).map(|at| byte(2 * at)).collect()
}

fn lines<'a>(starts: &[&str]) -> Vec<&'a str> {
    let is_one = |line: &&str| starts.iter().any(|start| line.starts_with(start));
    VECTORS.lines().filter(is_one).collect()
}

#[test]
fn application_messages_are_encoded_to_the_recorded_bytes() {
    let recorded = lines(&["from pid", "> app"]);
    assert_eq!(recorded.len(), 29);
    let mut requests = 0;
    for line in recorded {
        let datagram = bytes(line);
        let (header, body) = NetlinkHeader::parse(&datagram).expect(line);
        assert_eq!(header.len as usize, datagram.len(), "{line}");
        let message = ApplicationMessage::parse(body).expect(line);
        requests += usize::from(matches!(message, ApplicationMessage::Request(_)));
        let mut encoded = Vec::new();
        header.encode(&mut encoded);
        message.encode(&mut encoded);
        assert_eq!(encoded, datagram, "{line}");
        for cut in 0..body.len() {
            let shorter = ApplicationMessage::parse(&body[..cut]);
            let is_data = matches!(message, ApplicationMessage::PublishData { .. });
            assert!(shorter.is_err() || is_data, "{cut} bytes of {line}");
        }
    }
    assert_eq!(requests, 25);
}

#[test]
fn events_are_encoded_to_the_recorded_bytes() {
    let recorded = lines(&["< to"]);
    assert_eq!(recorded.len(), 4);
    for line in recorded {
        let datagram = bytes(line);
        let (header, body) = NetlinkHeader::parse(&datagram).expect(line);
        assert_eq!((header.len, header.pid), (4, NETLINK_PORT), "{line}");
        let event = Event::parse(body).expect(line);
        let mut encoded = Vec::new();
        header.encode(&mut encoded);
        event.encode(&mut encoded);
        assert_eq!(encoded, datagram, "{line}");
        assert_eq!(datagram.len() - body.len(), NETLINK_HEADER_LEN);
    }
}

#[test]
fn frames_are_encoded_to_the_recorded_bytes() {
    let recorded = lines(&["out", "in "]);
    assert_eq!(recorded.len(), 87);
    let (mut requests, mut notices, mut publications) = (0, 0, 0);
    for line in recorded {
        let frame = bytes(line);
        assert_eq!(frame[12..14], ETHER_TYPE.to_be_bytes(), "{line}");
        let packet = NetworkPacket::check(&frame[ETHERNET_HEADER_LEN..]).expect(line);
        let ids = packet.ids().to_ids();
        let mut encoded = frame[..ETHERNET_HEADER_LEN].to_vec();
        NetworkPacketBuilder { fid: packet.fid(), ids: &ids, payload: packet.payload() }
            .encode(&mut encoded)
            .expect(line);
        assert_eq!(encoded, frame, "{line}");
        let mut payload = Vec::new();
        if ids[0].labels()[0] == RENDEZVOUS_SCOPE {
            requests += 1;
            ApplicationMessage::parse(packet.payload()).expect(line).encode(&mut payload);
        } else if ids[0].labels()[0] == NODE_SCOPE {
            notices += 1;
            let notice = NodeNotice::parse(packet.payload()).expect(line);
            notice.encode(&mut payload).expect(line);
        } else {
            publications += 1;
            payload = packet.payload().to_vec();
        }
        assert_eq!(payload, packet.payload(), "{line}");
    }
    assert_eq!((requests, notices, publications), (52, 28, 7));
}

/// The twentieth request of the sample program, field by field.
#[test]
fn republication_has_the_recorded_identifiers() {
    let recorded = lines(&["from pid 10040: 60"]);
    let datagram = bytes(recorded[1]);
    let ApplicationMessage::Request(request) =
        ApplicationMessage::parse(&datagram[NETLINK_HEADER_LEN..]).expect("a request")
    else {
        panic!("not a request");
    };
    let repeated = |byte: u8| Label([byte; 8]);
    let id = Id::new(vec![repeated(0), repeated(0x33), repeated(0x33)]);
    assert_eq!((request.operation, request.strategy), (Operation::PublishScope, 2));
    assert_eq!((request.id, request.prefix.labels()), (id, &[repeated(0x11), repeated(0x44)][..]));
    assert_eq!(request.option, None);
}
