//! Publishes values of an item: `publish_values SOCKET NAME VALUE…`.

use nw_app::pubsub::{PubSubOptions, Publisher, WhenFull};
use std::io::Write;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let socket = words.next().ok_or("which socket?")?;
    let name = words.next().ok_or("which name?")?.parse()?;
    // A subscriber that reads nothing for a second is no longer waited for.
    let when_full = WhenFull::Wait(Duration::from_secs(1));
    let mut publisher = Publisher::connect(&PubSubOptions::at(socket), when_full)?;
    // Late subscribers get the last value first.
    let item = publisher.announce(&name, true)?;
    for value in words {
        publisher.publish(item, value.as_bytes())?;
    }
    writeln!(std::io::stdout(), "{} subscribers", publisher.subscribers(item)?)?;
    publisher.drain(Duration::from_secs(1))?;
    Ok(())
}
