//! A manager and agents over loopback: enrolment, calls, tunnels, renewal, restarts, and peers that
//! have no right to anything.

use nw_agent::{
    AgentError, AgentOptions, CallHandler, Handler, Hub, HubOptions, ManagerClient, add_host,
    enrol, forget_host, is_enrolled, list_hosts, run,
};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(10);

/// Replies with the request, after as many milliseconds as its first byte says.
#[derive(Default)]
struct Echo {
    calls: AtomicUsize,
}

impl Handler for Echo {
    fn call(&self, request: &[u8]) -> Vec<u8> {
        self.calls.fetch_add(1, Relaxed);
        std::thread::sleep(Duration::from_millis(request.first().copied().unwrap_or(0).into()));
        request.to_vec()
    }

    fn open(&self, request: &[u8]) -> io::Result<UnixStream> {
        if request != b"echo" {
            return Err(io::Error::other("no such stream"));
        }
        let (near, mut far) = UnixStream::pair()?;
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = far.read_to_end(&mut bytes);
            bytes.reverse();
            let _ = far.write_all(&bytes);
        });
        Ok(near)
    }
}

struct Agent {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), AgentError>>>,
}

impl Agent {
    fn start(folder: &Path) -> Agent {
        let options = AgentOptions {
            state_directory: folder.to_owned(),
            manager: None,
            address: Some("192.0.2.7".to_owned()),
        };
        Agent::start_with(options)
    }

    fn start_with(options: AgentOptions) -> Agent {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = std::thread::spawn(move || run(&options, Arc::new(Echo::default()), &flag));
        Agent { stop, thread: Some(thread) }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let result = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            result.unwrap().unwrap().unwrap();
        }
    }
}

fn hub(folder: &Path, listen: SocketAddr) -> Hub {
    Hub::start(HubOptions::new(folder.to_owned(), listen)).unwrap()
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn connections(hub: &Hub, host: &str) -> usize {
    hub.hosts().iter().find(|found| found.name == host).map_or(0, |found| found.connections)
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + 2 * LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A manager, and the folder of a host that has enrolled as `h1`.
fn enrolled() -> (tempfile::TempDir, tempfile::TempDir, Hub) {
    let (manager, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hub = hub(manager.path(), loopback());
    let token = add_host(manager.path(), "h1", 60).unwrap();
    assert!(!is_enrolled(host.path()));
    let name = enrol(host.path(), &hub.address().to_string(), &token).unwrap();
    assert_eq!(name, "h1");
    assert!(is_enrolled(host.path()));
    (manager, host, hub)
}

#[test]
fn enrolled_host_answers_calls_and_opens_streams() {
    let (manager, host, hub) = enrolled();
    for path in ["authority.key", "hosts.json"].map(|name| manager.path().join(name)) {
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let identity = host.path().join("agent.json");
    assert_eq!(std::fs::metadata(identity).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(matches!(hub.call("h1", vec![], LIMIT), Err(AgentError::NotConnected(_))));
    let _agent = Agent::start(host.path());
    wait_for("connections", || connections(&hub, "h1") == 8);
    assert_eq!(hub.hosts()[0].address.as_deref(), Some("192.0.2.7"));
    // More calls than connections, of different lengths, at the same time.
    std::thread::scope(|scope| {
        for call in 0..40_u8 {
            let hub = &hub;
            scope.spawn(move || {
                let request = vec![call % 7; 1 + usize::from(call) * 1000];
                assert_eq!(hub.call("h1", request.clone(), LIMIT).unwrap(), request);
            });
        }
    });
    for _ in 0..10 {
        let (mut near, far) = UnixStream::pair().unwrap();
        hub.open("h1", b"echo".to_vec(), far, LIMIT).unwrap();
        near.write_all(&[1, 2, 3]).unwrap();
        near.shutdown(std::net::Shutdown::Write).unwrap();
        let mut bytes = Vec::new();
        near.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, [3, 2, 1]);
    }
    let (_near, far) = UnixStream::pair().unwrap();
    let error = hub.open("h1", b"other".to_vec(), far, LIMIT).unwrap_err().to_string();
    assert_eq!(error, "host h1: no such stream");
    wait_for("connections in place of those that were tunnels", || connections(&hub, "h1") == 8);
}

#[test]
fn call_beyond_its_limit_ends_and_others_go_on() {
    let (_manager, host, hub) = enrolled();
    let _agent = Agent::start(host.path());
    wait_for("connections", || connections(&hub, "h1") == 8);
    let error = hub.call("h1", vec![200], Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, AgentError::Timeout(_)), "{error}");
    assert_eq!(hub.call("h1", vec![1], LIMIT).unwrap(), [1]);
    let long = vec![0; (8 << 20) + 1];
    let error = hub.call("h1", long, LIMIT).unwrap_err();
    assert!(matches!(error, AgentError::RequestLength(_)), "{error}");
    assert_eq!(hub.call("h1", vec![1], LIMIT).unwrap(), [1]);
    wait_for("all connections again", || connections(&hub, "h1") == 8);
}

#[test]
fn token_that_is_used_void_or_foreign_is_refused() {
    let (manager, host, hub) = enrolled();
    let address = hub.address().to_string();
    let token = add_host(manager.path(), "h2", 60).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let refused = |token: &str| {
        let error = enrol(folder.path(), &address, token).unwrap_err().to_string();
        assert!(!is_enrolled(folder.path()));
        error
    };
    assert!(refused("hello").contains("copy the whole line"));
    // A token that a later one replaced.
    let later = add_host(manager.path(), "h2", 60).unwrap();
    let error = refused(&token);
    assert!(error.contains("is not known") && error.contains("make a new one"), "{error}");
    let error = refused(&add_host(manager.path(), "h3", 0).unwrap());
    assert!(error.contains("has expired; make a new one (`nw network host add h3`)"), "{error}");
    let other_folder = tempfile::tempdir().unwrap();
    let foreign = add_host(other_folder.path(), "h2", 60).unwrap();
    assert!(refused(&foreign).contains("not the manager that made the token"));
    enrol(folder.path(), &address, &later).unwrap();
    let error = enrol(host.path(), &address, &later).unwrap_err().to_string();
    assert!(error.contains("was used already, and serves once; make a new one"), "{error}");
}

#[test]
fn certificate_of_another_manager_is_refused() {
    let (_manager, host, hub) = enrolled();
    let (_other_manager, _other_host, other) = enrolled();
    let options = AgentOptions {
        state_directory: host.path().to_owned(),
        manager: Some(other.address().to_string()),
        address: None,
    };
    let _agent = Agent::start_with(options);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!((connections(&hub, "h1"), connections(&other, "h1")), (0, 0));
}

#[test]
fn forgotten_host_loses_its_connections_and_its_right() {
    let (manager, host, hub) = enrolled();
    let _agent = Agent::start(host.path());
    wait_for("connections", || connections(&hub, "h1") == 8);
    assert!(forget_host(manager.path(), "h1").unwrap());
    assert!(!forget_host(manager.path(), "h1").unwrap());
    let error = hub.call("h1", vec![], LIMIT).unwrap_err();
    assert!(matches!(error, AgentError::NotConnected(_)), "{error}");
    wait_for("the end of its connections", || connections(&hub, "h1") == 0);
    // The same name again: the old certificate is not one of the new host.
    add_host(manager.path(), "h1", 60).unwrap();
    assert_eq!(list_hosts(manager.path()).unwrap(), [("h1".to_owned(), false)]);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(connections(&hub, "h1"), 0);
}

#[test]
fn certificate_is_renewed_in_time_and_refused_when_expired() {
    let (manager, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = HubOptions::new(manager.path().to_owned(), loopback());
    let hub = Hub::start(HubOptions { certificate_lifetime_s: 3, ..options }).unwrap();
    let address = hub.address().to_string();
    enrol(host.path(), &address, &add_host(manager.path(), "h1", 60).unwrap()).unwrap();
    let first = std::fs::read(host.path().join("agent.json")).unwrap();
    let agent = Agent::start(host.path());
    wait_for("connections", || connections(&hub, "h1") > 0);
    std::thread::sleep(Duration::from_secs(5));
    let renewed = std::fs::read(host.path().join("agent.json")).unwrap();
    assert!(first != renewed, "the certificate was renewed");
    wait_for("a call after the first certificate has expired", || {
        hub.call("h1", vec![0], LIMIT).is_ok()
    });
    drop(agent);
    std::thread::sleep(Duration::from_secs(4));
    let _agent = Agent::start(host.path());
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(connections(&hub, "h1"), 0);
}

#[test]
fn agent_connects_again_when_its_manager_restarts() {
    let (manager, host, first) = enrolled();
    let _agent = Agent::start(host.path());
    wait_for("connections", || connections(&first, "h1") == 8);
    let address = first.address();
    drop(first);
    let second = hub(manager.path(), address);
    wait_for("a call", || second.call("h1", vec![0], LIMIT).is_ok());
    assert!(second.hosts()[0].is_enrolled);
}

/// Connects with TLS and without a certificate.
fn stranger(manager: &Path, address: SocketAddr) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = std::fs::read(manager.join("authority.der")).unwrap();
    roots.add(CertificateDer::from(authority)).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "manager.namewire.internal".try_into().unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    StreamOwned::new(connection, stream)
}

fn send(stream: &mut impl Write, kind: u8, announced: u32, payload: &[u8]) {
    let mut bytes = vec![kind];
    bytes.extend(announced.to_be_bytes());
    bytes.extend(payload);
    stream.write_all(&bytes).unwrap();
}

#[test]
fn strangers_get_a_sentence_or_nothing() {
    let (manager, _host, hub) = enrolled();
    for purpose in [r#"{"channel":{"address":null}}"#, r#"{"renew":{"key":"AAAA"}}"#] {
        let mut stream = stranger(manager.path(), hub.address());
        let hello = format!(r#"{{"version":1,"purpose":{purpose}}}"#);
        send(&mut stream, 1, hello.len().try_into().unwrap(), hello.as_bytes());
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let mut reason = vec![0; usize::from(head[4]) + (usize::from(head[3]) << 8)];
        stream.read_exact(&mut reason).unwrap();
        let reason = String::from_utf8(reason).unwrap();
        assert!(head[0] == 3 && reason.contains("enrol again"), "{reason}");
    }
    let mut stream = stranger(manager.path(), hub.address());
    let hello = br#"{"version":2,"purpose":{"channel":{"address":null}}}"#;
    send(&mut stream, 1, hello.len().try_into().unwrap(), hello);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert!(String::from_utf8_lossy(&bytes).contains("install the same version"));
    // Lengths and kinds that no agent sends: the connection ends without a word.
    for (kind, announced) in [(1, u32::MAX), (1, 5000), (4, 2), (99, 0)] {
        let mut stream = stranger(manager.path(), hub.address());
        send(&mut stream, kind, announced, b"{}");
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        assert!(bytes.is_empty(), "{kind} {announced}");
    }
}

#[test]
fn silent_and_wrong_connections_do_not_disturb_agents() {
    let (manager, host, hub) = enrolled();
    let _agent = Agent::start(host.path());
    wait_for("connections", || connections(&hub, "h1") == 8);
    let mut silent: Vec<_> = (0..100).map(|_| TcpStream::connect(hub.address()).unwrap()).collect();
    for stream in silent.iter_mut().step_by(2) {
        // Those beyond the limit are closed already.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
    }
    for _ in 0..20 {
        assert_eq!(hub.call("h1", vec![1], LIMIT).unwrap(), [1]);
    }
    // All of them are closed within the time for a greeting.
    let deadline = Instant::now() + LIMIT;
    for stream in &mut silent {
        stream.set_read_timeout(Some(deadline - Instant::now())).unwrap();
        let mut bytes = [0; 64];
        while let Ok(1..) = stream.read(&mut bytes) {}
        assert!(Instant::now() < deadline, "a silent connection stays open");
    }
    let token = add_host(manager.path(), "h2", 60).unwrap();
    let folder = tempfile::tempdir().unwrap();
    enrol(folder.path(), &hub.address().to_string(), &token).unwrap();
}

/// Replies with the host's name and the request, 40,000 times as long for `long`.
struct Named;

impl CallHandler for Named {
    fn call(&self, host: &str, request: &[u8]) -> Vec<u8> {
        let reply = [host.as_bytes(), b" ", request].concat();
        if request == b"long" { reply.repeat(400_000) } else { reply }
    }
}

fn answering_hub(folder: &Path, listen: SocketAddr) -> Hub {
    let options = HubOptions::new(folder.to_owned(), listen);
    Hub::start(HubOptions {
        call_handler: Some(Arc::new(Named)),
        token_command: "nw balancer host add",
        ..options
    })
    .unwrap()
}

#[test]
fn host_that_calls_is_answered_redials_and_loses_its_right() {
    let (manager, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = answering_hub(manager.path(), loopback());
    let address = first.address();
    let token = add_host(manager.path(), "m2", 60).unwrap();
    enrol(host.path(), &address.to_string(), &token).unwrap();
    let mut client = ManagerClient::open(host.path(), None).unwrap();
    assert_eq!((client.host(), client.manager()), ("m2", &*address.to_string()));
    assert_eq!(client.call(b"hello", LIMIT).unwrap(), b"m2 hello");
    assert_eq!(client.call(b"", LIMIT).unwrap(), b"m2 ");
    // A reply of several frames.
    assert_eq!(client.call(b"long", LIMIT).unwrap(), b"m2 long".repeat(400_000));
    // A request that no agent sends ends the connection; the next one is on a new connection.
    let error = client.call(&vec![0; 100_000], LIMIT).unwrap_err();
    assert!(matches!(error, AgentError::Connection { .. }), "{error}");
    assert_eq!(client.call(b"again", LIMIT).unwrap(), b"m2 again");
    assert_eq!(connections(&first, "m2"), 1);

    // The manager is away: each call fails at once, and a later one finds the next manager.
    drop(first);
    let error = client.call(b"x", LIMIT).unwrap_err().to_string();
    assert!(error.contains(&format!("no connection to {address}")), "{error}");
    assert!(matches!(client.call(b"x", LIMIT), Err(AgentError::Waiting(_))));
    let second = answering_hub(manager.path(), address);
    let deadline = Instant::now() + LIMIT;
    while client.call(b"x", LIMIT).is_err() {
        assert!(Instant::now() < deadline, "not connected again");
        std::thread::sleep(Duration::from_millis(20));
    }

    assert!(forget_host(manager.path(), "m2").unwrap());
    let error = client.call(b"x", LIMIT).unwrap_err().to_string();
    assert!(error.contains("enrol again with a new token (`nw balancer host add`)"), "{error}");
    drop(second);
}

#[test]
fn forgotten_host_that_is_silent_loses_its_connection() {
    let (manager, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hub = answering_hub(manager.path(), loopback());
    let token = add_host(manager.path(), "m2", 60).unwrap();
    enrol(host.path(), &hub.address().to_string(), &token).unwrap();
    let mut client = ManagerClient::open(host.path(), None).unwrap();
    client.call(b"", LIMIT).unwrap();
    assert_eq!(connections(&hub, "m2"), 1);
    forget_host(manager.path(), "m2").unwrap();
    // It is listed no more, so a new token shows whether connections of the old one are left.
    add_host(manager.path(), "m2", 60).unwrap();
    wait_for("the end of its connection", || connections(&hub, "m2") == 0);
}

#[test]
fn agents_of_networks_and_of_balancers_are_told_apart() {
    let (_manager, host, hub) = enrolled();
    let mut client = ManagerClient::open(host.path(), None).unwrap();
    let error = client.call(b"", LIMIT).unwrap_err().to_string();
    assert!(error.contains("is it that of a network"), "{error}");
    drop(hub);
    let (manager, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hub = answering_hub(manager.path(), loopback());
    let address = hub.address().to_string();
    enrol(host.path(), &address, &add_host(manager.path(), "h1", 60).unwrap()).unwrap();
    let _agent = Agent::start(host.path());
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(connections(&hub, "h1"), 0);
}

#[test]
fn host_that_calls_renews_its_certificate_and_is_told_when_it_has_expired() {
    let (manager, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hub = answering_hub(manager.path(), loopback());
    let token = add_host(manager.path(), "m2", 60).unwrap();
    enrol(host.path(), &hub.address().to_string(), &token).unwrap();
    let path = host.path().join("agent.json");
    let read =
        || -> serde_json::Value { serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap() };
    // The times of the file are moved instead of the clock.
    let set = |name: &str, time_s: u64| {
        let mut identity = read();
        identity[name] = time_s.into();
        std::fs::write(&path, identity.to_string()).unwrap();
    };
    let first = read()["certificate"].clone();
    set("renew_s", 0);
    let mut client = ManagerClient::open(host.path(), None).unwrap();
    assert_eq!(client.call(b"x", LIMIT).unwrap(), b"m2 x");
    let second = read();
    assert!(second["certificate"] != first && second["renew_s"].as_u64().unwrap() > 0);
    assert_eq!(client.call(b"x", LIMIT).unwrap(), b"m2 x");
    assert_eq!(read(), second);

    set("expires_s", 1);
    let mut client = ManagerClient::open(host.path(), None).unwrap();
    let error = client.call(b"x", LIMIT).unwrap_err();
    assert!(matches!(error, AgentError::Expired { .. }), "{error}");
    assert!(error.to_string().contains("enrol again with a new token"), "{error}");
}

#[test]
fn peers_without_tls_get_a_sentence_on_either_side() {
    let (manager, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let hub = answering_hub(manager.path(), loopback());
    let mut plain = TcpStream::connect(hub.address()).unwrap();
    plain.write_all(b"GET /v1/balancer HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.0 400 ") && answer.contains("use TLS"), "{answer}");
    // The other way round: a server of HTTP instead of a manager.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 4096];
        let _ = stream.read(&mut bytes);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let token = add_host(manager.path(), "m2", 60).unwrap();
    let error = enrol(host.path(), &address, &token).unwrap_err().to_string();
    assert!(error.contains("it does not speak TLS"), "{error}");
    server.join().unwrap();
    // The token was not sent, so it is still valid.
    enrol(host.path(), &hub.address().to_string(), &token).unwrap();
}
