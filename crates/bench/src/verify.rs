//! `verify/…`: the signature verifier as a host with threads runs it, against the bare
//! cryptographic library, both on all cores.
//!
//! One thread, the host, owns the packets: it passes them to the verifier and jobs to one thread
//! per further core, and verifies itself while those are busy. The reference is one thread per core
//! that only verifies the same packets. Packets circulate, so neither receiving nor decoding is
//! timed.

use crate::report::{Row, median};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    VerificationAlgorithm,
};
use aws_lc_rs::{digest, hmac};
use nw_element_api::decode::decode;
use nw_element_api::pool::CHUNK_LEN;
use nw_element_api::{
    Context, DropCounters, Element, OffloadTask, Outbox, Packet, Pool, Timestamp as Moment,
};
use nw_elements::signature_verifier::{In, Out, TrustConfig};
use nw_elements::{SignatureVerifier, SignatureVerifierConfig};
use nw_name::{HashKey, Name};
use nw_trust::{Key, KeyKind, Signer};
use nw_wire::{Data, DataBuilder};
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

/// Repetitions, alternately verifier and library.
const RUNS: usize = 9;
const TIME: Duration = Duration::from_millis(700);
/// Bytes of content, as in the µNDN paper.
const CONTENT_LEN: usize = 8192;
/// Number of packets: more than the verifier may hold, and few enough to stay in a processor's
/// cache, like packets just received.
const PACKETS: usize = 128;
/// Packets per batch, between two readings of the clock and of jobs.
const BATCH: usize = 32;
/// Maximum number of jobs queued per thread.
const JOBS: usize = 6;
/// Maximum number of packets that wait for threads; the host verifies the next ones itself.
const HELD: usize = 64;
/// Size of the result cache: much smaller than the circulating packets, so that every lookup
/// misses.
const RESULTS: usize = 8;
const HMAC_SECRET: &[u8] = b"a secret of thirty-two bytes, so";

/// Signature types: name of the row and kind of key; none for a plain digest.
const TYPES: [(&str, Option<KeyKind>); 5] = [
    ("verify/sha256", None),
    ("verify/hmac", Some(KeyKind::Hmac)),
    ("verify/ecdsa-p256", Some(KeyKind::EcdsaP256)),
    ("verify/rsa-2048", Some(KeyKind::Rsa2048)),
    ("verify/ed25519", Some(KeyKind::Ed25519)),
];

/// Measures the rows.
///
/// # Panics
/// If the library can't create keys, or a valid packet fails verification.
pub fn run(row: &str) -> Vec<Row> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    TYPES
        .iter()
        .filter(|(name, _)| name.starts_with(row))
        .flat_map(|(name, kind)| measure(name, *kind, cores))
        .collect()
}

fn measure(name: &str, kind: Option<KeyKind>, cores: usize) -> Vec<Row> {
    let signer = signer(kind);
    let packets: Vec<Vec<u8>> = (0..PACKETS as u64)
        .map(|number| {
            let name = Name::new().with_generic("verify").with_segment(number);
            let content = vec![number as u8; CONTENT_LEN];
            DataBuilder::new(&name, &content).encode(&signer).expect("signed")
        })
        .collect();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        ours.push(verifier(&signer, &packets, cores));
        theirs.push(library(&signer, &packets, cores));
    }
    let figures = |of: &[Measured], figure: &dyn Fn(&Measured) -> f64| {
        of.iter().map(figure).collect::<Vec<_>>()
    };
    let rate = |measured: &Measured| measured.rate;
    let processor_ns = |measured: &Measured| measured.processor_ns;
    let bits = packets[0].len() as f64 * 8e-9;
    let ratios: Vec<f64> =
        ours.iter().zip(&theirs).map(|(ours, theirs)| ours.rate / theirs.rate).collect();
    vec![
        Row::new(name, "packets_per_s", &figures(&ours, &rate))
            .with_reference(median(&figures(&theirs, &rate))),
        Row::new(name, "gbit_per_s", &figures(&ours, &|measured| measured.rate * bits)),
        Row::new(name, "processor_ns_per_packet", &figures(&ours, &processor_ns))
            .with_reference(median(&figures(&theirs, &processor_ns))),
        Row::new(name, "ratio_to_library", &ratios),
    ]
}

/// Result of one run.
struct Measured {
    /// Packets per second.
    rate: f64,
    /// Processor time of all threads per packet, in nanoseconds. Other load on the machine does not
    /// change it.
    processor_ns: f64,
}

/// A run in progress.
struct Run {
    start: Instant,
    processor_ns: f64,
}

impl Run {
    fn start() -> Self {
        Run { start: Instant::now(), processor_ns: processor_ns() }
    }

    fn is_running(&self) -> bool {
        self.start.elapsed() < TIME
    }

    fn end(&self, packets: u64) -> Measured {
        let rate = packets as f64 / self.start.elapsed().as_secs_f64();
        Measured { rate, processor_ns: (processor_ns() - self.processor_ns) / packets as f64 }
    }
}

/// Returns the processor time of all threads so far.
fn processor_ns() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn signer(kind: Option<KeyKind>) -> Signer {
    let identity = Name::new().with_generic("producer");
    match kind {
        None => Signer::Digest,
        Some(KeyKind::Hmac) => Signer::from(Key::from_secret(identity.as_ref(), HMAC_SECRET)),
        Some(kind) => Signer::from(Key::generate(kind, identity.as_ref()).expect("a key")),
    }
}

/// Measures the verifier.
fn verifier(signer: &Signer, packets: &[Vec<u8>], cores: usize) -> Measured {
    let keys = match signer {
        Signer::Digest => Vec::new(),
        Signer::Key(key) => vec![(key.name().to_name(), key.verify_key().expect("a key"))],
    };
    let config = SignatureVerifierConfig {
        results_max: RESULTS,
        queue_max: HELD,
        ..SignatureVerifierConfig::default()
    };
    let mut element = SignatureVerifier::new(config);
    let accept_digest = matches!(signer, Signer::Digest);
    element.set_trust(TrustConfig { keys, accept_digest, ..TrustConfig::default() });
    std::thread::scope(|scope| {
        let (done, from_workers) = channel();
        let workers = (1..cores).map(|_| {
            let (jobs, taken) = sync_channel::<Box<dyn OffloadTask>>(JOBS);
            let done = done.clone();
            scope.spawn(move || {
                while let Ok(mut job) = taken.recv() {
                    job.run();
                    if done.send(job).is_err() {
                        break;
                    }
                }
            });
            jobs
        });
        let workers = workers.collect();
        Host::new(element, packets, workers, from_workers).run()
    })
}

/// The host thread, which owns the packets.
struct Host {
    element: SignatureVerifier,
    pool: Pool,
    out: Outbox<Out>,
    drops: DropCounters,
    /// Packets that are not in the verifier.
    packets: VecDeque<Packet>,
    workers: Vec<SyncSender<Box<dyn OffloadTask>>>,
    done: Receiver<Box<dyn OffloadTask>>,
    given_out: usize,
    passed: u64,
}

impl Host {
    fn new(
        element: SignatureVerifier,
        packets: &[Vec<u8>],
        workers: Vec<SyncSender<Box<dyn OffloadTask>>>,
        done: Receiver<Box<dyn OffloadTask>>,
    ) -> Self {
        let key = HashKey::new([0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 3, 5]);
        let mut pool = Pool::new(key, 2 + PACKETS * (CONTENT_LEN + 1024) / CHUNK_LEN, PACKETS);
        let mut received = |wire: &Vec<u8>| {
            let packet = pool.copy_of(wire).expect("a buffer");
            decode(&mut pool, &packet).expect("a packet");
            packet
        };
        let packets = packets.iter().map(&mut received).collect();
        let (out, drops) = (Outbox::with_capacity(HELD), DropCounters::default());
        Host { element, pool, out, drops, packets, workers, done, given_out: 0, passed: 0 }
    }

    fn run(mut self) -> Measured {
        let (run, mut given) = (Run::start(), 0);
        while run.is_running() {
            for _ in 0..BATCH {
                let packet = self.packets.pop_front().expect("more than may be held");
                self.with(|element, context| {
                    element.process(Moment::START, In::Packet, packet, context)
                });
            }
            given += BATCH as u64;
            self.exchange_jobs();
        }
        while self.element.held() > 0 {
            self.exchange_jobs();
            if self.element.deadline().is_some() {
                self.with(|element, context| element.tick(Moment::START, context));
            }
        }
        let measured = run.end(given);
        assert_eq!(self.passed, given, "all packets are good");
        assert_eq!(
            self.element.counters().from_results,
            0,
            "each is verified, none known from before"
        );
        self.packets.drain(..).for_each(|packet| self.pool.release(packet));
        measured
    }

    /// Calls the verifier and collects the packets that leave it.
    fn with(&mut self, act: impl FnOnce(&mut SignatureVerifier, &mut Context<'_, Out>)) {
        let context =
            &mut Context { pool: &mut self.pool, out: &mut self.out, drops: &mut self.drops };
        act(&mut self.element, context);
        while let Some((port, packet)) = self.out.take() {
            self.passed += u64::from(port == Out::Valid);
            self.packets.push_back(packet);
        }
    }

    fn exchange_jobs(&mut self) {
        while let Ok(job) = self.done.try_recv() {
            self.given_out -= 1;
            self.with(|element, context| element.complete_task(Moment::START, job, context));
        }
        while self.given_out < self.workers.len() * JOBS
            && let Some(job) = self.element.take_task()
        {
            let mut untaken = Some(job);
            for worker in &self.workers {
                let Some(job) = untaken.take() else { break };
                match worker.try_send(job) {
                    Ok(()) => self.given_out += 1,
                    Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => {
                        untaken = Some(back)
                    }
                }
            }
            if let Some(mut job) = untaken {
                // All job queues are full: the host runs the job itself.
                job.run();
                self.with(|element, context| element.complete_task(Moment::START, job, context));
            }
        }
    }
}

/// Checks a signature over bytes.
type Check = Box<dyn Fn(&[u8], &[u8]) -> bool + Sync>;

/// Measures the library, with one thread per core.
fn library(signer: &Signer, packets: &[Vec<u8>], cores: usize) -> Measured {
    let check: Check = match signer {
        Signer::Digest => {
            Box::new(|signed, value| digest::digest(&digest::SHA256, signed).as_ref() == value)
        }
        Signer::Key(key) => match key.kind() {
            KeyKind::Hmac => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, HMAC_SECRET);
                Box::new(move |signed, value| hmac::verify(&key, signed, value).is_ok())
            }
            KeyKind::EcdsaP256 => by_public_key(key, &ECDSA_P256_SHA256_ASN1),
            KeyKind::Rsa2048 => by_public_key(key, &RSA_PKCS1_2048_8192_SHA256),
            KeyKind::Ed25519 => by_public_key(key, &ED25519),
        },
    };
    let pairs: Vec<(&[u8], &[u8])> = packets
        .iter()
        .map(|wire| {
            let data = Data::check(wire).expect("a Data");
            (data.signed_portion(), data.signature_value())
        })
        .collect();
    let run = Run::start();
    let count = || {
        let mut count = 0u64;
        while run.is_running() {
            for (signed, value) in pairs.iter().cycle().skip(count as usize % PACKETS).take(BATCH) {
                assert!(check(signed, value), "all packets are good");
            }
            count += BATCH as u64;
        }
        count
    };
    let counted: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a count")).sum()
    });
    run.end(counted)
}

fn by_public_key(key: &Key, algorithm: &'static dyn VerificationAlgorithm) -> Check {
    let public =
        ParsedPublicKey::new(algorithm, key.public_key().expect("a public half")).expect("a key");
    Box::new(move |signed, value| public.verify_sig(signed, value).is_ok())
}
