//! Replies with Data signed by a key of the user's store: `cargo run -p nw-app --example
//! signed_producer /alice/hello /alice`

use nw_app::control::Commander;
use nw_app::keystore::{KeyStore, KeyStoreLocation};
use nw_app::{Client, transport};
use nw_element_api::Kind;
use nw_name::Name;
use nw_wire::DataBuilder;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: signed_producer NAME IDENTITY";
    let prefix: Name = std::env::args().nth(1).ok_or(usage)?.parse()?;
    let identity: Name = std::env::args().nth(2).ok_or(usage)?.parse()?;
    let credentials =
        KeyStore::open(KeyStoreLocation::of_user()?)?.credentials(Some(identity.as_ref()))?;
    let uri = transport::default_uri()?;
    let mut client = Client::connect(&uri)?;
    // The registration is signed, too: a router on another machine checks it against its rules.
    Commander::at(&uri, Some(&credentials)).register(&mut client, prefix.clone())?;
    eprintln!("answering {prefix}");
    client.run(
        |_, received, out| {
            if received.kind() == Kind::Interest {
                let data = DataBuilder::new(received.name(), b"hello, signed").freshness_ms(1000);
                match data.encode(&credentials.key) {
                    Ok(wire) => out.answer(&received, &wire),
                    Err(error) => eprintln!("can't sign: {error}"),
                }
            }
        },
        || false,
    )?;
    Ok(())
}
