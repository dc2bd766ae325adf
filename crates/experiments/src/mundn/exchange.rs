//! A consumer and a producer of one experiment, each a thread of this process with a connection of
//! its own.

use super::managed::failed;
use crate::testbed::{Failure, Watch};
use nw_app::{Client, FaceUri, control};
use nw_element_api::{Kind, LinkFields};
use nw_traffic::client_link::ClientLink;
use nw_traffic::generator::{Generator, Limits, Load};
use nw_traffic::link::drive;
use nw_traffic::number_range::NumberRange;
use nw_traffic::result::{Outcome, TransportInfo};
use nw_traffic::sink::Sink;
use nw_traffic::through_router::{AnswerCounters, serve};
use nw_traffic::workload::{Pattern, Requests, Workload};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Content of a Data packet, bytes: as in the paper.
pub(crate) const PAYLOAD: usize = 8192;
/// Lifetime of Interests: what is not answered by then is lost.
const LIFETIME: Duration = Duration::from_secs(4);
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Which names are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Each name once.
    New,
    /// This number of names, again and again.
    Again(usize),
}

fn random() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    nw_packet_types::random::splitmix64(now.as_nanos() as u64)
}

/// Returns a workload with names of its own.
pub(crate) fn workload(names: Names) -> Workload {
    let (count, hit_ratio) = match names {
        Names::New => (1, Some(0.0)),
        Names::Again(count) => (count, None),
    };
    Workload {
        prefix: "/mundn".parse().expect("a name"),
        seed: random() % 1_000_000_000,
        names: count,
        pattern: Pattern::Sequential,
        zipf: 1.0,
        components: NumberRange::exactly(4),
        name_len: NumberRange::exactly(40),
        payload: NumberRange::exactly(PAYLOAD),
        can_be_prefix: 0.0,
        hit_ratio,
    }
}

/// How a producer answers.
pub(crate) enum Answers {
    /// With Data of the name and this FreshnessPeriod, milliseconds.
    Generated(u64),
    /// With these packets, by the number in the name.
    Prepared(Vec<Vec<u8>>),
}

/// A producer in a thread; it ends with this value.
pub(crate) struct Producer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Producer {
    /// Connects a producer, which registers its prefix if it is told to.
    pub(crate) fn start(
        uri: &FaceUri,
        workload: &Workload,
        answers: Answers,
        registers: bool,
    ) -> Result<Self, Failure> {
        let mut client = Client::connect(uri).map_err(|error| failed("the producer", error))?;
        if registers {
            let registered = control::register(&mut client, workload.prefix.clone());
            registered.map_err(|error| failed("the producer can't register", error))?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (ended, workload) = (Arc::clone(&stop), workload.clone());
        let run = move || {
            // The connection ends with the services: that is no error.
            let _ = match &answers {
                Answers::Generated(freshness_ms) => {
                    let sink = Sink::new(&workload, *freshness_ms);
                    serve(&mut client, &sink, &AnswerCounters::default(), &ended)
                }
                Answers::Prepared(packets) => {
                    serve_prepared(&mut client, &workload, packets, &ended)
                }
            };
        };
        let thread = std::thread::Builder::new().name("producer".to_owned()).spawn(run);
        let thread = thread.map_err(Failure::Processors)?;
        Ok(Producer { stop, thread: Some(thread) })
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve_prepared(
    client: &mut Client,
    workload: &Workload,
    packets: &[Vec<u8>],
    stop: &AtomicBool,
) -> Result<(), nw_app::ClientError> {
    client.run(
        |_, received, out| {
            if received.kind() != Kind::Interest {
                return;
            }
            let number = workload.number(received.name()).map(|parsed| parsed.number as usize);
            if let Some(wire) = number.and_then(|number| packets.get(number)) {
                let link = LinkFields { token: received.token(), ..LinkFields::default() };
                out.send_with(wire, link);
            }
        },
        || stop.load(Ordering::Relaxed),
    )
}

/// Asks with a window for some seconds. Calls `tick` meanwhile, about 40 times a second.
pub(crate) fn ask(
    uri: &FaceUri,
    workload: &Workload,
    (window, seconds): (usize, f64),
    watch: &Watch<'_>,
    mut tick: impl FnMut(),
) -> Result<Outcome, Failure> {
    let load = Load::Closed { window };
    let duration = Duration::from_secs_f64(seconds);
    let limits = Limits { packets: None, duration, lifetime: LIFETIME };
    let stop = Arc::new(AtomicBool::new(false));
    let run = || -> Result<Outcome, Failure> {
        let error = |error: nw_app::ClientError| failed("the consumer", error);
        let mut client = Client::connect(uri).map_err(error)?;
        client.stop_when(Arc::clone(&stop));
        let mut link = ClientLink::new(client);
        let mut generator =
            Generator::new(workload, Requests::new(workload), load, limits, random());
        let is_complete = drive(&mut link, &mut generator).map_err(error)?;
        let over = TransportInfo::of(uri.to_string());
        Ok(Outcome::new(workload, load, over, is_complete, generator.measured(), None))
    };
    let outcome = std::thread::scope(|scope| {
        let consumer = scope.spawn(run);
        while !consumer.is_finished() {
            stop.store((watch.is_interrupted)(), Ordering::Relaxed);
            tick();
            std::thread::sleep(POLL_INTERVAL);
        }
        consumer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    match (watch.is_interrupted)() {
        true => Err(Failure::Interrupted),
        false => Ok(outcome),
    }
}
