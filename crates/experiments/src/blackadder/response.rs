//! Rendezvous for each publication (figures 6 and 10): one publisher with many items, subscribers
//! that subscribe to one item after the other, or some at a time, and wait for its publication. The
//! publisher publishes an item whenever the node tells it that its subscribers have changed.

use super::node::failed;
use crate::testbed::{Failure, Watch};
use nw_api::pubsub::{ItemName, ScopePattern};
use nw_app::pubsub::{PubSubError, PubSubOptions, Publisher, Received, Subscriber, WhenFull};
use nw_packet_types::random::splitmix64;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a minimum Ethernet frame's payload.
pub const SMALL: usize = 46;
/// Longest wait for a publication.
const PATIENCE: Duration = Duration::from_secs(10);
const SLICE: Duration = Duration::from_millis(50);
const STACK_BYTES: usize = 256 << 10;

/// The workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseLoad {
    /// Items that the publisher announces.
    pub items: u32,
    /// Subscriptions of each subscriber.
    pub iterations: u32,
    /// Subscriptions at a time.
    pub window: u32,
    /// Whether each subscriber takes items of its own, from a random one on; otherwise all take the
    /// same from the first one on.
    pub is_random: bool,
    /// Bytes of a publication.
    pub payload: usize,
}

impl ResponseLoad {
    /// Returns the item of an iteration of subscriber `number` of `count`. One that a node asks for
    /// again at once is no change to the publisher, so each subscriber has items of its own, and
    /// takes one after the other from a random one on.
    pub(super) fn item(&self, number: u64, count: usize, iteration: u32) -> u32 {
        if !self.is_random {
            return iteration % self.items;
        }
        let share = (u64::from(self.items) / count as u64).max(1);
        let drawn = (splitmix64(number) % share + u64::from(iteration)) % share;
        ((number * share + drawn) % u64::from(self.items)) as u32
    }

    /// Returns the workload of figure 6.
    pub const fn random(items: u32, iterations: u32) -> Self {
        ResponseLoad { items, iterations, window: 1, is_random: true, payload: SMALL }
    }
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Responses {
    /// Time from subscription to publication, milliseconds, ascending.
    pub ms: Vec<f64>,
    /// Subscriptions without a publication within 10 s.
    pub missed: u32,
    /// Time from the start until the last publication came, seconds.
    pub elapsed_s: f64,
    /// Time in which the publisher announced its items, seconds.
    pub announce_s: f64,
}

impl Responses {
    /// Returns the mean, milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.ms.iter().sum::<f64>() / self.ms.len().max(1) as f64
    }

    /// Returns the responses a second.
    pub fn per_s(&self) -> f64 {
        self.ms.len() as f64 / self.elapsed_s.max(1e-9)
    }
}

/// Flags that the threads share.
#[derive(Default)]
struct Shared {
    interrupted: AtomicBool,
    has_started: AtomicBool,
    connected: AtomicU32,
    ended: AtomicU32,
}

/// Publishes at the node at `from` and subscribes at the nodes at `to`, one subscriber each.
///
/// # Errors
/// If a node can't be reached or refuses, or the user interrupts.
pub fn respond(
    from: &Path,
    to: &[PathBuf],
    load: &ResponseLoad,
    watch: &Watch<'_>,
) -> Result<Responses, Failure> {
    let shared = Shared::default();
    let error = |error| failed("the publisher", error);
    let options = PubSubOptions { ring_bytes: 8 << 20, ..PubSubOptions::at(from) };
    let mut publisher = Publisher::connect(&options, WhenFull::Overwrite).map_err(error)?;
    let started = Instant::now();
    for item in 0..load.items {
        publisher.announce(&name(item), false).map_err(error)?;
        if item % 1024 == 0 && (watch.is_interrupted)() {
            return Err(Failure::Interrupted);
        }
    }
    let announce_s = started.elapsed().as_secs_f64();
    let shared = &shared;
    let outcome = std::thread::scope(|scope| {
        let (mut subscribers, mut refused) = (Vec::new(), None);
        for (number, path) in to.iter().enumerate() {
            let run = move || subscribe(path, (number as u64, to.len()), load, shared);
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            match thread.spawn_scoped(scope, run) {
                Ok(thread) => subscribers.push(thread),
                Err(error) => refused = Some(failed("too many threads for this system", error)),
            }
        }
        let count = subscribers.len() as u32;
        while shared.connected.load(Ordering::Acquire) < count {
            std::thread::sleep(Duration::from_millis(1));
        }
        shared.interrupted.store(refused.is_some(), Ordering::Relaxed);
        shared.has_started.store(true, Ordering::Release);
        let started = Instant::now();
        let served = serve(&mut publisher, count, load.payload, shared, watch);
        let mut responses = Responses { announce_s, ..Responses::default() };
        for subscriber in subscribers {
            match subscriber.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                Ok(own) => {
                    let elapsed = own.ended.saturating_duration_since(started).as_secs_f64();
                    responses.elapsed_s = responses.elapsed_s.max(elapsed);
                    responses.ms.extend(own.ms);
                    responses.missed += own.missed;
                }
                Err(error) => refused = Some(failed("a subscriber", error)),
            }
        }
        served.and(refused.map_or(Ok(responses), Err))
    });
    let mut responses = outcome?;
    responses.ms.sort_by(f64::total_cmp);
    match (watch.is_interrupted)() {
        true => Err(Failure::Interrupted),
        false => Ok(responses),
    }
}

fn name(item: u32) -> ItemName {
    format!("/paper/{item}").parse().expect("a name of two components")
}

/// Publishes each item that has subscribers when their number changes, until all have ended.
fn serve(
    publisher: &mut Publisher,
    subscribers: u32,
    payload: usize,
    shared: &Shared,
    watch: &Watch<'_>,
) -> Result<(), Failure> {
    let error = |error| failed("the publisher", error);
    let payload = vec![7; payload];
    let outcome = loop {
        if shared.ended.load(Ordering::Acquire) == subscribers {
            break Ok(());
        }
        if (watch.is_interrupted)() {
            break Err(Failure::Interrupted);
        }
        match publisher.next_change(SLICE) {
            Ok(Some((item, 1..))) => {
                if let Err(found) = publisher.publish(item, &payload) {
                    break Err(error(found));
                }
            }
            Ok(_) => {}
            Err(found) => break Err(error(found)),
        }
    };
    // Subscribers that wait for nothing any more end early.
    shared.interrupted.store(true, Ordering::Relaxed);
    outcome
}

/// What one subscriber measured.
struct OwnResponses {
    ms: Vec<f64>,
    missed: u32,
    /// When the last publication had come, before the connection was closed.
    ended: Instant,
}

/// Subscribes to items.
fn subscribe(
    path: &Path,
    (number, count): (u64, usize),
    load: &ResponseLoad,
    shared: &Shared,
) -> Result<OwnResponses, PubSubError> {
    let connected = Subscriber::connect(&PubSubOptions::at(path));
    // All meet here, also those that failed.
    shared.connected.fetch_add(1, Ordering::Release);
    while !shared.has_started.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let outcome = connected.and_then(|subscriber| {
        let mut pending =
            PendingSubscriptions { subscriber, waiting: BTreeMap::new(), times: vec![], missed: 0 };
        let mut numbers = 0..load.iterations;
        loop {
            while pending.waiting.len() < load.window as usize
                && let Some(iteration) = numbers.next()
            {
                pending.ask(name(load.item(number, count, iteration)))?;
            }
            if pending.waiting.is_empty() || shared.interrupted.load(Ordering::Relaxed) {
                let (ms, missed) = (pending.times, pending.missed);
                return Ok(OwnResponses { ms, missed, ended: Instant::now() });
            }
            pending.take_reply()?;
        }
    });
    shared.ended.fetch_add(1, Ordering::Release);
    outcome
}

/// A subscriber with its subscriptions that wait.
struct PendingSubscriptions {
    subscriber: Subscriber,
    waiting: BTreeMap<String, (u32, Instant)>,
    times: Vec<f64>,
    missed: u32,
}

impl PendingSubscriptions {
    fn ask(&mut self, item: ItemName) -> Result<(), PubSubError> {
        let text = item.to_string();
        let pattern: ScopePattern = text.parse().expect("a name is a pattern");
        let started = Instant::now();
        let subscription = self.subscriber.subscribe(&pattern, false)?;
        self.waiting.insert(text, (subscription, started));
        Ok(())
    }

    /// Waits for a publication that is waited for, and ends its subscription.
    fn take_reply(&mut self) -> Result<(), PubSubError> {
        let found = match self.subscriber.receive(SLICE)? {
            Received::Publication { name, .. } => self.waiting.remove(name),
            _ => None,
        };
        if let Some((subscription, started)) = found {
            self.times.push(started.elapsed().as_secs_f64() * 1000.0);
            return self.subscriber.unsubscribe(subscription);
        }
        let is_late = |(_, started): &(u32, Instant)| started.elapsed() > PATIENCE;
        let late: Vec<String> = self
            .waiting
            .iter()
            .filter(|(_, one)| is_late(one))
            .map(|(name, _)| name.clone())
            .collect();
        for name in late {
            self.missed += 1;
            if let Some((subscription, _)) = self.waiting.remove(&name) {
                self.subscriber.unsubscribe(subscription)?;
            }
        }
        Ok(())
    }
}
