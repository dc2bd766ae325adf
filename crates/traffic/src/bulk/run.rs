//! Runs the downloads of a plan through a router.

use super::{BulkPlan, BulkResult, BulkSample, Downloads, Link, Reply};
use nw_app::{Client, ClientError};
use std::sync::Mutex;
use std::time::Duration;

/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// What the router says about itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouterSample {
    /// Pending Interests.
    pub pending: u64,
    /// Bytes received by its non-local faces so far.
    pub in_bytes: u64,
}

/// Values at the previous sample.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    at_s: f64,
    segments: u64,
    in_bytes: Option<u64>,
    events: (u64, u64, u64),
}

/// Downloads the files of a plan. `status` holds the router's latest sample, if it gives any;
/// another thread updates it. `router` names it in the result. Ends early, with what there is, when the
/// client is [stopped](Client::stop_when).
///
/// # Errors
/// If the connection to the router fails.
pub fn download(
    client: &mut Client,
    plan: &BulkPlan,
    router: &str,
    link: Option<Link>,
    status: &Mutex<Option<RouterSample>>,
) -> Result<BulkResult, ClientError> {
    let start = client.now();
    let mut downloads = Downloads::new(plan, start, start.as_nanos() as u32 ^ std::process::id());
    let (mut samples, mut before) = (Vec::new(), Before::default());
    let mut next_sample = start + SAMPLE_INTERVAL;
    while !downloads.is_over() {
        let now = client.now();
        downloads.send_due(now, |interest| client.send(interest));
        let wake = downloads.next_wake(now).min(next_sample);
        let wait = wake.since(now).max(Duration::from_micros(20));
        let polled = client.poll(Some(wait), |now, received, _| {
            let reply = Reply {
                kind: received.kind(),
                name: received.name(),
                is_marked: received.is_marked(),
                reason: received.nack().unwrap_or_default(),
                pause: received.pause(),
            };
            downloads.on_reply(now, reply);
        });
        match polled {
            Err(ClientError::Interrupted) => break,
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let now = client.now();
        if now >= next_sample || downloads.is_over() {
            let router = *status.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            samples.push(sample(plan, &downloads, now.since(start), router, &mut before));
            next_sample = now + SAMPLE_INTERVAL;
        }
    }
    Ok(BulkResult::new(router.to_owned(), plan, link, downloads.results(start), samples))
}

fn sample(
    plan: &BulkPlan,
    downloads: &Downloads,
    at: Duration,
    router: Option<RouterSample>,
    before: &mut Before,
) -> BulkSample {
    let now = Before {
        at_s: at.as_secs_f64(),
        segments: downloads.segments(),
        in_bytes: router.map(|router| router.in_bytes),
        events: downloads.events(),
    };
    let elapsed = (now.at_s - before.at_s).max(1e-6);
    let mbit = |bytes: u64| bytes as f64 * 8.0 / elapsed / 1e6;
    let per_s = |now: u64, before: u64| now.saturating_sub(before) as f64 / elapsed;
    let sample = BulkSample {
        at_s: now.at_s,
        goodput_mbit: mbit((now.segments - before.segments) * plan.payload as u64),
        link_mbit: now
            .in_bytes
            .map(|bytes| mbit(bytes.saturating_sub(before.in_bytes.unwrap_or(bytes)))),
        pending: router.map(|router| router.pending),
        outstanding: downloads.outstanding() as u64,
        retransmissions_per_s: per_s(now.events.0, before.events.0),
        nacks_per_s: per_s(now.events.1, before.events.1),
        marks_per_s: per_s(now.events.2, before.events.2),
    };
    *before = now;
    sample
}
