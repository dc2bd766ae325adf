//! Zenoh, peer to peer over TCP on the loopback interface. The subscriber counts in a callback,
//! its fastest way.

use crate::seen::{Failure, Load, Outcome, Seen, publish_all, report_ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use zenoh::qos::CongestionControl;
use zenoh::{Config, Session, Wait};

const KEY: &str = "bench/item";

fn open(role: &str, address: &str) -> Result<Session, Failure> {
    let mut config = Config::default();
    let endpoints = format!("[\"tcp/{address}\"]");
    for (key, value) in
        [("mode", "\"peer\""), ("scouting/multicast/enabled", "false"), (role, endpoints.as_str())]
    {
        config.insert_json5(key, value)?;
    }
    if role == "connect/endpoints" {
        config.insert_json5("listen/endpoints", "[]")?;
    }
    Ok(zenoh::open(config).wait()?)
}

/// Publishes a load.
pub fn publish(address: &str, load: &Load) -> Result<Outcome, Failure> {
    let session = open("listen/endpoints", address)?;
    let control = match load.overwrites {
        true => CongestionControl::Drop,
        false => CongestionControl::Block,
    };
    let publisher = session.declare_publisher(KEY).congestion_control(control).wait()?;
    let outcome = publish_all(load, |payload| Ok(publisher.put(payload).wait()?), || Ok(()))?;
    // What is queued goes out before the session ends.
    std::thread::sleep(Duration::from_secs(1));
    Ok(outcome)
}

/// Counts a load.
pub fn subscribe(address: &str, load: &Load) -> Result<Outcome, Failure> {
    let session = open("connect/endpoints", address)?;
    let seen = Arc::new(Mutex::new(Seen::new(load)));
    let counted = Arc::clone(&seen);
    let _subscriber = session
        .declare_subscriber(KEY)
        .callback(move |sample| {
            let mut seen = counted.lock().unwrap_or_else(PoisonError::into_inner);
            seen.take(&sample.payload().to_bytes());
        })
        .wait()?;
    report_ready()?;
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.has_ended() {
            return Ok(seen.outcome());
        }
    }
}
