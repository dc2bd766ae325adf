//! A running graph that is changed: what its handle answers, and what becomes of sockets.

use nw_graph::host::{Host, HostError};
use nw_graph::{ChangeOrder, Graph, GraphFile};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
/// An Interest for `/a` that lives for 4 s, and its Data.
const INTEREST: &[u8] = &[5, 11, 7, 3, 8, 1, b'a', 10, 4, 1, 2, 3, 4];
const DATA: &[u8] = &[6, 12, 7, 3, 8, 1, b'a', 22, 3, 27, 1, 0, 23, 0];

fn graph(text: &str) -> Graph {
    GraphFile::read("test", text).unwrap_or_else(|problems| panic!("{problems}")).graph
}

/// `near` listens, `far` is where the router sends all.
fn routed(folder: &Path, near: &str, cost: &str) -> Graph {
    let folder = folder.display();
    graph(&format!(
        r#"
face near listens unix://{folder}/{near}
face far = unix://{folder}/far default
pd = packet_dispatcher
br = router(routes = ["/ far{cost}"])
none = sink
faces -> pd.packet
pd.interest -> br.interest -> faces
pd.data -> br.data -> faces
pd.nack -> br.nack -> faces
br.lesson -> none
"#
    ))
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("nw-graph-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// What is awaited through a listener that a change drops still comes; then its faces end. Nobody else is let in from the start.
#[test]
fn a_listener_that_a_change_drops_is_closed() {
    let folder = folder("listener");
    let far = UnixListener::bind(folder.join("far")).unwrap();
    let mut host = Host::new(&routed(&folder, "one", "")).unwrap();
    let handle = host.handle();
    let running = thread::spawn(move || host.run());
    let (mut producer, _) = far.accept().unwrap();
    let mut client = UnixStream::connect(folder.join("one")).unwrap();
    for stream in [&producer, &client] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    client.write_all(INTEREST).unwrap();
    let mut asked = [0; 256];
    assert!(producer.read(&mut asked).unwrap() > 0);

    // Another router: what was asked before, the old one still waits for.
    let mut other = routed(&folder, "two", "");
    other.nodes.iter_mut().filter(|node| node.name == "br").for_each(|node| node.name = "br2".to_owned());
    handle.change(other, ChangeOrder::MakeBeforeBreak).unwrap();
    // All of it is in effect when that returns.
    assert!(UnixStream::connect(folder.join("one")).is_err(), "who connects is turned away");
    let second = UnixStream::connect(folder.join("two")).unwrap();
    assert!(handle.report().unwrap().changing);
    producer.write_all(DATA).unwrap();
    let mut answer = [0; 256];
    let len = client.read(&mut answer).unwrap();
    assert_eq!(&answer[..len], DATA);
    assert_eq!(client.read(&mut answer).unwrap(), 0, "then it ends");
    until("no change under way", || !handle.report().unwrap().changing);
    until("two faces are left", || handle.report().unwrap().faces.len() == 2);
    drop(second);

    handle.stop();
    running.join().unwrap().unwrap();
    assert!(!folder.join("one").exists() && !folder.join("two").exists());
    std::fs::remove_dir_all(folder).unwrap();
}

/// What a peer sent in the same write as what ends its connection goes through the graph first, either way.
#[test]
fn packets_before_the_end_of_a_connection_are_processed() {
    let folder = folder("end");
    let far = UnixListener::bind(folder.join("far")).unwrap();
    let mut host = Host::new(&routed(&folder, "near", "")).unwrap();
    let handle = host.handle();
    let running = thread::spawn(move || host.run());
    let (mut producer, _) = far.accept().unwrap();
    producer.set_read_timeout(Some(PATIENCE)).unwrap();
    let garbage = b"GET / HTTP/1.1\r\n\r\n";
    let mut leaver = UnixStream::connect(folder.join("near")).unwrap();
    leaver.write_all(&[INTEREST, garbage].concat()).unwrap();
    let mut asked = [0; 256];
    assert!(producer.read(&mut asked).unwrap() > 0, "the Interest is forwarded");

    let mut client = UnixStream::connect(folder.join("near")).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut other = INTEREST.to_vec();
    *other.last_mut().unwrap() = 9;
    other[6] = b'b';
    client.write_all(&other).unwrap();
    assert!(producer.read(&mut asked).unwrap() > 0);
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

/// Whoever asks for a change learns what came of it.
#[test]
fn a_change_is_answered_when_it_is_in_effect() {
    let folder = folder("answer");
    let mut host = Host::new(&routed(&folder, "near", "")).unwrap();
    let handle = host.handle();
    let running = thread::spawn(move || host.run());
    handle.change(routed(&folder, "near", " cost=5"), ChangeOrder::Drop).unwrap();
    let counted = graph(&format!(
        "face near listens unix://{0}/near\nface far = unix://{0}/far default\nseen = counter\nfaces -> seen -> faces",
        folder.display()
    ));
    handle.change(counted, ChangeOrder::Drop).unwrap();
    assert_eq!(handle.report().unwrap().ports.iter().filter(|port| port.node == "seen").count(), 2);

    // A program can ask for what no checked file says.
    let mut bad = routed(&folder, "near", "");
    let router = bad.nodes.iter_mut().find(|node| node.name == "br").unwrap();
    router
        .parameters
        .0
        .push(("pit_entries".to_owned(), nw_element_api::parameters::Value::Text("many".to_owned())));
    let refused = handle.change(bad, ChangeOrder::Drop);
    assert!(matches!(&refused, Err(HostError::Faults(faults)) if faults[0].node == "br"), "{refused:?}");
    assert!(handle.report().unwrap().ports.iter().any(|port| port.node == "seen"), "it stays as it was");
    let mut half = routed(&folder, "near", "");
    let router = half.nodes.iter_mut().find(|node| node.name == "br").unwrap();
    router.parameters.0 = vec![(
        "routes".to_owned(),
        nw_element_api::parameters::Value::List(vec![nw_element_api::parameters::Value::Text(
            "/ nobody".to_owned(),
        )]),
    )];
    let changed = handle.change(half, ChangeOrder::Drop);
    assert!(matches!(changed, Err(HostError::NotInEffect(_))), "{changed:?}");
    assert!(
        handle.report().unwrap().ports.iter().any(|port| port.node == "br"),
        "but for the route it is there"
    );

    handle.stop();
    running.join().unwrap().unwrap();
    assert!(matches!(handle.change(routed(&folder, "near", ""), ChangeOrder::Drop), Err(HostError::Ended)));
    std::fs::remove_dir_all(folder).unwrap();
}
