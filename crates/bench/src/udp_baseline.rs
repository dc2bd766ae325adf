//! The reference for transfers over UDP: a sender of plain datagrams, and a receiver that counts
//! them.
//!
//! The sender keeps a window, because it would otherwise only measure how much a socket loses: the
//! receiver acknowledges every sixteenth datagram. Lost datagrams are not sent again and not
//! counted. Each datagram takes one system call, as datagrams longer than the path's MTU must.

use anyhow::{Result, ensure};
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// In place of a datagram's number: a probe for the receiver.
const HELLO: u64 = u64::MAX;
/// Number of datagrams per acknowledgement.
const ACK_INTERVAL: u64 = 16;
/// Socket receive buffer in bytes, as in the router.
const RECEIVE_BUFFER: usize = 8 << 20;
const SEND_BUFFER: usize = 4 << 20;
/// Time without an acknowledgement after which all outstanding datagrams count as lost.
const TIMEOUT: Duration = Duration::from_millis(20);
/// Time without a datagram after which the receiver ends.
const END_TIMEOUT: Duration = Duration::from_millis(500);
/// Time for the other end to start, or to be ended by its parent process.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of the receiver.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReceiveStats {
    /// Datagrams.
    pub datagrams: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Time from the first datagram to the last.
    pub seconds: f64,
}

fn bind(address: SocketAddr, timeout: Duration) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    // As on a router's sockets, the kernel fragments datagrams longer than the path's MTU.
    sockopt::set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DONT)?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
    }
    if sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER).is_err() {
        sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
    }
    socket.set_read_timeout(Some(timeout))?;
    Ok(socket)
}

fn number_in(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|number| u64::from_be_bytes(*number))
}

/// Receives a datagram and returns its number, length and sender. `None` if the socket's timeout
/// passes.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Result<Option<(u64, usize, SocketAddr)>> {
    match socket.recv_from(buffer) {
        Ok((len, peer)) => Ok(number_in(&buffer[..len]).map(|number| (number, len, peer))),
        // Refused: the other end does not exist yet, or has ended.
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

/// Sends `count` datagrams of `len` bytes, at most `window` outstanding, after the receiver has
/// answered. Then it waits to be ended, so that its processor time can be read.
///
/// # Errors
/// If no receiver answers, or a system call fails.
pub fn send(from: SocketAddr, to: SocketAddr, count: u64, len: usize, window: u64) -> Result<()> {
    ensure!((8..=65_000).contains(&len), "a datagram has 8 to 65000 bytes");
    let socket = bind(from, TIMEOUT)?;
    socket.connect(to)?;
    let (mut datagram, mut answer) = (vec![0x5a; len], [0; 8]);
    let started = Instant::now();
    loop {
        datagram[..8].copy_from_slice(&HELLO.to_be_bytes());
        // Refused until the receiver exists; only the answer matters.
        let _ = socket.send(&datagram);
        match receive(&socket, &mut answer)? {
            Some((HELLO, ..)) => break,
            _ => ensure!(started.elapsed() < START_TIMEOUT, "no receiver at {to}"),
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
    std::thread::sleep(START_TIMEOUT);
    Ok(())
}

/// Counts datagrams until the last of `count` has arrived, or none arrives for a time.
///
/// # Errors
/// If no datagram arrives, or a system call fails.
pub fn count(at: SocketAddr, count: u64) -> Result<ReceiveStats> {
    let socket = bind(at, END_TIMEOUT)?;
    let mut buffer = vec![0; 65_536];
    let (started, mut first, mut last) = (Instant::now(), None, None);
    let mut arrived = ReceiveStats { datagrams: 0, bytes: 0, seconds: 0.0 };
    loop {
        let Some((number, len, peer)) = receive(&socket, &mut buffer)? else {
            if first.is_some() {
                break;
            }
            ensure!(started.elapsed() < START_TIMEOUT, "nothing came to {at}");
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
        if number % ACK_INTERVAL == ACK_INTERVAL - 1 {
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
    fn datagrams_within_window_arrive() {
        // An address of its own, so that no parallel test can take the free port meanwhile. Both
        // sockets are held until both ports are known.
        let ends = [(); 2].map(|()| UdpSocket::bind("127.73.1.1:0").unwrap());
        let [from, to] = ends.each_ref().map(|end| end.local_addr().unwrap());
        drop(ends);
        // It waits to be ended, and ends with the process of this test.
        std::thread::spawn(move || send(from, to, 5000, 1000, 32));
        let arrived = count(to, 5000).unwrap();
        assert_eq!((arrived.datagrams, arrived.bytes), (5000, 5_000_000));
        assert!(arrived.seconds > 0.0);
    }
}
