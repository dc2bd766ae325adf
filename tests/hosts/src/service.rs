//! Host C: the standard router partitioned into two services, which run here as two threads with
//! real sockets between them, and a clock that the test sets.
//!
//! ```text
//!  test ─unix─▶ [ dispatcher, store ] ─link─▶ [ router ] ─UDP─▶ test, three times
//! ```
//!
//! Applications are at one service and all other peers at the other, so only traces changed by
//! [`restrict`] can be compared: applications send Interests, the others reply.

use crate::fused::{SIZES, route_parameters};
use crate::trace::{FACES, Incoming, OutstandingInterest, Sent, Step, face_info, sort_outstanding};
use crate::{Host, Outcome, Tables, Trace, graph, tables};
use nw_element_api::{Parameters, Timestamp, Value};
use nw_graph::host::{Handle, Host as GraphHost, Report};
use nw_graph::{Connection, Graph, Position, Source, Target, standard};
use nw_service::{LinkKind, partition};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

/// Two services linked by a unix socket.
pub struct Services;

/// Two services linked by shared memory.
pub struct SharedServices;

/// Longest token and length of a return label, bytes.
const TOKEN_LEN_MAX: usize = 32;
const LABEL_LEN: usize = 5;
/// InterestLifetime longer than a trace, milliseconds.
const LIFETIME_MS: u16 = 60_000;

/// Changes a trace so that only applications send Interests, and none for names that must not leave
/// the machine, as links between services are local.
pub fn restrict(mut trace: Trace) -> Trace {
    // Of recorded packets, keep Interests of applications and replies of the others.
    trace.steps.retain(|step| match step {
        Step::Recorded { face, wire, nack, .. } => {
            (*face == 0) == (nack.is_none() && nw_wire::Interest::check(wire).is_ok())
        }
        _ => true,
    });
    for step in &mut trace.steps {
        match step {
            Step::Interest { face, name, token, lifetime_ms, .. } => {
                *face = 0;
                // Late Data, which would only be cached, does not cross a link.
                *lifetime_ms = LIFETIME_MS;
                // Leave space for the label of the service in front.
                token.truncate(TOKEN_LEN_MAX - LABEL_LEN);
                // Without a token a peer receives one copy of a Data, however many Interests it has
                // pending; a label is a token.
                if token.is_empty() {
                    token.push(1);
                }
                if name.to_string().starts_with("/localhost") {
                    *name = "/b/d".parse().expect("a name");
                }
            }
            // The service in front has no PIT: it would drop Data of applications for another
            // reason.
            Step::Data { face, name, .. } => {
                *face = (*face).max(1);
                if name.to_string().starts_with("/localhost") {
                    *name = "/b/d".parse().expect("a name");
                }
            }
            Step::Recorded { face: 0, token, .. } => {
                token.truncate(TOKEN_LEN_MAX - LABEL_LEN);
                if token.is_empty() {
                    token.push(1);
                }
            }
            Step::Recorded { .. } | Step::Answer { .. } | Step::Wait { .. } => {}
        }
    }
    trace
}

/// Returns the standard router with applications at the dispatcher and all other faces at the
/// router.
fn standard_graph(trace: &Trace, apps: &Path, peers: &[SocketAddr]) -> Graph {
    let (pending, prefixes, cached) = SIZES;
    let setting = |name: &str, number: usize| (name.to_owned(), Value::Integer(number as i64));
    let names: Vec<_> =
        FACES.iter().enumerate().map(|(number, name)| (*name, face_info(number))).collect();
    let mut graph = standard(&names, |node| {
        Parameters(match node {
            "store" => vec![setting("packets", cached), setting("mib", 1)],
            "router" => [
                vec![setting("pending", pending), setting("prefixes", prefixes)],
                route_parameters(trace),
            ]
            .concat(),
            _ => Vec::new(),
        })
    });
    (graph.faces[0].uri, graph.faces[0].is_listener) =
        (Some(format!("unix://{}", apps.display())), true);
    for (face, peer) in graph.faces[1..].iter_mut().zip(peers) {
        face.uri = Some(format!("udp4://{peer}"));
    }
    let position = Position::default();
    let router = graph.node_index("router").expect("the standard router has one");
    let dispatcher = graph.node_index("dispatcher").expect("and a dispatcher");
    graph.connections.retain(|connection| connection.from != Source::Faces);
    graph.connections.push(Connection {
        from: Source::Face(0),
        to: Target::Port(dispatcher, 0),
        position,
    });
    for face in 1..FACES.len() {
        for port in 0..3 {
            graph.connections.push(Connection {
                from: Source::Face(face),
                to: Target::Port(router, port),
                position,
            });
        }
    }
    graph
}

/// A running service.
struct Running {
    handle: Handle,
    /// Returns the table contents at the end.
    thread: Option<JoinHandle<Tables>>,
}

impl Running {
    fn start(graph: &Graph, clock: &Arc<AtomicU64>) -> Self {
        let clock = Arc::clone(clock);
        let now = move || Timestamp::START + Duration::from_nanos(clock.load(Ordering::Acquire));
        let mut host = GraphHost::with_clock(graph, Box::new(now), 0).expect("a valid part");
        let handle = host.handle();
        let thread = std::thread::spawn(move || {
            host.run().expect("it runs");
            graph::tables_of(host.engine())
        });
        Running { handle, thread: Some(thread) }
    }

    fn report(&self) -> Report {
        self.handle.report().expect("it runs")
    }

    /// Stops the service and returns its table contents.
    fn end(&mut self) -> Tables {
        self.handle.stop();
        self.thread.take().expect("stopped once").join().expect("it runs until stopped")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Both services, and the peers of all faces.
struct TestBench {
    front: Running,
    back: Running,
    clock: Arc<AtomicU64>,
    apps: UnixStream,
    /// The received part of an incomplete packet.
    partial_packet: Vec<u8>,
    peers: Vec<UdpSocket>,
    /// Packets sent to the services, and received from them.
    packets_in: u64,
    packets_out: u64,
    outstanding: Vec<OutstandingInterest>,
    _folder: tempfile::TempDir,
}

/// Longest wait until both services are idle.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);

impl TestBench {
    fn new(trace: &Trace, links: LinkKind) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let apps = folder.path().join("apps.sock");
        let peers: Vec<UdpSocket> =
            (1..FACES.len()).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
        let addresses: Vec<SocketAddr> =
            peers.iter().map(|peer| peer.local_addr().expect("its address")).collect();
        let services = [
            ("front", vec!["dispatcher", "store", "apps"]),
            ("back", vec!["router", "discard", "north", "east", "west"]),
        ]
        .map(|(name, members)| (name.to_owned(), members.into_iter().map(str::to_owned).collect()));
        let parts =
            partition(&standard_graph(trace, &apps, &addresses), &services, folder.path(), links)
                .expect("a valid partition");
        let clock = Arc::new(AtomicU64::new(1_000_000));
        // The later service of the list listens on the link.
        let back = Running::start(&parts[1].graph, &clock);
        let front = Running::start(&parts[0].graph, &clock);
        let client = UnixStream::connect(&apps).expect("it listens");
        client.set_nonblocking(true).expect("a socket");
        for (number, peer) in peers.iter().enumerate() {
            peer.set_nonblocking(true).expect("a socket");
            let found = back.report().faces.into_iter().find(|face| face.name == FACES[number + 1]);
            let local = found.expect("a face for each peer").local;
            let local: SocketAddr =
                local.trim_start_matches("udp4://").parse().expect("an address");
            peer.connect(local).expect("an address");
        }
        let bench = TestBench {
            front,
            back,
            clock,
            apps: client,
            partial_packet: Vec::new(),
            peers,
            packets_in: 0,
            packets_out: 0,
            outstanding: Vec::new(),
            _folder: folder,
        };
        bench.wait_until("the services are connected", |front, back| {
            // Applications and the link; the link and three peers.
            front.faces.len() == 2
                && back.faces.len() == 4
                && front.faces.iter().all(|face| face.up)
        });
        bench
    }

    fn wait_until(&self, what: &str, condition: impl Fn(&Report, &Report) -> bool) {
        let start = Clock::now();
        while !condition(&self.front.report(), &self.back.report()) {
            assert!(start.elapsed() < SETTLE_TIMEOUT, "{what}, within {SETTLE_TIMEOUT:?}");
        }
    }

    fn send(&mut self, incoming: &Incoming) {
        let packet = incoming.link_packet();
        match incoming.face {
            0 => self.apps.write_all(&packet).expect("space in the socket buffer"),
            face => drop(self.peers[face - 1].send(&packet).expect("space in the socket buffer")),
        }
        self.packets_in += 1;
    }

    /// Waits until no packet is in flight, and returns the packets received.
    fn wait_until_idle(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        let start = Clock::now();
        loop {
            let (front, back) = (self.front.report(), self.back.report());
            sent.extend(self.receive_available());
            let sum = |report: &Report,
                       of: fn(&nw_graph::host::FaceReport) -> [u64; 3],
                       link: bool|
             -> u64 {
                let faces = report.faces.iter().filter(|face| face.name.starts_with("to_") == link);
                faces.flat_map(of).sum()
            };
            let received =
                sum(&front, |face| face.received, false) + sum(&back, |face| face.received, false);
            let sent_count =
                sum(&front, |face| face.sent, false) + sum(&back, |face| face.sent, false);
            let crossed = sum(&front, |face| face.sent, true)
                == sum(&back, |face| face.received, true)
                && sum(&back, |face| face.sent, true) == sum(&front, |face| face.received, true);
            if received == self.packets_in && sent_count == self.packets_out && crossed {
                return sent;
            }
            assert!(
                start.elapsed() < SETTLE_TIMEOUT,
                "packets are still in flight: {front:?} {back:?}"
            );
        }
    }

    fn receive_available(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        let mut bytes = vec![0; 64 * 1024];
        loop {
            match self.apps.read(&mut bytes) {
                Ok(len) => self.partial_packet.extend_from_slice(&bytes[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("the service closed the connection: {error}"),
            }
        }
        let mut received = std::mem::take(&mut self.partial_packet);
        while let Some(len) = first_packet_len(&received) {
            let packet: Vec<u8> = received.drain(..len).collect();
            sent.push(Sent::from_link_packet(0, &packet, &mut self.outstanding));
        }
        self.partial_packet = received;
        for number in 0..self.peers.len() {
            while let Ok(len) = self.peers[number].recv(&mut bytes) {
                sent.push(Sent::from_link_packet(number + 1, &bytes[..len], &mut self.outstanding));
            }
        }
        self.packets_out += sent.len() as u64;
        sent
    }
}

/// Returns the length of the first packet if it is complete, bytes.
fn first_packet_len(bytes: &[u8]) -> Option<usize> {
    let mut reader = nw_name::tlv::Reader::new(bytes, 0);
    reader.next().ok().flatten().map(|element| element.end())
}

impl Host for Services {
    const NAME: &'static str = "services";

    fn run(trace: &Trace) -> Outcome {
        run(trace, LinkKind::Unix)
    }
}

impl Host for SharedServices {
    const NAME: &'static str = "services with shared memory";

    fn run(trace: &Trace) -> Outcome {
        run(trace, LinkKind::SharedMemory)
    }
}

fn run(trace: &Trace, links: LinkKind) -> Outcome {
    let mut bench = TestBench::new(trace, links);
    let mut outcome = Outcome::default();
    for step in &trace.steps {
        if let Step::Wait { ms } = step {
            for _ in 0..*ms {
                bench.clock.fetch_add(1_000_000, Ordering::Release);
                // One iteration of both loops: a report wakes them, and they reply before running
                // their timers.
                drop((bench.front.report(), bench.back.report()));
            }
            drop((bench.front.report(), bench.back.report()));
        } else if let Some(incoming) = step.incoming(&bench.outstanding) {
            bench.send(&incoming);
        }
        let before = bench.outstanding.len();
        outcome.sent.push(bench.wait_until_idle());
        sort_outstanding(&mut bench.outstanding[before..]);
    }
    let (front, back) = (bench.front.report(), bench.back.report());
    for (reason, packets) in front.drops.into_iter().chain(back.drops) {
        *outcome.drops.entry(reason).or_default() += packets;
    }
    // The service with pending Interests stops first: they end when one of its faces is removed.
    outcome.tables = bench.back.end();
    tables::add(&mut outcome.tables, bench.front.end());
    outcome
}
