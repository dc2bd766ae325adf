//! One publisher and its subscribers, each a thread with a connection of its own. They read and
//! write shared memory as processes would.

use super::node::{failed, own_cpu};
use crate::testbed::{Failure, Watch};
use nw_api::pubsub::{ItemName, ScopePattern};
use nw_app::pubsub::{PubSubOptions, Publisher, Received, Subscriber, WhenFull};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const NAME: &str = "/paper/item";
/// Longest wait for subscribers, and for a publication.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two looks at an interruption.
const SLICE: Duration = Duration::from_millis(100);
/// Pause of publications after which a subscriber ends.
const SILENCE: Duration = Duration::from_secs(3);

/// What is published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Bytes of a publication, at least 8.
    pub payload: usize,
    /// Publications.
    pub count: u64,
    /// Time between publications, microseconds; 0: as fast as subscribers of the publisher's node
    /// and the node itself read.
    pub interval_us: f64,
    /// Bytes of the publisher's ring.
    pub ring_bytes: u32,
}

/// What one end saw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct End {
    /// Publications published or delivered.
    pub publications: u64,
    /// Publications that this end was told are lost.
    pub lost: u64,
    /// Processor time of the thread from the first publication on.
    pub cpu: Duration,
    /// Time from the first to the last publication.
    pub elapsed: Duration,
    /// Median of the delay, microseconds; only of publications at a pace.
    pub delay_us: f64,
}

impl End {
    /// Returns the publications a second.
    pub fn per_s(&self) -> f64 {
        self.publications as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// The ends of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// The publisher.
    pub publisher: End,
    /// The subscribers, in the order in which they were given.
    pub subscribers: Vec<End>,
}

impl Flow {
    /// Returns the processor time of all ends.
    pub fn cpu(&self) -> Duration {
        self.publisher.cpu + self.subscribers.iter().map(|end| end.cpu).sum::<Duration>()
    }

    /// Returns the largest share of publications that a subscriber lost, 0 to 1.
    pub fn loss(&self) -> f64 {
        let published = self.publisher.publications as f64;
        let missing = |end: &End| 1.0 - end.publications as f64 / published;
        self.subscribers.iter().map(missing).fold(0.0, f64::max)
    }

    /// Returns the most publications of a subscriber that were neither delivered nor told lost.
    pub fn unexplained(&self) -> u64 {
        let published = self.publisher.publications;
        let gap = |end: &End| published.abs_diff(end.publications + end.lost);
        self.subscribers.iter().map(gap).max().unwrap_or(0)
    }
}

/// Publishes at the node at `from` and receives at the nodes at `to`, one subscriber each.
/// `matches` is the number of subscribers that the publisher's node sees: each application of its
/// own, and each other node once.
///
/// # Errors
/// If a node can't be reached, subscribers do not come, or the user interrupts.
pub fn run(
    from: &Path,
    to: &[PathBuf],
    matches: u32,
    load: &Load,
    watch: &Watch<'_>,
) -> Result<Flow, Failure> {
    let (interrupted, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let stop = (&interrupted, &has_ended);
    let flow = std::thread::scope(|scope| {
        let subscribers: Vec<_> =
            to.iter().map(|path| scope.spawn(move || subscribe(path, load, stop))).collect();
        let publisher = scope.spawn(move || {
            let outcome = publish(from, matches, load, stop.0);
            stop.1.store(true, Ordering::Release);
            outcome
        });
        let is_running =
            || !(publisher.is_finished() && subscribers.iter().all(|one| one.is_finished()));
        while is_running() {
            interrupted.store((watch.is_interrupted)(), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10));
        }
        let publisher = publisher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let ends = subscribers.into_iter().map(|subscriber| {
            subscriber.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let subscribers = ends.collect::<Result<Vec<_>, _>>();
        Ok::<_, Failure>(Flow { publisher: publisher?, subscribers: subscribers? })
    });
    match (watch.is_interrupted)() {
        true => Err(Failure::Interrupted),
        false => flow,
    }
}

fn publish(path: &Path, matches: u32, load: &Load, stop: &AtomicBool) -> Result<End, Failure> {
    let error = |error| failed("the publisher", error);
    let options = PubSubOptions { ring_bytes: load.ring_bytes, ..PubSubOptions::at(path) };
    let mut publisher = Publisher::connect(&options, WhenFull::Wait(PATIENCE)).map_err(error)?;
    let name = NAME.parse::<ItemName>().map_err(|error| failed("the item", error))?;
    let item = publisher.announce(&name, false).map_err(error)?;
    let deadline = Instant::now() + PATIENCE;
    while publisher.subscribers(item).map_err(error)? < matches {
        if Instant::now() > deadline || stop.load(Ordering::Relaxed) {
            return Err(failed("the publisher", "the subscribers did not come"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut payload = vec![0; load.payload.max(8)];
    let (cpu, started) = (own_cpu(), Instant::now());
    for number in 0..load.count {
        if load.interval_us > 0.0 {
            wait_until(started + Duration::from_secs_f64(number as f64 * load.interval_us / 1e6));
            payload[..8].copy_from_slice(&unix_nanoseconds().to_le_bytes());
        }
        publisher.publish(item, &payload).map_err(error)?;
        if number % 256 == 0 && stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
    }
    let end = End {
        publications: load.count,
        cpu: own_cpu().saturating_sub(cpu),
        elapsed: started.elapsed(),
        ..End::default()
    };
    // The ring stays until all have read it.
    publisher.drain(PATIENCE).map_err(error)?;
    Ok(end)
}

fn subscribe(
    path: &Path,
    load: &Load,
    (interrupted, has_ended): (&AtomicBool, &AtomicBool),
) -> Result<End, Failure> {
    let error = |error| failed("a subscriber", error);
    let mut subscriber = Subscriber::connect(&PubSubOptions::at(path)).map_err(error)?;
    let pattern = NAME.parse::<ScopePattern>().map_err(|error| failed("the item", error))?;
    subscriber.subscribe(&pattern, false).map_err(error)?;
    let (mut started, mut last, mut cpu) = (None, Instant::now(), Duration::ZERO);
    let (mut delays, mut last_byte, mut silence) = (Vec::new(), 0, Instant::now());
    let counted = |subscriber: &Subscriber| {
        let counts = subscriber.counts();
        counts.delivered + counts.lost
    };
    while counted(&subscriber) < load.count {
        match subscriber.receive(SLICE) {
            Ok(Received::Publication { payload, .. }) => {
                if started.is_none() {
                    (started, cpu) = (Some(Instant::now()), own_cpu());
                }
                // All of it was copied here; the last byte is read as a user would.
                last_byte ^= payload.last().copied().unwrap_or(0);
                if load.interval_us > 0.0
                    && let Some(sent) = payload.first_chunk()
                {
                    let delay = unix_nanoseconds().saturating_sub(u64::from_le_bytes(*sent));
                    delays.push(delay as f64 / 1000.0);
                }
            }
            Ok(Received::Lost { .. }) => {}
            Ok(Received::Nothing) => {
                let limit = if has_ended.load(Ordering::Acquire) { SILENCE } else { PATIENCE };
                if silence.elapsed() > limit || interrupted.load(Ordering::Relaxed) {
                    break;
                }
                continue;
            }
            // The item has ended with all that was in it.
            Err(found) => {
                if started.is_none() {
                    return Err(error(found));
                }
                break;
            }
        }
        let counts = subscriber.counts();
        if counts.delivered & 63 == 0 || counted(&subscriber) >= load.count {
            last = Instant::now();
            silence = last;
        }
    }
    std::hint::black_box(last_byte);
    delays.sort_by(f64::total_cmp);
    let counts = subscriber.counts();
    Ok(End {
        publications: counts.delivered,
        lost: counts.lost,
        cpu: own_cpu().saturating_sub(cpu),
        elapsed: started.map_or(Duration::ZERO, |started| last.saturating_duration_since(started)),
        delay_us: delays.get(delays.len() / 2).copied().unwrap_or(0.0),
    })
}

fn unix_nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Sleeps until shortly before a time, and yields then: a sleep takes longer than asked for.
fn wait_until(due: Instant) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        match left {
            Duration::ZERO => return,
            left if left > Duration::from_micros(200) => {
                std::thread::sleep(left.saturating_sub(Duration::from_micros(100)));
            }
            _ => std::thread::yield_now(),
        }
    }
}
