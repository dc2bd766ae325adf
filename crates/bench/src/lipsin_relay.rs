//! The reference of `lipsin/veth`: a relay of UDP datagrams between namespaces, which looks at
//! nothing (`veth/null.rs`). Its processor time is what the kernel takes at the same pace.

use anyhow::{Result, ensure};
use nw_testbed::{PointLink, PointNetwork};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const PORT: u16 = 55_556;
/// Time in which the relay is ready.
const START_TIME: Duration = Duration::from_millis(500);
/// Pause of datagrams after which the receiver ends.
const SILENCE: Duration = Duration::from_millis(500);
/// Share of datagrams that must arrive, so that the relay's time is that of relaying.
const ARRIVED_MIN: f64 = 0.8;

/// Sends datagrams of `len` bytes through a relay, `count` at a distance of `interval_us`. Returns
/// the relay's processor time for each, microseconds, of each run.
///
/// # Errors
/// If the namespaces can't be made, or most datagrams are lost.
pub fn measure(
    me: &Path,
    runs: usize,
    (count, interval_us): (u64, f64),
    len: usize,
) -> Result<Vec<f64>> {
    let links = [PointLink::unlimited(0, 1), PointLink::unlimited(1, 2)];
    let network = PointNetwork::build(3, &links)?;
    let address = |node, other| SocketAddr::from((PointNetwork::address(node, other), PORT));
    let mut command = Command::new(me);
    command.arg("veth-null").arg(format!("0.0.0.0:{PORT}"));
    command.args([address(0, 1).to_string(), address(2, 1).to_string()]);
    let relay = network.nodes()[1].start("relay", &mut command)?;
    let open = |node: usize| -> Result<UdpSocket> {
        let at = address(node, 1);
        network.nodes()[node].within(|| Ok::<_, anyhow::Error>(UdpSocket::bind(at)?))
    };
    let (sender, receiver) = (open(0)?, open(2)?);
    receiver.set_read_timeout(Some(SILENCE))?;
    std::thread::sleep(START_TIME);
    let mut cpu_us = Vec::new();
    for _ in 0..runs {
        let before = relay.cpu();
        let arrived = std::thread::scope(|scope| {
            let arrivals = scope.spawn(|| receive(&receiver, len));
            send(&sender, address(1, 0), (count, interval_us), len)?;
            Ok::<_, anyhow::Error>(arrivals.join().unwrap_or(0))
        })?;
        ensure!(arrived as f64 >= ARRIVED_MIN * count as f64, "{arrived} of {count} datagrams");
        let used = relay.cpu().saturating_sub(before);
        cpu_us.push(used.as_secs_f64() * 1e6 / arrived as f64);
    }
    Ok(cpu_us)
}

fn send(
    socket: &UdpSocket,
    to: SocketAddr,
    (count, interval_us): (u64, f64),
    len: usize,
) -> Result<()> {
    let (datagram, started) = (vec![7; len], Instant::now());
    for number in 0..count {
        let due = started + Duration::from_secs_f64(number as f64 * interval_us / 1e6);
        while Instant::now() < due {
            std::thread::yield_now();
        }
        socket.send_to(&datagram, to)?;
    }
    Ok(())
}

/// Returns the number of datagrams received until none comes any more.
fn receive(socket: &UdpSocket, len: usize) -> u64 {
    let (mut buffer, mut count) = (vec![0; len], 0);
    let mut silent = 0;
    // The first one may take its time.
    while silent < 3 {
        match socket.recv(&mut buffer) {
            Ok(_) => (count, silent) = (count + 1, 0),
            Err(_) => silent += 1,
        }
    }
    count
}
