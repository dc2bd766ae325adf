//! Answers Interests below a name: `cargo run -p nw-app --example hello_producer /example/hello`

use nw_app::{Client, control};
use nw_element_api::Kind;
use nw_name::Name;
use nw_wire::{DataBuilder, DigestSha256};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let prefix: Name = std::env::args().nth(1).ok_or("usage: hello_producer NAME")?.parse()?;
    let mut client = Client::connect_default()?;
    control::register(&mut client, prefix.clone())?;
    eprintln!("answering {prefix}");
    client.run(
        |_, received, out| {
            if received.kind() == Kind::Interest {
                let data = DataBuilder::new(received.name(), b"hello from Rust").freshness_ms(1000);
                let Ok(wire) = data.encode(&DigestSha256);
                out.answer(&received, &wire);
            }
        },
        || false,
    )?;
    Ok(())
}
