//! The last packets that a peer sends before its connection ends are forwarded: Data to consumers,
//! Interests to producers.

use nw_api::config::Config;
use nw_api::management::{ControlParameters, Root, Verb, client};
use nw_name::Name;
use nw_name::tlv::push_tlv;
use nw_router::{Handle, Host};
use nw_wire::{DigestSha256, types};
use rustix::net::sockopt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

struct Router {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
    unix: PathBuf,
    tcp: SocketAddr,
    websocket: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Router {
    fn start(shards: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let unix = folder.path().join("nw.sock");
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (tcp, websocket) = (free(), free());
        let text = format!(
            "[faces.unix]\npath = \"{}\"\n[faces.tcp]\nlisten = [\"{tcp}\"]\n[faces.udp]\nlisten = []\n\
             [faces.websocket]\nlisten = [\"{websocket}\"]\n[forwarder]\nshards = {shards}\n",
            unix.display(),
        );
        let mut host = Host::new(Config::parse("test", &text).unwrap()).unwrap();
        let handle = host.handle();
        let thread = std::thread::spawn(move || host.run().unwrap());
        Router { handle, thread: Some(thread), unix, tcp, websocket, _folder: folder }
    }

    fn connect(&self, transport: Transport) -> Box<dyn Stream> {
        match transport {
            Transport::Unix => Box::new(UnixStream::connect(&self.unix).unwrap()),
            Transport::Tcp => Box::new(TcpStream::connect(self.tcp).unwrap()),
            Transport::WebSocket => {
                let mut stream = TcpStream::connect(self.websocket).unwrap();
                stream
                    .write_all(
                        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
                    )
                    .unwrap();
                let mut response = Vec::new();
                while !response.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    response.extend(byte);
                }
                Box::new(stream)
            }
        }
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.handle.stop();
        self.thread.take().map(JoinHandle::join);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Unix,
    Tcp,
    WebSocket,
}

/// How a connection ends, in the write that contains its last packet or right after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Close,
    Garbage,
    Reset,
    WebSocketClose,
    WebSocketText,
}

trait Stream: Read + Write {
    fn set_timeout(&self, timeout: Duration);
    /// Makes the next close a reset, for transports that have one.
    fn reset_on_close(&self) {}
}

impl Stream for UnixStream {
    fn set_timeout(&self, timeout: Duration) {
        self.set_read_timeout(Some(timeout)).unwrap();
    }
}

impl Stream for TcpStream {
    fn set_timeout(&self, timeout: Duration) {
        self.set_read_timeout(Some(timeout)).unwrap();
    }

    fn reset_on_close(&self) {
        sockopt::set_socket_linger(self, Some(Duration::ZERO)).unwrap();
    }
}

/// Returns a packet as it is sent on a transport.
fn framed(transport: Transport, first: u8, packet: &[u8]) -> Vec<u8> {
    if transport != Transport::WebSocket {
        return packet.to_vec();
    }
    let mut out = vec![first];
    match packet.len() {
        len @ 0..126 => out.push(0x80 | len as u8),
        len => {
            out.push(0x80 | 126);
            out.extend((len as u16).to_be_bytes());
        }
    }
    out.extend([0; 4]);
    out.extend(packet);
    out
}

fn finish(mut stream: Box<dyn Stream>, transport: Transport, ending: Ending, packet: &[u8]) {
    let mut bytes = framed(transport, 0x82, packet);
    match ending {
        Ending::Close => {}
        Ending::Garbage => bytes.extend(b"GET / HTTP/1.1\r\n\r\n"),
        Ending::Reset => stream.reset_on_close(),
        Ending::WebSocketClose => bytes.extend(framed(transport, 0x88, &1000u16.to_be_bytes())),
        Ending::WebSocketText => bytes.extend(framed(transport, 0x81, b"bye")),
    }
    stream.write_all(&bytes).unwrap();
}

fn interest(name: &Name, nonce: u32) -> Vec<u8> {
    let mut inner = Vec::new();
    push_tlv(types::NAME, name.as_ref().as_bytes(), &mut inner);
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

/// Reads until these bytes are received. Returns `false` after a timeout.
fn receives(stream: &mut dyn Stream, expected: &[u8]) -> bool {
    stream.set_timeout(Duration::from_secs(5));
    let (mut seen, mut buffer) = (Vec::<u8>::new(), [0; 9000]);
    while !seen.windows(expected.len()).any(|part| part == expected) {
        match stream.read(&mut buffer) {
            Ok(len @ 1..) => seen.extend(&buffer[..len]),
            _ => return false,
        }
    }
    true
}

fn register(stream: &mut dyn Stream, transport: Transport, prefix: &str, nonce: u32) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let unique = client::Uniqueness {
        nonce,
        signature_nonce: u64::from(nonce).to_be_bytes(),
        time_ms: now.as_millis() as u64,
    };
    let parameters = ControlParameters::of(prefix.parse::<Name>().unwrap());
    let command =
        client::command(Root::Localhost, Verb::RibRegister, &parameters, unique, &DigestSha256)
            .unwrap();
    stream.write_all(&framed(transport, 0x82, &command)).unwrap();
    // The status code in the response.
    assert!(receives(stream, &[0x66, 1, 200]), "the registration is refused");
}

const CASES: [(Transport, Ending); 9] = [
    (Transport::Unix, Ending::Close),
    (Transport::Unix, Ending::Garbage),
    (Transport::Tcp, Ending::Close),
    (Transport::Tcp, Ending::Garbage),
    (Transport::Tcp, Ending::Reset),
    (Transport::WebSocket, Ending::Close),
    (Transport::WebSocket, Ending::Reset),
    (Transport::WebSocket, Ending::WebSocketClose),
    (Transport::WebSocket, Ending::WebSocketText),
];

#[test]
fn data_before_connection_end_satisfies_interest() {
    for shards in [1, 2] {
        let router = Router::start(shards);
        for (index, (transport, ending)) in CASES.into_iter().enumerate() {
            // Several names, so that each shard has some.
            for round in 0..6u32 {
                let nonce = shards * 10_000 + index as u32 * 100 + round;
                let prefix = format!("/data/{nonce}");
                let mut producer = router.connect(transport);
                register(&mut *producer, transport, &prefix, nonce);
                let name: Name = format!("{prefix}/x").parse().unwrap();
                let mut consumer = router.connect(Transport::Unix);
                consumer.write_all(&interest(&name, nonce)).unwrap();
                assert!(
                    receives(&mut *producer, name.as_ref().as_bytes()),
                    "{transport:?} {ending:?}: no Interest"
                );
                finish(producer, transport, ending, &data(&name));
                assert!(
                    receives(&mut *consumer, &data(&name)),
                    "{transport:?} {ending:?}, {shards} shards: Data lost"
                );
            }
        }
    }
}

#[test]
fn interest_before_connection_end_is_forwarded() {
    for shards in [1, 2] {
        let router = Router::start(shards);
        let mut producer = router.connect(Transport::Unix);
        register(&mut *producer, Transport::Unix, "/interest", shards);
        for (index, (transport, ending)) in CASES.into_iter().enumerate() {
            for round in 0..6u32 {
                let nonce = shards * 10_000 + index as u32 * 100 + round;
                let name: Name = format!("/interest/{nonce}").parse().unwrap();
                finish(router.connect(transport), transport, ending, &interest(&name, nonce));
                let is_received = receives(&mut *producer, name.as_ref().as_bytes());
                assert!(
                    is_received,
                    "{transport:?} {ending:?}, {shards} shards: the Interest is lost"
                );
            }
        }
    }
}
