//! Hosts of a group and their manager over loopback: enrolment again and again, successors of the
//! same name, other authorities, and peers between them.

use nw_agent::{
    AgentError, CallHandler, Enrolment, EnrolmentCounts, GroupFile, Hub, HubOptions, ManagerClient,
    add_group, add_host, forget_group, is_enrolled, list_groups, list_hosts,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use rustls::{StreamOwned, version::TLS13};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LIMIT: Duration = Duration::from_secs(10);
const TOKEN: &str = "a token of these tests that is hard to guess";

/// Replies with the host's name and the request.
struct Named;

impl CallHandler for Named {
    fn call(&self, host: &str, request: &[u8]) -> Vec<u8> {
        [host.as_bytes(), b" ", request].concat()
    }
}

struct Bench {
    folder: tempfile::TempDir,
    token_file: PathBuf,
    counts: Arc<EnrolmentCounts>,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let token_file = folder.path().join("token");
        fs::write(&token_file, TOKEN.replace(' ', "-")).unwrap();
        Bench { folder, token_file, counts: Arc::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A manager with its state in `folder`, and group `f` with its token in the file.
    fn hub(&self, folder: &str, listen: SocketAddr, hosts_max: usize) -> Hub {
        let name = "f".to_owned();
        let group = GroupFile { name, token_file: self.token_file.clone(), hosts_max };
        self.hub_with(folder, listen, Some(group))
    }

    fn hub_with(&self, folder: &str, listen: SocketAddr, group: Option<GroupFile>) -> Hub {
        let options = HubOptions::new(self.path(folder), listen);
        Hub::start(HubOptions {
            call_handler: Some(Arc::new(Named)),
            token_command: "nw balancer host add",
            group,
            enrolment_counts: self.counts.clone(),
            ..options
        })
        .unwrap()
    }

    fn client(&self, hub: SocketAddr, host: &str, state: &str) -> ManagerClient {
        let state = self.path(state);
        ManagerClient::open_in_group(&state, &hub.to_string(), host, &self.token_file).unwrap()
    }
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn call_until_answered(client: &mut ManagerClient) -> Vec<u8> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match client.call(b"x", LIMIT) {
            Ok(reply) => return reply,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn successor_of_the_same_name_replaces_the_certificate() {
    let bench = Bench::new();
    let hub = bench.hub("manager", loopback(), 2);
    let mut first = bench.client(hub.address(), "f-0", "first");
    assert_eq!(first.host(), "f-0");
    assert_eq!(first.call(b"x", LIMIT).unwrap(), b"f-0 x");
    let mut second = bench.client(hub.address(), "f-1", "second");
    assert_eq!(second.call(b"x", LIMIT).unwrap(), b"f-1 x");
    let read = |state: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(bench.path(state).join("agent.json")).unwrap()).unwrap()
    };
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let left_s = read("first")["expires_s"].as_u64().unwrap() - now_s;
    assert!((3500..=3600).contains(&left_s), "{left_s}");

    let error = bench.client(hub.address(), "f-2", "third").call(b"x", LIMIT).unwrap_err();
    assert!(error.to_string().contains("group f has 2 hosts, as many as it may have"), "{error}");
    let error = bench.client(hub.address(), "g-0", "third").call(b"x", LIMIT).unwrap_err();
    assert!(error.to_string().contains("no group has a host \"g-0\""), "{error}");
    assert!(!is_enrolled(&bench.path("third")));

    // The pod was replaced: another folder, the same name. The earlier certificate ends, and so
    // does the connection that was made with it.
    let mut successor = bench.client(hub.address(), "f-0", "successor");
    assert_eq!(successor.call(b"x", LIMIT).unwrap(), b"f-0 x");
    let deadline = Instant::now() + LIMIT;
    let connections = || hub.hosts().iter().find(|host| host.name == "f-0").unwrap().connections;
    while connections() > 1 {
        assert!(Instant::now() < deadline, "the earlier connection stays open");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut earlier = ManagerClient::open(&bench.path("first"), None).unwrap();
    let error = earlier.call(b"x", LIMIT).unwrap_err().to_string();
    assert!(error.contains("its certificate is not one of a host"), "{error}");
    assert_eq!(successor.call(b"x", LIMIT).unwrap(), b"f-0 x");
    let counts = |outcome| bench.counts.count(outcome);
    assert_eq!(counts(Enrolment::Enrolled), 3);
    assert_eq!((counts(Enrolment::GroupFull), counts(Enrolment::WrongName)), (1, 1));
    let error = ManagerClient::open_in_group(
        &bench.path("second"),
        &hub.address().to_string(),
        "f-0",
        &bench.token_file,
    );
    assert!(matches!(error.err(), Some(AgentError::OtherHost { .. })));
}

#[test]
fn host_of_a_group_enrols_again_when_its_certificate_is_worth_nothing() {
    let bench = Bench::new();
    let first = bench.hub("first", loopback(), 9);
    let address = first.address();
    let mut client = bench.client(address, "f-0", "host");
    assert_eq!(client.call(b"x", LIMIT).unwrap(), b"f-0 x");
    // The manager is another one with the same token, such as after the loss of its folder.
    drop(first);
    let second = bench.hub("second", address, 9);
    assert_eq!(call_until_answered(&mut client), b"f-0 x");
    assert_eq!(list_hosts(&bench.path("second")).unwrap(), [("f-0".to_owned(), true)]);
    drop(client);

    let path = bench.path("host/agent.json");
    let read =
        || -> serde_json::Value { serde_json::from_slice(&fs::read(&path).unwrap()).unwrap() };
    let set = |name: &str, time_s: u64| {
        let mut identity = read();
        identity[name] = time_s.into();
        fs::write(&path, identity.to_string()).unwrap();
    };
    set("expires_s", 1);
    let mut client = bench.client(address, "f-0", "host");
    assert_eq!(client.call(b"x", LIMIT).unwrap(), b"f-0 x");
    assert!(read()["expires_s"].as_u64().unwrap() > 1);
    // A certificate is renewed while its group exists.
    set("renew_s", 0);
    let certificate = read()["certificate"].clone();
    assert_eq!(bench.client(address, "f-0", "host").call(b"x", LIMIT).unwrap(), b"f-0 x");
    assert!(read()["certificate"] != certificate && read()["renew_s"] != 0);
    drop(second);
    let _third = bench.hub_with("second", address, None);
    set("renew_s", 0);
    assert_eq!(bench.client(address, "f-0", "host").call(b"x", LIMIT).unwrap(), b"f-0 x");
    assert_eq!(read()["renew_s"], 0);
}

#[test]
fn group_of_the_list_ends_with_all_of_its_hosts() {
    let bench = Bench::new();
    let hub = bench.hub_with("manager", loopback(), None);
    let manager = bench.path("manager");
    add_group(&manager, "f", 5, 60).unwrap();
    fs::write(&bench.token_file, add_group(&manager, "g", 5, 60).unwrap()).unwrap();
    let mut client = bench.client(hub.address(), "g-pod-7f", "host");
    assert_eq!(client.call(b"x", LIMIT).unwrap(), b"g-pod-7f x");
    let group = &list_groups(&manager).unwrap()[1];
    assert_eq!((group.name.as_str(), group.hosts, group.hosts_max), ("g", 1, 5));
    // The token is none of a host of its own, and none of another group.
    add_host(&manager, "g-own", 60).unwrap();
    for (host, words) in [("g-own", "is a host of its own"), ("f-1", "not that of group f")] {
        let error = bench.client(hub.address(), host, host).call(b"x", LIMIT).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(forget_group(&manager, "g").unwrap());
    let error = client.call(b"x", LIMIT).unwrap_err();
    assert!(error.to_string().contains("no group has a host"), "{error}");
    assert!(matches!(client.call(b"x", LIMIT), Err(AgentError::Waiting(_))));
    fs::write(&bench.token_file, add_group(&manager, "g", 5, 0).unwrap()).unwrap();
    let error = bench.client(hub.address(), "g-0", "late").call(b"x", LIMIT).unwrap_err();
    let words = "has expired; make a new one (`nw balancer host add --group g`)";
    assert!(error.to_string().contains(words), "{error}");
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// A listener with a manager's name and an authority of its own.
fn impostor() -> Arc<ServerConfig> {
    let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let params = CertificateParams::new(vec!["manager.namewire.internal".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let chain = vec![certificate.der().clone(), authority.der().clone()];
    let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let config =
        ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).unwrap();
    Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap())
}

/// Connects to a manager without a certificate, sends a greeting and returns the answer.
fn greet(manager: &Path, address: SocketAddr, hello: &[u8]) -> (u8, String) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(fs::read(manager.join("authority.der")).unwrap())).unwrap();
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "manager.namewire.internal".try_into().unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address).unwrap());
    stream.sock.set_read_timeout(Some(LIMIT)).unwrap();
    write_frame(&mut stream, 1, hello);
    let (kind, payload) = read_frame(&mut stream);
    (kind, String::from_utf8(payload).unwrap())
}

fn write_frame(stream: &mut impl Write, kind: u8, payload: &[u8]) {
    let len = u32::try_from(payload.len()).unwrap();
    stream.write_all(&[&[kind], &len.to_be_bytes()[..], payload].concat()).unwrap();
    stream.flush().unwrap();
}

fn read_frame(stream: &mut impl Read) -> (u8, Vec<u8>) {
    let mut head = [0; 5];
    stream.read_exact(&mut head).unwrap();
    let len = u32::from_be_bytes(head[1..].try_into().unwrap());
    let mut payload = vec![0; len as usize];
    stream.read_exact(&mut payload).unwrap();
    (head[0], payload)
}

#[test]
fn proof_that_is_passed_on_or_recorded_is_worth_nothing() {
    let bench = Bench::new();
    let hub = bench.hub("manager", loopback(), 9);
    let listener = TcpListener::bind(loopback()).unwrap();
    let between = listener.local_addr().unwrap();
    let (manager, address, config) = (bench.path("manager"), hub.address(), impostor());
    // The host takes the peer for its manager, and the peer passes its greeting on.
    let peer = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let connection = ServerConnection::new(config).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let (kind, hello) = read_frame(&mut stream);
        assert_eq!(kind, 1);
        let text = String::from_utf8(hello.clone()).unwrap();
        assert!(text.contains("f-0") && !text.contains("a-token"), "{text}");
        let answer = greet(&manager, address, &hello);
        // A welcome with a certificate of the peer's choice, as far as it can make one.
        let welcome = r#"{"host":"f-0","certificate":"AAAA","authority":"AAAA","proof":"AAAA"}"#;
        write_frame(&mut stream, 2, welcome.as_bytes());
        answer
    });
    let error = bench.client(between, "f-0", "host").call(b"x", LIMIT).unwrap_err();
    assert!(matches!(error, AgentError::NotTheManager { .. }), "{error}");
    assert!(!is_enrolled(&bench.path("host")));
    let (kind, reason) = peer.join().unwrap();
    assert!(kind == 3 && reason.contains("was not used on this connection"), "{reason}");
    assert_eq!(bench.counts.count(Enrolment::WrongToken), 1);
}

#[test]
fn guesses_and_nonsense_get_a_sentence_and_are_bounded() {
    let bench = Bench::new();
    let hub = bench.hub("manager", loopback(), 9);
    let manager = bench.path("manager");
    let hello = |host: &str, proof: &str| {
        let member = format!(r#"{{"host":"{host}","key":"AAAA","proof":"{proof}"}}"#);
        format!(r#"{{"version":1,"purpose":{{"enrol-in-group":{member}}}}}"#)
    };
    let long = "f-".repeat(200);
    let mut reasons = Vec::new();
    for (host, proof) in [("f-0", ""), ("f-0", "AAAA"), ("../f-0", ""), (&long, ""), ("", "")] {
        let (kind, reason) = greet(&manager, hub.address(), hello(host, proof).as_bytes());
        assert!(kind == 3 && reason.len() < 250, "{reason}");
        reasons.push(reason);
    }
    assert!(reasons[1].contains("the token is not that of group f"), "{reasons:?}");
    assert!(reasons[2].contains("no group has a host"), "{reasons:?}");
    for _ in 0..6 {
        reasons.push(greet(&manager, hub.address(), hello("f-0", "").as_bytes()).1);
    }
    assert!(reasons[10].contains("try again in a minute"), "{reasons:?}");
    // All attempts of this address are refused now, those with the token too.
    let error = bench.client(hub.address(), "f-0", "host").call(b"x", LIMIT).unwrap_err();
    assert!(error.to_string().contains("try again in a minute"), "{error}");
    assert_eq!(bench.counts.count(Enrolment::TooOften), 2);
    assert_eq!(list_hosts(&manager).unwrap(), []);
}
