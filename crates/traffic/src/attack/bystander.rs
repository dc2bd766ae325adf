//! Bystanders: a consumer and a producer that use the router as before, at a constant rate.

use super::AttackError;
use crate::timings::Timings;
use nw_app::{Client, ClientError, FaceUri, control};
use nw_element_api::{Kind, LinkFields, Timestamp};
use nw_name::{Name, NameRef};
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Prefix of the bystanders' names.
pub(super) const PREFIX: &str = "/bystander";
/// InterestLifetime of the bystanders, milliseconds: a later answer is of no use to them.
const LIFETIME_MS: u64 = 1000;

/// What bystanders saw in one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BystanderStats {
    /// Interests sent.
    pub sent: u64,
    /// Answers within the lifetime, per second.
    pub answered_per_s: f64,
    /// Median round-trip time, milliseconds.
    pub rtt_median_ms: f64,
    /// 99th percentile of the round-trip time, milliseconds.
    pub rtt_p99_ms: f64,
}

/// A consumer and, in a thread of its own, a producer.
#[derive(Debug)]
pub struct Bystander {
    consumer: Client,
    rate: f64,
    sequence: u64,
    stop: Arc<AtomicBool>,
    producer: Option<JoinHandle<()>>,
}

impl Bystander {
    /// Connects both to a router and registers the producer's prefix.
    ///
    /// # Errors
    /// If the router can't be reached or refuses.
    pub fn connect(router: &FaceUri, rate: f64) -> Result<Self, AttackError> {
        let mut producer = Client::connect(router)?;
        let prefix: Name = PREFIX.parse().expect("a constant name");
        control::register(&mut producer, prefix)?;
        let consumer = Client::connect(router)?;
        let stop = Arc::new(AtomicBool::new(false));
        let serving = {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let _ = serve(&mut producer, &stop);
            })
        };
        Ok(Bystander { consumer, rate, sequence: 0, stop, producer: Some(serving) })
    }

    /// Sends Interests at the rate for `duration`, and counts the answers. Ends early when `stop`
    /// is set.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn measure(
        &mut self,
        duration: Duration,
        stop: &AtomicBool,
    ) -> Result<BystanderStats, ClientError> {
        let start = self.consumer.now();
        let end = start + duration;
        let (mut waiting, mut rtt) = (HashMap::new(), Timings::new(3));
        let (mut sent, mut answered) = (0u64, 0u64);
        loop {
            let now = self.consumer.now();
            let due = ((now.since(start).as_secs_f64() * self.rate) as u64 + 1)
                .min((duration.as_secs_f64() * self.rate) as u64);
            // What is due is sent late rather than never: this program may have to wait for a
            // processor.
            while sent < due {
                self.sequence += 1;
                sent += 1;
                waiting.insert(self.sequence, now);
                self.consumer.send(&interest(self.sequence));
            }
            let is_over =
                now >= end + Duration::from_millis(LIFETIME_MS) || now >= end && waiting.is_empty();
            if is_over || stop.load(Ordering::Relaxed) {
                break;
            }
            self.consumer.poll(Some(Duration::from_micros(500)), |now, received, _| {
                let number = number_of(received.name());
                if let Some(at) = number.and_then(|number| waiting.remove(&number))
                    && received.kind() == Kind::Data
                    && now.since(at) <= Duration::from_millis(LIFETIME_MS)
                {
                    answered += 1;
                    rtt.record(now.since(at));
                }
            })?;
        }
        Ok(stats(sent, answered, duration, &rtt))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(producer) = self.producer.take() {
            let _ = producer.join();
        }
    }
}

fn stats(sent: u64, answered: u64, duration: Duration, rtt: &Timings) -> BystanderStats {
    let ms = |quantile| rtt.quantile_ns(quantile) as f64 / 1e6;
    BystanderStats {
        sent,
        answered_per_s: answered as f64 / duration.as_secs_f64(),
        rtt_median_ms: ms(0.5),
        rtt_p99_ms: ms(0.99),
    }
}

fn interest(number: u64) -> Vec<u8> {
    let name: Name = PREFIX.parse().expect("a constant name");
    InterestBuilder::new(name.with_generic(number.to_string()))
        .nonce((number as u32).wrapping_mul(0x85eb_ca6b))
        .lifetime_ms(LIFETIME_MS)
        .encode()
}

fn number_of(name: NameRef<'_>) -> Option<u64> {
    core::str::from_utf8(name.component(-1)?.value()).ok()?.parse().ok()
}

/// Answers every Interest at once.
fn serve(producer: &mut Client, stop: &AtomicBool) -> Result<(), ClientError> {
    producer.run(
        |_: Timestamp, received, out| {
            if received.kind() != Kind::Interest {
                return;
            }
            let link = LinkFields { token: received.token(), ..LinkFields::default() };
            let data = DataBuilder::new(received.name(), &[b'x'; 100]);
            match data.encode(&DigestSha256) {
                Ok(wire) => out.send_with(&wire, link),
                Err(never) => match never {},
            }
        },
        || stop.load(Ordering::Relaxed),
    )
}
