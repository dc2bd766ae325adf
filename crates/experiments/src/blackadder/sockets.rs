//! Figure 7: files to several clients over emulated sockets, and over UDP. All clients are behind
//! one link, which limits their sum.
//!
//! ```text
//!  server (1) ══ 100 Mbit/s ══ middle (0) ══ clients (2, 3, …)
//! ```
//!
//! As in the paper, a client announces `/X/Y`, the server subscribes to all items below `/X`; the
//! client subscribes to `/X/Z` and sends Z on `/X/Y`; the server announces `/X/Z`. Both ways use
//! one protocol: pieces in order, as many outstanding as the window, acknowledged by their count.

use super::figures::{PACKET, Run};
use super::node::{NodeNetwork, failed};
use crate::testbed::Failure;
use nw_api::pubsub::{ItemName, ScopePattern};
use nw_app::pubsub::{ItemNumber, PubSubOptions, Publisher, Received, Subscriber, WhenFull};
use nw_testbed::{PointLink, PointNetwork};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) const PUBSUB_TOTAL: &str = "publish/subscribe, total";
pub(super) const UDP_TOTAL: &str = "UDP, total";
const PUBSUB_EACH: &str = "publish/subscribe, a client";
const UDP_EACH: &str = "UDP, a client";
/// Rate of the server's link, Mbit/s.
const RATE_MBIT: f64 = 100.0;
/// Pieces under way to a client.
const WINDOW: u64 = 16;
/// Longest wait for a piece or an acknowledgement.
const PATIENCE: Duration = Duration::from_secs(10);
/// Wait for an acknowledgement after which the server sends again what is under way.
const RETRY: Duration = Duration::from_millis(200);
const SERVER: usize = 1;
const FIRST_CLIENT: usize = 2;
const UDP_PORT: u16 = 7007;

/// Measures the figure.
pub(super) fn measure(run: &mut Run<'_>) -> Result<(), Failure> {
    let (counts, pieces): (&[usize], u64) = match run.is_quick() {
        true => (&[1, 2], 400),
        false => (&[1, 2, 4, 8, 13], 16_000),
    };
    let most = counts[counts.len() - 1];
    let mut links = vec![PointLink { ends: (0, SERVER), rate_mbit: Some(RATE_MBIT) }];
    links.extend((0..most).map(|client| PointLink::unlimited(0, FIRST_CLIENT + client)));
    (run.watch.progress)("figure 7: a server, and clients behind one link");
    let nodes = NodeNetwork::start(&run.options.nw, FIRST_CLIENT + most, &links)?;
    nodes.network().route_through(0)?;
    for clients in counts {
        let each = pieces / *clients as u64;
        for (total, per_client, is_udp) in
            [(PUBSUB_TOTAL, PUBSUB_EACH, false), (UDP_TOTAL, UDP_EACH, true)]
        {
            (run.watch.progress)(&format!("figure 7: {total}, clients: {clients}"));
            let started = Instant::now();
            match is_udp {
                true => by_udp(nodes.network(), *clients, each)?,
                false => by_items(&nodes, *clients, each)?,
            }
            let bytes = (each * *clients as u64 * PACKET as u64) as f64;
            let rate = bytes / started.elapsed().as_secs_f64() / 1e6;
            run.add(7, total, *clients as f64, rate);
            run.add(7, per_client, *clients as f64, rate / *clients as f64);
            if (run.watch.is_interrupted)() {
                return Err(Failure::Interrupted);
            }
        }
    }
    Ok(())
}

/// The state of a transfer to one client.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    sent: u64,
    acknowledged: u64,
    heard: Instant,
}

impl Transfer {
    fn new() -> Self {
        Transfer { sent: 0, acknowledged: 0, heard: Instant::now() }
    }

    /// Takes the count of an acknowledgement.
    fn acknowledge(&mut self, count: u64) {
        self.acknowledged = self.acknowledged.max(count.min(self.sent));
        self.heard = Instant::now();
    }

    /// Returns the pieces to send now.
    fn due(&mut self, pieces: u64) -> std::ops::Range<u64> {
        if self.sent > self.acknowledged && self.heard.elapsed() > RETRY {
            self.heard = Instant::now();
            return self.acknowledged..self.sent;
        }
        let from = self.sent;
        self.sent = pieces.min(self.acknowledged + WINDOW);
        from..self.sent
    }
}

/// Returns the number at the begin of a piece or an acknowledgement.
fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Counts pieces that come in order.
struct Pieces {
    next: u64,
    all: u64,
}

impl Pieces {
    /// Takes a piece. Returns the count to acknowledge: after half a window, at the end, and when a
    /// piece comes again.
    fn take(&mut self, number: u64) -> Option<u64> {
        if number == self.next {
            self.next += 1;
            let is_due = self.next.is_multiple_of(WINDOW / 2) || self.next == self.all;
            return is_due.then_some(self.next);
        }
        Some(self.next)
    }
}

fn by_items(nodes: &NodeNetwork, clients: usize, pieces: u64) -> Result<(), Failure> {
    let server_path = nodes.path(SERVER);
    std::thread::scope(|scope| {
        let server = scope.spawn(move || serve_items(&server_path, clients, pieces));
        let receivers: Vec<_> = (0..clients)
            .map(|client| {
                let path = nodes.path(FIRST_CLIENT + client);
                scope.spawn(move || fetch_items(&path, client, pieces))
            })
            .collect();
        let receivers = receivers.into_iter().map(joined).collect::<Result<Vec<()>, _>>();
        joined(server).and(receivers.map(|_| ()))
    })
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn item(text: &str) -> Result<ItemName, Failure> {
    text.parse().map_err(|error| failed("an item", error))
}

fn serve_items(path: &Path, clients: usize, pieces: u64) -> Result<(), Failure> {
    let error = |error| failed("the server", error);
    let options = PubSubOptions::at(path);
    let mut publisher = Publisher::connect(&options, WhenFull::Wait(PATIENCE)).map_err(error)?;
    let mut subscriber = Subscriber::connect(&options).map_err(error)?;
    let requests: ScopePattern = "/x/*/y".parse().map_err(|error| failed("the scope", error))?;
    subscriber.subscribe(&requests, false).map_err(error)?;
    let mut transfers: BTreeMap<String, (ItemNumber, Transfer)> = BTreeMap::new();
    let (mut payload, started) = (vec![7; PACKET], Instant::now());
    let mut heard = started;
    loop {
        if let Received::Publication { name, payload, .. } =
            subscriber.receive(Duration::from_millis(20)).map_err(error)?
        {
            heard = Instant::now();
            match (transfers.get_mut(name), number(payload)) {
                (Some((_, transfer)), Some(count)) => transfer.acknowledge(count),
                (None, _) => {
                    // The first message of a client names the item that it subscribes to.
                    let answer = item(&String::from_utf8_lossy(payload))?;
                    let answer = publisher.announce(&answer, false).map_err(error)?;
                    transfers.insert(name.to_owned(), (answer, Transfer::new()));
                }
                _ => {}
            }
        }
        for (answer, transfer) in transfers.values_mut() {
            if publisher.subscribers(*answer).map_err(error)? == 0 {
                continue;
            }
            for piece in transfer.due(pieces) {
                payload[..8].copy_from_slice(&piece.to_le_bytes());
                publisher.publish(*answer, &payload).map_err(error)?;
            }
        }
        let is_done = |(_, transfer): &(ItemNumber, Transfer)| transfer.acknowledged == pieces;
        if transfers.len() == clients && transfers.values().all(is_done) {
            return Ok(());
        }
        if heard.elapsed() > PATIENCE {
            return Err(failed("the server", "the clients are silent"));
        }
    }
}

fn fetch_items(path: &Path, client: usize, pieces: u64) -> Result<(), Failure> {
    let error = |error| failed("a client", error);
    let options = PubSubOptions::at(path);
    let mut publisher = Publisher::connect(&options, WhenFull::Wait(PATIENCE)).map_err(error)?;
    let mut subscriber = Subscriber::connect(&options).map_err(error)?;
    let answer = format!("/x/{client}/z");
    let pattern: ScopePattern = answer.parse().map_err(|error| failed("an item", error))?;
    subscriber.subscribe(&pattern, false).map_err(error)?;
    let channel = publisher.announce(&item(&format!("/x/{client}/y"))?, false).map_err(error)?;
    let deadline = Instant::now() + PATIENCE;
    while publisher.subscribers(channel).map_err(error)? == 0 {
        if Instant::now() > deadline {
            return Err(failed("a client", "the server did not come"));
        }
        publisher.next_change(Duration::from_millis(20)).map_err(error)?;
    }
    publisher.publish(channel, answer.as_bytes()).map_err(error)?;
    let mut received = Pieces { next: 0, all: pieces };
    while received.next < pieces {
        match subscriber.receive(PATIENCE).map_err(error)? {
            Received::Publication { payload, .. } => {
                if let Some(count) = number(payload).and_then(|number| received.take(number)) {
                    publisher.publish(channel, &count.to_le_bytes()).map_err(error)?;
                }
            }
            Received::Lost { .. } => {}
            Received::Nothing => return Err(failed("a client", "the server is silent")),
        }
    }
    // The last acknowledgement leaves before this end does.
    publisher.drain(PATIENCE).map_err(error)?;
    std::thread::sleep(Duration::from_millis(50));
    Ok(())
}

fn by_udp(network: &PointNetwork, clients: usize, pieces: u64) -> Result<(), Failure> {
    let server = SocketAddr::from((PointNetwork::address(SERVER, 0), UDP_PORT));
    let node = |number: usize| &network.nodes()[number];
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || {
            node(SERVER).within(|| serve_udp(server, clients, pieces).map_err(Failure::from))
        });
        let receivers: Vec<_> = (0..clients)
            .map(|client| {
                scope.spawn(move || {
                    let at = node(FIRST_CLIENT + client);
                    at.within(|| fetch_udp(server, pieces).map_err(Failure::from))
                })
            })
            .collect();
        let receivers = receivers.into_iter().map(joined).collect::<Result<Vec<()>, _>>();
        joined(sender).and(receivers.map(|_| ()))
    })
}

fn serve_udp(at: SocketAddr, clients: usize, pieces: u64) -> std::io::Result<()> {
    let socket = UdpSocket::bind(at)?;
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut transfers: BTreeMap<SocketAddr, Transfer> = BTreeMap::new();
    let (mut payload, mut buffer, mut heard) = (vec![7; PACKET], [0; 64], Instant::now());
    loop {
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            heard = Instant::now();
            let transfer = transfers.entry(from).or_insert_with(Transfer::new);
            transfer.acknowledge(number(&buffer[..len]).unwrap_or(0));
        }
        for (client, transfer) in &mut transfers {
            for piece in transfer.due(pieces) {
                payload[..8].copy_from_slice(&piece.to_le_bytes());
                socket.send_to(&payload, client)?;
            }
        }
        let is_done = |transfer: &Transfer| transfer.acknowledged == pieces;
        if transfers.len() == clients && transfers.values().all(is_done) {
            return Ok(());
        }
        if heard.elapsed() > PATIENCE {
            return Err(std::io::Error::other("the clients are silent"));
        }
    }
}

fn fetch_udp(server: SocketAddr, pieces: u64) -> std::io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(RETRY))?;
    let (mut received, mut buffer) = (Pieces { next: 0, all: pieces }, vec![0; 2 * PACKET]);
    let deadline = Instant::now() + 6 * PATIENCE;
    socket.send(&0_u64.to_le_bytes())?;
    while received.next < pieces {
        match socket.recv(&mut buffer) {
            Ok(len) => {
                if let Some(count) = number(&buffer[..len]).and_then(|piece| received.take(piece)) {
                    socket.send(&count.to_le_bytes())?;
                }
            }
            // The server may not listen yet.
            Err(_) if Instant::now() < deadline => {
                socket.send(&received.next.to_le_bytes())?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_sends_a_window_and_again_what_is_not_acknowledged() {
        let mut transfer = Transfer::new();
        assert_eq!(transfer.due(100), 0..16);
        assert_eq!(transfer.due(100), 16..16);
        transfer.acknowledge(8);
        assert_eq!(transfer.due(100), 16..24);
        transfer.heard = Instant::now().checked_sub(2 * RETRY).expect("the clock runs");
        assert_eq!(transfer.due(100), 8..24);
        // A count that was never sent changes nothing.
        transfer.acknowledge(90);
        assert_eq!((transfer.acknowledged, transfer.due(24)), (24, 24..24));
    }

    #[test]
    fn pieces_are_acknowledged_by_half_windows_and_when_repeated() {
        let mut pieces = Pieces { next: 0, all: 10 };
        let counts: Vec<_> = (0..10).filter_map(|piece| pieces.take(piece)).collect();
        assert_eq!(counts, [8, 10]);
        assert_eq!(pieces.take(3), Some(10));
    }
}
