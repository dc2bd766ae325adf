//! `cluster/multicast`: five consumers request the same names before the first answer: the number
//! of packets per name on the producer's link.

use super::name;
use crate::report::Row;
use anyhow::{Context, Result, anyhow, ensure};
use nw_name::Name;
use nw_testbed::{Cluster, LabError, PORT, Plan};
use nw_wire::{DataBuilder, DigestSha256, Interest, InterestBuilder, LpHeader, LpPacket};
use std::net::UdpSocket;
use std::time::{Duration, Instant};

const MEMBERS: usize = 3;
const CONSUMERS: usize = 5;
const NAMES: u32 = 1000;
/// Port of the producer's socket.
const PRODUCER_PORT: u16 = 7000;
/// Time without a packet after which the counting ends.
const IDLE_TIMEOUT: Duration = Duration::from_millis(500);
/// Packets per burst, and the pause between bursts, so that no buffer overflows.
const BURST_LEN: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);
const TIMEOUT: Duration = Duration::from_secs(10);

pub fn run(row: &str, plan: &Plan) -> Result<Vec<Row>> {
    let cluster = Cluster::build(&Plan { consumers: CONSUMERS, members: MEMBERS, ..plan.clone() })?;
    let producer = &cluster.producers()[0];
    let at = producer.node.addresses.v4;
    let prefix = name("/multicast");
    let answering = producer.node.within(|| socket((at, PRODUCER_PORT).into()))?;
    cluster.add_route(&prefix, &format!("udp4://{at}:{PRODUCER_PORT}"))?;
    let mut asking = Vec::new();
    for consumer in cluster.consumers() {
        let socket = consumer.node.within(|| socket((consumer.node.addresses.v4, 0).into()))?;
        socket.connect((cluster.addresses().v4, PORT))?;
        asking.push(socket);
    }
    let before = cluster.traffic()?;
    // Each socket is read all the time, because none can buffer all packets.
    let (asked, answered) = std::thread::scope(|scope| {
        let answering = scope.spawn(|| answer(&answering));
        let counting: Vec<_> = asking.iter().map(|socket| scope.spawn(|| count(socket))).collect();
        request_all(&asking, &prefix)?;
        let panicked = |_| anyhow!("a thread panicked");
        let asked = answering.join().map_err(panicked)??;
        let counted: Result<Vec<_>> =
            counting.into_iter().map(|thread| thread.join().map_err(panicked)).collect();
        Ok::<_, anyhow::Error>((asked, counted?.iter().sum::<u64>()))
    })?;
    let passed = cluster.traffic()?["p1"].since(&before["p1"]);
    ensure!(
        answered == u64::from(NAMES) * CONSUMERS as u64,
        "{answered} of {} answers came",
        NAMES as usize * CONSUMERS
    );
    let each = |packets: u64| packets as f64 / f64::from(NAMES);
    Ok(vec![
        Row::new(row, "packets_per_name", &[each(asked)]),
        // Other packets on the link, such as address resolution.
        Row::new(row, "frames_per_name", &[each(passed.received_packets)]),
    ])
}

/// Sends an Interest from every consumer for each name in turn.
fn request_all(asking: &[UdpSocket], prefix: &Name) -> Result<()> {
    for number in 0..NAMES {
        for (at, socket) in asking.iter().enumerate() {
            let interest = InterestBuilder::new(prefix.clone().with_segment(number.into()))
                .nonce(number * CONSUMERS as u32 + at as u32)
                .lifetime_ms(TIMEOUT.as_millis() as u64);
            socket.send(&interest.encode())?;
        }
        pause(number);
    }
    Ok(())
}

fn socket(at: std::net::SocketAddr) -> Result<UdpSocket, LabError> {
    let open = || -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind(at)?;
        socket.set_read_timeout(Some(IDLE_TIMEOUT))?;
        Ok(socket)
    };
    open().map_err(|source| LabError::Io { what: format!("can't open a socket at {at}"), source })
}

fn pause(number: u32) {
    if number % BURST_LEN == BURST_LEN - 1 {
        std::thread::sleep(PAUSE);
    }
}

/// Answers all Interests after the last one has arrived. Returns their number.
fn answer(socket: &UdpSocket) -> Result<u64> {
    let mut asked = Vec::new();
    let mut buffer = [0; 2048];
    let end = Instant::now() + TIMEOUT;
    while Instant::now() < end {
        match socket.recv_from(&mut buffer) {
            Ok((len, from)) => asked.push((buffer[..len].to_vec(), from)),
            Err(_) if asked.is_empty() => {}
            Err(_) => break,
        }
    }
    for (at, (packet, from)) in asked.iter().enumerate() {
        let link = LpPacket::check(packet)?;
        let interest = Interest::check(link.fragment.context("an Interest was expected")?)?;
        let Ok(data) = DataBuilder::new(&interest.name().to_name(), b"multicast")
            .freshness_ms(1000)
            .encode(&DigestSha256);
        let mut out = Vec::new();
        let header = LpHeader { pit_token: link.pit_token, ..LpHeader::default() };
        if !header.is_empty() {
            header.encode(data.len(), &mut out);
        }
        out.extend_from_slice(&data);
        socket.send_to(&out, from)?;
        pause(at as u32);
    }
    Ok(asked.len() as u64)
}

/// Counts packets until none arrives for a time.
fn count(socket: &UdpSocket) -> u64 {
    let mut buffer = [0; 2048];
    let mut count = 0;
    let end = Instant::now() + TIMEOUT;
    let mut last = None;
    while Instant::now() < end && last.is_none_or(|last: Instant| last.elapsed() < 2 * IDLE_TIMEOUT)
    {
        if socket.recv(&mut buffer).is_ok() {
            count += 1;
            last = Some(Instant::now());
        }
    }
    count
}
