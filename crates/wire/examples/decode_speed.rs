//! Measures how long checking takes: `cargo run --release -p nw-wire --example decode_speed`.
//!
//! Prints the minimum of many short rounds in nanoseconds per packet, as load on the machine only
//! adds time.

use nw_name::{HashKey, Name, PrefixHashes};
use nw_wire::{
    Data, DataBuilder, DigestSha256, Interest, InterestBuilder, LpHeader, LpPacket, Token,
};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 300;
const PACKETS_PER_ROUND: u32 = 10_000;

#[allow(clippy::print_stdout)] // the example prints its results
fn main() {
    let key =
        HashKey::new([0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 7]);
    let name: Name = "/ndn/example/videos/lecture/v=7/seg=1042".parse().expect("a name");
    let interest =
        InterestBuilder::new(name.clone()).must_be_fresh(true).nonce(7).lifetime_ms(4000).encode();
    let signed = InterestBuilder::new(name.clone()).nonce(7).parameters([0; 16]).encode();
    let data = DataBuilder::new(&name, &[7; 1000]).freshness_ms(1000).encode(&DigestSha256);
    let data = data.unwrap_or_else(|never| match never {});
    let mut link = Vec::new();
    LpHeader { pit_token: Token::new(&[1, 2, 3, 4, 5, 6]).expect("short"), ..LpHeader::default() }
        .encode(interest.len(), &mut link);
    link.extend_from_slice(&interest);

    let mut prefixes = PrefixHashes::new(&key);
    let of_interest = |prefixes: &mut PrefixHashes, bytes: &[u8]| {
        let checked = Interest::check_hashing(bytes, &key, prefixes);
        black_box(checked.expect("valid").nonce_start());
    };
    println!(
        "Interest of {} bytes, {} components; Data of {} bytes",
        interest.len(),
        name.as_ref().len(),
        data.len()
    );
    report("Interest::check", || Interest::check(black_box(&interest)));
    report("Interest, with prefix hashes", || of_interest(&mut prefixes, black_box(&interest)));
    report("Interest with parameters, with prefix hashes", || {
        of_interest(&mut prefixes, black_box(&signed))
    });
    report("LpPacket::check", || LpPacket::check(black_box(&link)));
    report("LpPacket and Interest, with prefix hashes", || {
        let packet = LpPacket::check(black_box(&link)).expect("valid");
        of_interest(&mut prefixes, packet.fragment.expect("a fragment"));
    });
    report("Data::check", || Data::check(black_box(&data)));
    report("Data, with prefix hashes", || {
        let checked = Data::check_hashing(black_box(&data), &key, &mut prefixes);
        black_box(checked.expect("valid").freshness_ms());
    });
    let mut out = Vec::with_capacity(9000);
    let header = LpHeader {
        pit_token: Token::new(&[1, 2, 3, 4, 5, 6]).expect("short"),
        ..LpHeader::default()
    };
    report("LpHeader::encode with a token", || {
        out.clear();
        black_box(&header).encode(1000, &mut out);
    });
    report("LpPacket::check of a bare packet", || {
        LpPacket::check(black_box(&interest)).expect("valid").fragment
    });
    report("hash of the whole name", || key.name(black_box(name.as_ref())));
}

#[allow(clippy::print_stdout)] // the example prints its results
fn report<T>(label: &str, mut packet: impl FnMut() -> T) {
    let minimum = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..PACKETS_PER_ROUND).for_each(|_| {
                black_box(packet());
            });
            start.elapsed()
        })
        .min()
        .expect("rounds");
    println!("{:>7.1} ns  {label}", minimum.as_nanos() as f64 / f64::from(PACKETS_PER_ROUND));
}
