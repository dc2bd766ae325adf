//! Host C: the standard router cut into two services, which run here as two threads with real sockets between them; by a clock that the test sets on.
//!
//! ```text
//!  test ─unix─▶ [ dispatcher, store ] ─link─▶ [ router ] ─UDP─▶ test, three times
//! ```
//!
//! Applications are at one service and all else at the other, so only [`fitting`] traces can be compared: applications ask, the others answer.

use crate::fused::{SIZES, route_parameters};
use crate::trace::{FACES, Incoming, Open, Sent, Step, face_info, order};
use crate::{Host, Outcome, Tables, Trace, graph, tables};
use nw_element_api::{Instant, Parameters, Value};
use nw_graph::host::{Handle, Host as GraphHost, Report};
use nw_graph::{Connection, From, Graph, Place, To, standard};
use nw_service::{LinkKind, cut};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

/// See the module: the link is a unix socket.
pub struct Services;

/// The same, and the link is over shared memory.
pub struct SharedServices;

/// Octets of a token, and of a return label.
const TOKEN_LEN_MAX: usize = 32;
const LABEL_LEN: usize = 5;
/// Longer than a trace takes.
const LIFETIME_MS: u16 = 60_000;

/// A trace in which only applications ask, and nobody for what must not leave the machine: links between services are local.
pub fn fitting(mut trace: Trace) -> Trace {
    // Of what was recorded applications ask, and the others answer.
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
                // Data that comes when nobody waits any more, and is only to be kept, does not cross a link.
                *lifetime_ms = LIFETIME_MS;
                // Room for the label of the service before.
                token.truncate(TOKEN_LEN_MAX - LABEL_LEN);
                // Who gives no token gets one copy of a Data, however often it waits for it; a label is a token.
                if token.is_empty() {
                    token.push(1);
                }
                if name.to_string().starts_with("/localhost") {
                    *name = "/b/d".parse().expect("a name");
                }
            }
            // The service in front remembers nothing: it would refuse Data of applications for another reason.
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

/// The standard router with applications at the dispatcher and all others at the router.
fn whole(trace: &Trace, apps: &Path, peers: &[SocketAddr]) -> Graph {
    let (pending, prefixes, cached) = SIZES;
    let setting = |name: &str, number: usize| (name.to_owned(), Value::Integer(number as i64));
    let names: Vec<_> = FACES.iter().enumerate().map(|(number, name)| (*name, face_info(number))).collect();
    let mut graph = standard(&names, |node| {
        Parameters(match node {
            "store" => vec![setting("packets", cached), setting("mib", 1)],
            "router" => {
                [vec![setting("pending", pending), setting("prefixes", prefixes)], route_parameters(trace)]
                    .concat()
            }
            _ => Vec::new(),
        })
    });
    (graph.faces[0].uri, graph.faces[0].listens) = (Some(format!("unix://{}", apps.display())), true);
    for (face, peer) in graph.faces[1..].iter_mut().zip(peers) {
        face.uri = Some(format!("udp4://{peer}"));
    }
    let place = Place::default();
    let router = graph.node("router").expect("the standard router has one");
    let dispatcher = graph.node("dispatcher").expect("and a dispatcher");
    graph.connections.retain(|connection| connection.from != From::Faces);
    graph.connections.push(Connection { from: From::Face(0), to: To::Port(dispatcher, 0), place });
    for face in 1..FACES.len() {
        for port in 0..3 {
            graph.connections.push(Connection { from: From::Face(face), to: To::Port(router, port), place });
        }
    }
    graph
}

/// A running service.
struct Running {
    handle: Handle,
    /// Gives what its tables hold in the end.
    thread: Option<JoinHandle<Tables>>,
}

impl Running {
    fn start(graph: &Graph, clock: &Arc<AtomicU64>) -> Self {
        let clock = Arc::clone(clock);
        let now = move || Instant::START + Duration::from_nanos(clock.load(Ordering::Acquire));
        let mut host = GraphHost::with_clock(graph, Box::new(now), 0).expect("a good piece");
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

    /// Ends it: what its tables hold then.
    fn end(&mut self) -> Tables {
        self.handle.stop();
        self.thread.take().expect("it is ended once").join().expect("it runs until then")
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
struct Bench {
    front: Running,
    back: Running,
    clock: Arc<AtomicU64>,
    apps: UnixStream,
    /// What came of a packet that is not whole yet.
    rest: Vec<u8>,
    peers: Vec<UdpSocket>,
    /// Packets given to the services, and taken from them.
    given: u64,
    taken: u64,
    open: Vec<Open>,
    _folder: tempfile::TempDir,
}

/// Both services come to rest within this time, or something is wrong.
const PATIENCE: Duration = Duration::from_secs(20);

impl Bench {
    fn new(trace: &Trace, links: LinkKind) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let apps = folder.path().join("apps.sock");
        let peers: Vec<UdpSocket> =
            (1..FACES.len()).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
        let at: Vec<SocketAddr> = peers.iter().map(|peer| peer.local_addr().expect("its address")).collect();
        let services = [
            ("front", vec!["dispatcher", "store", "apps"]),
            ("back", vec!["router", "nobody", "north", "east", "west"]),
        ]
        .map(|(name, members)| (name.to_owned(), members.into_iter().map(str::to_owned).collect()));
        let pieces = cut(&whole(trace, &apps, &at), &services, folder.path(), links).expect("a good cut");
        let clock = Arc::new(AtomicU64::new(1_000_000));
        // The later one listens.
        let back = Running::start(&pieces[1].graph, &clock);
        let front = Running::start(&pieces[0].graph, &clock);
        let client = UnixStream::connect(&apps).expect("it listens");
        client.set_nonblocking(true).expect("a socket");
        for (number, peer) in peers.iter().enumerate() {
            peer.set_nonblocking(true).expect("a socket");
            let found = back.report().faces.into_iter().find(|face| face.name == FACES[number + 1]);
            let near = found.expect("a face for each peer").local;
            let near: SocketAddr = near.trim_start_matches("udp4://").parse().expect("an address");
            peer.connect(near).expect("an address");
        }
        let bench = Bench {
            front,
            back,
            clock,
            apps: client,
            rest: Vec::new(),
            peers,
            given: 0,
            taken: 0,
            open: Vec::new(),
            _folder: folder,
        };
        bench.wait_until("the services know each other", |front, back| {
            // Applications and the link; the link and three peers.
            front.faces.len() == 2 && back.faces.len() == 4 && front.faces.iter().all(|face| face.up)
        });
        bench
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&Report, &Report) -> bool) {
        let start = Clock::now();
        while !is_so(&self.front.report(), &self.back.report()) {
            assert!(start.elapsed() < PATIENCE, "{what}, within {PATIENCE:?}");
        }
    }

    fn give(&mut self, incoming: &Incoming) {
        let packet = incoming.link_packet();
        match incoming.face {
            0 => self.apps.write_all(&packet).expect("room in a socket"),
            face => drop(self.peers[face - 1].send(&packet).expect("room in a socket")),
        }
        self.given += 1;
    }

    /// Waits until nothing is on its way any more, and takes what left.
    fn settle(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        let start = Clock::now();
        loop {
            let (front, back) = (self.front.report(), self.back.report());
            sent.extend(self.take());
            let sum = |report: &Report, of: fn(&nw_graph::host::FaceReport) -> [u64; 3], link: bool| -> u64 {
                let faces = report.faces.iter().filter(|face| face.name.starts_with("to_") == link);
                faces.flat_map(of).sum()
            };
            let received = sum(&front, |face| face.received, false) + sum(&back, |face| face.received, false);
            let left = sum(&front, |face| face.sent, false) + sum(&back, |face| face.sent, false);
            let crossed = sum(&front, |face| face.sent, true) == sum(&back, |face| face.received, true)
                && sum(&back, |face| face.sent, true) == sum(&front, |face| face.received, true);
            if received == self.given && left == self.taken && crossed {
                return sent;
            }
            assert!(start.elapsed() < PATIENCE, "packets come to rest: {front:?} {back:?}");
        }
    }

    fn take(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        let mut octets = vec![0; 64 * 1024];
        loop {
            match self.apps.read(&mut octets) {
                Ok(len) => self.rest.extend_from_slice(&octets[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("the service hung up: {error}"),
            }
        }
        let mut rest = std::mem::take(&mut self.rest);
        while let Some(len) = whole_len(&rest) {
            let packet: Vec<u8> = rest.drain(..len).collect();
            sent.push(Sent::seen(0, &packet, &mut self.open));
        }
        self.rest = rest;
        for number in 0..self.peers.len() {
            while let Ok(len) = self.peers[number].recv(&mut octets) {
                sent.push(Sent::seen(number + 1, &octets[..len], &mut self.open));
            }
        }
        self.taken += sent.len() as u64;
        sent
    }
}

/// Octets of the first packet, if it is whole.
fn whole_len(octets: &[u8]) -> Option<usize> {
    let mut reader = nw_name::tlv::Reader::new(octets, 0);
    reader.next().ok().flatten().map(|element| element.end())
}

impl Host for Services {
    const NAME: &'static str = "services";

    fn run(trace: &Trace) -> Outcome {
        run(trace, LinkKind::Unix)
    }
}

impl Host for SharedServices {
    const NAME: &'static str = "services that share memory";

    fn run(trace: &Trace) -> Outcome {
        run(trace, LinkKind::SharedMemory)
    }
}

fn run(trace: &Trace, links: LinkKind) -> Outcome {
    let mut bench = Bench::new(trace, links);
    let mut outcome = Outcome::default();
    for step in &trace.steps {
        if let Step::Wait { ms } = step {
            for _ in 0..*ms {
                bench.clock.fetch_add(1_000_000, Ordering::Release);
                // A turn of both loops: asking wakes them, and they answer before their timers.
                drop((bench.front.report(), bench.back.report()));
            }
            drop((bench.front.report(), bench.back.report()));
        } else if let Some(incoming) = step.incoming(&bench.open) {
            bench.give(&incoming);
        }
        let before = bench.open.len();
        outcome.sent.push(bench.settle());
        order(&mut bench.open[before..]);
    }
    let (front, back) = (bench.front.report(), bench.back.report());
    for (reason, packets) in front.drops.into_iter().chain(back.drops) {
        *outcome.drops.entry(reason).or_default() += packets;
    }
    // The one with pending Interests ends first: when a face of it goes, they do.
    outcome.tables = bench.back.end();
    tables::add(&mut outcome.tables, bench.front.end());
    outcome
}
