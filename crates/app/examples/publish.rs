//! Publishes a file as signed segments: `cargo run -p nw-app --example publish /example/file FILE`

use nw_app::publish::{Publication, PublishOptions};
use nw_app::{Client, control};
use nw_name::Name;
use nw_trust::{Key, KeyKind};
use std::error::Error;
use std::fs::File;
use std::time::SystemTime;

fn main() -> Result<(), Box<dyn Error>> {
    let [_, name, path] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: publish NAME FILE".into());
    };
    let name: Name = name.parse()?;
    // A key for this run. For a permanent one use `Key::from_pem` with a key in PEM (PKCS#8).
    let key = Key::generate(KeyKind::EcdsaP256, name.as_ref())?;
    let now_us = || SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros() as u64);
    let options = PublishOptions::default();
    let mut publication =
        Publication::new(File::open(path)?, name.as_ref(), now_us(), options, key)?;

    let mut client = Client::connect_default()?;
    control::register(&mut client, publication.object())?;
    eprintln!("{} bytes in {} segments", publication.bytes(), publication.segments());
    // Each segment is read, named and signed when it is requested.
    client.run(
        |now, received, out| publication.on_interest(now, now_us(), &received, out),
        || false,
    )?;
    Ok(())
}
