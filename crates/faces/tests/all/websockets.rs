//! WebSocket faces over real sockets, with hand-made peers and with the router at both ends.

use crate::common::{Host, data, interest};
use nw_element_api::{DropCause, Kind};
use nw_faces::config::WebSocketConfig;
use nw_faces::{
    CloseReason, FaceError, FaceEvent, FaceId, FaceOptions, FaceUpdate, FaceUri, FacesConfig,
    Persistency, Scope, WebSocketFault,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

/// Longer than the longest link packet.
const TOO_LONG: usize = 9500;

fn host(websocket: WebSocketConfig) -> (Host, SocketAddr) {
    let mut host = Host::new(FacesConfig { websocket, ..FacesConfig::default() });
    let bound = host.faces.listen_websocket("127.0.0.1:0".parse().unwrap()).unwrap();
    (host, bound)
}

fn connect(bound: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(bound).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    client
}

/// A client after its handshake, and its face.
fn open(host: &mut Host, bound: SocketAddr, headers: &str) -> (TcpStream, FaceId) {
    let mut client = connect(bound);
    client.write_all(format!("{REQUEST}{headers}\r\n").as_bytes()).unwrap();
    let before = host.created().len();
    host.until("accepted", |host| host.created().len() > before);
    let answer = head(&mut client);
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    assert!(
        answer
            .to_ascii_lowercase()
            .contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n")
    );
    let id = *host.created().last().unwrap();
    (client, id)
}

/// Reads an HTTP head.
fn head(client: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}

/// Encodes a masked frame.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [7, 0, 255, 9];
    let mut out = vec![first];
    match payload.len() {
        len @ 0..126 => out.push(0x80 | len as u8),
        len => {
            out.push(0x80 | 126);
            out.extend((len as u16).to_be_bytes());
        }
    }
    out.extend(MASK);
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// Reads a frame of the router: its first byte and payload. `None` at the end of the connection.
fn read_frame(client: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    client.read_exact(&mut head).ok()?;
    let len = match head[1] {
        126 => {
            let mut len = [0; 2];
            client.read_exact(&mut len).ok()?;
            usize::from(u16::from_be_bytes(len))
        }
        len => usize::from(len),
    };
    assert!(head[1] & 0x80 == 0, "a server does not mask");
    let mut payload = vec![0; len];
    client.read_exact(&mut payload).ok()?;
    Some((head[0], payload))
}

fn refused(host: &Host) -> u64 {
    host.faces.listeners()[0].refused
}

#[test]
fn packets_are_binary_messages() {
    let (mut host, bound) = host(WebSocketConfig::default());
    assert_eq!(host.faces.listeners()[0].uri, FaceUri::Ws(bound));
    let (mut client, id) = open(&mut host, bound, "");
    let status = host.faces.status(id).unwrap();
    assert_eq!(status.uri, FaceUri::WsClient(client.local_addr().unwrap()));
    assert_eq!(status.local_uri, FaceUri::Ws(bound));
    assert_eq!(
        (status.scope, status.persistency, status.mtu),
        (Scope::Local, Persistency::OnDemand, None)
    );
    assert!(status.up && status.expiry.is_none());

    let both = [frame(0x82, &interest("a")), frame(0x82, &data("b", 8000))].concat();
    client.write_all(&both).unwrap();
    host.until("both", |host| host.received.len() == 2);
    assert_eq!(host.received[0], (id, Kind::Interest, interest("a")));
    assert_eq!(host.received[1], (id, Kind::Data, data("b", 8000)));
    for byte in frame(0x82, &interest("slow")) {
        client.write_all(&[byte]).unwrap();
        host.turn(0);
    }
    host.until("the slow one", |host| host.received.len() == 3);
    assert_eq!(host.received[2], (id, Kind::Interest, interest("slow")));

    // Short packets are copied, long ones are not; each is a message of its own.
    for len in [10, 300, 8000, 20] {
        host.send(id, Kind::Data, &data("x", len));
    }
    host.turn(0);
    for len in [10, 300, 8000, 20] {
        assert_eq!(read_frame(&mut client), Some((0x82, data("x", len))));
    }
    let counters = host.faces.status(id).unwrap().counters;
    let sent: usize = [10, 300, 8000, 20].iter().map(|len| data("x", *len).len()).sum();
    assert_eq!(
        (counters.in_packets, counters.out_packets, counters.out_bytes),
        (3, 4, sent as u64)
    );
    host.check_pool();
    assert_eq!(host.pool.chunks_in_use(), 1, "only what the pool fills with packets made here");
    let update = FaceUpdate { persistency: Some(Persistency::Permanent), ..FaceUpdate::default() };
    let now = host.now();
    assert!(matches!(host.faces.update(now, id, &update), Err(FaceError::Persistency(_))));
}

#[test]
fn fragmented_messages_with_pings_between_are_received() {
    let (mut host, bound) = host(WebSocketConfig::default());
    let (mut client, id) = open(&mut host, bound, "");
    let packet = data("pieces", 5000);
    client.write_all(&frame(0x02, &packet[..10])).unwrap();
    client.write_all(&frame(0x89, b"there?")).unwrap();
    client.write_all(&frame(0x00, &packet[10..4000])).unwrap();
    client.write_all(&frame(0x80, &packet[4000..])).unwrap();
    host.until("whole", |host| !host.received.is_empty());
    assert_eq!(host.received, [(id, Kind::Data, packet)]);
    assert_eq!(read_frame(&mut client), Some((0x8a, b"there?".to_vec())));
    assert_eq!(host.turn(0), 0, "nothing makes the loop spin");
    host.check_pool();
}

#[test]
fn protocol_fault_closes_connection_with_its_code() {
    let (mut host, bound) = host(WebSocketConfig::default());
    let unmasked = [&[0x82, 3][..], &interest("a")[..3]].concat();
    let faults = [
        (WebSocketFault::Text, 1003, frame(0x81, b"hello")),
        (WebSocketFault::TooLong, 1009, frame(0x82, &[0; TOO_LONG])),
        (
            WebSocketFault::TooLong,
            1009,
            [frame(0x02, &[0; 6000]), frame(0x80, &[0; 6000])].concat(),
        ),
        (WebSocketFault::Mask, 1002, unmasked),
        (WebSocketFault::Frame, 1002, frame(0xc2, b"")),
        (WebSocketFault::Order, 1002, frame(0x80, b"")),
    ];
    for (at, (fault, code, bytes)) in faults.iter().enumerate() {
        let (mut client, id) = open(&mut host, bound, "");
        client.write_all(&[frame(0x82, &interest("before")), bytes.clone()].concat()).unwrap();
        host.until("the end", |host| host.destroyed().contains(&id));
        let Some(FaceEvent::Destroyed(status, reason)) = host.events.last() else {
            panic!("no end")
        };
        assert_eq!(*reason, CloseReason::WebSocket(*fault));
        assert_eq!(status.counters.dropped(DropCause::WebSocketFault), 1);
        assert_eq!(host.faces.drops().total(DropCause::WebSocketFault), at as u64 + 1);
        assert_eq!(host.received.pop(), Some((id, Kind::Interest, interest("before"))));
        let (first, payload) = read_frame(&mut client).unwrap();
        assert_eq!((first, &payload[..2]), (0x88, &u16::to_be_bytes(*code)[..]));
        assert_eq!(&payload[2..], fault.as_str().as_bytes());
        assert_eq!(read_frame(&mut client), None);
    }
    // A length beyond memory is refused by the head alone.
    let (mut client, id) = open(&mut host, bound, "");
    client
        .write_all(&[0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4])
        .unwrap();
    host.until("the end", |host| host.destroyed().contains(&id));
    assert_eq!(read_frame(&mut client).unwrap().1[..2], 1009u16.to_be_bytes());
    assert_eq!(host.pool.chunks_in_use(), 0);
}

#[test]
fn malformed_messages_are_counted_and_skipped() {
    let (mut host, bound) = host(WebSocketConfig::default());
    let (mut client, id) = open(&mut host, bound, "");
    let two = [interest("a"), interest("b")].concat();
    for message in [&[0x80, 2, 1, 2][..], b"", &two, &interest("a")] {
        client.write_all(&frame(0x82, message)).unwrap();
    }
    host.until("the good one", |host| host.received.len() == 1);
    assert_eq!(host.received[0], (id, Kind::Interest, interest("a")));
    assert_eq!(host.faces.drops().iter().map(|(_, n)| n).sum::<u64>(), 3, "one packet a message");
    assert!(host.destroyed().is_empty());
}

#[test]
fn close_frame_is_sent_by_the_closing_end() {
    let (mut host, bound) = host(WebSocketConfig::default());
    let (mut client, id) = open(&mut host, bound, "");
    client.write_all(&frame(0x88, &1000u16.to_be_bytes())).unwrap();
    host.until("the end", |host| host.destroyed() == [id]);
    assert!(matches!(host.events.last(), Some(FaceEvent::Destroyed(_, CloseReason::PeerClosed))));
    assert_eq!(read_frame(&mut client), Some((0x88, 1000u16.to_be_bytes().to_vec())));
    assert_eq!(read_frame(&mut client), None);

    let (mut client, id) = open(&mut host, bound, "");
    host.send(id, Kind::Data, &data("last", 100));
    assert!(host.faces.close(id, &mut host.pool));
    assert_eq!(read_frame(&mut client), Some((0x82, data("last", 100))));
    assert_eq!(read_frame(&mut client), Some((0x88, 1001u16.to_be_bytes().to_vec())));
    assert_eq!(read_frame(&mut client), None);

    let (client, id) = open(&mut host, bound, "");
    drop(client);
    host.until("gone", |host| host.destroyed().contains(&id));
    host.check_pool();
}

#[test]
fn page_is_local_only_if_its_origin_is_listed() {
    let listed = "http://localhost:8080".to_owned();
    let config = WebSocketConfig { local_origins: vec![listed], ..WebSocketConfig::default() };
    let (mut router, bound) = host(config.clone());
    for (headers, scope) in [
        ("", Scope::Local),
        ("Origin: http://localhost:8080\r\n", Scope::Local),
        ("Origin: http://elsewhere.example\r\n", Scope::NonLocal),
        ("Origin: null\r\n", Scope::NonLocal),
        ("X-Forwarded-For: 192.0.2.1\r\n", Scope::NonLocal),
    ] {
        let (mut client, id) = open(&mut router, bound, headers);
        assert_eq!(router.faces.status(id).unwrap().scope, scope, "{headers}");
        // What forwarding checks for /localhost.
        client.write_all(&frame(0x82, &interest("a"))).unwrap();
        router.until("read", |host| !host.received.is_empty());
        router.received.clear();
    }
    let (mut strict, bound) = host(WebSocketConfig { other_origins: false, ..config });
    let mut client = connect(bound);
    client
        .write_all(format!("{REQUEST}Origin: http://elsewhere.example\r\n\r\n").as_bytes())
        .unwrap();
    strict.until("refused", |host| refused(host) == 1);
    assert!(head(&mut client).starts_with("HTTP/1.1 403 "));
    assert!(strict.faces.is_empty());
}

#[test]
fn invalid_handshake_gets_response_and_no_face() {
    let (mut host, bound) = host(WebSocketConfig::default());
    let long = format!("GET / HTTP/1.1\r\nCookie: {}\r\n", "x".repeat(20_000));
    for (count, (request, status)) in [
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "426"),
        ("POST / HTTP/1.1\r\n\r\n", "400"),
        ("\x05\x07\x07\x05\x08\x01a", "400"),
        (&long, "431"),
        (&format!("{REQUEST}\r\nearly"), "400"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = connect(bound);
        client.write_all(request.as_bytes()).unwrap();
        host.until("refused", |host| refused(host) == count as u64 + 1);
        assert_eq!(&head(&mut client)[9..12], status);
        let mut rest = String::new();
        let _ = client.read_to_string(&mut rest);
        assert!(rest.ends_with('\n'), "says why: {rest:?}");
    }
    drop(connect(bound));
    host.until("one that says nothing and goes", |host| refused(host) == 6);
    assert!(host.faces.is_empty() && host.created().is_empty());
}

#[test]
fn slow_handshakes_are_closed_and_do_not_block_others() {
    let config = WebSocketConfig { handshakes_max: 3, ..WebSocketConfig::default() };
    let (mut host, bound) = host(config);
    let mut slow: Vec<_> = (0..5)
        .map(|_| {
            let mut client = connect(bound);
            client.write_all(b"GET / HT").unwrap();
            host.turn(100);
            host.skipped_ms += 1;
            client
        })
        .collect();
    assert_eq!(refused(&host), 2, "the oldest give way");
    let (_client, _) = open(&mut host, bound, "");
    assert_eq!((refused(&host), host.faces.len()), (3, 1));
    for client in &mut slow[3..] {
        for byte in b"TP/1.1\r\n" {
            client.write_all(&[*byte]).unwrap();
            host.turn(0);
        }
    }
    assert_eq!(refused(&host), 3);
    host.skipped_ms += 5001;
    host.turn(0);
    assert_eq!(refused(&host), 5);
    assert!(head(&mut slow[4]).starts_with("HTTP/1.1 408 "));
    // A late timer of a slot that is used again does no harm.
    let (_other, _) = open(&mut host, bound, "");
    assert_eq!(host.faces.len(), 2);
}

#[test]
fn connections_are_limited() {
    let (mut host, bound) = host(WebSocketConfig { faces_max: 2, ..WebSocketConfig::default() });
    let (one, _) = open(&mut host, bound, "");
    let (_two, _) = open(&mut host, bound, "");
    let mut third = connect(bound);
    third.write_all(format!("{REQUEST}\r\n").as_bytes()).unwrap();
    host.until("refused", |host| refused(host) == 1);
    assert!(head(&mut third).starts_with("HTTP/1.1 503 "));
    drop(one);
    host.until("gone", |host| host.faces.len() == 1);
    let (_third, _) = open(&mut host, bound, "");
    let listener = &host.faces.listeners()[0];
    assert_eq!((listener.accepted, listener.refused), (3, 1));
}

#[test]
fn idle_peer_is_pinged_and_then_closed() {
    let (mut host, bound) = host(WebSocketConfig::default());
    let (mut client, id) = open(&mut host, bound, "");
    host.skipped_ms += 10_000;
    host.turn(0);
    assert_eq!(read_frame(&mut client), Some((0x89, vec![])));
    client.write_all(&frame(0x8a, b"")).unwrap();
    host.turn(100);
    host.skipped_ms += 10_000;
    host.turn(0);
    assert_eq!(read_frame(&mut client), Some((0x89, vec![])), "asked again, as it answered");
    host.skipped_ms += 9_000;
    host.turn(0);
    assert!(host.destroyed().is_empty());
    host.skipped_ms += 1_100;
    host.turn(0);
    assert_eq!(host.destroyed(), [id]);
    assert!(matches!(host.events.last(), Some(FaceEvent::Destroyed(_, CloseReason::Idle))));
    assert_eq!(read_frame(&mut client), Some((0x88, 1001u16.to_be_bytes().to_vec())));
    assert_eq!(host.faces.deadline(), None, "no timer stays behind");
}

#[test]
fn peer_that_does_not_read_is_bounded_and_gets_whole_messages() {
    let config = FacesConfig {
        stream_send_buffer: 64 << 10,
        congestion_marking: false,
        ..FacesConfig::default()
    };
    let mut host = Host::new(config);
    let bound = host.faces.listen_websocket("127.0.0.1:0".parse().unwrap()).unwrap();
    let (mut client, id) = open(&mut host, bound, "");
    for at in 0..1000 {
        host.send(id, Kind::Data, &data(&format!("{at:04}"), 8000));
        if at % 10 == 9 {
            client.write_all(&frame(0x89, &[0; 100])).unwrap();
            host.turn(0);
            host.check_pool();
        }
    }
    let status = host.faces.status(id).unwrap();
    assert!(status.queue_bytes <= (1 << 20) + (64 << 10) + 200, "{}", status.queue_bytes);
    let dropped = status.counters.dropped(DropCause::FaceQueueFull);
    assert!(dropped > 100 && status.counters.out_data + dropped == 1000, "{dropped}");
    let kept = status.counters.out_data;
    let reader = std::thread::spawn(move || {
        let mut packets = 0;
        while packets < kept {
            match read_frame(&mut client) {
                Some((0x82, packet)) => {
                    assert_eq!(packet.len(), data("0000", 8000).len());
                    packets += 1;
                }
                Some((0x8a, _)) => {}
                other => panic!("{other:?}"),
            }
        }
        client
    });
    host.until("drained", |host| host.faces.status(id).unwrap().queue_bytes == 0);
    drop(reader.join().unwrap());
    assert!(host.turn(1) <= 1);
}

#[test]
fn face_to_server_exchanges_packets() {
    let (mut router, bound) = host(WebSocketConfig::default());
    let mut client = Host::new(FacesConfig::default());
    let (now, uri) = (client.now(), FaceUri::Ws(bound));
    let face = client.faces.connect(now, &uri, None, &FaceOptions::default()).unwrap();
    let again = client.faces.connect(now, &uri, None, &FaceOptions::default());
    assert!(matches!(again, Err(FaceError::Exists(id)) if id == face));
    assert!(!client.faces.status(face).unwrap().up);
    // Sent before the connection is established.
    client.send(face, Kind::Interest, &interest("early"));
    client.send(face, Kind::Interest, &interest("second"));
    for _ in 0..2000 {
        client.turn(1);
        router.turn(1);
        if let Some((id, ..)) = router.received.pop() {
            router.send(id, Kind::Data, &data("answer", 8000));
        }
        if client.received.len() == 2 {
            break;
        }
    }
    assert_eq!(client.received, [0, 1].map(|_| (face, Kind::Data, data("answer", 8000))));
    assert!(client.events.iter().any(|event| matches!(event, FaceEvent::Up(id) if *id == face)));
    let (ours, theirs) =
        (client.faces.status(face).unwrap(), router.faces.status(router.created()[0]).unwrap());
    assert_eq!((&ours.local_uri, &ours.uri), (&theirs.uri, &theirs.local_uri));
    assert_eq!(
        (ours.scope, ours.persistency, ours.up),
        (Scope::NonLocal, Persistency::Persistent, true)
    );
    assert_eq!(theirs.counters.in_interests, 2);
    // Long packets are masked too.
    client.send(face, Kind::Data, &data("long", 8000));
    for _ in 0..1000 {
        client.turn(1);
        router.turn(1);
        if !router.received.is_empty() {
            break;
        }
    }
    assert_eq!(router.received[0].2, data("long", 8000));
    assert!(client.faces.close(face, &mut client.pool));
    router.until("the end", |host| host.faces.is_empty());
    assert!(matches!(router.events.last(), Some(FaceEvent::Destroyed(_, CloseReason::PeerClosed))));
    client.check_pool();
    router.check_pool();
}

#[test]
fn refusing_server_gets_no_face_and_permanent_face_reconnects() {
    let mut client = Host::new(FacesConfig::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = FaceUri::Ws(listener.local_addr().unwrap());
    let now = client.now();
    let options =
        FaceOptions { persistency: Some(Persistency::Permanent), ..FaceOptions::default() };
    let id = client.faces.connect(now, &uri, None, &options).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.turn(100);
    let request = head(&mut server);
    assert!(
        request.starts_with("GET / HTTP/1.1\r\n") && request.contains("Upgrade: websocket\r\n"),
        "{request}"
    );
    assert_eq!(client.turn(1), 0, "waiting for the answer is no work");
    server.write_all(b"HTTP/1.1 404 Not Found\r\n\r\n").unwrap();
    client.until("the end", |host| host.destroyed() == [id]);
    let refused = CloseReason::WebSocket(WebSocketFault::Refused);
    assert!(
        matches!(client.events.last(), Some(FaceEvent::Destroyed(_, reason)) if *reason == refused)
    );
    drop((server, listener));

    let (mut router, bound) = host(WebSocketConfig::default());
    let id = client.faces.connect(now, &FaceUri::Ws(bound), None, &options).unwrap();
    let ups = |host: &Host| {
        host.events.iter().filter(|event| matches!(event, FaceEvent::Up(up) if *up == id)).count()
    };
    for connections in 1..=2 {
        for _ in 0..3000 {
            client.turn(1);
            router.turn(1);
            if ups(&client) == connections {
                break;
            }
        }
        assert_eq!(ups(&client), connections);
        let theirs = *router.created().last().unwrap();
        assert!(router.faces.close(theirs, &mut router.pool));
        client.until("down", |host| !host.faces.status(id).unwrap().up);
        client.skipped_ms += 2000;
    }
    assert!(client.faces.status(id).is_some());
}
