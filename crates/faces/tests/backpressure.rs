//! Back-pressure: peers that don't read share the budget of send queues, and peers that request
//! faster than they read are slowed down. Alone in its process, and one test at a time: a peer that
//! does not get the processor for 200 ms counts as one that doesn't read, and resident memory is
//! that of all tests.

#[allow(dead_code, reason = "a part is used")]
#[path = "all/common/mod.rs"]
mod common;

use common::{Host, data, interest};
use nw_element_api::{DropCause, Kind, SharedPool};
use nw_faces::{FaceId, FaceOptions, FaceUri, FacesConfig, Persistency};
use nw_wire::tlv::{Framing, frame};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant as Clock};

/// Bytes of content in each Data.
const CONTENT_LEN: usize = 8000;

static TURN: Mutex<()> = Mutex::new(());

/// Waits for the other tests; none starts before the guard is dropped.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Answers every received Interest, as a router does from its content store.
fn answer_all(host: &mut Host, content: &[u8]) -> usize {
    let received = core::mem::take(&mut host.received);
    for (at, (face, kind, _)) in received.iter().enumerate() {
        if *kind == Kind::Interest {
            host.send(*face, Kind::Data, content);
        }
        // The pool of this test is small.
        if at % 256 == 255 {
            host.faces.flush(&mut host.pool);
        }
    }
    received.len()
}

/// Writes all Interests at once and reads slowly. Returns how many packets arrived.
fn consume(
    stream: impl Read + Write + Send + 'static,
    clone: impl Read + Send + 'static,
    count: usize,
) -> usize {
    let mut writer = stream;
    let sender = std::thread::spawn(move || {
        let requests: Vec<u8> = (0..count).flat_map(|at| interest(&format!("{at:05}"))).collect();
        writer.write_all(&requests).unwrap();
        writer
    });
    let (mut reader, mut bytes, mut got, mut reads) = (clone, Vec::new(), 0, 0);
    let mut buffer = vec![0; 256 << 10];
    while got < count {
        match reader.read(&mut buffer) {
            Ok(read @ 1..) => bytes.extend_from_slice(&buffer[..read]),
            _ => break,
        }
        let mut at = 0;
        while let Ok(Framing::Whole(len)) = frame(&bytes[at..], 1 << 16) {
            (at, got) = (at + len, got + 1);
        }
        bytes.drain(..at);
        reads += 1;
        if reads % 64 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    drop(sender.join());
    got
}

fn serve_until(host: &mut Host, what: &str, mut is_over: impl FnMut(&mut Host) -> bool) {
    let (content, end) = (data("x", CONTENT_LEN), Clock::now() + Duration::from_secs(60));
    while !is_over(host) {
        assert!(Clock::now() < end, "{what}: not within 60 s");
        host.turn(1);
        answer_all(host, &content);
    }
}

#[test]
fn unix_consumer_that_requests_faster_than_it_reads_loses_nothing() {
    let _turn = one_at_a_time();
    let (mut host, folder) = (Host::new(FacesConfig::default()), tempfile::tempdir().unwrap());
    let path = folder.path().join("nfd.sock");
    host.faces.listen_unix(&path, 0o666).unwrap();
    let client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let clone = client.try_clone().unwrap();
    let consumer = std::thread::spawn(move || consume(client, clone, 65_600));
    serve_until(&mut host, "65,600 answers", |_| consumer.is_finished());
    assert_eq!(consumer.join().unwrap(), 65_600);
    assert_eq!(host.faces.drops().total(DropCause::FaceQueueFull), 0);
}

#[test]
fn tcp_consumer_that_requests_faster_than_it_reads_loses_nothing() {
    let _turn = one_at_a_time();
    let mut host = Host::new(FacesConfig::default());
    let address = host.faces.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let clone = client.try_clone().unwrap();
    let consumer = std::thread::spawn(move || consume(client, clone, 20_000));
    serve_until(&mut host, "20,000 answers", |_| consumer.is_finished());
    assert_eq!(consumer.join().unwrap(), 20_000);
    assert_eq!(host.faces.drops().total(DropCause::FaceQueueFull), 0);
}

/// Floods the other router with Interests and answers its own, in the same thread.
fn flood(host: &mut Host, face: FaceId, requests: usize) {
    for at in 0..requests {
        host.send(face, Kind::Interest, &interest(&format!("{at:05}")));
        if at % 64 == 0 {
            host.faces.flush(&mut host.pool);
        }
    }
}

fn consumer_face(listener: &mut Host, uri: &FaceUri, config: FacesConfig) -> (Host, FaceId) {
    let mut client = Host::new(config);
    let options =
        FaceOptions { persistency: Some(Persistency::Persistent), ..FaceOptions::default() };
    let now = client.now();
    let face = client.faces.connect(now, uri, None, &options).unwrap();
    let end = Clock::now() + Duration::from_secs(10);
    while !client.faces.status(face).unwrap().up || listener.created().is_empty() {
        assert!(Clock::now() < end, "not up within 10 s");
        listener.turn(1);
        client.turn(1);
    }
    (client, face)
}

/// Sends `count` Interests from a client that reads only now and then. Returns how many Data
/// arrived.
fn slow_client(mut host: Host, uri: &FaceUri, count: usize) -> (Host, usize) {
    let config = FacesConfig { queue_bytes_max: 16 << 20, ..FacesConfig::default() };
    let (mut client, face) = consumer_face(&mut host, uri, config);
    let content = data("x", CONTENT_LEN);
    flood(&mut client, face, count);
    let (mut got, mut last) = (0, Clock::now());
    while got < count && last.elapsed() < Duration::from_secs(3) {
        for _ in 0..8 {
            host.turn(0);
            answer_all(&mut host, &content);
        }
        client.turn(0);
        let came = core::mem::take(&mut client.received).len();
        if came > 0 {
            last = Clock::now();
        }
        got += came;
    }
    (host, got)
}

#[test]
fn websocket_consumer_that_requests_faster_than_it_reads_loses_nothing() {
    let _turn = one_at_a_time();
    let mut host = Host::new(FacesConfig::default());
    let address = host.faces.listen_websocket("127.0.0.1:0".parse().unwrap()).unwrap();
    let (host, got) = slow_client(host, &FaceUri::Ws(address), 10_000);
    assert_eq!((got, host.faces.drops().total(DropCause::FaceQueueFull)), (10_000, 0));
}

#[test]
fn shared_memory_consumer_that_requests_faster_than_it_reads_loses_nothing() {
    let _turn = one_at_a_time();
    let (mut host, folder) = (Host::new(FacesConfig::default()), tempfile::tempdir().unwrap());
    let path = folder.path().join("shm.sock");
    host.faces.listen_shared_memory(&path, 0o600).unwrap();
    let (host, got) = slow_client(host, &FaceUri::Shm(path), 10_000);
    assert_eq!((got, host.faces.drops().total(DropCause::FaceQueueFull)), (10_000, 0));
}

/// Two routers that flood each other: neither waits for the other forever.
fn both_flood(uri: impl Fn(&mut Host) -> FaceUri) {
    let config = FacesConfig { stream_send_buffer: 32 << 10, ..FacesConfig::default() };
    let mut hosts = [Host::new(config.clone()), Host::new(config.clone())];
    let uri = uri(&mut hosts[0]);
    let [mut first, _] = hosts;
    let (mut second, face) = consumer_face(&mut first, &uri, config);
    let other = first.created()[0];
    let content = data("x", CONTENT_LEN);
    const COUNT: usize = 3000;
    flood(&mut first, other, COUNT);
    flood(&mut second, face, COUNT);
    let (mut got, end) = ([0; 2], Clock::now() + Duration::from_secs(20));
    let lost = |host: &Host| host.faces.drops().total(DropCause::FaceQueueFull) as usize;
    // Every Interest and Data arrives, or is counted as dropped.
    while got[0] + got[1] + lost(&first) + lost(&second) < 2 * COUNT {
        assert!(Clock::now() < end, "no end: {got:?}, {} and {} lost", lost(&first), lost(&second));
        for (at, host) in [&mut first, &mut second].into_iter().enumerate() {
            host.turn(0);
            got[at] += host.received.iter().filter(|(_, kind, _)| *kind == Kind::Data).count();
            answer_all(host, &content);
        }
    }
    assert!(got[0] > 0 && got[1] > 0, "{got:?}");
    // The links still work in both directions.
    for _ in 0..2000 {
        first.turn(1);
        second.turn(1);
        if first.faces.send_queue_bytes() + second.faces.send_queue_bytes() == 0 {
            break;
        }
    }
    first.received.clear();
    second.received.clear();
    first.send(other, Kind::Interest, &interest("after"));
    second.send(face, Kind::Interest, &interest("after"));
    let end = Clock::now() + Duration::from_secs(5);
    while first.received.is_empty() || second.received.is_empty() {
        assert!(Clock::now() < end, "the link does not work any more");
        first.turn(1);
        second.turn(1);
    }
}

#[test]
fn routers_flooding_each_other_over_tcp_do_not_deadlock() {
    let _turn = one_at_a_time();
    both_flood(|host| FaceUri::Tcp(host.faces.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap()));
}

#[test]
fn routers_flooding_each_other_over_websocket_do_not_deadlock() {
    let _turn = one_at_a_time();
    both_flood(|host| {
        FaceUri::Ws(host.faces.listen_websocket("127.0.0.1:0".parse().unwrap()).unwrap())
    });
}

#[test]
fn face_whose_peer_never_reads_is_read_again_after_a_while() {
    let _turn = one_at_a_time();
    let (mut host, folder) = (Host::new(FacesConfig::default()), tempfile::tempdir().unwrap());
    let path = folder.path().join("nfd.sock");
    host.faces.listen_unix(&path, 0o666).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let writer = std::thread::spawn(move || {
        let requests: Vec<u8> = (0..20_000).flat_map(|at| interest(&format!("{at:05}"))).collect();
        client.write_all(&requests).map(|()| client)
    });
    serve_until(&mut host, "all Interests", |host| host.faces.totals().in_interests == 20_000);
    assert!(
        host.faces.drops().total(DropCause::FaceQueueFull) > 15_000,
        "the bound of one face holds"
    );
    assert!(host.faces.send_queue_bytes() < 2 << 20);
    // A peer that closes while its face is paused is noticed at once, and the loop does not spin.
    drop(writer.join().unwrap().unwrap());
    host.until("the end", |host| host.destroyed().len() == 1);
    assert_eq!(host.faces.send_queue_bytes(), 0);
}

#[test]
fn peers_that_do_not_read_share_a_budget_and_others_continue() {
    let _turn = one_at_a_time();
    const READERS: usize = 400;
    let config = FacesConfig { queues_bytes_max: 8 << 20, ..FacesConfig::default() };
    let mut host = Host::new(config);
    let address = host.faces.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let requests: Vec<u8> = (0..400).flat_map(|at| interest(&format!("{at:05}"))).collect();
    let mut readers = Vec::new();
    let content = data("x", CONTENT_LEN);
    for _ in 0..READERS {
        let mut reader = TcpStream::connect(address).unwrap();
        reader.write_all(&requests).unwrap();
        readers.push(reader);
        host.turn(0);
        answer_all(&mut host, &content);
    }
    let (start, mut most) = (Clock::now(), 0);
    serve_until(&mut host, "some time", |host| {
        most = most.max(host.faces.send_queue_bytes());
        start.elapsed() > Duration::from_secs(2)
    });
    let shortages = host.faces.drops().shortages.count(SharedPool::SendQueues);
    // A packet that was sent in part is completed.
    assert!(
        most <= (8 << 20) + READERS * 8800 && shortages > 1000,
        "{most} bytes, {shortages} shortages"
    );
    // A new peer gets its Data, although the other queues have not moved.
    let mut newcomer = TcpStream::connect(address).unwrap();
    newcomer.write_all(&interest("newcomer")).unwrap();
    let before = host.faces.totals().in_interests;
    newcomer.write_all(&requests).unwrap();
    serve_until(&mut host, "the newcomer", |host| host.faces.totals().in_interests > before);
    host.turn(0);
    newcomer.set_nonblocking(true).unwrap();
    let (mut read, mut buffer, wanted) = (0, vec![0; 1 << 20], 401 * content.len());
    serve_until(&mut host, "answers to the newcomer", |_| {
        read += newcomer.read(&mut buffer).unwrap_or(0);
        read >= wanted
    });
    drop(readers);
    host.until("the ends", |host| host.faces.len() <= 1);
    assert_eq!(host.faces.send_queue_bytes(), 0);
}

/// Returns the resident bytes of this process.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn memory_of_send_queues_returns_to_the_system() {
    let _turn = one_at_a_time();
    let config = FacesConfig { stream_send_buffer: 16 << 10, ..FacesConfig::default() };
    let (mut host, folder) = (Host::new(config), tempfile::tempdir().unwrap());
    let path = folder.path().join("nfd.sock");
    host.faces.listen_unix(&path, 0o666).unwrap();
    let content = data("x", CONTENT_LEN);
    let clients: Vec<UnixStream> = (0..200)
        .map(|_| {
            let client = UnixStream::connect(&path).unwrap();
            host.turn(10);
            client
        })
        .collect();
    host.until("all are accepted", |host| host.faces.len() == 200);
    let before = resident_bytes();
    for id in host.faces.ids().collect::<Vec<_>>() {
        (0..110).for_each(|_| host.send(id, Kind::Data, &content));
        host.turn(0);
    }
    let full = resident_bytes();
    assert!(full > before + (100 << 20), "{before} {full}");
    drop(clients);
    host.until("the ends", |host| host.faces.is_empty());
    let after = resident_bytes();
    // Allowance for blocks kept by threads.
    assert!(after < full - (full - before) * 3 / 4, "{before} {full} {after}");
}
