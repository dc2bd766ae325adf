//! What a router's transfers over UDP are held against: a sender of plain datagrams, and a receiver that counts what arrives.
//!
//! The sender keeps a window, or it would only measure how much a socket loses: the receiver says of every sixteenth datagram that it came. What
//! is lost stays lost and is not counted. Datagrams go one a call, as those that are longer than the path's MTU have to.

use anyhow::{Result, ensure};
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Instead of a datagram's number: is anybody there?
const HELLO: u64 = u64::MAX;
/// Datagrams of which one is acknowledged.
const ACKNOWLEDGED_EVERY: u64 = 16;
/// Octets of the receiver's buffer: those of a router.
const RECEIVE_BUFFER: usize = 8 << 20;
const SEND_BUFFER: usize = 4 << 20;
/// After so long without a word all that is on the way is lost.
const PATIENCE: Duration = Duration::from_millis(20);
/// After so long without a datagram there is no more to come.
const SILENCE: Duration = Duration::from_millis(500);
/// For the other end to start, or to be ended by whoever started it.
const STARTING: Duration = Duration::from_secs(10);

/// What arrived.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Arrived {
    /// Datagrams.
    pub datagrams: u64,
    /// Their octets.
    pub bytes: u64,
    /// First to last.
    pub seconds: f64,
}

fn bind(address: SocketAddr, patience: Duration) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    // As a router's sockets are: the system cuts what is longer than the path's MTU.
    sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DONT)?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
    }
    if sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER).is_err() {
        sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
    }
    socket.set_read_timeout(Some(patience))?;
    Ok(socket)
}

fn number_in(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|number| u64::from_be_bytes(*number))
}

/// The number in what comes next; `None` when nothing does for as long as the socket waits.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Result<Option<(u64, usize, SocketAddr)>> {
    match socket.recv_from(buffer) {
        Ok((len, peer)) => Ok(number_in(&buffer[..len]).map(|number| (number, len, peer))),
        // Refused: the other end is not there yet, or no longer.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::WouldBlock
                    | ErrorKind::TimedOut
                    | ErrorKind::Interrupted
                    | ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Sends `count` datagrams of `len` octets, so many on their way at most, once somebody is there; then waits to be ended, so that its
/// processor time can be read.
///
/// # Errors
/// When nobody is there, or the system refuses.
pub fn send(from: SocketAddr, to: SocketAddr, count: u64, len: usize, window: u64) -> Result<()> {
    ensure!((8..=65_000).contains(&len), "a datagram has 8 to 65000 octets");
    let socket = bind(from, PATIENCE)?;
    socket.connect(to)?;
    let (mut datagram, mut answer) = (vec![0x5a; len], [0; 8]);
    let started = Instant::now();
    loop {
        datagram[..8].copy_from_slice(&HELLO.to_be_bytes());
        // Refused as long as nobody is there; the answer is what counts.
        let _ = socket.send(&datagram);
        match receive(&socket, &mut answer)? {
            Some((HELLO, ..)) => break,
            _ => ensure!(started.elapsed() < STARTING, "nobody is at {to}"),
        }
    }
    let (mut sent, mut came) = (0, 0);
    while sent < count {
        while sent < count && sent < came + window {
            datagram[..8].copy_from_slice(&sent.to_be_bytes());
            socket.send(&datagram)?;
            sent += 1;
        }
        match receive(&socket, &mut answer)? {
            Some((HELLO, ..)) => {}
            Some((number, ..)) => came = came.max(number + 1),
            None => came = sent,
        }
    }
    std::thread::sleep(STARTING);
    Ok(())
}

/// Counts what arrives until the last of `count` datagrams has, or nothing more comes.
///
/// # Errors
/// When nothing comes at all, or the system refuses.
pub fn count(at: SocketAddr, count: u64) -> Result<Arrived> {
    let socket = bind(at, SILENCE)?;
    let mut buffer = vec![0; 65_536];
    let (started, mut first, mut last) = (Instant::now(), None, None);
    let mut arrived = Arrived { datagrams: 0, bytes: 0, seconds: 0.0 };
    loop {
        let Some((number, len, peer)) = receive(&socket, &mut buffer)? else {
            if first.is_some() {
                break;
            }
            ensure!(started.elapsed() < STARTING, "nothing came to {at}");
            continue;
        };
        if number == HELLO {
            socket.send_to(&HELLO.to_be_bytes(), peer)?;
            continue;
        }
        let now = Instant::now();
        first.get_or_insert(now);
        last = Some(now);
        arrived.datagrams += 1;
        arrived.bytes += len as u64;
        if number % ACKNOWLEDGED_EVERY == ACKNOWLEDGED_EVERY - 1 {
            socket.send_to(&number.to_be_bytes(), peer)?;
        }
        if number + 1 == count {
            break;
        }
    }
    if let (Some(first), Some(last)) = (first, last) {
        arrived.seconds = last.duration_since(first).as_secs_f64();
    }
    Ok(arrived)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_within_the_window_arrives() {
        // At an address of its own: a port that is free here can't be taken by a test beside this one meanwhile. Both are held until both are known.
        let ends = [(); 2].map(|()| UdpSocket::bind("127.73.1.1:0").unwrap());
        let [from, to] = ends.each_ref().map(|end| end.local_addr().unwrap());
        drop(ends);
        // Waits to be ended, and ends with this test's process.
        std::thread::spawn(move || send(from, to, 5000, 1000, 32));
        let arrived = count(to, 5000).unwrap();
        assert_eq!((arrived.datagrams, arrived.bytes), (5000, 5_000_000));
        assert!(arrived.seconds > 0.0);
    }
}
