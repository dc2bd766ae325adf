//! Measures the balancer's program in nanoseconds per packet, by the kernel's run-time statistics,
//! next to a program that only swaps addresses: `cargo run --release -p nw-kernel --example
//! balancer_speed`.
//!
//! Each run has a fresh frame, as a run changes it. The cost of the statistics is in all values,
//! including the swap's. Then measures the packet rate of both on a path of veth pairs in a network
//! namespace of its own: source, program, sink.

#![allow(clippy::print_stdout)] // the purpose of the example

#[allow(dead_code, reason = "a part is used")]
#[path = "../tests/all/common/mod.rs"]
mod common;

use aya::programs::{TestRun, TestRunOptions, Xdp};
use common::cluster::{Cluster, VIP, entry};
use common::frames::Udp;
use common::net::{alone, index_of, ip};
use common::packets::{data, interest, link};
use nw_kernel::balancer::{
    AttachMode, Hop, Link, MemberEntry, RunTime, Sink, Source, Statistics, Swap,
};
use nw_slot_table::{Effect, Rule, Rules};
use nw_wire::lp::{LpHeader, Token};
use std::net::UdpSocket;

const RUNS: u32 = 20_000;
const ROUNDS: usize = 9;

fn main() {
    let statistics = Statistics::enable().expect("CAP_SYS_ADMIN");
    let started = std::time::Instant::now();
    let mut cluster = Cluster::new();
    println!("loading: {} ms", started.elapsed().as_millis());
    let mut swap = Swap::load(&entry(1).hop.expect("a hop")).expect("loaded");
    let peer = "198.51.100.7:50000";
    let frame = Udp::new(peer, VIP, &interest("/a")).frame();
    let swapped = median(|| {
        run(swap.program().expect("loaded"), &frame);
        swap.run_time().expect("statistics")
    });
    println!("a program that swaps addresses: {swapped:.0} ns");
    let header =
        LpHeader { pit_token: Token::new(&[3; 6]).expect("six bytes"), ..LpHeader::default() };
    let measure = |cluster: &mut Cluster, what: &str, udp: Udp| {
        let frame = udp.frame();
        let ns = median(|| {
            run(cluster.balancer.program().expect("loaded"), &frame);
            cluster.balancer.run_time().expect("statistics")
        });
        println!("| {what} | {ns:.0} ns | {:.0} ns |", ns - swapped);
    };
    hot(&mut cluster);
    println!("| packet | a run | more than the swap |\n|---|---|---|");
    for components in [1, 2, 4, 8, 12, 16] {
        let uri: String = (0..components).map(|i| format!("/part-{i:03}")).collect();
        measure(
            &mut cluster,
            &format!("Interest, {components} components of 8 bytes"),
            Udp::new(peer, VIP, &interest(&uri)),
        );
    }
    let uri = "/ndn/edu/video/v=7/seg=42";
    measure(
        &mut cluster,
        "Interest, link header with a token",
        Udp::new(peer, VIP, &link(&header, &interest(uri))),
    );
    measure(
        &mut cluster,
        "Interest, IPv6",
        Udp::new("[2001:db8:1::7]:50000", common::cluster::VIP6, &interest(uri)),
    );
    // The interface index that test runs have.
    let tagged = Link { interface_index: 50, underlying_index: 1, vlan: 5 };
    cluster.balancer.set_links(&[tagged]).expect("links");
    measure(
        &mut cluster,
        "Interest, VLAN tag taken off",
        Udp::new(peer, VIP, &interest(uri)).tagged(&[(0x8100, 5)]),
    );
    measure(&mut cluster, "Data to a member's port", Udp::new(peer, "192.0.2.1:6371", &data(uri)));
    measure(
        &mut cluster,
        "Data to a member's port, link header",
        Udp::new(peer, "192.0.2.1:6371", &link(&header, &data(uri))),
    );
    measure(&mut cluster, "another's UDP, passed", Udp::new(peer, "192.0.2.9:53", &data(uri)));
    let depth = Rule { prefix: "/ndn/edu".parse().expect("a name"), effect: Effect::Depth(3) };
    cluster.balancer.set_rules(&Rules::new([depth]).expect("rules")).expect("rules");
    let frame = Udp::new(peer, VIP, &interest(uri)).frame();
    let ns = median(|| {
        run(cluster.balancer.program().expect("loaded"), &frame);
        cluster.balancer.run_time().expect("statistics")
    });
    println!("| Interest, with a depth rule | {ns:.0} ns | {:.0} ns |", ns - swapped);
    drop((cluster, statistics));
    alone(path);
}

/// Measures without the cost of a test run: frames with a hop count that ends here are decided like
/// others, but not changed, so one frame can be run many times.
fn hot(cluster: &mut Cluster) {
    println!("| components | decided, many runs of one frame |\n|---|---|");
    for components in [1, 2, 4, 8, 12, 16] {
        let uri: String = (0..components).map(|i| format!("/part-{i:03}")).collect();
        let frame = Udp { ttl: 1, ..Udp::new("198.51.100.7:50000", VIP, &interest(&uri)) }.frame();
        let program = cluster.balancer.program().expect("loaded");
        let mut runs: Vec<_> = (0..ROUNDS)
            .map(|_| {
                let options = TestRunOptions {
                    data_in: Some(&frame),
                    repeat: 200_000,
                    ..TestRunOptions::default()
                };
                program.test_run(options).expect("a test run").duration.as_nanos()
            })
            .collect();
        runs.sort_unstable();
        println!("| {components} | {} ns (at least {} ns) |", runs[ROUNDS / 2], runs[0]);
    }
}

/// Number of frames in a rate measurement.
const SENT: u32 = 1_000_000;

/// Measures rates on the path: a0 ─ a1 [the program] b0 ─ b1 [the sink].
fn path() {
    ip("link add a0 type veth peer name a1");
    ip("link add b0 type veth peer name b1");
    ["a0", "a1", "b0", "b1"].iter().for_each(|end| ip(&format!("link set {end} up")));
    let sink = Sink::attach(index_of("b1")).expect("a sink");
    let hop = Hop { interface_index: index_of("b0"), ..entry(1).hop.expect("a hop") };
    ip("addr add 198.51.100.7/24 dev a0");
    ip("route add 192.0.2.1 dev a0");
    ip("neigh add 192.0.2.1 lladdr 02:00:00:00:00:22 dev a0 nud permanent");
    println!(
        "packets/s from a driver's frames, then from a socket; last the nanoseconds of the balancer by the kernel's \
         statistics"
    );
    println!(
        "| components | swap | balancer | ratio | swap | balancer | ratio | ns |\n|---|---|---|---|---|---|---|---|"
    );
    for components in [1, 4, 8, 16] {
        let uri: String = (0..components).map(|i| format!("/part-{i:03}")).collect();
        let frame = Udp::new("198.51.100.7:50000", VIP, &interest(&uri)).frame();
        let mut source = Source::load(index_of("a0"), &frame).expect("a source");
        let mut rates = [vec![], vec![], vec![], vec![]];
        let mut time = RunTime::default();
        for _ in 0..5 {
            let mut swap = Swap::load(&hop).expect("loaded");
            swap.attach(index_of("a1")).expect("attached");
            rates[0].push(rate(&sink, || source.send(SENT).expect("sent")));
            rates[2].push(rate(&sink, || socket(&interest(&uri))));
            drop(swap);
            let mut cluster = Cluster::new();
            for number in 1..=3 {
                cluster
                    .balancer
                    .set_member(number, &MemberEntry { hop: Some(hop), ..entry(number) })
                    .expect("a member");
            }
            cluster.balancer.attach("a1", Some(AttachMode::Native)).expect("attached");
            rates[1].push(rate(&sink, || source.send(SENT).expect("sent")));
            rates[3].push(rate(&sink, || socket(&interest(&uri))));
            let statistics = Statistics::enable().expect("statistics");
            source.send(SENT / 10).expect("sent");
            time = cluster.balancer.run_time().expect("statistics");
            drop(statistics);
        }
        let [swap, balancer, socket_swap, socket_balancer] = rates.map(|mut rates: Vec<f64>| {
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2]
        });
        println!(
            "| {components} | {swap:.0} | {balancer:.0} | {:.3} | {socket_swap:.0} | {socket_balancer:.0} | {:.3} | \
             {:.0} |",
            balancer / swap,
            socket_balancer / socket_swap,
            time.ns_per_run()
        );
    }
}

/// Returns the packets per second that arrived at the sink.
fn rate(sink: &Sink, mut send: impl FnMut()) -> f64 {
    let before = sink.frames().expect("counted");
    let started = std::time::Instant::now();
    send();
    (sink.frames().expect("counted") - before) as f64 / started.elapsed().as_secs_f64()
}

/// Sends like a consumer, from a socket.
fn socket(payload: &[u8]) {
    let socket = UdpSocket::bind("198.51.100.7:50000").expect("a socket");
    socket.connect(VIP).expect("a peer");
    for _ in 0..SENT / 5 {
        socket.send(payload).expect("sent");
    }
}

fn run(program: &mut Xdp, frame: &[u8]) {
    for _ in 0..RUNS {
        program
            .test_run(TestRunOptions { data_in: Some(frame), ..TestRunOptions::default() })
            .expect("a test run");
    }
}

/// Returns the median of several rounds, nanoseconds per run.
fn median(mut round: impl FnMut() -> RunTime) -> f64 {
    let mut before = RunTime::default();
    let mut values: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let now = round();
            let ns = now.since(before).ns_per_run();
            before = now;
            ns
        })
        .skip(1)
        .collect();
    values.sort_by(f64::total_cmp);
    values[ROUNDS / 2]
}
