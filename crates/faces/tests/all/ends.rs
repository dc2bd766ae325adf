//! Ends of streams, for every cause: packets that were complete before the end are received.

use crate::common::{Host, data, interest};
use nw_element_api::Kind;
use nw_faces::{CloseReason, FaceEvent, FaceId, FaceOptions, FaceUri, FacesConfig, Persistency};
use rustix::net::sockopt;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

/// Packets that fit the window of a connection but not one read, so that some are unread when the
/// end is noticed.
const PACKETS: usize = 20;

fn unix_host() -> (Host, PathBuf, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.sock");
    let mut host = Host::new(FacesConfig::default());
    host.faces.listen_unix(&path, 0o666).unwrap();
    (host, path, directory)
}

fn tcp_host() -> (Host, TcpStream, FaceId) {
    let mut host = Host::new(FacesConfig::default());
    let bound = host.faces.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = TcpStream::connect(bound).unwrap();
    let id = accepted(&mut host);
    (host, client, id)
}

fn accepted(host: &mut Host) -> FaceId {
    let before = host.created().len();
    host.until("accepted", |host| host.created().len() > before);
    *host.created().last().unwrap()
}

/// Longer than a read of 64 KiB, shorter than what sockets hold.
fn last_packets() -> Vec<u8> {
    (0..PACKETS).flat_map(|at| data(&format!("{at}"), 5000)).collect()
}

#[track_caller]
fn check_last_packets(host: &mut Host, id: FaceId) {
    let names: Vec<Vec<u8>> = (0..PACKETS).map(|at| data(&format!("{at}"), 5000)).collect();
    let received: Vec<Vec<u8>> = host
        .received
        .drain(..)
        .map(|(face, kind, bytes)| {
            assert_eq!((face, kind), (id, Kind::Data));
            bytes
        })
        .collect();
    assert!(received == names, "{} of {PACKETS} came", received.len());
    host.check_pool();
}

fn reset(client: TcpStream) {
    sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
}

fn reason(host: &Host, id: FaceId) -> CloseReason {
    let mut ends = host.events.iter().rev().filter_map(|event| match event {
        FaceEvent::Destroyed(status, reason) if status.id == id => Some(reason.clone()),
        _ => None,
    });
    ends.next().expect("the face has ended")
}

#[test]
fn peer_close_after_partial_packet_keeps_whole_packets() {
    let (mut host, path, _directory) = unix_host();
    let mut client = UnixStream::connect(&path).unwrap();
    let id = accepted(&mut host);
    client.write_all(&[&last_packets()[..], &interest("part")[..5]].concat()).unwrap();
    drop(client);
    host.until("the end", |host| host.destroyed() == [id]);
    assert_eq!(reason(&host, id), CloseReason::PeerClosed);
    check_last_packets(&mut host, id);
}

#[test]
fn garbage_after_packets_keeps_the_packets() {
    let (mut host, mut client, id) = tcp_host();
    client.write_all(&[&last_packets()[..], b"POST / HTTP/1.1\r\n"].concat()).unwrap();
    host.until("the end", |host| host.destroyed() == [id]);
    assert!(matches!(reason(&host, id), CloseReason::FramingLost(_)));
    check_last_packets(&mut host, id);
}

#[test]
fn reset_without_writes_keeps_received_packets() {
    let (mut host, mut client, id) = tcp_host();
    client.write_all(&last_packets()).unwrap();
    reset(client);
    host.until("the end", |host| host.destroyed() == [id]);
    check_last_packets(&mut host, id);
}

/// The failing write is the one of the queue, in the same epoll event as the input.
#[test]
fn reset_with_send_queue_keeps_received_packets() {
    let (mut host, mut client, id) = tcp_host();
    host.until("a queue", |host| {
        (0..50).for_each(|_| host.send(id, Kind::Data, &data("x", 8000)));
        host.turn(0);
        host.faces.status(id).unwrap().queue_bytes > 0
    });
    client.write_all(&last_packets()).unwrap();
    reset(client);
    host.until("the end", |host| host.destroyed() == [id]);
    check_last_packets(&mut host, id);
}

/// The failing write is one of new packets, before the input is read.
#[test]
fn reset_detected_by_flush_keeps_received_packets() {
    let (mut host, mut client, id) = tcp_host();
    client.write_all(&last_packets()).unwrap();
    reset(client);
    std::thread::sleep(Duration::from_millis(20));
    host.send(id, Kind::Data, &data("x", 100));
    host.faces.flush(&mut host.pool);
    assert!(host.faces.has_events(), "the loop must not sleep over it");
    host.receive_packet();
    assert_eq!(host.destroyed(), [id]);
    check_last_packets(&mut host, id);
}

#[test]
fn close_by_command_keeps_unread_packets() {
    let (mut host, path, _directory) = unix_host();
    let mut client = UnixStream::connect(&path).unwrap();
    let id = accepted(&mut host);
    client.write_all(&last_packets()).unwrap();
    assert!(host.faces.close(id, &mut host.pool));
    host.receive_packet();
    assert_eq!(reason(&host, id), CloseReason::Requested);
    check_last_packets(&mut host, id);

    // Input of connections that the router closes at its own end is not read.
    let mut client = UnixStream::connect(&path).unwrap();
    accepted(&mut host);
    client.write_all(&last_packets()).unwrap();
    host.faces.close_all(&mut host.pool);
    host.receive_packet();
    assert!(host.received.is_empty());
    host.check_pool();
}

#[test]
fn reset_outgoing_faces_keep_received_packets() {
    for persistency in [Persistency::Persistent, Persistency::Permanent] {
        let options = FaceOptions { persistency: Some(persistency), ..FaceOptions::default() };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = FaceUri::Tcp(listener.local_addr().unwrap());
        let mut host = Host::new(FacesConfig::default());
        let id = host.faces.connect(host.now(), &uri, None, &options).unwrap();
        host.until("up", |host| host.faces.status(id).unwrap().up);
        let (mut peer, _) = listener.accept().unwrap();
        // Filled until packets are queued, so that a write fails before the input is read.
        host.until("a queue", |host| {
            (0..50).for_each(|_| host.send(id, Kind::Data, &data("x", 8000)));
            host.turn(0);
            host.faces.status(id).unwrap().queue_bytes > 0
        });
        peer.write_all(&last_packets()).unwrap();
        reset(peer);
        host.until("down", |host| host.faces.status(id).is_none_or(|status| !status.up));
        assert_eq!(host.destroyed().is_empty(), persistency == Persistency::Permanent);
        check_last_packets(&mut host, id);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("peer.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let mut host = Host::new(FacesConfig::default());
    let id = host
        .faces
        .connect(host.now(), &FaceUri::Unix(path), None, &FaceOptions::default())
        .unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    peer.write_all(&[&last_packets()[..], &[80, 0]].concat()).unwrap();
    host.until("the end", |host| host.destroyed() == [id]);
    check_last_packets(&mut host, id);
}

/// Encodes a masked frame.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match payload.len() {
        len @ 0..126 => out.push(0x80 | len as u8),
        len => {
            out.push(0x80 | 126);
            out.extend((len as u16).to_be_bytes());
        }
    }
    out.extend([0; 4]);
    out.extend(payload);
    out
}

#[test]
fn websocket_close_keeps_received_messages() {
    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                           Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    let mut host = Host::new(FacesConfig::default());
    let bound = host.faces.listen_websocket("127.0.0.1:0".parse().unwrap()).unwrap();
    let messages: Vec<u8> =
        (0..PACKETS).flat_map(|at| frame(0x82, &data(&format!("{at}"), 5000))).collect();
    let ends: [(&str, Vec<u8>); 4] = [
        ("Close", frame(0x88, &1000u16.to_be_bytes())),
        ("text", frame(0x81, b"bye")),
        ("garbage", vec![0xff; 20]),
        // Nothing after a close frame counts.
        ("Close and more", [frame(0x88, &[]), frame(0x82, &data("late", 10))].concat()),
    ];
    for (what, end) in ends {
        let mut client = TcpStream::connect(bound).unwrap();
        client.write_all(REQUEST.as_bytes()).unwrap();
        let id = accepted(&mut host);
        client.read_exact(&mut [0; 100]).unwrap();
        client.write_all(&[&messages[..], &end].concat()).unwrap();
        host.until(what, |host| host.destroyed().contains(&id));
        check_last_packets(&mut host, id);
    }
    let mut client = TcpStream::connect(bound).unwrap();
    client.write_all(REQUEST.as_bytes()).unwrap();
    let id = accepted(&mut host);
    client.write_all(&messages).unwrap();
    // It did not answer a ping: packets that it sent meanwhile are found at the latest when the
    // face closes.
    assert!(host.faces.close(id, &mut host.pool));
    host.receive_packet();
    check_last_packets(&mut host, id);
}

#[test]
fn shared_memory_close_keeps_received_packets() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("link.sock");
    let mut host = Host::new(FacesConfig::default());
    host.faces.listen_shared_memory(&path, 0o600).unwrap();
    let mut far = Host::new(FacesConfig::default());
    let uri = FaceUri::Shm(path);
    for by_command in [false, true] {
        let before = host.created().len();
        let near = far.faces.connect(far.now(), &uri, None, &FaceOptions::default()).unwrap();
        host.until("connected", |host| {
            far.turn(0);
            host.created().len() > before && far.faces.status(near).is_some_and(|status| status.up)
        });
        let id = *host.created().last().unwrap();
        (0..PACKETS).for_each(|at| far.send(near, Kind::Data, &data(&format!("{at}"), 5000)));
        far.faces.flush(&mut far.pool);
        if by_command {
            assert!(host.faces.close(id, &mut host.pool));
            host.receive_packet();
        } else {
            far.faces.close(near, &mut far.pool);
        }
        host.until("the end", |host| host.destroyed().contains(&id));
        check_last_packets(&mut host, id);
        far.faces.close(near, &mut far.pool);
        far.turn(0);
    }
}
