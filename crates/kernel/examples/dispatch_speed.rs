//! Measures the choice of a shard in the kernel in nanoseconds, by BPF_PROG_TEST_RUN:
//! `cargo run --release -p nw-kernel --example dispatch_speed`.

#![allow(clippy::print_stdout)] // the purpose of the example

#[allow(dead_code, reason = "a part is used")]
#[path = "../tests/all/common/mod.rs"]
mod common;

use aya::programs::{TestRun, TestRunOptions};
use common::Probe;
use nw_kernel::{XdpOptions, XdpProgram};
use nw_name::{HashKey, Name};
use nw_wire::lp::{LpHeader, Token};
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder};

const REPEAT: u32 = 1_000_000;
const ROUNDS: usize = 9;

fn main() {
    let started = std::time::Instant::now();
    let mut probe = Probe::load();
    println!("loading: {} ms", started.elapsed().as_millis());
    probe.configure([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3211], 8);
    let header =
        LpHeader { pit_token: Token::new(&[3; 6]).expect("six bytes"), ..LpHeader::default() };
    let link = |packet: &[u8]| {
        let mut wire = Vec::new();
        header.encode(packet.len(), &mut wire);
        wire.extend_from_slice(packet);
        wire
    };
    println!("not an NDN packet: {} ns (the cost of a run itself)", median(&probe, &[0; 40]));
    println!("| components | name, bytes | Interest | Interest with a link header with a token |");
    println!("|---|---|---|---|");
    for components in [1, 2, 4, 6, 8, 12, 16] {
        let name = (0..components)
            .fold(Name::new(), |name, i| name.with_generic(format!("part-{i:03}").as_bytes()));
        let len = name.as_ref().as_bytes().len();
        let wire = InterestBuilder::new(name).nonce(7).encode();
        let (bare, linked) = (median(&probe, &wire), median(&probe, &link(&wire)));
        println!("| {components} | {len} | {bare} ns | {linked} ns |");
    }
    frames();
    let name: Name = "/ndn/edu/video/v=7/seg=42".parse().expect("a name");
    let data = DataBuilder::new(name.as_ref(), &[7; 1000]).encode(&DigestSha256).expect("signed");
    println!(
        "Data of 1000 bytes: by its token {} ns, by its name {} ns",
        median(&probe, &link(&data)),
        median(&probe, &data)
    );
}

/// Measures the whole XDP program, from the frame's first byte to its verdict.
fn frames() {
    let key = HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3211, 0, 0]);
    let mut program = XdpProgram::load(&key, 1, 8, &XdpOptions::default()).expect("loaded");
    let name: Name = "/ndn/edu/video/part/v=7/seg=42/a/b".parse().expect("a name");
    let interest = InterestBuilder::new(name).nonce(7).encode();
    for (what, protocol) in
        [("an Interest of 8 components in UDP over IPv4", 17), ("TCP with as many bytes", 6)]
    {
        let len = (interest.len() + 28) as u16;
        let mut frame = vec![0; 12];
        frame.extend_from_slice(&[8, 0, 0x45, 0]);
        frame.extend_from_slice(&len.to_be_bytes());
        frame.extend_from_slice(&[
            0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 200, 0,
        ]);
        frame.extend_from_slice(&6363u16.to_be_bytes());
        frame.extend_from_slice(&(len - 20).to_be_bytes());
        frame.extend_from_slice(&[0, 0]);
        frame.extend_from_slice(&interest);
        let program = program.program().expect("loaded");
        let mut runs: Vec<_> = (0..ROUNDS)
            .map(|_| {
                let options = TestRunOptions {
                    data_in: Some(&frame),
                    repeat: REPEAT,
                    ..TestRunOptions::default()
                };
                program.test_run(options).expect("a test run").duration.as_nanos()
            })
            .collect();
        runs.sort_unstable();
        println!("XDP, {what}: {} ns", runs[ROUNDS / 2]);
    }
}

fn median(probe: &Probe, packet: &[u8]) -> u64 {
    let mut runs: Vec<_> = (0..ROUNDS).map(|_| probe.run(packet, REPEAT).2).collect();
    runs.sort_unstable();
    runs[ROUNDS / 2]
}
