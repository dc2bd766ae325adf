//! Fetches the newest version of a file: `cargo run -p nw-app --example fetch /example/file FILE`

use nw_app::Client;
use nw_app::object::{ObjectOptions, fetch_object};
use nw_name::Name;
use std::error::Error;
use std::fs::File;
use std::io::Write;

fn main() -> Result<(), Box<dyn Error>> {
    let [_, name, path] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: fetch NAME FILE".into());
    };
    let name: Name = name.parse()?;
    let mut client = Client::connect_default()?;
    let mut file = File::create(path)?;
    let options = ObjectOptions::default();
    // Parts are passed in order, once each.
    let report =
        fetch_object(&mut client, name.as_ref(), &options, |_| {}, |part| file.write_all(part))?;
    eprintln!(
        "{} bytes in {} segments, {} retransmitted",
        report.bytes, report.segments, report.counters.retransmissions
    );
    Ok(())
}
