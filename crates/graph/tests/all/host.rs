//! Changes of a running graph: results reported to the handle, and what happens to sockets.

use nw_element_api::Timestamp;
use nw_graph::host::{Host, HostError};
use nw_graph::{ChangeMode, Graph, GraphFile};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(10);
/// An Interest for `/a` with the default lifetime of 4 s, and its Data.
const INTEREST: &[u8] = &[5, 11, 7, 3, 8, 1, b'a', 10, 4, 1, 2, 3, 4];
const DATA: &[u8] = &[6, 12, 7, 3, 8, 1, b'a', 22, 3, 27, 1, 0, 23, 0];

fn graph(text: &str) -> Graph {
    GraphFile::read("test", text).unwrap_or_else(|problems| panic!("{problems}")).graph
}

/// A router with a listening face `near`; everything is routed to `far`.
fn routed(folder: &Path, near: &str, cost: &str) -> Graph {
    let folder = folder.display();
    graph(&format!(
        r#"
face near listens unix://{folder}/{near}
face far = unix://{folder}/far default
pd = packet_dispatcher
br = router(routes = ["/ far{cost}"])
discard = sink
faces -> pd.packet
pd.interest -> br.interest -> faces
pd.data -> br.data -> faces
pd.nack -> br.nack -> faces
br.route_event -> discard
"#
    ))
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {TIMEOUT:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("nw-graph-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Replies for peers of a removed listener still arrive; then their faces end. New peers are
/// rejected from the start.
#[test]
fn change_without_listener_closes_it_after_last_reply() {
    let folder = folder("listener");
    let far = UnixListener::bind(folder.join("far")).unwrap();
    let mut host = Host::new(&routed(&folder, "one", "")).unwrap();
    let handle = host.handle();
    let running = thread::spawn(move || host.run());
    let (mut producer, _) = far.accept().unwrap();
    let mut client = UnixStream::connect(folder.join("one")).unwrap();
    for stream in [&producer, &client] {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    }
    client.write_all(INTEREST).unwrap();
    let mut received = [0; 256];
    assert!(producer.read(&mut received).unwrap() > 0);

    // A new router element: the old one still waits for the reply.
    let mut other = routed(&folder, "two", "");
    other
        .nodes
        .iter_mut()
        .filter(|node| node.name == "br")
        .for_each(|node| node.name = "br2".to_owned());
    handle.change(other, ChangeMode::MakeBeforeBreak).unwrap();
    // The change is in effect when the call returns.
    assert!(UnixStream::connect(folder.join("one")).is_err(), "new connections are refused");
    let second = UnixStream::connect(folder.join("two")).unwrap();
    assert!(handle.report().unwrap().changing);
    producer.write_all(DATA).unwrap();
    let mut answer = [0; 256];
    let len = client.read(&mut answer).unwrap();
    assert_eq!(&answer[..len], DATA);
    assert_eq!(client.read(&mut answer).unwrap(), 0, "then the connection ends");
    wait_until("no change under way", || !handle.report().unwrap().changing);
    wait_until("two faces are left", || handle.report().unwrap().faces.len() == 2);
    drop(second);

    handle.stop();
    running.join().unwrap().unwrap();
    assert!(!folder.join("one").exists() && !folder.join("two").exists());
    std::fs::remove_dir_all(folder).unwrap();
}

/// Packets received together with the end of a connection are processed first, in both directions.
#[test]
fn packets_before_end_of_connection_processed() {
    let folder = folder("end");
    let far = UnixListener::bind(folder.join("far")).unwrap();
    let mut host = Host::new(&routed(&folder, "near", "")).unwrap();
    let handle = host.handle();
    let running = thread::spawn(move || host.run());
    let (mut producer, _) = far.accept().unwrap();
    producer.set_read_timeout(Some(TIMEOUT)).unwrap();
    let garbage = b"GET / HTTP/1.1\r\n\r\n";
    let mut leaving_client = UnixStream::connect(folder.join("near")).unwrap();
    leaving_client.write_all(&[INTEREST, garbage].concat()).unwrap();
    let mut received = [0; 256];
    assert!(producer.read(&mut received).unwrap() > 0, "the Interest is forwarded");

    let mut client = UnixStream::connect(folder.join("near")).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut other = INTEREST.to_vec();
    *other.last_mut().unwrap() = 9;
    other[6] = b'b';
    client.write_all(&other).unwrap();
    assert!(producer.read(&mut received).unwrap() > 0);
    let mut data = DATA.to_vec();
    data[6] = b'b';
    producer.write_all(&[&data[..], garbage].concat()).unwrap();
    let mut answer = [0; 256];
    let len = client.read(&mut answer).unwrap();
    assert_eq!(&answer[..len], data, "the Data arrives");
    handle.stop();
    running.join().unwrap().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

/// The requester of a change receives its result.
#[test]
fn change_returns_when_in_effect() {
    let folder = folder("answer");
    let mut host = Host::new(&routed(&folder, "near", "")).unwrap();
    let handle = host.handle();
    let running = thread::spawn(move || host.run());
    handle.change(routed(&folder, "near", " cost=5"), ChangeMode::Drop).unwrap();
    let counted = graph(&format!(
        "face near listens unix://{0}/near\nface far = unix://{0}/far default\nseen = counter\nfaces -> seen -> faces",
        folder.display()
    ));
    handle.change(counted, ChangeMode::Drop).unwrap();
    assert_eq!(handle.report().unwrap().ports.iter().filter(|port| port.node == "seen").count(), 2);

    // A program can build graphs that no checked file contains.
    let mut bad = routed(&folder, "near", "");
    let router = bad.nodes.iter_mut().find(|node| node.name == "br").unwrap();
    router.parameters.0.push((
        "pit_entries".to_owned(),
        nw_element_api::parameters::Value::Text("many".to_owned()),
    ));
    let refused = handle.change(bad, ChangeMode::Drop);
    assert!(
        matches!(&refused, Err(HostError::Faults(faults)) if faults[0].node == "br"),
        "{refused:?}"
    );
    assert!(
        handle.report().unwrap().ports.iter().any(|port| port.node == "seen"),
        "the graph is unchanged"
    );
    let mut bad_route = routed(&folder, "near", "");
    let router = bad_route.nodes.iter_mut().find(|node| node.name == "br").unwrap();
    router.parameters.0 = vec![(
        "routes".to_owned(),
        nw_element_api::parameters::Value::List(vec![nw_element_api::parameters::Value::Text(
            "/ missing".to_owned(),
        )]),
    )];
    let changed = handle.change(bad_route, ChangeMode::Drop);
    assert!(matches!(changed, Err(HostError::ParametersRejected(_))), "{changed:?}");
    assert!(
        handle.report().unwrap().ports.iter().any(|port| port.node == "br"),
        "the rest of the graph is in effect"
    );

    handle.stop();
    running.join().unwrap().unwrap();
    assert!(matches!(
        handle.change(routed(&folder, "near", ""), ChangeMode::Drop),
        Err(HostError::Ended)
    ));
    std::fs::remove_dir_all(folder).unwrap();
}

/// Returns an Interest for a name of one letter, and its Data.
fn exchange(letter: u8) -> (Vec<u8>, Vec<u8>) {
    let (mut interest, mut data) = (INTEREST.to_vec(), DATA.to_vec());
    (interest[6], data[6]) = (letter, letter);
    (interest, data)
}

/// A running graph whose face `far` leads to the socket `far`, with a client and a producer.
struct Running {
    folder: std::path::PathBuf,
    handle: nw_graph::host::Handle,
    thread: thread::JoinHandle<Result<(), HostError>>,
    client: UnixStream,
    producer: UnixStream,
}

impl Running {
    fn start(name: &str) -> Self {
        Running::start_host(name, |graph| Host::new(graph).unwrap())
    }

    fn start_host(name: &str, new: impl FnOnce(&Graph) -> Host) -> Self {
        let folder = folder(name);
        let far = UnixListener::bind(folder.join("far")).unwrap();
        let mut host = new(&routed(&folder, "near", ""));
        let handle = host.handle();
        let thread = thread::spawn(move || host.run());
        let (producer, _) = far.accept().unwrap();
        let client = UnixStream::connect(folder.join("near")).unwrap();
        for stream in [&producer, &client] {
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        }
        Running { folder, handle, thread, client, producer }
    }

    /// Changes the URI of the face `far`, whose name stays.
    fn lead_elsewhere(&self, mode: ChangeMode) {
        let mut other = routed(&self.folder, "near", "");
        let uri = format!("unix://{}/far2", self.folder.display());
        other.faces.iter_mut().filter(|face| face.name == "far").for_each(|face| {
            face.uri = Some(uri.clone());
        });
        self.handle.change(other, mode).unwrap();
    }

    fn stop(self) {
        self.handle.stop();
        self.thread.join().unwrap().unwrap();
        std::fs::remove_dir_all(self.folder).unwrap();
    }
}

/// Reads one packet, which is short.
fn read_packet(stream: &mut UnixStream) -> Vec<u8> {
    let mut bytes = [0; 256];
    let len = stream.read(&mut bytes).unwrap();
    bytes[..len].to_vec()
}

/// Returns the name's letter of an Interest, which may be in a link packet.
fn letter(packet: &[u8]) -> u8 {
    let at = packet.windows(5).position(|five| five[..4] == [7, 3, 8, 1]).unwrap();
    packet[at + 4]
}

#[test]
fn uri_changed_make_before_break_keeps_old_face_until_replies_arrived() {
    let mut running = Running::start("uri");
    let (first, first_data) = exchange(b'a');
    running.client.write_all(&first).unwrap();
    assert_eq!(letter(&read_packet(&mut running.producer)), b'a');
    // The new peer does not listen yet: Interests leave by the old face.
    running.lead_elsewhere(ChangeMode::MakeBeforeBreak);
    let (second, second_data) = exchange(b'b');
    running.client.write_all(&second).unwrap();
    assert_eq!(letter(&read_packet(&mut running.producer)), b'b');
    let new_listener = UnixListener::bind(running.folder.join("far2")).unwrap();
    let (mut new_producer, _) = new_listener.accept().unwrap();
    new_producer.set_read_timeout(Some(TIMEOUT)).unwrap();
    wait_until("the new face is up", || {
        let faces = running.handle.report().unwrap().faces;
        faces.iter().filter(|face| face.name == "far" && face.up).count() == 2
    });
    let report = running.handle.report().unwrap();
    assert!(report.changing);
    assert_eq!(report.faces.iter().filter(|face| face.closing).count(), 1);
    let (third, third_data) = exchange(b'c');
    running.client.write_all(&third).unwrap();
    assert_eq!(letter(&read_packet(&mut new_producer)), b'c');
    new_producer.write_all(&third_data).unwrap();
    assert_eq!(read_packet(&mut running.client), third_data);
    for data in [first_data, second_data] {
        running.producer.write_all(&data).unwrap();
        assert_eq!(read_packet(&mut running.client), data, "a reply by the old face arrives");
    }
    assert!(read_packet(&mut running.producer).is_empty(), "then the old face is closed");
    wait_until("the change is complete", || !running.handle.report().unwrap().changing);
    running.stop();
}

/// A reply by a face that the new graph does not have enters where those of the default face enter.
#[test]
fn face_renamed_make_before_break_replies_of_old_face_arrive() {
    let mut running = Running::start("rename");
    let (first, first_data) = exchange(b'a');
    running.client.write_all(&first).unwrap();
    read_packet(&mut running.producer);
    let new_listener = UnixListener::bind(running.folder.join("far2")).unwrap();
    let folder = running.folder.display();
    let other = graph(&format!(
        r#"
face near listens unix://{folder}/near
face other = unix://{folder}/far2 default
pd = packet_dispatcher
br = router(routes = ["/ other"])
discard = sink
faces -> pd.packet
pd.interest -> br.interest -> faces
pd.data -> br.data -> faces
pd.nack -> br.nack -> faces
br.route_event -> discard
"#
    ));
    running.handle.change(other, ChangeMode::MakeBeforeBreak).unwrap();
    let (mut new_producer, _) = new_listener.accept().unwrap();
    new_producer.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (second, second_data) = exchange(b'b');
    running.client.write_all(&second).unwrap();
    assert_eq!(letter(&read_packet(&mut new_producer)), b'b');
    running.producer.write_all(&first_data).unwrap();
    assert_eq!(read_packet(&mut running.client), first_data);
    new_producer.write_all(&second_data).unwrap();
    assert_eq!(read_packet(&mut running.client), second_data);
    assert!(read_packet(&mut running.producer).is_empty(), "the old face is closed");
    running.stop();
}

#[test]
fn uri_changed_buffer_holds_interests_until_replies_arrived() {
    // Time passes only when the test says so: Interests are released after a while in any case.
    let clock = Arc::new(AtomicU64::new(0));
    let mut running = Running::start_host("uri-buffer", |graph| {
        let clock = Arc::clone(&clock);
        let now = move || Timestamp::from_millis(clock.load(Ordering::Relaxed));
        Host::with_clock(graph, Box::new(now), 0).unwrap()
    });
    let new_listener = UnixListener::bind(running.folder.join("far2")).unwrap();
    let (first, first_data) = exchange(b'a');
    running.client.write_all(&first).unwrap();
    read_packet(&mut running.producer);
    running.lead_elsewhere(ChangeMode::Buffer);
    let (mut new_producer, _) = new_listener.accept().unwrap();
    let (second, second_data) = exchange(b'b');
    running.client.write_all(&second).unwrap();
    new_producer.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut bytes = [0; 256];
    assert!(new_producer.read(&mut bytes).is_err(), "held while a reply is pending");
    running.producer.write_all(&first_data).unwrap();
    assert_eq!(read_packet(&mut running.client), first_data);
    clock.store(5, Ordering::Relaxed);
    new_producer.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(letter(&read_packet(&mut new_producer)), b'b');
    new_producer.write_all(&second_data).unwrap();
    assert_eq!(read_packet(&mut running.client), second_data);
    running.stop();
}

#[test]
fn uri_changed_drop_closes_old_face_at_once() {
    let mut running = Running::start("uri-drop");
    let new_listener = UnixListener::bind(running.folder.join("far2")).unwrap();
    let (first, _) = exchange(b'a');
    running.client.write_all(&first).unwrap();
    read_packet(&mut running.producer);
    running.lead_elsewhere(ChangeMode::Drop);
    assert!(read_packet(&mut running.producer).is_empty());
    let (mut new_producer, _) = new_listener.accept().unwrap();
    new_producer.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (second, second_data) = exchange(b'b');
    running.client.write_all(&second).unwrap();
    assert_eq!(letter(&read_packet(&mut new_producer)), b'b');
    new_producer.write_all(&second_data).unwrap();
    assert_eq!(read_packet(&mut running.client), second_data);
    running.stop();
}
