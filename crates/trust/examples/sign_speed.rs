//! Signatures per second on one thread: `cargo run --release -p nw-trust --example sign_speed`.

use nw_name::Name;
use nw_trust::{Key, KeyKind, verify_data, verify_digest};
use nw_wire::{Data, DataBuilder, DigestSha256};
use std::hint::black_box;
use std::time::{Duration, Instant};

const MEASURE: Duration = Duration::from_millis(500);

#[allow(clippy::print_stdout)] // the purpose of the example
fn main() {
    let name: Name = "/alice/file/v=1/seg=7".parse().expect("a name");
    println!("Data with 1000 bytes of content     sign/s    verify/s");
    for kind in KeyKind::ALL {
        let key = Key::generate(kind, name.as_ref()).expect("a key");
        let verify = key.verify_key().expect("a public key");
        let wire = DataBuilder::new(&name, &[7; 1000]).encode(&key).expect("signed");
        let data = Data::check(&wire).expect("valid");
        let signs = rate(|| drop(black_box(DataBuilder::new(&name, &[7; 1000]).encode(&key))));
        let verifies = rate(|| verify_data(black_box(&data), &verify).expect("valid"));
        println!("{:<32} {signs:>9.0} {verifies:>11.0}", format!("{kind:?}"));
    }
    let wire = DataBuilder::new(&name, &[7; 1000])
        .encode(&DigestSha256)
        .unwrap_or_else(|never| match never {});
    let data = Data::check(&wire).expect("valid");
    let signs = rate(|| drop(black_box(DataBuilder::new(&name, &[7; 1000]).encode(&DigestSha256))));
    let verifies =
        rate(|| verify_digest(&[data.signed_portion()], data.signature_value()).expect("valid"));
    println!("{:<32} {signs:>9.0} {verifies:>11.0}", "DigestSha256");
}

/// Returns the runs per second of `work`, measured for [`MEASURE`].
fn rate(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut runs = 0;
    while start.elapsed() < MEASURE {
        (0..10).for_each(|_| work());
        runs += 10;
    }
    f64::from(runs) / start.elapsed().as_secs_f64()
}
