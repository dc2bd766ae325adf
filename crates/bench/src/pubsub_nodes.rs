//! `lipsin/veth`, `pubsub/chain13` and `rendezvous/local` with nodes as processes; those of the
//! first two are in network namespaces, and left out without root's rights.
//!
//! - `lipsin/veth`: processor time of a node between publisher's and subscriber's nodes, for each
//!   packet of at most 1,400 bytes that it passes on: over UDP, over Ethernet with packet sockets
//!   and with those of AF_XDP, and with the kernel forwarding; and processor time of the kernel for it (`lipsin_xdp.rs`). Reference over UDP: a
//!   relay that looks at nothing, at the same pace (`lipsin_relay.rs`).
//! - `pubsub/chain13`: loss at the 13 nodes after the publisher's, at 80 % of the rate that all of
//!   them received before.
//! - `rendezvous/local`: the time from a subscription to the publication that it asks for, with
//!   100,000 items and 1, 200 and 500 subscribers at once; and the pure part.

use crate::report::Row;
use crate::transfer::Place;
use crate::{lipsin_relay, lipsin_xdp, publish_subscribe};
use anyhow::{Result, ensure};
use nw_experiments::Watch;
use nw_experiments::blackadder::flow::{self, Load};
use nw_experiments::blackadder::node::{LocalNode, NodeNetwork};
use nw_experiments::blackadder::response::{ResponseLoad, respond};
use nw_experiments::blackadder::{PACKET, chain_flow};
use std::path::PathBuf;
use std::time::Duration;

const RUNS: usize = 3;
/// Items of the publisher.
const ITEMS: u32 = 100_000;
/// Responses that are measured with each number of subscribers.
const RESPONSES: u32 = 10_000;
/// Packets through the middle node, and their distance in microseconds.
const PACKETS: (u64, f64) = (40_000, 50.0);
/// Bytes of the relay's datagrams.
const PACKET_LEN: usize = 1400;

/// Measures a row.
///
/// # Errors
/// If a node does not start or fails.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let watch = Watch { is_interrupted: &|| false, progress: &|_| {} };
    let place = Place::new()?;
    let nw = place.nw.clone();
    if row == "rendezvous/local" {
        let mut rows = rendezvous(row, &nw, &watch)?;
        rows.extend(publish_subscribe::run(row));
        return Ok(rows);
    }
    if let Err(error) = nw_testbed::needs_root() {
        eprintln!("{row} is left out: {error}");
        return Ok(Vec::new());
    }
    match row {
        "lipsin/veth" => transit(row, &place, &watch),
        _ => chain(row, &nw, &watch),
    }
}

fn rendezvous(row: &str, nw: &std::path::Path, watch: &Watch<'_>) -> Result<Vec<Row>> {
    let node = LocalNode::start(nw)?;
    let mut rows = Vec::new();
    let mut most: Vec<f64> = Vec::new();
    for subscribers in [1, 200, 500] {
        let load = ResponseLoad::random(ITEMS, (RESPONSES / subscribers).min(500));
        let paths = vec![node.path(); subscribers as usize];
        let (mut mean, mut per_s) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let responses = respond(&node.path(), &paths, &load, watch)?;
            ensure!(responses.missed == 0, "{} publications did not come", responses.missed);
            mean.push(responses.mean_ms());
            per_s.push(responses.per_s());
        }
        rows.push(Row::new(row, format!("mean_ms_{subscribers}"), &mean));
        if crate::report::median(&per_s) > crate::report::median(&most) || most.is_empty() {
            most = per_s;
        }
    }
    rows.push(Row::new(row, "per_s", &most));
    Ok(rows)
}

/// Links of the nodes of `lipsin/veth`, as lines of their configurations.
const ETHERNET: &str = "udp = false\nethernet = true\n";
const AF_XDP: &str = "udp = false\nethernet = true\nethernet_sockets = \"xdp\"\n";
const KERNEL: &str = "udp = false\nethernet = true\nxdp = true\n";

/// Measures how a node passes packets on: over UDP, over Ethernet, and in the kernel.
fn transit(row: &str, place: &Place, watch: &Watch<'_>) -> Result<Vec<Row>> {
    let relay = lipsin_relay::measure(&place.me, RUNS, PACKETS, PACKET_LEN)?;
    let mut rows = Vec::new();
    let kinds = [("", ""), ("ethernet_", ETHERNET), ("af_xdp_", AF_XDP), ("xdp_node_", KERNEL)];
    for (prefix, links) in kinds {
        let (cpu, lost) = transit_over(links, &place.nw, watch)?;
        let cpu = Row::new(row, format!("{prefix}cpu_us_per_packet"), &cpu);
        let lost = Row::new(row, format!("{prefix}lost"), &lost);
        match links {
            // The process does next to nothing: what the kernel does is measured below.
            KERNEL => rows.extend([cpu, lost]),
            // On request, and beside the row with a bound.
            AF_XDP => rows.extend([cpu, lost]),
            _ => {
                let cpu = match links {
                    "" => cpu.with_reference(crate::report::median(&relay)),
                    _ => cpu,
                };
                rows.extend([cpu, lost]);
            }
        }
    }
    let (cpu, lost) = lipsin_xdp::measure(RUNS)?;
    rows.push(Row::new(row, "xdp_cpu_us_per_packet", &cpu));
    rows.push(Row::new(row, "xdp_lost", &lost));
    Ok(rows)
}

/// Publishes at node 1; node 2 passes packets on to the subscriber at node 3. Returns processor
/// time per packet, microseconds, and losses of each run.
fn transit_over(
    links: &str,
    nw: &std::path::Path,
    watch: &Watch<'_>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let nodes = NodeNetwork::chain_with(nw, 4, links)?;
    let (count, interval_us) = PACKETS;
    let load = Load { payload: PACKET, count, interval_us, ring_bytes: 8 << 20 };
    let (mut cpu, mut lost) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let before = nodes.cpu(2);
        let flow = flow::run(&nodes.path(1), &[nodes.path(3)], 1, &load, watch)?;
        let used = nodes.cpu(2).saturating_sub(before);
        cpu.push(used.as_secs_f64() * 1e6 / count as f64);
        lost.push(flow.loss());
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok((cpu, lost))
}

fn chain(row: &str, nw: &std::path::Path, watch: &Watch<'_>) -> Result<Vec<Row>> {
    const REACHED: usize = 13;
    let nodes = NodeNetwork::chain(nw, REACHED + 2)?;
    let paths: Vec<PathBuf> = (2..REACHED + 2).map(|node| nodes.path(node)).collect();
    let (mut lost, mut unexplained, mut rate) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let flow = chain_flow(&nodes, &paths, REACHED, 50_000, watch)?;
        lost.push(flow.loss());
        unexplained.push(flow.unexplained() as f64);
        rate.push(flow.publisher.per_s());
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(vec![
        Row::new(row, "lost", &lost),
        Row::new(row, "unexplained", &unexplained),
        Row::new(row, "messages_per_s", &rate),
    ])
}
