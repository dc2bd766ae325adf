//! Unix and TCP faces over real sockets.

use crate::common::{Host, data, interest};
use nw_element_api::{DropCause, Kind};
use nw_faces::{
    CloseReason, FaceError, FaceEvent, FaceFlags, FaceId, FaceOptions, FaceUri, FacesConfig,
    Persistency, Scope,
};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

fn unix_host(config: FacesConfig) -> (Host, PathBuf, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/nfd.sock");
    let mut host = Host::new(config);
    host.faces.listen_unix(&path, 0o666).unwrap();
    (host, path, directory)
}

fn accepted(host: &mut Host) -> FaceId {
    let before = host.created().len();
    host.until("accepted", |host| host.created().len() > before);
    *host.created().last().unwrap()
}

#[test]
fn unix_face_has_status_that_clients_expect() {
    let (mut host, path, _directory) = unix_host(FacesConfig::default());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    let mut client = UnixStream::connect(&path).unwrap();
    let id = accepted(&mut host);
    let status = host.faces.status(id).unwrap();
    assert!(matches!(status.uri, FaceUri::Fd(_)));
    assert_eq!(status.local_uri, FaceUri::Unix(path));
    assert_eq!(
        (status.scope, status.persistency, status.mtu),
        (Scope::Local, Persistency::OnDemand, None)
    );
    assert_eq!(status.flags, FaceFlags::CONGESTION_MARKING);
    assert_eq!(id.number(), 256);

    client.write_all(&interest("a")).unwrap();
    host.until("the Interest", |host| host.received.len() == 1);
    assert_eq!(host.received[0], (id, Kind::Interest, interest("a")));
    host.send(id, Kind::Data, &data("a", 8000));
    host.turn(0);
    let mut answer = vec![0; data("a", 8000).len()];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, data("a", 8000));

    drop(client);
    host.until("the end", |host| host.destroyed() == [id]);
    assert!(matches!(host.events.last(), Some(FaceEvent::Destroyed(_, CloseReason::PeerClosed))));
    assert_eq!(
        (host.faces.len(), host.faces.totals().in_interests, host.faces.totals().out_data),
        (0, 1, 1)
    );
    host.check_pool();
    assert_eq!(host.pool.chunks_in_use(), 1, "only what the pool fills with packets made here");
}

#[test]
fn packets_arrive_bytewise_or_many_per_write() {
    let (mut host, path, _directory) = unix_host(FacesConfig::default());
    let mut client = UnixStream::connect(&path).unwrap();
    let id = accepted(&mut host);
    for byte in data("slow", 300) {
        client.write_all(&[byte]).unwrap();
        host.turn(0);
    }
    assert_eq!(host.received, [(id, Kind::Data, data("slow", 300))]);
    assert_eq!(host.pool.chunks_in_use(), 0, "an idle face holds no chunk");
    host.received.clear();

    let writer = std::thread::spawn(move || {
        for at in 0..200 {
            let burst: Vec<u8> =
                (0..50).flat_map(|n| data(&format!("{at}/{n}"), at * 40)).collect();
            client.write_all(&burst).unwrap();
        }
        client
    });
    host.until("all", |host| host.received.len() == 200 * 50);
    for (at, (face, kind, bytes)) in host.received.iter().enumerate() {
        let expected = data(&format!("{}/{}", at / 50, at % 50), at / 50 * 40);
        assert!(*face == id && *kind == Kind::Data && *bytes == expected, "packet {at}");
    }
    drop(writer.join().unwrap());
    host.check_pool();
}

#[test]
fn malformed_packet_is_counted_and_skipped() {
    let (mut host, path, _directory) = unix_host(FacesConfig::default());
    let mut client = UnixStream::connect(&path).unwrap();
    let id = accepted(&mut host);
    // A link packet with an unknown critical field, an Interest without a name, then a valid one.
    client.write_all(&[0x64, 2, 0x55, 0, 5, 2, 0xf0, 0]).unwrap();
    client.write_all(&interest("a")).unwrap();
    host.until("the good one", |host| host.received.len() == 1);
    assert_eq!(host.faces.drops().iter().map(|(_, n)| n).sum::<u64>(), 2);
    assert_eq!(host.faces.status(id).unwrap().counters.drops(), Some(host.faces.drops()));
    assert!(host.destroyed().is_empty());
}

#[test]
fn lost_framing_closes_stream_and_holds_nothing() {
    let (mut host, path, _directory) = unix_host(FacesConfig::default());
    for garbage in [
        &[6, 255, 255, 255, 255, 255, 255, 255, 255, 255][..],
        &[6, 253, 0x40, 0],
        &[0, 1, 2],
        &[80, 2, 1, 2],
        &[0x80, 2, 1, 2],
        &[253, 3, 32, 0],
        &[6, 253, 0, 1],
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let mut client = UnixStream::connect(&path).unwrap();
        let id = accepted(&mut host);
        client.write_all(&interest("before")).unwrap();
        client.write_all(garbage).unwrap();
        host.until("the end", |host| host.destroyed().contains(&id));
        assert!(matches!(
            host.events.last(),
            Some(FaceEvent::Destroyed(_, CloseReason::FramingLost(_)))
        ));
        assert_eq!(host.received.pop(), Some((id, Kind::Interest, interest("before"))));
        // The router's end is closed.
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    }
    assert_eq!(host.pool.chunks_in_use(), 0);
}

#[test]
fn peer_that_does_not_read_is_bounded_and_holds_no_packets() {
    let config = FacesConfig {
        stream_send_buffer: 64 << 10,
        congestion_marking: false,
        ..FacesConfig::default()
    };
    let (mut host, path, _directory) = unix_host(config);
    let mut client = UnixStream::connect(&path).unwrap();
    let id = accepted(&mut host);
    let mut sent = 0;
    for _ in 0..100 {
        for _ in 0..10 {
            host.send(id, Kind::Data, &data(&format!("{sent:04}"), 8000));
            sent += 1;
        }
        host.turn(0);
        host.check_pool();
    }
    let status = host.faces.status(id).unwrap();
    assert!(
        status.queue_bytes <= 1 << 20 && status.queue_bytes > 1000 << 10,
        "{}",
        status.queue_bytes
    );
    let dropped = status.counters.dropped(DropCause::FaceQueueFull);
    assert_eq!(dropped, status.counters.out_data_dropped);
    assert_eq!(status.counters.out_data + dropped, 1000);
    assert!(dropped > 700, "{dropped}");

    // The peer reads again: queued packets arrive whole and in order, followed by new ones.
    let kept = status.counters.out_data as usize;
    let len = data("0000", 8000).len();
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![0; (kept + 1) * len];
        client.read_exact(&mut bytes).unwrap();
        (client, bytes)
    });
    host.until("drained", |host| host.faces.status(id).unwrap().queue_bytes == 0);
    host.send(id, Kind::Data, &data("last", 8000));
    host.turn(0);
    let (client, bytes) = reader.join().unwrap();
    for (at, packet) in bytes.chunks(len).take(kept).enumerate() {
        assert!(packet == data(&format!("{at:04}"), 8000), "packet {at}");
    }
    assert!(bytes.ends_with(&data("last", 8000)));
    // The loop does not spin.
    assert_eq!(host.turn(0), 0);
    drop(client);
}

#[test]
fn long_queue_marks_congestion() {
    let config = FacesConfig { stream_send_buffer: 64 << 10, ..FacesConfig::default() };
    let (mut host, path, _directory) = unix_host(config);
    let _client = UnixStream::connect(&path).unwrap();
    let id = accepted(&mut host);
    for step in 0..40 {
        host.send(id, Kind::Data, &data("x", 8000));
        host.turn(0);
        host.skipped_ms += if step > 25 { 50 } else { 0 };
    }
    assert!(host.faces.status(id).unwrap().counters.out_marks > 2);
}

#[test]
fn vanished_peer_closes_face_after_its_packets() {
    let (mut host, path, _directory) = unix_host(FacesConfig::default());
    let mut client = UnixStream::connect(&path).unwrap();
    let id = accepted(&mut host);
    client.write_all(&data("parting", 10)).unwrap();
    drop(client);
    // The write fails first; packets received before must not be lost.
    host.send(id, Kind::Data, &data("x", 100));
    host.until("the end", |host| host.destroyed() == [id]);
    assert_eq!(host.received, [(id, Kind::Data, data("parting", 10))]);
    assert_eq!(host.faces.drops().total(DropCause::FaceGone), 1);
    host.send(id, Kind::Data, &data("x", 100));
    assert_eq!(host.faces.drops().total(DropCause::FaceGone), 2);
    host.check_pool();
}

#[test]
fn thousand_connections_are_accepted_up_to_the_limit() {
    let config = FacesConfig { faces_max: 1000, ..FacesConfig::default() };
    let (mut host, path, _directory) = unix_host(config);
    let mut clients: Vec<_> = (0..1100).map(|_| UnixStream::connect(&path).unwrap()).collect();
    host.until("all taken or turned away", |host| {
        let listener = &host.faces.listeners()[0];
        listener.accepted + listener.refused == 1100
    });
    assert_eq!((host.faces.len(), host.faces.listeners()[0].refused), (1000, 100));
    for client in &mut clients[..1000] {
        client.write_all(&interest("a")).unwrap();
    }
    host.until("all heard", |host| host.received.len() == 1000);
    clients.clear();
    host.until("all gone", |host| host.faces.is_empty());
    assert_eq!(host.pool.chunks_in_use(), 0);
    let _again = UnixStream::connect(&path).unwrap();
    let id = accepted(&mut host);
    assert!(id.number() == 256 + 1000 && host.faces.status(id).is_some());
}

#[test]
fn unused_socket_is_replaced_and_used_one_or_file_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::new(FacesConfig::default());
    let path = directory.path().join("dead.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    host.faces.listen_unix(&path, 0o660).unwrap();
    let mut other = Host::new(FacesConfig::default());
    let refused = other.faces.listen_unix(&path, 0o660).unwrap_err();
    assert!(
        matches!(refused, FaceError::SocketInUse(_)) && refused.to_string().contains("dead.sock"),
        "{refused}"
    );
    let file = directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    assert!(matches!(host.faces.listen_unix(&file, 0o660), Err(FaceError::NotASocket(_))));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    let long = directory.path().join("x".repeat(120));
    assert!(host.faces.listen_unix(&long, 0o660).unwrap_err().to_string().contains("107"));
    drop(host);
    assert!(!path.exists(), "the socket goes with its listener");
}

#[test]
fn tcp_over_loopback_is_local() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (mut router, mut client) =
            (Host::new(FacesConfig::default()), Host::new(FacesConfig::default()));
        let bound = router.faces.listen_tcp(address.parse().unwrap()).unwrap();
        let (now, uri) = (client.now(), FaceUri::Tcp(bound));
        let face = client.faces.connect(now, &uri, None, &FaceOptions::default()).unwrap();
        let again = client.faces.connect(now, &uri, None, &FaceOptions::default());
        assert!(matches!(again, Err(FaceError::Exists(id)) if id == face));
        // Sent before the connection is established.
        client.send(face, Kind::Interest, &interest("early"));
        for _ in 0..1000 {
            client.turn(1);
            router.turn(1);
            if let Some((id, ..)) = router.received.pop() {
                router.send(id, Kind::Data, &data("early", 8000));
            }
            if !client.received.is_empty() {
                break;
            }
        }
        assert_eq!(client.received, [(face, Kind::Data, data("early", 8000))]);
        assert!(
            client.events.iter().any(|event| matches!(event, FaceEvent::Up(id) if *id == face))
        );
        let (ours, theirs) =
            (client.faces.status(face).unwrap(), router.faces.status(router.created()[0]).unwrap());
        assert_eq!((&ours.local_uri, &ours.uri), (&theirs.uri, &theirs.local_uri));
        assert_eq!(
            (ours.scope, ours.persistency, ours.up),
            (Scope::Local, Persistency::Persistent, true)
        );
        assert_eq!((theirs.scope, theirs.persistency), (Scope::Local, Persistency::OnDemand));
    }
}

#[test]
fn tcp_without_listener_fails() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut host = Host::new(FacesConfig::default());
    let now = host.now();
    match host.faces.connect(now, &FaceUri::Tcp(free), None, &FaceOptions::default()) {
        Ok(id) => host.until("refused", |host| host.destroyed() == [id]),
        Err(error) => assert!(error.to_string().contains("no program listens"), "{error}"),
    }
    let error = host
        .faces
        .connect(now, &"unix:///nowhere/x".parse().unwrap(), None, &FaceOptions::default())
        .unwrap_err();
    assert!(
        error.to_string().contains("unix:///nowhere/x")
            && error.to_string().contains("no such path"),
        "{error}"
    );
    for refused in [
        "fd://3",
        "internal://",
        "null://",
        "tcp://example.test:1",
        "udp4://224.0.23.170",
        "tcp4://0.0.0.0",
    ] {
        assert!(
            host.faces
                .connect(now, &refused.parse().unwrap(), None, &FaceOptions::default())
                .is_err(),
            "{refused}"
        );
    }
    assert!(host.faces.is_empty());
}

#[test]
fn half_closed_stream_is_closed_and_adopted_one_works() {
    let mut host = Host::new(FacesConfig::default());
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let now = host.now();
    let id = host.faces.adopt(now, ours.into(), &FaceOptions::default()).unwrap();
    theirs.write_all(&interest("a")).unwrap();
    theirs.shutdown(Shutdown::Write).unwrap();
    host.until("the end", |host| host.destroyed() == [id]);
    assert_eq!(host.received.len(), 1);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let _theirs = listener.accept().unwrap();
    let id = host.faces.adopt(now, ours.into(), &FaceOptions::default()).unwrap();
    assert_eq!(host.faces.status(id).unwrap().uri, FaceUri::Tcp(listener.local_addr().unwrap()));
    assert!(host.faces.close(id, &mut host.pool) && !host.faces.close(id, &mut host.pool));
    host.turn(0);
    assert_eq!(host.destroyed().last(), Some(&id));
}

#[test]
fn reset_connection_closes_face() {
    let mut host = Host::new(FacesConfig::default());
    let bound = host.faces.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = TcpStream::connect(bound).unwrap();
    let id = accepted(&mut host);
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    host.send(id, Kind::Data, &data("x", 8000));
    host.until("the end", |host| host.destroyed() == [id]);
    host.check_pool();
}

#[test]
fn close_all_leaves_nothing() {
    let (mut host, path, _directory) = unix_host(FacesConfig::default());
    let mut client = UnixStream::connect(&path).unwrap();
    let id = accepted(&mut host);
    let now = host.now();
    let udp = host
        .faces
        .connect(now, &"udp4://127.0.0.1:9".parse().unwrap(), None, &FaceOptions::default())
        .unwrap();
    host.send(id, Kind::Data, &data("last", 8000));
    host.send(udp, Kind::Data, &data("last", 8000));
    host.faces.close_all(&mut host.pool);
    host.check_pool();
    assert!(host.faces.is_empty() && host.faces.listeners().is_empty() && !path.exists());
    assert_eq!(host.turn(0), 0);
    assert_eq!(host.destroyed(), [id, udp]);
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, data("last", 8000));
}

#[test]
fn exhausted_pool_pauses_reading_and_loses_nothing() {
    let (mut host, path, _directory) = unix_host(FacesConfig::default());
    let mut client = UnixStream::connect(&path).unwrap();
    accepted(&mut host);
    let taken: Vec<_> = core::iter::from_fn(|| host.pool.take_chunk()).collect();
    client.write_all(&interest("a")).unwrap();
    for _ in 0..10 {
        host.turn(1);
    }
    assert!(host.received.is_empty());
    taken.into_iter().for_each(|chunk| host.pool.release_chunk(chunk));
    host.until("read at last", |host| host.received.len() == 1);
}

#[test]
fn internal_and_null_faces_work() {
    let mut host = Host::new(FacesConfig::default());
    let now = host.now();
    let id = host.faces.open_internal(now);
    assert_eq!((id, id.number()), (FaceId::INTERNAL, 1));
    let mut batch = Vec::new();
    host.faces.inject(now, &interest("a"), &mut host.pool, &mut batch);
    host.faces.inject(now, &[1, 2, 3], &mut host.pool, &mut batch);
    let packet = batch.pop().unwrap();
    assert!(
        batch.is_empty()
            && host.pool.meta(&packet).ingress == id
            && host.pool.meta(&packet).ingress_local
    );
    host.pool.release(packet);
    host.send(id, Kind::Data, &data("a", 8000));
    host.send(id, Kind::Data, &data("b", 10));
    host.turn(0);
    assert_eq!(
        [host.faces.next_internal(), host.faces.next_internal()],
        [Some(data("a", 8000)), Some(data("b", 10))]
    );
    assert_eq!(host.faces.next_internal(), None);
    for _ in 0..200 {
        host.send(id, Kind::Data, &data("a", 8000));
    }
    host.turn(0);
    assert!(host.faces.drops().total(DropCause::FaceQueueFull) > 50);
    assert!(!host.faces.close(id, &mut host.pool));
    host.send(FaceId::NULL, Kind::Data, &data("a", 10));
    assert_eq!(host.faces.drops().total(DropCause::NullFace), 1);
    host.check_pool();
}

#[test]
fn tcp_peers_do_not_take_all_faces() {
    let config = FacesConfig { peers_max: 3, ..FacesConfig::default() };
    let (mut host, path, _directory) = unix_host(config);
    let bound = host.faces.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut clients: Vec<_> = (0..5).map(|_| TcpStream::connect(bound).unwrap()).collect();
    host.until("turned away", |host| host.faces.listeners()[1].refused == 2);
    assert_eq!(host.faces.len(), 3);
    let _local = UnixStream::connect(&path).unwrap();
    accepted(&mut host);
    clients.clear();
    host.until("gone", |host| host.faces.len() == 1);
    let _again = TcpStream::connect(bound).unwrap();
    accepted(&mut host);
}

/// Existing faces stay, no new ones are accepted, and another listener may take the address.
#[test]
fn stopped_listener_keeps_its_faces() {
    let (mut host, path, directory) = unix_host(FacesConfig::default());
    let mut client = UnixStream::connect(&path).unwrap();
    let id = accepted(&mut host);
    assert!(!host.faces.stop_listening(&FaceUri::Unix(directory.path().join("other"))));
    assert!(host.faces.stop_listening(&FaceUri::Unix(path.clone())));
    assert!(!path.exists() && host.faces.listeners().is_empty());
    assert!(UnixStream::connect(&path).is_err());
    let second = directory.path().join("second.sock");
    host.faces.listen_unix(&second, 0o666).unwrap();
    let _others = UnixStream::connect(&second).unwrap();
    accepted(&mut host);
    assert_eq!(host.faces.listeners()[0].accepted, 1);
    client.write_all(&interest("a")).unwrap();
    host.until("the Interest", |host| host.received.len() == 1);
    drop(client);
    host.until("the end", |host| host.destroyed() == [id]);

    let bound = host.faces.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let webs = host.faces.listen_websocket("127.0.0.1:0".parse().unwrap()).unwrap();
    let _no_face_yet = TcpStream::connect(webs).unwrap();
    host.turn(10);
    assert!(
        host.faces.stop_listening(&FaceUri::Tcp(bound))
            && host.faces.stop_listening(&FaceUri::Ws(webs))
    );
    assert!(TcpStream::connect(bound).is_err() && TcpStream::connect(webs).is_err());
    host.turn(0);
    assert_eq!(host.faces.listeners().len(), 1);
}
