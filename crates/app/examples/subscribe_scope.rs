//! Prints the next publications below a scope: `subscribe_scope SOCKET SCOPE COUNT`.

use nw_app::pubsub::{PubSubOptions, Received, Scope, Subscriber};
use std::io::Write;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [socket, scope, count] = &words[..] else { return Err("SOCKET SCOPE COUNT".into()) };
    let mut subscriber = Subscriber::connect(&PubSubOptions::at(socket))?;
    subscriber.subscribe(&Scope::new(scope)?.all(), true)?;
    let mut out = std::io::stdout();
    let count: u64 = count.parse()?;
    while subscriber.counts().delivered < count {
        match subscriber.receive(Duration::from_secs(1))? {
            Received::Publication { name, payload, .. } => {
                writeln!(out, "{name} {}", String::from_utf8_lossy(payload))?;
            }
            Received::Lost { name, lost } => writeln!(out, "{name}: {lost} lost")?,
            Received::Nothing => {}
        }
    }
    Ok(())
}
