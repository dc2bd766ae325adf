//! Several shards over real sockets: names belong to different shards, and Interest and Data of one
//! exchange may arrive at different ones. The hash key is random, so each test uses enough names
//! for all shards.

use nw_api::config::Config;
use nw_name::Name;
use nw_name::tlv::push_tlv;
use nw_router::{Handle, Host};
use nw_wire::{Interest, LpHeader, LpPacket, Token, types};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(10);
const NAMES: usize = 48;

struct Router {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
    folder: tempfile::TempDir,
    udp: SocketAddr,
}

impl Router {
    /// Starts a router with a route for `/p` to a producer's socket.
    fn start(shards: u32, producer: &UdpSocket, extra: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let text = format!(
            "[faces.unix]\npath = \"{}\"\n[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = [\"{udp}\"]\n[forwarder]\nshards = {shards}\n{extra}\
             [[route]]\nprefix = \"/p\"\nface = \"udp4://{}\"\n",
            folder.path().join("nw.sock").display(),
            producer.local_addr().unwrap(),
        );
        let mut host = Host::new(Config::parse("test", &text).unwrap()).unwrap();
        assert_eq!(host.shards(), shards);
        let handle = host.handle();
        let thread = std::thread::spawn(move || host.run().unwrap());
        Router { handle, thread: Some(thread), folder, udp }
    }

    fn consumer(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.path().join("nw.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        stream
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.handle.stop();
        self.thread.take().map(JoinHandle::join);
    }
}

fn producer() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    socket
}

fn interest(name: &str, can_be_prefix: bool) -> Vec<u8> {
    let name: Name = name.parse().unwrap();
    let mut inner = Vec::new();
    push_tlv(types::NAME, name.as_ref().as_bytes(), &mut inner);
    if can_be_prefix {
        push_tlv(types::CAN_BE_PREFIX, &[], &mut inner);
    }
    let nonce =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    push_tlv(types::NONCE, &nonce.to_be_bytes(), &mut inner);
    let mut wire = Vec::new();
    push_tlv(types::INTEREST, &inner, &mut wire);
    wire
}

fn data(name: &Name) -> Vec<u8> {
    let mut inner = Vec::new();
    push_tlv(types::NAME, name.as_ref().as_bytes(), &mut inner);
    push_tlv(types::CONTENT, b"content", &mut inner);
    push_tlv(types::SIGNATURE_INFO, &[0x1b, 1, 0], &mut inner);
    push_tlv(types::SIGNATURE_VALUE, &[0; 32], &mut inner);
    let mut wire = Vec::new();
    push_tlv(types::DATA, &inner, &mut wire);
    wire
}

/// Receives Interests until each name was requested, and replies to each with the result of
/// `answer`, from name and token.
fn answer_interests(
    producer: &UdpSocket,
    count: usize,
    answer: impl Fn(&Name, Token) -> Option<Vec<u8>>,
) {
    let (mut seen, end) = (HashSet::new(), Instant::now() + TIMEOUT);
    let mut buffer = [0; 9000];
    while seen.len() < count {
        assert!(Instant::now() < end, "{} of {count} Interests received", seen.len());
        let Ok((len, router)) = producer.recv_from(&mut buffer) else { continue };
        let lp = LpPacket::check(&buffer[..len]).unwrap();
        let Some(Ok(interest)) = lp.fragment.map(Interest::check) else { continue };
        let name = interest.name().to_name();
        if let Some(answer) = answer(&name, lp.pit_token) {
            producer.send_to(&answer, router).unwrap();
        }
        seen.insert(name);
    }
}

/// Reads from a stream until `count` Data packets have arrived, and returns their names.
fn received_names(consumer: &mut UnixStream, count: usize) -> Vec<String> {
    let (mut names, mut bytes, deadline) = (Vec::new(), Vec::new(), Instant::now() + TIMEOUT);
    let mut buffer = [0; 65_536];
    while names.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} Data received", names.len());
        let Ok(len) = consumer.read(&mut buffer) else { continue };
        assert!(len > 0, "the router closed the face");
        bytes.extend_from_slice(&buffer[..len]);
        let mut reader = nw_name::tlv::Reader::new(&bytes, 0);
        let mut end = 0;
        while let Ok(Some(packet)) = reader.next() {
            end = packet.end();
            let lp = LpPacket::check(&bytes[packet.start..end]).unwrap();
            assert!(lp.nack.is_none(), "a Nack was received");
            let data = nw_wire::Data::check(lp.fragment.unwrap()).unwrap();
            names.push(data.name().to_name().to_string());
        }
        bytes.drain(..end);
    }
    names.sort();
    names
}

fn with_token(data: &[u8], token: Token) -> Vec<u8> {
    let mut wire = Vec::new();
    LpHeader { pit_token: token, ..LpHeader::default() }.encode(data.len(), &mut wire);
    wire.extend_from_slice(data);
    wire
}

fn test_names(suffix: &str) -> Vec<String> {
    let mut names: Vec<_> = (0..NAMES).map(|index| format!("/p/{index}{suffix}")).collect();
    names.sort();
    names
}

#[test]
fn shards_interests_of_all_names_are_satisfied() {
    for (shards, tokens) in [(2, true), (2, false), (3, true), (5, false)] {
        let producer = producer();
        let router = Router::start(shards, &producer, "");
        let mut consumer = router.consumer();
        for name in test_names("") {
            consumer.write_all(&interest(&name, false)).unwrap();
        }
        answer_interests(&producer, NAMES, |name, token| {
            assert_eq!(token.as_bytes().len(), 6);
            assert!(u32::from(token.as_bytes()[0]) < shards);
            Some(if tokens { with_token(&data(name), token) } else { data(name) })
        });
        assert_eq!(received_names(&mut consumer, NAMES), test_names(""));
        // From the content store of the shard that has it.
        for name in test_names("") {
            consumer.write_all(&interest(&name, false)).unwrap();
        }
        assert_eq!(received_names(&mut consumer, NAMES), test_names(""));
    }
}

#[test]
fn shards_prefix_interest_is_satisfied_by_longer_name() {
    for tokens in [true, false] {
        let producer = producer();
        let router = Router::start(3, &producer, "");
        let mut consumer = router.consumer();
        for name in test_names("") {
            consumer.write_all(&interest(&name, true)).unwrap();
        }
        answer_interests(&producer, NAMES, |name, token| {
            let longer = data(&format!("{name}/longer/name").parse().unwrap());
            Some(if tokens { with_token(&longer, token) } else { longer })
        });
        assert_eq!(received_names(&mut consumer, NAMES), test_names("/longer/name"));
    }
}

#[test]
fn shards_data_without_token_satisfies_prefix_and_exact_interest() {
    let producer = producer();
    let router = Router::start(4, &producer, "");
    let (mut by_prefix, mut by_name) = (router.consumer(), router.consumer());
    for prefix in test_names("") {
        by_prefix.write_all(&interest(&prefix, true)).unwrap();
    }
    answer_interests(&producer, NAMES, |_, _| None);
    for name in test_names("/x") {
        by_name.write_all(&interest(&name, false)).unwrap();
    }
    answer_interests(&producer, NAMES, |name, _| Some(data(name)));
    assert_eq!(received_names(&mut by_name, NAMES), test_names("/x"));
    assert_eq!(received_names(&mut by_prefix, NAMES), test_names("/x"));
}

#[test]
fn shards_datagram_on_any_socket_is_answered() {
    let producer = producer();
    let router = Router::start(4, &producer, "");
    // All datagrams of one socket arrive at one shard, unless the kernel selects by name.
    for index in 0..NAMES {
        let consumer = self::producer();
        let mut buffer = [0; 1000];
        for name in [format!("/p/{index}"), format!("/p/{index}/again")] {
            consumer.send_to(&interest(&name, false), router.udp).unwrap();
            answer_interests(&producer, 1, |name, _| Some(data(name)));
            let end = Instant::now() + TIMEOUT;
            let len = loop {
                assert!(Instant::now() < end, "{name} was not answered");
                if let Ok(len) = consumer.recv(&mut buffer) {
                    break len;
                }
            };
            let lp = LpPacket::check(&buffer[..len]).unwrap();
            assert_eq!(
                nw_wire::Data::check(lp.fragment.unwrap()).unwrap().name().to_string(),
                name
            );
        }
    }
}

#[test]
fn shards_second_router_on_same_port_is_refused() {
    let producer = producer();
    let router = Router::start(2, &producer, "");
    let text = format!(
        "[faces.unix]\nenabled = false\n[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = [\"{}\"]\n[forwarder]\nshards = 2\n",
        router.udp
    );
    let error = Host::new(Config::parse("test", &text).unwrap()).expect_err("the port is taken");
    assert!(error.to_string().contains("another"), "{error}");
}
