//! Changes of a running graph: results reported to the handle, and what happens to sockets.

use nw_graph::host::{Host, HostError};
use nw_graph::{ChangeMode, Graph, GraphFile};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
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
