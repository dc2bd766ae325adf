//! Shared by the tests: golden vectors, the probe program, and whether this process has the rights.

pub mod cluster;
pub mod frames;
pub mod machines;
pub mod net;
pub mod packets;

use aya::maps::Array;
use aya::programs::{TestRun, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use nw_kernel::KernelError;
use nw_name::HashKey;
use rustix::thread::CapabilitySet;
use std::io::Write;
use std::path::Path;

/// One line of `tests/vectors/shards.txt`.
pub struct Vector {
    pub line: usize,
    pub key: [u64; 2],
    pub shards: u8,
    pub shard: u8,
    pub reason: String,
    pub packet: Vec<u8>,
}

pub fn vectors() -> Vec<Vector> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/shards.txt");
    let text = std::fs::read_to_string(path).expect("tests/vectors/shards.txt");
    let (mut key, mut vectors) = ([0; 2], Vec::new());
    for (line, text) in (1..).zip(text.lines()) {
        let fields: Vec<_> = text.split(' ').collect();
        match fields[..] {
            ["key", a, b] => {
                key = [a, b].map(|word| u64::from_str_radix(word, 16).expect("a word"))
            }
            [shards, shard, reason, packet] if !text.starts_with('#') => vectors.push(Vector {
                line,
                key,
                shards: shards.parse().expect("shards"),
                shard: shard.parse().expect("a shard"),
                reason: reason.to_owned(),
                packet: parse_hex(packet),
            }),
            _ => assert!(text.starts_with('#'), "line {line}"),
        }
    }
    assert!(vectors.len() > 400, "{} vectors", vectors.len());
    vectors
}

fn parse_hex(hex: &str) -> Vec<u8> {
    let digits = hex.strip_prefix('-').unwrap_or(hex);
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16).expect("hex"))
        .collect()
}

/// Returns a key with these first two words; the others don't matter.
pub fn hash_key([a, b]: [u64; 2]) -> HashKey {
    HashKey::new([a, b, 0, 0])
}

/// Returns whether the process has the rights for kernel programs. If so, no test may be skipped.
pub fn has_rights() -> bool {
    let needed = CapabilitySet::BPF | CapabilitySet::NET_ADMIN;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Returns the result; or `None`, with a line on stderr, if this process lacks the rights.
pub fn permitted<T>(test: &str, outcome: Result<T, KernelError>) -> Option<T> {
    match outcome {
        Ok(done) => Some(done),
        Err(e @ KernelError::Rights { .. }) if !has_rights() => {
            let _ = std::io::stderr().write_all(
                format!("skipped: {test}: no CAP_BPF and CAP_NET_ADMIN here ({e})\n").as_bytes(),
            );
            None
        }
        Err(e) => panic!("{test}: {e}: {:?}", std::error::Error::source(&e)),
    }
}

/// Returns whether this process has the rights; if not, prints that the test is skipped.
pub fn may_run(test: &str) -> bool {
    if !has_rights() {
        let _ = std::io::stderr().write_all(
            format!("skipped: {test}: this process has no CAP_BPF and CAP_NET_ADMIN\n").as_bytes(),
        );
    }
    has_rights()
}

static PROBE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/probe.o"));

/// The code that all programs share, run on a packet after 14 bytes.
pub struct Probe(Ebpf);

impl Probe {
    pub fn load() -> Self {
        let mut ebpf = EbpfLoader::new().btf(None).load(PROBE).expect("the probe's maps");
        let program: &mut Xdp =
            ebpf.program_mut("nw_probe").expect("nw_probe").try_into().expect("an XDP program");
        program.load().unwrap_or_else(|e| panic!("the probe: {e}"));
        Probe(ebpf)
    }

    pub fn configure(&mut self, [a, b]: [u64; 2], shards: u8) {
        let map = self.0.map_mut("config").expect("config");
        let mut map: Array<_, [u64; 7]> = map.try_into().expect("an array");
        let mut halves = [0; 8];
        halves[..4].copy_from_slice(&u32::from(shards).to_ne_bytes());
        map.set(0, [a, b, u64::from_ne_bytes(halves), 0, 0, 0, 0], 0).expect("a configuration");
    }

    /// Returns shard, reason, and nanoseconds per run.
    pub fn run(&self, packet: &[u8], repeat: u32) -> (u8, u8, u64) {
        let frame = [&[0; 14], packet].concat();
        let program: &Xdp =
            self.0.program("nw_probe").expect("nw_probe").try_into().expect("an XDP program");
        let options = TestRunOptions { data_in: Some(&frame), repeat, ..TestRunOptions::default() };
        let result = program.test_run(options).expect("a test run");
        (
            result.return_value as u8,
            (result.return_value >> 8) as u8,
            result.duration.as_nanos() as u64,
        )
    }
}
