//! Publisher and subscriber of other systems, for the rows of publish/subscribe in `make bench`.
//!
//! Each is a process of its own. It writes `ready` as a line; a publisher then waits for a line of
//! standard input. Its last line is what it saw, as JSON with the fields of
//! `nw_bench::local_pubsub::Outcome`. Processor time is that of all threads of the process.

mod iceoryx;
mod nats;
mod seen;
mod zenoh_tcp;

use seen::{Failure, Load, Outcome};
use std::io::Write;

const USAGE: &str = "usage: nw-bench-references zenoh|iceoryx2|nats publish|subscribe ADDRESS \
                     BYTES COUNT INTERVAL_US PAUSE_US wait|overwrite";

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [system, role, address, len, count, interval_us, pause_us, when_full] = &words[..] else {
        return Err(USAGE.into());
    };
    let load = Load {
        len: len.parse()?,
        count: count.parse()?,
        interval_us: interval_us.parse()?,
        pause_us: pause_us.parse()?,
        overwrites: when_full == "overwrite",
    };
    let outcome: Outcome = match (system.as_str(), role.as_str()) {
        ("zenoh", "publish") => zenoh_tcp::publish(address, &load)?,
        ("zenoh", "subscribe") => zenoh_tcp::subscribe(address, &load)?,
        ("iceoryx2", "publish") => iceoryx::publish(address, &load)?,
        ("iceoryx2", "subscribe") => iceoryx::subscribe(address, &load)?,
        ("nats", "publish") => nats::publish(address, &load)?,
        ("nats", "subscribe") => nats::subscribe(address, &load)?,
        _ => return Err(USAGE.into()),
    };
    writeln!(std::io::stdout(), "{}", outcome.json())?;
    Ok(())
}
