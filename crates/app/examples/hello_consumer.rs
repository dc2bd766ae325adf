//! Fetches one Data packet: `cargo run -p nw-app --example hello_consumer /example/hello`

use nw_app::Client;
use nw_app::object::{Reply, exchange};
use nw_name::Name;
use nw_wire::{Data, InterestBuilder};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let name: Name = std::env::args().nth(1).ok_or("usage: hello_consumer NAME")?.parse()?;
    let mut client = Client::connect_default()?;
    let lifetime = Duration::from_secs(2);
    let interest =
        InterestBuilder::new(name).must_be_fresh(true).lifetime_ms(lifetime.as_millis() as u64);
    match exchange(&mut client, interest, lifetime)? {
        Reply::Data(wire) => {
            let data = Data::check(&wire)?;
            nw_trust::verify_digest(&[data.signed_portion()], data.signature_value())?;
            eprintln!("{}: {}", data.name(), String::from_utf8_lossy(data.content()));
            Ok(())
        }
        Reply::Nack(reason) => Err(format!("refused with Nack({})", reason.as_str()).into()),
        Reply::Timeout => Err("no answer in time".into()),
    }
}
